"""What is drawn into tensors and of tensors: from one seed the same as torch draws, and the stream left where torch leaves it."""

import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import array
from tests.support import T

# Where a logarithm or an exponential of float64 is the C library's in PyTorch, the last bit may differ.
EXACT = (
    "normal_(1, 2)",
    "uniform_(-1, 3)",
    "random_()",
    "random_(7)",
    "random_(-3, 9)",
    "bernoulli_(0.3)",
    "bernoulli_(M.linspace(0, 1, {n}))",
    "geometric_(0.3)",
)
ROUNDED = ("exponential_(2.0)", "cauchy_(1, 2)", "log_normal_(0, 0.5)")
OF_TENSORS = (
    "M.rand_like(x)",
    "M.randn_like(x)",
    "M.bernoulli(x + 0.3)",
    "M.bernoulli(x, 0.3)",
    "M.normal(x, 2.0)",
    "M.normal(1.0, x + 2)",
    "M.normal(x, x + 1)",
    "M.normal(0.0, 1.0, (3, {n}))",
    "M.multinomial(x + 1, 1)",
    "M.multinomial(M.arange({n}, dtype=x.dtype) + 1, 3, True)",
    "M.multinomial(M.rand(3, {n}), {n} // 2)",
)
LAID_OUT = (
    "M.zeros(4, 5).t().normal_()",
    "M.zeros(4, 5).t().uniform_()",
    "M.zeros(4, 6)[:, ::2].normal_()",
    "M.zeros(5, dtype=M.int64).random_(-2**63, None)",
    "M.empty(3, 2).t().bernoulli_(M.arange(6.0).reshape(2, 3) / 5)",
    "M.bernoulli((M.arange(6.0).reshape(2, 3) / 5).t())",
    "M.dropout_(M.ones(50), 0.3, True)",
    "M.feature_dropout(M.ones(5, 4, 3), 0.3, True)",
    "M.feature_dropout_(M.ones(5, 4, 3), 0.3, True)",
    "M.feature_alpha_dropout_(M.ones(5, 4, 3), 0.3, True)",
)
NOISE = (
    "dropout(M.ones(50), 0.3)",
    "dropout(M.ones(50), 1.0)",
    "alpha_dropout(M.ones(50), 0.3, True)",
    "feature_alpha_dropout(M.ones(5, 4, 3), 0.3, True)",
    "dropout1d(M.ones(5, 4, 3), 0.3)",
    "dropout1d(M.ones(4, 3), 0.3)",
    "dropout2d(M.ones(5, 4, 3, 2), 0.3)",
    "dropout3d(M.ones(5, 4, 3, 2, 2), 0.3)",
    "dropout3d(M.ones(4, 3, 2, 2), 0.3)",
)


def drawn(M: ModuleType, text: str, x: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """What an expression draws, and what follows in the stream."""
    M.manual_seed(5)
    return array(eval(text, {"M": M, "x": x})), array(M.rand(3))


@pytest.mark.oracle
@pytest.mark.parametrize("n", [2, 16, 17, 1000])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_draws_into_floats(torch: ModuleType, n: int, dtype: str) -> None:
    for call in (*EXACT, *ROUNDED):
        text = f"M.zeros({n}, dtype=M.{dtype}).{call.format(n=n)}"
        (ours, then), (theirs, next_) = drawn(T, text), drawn(torch, text)
        assert ours.dtype == theirs.dtype, text
        np.testing.assert_allclose(ours, theirs, 0 if call in EXACT else 4e-16, err_msg=text)
        np.testing.assert_array_equal(then, next_, text)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "int8", "uint8", "bool"])
def test_draws_into_integers(torch: ModuleType, dtype: str) -> None:
    for call in ("random_()", "random_(2)", "bernoulli_(0.3)"):
        text = f"M.zeros(50, dtype=M.{dtype}).{call}"
        for ours, theirs in zip(drawn(T, text), drawn(torch, text), strict=True):
            np.testing.assert_array_equal(ours, theirs, text)


@pytest.mark.oracle
@pytest.mark.parametrize("n", [6, 16, 17, 200])
def test_draws_of_tensors(torch: ModuleType, n: int) -> None:
    for text in [t.format(n=n) for t in (*OF_TENSORS, *LAID_OUT, *(f"M.nn.functional.{f}" for f in NOISE))]:
        for ours, theirs in zip(drawn(T, text, T.zeros(n)), drawn(torch, text, torch.zeros(n)), strict=True):
            np.testing.assert_array_equal(ours, theirs, text)


