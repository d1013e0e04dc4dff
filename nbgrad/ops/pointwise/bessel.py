"""Functions of analysis that have no history, as PyTorch has no derivatives of them: Bessel's and Airy's, orthogonal polynomials.

What each is, stands in `expr/bessel.py` and `expr/loops.py`; the degree of a polynomial is a tensor or a number.
"""

from __future__ import annotations

from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.stanza import no_tensor, stanza
from nbgrad.expr import bessel, loops
from nbgrad.memory import dtypes


def _constant(name: str, body: Any) -> Any:
    def no_half(compute: Any, operands: Any) -> None:
        if compute is dtypes.float16:
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for 'Half'")

    return stanza(body, name=f"special_{name}", promote="float", constant=True, method=False, kernel=no_half)


def _of_input(name: str, prim: Any) -> Any:
    return _constant(name, lambda input: prim(input))


def _of_x(name: str, prim: Any) -> Any:
    op = _constant(name, lambda x: prim(x))

    def function(x: Tensor, *, out: Tensor | None = None) -> Tensor:
        return op(x, out=out)

    function.__name__ = function.__qualname__ = op.__name__
    return function


def _of_degree(name: str, prim: Any, shifted: bool = False) -> Any:
    op = _constant(name, lambda x, n: prim(x + x - 1 if shifted else x, n))

    def function(x: Any, n: Any, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(x, Tensor) and not isinstance(n, Tensor):
            raise no_tensor(f"special_{name}", x, n)
        return op(x, n, out=out)

    function.__name__ = function.__qualname__ = op.__name__
    return function


airy_ai = _of_x("airy_ai", bessel.airy_ai)
bessel_j0 = _of_input("bessel_j0", bessel.bessel_j0)
bessel_j1 = _of_input("bessel_j1", bessel.bessel_j1)
bessel_y0 = _of_input("bessel_y0", bessel.bessel_y0)
bessel_y1 = _of_input("bessel_y1", bessel.bessel_y1)
modified_bessel_i0 = _of_input("modified_bessel_i0", bessel.modified_bessel_i0)
modified_bessel_i1 = _of_input("modified_bessel_i1", bessel.modified_bessel_i1)
modified_bessel_k0 = _of_input("modified_bessel_k0", bessel.modified_bessel_k0)
modified_bessel_k1 = _of_input("modified_bessel_k1", bessel.modified_bessel_k1)
scaled_modified_bessel_k0 = _of_x("scaled_modified_bessel_k0", bessel.scaled_modified_bessel_k0)
scaled_modified_bessel_k1 = _of_x("scaled_modified_bessel_k1", bessel.scaled_modified_bessel_k1)
spherical_bessel_j0 = _of_x("spherical_bessel_j0", bessel.spherical_bessel_j0)

chebyshev_polynomial_t = _of_degree("chebyshev_polynomial_t", loops.chebyshev_polynomial_t)
chebyshev_polynomial_u = _of_degree("chebyshev_polynomial_u", loops.chebyshev_polynomial_u)
chebyshev_polynomial_v = _of_degree("chebyshev_polynomial_v", loops.chebyshev_polynomial_v)
chebyshev_polynomial_w = _of_degree("chebyshev_polynomial_w", loops.chebyshev_polynomial_w)
hermite_polynomial_h = _of_degree("hermite_polynomial_h", loops.hermite_polynomial_h)
hermite_polynomial_he = _of_degree("hermite_polynomial_he", loops.hermite_polynomial_he)
laguerre_polynomial_l = _of_degree("laguerre_polynomial_l", loops.laguerre_polynomial_l)
legendre_polynomial_p = _of_degree("legendre_polynomial_p", loops.legendre_polynomial_p)
shifted_chebyshev_polynomial_t = _of_degree(
    "shifted_chebyshev_polynomial_t", loops.chebyshev_polynomial_t, True
)
shifted_chebyshev_polynomial_u = _of_degree(
    "shifted_chebyshev_polynomial_u", loops.chebyshev_polynomial_u, True
)
shifted_chebyshev_polynomial_v = _of_degree(
    "shifted_chebyshev_polynomial_v", loops.chebyshev_polynomial_v, True
)
shifted_chebyshev_polynomial_w = _of_degree(
    "shifted_chebyshev_polynomial_w", loops.chebyshev_polynomial_w, True
)
