"""The engine: order, what it computes, what it frees, and that an exception or another thread leaves it sane."""

import gc
import threading
import time
import tracemalloc
import weakref

import pytest

from tests.support import T


def ones(*shape: int, dtype: object = None) -> "T.Tensor":
    return T.ones(*shape, dtype=dtype, requires_grad=True)


# ---------------------------------------------------------------- what is freed


def test_after_backward_no_saved_value_is_alive() -> None:
    x = ones(3)
    mask = T.ones(3) * 2
    y = (x * mask).exp()
    z = (y * y).sum()
    refs = [weakref.ref(t) for t in (mask, y)]
    del mask, y
    assert all(r() is not None for r in refs)
    z.backward()
    assert all(r() is None for r in refs), "the graph is still held by z, its saved values must be gone"
    assert z.grad_fn is not None


def test_no_cycle_keeps_a_graph() -> None:
    """A graph that is never run goes with its last tensor, without the collector."""
    gc.disable()
    try:
        x = ones(3)
        y = x.exp().tanh().sigmoid()
        ref = weakref.ref(y.grad_fn)
        inner = weakref.ref(y.grad_fn.next_functions[0][0])
        del y
        assert ref() is None and inner() is None
    finally:
        gc.enable()


def test_a_leaf_and_its_graph_are_no_cycle() -> None:
    gc.disable()
    try:
        x = ones(3)
        (x * x).sum().backward()
        x.register_hook(lambda g: None)
        ref = weakref.ref(x)
        del x
        assert ref() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("run", ["backward", "grad"])
def test_a_deep_chain_is_linear_and_does_not_recurse(run: str) -> None:
    def seconds(n: int) -> float:
        x = T.tensor(1.0, requires_grad=True)
        start = time.thread_time()
        y = x
        for _ in range(n):
            y = y * 1.0
        if run == "backward":
            y.backward()
            assert x.grad.item() == 1.0
        else:
            assert T.autograd.grad(y, x)[0].item() == 1.0
        del y
        return time.thread_time() - start

    gc.disable()  # a collection walks whatever the tests before this one have left: .3 s after all of them
    try:
        seconds(1000)
        assert seconds(100_000) < 40 * min(seconds(10_000) for _ in range(3))
    finally:
        gc.enable()


