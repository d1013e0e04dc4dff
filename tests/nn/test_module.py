"""`Module`: what is registered, walked, saved, loaded, hooked and printed, each scene held against PyTorch's."""

import copy
import gc
import pickle
import weakref
from collections import OrderedDict
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same, outcome
from tests.support import T

nn = T.nn
SCENES: dict[str, Callable[[ModuleType], Any]] = {}


def scene(fn: Callable[[ModuleType], Any]) -> Callable[[ModuleType], Any]:
    SCENES[fn.__name__] = fn
    return fn


def net(t: ModuleType) -> Any:
    """Two layers of which one is shared, a buffer of each kind, a lone parameter."""

    class Net(t.nn.Module):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = t.nn.Linear(2, 3)
            self.body = t.nn.Sequential(t.nn.Linear(3, 3), t.nn.ReLU())
            self.again = self.first
            self.scale = t.nn.Parameter(t.ones(2))
            self.none = None
            self.register_parameter("absent", None)
            self.register_buffer("seen", t.zeros(2))
            self.register_buffer("scratch", t.zeros(1), persistent=False)
            self.kept = t.nn.Buffer(t.ones(1))

        def forward(self, x: Any, shift: float = 0.0) -> Any:
            return self.body(self.first(x) + shift)

    t.manual_seed(0)
    return Net()


@scene
def walks(t: ModuleType) -> Any:
    m = net(t)
    return [
        [n for n, _ in m.named_parameters()],
        [n for n, _ in m.named_parameters("p", recurse=False)],
        [n for n, _ in m.named_parameters(remove_duplicate=False)],
        [n for n, _ in m.named_buffers()],
        [n for n, _ in m.named_children()],
        [n for n, _ in m.named_modules(prefix="top")],
        [n for n, _ in m.named_modules(remove_duplicate=False)],
        [len(list(g)) for g in (m.parameters(), m.buffers(), m.children(), m.modules())],
        [n for n in dir(m) if (not n.startswith("_") and n in m.__dict__) or n in ("first", "scale", "seen")],
    ]


@scene
def printed(t: ModuleType) -> Any:
    m = net(t)
    n = t.nn

    class Two(n.Module):  # type: ignore[name-defined,misc]
        def extra_repr(self) -> str:
            return "a=1\nb=2"

    class Drawn(n.Module):  # type: ignore[name-defined,misc]
        def extra_repr(self) -> str:  # asked once: what is drawn later depends on it
            return f"first={t.rand(1).item() > 0.5}"

    t.manual_seed(0)
    drawn = [repr(n.Sequential(Drawn(), Drawn())), t.rand(2).tolist()]
    shown = [m, n.Module(), Two(), n.Sequential(), n.ModuleList([n.ReLU() for _ in range(3)] + [Two()])]
    shown += [n.ModuleDict({"a": n.ReLU()}), n.ModuleList(), n.ModuleDict()]
    shown += [n.ParameterList([n.Parameter(t.ones(2, 3)), 3, t.ones(1)])]
    shown += [n.ParameterDict({"a": n.Parameter(t.ones(2)), "b": "text"})]
    return [*drawn, *(repr(x) for x in shown)]


@scene
def state_dicts(t: ModuleType) -> Any:
    m = net(t)
    state = m.state_dict()
    kept = m.state_dict(prefix="m.", keep_vars=True)
    return [
        list(state),
        [type(v).__name__ for v in state.values()],
        [v.requires_grad for v in state.values()],
        [v.requires_grad for v in kept.values()],
        list(kept),
        {k: dict(v) for k, v in state._metadata.items()},
        state["scale"].data_ptr() == m.scale.data_ptr(),
    ]


@scene
def loading(t: ModuleType) -> Any:
    m, other = net(t), net(t)
    for p in other.parameters():
        p.data.fill_(0.5)
    state = other.state_dict()
    results = [str(m.load_state_dict(state)), m.first.weight.detach(), m.first.weight.requires_grad]
    wrong = OrderedDict(state)
    del wrong["seen"]
    wrong["extra"] = t.ones(1)
    wrong["body.7.weight"] = t.ones(1)
    results.append(str(m.load_state_dict(wrong, strict=False)))
    results.append(outcome(lambda: m.load_state_dict(wrong)))
    wrong["scale"] = t.ones(3)
    wrong["kept"] = 4
    results.append(outcome(lambda: m.load_state_dict(wrong, strict=False)))
    results.append(outcome(lambda: m.load_state_dict([1])))
    fresh = {k: v.double() for k, v in state.items()}
    m.load_state_dict(fresh, assign=True)
    results += [m.first.weight.dtype == t.float64, type(m.first.weight) is t.nn.Parameter]
    return results


