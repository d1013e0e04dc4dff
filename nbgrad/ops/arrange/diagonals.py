"""Diagonals read, written and made; blocks along a diagonal; and the parts of a tensor written over in a copy of it.

Each is a view's geometry used the other way round: where the view would read, a copy is written, and the gradient is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from nbgrad.core.op import LINEAR
from nbgrad.core.refusals import no_complex_gradient
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.prepared import Run, call_of, prepared, settled
from nbgrad.dispatch.quick import replayed
from nbgrad.dispatch.return_types import EXPECTED
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes, layout
from nbgrad.memory.device import cpu
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.reduce.sums import _sum
from nbgrad.ops.views.copy import (
    clone,
    clone_spec,
    contiguous,
    copier,
    copy_memory,
    copying,
    to_dtype,
    zeros,
)
from nbgrad.ops.views.join import _checked
from nbgrad.ops.views.shape import expand, owned, reshape
from nbgrad.ops.views.slices import (
    _diagonal,
    _diagonal_geometry,
    _select_geometry,
    _slice_geometry,
    diagonal,
    narrow,
)
from nbgrad.ops.views.views import _embed, _read_at, as_strided, as_strided_view

# ---------------------------------------------------------------- a diagonal as a matrix, a matrix's diagonal


def _of_diagonal(sp: Spec, offset: int, dim1: int, dim2: int) -> Spec:
    """What has `sp` on the diagonal of its dimensions `dim1` and `dim2`."""
    shape = list(tuple(sp.shape)[:-1])
    n = sp.shape[-1] + abs(offset)
    for d in sorted((dim1, dim2)):
        shape.insert(d, n)
    return spec(sp.dtype, tuple(shape), None, sp.device)


@prepared(
    "DiagEmbed",
    tangent=LINEAR,
    batch=lambda x, offset, dim1, dim2: _diag_embed(x, offset=offset, dim1=dim1 + 1, dim2=dim2 + 1),
    input=lambda g, offset, dim1, dim2: _diagonal(g, offset=offset, dim1=dim1, dim2=dim2),
)
def _diag_embed(input: Spec, *, offset: int, dim1: int, dim2: int) -> Run:
    out = _of_diagonal(input, offset, dim1, dim2)
    at, start = _diagonal_geometry(out, offset=offset, dim1=dim1, dim2=dim2)
    if not at.numel:
        return lambda t: zeros(out)
    k, look, skipped = copying(at, input), out.backend.view, start * out.itemsize

    def run(t: Tensor) -> Tensor:
        made = zeros(out)
        k.launch(k.address, k.n, look(made._buf, skipped) if skipped else made._buf, t._buf)
        return made

    return run


@method
@settled
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices of zeros in `dim1` and `dim2` with the last dimension of `input` on a diagonal, `offset` above the main one. The
    gradient is that diagonal's.

    >>> torch.diag_embed(torch.tensor([1, 2]), offset=1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    a, b = (layout.wrap_dim(d, input.ndim + 1) for d in (dim1, dim2))
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return call_of(_diag_embed, input, offset=offset, dim1=a, dim2=b)


@prepared(
    "DiagonalBackward0",
    tangent=LINEAR,
    batch=lambda x, offset: clone(diagonal(x, offset, 1, 2)),
    input=lambda g, input_spec, offset: _put_diagonal(g, input_spec, offset),
)
def _diagonal_copy(input: Spec, *, offset: int) -> Run:
    at, start = _diagonal_geometry(input, offset=offset, dim1=0, dim2=1)
    return copier(at, clone_spec(at), start)


_diagonal_copy.op.node_name = "DiagonalBackward0_copy"  # type: ignore[attr-defined]


def _put_diagonal(g: Tensor, input_spec: Spec, offset: int) -> Tensor:
    base = input_spec.dense()
    at, start = _diagonal_geometry(base, offset=offset, dim1=0, dim2=1)
    return _embed(g, base=base, at=at, offset=start)


_NOT_CAST = "diag: result type {want} can't be cast to the desired out= type {got}"


@method
@settled
def diag(input: Tensor, diagonal: int = 0, *, out: Tensor | None = None) -> Any:
    """Of a vector the matrix that has it on a diagonal, of a matrix a copy of that diagonal; `diagonal` counts above the main one.

    >>> torch.diag(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    >>> torch.diag(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    op, how = (_diag_embed, {"dim1": 0, "dim2": 1}) if input.ndim == 1 else (_diagonal_copy, {})
    if out is None:
        return call_of(op, input, offset=diagonal, **how)
    castable = input.ndim == 2 or dtypes.can_cast(input.dtype, out.dtype)
    result = op(input, offset=diagonal, **how)
    return into("diag", out, result, (input,), EXPECTED if castable else _NOT_CAST)


@method
@replayed
def diagflat(input: Tensor, offset: int = 0) -> Any:
    """A matrix of zeros with all elements of `input` on a diagonal, `offset` above the main one.

    >>> torch.diagflat(torch.tensor([1, 2]), 1)
    tensor([[0, 1, 0],
            [0, 0, 2],
            [0, 0, 0]])
    """
    return _diag_embed(reshape(input, (-1,)), offset=offset, dim1=0, dim2=1)


def _trace_back(g: Tensor, input_spec: Spec) -> Tensor:
    return _put_diagonal(expand(g, (min(input_spec.shape),)), input_spec, 0)


@prepared("Trace", tangent=LINEAR, batch=lambda x: diagonal(x, 0, 1, 2).sum(-1), input=_trace_back)
def _trace(input: Spec) -> Run:
    line, _ = _diagonal_geometry(input, offset=0, dim1=0, dim2=1)
    run = _sum.at(line, {"dims": (0,), "keepdim": False}).run  # type: ignore[attr-defined]
    return lambda t: run(wrap(t._buf, line))


@method
@settled
def trace(input: Tensor) -> Any:
    """The sum of a matrix's diagonal. The gradient is `g` on the diagonal and 0 beside it.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> x.trace().backward()
    >>> x.grad
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return call_of(_trace, input)


@method
def fill_diagonal_(self: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """Set the main diagonal to `fill_value`; return the tensor. With `wrap` the diagonal of a tall matrix starts again below a free
    row.

    >>> torch.zeros(2, 3).fill_diagonal_(1)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    shape = tuple(self.shape)
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    n, step = min(shape), sum(self.stride())
    self.as_strided((n,), (step,), self.storage_offset()).fill_(fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        first = shape[1] + 1
        more = -(-(self.numel() - first * shape[1]) // first)
        below = self.storage_offset() + self.stride(0) * first
        self.as_strided((more,), (step,), below).fill_(fill_value)
    return self


# ---------------------------------------------------------------- blocks along the diagonal


def _block_shape(sp: Spec) -> Ints:
    return (1,) * (2 - sp.ndim) + tuple(sp.shape)


def _blocks_back(g: Tensor, specs: Sequence[Spec], wanted: Sequence[bool]) -> list[Tensor | None]:
    found: list[Tensor | None] = []
    row = column = 0
    for sp, w in zip(specs, wanted):
        rows, columns = _block_shape(sp)
        if w:
            part = narrow(narrow(g, 0, row, rows), 1, column, columns)
            found.append(to_dtype(reshape(part, sp.shape), sp.dtype))
        else:
            found.append(None)
        row, column = row + rows, column + columns
    return found


@differentiable("BlockDiag", tangent=LINEAR, all=_blocks_back)
def _block_diag(*tensors: Tensor) -> Tensor:
    shapes = [_block_shape(t._spec) for t in tensors]
    d = reduce(dtypes.promote_types, [t._spec.dtype for t in tensors])
    out = zeros(spec(d, (sum(r for r, _ in shapes), sum(c for _, c in shapes)), None, tensors[0].device))
    row = column = 0
    for t, (rows, columns) in zip(tensors, shapes):
        if t.numel():
            memory = out._spec.backend.view(out._buf, (row * out.shape[1] + column) * out.itemsize)
            copy_memory(
                wrap(memory, out._spec.like((rows, columns), out._spec.strides)), reshape(t, (rows, columns))
            )
        row, column = row + rows, column + columns
    return out


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix of zeros with the given ones along its diagonal; a vector is a row. Each one's gradient is its block.

    >>> torch.block_diag(torch.ones(1, 2), torch.tensor([[5.0]]))
    tensor([[1., 1., 0.],
            [0., 0., 5.]])
    """
    _checked("block_diag", tensors)
    if not tensors:
        return zeros(spec(dtypes.get_default_dtype(), (1, 0), None, cpu))
    first = tensors[0]._spec.device
    for k, t in enumerate(tensors):
        if t._spec.device is not first:
            raise RuntimeError(
                f"Input tensors must all be on the same device. Input 0 is on device {first} and input {k} is on device {t._spec.device}."
            )
        if t.ndim > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has {t.ndim} dimensions"
            )
    return _block_diag(*tensors)


# ---------------------------------------------------------------- a part written over in a copy

Geometry = Callable[[Spec], tuple[Spec, int]]


def _part_writer(node_name: str) -> Callable[..., Tensor]:
    """A copy of the input with `src` where a view of that geometry would read."""

    def input_back(g: Tensor, src_spec: Spec, at: Geometry) -> Tensor:
        return written(g, zeros(src_spec.dense()), at=at)

    def src_back(g: Tensor, at: Geometry) -> Tensor:
        return as_strided_view(g, *at(g._spec.dense()))

    @differentiable(node_name, tangent=LINEAR, input=input_back, src=src_back)
    def written(input: Tensor, src: Tensor, *, at: Geometry) -> Tensor:
        # As in PyTorch, even gaps of the input's layout are the copy's; but no element is stored twice.
        own = input._spec.plain
        out = empty(own.dense() if layout.overlaps(own.shape, own.strides) else own)
        copy_memory(out, input)
        sp, offset = at(out._spec)
        if sp.numel:
            memory = out._spec.backend.view(out._buf, offset * out.itemsize)
            copy_memory(wrap(memory, sp), src)
        return out

    return written


_slice_written, _select_written = _part_writer("SliceScatter"), _part_writer("SelectScatter")
_diagonal_written, _strided_written = _part_writer("DiagonalScatter"), _part_writer("AsStridedScatter")


def _same_sizes(src: Tensor, want: Ints) -> None:
    if tuple(src.shape) != tuple(want):
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(want)}"
        )


@method
@replayed
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """A copy of `input` with `src` written over `input[start:end:step]` along `dim`. `input` gets a gradient beside that part, `src`
    in it.

    >>> torch.zeros(4).slice_scatter(torch.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    d = layout.wrap_dim(dim, input.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    first, last, _ = slice(start, end).indices(input.shape[d])
    length = max(0, -(-(last - first) // step))

    def at(sp: Spec) -> tuple[Spec, int]:
        return _slice_geometry(sp, dim=d, start=first, length=length, step=step)

    _same_sizes(src, at(input._spec.dense())[0].shape)
    no_complex_gradient("slice_scatter", input, src)
    result: Tensor = _slice_written(input, src, at=at)
    return result if out is None else into("slice_scatter", out, result, (input, src))


@method
@replayed
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` written where `index` shows along `dim`. `input` gets a gradient beside that part, `src` in it.

    >>> torch.zeros(2, 2).select_scatter(torch.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    n = input.shape[layout.wrap_dim(dim, input.ndim)]
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    d = layout.wrap_dim(dim, input.ndim)

    def at(sp: Spec) -> tuple[Spec, int]:
        return _select_geometry(sp, dim=d, index=index % n)

    _same_sizes(src, at(input._spec.dense())[0].shape)
    no_complex_gradient("select_scatter", input, src)
    return _select_written(input, src, at=at)


@method
@replayed
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of `input` with `src` written on a diagonal of `dim1` and `dim2`. `input` gets a gradient beside it, `src` on it.

    >>> torch.zeros(2, 2).diagonal_scatter(torch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    a, b = (layout.wrap_dim(d, input.ndim) for d in (dim1, dim2))
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")

    def at(sp: Spec) -> tuple[Spec, int]:
        return _diagonal_geometry(sp, offset=offset, dim1=a, dim2=b)

    _same_sizes(src, at(input._spec.dense())[0].shape)
    return _diagonal_written(input, src, at=at)


@method
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of `input` with `src` written where `as_strided` of the same arguments looks. `input` gets a gradient beside it, `src`
    in it.

    >>> torch.zeros(4).as_strided_scatter(torch.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    at = as_strided(
        input.detach(), size, stride, storage_offset
    )  # which refuses what the storage does not hold
    part, start = at._spec.plain, at.storage_offset() - input.storage_offset()
    _same_sizes(src, part.shape)
    if layout.overlaps(input._spec.shape, input._spec.strides):
        input = contiguous(input)
    base = input._spec.plain
    if not part.numel or (base.contiguous and 0 <= start <= base.extent - part.extent):
        return _strided_written(input, src, at=lambda sp: (part, start))
    # What lies beside the input, or in its gaps, is written in a copy of that memory, and not read again.
    before, after = max(0, -start), max(base.extent, start + part.extent)
    memory = _embed(input, base=base.like((before + after,)), at=base, offset=before)
    whole = _strided_written(memory, src, at=lambda sp: (part, before + start))
    return owned(_read_at(whole, at=base, offset=before))


__all__ = [
    "as_strided_scatter",
    "block_diag",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal_scatter",
    "select_scatter",
    "slice_scatter",
    "trace",
]
