"""Typical uses, more than two hundred statements, which `mypy --strict` passes and which run."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np

import nbgrad as torch
import nbgrad.nn.functional as F
from nbgrad import Tensor, nn, optim
from nbgrad.autograd import Function
from nbgrad.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, StepLR
from nbgrad.utils.data import DataLoader, Dataset, TensorDataset


def creation() -> None:
    x = torch.zeros(2, 3)
    x = torch.ones((2, 3), dtype=torch.float64)
    x = torch.full((2,), 0.5)
    x = torch.empty(3, requires_grad=True)
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    x = torch.arange(10)
    x = torch.arange(0, 1, 0.1, dtype=torch.float32)
    x = torch.linspace(0, 1, steps=5)
    x = torch.eye(3)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(1))
    x = torch.rand([2, 2], device="cpu")
    x = torch.randint(0, 10, (4,))
    x = torch.randint(5, (2, 2), dtype=torch.long)
    x = torch.randperm(6)
    x = torch.zeros_like(x, dtype=torch.float)
    x = torch.randn_like(x)
    x = torch.from_numpy(np.ones(3))
    x = torch.as_tensor([1, 2, 3], device=torch.device("cpu"))
    x = x.new_zeros(2, 2)
    x = torch.normal(0.0, 1.0, (3,))
    x = torch.bernoulli(torch.full((3,), 0.5))
    x = torch.multinomial(torch.ones(4), 2)
    x = torch.cat([x, x], dim=0)
    x = torch.stack((x, x))
    assert_type(x, Tensor)
    torch.manual_seed(0)


def properties() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    assert_type(x.shape, torch.Size)
    rows, columns = x.shape
    assert_type(rows * columns, int)
    assert_type(x.size(0), int)
    assert_type(x.size(), torch.Size)
    assert_type(x.dtype, torch.dtype)
    assert_type(x.device, torch.device)
    assert_type(x.dim(), int)
    assert_type(x.numel(), int)
    assert_type(x.requires_grad, bool)
    assert_type(x.grad, Tensor | None)
    assert_type(x.is_leaf, bool)
    assert_type(x.T, Tensor)
    assert_type(x.detach().numpy(), np.ndarray[Any, Any])
    assert_type(len(x), int)
    number = x.sum().item()
    assert_type(float(x.detach().sum()), float)
    print(f"{number:.3f} {x.tolist()}")


def arithmetic() -> None:
    x, y = torch.rand(3, 3), torch.rand(3, 3)
    z = x + y
    z = 2 * x - y / 3
    z = 1.5 - x**2
    z = 2**x
    z = x @ y
    z = -x
    z = abs(x)
    z += 1
    z *= y
    z = (x > 0.5) & ~(y < 0.2)
    z = x == y
    z = (x // 0.3) % 2
    z = torch.exp(x).log().sqrt()
    z = torch.sin(x) * x.cos() + x.tanh()
    z = torch.where(x > 0, x, 0.0)
    z = torch.where(x > y, x, y)
    z = x.clamp(min=0)
    z = torch.clamp(x, 0, 1)
    z = torch.maximum(x, y).minimum(y)
    z = x.pow(2).add(y, alpha=0.5).mul(3).div(y, rounding_mode="floor")
    z = torch.addmm(x, x, y, beta=0.5)
    z = x.masked_fill(x > 0.5, float("-inf"))
    z = torch.lerp(x, y, 0.3)
    x.add_(y).mul_(2).zero_()
    x.fill_(1.0).uniform_(-1, 1).normal_()
    assert_type(x.add_(1), Tensor)
    assert_type(z, Tensor)
    assert_type(torch.equal(x, y), bool)
    assert_type(torch.allclose(x, y, atol=1e-6), bool)


def reductions() -> None:
    x = torch.randn(4, 5)
    z = x.sum()
    z = x.sum(dim=1, keepdim=True)
    z = x.mean((0, 1))
    z = torch.mean(x, -1)
    z = x.std()
    z = x.var(dim=0, unbiased=False)
    z = x.prod(0)
    z = x.norm()
    z = x.norm(p=1, dim=-1)
    z = x.max()
    z = torch.max(x, x)
    values, indices = x.max(dim=1)
    z = x.max(1).values
    z = torch.min(x, 0).indices
    z = x.argmax(dim=-1)
    z = (x > 0).any()
    z = (x > 0).all(1)
    z = x.logsumexp(-1)
    z = x.cumsum(0)
    values, indices = torch.sort(x, descending=True)
    values, indices = x.topk(2)
    values, indices = x.median(dim=0)
    z = x.median()
    z = torch.quantile(x, 0.5)
    values, counts = torch.unique(x, return_counts=True)
    values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
    z = x.unique()
    variance, mean = torch.var_mean(x, dim=0)
    z = torch.bincount(torch.tensor([0, 1, 1]))
    assert_type(z, Tensor)
    assert_type(values, Tensor)
    assert_type(inverse, Tensor)
    assert_type(indices + counts.sum() + variance.sum() + mean.sum(), Tensor)


def shapes() -> None:
    x = torch.arange(24.0).reshape(2, 3, 4)
    z = x.view(6, 4)
    z = x.view(-1)
    z = x.reshape((4, 6))
    z = x.reshape(x.shape[0], -1)
    z = x.permute(2, 0, 1)
    z = x.transpose(0, 1).contiguous()
    z = x.unsqueeze(0).squeeze(0).squeeze()
    z = x.flatten(1)
    z = torch.flatten(x, start_dim=1)
    z = x[0].expand(5, 3, 4)
    z = x.repeat(1, 2, 1)
    first, second = x.split(1)
    for part in torch.chunk(x, 2, dim=-1):
        z = part.flip(0)
    for part in x.unbind(0):
        z = part.t()
    z = x.to(torch.float64).float().long()
    z = x.to("cpu", non_blocking=True).cpu().double()
    z = x.clone().detach()
    z = torch.broadcast_to(first, (2, 3, 4))
    rows, columns = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
    z = torch.einsum("ijk,ijk->i", x, x)
    z = torch.tril(torch.ones(3, 3)).bool()
    z = x.roll(1, dims=0)
    z = torch.movedim(x, 0, -1)
    z = (
        torch.nn.utils.rnn.pad_sequence([x[0], x[1]], batch_first=True)
        + second.sum()
        + rows.sum()
        + columns.sum()
        + z.sum()
    )


def indexing() -> None:
    x = torch.arange(24.0).reshape(4, 6)
    z = x[0]
    z = x[0, 1]
    z = x[-1, ...]
    z = x[:, None, 1:3]
    z = x[::2]
    z = x[x > 3]
    z = x[torch.tensor([0, 2])]
    z = x[[0, 2], [1, 3]]
    z = x[torch.arange(4), torch.zeros(4, dtype=torch.long)]
    x[0] = 1.0
    x[:, 1] = torch.zeros(4)
    x[x < 0] += 2
    z = x.gather(1, torch.zeros(4, 1, dtype=torch.int64))
    z = x.index_select(0, torch.tensor([1]))
    z = torch.zeros(4, 6).scatter_(1, torch.zeros(4, 1, dtype=torch.int64), 1.0)
    z = x.masked_select(x > 1)
    places = x.nonzero()
    (rows, columns) = x.nonzero(as_tuple=True)
    (flat,) = torch.where(x.flatten() > 0)
    for row in x:
        z = row + places.sum() + rows.sum() + columns.sum() + flat.sum() + z.sum()
    assert_type(z, Tensor)


class Net(nn.Module):
    def __init__(self, inputs: int, hidden: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(inputs, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(p=0.1)
        self.last = nn.Linear(hidden, classes, bias=False)
        self.scale = nn.Parameter(torch.ones(1))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: Tensor, scaled: bool = True) -> Tensor:
        x = F.relu(self.first(x))
        x = self.drop(self.norm(x))
        return self.last(x) * self.scale if scaled else self.last(x)


def networks() -> None:
    net = Net(4, 8, 3).train()
    out = net(torch.randn(5, 4), scaled=False)
    assert_type(out, Tensor)
    for parameter in net.parameters():
        parameter.requires_grad_(True)
    for name, parameter in net.named_parameters():
        print(name, parameter.shape)
    net.load_state_dict(net.state_dict())
    net.to(torch.float32).eval()
    total = sum(p.numel() for p in net.parameters() if p.requires_grad)
    layers = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.BatchNorm1d(8), nn.Linear(8, 2))
    out = layers(torch.randn(5, 4))
    blocks = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    for block in blocks:
        out = block(out)
    table = nn.Embedding(10, 4)
    assert_type(table(torch.tensor([1, 2])), Tensor)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(1, 3, 8)
    out, _ = attention(x, x, x)
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    assert_type(layer(x), Tensor)
    nn.init.xavier_uniform_(net.first.weight)
    nn.init.zeros_(net.first.bias)
    handle = net.register_forward_hook(lambda module, args, result: None)
    handle.remove()
    net.zero_grad(set_to_none=True)
    net.apply(lambda module: None)
    assert_type(nn.Parameter(torch.ones(total)).data, Tensor)
    assert_type(nn.CrossEntropyLoss(label_smoothing=0.1)(torch.randn(3, 5), torch.tensor([1, 0, 4])), Tensor)
    assert_type(nn.MSELoss(reduction="sum")(x, x), Tensor)


def functions() -> None:
    x, target = torch.randn(3, 5), torch.tensor([1, 0, 4])
    z = F.cross_entropy(x, target)
    z = F.nll_loss(F.log_softmax(x, dim=-1), target, reduction="sum")
    z = F.mse_loss(x, torch.zeros_like(x))
    z = F.binary_cross_entropy_with_logits(x, torch.ones(3, 5))
    z = F.softmax(x, dim=1)
    z = F.gelu(x, approximate="tanh")
    z = F.leaky_relu(x, 0.1)
    z = F.linear(x, torch.randn(2, 5), torch.zeros(2))
    z = F.dropout(x, p=0.5, training=True)
    z = F.layer_norm(x, (5,))
    z = F.normalize(x, dim=-1)
    z = F.one_hot(target, num_classes=5).float()
    z = F.pad(x, (1, 1), mode="constant", value=0.0)
    z = F.embedding(target, torch.randn(5, 2))
    z = F.smooth_l1_loss(x, torch.zeros(3, 5), beta=0.5)
    z = F.cosine_similarity(x, x, dim=-1)
    z = F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True)
    z = torch.sigmoid(x) + x.softmax(-1) + torch.relu(x)
    assert_type(z, Tensor)


def algebra() -> None:
    a = torch.eye(3) * 2
    z = torch.linalg.inv(a)
    z = torch.linalg.solve(a, torch.ones(3))
    z = torch.linalg.norm(a, ord="fro")
    z = torch.linalg.vector_norm(a, dim=-1)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    values, vectors = torch.linalg.eigh(a)
    q, r = torch.linalg.qr(a)
    z = torch.linalg.cholesky(a)
    z = torch.linalg.slogdet(a).logabsdet
    z = torch.det(a) + torch.trace(a) + torch.outer(s, s).sum() + z
    z = torch.matmul(a, a).mm(a) + u + vh + vectors + q + r + values
    z = torch.bmm(a[None], a[None])
    z = torch.special.expit(a) + torch.special.gammaln(a)
    assert_type(z, Tensor)


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        x: Tensor = ctx.saved_tensors[0]
        return 3 * grad * x**2


def gradients() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = Cube.apply(x).sum()
    y.backward(retain_graph=True)
    if x.grad is not None:
        print(x.grad.abs().max())
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    with torch.no_grad():
        x -= 0.1 * gradient
    with torch.inference_mode():
        y = x * 2
    with torch.enable_grad(), torch.set_grad_enabled(True):
        y = (x * 2).sum()
    handle = x.register_hook(lambda g: g * 2)
    handle.remove()
    x.grad = None

    @torch.no_grad()
    def evaluate(value: Tensor) -> float:
        return value.sum().item()

    assert_type(evaluate(x), float)
    slope = torch.func.grad(lambda t: t.sin().sum())(x)
    rows = torch.vmap(lambda t: t * 2)(torch.randn(3, 2))
    jacobian = torch.autograd.functional.jacobian(lambda t: t**2, x)
    print(slope, rows, jacobian)
    assert torch.autograd.gradcheck(lambda t: t * t, torch.ones(2, dtype=torch.double, requires_grad=True))


class Squares(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        x = torch.full((4,), float(index))
        return x, torch.tensor(index % 3)


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    loader = DataLoader(Squares(), batch_size=4, shuffle=True)
    yield from loader


def training() -> None:
    net = Net(4, 8, 3)
    optimizer: optim.Optimizer = optim.Adam(net.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=1e-4)
    optimizer = optim.SGD([{"params": net.parameters(), "lr": 0.1}], lr=0.01, momentum=0.9, nesterov=True)
    schedule = CosineAnnealingLR(optimizer, T_max=10)
    losses: list[float] = []
    for x, target in batches():
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
        optimizer.step()
        losses.append(loss.item())
    schedule.step()
    correct = 0
    net.eval()
    with torch.no_grad():
        for x, target in batches():
            correct += int((net(x).argmax(dim=1) == target).sum().item())
    print(sum(losses) / len(losses), correct, optimizer.param_groups[0]["lr"], schedule.get_last_lr())
    print(StepLR(optimizer, step_size=2, gamma=0.5), LambdaLR(optimizer, lambda epoch: 0.95**epoch))
    for (x,) in DataLoader(TensorDataset(torch.randn(4, 4)), batch_size=2):
        print(net(x).shape)


def transforms() -> None:
    x = torch.randn(3)
    value, pullback = torch.func.vjp(torch.sin, x)
    assert_type(value, Tensor)
    value, tangent = torch.func.jvp(torch.sin, (x,), (torch.ones(3),))
    assert_type(tangent, Tensor)
    assert_type(torch.vmap(torch.dot)(torch.randn(2, 3), torch.randn(2, 3)), Tensor)
    net = nn.Linear(3, 1)
    out = torch.func.functional_call(net, dict(net.named_parameters()), (x,))
    jacobian = torch.func.jacrev(torch.exp)(x)
    product = torch.autograd.functional.vjp(torch.exp, x, torch.ones(3))
    print(pullback(value), out, jacobian, product)


def saving() -> None:
    net, buffer = nn.Linear(3, 1), io.BytesIO()
    torch.save({"model": net.state_dict(), "epoch": 3}, buffer)
    buffer.seek(0)
    net.load_state_dict(torch.load(buffer)["model"])
    for name, value in net.state_dict().items():
        print(name, value.shape)
    optimizer = optim.LBFGS(net.parameters(), lr=0.1, max_iter=2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(2, 3)).square().mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    optimizer.load_state_dict(optimizer.state_dict())
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    net = net.to(device=device, dtype=torch.float64).to("cpu").float()
    assert_type(net, nn.Linear)
    assert_type(net.weight, nn.Parameter)
    assert_type(nn.functional.linear(torch.ones(2, 3, device=device), net.weight, net.bias), Tensor)

    @torch.no_grad
    def frozen(x: Tensor) -> Tensor:
        return net(x)

    assert_type(frozen(torch.ones(3)), Tensor)


USES = [
    creation,
    properties,
    arithmetic,
    reductions,
    shapes,
    indexing,
    networks,
    functions,
    algebra,
    gradients,
    training,
    transforms,
    saving,
]
