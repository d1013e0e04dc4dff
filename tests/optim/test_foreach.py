"""`torch._foreach_*` beside PyTorch's."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from nbgrad import _foreach
from tests.support import T

CALLS: dict[str, Callable[[ModuleType, Callable[[], list[Any]]], Any]] = {
    "number": lambda t, a: t._foreach_add(a(), 1),
    "numbers": lambda t, a: t._foreach_mul(a(), [1, 2.5]),
    "lists": lambda t, a: t._foreach_sub(a(), a(), alpha=2),
    "tensor": lambda t, a: t._foreach_div(a(), t.tensor(2.0)),
    "in place": lambda t, a: t._foreach_add_(a(), a()),
    "base": lambda t, a: t._foreach_pow(2, a()),
    "exponents": lambda t, a: t._foreach_pow(a(), [2, 0.5]),
    "value": lambda t, a: t._foreach_addcdiv(a(), a(), a(), value=0.5),
    "values": lambda t, a: t._foreach_addcmul(a(), a(), a(), [0.5, 2]),
    "values of a tensor": lambda t, a: t._foreach_addcmul_(a(), a(), a(), t.tensor([0.5, 2])),
    "weight": lambda t, a: t._foreach_lerp(a(), a(), 0.5),
    "weights": lambda t, a: t._foreach_lerp_(a(), t._foreach_neg(a()), a()),
    "norms": lambda t, a: (
        t._foreach_norm(a()),
        t._foreach_norm(a(), 1),
        t._foreach_norm(a(), ord=float("inf")),
    ),
    "bounds": lambda t, a: (
        t._foreach_clamp_min(a(), 2),
        t._foreach_maximum(a(), [2, 5]),
        t._foreach_minimum_(a(), a()),
    ),
    "copy": lambda t, a: t._foreach_copy_(t._foreach_neg(a()), a()),
    "zero": lambda t, a: t._foreach_zero_(a()),
    "by name": lambda t, a: (
        t._foreach_mul_(a(), scalar=2),
        t._foreach_sub(a(), other=a(), alpha=3),
        t._foreach_maximum(a(), scalars=[2, 5]),
        t._foreach_pow(a(), exponent=[2, 3]),
        t._foreach_lerp_(a(), tensors1=a(), weight=0.5),
        t._foreach_addcmul(a(), tensor1=a(), tensor2=a(), value=2),
    ),
    "few numbers": lambda t, a: t._foreach_add(a(), [1]),
    "few tensors": lambda t, a: t._foreach_add(a(), a()[:1]),
    "nothing": lambda t, a: t._foreach_sqrt([]),
    "a tensor": lambda t, a: t._foreach_sqrt(a()[0]),
    "an element": lambda t, a: t._foreach_sqrt([3]),
}


def _shown(torch: ModuleType, call: Callable[..., Any]) -> Any:
    def make() -> list[Any]:
        return [torch.arange(3.0) + 1, torch.ones(2, 2) * 4]

    try:
        return str(call(torch, make))
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CALLS)
def test_gives_what_pytorch_gives(name: str, torch: ModuleType) -> None:
    assert _shown(T, CALLS[name]) == _shown(torch, CALLS[name])


@pytest.mark.oracle
@pytest.mark.parametrize("name", [f"_foreach_{n}" for n in _foreach._UNARY.split()])
def test_functions_of_one_list_are_pytorchs(name: str, torch: ModuleType) -> None:
    if name == "_foreach_zero":
        name = "_foreach_zero_"
    for end in {"", "_"} if f"{name}_" in _foreach.NAMES else {""}:
        call = lambda t, a: getattr(t, name + end)(t._foreach_mul(a(), 0.2))  # noqa: B023, E731
        assert _shown(T, call) == _shown(torch, call)


def test_history_is_kept() -> None:
    w = T.ones(2, requires_grad=True)
    a, b = T._foreach_mul([w, w], [2.0, 3.0])
    (a + b).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [5.0, 5.0]
