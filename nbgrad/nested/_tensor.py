"""Nested tensors: a buffer of values, and how it is cut into parts of different sizes.

Promises that the values are one tensor, which ops read and write and history follows, so that what is pointwise costs one kernel however
many parts there are. `Strided` parts (`torch.strided`) have any sizes and lie one after another, flat; `Jagged` ones (`torch.jagged`)
differ along one dimension, which is cut where `offsets` say, and their values keep the other dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate, count
from operator import itemgetter
from typing import Any

from nbgrad._holding import Holding, held_in
from nbgrad.base.ours import called
from nbgrad.base.tables import cached
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.exchange.files.tensors import rebuild_nested
from nbgrad.memory import dtypes
from nbgrad.memory.layout import Ints, Size, contiguous_strides, no_ints, wrap_dim
from nbgrad.ops.host import printing
from nbgrad.ops.host.attributes import layout as _layout
from nbgrad.ops.host.attributes import strided
from nbgrad.ops.index.gather import index_select
from nbgrad.ops.make.data import tensor
from nbgrad.ops.order.scan import cumsum
from nbgrad.ops.views.join import cat

jagged = _layout("jagged")


class NestedInt:
    """A size that is another one in each part, such as `j1`: equal to itself alone, and not less than 2.

    >>> a = torch.nested.nested_tensor([[1.0], [2.0, 3.0]], layout=torch.jagged)
    >>> a.shape[1] == (a * 2).shape[1], a.shape[1] == 2, a.shape[1] >= 2
    (True, False, True)
    """

    __slots__ = ("factor", "number")

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number, self.factor = number, factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self) -> int:
        return hash((self.number, self.factor))

    def __mul__(self, other: Any) -> NestedInt:
        if not isinstance(other, int):
            raise ValueError(f"unsupported: {type(other)}")
        return NestedInt(self.number, self.factor * other)

    __rmul__ = __mul__

    def __ge__(self, other: Any) -> bool:
        if isinstance(other, NestedInt) and other.number == self.number:
            return self.factor >= other.factor
        if isinstance(other, int) and other <= 2:
            return True
        raise ValueError("ge: relation is indeterminate")

    def __gt__(self, other: Any) -> bool:
        return not self.__le__(other)

    def __le__(self, other: Any) -> bool:
        if isinstance(other, NestedInt):
            return other >= self
        if isinstance(other, int) and other < 2:
            return False
        raise ValueError("ge: relation is indeterminate")

    def __lt__(self, other: Any) -> bool:
        return not self >= other


no_ints.add(NestedInt)
_numbers = count(1)


def _size_of(cut: Tensor) -> NestedInt:
    """The size that these offsets or lengths stand for: tensors that are cut by the same ones have the same."""
    found = cut.__dict__.get("_nested_int")
    if found is None:
        found = cut.__dict__["_nested_int"] = NestedInt(next(_numbers))
    return found


def named(node: str, values: Tensor) -> Tensor:
    """The values, whose node is called so."""
    return _named(node)(values) if values.requires_grad else values


@cached(64)
def _named(node: str) -> Callable[[Tensor], Tensor]:
    def pass_on(values: Tensor) -> Tensor:
        return values.detach()

    return differentiable(node, tangent=LINEAR, values=lambda g: g)(pass_on)


class Nested(Holding):
    """What both layouts have in common."""

    __slots__ = ()
    is_nested = property(lambda self: True, doc="Whether the tensor has parts of different sizes: it has.")
    mT = property(lambda self: self.transpose(-2, -1), doc="With the last two dimensions swapped.")

    def parts(self) -> list[Tensor]:
        """The parts, views of the values."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def same_cut(self, other: Nested) -> bool:
        """Whether another is cut as this one is."""
        raise NotImplementedError

    def values_in(self, t: Any) -> Tensor:
        """The values of a tensor that is cut as this one."""
        if not isinstance(t, Nested):
            raise RuntimeError(
                "Expected both self and other to be nested tensors. Self is nested. While Other is not nested."
            )
        if not self.same_cut(t):
            raise RuntimeError("Mismatch in shape: a gradient has parts of other sizes than its tensor.")
        return t._held

    def values(self) -> Tensor:
        """The values of all parts, one after another."""
        return named("NestedGetValues", self._held) if self._held.requires_grad else self._held.detach()

    def numel(self) -> int:
        """How many elements all parts have."""
        return self._held.numel()

    nelement = numel

    def dim(self) -> int:
        """How many dimensions there are, the one along the parts included."""
        return self.ndim

    ndimension = dim

    def _shown(self) -> list[str]:
        if self.grad_fn is not None:
            return [f"grad_fn=<{type(self.grad_fn).__name__}>"]
        return ["requires_grad=True"] if self.requires_grad else []


