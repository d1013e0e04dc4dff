"""Lines and runs that are longer than a block of a device takes at once: what is beside them in the table is short."""

from collections.abc import Callable
from typing import Any

import pytest

from nbgrad.kernels.cuda.emulated import ORDERS
from nbgrad.memory import backend
from nbgrad.ops.order.scan import _recurrence
from tests.compare import assert_same, leaves
from tests.support import T

pytestmark = pytest.mark.emulated


def _first(x: Any, pick: Callable[[Any], Any], descending: bool, rank: Any) -> Any:
    """What a device picks; of the CPU, which leaves equals elsewhere, what stands there after a stable sort."""
    return (
        pick(x) if x.is_cuda else tuple([t[rank] for t in x.sort(dim=0, descending=descending, stable=True)])
    )


ORDERED: dict[str, Callable[[Any], Any]] = {
    "formula": lambda x: x * x + 1,
    "formula in place": lambda x: x.clone().mul_(x),
    "sort": lambda x: x.sort(stable=True),
    "sort down": lambda x: x.sort(dim=0, descending=True, stable=True),
    "topk": lambda x: _first(x, lambda x: x.topk(2, 0), True, slice(2)),
    "kthvalue": lambda x: _first(x, lambda x: x.kthvalue(2, 0), False, 1),
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(0),
    "unique": lambda x: x.unique(return_inverse=True, return_counts=True),
    "cummax": lambda x: x.cummax(-1),
    "cummin": lambda x: x.cummin(0),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "cat": lambda x: T.cat([x, x[:1], x]),
}


def _lies(shape: tuple[int, ...], dtype: Any) -> Any:
    x = T.randn(*shape) * 5
    if dtype.is_floating_point:
        line = x.view(-1)
        line[1::50], line[2::70], line[3::40], line[4::40] = float("nan"), float("inf"), -0.0, 0.0
    return x.to(dtype)


def _same_in_all_orders(name: str, run: Callable[[Any], Any], x: Any, exact: bool = True) -> None:
    driver: Any = backend.of(T.device("cuda", 0)).driver
    want = leaves(run(x))
    try:
        for driver.order in ORDERS:
            for k, (got, wanted) in enumerate(zip(leaves(run(x.cuda())), want, strict=True)):
                label = f"{name} of {x.dtype}, {tuple(x.shape)}, result {k}"
                assert got.stride() == wanted.stride(), label
                if exact:
                    assert got.cpu().numpy().tobytes() == wanted.numpy().tobytes(), label
                else:
                    assert_same(got.detach().cpu(), wanted.detach(), label)
    finally:
        driver.order = ORDERS[0]


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.float16, T.int64, T.uint8])
@pytest.mark.parametrize("shape", [(2500,), (3, 1030), (5, 3)])
def test_the_bits_of_the_cpu(shape: tuple[int, ...], dtype: Any) -> None:
    x = _lies(shape, dtype)
    for name, run in ORDERED.items():
        if dtype.is_floating_point or name != "nanmedian":
            _same_in_all_orders(name, run, x)


@pytest.mark.parametrize("count", [4095, 4096, 9000])
def test_runs_of_what_is_not_zero(count: int) -> None:
    x = T.rand(count) > 0.5
    for mask in (x, T.zeros(count), T.ones(count), x.reshape(-1, 1).expand(-1, 2).contiguous()):
        _same_in_all_orders("nonzero", lambda m: m.nonzero(), mask)


@pytest.mark.parametrize("size", [1.0, 1e30])
@pytest.mark.parametrize("shape", [(600,), (300, 3)])
def test_recurrences_join_as_the_cpu_goes(shape: tuple[int, ...], size: float) -> None:
    """Also where products of factors leave the range of floats."""
    factor = size * (1 + T.randn(*shape, dtype=T.float64) / 20)
    factor.view(-1)[5::50] = 0

    def run(x: Any) -> Any:
        there = factor.to(x.device)
        return [_recurrence(x, there, dim=0, reverse=reverse) for reverse in (False, True)]

    _same_in_all_orders("recurrence", run, T.randn(*shape, dtype=T.float64), exact=False)


@pytest.mark.parametrize("dtype", [T.float32, T.float64])
@pytest.mark.parametrize("length", [33, 4096, 4097, 8200])
def test_rows_that_a_block_has_room_for_or_not(length: int, dtype: Any) -> None:
    x, g = T.randn(3, length, dtype=dtype), T.randn(3, length, dtype=dtype)

    def run(op: Callable[[Any], Any], x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        y = op(leaf)
        y.backward(g.to(x.device))
        return y, leaf.grad

    F = T.nn.functional
    rows: dict[str, Callable[[Any], Any]] = {
        "softmax": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(1),
        "layer_norm": lambda x: F.layer_norm(x, (length,)),
    }
    for name, op in rows.items():
        _same_in_all_orders(name, lambda x, op=op: run(op, x), x, exact=False)  # type: ignore[misc]


@pytest.mark.parametrize("shape, dim", [((3, 700), 1), ((2, 5000), 1), ((300, 40), 0), ((2, 200, 33), 1)])
def test_lanes_read_ahead(shape: tuple[int, ...], dim: int) -> None:
    """So many elements that a lane has some chunks of them and a rest; of every second one as well."""
    x = T.rand(*shape[:-1], shape[-1] * 2) + 0.5
    x[..., 5] = float("nan")
    for name, run in (
        ("sum", lambda x: x.sum(dim)),
        ("sum of float64", lambda x: x.double().sum(dim)),
        ("sum of float16", lambda x: x.half().sum(dim)),
        ("sum of int64", lambda x: x.nan_to_num().mul(9).long().sum(dim)),
        ("any", lambda x: (x > 1.4).any(dim)),
        ("softmax", lambda x: x.softmax(dim)),
    ):
        for part in (x[..., : shape[-1]], x[..., ::2]):
            _same_in_all_orders(name, run, part, exact=False)
