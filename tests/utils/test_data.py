"""`utils.data`: what loaders give, in PyTorch's order under the same seed, and what they refuse."""

import gc
import multiprocessing
import os
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from nbgrad.utils._contextlib import _DecoratorContextManager, _NoParamDecoratorContextManager
from nbgrad.utils.data._utils.collate import default_collate_fn_map
from tests.compare import outcome
from tests.support import T

Pair = namedtuple("Pair", "a b")


def plain(value: Any) -> Any:
    """Tensors as lists with their dtype, so that two libraries' can be compared."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return (str(value.dtype), tuple(value.shape), value.tolist())
    if isinstance(value, dict):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value


def tensors(lib: ModuleType, n: int = 10) -> Any:
    return lib.utils.data.TensorDataset(lib.arange(2.0 * n).reshape(n, 2), lib.arange(n))


def stream(lib: ModuleType, n: int = 7, told: int | None = None) -> Any:
    class Stream(lib.utils.data.IterableDataset):
        def __iter__(self) -> Iterator[int]:
            return iter(range(n))

        def __repr__(self) -> str:
            return "Stream()"

    class Told(Stream):
        def __len__(self) -> int:
            assert told is not None
            return told

    return Stream() if told is None else Told()


def squares(lib: ModuleType) -> Any:
    """A dataset of dicts."""

    class Squares(lib.utils.data.Dataset):
        def __getitem__(self, i: int) -> Any:
            return {"n": i, "square": lib.tensor([float(i * i)]), "name": f"no {i}", "pair": (i, -i)}

        def __len__(self) -> int:
            return 7

    return Squares()


def loads(lib: ModuleType) -> dict[str, Callable[[], Any]]:
    """Everything that a seed decides, each run under the same one."""
    d = lib.utils.data
    gen = lambda: lib.Generator().manual_seed(3)  # noqa: E731

    def twice(loader: Any) -> Any:
        return list(loader), list(loader), lib.rand(2)

    return {
        "in order": lambda: twice(d.DataLoader(tensors(lib), 4)),
        "drop_last": lambda: list(d.DataLoader(tensors(lib), 4, drop_last=True)),
        "shuffled": lambda: twice(d.DataLoader(tensors(lib), 4, shuffle=True)),
        "shuffled, generator": lambda: twice(d.DataLoader(tensors(lib), 3, shuffle=True, generator=gen())),
        "dicts": lambda: list(d.DataLoader(squares(lib), 3, shuffle=True)),
        "alone": lambda: list(d.DataLoader(tensors(lib), batch_size=None)),
        "alone, arrays": lambda: list(d.DataLoader([np.ones(2), (np.int64(1), "a")], batch_size=None)),
        "own collate": lambda: list(d.DataLoader(tensors(lib), 4, collate_fn=len)),
        "sampler": lambda: list(d.DataLoader(tensors(lib), 2, sampler=[3, -1, 0])),
        "batch_sampler": lambda: list(d.DataLoader(tensors(lib), batch_sampler=[[1], [2, 3, 2]])),
        "subset": lambda: list(d.DataLoader(d.Subset(tensors(lib), [9, 1, 5]), 2)),
        "stream": lambda: list(d.DataLoader(stream(lib), 3)),
        "stream, drop_last": lambda: list(d.DataLoader(stream(lib), 3, drop_last=True)),
        "stream, alone": lambda: list(d.DataLoader(stream(lib), batch_size=None)),
        "stream, length": lambda: len(d.DataLoader(stream(lib, 7, told=7), 2)),
        "lengths": lambda: [len(d.DataLoader(tensors(lib), 3, drop_last=drop)) for drop in (False, True)],
        "random": lambda: (list(d.RandomSampler(range(9))), lib.rand(1)),
        "random, more": lambda: list(d.RandomSampler(range(9), num_samples=25, generator=gen())),
        "random, whole epochs": lambda: [list(s) for s in [d.RandomSampler(range(9), generator=gen())] * 2],
        "replacement": lambda: list(d.RandomSampler(range(9), True, 75, generator=gen())),
        "some": lambda: list(d.SubsetRandomSampler([5, 6, 9, 1], gen())),
        "weighted": lambda: list(d.WeightedRandomSampler([0.1, 0.0, 0.5, 3.0], 40, generator=gen())),
        "weighted tensor": lambda: list(d.WeightedRandomSampler(lib.tensor([1, 2, 3]), 10, generator=gen())),
        "split": lambda: [list(s.indices) for s in d.random_split(range(10), [3, 7])],
        "split, shares": lambda: [
            list(s.indices) for s in d.random_split(range(10), [0.33, 0.33, 0.34], gen())
        ],
        "concat": lambda: [(tensors(lib) + tensors(lib, 3))[i] for i in (0, 9, 10, -1)],
        "chain": lambda: list(stream(lib, 2) + stream(lib, 3)),
        "chain length": lambda: len(stream(lib, 2, told=2) + stream(lib, 3, told=3)),
        "stacked": lambda: d.StackDataset(tensors(lib), tensors(lib))[3],
        "stacked, named": lambda: d.StackDataset(a=tensors(lib), b=tensors(lib))[3],
        "slice": lambda: tensors(lib)[2:5],
        "attributes": lambda: [
            getattr(d.DataLoader(tensors(lib), 4, num_workers=2), k)
            for k in ("batch_size", "num_workers", "prefetch_factor", "drop_last", "timeout", "pin_memory")
        ],
    }


@pytest.mark.oracle
@pytest.mark.parametrize("name", loads(T))
def test_loads(torch: ModuleType, name: str) -> None:
    T.manual_seed(11)
    got = plain(loads(T)[name]())
    torch.manual_seed(11)
    assert got == plain(loads(torch)[name]())


def batches(lib: ModuleType) -> list[Any]:
    t = lib.tensor
    return [
        [1, 2],
        [1.5, 2],
        [1, 2.5],
        [True, False],
        ["a", "b"],
        [b"a"],
        [np.ones(2), np.zeros(2)],
        [np.float64(1), np.float64(2)],
        [np.float32(1)],
        [np.int32(1)],
        [np.array(1.5)],
        [(1, "x"), (3, "y")],
        [[1, 2], [3, 4]],
        [{"a": 1, "b": (2, 3)}, {"a": 3, "b": (4, 5)}],
        [OrderedDict(a=1), OrderedDict(a=2)],
        [Pair(1, 2), Pair(3, 4)],
        [t([1.0]), t([2.0])],
        [None],
        [{1}],
        [[1], [1, 2]],
        [t([1.0]), t([1.0, 2.0])],
        [np.array(["a"])],
        [],
        [t([1.0]), 1],
    ]


@pytest.mark.oracle
@pytest.mark.parametrize("k", range(len(batches(T))))
def test_collate(torch: ModuleType, k: int) -> None:
    for function in ("default_collate", "default_convert"):
        got = outcome(lambda f=function: getattr(T.utils.data, f)(batches(T)[k]))
        want = outcome(lambda f=function: getattr(torch.utils.data, f)(batches(torch)[k]))
        assert plain(got) == plain(want)


def refusals(lib: ModuleType) -> dict[str, Callable[[], Any]]:
    d = lib.utils.data
    data = tensors(lib)

    def change(name: str) -> None:
        setattr(d.DataLoader(data), name, 3)

    def longer_than_told() -> None:
        loader = d.DataLoader(stream(lib, 5, told=1))
        len(loader)
        list(loader)

    found: dict[str, Callable[[], Any]] = {
        "sizes": lambda: d.TensorDataset(lib.ones(2), lib.ones(3)),
        "past the end": lambda: data[20],
        "no length": lambda: len(d.Dataset()),
        "no item": lambda: d.Dataset()[0],
        "no items of a stream": lambda: stream(lib)[0],
        "no stream": lambda: iter(d.IterableDataset()),
        "concat of none": lambda: d.ConcatDataset([]),
        "concat of a stream": lambda: d.ConcatDataset([stream(lib)]),
        "concat, before": lambda: d.ConcatDataset([data, data])[-21],
        "concat, past": lambda: d.ConcatDataset([data, data])[20],
        "chain of no stream": lambda: list(d.ChainDataset([data])),
        "stack of none": lambda: d.StackDataset(),
        "stack of both": lambda: d.StackDataset(data, a=data),
        "stack of sizes": lambda: d.StackDataset(data, tensors(lib, 3)),
        "split": lambda: d.random_split(data, [3, 8]),
        "split, shares": lambda: d.random_split(data, [0.3, 0.8]),
        "split, negative": lambda: d.random_split(data, [1.3, -0.3]),
        "split, empty": lambda: d.random_split(data, [0.99, 0.01]),
        "replacement": lambda: d.RandomSampler(data, replacement=3),
        "no samples": lambda: d.RandomSampler(data, num_samples=0),
        "half a sample": lambda: d.RandomSampler(data, num_samples=1.5),
        "nothing to sample": lambda: d.RandomSampler([]),
        "weighted, count": lambda: d.WeightedRandomSampler([0.1], -3),
        "weighted, replacement": lambda: d.WeightedRandomSampler([0.1], 3, 4),
        "weighted, shape": lambda: d.WeightedRandomSampler([[0.1, 0.5]], 3),
        "weighted, zero": lambda: list(d.WeightedRandomSampler([0.0, 0.0], 3)),
        "weighted, negative": lambda: list(d.WeightedRandomSampler([0.5, -0.1], 3)),
        "weighted, too many": lambda: list(d.WeightedRandomSampler([0.5, 0.1], 3, False)),
        "batch of none": lambda: d.BatchSampler(range(7), 0, True),
        "batch of a truth": lambda: d.BatchSampler(range(7), True, True),
        "batch, drop_last": lambda: d.BatchSampler(range(7), 3, 1),
        "sampler": lambda: iter(d.Sampler()),
        "stream without length": lambda: len(d.DataLoader(stream(lib), 3)),
        "longer than told": longer_than_told,
        "pinned": lambda: list(d.DataLoader(data, pin_memory=True)),
    }
    options: list[dict[str, Any]] = [
        dict(num_workers=-1),
        dict(timeout=-1),
        dict(prefetch_factor=2),
        dict(persistent_workers=True),
        dict(num_workers=1, prefetch_factor=-1),
        dict(batch_size=0),
        dict(batch_size=1.5),
        dict(batch_size=None, drop_last=True),
        dict(shuffle=True, sampler=range(3)),
        dict(batch_sampler=[[1]], batch_size=2),
        dict(batch_sampler=[[1]], shuffle=True),
        dict(multiprocessing_context="spawn"),
        dict(num_workers=1, multiprocessing_context="bad"),
    ]
    for kw in options:
        found[f"loader {kw}"] = lambda kw=kw: d.DataLoader(data, **kw)
    for kw in (dict(shuffle=True), dict(sampler=range(3)), dict(batch_sampler=[[1]])):
        found[f"loader of a stream {kw}"] = lambda kw=kw: d.DataLoader(stream(lib), **kw)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        found[f"change {name}"] = lambda name=name: change(name)
    return found


@pytest.mark.oracle
@pytest.mark.parametrize("name", refusals(T))
def test_refusals(torch: ModuleType, name: str) -> None:
    want = outcome(refusals(torch)[name])
    assert isinstance(want, str), f"PyTorch does not refuse: {name}"
    assert outcome(refusals(T)[name]) == want


def test_batches_by_hand() -> None:
    loader = T.utils.data.DataLoader(tensors(T, 3), batch_size=2)
    (x, n), (y, m) = loader
    assert x.tolist() == [[0, 1], [2, 3]] and n.tolist() == [0, 1]
    assert y.tolist() == [[4, 5]] and m.tolist() == [2]
    assert len(loader) == 2


def test_each_sample_once_an_epoch() -> None:
    loader = T.utils.data.DataLoader(tensors(T, 50), batch_size=7, shuffle=True)
    first, second = ([n for _, ns in loader for n in ns.tolist()] for _ in range(2))
    assert first != second and sorted(first) == sorted(second) == list(range(50))


def test_a_gathered_batch_is_new_memory() -> None:
    data = tensors(T, 4)
    (x, _) = next(iter(T.utils.data.DataLoader(data, batch_size=4)))
    x.zero_()
    assert data.tensors[0].sum() > 0


def test_gradients_reach_the_samples() -> None:
    """The gather is for data; what requires grad is stacked, so that its history is PyTorch's."""
    w = T.ones(4, 2, requires_grad=True)
    ((x,),) = T.utils.data.DataLoader(T.utils.data.TensorDataset(w), batch_size=4)
    assert type(x.grad_fn).__name__ == "StackBackward0"
    x.sum().backward()
    assert (w.grad == 1).all()


