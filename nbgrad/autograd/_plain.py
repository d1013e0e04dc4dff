"""Plain functions on the tape: a call of a `differentiable` with a tensor is one op, whose gradient is a call of its adjoint.

Promises the tape what it has of every op: what backward reads is saved with its version, and the gradient is recorded where it is asked
for, as the adjoint is such a function again. Within the op nothing is written to a tensor: arrays that a function writes go in as
copies and come out as results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from nbgrad import adjoints
from nbgrad.adjoints.api import Made, derived, flat_names, kind_of
from nbgrad.adjoints.lower import Kind
from nbgrad.autograd.function import Function
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import dtype, float32, float64
from nbgrad.ops.make.data import from_numpy, tensor
from nbgrad.ops.views.join import stack


class Differentiable(adjoints.Differentiable):
    """A plain function with its derivatives, of numbers, NumPy arrays and tensors; `differentiable` makes it."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        given = self._bound(args, named)
        if not any(isinstance(a, Tensor) for a in self._flat(given)):
            return super().__call__(*args, **named)
        kinds = tuple(kind_of(_plain(a), name) for name, a in zip(self.names, given))
        made = self._make("primal", kinds, None)
        flat = self._flat(given)
        for name, a in zip(made.program.params, flat):
            if isinstance(a, Tensor) and name in made.written:
                raise RuntimeError(
                    f"{self.function.__name__}(): {name} is a tensor, and the function writes to it (pass an array, or return one)"
                )
        found = _Call.apply(self, kinds, *flat)
        results = found[: len(made.program.results)]
        for a, out in zip(
            [a for n, a in zip(made.program.params, flat) if n in made.written], found[len(results) :]
        ):
            a[...] = out.detach().numpy()
        return results[0] if made.program.single and results else tuple(results) if results else None


