"""What is asked of an argument of a function with derivatives: of which kind it is, what its parts are called, and how it is copied.

Promises `Differentiable` that arguments are refused by name, before anything is made for them, and that two of a kind are told alike.
"""

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from nbgrad.adjoints import keyed
from nbgrad.adjoints.build import Keys
from nbgrad.adjoints.expressions import held_by
from nbgrad.adjoints.ir import Form, Several
from nbgrad.adjoints.lower import ArrayOf, Kind, Known, PartialOf, Scalar, TupleOf
from nbgrad.base.tables import Table

_arrays: Table[tuple[int, np.dtype[Any]], ArrayOf] = Table(
    "adjoints.kinds.arrays", 256
)  # as NumPy takes long to say what a dtype is called


def kind_of(a: Any, name: str = "the argument") -> Kind:
    """What an argument, or a type of Numba's or Python's, is for lowering."""
    if isinstance(a, np.ndarray):
        if a.dtype.kind == "c" and a.dtype.itemsize <= 16 and a.dtype.isnative:
            part = _array(a.ndim, a.real.dtype, name)
            return TupleOf((part, part), complex)
        return _array(a.ndim, a.dtype, name)
    if isinstance(a, bool | np.bool_) or a is bool:
        return Scalar("bool")
    if isinstance(a, int | np.integer) or a is int:
        return Scalar("int")
    if isinstance(a, float | np.floating) or a is float:
        return Scalar("float")
    if isinstance(a, complex | np.complexfloating) or a is complex:
        return TupleOf((Scalar("float"), Scalar("float")), complex)
    if isinstance(a, tuple | list):
        return TupleOf(tuple(kind_of(i, f"{name}[{k}]") for k, i in enumerate(a)), type(a))
    if isinstance(a, dict):
        return TupleOf(tuple(kind_of(x, f"{name}[{k!r}]") for k, x in a.items()), Keys(tuple(a), keyed.GIVEN))
    if a is None or isinstance(a, str | enum.Enum):  # as `stays` has it
        return Known(a)
    if str(a).startswith("complex") and hasattr(a, "bitwidth"):  # a type of Numba's
        return kind_of(0j)
    if hasattr(a, "bitwidth") and hasattr(a, "name"):
        return Scalar("float" if "float" in a.name else "bool" if a.name.startswith("bool") else "int")
    if hasattr(a, "ndim") and hasattr(a, "dtype") and hasattr(a, "layout"):
        return kind_of(np.empty((0,) * a.ndim, np.dtype(str(a.dtype))), name)
    if str(a) == "bool":
        return Scalar("bool")
    inner = held_by(a)
    if inner is not None:
        held = [*zip(map(str, range(len(inner.args))), inner.args), *inner.keywords.items()]
        kinds = tuple([kind_of(v, f"what {name} holds as {label}") for label, v in held])
        return PartialOf(inner.func, kinds, tuple([label for label, _ in held]), len(inner.args))
    if isinstance(a, types.FunctionType) or hasattr(a, "as_partial") or hasattr(a, "py_func"):
        return Known(a)
    raise TypeError(
        f"{name} is a {type(a).__name__}; numbers, arrays, and tuples, lists and dictionaries of them are taken"
    )


def stays(a: Any) -> bool:
    """Is an argument that has no parts known when the function is written, so that no call hands it over?"""
    return (
        a is None
        or isinstance(a, str)
        or callable(a)
        or (isinstance(a, enum.Enum) and not isinstance(a, int | float))
    )


def parts_of(a: Any) -> list[Any] | None:
    """Of an argument that has parts, they, in their order; of complex numbers what is real and what is not."""
    if isinstance(a, np.ndarray):
        return [a.real, a.imag] if a.dtype.kind == "c" else None
    if isinstance(a, tuple | list):
        return list(a)
    if isinstance(a, dict):
        return list(a.values())
    if isinstance(a, complex | np.complexfloating):
        return [a.real, a.imag]
    held = held_by(a)
    return None if held is None else [*held.args, *held.keywords.values()]


def _array(rank: int, dtype: np.dtype[Any], name: str) -> ArrayOf:
    known = _arrays.get((rank, dtype))
    if known is not None:
        return known
    if dtype.kind not in "fiub" or dtype.itemsize > 8 or str(dtype) == "float16":
        raise TypeError(
            f"{name} is an array of {dtype}; float32, float64, complex64, complex128, integers and bool are taken"
        )
    if rank == 0:
        raise TypeError(f"{name} is an array without dimensions; pass a number, or an array of one element")
    if not dtype.isnative:
        raise TypeError(f"{name} is an array in another machine's order of bytes")
    return _arrays.keep((rank, dtype), ArrayOf(rank, str(dtype)))


