"""Products of vectors and matrices, by NumPy's BLAS.

A product is read in one of three ways: `x @ y`, `x @ y.mT` or `x.mT @ y`. Its two gradients are again such products, so
each way's rule names the others, derivatives of every order exist, and no transposed view is ever made for a gradient.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.core.op import PRODUCT, Op
from nbgrad.core.tensor import Tensor, hooks, requires, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.stanza import method
from nbgrad.history.record import recorder
from nbgrad.memory import layout
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.ops.linear.blas import _NO_STATIC, Check, Run, _folds, _known
from nbgrad.ops.linear.refusals import _check_bmm, _check_dot, _check_mm, _check_mv, _into, _refuse
from nbgrad.ops.pointwise.arithmetic import mul
from nbgrad.ops.views.order import _t
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- families of three


def _product(
    node: str,
    run: Run,
    input: Callable[..., Any],
    mat2: Callable[..., Any],
    batch: Callable[..., Any],
    second: str = "mat2",
    holomorphic: bool = True,
) -> Run:
    """A product as an op, with the gradients of its two operands; `batch` is that of many examples, `second` PyTorch's name of the
    second operand."""

    def forward(input: Tensor, mat2: Tensor) -> Tensor:
        return run(input, mat2)

    op = Op(forward, {"input": input, "mat2": mat2}, node, PRODUCT, batch, holomorphic=holomorphic)
    op.public = {**op.public, "mat2": second}
    find = op.recorders.get

    def product(a: Tensor, b: Tensor) -> Tensor:
        if state.active and transforms.wrapped((a, b)):
            return transforms.apply(op, product, (a, b), _NO_STATIC)
        out = run(a, b)
        asked = a._rg | b._rg << 2
        if asked and state.grad and out._spec.dtype.inexact:
            (find(asked) or recorder(op, asked))(out, _NO_STATIC, a, b)
        return out

    product.run, product.op = run, op  # type: ignore[attr-defined]
    op.function = run
    return product


def _upright(sp: Any) -> bool:
    """Whether a matrix lies column by column, as the transpose of a contiguous one does."""
    return len(sp.shape) == 2 and sp.strides[0] == 1 and sp.strides[1] == sp.shape[0]


def _family(node: str, check: Check) -> tuple[Run, Run, Run]:
    # As in PyTorch the gradient of a matrix that lies column by column lies so too: turned back, it is contiguous.
    nn = _product(
        node,
        _known(check, "nn"),
        lambda g, mat2, input_spec: _t(nt(mat2, g)) if _upright(input_spec) else nt(g, mat2),
        lambda g, input, mat2_spec: _t(tn(g, input)) if _upright(mat2_spec) else tn(input, g),
        lambda has, a, b: _matrix_product(a, b),
    )
    nt = _product(
        node,
        _known(check, "nt"),
        lambda g, mat2: nn(g, mat2),
        lambda g, input: tn(g, input),
        lambda has, a, b: _matrix_product(a, b.mT),
    )
    tn = _product(
        node,
        _known(check, "tn"),
        lambda g, mat2: nt(mat2, g),
        lambda g, input: nn(input, g),
        lambda has, a, b: _matrix_product(a.mT, b),
    )
    nt.op.turned, tn.op.turned = "mat2", "input"  # type: ignore[attr-defined]
    return nn, nt, tn


def _mv_each(has: tuple[bool, bool], a: Tensor, b: Tensor) -> Tensor:
    if has == (False, True):
        return _mm_nt(b, a)
    return squeeze(_bmm(a, unsqueeze(b, -1)), -1) if has[1] else _matrix_product(a, b)


_mm, _mm_nt, _mm_tn = _family("MmBackward0", _check_mm)
_bmm, _bmm_nt, _bmm_tn = _family("BmmBackward0", _check_bmm)
_mv: Run = _product(
    "MvBackward0",
    _known(_check_mv, "nn"),
    lambda g, mat2: outer(g, mat2),
    lambda g, input: _mv(_t(input), g),
    _mv_each,
    "vec",
)
_dot: Run = _product(
    "DotBackward0",
    _known(_check_dot, "nn"),
    lambda g, mat2: mul(g, mat2),
    lambda g, input: mul(g, input),
    lambda has, a, b: mul(a, b).sum(-1),
    "tensor",
)


_vdot: Run = _product(
    "VdotBackward0",
    _known(_check_dot, "cn"),
    lambda g, mat2: mul(hooks.conj(g), mat2),
    lambda g, input: mul(g, input),
    lambda has, a, b: mul(hooks.conj(a), b).sum(-1),
    "other",
    holomorphic=False,
)


_RANKS = {"mm": (2, 2), "bmm": (3, 3), "mv": (2, 1), "dot": (1, 1)}


def _check_ranks(name: str, a: Tensor, b: Tensor) -> None:
    """What one example is may be wrong where all together are not."""
    want = _RANKS[name]
    if isinstance(a, Tensor) and isinstance(b, Tensor) and (a.ndim, b.ndim) != want:
        raise RuntimeError(
            "Got wrong shapes for dot"
            if name == "dot"
            else f"Shape mismatch: Got incorrect dims for {name}(a, b). a has dim {a.ndim}and b has dim {b.ndim}but expected them to have "
            f"dim {want[0]} and dim {want[1]}"
        )


def _called(
    name: str, words: tuple[str, str], product: Run, a: Tensor, b: Tensor, out: Tensor | None
) -> Tensor:
    if state.levels and name in _RANKS:
        _check_ranks(name, a, b)
    try:
        result = product(a, b)
    except AttributeError:
        _refuse(name, words, (a, b))
        raise
    return result if out is None else _into(name, out, result, (a, b))


@method
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The matrix product: (n, k) times (k, m) is (n, m). The gradients are `g @ mat2.T` and `input.T @ g`.

    >>> torch.mm(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 0.0], [1.0, 1.0]]))
    tensor([[3., 2.],
            [7., 4.]])
    """
    return _called("mm", ("input", "mat2"), _mm, input, mat2, out)


