"""Programs as users of `torch.compile` write them to train: schedules, scalers, states that are carried, steps within steps."""

from __future__ import annotations

import math
from typing import Any

from tests.compiled.user_steps import Step, batch_of, mlp, program, train


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
