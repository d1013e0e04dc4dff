"""Operators of the user's own: what scenes do not show."""

from __future__ import annotations

from typing import Any

import pytest

import nbgrad as T


def test_what_it_writes_to_keeps_its_history() -> None:
    @T.library.custom_op("ours::add_one", mutates_args={"x"})
    def add_one(x: T.Tensor) -> None:
        x.add_(1)

    leaf = T.ones(2, requires_grad=True)
    add_one(leaf)
    assert leaf.tolist() == [2.0, 2.0] and leaf.is_leaf
    inner = leaf * 2
    add_one(inner)
    assert inner.grad_fn is not None and inner.grad_fn.name() == "MulBackward0" and inner._version == 2
    with pytest.raises(RuntimeError, match="the fallback path doesn't work on out= or view ops"):
        T.vmap(lambda t: add_one(t) or t)(T.ones(2, 3))


def test_vmap_without_a_rule_goes_one_by_one() -> None:
    @T.library.custom_op("ours::rooted", mutates_args=())
    def rooted(x: T.Tensor, y: T.Tensor) -> tuple[T.Tensor, T.Tensor]:
        return T.from_numpy(x.numpy() ** 0.5), x + y

    @T.library.custom_op("ours::listed", mutates_args=())
    def listed(x: T.Tensor) -> list[T.Tensor]:
        return [x.clone()]

    x = T.arange(6.0).reshape(3, 2)
    with pytest.warns(UserWarning, match="not yet implemented the batching rule for ours::rooted"):
        a, b = T.vmap(rooted, in_dims=(1, None))(x, T.ones(3))
    assert a.tolist() == x.sqrt().t().tolist() and b.tolist() == (x + 1).t().tolist()
    with pytest.raises(RuntimeError, match="We could not generate a fallback"):
        T.vmap(listed)(x)


def test_dispatch_of_one_operator() -> None:
    from nbgrad.utils._python_dispatch import BaseTorchDispatchMode

    class Mode(BaseTorchDispatchMode):
        pass

    @T.library.custom_op("ours::same", mutates_args=())
    def same(x: T.Tensor) -> T.Tensor:
        return x.clone()

    @same.register_torch_dispatch(Mode)
    def _(mode: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return func(*args) + 1

    with Mode():
        assert same(T.ones(1)).tolist() == [2.0]
    assert same(T.ones(1)).tolist() == [1.0]
    with pytest.raises(RuntimeError, match="already has a `__torch_dispatch__` implementation"):
        same.register_torch_dispatch(Mode, lambda *_: None)
