"""What functions and methods of PyTorch do with sparse tensors: a form for each, found by its name.

Gradients are those of what is done with the values. A result names its places in order, once each, where that says `whole`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, cast

from nbgrad._holding import clone, held, refuse
from nbgrad.core.tensor import Tensor, hooks
from nbgrad.memory import dtypes, layout
from nbgrad.ops import pointwise as e
from nbgrad.ops.index.gather import index_add, index_select
from nbgrad.ops.index.reduce_at import _index_reduce
from nbgrad.ops.linear.norms import vector_norm
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.data import tensor
from nbgrad.ops.order.sort import searchsorted, sort
from nbgrad.ops.pointwise.arithmetic import no_bool_sub
from nbgrad.ops.reduce import sums
from nbgrad.ops.rows.softmax import log_softmax as dense_log_softmax
from nbgrad.ops.rows.softmax import softmax as dense_softmax
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.views.join import cat as dense_cat
from nbgrad.ops.views.join import stack as dense_stack
from nbgrad.ops.views.order import moved
from nbgrad.ops.views.parts import imag, real
from nbgrad.sparse._pattern import Pattern, spans
from nbgrad.sparse._products import merged, product
from nbgrad.sparse._tensor import (
    SparseTensor,
    coalesced,
    dense,
    form,
    forms,
    made,
    of_dense,
    sparse_coo,
    values_there,
)
from nbgrad.tape.modes import state

# ---------------------------------------------------------------- parts


@form("to_dense")
def to_dense(self: SparseTensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    if masked_grad is False and self.requires_grad:
        raise NotImplementedError("nbgrad has the gradient of a sparse tensor where that has entries alone")
    return dense(self)


@form("to_sparse", "to_sparse_coo")
def to_sparse(self: SparseTensor, sparse_dim: Any = None, *, layout: Any = None) -> SparseTensor:
    if str(layout) in ("torch.sparse_csr", "torch.sparse_csc"):
        return cast(SparseTensor, _laid_out(self, str(layout)))
    return self if sparse_dim in (None, len(self._pattern.sizes)) else of_dense(dense(self), sparse_dim)


@form("coalesce")
def coalesce(self: SparseTensor) -> SparseTensor:
    return coalesced(self)


@form("is_coalesced")
def is_coalesced(self: SparseTensor) -> bool:
    return self._pattern.whole


def _need_whole(s: SparseTensor, what: str) -> None:
    if not s._pattern.whole:
        raise RuntimeError(f"Cannot get {what} on an uncoalesced tensor, please call .coalesce() first")


@form("indices")
def indices(self: SparseTensor) -> Tensor:
    _need_whole(self, "indices")
    return self._pattern.at


@form("values")
def values(self: SparseTensor) -> Tensor:
    _need_whole(self, "values")
    return self._held[:]


form("_indices")(lambda self: self._pattern.at)
form("_values")(lambda self: self._held.detach())
form("_nnz")(lambda self: self._pattern.count)
form("sparse_dim", "_dimI")(lambda self: len(self._pattern.sizes))
form("dense_dim", "_dimV")(lambda self: self._held.ndim - 1)


@form("is_same_size")
def is_same_size(self: Any, other: Any) -> bool:
    return tuple(self.shape) == tuple(other.shape)


@form("as_tensor", "asarray")
def as_tensor(data: Any, dtype: Any = None, device: Any = None, **named: Any) -> Any:
    if not isinstance(data, SparseTensor):
        refuse("as_tensor")
    return data if dtype is None and device is None else data.to(dtype=dtype or data.dtype, device=device)


@form("tensor")
def tensor_of(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Any:
    if not isinstance(data, SparseTensor):
        refuse("tensor")
    return data.detach().clone().to(dtype=dtype or data.dtype, device=device).requires_grad_(requires_grad)


@form("item")
def item(self: SparseTensor) -> Any:
    if self.numel() != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    return dense(self).item()


@form("__len__")
def length(self: SparseTensor) -> int:
    if not self.ndim:
        raise TypeError("len() of a 0-d tensor")
    return self.size(0)


@form("numpy", "__array__", "tolist")
def numpy(self: SparseTensor, *args: Any, **named: Any) -> Any:
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


# ---------------------------------------------------------------- dtypes and places


def _as(self: SparseTensor, values: Tensor) -> SparseTensor:
    if values is self._held:
        return self
    p = self._pattern
    if values.device != p.at.device:
        p = Pattern(p.at.to(values.device), p.sizes, p.whole)
    return made(p, values)


@form("to")
def to(self: Any, *args: Any, **named: Any) -> Any:
    if not isinstance(self, SparseTensor):  # as another, which is sparse
        return self.to(*held(args), **{n: held(v) for n, v in named.items()})
    return _as(self, self._held.to(*held(args), **{n: held(v) for n, v in named.items()}))


@form("type")
def type_(self: SparseTensor, dtype: Any = None, *args: Any) -> Any:
    if dtype is None:
        return f"torch.{'cuda.' if self.is_cuda else ''}sparse.{self.dtype.scalar_name}Tensor"
    return _as(self, self._held.type(dtype, *args))


@form("type_as")
def type_as(self: Any, other: Any) -> Any:
    return to(self, other.dtype)


def _by_values(name: str, first: Callable[[SparseTensor], SparseTensor]) -> None:
    def function(self: SparseTensor, *args: Any, **named: Any) -> SparseTensor:
        s = first(self)
        return _as(s, getattr(s._held, name)(*args, **named))

    form(name)(function)


_CASTS = "float double half bfloat16 int long short char byte bool cfloat cdouble cpu cuda"
_LINEAR = "neg negative positive conj conj_physical resolve_conj"
_CURVED = """
    abs absolute sqrt square sin asin arcsin sinh asinh arcsinh tan atan arctan tanh atanh arctanh erf erfinv expm1 log1p floor ceil round
    trunc fix frac sign sgn deg2rad rad2deg nan_to_num isnan isinf isposinf isneginf signbit pow floor_divide
