"""PyTorch's names of networks are here, and what libraries take from its modules by path."""

import importlib
from types import ModuleType

import numpy as np
import pytest

from nbgrad.names.absent import is_absent
from tests.compare import assert_same
from tests.support import T

# What says when it is used that it is not built: products of floats of 8 bits, what scripts for PyTorch's compiler call; and a type's name.
FUNCTIONS_ABSENT = {
    *("ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm", "DType"),
    *("assert_int_or_pair", "has_torch_function_unary", "has_torch_function_variadic"),
}


def absent(module: ModuleType, name: str) -> bool:
    return not hasattr(module, name) or is_absent(getattr(module, name))


def public(module: ModuleType) -> set[str]:
    """Names that are its own, without those of the type system and of other modules."""
    own = "torch.nn", "torch._C", "builtins"
    return {
        name
        for name in dir(module)
        if name[:1] != "_"
        and (callable(value := getattr(module, name)) or isinstance(value, ModuleType))
        and getattr(value, "__module__", None) not in ("typing", "typing_extensions")
        and (
            value.__name__
            if isinstance(value, ModuleType)
            else getattr(value, "__module__", "") or "torch.nn"
        ).startswith(own)
    }


@pytest.mark.oracle
def test_all_layers_are_here(torch: ModuleType) -> None:
    classes = {name for name in public(torch.nn) if isinstance(getattr(torch.nn, name), type)}
    assert not {name for name in classes if absent(T.nn, name)}
    assert all(hasattr(T.nn, name) for name in dir(T.nn))


@pytest.mark.oracle
@pytest.mark.parametrize("path", ["functional", "init", "utils", "grad"])
def test_all_functions_are_here(torch: ModuleType, path: str) -> None:
    theirs, ours = (importlib.import_module(f"{t.__name__}.nn.{path}") for t in (torch, T))
    missing = {name for name in public(theirs) if absent(ours, name)}
    assert missing <= FUNCTIONS_ABSENT


@pytest.mark.oracle
def test_layers_are_subclasses_as_in_pytorch(torch: ModuleType) -> None:
    def bases(t: ModuleType) -> dict[str, set[str]]:
        both = [n for n in dir(torch.nn) if isinstance(getattr(torch.nn, n), type) and hasattr(T.nn, n)]
        usual = [n for n in both if n[:4] != "Lazy"]  # which become what they wait for in another way
        kinds = {n: getattr(t.nn, n) for n in usual}
        return {n: {m for m in usual if issubclass(kinds[n], kinds[m])} for n in usual}

    assert bases(T) == bases(torch)


PRIVATE = {
    "batchnorm": ("_BatchNorm", "_NormBase", "SyncBatchNorm"),
    "instancenorm": ("_InstanceNorm",),
    "conv": ("_ConvNd", "_ConvTransposeNd"),
    "dropout": ("_DropoutNd",),
    "loss": ("_Loss", "_WeightedLoss"),
    "module": ("_addindent", "_IncompatibleKeys", "_EXTRA_STATE_KEY_SUFFIX", "_global_forward_hooks"),
    "padding": ("_ConstantPadNd", "_ReflectionPadNd", "_ReplicationPadNd", "_CircularPadNd"),
    "pooling": ("_MaxPoolNd", "_AvgPoolNd", "_LPPoolNd", "_AdaptiveAvgPoolNd", "_AdaptiveMaxPoolNd"),
    "activation": ("MultiheadAttention",),
    "linear": ("NonDynamicallyQuantizableLinear",),
    "channelshuffle": ("ChannelShuffle",),
    "rnn": ("RNNBase", "RNNCellBase", "_apply_permutation"),
    "transformer": ("_get_clones", "_get_activation_fn", "_generate_square_subsequent_mask"),
    "utils": ("_ntuple", "_single", "_pair", "_triple", "_quadruple", "_reverse_repeat_tuple"),
}


@pytest.mark.parametrize("name", PRIVATE)
def test_what_libraries_import_by_path(name: str) -> None:
    module = importlib.import_module(f"{T.__name__}.nn.modules.{name}")
    for own in PRIVATE[name]:
        assert hasattr(module, own), own


