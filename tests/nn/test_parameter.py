"""Parameters: a class of leaf; what is computed from one is a plain tensor."""

import copy
import pickle

import pytest

from tests.support import T

Parameter = T.nn.Parameter


def test_shares_memory_and_requires_grad() -> None:
    data = T.ones(2)
    p = Parameter(data)
    assert isinstance(p, T.Tensor) and p.requires_grad and p.is_leaf
    assert p.data_ptr() == data.data_ptr()
    assert repr(p) == str(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert repr(Parameter(data, requires_grad=False)) == "Parameter containing:\ntensor([1., 1.])"


def test_of_a_result_is_a_leaf() -> None:
    p = Parameter(T.ones(2, requires_grad=True) * 2)
    assert p.is_leaf and p.grad_fn is None


def test_without_data_is_empty() -> None:
    assert Parameter().shape == (0,)


def test_ops_give_plain_tensors_and_gradients_reach_it() -> None:
    p = Parameter(T.ones(2, 2))
    for result in (p * 2, 2 * p, p @ p, p.t(), p.detach(), p.data, p.clone(), p[0], p.sum()):
        assert type(result) is T.Tensor
    (p * p).sum().backward()
    assert type(p.grad) is T.Tensor and p.grad.tolist() == [[2, 2], [2, 2]]
    with T.no_grad():
        assert p.sub_(p.grad) is p
    assert type(p) is Parameter and p.tolist() == [[-1, -1], [-1, -1]]
    assert p.requires_grad_(False) is p


def test_integers_cannot_be_trained() -> None:
    with pytest.raises(
        RuntimeError, match=r"^Only Tensors of floating point and complex dtype can require gradients$"
    ):
        Parameter(T.ones(2, dtype=T.int64))
    assert Parameter(T.ones(2, dtype=T.int64), requires_grad=False).dtype is T.int64


def test_copies_stay_parameters() -> None:
    p = Parameter(T.ones(2))
    for other in (copy.deepcopy(p), pickle.loads(pickle.dumps(p))):
        assert type(other) is Parameter and other.requires_grad
        assert other.tolist() == [1, 1] and other.data_ptr() != p.data_ptr()
