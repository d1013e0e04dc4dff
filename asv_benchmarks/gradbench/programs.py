"""What GradBench asks of a tool, by module and function: from its JSON to arguments, what is timed, and from that to JSON.

`loops` are plain functions that are differentiated as text, `tensors` the same on a tape. The shapes of inputs and outputs are those
that GradBench's own descriptions give.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import nbgrad as T
from asv_benchmarks.gradbench import loops, nested, tensors
from nbgrad import differentiable

Arrays = tuple[Any, ...]


class Asked(NamedTuple):
    """`run` is what is timed: it gets what `prepare` made of the input, and `show` makes JSON of what it gives."""

    prepare: Callable[[Any], Any]
    run: Callable[..., Any]
    show: Callable[[Any], Any]


def array(x: Any) -> Any:
    return np.ascontiguousarray(x, np.float64)


def listed(x: Any) -> Any:
    return x.tolist() if hasattr(x, "tolist") else [listed(i) for i in x] if isinstance(x, tuple) else x


@cache
def made(f: Any) -> Any:
    return f if hasattr(f, "adjoint") else differentiable(f)


def as_tensors(args: Arrays) -> Arrays:
    return tuple(T.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args)


def values(f: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """A function of loops, and one of tensors."""
    of_tensors = getattr(tensors, f.__name__)
    return lambda *a: made(f)(*a), lambda *a: of_tensors(T, *as_tensors(a)).detach().numpy()


def gradients(f: Callable[..., Any], *wrt: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    of_tensors = getattr(tensors, f.__name__)

    def tape(*args: Any) -> Any:
        given = list(as_tensors(args))
        for k in wrt:
            given[k] = given[k].clone().requires_grad_()
        found = T.autograd.grad(of_tensors(T, *given), [given[k] for k in wrt])
        return tuple(g.numpy() for g in found)

    return lambda *a: made(f).grad(*a, argnums=wrt), tape


def only(
    pair: tuple[Callable[..., Any], Callable[..., Any]],
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Of one gradient, itself."""
    a, b = pair
    return lambda *x: a(*x)[0], lambda *x: b(*x)[0]


# ---------------------------------------------------------------- inputs and outputs that are more than a list


