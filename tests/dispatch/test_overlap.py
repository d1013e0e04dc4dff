"""Writes into memory that an operand shows too: in place and by `out=`, over random views of one block of memory.

What counts is what was there before the write, wherever it is not refused. PyTorch refuses where both tensors are dense; where one
has gaps it does not look, and what it reads then depends on its order, so only its refusals are compared.
"""

import random
from collections.abc import Callable, Iterator
from math import prod
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from nbgrad.core.tensor import storage_of
from nbgrad.dispatch.elementwise import may_meet
from tests.support import T

pytestmark = pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated")

REFUSALS = ("some elements of the input tensor and the written-to", "more than one element of the written-to")


class View(NamedTuple):
    """A part of a block of memory, as `as_strided` takes it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int

    def of(self, memory: Any) -> Any:
        return memory.as_strided(self.shape, self.strides, self.offset)

    def shows_none_twice(self) -> bool:
        places = {sum(i * s for i, s in zip(at, self.strides)) for at in np.ndindex(*self.shape)}
        return len(places) == prod(self.shape)


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def view(draw: random.Random, size: int, shape: tuple[int, ...], steps: str = "0112345") -> View:
    """A view of this shape somewhere in `size` elements; dense every second time, else with strides drawn from `steps`."""
    while True:
        if draw.random() < 0.5:
            strides = contiguous(shape) if draw.random() < 0.7 else contiguous(shape[::-1])[::-1]
        else:
            strides = tuple(int(draw.choice(steps)) for _ in shape)
        extent = 1 + sum(s * (n - 1) for s, n in zip(strides, shape))
        if extent <= size:
            return View(shape, strides, draw.randrange(size - extent + 1))


def shape_within(draw: random.Random, shape: tuple[int, ...]) -> tuple[int, ...]:
    """One that broadcasts to `shape`."""
    return tuple(n if draw.random() < 0.8 else 1 for n in shape[draw.randint(0, len(shape)) :])


# ---------------------------------------------------------------- what writes

Write = Callable[[ModuleType, Any, list[Any]], Any]  # of the library, the target, the operands


def _method(name: str) -> Write:
    return lambda L, t, a: getattr(t, name)(*a)


def _into(name: str) -> Write:
    return lambda L, t, a: getattr(L, name)(*a, out=t)


IN_PLACE = """add_ sub_ mul_ div_ fmod_ remainder_ copysign_ atan2_ pow_ hypot_ lt_ eq_ logical_and_ floor_divide_ nextafter_ copy_
    clamp_ xlogy_"""
SAME_SHAPE: dict[str, tuple[int, Write]] = {name: (1, _method(name)) for name in IN_PLACE.split()}
SAME_SHAPE |= {
    "lerp_": (2, _method("lerp_")),
    "addcmul_": (2, lambda L, t, a: t.addcmul_(*a, value=0.5)),
    "addcdiv_": (2, _method("addcdiv_")),
    "add_ with alpha": (1, lambda L, t, a: t.add_(a[0], alpha=2)),
    "clamp_ by two": (2, _method("clamp_")),
    "masked_fill_": (1, lambda L, t, a: t.masked_fill_(a[0] > 1, 7.0)),
    "through data": (1, lambda L, t, a: t.data.mul_(a[0].data)),
    "a detached twin": (1, lambda L, t, a: t.detach().sub_(a[0])),
    "arrays of NumPy": (1, lambda L, t, a: L.from_numpy(t.numpy()).mul_(L.from_numpy(a[0].numpy()))),
}
OUT: dict[str, tuple[int, Write]] = {
    **{name: (1, _into(name)) for name in ["exp", "neg", "abs", "sqrt", "sigmoid", "tanh", "sign"]},
    **{
        name: (2, _into(name))
        for name in ["add", "sub", "mul", "div", "fmod", "atan2", "hypot", "maximum", "copysign", "nextafter"]
    },
    **{name: (3, _into(name)) for name in ["lerp", "addcmul", "addcdiv", "clamp"]},
    "where": (2, lambda L, t, a: L.where(a[0] > 1, *a, out=t)),
}


def ints(L: ModuleType, *values: Any) -> Any:
    return L.tensor(values)


def _with_places(L: ModuleType, name: str, t: Any, x: Any, *shape: int) -> Any:
    return getattr(L, name)(x, 1, out=(t, L.zeros(shape, dtype=L.int64)))


# Of other shapes: that of the target, those of the operands, what writes.
OTHER: dict[str, tuple[tuple[int, ...], list[tuple[int, ...]], Write]] = {
    **{
        name: ((3,), [(3, 4)], lambda L, t, a, name=name: getattr(L, name)(a[0], 1, out=t))
        for name in ["sum", "mean", "prod", "amax", "logsumexp", "std"]
    },
    **{
        name: ((3, 4), [(3, 4)], lambda L, t, a, name=name: getattr(L, name)(a[0], 1, out=t))
        for name in ["cumsum", "cumprod", "logcumsumexp"]
    },
    **{
        name: ((3,), [(3, 4)], lambda L, t, a, name=name: _with_places(L, name, t, a[0], 3))
        for name in ["max", "mode"]
    },
    **{
        name: ((3, 4), [(3, 4)], lambda L, t, a, name=name: _with_places(L, name, t, a[0], 3, 4))
        for name in ["sort", "cummax"]
    },
    **{name: ((2, 2), [(2, 3), (3, 2)], _into(name)) for name in ["mm", "matmul"]},
    "bmm": ((2, 2, 2), [(2, 2, 2)] * 2, _into("bmm")),
    "outer": ((3, 2), [(3,), (2,)], _into("outer")),
    "addmm": ((2, 2), [(2, 2), (2, 3), (3, 2)], _into("addmm")),
    "addr": ((3, 2), [(3, 2), (3,), (2,)], _into("addr")),
    "kron": ((4, 2), [(2, 2), (2, 1)], _into("kron")),
    "cross": ((2, 3), [(2, 3)] * 2, lambda L, t, a: L.linalg.cross(*a, out=t)),
    "cat": ((3, 3), [(2, 3), (1, 3)], lambda L, t, a: L.cat(a, out=t)),
    "stack": ((2, 2, 2), [(2, 2)] * 2, lambda L, t, a: L.stack(a, 1, out=t)),
    "gather": (
        (3, 2),
        [(3, 4)],
        lambda L, t, a: L.gather(a[0], 1, ints(L, [0, 1], [1, 2], [3, 3]), out=t),
    ),
    "take": ((3,), [(3, 4)], lambda L, t, a: L.take(a[0], ints(L, 0, 5, 11), out=t)),
    "tril": ((3, 3), [(3, 3)], _into("tril")),
    "diff": ((3, 3), [(3, 4)], _into("diff")),
    "renorm": ((3, 4), [(3, 4)], lambda L, t, a: L.renorm(a[0], 2, 0, 0.5, out=t)),
    "addmm_": ((2, 2), [(2, 3), (3, 2)], _method("addmm_")),
    "addr_": ((3, 2), [(3,), (2,)], _method("addr_")),
    "baddbmm_": ((2, 2, 2), [(2, 2, 2)] * 2, _method("baddbmm_")),
    "x[:, 1:3] = ": ((3, 4), [(3, 2)], lambda L, t, a: t.__setitem__((slice(None), slice(1, 3)), a[0])),
    "x[[0, 2]] = ": ((3, 4), [(2, 4)], lambda L, t, a: t.__setitem__(ints(L, 0, 2), a[0])),
    "index_put_": (
        (3, 4),
        [(2,)],
        lambda L, t, a: t.index_put_((ints(L, 0, 0), ints(L, 1, 1)), a[0], accumulate=True),
    ),
    "index_add_": ((3, 4), [(3, 2)], lambda L, t, a: t.index_add_(1, ints(L, 0, 2), a[0])),
    "index_copy_": ((3, 4), [(3, 2)], lambda L, t, a: t.index_copy_(1, ints(L, 0, 2), a[0])),
    "index_fill_": ((3, 4), [()], lambda L, t, a: t.index_fill_(1, ints(L, 0, 2), a[0])),
    "scatter_add_": (
        (3, 4),
        [(3, 2)],
        lambda L, t, a: t.scatter_add_(1, ints(L, [0, 1], [1, 2], [3, 0]), a[0]),
    ),
    "scatter_reduce_": (
        (3, 4),
        [(3, 2)],
        lambda L, t, a: t.scatter_reduce_(1, ints(L, [0, 1], [1, 2], [3, 0]), a[0], "amax"),
    ),
    "put_": ((3, 4), [(3,)], lambda L, t, a: t.put_(ints(L, 0, 5, 11), a[0])),
    "masked_scatter_": (
        (4,),
        [(3,)],
        lambda L, t, a: t.masked_scatter_(ints(L, True, False, True, False), a[0]),
    ),
}


# ---------------------------------------------------------------- random programs


class Program(NamedTuple):
    name: str
    write: Write
    size: int
    target: View
    operands: list[View]

    def run(self, L: ModuleType, together: bool = True, foreign: bool = False) -> tuple[Any, str]:
        """The memory after the write, and what was refused. Not `together`: each operand in memory of its own."""
        make = L.from_numpy if foreign else L.tensor
        memory = make(np.arange(1, self.size + 1) / 8)
        others = [memory if together else make(np.arange(1, self.size + 1) / 8) for _ in self.operands]
        try:
            self.write(L, self.target.of(memory), [v.of(m) for v, m in zip(self.operands, others)])
        except RuntimeError as error:
            return memory.numpy(), str(error)
        return memory.numpy(), ""


def programs(table: str, number: int, count: int) -> Iterator[Program]:
    draw = random.Random(f"{table} {number}")
    for _ in range(count):
        size = draw.choice([12, 16, 24])
        if table == "other":
            name = draw.choice(list(OTHER))
            shape, shapes, write = OTHER[name]
        else:
            name = draw.choice(list(SAME_SHAPE if table == "in place" else OUT))
            arity, write = (SAME_SHAPE if table == "in place" else OUT)[name]
            shape = tuple(draw.choice([1, 2, 3]) for _ in range(draw.choice([0, 1, 2, 2, 3])))
            first = shape if table == "out" else shape_within(draw, shape)  # an `out` is not to be resized
            shapes = [first, *[shape_within(draw, shape) for _ in range(arity - 1)]]
        # Some of PyTorch's ops write into an expanded `out`, each in its own order; here none does.
        target = view(draw, size, shape, "112345" if table == "other" else "0112345")
        yield Program(name, write, size, target, [view(draw, size, s) for s in shapes])


def differences(program: Program, foreign: bool, oracle: ModuleType | None = None) -> str:
    """What is wrong with one program's run, if anything."""
    got, refused = program.run(T, foreign=foreign)
    if refused:
        if not np.array_equal(got, np.arange(1, program.size + 1) / 8):
            return f"refused and written: {program}"
        if not any(text in refused for text in REFUSALS):
            return f"{refused}: {program}"
    if oracle is not None and (theirs := program.run(oracle, foreign=foreign)[1]) != refused:
        return f"{refused!r}, PyTorch {theirs!r}: {program}"
    want, alone = program.run(T, together=False)
    if not refused and not alone and program.target.shows_none_twice() and not np.allclose(got, want):
        return f"{got} and not {want}: {program}"
    return ""