class _Call(Function):
    """The results of a function and the arrays that it writes, from copies of these."""

    @staticmethod
    def forward(f: Differentiable, kinds: tuple[Kind, ...], *flat: Any) -> Any:
        made = f._make("primal", kinds, None)
        p = made.program
        given = [_array(a) for a in flat]
        given = [a.copy() if n in made.written else a for n, a in zip(p.params, given)]
        f._check_apart(made, given)
        found = made(*given)
        listed = list(found) if isinstance(found, tuple) else [] if found is None else [found]
        of = _dtype(flat)
        written = [a for n, a in zip(p.params, given) if n in made.written]
        return tuple([_tensor(r, of, given) for r in listed] + [from_numpy(a) for a in written])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        f, kinds, *flat = inputs
        tensors = [a for a in flat if isinstance(a, Tensor)]
        ctx.f, ctx.kinds = f, kinds
        # Arrays have no version: what is kept of them is a copy.
        ctx.rest = [
            None if isinstance(a, Tensor) else np.copy(a) if isinstance(a, np.ndarray) else a for a in flat
        ]
        ctx.places = [k for k, a in enumerate(flat) if isinstance(a, Tensor)]
        ctx.dtypes = [a.dtype for a in tensors]
        ctx.mark_non_differentiable(*[t for t in output if not t.dtype.is_floating_point])
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any, **_: Any) -> Any:
        f, kinds, flat = ctx.f, ctx.kinds, _restored(ctx)
        names = f._make("primal", kinds, None).program.params
        wrt = tuple(
            names[k] for k in ctx.places if ctx.needs_input_grad[k + 2] and flat[k].dtype.is_floating_point
        )
        made = f._make("adjoint", kinds, wrt)
        p = made.program
        n = len(p.results)
        of_written = dict(zip(made.written, grads[n:]))
        bars = [
            of_written[name] if name in of_written else np.zeros(tuple(a.shape), _numpy_dtype(a))
            for name, a in zip(p.params, flat)
            if name in made.bars
        ]
        seeds = [g if g is not None and g.dtype.is_floating_point else 0.0 for g in grads[:n]]
        results, after = _called(derived(made, f), [*flat, *bars, *seeds])
        by_name = dict(zip([w for w in made.wrt if w not in p.arrays], results[n:]))
        own = derived(made, f).names[len(p.params) :]  # what the bars are called there
        by_name |= {name: after.get(bar, given) for name, bar, given in zip(made.bars, own, bars)}
        out: list[Any] = [None] * (len(flat) + 2)
        for k, of in zip(ctx.places, ctx.dtypes):
            if names[k] in by_name and names[k] in made.wrt:
                g = by_name[names[k]]
                g = g if isinstance(g, Tensor) else from_numpy(g)
                out[k + 2] = g if g.dtype is of else g.to(of)
        return tuple(out)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any, **_: Any) -> Any:
        f, kinds, flat = ctx.f, ctx.kinds, _restored(ctx)
        names = f._make("primal", kinds, None).program.params
        moving = {names[k]: t for k, t in enumerate(tangents[2:]) if isinstance(t, Tensor)}
        made = f._make("tangent", kinds, tuple(moving))
        p = made.program
        given = [
            moving[n] if n in moving else np.zeros(tuple(a.shape), _numpy_dtype(a))
            for n, a in zip(p.params, flat)
            if n in made.bars
        ]
        results, after = _called(derived(made, f), [*flat, *given])
        n = len(p.results)
        own = dict(zip(made.bars, derived(made, f).names[len(p.params) :]))
        moved = [t if t.dtype.is_floating_point else None for t in results[n:]]
        return tuple(
            moved + [after.get(own.get(name, "")) for name in f._make("primal", kinds, None).written]
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        f, _, *flat = args
        dims = in_dims[2:]
        rows = []
        for i in range(info.batch_size):
            one = [a if d is None else a.select(d, i) for a, d in zip(flat, dims)]
            rows.append(_Call.apply(f, _kinds(one), *one))
        return tuple(stack(list(column)) for column in zip(*rows)), (0,) * len(rows[0])


def _called(f: Any, flat: Sequence[Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Results, and the arrays that were written by their names."""
    kinds = _kinds(flat)
    found = _Call.apply(f, kinds, *flat)
    made = f._make("primal", kinds, None)
    n = len(made.program.results)
    return found[:n], dict(zip(made.written, found[n:]))


def _kinds(flat: Sequence[Any]) -> tuple[Kind, ...]:
    return tuple(kind_of(_plain(a)) for a in flat)


def _restored(ctx: Any) -> list[Any]:
    flat = list(ctx.rest)
    for k, t in zip(ctx.places, ctx.saved_tensors):
        flat[k] = t
    return flat


def _plain(a: Any) -> Any:
    """What an argument is to the function: of a tensor, something of its dtype and dimensions."""
    if isinstance(a, tuple):
        items = [_plain(i) for i in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if not isinstance(a, Tensor):
        return a
    made = np.empty((0,) * a.ndim, _numpy_dtype(a))
    return made if a.ndim else made.item()


def _numpy_dtype(a: Any) -> Any:
    return np.dtype(str(a.dtype).rpartition(".")[2]) if isinstance(a, Tensor) else a.dtype


def _array(a: Any) -> Any:
    """A tensor's values; of one without dimensions, its number."""
    if not isinstance(a, Tensor):
        return a
    return a.detach().numpy() if a.ndim else a.item()


def _dtype(flat: Sequence[Any]) -> dtype:
    """What numbers among the results are: float32 where no argument is float64."""
    floats = [_numpy_dtype(a) for a in flat if isinstance(a, Tensor | np.ndarray)]
    floats = [d for d in floats if d.kind == "f"]
    return float32 if floats and all(d.itemsize == 4 for d in floats) else float64


def _tensor(r: Any, of: dtype, given: Sequence[Any]) -> Tensor:
    if isinstance(r, np.ndarray):
        shared = any(isinstance(a, np.ndarray) and np.may_share_memory(a, r) for a in given)
        return from_numpy(r.copy() if shared or not r.flags.writeable else r)
    return tensor(float(r), dtype=of) if isinstance(r, float | np.floating) else tensor(r)


def differentiable(
    function: Callable[..., Any] | None = None,
    *,
    policy: str = "auto",
    wrt: Sequence[str] | None = None,
    wraparound: bool = True,
) -> Any:
    """A plain function of numbers and arrays, in Numba's language, with its derivatives: `grad`, `value_and_grad`, `vjp`, `jvp`, `hvp`,
    `jacobian`, `hessian`, and `adjoint` and `tangent`, which are such functions again, of a text that can be read (`adjoint_source`).

    Where an argument is a tensor, a call is an op: `backward`, `create_graph`, `func.grad`, `vmap` and modules work as with any.
    `policy` says how loops give their values to the reverse sweep: saved ("store"), computed again turn by turn ("rerun"), or as suits
    the loop ("auto"); `wrt` names the parameters that gradients are wanted of; without `wraparound` no index is negative.

    >>> import numpy as np, nbgrad
    >>> @nbgrad.differentiable
    ... def above(x, a):
    ...     s = 0.0
    ...     for v in x:
    ...         if v > a:
    ...             s += (v - a) ** 2
    ...     return s
    >>> value, (slopes, by_a) = above.value_and_grad(np.array([1.0, 2.0, 4.0]), 1.5)
    >>> float(value), slopes.tolist(), float(by_a)
    (6.5, [0.0, 1.0, 5.0], -6.0)
    >>> x = nbgrad.tensor([1.0, 2.0, 4.0], requires_grad=True)
    >>> above(x, 1.5).backward()
    >>> x.grad
    tensor([0., 1., 5.])
    """
    if function is None:
        return partial(differentiable, policy=policy, wrt=wrt, wraparound=wraparound)
    return Differentiable(function, policy, wrt, wraparound)


__all__ = ["Differentiable", "Made", "differentiable", "flat_names"]
