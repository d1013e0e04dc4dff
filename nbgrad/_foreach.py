"""`torch._foreach_*`: a method of each tensor of a list, as optimisers and containers of tensors written for PyTorch call them.

Promises what the method gives for each; it is one call a tensor, as a kernel here takes about a microsecond to launch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.ours import called
from nbgrad.core.tensor import Tensor

_UNARY = """
    abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 max neg reciprocal round rsqrt sigmoid
    sign sin sinh sqrt tan tanh trunc zero
"""
_MORE = "add sub mul div clamp_min clamp_max minimum maximum pow lerp addcdiv addcmul norm copy mm"
_OUT_ONLY = {"clone", "max", "norm", "mm"}
_IN_PLACE_ONLY = {"copy"}
# What takes numbers as well.
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}
# The operands by name, of which each may have several.
_OPERANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "div", *_METHODS, *_METHODS.values()), ("scalar scalars other",)),
    "pow": ("exponent",),
    "lerp": ("tensors1", "weight weights"),
    **dict.fromkeys(("addcdiv", "addcmul"), ("tensor1", "tensor2")),
    "copy": ("src",),
    "mm": ("mat2",),
}
NAMES = frozenset(
    f"_foreach_{name}{end}"
    for name in (*_UNARY.split(), *_MORE.split())
    for end in ("", "_")
    if name not in (_OUT_ONLY if end else _IN_PLACE_ONLY)
)


def _tensors(name: str, given: Any) -> list[Tensor]:
    if not isinstance(given, (list, tuple)):
        kind = type(given).__name__
        raise TypeError(f"{name}(): argument 'self' (position 1) must be tuple of Tensors, not {kind}")
    for k, t in enumerate(given):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {type(t).__name__}")
    if not given:
        raise RuntimeError("Tensor list must have at least one tensor.")
    return list(given)


def _each(value: Any, count: int) -> list[Any]:
    """An argument of each of the calls: one of a list, or the same."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        if value and isinstance(value[0], Tensor):
            raise RuntimeError(
                f"Tensor lists must have the same number of tensors, got {count} and {len(value)}"
            )
        raise RuntimeError("Tensor list must have same number of elements as scalar list.")
    return list(value)


def _values(packed: Tensor, count: int) -> list[Any]:
    """A number for each call, of a tensor that holds them."""
    if packed.ndim != 1:
        raise RuntimeError(f"Expected packed scalar Tensor to be of dimension 1. Got {packed.ndim} instead.")
    if len(packed) != count:
        raise RuntimeError(
            f"Expected length of scalars to match input of length {count} but got {len(packed)} instead."
        )
    if not packed.is_contiguous():
        raise RuntimeError("Expected scalars to be contiguous.")
    values: list[Any] = packed.tolist()
    return values


def make(name: str) -> Callable[..., Any]:
    """The function of a name of `NAMES`."""
    plain = name.removeprefix("_foreach_")
    inplace = plain[-1] == "_"
    stem = plain.removesuffix("_")
    operands = [names.split() for names in _OPERANDS.get(stem, ())]
    method = getattr(Tensor, _METHODS.get(stem, stem) + "_" * inplace)

    def foreach(self: Any, *args: Any, **kwargs: Any) -> Any:
        if stem == "pow" and isinstance(self, (int, float)):
            return tuple([self**t for t in _tensors(name, *args)])
        for names in operands[len(args) :]:
            args += tuple([kwargs.pop(one) for one in names if one in kwargs])
        tensors = _tensors(name, self)
        count = len(tensors)
        if "alpha" in kwargs and not (args and isinstance(args[0], (Tensor, list, tuple))):
            raise TypeError(f"{name}() received an invalid combination of arguments")
        if stem in ("addcdiv", "addcmul"):
            args, value = args[:2], kwargs.pop("value", args[2] if len(args) > 2 else 1)
            value = kwargs.pop("scalars", value)
            values = _values(value, count) if isinstance(value, Tensor) else _each(value, count)
            rows = [
                method(t, a, b, value=v)
                for t, a, b, v in zip(tensors, *[_each(a, count) for a in args], values)
            ]
        else:
            columns = [_each(a, count) for a in args]
            named = {key: _each(value, count) for key, value in kwargs.items()}
            rows = [
                method(t, *[c[k] for c in columns], **{key: c[k] for key, c in named.items()})
                for k, t in enumerate(tensors)
            ]
        return self if inplace else tuple(rows)

    if stem == "norm":

        def method(t: Tensor, ord: Any = 2, dtype: Any = None) -> Any:
            from nbgrad.linalg import vector_norm

            return vector_norm(t, ord, dtype=dtype)

    foreach.__name__ = foreach.__qualname__ = name
    foreach.__module__ = called.package
    return foreach


__all__ = ["NAMES", "make"]
