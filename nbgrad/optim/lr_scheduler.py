"""Schedules of the options of an optimiser, above all the learning rate."""

from nbgrad.optim._schedule import LRScheduler
from nbgrad.optim._schedule import _LRScheduler as _LRScheduler
from nbgrad.optim._schedules_by_factor import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from nbgrad.optim._schedules_by_metric import ReduceLROnPlateau
from nbgrad.optim._schedules_in_cycles import (
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    CyclicLR,
    OneCycleLR,
)
from nbgrad.optim._schedules_of_schedules import ChainedScheduler, SequentialLR

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
