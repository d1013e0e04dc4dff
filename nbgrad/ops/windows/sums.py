"""Sums over windows: what average pooling and resampling are, and their gradients, which are sums over the same windows seen from the
elements. A `Taps` says for one dimension which elements each result reads, and with what weight; several dimensions multiply.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.prepared import Run, prepared
from nbgrad.kernels.cpu import resample as templates
from nbgrad.kernels.launch import FEW
from nbgrad.memory.layout import Ints, channels_last_strides, contiguous_format, suggested_format
from nbgrad.memory.storage import Spec
from nbgrad.ops.rows.softmax import _all_have
from nbgrad.ops.views.copy import zeros
from nbgrad.ops.windows.extremes import check_gradient, from_dense, laid_by, lies_together, planes

_Array = np.ndarray[Any, Any]


Windows: TypeAlias = tuple[_Array, _Array, _Array | None]


class Taps:
    """The windows of one dimension: the k-th result reads the elements from `first[k]` up to `last[k]` of `size` ones. `how` says what is
    made of them, as in `kernels/cpu/resample.py`: `numbers` are the divisors of results ("mean"), or of elements
    ("shared"), or a row of weights for each result. The three are asked for when they are read: a shape alone needs none."""

    def __init__(self, how: str, size: int, outs: int, windows: Callable[[], Windows]) -> None:
        self.how, self.size, self.outs, self._ask = how, size, outs, windows

    @cached_property
    def _windows(self) -> Windows:
        first, last, numbers = self._ask()
        # Where a window is empty, it lies where the one before it ends: a row is walked once.
        last = np.maximum.accumulate(last) if last.size else last
        return np.where(last > first, first, last), last, numbers

    @property
    def first(self) -> _Array:
        return self._windows[0]

    @property
    def last(self) -> _Array:
        return self._windows[1]

    @property
    def numbers(self) -> _Array | None:
        return self._windows[2]

    @cached_property
    def back(self) -> Taps:
        """The same windows seen from the elements: which results read each of them."""
        how = {"mean": "shared", "shared": "mean"}.get(self.how, self.how)
        return Taps(how, self.outs, self.size, self._from_elements)

    def _from_elements(self) -> Windows:
        counts = self.last - self.first
        results = np.repeat(np.arange(self.outs), counts)
        within = np.arange(len(results)) - np.repeat(np.cumsum(counts) - counts, counts)
        elements = np.repeat(self.first, counts) + within
        first, last = np.full(self.size, self.outs), np.zeros(self.size, np.int64)
        np.minimum.at(first, elements, results)
        np.maximum.at(last, elements, results + 1)
        numbers = self.numbers
        if self.how == "weighted" and numbers is not None:
            width = int(np.max(last - first, initial=1))
            given, numbers = numbers, np.zeros((self.size, max(width, 1)))
            numbers[elements, results - first[elements]] = given[results, within]
        return first, last, numbers

    def table(self, before: int) -> _Array:
        """As a kernel reads it; `before` weights precede its own."""
        columns = [self.first, self.last]
        if self.how == "mean" and self.numbers is not None:
            columns.append(self.numbers)
        elif self.how == "weighted" and self.numbers is not None:
            columns.append(before + np.arange(self.outs) * self.numbers.shape[1])
        return np.stack(columns, 1)

    def parts(self) -> list[int]:
        """How a row of results is cut so that what a part reads has room: which results, and what they read; one that reads more has
        several parts."""
        found: list[int] = []
        first, last, k = self.first.tolist(), self.last.tolist(), 0
        while k < self.outs:
            begin, end = first[k], k + 1
            while end < self.outs and last[end] - begin <= templates.ROOM:
                end += 1
            stop = last[end - 1]
            for at in range(begin, max(stop, begin + 1), templates.ROOM):
                found += [k, end, at, min(stop, at + templates.ROOM)]
            k = end
        return found

    def picks(self) -> _Array | None:
        """For each result what it reads, if that is little; what it lacks is read behind the end."""
        width = int(np.max(self.last - self.first, initial=0))
        if not 0 < width <= templates.FEW or self.size >= templates.ROOM:
            return None
        elements = self.first[:, None] + np.arange(width)
        return np.where(elements < self.last[:, None], elements, self.size)


def _one(how: str) -> Taps:
    """A dimension that is missing."""
    numbers = {"plain": None, "weighted": np.ones((1, 1))}.get(how, np.ones(1, np.int64))
    return Taps(how, 1, 1, lambda: (np.zeros(1, np.int64), np.ones(1, np.int64), numbers))


def _summed(input: Spec, taps: tuple[Taps, ...], formats: Ints = ()) -> Run:
    how = taps[0].how
    out = planes(input, tuple([t.outs for t in taps]))
    if not input.backend.holds:
        return from_dense(input, lambda _: empty(out), (out,), formats)
    three = [_one(how)] * (3 - len(taps)) + list(taps)
    code, kind = input.dtype.code, input.dtype.kind
    if not input.dtype.is_floating_point:
        kind = "f4" if how == "weighted" else "i8"
    # What is only copied keeps the sign of a zero.
    copied = how == "plain" and kind[0] == "f" and all([(t.last > t.first).all() for t in three])
    together = input.dtype.is_floating_point and input.ndim == len(taps) + 2 and lies_together(input, formats)
    picks = None if together else three[2].picks()
    width, zero = 0 if picks is None else picks.shape[1], "-0.0" if copied else "0"
    if together:
        source, params = templates.together(how, code, kind, zero)
        out = out.like(strides=channels_last_strides(tuple(out.shape)))
    else:
        source, params = templates.sums(how, code, kind, zero, width)
    form = "_together" if together else f"_of{width}" if width else ""
    name = f"window_{how}_{code}{'_signed' * copied}{form}"
    address = input.backend.kernel(name, source, params).address
    tables, before, weights = [], 0, []
    for t in three:
        tables.append(t.table(before))
        if how == "weighted" and t.numbers is not None:
            weights.append(t.numbers.reshape(-1))
            before += weights[-1].size
    parts = np.array(three[2].parts(), np.int64) if picks is None else picks.reshape(-1)
    blocks = [t.reshape(-1) for t in tables] + [parts]
    if how == "shared":
        blocks += [t.numbers for t in three if t.numbers is not None]
    places, at = [], 14
    for block in blocks:
        places.append(at)
        at += block.size
    sizes = [t.size for t in three] + [t.outs for t in three]
    head = [
        *sizes,
        *places[:3],
        input.shape[1] if together else places[3],
        len(parts) // 4,
        *(places[4:] or (0, 0, 0)),
    ]
    meta = input.backend.constants([*head, *np.concatenate(blocks).tolist()])
    more: tuple[Any, ...] = ()
    if weights:
        held = np.concatenate(weights).astype("f8" if kind == "f8" else "f4")
        more = (input.backend.from_host(held.view(np.uint8)),)
    rows = out.numel // max(taps[-1].outs * (input.shape[1] if together else 1), 1)
    launch = input.backend.launch(
        3 + len(more), "", max(out.numel, input.numel) if rows > 1 else rows, input.numel < FEW > out.numel
    )

    def run(t: Tensor) -> Tensor:
        got = empty(out)
        launch(address, rows, meta, got._buf, t._buf, *more)
        return got

    return run if together else from_dense(input, run, (out,), formats)


_runner = cached(4096)(_summed)


def _turned(taps: tuple[Taps, ...]) -> tuple[Taps, ...]:
    return tuple([t.back for t in taps])


def sums(node_name: str, back_formats: Ints = (4, 5)) -> Callable[..., Any]:
    """`op(input, taps=)` over the last dimensions, for each a `Taps`; its gradient is one as well, and both have a node's name. Of inputs
    of so many dimensions the gradient's channels lie last where the incoming one's do."""

    def made(name: str, other: Callable[[], Callable[..., Any]], formats: Ints) -> Callable[..., Any]:
        @prepared(
            name,
            tangent=LINEAR,
            batch=lambda x, taps: op(x, taps=taps),
            input=lambda g, taps: other()(g, taps=_turned(taps)),
        )
        def op(input: Spec, *, taps: tuple[Taps, ...]) -> Run:
            return _summed(input, taps, formats)

        return op

    there = made(node_name, lambda: back, (4, 5))
    back = made(f"{node_name}Backward", lambda: there, back_formats)
    return there


def sums_of_saved(node_name: str, wants_some: str = "") -> Callable[..., Any]:
    """The same where, as in PyTorch, the gradient is an op of the input too: one that does not depend on it, and that, where it has a
    name by which it refuses, wants some."""

    def rule(g: Tensor, input: Tensor, taps: tuple[Taps, ...]) -> Any:
        if wants_some:
            check_gradient(wants_some, g)
        return back(g, input, taps=_turned(taps))

    @differentiable(
        f"{node_name}Backward",
        raw=True,
        tangent=lambda grad_t, input, taps: (None if grad_t is None else back(grad_t, input, taps=taps),),
        batch=lambda has, *tensors, taps: back(*_all_have(has, *tensors), taps=taps),
        grad=lambda g, taps: there(g, taps=_turned(taps)),
        input=lambda input_spec: zeros(input_spec.dense()),
    )
    def back(grad: Tensor, input: Tensor, *, taps: tuple[Taps, ...]) -> Tensor:
        lies = suggested_format(tuple(input.shape), input._spec.strides)
        made = _runner(grad._spec, taps, () if lies is contiguous_format else (4,))(grad)
        return laid_by(input, made, (4,)) if made._spec.contiguous else made

    @prepared(
        node_name,
        tangent=LINEAR,
        batch=lambda x, taps: there(x, taps=taps),
        input=rule,
    )
    def there(input: Spec, *, taps: tuple[Taps, ...]) -> Run:
        return _summed(input, taps, (4,))

    made: Callable[..., Any] = there
    return made
