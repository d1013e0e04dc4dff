"""Images read where a grid says, and grids of affine maps.

Reading at a place is a sum of elements with weights that depend on the place, and adding there its adjoint. Each takes for every
coordinate the order of the derivative that is meant of its weights, so that of both ops the gradients are made of these ops again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from nbgrad.base.switches import determinism
from nbgrad.base.tables import cached
from nbgrad.core.op import LINEAR
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.kernels.cpu import grids as templates
from nbgrad.kernels.cpu.index import AT_ONCE
from nbgrad.memory.device import device
from nbgrad.memory.dtypes import dtype, evenly, rounded
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index.place import _of_array
from nbgrad.ops.linear.products import bmm
from nbgrad.ops.reduce.sums import sum as sum_over
from nbgrad.ops.rows.softmax import _all_have
from nbgrad.ops.views.copy import full, to_dtype, zeros
from nbgrad.ops.views.join import stack
from nbgrad.ops.views.order import transpose
from nbgrad.ops.views.shape import expand, reshape
from nbgrad.ops.windows.extremes import _dense, of_three

MODES = ("linear", "nearest", "cubic")  # and paddings: zeros, border, reflection


def _reading(mode: str, sp: Spec, *how: Any) -> Callable[..., Tensor]:
    run: Callable[..., Tensor] = _runner("read" if sp.backend.prompt else "read at once", mode, sp, *how)
    return run


def _adding(*how: Any) -> Callable[..., Tensor]:
    """As `_runner`: on a device, several places at once, unless their order is to be the same each time."""
    sp = how[1]
    if sp.backend.prompt:
        return _runner("add", *how)
    at_once = not determinism.level and sp.dtype.code in AT_ONCE
    return _runner("add at once" if at_once else "add by channel", *how)


@cached(1024)
def _runner(how: str, mode: str, sp: Spec, grid: Spec, size: Ints, settings: Ints) -> Callable[..., Tensor]:
    """`size` is that of what is read; `settings` are padding, corners, and orders of derivatives."""
    count, channels = tuple(sp.shape)[:2]
    places = tuple(grid.shape)[1:-1]
    out = sp.like((count, channels, *(places if how.startswith("read") else size)))
    code = sp.dtype.code
    source, params = templates.sample(how, mode, len(size), code, sp.dtype.kind)
    name = f"grid_{how.replace('read', 'sample').replace(' ', '_')}_{mode}{len(size)}d_{code}"
    address = sp.backend.kernel(name, source, params).address
    points = prod(places)
    together = templates.FEW if how == "read" else 1
    blocks = -(-points // together)
    each = {"add": 1, "add by channel": channels}.get(how, blocks)
    items, make = count * each if out.numel else 0, zeros if how == "add at once" else empty
    launch = sp.backend.launch(4, "", max(out.numel, sp.numel) if items > 1 else items)
    orders = (*settings[2:], 0, 0, 0)[:3]
    meta = sp.backend.constants([channels, points, *of_three(size), *settings[:2], *orders, blocks])

    def run(t: Tensor, at: Tensor) -> Tensor:
        got = make(out)
        launch(address, items, meta, got._buf, t._buf, at._buf)
        return got

    return run


def _merged(op: Any, has: Sequence[bool], *tensors: Tensor, **static: Any) -> Tensor:
    """The examples of a vmap as examples of one batch."""
    first, grid = _all_have(has, *tensors)
    size, count, *_ = first.shape
    merged = [reshape(t, (size * count, *t.shape[2:])) for t in (first, grid)]
    got = op(*merged, **static)
    apart: Tensor = reshape(got, (size, count, *got.shape[1:]))
    return apart


def _raised(orders: Ints, k: int) -> Ints:
    return (*orders[:k], orders[k] + 1, *orders[k + 1 :])


def _by_grid(g: Tensor, read: Callable[[Ints], Tensor], orders: Ints, mode: str, grid: Tensor) -> Tensor:
    """The gradient by each coordinate: what is read by derived weights, and how much of it is wanted, over all channels."""
    if mode == "nearest":
        return zeros(grid._spec.plain.dense())
    found = [sum_over(e.mul(g, read(_raised(orders, k))), 1) for k in range(len(orders))]
    joined: Tensor = stack(found, -1)
    return joined


def _sampler(dims: int) -> Callable[..., Any]:
    name = f"grid_sampler_{dims}d"

    @differentiable(
        f"GridSampler{dims}D",
        raw=True,
        unmoved=name,
        batch=lambda has, *tensors, **static: _merged(sample, has, *tensors, **static),
        input=lambda g, grid, input_spec, mode, padding, corners, orders: add(
            g,
            grid,
            size=tuple(input_spec.shape)[-dims:],
            mode=mode,
            padding=padding,
            corners=corners,
            orders=orders,
        ),
        grid=lambda g, input, grid, mode, padding, corners, orders: _by_grid(
            g,
            lambda o: sample(input, grid, mode=mode, padding=padding, corners=corners, orders=o),
            orders,
            mode,
            grid,
        ),
    )
    def sample(
        input: Tensor, grid: Tensor, *, mode: str, padding: int, corners: bool, orders: Ints
    ) -> Tensor:
        sp, size = input._spec.dense(), tuple(input.shape)[-dims:]
        run = _reading(mode, sp, grid._spec.dense(), size, (padding, corners, *orders))
        return run(_dense(input), _dense(grid))

    @differentiable(
        f"GridSampler{dims}DBackward",
        raw=True,
        unmoved=f"{name}_backward",
        batch=lambda has, *tensors, **static: _merged(add, has, *tensors, **static),
        grad=lambda g, grid, mode, padding, corners, orders: sample(
            g, grid, mode=mode, padding=padding, corners=corners, orders=orders
        ),
        grid=lambda g, grad, grid, mode, padding, corners, orders: _by_grid(
            grad,
            lambda o: sample(g, grid, mode=mode, padding=padding, corners=corners, orders=o),
            orders,
            mode,
            grid,
        ),
    )
    def add(
        grad: Tensor, grid: Tensor, *, size: Ints, mode: str, padding: int, corners: bool, orders: Ints
    ) -> Tensor:
        sp = grad._spec.dense()
        run = _adding(mode, sp, grid._spec.dense(), size, (padding, corners, *orders))
        return run(_dense(grad), _dense(grid))

    return sample


sampler = {dims: _sampler(dims) for dims in (2, 3)}


def reading(input: Spec, grid: Spec, mode: int, padding: int, corners: bool) -> Callable[..., Tensor]:
    """What reads, without a record, pictures that lie so where a grid says; both lie in order."""
    dims = input.ndim - 2
    settings = padding, corners, *(0,) * dims
    return _reading(MODES[mode], input, grid, tuple(input.shape)[-dims:], settings)


# ---------------------------------------------------------------- grids of affine maps


def _steps(count: int, corners: bool, d: dtype) -> Any:
    """Coordinates of the middles of elements, where -1 and 1 are the outermost ones or the edges; each step rounded, as in PyTorch."""
    if count < 2:
        return np.zeros(count)
    steps = evenly(-1, 1, count, d)
    return steps if corners else rounded(rounded(steps * (count - 1), d) / count, d)


@cached(256)
def _line(count: int, corners: bool, d: dtype, where: device) -> Tensor:
    return to_dtype(_of_array(_steps(count, corners, d)).to(where), d)


def _identity(size: Ints, corners: bool, like: Tensor) -> Tensor:
    """The coordinates of all elements, those of columns first, and a 1: a row for each. Lines are kept, from which a device makes them."""
    sp = like._spec.plain
    lines = [_line(n, corners, sp.dtype, sp.device) for n in size]
    axes = [expand(reshape(line, (-1, *(1,) * (len(size) - k))), size) for k, line in enumerate(lines, 1)]
    rows: Tensor = stack([*axes[::-1], full(sp.like(size), 1)], -1)
    return reshape(rows, (-1, len(size) + 1))


@differentiable(
    "AffineGridGenerator",
    tangent=LINEAR,
    theta=lambda g, size, corners: _affine_back(g, size, corners),
)
def affine_grid(theta: Tensor, *, size: Ints, corners: bool) -> Tensor:
    """A batch of maps, each of the elements of an image of this size."""
    rows = _identity(size, corners, theta)
    count = theta.shape[0]
    places = bmm(expand(rows, (count, *rows.shape)), transpose(theta, 1, 2))
    made: Tensor = reshape(places, (count, *size, len(size)))
    return made


def _affine_back(g: Tensor, size: Ints, corners: bool) -> Tensor:
    rows = _identity(size, corners, g)
    count = g.shape[0]
    flat = reshape(g, (count, prod(size), len(size)))
    found: Tensor = bmm(transpose(flat, 1, 2), expand(rows, (count, *rows.shape)))
    return found
