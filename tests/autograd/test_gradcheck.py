"""gradcheck finds what is wrong with a gradient, says it in PyTorch's words, and leaves its inputs alone."""

from typing import Any

import pytest

from tests.support import T

gradcheck, gradgradcheck = T.autograd.gradcheck, T.autograd.gradgradcheck


def values(*shape: int) -> Any:
    return (T.arange(1.0, 1.0 + 6)[: max(1, shape[0])] / 4).double().requires_grad_()


def function(backward: Any, forward: Any = None) -> Any:
    body = {"forward": staticmethod(forward or (lambda ctx, a: a * 4)), "backward": staticmethod(backward)}
    return type("Planted", (T.autograd.Function,), body).apply


@pytest.mark.parametrize("fast", [False, True])
def test_right_gradients_pass(fast: bool) -> None:
    a, b = values(3), values(1)
    before = a.tolist()
    assert gradcheck(lambda a, b: (a * b).exp(), (a, b), fast_mode=fast, check_batched_grad=True)
    assert gradcheck(lambda a, b: ((a * b).sin(), a.sum()), (a, b), fast_mode=fast)
    assert gradgradcheck(lambda a, b: (a * b).exp(), (a, b), fast_mode=fast)
    assert gradgradcheck(lambda a: a.sin(), (a,), gen_non_contig_grad_outputs=True)
    assert a.tolist() == before and a._version == 0


@pytest.mark.parametrize("fast", [False, True])
def test_a_wrong_gradient_is_found(fast: bool) -> None:
    a = values(3)
    with pytest.raises(
        RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0,\nnumerical:"
    ):
        gradcheck(function(lambda ctx, g: g), a, fast_mode=fast)
    assert gradcheck(function(lambda ctx, g: g), a, fast_mode=fast, raise_exception=False) is False


def test_a_wrong_second_order_is_found() -> None:
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx: Any, a: Any) -> Any:
            ctx.save_for_backward(a)
            return a * a

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (a,) = ctx.saved_tensors
            return g * 2 * a.detach()  # right, but to the second order constant

    assert gradcheck(Square.apply, values(3))
    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradgradcheck(Square.apply, values(3))


def test_what_backward_must_keep() -> None:
    a = values(2)
    with pytest.raises(
        RuntimeError, match=r"^Backward is not reentrant, i.e., running backward with same input"
    ):
        gradcheck(function(lambda ctx, g: g * 4 + 1e-9 * T.rand(2)), a)
    assert gradcheck(function(lambda ctx, g: g * 4 * (1 + 1e-9 * T.rand(2))), a, nondet_tol=1e-6)
    with pytest.raises(RuntimeError, match=r"^backward not multiplied by grad_output"):
        gradcheck(function(lambda ctx, g: g * 4 + 1e-9), a)

    def fragile(ctx: Any, a: Any) -> Any:
        ctx.set_materialize_grads(False)
        return a * 4

    with pytest.raises(TypeError):
        gradcheck(function(lambda ctx, g: g * 4, fragile), a)
    assert gradcheck(function(lambda ctx, g: None if g is None else g * 4, fragile), a)


def test_no_gradient_means_no_change() -> None:
    assert gradcheck(lambda a: T.sign(a), values(2))
    assert gradcheck(lambda a: (a * 2, a.long()), values(2))
    with pytest.raises(RuntimeError, match="Numerical gradient for function expected to be zero"):
        gradcheck(lambda a: a.detach() * 2, values(2))


def test_the_inputs_come_back_though_the_function_fails() -> None:
    a = values(2)
    before, calls = a.tolist(), []

    def third_time(a: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise KeyError
        return a * 2

    with pytest.raises(KeyError):
        gradcheck(third_time, a)
    assert a.tolist() == before


def test_strided_inputs() -> None:
    a = T.arange(6.0).double().reshape(2, 3).t().detach().requires_grad_()
    assert gradcheck(lambda a: (a * a).sum(0), a)
