"""Cases of reductions, of moments and of what leaves NaN out."""

from __future__ import annotations

import numpy as np

from tests.cases.making import BINARY, FLOATS, NO_GRAD, POSITIVE, F, Operands, case, op
from tests.compare import leaves

# ---- reductions
REDUCED: tuple[Operands, ...] = (((3, 4),), ((2, 3, 4),), ((),), ((5,),))
WITH_EMPTY: tuple[Operands, ...] = (*REDUCED, ((0, 3),), ((3, 0),))
MATRIX: tuple[Operands, ...] = (((3, 4),), ((2, 3, 2),))
for name in ("sum", "mean", "prod"):
    ref = getattr(np, name)
    op(name, *WITH_EMPTY, forms="m", ref=ref)
    op(f"{name}/dim", *MATRIX, ((3, 0),), forms="mo", args=(1,), ref=lambda x, f=ref: f(x, 1))
    op(
        f"{name}/keepdim",
        *MATRIX,
        ((0, 3),),
        forms="mo",
        args=(0, True),
        ref=lambda x, f=ref: f(x, 0, keepdims=True),
    )
    case(f"{name}_dtype", lambda T, x, n=name: getattr(T, n)(x, dtype=T.float64), *MATRIX)
for name in ("sum", "mean"):
    op(f"{name}/dims", ((2, 3, 4),), ((3, 2, 0),), forms="mo", args=((0, 2),))
    op(f"{name}/dims_keepdim", ((2, 3, 4),), forms="mo", args=((-1, 0), True))
for name in ("amax", "amin"):
    op(name, *REDUCED, forms="mo", ref=getattr(np, name))
    op(f"{name}/dim", *MATRIX, forms="mo", args=(1,))
    op(f"{name}/dims", ((2, 3, 4),), forms="mo", args=((0, 2), True))
for name in ("max", "min"):
    op(name, *REDUCED, forms="m", ref=getattr(np, name))
    op(f"{name}/dim", *MATRIX, forms="m", args=(1,))
    op(f"{name}/keepdim", *MATRIX, ((0, 3),), forms="m", args=(-1, True))
    op(f"{name}/other", *BINARY, forms="mo", kinks=(9,))
for name in ("argmax", "argmin"):
    op(name, *REDUCED, forms="m", ref=getattr(np, name), **NO_GRAD)
    op(f"{name}/dim", *MATRIX, forms="mo", args=(1,), **NO_GRAD)
    op(f"{name}/keepdim", *MATRIX, forms="mo", args=(0, True), **NO_GRAD)
for name in ("all", "any"):
    op(name, *WITH_EMPTY, forms="m", ref=getattr(np, name), **NO_GRAD)
    op(f"{name}/dim", *MATRIX, ((3, 0),), forms="mo", args=(1,), **NO_GRAD)
    op(f"{name}/keepdim", *MATRIX, forms="mo", args=(0, True), **NO_GRAD)
op("norm", *WITH_EMPTY, forms="m", domain=POSITIVE, ref=lambda x: np.sqrt((x * x).sum()))
op("norm/dim", *MATRIX, forms="m", domain=POSITIVE, kwargs=(("dim", 1),))
for p in (1, 3, 0.5, float("inf"), float("-inf"), "fro"):
    op(f"norm/p_{p}", *MATRIX, forms="m", domain=POSITIVE, args=(p,))
op("norm/p_dim", *MATRIX, forms="m", domain=POSITIVE, args=(1, 0, True))
op("logsumexp", *MATRIX, ((3, 0),), ((40, 0),), forms="mo", args=(1,), ref=lambda x: np.log(np.exp(x).sum(1)))
op("logsumexp/dims", ((2, 3, 4),), forms="mo", args=((0, 2), True))
for name in ("softmax", "log_softmax"):
    op(name, *MATRIX, ((3, 0),), ((0, 3),), forms="m", args=(1,))
    op(f"{name}/first", *MATRIX, ((4,),), forms="m", args=(0,))
    op(f"{name}/0dim", ((),), forms="m", args=(-1,))
    op(f"{name}/functional", *MATRIX, forms="", where=F, kwargs=(("dim", -1),))
    case(f"{name}_dtype", lambda T, x, n=name: getattr(T, n)(x, 0, dtype=T.float64), *MATRIX)

# A row longer than the lanes of a kernel, in one run and side by side.
LONG: tuple[Operands, ...] = (((2, 150),), ((2, 70, 3),))
for name in ("softmax", "log_softmax"):
    case(f"{name}_long", lambda T, x, n=name: getattr(T, n)(x, 1), *LONG, dtypes=FLOATS)

for name in ("var", "std"):
    op(name, *MATRIX, ((5,),), forms="m", dtypes=FLOATS, tol=4)
    op(f"{name}/biased", *MATRIX, forms="m", args=(False,), dtypes=FLOATS)
    op(
        f"{name}/dim",
        *MATRIX,
        ((40, 70),),
        ((70, 40),),
        forms="mo",
        args=(1,),
        dtypes=FLOATS,
        tol=4,
    )
    op(f"{name}/first", *MATRIX, forms="mo", args=(0, True, True), dtypes=FLOATS)
    op(f"{name}/dims", ((2, 3, 4),), forms="mo", args=((0, 2),), kwargs=(("correction", 0),), dtypes=FLOATS)
    op(f"{name}_mean", *MATRIX, forms="", dtypes=FLOATS, tol=4)
    op(f"{name}_mean/dim", *MATRIX, forms="", args=(1,), kwargs=(("keepdim", True),), dtypes=FLOATS)
op("nansum", *WITH_EMPTY, forms="m", ref=np.nansum)
op("nansum/dim", *MATRIX, forms="mo", args=(1,), ref=lambda x: np.nansum(x, 1))
op("nanmean", *REDUCED, forms="m")
op("nanmean/dim", *MATRIX, forms="m", args=(0, True))
WITH_NAN = {"domain": (-1.0, 1.0), "dtypes": FLOATS}
for name in ("nansum", "nanmean", "nanmedian"):
    case(f"{name}_of_nan", lambda T, x, n=name: getattr(T, n)(T.where(x > 0, x, T.nan)), *MATRIX, **WITH_NAN)
for name in ("max", "min", "amax", "amin", "median", "logsumexp", "softmax", "var", "cumsum", "nansum"):
    fn = lambda T, x, n=name: leaves(getattr(T, n)(T.where(x > 0.9, T.nan, x), dim=1))[0]  # noqa: E731
    case(f"{name}_dim_of_nan", fn, ((3, 40),), ((40, 3),), **(WITH_NAN | NO_GRAD))
op("count_nonzero", *WITH_EMPTY, forms="m", ref=np.count_nonzero, **NO_GRAD)
op("count_nonzero/dims", ((2, 3, 4),), forms="m", args=((0, 2),), **NO_GRAD)
op("aminmax", *REDUCED, forms="m")
op("aminmax/dim", *MATRIX, ((0, 3),), forms="m", kwargs=(("dim", 1), ("keepdim", True)))
for p in (2, 3, 1, 0, 0.5, float("inf"), float("-inf")):
    op(
        f"vector_norm/{p}",
        *MATRIX,
        forms="",
        where="linalg",
        domain=POSITIVE,
        args=(p,),
        kwargs=(("dim", 1),),
    )
