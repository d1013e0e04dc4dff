"""The random streams: by literals from PyTorch, and against torch where it is installed."""

import copy
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.memory.dtypes import bool_, float16, float32, float64, int32, int64
from nbgrad.ops.make import generator as R
from tests.support import T

SIZES = [0, 1, 2, 5, 15, 16, 17, 31, 100, 1000, 16384, 16385, 50_001]
SEEDS = [0, 1, 42, 2**32 - 1, 2**32 + 5, 2**64 - 1, -1, -12345]


def generator(seed: int = 0) -> R.Generator:
    return R.Generator().manual_seed(seed)


def assert_normals_agree(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> None:
    tolerance = 2.4e-7 if ours.dtype == np.float32 else 1e-15
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


def test_a_seed_is_kept_until_words_are_asked_for() -> None:
    """624 of them take a loop, which programs that seed a generator for each draw would run twice each time."""
    gen = generator(5)
    assert gen._words is None
    state = gen.state()
    assert gen._words is not None
    first = T.rand(3, generator=gen).tolist()
    assert gen.manual_seed(5)._words is None
    assert (
        T.rand(3, generator=gen).tolist()
        == T.rand(3, generator=R.Generator().restore(state)).tolist()
        == first
    )
    assert T.rand(0, generator=gen.manual_seed(5)).shape == (0,)
    assert T.rand(3, generator=gen).tolist() == first


# ---------------------------------------------------------------- literals, all from torch 2.13 with seed 0


def test_uniform() -> None:
    expected = [0.49625658988952637, 0.7682217955589294, 0.08847743272781372]
    assert R.uniform(generator(), 3, float32).tolist() == expected
    expected = [0.9700530018065531, 0.707819864399788, 0.45938294312745087]
    assert R.uniform(generator(), 3, float64).tolist() == expected
    expected = [0.7500477016258977, 0.5140378779598092, 0.2904446488147058]
    assert R.uniform(generator(), 3, float64, -0.123, 0.777).tolist() == expected


def test_normal() -> None:
    g = generator()
    first, then = (
        R.normal(g, 3, float32),
        R.normal(g, 2, float32),
    )  # the second call starts with a number left over
    assert first.tolist() == [1.5409960746765137, -0.293428897857666, -2.1787893772125244]
    assert then.tolist() == [0.5684312582015991, -1.0845223665237427]
    assert (
        R.normal(g.manual_seed(0), 1, float32).tolist() == first[:1].tolist()
    )  # a seed forgets what is left over
    expected = [-1.1258398294448853, -1.6959311962127686, 0.46809640526771545, 0.9318265914916992]
    assert_normals_agree(R.normal(generator(), 17, float32)[[0, 1, 8, 16]], np.array(expected))
    expected = [-2.310411800234176, -0.3732508612577643]
    assert_normals_agree(R.normal(generator(), 16, float64)[:2], np.array(expected))


def test_randint() -> None:
    assert R.randint(generator(), 0, 10, 8).tolist() == [4, 9, 3, 0, 3, 9, 7, 3]
    assert R.randint(generator(), -5, 2**40, 3).tolist() == [741234585336, 506077272957, 291397093751]
    assert R.randint(generator(), 0, 10, 8, float32).dtype == np.float32


def test_randperm() -> None:
    assert R.randperm(generator(), 10).tolist() == [4, 1, 7, 5, 3, 9, 0, 8, 6, 2]
    permutation = R.randperm(generator(), 2000)  # above the size where swaps are applied one by one
    assert permutation[:5].tolist() == [44, 1, 1723, 1073, 1039]
    assert sorted(permutation.tolist()) == list(range(2000))


def test_bernoulli() -> None:
    assert R.bernoulli(generator(), 0.3, 10).tolist() == [False] * 6 + [True, False, False, True]
    p = np.full((2, 5), 0.3, np.float32)
    assert R.bernoulli(generator(), p).tolist() == [[False, False, True, True, False], [False] * 5]
    assert R.bernoulli(generator(), 1.0, 5).all()
    assert not R.bernoulli(generator(), 0.0, 5).any()


# ---------------------------------------------------------------- the generator


def test_seeds() -> None:
    g = R.Generator()
    assert g.initial_seed() == 67280421310721
    assert g.manual_seed(-5).initial_seed() == 2**64 - 5
    assert g.manual_seed(np.int64(4)).initial_seed() == 4
    for bad in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            g.manual_seed(bad)
    for word, wrong in (("float", 1.5), ("bool", True), ("str", "1"), ("NoneType", None)):
        with pytest.raises(RuntimeError, match=f"manual_seed expected a long, but got {word}"):
            g.manual_seed(wrong)
    assert g.initial_seed() == 4
    drawn = {g.seed() for _ in range(3)}
    assert len(drawn) == 3
    assert max(drawn) < 2**53
    with pytest.raises(RuntimeError, match="cuda"):
        R.Generator("cuda")


def test_the_default_generator() -> None:
    state = R.default_generator.state()
    try:
        assert R.manual_seed(3) is R.default_generator
        assert R.initial_seed() == 3
        assert R.seed() == R.initial_seed()
    finally:
        R.default_generator.restore(state)


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 2000])
def test_a_state_brings_the_stream_back(drawn: int) -> None:
    g = generator(7)
    R.uniform(g, drawn, float32)
    R.normal(g, 1, float32)  # leaves a number for the next call
    state = g.state()
    others = [
        R.Generator().restore(state),
        g.clone_state(),
        copy.deepcopy(g),
        pickle.loads(pickle.dumps(g)),
    ]
    expected = [R.normal(g, 3, float64), R.uniform(g, 3, float64)]
    for other in others:
        assert other.initial_seed() == 7
        np.testing.assert_array_equal([R.normal(other, 3, float64), R.uniform(other, 3, float64)], expected)