@pytest.mark.parametrize("table", ["in place", "out", "other"])
def test_a_write_reads_what_was_there_before_it(table: str) -> None:
    found = {differences(p, foreign=k % 2 == 1) for k, p in enumerate(programs(table, 0, 300))}
    assert found == {""}, "\n".join(found)


@pytest.mark.oracle
@pytest.mark.parametrize("table", ["in place", "out", "other"])
def test_the_same_writes_are_refused(torch: ModuleType, table: str) -> None:
    found = {differences(p, k % 2 == 1, torch) for k, p in enumerate(programs(table, 1, 1500))}
    assert found == {""}, "\n".join(found)


def test_programs_are_not_refused_only() -> None:
    """A checker that is refused everything sees nothing."""
    refused = [p.run(T)[1] for p in programs("in place", 0, 300)]
    assert 20 < sum(map(bool, refused)) < 200


# ---------------------------------------------------------------- history

HISTORIES: dict[str, Callable[[Any, Any], Any]] = dict(
    add=lambda x, o: x.add_(o),
    mul=lambda x, o: x.mul_(o),
    div=lambda x, o: x.div_(o),
    fmod=lambda x, o: x.fmod_(o),
    lerp=lambda x, o: x.lerp_(o, 0.5),
    addcmul=lambda x, o: x.addcmul_(o, o),
    copy=lambda x, o: x.copy_(o),
)
SHOWN: dict[str, Callable[[Any], Any]] = dict(
    column=lambda x: x[:, 1:2],
    turned=lambda x: x.t(),
    itself=lambda x: x[:],
    row=lambda x: x[0],
    detached=lambda x: x.detach()[:, 1:2],
    data=lambda x: x.data[:, 1:2],
)


