"""A recurrent layer on a device, step by step: the product of the state, and then what follows in each hidden unit.

Promises `recurrent.py` what its plan for the CPU does in one launch: outputs, states and what a gradient reads, in memory that lies alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from nbgrad.core.tensor import Tensor, wrap
from nbgrad.kernels.cpu.recurrent import cells
from nbgrad.kernels.cuda import recurrent as kernels
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops.linear.products import _mm, _mm_nt

Run = Callable[..., Any]
_by_rows, _by_columns = _mm.run, _mm_nt.run  # type: ignore[attr-defined]


class Steps:
    """`batch` sequences begin at rows `starts` of the steps; `units` are hidden, the state has `length` elements."""

    def __init__(
        self, kind: str, h: Spec, w_hh: Spec, w_hr: Spec | None, starts: Ints, reverse: bool, kept: bool
    ) -> None:
        code, backend, cell = h.dtype.code, h.backend, cells()[kind]
        self.h, self.starts, self.reverse, self.kept, self.backend = h, starts, reverse, kept, backend
        self.length, self.gates, self.projected = h.shape[1], w_hh.shape[0], w_hr is not None
        self.units = self.gates // len(cell.gates)
        meta = backend.constants([self.units, self.length])

        def made(name: str, found: kernels.Code) -> Run:
            source, codes = found
            kernel = backend.kernel(f"{kind}_{name}_{code}", source, codes)
            launches: dict[int, Run] = {}

            def run(n: int, row: int, *memories: Any) -> None:
                launch = launches.get(n) or launches.setdefault(n, backend.launch(len(codes) - 2, "q", n))
                launch(kernel.address, n, meta, *memories, row)

            return run

        name = "projected_step" if self.projected else "step"
        self._forward = made(name, kernels.forward(kind, code, self.projected, kept))
        if kept:
            self._backward = made(f"{name}_backward", kernels.backward(kind, code, self.projected))
            self._added = made("step_added", kernels.moved(code, False))
            self._arrived = made("step_arrived", kernels.moved(code, True))

    def _turns(self, reverse: bool) -> Iterator[tuple[int, int]]:
        """At which row each step begins, and how many it has."""
        pairs = list(zip(self.starts, self.starts[1:]))
        for first, last in reversed(pairs) if reverse else pairs:
            if last > first:
                yield first, last - first

    def _copy(self, to: Any, source: Any, rows: int) -> None:
        self.backend.copy(to, source, rows * self.length * self.h.itemsize)

    def _rows(self, t: Tensor, first: int, count: int, width: int) -> Tensor:
        """So many rows of a tensor that has them one below the other."""
        at = first * width * self.h.itemsize
        memory = self.backend.view(t._buf, at) if at else t._buf
        return wrap(memory, self.h.like((count, width), None))

    def forward(
        self,
        y: Tensor,
        last: Tensor,
        carried: Tensor,
        gates: Tensor,
        more: Tensor,
        before: Tensor,
        hidden: Tensor,
        h: Tensor,
        c: Tensor,
        w_hh: Tensor,
        bias: Tensor,
        w_hr: Tensor | None,
    ) -> None:
        self.backend.copy(last._buf, h._buf, last._spec.nbytes)
        self.backend.copy(carried._buf, c._buf, carried._spec.nbytes)
        memories = [t._buf for t in (y, last, carried, gates, more, before, hidden)]
        for row, count in self._turns(self.reverse):
            u = _by_columns(self._rows(last, 0, count, self.length), w_hh)
            if w_hr is not None and self.kept:
                self._copy(self._rows(before, row, count, self.length)._buf, last._buf, count)
            self._forward(count * self.units, row, *memories, u._buf, bias._buf)
            if w_hr is not None:
                made = _by_columns(self._rows(hidden, row, count, self.units), w_hr)._buf
                self._copy(self._rows(y, row, count, self.length)._buf, made, count)
                self._copy(last._buf, made, count)

    def backward(self, tensors: Sequence[Tensor], w_hh: Tensor, w_hr: Tensor | None) -> None:
        """`tensors` are gradients that are written, those that arrive, and what `forward` has kept."""
        by_x, by_u, by_h, by_c, arrived, g_y, g_h, g_c, gates, more, before = tensors
        self.backend.copy(by_h._buf, g_h._buf, by_h._spec.nbytes)
        self.backend.copy(by_c._buf, g_c._buf, by_c._spec.nbytes)
        memories = [t._buf for t in (by_x, by_u, by_h, by_c, g_y, gates, more, before)]
        for row, count in self._turns(not self.reverse):
            given = by_h
            if w_hr is not None:
                self._arrived(count * self.length, row, arrived._buf, by_h._buf, g_y._buf)
                given = _by_rows(self._rows(arrived, row, count, self.length), w_hr)
            self._backward(count * self.units, row, *memories, given._buf)
            t = _by_rows(self._rows(by_u, row, count, self.gates), w_hh)
            self._added(count * self.length, 0, by_h._buf, t._buf)