def test_deleting_a_deep_graph_does_not_recurse() -> None:
    x = T.tensor(1.0, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    del y


# ---------------------------------------------------------------- accumulation


def test_the_first_gradient_is_taken_over_unless_somebody_has_it() -> None:
    x = ones(4)
    kept = []
    y = x * 2
    y.register_hook(lambda g: kept.append(g))
    (y + 0).sum().backward()
    x.sum().backward()
    assert kept[0].tolist() == [1.0] * 4, "a later sum must not show in what a hook was given"
    g = T.ones(4)
    x.grad = None
    x.backward(g)
    x.sum().backward()
    assert g.tolist() == [1.0] * 4
    a, b = ones(4), ones(4)
    (a + b).sum().backward()  # one gradient for both
    a.sum().backward()
    assert a.grad.tolist() == [2.0] * 4 and b.grad.tolist() == [1.0] * 4


def test_a_fresh_gradient_is_not_copied() -> None:
    x = ones(4)
    seen = []

    class Give(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            out = T.ones(4)
            seen.append(out.data_ptr())
            return out

    Give.apply(x).sum().backward()
    assert x.grad.data_ptr() == seen[0]


def test_gradients_add_up_in_the_same_tensor_unless_a_graph_is_made() -> None:
    x = ones(2)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    assert x.grad is first and first.tolist() == [2.0, 2.0]
    with pytest.warns(UserWarning, match="create_graph=True"):
        (x * x).sum().backward(create_graph=True)
    assert x.grad is not first and x.grad.requires_grad
    x.grad = None


def test_a_gradient_takes_the_layout_of_its_leaf() -> None:
    x = T.ones(2, 3).t().contiguous().t().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride() == (1, 2)


# ---------------------------------------------------------------- exceptions


class Stop(Exception):
    pass


def refuse(*_: object) -> None:
    raise Stop


def test_an_exception_in_a_hook_leaves_modes_graph_and_gradients_sane() -> None:
    x, w = ones(2), ones(2)
    y = (x * w).exp()
    handle = y.register_hook(refuse)
    z = y.sum()
    for _ in range(2):
        with pytest.raises(Stop):
            z.backward(retain_graph=True)
        assert T.is_grad_enabled() and x.grad is None and w.grad is None
    handle.remove()
    z.backward()
    assert x.grad.tolist() == w.grad.tolist()


def test_an_exception_under_no_grad_and_create_graph_puts_modes_back() -> None:
    x = ones(2)
    y = x * x
    y.register_hook(refuse)
    with T.no_grad():
        with pytest.raises(Stop):
            T.autograd.grad(y.sum() if y.dim() == 0 else y, x, T.ones(2), create_graph=True)
        assert not T.is_grad_enabled()
    assert T.is_grad_enabled()


# ---------------------------------------------------------------- backward in a backward


def test_backward_inside_a_backward() -> None:
    depths = []

    class Nested(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, depth):
            ctx.depth = depth
            ctx.save_for_backward(a)
            return a * 2

        @staticmethod
        def backward(ctx, g):
            depths.append(ctx.depth)
            (a,) = ctx.saved_tensors
            with T.enable_grad():
                inner = a.detach().requires_grad_()
                out = Nested.apply(inner, ctx.depth - 1) if ctx.depth else inner * 2
                out.sum().backward()
            return g * inner.grad, None

    x = ones(2)
    Nested.apply(x, 20).sum().backward()
    assert depths == list(range(20, -1, -1)) and x.grad.tolist() == [2.0, 2.0]


class Nested(T.autograd.Function):
    """Doubles; its backward runs one of a smaller depth, down to `at_last`."""

    @staticmethod
    def forward(ctx, a, depth, at_last):
        ctx.depth, ctx.at_last = depth, at_last
        return a * 2

    @staticmethod
    def backward(ctx, g):
        if not ctx.depth:
            ctx.at_last()
            return g * 2, None, None
        with T.enable_grad():
            inner = T.ones(2, requires_grad=True)
            Nested.apply(inner, ctx.depth - 1, ctx.at_last).sum().backward()
        return g * inner.grad, None, None


def test_backwards_inside_backwards_have_no_limit_of_depth() -> None:
    """Python's own is a thousand frames, which two hundred backwards inside each other would use up."""
    x, seen = ones(2), []
    before = threading.active_count()
    hooks = T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t)

    def at_last() -> None:
        seen.append((T.is_grad_enabled(), threading.active_count() > before))
        with pytest.raises(RuntimeError, match="not here"), hooks:
            pass

    with T.autograd.graph.disable_saved_tensors_hooks("not here"):
        Nested.apply(x, 1000, at_last).sum().backward()
    if T.__name__ == "nbgrad":  # PyTorch's threads start with modes of their own
        assert seen == [(False, True)] and threading.active_count() == before
    assert x.grad.tolist() == [2.0, 2.0]


def test_hooks_inside_hooks_have_no_limit_of_depth() -> None:
    w = ones(2)

    def hook(depth: int) -> object:
        def act(_: object) -> None:
            with T.enable_grad():
                y = w * 1
                if depth:
                    y.register_hook(hook(depth - 1))
                y.sum().backward()

        return act

    y = w * 1
    y.register_hook(hook(999))
    y.sum().backward()
    assert w.grad.tolist() == [1001.0, 1001.0]


def test_an_exception_comes_out_of_any_depth() -> None:
    x = ones(2)
    y = Nested.apply(x, 500, refuse).sum()
    with pytest.raises(Stop):
        y.backward()
    assert x.grad is None and T.is_grad_enabled()
    Nested.apply(x, 3, lambda: None).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_a_hook_may_run_backward_on_another_graph() -> None:
    x, w = ones(2), ones(2)
    y = x * 2

    @T.enable_grad()
    def hook(g):
        (w * g).sum().backward()

    y.register_hook(hook)
    y.sum().backward()
    assert w.grad.tolist() == [1.0, 1.0] and x.grad.tolist() == [2.0, 2.0]


# ---------------------------------------------------------------- threads


def in_threads(n: int, work: object) -> None:
    failed: list[BaseException] = []

    def guarded(k: int) -> None:
        try:
            work(k)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed, failed


def test_threads_that_share_leaves_give_exact_sums() -> None:
    """Integer-valued gradients, so that the order of the sums does not show."""
    w, b = ones(3, dtype=T.float64), ones(3, dtype=T.float64)

    def work(k: int) -> None:
        for _ in range(200):
            x = T.full((3,), float(k + 1), dtype=T.float64)
            (w * x + b * 2 + w).sum().backward()

    in_threads(8, work)
    assert w.grad.tolist() == [200.0 * (36 + 8)] * 3
    assert b.grad.tolist() == [200.0 * 16] * 3


def test_threads_may_share_a_graph_that_is_retained() -> None:
    x = ones(3, dtype=T.float64)
    y = (x * x * 3).sum()

    def work(_: int) -> None:
        for _ in range(100):
            y.backward(retain_graph=True)

    in_threads(4, work)
    assert x.grad.tolist() == [400 * 6.0] * 3


@pytest.mark.parametrize("mode", ["any", "all"])
def test_a_multi_grad_hook_counts_each_backward_of_each_thread(mode: str) -> None:
    x, w = ones(3), ones(3)
    y, z = x * w, x + w
    out = (y * z).sum()
    called = []
    meet = threading.Barrier(4)
    T.autograd.graph.register_multi_grad_hook(
        (y, z), lambda g: called.append(threading.get_ident()), mode=mode
    )
    # Each of the backwards has run one hook, and none both, when they go on.
    y.register_hook(lambda g: (meet.wait(100), None)[1])

    def work(_: int) -> None:
        for _ in range(5):
            out.backward(retain_graph=True)

    in_threads(4, work)
    assert sorted(called.count(t) for t in set(called)) == [5] * 4


def test_a_multi_grad_hook_keeps_no_backward() -> None:
    x, w = ones(3), ones(3)
    for mode in ("any", "all"):
        T.autograd.graph.register_multi_grad_hook((x, w), lambda g: None, mode=mode)
    w.register_hook(lambda g: 1 / 0)
    y = (x * w).exp()
    ref = weakref.ref(y.grad_fn)
    with pytest.raises(ZeroDivisionError):
        y.sum().backward()
    del y
    gc.collect()
    assert ref() is None


def test_what_a_hook_has_switched_is_neither_left_nor_kept() -> None:
    class Kept:
        pass

    def enter() -> None:
        kept = Kept()
        refs.append(weakref.ref(kept))
        T.autograd.graph.saved_tensors_hooks(lambda t: (kept, t), lambda p: p[1]).__enter__()

    refs: list[weakref.ref[Kept]] = []
    x = ones(3)
    x.register_hook(lambda g: enter())
    y = (x * x).sum()
    y.register_hook(lambda g: enter())
    y.backward()
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * x).sum().backward()
    gc.collect()
    assert len(refs) == 3 and all(r() is None for r in refs)


