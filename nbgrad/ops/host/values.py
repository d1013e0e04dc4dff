"""What needs values on the host: numbers, lists, arrays, truth, comparison of whole tensors, copies and
pickles.

Promises users PyTorch's conversions and refusals, and the ops that this is where values are looked at:
everything asks `_host()`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from struct import Struct
from typing import Any

import numpy as np

from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.base.warn import warn, warn_always
from nbgrad.core.arguments import before_guard, unset
from nbgrad.core.overrides import note_instance
from nbgrad.core.plan import common_dtype, number_type
from nbgrad.core.tensor import Tensor, meta, new, requires, storage_of, wrap
from nbgrad.core.writes import check_write, written
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.dispatch.quick import replayed
from nbgrad.dispatch.stanza import method
from nbgrad.kernels.cpu import distinct as _distinct
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes
from nbgrad.memory.backend import FORMATS
from nbgrad.memory.device import cpu
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.storage import Nothing, Spec, Storage, spec
from nbgrad.ops.arrange.orders import flip
from nbgrad.ops.index.place import true_places
from nbgrad.ops.pointwise.arithmetic import abs as _abs
from nbgrad.ops.pointwise.arithmetic import mul
from nbgrad.ops.pointwise.comparisons import eq, isfinite, isnan, le, logical_and, logical_or
from nbgrad.ops.pointwise.operators import add, sub
from nbgrad.ops.reduce.sums import everywhere
from nbgrad.ops.views.copy import contiguous, copy_memory, full, moved, to_dtype
from nbgrad.ops.views.slices import narrow, unbind
from nbgrad.tape.modes import state


def of_array(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor that shares a contiguous array's memory."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).reshape(array.shape)
    return wrap(backend.of_array(array), spec(dtypes.from_numpy_dtype(array.dtype), array.shape, None, cpu))


# ---------------------------------------------------------------- numbers and truth

# What a vmap, which has no one value, says to who asks for it.
_NO_ITEM = (
    "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try to "
    "rewrite what you're doing with other operations. If error is occurring somewhere inside PyTorch internals, please file a bug "
    "report."
)
_NO_MEMORY = "Cannot access data pointer of Tensor that doesn't have storage"


@method
def item(self: Tensor) -> Any:
    """The one element as a Python number; refused of several. No gradient goes through it.

    >>> torch.tensor([[2.5]]).item()
    2.5
    """
    read = self._spec.read
    if read is not None:
        return read(self._buf)[0]
    if self._spec.numel != 1:
        raise RuntimeError(f"a Tensor with {self._spec.numel} elements cannot be converted to Scalar")
    return self._host(_NO_ITEM).item()


@method
def tolist(self: Tensor) -> Any:
    """The elements as Python numbers, in lists nested as the dimensions are; of a single number itself.

    >>> torch.arange(4).view(2, 2).tolist()
    [[0, 1], [2, 3]]
    """
    read = _lists.get(self._spec)
    if read is not None:
        return read(self._buf)
    sp = self._spec
    if (
        (sp.ndim == 1 or (sp.ndim and sp.dtype is not dtypes.float16))  # which a view of memory does not know
        and sp.contiguous
        and 0 < sp.numel <= _FEW
        and type(sp) is Spec
        and sp.backend is backend.cpu
        and sp.dtype.code in FORMATS
    ):
        _lists.keep(sp, _listing(sp))
    return sp.read(self._buf)[0] if sp.read and not sp.ndim else self._host(_NO_MEMORY).tolist()


def _listing(sp: Spec) -> Callable[[Any], list[Any]]:
    """What makes a list of memory that lies so."""
    form: Any = FORMATS[sp.dtype.code]
    if sp.ndim == 1:
        numbers = Struct(f"={sp.numel}{form}").unpack_from
        return lambda buf: list(numbers(buf))
    nbytes, shape = sp.nbytes, tuple(sp.shape)
    return lambda buf: memoryview(buf)[:nbytes].cast(form, shape).tolist()


_FEW = 64  # elements that make a list sooner one by one than by way of an array
_lists: Table[Spec, Any] = Table("ops.host.values.lists", 1024)


@method
def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not 0; refused of several.

    >>> torch.tensor([2.0]).is_nonzero()
    True
    """
    read = input._spec.read
    if read is not None:
        return bool(read(input._buf)[0])
    n = input._spec.numel
    if n != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'more than one value' if n else 'no values'} is ambiguous"
        )
    return bool(input._host().item())


