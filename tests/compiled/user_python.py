"""Programs as users of `torch.compile` write them in which Python does something of its own inside."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import random
from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np

from tests.compiled.user_steps import Step, batch_of, mlp, program


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
