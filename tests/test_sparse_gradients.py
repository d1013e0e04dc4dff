"""Sparse gradients: of embeddings, as they add up, and what optimisers make of them, beside PyTorch's."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import T

AT = [[1, 2, 1], [0, 4, 2]]


def _table(torch: Any, kind: str = "Embedding", **options: Any) -> Any:
    made = getattr(torch.nn, kind)(6, 3, sparse=True, **options)
    with torch.no_grad():
        made.weight.copy_(torch.arange(18.0).reshape(6, 3).sin())
    return made


def _said(run: Callable[..., Any], *given: Any) -> str:
    try:
        return repr(run(*given))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def rows_that_were_named(torch: Any) -> list[str]:
    found = []
    for options in (
        {},
        {"padding_idx": 2},
        {"padding_idx": -5},
        {"scale_grad_by_freq": True},
        {"max_norm": 1.0},
    ):
        for at in AT, [2, 2], [], [3]:
            found.append(_said(_gradient, _table(torch, **options), torch.tensor(at, dtype=torch.int64)))
    return found


def _gradient(table: Any, *given: Any, **named: Any) -> Any:
    (table(*given, **named) ** 2).sum().backward()
    grad = table.weight.grad
    return grad, grad.is_coalesced(), grad.coalesce()


def how_they_add_up(torch: Any) -> list[str]:
    found, index = [], torch.tensor(AT)
    losses: list[Callable[[Any], Any]] = [
        lambda e: e(index).sum(),
        lambda e: (e(index[0]) ** 2).sum(),
        lambda e: (e(index) ** 2).sum() + e(index[1]).prod(),
        lambda e: (e(index) ** 2).sum() + (e.weight**2).sum(),
        lambda e: (e.weight**2).sum(),
    ]
    for first in losses:
        for second in losses:
            table = _table(torch)
            first(table).backward()
            before = table.weight.grad
            second(table).backward()
            found.append(f"{table.weight.grad} {table.weight.grad is before}")
            table.zero_grad(set_to_none=False)
            found.append(f"{table.weight.grad}")
    return found


def bags(torch: Any) -> list[str]:
    found = []
    index, offsets = torch.tensor([1, 2, 1, 0, 4, 2]), torch.tensor([0, 2, 2, 5])
    for options in (
        {"mode": "sum"},
        {"mode": "mean"},
        {"mode": "max"},
        {"mode": "mean", "padding_idx": 2},
        {"mode": "sum", "scale_grad_by_freq": True},
    ):
        table = _table(torch, "EmbeddingBag", **options)
        found.append(_said(_gradient, table, index, offsets))
    table, scale = _table(torch, "EmbeddingBag", mode="sum"), torch.ones(6, requires_grad=True)
    (table(index, offsets, per_sample_weights=scale) ** 2).sum().backward()
    return [*found, f"{table.weight.grad} {scale.grad}"]


def hooks_and_further_gradients(torch: Any) -> list[str]:
    table, index = _table(torch), torch.tensor(AT)
    (first,) = torch.autograd.grad((table(index) ** 3).sum(), table.weight, create_graph=True)
    (second,) = torch.autograd.grad(torch.sparse.sum(first), table.weight)
    found = [repr(first), repr(second)]
    handle = table.weight.register_hook(lambda g: g * 2)
    table.weight.register_post_accumulate_grad_hook(lambda p: found.append(repr(p.grad)))
    table(index).sum().backward()
    handle.remove()
    table.weight.register_hook(lambda g: g.to_dense())
    found.append(_said(lambda: table(index).sum().backward()))
    plain = torch.nn.Parameter(torch.zeros(6, 3))
    plain.grad = first.detach()
    found.append(repr(plain.grad))
    found.append(_said(lambda: setattr(plain, "grad", torch.ones(6, 3).to_sparse_csr())))
    return found


ROWS_ONLY: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {},
        {"momentum": 0.9},
        {"momentum": 0.9, "nesterov": True},
        {"momentum": 0.9, "dampening": 0.5, "maximize": True},
        {"weight_decay": 0.1},
        {"fused": True},
        {"differentiable": True},
    ],
    "Adagrad": [
        {},
        {"lr_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True},
        {"weight_decay": 0.1},
        {"fused": True},
    ],
    "SparseAdam": [{}, {"lr": 0.1, "betas": (0.5, 0.9), "maximize": True}, {"eps": 0.0}, {"lr": 0.0}],
    "LBFGS": [{}],
}
ROWS_ONLY |= {
    name: [{}]
    for name in [
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "ASGD",
        "Adadelta",
        "Adafactor",
        "Muon",
    ]
}


def optimisers(torch: Any) -> list[str]:
    torch.set_printoptions(precision=3, sci_mode=False)
    found = []
    for name, every in ROWS_ONLY.items():
        for options in every:
            found.append(f"{name} {options} " + _said(_trained, torch, name, options))
    torch.set_printoptions(profile="default")
    return found


def _trained(torch: Any, name: str, options: dict[str, Any]) -> Any:
    table = _table(torch)
    optimizer = getattr(torch.optim, name)(table.parameters(), **options)

    def loss() -> Any:
        optimizer.zero_grad()
        value = ((table(torch.tensor(AT)) - 1) ** 2).sum()
        value.backward()
        return value

    for _ in range(3):
        if name == "LBFGS":
            optimizer.step(loss)
        else:
            loss()
            optimizer.step()
    state = optimizer.state[table.weight] if name != "LBFGS" else {}
    return table.weight.detach(), dict(state)


def what_sparse_adam_refuses(torch: Any) -> list[str]:
    dense = torch.nn.Parameter(torch.zeros(3, 2))
    sparse = torch.eye(3).to_sparse().requires_grad_()
    numbers = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    optimizer = torch.optim.SparseAdam([dense], lr=0.1)
    found = [repr(optimizer)]
    for params in [sparse], [{"params": [dense]}, {"params": [sparse]}], [numbers], []:
        found.append(_said(torch.optim.SparseAdam, params))
    dense.grad = torch.ones(3, 2)
    found.append(_said(optimizer.step))
    dense.grad = torch.sparse_coo_tensor(torch.zeros(1, 0, dtype=torch.int64), torch.zeros(0, 2), (3, 2))
    optimizer.step()
    found.append(repr(optimizer.state_dict()))
    return found


def bounds_of_gradients(torch: Any) -> list[str]:
    table = _table(torch)
    table(torch.tensor(AT)).sum().backward()
    clip = torch.nn.utils
    said = [_said(lambda: clip.clip_grad_norm_(table.parameters(), 1.0))]
    said.append(_said(lambda: clip.clip_grad_value_(table.parameters(), 1.0)))
    return [text[:90] for text in said]


BESIDE = [
    rows_that_were_named,
    how_they_add_up,
    bags,
    hooks_and_further_gradients,
    optimisers,
    what_sparse_adam_refuses,
    bounds_of_gradients,
]


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", BESIDE, ids=lambda program: str(program.__name__))
def test_is_as_in_pytorch(program: Callable[[Any], list[str]]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = program(T), program(torch)
    assert len(ours) == len(theirs) and ours
    for own, their in zip(ours, theirs):
        assert own == their


def test_a_step_touches_the_rows_that_were_named_alone() -> None:
    table = T.nn.Embedding(1000, 2, sparse=True)
    before = table.weight.detach().clone()
    for make in (
        lambda p: T.optim.SGD(p, lr=0.1),
        lambda p: T.optim.Adagrad(p, lr=0.1),
        lambda p: T.optim.SparseAdam(p, lr=0.1),
    ):
        optimizer = make(table.parameters())
        optimizer.zero_grad()
        table(T.tensor([3, 999, 3])).sum().backward()
        assert table.weight.grad._values().shape == (3, 2)
        optimizer.step()
    moved = (table.weight.detach() != before).any(1).nonzero().reshape(-1)
    assert moved.tolist() == [3, 999]


def test_a_table_that_was_computed_has_a_dense_gradient() -> None:
    w = T.ones(4, 2, requires_grad=True)
    T.nn.functional.embedding(T.tensor([1, 1]), w * 2, sparse=True).sum().backward()
    assert not w.grad.is_sparse and w.grad.tolist() == [[0.0, 0.0], [4.0, 4.0], [0.0, 0.0], [0.0, 0.0]]


def test_the_gradient_does_not_follow_the_indices() -> None:
    table, index = T.nn.Embedding(4, 2, sparse=True), T.tensor([1, 2])
    out = table(index)
    out.sum().backward()
    index.fill_(0)
    assert table.weight.grad.coalesce().indices().tolist() == [[1, 2]]


def _steps(compiled: bool) -> list[float]:
    T.manual_seed(0)
    table, line = T.nn.Embedding(4, 2, sparse=True), T.nn.Linear(2, 1)
    optimizer = T.optim.SGD([*table.parameters(), *line.parameters()], lr=0.1)

    def step(index: Any) -> Any:
        optimizer.zero_grad()
        loss = (line(table(index)) ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = T.compile(step) if compiled else step
    return [run(T.tensor([k % 4, 1, 2 * k % 4])).item() for k in range(5)]


def test_a_compiled_step_does_the_same() -> None:
    assert _steps(True) == _steps(False)


def test_a_scaler_divides_them() -> None:
    table, scaler = T.nn.Embedding(3, 2, sparse=True), T.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = T.optim.SGD(table.parameters(), lr=1.0)
    before = table.weight.detach().clone()
    scaler.scale(table(T.tensor([1, 1])).sum()).backward()
    scaler.step(optimizer)
    moved = (before - table.weight.detach()).round(decimals=4)
    assert moved.tolist() == [[0.0, 0.0], [2.0, 2.0], [0.0, 0.0]]