def of_gmm(i: Any) -> Arrays:
    d, k, n = i["d"], i["k"], i["n"]
    lower = array(i["l"]).reshape(k, d * (d - 1) // 2)
    return (
        *(array(i["alpha"]), array(i["mu"]).reshape(k, d), array(i["q"]).reshape(k, d), lower),
        *(array(i["x"]).reshape(n, d), float(i["gamma"]), int(i["m"])),
    )


def of_ba(i: Any) -> Arrays:
    n, m, p = i["n"], i["m"], i["p"]
    count = np.arange(p)
    seen = np.stack([count % n, count % m], 1)
    cameras, points = np.tile(array(i["cam"]), (n, 1)), np.tile(array(i["x"]), (m, 1))
    return cameras, points, np.full(p, float(i["w"])), seen, np.tile(array(i["feat"]), (p, 1))


def of_ht(i: Any) -> Arrays:
    model, data = i["data"]["model"], i["data"]
    us = array(i["us"]).reshape(-1, 2)
    return (
        *(array(i["theta"]), us, np.array(model["parents"], np.int64), array(model["base_relatives"])),
        *(array(model["inverse_base_absolutes"]), array(model["base_positions"]), array(model["weights"])),
        *(bool(model["is_mirrored"]), np.array(model["triangles"], np.int64).reshape(-1, 3)),
        *(np.array(data["correspondences"], np.int64), array(data["points"])),
    )


def ba_objective(*args: Any) -> Any:
    p = len(args[2])
    errors, of_weights = np.empty((p, 2)), np.empty(p)
    made(loops.ba_residuals)(*args, errors, of_weights)
    return errors, of_weights


def ba_objective_of_tensors(*args: Any) -> Any:
    cameras, points, weights, seen, features = as_tensors(args)
    errors = tensors.residuals(T, cameras[seen[:, 0]], points[seen[:, 1]], weights, features)
    return errors.numpy(), (1.0 - weights**2).numpy()


def shown_errors(found: Any) -> Any:
    errors, of_weights = found
    return {
        "reproj_error": {"elements": errors[0].tolist(), "repeated": len(errors)},
        "w_err": {"element": float(of_weights[0]), "repeated": len(of_weights)},
    }


def ba_jacobian(*args: Any) -> Any:
    p = len(args[2])
    rows, of_weights = np.empty((p, 2, 15)), np.empty(p)
    loops.ba_jacobian(*args, rows, of_weights)
    return args, rows, of_weights


def ba_jacobian_of_tensors(*args: Any) -> Any:
    rows, of_weights = tensors.ba_jacobian(T, *as_tensors(args))
    return args, rows.numpy(), of_weights.numpy()


def shown_rows(found: Any) -> Any:
    """The sparse matrix by rows; all observations being alike, GradBench looks at the first two rows and at what is last."""
    (cameras, points, weights, seen, _), rows, of_weights = found
    n, m, p = len(cameras), len(points), len(weights)
    first = 11 * seen[0, 0] + np.arange(11), 11 * n + 3 * seen[0, 1] + np.arange(3), [11 * n + 3 * m]
    columns = np.concatenate(first)
    starts = np.concatenate([15 * np.arange(2 * p + 1), 30 * p + 1 + np.arange(p)])
    return {
        "rows": [*starts[:30].tolist(), int(starts[-1])],
        "cols": [*columns.tolist(), *columns.tolist(), 11 * n + 3 * m + p - 1],
        "vals": [*rows[0].ravel().tolist(), float(of_weights[-1])],
    }


def ht_objective(*args: Any) -> Any:
    err = np.empty_like(args[-1])
    made(loops.ht)(*args, err)
    return err.ravel()


def ht_jacobian(*args: Any) -> Any:
    columns = len(args[0]) + (2 if len(args[1]) else 0)
    rows = np.empty((columns, *args[-1].shape))
    loops.ht_jacobian(*args, rows)
    return rows.reshape(columns, -1).T


def ht_jacobian_of_tensors(*args: Any) -> Any:
    theta, us, *rest = as_tensors(args)
    columns = [
        T.func.jvp(lambda t: tensors.ht(T, t, us, *rest), (theta,), (e,))[1]
        for e in T.eye(len(theta), dtype=theta.dtype)
    ]
    if len(us):
        sides = [T.zeros_like(us) for _ in range(2)]
        for k, side in enumerate(sides):
            side[:, k] = 1.0
        columns = [
            T.func.jvp(lambda u: tensors.ht(T, theta, u, *rest), (us,), (s,))[1] for s in sides
        ] + columns
    return T.stack([c.reshape(-1) for c in columns], 1).numpy()


def kmeans_direction(points: Any, centres: Any) -> Any:
    """The gradient by the Hessian's diagonal, off which there is nothing: it is the Hessian times ones."""
    f = made(loops.kmeans)
    gradient = f.grad(points, centres, wrt="centres")
    return gradient / f.hvp((points, centres), (None, np.ones_like(centres)), wrt="centres")[0]


def kmeans_direction_of_tensors(points: Any, centres: Any) -> Any:
    points, centres = as_tensors((points, centres))
    centres = centres.clone().requires_grad_()
    (gradient,) = T.autograd.grad(tensors.kmeans(T, points, centres), centres, create_graph=True)
    (curve,) = T.autograd.grad(gradient.sum(), centres)
    return (gradient.detach() / curve).numpy()


def ode_values(x: Any, steps: int) -> Any:
    y = np.empty_like(x)
    made(loops.solution)(x, steps, y)
    return y


def ode_gradient_of_tensors(x: Any, steps: int) -> Any:
    x = T.from_numpy(x).clone().requires_grad_()
    return T.autograd.grad(tensors.ode(T, x, steps)[-1], x)[0].numpy()


def flat(found: Any) -> Any:
    return [v for part in found for v in part.ravel().tolist()]


def shown_gmm(found: Any) -> Any:
    return dict(zip(("alpha", "mu", "q", "l"), map(listed, found)))


def of_lstm(i: Any) -> Arrays:
    return tuple(array(i[n]) for n in ("main_params", "extra_params", "state", "sequence"))


def of_det(i: Any) -> Arrays:
    return (array(i["A"]).reshape(i["ell"], i["ell"]),)


def of_ode(i: Any) -> Arrays:
    return array(i["x"]), int(i["s"])


def det_tensors(a: Any) -> Any:
    return tensors.det(T, T.from_numpy(a)).numpy()


def det_gradient_of_tensors(a: Any) -> Any:
    a = T.from_numpy(a).clone().requires_grad_()
    return T.autograd.grad(tensors.det(T, a), a)[0].numpy()


def _particle(mode: str) -> Asked:
    @cache
    def found() -> Any:
        return nested.particles(mode)

    return Asked(lambda i: (float(i["w"]),), lambda w: found()(w), float)


def _saddle(mode: str) -> Asked:
    @cache
    def found() -> Any:
        return nested.saddles(mode)

    return Asked(lambda i: tuple(map(float, i["start"])), lambda x, y: found()(x, y), list)


def _table() -> tuple[dict[str, dict[str, Asked]], dict[str, dict[str, Asked]]]:
    def number(i: Any) -> Arrays:
        return (float(i),)

    def points(i: Any) -> Arrays:
        return array(i["points"]), array(i["centroids"])

    def polynomial(i: Any) -> Arrays:
        return array(i["x"]), int(i["n"])

    def vector(i: Any) -> Arrays:
        return (array(i["x"]),)

    def as_number(f: Callable[..., Any]) -> Callable[[float], Any]:
        return lambda x: f(T.tensor(x, dtype=T.float64)).item()

    def double(x: Any) -> Any:
        x.requires_grad_()
        return T.autograd.grad(tensors.square(T, x), x)[0]

    rows: list[tuple[str, str, Any, tuple[Any, Any], Any]] = [
        (
            "hello",
            "square",
            number,
            (lambda x: made(nested.square)(x), as_number(lambda x: tensors.square(T, x))),
            float,
        ),
        ("hello", "double", number, (lambda x: made(nested.double)(x), as_number(double)), float),
        ("det", "primal", of_det, (lambda a: made(loops.minors)(a), det_tensors), float),
        (
            "det",
            "gradient",
            of_det,
            (lambda a: made(loops.minors).grad(a)[0], det_gradient_of_tensors),
            lambda g: g.ravel().tolist(),
        ),
        ("ba", "objective", of_ba, (ba_objective, ba_objective_of_tensors), shown_errors),
        ("ba", "jacobian", of_ba, (ba_jacobian, ba_jacobian_of_tensors), shown_rows),
        ("gmm", "objective", of_gmm, values(loops.gmm), float),
        ("gmm", "jacobian", of_gmm, gradients(loops.gmm, 0, 1, 2, 3), shown_gmm),
        (
            "ht",
            "objective",
            of_ht,
            (ht_objective, lambda *a: tensors.ht(T, *as_tensors(a)).numpy().ravel()),
            listed,
        ),
        ("ht", "jacobian", of_ht, (ht_jacobian, ht_jacobian_of_tensors), listed),
        ("kmeans", "cost", points, values(loops.kmeans), float),
        ("kmeans", "dir", points, (kmeans_direction, kmeans_direction_of_tensors), listed),
        ("llsq", "primal", polynomial, values(loops.llsq), float),
        ("llsq", "gradient", polynomial, only(gradients(loops.llsq, 0)), listed),
        ("lse", "primal", vector, values(loops.lse), float),
        ("lse", "gradient", vector, only(gradients(loops.lse, 0)), listed),
        ("lstm", "objective", of_lstm, values(loops.lstm), float),
        ("lstm", "jacobian", of_lstm, gradients(loops.lstm, 0, 1), flat),
        (
            "ode",
            "primal",
            of_ode,
            (ode_values, lambda x, s: tensors.ode(T, T.from_numpy(x), s).numpy()),
            listed,
        ),
        (
            "ode",
            "gradient",
            of_ode,
            (lambda x, s: made(loops.ode).grad(x, s)[0], ode_gradient_of_tensors),
            listed,
        ),
    ]
    by_loops: dict[str, dict[str, Asked]] = {}
    by_tensors: dict[str, dict[str, Asked]] = {}
    for module, function, prepare, (a, b), show in rows:
        by_loops.setdefault(module, {})[function] = Asked(prepare, a, show)
        by_tensors.setdefault(module, {})[function] = Asked(prepare, b, show)
    for mode in ("ff", "fr", "rf", "rr"):
        descents = {"particle": _particle(mode), "saddle": _saddle(mode)}
        for module, asked in descents.items():
            by_loops.setdefault(module, {})[mode] = asked

    def start(i: Any) -> Arrays:
        return (T.tensor(i["start"], dtype=T.float64),)

    by_tensors["particle"] = {
        "rr": Asked(
            lambda i: (T.tensor(i["w"], dtype=T.float64),), lambda w: tensors.particle(T, w), T.Tensor.item
        )
    }
    by_tensors["saddle"] = {"rr": Asked(start, lambda s: tensors.saddle(T, s), listed)}
    return by_loops, by_tensors


LOOPS, TENSORS = _table()