def recorded_write(L: ModuleType, write: Any, shown: Any, of_a_view: bool) -> Any:
    w = (L.arange(9.0).reshape(3, 3) / 8 + 0.5).requires_grad_()
    x = w * 1.5
    t = x.view(3, 3) if of_a_view else x
    try:
        write(t, shown(t))
        (x * L.arange(9.0).reshape(3, 3)).sum().backward()
    except RuntimeError as error:
        return str(error)
    return w.grad


@pytest.mark.oracle
@pytest.mark.parametrize("of_a_view", [False, True])
@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("write", HISTORIES)
def test_history_of_a_write_from_its_own_memory(
    torch: ModuleType, write: str, shown: str, of_a_view: bool
) -> None:
    got, want = (recorded_write(L, HISTORIES[write], SHOWN[shown], of_a_view) for L in (T, torch))
    if isinstance(want, str):
        assert got == want
    else:
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)


def test_a_column_divides_its_matrix() -> None:
    x = T.arange(12.0).reshape(3, 4)
    want = x / x[:, 1:2].clone()
    x /= x[:, 1:2]
    assert T.equal(x, want)
    w = T.ones(3, 4, requires_grad=True)
    y = w * 2
    y -= y[:, 1:2]
    y.sum().backward()
    assert w.grad.tolist() == [[2.0, -6.0, 2.0, 2.0]] * 3


