"""`nbgrad.optim`: optimisers, each step one kernel over all parameters of a group, and schedules of their options."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbgrad.optim.adadelta import Adadelta as Adadelta
from nbgrad.optim.adafactor import Adafactor as Adafactor
from nbgrad.optim.adagrad import Adagrad as Adagrad
from nbgrad.optim.adam import Adam as Adam
from nbgrad.optim.adam import AdamW as AdamW
from nbgrad.optim.adamax import Adamax as Adamax
from nbgrad.optim.asgd import ASGD as ASGD
from nbgrad.optim.lbfgs import LBFGS as LBFGS
from nbgrad.optim.muon import Muon as Muon
from nbgrad.optim.nadam import NAdam as NAdam
from nbgrad.optim.optimizer import Optimizer as Optimizer
from nbgrad.optim.radam import RAdam as RAdam
from nbgrad.optim.rmsprop import RMSprop as RMSprop
from nbgrad.optim.rprop import Rprop as Rprop
from nbgrad.optim.sgd import SGD as SGD
from nbgrad.optim.sparse_adam import SparseAdam as SparseAdam

if TYPE_CHECKING:
    from nbgrad.optim import lr_scheduler as lr_scheduler
    from nbgrad.optim import swa_utils as swa_utils

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
]


if not TYPE_CHECKING:  # for which all names are there

    def __getattr__(name: str) -> Any:
        if name in ("lr_scheduler", "swa_utils"):  # the second brings the modules with it
            return import_module(f"nbgrad.optim.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), "lr_scheduler", "swa_utils"})
