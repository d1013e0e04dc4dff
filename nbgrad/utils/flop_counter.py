"""How many multiplications and additions a program does, PyTorch's `torch.utils.flop_counter`: those of products of matrices, of
convolutions and of attention, by module.

>>> from torch.utils.flop_counter import FlopCounterMode
>>> x = torch.ones(2, 3, requires_grad=True)
>>> with FlopCounterMode(display=False) as counter:
...     nn.Linear(3, 4)(x).sum().backward()
>>> counter.get_total_flops()
144
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import wraps
from math import prod
from typing import Any, Self
from warnings import warn

from nbgrad._aten.operators import aten
from nbgrad._ops import OpOverloadPacket
from nbgrad.core.pytree import tree_flatten, tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.utils._python_dispatch import TorchDispatchMode
from nbgrad.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

Shape = Sequence[int]
flop_registry: dict[Any, Any] = {}


def get_shape(i: Any) -> Any:
    """The shape of a tensor; what is none as it is."""
    return i.shape if isinstance(i, Tensor) else i


def shape_wrapper(f: Callable[..., int]) -> Callable[..., int]:
    """A formula of shapes, which takes tensors."""

    @wraps(f)
    def of_tensors(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes, named, out = tree_map(get_shape, (args, kwargs, out_val))
        return f(*shapes, out_shape=out, **named)

    return of_tensors


def register_flop_formula(
    targets: Any, get_raw: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Count operators (`torch.ops.mylib.foo`, or several) by a formula, which gets the shapes of their arguments and `out_shape`; with
    `get_raw` the arguments themselves and `out_val`."""

    def register(formula: Callable[..., Any]) -> Callable[..., Any]:
        if not get_raw:
            formula = shape_wrapper(formula)
        for target in tree_flatten(targets)[0]:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. torch.ops.mylib.foo), "
                    f"JitFunction, or HigherOrderOperator, got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula
        return formula

    return register


@register_flop_formula(aten.mm)
def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    """Two for each element of each row with each column."""
    (m, k), (k2, n) = a_shape, b_shape
    if k != k2:
        raise AssertionError(f"matmul: inner dimensions must match (k == k2), got {k} and {k2}")
    return m * n * 2 * k


@register_flop_formula(aten.addmm)
def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Those of the product."""
    return mm_flop(a_shape, b_shape)


@register_flop_formula(aten.bmm)
def bmm_flop(a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any) -> int:
    """Those of each product."""
    (b, m, k), (b2, k2, n) = a_shape, b_shape
    if b != b2:
        raise AssertionError(f"bmm: batch dimensions must match (b == b2), got {b} and {b2}")
    if k != k2:
        raise AssertionError(f"bmm: inner dimensions must match (k == k2), got {k} and {k2}")
    return b * m * n * 2 * k


@register_flop_formula(aten.baddbmm)
def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, out_shape: Any = None, **kwargs: Any
) -> int:
    """Those of the products."""
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """Two for each weight at each place that it is laid on: of the result, or, transposed, of the input."""
    channels_out, channels_in, *taps = w_shape
    places = (x_shape if transposed else out_shape)[2:]
    return prod(places) * prod(taps) * x_shape[0] * channels_out * channels_in * 2


@register_flop_formula([aten.convolution, aten._convolution])
def conv_flop(
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    """Those of a convolution, without its bias."""
    return conv_flop_count(x_shape, w_shape, out_shape, transposed=transposed)


@register_flop_formula(aten.convolution_backward)
def conv_backward_flop(
    grad_out_shape: Shape,
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    _output_padding: Any,
    _groups: int,
    output_mask: Sequence[bool],
    out_shape: Any,
    **kwargs: Any,
) -> int:
    """The input's gradient is a convolution the other way; the weights' is one of the input with the gradient in their place."""

    def turned(shape: Shape) -> list[int]:
        return [shape[1], shape[0], *shape[2:]]

    count = 0
    if output_mask[0]:
        count += conv_flop_count(grad_out_shape, w_shape, out_shape[0], not transposed)
    if output_mask[1]:
        pair = (grad_out_shape, x_shape) if transposed else (x_shape, grad_out_shape)
        count += conv_flop_count(turned(pair[0]), turned(pair[1]), turned(out_shape[1]))
    return count


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Those of both products of an attention."""
    b, h, s_q, d_q = query_shape
    b2, h2, s_k, d2 = key_shape
    b3, h3, s3, d_v = value_shape
    if not (b == b2 == b3 and h2 == h3 and d_q == d2 and s_k == s3):
        raise AssertionError(
            f"sdpa_flop_count: query/key/value shapes are incompatible: q={query_shape}, k={key_shape}, v={value_shape}"
        )
    if h < h2 or h % h2:
        raise AssertionError(
            f"sdpa_flop_count: query heads ({h}) must be a multiple of key/value heads ({h2})"
        )
    scores = bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k))
    return scores + bmm_flop((b * h, s_q, s_k), (b * h, s_k, d_v))


