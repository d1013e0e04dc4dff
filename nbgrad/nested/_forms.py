"""What functions and methods of PyTorch do with nested tensors: a form for each, found by its name.

Three mechanisms make most of them: what is pointwise is done to the values (`_by_values`), what works along dimensions that no part differs
in, too, with these counted as the values' (`inner_dim`), and the rest to each part (`_each`). Strided parts know the last two as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import FunctionType
from typing import Any, NoReturn

from nbgrad._holding import Forms, complete, history, naming
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.layout import wrap_dim
from nbgrad.nested._tensor import (
    Jagged,
    Nested,
    NestedInt,
    Strided,
    ends,
    in_parts,
    named,
    of_padded,
    of_parts,
    padded,
)
from nbgrad.nn import functional as F
from nbgrad.ops import pointwise
from nbgrad.ops.arrange.orders import repeat_interleave
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.make import drawn, filled
from nbgrad.ops.make.counted import arange
from nbgrad.ops.views import join

shared: Forms = dict(history)  # of both layouts
of_jagged: Forms = {}
of_strided: Forms = {}


def form(*names: str, to: Forms = shared) -> Callable[[Callable[..., Any]], Any]:
    """Let functions and methods of these names be this one, where an argument is nested."""
    return naming(to)(*names)


def _first(args: Sequence[Any]) -> Any:
    """The first nested tensor among arguments, which may be in lists."""
    for one in args:
        if isinstance(one, Nested):
            return one
        if isinstance(one, (list, tuple)):
            found = _first(one)
            if found is not None:
                return found
    return None


# ---------------------------------------------------------------- by values


def _mismatch(name: str, a: Any, b: Any) -> NoReturn:
    shapes = [tuple(t.shape) if isinstance(b, Jagged) else t.shape for t in (a, b)]
    raise RuntimeError(
        f"cannot call binary pointwise function {name}.Tensor with inputs of shapes {shapes[0]} and {shapes[1]}"
    )


def _against(like: Nested, t: Any, name: str) -> Any:
    """An argument as it stands beside the values of `like`."""
    if isinstance(t, Nested):
        if like.same_cut(t):
            return t._held
        if isinstance(like, Jagged) and isinstance(t, Jagged):
            _mismatch(name, like, t)
        raise RuntimeError(f"{name} does not support broadcasting when given a NestedTensor")
    if not isinstance(t, Tensor) or not t.ndim:
        return t
    if not isinstance(like, Jagged):
        if t.numel() == 1:
            return t.reshape(())
        raise RuntimeError(
            "Expected both self and other to be nested, but got a nested self and non-nested other"
        )
    if t.ndim > like.ndim:
        raise NotImplementedError("NYI: broadcasting NT with T with larger dim")
    small = t
    while small.ndim and small.shape[0] == 1:
        small = small.squeeze(0)
    if like.ndim >= small.ndim + 2:
        return small
    if t.ndim != like.ndim or t.shape[0] != len(like):
        _mismatch(name, like, t)
    return _spread(t, like)


def _spread(t: Tensor, like: Jagged) -> Tensor:
    """A dense tensor in the places of the values of `like`: of size 1 along the dimension that these differ in, or long enough."""
    r, long = like._ragged_idx, like.how_long()
    part = repeat_interleave(arange(len(like), device=t.device), long)
    at = arange(len(part), device=t.device) - index_select(ends(long), 0, part)
    return t.movedim(r, 1)[part, at if t.shape[r] != 1 else at * 0].movedim(0, r - 1)


def _result(like: Nested, found: Any, given: Sequence[Any]) -> Any:
    """What came of values, nested again; what was written to is the tensor that it was written to."""
    if isinstance(found, (tuple, list)):
        made = [_result(like, one, given) for one in found]
        return type(found)(made)
    if not isinstance(found, Tensor):
        return found
    for one in given:
        if isinstance(one, Nested) and one._held is found:
            return one
    return like.with_values(found)


def _by_values(name: str, function: Callable[..., Any], to: Forms = shared, spread: bool = True) -> None:
    """Do to the values what is done to each element; `spread` says that dense arguments broadcast with them."""

    def done(*args: Any, **named_: Any) -> Any:
        like = _first((*args, *named_.values()))
        put = partial(_against, like, name=name.strip("_")) if spread else _values
        found = function(*map(put, args), **{n: put(v) for n, v in named_.items()})
        return _result(like, found, args)

    form(name, to=to)(done)


def _values(t: Any) -> Any:
    return t._held if isinstance(t, Nested) else t


def _pointwise() -> dict[str, Callable[..., Any]]:
    """All pointwise functions, methods and operators."""
    families = [
        getattr(pointwise, name) for name in dir(pointwise) if hasattr(getattr(pointwise, name), "__all__")
    ]
    found = {name: getattr(family, name) for family in families for name in family.__all__}
    activations = "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu softplus"
    for name in f"{activations} softshrink softsign tanhshrink threshold".split():
        found[name] = getattr(F, name)
        if hasattr(F, f"{name}_"):
            found[f"{name}_"] = getattr(F, f"{name}_")
    methods = {name: vars(Tensor).get(name) for name in (*found, *(f"{name}_" for name in found))}
    found |= {
        name: method for name, method in methods.items() if type(method) is FunctionType and name not in found
    }
    signs = "add sub mul truediv floordiv mod pow and or xor eq ne lt le gt ge neg abs invert pos"
    for sign in signs.split():
        for dunder in (f"__{sign}__", f"__r{sign}__", f"__i{sign}__"):
            method = vars(Tensor).get(dunder)
            if type(method) is FunctionType:
                found[dunder] = method
    return found


for _name, _function in _pointwise().items():
    _by_values(_name, _function)
_CASTS = "float double half bfloat16 int long short char byte bool cfloat cdouble cpu cuda to type_as type"
_METHODS = """
    fill fill_ zero_ masked_fill masked_fill_ copy_ pin_memory share_memory_
    normal_ uniform_ bernoulli_ apply_ real imag