"""
IN_PLACE = """
    abs absolute sqrt sin asin arcsin sinh asinh arcsinh tan atan arctan tanh atanh arctanh erf erfinv expm1 log1p floor ceil round trunc
    fix frac sign sgn deg2rad rad2deg nan_to_num relu
"""
for _name in (_CASTS + " " + _LINEAR).split():
    _by_values(_name, lambda s: s)
for _name in _CURVED.split():  # of a sum, not of what is added up
    _by_values(_name, coalesced)


for _name, _part in {"real": real, "imag": imag}.items():
    form(_name)(lambda input, part=_part: _as(input, part(input._held)))
    setattr(SparseTensor, _name, property(forms[_name], doc="The parts, of the same layout."))


@form("relu")
def relu(input: SparseTensor, inplace: bool = False) -> SparseTensor:
    s = coalesced(input)
    return made(s._pattern, s._held.relu())


for _operator, _function in {
    "neg": "neg",
    "pos": "positive",
    "abs": "abs",
    "pow": "pow",
    "floordiv": "floor_divide",
}.items():
    form(f"__{_operator}__")(forms[_function])


# ---------------------------------------------------------------- arithmetic


def _is_number(value: Any) -> bool:
    return not isinstance(value, Tensor) or (not isinstance(value, SparseTensor) and not value.ndim)


@form("add", "__add__")
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if not isinstance(other, SparseTensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    if not isinstance(input, Tensor):
        raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
    own, their = list(input.shape), list(other.shape)
    b = other._held if alpha == 1 else to_dtype(other._held, _common(input, other)) * alpha
    if not isinstance(input, SparseTensor):
        if own != their:
            raise RuntimeError(
                f"add: expected 'self' and 'other' to have same size, but self has size {own} while other has size {their} (FYI: "
                "dense-sparse addition does not currently support broadcasting)"
            )
        return _added_to(input, other._pattern, b)
    if own != their:
        raise RuntimeError(f"add: expected sizes of 'self' and 'other' to match, but {own} != {their}")
    p, q = input._pattern, other._pattern
    if len(p.sizes) != len(q.sizes):
        raise RuntimeError(
            f"add: expected 'self' and 'other' to have same number of sparse dimensions, but {len(p.sizes)} != {len(q.sizes)}"
        )
    if p is q:
        return made(p, input._held + b)
    if not (p.count and q.count):
        return made(q if q.count else p, to_dtype(b if q.count else input._held, _common(input, other)))
    if input._held.is_contiguous() and b.is_contiguous() and b._spec.backend.prompt:
        return _merged(p, input._held, q, b)
    both = made(Pattern(dense_cat([p.at, q.at], 1), p.sizes, False), dense_cat([input._held, b]))
    if both._pattern.count > both.numel():  # as PyTorch keeps them from growing without end
        found = coalesced(both)
        return made(Pattern(found._pattern.at, p.sizes, False), found._held)
    return both


def _common(a: Tensor, b: Tensor) -> Any:
    return dtypes.promote_types(a.dtype, b.dtype)


def _merged(p: Pattern, a: Tensor, q: Pattern, b: Tensor) -> SparseTensor:
    """Entries of both in PyTorch's order: those that name one place, and come up together, are one."""
    whole = p.whole and q.whole
    if p.same(q):
        return made(Pattern(p.at, p.sizes, whole), a + b)
    there, here, count = merged(p.flat(), q.flat())
    at = p.at.new_empty((len(p.sizes), count))
    at.index_copy_(1, there, p.at).index_copy_(1, here, q.at)
    d = _common(a, b)
    nothing = zeros(a._spec.like((count, *tuple(a.shape)[1:]), None, dtype=d))
    added = index_add(index_add(nothing, 0, there, to_dtype(a, d)), 0, here, to_dtype(b, d))
    return made(Pattern(at, p.sizes, whole), added)


