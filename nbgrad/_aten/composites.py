"""Functions that PyTorch makes of several operators: what they come to below, for those who take operators over.

Each takes the arguments that users give and calls operators, which are handed on one by one; OTHERWISE says that the function is to be
told by its own name. What is not here, and is no operator, is computed by the library at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from sys import modules
from typing import Any

from nbgrad._aten.operators import aten as A
from nbgrad.core.tensor import Tensor
from nbgrad.memory import layout as _layout
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import bool_, dtype, int64
from nbgrad.memory.storage import Nothing

OTHERWISE: Any = object()
FUNCTIONS: dict[str, Callable[..., Any]] = {}
PROPERTIES: dict[str, Callable[..., Any]] = {}
# What looks at no element.
_PLAIN = """
    size dim stride numel nelement ndimension element_size is_contiguous is_floating_point is_complex is_signed is_tensor
    storage_offset requires_grad_ register_hook register_post_accumulate_grad_hook retain_grad is_shared is_inference get_device
    data_ptr untyped_storage storage __len__ __format__ __hash__ __deepcopy__ __reduce_ex__ __repr__ __str__ __dir__ is_set_to
    dim_order is_same_size _is_view is_conj is_neg is_pinned get_default_dtype result_type can_cast
    promote_types broadcast_shapes __dlpack__ __dlpack_device__ __setstate__ __iter__
