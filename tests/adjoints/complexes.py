"""Programs of complex numbers, each with a real result; `test_complexes.py` runs them."""


# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import cmath
import math

import numpy as np

TURN = 1j
ROOTS = np.array([1.0 + 0.5j, -0.3 - 1.0j, 0.2j])


def products(c, d, a):
    return (c * d * a - 2.0 / c + d / c - (1 - c) * TURN).real + (3j * c).imag


def powers(c, d, a):
    e = c**2 + c**3 - c**-2 + d**0.5 + c**d + a**c + 2**d + c**0 + (c * 0.0) ** 2
    return e.real - 2.0 * e.imag


def functions(c, d):
    e = cmath.exp(c) + cmath.log(d) * cmath.sin(c) - cmath.cosh(d) / cmath.sqrt(c)
    e += np.tanh(c) + np.tan(d) + np.log10(c * d) + cmath.cos(c) * cmath.sinh(d) + np.log2(d) + cmath.tanh(d)
    return abs(e) + cmath.phase(e) + np.angle(c)


def polar(c, a):
    r, phi = cmath.polar(c)
    e = cmath.rect(r * a, phi + a) + complex(a, r) + complex(a)
    return e.imag * e.real


def of_a_real_number(a):
    return (cmath.exp(a) + cmath.sqrt(-a) + np.exp(1j * a) + complex(a)).imag + (a + 0j).real


def iterated(c, d, n):
    z = 0.0
    for _ in range(n + 5):
        z = z * z + c
        if abs(z) > 4.0:
            break
    return abs(z) ** 2 + (z.conjugate() * d).imag


def while_small(c, d):
    z, n = c, 0
    while abs(z) < 3.0 and n < 20:
        z, n = z * d * 2.5 + 0.1, n + 1
    return math.log(abs(z)) + n


def one_or_another(c, d, a):
    z = c * d if c.imag > d.imag else a
    if z != a and c == c:
        w = z + 1.0
    else:
        w = a
    return w.real * w.imag


def _mobius(z, p, q=1j):
    return (z + p) / (z * q + 2.0)


def called(c, d):
    return abs(_mobius(_mobius(c, d), d, 0.5 + c)) + _mobius(0.4, c).real


def elements(z, w, x):
    y = np.exp(1j * x) * z + w / (2.0 + z * z) - np.conj(w) * z.real
    return np.sum(np.abs(y) ** 2) + np.sum(y * y).imag + np.sum(np.sqrt(y)).real + np.angle(y)[1]


def deep(z, w):
    y = ((((z * w) * z + w) * z - w) * z + 1.0) / (((w + z) * w - z) * w + 5.0)
    return np.sum(y.real) - np.sum(y.imag * z.real)


def written(z, w, x):
    y = np.zeros(4, dtype=np.complex128)
    u = np.empty_like(z)
    for i in range(4):
        y[i] = z[i] * w[3 - i]
        u[i] = x[i]
        u[i] *= y[i]
        u[i] -= 1j * z[i]
        y[i] = y[i] * 1j + u[i].conjugate()
    y[1:3] = z[:2] * y[2:]
    y[::2] += w[1:3]
    y[-1] /= z[0]
    y.real[0] = x[1] * x[2]
    y.imag[:] *= x
    y[[1, 2]] = u[:2]
    y *= w
    return np.sum(y).real - np.sum(u * y).imag


def matrices(z, w):
    m = np.outer(z, w) + np.diag(z)
    m[1] = w
    m[:, 2] *= 1j
    v = m @ w - np.dot(m.T, z)
    s = np.vdot(v, z) + np.dot(v, w) + (z @ m) @ w + np.trace(m)
    return s.real + np.abs(m @ m).sum() + m[1:, :2].imag.mean()


def rows(z, w):
    m = np.stack((z, w, z * w))
    s = 0j
    for row in m:
        for v in row:
            s += v * row[0]
    for i, v in enumerate(w):
        s += v * i
    for p, q in zip(z, w):
        s -= p / q
    p, q, *_ = 1j * s, s, 1.0
    return (s * p).imag + abs(q)


def bound_by_turns(z, w, n):
    y = z
    for _ in range(n):
        y = y * w + z.conj()
    u = y.copy()
    for k in range(n):
        u, y = y, u * 0.5j + k
    return np.sum(u * np.conj(y)).real + np.sum(u).imag


def pieces(z, w, x):
    y = np.concatenate((z, 1j * w, x))
    y = np.roll(y, 2).reshape(3, 4)
    s = y.sum(axis=0) * y.mean(axis=1)[1] + np.cumsum(z)
    s = s + np.where(x > 0.4, z, w) + np.where(x > 0.0, x, 1j * x)
    left, right = np.split(s, 2)
    t = np.prod(left) + np.sum(right**2) + np.diff(z)[1] + np.array([z[0], 1.0, w[1]]).sum()
    return t.real * t.imag


