"""How results of images and volumes lie whose channels lie last, beside PyTorch; and that their values are those of others."""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support import T

SHAPES = ((2, 3, 4, 5), (2, 4, 6, 6), (1, 3, 4, 4), (2, 1, 4, 4))
FORMATS = {4: "channels_last", 5: "channels_last_3d"}


def layouts(t: ModuleType, array: np.ndarray) -> Iterator[tuple[str, Any]]:
    last = getattr(t, FORMATS[array.ndim])
    twice = [t.tensor(np.concatenate([array, array], d)).to(memory_format=last) for d in (1, 2)]
    yield "last", t.tensor(array).to(memory_format=last)
    yield "part of the channels", twice[0][:, : array.shape[1]]
    yield "part of the rows", twice[1][:, :, : array.shape[2]]
    yield "in order", t.tensor(array)
    yield "turned", t.tensor(np.ascontiguousarray(array.swapaxes(-1, -2))).transpose(-1, -2)


def _weight(t: ModuleType, x: Any, *shape: int) -> Any:
    n = int(np.prod(shape))
    return (t.arange(n, dtype=x.dtype) / n - 0.5).reshape(shape)


def _conv(t: ModuleType, x: Any, **settings: Any) -> Any:
    inner = x.ndim - 2
    w = _weight(t, x, 4, x.shape[1], *(2,) * inner)
    return getattr(t.nn.functional, f"conv{inner}d")(x, w, **settings)


def _conv_of_weights_last(t: ModuleType, x: Any) -> Any:
    w = _weight(t, x, 4, x.shape[1], 2, 2).to(memory_format=t.channels_last)
    return t.nn.functional.conv2d(x, w)


def _transposed(t: ModuleType, x: Any) -> Any:
    inner = x.ndim - 2
    w = _weight(t, x, x.shape[1], 4, *(2,) * inner)
    return getattr(t.nn.functional, f"conv_transpose{inner}d")(x, w, stride=2)


def _normed(t: ModuleType, x: Any, training: bool) -> Any:
    ones, zeros = t.ones(x.shape[1], dtype=x.dtype), t.zeros(x.shape[1], dtype=x.dtype)
    return t.nn.functional.batch_norm(x, zeros, ones, ones + 1, zeros + 1, training)


BOTH: dict[str, Callable[[ModuleType, Any], Any]] = {
    "convolution": _conv,
    "strided convolution": lambda t, x: _conv(t, x, stride=2, padding=1),
    "transposed convolution": _transposed,
    "batch norm": lambda t, x: _normed(t, x, True),
    "batch norm, fixed": lambda t, x: _normed(t, x, False),
    "group norm": lambda t, x: t.nn.functional.group_norm(x, 1),
    "local response norm": lambda t, x: t.nn.functional.local_response_norm(x.contiguous(), 2),
    "nearest": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2),
    "area": lambda t, x: t.nn.functional.interpolate(x, size=2, mode="area"),
    "prelu": lambda t, x: t.nn.functional.prelu(x, t.full((x.shape[1],), 0.1, dtype=x.dtype)),
    "relu": lambda t, x: t.relu(x),
    "sum of both orders": lambda t, x: x * 2 + x.contiguous(),
    "join": lambda t, x: t.cat([x, x + 1], 1),
    "stack": lambda t, x: t.stack([x, x + 1], 2),
    "join of unlike": lambda t, x: t.cat([x, x.contiguous()], 2),
    "roll": lambda t, x: t.roll(x, (1, 2), (1, 2)),
    "zeros around": lambda t, x: t.nn.functional.pad(x, (1, 0, 2, 1)),
    "mean": lambda t, x: x.mean((2, 3), keepdim=True),
}
OF_IMAGES: dict[str, Callable[[ModuleType, Any], Any]] = {
    "weights with channels last": _conv_of_weights_last,
    "max pool": lambda t, x: t.nn.functional.max_pool2d(x, 2),
    "places of max pool": lambda t, x: t.nn.functional.max_pool2d(x, 2, return_indices=True)[1],
    "average pool": lambda t, x: t.nn.functional.avg_pool2d(x, 2),
    "adaptive average": lambda t, x: t.nn.functional.adaptive_avg_pool2d(x, 2),
    "adaptive maximum": lambda t, x: t.nn.functional.adaptive_max_pool2d(x, 2),
    "bilinear": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear of fewer": lambda t, x: t.nn.functional.interpolate(x, size=3, mode="bilinear", antialias=True),
    "bicubic": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="bicubic"),
    "pixel shuffle": lambda t, x: t.nn.functional.pixel_shuffle(t.cat([x] * 4, 1), 2),
    "pixel unshuffle": lambda t, x: t.nn.functional.pixel_unshuffle(t.cat([t.cat([x, x], 2)] * 2, 3), 2),
    "channel shuffle": lambda t, x: t.nn.functional.channel_shuffle(t.cat([x, x], 1), 2),
    "mirror": lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1), mode="reflect"),
    "edges": lambda t, x: t.nn.functional.pad(x, (1, 1, 1, 1), mode="replicate"),
    "root mean square": lambda t, x: t.nn.functional.rms_norm(x, x.shape[3:]),
}
OF_VOLUMES: dict[str, Callable[[ModuleType, Any], Any]] = {
    "max pool": lambda t, x: t.nn.functional.max_pool3d(x, 2),
    "average pool": lambda t, x: t.nn.functional.avg_pool3d(x, 2),
    "trilinear": lambda t, x: t.nn.functional.interpolate(x, scale_factor=2, mode="trilinear"),
    "edges": lambda t, x: t.nn.functional.pad(x, (1,) * 6, mode="replicate"),
}
OPS = [
    *[(name, op, 4) for name, op in (BOTH | OF_IMAGES).items()],
    *[(name, op, 5) for name, op in (BOTH | OF_VOLUMES).items()],
]


