"""`torch.nn`: parameters, modules, and the functions that networks are made of.

Modules are loaded when the first of them is asked for: a program that uses none does not pay for them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nbgrad.nn import functional as functional
from nbgrad.nn.parameter import Buffer as Buffer
from nbgrad.nn.parameter import Parameter as Parameter
from nbgrad.nn.parameter import UninitializedBuffer as UninitializedBuffer
from nbgrad.nn.parameter import UninitializedParameter as UninitializedParameter

if TYPE_CHECKING:
    from nbgrad.nn import attention as attention
    from nbgrad.nn import common_types as common_types
    from nbgrad.nn import grad as grad
    from nbgrad.nn import init as init
    from nbgrad.nn import modules as modules
    from nbgrad.nn import parallel as parallel
    from nbgrad.nn import utils as utils
    from nbgrad.nn.modules import *  # noqa: F403
    from nbgrad.nn.parallel import DataParallel as DataParallel

_MODULES = ("attention", "common_types", "grad", "init", "modules", "parallel", "utils")

if not TYPE_CHECKING:  # for which all names are there

    def __getattr__(name: str) -> Any:
        if name == "__all__":  # `from torch.nn import *` asks for them
            return ["functional", *_MODULES, *_classes()]
        if name in _MODULES:
            return import_module(f"nbgrad.nn.{name}")
        if name[:1].isupper():
            modules = vars(
                import_module("nbgrad.nn.parallel" if name == "DataParallel" else "nbgrad.nn.modules")
            )
            if name in modules:
                return modules[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _classes() -> list[str]:
    found = [name for name in dir(import_module("nbgrad.nn.modules")) if name[:1].isupper()]
    return ["Buffer", "DataParallel", "Parameter", "UninitializedBuffer", "UninitializedParameter", *found]


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_classes()})
