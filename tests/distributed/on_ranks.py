"""Every collective against NumPy, of all dtypes and layouts: run by `mpiexec -n N python -m tests.distributed.on_ranks`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import nbgrad as T
from nbgrad import distributed as dist

DTYPES = (
    *(T.bool, T.uint8, T.int8, T.int16, T.int32, T.int64),
    *(T.float16, T.bfloat16, T.float32, T.float64),
)
FEW = (T.bool, T.int64, T.bfloat16, T.float32)  # of more processes than the machine has cores
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (5,), (2, 3), (1000,))


def values(rank: int, shape: tuple[int, ...], dtype: Any) -> Any:
    """Small integers, so that sums and products of all dtypes are exact."""
    found = np.random.RandomState(rank * 7 + len(shape)).randint(0, 4, shape)
    return T.tensor(found.astype(np.float64) if dtype.is_floating_point else found).to(dtype)


def layouts(t: Any) -> Iterator[Any]:
    """`t`, and tensors of the same values that lie otherwise."""
    yield t.clone()
    if t.ndim == 0 or t.numel() == 0:
        return
    wide = T.zeros(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype)
    wide[..., ::2] = t
    yield wide[..., ::2]
    yield t.t().contiguous().t() if t.ndim == 2 else T.cat([T.zeros(3, dtype=t.dtype), t])[3:]


def array(t: Any) -> Any:
    return t.to(T.float64).numpy() if t.dtype is T.bfloat16 else t.numpy()


OPS: dict[Any, Callable[[Any], Any]] = {
    dist.ReduceOp.SUM: lambda a: a.sum(0),
    dist.ReduceOp.PRODUCT: lambda a: a.prod(0),
    dist.ReduceOp.MIN: lambda a: a.min(0),
    dist.ReduceOp.MAX: lambda a: a.max(0),
    dist.ReduceOp.AVG: lambda a: a.mean(0),
    dist.ReduceOp.BAND: lambda a: np.bitwise_and.reduce(a),
    dist.ReduceOp.BOR: lambda a: np.bitwise_or.reduce(a),
    dist.ReduceOp.BXOR: lambda a: np.bitwise_xor.reduce(a),
}


def expected(op: Any, parts: list[Any], dtype: Any) -> Any:
    found = OPS[op](
        np.stack([array(p) for p in parts]).astype(np.float64 if dtype.is_floating_point else np.int64)
    )
    if dtype is T.bool:
        found = found != 0
    return found if dtype.is_floating_point else found.astype(dtype.np)


def same(t: Any, want: Any) -> None:
    got = array(t)
    assert got.shape == np.shape(want) and np.allclose(got, want, rtol=0.01 if t.itemsize == 2 else 1e-6), (
        got,
        want,
    )


def _allowed(op: Any, dtype: Any) -> bool:
    bitwise = op.name in ("BAND", "BOR", "BXOR")
    return not (bitwise and dtype.is_floating_point) and not (
        op.name == "AVG" and not dtype.is_floating_point
    )


def reductions() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for shape in SHAPES:
            parts = [values(r, shape, dtype) for r in range(n)]
            for op in filter(lambda op: _allowed(op, dtype), OPS):
                want = expected(op, parts, dtype)
                for x in layouts(parts[rank]):
                    address, version = x.data_ptr(), x._version
                    work = dist.all_reduce(x, op, async_op=len(shape) == 1)
                    assert work is None or work.wait()
                    assert x.data_ptr() == address and x._version > version
                    same(x, want)
            for x in layouts(parts[rank]):
                dist.reduce(x, n - 1)
                if rank == n - 1:
                    same(x, expected(dist.ReduceOp.SUM, parts, dtype))
            whole = [values(r, (n * 2, 3), dtype) for r in range(n)]
            for x in layouts(whole[rank]):
                want = expected(dist.ReduceOp.SUM, whole, dtype)[2 * rank : 2 * rank + 2]
                for out in layouts(T.zeros(2, 3, dtype=dtype)):
                    dist.reduce_scatter_single(out, x)
                    same(out, want)
                out = T.zeros(2, 3, dtype=dtype)
                dist.reduce_scatter(out, list(x.split(2)))
                same(out, want)


def moves() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for shape in SHAPES:
            parts = [values(r, shape, dtype) for r in range(n)]
            wants = [array(p) for p in parts]
            blank = T.zeros(shape, dtype=dtype)
            for mine, place in zip(layouts(parts[rank]), layouts(blank)):
                dist.broadcast(x := mine.clone(), n - 1)
                same(x, wants[-1])
                lists = [
                    [next(layouts(place)) for _ in range(n)],
                    list(T.zeros(n, *shape, dtype=dtype).unbind()),
                ]
                if len(shape) == 2:
                    lists.append([place.clone().t().contiguous().t() for _ in range(n)])
                for found in lists:
                    work = dist.all_gather(found, mine, async_op=place is not blank)
                    assert work is None or work.wait()
                    [same(f, w) for f, w in zip(found, wants)]
                    [f.zero_() for f in found]
                    dist.gather(mine, found if rank == 0 else None)
                    [same(f, w) for f, w in zip(found, wants) if rank == 0]
                out = T.zeros(n, *shape, dtype=dtype)
                dist.all_gather_single(out, mine)
                same(out, np.stack(wants))
                dist.scatter(place, parts if rank == n - 1 else None, n - 1)
                same(place, wants[rank])
                lists = [T.zeros(shape, dtype=dtype) for _ in range(n)]
                dist.all_to_all(lists, [mine] * n)
                [same(f, w) for f, w in zip(lists, wants)]
        # Of different lengths: process k sends j + 1 rows to process j.
        x = values(rank, (sum(range(1, n + 1)), 2), dtype)
        out = T.zeros(n * (rank + 1), 2, dtype=dtype)
        dist.all_to_all_single(out, x, [rank + 1] * n, list(range(1, n + 1)))
        start = sum(range(1, rank + 1))
        every = [values(r, (sum(range(1, n + 1)), 2), dtype) for r in range(n)]
        same(out, np.concatenate([array(e)[start : start + rank + 1] for e in every]))
        dist.all_to_all_single(out := T.zeros(n, dtype=dtype), values(rank, (n,), dtype))
        same(out, np.array([array(values(r, (n,), dtype))[rank] for r in range(n)]))


def messages() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    after, before = (rank + 1) % n, (rank - 1) % n
    for dtype in DTYPES:
        for mine, place in zip(layouts(values(rank, (2, 3), dtype)), layouts(T.zeros(2, 3, dtype=dtype))):
            works = [dist.isend(mine, after, tag=3), dist.irecv(place, before, tag=3)]
            assert all(work.wait() and work.is_completed() for work in works)
            same(place, array(values(before, (2, 3), dtype)))
    x = T.full((2,), float(rank))
    if rank == 0:
        assert sorted(dist.recv(T.zeros(2)) for _ in range(n - 1)) == list(range(1, n))
    else:
        dist.send(x, 0)
    dist.barrier()
    ops = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y := T.zeros(2), before)]
    [work.wait() for work in dist.batch_isend_irecv(ops)]
    assert y.tolist() == [before] * 2


def left() -> None:
    """What is begun and nobody waits for keeps its memory until it is done."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for k in range(20):
        dist.all_reduce(T.full((1000,), 5.0), async_op=True)
        y, z = T.ones(1000), T.zeros(1000)  # where that was, if it was let go
        dist.all_reduce(y)
        assert y.tolist() == [n] * 1000 and not z.any()
        if rank == 0:
            dist.isend(T.full((100_000,), float(k)), 1)
        elif rank == 1:
            dist.recv(x := T.zeros(100_000), 0)
            assert x.eq(k).all()


