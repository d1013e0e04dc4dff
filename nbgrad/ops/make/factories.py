"""What all that makes tensors shares: the arguments that say which tensor, and the short way for those said before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import copysign, prod
from typing import Any

from nbgrad.base.tables import DEFAULT_DTYPE, UNSET, Table
from nbgrad.core import arguments
from nbgrad.core.tensor import Tensor, as_inference, new, set_requires_grad, wrap
from nbgrad.core.tensor import empty as _empty
from nbgrad.memory import backend, dtypes
from nbgrad.memory import layout as _layout
from nbgrad.memory.device import cpu, default, elsewhere, settled
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.dtypes import get_default_dtype
from nbgrad.memory.gpu import current
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.views.views import _sizes
from nbgrad.tape.modes import shared, state

_NO_GRAD_INTS = "Only Tensors of floating point and complex dtype can require gradients"


def _of_out(name: str, out: Tensor, dtype: Any) -> _dtype:
    """The dtype of `out=`, which what is counted or drawn is made in; another must not be asked for."""
    if state.grad and out.requires_grad:
        if name in ("empty", "randn"):
            raise RuntimeError("cannot resize variables that require grad")
        raise RuntimeError(
            f"aten::{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad."
        )
    d = out._spec.dtype
    if dtype is not None and (asked := dtypes.to_dtype(dtype)) is not d:
        raise RuntimeError(
            f"dtype {asked.scalar_name} does not match dtype of out parameter ({d.scalar_name})"
        )
    return d


def _sized(out: Tensor, shape: Sequence[int]) -> Tensor:
    """A factory's `out`, which takes its size without a warning."""
    return out if out.shape == shape else out.resize_(shape)


def _finish(t: Tensor, requires_grad: bool, out: Tensor | None = None) -> Tensor:
    if out is not None:
        t = _sized(out, t.shape).copy_(t)
    if requires_grad:
        set_requires_grad(t, True, _NO_GRAD_INTS)
    return t


def _counted(t: Tensor, requires_grad: bool, out: Tensor | None) -> Tensor:
    """The same for what has no shape of its own: an `out` of as many elements keeps its own."""
    if out is not None and out.numel() == t.numel():
        t = t.view(out.shape)
    return _finish(t, requires_grad, out)


_LARGE = 2**30
_NAMES = (str, type(cpu))  # of devices
_NUMBERS: frozenset[Any] = frozenset((int, float, bool))
_SEQUENCES: frozenset[Any] = frozenset((tuple, list, _layout.Size))
# Of what was asked for, by sizes, dtype (None: the default one), device as it was named, and which one "cuda" is.
_known: Table[tuple[Any, Any], Spec] = Table("ops.make.factories.known", 4096, DEFAULT_DTYPE)
_spec_of = _known.get


def placed(device: Any) -> _device:
    """Where a new tensor is made."""
    return settled((default.device or cpu) if device is None else _device(device))


def _spec(name: str, size: Sequence[Any], dtype: Any, device: Any, requires_grad: bool = False) -> Spec:
    """How a new tensor is to lie; arguments are checked if they are not what they were before."""
    if len(size) == 1 and type(size[0]) is not int and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    key: Any = None
    if (
        (type(device) in _NAMES if device is not None else not elsewhere.threads)
        and (dtype is None or type(dtype) is _dtype)
        and not requires_grad
    ):
        for n in size:
            if type(n) is not int:
                break
        else:
            key = (size, dtype) if device is None else (size, dtype, device, current.index)
            found = _spec_of(key)
            if found is not None:
                return found
    shape = _sizes(size, name)
    d = get_default_dtype() if dtype is None else dtypes.to_dtype(dtype, name)
    where = placed(device)
    backend.of(where)
    if requires_grad and not d.inexact:
        raise RuntimeError(_NO_GRAD_INTS)
    for n in shape:
        if n < 0:
            if name == "zeros":
                raise RuntimeError("zeros: Dimension size must be non-negative.")
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(shape)}")
    if 0 in shape and prod([n or 1 for n in shape[1:]]) > _layout.MAX_NUMEL:
        raise RuntimeError("Stride calculation overflowed")
    sp = spec(d, tuple(shape), None, where)
    if sp.nbytes > _LARGE:
        _empty(sp)  # is refused as PyTorch would, before NumPy is asked for what comes between
    elif key is not None:
        _known.keep(key, sp)
    return sp


# ---------------------------------------------------------------- the short way

# What few elements cost are the interpreter's steps, so a call that names nothing but sizes (or a tensor to be like) is looked at
# once: what gives such memory is kept, and how it lies.
Memory = Callable[[], Any]
Function = Callable[..., Tensor]
_FEW_BYTES = 512
_MANY_BYTES = 4096  # of what takes long to work out
DRAWN_BYTES = 1 << 15  # which one launch fills while it keeps Python's lock; nothing of them is kept