def _added_to(x: Tensor, p: Pattern, values: Tensor) -> Tensor:
    """A dense tensor, and these values more."""
    d = _common(x, values)
    flat = to_dtype(x, d).reshape(-1, *tuple(x.shape)[len(p.sizes) :])
    return index_add(flat, 0, p.flat(), to_dtype(values, d)).reshape(x.shape)


@form("sub", "subtract", "__sub__")
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    if isinstance(other, Tensor):
        no_bool_sub(None, (input, other))
    return add(input, other, alpha=-alpha)


@form("__radd__")
def radd(self: SparseTensor, other: Any) -> Any:
    return add(other, self)


@form("rsub", "__rsub__")
def rsub(self: SparseTensor, other: Any) -> Any:
    return sub(other, self)


@form("mul", "multiply", "__mul__", "__rmul__")
def mul(input: Any, other: Any) -> Any:
    if not isinstance(input, SparseTensor):
        input, other = other, input
    if _is_number(other):
        return made(input._pattern, input._held * other)
    if not isinstance(other, SparseTensor):
        shape = layout.broadcast_shapes(tuple(other.shape), tuple(input.shape))
        if tuple(shape) != tuple(input.shape):
            refuse("expand")
        return made(input._pattern, input._held * values_there(input, other.broadcast_to(shape)))
    a, b = input, other
    p, q = a._pattern, b._pattern
    if p.sizes != q.sizes or input.ndim != other.ndim:
        raise RuntimeError(
            "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of sparse dimensions, and "
            "shape of sparse dimensions"
        )
    if (
        p.count and q.count and not (p.whole and q.whole)
    ):  # those that are not summed up are multiplied one by one, also with nothing
        kept, factor = (b, a) if not q.whole else (a, b)
        return made(kept._pattern, _times(kept, coalesced(factor)))
    if p is q:
        return made(p, a._held * b._held)
    if not p.count or not q.count:
        there = here = p.at.new_zeros(0)
    else:
        found, wanted = p.flat(), q.flat()
        spot = searchsorted(found, wanted).clamp(max=p.count - 1)
        there = (index_select(found, 0, spot) == wanted).nonzero().reshape(-1)
        here = index_select(spot, 0, there)
    both = index_select(a._held, 0, here) * index_select(b._held, 0, there)
    return made(Pattern(index_select(p.at, 1, here), p.sizes, True), both)


def _times(kept: SparseTensor, s: SparseTensor) -> Tensor:
    """Entries times those that `s`, which names places once, has at their places; zero where it has none."""
    places, wanted, held = s._pattern.flat(), kept._pattern.flat(), s._held
    spot = searchsorted(places, wanted).clamp(max=s._pattern.count - 1)
    absent = (index_select(places, 0, spot) != wanted).reshape(-1, *[1] * (held.ndim - 1))
    return (kept._held * index_select(held, 0, spot)).masked_fill(absent, 0)


