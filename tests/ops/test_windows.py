"""Windows, ranges and empty tensors as PyTorch makes them."""

import warnings
from types import ModuleType
from typing import Any

import pytest

from tests.compare import array, assert_same, outcome
from tests.support import T

WINDOWS = (
    *(
        f"{name}_window({n})"
        for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")
        for n in (0, 1, 2, 7)
    ),
    *(f"{name}_window(8, False)" for name in ("bartlett", "blackman", "hamming", "hann", "kaiser")),
    "hamming_window(5, True, 0.5, 0.4)",
    "kaiser_window(6, False, 5.0)",
    "hann_window(5, dtype=M.float64)",
    "hann_window(5, dtype=M.int64)",
    "bartlett_window(-1)",
    "blackman_window(2.5)",
    "range(1, 4)",
    "range(0, 1, 0.25, dtype=M.float64)",
    "range(3, 1, -1, dtype=M.int64)",
    "range(1, -1)",
    "range(1, 2, 0)",
)
LAID_OUT = (
    "empty_strided((2, 3), (1, 2))",
    "empty_strided((2, 3), (0, 1))",
    "empty_strided((2, 3), (1,))",
    "empty_strided((2, 3), (1, -2))",
    "empty_permuted((2, 3, 4), (0, 2, 1))",
    "empty_permuted((2, 3), (0,))",
    "ones(2).new_empty_strided((2, 3), (1, 2))",
)


def made(M: ModuleType, text: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # range is deprecated
        return outcome(lambda: eval(f"M.{text}", {"M": M}))


@pytest.mark.oracle
@pytest.mark.parametrize("text", WINDOWS)
def test_numbers_are_pytorchs(torch: ModuleType, text: str) -> None:
    assert_same(made(T, text), made(torch, text), text)


@pytest.mark.oracle
@pytest.mark.parametrize("text", LAID_OUT)
def test_layouts_are_pytorchs(torch: ModuleType, text: str) -> None:
    got, want = (made(m, text) for m in (T, torch))
    if isinstance(want, str):
        assert got == want
    else:
        assert (tuple(got.shape), got.stride()) == (tuple(want.shape), want.stride())


def test_a_periodic_window_is_the_head_of_a_longer_one() -> None:
    assert array(T.hann_window(6)).tolist() == array(T.hann_window(7, False))[:6].tolist()
    assert T.hann_window(4, requires_grad=True).requires_grad


def test_a_python_function_of_each_element() -> None:
    x = T.tensor([1.0, 2.0, 3.0])
    assert x.clone().apply_(lambda v: v * v).tolist() == [1.0, 4.0, 9.0]
    assert x.clone().map_(x, lambda a, b: a + b).tolist() == [2.0, 4.0, 6.0]
    assert x.clone().map2_(x, x + 1, lambda a, b, c: a * b + c).tolist() == [3.0, 7.0, 13.0]
    y = x.clone()
    assert y.apply_(lambda v: 0.0) is y and y._version == 1
    with pytest.raises(RuntimeError, match=r"Can't call apply_\(\) on Variable that requires grad"):
        x.clone().requires_grad_().apply_(lambda v: v)
