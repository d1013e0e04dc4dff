"""Modules that learn their size from their first input, beside PyTorch's."""

import copy
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same
from tests.support import T

RNG = np.random.default_rng(0)
LINES, IMAGES, VOLUMES = (RNG.normal(size=(3, 4, *(5,) * d)).astype(np.float32) for d in (1, 2, 3))
MODULES: dict[str, tuple[tuple[Any, ...], dict[str, Any], np.ndarray]] = {
    "LazyLinear": ((3,), {}, LINES),
    "LazyConv1d": ((6, 3), {"groups": 2, "padding_mode": "circular", "padding": 1}, LINES),
    "LazyConv2d": ((6, 3, 2), {"bias": False}, IMAGES),
    "LazyConv3d": ((2, (1, 2, 3)), {"padding": "same", "dilation": (1, 2, 1)}, VOLUMES),
    "LazyConvTranspose1d": ((6, 3, 2), {"output_padding": 1}, LINES),
    "LazyConvTranspose2d": ((6, 3), {"groups": 2}, IMAGES),
    "LazyConvTranspose3d": ((2, 2), {}, VOLUMES),
    "LazyBatchNorm1d": ((0.1,), {}, LINES),
    "LazyBatchNorm2d": ((), {"affine": False}, IMAGES),
    "LazyBatchNorm3d": ((), {"track_running_stats": False, "bias": False}, VOLUMES),
    "LazyInstanceNorm1d": ((), {}, LINES),
    "LazyInstanceNorm2d": ((), {"affine": False}, IMAGES),
    "LazyInstanceNorm3d": ((), {"momentum": 0.3}, VOLUMES),
}


def run(t: ModuleType, name: str) -> list[Any]:
    args, kwargs, x = MODULES[name]
    t.manual_seed(0)
    module = getattr(t.nn, name)(*args, **kwargs)
    found: list[Any] = [
        repr(module),
        [(k, repr(v)) for k, v in module.state_dict().items() if "num" not in k],
    ]
    y = module.float()(t.tensor(x, requires_grad=True))
    y.sin().sum().backward()
    values = list(module.state_dict().values())
    return [*found, repr(module), type(module).__name__, values, y, [p.grad for p in module.parameters()]]


@pytest.mark.oracle
@pytest.mark.parametrize("name", MODULES)
def test_lazy_module(torch: ModuleType, name: str) -> None:
    assert_same(run(T, name), run(torch, name), name, 4)


def test_state_dicts_go_both_ways() -> None:
    full, lazy = T.nn.LazyLinear(2), T.nn.LazyLinear(2)
    full(T.ones(1, 3))
    lazy.load_state_dict(full.state_dict())
    assert T.equal(lazy.weight, full.weight)
    assert type(lazy).__name__ == "LazyLinear"
    lazy(T.ones(1, 3))
    assert repr(lazy) == repr(full)
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        full.load_state_dict(T.nn.LazyLinear(2).state_dict())
    other = T.nn.LazyLinear(2)
    other.load_state_dict(T.nn.LazyLinear(2).state_dict())
    assert other.has_uninitialized_params()


def test_what_waits_is_cast_copied_and_pickled() -> None:
    layer = T.nn.LazyBatchNorm1d().double()
    assert layer.weight.dtype is layer.running_mean.dtype is T.float64
    for made in (copy.deepcopy(layer.running_mean), pickle.loads(pickle.dumps(layer.running_mean))):
        assert repr(made) == "<UninitializedBuffer>"
    assert repr(pickle.loads(pickle.dumps(layer.weight))) == "<UninitializedParameter>"
    assert layer(T.ones(2, 3, dtype=T.float64)).dtype is T.float64


@pytest.mark.oracle
def test_refusals(torch: ModuleType) -> None:
    def refused(t: ModuleType) -> list[str]:
        found = []
        for build in (
            lambda: t.nn.LazyConv2d(4, 3)(t.ones(2, 2)),
            lambda: t.nn.LazyConv1d(4, 3, groups=2)(t.ones(1, 3, 5)),
            lambda: t.nn.LazyLinear(3).weight.shape,
            lambda: t.nn.LazyBatchNorm2d()(t.ones(2, 3)),
            lambda: t.nn.LazyLinear(2).weight.share_memory_(),
        ):
            with pytest.raises((RuntimeError, ValueError)) as error:
                build()
            found.append(f"{error.type.__name__}: {error.value}")
        return found

    assert refused(T) == refused(torch)


USES: dict[str, Any] = {
    "add": lambda t, p: p + 1,
    "radd": lambda t, p: t.ones(2) * p,
    "sum": lambda t, p: p.sum(),
    "mm": lambda t, p: t.mm(p, p),
    "index": lambda t, p: p[0],
    "stack": lambda t, p: t.stack([p, p]),
    "fill": lambda t, p: t.nn.init.ones_(p),
    "numel": lambda t, p: p.numel(),
    "len": lambda t, p: len(p),
    "bool": lambda t, p: bool(p),
    "clone": lambda t, p: p.clone(),
    "tolist": lambda t, p: p.tolist(),
    "linear": lambda t, p: t.nn.functional.linear(t.ones(2, 2), p),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", USES)
def test_what_has_no_shape_is_not_computed_with(torch: ModuleType, name: str) -> None:
    for t in (T, torch):
        layer, norm = t.nn.LazyLinear(2), t.nn.LazyBatchNorm1d()
        layer.double()
        for waiting in (layer.weight, norm.running_mean):
            with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in <"):
                USES[name](t, waiting)
        assert layer.weight.dtype is t.float64
        assert layer(t.ones(1, 3).double()).shape == (1, 2)
        assert USES["add"](t, layer.weight).shape == (2, 3)