@form("div", "divide", "true_divide", "__truediv__", "__div__")
def div(input: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    if not isinstance(input, SparseTensor) or not _is_number(other):
        shape = list(other.shape) if isinstance(other, Tensor) else []
        raise RuntimeError(
            f"Sparse division requires a scalar or zero-dim dense tensor divisor (got shape {shape} for divisor)"
        )
    s = input if rounding_mode is None else coalesced(input)
    return made(s._pattern, e.div(s._held, other, rounding_mode=rounding_mode))


@form("__rtruediv__", "__rdiv__")
def rdiv(self: SparseTensor, other: Any) -> Any:
    return div(other, self)


def _become(self: SparseTensor, other: SparseTensor) -> SparseTensor:
    """What a write leaves: elements of another, in the dtype of this. A leaf stays one that requires what it did, and has its gradient."""
    leaf = self.requires_grad and self.is_leaf
    grad = self.grad if leaf else None
    if leaf and state.grad:
        raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    self._pattern, self._held = other._pattern, to_dtype(other._held, self.dtype)
    if leaf:
        self._held = self._held.detach().requires_grad_()
        self.grad = grad
    return self


def _check_kept(name: str, self: Any, other: Any) -> None:
    """What is written in place keeps its dtype, which must be able to hold what comes."""
    if isinstance(other, SparseTensor):
        found = _common(self, other)
        if not dtypes.can_cast(found, self.dtype):
            raise RuntimeError(
                f"Can't convert result type {found.scalar_name} to output {self.dtype.scalar_name} in {name} operation"
            )


@form("add_", "__iadd__")
def add_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    _check_kept("add", self, other)
    if isinstance(self, SparseTensor):
        return _become(self, add(self, other, alpha=alpha))
    p = other._pattern
    if self.dtype is other.dtype and tuple(self.shape) == tuple(
        other.shape
    ):  # what has no entry is not touched
        if len(p.sizes) == 1:
            return self.index_add_(0, p.at[0], other._held, alpha=alpha)
        if p.sizes and self.is_contiguous():
            self.view(-1, *tuple(self.shape)[len(p.sizes) :]).index_add_(
                0, p.flat(), other._held, alpha=alpha
            )
            return self
    return self.copy_(add(self, other, alpha=alpha))


@form("add_grads")
def add_grads(total: Any, grad: Any) -> Any:
    """What is left where gradients come together: the total, or, where that alone is sparse, another."""
    if isinstance(total, SparseTensor) and not isinstance(grad, SparseTensor):
        return add(grad, total)
    return add_(total, grad)


def _arrives(ad: Any, grad: Any, graph: bool) -> None:
    """A sparse gradient comes to a dense leaf."""
    if ad.grad is None:
        ad.grad = grad.clone()
    else:
        ad.grad = add(ad.grad, grad) if graph else add_grads(ad.grad, grad)


hooks.sparse_arrives = _arrives


@form("sub_", "__isub__")
def sub_(self: Any, other: Any, *, alpha: Any = 1) -> Any:
    if isinstance(other, Tensor):
        no_bool_sub(None, (self, other))
    return add_(self, other, alpha=-alpha)


@form("mul_", "__imul__")
def mul_(self: Any, other: Any) -> Any:
    _check_kept("mul" if isinstance(self, SparseTensor) else "add", self, other)
    if not isinstance(self, SparseTensor):
        return self.copy_(dense(mul(self, other)))
    if _is_number(other):  # also seen by who shares the values
        self._held.mul_(other)
        p = self._pattern
        if type(self) is SparseTensor and p.whole and p.count > 1:  # which PyTorch then takes for unordered
            self._pattern = p.unordered()
        return self
    return _become(self, mul(self, other))


@form("div_", "__itruediv__")
def div_(self: Any, other: Any, *, rounding_mode: Any = None) -> Any:
    if not isinstance(self, SparseTensor) or not _is_number(other):
        return div(self, other)  # which says why not
    if rounding_mode is not None:
        return _become(self, div(self, other, rounding_mode=rounding_mode))
    self._held.div_(other)
    return self


def _in_place(name: str, curved: bool) -> None:
    def function(self: SparseTensor, *args: Any, **named: Any) -> SparseTensor:
        if curved and not self._pattern.whole and self.layout is sparse_coo:
            known = name.replace("arc", "a").replace("absolute", "abs")
            raise RuntimeError(f"{known}_ requires coalesced input")
        getattr(self._held, f"{name}_")(*args, **named)  # also seen by who shares the values
        return self

    form(f"{name}_")(function)


for _name in ["neg", "negative", "detach"]:
    _in_place(_name, False)
for _name in IN_PLACE.split():
    _in_place(_name, True)


@form("copy_")
def copy_(self: SparseTensor, src: Any, non_blocking: bool = False) -> SparseTensor:
    if type(src) is not type(self):
        raise RuntimeError(
            "copy_() between dense and sparse Tensors is not implemented! Found self type = "
            f"{self.type()} and src type = {src.type()}"
        )
    if src._pattern is self._pattern:
        self._held.copy_(src._held)
        return self
    return _become(self, clone(src))


@form("zeros_like", "empty_like")
def zeros_like(input: SparseTensor, *, dtype: Any = None, **named: Any) -> SparseTensor:
    p = input._pattern
    nothing = input._held[:0].detach()
    kept = nothing if dtype is None else to_dtype(nothing, dtype)
    return made(Pattern(p.at[:, :0], p.sizes, True), kept.clone())


@form("zero_")
def zero_(self: SparseTensor) -> SparseTensor:
    return _become(self, zeros_like(self))


# ---------------------------------------------------------------- products


@form("mm")
def mm(input: Any, mat2: Any) -> Any:
    a, b = input, mat2
    for t in (a, b):
        if isinstance(t, SparseTensor) and (len(t._pattern.sizes) != 2 or t.ndim != 2):
            raise RuntimeError(
                f"addmm: matrices expected, got {len(t._pattern.sizes)}D sparse and {t._held.ndim - 1}D dense tensor"
            )
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}")
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return _sparse_product(a, b)
    turned = isinstance(b, SparseTensor)
    s, x = (b, a) if turned else (a, b)
    if x.ndim != 2:
        raise IndexError("Dimension out of range (expected to be in range of [-1, 0], but got 1)")
    n = s._pattern.sizes[0 if turned else 1]
    if tuple(x.shape)[1 if turned else 0] != n:
        if turned:
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({x.size(0)}x{x.size(1)} and {n}x{s._pattern.sizes[1]})"
            )
        raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {n}, got {x.size(0)}")
    if turned:
        return product(s._held, x.t(), pattern=s._pattern, d=1).t()
    return product(s._held, x, pattern=s._pattern, d=0)


