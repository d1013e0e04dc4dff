"""Random programs, statement by statement beside torch: `python -m tests.programs --programs 10000`.

A program is text: statements over a pool of small tensors of any dtype and layout, drawn one by one from a seed with torch's shapes in
view, so that most of them mean something and some are refused. After each statement everything that a user can see of every tensor is
compared: values, dtype, shape, strides, offset, version, history, gradient, and the type of what was raised. A program that differs is
cut down to the statements that it takes.
"""

from __future__ import annotations

import argparse
import copy
import pickle
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

SHAPES = [(), (3,), (2, 3), (3, 2), (1, 3), (4,), (2, 1, 3), (0,), (1,)]
DTYPES = ["float64"] * 6 + ["float32"] * 2 + ["float16", "int64", "int32", "uint8", "bool"]
RTOL = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2}
LIMIT = 64  # elements

# {x} is any tensor of the pool, {f} a floating one, {y} one that broadcasts with it (mostly), {s} one of its shape, {z} another that may
# receive, {l} a leaf that requires grad; {v}, {u} are indices that make views of {x}; {d} is a dimension, {w} a number, {k} an int
# that may stand in {x}, {n} a new name. What follows a bar is how often the form is taken.
FORMS = """
{n} = {x} + {y}|6
{n} = {x} - {y}|3
{n} = {x} * {y}|6
{n} = {x} / ({y} * {y} + 1)|3
{n} = {x} * {w}|2
{n} = 2 - {x}
{n} = {x} ** 2
{n} = -{x}
{n} = {x}.abs()
{n} = {f}.sin()|2
{n} = {f}.tanh()|2
{n} = {f}.relu()
{n} = ({f} * 0.3).exp()
{n} = T.maximum({x}, {y})
{n} = T.where({x} > {w}, {x}, {y})|2
{n} = {x} < {y}
{n} = {x} == {y}
{n} = ~({x} > 0)
{n} = {x}.clamp({w})
{n} = T.lerp({f}, {s}, 0.25)
{n} = T.addcmul({x}, {y}, {y}, value=0.5)
{n} = {x} * {y}.detach()
{n} = {x}.sum()|2
{n} = {x}.sum({d})|2
{n} = {f}.mean({d}, keepdim=True)
{n} = {x}.max({d}).values
{n} = {x}.amax()
{n} = {x}.prod()
{n} = {x}.cumsum({d})
{n} = {x}.sort(dim={d}, stable=True).values
{n} = {f}.softmax({d})
{n} = {f}.logsumexp({d})
{n} = {x}.argsort(dim={d}, stable=True)
{n} = T.cat([{x}, {s}], {d})|2
{n} = T.stack([{x}, {s}])
{n} = {x} @ {y}.mT
{n} = {x}.to(T.float16)
{n} = {x}.to(T.int64)
{n} = {x}.double()|2
{n} = {x}.float()
{n} = {x}.clone()|3
{n} = {x}.contiguous()|2
{n} = {x}.detach()|2
{n} = {x}.flip({d})
{n} = {x}.roll(1, {d})
{n} = {x}.repeat(2, *[1] * {x}.dim())
{n} = {x}.tril()
{n} = {x}.view(-1)|3
{n} = {x}.reshape(-1)|3
{n} = {x}.reshape(-1, 1)
{n} = {x}.flatten()
{n} = {x}{v}|8
{n} = {x}{v}{u}|2
{n} = {x}.t()|2
{n} = {x}.transpose(0, -1)|3
{n} = {x}.permute(tuple(reversed(range({x}.dim()))))
{n} = {x}.unsqueeze({d})
{n} = {x}.squeeze()
{n} = {x}.expand(2, *{x}.shape)|3
{n} = {x}.unfold({d}, 2, 1)
{n} = {x}.as_strided((2, 2), (1, 1), 0)
{n} = {x}.as_strided((2,), (2,), 1)
{n} = {x}.diagonal()
{n} = {x}.narrow({d}, 0, 1)
{n} = {x}.unbind({d})[0]|2
{n} = {x}.split(1, {d})[-1]|2
{n} = {x}.chunk(2, {d})[0]
{n} = {x}.view_as({x})
{n} = {x}.ravel()
{n} = {x}[{x} > {w}]|2
{n} = {x}[[0, -1, 0]]|2
{n} = {x}.index_select({d}, T.tensor([0, 0]))
{n} = {x}.gather({d}, T.zeros({x}.shape, dtype=T.int64))
{n} = {x}.take(T.tensor([0, 0, -1]))
{n} = T.zeros_like({x})
{n} = {x}.new_ones({x}.shape)
{x}.add_({y})|4
{x}.sub_({y}, alpha=2)
{x}.mul_({y})|4
{x}.mul_({w})|3
{f}.div_({y} * {y} + 1)|2
{f}.div_({y})
{x}.pow_(2)
{f}.lerp_({s}, 0.5)
{f}.addcmul_({y}, {y})
{f}.addcdiv_({y}, {s} * {s} + 1)
{f}.fmod_(0.75)
{x}.copy_({y})|3
{x}.fill_({k})|2
{f}.fill_({y}.sum())
{x}.zero_()|2
{f}.sin_()
{f}.tanh_()
{f}.mul_(0.2).exp_()
{x}.neg_()
{x}.abs_()
{x}.clamp_(-1, 1)
{f}.sigmoid_()
{f}.lt_({y})
{f}.ge_({w})
{f}.eq_({y})
{f}.ne_({k})
{x}.logical_not_()
{x}.masked_fill_({s} > {w}, {k})|2
{x}.view(-1).masked_scatter_(({s} > 0).view(-1), {x}.detach().clone())
{x} += {y}|2
{x} *= {w}
{x} /= {x}{v}
{x}{v} = {k}|4
{x}{v} = {y}|3
{x}{v} = {x}{u}|2
{x}{v} *= {w}|2
{x}{v}.add_({x}{u})|2
{x}{v}.copy_({x}{u})
{x}{v}.mul_({y})|2
{x}{v}{u}.zero_()
{x}[{x} > {w}] = {k}|2
{x}[[0, -1]] = {k}
{x}.index_fill_({d}, T.arange({x}.shape[{d}] if {x}.dim() else 1)[:1], {k})
{x}.index_add_({d}, T.tensor([0]), {x}.detach().narrow({d}, 0, 1).clone())
{x}.index_copy_({d}, T.tensor([0]), {x}.detach().narrow({d}, 0, 1).clone())
{x}.scatter_({d}, T.zeros({x}.shape, dtype=T.int64), {k})
{x}.cumsum_({d})
{x}.t_()
{x}.transpose_(0, -1)
{x}.squeeze_()
{x}.unsqueeze_(0)
{x}.data.mul_({w})|2
{x}.data = {s}.detach().clone()
T.add({x}, {y}, out={z})|2
T.mul({x}, {y}, out={z})|2
T.sub({x}{v}, {y}, out={x}{u})
T.exp({x} * 0.1, out={z})
T.sum({x}, {d}, out={z})
T.cat([{x}, {s}], out={z})
T.cumsum({x}, {d}, out={z})
T.lt({x}, {y}, out={z})
T.matmul({x}, {y}, out={z})
{n} = T.add({x}, 1, out=T.empty(0, dtype={x}.dtype))
{x}.resize_({shape}).zero_()
{x}.resize_as_({y}).zero_()
{x}.set_({z})
{x}.requires_grad_()|3
{x}.requires_grad_(False)|2
{x}.detach_()|2
{x}.retain_grad()|2
{x}.grad = T.ones({x}.shape, dtype={x}.dtype)
{x}.grad = T.ones(1, dtype={x}.dtype).expand({x}.shape)
{x}.grad = T.ones({x}.mT.shape, dtype={x}.dtype).mT
{x}.grad = None
{n} = {x}.grad * 1
{n} = T.tensor({x}.tolist(), dtype={x}.dtype)
with T.no_grad(): {x}.mul_({w})|2
with T.no_grad(): {n} = {x}{v}|2
with T.no_grad(): {x}{v} = {y}
with T.inference_mode(): {n} = {x} * 2
with T.inference_mode(): {n} = {x}{v}
with T.inference_mode(): {x}.add_({k})
{x}._is_view() or {x}.register_hook(lambda g: g * {w})|2
{x}._is_view() or {x}.register_hook(lambda g: None)
{l}.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5))
{n} = Product.apply({f}, {s})|2
{n} = Double.apply({f})|2
{n} = Same.apply({f})|2
{n} = T.from_numpy({x}.detach().numpy())
{x}.detach().numpy()[...] = {k}
{n} = copy.deepcopy({x})
{n} = T.tril({x}.permute(-1, *range({x}.dim() - 1)))
{n} = pickle.loads(pickle.dumps({x}.detach()))
{f}.sum().backward(retain_graph=True)|3
({f} * {f}).sum().backward()|4
({f} ** 2).sum().backward(create_graph=True)
{f}.backward({s})
({f} * {y}).sum().backward(inputs=[{l}])
{n} = T.autograd.grad(({f} * {f}).sum(), {l}, create_graph=True)[0] * 1|4
{n} = T.autograd.grad({f}, {l}, {s}.detach(), retain_graph=True, materialize_grads=True)[0].contiguous()|2
{n}, = T.autograd.grad({f}.sin().sum(), {x}, allow_unused=True)
{n} = T.func.jvp(T.sin, ({f}.detach().clone(),), ({s}.detach(),))[1]
{n} = T.func.grad(lambda a: (a * a * {s}).sum())({f})
{n} = T.vmap(lambda a: a * 2 + 1)(T.stack([{x}, {x}]))
"""

