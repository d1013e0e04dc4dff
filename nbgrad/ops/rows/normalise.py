"""Normalisation: of rows, of channels, of groups of channels. Each forward and first gradient is one program of rows; further
derivatives are ops on the input itself, of which statistics are functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.op import LINEAR
from nbgrad.core.plan import plan_for
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.prepared import Run, prepared, prepared_several
from nbgrad.dispatch.stanza import stanza
from nbgrad.expr import prims as p
from nbgrad.expr.node import Expr, var
from nbgrad.kernels.cpu.rows import Program, Step
from nbgrad.memory.dtypes import float32
from nbgrad.memory.layout import Ints, channels_last_strides, contiguous_format, suggested_format
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.pointwise.numeric import _addcmul, addcmul
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.rows.softmax import (
    Runner,
    Walk,
    _all_have,
    _b,
    _channels,
    _dense,
    _g,
    _in_float32,
    _over,
    _ready,
    _trailing,
    _w,
    _x,
)
from nbgrad.ops.views.copy import copier, dense_copy, full, in_format_of, laid_like, to_dtype
from nbgrad.ops.views.shape import reshape, spread
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- normalisation

# x and what follows from the statistics of its row; g times the weight, whose place differs, is what a gradient starts from.
_mean, _rstd, _share = var("mean"), var("rstd"), var("share")  # the share of an element in a mean, 1/n
_unit, _plain_unit = (_x - _mean) * _rstd, _x * _rstd
# A sum of numbers that are large against their differences is off by more than those: a row of one number has a sum that is not n
# times it. So a first mean is only what the row is looked at from, and the sum of what is left, which is small, mends it.
_ABOUT = Step({"s": ("sum", _x)}, then={"about": var("s") * _share})
_away, _left = _x - var("about"), var("m") * _share
_variance = p.maximum(var("v") * _share - _left * _left, 0.0)
_spread = _variance + var("eps")
_SPREAD = Step(
    {"m": ("sum", _away), "v": ("sum", _away * _away)},
    then={
        "mean": var("about") + p.where(p.isfinite(_left), _left, 0.0),  # of infinities the first one stands
        "var": _variance,
        "rstd": 1 / p.sqrt(_spread),
    },
)
# As PyTorch's: a channel where all is equal is all zeros without an `eps`, a row of `layer_norm` is none.
_SPREAD_OF_CHANNELS = Step(
    _SPREAD.fold, then=_SPREAD.then | {"rstd": p.where(p.eq(_spread, 0.0), 0.0, 1 / p.sqrt(_spread))}
)
_SQUARES = Step({"v": ("sum", _x * _x)}, then={"rstd": 1 / p.sqrt(var("v") * _share + var("eps"))})


def _share_of(n: int) -> float:
    """A mean of nothing is not a number."""
    return 1 / n if n else math.nan


def _affine(unit: Expr, weight: bool, bias: bool) -> Expr:
    scaled = unit * _w if weight else unit
    return scaled + _b if bias else scaled


@cached(16)
def _layer_norm_program(centred: bool, weight: bool, bias: bool) -> Program:
    statistics, unit = ((_ABOUT, _SPREAD), _unit) if centred else ((_SQUARES,), _plain_unit)
    steps = (*statistics, Step(write={"o": _affine(unit, weight, bias)}))
    return Program(
        f"{'layer' if centred else 'rms'}_norm{'_w' * weight}{'_b' * bias}",
        steps,
        ("x",),
        lines=(*(["w"] if weight else []), *(["b"] if bias else [])),
        numbers=("share", "eps"),
        results=("mean", "rstd") if centred else ("rstd",),
    )


@cached(16)
def _layer_norm_back_program(centred: bool, weight: bool, trained: bool) -> Program:
    unit = _unit if centred else _plain_unit
    g = _g * _w if weight else _g
    folds = {"c": ("sum", g * unit)} | ({"a": ("sum", g)} if centred else {})
    then = {"along": var("c") * _share} | ({"level": var("a") * _share} if centred else {})
    inner = g - unit * var("along")
    return Program(
        f"{'layer' if centred else 'rms'}_norm_backward{'_w' * weight}{'_trained' * trained}",
        (
            Step(folds, then=then),
            Step(write={"o": _rstd * (inner - var("level") if centred else inner)}),
        ),
        ("g", "x"),
        lines=("w",) if weight else (),
        each=("mean", "rstd") if centred else ("rstd",),
        numbers=("share",),
        columns=({"dw": _g * unit} | ({"db": _g} if centred else {})) if trained else {},
    )


def _rows_ready(program: Program, walk: Walk, sp: Spec, *numbers: float) -> Runner:
    """What runs a program over tensors that lie like `sp`; of elements of a narrow dtype what is kept of a row has float32."""
    sp = sp.dense()
    if not sp.dtype.narrow:
        return _ready(program, walk, sp, *numbers)
    return _in_float32(_ready(program, walk, sp.like(dtype=float32), *numbers), sp.dtype, 1)


def _wide(t: Tensor | None) -> Any:
    """What a computation in ops starts from, which rounds to a narrow dtype once."""
    return t if t is None or not t._spec.dtype.narrow else to_dtype(t, float32)


def _in_dtypes(grads: Sequence[Tensor | None], specs: Sequence[Spec | None]) -> Any:
    """Gradients, each in the dtype of what it is the gradient of."""
    return tuple([t if t is None or sp is None else to_dtype(t, sp.dtype) for t, sp in zip(grads, specs)])


def _mean_of(t: Tensor, dims: Ints) -> Tensor:
    return r.mean(t, dims, True)


def _centred(x: Tensor, dims: Ints) -> Tensor:
    """Less its mean, in two steps as above."""
    about = e.sub(x, _mean_of(x, dims).detach())
    return e.sub(about, _mean_of(about, dims))


def _second(
    u: Tensor | None,
    v: Tensor | None,
    z: Tensor | None,
    g: Tensor,
    x: Tensor,
    w: Tensor | None,
    dims: Ints,
    eps: float,
    centred: bool,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The gradients of a normalisation's gradient (dx, dw, db) by g, x and w, when those get u, v and z. w, v and z are shaped to
    broadcast. All in ops on x itself, so that further orders exist.

    With h = (x - mean) / std, dx = P(g w) where P(t) = (t - M(t) - h M(t h)) / std is symmetric, dw = sum(g h), db = sum(g)."""
    if x._spec.dtype.narrow:
        like = (g._spec, x._spec, None if w is None else w._spec)
        u, v, z, g, x, w = (_wide(t) for t in (u, v, z, g, x, w))
        by_g, by_x, by_w = _in_dtypes(_second(u, v, z, g, x, w, dims, eps, centred), like)
        return by_g, by_x, by_w
    d = _centred(x, dims) if centred else x
    rstd = e.rsqrt(e.add(_mean_of(e.mul(d, d), dims), eps))
    h = e.mul(d, rstd)

    def project(t: Tensor) -> Tensor:
        inner = e.sub(t, e.mul(h, _mean_of(e.mul(t, h), dims)))
        return e.mul(rstd, e.sub(inner, _mean_of(t, dims)) if centred else inner)

    gw = g if w is None else e.mul(g, w)
    by_h = None if v is None else e.mul(g, v)
    by_g = None if v is None else e.mul(h, v)
    by_x = by_w = None
    if z is not None:
        by_g = z if by_g is None else e.add(by_g, z)
    if u is not None:
        a, b = _mean_of(e.mul(gw, h), dims), _mean_of(e.mul(u, h), dims)
        through = e.mul(e.neg(rstd), e.add(e.mul(gw, b), e.mul(u, a)))
        by_h = through if by_h is None else e.add(by_h, through)
        s = e.sub(_mean_of(e.mul(u, gw), dims), e.mul(a, b))
        if centred:
            s = e.sub(s, e.mul(_mean_of(u, dims), _mean_of(gw, dims)))
        by_x = e.mul(e.neg(e.mul(e.mul(rstd, rstd), h)), s)
        q = project(u)
        by_w = None if w is None else e.mul(q, g)
        q = q if w is None else e.mul(q, w)
        by_g = q if by_g is None else e.add(by_g, q)
    if by_h is not None:
        p_of = project(by_h)
        by_x = p_of if by_x is None else e.add(by_x, p_of)
    if by_g is not None and by_g._spec.shape != g._spec.shape:
        by_g = spread(by_g, g._spec.shape)
    return by_g, by_x, by_w