def steps(y: Any) -> list[int]:
    """Strides of dimensions that have any."""
    return [s for s, n in zip(y.stride(), y.shape) if n != 1]


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "op", "ndim"), OPS, ids=[f"{name}, {ndim}d" for name, _, ndim in OPS])
def test_results_lie_as_in_pytorch(torch: ModuleType, name: str, op: Any, ndim: int) -> None:
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        array = rng.normal(size=(*shape, 4)[:ndim]).astype(np.float32)
        for (how, ours), (_, theirs) in zip(layouts(T, array), layouts(torch, array)):
            label = f"{name} of {shape}, {how}"
            x, z = ours.requires_grad_(), theirs.requires_grad_()
            y, want = op(T, x), op(torch, z)
            assert steps(y) == steps(want), label
            np.testing.assert_allclose(y.numpy(force=True), want.numpy(force=True), 1e-4, 1e-5, err_msg=label)
            if want.requires_grad:
                by = (rng.normal(size=tuple(want.shape)) + want.numpy(force=True)).astype(np.float32)
                (g,), (h,) = (
                    t.autograd.grad(out, at, t.tensor(by)) for t, out, at in ((T, y, x), (torch, want, z))
                )
                np.testing.assert_allclose(g.numpy(), h.numpy(), 1e-3, 1e-4, err_msg=f"gradient of {label}")


@pytest.mark.oracle
def test_a_network_with_channels_last_trains_as_in_pytorch(torch: ModuleType) -> None:
    """Parameters and their gradients keep their format, and so do results between layers."""
    found = []
    for t in (T, torch):
        t.manual_seed(3)
        net = t.nn.Sequential(
            t.nn.Conv2d(3, 8, 3, padding=1),
            t.nn.BatchNorm2d(8),
            t.nn.ReLU(),
            t.nn.MaxPool2d(2),
            t.nn.Conv2d(8, 4, 3),
        ).to(memory_format=t.channels_last)
        shown: list[Any] = []
        for layer in net:
            layer.register_forward_hook(lambda m, a, y, shown=shown: shown.append(y.stride()))
        x = t.tensor(np.random.default_rng(1).normal(size=(2, 3, 8, 8)).astype(np.float32))
        opt = t.optim.SGD(net.parameters(), 0.1, momentum=0.9)
        for _ in range(3):
            opt.zero_grad()
            net(x).square().mean().backward()
            opt.step()
        held = [
            (p.stride(), p.grad.stride(), opt.state[p]["momentum_buffer"].stride()) for p in net.parameters()
        ]
        found.append((shown, held, [p.numpy(force=True) for p in net.parameters()]))
    assert found[0][:2] == found[1][:2]
    for a, b in zip(found[0][2], found[1][2]):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)
