"""Copies, casts and fills: the ops whose gradient is another copy."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from nbgrad.base.tables import Table
from nbgrad.base.warn import warn_once
from nbgrad.core.arguments import before_guard
from nbgrad.core.op import LINEAR, Op
from nbgrad.core.plan import Kernel, number_type
from nbgrad.core.tensor import Tensor, empty, hooks, requires, wrap
from nbgrad.core.writes import check_write, rebase, written
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import apart, differentiable, quiet
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.dispatch.stanza import method, words_in_place
from nbgrad.expr.node import var
from nbgrad.expr.prims import ne
from nbgrad.history.record import written_by
from nbgrad.kernels.launch import FEW, PARALLEL_FROM
from nbgrad.memory import dtypes, layout, pinned
from nbgrad.memory.device import device as _device
from nbgrad.memory.device import settled as settled_device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.tape.modes import state

Fill = tuple[Kernel, float, float, Callable[[Any, Any], Any]]
_copies: Table[tuple[Spec, Spec], Kernel] = Table("ops.views.copy.copies", 4096)
_fills: Table[Spec, Fill] = Table("ops.views.copy.fills", 4096)
copy_of, fill_of = _copies.get, _fills.get
_bytes = np.dtype(np.uint8)
_X = var("x")
_HOST = _device("cpu")


def copy_memory(to: Tensor, source: Tensor) -> None:
    """Write the values of `source`, broadcast and cast, where `to` shows; no history, no count."""
    if to._spec.numel == 0:
        return
    k = copy_of((to._spec, source._spec)) or copying(to._spec, source._spec)
    k.launch(k.address, k.n, to._buf, source._buf)


def copying(to: Spec, source: Spec) -> Kernel:
    """What writes the values of a `source` to memory laid out as `to`."""
    if to.device is not source.device:
        return _copies.keep((to, source), _across(to, source))
    if to.dtype is source.dtype and to.dtype.kept and to.dtype.narrow:  # byte by byte, as NaN may have a sign
        to_byte, byte = (sp.like(sp.shape, sp.strides, dtypes.uint8) for sp in (to, source))
        return _copies.keep((to, source), copy_of((to_byte, byte)) or copying(to_byte, byte))
    to_bool = to.dtype is dtypes.bool_ and source.dtype is not dtypes.bool_
    body = ne(_X, 0) if to_bool else _X
    kind = source.dtype.kind
    if source.dtype is dtypes.uint64 and to.dtype.inexact:  # which no signed integer holds
        kind = to.dtype.to_real().kind
    made = Kernel.of("copy", (body,), ("x",), (), (source,), (to,), kind)
    return _copies.keep((to, source), made)


def _across(to: Spec, source: Spec) -> Kernel:
    """The same from one device to another."""
    if not to.backend.holds:
        return Kernel(0, to.backend.launch(2, "", 0), 0)
    if not source.backend.holds:
        source.backend.to_host(None, source)  # which refuses
    return Kernel(0, _crossing(to, source), 0)


def _crossing(to: Spec, source: Spec) -> Callable[..., None]:
    """Bytes go over as they lie; what is to lie otherwise, or to be cast, is so where it goes to."""
    there, gives, takes = source.on(to.device), source.backend, to.backend
    if there is to and layout.is_dense(to.shape, to.strides):
        return lambda _, n, buf, values: pinned.cross(takes, buf, gives, values, source.nbytes)
    k = copying(to, there)

    def launch(_: int, n: int, buf: Any, values: Any) -> None:
        over = takes.empty(source.nbytes)
        pinned.cross(takes, over, gives, values, source.nbytes)
        k.launch(k.address, k.n, buf, over)

    return launch


def _signed(value: Any) -> bool:
    """Whether a zero has a sign, in either part."""
    if value.__class__ is complex:
        return bool(np.signbit(value.real) or np.signbit(value.imag))
    return bool(np.signbit(value))


def fill_memory(t: Tensor, value: Any) -> None:
    sp = t._spec
    known = fill_of(sp)
    if (
        known is None or sp.numel > FEW
    ):  # of few a kernel that is there has cleared all before NumPy begins: 0.2 us, of 0.6
        zero = not value and (value.__class__ is int or not _signed(value))
        if zero and sp.extent == sp.numel < PARALLEL_FROM:
            sp.backend.clear(t._buf, sp.nbytes)
            return
    if not sp.numel:
        return
    k, low, high, fitting = known or filling(sp)
    if not (low <= value <= high if value.__class__ is float else value.__class__ is int and not value):
        value = fitting(value, sp.dtype)
    k.launch(k.address, k.n, t._buf, value)


def filling(sp: Spec) -> Fill:
    """What writes a number to memory laid out so, between which floats one is taken as it is, and what is made of any other."""
    d = sp.dtype
    real = d.is_floating_point
    number = complex if d.is_complex else float if real else int
    k = Kernel.of("fill", (_X,), ("x",), (), (number,), (sp,), d.kind)
    low, high = dtypes.limits(d) if real else (1.0, 0.0)
    fitting = dtypes.fitting
    if sp.numel == 1 and d.narrow:  # PyTorch converts it without a look: what is too large becomes inf
        low, high, fitting = -math.inf, math.inf, lambda value, d: float(value)
    if d is dtypes.uint64:  # given to a kernel as the integer with a sign of the same bits
        fitting = _as_signed
    return _fills.keep(sp, (k, low, high, fitting))


def _as_signed(value: Any, d: dtype) -> Any:
    value = dtypes.fitting(value, d)
    return value - 2**64 if value >= 2**63 else value


# Between these sizes calloc clears memory that was used before, on one thread; beyond, the system's pages come cleared.
_CLEARED_HERE = range(1 << 18, 1 << 25)


def zeros(sp: Spec) -> Tensor:
    nbytes = sp.nbytes
    return full(sp, 0.0) if nbytes in _CLEARED_HERE else wrap(sp.backend.zeros(nbytes), sp)


def full(sp: Spec, value: Any) -> Tensor:
    t = empty(sp)
    fill_memory(t, value)
    return t


def scalar(value: Any, d: dtype | None = None) -> Tensor:
    """A number as a 0-dim tensor of the dtype that it has by itself."""
    return full(spec(d or dtypes.number_dtype(value), (), None, _HOST), value)


# ---------------------------------------------------------------- copies


def clone_spec(sp: Spec) -> Spec:
    return sp.like(strides=layout.kept_strides(sp.shape, sp.strides))


def copier(source: Spec, to: Spec, start: int = 0, shown: Spec | None = None) -> Run:
    """A copy of what lies as `source` from an element on, laid out and cast to what `to` says, and read as `shown`."""
    made = to if shown is None else shown
    if to.numel == 0:
        return lambda t: empty(made)
    k, size, new_memory = copying(to, source), to.extent * to.itemsize, to.backend.empty
    look, skipped = to.backend.view, start * source.itemsize
    launch, address, n = k.launch, k.address, k.n

    def run(t: Tensor) -> Tensor:
        buf = new_memory(size)
        launch(address, n, buf, look(t._buf, skipped))
        return wrap(buf, made)

    def whole(t: Tensor) -> Tensor:
        out = empty(to)
        launch(address, n, out._buf, t._buf)
        out._spec = made
        return out

    return run if skipped else whole


@prepared("Clone", tangent=LINEAR, batch=lambda x: _clone(x), input=lambda g: g)
def _clone(input: Spec) -> Run:
    return copier(input, clone_spec(input))


@method
@settled
def clone(input: Tensor, *, memory_format: Any = None) -> Any:
    """A copy in memory of its own, laid out as `input` is, or as `memory_format` says. It has a history: the gradient goes through as it
    comes.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = x.clone()
    >>> y.sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """
    strides = laid_in(input._spec, memory_format)
    return call_of(_clone, input) if strides is None else call_of(_lay_out, input, strides=strides)


def laid_in(sp: Spec, memory_format: Any) -> Ints | None:
    """The strides of a copy in this format; None if it is to lie as what it is made of."""
    if memory_format is None or memory_format is layout.preserve_format:
        return None
    return layout.format_strides(tuple(sp.shape), memory_format)


@prepared("Clone", tangent=LINEAR, batch=lambda x: dense_copy(x), input=lambda g: g)
def dense_copy(input: Spec) -> Run:
    return copier(input, input.dense())


def _for_each(x: Tensor, strides: Ints) -> Ints:
    """How all examples of `x` lie, one after the other, where each lies so."""
    _, *shape = x.shape
    return (x._spec.plain.like(tuple(shape), strides).extent, *strides)


def _lay_each(x: Tensor, strides: Ints) -> Tensor:
    return _lay_out(x, strides=_for_each(x, strides))


@prepared("Clone", tangent=LINEAR, batch=_lay_each, input=lambda g: g)
def _lay_out(input: Spec, *, strides: Ints) -> Run:
    """The same values in memory as the strides say."""
    return copier(input, input.like(strides=strides))


def laid_like(sp: Spec, made: Spec) -> Run | None:
    """What copies a result, which lies as new tensors do, to the format that `sp` lies in; None if it lies so."""
    lies = layout.suggested_format(tuple(sp.shape), sp.strides)
    if lies is layout.contiguous_format or not made.numel:
        return None
    return copier(made, made.like(strides=layout.format_strides(made.shape, lies)))


def in_format_of(input: Tensor, t: Tensor) -> Tensor:
    """The same of tensors, as an op."""
    lies = layout.suggested_format(tuple(input.shape), input._spec.strides)
    if lies is layout.contiguous_format or input.ndim != t.ndim:
        return t
    strides = layout.format_strides(tuple(t.shape), lies)
    return t if t._spec.strides == strides else _lay_out(t, strides=strides)


hooks.laid_out = lambda t, strides: _lay_out(t, strides=tuple(strides))


@method
def contiguous(input: Tensor, *, memory_format: layout.memory_format = layout.contiguous_format) -> Tensor:
    """The tensor itself if its elements lie in memory in order (that of `memory_format`), else a copy in which they do. The gradient
    goes through as it comes.

    >>> x = torch.arange(6).view(2, 3).t()
    >>> x.contiguous().stride(), x.stride()
    ((2, 1), (1, 3))
    """
    if memory_format is layout.contiguous_format:
        return input if input._spec.contiguous else dense_copy(input)
    if input.is_contiguous(memory_format=memory_format):
        return input
    if memory_format is layout.preserve_format:
        raise RuntimeError("preserve memory format is unsupported by the contiguous operator")
    made: Tensor = clone(input, memory_format=memory_format)
    return made


@prepared(
    "ToCopy",
    tangent=LINEAR,
    batch=lambda x, **static: _convert_each(x, **static),
    input=lambda g, input_spec: part_in(g, input_spec.dtype, input_spec.device),
)
def _to_copy(input: Spec, *, dtype: dtype, device: _device, strides: Ints | None) -> Run:
    made = clone_spec(input) if strides is None else input.like(strides=strides)
    run = copier(input, made.like(dtype=dtype).on(device))
    if not _discards(dtype, input.dtype):
        return run

    def discarding(t: Tensor) -> Tensor:
        warn_once(_DISCARDED)
        made: Tensor = run(t)
        return made

    return discarding


_DISCARDED = "Casting complex values to real discards the imaginary part"


def _discards(to: dtype, source: dtype) -> builtins.bool:
    return source.is_complex and to is not dtypes.bool_ and not to.is_complex


def _convert_each(x: Tensor, *, strides: Ints | None, **where: Any) -> Tensor:
    return _to_copy(x, **where, strides=None if strides is None else _for_each(x, strides))


@settled
def _converted(input: Tensor, d: dtype) -> Any:
    return call_of(_to_copy, input, dtype=d, device=input._spec.device, strides=None)


def to_dtype(input: Tensor, d: dtype) -> Tensor:
    return input if input._spec.dtype is d else _converted(input, d)


def part_in(g: Tensor, d: dtype, where: _device | None = None) -> Tensor:
    """A gradient in the dtype of what it is for, and where that is; of what was real, the real part, which is no cast that discards
    something."""
    if g._spec.dtype.is_complex and not d.is_complex:
        g = clone(hooks.real(g))
    return moved(g, d, where or g._spec.device)


_PLACE_AND_DTYPE = {"device", "dtype"}


def _is_there(input: Any, place: Any) -> bool:
    """Whether a tensor is where a device, or the CPU's name, says."""
    if not isinstance(input, Tensor):
        return False
    there = input._spec.device
    return there is place or (
        place.__class__ is str and place == "cpu" and there.type == "cpu" and there.index is None
    )


