"""Functions that no program holds as a whole: what is between their breaks is compiled, and all of it does as eager does."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from typing import Any

import pytest

import nbgrad as T
from nbgrad.compiled import capture
from tests.compiled import breaks, users
from tests.compiled.test_compile import bits, leaf, programs

F = T.nn.functional
WHOLE = {"schedule", "clipping", "accumulation", "train_eval", "shape_branches", "views_returned", "vae"}
WHOLE |= {"functional", "warmup_number"}


@pytest.mark.slow
@pytest.mark.parametrize("name", users.PROGRAMS)
def test_programs_of_users(name: str) -> None:
    """`python -m tests.compiled.users` says what becomes of each."""
    eager, _, _ = users.run(name, False)
    compiled, made, _ = users.run(name, True)
    assert [a == b for a, b in zip(eager, compiled)] == [True] * (users.STEPS + 1)
    if name in WHOLE:
        assert [users.state_of(c)[0] for c in made] == ["whole"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_functions_with_breaks(seed: int) -> None:
    """`python -m tests.compiled.breaks` runs more of them."""
    assert not breaks.difference(seed)[0]


def test_a_module_by_a_name_that_no_import_gave_it() -> None:
    """`F = torch.nn.functional`, as here: Python compiles `F.relu(x)` otherwise than after an `import ... as F`."""

    def step(x: Any) -> float:
        return F.relu(x).sum().item()  # type: ignore[no-any-return]

    compiled = T.compile(step)
    for _ in range(8):
        x = T.randn(4)
        assert compiled(x) == step(x)
    assert programs(compiled) == 1


def test_a_number_that_is_read_at_the_end() -> None:
    w = leaf(4)

    def step(x: Any) -> float:
        loss = ((x * w) ** 2).sum()
        w.grad = None
        loss.backward()
        return loss.item()  # type: ignore[no-any-return]

    compiled = T.compile(step)
    for _ in range(8):
        x = T.randn(4)
        want = step(x), bits(w.grad)
        got = compiled(x)
        assert (got, bits(w.grad)) == want and type(got) is float
    assert programs(compiled) == 1 and "the gradient of `w`" in compiled.graph()
    with pytest.raises(RuntimeError, match=r"a value is read \(.*test_parts.py:\d+, in step\)"):
        T.compile(step, fullgraph=True)(x)


def test_both_sides_of_a_branch() -> None:
    taken: list[str] = []

    def f(x: Any, out: list[Any]) -> Any:
        y = (x * 3).tanh()
        if y.sum() > 0:
            taken.append("up")
            z = y.exp() + x
        else:
            z = y - x
            out.append(z.mean().item())
        return z * y

    compiled = T.compile(f)
    mine: list[Any] = []
    theirs: list[Any] = []
    for k in range(24):
        x = T.randn(5) + (1 if k % 3 else -1)
        assert bits(f(x, mine)) == bits(compiled(x, theirs))
    assert mine == theirs and len(taken) % 2 == 0 and programs(compiled) >= 3


def test_names_that_may_have_no_value() -> None:
    def f(x: Any, flag: Any) -> Any:
        y = x * 2
        if flag.item():
            z = y + 1
        return z * y

    compiled = T.compile(f)
    yes, no, x = T.tensor(True), T.tensor(False), T.ones(2)
    for _ in range(6):
        assert bits(compiled(x, yes)) == bits(f(x, yes))
        with pytest.raises(UnboundLocalError, match="'z'"):
            compiled(x, no)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'flag'"):
        compiled(x)


def test_closures_defaults_and_loops() -> None:
    scale = 2.0

    def make() -> Any:
        count = 0

        def f(x: Any, *more: Any, start: int = 1, **named: Any) -> Any:
            nonlocal count
            count += 1
            total = x * scale
            for k, m in enumerate(more):
                if k == 2:
                    continue
                total = total + m * named["by"]
                if total.max() > 100:
                    break
            pick = [t.sum() for t in more]
            return total + start, count, sum(pick)

        return f

    one, two = make(), T.compile(make())
    for k in range(12):
        given = [T.full((3,), float(j + k)) for j in range(4)]
        if k == 8:
            scale = 3.0
        a, b = one(T.ones(3), *given, by=2, start=k % 2), two(T.ones(3), *given, by=2, start=k % 2)
        assert bits(a[0], a[2]) == bits(b[0], b[2]) and a[1] == b[1] == k + 1


def test_a_piece_that_gains_little_is_left_alone() -> None:
    """Two small kernels and their gradients are done before a program is looked up; large ones are not."""

    def of(size: int) -> Any:
        w = T.ones(size, requires_grad=True)

        def f(x: Any) -> Any:
            y = (x * w).sum()
            if y.item() > 1e9:
                return y
            return (y * w).sum()

        return f, T.compile(f), T.randn(size)

    for size, count in ((8, 0), (8192, 2)):
        f, compiled, x = of(size)
        for _ in range(12):
            assert bits(f(x)) == bits(compiled(x))
            compiled(x).backward()
        assert compiled.explain().graph_count == count, compiled.explain()


def test_what_a_break_calls_is_compiled_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Block(T.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = T.nn.Linear(3, 3)
            self.seen = 0

        def forward(self, x: Any) -> Any:
            h = self.linear(x).tanh()
            if h.max() > 0.5:
                self.seen += 1
                h = h * 0.5 + h.exp() * 0.1
            return h + x

    T.manual_seed(0)
    monkeypatch.setattr(capture, "_LITTLE", 0)  # which else would leave the linear layer alone
    model = T.nn.Sequential(Block(), T.nn.Linear(3, 3), Block())
    compiled = T.compile(model)
    x = T.randn(2, 3)
    for k in range(12):
        told = []
        for call in (model, compiled):
            model.zero_grad()
            with contextlib.redirect_stdout(io.StringIO()):
                (call(x) ** 2).sum().backward()
            told.append(bits(*[p.grad for p in model.parameters()]))
        assert told[0] == told[1], k
    assert model[0].seen + model[2].seen > 0 and model[0].seen % 2 == 0
    assert compiled.compiled.explain().graph_count >= 4


def test_a_backward_of_what_came_with_a_history() -> None:
    w = leaf(3)
    optimizer = T.optim.SGD([w], lr=0.1)

    @T.compile
    def finish(loss: Any) -> Any:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach() * 2

    other = w.detach().clone().requires_grad_()
    for _ in range(8):
        x = T.randn(3)
        finish((w * x).exp().sum())
        other.grad = None
        (other * x).exp().sum().backward()
        other.data -= 0.1 * other.grad
        assert T.allclose(w, other)
    assert finish.explain().graph_count >= 1


def test_results_that_are_views() -> None:
    w = leaf(4, 4)

    def f(x: Any, base: Any) -> Any:
        y = x * 2
        return x[1:], y.t(), y[0], x.detach(), base[:, 1], w[0], w.detach()

    compiled = T.compile(f, fullgraph=True)
    for _ in range(8):
        x, base = leaf(3, 4), T.randn(4, 3).t()
        told = []
        for call in (f, compiled):
            with T.no_grad():
                kept = call(x, base)
                kept[4].add_(1)
            told.append(
                [
                    (
                        bits(t),
                        t.stride(),
                        t._is_view(),
                        t._version,
                        t.requires_grad,
                        t.is_leaf,
                        t.storage_offset(),
                    )
                    for t in kept[:4]
                ]
            )
            assert kept[3].data_ptr() == x.data_ptr() and kept[1].data_ptr() == kept[2].data_ptr()
            assert kept[1]._base is kept[2]._base and kept[5]._base is w and kept[4]._base is base._base
            with pytest.raises(RuntimeError, match="no_grad mode"):
                kept[0].mul_(2)
        assert told[0] == told[1]
    assert programs(compiled) == 1


def test_views_that_are_gone_back_through() -> None:
    w = leaf(4, 4)
    f = T.compile(lambda x: (x.t(), w[1:3], (x * w).sum()), fullgraph=True)
    for k in range(8):
        x, grads = leaf(4, 4), []
        for call in (lambda x: (x.t(), w[1:3], (x * w).sum()), f):
            x.grad = w.grad = None
            a, b, c = call(x)
            assert a._base is x and b._base is w and a._version == x._version
            ((a * 2).exp().sum() + (b * b).sum() + c).backward()
            grads.append(bits(x.grad, w.grad))
        assert grads[0] == grads[1], k
    assert programs(f) == 1


def test_threads_call_one_function_that_is_cut() -> None:
    def f(x: Any) -> Any:
        y = (x * 2).sigmoid()
        return y.sum().item() + (y * 3).tanh().sum().item()

    compiled = T.compile(f)
    given = [T.randn(50) for _ in range(8)]
    want = [f(x) for x in given]
    for _ in range(6):
        compiled(given[0])
    wrong: list[int] = []

    def run(k: int) -> None:
        for _ in range(40):
            if compiled(given[k]) != want[k]:
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and programs(compiled) >= 1


def test_what_cannot_be_cut_is_left_as_it_is() -> None:
    def looks(x: Any) -> Any:
        y = x + 1
        return y * len(locals()) * y.sum().item()

    def gives(x: Any) -> Any:
        yield x.sum().item()

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        one, two = T.compile(looks), T.compile(gives)
        for _ in range(4):
            assert bits(one(T.ones(2))) == bits(looks(T.ones(2)))
            assert [*two(T.ones(2))] == [2.0]
    assert len(told) == 1 and "runs `" in str(told[0].message)


def test_what_is_to_be_left_out() -> None:
    seen: list[float] = []

    @T.compiler.disable
    def note(x: Any) -> Any:
        seen.append(1.0)
        return x * 2

    def f(x: Any) -> Any:
        y = note((x + 1).exp())
        T._dynamo.graph_break()
        return (y * 3).tanh()

    compiled = T.compile(f)
    for k in range(10):
        assert bits(compiled(T.ones(2) * k)) == bits(f(T.ones(2) * k))
    assert len(seen) == 20 and note.__name__ == "note" and programs(compiled) >= 2
    with pytest.raises(RuntimeError, match=r"left out of programs \(.*test_parts.py:\d+, in f\)"):
        T.compile(f, fullgraph=True)(T.ones(2))
