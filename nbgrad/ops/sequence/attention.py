"""Attention as an op with one launch forward and one backward, which hold no scores of all queries and keys; and the same in other ops.

Where the gradient is itself to be differentiated, or a transform looks on, it is that of the composed form, so derivatives of every
order exist.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty, requires
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.kernels.cpu import attention as loops
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.backend import Backend, vector_bits
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.rows.softmax import softmax
from nbgrad.ops.sequence import composed
from nbgrad.ops.views.copy import contiguous, full, to_dtype
from nbgrad.ops.views.shape import expand, reshape
from nbgrad.tape.modes import state

_SHARE = 50  # multiplications that take about as long as one element of a sum of two tensors

# ---------------------------------------------------------------- kernels


class _Plan:
    """What the launches need and that does not depend on values: of a query, key, value and mask that lie so. The heads of keys may be
    fewer by a factor, `groups`. `flash` says that PyTorch has a kernel of its own for them, whose results lie as it likes."""

    def __init__(self, q: Spec, k: Spec, v: Spec, mask: Spec | None, causal: bool, flash: bool) -> None:
        *batch, length, depth = q.shape
        (keys, width), shared = v.shape[-2:], k.shape[:-2]
        self.groups = batch[-1] // shared[-1] if batch else 1
        lined = (*batch, length, width)
        kept = layout.kept_strides(lined, q.strides) if flash else ()
        self.out = q.like(lined, kept if kept[-1:] == (1,) else None)
        self.log_sums = q.like((*batch, length))
        lie = _by_rows if flash else lambda _: None
        self.gradients = [t.like(t.shape, lie(t.shape)) for t in (q, k, v)]
        self.seen = (
            () if mask is None else layout.broadcast_strides(mask.shape, mask.strides, (*batch, length, keys))
        )
        self.batch, self.sizes, self.backend = shared, (length, keys, depth, width, causal), q.backend
        self.blocks, self.heads = -(-length // loops.QUERIES), prod(batch)
        self.kind = "" if mask is None else mask.dtype.code
        self.work = max(1, self.heads * length * keys * (depth + width) // _SHARE)

    def launching(
        self, made: tuple[str, tuple[str, ...]], name: str, items: int, meta: Any
    ) -> Callable[..., None]:
        source, codes = made
        address = self.backend.kernel(name, source, codes, contract=True).address
        return partial(self.backend.launch(len(codes) - 3, "d", self.work), address, items, meta)

    def meta(self, *operands: tuple[Spec, bool]) -> Any:
        """Of operands, and whether they have all heads; the mask, which is last, comes in elements."""
        size = operands[0][0].itemsize
        steps = [self._steps(tuple(s * size for s in sp.strides), all_heads) for sp, all_heads in operands]
        steps.append(self._steps(self.seen or (0,) * (len(self.batch) + 2), True))
        numbers = [self.blocks, *self.sizes, self.groups, len(self.batch)]
        for row, group, _ in steps:
            numbers += [row, group]
        numbers.extend(self.batch[::-1])
        for *_, along in steps:
            numbers += along
        return self.backend.constants([*numbers, self.seen[-1] if self.seen else 0])

    def _steps(self, strides: Ints, all_heads: bool) -> tuple[int, int, Ints]:
        *along, row, _ = strides
        if not all_heads or self.groups == 1:
            return row, 0, tuple(along[::-1])
        return row, along[-1], (along[-1] * self.groups, *along[-2::-1])


_plan = cached(1024)(_Plan)


@cached(1024)
def _forward_launch(plan: _Plan, q: Spec, k: Spec, v: Spec) -> Callable[..., None]:
    code = q.dtype.code
    made = loops.forward(code, _bits(q.backend), plan.kind)
    meta = plan.meta((plan.out, True), (q, True), (k, False), (v, False))
    return plan.launching(made, f"attention_{code}", plan.heads * plan.blocks, meta)


@cached(1024)
def _backward_launch(plan: _Plan, g: Spec, q: Spec, k: Spec, v: Spec, o: Spec) -> Callable[..., None]:
    code = q.dtype.code
    made = loops.backward(code, _bits(q.backend), plan.kind)
    by = zip(plan.gradients, (True, False, False))
    meta = plan.meta(*by, (g, True), (q, True), (k, False), (v, False), (o, True))
    return plan.launching(made, f"attention_backward_{code}", plan.heads // plan.groups, meta)


def _by_rows(shape: Ints) -> Ints:
    """How PyTorch's kernel lays a gradient out: all heads of a row beside each other."""
    *batch, length, width = shape
    steps = layout.contiguous_strides((*batch[:1], length, *batch[1:], width))
    return (*steps[:1], *steps[2:-1], *steps[1:2], steps[-1]) if batch else steps


