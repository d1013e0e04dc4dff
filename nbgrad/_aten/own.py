"""What users have under `torch.ops.aten` alone, in terms of what they call by other names: steps of functions, and their gradients.

A function takes the arguments of the schema in order, and gives what PyTorch's kernels keep for their gradients, in its shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from sys import modules
from typing import Any

import nbgrad.nn.functional as F
from nbgrad.autograd import grad as _grad
from nbgrad.autograd.grad_mode import enable_grad, no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.func import vjp
from nbgrad.memory.dtypes import bool_, int64
from nbgrad.names.absent import refuse
from nbgrad.nn._norms import by_channel
from nbgrad.ops.windows import extremes
from nbgrad.tape.modes import state

FUNCTIONS: dict[str, Callable[..., Any]] = {}
_REDUCTIONS = ("none", "mean", "sum")


def _package() -> Any:
    return modules[__name__.partition(".")[0]]


def own(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__.removesuffix("_of_aten")] = function
    return function


def pulled(f: Callable[..., Any], grad: Any, *inputs: Any, mask: Sequence[bool] | None = None) -> Any:
    """The gradients of `f(*inputs)` by its inputs, None of those that `mask` leaves out; of one input its gradient."""
    graph = state.grad
    wanted = [k for k, x in enumerate(inputs) if x is not None and (mask is None or mask[k])]
    if state.levels and wanted:  # where nothing may ask for gradients but a transform
        given = list(inputs)

        def of_wanted(*taken: Any) -> Any:
            for k, x in zip(wanted, taken):
                given[k] = x
            return f(*given)

        found = vjp(of_wanted, *[inputs[k] for k in wanted])[1](grad)
        return _each(found, wanted, inputs)
    with enable_grad():
        taken = [
            x
            if k not in wanted
            else x.view_as(x)
            if graph and x.requires_grad
            else x.detach().requires_grad_()
            for k, x in enumerate(inputs)
        ]
        found = (
            _grad(f(*taken), [taken[k] for k in wanted], grad, create_graph=graph, materialize_grads=True)
            if wanted
            else ()
        )
    return _each(found, wanted, inputs)


def _each(found: Sequence[Any], wanted: Sequence[int], inputs: Sequence[Any]) -> Any:
    every: list[Any] = [None] * len(inputs)
    for k, g in zip(wanted, found):
        every[k] = g
    return every[0] if len(inputs) == 1 else tuple(every)


# ---------------------------------------------------------------- copies and views


@own
def _to_copy(
    self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, **more: Any
) -> Tensor:
    given = {"memory_format": more["memory_format"]} if more.get("memory_format") is not None else {}
    return self.to(device or self.device, dtype or self.dtype, copy=True, **given)


@own
def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return src.to(self.device, self.dtype, copy=True).expand_as(self).clone()


@own
def slice_of_aten(self: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    dim = dim % self.dim()
    return self[(*[slice(None)] * dim, slice(start, end, step))]


@own
def _reshape_alias(self: Tensor, size: Any, stride: Any) -> Tensor:
    return self.as_strided(size, stride)


FUNCTIONS |= {
    "_pin_memory": lambda self, device=None: self.pin_memory(device),
    "_sparse_addmm": lambda *_, **__: refuse("torch.sparse.addmm"),
    "_sparse_mm_reduce_impl": lambda *_, **__: refuse("torch.sparse.mm"),
    "alias": lambda self: self.view_as(self),
    "detach_copy": lambda self: self.detach().clone(),
    "lift": lambda self: self,
    "lift_fresh": lambda self: self,
    "lift_fresh_copy": lambda self: self.clone(),
    "_unsafe_view": lambda self, size: self.reshape(size),
    "_local_scalar_dense": lambda self: self.item(),
    "sym_size": lambda self, *dim: self.size(*dim),
    "sym_stride": lambda self, *dim: self.stride(*dim),
    "sym_numel": lambda self: self.numel(),
    "sym_storage_offset": lambda self: self.storage_offset(),
    "fill": lambda self, value: self.clone().fill_(value),
    "zero": lambda self: self.new_zeros(self.shape),
    "index": lambda self, indices: self[_places(indices)],
    "_unsafe_index": lambda self, indices: self[_places(indices)],
    "uniform": lambda self, *a, **k: self.clone().uniform_(*a, **k),
    "normal_functional": lambda self, *a, **k: self.clone().normal_(*a, **k),
    "exponential": lambda self, *a, **k: self.clone().exponential_(*a, **k),
    "geometric": lambda self, *a, **k: self.clone().geometric_(*a, **k),
    "log_normal": lambda self, *a, **k: self.clone().log_normal_(*a, **k),
    "cauchy": lambda self, *a, **k: self.clone().cauchy_(*a, **k),
}


@own
def index_put_(self: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    at = _places(indices)
    if not accumulate:
        self[at] = values
        return self
    if None not in indices:
        return self.index_put_(at, values, True)
    places = _package().arange(self.numel()).reshape(self.shape)[at]
    return self.put_(places, values.expand(places.shape), True)


@own
def unique_consecutive(
    self: Tensor, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> Any:
    found, *rest = _package().unique_consecutive(self, True, True, dim)
    none = self.new_empty(0, dtype=int64)
    return found, *[r if asked else none for r, asked in zip(rest, (inverse, counts))]


@own
def elu(self: Tensor, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Tensor:
    if (scale, input_scale) == (1, 1):
        return F.elu(self, alpha)
    return scale * F.elu(self * input_scale, alpha).where(self <= 0, self)


FUNCTIONS |= {
    "index_put": lambda self, *rest: index_put_(self.clone(), *rest),
    "block_diag": lambda tensors: _package().block_diag(*tensors),
}


def _places(indices: Sequence[Any]) -> Any:
    return tuple([slice(None) if i is None else i for i in indices])


def _over(shape: Any, grad: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """Zeros of a shape, in the part of which a gradient stands."""
    return pulled(part, grad, grad.new_zeros(tuple(shape)))


FUNCTIONS |= {
    "slice_backward": lambda g, sizes, dim, start, end, step: _over(
        sizes, g, lambda x: slice_of_aten(x, dim, start, end, step)
    ),
    "select_backward": lambda g, sizes, dim, index: _over(sizes, g, lambda x: x.select(dim, index)),
    "index_select_backward": lambda g, sizes, dim, index: _over(
        sizes, g, lambda x: x.index_select(dim, index)
    ),
    "diagonal_backward": lambda g, sizes, offset, dim1, dim2: _over(
        sizes, g, lambda x: x.diagonal(offset, dim1, dim2)
    ),
    "unfold_backward": lambda g, sizes, dim, size, step: _over(sizes, g, lambda x: x.unfold(dim, size, step)),
    "trace_backward": lambda g, sizes: _over(sizes, g, lambda x: x.trace()),
    "value_selecting_reduction_backward": lambda g, dim, indices, sizes, keepdim: _over(
        sizes,
        g if keepdim or not sizes else g.unsqueeze(dim),
        lambda x: x.gather(dim, indices if keepdim else indices.unsqueeze(dim)) if sizes else x.clone(),
    ),
    "col2im": lambda self, size, kernel, dilation, padding, stride: F.fold(
        self, size, kernel, dilation, padding, stride
    ),
    "im2col": lambda self, kernel, dilation, padding, stride: F.unfold(
        self, kernel, dilation, padding, stride
    ),
}
for _mode, _word in (("reflection", "reflect"), ("replication", "replicate")):
    for _dims in (1, 2, 3):
        _pad = partial(F.pad, mode=_word)
        FUNCTIONS[f"{_mode}_pad{_dims}d"] = _pad
        FUNCTIONS[f"{_mode}_pad{_dims}d_backward"] = lambda g, self, padding, _pad=_pad: pulled(
            lambda x: _pad(x, padding), g, self
        )

# ---------------------------------------------------------------- activations

FUNCTIONS |= {
    "tanh_backward": lambda g, output: g * (1 - output * output),
    "sigmoid_backward": lambda g, output: g * (1 - output) * output,
    "threshold_backward": lambda g, self, threshold: g.masked_fill(self <= threshold, 0),
    "gelu_backward": lambda g, self, *, approximate="none": pulled(
        lambda x: F.gelu(x, approximate=approximate), g, self
    ),
    "silu_backward": lambda g, self: pulled(F.silu, g, self),
    "mish_backward": lambda g, self: pulled(F.mish, g, self),
    "hardswish_backward": lambda g, self: pulled(F.hardswish, g, self),
    "hardsigmoid_backward": lambda g, self: pulled(F.hardsigmoid, g, self),
    "hardtanh_backward": lambda g, self, low, high: g.masked_fill((self <= low) | (self >= high), 0),
    "hardshrink_backward": lambda g, self, lambd: pulled(lambda x: F.hardshrink(x, lambd), g, self),
    "softshrink_backward": lambda g, self, lambd: pulled(lambda x: F.softshrink(x, lambd), g, self),
    "softplus_backward": lambda g, self, beta, threshold: pulled(
        lambda x: F.softplus(x, beta, threshold), g, self
    ),
    "glu_backward": lambda g, self, dim: pulled(lambda x: F.glu(x, dim), g, self),
    "logit_backward": lambda g, self, eps=None: pulled(lambda x: x.logit(eps), g, self),
    "log_sigmoid": F.logsigmoid,
    "log_sigmoid_forward": lambda self: (F.logsigmoid(self), (-self.detach().abs()).exp()),
    "log_sigmoid_backward": lambda g, self, buffer: pulled(F.logsigmoid, g, self),
    "leaky_relu_backward": lambda g, self, slope, self_is_result: g * (self > 0) + g * slope * (self <= 0),
    "_prelu_kernel": lambda self, weight: self.where(self > 0, weight * self),
    "gelu_": lambda self, *, approximate="none": self.copy_(F.gelu(self, approximate=approximate)),
}
for _name in ("silu", "mish", "hardswish", "hardsigmoid", "relu6"):
    FUNCTIONS[f"{_name}_"] = lambda self, _name=_name: self.copy_(getattr(F, _name)(self))


@own
def elu_backward(
    g: Tensor, alpha: Any, scale: Any, input_scale: Any, is_result: bool, given: Tensor
) -> Tensor:
    if is_result:
        return g * (input_scale * (given + alpha * scale)).where(given <= 0, given.new_full((), scale))
    steep = (given * input_scale).exp() * (input_scale * alpha * scale)
    return g * steep.where(given <= 0, given.new_full((), scale))


@own
def native_dropout_backward(grad: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad * mask * scale


# ---------------------------------------------------------------- rows


@own
def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return self.softmax(dim)


@own
def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return self.log_softmax(dim)


@own
def _softmax_backward_data(g: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    product = g * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


@own
def _log_softmax_backward_data(g: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    return (g - output.exp() * g.sum(dim, keepdim=True)).to(input_dtype)


def _by_rows(g: Tensor, unit: Tensor, rstd: Tensor, dims: Any) -> Tensor:
    """The gradient of what was brought to mean 0 and variance 1 along these dimensions; `g` is that of the result, `unit`."""
    return rstd * (g - g.mean(dims, keepdim=True) - unit * (g * unit).mean(dims, keepdim=True))


@own
def native_layer_norm_backward(
    g: Tensor, input: Tensor, shape: Any, mean: Tensor, rstd: Tensor, weight: Any, bias: Any, mask: Any
) -> Any:
    dims, others = tuple(range(-len(shape), 0)), tuple(range(input.dim() - len(shape)))
    unit = (input - mean) * rstd
    by_input = _by_rows(g if weight is None else g * weight, unit, rstd, dims) if mask[0] else None
    by_weight, by_bias = (t.sum(others) if others else t for t in (g * unit, g))
    return by_input, by_weight if mask[1] else None, by_bias if mask[2] else None


def _grouped(x: Tensor, n: int, c: int, hxw: int, group: int, eps: float, w: Any, b: Any) -> Tensor:
    return F.group_norm(x.reshape(n, c, hxw), group, w, b, eps).reshape(x.shape)


@own
def native_group_norm(
    input: Tensor, weight: Any, bias: Any, n: int, c: int, hxw: int, group: int, eps: float
) -> Any:
    """What `F.group_norm` gives of `n` examples with `c` channels of `hxw` places, the mean of each group, and 1 over the root of its
    variance plus `eps`.

    >>> torch.native_group_norm(torch.tensor([[1.0, 3.0]]), None, None, 1, 2, 1, 1, 0.0)
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    rows = input.detach().reshape(n, group, -1)
    variance, mean = rows.var(2, correction=0), rows.mean(2)
    return _grouped(input, n, c, hxw, group, eps, weight, bias), mean, (variance + eps).rsqrt()


