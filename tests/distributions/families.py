"""The table of distributions that every test of "all distributions" reads: how each is made of random parameters, in any module.

A parameter's kind says what is drawn for it; what is in quotes of Python is a setting. `Case.make(M, arrays)` makes the same object of
torch's classes and of ours, and `tensors` are those of its parameters that have gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


def _matrix(rng: np.random.Generator, batch: tuple[int, ...]) -> Array:
    root = rng.normal(size=(*batch, 3, 3))
    return root @ root.swapaxes(-1, -2) + np.eye(3)


KINDS: dict[str, Draw] = {
    "real": lambda rng, batch: rng.normal(0, 1.5, batch),
    "positive": lambda rng, batch: np.exp(rng.uniform(-1.2, 1.6, batch)),
    "large": lambda rng, batch: np.exp(rng.uniform(1.5, 3.0, batch)),  # above 4
    "unit": lambda rng, batch: rng.uniform(0.05, 0.95, batch),
    "low": lambda rng, batch: rng.uniform(-2, -0.5, batch),
    "high": lambda rng, batch: rng.uniform(0.5, 2, batch),
    "count": lambda rng, batch: rng.integers(1, 9, batch).astype(float),
    "shares": lambda rng, batch: rng.dirichlet(np.ones(3), batch),
    "reals": lambda rng, batch: rng.normal(0, 1.5, (*batch, 3)),
    "positives": lambda rng, batch: np.exp(rng.uniform(-1.2, 1.6, (*batch, 3))),
    "factor": lambda rng, batch: rng.normal(size=(*batch, 3, 2)),
    "matrix": _matrix,
    "tril": lambda rng, batch: np.linalg.cholesky(_matrix(rng, batch)),
    "cool": lambda rng, batch: rng.uniform(0.5, 2.0, ()),
}


@dataclass(frozen=True)
class Family:
    """`name`'s constructor takes `parameters`, by their kinds, and `settings`; or `build(M, D, tensors)` makes it."""

    name: str
    parameters: dict[str, str]
    settings: dict[str, Any] = field(default_factory=dict)
    build: Callable[..., Any] | None = None
    module: str = ""  # where it is, if not in `torch.distributions` itself
    variant: str = ""
    dtype: str = "float64"
    better: tuple[str, ...] = ()  # where torch raises and we do not: texts that begin its error
    tol: float = 1.0  # of float32

    def __str__(self) -> str:
        return self.name + (f"-{self.variant}" if self.variant else "")

    def draw(self, seed: int, batch: tuple[int, ...], dtype: str = "") -> dict[str, Array]:
        dtype, rng = dtype or self.dtype, np.random.default_rng(seed)
        return {name: KINDS[kind](rng, batch).astype(dtype) for name, kind in self.parameters.items()}

    def tensors(self, M: ModuleType, arrays: dict[str, Array], requires_grad: bool = False) -> dict[str, Any]:
        made = {name: M.tensor(a) for name, a in arrays.items()}
        return {name: t.requires_grad_() if requires_grad else t for name, t in made.items()}

    def make(self, M: ModuleType, tensors: dict[str, Any], **more: Any) -> Any:
        D = M.distributions
        if self.build is not None:
            return self.build(M, D, **tensors)
        where = getattr(D, self.module) if self.module else D
        return getattr(where, self.name)(**tensors, **self.settings, **more)


# What torch raises of its own making: a mask is written to that its gradient needs, and a part that an expanded object has not.
WRITTEN, UNEXPANDED = (
    "RuntimeError: one of the variables needed",
    "AttributeError: 'Multinomial' object has no",
)


def family(name: str, settings: dict[str, Any] | None = None, **parameters: str) -> Family:
    name, _, variant = name.partition("/")
    better = {"Wishart": (WRITTEN,), "Multinomial": (UNEXPANDED,)}.get(name, ())
    return Family(name, parameters, settings or {}, variant=variant, better=better)


def _relaxed(name: str, module: str = "", **parameters: str) -> Family:
    return Family(name, {"temperature": "cool", **parameters}, module=module)


def _independent(M: Any, D: Any, loc: Any, scale: Any) -> Any:
    return D.Independent(D.Normal(loc.unsqueeze(-1).expand(*loc.shape, 3), scale.unsqueeze(-1)), 1)


def _mixture(M: Any, D: Any, probs: Any, loc: Any, scale: Any) -> Any:
    return D.MixtureSameFamily(D.Categorical(probs), D.Normal(loc, scale))


def _mixture_of_vectors(M: Any, D: Any, probs: Any, loc: Any, scale: Any) -> Any:
    each = D.Normal(loc.unsqueeze(-1).expand(*loc.shape, 2), scale.unsqueeze(-1))
    return D.MixtureSameFamily(D.Categorical(probs), D.Independent(each, 1))


