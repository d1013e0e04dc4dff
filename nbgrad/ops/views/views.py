"""Views: another reading of the same memory. Each is a new spec and an offset; the gradient of one is the other of its pair.

`embed` (write a gradient where the view looked, zero elsewhere) is the pair of every view that leaves elements out or repeats them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.base.tables import Table
from nbgrad.core.op import LINEAR, Op
from nbgrad.core.plan import Kernel
from nbgrad.core.tensor import Tensor, hooks, view_of
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import created, differentiable, make_view
from nbgrad.dispatch.look import Look, look_of, one, rule_of
from nbgrad.dispatch.prepared import Prepared
from nbgrad.dispatch.stanza import method
from nbgrad.dispatch.transforms import innermost
from nbgrad.history.record import record_view
from nbgrad.memory import layout
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.ops.views.copy import contiguous, copying, full, zeros
from nbgrad.tape.modes import state


def view(
    node_name: str, rule: Callable[..., Any], batch: Callable[..., Any]
) -> Callable[[Callable[..., tuple[Spec, int]]], Callable[..., Tensor]]:
    """Make a function (spec, static...) -> (spec, offset) a view op. `rule` reads `g`, `input_spec` and static arguments; `batch` is
    the same view of every example, past the dimension that counts them."""

    def make(geometry: Callable[..., tuple[Spec, int]]) -> Callable[..., Tensor]:
        def forward(input: Tensor, **static: Any) -> Tensor:
            raise AssertionError("views are made by make_view")

        name = node_name if node_name[-1].isdigit() else node_name + "Backward0"
        op = Op(forward, {"input": rule}, name, LINEAR, batch, views=True)
        known: Table[Any, Prepared] = Table("ops.views.views.known", 1024)
        find = known.get

        def at(sp: Spec, static: dict[str, Any]) -> Prepared:
            key = (sp, *static.values())
            found = find(key)
            if found is None:
                out, offset = geometry(sp, **static)
                look = look_of(op, sp, static, out, offset)
                found = known.keep(key, Prepared(op, (sp,), static, _looking(out, offset), look))
            return found

        def function(input: Tensor, **static: Any) -> Tensor:
            if state.active and type(input._spec) is Marked:
                return transforms.view(op, function, input, static, created())
            plan = at(input._spec, static)
            result: Tensor = plan.run(input)
            if input._rg and state.grad:
                plan.record(result, (input,))
            return result

        function.at, function.op = at, op  # type: ignore[attr-defined]
        op.function = function
        return function

    return make


def _looking(sp: Spec, offset: int) -> Callable[[Tensor], Tensor]:
    """What makes the view."""
    look, start = sp.backend.view, offset * sp.itemsize

    def run(base: Tensor) -> Tensor:
        buf = look(base._buf, start) if start else base._buf
        return view_of(base, buf, sp, "default" if state.grad else created())

    return run


# ---------------------------------------------------------------- the inverse of looking at a part


def _per_example(sp: Spec, size: int, step: int) -> Spec:
    """A spec with the dimension that counts examples in front."""
    return sp.like((size, *sp.shape), (step, *sp.strides))


def _embed_each(x: Tensor, base: Spec, at: Spec, offset: int) -> Tensor:
    n = tuple.__getitem__(x.shape, 0)
    whole = base.like((n, *base.shape))
    return _embed(x, base=whole, at=_per_example(at, n, whole.strides[0]), offset=offset)


# By how the gradient, the base and what the view looks at lie; where that is, is none of the kernel's business.
_embeds: Table[tuple[Spec, Spec, Spec], Kernel | None] = Table("ops.views.views.embeds", 4096)
_additions: Table[tuple[Spec, Spec], Any] = Table("ops.views.views.additions", 4096)
_unknown: Any = object()


@differentiable(
    "AsStridedScatter",
    raw=True,
    tangent=LINEAR,
    batch=_embed_each,
    input=lambda g, at, offset: as_strided_view(g, at, offset),
)
def _embed(input: Tensor, *, base: Spec, at: Spec, offset: int) -> Tensor:
    return _embedded(input, base, at, offset)


def _embedded(g: Tensor, base: Spec, at: Spec, offset: int) -> Tensor:
    out = zeros(base)
    if at.numel:
        key = (g._spec, base, at)
        k = _embeds.get(key, _unknown)
        if k is _unknown:
            apart = not layout.overlaps(at.shape, at.strides)
            k = _embeds.keep(key, copying(at.like(dtype=base.dtype), g._spec) if apart else None)
        start = offset * base.itemsize
        buf = base.backend.view(out._buf, start) if start else out._buf
        if k is None:
            _add_in_order(buf, at.like(dtype=base.dtype), g)
        else:
            k.launch(k.address, k.n, buf, g._buf)
    return out


hooks.embed_part, hooks.embedded_part = _embed, _embedded


def _add_in_order(buf: Any, at: Spec, g: Tensor) -> None:
    """Where the view shows one element several times its gradients add up, as what is written so is written by one thread."""
    plan = _additions.get((at, g._spec)) or _additions.keep((at, g._spec), hooks.adding(at, g._spec))
    plan.launch(plan.address, plan.n, buf, g._buf)


def _add_part(total: Tensor, g: Tensor, at: Spec, offset: int) -> None:
    """Add the gradient of a part to a total that nobody else has."""
    if at.numel:
        start = offset * at.itemsize
        _add_in_order(at.backend.view(total._buf, start) if start else total._buf, at, g)


hooks.add_part = _add_part


def as_strided_view(g: Tensor, at: Spec, offset: int) -> Tensor:
    """Read a gradient of a base where a view of the base looks; its own memory may be laid out otherwise."""
    return _read_at(contiguous(g), at=at, offset=offset)


def _read_each(x: Tensor, at: Spec, offset: int) -> Tensor:
    n, step = tuple.__getitem__(x.shape, 0), x.stride(0)
    return _read_at(x, at=_per_example(at, n, step), offset=offset)


@view(
    "AsStrided",
    lambda g, input_spec, at, offset: embed(g, base=input_spec, at=at, offset=offset),
    batch=_read_each,
)
def _read_at(sp: Spec, *, at: Spec, offset: int) -> tuple[Spec, int]:
    return at.like(dtype=sp.dtype), offset


def embed(g: Tensor, base: Spec, at: Spec, offset: int) -> Tensor:
    """Zeros like `base`, with `g` where a view of it that reads `at` from `offset` looks. As in PyTorch what that sees beside the
    base gets nothing, and what the base shows several times shares."""
    if not at.numel:  # of which PyTorch records nothing
        return zeros(base.plain.dense())
    before, after = max(0, -offset), max(base.extent, offset + at.extent)
    if base.contiguous and not before and after == base.extent:
        return _embed(g, base=base, at=at, offset=offset)
    # Offsets count the base's memory: build that whole, then read the base's elements from it.
    flat = base.like((before + after,))
    found = _read_at(_embed(g, base=flat, at=at, offset=before + offset), at=base, offset=before)
    if not layout.overlaps(base.shape, base.strides):
        return found
    ones = full(base.dense(), 1)
    return found / _read_at(_embed(ones, base=flat, at=base, offset=before), at=base, offset=before)


hooks.embed = embed


def _sizes(args: Sequence[Any], name: str = "view", word: str = "size") -> tuple[int, ...]:
    """Sizes given one by one or as one sequence."""
    if len(args) == 1 and not isinstance(args[0], int):
        if isinstance(args[0], Tensor):
            return (int(args[0]),)
        if not isinstance(args[0], (tuple, list)):
            raise TypeError(
                f"{name}(): argument '{word}' (position 1) must be tuple of ints, not {type(args[0]).__name__}"
            )
        args = args[0]
    for k, n in enumerate(args):
        if not hasattr(n, "__index__"):
            raise TypeError(
                f"{name}(): argument '{word}' failed to unpack the object at pos {k + 1} with error "
                f'"type must be tuple of ints,but got {type(n).__name__}"'
            )
    return tuple(n if type(n) is int else n.__index__() for n in args)


@view("Alias", lambda g: g, batch=lambda x: _alias(x))
def _alias(sp: Spec) -> tuple[Spec, int]:
    return sp, 0


def alias(input: Tensor) -> Tensor:
    return _alias(input)


@method
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A view of the memory that reads `size` elements along each dimension, `stride` elements of memory apart, from `storage_offset`
    on. An element that is shown several times gets the sum of its gradients.

    >>> x = torch.arange(4.0, requires_grad=True)
    >>> x.as_strided((3, 2), (1, 1)).sum().backward()
    >>> x.grad
    tensor([1., 2., 2., 1.])
    """
    size, stride = tuple(size), tuple(stride)
    known = _strides.get((input._spec, size, stride)) if storage_offset is None and not state.active else None
    if known is not None and len(input._buf) >= known[0].extent * known[0].itemsize:
        out = one(input, known)
        if out is not None:
            return out
    if len(size) != len(stride):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(n < 0 for n in size):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(size)} and strides={list(stride)}"
        )
    if any(s < 0 for s in stride):
        raise RuntimeError(
            f"as_strided: Negative strides are not supported at the moment, got strides: {list(stride)}"
        )
    at = spec(input.dtype, size, stride, input.device)
    own = innermost(input).storage_offset()
    start = own if storage_offset is None else storage_offset
    if start < 0:
        raise RuntimeError("Tensor: invalid storage offset " + str(start))
    out = _strided(input, at=at, offset=start - own)
    plain = {*map(type, size), *map(type, stride)} <= {int}
    if storage_offset is None and type(input._spec) is Spec and at.numel and plain:
        kept = {"at": at, "offset": 0}, (input._spec,), at
        _strides.keep((input._spec, size, stride), (at, 0, rule_of(_strided_op, input._spec), kept, ()))
    return out


