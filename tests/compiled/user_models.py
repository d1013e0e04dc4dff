"""More programs of users: several models, effects, numbers, transforms, hooks, models that break inside."""

from __future__ import annotations

import math
from typing import Any

from tests.compiled.user_steps import STEPS, Step, batch_of, mlp, program


@program
def generation(torch: Any, compile: Any) -> Step:
    """A growing sequence, and sampling with a temperature; the position is a Python number."""
    nn = torch.nn
    model = nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11))
    tokens = [torch.tensor([[3]])]

    @compile
    def next_token(idx: Any, pos: int, temperature: float) -> Any:
        logits = model(idx[:, -4:])[:, -1, :] / temperature
        logits = logits + 0.01 * pos
        values, _ = torch.topk(logits, 5)
        logits[logits < values[:, [-1]]] = -float("inf")
        probs = logits.softmax(-1)
        return torch.multinomial(probs, num_samples=1)

    @torch.no_grad()
    def step(k: int) -> Any:
        new = next_token(tokens[0], k, 0.7 + 0.01 * k)
        tokens[0] = torch.cat([tokens[0], new], 1)
        return tokens[0]

    return step


@program
def gan(torch: Any, compile: Any) -> Step:
    """Two models with an optimizer each."""
    G, D = mlp(torch, 4, 2), mlp(torch, 2, 1)
    opt_g, opt_d = torch.optim.Adam(G.parameters(), lr=1e-2), torch.optim.Adam(D.parameters(), lr=1e-2)
    bce = torch.nn.BCEWithLogitsLoss()

    @compile
    def train_step(real: Any) -> Any:
        fake = G(torch.randn(len(real), 4))
        ones, zeros = torch.ones(len(real), 1), torch.zeros(len(real), 1)
        loss_d = bce(D(real), ones) + bce(D(fake.detach()), zeros)
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_g = bce(D(fake), ones)
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        return {"d": loss_d.item(), "g": loss_g.item()}

    return lambda k: (train_step(batch_of(torch, k, inputs=2)[0]), *G.parameters(), *D.parameters())


