"""Products of several tensors: sums over the dimensions that they share, chains of matrices, powers, and products of vectors.

All come down to the products of `products`, so their gradients are made of those.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from nbgrad.base.tables import PLANS, cached
from nbgrad.base.warn import warn_once
from nbgrad.core.signatures import check, kind_name
from nbgrad.core.tensor import Tensor, hooks, wrap
from nbgrad.dispatch.elementwise import into, no_overlap
from nbgrad.dispatch.prepared import call_of, prepared_several, settled_by
from nbgrad.dispatch.quick import quickly, replayed
from nbgrad.dispatch.return_types import EXPECTED
from nbgrad.dispatch.stanza import method
from nbgrad.kernels.cpu import cross as _crossing
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.linear.products import _bmm, _dot, _mm, _unsafe_view
from nbgrad.ops.pointwise.arithmetic import mul
from nbgrad.ops.pointwise.operators import add
from nbgrad.ops.reduce.sums import sum as _sum
from nbgrad.ops.views.join import _checked
from nbgrad.ops.views.order import _permute, movedim
from nbgrad.ops.views.shape import _view, reshape, unsqueeze
from nbgrad.ops.views.slices import diagonal

_bytes = np.dtype(np.uint8)

# ---------------------------------------------------------------- two tensors, over dimensions that they share

Step = Callable[[Tensor], Tensor]


def _after(steps: Sequence[Step], t: Tensor) -> Tensor:
    for step in steps:
        t = step(t)
    return t


def _permuting(dims: Ints) -> list[Step]:
    """Nothing where all dimensions stay."""
    return [] if dims == tuple(range(len(dims))) else [lambda t: _permute(t, dims=dims)]


def _reshaping(shape: Ints, to: Ints) -> list[Step]:
    return [] if shape == to else [lambda t: reshape(t, to)]


def _summing(dims: Ints, keepdim: bool) -> list[Step]:
    return [lambda t: _sum(t, dims, keepdim)] if dims else []


def _contraction(a: Ints, b: Ints, over: Sequence[int]) -> tuple[Callable[[Tensor, Tensor], Tensor], Ints]:
    """What multiplies tensors of these shapes and sums over dimensions, which stay with size 1; and the result's shape. Both have all
    dimensions, of size 1 where they lack one."""
    sums = [d for d in over if a[d] != 1 and b[d] != 1]
    alone = [d for d in over if d not in sums]
    first: list[Step] = []
    second: list[Step] = []
    for steps, shape in ((first, a), (second, b)):
        steps += _summing(tuple([d for d in alone if shape[d] != 1]), True)
    a, b = (tuple([1 if d in alone else n for d, n in enumerate(shape)]) for shape in (a, b))
    if not sums:
        return lambda x, y: mul(_after(first, x), _after(second, y)), layout.broadcast_shapes(a, b)
    rest = [d for d in range(len(a)) if d not in over]
    left = [d for d in rest if a[d] != 1 and b[d] == 1]
    right = [d for d in rest if a[d] == 1 and b[d] != 1]
    if left and right and right[-1] < left[-1]:  # the other way round the result needs no turning
        turned, found = _contraction(b, a, over)
        return lambda x, y: turned(_after(second, y), _after(first, x)), found
    both = [d for d in rest if d not in left and d not in right]
    batch, rows, inner = (math.prod([a[d] for d in dims]) for dims in (both, left, sums))
    columns = math.prod([b[d] for d in right])
    for steps, shape, dims, to in (
        (first, a, (*both, *left, *sums, *right, *alone), (batch, rows, inner)),
        (second, b, (*both, *sums, *right, *left, *alone), (batch, inner, columns)),
    ):
        steps += _permuting(dims) + _reshaping(tuple([shape[d] for d in dims]), to)
    order = (*both, *left, *right, *over)
    shape = tuple([1 if d in over else b[d] if d in right else a[d] for d in order])
    back = tuple([order.index(d) for d in range(len(a))])
    last = _reshaping((batch, rows, columns), shape) + _permuting(back)
    found = tuple([shape[d] for d in back])
    return lambda x, y: _after(last, _bmm(_after(first, x), _after(second, y))), found


# ---------------------------------------------------------------- einsum


def _subscripts(numbers: Sequence[Any]) -> str:
    """Labels given as numbers, and as PyTorch does an ellipsis among them."""
    letters = []
    for n in numbers:
        if n is Ellipsis:
            letters.append("...")
        elif 0 <= n < 52:
            letters.append(chr(ord("A") + n) if n < 26 else chr(ord("a") + n - 26))
        else:
            raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return "".join(letters)


def _equation_of(args: tuple[Any, ...]) -> tuple[str, Sequence[Tensor]]:
    if len(args) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if isinstance(args[0], Tensor):
        equation = ",".join(_subscripts(s) for s in args[1::2])
        if len(args) % 2:
            equation = ",".join(_subscripts(s) for s in args[1:-1:2]) + "->" + _subscripts(args[-1])
        return equation, args[:-1:2] if len(args) % 2 else args[::2]
    if not isinstance(args[0], str):
        raise TypeError(
            f"einsum(): argument 'equation' (position 1) must be str, not {type(args[0]).__name__}"
        )
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    if not operands:
        return _equation_of(())
    for k, t in enumerate(operands):
        if not isinstance(t, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 1, but got {type(t).__name__}")
    return args[0], operands


def _refuse_letter(equation: str, at: int) -> None:
    raise RuntimeError(
        f"einsum(): invalid subscript given at index {at} in the equation string, subscripts must be in [a-zA-Z]"
    )


def _parsed(equation: str) -> tuple[list[list[str]], list[str] | None]:
    """The labels of each operand and of the result; an ellipsis is one label."""
    left, arrow, right = equation.partition("->")
    terms: list[list[str]] = [[]]
    at = 0
    while at < len(left):
        c = left[at]
        if c == ",":
            terms.append([])
        elif c == ".":
            if "..." in terms[-1]:
                raise RuntimeError(
                    f"einsum(): found '.' for operand {len(terms) - 1} for which an ellipsis was already found"
                )
            if left[at : at + 3] != "...":
                raise RuntimeError(
                    f"einsum(): found '.' for operand {len(terms) - 1} that is not part of any ellipsis"
                )
            terms[-1].append("...")
            at += 2
        elif c.isascii() and c.isalpha():
            terms[-1].append(c)
        elif c != " ":
            _refuse_letter(equation, at)
        at += 1
    if not arrow:
        return terms, None
    result: list[str] = []
    at = 0
    while at < len(right):
        c = right[at]
        if c == ".":
            if "..." in result:
                raise RuntimeError("einsum(): found '.' for output but an ellipsis (...) was already found")
            if right[at : at + 3] != "...":
                raise RuntimeError("einsum(): found '.' for output that is not part of any ellipsis (...)")
            result.append("...")
            at += 2
        elif c.isascii() and c.isalpha():
            if c in result:
                raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
            result.append(c)
        elif c != " ":
            _refuse_letter(equation, len(left) + 2 + at)
        at += 1
    return terms, result


@quickly(devices=True)
def einsum(*args: Any) -> Tensor:
    """Sums of products after Einstein's rule: `equation` gives each operand's dimensions letters, and after `->` those of the result; a
    letter that is missing there is summed over. Without `->` the result has the letters that stand once, in alphabetical order. `...`
    stands for any dimensions, which are broadcast. Lists of ints after each operand may take the equation's place.

    >>> torch.einsum("ij,kj->ik", torch.tensor([[1, 2], [3, 4]]), torch.tensor([[1, 1], [0, 1]]))
    tensor([[3, 2],
            [7, 4]])
    >>> torch.einsum("ii", torch.tensor([[1, 2], [3, 4]]))
    tensor(5)
    """
    if len(args) == 3 and args[0].__class__ is str and args[1].__class__ is args[2].__class__ is Tensor:
        pair = _pair(args[0], args[1]._spec.shape, args[2]._spec.shape)
        if pair is not None:
            return pair(*args[1:])
    equation, operands = _equation_of(args)
    return _einsum(equation, tuple([t._spec.shape for t in operands]))(operands)


@cached(PLANS)
def _einsum(equation: str, shapes: tuple[Ints, ...]) -> Callable[[Sequence[Tensor]], Tensor]:
    """What computes it of operands of these shapes."""
    terms, result = _parsed(equation)
    if len(shapes) != len(terms):
        few = "fewer" if len(shapes) < len(terms) else "more"
        raise RuntimeError(f"einsum(): {few} operands were provided than specified in the equation")
    wide = _ellipsis_size(terms, shapes)
    if result is None:
        counts = [c for term in terms for c in term if c != "..."]
        dots = ["..."] if any("..." in term for term in terms) else []
        result = dots + sorted(c for c in set(counts) if counts.count(c) == 1)
    dots = [f".{k}" for k in range(wide)]  # the dimensions of an ellipsis, aligned at the last
    labels: list[str] = list(itertools.chain.from_iterable(dots if c == "..." else [c] for c in result))
    known = {c for term in terms for c in term}
    for c in result:
        if c not in known and c != "...":
            raise RuntimeError(
                f"einsum(): output subscript {c} does not appear in the equation for any input operand"
            )
    kept = len(labels)
    for term in terms:
        for c in dots if "..." in term and "..." not in result else []:
            labels += [c] if c not in labels else []
    labels += [c for c in dict.fromkeys(c for term in terms for c in term) if c not in labels and c != "..."]
    sizes: dict[str, int] = {}
    aligned = [
        _aligned(tuple(shape), term, dots, labels, sizes, k)
        for k, (shape, term) in enumerate(zip(shapes, terms))
    ]
    return _summed(aligned, kept)


@cached(PLANS)
def _pair(equation: str, first: Ints, second: Ints) -> Callable[[Tensor, Tensor], Tensor] | None:
    """Of two operands that share what is summed, the one product that it comes to; None where it is more than that, or refused."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    a, _, b = left.partition(",")
    result = right if arrow else "".join(sorted(c for c in {*a, *b} if (c in a) != (c in b)))
    terms = ((a, first), (b, second), (result, None))
    if any([len({*t}) < len(t) or not (t.isascii() and (t.isalpha() or not t)) for t, _ in terms]):
        return None
    if len(a) != len(first) or len(b) != len(second) or not {*result} <= {*a, *b}:
        return None
    sizes = dict(zip(b, second))
    if any([sizes.setdefault(c, n) != n for c, n in zip(a, first)]):
        return None
    sums = [c for c in a if c in b and c not in result]
    if not sums or any([(c in a) != (c in b) and c not in result for c in sizes]):
        return None
    both = [c for c in result if c in a and c in b]
    rows, columns = [c for c in result if c not in b], [c for c in result if c not in a]
    turned = bool(rows and columns) and result.index(columns[-1]) < result.index(rows[-1])
    if turned:  # the other way round the result needs no turning
        a, b, rows, columns = b, a, columns, rows

    def size(letters: Sequence[str]) -> int:
        return math.prod([sizes[c] for c in letters])

    def arranged(own: str, order: Sequence[str], shape: Ints) -> Callable[[Tensor], Tensor]:
        dims = tuple([own.index(c) for c in order])
        ready = dims == tuple(range(len(own)))
        there = shape == tuple([sizes[c] for c in order])

        def arrange(t: Tensor) -> Tensor:
            t = t if ready else _permute(t, dims=dims)
            return t if there else reshape(t, shape)

        return arrange

    batch, order = size(both), [*both, *rows, *columns]
    read_x = arranged(a, [*both, *rows, *sums], (batch, size(rows), size(sums)))
    read_y = arranged(b, [*both, *sums, *columns], (batch, size(sums), size(columns)))
    shape = tuple([sizes[c] for c in order])
    dims = tuple([order.index(c) for c in result])
    in_order = dims == tuple(range(len(order)))
    last = tuple([sizes[c] for c in result])

    def multiply(x: Tensor, y: Tensor) -> Tensor:
        found = _bmm(read_x(y), read_y(x)) if turned else _bmm(read_x(x), read_y(y))
        if not in_order:
            found = _permute(reshape(found, shape), dims=dims)
        return _view(found, shape=last)

    return multiply