def _to_a_dtype(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The short way of a call that names nothing but a dtype, or where the tensor is."""

    def short(*args: Any, **more: Any) -> Tensor:
        if len(args) == 2 and not more:
            d = args[1]
        elif len(args) == 3 and not more and _is_there(args[0], args[1]) and args[2].__class__ is dtype:
            d = args[2]
        elif len(args) == 1 and more.keys() == _PLACE_AND_DTYPE and _is_there(args[0], more["device"]):
            d = more["dtype"]
            if d.__class__ is not dtype:
                return slow(*args, **more)
        elif len(args) == 1 and [*more] == ["dtype"]:
            d = more["dtype"]
        else:
            return slow(*args, **more)
        input, kind = args[0], d.__class__
        if kind is Tensor and isinstance(input, Tensor) and d._spec.device is input._spec.device:
            d, kind = d._spec.dtype, dtype
        if kind is dtype and isinstance(input, Tensor):
            return input if input._spec.dtype is d else _converted(input, d)
        return input if _is_there(input, d) else slow(*args, **more)

    return short


def moved(input: Tensor, d: dtype, where: _device) -> Tensor:
    """In a dtype and on a device."""
    if input._spec.device is where:
        return to_dtype(input, d)
    return _to_copy(input, dtype=d, device=where, strides=None)


@method
@partial(before_guard, _to_a_dtype)
def to(
    input: Tensor,
    *args: Any,
    dtype: Any = None,
    device: Any = None,
    copy: bool = False,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """The tensor in another dtype, on another device, given as such or as those of a tensor, or in another `memory_format`; itself if
    nothing changes and `copy` is not set. The gradient is cast back to the dtype that the tensor has.

    >>> x = torch.ones(2, requires_grad=True)
    >>> x.to(torch.float64).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """
    flags = [a for a in args[1:] if isinstance(a, bool)]
    for k, a in enumerate(args):
        if isinstance(a, Tensor):
            dtype, device = a.dtype, a.device
        elif isinstance(a, (str, _device)) or (isinstance(a, int) and not isinstance(a, bool)):
            device = a
        elif isinstance(a, (bool, float)):
            dtype = dtype if k else dtypes.float64 if isinstance(a, float) else dtypes.bool_
        elif a is not None:
            dtype = a
    if non_blocking or any(flags[:1]):
        with pinned.hurrying():
            return to(
                input, dtype=dtype, device=device, copy=copy or any(flags[1:]), memory_format=memory_format
            )
    d = input._spec.dtype if dtype is None else dtypes.to_dtype(dtype)
    where = None if device is None else settled_device(_device(device))
    return _cast(input, d, memory_format, where, copy or any(flags[1:]))


def _cast(
    input: Tensor, d: dtype, memory_format: Any, where: _device | None = None, copy: builtins.bool = False
) -> Tensor:
    """What is so already stays, if it seems to lie in the format: also with gaps."""
    sp = input._spec
    where = sp.device if where is None else where
    strides = laid_in(sp, memory_format)
    lies = strides is None or layout.suggested_format(tuple(sp.shape), sp.strides) is memory_format
    if lies and sp.dtype is d and sp.device is where and not copy:
        return input
    return _to_copy(input, dtype=d, device=where, strides=strides)


def _caster(name: str, d: dtype) -> None:
    def cast(self: Tensor, *, memory_format: Any = None) -> Tensor:
        return to_dtype(self, d) if memory_format is None else _cast(self, d, memory_format)

    cast.__name__ = name
    cast.__doc__ = f"""The tensor cast to `{d!r}`, or itself if it is that. A gradient is cast back.

    >>> torch.tensor([0.0, 1.0]).{name}().dtype
    {d!r}
    """
    setattr(Tensor, name, cast)


for _name, _d in dict(
    byte=dtypes.uint8,
    char=dtypes.int8,
    short=dtypes.int16,
    int=dtypes.int32,
    long=dtypes.int64,
    half=dtypes.float16,
    bfloat16=dtypes.bfloat16,
    float=dtypes.float32,
    double=dtypes.float64,
    bool=dtypes.bool_,
    cfloat=dtypes.complex64,
    cdouble=dtypes.complex128,
).items():
    _caster(_name, _d)


@method
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False, *, memory_format: Any = None) -> Any:
    """Without a `dtype` the name of the tensor's type; with one (or its name) the tensor cast to it.

    >>> torch.ones(2).type(), torch.ones(2).type(torch.int64)
    ('torch.FloatTensor', tensor([1, 1]))
    """
    if dtype is None:
        kind = self._spec.device.type
        return self._spec.dtype.type_name.replace("torch.", "torch." if kind == "cpu" else f"torch.{kind}.")
    if dtype is Tensor:
        dtype = "torch.Tensor"
    elif isinstance(dtype, builtins.type):
        module = "" if dtype.__module__ == "builtins" else f"{dtype.__module__}."
        dtype = getattr(dtype, "type_name", f"{module}{dtype.__name__}")  # torch.HalfTensor has one
    if isinstance(dtype, str):
        named = {d.type_name: d for d in dtypes.all_dtypes} | {"torch.Tensor": dtypes.get_default_dtype()}
        known = named.get(dtype.replace("torch.cuda.", "torch."))
        if known is None:
            raise ValueError(f"invalid type: '{dtype}'")
        where = "cuda" if dtype.startswith("torch.cuda.") else "cpu"
        return _cast(
            self,
            known,
            memory_format,
            self.device if self.device.type == where else settled_device(_device(where)),
        )
    if not isinstance(dtype, dtypes.dtype):
        raise TypeError("dtype must be a type, str, or dtype object")
    return _cast(self, dtype, memory_format)


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in the dtype and on the device of `other`; itself if it is so already.

    >>> torch.ones(2).type_as(torch.tensor([1]))
    tensor([1, 1])
    """
    return moved(self, other._spec.dtype, other._spec.device)


@method
def cpu(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """The tensor in the CPU's memory; itself if it is there.

    >>> torch.ones(2).cpu()
    tensor([1., 1.])
    """
    return _cast(self, self._spec.dtype, memory_format, _HOST)


@method
def cuda(
    self: Tensor, device: Any = None, non_blocking: bool = False, *, memory_format: Any = None
) -> Tensor:
    """The tensor in the memory of a GPU, the current one unless it is named; where there is none it is refused in PyTorch's words.

    >>> torch.ones(2).cuda()
    Traceback (most recent call last):
    AssertionError: Torch not compiled with CUDA enabled
    """
    if non_blocking:
        with pinned.hurrying():
            return cuda(self, device, memory_format=memory_format)
    where = _device("cuda", device) if isinstance(device, int) else _device(device or "cuda")
    if where.type != "cuda":
        raise RuntimeError("Invalid device, must be cuda device")
    return _cast(self, self._spec.dtype, memory_format, settled_device(where))


# ---------------------------------------------------------------- writes


def _overwritten(node_name: str) -> Op:
    """The record of a write of `src` over all of `input`, under one of the names that PyTorch has for it."""
    return Op(_never_called, {"input": lambda g: zeros(g._spec.dense()), "src": _back}, node_name)


def _never_called(input: Tensor, src: Tensor) -> Tensor:
    raise AssertionError("a write is recorded, not called")


def _back(g: Tensor, src_spec: Spec) -> Tensor:
    if g._spec.shape != src_spec.shape:
        g = hooks.sum_to(g, src_spec.shape)
    return part_in(g, src_spec.dtype)


def _over_each(has: tuple[bool, bool], input: Tensor, src: Tensor) -> Tensor:
    size = tuple.__getitem__((input if has[0] else src).shape, 0)
    if not has[0]:
        input = hooks.expand(input, (size, *input.shape))
    if has[1]:
        n, *shape = src.shape
        src = hooks.reshape(src, (n, *(1,) * (input.ndim - 1 - len(shape)), *shape))
    return _over(input, src)


@differentiable(
    "CopyBackwards0", tangent=LINEAR, batch=_over_each, input=lambda g: zeros(g._spec.dense()), src=_back
)
def _over(input: Tensor, src: Tensor) -> Tensor:
    """What `input` becomes when `src` is written over it, as a value: what a transform makes of such a write."""
    out = empty(input._spec.dense())
    copy_memory(out, src)
    return out


def _blanked(node_name: str) -> Op:
    """The same for a write of a number."""
    return Op(_never_called_alone, {"input": lambda g: zeros(g._spec.dense())}, node_name)


def _never_called_alone(input: Tensor) -> Tensor:
    raise AssertionError("a write is recorded, not called")


copied, filled = _overwritten("CopyBackwards"), _overwritten("FillBackward3")
_filled_by_number, _zeroed = _blanked("FillBackward2"), _blanked("ZeroBackward0")


def _copied_before(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    known: Table[tuple[Spec, Spec], Kernel] = Table("ops.views.copy.copied", 4096)
    find = known.get

    def short(*args: Any, **more: Any) -> Tensor:
        if len(args) != 2 or more or not isinstance(args[1], Tensor):
            return slow(*args, **more)
        to, source = args
        k = find((to._spec, source._spec))
        if k is not None and quiet(to, source):
            k.launch(k.address, k.n, to._buf, source._buf)
            written(to)
            return to
        result = slow(to, source)
        if k is None and to._spec.__class__ is source._spec.__class__ is Spec and not to._spec.repeats:
            found = copy_of((to._spec, source._spec))
            if found is not None and not _discards(to._spec.dtype, source._spec.dtype):
                known.keep((to._spec, source._spec), found)
        return result

    return short


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What `nn.Module.load_state_dict` makes of an entry `other` for a parameter or buffer that is swapped for it (see
    `torch.__future__.set_swap_module_params_on_conversion`): its values in this tensor's memory, or with `assign` the entry's own
    memory; always a new tensor. Subclasses have their own way.

    >>> x = torch.zeros(2)
    >>> x.module_load(torch.ones(2, dtype=torch.float64)), x
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    return other.detach() if assign else self.copy_(other).detach()


@method
@partial(before_guard, _copied_before)
def copy_(self: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Write the elements of `other` into the tensor, spread to its shape and cast to its dtype; return it. The gradient goes to `other`,
    summed back to its shape; what was written over gets none.

    >>> torch.zeros(2, 2).copy_(torch.tensor([1, 2]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    if non_blocking:
        with pinned.hurrying():
            return copy_(self, other)
    if not isinstance(other, Tensor):
        if number_type(other) is None:
            raise TypeError(
                f"copy_(): argument 'other' (position 1) must be Tensor, not {other.__class__.__name__}"
            )
        other = scalar(other, dtypes.float64 if isinstance(other, float) else None)
    shape = layout.broadcast_shapes(self._spec.shape, other._spec.shape)
    layout.check_target(self._spec.shape, shape)
    if _discards(self._spec.dtype, other._spec.dtype):
        warn_once(_DISCARDED)
    if state.active and transforms.wrapped((self, other)):
        return transforms.inplace(_over, self, other)
    together = (
        self._storage is not None
        and other._storage is not None
        and other._storage.memory is self._storage.memory
    )
    # Onto itself: nothing to write, and so no matter if its elements overlap.
    same = other is self or (
        together and other._spec is self._spec and other.storage_offset() == self.storage_offset()
    )
    check_write(self, state.grad and (requires(self) or requires(other)), filled=same)
    if not same:
        copy_memory(self, apart(self, other.detach()) if together else other)
    return written_by(self, copied, (self, other), {})


@method
def fill_(self: Tensor, value: Any) -> Tensor:
    """Set every element to `value`, a number or a tensor of one element; return the tensor. What was there gets no gradient, the
    tensor `value` gets the sum of all.

    >>> torch.zeros(2, 2).fill_(7)
    tensor([[7., 7.],
            [7., 7.]])
    """
    if isinstance(value, Tensor):
        if value.dim():
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.dim()} dimensions."
            )
        if state.active and transforms.wrapped((self, value)):
            return transforms.inplace(_over, self, value)
        check_write(self, state.grad and (requires(self) or requires(value)))
        copy_memory(self, value)
        return written_by(self, filled, (self, value), {})
    if (value.__class__ is float or value.__class__ is int) and quiet(self):
        fill_memory(self, value)
        written(self)
        return self
    if number_type(value) is None:
        raise TypeError(
            f"fill_(): argument 'value' (position 1) must be Number, not {value.__class__.__name__}"
        )
    if state.active and transforms.wrapped((self,)):
        return transforms.inplace(_over, self, scalar(value, self._spec.dtype))
    check_write(self, state.grad and requires(self), filled=True)
    fill_memory(self, value)
    return written_by(self, _filled_by_number, (self,), {})


@method
def zero_(self: Tensor) -> Tensor:
    """Set every element to 0; return the tensor.

    >>> torch.ones(2).zero_()
    tensor([0., 0.])
    """
    if quiet(self):
        sp, storage = self._spec, self._storage
        known = fill_of(sp)
        if known is None or storage is None or sp.numel > FEW:
            fill_memory(self, 0)
            written(self)
        else:  # the same, in line
            k = known[0]
            k.launch(k.address, k.n, self._buf, 0)
            storage.version += 1
        return self
    if state.active and transforms.wrapped((self,)):
        return fill_(self, 0)
    check_write(self, state.grad and requires(self), filled=True)
    fill_memory(self, 0)
    return written_by(self, _zeroed, (self,), {})


def in_place(
    function: Callable[..., Tensor],
    meets: Callable[[Tensor, Tensor], Any] | None = None,
    compute: Callable[..., Tensor] | None = None,
    short: Callable[[Callable[..., Tensor]], Callable[..., Tensor]] | None = None,
) -> None:
    """Make `Tensor.f_` of a function that is no elementwise op: what it gives is written over the first operand, with its history.
    The function is given a copy, as its rules may read what is overwritten. `meets` refuses another operand that PyTorch refuses
    in the same memory; `compute` is what it comes to, where that is not the function, and `short` a way to stand in front."""
    name = function.__name__.removeprefix("_t_") + "_"
    compute = compute or function

    def method(self: Tensor, *args: Any, **static: Any) -> Tensor:
        operands = [self, *[a for a in (*args, *static.values()) if isinstance(a, Tensor)]]
        if not self._spec.repeats and quiet(*operands):  # nobody reads what is overwritten
            return over(self, compute(self, *args, **static))
        if state.active and transforms.wrapped(operands):
            return transforms.inplace(compute, self, *args, **static)
        check_write(self, state.grad and any(requires(t) for t in operands))
        if meets is not None:
            for other in operands[1:]:
                meets(self, other)
        before = _clone(self.detach())
        before._node, before._nr, before._rg = self._node, self._nr, 1 if self._node is not None else 0
        return over(self, compute(before, *args, **static))

    def over(self: Tensor, result: Tensor) -> Tensor:
        if result._spec.shape != self._spec.shape:
            raise RuntimeError(
                f"Bad in-place call: input tensor size {list(self.shape)} and output tensor size {list(result.shape)} "
                "should match"
            )
        copy_memory(self, result)
        if result._node is None:
            written(self)
        else:
            rebase(self, result._node, result._nr)
        return self

    method.__name__ = method.__qualname__ = name
    method.__doc__ = words_in_place(function)
    method.__signature__ = signature(function)  # type: ignore[attr-defined]
    setattr(Tensor, name, method if short is None else short(method))


hooks.copier = copier
hooks.clone, hooks.contiguous, hooks.copy_, hooks.copy_memory = _clone, contiguous, copy_, copy_memory
hooks.to_dtype, hooks.part_in, hooks.zeros, hooks.scalar = to_dtype, part_in, zeros, scalar
hooks.ones_like = lambda t: full(t._spec.dense(), 1)
__all__ = ["clone"]
