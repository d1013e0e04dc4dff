"""Tables of vectors."""

from __future__ import annotations

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional as F
from nbgrad.nn import init
from nbgrad.nn._made import empty
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter


class Embedding(Module):
    """The rows of `weight`, [num_embeddings, embedding_dim], that integers name: [...] becomes [..., embedding_dim]. The row
    `padding_idx` begins as zeros and gets no gradient; with `max_norm`, rows that are longer are shortened in place when they are
    named.

    >>> table = nn.Embedding(6, 2, padding_idx=0)
    >>> table(torch.tensor([[1, 5, 0]])).shape
    torch.Size([1, 3, 2])
    >>> table(torch.tensor([0])).detach()
    tensor([[0., 0.]])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None:
            if (
                padding_idx >= num_embeddings
                if padding_idx > 0
                else padding_idx < 0 and padding_idx < -num_embeddings
            ):
                raise AssertionError("Padding_idx must be within num_embeddings")
            if padding_idx < 0:
                padding_idx += num_embeddings
        self.num_embeddings, self.embedding_dim, self.padding_idx = (
            num_embeddings,
            embedding_dim,
            padding_idx,
        )
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            made = empty((num_embeddings, embedding_dim), device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not _freeze)
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draw the table anew from a normal distribution, but for the row `padding_idx`, which is 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        shown = f"{self.num_embeddings}, {self.embedding_dim}"
        shown += f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        shown += f", max_norm={self.max_norm}" if self.max_norm is not None else ""
        shown += f", norm_type={self.norm_type}" if self.norm_type != 2 else ""
        shown += (
            f", scale_grad_by_freq={self.scale_grad_by_freq}" if self.scale_grad_by_freq is not False else ""
        )
        return shown + (", sparse=True" if self.sparse is not False else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """An `Embedding` around a table that is there already, [rows, columns]; it is trained only with `freeze=False`.

        >>> nn.Embedding.from_pretrained(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))(torch.tensor([1]))
        tensor([[3., 4.]])
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(Module):
    """Of bags of integers, the mean of the rows of `weight`, [num_embeddings, embedding_dim], that each names; or with `mode` their
    "sum" or the largest elements ("max"). Bags are the rows of a two-dimensional input, or the parts of a line that begin at
    offsets. The row `padding_idx` does not count.

    >>> table = nn.EmbeddingBag(6, 2, mode="sum")
    >>> table(torch.tensor([[1, 5], [2, 2]])).shape, table(torch.tensor([1, 5, 2]), torch.tensor([0, 1])).shape
    (torch.Size([2, 2]), torch.Size([2, 2]))
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device | None = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < max(num_embeddings, 1):
                raise AssertionError("padding_idx must be within num_embeddings")
            padding_idx += num_embeddings if padding_idx < 0 else 0
        self.padding_idx = padding_idx
        if _weight is None:
            self.weight = Parameter(empty((num_embeddings, embedding_dim), device=device, dtype=dtype))
            self.reset_parameters()
        else:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(_weight)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    def reset_parameters(self) -> None:
        """Draw the table anew from a normal distribution, but for the row `padding_idx`, which is 0."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        shown = f"{self.num_embeddings}, {self.embedding_dim}"
        shown += f", max_norm={self.max_norm!r}" if self.max_norm is not None else ""
        shown += f", norm_type={self.norm_type!r}" if self.norm_type != 2 else ""
        if self.scale_grad_by_freq is not False:
            shown += f", scale_grad_by_freq={self.scale_grad_by_freq!r}"
        shown += f", mode={self.mode!r}"
        return shown + (f", padding_idx={self.padding_idx!r}" if self.padding_idx is not None else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """An `EmbeddingBag` around a table that is there already, [rows, columns]; it is trained only with `freeze=False`.

        >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> nn.EmbeddingBag.from_pretrained(table)(torch.tensor([[0, 1]]))
        tensor([[2., 3.]])
        """
        if embeddings.dim() != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        rows, columns = embeddings.shape
        made = cls(
            rows,
            columns,
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        made.weight.requires_grad = not freeze
        return made


__all__ = ["Embedding", "EmbeddingBag"]
