"""Convolution: any geometry beside PyTorch to second order, any number of threads, special values, and settings of modules."""

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import processor
from nbgrad.ops.windows import correlation
from tests.compare import array, assert_same
from tests.support import T

F = T.nn.functional


def geometry(rng: random.Random) -> dict[str, Any]:
    """Settings of a convolution, and the shapes of its operands."""
    dims, groups, transposed = rng.choice([1, 2, 2, 3]), rng.choice([1, 1, 2, 3]), rng.random() < 0.4
    before, after = groups * rng.randint(1, 6), groups * rng.randint(1, 6)

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randint(low, high) for _ in range(dims))

    stride, dilation = each(1, 3), each(1, 3)
    more = tuple(rng.randrange(max(pair)) if transposed else 0 for pair in zip(stride, dilation))
    channels = (before, after // groups) if transposed else (after, before // groups)
    return {
        "input": (rng.randint(0 if rng.random() < 0.1 else 1, 3), before, *each(1, 9)),
        "weight": (*channels, *each(1, 4)),
        "bias": (after,) if rng.random() < 0.5 else None,
        "settings": (stride, each(0, 3), dilation, transposed, more, groups),
        "strided": rng.random() < 0.3,
    }


def both_orders(t: ModuleType, g: dict[str, Any], arrays: list[Any]) -> list[Any]:
    """The result, its gradients, and theirs."""
    operands = [None if a is None else t.tensor(a, requires_grad=True) for a in arrays]
    x, w, b = operands
    if g["strided"]:
        x, w = (
            x.transpose(0, -1).contiguous().transpose(0, -1),
            w.transpose(0, 1).contiguous().transpose(0, 1),
        )
    y = t.convolution(x, w, b, *g["settings"])
    seed = t.tensor(np.cos(np.arange(y.numel(), dtype=np.float64)).reshape(y.shape), requires_grad=True)
    leaves = [p for p in operands if p is not None]
    first = t.autograd.grad(y, leaves, seed, create_graph=True)
    if not y.numel():
        return [y, *first]
    total = sum((p * p).sum() for p in first[:2])
    return [y, *first, *t.autograd.grad(total, [*leaves[:2], seed])]


@pytest.mark.oracle
def test_any_geometry_to_second_order(torch: ModuleType, whole: bool) -> None:
    rng, values = random.Random(7), np.random.default_rng(7)
    done = 0
    while done < (3000 if whole else 150):
        g = geometry(rng)
        arrays = [None if g[k] is None else values.normal(size=g[k]) for k in ("input", "weight", "bias")]
        try:
            want = both_orders(torch, g, arrays)
        except RuntimeError:  # a window that is larger than the image, a size that is too small
            with pytest.raises(RuntimeError):
                both_orders(T, g, arrays)
            continue
        done += 1
        for got, expected in zip(both_orders(T, g, arrays), want, strict=True):
            a, b = array(got), array(expected)
            assert a.shape == b.shape, g
            np.testing.assert_allclose(a, b, 1e-9, 1e-10 * max(1, np.abs(b).max(initial=0)), err_msg=str(g))


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_many_channels_and_pixels(torch: ModuleType, dtype: str) -> None:
    """More than one strip, and blocks of channels that are not full."""
    rng = np.random.default_rng(1)
    shapes = ((3, 5, 40, 37), (7, 5, 3, 3), (7,))
    arrays = [rng.normal(size=s).astype(dtype) for s in shapes]
    found = []
    for t in (T, torch):
        x, w, b = (t.tensor(a if t is T else a.astype("float64"), requires_grad=True) for a in arrays)
        y = t.nn.functional.conv2d(x, w, b, 1, 1)
        found.append([array(v).astype("float64") for v in (y, *t.autograd.grad(y.sum(), (x, w, b)))])
    for got, want in zip(*found, strict=True):
        assert np.abs(got - want).max() < {"float16": 2e-3, "float32": 2e-6}[dtype] * np.abs(want).max()


def test_the_same_bits_for_any_number_of_threads() -> None:
    T.manual_seed(0)
    x, w = T.randn(6, 5, 30, 30, requires_grad=True), T.randn(9, 5, 3, 3, requires_grad=True)

    def run() -> list[Any]:
        y = F.conv2d(x, w, padding=1)
        return [y.detach(), *T.autograd.grad((y * y).sum(), (x, w))]

    before, found = T.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            T.set_num_threads(threads)
            found.append(run())
    finally:
        T.set_num_threads(before)
    for one, other in itertools.pairwise(found):
        assert all(T.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.float16], ids=str)
