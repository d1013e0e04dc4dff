"""Values on the host: conversions, arrays, truth, copies and pickles."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from tests.compare import outcome
from tests.support import T

REFUSED = {
    "T.ones(3).item()": "RuntimeError: a Tensor with 3 elements cannot be converted to Scalar",
    "T.ones(0).item()": "RuntimeError: a Tensor with 0 elements cannot be converted to Scalar",
    "bool(T.ones(2))": "RuntimeError: Boolean value of Tensor with more than one value is ambiguous",
    "bool(T.ones(0))": "RuntimeError: Boolean value of Tensor with no values is ambiguous",
    "float(T.ones(2))": "ValueError: only one element tensors can be converted to Python scalars",
    "range(3)[T.tensor(1.0)]": "TypeError: only integer tensors of a single element can be converted to an index",
    "len(T.tensor(1.0))": "TypeError: len() of a 0-d tensor",
    "list(T.tensor(1.0))": "TypeError: iteration over a 0-d tensor",
    "'a' in T.ones(2)": "RuntimeError: Tensor.__contains__ only supports Tensor or scalar, "
    "but you passed in a <class 'str'>.",
    "T.equal(T.ones(1), 1)": "TypeError: equal(): argument 'other' (position 2) must be Tensor, not int",
    "T.isclose(T.ones(1), T.ones(1).double())": "RuntimeError: Float did not match Double",
    "T.allclose(T.ones(1), T.ones(1), rtol=-1)": "RuntimeError: rtol must be greater than or equal to zero, but got -1",
    "T.ones(2, requires_grad=True).resize_(3)": "RuntimeError: cannot resize variables that require grad",
}


@pytest.mark.parametrize("call", REFUSED)
def test_refused(call: str) -> None:
    assert outcome(lambda: eval(call, {"T": T})) == REFUSED[call]


def test_numbers() -> None:
    assert [T.tensor(v).item() for v in (1.5, 2, True)] == [1.5, 2, True]
    assert [type(T.tensor(v).item()) for v in (1.5, 2, True)] == [float, int, bool]
    assert (float(T.tensor([[2]])), int(T.tensor(2.7)), complex(T.tensor(2.0))) == (2.0, 2, 2 + 0j)
    assert range(5)[T.tensor([3])] == 3
    assert f"{T.tensor(1.25):.1f}" == "1.2"
    assert 1.0 in T.tensor([0.0, 1.0])
    assert 2.0 not in T.tensor([0.0, 1.0])
    assert T.ones(2, 0).tolist() == [[], []]
    assert T.tensor([[1, 2], [3, 4]]).t().tolist() == [[1, 3], [2, 4]]


def test_float_of_a_tensor_that_requires_grad_warns() -> None:
    x = T.tensor(2.0, requires_grad=True)
    with pytest.warns(UserWarning, match="Converting a tensor with requires_grad=True to a scalar"):
        assert float(x) == 2.0
    assert x.item() == 2.0
    assert int(x) == 2


@pytest.mark.filterwarnings("ignore:__array__")
def test_arrays_share_memory() -> None:
    x = T.arange(6.0).reshape(2, 3)
    a = x.t().numpy()
    a[2, 0] = 7
    assert x[0, 2].item() == 7
    assert np.shares_memory(np.asarray(x[1]), a)
    assert not np.shares_memory(np.array(x), a)
    assert np.asarray(x, dtype=np.int64).dtype == np.int64
    assert T.ones(2, requires_grad=True).numpy(force=True).tolist() == [1, 1]


def test_comparison() -> None:
    nan = T.tensor([1.0, float("nan"), float("inf")])
    assert not T.equal(nan, nan)
    assert T.allclose(nan, nan, equal_nan=True)
    assert T.isclose(nan, nan).tolist() == [True, False, True]
    assert T.isclose(T.tensor([1, 2]), T.tensor([1, 3]), atol=1).tolist() == [True, True]
    assert T.equal(T.ones(2), T.ones(2, dtype=T.int64))
    assert not T.equal(T.ones(2), T.ones(1))


def test_nonzero() -> None:
    x = T.tensor([[0.0, 1.0], [2.0, 0.0]])
    assert x.nonzero().tolist() == [[0, 1], [1, 0]]
    assert [i.tolist() for i in T.nonzero(x, as_tuple=True)] == [[0, 1], [1, 0]]
    assert [i.tolist() for i in T.where(x > 1)] == [[1], [0]]
    assert tuple(T.tensor(3.0).nonzero().shape) == (1, 0)


def leaf() -> Any:
    x = T.arange(6.0).reshape(2, 3).t().requires_grad_()
    x.grad = T.ones(3, 2)
    x.note = ["kept"]
    return x


def test_deepcopy() -> None:
    x = leaf()
    y, again = copy.deepcopy([x, x])
    assert y is again
    assert y.requires_grad
    assert y.is_leaf
    assert y.stride() == x.stride()
    assert T.equal(y.grad, x.grad)
    assert y.grad is not x.grad
    assert y.note == ["kept"]
    assert y.note is not x.note
    with T.no_grad():
        y.zero_()
    assert x.sum().item() == 15
    base = T.arange(3.0)
    whole, part = copy.deepcopy((base, base[1:]))
    whole[1] = 9
    assert part.tolist() == [9, 2]
    assert outcome(lambda: copy.deepcopy(x * 2)).startswith(
        "RuntimeError: Only Tensors created explicitly by the user"
    )


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    x = leaf()
    for t in (x, x * 2):
        y = pickle.loads(pickle.dumps(t, protocol))
        assert T.equal(y, t)
        assert (y.requires_grad, y.is_leaf, y.grad, y.stride()) == (True, True, None, t.stride())
        with T.no_grad():
            y.add_(1)
    assert pickle.loads(pickle.dumps(x, protocol)).note == ["kept"]
    for t in (T.ones(0, 2), T.tensor(True), T.tensor([3], dtype=T.int32)):
        y = pickle.loads(pickle.dumps(t, protocol))
        assert (y.tolist(), y.dtype, y.shape) == (t.tolist(), t.dtype, t.shape)


def test_copy_shares_memory() -> None:
    x = T.zeros(2)
    y = copy.copy(x)
    y[0] = 1
    assert x.tolist() == [1, 0]


def test_resize() -> None:
    x = T.arange(4.0)
    assert x.resize_(2).tolist() == [0, 1]
    assert x.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    x.resize_(3, 3)
    assert x.reshape(-1)[:4].tolist() == [0, 1, 2, 3]
    assert x.untyped_storage().nbytes() == 36


def test_a_copy_of_a_tensor_warns_of_better_ways() -> None:
    with pytest.warns(UserWarning, match=r"rather than tensor.new_tensor\(sourceTensor\)"):
        assert T.ones(1).new_tensor(T.ones(2)).shape == (2,)
    with pytest.warns(UserWarning, match=r"rather than torch.tensor\(sourceTensor\)"):
        T.tensor(T.ones(2))