"""
PLAIN = frozenset(_PLAIN.split())
_SUMS = ("none", "mean", "sum")


def composite(*paths: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        for path in paths or (function.__name__,):
            FUNCTIONS[path] = function
        return function

    return keep


def _ones_for(roots: Any, weights: Any) -> Any:
    """Weights of the roots of a backward, where none are given."""
    several = roots if isinstance(roots, (tuple, list)) else (roots,)
    given = weights if isinstance(weights, (tuple, list)) else [weights] * len(several)
    return tuple([_one(t) if w is None and t.numel() == 1 else w for t, w in zip(several, given)])


def _one(t: Tensor) -> Tensor:
    return A.ones_like.default(t, pin_memory=False, memory_format=_layout.preserve_format)


def _own(path: str) -> Any:
    from nbgrad.core.overrides import by_path

    return by_path[path].twin


@composite("Tensor.backward")
def _backward(self: Tensor, gradient: Any = None, *rest: Any, **named: Any) -> None:
    if gradient is None and self.numel() == 1 and self.requires_grad:
        gradient = _one(self)
    _own("Tensor.backward")(self, gradient, *rest, **named)


@composite("autograd.backward")
def _backward_of_all(tensors: Any, grad_tensors: Any = None, *rest: Any, **named: Any) -> None:
    _own("autograd.backward")(tensors, _ones_for(tensors, grad_tensors), *rest, **named)


@composite("autograd.grad")
def _grad(outputs: Any, inputs: Any, grad_outputs: Any = None, *rest: Any, **named: Any) -> Any:
    return _own("autograd.grad")(outputs, inputs, _ones_for(outputs, grad_outputs), *rest, **named)


@composite("Tensor.numpy", "Tensor.__array__", "Tensor.tolist")
def _values(self: Tensor, *args: Any, **named: Any) -> Any:
    if type(self._buf) is Nothing:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")
    return OTHERWISE


# ---------------------------------------------------------------- views and copies


def _sizes(given: tuple[Any, ...]) -> list[int]:
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (tuple, list)) else list(given)


def _inferred(t: Tensor, shape: Sequence[int]) -> list[int]:
    if -1 not in shape:
        return list(shape)
    known = math.prod([n for n in shape if n != -1])
    return [t.numel() // known if n == -1 and known else n for n in shape]


def _shaped(t: Tensor, shape: list[int]) -> Any:
    if t.is_contiguous() or _layout.view_strides(tuple(t.shape), t.stride(), tuple(shape)) is not None:
        return A.view.default(t, shape)
    return A._unsafe_view.default(A.clone.default(t, memory_format=_layout.contiguous_format), shape)


@composite("reshape")
def reshape(input: Tensor, *shape: Any, **named: Any) -> Any:
    return _shaped(input, _inferred(input, _sizes(shape or tuple(named.values()))))


@composite("flatten")
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    n = input.dim()
    if not n:
        return reshape(input, 1)
    start, end = start_dim % n, end_dim % n
    if start == end:
        return input
    shape = list(input.shape)
    return reshape(input, [*shape[:start], math.prod(shape[start : end + 1]), *shape[end + 1 :]])


@composite("contiguous")
def contiguous(self: Tensor, *, memory_format: Any = _layout.contiguous_format) -> Any:
    if self.is_contiguous(memory_format=memory_format):
        return self
    return A.clone.default(self, memory_format=memory_format)


@composite("chunk", "unsafe_chunk")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    return A.split.Tensor(input, max(1, -(-input.shape[dim] // chunks)), *([dim] if dim else []))


@composite("split")
def split(tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> Any:
    given = split_size_or_sections if split_size is None else split_size
    if isinstance(given, int):
        return tuple(A.split.Tensor(tensor, given, *([dim] if dim else [])))
    return tuple(A.split_with_sizes.default(tensor, list(given), *([dim] if dim else [])))


def _conjugate(t: Tensor) -> Any:
    return A.conj.default(t) if t.is_complex() else t


FUNCTIONS |= {
    "expand_as": lambda self, other: A.expand.default(self, list(other.shape)),
    "view_as": lambda self, other: A.view.default(self, list(other.shape)),
    "reshape_as": lambda self, other: reshape(self, list(other.shape)),
    "ravel": lambda input: reshape(input, -1),
    "narrow": lambda input, dim, start, length: A.slice.Tensor(input, dim, start, start + length),
    "adjoint": lambda self: _conjugate(A.transpose.int(self, -2, -1)),
    "square": lambda input: A.pow.Tensor_Scalar(input, 2),
    "Tensor.__rtruediv__": lambda self, other: A.mul.Tensor(A.reciprocal.default(self), other),
    "Tensor.__rpow__": lambda self, other: A.pow.Scalar(other, self),
    "Tensor.__rmatmul__": lambda self, other: matmul(other, self),
    "type_as": lambda self, other: to(self, other),
}
PROPERTIES |= {
    "T": lambda self: A.permute.default(self, list(range(self.dim()))[::-1]),
    "mT": lambda self: A.transpose.int(self, -2, -1),
    "H": lambda self: _conjugate(A.transpose.int(self, 0, 1)),
    "mH": lambda self: _conjugate(A.transpose.int(self, -2, -1)),
    "data": lambda self: A.detach.default(self),
}


@composite("to")
def to(self: Tensor, *args: Any, **named: Any) -> Any:
    place, kind = named.pop("device", None), named.pop("dtype", None)
    copy, form = named.pop("copy", False), named.pop("memory_format", None)
    named.pop("non_blocking", None)
    for a in [*args, *named.values()]:
        if isinstance(a, Tensor):
            place, kind = a.device, a.dtype
        elif isinstance(a, dtype):
            kind = a
        elif isinstance(a, (str, _device)):
            place = _device(a)
    place = None if place is None else _device(place)
    given: dict[str, Any] = {}
    if kind is not None and kind is not self.dtype:
        given["dtype"] = kind
    if place is not None and place != self.device:
        given["device"] = place
    if form is not None and not self.is_contiguous(memory_format=form):
        given["memory_format"] = form
    return A._to_copy.default(self, **given) if given or copy else self


def _cast(name: str) -> None:
    FUNCTIONS[f"Tensor.{name}"] = lambda self, **named: to(
        self, getattr(modules[__name__.partition(".")[0]], name), **named
    )


for _name in ("float", "double", "half", "bfloat16", "int", "long", "short", "char", "bool"):
    _cast(_name)
FUNCTIONS["Tensor.cpu"] = lambda self, **named: to(self, "cpu", **named)
FUNCTIONS["Tensor.cuda"] = lambda self, device=None, **named: to(self, device or "cuda", **named)
for _name, _of in (
    ("item", None),
    ("__bool__", bool),
    ("__float__", float),
    ("__int__", int),
    ("__index__", int),
):
    FUNCTIONS[f"Tensor.{_name}"] = lambda self, _of=_of: (
        A._local_scalar_dense.default(self) if _of is None else _of(A._local_scalar_dense.default(self))
    )


def _picked(t: Tensor, index: Any) -> tuple[Any, list[Any]]:
    """The view that the simple parts of an index make, and what tensors index of it."""
    parts = list(index) if isinstance(index, tuple) else [index]
    taken = sum(
        [
            p.dim() if isinstance(p, Tensor) and p.dtype is bool_ else 1
            for p in parts
            if p is not None and p is not ...
        ]
    )
    if ... in [p for p in parts if not isinstance(p, Tensor)]:
        at = next(k for k, p in enumerate(parts) if p is ...)
        parts[at : at + 1] = [slice(None)] * (t.dim() - taken)
    dim = 0
    places: list[Any] = []
    for p in parts:
        if p is ...:
            continue
        if p is None:
            t = A.unsqueeze.default(t, dim)
            dim += 1
        elif isinstance(p, slice):
            if (p.start, p.stop, p.step) != (None, None, None):
                start, stop, step = p.start or 0, 2**63 - 1 if p.stop is None else p.stop, p.step or 1
                t = A.slice.Tensor(t, dim, int(start), int(stop), *([] if step == 1 else [int(step)]))
            dim += 1
        elif isinstance(p, (bool, list, tuple, range)) or not (
            hasattr(p, "__index__") or isinstance(p, Tensor)
        ):
            return OTHERWISE, []
        elif isinstance(p, Tensor):
            places += [None] * (dim - len(places)) + [p]
            dim += p.dim() if p.dtype is bool_ else 1
        else:
            t = A.select.int(t, dim, int(p))
    return t, places


@composite("Tensor.__getitem__")
def _getitem(self: Tensor, index: Any) -> Any:
    shown, places = _picked(self, index)
    if shown is OTHERWISE:
        return OTHERWISE
    if places:
        return A.index.Tensor(shown, places)
    return A.alias.default(self) if shown is self else shown


@composite("Tensor.__setitem__")
def _setitem(self: Tensor, index: Any, value: Any) -> Any:
    shown, places = _picked(self, index)
    if shown is OTHERWISE:
        return OTHERWISE
    if not isinstance(value, Tensor):
        value = A.lift_fresh.default(
            modules[__name__.partition(".")[0]].tensor(value, dtype=self.dtype, device=self.device)
        )
    if places:
        A.index_put_.default(shown, places, value)
    elif value.dim():
        A.copy_.default(shown, value)
    else:
        A.fill_.Tensor(shown, value)
    return None


# ---------------------------------------------------------------- products


@composite("matmul")
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Any:
    a, b = input, other
    m, n = a.dim(), b.dim()
    if out is not None or not m or not n:
        return OTHERWISE
    if m == 1 and n == 1:
        return A.dot.default(a, b)
    if m == 2 and n == 1:
        return A.mv.default(a, b)
    if m == 1 and n == 2:
        return A.squeeze.dim(A.mm.default(A.unsqueeze.default(a, 0), b), 0)
    if m == 2 and n == 2:
        return A.mm.default(a, b)
    if m >= 3 and n <= 2:
        flat = reshape(a, [-1, a.shape[-1]])
        if n == 1:
            return reshape(A.mv.default(flat, b), list(a.shape[:-1]))
        return A._unsafe_view.default(A.mm.default(flat, b), [*a.shape[:-1], b.shape[-1]])
    return _many(a, b)


def _many(a: Tensor, b: Tensor) -> Any:
    single = a.dim() == 1, b.dim() == 1
    a, b = (A.unsqueeze.default(t, k) if one else t for k, (t, one) in enumerate(zip((a, b), single)))
    batch = list(_layout.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2])))
    rows, columns, count = a.shape[-2], b.shape[-1], math.prod(batch)
    left, right = (
        _shaped(A.expand.default(t, [*batch, *t.shape[-2:]]), [count, *t.shape[-2:]]) for t in (a, b)
    )
    made = A.bmm.default(left, right)
    return A._unsafe_view.default(made, [*batch, *[rows] * (not single[0]), *[columns] * (not single[1])])


@composite("nn.functional.linear")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    n = input.dim()
    if weight.dim() != 2 or not n:
        return OTHERWISE
    if bias is None:
        return matmul(input, A.t.default(weight))
    if n == 2:
        return A.addmm.default(bias, input, A.t.default(weight))
    if n > 2 and not input.is_contiguous():
        return A.add_.Tensor(matmul(input, A.t.default(weight)), bias)
    flat = reshape(input, [-1, input.shape[-1]] if n > 1 else [1, input.shape[-1]])
    made = A.addmm.default(bias, flat, A.t.default(weight))
    return A.view.default(made, [*input.shape[:-1], weight.shape[0]])


@composite("einsum")
def einsum(*args: Any) -> Any:
    """Of two operands: a product of matrices, one for each place of what both have and the result keeps."""
    equation, *operands = args
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    text = equation.replace(" ", "") if isinstance(equation, str) else "..."
    left, _, kept = text.partition("->")
    inputs = left.split(",")
    if (
        "..." in text
        or "->" not in text
        or len(operands) != 2
        or any([len(set(i)) != len(i) for i in inputs])
    ):
        return OTHERWISE
    (a, b), (x, y) = inputs, operands
    if any([letter not in kept and (letter not in a or letter not in b) for letter in a + b]):
        return OTHERWISE
    size = dict(zip(a + b, (*x.shape, *y.shape)))
    batch = [c for c in kept if c in a and c in b]
    mine, theirs = ([c for c in kept if c in i and c not in batch] for i in (a, b))
    shared = [c for c in a if c in b and c not in kept]

    def count(letters: list[str]) -> int:
        return math.prod([size[c] for c in letters])

    def laid(t: Tensor, have: str, *groups: list[str]) -> Any:
        order = [have.index(c) for g in groups for c in g]
        return reshape(A.permute.default(t, order), [count(g) for g in groups])

    made = A.bmm.default(laid(x, a, batch, mine, shared), laid(y, b, batch, shared, theirs))
    have = [*batch, *mine, *theirs]
    made = A.view.default(made, [size[c] for c in have])
    return A.permute.default(made, [have.index(c) for c in kept])


# ---------------------------------------------------------------- rows


def _in(t: Tensor, kind: Any) -> Any:
    return t if kind is None else to(t, kind)


@composite("softmax", "nn.functional.softmax", "special.softmax")
def softmax(input: Tensor, dim: Any = None, *rest: Any, dtype: Any = None, **_: Any) -> Any:
    return A._softmax.default(_in(input, dtype), dim, False) if isinstance(dim, int) else OTHERWISE


@composite("log_softmax", "nn.functional.log_softmax", "special.log_softmax")
def log_softmax(input: Tensor, dim: Any = None, *rest: Any, dtype: Any = None, **_: Any) -> Any:
    return A._log_softmax.default(_in(input, dtype), dim, False) if isinstance(dim, int) else OTHERWISE


@composite("layer_norm", "nn.functional.layer_norm")
def layer_norm(
    input: Tensor, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5, *_: Any, **named: Any
) -> Any:
    return A.native_layer_norm.default(input, list(shape), weight, bias, named.get("eps", eps))[0]


@composite("group_norm", "nn.functional.group_norm")
def group_norm(
    input: Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    n, c = input.shape[:2]
    rest = math.prod(input.shape[2:])
    return A.native_group_norm.default(input, weight, bias, n, c, rest, num_groups, eps)[0]


@composite("nn.functional.batch_norm")
def batch_norm(
    input: Tensor,
    mean: Any,
    var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    return A.native_batch_norm.default(input, weight, bias, mean, var, training, momentum, eps)[0]


@composite("rms_norm", "nn.functional.rms_norm")
def rms_norm(input: Tensor, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    dims = [input.dim() - len(shape) + k for k in range(len(shape))]
    mean = A.mean.dim(A.pow.Tensor_Scalar(input, 2), dims, True)
    small = modules[__name__.partition(".")[0]].finfo(input.dtype).eps if eps is None else eps
    made = A.mul.Tensor(input, A.rsqrt.default(A.add_.Scalar(mean, small)))
    return made if weight is None else A.mul.Tensor(made, weight)


@composite("nn.functional.embedding")
def embedding(input: Tensor, weight: Tensor, padding_idx: Any = None, *rest: Any, **named: Any) -> Any:
    if rest[:1] not in ((), (None,)) or named.get("max_norm") is not None:
        return OTHERWISE
    by_freq = named.get("scale_grad_by_freq", rest[2] if len(rest) > 2 else False)
    given = [-1 if padding_idx is None else padding_idx % weight.shape[0], by_freq]
    return A.embedding.default(weight, input, *given)


@composite("nn.functional.dropout")
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    if not training or p == 0:
        return input
    if not 0 < p < 1 or inplace:
        return OTHERWISE
    mask = A.bernoulli_.float(A.empty_like.default(input), 1 - p)
    return A.mul.Tensor(input, A.div_.Scalar(mask, 1 - p))


# ---------------------------------------------------------------- losses


def _reduction(name: str) -> int:
    return _SUMS.index(name)


def _nll(input: Tensor, target: Tensor, weight: Any, reduction: str, ignore: int) -> Any:
    given = input, target, weight, _reduction(reduction), ignore
    if input.dim() in (1, 2):
        return A.nll_loss_forward.default(*given)[0]
    return A.nll_loss2d_forward.default(*given)[0] if input.dim() == 4 else OTHERWISE


@composite("nn.functional.nll_loss")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    if size_average is not None or reduce is not None:
        return OTHERWISE
    return _nll(input, target, weight, reduction, ignore_index)


@composite("nn.functional.cross_entropy")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    if size_average is not None or reduce is not None or input.dim() not in (1, 2, 4):
        return OTHERWISE
    if label_smoothing or target.is_floating_point():
        given = input, target, weight, _reduction(reduction), ignore_index, label_smoothing
        return A.cross_entropy_loss.default(*given)
    logs = A._log_softmax.default(input, 0 if input.dim() == 1 else 1, False)
    return _nll(logs, target, weight, reduction, ignore_index)


def _loss(name: str, *settings: str) -> None:
    @composite(f"nn.functional.{name}")
    def loss(input: Tensor, target: Tensor, *rest: Any, **named: Any) -> Any:
        known = {"size_average", "reduce"} & named.keys()
        if rest or any([named[n] is not None for n in known]):
            return OTHERWISE
        values = [_reduction(named.get("reduction", "mean")), *[named[s] for s in settings if s in named]]
        return getattr(A, name).default(input, target, *values)


_loss("mse_loss")
_loss("smooth_l1_loss", "beta")
_loss("huber_loss", "delta")


@composite("nn.functional.l1_loss")
def l1_loss(input: Tensor, target: Tensor, *rest: Any, reduction: str = "mean", **named: Any) -> Any:
    made = A.abs.default(A.sub.Tensor(input, target))
    return (
        made if reduction == "none" else A.mean.default(made) if reduction == "mean" else A.sum.default(made)
    )


@composite("nn.functional.binary_cross_entropy")
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Any = None, *rest: Any, reduction: str = "mean", **named: Any
) -> Any:
    return A.binary_cross_entropy.default(input, target, weight, _reduction(reduction))


@composite("nn.functional.binary_cross_entropy_with_logits")
def with_logits(
    input: Tensor,
    target: Tensor,
    weight: Any = None,
    *rest: Any,
    reduction: str = "mean",
    pos_weight: Any = None,
    **named: Any,
) -> Any:
    return A.binary_cross_entropy_with_logits.default(
        input, target, weight, pos_weight, _reduction(reduction)
    )


# ---------------------------------------------------------------- windows


def _each(value: Any, n: int) -> list[int]:
    return [value] * n if isinstance(value, int) else list(value) * (n if len(value) == 1 else 1)


def _convolving(dims: int) -> None:
    @composite(f"conv{dims}d", f"nn.functional.conv{dims}d")
    def convolve(
        input: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Any:
        strides, spread = _each(stride, dims), _each(dilation, dims)
        if isinstance(padding, str):
            wide = [d * (k - 1) for d, k in zip(spread, weight.shape[2:])]
            if padding == "same" and any([w % 2 for w in wide]):
                return OTHERWISE
            padding = [w // 2 for w in wide] if padding == "same" else 0
        single = input.dim() == dims + 1
        given = A.unsqueeze.default(input, 0) if single else input
        made = A.convolution.default(
            given, weight, bias, strides, _each(padding, dims), spread, False, [0] * dims, groups
        )
        return A.squeeze.dim(made, 0) if single else made

    @composite(f"conv_transpose{dims}d", f"nn.functional.conv_transpose{dims}d")
    def convolve_back(
        input: Tensor,
        weight: Tensor,
        bias: Any = None,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
    ) -> Any:
        single = input.dim() == dims + 1
        given = A.unsqueeze.default(input, 0) if single else input
        settings = [_each(v, dims) for v in (stride, padding, dilation)]
        made = A.convolution.default(
            given, weight, bias, *settings, True, _each(output_padding, dims), groups
        )
        return A.squeeze.dim(made, 0) if single else made


for _dims in (1, 2, 3):
    _convolving(_dims)


@composite("max_pool2d", "nn.functional.max_pool2d")
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    steps = [] if stride is None else _each(stride, 2)
    given = _each(kernel_size, 2), steps, _each(padding, 2), _each(dilation, 2), ceil_mode
    made = A.max_pool2d_with_indices.default(input, *given)
    return made if return_indices else made[0]


@composite("nn.functional.adaptive_avg_pool2d")
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Any:
    given = [n if o is None else o for o, n in zip(_each(output_size, 2), input.shape[-2:])]
    return (
        A.mean.dim(input, [-1, -2], True) if given == [1, 1] else A._adaptive_avg_pool2d.default(input, given)
    )


# ---------------------------------------------------------------- attention


@composite("nn.functional.scaled_dot_product_attention")
def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    """By one operator where PyTorch's kernel for the CPU serves, else by products of matrices."""
    if enable_gqa:
        heads = query.shape[-3]
        key, value = (t.repeat_interleave(heads // t.shape[-3], -3) for t in (key, value))
    learnt = attn_mask is not None and attn_mask.requires_grad
    if (
        query.dim() == 4
        and not dropout_p
        and not learnt
        and key.shape[-2]
        and query.shape[-1] == value.shape[-1]
    ):
        named = {n: v for n, v in (("attn_mask", attn_mask), ("scale", scale)) if v is not None}
        return A._scaled_dot_product_flash_attention_for_cpu.default(
            query, key, value, 0.0, is_causal, **named
        )[0]
    root = math.sqrt(1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    scaled = A.mul.Scalar(query, root)
    turned = A.mul.Scalar(A.transpose.int(key, -2, -1), root)
    scores = matmul(scaled, turned)
    if is_causal:
        seen = A.tril.default(A.ones.default(list(scores.shape[-2:]), dtype=bool_, device=query.device))
        attn_mask = seen
    if attn_mask is not None:
        if attn_mask.dtype is bool_:
            scores = A.masked_fill.Scalar(scores, A.logical_not.default(attn_mask), -math.inf)
        else:
            scores = A.add.Tensor(scores, attn_mask)
    weights = A._softmax.default(scores, -1, False)
    return matmul(dropout(weights, dropout_p), value)


def _heads(t: Tensor, heads: int) -> Any:
    length, batch, width = t.shape
    return A.transpose.int(A.view.default(t, [length, batch * heads, width // heads]), 0, 1)


@composite("nn.functional.multi_head_attention_forward")
def heads_attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    **named: Any,
) -> Any:
    """Of queries in batches, without what few programs ask for."""
    unusual = (
        bias_k is not None or add_zero_attn or use_separate_proj_weight or named.get("static_k") is not None
    )
    if unusual or query.dim() != 3 or key_padding_mask is not None or named.get("static_v") is not None:
        return OTHERWISE
    masked = None if attn_mask is None else attn_mask.dim() == 3
    if (
        masked
        or (attn_mask is not None and attn_mask.dtype is bool_)
        or (need_weights and named.get("is_causal"))
    ):
        return OTHERWISE
    length, batch, width = query.shape
    if query is key and key is value:
        made = linear(query, in_proj_weight, in_proj_bias)
        made = A.view.default(made, [*made.shape[:-1], 3, width])
        made = contiguous(A.squeeze.dim(A.transpose.int(A.unsqueeze.default(made, 0), 0, -2), -2))
        q, k, v = (A.select.int(made, 0, n) for n in range(3))
    else:
        weights = A.split.Tensor(in_proj_weight, width)
        biases = [None] * 3 if in_proj_bias is None else A.split.Tensor(in_proj_bias, width)
        q, k, v = (linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases))
    if need_weights:
        q, k, v = (_heads(t, num_heads) for t in (q, k, v))
        scaled = A.mul.Tensor(q, math.sqrt(1.0 / float(q.shape[-1])))
        turned = A.transpose.int(k, -2, -1)
        scores = (
            A.bmm.default(scaled, turned)
            if attn_mask is None
            else A.baddbmm.default(attn_mask, scaled, turned)
        )
        weights = dropout(A._softmax.default(scores, -1, False), dropout_p if training else 0.0)
        made = reshape(A.transpose.int(A.bmm.default(weights, v), 0, 1), [length * batch, width])
    else:
        each = width // num_heads
        q, k, v = (
            A.view.default(_heads(t, num_heads), [batch, num_heads, t.shape[0], each]) for t in (q, k, v)
        )
        if attn_mask is not None:
            attn_mask = A.unsqueeze.default(A.unsqueeze.default(attn_mask, 0), 0)
        made = attention(
            q, k, v, attn_mask, dropout_p if training else 0.0, bool(named.get("is_causal", False))
        )
        made = reshape(A.permute.default(made, [2, 0, 1, 3]), [length * batch, width])
    out = linear(made, out_proj_weight, out_proj_bias)
    out = A.view.default(out, [length, batch, out.shape[-1]])
    if not need_weights:
        return out, None
    weights = A.view.default(weights, [batch, num_heads, length, weights.shape[-1]])
    return out, A.mean.dim(weights, [1]) if named.get("average_attn_weights", True) else weights


# ---------------------------------------------------------------- statistics


def _spread(name: str) -> None:
    @composite(name)
    def statistic(
        input: Tensor,
        *args: Any,
        dim: Any = None,
        unbiased: Any = None,
        correction: Any = None,
        keepdim: bool = False,
        out: Any = None,
    ) -> Any:
        if out is not None:
            return OTHERWISE
        rest = list(args)
        if rest and isinstance(rest[0], bool):
            unbiased = rest.pop(0)
        elif rest:
            dim = rest.pop(0)
            if rest:
                unbiased = rest.pop(0)
            if rest:
                keepdim = rest.pop(0)
        if unbiased is not None:
            correction = int(unbiased)
        dims = [dim] if isinstance(dim, int) else dim if dim is None else list(dim)
        if dims is None and correction is None and not keepdim:
            return getattr(A, name).correction(input)
        named = {"correction": 1 if correction is None else correction}
        return getattr(A, name).correction(input, dims, **named, **({"keepdim": True} if keepdim else {}))


_spread("var")
_spread("std")


@composite("nn.functional.pad")
def pad(input: Tensor, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    return A.constant_pad_nd.default(input, list(pad), float(value or 0)) if mode == "constant" else OTHERWISE


@composite("norm", "nn.functional.norm")
def norm(
    input: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, out: Any = None, dtype: Any = None
) -> Any:
    if out is not None or dtype is not None or (isinstance(p, str) and p != "fro"):
        return OTHERWISE
    dims = [dim] if isinstance(dim, int) else dim
    return A.linalg_vector_norm.default(input, 2 if p in ("fro", None) else p, dims, keepdim)


@composite("unique")
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    if dim is not None:
        return OTHERWISE
    asked = (True, return_inverse, return_counts)
    found = A._unique2.default(input, sorted, return_inverse, return_counts)
    kept = tuple([part for part, wanted in zip(found, asked) if wanted])
    return kept if len(kept) > 1 else kept[0]


@composite("nn.functional.one_hot")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Any:
    if num_classes < 1:
        return OTHERWISE
    made = A.zeros.default([*tensor.shape, num_classes], dtype=int64, device=tensor.device)
    return A.scatter_.value(made, -1, A.unsqueeze.default(tensor, -1), 1)


# ---------------------------------------------------------------- from data


def _lifted(name: str) -> None:
    FUNCTIONS[name] = lambda *args, **named: (
        A.lift_fresh.default(_own(name)(*args, **named))
        if not isinstance(args[0] if args else None, Tensor)
        else _own(name)(*args, **named)
    )


_lifted("tensor")
_lifted("as_tensor")