# ---------------------------------------------------------------- parts of any sizes


class Strided(Nested):
    """What `torch.nested.nested_tensor` makes. To programs it is a `torch.Tensor` whose `layout` is `torch.strided`.

    >>> torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    nested_tensor([
      tensor([1., 1.]),
      tensor([1., 1., 1.])
    ])
    """

    __slots__ = ("_sizes",)
    _sizes: tuple[Ints, ...]
    layout = property(lambda self: strided, doc="How elements are stored: `torch.strided`.")

    @property
    def shape(self) -> Any:
        """There is none."""
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support sizes. Please file an issue.")

    @property
    def ndim(self) -> int:
        """How many dimensions there are, the one along the parts included."""
        return len(self._sizes[0]) + 1 if self._sizes else 1

    def with_values(self, values: Tensor) -> Strided:
        """Others in the places of these."""
        return in_parts(values, self._sizes)

    def same_cut(self, other: Nested) -> bool:
        return isinstance(other, Strided) and other._sizes == self._sizes

    def __len__(self) -> int:
        return len(self._sizes)

    def parts(self) -> list[Tensor]:
        sizes = self._sizes
        if not sizes:
            return []
        return [part.view(size) for part, size in zip(self._held.split([*map(math.prod, sizes)]), sizes)]

    def size(self, dim: int | None = None) -> Any:
        """The size along a dimension, where all parts have the same."""
        if dim is None:
            return self.shape
        d = wrap_dim(dim, self.ndim)
        found = {len(self._sizes)} if d == 0 else {size[d - 1] for size in self._sizes}
        if len(found) != 1:
            raise RuntimeError(f"Given dimension {d} is irregular and does not have a size.")
        return found.pop()

    def stride(self, dim: int | None = None) -> Any:
        """There are none."""
        raise RuntimeError("Internal error: NestedTensorImpl doesn't support strides. Please file an issue.")

    def _nested_tensor_size(self) -> Tensor:
        return tensor([*self._sizes], dtype=dtypes.int64)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        texts = [str(part.detach().requires_grad_(self.requires_grad)) for part in self.parts()]
        inside = ",\n".join([f"  {text}".replace("\n", "\n  ") for text in texts])
        return printing.add_suffixes(f"nested_tensor([\n{inside}\n]", self._shown(), 0)

    __str__ = __repr__

    def told(self) -> Any:
        held = self._held.detach().requires_grad_(self.requires_grad)
        begins = [0, *accumulate(map(math.prod, self._sizes))][: len(self._sizes)]
        told = self._sizes, [contiguous_strides(size) for size in self._sizes], begins
        return rebuild_nested, (held, *[tensor([*part], dtype=dtypes.int64) for part in told])


def of_file(buffer: Tensor, sizes: Tensor, strides: Tensor, begins: Tensor) -> Tensor:
    """What a file tells of one, whose parts must lie in the buffer."""
    told = [tuple(t.tolist()) for t in (sizes, strides, begins)]
    parts = [buffer.detach().as_strided(*lies) for lies in zip(*told, strict=True)]
    values = cat([part.reshape(-1) for part in parts]) if parts else buffer.detach()
    return in_parts(values, [tuple(part.shape) for part in parts]).requires_grad_(buffer.requires_grad)


def in_parts(values: Tensor, sizes: Sequence[Ints]) -> Strided:
    """A flat buffer in parts of these sizes."""
    made = held_in(Strided, values, values.shape)
    made._sizes = tuple(sizes)
    return made


