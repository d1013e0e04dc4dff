"""Attention: values averaged by how well their keys fit a query."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.layout import wrap_dim
from nbgrad.nn._dropouts import dropout
from nbgrad.nn.attention import enabled
from nbgrad.ops.linear.matmul import linear, matmul
from nbgrad.ops.make.filled import ones
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.rows.softmax import softmax
from nbgrad.ops.sequence import attention
from nbgrad.ops.views.join import cat


def _both(query: Tensor, key: Tensor, value: Tensor, mask: Tensor, dropout_p: float) -> Tensor:
    """A mask that is causal, too: PyTorch's kernel for the CPU takes both, its formula, for what that kernel does not take, refuses."""
    shapes = {(tuple(t.shape)[:2], t.shape[-1]) for t in (query, key, value)}
    taken = query.ndim == 4 and len(shapes) == 1 and query.is_cpu and enabled["flash"]
    if not taken or dropout_p or mask.requires_grad:
        raise RuntimeError(
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
        )
    seen = ones(query.shape[-2], key.shape[-2], dtype=dtypes.bool).tril()
    return mask.logical_and(seen) if mask.dtype is dtypes.bool else where(seen, mask, -math.inf)


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """`softmax(query @ key^T * scale + mask) @ value`: [..., L, E], [..., S, E] and [..., S, V] give [..., L, V]; `scale` is `1 /
    sqrt(E)` if not given. A boolean mask is True where a key may be seen, any other is added; `is_causal` lets the query at place
    i see the keys up to i. `dropout_p` is for the softmax, whether or not somebody trains; `enable_gqa` lets several heads of
    queries (dimension -3) share one of keys.

    >>> q, v = torch.zeros(2, 4), torch.tensor([[1.0], [3.0]])
    >>> F.scaled_dot_product_attention(q, q, v, is_causal=True)
    tensor([[1.],
            [2.]])
    """
    if not query.dtype is key.dtype is value.dtype:
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype.c_name} key.dtype: {key.dtype.c_name} and value.dtype: {value.dtype.c_name} instead."
        )
    if not query.device.type == key.device.type == value.device.type:
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{query.device} key.device: {key.device} and value.device: {value.device} instead."
        )
    if any(t.ndim < 2 for t in (query, key, value)):
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead."
        )
    if attn_mask is not None and attn_mask.dtype not in (dtypes.bool, dtypes.float32, query.dtype):
        raise RuntimeError(
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
            f"{attn_mask.dtype.c_name} and  query.dtype: {query.dtype.c_name} instead."
        )
    if attn_mask is not None and attn_mask.dtype is dtypes.bool:
        dtypes.fitting(-math.inf, query.dtype)  # as which PyTorch adds it
    if value.numel() == 0 or 0 in query.shape[:-1]:  # which PyTorch does not look at closer
        nothing: Tensor = query.new_zeros(*query.shape[:-1], value.shape[-1])
        return nothing + (query.sum() + key.sum() + value.sum()) * 0
    if enable_gqa and any(t.ndim < 3 for t in (query, key, value)):
        wrap_dim(-3, 2)  # there are no heads
    if enable_gqa and any(t.shape[-3] == 0 or query.shape[-3] % t.shape[-3] for t in (key, value)):
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    if is_causal and attn_mask is not None:
        attn_mask, is_causal = _both(query, key, value, attn_mask, dropout_p), False
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else math.inf
    if dropout_p > 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    dropping = dropout_p > 0  # what PyTorch asks: less than nothing is nothing
    if not dropping:
        fused = attention.fused(query, key, value, attn_mask, scale, is_causal, enable_gqa)
        if fused is not None:
            return fused
    # What a dropout takes out is drawn for all weights at once.
    dtype = query.dtype
    if dtype.narrow:
        query, key, value = (t.to(dtypes.float32) for t in (query, key, value))
    if enable_gqa:
        key, value = attention.shared(query, (key, value))
    weights = attention.weights(query, key, attn_mask, scale, is_causal)
    return matmul(dropout(weights, dropout_p) if dropping else weights, value).to(dtype)


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """What `nn.MultiheadAttention` computes, all weights being given. Queries [length, batch, features], or without a batch:
    projected, split into heads that attend each on its own, joined and projected again. The second result are the weights of
    attention, where `need_weights` asks for them, as a mean over heads by default.

    >>> x, w = torch.ones(3, 1, 2), torch.eye(2)
    >>> got, weights = F.multi_head_attention_forward(
    ...     x, x, x, 2, 1, w.repeat(3, 1), None, None, None, False, 0.0, w, None
    ... )
    >>> got.shape, weights[0, 0]
    (torch.Size([3, 1, 2]), tensor([0.3333, 0.3333, 0.3333]))
    """
    _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    batched = query.ndim == 3
    if not batched:
        query, key, value = (t.unsqueeze(1) for t in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    length, batch, features = query.shape
    key_padding_mask = additive(key_padding_mask, "key_padding_mask", query.dtype, (attn_mask, "attn_mask"))
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    # The hint is taken at its word.
    is_causal = is_causal and key_padding_mask is None and not need_weights
    attn_mask = None if is_causal else additive(attn_mask, "attn_mask", query.dtype)
    if features != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {features}")
    size = features // num_heads
    if size * num_heads != features:
        raise AssertionError(f"embed_dim {features} not divisible by num_heads {num_heads}")
    if use_separate_proj_weight:
        if key.shape[:2] != value.shape[:2]:
            raise AssertionError(
                f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
            )
        matrices = (q_proj_weight, k_proj_weight, v_proj_weight)
        for name, t, w in zip(("query", "key", "value"), (query, key, value), matrices):
            if w.shape != (features, t.shape[-1]):
                raise AssertionError(
                    f"expecting {name} weights shape of {(features, t.shape[-1])}, but got {w.shape}"
                )
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        matrices = in_proj_weight.chunk(3)
    biases = (None,) * 3 if in_proj_bias is None else in_proj_bias.chunk(3)
    q, k, v = (linear(t, w, b) for t, w, b in zip((query, key, value), matrices, biases))
    if attn_mask is not None:
        ndim, fits = attn_mask.ndim, (batch * num_heads, length, key.shape[0])
        if attn_mask.shape != fits[3 - ndim :]:
            raise RuntimeError(
                f"The shape of the {ndim}D attn_mask is {attn_mask.shape}, but should be {fits[3 - ndim :]}."
            )
    masks: Any = attn_mask, key_padding_mask
    if bias_k is not None:
        for name, static in (("key", static_k), ("value", static_v)):
            if static is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k, v = (_appended(t, b.repeat(1, batch, 1)) for t, b in ((k, bias_k), (v, bias_v)))
        masks = map(_open, masks)
    q, k, v = (t.reshape(t.shape[0], batch * num_heads, size).transpose(0, 1) for t in (q, k, v))
    k = k if static_k is None else _checked_static("k", static_k, batch * num_heads, size)
    v = v if static_v is None else _checked_static("v", static_v, batch * num_heads, size)
    if add_zero_attn:
        k, v = (
            _appended(t.transpose(0, 1), t.new_zeros(1, t.shape[0], size)).transpose(0, 1) for t in (k, v)
        )
        masks = map(_open, masks)
    attn_mask, key_padding_mask = masks
    if key_padding_mask is not None:
        for d, n in enumerate((batch, k.shape[1])):
            if key_padding_mask.shape[d] != n:
                raise AssertionError(
                    f"Expected key_padded_mask.shape[{d}] to be {n}, but got {key_padding_mask.shape[d]}"
                )
    mask = _joined_mask(batch, num_heads, attn_mask, key_padding_mask)
    q, k, v = (t.reshape(batch, num_heads, t.shape[1], size) for t in (q, k, v))
    dropout_p = dropout_p if training else 0.0
    heads: Any
    if not need_weights:
        heads = scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal)
    else:
        scores: Any = matmul(q * (1 / math.sqrt(size)), k.transpose(-2, -1))
        weights: Any = softmax(scores if mask is None else scores + mask, -1)
        weights = dropout(weights, dropout_p) if dropout_p > 0 else weights
        heads = matmul(weights, v)
    got: Any = linear(
        heads.permute(2, 0, 1, 3).reshape(length, batch, features), out_proj_weight, out_proj_bias
    )
    if not batched:
        got = got.squeeze(1)
    if not need_weights:
        return got, None
    shown = weights.mean(1) if average_attn_weights else weights
    return got, shown if batched else shown.squeeze(0)


