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
from nbgrad.adjoints.analyse import Policy
from nbgrad.adjoints.api import Made, derived
from nbgrad.adjoints.ir import (
    Expr,
    Extent,
    Grow,
    Load,
    Name,
    Program,
    Span,
    View,
    arranged,
    parts,
    statements,
)
from nbgrad.adjoints.kinds import flat_names, kind_of, of_each
from nbgrad.adjoints.lower import Kind, Known, PartialOf, TupleOf
from nbgrad.adjoints.ops import kind as kind_of_value
from nbgrad.adjoints.spread import expression
from nbgrad.adjoints.text import Lines, function_text
from nbgrad.autograd.function import Function
from nbgrad.base.switches import recorded
from nbgrad.core.tensor import Tensor, wrap
from nbgrad.expr import node as expr
from nbgrad.kernels import functions
from nbgrad.memory import dtypes
from nbgrad.memory.dtypes import dtype, float32, float64
from nbgrad.memory.storage import Batched, spec
from nbgrad.ops.make.data import from_numpy, tensor
from nbgrad.ops.pointwise.parts import complex as complex_of
from nbgrad.ops.views.copy import zeros
from nbgrad.ops.views.join import stack
from nbgrad.ops.views.parts import imag, real


class Differentiable(adjoints.Differentiable):
    """A plain function with its derivatives, of numbers, NumPy arrays and tensors; `differentiable` makes it."""

    def __call__(self, *args: Any, **named: Any) -> Any:
        given = self._bound(args, named)
        if any(isinstance(a, expr.Expr) for a in self._flat(given)):  # in the body of an elementwise function
            return self._spread(given)
        if not any(isinstance(a, Tensor) for a in self._flat(given)):
            return self._value(given)
        kinds = tuple(kind_of(_plain(a), name) for name, a in zip(self.names, given))
        made = self._make("primal", kinds, None)
        flat = self._flat([of_each(_apart, a) for a in given] if made.pairs else given)
        for name, a in zip(made.program.params, flat):
            if isinstance(a, Tensor) and name in made.written:
                raise RuntimeError(
                    f"{self.function.__name__}(): {name} is a tensor, and the function writes to it (pass an array, or return one)"
                )
        if made.program.draws:
            found = self._of_drawn(kinds, given, flat)
        else:
            found = _Call.apply(self, kinds, *flat)
        results = found[: len(made.program.results)]
        for a, out in zip(
            [a for n, a in zip(made.program.params, flat) if n in made.written], found[len(results) :]
        ):
            a[...] = out.detach().numpy()
        return arranged(made.program.form, results, complex_of)

    def _of_drawn(self, kinds: tuple[Kind, ...], given: Sequence[Any], flat: Sequence[Any]) -> Any:
        """Numbers of np.random are drawn first, and the op is that of the function which takes them as an array."""
        if any(isinstance(a, Tensor) and type(a._buf) is Batched for a in flat):
            raise adjoints.Refused(
                f"{self.function.__name__}() draws numbers, which is not taken inside vmap (draw before, and pass them as an argument)"
            )
        made = self._make("given", kinds, None)
        with_drawn = self._with_drawn(made, [of_each(_array, a) for a in given], flat)
        return _Call.apply(derived(made, self), _kinds(with_drawn), *with_drawn)

    def _spread(self, given: Sequence[Any]) -> Any:
        """The function of expressions, as one."""
        kinds = tuple(kind_of(_number(a), name) for name, a in zip(self.names, given))
        return expression(self._make("primal", kinds, None).program, self._flat(given))


def _apart(a: Any) -> Any:
    """Of a complex tensor, its real and imaginary part."""
    return (real(a), imag(a)) if isinstance(a, Tensor) and a.dtype.is_complex else a


def _number(a: Any) -> Any:
    """Of an expression, a number such as it stands for."""
    return of_each(lambda x: (False if expr.is_bool(x) else 0.0) if isinstance(x, expr.Expr) else x, a)


