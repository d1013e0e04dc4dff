"""The pointwise family is whole: every committed name, in every form that PyTorch gives it; special functions against 30 digits."""

import math
import operator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests import audit
from tests.compare import array
from tests.support import T

LINES = (Path(__file__).parent.parent / "pointwise_names.txt").read_text(encoding="utf-8").splitlines()
NAMES = [line for line in LINES if line and line[0] != "#" and ":" not in line]
ABSENT = dict(line.split(": ") for line in LINES if line and line[0] != "#" and ":" in line)


def has(T: ModuleType, name: str) -> bool:
    try:
        return callable(operator.attrgetter(name)(T))
    except AttributeError:
        return False


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_there(name: str) -> None:
    assert has(T, name)


def test_what_is_absent_has_a_reason() -> None:
    assert all(ABSENT.values()) and not set(ABSENT) & set(NAMES)


@pytest.mark.oracle
@pytest.mark.parametrize("name", [n for n in NAMES if "." not in n])
def test_forms_are_pytorchs(torch: ModuleType, name: str) -> None:
    """Method, in-place method, in-place function: there where PyTorch has them, and nowhere else."""
    for form in (f"Tensor.{name}", f"Tensor.{name}_", f"{name}_"):
        assert has(T, form) == has(torch, form), form


@pytest.mark.oracle
def test_no_pointwise_name_is_forgotten(torch: ModuleType) -> None:
    """Whatever `torch.special` has is in the list, as present or as absent."""
    listed = {n.removeprefix("special.") for n in (*NAMES, *ABSENT) if n.startswith("special.")}
    reductions = {"logsumexp", "softmax", "log_softmax"}
    public = {n for n in dir(torch.special) if callable(getattr(torch.special, n)) and n[0].islower()}
    assert public - listed - reductions == set()


# name -> argument, value to 17 digits (mpmath, 30 digits)
KNOWN = {
    "special.erfcx": [(0.5, 0.61569034419292587), (30.0, 0.018795888861416751), (-1.5, 18.653886256262734)],
    "erfinv": [(0.3, 0.27246271472675435), (0.999999, 3.4589107372754988)],
    "special.ndtri": [(1e-300, -37.047096299361199), (0.2, -0.84162123357291417)],
    "special.log_ndtr": [(-30.0, -454.3212439563432), (1.0, -0.17275377902344989)],
    "lgamma": [(0.1, 2.2527126517342059), (10.5, 13.940625219403764), (-2.5, -0.056243716497674051)],
    "digamma": [(0.1, -10.423754940411076), (25.0, 3.198742512851974), (-2.5, 1.1031566406452432)],
    "i0": [(1.5, 1.6467231897728908), (20.0, 43558282.559553533)],
    "special.i1e": [(-1.5, -0.21903938742092567), (20.0, 0.087506222183288665)],
}


@pytest.mark.parametrize("name", KNOWN)
def test_special_values_to_the_last_digits(name: str) -> None:
    x, want = (np.array(v) for v in zip(*KNOWN[name], strict=True))
    got = array(operator.attrgetter(name)(T)(T.tensor(x)))
    np.testing.assert_allclose(got, want, 4e-15)


def test_polygamma_and_mvlgamma_have_an_op_per_order() -> None:
    x = T.tensor([1.0], dtype=T.float64)
    assert T.polygamma(1, x).item() == pytest.approx(math.pi**2 / 6, rel=1e-14)
    assert T.polygamma(4, x).item() == pytest.approx(-24.886266123440878, rel=1e-14)
    assert T.mvlgamma(x + 2, 2).item() == pytest.approx(
        math.log(math.pi) / 2 + math.lgamma(3) + math.lgamma(2.5)
    )


def test_a_negative_slope_in_place_has_the_right_gradient() -> None:
    """PyTorch refuses to differentiate this, as it reads the result."""
    x = T.tensor([-1.0, 2.0], requires_grad=True)
    T.nn.functional.leaky_relu_(x * 1, -0.5).sum().backward()
    assert x.grad.tolist() == [-0.5, 1.0]


def test_rrelu_in_training_draws_between_its_bounds() -> None:
    x = T.tensor([-1.0, 2.0, -4.0], requires_grad=True)
    y = T.nn.functional.rrelu(x, 0.25, 0.5, training=True)
    y.sum().backward()
    slopes = x.grad.tolist()
    assert slopes[1] == 1 and all(0.25 <= s <= 0.5 for s in (slopes[0], slopes[2]))
    np.testing.assert_allclose(array(y), array(x) * np.array(slopes, np.float32))


# The first has a corner at 0; the others take more than a tensor, or give more than one of its shape.
APART = {"special.i0e", "frexp", "nn.functional.glu", "polygamma", "special.polygamma"}


def _derivatives(name: str, at: np.ndarray) -> list[np.ndarray]:
    x = T.tensor(at, requires_grad=True)
    found = [operator.attrgetter(name)(T)(x)]
    for _ in range(2):
        y = found[-1]
        found.append(T.autograd.grad(y.sum(), x, create_graph=True)[0] if y.requires_grad else x * 0)
    return [array(y) for y in found]


def _of_one(name: str) -> bool:
    cases = [] if name.endswith("_") else audit.cases_of(name)
    return any([c.arity == 1 and c.differentiable and not c.args and not c.kwargs for c in cases])


@pytest.mark.parametrize("name", sorted({n for n in NAMES if _of_one(n)} - APART))
def test_derivatives_where_a_branch_ends_are_those_beside(name: str) -> None:
    """Where the first and the second derivative are alike on both sides of a number, they are so at it."""
    at, step = np.array([0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]), 2e-4
    below, here, above = (_derivatives(name, at + move) for move in (-step, 0, step))
    for order in (1, 2):
        low, value, high = below[order], here[order], above[order]
        with np.errstate(invalid="ignore"):
            size = np.maximum(np.abs(low), np.abs(high))
            alike = (np.abs(low - high) < 1e-2 * size + 1e-6) & (size < 1e6) & np.isfinite(value)
        wrong = alike & (np.abs(value - (low + high) / 2) > 1e-2 * size + 1e-5)
        assert not wrong.any(), (order, at[wrong], value[wrong], low[wrong])