def of_parts(parts: Sequence[Tensor], node: str) -> Strided:
    """Parts as one tensor, made by a node of this name."""
    sizes = [tuple(part.shape) for part in parts]
    for k, size in enumerate(sizes):
        if len(size) != len(sizes[0]):
            raise RuntimeError(
                "All Tensors given to nested_tensor must have the same dimension. "
                f"Found dimension {len(size)} for Tensor at index {k} and dimension {len(sizes[0])} for Tensor at index 0."
            )
    values = cat([part.reshape(-1) for part in parts]) if parts else tensor([], dtype=dtypes.float32)
    return in_parts(named(node, values), sizes)


# ---------------------------------------------------------------- parts that differ along one dimension


class Jagged(Nested):
    """What the functions of `torch.nested` make for the layout `torch.jagged`.

    >>> t = torch.nested.nested_tensor_from_jagged(torch.ones(5, 2), torch.tensor([0, 2, 5]))
    >>> t.offsets(), [part.shape for part in t.unbind()]
    (tensor([0, 2, 5]), [torch.Size([2, 2]), torch.Size([3, 2])])
    """

    __slots__ = ("_lengths", "_offsets", "_ragged_idx")
    _offsets: Tensor
    _lengths: Tensor | None
    _ragged_idx: int
    layout = property(lambda self: jagged, doc="How elements are stored: `torch.jagged`.")
    _values = property(lambda self: self._held)
    _size = property(lambda self: tuple(self.shape))

    def __new__(
        cls,
        values: Tensor,
        offsets: Tensor,
        *,
        lengths: Tensor | None = None,
        _ragged_idx: int = 1,
        requires_grad: bool = False,
        _metadata_cache: Any = None,
    ) -> Jagged:
        if offsets.ndim != 1:
            raise AssertionError(f"offsets must be 1D, but got {offsets.ndim}D")
        if lengths is not None and len(lengths) != len(offsets) - 1:
            raise AssertionError(
                f"offsets and lengths batch sizes must match: offsets.shape[0] - 1 = {len(offsets) - 1}, "
                f"lengths.shape[0] = {len(lengths)}"
            )
        made = held_in(cls, values.requires_grad_() if requires_grad else values, values.shape)
        made._offsets, made._lengths, made._ragged_idx = offsets, lengths, _ragged_idx
        return made

    @property
    def shape(self) -> Any:
        """The sizes; that along which parts differ is one that equals itself alone."""
        r, sizes = self._ragged_idx - 1, tuple(self._held.shape)
        ragged: Any = _size_of(self._offsets if self._lengths is None else self._lengths)
        return Size((len(self), *sizes[:r], ragged, *sizes[r + 1 :]))

    @property
    def ndim(self) -> int:
        """How many dimensions there are, the one along the parts included."""
        return self._held.ndim + 1

    def with_values(self, values: Tensor, ragged: int | None = None) -> Jagged:
        """Others in the places of these, which may stand along another dimension."""
        offsets, lengths = self._offsets, self._lengths
        if values.device != offsets.device:
            offsets, lengths = (
                offsets.to(values.device),
                None if lengths is None else lengths.to(values.device),
            )
        return Jagged(values, offsets, lengths=lengths, _ragged_idx=ragged or self._ragged_idx)

    def same_cut(self, other: Nested) -> bool:
        end = self._ragged_idx + 1
        return isinstance(other, Jagged) and tuple(other.shape)[:end] == tuple(self.shape)[:end]

    def offsets(self) -> Tensor:
        """Where each part begins, and the last one ends."""
        return self._offsets

    def lengths(self) -> Tensor | None:
        """How long each part is, where there is something between parts."""
        return self._lengths

    def how_long(self) -> Tensor:
        """How long each part is."""
        return self._offsets.diff() if self._lengths is None else self._lengths

    def longest(self) -> int:
        return int(self.how_long().max()) if len(self) else 0

    def _get_max_seqlen(self) -> int:
        return self.longest()

    def _get_min_seqlen(self) -> int:
        return int(self.how_long().min()) if len(self) else 0

    _max_seqlen = property(_get_max_seqlen)
    _min_seqlen = property(_get_min_seqlen)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def parts(self) -> list[Tensor]:
        d, long = self._ragged_idx - 1, self.how_long().tolist()
        if self._lengths is None and sum(long) == self._held.shape[d]:
            return [*self._held.split(long, d)] if long else []
        return [self._held.narrow(d, k, n) for k, n in zip(self._offsets.tolist(), long)]

    def size(self, dim: int | None = None) -> Any:
        """The sizes, or that along one dimension."""
        return self.shape if dim is None else self.shape[wrap_dim(dim, self.ndim)]

    def stride(self, dim: int | None = None) -> Any:
        """The distances of neighbours among the values."""
        of = self._held.stride()
        all_: Any = (self.shape[self._ragged_idx] * of[self._ragged_idx - 1], *of)
        return all_ if dim is None else all_[wrap_dim(dim, self.ndim)]

    def inner_dim(self, dim: int, name: str, *, more: int = 0, ragged: bool = False) -> int:
        """The dimension of the values that is this one here, which is not along the parts, nor where they differ."""
        d = wrap_dim(dim, self.ndim + more)
        if d == 0 or (d == self._ragged_idx and not ragged):
            where = "dim=0" if d == 0 else "ragged dim"
            raise RuntimeError(f"{name}(): not supported for NestedTensor on {where}")
        return d - 1

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        history = f", grad_fn={self.grad_fn}" if self.grad_fn else ""
        history = history or (", requires_grad=True" if self.requires_grad else "")
        whole = self._lengths is None and self._held.is_contiguous()
        return f"NestedTensor(size={tuple(self.shape)}, offsets={self._offsets}{history}, contiguous={whole})"

    __str__ = __repr__

    def __tensor_flatten__(self) -> tuple[list[str], dict[str, Any]]:
        names = ["_values", "_offsets"] + ["_lengths"] * (self._lengths is not None)
        return names, {"requires_grad": self.requires_grad, "ragged_idx": self._ragged_idx}

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], meta: Any, size: Any, stride: Any) -> Jagged:
        values, offsets = itemgetter("_values", "_offsets")(inner)
        return Jagged(values, offsets, lengths=inner.get("_lengths"), _ragged_idx=meta["ragged_idx"])

    def told(self) -> Any:
        parts = self._held.detach(), self._offsets, self._lengths, self._ragged_idx, self.requires_grad
        return _jagged_again, parts


