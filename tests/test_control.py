"""Conditions, loops and arithmetic of sizes, for programs that PyTorch traces."""

import pytest

import nbgrad as torch


def test_a_condition_is_looked_at() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    for sign, gradient in ((1, x.cos()), (-1, -x.sin())):
        made = torch.cond(sign * x.sum() > 0, torch.sin, torch.cos, (x,))
        (found,) = torch.autograd.grad(made.sum(), x)
        assert torch.equal(found, gradient)
    with pytest.raises(
        RuntimeError, match=r"Expected pred to be bool or single-element tensor, but got tensor\("
    ):
        torch.cond(x > 0, torch.sin, torch.cos, (x,))
    with pytest.raises(RuntimeError, match=r"Expected pred to be bool or tensor, but got a\."):
        torch.cond("a", torch.sin, torch.cos, (x,))


def test_a_loop_carries() -> None:
    x = torch.tensor(1.5, requires_grad=True)
    count, made = torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), (torch.tensor(0), x))
    made.backward()
    assert count == 3 and x.grad == 8 * 1.5**7
    with pytest.raises(
        RuntimeError, match=r"pair\[0\] differ in 'shape: torch.Size\(\[2\]\) vs torch.Size\(\[1\]\)'"
    ):
        torch.while_loop(lambda i: i.sum() < 2, lambda i: torch.cat([i, i]), (torch.ones(1),))
    with pytest.raises(RuntimeError, match="different lengths: 2 and 1"):
        torch.while_loop(lambda i: i < 2, lambda i: (i + 1, i), (torch.tensor(0),))


def test_arithmetic_of_sizes() -> None:
    """What PyTorch gave."""
    assert (torch.sym_max(1, 2.0), torch.sym_min(3, 2), torch.sym_int(-2.7)) == (2.0, 2, -2)
    assert type(torch.sym_max(2, 1.0)) is float and type(torch.sym_min(3, 2)) is int
    assert (torch.sym_sum((1, 2.5)), torch.sym_sum(1, 2), torch.sym_sum([])) == (3.5, 3, 0)
    assert torch.sym_not(0) is True and torch.sym_sqrt(4) == 2.0 and torch.sym_float(3) == 3.0
    with pytest.raises(AssertionError, match="type mismatch: <class 'int'> vs <class 'float'>"):
        torch.sym_ite(True, 1, 2.0)
    with pytest.raises(AssertionError, match="expected SymBool or bool, got <class 'int'>"):
        torch.sym_ite(1, 1, 2)
