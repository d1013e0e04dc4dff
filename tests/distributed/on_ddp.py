"""Training on several processes against one process on the whole batch: run by `mpiexec -n N python -m tests.distributed.on_ddp`."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import nbgrad as T
from nbgrad import distributed as dist
from nbgrad import nn
from nbgrad.distributed.algorithms.ddp_comm_hooks import default_hooks
from nbgrad.nn.parallel import DistributedDataParallel as DDP

STEPS = 50


class Net(nn.Module):
    """Layers of several shapes; with `choosy`, one that only some steps use, and one that none does."""

    def __init__(self, choosy: bool = False, norm: bool = False) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 40), nn.Linear(40, 8), nn.Linear(8, 3, bias=False)
        self.scale = nn.Parameter(T.ones(()))
        self.choosy = choosy
        self.norm = nn.BatchNorm1d(40) if norm else nn.Identity()
        if choosy:
            self.sometimes, self.never = nn.Linear(8, 8), nn.Linear(2, 2)

    def forward(self, x: Any, use: bool = False) -> Any:
        h = self.second(T.tanh(self.norm(self.first(x))))
        if use:
            h = self.sometimes(h)
        return self.last(T.relu(h)) * self.scale


def data(dtype: Any, n: int) -> tuple[Any, Any]:
    T.manual_seed(7)
    return T.randn(STEPS, 4 * n, 6, dtype=dtype), T.randn(STEPS, 4 * n, 3, dtype=dtype)


def train(
    dtype: Any,
    wrap: Callable[[Any], Any],
    mine: slice,
    choosy: bool = False,
    every: int = 1,
    to_none: bool = True,
    uses: Callable[[int], bool] = lambda step: False,
) -> tuple[list[float], Any]:
    """The losses of this part of the batch, and the module at the end. `every` so many steps are one for the optimiser."""
    T.manual_seed(3)
    plain = Net(choosy).to(dtype)
    net = wrap(plain)
    steps = T.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    xs, ys = data(dtype, dist.get_world_size())
    losses = []
    for k in range(STEPS):
        last = (k + 1) % every == 0
        with nullcontext() if last or net is plain else net.no_sync():
            loss = nn.functional.mse_loss(
                net(xs[k, mine], **({"use": uses(k)} if choosy else {})), ys[k, mine]
            )
            (loss / every).backward()
        losses.append(loss.item())
        if last:
            steps.step()
            steps.zero_grad(set_to_none=to_none)
    return losses, plain


def check(
    name: str, dtype: Any, tolerance: float | None = None, choosy: bool = False, **settings: Any
) -> None:
    rank = dist.get_rank()
    hook = settings.pop("hook", None)
    options = {o: settings.pop(o) for o in ("every", "to_none", "uses") if o in settings}
    mine = slice(4 * rank, 4 * rank + 4)

    def wrap(module: Any) -> Any:
        if rank:  # process 0's are taken over
            with T.no_grad():
                [p.add_(rank) for p in module.parameters()]
        net = DDP(module, **settings)
        if hook is not None:
            net.register_comm_hook(None, hook)
        return net

    losses, net = train(dtype, wrap, mine, choosy, **options)
    alone, plain = train(dtype, lambda m: m, slice(None), choosy, **options)
    total = T.tensor(losses, dtype=T.float64)
    dist.all_reduce(total, dist.ReduceOp.AVG)
    worst = (total - T.tensor(alone, dtype=T.float64)).abs().max().item()
    limit = tolerance or (1e-12 if dtype is T.float64 else 1e-6)
    assert worst <= limit, (name, worst)
    for (key, p), q in zip(net.named_parameters(), plain.parameters()):
        assert (p - q).abs().max().item() <= 10 * limit, (name, key)
        assert (p.grad is None) == (q.grad is None), (name, key)


def losses() -> None:
    for dtype in (T.float32, T.float64):
        check("plain", dtype)
        check("views", dtype, gradient_as_bucket_view=True, bucket_cap_mb=0.0005)
    for cap in (1e-6, 0.0003, 0.001, 1):
        check(f"buckets of {cap}", T.float64, bucket_cap_mb=cap)
    check("accumulation", T.float64, every=4, bucket_cap_mb=0.0005)
    check("accumulation in views", T.float64, every=4, gradient_as_bucket_view=True)
    check("zeroed", T.float64, to_none=False, gradient_as_bucket_view=True)
    for views in (False, True):
        for to_none in (False, True):
            check(
                f"unused {views} {to_none}",
                T.float64,
                choosy=True,
                find_unused_parameters=True,
                gradient_as_bucket_view=views,
                uses=lambda step: step % 3 == 1,
                to_none=to_none,
                bucket_cap_mb=0.0005,
            )
    check("static", T.float64, static_graph=True, bucket_cap_mb=0.0005)
    check("static with unused", T.float64, choosy=True, static_graph=True)
    check("hook", T.float64, hook=default_hooks.allreduce_hook, bucket_cap_mb=0.0005)
    check("hook in views", T.float64, hook=default_hooks.allreduce_hook, gradient_as_bucket_view=True)
    check("fp16", T.float32, 1e-2, hook=default_hooks.fp16_compress_hook)
    check("bf16", T.float32, 1e-1, hook=default_hooks.bf16_compress_hook)
    check("wrapped", T.float32, 1e-2, hook=default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook))


def large() -> None:
    """Gradients that are sent from where they are, among small ones that are sent together."""
    rank, n = dist.get_rank(), dist.get_world_size()
    half = slice(2 * rank, 2 * rank + 2)
    x = T.randn(2 * n, 300, dtype=T.float64, generator=T.Generator().manual_seed(1))

    def make(order: Any = T.contiguous_format) -> Any:
        T.manual_seed(0)
        layers = [nn.Linear(300, 300), nn.Tanh(), nn.Linear(300, 4), nn.Unflatten(1, (4, 1, 1))]
        convolution = nn.Conv2d(4, 300, 8, padding=7).to(memory_format=order)
        return nn.Sequential(*layers, convolution, nn.Flatten(), nn.Linear(300 * 64, 2)).double()

    for order in (T.contiguous_format, T.channels_last):
        for settings in (
            {},
            {"gradient_as_bucket_view": True},
            {"bucket_cap_mb": 0.1},
            {"static_graph": True},
        ):
            plain, module = make(), make(order)
            net = DDP(module, **settings)
            seen: list[Any] = []
            module[0].weight.register_post_accumulate_grad_hook(
                lambda p, seen=seen: seen.append(p.grad.clone())
            )
            for k in range(4):
                if k == 2:  # from here on they are there already
                    for m in (plain, net):
                        m.zero_grad(set_to_none=False)
                elif k < 2:
                    for m in (plain, net):
                        m.zero_grad()
                kept = module[-1].weight.grad
                (plain(x) ** 2).mean().backward()
                (net(x[half]) ** 2).mean().backward()
                assert kept is None or T.equal(kept, module[-1].weight.grad)
                for p, q in zip(plain.parameters(), module.parameters()):
                    assert T.allclose(p.grad, q.grad, rtol=1e-9, atol=1e-12), (settings, k, tuple(p.shape))
            if "gradient_as_bucket_view" in settings:
                continue
            mean = seen[0] / n  # a hook of a user's sees this process's own gradient
            dist.all_reduce(mean)
            (first,) = T.autograd.grad((plain(x) ** 2).mean(), plain[0].weight)
            assert T.allclose(mean, first, rtol=1e-9, atol=1e-12) and not T.equal(seen[0], first)


def used_on_one_rank() -> None:
    """A parameter that one process alone uses gets the mean everywhere; one that none uses keeps what it had."""
    rank = dist.get_rank()
    for views in (False, True):
        T.manual_seed(0)
        net = DDP(Net(True), find_unused_parameters=True, gradient_as_bucket_view=views)
        kept = net.module.never.weight.grad = T.full((2, 2), 5.0)
        net(T.ones(2, 6), use=rank == 0).sum().backward()
        mean = net.module.sometimes.bias.grad.clone()
        dist.broadcast(mean, 0)
        assert mean.abs().sum() > 0 and T.equal(mean, net.module.sometimes.bias.grad)
        assert net.module.never.weight.grad.tolist() == kept.tolist() and net.module.never.bias.grad is None


def programs() -> None:
    """Networks of random depth and shape, by random settings."""
    rank, n = dist.get_rank(), dist.get_world_size()
    for seed in range(8):
        draw = random.Random(seed)
        widths = [draw.randint(1, 30) for _ in range(draw.randint(2, 6))]
        kind = [draw.choice([nn.Tanh, nn.ReLU, nn.GELU, nn.Identity]) for _ in widths]
        cap, views = draw.choice([1e-5, 1e-3, None]), draw.random() < 0.5

        def make(widths: Any = widths, kind: Any = kind) -> Any:
            T.manual_seed(1)
            pairs = zip(widths, widths[1:], kind)
            return nn.Sequential(*[m for a, b, k in pairs for m in (nn.Linear(a, b), k())]).double()

        x = T.randn(3 * n, widths[0], dtype=T.float64, generator=T.Generator().manual_seed(seed))
        plain, net = make(), DDP(make(), bucket_cap_mb=cap, gradient_as_bucket_view=views)
        for _ in range(3):
            for p in (*plain.parameters(), *net.parameters()):
                p.grad = None
            (plain(x) ** 2).mean().backward()
            (net(x[3 * rank : 3 * rank + 3]) ** 2).mean().backward()
            for p, q in zip(plain.parameters(), net.module.parameters()):
                assert T.allclose(p.grad, q.grad, rtol=1e-10, atol=1e-13), seed


def uneven() -> None:
    rank, n = dist.get_rank(), dist.get_world_size()
    for by_all in (True, False):
        T.manual_seed(0)
        net = DDP(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)).double())
        rounds, seen = rank + 1, []
        with net.join(divide_by_initial_world_size=by_all):
            for _ in range(rounds):
                net.zero_grad()
                net(T.ones(2, 3, dtype=T.float64)).sum().backward()
                seen.append(net.module[2].bias.grad.item())
        # In round k the processes from k on have inputs, and each has a gradient of 2.
        expected = [2.0 * (n - k) / (n if by_all else n - k) for k in range(rounds)]
        assert all(abs(a - b) < 1e-12 for a, b in zip(seen, expected)), (seen, expected)
        sums = [p.sum().item() for p in (*net.parameters(), *net.buffers())]
        dist.all_gather_object(found := [None] * n, sums)
        assert all(f == sums for f in found)
    try:
        with net.join(throw_on_early_termination=True):
            for _ in range(rank + 1):
                net(T.ones(2, 3, dtype=T.float64)).sum().backward()
    except RuntimeError as error:
        assert "exhausted" in str(error)
    else:
        raise AssertionError("nobody was told")


def overlap() -> None:
    """Buckets are under way before the backward has come to the first layer."""
    T.manual_seed(0)
    net = DDP(nn.Sequential(*[nn.Linear(30, 30) for _ in range(6)]), bucket_cap_mb=1e-3)
    told: list[str] = []

    def hook(state: Any, bucket):  # type: ignore[no-untyped-def]
        told.append(f"bucket {bucket.index()}")
        return default_hooks.allreduce_hook(state, bucket)

    net.register_comm_hook(None, hook)
    net.module[0].weight.register_hook(lambda grad: told.append("the first layer"))
    for _ in range(2):  # as built, and as rebuilt
        told.clear()
        net(T.ones(4, 30)).sum().backward()
        assert told[:3] == ["bucket 0", "bucket 1", "bucket 2"] and told.index("the first layer") >= 5, told
    with T.autograd.profiler.profile() as prof:
        net(T.ones(4, 30)).sum().backward()
    sends = [e for e in prof.function_events if e.name == "mpi:all_reduce"]
    last = [e for e in prof.function_events if e.name == "AddmmBackward0"][-1]
    assert len(sends) == 6 and all(e.is_async and e.self_cpu_time_total == 0 for e in sends)
    assert sends[0].time_range.start < last.time_range.start < sends[0].time_range.end


def surface() -> None:
    rank = dist.get_rank()
    net = DDP(Net(norm=True))
    assert all(name.startswith("module.") for name in net.state_dict())
    net.module.norm.running_mean.fill_(float(rank))
    net(T.ones(2, 6))
    dist.all_gather_object(found := [None] * dist.get_world_size(), net.module.norm.running_mean.tolist())
    assert all(f == found[0] for f in found)
    before = net.module.norm.running_mean._version
    net.eval()
    with T.no_grad():
        net(T.ones(2, 6))
    assert net.module.norm.running_mean._version == before
    net = DDP(Net(True))
    net(T.ones(2, 6)).sum().backward()
    for call in (
        lambda: net(T.ones(2, 6)),
        lambda: DDP(nn.ReLU()),
        lambda: DDP(Net(), device_ids=[0, 1]),
        lambda: DDP(Net(), device_ids=[0]),
        lambda: DDP(nn.LazyLinear(3)),
        lambda: DDP(Net()).register_comm_hook(None, 3),
        lambda: DDP(Net(), process_group=-100),
        lambda: DDP(nn.Linear(2, 3), bucket_cap_mb=1 + rank),
        lambda: DDP(nn.Linear(2, 3 + rank)),
        lambda: DDP(nn.Sequential(*[nn.Linear(2, 2) for _ in range(1 + rank)])),
    ):
        try:
            call()  # type: ignore[no-untyped-call]
        except Exception as error:
            if rank == 0:
                print(f"{type(error).__name__}: {error}".replace("\n", "|"))
        else:
            raise AssertionError("not refused")


def main() -> None:
    warnings.simplefilter("error")
    dist.init_process_group("mpi")
    for name in sys.argv[1:] or (
        "losses",
        "large",
        "used_on_one_rank",
        "programs",
        "uneven",
        "overlap",
        "surface",
    ):
        globals()[name]()
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