@method
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The products of the matrices of two batches, pair by pair: (b, n, k) times (b, k, m) is (b, n, m), and no batch is broadcast. The
    gradients are `g @ mat2.mT` and `input.mT @ g`.

    >>> torch.bmm(torch.ones(2, 1, 3), torch.ones(2, 3, 1)).flatten()
    tensor([3., 3.])
    """
    return _called("bmm", ("input", "mat2"), _bmm, input, mat2, out)


@method
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A matrix times a vector: (n, m) times (m,) is (n,). The gradients are `outer(g, vec)` and `input.T @ g`.

    >>> torch.mv(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    return _called("mv", ("input", "vec"), _mv, input, vec, out)


@method
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The sum of the products of two vectors of one length. The gradient of each is `g` times the other.

    >>> torch.dot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor(11.)
    >>> torch.func.grad(torch.dot)(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([3., 4.])
    """
    return _called("dot", ("input", "tensor"), _dot, input, tensor, out)


@method
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The same as `dot`, but that of complex numbers the first vector is conjugated.

    >>> torch.vdot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    return _called("vdot", ("input", "other"), _vdot, input, other, out)


# ---------------------------------------------------------------- products made of those


def _shaped(node: str) -> Callable[[Tensor, tuple[int, ...]], Tensor]:
    """A product that nobody else has, in another shape: to the user no view. `node` is what PyTorch shows there."""

    def forward(input: Tensor) -> Tensor:
        raise AssertionError("recorded, never called")

    op = Op(forward, {"input": lambda g, input_spec: reshape(g, input_spec.shape)}, node)
    op.shapes = True

    def shaped(t: Tensor, shape: tuple[int, ...]) -> Tensor:
        if state.active and transforms.wrapped((t,)):
            return reshape(t, shape)
        out = wrap(t._buf, spec(t.dtype, shape, None, t.device))
        if t._rg:
            (op.recorders.get(t._rg) or recorder(op, t._rg))(out, _NO_STATIC, t)
        return out

    return shaped


_unsafe_view, _view, _squeeze = map(_shaped, ("UnsafeViewBackward0", "ViewBackward0", "SqueezeBackward4"))


@cached(PLANS)
def _as_row(line: Spec) -> Spec:
    (n,), (step,) = line.shape, line.strides
    return line.like((1, n), (n * step, step))


@cached(PLANS)
def _as_line(row: Spec) -> Spec:
    return row.like(row.shape[1:], None)


@cached(PLANS)
def _flat(a: Spec, b: Spec) -> tuple[Spec, Spec]:
    """Rows of a batch as one matrix, and how its product with a matrix lies."""
    *lead, n = a.shape
    return a.like((math.prod(lead), n)), b.like((*lead, b.shape[1]))


def _recorded(a: Tensor, b: Tensor) -> bool:
    """Whether more than values is asked for."""
    return bool(state.active or (state.grad and ((a._rg and requires(a)) or (b._rg and requires(b)))))


def _matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """Vectors, matrices and batches, which broadcast. As in PyTorch, a batch times a matrix is one tall product."""
    dims = a._spec.ndim, b._spec.ndim
    if dims == (2, 2):
        return _mm(a, b)
    if 0 in dims:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {dims[0]}D and {dims[1]}D"
        )
    if dims == (1, 1):
        return _dot(a, b)
    if dims == (2, 1):
        return _mv(a, b)
    if dims == (1, 2):
        if not _recorded(a, b):
            out: Tensor = _mm.run(wrap(a._buf, _as_row(a._spec)), b)  # type: ignore[attr-defined]
            out._spec = _as_line(out._spec)
            return out
        return _squeeze(_mm(reshape(a, (1, a.shape[0])), b), (b.shape[1],))
    if _folds(a, b):
        return _folded(a, b) if dims[0] >= dims[1] else _folded_right(a, b)
    return _batched(a, b)


def _rows(t: Tensor) -> Tensor:
    """All but the last dimension as one."""
    *lead, last = t.shape
    n = 1
    for size in lead:
        n *= size
    return reshape(t, (n, last))