def _sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """For each entry of `a` all entries of the row of `b` that it meets."""
    (rows, inner), (same, columns) = a._pattern.sizes, b._pattern.sizes
    if inner != same:
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({rows}x{inner} and {same}x{columns})")
    way, at = b._pattern.way(0), a._pattern.at
    begin = index_select(way.first, 0, at[1])
    owner, place = spans(begin, index_select(way.first, 0, at[1] + 1) - begin)
    there = place if way.order is None else index_select(way.order, 0, place)
    each = index_select(a._held, 0, owner) * index_select(b._held, 0, there)
    met = dense_stack([index_select(at[0], 0, owner), index_select(way.other, 0, place)])
    return coalesced(made(Pattern(met, (rows, columns), False), each))


@form("mv")
def mv(input: Any, vec: Any) -> Any:
    if not isinstance(input, SparseTensor) or isinstance(vec, SparseTensor):
        refuse("mv")
    if vec.ndim != 1 or input.ndim != 2 or input.size(1) != vec.size(0):
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return mm(input, vec.unsqueeze(1)).squeeze(1)


@form("matmul", "__matmul__")
def matmul(input: Any, other: Any) -> Any:
    dims = input.ndim, other.ndim
    if dims == (2, 2):
        return mm(input, other)
    if dims == (2, 1) and isinstance(input, SparseTensor):
        return mv(input, other)
    if dims == (1, 2):
        if isinstance(other, SparseTensor):
            return mv(_turned(other), input)
        return mm(unsqueeze(input, 0), other).squeeze(0)
    if dims == (2, 1):
        return matmul(other, input.t())
    if dims == (3, 3):
        return bmm(input, other)
    return refuse("matmul")


@form("__rmatmul__")
def rmatmul(self: SparseTensor, other: Any) -> Any:
    return matmul(other, self)


@form("bmm")
def bmm(input: Any, mat2: Any) -> Any:
    if (
        not isinstance(input, SparseTensor)
        or isinstance(mat2, SparseTensor)
        or len(input._pattern.sizes) != 3
    ):
        refuse("bmm")
    (count, rows, inner), at = input._pattern.sizes, input._pattern.at
    if mat2.ndim != 3 or tuple(mat2.shape)[:2] != (count, inner):
        raise RuntimeError(
            f"bmm: Argument #2 (mat2): Expected size [{count}, {inner}, *], got {list(mat2.shape)}"
        )
    blocks = dense_stack([at[0] * rows + at[1], at[0] * inner + at[2]])  # on the diagonal of one matrix
    one = Pattern(blocks, (count * rows, count * inner), input._pattern.whole)
    columns = mat2.size(2)
    found = product(input._held, mat2.reshape(count * inner, columns), pattern=one, d=0)
    return found.reshape(count, rows, columns)


@form("addmm")
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    found = mm(mat1, mat2)
    found = found if alpha == 1 else found * alpha
    if beta == 0 and not isinstance(input, SparseTensor):
        return found
    scaled = input if beta == 1 else input * beta
    if isinstance(found, SparseTensor):
        return add(scaled, found)
    return (
        dense(scaled) + found
        if isinstance(scaled, SparseTensor)
        else scaled.broadcast_to(found.shape) + found
    )


@form("linear")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    turned = _turned(weight) if isinstance(weight, SparseTensor) else weight.t()
    if input.ndim == 2 or isinstance(input, SparseTensor):
        found = mm(input, turned)
    else:
        found = mm(input.flatten(0, -2) if input.ndim > 2 else input.unsqueeze(0), turned)
        found = found.reshape(*tuple(input.shape)[:-1], weight.shape[0])
    return found if bias is None else found + bias


# ---------------------------------------------------------------- dimensions


def _dim(d: int, t: Tensor) -> int:
    return layout.wrap_dim(d, t.ndim)


@form("transpose", "swapaxes", "swapdims")
def transpose(input: SparseTensor, dim0: int, dim1: int) -> SparseTensor:
    n, one, two = len(input._pattern.sizes), _dim(dim0, input), _dim(dim1, input)
    if (one < n) != (two < n):
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {n}, d0: {one}, d1: {two}"
        )
    order = list(range(input.ndim))
    order[one], order[two] = two, one
    return permute(input, order)


