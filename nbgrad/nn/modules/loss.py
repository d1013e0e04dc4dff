"""Losses as modules."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import Device
from nbgrad.memory.dtypes import dtype
from nbgrad.nn import functional as F
from nbgrad.nn._reduction import told
from nbgrad.nn.modules.distance import PairwiseDistance
from nbgrad.nn.modules.linear import Linear
from nbgrad.nn.modules.linear_cross_entropy_options import LinearCrossEntropyOptions
from nbgrad.nn.modules.module import Module


class _Loss(Module):
    reduction: str

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        older = size_average is not None or reduce is not None
        self.reduction = told(size_average, reduce) if older else reduction


class _WeightedLoss(_Loss):
    """A weight per class (or element), which the module keeps as a buffer."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """The absolute values of `input - target`, their mean by default; `reduction="sum"` adds them, `"none"` keeps them, in the
    common shape.

    >>> nn.L1Loss()(torch.tensor([1.0, 4.0]), torch.tensor([0.0, 1.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """The squares of `input - target`, their mean by default; `reduction="sum"` adds them, `"none"` keeps them, in the common shape.

    >>> nn.MSELoss()(torch.tensor([1.0, 4.0]), torch.tensor([0.0, 1.0]))
    tensor(5.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """With `d = input - target`, `d**2 / (2 * beta)` where `|d| < beta`, else `|d| - beta / 2`; their mean by default. Input and
    target have one shape.

    >>> nn.SmoothL1Loss(reduction="none")(torch.tensor([0.5, 4.0]), torch.zeros(2))
    tensor([0.1250, 3.5000])
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """With `d = input - target`, `d**2 / 2` where `|d| < delta`, else `delta * (|d| - delta / 2)`; their mean by default. Input and
    target have one shape.

    >>> nn.HuberLoss("none", delta=2.0)(torch.tensor([0.5, 4.0]), torch.zeros(2))
    tensor([0.1250, 6.0000])
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        if not isinstance(delta, (float, int)):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """`target * (log(target) - input)`, where `input` holds log-probabilities and `target` probabilities (with `log_target`,
    logarithms too). `reduction="batchmean"` gives the divergence per row; "mean", the default, is over all elements. One shape
    for both.

    >>> loss = nn.KLDivLoss(reduction="batchmean")
    >>> loss(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.25, 0.75]]))
    tensor(0.1308)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class GaussianNLLLoss(_Loss):
    """`(log(var) + (input - target)**2 / var) / 2`, for targets drawn from normal distributions with mean `input` and variance
    `var`, which counts as at least `eps`; their mean by default. `full` adds the constant.

    >>> nn.GaussianNLLLoss()(torch.tensor([2.0]), torch.tensor([4.0]), torch.tensor([2.0]))
    tensor(1.3466)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class PoissonNLLLoss(_Loss):
    """`exp(input) - target * input`, for counts whose rate has the logarithm `input`; with `log_input=False` the input is the rate
    itself. Their mean by default.

    >>> nn.PoissonNLLLoss()(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 3.0]))
    tensor(0.3591)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class SoftMarginLoss(_Loss):
    """`log(1 + exp(-target * input))` for targets of 1 and -1, their mean by default. Input and target have one shape.

    >>> nn.SoftMarginLoss()(torch.tensor([2.0, 2.0]), torch.tensor([1.0, -1.0]))
    tensor(1.1269)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """The input where the target is 1, `max(0, margin - input)` where that is -1; their mean by default. The input is a distance, in
    any shape.

    >>> nn.HingeEmbeddingLoss()(torch.tensor([0.25, 0.25]), torch.tensor([1.0, -1.0]))
    tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """`max(0, -target * (input1 - input2) + margin)`: a target of 1 says that the first should be higher, -1 the second. Three
    tensors of one shape; the mean by default.

    >>> nn.MarginRankingLoss()(torch.tensor([3.0, 1.0]), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 1.0]))
    tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class BCELoss(_WeightedLoss):
    """`-(target * log(input) + (1 - target) * log(1 - input))` for probabilities `input`; the mean by default. Each logarithm counts
    as at least -100. Input and target have one shape, `weight` multiplies.

    >>> nn.BCELoss()(torch.tensor([0.9, 0.9]), torch.tensor([1.0, 0.0]))
    tensor(1.2040)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """`BCELoss` of `sigmoid(input)`, computed so that nothing overflows; the mean by default. `pos_weight` multiplies what targets
    of 1 contribute. Input and target have one shape.

    >>> nn.BCEWithLogitsLoss()(torch.tensor([0.0, -200.0]), torch.tensor([1.0, 1.0]))
    tensor(100.3466)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class NLLLoss(_WeightedLoss):
    """Minus the log-probability of the right class. The input is [batch, classes, ...] (or [classes]), the target [batch, ...] (or a
    single number); the mean is weighted by `weight` of the classes, and leaves out targets that are `ignore_index`.

    >>> logp = torch.tensor([[0.2, 0.8], [0.5, 0.5]]).log()
    >>> nn.NLLLoss()(logp, torch.tensor([1, 0]))
    tensor(0.4581)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(
            input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class NLLLoss2d(NLLLoss):
    """`NLLLoss` under its older name, which warns.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     loss = nn.NLLLoss2d()
    >>> loss(torch.full((1, 2, 1, 1), -1.0), torch.zeros(1, 1, 1, dtype=torch.int64))
    tensor(1.)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement and see "
            "https://pytorch.org/docs/main/nn.html#torch.nn.NLLLoss for more details.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """`NLLLoss` of `LogSoftmax` in one: the input holds any numbers, [batch, classes, ...] or [classes], the target the right
    classes without that dimension, or probabilities in the input's shape. The mean by default.

    >>> nn.CrossEntropyLoss()(torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([1, 0]))
    tensor(0.4100)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class CTCLoss(_Loss):
    """Of sequences of labels of which it is not known at which steps they stand: `F.ctc_loss` of log-probabilities [steps, batch,
    classes], labels, and how many steps and labels each example has. The mean, of losses per label, by default.

    >>> log_probs = torch.zeros(2, 1, 2).log_softmax(2)
    >>> nn.CTCLoss()(log_probs, torch.tensor([[1]]), torch.tensor([2]), torch.tensor([1]))
    tensor(0.2877)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """A `Linear` layer and the `CrossEntropyLoss` of what it gives in one. With `out_features` the scores have these dimensions
    behind the classes.

    >>> nn.LinearCrossEntropyLoss(3, 5)(torch.ones(2, 3), torch.tensor([1, 4])).shape
    torch.Size([])
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Device | None = None,
        dtype: dtype | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight=weight, reduction=reduction)
        self.num_classes, self.out_features, self.options = num_classes, out_features, options
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*shape, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        names = (
            "num_classes",
            "out_features",
            "bias",
            "reduction",
            "ignore_index",
            "label_smoothing",
            "options",
        )
        values = vars(self) | {"bias": self.linear.bias is not None}
        return f"in_features={self.linear.in_features}, " + ", ".join(f"{n}={values[n]}" for n in names)


