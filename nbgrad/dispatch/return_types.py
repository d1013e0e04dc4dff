"""Results of several tensors, by name and by place, shown as `torch.return_types` shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from nbgrad.core import pytree
from nbgrad.core.plan import EXPECTED as EXPECTED
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import check_apart, check_out, into


class _OfFields:
    def __init__(self, of: Callable[[Any], Any]) -> None:
        self.of = of

    def __get__(self, result: Any, kind: Any) -> Any:
        return self.of(kind.fields)


class Named(tuple[Any, ...]):
    """What PyTorch's named results have in common: one sequence makes them, and fields are read by name."""

    __slots__ = ()
    fields: tuple[str, ...] = ()
    # As C's tuples with names have, which PyTorch's are.
    __match_args__ = _OfFields(tuple)
    n_fields = n_sequence_fields = _OfFields(len)
    n_unnamed_fields = 0

    def __repr__(self) -> str:
        shown = ",\n".join(f"{name}={value!r}" for name, value in zip(self.fields, self))
        return f"torch.return_types.{type(self).__name__}(\n{shown})"


def _field(k: int) -> property:
    return property(lambda self: tuple.__getitem__(self, k))


def _again(kind: Callable[[Any], Any], values: Any, _: None) -> Any:
    return kind(values)


def _make(name: str, *fields: str) -> Callable[[Any], Any]:
    """A result has one type, and where `out=` was given another."""
    words = f"What `{name}` gives, by name and by place: `{'`, `'.join(fields)}`."
    for full in (name, f"{name}_out"):
        body = {"__slots__": (), "fields": fields, "__module__": "nbgrad.return_types", "__doc__": words}
        kind = globals()[full] = type(full, (Named,), body | {f: _field(k) for k, f in enumerate(fields)})
        pytree.nodes[kind] = pytree.nodes[tuple]._replace(type=kind, unflatten_fn=partial(_again, kind))
    made: Callable[[Any], Any] = globals()[name]
    return made


for _name in ("max", "min", "sort", "topk", "kthvalue", "median", "nanmedian", "mode", "cummax", "cummin"):
    _make(_name, "values", "indices")
_make("aminmax", "min", "max")
_make("histogram", "hist", "bin_edges")
_make("frexp", "mantissa", "exponent")
for _prefix in ("", "linalg_"):
    _make(f"{_prefix}slogdet", "sign", "logabsdet")
    _make(f"{_prefix}qr", "Q", "R")
_make("geqrf", "a", "tau")
_make("svd", "U", "S", "V")
_make("linalg_svd", "U", "S", "Vh")
_make("linalg_eig", "eigenvalues", "eigenvectors")
_make("linalg_eigh", "eigenvalues", "eigenvectors")
_make("linalg_inv_ex", "inverse", "info")
_make("linalg_solve_ex", "result", "info")
_make("linalg_cholesky_ex", "L", "info")
_make("histogramdd", "hist", "bin_edges")
_make("triangular_solve", "solution", "cloned_coefficient")
_make("linalg_ldl_factor", "LD", "pivots")
_make("linalg_ldl_factor_ex", "LD", "pivots", "info")
_make("linalg_lu_factor", "LU", "pivots")
_make("linalg_lu_factor_ex", "LU", "pivots", "info")
_make("_lu_with_info", "LU", "pivots", "info")
for _name in ("linalg_lu", "lu_unpack"):
    _make(_name, "P", "L", "U")
_make("linalg_lstsq", "solution", "residuals", "rank", "singular_values")


def named(name: str, values: Any, out: bool = False) -> Any:
    return globals()[f"{name}_out" if out else name](values)


def results(
    name: str,
    parts: Iterable[Tensor],
    out: Any,
    inputs: Sequence[Any],
    apart: bool = False,
    exact: str | Sequence[str | None] = EXPECTED,
) -> Any:
    """The results by name; where `out=` is given, written into its tensors, none of them before all have been checked. `exact` holds
    the words on another dtype, for all or for each (None: it is cast). `apart` says that none may overlap an input in part."""
    parts = tuple(parts)
    if out is None:
        return named(name, parts)
    if len(out) != len(parts):
        raise TypeError(f"expected tuple of {len(parts)} elements but got {len(out)}")
    words = (exact,) * len(parts) if isinstance(exact, str) else exact
    for t, part, text in zip(out, parts, words):
        check_out(name, t, part.dtype, inputs, text)
        if apart:
            check_apart(t, inputs)
    return named(name, [into(name, t, p, inputs, w) for t, p, w in zip(out, parts, words)], True)


def maker(name: str) -> Callable[[Any], Any]:
    """What makes a result of that name of its values."""
    made: Callable[[Any], Any] = globals()[name]
    return made