def test_bad_states() -> None:
    g = generator()
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        g.restore(np.zeros(5056))
    with pytest.raises(RuntimeError, match="of size 5056 but found the input RNG state size to be 3"):
        g.restore(np.zeros(3, np.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        g.restore(np.zeros(5056, np.uint8))


def test_calls_from_threads_share_the_stream_without_overlap() -> None:
    g = generator()
    chunks: list[list[float]] = []
    threads = [
        threading.Thread(
            target=lambda: [chunks.append(R.uniform(g, 40_000, float32).tolist()) for _ in range(5)]
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = R.uniform(generator(), 20 * 40_000, float32).reshape(20, -1).tolist()
    assert sorted(chunks) == sorted(whole)


def test_errors() -> None:
    g = generator()
    for call, error, text in [
        (
            lambda: R.uniform(g, 3, int64),
            NotImplementedError,
            "\"check_uniform_bounds\" not implemented for 'Long'",
        ),
        (
            lambda: R.normal(g, 3, int64),
            NotImplementedError,
            "\"normal_kernel_cpu\" not implemented for 'Long'",
        ),
        (lambda: R.normal(g, 3, float32, 0, -1), RuntimeError, "normal expects std >= 0.0, but found std -1"),
        (
            lambda: R.bernoulli(g, 1.5, 3),
            RuntimeError,
            r"bernoulli_ expects p to be in [0, 1], but got p=1.5",
        ),
        (lambda: R.bernoulli(g, 0.5), TypeError, "needs the count"),
        (lambda: R.randperm(g, -1), RuntimeError, "Trying to create tensor with negative dimension -1: [-1]"),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert text in str(caught.value)


# ---------------------------------------------------------------- against torch


def pair(torch: ModuleType, seed: int) -> tuple[R.Generator, Any]:
    return generator(seed), torch.Generator().manual_seed(seed)


@pytest.mark.oracle
@pytest.mark.parametrize("seed", SEEDS)
def test_streams_match_torch(torch: ModuleType, seed: int) -> None:
    """All samplers by turns on one generator, so that each must leave the stream where PyTorch leaves it."""
    g, t = pair(torch, seed)
    p = np.random.default_rng(0).random(50_001)
    for n in SIZES:
        for d in (float32, float64):
            dtype = getattr(torch, d.name)
            np.testing.assert_array_equal(R.uniform(g, n, d), torch.rand(n, dtype=dtype, generator=t).numpy())
            assert_normals_agree(R.normal(g, n, d), torch.randn(n, dtype=dtype, generator=t).numpy())
            for low, high in ((-0.123, 0.777), (3.0, 1e5), (-1.0, 1.0), (-1e-3, 7.0)):
                theirs = torch.empty(n, dtype=dtype).uniform_(low, high, generator=t).numpy()
                np.testing.assert_array_equal(R.uniform(g, n, d, low, high), theirs)
            theirs = torch.empty(n, dtype=dtype).normal_(-3.5, 0.7, generator=t).numpy()
            ours = R.normal(g, n, d, -3.5, 0.7)
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=np.finfo(d.np).eps * 6)
            theirs = torch.bernoulli(torch.from_numpy(p[:n].astype(d.np)), generator=t).numpy()
            np.testing.assert_array_equal(R.bernoulli(g, p[:n].astype(d.np)), theirs)
        np.testing.assert_array_equal(R.randperm(g, n), torch.randperm(n, generator=t).numpy())
        for low, high in (
            (0, 10),
            (-7, 2**28 - 8),
            (-8, 2**28 - 8),
            (0, 2**40),
            (-(2**63), 2**63 - 1),
            (5, 6),
        ):
            theirs = torch.randint(low, high, (n,), generator=t).numpy()
            np.testing.assert_array_equal(R.randint(g, low, high, n), theirs)
        for probability in (0.3, 0.5, 1.0, 0.0, 1e-9):
            theirs = torch.empty(n).bernoulli_(probability, generator=t).numpy()
            np.testing.assert_array_equal(R.bernoulli(g, probability, n), theirs)


@pytest.mark.oracle
def test_a_million_matches_torch(torch: ModuleType) -> None:
    g, t = pair(torch, 9)
    n = 1_000_000
    np.testing.assert_array_equal(R.uniform(g, n, float32), torch.rand(n, generator=t).numpy())
    assert_normals_agree(R.normal(g, n, float32), torch.randn(n, generator=t).numpy())
    assert_normals_agree(R.normal(g, n, float64), torch.randn(n, dtype=torch.float64, generator=t).numpy())
    np.testing.assert_array_equal(R.randperm(g, n), torch.randperm(n, generator=t).numpy())


@pytest.mark.oracle
@pytest.mark.parametrize("seed", SEEDS)
def test_few_normals_match_torch_to_the_bit(torch: ModuleType, seed: int) -> None:
    g, t = pair(torch, seed)
    for n in (1, 2, 3, 15, 14, 20, 1):
        ours, theirs = R.normal(g, n, float32), torch.randn(n, generator=t).numpy()
        if n < 16:
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.oracle
def test_randint_dtypes_match_torch(torch: ModuleType) -> None:
    g, t = pair(torch, 2)
    for d, low, high in ((int32, -50, 2**31), (float32, -3, 2**20), (float64, 0, 2**50), (bool_, 0, 2)):
        theirs = torch.randint(low, high, (100,), dtype=getattr(torch, d.name), generator=t).numpy()
        np.testing.assert_array_equal(R.randint(g, low, high, 100, d), theirs)


@pytest.mark.oracle
def test_states_are_torchs(torch: ModuleType) -> None:
    g, t = pair(torch, 11)
    for draw in (1, 16, 623, 5):
        R.normal(g, draw, float32)
        torch.randn(draw, generator=t)
        np.testing.assert_array_equal(g.state(), t.get_state().numpy())
        taken = R.Generator().restore(t.get_state().numpy())
        given = torch.Generator().set_state(torch.from_numpy(g.state()))
        np.testing.assert_array_equal(R.normal(taken, 7, float32), torch.randn(7, generator=given).numpy())


@pytest.mark.oracle
@pytest.mark.filterwarnings("always")
def test_errors_match_torch(torch: ModuleType) -> None:
    def outcome(call: Callable[[], Any]) -> tuple[str, str]:
        try:
            call()
        except Exception as error:
            return type(error).__name__, str(error)
        return "none", ""

    g = generator()
    for d, low, high in (
        (int64, 5, 5),
        (int64, 5, 3),
        (int32, 0, 2**40),
        (int32, -(2**40), 2),
        (bool_, 0, 3),
        (float32, 0, 2**24 + 1),
    ):
        ours = outcome(lambda d=d, low=low, high=high: R.randint(g, low, high, 3, d))
        dtype = getattr(torch, d.name)
        assert ours == outcome(lambda t=dtype, low=low, high=high: torch.randint(low, high, (3,), dtype=t))
    for low, high in ((2.0, 1.0), (-3e38, 3e38), (0.0, float("inf")), (0.0, 1e39), (float("nan"), 1.0)):
        ours = outcome(lambda low=low, high=high: R.uniform(g, 3, float32, low, high))
        assert ours == outcome(lambda low=low, high=high: torch.empty(3).uniform_(low, high))
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]. Due to precision"):
        R.randint(g, 0, 2**25, 3, float32)
    for bad in (-0.5, 1.5, float("nan")):
        ours = outcome(lambda p=bad: R.bernoulli(g, p, 3))
        assert ours == outcome(lambda p=bad: torch.empty(3).bernoulli_(p))
        ours = outcome(lambda p=bad: R.bernoulli(g, np.array([p])))
        assert ours == outcome(lambda p=bad: torch.bernoulli(torch.tensor([p])))


def test_the_end_of_a_range_is_never_drawn() -> None:
    """What rounds up to it is the beginning."""
    drawn = R.uniform(generator(), 1000, float32, 1.0, 1.0 + 2**-20)
    assert drawn.min() == 1.0 and drawn.max() < 1.0 + 2**-20
    assert R.uniform(generator(), 20_000, float16).max() < 1.0


def test_few_numbers_are_of_the_same_stream() -> None:
    """Calls that give sizes alone have a short way; its numbers are those of any other call."""
    T.manual_seed(3)
    g, turned = T.default_generator, T.ones(8, 4).t()
    told = [T.rand(4, generator=g), T.randn(3, dtype=float32), T.rand(2, 2, dtype=float32)]
    told += [T.randn(n, generator=g) for n in (16, 40)] + [T.randn_like(turned, generator=g)]
    told += [T.normal(mean, 2.0, (n,), generator=g) for mean in (0, 1.5) for n in (3, 40)]
    for _ in range(3):
        T.manual_seed(3)
        drawn = [T.rand(4), T.randn((3,)), T.rand(2, 2)]
        drawn += [T.randn(n) for n in (16, 40)] + [T.randn_like(turned)]
        drawn += [T.normal(mean, 2.0, size=(n,)) for mean in (0, 1.5) for n in (3, 40)]
        assert [t.tolist() for t in drawn] == [t.tolist() for t in told]


def test_what_was_made_before_is_not_shared() -> None:
    for make in (lambda: T.zeros(3), lambda: T.zeros((3,)), lambda: T.zeros_like(T.rand(3))):
        for _ in range(3):
            made = make()
            assert made.tolist() == [0.0] * 3
            made += 1
    with pytest.raises(TypeError):
        T.zeros(3.0)


def test_who_seeds_nothing_draws_other_numbers_each_time() -> None:
    code = "import nbgrad as t; print(t.initial_seed(), t.rand(2).tolist())"
    said = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in "ab"
    }
    assert len(said) == 2