_due, _always = True, False  # a warning that comes once in a process


def set_warn_always(b: bool, /) -> None:
    """Whether warnings that come once in a process come each time.

    >>> torch.set_warn_always(True)
    >>> torch.is_warn_always_enabled()
    True
    >>> torch.set_warn_always(False)
    """
    global _due, _always
    if not isinstance(b, bool):
        raise RuntimeError(f"setWarnOnlyOnce expects a bool, but got {type(b).__name__}")
    _due, _always = _due or b, b
    warn_always(b)


def is_warn_always_enabled() -> bool:
    """Whether warnings that come once in a process come each time, as `set_warn_always` has it.

    >>> torch.set_warn_always(False)
    >>> torch.is_warn_always_enabled()
    False
    """
    return _always


def _number(self: Tensor) -> Any:
    global _due
    if self._spec.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if _due and state.grad and requires(self):
        _due = _always
        warn(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
            "Consider using tensor.detach() first."
        )
    return self._host(_NO_ITEM).item()


def _real(number: Any, d: dtypes.dtype) -> Any:
    return dtypes.fitting(number, d) if isinstance(number, complex) else number


def _float(self: Tensor) -> float:
    """The one element as a Python float.

    >>> float(torch.tensor([2]))
    2.0
    """
    read = self._spec.read
    if read is None or (_due and self._rg and state.grad and requires(self)):
        return float(_real(_number(self), dtypes.float64))
    try:
        return float(read(self._buf)[0])
    except TypeError:  # of a complex number
        return float(_real(read(self._buf)[0], dtypes.float64))


def _complex(self: Tensor) -> complex:
    """The one element as a Python complex number.

    >>> complex(torch.tensor(2.0))
    (2+0j)
    """
    return complex(_number(self))


def _int(self: Tensor) -> int:
    """The one element as a Python int, without its fractional part.

    >>> int(torch.tensor(2.7))
    2
    """
    read = self._spec.read
    if read is not None:
        try:
            return int(read(self._buf)[0])
        except TypeError:  # of a complex number
            return int(_real(read(self._buf)[0], dtypes.int64))
    if self._spec.numel != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return int(_real(self._host(_NO_ITEM).item(), dtypes.int64))


def _index(self: Tensor) -> int:
    """The one integer as a Python int: a tensor may stand where Python wants an index.

    >>> [10, 20, 30][torch.tensor(1)]
    20
    """
    if self._spec.numel != 1 or self._spec.dtype.inexact:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(item(self))


def _len(self: Tensor) -> int:
    """The size of the first dimension.

    >>> len(torch.ones(2, 3))
    2
    """
    if not self._spec.ndim:
        raise TypeError("len() of a 0-d tensor")
    return int(tuple.__getitem__(self._spec.shape, 0))


def _iter(self: Tensor) -> Any:
    """The slices along the first dimension, one by one: views, as `unbind` gives.

    >>> list(torch.tensor([[1, 2], [3, 4]]))
    [tensor([1, 2]), tensor([3, 4])]
    """
    if not self._spec.ndim:
        raise TypeError("iteration over a 0-d tensor")
    return iter(unbind(self))


def _reversed(self: Tensor) -> Tensor:
    """A copy with the order along the first dimension reversed.

    >>> reversed(torch.arange(3))
    tensor([2, 1, 0])
    """
    return flip(self, 0) if self.ndim else self


def _contains(self: Tensor, element: Any, /) -> bool:
    """Whether an element equals this number or tensor.

    >>> 2 in torch.arange(3), 5 in torch.arange(3)
    (True, False)
    """
    if isinstance(element, np.bool_) or not (isinstance(element, Tensor) or number_type(element)):
        raise RuntimeError(
            f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}."
        )
    return bool(eq(self.detach(), element).any().item())


