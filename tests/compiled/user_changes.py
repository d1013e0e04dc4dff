"""Programs as users of `torch.compile` write them in which something changes between calls, or Python does something of its own inside;
`users.py` runs them."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import random
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np

from tests.compiled.user_steps import Step, batch_of, mlp, program


def train(torch: Any, model: Any, optimizer: Any) -> Any:
    def train_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train_step


@program
def eval_between(torch: Any, compile: Any) -> Step:
    """Dropout and batch norm; the mode is switched at every call."""
    nn = torch.nn
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    compiled = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        model.train()
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(compiled(x), y)
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            logits = compiled(x)
        return loss, logits, *model.buffers()

    return step


@program
def plateau(torch: Any, compile: Any) -> Step:
    """A schedule that looks at the loss."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1, factor=0.5)
    train_step = compile(train(torch, model, optimizer))

    def step(k: int) -> Any:
        loss = train_step(*batch_of(torch, k % 3))
        scheduler.step(loss.item())
        return loss, optimizer.param_groups[0]["lr"], *model.parameters()

    return step


@program
def one_cycle_with_momentum(torch: Any, compile: Any) -> Step:
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.5, total_steps=30)
    train_step = compile(train(torch, model, optimizer))

    def step(k: int) -> Any:
        loss = train_step(*batch_of(torch, k))
        scheduler.step()
        return loss, optimizer.param_groups[0]["momentum"], *model.parameters()

    return step


@program
def warmup_in_the_step(torch: Any, compile: Any) -> Step:
    """The rate is set by the step itself, from a count that it is given."""
    model = mlp(torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)

    @compile
    def train_step(x: Any, y: Any, it: int) -> Any:
        lr = 0.1 * min(1.0, (it + 1) / 5) * 0.5 * (1 + math.cos(math.pi * it / 20))
        for group in optimizer.param_groups:
            group["lr"] = lr
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, lr

    return lambda k: (*train_step(*batch_of(torch, k), k), *model.parameters())