def _laid_like(sp: Spec, run: Runner) -> Runner:
    """The same with its first result in the format of the input."""
    copy = laid_like(sp, sp.dense())
    if copy is None:
        return run

    def laid_out(*tensors: Any) -> Any:
        first, *others = run(*tensors)
        return copy(first), *others

    return laid_out


def _trailing_dims(t: Tensor, dims: int) -> Ints:
    return tuple(range(t.ndim - dims, t.ndim))


@cached(4096)
def _norm(centred: bool, sp: Spec, weight: bool, bias: bool, dims: int, eps: float) -> Runner:
    shape = tuple(sp.shape)
    n = math.prod(shape[len(shape) - dims :])
    program = _layer_norm_program(centred, weight, bias)
    run = _rows_ready(program, _trailing(shape, dims), sp, _share_of(n), eps)
    return run if centred else _laid_like(sp, run)


@cached(4096)
def _norm_back(centred: bool, sp: Spec, weight: bool, dims: int, trained: bool, own: bool) -> Runner:
    shape = tuple(sp.shape)
    n = math.prod(shape[len(shape) - dims :])
    program = _layer_norm_back_program(centred, weight, trained)
    walk = _trailing(shape, dims, trained)
    return _rows_ready(_over(program) if own else program, walk, sp, _share_of(n))