def objects() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    mine = {"rank": rank, "tensor": T.ones(rank + 1)}
    dist.all_gather_object(found := [None] * n, mine)
    assert [f["tensor"].shape[0] for f in found] == list(range(1, n + 1))  # type: ignore[index]
    dist.gather_object(mine, found := [None] * n if rank == 0 else None)
    assert rank or [f["rank"] for f in found] == list(range(n))  # type: ignore[union-attr, index]
    dist.broadcast_object_list(things := [rank, str(rank)], src=n - 1)
    assert things == [n - 1, str(n - 1)]
    dist.scatter_object_list(one := [None], [f"for {r}" for r in range(n)] if rank == 0 else None)
    assert one == [f"for {rank}"]
    if rank == 0:
        dist.send_object_list(["a", 1], 1)
    elif rank == 1:
        assert dist.recv_object_list(got := [None, None], 0) == 0 and got == ["a", 1]


def groups() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    outer = dist.new_group([0, n - 1])
    if rank in (0, n - 1):
        dist.all_reduce(x := T.ones(2), group=outer)
        assert x.tolist() == [2.0, 2.0] and dist.get_process_group_ranks(outer) == [0, n - 1]
        dist.broadcast(x := T.full((1,), float(rank)), n - 1, group=outer)
        assert x.item() == n - 1 and dist.get_global_rank(outer, 1) == n - 1
    else:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert outer == -100 and dist.get_rank(outer) == dist.get_world_size(outer) == -1
            assert dist.all_reduce(T.ones(2), group=outer) is None
        assert "does not belong to the given group" in str(told[0].message)
    backward = dist.new_group(list(range(n))[::-1], sort_ranks=False)
    assert dist.get_rank(backward) == n - 1 - rank and dist.get_group_rank(backward, 0) == n - 1
    dist.destroy_process_group(backward)
    dist.monitored_barrier()


