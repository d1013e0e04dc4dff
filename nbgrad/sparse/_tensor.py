"""The sparse tensor: indices and values of its elements, which are tensors; what is not named is zero.

Its history is that of its values. What it is asked for that stands in no form (`forms`) is refused by name.
"""

from __future__ import annotations

import math
from typing import Any, TypeVar

from nbgrad._holding import Forms, Holding, held_in, history, naming
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.exchange.files.tensors import Layout, rebuild_sparse
from nbgrad.memory import dtypes
from nbgrad.memory.device import device as _device
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import spec
from nbgrad.ops.host import printing
from nbgrad.ops.host.attributes import layout as _layout
from nbgrad.ops.index.gather import index_add, index_select
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.data import tensor
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.sparse._pattern import Pattern, places

sparse_coo = _layout("sparse_coo")
forms: Forms = dict(history)  # what functions and methods do with sparse tensors, by their names
form = naming(forms)


class SparseTensor(Holding):
    """What `torch.sparse_coo_tensor` makes. To programs it is a `torch.Tensor` whose `layout` is `torch.sparse_coo`.

    >>> s = torch.eye(2).to_sparse()
    >>> isinstance(s, torch.Tensor), s.layout
    (True, torch.sparse_coo)
    """

    __slots__ = ("_pattern",)
    _pattern: Pattern

    layout = property(lambda self: sparse_coo, doc="How elements are stored: `torch.sparse_coo`.")
    is_sparse = property(lambda self: True, doc="Whether elements are stored by index: they are.")

    @property
    def data(self) -> Tensor:
        """The same elements without history."""
        return instance(type(self), self._pattern, self._held.data)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, SparseTensor):
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
            )
        self._pattern, self._held.data, self._spec = value._pattern, value._held, value._spec

    def with_values(self, values: Tensor) -> SparseTensor:
        """Others in the places of these."""
        return instance(type(self), self._pattern, values)

    def values_in(self, t: Any) -> Tensor:
        """The elements of a tensor where these are."""
        return values_there(self, t)

    def gradient(self, got: Tensor) -> SparseTensor:
        """Of what is named twice the gradient once."""
        return gradient(self, got)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return ("Parameter containing:\n" if hasattr(self, "_is_param") else "") + self._text()

    def _text(self) -> str:
        parts = [text("indices", self._pattern.at), text("values", self._held)]
        return printing.add_suffixes(
            "tensor(" + ",\n       ".join(parts), suffixes(self), 7, on_new_line=True
        )

    __str__ = __repr__

    def told(self) -> Any:
        parts = self._pattern.at, self._held.detach(), self.shape, self._pattern.whole
        return rebuild_sparse, (Layout(f"{sparse_coo}"), parts)


def made(pattern: Pattern, values: Tensor) -> SparseTensor:
    """A sparse tensor of entries that fit: its sizes are the pattern's and then those of each value."""
    return instance(SparseTensor, pattern, values)


S = TypeVar("S", bound=SparseTensor)


def instance(cls: type[S], pattern: Pattern, values: Tensor) -> S:
    """The same of a class."""
    out = held_in(cls, values, (*pattern.sizes, *tuple(values.shape)[1:]))
    out._pattern = pattern
    return out


def coalesced(s: SparseTensor) -> SparseTensor:
    """The same with every place named once, in order."""
    if s._pattern.whole:
        return s
    pattern, own = s._pattern.gathered()
    return made(pattern, _coalesce(s._held, at=own, count=pattern.count))


@differentiable(
    "Coalesce", tangent=LINEAR, values=lambda g, at, count: g if at is None else index_select(g, 0, at)
)
def _coalesce(values: Tensor, *, at: Tensor | None, count: int) -> Tensor:
    return values.detach().clone() if at is None else _added(values, at, count)


def _added(values: Tensor, own: Tensor, count: int) -> Tensor:
    """Values that share a place, added up; of truths, whether one is true."""
    given = to_dtype(values, dtypes.uint8) if values.dtype is dtypes.bool_ else values
    nothing = zeros(given._spec.like((count, *tuple(given.shape)[1:]), None))
    return to_dtype(index_add(nothing, 0, own, given), values.dtype)


def dense(s: SparseTensor) -> Tensor:
    """The tensor with all its elements."""
    p = s._pattern
    count = 1
    for n in p.sizes:
        count *= n
    return _added(s._held, p.flat(), count).reshape(s.shape)


def gradient(s: SparseTensor, got: Tensor) -> SparseTensor:
    """A gradient of values as one of the tensor: what is named twice has it once."""
    if s._pattern.whole:
        return instance(type(s), s._pattern, got)
    pattern, own = s._pattern.gathered()
    if own is None or pattern.count == s._pattern.count:
        return instance(type(s), s._pattern, got)
    one = zeros(own._spec.like((pattern.count,), None)).index_copy(
        0, own, arange(own.size(0), device=own.device)
    )
    return instance(type(s), pattern, index_select(got, 0, one))