@own
def native_group_norm_backward(
    g: Tensor,
    input: Tensor,
    mean: Tensor,
    rstd: Tensor,
    weight: Any,
    n: int,
    c: int,
    hxw: int,
    group: int,
    mask: Any,
) -> Any:
    rows, steep = (n, group, -1), rstd.reshape(n, group, 1)
    unit = (input.reshape(rows) - mean.reshape(n, group, 1)) * steep
    by_result = g.reshape(n, c, hxw)
    scaled = (by_result if weight is None else by_result * weight.reshape(c, 1)).reshape(rows)
    by_input = _by_rows(scaled, unit, steep, 2).reshape(input.shape) if mask[0] else None
    by_weight = (by_result * unit.reshape(n, c, hxw)).sum((0, 2)) if mask[1] else None
    return by_input, by_weight, by_result.sum((0, 2)) if mask[2] else None


@own
def native_batch_norm(
    input: Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> Any:
    """What `F.batch_norm` gives, the mean of each channel, and 1 over the root of its variance plus `eps`; of these nothing unless in
    `training`.

    >>> y, mean, invstd = torch.native_batch_norm(torch.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0)
    >>> y.flatten(), mean, invstd
    (tensor([-1.,  1.]), tensor([2.]), tensor([1.]))
    """
    y = by_channel(input, mean, var, weight, bias, training, momentum, eps)
    if not training:
        return y, input.new_empty(0), input.new_empty(0)
    dims = [d for d in range(input.dim()) if d != 1]
    own = input.detach()
    return y, own.mean(dims), (own.var(dims, correction=0) + eps).rsqrt()


@own
def _native_batch_norm_legit(input: Tensor, weight: Any, bias: Any, *rest: Any) -> Any:
    return native_batch_norm(input, weight, bias, *([None, None] if len(rest) == 3 else []), *rest)


@own
def _native_batch_norm_legit_no_training(
    input: Tensor, weight: Any, bias: Any, mean: Any, var: Any, momentum: float, eps: float
) -> Any:
    return native_batch_norm(input, weight, bias, mean, var, False, momentum, eps)


@own
def batch_norm(
    input: Tensor,
    weight: Any,
    bias: Any,
    mean: Any,
    var: Any,
    training: bool,
    momentum: float,
    eps: float,
    _: bool,
) -> Tensor:
    return by_channel(input, mean, var, weight, bias, training, momentum, eps)


@own
def native_batch_norm_backward(
    g: Tensor,
    input: Tensor,
    weight: Any,
    mean: Any,
    var: Any,
    kept_mean: Any,
    kept: Any,
    train: bool,
    eps: float,
    mask: Any,
) -> Any:
    shape = (-1, *[1] * (input.dim() - 2))
    dims = [d for d in range(input.dim()) if d != 1]
    steep = (kept if train else (var + eps).rsqrt()).reshape(shape)
    unit = (input - (kept_mean if train else mean).reshape(shape)) * steep
    scaled = g if weight is None else g * weight.reshape(shape)
    by_input = None
    if mask[0]:
        by_input = _by_rows(scaled, unit, steep, dims) if train else scaled * steep
    return by_input, (g * unit).sum(dims) if mask[1] else None, g.sum(dims) if mask[2] else None


@own
def embedding(weight: Tensor, indices: Tensor, padding_idx: int = -1, *rest: bool) -> Tensor:
    return F.embedding(indices, weight, None if padding_idx < 0 else padding_idx)


@own
def embedding_dense_backward(
    g: Tensor, indices: Tensor, rows: int, padding_idx: int, by_freq: bool
) -> Tensor:
    idx = None if padding_idx < 0 else padding_idx
    weight = g.new_zeros(rows, g.shape[-1])
    return pulled(lambda w: F.embedding(indices, w, idx, scale_grad_by_freq=by_freq), g, weight)


# ---------------------------------------------------------------- losses


def _loss(name: str, *settings: str) -> Callable[..., Any]:
    """A loss whose `reduction` is a number; `settings` name what stands beside it, in the schema's order."""
    function = getattr(F, name)

    def loss(self: Tensor, target: Tensor, *rest: Any, **named: Any) -> Any:
        given = dict(zip(settings, rest)) | named
        given["reduction"] = _REDUCTIONS[given.get("reduction", 1)]
        return function(self, target, **given)

    return loss


_LOSSES = {
    "mse_loss": ("reduction",),
    "l1_loss": ("reduction",),
    "soft_margin_loss": ("reduction",),
    "smooth_l1_loss": ("reduction", "beta"),
    "huber_loss": ("reduction", "delta"),
    "binary_cross_entropy": ("weight", "reduction"),
    "multilabel_margin_loss": ("reduction",),
    "multi_margin_loss": ("p", "margin", "weight", "reduction"),
}
for _name, _settings in _LOSSES.items():
    FUNCTIONS[_name] = _f = _loss(_name, *_settings)
    FUNCTIONS[f"{_name}_backward"] = lambda g, self, target, *rest, _f=_f: pulled(
        lambda x: _f(x, target, *rest), g, self
    )
FUNCTIONS["cross_entropy_loss"] = _loss(
    "cross_entropy", "weight", "reduction", "ignore_index", "label_smoothing"
)
_nll = _loss("nll_loss", "weight", "reduction", "ignore_index")
FUNCTIONS |= {"nll_loss": _nll, "nll_loss2d": _nll, "nll_loss_nd": _nll}


def _mean(name: str) -> Callable[..., Any]:
    """A loss of which `torch` gives each element where no reduction is named, and its operator the mean."""
    function = getattr(_package(), name)
    bind = signature(function).bind
    return lambda *args, **named: function(**({"reduction": 1} | bind(*args, **named).arguments))


for _name in (
    *("binary_cross_entropy_with_logits", "cosine_embedding_loss", "hinge_embedding_loss"),
    *("ctc_loss", "kl_div", "margin_ranking_loss", "triplet_margin_loss"),
):
    FUNCTIONS[_name] = _mean(_name)


@own
def nll_loss_forward(self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int) -> Any:
    counted = target != ignore_index
    if reduction == 0 and self.dim() > 1:
        total = self.new_zeros(())
    elif weight is None:
        total = counted.sum().to(self.dtype)
    else:
        total = weight[target.where(counted, target.new_zeros(()))].masked_fill(~counted, 0).sum()
    return _nll(self, target, weight, reduction, ignore_index), total


@own
def nll_loss_backward(
    g: Tensor, self: Tensor, target: Tensor, weight: Any, reduction: int, ignore_index: int, total: Any
) -> Tensor:
    return pulled(lambda x: _nll(x, target, weight, reduction, ignore_index), g, self)


FUNCTIONS |= {"nll_loss2d_forward": nll_loss_forward, "nll_loss2d_backward": nll_loss_backward}

# ---------------------------------------------------------------- windows


@own
def convolution_backward(
    g: Tensor,
    input: Tensor,
    weight: Tensor,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    mask: Any,
) -> Any:
    convolution = _package().convolution
    settings = stride, padding, dilation, transposed, output_padding, groups
    by_input, by_weight = pulled(lambda x, w: convolution(x, w, None, *settings), g, input, weight, mask=mask)
    dims = [d for d in range(g.dim()) if d != 1]
    return by_input, by_weight, g.sum(dims) if mask[2] else None


def _pooling(name: str) -> None:
    function = getattr(F, name)
    FUNCTIONS[f"{name}_backward"] = lambda g, self, *settings: pulled(
        lambda x: function(x, *settings), g, self
    )


for _name in ("avg_pool2d", "avg_pool3d"):
    _pooling(_name)
for _dims in (2, 3):
    _pool = getattr(F, f"adaptive_avg_pool{_dims}d")
    FUNCTIONS[f"_adaptive_avg_pool{_dims}d"] = _pool
    FUNCTIONS[f"_adaptive_avg_pool{_dims}d_backward"] = lambda g, self, _pool=_pool, _n=_dims: pulled(
        lambda x: _pool(x, g.shape[-_n:]), g, self
    )
    FUNCTIONS[f"max_pool{_dims}d_with_indices_backward"] = (
        lambda g, self, kernel, stride, padding, dilation, ceil, indices, _n=_dims: _over(
            self.shape, g.flatten(-_n), lambda x: x.flatten(-_n).gather(-1, indices.flatten(-_n))
        )
    )
    FUNCTIONS[f"max_pool{_dims}d_with_indices"] = getattr(F, f"max_pool{_dims}d_with_indices")
    FUNCTIONS[f"adaptive_max_pool{_dims}d"] = getattr(F, f"adaptive_max_pool{_dims}d_with_indices")


for _dims in (2, 3):
    FUNCTIONS[f"fractional_max_pool{_dims}d"] = lambda self, kernel, size, samples, _dims=_dims: getattr(
        F, f"fractional_max_pool{_dims}d_with_indices"
    )(self, kernel, size, _random_samples=samples)
    FUNCTIONS[f"max_unpool{_dims}d"] = lambda self, indices, size, *steps, _dims=_dims: extremes.max_unpool[
        _dims
    ](self, indices, size=tuple(size))


def _resampling(name: str, mode: str, dims: int, aligned: bool) -> None:
    def forward(self: Tensor, size: Any, *rest: Any) -> Tensor:
        align, scales = (rest[0], rest[1:]) if aligned else (None, rest)
        if any([s is not None for s in scales]):
            return F.interpolate(self, scale_factor=tuple(scales), mode=mode, align_corners=align)
        return F.interpolate(self, size=tuple(size), mode=mode, align_corners=align)

    FUNCTIONS[name] = forward
    FUNCTIONS[f"{name}_backward"] = lambda g, size, input_size, *rest: pulled(
        lambda x: forward(x, size, *rest), g, g.new_zeros(tuple(input_size))
    )


for _name, _mode, _dims, _aligned in (
    ("upsample_nearest1d", "nearest", 1, False),
    ("upsample_nearest2d", "nearest", 2, False),
    ("upsample_nearest3d", "nearest", 3, False),
    ("upsample_linear1d", "linear", 1, True),
    ("upsample_bilinear2d", "bilinear", 2, True),
    ("upsample_bicubic2d", "bicubic", 2, True),
    ("upsample_trilinear3d", "trilinear", 3, True),
):
    _resampling(_name, _mode, _dims, _aligned)

# ---------------------------------------------------------------- attention


@own
def _scaled_dot_product_flash_attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Any = None,
    scale: Any = None,
) -> Any:
    y = F.scaled_dot_product_attention(query, key, value, attn_mask, p, is_causal, scale=scale)
    with no_grad():
        factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
        scores = (query @ key.transpose(-1, -2)) * factor
        if is_causal:
            ones = scores.new_ones(scores.shape[-2:], dtype=bool_).tril()
            scores = scores.masked_fill(~ones, -math.inf)
        if attn_mask is not None:
            scores = (
                scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype is bool_ else scores + attn_mask
            )
        return y, scores.logsumexp(-1)


@own
def _scaled_dot_product_flash_attention_for_cpu_backward(
    g: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Any,
    lse: Any,
    p: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: Any = None,
) -> Any:
    return pulled(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask, p, is_causal, scale=scale),
        g,
        query,
        key,
        value,
    )


@own
def linear_backward(self: Tensor, g: Tensor, weight: Tensor, mask: Any) -> Any:
    bias = weight.new_zeros(weight.shape[0])
    return pulled(lambda x, w, b: F.linear(x, w, b), g, self, weight, bias, mask=mask)