def _ellipsis_size(terms: Sequence[Sequence[str]], shapes: Sequence[Ints]) -> int:
    wide = 0
    for k, (term, ndim) in enumerate(zip(terms, map(len, shapes))):
        named = sum(c != "..." for c in term)
        if "..." in term:
            if named > ndim:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number of dimensions "
                    f"({ndim}) for operand {k}"
                )
            wide = max(wide, ndim - named)
        elif named != ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions "
                f"({ndim}) for operand {k} and no ellipsis was given"
            )
    return wide


def _diagonal_of(first: int, second: int) -> Step:
    return lambda t: movedim(diagonal(t, 0, first, second), -1, first)


def _aligned(
    shape: Ints,
    term: Sequence[str],
    dots: Sequence[str],
    labels: Sequence[str],
    sizes: dict[str, int],
    k: int,
) -> tuple[list[Step], Ints]:
    """How an operand gets a dimension for every label, in their order, and its shape then; a label that it has twice is a diagonal."""
    hidden = len(shape) - sum(c != "..." for c in term)
    own: list[str] = list(
        itertools.chain.from_iterable(dots[len(dots) - hidden :] if c == "..." else [c] for c in term)
    )
    steps: list[Step] = []
    for c in dict.fromkeys(own):
        while own.count(c) > 1:
            first = own.index(c)
            second = own.index(c, first + 1)
            a, b = shape[first], shape[second]
            if a != b:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand {k} but the sizes don't match, {b} != {a}"
                )
            steps.append(_diagonal_of(first, second))
            shape = (*shape[:second], *shape[second + 1 :])
            del own[second]
    for c, n in zip(own, shape):
        seen = sizes.get(c, 1)
        if n != 1 and seen not in (1, n):
            name = "..." if c.startswith(".") else c
            raise RuntimeError(
                f"einsum(): subscript {name} has size {n} for operand {k} which does not broadcast with previously seen "
                f"size {seen}"
            )
        sizes[c] = n if n != 1 else seen
    steps += _permuting(tuple([own.index(c) for c in labels if c in own]))
    wide = tuple([shape[own.index(c)] if c in own else 1 for c in labels])
    if len(own) < len(labels):
        steps.append(lambda t: _view(t, shape=wide))
    return steps, wide


