"""Decompositions and systems of equations whose derivatives are known as formulas: what fills an array, and what its derivatives are.

Promises the passes, for each of `FORMULAS`, functions in the language that is differentiated: `into(*args, out)` fills an array;
`back[k](*values, out's bar, bar of argument k)` adds to that bar, `along[k](*values, tangent of argument k, out's tangent)` to that
tangent, with the values of those arguments, and of `out`, that `reads` tells. As they call nothing but each other and loops, the next
order is written out of them. All is float64; parts of a result lie in one array, whose rows are as long as the longest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbgrad.adjoints.formulas.elimination import (
    det_along,
    det_back,
    det_into,
    inv_along,
    inv_back,
    inv_into,
    slogdet_along,
    slogdet_back,
    slogdet_into,
    solve_along_a,
    solve_along_b,
    solve_back_a,
    solve_back_b,
    solve_into,
)
from nbgrad.adjoints.formulas.least import (
    lstsq_along_a,
    lstsq_along_b,
    lstsq_along_cut,
    lstsq_back_a,
    lstsq_back_b,
    lstsq_back_cut,
    lstsq_into,
)
from nbgrad.adjoints.formulas.orthogonal import qr_along, qr_back, qr_into
from nbgrad.adjoints.formulas.singular import svd_along, svd_back, svd_into
from nbgrad.adjoints.formulas.symmetric import (
    cholesky_along,
    cholesky_back,
    cholesky_into,
    eigh_along,
    eigh_back,
    eigh_into,
)

OUT = -1


@dataclass(frozen=True)
class Formula:
    into: Callable[..., Any]
    reads: tuple[int, ...]  # arguments by their places, or OUT
    back: tuple[Callable[..., Any], ...]
    along: tuple[Callable[..., Any], ...]

    @property
    def name(self) -> str:
        return str(self.into.__name__)


FORMULAS: dict[str, Formula] = {
    f.name: f
    for f in (
        Formula(solve_into, (0, OUT), (solve_back_a, solve_back_b), (solve_along_a, solve_along_b)),
        Formula(inv_into, (OUT,), (inv_back,), (inv_along,)),
        Formula(det_into, (0,), (det_back,), (det_along,)),
        Formula(slogdet_into, (0,), (slogdet_back,), (slogdet_along,)),
        Formula(cholesky_into, (OUT,), (cholesky_back,), (cholesky_along,)),
        Formula(eigh_into, (OUT,), (eigh_back,), (eigh_along,)),
        Formula(qr_into, (OUT,), (qr_back,), (qr_along,)),
        Formula(svd_into, (OUT,), (svd_back,), (svd_along,)),
        Formula(
            lstsq_into,
            (0, 1, OUT),
            (lstsq_back_a, lstsq_back_b, lstsq_back_cut),
            (lstsq_along_a, lstsq_along_b, lstsq_along_cut),
        ),
    )
}
for _f in FORMULAS.values():
    _f.into.formula = _f  # type: ignore[attr-defined]
    for _g in (_f.into, *_f.back, *_f.along):
        _g.apart = True  # type: ignore[attr-defined]

__all__ = ["FORMULAS", "OUT", "Formula"]
