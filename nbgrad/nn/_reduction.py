"""What becomes of a loss per element: `reduction`, and the two older words that PyTorch still takes for it."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, signature
from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.arguments import written_later
from nbgrad.core.tensor import Tensor
from nbgrad.ops.reduce import sums as r

Loss = Callable[..., Tensor]


def reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return r.mean(loss) if reduction == "mean" else r.sum(loss)


def check_reduction(reduction: str) -> str:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def told(size_average: Any, reduce: Any) -> str:
    """The reduction that the older words say, of which at least one is given."""
    average, each = (True if v is None else bool(v) for v in (size_average, reduce))
    found = ("mean" if average else "sum") if each else "none"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{found}' instead.")
    return found


legacy_get_string = told  # PyTorch's name


_TOLD = """
def {name}({parameters}):
    if size_average is not None or reduce is not None:
        reduction = _told(size_average, reduce)
    return _function({arguments})
"""


def reducing(early: str = "reduction") -> Callable[[Loss], Loss]:
    """A loss of a `reduction` that also takes `size_average` and `reduce`, which stand before it, and where given say what it is. In
    some of PyTorch's losses the first of them stands further up, before the parameter `early`."""

    def decorate(function: Loss) -> Loss:
        form = signature(function)
        every: list[Parameter] = []
        for p in form.parameters.values():
            older = [n for n, at in (("size_average", early), ("reduce", "reduction")) if p.name == at]
            every += [p.replace(name=n, default=None, annotation="bool | None") for n in older]
            every.append(p)

        def write(made: Any) -> str:
            # Names follow those without a default.
            return _TOLD.format(
                name=function.__name__,
                parameters=", ".join(
                    [p.name if p.default is p.empty else f"{p.name}=_{p.name}" for p in every]
                ),
                arguments=", ".join(form.parameters),
            )

        scope = {f"_{p.name}": p.default for p in every}
        scope |= {"_told": told, "_function": function, "__name__": function.__module__}
        made = written_later(write, function.__name__, scope, function, "", "older words")
        made.__signature__ = form.replace(parameters=every)
        made.__dict__.pop("known_as", None)  # PyTorch's guard stands before the older words, too
        known: Loss = made
        return known

    return decorate