def _format(self: Tensor, format_spec: str) -> str:
    """A single number as Python formats it; other tensors as they print.

    >>> f"{torch.tensor(1 / 3):.2f}"
    '0.33'
    """
    if self.ndim == 0 and type(self) is Tensor and not self.is_meta:
        return format(self._host(_NO_ITEM).item(), format_spec)
    return object.__format__(self, format_spec)


for _name, _method in {
    "__bool__": is_nonzero,
    "__float__": _float,
    "__int__": _int,
    "__index__": _index,
    "__complex__": _complex,
    "__len__": _len,
    "__iter__": _iter,
    "__reversed__": _reversed,
    "__contains__": _contains,
    "__format__": _format,
}.items():
    setattr(Tensor, _name, _method)


# ---------------------------------------------------------------- arrays


def _short_numpy(slow: Callable[..., Any]) -> Callable[..., Any]:
    """The short way of a call without arguments, on what surely wants no gradient."""
    known: Table[Spec, tuple[Any, ...]] = Table("ops.host.values.arrays", 4096)
    find, ndarray = known.get, np.ndarray

    def short(self: Any = unset, /, *rest: Any, **more: Any) -> Any:
        if (
            not (rest or more)
            and isinstance(self, Tensor)
            and not (self._rg and state.grad and requires(self))
        ):
            laid = find(self._spec)
            if laid is not None:
                array = ndarray(laid[0], laid[1], self._buf, 0, laid[2])
                (self._storage or storage_of(self)).lent = True
                return array
            array = slow(self)
            if array.size and type(self._spec) is Spec and self.is_cpu:
                known.keep(self._spec, (array.shape, array.dtype, array.strides))
            return array
        return slow(*[x for x in (self, *rest) if x is not unset], **more)

    return short


@method
@partial(before_guard, _short_numpy)
def numpy(self: Tensor, *, force: bool = False) -> np.ndarray[Any, Any]:
    """The tensor's memory as a NumPy array: writes to either show in both. Refused where a gradient would be lost, unless `force`,
    which detaches.

    >>> torch.ones(2).numpy()
    array([1., 1.], dtype=float32)
    """
    if not self.is_cpu and (self.is_meta or not force):
        raise TypeError(
            f"can't convert {self.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first."
        )
    if not force and state.grad and requires(self):
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    array = self._host(_NO_MEMORY)
    if self.dtype.bits is not None:
        raise TypeError(f"Got unsupported ScalarType {self.dtype.scalar_name}")
    storage_of(self).lent = True
    return array


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """The tensor as NumPy takes it: its memory, cast if another dtype is asked for. Refused where a gradient would be lost.

    >>> import numpy as np
    >>> np.asarray(torch.ones(2))
    array([1., 1.], dtype=float32)
    """
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        return array.astype(dtype)
    return array.copy() if copy else array


def _array_wrap(self: Tensor, array: Any, context: Any = None, return_scalar: bool = False) -> Tensor:
    """What NumPy's functions of tensors give."""
    return of_array(np.asarray(array))


for _name, _method in {"__array__": _array, "__array_wrap__": _array_wrap}.items():
    setattr(Tensor, _name, _method)


# ---------------------------------------------------------------- where, and whether


DYNAMIC = (
    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{}. Please file an issue at "
    "https://github.com/pytorch/pytorch/issues if you need this feature."
)


@prepared()
def _nonzero(input: Spec) -> Run:
    if not input.ndim or not input.numel:
        return lambda t: _true_in(t._host(), input.device)
    if not input.contiguous:
        return lambda t: _nonzero(contiguous(t))
    find = true_places(input, True)

    def run(t: Tensor) -> Tensor:
        count, places = find(t._buf)
        return _places_at(places, count, input.ndim, input.device)

    return run


@prepared()
def _nonzero_by_dim(input: Spec) -> Run:
    found = _nonzero.at(input if input.ndim else input.like((1,)), {}).run  # type: ignore[attr-defined]
    return lambda t: unbind(found(t), 1)


