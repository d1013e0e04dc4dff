"""Elementary functions as branch-free source text, because PyPI's Numba has no SVML and `math.exp` in a loop is a call
per element that stops LLVM from vectorising.

Promises the emitter: `TEXT[kind, prim](argument names, fresh)` gives straight-line Python (assignments only) and the
name of its result, for kinds f4 and f8; the text needs vmath's PREAMBLE in the kernel's file, no fastmath flag, and Numba's
numpy error model. It says the same under plain Python as compiled (to the ulp; to the bit where the machine has fused
multiply-add). What is not in TEXT has no such text: the gamma and Bessel functions, and in float64 erfinv and ndtr, are definitions
in these primitives (`expr/special.py`).

Promises the user: the greatest error below, and every special value (zeros with their sign, infinities, NaN, denormals,
both thresholds of overflow and gradual underflow) as C has it. Measured (`python -m tests.kernels.vmath_table`): errors
over 2e6 and 5e5 points, random bit patterns and dense sweeps, against long double (float64 erfc against 30 digits, as C's is itself up
to two ulps off); times for 1e6 elements, one thread of an AVX-512 machine, the best of many tries (one with 256-bit vectors
needs 1.3 to 1.7 times as long). ndtr and gelu_slope count from 0 up,
exp_below and expm1_below down; erfinv, ndtr and gelu_slope of float64 are definitions in expr/special.py.

                float32            float64                         float32            float64
    exp         0.90 ulp   270 us  0.90 ulp   630 us  sin         1.07 ulp   340 us  1.13 ulp   770 us
    expm1       1.07 ulp   280 us  1.40 ulp   700 us  cos         1.06 ulp   400 us  1.07 ulp   900 us
    expm1_below 0.97 ulp   260 us  0.99 ulp   590 us  tan         1.18 ulp   510 us  2.13 ulp  1200 us
    exp2        0.95 ulp   260 us  0.87 ulp   640 us  asin        0.62 ulp   320 us  0.66 ulp   890 us
    sigmoid     2.00 ulp   290 us  1.99 ulp   690 us  acos        0.63 ulp   340 us  0.60 ulp   920 us
    log         0.84 ulp   320 us  0.76 ulp   850 us  atan        1.25 ulp   390 us  1.08 ulp  1320 us
    log1p       0.88 ulp   380 us  0.75 ulp   980 us  atan2       0.53 ulp  1150 us  1.04 ulp  1950 us
    log2        1.07 ulp   320 us  0.99 ulp  1010 us  sinh        1.57 ulp   390 us  1.64 ulp   990 us
    log10       0.94 ulp   360 us  0.93 ulp  1010 us  cosh        1.31 ulp   330 us  1.30 ulp   800 us
    soft_corner 1.73 ulp   330 us  1.62 ulp  1450 us  tanh        1.07 ulp   330 us  1.02 ulp   830 us
    pow         0.50 ulp  1650 us  0.93 ulp  3010 us  asinh       0.71 ulp   770 us  0.63 ulp  2640 us
    rsqrt       0.99 ulp   270 us                     acosh       1.99 ulp   690 us  1.99 ulp  1970 us
    erf         1.19 ulp   380 us  1.00 ulp  1720 us  atanh       0.89 ulp   660 us  0.87 ulp  2000 us
    erfc        1.92 ulp   630 us  2.40 ulp  2250 us  exp_below   0.88 ulp   250 us  0.89 ulp   600 us
    erfinv      2.65 ulp   750 us
    ndtr        1.22 ulp   310 us
    gelu_slope  2.08 ulp   420 us

What exceeds one ulp does so for speed: the sigmoid that carries what its roundings lost was within 0.91 ulp, and
took 1.4 times as long.
Without fused multiply-add the errors grow by up to one ulp. Every polynomial was fitted for this module, by a Remez
exchange in 50-digit arithmetic unless it says otherwise; its comment has degree, interval and error before rounding.
"""

from __future__ import annotations

from nbgrad.kernels.texts import arithmetic, error, exponential, hyperbolic, logarithm, power, trigonometric
from nbgrad.kernels.texts.text import TEXT

__all__ = ["TEXT", "arithmetic", "error", "exponential", "hyperbolic", "logarithm", "power", "trigonometric"]
