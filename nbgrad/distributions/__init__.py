"""`torch.distributions`: random numbers whose parameters are tensors, their densities, divergences, and gradients of what is drawn.

Each distribution is also found in the module that PyTorch has it in, as `torch.distributions.normal`: those hold names alone.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

from nbgrad.distributions import (
    _choices,
    _circle,
    _combined,
    _gammas,
    _lines,
    _matrices,
    _trials,
)
from nbgrad.distributions import constraint_registry as constraint_registry
from nbgrad.distributions import constraints as constraints
from nbgrad.distributions import distribution as distribution
from nbgrad.distributions import kl as kl
from nbgrad.distributions import transforms as transforms
from nbgrad.distributions import utils as utils
from nbgrad.distributions._choices import Categorical as Categorical
from nbgrad.distributions._choices import MixtureSameFamily as MixtureSameFamily
from nbgrad.distributions._choices import Multinomial as Multinomial
from nbgrad.distributions._choices import OneHotCategorical as OneHotCategorical
from nbgrad.distributions._choices import OneHotCategoricalStraightThrough as OneHotCategoricalStraightThrough
from nbgrad.distributions._choices import RelaxedOneHotCategorical as RelaxedOneHotCategorical
from nbgrad.distributions._circle import VonMises as VonMises
from nbgrad.distributions._combined import Independent as Independent
from nbgrad.distributions._combined import TransformedDistribution as TransformedDistribution
from nbgrad.distributions._gammas import Beta as Beta
from nbgrad.distributions._gammas import Chi2 as Chi2
from nbgrad.distributions._gammas import Dirichlet as Dirichlet
from nbgrad.distributions._gammas import FisherSnedecor as FisherSnedecor
from nbgrad.distributions._gammas import Gamma as Gamma
from nbgrad.distributions._gammas import InverseGamma as InverseGamma
from nbgrad.distributions._gammas import StudentT as StudentT
from nbgrad.distributions._lines import Cauchy as Cauchy
from nbgrad.distributions._lines import Exponential as Exponential
from nbgrad.distributions._lines import GeneralizedPareto as GeneralizedPareto
from nbgrad.distributions._lines import Gumbel as Gumbel
from nbgrad.distributions._lines import HalfCauchy as HalfCauchy
from nbgrad.distributions._lines import HalfNormal as HalfNormal
from nbgrad.distributions._lines import Kumaraswamy as Kumaraswamy
from nbgrad.distributions._lines import Laplace as Laplace
from nbgrad.distributions._lines import LogisticNormal as LogisticNormal
from nbgrad.distributions._lines import LogNormal as LogNormal
from nbgrad.distributions._lines import Normal as Normal
from nbgrad.distributions._lines import Pareto as Pareto
from nbgrad.distributions._lines import Uniform as Uniform
from nbgrad.distributions._lines import Weibull as Weibull
from nbgrad.distributions._matrices import LKJCholesky as LKJCholesky
from nbgrad.distributions._matrices import LowRankMultivariateNormal as LowRankMultivariateNormal
from nbgrad.distributions._matrices import MultivariateNormal as MultivariateNormal
from nbgrad.distributions._matrices import Wishart as Wishart
from nbgrad.distributions._trials import Bernoulli as Bernoulli
from nbgrad.distributions._trials import Binomial as Binomial
from nbgrad.distributions._trials import ContinuousBernoulli as ContinuousBernoulli
from nbgrad.distributions._trials import Geometric as Geometric
from nbgrad.distributions._trials import NegativeBinomial as NegativeBinomial
from nbgrad.distributions._trials import Poisson as Poisson
from nbgrad.distributions._trials import RelaxedBernoulli as RelaxedBernoulli
from nbgrad.distributions.constraint_registry import biject_to as biject_to
from nbgrad.distributions.constraint_registry import transform_to as transform_to
from nbgrad.distributions.distribution import Distribution as Distribution
from nbgrad.distributions.distribution import ExponentialFamily as ExponentialFamily
from nbgrad.distributions.kl import kl_divergence as kl_divergence
from nbgrad.distributions.kl import register_kl as register_kl
from nbgrad.distributions.transforms import AbsTransform as AbsTransform
from nbgrad.distributions.transforms import AffineTransform as AffineTransform
from nbgrad.distributions.transforms import CatTransform as CatTransform
from nbgrad.distributions.transforms import ComposeTransform as ComposeTransform
from nbgrad.distributions.transforms import CorrCholeskyTransform as CorrCholeskyTransform
from nbgrad.distributions.transforms import CumulativeDistributionTransform as CumulativeDistributionTransform
from nbgrad.distributions.transforms import ExpTransform as ExpTransform
from nbgrad.distributions.transforms import IndependentTransform as IndependentTransform
from nbgrad.distributions.transforms import LowerCholeskyTransform as LowerCholeskyTransform
from nbgrad.distributions.transforms import PositiveDefiniteTransform as PositiveDefiniteTransform
from nbgrad.distributions.transforms import PowerTransform as PowerTransform
from nbgrad.distributions.transforms import ReshapeTransform as ReshapeTransform
from nbgrad.distributions.transforms import SigmoidTransform as SigmoidTransform
from nbgrad.distributions.transforms import SoftmaxTransform as SoftmaxTransform
from nbgrad.distributions.transforms import SoftplusTransform as SoftplusTransform
from nbgrad.distributions.transforms import StackTransform as StackTransform
from nbgrad.distributions.transforms import StickBreakingTransform as StickBreakingTransform
from nbgrad.distributions.transforms import TanhTransform as TanhTransform
from nbgrad.distributions.transforms import Transform as Transform
from nbgrad.distributions.transforms import identity_transform as identity_transform
from nbgrad.names import finder

# PyTorch's modules, what each holds, and what else of it other libraries import.
_MODULES: dict[ModuleType, dict[str, str]] = {
    distribution: {"exp_family": "ExponentialFamily"},
    _choices: {
        "categorical": "Categorical",
        "mixture_same_family": "MixtureSameFamily",
        "multinomial": "Multinomial",
        "one_hot_categorical": "OneHotCategorical OneHotCategoricalStraightThrough",
        "relaxed_categorical": "ExpRelaxedCategorical RelaxedOneHotCategorical",
    },
    _circle: {"von_mises": "VonMises _log_modified_bessel_fn _rejection_sample"},
    _combined: {"independent": "Independent", "transformed_distribution": "TransformedDistribution"},
    _gammas: {
        "beta": "Beta",
        "chi2": "Chi2",
        "dirichlet": "Dirichlet _Dirichlet",
        "fishersnedecor": "FisherSnedecor",
        "gamma": "Gamma _standard_gamma",
        "inverse_gamma": "InverseGamma",
        "studentT": "StudentT",
    },
    _lines: {
        "cauchy": "Cauchy",
        "exponential": "Exponential",
        "generalized_pareto": "GeneralizedPareto",
        "gumbel": "Gumbel",
        "half_cauchy": "HalfCauchy",
        "half_normal": "HalfNormal",
        "kumaraswamy": "Kumaraswamy",
        "laplace": "Laplace",
        "log_normal": "LogNormal",
        "logistic_normal": "LogisticNormal",
        "normal": "Normal _standard_normal",
        "pareto": "Pareto",
        "uniform": "Uniform",
        "weibull": "Weibull",
    },
    _matrices: {
        "lkj_cholesky": "LKJCholesky",
        "lowrank_multivariate_normal": (
            "LowRankMultivariateNormal _batch_capacitance_tril _batch_lowrank_logdet _batch_lowrank_mahalanobis"
        ),
        "multivariate_normal": (
            "MultivariateNormal _batch_mahalanobis _batch_mv _precision_to_scale_tril _standard_normal"
        ),
        "wishart": "Wishart",
    },
    _trials: {
        "bernoulli": "Bernoulli",
        "binomial": "Binomial",
        "continuous_bernoulli": "ContinuousBernoulli",
        "geometric": "Geometric",
        "negative_binomial": "NegativeBinomial",
        "poisson": "Poisson",
        "relaxed_bernoulli": "LogitRelaxedBernoulli RelaxedBernoulli",
    },
}


def _module(name: str, of: ModuleType, held: list[str]) -> ModuleType:
    path = f"{__name__}.{name}"
    module = ModuleType(path, of.__doc__)
    module.__spec__ = ModuleSpec(path, None, origin=of.__file__)
    module.__file__, module.__package__ = of.__file__, __name__
    module.__dict__.update({key: getattr(of, key) for key in held})
    module.__dict__["__all__"] = [key for key in held if not key.startswith("_")]
    for key in module.__dict__["__all__"]:
        getattr(of, key).__module__ = path  # which texts and pickles name
    sys.modules[path] = module
    finder.fill(module)
    return module


for _of, _names in _MODULES.items():
    for _name, _held in _names.items():
        globals()[_name] = _module(_name, _of, _held.split())

__all__ = [
    *("Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet"),
    *("Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto"),
    *("Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy"),
    *("LKJCholesky", "Laplace", "LogNormal", "LogisticNormal", "LowRankMultivariateNormal"),
    *("MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal"),
    *("OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "RelaxedBernoulli"),
    *("RelaxedOneHotCategorical", "StudentT", "TransformedDistribution", "Uniform", "VonMises", "Weibull"),
    *("Wishart", "biject_to", "kl_divergence", "register_kl", "transform_to"),
    *transforms.__all__,
]
