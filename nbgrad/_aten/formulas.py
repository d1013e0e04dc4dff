"""Gradients of PyTorch's operators in terms of its operators, as its engine runs them below functions.

A formula is given what is known of the call (`c.self`, `c.other`, `c.result`, by the schema's names) and the gradient, and gives those of
the arguments that `c.wants`. Of elementwise operators without one, the gradient's expression is told as the operators that it is made of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad._aten.operators import aten as A
from nbgrad._aten.operators import function_of
from nbgrad._aten.own import pulled
from nbgrad._ops import OpOverload, tensors_in
from nbgrad.base.tables import cached
from nbgrad.core import overrides
from nbgrad.core.op import PUBLIC, ElementwiseOp
from nbgrad.core.tensor import Tensor, storage_of
from nbgrad.expr import diff
from nbgrad.expr.node import Expr
from nbgrad.history.rules import ElementwiseRule, OpRule
from nbgrad.memory import layout as _layout
from nbgrad.names.absent import NotBuiltError
from nbgrad.ops.host.attributes import strided

Formula = Callable[["Context", Any], dict[str, Any]]
# How many of their results have a gradient, of those that give more.
COUNTED = dict.fromkeys(
    ("native_layer_norm", "native_group_norm", "native_batch_norm", "nll_loss_forward"), 1
)
COUNTED |= dict.fromkeys(("nll_loss2d_forward", "_scaled_dot_product_flash_attention_for_cpu"), 1)
# Of their results nobody asks a gradient.
CONSTANT = frozenset(
    ("detach", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "bernoulli")
)


class Context:
    """What a formula may ask of a call: its arguments by name, its results, whose gradients are wanted."""

    overload = ""

    def __init__(
        self, values: dict[str, Any], results: Sequence[Any], wanted: set[str], versions: dict[int, int]
    ) -> None:
        self.values, self.results, self.wanted, self.versions = values, results, wanted, versions

    def checked(self, value: Any) -> Any:
        """What is read must not have been written to since."""
        for t in tensors_in([value]):
            now = storage_of(t).version
            if now != self.versions[id(t)]:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: "
                    f"[{t.dtype.c_name} {list(t.shape)}] is at version {now}; expected version {self.versions[id(t)]} instead. Hint: "
                    "enable anomaly detection to find the operation that failed to compute its gradient, with "
                    "torch.autograd.set_detect_anomaly(True)."
                )
        return value

    def wants(self, name: str) -> bool:
        return name in self.wanted

    def shape(self, name: str) -> list[int]:
        value = self.values[name]
        return list(value.shape) if isinstance(value, Tensor) else []

    def dtype(self, name: str) -> Any:
        return self.values[name].dtype

    @property
    def result(self) -> Any:
        return self.output(0)

    def output(self, k: int) -> Any:
        return self.checked(self.results[k])

    def __getattr__(self, name: str) -> Any:
        try:
            return self.checked(self.values[name])
        except KeyError:
            raise AttributeError(name) from None


class _OfNode(Context):
    """The same of a node that the library recorded: what it saved, and how its operands lay."""

    def __init__(self, node: Any, wanted: set[str], specs: dict[str, Any]) -> None:
        self.node, self.wanted, self.specs = node, wanted, specs

    def shape(self, name: str) -> list[int]:
        spec = self.specs[name]
        return list(spec.shape) if hasattr(spec, "shape") else []

    def dtype(self, name: str) -> Any:
        return self.specs[name].dtype

    @property
    def result(self) -> Any:
        return self.output(0)

    def output(self, k: int) -> Any:
        names = self.node.rule.names(self.node)
        for name in ("result", "output") if not k else (f"result{k}",):
            if name in names or f"result{k}" in names:
                return self.node.rule.read(self.node, name if name in names else f"result{k}", False)
        raise AttributeError(f"result{k}")

    def __getattr__(self, name: str) -> Any:
        return self.node.rule.read(self.node, name, False)


# ---------------------------------------------------------------- what formulas are made of


def _fit(g: Any, shape: Sequence[int]) -> Any:
    """Undo broadcasting."""
    if list(g.shape) == list(shape):
        return g
    if not shape:
        return A.sum.default(g)
    lead = g.dim() - len(shape)
    dims = [*range(lead), *[k + lead for k, n in enumerate(shape) if n == 1 and g.shape[k + lead] != 1]]
    if dims:
        g = A.sum.dim_IntList(g, dims, True)
    return A.view.default(g, list(shape)) if lead else g


def _both(make: Callable[..., tuple[Any, Any]]) -> Formula:
    """Of two operands that are broadcast; each gradient is made when it is wanted."""

    def formula(c: Context, g: Any) -> dict[str, Any]:
        made = zip(("self", "other"), make(c, g))
        return {n: _fit(of(), c.shape(n)) for n, of in made if c.wants(n)}

    return formula


def _one(make: Callable[[Any, Any], Any], name: str = "self") -> Formula:
    return lambda c, g: {name: make(c, g)}


def _sums(c: Any, g: Any, shape: list[int], dims: Any, keepdim: bool) -> Any:
    if dims is not None and not keepdim and shape:
        for d in sorted([d % len(shape) for d in dims]):
            g = A.unsqueeze.default(g, d)
    return A.expand.default(g, shape)


def _count(shape: list[int], dims: Any) -> int:
    n = 1
    for d in dims or range(len(shape)):
        n *= shape[d]
    return n


def _scaled(g: Any, alpha: Any) -> Any:
    return g if alpha == 1 else A.mul.Scalar(g, alpha)


def _turned(t: Any) -> bool:
    """Whether columns lie one after the other."""
    return bool(t.stride() == (1, t.shape[0]))


def _products(c: Context, g: Any, left: str, right: str) -> dict[str, Any]:
    """As PyTorch has it, a gradient lies as its operand does."""

    def by_left(a: Any, b: Any) -> Any:
        return A.t.default(A.mm.default(b, A.t.default(g))) if _turned(a) else A.mm.default(g, A.t.default(b))

    def by_right(a: Any, b: Any) -> Any:
        return A.t.default(A.mm.default(A.t.default(g), a)) if _turned(b) else A.mm.default(A.t.default(a), g)

    made = {left: by_left, right: by_right}
    order = sorted(made)
    return {n: made[n](getattr(c, left), getattr(c, right)) for n in order if c.wants(n)}


def _batched(c: Context, g: Any, left: str, right: str) -> dict[str, Any]:
    found = {}
    if c.wants(right):
        found[right] = A.bmm.default(A.transpose.int(getattr(c, left), 1, 2), g)
    if c.wants(left):
        found[left] = A.bmm.default(g, A.transpose.int(getattr(c, right), 1, 2))
    return found


def _addmm(c: Context, g: Any) -> dict[str, Any]:
    found = {n: _scaled(x, c.alpha) for n, x in _products(c, g, "mat1", "mat2").items()}
    return found | ({"self": _fit(_scaled(g, c.beta), c.shape("self"))} if c.wants("self") else {})


def _baddbmm(c: Context, g: Any) -> dict[str, Any]:
    found = {n: _scaled(x, c.alpha) for n, x in _batched(c, g, "batch1", "batch2").items()}
    return found | ({"self": _fit(_scaled(g, c.beta), c.shape("self"))} if c.wants("self") else {})


def _mv(c: Context, g: Any) -> dict[str, Any]:
    found = {}
    if c.wants("self"):
        found["self"] = A.mul.Tensor(A.unsqueeze.default(g, 1), c.vec)
    if c.wants("vec"):
        found["vec"] = A.mv.default(A.t.default(c.self), g)
    return found


def _dot(c: Context, g: Any) -> dict[str, Any]:
    found = {}
    if c.wants("self"):
        found["self"] = A.mul.Tensor(g, c.tensor)
    if c.wants("tensor"):
        found["tensor"] = A.mul.Tensor(g, c.self)
    return found


def _div(c: Context, g: Any) -> dict[str, Any]:
    found = {}
    if c.wants("other"):
        twice = A.div.Tensor(A.div.Tensor(c.self, c.other), c.other)
        found["other"] = _fit(A.mul.Tensor(A.neg.default(g), twice), c.shape("other"))
    if c.wants("self"):
        found["self"] = _fit(A.div.Tensor(g, c.other), c.shape("self"))
    return found


def _power(c: Context, g: Any) -> dict[str, Any]:
    if isinstance(c.exponent, Tensor):
        raise AttributeError("exponent")
    if c.exponent == 0:
        return {"self": A.zeros_like.default(g)}
    steep = A.mul.Scalar(A.pow.Tensor_Scalar(c.self, c.exponent - 1.0), float(c.exponent))
    return {"self": A.mul.Tensor(g, steep)}


def _convolution(c: Context, g: Any) -> dict[str, Any]:
    names = ("input", "weight", "bias")
    mask = [c.wants(n) for n in names]
    settings = [
        list(c.stride),
        list(c.padding),
        list(c.dilation),
        c.transposed,
        list(c.output_padding),
        c.groups,
    ]
    sizes = [0] if c.values["bias"] is None else c.shape("bias")
    found = A.convolution_backward.default(g, c.input, c.weight, sizes, *settings, mask)
    return dict(zip(names, found))


def _layer_norm(c: Context, g: Any) -> dict[str, Any]:
    names = ("input", "weight", "bias")
    mask = [c.wants(n) for n in names]
    given = c.input, list(c.normalized_shape), c.output(1), c.output(2), c.weight, c.bias
    return dict(zip(names, A.native_layer_norm_backward.default(_first(g), *given, mask)))


def _group_norm(c: Context, g: Any) -> dict[str, Any]:
    names = ("input", "weight", "bias")
    given = c.input, c.output(1), c.output(2), c.weight, c.N, c.C, c.HxW, c.group
    found = A.native_group_norm_backward.default(_first(g), *given, [c.wants(n) for n in names])
    return dict(zip(names, found))


def _batch_norm(c: Context, g: Any) -> dict[str, Any]:
    names = ("input", "weight", "bias")
    given = c.input, c.weight, c.running_mean, c.running_var, c.output(1), c.output(2), c.training, c.eps
    found = A.native_batch_norm_backward.default(_first(g), *given, [c.wants(n) for n in names])
    return dict(zip(names, found))


def _first(g: Any) -> Any:
    return g[0] if isinstance(g, (list, tuple)) else g


def _pieces(c: Context, g: Any, dim: int, sizes: Sequence[int]) -> list[Any]:
    found, start = [], 0
    for n in sizes:
        found.append(A.slice.Tensor(g, dim, start, start + n))
        start += n
    return found


def _cat(c: Context, g: Any) -> dict[str, Any]:
    dim = c.dim % g.dim()
    return {"tensors": _pieces(c, g, dim, [t.shape[dim] for t in c.tensors])}


def _parts(c: Context, g: Any, join: Callable[..., Any]) -> Any:
    parts = g if isinstance(g, (list, tuple)) else [g]
    shapes = [t.shape for t in c.results]
    like = next(p for p in parts if p is not None)
    whole = [A.zeros.default(list(n), **_strided(like)) if p is None else p for p, n in zip(parts, shapes)]
    return join(whole, *([c.dim] if c.dim else []))


def _strided(t: Any) -> dict[str, Any]:
    return {"dtype": t.dtype, "layout": strided, "device": t.device}


def _index_put(c: Context, g: Any) -> Any:
    return A.index_put.default(A.new_zeros.default(g, c.shape("self"), **_strided(g)), c.indices, g, True)


def _attention(c: Context, g: Any) -> dict[str, Any]:
    given = c.query, c.key, c.value, c.output(0), c.output(1), c.dropout_p, c.is_causal
    named = {"attn_mask": c.attn_mask, "scale": c.scale}
    named = {n: v for n, v in named.items() if v is not None}
    found = A._scaled_dot_product_flash_attention_for_cpu_backward.default(_first(g), *given, **named)
    return dict(zip(("query", "key", "value"), found))


def _shares(c: Context, g: Any) -> Any:
    """Of the largest or smallest, which those that are equal share, or those that are no numbers."""
    lost = A.logical_and.default(A.isnan.default(c.self), A.isnan.default(c.result))
    where = A.logical_or_.default(A.eq.Tensor(c.self, c.result), lost)
    return A.mul.Tensor(where, A.div.Tensor(g, A.sum.default(where)))


def _where(c: Context, g: Any) -> dict[str, Any]:
    zero = A.scalar_tensor.default(0, **_strided(g))
    found = {}
    if c.wants("self"):
        found["self"] = _fit(A.where.self(c.condition, g, zero), c.shape("self"))
    if c.wants("other"):
        found["other"] = _fit(A.where.self(c.condition, zero, g), c.shape("other"))
    return found


def _max_pool(c: Context, g: Any) -> Any:
    given = list(c.kernel_size), list(c.stride), _two(c.padding), _two(c.dilation), c.ceil_mode
    return A.max_pool2d_with_indices_backward.default(_first(g), c.self, *given, c.output(1))


def _two(value: Any) -> list[int]:
    return [value] * 2 if isinstance(value, int) else list(value)


def _repeat(c: Context, g: Any) -> Any:
    shape = c.shape("self")
    lead = len(c.repeats) - len(shape)
    if lead:
        g = A.sum.dim_IntList(A.view.default(g, [*c.repeats[:lead], *g.shape[lead:]]), list(range(lead)))
    split: list[int] = []
    dims: list[int] = []
    for n, times in zip(shape, c.repeats[lead:]):
        if times != 1:
            dims.append(len(split))
            split.append(times)
        split.append(n)
    return A.sum.dim_IntList(A.view.default(g, split), dims) if dims else g


def _undone(dims: Sequence[int]) -> list[int]:
    found = [0] * len(dims)
    for k, d in enumerate(dims):
        found[d % len(dims)] = k
    return found


FORMULAS: dict[str, Formula] = {
    "add": _both(lambda c, g: (lambda: g, lambda: _scaled(g, c.alpha))),
    "sub": _both(lambda c, g: (lambda: g, lambda: A.neg.default(_scaled(g, c.alpha)))),
    "rsub": _both(lambda c, g: (lambda: A.neg.default(_scaled(g, c.alpha)), lambda: g)),
    "mul": _both(
        lambda c, g: (
            lambda: (A.mul.Scalar if c.overload == "Scalar" else A.mul.Tensor)(g, c.other),
            lambda: A.mul.Tensor(g, c.self),
        )
    ),
    "div": _div,
    "neg": _one(lambda c, g: A.neg.default(g)),
    "pow": _power,
    "exp": _one(lambda c, g: A.mul.Tensor(g, c.result)),
    "log": _one(lambda c, g: A.div.Tensor(g, c.self)),
    "sqrt": _one(lambda c, g: A.div.Tensor(g, A.mul.Scalar(c.result, 2))),
    "rsqrt": _one(lambda c, g: A.mul.Tensor(A.mul.Scalar(g, -0.5), A.pow.Tensor_Scalar(c.result, 3))),
    "abs": _one(lambda c, g: A.mul.Tensor(g, A.sgn.default(c.self))),
    "sin": _one(lambda c, g: A.mul.Tensor(g, A.cos.default(c.self))),
    "cos": _one(lambda c, g: A.mul.Tensor(g, A.neg.default(A.sin.default(c.self)))),
    "reciprocal": _one(lambda c, g: A.mul.Tensor(A.neg.default(g), A.mul.Tensor(c.result, c.result))),
    "tanh": _one(lambda c, g: A.tanh_backward.default(g, c.result)),
    "sigmoid": _one(lambda c, g: A.sigmoid_backward.default(g, c.result)),
    "relu": _one(lambda c, g: A.threshold_backward.default(g, c.result, 0)),
    "binary_cross_entropy_with_logits": _one(lambda c, g: _by_logits(c, g)),
    "var": _one(lambda c, g: _by_variance(c, g)),
    "std": _one(lambda c, g: _by_deviation(c, g)),
    "clamp": _one(lambda c, g: _within(c, g, [(A.ge, c.min), (A.le, c.max)])),
    "clamp_min": _one(lambda c, g: _within(c, g, [(A.ge, c.min)])),
    "clamp_max": _one(lambda c, g: _within(c, g, [(A.le, c.max)])),
    "log1p": _one(lambda c, g: A.div.Tensor(g, A.add.Scalar(c.self, 1))),
    "erf": _one(
        lambda c, g: A.mul.Tensor(
            A.mul.Scalar(
                A.exp.default(A.neg.default(A.pow.Tensor_Scalar(c.self, 2))), 2 / math.sqrt(math.pi)
            ),
            g,
        )
    ),
    "linalg_vector_norm": _one(lambda c, g: _by_norm(c, g)),
    "gelu": _one(
        lambda c, g: A.gelu_backward.default(
            g, c.self, **({} if c.approximate == "none" else {"approximate": c.approximate})
        )
    ),
    "silu": _one(lambda c, g: A.silu_backward.default(g, c.self)),
    "mish": _one(lambda c, g: A.mish_backward.default(g, c.self)),
    "hardswish": _one(lambda c, g: A.hardswish_backward.default(g, c.self)),
    "hardsigmoid": _one(lambda c, g: A.hardsigmoid_backward.default(g, c.self)),
    "hardtanh": _one(lambda c, g: A.hardtanh_backward.default(g, c.self, c.min_val, c.max_val)),
    "leaky_relu": _one(lambda c, g: A.leaky_relu_backward.default(g, c.self, c.negative_slope, False)),
    "elu": _one(lambda c, g: A.elu_backward.default(g, c.alpha, c.scale, c.input_scale, False, c.self)),
    "softplus": _one(lambda c, g: A.softplus_backward.default(g, c.self, c.beta, c.threshold)),
    "mm": lambda c, g: _products(c, g, "self", "mat2"),
    "addmm": _addmm,
    "bmm": lambda c, g: _batched(c, g, "self", "mat2"),
    "baddbmm": _baddbmm,
    "mv": _mv,
    "dot": _dot,
    "sum": _one(lambda c, g: _sums(c, g, c.shape("self"), _dims(c), _kept(c))),
    "mean": _one(
        lambda c, g: A.div.Scalar(
            _sums(c, g, c.shape("self"), _dims(c), _kept(c)), _count(c.shape("self"), _dims(c))
        )
    ),
    "max": _one(lambda c, g: _chosen(c, g)),
    "min": _one(lambda c, g: _chosen(c, g)),
    "logsumexp": _one(
        lambda c, g: A.mul.Tensor(_opened(c, g), A.exp.default(A.sub.Tensor(c.self, _opened(c, c.result))))
    ),
    "cumsum": _one(lambda c, g: A.flip.default(A.cumsum.default(A.flip.default(g, [c.dim]), c.dim), [c.dim])),
    "t": _one(lambda c, g: A.t.default(g)),
    "transpose": _one(lambda c, g: A.transpose.int(g, c.dim0, c.dim1)),
    "permute": _one(lambda c, g: A.permute.default(g, _undone(c.dims))),
    "view": _one(lambda c, g: _reshaped(g, c.shape("self"))),
    "_unsafe_view": _one(lambda c, g: _reshaped(g, c.shape("self"))),
    "reshape": _one(lambda c, g: _reshaped(g, c.shape("self"))),
    "alias": _one(lambda c, g: g),
    "clone": _one(lambda c, g: g),
    "expand": _one(lambda c, g: _fit(g, c.shape("self"))),
    "unsqueeze": _one(lambda c, g: A.squeeze.dim(g, c.dim)),
    "squeeze": _one(lambda c, g: _reshaped(g, c.shape("self"))),
    "select": _one(lambda c, g: A.select_backward.default(g, c.shape("self"), c.dim, c.index)),
    "slice": _one(
        lambda c, g: A.slice_backward.default(
            g, c.shape("self"), c.dim, c.start or 0, 2**63 - 1 if c.end is None else c.end, c.step
        )
    ),
    "split": _one(lambda c, g: _parts(c, g, A.cat.default)),
    "split_with_sizes": _one(lambda c, g: _parts(c, g, A.cat.default)),
    "unbind": _one(lambda c, g: _parts(c, g, A.stack.default)),
    "repeat": _one(_repeat),
    "flip": _one(lambda c, g: A.flip.default(g, c.dims)),
    "cat": _cat,
    "stack": lambda c, g: {"tensors": [A.select.int(g, c.dim, k) for k in range(g.shape[c.dim])]},
    "index": _one(_index_put),
    "gather": _one(
        lambda c, g: A.scatter_add.default(A.new_zeros.default(g, c.shape("self")), c.dim, c.index, g)
    ),
    "where": _where,
    "masked_fill": _one(lambda c, g: A.masked_fill.Scalar(g, c.mask, 0)),
    "_to_copy": _one(lambda c, g: A._to_copy.default(g, **_strided(c.self))),
    "_softmax": _one(lambda c, g: A._softmax_backward_data.default(g, c.result, c.dim, c.dtype("self"))),
    "_log_softmax": _one(
        lambda c, g: A._log_softmax_backward_data.default(g, c.result, c.dim, c.dtype("self"))
    ),
    "native_layer_norm": _layer_norm,
    "native_group_norm": _group_norm,
    "native_batch_norm": _batch_norm,
    "nll_loss_forward": _one(
        lambda c, g: A.nll_loss_backward.default(
            _first(g), c.self, c.target, c.weight, c.reduction, c.ignore_index, c.output(1)
        )
    ),
    "nll_loss2d_forward": _one(
        lambda c, g: A.nll_loss2d_backward.default(
            _first(g), c.self, c.target, c.weight, c.reduction, c.ignore_index, c.output(1)
        )
    ),
    "mse_loss": lambda c, g: _losses(c, lambda a, b: A.mse_loss_backward.default(g, a, b, c.reduction)),
    "convolution": _convolution,
    "max_pool2d_with_indices": _one(_max_pool),
    "avg_pool2d": _one(
        lambda c, g: A.avg_pool2d_backward.default(
            g,
            c.self,
            c.kernel_size,
            c.stride,
            c.padding,
            c.ceil_mode,
            c.count_include_pad,
            c.divisor_override,
        )
    ),
    "_adaptive_avg_pool2d": _one(lambda c, g: A._adaptive_avg_pool2d_backward.default(g, c.self)),
    "embedding": _one(
        lambda c, g: A.embedding_dense_backward.default(
            g, c.indices, c.shape("weight")[0], c.padding_idx, c.scale_grad_by_freq
        ),
        "weight",
    ),
    "constant_pad_nd": _one(lambda c, g: A.constant_pad_nd.default(g, [-n for n in c.pad])),
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
}


def _within(c: Context, g: Any, limits: Sequence[tuple[Any, Any]]) -> Any:
    zero = A.scalar_tensor.default(0.0, **_strided(g))
    where = None
    for judge, limit in limits:
        if limit is not None:
            inside = judge(c.self, limit)
            where = inside if where is None else A.logical_and.default(where, inside)
    return A.where.self(where, g, zero)


def _by_norm(c: Context, g: Any) -> Any:
    if (
        c.ord != 2
        or (_dims(c) and not _kept(c) and len(_dims(c)) == c.self.dim())
        or c.values["dtype"] is not None
    ):
        return pulled(lambda x: A.linalg_vector_norm.default(x, c.ord, c.dim, c.keepdim), g, c.self)
    norm, g = (_opened(c, t) if _dims(c) else t for t in (c.result, g))
    steep = A.div.Tensor(c.self, norm)
    return A.mul.Tensor(A.masked_fill_.Scalar(steep, A.eq.Scalar(norm, 0), 0), g)


def _by_logits(c: Context, g: Any) -> Any:
    if c.weight is not None or c.pos_weight is not None or c.wants("target"):
        return pulled(
            lambda x: A.binary_cross_entropy_with_logits(x, c.target, c.weight, c.pos_weight, c.reduction),
            g,
            c.self,
        )
    made = A.mul.Tensor(A.sub.Tensor(A.sigmoid.default(c.self), c.target), g)
    return A.div_.Scalar(made, c.self.numel()) if c.reduction == 1 else made


def _by_variance(c: Context, g: Any) -> Any:
    dims, correction = _dims(c), 1 if c.correction is None else c.correction
    count = _count(c.shape("self"), dims) - correction
    if not dims:
        centred = A.sub.Tensor(c.self, A.mean.default(c.self))
        return A.mul.Tensor(A.mul.Scalar(g, 2.0 / count), centred)
    opened = _opened(c, g)
    centred = A.sub.Tensor(c.self, A.mean.dim(c.self, dims, True))
    return A.mul.Tensor(A.mul.Scalar(opened, 2.0 / count), centred)


def _by_deviation(c: Context, g: Any) -> Any:
    steep = A.div.Tensor(g, A.mul.Scalar(c.result, 2))
    return _by_variance(c, A.masked_fill_.Scalar(steep, A.eq.Scalar(c.result, 0), 0))


def _dims(c: Context) -> Any:
    dims = c.values.get("dim") if hasattr(c, "values") else getattr(c, "dim", None)
    return [dims] if isinstance(dims, int) else dims


def _kept(c: Context) -> bool:
    return bool(c.values.get("keepdim", False) if hasattr(c, "values") else getattr(c, "keepdim", False))


def _opened(c: Context, t: Any) -> Any:
    if not _kept(c):
        for d in sorted([d % len(c.shape("self")) for d in _dims(c)]):
            t = A.unsqueeze.default(t, d)
    return t


def _chosen(c: Context, g: Any) -> Any:
    if len(c.results) == 1:
        return _shares(c, g)
    dim = c.dim
    return A.value_selecting_reduction_backward.default(
        _first(g), dim, c.output(1), c.shape("self"), _kept(c)
    )


def _reshaped(g: Any, shape: list[int]) -> Any:
    if _layout.view_strides(tuple(g.shape), g.stride(), tuple(shape)) is not None:
        return A.view.default(g, shape)
    copied = A.clone.default(g, memory_format=_layout.contiguous_format)
    return A._unsafe_view.default(copied, shape)


def _losses(c: Context, of: Callable[[Any, Any], Any]) -> dict[str, Any]:
    found = {}
    if c.wants("self"):
        found["self"] = of(c.self, c.target)
    if c.wants("target"):
        found["target"] = of(c.target, c.self)
    return found


# ---------------------------------------------------------------- finding them


def node_name(op: OpOverload) -> str:
    """What `grad_fn` shows."""
    name = _NODES.get(op._opname, op._opname)
    return "".join([w[:1].upper() + w[1:] for w in name.split("_")]) + "Backward0"


_NODES = {
    "nll_loss_forward": "nll_loss",
    "nll_loss2d_forward": "nll_loss2d",
    "_adaptive_avg_pool2d": "adaptive_avg_pool2d",
}


def of(op: OpOverload) -> Formula:
    """The formula of an operator that a handler answered."""
    found = FORMULAS.get(op._opname)
    if found is not None:
        return found
    function = function_of(op._opname)
    elementwise = getattr(overrides.twin_of(function), "op", None) or getattr(function, "op", None)
    if isinstance(elementwise, ElementwiseOp):
        names = [a.name for a in op._schema.arguments]
        return lambda c, g: _elementwise(elementwise, c, g, dict(zip(elementwise.params, names)))
    raise NotBuiltError(
        f"nbgrad has no gradient of {op} in terms of operators, which a __torch_dispatch__ that computes it otherwise needs: "
        "use an autograd.Function, or operators that have one"
    )


@cached(None)
def _by_node() -> dict[str, str]:
    return {"".join([w[:1].upper() + w[1:] for w in n.split("_")]) + "Backward0": n for n in FORMULAS}


# Of these the node that the library records has not what the formula reads.
_OTHERWISE = frozenset(
    ("max", "min", "split", "split_with_sizes", "unbind", "cat", "index", "stack", "where", "gather")
)


def of_node(node: Any, grads: Any, needed: Any) -> tuple[Any, ...] | None:
    """The gradients of a node that the library recorded; None where they are not to be told so."""
    rule = node.rule
    edges = node.edges()
    wanted = [e is not None and (needed is None or e in needed) for e, _ in edges]
    if isinstance(rule, ElementwiseRule):
        params, specs = rule.plan.op.params, rule.plan.operands
    elif isinstance(rule, OpRule) and not rule.op.variadic:
        params, specs = rule.op.inputs, node.static[1]
    else:
        return None
    names = [PUBLIC.get(p, p) for p in params]
    context = _OfNode(node, {n for n, w in zip(names, wanted) if w}, dict(zip(names, specs)))
    name = _by_node().get(rule.node_name)
    try:
        if name is not None and name not in _OTHERWISE:
            found = FORMULAS[name](context, grads)
            if not context.wanted <= found.keys():
                return None
        elif isinstance(rule, ElementwiseRule):
            found = _elementwise(rule.plan.op, context, grads, dict(zip(params, names)))
        else:
            return None
    except (AttributeError, KeyError, TypeError):
        return None
    return tuple([_cast(found[n], s) if w else None for n, w, s in zip(names, wanted, specs)])


def _cast(g: Any, spec: Any) -> Any:
    return g if g is None or g.dtype is spec.dtype else A._to_copy.default(g, dtype=spec.dtype)


# ---------------------------------------------------------------- expressions

_SPELT: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: A.add.Tensor(a, b),
    "sub": lambda a, b: A.sub.Tensor(a, b) if isinstance(a, Tensor) else A.rsub.Scalar(b, a),
    "mul": lambda a, b: A.mul.Tensor(a, b) if isinstance(a, Tensor) else A.mul.Tensor(b, a),
    "div": lambda a, b: A.div.Tensor(a, b) if isinstance(a, Tensor) else _scaled(A.reciprocal.default(b), a),
    "mad": lambda a, b, c: _SPELT["add"](_SPELT["mul"](a, b), c),
    "ipow": lambda x, n: A.pow.Tensor_Scalar(x, n),
    "abs": lambda x: A.abs.default(x),
    "sign": lambda x: A.sign.default(x),
    "where": lambda c, a, b: A.where.self(c, _as_tensor(a, b), _as_tensor(b, a)),
    "lshift": lambda a, b: A.bitwise_left_shift.Tensor(a, b),
    "rshift": lambda a, b: A.bitwise_right_shift.Tensor(a, b),
    "pow": lambda a, b: (
        A.pow.Scalar(a, b)
        if not isinstance(a, Tensor)
        else A.pow.Tensor_Tensor(a, b)
        if isinstance(b, Tensor)
        else A.pow.Tensor_Scalar(a, b)
    ),
}


def _as_tensor(value: Any, like: Any) -> Any:
    return value if isinstance(value, Tensor) else A.scalar_tensor.default(value, **_strided(like))


def _elementwise(op: ElementwiseOp, c: Context, g: Any, public: dict[str, str]) -> dict[str, Any]:
    env: dict[str, Any] = {"g": g}
    known: dict[Expr, Any] = {}

    def value(name: str) -> Any:
        if name not in env:
            env[name] = c.result if name == "y" else getattr(c, public.get(name, name))
        return env[name]

    def run(e: Expr) -> Any:
        if e in known:
            return known[e]
        if e.prim is None:
            found = value(e.attr) if isinstance(e.attr, str) else e.attr
        else:
            args = [run(a) for a in e.args]
            if e.prim.static:
                args.append(e.attr)
            found = _computed(e.prim, args)
        known[e] = found
        return found

    wanted = {p: n for p, n in public.items() if c.wants(n)}
    found: dict[str, Any] = {}
    for p, n in wanted.items():
        partial = op.partials[p]
        made = A.zeros_like.default(g) if partial is diff.ZERO else run(partial)
        found[n] = _fit(made, c.shape(n))
    return found


def _computed(prim: Any, args: list[Any]) -> Any:
    if not any([isinstance(a, Tensor) for a in args]):
        return prim(*args)
    spelt = _SPELT.get(prim.name)
    if spelt is not None:
        return spelt(*args)
    packet = getattr(A, prim.name)
    return packet(*args)