@program
def scaler(torch: Any, compile: Any) -> Step:
    """Autocast inside, and losses that are scaled."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    grad_scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        grad_scaler.scale(loss).backward()
        grad_scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        grad_scaler.step(optimizer)
        grad_scaler.update()
        return loss

    return lambda k: (train_step(*batch_of(torch, k)), grad_scaler.get_scale(), *model.parameters())


@program
def scaler_outside(torch: Any, compile: Any) -> Step:
    model = mlp(torch)
    compiled = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    grad_scaler = torch.amp.GradScaler("cpu", init_scale=2.0**120, growth_interval=2)

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = compiled(x)
            loss = torch.nn.functional.cross_entropy(logits, y)
        grad_scaler.scale(loss * 1e6).backward()
        grad_scaler.step(optimizer)
        grad_scaler.update()
        return logits, loss, grad_scaler.get_scale(), *model.parameters()

    return step


@program
def recurrent_state(torch: Any, compile: Any) -> Step:
    """A state that is carried from call to call, cut off from its history."""
    cell, head = torch.nn.GRUCell(6, 8), torch.nn.Linear(8, 3)
    optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)

    @compile
    def train_step(x: Any, y: Any, h: Any) -> Any:
        h = cell(x, h.detach())
        loss = torch.nn.functional.cross_entropy(head(h), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, h

    state = [torch.zeros(8, 8)]

    def step(k: int) -> Any:
        loss, state[0] = train_step(*batch_of(torch, k), state[0])
        return loss, state[0].detach(), *cell.parameters()

    return step


@program
def state_of_self(torch: Any, compile: Any) -> Step:
    """A module that keeps its state in an attribute."""

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.hidden = torch.nn.LSTM(6, 5, batch_first=True), None

        def forward(self, x: Any) -> Any:
            out, hidden = self.lstm(x, self.hidden)
            self.hidden = tuple(h.detach() for h in hidden)
            return out[:, -1]

    net = Net()
    compiled = compile(net)

    def step(k: int) -> Any:
        if k % 7 == 6:
            net.hidden = None
        x = batch_of(torch, k)[0].reshape(4, 2, 6)
        y = compiled(x)
        net.zero_grad()
        y.square().sum().backward()
        return y.detach(), *[p.grad for p in net.parameters()]

    return step


@program
def lbfgs(torch: Any, compile: Any) -> Step:
    """The closure is compiled."""
    model = mlp(torch)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    x, y = batch_of(torch, 0)

    @compile
    def closure() -> Any:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    return lambda k: (optimizer.step(closure), *model.parameters())


@program
def lbfgs_inside(torch: Any, compile: Any) -> Step:
    """The whole step, closure and all."""
    model = torch.nn.Linear(6, 3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=3)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        def closure() -> Any:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return optimizer.step(closure)

    return lambda k: (train_step(*batch_of(torch, k)), *model.parameters())


@program
def tied(torch: Any, compile: Any) -> Step:
    """Embedding and output share their weights; they are parted later."""

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.emb, self.out = torch.nn.Embedding(9, 6), torch.nn.Linear(6, 9, bias=False)
            self.out.weight = self.emb.weight

        def forward(self, t: Any) -> Any:
            return self.out(self.emb(t).tanh())

    net = Net()
    compiled = compile(net)

    def step(k: int) -> Any:
        if k == 12:
            net.out.weight = torch.nn.Parameter(net.emb.weight.detach().clone() * 2)
        t = (torch.arange(8) * (k + 1)) % 9
        net.zero_grad()
        loss = torch.nn.functional.cross_entropy(compiled(t), t.flip(0))
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.1 * p.grad
        return loss, *net.parameters()

    return step


@program
def hooks_on_modules(torch: Any, compile: Any) -> Step:
    """Hooks that come and go: forward, pre-forward and full backward."""
    model = mlp(torch)
    seen: list[Any] = []
    compiled = compile(model)
    handles: list[Any] = []

    def step(k: int) -> Any:
        if k == 6:
            handles.append(
                model[0].register_forward_hook(lambda m, i, o: seen.append(o.detach().mean()) or o * 2)
            )
        if k == 10:
            handles.append(model[2].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].sum())))
        if k == 14:
            handles.append(model.register_forward_pre_hook(lambda m, i: (i[0] + 1,)))
        if k == 17:
            for h in handles:
                h.remove()
        x, y = batch_of(torch, k)
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(compiled(x), y)
        loss.backward()
        return loss, len(seen), [*seen], *[p.grad for p in model.parameters()]

    return step


@program
def hooks_on_tensors(torch: Any, compile: Any) -> Step:
    """A gradient is changed on its way, in the function; later by a hook of a parameter."""
    model = mlp(torch)

    @compile
    def f(x: Any, y: Any, by: float) -> Any:
        h = model[1](model[0](x))
        h.register_hook(lambda g: g * by)
        loss = torch.nn.functional.cross_entropy(model[2](h), y)
        loss.backward()
        return loss

    def doubled(p: Any) -> None:
        p.grad.mul_(2)

    def step(k: int) -> Any:
        if k == 10:
            model[0].weight.register_hook(lambda g: g.clamp(-0.01, 0.01))
        if k == 14:
            model[2].bias.register_post_accumulate_grad_hook(doubled)
        model.zero_grad()
        loss = f(*batch_of(torch, k), 0.5 + k)
        return loss, *[p.grad for p in model.parameters()]

    return step


@program
def checkpointed(torch: Any, compile: Any) -> Step:
    from nbgrad.utils.checkpoint import checkpoint

    nn = torch.nn
    block = nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.Dropout(0.2), nn.Linear(6, 6))

    @compile
    def f(x: Any) -> Any:
        y = checkpoint(block, x, use_reentrant=False)
        return checkpoint(block, y, use_reentrant=False).square().mean()

    def step(k: int) -> Any:
        block.zero_grad()
        loss = f(batch_of(torch, k)[0])
        loss.backward()
        return loss, *[p.grad for p in block.parameters()]

    return step


@program
def surgery(torch: Any, compile: Any) -> Step:
    """Layers and parameters are replaced, frozen, grown and cut between calls."""
    nn = torch.nn
    model = mlp(torch)
    compiled = compile(model)

    def step(k: int) -> Any:
        if k == 5:
            model[2] = nn.Linear(16, 3)
        if k == 8:
            model[0].weight.requires_grad_(False)
        if k == 11:
            model[0].weight.data = torch.ones(16, 6) / 7
        if k == 13:
            model[0].weight = nn.Parameter(torch.ones(16, 6) / 5)
        if k == 15:
            model.append(nn.Tanh())
        if k == 17:
            del model[3]
            model[0].bias = None
        if k == 18:
            model[1].forward = lambda x: x.sigmoid()
        x, y = batch_of(torch, k)
        model.zero_grad()
        loss = torch.nn.functional.cross_entropy(compiled(x), y)
        loss.backward()
        return loss, *[p.grad for p in model.parameters()]

    return step


@program
def loaded_between(torch: Any, compile: Any) -> Step:
    """Weights and the optimizer's state are loaded again."""
    model = mlp(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    train_step = compile(train(torch, model, optimizer))
    kept: dict[str, Any] = {}

    def step(k: int) -> Any:
        if k == 7:
            kept["model"], kept["optimizer"] = (
                copy.deepcopy(model.state_dict()),
                copy.deepcopy(optimizer.state_dict()),
            )
        if k in (11, 16):
            model.load_state_dict(kept["model"], assign=k == 16)
            if k == 11:
                optimizer.load_state_dict(kept["optimizer"])
        return train_step(*batch_of(torch, k)), *model.parameters()

    return step


@program
def groups_added(torch: Any, compile: Any) -> Step:
    """Fine tuning: layers are thawed one after the other."""
    model = mlp(torch)
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.5)
    train_step = compile(train(torch, model, optimizer))

    def step(k: int) -> Any:
        if k == 8:
            model[0].requires_grad_(True)
            optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.01})
        if k == 14:
            optimizer.param_groups[1]["lr"] = 0.2
            optimizer.param_groups[0]["weight_decay"] = 0.1
        return train_step(*batch_of(torch, k)), *model.parameters()

    return step


