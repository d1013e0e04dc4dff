"""Compiled functions against the functions themselves: every bit, every effect, every error."""

from __future__ import annotations

import collections
import contextlib
import copy
import signal
import sys
import threading
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nbgrad as T
from nbgrad.compiled import capture, proof
from nbgrad.compiled.graph import Strange
from tests.compiled.programs import difference

F = T.nn.functional
scale = 2.0
calls: list[int] = []


def bits(*tensors: Any) -> list[bytes]:
    return [t.detach().numpy().tobytes() for t in tensors]


def leaf(*shape: int) -> Any:
    return T.randn(*shape).requires_grad_()


def programs(f: Any) -> int:
    found: int = f.explain().graph_count
    return found


def mlp(optimizer: Callable[..., Any]) -> tuple[Callable[[], Any], list[Any], Any]:
    T.manual_seed(0)
    model = T.nn.Sequential(T.nn.Linear(6, 5), T.nn.ReLU(), T.nn.Linear(5, 3))
    made = optimizer(model.parameters())
    x, y = T.randn(8, 6), T.tensor([0, 1, 2, 0, 1, 2, 0, 1])

    def step() -> Any:
        loss = F.cross_entropy(model(x), y)
        made.zero_grad()
        loss.backward()
        made.step()
        return loss

    return step, list(model.parameters()), made


