"""GradBench's programs with tensors, as one writes them for `m`: nbgrad, or the library beside it."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

from asv_benchmarks.gradbench.loops import wishart_constant


def square(m, x):
    return x * x


def lse(m, x):
    top = x.max()
    return m.log(m.exp(x - top).sum()) + top


lse_of_many = lse


def det(m, a):
    return m.linalg.det(a)


def llsq(m, x, n):
    t = m.arange(n, dtype=x.dtype) * (2.0 / (n - 1)) - 1.0
    powers = t[:, None] ** m.arange(len(x), dtype=x.dtype)
    return ((m.sign(t) - powers @ x) ** 2).sum() / 2.0


def ode(m, x, steps):
    h = 2.0 / steps
    first = m.zeros_like(x)
    first[0] = 1.0

    def slope(y):
        return x * (m.roll(y, 1) * (1.0 - first) + first)

    y = m.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h * k1 / 2.0)
        k3 = slope(y + h * k2 / 2.0)
        k4 = slope(y + h * k3)
        y = y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0
    return y


def kmeans(m, points, centres):
    far = ((points[:, None, :] - centres[None]) ** 2).sum(2)
    return far.min(1).values.sum()


def gmm(m, alphas, means, logs, lower, x, gamma, wishart):
    n, d = x.shape
    k = len(alphas)
    scale = m.exp(logs)
    rows, columns = m.tril_indices(d, d, -1)
    # Factors are stored column by column.
    order = m.argsort(columns * d + rows)
    factors = m.zeros(k, d, d, dtype=x.dtype)
    factors[:, rows[order], columns[order]] = lower
    centred = x[:, None, :] - means
    scaled = scale * centred + m.einsum("krc,nkc->nkr", factors, centred)
    terms = alphas + logs.sum(1) - 0.5 * (scaled**2).sum(2)
    constant = wishart_constant.py_func(d, d + wishart + 1, gamma)
    prior = 0.5 * gamma * gamma * ((scale**2).sum() + (lower**2).sum()) - wishart * logs.sum() - k * constant
    likelihood = m.logsumexp(terms, 1).sum() - n * m.logsumexp(alphas, 0)
    return likelihood - prior - 0.5 * n * d * math.log(2 * math.pi)


def residuals(m, cameras, points, weights, features):
    """Of as many cameras as points: each observation's own."""
    turn, place, focus = cameras[:, :3], cameras[:, 3:6], cameras[:, 6:7]
    moved = points - place
    angle = m.sqrt((turn**2).sum(1, keepdim=True))
    w = turn / angle
    c, s = m.cos(angle), m.sin(angle)
    across = (w * moved).sum(1, keepdim=True) * (1.0 - c)
    seen = moved * c + m.linalg.cross(w, moved) * s + w * across
    flat = seen[:, :2] / seen[:, 2:]
    r = (flat**2).sum(1, keepdim=True)
    flat = flat * (1.0 + cameras[:, 9:10] * r + cameras[:, 10:11] * r * r)
    return weights[:, None] * (flat * focus + cameras[:, 7:9] - features)


def ba(m, cameras, points, weights, seen, features):
    errors = residuals(m, cameras[seen[:, 0]], points[seen[:, 1]], weights, features)
    return 0.5 * ((errors**2).sum() + ((1.0 - weights**2) ** 2).sum())


def ba_jacobian(m, cameras, points, weights, seen, features):
    """The rows of all observations at once: no residual knows what is another's."""
    own = [cameras[seen[:, 0]], points[seen[:, 1]], weights.clone()]
    own = [x.requires_grad_() for x in own]
    errors = residuals(m, *own, features)
    rows = []
    for k in range(2):
        by = m.autograd.grad(errors[:, k].sum(), own, retain_graph=k == 0)
        rows.append(m.cat([by[0], by[1], by[2][:, None]], 1))
    return m.stack(rows, 1), -2.0 * weights


def lstm(m, main, extra, state, sequence):
    steps, b = sequence.shape
    layers = len(main) // 2
    hidden = [state[2 * i] for i in range(layers)]
    cell = [state[2 * i + 1] for i in range(layers)]
    gates = [(main[2 * i].reshape(4, b), main[2 * i + 1].reshape(4, b)) for i in range(layers)]
    total = 0.0
    for t in range(steps - 1):
        y = sequence[t] * extra[0]
        for i, (w, bias) in enumerate(gates):
            forget = m.sigmoid(y * w[0] + bias[0])
            into = m.sigmoid(hidden[i] * w[1] + bias[1])
            out = m.sigmoid(y * w[2] + bias[2])
            change = m.tanh(hidden[i] * w[3] + bias[3])
            cell[i] = cell[i] * forget + into * change
            y = hidden[i] = out * m.tanh(cell[i])
        y = y * extra[1] + extra[2]
        total = total + (sequence[t + 1] * (y - m.log(m.exp(y).sum() + 2.0))).sum()
    return -total / ((steps - 1) * b)


