"""Calls of several launches that a device does again launch by launch: what they give, and what goes the long way."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nbgrad.base.source import sources
from nbgrad.memory import backend
from tests.cuda.on_device import DEVICE
from tests.support import T

pytestmark = pytest.mark.emulated

F = T.nn.functional
ONE: dict[str, Callable[[Any], Any]] = {
    "var": lambda x: x.view(3, 2, 2).var((0, 2)),
    "logsumexp": lambda x: T.logsumexp(x.view(3, 2, 2), (0, 2)),
    "sum": lambda x: T.sum(x, 1, dtype=T.float64),
    "aminmax": lambda x: T.aminmax(x, dim=1),
    "diff": lambda x: T.diff(x, n=2),
    "normalize": lambda x: F.normalize(x),
    "pad": lambda x: F.pad(x, (1, 2), mode="reflect"),
    "quantile": lambda x: T.quantile(x, 0.3, dim=1, interpolation="lower"),
    "split": lambda x: T.split_with_sizes_copy(x, [1, 3], 1),
    "unravel_index": lambda x: T.unravel_index(x.argsort(1), (2, 3)),
    "nanmean": lambda x: T.nanmean(x, 0),
    "turned": lambda x: T.diff(x.T, n=2),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "cosine_similarity": lambda x, y: T.cosine_similarity(x, y),
    "cdist": lambda x, y: T.cdist(x, y),
    "slice_scatter": lambda x, y: x.slice_scatter(y[:, :2], 1, 1, 3),
    "pairwise_distance": lambda x, y: F.pairwise_distance(x, y, p=1.0),
    "isclose": lambda x, y: T.isclose(x, y, rtol=0.5),
}


def _given(seed: int) -> Any:
    return T.tensor(np.random.default_rng(seed).random((3, 4), np.float32))


def _same(got: Any, want: Any) -> None:
    got, want = [list(r) if isinstance(r, tuple) else [r] for r in (got, want)]
    for a, b in zip(got, want, strict=True):
        assert a.dtype is b.dtype and a.stride() == b.stride() and not a.requires_grad
        assert T.allclose(a.cpu(), b, equal_nan=True)


def _replays() -> int:
    return len(sources("replay"))


@pytest.mark.parametrize("name", ONE)
def test_of_one_tensor(name: str) -> None:
    before = _replays()
    kept = []
    for seed in range(5):  # each in memory of its own
        x = _given(seed)
        kept.append((ONE[name](x.to(DEVICE)), ONE[name](x)))
    assert _replays() > before
    for got, want in kept:
        _same(got, want)


@pytest.mark.parametrize("name", TWO)
def test_of_two_of_which_one_may_be_given_twice(name: str) -> None:
    before = _replays()
    x = _given(0).to(DEVICE)
    for seed in range(5):
        y = _given(seed)
        other = x if seed < 2 else y.to(DEVICE)
        _same(TWO[name](x, other), TWO[name](x.cpu(), other.cpu()))
    assert _replays() > before


def test_what_leaves_the_device_goes_the_long_way() -> None:
    for given in (_given(0), T.empty(0)):
        x = given.to(DEVICE)
        for _ in range(4):
            assert T.equal(x.cpu(), given) and x.to("cpu", T.float64).device.type == "cpu"


def test_what_is_wrong_is_refused_after_that_too() -> None:
    x, y = _given(0).to(DEVICE), _given(1).to(DEVICE)
    for _ in range(4):
        T.cdist(x, y)
        T.diff(x, 1)
        T.sum(x, 1, dtype=T.float64)
        for call, words in (
            (lambda: T.cdist(x, y, p=-1.0), "cdist only supports non-negative p values"),
            (lambda: T.cdist(x, y[:, :2]), "X1 and X2 must have the same number of columns"),
            (lambda: T.cdist(x, y.cpu()), "Expected all tensors to be on the same device"),
            (lambda: T.diff(x, True), "must be int, not bool"),
            (lambda: T.diff(x, -1), "order must be non-negative"),
            (lambda: T.sum(x, 2, dtype=T.float64), "Dimension out of range"),
        ):
            with pytest.raises((RuntimeError, TypeError, IndexError), match=words):
                call()


def test_a_record_is_left_where_one_is_asked_for() -> None:
    x, y = _given(0).to(DEVICE), _given(1).to(DEVICE)
    w = _given(2).to(DEVICE).requires_grad_()
    for call in (T.cdist, lambda x, y: T.mean(x, 0, dtype=T.float64), lambda x, y: T.logsumexp(x, (0, 1))):
        for _ in range(4):
            assert not call(x, y).requires_grad
            got = call(w, y)
            assert got.requires_grad
            (grad,) = T.autograd.grad(got.sum(), w)
            assert grad.shape == w.shape and bool(T.isfinite(grad).all())
            with T.no_grad():
                assert not call(w, y).requires_grad
            with T.inference_mode():
                assert call(x, y).is_inference()


def test_what_warns_goes_on_to_warn() -> None:
    x = _given(0)[:1].to(DEVICE)
    for _ in range(4):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            x.var(0)
        assert ["degrees of freedom" in str(w.message) for w in told] == [True]


def test_nothing_is_drawn_or_written_to_be_noted() -> None:
    x = _given(0).to(DEVICE)
    running, spread = T.zeros(4, device=DEVICE), T.ones(4, device=DEVICE)
    T.manual_seed(0)
    drawn = [T.rrelu(x - 0.5, training=True).cpu() for _ in range(5)]
    for _ in range(5):
        F.batch_norm(x, running, spread, training=True, momentum=0.5)
    out = T.empty(3, 3, device=DEVICE)
    versions = []
    for _ in range(4):
        T.diff(x, out=out)
        versions.append(out._version)
    assert [v - versions[0] for v in versions] == [k * (versions[1] - versions[0]) for k in range(4)]
    assert T.allclose(running.cpu(), x.cpu().mean(0) * (1 - 0.5**5))
    T.manual_seed(0)
    again = [T.rrelu(x - 0.5, training=True).cpu() for _ in range(5)]
    assert all(T.equal(a, b) for a, b in zip(drawn, again)) and not T.equal(drawn[0], drawn[1])


def test_modes_are_followed() -> None:
    x, y = _given(0).to(DEVICE), _given(1).to(DEVICE)
    for _ in range(4):
        want = T.cdist(x, y)
    T.use_deterministic_algorithms(True)
    try:
        assert T.equal(T.cdist(x, y), want)
    finally:
        T.use_deterministic_algorithms(False)
    with T.autocast("cuda"):
        assert T.cdist(x.half(), y.half()).dtype is T.float32
    assert T.equal(T.func.vmap(T.cdist)(x[None], y[None])[0], want)


def test_nothing_is_kept_of_what_was_given() -> None:
    import gc
    import weakref

    x = _given(3).to(DEVICE)
    for _ in range(3):
        T.cosine_similarity(x, x.flip(0))
        T.sum(x, 0, dtype=T.float64)
    seen = weakref.ref(x)
    del x
    gc.collect()
    assert seen() is None


def test_other_threads_and_streams() -> None:
    from threading import Thread

    x, y = _given(0).to(DEVICE), _given(1).to(DEVICE)
    for _ in range(3):
        want = T.cdist(x, y)
    found = []

    def work() -> None:
        with T.cuda.stream(T.cuda.Stream()):
            found.append(T.cdist(x, y))
            T.cuda.synchronize()

    threads = [Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 2 and all(T.equal(f, want) for f in found)
    assert backend.of(DEVICE).driver.function
