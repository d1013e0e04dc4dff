"""Is this gradient right? Differences of the function against what backward says, in PyTorch's words.

Promises that the inputs hold the same values after a check as before it, whether it passed or not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.autograd._run import grad
from nbgrad.autograd._vmap import vmap
from nbgrad.autograd.forward_ad import dual_level, make_dual, unpack_dual
from nbgrad.core.tensor import Tensor, edge, requires
from nbgrad.memory import dtypes
from nbgrad.ops.make.data import from_numpy
from nbgrad.ops.pointwise.parts import complex as of_parts
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.views.parts import imag, real
from nbgrad.tape.node import Node, blank, node_type, sequence

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]

Array = np.ndarray[Any, Any]


class GradcheckError(RuntimeError):
    """A gradient is wrong, or does not keep what backward promises."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of `func` at `inputs` with central differences; for float64.

    In `fast_mode` one random direction stands for the whole Jacobian. A failure raises GradcheckError, or gives False if
    `raise_exception` is false.

    >>> torch.autograd.gradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    check = _Check(func, _as_tuple(inputs), eps, atol, rtol, nondet_tol, check_grad_dtypes)
    try:
        if check_backward_ad:
            for part in check.by_outputs():
                part.jacobians(fast_mode, forward=False)
        if check_forward_ad:
            parts = check.by_inputs()
            for part in parts:
                part.jacobians(fast_mode, forward=True)
            for part in parts if check_undefined_grad else ():
                part.undefined_forward()
        if check_batched_forward_grad:
            check.batched_forward()
        if check_backward_ad:
            if check_batched_grad:
                check.batched()
            check.multiplied()
            if check_undefined_grad:
                check.undefined()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of `func`, as a function of its inputs and of `grad_outputs` (random, if not given).

    >>> torch.autograd.gradgradcheck(torch.sin, torch.ones(2, dtype=torch.float64, requires_grad=True))
    True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    if check_undefined_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_undefined_grad=True requires check_rev_over_rev to be True")
    if check_batched_grad and not check_rev_over_rev:
        raise AssertionError("Setting check_batched_grad=True requires check_rev_over_rev to be True")
    given = _as_tuple(inputs)
    if grad_outputs is None:
        outs = _differentiable(func(*given))
        weights = tuple(_random_weight(o, gen_non_contig_grad_outputs) for o in outs)
    else:
        weights = _as_tuple(grad_outputs)
        _ = [w.requires_grad for w in weights]
    count = len(weights)
    wanted = [_wanted(t) for t in given]

    def gradients(*args: Any) -> tuple[Any, ...]:
        sources = [
            t if requires(t) else t.requires_grad_() for t, w in zip(args, wanted) if w
        ]  # a dual tensor does not yet
        outs = _differentiable(func(*args[:-count] if count else args))
        found = grad(outs, sources, args[len(args) - count :], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients,
        given + weights,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        fast_mode=fast_mode,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        masked=masked,
    )


# ---------------------------------------------------------------- one check


