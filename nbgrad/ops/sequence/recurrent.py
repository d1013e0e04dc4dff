"""One layer of a recurrent network, in one direction, through all steps: an op with one launch forward and one backward, on a device with
some for each step (`steps.py`).

What is a product over all steps at once is one: of the inputs with their weights before, and of the gradients of the gates with inputs,
states and weights after. Where the gradient is itself to be differentiated, or a transform looks on, it is that of the same steps written
out in ops (`steps`), so derivatives of every order exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.kernels.cpu import recurrent as loops
from nbgrad.memory.backend import vector_bits
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.linear.matmul import linear
from nbgrad.ops.linear.products import _mm, _mm_tn, _shaped
from nbgrad.ops.pointwise.activations import relu
from nbgrad.ops.pointwise.functions import sigmoid, tanh
from nbgrad.ops.reduce import sums as r
from nbgrad.ops.sequence import composed
from nbgrad.ops.sequence.steps import Steps
from nbgrad.ops.views.copy import clone, contiguous, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import narrow, unsafe_chunk
from nbgrad.tape.modes import state

Operands = Sequence[Tensor | None]  # input, h, c, w_ih, w_hh, b_ih, b_hh, w_hr
Run = Callable[..., Any]

# ---------------------------------------------------------------- kernels


_Parts = Sequence[tuple[int, int, int]]


@cached(1024)
def _panels(w: Spec, v: Spec, columns: int, rows: Ints, steps: Ints, parts: _Parts) -> Run:
    """What lays weights out as the kernels read them: of so many columns of a group panels of `rows` of the two; steps count elements."""
    code, backend = w.dtype.code, w.backend
    bits = vector_bits(backend) or 0
    width = loops.width(code, bits)
    items = -(-columns // width)
    total = sum([rows[0] * one + rows[1] * other for _, one, other in parts])
    size = items * total * width
    source, codes = loops.packed(code, bits)
    address = backend.kernel(f"pack_{code}", source, codes).address
    launch, out = backend.launch(4, "", size), w.like((size,))
    meta = backend.constants(
        [columns, len(parts), *rows, *steps, total, *[n for part in parts for n in part]]
    )

    def run(w: Tensor, v: Tensor) -> Tensor:
        made = empty(out)
        launch(address, items, meta, made._buf, w._buf, v._buf)
        return made

    return run


def _panels_of(
    w: Spec, groups: int, columns: int, rows: int, down: int, along: int
) -> Callable[[Tensor], Tensor]:
    """The same of one matrix."""
    run = _panels(w, w, columns, (rows, 0), (down, along, 0, 0), tuple([(g, 1, 0) for g in range(groups)]))
    return lambda t: run(t, t)


class _Plan:
    """All that a layer's launches need and that does not depend on values."""

    def __init__(
        self,
        kind: str,
        h: Spec,
        w_ih: Spec,
        w_hh: Spec,
        w_hr: Spec | None,
        starts: Ints,
        reverse: bool,
        shape: Ints,
        kept: bool,
    ) -> None:
        code, backend = h.dtype.code, h.backend
        cell, gates = loops.cells()[kind], w_hh.shape[0]
        batch, length = h.shape
        units, rows = gates // len(cell.gates), starts[-1]
        self.nothing = none = h.like((0,), None)
        self.cell = cell
        self.shifts = zeros(h.like((gates,), None))  # where there are no biases
        self.before, self.state = h.like((rows, length), None), h.dense()
        self.outputs = h.like((*shape, length), None) if shape else self.before
        self.carried = none if cell.carried is None else h.like((batch, units), None)
        self.gates = h.like((rows, gates), None)
        self.more = h.like((rows, len(cell.more) * units), None) if kept else none
        self.states = self.before if kept else none
        self.hidden = none if w_hr is None else h.like((rows, units), None)
        self.arrived = none if w_hr is None else self.before
        self.steps = None if backend.prompt else Steps(kind, h, w_hh, w_hr, starts, reverse, kept)
        self.inside = False
        if self.steps is not None:
            return
        features = w_ih.shape[1]
        piece, bits = loops.rows_of(w_hh.numel * w_hh.itemsize), vector_bits(backend) or 0
        near = (w_ih.numel + w_hh.numel) * h.itemsize <= loops.NEAR
        self.inside = (
            near and batch >= piece and all([loops.filled(n, code, bits) for n in (features, units)])
        )
        before = features if self.inside else 0
        self.rows_read = h.like((batch, before + length), None)
        self.by_input = h.like((rows, features), None)
        self.meta = backend.constants([len(starts) - 1, batch, units, length, reverse, before, *starts])
        self.pieces = -(-batch // piece)
        work = rows * gates * (before + length) if batch else 0
        name = kind + "_projected" * (w_hr is not None)

        def made(name: str, source: str, codes: tuple[str, ...]) -> tuple[Run, int]:
            kernel = backend.kernel(f"{name}_{code}", source, codes, contract=True)
            return backend.launch(len(codes) - 2, "", work), kernel.address

        how = kind, code, bits, piece, w_hr is not None
        self.launch, self.address = made(name, *loops.forward(*how, self.inside, kept))
        known: dict[bool, tuple[Run, int]] = {}

        def backward(inside: bool) -> tuple[Run, int]:
            found = known.get(inside)
            return found or known.setdefault(inside, made(f"{name}_backward", *loops.backward(*how, inside)))

        self.backward = backward
        down, along = w_hh.strides
        if self.inside:
            apart, count = cell.apart, len(cell.gates)
            parts = [(k, 1, 1) for k in range(count) if k not in apart]
            parts += [part for k in apart for part in ((k, 1, 0), (k, 0, 1))]
            steps = *w_ih.strides[::-1], along, down
            self.weights = _panels(w_ih, w_hh, units, (features, length), steps, tuple(parts))
            self.input_back = _panels_of(w_ih, 1, features, gates, *w_ih.strides)
        else:
            of_state = _panels_of(w_hh, len(cell.gates), units, length, along, down)
            self.weights = lambda _, w_hh: of_state(w_hh)
        self.weights_back = _panels_of(w_hh, 1, length, gates, down, along)
        if w_hr is not None:
            down, along = w_hr.strides
            self.projection = _panels_of(w_hr, 1, length, units, along, down)
            self.projection_back = _panels_of(w_hr, 1, units, length, down, along)


_plan = cached(256)(_Plan)


def _plan_of(h: Tensor, w_ih: Tensor, w_hh: Tensor, w_hr: Tensor | None, kind: str, *how: Any) -> _Plan:
    return _plan(kind, h._spec, w_ih._spec, w_hh._spec, None if w_hr is None else w_hr._spec, *how)


def _dense(t: Tensor) -> Tensor:
    return t if t._spec.contiguous else contiguous(t)


def _layer(
    input: Tensor,
    h: Tensor,
    c: Tensor | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
    w_hr: Tensor | None,
    *,
    kind: str,
    starts: Ints,
    reverse: bool,
    shape: Ints,
    kept: bool = True,
) -> tuple[Tensor, ...]:
    """The outputs of all steps, one below the other, the last state and what is carried beside it; then what the gradient reads, if that
    is `kept`."""
    plan = _plan_of(h, w_ih, w_hh, w_hr, kind, starts, reverse, shape, kept)
    own = plan.shifts if b_hh is None else _dense(b_hh)
    if plan.inside:
        gates = empty(plan.gates if kept else plan.nothing)
    else:
        bias = b_ih if plan.cell.shifted or b_hh is None or b_ih is None else e.add(b_ih, b_hh)
        gates = linear(input, w_ih, bias)
    outputs, last, carried = empty(plan.outputs), empty(plan.state), empty(plan.carried)
    more, before, hidden = empty(plan.more), empty(plan.states), empty(plan.hidden)
    made = outputs, last, carried, gates, more, before, hidden
    states = _dense(h), hidden if c is None else _dense(c)
    if plan.steps is not None:
        plan.steps.forward(*made, *states, w_hh, own, w_hr)
        return made
    nothing = hidden if w_hr is None else plan.projection(w_hr)
    room, bias = empty(plan.rows_read), plan.shifts if b_ih is None else _dense(b_ih)
    memories = *made, room, _dense(input), *states, plan.weights(w_ih, w_hh), bias, own, nothing
    plan.launch(plan.address, plan.pieces, plan.meta, *[t._buf for t in memories])
    return made


def _gradients(
    g: Sequence[Tensor | None],
    tensors: Operands,
    kept: tuple[Tensor, Tensor, Tensor, Tensor],
    wanted: Sequence[bool],
    kind: str,
    starts: Ints,
    reverse: bool,
    shape: Ints,
) -> list[Tensor | None]:
    input, h, _, w_ih, w_hh, _, _, w_hr = tensors
    assert input is not None and h is not None and w_ih is not None and w_hh is not None
    plan = _plan_of(h, w_ih, w_hh, w_hr, kind, starts, reverse, shape, True)
    arriving = [
        zeros(sp) if t is None else _dense(t) for t, sp in zip(g, (plan.outputs, plan.state, plan.carried))
    ]
    gates, more, before, hidden = kept
    by_x, by_h, by_c = empty(plan.gates), empty(plan.state), empty(plan.carried)
    by_u, arrived = empty(plan.gates) if plan.cell.by_u else by_x, empty(plan.arrived)
    memories = [by_x, by_u, by_h, by_c, arrived, *arriving, gates, more, before]
    by_input = None
    if plan.steps is not None:
        plan.steps.backward(memories, w_hh, w_hr)
    else:
        inside = plan.inside and wanted[0]
        nothing = hidden if w_hr is None else plan.projection_back(w_hr)
        by_input, weights = (empty(plan.by_input), plan.input_back(w_ih)) if inside else (None, hidden)
        given = *memories[:5], hidden if by_input is None else by_input, *memories[5:]
        launch, address = plan.backward(inside)
        launch(
            address,
            plan.pieces,
            plan.meta,
            *[t._buf for t in (*given, plan.weights_back(w_hh), weights, nothing)],
        )
    if wanted[0] and by_input is None:
        by_input = _mm(by_x, w_ih)
    by_bias = r.sum(by_x, 0) if wanted[5] else None
    same = by_bias is not None and by_u is by_x  # what is the same is summed once
    return [
        by_input,
        by_h,
        by_c,
        _mm_tn(by_x, input) if wanted[3] else None,
        _mm_tn(by_u, before) if wanted[4] else None,
        by_bias,
        (clone(by_bias) if same else r.sum(by_u, 0)) if wanted[6] else None,
        _mm_tn(arrived, hidden) if wanted[7] else None,
    ]


def _rule(
    g: Sequence[Tensor | None],
    input: Tensor,
    h: Tensor,
    c: Tensor | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
    w_hr: Tensor | None,
    y3: Tensor,
    y4: Tensor,
    y5: Tensor,
    y6: Tensor,
    kind: str,
    starts: Ints,
    reverse: bool,
    shape: Ints,
    wanted: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    tensors = input, h, c, w_ih, w_hh, b_ih, b_hh, w_hr
    if state.grad or transforms.wrapped([*g[:3], *tensors]):
        found = composed.gradients(
            g, tensors, wanted, partial(steps, kind=kind, starts=starts, reverse=reverse, shape=shape)
        )
    else:
        found = _gradients(g, tensors, (y3, y4, y5, y6), wanted, kind, starts, reverse, shape)
    return tuple([t if w else None for t, w in zip(found, wanted)])


_LAYERS = {
    "lstm": "MkldnnRnnLayer",
    "gru": "Stack",
    "rnn_tanh": "Stack",
    "rnn_relu": "Stack",
}
_STEPS = {"lstm": "Mul", "gru": "Add", "rnn_tanh": "Tanh", "rnn_relu": "Relu"}
_layers, _packed, _single = (
    {kind: differentiable(node, all=_rule)(_layer) for kind, node in named.items()}
    for named in (_LAYERS, dict.fromkeys(_LAYERS, "Cat"), _STEPS)
)


def layer(
    tensors: Operands, kind: str, starts: Ints, reverse: bool, shape: Ints = ()
) -> tuple[Tensor, Tensor, Tensor]:
    """`input`, [rows, features], has the steps one below the other, those of step t from row `starts[t]` on; h is [batch, state]. Gives
    the outputs, their rows shaped as `shape` says, the last state, and what an LSTM carries beside it (of others, a tensor without
    elements)."""
    named = "gru" if kind == "lstm" and tensors[7] is not None else kind  # what projects is no oneDNN's
    run = _op((_layers if shape else _packed)[named], tensors)
    outputs, last, carried, *_ = run(*tensors, kind=kind, starts=starts, reverse=reverse, shape=shape)
    return outputs, last, carried


def _op(recorded: Run, tensors: Operands) -> Run:
    """The op, or where nobody will ask for a gradient what keeps nothing for one."""
    if state.active and transforms.wrapped(tensors):
        return recorded
    if state.grad and any(t is not None and t._rg for t in tensors):
        return recorded
    return _unkept


_unkept = partial(_layer, kept=False)


_stacked = _shaped("StackBackward0")


def alone(state: Tensor) -> Tensor:
    """The states of a network of one layer, of which nobody else has that layer's: they are not copied."""
    return _stacked(state, (1, *state.shape))


def step(tensors: Operands, kind: str) -> tuple[Tensor, Tensor]:
    """A layer of one step: the state after it, and what is carried."""
    assert tensors[0] is not None
    starts = (0, tensors[0].shape[0])
    run = _op(_single[kind], tensors)
    outputs, _, carried, *_ = run(*tensors, kind=kind, starts=starts, reverse=False, shape=())
    return outputs, carried


# ---------------------------------------------------------------- the same in ops


def steps(
    tensors: Operands, kind: str, starts: Ints, reverse: bool, shape: Ints = ()
) -> tuple[Tensor, Tensor, Tensor | None]:
    """What `layer` computes, step by step."""
    input, h, c, w_ih, w_hh, b_ih, b_hh, w_hr = tensors
    assert input is not None and h is not None and w_ih is not None and w_hh is not None
    x = linear(input, w_ih, b_ih)
    count = len(starts) - 1
    made: list[Any] = [None] * count
    active: list[Any]
    for t in range(count)[:: -1 if reverse else 1]:
        rows = starts[t + 1] - starts[t]
        of_step = narrow(x, 0, starts[t], rows)
        active = [None if s is None else narrow(s, 0, 0, rows) for s in (h, c)]
        new, carried = _CELLS[kind](of_step, linear(active[0], w_hh, b_hh), *active)
        if w_hr is not None:
            new = linear(new, w_hr)
        made[t] = new
        h, c = _with_rest(new, h, rows), None if c is None else _with_rest(carried, c, rows)
    outputs = cat(made, 0)
    return reshape(outputs, (*shape, outputs.shape[1])) if shape else outputs, h, c


def _with_rest(new: Tensor, before: Tensor, rows: int) -> Tensor:
    """The states of a step, below them those of sequences that have ended or not begun."""
    batch = before.shape[0]
    return new if rows == batch else cat([new, narrow(before, 0, rows, batch - rows)], 0)


def _lstm(x: Tensor, u: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    i, f, s, o = unsafe_chunk(e.add(u, x), 4, 1)
    carried = e.add(e.mul(sigmoid(f), c), e.mul(sigmoid(i), tanh(s)))
    return e.mul(sigmoid(o), tanh(carried)), carried


def _gru(x: Tensor, u: Tensor, h: Tensor, c: None) -> tuple[Tensor, None]:
    (x_r, x_z, x_n), (u_r, u_z, u_n) = unsafe_chunk(x, 3, 1), unsafe_chunk(u, 3, 1)
    new = tanh(e.add(x_n, e.mul(u_n, sigmoid(e.add(u_r, x_r)))))
    return e.add(e.mul(e.sub(h, new), sigmoid(e.add(u_z, x_z))), new), None


_CELLS: dict[str, Callable[..., Any]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": lambda x, u, h, c: (tanh(e.add(u, x)), None),
    "rnn_relu": lambda x, u, h, c: (relu(e.add(u, x)), None),
}
