"""Distributions of vectors that vary together, and of matrices: what they share is a lower triangular factor of a covariance."""

from __future__ import annotations

import math
import warnings
from math import nan
from typing import Any

from nbgrad import linalg
from nbgrad.core.tensor import Tensor
from nbgrad.distributions import constraints
from nbgrad.distributions._gammas import Beta, Chi2
from nbgrad.distributions.distribution import ExponentialFamily, Parametric
from nbgrad.distributions.utils import Numeric, _standard_normal, lazy_property
from nbgrad.memory.dtypes import finfo
from nbgrad.memory.layout import Size
from nbgrad.ops.arrange.parts import broadcast_shapes, broadcast_tensors
from nbgrad.ops.linear.contract import einsum
from nbgrad.ops.make.counted import arange, eye, tril_indices
from nbgrad.ops.make.data import tensor
from nbgrad.ops.make.drawn import randn
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.views.join import cat

_LOG_TURN = math.log(2 * math.pi)
_LOG_2 = math.log(2)
_ONE_OF_THREE = "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Products of matrices with vectors."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """The squared lengths of `L^-1 x`. What x has in dimensions that L has not becomes columns of one right-hand side."""
    outer, n = bx.dim() - bL.dim() + 1, bx.shape[-1]
    inner = bx.shape[outer:-1]
    columns = bx.reshape((-1, *inner, n)).movedim(0, -1)
    lengths = linalg.solve_triangular(bL.expand((*inner, n, n)), columns, upper=False).pow(2).sum(-2)
    return lengths.movedim(-1, 0).reshape(bx.shape[:-1])


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """The factor of the inverse: the inverse of P's own factor, of which rows and columns are turned round."""
    turned = linalg.cholesky(P.flip((-2, -1))).flip((-2, -1)).mT
    identity = eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg.solve_triangular(turned, identity, upper=False)


def _diagonal(matrix: Tensor) -> Tensor:
    return matrix.diagonal(dim1=-2, dim2=-1)


def _half_log_det(tril: Tensor) -> Tensor:
    return _diagonal(tril).log().sum(-1)


