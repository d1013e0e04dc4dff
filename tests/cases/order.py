"""Cases of scans, sorting and counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.cases.making import DTYPES, FLOATS, INTS, NO_GRAD, Operands, case, op
from tests.cases.reduce import MATRIX, REDUCED

# ---- scans
LINES: tuple[Operands, ...] = (((3, 4),), ((2, 3, 2),), ((),), ((300, 3),), ((3, 0),))
for name in ("cumsum", "cumprod"):
    ref = getattr(np, name)
    op(name, *LINES, forms="mo", args=(-1,), ref=lambda x, f=ref: f(x.astype(x.dtype), -1))
    op(f"{name}/first", *MATRIX, forms="mio", args=(0,), ref=lambda x, f=ref: f(x, 0))
    case(f"{name}_dtype", lambda T, x, n=name: getattr(T, n)(x, 0, dtype=T.float64), *MATRIX)
case("cumprod_zeros", lambda T, x: T.cumprod(x * (x > 0), 0), *MATRIX, ((12,),), domain=(-0.5, 2.0))
op("logcumsumexp", *MATRIX, ((300, 3),), ((3, 0),), forms="mo", args=(-1,))
op("logcumsumexp/first", *MATRIX, forms="mo", args=(0,))
PAIRS: tuple[Operands, ...] = (
    ((3, 4), (3, 4)),
    ((2, 3, 2), (2, 3, 2)),
    ((3, 300), (3, 300)),
    ((300, 3), (300, 3)),
)
for name in ("cumprod", "logcumsumexp"):
    for label, dim in (("complex", -1), ("complex_first", 0)):

        def running(T: Any, re: Any, im: Any, name: str = name, dim: int = dim) -> Any:
            return T.view_as_real(getattr(T, name)(T.complex(re, im), dim))

        case(f"{name}_{label}", running, *PAIRS, dtypes=FLOATS, unlike=("float16",), tol=20.0)
for name in ("cummax", "cummin"):
    op(name, *LINES[:-1], forms="m", args=(-1,))
    op(f"{name}/first", *MATRIX, forms="m", args=(0,))
op("diff", *MATRIX, ((1, 3),), forms="mo", ref=np.diff)
op("diff/n", *MATRIX, forms="mo", kwargs=(("n", 2), ("dim", 0)), ref=lambda x: np.diff(x, 2, 0))
case("diff_ends", lambda T, x, y: T.diff(x, prepend=y, append=y), ((3, 4), (3, 2)), ((4,), (1,)))

# ---- order; what PyTorch says of equal elements is said by the cases in floats alone
SORTED: tuple[Operands, ...] = (((3, 4),), ((2, 3, 2),), ((),), ((60, 3),), ((3, 200),), ((0, 3),))
NUMBERS = tuple(d for d in DTYPES if d != "bool")
op("sort", *SORTED, forms="m", kwargs=(("dim", 0), ("stable", True)))
op("sort/last", *SORTED, forms="m", dtypes=FLOATS)
op("sort/descending", *SORTED, forms="m", kwargs=(("descending", True), ("stable", True)))
op("argsort", *SORTED, forms="m", kwargs=(("stable", True),), **NO_GRAD)
op("msort", *SORTED, forms="mo")
op("topk", ((3, 4),), ((2, 3, 60),), ((2, 200),), forms="m", args=(2,), dtypes=FLOATS, unlike=INTS)
case("topk_values", lambda T, x: T.topk(x, 2, 0, False)[0], ((3, 4),), ((300, 2),), dtypes=NUMBERS)
op("kthvalue", ((3, 4),), ((2, 3, 60),), ((2, 200),), forms="m", args=(2,), dtypes=FLOATS, unlike=INTS)
op("kthvalue/first", ((3, 4),), forms="m", args=(3, 0, True), dtypes=FLOATS)
for name in ("median", "nanmedian"):
    op(name, *REDUCED, forms="m", dtypes=NUMBERS, layouts=False)
    op(f"{name}/dim", ((3, 5),), ((2, 3, 60),), ((3, 0, 4),), forms="m", args=(-1,), dtypes=FLOATS)
    op(f"{name}/keepdim", *MATRIX, forms="m", args=(0, True), dtypes=FLOATS, layouts=False)
case("mode", lambda T, x: T.mode(x, 0)[0], ((5, 4),), ((),), ((40, 3),), layouts=False)
for form in ("linear", "lower", "higher", "midpoint", "nearest"):
    op(
        f"quantile/{form}",
        *MATRIX,
        forms="m",
        args=(0.37, 1),
        kwargs=(("interpolation", form),),
        dtypes=FLOATS,
    )
op("quantile", *REDUCED, forms="m", args=(0.4,), dtypes=FLOATS)
op("nanquantile", *REDUCED, forms="m", args=(0.4,), kwargs=(("keepdim", True),), dtypes=FLOATS)
several = lambda T, x: T.quantile(x, T.tensor([0.1, 0.7], dtype=x.dtype), dim=0)  # noqa: E731
case("quantile_several", several, *MATRIX, dtypes=FLOATS)
MANY = {"domain": (-3.0, 3.0), "differentiable": False, "layouts": False}
case("unique", lambda T, x: T.unique(x, return_inverse=True, return_counts=True), *SORTED, **MANY)
case(
    "unique_dim", lambda T, x: T.unique(x, dim=0, return_inverse=True, return_counts=True), ((9, 1),), **MANY
)
case("unique_consecutive", lambda T, x: T.unique_consecutive(x, return_counts=True), *SORTED, **MANY)
SEARCHED: tuple[Operands, ...] = (((7,), (3, 4)), ((2, 7), (2, 3)), ((3,), ()))
case("searchsorted", lambda T, e, x: T.searchsorted(T.sort(e)[0], x), *SEARCHED, **NO_GRAD)
right = lambda T, e, x: T.searchsorted(T.sort(e)[0], x, right=True)  # noqa: E731
case("searchsorted_right", right, *SEARCHED, dtypes=NUMBERS, **NO_GRAD)
case("bucketize", lambda T, e, x: T.bucketize(x, T.sort(e)[0]), ((7,), (3, 4)), **NO_GRAD)