def test_a_layer_of_somebody_elses_stands_on_the_base_of_convolutions() -> None:
    nn = T.nn
    pair = importlib.import_module(f"{T.__name__}.nn.modules.utils")._pair
    base = importlib.import_module(f"{T.__name__}.nn.modules.conv")._ConvNd

    class Padded(base):  # type: ignore[misc, valid-type]
        def __init__(self, inputs: int, outputs: int, size: int) -> None:
            sizes = (pair(size), pair(1), pair(0), pair(1), False, pair(0))
            super().__init__(inputs, outputs, *sizes, 1, True, "zeros")

        def forward(self, x: object) -> object:
            return nn.functional.conv2d(nn.functional.pad(x, (1, 1, 1, 1)), self.weight, self.bias)

    assert Padded(2, 3, 3)(T.ones(1, 2, 5, 5)).shape == (1, 3, 5, 5)
    assert repr(Padded(2, 3, 3)) == "Padded(2, 3, kernel_size=(3, 3), stride=(1, 1))"


@pytest.mark.oracle
@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
def test_cross_map_norm(torch: ModuleType, size: int) -> None:
    for channels in (1, 2, 3, 5, 9):
        x = np.random.default_rng(size).normal(size=(2, channels, 3, 4))
        got, want = (t.nn.CrossMapLRN2d(size, 1.5, 0.6, 2.0)(t.tensor(x)) for t in (T, torch))
        assert_same(got, want, f"{channels} channels", 10)
    x = T.tensor(x, requires_grad=True)
    assert T.autograd.gradcheck(T.nn.CrossMapLRN2d(size, 1.5), (x[:1, :4],))


@pytest.mark.oracle
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions_by_name(torch: ModuleType, dims: int) -> None:
    rng = np.random.default_rng(dims)
    settings = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    x, w = rng.normal(size=(2, 4, *(6,) * dims)), rng.normal(size=(6, 2, *(3,) * dims))
    g = rng.normal(size=(2, 6, *(3,) * dims))
    for name, given in (("input", (x.shape, w, g)), ("weight", (x, w.shape, g))):
        found = []
        for t in (T, torch):
            args = [t.tensor(a) if isinstance(a, np.ndarray) else a for a in given]
            found.append(getattr(t.nn.grad, f"conv{dims}d_{name}")(*args, **settings))
        assert_same(*found, name)
    with pytest.raises(RuntimeError, match="expected grad_output of shape"):
        T.nn.grad.conv1d_input((1, 1, 5), T.ones(1, 1, 2), T.ones(1, 1, 5))


OPTIONS = [
    {},
    {"reduction": "sum"},
    {"reduction": "none"},
    {"weight": [0.5, 1.0, 2.0, 0.0, 3.0]},
    {"ignore_index": 3},
]


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("kwargs", OPTIONS, ids=str)
def test_cross_entropy_of_a_linear_map_by_parts(
    torch: ModuleType, kwargs: dict[str, object], dtype: str
) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape).astype(dtype) for shape in ((7, 3), (5, 3), (5,))]
    target = np.array([0, 1, 2, 3, 4, -100, 2])
    found = []
    for t in (T, torch):
        x, w, b = tensors = [t.tensor(a, requires_grad=True) for a in arrays]
        more = {k: t.tensor(v, dtype=x.dtype) if k == "weight" else v for k, v in kwargs.items()}
        known = t.tensor(np.where(target < 0, 0, target) if "ignore_index" in kwargs else target)
        options = t.nn.LinearCrossEntropyOptions(batch_chunk_size=4)
        loss = t.nn.functional.linear_cross_entropy(x, w, known, linear_bias=b, options=options, **more)
        by = t.tensor(rng.normal(size=()), dtype=x.dtype) if not loss.ndim else t.ones_like(loss)
        found.append([loss, *t.autograd.grad(loss, tensors, t.full_like(by, 0.5))])
    assert_same(*found, str(kwargs), 10)


def test_parts_serve_one_backward_unless_they_are_to_be_retained() -> None:
    nn, x, w, target = T.nn, T.ones(3, 2, requires_grad=True), T.ones(4, 2), T.tensor([0, 1, 2])
    kept, once = (
        nn.functional.linear_cross_entropy(
            x, w, target, options=nn.LinearCrossEntropyOptions(allow_retain_graph=k)
        )
        for k in (True, False)
    )
    for loss in (kept, once):
        loss.backward(retain_graph=True)
    kept.backward()
    with pytest.raises(RuntimeError, match="chunked backward called twice"):
        once.backward()