@program
def globals_change(torch: Any, compile: Any) -> Step:
    """Variables of the function around are rebound: a number, a string, a function, a tensor, a list that grows."""
    scale, kind, act, w = 1.0, "a", torch.tanh, torch.ones(6)
    shifts = [0.5]

    @compile
    def f(x: Any) -> Any:
        y = act(x * scale * w)
        for s in shifts:
            y = y + s
        return y if kind == "a" else -y

    def step(k: int) -> Any:
        nonlocal scale, kind, act, w
        scale = 1.0 + k // 3
        kind = "a" if k % 8 < 6 else "b"
        act = torch.sigmoid if k > 12 else torch.tanh
        if k == 15:
            w = torch.arange(6.0)
        if k == 17:
            shifts.append(2.0)
        return f(batch_of(torch, k)[0])

    return step


@program
def generator_function(torch: Any, compile: Any) -> Step:
    """A generator inside, and one that is compiled."""

    def chunks(x: Any, n: int) -> Any:
        for k in range(0, x.shape[0], n):
            yield x[k : k + n]

    @compile
    def f(x: Any) -> Any:
        return sum(c.square().mean() * (k + 1) for k, c in enumerate(chunks(x, 3)))

    @compile
    def g(x: Any) -> Any:
        for c in chunks(x, 4):
            yield c.sum()

    return lambda k: (f(batch_of(torch, k)[0]), [*g(batch_of(torch, k)[0])])


@dataclasses.dataclass
class Output:
    logits: Any
    loss: Any = None
    count: int = 0


@program
def dataclass_output(torch: Any, compile: Any) -> Step:
    model = mlp(torch)

    @compile
    def f(x: Any, y: Any = None) -> Any:
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y) if y is not None else None
        return Output(logits, loss, count=x.shape[0])

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        out = f(x, y) if k % 4 else f(x)
        model.zero_grad()
        if out.loss is not None:
            out.loss.backward()
        return out.logits, out.loss, out.count, [p.grad for p in model.parameters()]

    return step


