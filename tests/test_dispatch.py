"""`__torch_dispatch__`: what modes and wrapping tensors are handed, beside PyTorch."""

from __future__ import annotations

import copy
import gc
import io
import pickle
import re
import subprocess
import sys
import threading
from typing import Any

import pytest

import nbgrad as T
from nbgrad.core.overrides import armed
from nbgrad.tape.modes import shared
from nbgrad.utils.flop_counter import FlopCounterMode

# Programs of which PyTorch's log is nbgrad's: all operators in order with their arguments, but for the `detach` by which PyTorch keeps what
# it saves and the sums into `grad` of leaves.
PROGRAMS = """
(x * x).sum().backward()
F.linear(x, w, b).sum().backward()
F.linear(x, w)
F.linear(torch.ones(2, 5, 3), w, b)
torch.matmul(torch.ones(2, 5, 3), w.t()).sum().backward()
torch.ones(2, 5, 3) @ torch.ones(2, 3, 4)
x @ torch.ones(3), b @ b
F.layer_norm(x, (3,), torch.ones(3, requires_grad=True), torch.ones(3)).sum().backward()
F.softmax(x, -1).sum().backward()
F.cross_entropy(x, torch.tensor([0, 1])).backward()
F.relu(x).sum().backward(), F.gelu(x).sum().backward(), F.silu(x).sum().backward()
torch.sigmoid(x).sum().backward(), torch.tanh(x).mean().backward()
x.exp().sum().backward(), x.abs().log().sum().backward(), x.sin().sum().backward(), x.cos().sum().backward()
(x**3).sum().backward(), x.abs().sqrt().sum().backward(), (1 - x - p).sum().backward(), 2 / p
(x / (x + 1)).sum().backward()
F.conv2d(i, torch.ones(4, 3, 3, 3, requires_grad=True), torch.ones(4), padding=1).sum().backward()
F.max_pool2d(i, 2).sum().backward(), F.avg_pool2d(i, 2).sum().backward(), F.adaptive_avg_pool2d(i, 1).sum().backward()
F.embedding(torch.tensor([0, 1]), w).sum().backward()
F.dropout(x, 0.5).sum().backward()
i.flatten(1).sum().backward(), i.view(2, -1).sum().backward(), i.permute(0, 2, 3, 1).sum().backward()
x.transpose(0, 1).sum().backward(), x[0].sum().backward(), x[:, 1:].sum().backward(), x[..., None]
x[x.detach() > 0].sum().backward()
torch.cat([x, x]).sum().backward(), torch.stack([x, x]).sum().backward(), x.split(1)[0].sum().backward(), x.chunk(2)
x.double().sum().backward(), x.clone().sum().backward(), p.sum().item()
x.mean(1, keepdim=True).sum().backward(), x.var(0).sum().backward(), x.std().backward(), x.max(1), x.max().backward()
torch.where(x > 0, x, torch.zeros(())).sum().backward(), x.masked_fill(x > 0, 0.0).sum().backward()
F.mse_loss(x, p).backward(), F.l1_loss(x, p).backward(), F.binary_cross_entropy_with_logits(x, p.sigmoid()).backward()
torch.zeros(2), torch.ones(2, 3, dtype=torch.float64), torch.arange(3), torch.full((2,), 1.0), torch.randn(2), torch.zeros_like(p)
p.new_zeros(3), torch.eye(2), torch.linspace(0, 1, 3), torch.randint(0, 3, (2,)), torch.tril(p), torch.randperm(3), torch.empty(2)
p.clone().add_(1), p.clone().mul_(p), p.clone().zero_(), p.clone().copy_(p), p.clone().fill_(1.0), p.clone().relu_()
b.expand(2, 4).sum().backward(), x.unsqueeze(0).sum().backward()
p > 0, p == p, p != 1, p.isnan(), p.all(), p.any(), p.norm(), p.topk(1), p.sort(), x.mT, x.T
x.cumsum(0).sum().backward(), x.logsumexp(0).sum().backward(), x.gather(1, torch.zeros(2, 1, dtype=torch.long)).sum().backward()
F.leaky_relu(x).sum().backward(), F.softplus(x).sum().backward(), F.pad(x, (1, 1)).sum().backward(), x.repeat(2, 1).sum().backward()
torch.optim.SGD([x], 0.1, foreach=False)
torch.autograd.grad((torch.autograd.grad((x**2).sum(), x, create_graph=True)[0] * x).sum(), x)
"""
_LEFT_OUT = re.compile(r"aten\.(detach|lift_fresh)\.|profiler|aten\.empty\.memory_format \[\[0")


