"""Programs as users of `torch.compile` write them in which something changes between calls."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

from tests.compiled.user_steps import Step, batch_of, mlp, program, train


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