# Of a layout, sizes and steps: the view from the first element on.
_strides: Table[tuple[Any, ...], Look] = Table("ops.views.views.strides", 4096)


def _check_room(input: Tensor, at: Spec, start: int) -> None:
    memory = input._buf if input._storage is None else input._storage.memory
    if at.numel and (start < 0 or start + at.extent > len(memory) // at.itemsize):
        raise RuntimeError(
            f"setStorage: sizes {list(at.shape)}, strides {list(at.strides)}, storage offset {start}, and itemsize {at.itemsize} "
            f"requiring a storage size of {(start + at.extent) * at.itemsize} are out of bounds for storage of size {len(memory)}"
        )


def _strided(input: Tensor, *, at: Spec, offset: int) -> Tensor:
    if state.active and type(input._spec) is Marked:
        return transforms.view(_strided_op, _strided, input, {"at": at, "offset": offset}, created())
    _check_room(input, at, input.storage_offset() + offset)
    if offset >= 0:
        out = make_view(input, at, offset)
    else:
        out = make_view(input, at, 0)
        storage = input._storage
        assert storage is not None
        out._buf = at.backend.view(storage.memory, (input.storage_offset() + offset) * at.itemsize)
    return record_view(out, input, _strided_op, {"at": at, "offset": offset})


def _strided_forward(input: Tensor, *, at: Spec, offset: int) -> Tensor:
    raise AssertionError("views are made by make_view")


_strided_op = Op(
    _strided_forward,
    {"input": lambda g, input_spec, at, offset: embed(g, input_spec, at, offset)},
    "AsStridedBackward0",
    LINEAR,
    lambda x, at, offset: _strided(
        x, at=_per_example(at, tuple.__getitem__(x.shape, 0), x.stride(0)), offset=offset
    ),
)


def _holds_ints(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all([type(n) is int for n in value])


__all__ = ["as_strided"]