def _check_shapes(query: Any, key: Any, value: Any, padding: Any, mask: Any, heads: int) -> None:
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    which = "For batched (3-D) `query`, expected" if batched else "For unbatched (2-D) `query`, expected"
    if not query.dim() == key.dim() == value.dim():
        raise AssertionError(
            f"{which} `key` and `value` to be {query.dim()}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if padding is not None and padding.dim() != query.dim() - 1:
        raise AssertionError(
            f"{which} `key_padding_mask` to be `None` or {query.dim() - 1}-D but found {padding.dim()}-D tensor instead"
        )
    if mask is not None and mask.dim() not in (2, 3):
        raise AssertionError(
            f"{which} `attn_mask` to be `None`, 2-D or 3-D but found {mask.dim()}-D tensor instead"
        )
    if mask is not None and mask.dim() == 3 and not batched:
        expected = (heads, query.shape[0], key.shape[0])
        if mask.shape != expected:
            raise AssertionError(f"Expected `attn_mask` shape to be {expected} but got {mask.shape}")


def additive(mask: Any, name: str, dtype: Any, other: tuple[Any, str] = (None, "")) -> Any:
    """A mask as what is added to scores; a boolean one says which keys are not seen. PyTorch wants it to be of one kind with `other`."""
    if mask is None:
        return None
    if not (mask.dtype is dtypes.bool or mask.is_floating_point()):
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other[0] is not None and other[0].dtype is not mask.dtype:
        warn(f"Support for mismatched {name} and {other[1]} is deprecated. Use same type for both instead.")
    return where(mask, -math.inf, 0.0).to(dtype) if mask.dtype is dtypes.bool else mask


def _joined_mask(batch: int, heads: int, mask: Any, padding: Any) -> Any:
    """Both masks as one that fits scores of [batch, heads, queries, keys]."""
    if mask is not None and mask.ndim == 3:
        mask = mask.reshape(batch, heads, *mask.shape[-2:])
    if padding is None:
        return mask
    padding = padding[:, None, None, :]
    return padding if mask is None else mask + padding


def _open(mask: Any) -> Any:
    """The mask with one more key, which all see."""
    return None if mask is None else cat([mask, mask.new_zeros(*mask.shape[:-1], 1)], -1)


def _checked_static(name: str, t: Any, rows: int, size: int) -> Any:
    for d, n in ((0, rows), (2, size)):
        if t.shape[d] != n:
            raise AssertionError(f"expecting static_{name}.size({d}) of {n}, but got {t.shape[d]}")
    return t


def _appended(t: Any, more: Any) -> Any:
    return cat([t, more.expand(1, *t.shape[1:])])


# ---------------------------------------------------------------- PyTorch's own parts of it, which libraries call


def _none_or_dtype(input: Any) -> Any:
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Any, mask_name: str, other_type: Any, other_name: str, target_type: Any, check_other: bool = True
) -> Any:
    """A mask as what is added to scores."""
    if check_other and mask is not None and other_type is not None and mask.dtype is not other_type:
        warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead."
        )
    return additive(mask, mask_name, target_type)


def _in_projection_packed(q: Any, k: Any, v: Any, w: Any, b: Any = None) -> Any:
    """Query, key and value by the three linear maps that `w` and `b` hold one after the other."""
    biases = (None,) * 3 if b is None else b.chunk(3)
    return tuple([linear(x, own, bias) for x, own, bias in zip((q, k, v), w.chunk(3), biases)])


def _in_projection(
    q: Any, k: Any, v: Any, w_q: Any, w_k: Any, w_v: Any, b_q: Any = None, b_k: Any = None, b_v: Any = None
) -> Any:
    """The same by linear maps of their own."""
    wide = q.size(-1)
    given = (("query", q, w_q, b_q), ("key", k, w_k, b_k), ("value", v, w_v, b_v))
    for word, x, w, _ in given:
        if w.shape != (wide, x.size(-1)):
            raise AssertionError(f"expecting {word} weights shape of {(wide, x.size(-1))}, but got {w.shape}")
    for word, _, _, b in given:
        if b is not None and b.shape != (wide,):
            raise AssertionError(f"expecting {word} bias shape of {(wide,)}, but got {b.shape}")
    return tuple([linear(x, w, b) for _, x, w, b in given])


__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]