class _Call(Function):
    """The results of a function and the arrays that it writes, from copies of these."""

    @staticmethod
    def forward(f: Differentiable, kinds: tuple[Kind, ...], *flat: Any) -> Any:
        made = f._make("primal", kinds, None)
        p = made.program
        if recorded.work is not None and (noted := _noted(f, made, flat)) is not None:
            return noted
        given = [_array(a) for a in flat]
        given = [a.copy() if n in made.written else a for n, a in zip(p.params, given)]
        f._check_apart(made, given)
        found = made(*given)
        listed = list(found) if isinstance(found, tuple) else [] if found is None else [found]
        of = _dtype(flat)
        written = [a for n, a in zip(p.params, given) if n in made.written]
        # Each tensor has memory of its own: a write to one would be one to the other, unseen by its version.
        apart = [_tensor(r, of, [*given, *listed[:k]]) for k, r in enumerate(listed)]
        return tuple(apart + [from_numpy(a) for a in written])

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
        ctx.mark_non_differentiable(*[t for t in output if not t.dtype.inexact])
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any, **_: Any) -> Any:
        f, kinds, flat = ctx.f, ctx.kinds, _restored(ctx)
        names = f._make("primal", kinds, None).program.params
        wrt = tuple(names[k] for k in ctx.places if ctx.needs_input_grad[k + 2] and flat[k].dtype.inexact)
        made = f._make("adjoint", kinds, wrt)
        p = made.program
        n = len(p.results)
        of_written = dict(zip(made.written, grads[n:]))
        bars = [
            of_written[name] if name in of_written else _zeros(a)
            for name, a in zip(p.params, flat)
            if name in made.bars
        ]
        seeds = [g if g is not None and g.dtype.inexact else 0.0 for g in grads[:n]]
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
        given = [moving[n] if n in moving else _zeros(a) for n, a in zip(p.params, flat) if n in made.bars]
        results, after = _called(derived(made, f), [*flat, *given])
        n = len(p.results)
        own = dict(zip(made.bars, derived(made, f).names[len(p.params) :]))
        moved = [t if t.dtype.inexact else None for t in results[n:]]
        return tuple(
            moved + [after.get(own.get(name, "")) for name in f._make("primal", kinds, None).written]
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        f, kinds, *flat = args
        dims = in_dims[2:]
        made = f._make("primal", kinds, None)
        numbers = [
            not isinstance(r, View) and kind_of_value(r, made.program.kinds, made.program.arrays) == "float"
            for r in made.program.results
        ]
        if all(numbers) and not any(isinstance(k, TupleOf | Known | PartialOf) for k in kinds):
            many = [
                _repeated(a, info.batch_size)
                if d is None and n in made.written
                else a
                if d is None
                else a.movedim(d, 0)
                for n, a, d in zip(made.program.params, flat, dims)
            ]
            split = tuple(d is not None or n in made.written for n, d in zip(made.program.params, dims))
            each = _each(f, made, split, str(_dtype(flat)).rpartition(".")[2])
            given = [info.batch_size, *many]
            found = _Call.apply(each, _kinds(given), *given)
            return found, (0,) * len(found)
        rows = []
        for i in range(info.batch_size):
            one = [a if d is None else a.select(d, i) for a, d in zip(flat, dims)]
            rows.append(_Call.apply(f, kinds, *one))
        return tuple(stack(list(column)) for column in zip(*rows)), (0,) * len(rows[0])


class _Work:
    """A call as who records it can do it again: from the values of tensors, and numbers, to those of others."""

    def __init__(self, made: Made, flat: Sequence[Any]) -> None:
        self.made = made
        self.tensors = [isinstance(a, Tensor) for a in flat]
        self.given = [a for a in flat if not isinstance(a, Tensor)]
        # Of one that is watched by who records, what it is now.
        self.numbers = [a if isinstance(a, int) else float.__add__(a, 0.0) for a in self.given]
        self.written = [k for k, n in enumerate(made.program.params) if n in made.written]
        self.key = made, tuple(self.tensors)
        self.title = made.name

    def done(self, arrays: Sequence[Any], numbers: Sequence[Any]) -> None:
        """The results and what is written go to the arrays behind those that are taken."""
        taken = sum(self.tensors)
        outs = arrays[len(arrays) - len(self.written) :] if self.written else ()
        for out, r in zip(arrays[taken:], self.called(arrays[:taken], outs, numbers)):
            if np.shape(r) != out.shape:
                raise RuntimeError(
                    f"{self.title} gave a result of shape {np.shape(r)} in place of {out.shape}"
                )
            out[...] = r

    def called(self, taken: Sequence[Any], outs: Sequence[Any], numbers: Sequence[Any]) -> Sequence[Any]:
        """The results; what is written goes to `outs`."""
        one, number = iter(taken), iter(numbers)
        given = [next(one) if is_tensor else next(number) for is_tensor in self.tensors]
        for out, k in zip(outs, self.written):
            out[...] = given[k]
            given[k] = out
        found = self.made.compiled(
            *[a.item() if isinstance(a, np.ndarray) and not a.ndim else a for a in given]
        )
        return found if isinstance(found, tuple) else () if found is None else (found,)


def _noted(f: Differentiable, made: Made, flat: Sequence[Any]) -> tuple[Tensor, ...] | None:
    """The results, where the call is recorded as a launch: if it is of tensors and numbers alone, and their values decide no shape."""
    p = made.program
    if not all((isinstance(a, Tensor) and a._spec.numel) or isinstance(a, float | int) for a in flat):
        return None
    scalars = {n for n, a in zip(p.params, flat) if isinstance(a, Tensor)}
    if any(isinstance(r, View) and not _settled(p, r, scalars) for r in p.results):
        return None
    work = _Work(made, flat)
    takes = [a for a in flat if isinstance(a, Tensor)]
    taken = [dtypes.values(a._buf, a._spec.dtype, a._spec.shape, a._spec.strides) for a in takes]
    written = [flat[k]._spec.dense() for k in work.written]
    outs = [np.empty(sp.shape, sp.dtype.np) for sp in written]
    found = work.called(taken, outs, work.numbers)
    of, device = _dtype(flat), takes[0]._spec.device
    for r in found:
        if isinstance(r, np.ndarray) and not (r.flags.c_contiguous and r.size):
            return None
    kinds = [_dtype_of(r, of) for r in found]
    arrays = [np.array(r, d.np) for r, d in zip(found, kinds)] + outs
    specs = [spec(d, np.shape(r), None, device) for r, d in zip(found, kinds)] + written
    gives = [wrap(a.reshape(-1).view(np.uint8), sp) for a, sp in zip(arrays, specs)]
    return tuple(gives) if recorded.work is not None and recorded.work(work, takes, gives) else None


def _dtype_of(r: Any, of: dtype) -> dtype:
    """What a result is as a tensor."""
    if isinstance(r, np.ndarray):
        return dtypes.from_numpy_dtype(r.dtype)
    return (
        of
        if isinstance(r, float | np.floating)
        else dtypes.bool_
        if isinstance(r, bool | np.bool_)
        else dtypes.int64
    )


def _settled(p: Program, r: View, tensors: set[str]) -> bool:
    """Whether how long the axes of a result are depends on no number that is in a tensor."""
    grown = {s.base for s in statements(p.body) if isinstance(s, Grow)}

    def known(e: Expr) -> bool:
        if isinstance(e, Name):
            return (
                e.name not in tensors
                if e.name in p.params
                else e.name in p.defined and known(p.defined[e.name])
            )
        if isinstance(e, Extent):
            return of(e.base)
        return not isinstance(e, Load) and all(map(known, parts(e)))

    def of(base: str) -> bool:
        extents = p.arrays[base].extents
        return base not in grown and (base in p.params or (extents is not None and all(map(known, extents))))

    return of(r.base) and all(known(a.length) for a in r.axes if isinstance(a, Span) and a.length is not None)


def _zeros(a: Any) -> Any:
    """What the gradient of an array begins with."""
    if recorded.work is not None and isinstance(a, Tensor):
        return zeros(a._spec.dense())
    return np.zeros(tuple(a.shape), _numpy_dtype(a))


def _each(f: Differentiable, made: Made, split: tuple[bool, ...], of: str) -> Any:
    """One loop around a function of numbers, over those of its arguments that are split."""
    found = made.each.get((split, of))
    if found is None:
        inner, params = derived(made, f), made.program.params
        names = [f"all_{n}" for n in params]
        passed = ", ".join(f"{n}[turn]" if s else n for n, s in zip(names, split))
        results = [f"result_{k}" for k in range(len(made.program.results))]
        lines: Lines = [f"{r} = np.empty(count, np.{of})" for r in results]
        targets = ", ".join(f"{r}[turn]" for r in results)
        lines += [
            "for turn in prange(count):",
            [f"{targets} = one({passed})" if results else f"one({passed})"],
        ]
        name = f"{made.name}_each"
        text = function_text(name, ["count", *names], lines, results)
        found = type(f)(
            functions.plain(name, text, {"one": inner}, f.function.__name__),
            f.policy,
            wraparound=f.wraparound,
        )
        made.each[split, of] = found
    return found


def _repeated(a: Any, count: int) -> Any:
    if isinstance(a, Tensor):
        return a.unsqueeze(0).expand(count, *a.shape)
    return np.broadcast_to(a, (count, *np.shape(a))).copy()


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

    def one(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        made = np.empty((0,) * x.ndim, _numpy_dtype(x))
        return made if x.ndim else made.item()

    return of_each(one, a)


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
    policy: Policy = "auto",
    wrt: Sequence[str] | None = None,
    wraparound: bool = True,
) -> Any:
    """A plain function of numbers and arrays, in Numba's language, with its derivatives: `grad`, `value_and_grad`, `vjp`, `jvp`, `hvp`,
    `jacobian`, `hessian`, and `adjoint` and `tangent`, which are such functions again, of a text that can be read (`adjoint_source`).

    Where an argument is a tensor, a call is an op: `backward`, `create_graph`, `func.grad`, `vmap` and modules work as with any.
    `policy` says how loops give their values to the reverse sweep: saved ("store"), computed again turn by turn ("rerun"), or as suits
    the loop ("auto"); "steps" or ("steps", 100) copies what time steps carry now and then, and runs the steps between again. `wrt`
    names the parameters that gradients are wanted of; without `wraparound` no index is negative.

    In a class, or of `object.method`, attributes that the method reads are arguments which the object gives at each call; of a
    `functools.partial` so are those that it holds. Gradients of either are asked for by name (`wrt="self.rate"`).

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