def values_there(s: SparseTensor, t: Tensor) -> Tensor:
    """The elements of a tensor of this shape where `s` has entries, in the order of these."""
    if isinstance(t, SparseTensor):
        if t._pattern is s._pattern:
            return t._held
        t = dense(t)
    n = len(s._pattern.sizes)
    if not t.is_contiguous():  # not copied as a whole
        return t[tuple(s._pattern.at)] if n else t[None]
    return index_select(t.reshape(-1, *tuple(t.shape)[n:]), 0, s._pattern.flat())


# ---------------------------------------------------------------- making


@differentiable("SparseCooTensorWithDimsAndTensors", tangent=LINEAR, values=lambda g: g)
def put_in(values: Tensor) -> Tensor:
    """The values of a tensor that is being made, whose node is called so."""
    return values.detach()


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """The sparse tensor with these `values` at these `indices`, a column for each value: what is named twice is added up where it matters,
    what is not named is zero. Sizes are `size`, or those that the largest indices need. Gradients flow to `values`.

    >>> torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    if values is None:  # of sizes alone
        sizes = tuple([int(n) for n in (indices if size is None else size)])
        d = dtype or dtypes.get_default_dtype()
        where = _device(device) if device is not None else _device("cpu")
        at = zeros(spec(dtypes.int64, (len(sizes), 0), None, where))
        t = made(Pattern(at, sizes, True), zeros(spec(d, (0,), None, where)))
        t.requires_grad = requires_grad
        return t
    held = values if isinstance(values, Tensor) else tensor(values, dtype=dtype)
    held = held if dtype is None else to_dtype(held, dtype)
    held = held if device is None else held.to(device)
    if not held.ndim:
        held = held.reshape(1).expand(1)
    at = indices if isinstance(indices, Tensor) else tensor(indices, dtype=dtypes.int64)
    at = to_dtype(at, dtypes.int64).to(held.device).detach().contiguous()
    sizes = _judged(at, held, size)
    whole = at.size(1) < 2 if is_coalesced is None else is_coalesced
    if check_invariants and whole and not in_order(Pattern(at, sizes, False)):
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    held = held.detach() if requires_grad else put_in(held)
    t = made(Pattern(at, sizes, whole), held)
    t.requires_grad = t.requires_grad or requires_grad
    return t


def in_order(p: Pattern) -> bool:
    flat = p.flat()
    return bool((flat[1:] > flat[:-1]).all())


def _judged(at: Tensor, values: Tensor, size: Any) -> Ints:
    """The sizes of the dimensions that are given by index, which must fit."""
    n, count = at.size(0), at.size(1) if at.ndim > 1 else 0
    sizes = None if size is None else tuple([int(k) for k in size])
    if sizes is not None and len(sizes) != n + values.ndim - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(sizes)}, sparse_dim = {n}, "
            f"dense_dim = {values.ndim - 1}"
        )
    if at.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(at.shape)}")
    if count != values.size(0):
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {count}, nnz from values: {values.size(0)}"
        )
    if sizes is not None and sizes[n:] != tuple(values.shape)[1:]:
        raise RuntimeError(
            f"values has incorrect size, expected {[count, *sizes[n:]]}, got {list(values.shape)}"
        )
    if sizes is None:
        sizes = tuple([k + 1 for k in at.amax(1).tolist()]) if count else (0,) * n
    if count:
        for d, (least, most) in enumerate(zip(at.amin(1).tolist(), at.amax(1).tolist())):
            if least < 0:
                raise RuntimeError(f"found negative index {least} for dim {d}")
            if most >= sizes[d]:
                raise RuntimeError(
                    f"size is inconsistent with indices: for dim {d}, size is {sizes[d]} but found index {most}"
                )
    return sizes[:n]


def of_dense(x: Tensor, dims: int) -> SparseTensor:
    """The elements of a dense tensor that are not zero, by the indices of its first dimensions."""
    sizes = tuple(x.shape)[:dims]
    flat = x.reshape(math.prod(sizes), *tuple(x.shape)[dims:])
    some = flat.detach() != 0
    if some.ndim > 1:
        some = some.flatten(1).any(1)
    at = some.nonzero().reshape(-1)
    return made(Pattern(places(at, sizes), sizes, True), index_select(flat, 0, at))


# ---------------------------------------------------------------- printing


def suffixes(s: SparseTensor) -> list[str]:
    """What stands behind the entries."""
    found = [f"device='{s.device}'"] if s.device.type != "cpu" else []
    found += [f"size={tuple(s.shape)}", f"nnz={s._pattern.count}"]
    default = dtypes.get_default_dtype()
    if s.dtype not in (default, default.to_complex(), dtypes.int64, dtypes.bool_):
        found.append(f"dtype={s.dtype}")
    found.append(f"layout={s.layout}")
    if s.grad_fn is not None:
        found.append(f"grad_fn=<{type(s.grad_fn).__name__}>")
    elif s.requires_grad:
        found.append("requires_grad=True")
    return found


def text(name: str, t: Tensor) -> str:
    """A tensor that makes up a sparse one."""
    head = f"{name}=tensor("
    t = t.detach()
    shown = printing.contents(t, len("tensor(") + len(head)) if t.numel() else f"[], size={tuple(t.shape)}"
    return f"{head}{shown})"