Jagged.__name__ = Jagged.__qualname__ = "NestedTensor"
Jagged.__module__ = f"{called.package}.nested._internal.nested_tensor"


def _jagged_again(values: Tensor, offsets: Tensor, lengths: Any, ragged: int, requires_grad: bool) -> Jagged:
    return Jagged(values, offsets, lengths=lengths, _ragged_idx=ragged, requires_grad=requires_grad)


def jagged_of(values: Tensor, offsets: Tensor, lengths: Tensor | None = None, ragged: int = 1) -> Jagged:
    """Values that are cut, the view of which has a node of its own."""
    return Jagged(named("NestedViewFromJagged", values), offsets, lengths=lengths, _ragged_idx=ragged)


def ends(lengths: Tensor) -> Tensor:
    """Offsets of parts of these lengths."""
    made = lengths.new_zeros(len(lengths) + 1, dtype=dtypes.int64)
    made[1:] = cumsum(lengths, 0)
    return made


def jagged_of_parts(parts: Sequence[Tensor]) -> Jagged:
    """Parts that differ along one dimension as one tensor."""
    if not parts:
        raise RuntimeError("Cannot construct a nested tensor from an empty tensor list")
    for of, words in (
        ("dtype", "have the same dtype"),
        ("device", "be on the same device"),
        ("ndim", "have the same dim"),
    ):
        if len({getattr(part, of) for part in parts}) > 1:
            raise RuntimeError(f"When constructing a nested tensor, all tensors in list must {words}")
    if not parts[0].ndim:
        raise RuntimeError("Cannot construct a nested tensor from a list of zero-dim tensors")
    differ = [d for d in range(parts[0].ndim) if len({part.shape[d] for part in parts}) > 1]
    if len(differ) > 1:
        raise RuntimeError(
            "Cannot represent given tensor list as a nested tensor with the jagged layout. Note that the jagged layout only allows for a "
            "single ragged dimension. For example: (B, *, D_0, D_1, ..., D_N), with ragged * dim."
        )
    d = differ[0] if differ else 0
    lengths = tensor([part.shape[d] for part in parts], device=parts[0].device)
    return jagged_of(cat([*parts], d), ends(lengths), None, d + 1)