class _Check:
    """What one call of `gradcheck` compares. Jacobians are arrays with a row for each element of the input. Of complex outputs the parts
    are compared, one after the other; as a complex input goes, they go by its parts, of which a row holds either derivative."""

    def __init__(
        self,
        func: Callable[..., Any],
        inputs: tuple[Any, ...],
        eps: float,
        atol: float,
        rtol: float,
        nondet_tol: float,
        check_grad_dtypes: bool,
        part: str = "",
        whole: Sequence[int] = (),
    ) -> None:
        self.func, self.inputs = func, inputs
        self.part, self.whole = part, whole  # which part it is, of the outputs or inputs that are complex
        self.eps, self.atol, self.rtol = eps, atol, rtol
        self.nondet_tol, self.check_grad_dtypes = nondet_tol, check_grad_dtypes
        self.sources = _checked_inputs(inputs)
        self.result = _as_tuple(func(*inputs))
        self.outputs = _differentiable(self.result)

    def of_part(
        self, func: Callable[..., Any], inputs: Sequence[Any], part: str, whole: Sequence[int]
    ) -> _Check:
        more = (self.eps, self.atol, self.rtol, self.nondet_tol, self.check_grad_dtypes, part, whole)
        return _Check(func, tuple(inputs), *more)

    def by_outputs(self) -> list[_Check]:
        """The same of either part of what is complex."""
        if not any([o.is_complex() for o in self.result]):
            return [self]
        whole = [k for k, o in enumerate(self.outputs) if o.is_complex()]

        def parts(shown: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
            return lambda *inputs: tuple(
                [shown(o) if o.is_complex() else o for o in _as_tuple(self.func(*inputs))]
            )

        pairs = (("imaginary", imag), ("real", real))
        return [self.of_part(parts(shown), self.inputs, part, whole) for part, shown in pairs]

    def by_inputs(self) -> list[_Check]:
        """The same as functions of either part of what is complex, while the other one stays."""
        given = self.inputs
        whole = [k for k, t in enumerate(given) if isinstance(t, Tensor) and t.is_complex()]
        if not whole:
            return [self]

        def joined(join: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Any]:
            return lambda *inputs: self.func(
                *[join(t, given[k]) if k in whole else t for k, t in enumerate(inputs)]
            )

        def parts(shown: Callable[[Tensor], Tensor]) -> list[Any]:
            return [
                shown(t.detach()).clone().requires_grad_(requires(t)) if k in whole else t
                for k, t in enumerate(given)
            ]

        ways = (
            ("imaginary", imag, lambda t, whole: of_parts(real(whole.detach()), t)),
            ("real", real, lambda t, whole: of_parts(t, imag(whole.detach()))),
        )
        return [self.of_part(joined(join), parts(shown), part, whole) for part, shown, join in ways]

    def jacobians(self, fast: bool, forward: bool) -> None:
        """One of the two ways of each derivative against differences."""
        if not self.outputs:
            for t in self.sources:
                for o, columns in zip(self.result, self.numerical(t)):
                    if (fast or o.dtype.inexact) and columns.any():
                        raise GradcheckError("Numerical gradient for function expected to be zero")
        elif fast:
            self.directions(forward)
        else:
            self.elements(forward)

    def elements(self, forward: bool) -> None:
        numerical = [self.numerical(t) for t in self.sources]
        kept = [k for k, o in enumerate(self.result) if o.requires_grad]
        pushed = [self.pushed(t, np.eye(t.numel())) for t in self.sources] if forward else []
        for i, (k, o) in enumerate(zip(kept, self.outputs)):
            pulled = [] if forward else self.analytical(o, np.eye(o.numel()))
            for j, t in enumerate(self.sources):
                got = pushed[j][k] if forward else pulled[j]
                self.compare(got, numerical[j][k], i, j, self.atol, t, o, forward)

    def directions(self, forward: bool) -> None:
        """One number for each output and input: the derivative along a random direction, weighted at random."""
        rng = np.random.default_rng()
        along = [_unit(rng, t) for t in self.sources]
        weights = [_unit(rng, o) for o in self.outputs]
        kept = [k for k, o in enumerate(self.result) if o.requires_grad]
        slopes = [self.slopes_of(t, u, None) for t, u in zip(self.sources, along)]
        for j, (t, u) in enumerate(zip(self.sources, along)):
            pushed = self.pushed(t, u[None]) if forward else []
            for i, (k, o) in enumerate(zip(kept, self.outputs)):
                w = weights[i]
                if forward:
                    a, n, atol = pushed[k][0], slopes[j][k], self.atol * float(u.sum())
                else:
                    row = self.analytical(o, w[None])[j][:, 0]
                    a = row.real @ u.real + 1j * (row.imag @ u.imag) if t.is_complex() else row @ u
                    n = slopes[j][k] @ w
                    atol = self.atol * float(u.real.sum() * w.sum())
                try:
                    self.compare(a, n, i, j, atol, t, o, forward)
                except GradcheckError as error:
                    raise GradcheckError(str(error) + self.slow_message(i, j, k, forward)) from None

    def slow_message(self, i: int, j: int, k: int, forward: bool) -> str:
        t, o = self.sources[j], self.outputs[i]
        numerical = self.numerical(t)[k]
        analytical = (
            self.pushed(t, np.eye(t.numel()))[k] if forward else self.analytical(o, np.eye(o.numel()))[j]
        )
        difference = _tensor(np.abs(numerical - analytical).max(), o)
        text = (
            "\nThe above quantities relating the numerical and analytical jacobians are computed \n"
            "in fast mode. See: https://github.com/pytorch/pytorch/issues/53876 for more background \n"
            "about fast mode. Below, we recompute numerical and analytical jacobians in slow mode:\n\n"
            f"Numerical:\n {_tensor(numerical, t if t.is_complex() else o)}\nAnalytical:\n{_tensor(analytical, t)}\n\n"
            f"The max per-element difference (slow mode) is: {difference}.\n"
        )
        if np.allclose(analytical, numerical, self.rtol, self.atol):
            text += _MERELY_FAST
        return text

    def compare(
        self,
        analytical: Any,
        numerical: Any,
        i: int,
        j: int,
        atol: float,
        t: Tensor,
        o: Tensor,
        forward: bool = False,
    ) -> None:
        if not np.allclose(analytical, numerical, self.rtol, atol):
            how = "computed with forward mode " if forward else ""
            of, at = ("inputs", j) if forward else ("outputs", i)
            start = (
                f"While considering the {self.part} part of complex {of} only, " if at in self.whole else ""
            )
            shown, found = (
                _tensor(numerical, t if t.is_complex() else o),
                _tensor(analytical, o if forward else t),
            )
            numbers = [t.item() if not t.ndim and t.is_complex() else t for t in (shown, found)]
            raise GradcheckError(
                f"{start}Jacobian {how}mismatch for output {i} with respect to input {j},\n"
                "numerical:{}\nanalytical:{}\n".format(*numbers)
            )

    # -- the two ways to a Jacobian -----------------------------------------------------------------------------------

    def slopes(self, t: Tensor, step: Array, index: Any) -> list[Array]:
        """Of every result, the central difference as `t` goes `eps` along `step`, or along its element `index`."""
        values = t._host()
        kept = values.copy()
        moved = self.eps * step
        place = ... if index is None else index
        try:
            values[place] = kept[place] - moved
            below = self.values(index)
            values[place] = kept[place] + moved
            above = self.values(index)
        finally:
            values[...] = kept
        return [(b - a) / (2 * self.eps) for a, b in zip(below, above)]

    def slopes_of(self, t: Tensor, step: Array, index: Any) -> list[Array]:
        """The same of a complex one, as its real part goes and, times i, as its imaginary one does."""
        step = step.reshape(tuple(t.shape) if index is None else ())
        found = self.slopes(t, step.real, index)
        if not t.is_complex():
            return found
        return [a + 1j * b for a, b in zip(found, self.slopes(t, 1j * step.imag, index))]

    def values(self, index: Any) -> list[Array]:
        outs = _as_tuple(self.func(*self.inputs))
        where = f"on index {index} " if index is not None else ""
        for o, first in zip(outs, self.result):
            for what, got, was in (("shape", o.shape, first.shape), ("dtype", o.dtype, first.dtype)):
                if got != was:
                    raise AssertionError(
                        f"Expected `func` to return outputs with the same {what} when inputs are perturbed {where}by {self.eps}, "
                        f"but got: {what}s {was} and {got}."
                    )
        return [_flat(o, o) for o in outs]

    def numerical(self, t: Tensor) -> list[Array]:
        columns = [self.slopes_of(t, np.array(1 + 1j), index) for index in np.ndindex(tuple(t.shape))]
        return [
            np.array([c[k] for c in columns]).reshape(t.numel(), o.numel()) for k, o in enumerate(self.result)
        ]

    def analytical(self, o: Tensor, weights: Array) -> list[Array]:
        """For each input the products of `weights` (rows) with the Jacobian, one a column; taken twice, and twice the same."""
        first = [self.row(o, w) for w in weights]
        again = [self.row(o, w) for w in weights]
        found = []
        for j, t in enumerate(self.sources):
            for g in [row[j] for row in first]:
                if g is not None and g.shape != t.shape:
                    raise GradcheckError("Analytical gradient has incorrect size")
                if g is not None and g.dtype is not t.dtype and self.check_grad_dtypes:
                    raise GradcheckError("Gradient has dtype mismatch")
            one, two = (
                np.array([_flat(row[j], t) for row in rows]).reshape(len(weights), t.numel())
                for rows in (first, again)
            )
            if (
                one.size
                and not np.abs(one - two).max() <= self.nondet_tol
                and not np.array_equal(one, two, equal_nan=True)
            ):
                raise GradcheckError(_NOT_REENTRANT.format(self.nondet_tol))
            found.append(one.T)
        return found

    def row(self, o: Tensor, weight: Array) -> tuple[Any, ...]:
        g = _tensor(weight.reshape(tuple(o.shape)), o)
        found = grad(o, self.sources, g, retain_graph=True, allow_unused=True)
        return tuple(None if t is None else t.detach().clone() for t in found)

    def push(self, tangents: Sequence[Tensor | None]) -> list[Tensor | None]:
        """The derivative of every result as the inputs go along their tangents; one without a tangent is a plain tensor."""
        left = iter(tangents)
        with dual_level():
            duals = [_dual(x, next(left)) if _wanted(x) else x for x in self.inputs]
            return [unpack_dual(o).tangent for o in _as_tuple(self.func(*duals))]

    def pushed(self, t: Tensor, directions: Array) -> list[Array]:
        """The same as `t` alone goes along many directions (rows), for each result an array with a row for each."""
        rows = []
        for v in directions:
            moving = _tensor(v.reshape(tuple(t.shape)), t)
            rows.append(self.push([moving if x is t else zeros(x._spec.dense()) for x in self.sources]))
        return [
            np.array([_flat(row[k], o) for row in rows]).reshape(len(directions), o.numel())
            for k, o in enumerate(self.result)
        ]

    def undefined_forward(self) -> None:
        """An input without a tangent is one with zeros for its tangent."""
        rng = np.random.default_rng()
        along: list[Any] = [_tensor(_unit(rng, t).reshape(tuple(t.shape)), t) for t in self.sources]
        for j, t in enumerate(self.sources):
            zero, none = (
                self.push([*along[:j], still, *along[j + 1 :]]) for still in (zeros(t._spec.dense()), None)
            )
            for i, (got, want) in enumerate(zip(zero, none)):
                if got is not None and want is not None and not np.allclose(got._host(), want._host()):
                    raise GradcheckError(
                        "Mismatch in tangent values for output with index: ",
                        i,
                        " when input: ",
                        t,
                        " has an undefined tangent value. ",
                        " Got: ",
                        got,
                        " but expected: ",
                        want,
                    )

    def batched_forward(self) -> None:
        for j, t in enumerate(self.sources):

            def push(direction: Tensor, t: Tensor = t) -> tuple[Tensor, ...]:
                found = self.push([direction if x is t else None for x in self.sources])
                return tuple([zeros(o._spec.dense()) if m is None else m for o, m in zip(self.result, found)])

            directions = _tensor(_normal(np.random.default_rng(), (2, *t.shape), t), t)
            apart = [push(v) for v in directions.unbind()]
            try:
                together = vmap(push)(directions)
            except RuntimeError as error:
                raise GradcheckError(
                    f"While computing batched gradients, got: {error}\n\n{_BATCHED_FORWARD}"
                ) from error
            for i, got in enumerate(together):
                self.alike(got, [row[i] for row in apart], i, j, _BATCHED_FORWARD)

    def alike(self, got: Tensor | None, rows: Sequence[Tensor | None], i: int, j: int, words: str) -> None:
        like = next((r for r in rows if r is not None), self.sources[j])
        expected = np.stack([_flat(r, like) for r in rows]).reshape(len(rows), *like.shape)
        values = np.zeros_like(expected) if got is None else got._host()
        if not np.allclose(values, expected):
            raise GradcheckError(
                f"For output {i} and input {j}:\n\n{words}\n\nGot:\n{_tensor(values, like)}\n\n"
                f"Expected:\n{_tensor(expected, like)}"
            )

    # -- what backward promises beside its values ---------------------------------------------------------------------

    def batched(self) -> None:
        rng = np.random.default_rng()
        for i, o in enumerate(self.outputs):
            weights = _tensor(_normal(rng, (2, *o.shape), o), o)
            apart = [grad(o, self.sources, w, retain_graph=True, allow_unused=True) for w in weights.detach()]
            try:
                together = grad(
                    o, self.sources, weights, retain_graph=True, allow_unused=True, is_grads_batched=True
                )
            except RuntimeError as error:
                raise GradcheckError(
                    f"While computing batched gradients, got: {error}\n\n{_BATCHED}"
                ) from error
            for j in range(len(self.sources)):
                self.alike(together[j], [row[j] for row in apart], i, j, _BATCHED)

    def multiplied(self) -> None:
        if not self.outputs:
            return
        nothing = [zeros(o._spec.dense()) for o in self.outputs]
        found: Sequence[Tensor | None] = grad(self.outputs, self.sources, nothing, allow_unused=True)
        for g, t in zip(found, self.sources):
            if g is None:
                continue
            if g._host().any():
                raise GradcheckError("backward not multiplied by grad_output")
            if g.dtype is not t.dtype:
                raise GradcheckError("grad is incorrect type")
            if g.device != t.device:
                raise GradcheckError("grad is incorrect device")
            if g.shape != t.shape:
                raise GradcheckError("grad is incorrect size")

    def undefined(self) -> None:
        """Gradients may be missing: all of them, or one output's at a time."""
        missing: list[Any] = [None]
        if len(self.outputs) > 1:
            missing += range(len(self.outputs))
        for which in missing:
            outs = _differentiable(self.func(*self.inputs))
            if not outs:
                return
            self.without([_unknown(o) if which is None or which == k else o for k, o in enumerate(outs)])

    def without(self, outs: Sequence[Tensor]) -> None:
        try:
            found = grad(outs, self.sources, [zeros(o._spec.dense()) for o in outs], allow_unused=True)
        except RuntimeError as error:
            _warn_undefined()
            raise GradcheckError(
                'Expected backward function to handle undefined output grads. Please look at "Notes about undefined output '
                'gradients" in "tools/autograd/derivatives.yaml"'
            ) from error
        if any(g is not None and g._host().any() for g in found):
            _warn_undefined()
            raise GradcheckError(
                "Expected all input grads to be undefined or zero when all output grads are undefined or zero. Please look at "
                '"Notes about undefined output gradients" in "tools/autograd/derivatives.yaml"'
            )


_NOT_REENTRANT = (
    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different values, "
    "although analytical gradient matches numerical gradient.The tolerance for nondeterminism was {}."
    "\n\nNOTE: If your op relies on non-deterministic operations i.e., it is listed here:\n"
    "https://pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html\nthis failure might be expected.\n"
    "\nIf you are adding a new operator, please file an issue and then use one of the\n"
    "workarounds. The workaround depends on how your test invokes gradcheck/gradgradcheck.\nIf the test\n"
    "- manually invokes gradcheck/gradgradcheck, then call gradcheck/gradgradcheck\n"
    "  with `nondet_tol=<tol>` as a keyword argument.\n"
    "- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test\n"
    "  to have `gradcheck_nondet_tol=<tol>`.\n"
    "- is a Module test (e.g., in common_nn.py), then modify the corresponding\n"
    "  module_test entry to have `gradcheck_nondet_tol=<tol>`\n"
)


_BATCHED = """gradcheck or gradgradcheck failed while testing batched gradient computation.
This could have been invoked in a number of ways (via a test that calls
gradcheck/gradgradcheck directly or via an autogenerated test).

If you are adding a new operator, please file an issue and then use one of the
workarounds. The workaround depends on how your test invokes gradcheck/gradgradcheck.
If the test
- manually invokes gradcheck/gradgradcheck, then call gradcheck/gradgradcheck
  with `check_batched_grad=False` as a keyword argument.
- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test
  to have `check_batched_grad=False` and/or `check_batched_gradgrad=False`.

If you're modifying an existing operator that supports batched grad computation,
or wish to make a new operator work with batched grad computation, please read
the following.

To compute batched grads (e.g., jacobians, hessians), we vmap over the backward
computation. The most common failure case is if there is a 'vmap-incompatible
operation' in the backward pass. Please see
NOTE: [How to write vmap-compatible backward formulas]
in the codebase for an explanation of how to fix this."""
_BATCHED_FORWARD = """
gradcheck failed while testing batched gradient computation with forward-mode AD.
This test is enabled automatically when both `check_batched_grad=True`
and `check_forward_ad=True`, but can be disabled in the following ways
dependong on how the test was invoked (via a test that calls gradcheck
directly or via an autogenerated test).

If you are adding a new operator, please file an issue and then use one of the
workarounds. The workaround depends on how your test invokes gradcheck/gradgradcheck.
If the test
- manually invokes gradcheck/gradgradcheck, then call gradcheck/gradgradcheck
  with `check_batched_forward_grad=False` as a keyword argument.
- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test
  to have `check_batched_forward_grad=False`
"""


_MERELY_FAST = """Fast gradcheck failed but element-wise differences are small. This means that the
test might've passed in slow_mode!

If you are adding a new operator, please file an issue and then use one of the
workarounds. The workaround depends on how your test invokes gradcheck/gradgradcheck:

If the test
- manually invokes gradcheck/gradgradcheck, then call gradcheck/gradgradcheck
  with `fast_mode=False` as a keyword argument.
- is OpInfo-based (e.g., in test_ops_gradients.py), then modify the OpInfo for the test
  to have `gradcheck_fast_mode=False`
- is a Module test (e.g., in common_nn.py), then modify the corresponding
  module_test entry to have `gradcheck_fast_mode=False`"""


def _warn_undefined() -> None:
    warnings.warn(
        "Backwards compatibility: New undefined gradient support checking feature is enabled by default, but it may break existing "
        'callers of this function. If this is true for you, you can call this function with "check_undefined_grad=False" to disable '
        "the feature",
        stacklevel=5,
    )


class _Unknown:
    """A node that gives its input no gradient, whatever its output gets."""

    @staticmethod
    def apply(node: Node, grads: Any, needed: Any, graph: bool) -> Any:
        return (None,)

    @staticmethod
    def layouts(node: Node) -> Any:
        return node.static


def _unknown(t: Tensor) -> Tensor:
    target, number = edge(t)
    node: Node = blank(node_type("UndefinedGradBackward0"))
    node.next, node.numbers, node.static = (target,), (number,), (t._spec,)
    node.rule, node.seq, node.leaves = _Unknown, next(sequence), t
    out = t.detach()
    out._node, out._nr, out._rg = node, 0, 1
    return out


# ---------------------------------------------------------------- arguments


def _as_tuple(x: Any) -> tuple[Any, ...]:
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def _differentiable(x: Any) -> tuple[Tensor, ...]:
    return tuple(o for o in _as_tuple(x) if o.requires_grad)


def _wanted(x: Any) -> bool:
    return isinstance(x, Tensor) and requires(x)


def _dual(t: Tensor, tangent: Tensor | None) -> Tensor:
    return t.detach() if tangent is None else make_dual(t.detach(), tangent)


def _checked_inputs(inputs: Sequence[Any]) -> list[Tensor]:
    found = []
    for k, t in enumerate(inputs):
        if not _wanted(t):
            continue
        if t.dtype not in (dtypes.float64, dtypes.complex128):
            warnings.warn(
                f"Input #{k} requires gradient and is not a double precision floating point or complex. This check will likely fail "
                "if all the inputs are not of double precision floating point or complex. ",
                stacklevel=4,
            )
        if t._spec.repeats:
            raise RuntimeError(
                f"The {k}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be able "
                "to compute the numerical gradients correctly. You should call .contiguous on the input before passing it to "
                "gradcheck."
            )
        found.append(t)
    if not found:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True."
        )
    return found


