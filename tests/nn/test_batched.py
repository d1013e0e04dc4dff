"""Losses and norms inside of vmap: all examples at once, the same as one by one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbgrad.dispatch import transforms
from tests.compare import array
from tests.support import T

pytestmark = pytest.mark.fast
F = T.nn.functional
RNG = np.random.default_rng(4)


def normal(*shape: int) -> Any:
    return T.tensor(RNG.normal(size=shape))


X, W, B = normal(5, 3, 4), normal(5, 4), normal(5, 4)
CLASSES, ONE = T.tensor(RNG.integers(0, 4, (5, 3))), T.tensor([1, 0, 3, 2, 1])
PIXELS, PLACES = normal(5, 3, 4, 2), T.tensor(RNG.integers(0, 4, (5, 3, 2)))
OWN: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[int | None, ...]]] = {
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (X, W[0], B[0]), (0, None, None)),
    "layer_norm, own weights": (lambda x, w, b: F.layer_norm(x, (4,), w, b), (X[0], W, B), (None, 0, 0)),
    "layer_norm of a row": (lambda x, b: F.layer_norm(x, (4,), None, b), (X[:, 0], B), (0, 0)),
    "layer_norm over all": (lambda x, w: F.layer_norm(x, (3, 4), w), (X, X[0]), (0, None)),
    "rms_norm": (lambda x, w: F.rms_norm(x, (4,), w), (X, W), (0, 0)),
    "cross_entropy": (F.cross_entropy, (X, CLASSES), (0, 0)),
    "cross_entropy, one row": (F.cross_entropy, (X[:, 0], ONE), (0, 0)),
    "cross_entropy, one target": (F.cross_entropy, (X, CLASSES[0]), (0, None)),
    "cross_entropy, none": (lambda x, t: F.cross_entropy(x, t, reduction="none"), (X, CLASSES), (0, 0)),
    "cross_entropy, weights": (
        lambda x, t, w: F.cross_entropy(x, t, w.detach(), ignore_index=1),  # of which there is no gradient
        (X, CLASSES, W[0].abs()),
        (0, 0, None),
    ),
    "nll_loss": (lambda x, t: F.nll_loss(x, t, reduction="sum"), (X, CLASSES), (0, 0)),
    "nll_loss of pixels": (F.nll_loss, (PIXELS, PLACES), (0, 0)),
    "embedding": (lambda t, w: F.embedding(t, w), (CLASSES, W), (0, None)),
    "mse_loss": (F.mse_loss, (X, X[0]), (0, None)),
    "bce": (lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="sum"), (X, X.sigmoid()), (0, 0)),
    "huber_loss of numbers": (F.huber_loss, (X[:, 0, 0], X[:, 1, 1]), (0, 0)),
}


@pytest.mark.parametrize("name", OWN)
def test_all_examples_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fn, args, dims = OWN[name]
    floats = tuple(k for k, a in enumerate(args) if a.is_floating_point())

    def value_and_gradients(*args: Any) -> Any:
        given = T.func.grad(lambda *a: (fn(*a) * 1.3).exp().sum(), floats)(*args)
        return (fn(*args), *given)

    examples = [[a if d is None else a[k] for a, d in zip(args, dims)] for k in range(5)]
    alone = [value_and_gradients(*e) for e in examples]

    def refuse(*_: Any) -> None:
        raise AssertionError("one by one")

    monkeypatch.setattr(transforms, "_one_by_one", refuse)
    together = T.vmap(value_and_gradients, dims)(*args)
    for k, found in enumerate(zip(*alone)):
        np.testing.assert_allclose(array(together[k]), np.stack([array(f) for f in found]), 1e-10, 1e-12)
