"""Operators under `torch.ops.aten`: schemas and results beside PyTorch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import nbgrad as T
from tests import aten


def test_operators_are_values() -> None:
    ops = T.ops.aten
    assert (
        ops.add is ops.add
        and ops.add.Tensor is ops.add.Tensor
        and copy.deepcopy(ops.add.Tensor) is ops.add.Tensor
    )
    assert {ops.add: 1, ops.mm.default: 2}[T.ops.aten.mm.default] == 2 and ops.add in {ops.add}
    assert (str(ops.mm), repr(ops.mm.default)) == (
        "aten.mm",
        "<OpOverload(op='aten.mm', overload='default')>",
    )
    assert ops.add.Tensor.overloadpacket is ops.add and ops.add.Tensor.name() == "aten::add.Tensor"
    assert ops.view.default.is_view and not ops.add_.Tensor.is_view and ops.add_.Tensor._schema.is_mutable
    assert "mm" in dir(ops) and "mm" in list(ops)


@pytest.mark.parametrize(
    "name", ["binary_cross_entropy_with_logits", "hinge_embedding_loss", "kl_div", "margin_ranking_loss"]
)
def test_losses_are_means_where_nothing_is_said(name: str) -> None:
    """As the schemas say; of the functions that `torch` shows by these names each element is the result, in PyTorch too."""
    tensors = [T.rand(3) for _ in range(3 if name == "margin_ranking_loss" else 2)]
    each = getattr(T, name)(*tensors)
    assert each.shape == (3,) and T.equal(getattr(T.ops.aten, name)(*tensors), each.mean())
    assert T.equal(getattr(T.ops.aten, name)(*tensors, reduction=2), each.sum())


def test_what_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'nope'"):
        _ = T.ops.aten.nope
    with pytest.raises(AttributeError, match=r"The underlying op of 'aten\.mm' has no overload name 'nope'"):
        _ = T.ops.aten.mm.nope
    with pytest.raises(NotImplementedError, match=r"nbgrad has no torch\.ops\.prims"):
        _ = T.ops.prims.add


@pytest.mark.oracle
def test_schemas_are_pytorchs(torch: Any) -> None:
    assert aten.main(["--check"]) == 0
    for name in dir(T.ops.aten):
        ours, theirs = getattr(T.ops.aten, name), getattr(torch.ops.aten, name)
        known = ours.overloads()
        assert [o for o in theirs.overloads() if o in known] == known
        for overload in known:
            assert str(getattr(ours, overload)._schema) == str(getattr(theirs, overload)._schema)


WRONG = """
mm(1, 2)
mm(x)
mm.default(x)
mm.default(x, x, 3)
mm.default(x, x, foo=3)
mm.default(x, self=x)
sum.dim_IntList(x, 1.5)
view(x, 2, 2)
view.default(x, "a")
relu.default("a")
cat.default(x)
cat.default([x, 1])
pow.Tensor_Scalar(x, x)
"""


@pytest.mark.oracle
def test_refusals_are_pytorchs(torch: Any) -> None:
    def said(t: Any, text: str) -> str:
        with pytest.raises(RuntimeError) as caught:
            eval(f"ops.{text}", {"ops": t.ops.aten, "x": t.ones(2, 2)})
        return str(caught.value)

    for line in WRONG.split("\n")[1:-1]:
        ours, theirs = said(T, line), said(torch, line)
        if line.partition("(")[0].count("."):
            assert ours.replace("nbgrad.Tensor", "torch.Tensor") == theirs, line
        else:  # PyTorch goes on with overloads that are not here
            assert ours.splitlines()[:7] == theirs.splitlines()[:7], line


@pytest.mark.oracle
def test_results_are_pytorchs(torch: Any) -> None:
    """A few of the operators that PyTorch's samples come to; all of them by `python -m tests.aten --replay`."""
    names = (
        "nn.functional.cross_entropy",
        "nn.functional.layer_norm",
        "nn.functional.gelu",
        "nn.functional.conv2d",
    )
    names += ("index_put", "nn.functional.max_pool2d", "nn.functional.batch_norm", "nn.functional.group_norm")
    names += (
        "nn.functional.scaled_dot_product_attention",
        "nn.functional.interpolate",
        "nn.functional.pad",
        "tensor_split",
    )
    ran, told = aten.replay(2, names)
    assert not told, told
    assert {
        "aten.convolution_backward.default",
        "aten.native_layer_norm_backward.default",
        "aten.slice.Tensor",
    } <= ran
