"""Symmetric matrices, definite or not, or Hermitian ones, as L D L^T, and systems solved with them, as source: each matrix by itself.

Promises `ops/linear/ldl.py` what LAPACK's unblocked routine (Bunch and Kaufman) leaves: D's blocks have one or two rows, `pivots` names
the row, from 1, that each was exchanged with, negative in a block of two.
"""

from __future__ import annotations

from math import sqrt

from nbgrad.base.tables import cached

_SHARE = (1 + sqrt(17)) / 8  # of a column's largest number, from which on the diagonal's is good enough

_FACTOR = '''"""L below the blocks of D, over the lower triangles of what is factored, 0 above; and the first block, from 1, that is 0."""


def @NAME@(start, stop, meta, a, pivots, infos):
    n = meta[0]
    for item in range(start, stop):
        begin = item * n * n
        info = 0
        k = 0
        for i in range(n):
            for j in range(i + 1, n):
                a[begin + i * n + j] = 0
        while k < n:
            here = begin + k * n
            {real_diagonal}
            v = a[here + k]
            own = {size}
            largest = 0.0
            best = min(k + 1, n - 1)
            for i in range(k + 1, n):
                v = a[begin + i * n + k]
                size = {size}
                if largest == largest and not (size <= largest):
                    largest = size
                    best = i
            rows = 1
            other = k
            if own != own or (own == 0 and not (largest > 0)):
                rows = 0
            elif not (own >= {share} * largest):
                row = 0.0
                for j in range(k, best):
                    v = a[begin + best * n + j]
                    size = {size}
                    if row == row and not (size <= row):
                        row = size
                for i in range(best + 1, n):
                    v = a[begin + i * n + best]
                    size = {size}
                    if row == row and not (size <= row):
                        row = size
                if not (own >= {share} * largest * (largest / row)):
                    other = best
                    v = a[begin + best * n + best]
                    size = {size}
                    if not (size >= {share} * row):
                        rows = 2
            if rows == 0 and info == 0:
                info = k + 1
            end = k + max(rows, 1)
            last = end - 1
            if other != last:
                p = begin + last * n
                q = begin + other * n
                for i in range(other + 1, n):
                    v = a[begin + i * n + last]
                    a[begin + i * n + last] = a[begin + i * n + other]
                    a[begin + i * n + other] = v
                for i in range(last + 1, other):
                    v = a[begin + i * n + last]
                    w = a[q + i]
                    a[begin + i * n + last] = {w}
                    a[q + i] = {v}
                v = a[q + last]
                a[q + last] = {v}
                v = a[p + last]
                a[p + last] = a[q + other]
                a[q + other] = v
                if rows == 2:
                    v = a[p + k]
                    a[p + k] = a[q + k]
                    a[q + k] = v
            # What a row was before it is divided stands above the diagonal meanwhile, where a row lies in order.
            if rows == 1:
                for i in range(end, n):
                    q = begin + i * n
                    x = a[q + k]
                    factor = x / a[here + k]
                    a[here + i] = x
                    a[q + k] = factor
                    for j in range(end, i + 1):
                        v = a[here + j]
                        a[q + j] = a[q + j] - factor * {v}
            if rows == 2:
                below = here + n
                v = a[below + k]
                beside = {v}
                d = a[below + k + 1] / v
                e = a[here + k] / beside
                rest = d * e - 1
                for i in range(end, n):
                    q = begin + i * n
                    x = a[q + k]
                    y = a[q + k + 1]
                    first = (x * d - y) / rest / beside
                    second = (y * e - x) / rest / a[below + k]
                    a[here + i] = x
                    a[below + i] = y
                    a[q + k] = first
                    a[q + k + 1] = second
                    for j in range(end, i + 1):
                        v = a[here + j]
                        w = a[below + j]
                        a[q + j] = a[q + j] - (first * {v} + second * {w})
                for j in range(end, n):
                    a[below + j] = 0
            for j in range(end, n):
                a[here + j] = 0
            for j in range(k, end):
                pivots[item * n + j] = -(other + 1) if rows == 2 else other + 1
            k = end
        infos[item] = info
'''