Pair = namedtuple("Pair", "mean rest")


@program
def structured_outputs(torch: Any, compile: Any) -> Step:
    """Tables, named tuples, None, nested, the same tensor twice, arguments as results."""

    @compile
    def f(x: Any, more: Any) -> Any:
        y = x * 2
        return {
            "y": y,
            "again": y,
            "none": None,
            "x": x,
            "pair": Pair(y.mean(), [more["a"], (y + 1,)]),
            3: "text",
        }

    def step(k: int) -> Any:
        x = batch_of(torch, k)[0]
        more = {"a": x.sum(), "b": None}
        out = f(x, more)
        assert out["y"] is out["again"] and out["x"] is x and out["pair"].rest[0] is more["a"]
        return (
            out["y"],
            out["none"],
            [*out],
            type(out["pair"]).__name__,
            out["pair"].mean,
            out["pair"].rest[1],
        )

    return step


@program
def ordered_outputs(torch: Any, compile: Any) -> Step:
    @compile
    def f(x: Any) -> Any:
        out = OrderedDict(a=x + 1)
        out["b"] = x.sum()
        return out

    return lambda k: [type(f(batch_of(torch, k)[0])).__name__, *f(batch_of(torch, k)[0]).values()]


@program
def keyword_arguments(torch: Any, compile: Any) -> Step:
    @compile
    def f(x: Any, *rest: Any, scale: float = 1.0, shift: Any = None, **more: Any) -> Any:
        y = x * scale
        for r in rest:
            y = y + r
        if shift is not None:
            y = y - shift
        return sum((v for v in more.values()), y)

    def step(k: int) -> Any:
        x = batch_of(torch, k)[0]
        forms = [
            lambda: f(x),
            lambda: f(x, x, scale=k / 2),
            lambda: f(x, scale=2.0, shift=x.mean()),
            lambda: f(x=x, other=x + 1, more=x * 3),
        ]
        return [form() for form in forms]

    return step


@program
def nothing_returned(torch: Any, compile: Any) -> Step:
    buffer = torch.zeros(8, 6)

    @compile
    def f(x: Any) -> None:
        buffer.mul_(0.9).add_(x, alpha=0.1)

    return lambda k: (f(batch_of(torch, k)[0]), buffer.clone(), buffer._version)


@program
def python_random(torch: Any, compile: Any) -> Step:
    """Python's own random numbers decide, and scale."""
    random.seed(3)

    @compile
    def f(x: Any) -> Any:
        y = x * random.random()
        if random.random() < 0.5:
            y = y + random.randint(1, 10)
        return y.tanh() * random.choice([1.0, 2.0, 3.0])

    return lambda k: (f(batch_of(torch, k)[0]), random.random())


@program
def numpy_random(torch: Any, compile: Any) -> Step:
    np.random.seed(3)
    rng = np.random.default_rng(4)

    @compile
    def f(x: Any) -> Any:
        y = x * float(np.random.rand())
        y = y + torch.from_numpy(rng.standard_normal(6).astype(np.float32))
        return y.exp() * np.random.uniform(0.5, 1.5)

    return lambda k: (f(batch_of(torch, k)[0]), np.random.rand(), rng.random())


@program
def layer_drop(torch: Any, compile: Any) -> Step:
    """Layers are left out at random while training."""
    layers = torch.nn.ModuleList([torch.nn.Linear(6, 6) for _ in range(4)])
    random.seed(5)

    @compile
    def f(x: Any) -> Any:
        for layer in layers:
            if random.random() > 0.3:
                x = x + layer(x).relu()
        return x

    return lambda k: f(batch_of(torch, k)[0])


