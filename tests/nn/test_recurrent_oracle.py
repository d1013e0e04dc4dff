"""Recurrent networks of drawn configurations beside PyTorch's: values, gradients, and gradients of those."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same
from tests.support import T

pytestmark = pytest.mark.oracle
COUNT = 120


def configuration(seed: int) -> dict[str, Any]:
    """The kind of a network and its settings, the sizes of its inputs, and how they are given."""
    rng = np.random.default_rng(seed)
    pick = lambda *values: values[int(rng.integers(len(values)))]  # noqa: E731
    kind, hidden = pick("RNN", "LSTM", "LSTM", "GRU"), pick(1, 3, 5, 16, 35, 32)
    settings: dict[str, Any] = dict(
        num_layers=pick(1, 1, 2, 3),
        bias=pick(True, True, False),
        batch_first=pick(False, True),
        bidirectional=pick(False, True),
    )
    if kind == "RNN":
        settings["nonlinearity"] = pick("tanh", "relu")
    if kind == "LSTM" and hidden > 1 and pick(True, False, False):
        settings["proj_size"] = int(rng.integers(1, hidden))
    form = pick("batch", "batch", "one", "packed", "packed out of order")
    batch = 1 if form == "one" else pick(1, 2, 4, 5, 9, 17)
    longest = pick(1, 2, 3, 6)
    lengths = rng.integers(1, longest + 1, batch)
    lengths[rng.integers(batch)] = longest
    if form == "packed":
        lengths = np.sort(lengths)[::-1]
    return dict(
        kind=kind,
        sizes=(pick(1, 2, 7, 20, 32), hidden),
        settings=settings,
        form=form,
        lengths=lengths.tolist(),
        states=pick(True, False),
        dtype=pick("float64", "float64", "float32"),
        seed=seed,
    )


def run(t: ModuleType, c: dict[str, Any]) -> dict[str, Any]:
    t.manual_seed(c["seed"])
    dtype = getattr(t, c["dtype"])
    m = getattr(t.nn, c["kind"])(*c["sizes"], **c["settings"], dtype=dtype)
    rng = np.random.default_rng(c["seed"])

    def leaf(*shape: int) -> Any:
        return t.tensor(rng.normal(size=shape)).to(dtype).requires_grad_()

    rnn, steps, batch = t.nn.utils.rnn, max(c["lengths"]), len(c["lengths"])
    first = c["settings"]["batch_first"]
    x = leaf(batch, steps, c["sizes"][0]) if first else leaf(steps, batch, c["sizes"][0])
    layers = c["settings"]["num_layers"] * (1 + c["settings"]["bidirectional"])
    widths = [c["settings"].get("proj_size") or c["sizes"][1]] + [c["sizes"][1]] * (c["kind"] == "LSTM")
    states = [leaf(layers, batch, n) for n in widths] if c["states"] else []
    given: Any = x
    if c["form"] == "one":
        given, states = x.squeeze(0 if first else 1), [s.squeeze(1) for s in states]
    if c["form"].startswith("packed"):
        given = rnn.pack_padded_sequence(x, c["lengths"], first, c["form"] == "packed")
    y, last = m(given, *([tuple(states) if c["kind"] == "LSTM" else states[0]] if states else []))
    # Of sequences of one length PyTorch does not promise which is packed first.
    outputs = y.data if c["form"] == "packed" else y
    lasts = list(last) if c["kind"] == "LSTM" else [last]
    padded = rnn.pad_packed_sequence(y, first)[0] if c["form"].startswith("packed") else y
    outputs = padded if c["form"] == "packed out of order" else outputs
    loss = sum((o * t.tensor(rng.normal(size=tuple(o.shape))).to(dtype)).sum() for o in (outputs, *lasts))
    wrt = [x, *states, *m.parameters()]
    grads = t.autograd.grad(loss, wrt, retain_graph=True)
    found = dict(repr=repr(m), names=list(m.state_dict()), values=[outputs, padded, *lasts], grads=grads)
    if c["dtype"] == "float64":
        with_graph = t.autograd.grad(loss, wrt, create_graph=True)
        assert_same([g.detach() for g in with_graph], list(grads), f"{c}, gradients by ops")
        found["second"] = t.autograd.grad(sum((g * g).sum() for g in with_graph), wrt)
    return found


@pytest.mark.filterwarnings("ignore")
def test_networks(torch: ModuleType, whole: bool) -> None:
    for seed in range(500 if whole else COUNT):
        c = configuration(seed)
        got, want = run(T, c), run(torch, c)
        for part in want:
            tol = 20.0 if c["dtype"] == "float32" else 100.0 if part == "second" else 10.0
            g, w = (f[part] if isinstance(f[part], str) else list(f[part]) for f in (got, want))
            assert_same(g, w, f"{part} of {c}", tol)


@pytest.mark.filterwarnings("ignore")
def test_dropout_between_layers(torch: ModuleType) -> None:
    """PyTorch draws the same numbers, and so do we."""

    def found(t: ModuleType, kind: str) -> list[Any]:
        t.manual_seed(3)
        m = getattr(t.nn, kind)(4, 5, 3, dropout=0.4, dtype=t.float64)
        x = t.tensor(np.random.default_rng(0).normal(size=(6, 3, 4)))
        return [m(x)[0], m(x)[0], m.eval()(x)[0]]

    for kind in ("RNN", "LSTM", "GRU"):
        assert_same(found(T, kind), found(torch, kind), kind, 10.0)


def test_a_language_model_learns_as_in_torch(torch: ModuleType) -> None:
    text = (Path(__file__).parents[2] / "examples" / "recurrent_language_model.py").read_text(
        encoding="utf-8"
    )

    def losses(t: ModuleType) -> Any:
        scope: dict[str, Any] = {"torch": t, "__name__": "example"}
        exec(text.replace("import nbgrad as torch\n", ""), scope)
        return scope["train"](30)[1]

    found = losses(T)
    assert found[-1] < 0.1 * found[0]
    np.testing.assert_allclose(found, losses(torch), atol=1e-5)
