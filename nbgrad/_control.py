"""What programs say that PyTorch is to trace, in place of Python's words: conditions, loops, and arithmetic of sizes. Sizes are Python's
numbers here, and a condition is looked at, so that each does what Python would."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.core.tensor import Tensor

__all__ = [
    *("cond", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt"),
    *("sym_sum", "while_loop"),
]


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """`true_fn(*operands)` where `pred` holds, else `false_fn(*operands)`.

    >>> x = torch.tensor(-2.0, requires_grad=True)
    >>> torch.cond(x > 0, lambda x: x * 2, lambda x: x * x, (x,)).backward()
    >>> x.grad
    tensor(-4.)
    """
    if not isinstance(pred, bool | int | float | Tensor):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """`carried = body_fn(*carried)` for as long as `cond_fn(*carried)` holds; `body_fn` keeps their shapes and dtypes.

    >>> torch.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), torch.tensor(1.5)))
    (tensor(3), tensor(12.))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, tuple | list):
        raise RuntimeError(
            "Expect carried_inputs to be a tuple of possibly nested dict/list/tuple that only consists of tensor or int "
            f"leaves, but got {carried_inputs}"
        )
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        made = body_fn(*carried)
        after = tuple(made) if isinstance(made, tuple | list) else (made,)
        _check_kept(carried, after)
        carried = after
    return carried


def _check_kept(before: Sequence[Any], after: Sequence[Any]) -> None:
    words = "Expected body_fn_output and carried_inputs to have same metadata but found"
    if len(before) != len(after):
        raise RuntimeError(f"{words} different lengths: {len(after)} and {len(before)}")
    for k, (old, new) in enumerate(zip(before, after)):
        if not isinstance(old, Tensor) or not isinstance(new, Tensor):
            continue
        for name in ("shape", "dtype", "device"):
            was, now = getattr(old, name), getattr(new, name)
            if was != now:
                raise RuntimeError(f"{words}:\npair[{k}] differ in '{name}: {now} vs {was}'")


def sym_not(a: Any) -> Any:
    """`not a`.

    >>> torch.sym_not(True)
    False
    """
    return not a


def sym_float(a: Any) -> Any:
    """`float(a)`.

    >>> torch.sym_float(3)
    3.0
    """
    return float(a)


def sym_int(a: Any) -> Any:
    """`int(a)`: towards zero.

    >>> torch.sym_int(-2.7)
    -2
    """
    return int(a)


def _numbers(*given: Any) -> bool:
    """Whether one of them is no integer."""
    kinds = (np.integer, np.floating, int, float)
    for number in given:
        if not isinstance(number, kinds):
            raise AssertionError(f"expected {kinds}, got {type(number)}")
    return any(isinstance(number, float | np.floating) for number in given)


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two numbers: a float if one of them is, unlike Python's `max`.

    >>> torch.sym_max(3, 1.0)
    3.0
    """
    return float(max(a, b)) if _numbers(a, b) else max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two numbers: a float if one of them is, unlike Python's `min`.

    >>> torch.sym_min(1, 3.0)
    1.0
    """
    return float(min(a, b)) if _numbers(a, b) else min(a, b)


def sym_sum(*args: Any) -> Any:
    """The sum of numbers, given one by one or as one sequence.

    >>> torch.sym_sum([1, 2, 3]), torch.sym_sum(1, 2)
    (6, 3)
    """
    return sum(args[0] if len(args) == 1 and isinstance(args[0], list | tuple) else args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t if b else f`, of one type.

    >>> torch.sym_ite(True, 1, 2)
    1
    """
    if not isinstance(b, bool):
        raise AssertionError(f"expected SymBool or bool, got {type(b)}")
    if type(t) is not type(f):
        raise AssertionError(f"type mismatch: {type(t)} vs {type(f)}")
    return t if b else f


def sym_sqrt(a: Any) -> Any:
    """`math.sqrt(a)`.

    >>> torch.sym_sqrt(4)
    2.0
    """
    return math.sqrt(a)