def sdpa_backward_flop_count(
    grad_out_shape: Shape, query_shape: Shape, key_shape: Shape, value_shape: Shape
) -> int:
    """Those of the scores once more, and of the two gradients of each product."""
    b, h, s_q, d_q = query_shape
    s_k, d_v = key_shape[2], value_shape[3]
    scores = bmm_flop((b * h, s_q, d_q), (b * h, d_q, s_k))
    return scores + 2 * bmm_flop((b * h, s_q, d_v), (b * h, d_v, s_k)) + 2 * scores


def normalize_tuple(x: Any) -> tuple[Any, ...]:
    return x if isinstance(x, tuple) else (x,)


suffixes = ["", "K", "M", "B", "T"]


def get_suffix_str(number: int) -> str:
    """The suffix of a number of up to some four digits before the point: 1.01B is told as 1010M."""
    return suffixes[max(0, min(len(suffixes) - 1, (len(str(number)) - 2) // 3))]


def convert_num_with_suffix(number: int, suffix: str) -> str:
    """A number in units of what a suffix stands for."""
    return f"{number / 1000 ** suffixes.index(suffix):.3f}{suffix}"


def convert_to_percent_str(num: int, denom: int) -> str:
    """A share in percent."""
    return f"{num / denom:.2%}" if denom else "0%"


class FlopCounterMode:
    """Within it, floating-point operations are counted; at its end a table of them is shown, by module down to `depth`, unless
    `display` is false. `custom_mapping` gives operators formulas.

    As in PyTorch, what is counted are the operators of `flop_registry`: attention by the CPU's kernel is none of them, nor are layers
    that are one operator, such as an LSTM.
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mode: _FlopCounterMode | None = None
        if mods is not None:
            warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        given = (custom_mapping or {}).items()
        self.flop_registry = flop_registry | {
            op: f if getattr(f, "_get_raw", False) else shape_wrapper(f) for op, f in given
        }
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self) -> int:
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """By module, by operator."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The table as a text: each module's sum, then its operators."""
        depth = depth or self.depth or 999999
        total = self.get_total_flops()
        suffix = get_suffix_str(total)

        def rows(name: str, indent: int) -> list[list[str]]:
            counts = self.flop_counts[name]
            lines = [("", name, sum(counts.values())), *[(" - ", str(op), n) for op, n in counts.items()]]
            return [
                [
                    " " * indent + mark + text,
                    convert_num_with_suffix(n, suffix),
                    convert_to_percent_str(n, total),
                ]
                for mark, text, n in lines
            ]

        names = [n for n in sorted(self.flop_counts) if n != "Global" and n.count(".") < depth]
        found = [row for name in names for row in rows(name, name.count("."))]
        whole = any([sum(self.flop_counts[n].values()) >= total for n in names])
        if "Global" in self.flop_counts and not whole:
            found = rows("Global", 0) + [[" " + row[0], *row[1:]] for row in found]
        return _table(found or [["Global", "0", "0%"]], ["Module", "FLOP", "% Total"])

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _FlopCounterMode(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *args: Any) -> None:
        if self.mode is None:
            raise AssertionError("Internal error: FlopCounter.__exit__ called but mode is None")
        self.mode.__exit__(*args)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def _count_flops(self, packet: Any, out: Any, args: Any, kwargs: Any) -> Any:
        formula = self.flop_registry.get(packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in set(self.mod_tracker.parents):
                self.flop_counts[name][packet] += count
        return out


def _table(rows: list[list[str]], header: list[str]) -> str:
    """As `tabulate` lays it out: the first column to the left, the others to the right, numbers without zeros at their end."""
    rows = [[cell.strip() for cell in row] for row in rows]
    if all([row[1].replace(".", "").isdigit() for row in rows]):
        rows = [[row[0], f"{float(row[1]):g}", *row[2:]] for row in rows]
    widths = [max(*map(len, column), len(h) + 2) for column, h in zip(zip(*rows), header)]

    def line(cells: Sequence[str]) -> str:
        first, *others = [c.rjust(w) if k else c.ljust(w) for k, (c, w) in enumerate(zip(cells, widths))]
        return "  ".join([first, *others])

    return "\n".join([line(header), "  ".join(["-" * w for w in widths]), *map(line, rows)])


class _FlopCounterMode(TorchDispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        self.counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        return self.counter._count_flops(func.overloadpacket, func(*args, **given), args, given)
