"""Cases of joining, copies and reductions into places."""

from __future__ import annotations

from typing import Any

from tests.cases.making import FLOATS, NARROW, NO_GRAD, UNARY, Operands, case, unary

# ---- joining
JOINED: tuple[Operands, ...] = (((2, 3), (4, 3)), ((0, 3), (2, 3)), ((0,), (2, 3)))
case("cat", lambda T, x, y: T.cat([x, y]), *JOINED, layouts=False)
case("cat_dim", lambda T, x, y: T.cat((x, y, x), dim=-1), ((2, 3), (2, 1)), ((2, 2, 2), (2, 2, 0)))
case("stack", lambda T, x, y: T.stack([x, y]), ((2, 3), (2, 3)), ((), ()), ((0,), (0,)))
case("stack_dim", lambda T, x, y: T.stack((x, y), dim=-1), ((2, 3), (2, 3)), ((2, 1, 2), (2, 1, 2)))

# ---- comparisons that give a Python bool
case("allclose", lambda T, x, y: T.allclose(x, y), ((3,), (3,)), ((0,), (0,)), **NO_GRAD)
case("allclose_self", lambda T, x: T.allclose(x, x * 1), *UNARY, **NO_GRAD)
case("equal", lambda T, x, y: T.equal(x, y), ((3,), (3,)), ((2,), (3,)), ((0,), (0,)), **NO_GRAD)
case("equal_self", lambda T, x: x.equal(x.clone()), *UNARY, **NO_GRAD)

unary("angle", forms="m", kinks=(0,), strides=False)

# ---- copies with elements of another tensor
case("index_copy", lambda T, x, y: x.index_copy(0, T.tensor([2, 0]), y), ((3, 4), (2, 4)), ((3,), (2,)))
case("index_copy_last", lambda T, x, y: T.index_copy(x, -1, T.tensor([1]), y), ((3, 4), (3, 1)))
case(
    "inplace_index_copy",
    lambda T, x, y: (x * 1).index_copy_(1, T.tensor([3, 0]), y) ** 2,
    ((3, 4), (3, 2)),
    dtypes=FLOATS,
)
case(
    "masked_scatter",
    lambda T, x, y: T.masked_scatter(x, x > 0.3, y),
    ((3, 4), (3, 5)),
    ((), (2,)),
    dtypes=FLOATS,
)
case(
    "inplace_masked_scatter",
    lambda T, x, y: (x * 1).masked_scatter_(x > 0.3, y) ** 2,
    ((3, 4), (12,)),
    dtypes=FLOATS,
)
for accumulate in (False, True):
    case(
        f"put_{accumulate}",
        lambda T, x, y, a=accumulate: T.put(x, T.tensor([1, -1]), y, accumulate=a),
        ((3, 4), (2,)),
        ((3,), (2, 1)),
    )

# ---- reductions into places
MET: dict[str, Any] = {"layouts": False, "dtypes": (*FLOATS, *NARROW, "int64", "bool")}
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    for inside in (True, False):
        more = {"reduce": reduce, "include_self": inside}
        case(
            f"scatter_reduce_{reduce}{'' if inside else '_alone'}",
            lambda T, x, y, k=more: T.scatter_reduce(x, 1, T.tensor([[0, 2, 0], [1, 1, 3]]), y, **k),
            ((3, 4), (2, 3)),
            **MET,
        )
        if reduce != "sum":
            case(
                f"index_reduce_{reduce}{'' if inside else '_alone'}",
                lambda T, x, y, k=more: x.index_reduce(0, T.tensor([2, 0, 2]), y, **k),
                ((3, 4), (3, 4)),
                **MET,
            )
for reduce in ("sum", "mean", "max", "min", "prod"):
    case(
        f"segment_reduce_{reduce}",
        lambda T, x, k=reduce: T.segment_reduce(x, k, lengths=T.tensor([2, 0, 3]), initial=0.5),
        ((5,),),
        ((5, 2),),
        dtypes=FLOATS,
        differentiable=False,  # twice in PyTorch; tests/ops/index/test_segments.py
    )
case(
    "segment_reduce_offsets",
    lambda T, x: T.segment_reduce(x, "mean", offsets=T.tensor([[0, 2, 3], [1, 3, 4]]), axis=1),
    ((2, 4),),
    ((2, 4, 3),),
    dtypes=FLOATS,
    differentiable=False,
)
case(
    "inplace_scatter_reduce",
    lambda T, x, y: (x * 1).scatter_reduce_(-1, T.tensor([[0, 0, 3]]), y, "prod") ** 2,
    ((3, 4), (1, 3)),
    dtypes=FLOATS,
)
case(
    "inplace_index_reduce",
    lambda T, x, y: (x * 1).index_reduce_(1, T.tensor([3, 3]), y, "mean") ** 2,
    ((3, 4), (3, 2)),
    dtypes=FLOATS,
    unlike=("bool",),  # refused after the warning that it is in beta, or before
)
case(
    "scatter_multiply",
    lambda T, x, y: T.scatter(x, 0, T.tensor([[0, 2], [0, 1]]), y, reduce="multiply"),
    ((3, 4), (2, 2)),
    **MET,
    **NO_GRAD,
)
