"""Small calls, which take longer to find out what to do than to do it, and programs that are made of them.

Tensors of a few elements that want gradients. What programs compute is checked before they are timed, by derivatives that are worked out in
another way; `tests/ops/test_small.py` holds all of it against torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .common import LIBS, library, some

CALLS = (
    *("w[3]", "w[3, 4]", "w[2:6]", "w[:, 2:5]", "w[None, :]", "w[..., 2]"),
    *("w.t()", "w.T", "w.transpose(0, 1)", "w.permute(1, 0)", "w.reshape(4, 16)", "w.view(-1)"),
    *("w.unsqueeze(0)", "v.expand(4, 8)", "w.detach()", "w.clone()", "c.numpy()", "v + u"),
    *("w.unbind(0)", "list(v)", "w.split(2)", "w.chunk(4)"),
    *("T.cat((v, u, v, u))", "T.stack((v, u, v, u))"),
    *("s.item()", "bool(s != 0.0)", "v.tolist()"),
    *("write(A.clone(), 2, v)", "write(c.clone(), (2, 3), 1.5)"),
    *("added(w * 2.0, 0, v)", "added(w * 2.0, (0, 1), v[2])", "added(c.clone(), 1, 2.0)"),
    *("write(w * 2.0, c > 30, 0.0)", "write(c.clone(), c > 30, s)"),
    *(
        "w.take(i)",
        "w.index_select(1, i)",
        "w.gather(1, k)",
        "w.scatter(1, k, 1.5)",
        "w.scatter_add(1, k, c)",
    ),
    *("w.index_add(0, i, rows)", "w.index_put((i, i), rows[0, :3])", "w.masked_scatter(c > 30, c)"),
    *("w[i.to(T.int32)]", "w[k[:2], i]", "w[i, 0]", "w[[0, 2]]", "w.take_along_dim(k, 1)"),
    *("w.movedim(0, 1)", "w.view_as(c)", "v.expand_as(w)", "w.roll(1, 0)", "w.trace()", "w.sum((0, 1))"),
    *("w.to(T.float32)", "w.to('cpu')", "c.clone().copy_(c)", "c.clone().masked_fill_(c > 30, 0.0)"),
    *(
        "T.arange(0, 8, 2)",
        "T.linspace(0, 1, 5)",
        "T.eye(4)",
        "T.full((8, 2), 2)",
        "T.zeros(8, requires_grad=True)",
    ),
    *("T.from_numpy(array)", "T.as_tensor(array)", "T.cat((v,) * 8)", "T.bincount(i)", "T.equal(c, c)"),
    *(
        "c.uniform_()",
        "c.normal_(0, 0.02)",
        "c.bernoulli_(0.3)",
        "T.bernoulli(E / 100)",
        "T.randint(9, (8,))",
        "T.randperm(8)",
    ),
    *("T.randn_like(c)", "T.normal(0.0, 1.0, (8,))", "c.clone().clamp_(-1.0, 1.0)", "c.data_ptr() > 0"),
    *("T.multinomial(rows, 4, True)", "T.poisson(rows)", "c.bernoulli_(E / 100)", "T.randint_like(c, 9)"),
    *(
        "T.linalg.solve(c + E, v)",
        "T.linalg.cholesky(E)",
        "T.linalg.qr(E)",
        "T.linalg.eigh(E)",
        "T.linalg.svd(c)",
    ),
    *("T.unique(i)", "T.searchsorted(i, k)", "T.isin(k, i)", "c[i[0]]", "T.nn.functional.one_hot(i, 6)"),
    *("T.unique(rows, dim=0)", "T.unique(c % 3, True, True, True, 1)"),
    *("T.nn.functional.one_hot(i)", "rows.repeat_interleave(i, 0)", "w.repeat_interleave(2, 1)"),
    *(
        "c.masked_scatter(c > 30, c)",
        "c.new_zeros(3, 2)",
        "c.new_full((8,), 2.0)",
        "c.new_tensor([1.0, 2.0])",
    ),
    *("T.nn.functional.pad(c[None], (1, 1), 'reflect')", "T.nn.functional.group_norm(c, 4)"),
    *("T.nn.functional.unfold(c[None, None], 2)", "T.nn.functional.multi_margin_loss(rows, i)"),
    *(
        "T.linspace(0, 1, steps=5)",
        "c.gather(dim=1, index=k)",
        "T.flip(c, dims=[0])",
        "c.masked_fill(c > 3, -T.inf)",
    ),
    *("T.einsum('ii->i', w)", "T.einsum('i,j->ij', v, u)", "T.einsum('ij,jk,kl->il', w, c, c)"),
    *("T.tensordot(w, c, 1)", "T.kron(v, u)", "write(A.clone(), slice(1, 1), 0.0)"),
    *("T.zeros([8, 2])", "T.rand(c.shape)", "T.full(c.shape, 0.0)", "T.full_like(c, True, dtype=T.bool)"),
    *("T.randint(0, 9, size=c.shape)", "T.randint(2, (8,), dtype=T.float32)", "w.sum([0, 1])"),
    *("(c > 30).cumsum(0)", "write(c > 30, (2, slice(1, 4)), True)", "write(c > 30, c > 9, True)"),
    *("T.randn(600)", "T.rand_like(many)", "T.bernoulli(many)", "many.normal_()", "T.randint(9, (600,))"),
    *("T.nn.functional.dropout(many)", "T.randperm(600)", "half @ half"),
    *("T.nn.utils.rnn.pad_sequence([i, i[:2], i[:1]])",),
    *(
        "T.nn.functional.pdist(rows)",
        "T.cat((v, u) * 8)",
        "T.stack((v, u) * 8, 1)",
        "T.combinations(s.expand(9))",
    ),
)


def write(t: Any, index: Any, value: Any) -> Any:
    t[index] = value
    return t


def added(t: Any, index: Any, value: Any) -> Any:
    t[index] += value
    return t


def calls(T: Any) -> dict[str, Callable[[], Any]]:
    w = T.arange(64.0, dtype=T.float64).reshape(8, 8).requires_grad_()
    scope = {
        "T": T,
        "w": w,
        "A": w * 1,
        "v": (w * 1)[0],
        "u": (w * 2)[1],
        "c": w.detach().clone(),
        "write": write,
        "added": added,
        "i": T.tensor([1, 3, 5]),
        "k": T.zeros(8, 1, dtype=T.int64),
        "rows": T.ones(3, 8, dtype=T.float64),
        "E": 100 * T.eye(8, dtype=T.float64),
        "many": T.full((20, 30), 0.5),
        "half": T.eye(8, dtype=T.bfloat16),
        "array": np.ones((3, 4)),
    }
    scope["s"] = scope["v"].sum()
    return {text: eval(f"lambda: {text}", scope) for text in CALLS}


class Program:
    """One program on a library: `run` computes gradients, `check` knows them otherwise."""

    def __init__(self, T: Any) -> None:
        self.T, self.drawn = T, np.random.default_rng(0)

    def leaf(self, *shape: int) -> Any:
        return self.T.tensor(self.drawn.normal(size=shape), requires_grad=True)

    def check(self) -> None:
        """Along a random direction the gradients say what the value does."""
        found = self.run()
        ways = [self.T.tensor(self.drawn.normal(size=tuple(x.shape))) for x in self.leaves]
        slope = sum(float((g * way).sum()) for g, way in zip(found, ways, strict=True))
        ends = []
        for step in (1e-6, -1e-6):
            with self.T.no_grad():
                ends.append(float(self.value(*[x + step * way for x, way in zip(self.leaves, ways)])))
        assert abs((ends[0] - ends[1]) / 2e-6 - slope) <= 1e-5 * (1 + abs(slope)), (ends, slope)

    leaves: tuple[Any, ...]

    def value(self, *leaves: Any) -> Any:
        raise NotImplementedError

    def run(self) -> Any:
        return self.T.autograd.grad(self.value(*self.leaves), self.leaves)


class Cell(Program):
    """An LSTM's cell written out, over 256 steps, with its states written into one tensor."""

    size, steps = 8, 256

    def __init__(self, T: Any) -> None:
        super().__init__(T)
        n = self.size
        self.leaves = self.leaf(4 * n, 2 * n), self.leaf(4 * n), self.leaf(self.steps, n)

    def value(self, weight: Any, bias: Any, inputs: Any) -> Any:
        T, n = self.T, self.size
        h = c = T.zeros(n, dtype=T.float64)
        states = T.zeros(self.steps, n, dtype=T.float64)
        for k in range(self.steps):
            gates = weight @ T.cat((inputs[k], h)) + bias
            take, keep, give = (
                T.sigmoid(gates[:n]),
                T.sigmoid(gates[n : 2 * n]),
                T.sigmoid(gates[2 * n : 3 * n]),
            )
            c = keep * c + take * T.tanh(gates[3 * n :])
            h = give * T.tanh(c)
            states[k] = h
        return (states * states).sum()


