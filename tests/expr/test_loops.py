"""Functions with loops and Bessel functions on Python's floats: against 30 digits, and PyTorch's special values."""

import math
from types import ModuleType

import numpy as np
import pytest

from nbgrad.expr import bessel, loops
from tests.cases import SPECIALS
from tests.compare import array

inf, nan = math.inf, math.nan

# name -> arguments, value to 17 digits (mpmath, 40 digits)
KNOWN = {
    "airy_ai": [
        ((-20.25,), -0.25609535403377042),
        ((-3.5,), -0.37553382314043191),
        ((0.0,), 0.35502805388781724),
        ((1.5,), 0.07174949700810541),
        ((7.0,), 7.4921288639971671e-7),
    ],
    "bessel_j0": [
        ((-3.5,), -0.38012773998726338),
        ((0.25,), 0.9844359292958527),
        ((7.75,), 0.2252340691201067),
        ((30.0,), -0.086367983581040211),
    ],
    "bessel_j1": [
        ((-3.5,), -0.13737752736232719),
        ((0.25,), 0.12402597732272692),
        ((7.75,), 0.19160259218911781),
        ((30.0,), -0.11875106261662294),
    ],
    "bessel_y0": [
        ((0.25,), -0.93157302493005869),
        ((3.0,), 0.37685001001279038),
        ((7.75,), 0.17676987751364716),
        ((30.0,), -0.11729573168666403),
    ],
    "bessel_y1": [
        ((0.25,), -2.7041052293152824),
        ((3.0,), 0.32467442479179998),
        ((7.75,), -0.21433222865940805),
        ((30.0,), 0.084425570661747235),
    ],
    "modified_bessel_i0": [((-3.5,), 7.3782034322254797), ((20.0,), 43558282.559553533)],
    "modified_bessel_i1": [((-3.5,), -6.2058349222583655), ((20.0,), 42454973.38512777)],
    "modified_bessel_k0": [
        ((0.125,), 2.2078690867449701),
        ((1.75,), 0.15537981238660359),
        ((9.0,), 5.0881312956459248e-5),
    ],
    "modified_bessel_k1": [
        ((0.125,), 7.8311182991157512),
        ((1.75,), 0.19547745347439301),
        ((9.0,), 5.3637016379451945e-5),
    ],
    "scaled_modified_bessel_k0": [((0.125,), 2.5018434402191294), ((900.0,), 0.041771339152548793)],
    "scaled_modified_bessel_k1": [((0.125,), 8.8738195864263295), ((900.0,), 0.041794539013033705)],
    "spherical_bessel_j0": [((0.125,), 0.99739786708182152), ((-9.0,), 0.045790942804639619)],
    "zeta": [
        ((1.5, 0.25), 10.213055360466601),
        ((2.0, 1.0), 1.6449340668482264),
        ((3.0, -2.5), 0.054102025820863702),
        ((30.0, 7.0), 4.5199316204575713e-26),
    ],
    "gammainc": [
        ((0.125, 0.001), 0.44773339971613887),
        ((2.5, 1.5), 0.30001416412137249),
        ((2.5, 40.0), 0.99999999999999916),
        ((70.0, 0.5), 4.3193356650624554e-122),
        ((100.0, 100.0), 0.51329879827914866),
        ((5000.0, 4900.0), 0.077944956226513914),
    ],
    "gammaincc": [
        ((1e-05, 0.25), 1.0442832583522804e-5),
        ((2.5, 1.5), 0.69998583587862751),
        ((2.5, 40.0), 8.3918251148316101e-16),
        ((12.0, 30.0), 6.3877025399273365e-5),
        ((150.0, 160.0), 0.20437381176567754),
        ((5000.0, 5300.0), 1.5545115785517565e-5),
    ],
    "hermite_polynomial_h": [((0.75, 6.0), 144.515625), ((-1.5, 9.5), -2835.0)],
    "hermite_polynomial_he": [((0.75, 6.0), 5.744384765625), ((-1.5, 9.5), 541.212890625)],
    "laguerre_polynomial_l": [((0.75, 6.0), -0.5013641357421875), ((-1.5, 9.5), 138.25833783830915)],
    "legendre_polynomial_p": [((0.75, 6.0), -0.2807769775390625), ((-1.5, 9.5), -1165.5561676025391)],
    "chebyshev_polynomial_t": [
        ((0.75, 5.0), -0.890625),
        ((0.625, 40.0), -0.29716653950477415),
        ((-1.5, 9.5), -2889.0),
    ],
    "chebyshev_polynomial_u": [
        ((0.75, 5.0), -1.40625),
        ((0.625, 40.0), -1.0616388930651746),
        ((-1.5, 9.5), -6765.0),
    ],
    "chebyshev_polynomial_v": [
        ((0.75, 5.0), -0.71875),
        ((0.625, 40.0), 0.16151687263146611),
        ((-1.5, 9.5), -9349.0),
    ],
    "chebyshev_polynomial_w": [
        ((0.75, 5.0), -2.09375),
        ((0.625, 40.0), -2.2847946587618153),
        ((-1.5, 9.5), -4181.0),
    ],
}
ONE = [name for name in KNOWN if hasattr(bessel, name)]
TWO = [name for name in KNOWN if hasattr(loops, name)]


def value(name: str, *args: float) -> float:
    return float(getattr(loops if name in TWO else bessel, name).python(*args))


@pytest.mark.parametrize("name", KNOWN)
def test_value(name: str) -> None:
    for args, want in KNOWN[name]:
        assert value(name, *args) == pytest.approx(want, rel=2e-14, abs=1e-14), args


@pytest.mark.oracle
@pytest.mark.parametrize("name", KNOWN)
def test_special_values_are_pytorchs(torch: ModuleType, name: str) -> None:
    """Where they are no ordinary numbers; of NaN PyTorch's polynomials may give what was in memory."""
    grid = np.meshgrid(*[np.array(SPECIALS)] * (1 if name in ONE else 2), indexing="ij")
    points = [g.ravel().tolist() for g in grid]
    want = array(getattr(torch.special, name)(*(torch.tensor(g, dtype=torch.float64) for g in points)))
    for *args, w in zip(*points, want, strict=True):
        if not (0 < abs(w) < inf) and not ("polynomial" in name and args[0] != args[0]):
            np.testing.assert_equal(value(name, *args), w, err_msg=str(args))


def test_the_functions_that_a_kernel_calls_are_written_out() -> None:
    text = loops.text(frozenset({"gammainc", "lgamma", "np"}), "@called")
    assert text.count("@called\ndef ") == len(
        {"gammainc", "_gamma_part", "_gamma_weight", "_excess", "_series", "_uniform"}
        | {"_lower_series", "_upper_series", "_upper_fraction"}
    )
    assert "_TEMME_0 = (" in text and "def lgamma" not in text
    names: dict[str, object] = {"math": math, "inf": inf, "nan": nan, "called": lambda f: f}
    exec(text, names)
    assert names["gammainc"](2.5, 1.5) == value("gammainc", 2.5, 1.5)  # type: ignore[operator]
