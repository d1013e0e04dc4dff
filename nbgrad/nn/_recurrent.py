"""Recurrent networks as functions, `torch.lstm` and its like: layers over layers, in one direction or both, and single steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.quick import replayed
from nbgrad.memory import backend, dtypes
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Marked
from nbgrad.nn._dropouts import dropout as _dropout
from nbgrad.ops.sequence import recurrent
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.join import cat, stack
from nbgrad.ops.views.order import transpose
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import narrow, select

_GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
_PLAIN = (
    "input",
    "hx",
    "params",
    "has_biases",
    "num_layers",
    "dropout",
    "train",
    "bidirectional",
    "batch_first",
)
_PACKED = "data", "batch_sizes", *_PLAIN[1:-1]
Hidden = tuple[Tensor, ...]


def lstm(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor, Tensor]:
    """What `nn.LSTM` computes: `lstm(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)` gives the
    outputs of all steps, the last states and cells. `hx` is a pair; `params` lists the weights of one layer and direction after the
    other: `w_ih`, `w_hh`, `b_ih`, `b_hh`, and `w_hr` of a projected state. For packed sequences it is `lstm(data, batch_sizes, hx,
    ...)`.

    >>> x, h, w = torch.ones(3, 1, 2), torch.zeros(1, 1, 1), torch.zeros(4, 2)
    >>> y, hn, cn = torch.lstm(x, (h, h), (w, w[:, :1]), False, 1, 0.0, False, False, False)
    >>> y.shape, hn.shape
    (torch.Size([3, 1, 1]), torch.Size([1, 1, 1]))
    """
    packed = "batch_sizes" in kwargs or (len(args) > 1 and isinstance(args[1], Tensor))
    given = dict(zip(_PACKED if packed else _PLAIN, args)) | kwargs
    if len(given["hx"]) != 2:
        raise RuntimeError("lstm expects two hidden states")
    return _called("lstm", given, tuple(given["hx"]))


def _one_state(kind: str) -> Any:
    def network(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        packed = "batch_sizes" in kwargs or (len(args) > 2 and isinstance(args[2], Tensor))
        given = dict(zip(_PACKED if packed else _PLAIN, args)) | kwargs
        return _called(kind, given, (given["hx"],))

    network.__name__ = network.__qualname__ = kind
    network.__doc__ = f"""What `nn.{"GRU" if kind == "gru" else "RNN"}` computes: `{kind}(input, hx, params, has_biases, num_layers,
    dropout, train, bidirectional, batch_first)` gives the outputs of all steps and the last states; `params` are as those of `lstm`.
    For packed sequences it is `{kind}(data, batch_sizes, hx, ...)`.

    >>> x, h, w = torch.ones(3, 1, 2), torch.zeros(1, 1, 1), torch.zeros({_GATES[kind]}, 2)
    >>> y, hn = torch.{kind}(x, h, (w, w[:, :1]), False, 1, 0.0, False, False, False)
    >>> y.shape, hn.shape
    (torch.Size([3, 1, 1]), torch.Size([1, 1, 1]))
    """
    return network


gru, rnn_tanh, rnn_relu = map(_one_state, ("gru", "rnn_tanh", "rnn_relu"))


def _called(kind: str, given: dict[str, Any], hx: Hidden) -> Any:
    if "batch_sizes" in given:
        x, sizes = given["data"], given["batch_sizes"]
        if sizes.dtype is not dtypes.int64:
            raise RuntimeError(f"expected scalar type Long but found {sizes.dtype.scalar_name}")
        starts = _starts(sizes.tolist())
        if starts[-1] != x.shape[0]:
            x = narrow(x, 0, 0, starts[-1])
        return through(kind, x, hx, starts, given)
    x = transpose(given["input"], 0, 1) if given["batch_first"] else given["input"]
    _check_dim(x, 2)
    count, batch, features = x.shape
    if not count:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    starts = _evenly(count, batch)
    y, *last = through(kind, reshape(x, (count * batch, features)), hx, starts, given, (count, batch))
    if given["batch_first"]:
        y = transpose(y, 0, 1) if kind == "lstm" else y.transpose_(0, 1)  # whose nodes bear other names
    return y, *last


def _check_dim(t: Tensor, dim: int) -> None:
    if t.ndim <= dim:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-t.ndim}, {t.ndim - 1}], but got {dim})"
        )


@cached(256)
def _evenly(count: int, batch: int) -> Ints:
    return tuple([batch * k for k in range(count + 1)])


def _starts(sizes: Sequence[int]) -> Ints:
    """Where the rows of each step begin; `sizes` count those of each."""
    if not sizes:
        raise RuntimeError("Expected sequence length to be larger than 0 in RNN")
    starts = [0]
    for before, size in zip((sizes[0], *sizes), sizes):
        if size > before or size < 0:
            raise RuntimeError(
                f"The size of tensor a ({before}) must match the size of tensor b ({size}) at non-singleton dimension 0"
            )
        starts.append(starts[-1] + size)
    return tuple(starts)


# What nothing was refused of: by the kind, what it is asked, and all specs.
_fitting: Table[Any, bool] = Table("nn._recurrent.fitting", PLANS)


def _check_devices(x: Tensor, given: Sequence[tuple[str, Sequence[Tensor]]]) -> None:
    for what, tensors in given:
        for t in tensors:
            if t._spec.device is not x._spec.device:
                raise RuntimeError(
                    f"Input and {what} tensors are not at the same device, found input tensor at {x._spec.device} and {what} tensor at "
                    f"{t._spec.device}"
                )


def through(
    kind: str, x: Tensor, hx: Hidden, starts: Ints, given: dict[str, Any], shape: Ints = ()
) -> tuple[Tensor, ...]:
    """All layers, of the steps' rows one below the other: the outputs (shaped in steps and rows of those, if `shape` says so), and the
    last states of each layer and direction."""
    params, has_biases, count = given["params"], given["has_biases"], given["num_layers"]
    ways = 2 if given["bidirectional"] else 1
    specs = [t._spec for t in (x, *hx, *params)]
    key = kind, shape or starts, count, ways, has_biases, len(hx), *specs
    fits = key in _fitting
    if not fits:
        _check_devices(x, (("hidden", hx), ("parameter", params)))
    weights = _weights(kind, params, has_biases, len(hx) > 1 and hx[0].shape[2] != hx[1].shape[2])
    if not fits:
        if any(h.ndim != 3 or h.shape[0] < count * ways for h in hx):
            raise RuntimeError("Expected more hidden states in stacked_rnn")
        if len(weights) < count * ways:
            raise RuntimeError("Expected more layer weights in stacked_rnn")
    d = x.dtype
    last: list[tuple[Tensor, Tensor]] = []
    for layer in range(count):
        made = []
        x = reshape(x, (starts[-1], x.shape[-1])) if layer and shape else x
        for way in range(ways):
            k = layer * ways + way
            tensors = [x, *[select(h, 0, k) for h in hx], *[None] * (2 - len(hx)), *weights[k]]
            run: Any = recurrent.layer if x.dtype.is_floating_point else recurrent.steps
            judged = tensors if fits else _judged(kind, tensors, starts)
            y, *states = run(judged, kind, starts, bool(way), shape)
            made.append(y)
            last.append((states[0], states[1]))
        x = made[0] if ways == 1 else cat(made, -1)
        if d.narrow:
            x = to_dtype(x, d)
        if given["train"] and given["dropout"] and layer < count - 1:
            x = _dropout(x, given["dropout"], True)
    if len(last) == 1:
        states_ = [recurrent.alone(state) for state in last[0][: len(hx)]]
    else:
        states_ = [stack([pair[k] for pair in last], 0) for k in range(len(hx))]
    if not (fits or d.narrow or Marked in map(type, specs)):  # nothing was refused, nor is to be cast
        _fitting.keep(key, True)
    return x, *[to_dtype(s, d) if d.narrow else s for s in states_]


def _weights(kind: str, params: Sequence[Tensor], has_biases: bool, projected: bool) -> list[tuple[Any, ...]]:
    """Of each layer and direction: w_ih, w_hh, b_ih, b_hh and w_hr."""
    each = 2 + 2 * has_biases + projected
    if len(params) % each:
        raise RuntimeError("got an incorrect number of RNN parameters")
    groups = [tuple(params[k : k + each]) for k in range(0, len(params), each)]
    return [(*g[:2], *(g[2:4] if has_biases else (None, None)), g[-1] if projected else None) for g in groups]


def _judged(kind: str, tensors: list[Any], starts: Ints) -> list[Any]:
    """Operands that the kernels can read: of one floating dtype, of sizes that fit."""
    input, h, c, w_ih, w_hh, b_ih, b_hh, w_hr = tensors
    given = [t for t in tensors if t is not None]
    backend.same([t._spec.device for t in given])
    for t in given[1:]:
        if t.dtype is not input.dtype:
            names = (input.dtype.scalar_name, t.dtype.scalar_name)
            raise RuntimeError(f"mat1 and mat2 must have the same dtype, but got {names[0]} and {names[1]}")
    name = input.dtype.scalar_name
    if input.dtype is dtypes.bool_:
        product = "addmm_impl_cpu_" if w_hr is None else "bmm"
        raise NotImplementedError(f"\"{product}\" not implemented for '{name}'")
    if not input.dtype.inexact and kind in ("lstm", "gru"):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {name}")
    for t, w in ((input, w_ih), (h, w_hh)):
        if w.ndim != 2 or t.shape[1] != w.shape[1]:
            shapes = "x".join(map(str, t.shape)), "x".join(map(str, tuple(w.shape)[::-1]))
            raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({shapes[0]} and {shapes[1]})")
    rows, gates = starts[1], _GATES[kind]
    if h.shape[0] != rows:
        wide = w_hh.shape[0] // (gates if kind == "gru" else 1)
        raise RuntimeError(
            f"output with shape [{h.shape[0]}, {wide}] doesn't match the broadcast shape [{rows}, {wide}]"
        )
    units = w_hh.shape[0] // gates
    wanted: list[tuple[Any, Ints]] = [(w_ih, (units * gates, input.shape[1])), (c, (rows, units))]
    wanted += [(b, (units * gates,)) for b in (b_ih, b_hh)]
    wanted += [(w_hh, (units * gates, h.shape[1])), (w_hr, (h.shape[1], units))]
    for t, shape in wanted if w_hr is not None else [*wanted, (h, (rows, units))]:
        if t is not None and tuple(t.shape) != shape:
            raise RuntimeError(f"Expected a tensor of size {list(shape)} in {kind}, but got {list(t.shape)}")
    if input.dtype.narrow:
        return [None if t is None else to_dtype(t, dtypes.float32) for t in tensors]
    return tensors


# ---------------------------------------------------------------- single steps


def _cell(kind: str, input: Tensor, hx: Hidden, weights: Sequence[Tensor | None]) -> tuple[Tensor, ...]:
    w_ih, w_hh = weights[:2]
    assert w_ih is not None and w_hh is not None
    tensors = [input, *hx, *[None] * (2 - len(hx)), *weights, None]
    key = (kind, *[None if t is None else t._spec for t in tensors])
    if key in _fitting:
        return recurrent.step(tensors, kind)
    for name, t in (("input", input), *[(f"hidden{k}", h) for k, h in enumerate(hx)]):
        _check_dim(t, 1)
        if name == "input" and t.shape[1] != w_ih.shape[1]:
            raise RuntimeError(
                f"input has inconsistent input_size: got {t.shape[1]} expected {w_ih.shape[1]}"
            )
        if t.shape[0] != input.shape[0]:
            raise RuntimeError(
                f"Input batch size {input.shape[0]} doesn't match {name} batch size {t.shape[0]}"
            )
        if name != "input" and t.shape[1] != w_hh.shape[1]:
            raise RuntimeError(
                f"{name} has inconsistent hidden_size: got {t.shape[1]}, expected {w_hh.shape[1]}"
            )
    starts = (0, input.shape[0])
    judged = _judged(kind, tensors, starts)
    if not input.dtype.is_floating_point:
        _, last, carried = recurrent.steps(judged, kind, starts, False)
        return (last,) if carried is None else (last, carried)
    made = recurrent.step(judged, kind)
    if input.dtype.narrow:
        return tuple([to_dtype(t, input.dtype) for t in made])
    if Marked not in map(type, key):
        _fitting.keep(key, True)
    return made


def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: of a batch of inputs and the pair of its states and cells the next pair. With the four parts i, f, g, o
    of `input @ w_ih.T + b_ih + h @ w_hh.T + b_hh` it is `c' = sigmoid(f) * c + sigmoid(i) * tanh(g)` and `h' = sigmoid(o) * tanh(c')`.

    >>> x, h, w = torch.ones(1, 1), torch.zeros(1, 1), torch.zeros(4, 1)
    >>> torch.lstm_cell(x, (h, h + 1), w, w)
    (tensor([[0.2311]]), tensor([[0.5000]]))
    """
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    h, c = _cell("lstm", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh))
    return h, c