def _norm_backward(
    centred: bool,
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    stats: tuple[Tensor, ...],
    dims: int,
    trained: bool,
    own: bool,
) -> Any:
    sp = input._spec
    run = _norm_back(centred, sp, weight is not None, dims, trained, own)
    got = run(grad, input, *stats) if weight is None else run(grad, input, weight, *stats)
    return (got[0], *[_joined(c, sp, dims) for c in got[1:]]) if trained else got


def _joined(parts: Tensor, sp: Spec, dims: int) -> Tensor:
    """The sum over all rows, from one partial sum per chunk."""
    if parts.ndim == 2:
        parts = r.sum(parts, 0)
    return parts if dims == 1 else wrap(parts._buf, sp.like(tuple(sp.shape)[sp.ndim - dims :]))


def _norm_second_rule(centred: bool) -> Any:
    def rule(
        g: Any, grad: Tensor, input: Tensor, weight: Tensor | None, dims: int, eps: float, trained: bool
    ) -> Any:
        u, v, z = (*g, None)[:3] if trained else (g, None, None)
        input = (
            _dense(input) if centred else input
        )  # as PyTorch's lies, which is made by one function, that of an RMS by several
        by_g, by_x, by_w = _second(u, v, z, grad, input, weight, _trailing_dims(input, dims), eps, centred)
        if by_w is not None and weight is not None:
            by_w = r.sum_to(by_w, weight.shape)
        return (by_g, by_x, by_w, None, None) if centred else (by_g, by_x, by_w, None)

    return rule


