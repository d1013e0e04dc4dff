"""Which way eigenvectors point, as source: each symmetric (Hermitian) matrix of a batch by itself.

Promises `ops/linear/lapack.py` the signs that PyTorch's LAPACK leaves. Both it and NumPy's bring a small matrix to three diagonals by
reflections and to one by rotations, but theirs differ in when a rotation's length is negative (NumPy's is LAPACK 3.10's or later), and each
such choice turns a vector around. The iteration is repeated here as PyTorch has it, on the diagonals and on one row in place of all
vectors: what that row comes to says which way each vector points.
"""

from __future__ import annotations

MOST = 25  # rows up to which LAPACK rotates; beyond it divides and conquers, and NumPy's signs are PyTorch's

# LAPACK's names: sytd2, larfg (the reflections), steqr (the iteration), laev2 (the last two rows), lartg (a rotation).
_TURN = '''"""Turn the eigenvectors of symmetric matrices, of which this reads and spoils the lower triangles, as PyTorch has them."""
import math
from nbgrad.kernels.cpu.stack import stack_{code}, stack_f8

SAFE = 2.2250738585072014e-308


def @NAME@(start, stop, meta, a, vectors):
    d = stack_f8({most})
    e = stack_f8({most})
    row = stack_{code}({most})
    v = stack_{code}({most})
    w = stack_{code}({most})
    n = meta[0]
    upper = meta[1]
    eps = 5.960464477539063e-08 if meta[2] else 1.1102230246251565e-16
    for item in range(start, stop):
        here = item * n * n
        for i in range(n):
            a[here + i * n + i] = a[here + i * n + i].real
            row[n - 1 - i if upper else i] = 1.0 / (2.0 + i)  # no vector is likely to be at right angles to it
        for k in range(n - 1):
            alpha = a[here + (k + 1) * n + k]
            rest = 0.0
            for i in range(k + 2, n):
                x = a[here + i * n + k]
                rest += (x * x.conjugate()).real
            d[k] = a[here + k * n + k].real
            e[k] = alpha.real
            if rest == 0.0 and alpha.imag == 0.0:
                continue
            beta = -math.copysign(math.sqrt((alpha * alpha.conjugate()).real + rest), alpha.real)
            factor = (beta - alpha) / beta
            e[k] = beta
            v[k + 1] = 1.0
            for i in range(k + 2, n):
                v[i] = a[here + i * n + k] / (alpha - beta)
            along = 0.0
            product = 0.0
            for i in range(k + 1, n):
                total = 0.0
                for j in range(k + 1, n):
                    x = a[here + max(i, j) * n + min(i, j)]
                    total += (x.conjugate() if j > i else x) * v[j]
                w[i] = factor * total
                along += w[i].conjugate() * v[i]
                product += row[i] * v[i]
            for i in range(k + 1, n):
                w[i] -= 0.5 * factor * along * v[i]
                row[i] -= factor * product * v[i].conjugate()
            for i in range(k + 1, n):
                for j in range(k + 1, i + 1):
                    a[here + i * n + j] -= v[i] * w[j].conjugate() + w[i] * v[j].conjugate()
        d[n - 1] = a[here + n * n - 1].real
        e[n - 1] = 0.0
        if upper:
            for i in range(n // 2):
                d[i], d[n - 1 - i] = d[n - 1 - i], d[i]
                row[i], row[n - 1 - i] = row[n - 1 - i], row[i]
            for i in range((n - 1) // 2):
                e[i], e[n - 2 - i] = e[n - 2 - i], e[i]

        begin = 0
        turns = 0
        while begin < n and turns < 30 * n:
            if begin > 0:
                e[begin - 1] = 0.0
            end = begin
            while end < n - 1:
                if abs(e[end]) <= math.sqrt(abs(d[end])) * math.sqrt(abs(d[end + 1])) * eps:
                    e[end] = 0.0
                    break
                end += 1
            # From the end whose number is the smaller: `at` moves by `by` towards `last`; `low` is the place between two neighbours.
            by = -1 if abs(d[end]) < abs(d[begin]) else 1
            at = begin if by == 1 else end
            last = end if by == 1 else begin
            begin = end + 1
            while (last - at) * by >= 0 and turns < 30 * n:
                m = at
                while m != last:
                    low = m if by == 1 else m - 1
                    if e[low] * e[low] <= eps * eps * abs(d[m]) * abs(d[m + by]) + SAFE:
                        e[low] = 0.0
                        break
                    m += by
                low = at if by == 1 else at - 1
                if m == at:
                    at += by
                    continue
                if m == at + by:
                    p = d[low]
                    q = d[low + 1]
                    b = e[low]
                    gap = p - q
                    total = p + q
                    root = math.sqrt(gap * gap + 4.0 * b * b)
                    above = 1.0 if gap >= 0.0 else -1.0
                    c = gap + above * root
                    if abs(c) > 2.0 * abs(b):
                        t = -2.0 * b / c
                        s = 1.0 / math.sqrt(1.0 + t * t)
                        c = t * s
                    else:
                        t = -c / (2.0 * b)
                        c = 1.0 / math.sqrt(1.0 + t * t)
                        s = t * c
                    sign = -1.0 if total < 0.0 else 1.0
                    if sign == above:
                        c, s = -s, c
                    greater = 0.5 * (total + sign * root)
                    other = -0.5 * root
                    if total != 0.0:
                        most = p if abs(p) > abs(q) else q
                        least = q if abs(p) > abs(q) else p
                        other = (most / greater) * least - (b / greater) * b
                    y = row[low + 1]
                    z = row[low]
                    row[low + 1] = c * y - s * z
                    row[low] = s * y + c * z
                    d[low] = greater
                    d[low + 1] = other
                    e[low] = 0.0
                    at += 2 * by
                    continue
                turns += 1
                p = d[at]
                g = (d[at + by] - p) / (2.0 * e[low])
                r = math.sqrt(g * g + 1.0)
                g = d[m] - p + e[low] / (g + r if g >= 0.0 else g - r)  # also where g is -0.0
                s = 1.0
                c = 1.0
                p = 0.0
                outer = m
                while outer != at:
                    inner = outer - by
                    low = min(outer, inner)
                    f = s * e[low]
                    b = c * e[low]
                    r = math.sqrt(g * g + f * f)
                    if f == 0.0:
                        c = 1.0
                        s = 0.0
                        r = g
                    elif g == 0.0:
                        c = 0.0
                        s = 1.0
                        r = f
                    else:
                        c = g / r
                        s = f / r
                        if abs(g) > abs(f) and c < 0.0:  # from LAPACK 3.10 on, wherever c < 0
                            c = -c
                            s = -s
                            r = -r
                    if outer != m:
                        e[low + by] = r
                    g = d[outer] - p
                    r = (d[inner] - g) * s + 2.0 * c * b
                    p = s * r
                    d[outer] = g + p
                    g = c * r - b
                    turn = -s if by == 1 else s
                    y = row[low + 1]
                    z = row[low]
                    row[low + 1] = c * y - turn * z
                    row[low] = turn * y + c * z
                    outer = inner
                d[at] -= p
                e[at if by == 1 else at - 1] = g

        for k in range(n):
            least = k
            for i in range(k + 1, n):
                if d[i] < d[least]:
                    least = i
            d[k], d[least] = d[least], d[k]
            row[k], row[least] = row[least], row[k]
            total = 0.0
            for i in range(n):
                total += vectors[here + i * n + k] / (2.0 + i)
            if (total * row[k].conjugate()).real < 0.0:
                for i in range(n):
                    vectors[here + i * n + k] = -vectors[here + i * n + k]
'''


def eigenvectors(code: str) -> tuple[str, tuple[str, ...]]:
    """Of the widest numbers ("f8", "c16"). `meta` holds the rows of a matrix, of which there are MOST at most, and whether its last row is
    reduced first, as LAPACK does where it reads the upper triangle: such a matrix is given back to front, in both directions; and whether
    what is there is exact to float32 only, of which fewer turns are enough."""
    text = _TURN.format(most=MOST, code=code)
    if code[0] == "f":  # what is said of parts is in no dialect of real numbers
        text = text.replace(".conjugate()", "").replace(".real", "").replace("alpha.imag", "0.0")
    return text, ("i8", "i8", "*i8", f"*{code}", f"*{code}")
