"""A state of several processes in a directory: one file for each process, and one that says what is where.

Promises that a checkpoint is there whole or is as it was before: files have new names, are forced to disk, and count when the last one,
`.metadata`, has taken its place. What all processes have is written once, by one of them, in turns of size; of what is shared out (the
state of a ZeroRedundancyOptimizer) each writes its own. So it does not matter how many processes read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.distributed._groups import Group, chosen, is_initialized
from nbgrad.distributed.optim.zero_redundancy_optimizer import Part, ZeroRedundancyOptimizer
from nbgrad.exchange import files

_INDEX, _SUFFIX = ".metadata", ".distcp"
Path = tuple[Any, ...]


class CheckpointException(RuntimeError):
    """A checkpoint that is not there, or has not what was asked for.

    >>> issubclass(torch.distributed.checkpoint.CheckpointException, Exception)
    True
    """


class _Alone:
    """A process that works with no other."""

    def allgather(self, value: Any) -> list[Any]:
        return [value]

    def bcast(self, value: Any, root: int) -> Any:
        return value

    def barrier(self) -> None:
        pass

    def Get_rank(self) -> int:
        return 0


def _comm(group: Group, alone: bool) -> Any:
    return _Alone() if alone or not is_initialized() else chosen(group).comm


def _state_of(value: Any) -> Any:
    if isinstance(value, ZeroRedundancyOptimizer):
        return value.shared_state_dict()
    has = callable(getattr(value, "state_dict", None)) and callable(getattr(value, "load_state_dict", None))
    return value.state_dict() if has else value


def _leaves(value: Any, path: Path = (), own: bool = False) -> Iterator[tuple[Path, Any, bool]]:
    """Everything in dicts and lists, by the keys that lead there, and whether it is this process's own."""
    value = _state_of(value)
    inside = value.items() if isinstance(value, dict) else enumerate(value) if type(value) is list else None
    if inside is None or not value:
        if not (own and value == {}):
            yield path, value, own
        return
    for key, each in inside:
        yield from _leaves(each, (*path, key), own or (isinstance(value, Part) and isinstance(each, Part)))


def _write(directory: str, name: str, what: Any) -> None:
    part = os.path.join(directory, f"{name}.part")
    with open(part, "wb") as f:
        files.save(what, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(part, os.path.join(directory, name))


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str],
    process_group: Group = None,
    no_dist: bool = False,
) -> None:
    """Keep tensors, numbers, and what has a `state_dict` (modules, optimisers), in dicts and lists, in the directory `checkpoint_id`. Every
    process calls it; what all have, one writes.

    >>> import tempfile
    >>> state = {"x": torch.ones(2), "step": 3}
    >>> found = {"x": torch.zeros(2), "step": 0}
    >>> with tempfile.TemporaryDirectory() as place:
    ...     torch.distributed.checkpoint.save(state, checkpoint_id=place)
    ...     torch.distributed.checkpoint.load(found, checkpoint_id=place)
    >>> found["x"]
    tensor([1., 1.])
    """
    comm, directory = _comm(process_group, no_dist), os.fspath(checkpoint_id)
    rank = comm.Get_rank()
    mine = {path: (value, own) for path, value, own in _leaves(state_dict)}
    told = [(p, v.nbytes if isinstance(v, Tensor) else 0, own) for p, (v, own) in mine.items()]
    every = comm.allgather(told)
    holders: dict[Path, list[int]] = {}
    sizes: dict[Path, int] = {}
    for who, theirs in enumerate(every):
        for path, size, own in theirs:
            holders.setdefault(path, []).append(who)
            sizes[path] = size
            if own:
                holders[path] = [who]
    loads, owner = [0] * len(every), {}
    for path, having in holders.items():
        at = owner[path] = min(having, key=lambda who: (loads[who], who))
        loads[at] += sizes[path]
    os.makedirs(directory, exist_ok=True)
    token = comm.bcast(os.urandom(4).hex() if rank == 0 else None, 0)
    names = [f"__{k}_{token}{_SUFFIX}" for k in range(len(every))]
    held = {path: _copied(value) for path, (value, _) in mine.items() if owner[path] == rank}
    _write(directory, names[rank], held)
    comm.barrier()
    if rank == 0:
        _write(directory, _INDEX, {path: names[k] for path, k in owner.items()})
        for name in os.listdir(directory):
            if name.endswith((_SUFFIX, ".part")) and name not in names:
                with suppress(OSError):
                    os.unlink(os.path.join(directory, name))
    comm.barrier()


def _copied(value: Any) -> Any:
    """A tensor with as much memory as it shows: of a view a file would hold all that it is part of."""
    return value.detach().clone() if isinstance(value, Tensor) else value


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: str | os.PathLike[str],
    process_group: Group = None,
    no_dist: bool = False,
) -> None:
    """Bring back what `save` has kept: tensors are written to, modules and optimisers load their state, all else is put in its place.
    There may be other processes, and more or fewer, than those that saved it.

    >>> torch.distributed.checkpoint.load({"x": torch.zeros(2)}, checkpoint_id="nowhere")
    Traceback (most recent call last):
    nbgrad.distributed.checkpoint._files.CheckpointException: there is no checkpoint in nowhere
    """
    comm, directory = _comm(process_group, no_dist), os.fspath(checkpoint_id)
    comm.barrier()
    try:
        index: dict[Path, str] = files.load(os.path.join(directory, _INDEX))
    except FileNotFoundError:
        raise CheckpointException(f"there is no checkpoint in {directory}") from None
    _Reader(directory, index).fill(state_dict, ())
    comm.barrier()


class _Reader:
    def __init__(self, directory: str, index: dict[Path, str]) -> None:
        self.directory, self.index = directory, index
        self.open: dict[str, dict[Path, Any]] = {}

    def value(self, path: Path) -> Any:
        name = self.index[path]
        if name not in self.open:
            self.open[name] = files.load(os.path.join(self.directory, name))
        return self.open[name][path]

    def fill(self, state: Any, path: Path) -> None:
        for key in list(state) if isinstance(state, dict) else range(len(state)):
            at, now = (*path, key), state[key]
            if callable(getattr(now, "load_state_dict", None)):
                now.load_state_dict(self.tree(at))
            elif isinstance(now, dict | list) and now:
                self.fill(now, at)
            elif at not in self.index:
                if not any(p[: len(at)] == at for p in self.index):
                    raise CheckpointException(
                        f"Missing key in checkpoint state_dict: {'.'.join(map(str, at))}."
                    )
                state[key] = self.tree(at)
            elif isinstance(now, Tensor):
                self._write(now, self.value(at), at)
            else:
                state[key] = self.value(at)

    def _write(self, to: Tensor, found: Tensor, path: Path) -> None:
        if found.shape != to.shape:
            raise CheckpointException(
                f"Size mismatch between saved {found.shape} and current: {to.shape} for {'.'.join(map(str, path))}"
            )
        to.detach().copy_(found)

    def tree(self, path: Path) -> Any:
        """All that lies behind it, as dicts; keys that count from 0 make a list where `save` had one."""
        if path in self.index:
            return self.value(path)
        keys = dict.fromkeys(p[len(path)] for p in self.index if p[: len(path)] == path)
        if not keys:
            raise CheckpointException(f"Missing key in checkpoint state_dict: {'.'.join(map(str, path))}.")
        found = {key: self.tree((*path, key)) for key in keys}
        return list(found.values()) if path[-1:] in (("param_groups",), ("params",)) else found
