"""Cases of distances, padding, pooling, resampling, calculus and convolution."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.cases.making import FLOATS, NARROW, NO_GRAD, POSITIVE, F, Operands, case, op
from tests.cases.pointwise import NO_HALF

# ---- distances, padding, calculus
# Several operations, of which another one refuses.
ANOTHER_REFUSES = {"unlike": ("bool",)}
op("dist", ((3, 4), (3, 4)), ((3, 1), (4,)), forms="m", dtypes=FLOATS, strides=False, **ANOTHER_REFUSES)
for p in (1, 3, float("inf")):
    op(f"dist/p_{p}", ((3, 4), (3, 4)), forms="m", args=(p,), dtypes=FLOATS, **ANOTHER_REFUSES)
PAIRED: tuple[Operands, ...] = (((3, 4), (5, 4)), ((2, 3, 4), (1, 2, 4)), ((0, 4), (5, 4)))
# PyTorch has no second derivative of these, nor of padding that repeats elements: tests/ops/test_linalg.py.
for p in (0, 1, 2, 3, float("inf")):
    op(f"cdist/p_{p}", *PAIRED, forms="", args=(p,), dtypes=FLOATS, tol=10, differentiable=False)
op("cdist/product", ((30, 4), (5, 4)), forms="", dtypes=FLOATS, tol=100)
op("pdist", ((4, 3),), ((1, 3),), forms="", where=F, dtypes=FLOATS, tol=10, differentiable=False)
op("pdist/p_1", ((4, 3),), forms="", where=F, args=(1,), dtypes=FLOATS, differentiable=False)
op("pairwise_distance", ((3, 4), (3, 4)), ((4,), (3, 4)), forms="", where=F, dtypes=FLOATS)
op("cosine_similarity", ((3, 4), (3, 4)), ((3, 1, 4), (2, 4)), forms="", where=F, dtypes=FLOATS)
op("normalize", ((3, 4),), ((2, 3, 2),), forms="", where=F, dtypes=FLOATS)
op("normalize/p_1", ((3, 4),), forms="", where=F, args=(1, 0), dtypes=FLOATS)
op("renorm", ((3, 4),), ((2, 3, 2),), args=(2, 0, 1.0), dtypes=FLOATS)
op("renorm/p_1", ((3, 4),), forms="m", args=(1, -1, 2.0), dtypes=FLOATS)
op("pad", ((3, 4),), ((2, 3, 2),), ((0, 2),), forms="", where=F, args=((1, 2),))
op("pad/value", ((3, 4),), ((2, 3, 2),), forms="", where=F, args=((1, 0, -1, 2), "constant", 1.5))
for mode in ("reflect", "replicate", "circular"):
    more = {"dtypes": FLOATS, "strides": False, "differentiable": False}
    op(f"pad/{mode}", ((3, 4),), ((2, 3, 4),), forms="", where=F, args=((2, 1), mode), **more)
    op(f"pad/{mode}_2d", ((2, 3, 4),), ((1, 2, 3, 3),), forms="", where=F, args=((2, 1, 1, 0), mode), **more)
# Windows: one dimension is two in PyTorch, so that results lie as those of a view.
POOLED = {
    1: (((2, 3, 7),), ((3, 5),)),
    2: (((2, 3, 5, 4),), ((2, 4, 6),)),
    3: (((1, 2, 4, 4, 5),), ((2, 4, 5, 4),)),
}
for n, shapes in POOLED.items():
    more = {"forms": "", "where": F, "dtypes": FLOATS, "strides": False}
    op(f"max_pool{n}d", *shapes, args=(3, 2, 1), **more)
    op(f"max_pool{n}d/ceil", *shapes, args=(2, 2, 0, 1, True), **more)
    op(f"max_pool{n}d_with_indices", *shapes, args=(2, 1, 1), **more)
    op(f"avg_pool{n}d", *shapes, args=(3, 2, 1), **more)
    op(f"avg_pool{n}d/uncounted", *shapes, args=(2, 3, 1, True, False), **more)
    op(f"adaptive_max_pool{n}d", *shapes, args=(2,), **more)
    op(f"adaptive_avg_pool{n}d", *shapes, args=(3,), steps=True, **more)
    op(f"lp_pool{n}d", *shapes, args=(2, 2), **more, domain=POSITIVE)
    if n > 1:
        op(f"fractional_max_pool{n}d", *shapes, args=(2, 2), **more)

    def unpool(T: ModuleType, x: Any, n: int = n) -> Any:
        places = T.arange(x[0, 0].numel() if x.ndim == n + 2 else x[0].numel()).reshape(x.shape[-n:])
        return getattr(T.nn.functional, f"max_unpool{n}d")(x, places.expand(x.shape).contiguous(), 2)

    case(f"max_unpool{n}d", unpool, *shapes, dtypes=FLOATS, strides=False)
RESAMPLED = {1: (((2, 3, 5),),), 2: (((2, 3, 4, 5),),), 3: (((1, 2, 3, 4, 2),),)}
for mode, n in (
    *(("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 2)),
    *(("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3), ("area", 2)),
):
    more = {"forms": "", "where": F, "dtypes": FLOATS, "strides": False, "steps": True}
    named = f"interpolate/{mode.replace('-', '_')}_{n}d"
    op(named, *RESAMPLED[n], args=(7, None, mode), **more)
    op(f"{named}_smaller", *RESAMPLED[n], args=(None, 0.7, mode), **more)
    if "linear" in mode or mode == "bicubic":
        op(f"{named}_corners", *RESAMPLED[n], args=(3, None, mode, True), **more)
    if mode in ("bilinear", "bicubic"):
        op(f"{named}_antialias", *RESAMPLED[n], args=(2, None, mode), kwargs=(("antialias", True),), **more)
for shapes in ((((2, 4, 3),),), (((2, 3, 4, 3),),)):
    op(f"local_response_norm/{len(shapes[0][0])}d", *shapes, forms="", where=F, args=(3, 0.1), dtypes=FLOATS)
AT: dict[str, Any] = {"dtypes": ("float64",), "strides": False, "domain": ((-2.0, 2.0), (-0.9, 0.9))}
for mode in ("bilinear", "nearest", "bicubic"):
    case(
        f"grid_sample_{mode}",
        lambda T, x, g, m=mode: T.nn.functional.grid_sample(x, g, m, "zeros", False),
        ((2, 3, 4, 3), (2, 2, 3, 2)),
        **AT,
    )
case(
    "grid_sample_3d",
    lambda T, x, g: T.nn.functional.grid_sample(x, g, "bilinear", "zeros", True),
    ((1, 2, 3, 4, 3), (1, 2, 2, 2, 3)),
    **AT,
)
for n, shapes in ((2, ((2, 2, 3),)), (3, ((1, 3, 4),))):
    case(
        f"affine_grid_{n}d",
        lambda T, m, n=n: T.nn.functional.affine_grid(m, (m.shape[0], 1, *(2, 3, 4)[:n]), False),
        shapes,
        dtypes=FLOATS,
        strides=False,
    )
SAMPLED: dict[str, Any] = {"dtypes": (*FLOATS, "int64"), "strides": False}
for name in ("trapezoid", "cumulative_trapezoid"):
    op(name, ((3, 4),), ((5,),), forms="", **SAMPLED)
    op(f"{name}/dx", ((3, 4),), forms="", kwargs=(("dx", 0.5), ("dim", 0)), **SAMPLED)
    case(
        f"{name}_x",
        lambda T, y, x, n=name: getattr(T, n)(y, x),
        *(((3, 4), (4,)), ((3, 4), (3, 4))),
        **SAMPLED,
        **ANOTHER_REFUSES,
    )
for order in (1, 2):
    more = {"edge_order": order}
    case(
        f"gradient_{order}",
        lambda T, x, k=more: T.gradient(x, **k),
        ((3, 4),),
        ((5,),),
        dtypes=FLOATS,
        unlike=NARROW * (order - 1),  # both round between steps, not the same ones
    )
    case(
        f"gradient_{order}_places",
        lambda T, x, k=more: T.gradient(x, spacing=(T.tensor([0, 1, 3, 4.5], dtype=x.dtype),), dim=1, **k),
        ((3, 4),),
        dtypes=FLOATS,
        **ANOTHER_REFUSES,
    )
case("gradient_spacing", lambda T, x: T.gradient(x, spacing=(0.5, 2.0)), ((3, 4),), dtypes=FLOATS)
op("cov", ((3, 4),), ((5,),), forms="m", dtypes=(*FLOATS, "int64"), tol=4)
case(
    "cov_weights",
    lambda T, x, w: T.cov(x, fweights=T.tensor([1, 2, 1, 3]), aweights=w, correction=2),
    ((3, 4), (4,)),
    domain=((-2.0, 2.0), POSITIVE),
    dtypes=FLOATS,
    tol=4,
)
op("corrcoef", ((3, 9),), ((5,),), forms="m", dtypes=FLOATS, tol=4, kinks=(9,))
case(
    "gumbel_softmax",
    lambda T, x: T.nn.functional.gumbel_softmax(x).sum(-1) > 0.99,
    ((3, 4),),
    dtypes=FLOATS,
    **NO_GRAD,
)
for name, args in {
    "t": (),
    "transpose": (0, -1),
    "unsqueeze": (1,),
    "squeeze": (0,),
    "swapaxes": (0, 1),
}.items():

    def turned(T: ModuleType, x: Any, name: str = name, args: tuple[int, ...] = args) -> Any:
        y = x * 1
        return getattr(y, f"{name}_")(*args) * y

    case(f"inplace_{name}", turned, ((3, 4),), ((1, 4),))
for name in ("tril", "triu"):
    op(f"{name}/written", ((3, 4),), ((2, 3, 3),), forms="mi", args=(1,), layouts=False)

# ---- windows
CONVOLUTIONS: dict[str, tuple[tuple[Operands, ...], dict[str, Any]]] = {
    "conv1d": ((((2, 3, 6), (4, 3, 2)), ((3, 6), (4, 3, 2))), {}),
    "conv1d/settings": ((((2, 4, 7), (6, 2, 3), (6,)),), {"stride": 2, "padding": 2, "groups": 2}),
    "conv1d/same": ((((2, 3, 5), (2, 3, 3), (2,)),), {"padding": "same", "dilation": 2}),
    "conv2d": ((((2, 3, 5, 6), (5, 3, 3, 2), (5,)), ((3, 5, 6), (5, 3, 3, 2), (5,))), {}),
    "conv2d/point": ((((2, 6, 3, 3), (5, 6, 1, 1)),), {}),
    "conv2d/strided": ((((2, 3, 7, 6), (4, 3, 3, 3)),), {"stride": (2, 3), "padding": (1, 2)}),
    "conv2d/dilated": ((((1, 2, 6, 7), (3, 2, 2, 3), (3,)),), {"dilation": (2, 3), "padding": 1}),
    "conv2d/depthwise": ((((2, 3, 5, 5), (6, 1, 3, 3), (6,)),), {"groups": 3, "padding": 1}),
    "conv3d": ((((2, 2, 4, 3, 4), (3, 2, 2, 2, 3), (3,)),), {"padding": (0, 1, 1), "stride": (1, 2, 1)}),
    "conv_transpose1d": ((((2, 3, 4), (3, 2, 3), (2,)), ((3, 4), (3, 2, 3), (2,))), {"stride": 2}),
    "conv_transpose2d": (
        (((2, 4, 3, 4), (4, 2, 3, 2), (4,)),),
        {"stride": (2, 3), "padding": 1, "output_padding": 1, "groups": 2},
    ),
    "conv_transpose2d/dilated": ((((1, 2, 3, 3), (2, 3, 2, 2)),), {"dilation": 2}),
    "conv_transpose3d": (
        (((1, 2, 2, 3, 2), (2, 3, 2, 2, 2), (3,)),),
        {"stride": (1, 2, 2), "padding": (0, 0, 1)},
    ),
}
for name, (shapes, settings) in CONVOLUTIONS.items():
    op(name, *shapes, forms="", where=F, kwargs=tuple(settings.items()), steps=True, **NO_HALF)
# PyTorch's second derivatives of no image end where its first ones are made.
op("conv2d/empty", ((0, 3, 6, 5), (4, 3, 2, 3), (4,)), forms="", where=F, **NO_GRAD)
op("conv_transpose2d/empty", ((0, 3, 6, 5), (3, 4, 2, 3), (4,)), forms="", where=F, **NO_GRAD)
op(
    "unfold/images",
    ((2, 3, 4, 5),),
    ((3, 4, 5),),
    ((0, 3, 4, 5),),
    where=F,
    forms="",
    args=((2, 3), 1, (1, 0), (2, 1)),
)
op(
    "fold",
    ((2, 12, 15),),
    ((12, 15),),
    ((0, 12, 15),),
    where=F,
    forms="",
    args=((4, 5), (2, 3), 1, 1, (2, 1)),
)