def _summed(operands: Sequence[tuple[list[Step], Ints]], kept: int) -> Callable[[Sequence[Tensor]], Tensor]:
    """Contracted from left to right; a dimension is summed where the last operand that has it comes in."""
    (steps, shape), *rest = operands
    over = list(range(kept, len(shape)))
    if not rest:
        as_it_is = tuple(range(len(shape)))
        steps += _summing(tuple(over), False)
        if not steps:  # a view, and not the operand
            steps.append(lambda t: _permute(t, dims=as_it_is))
        return lambda tensors: _after(steps, tensors[0])
    pairs = []
    for k, (further, other) in enumerate(rest, 2):
        now = [d for d in over if all([later[d] == 1 for _, later in operands[k:]])]
        over = [d for d in over if d not in now]
        multiply, shape = _contraction(shape, other, now)
        pairs.append((further, multiply))
    last = _reshaping(shape, shape[:kept])

    def run(tensors: Sequence[Tensor]) -> Tensor:
        out = _after(steps, tensors[0])
        for (further, multiply), t in zip(pairs, tensors[1:]):
            out = multiply(out, _after(further, t))
        return _after(last, out)

    return run


# ---------------------------------------------------------------- tensordot, kron


def _shared_dims(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if isinstance(dims, Tensor) and dims.numel() > 1:
        if dims.shape[0] != 2:
            raise AssertionError(f"dims tensor must have size 2 in first dimension, got {dims.shape[0]}")
        return dims[0].tolist(), dims[1].tolist()
    if isinstance(dims, Tensor):
        count = int(dims.item())
        if count < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        return list(range(-count, 0)), list(range(count))
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        return list(range(-dims, 0)), list(range(dims))
    if not isinstance(dims, (list, tuple)):
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    first, second = dims
    return first, second


_TENSORDOT_OUT = (
    "tensordot: Expected the output tensor to have dtype {want}, but got an output tensor with dtype {got}"
)


@quickly(devices=True)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """The sum of products over some dimensions of both: `dims` is how many, the last ones of `a` with the first ones of `b`, or two lists,
    those of `a` and those of `b`. The shape is what is left of `a`, then of `b`.

    >>> torch.tensordot(torch.ones(3, 4, 5), torch.ones(4, 3, 2), dims=([1, 0], [0, 1])).shape
    torch.Size([5, 2])
    """
    first, second = _shared_dims(a, b, dims)
    check("inner.tensordot", (a, b, first, second), {} if out is None else {"out": out})
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    if a.dtype is not b.dtype:
        raise RuntimeError("both inputs should have same dtype")
    result = _tensordot(a._spec.shape, b._spec.shape, tuple(first), tuple(second))(a, b)
    return result if out is None else into("tensordot", out, result, (a, b), _TENSORDOT_OUT)


@cached(PLANS)
def _tensordot(a: Ints, b: Ints, first: Ints, second: Ints) -> Callable[[Tensor, Tensor], Tensor]:
    """What computes it of tensors of these shapes, which have one dtype."""
    over_a, over_b = ([layout.wrap_dim(d, len(n)) for d in o] for o, n in ((first, a), (second, b)))
    for over in (over_a, over_b):
        for at in over:
            if over.count(at) > 1:
                raise RuntimeError(f"dim {at} appears multiple times in the list of dims")
    alone: tuple[list[int], list[int]] = [], []
    for d, k, at, bt in zip(first, second, over_a, over_b):
        n, m = a[at], b[bt]
        if n != m and 1 not in (n, m):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {d} and second has size {m} in dim {k}"
            )
        if n != m:
            (alone[0] if m == 1 else alone[1]).append(at if m == 1 else bt)
    read_a, read_b = ([_summing_one(d) for d in dims] for dims in alone)
    a, b = (tuple([1 if d in dims else n for d, n in enumerate(shape)]) for dims, shape in zip(alone, (a, b)))
    left = [d for d in range(len(a)) if d not in over_a]
    right = [d for d in range(len(b)) if d not in over_b]
    rows, columns = tuple([a[d] for d in left]), tuple([b[d] for d in right])
    inner, plain = math.prod([a[d] for d in over_a]), not (rows or columns)
    read_a += _permuting((*left, *over_a)) + _reshaping(
        (*rows, *[a[d] for d in over_a]), (inner,) if plain else (math.prod(rows), inner)
    )
    read_b += _permuting((*over_b, *right)) + _reshaping(
        (*[b[d] for d in over_b], *columns), (inner,) if plain else (inner, math.prod(columns))
    )
    multiply, shape = _dot if plain else _mm, (*rows, *columns)
    return lambda x, y: reshape(multiply(_after(read_a, x), _after(read_b, y)), shape)