@scene
def state_hooks(t: ModuleType) -> Any:
    m, log = net(t), []
    m.register_state_dict_pre_hook(lambda module, prefix, keep: log.append((prefix, keep)))
    m.register_state_dict_post_hook(lambda module, state, prefix, meta: state.__delitem__("seen"))
    m.body.register_load_state_dict_pre_hook(
        lambda module, state, prefix, *rest: log.append((prefix, len(state), module is m.body))
    )
    handle = m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
    state = m.state_dict()
    loaded = str(m.load_state_dict(state))
    handle.remove()
    refused = outcome(lambda: m.load_state_dict(state))
    m.register_state_dict_post_hook(lambda *args: 3)
    return [list(state), loaded, refused, log, outcome(m.state_dict)]


@scene
def extra_state(t: ModuleType) -> Any:
    class Counter(t.nn.Module):  # type: ignore[name-defined,misc]
        count = 3

        def get_extra_state(self) -> int:
            return self.count

        def set_extra_state(self, state: int) -> None:
            self.count = state

    m = t.nn.Sequential(Counter())
    state = m.state_dict()
    state["0._extra_state"] = 7
    m.load_state_dict(state)
    plain = t.nn.Sequential(t.nn.Module())
    return [
        dict(m.state_dict()),
        outcome(lambda: m.load_state_dict({})),
        outcome(lambda: plain.load_state_dict(state)),
        outcome(plain.get_extra_state),
        outcome(lambda: plain.set_extra_state(1)),
    ]


@scene
def refusals(t: ModuleType) -> Any:
    m, n = net(t), t.nn
    leaf = t.nn.Parameter(t.ones(1))

    class Early(n.Module):  # type: ignore[name-defined,misc]
        def __init__(self, value: Any) -> None:
            self.value = value

    class Positional(n.Module):  # type: ignore[name-defined,misc]
        pass

    acts: list[Callable[[], Any]] = [
        lambda: m.register_parameter("a.b", leaf),
        lambda: m.register_parameter("", leaf),
        lambda: m.register_parameter(3, leaf),
        lambda: m.register_parameter("forward", leaf),
        lambda: m.register_parameter("p", t.ones(1)),
        lambda: m.register_parameter("p", 3),
        lambda: m.register_buffer("a.b", t.ones(1)),
        lambda: m.register_buffer("", t.ones(1)),
        lambda: m.register_buffer(3, t.ones(1)),
        lambda: m.register_buffer("scale", t.ones(1)),
        lambda: m.register_buffer("b", 3),
        lambda: m.add_module("a.b", n.ReLU()),
        lambda: m.add_module("", n.ReLU()),
        lambda: m.add_module(3, n.ReLU()),
        lambda: m.add_module("scale", n.ReLU()),
        lambda: m.add_module("x", 3),
        lambda: m.add_module("x", n.ReLU),
        lambda: setattr(m, "scale", t.ones(1)),
        lambda: setattr(m, "scale", 3),
        lambda: setattr(m, "first", 3),
        lambda: setattr(m, "seen", [1]),
        lambda: m.missing,
        lambda: delattr(m, "missing"),
        lambda: Early(leaf),
        lambda: Early(n.ReLU()),
        lambda: Positional(3),
        lambda: Positional(key=3),
        lambda: m.get_submodule("body.7"),
        lambda: m.get_submodule("scale"),
        lambda: m.get_parameter("body.0.nothing"),
        lambda: m.get_parameter("seen"),
        lambda: m.get_buffer("scale"),
        lambda: m.get_buffer("nothing"),
        lambda: m.set_submodule("", n.ReLU()),
        lambda: m.set_submodule("body.0", 3),
        lambda: m.set_submodule("scale", n.ReLU()),
        lambda: m.set_submodule("new", n.ReLU(), strict=True),
        lambda: m.to(t.int64),
        lambda: m.train(3),
        lambda: n.Module()(3),
        lambda: n.ModuleList([n.ReLU()])[3],
        lambda: n.ModuleList(3),
        lambda: n.Sequential(n.ReLU())["a"],
        lambda: n.Sequential(n.ReLU(), 3),
        lambda: n.Sequential(n.ReLU()) * 0,
        lambda: n.Sequential(n.ReLU()) * 1.5,
        lambda: n.Sequential(n.ReLU()).__add__([n.ReLU()]),
        lambda: n.Sequential(n.ReLU()).insert(5, n.ReLU()),
        lambda: n.ModuleDict({"a": n.ReLU()})["b"],
        lambda: n.ModuleDict(3),
        lambda: n.ModuleDict([(1, 2, 3)]),
        lambda: n.ParameterList(3),
        lambda: n.ParameterList([])[0],
        lambda: n.ParameterDict({3: leaf}),
        lambda: n.ParameterList([])(3),
        lambda: n.Unflatten(1, 3),
        lambda: n.Unflatten(1, (2, "a")),
        lambda: n.Dropout(1.5),
        lambda: n.BatchNorm1d(3)(t.ones(3)),
        lambda: n.BatchNorm2d(3)(t.ones(3, 3)),
        lambda: n.Embedding(3, 2, padding_idx=3),
        lambda: n.Embedding(3, 2, _weight=t.ones(2, 2)),
        lambda: n.Bilinear(0, 1, 1),
        lambda: n.Linear(2, 3)(t.ones(3)),
        lambda: n.NoSuchModule,
    ]
    return [str(outcome(act)).replace("nbgrad", "torch") for act in acts]


