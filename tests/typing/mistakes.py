"""Mistakes, each of which `mypy --strict` finds: the lines that say so, and no others."""

# ruff: noqa: B018

from __future__ import annotations

import numpy as np

import nbgrad as torch
import nbgrad.nn.functional as F
from nbgrad import Tensor, nn, optim
from nbgrad.utils.data import DataLoader, Dataset

x = torch.randn(3, 4)


def names() -> None:
    torch.expp(x)  # mistake: no such function
    x.summ()  # mistake: no such method
    F.rleu(x)  # mistake: no such function of networks
    nn.Lineer(3, 4)  # mistake: no such module
    optim.Adamm([x])  # mistake: no such optimiser
    torch.linalg.invert(x)  # mistake: no such function of matrices
    print(torch.float33)  # mistake: no such dtype
    x.grads = None  # mistake: no such attribute


def arguments() -> None:
    torch.exp(x, foo=1)  # mistake: no such argument
    x.sum(foo=1)  # mistake: no such argument
    torch.randn(3, 4, dtype="float32")  # mistake: a dtype is no text
    torch.zeros("3")  # mistake: sizes are ints
    x.reshape(2.5, -1)  # mistake: sizes are ints
    torch.add(x, "1")  # mistake: no operand
    torch.cat(x, "0")  # mistake: a dimension is no text
    torch.cat(1, 2)  # mistake: no tensors
    x.sum(dim="rows")  # mistake: a dimension is no text
    x.permute(0, None)  # mistake: dimensions are ints
    torch.matmul(x)  # mistake: one is missing
    x.to(device=1.5)  # mistake: no device
    x.clamp("low")  # mistake: no bound
    F.dropout(x, p="half")  # mistake: no probability
    F.cross_entropy(x, [0, 1, 2])  # mistake: targets are a tensor
    F.softmax(x, dim=-1, axis=1)  # mistake: no such argument
    torch.linalg.norm(x, keepdims="yes")  # mistake: no such argument
    nn.Linear(3, "4")  # mistake: features are ints
    nn.Dropout(q=0.5)  # mistake: no such argument
    nn.Linear(3, 4)(3)  # mistake: a number is no tensor
    optim.SGD([x], lr="fast")  # mistake: no rate
    x.masked_fill(x > 0, None)  # mistake: no value
    x["rows"]  # mistake: no index
    x[1.5]  # mistake: no index
    x + "1"  # mistake: no operand
    x[0] = np.ones(4)  # mistake: an array is not assigned
    torch.tensor([1.0], device=2.5)  # mistake: no device
    torch.full((2, 2))  # mistake: the value is missing
    torch.arange()  # mistake: the end is missing
    torch.where(x > 0, x)  # mistake: one is missing
    x.view(x)  # mistake: no size
    torch.stack(x, y=0)  # mistake: no such argument
    nn.Linear(3, 4, dtype="float64")  # mistake: a dtype is no text
    nn.LayerNorm("4")  # mistake: a shape is ints
    torch.autograd.grad(x, "x")  # mistake: no tensor


def results() -> None:
    values: Tensor = x.max(dim=1)  # mistake: a pair
    number: int = x.mean()  # mistake: a tensor
    x.sum().item().backward()  # mistake: a number has no gradient
    x.backward().sum()  # mistake: nothing comes of it
    x.topk(2).value.sum()  # mistake: the field is called values
    torch.equal(x, x).sum()  # mistake: a bool
    x.shape.sum()  # mistake: a tuple
    x.split(2).sum()  # mistake: a tuple
    a, b, c = torch.sort(x)  # mistake: a pair
    nn.Linear(4, 2)(x).item().shape  # mistake: a number has no shape
    torch.autograd.grad(x.sum(), x).sum()  # mistake: a tuple
    torch.func.vjp(torch.exp, x).shape  # mistake: a pair
    torch.linalg.svd(x).V  # mistake: the field is called Vh
    x.unique(return_counts=True).sum()  # mistake: a pair
    x.nonzero(as_tuple=True).shape  # mistake: a tuple
    x.grad.zero_()  # mistake: there may be none
    text: str = F.relu(x)  # mistake: a tensor
    print(values, number, a, b, c, text)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> str:
        return self.layer(x)  # mistake: a tensor


class Numbers(Dataset[int]):
    def __getitem__(self, index: int) -> str:  # mistake: not what the dataset promises
        return str(index)


def training() -> None:
    net = Net()
    net(x, 1)  # mistake: forward takes one
    net(x).backward()  # mistake: forward says that it gives a text
    optimizer = optim.Adam(net.parameters(), momentum=0.9)  # mistake: no such argument
    optimizer.stepp()  # mistake: no such method
    DataLoader(Numbers(), batch_sizes=4)  # mistake: no such argument
    torch.no_grad(1, 2)  # mistake: it takes none
    torch.optim.lr_scheduler.StepLR(optimizer)  # mistake: how often is missing
    nn.init.zeros_(net.layer.weight, 1)  # mistake: no such argument
    nn.utils.clip_grad_norm_(net.parameters(), max="1")  # mistake: no such argument