def _summing_one(dim: int) -> Step:
    return lambda t: _sum(t, dim, True, dtype=t.dtype)


def _need_tensor(name: str, word: str, position: int, t: Any) -> None:
    if not isinstance(t, Tensor):
        raise TypeError(
            f"{name}(): argument '{word}' (position {position}) must be Tensor, not {type(t).__name__}"
        )


@cached(PLANS)
def _kron(first: Ints, second: Ints) -> tuple[Ints, Ints, Ints]:
    """The shapes in which they are multiplied, and that of the result."""
    ndim = max(len(first), len(second))
    a, b = ((1,) * (ndim - len(shape)) + tuple(shape) for shape in (first, second))
    read_x, read_y = ([*itertools.chain(*pairs)] for pairs in (zip(a, [1] * ndim), zip([1] * ndim, b)))
    return tuple(read_x), tuple(read_y), tuple([n * m for n, m in zip(a, b)])


@method
@quickly(devices=True)
@replayed
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Kronecker's product: each element of `input` times all of `other`, as blocks in its place. The sizes multiply.

    >>> torch.kron(torch.tensor([[1, 2]]), torch.tensor([[1, 1], [0, 1]]))
    tensor([[1, 1, 2, 2],
            [0, 1, 0, 2]])
    """
    _need_tensor("kron", "other", 2, other)
    read_x, read_y, shape = _kron(input._spec.shape, other._spec.shape)
    result = _unsafe_view(mul(reshape(input, read_x), reshape(other, read_y)).contiguous(), shape)
    return result if out is None else into("kron", out, result, (input, other), apart=(input, other))


# ---------------------------------------------------------------- chains and powers of matrices


def _best_split(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to part the chain of matrices i..j for the fewest multiplications."""
    n = len(sizes) - 1
    cost = {(k, k): 0 for k in range(n)}
    at: dict[tuple[int, int], int] = {}
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            costs = [
                cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)
            ]
            cost[i, j] = min(costs)
            at[i, j] = i + costs.index(min(costs))
    return at


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of two or more matrices, in the order that takes the fewest multiplications. The first one may be a vector, a row, and
    the last one a vector, a column.

    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
    tensor([12., 12.])
    """
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(
            "linalg_multi_dot(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    result = _chain(tensors)
    return result if out is None else into("linalg_multi_dot", out, result, tensors)


def _chain(tensors: Sequence[Tensor]) -> Tensor:
    steps, before, behind, shape = _steps_of(*[t._spec for t in tensors])
    chain = list(tensors)
    if before:
        chain[0] = unsqueeze(chain[0], 0)
    if behind:
        chain[-1] = unsqueeze(chain[-1], -1)
    for left, right in steps:  # each product stands where its first factor stood
        chain[left] = _mm(chain[left], chain[right])
    return _view(chain[0], shape=shape)


@cached(PLANS)
def _steps_of(*specs: Spec) -> tuple[list[tuple[int, int]], bool, bool, tuple[int, ...]]:
    """Which products there are, one after another, whether the first is a row and the last a column, and the result's shape."""
    n = len(specs)
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    first, *_, last = specs
    for word, sp in (("first", first), ("last", last)):
        if sp.ndim not in (1, 2):
            raise RuntimeError(f"multi_dot(): the {word} tensor must be 1D or 2D but got {sp.ndim}D")
    for k, sp in enumerate(specs):
        if 0 < k < n - 1 and sp.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {k} must be 2D but got {sp.ndim}D")
        if sp.dtype is not first.dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {first.dtype.c_name} and tensor {k} "
                f"{sp.dtype.c_name}"
            )
    sizes = [tuple(sp.shape) for sp in specs]
    chain = [(1, *sizes[0]) if first.ndim == 1 else sizes[0], *sizes[1:-1]]
    chain.append((*sizes[-1], 1) if last.ndim == 1 else sizes[-1])
    for k, (a, b) in enumerate(itertools.pairwise(chain)):
        if a[1] != b[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {k} and {k + 1} with shapes {list(sizes[k])} and {list(sizes[k + 1])} cannot be multiplied"
            )
    split = _best_split([chain[0][0], *[rows_columns[1] for rows_columns in chain]])
    steps: list[tuple[int, int]] = []

    def product(i: int, j: int) -> None:
        if i < j:
            middle = split[i, j]
            product(i, middle)
            product(middle + 1, j)
            steps.append((i, middle + 1))

    product(0, n - 1)
    return steps, first.ndim == 1, last.ndim == 1, (*sizes[0][:-1], *sizes[-1][1:])


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of matrices in the order that takes the fewest multiplications: the older form of `linalg.multi_dot`, of matrices only,
    and better written so:

    >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)])
    tensor([[12.],
            [12.]])
    """

    warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters."
    )
    _checked("chain_matmul", matrices)
    if out is not None and not isinstance(out, Tensor):
        raise TypeError(f"chain_matmul(): argument 'out' must be Tensor, not {kind_name(out)}")
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for t in matrices:
        if t.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {t.ndim}, expected 2 instead.")
    result = matrices[0] if len(matrices) == 1 else _chain(matrices)
    return result if out is None else into("chain_matmul", out, result, matrices)


# ---------------------------------------------------------------- products of vectors


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """The sum of products along `dim`, of tensors that broadcast: a batch of `vdot`. The gradient of each is `g` times the other.

    >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 10.0]))
    tensor([21., 43.])
    """
    if not x.dtype.inexact:
        raise RuntimeError(
            f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {x.dtype.scalar_name}"
        )
    if x.dtype is not y.dtype:
        raise RuntimeError(
            f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {x.dtype.scalar_name} and y of "
            f"type {y.dtype.scalar_name} instead"
        )
    result = x.vdot(y) if x.ndim == y.ndim == 1 else _sum(mul(hooks.conj(x), y), dim)
    return result if out is None else into("linalg_vecdot", out, result, (x, y))


def _cross_each(has: Sequence[bool], input: Tensor, other: Tensor, dim: int) -> tuple[Tensor]:
    """`dim` counts from the end, and all have as many dimensions."""
    return _cross(*[t if h else unsqueeze(t, 0) for h, t in zip(has, (input, other))], dim=dim)


def _cross_moved(
    input: Tensor, other: Tensor, input_t: Tensor | None, other_t: Tensor | None, dim: int
) -> tuple[Tensor]:
    parts = [_cross(input_t, other, dim=dim)[0]] if input_t is not None else []
    parts += [_cross(input, other_t, dim=dim)[0]] if other_t is not None else []
    return (reduce(add, parts),)


@prepared_several(
    "LinalgCross",
    tangent=_cross_moved,
    batch=_cross_each,
    input=lambda g, other, input_spec, dim: hooks.sum_to(_cross(other, g, dim=dim)[0], input_spec.shape),
    other=lambda g, input, other_spec, dim: hooks.sum_to(_cross(g, input, dim=dim)[0], other_spec.shape),
)
def _cross(input: Spec, other: Spec, *, dim: int) -> Callable[..., tuple[Tensor]]:
    """`dim` counts from the end."""
    d = input.dtype
    shape = tuple(layout.broadcast_shapes(input.shape, other.shape))
    out = spec(d, shape, None, input.device)
    every = [out.strides] + [layout.broadcast_strides(sp.shape, sp.strides, shape) for sp in (input, other)]
    at = len(shape) + dim
    rows, meta = layout.by_rows(shape[:at] + shape[at + 1 :], *[(*st[:at], *st[at + 1 :]) for st in every])
    source, signature = _crossing.cross(d.code, d.kind)
    address = out.backend.kernel(f"cross_{d.code}", source, signature).address
    launch = out.backend.launch(4, "", out.numel if rows > 1 else rows, out.numel < FEW)
    how = out.backend.constants([*meta, *[st[at] for st in every]])
    nbytes, allocate = out.nbytes, out.allocate

    def run(a: Tensor, b: Tensor) -> tuple[Tensor]:
        buf = allocate(nbytes, _bytes)
        launch(address, rows, how, buf, a._buf, b._buf)
        return (wrap(buf, out),)

    return run


@settled_by("other")
def linalg_cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Any:
    """The cross product of vectors of 3 along `dim`, of tensors that broadcast. The gradients are `cross(other, g)` and `cross(g, input)`.

    >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    d = _crossed(input, other, dim)
    if out is None:
        return call_of(_cross, input, other, dim=d)
    no_overlap(out, input, other)
    return into("linalg_cross", out, _cross(input, other, dim=d)[0], (input, other), EXPECTED)


