"""Arithmetic on shapes and strides, against NumPy's, over shapes and strides that nobody would think of."""

import itertools
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbgrad.memory import layout
from tests.support import T

sizes = st.lists(st.integers(0, 4), min_size=0, max_size=4).map(tuple)
# No deadline: the first example of a kind compiles a kernel.
quietly = settings(deadline=None, max_examples=150, derandomize=True)


@st.composite
def views(draw: Any) -> np.ndarray[Any, Any]:
    """A NumPy view of distinct numbers: permuted, sliced, broadcast."""
    shape = draw(st.lists(st.integers(1, 4), min_size=0, max_size=4))
    array = np.arange(float(prod(shape))).reshape(shape)
    array = array.transpose(draw(st.permutations(range(len(shape)))))
    for d, n in enumerate(array.shape):
        start, step = draw(st.integers(0, n)), draw(st.integers(1, 2))
        array = array[(slice(None),) * d + (slice(start, None, step),)]
    if draw(st.booleans()):
        array = np.broadcast_to(array, (2, *array.shape))
    return array


def geometry(array: np.ndarray[Any, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return array.shape, tuple(s // array.itemsize for s in array.strides)


@given(sizes, sizes)
@quietly
def test_broadcasting_is_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        want = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(RuntimeError, match="must match the size of tensor b"):
            layout.broadcast_shapes(a, b)
    else:
        assert layout.broadcast_shapes(a, b) == want


def reached(shape: tuple[int, ...], *strides: tuple[int, ...]) -> list[tuple[int, ...]]:
    """For every index, the element that each operand shows there."""
    return sorted(
        tuple(sum(i * s for i, s in zip(index, st)) for st in strides)
        for index in itertools.product(*map(range, shape))
    )


@given(views(), views())
@quietly
def test_collapsing_visits_the_same_elements(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return
    strides = [layout.broadcast_strides(*geometry(x), shape) for x in (a, b)]
    if 0 in shape:
        return
    loops, collapsed = layout.collapse(shape, *strides)
    assert reached(loops, *collapsed) == reached(shape, *strides)
    assert len(loops) <= len(shape)


@given(views(), st.data())
@quietly
def test_a_view_of_another_shape_is_numpys_reshape(a: np.ndarray[Any, Any], data: Any) -> None:
    n, to = a.size, []
    while n > 1 and len(to) < 4:
        factor = data.draw(st.sampled_from([k for k in range(1, n + 1) if n % k == 0]))
        to.append(factor)
        n //= factor
    shape = tuple(to) if n <= 1 and a.size else (a.size,)
    strides = layout.view_strides(*geometry(a), shape)
    copied = a.reshape(shape)
    if strides is None:
        assert not np.shares_memory(copied, a) or a.size == 0
    elif a.size:
        shown = np.lib.stride_tricks.as_strided(a, shape, [s * a.itemsize for s in strides])
        assert np.array_equal(shown, copied)


@given(views(), views())
@quietly
def test_ops_on_any_strides_are_numpys(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> None:
    try:
        want = a * b + a
    except ValueError:
        return
    x, y = (T.as_tensor(v.copy()).as_strided(*geometry(v)) if 0 in v.shape else tensor_of(v) for v in (a, b))
    assert np.array_equal((x * y + x).numpy(), want)
    assert float((x * y).sum()) == (a * b).sum()
    for d in range(x.dim()):
        assert np.array_equal(x.sum(d).numpy(), a.sum(d))


def tensor_of(view: np.ndarray[Any, Any]) -> T.Tensor:
    """A tensor that reads its memory with the strides of a NumPy view."""
    shape, strides = geometry(view)
    extent = 1 + sum(s * (n - 1) for s, n in zip(strides, shape))
    memory = np.lib.stride_tricks.as_strided(view, (extent,), (view.itemsize,)).copy()
    return T.from_numpy(memory).as_strided(shape, strides)