@pytest.mark.oracle
def test_nodes_of_draws(torch: ModuleType) -> None:
    """A draw is a node whose gradient is zero."""
    texts = [
        f"(x * 1).{call}" for call in (*EXACT[:6], *ROUNDED, "geometric_(0.3)", "bernoulli_(x.detach())")
    ]
    texts += [t for t in OF_TENSORS[2:7] if "(x, 0.3)" not in t]
    for text in texts:
        found = []
        for M in (T, torch):
            x = M.full((4,), 0.25, requires_grad=True)
            y = eval(text, {"M": M, "x": x})
            (slope,) = M.autograd.grad(y.sum(), x, allow_unused=True)
            found.append((y.grad_fn.name(), None if slope is None else array(slope).tolist()))
        assert found[0] == found[1], text


def test_any_number_of_threads_draws_the_same() -> None:
    threads = T.get_num_threads()
    found = []
    try:
        for count in (1, 2, 5):
            T.set_num_threads(count)
            T.manual_seed(1)
            found.append(
                [
                    T.rand(70_001),
                    T.randn(70_001),
                    T.randint(0, 9, (70_001,)),
                    T.randn(70_001, dtype=T.float64),
                ]
            )
    finally:
        T.set_num_threads(threads)
    for others in found[1:]:
        assert all(T.equal(a, b) for a, b in zip(found[0], others, strict=True))


def test_fork_rng_leaves_the_stream_as_it_was() -> None:
    T.manual_seed(3)
    state = T.get_rng_state()
    with T.random.fork_rng():
        inside = T.rand(4)
    assert T.equal(T.rand(4), inside)
    T.set_rng_state(state)
    assert T.equal(T.rand(4), inside)
    with T.random.fork_rng(enabled=False):
        T.rand(4)
    assert not T.equal(T.get_rng_state(), state)
    assert T.random.initial_seed() == 3


def test_threads_that_draw_share_the_stream() -> None:
    T.manual_seed(0)
    whole = sorted(T.randn(5 * 32).tolist())
    T.manual_seed(0)
    found: list[float] = []
    workers = [threading.Thread(target=lambda: found.extend(T.randn(32).tolist())) for _ in range(5)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert sorted(found) == whole


def test_the_shuffle_for_many() -> None:
    """From 2**32 / 20 numbers on PyTorch shuffles in another way; its kernel is the same for few."""
    from nbgrad.ops.make import generator as R

    g = R.Generator().manual_seed(0)
    out = np.empty(1000, np.int64)
    for start in (0, 500):
        R._launch("permutation_many", 500, 0, out.view(np.uint8), *g.take(1000), start, 1000)
    assert sorted(out.tolist()) == list(range(1000))
    # By hand: i goes to a place up to its own, drawn of two words
    words = np.random.RandomState(0).randint(0, 2**32, 2000, np.uint64)
    expected = list(range(1000))
    for k in range(1000):
        at = int(words[2 * k] << np.uint64(32) | words[2 * k + 1]) % (k + 1)
        expected[k] = expected[at]
        expected[at] = k
    assert out.tolist() == expected


RATES = [0.0, 0.3, 3.0, 9.9, 10.0, 75.0, 3000.0]
TRIALS = [
    (0.0, 0.5),
    (5.0, 0.3),
    (9.0, 0.0),
    (9.0, 1.0),
    (40.0, 0.5),
    (100.0, 0.8),
    (1000.0, 0.999),
    (7.0, 0.9),
]


def counts(module: ModuleType, dtype: str) -> Any:
    d = getattr(module, dtype)
    module.manual_seed(5)
    count, chance = (module.tensor([t[k] for t in TRIALS], dtype=d) for k in (0, 1))
    events = module.poisson(module.tensor(RATES, dtype=d).expand(50, -1))
    wins = module.binomial(count.expand(50, -1), chance)
    return events.tolist(), wins.tolist(), module.rand(1).item()


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_counts_are_pytorchs(torch: ModuleType, dtype: str) -> None:
    """And they take as much of the stream."""
    assert counts(T, dtype) == counts(torch, dtype)


def test_counts_have_their_means() -> None:
    events, wins, _ = counts(T, "float64")
    np.testing.assert_allclose(np.mean(events, 0), RATES, rtol=0.2, atol=0.2)
    np.testing.assert_allclose(np.mean(wins, 0), [n * p for n, p in TRIALS], rtol=0.2, atol=0.2)


def test_of_counts_the_rate_has_a_zero_gradient_and_the_chance_none() -> None:
    x = T.full((3,), 2.0, requires_grad=True)
    T.poisson(x).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="derivative for aten::binomial is not implemented"):
        T.binomial(T.ones(3), x).sum().backward()


SHAPES = [0.0, 1e-3, 0.2, 0.99, 1.0, 3.5, 40.0, 1e4]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_numbers_are_pytorchs(torch: ModuleType, dtype: str) -> None:
    """To the bit, in any number, and with the normal number that is left over; shares to the order of their sum."""
    for count in (1, 2, 3, 500):
        text = f"M._standard_gamma(M.tensor({SHAPES}, dtype=M.{dtype}).expand({count}, -1))"
        for made in (text, f"(M.randn(1), {text}, M.randn(3))[1]"):
            for ours, theirs in zip(drawn(T, made), drawn(torch, made), strict=True):
                np.testing.assert_array_equal(ours, theirs, made)
        text = text.replace("_standard_gamma", "_sample_dirichlet")
        for ours, theirs in zip(drawn(T, text), drawn(torch, text), strict=True):
            np.testing.assert_allclose(ours, theirs, 1e-15, err_msg=text)


