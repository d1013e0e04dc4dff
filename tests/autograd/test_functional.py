"""Jacobians and Hessians: closed forms, the nesting of tuples, who owns a result's graph, and PyTorch's words of refusal."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support import T

F = T.autograd.functional

A = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
X = np.array([0.5, -1.0, 2.0])
Y = np.array([1.5, 0.25])
U = np.array([2.0, -3.0])
V = np.array([1.0, 0.5, -0.25])


def tensor(values: Any, module: ModuleType = T) -> Any:
    return module.tensor(np.asarray(values).tolist(), dtype=module.float64)


def close(found: Any, expected: Any) -> None:
    """The same values in the same nesting of tuples."""
    if isinstance(expected, tuple):
        assert isinstance(found, tuple) and len(found) == len(expected)
        for f, e in zip(found, expected):
            close(f, e)
    else:
        expected = np.asarray(expected)
        assert tuple(found.shape) == expected.shape
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12, atol=1e-14)


# ---------------------------------------------------------------- closed forms


def linear(x: Any) -> Any:
    return tensor(A) @ x


def quadratic(x: Any) -> Any:
    return (linear(x) ** 2).sum()


HESSIAN = 2 * A.T @ A


def test_products_with_the_jacobian() -> None:
    close(F.vjp(linear, tensor(X), tensor(U)), (A @ X, U @ A))
    close(F.jvp(linear, tensor(X), tensor(V)), (A @ X, A @ V))
    close(F.vjp(lambda x: x.exp().sin(), tensor(X), tensor(V)), (np.sin(np.exp(X)), V * slope_of_sin_exp(X)))
    close(F.jvp(lambda x: x.exp().sin(), tensor(X), tensor(V)), (np.sin(np.exp(X)), V * slope_of_sin_exp(X)))


def slope_of_sin_exp(x: Any) -> Any:
    return np.cos(np.exp(x)) * np.exp(x)


def test_products_with_the_hessian() -> None:
    value = (A @ X) @ (A @ X)
    for product in (F.vhp, F.hvp):
        close(product(quadratic, tensor(X), tensor(V)), (value, HESSIAN @ V))


def test_no_vector_for_one_number() -> None:
    one = T.tensor([2.0])
    close(F.vjp(lambda x: x**3, one), ([8.0], [12.0]))
    close(F.jvp(lambda x: x**3, one), ([8.0], [12.0]))
    close(F.vhp(lambda x: x**3, one), ([8.0], [12.0]))
    close(F.hvp(lambda x: x**3, one), ([8.0], [12.0]))


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian(vectorize: bool) -> None:
    def both(x: Any, y: Any) -> Any:
        return x * y.sum(), y.prod()

    x, y = tensor(X), tensor(Y)
    close(F.jacobian(linear, x, vectorize=vectorize), A)
    close(F.jacobian(lambda x: x.sum(), x, vectorize=vectorize), np.ones(3))
    found = F.jacobian(both, (x, y), vectorize=vectorize)
    expected = (
        (np.eye(3) * Y.sum(), np.repeat(X[:, None], 2, 1)),
        (np.zeros(3), Y[::-1]),
    )
    close(found, expected)
    close(F.jacobian(lambda x: both(x, y), x, vectorize=vectorize), (expected[0][0], expected[1][0]))
    close(F.jacobian(lambda x: (linear(x),), (x,), vectorize=vectorize), ((A,),))
    columns = F.jacobian(lambda m: m.t(), tensor(A), vectorize=vectorize)
    close(columns, np.einsum("il,jk->ijkl", np.eye(3), np.eye(2)))


@pytest.mark.parametrize("vectorize", [False, True])
def test_hessian(vectorize: bool) -> None:
    x, y = tensor(X), tensor(Y)
    close(F.hessian(quadratic, x, vectorize=vectorize), HESSIAN)
    close(F.hessian(lambda x: quadratic(x).reshape(1, 1), (x,), vectorize=vectorize), ((HESSIAN,),))
    close(
        F.hessian(lambda x, y: (x**2).sum() * y.prod(), (x, y), vectorize=vectorize),
        (
            (2 * np.eye(3) * Y.prod(), np.outer(2 * X, Y[::-1])),
            (np.outer(Y[::-1], 2 * X), (X @ X) * (1 - np.eye(2))),
        ),
    )


def test_what_does_not_depend_has_zeros() -> None:
    x, y = tensor(X), tensor(Y)
    close(F.vjp(lambda x, y: x.sum(), (x, y), tensor(2.0))[1], (2 * np.ones(3), np.zeros(2)))
    close(F.jvp(lambda x: (x.detach(), y), x, tensor(V))[1], (np.zeros(3), np.zeros(2)))
    close(F.jacobian(lambda x: y, x), np.zeros((2, 3)))
    close(F.hessian(lambda x: x.sum(), x), np.zeros((3, 3)))
    for product in (F.vhp, F.hvp):
        close(product(lambda x: x.sum(), x, tensor(V))[1], np.zeros(3))


# ---------------------------------------------------------------- the graph


CALLS: dict[str, Callable[..., Any]] = {
    "vjp": lambda x, **k: F.vjp(lambda x: x**4, x, tensor(V), **k)[1],
    "jvp": lambda x, **k: F.jvp(lambda x: x**4, x, tensor(V), **k)[1],
    "vhp": lambda x, **k: F.vhp(lambda x: (x**5).sum(), x, tensor(V), **k)[1],
    "hvp": lambda x, **k: F.hvp(lambda x: (x**5).sum(), x, tensor(V), **k)[1],
    "jacobian": lambda x, **k: F.jacobian(lambda x: x**4, x, **k) @ tensor(V),
    "hessian": lambda x, **k: F.hessian(lambda x: (x**5).sum(), x, **k) @ tensor(V),
}
POWERS = {name: 4 if name in ("vjp", "jvp", "jacobian") else 20 for name in CALLS}


@pytest.mark.parametrize("name", CALLS)
def test_a_result_belongs_to_a_graph_only_on_demand(name: str) -> None:
    x = tensor(X).requires_grad_()
    for mode in (T.enable_grad, T.no_grad):
        with mode():
            apart, joined = CALLS[name](x), F.jacobian(lambda x: CALLS[name](x, create_graph=True), x)
        assert not apart.requires_grad
        close(apart, POWERS[name] * X**3 * V)
        close(joined, np.diag(3 * POWERS[name] * X**2 * V))
    assert x.grad is None
    result = CALLS[name](x, create_graph=True)
    result.sum().backward()
    close(x.grad, 3 * POWERS[name] * X**2 * V)


def test_a_graph_reaches_the_vector() -> None:
    v = tensor(V).requires_grad_()
    for product in (F.vjp, F.jvp):
        assert not product(lambda x: x**2, tensor(X), v)[1].requires_grad
        found = product(lambda x: x**2, tensor(X), v, create_graph=True)[1]
        close(T.autograd.grad(found.sum(), v)[0], 2 * X)


def test_under_no_grad_outputs_have_no_graph() -> None:
    with T.no_grad():
        out, found = F.vjp(linear, tensor(X).requires_grad_(), tensor(U))
    assert not out.requires_grad and not found.requires_grad
    close(found, U @ A)


def test_inputs_stay_as_they_are() -> None:
    x = tensor(X)
    F.hessian(quadratic, x)
    assert not x.requires_grad and x.grad is None and x._version == 0
    seen: list[Any] = []
    F.jacobian(lambda t: seen.append(t) or t * 2, x)
    assert seen[0] is not x and seen[0].requires_grad


# ---------------------------------------------------------------- refusals


def three(module: ModuleType) -> Any:
    return module.ones(3)


INDEPENDENT = " is independent of input 0. This is not allowed in strict mode"
REFUSALS: dict[str, tuple[Callable[[Any, Any], Any], type[Exception], str]] = {
    "input type": (
        lambda f, m: f.jacobian(lambda x: x, 1.0),
        TypeError,
        "The inputs given to jacobian must be either a Tensor or a tuple of Tensors but the given inputs has type "
        "<class 'float'>.",
    ),
    "input type in a tuple": (
        lambda f, m: f.hessian(lambda x, y: x, (three(m), 1)),
        TypeError,
        "The inputs given to hessian must be either a Tensor or a tuple of Tensors but the value at index 1 has type "
        "<class 'int'>.",
    ),
    "output type": (
        lambda f, m: f.jacobian(lambda x: 1.0, three(m)),
        TypeError,
        "The outputs of the user-provided function given to jacobian must be either a Tensor or a tuple of Tensors but the "
        "given outputs of the user-provided function has type <class 'float'>.",
    ),
    "output a list": (
        lambda f, m: f.vjp(lambda x: [x], three(m)),
        TypeError,
        "The outputs of the user-provided function given to vjp must be either a Tensor or a tuple of Tensors but the given "
        "outputs of the user-provided function has type <class 'list'>.",
    ),
    "vector type": (
        lambda f, m: f.vjp(lambda x: x, three(m), 1.0),
        TypeError,
        "The v given to vjp must be either a Tensor or a tuple of Tensors but the given v has type <class 'float'>.",
    ),
    "hessian of several numbers": (
        lambda f, m: f.hessian(lambda x: x, three(m)),
        RuntimeError,
        "The Tensor returned by the function given to hessian should contain a single element",
    ),
    "hessian of a tuple": (
        lambda f, m: f.hessian(lambda x: (x.sum(),), three(m)),
        RuntimeError,
        "The function given to hessian should return a single Tensor",
    ),
    "hvp of a tuple": (
        lambda f, m: f.hvp(lambda x: (x.sum(),), three(m), three(m)),
        RuntimeError,
        "The function given to hvp should return a single Tensor",
    ),
    "vhp of several numbers": (
        lambda f, m: f.vhp(lambda x: x, three(m), three(m)),
        RuntimeError,
        "The Tensor returned by the function given to vhp should contain a single element",
    ),
    "vjp without v": (
        lambda f, m: f.vjp(lambda x: x, three(m)),
        RuntimeError,
        "The vector v can only be None if the user-provided function returns a single Tensor with a single element.",
    ),
    "jvp without v": (
        lambda f, m: f.jvp(lambda x: x, three(m)),
        RuntimeError,
        "The vector v can only be None if the input to the user-provided function is a single Tensor with a single element.",
    ),
    "size of v": (
        lambda f, m: f.vjp(lambda x: x[:2], three(m), three(m)),
        RuntimeError,
        "v has invalid size: should be torch.Size([2]) but got torch.Size([3]).",
    ),
    "size of v in a tuple": (
        lambda f, m: f.hvp(lambda x, y: x.sum(), (three(m), three(m)), (three(m), m.ones(2))),
        RuntimeError,
        "Entry 1 in v has invalid size: should be torch.Size([3]) but got torch.Size([2]).",
    ),
    "too many v": (
        lambda f, m: f.vhp(lambda x: x.sum(), three(m), (three(m), three(m))),
        RuntimeError,
        "The given v should contain a single Tensor.",
    ),
    "too few v": (
        lambda f, m: f.vhp(lambda x, y: x.sum(), (three(m), three(m)), three(m)),
        RuntimeError,
        "v is a tuple of invalid length: should be 2 but got 1.",
    ),
    "integers": (
        lambda f, m: f.jacobian(lambda x: x, m.tensor([1, 2])),
        RuntimeError,
        "only Tensors of floating point dtype can require gradients",
    ),
    "strategy": (
        lambda f, m: f.jacobian(lambda x: x, three(m), strategy="x"),
        AssertionError,
        'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than inputs, '
        '"forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".',
    ),
    "outer strategy": (
        lambda f, m: f.hessian(lambda x: x.sum(), three(m), outer_jacobian_strategy="x"),
        AssertionError,
        'Expected strategy to be either "forward-mode" or "reverse-mode".',
    ),
    "strict and vectorized": (
        lambda f, m: f.jacobian(lambda x: x, three(m), strict=True, vectorize=True),
        RuntimeError,
        "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please either set "
        "`strict=False` or `vectorize=False`.",
    ),
    "strict jacobian: independent": (
        lambda f, m: f.jacobian(lambda x, y: y * 1, (three(m), three(m)), strict=True),
        RuntimeError,
        f"Output 0 of the user-provided function{INDEPENDENT}.",
    ),
    "strict jacobian: constant": (
        lambda f, m: f.jacobian(lambda x: (x * x, x + 1), three(m), strict=True, create_graph=True),
        RuntimeError,
        "The jacobian of the user-provided function is independent of input 1. This is not allowed in strict mode when "
        "create_graph=True.",
    ),
    "strict: detached": (
        lambda f, m: f.jacobian(lambda x: x.detach(), three(m), strict=True),
        RuntimeError,
        "Output 0 of the user-provided function does not require gradients. The outputs must be computed in a differentiable "
        "manner from the input when running in strict mode.",
    ),
    "strict vjp: independent": (
        lambda f, m: f.vjp(lambda x, y: y * 1, (three(m), three(m)), three(m), strict=True),
        RuntimeError,
        f"The output of the user-provided function{INDEPENDENT}.",
    ),
    "strict vjp: constant": (
        lambda f, m: f.vjp(lambda x: x + 1, three(m), three(m), strict=True, create_graph=True),
        RuntimeError,
        f"The jacobian of the user-provided function{INDEPENDENT} when create_graph=True.",
    ),
    "strict jvp: independent": (
        lambda f, m: f.jvp(
            lambda x, y: y * 1, (three(m), three(m)), (three(m), three(m)), strict=True, create_graph=True
        ),
        RuntimeError,
        f"The output of the user-provided function{INDEPENDENT}.",
    ),
    "strict vhp: linear": (
        lambda f, m: f.vhp(lambda x: x.sum(), three(m), three(m), strict=True),
        RuntimeError,
        "While computing the hessian, found that the jacobian of the user-provided function with respect to input 0 is "
        "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
        "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example).",
    ),
    "strict hessian: linear": (
        lambda f, m: f.hessian(lambda x: x.sum(), three(m), strict=True),
        RuntimeError,
        "While computing the hessian, found that the jacobian of the user-provided function with respect to input 0 is "
        "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
        "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example).",
    ),
}


def refused(name: str, module: ModuleType) -> None:
    call, kind, text = REFUSALS[name]
    with pytest.raises(kind) as info:
        call(module.autograd.functional, module)
    assert type(info.value) is kind and str(info.value) == text


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    refused(name, T)


# ---------------------------------------------------------------- against torch


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda x, y: x * y,
    "exp_sin": lambda x, y: (x.exp() * y.sin(), x - y),
    "linear": lambda x, y: x * 2 + y.sum(),
    "one_input_only": lambda x, y: (y.tanh(), x.sum()),
    "detached_output": lambda x, y: (x.detach(), y * y),
    "powers": lambda x, y: (x**2 + 1) ** y,
    "matrix": lambda x, y: x.reshape(3, 1) * y.reshape(1, 3),
    "as_is": lambda x, y: x,
    "tuple_of_one": lambda x, y: ((x / (1 + y * y)).sqrt(),),
    "reduced": lambda x, y: ((x * y).logsumexp(0), (x.sigmoid() + y).log().sum()),
    "indexed": lambda x, y: x[1:] * y[0],
}


def as_numpy(found: Any) -> Any:
    return tuple(as_numpy(f) for f in found) if isinstance(found, tuple) else found.detach().numpy()


def scalar(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def total(x: Any, y: Any) -> Any:
        out = function(x, y)
        return sum((o.sin().sum() for o in out), 0.0) if isinstance(out, tuple) else out.sin().sum()

    return total


def everything(module: ModuleType, function: Callable[[Any, Any], Any], create_graph: bool) -> dict[str, Any]:
    """All values that the module finds, and which of them require grad."""
    f = module.autograd.functional
    x, y = tensor([0.5, 1.25, 2.0], module).requires_grad_(), tensor([0.75, 1.5, 0.25], module)
    v, w = tensor(V, module), tensor([0.5, -2.0, 1.0], module)
    out = function(x, y)
    several = isinstance(out, tuple)
    us = tuple((o * 0 + 2).detach() for o in (out if several else (out,)))
    number = scalar(function)
    found: dict[str, Any] = {
        "vjp": f.vjp(function, (x, y), us if several else us[0], create_graph),
        "jvp": f.jvp(function, (x, y), (v, w), create_graph),
        "vhp": f.vhp(number, (x, y), (v, w), create_graph),
        "hvp": f.hvp(number, (x, y), (v, w), create_graph),
        "hessian": f.hessian(number, (x, y), create_graph),
        "hessian of one": f.hessian(lambda x: number(x, y), x, create_graph),
    }
    for vectorize in (False, True):
        found[f"jacobian {vectorize}"] = f.jacobian(function, (x, y), create_graph, vectorize=vectorize)
        found[f"jacobian of one {vectorize}"] = f.jacobian(
            lambda x: function(x, y), x, create_graph, vectorize=vectorize
        )
    return found


def requiring(found: Any) -> Any:
    return tuple(requiring(f) for f in found) if isinstance(found, tuple) else found.requires_grad


@pytest.mark.oracle
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_match_torch(torch: ModuleType, name: str, create_graph: bool) -> None:
    ours = everything(T, FUNCTIONS[name], create_graph)
    theirs = everything(torch, FUNCTIONS[name], create_graph)
    for key in theirs:
        close(ours[key], as_numpy(theirs[key]))
        if not key.endswith(
            "True"
        ):  # PyTorch's vectorized rows share one graph, so constant blocks belong to it too
            assert requiring(ours[key]) == requiring(theirs[key]), key


@pytest.mark.oracle
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_torchs(torch: ModuleType, name: str) -> None:
    refused(name, torch)
