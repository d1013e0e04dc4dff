"""A library of factors that NumPy plays on a device that the CPU plays: what cuSOLVER would be asked, at
the addresses it would be given."""

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nbgrad.kernels.cuda.solver import ROUTINES, TURNED, UPPER
from nbgrad.ops.linear import lapack

Array = np.ndarray[Any, Any]


class Solver:
    """`asked` has every routine in turn."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def size(self, routine: str, code: str, values: Mapping[str, int]) -> int:
        """As little as there may be, to be looked at by the device's guards."""
        names = ROUTINES[routine][1].split()
        assert {*names} <= values.keys()
        return 3 if names else 0

    def run(self, routine: str, code: str, values: Mapping[str, int], stream: int) -> None:
        """All that it takes must be there; the memory to work in is written to."""
        self.asked.append(routine)
        assert {*ROUTINES[routine][0].split()} <= values.keys(), (routine, values)
        given = _Given(code, values)
        if ROUTINES[routine][1]:
            assert values["size"] == 3
            given.line("work", 3)[...] = 7
        _PLAYED[routine](given)
        if "info" in ROUTINES[routine][0] and routine not in ("getrf", "potrf"):
            given.ints("info", 1)[...] = 0


class _Given:
    def __init__(self, code: str, values: Mapping[str, int]) -> None:
        self.dtype, self.values = np.dtype(code), values

    def __getitem__(self, name: str) -> int:
        return self.values[name]

    def matrix(self, name: str, rows: int, columns: int, ld: str = "ld") -> Array:
        """By columns."""
        step = self[ld]
        assert step >= max(rows, 1)
        size = self.dtype.itemsize
        memory = (ctypes.c_char * (size * (step * (columns - 1) + rows))).from_address(self[name])
        return np.ndarray((rows, columns), self.dtype, memory, 0, (size, size * step))

    def line(self, name: str, n: int) -> Array:
        return np.frombuffer((ctypes.c_char * (n * self.dtype.itemsize)).from_address(self[name]), self.dtype)

    def ints(self, name: str, n: int) -> Array:
        return np.frombuffer((ctypes.c_char * (n * 4)).from_address(self[name]), np.int32)


def _getrf(g: _Given) -> None:
    a = g.matrix("A", g["rows"], g["columns"])
    a[...], pivots, info = lapack.eliminated(np.ascontiguousarray(a))
    g.ints("pivots", len(pivots))[...] = pivots
    g.ints("info", 1)[...] = info


def _getrs(g: _Given) -> None:
    n = g["rows"]
    lu, b = g.matrix("A", n, n), g.matrix("B", n, g["columns"], "ldB")
    lower, upper, x = np.tril(lu, -1) + np.eye(n, dtype=lu.dtype), np.triu(lu), b.copy()
    exchanges = [*enumerate(g.ints("pivots", n) - 1)]
    if g["turned"] == TURNED:
        x = lapack.substituted(lower.T, lapack.substituted(upper.T, x, False), True)
        for k, other in reversed(exchanges):
            x[[k, other]] = x[[other, k]]
    else:
        for k, other in exchanges:
            x[[k, other]] = x[[other, k]]
        x = lapack.substituted(upper, lapack.substituted(lower, x, False), True)
    b[...] = x


def _laswp(g: _Given) -> None:
    assert (g["first"], g["step"]) == (1, 1)
    a = g.matrix("A", g["ld"], g["columns"])
    for k, other in enumerate(g.ints("pivots", g["last"]) - 1):
        a[[k, other]] = a[[other, k]]


def _potrf(g: _Given) -> None:
    a, upper = g.matrix("A", g["rows"], g["rows"]), g["part"] == UPPER
    low, info = lapack.cholesky(np.ascontiguousarray(a.T if upper else a))
    read = np.tril_indices(len(a))  # the other half is left as it was
    (a.T if upper else a)[read] = low[read]
    g.ints("info", 1)[...] = info


def _geqrf(g: _Given) -> None:
    a = g.matrix("A", g["rows"], g["columns"])
    turned, tau = lapack.qr(np.ascontiguousarray(a), "raw")
    a[...] = turned.T
    g.line("tau", len(tau))[...] = tau


def _orgqr(g: _Given) -> None:
    rows, columns, depth = g["rows"], g["columns"], g["depth"]
    assert rows >= columns >= depth
    a, tau = g.matrix("A", rows, columns), g.line("tau", depth)
    q = np.eye(rows, columns, dtype=a.dtype)
    for k in reversed(range(depth)):
        v = np.concatenate([np.zeros(k), [1], a[k + 1 :, k]]).astype(a.dtype)
        q -= tau[k] * np.outer(v, v @ q)
    a[...] = q


def _syevd(g: _Given) -> None:
    assert g["vectors"] == 1
    a = g.matrix("A", g["rows"], g["rows"])
    values, vectors, _ = lapack.eigh(np.ascontiguousarray(a), "U" if g["part"] == UPPER else "L")
    a[...] = vectors
    g.line("values", len(values))[...] = values


def _gesvd(g: _Given) -> None:
    rows, columns = g["rows"], g["columns"]
    assert rows >= columns and g["left"] == g["right"] and chr(g["left"]) in "AS"
    a, whole = g.matrix("A", rows, columns), chr(g["left"]) == "A"
    u, s, v, _ = lapack.svd(np.ascontiguousarray(a), whole)
    a[...] = np.nan  # it is no more
    g.matrix("U", rows, u.shape[1], "ldU")[...] = u
    g.matrix("V", columns, columns, "ldV")[...] = v
    g.line("values", columns)[...] = s


def _trsm(g: _Given) -> None:
    n = g["rows"]
    a, b = g.matrix("A", n, n), g.matrix("B", n, g["columns"], "ldB")
    upper = g["part"] == UPPER
    a = np.triu(a) if upper else np.tril(a)
    if g["unit"]:
        np.fill_diagonal(a, 1)
    turned = g["turned"] == TURNED
    b[...] = lapack.substituted(a.T if turned else a, b, upper is not turned)


_PLAYED: dict[str, Callable[[_Given], None]] = {
    **{"getrf": _getrf, "getrs": _getrs, "laswp": _laswp, "potrf": _potrf, "geqrf": _geqrf},
    **{"orgqr": _orgqr, "syevd": _syevd, "gesvd": _gesvd, "trsm": _trsm},
}
