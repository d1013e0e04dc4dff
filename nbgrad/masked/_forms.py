"""What functions and methods of PyTorch do with masked tensors: a form for each, found by its name.

What is pointwise is done to the data, of which masks must match; what moves elements to data and mask; reductions are those of
`torch.masked`, and of nothing at all they give something that is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from nbgrad._holding import Forms, complete, history, naming
from nbgrad.core.tensor import Tensor
from nbgrad.masked import _functions as functions
from nbgrad.masked._tensor import MaskedTensor, masked, same
from nbgrad.memory import dtypes
from nbgrad.ops import pointwise
from nbgrad.ops.make import filled
from nbgrad.ops.views import join

forms: Forms = dict(history)
form = naming(forms)


def _first(args: Sequence[Any]) -> Any:
    for one in args:
        found = _first(one) if isinstance(one, (list, tuple)) else one
        if isinstance(found, MaskedTensor):
            return found
    return None


# ---------------------------------------------------------------- pointwise

_UNARY = """
    abs absolute acos arccos acosh arccosh angle asin arcsin asinh arcsinh atan arctan atanh arctanh bitwise_not ceil clamp clip
    conj_physical cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 fix floor frac lgamma log log10 log1p log2 logit i0 isnan
    nan_to_num neg negative positive pow rad2deg reciprocal round rsqrt sigmoid sign sgn signbit sin sinc sinh sqrt square tan tanh trunc
    relu logical_not isinf isfinite
"""
_BINARY = """
    add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide floor_divide fmod logaddexp
    logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge greater greater_equal gt less_equal lt less maximum
    minimum fmax fmin not_equal rsub
"""
_SIGNS = """
    neg abs invert add radd sub rsub mul rmul truediv rtruediv floordiv mod pow and or xor eq ne lt le gt ge iadd isub imul itruediv ipow
"""


def _by_data(name: str, function: Callable[..., Any]) -> None:
    def done(*args: Any, **named: Any) -> Any:
        like = _first(args)

        def data(one: Any) -> Any:
            if not isinstance(one, MaskedTensor):
                return one
            if not same(like._mask, one._mask):
                raise ValueError(
                    "Input masks must match. If you need support for this, please open an issue on Github."
                )
            return one._held

        given = [data(one) for one in args]
        found = function(*given, **named)
        if found is given[0] and args[0] is like:  # written to
            return like
        return masked(found, like._mask)

    form(name)(done)


def _wide(name: str) -> Callable[..., Any] | None:
    found = getattr(Tensor, name, None)
    return found if callable(found) else None


for _name in [n for name in (_UNARY + _BINARY).split() for n in (name, f"{name}_")] + [
    f"__{sign}__" for sign in _SIGNS.split()
]:
    _function = _wide(_name) or getattr(pointwise, _name, None)
    if _function is not None:
        _by_data(_name, _function)


# ---------------------------------------------------------------- elements that move

_MOVING = """
    select transpose swapaxes swapdims split split_with_sizes t __getitem__ expand expand_as view reshape flatten unflatten unsqueeze
    squeeze unfold permute chunk tensor_split unbind narrow index_select movedim moveaxis flip roll diagonal contiguous repeat broadcast_to