def test_modes_are_a_threads_own() -> None:
    inside, outside = threading.Event(), threading.Event()
    seen = []

    def other() -> None:
        inside.wait(100)
        seen.append((T.is_grad_enabled(), T.is_inference_mode_enabled()))
        outside.set()

    thread = threading.Thread(target=other)
    thread.start()
    with T.inference_mode():
        inside.set()
        outside.wait(100)
    thread.join()
    assert seen == [(True, False)]


def test_inference_in_one_thread_does_not_mark_anothers_tensors() -> None:
    with T.inference_mode():
        made = []
        thread = threading.Thread(target=lambda: made.append((T.ones(2) * 2).is_inference()))
        thread.start()
        thread.join()
        assert (T.ones(2) * 2).is_inference()
    assert made == [False]


# ---------------------------------------------------------------- edges and tasks


def test_gradient_edges_stand_for_tensors() -> None:
    x = ones(3)
    y = x * 2
    edge = T.autograd.graph.get_gradient_edge(y)
    z = y.exp()
    out = T.autograd.graph.get_gradient_edge(z)
    del y, z
    (g,) = T.autograd.grad(out, edge, T.ones(3), retain_graph=True)
    assert g.shape == (3,)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        T.autograd.grad(out, edge)


def test_backward_ignores_inputs_that_are_not_reached() -> None:
    x, w = ones(2), ones(2)
    (x * 2).sum().backward(inputs=[x, w])
    assert x.grad.tolist() == [2.0, 2.0] and w.grad is None


