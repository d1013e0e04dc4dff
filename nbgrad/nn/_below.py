"""What `torch` itself shows of losses, norms and look-ups: `torch.nn.functional`'s, with the arguments of PyTorch's kernels.

They stand in another order there, and a reduction is a number: 0 for a loss per element, 1 for their mean, 2 for their sum.
"""

from __future__ import annotations

from nbgrad.core.tensor import Tensor
from nbgrad.memory import layout
from nbgrad.nn import functional as F
from nbgrad.nn._norms import by_channel
from nbgrad.ops.linear.norms import vector_norm


def _word(reduction: int) -> str:
    """PyTorch takes any other number for 0."""
    return {1: "mean", 2: "sum"}.get(reduction, "none")


def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`F.batch_norm`, which refuses an `eps` of 0 and one value per channel.

    >>> torch.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0, False)
    tensor([[-1.],
            [ 1.]])
    """
    return by_channel(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """`F.instance_norm`.

    >>> torch.instance_norm(torch.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 0.0, False)
    tensor([[[-1.,  1.]]])
    """
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """`F.embedding`; where `padding_idx` is negative every row has its gradient.

    >>> torch.embedding(torch.tensor([[1.0], [2.0]]), torch.tensor([1, 0, 1])).tolist()
    [[2.0], [1.0], [2.0]]
    """
    padding = None if padding_idx < 0 else padding_idx
    found: Tensor = F.embedding(
        indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse
    )
    return found


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 0,
) -> Tensor:
    """`F.binary_cross_entropy_with_logits`.

    >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.tensor([0.0, 1.0]))
    tensor([0.6931, 0.6931])
    """
    return F.binary_cross_entropy_with_logits(
        input, target, weight, reduction=_word(reduction), pos_weight=pos_weight
    )


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """`F.kl_div`.

    >>> torch.kl_div(torch.zeros(2), torch.ones(2), 2)
    tensor(0.)
    """
    if reduction == 1:  # of which `F.kl_div` warns
        return F.kl_div(input, target, reduction="none", log_target=log_target).mean()
    return F.kl_div(input, target, reduction=_word(reduction), log_target=log_target)


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 0) -> Tensor:
    """`F.hinge_embedding_loss`.

    >>> torch.hinge_embedding_loss(torch.tensor([0.5, 0.5]), torch.tensor([1, -1]), 2.0, 0)
    tensor([0.5000, 1.5000])
    """
    return F.hinge_embedding_loss(input, target, margin, reduction=_word(reduction))


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`F.margin_ranking_loss`.

    >>> torch.margin_ranking_loss(torch.tensor([1.0]), torch.tensor([3.0]), torch.tensor([1.0]))
    tensor([2.])
    """
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_word(reduction))


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 0
) -> Tensor:
    """`F.cosine_embedding_loss`.

    >>> x = torch.tensor([[1.0, 0.0]])
    >>> torch.cosine_embedding_loss(x, x, torch.tensor([-1]))
    tensor([1.])
    """
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_word(reduction))


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """`F.poisson_nll_loss`.

    >>> torch.poisson_nll_loss(torch.zeros(2), torch.ones(2), True, False, 1e-8, 2)
    tensor(2.)
    """
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_word(reduction))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = 0,
) -> Tensor:
    """`F.triplet_margin_loss`.

    >>> x = torch.tensor([[1.0, 0.0]])
    >>> torch.triplet_margin_loss(x, x, x, margin=0.5)
    tensor([0.5000])
    """
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_word(reduction))


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of each slice along `dim`, by which `weight_norm` divides; of the whole for -1.

    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return vector_norm(v, pow)
    kept = layout.wrap_dim(dim, v.ndim)
    rest = [d for d in range(v.ndim) if d != kept]
    if not rest:
        return v.abs()
    return vector_norm(v, pow, rest, keepdim=True)


__all__ = [
    *("batch_norm", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "embedding"),
    *("hinge_embedding_loss", "instance_norm", "kl_div", "margin_ranking_loss", "norm_except_dim"),
    *("poisson_nll_loss", "triplet_margin_loss"),
]