SOURCES = [
    "{n} = T.tensor({values}, dtype=T.{dtype})",
    "{n} = T.tensor({values}, dtype=T.{float}, requires_grad=True)",
    "{n} = T.tensor({values}, dtype=T.{float}, requires_grad=True)",
    "{n} = T.from_numpy(np.array({values}, '{dtype}'))",
    "{n} = T.from_numpy(repeated(np.array({values}, '{dtype}')))",
    "{n} = T.from_numpy(unaligned(np.array({values}, '{dtype}')))",
    "{n} = T.from_numpy(np.array({values}, '{dtype}').T)",
    "{n} = T.from_numpy(np.array({values}, '{dtype}')[..., ::-1])",
    "{n} = T.as_tensor(np.array({values}, '{dtype}')[..., ::2])",
    "{n} = T.ones({shape}, dtype=T.{float}).t_().requires_grad_()",
]


def repeated(a: np.ndarray) -> np.ndarray:
    """Three times the same memory."""
    return np.lib.stride_tricks.as_strided(a, (3, *a.shape), (0, *a.strides))


def unaligned(a: np.ndarray) -> np.ndarray:
    """At an address that no element of more than a byte would have by itself."""
    return np.ndarray(a.shape, a.dtype, bytearray(b"\0" + a.tobytes()), 1)


