"""`nbgrad.optim`: optimisers, each step one kernel over all parameters of a group, and schedules of their options."""

from nbgrad.optim import lr_scheduler as lr_scheduler
from nbgrad.optim.adagrad import Adagrad as Adagrad
from nbgrad.optim.adam import Adam as Adam
from nbgrad.optim.adam import AdamW as AdamW
from nbgrad.optim.optimizer import Optimizer as Optimizer
from nbgrad.optim.rmsprop import RMSprop as RMSprop
from nbgrad.optim.sgd import SGD as SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
