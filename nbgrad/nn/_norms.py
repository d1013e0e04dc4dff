"""Normalisation as functions: PyTorch's checks in front of the programs over rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.core.plan import plan_for
from nbgrad.core.tensor import Tensor, uncounted, wrap
from nbgrad.dispatch.prepared import call_of, settled_by
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.dispatch.stanza import stanza
from nbgrad.history.record import check_untrained
from nbgrad.memory.dtypes import dtype, finfo, float32
from nbgrad.memory.layout import wrap_dim
from nbgrad.memory.storage import Marked, Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.reduce.sums import mean
from nbgrad.ops.rows import normalise
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.views.shape import reshape
from nbgrad.tape.modes import shared, state


def _own(name: str, input: Any, normalized_shape: Any) -> tuple[int, ...]:
    """The shape that is normalised over."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if not isinstance(normalized_shape, Sequence):
        raise TypeError(
            f"{name}(): argument 'normalized_shape' (position 2) must be tuple of ints, not "
            f"{type(normalized_shape).__name__}"
        )
    return tuple([int(n) for n in normalized_shape])


def _spec(t: Tensor | None) -> Spec | None:
    return None if t is None else t._spec.plain


@cached(4096)
def _check_shapes(
    name: str, input: Spec, own: tuple[int, ...], weight: Spec | None, bias: Spec | None
) -> None:
    """Refuse what does not fit; what does is looked at once."""
    if not own:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for word, sp in (("weight", weight), ("bias", bias)):
        if sp is not None and tuple(sp.shape) != own:
            raise RuntimeError(
                f"Expected {word} to be of same shape as normalized_shape, but got {word} of shape {list(sp.shape)} and "
                f"normalized_shape = {list(own)}"
            )
    if name == "rms_norm" and input.ndim < len(own):
        raise ValueError(f"Input tensor must have at least {len(own)} dimensions, but got {input.ndim}")
    if tuple(input.shape)[-len(own) :] != own:
        start = "*" if name == "rms_norm" else "*, "  # each function's own words
        raise RuntimeError(
            f"Given normalized_shape={list(own)}, expected input with shape [{start}{', '.join(map(str, own))}], but got input "
            f"of size{list(input.shape)}"
        )
    kernel = "rms_norm" if name == "rms_norm" else "LayerNormKernelImpl"
    d = input.dtype
    if not (d.is_floating_point or (d.is_complex and name == "rms_norm")):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")
    if name != "rms_norm":
        check_mixed(d, (weight, bias))


def check_mixed(d: dtype, parameters: Sequence[Spec | Tensor | None], read: Sequence[int] = ()) -> None:
    """Refuse parameters of another dtype than the input's; but beside an input of a narrow dtype all may be float32. By the first that
    there is PyTorch tells which of the two is meant; `read` is the order in which it then comes to them."""
    given = [t.dtype for t in parameters if t is not None]
    if given.count(d) == len(given):
        return
    if given[0] is not d:
        if any(own is not float32 for own in given):
            raise RuntimeError("mixed dtype (CPU): expect parameter to have scalar type of Float")
        if not d.narrow:
            raise RuntimeError("mixed dtype (CPU): all inputs must share same datatype.")
        return
    for t in [parameters[k] for k in read] or parameters:
        if t is not None and t.dtype is not d:
            raise RuntimeError(f"expected scalar type {d.scalar_name} but found {t.dtype.scalar_name}")


@settled_by("weight", "bias")
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Any:
    """Mean 0 and variance 1 over the last dimensions, whose sizes are `normalized_shape`: `(x - mean) / sqrt(var + eps) * weight +
    bias`, the variance being that of the numbers themselves (over n). `weight` and `bias` have the shape `normalized_shape`.

    >>> F.layer_norm(torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 6.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247],
            [-0.7071, -0.7071,  1.4142]])
    """
    own = _own("layer_norm", input, normalized_shape)
    _check_shapes("layer_norm", input._spec.plain, own, _spec(weight), _spec(bias))
    return call_of(normalise.layer_norm, input, weight, bias, dims=len(own), eps=float(eps))


