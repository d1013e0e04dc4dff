"""Gradients of each example by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from nbgrad.autograd._vmap import vmap
from nbgrad.core.pytree import tree_flatten, tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.nn.modules.module import Module
from nbgrad.nn.utils.stateless import _functional_call


def _examples(given: Any, at: int) -> int:
    found = None
    for t in tree_flatten(given)[0]:
        if not isinstance(t, Tensor):
            continue
        if found not in (None, t.shape[at]):
            raise RuntimeError(
                f"When computing batch size, found at least one input with batch size {found} and one with batch size {t.shape[at]}. "
                "Please specify it explicitly using the batch size kwarg in call_for_per_sample_grads"
            )
        found = t.shape[at]
    if found is None:
        raise RuntimeError(
            "Unable to find a tensor in the passed args and kwargs. They may not be pytree-able and so ExpandedWeights cannot compute the "
            "batch size from the inputs. Please specify it explicitly"
        )
    return int(found)


def _keep(parameter: Any, factor: int, each: Tensor) -> None:
    """What has come of each example, where users look for it."""
    got: Any = each.grad
    each.grad = None
    before = getattr(parameter, "grad_sample", None)
    scaled = got * factor if factor != 1 else got
    parameter.grad_sample = scaled if before is None else before + scaled


def call_for_per_sample_grads(
    module: Any, *, batch_size: int | None = None, loss_reduction: str = "sum", batch_first: bool = True
) -> Callable[..., Any]:
    """A function that calls the module. When something is computed from its result and `backward` called, each parameter has the gradients
    of all examples, one by one, as `grad_sample`, and no `grad`. With `loss_reduction="mean"` they are those of the examples' own losses.

    >>> from torch.nn.utils._per_sample_grad import call_for_per_sample_grads
    >>> layer = torch.nn.Linear(3, 2)
    >>> call_for_per_sample_grads(layer)(torch.ones(5, 3)).sum().backward()
    >>> layer.weight.grad_sample.shape, layer.weight.grad
    (torch.Size([5, 2, 3]), None)
    """
    if loss_reduction not in ("sum", "mean"):
        raise RuntimeError(f"Expected loss_reduction argument to be sum or mean, got {loss_reduction}")
    if not isinstance(module, Module):
        raise RuntimeError(f"Module passed must be nn.Module, got {type(module).__name__}")
    if not (batch_size is None or isinstance(batch_size, int)):
        raise RuntimeError(f"Batch size passed must be None or an integer, got {type(batch_size).__name__}")
    if batch_size is not None and batch_size < 1:
        raise RuntimeError(f"Batch size must be positive, got {batch_size}")
    for weight in module.parameters():
        if getattr(weight, "grad_sample", None) is not None:
            raise RuntimeError(
                "Current Expanded Weights accumulates the gradients, which will be incorrect for multiple calls without clearing "
                f"gradients. Please clear out the grad_sample parameter of {weight} or post an issue to pytorch/pytorch to prioritize "
                "correct behavior"
            )
    at = 0 if batch_first else 1

    @wraps(module.forward)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        n = _examples((args, kwargs), at) if batch_size is None else batch_size
        each: dict[str, Tensor] = {}
        for name, p in module.named_parameters():
            if p.requires_grad:
                each[name] = p.detach().expand(n, *p.shape).requires_grad_()
                each[name].register_post_accumulate_grad_hook(
                    partial(_keep, p, n if loss_reduction == "mean" else 1)
                )

        def one(values: Any, args: Any, kwargs: Any) -> Any:
            args, kwargs = tree_map(_alone, (args, kwargs))
            return tree_map(
                lambda t: t.squeeze(at) if isinstance(t, Tensor) else t,
                _functional_call(module, values, args, kwargs),
            )

        def _alone(t: Any) -> Any:
            return t.unsqueeze(at) if isinstance(t, Tensor) else t

        dims = tree_map(lambda t: at if isinstance(t, Tensor) else None, (args, kwargs))
        return vmap(one, in_dims=(0, *dims), out_dims=at, randomness="different")(each, args, kwargs)

    return wrapper


__all__ = ["call_for_per_sample_grads"]
