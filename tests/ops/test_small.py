"""Small calls: what is remembered of them is bounded, and what a loop of them costs grows with the loop alone."""

import importlib
import time
import warnings
from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare import assert_same
from tests.support import T


def cost(run: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(7):
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
    return best


LOOPS: dict[str, Callable[[Any, int], Any]] = {
    "rows": lambda x, n: [x[k].sum() for k in range(n)],
    "elements": lambda x, n: [x[k, 1] for k in range(n)],
    "windows": lambda x, n: [x[k : k + 2].sum() for k in range(n)],
    "iteration": lambda x, n: [row.sum() for row in x],
    "parts": lambda x, n: [part.sum() for part in x.split(1)],
}


@pytest.mark.parametrize("name", LOOPS)
def test_gradients_of_all_parts_cost_as_much_as_there_are_parts(name: str) -> None:
    """The rows are long: to clear or to add a whole one for each part is what would show."""

    def run(n: int) -> Callable[[], Any]:
        x = T.ones(n, 256, requires_grad=True)
        total = T.stack(LOOPS[name](x, n)).sum()
        return lambda: total.backward(retain_graph=True)

    # 14 to 33 times as much on a busy machine; as index_select has it, which fills a whole one for each part, 370.
    assert cost(run(4000)) < 80 * cost(run(200))


@pytest.mark.parametrize("join", [T.stack, T.cat])
def test_what_lies_turned_is_joined_by_one_launch_as_by_several(join: Callable[..., Any]) -> None:
    parts = [T.arange(6.0).reshape(3, 2).t(), T.arange(6.0, 12.0).reshape(3, 2).t(), T.ones(2, 3)]
    several, one = join(parts, -1), join(parts, -1)
    assert T.equal(several, one) and T.equal(one, join([t.contiguous() for t in parts], -1))


@pytest.mark.parametrize("count", [8, 9, 16, 17, 128, 129])
@pytest.mark.parametrize("join", [T.stack, T.cat])
def test_many_are_joined_as_few_are(join: Callable[..., Any], count: int) -> None:
    leaves = [T.full((2, 3), float(k)).requires_grad_(k % 3 != 1) for k in range(count)]
    parts = [t * 2 if k % 2 else t.t().contiguous().t() for k, t in enumerate(leaves)]
    rows = [[2.0 * k if k % 2 else float(k)] for k in range(count)]
    want = np.array(rows * 3).T.reshape(1, -1) if join is T.stack else np.repeat(rows, 3, 0).reshape(1, -1)
    dim = 2 if join is T.stack else 1
    for _ in range(4):  # by the long way, which sees that it is usual, and by the short one
        made = join(parts, dim)
        np.testing.assert_array_equal(made.detach().reshape(2, -1), np.repeat(want, 2, 0))
        scale = T.arange(float(made.numel())).reshape(made.shape)
        inputs = [t for t in leaves if t.requires_grad]
        back = T.autograd.grad((made * scale).sum(), inputs, retain_graph=True)
        wanted = [k for k in range(count) if k % 3 != 1]
        for k, g in zip(wanted, back, strict=True):
            own = scale[:, :, k] if join is T.stack else scale[:, 3 * k : 3 * k + 3]
            assert T.equal(g, own * (2 if k % 2 else 1))
    with pytest.raises((RuntimeError, TypeError)):
        join([*parts[:-1], T.ones(3, 4)], dim)
    with pytest.raises(TypeError):
        join([*parts[:-1], 2.0], dim)


def test_large_tensors_are_joined_by_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    join = importlib.import_module("nbgrad.ops.views.join")
    parts = [T.rand(200, 100) for _ in range(2)]
    want = T.stack(parts), T.cat(parts)
    monkeypatch.delattr(join, "copying")  # what plans a copy
    assert T.equal(T.stack(parts), want[0]) and T.equal(T.cat(parts), want[1])


def test_rows_and_elements_of_a_long_tensor_have_one_plan() -> None:
    from nbgrad.base.tables import Table, living

    def remembered() -> int:
        return sum([len(t) for t in living() if isinstance(t, Table)])

    x = T.ones(3000, 5, requires_grad=True)
    before = remembered()
    for k in range(3000):
        x[k], x[k, 2]
    assert remembered() - before < 100


@pytest.mark.oracle
def test_the_benchmarks_calls_and_programs_give_what_torchs_do(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "asv_benchmarks"))
    small = importlib.import_module("benchmarks.small")
    calls, wanted = small.calls(T), small.calls(torch)
    assert calls.keys() == wanted.keys()
    for name in calls:
        for _ in range(2):  # the second one has a plan
            T.manual_seed(0), torch.manual_seed(0)
            got, want = calls[name](), wanted[name]()
            if name == "c.numpy()":
                assert (got == want).all()
                continue
            several = isinstance(got, (tuple, list))
            for g, w in zip(got if several else [got], want if several else [want], strict=True):
                assert_same(g, w, name)
                node, their = getattr(g, "grad_fn", None), getattr(w, "grad_fn", None)
                assert (node and node.name()) == (their and their.name()), name
    for name, program in small.PROGRAMS.items():
        got, want = program(T), program(torch)
        got.check()
        assert_same(got.run(), want.run(), name, tol=100)