@pytest.mark.parametrize(("stride", "groups"), [(1, 1), (2, 2)])
def test_the_same_bits_by_vectors_of_any_width(
    dtype: Any, stride: int, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And by loops, but for the gradient by weights, whose sums loops cut otherwise."""
    T.manual_seed(0)
    x, w, b = (T.randn(*s).to(dtype) for s in ((3, 6, 20, 21), (26, 6 // groups, 3, 2), (26,)))
    geometry = correlation.Geometry((stride,) * 2, (1, 2), (2, 1), groups)
    y = F.conv2d(x, w, b, stride, (1, 2), (2, 1), groups)
    widest = processor.vector_bits() or 0
    found = []
    for bits in (None, *[n for n in (128, 256, 512) if n <= widest]):
        monkeypatch.setattr(processor, "vector_bits", lambda n=bits: n)
        made, back = T.empty_like(y), T.empty_like(x)
        correlation.narrow(x._spec, w._spec, b._spec, y._spec, geometry)(x, w, b, made)
        correlation.wide(y._spec, w._spec, None, x._spec, geometry)(y, w, None, back)
        found.append([made, back, correlation.weights(y._spec, x._spec, w._spec, geometry)(y, x)])
    for one, other in itertools.pairwise(found):
        assert T.equal(one[0], other[0])
        assert T.equal(one[1], other[1])
    for one, other in itertools.pairwise(found[1:]):
        assert T.equal(one[2], other[2])
    assert_same(found[0][2], found[-1][2], "", 10)


DIGESTS = """
import hashlib
import sys
import nbgrad as torch
torch.manual_seed(0)
for groups, after in ((6, 12), (1, 26)):
    x, w = torch.randn(2, 6, 20, 21, requires_grad=True), torch.randn(after, 6 // groups, 3, 3, requires_grad=True)
    y = torch.nn.functional.conv2d(x, w, padding=1, groups=groups)
    for t in (y.detach(), *torch.autograd.grad((y * y).sum(), (x, w))):
        print(hashlib.sha256(t.numpy().tobytes()).hexdigest())
print("numba" in sys.modules)
"""


@pytest.mark.slow
def test_numbas_kernels_give_the_same_bits(tmp_path: Path) -> None:
    """Of each channel by itself, and by tiles."""

    def told(compiler: str) -> list[str]:
        env = os.environ | {"NBGRAD_COMPILER": compiler, "NBGRAD_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", DIGESTS]
        return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.split()

    *quick, helped = told("front")
    *reference, did = told("numba")
    assert quick == reference and len(quick) == 6
    assert (helped, did) == ("False", "True")


def test_what_is_not_finite_stays_where_it_is() -> None:
    """A pixel at the end of a row is no pixel's neighbour at the beginning of the next, and margins are 0 whatever is beside them."""
    for channels in (1, 5):
        x = T.ones(1, 1, 4, 4)
        x[0, 0, 1, 0] = T.inf
        w = T.ones(channels, 1, 3, 3, requires_grad=True)
        y = F.conv2d(x, w, padding=1)
        assert y[0, -1].isfinite().sum() == 16 - 6
        y.backward(T.ones(1, channels, 4, 4))
        assert w.grad[-1].isinf().flatten().tolist() == [True, True, False] * 3
        assert w.grad[-1, 0, :, 2].tolist() == [9.0, 12.0, 9.0]


@pytest.mark.oracle
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", [2, 3])
def test_channels_lie_last_where_pytorchs_do(torch: ModuleType, dims: int, transposed: bool) -> None:
    sizes = [
        (2, 4, 6, 3, 1),
        (1, 4, 6, 1, 1),
        (2, 1, 6, 3, 1),
        (2, 4, 4, 3, 4),
        (1, 1, 1, 3, 1),
        (2, 4, 6, 3, 2),
    ]
    order = (0, dims + 1, *range(1, dims + 1))

    def found(t: ModuleType, of: Any, dtype: str, x_last: bool, w_last: bool) -> Any:
        count, before, after, taps, groups = of
        shapes = (count, before, *(5,) * dims), (after, before // groups, *(taps,) * dims)
        if transposed:
            shapes = shapes[0], (before, after // groups, *(taps,) * dims)
        operands = []
        for shape, last in zip(shapes, (x_last, w_last), strict=True):
            n, c, *size = shape
            values = t.ones(*((n, *size, c) if last else shape), dtype=getattr(t, dtype))
            operands.append(values.permute(order) if last else values)
        name = f"conv_transpose{dims}d" if transposed else f"conv{dims}d"
        y = getattr(t.nn.functional, name)(*operands, groups=groups)
        return y.stride(), y.sum().item()

    for of in itertools.product(sizes, ["float32", "float64"], [False, True], [False, True]):
        assert found(T, *of) == found(torch, *of), of


def test_a_bias_that_is_no_line() -> None:
    x, w = T.arange(12.0).view(1, 1, 3, 4), T.ones(3, 1, 2, 2)
    wide = T.arange(6.0)
    assert T.equal(F.conv2d(x, w, wide[::2]), F.conv2d(x, w, wide[::2].clone()))
    assert T.equal(F.conv2d(x, w, T.ones(1).expand(3)), F.conv2d(x, w, T.ones(3)))


def test_meta_tensors_have_the_shapes() -> None:
    x, w = (
        T.ones(2, 3, 8, 8, device="meta", requires_grad=True),
        T.ones(4, 3, 3, 3, device="meta", requires_grad=True),
    )
    y = F.conv2d(x, w, stride=2, padding=1)
    y.backward(T.ones(2, 4, 4, 4, device="meta"))
    assert (y.shape, x.grad.shape, w.grad.shape) == ((2, 4, 4, 4), x.shape, w.shape)


BATCHED = [
    (0, None, None),
    (None, 0, None),
    (0, 0, None),
    (None, None, 0),
    (0, None, 0),
    (0, 0, 0),
]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dims", BATCHED, ids=str)
def test_many_examples_at_once(dims: tuple[int | None, ...], transposed: bool) -> None:
    """What `vmap` gives, and the gradients of each, are those of one after the other."""
    T.manual_seed(0)
    shapes = ((2, 4, 5, 5), (4, 3, 3, 2) if transposed else (6, 2, 3, 2), (6,))
    operands = [T.randn(3, *s) if d == 0 else T.randn(*s) for s, d in zip(shapes, dims, strict=True)]
    settings = ((2, 1), (1, 0), (1, 1), transposed, (1, 0) if transposed else (0, 0), 2)

    def result(*of: Any) -> Any:
        return T.convolution(*of, *settings)

    def gradients(*of: Any) -> Any:
        return T.func.grad(lambda *args: (result(*args) ** 2).sum(), argnums=(0, 1, 2))(*of)

    for f in (result, gradients):
        got = T.vmap(f, in_dims=dims)(*operands)
        one = [f(*[o[k] if d == 0 else o for o, d in zip(operands, dims, strict=True)]) for k in range(3)]
        want = (
            [T.stack(parts) for parts in zip(*one, strict=True)]
            if isinstance(one[0], tuple)
            else [T.stack(one)]
        )
        assert_same(list(got) if isinstance(got, tuple) else [got], want, str(dims), 10)


@pytest.mark.parametrize("dims", [(0, None), (None, 0), (0, 0)], ids=str)
def test_columns_of_many_examples(dims: tuple[int | None, ...]) -> None:
    x = T.randn(3, 2, 4, 5)
    got = T.vmap(lambda v: F.fold(F.unfold(v, 2), (4, 5), 2))(x)
    assert_same(got, T.stack([F.fold(F.unfold(v, 2), (4, 5), 2) for v in x]), "")


def test_tangents() -> None:
    T.manual_seed(0)
    x, w, b = (T.randn(*s, dtype=T.float64) for s in ((2, 4, 5, 5), (6, 2, 3, 3), (6,)))
    moves = [T.randn_like(t) for t in (x, w, b)]

    def f(*of: Any) -> Any:
        return F.conv2d(*of, stride=2, padding=1, groups=2)

    _, got = T.func.jvp(f, (x, w, b), tuple(moves))
    want = f(moves[0], w, None) + f(x, moves[1], None) + moves[2].view(-1, 1, 1)
    assert_same(got, want, "")


@pytest.mark.oracle
def test_initial_values_and_sizes_of_modules(torch: ModuleType) -> None:
    """An output size that is asked for, and what is refused."""
    for t in (T, torch):
        layer = t.nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
        x = t.ones(1, 3, 4, 4)
        assert (
            tuple(layer(x, output_size=(8, 7)).shape) == tuple(layer(x, [1, 2, 8, 7]).shape) == (1, 2, 8, 7)
        )
        for size in ((9, 8), (8,), (6, 7)):
            with pytest.raises(ValueError, match=r"output.size"):
                layer(x, output_size=size)


def script(t: ModuleType, steps: int) -> list[float]:
    """A small network for images, written for PyTorch, and trained."""
    nn, rng = t.nn, np.random.default_rng(3)
    t.manual_seed(0)

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv2d(1, 8, 3, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.second = nn.Conv2d(8, 16, 3, stride=2, padding=1, groups=2)
            self.up = nn.ConvTranspose2d(16, 4, 2, stride=2)
            self.last = nn.Linear(4 * 12 * 12, 5)

        def forward(self, x: Any) -> Any:
            x = t.relu(self.norm(self.first(x)))
            x = t.relu(self.second(x))
            x = t.tanh(self.up(x))
            return self.last(x.flatten(1))

    model = Net()
    x = t.tensor(rng.normal(size=(32, 1, 12, 12)).astype(np.float32))
    y = t.tensor(rng.integers(0, 5, 32))
    optimizer = t.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.oracle
def test_a_network_for_images_has_the_same_losses(torch: ModuleType) -> None:
    losses = script(T, 30)
    np.testing.assert_allclose(losses, script(torch, 30), atol=1e-5)
    assert losses[-1] < 0.5 * losses[0]


@pytest.mark.parametrize("taps", [1, 3])
@pytest.mark.parametrize("last", [False, True], ids=["planes", "channels last"])
def test_operands_that_repeat(taps: int, last: bool) -> None:
    """Images, weights and gradients whose memory is read several times, as the gradient of a mean over all pixels is."""
    gen = T.Generator().manual_seed(0)
    sizes = ((2, 16, 6, 5), (8, 16, taps, taps), (2, 8, 7 - taps, 6 - taps))
    dims: list[tuple[int, ...]] = [d for n in range(1, 5) for d in itertools.combinations(range(4), n)]
    for which, repeated in itertools.product(range(3), dims):
        whole = [T.randn(s, generator=gen, dtype=T.float64) for s in sizes]
        if last:
            whole = [t.contiguous(memory_format=T.channels_last) for t in whole]
        narrow = whole[which][tuple(slice(0, 1) if k in repeated else slice(None) for k in range(4))]
        whole[which] = narrow.expand(sizes[which])
        assert 0 in whole[which].stride() or not any([sizes[which][k] > 1 for k in repeated])

        def gradients(x: Any, w: Any, g: Any) -> Any:
            x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
            y = F.conv2d(x, w)
            return (y, *T.autograd.grad(y, (x, w), g))

        for got, wanted in zip(gradients(*whole), gradients(*[t.contiguous() for t in whole]), strict=True):
            assert T.allclose(got, wanted), (which, repeated)