def _transformed(M: Any, D: Any, loc: Any, scale: Any, base: Any) -> Any:
    transforms = [
        D.AffineTransform(loc, -scale),
        D.TanhTransform(),
        D.AffineTransform(1.0, 0.5),
        D.ExpTransform(),
    ]
    return D.TransformedDistribution(D.Normal(base, scale), transforms)


def _stick(M: Any, D: Any, loc: Any, scale: Any) -> Any:
    return D.TransformedDistribution(
        D.Normal(loc, scale), [D.SigmoidTransform(), D.SigmoidTransform().inv, D.StickBreakingTransform()]
    )


FAMILIES = [
    family("Bernoulli", probs="unit"),
    family("Bernoulli/logits", logits="real"),
    family("Beta", concentration1="positive", concentration0="positive"),
    family("Binomial", {"total_count": 7}, probs="unit"),
    family("Binomial/logits", total_count="count", logits="real"),
    family("Categorical", probs="shares"),
    family("Categorical/logits", logits="reals"),
    family("Cauchy", loc="real", scale="positive"),
    family("Chi2", df="positive"),
    family("ContinuousBernoulli", probs="unit"),
    family("ContinuousBernoulli/logits", logits="real"),
    family("Dirichlet", concentration="positives"),
    family("Exponential", rate="positive"),
    family("FisherSnedecor", df1="positive", df2="large"),
    family("Gamma", concentration="positive", rate="positive"),
    # in float64 torch compares with a float32, and refuses
    Family(
        "GeneralizedPareto",
        {"loc": "real", "scale": "positive", "concentration": "real"},
        dtype="float32",
        tol=10,
    ),
    family("Geometric", probs="unit"),
    family("Geometric/logits", logits="real"),
    family("Gumbel", loc="real", scale="positive"),
    family("HalfCauchy", scale="positive"),
    family("HalfNormal", scale="positive"),
    family("InverseGamma", concentration="positive", rate="positive"),
    family("Kumaraswamy", concentration1="positive", concentration0="positive"),
    family("LKJCholesky", {"dim": 3}, concentration="positive"),
    family("Laplace", loc="real", scale="positive"),
    family("LogNormal", loc="real", scale="unit"),
    Family("LogisticNormal", {"loc": "reals", "scale": "positives"}, tol=100),  # 1 less what is nearly 1
    family("LowRankMultivariateNormal", loc="reals", cov_factor="factor", cov_diag="positives"),
    Family("MixtureSameFamily", {"probs": "shares", "loc": "reals", "scale": "positives"}, build=_mixture),
    Family(
        "MixtureSameFamily",
        {"probs": "shares", "loc": "reals", "scale": "positives"},
        build=_mixture_of_vectors,
        variant="vectors",
    ),
    family("Multinomial", {"total_count": 5}, probs="shares"),
    family("Multinomial/logits", {"total_count": 4}, logits="reals"),
    family("MultivariateNormal", loc="reals", covariance_matrix="matrix"),
    family("MultivariateNormal/precision", loc="reals", precision_matrix="matrix"),
    family("MultivariateNormal/tril", loc="reals", scale_tril="tril"),
    family("NegativeBinomial", total_count="count", probs="unit"),
    family("NegativeBinomial/logits", total_count="positive", logits="real"),
    family("Normal", loc="real", scale="positive"),
    family("OneHotCategorical", probs="shares"),
    family("OneHotCategorical/logits", logits="reals"),
    family("OneHotCategoricalStraightThrough", probs="shares"),
    family("Pareto", scale="positive", alpha="positive"),
    family("Poisson", rate="positive"),
    _relaxed("LogitRelaxedBernoulli", "relaxed_bernoulli", probs="unit"),
    _relaxed("RelaxedBernoulli", logits="real"),
    _relaxed("ExpRelaxedCategorical", "relaxed_categorical", probs="shares"),
    _relaxed("RelaxedOneHotCategorical", logits="reals"),
    family("StudentT", df="positive", loc="real", scale="positive"),
    family("StudentT/large", df="large", loc="real", scale="positive"),
    family("Uniform", low="low", high="high"),
    family("VonMises", loc="real", concentration="positive"),
    family("Weibull", scale="positive", concentration="positive"),
    family("Wishart", df="large", covariance_matrix="matrix"),
    family("Wishart/precision", df="large", precision_matrix="matrix"),
    family("Wishart/tril", df="large", scale_tril="tril"),
    Family("Independent", {"loc": "real", "scale": "positive"}, build=_independent),
    Family(
        "TransformedDistribution", {"loc": "real", "scale": "positive", "base": "real"}, build=_transformed
    ),
    Family(
        "TransformedDistribution",
        {"loc": "reals", "scale": "positives"},
        build=_stick,
        variant="stick",
        tol=100,
    ),
]