@program
def mixup(torch: Any, compile: Any) -> Step:
    model = mlp(torch)
    rng = np.random.default_rng(0)

    @compile
    def f(x: Any, y: Any) -> Any:
        lam = float(rng.beta(0.4, 0.4))
        index = torch.randperm(x.shape[0])
        out = model(lam * x + (1 - lam) * x[index])
        loss = torch.nn.functional.cross_entropy
        return lam * loss(out, y) + (1 - lam) * loss(out, y[index])

    def step(k: int) -> Any:
        model.zero_grad()
        loss = f(*batch_of(torch, k))
        loss.backward()
        return loss, *[p.grad for p in model.parameters()]

    return step


@program
def try_inside(torch: Any, compile: Any) -> Step:
    """Values are read within `try`, with each kind of way out."""
    told: list[Any] = []

    @compile
    def f(x: Any) -> Any:
        y = x.exp()
        try:
            z = y.sum()
            if z.item() > 60:
                raise ValueError("large")
            z = z * 2
        except ValueError as error:
            told.append(str(error))
            return y.mean()
        else:
            z = z + 1
        finally:
            told.append(float(y.max()))
        return z

    return lambda k: (f(batch_of(torch, k)[0]), len(told), told[-1])


@program
def retry(torch: Any, compile: Any) -> Step:
    """Cholesky with more and more on the diagonal until it succeeds."""

    @compile
    def f(a: Any) -> Any:
        jitter = 0.0
        for _ in range(6):
            try:
                chol = torch.linalg.cholesky(a + jitter * torch.eye(4))
                break
            except torch.linalg.LinAlgError:
                jitter = max(jitter * 10, 1e-3)
        return chol.sum(), jitter

    def step(k: int) -> Any:
        x = batch_of(torch, k)[0][:, :4]
        return f(x.T @ x - (0.5 if k % 3 == 0 else 0.0) * torch.eye(4))

    return step