def refusals() -> None:
    """One process alone is refused, so the others do not wait for it."""
    n, x = dist.get_world_size(), T.ones(2)
    tried = [
        lambda: dist.all_reduce([x]),
        lambda: dist.all_reduce(x, "sum"),
        lambda: dist.all_reduce(x, dist.ReduceOp.BAND),
        lambda: dist.all_reduce(x.long(), dist.ReduceOp.AVG),
        lambda: dist.all_reduce(T.ones(1).expand(3)),
        lambda: dist.all_reduce(T.ones(2, device="meta")),
        lambda: dist.all_gather([x], x),
        lambda: dist.all_gather((x,) * n, x),
        lambda: dist.all_gather([x] * (n - 1) + [T.ones(3)], x),
        lambda: dist.all_gather([x] * (n - 1) + [T.ones(2).int()], x),
        lambda: dist.all_gather_single(T.ones(2 * n + 1), x),
        lambda: dist.reduce_scatter(x, [x]),
        lambda: dist.reduce_scatter_single(x, x),
        lambda: dist.all_to_all_single(T.ones(2 * n), T.ones(2 * n), [1], [1] * n),
        lambda: dist.all_to_all_single(T.ones(2 * n), T.ones(2 * n), [1] * n, [1] * n),
        lambda: dist.all_to_all_single(T.ones(2 * n), T.ones(2 * n).int()),
        lambda: dist.all_to_all([x], [x]),
        lambda: dist.gather(x, None, dst=dist.get_rank()),
        lambda: dist.gather(x, [x], dst=dist.get_rank()),
        lambda: dist.gather(x, [x], dst=(dist.get_rank() + 1) % n),
        lambda: dist.scatter(x, None, src=dist.get_rank()),
        lambda: dist.scatter(x, [x], src=(dist.get_rank() + 1) % n),
        lambda: dist.broadcast(x, 9),
        lambda: dist.broadcast(x, -1),
        lambda: dist.broadcast(x),
        lambda: dist.broadcast(x, 0, group_src=0),
        lambda: dist.send(x, dist.get_rank()),
        lambda: dist.isend(x, 9),
        lambda: dist.init_process_group("mpi"),
        lambda: dist.new_group([0, 9]),
        lambda: dist.new_group([0, 0]),
        lambda: dist.new_group(list(range(n + 1))),
        lambda: dist.destroy_process_group(3),
        lambda: T.vmap(lambda t: dist.all_reduce(t))(T.ones(2, 3)),
        lambda: dist.P2POp(dist.send, x, 0),
        lambda: dist.batch_isend_irecv([1]),
        lambda: dist.scatter_object_list([]),
        lambda: dist.init_process_group("mpi", timeout=3),
    ]
    if dist.get_rank() == 0:
        for k, call in enumerate(tried):
            try:
                call()  # type: ignore[no-untyped-call]
            except Exception as error:
                print(f"{type(error).__name__}: {error}".replace("\n", "|"))
            else:
                raise AssertionError(f"call {k} of refusals() was not refused")
    assert x.tolist() == [1.0, 1.0]


def main() -> None:
    warnings.simplefilter("error")
    dist.init_process_group("mpi")
    if dist.get_world_size() > 2:
        globals()["DTYPES"] = FEW
    for name in sys.argv[1:] or ("reductions", "moves", "messages", "objects", "groups", "refusals"):
        globals()[name]()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