@scene
def attributes(t: ModuleType) -> Any:
    m = net(t)
    before = list(m.state_dict())
    m.seen = t.ones(2)
    m.seen = None
    m.scale = None
    m.none = t.nn.Parameter(t.ones(1))
    m.first = None
    del m.body
    m.kept = t.nn.Parameter(t.ones(1))  # a buffer's name becomes a parameter's
    return [
        before,
        list(m.state_dict()),
        hasattr(m, "body"),
        m.first,
        "none" in m._parameters,
        list(m._buffers),
    ]


@scene
def changed_all_at_once(t: ModuleType) -> Any:
    m = net(t)
    x = t.ones(1, 2)
    m(x).sum().backward()
    weight, names = m.first.weight, []
    m.apply(lambda module: names.append(type(module).__name__))
    found = [names, m.double() is m, weight is m.first.weight, weight.dtype == t.float64]
    found += [weight.grad.dtype == t.float64, m.seen.dtype == t.float64]
    found.append(m.to(dtype=t.float32).scale.dtype == t.float32)
    found.append(m.to("cpu", t.float64).scale.dtype == t.float64)
    found.append(m.to(t.ones(1)).scale.dtype == t.float32)
    found += [m.eval().body.training, m.train().body.training]
    m.zero_grad(set_to_none=False)
    found += [weight.grad, m.zero_grad(), weight.grad]
    m.requires_grad_(False)
    return [*found, [p.requires_grad for p in m.parameters()]]


@scene
def forward_hooks(t: ModuleType) -> Any:
    m, log = t.nn.Linear(2, 2), []
    t.nn.init.ones_(m.weight)
    t.nn.init.zeros_(m.bias)
    m.register_forward_pre_hook(lambda module, args: log.append("second") or (args[0] * 2))
    m.register_forward_pre_hook(lambda module, args: log.append("first"), prepend=True)
    m.register_forward_pre_hook(lambda module, args, kwargs: ((args[0] + 1,), kwargs), with_kwargs=True)
    handle = m.register_forward_hook(lambda module, args, result: result + args[0].sum())
    m.register_forward_hook(lambda module, args, kwargs, result: log.append(kwargs), with_kwargs=True)
    found = [m(t.ones(2)).detach()]
    handle.remove()
    with m.register_forward_hook(lambda module, args, result: result * 0):
        found.append(m(t.ones(2)).detach())
    found.append(m(t.ones(2)).detach())
    m.register_forward_pre_hook(lambda module, args, kwargs: 3, with_kwargs=True)
    return [*found, log, outcome(lambda: m(t.ones(2))), len(m._forward_hooks)]