def _lined(t: Tensor) -> Tensor:
    """Whose rows lie in one piece each."""
    sp = t._spec
    return t if sp.strides[-1] == 1 or sp.shape[-1] == 1 else contiguous(t.detach())


def _forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, scale: float, causal: bool, flash: bool
) -> tuple[Tensor, Tensor]:
    """The result, then for each query the logarithm of the sum of its weights before they are divided by it: `inf` where it sees no
    key."""
    given = [_lined(t) for t in (query, key, value)]
    q, k, v = specs = [t._spec for t in given]
    plan = _plan(q, k, v, None if mask is None else mask._spec, causal, flash)
    made, log_sums = empty(plan.out), empty(plan.log_sums)
    buffers = [t._buf for t in (made, log_sums, *given, query if mask is None else mask)]
    _forward_launch(plan, *specs)(*buffers, scale)
    return made, log_sums


def _gradients(
    g: Tensor, tensors: Sequence[Tensor], mask: Tensor | None, kept: tuple[Tensor, Tensor], scale: float,
    causal: bool, flash: bool,
) -> list[Tensor]:  # fmt: skip
    given = [_lined(t) for t in tensors]
    q, k, v = (t._spec for t in given)
    plan = _plan(q, k, v, None if mask is None else mask._spec, causal, flash)
    read = [_lined(g), *given, kept[0]]
    made = [empty(sp) for sp in plan.gradients]
    buffers = [t._buf for t in (*made, *read, kept[1], given[0] if mask is None else mask)]
    _backward_launch(plan, *[t._spec for t in read])(*buffers, scale)
    return made


# ---------------------------------------------------------------- the op


def _widened(*tensors: Any) -> list[Any]:
    """Half precision is computed in float32, and rounded once."""
    return [to_dtype(t, dtypes.float32) if t is not None and t._spec.dtype.narrow else t for t in tensors]


def _attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, scale: float, causal: bool, flash: bool
) -> tuple[Tensor, Tensor]:
    made, log_sums = _forward(*_widened(query, key, value, mask), scale=scale, causal=causal, flash=flash)
    return to_dtype(made, query._spec.dtype), log_sums


