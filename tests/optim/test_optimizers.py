"""Optimisers: ten steps against PyTorch under every option, state, hooks, refusals, and the kernel against ops on tensors."""

import copy
import pickle
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels import build
from nbgrad.kernels.cpu import optim as kernels
from nbgrad.memory import backend
from nbgrad.optim import _update
from tests.compare import outcome
from tests.support import T

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [
        {},
        dict(momentum=0.9),
        dict(momentum=0.9, dampening=0.3),
        dict(momentum=0.9, nesterov=True, weight_decay=0.1),
        dict(maximize=True, weight_decay=0.1, foreach=True),
        dict(fused=True),
    ],
    "Adam": [
        {},
        dict(amsgrad=True, weight_decay=0.1),
        dict(maximize=True, betas=(0.8, 0.9), eps=1e-3, fused=True),
        dict(decoupled_weight_decay=True, weight_decay=0.1),
    ],
    "AdamW": [{}, dict(amsgrad=True, maximize=True, foreach=True), dict(weight_decay=0)],
    "RMSprop": [
        {},
        dict(momentum=0.9),
        dict(centered=True, weight_decay=0.1),
        dict(momentum=0.9, centered=True, maximize=True, alpha=0.9),
    ],
    "Adagrad": [{}, dict(lr_decay=0.1, weight_decay=0.1), dict(initial_accumulator_value=0.5, maximize=True)],
    "Adadelta": [{}, dict(rho=0.5, weight_decay=0.1, maximize=True)],
    "Adamax": [{}, dict(betas=(0.5, 0.7), weight_decay=0.1, maximize=True)],
    "NAdam": [
        dict(weight_decay=0.1, maximize=True),
        dict(weight_decay=0.1, decoupled_weight_decay=True, momentum_decay=0.1),
    ],
    "RAdam": [
        dict(weight_decay=0.1, maximize=True),
        dict(weight_decay=0.1, decoupled_weight_decay=True, betas=(0.5, 0.7)),
    ],
    "ASGD": [{}, dict(t0=3, alpha=0.5, lambd=0.1, weight_decay=0.1, maximize=True)],
    "Rprop": [{}, dict(etas=(0.3, 1.5), step_sizes=(1e-3, 0.1), maximize=True)],
}
CASES = [
    pytest.param(name, options, id=f"{name}-{'-'.join(options) or 'default'}")
    for name, all_options in OPTIONS.items()
    for options in all_options
]
SHAPES = ((3, 4), (5,), (), (2, 0))


def draw(lib: ModuleType, rng: np.random.RandomState, dtype: str, shape: tuple[int, ...]) -> Any:
    values = rng.randn(int(np.prod(shape))).tolist()
    return lib.tensor(values, dtype=getattr(lib, dtype)).reshape(shape)


def train(lib: ModuleType, name: str, options: dict[str, Any], dtype: str, lay: Any = None) -> Any:
    """Parameters and state after ten steps. The third step misses a gradient; `lay` lays parameters out anew."""
    rng = np.random.RandomState(0)
    params = [draw(lib, rng, dtype, shape) for shape in SHAPES]
    params = [(lay(p) if lay else p).requires_grad_() for p in params]
    optimizer = getattr(lib.optim, name)(params, **options)
    for step in range(10):
        for k, p in enumerate(params):
            p.grad = draw(lib, rng, dtype, tuple(p.shape)) if (step, k) != (2, 1) else None
        optimizer.step()
    return optimizer, params


