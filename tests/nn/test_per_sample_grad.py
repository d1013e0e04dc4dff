"""Gradients of each example by itself, beside those of a loop."""

from typing import Any

import pytest

from tests.support import T


def _call(*args: Any, **named: Any) -> Any:
    from nbgrad.nn.utils._per_sample_grad import call_for_per_sample_grads

    return call_for_per_sample_grads(*args, **named)


def _module() -> Any:
    T.manual_seed(0)
    nn = T.nn
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3), nn.LayerNorm(3))


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_each_example_has_the_gradients_that_it_has_alone(reduction: str) -> None:
    module = _module()
    x = T.rand(5, 1, 4, 4)
    loss = getattr(_call(module, loss_reduction=reduction)(x).pow(2), reduction)()
    loss.backward()
    found = [p.grad_sample for p in module.parameters()]
    assert all(p.grad is None for p in module.parameters())
    for k in range(5):
        module.zero_grad()
        getattr(module(x[k : k + 1]).pow(2), reduction)().backward()
        for p, each in zip(module.parameters(), found, strict=True):
            assert T.allclose(each[k], p.grad, rtol=1e-4, atol=1e-6)


def test_what_is_frozen_has_none_and_a_second_call_is_refused() -> None:
    layer = T.nn.Linear(3, 2)
    layer.bias.requires_grad_(False)
    _call(layer, batch_first=False)(T.ones(2, 4, 3)).sum().backward()
    assert layer.weight.grad_sample.shape == (4, 2, 3) and not hasattr(layer.bias, "grad_sample")
    with pytest.raises(RuntimeError, match="Please clear out the grad_sample"):
        _call(layer)
    layer.weight.grad_sample = None
    with pytest.raises(RuntimeError, match="at least one input with batch size 2 and one with batch size 4"):
        _call(layer)((T.ones(2, 3), T.ones(4, 3)))