@scene
def hooks_that_always_run(t: ModuleType) -> Any:
    class Fails(t.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    m, log = Fails(), []
    m.register_forward_hook(lambda module, args, result: log.append(result), always_call=True)
    m.register_forward_hook(lambda module, args, result: log.append("never"))
    return [outcome(lambda: m(1)), log]


@scene
def global_hooks(t: ModuleType) -> Any:
    where, log = t.nn.modules.module, []
    handles = [
        where.register_module_forward_pre_hook(lambda m, args: log.append(("pre", type(m).__name__))),
        where.register_module_forward_hook(lambda m, args, out: log.append(("post", type(m).__name__))),
        where.register_module_full_backward_hook(lambda m, gi, go: log.append(("back", type(m).__name__))),
        where.register_module_full_backward_pre_hook(lambda m, go: log.append(("due", type(m).__name__))),
    ]
    try:
        m = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.ReLU())
        m(t.ones(1, 2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    names: list[Any] = []
    handle = where.register_module_parameter_registration_hook(lambda m, name, p: names.append(name))
    try:
        t.nn.Linear(1, 1)
    finally:
        handle.remove()
    return [log, names]


@scene
def backward_hooks(t: ModuleType) -> Any:
    m, log = t.nn.Linear(2, 2, bias=False), []
    t.nn.init.ones_(m.weight)
    m.register_full_backward_pre_hook(lambda module, go: (go[0] * 3,))
    m.register_full_backward_hook(lambda module, gi, go: log.extend([gi[0], go[0]]))
    added = m.register_full_backward_hook(lambda module, gi, go: (gi[0] + 1,))
    x = t.ones(1, 2, requires_grad=True)
    m(x).sum().backward()
    found = [x.grad, m.weight.grad, *log]
    log.clear()
    added.remove()
    m(t.ones(1, 2)).sum().backward()  # no input needs a gradient
    found.append(log[0])
    return [*found, *outcomes_of_bad_hooks(t)]


def outcomes_of_bad_hooks(t: ModuleType) -> list[str]:
    found: list[str] = []
    for wants, hook in ((True, lambda m, gi, go: (gi[0], gi[0])), (False, lambda m, gi, go: (go[0],))):
        m = t.nn.Linear(2, 2)
        m.register_full_backward_hook(hook)
        found.append(outcome(lambda m=m, w=wants: m(t.ones(1, 2, requires_grad=w)).sum().backward()))
    m = t.nn.Linear(2, 2)
    m.register_full_backward_pre_hook(lambda m, go: (go[0], go[0]))
    found.append(outcome(lambda: m(t.ones(1, 2)).sum().backward()))
    return found


@scene
def backward_hooks_of_several(t: ModuleType) -> Any:
    class Pair(t.nn.Module):  # type: ignore[name-defined,misc]
        def forward(self, a: Any, b: Any, n: int) -> Any:
            return a * b, a + n

    m, log = Pair(), []
    m.register_full_backward_hook(lambda module, gi, go: log.append((gi[0], gi[2], go)))
    a, b = t.ones(2, requires_grad=True), t.ones(2) * 2
    p, _ = m(a, b, 3)
    shown = p.grad_fn.name()
    p.sum().backward()
    return [shown, log, a.grad]


@scene
def containers(t: ModuleType) -> Any:
    n = t.nn
    s = n.Sequential(OrderedDict(a=n.ReLU(), b=n.Tanh()))
    found = [list(s._modules), type(s[0]).__name__, type(s[-1]).__name__, len(s[1:]), list(s[1:]._modules)]
    s.append(n.Sigmoid())
    del s[0]
    found.append(list(s._modules))
    s = n.Sequential(n.ReLU(), n.Tanh())
    s.insert(1, n.Sigmoid())
    s[0] = n.GELU()
    found += [repr(s), repr(s + s[:1]), repr(s * 2), len(s.extend(list(s))), type(s.pop(-1)).__name__]
    ml = n.ModuleList([n.ReLU()])
    ml.append(n.Tanh()).extend([n.Sigmoid()])
    ml.insert(0, n.GELU())
    ml += [n.ReLU()]
    del ml[1:3]
    found += [repr(ml), repr(ml + ml), type(ml.pop(0)).__name__, len(ml), repr(ml[::-1])]
    md = n.ModuleDict([("x", n.ReLU())])
    md["y"] = n.Tanh()
    md.update({"z": n.Sigmoid()})
    found += [list(md), list(md.keys()), "x" in md, type(md.pop("x")).__name__, len(md), repr(md)]
    pl = n.ParameterList([t.ones(1)])
    pl += [t.ones(2), 3]
    pl[0] = t.zeros(1)
    found += [len(pl), type(pl[0]).__name__, pl[-1], [k for k, _ in pl.named_parameters()], len(pl[1:])]
    pd = n.ParameterDict({"a": t.ones(1)})
    pd["b"] = 3
    pd.setdefault("c", t.ones(2))
    found += [list(pd), pd.get("q", 5), pd.pop("b"), [k for k, _ in pd.named_parameters()], list(pd.items())]
    found += [list(pd | n.ParameterDict({"z": 1})), pd.popitem()[0], list(reversed(pd))]
    return found


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("name", SCENES)
def test_scene(torch: ModuleType, name: str) -> None:
    got, want = (SCENES[name](module) for module in (T, torch))
    if name == "refusals":
        assert got == want
    assert_same(got, want, name)


def test_a_module_is_made_of_what_is_assigned() -> None:
    m = net(T)
    assert [n for n, _ in m.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "body.0.weight",
        "body.0.bias",
    ]
    assert list(m.state_dict()) == [
        *("scale", "seen", "kept", "first.weight", "first.bias", "body.0.weight", "body.0.bias"),
        *("again.weight", "again.bias"),
    ]
    assert m.get_submodule("body.0") is m.body[0] and m.get_parameter("first.bias") is m.again.bias
    m(T.ones(1, 2), shift=1.0).sum().backward()
    assert all(p.grad is not None for n, p in m.named_parameters() if n != "scale")


def test_copies_are_whole_and_apart() -> None:
    m = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    for other in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert repr(other) == repr(m) and list(other.state_dict()) == list(m.state_dict())
        assert type(other[0].weight) is nn.Parameter
        with T.no_grad():
            other[0].weight.fill_(0)
        assert m[0].weight.abs().sum().item() > 0


def test_a_shared_module_stays_shared_when_copied() -> None:
    m = net_of_pairs()
    other = copy.deepcopy(m)
    assert other[0] is other[1] and other[0] is not m[0]


def net_of_pairs() -> Any:
    one = nn.Linear(1, 1)
    return nn.ModuleList([one, one])


def test_handles_of_hooks_are_removable() -> None:
    m = nn.ReLU()
    handle = m.register_forward_hook(lambda *_: None)
    assert isinstance(handle, import_module(f"{T.__name__}.utils.hooks").RemovableHandle)
    handle.remove()
    handle.remove()
    assert not m._forward_hooks
    np.testing.assert_array_equal(m(T.tensor([-1.0, 2.0])).numpy(), [0, 2])


def test_what_was_loaded_goes_with_its_last_name() -> None:
    """No cycle keeps a state dict's tensors until Python looks for cycles."""
    net = T.nn.Linear(2, 3)
    state = copy.deepcopy(net).state_dict()
    loaded = weakref.ref(state["weight"])
    gc.disable()
    try:
        net.load_state_dict(state)
        del state
        assert loaded() is None
    finally:
        gc.enable()


@pytest.mark.oracle
def test_settled_attributes_are_listed(torch: ModuleType) -> None:
    """`__constants__`, which PyTorch's scripts compile as constants."""
    names = [n for n, c in vars(torch.nn.modules).items() if isinstance(c, type) and n[0] != "_"]
    listed = {n: getattr(getattr(torch.nn, n, None), "__constants__", None) for n in names}
    assert {n: getattr(getattr(T.nn, n, None), "__constants__", None) for n in names} == listed
    assert listed["Linear"] == ["in_features", "out_features"]
