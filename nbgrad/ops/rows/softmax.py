"""Ops that read a whole row before they write its elements: what runs their programs, and softmax. Losses and norms stand on it.

Each forward and each first gradient is one program of `kernels/cpu/rows.py`: a row goes through memory once. A fused gradient is an op
itself, and its own rule is written in ops, so that every further derivative exists. What the statistics of a row would contribute
stands in these rules as functions of the input; nothing differentiates a saved statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from nbgrad.base import source
from nbgrad.base.records import NamedTuple
from nbgrad.base.source import text_of
from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty, wrap
from nbgrad.dispatch.elementwise import differentiable, into
from nbgrad.dispatch.prepared import Run, call_of, filled, prepared, settled
from nbgrad.dispatch.stanza import method
from nbgrad.expr import prims as p
from nbgrad.expr.node import var
from nbgrad.expr.special import exp_below
from nbgrad.kernels.cpu import rows as loops
from nbgrad.kernels.cpu.rows import Program, Step
from nbgrad.kernels.launch import FEW, PARALLEL_FROM
from nbgrad.memory import dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.views.copy import contiguous, to_dtype
from nbgrad.ops.views.shape import expand, reshape

# ---------------------------------------------------------------- running a program


class Walk(NamedTuple):
    """How rows lie: which loop, how many items it has, its geometry; and how many rows there are, in how many chunks."""

    loop: str
    items: int
    meta: Ints
    rows: int
    chunks: int = 0
    length: int = 0


@cached(4096)
def _along(shape: Ints, dim: int) -> Walk:
    """Rows along one dimension of a contiguous tensor."""
    n, inner = (shape[dim], math.prod(shape[dim + 1 :])) if shape else (1, 1)
    outer = math.prod(shape[:dim])
    if inner == 1:
        return _runs(outer, n)
    if loops.are_short(outer * inner, n, inner):
        return Walk("beside", -(-outer * inner // loops.ABREAST), (n, outer * inner, inner), outer * inner)
    blocks = -(-inner // loops.WIDTH)
    return Walk("columns", outer * blocks, (n, inner, blocks), outer * inner)


def _runs(rows: int, n: int) -> Walk:
    """Rows that are runs."""
    if loops.are_short(rows, n):
        return Walk("short", -(-rows // loops.ABREAST), (n, rows), rows)
    return Walk("runs", rows, (n, 1, 0, n), rows)


@cached(4096)
def _trailing(shape: Ints, dims: int, chunked: bool = False) -> Walk:
    """Rows of all that the last `dims` dimensions hold; `chunked`, for a program with sums over rows."""
    rows, n = math.prod(shape[: len(shape) - dims]), math.prod(shape[len(shape) - dims :])
    if not chunked:
        return _runs(rows, n)
    few = rows * n < PARALLEL_FROM and rows <= 256  # for one thread, in one chunk
    chunk = max(rows, 1) if few else min(256, max(8, -(-rows // 64)))
    items = -(-rows // chunk)
    return Walk("runs", items, (n, 1, 0, n, rows, chunk), rows, items, n)


@cached(4096)
def _channels(shape: Ints) -> Walk:
    """A row for each place along the second dimension."""
    n, channels, inner = shape[0], shape[1], math.prod(shape[2:])
    if inner == 1:
        return _along((n, channels), 0)
    return Walk("runs", channels, (inner, n, channels * inner, inner), channels)


Runner = Callable[..., Any]  # of tensors


@cached(4096)
def _ready(program: Program, walk: Walk, sp: Spec, *numbers: float) -> Runner:
    """What runs a program over tensors laid out like `sp`: it gives outputs like that, then one value per row of each result, then, of
    sums over rows, one line per chunk, then one value per row of each choice; a single tensor if that is all."""
    if sp.dtype.narrow:  # computed in float32, and rounded once
        return _in_float32(_ready(program, walk, sp.like(dtype=dtypes.float32), *numbers), sp.dtype)
    launch, address, meta, outs, read = _launch(program, walk, sp, len(numbers))
    return _runner(len(outs), read, bool(program.over))(
        sp.backend.empty, launch, address, walk.items, meta, outs, *numbers
    )


_LOOPS: dict[str, Callable[[Program, str], tuple[str, tuple[str, ...]]]] = {
    "runs": loops.runs,
    "columns": loops.columns,
    "short": loops.short,
    "beside": lambda program, code: loops.short(program, code, True),
}


def _launch(
    program: Program, walk: Walk, sp: Spec, numbers: int = 0
) -> tuple[Any, int, Any, list[Spec], int]:
    """What launches a program, its address and geometry; what it makes, and how many buffers it reads."""
    code = sp.dtype.code
    source, codes = _LOOPS[walk.loop](program, code)
    kernel = sp.backend.kernel(f"{program.name}_{code}_{walk.loop}", source, codes, contract=True)
    if walk.loop == "runs":
        loops.in_runs[kernel.address] = program, code
    lines = (walk.chunks, walk.length) if walk.chunks != 1 else (walk.length,)
    outs = [
        sp if n in program.outputs else sp.like(lines if n in program.columns else (walk.rows,))
        for n in program.given
    ]
    buffers = sum(c[0] == "*" for c in codes)
    work = max(sp.numel, 1) if walk.items else 0
    launch = sp.backend.launch(buffers, "d" * numbers, work, sp.numel < FEW)
    meta = sp.backend.constants(walk.meta)
    return launch, kernel.address, meta, outs, buffers - 1 - len(outs)


@cached(256)
def _runner(made: int, read: int, over: bool) -> Callable[..., Runner]:
    """Source of the lines between a call and its kernel, without loops: half of what a small call costs is in such lines."""
    inputs = [f"x{k}" for k in range(read)]
    outs, buffers = [f"t{k}" for k in range(made)], [f"b{k}" for k in range(made)]
    before = [f"s{k} = outs[{k}]; n{k} = s{k}.extent * s{k}.itemsize" for k in range(made)]
    lines = [f"if not {x}._spec.contiguous: {x} = contiguous({x}.detach())" for x in inputs]
    lines += [f"b{k} = empty(n{k})" for k in range(made)]
    lines.append(
        f"launch(address, items, meta, {', '.join([*buffers, *(f'{x}._buf' for x in inputs)])}, *numbers)"
    )
    lines += [f"t{k} = wrap(b{k}, s{k})" for k in range(made)]
    given = ["wrap(x0._buf, x0._spec)"] * over + outs
    lines.append(f"return {', '.join(given)}")
    whole = [
        "def make(empty, launch, address, items, meta, outs, *numbers):",
        [*before, f"def run({', '.join(inputs)}):", lines, "return run"],
    ]
    about = f"reads {read} tensors, makes {made}{', and one in the memory of the first' * over}"
    make: Callable[..., Runner] = source.function(
        "make",
        text_of(whole),
        {"contiguous": contiguous, "wrap": wrap},
        "runner of a program over rows",
        about,
    )
    return make


def _in_float32(run: Runner, d: dtypes.dtype, rounded: int | None = None) -> Runner:
    """What runs it over tensors of a narrow dtype; with `rounded` only so many of the results have that, the others float32."""

    def wide(*inputs: Tensor) -> Any:
        made = run(*[to_dtype(t, dtypes.float32) if t.is_floating_point() else t for t in inputs])
        if isinstance(made, Tensor):
            return to_dtype(made, d)
        return (*[to_dtype(t, d) for t in made[:rounded]], *(made[rounded:] if rounded else ()))

    return wide


@cached(64)
def _over(program: Program, gradient: str = "g") -> Program:
    """The same, whose output takes the gradient's memory."""
    return replace(program, name=f"{program.name}_over", over=gradient)


