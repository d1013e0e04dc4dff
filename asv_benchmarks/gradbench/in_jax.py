"""Some of GradBench's programs as one writes them for jax: whole arrays, loops over steps by `scan`. In float64."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from asv_benchmarks.gradbench.loops import wishart_constant

jax.config.update("jax_enable_x64", True)


def lse(x):
    return jax.nn.logsumexp(x)


lse_of_many = lse


def det(a):
    return jnp.linalg.det(a)


def kmeans(points, centres):
    """Which centre is nearest says a product of matrices, so that how far it is has a gradient of few numbers."""
    far = (centres**2).sum(1) - 2.0 * points @ centres.T
    return ((points - centres[far.argmin(1)]) ** 2).sum()


def gmm(alphas, means, logs, lower, x, gamma, wishart):
    """All Gaussians' factors stand below one another, so that one product scales all points."""
    n, d = x.shape
    k = len(alphas)
    columns, rows = np.triu_indices(d, 1)  # factors are stored column by column
    scale = jnp.exp(logs)
    factors = jnp.zeros((k, d, d)).at[:, rows, columns].set(lower) + scale[:, :, None] * jnp.eye(d)
    shift = jnp.einsum("krc,kc->kr", factors, means)
    scaled = (x @ factors.reshape(k * d, d).T).reshape(n, k, d) - shift
    terms = alphas + logs.sum(1) - 0.5 * (scaled**2).sum(2)
    constant = wishart_constant.py_func(d, d + wishart + 1, gamma)
    prior = 0.5 * gamma * gamma * ((scale**2).sum() + (lower**2).sum()) - wishart * logs.sum() - k * constant
    likelihood = jax.nn.logsumexp(terms, axis=1).sum() - n * jax.nn.logsumexp(alphas)
    return likelihood - prior - 0.5 * n * d * math.log(2 * math.pi)


def ode(x, steps):
    h = 2.0 / steps

    def slope(y):
        return x * jnp.concatenate([jnp.ones(1), y[:-1]])

    def step(y, _):
        k1 = slope(y)
        k2 = slope(y + h * k1 / 2.0)
        k3 = slope(y + h * k2 / 2.0)
        k4 = slope(y + h * k3)
        return y + h * (k1 + 2.0 * k2 + 2.0 * k3 + k4) / 6.0, None

    return jax.lax.scan(step, jnp.zeros_like(x), length=steps)[0][-1]


def lstm(main, extra, state, sequence):
    steps, b = sequence.shape
    layers = len(main) // 2
    weights, biases = main.reshape(layers, 2, 4, b).swapaxes(0, 1)

    def step(carried, given):
        hidden, cell = carried
        now, following = given
        y = now * extra[0]
        hiddens, cells = [], []
        for i in range(layers):
            w, bias, h = weights[i], biases[i], hidden[i]
            forget, into, out = (jax.nn.sigmoid(v * w[k] + bias[k]) for k, v in ((0, y), (1, h), (2, y)))
            cells.append(cell[i] * forget + into * jnp.tanh(h * w[3] + bias[3]))
            y = out * jnp.tanh(cells[i])
            hiddens.append(y)
        y = y * extra[1] + extra[2]
        likely = (following * (y - jnp.log(jnp.exp(y).sum() + 2.0))).sum()
        return (jnp.stack(hiddens), jnp.stack(cells)), likely

    _, likely = jax.lax.scan(step, (state[0::2], state[1::2]), (sequence[:-1], sequence[1:]))
    return -likely.sum() / ((steps - 1) * b)


def gradient(f, args, wrt):
    """Of the arguments numbered `wrt`; numbers that are none of them are constants."""
    fixed = tuple(k for k, a in enumerate(args) if not isinstance(a, np.ndarray))
    made = jax.jit(jax.grad(f, argnums=tuple(wrt)), static_argnums=fixed)
    given = [a if k in fixed else jnp.asarray(a) for k, a in enumerate(args)]
    return lambda: jax.block_until_ready(made(*given))
