"""Random combinations of op, dtype, shape and memory layout, each held against torch: `python -m tests.stress --combinations 20000`.

The ops, their domains and dtypes are those of the case table; what is random is what the table fixes: sizes (none, one, many enough
for threads), ranks, which operand is broadcast, and how each lies in memory. A combination is drawn from the seed and its number alone,
so that one of them can be run again: `--first 1234 --combinations 1`.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from tests import derive
from tests.cases import (
    BINARY,
    CASES,
    DTYPES,
    FLOATS,
    INTS,
    TERNARY,
    UNARY,
    WHOLE_FIRST,
    OpCase,
    Shape,
    method,
)
from tests.compare import ATOL, RTOL, array, assert_same, leaves, outcome
from tests.support import T

SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33)
MANY = ((17_000,), (130, 130), (2, 8500), (8500, 2), (3, 70, 80), (5, 33, 2, 64))  # threads share these
LIMIT = 100_000  # elements of one operand

# Which of equal elements these choose is nobody's promise, so that no element is repeated.
ANY_OF_EQUALS = ("sort_", "topk", "kthvalue", "median", "nanmedian", "mode", "quantile", "nanquantile")
# What PyTorch alone refuses: its batch_norm has no room for no channels, its transforms for a batch of none.
REFUSED_THERE = ("select(): index 0 out of range for tensor of size [0]", "MKL FFT error")
OVERFLOWING = ("atan2", "arctan2")  # PyTorch's gradient squares integers as integers
CONTIGUOUS_ONLY = (
    "batch_norm",
    "batch_norm_fixed",
)  # PyTorch's gradient reads a strided weight as if it were contiguous


def loss(name: str, how: str, *shapes: tuple[Shape, Shape], **rest: Any) -> OpCase:
    """The losses are no ops of their own, so the table has none."""

    def fn(T: ModuleType, x: Any, y: Any) -> Any:
        return getattr(T.nn.functional, name)(x, y, reduction=how)

    return OpCase(f"{name}_{how}", fn, shapes, dtypes=FLOATS, strides=False, **rest)


def losses() -> Iterator[OpCase]:
    for how in ("none", "mean", "sum"):
        for name in (
            "mse_loss",
            "l1_loss",
            "smooth_l1_loss",
            "huber_loss",
            "binary_cross_entropy_with_logits",
        ):
            yield loss(name, how, ((3, 4), (3, 4)), ((5,), (5,)), domain=((0.1, 0.9), (-0.9, -0.1)))
        for name in ("cross_entropy", "nll_loss"):
            shapes = (((6, 3), (6,)), ((4, 3, 5), (4, 5)), ((3,), ()))
            yield loss(name, how, *shapes, domain=((-2.0, 2.0), (0, 2)), kinds=(None, "int64"))


# What asks for shapes that fit each other or its settings, or for square matrices, keeps the sizes of the table: dtypes and layouts
# are random all the same.
FITTED = (
    *("linalg_", "multi_dot", "einsum", "tensordot", "kron", "addr", "addbmm", "cross", "vecdot", "trace"),
    *(
        "select_scatter",
        "slice_scatter",
        "diagonal_scatter",
        "as_strided_scatter",
        "index_copy",
        "inplace_index_copy",
    ),
    *(
        "masked_scatter",
        "inplace_masked",
        "put_",
        "scatter_",
        "inplace_scatter",
        "index_reduce",
        "inplace_index",
    ),
    *(
        "unfold",
        "sum_to_size",
        "hsplit",
        "vsplit",
        "dsplit",
        "tensor_split",
        "combinations",
        "vander",
        "isin",
    ),
    *("bincount", "hist", "unravel", "pad", "renorm", "cov", "corrcoef", "gradient", "trapezoid"),
    *("cumulative_trapezoid", "cdist", "pdist", "dist", "normalize", "cosine", "pairwise", "gumbel"),
    *("block_diag", "diag", "inplace_t", "inplace_unsqueeze", "inplace_squeeze", "inplace_swapaxes"),
    *("gru", "lstm", "rnn_", "conv", "embedding_bag", "grid_sample", "max_unpool", "bilinear", "fold"),
    *("meshgrid", "cartesian_prod", "tril_", "triu_", "binomial", "igamma"),
)
# Matrices with equal rows are singular, and what is told of them is rounding.
MATRICES = ("linalg_", "cov", "corrcoef", "det", "logdet", "slogdet", "inverse", "cholesky", "pinverse")
# Sums of products of elements.
SUMS = (
    *("sum", "nansum", "mean", "nanmean", "cumsum", "trace", "dot", "vdot", "inner", "vecdot", "mv", "mm"),
    *("bmm", "matmul", "addmm", "addmv", "addbmm", "baddbmm", "linear", "einsum", "tensordot", "trapezoid"),
)
SEVERAL_PRODUCTS = ("einsum_three",)  # which of them comes first decides how the result lies
# Roots: at zero they have no gradient, and what is told of a deviation that is rounding is rounding.
ROOTS = ("std", "norm", "linalg_norm", "linalg_vector_norm")
TABLE = [*CASES.values(), *losses()]


@dataclass(frozen=True)
class Layout:
    """How an operand lies: dimensions in this order, each from `start` with `step`; expanded ones are stored once."""

    order: tuple[int, ...]
    starts: tuple[int, ...]
    steps: tuple[int, ...]
    expanded: tuple[bool, ...]

    def fit(self, values: np.ndarray) -> np.ndarray:
        """The values as they are where expanded dimensions repeat the first."""
        for d, repeat in enumerate(self.expanded):
            if repeat and values.shape[d]:
                values = np.broadcast_to(values.take([0], d), values.shape)
        return values

    def lay_out(self, T: ModuleType, values: np.ndarray) -> Any:
        stored = values
        for d, repeat in enumerate(self.expanded):
            stored = stored[(slice(None),) * d + (slice(0, 1),)] if repeat else stored
        stored = stored.transpose(self.order)
        starts, steps = [self.starts[d] for d in self.order], [self.steps[d] for d in self.order]
        sizes = [b + n * s for b, n, s in zip(starts, stored.shape, steps, strict=True)]
        where = tuple(slice(b, b + n * s, s) for b, n, s in zip(starts, stored.shape, steps, strict=True))
        memory = np.zeros(sizes, values.dtype)
        memory[where] = stored
        t = T.tensor(memory)
        if any(starts) or any(s > 1 for s in steps):
            t = t[where]
        if self.order != tuple(range(values.ndim)):
            t = t.permute(*np.argsort(self.order).tolist())
        return t.expand(values.shape) if any(self.expanded) else t


@dataclass(frozen=True)
class Combination:
    number: int
    case: OpCase
    dtypes: tuple[str, ...]
    arrays: tuple[np.ndarray, ...]
    layouts: tuple[Layout, ...]
    way: str  # call, or in place

    def tensors(self, T: ModuleType, requires_grad: bool = False, exact: bool = False) -> list[Any]:
        """The operands; with `exact` the same numbers in float64, integers too where they are but numbers."""
        kinds = "fiu" if self.case.elementwise else "f"
        arrays = [a.astype("float64") if exact and a.dtype.kind in kinds else a for a in self.arrays]
        made = [how.lay_out(T, a) for how, a in zip(self.layouts, arrays, strict=True)]
        return [t.requires_grad_() if requires_grad and t.dtype.is_floating_point else t for t in made]

    def run(self, T: ModuleType, exact: bool = False) -> Any:
        tensors = self.tensors(T, exact=exact)
        if self.way == "call":
            return self.case.fn(T, *tensors)
        result = method(self.case, tensors, "_")
        return tensors[0], tensors[0]._version, result is tensors[0]

    @property
    def label(self) -> str:
        operands = [
            f"{d}{list(a.shape)}, strides {t.stride()} from {t.storage_offset()}"
            for d, a, t in zip(self.dtypes, self.arrays, self.tensors(T), strict=True)
        ]
        return f"{self.number}: {self.case.name} ({self.way}) of {'; '.join(operands)}"


# ---------------------------------------------------------------- drawing


def draw(seed: int, number: int) -> Combination:
    rng = np.random.default_rng((seed, number))
    case = TABLE[rng.integers(len(TABLE))]
    way = "in place" if "i" in case.forms and rng.random() < 0.25 else "call"
    shapes = draw_shapes(case, rng)
    dtypes = draw_dtypes(case, rng)[: len(shapes)]  # a form of the case may have fewer operands
    may_repeat = not case.name.startswith(ANY_OF_EQUALS + MATRICES)
    layouts = tuple(
        draw_layout(case, s, rng, may_repeat and not (k == 0 and way != "call")) for k, s in enumerate(shapes)
    )
    arrays = tuple(
        how.fit(draw_values(case, k, s, d, rng)) for k, (s, d, how) in enumerate(zip(shapes, dtypes, layouts))
    )
    return Combination(number, case, dtypes, arrays, layouts, way)


def draw_dtypes(case: OpCase, rng: np.random.Generator) -> tuple[str, ...]:
    known = [d for d in case.dtypes if d != "bfloat16"]  # of which NumPy has no arrays to lay out
    weights = np.array([{"float64": 6.0, "float32": 4.0, "int64": 2.0}.get(d, 0.5) for d in known])
    pick = lambda: str(rng.choice(known, p=weights / weights.sum()))  # noqa: E731
    mixed = case.shapes == BINARY and case.dtypes == DTYPES and rng.random() < 0.15
    dtypes = [pick()] * case.arity if not mixed else [pick(), pick()]
    return tuple([(case.kinds[k] if k < len(case.kinds) else None) or d for k, d in enumerate(dtypes)])


def draw_shape(rng: np.random.Generator) -> Shape:
    if rng.random() < 0.05:
        return MANY[rng.integers(len(MANY))]
    while True:
        shape = tuple(int(n) for n in rng.choice(SIZES, rng.integers(0, 5)))
        if math.prod(shape) < 20_000:
            return shape


def draw_shapes(case: OpCase, rng: np.random.Generator) -> tuple[Shape, ...]:
    """Any shape, and of several operands some broadcast, where the table says that any will do; else one of the case's own with
    other sizes, the same for the same."""
    if case.name.startswith(FITTED):
        return case.shapes[rng.integers(len(case.shapes))]
    if case.shapes in (UNARY, BINARY, TERNARY, WHOLE_FIRST) or (case.arity == 1 and rng.random() < 0.3):
        whole = draw_shape(rng)
        first = case.shapes == WHOLE_FIRST
        return (whole,) * first + tuple(narrowed(whole, rng) for _ in range(case.arity - first))
    shapes = case.shapes[rng.integers(len(case.shapes))]
    while True:
        sizes = {n: n if rng.random() < 0.4 else int(rng.choice(SIZES)) for s in shapes for n in s}
        if rng.random() < 0.05 and sizes:
            sizes[int(rng.choice(list(sizes)))] = 8500
        drawn = tuple(tuple(sizes[n] if n != 1 else 1 for n in s) for s in shapes)
        if sum(math.prod(s) for s in drawn) < LIMIT:
            return drawn


def narrowed(shape: Shape, rng: np.random.Generator) -> Shape:
    """The shape, or one that broadcasts to it."""
    if rng.random() < 0.6:
        return shape
    return tuple(1 if rng.random() < 0.3 else n for n in shape[rng.integers(0, len(shape) + 1) :])


def draw_layout(case: OpCase, shape: Shape, rng: np.random.Generator, may_repeat: bool) -> Layout:
    rank = len(shape)
    plain = Layout(tuple(range(rank)), (0,) * rank, (1,) * rank, (False,) * rank)
    if rng.random() < 0.3 or case.name in CONTIGUOUS_ONLY:
        return plain
    order, starts, steps, expanded = plain.order, list(plain.starts), list(plain.steps), list(plain.expanded)
    if rng.random() < 0.5:
        order = tuple(int(d) for d in rng.permutation(rank))
    for d in range(rank):
        if rng.random() < 0.25:
            starts[d], steps[d] = int(rng.integers(0, 3)), int(rng.integers(1, 4))
        elif may_repeat and rng.random() < 0.1:
            expanded[d] = True
    return Layout(order, tuple(starts), tuple(steps), tuple(expanded))


def draw_values(case: OpCase, index: int, shape: Shape, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Values in the operand's domain, a little away from the kinks, and of floats no two the same."""
    low, high = case.domain[min(index, len(case.domain) - 1)]
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in INTS:
        low = max(low, np.iinfo(dtype).min)
        return rng.integers(int(np.ceil(low)), max(int(high), int(np.ceil(low))) + 1, shape).astype(dtype)
    n = math.prod(shape)
    values = low + (high - low) * (rng.permutation(n) + rng.uniform(0.1, 0.9, n)) / max(n, 1)
    for kink in case.kinks:
        near = np.abs(values - kink) < 0.1
        values = np.where(near, kink + np.sign(values - kink) * (0.1 + np.abs(values - kink)), values)
    return values.reshape(shape).astype(dtype)


