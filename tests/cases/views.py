"""Cases of views, copies, indexing, and writes through views."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from tests.cases.making import FLOATS, INTS, NO_GRAD, UNARY, Operands, case, op
from tests.cases.order import NUMBERS

# ---- views and copies
ANY: tuple[Operands, ...] = (((3, 4),), ((2, 3, 4),), ((0, 3),))
FLAT = {"layouts": False}  # legal for a contiguous tensor only
case("view", lambda T, x: x.view(-1), *ANY, ((),), **FLAT)
case("view_sizes", lambda T, x: x.view(2, 6), ((3, 4),), ((12,),), **FLAT)
case("reshape", lambda T, x: x.reshape(4, -1), ((3, 4),), ((2, 2, 3),))
case("reshape_function", lambda T, x: T.reshape(x, (2, 6)), ((3, 4),))
case("flatten", lambda T, x: T.flatten(x), *ANY, ((),))
case("flatten_dims", lambda T, x: x.flatten(1, 2), ((2, 3, 4),), ((2, 3, 4, 2),))
case("permute", lambda T, x: x.permute(2, 0, 1), ((2, 3, 4),), ((0, 3, 4),))
case("permute_function", lambda T, x: T.permute(x, (-1, 0)), ((3, 4),))
case("transpose", lambda T, x: x.transpose(0, -1), *ANY, ((),))
case("t", lambda T, x: x.t(), ((3, 4),), ((3,),), ((),))
case("T", lambda T, x: x.T, ((3, 4),))
case("mT", lambda T, x: x.mT, ((3, 4),), ((2, 3, 4),))
case("squeeze", lambda T, x: x.squeeze(), ((3, 1, 4),), ((1, 1),), ((),))
case("squeeze_dim", lambda T, x: x.squeeze(1), ((3, 1, 4),), ((3, 2),))
case("squeeze_dims", lambda T, x: x.squeeze((0, -1)), ((1, 3, 1),), ((1, 3, 2),))
case("unsqueeze", lambda T, x: x.unsqueeze(0), *ANY, ((),))
case("unsqueeze_last", lambda T, x: T.unsqueeze(x, -1), *ANY, ((),))
case("expand", lambda T, x: x.expand(2, -1, 4), ((3, 1),), ((3, 4),), ((1, 3, 1),))
_BOUNDED: dict[str, Any] = {"dtypes": FLOATS, "finite": True, "differentiable": False}
case(
    "fake_quantize_per_tensor_affine",
    lambda T, x: T.fake_quantize_per_tensor_affine(x, 0.3, 2, 0, 7),
    ((3, 4),),
    ((5,),),
    **_BOUNDED,
)
case(
    "fake_quantize_per_channel_affine",
    lambda T, x: T.fake_quantize_per_channel_affine(
        x, T.tensor([0.3, 0.5, 0.2]), T.tensor([1, 2, 3], dtype=T.int32), 0, 0, 7
    ),
    ((3, 4),),
    **_BOUNDED,
)
case("narrow_copy", lambda T, x: T.narrow_copy(x, 1, 1, 2), ((3, 4),), ((2, 3, 2),))
case("narrow", lambda T, x: x.narrow(1, 1, 2), ((3, 4),), ((2, 3, 2),))
case("select", lambda T, x: x.select(-1, 1), ((3, 4),), ((2,),))
case("unbind", lambda T, x: x.unbind(1), ((3, 4),), ((2, 0),))
case("split", lambda T, x: x.split(2), ((5, 3),), ((2, 2),))
case("split_sizes", lambda T, x: T.split(x, [1, 3], dim=1), ((3, 4),))
case("chunk", lambda T, x: x.chunk(3, -1), ((2, 7),), ((2, 2),))
case("as_strided", lambda T, x: x.as_strided((2, 2), (1, 2), 1), ((3, 4),), layouts=False)
case("as_strided_overlapping", lambda T, x: x.as_strided((3, 2), (1, 1)), ((6,),), layouts=False)
case("diagonal", lambda T, x: x.diagonal(), ((3, 4),), ((3, 3, 2),))
case("diagonal_offset", lambda T, x: T.diagonal(x, 1, -1, 0), ((3, 4),), ((2, 3, 4),))
# what views show, as copies
op("alias_copy", *ANY, forms="o")
op("as_strided_copy", ((3, 4),), forms="o", args=((2, 2), (1, 2), 1), layouts=False)
op("diagonal_copy", ((3, 4),), ((3, 3, 2),), forms="o", args=(1,))
op("expand_copy", ((3, 1),), ((3, 4),), ((1, 3, 1),), forms="o", args=((2, -1, 4),))
op("permute_copy", ((2, 3, 4),), ((0, 2, 1),), forms="o", args=((2, 0, 1),))
op("select_copy", ((3, 4),), ((2,),), forms="o", args=(-1, 1))
op("slice_copy", ((3, 4),), ((2, 5, 2),), forms="o", args=(1, 1, -1, 2))
op("split_copy", ((5, 3),), ((2, 2),), forms="", args=(2,))
op("split_with_sizes_copy", ((3, 4),), forms="", args=((1, 3), 1))
op("squeeze_copy", ((3, 1, 4),), ((1, 1),), ((),), forms="o")
op("squeeze_copy/dims", ((1, 3, 1),), ((1, 3, 2),), forms="o", args=((0, -1),))
op("t_copy", ((3, 4),), ((3,),), ((),), forms="o")
op("transpose_copy", ((2, 3, 4),), ((0, 2),), forms="o", args=(0, -1))
op("unbind_copy", ((3, 4),), ((2, 0),), forms="", args=(1,))
op("unfold_copy", ((3, 7),), ((0, 4),), forms="o", args=(-1, 3, 2))
op("unsqueeze_copy", *ANY, ((),), forms="o", args=(0,))
op("view_copy", ((3, 4),), ((0, 2),), forms="o", args=((-1, 2),))
case("block_diag", lambda T, x, y, z: T.block_diag(x, y, z), ((2, 3), (2,), ()), ((0, 2), (1, 1), (2,)))
SQUARE: tuple[Operands, ...] = (((3, 4),), ((4, 2),), ((0, 3),))
op("trace", *SQUARE, forms="m", ref=np.trace)
op("diag", ((3, 4),), ((3,),), ((0, 2),), forms="mo", ref=np.diag)
op("diag/above", ((3, 4),), ((3,),), forms="mo", args=(1,), ref=lambda x: np.diag(x, 1))
op("diag/below", ((4, 3),), ((3,),), forms="mo", args=(-2,), ref=lambda x: np.diag(x, -2))
op("diag_embed", ((3,),), ((2, 3),), ((2, 0),), forms="m")
op("diag_embed/dims", ((2, 3),), forms="m", args=(-1, 0, 2))
op("diagflat", ((3,),), ((2, 2),), ((),), forms="m", args=(1,))
op("select_scatter", ((3, 4), (4,)), forms="m", args=(0, -1))
op("slice_scatter", ((3, 4), (3, 2)), forms="m", args=(1, 0, -1, 2))
op("diagonal_scatter", ((3, 4), (3,)), forms="m", args=(1,))
# PyTorch's gradient of the input is where `src` was written, not where it was not.
op("as_strided_scatter", ((3, 4), (2, 2)), forms="m", args=((2, 2), (1, 4), 1), layouts=False, **NO_GRAD)
case("nonzero_static", lambda T, x: T.nonzero_static(x > 0, size=9), ((3, 4),), dtypes=FLOATS, **NO_GRAD)
case(
    "shift_of_a_number",
    lambda T, x: (2 << x, 100 >> x, 1 << x.short()),
    ((3, 4),),
    domain=(-2, 9),
    dtypes=INTS,
    **NO_GRAD,
)


def shifted(T: ModuleType, x: Any) -> Any:
    y, z = x.clone(), x.clone()
    y <<= 2
    z >>= 1
    return y, z


case("shift_operators_inplace", shifted, ((3, 4),), domain=(0, 9), dtypes=INTS, **NO_GRAD)
case("tensor_split", lambda T, x: T.tensor_split(x, 3), ((7,),), ((2, 3),))
case("tensor_split_at", lambda T, x: x.tensor_split((1, -1), dim=1), ((2, 5),), ((2, 0),))
case("hsplit", lambda T, x: T.hsplit(x, 2), ((4,),), ((3, 4),))
case("vsplit", lambda T, x: x.vsplit([1]), ((3, 4),))
case("dsplit", lambda T, x: T.dsplit(x, 2), ((2, 2, 4),))
case("unfold", lambda T, x: x.unfold(0, 3, 2), ((7, 2),), ((3,),))
case("unfold_overlapping", lambda T, x: x.unfold(-1, 3, 1), ((2, 5),))
case("broadcast_tensors", lambda T, x, y: T.broadcast_tensors(x, y), ((2, 1), (3,)), ((2,), (2,)))
case("meshgrid", lambda T, x, y, z: T.meshgrid(x, y, z, indexing="ij"), ((2,), (3,), ()), ((2,), (0,), (2,)))
case("meshgrid_xy", lambda T, x, y: T.meshgrid([x, y], indexing="xy"), ((2,), (3,)))
case("cartesian_prod", lambda T, x, y: T.cartesian_prod(x, y), ((2,), (3,)), ((2,), (0,)))
case("combinations", lambda T, x: T.combinations(x), ((4,),), ((1,),))
case("combinations_repeated", lambda T, x: T.combinations(x, 3, with_replacement=True), ((3,),))
# PyTorch writes over what its own gradient of vander reads.
case("vander", lambda T, x: T.vander(x), ((3,),), ((4,),), differentiable=False)
case("vander_linalg", lambda T, x: T.linalg.vander(x, N=4), ((2, 3),), ((3,),), dtypes=(*FLOATS, *INTS))
case("einsum_thin", lambda T, x, y: T.einsum("ij,jk->ik", x, y), ((2, 1), (3, 4)), dtypes=FLOATS)
case("sum_to_size", lambda T, x: x.sum_to_size(1, 4), ((3, 4),), ((2, 3, 4),), dtypes=FLOATS)
case(
    "isin", lambda T, x, y: T.isin(x, y), ((3, 4), (5,)), ((4,), (0,)), ((), (3,)), dtypes=NUMBERS, **NO_GRAD
)
case("isin_not", lambda T, x: T.isin(x, 1, invert=True), ((3, 4),), dtypes=NUMBERS, **NO_GRAD)
COUNTED = {"domain": (0, 6), "dtypes": INTS, "differentiable": False}
op("bincount", ((9,),), ((0,),), forms="m", kwargs=(("minlength", 4),), **COUNTED)
case("bincount_weights", lambda T, x, w: T.bincount(x.long(), w), ((9,), (9,)), domain=((0, 6),), **NO_GRAD)
op(
    "histc",
    ((3, 40),),
    ((0,),),
    forms="mo",
    args=(7, -1, 1.5),
    dtypes=FLOATS,
    unlike=("uint8", "bool"),
    **NO_GRAD,
)
case(
    "histogramdd",
    lambda T, x: T.histogramdd(x, [3, 2], density=True),
    ((7, 2),),
    ((2, 5, 2),),
    dtypes=FLOATS,
    **NO_GRAD,
)
case("histogram", lambda T, x: T.histogram(x, 5, density=True), ((3, 40),), dtypes=FLOATS, **NO_GRAD)
case(
    "unravel_index",
    lambda T, x: T.unravel_index(x, (3, 4)),
    ((2, 3),),
    domain=(0, 11),
    dtypes=("int64",),
    **NO_GRAD,
)
case("clone", lambda T, x: x.clone(), *ANY, ((),))
case("contiguous", lambda T, x: x.contiguous(), *ANY)
case("to_float32", lambda T, x: x.to(T.float32), *UNARY, differentiable=False)
case("to_float64", lambda T, x: x.to(T.float64), *UNARY)
case("to_int64", lambda T, x: x.long(), *UNARY, **NO_GRAD)
case("to_int32", lambda T, x: x.int(), *UNARY, **NO_GRAD)
case("to_bool", lambda T, x: x.bool(), *UNARY, **NO_GRAD)
case("iterate", lambda T, x: tuple(x), ((3, 2),))

# ---- indexing, read and write
INDICES: dict[str, Any] = {
    "int": 1,
    "negative": -1,
    "ints": (1, 2),
    "slice": slice(1, 3),
    "step": (slice(None), slice(0, 4, 2)),
    "none": (None, 1),
    "ellipsis": (..., 0),
    "ellipsis_only": ...,
    "empty_slice": slice(2, 2),
    "mixed": (slice(None), None, 1, ...),
    "beyond": slice(1, 100),
    "empty_tuple": (),
}


def assign(T: ModuleType, x: Any, value: Any, index: Any) -> Any:
    """`x[index] = value` on a copy; the gradient reaches both."""
    y = x * 1
    y[index] = value
    return y


for name, index in INDICES.items():
    case(f"getitem_{name}", lambda T, x, i=index: x[i], ((3, 4),), ((3, 4, 2),))
    case(f"setitem_{name}", lambda T, x, v, i=index: assign(T, x, v, i), ((3, 4), ()), layouts=False)
case("setitem_broadcast", lambda T, x, v: assign(T, x, v, slice(0, 2)), ((3, 4), (4,)), ((3, 4), (2, 1)))
case("setitem_number", lambda T, x: assign(T, x, 2.5, (0, slice(1, 3))), ((3, 4),))
case("getitem_0dim", lambda T, x: x[()], ((),))


# ---- in-place writes through views: the history of the base is rewritten
def through_view(write: Callable[..., Any]) -> Callable[..., Any]:
    def fn(T: ModuleType, x: Any, *rest: Any) -> Any:
        y = x * 1
        write(y, *rest)
        return y * y

    return fn


case("inplace_view_row", through_view(lambda y: y[0].mul_(3)), ((3, 4),), dtypes=FLOATS)
case("inplace_view_transposed", through_view(lambda y, v: y.t().mul_(v)), ((3, 4), (3,)), dtypes=FLOATS)
case("inplace_view_of_view", through_view(lambda y: y[1:][:, 1].exp_()), ((3, 4),), dtypes=FLOATS)
case("inplace_view_twice", through_view(lambda y: (y[0].add_(1), y[:, 0].mul_(2))), ((3, 4),), dtypes=FLOATS)
case("inplace_view_diagonal", through_view(lambda y, v: y.diagonal().copy_(v)), ((3, 4), (3,)), dtypes=FLOATS)
case("inplace_view_fill", through_view(lambda y: y.select(1, 2).zero_()), ((3, 4),), dtypes=FLOATS)