def test_only_what_is_asked_is_computed() -> None:
    ran = []

    class Costly(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a * 1

        @staticmethod
        def backward(ctx, g):
            ran.append(1)
            return g

    x, w = ones(2), ones(2)
    y = (Costly.apply(x) * w).sum()
    T.autograd.grad(y, w, retain_graph=True)
    assert not ran
    T.autograd.grad(y, x)
    assert ran == [1]


# ---------------------------------------------------------------- long runs


@pytest.mark.slow
def test_training_does_not_leak() -> None:
    """A thousand steps, with every kind of thing that hangs on a graph: the same objects and the same memory as after two hundred."""
    r = T.Generator().manual_seed(0)
    w, b = T.randn(8, 4, generator=r).requires_grad_(), T.zeros(4, requires_grad=True)
    alive: list[weakref.ref[object]] = []

    def step() -> None:
        x = T.randn(16, 8, generator=r)
        y = T.tanh(x @ w + b) * 1
        y.register_hook(lambda g: g * 1)
        y.retain_grad()
        rows = y[1:]
        rows.mul_(2)
        y.grad_fn.register_hook(lambda *_: None)
        loss = (y * y).mean() + rows.sum() * 0
        (g,) = T.autograd.grad(loss, w, create_graph=True)
        (loss + (g * g).sum()).backward()
        alive[:] = [weakref.ref(t) for t in (x, y, rows, loss, g, loss.grad_fn)]
        with T.no_grad():
            for p in (w, b):
                p -= 0.01 * p.grad
                p.grad = None

    def steps(n: int) -> tuple[int, int]:
        for _ in range(n):
            step()
        assert not any(r() is not None for r in alive), "a step leaves nothing to the collector"
        gc.collect()
        return len(gc.get_objects()), tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        objects, memory = steps(200)
        objects_later, memory_later = steps(1000)
    finally:
        tracemalloc.stop()
    assert objects_later - objects < 20 and memory_later - memory < 20_000


@pytest.mark.slow
def test_threads_that_run_different_graphs_into_the_same_leaves() -> None:
    """8 threads, 200 backwards each, with hooks, nested backwards and create_graph among them; integers, so that sums are exact."""
    w = T.zeros(5, dtype=T.float64, requires_grad=True)

    def work(k: int) -> None:
        for n in range(200):
            x = T.full((5,), float(k + 1), dtype=T.float64)
            if n % 4 == 0:
                (w * x).sum().backward()
            elif n % 4 == 1:
                y = w * x
                y.register_hook(lambda g: g * 2)
                y.sum().backward()
            elif n % 4 == 2:
                Nested.apply(w[:2], 20, lambda: None).sum().backward()
            else:
                (g,) = T.autograd.grad((w * w * x).sum(), w, create_graph=True)
                g.sum().backward()

    in_threads(8, work)
    each = 50 * sum(range(1, 9))
    assert w.grad.tolist() == [each * (1 + 2 + 2) + 50 * 8 * 2] * 2 + [each * (1 + 2 + 2)] * 3