@cached(4096)
def _at_dim(program: Program, sp: Spec, dim: int) -> Runner:
    """A program over rows along one dimension."""
    return _ready(program, _along(tuple(sp.shape), dim), sp.dense())


def _of_one(program: Program, input: Spec, dim: int) -> Run:
    """The same for a program of one tensor, without a look at how it lies where that is known."""
    if not input.contiguous or input.dtype.narrow:
        return _at_dim(program, input, dim)
    walk = _along(tuple(input.shape), dim)
    launch, address, meta, outs, _ = _launch(program, walk, input)
    return filled(launch, address, walk.items, meta, outs)


def _dense(t: Tensor) -> Tensor:
    return t if t._spec.contiguous else contiguous(t)


def _all_have(has: Sequence[bool], *tensors: Any) -> list[Any]:
    """For a batch rule: each tensor with a first dimension that counts the examples."""
    size = next(t.shape[0] for t, h in zip(tensors, has) if h)
    return [t if h or t is None else expand(t, (size, *t.shape)) for t, h in zip(tensors, has)]


def _merged(t: Tensor) -> Tensor:
    """The rows of all examples as those of one."""
    count, rows, *rest = tuple(t.shape)
    lined: Tensor = reshape(t, (count * rows, *rest))
    return lined


_x, _y, _g, _w, _b = (var(name) for name in "xygwb")
_top, _low, _scale = var("top"), var("low"), var("scale")

# ---------------------------------------------------------------- softmax

_TOP = Step({"m": ("max", _x)}, then={"top": var("m")})
# What is below the largest: less work than an exponential of any number.
_power = exp_below(_x - _top)
_POWERS = {"s": ("sum", _power)}
_SOFTMAX = Program(
    "softmax",
    (
        _TOP,
        Step(_POWERS, {"y": _power}, {"share": 1 / var("s")}),
        Step(write={"y": _y * var("share")}),
    ),
    ("x",),
)
_SOFTMAX_BACK = Program(
    "softmax_backward",
    (
        Step({"s": ("sum", _g * _y)}, then={"all": var("s")}),
        Step(write={"o": _y * (_g - var("all"))}),
    ),
    ("g", "y"),
)
_LOG_SOFTMAX = Program(
    "log_softmax",
    (_TOP, Step(_POWERS, then={"low": p.log(var("s"))}), Step(write={"y": _x - _top - _low})),
    ("x",),
)
_LOG_SOFTMAX_BACK = Program(
    "log_softmax_backward",
    (Step({"s": ("sum", _g)}, then={"all": var("s")}), Step(write={"o": _g - p.exp(_y) * var("all")})),
    ("g", "y"),
)


