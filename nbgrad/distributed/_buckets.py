"""What a hook of communication gets: gradients that lie one after the other, to be made one of all processes."""

from __future__ import annotations

from nbgrad.core.tensor import Tensor


class GradBucket:
    """Gradients of one dtype that are sent together. `buffer()` is the memory of all of them, `gradients()` are views of it.

    >>> def hook(state, bucket: torch.distributed.GradBucket): ...
    """

    def __init__(
        self, index: int, buffer: Tensor, views: list[Tensor], parameters: list[Tensor], last: bool
    ) -> None:
        self._index, self._buffer, self._views = index, buffer, views
        self._parameters, self._last = parameters, last

    def index(self) -> int:
        """The how-manieth it is of this backward."""
        return self._index

    def buffer(self) -> Tensor:
        """All gradients, in one dimension."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Let another tensor take its place."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """Each of them, in its parameter's shape."""
        return self._views

    def parameters(self) -> list[Tensor]:
        """The parameters whose gradients they are."""
        return self._parameters

    def is_last(self) -> bool:
        """Whether none comes after it in this backward."""
        return self._last