def _norm_batch(
    op: Any, has: Sequence[bool], input: Tensor, *affine: Tensor | None, dims: int, eps: float
) -> Any:
    """All rows of all examples; by what an example has of its own, they are scaled and shifted afterwards."""
    input, *_ = _all_have(has, input, *affine)
    count, own = input.shape[0], any(has[1:])
    got, *stats = op(
        _wide(input) if own else input, *([None] * len(affine) if own else affine), dims=dims, eps=eps
    )
    for change, t, h in zip((e.mul, e.add), affine if own else (), has[1:]):
        if t is not None:
            got = change(got, _over_rows(t, input.ndim) if h else t)
    return to_dtype(got, input.dtype), *[reshape(s, (count, s.numel() // max(count, 1))) for s in stats]


def _over_rows(t: Tensor, ndim: int) -> Tensor:
    """What each example has of its own, shaped to broadcast over its rows."""
    count, *own = tuple(t.shape)
    shaped: Tensor = reshape(t, (count, *(1,) * (ndim - len(own) - 1), *own))
    return shaped


def _norm_back_batch(
    op: Any,
    has: Sequence[bool],
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    *stats: Tensor,
    dims: int,
    eps: float,
    trained: bool,
    own: bool,
) -> Any:
    """Likewise; sums over rows are by example."""
    grad, input, _, *stats_ = _all_have(has, grad, input, weight, *stats)
    d, ndim, scaled, kept = input.dtype, input.ndim, grad, weight
    if weight is not None and has[2]:
        grad, input = _wide(grad), _wide(input)
        scaled, kept = e.mul(grad, _over_rows(weight, ndim)), None
    lines = [reshape(s, (-1,)) for s in stats_]
    got = op(scaled, input, kept, *lines, dims=dims, eps=eps, trained=False, own=False)
    if not trained:
        return to_dtype(got, d)
    between = tuple(range(1, ndim - dims))
    shape = (*tuple(input.shape)[: ndim - dims], *(1,) * dims)
    *mean, rstd = [reshape(s, shape) for s in stats_]
    each = e.mul(grad, e.mul(e.sub(input, mean[0]) if mean else input, rstd))
    sums = [each, grad][: 1 + len(mean)]
    return to_dtype(got, d), *[r.sum(s, between) if between else s for s in sums]


@differentiable(
    "NativeLayerNormBackward",
    raw=True,
    batch=lambda *a, **s: _norm_back_batch(_layer_norm_back, *a, **s),
    all=_norm_second_rule(True),
)
def _layer_norm_back(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    rstd: Tensor,
    *,
    dims: int,
    eps: float,
    trained: bool,
    own: bool,
) -> Any:
    return _norm_backward(True, grad, input, weight, (mean, rstd), dims, trained, own)


def _layer_norm_rule(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    y1: Tensor,
    y2: Tensor,
    dims: int,
    eps: float,
    wanted: Any,
    own: bool,
    specs: Sequence[Spec | None],
) -> Any:
    trained, own = wanted[1] or wanted[2], own and g._spec is input._spec
    got = _layer_norm_back(g, input, weight, y1, y2, dims=dims, eps=eps, trained=trained, own=own)
    return _in_dtypes(got, specs) if trained else (got, None, None)


@prepared_several(
    "NativeLayerNorm", batch=lambda *a, **s: _norm_batch(layer_norm, *a, **s), all=_layer_norm_rule
)
def layer_norm(input: Spec, weight: Spec | None, bias: Spec | None, *, dims: int, eps: float) -> Runner:
    """Over the last `dims` dimensions, operands having been checked; its statistics are mean and 1/std of each row."""
    return _given(_norm(True, input, weight is not None, bias is not None, dims, eps), weight, bias)


def _given(run: Runner, *optional: Spec | None) -> Runner:
    """What runs with a place for each optional tensor: `run` takes those that there are."""
    if None not in optional:
        return run
    if not any(optional):
        return lambda input, *_: run(input)
    return lambda input, *others: run(input, *[t for t in others if t is not None])


@differentiable(
    "MulBackward",
    raw=True,
    batch=lambda *a, **s: _norm_back_batch(_rms_norm_back, *a, **s),
    all=_norm_second_rule(False),
)
def _rms_norm_back(
    grad: Tensor,
    input: Tensor,
    weight: Tensor | None,
    rstd: Tensor,
    *,
    dims: int,
    eps: float,
    trained: bool,
    own: bool,
) -> Any:
    return _norm_backward(False, grad, input, weight, (rstd,), dims, trained, own)


def _rms_norm_rule(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    y1: Tensor,
    dims: int,
    eps: float,
    wanted: Any,
    own: bool,
    specs: Sequence[Spec | None],
) -> Any:
    own = own and g._spec is input._spec
    got = _rms_norm_back(g, input, weight, y1, dims=dims, eps=eps, trained=wanted[1], own=own)
    by_x, *by_w = got if wanted[1] else (got, None)
    return _in_dtypes((in_format_of(g, by_x), *by_w), specs)


@prepared_several("Mul", batch=lambda *a, **s: _norm_batch(rms_norm, *a, **s), all=_rms_norm_rule)
def rms_norm(input: Spec, weight: Spec | None, *, dims: int, eps: float) -> Runner:
    """The same without a mean and without a bias."""
    return _given(_norm(False, input, weight is not None, False, dims, eps), weight)


# ---------------------------------------------------------------- normalisation of channels


@cached(16)
def _batch_norm_program(weight: bool, bias: bool) -> Program:
    return Program(
        f"batch_norm{'_w' * weight}{'_b' * bias}",
        (_ABOUT, _SPREAD_OF_CHANNELS, Step(write={"o": _affine(_unit, weight, bias)})),
        ("x",),
        each=(*(["w"] if weight else []), *(["b"] if bias else [])),
        numbers=("share", "eps"),
        results=("mean", "rstd", "var"),
    )


@cached(16)
def _batch_norm_back_program(weight: bool) -> Program:
    then = {"dw": var("c"), "db": var("a"), "along": var("c") * _share, "level": var("a") * _share}
    inner = _rstd * (_g - var("level") - _unit * var("along"))
    return Program(
        f"batch_norm_backward{'_w' * weight}",
        (
            Step({"c": ("sum", _g * _unit), "a": ("sum", _g)}, then=then),
            Step(write={"o": inner * _w if weight else inner}),
        ),
        ("g", "x"),
        each=(*(["w"] if weight else []), "mean", "rstd"),
        numbers=("share",),
        results=("dw", "db"),
    )


def _all_but_channels(t: Tensor) -> Ints:
    return (0, *range(2, t.ndim))


def _per_channel(t: Tensor | None, ndim: int) -> Tensor | None:
    """Shaped to broadcast against a tensor with channels."""
    return t if t is None else reshape(t, (-1, *(1,) * (ndim - 2)))


def _batch_norm_second(g: Any, grad: Tensor, input: Tensor, weight: Tensor | None, eps: float) -> Any:
    u, v, z = g[0], _per_channel(g[1], input.ndim), _per_channel(g[2], input.ndim)
    dims = _all_but_channels(input)
    by_g, by_x, by_w = _second(u, v, z, grad, input, _per_channel(weight, input.ndim), dims, eps, True)
    if by_w is not None:
        by_w = r.sum(by_w, dims)
    return by_g, by_x, by_w, None, None


@cached(4096)
def _by_channel(program: Program, sp: Spec, *numbers: float) -> Runner:
    """A program over the channels of tensors laid out like `sp`; the first number is how many elements a channel has."""
    shape = tuple(sp.shape)
    share = _share_of(sp.numel // (shape[1] or 1))
    if sp.ndim > 3 and sp.numel and not sp.contiguous and sp.strides == channels_last_strides(shape):
        pixels = sp.like((sp.numel // shape[1], shape[1]))
        run = _rows_ready(program, _channels(tuple(pixels.shape)), pixels, share, *numbers)
        return _of_pixels(run, sp, pixels, len(program.elements))
    return _laid_like(sp, _rows_ready(program, _channels(tuple(sp.shape)), sp, share, *numbers))


def _of_pixels(run: Runner, sp: Spec, pixels: Spec, count: int) -> Runner:
    """The same of tensors whose channels lie together, the first `count` of which have an element per element."""

    def of_pixels(*tensors: Tensor) -> Any:
        laid = [
            t
            if t._spec.strides == sp.strides
            else copier(t._spec, t._spec.like(tuple(sp.shape), sp.strides))(t)
            for t in tensors[:count]
        ]
        first, *others = run(*[wrap(t._buf, pixels) for t in laid], *tensors[count:])
        return wrap(first._buf, sp), *others

    return of_pixels


@differentiable("NativeBatchNormBackward", raw=True, all=_batch_norm_second)
def _batch_norm_back(
    grad: Tensor, input: Tensor, weight: Tensor | None, mean: Tensor, rstd: Tensor, *, eps: float, own: bool
) -> tuple[Tensor, ...]:
    program = _batch_norm_back_program(weight is not None)
    each = (mean, rstd) if weight is None else (weight, mean, rstd)
    return _by_channel(_over(program) if own else program, input._spec)(grad, input, *each)


@prepared_several(
    "NativeBatchNorm",
    all=lambda g, input, weight, y1, y2, eps, own, specs: _in_dtypes(
        _batch_norm_back(g, input, weight, y1, y2, eps=eps, own=own and g._spec is input._spec), specs
    ),
)
def batch_norm(input: Spec, weight: Spec | None, bias: Spec | None, *, eps: float) -> Runner:
    """By the statistics of this batch, operands having been checked; those are mean, 1/std and variance of each channel."""
    program = _batch_norm_program(weight is not None, bias is not None)
    return _given(_by_channel(program, input, eps), weight, bias)


def _fixed_rule(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    mean: Tensor,
    variance: Tensor,
    eps: float,
    wanted: Any,
    specs: Sequence[Spec | None],
) -> Any:
    g, input, weight, mean, variance = (_wide(t) for t in (g, input, weight, mean, variance))
    dims, rstd = _all_but_channels(input), e.rsqrt(e.add(variance, eps))
    scale = rstd if weight is None else e.mul(rstd, weight)
    unit = e.mul(e.sub(input, _per_channel(mean, input.ndim)), _per_channel(rstd, input.ndim))
    by_w = r.sum(e.mul(g, unit), dims) if wanted[1] else None
    by_b = r.sum(g, dims) if wanted[2] else None
    by_x = in_format_of(input, e.mul(g, _per_channel(scale, input.ndim)))
    return *_in_dtypes((by_x, by_w, by_b), specs), None, None


_scale = stanza(
    lambda variance, weight, eps: p.rsqrt(variance + eps) * weight,
    name="batch_norm_scale",
    method=False,
    shared=False,
)
_shift = stanza(
    lambda bias, mean, scale: bias - mean * scale, name="batch_norm_shift", method=False, shared=False
)


@differentiable("NativeBatchNorm", all=_fixed_rule)
def batch_norm_fixed(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, *, eps: float
) -> Tensor:
    """By statistics that are given."""
    d = input._spec.dtype
    if d.narrow:
        input, weight, bias, mean, variance = (_wide(t) for t in (input, weight, bias, mean, variance))
    scale = _scale(variance, 1.0 if weight is None else weight, eps)
    shift = _shift(-0.0 if bias is None else bias, mean, scale)
    # Of results that elementwise functions give, only those with channels last lie as PyTorch's.
    read = input if laid_like(input._spec.plain, input._spec.dense()) else _dense(input)
    return to_dtype(addcmul(_per_channel(shift, input.ndim), read, _per_channel(scale, input.ndim)), d)


def batch_norm_by(
    input: Spec, weight: Spec | None, bias: Spec | None, mean: Spec, variance: Spec, eps: float
) -> Callable[..., Tensor] | None:
    """The same, without a record, of operands of one dtype that lie in order: a function of the input, of what there is of weight and bias,
    and the statistics."""
    given = [t for t in (mean, variance, weight, bias) if t is not None]
    if input.dtype.narrow or not input.numel or not input.canonical:
        return None
    if not all([t.dtype is input.dtype and t.contiguous and t.ndim == 1 for t in given]):
        return None
    if suggested_format(tuple(input.shape), input.strides) is not contiguous_format:
        return None
    along = mean.like((mean.numel, *(1,) * (input.ndim - 2)))

    def normed(t: Tensor, *others: Tensor) -> Tensor:
        *affine, mean, variance = others
        scale = _scale(variance, affine[0] if weight else 1.0, eps)
        shift = _shift(affine[-1] if bias else -0.0, mean, scale)
        return _addcmul(wrap(shift._buf, along), t, wrap(scale._buf, along), 1)

    return normed


# ---------------------------------------------------------------- normalisation of groups of channels


@prepared("Clone", tangent=LINEAR, batch=dense_copy, input=lambda g, input: in_format_of(input, g))
def _in_order(input: Spec) -> Run:
    """A copy that lies in order, whose gradient lies in the format of `input`."""
    return copier(input, input.dense())


def _groups_as_rows(input: Tensor, groups: int) -> Tensor:
    count, channels, *inner = tuple(input.shape)
    if not input._spec.contiguous:
        input = _in_order(input)
    rows: Tensor = reshape(input, (count * groups, channels // groups * math.prod(inner)))
    return rows


def _by_group(input: Tensor, groups: int, eps: float) -> Tensor:
    normed = layer_norm(_groups_as_rows(input, groups), None, None, dims=1, eps=eps)[0]
    return reshape(normed, input.shape)


_scaled_and_shifted = stanza(
    lambda x, weight, bias: x * weight + bias, name="group_norm_affine", method=False, shared=False
)
_scaled = stanza(lambda x, weight: x * weight, name="group_norm_scaled", method=False, shared=False)
_shifted = stanza(lambda x, bias: x + bias, name="group_norm_shifted", method=False, shared=False)


# Of many elements each is read as few times as can be: for the statistics of groups, for what a gradient sums over the planes of channels,
# and to write planes, each with factors of its own.
_level = var("level")
_STATISTICS = Program(
    "group_statistics", (_ABOUT, _SPREAD), ("x",), numbers=("share", "eps"), results=("mean", "rstd")
)
_PLANES = Program(
    "group_norm_planes",
    (Step(write={"o": (_x - _mean) * var("factor") + _level}),),
    ("x",),
    each=("mean", "factor", "level"),
)
_PLANE_SUMS = Program(
    "group_norm_plane_sums",
    (
        Step(
            {"a": ("sum", _g), "c": ("sum", _g * (_x - _mean))},
            then={"level": var("a"), "along": var("c")},
        ),
    ),
    ("g", "x"),
    each=("mean",),
    results=("level", "along"),
)
_PLANES_BACK = Program(
    "group_norm_planes_backward",
    (Step(write={"o": _g * var("factor") + (_x - _mean) * var("along") + _level}),),
    ("g", "x"),
    each=("mean", "factor", "along", "level"),
)
_MANY, _PLANE = 1 << 15, 64  # elements, of a channel too, from which on that is quicker than whole operations


def _in_planes(sp: Spec) -> bool:
    many = sp.numel >= _MANY and math.prod(tuple(sp.shape)[2:]) >= _PLANE
    return type(sp) is Spec and many and sp.canonical and not sp.dtype.narrow


def _of_groups(input: Tensor, groups: int, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1/std of each group of each example, shaped to broadcast over (examples, groups, channels of a group)."""
    sp, count = input._spec, input.shape[0]
    n = sp.numel // (count * groups)
    mean, rstd = _ready(_STATISTICS, _trailing((count * groups, n), 1), sp, 1 / n, eps)(input)
    return reshape(mean, (count, groups, 1)), reshape(rstd, (count, groups, 1))


def _by_planes(program: Program, tensors: Sequence[Tensor], *each: Tensor) -> Any:
    """Run a program over the planes of channels; `each` broadcast over (examples, groups, channels of a group)."""
    sp = tensors[0]._spec
    count, channels, *inner = tuple(sp.shape)
    whole = (count, each[0].shape[1], channels // each[0].shape[1])
    run = _ready(program, _trailing((count * channels, math.prod(inner)), 1), sp)
    return run(*tensors, *[reshape(spread(t, whole), (-1,)) for t in each])


def _per_group(t: Tensor | None, groups: int, like: Tensor, usual: float) -> Tensor:
    return full(like._spec.like((1, groups, 1)), usual) if t is None else reshape(t, (1, groups, -1))


def _planes_normed(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, groups: int, eps: float
) -> Tensor:
    mean, rstd = _of_groups(input, groups, eps)
    factor = e.mul(rstd, _per_group(weight, groups, rstd, 1.0))
    made: Tensor = _by_planes(_PLANES, (input,), mean, factor, _per_group(bias, groups, rstd, 0.0))
    return made


def _planes_back(
    g: Tensor, input: Tensor, weight: Tensor | None, groups: int, eps: float, wanted: Any
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    count, channels = tuple(input.shape)[:2]
    mean, rstd = _of_groups(input, groups, eps)
    sums = _by_planes(_PLANE_SUMS, (g, input), mean)
    level, along = (reshape(t, (count, groups, channels // groups)) for t in sums)
    along = e.mul(along, rstd)
    w, share = _per_group(weight, groups, rstd, 1.0), input.numel() // (count * groups)
    factor = e.mul(rstd, w)
    through = e.div(r.sum(e.mul(along, w), 2, True), -share)
    by = e.mul(e.mul(rstd, rstd), through), e.mul(rstd, e.div(r.sum(e.mul(level, w), 2, True), -share))
    made = _by_planes(_PLANES_BACK, (g, input), mean, factor, *by)
    by_w, by_b = (
        reshape(r.sum(t, 0), (channels,)) if asked else None for t, asked in zip((along, level), wanted[1:])
    )
    return made, by_w, by_b


def group_norm_of(
    input: Spec, weight: Spec | None, bias: Spec | None, groups: int, eps: float
) -> Callable[..., Tensor] | None:
    """What computes it, without a record, of operands that lie in order and have the dtype in which it is computed: rows, then all else in
    one pass."""
    given = [t for t in (weight, bias) if t is not None]
    if input.dtype.narrow or not input.numel or not all([t.canonical for t in (input, *given)]):
        return None
    if not all([t.dtype is input.dtype for t in given]):
        return None
    if suggested_format(tuple(input.shape), input.strides) is not contiguous_format:
        return None
    if given and _in_planes(input):
        if weight is None:
            return lambda t, b: _planes_normed(t, None, b, groups, eps)
        return lambda t, w, b=None: _planes_normed(t, w, b, groups, eps)
    count, channels, *inner = tuple(input.shape)
    rows = input.like((count * groups, channels // groups * math.prod(inner)))
    run = layer_norm.at(wrap(None, rows), None, None, dims=1, eps=eps).run  # type: ignore[attr-defined]
    along = [t.like((channels, *(1,) * len(inner))) for t in given]
    if not given:
        return lambda t: wrap(run(wrap(t._buf, rows), None, None)[0]._buf, input)
    op = (_scaled_and_shifted if len(given) == 2 else _shifted if weight is None else _scaled).op
    plan = plan_for(op, (input, *along))
    launch, address, n = plan.launch, plan.address, plan.n

    def normed(t: Tensor, *affine: Tensor) -> Tensor:
        unit, made = run(wrap(t._buf, rows), None, None)[0], empty(input)
        launch(address, n, made._buf, unit._buf, *[a._buf for a in affine])
        return made

    return normed


def _group_norm_rule(
    g: Tensor,
    input: Tensor,
    weight: Tensor | None,
    groups: int,
    eps: float,
    wanted: Any,
    specs: Sequence[Spec | None],
) -> Any:
    g, input, weight = _wide(g), _wide(input), _wide(weight)
    if not state.grad and _in_planes(input._spec) and _in_planes(g._spec):
        return _in_dtypes(_planes_back(g, input, weight, groups, eps, wanted), specs)
    dims, rows = _all_but_channels(input), _groups_as_rows(input, groups)
    scaled = g if weight is None else e.mul(g, _per_channel(weight, input.ndim))
    _, mean, rstd = layer_norm(rows, None, None, dims=1, eps=eps)
    by_x = _layer_norm_back(
        _groups_as_rows(scaled, groups), rows, None, mean, rstd, dims=1, eps=eps, trained=False, own=False
    )
    by_w = r.sum(e.mul(g, _by_group(input, groups, eps)), dims) if wanted[1] else None
    by_b = r.sum(g, dims) if wanted[2] else None
    by_x = in_format_of(input, reshape(by_x, input.shape))
    return _in_dtypes((by_x, by_w, by_b), specs)


@differentiable("NativeGroupNorm", all=_group_norm_rule)
def group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *, groups: int, eps: float
) -> Tensor:
    """Over all that a group of channels holds, operands having been checked."""
    d, input = input.dtype, _wide(input)
    if (weight is not None or bias is not None) and _in_planes(input._spec):
        return to_dtype(_planes_normed(input, _wide(weight), _wide(bias), groups, eps), d)
    got, weight, bias = _by_group(input, groups, eps), *(_per_channel(t, input.ndim) for t in (weight, bias))
    got = in_format_of(input, got)
    got = got if weight is None else e.mul(got, weight)
    return to_dtype(got if bias is None else e.add(got, bias), d)
