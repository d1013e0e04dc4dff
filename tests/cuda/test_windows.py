"""Convolutions, windows, bags and recurrent layers of more than a tile or a block, on an emulated device against the CPU."""

from collections.abc import Callable
from typing import Any

import pytest

from nbgrad.kernels.cuda.emulated import ORDERS
from nbgrad.memory import backend
from tests.compare import leaves
from tests.support import T

pytestmark = pytest.mark.emulated

F, nn = T.nn.functional, T.nn


def _same_in_all_orders(run: Callable[..., Any], *tensors: Any, within: float = 2e-4) -> None:
    """Results and gradients are the CPU's, and in each order of threads the same to the bit."""

    def computed(where: str) -> list[Any]:
        given = [t.to(where).detach() for t in tensors]
        given = [t.requires_grad_() if t.is_floating_point() else t for t in given]
        results = leaves(run(*given))
        total = sum((y * y.detach().cos()).sum() for y in results if y.requires_grad)
        grads = T.autograd.grad(total, [t for t in given if t.requires_grad], allow_unused=True)
        return [t.detach().cpu() for t in (*results, *grads) if t is not None]

    driver: Any = backend.of(T.device("cuda", 0)).driver
    want, bits = computed("cpu"), set()
    try:
        for driver.order in ORDERS:
            got = computed("cuda")
            for g, w in zip(got, want, strict=True):
                assert g.stride() == w.stride()
                T.testing.assert_close(g, w, rtol=within, atol=within)
            bits.add(b"".join(g.numpy().tobytes() for g in got))
    finally:
        driver.order = ORDERS[0]
    assert len(bits) == 1


CONVOLUTIONS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], int]] = {
    "few channels": ("conv2d", (2, 3, 11, 13), (5, 3, 3, 3), 1),
    "tiles": ("conv2d", (2, 9, 14, 13), (70, 9, 3, 3), 1),
    "depthwise": ("conv2d", (2, 6, 14, 13), (6, 1, 3, 3), 6),
    "groups": ("conv2d", (2, 6, 14, 13), (20, 3, 3, 2), 2),
    "volumes": ("conv3d", (2, 2, 7, 8, 6), (4, 2, 3, 2, 2), 1),
    "many pixels": ("conv1d", (20, 9, 140), (66, 9, 3), 1),
    "transposed": ("conv_transpose2d", (2, 10, 7, 6), (10, 9, 3, 3), 1),
    "transposed lines": ("conv_transpose1d", (2, 4, 9), (4, 2, 3), 1),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    op, shape, weights, groups = CONVOLUTIONS[name]
    bias = T.randn(weights[1] if "transpose" in op else weights[0])
    for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 2)):
        how = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        run = lambda x, w, b, how=how: getattr(F, op)(x, w, b, **how)  # noqa: E731
        _same_in_all_orders(run, T.randn(*shape), T.randn(*weights), bias)


def test_convolutions_of_other_dtypes_and_formats() -> None:
    x, w = T.randn(2, 9, 14, 13), T.randn(70, 9, 3, 3)
    _same_in_all_orders(lambda x, w: F.conv2d(x, w, padding=1), x.double(), w.double(), within=1e-9)
    _same_in_all_orders(lambda x, w: F.conv2d(x, w, padding=1).float(), x.half(), w.half(), within=0.2)
    last = T.channels_last
    _same_in_all_orders(lambda x, w: F.conv2d(x.to(memory_format=last), w, padding=1), x, w)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.max_pool2d(x, 2, dilation=3, ceil_mode=True),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.adaptive_avg_pool2d(x, (5, 1)),
        lambda x: F.adaptive_max_pool2d(x, (7, 4)),
        lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
        lambda x: F.interpolate(x, size=(9, 40), mode="bicubic", antialias=True),
        lambda x: x.tril(2) + x.mT.triu(-1).mT,
    ],
)
def test_windows(run: Callable[[Any], Any]) -> None:
    x = T.randn(2, 3, 21, 19)
    x[0, 0, 3, 4] = float("nan")
    x[0, 1, :6] = x[0, 1, 7]
    _same_in_all_orders(lambda x: T.nan_to_num(run(x)), x)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(mode: str) -> None:
    index = T.tensor([1, 4, 4, 9, 2, 0, 7, 4, 1])
    starts = T.tensor([0, 2, 2, 7])
    scale = T.randn(9) if mode == "sum" else None

    def run(weight: Any, *scales: Any) -> Any:
        where = weight.device
        each = scales[0] if scales else None
        return F.embedding_bag(
            index.to(where), weight, starts.to(where), mode=mode, per_sample_weights=each, padding_idx=2
        )

    given = [T.randn(10, 300)] + ([scale] if scale is not None else [])
    T.use_deterministic_algorithms(True)
    try:
        _same_in_all_orders(run, *given)
    finally:
        T.use_deterministic_algorithms(False)


LAYERS: dict[str, Callable[[bool], Any]] = {
    "lstm": lambda both: nn.LSTM(4, 6, 2, bidirectional=both),
    "lstm, projected": lambda both: nn.LSTM(4, 6, 2, bidirectional=both, proj_size=3),
    "gru": lambda both: nn.GRU(4, 6, 2, bidirectional=both),
    "rnn": lambda both: nn.RNN(4, 6, bidirectional=both, bias=False, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("packed", [False, True])
def test_recurrent_layers(name: str, packed: bool) -> None:
    """Also without what a gradient reads."""
    for both in (False, True):
        layer = LAYERS[name](both)

        def run(x: Any, *weights: Any, layer: Any = layer) -> Any:
            named = dict(zip(dict(layer.named_parameters()), weights, strict=True))
            pack = nn.utils.rnn.pack_padded_sequence
            given = pack(x, [5, 3, 2], enforce_sorted=False) if packed else x
            results, states = T.func.functional_call(layer, named, (given,))
            return (results.data if packed else results), states

        x, weights = T.randn(5, 3, 4), [p.detach() for p in layer.parameters()]
        _same_in_all_orders(run, x, *weights)
        with T.no_grad():
            want = leaves(run(x, *weights))
            for g, w in zip(leaves(run(x.cuda(), *[p.cuda() for p in weights])), want, strict=True):
                T.testing.assert_close(g.cpu(), w, rtol=1e-4, atol=1e-5)