class _Covariance(Parametric):
    """What is given by one of `covariance_matrix`, its inverse and its factor, and has the others when they are asked for."""

    _unbroadcasted_scale_tril: Any

    def _set_matrix(self, batch_shape: Any, **three: Any) -> None:
        for name, matrix in three.items():
            if matrix is not None:
                setattr(self, name, matrix.expand((*batch_shape, -1, -1)))

    def _set_factor(self, covariance: Any, precision: Any, factor: Any) -> None:
        if factor is None:
            factor = (
                _precision_to_scale_tril(precision) if covariance is None else linalg.cholesky(covariance)
            )
        self._unbroadcasted_scale_tril = factor

    def _expanded_matrix(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower triangular factor of the covariance."""
        return self._expanded_matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        return self._expanded_matrix(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        return self._expanded_matrix(self._unbroadcasted_scale_tril.cholesky_inverse())


_MATRICES: dict[str, Any] = {
    "covariance_matrix": constraints.positive_definite,
    "precision_matrix": constraints.positive_definite,
    "scale_tril": constraints.lower_cholesky,
}


# ---------------------------------------------------------------- vectors


class MultivariateNormal(_Covariance):
    """Normal vectors of the mean `loc` and of a covariance, which is given as `covariance_matrix`, as its inverse `precision_matrix`, or as
    its lower triangular factor `scale_tril`, the quickest of them.

    >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
    tensor(-1.8379)
    """

    arg_constraints = {"loc": constraints.real_vector, **_MATRICES}
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_scale_tril",)

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        three = dict(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        given = [(name, matrix) for name, matrix in three.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError(_ONE_OF_THREE)
        ((name, matrix),) = given
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{what} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self._set_matrix(batch_shape, **three)
        self.loc: Any = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._set_factor(covariance_matrix, precision_matrix, scale_tril)

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @property
    def variance(self) -> Any:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Any:
        drawn = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, drawn)

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        factor = self._unbroadcasted_scale_tril
        squares = _batch_mahalanobis(factor, value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_TURN + squares) - _half_log_det(factor)

    def entropy(self) -> Any:
        each = 0.5 * self._event_shape[0] * (1.0 + _LOG_TURN)
        return (each + _half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


def _inner(W: Tensor, D: Tensor) -> Tensor:
    """`W^T D^-1` of a diagonal D."""
    return W.mT / D.unsqueeze(-2)


def _plus_identity(matrix: Tensor) -> Tensor:
    return matrix + eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """The factor of `I + W^T D^-1 W`, small where the rank is."""
    return linalg.cholesky(_plus_identity(_inner(W, D) @ W))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """The logarithm of the determinant of `W W^T + D`, by the determinant lemma."""
    return 2 * _half_log_det(capacitance_tril) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """`x^T (W W^T + D)^-1 x`, by Woodbury's identity."""
    lost = _batch_mahalanobis(capacitance_tril, _batch_mv(_inner(W, D), x))
    return (x.pow(2) / D).sum(-1) - lost


class LowRankMultivariateNormal(Parametric):
    """Normal vectors of the covariance `cov_factor @ cov_factor.T + diag(cov_diag)`: of n numbers and a factor of m columns it takes time
    in proportion to `n * m * m`.

    >>> D = torch.distributions
    >>> D.LowRankMultivariateNormal(torch.zeros(2), torch.tensor([[1.0], [0.0]]), torch.ones(2)).variance
    tensor([2., 1.])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True
    _kept = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(
        self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError(
                "cov_factor must be at least two-dimensional, with optional leading batch dimensions"
            )
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            columns = broadcast_tensors(loc.unsqueeze(-1), cov_factor, cov_diag.unsqueeze(-1))
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc: Any = columns[0][..., 0]
        self.cov_factor: Any = columns[1]
        self.cov_diag: Any = columns[2][..., 0]
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(self.loc.shape[:-1], event_shape, validate_args=validate_args)

    @property
    def _low_rank(self) -> tuple[Tensor, Tensor]:
        return self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag

    def _expanded_matrix(self, matrix: Tensor) -> Tensor:
        return matrix.expand((*self._batch_shape, *matrix.shape[-2:]))

    @property
    def mean(self) -> Any:
        return self.loc

    @property
    def mode(self) -> Any:
        return self.loc

    @lazy_property
    def variance(self) -> Any:
        factor, diagonal = self._low_rank
        return (factor.pow(2).sum(-1) + diagonal).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Any:
        """The lower triangular factor of the covariance."""
        factor, diagonal = self._low_rank
        root = diagonal.sqrt().unsqueeze(-1)
        scaled = factor / root
        return self._expanded_matrix(root * linalg.cholesky(_plus_identity(scaled @ scaled.mT)))

    @lazy_property
    def covariance_matrix(self) -> Any:
        """The covariance."""
        factor, diagonal = self._low_rank
        return self._expanded_matrix(factor @ factor.mT + diagonal.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Any:
        """The inverse of the covariance."""
        factor, diagonal = self._low_rank
        half = linalg.solve_triangular(self._capacitance_tril, _inner(factor, diagonal), upper=False)
        return self._expanded_matrix(diagonal.reciprocal().diag_embed() - half.mT @ half)

    def rsample(self, sample_shape: Any = ()) -> Any:
        shape, (factor, diagonal) = self._extended_shape(sample_shape), self._low_rank
        kind = self.loc.dtype, self.loc.device
        together = _standard_normal((*shape[:-1], factor.shape[-1]), *kind)
        alone = _standard_normal(shape, *kind)
        return self.loc + _batch_mv(factor, together) + diagonal.sqrt() * alone

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        squares = _batch_lowrank_mahalanobis(*self._low_rank, value - self.loc, self._capacitance_tril)
        log_det = _batch_lowrank_logdet(*self._low_rank, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * _LOG_TURN + log_det + squares)

    def entropy(self) -> Any:
        log_det = _batch_lowrank_logdet(*self._low_rank, self._capacitance_tril)
        return (0.5 * (self._event_shape[0] * (1.0 + _LOG_TURN) + log_det)).expand(self._batch_shape)


# ---------------------------------------------------------------- matrices


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of `mvlgamma`."""
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    return (x.unsqueeze(-1) - arange(p, dtype=x.dtype, device=x.device).div(2)).digamma().sum(-1)


class Wishart(_Covariance, ExponentialFamily):
    """The sums of `df` products of normal vectors with their transposes: symmetric positive definite matrices. The vectors' covariance is
    given as for `MultivariateNormal`.

    >>> torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        three = dict(
            covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        given = [matrix for matrix in three.values() if matrix is not None]
        if len(given) != 1:
            raise AssertionError(_ONE_OF_THREE)
        (matrix,) = given
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch dimensions"
            )
        event_shape, n = matrix.shape[-2:], matrix.shape[-1]
        if isinstance(df, Numeric):
            batch_shape = Size(matrix.shape[:-2])
            self.df: Any = tensor(df, dtype=matrix.dtype, device=matrix.device)
        else:
            batch_shape = broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        if self.df.le(n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self._set_matrix(batch_shape, **three)
        if self.df.lt(n).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._set_factor(covariance_matrix, precision_matrix, scale_tril)
        self._dist_chi2 = self._of_diagonal(self.df, batch_shape)

    @property
    def arg_constraints(self) -> Any:
        return {**_MATRICES, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    @property
    def _expanded(self) -> Any:
        return self.arg_constraints

    def _of_diagonal(self, df: Tensor, batch_shape: Any) -> Chi2:
        """What the squares of Bartlett's diagonal are drawn from: of each row one degree of freedom less."""
        factor = self._unbroadcasted_scale_tril
        rows = arange(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        return Chi2(df=df.unsqueeze(-1) - rows.expand((*batch_shape, -1)))

    def _expand_into(self, new: Any, batch_shape: Any) -> None:
        super()._expand_into(new, batch_shape)
        factor = self._unbroadcasted_scale_tril
        new._unbroadcasted_scale_tril = factor.expand((*batch_shape, *factor.shape[-2:]))
        new._dist_chi2 = new._of_diagonal(new.df, batch_shape)

    @lazy_property
    def precision_matrix(self) -> Any:
        factor = self._unbroadcasted_scale_tril
        identity = eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        return self._expanded_matrix(identity.cholesky_solve(factor))

    @property
    def mean(self) -> Any:
        return self._each_df() * self.covariance_matrix

    def _each_df(self) -> Any:
        return self.df.reshape((*self._batch_shape, 1, 1))

    @property
    def mode(self) -> Any:
        factor = self._each_df() - self._event_shape[-1] - 1
        return where(factor <= 0, nan, factor) * self.covariance_matrix

    @property
    def variance(self) -> Any:
        covariance = self.covariance_matrix
        own = _diagonal(covariance)
        return self._each_df() * (covariance.pow(2) + einsum("...i,...j->...ij", own, own))

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Any:
        """By Bartlett's decomposition: a factor of normal numbers below a diagonal of roots of `Chi2` ones."""
        n = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = diagonal.clamp(min=finfo(diagonal.dtype).eps).diag_embed()
        rows, columns = tril_indices(n, n, -1)
        below = (*sample_shape, *self._batch_shape, n * (n - 1) // 2)
        noise[..., rows, columns] = randn(below, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def _over_batch(self, each: Any) -> Any:
        return each.amax([-(k + 1) for k in range(len(self._batch_shape))]) if self._batch_shape else each

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Any:
        tries = 10 if max_try_correction is None else max_try_correction
        sample = self._bartlett_sampling(Size(sample_shape))
        # PyTorch asks for those that are definite where it means to ask for the others, so that all is drawn again, and warns of it. To
        # give its numbers, so does this.
        again = self._over_batch(self.support.check(sample))
        if again.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(tries):
                drawn = self._bartlett_sampling(again[again].shape)
                sample[again] = drawn
                before, again = again, again.clone()  # the write above is by what it was
                again[before] = self._over_batch(~self.support.check(drawn))
                if not again.any():
                    break
        return sample

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        nu, n, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        scale = -nu * (n * _LOG_2 / 2 + _half_log_det(factor)) - (nu / 2).mvlgamma(n)
        trace = _diagonal(value.cholesky_solve(factor)).sum(dim=-1)
        return scale + (nu - n - 1) / 2 * linalg.slogdet(value).logabsdet - trace / 2

    def entropy(self) -> Any:
        nu, n = self.df, self._event_shape[-1]
        scale = (n + 1) * (n * _LOG_2 / 2 + _half_log_det(self._unbroadcasted_scale_tril))
        half = nu / 2
        return scale + half.mvlgamma(n) - (nu - n - 1) / 2 * _mvdigamma(half, n) + nu * n / 2

    @property
    def _natural_params(self) -> Any:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (-linalg.slogdet(-2 * x).logabsdet + _LOG_2 * n) + half.mvlgamma(n)


class LKJCholesky(Parametric):
    """Lower triangular factors of matrices of correlations between `dim` numbers, by Lewandowski, Kurowicka and Joe: of `concentration` 1
    all matrices alike, above it those near the identity more often.

    >>> torch.distributions.LKJCholesky(3, 1.0).log_prob(torch.eye(3))
    tensor(-1.5963)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    concentration: Any
    _kept = ("dim",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        batch_shape = self._broadcast(concentration=concentration)
        # The onion method: a row's squared length left of the diagonal is a beta number.
        a = self.concentration
        rows = arange(dim - 1, dtype=a.dtype, device=a.device)
        rows = cat([rows.new_zeros((1,)), rows])
        self._beta = Beta(rows + 0.5, (a + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * rows)
        super().__init__(batch_shape, Size((dim, dim)), validate_args)

    def _expand_into(self, new: Any, batch_shape: Any) -> None:
        super()._expand_into(new, batch_shape)
        new._beta = self._beta.expand((*batch_shape, self.dim))

    def sample(self, sample_shape: Any = ()) -> Any:
        lengths = self._beta.sample(sample_shape).unsqueeze(-1)
        shape = self._extended_shape(sample_shape)
        directions = randn(shape, dtype=lengths.dtype, device=lengths.device).tril(-1)
        directions = directions / directions.norm(dim=-1, keepdim=True)
        directions[..., 0, :].fill_(0.0)
        rows = lengths.sqrt() * directions
        rest = 1 - (rows**2).sum(dim=-1)
        return rows + rest.clamp(min=finfo(rows.dtype).tiny).sqrt().diag_embed()

    def log_prob(self, value: Any) -> Any:
        self._judge(value)
        a, n = self.concentration, self.dim - 1
        orders = 2 * (a - 1).unsqueeze(-1) + self.dim - arange(2, self.dim + 1, device=a.device)
        density = (orders * _diagonal(value)[..., 1:].log()).sum(dim=-1)
        alpha = a + 0.5 * n
        return density - (0.5 * n * math.log(math.pi) + (alpha - 0.5).mvlgamma(n) - alpha.lgamma() * n)


__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]