def arrays(state: dict[str, Any]) -> dict[str, np.ndarray]:
    return {k: v.detach().numpy() for k, v in state.items()}


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "options"), CASES)
def test_ten_steps(torch: ModuleType, name: str, options: dict[str, Any]) -> None:
    for dtype, tol in (("float32", 1e-6), ("float64", 1e-12)):
        got, params = train(T, name, options, dtype)
        want, wanted = train(torch, name, options, dtype)
        for p, q in zip(params, wanted, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), tol, tol)
            mine, theirs = arrays(got.state.get(p, {})), arrays(want.state.get(q, {}))
            assert list(mine) == list(theirs)
            for key in mine:
                assert mine[key].dtype == theirs[key].dtype and mine[key].shape == theirs[key].shape, key
                np.testing.assert_allclose(mine[key], theirs[key], tol, tol, err_msg=key)
            if not options.get("fused"):  # PyTorch's fused kernels forget to count
                assert p._version == q._version
        assert repr(got) == repr(want)
        assert got.state_dict()["param_groups"] == want.state_dict()["param_groups"]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_kernel_is_the_ops(name: str, options: dict[str, Any]) -> None:
    """One rule, two ways: by the kernel, and by ops on tensors where memory has gaps."""
    by_kernel = train(T, name, options, "float64")
    transposed = train(T, name, options, "float64", lambda p: p.t().contiguous().t() if p.ndim == 2 else p)
    by_ops = train(T, name, options, "float64", lambda p: T.stack([p, p], -1).select(-1, 0).detach())
    assert by_ops[1][0].stride() == (8, 2) and transposed[1][0].stride() == (1, 3)
    for a, b, c in zip(by_kernel[1], by_ops[1], transposed[1], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-13, 1e-13)
        np.testing.assert_allclose(a.detach().numpy(), c.detach().numpy(), 1e-13, 1e-13)
        assert a._version == b._version