def _places_at(memory: Any, count: int, dims: int, where: _device) -> Tensor:
    """As PyTorch's lie: all indices of a dimension side by side."""
    return wrap(memory, spec(dtypes.int64, (count, dims), (1, count), where))


def _true_in(array: np.ndarray[Any, Any], where: _device) -> Tensor:
    found = np.empty((array.ndim, np.count_nonzero(array)), np.int64)
    if array.ndim:
        for d, i in enumerate(array.nonzero()):
            found[d] = i
    dims, count = found.shape
    return _places_at(moved(of_array(found), dtypes.int64, where)._buf, count, dims, where)


@method
@settled
def nonzero(input: Tensor, *, out: Tensor | None = None, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0, one in each row; with `as_tuple` one tensor per dimension, as indexing takes them.

    >>> torch.tensor([[0, 5], [7, 0]]).nonzero()
    tensor([[0, 1],
            [1, 0]])
    """
    if out is None and type(input._spec) is Spec:
        return call_of(_nonzero_by_dim if as_tuple else _nonzero, input)
    if as_tuple and out is not None:
        raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
    if type(input._spec) is not Spec:
        input._host(DYNAMIC.format("nonzero"))  # which refuses
    return _places_into("nonzero", out, _nonzero(input))


def _places_into(name: str, out: Tensor | None, result: Tensor) -> Tensor:
    exact = f"{name}: Expected out tensor to have scalar type {{want}} but got scalar type{{got}}"
    return result if out is None else into(name, out, result, (), exact)


@method
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """The first `size` rows of `nonzero`; where there are fewer, the rest is `fill_value`.

    >>> torch.nonzero_static(torch.tensor([0, 5, 0]), size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    found = nonzero(input)
    found = narrow(found, 0, 0, min(size, len(found)))
    rows = full(found._spec.like((size, input.ndim)), fill_value)
    narrow(rows, 0, 0, len(found)).copy_(found)
    return _places_into("nonzero_static", out, rows)


@method
def argwhere(input: Tensor) -> Tensor:
    """The indices of the elements that are not 0, one in each row.

    >>> torch.argwhere(torch.tensor([[0, 5], [7, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    return nonzero(input)


def _pair(name: str, input: Any, other: Any) -> None:
    for k, (word, x) in enumerate((("input", input), ("other", other))):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{name}(): argument '{word}' (position {k + 1}) must be Tensor, not {type(x).__name__}"
            )


@cached(PLANS)
def _same(sp: Spec) -> Callable[[Any, Any], bool] | None:
    """What says of the memory of two tensors that lie so, without gaps, whether they hold the same."""
    if not sp.contiguous or not sp.numel or sp.backend is not backend.cpu:
        return None
    address = backend.cpu.kernel(f"same_{sp.dtype.code}", *_distinct.same(sp.dtype.code)).address
    launch, n, told = backend.cpu.launch(3, "", 1, sp.numel <= FEW), sp.numel, backend.cpu.told

    def same_values(a: Any, b: Any) -> bool:
        found, seen = told.count
        launch(address, n, a, b, found)
        return bool(seen[0])

    return same_values


def _of_two_alike(slow: Callable[..., bool]) -> Callable[..., bool]:
    known: Table[Spec, Any] = Table("ops.host.values.equal", PLANS)
    find = known.get

    def short(*args: Any, **more: Any) -> bool:
        if not more and len(args) == 2 and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            sp = args[0]._spec
            run = find(sp) if args[1]._spec is sp else None
            if run is not None:
                found: bool = run(args[0]._buf, args[1]._buf)
                return found
            run = _same(sp) if type(sp) is Spec else None
            if run is not None:
                known.keep(sp, run)
            return slow(*args)
        return slow(*args, **more)

    return short


@method
@partial(before_guard, _of_two_alike)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and the same elements, as one Python bool.

    >>> torch.equal(torch.ones(2), torch.ones(2)), torch.equal(torch.ones(2), torch.ones(1))
    (True, False)
    """
    _pair("equal", input, other)
    sp = input._spec
    same = _same(sp) if other._spec is sp and type(sp) is Spec else None
    if same is not None:
        return same(input._buf, other._buf)
    return input._spec.shape == other._spec.shape and everywhere(
        eq(input.detach(), other.detach()).reshape(-1)
    )


@method
@replayed
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """For each pair of elements whether `abs(input - other) <= atol + rtol * abs(other)`. NaN equals NaN only with `equal_nan`.

    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.000001, 2.1]))
    tensor([ True, False])
    """
    _pair("isclose", input, other)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype.scalar_name} did not match {other.dtype.scalar_name}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {value:g}")
    a, b = input.detach(), other.detach()
    close: Tensor = eq(a, b)
    if equal_nan and a.dtype.inexact:
        close = logical_or(close, logical_and(isnan(a), isnan(b)))
    if rtol == 0 and atol == 0:
        return close
    if not a.dtype.inexact:
        a, b = to_dtype(a, dtypes.get_default_dtype()), to_dtype(b, dtypes.get_default_dtype())
    off = _abs(sub(a, b))
    allowed = add(_abs(mul(b, rtol)), atol)
    return logical_or(close, logical_and(isfinite(off), le(off, allowed)))


@method
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all pairs of elements are close in the sense of `isclose`, as one Python bool.

    >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.000001]))
    True
    """
    _pair("allclose", input, other)
    return everywhere(isclose(input, other, rtol, atol, equal_nan))


def is_tensor(obj: Any, /) -> bool:
    """Whether `obj` is a tensor.

    >>> torch.is_tensor(torch.ones(2)), torch.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def numel(input: Tensor) -> int:
    """How many elements `input` has: the product of its shape.

    >>> torch.numel(torch.ones(2, 3))
    6
    """
    if not isinstance(input, Tensor):
        raise TypeError(f"numel(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    return input._spec.numel


def is_floating_point(input: Tensor) -> bool:
    """Whether the elements of `input` are numbers with a fractional part: only such tensors have gradients.

    >>> torch.is_floating_point(torch.ones(2)), torch.is_floating_point(torch.tensor([1]))
    (True, False)
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"is_floating_point(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    return input._spec.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the elements of `input` are complex numbers, of a real and an imaginary part.

    >>> torch.is_complex(torch.ones(2)), torch.is_complex(torch.tensor([1j]))
    (False, True)
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"is_complex(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    return input._spec.dtype.is_complex


_RESULT_TYPE = (
    ("Tensor tensor", "Tensor other"),
    ("Number scalar", "Tensor tensor"),
    ("Tensor tensor", "Number other"),
    ("Number scalar1", "Number scalar2"),
)


def result_type(tensor1: Any, tensor2: Any, /) -> _dtype:
    """The dtype in which an op of the two, tensors or numbers, computes. Tensors with dimensions count more than those without, and
    these more than numbers, within one category (bool, integer, float).

    >>> torch.result_type(torch.tensor([1]), 2.5), torch.result_type(torch.ones(2), torch.tensor(1.0, dtype=torch.float64))
    (torch.float32, torch.float32)
    """
    given = (tensor1, tensor2)
    operands = [x._spec if isinstance(x, Tensor) else number_type(x) for x in given]
    if None in operands:
        got = [type(x).__name__ for x in given]
        text = f"result_type() received an invalid combination of arguments - got ({', '.join(got)}), but expected one of:\n"
        for form in _RESULT_TYPE:
            fits = [
                f.startswith("Tensor") and isinstance(x, Tensor) for f, x in zip(form, given)
            ]  # PyTorch marks numbers
            marked = [g if fit else f"!{g}!" for fit, g in zip(fits, got)]
            text += f" * ({', '.join(form)})\n      didn't match because some of the arguments have invalid types: "
            text += f"({', '.join(marked)})\n"
        raise TypeError(text)
    return common_dtype(operands)


@method
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    >>> torch.ones(2).is_same_size(torch.zeros(2))
    True
    """
    return input._spec.shape == other._spec.shape


@method
def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether both read the same memory in the same way.

    >>> x = torch.ones(2)
    >>> x.is_set_to(x.view(2)), x.is_set_to(torch.ones(2))
    (True, False)
    """
    a, b = self._spec, tensor._spec
    same = storage_of(self).memory is storage_of(tensor).memory
    return (
        same
        and (a.shape, a.strides) == (b.shape, b.strides)
        and self.storage_offset() == tensor.storage_offset()
    )


# ---------------------------------------------------------------- a Python function of each element


_WORDS = {
    "apply_": """Replace each element by what `callable` gives for it: slow, for tensors that require no gradient.

    >>> torch.tensor([1.0, 2.0]).apply_(lambda x: x + 10)
    tensor([11., 12.])
    """,
    "map_": """Replace each element by what `callable` gives for it and for the one of `other` at its place: slow, without gradient.

    >>> torch.tensor([1.0, 2.0]).map_(torch.tensor([3.0, 4.0]), lambda x, y: x * y)
    tensor([3., 8.])
    """,
    "map2_": """Replace each element by what `callable` gives for it and for those of `x` and `y` at its place: slow, without gradient.

    >>> torch.tensor([1.0, 2.0]).map2_(torch.ones(2), torch.ones(2), lambda a, x, y: a + x + y)
    tensor([3., 4.])
    """,
}


def _of_each(name: str) -> None:
    """Write over each element what a function gives for it and for those of other tensors at its place."""

    def method_of_each(self: Tensor, *args: Any) -> Tensor:
        if name == "apply_" and len(args) != 1:  # the others are looked at by PyTorch's parser
            raise TypeError(f"TensorBase.apply_() takes exactly one argument ({len(args)} given)")
        *others, function = args
        if any(requires(t) for t in (self, *others)):
            raise RuntimeError(
                f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead."
            )
        for k, t in enumerate(others):
            if t.dtype is not self.dtype:
                words = (
                    f"'other' (got {_legacy(t)})"
                    if len(others) == 1
                    else f"argument '{'xy'[k]}' (got {t.dtype.scalar_name})"
                )
                raise TypeError(f"{name}: expected {_legacy(self)} for {words}")
        spread = [t.expand(self.shape) for t in others]
        if not callable(function):
            raise TypeError(f"'{type(function).__name__}' object is not callable")
        check_write(self, False)
        own = [np.asarray(t._host()).reshape(-1).tolist() for t in (self, *spread)]
        values = np.array([_as_c_takes(function(*v), self.dtype) for v in zip(*own)], self.dtype.host)
        copy_memory(self, of_array(values.reshape(tuple(self.shape))))
        written(self)
        return self

    names = {"apply_": ["callable"], "map_": ["other", "callable"], "map2_": ["x", "y", "callable"]}[name]
    method_of_each.__doc__ = _WORDS[name]
    method_of_each.__name__ = method_of_each.__qualname__ = name
    method_of_each.__signature__ = Signature(  # type: ignore[attr-defined]
        [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in ("self", *names)]
    )
    setattr(Tensor, name, method_of_each)


def _legacy(t: Tensor) -> str:
    return str(t.type())


def _as_c_takes(value: Any, d: Any) -> Any:
    floats = d.is_floating_point
    if isinstance(value, complex) or not (
        hasattr(value, "__index__") or hasattr(value, "__float__" if floats else "__int__")
    ):
        kind = type(value).__name__
        raise TypeError(
            f"must be real number, not {kind}"
            if floats
            else f"'{kind}' object cannot be interpreted as an integer"
        )
    return float(value) if floats else int(value)


for _name in ("apply_", "map_", "map2_"):
    _of_each(_name)


# ---------------------------------------------------------------- copies of whole objects


def _remade(
    cls: type,
    memory: Any,
    offset: int,
    d: _dtype,
    shape: Any,
    strides: Any,
    requires_grad: bool,
    attributes: Any,
) -> Tensor:
    """Read `memory` as a tensor of class `cls`: what pickles and `copy.copy` call."""
    out: Tensor = new(cls)
    note_instance(out)
    serves = backend.of_memory(memory)
    sp = spec(d, tuple(shape), tuple(strides), serves.device)
    out._buf, out._spec = serves.view(memory, offset * sp.itemsize), sp
    out._storage = Storage(memory)
    out._storage.inference = state.modes.inference
    out._rg, out._node, out._nr, out._view, out._ad = int(requires_grad), None, 0, None, None
    if attributes:
        out.__dict__.update(attributes)
    return out


def _wrapper_remade(
    cls: type, d: _dtype, shape: Any, strides: Any, where: Any, requires_grad: bool, attributes: Any
) -> Tensor:
    """The same of a class that answers for tensors without memory."""
    out: Tensor = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
        cls, shape, strides, dtype=d, device=where, requires_grad=requires_grad
    )
    out.__dict__.update(attributes or {})
    return out


def _reduce_ex(self: Tensor, protocol: Any) -> Any:
    sp = self._spec
    lies = sp.dtype, tuple(sp.shape), sp.strides
    args: tuple[Any, ...] = type(self), *lies, str(sp.device), requires(self)
    if type(self._buf) is not Nothing:
        args = type(self), storage_of(self).memory, self.storage_offset(), *lies, requires(self)
    made = _wrapper_remade if type(self._buf) is Nothing else _remade
    if hasattr(type(self), "__setstate__"):  # a class of the user's that reads its state itself
        return made, (*args, None), self.__getstate__() if _has_own_state(self) else dict(self.__dict__)
    return made, (*args, dict(self.__dict__))


def _has_own_state(self: Tensor) -> bool:
    return type(self).__getstate__ is not object.__getstate__


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy in memory of its own of a leaf, with its `grad` and attributes; tensors that were copied already come from `memo`.

    >>> import copy
    >>> x = torch.ones(2, requires_grad=True)
    >>> copy.deepcopy(x)
    tensor([1., 1.], requires_grad=True)
    """
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            "protocol at the moment.  If you were "
            "attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, see "
            "https://github.com/pytorch/pytorch/pull/103001"
        )
    known = memo.get(id(self))
    if known is not None:
        return known
    out = memo[id(self)] = _cloned(self) if type(self._buf) is Nothing else _copied(self, memo)
    for slot in [
        n for cls in type(self).__mro__[:-2] if cls is not Tensor for n in vars(cls).get("__slots__", ())
    ]:
        if hasattr(self, slot):
            setattr(out, slot, copy.deepcopy(getattr(self, slot), memo))
    out.__dict__.update(copy.deepcopy(self.__dict__, memo))
    if self._ad is not None and self._ad.grad is not None:
        meta(out).grad = copy.deepcopy(self._ad.grad, memo)
    return out