@pytest.mark.fast
def test_numbers_before_operators_and_integers_that_divide() -> None:
    whole, floats = T.tensor([5, -7, 3]), T.tensor([0.5, 2.0, -1.0], requires_grad=True)
    divisors = T.tensor([[2, 0], [3, 9], [-4, 1]])
    for _ in range(3):
        assert (whole % divisors[:, 0]).tolist() == [1, 2, -1] and (whole // divisors[:, 0]).tolist() == [
            2,
            -3,
            -1,
        ]
        assert (17 % whole).tolist() == [2, -4, 2] and (17 // whole).tolist() == [3, -3, 5]
        assert (2 ** whole.abs()).tolist() == [32, 128, 8] and (6 & whole).tolist() == [4, 0, 2]
        for refused in (
            lambda: whole % divisors[:, 1],
            lambda: whole // T.tensor([1, 0, 2]),
            lambda: 3 // T.tensor([1, 0]),
            lambda: T.fmod(whole, T.tensor(0)),
        ):
            with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
                refused()
        assert (T.ones(0, dtype=T.int64) % T.tensor(0)).shape == (0,)
        assert (T.ones(3, dtype=T.int64, device="meta") % T.tensor(0)).shape == (3,)
        y = 2.0**floats
        assert y.grad_fn.name() == "PowBackward2"
        (g,) = T.autograd.grad(y.sum(), floats)
        assert T.allclose(g, y.detach() * T.tensor(2.0).log())
        with pytest.raises(TypeError, match="unsupported operand"):
            "a" ** floats  # type: ignore[operator]
        assert type(T.ones(1).__rpow__("a")) is type(NotImplemented)
    compiled = T.compile(lambda a, b: a % b)
    with pytest.warns(UserWarning, match="a value is read"):
        for b in ([1, 2, 3], [1, 2, 3], [3, 2, 2]):
            assert compiled(whole, T.tensor(b)).tolist() == [x % n for x, n in zip([5, -7, 3], b)]
    with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
        compiled(whole, T.tensor([1, 0, 1]))


@pytest.mark.fast
def test_a_reshape_that_copies_leaves_two_nodes_at_each_call() -> None:
    x = T.arange(6.0).view(2, 3).requires_grad_()
    for _ in range(4):
        for y in (x.t().reshape(-1), x.t()[None].flatten(), x.mT.reshape_as(T.ones(6))):
            node = y.grad_fn
            assert (
                node.name() == "UnsafeViewBackward0" and node.next_functions[0][0].name() == "CloneBackward0"
            )
            assert not y._is_view() and y.tolist() == [0, 3, 1, 4, 2, 5]
            y.mul_(T.arange(6.0))
            assert T.autograd.grad(y.sum(), x)[0].tolist() == [[0, 2, 4], [1, 3, 5]]
        plain = x.detach().t().reshape(-1)
        plain[0] = 9.0
        assert x[0, 0] == 0 and plain.grad_fn is None
        with T.no_grad():
            assert x.t().reshape(-1).grad_fn is None
        with T.inference_mode():
            assert x.t().reshape(-1).is_inference()
        with T.autograd.set_detect_anomaly(True):
            assert x.t().reshape(-1).grad_fn.metadata
    batched = T.vmap(lambda m: m.t().reshape(-1))(T.arange(12.0).view(2, 2, 3))
    assert batched.tolist() == [[0, 3, 1, 4, 2, 5], [6, 9, 7, 10, 8, 11]]


@pytest.mark.oracle
def test_lists_of_all_kinds_are_what_torch_makes_of_them(torch: Any) -> None:
    plain = [
        True,
        3,
        [True, False],
        (True,),
        [1, 2],
        (1, 2.5),
        [1, 2.5, True],
        [True, 1],
        [[1, 2], [3, 4]],
        ((1, 2), (3.5, 4)),
    ]
    odd = [
        [(1, 2), [3, 4]],
        [[True], [False]],
        [[1, 2], [3]],
        [],
        [[]],
        [2**31, 1.5],
        [16777217, 0.5],
        [2**70],
        [1e300],
        [[[1.0]]],
    ]
    for data in (*plain, *odd, [-0.0, float("nan")], range(3), ["a"], [1, None], [2**63]):
        for name in (None, "float32", "float64", "int64", "int32", "bool", "float16", "uint8"):
            made = [_made_of(m, data, name) for m in (T, torch)]
            assert made[0] == made[1], (data, name)


def _made_of(m: Any, data: Any, name: str | None) -> Any:
    found: list[Any] = []
    for make in (m.tensor, m.as_tensor, m.ones(1).new_tensor, m.Tensor):
        named = {} if name is None or make is m.Tensor else {"dtype": getattr(m, name)}
        if make is m.Tensor and not isinstance(data, (list, tuple)):
            continue
        try:
            t = make(data, **named)
            found.append((str(t.dtype).split(".")[-1], tuple(t.shape), repr(t.tolist())))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@pytest.mark.oracle
def test_repeats_of_each_slice_are_what_torch_makes_of_them(torch: Any) -> None:
    def outcome(m: Any, repeats: Any, dim: Any, name: str) -> Any:
        x = m.arange(6.0).view(2, 3).requires_grad_()
        found: list[Any] = []
        for _ in range(3):
            try:
                y = x.repeat_interleave(m.tensor(repeats, dtype=getattr(m, name)), dim)
                found.append((y.tolist(), y.grad_fn.name(), m.autograd.grad(y.square().sum(), x)[0].tolist()))
            except Exception as error:
                found.append((type(error).__name__, str(error)))
        return found

    for name in ("int64", "int32", "int16", "float32", "bool"):
        for repeats in ([2, 1], [1, 0, 2], [3], 2, [0, 0], [-1, 2], [[1, 2]], [1, 1, 0, 2, 0, 1], []):
            for dim in (None, 0, 1, -1):
                got, want = (outcome(m, repeats, dim, name) for m in (T, torch))
                assert got == want, (repeats, dim, name)


_ONCE: dict[str, Callable[[], Any]] = {
    "indexing": lambda: T.meshgrid(T.ones(2), T.ones(2)),
    "chain_matmul": lambda: T.chain_matmul(T.eye(2), T.eye(2)),
    "torch.cross": lambda: T.cross(T.ones(3), T.ones(3)),
    "uint8 condition": lambda: T.where(T.ones(2, dtype=T.uint8), T.ones(2), T.ones(2)),
    "boundary tensor is non-contiguous": lambda: T.bucketize(T.arange(3), T.arange(6)[::2]),
    "create_graph=True": lambda: T.ones((), requires_grad=True).mul(2).backward(create_graph=True),
    "not writable": lambda: T.from_numpy(np.broadcast_to(1.0, (2,))),
}


@pytest.mark.parametrize("words", _ONCE)
def test_what_torch_warns_of_once_in_a_process(words: str) -> None:
    def told() -> int:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            _ONCE[words]()
        return len([w for w in seen if words in str(w.message)])

    always = T.is_warn_always_enabled()
    try:
        T.set_warn_always(True)
        assert (told(), told()) == (1, 1)
        T.set_warn_always(False)
        assert told() == told() == 0
    finally:
        T.set_warn_always(always)


@pytest.mark.fast
def test_lists_of_rows_and_what_is_drawn_into_parameters() -> None:
    for d in (T.float32, T.float16, T.int8, T.bool):
        t = T.tensor([[[1, 0]], [[0, 1]], [[1, 1]]], dtype=d)
        for _ in range(3):
            assert t[1:].tolist() == [[[0, 1]], [[1, 1]]] and type(t.tolist()[0][0][0]) is type(
                t[0, 0, 0].item()
            )
            assert t.transpose(0, 2).tolist() == [[[1, 0, 1]], [[0, 1, 1]]]
    counted = T.compile(lambda t: T.tensor((t * 2).tolist()) + t)
    with pytest.warns(UserWarning, match="a value is read"):
        for k in range(3):
            assert counted(T.full((1, 2), float(k))).tolist() == [[3.0 * k, 3.0 * k]]
    T.manual_seed(0)
    want = [T.empty(2, 3).uniform_(-1, 1).tolist() for _ in range(4)]
    T.manual_seed(0)
    with T.no_grad():
        assert [T.nn.Parameter(T.empty(2, 3)).uniform_(-1, 1).tolist() for _ in range(4)] == want
    parameter = T.nn.Parameter(T.ones(2))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        parameter.uniform_(-1, 1)


def test_what_is_alike_to_a_table_is_told_apart() -> None:
    """-0.0 is 0.0, and True is 1, where a call is looked up."""
    for _ in range(2):
        assert str(T.linspace(0.0, -1.0, 2)) == "tensor([ 0., -1.])"
        assert str(T.linspace(-0.0, -1.0, 2)) == "tensor([-0., -1.])"
        assert T.full((2,), 2).dtype is T.int64 and T.full((2,), 2.0).dtype is T.float32
        assert T.arange(3).dtype is T.int64 and T.arange(3.0).dtype is T.float32
        assert T.arange(3, dtype=T.int16).dtype is T.int16
        assert T.full_like(T.zeros(1), 2).dtype is T.float32
    made = T.linspace(0, 1, 3)
    made[0] = 5.0
    assert T.linspace(0, 1, 3)[0] == 0
    before = T.get_default_dtype()
    T.set_default_dtype(T.float64)
    try:
        assert T.eye(2).dtype is T.linspace(0, 1, 3).dtype is T.float64
    finally:
        T.set_default_dtype(before)
    x = T.ones(2, 3, requires_grad=True)
    for _ in range(2):
        assert x.sum((0, 1)).shape == () and x.sum((1,)).tolist() == [3, 3]
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            x.sum((False, True))
        with pytest.raises(TypeError, match="invalid combination of arguments"):
            x.sum((0.0, 1.0))
    for _ in range(2):
        leaf = T.zeros(2, dtype=T.float64, requires_grad=True)
        assert leaf.requires_grad and leaf.is_leaf and not T.zeros(2, dtype=T.float64).requires_grad
        with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
            T.zeros(2, dtype=T.int64, requires_grad=True)


def test_quiet_writes_count_and_are_refused_where_others_are() -> None:
    leaf, c = T.ones(3, requires_grad=True), T.ones(3)
    mask = T.tensor([True, False, True])
    for write in (
        lambda t: t.copy_(c),
        lambda t: t.fill_(2.0),
        lambda t: t.zero_(),
        lambda t: t.masked_fill_(mask, 0.5),
    ):
        for _ in range(3):
            t = T.zeros(3)
            assert write(t) is t and t._version == 1
            with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
                write(leaf)
            with T.no_grad():
                version = leaf._version
                write(leaf)
                assert leaf._version == version + 1
            y = leaf * 1
            write(y)
            assert y.grad_fn is not None and "Mul" not in y.grad_fn.name()
            saved = leaf.exp()
            write(saved.detach())
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                saved.sum().backward()
    for _ in range(2):
        x = T.arange(4.0)
        x[1:].copy_(x[:3].clone())
        assert x.tolist() == [0, 0, 1, 2]
        with pytest.raises(RuntimeError, match="value cannot be converted"):
            T.zeros(3, dtype=T.uint8).masked_fill_(mask, 1e30)


def _rows_added(t: Any, x: Any, y: Any) -> Any:
    y[0] += x[1]
    y[2:4] += x[1:3]
    y[5] += 2.0
    return y


def _view_kept(t: Any, x: Any, y: Any) -> Any:
    part = y[1:3]
    part += x[:2]
    part *= 2.0
    y[0] = part[1] * 3
    part.sub_(x[2:4])
    return part.sum() + y


def _onto_itself(t: Any, x: Any, y: Any) -> Any:
    part = y[2]
    y[2] = part
    y[3] = part
    return y


def _by_mask(t: Any, x: Any, y: Any) -> Any:
    mask = t.arange(8) > 3
    y[mask] = 0
    y[mask & (x.detach() > 5)] = -1.5
    y[~mask] = x[3]
    y[x.detach() == 2] = t.tensor(2.5)
    return y


def _rows_by_mask(t: Any, x: Any, y: Any) -> Any:
    square = y.view(4, 2) * 1
    rows = t.arange(4) > 1
    square[rows] = 0
    square[~rows] = x[1]
    square[rows] = x[2:4]
    square[rows] = x[5:6]
    return square


def _values_by_mask(t: Any, x: Any, y: Any) -> Any:
    z, mask = t.zeros(4, 2), t.arange(8).view(4, 2) % 3 == 1
    z[mask] = t.arange(3.0)
    z[t.arange(4) > 1] = t.arange(4.0).view(2, 2)
    z[t.arange(4) > 2] = z[:1]
    z[mask] = t.arange(6.0)[::2]
    z.t()[mask.t()] += t.ones(1)
    z[mask & False] = t.ones(0)
    z[mask] = y[:3]
    return z


def _too_few_by_mask(t: Any, x: Any, y: Any) -> Any:
    z, mask = t.zeros(8), t.arange(8) > 4
    z[mask] = t.ones(3)
    z[mask] = t.ones(2)
    return z


def _whole(t: Any, x: Any, y: Any) -> Any:
    y += x
    y.mul_(x.detach())
    y.relu_()
    y.div_(x.detach() + 1)
    return y


def _grid(t: Any, x: Any, y: Any) -> Any:
    square = y.view(2, 4)
    square[0, 1] += square[1, 2]
    square[:, 2] -= x[:2]
    square.t()[3] += x[2:4]
    return square


def _read_before(t: Any, x: Any, y: Any) -> Any:
    kept = y.relu()
    kept[0] += x[1]
    return kept


def _of_a_leaf(t: Any, x: Any, y: Any) -> Any:
    x[0] += y[0]
    return y


def _mask_of_a_leaf(t: Any, x: Any, y: Any) -> Any:
    x[x.detach() > 2] = 0
    return y


def _made_without_grad(t: Any, x: Any, y: Any) -> Any:
    with t.no_grad():
        part = y[1:]
    part += x[1:]
    return y


def _constant_base(t: Any, x: Any, y: Any) -> Any:
    z = t.zeros(8)
    z[1] += x[1]
    z[2] += x[2] * y[0]
    z[z.detach() == 0] = x[4]
    return z


def _retained(t: Any, x: Any, y: Any) -> Any:
    y.retain_grad()
    y[0] += x[1]
    y[x.detach() > 6] = 1
    return y


def _of_a_view_that_is_a_leaf(t: Any, x: Any, y: Any) -> Any:
    square = y.view(2, 4) * 1
    square[0] += 1.0
    leaf = t.arange(8.0).view(2, 4).requires_grad_()
    leaf[0] += 1.0
    return leaf


def _spread(t: Any, x: Any, y: Any) -> Any:
    """Over rows and columns that an index, a mask or a slice shows."""
    z = y.view(4, 2) * 1
    z[t.tensor([2, 0, 2])] = t.tensor([1.0, 3.0])
    z[t.tensor([1, 3])] = x[2:4]
    z[:, t.tensor([1])] = x[4:8, None] * 2
    z[t.arange(4) > 1] = x[:2]
    z[:, t.arange(2) == 1] = t.tensor([[5.0]])
    z[:, t.arange(2) == 0] = x[:4, None]
    z[1:3] = t.tensor([7.0, 8.0])
    z[:, :1] = t.arange(4.0)[:, None]
    return z * z[:, t.arange(2) < 5]


def _spread_too_far(t: Any, x: Any, y: Any) -> Any:
    z = t.zeros(4, 2)
    z[t.tensor([0, 1])] = y[:2]
    z[t.tensor([0, 1])] = y[:3]
    return z


def _from_itself(t: Any, x: Any, y: Any) -> Any:
    """Rows, columns and elements from others of the same memory, beside them, between them and over them."""
    z = y.view(2, 4) * 1
    for square in (z, t.arange(8.0).view(2, 4)):
        square[0] = square[1]
        square[:, 1] = square[:, 2]
        square[1, 0] = square[0, 3]
        square[0, :2] = square[0, 2:]
        square[0] = square[0]
        square[0, 1] += square[1, 2]
    z[1, 1:] = z[1, :-1]
    return z


def _by_number(t: Any, x: Any, y: Any) -> Any:
    y.put_(t.tensor([1, 6]), x[2:4])
    y.put_(t.tensor([[1], [-1]]), x[4:6].view(2, 1), accumulate=True)
    z = t.zeros(2, 4).put_(t.tensor([7, 0, 7]), t.arange(3.0), True)
    return y.put(t.tensor([0, 3]), z[0, :2]) * z.view(8)


def _joined_in_place(t: Any, x: Any, y: Any) -> Any:
    at, z = t.tensor([0, 1, 0]), t.ones(2, 3)
    z.index_reduce_(0, at, t.arange(9.0).view(3, 3) - 4, "amax")
    z.scatter_reduce_(0, at[None], z[1:] + 0.5, "prod")
    z.index_add_(0, at, t.arange(9.0).view(3, 3), alpha=-0.5)
    z.tril_().masked_scatter_(z > 0, t.arange(6.0))
    return z.index_add(0, at, y[:1].expand(3, 3))


def _reads_before(t: Any, x: Any, y: Any) -> Any:
    """Rules that read what is overwritten, of the whole and of views."""
    y.clamp_(min=3.0)
    y[2:].mul_(x[2:])
    y.view(2, 4)[:, 1].sin_()
    z = t.ones(8)
    z.mul_(x).pow_(2)
    z[::2].clamp_(max=4.0)
    return y * z


WRITES = (
    *(_spread, _spread_too_far, _from_itself, _by_number, _joined_in_place, _reads_before),
    *(_rows_added, _view_kept, _onto_itself, _by_mask, _rows_by_mask, _values_by_mask, _too_few_by_mask),
    *(_whole, _grid, _read_before, _of_a_leaf, _mask_of_a_leaf, _made_without_grad, _constant_base),
    *(_retained, _of_a_view_that_is_a_leaf),
)


def _left(t: Any, write: Callable[..., Any]) -> list[Any]:
    """What a program that writes leaves: values, counts of writes, graph, gradients; or what refuses it."""
    x = t.arange(8.0, requires_grad=True)
    y = x * 2.0
    told: list[Any] = []
    try:
        out = write(t, x, y)
        told += [out.tolist(), y._version, x._version, str(_graph(out.grad_fn)), str(_graph(y.grad_fn))]
        out.sum().backward()
        told += [x.grad.tolist(), y.retains_grad and y.grad.tolist()]
    except RuntimeError as error:
        told.append(str(error).split(";")[0])
    return told


def _graph(node: Any) -> Any:
    return node and (node.name(), [(_graph(into), number) for into, number in node.next_functions])


@pytest.mark.oracle
@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
def test_recorded_writes_leave_what_torchs_do(torch: Any, write: Callable[..., Any]) -> None:
    for _ in range(3):  # the second one has plans
        got, want = _left(T, write), _left(torch, write)
        assert got == want


@pytest.mark.oracle
def test_stacks_leave_what_torchs_do(torch: Any) -> None:
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        for shapes in (
            ((), ()),
            ((3,), (3,)),
            ((3,), (1, 3)),
            ((2, 3), (2, 3)),
            ((2, 3, 1), (2, 3, 1)),
            ((2,), (3,)),
        ):
            for wants in ((False, False), (True, False), (True, True)):
                for _ in range(3):
                    found = []
                    for t in (T, torch):
                        size = [max(1, prod(shape)) for shape in shapes]
                        whole = [t.arange(2.0 * n).requires_grad_(w) for n, w in zip(size, wants)]
                        parts = [x[::2].view(shape) for x, shape in zip(whole, shapes)]
                        try:
                            joined = getattr(t, name)(parts)
                        except RuntimeError as error:
                            found.append([str(error)])
                            continue
                        found.append([joined.tolist(), joined.stride(), str(_graph(joined.grad_fn))])
                        leaves = [x for x in whole if x.requires_grad]
                        back = t.autograd.grad((joined * joined).sum(), leaves) if leaves else ()
                        found[-1] += [g.tolist() for g in back]
                    assert found[0] == found[1], (name, shapes, wants)


@pytest.mark.oracle
def test_draws_by_the_short_way_are_those_of_the_long_one(torch: Any) -> None:
    for name in ("_standard_gamma", "_sample_dirichlet"):
        for shape in ((3,), (2, 4)):
            found = []
            for t in (T, torch):
                t.manual_seed(3)
                parameters = t.full(shape, 1.5)
                found.append([x for _ in range(5) for x in (getattr(t, name)(parameters), t.randn(3))])
            for ours, theirs in zip(*found):
                assert np.allclose(ours.numpy(), theirs.numpy(), rtol=2e-5)


@pytest.mark.oracle
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_factors_by_the_short_way_are_torchs(torch: Any, dtype: str) -> None:
    g = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        real = g.standard_normal(shape)
        return (real + 1j * g.standard_normal(shape) if dtype[0] == "c" else real).astype(dtype)

    near = {"rtol": 1e-3, "atol": 1e-3} if dtype == "float32" else {"rtol": 1e-8, "atol": 1e-8}
    for n in (1, 2, 5, 9):
        a, b = matrix(2, n, n), matrix(2, n, 3)
        for hollow in (False, True):  # whose blocks have two rows
            sym = (a + a.mT) * (1 - np.eye(n) if hollow and n > 1 else 1)
            sym = sym.astype(dtype)
            want = torch.linalg.ldl_factor(torch.tensor(sym))
            for _ in range(3):
                LD, pivots = T.linalg.ldl_factor(T.tensor(sym))
                assert pivots.tolist() == want.pivots.tolist()
                assert np.allclose(LD.numpy(), np.tril(want.LD.numpy()), **near)
                x = T.linalg.ldl_solve(LD, pivots, T.tensor(b)).numpy()
                assert np.allclose(sym @ x, b, **near)
        LU, rows = torch.linalg.lu_factor(torch.tensor(a))
        v, tau = torch.geqrf(torch.tensor(a))
        ours = [T.tensor(x.numpy()) for x in (LU, rows, v, tau)]
        for _ in range(3):
            x = T.linalg.lu_solve(ours[0], ours[1], T.tensor(b))
            assert np.allclose(x.numpy(), torch.linalg.lu_solve(LU, rows, torch.tensor(b)).numpy(), **near)
            for left, other in ((True, b), (False, np.ascontiguousarray(b.mT))):
                for turned in (False, True):
                    got = T.ormqr(ours[2], ours[3], T.tensor(other), left, turned)
                    by = torch.ormqr(v, tau, torch.tensor(other), left, turned)
                    assert np.allclose(got.numpy(), by.numpy(), **near) and got.stride() == by.stride()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="Pivots given to ldl_solve"):
            T.linalg.ldl_solve(T.eye(2), T.tensor([1, 5], dtype=T.int32), T.ones(2, 1))
        with pytest.raises(RuntimeError, match="Pivots given to lu_solve"):
            T.linalg.lu_solve(T.eye(2), T.tensor([1, 5], dtype=T.int32), T.ones(2, 1))


@pytest.mark.parametrize("function", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_channels_and_places_traded_are_no_views(function: str) -> None:
    """They have memory of their own, by the long way and the short one: a write is recorded."""
    for _ in range(3):
        x = T.arange(64.0).view(1, 4, 4, 4).requires_grad_()
        y = getattr(T.nn.functional, function)(x, 2)
        assert y._base is None and y.grad_fn.name().lower().endswith("shufflebackward0")
        y.mul_(2.0)
        y.sum().backward()
        assert x.grad is not None and bool((x.grad == 2).all())


def test_factors_that_tell_how_it_went_are_recorded_by_the_short_way() -> None:
    for _ in range(3):
        x = (4 * T.eye(3) + T.ones(3, 3)).requires_grad_()
        low, failed = T.linalg.cholesky_ex(x)
        LU, _, info = T.linalg.lu_factor_ex(x)
        assert not failed.requires_grad and not info.requires_grad and not (failed + info).any()
        low.diagonal().log().sum().backward()
        assert x.grad is not None and x.grad.allclose(T.linalg.inv(x.detach()) / 2, atol=1e-5)
        assert LU.grad_fn.name() == "LinalgLuFactorExBackward0"