def _copies(t: Tensor) -> Memory:
    memory = t._buf.copy()
    give: Memory = memory.copy
    return give


class _Given(Table[Any, tuple[Memory, Spec]]):
    __slots__ = ("memory_of",)

    def __init__(self, memory_of: Callable[[Tensor], Memory | None]) -> None:
        super().__init__("ops.make.factories.given", 4096, DEFAULT_DTYPE, UNSET)
        self.memory_of = memory_of

    def learn(self, key: Any, t: Tensor, most: int = _FEW_BYTES) -> Tensor:
        sp = t._spec
        if type(sp) is Spec and sp.nbytes <= most and type(t) is Tensor and sp.backend is backend.cpu:
            memory = self.memory_of(t)
            if memory is not None:
                self.keep(key, (memory, t._spec))
        return t


def _asks_for_a_leaf(more: dict[str, Any]) -> bool:
    return [*more] == ["requires_grad"] and more["requires_grad"] is True


def _of_sizes(
    memory_of: Callable[[Tensor], Memory | None], most: int = _FEW_BYTES
) -> Callable[[Function], Function]:
    def before(slow: Function) -> Function:
        known = _Given(memory_of)
        find = known.get
        made = getattr(slow, "__wrapped__", slow)  # past the guard: ints are what it would let pass

        def short(*sizes: Any, dtype: Any = None, **more: Any) -> Tensor:
            typed = {} if dtype is None else {"dtype": dtype}
            usual = not typed or type(dtype) is _dtype
            if more and usual and sizes and (not typed or dtype.inexact) and _asks_for_a_leaf(more):
                leaf = short(*sizes, **typed)
                leaf._rg = 1
                return leaf
            there = usual and len(more) == 1 and type(more.get("device")) in _NAMES
            if (more and not there) or not sizes or state.levels or elsewhere.threads or not usual:
                return slow(*sizes, **typed, **more)
            size = sizes
            if len(sizes) == 1 and type(sizes[0]) in _SEQUENCES:
                size = sizes[0] if type(sizes[0]) is tuple else (*sizes[0],)
            for n in size:
                if type(n) is not int:
                    return slow(*sizes, **typed, **more)
            if there:
                return made(*sizes, **typed, **more)
            key = (size, dtype) if typed else size
            found = find(key)
            if found is None:
                return known.learn(key, made(*sizes, **typed), most)
            t: Tensor = new(Tensor)  # `wrap`, in line
            t._buf, t._spec = found[0](), found[1]
            t._rg = t._nr = 0
            t._storage = t._node = t._view = t._ad = None
            if shared.rare and state.modes.inference:
                as_inference(t)
            return t

        return short

    return partial(arguments.before_guard, before)


def _of_size_and_value(slow: Function) -> Function:
    known = _Given(_copies)
    find = known.get

    def short(size: Any = arguments.unset, fill_value: Any = arguments.unset, **more: Any) -> Tensor:
        kind: Any = type(fill_value)
        dtype = more.get("dtype")
        if (
            (more and (len(more) > 1 or type(dtype) is not _dtype))
            or elsewhere.threads
            or type(size) not in _SEQUENCES
            or kind not in _NUMBERS
        ):
            return slow(size, fill_value, **more)
        for n in size:
            if type(n) is not int:
                return slow(size, fill_value, **more)
        if not fill_value and kind is float:
            kind = repr(fill_value)  # as 0.0 is not -0.0
        key = (*size,), fill_value, kind, dtype
        found = find(key)
        if found is None:
            return known.learn(key, slow(size, fill_value, **more))
        return wrap(found[0](), found[1])

    return short


def _signed_zero(args: Sequence[Any]) -> bool:
    """Whether one is -0.0, which to a table is 0.0."""
    return any([x.__class__ is float and not x and copysign(1.0, x) < 0 for x in args])


def _numbers_only(args: Sequence[Any], more: dict[str, Any]) -> bool:
    """Beside a dtype, and the CPU by its name."""
    for name, value in more.items():
        if name == "device":
            if value is not cpu and value != "cpu":
                return False
        elif type(value) is not _dtype if name == "dtype" else type(value) not in (int, float):
            return False
    return {*map(type, args)} <= {int, float} and not _signed_zero((*args, *more.values()))


def _as_numbers(ends: tuple[Any, ...]) -> list[Any] | None:
    """Of two ends, of which one may be a tensor of one number."""
    for x in ends:
        if x.__class__ is Tensor and (x._spec.ndim or x._spec.read is None or x._spec.dtype not in _KINDS):
            return None
    return [x.item() if x.__class__ is Tensor else x for x in ends]