@form("permute")
def permute(input: SparseTensor, *dims: Any) -> SparseTensor:
    listed: Sequence[int] = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [_dim(d, input) for d in listed]
    p, n = input._pattern, len(input._pattern.sizes)
    if sorted(order) != list(range(input.ndim)) or sorted(order[:n]) != list(range(n)):
        raise RuntimeError(
            f"permute(sparse): dimensions must be exchanged among {n} sparse ones, got {order}"
        )
    held = input._held.clone()  # as PyTorch's, which are no views
    held = held.permute(0, *[d - n + 1 for d in order[n:]]) if order[n:] else held
    if order[:n] == list(range(n)):
        return made(p, held)
    if n == 2:
        return made(p.turned(), held)
    at = index_select(p.at, 0, tensor(order[:n], dtype=dtypes.int64, device=p.at.device))
    return made(Pattern(at, tuple([p.sizes[d] for d in order[:n]]), False), held)


def _turned(matrix: SparseTensor) -> SparseTensor:
    """Of the same values, for a product, which does not keep it."""
    return made(matrix._pattern.turned(), matrix._held)


@form("t")
def t(input: SparseTensor) -> SparseTensor:
    n, more = len(input._pattern.sizes), input._held.ndim - 1
    if n > 2 or more:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {n} sparse and {more} dense dimensions"
        )
    return input if n < 2 else transpose(input, 0, 1)


def _turned_in_place(self: SparseTensor, made_: SparseTensor) -> SparseTensor:
    self._pattern, self._held, self._spec = made_._pattern, made_._held, made_._spec
    return self


form("t_")(lambda self: _turned_in_place(self, t(self)))
form("transpose_", "swapaxes_", "swapdims_")(
    lambda self, dim0, dim1: _turned_in_place(self, transpose(self, dim0, dim1))
)


@form("movedim", "moveaxis")
def movedim(input: SparseTensor, source: Any, destination: Any) -> SparseTensor:
    return permute(input, moved(input.ndim, source, destination))


@form("adjoint")
def adjoint(input: SparseTensor) -> SparseTensor:
    return forms["conj"](transpose(input, -2, -1))


def _H(self: SparseTensor) -> SparseTensor:
    return adjoint(self) if self.ndim == 2 else Tensor.H.__get__(self)  # which says why not


_TURNED: dict[str, Callable[[SparseTensor], SparseTensor]] = {
    "T": lambda self: permute(self, [*reversed(range(self.ndim))]),
    "H": _H,
    "mT": lambda self: transpose(self, -2, -1),
    "mH": adjoint,
}
for _name, _way in _TURNED.items():
    setattr(SparseTensor, _name, property(_way, doc=f"What {_name} is of dense ones."))


def _words(name: str, words: str) -> None:
    def function(*args: Any, **named: Any) -> Any:
        raise RuntimeError(words)

    form(name)(function)


_words("reshape", "reshape is not implemented for sparse tensors")
_words("flatten", "reshape is not implemented for sparse tensors")
_words("expand", "expand is unsupported for Sparse tensors")
form("is_contiguous")(lambda self, **named: False)


@form("unsqueeze")
def unsqueeze(input: SparseTensor, dim: int) -> SparseTensor:
    d, p = layout.wrap_dim(dim, input.ndim + 1), input._pattern
    n = len(p.sizes)
    if d > n:
        return made(p, input._held.clone().unsqueeze(d - n + 1))
    at = dense_cat([p.at[:d], zeros(p.at._spec.like((1, p.count), None)), p.at[d:]])
    return made(Pattern(at, (*p.sizes[:d], 1, *p.sizes[d:]), p.whole), input._held.clone())


def _need_sparse(tensors: Sequence[Any]) -> None:
    for k, one in enumerate(tensors):
        if not isinstance(one, SparseTensor):
            raise RuntimeError(f"Concatenating sparse tensors, but a dense tensor was found at position {k}.")