"""


def _moving(name: str) -> None:
    move = getattr(Tensor, name)

    def function(self: Any, *args: Any, **named: Any) -> Any:
        return _both(move(self._held, *args, **named), move(self._mask, *args, **named))

    form(name)(function)


def _both(data: Any, mask: Any) -> Any:
    """Of their own: a write to what was moved reaches nothing else, as in PyTorch."""
    if isinstance(data, (tuple, list)):
        return tuple([_both(d, m) for d, m in zip(data, mask)])
    return masked(data.clone(), mask.clone())


for _name in _MOVING.split():
    _moving(_name)


def _turned(name: str) -> property:
    return property(
        lambda self: _both(getattr(self._held, name), getattr(self._mask, name)),
        doc="With dimensions swapped.",
    )


for _name in ("T", "mT", "H", "mH"):
    setattr(MaskedTensor, _name, _turned(_name))


def _joining(*names: str) -> None:
    for name in names:

        def function(tensors: Sequence[Any], dim: int = 0, name: str = name) -> Any:
            data = [t._held if isinstance(t, MaskedTensor) else t for t in tensors]
            mask = [t._mask if isinstance(t, MaskedTensor) else _all_of(t) for t in tensors]
            return masked(getattr(join, name)(data, dim), getattr(join, name)(mask, dim))

        form(name)(function)


def _all_of(t: Tensor) -> Tensor:
    return filled.ones_like(t, dtype=dtypes.bool_)


_joining("cat", "stack")
form("concat", "concatenate")(forms["cat"])
form("__iter__")(lambda self: iter(forms["unbind"](self)))
form("__len__")(lambda self: len(self._held))


@form("where")
def where(condition: Any, input: Any, other: Any) -> Any:
    pairs = [(t._held, t._mask) if isinstance(t, MaskedTensor) else (t, _all_of(t)) for t in (input, other)]
    (a, there), (b, others) = pairs
    return masked(pointwise.where(condition, a, b), pointwise.where(condition, there, others))


# ---------------------------------------------------------------- reductions


def _reducing(name: str) -> None:
    def function(input: Any, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        data, mask = input._held, input._mask
        if input.is_sparse:
            if dim is not None:
                raise NotImplementedError(f"The sparse version of {name} is not implemented in reductions.")
            data, mask = data.to_dense(), mask.to_dense()
        if name == "all":
            filled = data.to(dtypes.bool_).logical_or(~mask)
            found = filled.all() if dim is None else filled.all(dim, keepdim)
        else:
            found = getattr(functions, name)(data, dim=dim, keepdim=keepdim, mask=mask, **named)
        return masked(found, mask.any() if dim is None else mask.any(dim, keepdim))

    form(name)(function)


@form("norm")
def norm(input: Any, p: Any = 2.0, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    data, mask = (t.to_dense() if input.is_sparse else t for t in (input._held, input._mask))
    found = functions.norm(data, 2.0 if p == "fro" else p, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return masked(found, mask.any() if dim is None else mask.any(dim, keepdim))


_REDUCING = "sum mean amin amax argmin argmax prod all var std"
for _name in _REDUCING.split():
    _reducing(_name)


@form("softmax")
def softmax(input: Any, dim: int, _stacklevel: int = 3, dtype: Any = None) -> Any:
    return masked(functions.softmax(input._held, dim, dtype=dtype, mask=input._mask), input._mask)


# ---------------------------------------------------------------- others


form("clone")(lambda self, memory_format=None: _both(self._held, self._mask))
form("detach")(lambda self: _both(self._held.detach(), self._mask))


def _to_data(name: str, function: Callable[..., Any]) -> None:
    def done(self: Any, *args: Any, **named: Any) -> Any:
        found = function(self._held, *args, **named)
        return masked(found, self._mask.to(found.device))

    form(name)(done)


_CASTS = "float double half int long short char bool cpu cuda to type_as"
for _name in _CASTS.split():
    _to_data(_name, getattr(Tensor, _name))
for _name in ("ones_like", "zeros_like", "empty_like", "full_like"):
    _to_data(_name, getattr(filled, _name))


@form("to_dense")
def to_dense(self: Any, *args: Any, **named: Any) -> Any:
    return masked(self._held.to_dense(), self._mask.to_dense()) if self.is_sparse else self


def _as_sparse(name: str) -> None:
    def function(self: Any, *args: Any, **named: Any) -> Any:
        if self.is_sparse:
            return self
        if name == "to_sparse_csr" and self.ndim != 2:
            raise ValueError(
                f"Only 2D tensors can be converted to the SparseCsr layout but got shape: {self.shape}"
            )
        mask = getattr(self._mask, name)()
        return masked(self._held.sparse_mask(mask), mask)

    form(name)(function)


_as_sparse("to_sparse")
_as_sparse("to_sparse_coo")
_as_sparse("to_sparse_csr")


@form("item")
def item(self: Any) -> Any:
    if self.numel() == 1 and not self._mask.item():
        raise ValueError("__torch_dispatch__, aten._local_scalar_dense: expected a mask tensor")
    return self._held.item()


form("__bool__")(lambda self: bool(item(self)))
form("__float__")(lambda self: float(item(self)))
form("__int__")(lambda self: int(item(self)))
form("is_contiguous")(lambda self, **named: self._held.is_contiguous(**named))
form("stride")(lambda self, dim=None: self._held.stride() if dim is None else self._held.stride(dim))
form("is_same_size")(lambda self, other: tuple(self.shape) == tuple(other.shape))


@form("numpy", "__array__")
def numpy(self: Any, *args: Any, **named: Any) -> NoReturn:
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


@form("tolist")
def tolist(self: Any) -> NoReturn:
    raise RuntimeError(".tolist() is not supported for tensor subclasses, got MaskedTensor")


complete(MaskedTensor, forms, "MaskedTensor")
