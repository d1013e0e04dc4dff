"""The largest element of each window, with its place in the plane; elements read and added at such places are each other's gradients.

The last dimensions, as many as a size has entries, are a plane; all before them count planes, so that one example, a batch of them and
the examples of a vmap are the same to a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached
from nbgrad.core.tensor import Tensor, empty
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.dispatch.prepared import Run, prepared
from nbgrad.kernels.cpu import pooling as templates
from nbgrad.kernels.cuda import windows as device
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes
from nbgrad.memory.backend import cpu
from nbgrad.memory.layout import Ints, channels_last_strides
from nbgrad.memory.storage import Spec
from nbgrad.ops.rows.softmax import _all_have
from nbgrad.ops.views.copy import copier, laid_like, zeros


def of_three(sizes: Sequence[int], missing: int = 1) -> Ints:
    """Kernels know planes of three dimensions."""
    return (missing,) * (3 - len(sizes)) + tuple(sizes)


def planes(sp: Spec, size: Ints, dtype: Any = None) -> Spec:
    """What lies as new tensors do and has planes of this size in place of those of `sp`."""
    made: Spec = sp.plain.like((*tuple(sp.shape)[: sp.ndim - len(size)], *size), dtype=dtype or sp.dtype)
    return made


def laid_as(sp: Spec, out: Spec, formats: Ints) -> Run | None:
    """What copies a result to lie as its input did, if it has so many dimensions and its channels lie last."""
    return laid_like(sp, out) if sp.ndim in formats else None


def from_dense(sp: Spec, run: Run, outs: Sequence[Spec] = (), formats: Ints = ()) -> Run:
    """What reads its tensor as new ones lie; of one whose channels lie last, the results do so, too, if it has as many dimensions as the
    `formats` say."""
    if sp.contiguous:
        return run
    dense = copier(sp, sp.dense())
    copiers = [laid_as(sp, out, formats) for out in outs]
    if not outs or copiers[0] is None:
        return lambda t: run(dense(t))

    def laid_out(t: Tensor) -> Any:
        got = run(dense(t))
        if isinstance(got, Tensor):
            return copiers[0](got)  # type: ignore[misc]
        return tuple([copy(o) for copy, o in zip(copiers, got)])  # type: ignore[misc]

    return laid_out


_FEW_CHANNELS = 8  # of a pixel, below which it is quicker to take planes


def lies_together(sp: Spec, formats: Ints) -> bool:
    """Whether the channels of a pixel lie together and are worth to be taken so, in images of so many dimensions as `formats` say."""
    if sp.contiguous or sp.backend is not cpu or sp.ndim not in formats or not sp.numel:
        return False
    shape = tuple(sp.shape)
    return shape[1] >= _FEW_CHANNELS and sp.strides == channels_last_strides(shape)


# ---------------------------------------------------------------- at places of a plane


class Geometry(NamedTuple):
    """Of windows that are alike: how many there are, what they span, how far they are apart, how many rows and columns precede the input,
    how far elements of a window are apart; for each dimension."""

    outs: Ints
    kernel: Ints
    stride: Ints
    padding: Ints
    dilation: Ints


@cached(4096)
def _moving(kind: str, sp: Spec, out: Spec, there: int, own: int) -> Callable[..., Tensor]:
    code = sp.dtype.code
    source, params = templates.move(kind, code)
    address = sp.backend.kernel(f"planes_{kind}_{code}", source, params).address
    items = out.numel // max(there if kind != "pick" else own, 1)
    launch = sp.backend.launch(4, "", max(out.numel, items * own) if items > 1 else items, out.numel < FEW)
    meta = sp.backend.constants([there, own])

    def run(t: Tensor, indices: Tensor) -> Tensor:
        got = empty(out)
        launch(address, items, meta, got._buf, t._buf, indices._buf)
        return got

    return run


def _all_together(formats: Ints, *tensors: Tensor) -> bool:
    return all([lies_together(t._spec.plain, formats) for t in tensors])


@cached(1024)
def _adding_together(sp: Spec, out: Spec, there: int, own: int) -> Callable[..., Tensor]:
    code, (images, channels) = sp.dtype.code, tuple(sp.shape)[:2]
    address = sp.backend.kernel(f"planes_add_{code}_together", *templates.added_together(code)).address
    blocks = -(-channels // templates.LANES)
    launch = sp.backend.launch(4, "", max(out.numel, sp.numel), out.numel < FEW)
    meta = sp.backend.constants([there, own, channels, blocks])
    laid = out.like(strides=channels_last_strides(tuple(out.shape)))

    def run(t: Tensor, indices: Tensor) -> Tensor:
        got = empty(laid)
        launch(address, images * blocks, meta, got._buf, t._buf, indices._buf)
        return got

    return run


def _dense(t: Tensor) -> Tensor:
    sp = t._spec
    return t if sp.contiguous else copier(sp, sp.dense())(t)


def _numbers(sizes: Sequence[int], g: Geometry) -> list[int]:
    """As kernels read them."""
    outs, kernel, stride, padding, dilation = g
    return [
        *(n for part in (sizes, outs, kernel, stride) for n in of_three(part)),
        *of_three(padding, 0),
        *of_three(dilation),
    ]


@cached(4096)
def _gathering(sp: Spec, out: Spec, geometry: Geometry) -> Callable[..., Tensor]:
    """What windows of this geometry have found, added up by each element: for a device, where many threads may not add to one place."""
    backend, code = sp.backend, sp.dtype.code
    sizes = tuple(out.shape)[out.ndim - len(geometry.outs) :]
    address = backend.kernel(f"planes_gathered_{code}", *device.gathered(code)).address
    launch, meta = backend.launch(4, "", out.numel), backend.constants(_numbers(sizes, geometry))

    def run(t: Tensor, indices: Tensor) -> Tensor:
        got = empty(out)
        launch(address, out.numel, meta, got._buf, t._buf, indices._buf)
        return got

    return run


class Moves(NamedTuple):
    """`pick(input, indices, dims=)` reads at places in the last dimensions; `add(grad, input, indices, size=, windows=)` is its adjoint; on
    the input, where one is given, it does not depend, but as in PyTorch its node knows it. `windows` are those that have found the
    indices, where they are alike."""

    pick: Callable[..., Tensor]
    add: Callable[..., Tensor]


def laid_by(input: Tensor | None, made: Tensor, formats: Ints) -> Tensor:
    """A gradient that lies as its input, if channels lie last there and it has as many dimensions as the `formats` say."""
    copy = (
        None if input is None or input._spec.contiguous else laid_as(input._spec.plain, made._spec, formats)
    )
    return made if copy is None else copy(made)


def moves(pick_name: str, add_name: str, formats: Ints = ()) -> Moves:
    """Both, with the names that their nodes have; what is added up lies as its input does, if that has so many dimensions."""

    @differentiable(
        pick_name,
        raw=True,
        tangent=lambda input_t, indices, dims: pick(input_t, indices, dims=dims),
        batch=lambda has, *tensors, dims: pick(*_all_have(has, *tensors), dims=dims),
        input=lambda g, indices, input_spec, dims: add(
            g, None, indices, size=tuple(input_spec.shape)[input_spec.ndim - dims :], windows=None
        ),
    )
    def pick(input: Tensor, indices: Tensor, *, dims: int) -> Tensor:
        sp, size = input._spec, tuple(indices.shape)[indices.ndim - dims :]
        there = prod(tuple(sp.shape)[sp.ndim - dims :])
        return _moving("pick", sp.dense(), planes(sp, size), there, prod(size))(
            _dense(input), _dense(indices)
        )

    @differentiable(
        add_name,
        raw=True,
        tangent=lambda grad_t, input, indices, size, windows: (
            None if grad_t is None else add(grad_t, input, indices, size=size, windows=windows),
        ),
        batch=lambda has, *tensors, size, windows: add(*_all_have(has, *tensors), size=size, windows=windows),
        grad=lambda g, indices, size: pick(g, indices, dims=len(size)),
        input=lambda input_spec: zeros(input_spec.dense()),
    )
    def add(
        grad: Tensor, input: Tensor | None, indices: Tensor, *, size: Ints, windows: Geometry | None
    ) -> Tensor:
        sp = grad._spec
        if windows is not None and not sp.backend.prompt:
            return _gathering(sp.dense(), planes(sp, size), windows)(_dense(grad), _dense(indices))
        own = prod(tuple(sp.shape)[sp.ndim - len(size) :])
        if input is not None and input.ndim == len(size) + 2 and _all_together(formats, input, grad, indices):
            return _adding_together(sp, planes(sp, size), prod(size), own)(grad, indices)
        made = _moving("add", sp.dense(), planes(sp, size), prod(size), own)(_dense(grad), _dense(indices))
        return laid_by(input, made, formats)

    return Moves(pick, add)


# ---------------------------------------------------------------- windows that are alike


def _alike(input: Spec, geometry: Geometry) -> Run:
    outs, kernel, stride, _, dilation = geometry
    sizes = tuple(input.shape)[input.ndim - len(outs) :]
    values = planes(input, outs)
    places = values.like(dtype=dtypes.int64)
    code, kind, step = input.dtype.code, input.dtype.kind, stride[-1]
    known = step if step < 4 else 0
    counted = "i4" if prod(sizes) < 1 << 31 else "i8"
    if input.ndim == len(outs) + 2 and lies_together(input, (4, 5)):
        strides = channels_last_strides(tuple(values.shape))
        address = input.backend.kernel(
            f"max_pool_{code}_together{'_wide' * (counted == 'i8')}", *templates.together(code, kind, counted)
        ).address
        numbers, channels = _numbers(sizes, geometry), input.shape[1]
        items = values.numel // max(outs[-1] * channels, 1)
        values, places = values.like(strides=strides), places.like(strides=strides)
        return _launching(input, values, places, address, [*numbers, channels], items)
    together = 3 if kernel[-1] % 2 else 2
    source, params = templates.alike(code, kind, counted, known, together)
    name = f"max_pool_{code}{'_wide' * (counted == 'i8')}{f'_step{known}' * (known > 0)}_taps{together}"
    address = input.backend.kernel(name, source, params).address
    high, wide = of_three(outs)[1:]
    rows, *room = templates.blocks(high, wide, kernel[-1], known, dilation[-1])
    numbers = [*_numbers(sizes, geometry), rows, *room]
    items = values.numel // max(high * wide, 1) * -(-high // rows)
    return _of_rows(input, values, places, address, numbers, items, (4, 5))


def _of_rows(
    input: Spec,
    values: Spec,
    places: Spec,
    address: int,
    numbers: Sequence[int],
    items: int,
    formats: Ints = (4,),
    samples: bool = False,
) -> Any:
    """What runs a kernel whose items are rows of results, or several."""
    run = _launching(input, values, places, address, numbers, items, samples)
    return run if samples else from_dense(input, run, (values, places), formats)


def _launching(
    input: Spec,
    values: Spec,
    places: Spec,
    address: int,
    numbers: Sequence[int],
    items: int,
    samples: bool = False,
) -> Callable[..., tuple[Tensor, Tensor]]:
    launch = values.backend.launch(
        4 + samples, "", values.numel if items > 1 else items, max(values.numel, input.numel) < FEW
    )
    meta = input.backend.constants(numbers)

    def run(t: Tensor, *more: Tensor) -> tuple[Tensor, Tensor]:
        got, where = empty(values), empty(places)
        launch(address, items, meta, got._buf, where._buf, t._buf, *[m._buf for m in more])
        return got, where

    return run


def _max_pool(node_name: str) -> Callable[..., Any]:
    """`pool(input, geometry=)`: the largest elements and their places."""
    at = moves(f"{node_name}BackwardBackward", f"{node_name}Backward", (4, 5))

    def rule(g: Any, y1: Tensor, input: Tensor, geometry: Geometry) -> Tensor:
        size = tuple(input.shape)[input.ndim - len(geometry.outs) :]
        return at.add(g[0], input, y1, size=size, windows=geometry)

    @prepared(
        node_name,
        tangent=lambda t, y1, geometry: (at.pick(t, y1, dims=len(geometry.outs)), None),
        batch=lambda x, geometry: pool(x, geometry=geometry),
        input=rule,
    )
    def pool(input: Spec, *, geometry: Geometry) -> Run:
        return _alike(input, geometry)

    return pool


max_pool: dict[int, Any] = {k: _max_pool(f"MaxPool{k}DWithIndices") for k in (2, 3)}


# ---------------------------------------------------------------- windows that are not


def _unlike(input: Spec, outs: Ints, kernel: Ints = (), order: Ints = ()) -> Any:
    """They share the input evenly; or are of one size, and random numbers say where they lie, the `order` which is for which dimension."""
    dims = len(outs)
    sizes = tuple(input.shape)[input.ndim - dims :]
    values = planes(input, outs)
    code, kind = input.dtype.code, input.dtype.kind
    source, params = templates.unlike(code, kind, bool(order))
    name = f"{'fractional' if order else 'adaptive'}_max_pool_{code}"
    address = input.backend.kernel(name, source, params).address
    numbers = [*of_three(sizes), *of_three(outs)]
    if order:
        numbers += [*of_three(kernel), dims, *of_three(order, 0)]
    rows = values.numel // max(outs[-1], 1)
    return _of_rows(
        input, values, values.like(dtype=dtypes.int64), address, numbers, rows, samples=bool(order)
    )


def check_gradient(function: str, g: Any) -> None:
    """Refuse the gradient of windows that share the input where there are none, as PyTorch does."""
    for d, n in enumerate(g.shape[1:], 1):
        if not n:
            raise RuntimeError(
                f"{function}(): Expected grad_output to have non-zero size for non-batch dimensions, but grad_output has sizes "
                f"{list(g.shape)} with dimension {d} being empty"
            )


def _adaptive_max_pool(node_name: str, backward: str) -> Callable[..., Any]:
    at = moves(f"{node_name}BackwardBackward", f"{node_name}Backward", (4,))

    def rule(g: Any, y1: Tensor, input: Tensor, outs: Ints) -> Tensor:
        if g[0] is not None:
            check_gradient(backward, g[0])
        return at.add(g[0], input, y1, size=tuple(input.shape)[input.ndim - len(outs) :], windows=None)

    @prepared(
        node_name,
        tangent=lambda t, y1, outs: (at.pick(t, y1, dims=len(outs)), None),
        batch=lambda x, outs: pool(x, outs=outs),
        input=rule,
    )
    def pool(input: Spec, *, outs: Ints) -> Run:
        run: Run = _unlike(input, outs)
        return run

    return pool


adaptive_max_pool = {
    k: _adaptive_max_pool(f"AdaptiveMaxPool{k}D", f"adaptive_max_pool{k}d_backward") for k in (2, 3)
}


def _fractional_max_pool(node_name: str, order: Ints) -> Callable[..., Any]:
    """`pool(input, samples, outs=, kernel=)`, where there are as many random numbers for each plane as dimensions."""
    at = moves(f"{node_name}BackwardBackward", f"{node_name}Backward")

    def rule(g: Any, y1: Tensor, input: Tensor, outs: Ints, wanted: Any) -> Any:
        return at.add(g[0], input, y1, size=tuple(input.shape)[input.ndim - len(outs) :], windows=None), None

    def of_examples(has: Sequence[bool], *tensors: Tensor, outs: Ints, kernel: Ints) -> Any:
        return pool(*_all_have(has, *tensors), outs=outs, kernel=kernel)

    @differentiable(
        node_name,
        raw=True,
        tangent=lambda input_t, y1, outs: (at.pick(input_t, y1, dims=len(outs)), None),
        batch=of_examples,
        all=rule,
    )
    def pool(input: Tensor, samples: Tensor, *, outs: Ints, kernel: Ints) -> Any:
        return _sampling(input._spec.dense(), outs, kernel, order)(_dense(input), _dense(samples))

    return pool


_sampling = cached(1024)(_unlike)
fractional_max_pool = {
    2: _fractional_max_pool("FractionalMaxPool2D", (1, 0)),
    3: _fractional_max_pool("FractionalMaxPool3D", (0, 1, 2)),
}


# ---------------------------------------------------------------- elements back at their places


def _max_unpool(node_name: str) -> Callable[..., Any]:
    """`unpool(input, indices, size=)`: planes of zeros with the elements at these places, of several for a place the last."""
    at = moves(f"{node_name}Backward", f"{node_name}BackwardBackward")

    @differentiable(
        node_name,
        raw=True,
        tangent=lambda input_t, indices, size: unpool(input_t, indices, size=size),
        batch=lambda has, *tensors, size: unpool(*_all_have(has, *tensors), size=size),
        input=lambda g, indices, size: at.pick(g, indices, dims=len(size)),
    )
    def unpool(input: Tensor, indices: Tensor, *, size: Ints) -> Tensor:
        sp = input._spec
        own = prod(tuple(sp.shape)[sp.ndim - len(size) :])
        out = planes(sp, size)
        got = _moving("put", sp.dense(), out, prod(size), own)(_dense(input), _dense(indices))
        copy = None if sp.contiguous else laid_as(sp, out, (4,))
        return got if copy is None else copy(got)

    return unpool


max_unpool = {k: _max_unpool(f"MaxUnpool{k}D") for k in (2, 3)}
