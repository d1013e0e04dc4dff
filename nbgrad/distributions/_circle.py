"""The distribution of von Mises, of angles."""

from __future__ import annotations

import math
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions.distribution import Parametric
from nbgrad.distributions.utils import lazy_property
from nbgrad.memory import dtypes
from nbgrad.ops.make.drawn import rand
from nbgrad.ops.make.filled import empty, zeros
from nbgrad.ops.pointwise.choices import where

# The Bessel functions I0 and I1 as Abramowitz and Stegun (9.8.1 to 9.8.4) have them, of (x / 3.75)**2 up to 3.75 and of 3.75 / x from
# there: PyTorch's, so that log_prob is the same to the digit.
_SMALL = (
    (1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
    (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3),
)
_LARGE = (
    (
        *(0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1),
        *(-0.1647633e-1, 0.392377e-2),
    ),
    (
        *(0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1),
        *(-0.2895312e-1, 0.1787654e-1, -0.420059e-2),
    ),
)


def _polynomial(x: Tensor, coefficients: tuple[float, ...]) -> Any:
    value: Any = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        value = c + x * value
    return value


def _log_modified_bessel_fn(x: Tensor, order: int = 0) -> Tensor:
    """The logarithm of I0(x) or of I1(x), for x > 0."""
    if order not in (0, 1):
        raise AssertionError(f"order must be 0 or 1, got {order}")
    square = x / 3.75
    small = _polynomial(square * square, _SMALL[order])
    small = (x.abs() * small if order else small).log()
    large = x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log()
    return where(x < 3.75, small, large)


def _rejection_sample(loc: Tensor, concentration: Tensor, proposal_r: Tensor, x: Tensor) -> Tensor:
    """By Best and Fisher (1979): wrapped Cauchy numbers, of which some are refused. All are drawn anew until the last is accepted, and an
    accepted one may be replaced, as in PyTorch."""
    done = zeros(x.shape, dtype=dtypes.bool_, device=loc.device)
    while not done.all():
        first, second, third = rand((3, *x.shape), dtype=loc.dtype, device=loc.device).unbind()
        z = (math.pi * first).cos()
        f = (1 + proposal_r * z) / (proposal_r + z)
        c = concentration * (proposal_r - f)
        accepted = (c * (2 - c) - second > 0) | ((c / second).log() + 1 - c >= 0)
        x = where(accepted, (third - 0.5).sign() * f.acos(), x)
        done = done | accepted
    return (x + math.pi + loc) % (2 * math.pi) - math.pi


class VonMises(Parametric):
    """Angles about `loc`, the nearer the larger the `concentration` is: of the density `exp(concentration * cos(x - loc))` but for a
    factor.

    >>> torch.distributions.VonMises(torch.tensor(0.0), torch.tensor(1.0)).log_prob(torch.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False
    loc: Any
    concentration: Any

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        shape = self._broadcast(loc=loc, concentration=concentration)
        super().__init__(shape, validate_args=validate_args)

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        near = self.concentration * (value - self.loc).cos()
        return near - math.log(2 * math.pi) - _log_modified_bessel_fn(self.concentration, order=0)

    @lazy_property
    def _loc(self) -> Any:
        return self.loc.to(dtypes.float64)

    @lazy_property
    def _concentration(self) -> Any:
        return self.concentration.to(dtypes.float64)

    @lazy_property
    def _proposal_r(self) -> Any:
        """How the wrapped Cauchy numbers are spread; of small concentrations by a series."""
        kappa = self._concentration
        tau = 1 + (1 + 4 * kappa**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Any:
        with no_grad():
            x = empty(self._extended_shape(sample_shape), dtype=dtypes.float64, device=self.loc.device)
            drawn = _rejection_sample(self._loc, self._concentration, self._proposal_r, x)
            return drawn.to(self.loc.dtype)

    @property
    def mean(self) -> Any:
        """The angle about which the others are."""
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        """One less the length of the mean of the angles' directions."""
        first, second = (_log_modified_bessel_fn(self.concentration, order=k) for k in (1, 0))
        return 1 - (first - second).exp()


__all__ = ["VonMises"]
