"""PyTorch's `torch.futures`: values that are still to come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from nbgrad.memory.device import device

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that somebody will set, to wait for and to go on from.

    >>> coming = torch.futures.Future()
    >>> after = coming.then(lambda done: done.wait() + 1)
    >>> coming.set_result(2)
    >>> after.wait()
    3
    """

    def __init__(self, *, devices: Sequence[int | str | device] | None = None) -> None:
        for named in devices or ():
            where = device(named)
            if where.index is None:
                raise ValueError(f"Expected devices to have indices, got {where}")
        self._come = threading.Condition()
        self._done = False
        self._result: Any = None
        self._error: Exception | None = None
        self._callbacks: list[Callable[[Future[T]], Any]] = []

    def done(self) -> bool:
        """Whether the value, or an exception in its place, is there.

        >>> torch.futures.Future().done()
        False
        """
        return self._done

    def wait(self) -> T:
        """The value, as soon as it is there; the exception that was set in its place is raised.

        >>> coming = torch.futures.Future()
        >>> coming.set_exception(ValueError("none"))
        >>> coming.wait()
        Traceback (most recent call last):
        ValueError: none
        """
        with self._come:
            self._come.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """The value, which must be there.

        >>> coming = torch.futures.Future()
        >>> coming.set_result("here")
        >>> coming.value()
        'here'
        """
        if not self._done:
            raise RuntimeError("the Future has no value yet: wait() for it")
        if self._error is not None:
            raise self._error
        result: T = self._result
        return result

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """What a function will make of this future when it has come: another one. An exception in it becomes a RuntimeError there.

        >>> coming = torch.futures.Future()
        >>> coming.set_result(2)
        >>> coming.then(lambda done: done.value() * 3).wait()
        6
        """
        if not callable(callback):
            raise TypeError("then(): incompatible function arguments: the callback must be callable")
        after: Future[S] = Future()

        def run(done: Future[T]) -> None:
            try:
                made = callback(done)
            except Exception as error:
                told = RuntimeError(
                    f"Got the following error when running the callback: {type(error).__name__}: {error}"
                )
                told.__cause__ = error
                after._complete(None, told)
            else:
                after.set_result(made)

        self._call(run)
        return after

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Let a function be called with this future when it has come, or now if it has. What the function raises is lost.

        >>> coming = torch.futures.Future()
        >>> coming.add_done_callback(lambda done: print(done.value()))
        >>> coming.set_result("come")
        come
        """

        def run(done: Future[T]) -> None:
            try:
                callback(done)
            except Exception:
                import logging

                logging.getLogger("torch.futures").exception("a callback of a Future failed")

        self._call(run)

    def set_result(self, result: T) -> None:
        """Set the value, once.

        >>> coming = torch.futures.Future()
        >>> coming.set_result(1)
        >>> coming.set_result(2)
        Traceback (most recent call last):
        RuntimeError: Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once.
        """
        self._complete(result, None)

    def set_exception(self, result: Any) -> None:
        """Set an exception in the value's place.

        >>> coming = torch.futures.Future()
        >>> coming.set_exception(KeyError("none"))
        >>> coming.done()
        True
        """
        if not isinstance(result, Exception):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._complete(None, result)

    def _complete(self, result: Any, error: Exception | None) -> None:
        with self._come:
            if self._done:
                raise RuntimeError(
                    "Attempting to mark a completed Future as complete again. Note that a Future can only be marked completed once."
                )
            self._result, self._error, self._done = result, error, True
            callbacks, self._callbacks = self._callbacks, []
            self._come.notify_all()
        for callback in callbacks:
            callback(self)

    def _call(self, callback: Callable[[Future[T]], Any]) -> None:
        with self._come:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def __reduce__(self) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future")


def collect_all(futures: Sequence[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future of the list of these, which has come when all of them have. If one failed, so does it.

    >>> one = torch.futures.Future()
    >>> both = torch.futures.collect_all([one])
    >>> one.set_result(1)
    >>> both.wait()[0].value()
    1
    """
    every = list(futures)
    together: Future[list[Future[Any]]] = Future()
    left = [len(every)]
    lock = threading.Lock()

    def one(_: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            failed = next((f._error for f in every if f._error is not None), None)
            together._complete(None if failed else every, failed)

    for future in every:
        if not isinstance(future, Future):
            raise TypeError(
                f"collect_all(): incompatible function arguments: expected futures, got {type(future).__name__}"
            )
    if not every:
        together.set_result([])
    for future in every:
        future._call(one)
    return together


def wait_all(futures: Sequence[Future[Any]]) -> list[Any]:
    """The values of all of these, when they have come.

    >>> one = torch.futures.Future()
    >>> one.set_result(1)
    >>> torch.futures.wait_all([one])
    [1]
    """
    return [future.wait() for future in collect_all(futures).wait()]


__all__ = ["Future", "collect_all", "wait_all"]
