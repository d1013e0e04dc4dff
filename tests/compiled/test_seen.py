"""What a call depends on beside values, each changed behind its program's back: a compiled function sees it, to the bit."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Callable
from typing import Any

import pytest

import nbgrad as T
from nbgrad.compiled import capture
from nbgrad.nn.utils import parametrize
from tests.compiled.test_compile import bits

STEPS, CHANGED = 12, 6
Step = Callable[[int], Any]
CASES: dict[str, Callable[[Any], Step]] = {}


def case(function: Callable[[Any], Step]) -> Callable[[Any], Step]:
    CASES[function.__name__] = function
    return function


@case
def two_arguments_are_one(compile: Any) -> Step:
    f = compile(lambda x, y: x * 2 if x is y else x * 3)
    a, b = T.ones(3), T.ones(3)
    return lambda k: f(a, a if k == CHANGED else b)


@case
def two_of_three_arguments_are_one(compile: Any) -> Step:
    f = compile(lambda x, y, z: x * 2 if y is z else x * 3)
    a, b, c = T.ones(3), T.ones(3), T.ones(3)
    return lambda k: f(a, b, b if k == CHANGED else c)


@case
def an_argument_is_the_known_one(compile: Any) -> Step:
    known = T.ones(3)
    f = compile(lambda x: x * 2 if x is known else x * 3)
    return lambda k: f(known if k == CHANGED else T.ones(3))


@case
def an_argument_is_a_key(compile: Any) -> Step:
    known = T.ones(3)
    scales = {known: 5.0}
    f = compile(lambda x: x * scales.get(x, 2.0))
    return lambda k: f(known if k == CHANGED else T.ones(3))


@case
def an_attribute_of_an_argument(compile: Any) -> Step:
    f = compile(lambda x: x * x.scale)

    def step(k: int) -> Any:
        x: Any = T.ones(3)
        x.scale = 1.0 if k < CHANGED else float(k)
        return f(x)

    return step


@case
def an_attribute_that_an_argument_has_now(compile: Any) -> Step:
    f = compile(lambda x: x * getattr(x, "scale", 2.0))

    def step(k: int) -> Any:
        x: Any = T.ones(3)
        if k == CHANGED:
            x.scale = 7.0
        return f(x)

    return step


@case
def an_attribute_is_set(compile: Any) -> Step:
    def mark(x: Any) -> Any:
        x.seen = True
        return x * 2

    f = compile(mark)

    def step(k: int) -> Any:
        x: Any = T.ones(3)
        return f(x), T.tensor(x.seen)

    return step


@case
def attributes_of_a_parameter(compile: Any) -> Step:
    p: Any = T.nn.Parameter(T.ones(3))
    p.scale, p.decays = 2.0, True
    f = compile(lambda x: x * p * p.scale + (p if p.decays else 0))

    def step(k: int) -> Any:
        if k == CHANGED:
            p.scale = 7.0
        if k == CHANGED + 2:
            p.decays = False
        return f(T.ones(3) * k).detach()

    return step


@case
def an_attribute_that_a_parameter_has_now(compile: Any) -> Step:
    p: Any = T.nn.Parameter(T.ones(3))
    f = compile(lambda x: (x * p * 2 if hasattr(p, "scale") else x * p).detach())

    def step(k: int) -> Any:
        if k == CHANGED:
            p.scale = 7.0
        return f(T.ones(3) * k)

    return step


@case
def zeros_of_both_signs(compile: Any) -> Step:
    f = compile(lambda x, s: 1 / (x * s))
    return lambda k: f(T.ones(3), -0.0 if k == CHANGED else 0.0)


@case
def zeros_of_both_signs_in_a_table(compile: Any) -> Step:
    table = {"s": 0.0}
    f = compile(lambda x: 1 / (x * table["s"]))

    def step(k: int) -> Any:
        table["s"] = -0.0 if k == CHANGED else 0.0
        return f(T.ones(3))

    return step


@case
def another_class(compile: Any) -> Step:
    class One:
        def scale(self) -> float:
            return 2.0

    class Other:
        def scale(self) -> float:
            return 3.0

    known: Any = One()
    f = compile(lambda x: x * known.scale())

    def step(k: int) -> Any:
        if k == CHANGED:
            known.__class__ = Other
        return f(T.ones(3))

    return step


@case
def methods_that_python_calls(compile: Any) -> Step:
    class Row:
        def __len__(self) -> int:
            return 2

        def __getitem__(self, k: int) -> float:
            return 3.0

    row, kind = Row(), Row
    f = compile(lambda x: x * len(row) * row[0])

    def step(k: int) -> Any:
        if k == CHANGED:
            kind.__len__ = lambda self: 5  # type: ignore[method-assign]
        if k == CHANGED + 2:
            kind.__getitem__ = lambda self, k: 7.0  # type: ignore[method-assign, assignment]
        return f(T.ones(3))

    return step


@case
def a_method_of_its_own(compile: Any) -> Step:
    class Base:
        def scale(self) -> float:
            return 2.0

    class Derived(Base):
        pass

    known, kind = Derived(), Derived
    f = compile(lambda x: x * known.scale())

    def step(k: int) -> Any:
        if k == CHANGED:
            kind.scale = lambda self: 9.0  # type: ignore[method-assign]
        return f(T.ones(3))

    return step


@case
def computed_once(compile: Any) -> Step:
    layer = T.nn.Linear(3, 3)
    with T.no_grad():
        layer.weight.copy_(T.eye(3))
        layer.bias.zero_()

    class Twice(T.nn.Module):
        def forward(self, w: Any) -> Any:
            return w * 2

    parametrize.register_parametrization(layer, "weight", Twice())
    f, x = compile(layer), T.ones(2, 3)

    def step(k: int) -> Any:
        original: Any = layer.parametrizations.weight.original  # type: ignore[union-attr]
        if k < CHANGED:
            return f(x).detach()
        with parametrize.cached(), T.no_grad():
            first = f(x)
            original.add_(1.0)
            return first, f(x)

    return step


@case
def counts_of_writes(compile: Any) -> Step:
    x = T.ones(3)
    f = compile(lambda x: x * x._version)

    def step(k: int) -> Any:
        if k >= CHANGED:
            x.add_(1)
        return f(x)

    return step


@case
def identities(compile: Any) -> Step:
    a, b = T.ones(3), T.ones(3)
    known = {id(a)}
    f = compile(lambda x: x * 2 if id(x) in known else x * 5)
    return lambda k: f(b if k == CHANGED else a)


@case
def the_order_of_a_table(compile: Any) -> Step:
    table = {"a": 1.0, "b": 2.0}
    f = compile(
        lambda x: x * next(iter(table.values())) + sum(v / (k + 2) for k, v in enumerate(table.values()))
    )

    def step(k: int) -> Any:
        if k == CHANGED:
            table["a"] = table.pop("a")
        return f(T.ones(3))

    return step


@case
def the_order_of_modules(compile: Any) -> Step:
    layers = T.nn.ModuleDict({"a": T.nn.Hardtanh(), "b": T.nn.Sigmoid()})

    def run(x: Any) -> Any:
        for layer in layers.values():
            x = layer(x)
        return x

    f = compile(run)

    def step(k: int) -> Any:
        if k == CHANGED:
            layers["a"] = layers.pop("a")
        return f(T.ones(3) * 5)

    return step


@case
def attributes_of_a_metaclass(compile: Any) -> Step:
    class Meta(type):
        scale = 2.0

    class Options(metaclass=Meta):
        pass

    meta = Meta
    f = compile(lambda x: x * Options.scale)

    def step(k: int) -> Any:
        if k == CHANGED:
            meta.scale = 5.0
        return f(T.ones(3))

    return step


@case
def another_function_in_the_place_of_ours(compile: Any) -> Step:
    library: Any = T.nn.functional
    f, usual = compile(lambda x: library.relu(x)), library.relu

    def step(k: int) -> Any:
        library.relu = (lambda x: x * 7) if k == CHANGED else usual
        try:
            return f(T.ones(3))
        finally:
            library.relu = usual

    return step


@case
def other_defaults(compile: Any) -> Step:
    def g(x: Any, s: float = 1.0, *, t: float = 1.0) -> Any:
        return x * s * t

    f = compile(lambda x: g(x))

    def step(k: int) -> Any:
        if k == CHANGED:
            g.__defaults__ = (2.0,)
        if k == CHANGED + 2:
            g.__kwdefaults__ = {"t": 5.0}
        return f(T.ones(3))

    return step


@case
def attributes_of_a_class_that_is_given(compile: Any) -> Step:
    class Options:
        scale = 2.0

    kind = Options
    f = compile(lambda x, of: x * of.scale)

    def step(k: int) -> Any:
        if k == CHANGED:
            kind.scale = 5.0
        return f(T.ones(3), kind)

    return step


def values(got: Any) -> Any:
    return bits(*got) if isinstance(got, tuple) else bits(got)


@pytest.mark.filterwarnings("ignore:nbgrad.compile")
@pytest.mark.parametrize("name", CASES)
def test_what_changes_is_seen(name: str) -> None:
    made: list[Any] = []

    def compile(f: Any) -> Any:
        made.append(T.compile(f))
        return made[-1]

    eager, compiled = CASES[name](lambda f: f), CASES[name](compile)
    for k in range(STEPS):
        assert values(compiled(k)) == values(eager(k)), k
    programs = getattr(made[0], "compiled", made[0]).explain().graph_count
    assert (programs == 0) == (name in ("counts_of_writes", "identities", "an_attribute_is_set"))


REFUSALS: dict[str, Callable[[Any, Any], Any]] = {
    "brackets": lambda x, i: x[i] * 2,
    "gather": lambda x, i: x.gather(0, i),
    "index_select": lambda x, i: x.index_select(0, i),
    "scatter": lambda x, i: x.scatter(0, i, 1.0),
    "take": lambda x, i: x.take(i),
    "twice": lambda x, i: x[i] * 2 + x.cumsum(0)[i],
    "put": lambda x, i: x.put(i, x[:2] * 1),
}


def _switches_gradients(x: Any) -> Any:
    T.set_grad_enabled(False)
    return x * 2


def _switches_the_dtype(x: Any) -> Any:
    T.set_default_dtype(T.float64)
    return x * 2


def _switches_printing(x: Any) -> Any:
    T.set_printoptions(precision=2)
    return x * 2


def _switches_anomalies(x: Any) -> Any:
    T.autograd.set_detect_anomaly(True)
    return x * 2


@pytest.mark.filterwarnings("ignore:nbgrad.compile", "ignore:Anomaly Detection")
@pytest.mark.parametrize(
    "function", [_switches_gradients, _switches_the_dtype, _switches_printing, _switches_anomalies]
)
def test_what_a_call_switches_is_switched_at_each_call(function: Any) -> None:
    def found() -> tuple[Any, ...]:
        return T.is_grad_enabled(), T.get_default_dtype(), str(T.tensor(1.23456)), T.is_anomaly_enabled()

    def put_back() -> None:
        T.set_grad_enabled(True)
        T.set_default_dtype(T.float32)
        T.set_printoptions(profile="default")
        T.autograd.set_detect_anomaly(False)

    f, x, seen = T.compile(function), T.ones(3), []
    usual = found()
    for _ in range(8):
        try:
            f(x)
            seen.append(found())
        finally:
            put_back()
    assert seen == seen[:1] * 8 and seen[0] != usual


@pytest.mark.parametrize("name", REFUSALS)
def test_an_index_is_refused_in_the_words_of_the_function(name: str) -> None:
    function = REFUSALS[name]
    f, x, good = T.compile(function), T.arange(4.0), T.tensor([0, 2])
    for _ in range(4):
        f(x, good)
    assert f.explain().graph_count
    for bad in ([0, 9], [-7, 0], [0, 11]):
        index = T.tensor(bad)
        with pytest.raises((IndexError, RuntimeError)) as eager:
            function(x, index)
        with pytest.raises(eager.type) as compiled:
            f(x, index)
        assert str(compiled.value) == str(eager.value)
        assert bits(f(x, good)) == bits(function(x, good))


def test_an_index_that_is_refused_behind_a_write_is_an_error() -> None:
    f, total = T.compile(lambda x, i: total.add_(1) * x[i]), T.zeros(())
    for _ in range(4):
        f(T.arange(4.0), T.tensor([0, 2]))
    for _ in range(2):
        before = total.item()
        with pytest.raises(IndexError, match="an index is out of bounds"):
            f(T.arange(4.0), T.tensor([0, 9]))
        assert total.item() in (before, before + 1)


@pytest.mark.filterwarnings("ignore:nbgrad.compile")
def test_each_thread_has_its_own() -> None:
    own = threading.local()
    f = T.compile(lambda x: x * own.scale)

    def calls(scale: float) -> list[float]:
        own.scale = scale
        return [f(T.ones(1)).item() for _ in range(5)]

    assert calls(2.0) == [2.0] * 5
    got: list[float] = []
    thread = threading.Thread(target=lambda: got.extend(calls(5.0)))
    thread.start()
    thread.join()
    assert got == [5.0] * 5


@pytest.mark.filterwarnings("ignore:nbgrad.compile")
def test_what_a_class_is_asked_for() -> None:
    _, record = capture.record(lambda: datetime.datetime.now())
    assert "now" in record.refusal
    _, record = capture.record(lambda: (dict.fromkeys("ab"), int.from_bytes(b"a"), object.__new__(Twist)))
    assert not record.refusal


class Twist(T.autograd.Function):
    """Its backward reads a setting."""

    scale = (2.0,)

    @staticmethod
    def forward(ctx: Any, x: Any, by: float) -> Any:
        ctx.by = by
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * Twist.scale[0] * ctx.by, None


class Twisted(T.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w, self.by = T.nn.Parameter(T.ones(3)), 1.0

    def forward(self, x: Any) -> Any:
        return Twist.apply(self.w * x, self.by).sum()


def test_what_a_backward_reads_may_not_change_before_it(monkeypatch: Any) -> None:
    model = Twisted()
    f = T.compile(model)
    for k in range(8):
        model.by = 1.0 + k // 2
        model.w.grad = None
        y = f(T.ones(3))
        model.by = -1.0  # the context has what it was
        y.backward()
        assert model.w.grad is not None and model.w.grad.tolist() == [2.0 * (1 + k // 2)] * 3
    assert f.explain().graph_count
    y = f(T.ones(3))
    monkeypatch.setattr(Twist, "scale", (3.0,))
    with pytest.raises(
        RuntimeError, match=r"the backward of .* reads `Twist\.scale`, which is not as it was"
    ):
        y.backward()


def test_other_memory_before_a_backward_is_an_error() -> None:
    w = T.nn.Parameter(T.ones(3))
    f = T.compile(lambda x: (x * w * w).sum())
    for _ in range(4):
        w.grad = None
        f(T.ones(3)).backward()
        assert w.grad is not None and w.grad.tolist() == [2.0] * 3
    assert f.explain().graph_count
    y = f(T.ones(3))
    w.data = w.data * 2
    with pytest.raises(RuntimeError, match="was given other memory since the call"):
        y.backward()
    f(T.ones(3)).backward()
    assert w.grad.tolist() == [6.0] * 3


def test_a_switch_of_a_module_of_nbgrads() -> None:
    @T.compile
    def f(x: Any) -> Any:
        T.backends.cudnn.benchmark = True
        return x * 2 + 1

    before = T.backends.cudnn.benchmark
    try:
        for _ in range(10):
            T.backends.cudnn.benchmark = False
            assert f(T.ones(2)).tolist() == [3.0, 3.0] and T.backends.cudnn.benchmark
    finally:
        T.backends.cudnn.benchmark = before
    assert f.explain().graph_count == 1


def test_objects_that_are_attributes_of_an_argument() -> None:
    class Meta:
        def __init__(self, weight: float) -> None:
            self.weight, self.mask = weight, T.ones(2)

    def weighed(x: Any) -> Any:
        return x * x.meta.weight * x.meta.mask + len(x.notes)

    def twice(x: Any) -> Any:
        return x * 2

    compiled = [T.compile(f, fullgraph=True) for f in (weighed, twice)]
    x = T.tensor([1.0, 2.0])
    x.meta, x.notes = Meta(2.0), [1]
    for k in range(16):
        if k == 5:
            x.meta.weight = 3.0
        elif k == 8:
            x.meta = Meta(5.0)
        elif k == 11:
            x.notes.append(2)
        x.meta.mask += 1
        assert [f(x).tolist() for f in compiled] == [weighed(x).tolist(), twice(x).tolist()], k
    y = T.ones(2)
    assert compiled[1](y).tolist() == [2.0, 2.0] and all(f.explain().graph_count for f in compiled)
