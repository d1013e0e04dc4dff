"""What a node has kept for backward: its names, and what becomes of it when it is written to."""

from types import ModuleType
from typing import Any

import pytest

from tests.support import T


@pytest.mark.parametrize(
    "write",
    [
        lambda b: b[:, 1].zero_(),
        lambda b: b.view(-1)[::2].sin_(),
        lambda b: b.detach().zero_(),
        lambda b: b.data.zero_(),
        lambda b: b.fill_(2).mul_(3),
    ],
    ids=["column", "every other", "detached", "data", "twice"],
)
def test_mutation_of_saved_tensors_through_any_view(write: object) -> None:
    """PyTorch 2.13 copies what was saved from the very address that is written to; of the rest the gradient is wrong there."""
    if T.__name__ != "nbgrad":
        pytest.skip("ours alone")
    with T.autograd.graph.allow_mutation_on_saved_tensors():
        a = T.arange(6.0).reshape(2, 3).requires_grad_()
        b = a.clone()
        y = (b[0] * b[1]).sum() + (b * b).sum()
        write(b)
        y.backward()
    assert a.grad.tolist() == [[3.0, 6.0, 9.0], [6.0, 9.0, 12.0]]


@pytest.mark.oracle
def test_edges_and_saved_names(torch: ModuleType) -> None:
    """A node has an edge for each operand that PyTorch's has one for, and its saved sizes go by PyTorch's names."""

    def seen(module: ModuleType) -> list[Any]:
        x, y, z = (module.ones(2, 3, requires_grad=True) for _ in range(3))
        rows = module.tensor([0, 1])
        made = [
            module.addcmul(x, y, z, value=2),
            module.lerp(x, y, 0.3),
            module.where(x > 0, x, y),
            x.clamp(0, 1),
            x.pow(2.5),
            2**x,
            1 - x,
            x + 1,
            x.masked_fill(x > 0, 1.0),
            module.nn.functional.embedding(rows, x),
            module.nn.functional.nll_loss(x, rows),
            module.nn.functional.elu(x),
        ]
        sizes = [
            t.grad_fn._saved_self_sym_sizes for t in (x.sum(), x.sum(0), x.view(6), x.expand(2, 3), x[0])
        ]
        return [[len(t.grad_fn.next_functions) for t in made], sizes, x.sum(1).grad_fn._saved_dim]

    assert seen(T) == seen(torch)


SETTINGS = {
    "alpha": ("x + 1", "x.add(y, alpha=2.5)", "x - y", "y.sub(x, alpha=3)", "1 - x"),
    "negative_slope": ("F.leaky_relu(x)", "F.leaky_relu(x * 1, 0.5, True)"),
    "min_val": ("F.hardtanh(x, -0.5, 2.0)",),
    "max_val": ("F.hardtanh(x, -0.5, 2.0)",),
    "scale": ("F.elu(x)", "F.selu(x)"),
    "input_scale": ("F.elu(x, 0.5)",),
    "approximate": ("F.gelu(x)", "F.gelu(x, approximate='tanh')"),
    "exponent": ("x**2", "x**3", "x**0.5", "x**2.5", "x.square()"),
    "min": ("x.clamp(0.5, 1.0)", "x.clamp_min(0.25)"),
    "n": ("x.polygamma(2)",),
    "p": ("(x + 3).mvlgamma(2)",),
    "eps": ("x.logit()",),
    "dim": (
        "M.cat([x, y], 1)",
        "M.stack([x, y])",
        "x.unbind(1)[0]",
        "x.split(1)[0]",
        "x.split([1, 2], 1)[0]",
        "x.sum(1)",
    ),
    "split_size": ("x.split(2, 1)[0]",),
    "split_sizes": ("x.split([1, 2], 1)[0]",),
    "end": ("x[0:1]",),
    "reduce": ("x.scatter_reduce(0, i, y, 'mean')",),
    "include_self": ("x.scatter_reduce(0, i, y, 'amax', include_self=False)",),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", SETTINGS)
def test_settings_go_by_pytorchs_names(torch: ModuleType, name: str) -> None:
    def seen(M: ModuleType) -> list[Any]:
        names: dict[str, Any] = {"M": M, "F": M.nn.functional, "i": M.zeros(2, 3, dtype=M.int64)}
        names |= {"x": M.full((2, 3), 0.25, requires_grad=True), "y": M.ones(2, 3, requires_grad=True)}
        nodes = [eval(text, names).grad_fn for text in SETTINGS[name]]
        assert all(f"_saved_{name}" in dir(node) for node in nodes)
        return [getattr(node, f"_saved_{name}") for node in nodes]

    assert seen(T) == seen(torch)