class Rows(Program):
    """A loop over the rows of a matrix."""

    def __init__(self, T: Any) -> None:
        super().__init__(T)
        self.leaves = self.leaf(300, 16), self.leaf(16)

    def value(self, w: Any, v: Any) -> Any:
        total = 0.0
        for row in w:
            total = total + row.dot(v)
        return total


class Means(Program):
    """k-means' cost and its Hessian times a vector, with the distances written out."""

    def __init__(self, T: Any) -> None:
        super().__init__(T)
        self.points, self.leaves = self.leaf(500, 4).detach(), (self.leaf(5, 4),)
        self.along = self.leaf(5, 4).detach()

    def cost(self, centers: Any) -> Any:
        apart = self.points[:, None] - centers[None]
        return (apart * apart).sum(2).min(1).values.sum()

    def value(self, centers: Any) -> Any:
        if not self.T.is_grad_enabled():  # asked for the slope of what is a slope
            with self.T.enable_grad():
                return self.value(centers.clone().requires_grad_())
        (found,) = self.T.autograd.grad(self.cost(centers), centers, create_graph=True)
        return (found * self.along).sum()

    def run(self) -> Any:
        return (self.T.autograd.functional.vhp(self.cost, self.leaves[0], self.along)[1],)


class Rotation(Program):
    """Points turned about an axis, by Rodrigues' formula, one by one."""

    def __init__(self, T: Any) -> None:
        super().__init__(T)
        self.points, self.leaves = self.leaf(50, 3).detach(), (self.leaf(3),)

    def turned(self, by: Any, point: Any) -> Any:
        T = self.T
        s = by.dot(by)
        if s != 0.0:
            angle = T.sqrt(s)
            axis = by / angle
            cos = T.cos(angle)
            aside = T.linalg.cross(axis, point)
            return point * cos + aside * T.sin(angle) + axis * (axis.dot(point) * (1.0 - cos))
        return point + T.linalg.cross(by, point)

    def value(self, by: Any) -> Any:
        total = 0.0
        for point in self.points:
            x = self.turned(by, point)
            total = total + (x[0] * x[1] - x[2]) ** 2
        return total


PROGRAMS: dict[str, Callable[[Any], Program]] = {
    "cell": Cell,
    "rows": Rows,
    "k-means": Means,
    "rotation": Rotation,
}


class Calls:
    params = (LIBS, some(CALLS))
    param_names = ("lib", "call")

    def setup(self, lib: str, call: str) -> None:
        self.run = calls(library(lib))[call]
        self.run()

    def time_call(self, lib: str, call: str) -> None:
        self.run()


class Programs:
    params = (LIBS, some(PROGRAMS))
    param_names = ("lib", "program")

    def setup(self, lib: str, program: str) -> None:
        self.program = PROGRAMS[program](library(lib))
        self.program.check()

    def time_program(self, lib: str, program: str) -> None:
        self.program.run()