"""
for _name in (_CASTS + " " + _METHODS).split():
    if hasattr(Tensor, _name):
        _by_values(_name, getattr(Tensor, _name))
_making = vars(filled) | vars(drawn)
for _name in [
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "rand_like",
    "randn_like",
    "randint_like",
]:
    _by_values(_name, _making[_name], spread=False)
for _name in ["data_ptr", "storage", "untyped_storage", "storage_offset", "is_pinned", "is_shared", "dtype"]:
    if type(vars(Tensor).get(_name)) is FunctionType:
        _by_values(_name, getattr(Tensor, _name))
for _name in ["dropout", "alpha_dropout", "feature_alpha_dropout"]:
    _by_values(_name, getattr(F, _name), spread=False)


@form("detach_")
def detach_(self: Any) -> Any:
    self._held.detach_()
    return self


@form("is_same_size")
def is_same_size(self: Any, other: Any) -> bool:
    if not (isinstance(self, Nested) and isinstance(other, Nested)):
        are = ["nested" if isinstance(one, Nested) else "not nested" for one in (self, other)]
        raise RuntimeError(
            f"Expected both self and other to be nested tensors. Self is {are[0]}. While Other is {are[1]}."
        )
    return self.same_cut(other)


form("is_nested")(lambda self: True)
form("numel")(lambda input: input.numel())
form("is_contiguous", to=of_jagged)(
    lambda self, memory_format=None: self._lengths is None and self._held.is_contiguous()
)
form("is_contiguous", to=of_strided)(lambda self, memory_format=None: True)
form("contiguous", to=of_strided)(lambda self, memory_format=None: self)


@form("contiguous", to=of_jagged)
def contiguous(self: Jagged, memory_format: Any = None) -> Any:
    if self._lengths is None:
        return self.with_values(self._held.contiguous())
    d = self._ragged_idx - 1
    return Jagged(join.cat(self.parts(), d), ends(self._lengths), _ragged_idx=self._ragged_idx)


@form("to_padded_tensor", "nested_to_padded_tensor")
def to_padded_tensor(self: Any, padding: float, output_size: Any = None) -> Tensor:
    return padded(self, padding, output_size)


@form("unbind")
def unbind(self: Any, dim: int = 0) -> tuple[Tensor, ...]:
    if wrap_dim(dim, self.ndim):
        if isinstance(self, Jagged):
            raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
        raise RuntimeError(f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead.")
    return tuple(self.parts())


form("__iter__")(lambda self: iter(self.parts()))


@form("item")
def item(self: Any) -> Any:
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return self._held.item()


@form("__bool__", "is_nonzero")
def truth(self: Any) -> bool:
    if self.numel() != 1:
        what = "no values" if not self.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(self._held.item())


@form("numpy", "__array__")
def numpy(self: Any, *args: Any, **named_: Any) -> NoReturn:
    raise RuntimeError(".numpy() is not supported for tensor subclasses.")


@form("tolist")
def tolist(self: Any) -> NoReturn:
    raise RuntimeError(".tolist() is not supported for tensor subclasses, got NestedTensor")


@form("tensor", "as_tensor", "asarray")
def same(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    made = data.to(dtype=dtype or data.dtype, device=device or data.device)
    return made.requires_grad_() if requires_grad else made


# ---------------------------------------------------------------- part by part


def _each(t: Strided, function: Callable[[Tensor], Tensor], node: str) -> Any:
    return of_parts([function(part) for part in t.parts()], node)


def _part_dim(t: Nested, dim: int, what: str, more: int = 0) -> int:
    """A dimension as the parts count it, which is not that along them."""
    d = wrap_dim(dim, t.ndim + more)
    if not d:
        raise RuntimeError(what)
    return d - 1


@form("linear")
def linear(input: Any, weight: Tensor, bias: Tensor | None = None) -> Any:
    if isinstance(input, Jagged):
        return input.with_values(named("Linear", F.linear(input._held, weight, bias)))
    return _rows(input, lambda rows: F.linear(rows, weight, bias), "Linear")


def _rows(t: Strided, function: Callable[[Tensor], Tensor], node: str) -> Any:
    """Of parts that end in the same size what a function makes of their rows."""
    n = t.size(-1)
    found = function(t._held.reshape(-1, n))
    sizes = [(*size[:-1], *found.shape[1:]) for size in t._sizes]
    return in_parts(named(node, found.reshape(-1)), sizes)


def _need_inner(t: Any, shape: Sequence[int], name: str) -> None:
    if isinstance(t, Jagged) and len(shape) >= t.ndim - t._ragged_idx:
        raise ValueError(f"{name}(): Normalization over the ragged dim not supported for nested tensors")


@form("layer_norm")
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    shape = [normalized_shape] if isinstance(normalized_shape, int) else [*normalized_shape]
    _need_inner(input, shape, "layer_norm")
    if isinstance(input, Jagged):
        return input.with_values(F.layer_norm(input._held, shape, weight, bias, eps))
    return _each(input, lambda part: F.layer_norm(part, shape, weight, bias, eps), "NativeLayerNorm")


@form("rms_norm")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    shape = [normalized_shape] if isinstance(normalized_shape, int) else [*normalized_shape]
    _need_inner(input, shape, "rms_norm")
    if isinstance(input, Jagged):
        return input.with_values(F.rms_norm(input._held, shape, weight, eps))
    return _each(input, lambda part: F.rms_norm(part, shape, weight, eps), "RmsNorm")


@form("embedding")
def embedding(input: Any, weight: Tensor, *args: Any, **named_: Any) -> Any:
    found = F.embedding(input._held, weight, *args, **named_)
    if isinstance(input, Jagged):
        return input.with_values(found)
    sizes = [(*size, weight.shape[1]) for size in input._sizes]
    return in_parts(found.reshape(-1), sizes)


# ---------------------------------------------------------------- softmax


def _softmax(name: str) -> None:
    dense = getattr(F, name)

    def function(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
        d = wrap_dim(-1 if dim is None else dim, input.ndim)
        if isinstance(input, Strided):
            if not d:
                raise RuntimeError(f"Cannot apply {name} across nested dimension 0")
            return _each(input, lambda part: dense(part, d - 1, dtype=dtype), name.title().replace("_", ""))
        if not d:
            raise RuntimeError(
                f"{name}(): not supported when reducing across the batch dimension for NestedTensor"
            )
        if d != input._ragged_idx:
            return input.with_values(dense(input._held, d - 1, dtype=dtype))
        if input._lengths is not None:
            raise RuntimeError(
                f"{name}(): not supported where lengths is not None if reducing across the ragged dimension for NestedTensor"
            )
        if d > 1 or name != "softmax":
            more = " for ragged_idx > 1" if name == "softmax" else ""
            raise RuntimeError(
                f"{name}(): not supported when reducing along the ragged dimension{more} for NestedTensor"
            )
        return of_padded(dense(padded(input, float("-inf")), d, dtype=dtype), input)

    form(name)(function)


_softmax("softmax")
_softmax("log_softmax")


# ---------------------------------------------------------------- reductions


def _low(d: dtypes.dtype) -> Any:
    return False if d is dtypes.bool_ else -float("inf") if d.inexact else dtypes.iinfo(d).min


def _high(d: dtypes.dtype) -> Any:
    return True if d is dtypes.bool_ else float("inf") if d.inexact else dtypes.iinfo(d).max


_FILL: dict[str, Callable[[dtypes.dtype], Any]] = (
    {
        "sum": lambda d: 0,
        "mean": lambda d: 0,
        "prod": lambda d: 1,
        "any": lambda d: False,
        "all": lambda d: True,
    }
    | dict.fromkeys(("max", "amax", "argmax"), _low)
    | dict.fromkeys(("min", "amin", "argmin"), _high)
)


def _reducing(name: str) -> None:
    dense = getattr(Tensor, name)
    fill = _FILL[name]

    def along(input: Jagged, dim: Any, named_: dict[str, Any]) -> Any:
        several = isinstance(dim, (tuple, list))
        dims = [wrap_dim(d, input.ndim) for d in (dim if several else [dim])]
        r = input._ragged_idx
        batch, ragged, others = 0 in dims, r in dims, [d for d in dims if d not in (0, r)]
        inner = [d - 1 for d in dims if d]
        if ragged and input._lengths is not None:
            raise RuntimeError(
                f"{name}(): reducing across the ragged dimension is not supported for non-contiguous nested tensors with holes"
            )
        if batch and not ragged:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for nested tensors"
            )
        if ragged and batch:
            found = dense(input._held, inner if several else inner[0], **named_)
            return found.unsqueeze(0) if named_.get("keepdim") else found
        if ragged:
            if others:
                raise RuntimeError(
                    f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
                )
            return whole(input, [r] if several else r, named_)
        found = dense(input._held, inner if several else inner[0], **named_)
        less = 0 if named_.get("keepdim") else len([d for d in others if d < r])
        if isinstance(found, tuple):
            return type(found)([input.with_values(one, r - less) for one in found])
        return input.with_values(found, r - less)

    def whole(input: Jagged, dim: Any, named_: dict[str, Any]) -> Any:
        """Along the dimension in which parts differ."""
        if name != "mean":
            return dense(padded(input, fill(input.dtype)), dim, **named_)
        total = padded(input, 0).sum(dim, **named_)
        shape = [-1 if d == 0 else 1 for d in range(total.ndim)]
        return total / input.how_long().reshape(shape)

    def function(input: Any, dim: Any = None, keepdim: Any = False, **named_: Any) -> Any:
        if isinstance(dim, Tensor):
            return shared[f"{name}imum"](input, dim)
        if keepdim:
            named_["keepdim"] = keepdim
        if isinstance(input, Strided):
            return of_last(input, dim, named_)
        if dim is None or (isinstance(dim, (tuple, list)) and not dim):
            named_.pop("keepdim", None)
            return dense(input._held, **named_)
        return along(input, dim, named_)

    def of_last(input: Strided, dim: Any, named_: dict[str, Any]) -> Any:
        if name != "sum" or dim is None:
            raise NotImplementedError(
                f"Could not run 'aten::{name}' with arguments from the 'NestedTensorCPU' backend: PyTorch has no such kernel either."
            )
        (d,) = dim if isinstance(dim, (tuple, list)) else (dim,)
        if wrap_dim(d, input.ndim) != input.ndim - 1:
            raise RuntimeError(
                f"NestedTensor can only be reduced across the last dimension for now got dimension {wrap_dim(d, input.ndim)} instead."
            )
        if not named_.get("keepdim"):
            raise RuntimeError("NestedTensor always requires keepdim=True for now.")
        return _each(input, lambda part: part.sum(-1, **named_), "Sum")

    form(name)(function)


for _name in _FILL:
    _reducing(_name)


# ---------------------------------------------------------------- views


@form("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    a, b = wrap_dim(dim0, input.ndim), wrap_dim(dim1, input.ndim)
    if isinstance(input, Strided):
        if not a or not b:
            raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
        return _each(input, lambda part: part.transpose(a - 1, b - 1), "Transpose")
    r = input._ragged_idx
    if r in (a, b):
        if not a or not b:
            raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
        return input.with_values(input._held.transpose(a - 1, b - 1), a + b - r)
    return input.with_values(
        input._held.transpose(input.inner_dim(dim0, "transpose"), input.inner_dim(dim1, "transpose"))
    )


@form("permute", to=of_jagged)
def permute(input: Jagged, *dims: Any) -> Any:
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if len(order) != input.ndim:
        raise ValueError(
            f"permute(): number of dimensions in the tensor input ({input.ndim}) does not match the length of the desired ordering of "
            f"dimensions ({len(order)})."
        )
    at = [wrap_dim(d, input.ndim) for d in order]
    if len({*at}) != len(at):
        raise ValueError("permute(): duplicate dims are not allowed.")
    if input._lengths is not None:
        raise ValueError("permute(): not supported on jagged layout nested tensor with holes")
    if at[0]:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    return input.with_values(input._held.permute([d - 1 for d in at[1:]]), at.index(input._ragged_idx))


def _sizes_given(args: Sequence[Any]) -> list[Any]:
    return [*args[0]] if len(args) == 1 and isinstance(args[0], (tuple, list)) else [*args]


@form("view", "reshape", "_unsafe_view")
def view(self: Any, *args: Any, **named_: Any) -> Any:
    sizes = _sizes_given(args or [*named_.values()])
    if isinstance(self, Strided):
        if not sizes or sizes[0] != len(self):
            raise RuntimeError(
                "view: For now nested view cannot change or infer the implicit batch dimension"
            )
        known = [
            [size[d] if n == -1 and d < len(size) else n for d, n in enumerate(sizes[1:])]
            for size in self._sizes
        ]
        return of_parts([part.reshape(size) for part, size in zip(self.parts(), known)], "View")
    r, shape = self._ragged_idx, tuple(self.shape)
    if r != 1 and tuple(sizes) != shape:
        raise RuntimeError(
            f"view(): does not support ragged_idx != 1 except when inp._size == size. inp._size is ({shape}) and size is ({sizes})."
        )
    fits = all([n in (-1, own) for n, own in zip(sizes, shape[: r + 1])])
    if len(sizes) < 3 or not fits:
        raise RuntimeError(f"view(): cannot view shape {shape} as {sizes}")
    inner = [self._held.shape[r - 1] if d == r - 1 else n for d, n in enumerate(sizes[1:])]
    return self.with_values(self._held.reshape(inner))


form("view_as", "reshape_as")(lambda self, other: other.with_values(self._held.reshape(other._held.shape)))


@form("flatten", to=of_jagged)
def flatten(input: Jagged, start_dim: int = 0, end_dim: int = -1) -> Any:
    return input.with_values(
        input._held.flatten(input.inner_dim(start_dim, "flatten"), input.inner_dim(end_dim, "flatten"))
    )


@form("unflatten", to=of_jagged)
def unflatten(input: Jagged, dim: int, sizes: Any) -> Any:
    d = input.inner_dim(dim, "unflatten")
    more = len(sizes) - 1 if d < input._ragged_idx - 1 else 0
    return input.with_values(input._held.unflatten(d, sizes), input._ragged_idx + more)


@form("unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    if isinstance(input, Strided):
        d = _part_dim(
            input,
            dim,
            "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment if you need this feature, please "
            "open an issue on github describing your use case.",
            1,
        )
        return _each(input, lambda part: part.unsqueeze(d), "Unsqueeze")
    d = input.inner_dim(dim, "unsqueeze", more=1, ragged=True)
    return input.with_values(input._held.unsqueeze(d), input._ragged_idx + (d < input._ragged_idx))


@form("squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
    if dim is None:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, however you can use "
            "squeeze(Tensor self, int dim) instead if you need this feature, please open an issue on github describing your use case."
        )
    if isinstance(input, Strided):
        d = _part_dim(
            input,
            dim,
            "squeeze(): For nested tensors, squeezing dimension 0 is not supported at the moment if you need this feature, please open "
            "an issue on github describing your use case.",
        )
        return _each(input, lambda part: part.squeeze(d), "Squeeze")
    d = input.inner_dim(dim, "squeeze")
    gone = input._held.shape[d] == 1 and d < input._ragged_idx - 1
    return input.with_values(input._held.squeeze(d), input._ragged_idx - gone)


@form("select")
def select(input: Any, dim: int, index: int) -> Any:
    d = wrap_dim(dim, input.ndim)
    if not d:
        n = len(input)
        if not -n <= index < n:
            words = f"index {index} is out of bounds for dimension 0 with size {n}"
            raise IndexError(words if isinstance(input, Strided) else "tuple index out of range")
        return input.parts()[index]
    if isinstance(input, Strided):
        return _each(input, lambda part: part.select(d - 1, index), "Select")
    d = input.inner_dim(dim, "select")
    return input.with_values(input._held.select(d, index), input._ragged_idx - (d < input._ragged_idx - 1))


@form("__getitem__")
def getitem(self: Any, index: Any) -> Any:
    given = [*index] if isinstance(index, tuple) else [index]
    if ... in [one if one is ... else 0 for one in given]:
        at = next(k for k, one in enumerate(given) if one is ...)
        given[at : at + 1] = [slice(None)] * (self.ndim - len(given) + 1)
    first, *rest = given or [slice(None)]
    if isinstance(first, int):
        found = select(self, 0, first)
        return found[tuple(rest)] if rest else found
    if first != slice(None):
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    if not rest:
        return self
    if isinstance(self, Strided):
        return _each(self, lambda part: part[tuple(rest)], "Select")
    ragged = self._ragged_idx
    for d, one in enumerate(rest, 1):
        if d == ragged and one != slice(None):
            self.inner_dim(d, "select" if isinstance(one, int) else "slice")
    less = len([one for one in rest[: ragged - 1] if isinstance(one, int)])
    return self.with_values(self._held[tuple(rest)], ragged - less)


@form("narrow")
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    d = wrap_dim(dim, input.ndim)
    if isinstance(input, Jagged):
        return input.with_values(input._held.narrow(input.inner_dim(dim, "narrow"), start, length))
    if d:
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {d}")
    return of_parts(input.parts()[start : start + length], "NestedTensorFromTensorList")


def _cutting(name: str) -> None:
    dense = getattr(Tensor, name)

    def function(self: Any, size: Any, dim: int = 0) -> Any:
        if isinstance(self, Strided):
            if wrap_dim(dim, self.ndim) != self.ndim - 1:
                raise RuntimeError(
                    f"{name.title()} for nested tensors is currently only supported for the last dimension."
                )
            pieces = zip(*[dense(part, size, -1) for part in self.parts()])
            return tuple([of_parts(piece, name.title()) for piece in pieces])
        if name == "chunk" and not wrap_dim(dim, self.ndim):
            parts, each = self.parts(), -(-len(self) // size)
            lots = [(parts[k : k + each], self.how_long()[k : k + each]) for k in range(0, len(parts), each)]
            r = self._ragged_idx
            return tuple([Jagged(join.cat(lot, r - 1), ends(long), _ragged_idx=r) for lot, long in lots])
        return tuple([self.with_values(one) for one in dense(self._held, size, self.inner_dim(dim, name))])

    form(name, *(["split_with_sizes"] if name == "split" else []))(function)


_cutting("chunk")
_cutting("split")


@form("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    like = _first(tensors)
    if isinstance(like, Strided):
        if wrap_dim(dim, like.ndim):
            lots = zip(*[t.parts() for t in tensors])
            d = wrap_dim(dim, like.ndim) - 1
            return of_parts([join.cat(lot, d) for lot in lots], "Cat")
        return of_parts([part for t in tensors for part in t.parts()], "Cat")
    d = like.inner_dim(dim, "cat")
    return like.with_values(join.cat([_against(like, t, "cat") for t in tensors], d))


@form("stack", to=of_jagged)
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    return cat([unsqueeze(t, dim) for t in tensors], dim)


@form("expand", "broadcast_to", to=of_jagged)
def expand(self: Jagged, *args: Any, **named_: Any) -> Any:
    sizes = _sizes_given(args or [*named_.values()])
    r = self._ragged_idx
    if any([n not in (-1, own) for n, own in zip(sizes, tuple(self.shape)[: r + 1])]):
        raise RuntimeError(f"expand(): cannot expand shape {tuple(self.shape)} -> {tuple(sizes)}")
    return self.with_values(self._held.expand([-1 if isinstance(n, NestedInt) else n for n in sizes[1:]]))


@form("where", to=of_jagged)
def where(condition: Any, input: Any, other: Any) -> Any:
    like = _first((condition, input, other))
    if isinstance(input, Tensor) and isinstance(other, Tensor):  # of no dimensions, too, as both are spread
        kind = dtypes.promote_types(input.dtype, other.dtype)
        input, other = input.to(kind), other.to(kind)
    return like.with_values(pointwise.where(*[_against(like, t, "where") for t in (condition, input, other)]))


form("adjoint")(lambda self: transpose(self, -2, -1))


# ---------------------------------------------------------------- products


@form("matmul", "__matmul__")
def matmul(input: Any, other: Any) -> Any:
    like = _first((input, other))
    if isinstance(like, Strided):
        for t, name in ((input, "self"), (other, "other")):
            if not isinstance(t, Strided):
                rest = {
                    "self": "non-nested self and nested other",
                    "other": "nested self and non-nested other",
                }
                raise RuntimeError(f"Expected both to be nested, but got a {rest[name]}")
        return of_parts([a @ b for a, b in zip(input.parts(), other.parts())], "Matmul")
    if isinstance(input, Jagged) and not isinstance(other, Jagged):
        if input._ragged_idx < input.ndim - 1:
            if other.ndim == 2 and input.ndim > 2:
                return input.with_values(named("Matmul", input._held @ other))
            if input.ndim >= 3 and input.ndim == other.ndim:
                return _again(input, [a @ b for a, b in zip(input.parts(), other)])
    elif isinstance(other, Jagged) and not isinstance(input, Jagged):
        if other._ragged_idx >= 2:
            if input.ndim == 2 and other.ndim > 2:
                return other.with_values(named("Matmul", input @ other._held))
            if other.ndim >= 3 and other.ndim == input.ndim:
                return _again(other, [a @ b for a, b in zip(input, other.parts())])
    elif input.ndim > 3 and other.ndim > 3 and input.same_cut(other):
        return input.with_values(named("Matmul", input._held @ other._held))
    elif (
        input.ndim == other.ndim == 3
        and (input._ragged_idx, other._ragged_idx) == (2, 1)
        and input.shape[2] == other.shape[1]
    ):
        return named("Matmul", join.stack([a @ b for a, b in zip(input.parts(), other.parts())]))
    own = tuple(input.shape) if isinstance(input, Jagged) else input.shape
    raise RuntimeError(f"matmul(): not supported between inputs of shapes {own} and {other.shape}")


def _again(like: Jagged, parts: Sequence[Tensor], node: str = "Matmul") -> Any:
    """Parts that are cut as `like`, made by a node of this name."""
    d = like._ragged_idx - 1
    offsets = like._offsets if like._lengths is None else ends(like._lengths)
    return Jagged(named(node, join.cat([*parts], d)), offsets, _ragged_idx=d + 1)


form("__rmatmul__")(lambda self, other: matmul(other, self))


@form("bmm")
def bmm(input: Any, mat2: Any) -> Any:
    if isinstance(input, Strided) and isinstance(mat2, Strided):
        return of_parts([a @ b for a, b in zip(input.parts(), mat2.parts())], "Bmm")
    if input.ndim != 3:
        raise ValueError("bmm(): input must be 3D")
    if mat2.ndim != 3:
        raise ValueError("bmm(): mat2 must be 3D")
    return matmul(input, mat2)


@form("scaled_dot_product_attention")
def attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    if attn_mask is not None and isinstance(query, Jagged):
        raise ValueError("Masks are not yet supported!")
    if attn_mask is not None or (is_causal and isinstance(query, Strided)):
        what = "is_causal=True" if attn_mask is None else "an explicit attn_mask is set"
        under = "_scaled" if attn_mask is None else "Scaled"
        raise RuntimeError(
            f"{under}_dot_product_attention: Nested tensors for query / key are not supported when {what}"
        )
    if not all([isinstance(t, Nested) for t in (query, key, value)]):
        raise ValueError("Expected query, key, and value to all be nested tensors, or none of them.")
    found = [
        F.scaled_dot_product_attention(
            q, k, v, None, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        for q, k, v in zip(query.parts(), key.parts(), value.parts())
    ]
    return of_parts(found, "Matmul") if isinstance(query, Strided) else _again(query, found)


def _attend(query: Any, key: Any, value: Any, *args: Any, **named_: Any) -> Any:
    """What `F.multi_head_attention_forward` makes of the parts."""
    if named_.pop("key_padding_mask") is not None or named_.pop("attn_mask") is not None:
        raise AssertionError("MultiheadAttention does not support masks for nested tensors")
    lots = zip(query.parts(), key.parts(), value.parts())
    parts, weights = zip(*[F.multi_head_attention_forward(*lot, *args, **named_) for lot in lots])
    got = of_parts(parts, "Linear") if isinstance(query, Strided) else _again(query, parts, "Linear")
    return got, None if weights[0] is None else padded(of_parts(weights, "Softmax"), 0.0)


Nested.attend = staticmethod(_attend)  # type: ignore[attr-defined]
of_jagged = shared | of_jagged
of_strided = shared | of_strided
complete(Jagged, of_jagged, "NestedTensorCPU")
complete(Strided, of_strided, "NestedTensorCPU")