def test_sgd_by_hand() -> None:
    p = T.tensor([1.0, 2.0], requires_grad=True)
    optimizer = T.optim.SGD([p], lr=0.5, momentum=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        (p * T.tensor([1.0, -2.0])).sum().backward()
        optimizer.step()
    assert p.tolist() == [1 - 0.5 - 0.75, 2 + 1 + 1.5]
    assert optimizer.state[p]["momentum_buffer"].tolist() == [1.5, -3.0]


def test_mixed_dtypes_in_a_group() -> None:
    alone = {}
    for dtype in (T.float32, T.float64, T.float16):
        p = alone[dtype] = T.ones(3, dtype=dtype, requires_grad=True)
        p.grad = T.arange(1, 4, dtype=dtype)
        T.optim.Adam([p], lr=0.1).step()
    together = [T.ones(3, dtype=d, requires_grad=True) for d in alone]
    for p in together:
        p.grad = T.arange(1, 4, dtype=p.dtype)
    T.optim.Adam(together, lr=0.1).step()
    assert all(T.equal(p, alone[p.dtype]) for p in together)


def test_parameters_that_share_memory() -> None:
    """Are stepped one after the other, as PyTorch does, however many threads there are."""
    p = T.zeros(40000, requires_grad=True)
    q = p.detach().requires_grad_()
    p.grad, q.grad = T.ones(40000), T.ones(40000)
    T.optim.SGD([p, q], lr=1.0).step()
    assert (p == -2).all()


def test_many_elements_over_threads() -> None:
    sizes = (30000, 1, 17, 20000, 64)
    params = [T.zeros(n, requires_grad=True) for n in sizes]
    for k, p in enumerate(params):
        p.grad = T.full((p.numel(),), float(k + 1))
    optimizer = T.optim.SGD(params, lr=1.0)
    for _ in range(2):
        optimizer.step()
    assert all((p == -2.0 * (k + 1)).all() for k, p in enumerate(params))


def test_replaced_memory_is_seen() -> None:
    """The table of addresses is made anew when a parameter, its layout or its state is another."""
    p = T.zeros(4, requires_grad=True)
    optimizer = T.optim.SGD([p], lr=1.0, momentum=0.5)
    p.grad = T.ones(4)
    optimizer.step()
    before = p.data
    p.data = T.zeros(4)
    optimizer.state[p]["momentum_buffer"] = T.full((4,), 2.0)
    optimizer.step()
    assert p.tolist() == [-2.0] * 4 and before.tolist() == [-1.0] * 4
    p.grad = None
    p.data = p.data[:2]
    p.grad = T.ones(2)
    optimizer.state[p]["momentum_buffer"] = T.zeros(2)
    optimizer.step()
    assert p.tolist() == [-3.0] * 2


def test_a_schedule_compiles_nothing() -> None:
    p = T.zeros(4, requires_grad=True)
    optimizer = T.optim.Adam([p], lr=1.0)
    p.grad = T.ones(4)
    optimizer.step()
    built = len(build._kernels)
    for lr in (0.5, 0.25):
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
    assert len(build._kernels) == built


def test_kernel_source_runs_as_python() -> None:
    """The same text, un-jitted, over part of the range."""
    rule = _update.Rule("halve", lambda lr: {"rate": lr}, lambda p, g, n: (p - g * n.rate,))
    built = rule.built(_update.Kind("f4", "", backend.cpu, backend.cpu))
    body = next(k for k in build._kernels.values() if k.address == built.update).python()
    p, q, g = np.zeros(3, np.float32), np.zeros(2, np.float32), np.ones(3, np.float32)
    table = [3, *kernels.addresses([p.view(np.uint8), g.view(np.uint8)])]
    table += [2, *kernels.addresses([q.view(np.uint8), g.view(np.uint8)])]
    body(2, 4, table, [0.5, 0.25])
    assert p.tolist() == [0, 0, -0.5] and q.tolist() == [-0.25, 0]


def test_saved_values_notice_a_step() -> None:
    w = T.ones(2, requires_grad=True)
    y = (w * w).sum()
    w.grad = T.ones(2)
    T.optim.SGD([w], lr=0.1).step()
    with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
        y.backward()


def test_step_is_not_recorded_and_closure_is() -> None:
    w = T.ones(2, requires_grad=True)
    optimizer = T.optim.SGD([w], lr=0.1)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with T.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 2.0 and w.grad_fn is None and w.requires_grad
    assert w.tolist() == pytest.approx([0.8, 0.8])


def test_an_inference_parameter_is_refused() -> None:
    with T.inference_mode():
        w = T.ones(2)
    optimizer = T.optim.SGD([w], lr=0.1)
    w.grad = T.ones(2)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        optimizer.step()
    assert w.tolist() == [1, 1]


def test_zero_grad() -> None:
    w = T.ones(2, requires_grad=True)
    optimizer = T.optim.SGD([w], lr=0.1)
    (grad,) = T.autograd.grad((w * w).sum(), w, create_graph=True)
    w.grad = grad
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is grad and grad.grad_fn is None and not grad.requires_grad and grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert w.grad is None


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_step_through_a_step(name: str) -> None:
    """`differentiable=True`: the gradient of the result with respect to the start and the gradients, by finite differences."""

    def after(start: Any, first: Any, second: Any) -> Any:
        w = start * 1.0
        optimizer = getattr(T.optim, name)([w], lr=0.1, differentiable=True)
        for grad in (first, second):
            w.grad = grad * 1.0
            optimizer.step()
        return w

    inputs = [T.tensor(v, dtype=T.float64, requires_grad=True) for v in ([1.0, 2.0], [0.3, -0.5], [0.7, 0.2])]
    assert T.autograd.gradcheck(after, inputs, eps=1e-6)


@pytest.mark.oracle
@pytest.mark.parametrize(("name", "rel"), [("SGD", 1e-12), ("Adam", 2e-5)])
def test_gradient_of_the_learning_rate(torch: ModuleType, name: str, rel: float) -> None:
    """PyTorch takes Adam's corrections from counts in float32 here, which decides how near it can be."""

    def hypergradient(lib: ModuleType) -> Any:
        lr = lib.tensor(0.1, dtype=lib.float64, requires_grad=True)
        w = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True) * 1.0
        optimizer = getattr(lib.optim, name)([w], lr=lr, differentiable=True)
        for values in ([0.3, -0.5], [0.7, 0.2]):
            w.grad = lib.tensor(values, dtype=lib.float64)
            optimizer.step()
        return lib.autograd.grad(w.pow(2).sum(), lr)[0].item()

    assert hypergradient(T) == pytest.approx(hypergradient(torch), rel=rel)