# ---------------------------------------------------------------- comparing


def check(torch: ModuleType, c: Combination) -> str:
    """Raise AssertionError where the two differ; else what was compared: a value, its gradient too, or a refusal."""
    summed = c.case.tol * max(1.0, max(a.size for a in c.arrays) / 256)  # errors grow with what is added up
    tol = c.case.tol if c.case.elementwise else summed
    got, want = (outcome(lambda m=m: c.run(m)) for m in (T, torch))
    if isinstance(got, str) or isinstance(want, str):
        if isinstance(got, str) or not any(words in str(want) for words in REFUSED_THERE):
            assert settled(got) == settled(want), f"{c.label}: {got!r}, not {want!r}"
        return "refusal"
    # What is learned from a call serves the next of its kind.
    assert_same(outcome(lambda: c.run(T)), got, f"{c.label}, called again", tol)
    if {"float32", "float16"} & {str(getattr(w, "dtype", "")).removeprefix("torch.") for w in leaves(want)}:
        exact = outcome(lambda: c.run(torch, exact=True))
        check_low_precision(got, want, exact, magnitudes(torch, c), c)
    else:
        assert_same(got, want, c.label, tol)
    if c.case.strides and c.case.name not in SEVERAL_PRODUCTS:
        for g, w in zip(leaves(got), leaves(want), strict=True):
            if hasattr(w, "stride") and w.numel():
                a, b = ([s for s, n in zip(t.stride(), t.shape, strict=True) if n > 1] for t in (g, w))
                assert a == b, f"{c.label}: strides {g.stride()}, not {w.stride()}"
    if not (
        c.case.differentiable and c.way == "call" and set(c.dtypes) & {*FLOATS, "float16"} == {"float64"}
    ):
        return "value"
    if c.case.name in OVERFLOWING and set(c.dtypes) & set(INTS):
        return "value"
    if (
        c.case.name.startswith("pow") and c.dtypes[-1] == "bool"
    ):  # PyTorch's gradient subtracts from the exponent
        return "value"
    if c.case.name.startswith(ROOTS) and any((np.abs(array(w)) < 1e-12).any() for w in leaves(want)):
        return "value"
    grads = [outcome(lambda m=m: derive.gradients(m, c.case, c, create_graph=False)[0]) for m in (T, torch)]
    if isinstance(grads[0], str) or isinstance(grads[1], str):
        assert grads[0] == grads[1], f"{c.label}, gradient: {grads[0]!r}, not {grads[1]!r}"
        return "refusal"
    assert_same(grads[0], grads[1], f"{c.label}, gradient", 10 * summed)
    return "gradient"


