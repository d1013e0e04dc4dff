"""Recurrent networks: the kernels against the same steps in ops, modules as objects, packed sequences."""

import copy
import itertools
import pickle
import re
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import processor, tile
from nbgrad.kernels.cpu import recurrent as loops
from nbgrad.ops.sequence import recurrent
from tests.compare import array, assert_same
from tests.support import T

pytestmark = pytest.mark.fast
rnn = T.nn.utils.rnn
KINDS = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def operands(
    kind: str,
    rows: int,
    batch: int,
    hidden: int,
    projected: int = 0,
    features: int = 5,
    dtype: Any = T.float64,
) -> list[Any]:
    rng = np.random.default_rng(hidden)
    gates, state = KINDS[kind] * hidden, projected or hidden

    def leaf(*shape: int) -> Any:
        return T.tensor(0.4 * rng.normal(size=shape)).to(dtype).requires_grad_()

    made = [leaf(rows, features), leaf(batch, state), leaf(batch, hidden) if kind == "lstm" else None]
    made += [leaf(gates, features), leaf(gates, state), leaf(gates), leaf(gates)]
    return [*made, leaf(state, hidden) if projected else None]


def starts(sizes: list[int]) -> tuple[int, ...]:
    return tuple(np.cumsum([0, *sizes]).tolist())