class Timer(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    def __init__(self) -> None:
        self.entered, self.left = 0, 0

    def __enter__(self) -> Timer:
        self.entered += 1
        return self

    def __exit__(self, *args: object) -> bool:
        self.left += 1
        return args[0] is ArithmeticError


@program
def foreign_with(torch: Any, compile: Any) -> Step:
    timer = Timer()

    @compile
    def f(x: Any) -> Any:
        y = x * 2
        with timer as t, contextlib.suppress(KeyError):
            z = y.exp()
            n = z.sum().item()
            if n > 150:
                raise ArithmeticError
            y = z / n + t.entered
        return y.sin()

    return lambda k: (f(batch_of(torch, k)[0]), timer.entered, timer.left)


@program
def comprehensions(torch: Any, compile: Any) -> Step:
    """Values are read in comprehensions, lambdas and functions within."""

    @compile
    def f(x: Any) -> Any:
        y = x.exp()
        tops = [row.max().item() for row in y]
        pick = lambda t: t if t.sum().item() > 5 else -t  # noqa: E731

        def scaled(t: Any) -> Any:
            n = t.sum().item()
            return t / n if n > 0 else t

        z = torch.stack([scaled(pick(row)) for row in y])
        best = max(y, key=lambda row: row.sum().item())
        return z, tops, best, {k: v.item() for k, v in enumerate(y.mean(1)) if v > 1}

    return lambda k: f(batch_of(torch, k)[0])


@program
def memo(torch: Any, compile: Any) -> Step:
    """`functools.lru_cache`, `partial`, `reduce` in the function."""

    @functools.lru_cache(None)
    def table(n: int) -> Any:
        return torch.arange(n).float()

    @compile
    def f(x: Any) -> Any:
        act = functools.partial(torch.nn.functional.leaky_relu, negative_slope=0.1)
        return functools.reduce(lambda a, b: a * 0.5 + b, [act(x), x, table(x.shape[1])])

    return lambda k: f(batch_of(torch, k, n=3 + k % 2)[0])


@program
def cached_on_self(torch: Any, compile: Any) -> Step:
    """A table that a module makes when it first meets a length."""

    class Rotary(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.cached: Any = None

        def forward(self, x: Any) -> Any:
            n = x.shape[0]
            if self.cached is None or self.cached.shape[0] < n:
                angle = torch.arange(n)[:, None] * torch.tensor([1.0, 0.1, 0.01])
                self.cached = torch.cat([angle.cos(), angle.sin()], -1)
            return x * self.cached[:n]

    compiled = compile(Rotary())
    return lambda k: compiled(batch_of(torch, k, n=4 + k // 4)[0])


@program
def early_stop(torch: Any, compile: Any) -> Step:
    """A class of the user's in the middle, with a property, a class method and a count."""

    class Stopper:
        total = 0

        def __init__(self) -> None:
            self.best, self.bad = math.inf, 0

        @property
        def stop(self) -> bool:
            return self.bad > 2

        @classmethod
        def counted(cls) -> int:
            cls.total += 1
            return cls.total

        def update(self, loss: float) -> None:
            self.best, self.bad = (loss, 0) if loss < self.best else (self.best, self.bad + 1)

    model = mlp(torch)
    optimizer, stopper = torch.optim.SGD(model.parameters(), lr=0.5), Stopper()

    @compile
    def train_step(x: Any, y: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        if not stopper.stop:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        stopper.update(loss.item())
        return loss.detach() * stopper.counted()

    return lambda k: (train_step(*batch_of(torch, k)), stopper.bad, Stopper.total, *model.parameters())


@program
def swa(torch: Any, compile: Any) -> Step:
    from nbgrad.optim.swa_utils import SWALR, AveragedModel

    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average, scheduler = AveragedModel(model), SWALR(optimizer, swa_lr=0.05)
    train_step, look = compile(train(torch, model, optimizer)), compile(average)

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        loss = train_step(x, y)
        if k > 5:
            average.update_parameters(model)
            scheduler.step()
        return loss, look(x), average.n_averaged

    return step


@program
def accumulation_inside(torch: Any, compile: Any) -> Step:
    """A count in the function decides when to step."""
    model = mlp(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    state = {"it": 0}

    @compile
    def micro(x: Any, y: Any) -> Any:
        (torch.nn.functional.cross_entropy(model(x), y) / 3).backward()
        state["it"] += 1
        if state["it"] % 3 == 0:
            norm = torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
            optimizer.step()
            optimizer.zero_grad()
            return norm
        return None

    return lambda k: (micro(*batch_of(torch, k)), [p.grad for p in model.parameters()], *model.parameters())


@program
def inner_loop(torch: Any, compile: Any) -> Step:
    """MAML: gradients of a step of gradients."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    @compile
    def meta_step(x: Any, y: Any, inner: float) -> Any:
        params = dict(model.named_parameters())
        loss = torch.nn.functional.cross_entropy(torch.func.functional_call(model, params, (x,)), y)
        grads = torch.autograd.grad(loss, tuple(params.values()), create_graph=True)
        fast = {n: p - inner * g for (n, p), g in zip(params.items(), grads)}
        outer = torch.nn.functional.cross_entropy(torch.func.functional_call(model, fast, (x,)), y)
        optimizer.zero_grad()
        outer.backward()
        optimizer.step()
        return outer

    return lambda k: (meta_step(*batch_of(torch, k), 0.1 / (1 + k)), *model.parameters())


@program
def frozen_teacher(torch: Any, compile: Any) -> Step:
    teacher, student = mlp(torch).eval(), mlp(torch)
    optimizer = torch.optim.RMSprop(student.parameters(), lr=0.01)
    temperature = [4.0]

    @compile
    def distil(x: Any) -> Any:
        with torch.no_grad():
            soft = (teacher(x) / temperature[0]).softmax(-1)
        loss = -(soft * (student(x) / temperature[0]).log_softmax(-1)).sum(-1).mean() * temperature[0] ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def step(k: int) -> Any:
        temperature[0] = 4.0 - k / 10
        return distil(batch_of(torch, k)[0]), *student.parameters()

    return step


@program
def sparse_schedule(torch: Any, compile: Any) -> Step:
    """Attributes that are numbers, of a nested object: a schedule of a KL weight and of a dropout's rate."""

    class Net(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.body, self.drop, self.beta = torch.nn.Linear(6, 6), torch.nn.Dropout(0.1), 0.0

        def forward(self, x: Any) -> Any:
            h = self.drop(self.body(x))
            return h.square().mean() + self.beta * h.abs().mean()

    net = Net()
    compiled = compile(net)

    def step(k: int) -> Any:
        net.beta = k / 20
        net.drop.p = 0.1 + k // 5 / 10
        net.zero_grad()
        loss = compiled(batch_of(torch, k)[0])
        loss.backward()
        return loss, *[p.grad for p in net.parameters()]

    return step


@program
def dtype_moves(torch: Any, compile: Any) -> Step:
    """The module becomes float64 and goes back; the default dtype changes."""
    model = mlp(torch)
    compiled = compile(model)

    def step(k: int) -> Any:
        if k == 7:
            model.double()
        if k == 14:
            model.float()
        x = batch_of(torch, k)[0]
        return compiled(x.double() if 7 <= k < 14 else x)

    return step


@program
def inplace_arguments(torch: Any, compile: Any) -> Step:
    """Arguments are written to, and overlap sometimes."""

    @compile
    def f(a: Any, b: Any) -> Any:
        a.add_(b)
        b.mul_(2)
        return (a * b).sum()

    def step(k: int) -> Any:
        t = torch.arange(12.0) + k
        a, b = (t[:6], t[6:]) if k % 4 else (t[:6], t[:6])
        return f(a, b), t, t._version

    return step


@program
def fresh_objects(torch: Any, compile: Any) -> Step:
    """An object of options that is new at each call."""

    @dataclasses.dataclass
    class Batch:
        x: Any
        y: Any
        weight: float

    model = mlp(torch)

    @compile
    def f(batch: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(batch.x), batch.y) * batch.weight

    return lambda k: f(Batch(*batch_of(torch, k), weight=k / 3))


@program
def size_of_lists(torch: Any, compile: Any) -> Step:
    """A list of tensors that is longer at each call, and a table whose keys change."""

    @compile
    def f(parts: Any, named: Any) -> Any:
        return torch.stack([p * 2 for p in parts]).sum(0) + sum(named.values())

    def step(k: int) -> Any:
        x = batch_of(torch, k)[0]
        return f([x] * (1 + k % 5), {f"k{j}": x + j for j in range(k % 3)})

    return step


@program
def grads_kept(torch: Any, compile: Any) -> Step:
    """`.grad` is swapped, scaled in place, set to None, or another's, between calls."""
    model = mlp(torch)

    @compile
    def backward(x: Any, y: Any) -> Any:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        return loss

    def step(k: int) -> Any:
        loss = backward(*batch_of(torch, k))
        p = model[0].weight
        if k % 5 == 1:
            p.grad = None
        if k % 5 == 2:
            p.grad = torch.ones_like(p)
        if k % 5 == 3:
            p.grad.mul_(0.5)
        if k % 5 == 4:
            p.grad = p.grad.t().contiguous().t()
        return loss, [q.grad for q in model.parameters()]

    return step


@program
def inference(torch: Any, compile: Any) -> Step:
    """The same function in grad mode, `no_grad` and `inference_mode`, on leaves and results."""
    model = mlp(torch)
    compiled = compile(model)

    def step(k: int) -> Any:
        x = batch_of(torch, k)[0]
        if k % 3 == 1:
            with torch.no_grad():
                return compiled(x)
        if k % 3 == 2:
            with torch.inference_mode():
                y = compiled(x)
            return y.is_inference(), y.clone()
        x.requires_grad_()
        y = compiled(x * 1)
        (g,) = torch.autograd.grad(y.sum(), [x])
        return y, g

    return step


@program
def asserts_and_logs(torch: Any, compile: Any) -> Step:
    import logging

    log = logging.getLogger("a user's")
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: Any) -> None:
            lines.append(record.getMessage())

    log.handlers[:], log.propagate = [Keep()], False
    log.setLevel(logging.INFO)

    @compile
    def f(x: Any) -> Any:
        assert x.ndim == 2, "two"
        y = x.square().mean(0)
        log.info("mean %s", y.shape)
        log.debug("never")
        assert torch.isfinite(y).all()
        return y.sqrt()

    return lambda k: (f(batch_of(torch, k)[0]), len(lines), lines[-1])


@program
def errors_between(torch: Any, compile: Any) -> Step:
    """Calls that fail: a wrong shape, a class that is none."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    train_step = compile(train(torch, model, optimizer))

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        if k % 6 == 4:
            x = x[:, :5]
        if k % 6 == 5:
            y = y + 7
        try:
            return train_step(x, y), *model.parameters()
        except (RuntimeError, IndexError) as error:
            return str(error), *model.parameters(), [p.grad for p in model.parameters()]

    return step


@program
def saved_and_pickled(torch: Any, compile: Any) -> Step:
    """The compiled module is saved and loaded, and deep-copied."""
    import io

    model = mlp(torch)
    compiled = compile(model)

    def step(k: int) -> Any:
        nonlocal compiled
        if k in (6, 12):
            buffer = io.BytesIO()
            torch.save(compiled.state_dict(), buffer)
            buffer.seek(0)
            names = torch.load(buffer)
            compiled.load_state_dict({n: v * 2 for n, v in names.items()})
        if k == 15:
            compiled = copy.deepcopy(compiled)
        return compiled(batch_of(torch, k)[0])

    return step


@program
def custom_function(torch: Any, compile: Any) -> Step:
    class Round(torch.autograd.Function):  # type: ignore[misc,name-defined]
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            ctx.scale = scale
            ctx.save_for_backward(x)
            return (x * scale).round() / scale

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * (x.abs() < ctx.scale), None

    model = mlp(torch)

    @compile
    def f(x: Any, bits: float) -> Any:
        return Round.apply(model(x), bits).square().sum()

    def step(k: int) -> Any:
        model.zero_grad()
        loss = f(batch_of(torch, k)[0], 4.0 + k // 4)
        loss.backward()
        return loss, *[p.grad for p in model.parameters()]

    return step


@program
def recursion(torch: Any, compile: Any) -> Step:
    @compile
    def f(x: Any, depth: int) -> Any:
        if depth == 0:
            return x.tanh()
        return f(x * 1.1, depth - 1) + f(x - 0.1, depth - 1)

    return lambda k: f(batch_of(torch, k)[0], k % 4)


@program
def nested_compiles(torch: Any, compile: Any) -> Step:
    """A compiled module within a compiled step, and a compiled loss."""
    model = mlp(torch)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    inner, loss_of = compile(model), compile(torch.nn.CrossEntropyLoss(label_smoothing=0.1))

    @compile
    def train_step(x: Any, y: Any) -> Any:
        loss = loss_of(inner(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda k: (train_step(*batch_of(torch, k)), inner(batch_of(torch, k)[0]))


@program
def set_default(torch: Any, compile: Any) -> Step:
    """Defaults that change between calls: dtype, determinism, threads."""

    @compile
    def f(x: Any) -> Any:
        return x.float() + torch.ones(6) * torch.arange(6) / 2

    def step(k: int) -> Any:
        torch.set_default_dtype(torch.float64 if k % 6 > 3 else torch.float32)
        try:
            return f(batch_of(torch, k)[0])
        finally:
            torch.set_default_dtype(torch.float32)

    return step


@program
def patched(torch: Any, compile: Any) -> Step:
    """Functions are replaced by others while it is used."""

    class Ops:
        @staticmethod
        def act(x: Any) -> Any:
            return x.relu()

        def norm(self, x: Any) -> Any:
            return x / x.abs().max()

    ops = Ops()

    @compile
    def f(x: Any) -> Any:
        return ops.norm(ops.act(x) + 1)

    def step(k: int) -> Any:
        if k == 7:
            Ops.act = staticmethod(lambda x: x.sigmoid())  # type: ignore[method-assign,assignment]
        if k == 14:
            ops.norm = lambda x: x - x.mean()  # type: ignore[method-assign]
        return f(batch_of(torch, k)[0])

    return step