def settled(outcome: Any) -> Any:
    """Which of several targets is named is a race between PyTorch's threads."""
    return re.sub(r"Target -?\d+", "A target", outcome) if isinstance(outcome, str) else outcome


def magnitudes(torch: ModuleType, c: Combination) -> list[Any]:
    """Of results that are sums of products of the operands, the sums of the absolute values of what is added up: however it is added,
    the error is some units in the last place of these."""
    if not c.case.name.startswith(SUMS):
        return []
    absolute = replace(c, arrays=tuple(np.abs(a) for a in c.arrays))
    return leaves(outcome(lambda: absolute.run(torch, exact=True)))


def check_low_precision(got: Any, want: Any, exact: Any, added: list[Any], c: Combination) -> None:
    """Close to torch's, or no farther than it from the result of the same numbers in float64, or as far as sums must be."""
    exact = leaves(exact) if not isinstance(exact, str) else leaves(want)
    for k, (g, w, x) in enumerate(zip(leaves(got), leaves(want), exact, strict=True)):
        name = str(getattr(w, "dtype", "")).removeprefix("torch.")
        if name not in ("float32", "float16"):
            assert_same(g, w, c.label, c.case.tol)
            continue
        assert str(g.dtype).removeprefix("torch.").removeprefix("nbgrad.") == name, f"{c.label}: {g.dtype}"
        assert tuple(g.shape) == tuple(w.shape), f"{c.label}: {tuple(g.shape)}, not {tuple(w.shape)}"
        a, b, true = (array(t).astype("float64") for t in (g, w, x))
        with np.errstate(all="ignore"):
            room = c.case.tol * (RTOL[name] * np.abs(true) + ATOL[name])
            if added:
                room = np.maximum(room, 4 * np.finfo(name).eps * np.abs(array(added[k]).astype("float64")))
            fine = (np.abs(a - true) <= 2 * np.abs(b - true) + room) | (np.abs(a - b) <= room)
        fine |= (a == b) | (np.isnan(a) & np.isnan(b))
        worst = np.unravel_index(np.argmin(fine), fine.shape) if fine.size else ()
        assert fine.all(), f"{c.label}: {a[worst]} at {worst}, torch {b[worst]}, exactly {true[worst]}"


def run(
    torch: ModuleType,
    seed: int,
    first: int,
    combinations: int,
    tell: Callable[[str], Any] = lambda text: None,
) -> tuple[Counter[str], list[str]]:
    """How many of each kind were compared, and the text of each difference, which `tell` gets at once."""
    counts: Counter[str] = Counter()
    differences = []
    for number in range(first, first + combinations):
        c = draw(seed, number)
        try:
            counts[check(torch, c)] += 1
        except AssertionError as error:
            differences.append(str(error))
            tell(str(error))
    return counts, differences


def main() -> int:
    import torch

    parser = argparse.ArgumentParser(prog="tests.stress", description=__doc__)
    parser.add_argument("--combinations", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    warnings.simplefilter("error")
    torch.set_warn_always(True)
    counts, differences = run(
        torch, asked.seed, asked.first, asked.combinations, lambda text: print(text, end="\n\n", flush=True)
    )
    print(", ".join(f"{n} {what}" for what, n in counts.items()), f"and {len(differences)} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
