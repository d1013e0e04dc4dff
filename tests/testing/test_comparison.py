"""What `assert_close` says, and what `make_tensor` makes, beside PyTorch, on random things."""

import random
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import nbgrad

NAMES = ("float32", "float64", "float16", "int64", "int32", "bool", "uint8")


def _thing(T: ModuleType, r: random.Random, depth: int = 0) -> Any:
    k = r.random()
    if depth < 2 and k < 0.15:
        return [_thing(T, r, depth + 1) for _ in range(r.randrange(4))]
    if depth < 2 and k < 0.25:
        return tuple([_thing(T, r, depth + 1) for _ in range(r.randrange(3))])
    if depth < 2 and k < 0.35:
        return {c: _thing(T, r, depth + 1) for c in r.sample("abc", r.randrange(4))}
    if k < 0.42:
        return r.choice([1, 2, 2.0, 2.0000001, float("nan"), float("inf"), 0, True, False, None, "a", "b"])
    if k < 0.48:
        return r.choice(
            [np.float32(1), np.int64(2), np.bool_(True), np.array([1.0, 2.0]), np.ones(2, np.float32)]
        )
    d = getattr(T, r.choice(NAMES))
    shape = r.choice([(), (1,), (3,), (2, 3), (0,), (2, 2, 2)])
    odd = [float("nan"), float("inf")] if d.is_floating_point else [1, 5]
    values = [r.choice([0, 1, 2, 1.00001, 2.5, 3, *odd]) for _ in range(int(np.prod(shape)))]
    return T.tensor(values, dtype=T.float64).to(d).reshape(shape)


def _changed(T: ModuleType, r: random.Random, t: Any) -> Any:
    if isinstance(t, (list, tuple)):
        return [_changed(T, r, x) for x in t]
    if isinstance(t, dict):
        return {k: _changed(T, r, x) for k, x in t.items() if r.random() < 0.95}
    if not isinstance(t, T.Tensor):
        return t if r.random() < 0.7 else _thing(T, r, 2)
    k = r.random()
    if k < 0.7 and t.numel():
        c = t.clone()
        place = r.randrange(t.numel())
        c.view(-1)[place] = (
            c.view(-1)[place] + r.choice([1e-7, 1e-3, 1, 2]) if c.dtype.is_floating_point else 1
        )
        return c
    if k < 0.8:
        return t.to(getattr(T, r.choice(NAMES)))
    return t.t().contiguous().t() if t.ndim == 2 and k < 0.9 else t


def _settings(r: random.Random) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, value, share in (
        ("equal_nan", True, 0.3),
        ("check_dtype", False, 0.3),
        ("check_stride", True, 0.2),
        ("allow_subclasses", False, 0.2),
        ("rtol", 1e-3, 0.05),
        ("msg", "mine", 0.1),
        ("msg", lambda text: f"Head\n{text}\nFoot", 0.1),
    ):
        if r.random() < share:
            named[name] = value
    if r.random() < 0.3:
        named |= dict(rtol=r.choice([0, 1e-3, 1.3e-6]), atol=r.choice([0, 1e-3, 1e-5]))
    return named


def _told(T: ModuleType, seed: int) -> str:
    r = random.Random(seed)
    a = _thing(T, r)
    b = _changed(T, r, a)
    try:
        T.testing.assert_close(a, b, **_settings(r))
    except Exception as error:
        return f"{type(error).__name__}: {error}".replace("nbgrad.Tensor", "torch.Tensor")
    return ""


@pytest.mark.oracle
def test_says_what_pytorch_says() -> None:
    import torch

    told = [(_told(nbgrad, seed), _told(torch, seed)) for seed in range(1000)]
    assert [(k, *pair) for k, pair in enumerate(told) if pair[0] != pair[1]] == []
    assert len({text for text, _ in told}) > 300


def _made(T: ModuleType, seed: int) -> str:
    r = random.Random(seed)
    named: dict[str, Any] = dict(dtype=getattr(T, r.choice(NAMES)), device="cpu")
    if r.random() < 0.5:
        named["low"] = r.choice([0, -3, 1.5, -1000, float("nan"), 300, 5])
    if r.random() < 0.5:
        named["high"] = r.choice([0, 3, 8.5, 1000, float("inf"), -2, 5])
    for name in ("requires_grad", "noncontiguous", "exclude_zero"):
        if r.random() < 0.3:
            named[name] = True
    T.manual_seed(seed)
    try:
        t = T.testing.make_tensor(*r.choice([(), (3,), (2, 3), ((2, 2),), ([0, 3],)]), **named)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"{t} {t.stride()} {t.requires_grad}"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_makes_what_pytorch_makes() -> None:
    import torch

    made = [(_made(nbgrad, seed), _made(torch, seed)) for seed in range(300)]
    assert [pair for pair in made if pair[0] != pair[1]] == []


def test_differences_are_told() -> None:
    close = nbgrad.testing.assert_close
    x = nbgrad.tensor([1.0, 2.0, 3.0])
    close(x, x + 1e-7)
    close({"a": [x, 1.0]}, {"a": (x.clone(), 1.0)})
    with pytest.raises(
        AssertionError,
        match=r"Mismatched elements: 1 / 3 \(33.3%\)\nGreatest absolute difference: 0.5 at index \(2,\)",
    ):
        close(x, nbgrad.tensor([1.0, 2.0, 3.5]))
    with pytest.raises(AssertionError, match=r"The failure occurred for item \['a'\]\[1\]"):
        close({"a": [x, 1.0]}, {"a": (x, 2.0)})
    with pytest.raises(TypeError, match="No comparison pair"):
        close(x, x.numpy())


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_sparse_tensors_by_their_places_and_values(layout: str) -> None:
    def made(rows: list[list[float]]) -> Any:
        dense = nbgrad.tensor(rows)
        return dense.to_sparse() if layout == "coo" else getattr(dense, f"to_sparse_{layout}")()

    one, kind = made([[0.0, 1.0], [2.0, 0.0]]), layout.upper()
    close = nbgrad.testing.assert_close
    close(one, made([[0.0, 1.0], [2.0, 0.0]]))
    close(one, made([[0.0, 1.0], [2.0, 0.0]]).to_dense(), check_layout=False)
    close(one, made([[0.0, 1.0], [3.0, 0.0]]), rtol=1.0, atol=0.0)
    for other, words in (
        (made([[0.0, 1.0], [3.0, 0.0]]), rf"^Sparse {kind} values are not close!\n\nMismatched elements: 1 / 2"),
        (made([[1.0, 0.0], [2.0, 0.0]]), rf"^Sparse {kind} (indices|\w+_indices) are not equal!"),
        (made([[0.0, 1.0], [0.0, 0.0]]), f"^The number of specified values in sparse {kind} tensors does not match: 2 != 1$"),
        (one.to_dense(), f"^The values for attribute 'layout' do not match: torch.sparse_{layout} != torch.strided.$"),
    ):  # fmt: skip
        with pytest.raises(AssertionError, match=words):
            close(one, other)