@cache
def functions(T: ModuleType) -> dict[str, Any]:
    class Product(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            y = a * b
            ctx.save_for_backward(a, b, y)
            return y

        @staticmethod
        def backward(ctx, g):
            a, b, y = ctx.saved_tensors
            return g * b + 0 * y, g * a

    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            ctx.mark_dirty(a)
            return a.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.view_as(a)

        @staticmethod
        def backward(ctx, g):
            return g * 3

    return {"Product": Product, "Double": Double, "Same": Same}


# ---------------------------------------------------------------- playing


class Play:
    """A program as it runs in one module: the pool by name, and what is to be seen of it."""

    def __init__(self, T: ModuleType) -> None:
        self.T = T
        self.scope: dict[str, Any] = {
            "T": T,
            "np": np,
            "copy": copy,
            "pickle": pickle,
            "repeated": repeated,
            "unaligned": unaligned,
        } | functions(T)
        self.first: dict[
            int, Any
        ] = {}  # the version that a tensor was seen with first: PyTorch's vary by how it was made

    def run(self, statement: str) -> str:
        """The type of what was raised, if anything was; `history` where a history would be or has been lost, which PyTorch looks at
        first; `inference` where memory of inference mode was to be written to."""
        try:
            exec(compile(statement, "<program>", "exec"), self.scope)
        except Exception as error:
            return next((word for text, word in REFUSALS.items() if text in str(error)), type(error).__name__)
        return ""

    def undefined(self, statement: str) -> bool:
        """Whether it writes where it also reads, element over element: what comes of that depends on the order of the loop."""
        match, out = WRITE.match(statement), OUT.match(statement)
        if match is None and out is None:
            return False
        target, operands = out.group(2, 1) if out else match.group(1, 2)
        try:
            written, *read = [eval(text, self.scope).detach() for text in (target, *TENSOR.findall(operands))]
        except Exception:  # which is what the statement itself will raise
            return False
        if not written.numel():  # it may be given room, in memory that is read
            return any(t.untyped_storage().data_ptr() == written.untyped_storage().data_ptr() for t in read)
        at = places(written)
        if np.unique(at).size < at.size:
            return True
        elsewhere = out is not None and statement[2:5] in (
            "sum",
            "cum",
            "cat",
            "mat",
        )  # not element by element
        return any(
            np.isin(at, p).any() and (elsewhere or not np.array_equal(at, p)) for p in map(places, read)
        )

    def pool(self) -> dict[str, Any]:
        return {
            k: v
            for k, v in self.scope.items()
            if k[0] == "t" and k[1:].isdigit() and type(v) is self.T.Tensor
        }

    def broken(self) -> bool:
        """Whether a refused call left a tensor that reads past its memory, as PyTorch's `out=` may."""
        return any(reach(t) > t.untyped_storage().nbytes() for t in self.pool().values())

    def seen(self) -> dict[str, Any]:
        found = {}
        for name, t in self.pool().items():
            found[name] = {what: outcome_of(look, t) for what, look in LOOKS.items()}
            version = found[name]["version"]
            _, first = self.first.setdefault(id(t), (t, version))
            found[name]["version"] = version - first if type(version) is type(first) is int else version
        return found


# Whether a slice that shows the whole was a slice is told by these alone.
SAME = dict.fromkeys(
    ["torch::autograd::CopySlices", "FillBackward2", "FillBackward3"], "torch::autograd::CopyBackwards"
)
SAME["AliasBackward0"] = "SliceBackward0"

LOOKS: dict[str, Callable[[Any], Any]] = {
    "dtype": lambda t: str(t.dtype),
    "shape": lambda t: tuple(t.shape),
    "strides": lambda t: t.numel() and [s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1],
    "offset": lambda t: t.numel() and t.storage_offset(),
    # What was detached from a tensor of inference mode counts versions of its own in PyTorch, views of it none.
    "version": lambda t: None if t.is_inference() else t._version,
    "inference": lambda t: t.is_inference(),
    # PyTorch lets integers that were compared in place, or filled, require grad; nothing can come of it.
    "requires_grad": lambda t: t.is_floating_point() and t.requires_grad,
    "leaf": lambda t: not t.is_floating_point() or t.is_leaf,
    "retains": lambda t: t.retains_grad,
    "history": lambda t: (
        SAME.get(t.grad_fn.name(), t.grad_fn.name()) if t.is_floating_point() and t.grad_fn else ""
    ),
    "values": lambda t: t.detach().clone().numpy(),  # numpy() alone ends its resizing
    "grad": lambda t: t.grad is not None and (LOOKS["strides"](t.grad), t.grad.requires_grad),
    "grad values": lambda t: t.grad is not None and t.grad.detach().clone().numpy(),
}


def reach(t: Any) -> int:
    """How many bytes of its storage a tensor needs."""
    steps = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return (t.storage_offset() + steps + 1) * t.element_size() if t.numel() else 0


REFUSALS = {
    "leaf Variable that requires": "history",
    "don't support automatic": "history",
    " is a view and its base or another view of its base has been modified": "history",
    "Inplace update to inference tensor": "inference",
    "A view was created in no_grad mode": "RuntimeError of a view",
}
WRITE = re.compile(r"^(?:with [^:]*: )?(t\d+(?:\[[^]]*\])*\S*?)(?: [-+*/]?= |\.\w+_\()(.*)$")
OUT = re.compile(r"^(.*)out=(t\d+(?:\[.*\])?)\)$")
TENSOR_NAME = re.compile(r"\bt\d+\b")
TENSOR = re.compile(r"t\d+(?:\[[^]]*\])*")


def places(t: Any) -> np.ndarray:
    """Where each element of a tensor lies."""
    steps = [np.arange(n) * s * t.element_size() for n, s in zip(t.shape, t.stride(), strict=True)]
    return t.data_ptr() + sum(np.ix_(*steps), np.zeros(t.shape, np.int64))


def outcome_of(look: Callable[[Any], Any], t: Any) -> Any:
    try:
        return look(t)
    except Exception as error:
        return type(error).__name__


def agree(a: Any, b: Any, least: float = 0.0) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(agree(a[k], b[k]) for k in a)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(agree, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        tol = max(RTOL.get(a.dtype.name, 0), least if a.dtype.kind == "f" else 0)
        return bool(np.allclose(a, b, tol, tol, equal_nan=True))
    return type(a) is type(b) and bool(a == b)


def difference(statements: list[str], T: ModuleType, torch: ModuleType) -> str:
    """What the first statement after which the two differ shows; nothing if none does."""
    ours, theirs = Play(T), Play(torch)
    rounded: dict[str, float] = {}  # what a less precise tensor went into, and the tolerance of that
    whole: dict[str, float] = {}
    for k, statement in enumerate(statements):
        undefined, before = theirs.undefined(statement), theirs.seen()
        want, got = theirs.run(statement), ours.run(statement)
        if (undefined and not want) or (want and (theirs.broken() or not agree(before, theirs.seen()))):
            return ""  # or PyTorch wrote before it refused
        if got == "inference" and not want and any(a["inference"] for a in before.values()):
            return ""  # PyTorch lets what was detached from such a tensor be written to, though not views of that
        if want == "RuntimeError of a view" and not got and any(".grad(" in s for s in statements[:k]):
            return ""  # PyTorch lets see that a gradient is a view, which its backward made where nothing is recorded
        got, want = (word.partition(" ")[0] for word in (got, want))
        if got != want and not (want == "history" and got) and not (want and got == "inference"):
            return f"after line {k + 1}: {got or 'nothing'} is raised, not {want or 'nothing'}"
        a, b = ours.seen(), theirs.seen()
        if a.keys() != b.keys():
            return f"after line {k + 1}: the tensors are {sorted(a)}, not {sorted(b)}"
        # Of integers, too, floats are made in float32.
        least = max(
            (max(rounded.get(n, 0), whole.get(n, 0)) for n in TENSOR_NAME.findall(statement)), default=0
        )
        rounded |= {
            n: least for n in b if least > rounded.get(n, 0) and not (n in before and agree(before[n], b[n]))
        }
        whole |= {n: RTOL["float32"] for n in b if "float" not in b[n]["dtype"]}
        rounded |= {n: max(RTOL.get(b[n]["dtype"][6:], 0), rounded.get(n, 0)) for n in b}
        for name in a:
            for what in a[name]:
                if not agree(a[name][what], b[name][what], rounded[name]):
                    return f"after line {k + 1}: {what} of {name} is {a[name][what]}, not {b[name][what]}"
    return ""


def shortest_difference(statements: list[str], T: ModuleType, torch: ModuleType) -> str:
    """How a program differs, if it does, and the fewest of its statements that do in the same way."""
    kind = kind_of(difference(statements, T, torch))
    if not kind:
        return ""
    shortest = cut(statements, lambda less: kind_of(difference(less, T, torch)) == kind)
    return "\n    ".join([difference(shortest, T, torch), *shortest])


def kind_of(difference: str) -> str:
    """What differs, but for where: "strides", "KeyError is raised, not nothing"."""
    what = difference.partition(": ")[2]
    return what if " raised, " in what else what.partition(" of ")[0]


def cut(statements: list[str], differs: Callable[[list[str]], bool]) -> list[str]:
    """The program without each statement that the difference does without."""
    k = len(statements) - 1
    while k >= 0:
        less = statements[:k] + statements[k + 1 :]
        if differs(less):
            statements = less
        k = min(k, len(statements)) - 1
    return statements


# ---------------------------------------------------------------- drawing


class Names(dict[str, str]):
    """The blanks of a form, filled as they are asked for, from what the pool holds."""

    def __init__(self, r: random.Random, pool: dict[str, Any]) -> None:
        self.r, self.pool = r, pool

    def __missing__(self, blank: str) -> str:
        self[blank] = text = getattr(self, f"_{blank}")()
        return text

    def _tensor(self, fits: Callable[[Any], bool]) -> str:
        names = [name for name, t in self.pool.items() if fits(t)]
        # The latest are the likeliest: a program that goes on with what it made goes deeper.
        return self.r.choices(names, range(1, len(names) + 1))[0] if names else self.r.choice(list(self.pool))

    @property
    def first(self) -> Any:
        return self.pool[self.get("x") or self.get("f") or self.get("l") or self["x"]]

    def _x(self) -> str:
        return self._tensor(lambda t: True)

    def _f(self) -> str:
        return self._tensor(lambda t: t.is_floating_point())

    def _l(self) -> str:
        return self._tensor(lambda t: t.requires_grad and not t._is_view() and t.is_leaf)

    def _y(self) -> str:
        x = self.first
        if self.r.random() < 0.05:
            return self._x()
        return self._tensor(lambda t: fit(t.shape, x.shape))

    def _s(self) -> str:
        x = self.first
        return self._tensor(lambda t: t.shape == x.shape and t.dtype is x.dtype)

    def _z(self) -> str:
        return self._tensor(lambda t: not t.requires_grad)

    def _d(self) -> str:
        n = max(self.first.dim(), 1)
        return str(self.r.randrange(-n, n) if self.r.random() < 0.97 else n)

    def _w(self) -> str:
        return self.r.choice(["0.5", "-1.25", "0.75", "2", "0"])

    def _k(self) -> str:
        return self.r.choice(["0", "1", "2", "3", "0.5"] if self.first.is_floating_point() else "0123")

    def _v(self) -> str:
        return self.r.choice(["[:1]", "[1:]", "[:-1]", "[0]", "[-1]", "[::2]", "[..., 0]", "[..., 1:]", "[..., :-1]",
                              "[None]", "[...]", "[:, :1]", "[:, 1:]", "[0, 1]"])  # fmt: skip

    _u = _v

    def _shape(self) -> str:
        return str(self.r.choice(SHAPES))

    def _n(self) -> str:
        return f"t{len(self.pool)}"

    def _dtype(self) -> str:
        return self.r.choice(DTYPES)

    def _float(self) -> str:
        return self.r.choice([d for d in DTYPES if d[0] == "f"])

    def _values(self) -> str:
        shape = self.r.choice(SHAPES)
        flat = [
            self.r.choice([-1.5, -1, -0.75, 0.25, 0.5, 1, 1.25, 2, 3]) for _ in range(int(np.prod(shape)))
        ]
        return str(np.array(flat).reshape(shape).tolist())


def fit(a: Any, b: Any) -> bool:
    """Whether the first may be broadcast to the second."""
    return len(a) <= len(b) and all(m in (1, n) for m, n in zip(reversed(a), reversed(b), strict=False))


_FORMS = [(form.partition("|")[0], int(form.partition("|")[2] or 1)) for form in FORMS.strip().splitlines()]


def statements_of(seed: int, torch: ModuleType) -> Iterator[str]:
    """The program of this seed, drawn as it runs in torch."""
    r = random.Random(seed)
    play = Play(torch)
    for k in range(r.randint(2, 4)):
        form = SOURCES[1] if k == 0 else r.choice(SOURCES)
        statement = form.format_map(Names(r, dict.fromkeys(map(str, range(k)))))
        play.run(statement)
        yield statement
    texts, often = zip(*_FORMS, strict=True)
    for _ in range(r.randint(4, 14)):
        pool = play.pool()
        statement = r.choices(texts, often)[0].format_map(Names(r, pool))
        undefined = play.undefined(statement)
        raised = play.run(statement)
        if (
            (undefined and not raised)
            or play.broken()
            or any(t.numel() > LIMIT for t in play.pool().values())
        ):
            return
        yield statement


# ---------------------------------------------------------------- running many


def differing(first: int, last: int, T: ModuleType, torch: ModuleType) -> list[str]:
    """The programs of these seeds that do not do the same in both, each cut down."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, last):
            text = shortest_difference(list(statements_of(seed, torch)), T, torch)
            if text:
                found.append(f"seed {seed}: {text}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--programs", type=int, default=10000)
    parser.add_argument("--here", action="store_true", help="in this process, whose end nobody would see")
    asked = parser.parse_args()
    last = asked.first + asked.programs
    if asked.here:
        import torch

        import nbgrad

        found = 0
        for seed in range(asked.first, last):
            for text in differing(seed, seed + 1, nbgrad, torch):
                print(text, flush=True)
                found += 1
        return bool(found)
    bad, step = 0, 250
    for first in range(asked.first, last, step):
        count = min(step, last - first)
        command = [
            sys.executable,
            "-m",
            "tests.programs",
            "--here",
            "--first",
            str(first),
            "--programs",
            str(count),
        ]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        sys.stdout.write(done.stdout)
        bad += done.stdout.count("seed ")
        if done.returncode not in (0, 1) or (done.returncode == 1 and "seed " not in done.stdout):
            bad += 1
            sys.stdout.write(
                f"a process ended with {done.returncode} within programs {first} to {first + count}\n"
            )
    sys.stdout.write(f"{asked.programs} programs, {bad} differ\n")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