def test_own_classes_are_asked() -> None:
    """A subclass's `__getitem__`, and `__getitems__` where there is one."""

    class Doubled(T.utils.data.TensorDataset):
        def __getitem__(self, i: int) -> Any:
            return super().__getitem__(i)[0] * 2

    class Whole(T.utils.data.Dataset):
        def __getitems__(self, indices: list[int]) -> list[int]:
            return [10 * i for i in indices]

        def __len__(self) -> int:
            return 4

    (x,) = T.utils.data.DataLoader(Doubled(T.arange(3)), batch_size=3)
    assert x.tolist() == [0, 2, 4]
    assert [b.tolist() for b in T.utils.data.DataLoader(Whole(), batch_size=3)] == [[0, 10, 20], [30]]


def test_weighted_without_replacement() -> None:
    sampler = T.utils.data.WeightedRandomSampler([1.0, 0.0, 2.0, 1.0], 3, replacement=False)
    drawn = [tuple(sampler) for _ in range(200)]
    assert all(sorted(d) == [0, 2, 3] for d in drawn)
    firsts = [d[0] for d in drawn]
    assert firsts.count(2) > firsts.count(0) > 0


def test_workers_end_with_their_pass() -> None:
    """At its end, where it is given up, and, with workers that stay, where the loader goes."""
    data, before = T.utils.data, set(multiprocessing.active_children())

    def workers() -> int:
        return len(set(multiprocessing.active_children()) - before)

    assert len(list(data.DataLoader(range(3), num_workers=2))) == 3 and workers() == 0
    given_up = iter(data.DataLoader(range(9), num_workers=2))
    assert next(given_up) == 0 and workers() == 2
    del given_up
    assert workers() == 0
    stays = data.DataLoader(range(3), num_workers=1, persistent_workers=True)
    assert len(list(stays)) == 3 and workers() == 1
    del stays
    gc.collect()
    assert workers() == 0