def _total(t: Tensor, dim: int) -> Tensor:
    return r.sum(t, dim, True)


@differentiable(
    "SoftmaxBackwardData",
    raw=True,
    grad=lambda g, out, dim: _softmax_back(g, out, dim=dim),
    out=lambda g, grad, out, dim: e.sub(
        e.mul(g, e.sub(grad, _total(e.mul(grad, out), dim))), e.mul(grad, _total(e.mul(g, out), dim))
    ),
)
def _softmax_back(grad: Tensor, out: Tensor, *, dim: int, own: bool = False) -> Tensor:
    return _at_dim(_over(_SOFTMAX_BACK) if own else _SOFTMAX_BACK, out._spec, dim)(grad, out)


@prepared(
    "Softmax",
    tangent=lambda t, y, dim: _softmax_back(t, y, dim=dim),  # its Jacobian is symmetric
    batch=lambda x, dim: _softmax(x, dim=dim + 1) if x.ndim > 1 else _softmax(x[:, None], dim=1)[:, 0],
    input=lambda g, y, dim, own: _softmax_back(g, y, dim=dim, own=own and g._spec is y._spec),
)
def _softmax(input: Spec, *, dim: int) -> Run:
    return _of_one(_SOFTMAX, input, dim)


@differentiable(
    "LogSoftmaxBackwardData",
    raw=True,
    grad=lambda g, out, dim: e.sub(g, _total(e.mul(g, e.exp(out)), dim)),
    out=lambda g, grad, out, dim: e.neg(e.mul(e.mul(g, e.exp(out)), _total(grad, dim))),
)
def _log_softmax_back(grad: Tensor, out: Tensor, *, dim: int, own: bool = False) -> Tensor:
    return _at_dim(_over(_LOG_SOFTMAX_BACK) if own else _LOG_SOFTMAX_BACK, out._spec, dim)(grad, out)


@prepared(
    "LogSoftmax",
    tangent=lambda t, y, dim: e.sub(t, _total(e.mul(e.exp(y), t), dim)),
    batch=lambda x, dim: (
        _log_softmax(x, dim=dim + 1) if x.ndim > 1 else _log_softmax(x[:, None], dim=1)[:, 0]
    ),
    input=lambda g, y, dim, own: _log_softmax_back(g, y, dim=dim, own=own and g._spec is y._spec),
)
def _log_softmax(input: Spec, *, dim: int) -> Run:
    return _of_one(_LOG_SOFTMAX, input, dim)


def _normalised(op: Any, input: Tensor, dim: int, dtype: Any, name: str) -> Any:
    d = input._spec.dtype if dtype is None else dtypes.to_dtype(dtype)
    at = layout.wrap_dim(dim, input.ndim)
    if not d.is_floating_point:
        if not input._spec.numel:
            return empty(input._spec.dense().like(dtype=d))
        kernel = f"{name}_lastdim_kernel_impl" if at == max(input.ndim - 1, 0) else f"{name}_kernel_impl"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")
    return call_of(op, input, dim=at) if d is input._spec.dtype else op(to_dtype(input, d), dim=at)


@method
@settled
def softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Tensor | None = None) -> Any:
    """`exp(input)`, divided by its sum along `dim`: numbers above 0 whose sum is 1. Computed from `input - max(input)`, so that
    nothing overflows. The gradient is `y * (g - sum(g * y))` along `dim`, y being the result. `dtype`, if given, is what the
    input is first cast to.

    >>> x = torch.tensor([[0.0, 0.0], [0.0, 1.0]], requires_grad=True)
    >>> y = torch.softmax(x, dim=1)
    >>> y.detach()
    tensor([[0.5000, 0.5000],
            [0.2689, 0.7311]])
    >>> y[1, 1].backward()
    >>> x.grad
    tensor([[ 0.0000,  0.0000],
            [-0.1966,  0.1966]])
    """
    if out is not None:
        return into("softmax", out, softmax(input, dim, dtype), (input,))
    return _normalised(_softmax, input, dim, dtype, "softmax")


@method
@settled
def log_softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Tensor | None = None) -> Any:
    """`input - log(sum(exp(input)))` along `dim`: the logarithm of `softmax`, exact also where that underflows. The gradient is `g -
    softmax(input) * sum(g)`. `dtype`, if given, is what the input is first cast to.

    >>> torch.log_softmax(torch.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    if out is not None:
        return into("log_softmax", out, log_softmax(input, dim, dtype), (input,))
    return _normalised(_log_softmax, input, dim, dtype, "log_softmax")


__all__ = ["log_softmax", "softmax"]