def test_a_gamma_number_moves_with_its_shape_as_the_distribution_does() -> None:
    """Against differences of the distribution function, which knows nothing of samples: to the three digits of PyTorch's formulas."""
    for a, low, high in ((0.3, 0.01, 2.0), (2.0, 0.1, 8.0), (7.0, 1.0, 20.0), (30.0, 12.0, 60.0)):
        x = T.linspace(low, high, 40, dtype=T.float64)
        shape, step = T.full_like(x, a), 1e-4
        moved = T.igamma(shape + step, x) - T.igamma(shape - step, x)
        density = T.igamma(shape, x + step) - T.igamma(shape, x - step)
        np.testing.assert_allclose(
            array(T._standard_gamma_grad(shape, x)), array(-moved / density), rtol=5e-3
        )


def test_gamma_has_a_gradient_and_no_second_one() -> None:
    x = T.full((5,), 2.0, requires_grad=True)
    drawn = T._standard_gamma(x)
    (slope,) = T.autograd.grad(drawn.sum(), x, create_graph=True)
    np.testing.assert_array_equal(array(slope), array(T._standard_gamma_grad(x.detach(), drawn.detach())))
    with pytest.raises(NotImplementedError, match="the derivative for '_standard_gamma_grad' is not impl"):
        T.autograd.grad(slope.sum(), x)
    with pytest.raises(RuntimeError, match="derivative for aten::_sample_dirichlet is not implemented"):
        T._sample_dirichlet(x).sum().backward()


SHORT = (
    *(
        "x.uniform_({g})",
        "x.uniform_(-1, 3{g})",
        "x.normal_({g})",
        "x.normal_(1, 2.5{g})",
        "x.log_normal_(0, 0.5{g})",
    ),
    *(
        "x.random_({g})",
        "x.random_(9{g})",
        "x.random_(-3, 9{g})",
        "x.random_(0, 2**24{g})",
        "x.bernoulli_(0.3{g})",
    ),
    *("x.exponential_(2{g})", "x.cauchy_(1, 2{g})", "x.geometric_(0.3{g})", "T.bernoulli(x.clamp(0, 1){g})"),
    *(
        "T.randint(9, (7,){g})",
        "T.randint(-2, 9, (7,), dtype=T.float32{g})",
        "T.randperm(7{g})",
        "T.randperm(1{g})",
    ),
)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("text", (*SHORT, "y.normal_(1, 2.5{g})", "T.normal(1.0, 2.5, (21,){g})"))
def test_few_are_drawn_as_many(text: str, dtype: str) -> None:
    """A call that was seen before takes a short way; one that names the generator takes the long one. Enough of them that words run out."""
    if dtype == "int64" and not any(name in text for name in ("random_", "bernoulli_", "geometric", "rand")):
        return
    got: list[list[Any]] = []
    for named in ("", ", generator=T.default_generator"):
        call = text.format(g=named).replace("(, ", "(")
        T.manual_seed(3)
        x, y = (T.zeros(n, dtype=getattr(T, dtype)) for n in (7, 21))
        version = x._version
        made = [array(eval(call, {"T": T, "x": x, "y": y})).tolist() for _ in range(150)]
        got.append([made, x._version - version, T.default_generator.get_state().tolist()])
    assert got[0] == got[1]


def test_few_are_written_where_a_write_is_allowed() -> None:
    leaf = T.zeros(3, requires_grad=True)
    T.zeros(3).uniform_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        leaf.uniform_()
    y = leaf * 2
    y.uniform_()
    y.sum().backward()
    assert leaf.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="single memory location"):
        T.zeros(1).expand(3).uniform_()
    p = T.tensor([0.5, 0.5])
    T.bernoulli(p)
    before = T.default_generator.get_state().tolist()
    with pytest.raises(RuntimeError, match="p_in >= 0"):
        T.bernoulli(p + 1)
    assert T.default_generator.get_state().tolist() == before
    for _ in range(2):
        with pytest.warns(UserWarning, match="to - 1 is out of bounds"):
            p.random_(0, 2**40)
    with pytest.raises(NotImplementedError, match="geometric_cpu"):
        T.zeros(3, dtype=T.bool).geometric_(0.5)


def test_a_number_that_is_no_integer_is_refused_after_one_that_is() -> None:
    x = T.zeros(8, dtype=T.int64)
    for _ in range(3):
        x.random_(10)
        x.random_(2, 5)
        for args in ((10.0,), (2.0, 5.0), (2, 5.0), (True,)):
            with pytest.raises(TypeError, match="invalid combination of arguments"):
                x.random_(*args)