@pytest.mark.parametrize("persistent", [False, True])
def test_a_stream_is_begun_once_and_its_error_is_the_workers(persistent: bool) -> None:
    begun = multiprocessing.Value("i", 0)

    class Broken(T.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Iterator[int]:
            begun.value += 1
            if begun.value == 2:
                raise OSError("no more")
            return iter([begun.value])

    loader = T.utils.data.DataLoader(Broken(), num_workers=1, persistent_workers=persistent)
    assert [x.tolist() for x in loader] == [[1]]
    with pytest.raises(OSError, match=r"^Caught OSError in DataLoader worker process 0\.\n[^!]*no more\n$"):
        next(iter(loader))
    assert begun.value == 2


def test_a_worker_that_dies_is_told() -> None:
    loader = T.utils.data.DataLoader(range(2), num_workers=1, collate_fn=lambda batch: os._exit(1))
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly"):
        next(iter(loader))


def test_what_a_worker_cannot_send_is_raised() -> None:
    loader = T.utils.data.DataLoader(range(2), num_workers=1, collate_fn=lambda batch: lambda: batch)
    with pytest.raises(
        Exception, match=r"(?s)in DataLoader worker process 0.*(pickle|local object)"
    ):  # which of them, Python decides
        next(iter(loader))


def test_a_library_may_say_how_tensors_are_collated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a loader would gather whole batches."""
    monkeypatch.setitem(default_collate_fn_map, T.Tensor, lambda batch, *, collate_fn_map: len(batch))
    assert list(T.utils.data.DataLoader(T.utils.data.TensorDataset(T.ones(5)), batch_size=3)) == [[3], [2]]


def test_a_mode_of_ones_own_decorates() -> None:
    class Doubled(_DecoratorContextManager):
        def __enter__(self) -> None:
            seen.append("in")

        def __exit__(self, *_: object) -> None:
            seen.append("out")

    class Bare(_NoParamDecoratorContextManager, Doubled):
        pass

    seen: list[object] = []
    Doubled()(lambda: seen.append(1))()
    Bare(lambda: seen.append(2))()

    @Bare()
    def steps():  # type: ignore[no-untyped-def]
        yield seen.append(3)

    list(steps())
    assert seen == ["in", 1, "out", "in", 2, "out", "in", 3, "out", "in", "out"]