# ---------------------------------------------------------------- with padding


def _shape_of(t: Nested) -> list[int]:
    """The sizes that hold all parts."""
    if isinstance(t, Jagged):
        return [t.longest() if d == t._ragged_idx else n for d, n in enumerate(t.shape)]
    assert isinstance(t, Strided)
    return [len(t), *[max(sizes) for sizes in zip(*t._sizes)]]


def _places(t: Nested, shape: Sequence[int]) -> Tensor:
    """Where in the padded tensor, flat but for the dimensions that no part differs in, each row of the values comes to stand."""
    if isinstance(t, Jagged):
        n, long = shape[t._ragged_idx], t.how_long().tolist()
        return tensor(
            [k * n + i for k, end in enumerate(long) for i in range(min(end, n))], dtype=dtypes.int64
        )
    assert isinstance(t, Strided)
    found: list[Tensor] = []
    for k, sizes in enumerate(t._sizes):
        at = tensor(k, dtype=dtypes.int64)
        for n, whole in zip(sizes, shape[1:]):
            at = at.unsqueeze(-1) * whole + tensor(range(n), dtype=dtypes.int64)
        found.append(at.reshape(-1))
    return cat(found)


def _taken(g: Tensor, at: Tensor, ragged: int) -> Tensor:
    """Of a padded tensor the rows of values, or, where no dimension is `ragged`, its elements."""
    if not ragged:
        return index_select(g.reshape(-1), 0, at)
    rows = g.movedim(ragged, 1).flatten(0, 1)
    return index_select(rows, 0, at).movedim(0, ragged - 1)


@differentiable("ToPaddedTensor", values=_taken)
def _put(values: Tensor, *, at: Tensor, ragged: int, shape: Ints, padding: Any) -> Tensor:
    if not ragged:
        return values.new_full((math.prod(shape),), padding).index_copy(0, at, values).reshape(shape)
    b, n = shape
    rows = values.movedim(ragged - 1, 0)
    whole = values.new_full((b * n, *rows.shape[1:]), padding).index_copy(0, at, rows)
    return whole.unflatten(0, (b, n)).movedim(1, ragged)


def padded(t: Nested, padding: Any, output_size: Any = None) -> Tensor:
    """All parts in one dense tensor, as large as the largest or as told, filled up with `padding`."""
    shape = _shape_of(t)
    if isinstance(t, Jagged):
        if t._lengths is not None:
            raise RuntimeError("to_padded_tensor(): not supported for nested tensors with holes")
        r = t._ragged_idx
        if output_size is not None:
            shape[r] = output_size[r]
        values = t._held
        if shape[r] < t.longest():  # what does not fit is left out
            kept = [
                o + i
                for o, n in zip(t._offsets.tolist(), t.how_long().tolist())
                for i in range(min(n, shape[r]))
            ]
            values = index_select(values, r - 1, tensor(kept, dtype=dtypes.int64, device=values.device))
        at = _places(t, shape).to(values.device)
        return _put(values, at=at, ragged=r, shape=(shape[0], shape[r]), padding=padding)
    if output_size is not None:
        if len(output_size) != len(shape):
            raise RuntimeError(
                "Length of output_size does not match NestedTensor dims. Broadcasting is not supported."
            )
        if any(n < least for n, least in zip(output_size, shape)):
            raise RuntimeError(
                "Value in output_size is less than NestedTensor padded size. Truncation is not supported."
            )
        shape = list(output_size)
    if not len(t):
        return t._held.new_full(shape, padding)
    at = _places(t, shape).to(t.device)
    return _put(t._held, at=at, ragged=0, shape=tuple(shape), padding=padding)


def of_padded(whole: Tensor, like: Jagged) -> Jagged:
    """Of a padded tensor the values, cut as those of `like`."""
    at = _places(like, whole.shape).to(whole.device)
    return like.with_values(_taken(whole, at, like._ragged_idx))