def told_by(a: Any) -> Any:
    """What tells the kind of an argument, where that is quickly told: its type, or its dtype and dimensions."""
    of = type(a)
    if of is np.ndarray:
        return a.dtype, a.ndim
    return of if of is float or of is int or of is bool else None


def flat_names(name: str, of: Kind) -> list[str]:
    """What the parts of a parameter are called."""
    if isinstance(of, TupleOf | PartialOf):
        return [p for label, k in zip(of.labels, of.items) for p in flat_names(f"{name}_{label}", k)]
    return [] if isinstance(of, Known) else [name]


def names_given(name: str, of: Kind) -> list[str]:
    """Those of them that a function holds which is an argument."""
    if isinstance(of, TupleOf):
        return [p for label, k in zip(of.labels, of.items) for p in names_given(f"{name}_{label}", k)]
    return flat_names(name, of) if isinstance(of, PartialOf) else []


def complex_names(name: str, of: Kind) -> dict[str, str]:
    """What the parts of complex numbers in a parameter are called, the imaginary by the real."""
    if isinstance(of, TupleOf) and of.of is complex:
        re, im = flat_names(name, of)
        return {re: im}
    found: dict[str, str] = {}
    if isinstance(of, TupleOf | PartialOf):
        for label, k in zip(of.labels, of.items):
            found |= complex_names(f"{name}_{label}", k)
    return found


def laps(a: np.ndarray[Any, Any]) -> bool:
    """Do elements of an array share memory?"""
    if a.flags.forc or not a.size:
        return False
    end = a.itemsize
    for stride, n in sorted((abs(s), n) for s, n in zip(a.strides, a.shape) if n > 1):
        if stride < end:
            return True
        end += stride * (n - 1)
    return False


def like(x: Any, a: Any, name: str) -> Any:
    if not isinstance(a, np.ndarray):
        return float(x)
    found = np.array(x, a.dtype)
    if found.shape != a.shape:
        raise ValueError(f"{name} has shape {found.shape}, and the array {a.shape}")
    return found


def as_seed(s: Any) -> Any:
    if s is None:
        return 0.0
    return float(s) if isinstance(s, bool | int | float | np.generic) else np.asarray(s)


def each_seed(form: Form, seeds: Any) -> list[Any]:
    """The seeds of results, one after another, and what else was given."""
    if isinstance(form, Several) and isinstance(seeds, dict):
        return _of_part(form, seeds)
    listed = list(seeds) if isinstance(seeds, tuple | list) else [seeds]
    if isinstance(form, Several) and form.of is complex:
        return _of_part(form, listed[0]) + listed[1:]
    if not isinstance(form, Several):
        return listed
    of = [part for part in form.parts if part is not None]
    return [s for part, seed in zip(of, listed) for s in _of_part(part, seed)] + listed[len(of) :]


def _of_part(form: Form, seed: Any) -> list[Any]:
    if not isinstance(form, Several):
        return [seed]
    if form.of is complex and seed is not None:
        seed = [np.real(seed), np.imag(seed)]
    of = [part for part in form.parts if part is not None]
    seeds = [None] * len(of) if seed is None else seed
    if isinstance(seeds, dict):
        if not isinstance(form.of, Keys) or seeds.keys() - set(form.of.names):
            raise TypeError(f"a result has not the parts of its seed {seed!r}")
        parts = zip(form.of.names, form.parts)
        seeds = [seeds.get(name) for name, part in parts if part is not None]
    if not isinstance(seeds, tuple | list) or len(seeds) != len(of):
        raise TypeError(f"a result has {len(of)} parts, and its seed is {seed!r}")
    return [s for part, one in zip(of, seeds) for s in _of_part(part, one)]


def of_each(f: Callable[[Any], Any], a: Any) -> Any:
    """An argument with what `f` makes of each number and array in it."""
    if isinstance(a, tuple | list):
        parts = [of_each(f, i) for i in a]
        return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
    if isinstance(a, dict):
        return {k: of_each(f, x) for k, x in a.items()}
    if (inner := held_by(a)) is not None:
        named = {n: of_each(f, v) for n, v in inner.keywords.items()}
        return functools.partial(inner.func, *[of_each(f, v) for v in inner.args], **named)
    return f(a)


def copied(a: Any) -> Any:
    return of_each(lambda x: x.copy() if isinstance(x, np.ndarray) else x, a)


def as_list(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [] if x is None else [x]
