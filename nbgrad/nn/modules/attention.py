"""Attention with several heads as a module."""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional as F
from nbgrad.nn import init
from nbgrad.nn._made import empty
from nbgrad.nn.modules.linear import NonDynamicallyQuantizableLinear
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter


class MultiheadAttention(Module):
    """`softmax(Q @ K^T / sqrt(head_dim)) @ V` in `num_heads` heads, each of which attends in a part of the features of its own; Q, K
    and V are linear maps of query, key and value, and a last one joins the heads. Inputs are [length, batch, features], with
    `batch_first` [batch, length, features], or without a batch; the results are [query's length, batch, embed_dim] and the
    weights [batch, query's length, key's length], as a mean over heads.

    >>> attention = nn.MultiheadAttention(4, num_heads=2, batch_first=True)
    >>> got, weights = attention(torch.rand(1, 3, 4), torch.rand(1, 5, 4), torch.rand(1, 5, 4))
    >>> got.shape, weights.shape
    (torch.Size([1, 3, 4]), torch.Size([1, 3, 5]))
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads, self.dropout, self.batch_first = num_heads, dropout, batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")

        def made(there: bool, *shape: int) -> Any:
            return Parameter(empty(shape, device=device, dtype=dtype)) if there else None

        same = self._qkv_same_embed_dim
        shapes = {"in": 3 * embed_dim if same else 0, "q": embed_dim, "k": self.kdim, "v": self.vdim}
        for name in ("in", "q", "k", "v") if same else ("q", "k", "v", "in"):
            shape = (shapes[name], embed_dim) if name == "in" else (embed_dim, shapes[name])
            self.register_parameter(f"{name}_proj_weight", made((name == "in") is same, *shape))
        self.register_parameter("in_proj_bias", made(bias, 3 * embed_dim))
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k, self.bias_v = (made(add_bias_kv, 1, 1, embed_dim) for _ in range(2))
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for name in ("in", "q", "k", "v"):
            weight = getattr(self, f"{name}_proj_weight")
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        swapped = self.batch_first and query.dim() == 3 and not query.is_nested
        if swapped:
            query, key, value = (t.transpose(1, 0) for t in (query, key, value))
        attend: Any = F.multi_head_attention_forward
        if query.is_nested:  # part by part
            attend = query.attend  # type: ignore[attr-defined]
        got, weights = attend(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            training=self.training,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight,
            k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (got.transpose(1, 0) if swapped else got), weights


__all__ = ["MultiheadAttention"]
