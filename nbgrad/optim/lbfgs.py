"""L-BFGS: Newton's direction, from the last differences of gradients and of positions; optionally with a line search."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from nbgrad.autograd.grad_mode import enable_grad, no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.parts import view_as_real
from nbgrad.optim._update import check_option
from nbgrad.optim.optimizer import Optimizer, Params


class _Point(NamedTuple):
    """A place on the line: how far, the loss there, its gradient, and its slope along the line."""

    t: float
    loss: float
    grad: Tensor
    slope: float


def _real(t: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones."""
    return view_as_real(t) if t.is_complex() else t


def _dense_gradient(p: Tensor) -> Tensor:
    grad: Tensor = p.new_zeros(p.shape) if p.grad is None else p.grad
    return grad.to_dense() if grad.is_sparse else grad


class LBFGS(Optimizer):
    """Newton's method with what the last `history_size` steps tell about the second derivatives. One step is up to `max_iter`
    iterations, and calls the closure several times: it computes the loss and its gradients anew. `line_search_fn="strong_wolfe"`
    looks for the length of each. All parameters are one group; state hangs on the first of them.

    >>> p = nn.Parameter(torch.tensor([5.0]))
    >>> optimizer = torch.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((p - 3) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> loss = optimizer.step(closure)
    >>> p.data
    tensor([3.])
    """

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_option("lr", lr)
        defaults = dict(
            lr=lr,
            max_iter=max_iter,
            max_eval=max_iter * 5 // 4 if max_eval is None else max_eval,
            tolerance_grad=tolerance_grad,
            tolerance_change=tolerance_change,
            history_size=history_size,
            line_search_fn=line_search_fn,
        )
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        params: list[Tensor] = self.param_groups[0]["params"]
        return params

    # What the iteration is made of has PyTorch's names, as classes that derive from this put their own in its place.

    def _numel(self) -> int:
        return sum(_real(p).numel() for p in self._params)

    def _gather_flat_grad(self) -> Tensor:
        return cat([_real(_dense_gradient(p)).reshape(-1) for p in self._params])

    def _add_grad(self, t: Any, direction: Tensor) -> None:
        at = 0
        for p in self._params:
            q: Any = _real(p)
            q.add_(direction[at : at + q.numel()].view_as(q), alpha=float(t))
            at += q.numel()

    def _clone_param(self) -> list[Tensor]:
        return [p.clone() for p in self._params]

    def _set_param(self, params_data: list[Tensor]) -> None:
        for p, old in zip(self._params, params_data):
            p.copy_(old)

    def _directional_evaluate(
        self, closure: Callable[[], Any], x: list[Tensor], t: Any, d: Tensor
    ) -> tuple[float, Tensor]:
        """Loss and gradient `t` directions from where the parameters stand, which are those of `x` then."""
        self._add_grad(t, d)
        with enable_grad():
            loss = closure()
        grad = self._gather_flat_grad()
        self._set_param(x)
        return float(loss), grad

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """Up to `max_iter` iterations; `closure()` gives the loss, with gradients, as often as asked. What it gave first is the
        result.
        """
        with no_grad():
            return self._iterate(closure)

    def _iterate(self, closure: Callable[[], Any]) -> Any:
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluated() -> tuple[Any, Tensor]:
            with enable_grad():
                loss = closure()
            return loss, self._gather_flat_grad()

        first_loss, grad = evaluated()
        loss, evaluations = float(first_loss), 1
        state["func_evals"] += 1
        if grad.abs().max() <= group["tolerance_grad"]:
            return first_loss
        for k in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = state["d"] = self._direction(state, grad, group["history_size"])
            before = state["prev_loss"] = loss
            state["prev_flat_grad"] = grad.clone()
            state["t"] = lr = group["lr"]
            if state["n_iter"] == 1:
                total = float(grad.abs().sum())
                state["t"] = (1.0 / total if total > 1 else 1.0) * lr
            t = float(state["t"]) if isinstance(state["t"], Tensor) else state["t"]
            slope = float(grad.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            calls = 0
            if group["line_search_fn"] is not None:
                if group["line_search_fn"] != "strong_wolfe":
                    raise RuntimeError("only 'strong_wolfe' is supported")
                here = self._clone_param()

                def probe(t: float, direction: Tensor = direction, here: list[Any] = here) -> _Point:
                    loss, grad = self._directional_evaluate(closure, here, t, direction)
                    return _Point(t, loss, grad, float(grad.dot(direction)))

                reach = float(direction.abs().max())
                left = group["max_eval"] - evaluations
                found, calls = _low_and_flat(probe, _Point(0.0, loss, grad, slope), t, reach, left)
                t, loss, grad = found.t, found.loss, found.grad
                state["t"] = t
                self._add_grad(t, direction)
            else:
                self._add_grad(t, direction)
                if k != group["max_iter"]:
                    value, grad = evaluated()
                    loss, calls = float(value), 1
            evaluations += calls
            state["func_evals"] += calls
            change = float(direction.mul(t).abs().max())
            if (
                evaluations >= group["max_eval"]
                or grad.abs().max() <= group["tolerance_grad"]
                or change <= group["tolerance_change"]
                or abs(loss - before) < group["tolerance_change"]
            ):
                break
        for name in ("d", "t", "old_dirs", "old_stps", "ro", "H_diag", "prev_flat_grad", "prev_loss"):
            state[name] = state.pop(name)  # in the order of PyTorch's files
        return first_loss

    def _direction(self, state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """The gradient times the inverse Hessian that the history stands for."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return grad.neg()
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        y, s = grad.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        ys = y.dot(s)
        if ys > 1e-10:
            if len(dirs) == history_size:
                for kept in (dirs, steps, ro):
                    kept.pop(0)
            dirs.append(y)
            steps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)
        al = state.setdefault("al", [None] * history_size)
        q: Any = grad.neg()
        for i in reversed(range(len(dirs))):
            al[i] = steps[i].dot(q) * ro[i]
            q.sub_(dirs[i] * al[i])
        r: Any = q.mul(state["H_diag"])
        for i in range(len(dirs)):
            r.add_(steps[i] * (al[i] - dirs[i].dot(r) * ro[i]))
        found: Tensor = r
        return found


def _cubic(a: _Point, b: _Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points with their slopes is least."""
    low, high = bounds or (min(a.t, b.t), max(a.t, b.t))
    apart = a.t - b.t  # 0 where the gradient was infinite, and the first step's length with it
    mean = a.slope + b.slope - 3 * ((a.loss - b.loss) / apart if apart else math.nan)
    square = mean * mean - a.slope * b.slope
    if not square >= 0:
        return (low + high) / 2
    left, right = (a, b) if a.t <= b.t else (b, a)
    root = math.sqrt(square)
    over, down = right.slope + root - mean, right.slope - left.slope + 2 * root
    if down == 0:  # a straight line, which is least at infinity; or none
        return (high if over < 0 else low) if over else (low + high) / 2
    return min(max(right.t - (right.t - left.t) * (over / down), low), high)


def _low_and_flat(
    probe: Callable[[float], _Point],
    start: _Point,
    t: float,
    reach: float,
    most: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance: float = 1e-9,
) -> tuple[_Point, int]:
    """A point that is low and flat enough (by the strong Wolfe conditions) after at most `most` tries, and how many calls that took.
    `reach` is the largest element of the direction."""
    flat = -c2 * start.slope

    def too_high(point: _Point) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    last, new, tries = start, probe(t), 0
    calls = 1
    while tries < most:
        if too_high(new) or (tries > 1 and new.loss >= last.loss):
            ends = [last, new]
            break
        if abs(new.slope) <= flat:
            return new, calls
        if new.slope >= 0:
            ends = [last, new]
            break
        bounds = new.t + 0.01 * (new.t - last.t), new.t * 10
        last, new = new, probe(_cubic(last, new, bounds))
        calls += 1
        tries += 1
    else:
        ends = [start, new]
    stuck = False
    ends.sort(key=lambda point: point.loss)  # the lower one first
    while tries < most and abs(ends[1].t - ends[0].t) * reach >= tolerance:
        t, low, high = _cubic(ends[0], ends[1]), min(e.t for e in ends), max(e.t for e in ends)
        margin = 0.1 * (high - low)
        if min(high - t, t - low) < margin:
            # Twice in a row next to an end, or at it: a tenth of the way in from there.
            if stuck or t >= high or t <= low:
                t = high - margin if abs(t - high) < abs(t - low) else low + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = probe(t)
        calls += 1
        tries += 1
        if too_high(new) or new.loss >= ends[0].loss:
            ends[1] = new
            ends.sort(key=lambda point: point.loss)
        else:
            if abs(new.slope) <= flat:
                return new, calls
            if new.slope * (ends[1].t - ends[0].t) >= 0:
                ends[1] = ends[0]
            ends[0] = new
    return ends[0], calls


def _strong_wolfe(
    obj_func: Callable[[Any, Any, Any], tuple[Any, Tensor]],
    x: Any,
    t: float,
    d: Tensor,
    f: float,
    g: Tensor,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Any, Tensor, Any, int]:
    """The search as libraries call PyTorch's: `obj_func(x, t, d)` gives loss and gradient at `x + t * d`."""

    def probe(t: float) -> _Point:
        loss, grad = obj_func(x, t, d)
        slope: Any = grad.dot(d)
        return _Point(t, loss, grad.clone(), slope)  # a function may write its gradient to one place

    start = _Point(0.0, f, g, gtd)
    reach: Any = d.abs().max()
    found, calls = _low_and_flat(probe, start, t, reach, max_ls, c1, c2, tolerance_change)
    return found.loss, found.grad, found.t, calls


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: tuple[Any, Any] | None = None
) -> Any:
    """Where the cubic through `(x1, f1)` and `(x2, f2)` with slopes `g1` and `g2` is least, within the bounds."""
    at: Any = None
    return _cubic(_Point(x1, f1, at, g1), _Point(x2, f2, at, g2), bounds)


__all__ = ["LBFGS"]