def test_what_is_shown_twice_is_written_in_order() -> None:
    """PyTorch refuses as a target what is expanded, and no other layout that shows an element twice."""
    assert T.ones(4).unfold(0, 2, 1).mul_(2).tolist() == [[2.0, 4.0], [4.0, 4.0], [4.0, 2.0]]
    with pytest.raises(RuntimeError, match="more than one element"):
        T.ones(1).expand(3).mul_(2)
    with pytest.raises(RuntimeError, match="more than one element"):
        T.ones(1).expand(3).fill_(T.tensor(2.0))
    assert T.ones(1).expand(3).fill_(2.0).tolist() == [2.0, 2.0, 2.0]


def test_memory_of_lists_is_known_to_be_apart_and_that_of_a_buffer_is_not() -> None:
    """A short way asks whether two tensors may show the same memory: of Python's arrays it knows who has it."""
    a, b = [storage_of(T.tensor(values)) for values in ([1.0, 2.0], [3.0, 4.0])]
    assert not may_meet(a, b) and not may_meet(a, storage_of(T.ones(2) + 1))
    memory = bytearray(16)
    x, y = T.frombuffer(memory, dtype=T.float32), T.frombuffer(memory, dtype=T.float32, offset=4)
    assert may_meet(storage_of(x), storage_of(y))
    z = T.frombuffer(memoryview(memory)[4:], dtype=T.float32)
    assert may_meet(storage_of(x), storage_of(z))
    part = np.frombuffer(memory, np.float32)[1:]
    assert may_meet(storage_of(x), storage_of(T.from_numpy(part)))
