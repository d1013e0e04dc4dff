"""Transformers: layers of attention and of two linear maps, each added to its input and normalised."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from threading import get_ident
from typing import Any

from nbgrad.base.switches import attention, compiling
from nbgrad.core.casting import casting
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional, init
from nbgrad.nn._attention import additive
from nbgrad.nn.modules.activation import GELU, ReLU
from nbgrad.nn.modules.attention import MultiheadAttention
from nbgrad.nn.modules.container import ModuleList
from nbgrad.nn.modules.dropout import Dropout
from nbgrad.nn.modules.linear import Linear
from nbgrad.nn.modules.module import Module, with_own_init
from nbgrad.nn.modules.normalization import LayerNorm
from nbgrad.ops.make.filled import full
from nbgrad.tape.modes import state

F: Any = functional
Activation = str | Callable[[Any], Any]


def _get_activation_fn(activation: str) -> Callable[[Any], Any]:
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    found: Callable[[Any], Any] = getattr(F, activation)
    return found


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _generate_square_subsequent_mask(
    sz: int, device: Device | None = None, dtype: dtype | None = None
) -> Tensor:
    """-inf above the diagonal: no place sees those behind it."""
    mask: Any = full((sz, sz), -math.inf, dtype=dtype, device=device)
    above: Tensor = mask.triu(1)
    return above


class _Layer(Module):
    """What the layers of encoder and decoder share: attention to oneself, the two linear maps, and where normalisation stands."""

    blocks = 2  # each has its dropout and its normalisation
    activation: Callable[[Any], Any]

    def __init_subclass__(cls) -> None:
        with_own_init(cls)

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        where: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        for name in ("self_attn", "multihead_attn")[: self.blocks - 1]:
            attention = MultiheadAttention(d_model, nhead, dropout, batch_first=batch_first, **where)
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **where)
        self.norm_first = norm_first
        for k in range(self.blocks):
            self.add_module(f"norm{k + 1}", LayerNorm(d_model, layer_norm_eps, **where))
        for k in range(self.blocks):
            self.add_module(f"dropout{k + 1}", Dropout(dropout))
        self.activation = _get_activation_fn(activation) if isinstance(activation, str) else activation

    def _block(self, norm: Module, x: Any, compute: Callable[[Any], Any]) -> Any:
        """`x` and what a block computes from it; normalised before that or after."""
        return x + compute(norm(x)) if self.norm_first else norm(x + compute(x))

    # The blocks have PyTorch's names and arguments, as classes that derive from these put their own in their places.

    def _sa_block(self, x: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False) -> Any:
        return self.dropout1(_attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Any) -> Any:
        dropout = getattr(self, f"dropout{self.blocks}")
        return dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _attend(attention: Module, query: Any, to: Any, mask: Any, padding: Any, causal: bool) -> Any:
    return attention(
        query, to, to, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=causal
    )[0]


class TransformerEncoderLayer(_Layer):
    """Attention to oneself, then two linear maps with an activation between them; what each computes is added to its input and
    normalised (with `norm_first`, the input is normalised before). Inputs are [length, batch, d_model], with `batch_first`
    [batch, length, d_model]; the shape stays.

    >>> layer = nn.TransformerEncoderLayer(d_model=4, nhead=2, dim_feedforward=8, batch_first=True)
    >>> layer(torch.rand(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        padding = additive(src_key_padding_mask, "src_key_padding_mask", src.dtype, (src_mask, "src_mask"))
        src_mask = additive(src_mask, "src_mask", src.dtype)
        x = self._block(self.norm1, src, lambda x: self._sa_block(x, src_mask, padding, is_causal=is_causal))
        got: Tensor = self._block(self.norm2, x, self._ff_block)
        return got


class TransformerDecoderLayer(_Layer):
    """Attention to oneself, attention to `memory`, then two linear maps with an activation between them; what each computes is added
    to its input and normalised. The shape of the first input stays.

    >>> layer = nn.TransformerDecoderLayer(d_model=4, nhead=2, dim_feedforward=8, batch_first=True)
    >>> layer(torch.rand(2, 3, 4), torch.rand(2, 5, 4)).shape
    torch.Size([2, 3, 4])
    """

    blocks = 3

    def _mha_block(
        self, x: Any, mem: Any, attn_mask: Any, key_padding_mask: Any, is_causal: bool = False
    ) -> Any:
        return self.dropout2(_attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = tgt_mask, tgt_key_padding_mask, tgt_is_causal
        other = memory_mask, memory_key_padding_mask, memory_is_causal
        x = self._block(self.norm1, tgt, lambda x: self._sa_block(x, *own))
        x = self._block(self.norm2, x, lambda x: self._mha_block(x, memory, *other))
        got: Tensor = self._block(self.norm3, x, self._ff_block)
        return got


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after another, and `norm` at the end. The shape stays.

    >>> layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    >>> nn.TransformerEncoder(layer, num_layers=2)(torch.rand(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers, self.num_layers, self.norm = _get_clones(encoder_layer, num_layers), num_layers, norm
        self.enable_nested_tensor = self.use_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check
        reason = _not_nested(encoder_layer)
        if enable_nested_tensor and reason:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {reason}",
                stacklevel=2,
            )
            self.use_nested_tensor = False

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        padding = additive(src_key_padding_mask, "src_key_padding_mask", src.dtype, (mask, "mask"))
        mask = additive(mask, "mask", src.dtype)
        self.layers[0]  # there has to be one
        got = src
        hidden = None if mask is not None else self._hidden(src, padding)
        for layer in self.layers:
            got = layer(got, src_mask=mask, is_causal=bool(is_causal), src_key_padding_mask=padding)
        if hidden is not None:
            got = got.masked_fill(hidden.unsqueeze(-1), 0.0)
        return got if self.norm is None else self.norm(got)

    def _hidden(self, src: Tensor, padding: Any) -> Any:
        """The places that PyTorch's fast path leaves out, which are zeros in its result: where all that is hidden stands at the end, and
        nothing is asked but the result."""
        layer: Any = self.layers[0]
        if (
            padding is None
            or layer.training
            or src.ndim != 3
            or not getattr(self, "use_nested_tensor", False)
        ):
            return None
        if not attention.fast or state.active or compiling.thread == get_ident() or "cuda" in casting.on:
            return None
        if state.grad and any(t.requires_grad for t in (src, *layer.parameters())):
            return None
        hidden = padding != 0
        return None if bool((hidden[:, :-1] & ~hidden[:, 1:]).any()) else hidden


def _not_nested(layer: Any) -> str:
    """Why PyTorch would not take its fast path, in its words: the warning is the only trace of it here."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    own = "encoder_layer.self_attn"
    attention: Any = layer.self_attn
    plain = isinstance(layer.activation, (ReLU, GELU)) or any(
        layer.activation is function for function in (F.relu, F.gelu)
    )
    reasons = (
        (layer.norm_first, "encoder_layer.norm_first was True"),
        (
            not attention.batch_first,
            f"{own}.batch_first was not True(use batch_first for better inference performance)",
        ),
        (attention.in_proj_bias is None, f"{own} was passed bias=False"),
        (not plain, "encoder_layer.activation_relu_or_gelu was not True"),
        (attention.num_heads % 2 == 1, f"{own}.num_heads is odd"),
    )
    return next((text for holds, text in reasons if holds), "")


class TransformerDecoder(Module):
    """`num_layers` copies of a layer, one after another, which all attend to the same `memory`; and `norm` at the end. The shape of
    the first input stays.

    >>> layer = nn.TransformerDecoderLayer(4, 2, 8, batch_first=True)
    >>> nn.TransformerDecoder(layer, num_layers=2)(torch.rand(2, 3, 4), torch.rand(2, 5, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers, self.num_layers, self.norm = _get_clones(decoder_layer, num_layers), num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        got = tgt
        self.layers[0]  # there has to be one
        for layer in self.layers:
            got = layer(
                got,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return got if self.norm is None else self.norm(got)


class Transformer(Module):
    """An encoder of the source, and a decoder of the target that attends to what the encoder gives. The result has the target's
    shape: [length, batch, d_model], with `batch_first` [batch, length, d_model].

    >>> net = nn.Transformer(4, 2, 1, 1, 8, batch_first=True)
    >>> net(torch.rand(2, 5, 4), torch.rand(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        layer = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
        )
        where: dict[str, Any] = {"bias": bias, "device": device, "dtype": dtype}
        if custom_encoder is None:
            one = TransformerEncoderLayer(*layer, **where)
            custom_encoder = TransformerEncoder(
                one, num_encoder_layers, LayerNorm(d_model, layer_norm_eps, **where)
            )
        self.encoder = custom_encoder
        if custom_decoder is None:
            other = TransformerDecoderLayer(*layer, **where)
            custom_decoder = TransformerDecoder(
                other, num_decoder_layers, LayerNorm(d_model, layer_norm_eps, **where)
            )
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)

    @staticmethod
    def generate_square_subsequent_mask(
        sz: int, device: Device | None = None, dtype: dtype | None = None
    ) -> Tensor:
        """The mask by which no place sees those behind it: [sz, sz], -inf above the diagonal, 0 elsewhere.

        >>> nn.Transformer.generate_square_subsequent_mask(3)
        tensor([[0., -inf, -inf],
                [0., 0., -inf],
                [0., 0., 0.]])
        """
        return _generate_square_subsequent_mask(sz, device, dtype)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        batch = 0 if self.batch_first else 1
        if src.dim() == 3 and src.size(batch) != tgt.size(batch):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        got: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return got


__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]
