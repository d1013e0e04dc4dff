"""What a kernel on a device could not do is raised by the next call that waits, in the words of the CPU. In processes of their own."""

import pytest

from tests.cuda.test_emulated import run

_PROGRAM = """
import nbgrad as torch

F, there = torch.nn.functional, torch.device("cuda", 0)
x, v, ones = torch.arange(12.0).reshape(3, 4), torch.arange(5.0), torch.ones(1, 4)
CALLS = (
    lambda to, at: to(x)[at(0, 7)],
    lambda to, at: to(x)[at(0), at(4)],
    lambda to, at: to(x).t()[at(-5)],
    lambda to, at: to(x).gather(1, at(9).reshape(1, 1)),
    lambda to, at: to(x).scatter(0, at(1, 3, 0, 0).reshape(1, 4), to(ones)),
    lambda to, at: to(x).index_select(0, at(3)),
    lambda to, at: to(x).index_select(1, at(-1)),
    lambda to, at: to(x).index_add(0, at(5), to(ones)),
    lambda to, at: to(v).index_add(0, at(5), to(v)[:1]),
    lambda to, at: to(x).index_copy(0, at(6), to(ones)),
    lambda to, at: to(x).index_fill(1, at(2, -7), 1.0),
    lambda to, at: to(x).take(at(3, 12)),
    lambda to, at: to(x).t().take(at(3, -13)),
    lambda to, at: to(x).put(at(99), to(v)[:1]),
    lambda to, at: to(x).index_put((at(8),), to(ones), accumulate=True),
)

for k, call in enumerate(CALLS):
    try:
        call(lambda t: t, lambda *values: torch.tensor(values))
    except (IndexError, RuntimeError) as error:
        want = error
    else:
        print(k, "is fine")
    got = call(lambda t: t.to(there), lambda *values: torch.tensor(values, device=there))
    try:
        got.cpu()
    except type(want) as error:
        assert str(error).startswith(f"{want} (in an earlier call"), (k, error, want)
    else:
        print(k, "is not told:", want)
    assert float(x.to(there).sum()) == 66  # told once; the device goes on
"""


def test_an_index_that_leads_nowhere_is_told_to_who_waits() -> None:
    for emulate in "1", "deferred":
        assert run("-c", _PROGRAM, emulate=emulate) == ""


_LOSSES = """
import nbgrad as torch

F, there = torch.nn.functional, torch.device("cuda", 0)
rows = torch.arange(15.0).reshape(3, 5)
CALLS = (
    lambda to, at: F.cross_entropy(to(rows), at(0, 5, 1)),
    lambda to, at: F.cross_entropy(to(rows), at(0, -1, 1), weight=to(rows)[0]),
    lambda to, at: F.nll_loss(to(rows), at(4, 7, 1), reduction="none"),
    lambda to, at: F.embedding(at(2, 3), to(rows)),
    lambda to, at: F.embedding(at(-1, 0), to(rows)),
)

for k, call in enumerate(CALLS):
    try:
        call(lambda t: t, lambda *values: torch.tensor(values))
    except IndexError as error:
        want = error
    got = call(lambda t: t.to(there), lambda *values: torch.tensor(values, device=there))
    try:
        got.tolist()
    except IndexError as error:
        assert str(error).startswith(f"{want} (in an earlier call"), (k, error, want)
    else:
        print(k, "is not told:", want)

table = rows.to(there).requires_grad_()
F.embedding(torch.tensor([2, 9, 2], device=there), table).sum().backward()
try:
    table.sum().item()
except IndexError:
    assert table.grad.sum(1).tolist() == [0, 0, 10]  # what was in bounds has its gradient
else:
    print("not told by item")
"""


def test_a_class_or_a_row_that_is_none_is_told_to_who_waits() -> None:
    for emulate in "1", "deferred":
        assert run("-c", _LOSSES, emulate=emulate) == ""


_BLOCKING = """
import nbgrad as torch

x = torch.ones(3, device="cuda")
try:
    x[torch.tensor([4], device="cuda")]
except IndexError as error:
    print(error)
"""


def test_a_launch_that_is_waited_for_raises_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert (
        run("-c", _BLOCKING, emulate="deferred") == "index 4 is out of bounds for dimension 0 with size 3\n"
    )


_ALIKE = """
import nbgrad as torch
from nbgrad.kernels.cuda.emulated import ORDERS
from nbgrad.memory import backend

torch.manual_seed(0)
at, values = torch.randint(4, (500,)), torch.randn(500)
want = torch.zeros(4).index_add(0, at, values)
there = [t.to("cuda") for t in (torch.zeros(4), at, values)]
torch.use_deterministic_algorithms(True)
for backend.of(torch.device("cuda", 0)).driver.order in ORDERS:
    got = there[0].index_add(0, there[1], there[2])
    assert torch.equal(got.cpu(), want)
torch.use_deterministic_algorithms(False)
assert torch.allclose(there[0].index_add(0, there[1], there[2]).cpu(), want, atol=1e-5)
"""


def test_sums_are_the_same_each_time_where_that_is_wanted() -> None:
    assert run("-c", _ALIKE) == ""


_APART = """
import nbgrad as torch

x, at = torch.arange(12.0).reshape(3, 4), torch.tensor([0, 1])
there, at_there = x.to("cuda"), at.to("cuda")
assert there[at].equal(there[at_there]) and there[x > 3].numel() == 8
there.clone()[at] = x[0, 0]
for call, words in (
    (lambda: x[at_there], "indices should be either on cpu or on the same device as the indexed tensor (cpu)"),
    (lambda: there.gather(0, at[None]), "Expected all tensors to be on the same device"),
    (lambda: there.index_select(0, at), "Expected all tensors to be on the same device"),
    (lambda: there.index_add(0, at_there, x[:2]), "Expected all tensors to be on the same device"),
    (lambda: there.masked_select(x > 0), "Expected all tensors to be on the same device"),
    (lambda: there.__setitem__(at, x[:2]), "Expected all tensors to be on the same device"),
):
    try:
        call()
    except RuntimeError as error:
        assert words in str(error), error
    else:
        print("not refused:", words)
"""


def test_indices_between_brackets_may_be_on_the_cpu() -> None:
    assert run("-c", _APART) == ""
