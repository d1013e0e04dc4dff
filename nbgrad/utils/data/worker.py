"""Processes that read batches ahead of the one that asks for them.

Promises the loader that batches come in the order of the sampler, however long each takes, and that what is raised in a worker
is raised where its batch is asked for. A worker answers its tasks one after the other, through a pipe of its own: so its end,
wanted or not, is seen there, and the next batch is always the next answer of a known worker.
"""

from __future__ import annotations

import os
import pickle
import queue
import random
import traceback
import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

import numpy as np

from nbgrad.kernels.launch import set_num_threads
from nbgrad.ops.make.generator import default_generator
from nbgrad.utils.data._fetch import Fetcher

_LOOK = 5.0  # seconds until a worker looks whether its parent is still there
_PATIENCE = 1.0  # and until one that is told to end is made to
_END, _AGAIN = "end", "again"  # of a stream; a new pass


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """What `get_worker_info()` tells in a worker."""

    id: int
    num_workers: int
    seed: int
    dataset: Any
    rng: object = None
    worker_method: str = "multiprocessing"


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker: which one it is (`id`), of how many (`num_workers`), its `seed` and its copy of the `dataset`. Elsewhere None.

    >>> torch.utils.data.get_worker_info() is None
    True
    """
    return _info


class Failure:
    """An exception on its way from a worker, as its type and text."""

    def __init__(self, error: Exception, worker: int) -> None:
        self.kind = type(error)
        self.text = (
            f"Caught {self.kind.__name__} in DataLoader worker process {worker}.\n"
            f"Original {''.join(traceback.format_exception(error))}"
        )

    def error(self) -> Exception:
        if self.kind is KeyError:
            return KeyError(_Text(self.text))
        try:
            return self.kind(self.text)
        except Exception:  # a type that is made of other arguments
            return RuntimeError(self.text)


class _Text(str):
    """Shown by KeyError as it is, where another text would be quoted."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """NumPy's seed in a worker."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    state: list[int] = np.random.SeedSequence(entropy).generate_state(4).tolist()
    return state


def _work(info: WorkerInfo, how: tuple[Any, ...], init: Any, tasks: Any, answers: Any, parent: int) -> None:
    """What a worker does until it is told None, or its parent is gone."""
    global _info
    _info = info
    set_num_threads(1)
    random.seed(info.seed)
    default_generator.manual_seed(info.seed)
    np.random.seed(_generate_state(info.seed - info.id, info.id))
    fetcher: Any = None
    failed: Failure | None = None
    try:
        if init is not None:
            init(info.id)
    except Exception as error:
        failed = Failure(error, info.id)
    while True:
        try:
            task = tasks.get(timeout=_LOOK)
        except queue.Empty:
            if os.getppid() != parent:
                return
            continue
        if task is None:
            return
        if task == _AGAIN:
            try:
                fetcher = Fetcher(info.dataset, *how)
            except Exception as error:
                failed = failed or Failure(error, info.id)
            continue
        try:
            answer: tuple[str | None, Any] = (None, failed if failed is not None else fetcher(task[0]))
            failed = None
        except StopIteration:
            answer = (_END, None)
        except Exception as error:
            answer = (None, Failure(error, info.id))
        try:
            # By copy: what torch.multiprocessing lays in shared memory is there for as long as who sent it.
            answers.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
        except BrokenPipeError:  # nobody wants it any more
            return
        except Exception as error:  # what cannot be pickled
            answers.send((None, Failure(error, info.id)))


class Workers:
    """The processes of a loader, and the tasks that they have been given."""

    def __init__(self, loader: Any, how: tuple[Any, ...], seed: int) -> None:
        if loader.prefetch_factor <= 0:
            raise AssertionError("prefetch_factor must be greater than 0 for MultiProcessingDataLoaderIter")
        context = loader.multiprocessing_context
        if context is None:
            import multiprocessing as context
        self.timeout, self.in_order, self.ahead = loader.timeout, loader.in_order, loader.prefetch_factor
        self.processes: list[Any] = []
        self.tasks: list[Any] = []
        self.answers: list[Any] = []
        self.stop = weakref.finalize(self, _stop, os.getpid(), self.processes, self.tasks, self.answers)
        for k in range(loader.num_workers):
            info = WorkerInfo(k, loader.num_workers, seed + k, loader.dataset)
            tasks, (mine, theirs) = context.Queue(), context.Pipe(duplex=False)
            tasks.cancel_join_thread()
            arguments = (info, how, loader.worker_init_fn, tasks, theirs, os.getpid())
            process = context.Process(target=_work, args=arguments, daemon=True)
            process.start()
            theirs.close()  # the worker's is the only one now: its death is the end of the pipe
            self.processes.append(process)
            self.tasks.append(tasks)
            self.answers.append(mine)
        self.given: deque[int] = deque()  # the workers of tasks that are not answered, in order

    def begin(self, indices: Iterator[Any]) -> None:
        """A pass over the dataset; what is left of an earlier one is dropped."""
        while self.given:
            self._answer()
        self.indices, self.turn = indices, 0
        self.going = [True] * len(self.processes)
        for tasks in self.tasks:
            tasks.put(_AGAIN)
        for _ in range(self.ahead * len(self.processes)):
            self._give()

    def _give(self) -> None:
        going = [k for k, there in enumerate(self.going) if there]
        index = next(self.indices, _END) if going else _END
        if index is _END:
            return
        if self.in_order:
            while not self.going[self.turn]:
                self.turn = (self.turn + 1) % len(self.going)
            worker = self.turn
            self.turn = (worker + 1) % len(self.going)
        else:
            worker = min(going, key=self.given.count)
        self.tasks[worker].put((index,))
        self.given.append(worker)

    def _answer(self) -> tuple[int, Any]:
        """The next answer, and whose it is."""
        among = [self.given[0]] if self.in_order else sorted(set(self.given))
        ready = wait([self.answers[k] for k in among], self.timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {self.timeout} seconds")
        worker = next(k for k in among if self.answers[k] in ready)
        try:
            answer = self.answers[worker].recv()
        except EOFError as error:
            pid = self.processes[worker].pid
            raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly") from error
        self.given.remove(worker)
        return worker, answer

    def next(self) -> Any:
        while self.given:
            worker, (end, batch) = self._answer()
            if end is not None:
                self.going[worker] = False
            self._give()
            if isinstance(batch, Failure):
                raise batch.error()
            if end is None:
                return batch
        raise StopIteration


def _stop(owner: int, processes: list[Any], tasks: list[Any], answers: list[Any]) -> None:
    if os.getpid() != owner:  # a forked process has only a copy
        return
    for each in tasks:
        each.put(None)
        each.close()
    for process, pipe in zip(processes, answers):
        pipe.close()  # a worker that is still writing ends with it
        process.join(_PATIENCE)
        if process.is_alive():
            process.terminate()
            process.join()


__all__ = ["WorkerInfo", "Workers", "get_worker_info"]
