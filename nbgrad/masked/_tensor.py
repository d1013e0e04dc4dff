"""The masked tensor: data, and which elements of it are there.

Promises that what is masked reaches no result and no gradient: a gradient that leaves by `get_data`, or to what the tensor was made of, is
zero there, whatever the data is. Its history is that of the data.
"""

from __future__ import annotations

import warnings
from typing import Any, TypeGuard

from nbgrad._holding import Holding, held_in
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.memory import dtypes
from nbgrad.ops.pointwise.choices import where

_KINDS = frozenset(
    [
        *(dtypes.float16, dtypes.float32, dtypes.float64, dtypes.bool_),
        *(dtypes.int8, dtypes.int16, dtypes.int32, dtypes.int64),
    ]
)
_LAYOUTS = ("torch.strided", "torch.sparse_coo", "torch.sparse_csr")


class MaskedTensor(Holding):
    """A tensor in which a mask says which elements are there. It copies both, and is a leaf.

    >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False]))
    MaskedTensor(
      [  1.0000,       --]
    )
    """

    __slots__ = ("_mask",)
    _mask: Tensor
    _masked_data = property(lambda self: self._held)
    _masked_mask = property(lambda self: self._mask)

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        for name, given in (("data", data), ("mask", mask)):
            if not isinstance(given, Tensor) or isinstance(given, MaskedTensor):
                raise TypeError(f"{name} must be a Tensor")
        warnings.warn(
            "The PyTorch API of MaskedTensors is in prototype stage and will change in the near future. Please open a Github issue for "
            "features requests and see our documentation on the torch.masked module for further information about the project.",
            UserWarning,
            stacklevel=3,
        )
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. To avoid this, you can use "
                "data.detach().clone()",
                UserWarning,
                stacklevel=3,
            )
        _judge(data, mask)
        made = masked(data.detach().clone(), mask.clone())
        made.requires_grad = requires_grad
        return made

    layout = property(lambda self: self._held.layout, doc="How the data is stored.")
    is_sparse = property(
        lambda self: "sparse" in str(self.layout), doc="Whether the data is stored by index."
    )

    def is_sparse_coo(self) -> bool:
        """Whether the data is of layout `torch.sparse_coo`."""
        return str(self.layout) == "torch.sparse_coo"

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the data is of layout `torch.sparse_csr`."""
        return str(self.layout) == "torch.sparse_csr"

    def with_values(self, values: Tensor) -> MaskedTensor:
        """Other data that is there in the same places."""
        return masked(values, self._mask)

    def values_in(self, t: Any) -> Any:
        """What a tensor has as data, which is there in the same places."""
        if isinstance(t, MaskedTensor):
            if not same(self._mask, t._mask):
                raise ValueError("a and b must have matching masks")
            return t._held
        return t

    def get_data(self) -> Tensor:
        """The data, also what is masked. Of that no gradient comes back.

        >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False])).get_data()
        tensor([1., 2.])
        """
        return _seen(self._held, mask=self._mask) if self._held.requires_grad else self._held.detach()

    def get_mask(self) -> Tensor:
        """Which elements are there.

        >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False])).get_mask()
        tensor([ True, False])
        """
        return self._mask

    def to_tensor(self, value: Any) -> Tensor:
        """The data, and `value` in place of what is masked.

        >>> torch.masked.masked_tensor(torch.tensor([1.0, 2.0]), torch.tensor([True, False])).to_tensor(0)
        tensor([1., 0.])
        """
        return self.get_data().masked_fill(~self._mask, value)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self._held.detach(), self._mask
        if self.is_sparse:
            data, mask = data.to_dense(), mask.to_dense()
        if not data.ndim:
            shown = _text(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        inside = _lines(data.tolist(), mask.tolist(), data.ndim).replace("\n", "\n  ")
        return f"MaskedTensor(\n  {inside}\n)"

    __str__ = __repr__

    def told(self) -> Any:
        return _again, (self._held.detach(), self._mask, self.requires_grad)


def _again(data: Tensor, mask: Tensor, requires_grad: bool) -> MaskedTensor:
    made = masked(data, mask)
    made.requires_grad = requires_grad
    return made


def _text(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(data: Any, mask: Any, ndim: int) -> str:
    """Rows one below another, with dashes for what is masked."""
    if ndim > 1:
        rows = [_lines(d, m, ndim - 1).replace("\n", "\n  ") for d, m in zip(data, mask)]
        return "[\n" + ",\n".join([f"  {row}" for row in rows]) + "\n]"
    texts = [_text(d) for d in data]
    width = max([len(text) if there else 8 for text, there in zip(texts, mask)], default=8)
    return "[" + ", ".join([t if there else "--".rjust(width) for t, there in zip(texts, mask)]) + "]"


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two masks, of the same layout, say the same."""
    if a is b:
        return True
    if str(a.layout) != "torch.strided":
        a, b = a.to_dense(), b.to_dense()
    return a.shape == b.shape and bool((a == b).all())


def _judge(data: Tensor, mask: Tensor) -> None:
    if data.layout != mask.layout:
        raise TypeError("data and mask must have the same layout.")
    if str(data.layout) not in _LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if mask.dtype is not dtypes.bool_:
        raise TypeError("mask must have dtype bool.")
    if data.dtype not in _KINDS:
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.ndim != mask.ndim:
        raise ValueError("data.dim() must equal mask.dim()")
    if tuple(data.shape) != tuple(mask.shape):
        raise ValueError("data.size() must equal mask.size()")


def masked(data: Tensor, mask: Tensor) -> MaskedTensor:
    """Data of which these elements are there."""
    made = held_in(MaskedTensor, data, tuple(data.shape))
    made._mask = mask
    return made


def _cleaned(g: Tensor, mask: Tensor) -> Tensor:
    return where(mask, g, g.new_zeros(()))


@differentiable("GetData", data=_cleaned)
def _seen(data: Tensor, *, mask: Tensor) -> Tensor:
    return data.detach()


@differentiable("Constructor", data=_cleaned)
def _taken(data: Tensor, *, mask: Tensor) -> Tensor:
    return data.clone()


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A `MaskedTensor` with copies of `data` and `mask`, a leaf.

    >>> torch.masked.masked_tensor(torch.tensor([3.0, 4.0]), torch.tensor([True, False])).sum()
    MaskedTensor(  3.0000, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A `MaskedTensor` of `data`, to which gradients flow: zero for what is masked.

    >>> torch.masked.as_masked_tensor(torch.tensor([1.0, 0.0]), torch.tensor([True, False])).log().sum()
    MaskedTensor(  0.0000, True)
    """
    for name, given in (("data", data), ("mask", mask)):
        if not isinstance(given, Tensor) or isinstance(given, MaskedTensor):
            raise TypeError(f"{name} must be a Tensor")
    _judge(data, mask)
    return masked(_taken(data, mask=mask) if data.requires_grad else data.clone(), mask.clone())


def is_masked_tensor(obj: Any, /) -> TypeGuard[MaskedTensor]:
    """Whether something is a `MaskedTensor`.

    >>> torch.masked.is_masked_tensor(torch.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)
