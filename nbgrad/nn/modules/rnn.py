"""Recurrent networks, and single steps of them."""

from __future__ import annotations

import math
import numbers
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from nbgrad.core import overrides
from nbgrad.core.casting import casting
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import _recurrent, init
from nbgrad.nn._made import empty, zeros
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter
from nbgrad.nn.utils.rnn import PackedSequence
from nbgrad.ops.index.gather import index_select

Number: Any = numbers.Number  # which mypy takes for a class of no numbers
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    moved: Tensor = index_select(tensor, dim, permutation)
    return moved


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` share: their weights, and the checks of what they are given.

    >>> nn.GRU(2, 3).mode, isinstance(nn.GRU(2, 3), nn.RNNBase)
    ('GRU', True)
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: Any = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.mode, self.input_size, self.hidden_size, self.num_layers = (
            mode,
            input_size,
            hidden_size,
            num_layers,
        )
        self.bias, self.batch_first, self.dropout = bias, batch_first, float(dropout)
        self.bidirectional, self.proj_size = bidirectional, proj_size
        self._flat_weight_refs: list[Any] = []
        if isinstance(dropout, bool) or not isinstance(dropout, Number) or not 0 <= dropout <= 1:
            raise ValueError(
                "dropout should be a number in range [0, 1] representing the probability of an element being zeroed"
            )
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects num_layers greater than 1, "
                f"but got dropout={dropout} and num_layers={num_layers}",
                stacklevel=2,
            )
        self._check_sizes()
        self._flat_weights_names: list[str] = []
        self._flat_weights: list[Any] = []
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for suffix in ("", "_reverse")[: 1 + bidirectional]:
                self._add_layer(layer, f"_l{layer}{suffix}", {"device": device, "dtype": dtype})
        self._init_flat_weights()
        self.reset_parameters()

    def _check_sizes(self) -> None:
        for name, value, kind in (
            ("bias", self.bias, bool),
            ("batch_first", self.batch_first, bool),
            ("input_size", self.input_size, int),
            ("hidden_size", self.hidden_size, int),
            ("num_layers", self.num_layers, object),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
            if kind is not bool and value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if self.proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if self.proj_size >= self.hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        if self.mode not in _GATES:
            raise ValueError("Unrecognized RNN mode: " + self.mode)

    def _add_layer(self, layer: int, suffix: str, made: dict[str, Any]) -> None:
        gates, state = _GATES[self.mode] * self.hidden_size, self.proj_size or self.hidden_size
        features = self.input_size if layer == 0 else state * (1 + self.bidirectional)
        shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, features), "weight_hh": (gates, state)}
        biases: dict[str, tuple[int, ...]] = {"bias_ih": (gates,), "bias_hh": (gates,)}
        projection = {"weight_hr": (state, self.hidden_size)} if self.proj_size else {}
        shapes |= (biases if self.bias else {}) | projection
        for name, shape in shapes.items():
            setattr(self, name + suffix, Parameter(empty(shape, **made)))
        names = [name + suffix for name in shapes]
        self._flat_weights_names += names
        self._all_weights.append(names)

    def _init_flat_weights(self) -> None:
        self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]
        self.flatten_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        names = self.__dict__.get("_flat_weights_names", ())
        if name in names and len(self._flat_weights) == len(names):
            self._flat_weights[names.index(name)] = value
        super().__setattr__(name, value)

    def flatten_parameters(self) -> None:
        """On the CPU nothing: elsewhere it lays all weights out in one piece of memory.

        >>> nn.GRU(2, 3).flatten_parameters()
        """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        self._flat_weight_refs = []
        got = super()._apply(fn, recurse)
        self._init_flat_weights()
        return got

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniform between -1/sqrt(hidden_size) and 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Refuse inputs of another dtype than the weights', or of other sizes than the network's.

        >>> nn.GRU(2, 3).check_input(torch.ones(5, 1, 2), None)
        """
        own = self._flat_weights[0].dtype
        if input.dtype is not own and not casting.on:
            raise ValueError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({own}). Convert input: input.to({own}), or convert "
                f"model: model.to({input.dtype})"
            )
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(
                f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}"
            )

    def _expected(self, input: Tensor, batch_sizes: Tensor | None, size: int) -> tuple[int, int, int]:
        batch = input.size(0 if self.batch_first else 1) if batch_sizes is None else int(batch_sizes[0])
        return self.num_layers * (2 if self.bidirectional else 1), batch, size

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The size of the first states for these inputs.

        >>> nn.GRU(2, 3).get_expected_hidden_size(torch.ones(5, 1, 2), None)
        (1, 1, 3)
        """
        return self._expected(input, batch_sizes, self.proj_size or self.hidden_size)

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Refuse states of another size than expected.

        >>> nn.GRU(2, 3).check_hidden_size(torch.ones(1, 5, 3), (1, 5, 3))
        """
        if tuple(hx.size()) != expected_hidden_size:
            raise RuntimeError(msg.format(expected_hidden_size, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse what does not fit the network.

        >>> nn.GRU(2, 3).check_forward_args(torch.ones(5, 1, 2), torch.ones(1, 1, 3), None)
        """
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in another order of the batch.

        >>> nn.GRU(2, 1).permute_hidden(torch.tensor([[[1.0], [2.0]]]), torch.tensor([1, 0])).flatten()
        tensor([2., 1.])
        """
        return hx if permutation is None else _apply_permutation(hx, permutation)

    def _zero_states(self, input: Tensor, batch: int) -> Any:
        return self._zeros(input, batch, self.hidden_size)

    def _zeros(self, input: Tensor, batch: int, size: int) -> Tensor:
        layers = self.num_layers * (2 if self.bidirectional else 1)
        made: Tensor = zeros(layers, batch, size, dtype=input.dtype, device=input.device)
        return made

    def _run(self, input: Tensor, hx: tuple[Tensor, ...], batch_sizes: Tensor | None) -> tuple[Any, Any]:
        states = hx if self.mode == "LSTM" else hx[0]
        name = self.mode.lower()
        function = overrides.public(name, getattr(_recurrent, name))
        settings = (self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if batch_sizes is None:
            y, *last = function(input, states, self._flat_weights, *settings, self.batch_first)
        else:
            y, *last = function(input, batch_sizes, states, self._flat_weights, *settings)
        return y, tuple(last) if self.mode == "LSTM" else last[0]

    def _packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        input, sizes, order, back = packed
        hx = self._zero_states(input, int(sizes[0])) if hx is None else self.permute_hidden(hx, order)
        if self.mode != "LSTM":
            self.check_forward_args(input, hx, sizes)
        y, last = self._run(input, hx if self.mode == "LSTM" else (hx,), sizes)
        return PackedSequence(y, sizes, order, back), self.permute_hidden(last, back)

    def forward(self, input: Any, hx: Any = None) -> Any:
        self._update_flat_weights()
        if isinstance(input, PackedSequence):
            return self._packed(input, hx)
        if input.dim() not in (2, 3):
            raise ValueError(self._not_2d_or_3d(input.dim()))
        batched, dim = input.dim() == 3, 0 if self.batch_first else 1
        if hx is not None:
            hx = self._with_batch(hx, batched)
        if not batched:
            input = input.unsqueeze(dim)
        if hx is None:
            hx = self._zero_states(input, input.size(dim))
        self.check_forward_args(input, hx, None)
        y, last = self._run(input, hx if self.mode == "LSTM" else (hx,), None)
        return (y, last) if batched else (y.squeeze(dim), self._without_batch(last))

    def _not_2d_or_3d(self, dims: int) -> str:
        return f"{self._get_name()}: Expected input to be 2D or 3D, got {dims}D instead"

    def _with_batch(self, hx: Any, batched: bool) -> Any:
        if hx.dim() != (3 if batched else 2):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx should also be {3 if batched else 2}-D but got {hx.dim()}-D tensor"
            )
        return hx if batched else hx.unsqueeze(1)

    def _without_batch(self, last: Any) -> Any:
        return last.squeeze(1)

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        usual = {"proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0}
        for name, value in (usual | {"bidirectional": False}).items():
            if getattr(self, name) != value:
                shown += f", {name}={getattr(self, name)}"
        return shown

    def _weights_have_changed(self) -> bool:
        own = self._parameters
        for ref, name in zip(self._flat_weight_refs, self._flat_weights_names, strict=True):
            weight = own[name] if name in own else getattr(self, name, None)
            if weight is not None and ref is not None and ref() is not weight:
                return True
        return False

    def _update_flat_weights(self) -> None:
        if self._weights_have_changed():  # as by `func.functional_call`
            self._init_flat_weights()

    def __getstate__(self) -> dict[str, Any]:
        self._update_flat_weights()
        state = self.__dict__.copy()
        del state["_flat_weight_refs"]
        return state

    def __setstate__(self, d: dict[str, Any]) -> None:
        super().__setstate__(d)
        self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The weights by layer and direction.

        >>> [len(weights) for weights in nn.GRU(2, 3, bidirectional=True).all_weights]
        [4, 4]
        """
        return [[getattr(self, name) for name in names] for names in self._all_weights]


class RNN(RNNBase):
    """A plain recurrent network: at each step `h = tanh(x @ w_ih.T + b_ih + h @ w_hh.T + b_hh)`, or with `nonlinearity="relu"` what of it
    is above 0. Inputs are [steps, batch, input_size], with `batch_first` [batch, steps, input_size], without a batch [steps,
    input_size], or a `PackedSequence`. It gives the outputs of all steps and the last states, [num_layers (twice if
    `bidirectional`), batch, hidden_size], and takes the first states as a second argument (else zeros). Between `num_layers`
    layers stands a `dropout`.

    >>> y, h = nn.RNN(3, 4, num_layers=2)(torch.ones(5, 2, 3))
    >>> y.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__(f"RNN_{self.nonlinearity.upper()}", *args, **kwargs)

    def _not_2d_or_3d(self, dims: int) -> str:
        return f"RNN: Expected input to be 2D or 3D, got {dims}D tensor instead"


class LSTM(RNNBase):
    """A network of long short-term memories: of the four parts i, f, g, o of `x @ w_ih.T + b_ih + h @ w_hh.T + b_hh` follow, at each step,
    `c = sigmoid(f) * c + sigmoid(i) * tanh(g)` and `h = sigmoid(o) * tanh(c)`; with `proj_size` the state is `h @ w_hr.T`. Inputs and
    settings are those of `nn.RNN`; states are pairs `(h, c)`.

    >>> y, (h, c) = nn.LSTM(3, 4, bidirectional=True)(torch.ones(5, 2, 3))
    >>> y.shape, h.shape, c.shape
    (torch.Size([5, 2, 8]), torch.Size([2, 2, 4]), torch.Size([2, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The size of the first cells for these inputs.

        >>> nn.LSTM(2, 3).get_expected_cell_size(torch.ones(5, 1, 2), None)
        (1, 1, 3)
        """
        return self._expected(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Refuse what does not fit the network.

        >>> h = torch.ones(1, 1, 3)
        >>> nn.LSTM(2, 3).check_forward_args(torch.ones(5, 1, 2), (h, h), None)
        """
        self.check_input(input, batch_sizes)
        sizes = self.get_expected_hidden_size, self.get_expected_cell_size
        for k, expected in enumerate(sizes):
            self.check_hidden_size(
                hidden[k], expected(input, batch_sizes), f"Expected hidden[{k}] size {{}}, got {{}}"
            )

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """States in another order of the batch.

        >>> h = torch.tensor([[[1.0], [2.0]]])
        >>> nn.LSTM(2, 1).permute_hidden((h, h), torch.tensor([1, 0]))[1].flatten()
        tensor([2., 1.])
        """
        return (
            hx if permutation is None else tuple([_apply_permutation(h, permutation) for h in (hx[0], hx[1])])
        )

    def _zero_states(self, input: Tensor, batch: int) -> Any:
        cells = self._zeros(input, batch, self.hidden_size)
        return self._zeros(input, batch, self.proj_size) if self.proj_size else cells, cells

    def _with_batch(self, hx: Any, batched: bool) -> Any:
        if any(h.dim() != (3 if batched else 2) for h in (hx[0], hx[1])):
            kind = "batched 3-D" if batched else "unbatched 2-D"
            raise RuntimeError(
                f"For {kind} input, hx and cx should also be {3 if batched else 2}-D but got "
                f"({hx[0].dim()}-D, {hx[1].dim()}-D) tensors"
            )
        return hx if batched else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))

    def _without_batch(self, last: Any) -> Any:
        return tuple([h.squeeze(1) for h in last])


class GRU(RNNBase):
    """A network of gated recurrent units: with the three parts of `x = input @ w_ih.T + b_ih` and of `u = h @ w_hh.T + b_hh`, at each step
    reset `r = sigmoid(x0 + u0)`, update `z = sigmoid(x1 + u1)`, `n = tanh(x2 + r * u2)` and `h = (1 - z) * n + z * h`. Inputs,
    settings and states are those of `nn.RNN`.

    >>> y, h = nn.GRU(3, 4, batch_first=True)(torch.ones(2, 5, 3))
    >>> y.shape, h.shape
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


def _refuse_projection(kwargs: dict[str, Any]) -> None:
    if "proj_size" in kwargs:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


# ---------------------------------------------------------------- single steps


class RNNCellBase(Module):
    """What single steps share: their weights.

    >>> nn.GRUCell(2, 3).weight_ih.shape, isinstance(nn.GRUCell(2, 3), nn.RNNCellBase)
    (torch.Size([9, 2]), True)
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        gates, made = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = Parameter(empty((gates, input_size), **made))
        self.weight_hh = Parameter(empty((gates, hidden_size), **made))
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, Parameter(empty(gates, **made)) if bias else None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        shown = f"{self.input_size}, {self.hidden_size}"
        shown += f", bias={self.bias}" if self.bias is not True else ""
        other = self.__dict__.get("nonlinearity", "tanh")
        return shown + (f", nonlinearity={other}" if other != "tanh" else "")

    def reset_parameters(self) -> None:
        """Draw all weights anew, uniform between -1/sqrt(hidden_size) and 1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step(self, function: Callable[..., Any], input: Tensor, hx: Any, named: str = "hidden") -> Any:
        pair = isinstance(hx, (tuple, list))
        states = hx if pair else () if hx is None else (hx,)
        dims = [("input", input.dim()), *[(named, h.dim()) for h in states]]
        for k, (what, ndim) in enumerate(dims, -1):
            if ndim != 1 and ndim != 2:
                what = what.format(k)
                raise ValueError(f"{self._get_name()}: Expected {what} to be 1D or 2D, got {ndim}D instead")
        batched = dims[0][1] == 2
        if not batched:
            input = input.unsqueeze(0)
            hx = tuple([h.unsqueeze(0) for h in hx]) if pair else None if hx is None else hx.unsqueeze(0)
        if hx is None:
            hx = zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hx = (hx, hx) if "[" in named else hx
        function = overrides.public(function.__name__, function)
        own = self._parameters
        try:  # each by its name takes a third of a microsecond
            weights = own["weight_ih"], own["weight_hh"], own["bias_ih"], own["bias_hh"]
        except KeyError:
            weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        got = function(input, hx, *weights)
        if batched:
            return got
        return tuple([t.squeeze(0) for t in got]) if isinstance(got, tuple) else got.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an `nn.RNN`: [batch, input_size], or [input_size], and the state, [batch, hidden_size], give the next state.

    >>> nn.RNNCell(3, 4)(torch.ones(2, 3), torch.zeros(2, 4)).shape
    torch.Size([2, 4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(getattr(_recurrent, f"rnn_{self.nonlinearity}_cell"), input, hx)


class LSTMCell(RNNCellBase):
    """One step of an `nn.LSTM`: inputs, [batch, input_size], or [input_size], and the pair of state and cell give the next pair.

    >>> h, c = nn.LSTMCell(3, 4)(torch.ones(2, 3))
    >>> h.shape, c.shape
    (torch.Size([2, 4]), torch.Size([2, 4]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> Any:
        return self._step(_recurrent.lstm_cell, input, hx, "hx[{}]")


class GRUCell(RNNCellBase):
    """One step of an `nn.GRU`: inputs, [batch, input_size], or [input_size], and the state give the next state.

    >>> nn.GRUCell(3, 4)(torch.ones(3)).shape
    torch.Size([4])
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Any:
        return self._step(_recurrent.gru_cell, input, hx)


__all__ = ["GRU", "LSTM", "RNN", "GRUCell", "LSTMCell", "RNNBase", "RNNCell", "RNNCellBase"]