_KINDS = dtypes.float32, dtypes.float64, dtypes.int64


def of_numbers(function: Function) -> Function:
    """What is made of numbers alone, a dtype, and the CPU by its name: the same again is a copy."""

    def before(slow: Function) -> Function:
        known = _Given(_copies)
        find, between = known.get, function.__name__ in ("linspace", "logspace")

        def short(*args: Any, **more: Any) -> Tensor:
            given, anywhere, named, leaf = args, elsewhere.threads, more, False
            if more:
                if more.get("requires_grad") is True:
                    leaf, named = True, {name: v for name, v in more.items() if name != "requires_grad"}
                given = (*args, *named.values())
                where = more.get("device")
                if where is cpu or (type(where) is str and where == "cpu"):
                    anywhere = 0
            if state.levels or anywhere:
                return slow(*args, **more)
            key = (*map(type, given), *given, *named)  # types come first, as they can be compared
            try:
                found = find(key)
            except TypeError:
                return slow(*args, **more)
            if found is None:
                if between and Tensor in key[:2] and (ends := _as_numbers(args[:2])) is not None:
                    return short(*ends, *args[2:], **more)
                t = slow(*args, **more)
                return known.learn(key, t, _MANY_BYTES) if _numbers_only(args, named) else t
            if 0 in given and _signed_zero(given):
                return slow(*args, **more)
            return _finish(wrap(found[0](), found[1]), leaf)

        return short

    return arguments.before_guard(before, function)


def _of_a_like(
    memory_of: Callable[[Tensor], Memory | None], most: int = _FEW_BYTES
) -> Callable[[Function], Function]:
    def before(slow: Function) -> Function:
        known = _Given(memory_of)
        find = known.get

        def short(input: Tensor = arguments.unset, **more: Any) -> Tensor:
            if type(input) is not Tensor or state.levels:
                return slow(input, **more)
            if "device" in more and more["device"] is input._spec.device:
                del more["device"]
            if more and ([*more] != ["dtype"] or type(more["dtype"]) is not _dtype):
                return slow(input, **more)
            key = (input._spec, more["dtype"]) if more else input._spec
            found = find(key)
            if found is not None:
                return wrap(found[0](), found[1])
            t = slow(input, **more)
            return known.learn(key, t, most) if type(input._spec) is Spec else t

        return short

    return partial(arguments.before_guard, before)


# ---------------------------------------------------------------- the signatures that several share


def of_sizes(
    memory_of: Callable[[Tensor], Memory | None] = _copies,
) -> Callable[[Callable[[Spec], Tensor]], Function]:
    """A function of sizes, of what it makes of the spec that they and the keywords say."""

    def decorate(make: Callable[[Spec], Tensor]) -> Function:
        name = make.__name__

        def factory(
            *sizes: Any,
            size: Any = None,
            out: Tensor | None = None,
            dtype: Any = None,
            device: Any = None,
            requires_grad: bool = False,
            layout: Any = None,
        ) -> Tensor:
            if out is not None:
                dtype = _of_out(name, out, dtype)
            t = make(_spec(name, sizes if size is None else (size,), dtype, device, requires_grad))
            return t if out is None and not requires_grad else _finish(t, requires_grad, out)

        return _of_sizes(memory_of)(_named(factory, make))

    return decorate


def of_draws(
    memory_of: Callable[[Tensor], Memory | None], fill: str
) -> Callable[[Callable[[Spec, Any], Tensor]], Function]:
    """The same of what is drawn: `fill` is the method that draws into a tensor that is given."""

    def decorate(draw: Callable[[Spec, Any], Tensor]) -> Function:
        name = draw.__name__

        def factory(
            *sizes: Any,
            size: Any = None,
            generator: Any = None,
            out: Tensor | None = None,
            dtype: Any = None,
            device: Any = None,
            requires_grad: bool = False,
            layout: Any = None,
        ) -> Tensor:
            size = sizes if size is None else (size,)
            if out is not None:
                sp = _spec(name, size, _of_out(name, out, dtype), device)
                return _finish(getattr(_sized(out, sp.shape), fill)(generator=generator), requires_grad)
            t = draw(_spec(name, size, dtype, device, requires_grad), generator)
            return _finish(t, requires_grad) if requires_grad else t

        return _of_sizes(memory_of, DRAWN_BYTES)(_named(factory, draw))

    return decorate


def _named(factory: Function, make: Callable[..., Any]) -> Function:
    """Under the name and with the words of what it makes; a profiler knows it by its code's name."""
    factory.__name__ = factory.__qualname__ = make.__name__
    factory.__module__, factory.__doc__ = make.__module__, make.__doc__
    factory.__code__ = factory.__code__.replace(co_name=make.__name__)
    return factory
