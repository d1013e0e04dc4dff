"""How two modules' results are held against each other: values, dtypes, shapes, or the same refusal."""

from collections.abc import Callable
from typing import Any

import numpy as np

RTOL = {"float64": 1e-11, "float32": 4e-6, "float16": 1e-3, "bfloat16": 8e-3}
ATOL = {"float64": 1e-13, "float32": 1e-6, "float16": 1e-4, "bfloat16": 8e-4}
for _tolerance in (RTOL, ATOL):  # of complex numbers that of their parts
    _tolerance |= {"complex128": _tolerance["float64"], "complex64": _tolerance["float32"]}


def outcome(run: Callable[[], Any]) -> Any:
    """What `run` gives; of an exception (or a warning, which the suite makes one) its type and text."""
    try:
        return run()
    except Exception as error:
        # PyTorch adds to some warnings where in its sources they come from.
        return f"{type(error).__name__}: {error}".partition(" (Triggered internally at")[0]


def array(tensor: Any) -> np.ndarray:
    if str(tensor.dtype) == "torch.bfloat16":  # which NumPy does not have
        tensor = tensor.float()
    # force: torch has tensors of symbolic zeros, which it does not convert otherwise
    return np.array(tensor.numpy(force=True))


def leaves(value: Any) -> list[Any]:
    """The tensors (and Python values) of a result; named tuples and lists are opened."""
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, (tuple, list)) else [value]


def assert_same(got: Any, want: Any, label: str, tol: float = 1.0, signs: bool = False) -> None:
    """`got` is `want` up to rounding; with `signs`, zeros agree in sign as well."""
    assert len(leaves(got)) == len(leaves(want)), f"{label}: {got!r}, not {want!r}"
    for g, w in zip(leaves(got), leaves(want), strict=True):
        if not hasattr(w, "dtype"):
            assert type(g) is type(w) and g == w, f"{label}: {g!r}, not {w!r}"
            continue
        assert hasattr(g, "dtype"), f"{label}: {g!r}, not {w!r}"
        assert str(g.dtype) == str(w.dtype), f"{label}: {g.dtype}, not {w.dtype}"
        assert tuple(g.shape) == tuple(w.shape), f"{label}: {tuple(g.shape)}, not {tuple(w.shape)}"
        assert_close(array(g), array(w), label, tol, str(w.dtype).removeprefix("torch."))
        if signs:
            zeros = array(w) == 0
            assert (np.signbit(array(g)) == np.signbit(array(w)))[zeros].all(), f"{label}: sign of zero"


def assert_close(got: np.ndarray, want: np.ndarray, label: str, tol: float = 1.0, name: str = "") -> None:
    """Up to rounding in the dtype of that name, else in that of `want`."""
    name = name or want.dtype.name
    if name in RTOL:
        np.testing.assert_allclose(
            got, want, RTOL[name] * tol, ATOL[name] * tol, equal_nan=True, err_msg=label
        )
    else:
        np.testing.assert_array_equal(got, want, err_msg=label)