class CosineEmbeddingLoss(_Loss):
    """1 less the cosine of two vectors where the target is 1, `max(0, cosine - margin)` where that is -1. Inputs [batch, features],
    targets [batch], or without a batch; the mean by default.

    >>> nn.CosineEmbeddingLoss()(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), torch.tensor(1))
    tensor(0.2929)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """`max(0, |anchor - positive| - |anchor - negative| + margin)`, by the norm `p` along the last dimension. Three tensors [batch,
    features] or [features]; the mean by default.

    >>> nn.TripletMarginLoss()(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]), torch.tensor([0.0, 5.5]))
    tensor(0.5000)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin} instead")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        options = self.margin, self.p, self.eps, self.swap
        return F.triplet_margin_loss(anchor, positive, negative, *options, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` by any `distance_function(x, y)` of two tensors, without one by `PairwiseDistance()`.

    >>> loss = nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().amax(-1))
    >>> loss(torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]), torch.tensor([0.0, 4.5]))
    tensor(0.5000)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(None, None, reduction)
        if margin <= 0:
            raise ValueError(
                f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin} instead"
            )
        self.distance_function = distance_function if distance_function is not None else PairwiseDistance()
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class MultiMarginLoss(_WeightedLoss):
    """Of a row of [batch, classes], the sum over wrong classes j of `max(0, margin - input[c] + input[j])**p` over the number of
    classes, c being the target and `p` 1 or 2; the mean over rows by default. Targets are [batch].

    >>> nn.MultiMarginLoss()(torch.tensor([[0.1, 0.2, 0.4]]), torch.tensor([2]))
    tensor(0.5000)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead"
            )
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """By how much the right classes, which a row of the target lists up to the first -1, lead the others by less than 1, over the
    number of classes. Both are [batch, classes] or [classes]; the mean over rows by default.

    >>> nn.MultiLabelMarginLoss()(torch.tensor([2.0, 0.5, 1.5]), torch.tensor([0, -1, -1]))
    tensor(0.1667)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """`BCEWithLogitsLoss` of each class, as a mean over classes (the last dimension), then over rows. Targets are 0 or 1, in the
    input's shape.

    >>> nn.MultiLabelSoftMarginLoss()(torch.tensor([[2.0, -1.0]]), torch.tensor([[1.0, 0.0]]))
    tensor(0.2201)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LinearCrossEntropyLoss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "NLLLoss2d",
    "PoissonNLLLoss",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]