def _folded(a: Tensor, b: Tensor) -> Tensor:
    if b._spec.ndim == 2 and a._spec.contiguous and not _recorded(a, b):
        rows, shown = _flat(a._spec, b._spec)
        out: Tensor = _mm.run(wrap(a._buf, rows), b)  # type: ignore[attr-defined]
        out._spec = shown
        return out
    lead = tuple(a.shape)[:-1]
    if b.ndim == 1:
        return _unsafe_view(_mv(_rows(a), b), lead)
    return _unsafe_view(_mm(_rows(a), b), (*lead, b.shape[1]))


def _folded_right(a: Tensor, b: Tensor) -> Tensor:
    turned = b.mT
    lead = tuple(turned.shape)[:-1]
    if a.ndim == 1:
        return _unsafe_view(_mv(_rows(turned), a), lead)
    out = _unsafe_view(_mm_nt(_rows(turned), a), (*lead, a.shape[0]))
    return out.mT.contiguous()


@cached(PLANS)
def _as_batches(a: Spec, b: Spec) -> tuple[Spec, Spec, Spec] | None:
    """Both as one batch of matrices each, where they have the same batches and can be read so, and how the product lies."""
    lead = tuple(a.shape)[:-2]
    if not 2 < a.ndim == b.ndim or lead != tuple(b.shape)[:-2] or not a.numel or not b.numel:
        return None
    read = []
    for sp in (a, b):
        loops = [(n, step) for n, step in zip(lead, sp.strides) if n > 1] or [(1, 0)]
        if any([step != further * n for (_, step), (n, further) in itertools.pairwise(loops)]):
            return None
        read.append(sp.like((math.prod(lead), *sp.shape[-2:]), (loops[-1][1], *sp.strides[-2:])))
    return read[0], read[1], b.like((*lead, a.shape[-2], b.shape[-1]))


def _batched(a: Tensor, b: Tensor) -> Tensor:
    read = None if _recorded(a, b) else _as_batches(a._spec, b._spec)
    if read is not None:
        made: Tensor = _bmm.run(wrap(a._buf, read[0]), wrap(b._buf, read[1]))  # type: ignore[attr-defined]
        made._spec = read[2]
        return made
    shape_a, shape_b = tuple(a.shape), tuple(b.shape)
    if len(shape_a) == len(shape_b) == 3 and shape_a[0] != shape_b[0]:
        if shape_a[0] == 1 and requires(a):
            return _matrix_product(reshape(a, shape_a[1:]), b)
        if shape_b[0] == 1 and requires(b):
            return _matrix_product(a, reshape(b, shape_b[1:]))
    matrix_a = shape_a[-2:] if len(shape_a) > 1 else (1, *shape_a)
    matrix_b = shape_b[-2:] if len(shape_b) > 1 else (*shape_b, 1)
    batch = tuple(layout.broadcast_shapes(shape_a[:-2], shape_b[:-2]))
    out = _bmm(_batch_of(a, batch, matrix_a), _batch_of(b, batch, matrix_b))
    rows = shape_a[-2:-1] if len(shape_a) > 1 else ()
    columns = shape_b[-1:] if len(shape_b) > 1 else ()
    return _unsafe_view(out, (*batch, *rows, *columns))


def _batch_of(t: Tensor, batch: tuple[int, ...], matrix: tuple[int, ...]) -> Tensor:
    if t.ndim == 1:
        t = reshape(t, matrix)
    if tuple(t.shape) != (*batch, *matrix):
        t = t.expand(*batch, *matrix)
    if len(batch) == 1:
        return t
    n = 1
    for size in batch:
        n *= size
    return reshape(t, (n, *matrix))


def _check_vector(name: str, word: str, t: Tensor) -> None:
    if t.ndim != 1:
        raise RuntimeError(f"{name}: Expected 1-D argument {word}, but got {t.ndim}-D")


@method
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of each element of `input` with each of `vec2`: of (n,) and (m,) it makes (n, m). The gradients are `g @ vec2` and
    `g.T @ input`.

    >>> torch.outer(torch.tensor([1, 2]), torch.tensor([1, 10, 100]))
    tensor([[  1,  10, 100],
            [  2,  20, 200]])
    """
    return _outer("outer", input, vec2, out)


_outers: Table[tuple[Spec, Spec], tuple[int, int]] = Table("ops.linear.products.outers", PLANS)
_rows_of = _outers.get


def _outer(name: str, a: Tensor, b: Tensor, out: Tensor | None) -> Tensor:
    try:
        key = a._spec, b._spec
    except AttributeError:
        _refuse(name, ("input", "vec2"), (a, b))
        raise
    rows = _rows_of(key)
    if rows is None:
        _check_vector("outer", "self", a)
        _check_vector("outer", "vec2", b)
        rows = (a.shape[0], 1)
        if Marked not in (type(a._spec), type(b._spec)):
            _outers.keep(key, rows)
    result = mul(reshape(a, rows), b)
    return result if out is None else into(name, out, result, (a, b), apart=(a, b))


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, of which the first is sparse as a rule.

    >>> torch.spmm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    return input.mm(mat2)  # of sparse tensors their own


dsmm = spmm

__all__ = ["bmm", "dot", "dsmm", "mm", "mv", "outer", "spmm", "vdot"]
