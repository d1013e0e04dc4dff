"""Transforms: inverses and stretching against what autograd finds, and beside torch's."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import array, outcome
from tests.distributions.test_oracle import leaf, moved, same, weights
from tests.support import T

# What a transform is made by, and the shape of a value that it takes.
TRANSFORMS: dict[str, tuple[int, ...]] = {
    "D.AbsTransform()": (3,),
    "D.AffineTransform(0.5, -2.0)": (3,),
    "D.AffineTransform(M.tensor([0.5, 1.0, 2.0]).double(), M.tensor([0.5, -1.0, 2.0]).double(), event_dim=1)": (
        3,
    ),
    "D.ExpTransform()": (3,),
    "D.PowerTransform(M.tensor(1.7).double())": (3,),
    "D.PowerTransform(-1.0)": (3,),
    "D.SigmoidTransform()": (3,),
    "D.SoftplusTransform()": (3,),
    "D.TanhTransform()": (3,),
    "D.SoftmaxTransform()": (3,),
    "D.StickBreakingTransform()": (3,),
    "D.LowerCholeskyTransform()": (3, 3),
    "D.PositiveDefiniteTransform()": (3, 3),
    "D.CorrCholeskyTransform()": (6,),
    "D.ReshapeTransform((6,), (2, 3))": (6,),
    "D.identity_transform": (3,),
    "D.ComposeTransform([D.AffineTransform(0.0, 0.3), D.ExpTransform(), D.PowerTransform(2.0)])": (3,),
    "D.ComposeTransform([D.ExpTransform(), D.ReshapeTransform((6,), (3, 2)), D.IndependentTransform(D.TanhTransform(), 1)])": (
        6,
    ),
    "D.ComposeTransform([D.StickBreakingTransform(), D.SigmoidTransform()])": (3,),
    "D.IndependentTransform(D.ExpTransform(), 1)": (3,),
    "D.CatTransform([D.ExpTransform(), D.identity_transform, D.TanhTransform()], dim=-1, lengths=[1, 2, 1])": (
        4,
    ),
    "D.CatTransform([D.StickBreakingTransform(), D.StickBreakingTransform()], dim=0, lengths=[2, 2])": (4, 3),
    "D.StackTransform([D.ExpTransform(), D.AffineTransform(1.0, 3.0), D.TanhTransform()], dim=-1)": (3,),
    "D.CumulativeDistributionTransform(D.Normal(M.tensor(0.3).double(), 1.5))": (3,),
    "D.ExpTransform().inv": (3,),
    "D.ComposeTransform([D.ExpTransform(), D.SigmoidTransform().inv.inv]).inv": (3,),
}


def inside(text: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray[Any, Any]:
    """Values that the transform takes."""
    rng = np.random.default_rng(seed)
    if text.startswith("D.PowerTransform") or text == "D.ExpTransform().inv":
        return rng.uniform(0.3, 2.0, shape)
    if text.endswith(".inv"):
        return rng.uniform(0.55, 0.9, shape)
    return rng.normal(0, 0.8, shape)


def make(M: ModuleType, text: str) -> Any:
    return eval(text, {"M": M, "D": M.distributions})


@pytest.mark.parametrize("text", TRANSFORMS)
def test_the_inverse_goes_back(text: str) -> None:
    t, x = make(T, text), T.tensor(inside(text, TRANSFORMS[text]))
    x = t.inv(t(x))  # which of several that are mapped alike, the inverse says
    np.testing.assert_allclose(array(t.inv(t(x))), array(x), rtol=1e-5, atol=1e-6)
    assert t.inv.inv is t and t.inv.inv(x).shape == t(x).shape
    y = t(x)
    assert bool(t.codomain.check(y).all()) and bool(t.domain.check(x).all())
    if "Cat" not in text:  # which, as in PyTorch, does not say what becomes of shapes
        assert tuple(t.forward_shape(x.shape)) == tuple(y.shape)
        assert tuple(t.inverse_shape(y.shape)) == tuple(x.shape)


def volume(function: Any, x: Any) -> float:
    """The logarithm of the determinant of a function's Jacobian, by autograd; of as many of its outputs as there are inputs."""
    slopes = T.autograd.functional.jacobian(lambda v: function(v).reshape(-1), x).reshape(-1, x.numel())
    return float(T.linalg.slogdet(slopes).logabsdet)