def ht(m, theta, us, parents, relatives, inverses, base, weights, mirrored, triangles, matched, points):
    bones = len(parents)
    x = [theta.new_zeros(())] * bones
    z = list(x)
    for finger in range(5):
        for k, angle in ((0, 0), (1, 2), (2, 3)):
            x[2 + 4 * finger + k] = theta[6 + 4 * finger + angle]
        z[2 + 4 * finger] = theta[7 + 4 * finger]
    bend, part = m.stack(x), m.stack(z)
    zero, one = m.zeros_like(bend), m.ones_like(bend)
    cx, sx, cz, sz = m.cos(bend), m.sin(bend), m.cos(part), m.sin(part)
    rows = [
        cz,
        -sz * cx,
        sz * sx,
        zero,
        sz,
        cz * cx,
        -cz * sx,
        zero,
        zero,
        sx,
        cx,
        zero,
        zero,
        zero,
        zero,
        one,
    ]
    local = relatives @ m.stack(rows, 1).reshape(bones, 4, 4)
    absolutes = []
    for b, parent in enumerate(parents.tolist()):
        absolutes.append(local[b] if parent < 0 else absolutes[parent] @ local[b])
    moves = (m.stack(absolutes) @ inverses)[:, :3]
    skinned = m.einsum("vb,bij,vj->vi", weights, moves, base)
    if mirrored:
        skinned = skinned * skinned.new_tensor([-1.0, 1.0, 1.0])
    square = (theta[:3] ** 2).sum()
    if square.item() < 1e-8:
        whole = m.eye(3, dtype=theta.dtype)
    else:
        angle = m.sqrt(square)
        a, b, c = theta[0] / angle, theta[1] / angle, theta[2] / angle
        nil = theta.new_zeros(())
        cross = m.stack([nil, -c, b, c, nil, -a, -b, a, nil]).reshape(3, 3)
        whole = m.eye(3, dtype=theta.dtype) + m.sin(angle) * cross + (1.0 - m.cos(angle)) * (cross @ cross)
    positions = skinned @ whole.T + theta[3:6]
    if len(us) == 0:
        return points - positions[matched]
    corners = positions[triangles[matched]]
    shares = m.cat([us, 1.0 - us.sum(1, keepdim=True)], 1)
    return points - (shares[:, :, None] * corners).sum(1)


# ---------------------------------------------------------------- derivatives inside of what is minimized


def descended(m, value, start):
    """Naive descent; of tensors that are on a tape, so that what comes out has a derivative."""
    on_tape = start.requires_grad
    x = start if on_tape else start.clone().requires_grad_()

    def slope(at):
        of = at if at.requires_grad else at.requires_grad_()
        y = value(of)
        return y, m.autograd.grad(y, of, create_graph=on_tape)[0]

    best, g = slope(x)
    good, rate = 0, 1e-5
    while g.norm().item() > 1e-5:
        if good == 10:
            rate, good = rate * 2.0, 0
            continue
        further = x - rate * g
        if not on_tape:
            further = further.detach()
        if (x - further).norm().item() <= 1e-5:
            break
        reached = value(further)
        if reached.item() < best.item():
            x, best = further, reached
            _, g = slope(x)
            good += 1
        else:
            rate, good = rate / 2.0, 0
    return x


def particle(m, w):
    """Backwards in both: forces are gradients of the potential, the descent on w goes through all of the path."""

    def path(w):
        zero = w.new_zeros(())
        at, v = m.stack([zero, zero + 8.0]), w.new_tensor([0.75, 0.0])
        charges = m.stack([m.stack([zero + 10.0, 10.0 - w]), m.stack([zero + 10.0, zero])])
        while True:
            of = at if at.requires_grad else at.requires_grad_()
            potential = (1.0 / m.sqrt(((of - charges) ** 2).sum(1))).sum()
            (pull,) = m.autograd.grad(potential, of, create_graph=True)
            further = at + 0.1 * v
            if further[1].item() <= 0.0:
                break
            at, v = further, v - 0.1 * pull
        return (at[0] - at[1] / v[1] * v[0]) ** 2

    return descended(m, path, w)


def saddle(m, start):
    def f(x, y):
        return (x**2).sum() - (y**2).sum()

    def highest(x):
        y = descended(m, lambda y: -f(x, y), start.clone())
        return f(x, y)

    x = descended(m, highest, start).detach()
    y = descended(m, lambda y: -f(x, y), start.clone())
    return m.cat([x, y.detach()])
