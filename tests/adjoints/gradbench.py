"""Inputs of GradBench's programs, of a small size, and what is to be answered."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.adjoints import references as R


def _rows(r: np.random.Generator, *shape: int) -> Any:
    return (r.normal(size=shape) * 0.5).tolist()


def inputs() -> dict[str, list[Any]]:
    r = np.random.default_rng(0)
    bones, n = 22, 7
    matrices = np.tile(np.eye(4), (2, bones, 1, 1))
    matrices[:, :, :3] += r.normal(size=(2, bones, 3, 4)) * 0.2
    model = {
        **{"bone_count": bones, "bone_names": [f"bone{k}" for k in range(bones)]},
        **{"parents": [-1, 0, *(b - 1 if (b - 2) % 4 else 0 for b in range(2, bones))]},
        **{"base_relatives": matrices[0].tolist(), "inverse_base_absolutes": matrices[1].tolist()},
        **{"base_positions": np.c_[r.normal(size=(n, 3)), np.ones(n)].tolist()},
        **{"weights": np.where(r.uniform(size=(n, bones)) < 0.3, r.uniform(size=(n, bones)), 0).tolist()},
        **{"triangles": r.integers(0, n, (9, 3)).tolist(), "is_mirrored": False},
    }
    theta = (r.normal(size=26) * 0.4).tolist()
    hand = {"model": model, "correspondences": [3, 0, 5, 6], "points": _rows(r, 4, 3)}
    mirrored = {**hand, "model": {**model, "is_mirrored": True}}
    still = [0.0] * 3 + theta[3:]
    return {
        "hello": [3.0, -1.5],
        "det": [{"A": r.uniform(size=16).tolist(), "ell": 4}, {"A": [2.5], "ell": 1}],
        "ba": [
            {"n": 3, "m": 5, "p": 11, "w": 0.7, "feat": [0.3, -0.2], "x": [0.3, -0.4, 5.0], "cam": cam}
            for cam in [[0.1, -0.2, 0.3, 0.2, 0.1, -0.4, 1.3, 0.1, 0.2, 0.05, -0.02]]
        ],
        "gmm": [
            {
                **{"d": d, "k": 3, "n": 6, "m": m, "gamma": gamma, "alpha": _rows(r, 3), "x": _rows(r, 6, d)},
                **{"mu": _rows(r, 3, d), "q": _rows(r, 3, d), "l": _rows(r, 3, d * (d - 1) // 2)},
            }
            for d, m, gamma in ((4, 0, 1.0), (3, 2, 0.7), (2, 0, 1.0))
        ],
        "ht": [
            {"theta": theta, "us": [], "data": hand},
            {"theta": theta, "us": _rows(r, 4, 2), "data": mirrored},
            {"theta": still, "us": [], "data": hand},
        ],
        "kmeans": [{"points": _rows(r, 20, 3), "centroids": _rows(r, 3, 3)}],
        "llsq": [{"x": _rows(r, 4), "n": 9}],
        "lse": [{"x": _rows(r, 12)}],
        "lstm": [
            {
                "main_params": _rows(r, 4, 12),
                "extra_params": _rows(r, 3, 3),
                "state": _rows(r, 4, 3),
                "sequence": _rows(r, 5, 3),
            }
        ],
        "ode": [{"x": r.uniform(0.5, 1.5, 4).tolist(), "s": 5}],
        "particle": [{"w": 0.0}],
        "saddle": [{"start": [8.0, 5.0]}, {"start": [0.0, 0.0]}],
    }


def _ba(i: Any, function: str) -> Any:
    given = np.array([*i["cam"], *i["x"], i["w"]])

    def row(x: Any) -> Any:
        return R.ba_row(x[:11], x[11:14], x[14], i["feat"])

    n, m, p, w = i["n"], i["m"], i["p"], i["w"]
    if function == "objective":
        return {
            "reproj_error": {"elements": row(given).real.tolist(), "repeated": p},
            "w_err": {"element": 1 - w * w, "repeated": p},
        }
    columns = [*range(11), 11 * n, 11 * n + 1, 11 * n + 2, 11 * n + 3 * m]
    ends = np.cumsum([0, *[15] * (2 * p), *[1] * p])
    return {
        "rows": [*ends[:30].tolist(), int(ends[-1])],
        "cols": [*columns, *columns, 11 * n + 3 * m + p - 1],
        "vals": [*R.slopes(row, given).ravel().tolist(), -2 * w],
    }


def expected(module: str, function: str, i: Any) -> Any:
    if module == "hello":
        return i * i if function == "square" else 2 * i
    if module == "ba":
        return _ba(i, function)
    if module == "ht":
        return (
            R.ht_jacobian(i)
            if function == "jacobian"
            else R.ht(i, np.array(i["theta"]), np.array(i["us"]).reshape(-1, 2)).real
        )
    if module == "kmeans":
        return R.kmeans_direction(i) if function == "dir" else R.kmeans(i, np.array(i["centroids"])).real
    if module == "gmm":
        given = {
            n: np.array(i[n], float).reshape(3, -1) if n != "alpha" else np.array(i[n])
            for n in ("alpha", "mu", "q", "l")
        }
        if function == "objective":
            return R.gmm(i, *given.values()).real
        return {n: R.slopes(lambda x: R.gmm(i, *{**given, n: x}.values()), a) for n, a in given.items()}  # noqa: B023
    if module == "lstm":
        main, extra = np.array(i["main_params"]), np.array(i["extra_params"])
        if function == "objective":
            return R.lstm(i, main, extra).real
        by = R.slopes(lambda x: R.lstm(i, x, extra), main), R.slopes(lambda x: R.lstm(i, main, x), extra)
        return np.concatenate([g.ravel() for g in by])
    if module == "ode":
        f = R.ode if function == "primal" else lambda i, x: R.slopes(lambda x: R.ode(i, x)[-1], x)
        return np.real(f(i, np.array(i["x"])))
    if module in ("particle", "saddle"):
        return getattr(R, module)(i)
    x = np.array(i["A" if module == "det" else "x"])
    f = getattr(R, module)
    return f(i, x).real if function == "primal" else R.slopes(lambda x: f(i, x), x)
