"""`nn.init` and `nn.utils`, against PyTorch under one seed."""

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.compare import assert_same, outcome
from tests.support import T

Fill = Callable[[ModuleType], Any]
FILLS: dict[str, Fill] = {
    "uniform_": lambda t: t.nn.init.uniform_(t.empty(3, 5), -1, 2),
    "normal_": lambda t: t.nn.init.normal_(t.empty(5, 7), 1, 2),
    "normal_ of few": lambda t: t.nn.init.normal_(t.empty(3), 1, 2),
    "trunc_normal_": lambda t: t.nn.init.trunc_normal_(t.empty(10, 20)),
    "trunc_normal_ far out": lambda t: t.nn.init.trunc_normal_(t.empty(10, 20), 0, 1, 2, 3),
    "constant_": lambda t: t.nn.init.constant_(t.empty(2, 3), 0.3),
    "ones_": lambda t: t.nn.init.ones_(t.empty(2)),
    "zeros_": lambda t: t.nn.init.zeros_(t.empty(2)),
    "eye_": lambda t: t.nn.init.eye_(t.empty(2, 3)),
    "dirac_": lambda t: t.nn.init.dirac_(t.empty(4, 2, 3)),
    "dirac_ in groups": lambda t: t.nn.init.dirac_(t.empty(4, 2, 3, 3), 2),
    "xavier_uniform_": lambda t: t.nn.init.xavier_uniform_(t.empty(3, 5), 2.0),
    "xavier_normal_": lambda t: t.nn.init.xavier_normal_(t.empty(3, 5, 2)),
    "kaiming_uniform_": lambda t: t.nn.init.kaiming_uniform_(t.empty(3, 5), nonlinearity="relu"),
    "kaiming_normal_": lambda t: t.nn.init.kaiming_normal_(t.empty(4, 5), 0.1, "fan_out"),
    "orthogonal_": lambda t: t.nn.init.orthogonal_(t.empty(4, 6), 2),
    "orthogonal_ tall": lambda t: t.nn.init.orthogonal_(t.empty(6, 2, 2)),
    "sparse_": lambda t: t.nn.init.sparse_(t.empty(5, 4), 0.4),
    "of a parameter": lambda t: t.nn.init.ones_(t.nn.Parameter(t.empty(2))).is_leaf,
    "with a generator": lambda t: t.nn.init.uniform_(t.empty(4), generator=t.Generator().manual_seed(3)),
    "gains": lambda t: [
        *(t.nn.init.calculate_gain(k) for k in ("linear", "conv2d", "sigmoid", "tanh", "relu", "selu")),
        *(t.nn.init.calculate_gain("leaky_relu", p) for p in (None, 0.2, 1)),
    ],
    "no such gain": lambda t: t.nn.init.calculate_gain("cosine"),
    "no such slope": lambda t: t.nn.init.calculate_gain("leaky_relu", True),
    "fans of a vector": lambda t: t.nn.init.xavier_uniform_(t.empty(3)),
    "no such mode": lambda t: t.nn.init.kaiming_uniform_(t.empty(3, 3), mode="fan"),
    "nothing to fill": lambda t: t.nn.init.kaiming_uniform_(t.empty(0, 3)),
    "eye_ of three": lambda t: t.nn.init.eye_(t.empty(2, 3, 4)),
    "dirac_ of two": lambda t: t.nn.init.dirac_(t.empty(2, 3)),
    "dirac_, groups": lambda t: t.nn.init.dirac_(t.empty(3, 3, 3), 2),
    "orthogonal_ of one": lambda t: t.nn.init.orthogonal_(t.empty(3)),
    "sparse_ of one": lambda t: t.nn.init.sparse_(t.empty(3), 0.1),
    "trunc_normal_ aside": lambda t: t.nn.init.trunc_normal_(t.empty(3), 9),
    "old name": lambda t: t.nn.init.uniform(t.empty(3)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", FILLS)
def test_fill(torch: ModuleType, name: str) -> None:
    found = []
    for module in (T, torch):
        module.manual_seed(0)
        found.append(outcome(lambda m=module: FILLS[name](m)))
    assert_same(*found, name)


def grads(t: ModuleType) -> list[Any]:
    ps = [t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.ones(2, 2)), t.nn.Parameter(t.ones(1))]
    for k, p in enumerate(ps[:2]):
        p.grad = t.ones_like(p) * (k + 3)
    return ps


UTILS: dict[str, Fill] = {
    "norm": lambda t: [t.nn.utils.clip_grad_norm_(ps := grads(t), 1.0), [p.grad for p in ps]],
    "norm, longest": lambda t: [
        t.nn.utils.clip_grad_norm_(ps := grads(t), 1.0, float("inf")),
        [p.grad for p in ps],
    ],
    "norm of one": lambda t: [t.nn.utils.clip_grad_norm_(p := grads(t)[0], 100.0, 1), p.grad],
    "no gradients": lambda t: t.nn.utils.clip_grad_norm_([t.ones(1)], 1.0),
    "no parameters": lambda t: t.nn.utils.clip_grad_norm_((p for p in []), 1.0),
    "values": lambda t: [t.nn.utils.clip_grad_value_(ps := grads(t), 3.5), [p.grad for p in ps]],
    "total": lambda t: t.nn.utils.get_total_norm([p.grad for p in grads(t)[:2]], 3),
    "not finite": lambda t: t.nn.utils.get_total_norm([t.ones(1) / 0], error_if_nonfinite=True),
    "scaled by a norm": lambda t: [
        t.nn.utils.clip_grads_with_norm_(ps := grads(t), 1.0, t.tensor(10.0)),
        [p.grad for p in ps],
    ],
    "vector": lambda t: t.nn.utils.parameters_to_vector(grads(t)),
    "from a vector": lambda t: [
        t.nn.utils.vector_to_parameters(t.arange(7.0), ps := grads(t)),
        [p.detach() for p in ps],
    ],
    "from a list": lambda t: t.nn.utils.vector_to_parameters([1.0], grads(t)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", UTILS)
def test_utils(torch: ModuleType, name: str) -> None:
    got, want = (outcome(lambda m=module: UTILS[name](m)) for module in (T, torch))
    assert_same(got, want, name)


def test_clipping_keeps_directions() -> None:
    p = T.nn.Parameter(T.tensor([1.0, 1.0]))
    p.grad = T.tensor([3.0, 4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert T.nn.utils.clip_grad_norm_([p], 1.0).item() == 5
    assert p.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)