@program
def counters(torch: Any, compile: Any) -> Step:
    """A module that counts its calls and keeps what it saw last, and a list of buffers."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(3)])
            for i in range(3):
                self.register_buffer(f"mean_{i}", torch.zeros(6))
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            for i, layer in enumerate(self.layers):
                x = layer(x).tanh()
                buffer = getattr(self, f"mean_{i}")
                if self.training:
                    buffer.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
                x = x - buffer
            self.last_norm = x.detach().norm()
            return x

    model = Net()
    net = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(k: int) -> Any:
        x, _ = batch_of(torch, k)
        loss = net(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, model.calls, model.last_norm, *model.state_dict().values()

    return step


@program
def functional(torch: Any, compile: Any) -> Step:
    """Training without modules: `func.grad` of a function of a table of weights."""
    state = {
        "params": {
            "w1": torch.randn(6, 16) * 0.3,
            "b1": torch.zeros(16),
            "w2": torch.randn(16, 3) * 0.3,
            "b2": torch.zeros(3),
        }
    }

    def loss_fn(params: Any, x: Any, y: Any) -> Any:
        h = torch.tanh(x @ params["w1"] + params["b1"])
        return torch.nn.functional.cross_entropy(h @ params["w2"] + params["b2"], y)

    @compile
    def update(params: Any, x: Any, y: Any, lr: float) -> Any:
        grads, loss = torch.func.grad_and_value(loss_fn)(params, x, y)
        return {k: v - lr * grads[k] for k, v in params.items()}, loss

    def step(k: int) -> Any:
        lr = 0.1 * (1 + math.cos(math.pi * k / STEPS)) / 2
        state["params"], loss = update(state["params"], *batch_of(torch, k), lr)
        return loss, *state["params"].values()

    return step


@program
def per_sample(torch: Any, compile: Any) -> Step:
    """Gradients of each sample, by `vmap` of `grad`."""
    w = torch.randn(6, 3)

    def loss_fn(w: Any, x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy((x @ w)[None], y[None])

    @compile
    def norms(w: Any, x: Any, y: Any) -> Any:
        grads = torch.vmap(torch.func.grad(loss_fn), (None, 0, 0))(w, x, y)
        return grads.flatten(1).norm(dim=1), grads.mean(0)

    def step(k: int) -> Any:
        norm, grad = norms(w, *batch_of(torch, k))
        w.sub_(grad, alpha=0.1)
        return norm, w

    return step


@program
def penalty(torch: Any, compile: Any) -> Step:
    """A gradient penalty: a gradient of a gradient."""
    critic = mlp(torch, 6, 1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-2)

    @compile
    def train_step(real: Any, fake: Any) -> Any:
        mix = torch.rand(len(real), 1)
        x = (mix * real + (1 - mix) * fake).requires_grad_(True)
        out = critic(x)
        (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        loss = critic(fake).mean() - critic(real).mean() + 10 * ((grad.norm(dim=1) - 1) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda k: (
        train_step(batch_of(torch, k)[0], batch_of(torch, 100 + k)[0]),
        *critic.parameters(),
    )


@program
def mixed_precision(torch: Any, compile: Any) -> Step:
    """Autocast to bfloat16 around forward and loss."""
    model = mlp(torch)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @compile
    def train_step(x: Any, y: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda k: (train_step(*batch_of(torch, k)), *model.parameters())


@program
def forward_hooks(torch: Any, compile: Any) -> Step:
    """Features are kept by a hook, and a hook scales a gradient."""
    model = mlp(torch)
    features: dict[str, Any] = {}
    model[0].register_forward_hook(lambda m, args, out: features.__setitem__("first", out.detach()))
    model[2].weight.register_hook(lambda g: g * 0.5)
    net = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, features["first"], *model.parameters()

    return step


@program
def class_trainer(torch: Any, compile: Any) -> Step:
    """A trainer object whose method is compiled; it keeps a history."""

    class Trainer:
        def __init__(self) -> None:
            self.model = mlp(torch)
            self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)
            self.history: list[float] = []
            self.step_count = 0
            self.train_step = compile(self.train_step)

        def train_step(self, x: Any, y: Any) -> Any:
            self.optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.step_count += 1
            self.history.append(float(loss))
            return loss

    trainer = Trainer()
    return lambda k: (
        trainer.train_step(*batch_of(torch, k)),
        trainer.step_count,
        trainer.history,
        *trainer.model.parameters(),
    )


@program
def warmup_number(torch: Any, compile: Any) -> Step:
    """A hand-written optimizer whose rate is worked out from a step count."""
    params = [(torch.randn(6, 3) * 0.3).requires_grad_(), torch.zeros(3).requires_grad_()]

    @compile
    def train_step(x: Any, y: Any, t: int) -> Any:
        lr = 0.1 * min(1.0, (t + 1) / 10)
        loss = torch.nn.functional.cross_entropy(x @ params[0] + params[1], y)
        grads = torch.autograd.grad(loss, params)
        with torch.no_grad():
            for p, g in zip(params, grads):
                p -= lr * g
        return loss

    return lambda k: (train_step(*batch_of(torch, k), k), *params)


@program
def linalg(torch: Any, compile: Any) -> Step:
    """Least squares, an eigendecomposition and an inverse."""

    @compile
    def fit(x: Any, y: Any) -> Any:
        gram = x.T @ x + 0.1 * torch.eye(x.shape[1])
        w = torch.linalg.solve(gram, x.T @ y)
        values, vectors = torch.linalg.eigh(gram)
        whitened = x @ vectors / values.sqrt()
        return w, whitened, torch.linalg.inv(gram), torch.linalg.cholesky(gram).diagonal().log().sum()

    def step(k: int) -> Any:
        x, y = batch_of(torch, k, 12)
        return fit(x, y.float())

    return step


@program
def views_returned(torch: Any, compile: Any) -> Step:
    """A function that gives back views of what it is given, and of what it made."""

    @compile
    def windows(x: Any) -> Any:
        first, rest = x[:, :2], x[:, 2:]
        y = rest * 2
        return first, y.t(), y[0], x.view(-1)

    return lambda k: windows(batch_of(torch, k)[0])


@program
def vae(torch: Any, compile: Any) -> Step:
    """An encoder, a sample and a decoder in modules that call one another; the loss is returned in parts."""
    nn = torch.nn

    class VAE(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.mu, self.logvar = nn.Linear(6, 16), nn.Linear(16, 2), nn.Linear(16, 2)
            self.decoder = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 6))

        def reparameterize(self, mu: Any, logvar: Any) -> Any:
            return mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)

        def forward(self, x: Any) -> Any:
            h = self.encoder(x).relu()
            mu, logvar = self.mu(h), self.logvar(h)
            return self.decoder(self.reparameterize(mu, logvar)), mu, logvar

    model = VAE()
    net = compile(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step(k: int) -> Any:
        x, _ = batch_of(torch, k)
        optimizer.zero_grad()
        recon, mu, logvar = net(x)
        mse = nn.functional.mse_loss(recon, x, reduction="sum")
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        (mse + kld).backward()
        optimizer.step()
        return mse, kld, *model.parameters()

    return step


@program
def inner_break(torch: Any, compile: Any) -> Step:
    """A block deep inside of a model looks at values."""
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(6, 6)

        def forward(self, x: Any) -> Any:
            h = self.linear(x)
            if h.abs().max() > 1.5:
                h = h / h.abs().max()
            return x + h.relu()

    model = nn.Sequential(nn.Linear(6, 6), Block(), Block(), nn.Linear(6, 3))
    net = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(k: int) -> Any:
        x, y = batch_of(torch, k)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss, *model.parameters()

    return step