def _random_weight(o: Tensor, strided: bool) -> Tensor:
    """Drawn as PyTorch draws it, so that what a program draws next is the same."""
    strided = strided and o.numel() > 1
    t = o.detach().new_empty((*o.shape[:-1], 2 * o.shape[-1]) if strided else o.shape).uniform_(-1, 1)
    return (t[..., 1::2] if strided else t).requires_grad_()


def _unit(rng: np.random.Generator, t: Tensor) -> Array:
    """Of length 1; of complex numbers each part."""
    if t.is_complex():
        return _unit(rng, real(t)) + 1j * _unit(rng, real(t))
    v = rng.random(t.numel())
    norm = np.sqrt(v @ v)
    return v / norm if norm else v


def _normal(rng: np.random.Generator, shape: tuple[int, ...], t: Tensor) -> Array:
    drawn = rng.standard_normal(shape)
    return drawn + 1j * rng.standard_normal(shape) if t.is_complex() else drawn


def _tensor(values: Any, like: Tensor) -> Tensor:
    d = like.dtype if like.dtype.inexact else dtypes.float64
    return to_dtype(from_numpy(np.array(values, d.host)), d)


def _flat(g: Tensor | None, t: Tensor) -> Array:
    kind = np.complex128 if t.is_complex() else np.float64
    return np.zeros(t.numel(), kind) if g is None else np.array(g._host(), kind).reshape(-1)
