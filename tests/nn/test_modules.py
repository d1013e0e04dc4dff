"""Each module against PyTorch's under one seed: initial values, what it prints, results, gradients, both modes."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same
from tests.support import T

RNG = np.random.default_rng(0)
X, MIXED = RNG.normal(size=(6, 4)), RNG.normal(size=(3, 4, 5))
CLASSES, HALVES = RNG.integers(0, 4, 6), RNG.random((6, 4))
SIGNS = np.where(HALVES < 0.5, -1.0, 1.0)

Build = Callable[[Any], Any]
MODULES: dict[str, tuple[Build, tuple[np.ndarray, ...]]] = {
    "Linear": (lambda n: n.Linear(4, 3), (X,)),
    "Linear without bias": (lambda n: n.Linear(4, 3, bias=False), (X,)),
    "Bilinear": (lambda n: n.Bilinear(4, 4, 2), (X, HALVES)),
    "Identity": (lambda n: n.Identity(3, key=4), (X,)),
    "Embedding": (lambda n: n.Embedding(4, 20, padding_idx=1), (CLASSES,)),
    "Embedding bounded": (lambda n: n.Embedding(4, 20, max_norm=1.0, scale_grad_by_freq=True), (CLASSES,)),
    "LayerNorm": (lambda n: n.LayerNorm(4), (X,)),
    "LayerNorm over two": (lambda n: n.LayerNorm((4, 5), 0.1, bias=False), (MIXED,)),
    "LayerNorm plain": (lambda n: n.LayerNorm([4], elementwise_affine=False), (X,)),
    "RMSNorm": (lambda n: n.RMSNorm(4), (X,)),
    "RMSNorm plain": (lambda n: n.RMSNorm((4, 5), 0.1, False), (MIXED,)),
    "BatchNorm1d": (lambda n: n.BatchNorm1d(4), (X,)),
    "BatchNorm1d of lengths": (lambda n: n.BatchNorm1d(4, momentum=None), (MIXED,)),
    "BatchNorm1d plain": (lambda n: n.BatchNorm1d(4, affine=False, track_running_stats=False), (X,)),
    "BatchNorm1d without bias": (lambda n: n.BatchNorm1d(4, bias=False, eps=0.1), (X,)),
    "BatchNorm2d": (lambda n: n.BatchNorm2d(4), (MIXED[..., None],)),
    "GroupNorm": (lambda n: n.GroupNorm(2, 4), (MIXED,)),
    "GroupNorm plain": (lambda n: n.GroupNorm(4, 4, 0.1, False), (MIXED,)),
    "InstanceNorm1d": (lambda n: n.InstanceNorm1d(4), (MIXED,)),
    "InstanceNorm1d tracking": (lambda n: n.InstanceNorm1d(4, 0.1, 0.3, True, True), (MIXED,)),
    "TransformerEncoderLayer": (lambda n: n.TransformerEncoderLayer(5, 1, 8, 0.0, "gelu"), (MIXED,)),
    "RNNCell": (lambda n: n.RNNCell(4, 3, nonlinearity="relu"), (X,)),
    "GRUCell": (lambda n: n.GRUCell(4, 3, bias=False), (X,)),
    "Flatten": (lambda n: n.Flatten(), (MIXED,)),
    "Unflatten": (lambda n: n.Unflatten(1, (2, 2)), (X,)),
    "Dropout": (lambda n: n.Dropout(0.3), (X,)),
    "Softmax": (lambda n: n.Softmax(dim=1), (X,)),
    "Softmin": (lambda n: n.Softmin(dim=0), (X,)),
    "LogSoftmax": (lambda n: n.LogSoftmax(dim=-1), (X,)),
    "Softmax2d": (lambda n: n.Softmax2d(), (MIXED,)),
    "Sequential": (
        lambda n: n.Sequential(n.Linear(4, 8), n.BatchNorm1d(8), n.ReLU(), n.Dropout(), n.Linear(8, 2)),
        (X,),
    ),
}
for name in ("ReLU", "SiLU", "Mish", "SELU", "ReLU6", "ELU", "CELU", "LeakyReLU"):
    MODULES[name] = (lambda n, k=name: getattr(n, k)(), (X,))
    MODULES[f"{name} in place"] = (
        lambda n, k=name: n.Sequential(n.Linear(4, 4), getattr(n, k)(inplace=True)),
        (X,),
    )
for name in (
    "Tanh",
    "Sigmoid",
    "LogSigmoid",
    "Softsign",
    "Tanhshrink",
    "Hardsigmoid",
    "Hardswish",
    "GELU",
    "GLU",
):
    MODULES[name] = (lambda n, k=name: getattr(n, k)(), (X,))
for name in ("Softplus", "Softshrink", "Hardshrink", "Hardtanh", "PReLU"):
    MODULES[name] = (lambda n, k=name: getattr(n, k)(), (X,))
MODULES |= {
    "GELU approximate": (lambda n: n.GELU("tanh"), (X,)),
    "Threshold": (lambda n: n.Threshold(0.1, 20), (X,)),
    "Hardtanh bounded": (lambda n: n.Hardtanh(-0.3, 0.4), (X,)),
    "PReLU per channel": (lambda n: n.PReLU(4, 0.1), (X,)),
    "RReLU in evaluation": (lambda n: n.RReLU(0.1, 0.3).eval(), (X,)),
}
IMAGES, VOLUMES = RNG.normal(size=(2, 4, 6, 5)), RNG.normal(size=(2, 4, 3, 4, 3))
MODULES |= {
    "Conv1d": (lambda n: n.Conv1d(4, 3, 2), (MIXED,)),
    "Conv1d circular": (lambda n: n.Conv1d(4, 3, 3, padding=2, padding_mode="circular"), (MIXED,)),
    "Conv2d": (lambda n: n.Conv2d(4, 6, 3, 2, 1), (IMAGES,)),
    "Conv2d of groups": (lambda n: n.Conv2d(4, 6, (3, 2), 1, (1, 0), (1, 2), 2, False), (IMAGES,)),
    "Conv2d depthwise": (lambda n: n.Conv2d(4, 4, 3, padding="same", groups=4), (IMAGES,)),
    "Conv2d reflecting": (lambda n: n.Conv2d(4, 3, 3, padding=(1, 2), padding_mode="reflect"), (IMAGES,)),
    "Conv2d of the same size": (
        lambda n: n.Conv2d(4, 3, (2, 3), padding="same", padding_mode="replicate"),
        (IMAGES,),
    ),
    "Conv2d of one image": (lambda n: n.Conv2d(4, 3, 3), (IMAGES[0],)),
    "Conv3d": (lambda n: n.Conv3d(4, 2, 2, padding="valid"), (VOLUMES,)),
    "ConvTranspose1d": (lambda n: n.ConvTranspose1d(4, 3, 2, 2, 1, 1), (MIXED,)),
    "ConvTranspose2d": (lambda n: n.ConvTranspose2d(4, 6, 3, 2, 1, groups=2, dilation=2), (IMAGES,)),
    "ConvTranspose3d": (lambda n: n.ConvTranspose3d(4, 2, 2, bias=False), (VOLUMES,)),
    "Unfold": (lambda n: n.Unfold((2, 3), padding=1, stride=(1, 2)), (IMAGES,)),
    "Fold": (lambda n: n.Fold((3, 3), 2), (MIXED[:, :, :4],)),
    "A small network": (
        lambda n: n.Sequential(n.Conv2d(4, 8, 3), n.BatchNorm2d(8), n.ReLU(), n.Flatten(), n.Linear(96, 2)),
        (IMAGES,),
    ),
}
for reduction in ("mean", "sum", "none"):
    for name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "BCEWithLogitsLoss"):
        MODULES[f"{name} {reduction}"] = (
            lambda n, k=name, r=reduction: getattr(n, k)(reduction=r),
            (X, HALVES),
        )
    for name in ("CrossEntropyLoss", "NLLLoss"):
        MODULES[f"{name} {reduction}"] = (
            lambda n, k=name, r=reduction: getattr(n, k)(reduction=r),
            (X, CLASSES),
        )
MODULES |= {
    "CrossEntropyLoss smoothed": (lambda n: n.CrossEntropyLoss(label_smoothing=0.2), (X, CLASSES)),
    "CrossEntropyLoss of probabilities": (lambda n: n.CrossEntropyLoss(), (X, HALVES)),
    "BCELoss": (lambda n: n.BCELoss(), (HALVES, HALVES[::-1].copy())),
    "LinearCrossEntropyLoss": (lambda n: n.LinearCrossEntropyLoss(4, 5, bias=True), (X, CLASSES)),
    "LinearCrossEntropyLoss of several": (
        lambda n: n.LinearCrossEntropyLoss(4, 4, out_features=(3,), ignore_index=2),
        (X, np.stack([CLASSES] * 3, 1)),
    ),
    "KLDivLoss": (lambda n: n.KLDivLoss(reduction="batchmean"), (X, HALVES)),
    "GaussianNLLLoss": (lambda n: n.GaussianNLLLoss(full=True), (X, HALVES, HALVES + 0.1)),
    "PoissonNLLLoss": (lambda n: n.PoissonNLLLoss(), (X, HALVES)),
    "SoftMarginLoss": (lambda n: n.SoftMarginLoss(), (X, SIGNS)),
    "HingeEmbeddingLoss": (lambda n: n.HingeEmbeddingLoss(0.5), (X, SIGNS)),
    "CosineEmbeddingLoss": (lambda n: n.CosineEmbeddingLoss(0.1), (X, HALVES, SIGNS[:, 0])),
    "TripletMarginLoss": (lambda n: n.TripletMarginLoss(swap=True), (X, HALVES, SIGNS)),
    "MultiMarginLoss": (lambda n: n.MultiMarginLoss(2, 0.7), (X, CLASSES)),
    "MultiLabelSoftMarginLoss": (lambda n: n.MultiLabelSoftMarginLoss(), (X, HALVES)),
    "MarginRankingLoss": (lambda n: n.MarginRankingLoss(0.5), (X, HALVES, SIGNS)),
}
PLANES, LINES, VOLUMES = (RNG.normal(size=(2, 3, *size)) for size in ((7, 6), (9,), (5, 4, 6)))
POOLED = {1: LINES, 2: PLANES, 3: VOLUMES}
for dims, array in POOLED.items():
    for name, build in {
        "MaxPool": lambda n, d: getattr(n, f"MaxPool{d}d")(3, 2, 1, ceil_mode=True),
        "AvgPool": lambda n, d: getattr(n, f"AvgPool{d}d")(3, 2, 1, count_include_pad=False),
        "LPPool": lambda n, d: getattr(n, f"LPPool{d}d")(3, 2),
        "AdaptiveMaxPool": lambda n, d: getattr(n, f"AdaptiveMaxPool{d}d")(3),
        "AdaptiveAvgPool": lambda n, d: getattr(n, f"AdaptiveAvgPool{d}d")(3),
    }.items():
        MODULES[f"{name}{dims}d"] = (lambda n, b=build, d=dims: b(n, d), (array,))
MODULES |= {
    "Upsample": (lambda n: n.Upsample(scale_factor=(1.5, 2)), (PLANES,)),
    "Upsample linear": (lambda n: n.Upsample(13, mode="linear", align_corners=True), (LINES,)),
    "Upsample trilinear": (lambda n: n.Upsample((3, 7, 5), mode="trilinear"), (VOLUMES,)),
    "UpsamplingNearest2d": (lambda n: n.UpsamplingNearest2d(scale_factor=2), (PLANES,)),
    "UpsamplingBilinear2d": (lambda n: n.UpsamplingBilinear2d((4, 9)), (PLANES,)),
    "LocalResponseNorm": (lambda n: n.LocalResponseNorm(2, 0.1), (PLANES,)),
    "LocalResponseNorm of lines": (lambda n: n.LocalResponseNorm(3, 0.1, k=2), (LINES,)),
    "FractionalMaxPool2d": (lambda n: n.FractionalMaxPool2d(2, output_size=(3, 4)), (PLANES,)),
    "FractionalMaxPool3d": (lambda n: n.FractionalMaxPool3d(2, output_ratio=0.5), (VOLUMES,)),
    "MaxUnpool1d": (lambda n: n.MaxUnpool1d(2), (LINES, np.arange(9) * 2 + np.zeros((2, 3, 9), int))),
    "MaxUnpool2d": (
        lambda n: n.MaxUnpool2d((3, 2)),
        (PLANES, np.arange(42).reshape(7, 6) + np.zeros((2, 3, 7, 6), int)),
    ),
    "MaxUnpool3d": (
        lambda n: n.MaxUnpool3d(2),
        (VOLUMES, np.arange(120).reshape(5, 4, 6) + np.zeros(VOLUMES.shape, int)),
    ),
}


def run(t: ModuleType, name: str) -> list[Any]:
    build, arrays = MODULES[name]
    t.manual_seed(0)
    m = build(t.nn)
    found: list[Any] = [repr(m), list(m.state_dict()), [v.clone() for v in m.state_dict().values()]]
    inputs = [t.tensor(a.astype(np.float32) if a.dtype.kind == "f" else a) for a in arrays]
    inputs[0] = inputs[0].requires_grad_(inputs[0].is_floating_point())
    for mode in (True, False) if "evaluation" not in name else (False,):
        m.train(mode)
        m.zero_grad()
        inputs[0].grad = None
        out = m(*inputs)
        if out.requires_grad and name != "Identity":
            ramp = t.arange(out.numel()).reshape(out.shape) / out.numel() + 1
            (out * out * ramp).sum().backward()  # squares alone are nearly the same for whatever a norm gives
        found += [out, inputs[0].grad, [p.grad for p in m.parameters()], [b.clone() for b in m.buffers()]]
    return found


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODULES)
def test_module(torch: ModuleType, name: str) -> None:
    assert_same(run(T, name), run(torch, name), name, 4)


def script(t: ModuleType, steps: int) -> list[float]:
    """A classifier with batch normalisation and dropout, trained by plain gradient descent."""
    n, rng = t.nn, np.random.default_rng(1)
    t.manual_seed(0)
    model = n.Sequential(
        *(n.Linear(10, 32), n.BatchNorm1d(32), n.ReLU(), n.Dropout(0.2)),
        *(n.Linear(32, 16), n.Tanh(), n.LayerNorm(16), n.Linear(16, 3)),
    )
    x = t.tensor(rng.normal(size=(64, 10)).astype(np.float32))
    y = t.tensor(rng.integers(0, 3, 64))
    losses, criterion = [], n.CrossEntropyLoss()
    for _ in range(steps):
        loss = criterion(model(x), y)
        model.zero_grad()
        loss.backward()
        n.utils.clip_grad_norm_(model.parameters(), 1.0)
        with t.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
        losses.append(loss.item())
    model.eval()
    return [*losses, criterion(model(x), y).item()]


def test_a_script_learns() -> None:
    losses = script(T, 40)
    assert losses[-1] < 0.7 * losses[0]


@pytest.mark.oracle
def test_the_same_script_gives_the_same_losses(torch: ModuleType) -> None:
    np.testing.assert_allclose(script(T, 100), script(torch, 100), atol=1e-5)