OPTIMIZERS = {
    "SGD": lambda p: T.optim.SGD(p, lr=0.1),
    "momentum": lambda p: T.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "Adam": lambda p: T.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: T.optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: T.optim.RMSprop(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step(name: str) -> None:
    (eager, here, first), (step, there, second) = mlp(OPTIMIZERS[name]), mlp(OPTIMIZERS[name])
    compiled = T.compile(step, fullgraph=True)
    for k in range(20):
        if k in (8, 9, 15):  # by hand: a rate, a parameter in place
            for made, params in ((first, here), (second, there)):
                made.param_groups[0]["lr"] *= 0.5
                with T.no_grad():
                    params[0].mul_(1.01)
        a, b = eager(), compiled()
        assert bits(a, *here, *[p.grad for p in here]) == bits(b, *there, *[p.grad for p in there]), k
    assert [p._version for p in here] == [p._version for p in there]
    assert programs(compiled) == 1 and b.grad_fn.name() == a.grad_fn.name()
    with pytest.raises(RuntimeError, match="a second time"):
        b.backward()


def test_gradients_add_up_and_are_the_callers() -> None:
    w, x = leaf(4), T.randn(4)
    step = T.compile(lambda: (w * x).tanh().sum().backward(), fullgraph=True)
    kept = []
    for k in range(8):
        if k % 2 == 0:
            w.grad = None
        step()
        assert w.grad is not None
        kept.append((w.grad.clone(), w.grad))
    assert programs(step) == 2
    for k in range(0, 8, 2):
        assert T.equal(kept[k + 1][0], 2 * kept[k][0]) and kept[k][1] is kept[k + 1][1]


def test_results_are_never_overwritten() -> None:
    f = T.compile(lambda x: {"y": x + 1, "z": (x * 2, 5)}, fullgraph=True)
    kept = [f(T.full((3,), float(k))) for k in range(8)]
    assert [r["y"].tolist() for r in kept] == [[k + 1.0] * 3 for k in range(8)]
    assert [r["z"][0].tolist() for r in kept] == [[2.0 * k] * 3 for k in range(8)] and programs(f) == 1


def broken_at(f: Callable[..., Any], *args: Any) -> str:
    """Why a function is not one program; its effects must have come each time."""
    compiled = T.compile(f)
    for _ in range(7):
        compiled(*args)
    assert compiled.explain().graph_break_count
    return str(compiled.explain().reasons)


def test_effects_on_python_are_kept() -> None:
    seen: list[Any] = []

    class Counter:
        count = 0

    counter = Counter()

    def appends(x: Any) -> Any:
        seen.append(1)
        return x + 1

    def counts(x: Any) -> Any:
        counter.count += 1
        return x * 2

    def keeps(x: Any) -> Any:
        seen.append(x + 1)
        return x

    x = T.ones(2)
    assert "seen" in broken_at(appends, x) and len(seen) == 7
    assert "count" in broken_at(counts, x) and counter.count == 7
    broken_at(keeps, x)
    assert len(seen) == 14
    with pytest.warns(UserWarning, match="print"):
        broken_at(lambda x: print(end="") or x + 1, x)


def test_random_numbers_are_those_of_the_stream() -> None:
    def f(x: Any) -> Any:
        noise = (
            T.rand(4)
            + T.randn_like(x)
            + T.randn(20).sum()
            + T.empty(4).exponential_()
            + T.empty(2, 2).normal_(1, 2).sum()
        )
        return F.dropout(x, 0.5) * noise + T.randint(0, 5, (4,)) + T.randperm(4), T.rand(2)

    compiled = T.compile(f, fullgraph=True)
    for seed in range(9):
        told = []
        for call in (f, compiled):
            T.manual_seed(seed)
            told.append(bits(*call(T.ones(4)), *call(T.ones(4)), T.randn(3)))
        assert told[0] == told[1]
    assert programs(compiled) == 1
    generator = T.Generator().manual_seed(1)
    drawn = T.compile(lambda: T.rand(3, generator=generator), fullgraph=True)
    got = [drawn().tolist() for _ in range(6)]
    generator.manual_seed(1)
    assert got == [T.rand(3, generator=generator).tolist() for _ in range(6)]
    with pytest.raises(RuntimeError, match="state of random numbers"):
        T.compile(lambda: T.manual_seed(1) and T.rand(3), fullgraph=True)()


def test_values_that_are_read() -> None:
    def f(x: Any) -> Any:
        return x + 1 if x.sum() > 0 else x - 1

    assert "a value is read (" in broken_at(f, T.ones(2)) and "test_compile.py" in broken_at(f, T.ones(2))
    with pytest.raises(RuntimeError, match=r"a value is read \(.*test_compile.py:\d+, in f\)"):
        T.compile(f, fullgraph=True)(T.ones(2))


def test_what_python_reads_is_watched() -> None:
    global scale

    class Config:
        rate = 3.0

    config, table = Config(), {"a": [1.0]}

    def f(x: Any) -> Any:
        return x * scale * config.rate * table["a"][0] + T.get_default_dtype().itemsize

    compiled = T.compile(f)
    x = T.ones(2)

    def same() -> None:
        for _ in range(4):
            assert compiled(x).tolist() == f(x).tolist()

    same()
    assert programs(compiled) == 1
    scale = 4.0
    same()
    Config.rate = 5.0
    same()
    config.rate = 6.0
    same()
    table["a"][0] = 2.0
    same()
    scale = 2.0
    assert programs(compiled) == 5


def test_arguments_are_told_apart() -> None:
    f = T.compile(lambda x, k=1, flag=False: x * k if flag else x + k)
    tensors = T.ones(2), T.ones(3), T.ones(2, dtype=T.float64), T.ones(2, 2).t()
    for _ in range(4):
        for x, k, flag in [
            *[(x, 1, False) for x in tensors],
            (tensors[0], 1.0, False),
            (tensors[0], 1, True),
        ]:
            want = x * k if flag else x + k
            got = f(x, k, flag=flag)
            assert got.tolist() == want.tolist() and got.dtype is want.dtype
    assert programs(f) == 6


@pytest.mark.filterwarnings("ignore:nbgrad.compile runs")
def test_what_keeps_changing_is_named() -> None:
    f = T.compile(lambda x, k: x * len(range(k)))
    for k in range(40):
        assert f(T.ones(2), k).tolist() == [k, k]
    assert "`args[1]` keeps changing, and is no input: `index` looks at it" in str(f.explain())
    h = T.compile(lambda x, k: x + int(k))
    for k in "0123456789" * 4:
        assert h(T.ones(2), k).tolist() == [int(k) + 1] * 2
    assert "`args[1]` ('" in str(h.explain()) and "keeps changing" in str(h.explain())
    g = T.compile(lambda x: x + 1)
    for k in range(1, 40):
        g(T.ones(k))
    assert "`args[0]` (torch.float32 of [" in str(g.explain())


def test_writes_in_place_and_views() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x + 1
        z[1:].mul_(y[0])
        y.add_(z.sum())
        return z.reshape(2, 2).t().contiguous()

    compiled, there, here = T.compile(f, fullgraph=True), T.ones(2), T.ones(2)
    for k in range(8):
        x = T.full((4,), float(k))
        assert bits(compiled(x, there)) == bits(f(x, here)) and bits(there) == bits(here)
    assert there._version == here._version and programs(compiled) == 1
    base = T.ones(6)
    for _ in range(3):
        same = base.clone()
        assert bits(compiled(base[:4], base[1:3])) == bits(f(same[:4], same[1:3])) and bits(base) == bits(
            same
        )


def test_errors_are_those_of_the_function() -> None:
    y = T.tensor([0, 1])
    f = T.compile(lambda x: F.cross_entropy(x, y), fullgraph=True)
    x = T.randn(2, 3)
    for _ in range(5):
        assert f(x).item() == F.cross_entropy(x, y).item()
    y[0] = 7
    with pytest.raises(IndexError, match="Target 7 is out of bounds"):
        f(x)
    y[0] = 2
    assert f(x).item() == F.cross_entropy(x, y).item() and programs(f) == 1


def test_values_that_a_loss_has_to_judge() -> None:
    y = T.tensor([0.0, 1.0, 0.5])
    given = T.compile(lambda x: F.binary_cross_entropy(x, y), fullgraph=True)
    made = T.compile(lambda x: F.binary_cross_entropy((x * 2).sigmoid() * 1, y) + x.sum(), fullgraph=True)
    for _ in range(7):
        x = T.rand(3)
        assert bits(given(x)) == bits(F.binary_cross_entropy(x, y))
        assert bits(made(x)) == bits(F.binary_cross_entropy((x * 2).sigmoid() * 1, y) + x.sum())
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        given(T.tensor([0.5, 2.0, 0.1]))
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        made(T.tensor([0.5, float("nan"), 0.1]))
    y[0] = 3
    with pytest.raises(RuntimeError, match="all elements of target should be between 0 and 1"):
        given(x)
    y[0] = 1
    assert bits(given(x)) == bits(F.binary_cross_entropy(x, y)) and programs(given) == programs(made) == 1


def test_batch_norm_keeps_its_statistics() -> None:
    T.manual_seed(0)
    one, two = T.nn.BatchNorm1d(3), T.nn.BatchNorm1d(3)
    f = T.compile(lambda x: (two(x) ** 2).sum().backward(), fullgraph=True)
    for k in range(10):
        if k == 6:
            one.eval(), two.eval()
        x = T.randn(5, 3)
        one.zero_grad(), two.zero_grad()
        (one(x) ** 2).sum().backward()
        f(x)
        assert bits(*one.state_dict().values()) == bits(*two.state_dict().values()), k
        assert bits(*[p.grad for p in one.parameters()]) == bits(*[p.grad for p in two.parameters()]), k


@pytest.mark.parametrize("size", [7, 40000])
def test_threads_call_one_function(size: int) -> None:
    f = T.compile(lambda x, y: ((x * y).sigmoid() + x).sum(), fullgraph=True)
    pairs = [(T.randn(size), T.randn(size)) for _ in range(8)]
    want = [((x * y).sigmoid() + x).sum().item() for x, y in pairs]
    for _ in range(4):
        f(*pairs[0])
    wrong: list[int] = []

    def run(k: int) -> None:
        for _ in range(60):
            if f(*pairs[k]).item() != want[k]:
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and programs(f) == 1


def test_interrupted_calls_are_none_that_made_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    f = T.compile(lambda x: x + 1, fullgraph=True)
    with monkeypatch.context() as patch:
        patch.setattr(capture, "record", interrupted)
        for _ in range(40):
            with pytest.raises(KeyboardInterrupt):
                f(T.ones(1))
    assert [f(T.ones(1)).item() for _ in range(4)] == [2.0] * 4 and programs(f) == 1


@pytest.mark.parametrize("count", [1, 8])
def test_what_other_threads_may_have_done_is_tried_more_often(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    f = T.compile(lambda x: x + 1, fullgraph=True)
    kept: list[Any] = []
    holding = f._make

    def make(*args: Any) -> None:
        kept.append(args)
        if len(kept) <= 6:
            raise Strange("a tensor is used that no name leads to")
        holding(*args)

    monkeypatch.setattr(f, "_make", make)
    monkeypatch.setattr(threading, "active_count", lambda: count)
    if count == 1:
        with pytest.raises(RuntimeError, match="a tensor is used that no name leads to"):
            [f(T.ones(1)) for _ in range(16)]
    else:
        assert [f(T.ones(1)).item() for _ in range(16)] == [2.0] * 16 and programs(f) == 1


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_two_threads_record_one_program() -> None:
    """What a kernel found wrong each thread has a place of its own for."""
    y = T.tensor([0, 1])
    f = T.compile(lambda x: T.nn.functional.cross_entropy(x, y), fullgraph=True)
    for k in range(4):
        thread = threading.Thread(target=f, args=(T.randn(2, 3),))
        thread.start()
        thread.join()
        assert programs(f) == (k >= 2), k


def test_a_call_beside_one_who_learns_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would not be taken from it again, and whoever learns would wait for as long as it runs."""
    f, slept = T.compile(lambda x: x + 1), list[float]()
    monkeypatch.setattr(proof.time, "sleep", slept.append)
    with f._learning:
        assert f(T.ones(1)).item() == 2 and not slept
        proof.threads.halt(f)
        try:
            assert f(T.ones(1)).item() == 2 and slept == [proof._PAUSE]
        finally:
            proof.threads.go_on(f)
    assert sys.getswitchinterval() < proof._LONG


@pytest.mark.parametrize("size", [8, 300])
def test_learns_while_another_thread_makes_tensors(size: int) -> None:
    """They are not taken for what the call has made."""
    done, kept = threading.Event(), collections.deque[T.Tensor](maxlen=1000)

    def other() -> None:
        while not done.is_set():
            kept.append(T.randn(10))

    w, x = T.randn(size, size, requires_grad=True), T.randn(size, size)
    f = T.compile(lambda x: ((x @ w).tanh().cumsum(0) * x).sum())
    switching = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=other)
    thread.start()
    try:
        for _ in range(12):
            f(x).backward()
        assert programs(f) == 1 and sys.getswitchinterval() < 1e-3, f.explain()
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(switching)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupted_step_leaves_usable_parameters() -> None:
    step, params, _ = mlp(OPTIMIZERS["Adam"])
    compiled = T.compile(step, fullgraph=True)
    for _ in range(6):
        compiled()

    rung = 0

    def interrupt(*_: Any) -> None:
        nonlocal rung
        rung += 1
        raise KeyboardInterrupt

    def until_it_rings(k: int) -> None:
        """A function, as Python 3.13 lets an interrupt at the end of a loop's turn past the `with` that the loop stands in."""
        signal.setitimer(signal.ITIMER_REAL, 0.0007 + k * 0.00003)
        while rung == k:  # Python drops what is raised where it takes an object away
            compiled()

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(40):
            with contextlib.suppress(KeyboardInterrupt):
                until_it_rings(k)
            assert all(
                bool(p.isfinite().all()) and p.shape == p.grad.shape for p in params if p.grad is not None
            )
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert programs(compiled) == 1
    first = compiled().item()
    for _ in range(30):
        last = compiled().item()
    assert last < first


def test_a_history_from_outside_goes_on() -> None:
    w = leaf(3)
    f = T.compile(lambda x: (x * w).sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(6):
            x, w.grad = leaf(3), None
            y = x.exp()
            f(y).backward()
            assert T.equal(x.grad, w * y) and T.equal(w.grad, y)


def test_modes_are_part_of_a_call() -> None:
    w = leaf(3)
    f = T.compile(lambda x: (x * w).detach(), fullgraph=True)
    for _ in range(4):
        assert not f(T.ones(3)).requires_grad
        with T.no_grad():
            assert not f(T.ones(3)).requires_grad
    assert T.vmap(f)(T.ones(2, 3)).shape == (2, 3)
    assert T.func.grad(lambda x: f(x).sum() + x.sum())(T.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_rates_that_a_function_reads_itself() -> None:
    w = leaf(3)
    optimizer = T.optim.SGD([w], lr=0.5)
    f = T.compile(lambda x: x * optimizer.param_groups[0]["lr"], fullgraph=True)
    for k in range(12):
        optimizer.param_groups[0]["lr"] = 0.5 + k // 4
        assert f(T.ones(1)).item() == 0.5 + k // 4
    assert programs(f) == 2  # that of the first rate, and that of all


def test_copies_learn_for_themselves() -> None:
    model = T.compile(T.nn.Linear(2, 2), fullgraph=True)
    other = copy.deepcopy(model)
    with T.no_grad():
        for _ in range(5):
            assert T.equal(model(T.ones(2)), other(T.ones(2)))
            other.weight.add_(1)
            model.weight.add_(1)


def test_what_it_says() -> None:
    w = leaf(4)
    f = T.compile(lambda x: (w * x).exp().sum().backward(), fullgraph=True).warm(T.ones(4))
    w.grad = None
    told = f.explain()
    assert told.graph_break_count == 0 and "launches" in str(told)
    assert "exp" in f.graph() and "exp" in f.source()
    assert np.isfinite(float(w.sum().item()))


def test_launches_over_elements_are_fused() -> None:
    x, w, b = leaf(1000), leaf(1000), T.tensor(0.5, requires_grad=True)
    eager = lambda: ((x * w + b).tanh().sigmoid() * x - 1.5 * w).sum().backward()  # noqa: E731
    f = T.compile(eager, fullgraph=True)
    for _ in range(8):
        for call in (eager, f):
            x.grad = w.grad = b.grad = None
            call()
            if call is eager:
                want = bits(x.grad, w.grad, b.grad)
        assert bits(x.grad, w.grad, b.grad) == want
    assert "fused into" in str(f.explain()) and "nothing fused" not in str(f.explain())
    assert any(op.was for op in f.explain().graphs[0].ops)


def test_random_programs() -> None:
    """`python -m tests.compiled.programs` runs more of them."""
    told = [difference(seed) for seed in range(10)]
    assert not [text for text, *_ in told if text] and sum(count > 0 for _, count, _ in told) > 1


def test_after_a_subclass_looked_at_calls() -> None:
    """What stands before functions then holds sets, and is ours, not the user's."""

    class Sub(T.Tensor):
        @classmethod
        def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(function, types, args, kwargs or {})

    T.ones(2).as_subclass(Sub).exp()
    step = T.compile(lambda x, y: T.nn.functional.smooth_l1_loss(x, y) * 2)
    x, y = T.randn(4, 3), T.randn(4, 3)
    assert len({step(x, y).item() for _ in range(4)}) == 1


def test_numbers_that_an_index_writes() -> None:
    """Also where the same were written before."""
    at = T.tensor([0, 2])

    def step(x: Any, k: float) -> Any:
        x[at] = k
        x[at + 1] = 0.0
        return x * 2

    compiled = T.compile(step, fullgraph=True)
    for _ in range(3):
        step(T.ones(4), 1.5)
    for k in (1.5, 1.5, 1.5, 1.5, 2.5, 3.5, 4.5):
        x, y = T.ones(4), T.ones(4)
        assert bits(compiled(x, k)) == bits(step(y, k)) and bits(x) == bits(y)
    assert programs(compiled) >= 1


def test_memory_that_gets_another_size() -> None:
    """What was recorded holds memory, but is no reason to refuse that."""

    def grown(x: Any) -> Any:
        o = T.zeros(2)
        o.resize_(9)
        return o.fill_(3).sum() + x

    step = T.compile(grown)
    assert [step(T.ones(1)).item() for _ in range(6)] == [28.0] * 6
    assert "memory gets another size" in str(step.explain())
    double = T.compile(lambda x: x * 2)
    for k in range(8):
        y = double(T.ones(3))
        assert y.clone().resize_(4)[:3].tolist() == [2, 2, 2]
        if k > 4:
            assert y.resize_(5)[:3].tolist() == [2, 2, 2]
    assert double.explain().graphs


def test_slices_of_one_tensor_are_one_program() -> None:
    """As batches are: they lie elsewhere in the same memory, at each call."""
    x, net = T.randn(12, 3), T.nn.Linear(3, 2)
    step = T.compile(net)
    for k in range(9):
        batch = x[3 * (k % 4) : 3 * (k % 4) + 3]
        assert T.equal(step(batch), net(batch))
    assert len(step.compiled.explain().graphs) == 1


@pytest.mark.filterwarnings("ignore:nbgrad.compile runs")
@pytest.mark.parametrize("part", ["W", "W[:2]", "W[1:3]"])
def test_an_argument_that_a_function_reads_by_name_as_well(part: str) -> None:
    """What was learnt of the one must not be done to the other."""
    scope: dict[str, Any] = {"W": T.arange(4.0), "V": T.ones(4)}
    exec("def f(b):\n    return b * 2 + W[: len(b)]", scope)
    plain, step = scope["f"], T.compile(scope["f"])
    for _ in range(6):
        assert T.equal(step(eval(part, scope)), plain(eval(part, scope)))
    for other in ("V", "V[:2]", "W[2:]", "W"):
        assert T.equal(step(eval(other, scope)), plain(eval(other, scope)))


def test_what_others_do_at_their_end_is_no_part_of_a_call() -> None:
    """A collection that begins in a recorded call runs finalizers of whatever became garbage before."""

    class Noisy:
        def __del__(self) -> None:
            time.time()  # of which nothing is known

    def garbage() -> None:
        one = Noisy()
        one.itself = one  # type: ignore[attr-defined]

    def call(x: Any) -> Any:
        room = [[] for _ in range(3000)]  # more than a collection waits for
        return (x * len(room)).sum()

    step = T.compile(call)
    for _ in range(6):
        garbage()
        step(T.ones(3))
    assert step.explain().graphs


def test_a_write_counts_once_for_all_views_of_what_was_written() -> None:
    a = T.zeros(4, 4)
    w = a[0]

    def f() -> Any:
        a.add_(1)
        return a.sum() + w.sum()

    made = T.compile(f, fullgraph=True)
    for k in range(6):
        assert made().item() == 20 * (k + 1)
        assert (a._version, w._version) == (k + 1, k + 1)
    assert made.explain().graph_count == 1


def test_a_constant_that_is_copied_is_read_where_it_is() -> None:
    x = T.ones(3, requires_grad=True)

    def f() -> Any:
        x.grad = None
        (x * 2).tanh().sum().backward()
        return x.grad

    made = T.compile(f, fullgraph=True)
    before = f().clone()
    for _ in range(6):
        got = made()
        assert T.equal(got, before)
        got.zero_()  # which is the caller's own
    assert "bytes_copied" not in made.graph()


def test_gradients_go_when_the_function_lets_them_go() -> None:
    w, y = leaf(80, 80), T.tensor([1] * 80)

    def ahead() -> Any:
        w.grad = None
        loss = F.cross_entropy(w * 2, y)
        loss.backward()
        return loss

    def behind() -> Any:
        loss = F.cross_entropy(w * 2, y)
        w.grad = None
        loss.backward()
        return loss

    def made_before() -> Any:
        (g,) = T.autograd.grad((w * w).sum(), w)
        loss = F.cross_entropy(w * 2, y)
        w.grad = None
        w.grad = g
        return loss.detach()

    for f, kept in ((ahead, False), (behind, True), (made_before, True)):
        w.grad = None
        made = T.compile(f, fullgraph=True)
        y[0] = 1
        for _ in range(6):
            was = w.grad
            value = None if was is None else was.clone()
            made()
            assert w.grad is not was
            assert value is None or T.equal(was, value)  # which somebody keeps
        assert programs(made)
        found = w.grad.clone()
        f()
        assert bits(found) == bits(w.grad)
        made()
        y[0] = 99
        with pytest.raises(IndexError, match="99"):
            made()
        assert (w.grad is not None) == kept
        if kept:
            assert bits(found) == bits(w.grad)


def test_a_step_takes_no_more_memory_than_an_eager_one() -> None:
    T.manual_seed(0)
    model = T.nn.Sequential(T.nn.Linear(128, 512), T.nn.ReLU(), T.nn.Linear(512, 10))
    optimizer = T.optim.SGD(model.parameters(), lr=0.01)
    x, y = T.randn(32, 128), T.arange(32) % 10

    def step() -> Any:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    made = T.compile(step, fullgraph=True)
    for _ in range(5):
        made()
    (entry,) = made._entries

    def most(f: Callable[[], Any]) -> int:
        f()
        tracemalloc.start()
        f()
        tracemalloc.reset_peak()
        f()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert most(made) + entry.ready.bytes <= 1.05 * most(step)