_SOLVE = '''"""The solutions x, which hold the right sides at first; and 1 where the pivots are none of a factorization's."""


def @NAME@(start, stop, meta, x, a, pivots, wrong):
    n = meta[0]
    columns = meta[1]
    for item in range(start, stop):
        begin = item * n
        bad = 0
        k = 0
        while k < n:
            pivot = pivots[begin + k]
            if pivot == 0 or abs(pivot) > n:
                bad = 1
            if pivot < 0 and k + 1 == n:
                bad = 1
            k += 2 if pivot < 0 else 1
        for i in range(n):
            if pivots[begin + i] == 0 or abs(pivots[begin + i]) > n:
                bad = 1
        wrong[item] = bad
        if bad:
            continue
        k = 0
        while k < n:
            pivot = pivots[begin + k]
            end = k + 2 if pivot < 0 else k + 1
            p = (begin + end - 1) * columns
            q = (begin + abs(pivot) - 1) * columns
            if p != q:
                for j in range(columns):
                    v = x[p + j]
                    x[p + j] = x[q + j]
                    x[q + j] = v
            for m in range(k, end):
                p = (begin + m) * columns
                for i in range(end, n):
                    factor = a[(begin + i) * n + m]
                    q = (begin + i) * columns
                    for j in range(columns):
                        x[q + j] = x[q + j] - factor * x[p + j]
            k = end
        k = n
        while k > 0:
            end = k
            k -= 2 if pivots[begin + k - 1] < 0 else 1
            here = (begin + k) * n + k
            p = (begin + k) * columns
            if end - k == 1:
                divisor = a[here]
                for j in range(columns):
                    x[p + j] = x[p + j] / divisor
            else:
                q = p + columns
                v = a[here + n]
                beside = {v}
                d = a[here + n + 1] / v
                e = a[here] / beside
                rest = d * e - 1
                for j in range(columns):
                    first = x[p + j] / beside
                    second = x[q + j] / v
                    x[p + j] = (d * first - second) / rest
                    x[q + j] = (e * second - first) / rest
        k = n
        while k > 0:
            end = k
            k -= 2 if pivots[begin + k - 1] < 0 else 1
            for m in range(k, end):
                p = (begin + m) * columns
                for i in range(end, n):
                    v = a[(begin + i) * n + m]
                    factor = {v}
                    q = (begin + i) * columns
                    for j in range(columns):
                        x[p + j] = x[p + j] - factor * x[q + j]
            p = (begin + end - 1) * columns
            q = (begin + abs(pivots[begin + k]) - 1) * columns
            if p != q:
                for j in range(columns):
                    v = x[p + j]
                    x[p + j] = x[q + j]
                    x[q + j] = v
'''


def _text(text: str, code: str, hermitian: bool) -> str:
    mirror = ".conjugate()" if hermitian and code[0] == "c" else ""
    place = "a[begin + i * n + i]"
    real = f"for i in range(k, n):\n                {place} = {place}.real" if mirror else "pass"
    size = "abs(v.real) + abs(v.imag)" if code[0] == "c" else "abs(v)"
    return text.format(v=f"v{mirror}", w=f"w{mirror}", size=size, share=_SHARE, real_diagonal=real)


@cached(8)
def factor(code: str, hermitian: bool) -> tuple[str, tuple[str, ...]]:
    """Source and parameter codes; `meta` holds the rows of a matrix, of which the lower triangle is read."""
    return _text(_FACTOR, code, hermitian), ("i8", "i8", "*i8", f"*{code}", "*i4", "*i8")


@cached(8)
def solve(code: str, hermitian: bool) -> tuple[str, tuple[str, ...]]:
    """The same of systems with what was factored; `meta` holds the rows of a matrix and the columns of x."""
    return _text(_SOLVE, code, hermitian), ("i8", "i8", "*i8", f"*{code}", f"*{code}", "*i4", "*i8")