def test_tensor_learning_rate() -> None:
    w = T.ones(2, requires_grad=True)
    lr = T.tensor(0.5)
    optimizer = T.optim.SGD([w], lr=lr)
    w.grad = T.ones(2)
    optimizer.step()
    lr.fill_(0.25)
    optimizer.step()
    assert w.tolist() == [0.25, 0.25]


# ---------------------------------------------------------------- groups, state, hooks


def test_groups_and_names() -> None:
    a, b, c = (T.ones(2, requires_grad=True) for _ in range(3))
    optimizer = T.optim.SGD([{"params": [("a", a)]}, {"params": [("b", b)], "lr": 0.5}], lr=0.1)
    optimizer.add_param_group({"params": [("c", c)], "momentum": 0.9})
    for p in (a, b, c):
        p.grad = T.ones(2)
    optimizer.step()
    assert [p[0].item() for p in (a, b, c)] == pytest.approx([0.9, 0.5, 0.9])
    groups = optimizer.state_dict()["param_groups"]
    assert [g["params"] for g in groups] == [[0], [1], [2]]
    assert [g["param_names"] for g in groups] == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
def test_state_dict_round_trip(name: str) -> None:
    """A loaded optimiser goes on as the saved one; state comes in the dtype of its parameter."""
    options = OPTIONS[name][1]
    optimizer, params = train(T, name, options, "float64")
    fresh = [p.detach().clone().requires_grad_() for p in params]
    other = getattr(T.optim, name)(fresh, lr=123.0)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for p, q in zip(params, fresh, strict=True):
        p.grad, q.grad = T.ones_like(p), T.ones_like(q)
    optimizer.step()
    other.step()
    assert all(T.equal(p, q) for p, q in zip(params, fresh, strict=True))
    narrow = getattr(T.optim, name)([p.detach().float().requires_grad_() for p in params])
    narrow.load_state_dict(optimizer.state_dict())
    for state in narrow.state.values():
        assert all(v.dtype is T.float32 for k, v in state.items() if k != "step")


def test_pickled_and_copied() -> None:
    optimizer, params = train(T, "Adam", {}, "float32")
    for made in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (group,) = made.param_groups
        for p, q in zip(params, group["params"], strict=True):
            p.grad, q.grad = T.ones_like(p), T.ones_like(q)
        made.step()
        assert made.state[group["params"][0]]["step"].item() == 11
    assert optimizer.state[params[0]]["step"].item() == 10


def test_hooks() -> None:
    w = T.ones(2, requires_grad=True)
    w.grad = T.ones(2)
    optimizer = T.optim.SGD([w], lr=0.5)
    seen: list[Any] = []
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: seen.append(("pre", args, w[0].item())))
    after = optimizer.register_step_post_hook(
        lambda opt, args, kwargs: seen.append(("post", args, w[0].item()))
    )
    optimizer.step()
    after.remove()
    optimizer.step(None)
    assert seen == [("pre", (optimizer,), 1.0), ("post", (optimizer,), 0.5), ("pre", (optimizer, None), 0.5)]
    optimizer.register_step_pre_hook(lambda opt, args, kwargs: ((opt,), {"closure": lambda: 3}))
    assert optimizer.step() == 3
    optimizer.register_state_dict_pre_hook(lambda opt: seen.append("before"))
    optimizer.register_state_dict_post_hook(lambda opt, d: {**d, "first": 1})
    optimizer.register_state_dict_post_hook(lambda opt, d: {**d, "keys": list(d)}, prepend=True)
    saved = optimizer.state_dict()
    assert seen[-1] == "before" and saved["keys"] == ["state", "param_groups"] and saved["first"] == 1
    optimizer.register_load_state_dict_pre_hook(
        lambda opt, d: {**d, "param_groups": [{**d["param_groups"][0], "lr": 7.0}]}
    )
    optimizer.register_load_state_dict_post_hook(lambda opt: seen.append(opt.param_groups[0]["lr"]))
    optimizer.load_state_dict(saved)
    assert seen[-1] == 7.0