def _crossed(input: Tensor, other: Tensor, dim: int) -> int:
    """The dimension, counted from the end."""
    if input.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = layout.wrap_dim(dim, input.ndim)
    if input.shape[d] != 3 or other.shape[d] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[d]} and {other.shape[d]}"
        )
    layout.broadcast_shapes(input._spec.shape, other._spec.shape)
    if input.dtype is dtypes.bool_:
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {other.dtype.scalar_name}"
        )
    return d - input.ndim


@method
@settled_by("other")
def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Any:
    """The cross product of vectors of 3 along `dim`, or, where none is given, along the first dimension of size 3. The gradients are
    `cross(other, g)` and `cross(g, input)`.

    >>> torch.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]), dim=0)
    tensor([0., 0., 1.])
    """
    if dim is None:
        warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a "
            "future release."
        )
        dim = next((d for d, n in enumerate(input.shape) if n == 3), None)
        if dim is None:
            raise RuntimeError("no dimension of size 3 in input")
        return linalg_cross(
            input, other, dim=dim, out=out
        )  # and the next call may have to be warned of again
    if out is not None:
        return linalg_cross(input, other, dim=dim, out=out)
    return call_of(_cross, input, other, dim=_crossed(input, other, dim))


__all__ = ["chain_matmul", "cross", "einsum", "kron", "tensordot"]