def _copied(self: Tensor, memo: dict[int, Any]) -> Tensor:
    memory = storage_of(self).memory
    copied = memo.get(id(memory))  # what shared memory shares it again
    if copied is None:
        copied = memo[id(memory)] = np.array(memory) if self.is_cpu else memory.copy()
        memo.setdefault(id(memo), []).append(memory)
    sp = self._spec
    return _remade(
        type(self), copied, self.storage_offset(), sp.dtype, sp.shape, sp.strides, requires(self), None
    )


def _cloned(self: Tensor) -> Tensor:
    """What has no memory is copied by its class."""
    recorded, state.grad = state.grad, False
    try:
        out = self.clone()
    finally:
        state.grad = recorded
    if type(out) is not type(self):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that implement "
            "clone() and for which cloning returns another instance of the same subclass. You should either properly implement "
            "clone() for your subclass or override __deepcopy__() if it is intended behavior for clone() to return an instance of "
            "a different type."
        )
    return out.requires_grad_() if requires(self) else out


for _name, _method in {"__reduce_ex__": _reduce_ex, "__deepcopy__": _deepcopy}.items():
    setattr(Tensor, _name, _method)

__all__ = [
    "allclose",
    "argwhere",
    "equal",
    "is_complex",
    "is_floating_point",
    "is_nonzero",
    "is_same_size",
    "is_tensor",
    "is_warn_always_enabled",
    "isclose",
    "nonzero",
    "nonzero_static",
    "numel",
    "result_type",
    "set_warn_always",
]