def _rule(
    g: Sequence[Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    y0: Tensor,
    y1: Tensor,
    scale: float,
    causal: bool,
    flash: bool,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    tensors = query, key, value, mask
    if state.grad or wanted[3] or transforms.wrapped([g[0], *tensors]):
        run = partial(_in_ops, scale=scale, causal=causal)
        return tuple(composed.gradients(g[:1], tensors, wanted, run))
    by, *read = _widened(g[0], *tensors, y0)
    found = _gradients(by, read[:3], read[3], (read[4], y1), scale, causal, flash)
    return (*[to_dtype(t, query._spec.dtype) if w else None for t, w in zip(found, wanted)], None)


def _each(
    has: Sequence[bool], query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **static: Any
) -> Any:
    """Of all examples of a vmap, which are one dimension more of the batch."""
    tensors, ndim = (query, key, value, mask), query.ndim if has[0] else query.ndim + 1
    size = next(t.shape[0] for t, h in zip(tensors, has) if h and t is not None)
    given: list[Any] = [t if h else expand(t, (size, *t.shape)) for t, h in zip(tensors[:3], has)]
    if mask is not None and has[3]:
        mask = reshape(mask, (size, *(1,) * (ndim - mask.ndim), *mask.shape[1:]))
    return _composing(*given, mask, **{**static, "flash": False})


_flash, _composing, _of_matrices = (
    differentiable(node, batch=_each, all=_rule)(_attention)
    for node in ("ScaledDotProductFlashAttentionForCpu", "UnsafeView", "Mm")
)


def fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float, causal: bool, grouped: bool
) -> Tensor | None:
    """Attention by its kernels; None where these cannot: what is asked for is wrong, or empty, or lives where vectors are not known.
    `grouped` says that heads of keys may be fewer."""
    specs = [t._spec.plain for t in (query, key, value)]
    found = _chosen(specs[0], specs[1], specs[2], None if mask is None else mask._spec.plain, grouped)
    if found is None:
        return None
    run, flash, shapes = found
    if mask is not None:
        if mask._rg and state.grad and requires(mask):
            return None  # its gradient is as large as all scores; PyTorch's kernel has none either
        computed = dtypes.float32 if query._spec.dtype.narrow else query._spec.dtype
        if mask._spec.dtype not in (dtypes.bool, computed):
            mask = to_dtype(mask, computed)
    given = [
        t if sp.shape == shape else expand(t, shape)
        for t, sp, shape in zip((query, key, value), specs, shapes)
    ]
    made: Tensor = run(*given, mask, scale=scale, causal=causal, flash=flash)[0]
    return made


def _bits(serves: Backend) -> int:
    """Of the vectors for which there are kernels, 0 where there are none. What has no memory lays results as the CPU does."""
    return vector_bits(backend.cpu if serves is backend.meta else serves) or 0


@cached(1024)
def _chosen(
    q: Spec, k: Spec, v: Spec, mask: Spec | None, grouped: bool
) -> tuple[Any, bool, list[Ints]] | None:
    """The op, whether PyTorch has a kernel of its own for these, which is seen in `grad_fn` and in how gradients lie, and the shapes to
    which operands are expanded."""
    if any(sp is not None and sp.backend is not q.backend for sp in (k, v, mask)) or not _bits(q.backend):
        return None
    if not q.dtype.is_floating_point or not (q.numel and k.numel and v.numel):
        return None
    if (q.shape[-1], k.shape[-2]) != (k.shape[-1], v.shape[-2]):
        return None
    grouped = grouped and not q.shape[-3] == k.shape[-3] == v.shape[-3]
    if grouped and k.shape[-3] != v.shape[-3]:
        return None
    ends = [sp.shape[-3 if grouped else -2 :] for sp in (q, k, v)]
    try:
        batch = layout.broadcast_shapes(*[sp.shape[: sp.ndim - len(end)] for sp, end in zip((q, k, v), ends)])
        scores = (*batch, *ends[0][:-1], k.shape[-2])
        if mask is not None and layout.broadcast_shapes(mask.shape, scores) != scores:
            return None
    except RuntimeError:
        return None
    of_four = q.ndim == k.ndim == v.ndim == 4 and (mask is None or mask.ndim in (2, 4))
    alike = (
        of_four
        and q.shape[0] == k.shape[0] == v.shape[0]
        and (grouped or q.shape[1] == k.shape[1] == v.shape[1])
    )
    flash = alike and q.shape[-1] == v.shape[-1] and q.strides[-1] == k.strides[-1] == v.strides[-1] == 1
    run = _flash if flash else _of_matrices if q.ndim == k.ndim == v.ndim == 2 else _composing
    return run, flash, [(*batch, *end) for end in ends]


# ---------------------------------------------------------------- the same in ops


def weights(query: Any, key: Any, mask: Any, scale: float, causal: bool) -> Any:
    """How much of each value a query gets. Both sides take the root of the scale, as in PyTorch, so that half precision does not overflow
    between. A query that may see no key gets nothing, and not what a softmax of nothing gives."""
    root = math.sqrt(abs(scale))
    scores: Any = matmul(query * math.copysign(root, scale), (key * root).transpose(-2, -1))
    if causal:
        every: Any = full(scores._spec.plain.like(tuple(scores.shape[-2:]), dtype=dtypes.bool), True)
        mask = every.tril()
    if mask is None:
        return softmax(scores, -1)
    shape = tuple(scores.shape)  # of which, as in PyTorch, a mask makes nothing wider
    layout.check_target(shape, layout.broadcast_shapes(shape, tuple(mask.shape)))
    if mask.dtype is dtypes.bool:
        return where(mask.any(-1, True), softmax(where(mask, scores, -math.inf), -1), 0.0)
    blind = (mask == -math.inf).all(-1, True)
    return where(blind, 0.0, softmax(scores + where(blind, 0.0, mask), -1))


def shared(query: Any, tensors: Sequence[Any]) -> list[Any]:
    """Keys and values with as many heads as queries, of which several have the same."""
    return [
        t if t.shape[-3:-2] == query.shape[-3:-2] else t.repeat_interleave(query.shape[-3] // t.shape[-3], -3)
        for t in tensors
    ]


def _in_ops(tensors: Sequence[Any], scale: float, causal: bool) -> tuple[Tensor]:
    query, key, value, mask = tensors
    key, value = shared(query, (key, value))
    return (matmul(weights(query, key, mask, scale, causal), value),)