# What maps shares on as if they were free numbers has no volume of its own.
@pytest.mark.parametrize("text", [t for t in TRANSFORMS if make(T, t).bijective and "[D.Stick" not in t])
def test_the_volume_is_the_jacobians(text: str) -> None:
    t, x = make(T, text), T.tensor(inside(text, TRANSFORMS[text]))
    y = t(x)

    def free(v: Any) -> Any:
        """As many numbers as the value has freedom."""
        out = t(v)
        if "StickBreaking" in text:
            return out[..., :-1]
        if "CorrCholesky" in text:
            rows, columns = T.tril_indices(4, 4, -1)
            return out[rows, columns]
        return out

    assert float(t.log_abs_det_jacobian(x, y).sum()) == pytest.approx(volume(free, x), abs=1e-6)
    assert float(t.inv.log_abs_det_jacobian(y, x).sum()) == pytest.approx(-volume(free, x), abs=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize("text", TRANSFORMS)
def test_beside_torch(torch: ModuleType, text: str, whole: bool) -> None:
    """Values, inverses, volumes with their gradients, of a batch as well; and with a cache."""
    for seed in range(300 if whole else 2):
        values = inside(text, ((2,) if seed % 2 and "dim=0" not in text else ()) + TRANSFORMS[text], seed)
        found = []
        for M in (T, torch):
            t, rows = make(M, text), []
            x = leaf(M, values)
            y = t(x)
            back = leaf(M, array(y))
            inverse = t.inv(back)
            rows += [y.detach(), moved(M, {"x": x}, y, weights(y.shape))]
            rows += [inverse.detach(), moved(M, {"y": back}, inverse, weights(inverse.shape))]
            for way, first, second in ((t, x, y), (t.inv, back, inverse)):
                slope = outcome(lambda: way.log_abs_det_jacobian(first, second))  # noqa: B023
                rows.append(slope if isinstance(slope, str) else slope.detach())
                if not isinstance(slope, str):
                    rows.append(moved(M, {"x": first}, slope, weights(slope.shape)))
            cached = outcome(lambda: t.with_cache())  # noqa: B023
            rows.append(cached if isinstance(cached, str) else cached.inv(cached(x)) is x)
            rows += [repr(t), repr(t.domain), repr(t.codomain), t.bijective, outcome(lambda: t.event_dim)]  # noqa: B023
            found.append(rows)
        same(*found, f"{text} of {values}", 1e4)


CONSTRAINTS = {
    "C.real": (3,),
    "C.positive": (3,),
    "C.greater_than(2)": (3,),
    "C.less_than(-1)": (3,),
    "C.interval(-1, 4)": (3,),
    "C.half_open_interval(0.0, 1.0)": (3,),
    "C.simplex": (3,),
    "C.lower_cholesky": (3, 3),
    "C.positive_definite": (3, 3),
    "C.corr_cholesky": (3,),
    "C.independent(C.positive, 1)": (3,),
    "C.stack([C.positive, C.real, C.unit_interval])": (3,),
    "C.cat([C.positive, C.simplex], dim=-1, lengths=[1, 2])": (3,),
}


@pytest.mark.parametrize("text", CONSTRAINTS)
def test_all_numbers_become_what_is_allowed(text: str) -> None:
    D = T.distributions
    constraint = eval(text, {"C": D.constraints})
    x = T.randn(*CONSTRAINTS[text], dtype=T.float64) * 3
    for registry in (D.transform_to, D.biject_to):
        if registry is D.biject_to and type(constraint) not in registry._registry:
            continue
        if "simplex]" in text:  # of which a vector has one number less
            continue
        y = registry(constraint)(x)
        assert bool(constraint.check(y).all()), registry
        assert math.isfinite(float(y.sum()))
