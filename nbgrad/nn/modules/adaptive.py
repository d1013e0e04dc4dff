"""A softmax over very many classes, most of them rare."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.nn.functional import log_softmax
from nbgrad.nn.modules.container import ModuleList, Sequential
from nbgrad.nn.modules.linear import Linear
from nbgrad.nn.modules.module import Module
from nbgrad.ops.views.join import cat


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The log-probability of each example's class, and the mean loss, where classes are sorted by how often they come: those below
    `cutoffs[0]` have an output each, those between two cutoffs one output together and a smaller network of their own, which is
    computed for their examples only. Each next network's inner size is `div_value` times smaller.

    >>> loss = nn.AdaptiveLogSoftmaxWithLoss(8, n_classes=20, cutoffs=[4, 10], div_value=2.0)
    >>> output, mean = loss(torch.ones(3, 8), torch.tensor([0, 5, 19]))
    >>> output.shape, torch.allclose(mean, -output.mean())
    (torch.Size([3]), True)
    >>> loss.log_prob(torch.ones(1, 8)).exp().sum().round()
    tensor(1., grad_fn=<RoundBackward0>)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Device | None = None,
        dtype: _dtype | None = None,
    ) -> None:
        super().__init__()
        ends = list(cutoffs)
        if not ends:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        whole = all(int(c) == c for c in ends)
        if not whole or ends != sorted(set(ends)) or ends[0] <= 0 or ends[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value is "
                "between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = (
            in_features,
            n_classes,
            div_value,
            head_bias,
        )
        self.cutoffs = [*ends, n_classes]
        self.shortlist_size, self.n_clusters = ends[0], len(ends)
        self.head_size = self.shortlist_size + self.n_clusters
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **made)
        self.tail = ModuleList()
        for k, (first, stop) in enumerate(pairwise(self.cutoffs)):
            inner = int(in_features // div_value ** (k + 1))
            layers = (
                Linear(in_features, inner, bias=False, **made),
                Linear(inner, stop - first, bias=False, **made),
            )
            self.tail.append(Sequential(*layers))

    def reset_parameters(self) -> None:
        """Draw all weights anew, as at the start.

        >>> nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2], 2.0).reset_parameters()
        """
        self.head.reset_parameters()
        layers: Any = self.tail
        for inner, outer in layers:
            inner.reset_parameters()
            outer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        if target_.dim() == 1:
            if input_.size(0) != target_.size(0):
                raise RuntimeError("Input and target should have the same size in the batch dimension.")
            if input_.dim() != 2:
                raise RuntimeError(
                    f"1D target tensor expects 2D input tensors, but found inputs with size {input_.size()}"
                )
        elif target_.dim() == 0:
            if input_.dim() != 1:
                raise RuntimeError(
                    f"0D target tensor expects 1D input tensors, but found inputs with size {input_.size()}"
                )
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        batched = target_.dim() > 0
        input, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        output, place, seen = input.new_zeros(target.size(0)), target.clone(), 0
        for k, (first, stop) in enumerate(pairwise([0, *self.cutoffs])):
            here = ((target >= first) & (target < stop)).nonzero().squeeze(1)
            seen += here.numel()
            if k == 0 or not here.numel():
                continue
            place.index_fill_(0, here, self.shortlist_size + k - 1)
            inside = log_softmax(self.tail[k - 1](input.index_select(0, here)), dim=1)
            own = inside.gather(1, (target.index_select(0, here) - first).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, here, own)
        if seen != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        head = log_softmax(self.head(input), dim=1)
        output = output + head.gather(1, place.unsqueeze(1)).squeeze()
        loss = (-output).mean()
        return _ASMoutput(output if batched else output.squeeze(0), loss)

    def _whole(self, input: Tensor, head: Tensor) -> Tensor:
        """Log-probabilities of all classes, from the outputs of the head."""
        first = log_softmax(head, dim=1)
        parts = [first[:, : self.shortlist_size]]
        for k, tail in enumerate(self.tail):
            cluster = first[:, self.shortlist_size + k].unsqueeze(1)
            parts.append(log_softmax(tail(input), dim=1) + cluster)
        return cat(parts, dim=1)

    def log_prob(self, input: Tensor) -> Tensor:
        """Log-probabilities of all classes: [N, in_features] becomes [N, n_classes].

        >>> nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2], 2.0).log_prob(torch.ones(3, 4)).shape
        torch.Size([3, 6])
        """
        return self._whole(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The likeliest class of each example; the smaller networks run only for those whose head's choice is one of them.

        >>> nn.AdaptiveLogSoftmaxWithLoss(4, 6, [2], 2.0).predict(torch.ones(3, 4)).shape
        torch.Size([3])
        """
        head = self.head(input)
        output: Tensor = head.argmax(dim=1)
        rare = (output >= self.shortlist_size).nonzero().squeeze(1)
        if rare.numel():
            output[rare] = self._whole(input[rare], head[rare]).argmax(dim=1)
        return output


__all__ = ["AdaptiveLogSoftmaxWithLoss"]