def _modules(torch: Any) -> tuple[Any, Any]:
    if torch is T:
        from nbgrad.utils import _python_dispatch, _pytree
    else:
        from torch.utils import _python_dispatch, _pytree  # type: ignore[no-redef]
    return _python_dispatch, _pytree


def log(torch: Any, program: str) -> list[str]:
    dispatch, _ = _modules(torch)
    told: list[str] = []

    def shown(a: Any) -> Any:
        if isinstance(a, torch.Tensor):
            return f"T{list(a.shape)}"
        return [shown(v) for v in a] if isinstance(a, (list, tuple)) else repr(a)

    class Log(dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(f"{func} {shown(args)} { {k: shown(v) for k, v in (kwargs or {}).items()} }")
            return func(*args, **(kwargs or {}))

    torch.manual_seed(0)
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    for name, shape in (("x", (2, 3)), ("w", (4, 3)), ("b", (4,)), ("i", (2, 3, 8, 8))):
        names[name] = torch.randn(shape, requires_grad=True)
    names["p"] = torch.randn(2, 3)
    for name in "xwbi":
        names[name].grad = torch.zeros_like(names[name])
    with Log():
        eval(program, names)
    sums = re.compile(r"aten\.add_\.Tensor \['(T[^']*)', '\1'\] {}")
    return [
        line
        for line in told
        if not _LEFT_OUT.match(line) and not sums.fullmatch(line.replace("{ {", "{").strip())
    ]


@pytest.mark.oracle
@pytest.mark.parametrize("program", PROGRAMS.split("\n")[1:-1])
def test_modes_are_handed_what_pytorch_hands(torch: Any, program: str) -> None:
    assert log(T, program) == log(torch, program)


COUNTED = """
F.scaled_dot_product_attention(q, q, q, is_causal=True, dropout_p=0.1).sum().backward()
F.conv2d(i, torch.randn(6, 4, 3, 3, requires_grad=True), stride=2, padding=1).sum().backward()
F.conv_transpose2d(i, torch.randn(4, 6, 3, 3, requires_grad=True)).sum().backward()
F.conv2d(i, torch.randn(8, 2, 3, 3, requires_grad=True), groups=2).sum().backward()
nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))(q).sum().backward()
torch.matmul(q, torch.randn(16, 6, requires_grad=True)).sum().backward()
torch.baddbmm(torch.zeros(3, 4, 6), torch.randn(3, 4, 5, requires_grad=True), torch.randn(3, 5, 6, requires_grad=True)).sum().backward()
torch.einsum("bij,bjk->bik", torch.randn(3, 4, 5), torch.randn(3, 5, 6))
nn.MultiheadAttention(8, 2)(torch.ones(3, 1, 8), torch.ones(3, 1, 8), torch.ones(3, 1, 8))[0].sum().backward()
nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(torch.ones(3, 5, 8)).sum().backward()
"""


@pytest.mark.oracle
@pytest.mark.parametrize("program", COUNTED.split("\n")[1:-1])
def test_flops_are_pytorchs(torch: Any, program: str) -> None:
    def counts(torch: Any, mode: Any) -> Any:
        names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
        names |= {
            "q": torch.ones(2, 4, 8, 16, requires_grad=True),
            "i": torch.ones(2, 4, 9, 9, requires_grad=True),
        }
        with mode(display=False) as counter:
            eval(program, names)
        found = {k: {str(op): n for op, n in v.items()} for k, v in counter.get_flop_counts().items()}
        return found, [line.split() for line in counter.get_table(4).splitlines()[:3]]

    from torch.utils.flop_counter import FlopCounterMode as Theirs

    from nbgrad.utils.flop_counter import FlopCounterMode

    pytest.importorskip("tabulate")
    assert counts(T, FlopCounterMode) == counts(torch, Theirs)


WRAPPED = """
x @ y
(x.sin() * x.exp() + x**2).sigmoid()
F.softmax(x, -1) * x
F.cross_entropy(x, torch.tensor([0, 1]))
F.relu(F.linear(x, y.t()))
F.layer_norm(x, (3,)) * x
x.view(3, 2).t()[0].unsqueeze(0).expand(2, 3) * 2
torch.cat([x, x * 2], 1).reshape(-1)
x[x.elem > 2] * x[0, 0]
x.mean(1) / x.std()
F.gelu(x) + F.silu(x) + x.abs().sqrt()
x.log1p() * x.tanh() + x.erf()
torch.where(x.elem > 2, x, x * 3) + x.clamp(min=2.0)
F.conv1d(x[None], torch.ones(2, 2, 2))
x.max(1)[0] + x.max()
x.atan() + x.sinh() + x.rsqrt() + x.pow(0.5)
x.asinh() * x.expm1() + x.square() + x.reciprocal()
"""


def wrapping(torch: Any) -> Any:
    _, pytree = _modules(torch)

    class Wrapped(torch.Tensor):  # type: ignore[misc, name-defined]
        @staticmethod
        def __new__(cls: Any, elem: Any, requires_grad: bool = False) -> Any:
            made = torch.Tensor._make_wrapper_subclass(
                cls,
                elem.size(),
                strides=elem.stride(),
                dtype=elem.dtype,
                device=elem.device,
                requires_grad=requires_grad,
            )
            made.elem = elem
            return made

        def __repr__(self) -> str:
            return f"Wrapped({self.elem})"

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            def unwrapped(e: Any) -> Any:
                return e.elem if isinstance(e, cls) else e

            def wrapped(e: Any) -> Any:
                return cls(e) if isinstance(e, torch.Tensor) else e

            return pytree.tree_map(
                wrapped, func(*pytree.tree_map(unwrapped, args), **pytree.tree_map(unwrapped, kwargs or {}))
            )

    return Wrapped


@pytest.mark.oracle
@pytest.mark.parametrize("program", WRAPPED.split("\n")[1:-1])
def test_wrapping_tensors_have_gradients(torch: Any, program: str) -> None:
    def run(torch: Any) -> Any:
        wrapped = wrapping(torch)
        x = wrapped(torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), requires_grad=True)
        y = wrapped(torch.tensor([[0.5, 1.0], [2.0, 0.1], [1.0, 1.0]]), requires_grad=True)
        out = eval(program, {"torch": torch, "F": torch.nn.functional, "x": x, "y": y})
        assert type(out) is wrapped and out.requires_grad
        out.sum().backward()
        assert type(x.grad) is wrapped
        return [t.detach().elem.flatten().tolist() for t in (out, x.grad)]

    for ours, theirs in zip(run(T), run(torch), strict=True):
        assert ours == pytest.approx(theirs, 1e-5, 1e-6)


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, copy.copy, lambda t: pickle.loads(pickle.dumps(t)), lambda t: in_a_file(t, False), lambda t: in_a_file(t, True)],
    ids=["deepcopy", "copy", "pickle", "load", "load weights"],
)  # fmt: skip
@pytest.mark.parametrize("parameter", [False, True])
def test_wrapping_tensors_are_copied(copied: Any, parameter: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = wrapping(T)
    kind.__qualname__ = kind.__name__
    monkeypatch.setitem(globals(), kind.__name__, kind)  # where a pickle finds it
    x: Any = kind(T.tensor([1.0, 2.0]))
    x = T.nn.Parameter(x) if parameter else x
    with T.serialization.safe_globals([kind]):
        got = copied(x)
    assert (
        type(got) is kind and got.requires_grad is parameter and isinstance(got, T.nn.Parameter) is parameter
    )
    assert got.detach().elem.tolist() == [1.0, 2.0] and got.data_ptr() == 0
    assert (got.elem is x.elem) is (copied is copy.copy)


def in_a_file(t: Any, weights_only: bool) -> Any:
    file = io.BytesIO()
    T.save(t, file)
    file.seek(0)
    return T.load(file, weights_only=weights_only)


def test_a_wrapping_tensor_is_copied_by_a_class_that_clones() -> None:
    wrapped = wrapping(T)

    class Lost(wrapped):  # type: ignore[misc, valid-type]
        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return args[0].elem

    with pytest.raises(RuntimeError, match="only works for subclass types that implement clone"):
        copy.deepcopy(Lost(T.ones(2)))


class Own(T.Tensor):
    """Overrides functions, so that a parameter of it is of it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def test_parameters_of_other_classes_keep_them_in_files() -> None:
    x = T.nn.Parameter(T.ones(2).as_subclass(Own))
    with T.serialization.safe_globals([Own]):
        for got in (in_a_file(x, False), in_a_file(x, True)):
            assert type(got) is Own and isinstance(got, T.nn.Parameter) and got.requires_grad


def test_tensors_without_memory_are_read_by_nobody() -> None:
    class Empty(T.Tensor):
        @staticmethod
        def __new__(cls: Any) -> Any:
            return T.Tensor._make_wrapper_subclass(cls, (1000,))  # type: ignore[attr-defined]

        @classmethod
        def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return NotImplemented

    x: Any = Empty()
    assert x.shape == (1000,) and x.dtype is T.float32 and len(x) == 1000 and x.is_contiguous()
    with pytest.raises(TypeError, match="unsupported operand"):
        x + 1
    for f in (
        T.exp,
        T.sort,
        lambda t: T.nn.functional.cosine_similarity(t, t, 0),
        lambda t: t[0],
        lambda t: t.copy_(T.ones(1000)),
        lambda t: T.ones(1000).add_(t),
    ):
        with pytest.raises((TypeError, NotImplementedError)):
            f(x)
    with pytest.raises(RuntimeError, match="not supported for tensor subclasses"):
        x.numpy()
    with pytest.raises(TypeError, match="must define __torch_dispatch__"):
        T.Tensor._make_wrapper_subclass(type("Plain", (T.Tensor,), {}), (2,))  # type: ignore[attr-defined]


def test_modes_nest_and_change_results() -> None:
    dispatch, _ = _modules(T)
    told = []

    class Named(dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
        def __init__(self, name: str) -> None:
            self.name = name

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(f"{self.name} {func}")
            result = func(*args, **(kwargs or {}))
            return 2 * result if func is T.ops.aten.mul.Tensor and self.name == "inner" else result

    x = T.tensor([1.0, 2.0], requires_grad=True)
    with Named("outer"), Named("inner") as inner:
        assert dispatch._get_current_dispatch_mode() is inner
        assert [m.name for m in dispatch._get_current_dispatch_mode_stack()] == ["outer", "inner"]
        y = (x * x).sum()
        with dispatch._pop_mode_temporarily():
            x + 1
    assert told == [
        *("inner aten.mul.Tensor", "outer aten.mul.Tensor", "outer aten.mul.Tensor"),
        *("inner aten.sum.default", "outer aten.sum.default", "outer aten.add.Tensor"),
    ]
    assert y.tolist() == 10.0 and dispatch._get_current_dispatch_mode() is None
    y.backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 4.0]  # of x * x, which is what was called


def test_other_threads_are_not_asked() -> None:
    dispatch, _ = _modules(T)
    told = []

    class Log(dispatch.TorchDispatchMode):  # type: ignore[misc, name-defined]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(threading.current_thread().name)
            return func(*args, **(kwargs or {}))

    x = T.ones(3)
    with Log():
        thread = threading.Thread(target=lambda: [x + 1 for _ in range(20)])
        thread.start()
        for _ in range(20):
            x + 1
        thread.join()
    assert told == ["MainThread"] * 20


def test_what_was_saved_and_written_to_is_told() -> None:
    dispatch, _ = _modules(T)
    x = T.ones(2, requires_grad=True)
    with dispatch.BaseTorchDispatchMode():
        y = x * 1
        z = (y * y).sum()
        y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


def test_functions_have_their_own_code_again() -> None:
    code = """if True:
        import nbgrad as T
        from nbgrad.utils._python_dispatch import BaseTorchDispatchMode
        x = T.ones(2)
        x * 2, T.exp(x), T.zeros(2)
        before = [f.__code__ for f in (T.Tensor.__mul__, T.exp, T.zeros)]
        with BaseTorchDispatchMode():
            x * 2, T.exp(x)
        assert [f.__code__ for f in (T.Tensor.__mul__, T.exp, T.zeros)] == before
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_backward_asks_nobody_once_modes_are_off_and_instances_gone() -> None:
    gc.collect()
    was = armed.below, shared.rare, shared.run_node
    with FlopCounterMode(display=False), FlopCounterMode(display=False):
        assert armed.below is not None and shared.run_node is not None
    wrapper = T.Tensor._make_subclass(
        type("Kept", (T.Tensor,), {"__torch_dispatch__": classmethod(print)}), T.ones(2)
    )
    assert armed.below is not None
    del wrapper
    gc.collect()
    assert (armed.below, shared.rare, shared.run_node) == was


class Wrapped(T.Tensor):
    """What it is asked for it hands to what it wraps, and wraps anew what that gives."""

    inner: T.Tensor

    @staticmethod
    def __new__(cls, inner: T.Tensor) -> Wrapped:
        made: Wrapped = T.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        bare = [a.inner if isinstance(a, cls) else a for a in args]
        named = {k: a.inner if isinstance(a, cls) else a for k, a in (kwargs or {}).items()}
        result = func(*bare, **named)
        return cls(result) if isinstance(result, T.Tensor) else result


def test_what_is_written_to_is_given_back_itself() -> None:
    plain, wrapped = T.ones(2), Wrapped(T.ones(2))
    assert wrapped.add_(plain) is wrapped and wrapped.mul_(wrapped) is wrapped and wrapped.zero_() is wrapped
    assert plain.copy_(wrapped) is plain and plain.tolist() == [0, 0]
    held = wrapped
    wrapped += plain + 2
    assert wrapped is held and wrapped.inner.tolist() == [2, 2]
    assert T.add(wrapped, wrapped, out=wrapped) is wrapped and wrapped.inner.tolist() == [4, 4]
    assert type(wrapped + plain) is Wrapped and wrapped + plain is not wrapped


def test_parameters_are_exchanged_for_wrapping_ones(swapping: None) -> None:
    linear = T.nn.Linear(2, 2, bias=False)
    weight = linear.weight
    linear._apply(Wrapped)
    assert linear.weight is weight and type(weight) is Wrapped and armed.below is not None
    gc.collect()  # what was exchanged is gone, and still the class is asked
    assert type(linear.weight * 2) is Wrapped
    linear.load_state_dict({"weight": T.zeros(2, 2)})
    assert linear.weight is weight and type(weight) is Wrapped and weight.inner.tolist() == [[0, 0], [0, 0]]
    del linear, weight
    gc.collect()
    assert armed.below is None


@pytest.fixture
def swapping() -> Any:
    T.__future__.set_swap_module_params_on_conversion(True)
    yield
    T.__future__.set_swap_module_params_on_conversion(False)
