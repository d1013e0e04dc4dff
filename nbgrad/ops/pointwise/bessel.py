"""Functions of analysis that have no history, as PyTorch has no derivatives of them: Bessel's and Airy's, orthogonal polynomials.

What each is, stands in `expr/bessel.py` and `expr/loops.py`; the degree of a polynomial is a tensor or a number.
"""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.stanza import no_tensor, stanza
from nbgrad.expr import bessel, loops


def _constant(name: str, body: Any, words: str) -> Any:
    def no_half(compute: Any, operands: Any) -> None:
        if compute.narrow:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{compute.scalar_name}'")

    body.__doc__ = words
    return stanza(body, name=f"special_{name}", promote="float", constant=True, method=False, kernel=no_half)


def _of_input(name: str, prim: Any, words: str) -> Any:
    return _constant(name, lambda input: prim(input), words)


def _of_x(name: str, prim: Any, words: str) -> Any:
    op = _constant(name, lambda x: prim(x), words)

    def function(x: Tensor, *, out: Tensor | None = None) -> Tensor:
        return op(x, out=out)

    return _called(function, op)


def _of_degree(name: str, prim: Any, words: str, shifted: bool = False) -> Any:
    op = _constant(name, lambda x, n: prim(x + x - 1 if shifted else x, n), words)

    def function(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(x, Tensor) and not isinstance(n, Tensor):
            raise no_tensor(f"special_{name}", x, n)
        return op(x, n, out=out)

    return _called(function, op)


def _called(function: Any, op: Any) -> Any:
    function.__name__ = function.__qualname__ = op.__name__
    function.__doc__ = op.__doc__
    return function


airy_ai = _of_x(
    "airy_ai",
    bessel.airy_ai,
    """Airy's function Ai, which solves `y'' = x * y` and falls to 0 above 0. The result has no history, as PyTorch has no
    gradient of it.

    >>> torch.special.airy_ai(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([0.5356, 0.3550, 0.1353])
    """,
)
bessel_j0 = _of_input(
    "bessel_j0",
    bessel.bessel_j0,
    """The Bessel function of the first kind, of order 0. The result has no history.

    >>> torch.special.bessel_j0(torch.tensor([0.0, 1.0, 5.0]))
    tensor([ 1.0000,  0.7652, -0.1776])
    """,
)
bessel_j1 = _of_input(
    "bessel_j1",
    bessel.bessel_j1,
    """The Bessel function of the first kind, of order 1. The result has no history.

    >>> torch.special.bessel_j1(torch.tensor([0.0, 1.0, 5.0]))
    tensor([ 0.0000,  0.4401, -0.3276])
    """,
)
bessel_y0 = _of_input(
    "bessel_y0",
    bessel.bessel_y0,
    """The Bessel function of the second kind, of order 0: -inf at 0, NaN below. The result has no history.

    >>> torch.special.bessel_y0(torch.tensor([0.0, 1.0, 5.0]))
    tensor([   -inf,  0.0883, -0.3085])
    """,
)
bessel_y1 = _of_input(
    "bessel_y1",
    bessel.bessel_y1,
    """The Bessel function of the second kind, of order 1: -inf at 0, NaN below. The result has no history.

    >>> torch.special.bessel_y1(torch.tensor([0.0, 1.0, 5.0]))
    tensor([   -inf, -0.7812,  0.1479])
    """,
)
modified_bessel_i0 = _of_input(
    "modified_bessel_i0",
    bessel.modified_bessel_i0,
    """The modified Bessel function of the first kind, of order 0. The result has no history; that of `i0` has.

    >>> torch.special.modified_bessel_i0(torch.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """,
)
modified_bessel_i1 = _of_input(
    "modified_bessel_i1",
    bessel.modified_bessel_i1,
    """The modified Bessel function of the first kind, of order 1. The result has no history; that of `i1` has.

    >>> torch.special.modified_bessel_i1(torch.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """,
)
modified_bessel_k0 = _of_input(
    "modified_bessel_k0",
    bessel.modified_bessel_k0,
    """The modified Bessel function of the second kind, of order 0: inf at 0, NaN below. The result has no history.

    >>> torch.special.modified_bessel_k0(torch.tensor([0.0, 1.0, 2.0]))
    tensor([   inf, 0.4210, 0.1139])
    """,
)
modified_bessel_k1 = _of_input(
    "modified_bessel_k1",
    bessel.modified_bessel_k1,
    """The modified Bessel function of the second kind, of order 1: inf at 0, NaN below. The result has no history.

    >>> torch.special.modified_bessel_k1(torch.tensor([0.0, 1.0, 2.0]))
    tensor([   inf, 0.6019, 0.1399])
    """,
)
scaled_modified_bessel_k0 = _of_x(
    "scaled_modified_bessel_k0",
    bessel.scaled_modified_bessel_k0,
    """`exp(x) * modified_bessel_k0(x)`, which does not fall to 0 as fast. The result has no history.

    >>> torch.special.scaled_modified_bessel_k0(torch.tensor([1.0, 200.0]))
    tensor([1.1445, 0.0886])
    """,
)
scaled_modified_bessel_k1 = _of_x(
    "scaled_modified_bessel_k1",
    bessel.scaled_modified_bessel_k1,
    """`exp(x) * modified_bessel_k1(x)`, which does not fall to 0 as fast. The result has no history.

    >>> torch.special.scaled_modified_bessel_k1(torch.tensor([1.0, 200.0]))
    tensor([1.6362, 0.0888])
    """,
)
spherical_bessel_j0 = _of_x(
    "spherical_bessel_j0",
    bessel.spherical_bessel_j0,
    """The spherical Bessel function of the first kind, of order 0: `sin(x) / x`, and 1 at 0. The result has no history.

    >>> torch.special.spherical_bessel_j0(torch.tensor([0.0, 1.0, 5.0]))
    tensor([ 1.0000,  0.8415, -0.1918])
    """,
)

chebyshev_polynomial_t = _of_degree(
    "chebyshev_polynomial_t",
    loops.chebyshev_polynomial_t,
    """The Chebyshev polynomial of the first kind, of degree `n`, at `x`: `cos(n * t)` for `x = cos(t)`.
    One of the two may be a number. The result has no history.

    >>> torch.special.chebyshev_polynomial_t(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[-0.5000,  7.0000],
            [-1.0000, 26.0000]])
    """,
)
chebyshev_polynomial_u = _of_degree(
    "chebyshev_polynomial_u",
    loops.chebyshev_polynomial_u,
    """The Chebyshev polynomial of the second kind, of degree `n`, at `x`: `sin((n + 1) * t) / sin(t)` for `x = cos(t)`.
    One of the two may be a number. The result has no history.

    >>> torch.special.chebyshev_polynomial_u(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[ 0., 15.],
            [-1., 56.]])
    """,
)
chebyshev_polynomial_v = _of_degree(
    "chebyshev_polynomial_v",
    loops.chebyshev_polynomial_v,
    """The Chebyshev polynomial of the third kind, of degree `n`, at `x`: `cos((n + 1/2) * t) / cos(t / 2)` for `x = cos(t)`.
    One of the two may be a number. The result has no history.

    >>> torch.special.chebyshev_polynomial_v(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[-1., 11.],
            [-1., 41.]])
    """,
)
chebyshev_polynomial_w = _of_degree(
    "chebyshev_polynomial_w",
    loops.chebyshev_polynomial_w,
    """The Chebyshev polynomial of the fourth kind, of degree `n`, at `x`: `sin((n + 1/2) * t) / sin(t / 2)` for `x = cos(t)`.
    One of the two may be a number. The result has no history.

    >>> torch.special.chebyshev_polynomial_w(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[ 1., 19.],
            [-1., 71.]])
    """,
)
hermite_polynomial_h = _of_degree(
    "hermite_polynomial_h",
    loops.hermite_polynomial_h,
    """The Hermite polynomial of physics of degree `n` at `x`: `H(n + 1) = 2 * x * H(n) - 2 * n * H(n - 1)` from `H(0) = 1`, `H(1) = 2 * x`.
    One of the two may be a number. The result has no history.

    >>> torch.special.hermite_polynomial_h(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[-1., 14.],
            [-5., 40.]])
    """,
)
hermite_polynomial_he = _of_degree(
    "hermite_polynomial_he",
    loops.hermite_polynomial_he,
    """The Hermite polynomial of probability of degree `n` at `x`: `He(n + 1) = x * He(n) - n * He(n - 1)` from `He(0) = 1`, `He(1) = x`.
    One of the two may be a number. The result has no history.

    >>> torch.special.hermite_polynomial_he(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[-0.7500,  3.0000],
            [-1.3750,  2.0000]])
    """,
)
laguerre_polynomial_l = _of_degree(
    "laguerre_polynomial_l",
    loops.laguerre_polynomial_l,
    """The Laguerre polynomial of degree `n` at `x`: `(n + 1) * L(n + 1) = (2 * n + 1 - x) * L(n) - n * L(n - 1)` from `L(0) = 1`,
    `L(1) = 1 - x`. One of the two may be a number. The result has no history.

    >>> torch.special.laguerre_polynomial_l(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[ 0.1250, -1.0000],
            [-0.1458, -0.3333]])
    """,
)
legendre_polynomial_p = _of_degree(
    "legendre_polynomial_p",
    loops.legendre_polynomial_p,
    """The Legendre polynomial of degree `n` at `x`: `(n + 1) * P(n + 1) = (2 * n + 1) * x * P(n) - n * P(n - 1)` from `P(0) = 1`,
    `P(1) = x`. One of the two may be a number. The result has no history.

    >>> torch.special.legendre_polynomial_p(torch.tensor([0.5, 2.0]), torch.tensor([[2], [3]]))
    tensor([[-0.1250,  5.5000],
            [-0.4375, 17.0000]])
    """,
)
shifted_chebyshev_polynomial_t = _of_degree(
    "shifted_chebyshev_polynomial_t",
    loops.chebyshev_polynomial_t,
    """`chebyshev_polynomial_t(2 * x - 1, n)`: that polynomial with 0 to 1 in the place of -1 to 1. The result has no history.

    >>> torch.special.shifted_chebyshev_polynomial_t(torch.tensor([0.75, 1.0]), 2)
    tensor([-0.5000,  1.0000])
    """,
    shifted=True,
)
shifted_chebyshev_polynomial_u = _of_degree(
    "shifted_chebyshev_polynomial_u",
    loops.chebyshev_polynomial_u,
    """`chebyshev_polynomial_u(2 * x - 1, n)`: that polynomial with 0 to 1 in the place of -1 to 1. The result has no history.

    >>> torch.special.shifted_chebyshev_polynomial_u(torch.tensor([0.75, 1.0]), 2)
    tensor([0., 3.])
    """,
    shifted=True,
)
shifted_chebyshev_polynomial_v = _of_degree(
    "shifted_chebyshev_polynomial_v",
    loops.chebyshev_polynomial_v,
    """`chebyshev_polynomial_v(2 * x - 1, n)`: that polynomial with 0 to 1 in the place of -1 to 1. The result has no history.

    >>> torch.special.shifted_chebyshev_polynomial_v(torch.tensor([0.75, 1.0]), 2)
    tensor([-1.,  1.])
    """,
    shifted=True,
)
shifted_chebyshev_polynomial_w = _of_degree(
    "shifted_chebyshev_polynomial_w",
    loops.chebyshev_polynomial_w,
    """`chebyshev_polynomial_w(2 * x - 1, n)`: that polynomial with 0 to 1 in the place of -1 to 1. The result has no history.

    >>> torch.special.shifted_chebyshev_polynomial_w(torch.tensor([0.75, 1.0]), 2)
    tensor([1., 5.])
    """,
    shifted=True,
)
