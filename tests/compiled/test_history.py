"""Results of compiled calls whose history is used later: one node, whose backward is a program, beside eager to the bit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import nbgrad as T
from tests.compiled.histories import difference
from tests.compiled.test_compile import bits, leaf, programs

F = T.nn.functional
CALLS = 7


def both(make: Callable[[], Any]) -> list[Any]:
    """A module and its compiled twin, with what each is trained by."""
    made = []
    for compiled in (False, True):
        T.manual_seed(0)
        model = make()
        made.append((model, T.compile(model, fullgraph=True) if compiled else model))
    return made


def same_steps(make: Callable[[], Any], x: Any, calls: int = CALLS, **more: Any) -> Any:
    """Train both on `x`, whose gradient is asked for, too; the compiled module."""
    pairs = both(make)
    optimizers = [T.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m, _ in pairs]
    for k in range(calls):
        told = []
        for (model, f), optimizer in zip(pairs, optimizers):
            T.manual_seed(k)
            given = x.clone().requires_grad_(x.dtype.is_floating_point)
            y = f(given, **more)
            optimizer.zero_grad()
            (y * y).mean().backward()
            optimizer.step()
            told.append(bits(y, *model.state_dict().values(), *[p.grad for p in model.parameters()]))
            told[-1] += bits(given.grad) if given.grad is not None else []
            told[-1].append((y.shape, y.stride(), T.rand(3).tolist()))
        assert told[0] == told[1], k
    model = pairs[1][1]
    assert programs(model.compiled) == 1 and y.grad_fn.name() == "CompiledFunctionBackward"
    return model


def mlp() -> Any:
    return T.nn.Sequential(T.nn.Linear(6, 5), T.nn.ReLU(), T.nn.Dropout(0.3), T.nn.Linear(5, 3))


class Blocks(T.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = T.nn.Sequential(T.nn.Conv2d(2, 4, 3), T.nn.BatchNorm2d(4), T.nn.ReLU(), T.nn.MaxPool2d(2))
        self.head = T.nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.head(F.adaptive_avg_pool2d(self.conv(x), 1).flatten(1))


class Words(T.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = T.nn.Embedding(7, 8)
        self.norm = T.nn.LayerNorm(8)
        self.attention = T.nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = T.nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        h = self.norm(self.embed(x))
        h = h + self.attention(h, h, h, need_weights=False)[0]
        return self.last(F.gelu(h)[:, -1])


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (mlp, lambda: T.randn(8, 6)),
    "convolutions": (Blocks, lambda: T.randn(2, 2, 8, 8)),
    "words": (Words, lambda: T.randint(0, 7, (3, 5))),
    "transformer": (
        lambda: T.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        lambda: T.randn(2, 5, 8),
    ),
    "group norm": (
        lambda: T.nn.Sequential(T.nn.Linear(9, 7), T.nn.GroupNorm(2, 4), T.nn.SiLU()),
        lambda: T.randn(2, 4, 9),
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_module_is_trained_from_outside(name: str) -> None:
    make, given = MODELS[name]
    T.manual_seed(5)
    same_steps(make, given())


def test_convolutions_of_what_is_not_finite() -> None:
    """Their gradient by the weights is computed in another way there."""
    layer = T.nn.Conv2d(2, 4, 3)
    f = T.compile(lambda x: layer(x).relu(), fullgraph=True)
    for k in range(2 * CALLS):
        x, told = T.randn(1, 2, 6, 6), []
        if k % 2 and k > CALLS:
            x[0, 0, 1, 1] = float("inf")
        for call in (f._function, f):
            layer.zero_grad()
            call(x).sum().backward()
            told.append(bits(*[p.grad for p in layer.parameters()]))
        assert told[0] == told[1], k
    assert programs(f) == 1


def test_hooks_outside_and_what_they_do() -> None:
    told: list[Any] = [[], []]
    for which, (model, f) in enumerate(both(lambda: T.nn.Linear(3, 2))):
        model.weight.register_hook(lambda g: g * 2)
        model.bias.register_post_accumulate_grad_hook(lambda p, to=told[which]: to.append(p.grad.clone()))
        for k in range(CALLS):
            model.zero_grad()
            x = T.full((4, 3), float(k), requires_grad=True)
            y = f(x)
            y.register_hook(lambda g: g + 1)
            y.retain_grad()
            y.sum().backward()
            told[which] += [x.grad, y.grad, model.weight.grad.clone()]
    assert bits(*told[0]) == bits(*told[1]) and programs(f.compiled) == 1


def test_a_graph_is_freed_or_retained() -> None:
    w = leaf(3)
    f = T.compile(lambda x: (x * w).exp(), fullgraph=True)
    for _ in range(CALLS):
        x, w.grad = T.randn(3), None
        y = f(x)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        assert T.allclose(w.grad, 2 * x * (x * w).exp())
        with pytest.raises(RuntimeError, match="a second time"):
            y.sum().backward()
    assert programs(f) == 1


def test_saved_values_that_were_written_to_are_told() -> None:
    w = leaf(3)
    f = T.compile(lambda x: (x * w).exp(), fullgraph=True)
    for k in range(3 * CALLS):
        x = T.randn(3, requires_grad=True)
        y = f(x)
        if k % 3 == 0:
            with T.no_grad():
                w.mul_(1.5)
        elif k % 3 == 1:
            y.detach().add_(1)
        else:
            y.sum().backward()
            continue
        with pytest.raises(
            RuntimeError, match=r"modified by an inplace operation: \[torch.FloatTensor \[3\]\]"
        ):
            y.sum().backward()
    assert programs(f) == 1


@pytest.mark.filterwarnings("ignore:nbgrad.compile")
def test_second_order_goes_by_the_function() -> None:
    w = leaf(3)
    f = T.compile(lambda x: (x * w).sin())
    for _ in range(CALLS):
        f(T.randn(3)).sum().backward()
    assert programs(f) == 1
    for _ in range(3):
        x = leaf(3)
        (g,) = T.autograd.grad(f(x).sum(), x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x)
        assert T.allclose(h, -w * w * (x * w).sin())
    noisy = T.compile(lambda x: F.dropout(x * w).sin())
    for _ in range(CALLS):
        y = noisy(T.randn(3))
    with pytest.raises(RuntimeError, match="cannot be differentiated twice, as it draws random numbers"):
        T.autograd.grad(y.sum(), w, create_graph=True)


def test_inputs_with_a_history_and_several_results() -> None:
    w, v = leaf(3), leaf(3)
    f = T.compile(
        lambda x: {"a": (x * w).exp(), "b": (x + v).tanh().reshape(3, 1).t(), "c": x * 2}, fullgraph=True
    )
    for k in range(3 * CALLS):
        x = leaf(3)
        h = x.sin()
        for call in (f._function, f):
            x.grad = w.grad = v.grad = None
            got = call(h)
            which = ("a", "b", "c")[k % 3]
            (got[which] * got["c"]).sum().backward()
            told = [None if t.grad is None else bits(t.grad) for t in (x, w, v)] + [
                got["b"].shape,
                got["b"].stride(),
            ]
            if call is not f:
                want = told
            h = x.sin()
        assert told == want
    assert programs(f) == 1


def test_modes_and_what_is_asked_for() -> None:
    w = leaf(3)
    f = T.compile(lambda x: (x * w).exp(), fullgraph=True)
    for _ in range(CALLS):
        x = leaf(3)
        with T.no_grad():
            assert not f(x).requires_grad
        (g,) = T.autograd.grad(f(x).sum(), x)
        assert T.allclose(g, w * (x * w).exp()) and w.grad is None and x.grad is None
        assert f(T.ones(3)).requires_grad
    assert programs(f) == 3


@pytest.mark.filterwarnings("ignore:nbgrad.compile")
def test_transforms_of_compiled_and_compiled_transforms() -> None:
    w = T.randn(3)
    plain = lambda x: (x * w).sin().sum()  # noqa: E731
    x = T.randn(3)
    f = T.compile(plain)
    g = T.compile(T.func.grad(plain))
    m = T.compile(T.vmap(plain))
    for _ in range(CALLS):
        f(leaf(3)).backward()
        assert T.equal(T.func.grad(f)(x), T.func.grad(plain)(x)) and T.equal(g(x), T.func.grad(plain)(x))
        assert T.equal(T.vmap(f)(x.expand(2, 3)), T.vmap(plain)(x.expand(2, 3)))
        assert T.equal(m(x.expand(2, 3)), T.vmap(plain)(x.expand(2, 3)))
        y = leaf(3)
        (rows,) = T.autograd.grad((f(y) * T.ones(1)), y, T.ones(2, 1), is_grads_batched=True)
        assert T.equal(rows[0], rows[1])


def test_a_plan_that_is_made_for_each_call() -> None:
    """The backward of a `jvp` plans its products anew, by tables that Python writes: spoiled ones had no end."""
    model = T.nn.Sequential(T.nn.Linear(6, 12), T.nn.Tanh(), T.nn.Linear(12, 3))

    def push(x: Any) -> Any:
        return T.func.jvp(model, (x,), (x.cos(),))

    compiled = T.compile(push, fullgraph=True)
    for _ in range(CALLS):
        x, told = T.randn(8, 6), []
        for f in (push, compiled):
            model.zero_grad()
            y, tangent = f(x)
            (y * tangent).sum().backward()
            told.append(bits(y, tangent, *[p.grad for p in model.parameters()]))
        assert told[0] == told[1]
    assert programs(compiled) == 1


def test_threads_go_back_at_once() -> None:
    model = T.compile(T.nn.Linear(3, 2), fullgraph=True)
    for _ in range(CALLS):
        model(leaf(4, 3)).sum().backward()
    wrong: list[int] = []

    def run(k: int) -> None:
        for _ in range(30):
            x = T.full((4, 3), float(k), requires_grad=True)
            y = model(x)
            (g, w) = T.autograd.grad(y.sum(), (x, model.weight))
            if not T.equal(g, model.weight.sum(0).expand(4, 3)) or w.unique().tolist() != [4.0 * k]:
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and programs(model.compiled) == 1


def test_hooks_inside_leave_it_to_the_function() -> None:
    w = leaf(3)

    def f(x: Any) -> Any:
        h = x * w
        h.register_hook(lambda g: g * 3)
        return h.exp()

    compiled = T.compile(f)
    for _ in range(CALLS):
        x = leaf(3)
        compiled(x).sum().backward()
        assert T.allclose(x.grad, 3 * w * (x * w).exp())
    assert "a hook is on" in str(compiled.explain())


def test_an_argument_that_was_made_of_another() -> None:
    """Its gradient goes on to that outside, and is no part of what the call gives that."""
    f = lambda x, y: x.exp() * y + y  # noqa: E731
    compiled = T.compile(f, fullgraph=True)
    for _ in range(CALLS):
        x, told = leaf(3), []
        for call in (f, compiled):
            x.grad = None
            y = x.sin() * 1
            z = y * y
            (call(z, y) + call(y, z) + call(x, y)).sum().backward()
            told.append(x.grad.clone())
        assert T.allclose(*told)
    assert programs(compiled) == 2


def test_what_the_call_read_may_change_before_its_backward() -> None:
    told: list[int] = []
    w = leaf(3)

    def f(x: Any) -> Any:
        return (w * (x if len(told) < 100 else x * 2)).tanh().sum()

    compiled = T.compile(f)
    for k in range(8):
        w.grad, x = None, T.randn(3)
        y, (want,) = compiled(x), T.autograd.grad(f(x), w)
        if k == 6:
            told.append(k)
        y.backward()
        assert bits(w.grad) == bits(want)
    assert programs(compiled) >= 1


def test_random_functions() -> None:
    """`python -m tests.compiled.histories` runs more of them."""
    told = [difference(seed) for seed in range(5)]
    assert not [text for text, *_ in told if text] and sum(count > 0 for _, count, _ in told) > 2
