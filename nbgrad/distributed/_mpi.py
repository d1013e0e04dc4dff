"""What MPI sees of a tensor, and what it does with it. mpi4py is imported when the first group of processes is made, not before.

Promises the collectives: `seen(t)` is a tensor's own memory with its count and MPI's name of its dtype, so nothing is copied of what is
contiguous on the CPU; `reading` and `writing` give what stands in for other tensors, and what brings their results back; `reduction`
is MPI's of a dtype, or one of our own kernels where MPI has none (float16 and bfloat16). `Work` is what has been begun.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from datetime import timedelta
from enum import Enum
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.refusals import NO_VALUES, OVERLAP
from nbgrad.core.tensor import Tensor, empty, hooks, wrap
from nbgrad.core.writes import written
from nbgrad.futures import Future
from nbgrad.memory import backend, dtypes
from nbgrad.memory.device import device
from nbgrad.memory.storage import Batched, spec
from nbgrad.tape.modes import state

MISSING = (
    "Distributed package doesn't have MPI built in. mpi4py and a library of MPI serve it: `pip install nbgrad[mpi]` brings both "
    "(the packages mpi4py and mpich)."
)


def installed() -> bool:
    return importlib.util.find_spec("mpi4py") is not None


@cached(1)
def mpi() -> Any:
    """MPI, which begins when it is first asked for."""
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py finds no library of MPI
        raise RuntimeError(MISSING) from error
    return MPI


# ---------------------------------------------------------------- memory


@cached(16)
def _type(code: str) -> Any:
    MPI = mpi()
    named = dict(f8="DOUBLE", f4="FLOAT", i8="INT64_T", i4="INT32_T", i2="INT16_T", i1="INT8_T", u1="UINT8_T")
    named |= dict(b1="UINT8_T", f2="UINT16_T", g2="UINT16_T")
    return getattr(MPI, named[code])


def seen(t: Tensor, start: int = 0, count: int | None = None) -> list[Any]:
    """The memory of a tensor that `reading` or `writing` gave, or of it from one element on, by as many as are one process's."""
    sp = t._spec
    size = sp.itemsize
    memory = t._buf[start * size :] if start else t._buf
    return [memory, sp.numel if count is None else count, _type(sp.dtype.code)]


def _check_values(t: Tensor) -> None:
    if type(t._buf) is Batched:
        raise RuntimeError(NO_VALUES)
    if t._spec.backend is backend.meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")


def reading(t: Tensor) -> Tensor:
    """`t` where its memory can be read as it is; else a copy on the CPU."""
    if t._spec.contiguous and t._spec.backend is backend.cpu and type(t._buf) is not Batched:
        return t
    _check_values(t)
    plain = t.detach()
    return plain.cpu().contiguous()


def writing(t: Tensor, whole: bool = True) -> tuple[Tensor, Callable[[], None]]:
    """Where MPI is to write what `t` shall be, which then is called. It holds the values of `t` unless all are written (`whole`).

    The write is counted, which PyTorch's is not: who has saved the values for a backward is told that they are gone."""
    sp = t._spec
    if sp.contiguous and sp.backend is backend.cpu and type(t._buf) is not Batched:
        return t, lambda: written(t)
    _check_values(t)
    if sp.repeats:
        raise RuntimeError(OVERLAP)
    plain = t.detach()
    place = empty(spec(sp.dtype, tuple(sp.shape), None, device("cpu"))) if whole else reading(t)

    def bring() -> None:
        if sp.backend is backend.cpu:
            hooks.copy_memory(plain, place)
        else:
            plain.copy_(place)
        written(t)

    return place, bring


def room(count: int, dtype: Any) -> Tensor:
    return empty(spec(dtype, (count,), None, device("cpu")))


# ---------------------------------------------------------------- reductions


class RedOpType(Enum):
    """How what the processes have is put together."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class ReduceOp:
    """How what the processes have is put together: SUM, AVG, PRODUCT, MIN, MAX; of integers also bit by bit BAND, BOR, BXOR.

    >>> torch.distributed.ReduceOp.SUM
    <RedOpType.SUM: 0>
    """

    RedOpType = RedOpType
    SUM, AVG, PRODUCT, MIN, MAX = (
        RedOpType.SUM,
        RedOpType.AVG,
        RedOpType.PRODUCT,
        RedOpType.MIN,
        RedOpType.MAX,
    )
    BAND, BOR, BXOR, PREMUL_SUM = RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR, RedOpType.PREMUL_SUM


_BITWISE = (RedOpType.BAND, RedOpType.BOR, RedOpType.BXOR)
_OF_BOOL = {
    RedOpType.SUM: RedOpType.BOR,
    RedOpType.PRODUCT: RedOpType.BAND,
}  # as sums of bytes would run over


def reduction(op: Any, dtype: dtypes.dtype) -> Any:
    """MPI's operation; AVG is a sum that whoever asks divides."""
    if not isinstance(op, RedOpType):
        raise TypeError(
            "(): incompatible function arguments. The following argument types are supported:\n    1. (self: "
            "torch._C._distributed_c10d.AllreduceOptions, arg0: torch._C._distributed_c10d.ReduceOp) -> None\n\n"
            f"Invoked with: {op!r}"
        )
    return _reduction(op, dtype)


