"""What PyTorch refuses of the operands of products, in its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.core.plan import number_type
from nbgrad.core.tensor import Tensor, empty, hooks
from nbgrad.dispatch.elementwise import into
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.ops.linear.blas import _folds


def _word(sp: Spec) -> str:
    return sp.dtype.c_name


def _no_bool(name: str, a: Spec, b: Spec) -> None:
    if (a.dtype is dtypes.bool_ or a.dtype.kept) and a.numel and b.numel:
        raise NotImplementedError(f"\"{name}\" not implemented for '{a.dtype.scalar_name}'")


def _inner_sizes(a: Spec, b: Spec) -> None:
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )


def _check_mm(a: Spec, b: Spec) -> None:
    if a.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if b.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    _inner_sizes(a, b)
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {_word(a)} != {_word(b)}")
    _no_bool("addmm_impl_cpu_", a, b)


def _check_bmm(a: Spec, b: Spec, name: str = "bmm") -> None:
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if b.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )
    # From 400 products on PyTorch multiplies matrix by matrix.
    _no_bool(name if a.shape[1] * a.shape[2] * b.shape[2] < 400 else "addmm_impl_cpu_", a, b)
    if a.dtype is not b.dtype and a.numel and b.numel:
        raise RuntimeError(f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}")


def _check_mv(a: Spec, b: Spec) -> None:
    _check_addmv(None, a, b)


def _check_addmv(c: Spec | None, a: Spec, b: Spec) -> None:
    added = c if c is not None else b  # without an addend PyTorch makes one, of the vector's dtype
    dims = (1 if c is None else c.ndim, a.ndim, b.ndim)
    if dims[0] > 1 or dims[1:] != (2, 1):
        raise RuntimeError(f"vector + matrix @ vector expected, got {dims[0]}, {dims[1]}, {dims[2]}")
    rows = a.shape[0] if c is None or not c.ndim else c.shape[0]
    if a.shape[1] != b.shape[0] or rows not in (1, a.shape[0]):
        raise RuntimeError(
            f"size mismatch, got input ({rows}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
        )
    if not added.dtype is a.dtype is b.dtype:
        names = ", ".join(sp.dtype.scalar_name for sp in (added, a))
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {names}, and {b.dtype.scalar_name}"
        )
    _no_bool("addmv_impl_cpu", a, b)


def _check_dot(a: Spec, b: Spec) -> None:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {a.dtype.scalar_name} and {b.dtype.scalar_name}"
        )
    n, m = a.numel, b.numel
    if n != m:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of elements, but "
            f"got {n} and {m} elements respectively"
        )
    if a.dtype is dtypes.bool_ or a.dtype.kept:
        raise NotImplementedError(f"\"dot\" not implemented for '{a.dtype.scalar_name}'")


def _refuse(name: str, words: Sequence[str], values: Sequence[Any]) -> None:
    for k, (word, value) in enumerate(zip(words, values, strict=True)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{word}' (position {k + 1}) must be Tensor, not {type(value).__name__}"
            )


def _refuse_words(name: str, **numbers: Any) -> None:
    for word, value in numbers.items():
        if number_type(value) is None:
            raise TypeError(f"{name}(): argument '{word}' must be Number, not {type(value).__name__}")


def _into(
    name: str, out: Any, result: Tensor, inputs: Sequence[Tensor], apart: Sequence[Tensor] = ()
) -> Tensor:
    """`out=` of a product is of the result's very dtype; which words refuse another depends on which product it is."""
    if isinstance(out, Tensor) and out.dtype is not result.dtype:
        want, have = result._spec, out._spec
        vectors = {"dot": 2, "vdot": 2, "mv": 1}.get(name, 0)
        if name == "matmul":
            vectors = [t.ndim for t in inputs].count(1)
        if vectors == 2:
            raise RuntimeError(
                f"result dtype {have.dtype.scalar_name} does not match input dtype {want.dtype.scalar_name}"
            )
        batch = max(t.ndim for t in inputs) > 2  # PyTorch resizes `out` before it looks at it
        if vectors == 1 and (_folds(*inputs) if batch else (have.ndim < 2 and have.numel in (1, want.numel))):
            raise RuntimeError(
                f"addmv input tensors must have the same dtype, but got {have.dtype.scalar_name}, "
                f"{want.dtype.scalar_name}, and {want.dtype.scalar_name}"
            )
        if name == "inner":
            raise RuntimeError(
                f"tensordot: Expected the output tensor to have dtype {want.dtype.scalar_name}, but got an output tensor with dtype "
                f"{have.dtype.scalar_name}"
            )
        raise RuntimeError(f"Expected out tensor to have dtype {_word(want)}, but got {_word(have)} instead")
    if name == "matmul" and isinstance(out, Tensor) and [t.ndim for t in inputs] == [1, 2]:
        # PyTorch multiplies a row, and so warns of an `out` that fits.
        hooks.resize(empty(out._spec), (1, *result.shape))
    return into(name, out, result, inputs, apart=apart)