def masks(z, w, x):
    y = z[x > 0.4]
    u = z.copy()
    u[x < 0.4] = w[0] * 1j
    return np.sum(y * y).real + np.sum(u * w).imag + u[np.array([2, 0])].sum().real


def listed(z, w, n):
    held = [z[0]]
    for k in range(1, n + 1):
        held.append(held[-1] * w[k])
    held[0] = held[0] * 2.0
    both = [c * d for c, d in zip(z, w)]
    t = sum(held) + sum([c * 1j for c in both]) + np.array(held)[1] * both[2] + len(held)
    for h in held:
        t += h * h
    return t.real - t.imag


def tables(c, z):
    pair = (c * 2.0, z[1:])
    box = {"c": c, "z": z * 1j}
    box["c"] += c * c
    box["z"] = box["z"] * pair[0]
    p, q = pair
    return (box["c"] * p).imag + np.sum(box["z"][1:] * q).real


def of_the_module(c):
    return abs(np.sum(ROOTS * c) + ROOTS[1] ** 2 * c * TURN)


def filters(z, w):
    y = np.convolve(z, w) + np.convolve(np.ones(4), z)
    return np.abs(y).sum() + np.correlate(z, w, "full").imag.sum() + np.kron(z, w).real.sum()


def fourier(z):
    n = len(z)
    out = np.zeros(n, dtype=np.complex128)
    for k in range(n):
        for j in range(n):
            out[k] += z[j] * np.exp(-2j * np.pi * k * j / n)
    return np.sum(np.abs(out) ** 3)


def wave(z, a, n):
    psi = z * np.exp(1j * a)
    for _ in range(n):
        new = np.empty_like(psi)
        for i in range(len(psi)):
            new[i] = psi[i] + 0.1j * (psi[(i + 1) % len(psi)] - 2.0 * psi[i] + psi[i - 1])
        psi = new / np.sqrt(np.sum(np.abs(new) ** 2))
    return psi[0].real * psi[1].imag


def where_it_is_zero(c):
    return abs(c - c) + np.angle(c * 0.0) + abs(c)


def made(c, a):
    y = np.full(3, c) + np.ones(3, dtype=complex) * a + np.zeros(3).astype(np.complex128)
    y = np.append(y, c) + np.array([a, c, 1j, 0.0])
    return y.sum().real * y.T.imag[0] + y.size + y.shape[0] + len(y)


def evolved(a, n):
    one = np.eye(2, dtype=np.complex128)
    h = np.zeros((2, 2), complex)
    h[0, 1] = h[1, 0] = 0.5 * a
    h[1, 1] = a * a
    step = np.linalg.solve(one + 0.3j * h, one - 0.3j * h)
    u = np.identity(2, np.complex128)
    for _ in range(n):
        u = step @ u
    return abs(u[1, 0]) ** 2 + np.linalg.norm(u + np.linalg.inv(step))


def predicates(z, c):
    s = 0.0
    for v in z:
        if not np.isnan(v) and np.isfinite(v) and v != c:
            s += (v * c).real
    return s


def truth(z, c, a):
    s = a if c else 2.0 * a
    for v in z:
        w = v if v.real > 0.4 else 0j
        if w:
            s += abs(w * c)
        if not w:
            s -= v.imag
    while w:
        w = w * 0.0
    return s * bool(c) + np.any(z - z[0]) * a + np.count_nonzero(z - z[1]) * c.real + np.all(z) + any([w, c])


def spread(z, w):
    m = np.stack((z, w, z * w))
    s = np.std(z) + z.var() * np.var([z[0], w[1], 1.0], ddof=1) + m.std()
    return s + np.std(m, axis=0)[1] * np.var(m, axis=1, keepdims=True)[2, 0]


def determinants(z, w, c):
    m = np.stack((z[:3], w[1:], z[1:] * w[:3]))
    singular = np.stack((z, z * c, w, z * w))
    u = np.zeros((3, 3), complex)
    u[0, 2] = u[1, 0] = c
    d = np.linalg.det(m) + np.linalg.det(singular) * (1.0 + 2j) + np.linalg.det(u + 0.0)
    u[2, 1] = w[0]
    return d.real * d.imag + np.linalg.det(u).real - np.linalg.det(u[:2, :2] * c).imag


def asked_with_others(z, c, a):
    s = 0.0
    for v in z:
        if v and v.real > 0:
            s += abs(v) ** 2 * a
        elif not (v and c) or (a and c):
            s += v.imag
    while (c or a) and s < 3.0:
        s += abs(c) + 0.5
    return s * (2.0 if 0j or (c and not (a > 1 and c)) else 1.0)