@replayed
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a gated recurrent unit: with the three parts of `x = input @ w_ih.T + b_ih` and of `u = hx @ w_hh.T + b_hh`, reset
    `r = sigmoid(x0 + u0)`, update `z = sigmoid(x1 + u1)` and `n = tanh(x2 + r * u2)`, the new state is `(1 - z) * n + z * hx`.

    >>> torch.gru_cell(torch.ones(1, 1), torch.ones(1, 1), torch.zeros(3, 1), torch.zeros(3, 1))
    tensor([[0.5000]])
    """
    return _cell("gru", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@replayed
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a plain recurrent network: `tanh(input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh)`.

    >>> torch.rnn_tanh_cell(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1), torch.zeros(1, 1))
    tensor([[0.7616]])
    """
    return _cell("rnn_tanh", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


@replayed
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor:
    """One step of a plain recurrent network: what is above 0 of `input @ w_ih.T + b_ih + hx @ w_hh.T + b_hh`.

    >>> torch.rnn_relu_cell(torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1), torch.ones(1, 1))
    tensor([[2.]])
    """
    return _cell("rnn_relu", input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]


__all__ = [
    "gru",
    "gru_cell",
    "lstm",
    "lstm_cell",
    "rnn_relu",
    "rnn_relu_cell",
    "rnn_tanh",
    "rnn_tanh_cell",
]
