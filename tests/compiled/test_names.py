"""What `torch.compiler` tells and changes of functions that are compiled."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest

import nbgrad as T


def programs(f: Any) -> int:
    found: int = f.explain().graph_count
    return found


def doubled() -> Any:
    """A compiled function that notes how often it runs itself."""
    return T.compile(lambda x: x * 2 + 1)


def test_is_compiling_in_what_is_compiled() -> None:
    def f(x: Any) -> Any:
        return x * 2 if T.compiler.is_compiling() and T._dynamo.is_compiling() else x * 3

    compiled, x = T.compile(f), T.ones(2)
    assert [compiled(x).tolist() for _ in range(5)] == [[2.0, 2.0]] * 5
    assert programs(compiled) == 1
    assert f(x).tolist() == [3.0, 3.0] and not T.compiler.is_dynamo_compiling()


def test_is_compiling_is_of_a_thread() -> None:
    told: list[bool] = []

    def f(x: Any) -> Any:
        other = threading.Thread(target=lambda: told.append(T.compiler.is_compiling()))
        other.start()
        other.join()
        return x * 2 if T.compiler.is_compiling() else x

    assert T.compile(f)(T.ones(1)).item() == 2
    assert told == [False]


def test_what_is_not_compiled_is_told_so() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        if y.item() > 0 and not T.compiler.is_compiling():
            return y + 1
        return y

    compiled = T.compile(f)
    found = [compiled(T.ones(1)).item() for _ in range(6)]
    assert found[-1] == 3 and "read" in str(compiled.explain())


@pytest.mark.parametrize("reset", [T.compiler.reset, T._dynamo.reset])
def test_reset_forgets(reset: Any) -> None:
    f, x = doubled(), T.ones(2)
    for _ in range(4):
        f(x)
    assert programs(f) == 1
    reset()
    assert programs(f) == 0
    assert [f(x).tolist() for _ in range(4)] == [[3.0, 3.0]] * 4 and programs(f) == 1


@pytest.mark.filterwarnings("ignore:nbgrad.compile runs")
def test_reset_lets_a_function_that_was_given_up_try_again() -> None:
    reads = [True]
    compiled, x = T.compile(lambda x: x + (x.sum().item() if reads[0] else 1.0)), T.ones(2)
    for _ in range(6):
        compiled(x)
    assert programs(compiled) == 0
    reads[0] = False
    T.compiler.reset()
    assert [compiled(x).tolist() for _ in range(4)] == [[2.0, 2.0]] * 4 and programs(compiled) == 1


def test_force_eager() -> None:
    def f(x: Any) -> Any:
        return x * 2 if T.compiler.is_compiling() else x * 3

    compiled, x = T.compile(f), T.ones(1)
    assert [compiled(x).item() for _ in range(4)] == [2.0] * 4
    with T.compiler.set_stance("force_eager"):
        assert compiled(x).item() == 3
        fresh = T.compile(f)
        assert [fresh(x).item() for _ in range(4)] == [3.0] * 4
    assert programs(fresh) == 0
    assert compiled(x).item() == 2 and programs(compiled) == 1


def test_stances_where_no_program_fits() -> None:
    f = doubled()
    for _ in range(4):
        f(T.ones(2))
    with T.compiler.set_stance("eager_on_recompile"):
        for _ in range(4):
            assert f(T.ones(3)).tolist() == [3.0] * 3
    assert programs(f) == 1
    with T.compiler.set_stance("fail_on_recompile"):
        assert f(T.ones(2)).tolist() == [3.0] * 2
        with pytest.raises(RuntimeError, match=r"Detected recompile when torch.compile stance is"):
            f(T.ones(3))
    assert f(T.ones(3)).tolist() == [3.0] * 3


def test_a_stance_decorates_and_lasts() -> None:
    def f(x: Any) -> Any:
        return x * 2 if T.compiler.is_compiling() else x * 3

    compiled, x = T.compile(f), T.ones(1)
    plainly = T.compiler.set_stance("force_eager")(lambda: compiled(x).item())
    assert (compiled(x).item(), plainly(), compiled(x).item()) == (2.0, 3.0, 2.0)
    T.compiler.set_stance("force_eager")
    try:
        assert compiled(x).item() == 3
    finally:
        T.compiler.set_stance("default")
    assert compiled(x).item() == 2
    with pytest.raises(RuntimeError, match=r"invalid torch.compile stance 'none'"):
        T.compiler.set_stance("none")
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend set"):
        T.compiler.set_stance("force_eager", force_backend="eager")


def test_a_stance_is_not_set_in_what_is_compiled() -> None:
    def f(x: Any) -> Any:
        with T.compiler.set_stance("force_eager"):
            return x * 2

    with pytest.raises(RuntimeError, match=r"attempted to set_stance in a torch.compile region"):
        T.compile(f)(T.ones(1))
    assert T.compiler.set_stance("default").prev == "default"


def cast_step(model: Any, x: Any, called: Any) -> list[Any]:
    for p in model.parameters():
        p.grad = None
    with T.autocast("cpu"):
        y = called(x)
    y.float().square().sum().backward()
    return [y.dtype, y.tolist(), *[p.grad.tolist() for p in model.parameters()]]


def test_calls_within_autocast() -> None:
    model = T.nn.Sequential(T.nn.Linear(6, 5), T.nn.ReLU(), T.nn.Linear(5, 3))
    compiled, x = T.compile(model, fullgraph=True), T.randn(4, 6)
    wanted = cast_step(model, x, model)
    assert wanted[0] is T.bfloat16
    for _ in range(6):
        assert cast_step(model, x, compiled) == wanted
    assert programs(compiled.compiled) == 1
    assert compiled(x).dtype is T.float32 and not T.is_autocast_enabled("cpu")
    with T.autocast("cpu", dtype=T.float16):
        assert compiled(x).dtype is T.float16


def test_a_cut_within_autocast() -> None:
    def f(x: Any) -> Any:
        y = T.mm(x, x.T) * 2
        if y.float().sum().item() > 1e9:
            y = y + 1
        return T.mm(y, x.to(y.dtype)).relu()

    compiled, x = T.compile(f), T.randn(4, 6)
    with T.autocast("cpu"):
        for _ in range(8):
            assert compiled(x).tolist() == f(x).tolist()
    assert programs(compiled) >= 2


def test_draws_into_what_is_there() -> None:
    def f(noise: Any) -> Any:
        noise.add_(1)
        before = noise * 2
        noise.normal_(1, 2)
        return before + noise.uniform_(), T.randperm(4), T.randint(0, 9, (3,))

    compiled = T.compile(f, fullgraph=True)
    for seed in range(6):
        told = []
        for call in (f, compiled):
            T.manual_seed(seed)
            noise = T.full((5,), float(seed))
            told.append([*map(T.Tensor.tolist, call(noise)), noise.tolist(), T.rand(1).item()])
        assert told[0] == told[1]
    assert programs(compiled) == 1


def test_a_backend_that_is_none_is_refused_in_pytorchs_words() -> None:
    words = r"^Invalid backend: 'foo', see `torch._dynamo.list_backends\(\)` for available backends.$"
    for model in (lambda x: x, T.nn.Linear(1, 1)):
        with pytest.raises(T._dynamo.exc.InvalidBackend, match=words):
            T.compile(model, backend="foo", mode="bar", disable=True)
        with pytest.raises(T._dynamo.exc.InvalidBackend, match=words):
            T.compile(backend="foo")(model)
    with pytest.raises(RuntimeError, match=r"^Unrecognized mode=bar"):
        T.compile(mode="bar")(len)


def test_what_chooses_no_compiler_is_told_once() -> None:
    with pytest.warns(UserWarning) as told:
        T.compile(backend="cudagraphs", mode="max-autotune", dynamic=True)(len)
    names = ("backend='cudagraphs'", "mode='max-autotune'", "dynamic=True")
    assert [str(w.message).partition("ignores ")[2] for w in told] == [f"`{name}`" for name in names]
    assert {w.filename for w in told} == {__file__}
    T.set_warn_always(False)
    T.compile(len, mode="reduce-overhead", dynamic=True)
    T.compile(len, backend="inductor", mode="default", dynamic=False)


@pytest.mark.parametrize("backend", [None, "eager"])
def test_a_module_has_the_names_of_pytorchs_where_it_is_compiled(backend: str | None) -> None:
    layer = T.nn.Linear(2, 1)
    made = T.compile(layer, backend=backend)
    assert made._orig_mod is layer and list(made.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    x = T.ones(3, 2)
    assert all(T.equal(made(x), layer(x)) for _ in range(4)) and made.in_features == 2


@pytest.mark.parametrize("backend", [None, "eager"])
def test_a_module_is_compiled_where_it_stands(backend: str | None) -> None:
    model = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.ReLU())
    x, want = T.ones(3, 2), model(T.ones(3, 2)).tolist()
    seen: list[Any] = []
    model.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    assert model.compile(backend=backend) is None and list(model.state_dict()) == ["0.weight", "0.bias"]
    assert [model(x).tolist() for _ in range(5)] == [want] * 5 and len(seen) == 5
    assert backend or programs(model.forward) == 1
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model[0]))):
        assert "forward" not in vars(copied)
        copied.load_state_dict(copied.state_dict())
    assert copy.deepcopy(model)(x).tolist() == want


def test_a_library_is_told_that_compiling_is_possible() -> None:
    assert T._dynamo.is_dynamo_supported()