def _all_three(
    input: Spec, normalized_shape: Any, weight: Spec | None, bias: Spec | None, eps: Any
) -> Quick | None:
    """What gives all three results of operands of one dtype."""
    if (
        input.dtype.narrow
        or not input.numel
        or not all(t is None or t.dtype is input.dtype for t in (weight, bias))
    ):
        return None
    dims = len(normalized_shape)
    stands = [None if t is None else wrap(None, t) for t in (input, weight, bias)]
    run = normalise.layer_norm.at(*stands, dims=dims, eps=float(eps)).run  # type: ignore[attr-defined]
    kept = input.like((*input.shape[: input.ndim - dims], *(1,) * dims))

    def found(*tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x, *more = tensors
        got, mean, rstd = run(x, more.pop(0) if weight else None, more.pop() if bias else None)
        return got, wrap(mean._buf, kept), wrap(rstd._buf, kept)

    return found


@quickly(_all_three, devices=True)
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """What `torch.layer_norm` gives, the mean of each row, and 1 over the root of its variance plus `eps`.

    >>> y, mean, rstd = torch.native_layer_norm(torch.tensor([[1.0, 3.0]]), (2,), None, None, 0.0)
    >>> y, mean, rstd
    (tensor([[-1.,  1.]]), tensor([[2.]]), tensor([[1.]]))
    """
    own = _own("native_layer_norm", input, normalized_shape)
    _check_shapes("native_layer_norm", input._spec.plain, own, _spec(weight), _spec(bias))
    got, mean, rstd = normalise.layer_norm(input, weight, bias, dims=len(own), eps=float(eps))
    if 0 in own:
        mean = zeros(mean._spec)  # where the root of the variance is not a number
    shape = (*input._spec.shape[: input.ndim - len(own)], *(1,) * len(own))
    if all(t is None or t.dtype is input.dtype for t in (weight, bias)):
        mean, rstd = to_dtype(mean, input.dtype), to_dtype(rstd, input.dtype)
    return got, reshape(mean, shape), reshape(rstd, shape)


@settled_by("weight")
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Any:
    """Divided by the root of the mean square over the last dimensions, whose sizes are `normalized_shape`: `x / sqrt(mean(x**2) +
    eps) * weight`. Without `eps` it is the smallest step from 1 in the dtype that it is computed in, float32 for those of 16 bits.

    >>> F.rms_norm(torch.tensor([3.0, 4.0]), (2,))
    tensor([0.8485, 1.1314])
    """
    own = _own("rms_norm", input, normalized_shape)
    _check_shapes("rms_norm", input._spec.plain, own, _spec(weight), None)
    if input.dtype.is_complex:
        square = mean(e.mul(input, input), tuple(range(-len(own), 0)), True)
        scaled = e.mul(input, e.rsqrt(e.add(square, finfo(input.dtype).eps if eps is None else eps)))
        return scaled if weight is None else e.mul(scaled, weight)
    d = input.dtype
    exact = float32 if d.narrow else d
    eps = float(finfo(exact).eps) if eps is None else float(eps)
    if weight is not None and weight.dtype is not d and weight.dtype is not exact:
        return to_dtype(e.mul(rms_norm(to_dtype(input, exact), own, None, eps), weight), d)
    return call_of(normalise.rms_norm, input, weight, dims=len(own), eps=eps)


def _by_statistics(
    input: Spec, weight: Spec | None, bias: Spec | None, mean: Spec | None, var: Spec | None, eps: float
) -> Quick | None:
    return (
        None
        if mean is None or var is None
        else normalise.batch_norm_by(input, weight, bias, mean, var, float(eps))
    )


@quickly(_by_statistics, devices=True)
def _evaluated(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    eps: float,
) -> Tensor:
    return by_channel(input, mean, var, weight, bias, False, 0.0, eps)


@quickly(devices=True)
def _by_the_batch(input: Tensor, weight: Tensor | None, bias: Tensor | None, eps: float) -> Tensor:
    _check_trained(input, eps)
    return by_channel(input, None, None, weight, bias, True, 0.0, eps)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 for each channel (dimension 1): `(x - mean) / sqrt(var + eps) * weight + bias`. With `training` mean and
    variance are the batch's, and the running ones, where given, move towards them by the share `momentum`; else the running ones
    are used. The running variance is over n - 1.

    >>> x, mean, var = torch.tensor([[1.0], [3.0]]), torch.zeros(1), torch.ones(1)
    >>> F.batch_norm(x, mean, var, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    >>> mean, var
    (tensor([0.2000]), tensor([1.1000]))
    """
    if not training:
        if eps < 0:
            raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
        return _evaluated(input, weight, bias, running_mean, running_var, eps)
    if running_mean is running_var is None:
        return _by_the_batch(input, weight, bias, eps)
    _check_trained(input, eps)
    return by_channel(input, running_mean, running_var, weight, bias, training, momentum, eps)


def by_channel(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Tensor:
    """What remains of it behind the checks that PyTorch's Python makes."""
    given = (input, running_mean, running_var, weight, bias)
    key = (training, *[None if t is None else t._spec for t in given])
    if key not in _fitting:
        _check_by_channel(*given, training)
        if Marked not in map(type, key):
            _fitting.keep(key, True)
    check_untrained("native_batch_norm", running_mean=running_mean, running_var=running_var)
    if not training:
        fixed: Tensor = normalise.batch_norm_fixed(
            input, weight, bias, running_mean, running_var, eps=float(eps)
        )
        return fixed
    got: Tensor
    got, mean, _, variance = normalise.batch_norm(input, weight, bias, eps=float(eps))
    channels = mean.numel()
    n = input.numel() // max(channels, 1)
    momentum = float(momentum)
    # As in PyTorch, a batch of nothing tells nothing, and these writes are not counted: a graph that read the old statistics stays usable.
    if n and running_mean is not None and running_var is not None:
        _follow(running_mean, mean, 1 - momentum, momentum)
        _follow(running_var, variance, 1 - momentum, momentum * n / max(n - 1, 1))
    return got


# What nothing was refused of: whether it trains, and all specs.
_fitting: Table[Any, bool] = Table("nn._norms.fitting", PLANS)
_followed = stanza(
    lambda kept, now, rest, share: kept * rest + share * now,
    name="batch_norm_followed",
    settings=("rest", "share"),
    method=False,
    shared=False,
)


def _follow(kept: Tensor, now: Tensor, rest: float, share: float) -> None:
    """`kept = rest * kept + share * now`, not counted."""
    storage = kept._storage
    if kept._spec.dtype.narrow:  # rounded once
        kept = uncounted(kept)
        kept.copy_(kept.float().mul_(rest).add_(now, alpha=share))
    elif state.active or shared.rare or kept._spec.repeats or (storage is not None and storage.inference):
        uncounted(kept).mul_(rest).add_(now, alpha=share)
    else:
        plan = plan_for(_followed.op, (kept._spec, now._spec, float, float), kept._spec)
        plan.launch(plan.address, plan.n, kept._buf, now._buf, rest, share)


def _check_by_channel(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    training: bool,
) -> None:
    channels = input.shape[1] if input.ndim > 1 else 0
    for word, t in (("running_mean", running_mean), ("running_var", running_var)):
        if t is None and not training:
            raise RuntimeError(f"{word} must be defined in evaluation mode")
    named = (("running_mean", running_mean), ("running_var", running_var), ("weight", weight), ("bias", bias))
    for word, t in named:
        if t is not None and t.numel() != channels:
            raise RuntimeError(f"{word} should contain {channels} elements not {t.numel()}")
    d = input.dtype
    wrap_dim(1, input.ndim)
    if not d.is_floating_point:
        raise NotImplementedError(f"\"batch_norm\" not implemented for '{d.scalar_name}'")
    if training and (running_mean is None) != (running_var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")
    check_mixed(d, (weight, bias, running_mean, running_var), (2, 3, 0, 1) if training else ())


def _check_trained(input: Tensor, eps: float) -> None:
    _several_values(tuple(input.shape))
    if eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")


def _several_values(shape: tuple[int, ...]) -> None:
    per_channel = shape[0]
    for n in shape[2:]:
        per_channel *= n
    if per_channel == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size torch.Size({list(shape)})"
        )


__all__ = ["batch_norm", "layer_norm", "rms_norm"]