def test_own_optimizer() -> None:
    """A user's subclass that writes to parameters by ops."""

    class Sign(T.optim.Optimizer):
        def step(self, closure: Any = None) -> None:
            with T.no_grad():
                for group in self.param_groups:
                    for p in group["params"]:
                        p.sub_(p.grad.sign() * group["lr"])

    w = T.ones(2, requires_grad=True)
    optimizer = Sign([w], dict(lr=0.25))
    calls: list[Any] = []
    optimizer.register_step_post_hook(lambda *_: calls.append(1))
    w.grad = T.tensor([3.0, -3.0])
    optimizer.step()
    assert w.tolist() == [0.75, 1.25] and calls == [1]


def test_steps_on_several_threads() -> None:
    def work(out: list[Any]) -> None:
        w = T.zeros(20000, requires_grad=True)
        optimizer = T.optim.SGD([w], lr=1.0)
        for _ in range(20):
            w.grad = T.ones(20000)
            optimizer.step()
        out.append(bool((w == -20).all()))

    done: list[Any] = []
    threads = [threading.Thread(target=work, args=(done,)) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert done == [True] * 3


def refusals(lib: ModuleType) -> dict[str, Any]:
    """What is refused or warned of, and how."""

    def p(n: int = 2) -> Any:
        return lib.ones(n, requires_grad=True)

    def prehook() -> None:
        optimizer = lib.optim.SGD([p()])
        optimizer.register_step_pre_hook(lambda *_: 3)
        optimizer.step()

    def load(**change: Any) -> None:
        optimizer = lib.optim.SGD([p()])
        saved = optimizer.state_dict()
        optimizer.load_state_dict({**saved, **change})

    def step(name: str, **options: Any) -> None:
        w = p()
        w.grad = lib.ones(2)
        getattr(lib.optim, name)([w], **options).step()

    one, two = p(), p()
    base = lib.optim.Optimizer
    found: dict[str, Any] = {
        "tensor": lambda: lib.optim.SGD(p()),
        "empty": lambda: lib.optim.SGD([]),
        "text": lambda: lib.optim.SGD("ab"),
        "numbers": lambda: lib.optim.SGD([1, 2]),
        "array": lambda: lib.optim.SGD([np.ones(2)]),
        "computed": lambda: lib.optim.SGD([p() * 2]),
        "twice": lambda: lib.optim.SGD([one, one]),
        "in two groups": lambda: lib.optim.SGD([{"params": [one]}, {"params": [one]}]),
        "set": lambda: lib.optim.SGD([{"params": {one}}]),
        "no dict": lambda: lib.optim.SGD([one]).add_param_group([two]),
        "no params": lambda: lib.optim.SGD([one]).add_param_group({}),
        "name missing": lambda: lib.optim.SGD([("a", one), two]),
        "group without names": lambda: lib.optim.SGD([("a", one)]).add_param_group({"params": [two]}),
        "group with names": lambda: lib.optim.SGD([one]).add_param_group({"params": [("b", two)]}),
        "groups differ": lambda: load(param_groups=[]),
        "parameters differ": lambda: load(param_groups=[{"params": [0, 1]}]),
        "no groups": lambda: lib.optim.SGD([one]).load_state_dict({}),
        "step of the base": lambda: base([one], {}).step(),
        "differentiable leaf": lambda: step("SGD", differentiable=True),
        "capturable": lambda: step("Adam", capturable=True),
        "capturable, RMSprop": lambda: step("RMSprop", capturable=True),
    }
    wrong: dict[str, list[dict[str, Any]]] = {
        "SGD": [dict(momentum=-1), dict(nesterov=True), dict(nesterov=True, momentum=0.9, dampening=0.1)],
        "Adam": [
            dict(betas=(1.0, 0.9)),
            dict(betas=(0.9, -1)),
            dict(betas=(0.9,)),
            dict(eps=-1),
            dict(lr=lib.tensor(0.1), foreach=True),
            dict(betas=(lib.tensor(0.9), 0.99)),
            dict(lr=None),
        ],
        "AdamW": [dict(weight_decay=-1)],
        "RMSprop": [dict(alpha=-1), dict(momentum=-1), dict(eps=-1)],
        "Adagrad": [dict(lr_decay=-1), dict(initial_accumulator_value=-1), dict(eps=-1)],
    }
    for name, options in wrong.items():
        both = [dict(lr=-1), dict(weight_decay=-1), dict(lr=lib.tensor([0.1, 0.2]))]
        if name != "RMSprop":
            both += [dict(fused=True, foreach=True), dict(fused=True, differentiable=True)]
        for k, kwargs in enumerate(options + both):
            found[f"{name} {k}"] = lambda n=name, kw=kwargs: getattr(lib.optim, n)([p()], **kw)
    return found


@pytest.mark.oracle
def test_refusals(torch: ModuleType) -> None:
    theirs = refusals(torch)
    for name, run in refusals(T).items():
        got, want = outcome(run), outcome(theirs[name])
        assert isinstance(want, str), f"PyTorch does not refuse: {name}"
        if name != "prehook":
            assert got == want, name


def test_one_that_stands_before_another_keeps_hooks_under_pytorchs_names() -> None:
    class Ahead(T.optim.Optimizer):
        """Never made as one, as in libraries that wrap optimisers."""

        def __init__(self, inner: Any) -> None:
            self.inner, self.param_groups, self.state = inner, inner.param_groups, inner.state
            for when in "pre", "post":
                for what in "step", "state_dict", "load_state_dict":
                    setattr(self, f"_optimizer_{what}_{when}_hooks", {})

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    w = T.ones(2, requires_grad=True)
    w.grad = T.ones(2)
    optimizer = Ahead(T.optim.SGD([w], lr=0.5))
    optimizer.step()
    assert w.tolist() == [0.5, 0.5]
    assert optimizer.state_dict()["param_groups"][0]["lr"] == 0.5


def test_a_pre_hook_must_return_arguments() -> None:
    optimizer = T.optim.SGD([T.ones(2, requires_grad=True)])
    optimizer.register_step_pre_hook(lambda *_: 3)
    with pytest.raises(
        RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3\."
    ):
        optimizer.step()


MUON = [
    {},
    {"nesterov": False, "weight_decay": 0.0},
    {"adjust_lr_fn": "match_rms_adamw", "ns_steps": 3, "momentum": 0.5},
]


@pytest.mark.oracle
@pytest.mark.parametrize("options", MUON, ids=str)
def test_muon_steps_as_in_pytorch(torch: ModuleType, options: dict[str, Any]) -> None:
    """Its products are rounded to bfloat16, after sums whose order differs: a step differs by some of those roundings."""
    rng = np.random.default_rng(0)
    start = [rng.normal(size=shape).astype(np.float32) for shape in ((4, 6), (8, 3), (5, 5), (1, 7))]
    grads = [[rng.normal(size=a.shape).astype(np.float32) for a in start] for _ in range(5)]
    found = []
    for t in (T, torch):
        params = [t.nn.Parameter(t.tensor(a)) for a in start]
        optimizer = t.optim.Muon(params, lr=0.02, **options)
        for step in grads:
            for p, g in zip(params, step):
                p.grad = t.tensor(g)
            optimizer.step()
        state = optimizer.state_dict()
        found.append([*params, *[state["state"][k]["momentum_buffer"] for k in range(len(params))]])
        assert list(state["param_groups"][0])[:3] == ["lr", "weight_decay", "momentum"]
    for got, want, first in zip(*found, [*start, *start], strict=True):
        moved = np.abs(want.numpy(force=True) - first).max()
        far = np.abs(got.numpy(force=True) - want.numpy(force=True)).max()
        assert far <= 0.02 * moved


def test_muon_refuses() -> None:
    parameter = T.nn.Parameter(T.ones(2, 2))
    with pytest.raises(ValueError, match="Muon only supports 2D parameters"):
        T.optim.Muon([T.nn.Parameter(T.ones(2))])
    with pytest.raises(ValueError, match="Adjust learning rate function x is not supported"):
        T.optim.Muon([parameter], adjust_lr_fn="x")
    parameter.grad = T.ones(2, 2)
    with pytest.raises(ValueError, match="Number of steps must be less than 100"):
        T.optim.Muon([parameter], ns_steps=100).step()