@cached(256)
def _reduction(op: RedOpType, dtype: dtypes.dtype) -> Any:
    if op is RedOpType.PREMUL_SUM:
        raise RuntimeError("Cannot use ReduceOp.PREMUL_SUM with MPI")
    if op is RedOpType.AVG and not dtype.is_floating_point:
        raise RuntimeError(f"result type Float can't be cast to the desired output type {dtype.scalar_name}")
    if op in _BITWISE and dtype.is_floating_point:
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if dtype is dtypes.bool:
        op = _OF_BOOL.get(op, op)
    elif op is RedOpType.AVG:
        op = RedOpType.SUM
    return _own(op, dtype) if dtype.narrow else getattr(mpi(), op.name.replace("PRODUCT", "PROD"))


@cached(16)
def _own(op: RedOpType, dtype: dtypes.dtype) -> Any:
    """A reduction of a dtype of 16 bits, whose sums are rounded as those of tensors are."""
    import numpy as np

    from nbgrad.ops.pointwise.arithmetic import mul
    from nbgrad.ops.pointwise.choices import maximum, minimum
    from nbgrad.ops.pointwise.operators import add

    compute = {"SUM": add, "PRODUCT": mul, "MIN": minimum, "MAX": maximum}[op.name]
    cpu = device("cpu")

    def combine(theirs: Any, ours: Any, datatype: Any) -> None:
        memory = [np.frombuffer(each, np.uint8) for each in (theirs, ours)]
        one = spec(dtype, (len(memory[0]) // 2,), None, cpu)
        a, b = (wrap(each, one) for each in memory)
        compute(a, b, out=b)

    return mpi().Op.Create(combine, commute=True)


# ---------------------------------------------------------------- what has been begun


class _Coming(Future[Any]):
    """The future of a work: MPI goes on only while it is called, so who waits calls it."""

    def __init__(self, drive: Callable[[bool], bool]) -> None:
        super().__init__()
        self._drive = drive

    def wait(self) -> Any:
        self._drive(True)
        return super().wait()

    def done(self) -> bool:
        return super().done() or self._drive(False)

    def then(self, callback: Callable[[Future[Any]], Any]) -> Future[Any]:
        inner = super().then(callback)
        after = _Coming(lambda wait: self._drive(wait))
        inner._call(lambda done: after._complete(done._result, done._error))
        return after


def unrecorded(finish: Callable[[], None]) -> None:
    """A copy is nothing to record. (A `no_grad` block would take as long as all else that is done for a collective.)"""
    grad, state.grad = state.grad, False
    try:
        finish()
    finally:
        state.grad = grad


class Work:
    """A collective that has been begun with `async_op=True`: `wait()` returns when it is done, and its tensors are to be left alone
    until then.

    >>> x = torch.ones(2)
    >>> if torch.distributed.is_initialized():
    ...     work = torch.distributed.all_reduce(x, async_op=True)
    ...     work.wait()
    """

    def __init__(
        self,
        request: Any,
        finish: Callable[[], None],
        result: list[Tensor],
        told: Callable[[], None] | None = None,
    ) -> None:
        self._request, self._finish, self._result = request, finish, result
        self._told = told  # to a profile, when it has come
        self._done, self._source = False, -1
        self._error: Exception | None = None
        self._future: _Coming | None = None
        if _left:
            _left[:] = [work for work in _left if not work._drive(False)]

    def __del__(self) -> None:
        """Nobody waits for it, and MPI reads and writes its memory all the same: it is kept until that has an end."""
        if not getattr(self, "_done", True):
            _left.append(self)

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Return when it is done."""
        if not self._done:
            if timeout is not None and timeout.total_seconds() > 0:
                if not within(self._request, timeout.total_seconds()):
                    raise RuntimeError("Wait timeout")
                self._end()
            else:
                self._drive(True)
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether it is done."""
        return self._done or self._drive(False)

    def is_success(self) -> bool:
        """Whether it is done, and well."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """What went wrong."""
        return self._error

    def synchronize(self) -> None:
        """As `wait`."""
        self.wait()

    def source_rank(self) -> int:
        """From whom a message came."""
        return self._source

    _source_rank = source_rank

    def result(self) -> list[Tensor]:
        """The tensors that it wrote to."""
        return self._result

    def get_future(self) -> Future[Any]:
        """Its tensors, as a future."""
        if self._future is None:
            self._future = _Coming(self._drive)
            if self._done:
                self._tell()
        return self._future

    def _drive(self, wait: bool) -> bool:
        if self._done:
            return True
        status = mpi().Status()
        try:
            if wait:
                self._request.Wait(status)
            elif not self._request.Test(status):
                return False
        except Exception as error:
            self._error = error
        self._source = status.Get_source()
        self._end()
        return True

    def _end(self) -> None:
        self._done = True
        if self._error is None:
            unrecorded(self._finish)
        if self._told is not None:
            self._told()
        self._tell()

    def _tell(self) -> None:
        if self._future is not None and not self._future._done:
            self._future._complete(None if self._error else self._result, self._error)


_left: list[Work] = []  # those under way that nobody has


def within(request: Any, seconds: float) -> bool:
    """Whether it is done before the time is over."""
    end = time.monotonic() + seconds
    pause = 0.0
    while not request.Test():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(pause + 1e-5, 1e-3)
    return True