@form("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    first = tensors[0]
    _need_sparse(tensors)
    d, n = _dim(dim, first), len(first._pattern.sizes)
    if d >= n:
        refuse("cat")
    ats, reach = [], 0
    for k, one in enumerate(tensors):
        own, their = list(one.shape), list(first.shape)
        if own[:d] + own[d + 1 :] != their[:d] + their[d + 1 :] or len(one._pattern.sizes) != n:
            raise RuntimeError(
                f"All tensors must have the same shape: {their} (except in the concatenating dimension), but found shape: {own} at "
                f"position {k}."
            )
        at = one._pattern.at
        ats.append(dense_cat([at[:d], at[d : d + 1] + reach, at[d + 1 :]]) if reach else at)
        reach += own[d]
    sizes = first._pattern.sizes
    whole = d == 0 and all([one._pattern.whole for one in tensors])
    pattern = Pattern(dense_cat(ats, 1), (*sizes[:d], reach, *sizes[d + 1 :]), whole)
    return made(pattern, dense_cat([one._held for one in tensors]))


@form("stack")
def stack(tensors: Sequence[Any], dim: int = 0) -> SparseTensor:
    _need_sparse(tensors)
    return cat([unsqueeze(one, dim) for one in tensors], layout.wrap_dim(dim, tensors[0].ndim + 1))


@form("hstack")
def hstack(tensors: Sequence[Any]) -> SparseTensor:
    _need_sparse(tensors)
    return cat(tensors, 1 if tensors[0].ndim > 1 else 0)


@form("vstack")
def vstack(tensors: Sequence[Any]) -> SparseTensor:
    _need_sparse(tensors)
    return cat([unsqueeze(one, 0) if one.ndim == 1 else one for one in tensors])


# ---------------------------------------------------------------- parts by index


@form("select")
def select(input: SparseTensor, dim: int, index: int) -> Tensor:
    d, p = _dim(dim, input), input._pattern
    size, n = tuple(input.shape)[d], len(p.sizes)
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}"
        )
    k = index % size
    if d >= n:
        return made(p, input._held.select(d - n + 1, k))
    there = (p.at[d] == k).nonzero().reshape(-1)
    held = index_select(input._held, 0, there)
    if n == 1:
        return to_dtype(sums.sum(held, 0), input.dtype)
    at = index_select(dense_cat([p.at[:d], p.at[d + 1 :]]), 1, there)
    return made(Pattern(at, (*p.sizes[:d], *p.sizes[d + 1 :]), p.whole), held)


@form("__getitem__")
def brackets(self: Any, key: Any) -> Tensor:
    if not isinstance(self, SparseTensor):
        refuse("index")
    found: Any = self
    keys, d = key if isinstance(key, tuple) else (key,), 0
    if [one for one in keys if one is Ellipsis] == [Ellipsis]:
        k = [one is Ellipsis for one in keys].index(True)
        named = len([one for one in keys if one is not None]) - 1
        keys = (*keys[:k], *[slice(None)] * (self.dim() - named), *keys[k + 1 :])
    for one in keys:
        if isinstance(one, int) and not isinstance(one, bool):
            size = tuple(found.shape)[d]
            if not -size <= one < size:
                raise IndexError(f"index {one} is out of bounds for dimension {d} with size {size}")
            found = select(found, d, one) if isinstance(found, SparseTensor) else found.select(d, one)
        elif one is None:
            found, d = found.unsqueeze(d), d + 1
        elif isinstance(one, slice) and one == slice(None):
            d += 1
        else:
            refuse("as_strided" if isinstance(one, slice) else "index")
    return found


@form("unbind")
def unbind(input: SparseTensor, dim: int = 0) -> tuple[Tensor, ...]:
    return tuple([select(input, dim, k) for k in range(tuple(input.shape)[_dim(dim, input)])])


@form("narrow_copy")
def narrow_copy(self: SparseTensor, dim: int, start: int, length: int) -> SparseTensor:
    p, sizes = self._pattern, tuple(self.shape)
    if not 0 <= dim < len(sizes):
        raise RuntimeError(f"Dimension {dim} out of range. Expecting 0 <= dim < {len(sizes)}.")
    if not 0 <= start <= sizes[dim] - length or length < 0:
        raise RuntimeError(
            f"Invalid range to narrow. range(start, start+length) must be a subset of range(0, {sizes[dim]})."
        )
    if dim >= len(p.sizes):
        return made(p, self._held.narrow(dim - len(p.sizes) + 1, start, length).clone())
    there = ((p.at[dim] >= start) & (p.at[dim] < start + length)).nonzero().reshape(-1)
    at = index_select(p.at, 1, there)
    at[dim] -= start
    return made(
        Pattern(at, (*p.sizes[:dim], length, *p.sizes[dim + 1 :]), p.whole),
        index_select(self._held, 0, there),
    )


@form("any")
def any_(input: SparseTensor, *dims: Any, **named: Any) -> Tensor:
    if dims or named:
        refuse("any")
    return input._held.any()


@form("__iter__")
def iterate(self: SparseTensor) -> Any:
    return iter([select(self, 0, k) for k in range(length(self))])