# How many sequences have an element at each step; hidden units, some filling no vector, some more than one tile; those of a projected
# state; inputs, of which some fill panels, so that they are multiplied with the states.
WAYS = {
    "one": ([1], 1, 0, 5),
    "three steps": ([3, 3, 3], 7, 0, 5),
    "more rows than a piece": ([19, 19], 16, 0, 5),
    "two tiles": ([5, 5], 35, 0, 5),
    "ends": ([9, 4, 4, 1], 17, 0, 5),
    "projected": ([3, 2], 20, 18, 5),
    "inputs with states": ([17, 17, 9, 1], 31, 0, 30),
    "projected with inputs": ([17, 9], 32, 18, 15),
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_kernels_are_the_steps(kind: str, way: str, reverse: bool) -> None:
    sizes, *widths = WAYS[way]
    if widths[1] and kind != "lstm":
        return
    tensors = operands(kind, sum(sizes), sizes[0], *widths)
    wrt = [t for t in tensors if t is not None]

    def found(run: Any) -> list[Any]:
        made = [t for t in run(tensors, kind, starts(sizes), reverse) if t is not None and t.numel()]
        loss = sum((t * T.linspace(-1, 2, t.numel(), dtype=t.dtype).reshape(t.shape)).sum() for t in made)
        return [*made, *T.autograd.grad(loss, wrt)]

    assert_same(found(recurrent.layer), found(recurrent.steps), f"{kind}, {way}", 10.0)


@pytest.mark.parametrize("sizes", [(40, 0, 5), (32, 0, 62)])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_threads_gives_the_same_bits(kind: str, sizes: tuple[int, ...]) -> None:
    tensors = operands(kind, 40 * 33, 33, *sizes, dtype=T.float32)
    before, found = T.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            T.set_num_threads(threads)
            y, h, _ = recurrent.layer(tensors, kind, starts([33] * 40), False)
            gates = T.autograd.grad((y * y).sum() + h.sum(), tensors[1])
            found.append([array(t) for t in (y.detach(), h.detach(), *gates)])
    finally:
        T.set_num_threads(before)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("bits", "hidden", "features"), [(None, 11, 5), (256, 13, 5), (None, 15, 16), (256, 15, 16)]
)
def test_other_vectors(bits: int | None, hidden: int, features: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of machines that have narrower ones, or that are not known; no other test has kernels of these sizes."""
    monkeypatch.setattr(processor, "vector_bits", lambda: bits)
    for kind in KINDS:
        tensors = operands(kind, 27, 9, hidden, 0, features)
        got, want = (f(tensors, kind, starts([9] * 3), False)[:2] for f in (recurrent.layer, recurrent.steps))
        assert_same(got, want, kind, 10.0)
        wrt = [t for t in tensors if t is not None]
        by = [T.autograd.grad((y * y).sum() + h.sum(), wrt) for y, h in (got, want)]
        assert_same(*by, kind, 10.0)


@pytest.mark.parametrize("way", ["ends", "projected", "inputs with states"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_gradients_nothing_is_kept(kind: str, way: str) -> None:
    sizes, *widths = WAYS[way]
    if widths[1] and kind != "lstm":
        return
    tensors = operands(kind, sum(sizes), sizes[0], *widths)
    how = {"kind": kind, "starts": starts(sizes), "reverse": False, "shape": ()}
    with T.no_grad():
        got = recurrent.layer(tensors, kind, starts(sizes), False)
        *made, _, more, before, _ = recurrent._unkept(*tensors, **how)
    assert more.numel() == before.numel() == 0
    want = recurrent.layer(tensors, kind, starts(sizes), False)
    assert want[0].requires_grad
    for a, b, c in zip(got, made, want, strict=True):
        assert T.equal(a, b) and T.equal(a, c)


def test_each_machine_has_the_tiles_that_kernels_name() -> None:
    for bits, code in itertools.product((128, 256, 512), ("f4", "f8")):
        source, _ = loops.backward("lstm", code, bits, 8, True)
        assert {*re.findall(r"edge_\w+", source)} <= tile.functions().keys()


def test_some_gradients_only() -> None:
    m, x = T.nn.LSTM(2, 3), T.ones(4, 1, 2)
    _, (h, _) = m.requires_grad_(False)(x.requires_grad_())
    assert h.grad_fn is not None and [p.grad for p in m.parameters()] == [None] * 4
    assert T.autograd.grad(h.sum(), x)[0].shape == x.shape
    m.bias_hh_l0.requires_grad_()
    m(T.ones(4, 1, 2))[1][1].sum().backward()
    assert m.bias_hh_l0.grad is not None and m.weight_hh_l0.grad is None


def test_a_module_is_copied_pickled_and_cast() -> None:
    m = T.nn.LSTM(2, 3, 2, bidirectional=True, dropout=0.5)
    x = T.ones(4, 1, 2)
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert_same(other.eval()(x), m.eval()(x), "copy")
        assert all(a is b for a, b in zip(other._flat_weights, other.parameters(), strict=True))
    m.double()
    assert m(x.double())[0].dtype is T.float64
    m.weight_hh_l0 = T.nn.Parameter(T.zeros(12, 3, dtype=T.float64))
    assert m._flat_weights[1] is m.weight_hh_l0
    assert [len(weights) for weights in m.all_weights] == [4] * 4


def test_transforms() -> None:
    m, x = T.nn.GRU(2, 3, dtype=T.float64), T.linspace(-1, 1, 24, dtype=T.float64).reshape(3, 4, 1, 2)
    weights = dict(m.named_parameters())

    def loss(weights: Any, x: Any) -> Any:
        return T.func.functional_call(m, weights, (x,))[0].sum()

    each = T.func.vmap(T.func.grad(loss), (None, 0))(weights, x)
    alone = [T.func.grad(loss)(weights, one) for one in x]
    for name in weights:
        assert_same(each[name], T.stack([a[name] for a in alone]), name, 10.0)
    _, moved = T.func.jvp(lambda x: m(x)[0], (x[0],), (x[1],))
    near = (m(x[0] + 1e-6 * x[1])[0] - m(x[0] - 1e-6 * x[1])[0]) / 2e-6
    np.testing.assert_allclose(array(moved), array(near), atol=1e-8)


def test_half_precision_is_computed_in_float32() -> None:
    x = T.linspace(-1, 1, 24).reshape(4, 2, 3)
    m = T.nn.LSTM(3, 5)
    want = m(x)[0]
    got = m.half()(x.half())[0]
    assert got.dtype is T.float16
    np.testing.assert_allclose(array(got), array(want), atol=2e-3)


def test_on_meta_there_are_shapes() -> None:
    with T.device("meta"):
        m = T.nn.LSTM(3, 4, 2, bidirectional=True, proj_size=2)
        y, (h, c) = m(T.ones(5, 2, 3, requires_grad=True))
        y.sum().backward()
    assert (y.shape, h.shape, c.shape) == ((5, 2, 4), (4, 2, 2), (4, 2, 4))
    assert m.weight_ih_l0.grad.shape == m.weight_ih_l0.shape and m.weight_ih_l0.grad.is_meta


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_packed_sequences_are_each_by_itself(kind: str) -> None:
    T.manual_seed(0)
    m = getattr(T.nn, kind)(2, 3, bidirectional=True, dtype=T.float64)
    sequences = [T.randn(n, 2, dtype=T.float64) for n in (2, 5, 1, 5)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    y, last = m(packed)
    h = last[0] if kind == "LSTM" else last
    for k, (got, s) in enumerate(zip(rnn.unpack_sequence(y), sequences, strict=True)):
        alone, ends = m(s)
        assert_same(got, alone, f"sequence {k}", 10.0)
        assert_same(h[:, k], ends[0] if kind == "LSTM" else ends, f"state {k}", 10.0)


def test_packed_sequences_change_dtype_and_keep_their_order() -> None:
    packed = rnn.pack_sequence([T.ones(1), T.arange(3.0)], enforce_sorted=False)
    names = ("double", "float", "half", "long", "int", "short", "char", "byte")
    assert [str(getattr(packed, n)().data.dtype) for n in names] == [
        *("torch.float64", "torch.float32", "torch.float16", "torch.int64"),
        *("torch.int32", "torch.int16", "torch.int8", "torch.uint8"),
    ]
    assert packed.float() is packed and packed.cpu() is packed and not packed.is_cuda
    assert packed.double().sorted_indices.tolist() == [1, 0]
    x = T.ones(2, 3, requires_grad=True)
    packed = rnn.pack_padded_sequence(x, [3, 1], batch_first=True)
    packed.data.sum().backward()
    assert x.grad.tolist() == [[1, 1, 1], [1, 0, 0]] and "PackPaddedSequence" in packed.data.grad_fn.name()


def test_nodes_are_named_as_pytorch_names_them() -> None:
    for options, name in (({}, "MkldnnRnnLayerBackward0"), ({"proj_size": 2}, "StackBackward0")):
        assert T.nn.LSTM(2, 3, **options)(T.ones(2, 1, 2))[0].grad_fn.name() == name
