"""Products by groups of rows or columns, as layers of experts take them: one tensor says where each group ends."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.memory import dtypes
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.views.join import cat, stack

_FLOATS = (dtypes.float32, dtypes.bfloat16, dtypes.float16)


@differentiable(
    "GroupedMm",
    self=lambda g, mat2, offs: _grouped_mm(g, mat2.mT, offs=offs),
    mat2=lambda g, self, offs: _grouped_mm(self.mT, g, offs=offs),
)
def _grouped_mm(self: Tensor, mat2: Tensor, *, offs: tuple[int, ...]) -> Tensor:
    """Of two groups of matrices pair by pair; a matrix has its groups along what it shares with no group of the other or, of two, along
    what they share."""
    if self.ndim == mat2.ndim == 3:
        return matmul(self, mat2)
    groups = [slice(begin, end) for begin, end in zip((0, *offs), offs)]
    if self.ndim == mat2.ndim:
        found = [matmul(self[:, s], mat2[s]) for s in groups]
        return stack(found) if found else self.new_zeros(0, len(self), mat2.shape[1])
    if self.ndim == 2:
        found = [matmul(self[s], b) for s, b in zip(groups, mat2)]
        behind = len(self) - sum(map(len, found))
        return cat([*found, self.new_zeros(behind, mat2.shape[2])])
    found = [matmul(a, mat2[:, s]) for s, a in zip(groups, self)]
    behind = mat2.shape[1] - sum(f.shape[1] for f in found)
    return cat([*found, self.new_zeros(self.shape[1], behind)], 1)


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """Products of groups: `offs` says where each of a matrix's groups ends, and the k-th is multiplied by the k-th matrix of the other.
    Rows (m, k) by (groups, k, n) give (m, n), (groups, m, k) by columns (k, n) give (m, n), (m, k) by (k, n), both along k, give
    (groups, m, n); what stands behind the last group gives zeros.

    >>> rows, experts = torch.ones(3, 4), torch.stack([torch.ones(4, 4), 2 * torch.ones(4, 4)])
    >>> F.grouped_mm(rows, experts, offs=torch.tensor([1, 3], dtype=torch.int32))[:, 0]
    tensor([4., 8., 8.])
    """
    for word, m in (("mat_a", mat_a), ("mat_b", mat_b)):
        if m.dtype not in _FLOATS:
            raise RuntimeError(
                f"Expected {word} to be Float32, BFloat16 or Float16 matrix, got {m.dtype.scalar_name}"
            )
    for word, m in (("mat_a", mat_a), ("mat_b", mat_b)):
        if m.ndim not in (2, 3):
            raise RuntimeError(f"{word} has to be 2 or 3d")
    if mat_a.shape[-1] != mat_b.shape[-2]:
        raise RuntimeError("contraction dimension of mat_a and mat_b must match")
    _check_strides(mat_a)
    _check_strides(mat_b)
    if (offs is None) != (mat_a.ndim == mat_b.ndim == 3):
        raise RuntimeError(
            "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d"
        )
    if offs is not None:
        if offs.ndim != 1:
            raise RuntimeError("offs has to be 1D")
        if offs.dtype != dtypes.int32:
            raise RuntimeError("Offsets have to be int32")
    if out_dtype not in (None, mat_a.dtype):
        raise RuntimeError("Grouped gemm output dtype must match `mat_a` dtype")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    groups = [len(m) for m in (mat_a, mat_b) if m.ndim == 3] + ([] if offs is None else [len(offs)])
    if len({*groups}) > 1:
        raise RuntimeError(
            "batched dimension has to match" if offs is None else "matrix batch sizes have to match"
        )
    ends = () if offs is None else tuple(offs.tolist())
    room = mat_b.shape[1] if mat_a.ndim == 3 else mat_a.shape[mat_b.ndim - 3]
    if [*ends] != sorted(ends) or (ends and not 0 <= ends[0] <= ends[-1] <= room):  # PyTorch reads elsewhere
        raise RuntimeError(f"grouped_mm(): offs must rise from 0 to at most {room}, but got {[*ends]}")
    return _grouped_mm(mat_a, mat_b, offs=ends)


def _check_strides(m: Tensor) -> None:
    """As the kernels of a GPU read them, on which PyTorch insists everywhere."""
    strides, sizes = m.stride(), m.shape
    for step, run in ((-1, -2), (-2, -1)):
        if strides[run] == 1 and strides[step] >= max(1, sizes[run]):
            if strides[step] % (16 // m.element_size()):
                raise RuntimeError("strides should be multiple of 16 bytes")
            return
    raise RuntimeError(f"Invalid strides/sizes, got {[*strides]} for strides and {[*sizes]} for sizes")


__all__ = ["grouped_mm"]