@form("index_select")
def select_many(input: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    if isinstance(index, SparseTensor):
        raise IndexError("index_select() argument index must be 1-D strided (non-sparse) long-tensor.")
    d, p = _dim(dim, input), input._pattern
    size, n = tuple(input.shape)[d], len(p.sizes)
    if d >= n:
        return made(p, index_select(input._held, d - n + 1, index))
    index = to_dtype(index, dtypes.int64)
    for k in index[(index < -size) | (index >= size)].tolist():
        raise IndexError(
            f"index_select(): index contains {k} that is out of range for tensor of size {list(input.shape)} at dimension {d}"
        )
    wanted = e.where(index < 0, index + size, index)
    keys, order = sort(p.at[d], stable=True)
    begin = searchsorted(keys, wanted)
    owner, place = spans(begin, searchsorted(keys, wanted, right=True) - begin)
    entry = index_select(order, 0, place)
    at = index_select(p.at, 1, entry)
    at = dense_cat([at[:d], owner.unsqueeze(0), at[d + 1 :]])
    pattern = Pattern(at, (*p.sizes[:d], index.size(0), *p.sizes[d + 1 :]), p.whole and d == 0)
    return made(pattern, index_select(input._held, 0, entry))


def _laid_out(self: SparseTensor, layout: str) -> Any:
    parts = import_module(f"{__package__}._compressed")
    return parts.of(self, parts.compressed[layout])


@form("to_sparse_csr")
def to_sparse_csr(self: SparseTensor, dense_dim: Any = None) -> Any:
    return _laid_out(self, "torch.sparse_csr")


@form("to_sparse_csc")
def to_sparse_csc(self: SparseTensor, dense_dim: Any = None) -> Any:
    return _laid_out(self, "torch.sparse_csc")


def _not_compressed(name: str, kind: str) -> None:
    def function(self: SparseTensor) -> Any:
        raise RuntimeError(f"{name} expected sparse {kind} compressed tensor layout but got Sparse")

    form(name)(function)


for _name, _kind in dict(
    crow_indices="row", col_indices="row", ccol_indices="column", row_indices="column"
).items():
    _not_compressed(_name, _kind)


@form("sparse_mask")
def sparse_mask(self: Any, mask: SparseTensor) -> SparseTensor:
    if tuple(self.shape) != tuple(mask.shape):
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask has size {list(mask.shape)}"
        )
    whole = coalesced(self) if isinstance(self, SparseTensor) else self  # of a place named twice the sum
    return mask.with_values(values_there(mask, whole))


# ---------------------------------------------------------------- reductions


@form("sum")
def sum_(input: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Of integers in the widest kind, which `torch.sparse.sum` leaves as they are."""
    exact = not (input.dtype.is_floating_point or input.dtype.is_complex)
    return sum(input, dim, keepdim, dtype=dtypes.int64 if dtype is None and exact else dtype)


def sum(input: SparseTensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    held, p = input._held if dtype is None else to_dtype(input._held, dtype), input._pattern
    if dim is None:
        return sums.sum(held)
    gone = {_dim(d, input) for d in ([dim] if isinstance(dim, int) else dim)}
    n = len(p.sizes)
    inner = [d - n + 1 for d in sorted(gone) if d >= n]
    if inner:
        held = sums.sum(held, inner, keepdim)
    kept = [d for d in range(n) if d not in gone]
    if not kept:
        found = sums.sum(held, 0)
        return found.reshape(*[1] * n, *found.shape) if keepdim else found
    if len(kept) == n:
        return coalesced(made(p, held))
    shown = range(n) if keepdim else kept
    at = dense_stack([p.at[d] * (d not in gone) for d in shown])
    sizes = [1 if d in gone else p.sizes[d] for d in shown]
    return coalesced(made(Pattern(at, tuple(sizes), False), held))


@form("norm")
def norm(
    input: SparseTensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Tensor:
    if dim is not None or keepdim:
        refuse("norm.ScalarOpt_dim")
    found: Tensor = vector_norm(coalesced(input)._held, 2 if p == "fro" else p, dtype=dtype)
    return found


def softmax_of(input: SparseTensor, dim: int, logarithm: bool, dtype: Any = None) -> SparseTensor:
    """Over the elements that are there, what is not named being as if it were minus infinity."""
    d, s = _dim(dim, input), coalesced(input)
    p, n = s._pattern, len(s._pattern.sizes)
    held = s._held if dtype is None else to_dtype(s._held, dtype)
    if d >= n:
        return made(p, (dense_log_softmax if logarithm else dense_softmax)(held, d - n + 1))
    rest = [k for k in range(n) if k != d]
    sizes = [p.sizes[k] for k in rest] or [1]
    at = dense_stack([p.at[k] for k in rest]) if rest else p.at * 0
    lines, own = Pattern(at, tuple(sizes), False).gathered()
    if own is None:
        own = arange(p.count, device=p.at.device)
    like = held._spec.like((lines.count, *tuple(held.shape)[1:]), None)
    most = _index_reduce(zeros(like), held.detach(), own, dim=0, reduce="amax", include_self=False)
    moved = held - index_select(most, 0, own)
    total = index_add(zeros(like), 0, own, moved.exp())
    if logarithm:
        return made(p, moved - index_select(total.log(), 0, own))
    return made(p, moved.exp() / index_select(total, 0, own))
