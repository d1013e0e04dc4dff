"""Views: another reading of the same memory. Each is a new spec and an offset; the gradient of one is the other of its pair.

`embed` (write a gradient where the view looked, zero elsewhere) is the pair of every view that leaves elements out or repeats them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.core.arguments import check
from nbgrad.core.op import LINEAR, Op
from nbgrad.core.plan import Kernel
from nbgrad.core.tensor import Tensor, fix, hooks, requires, share, view_of, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import created, differentiable, make_view
from nbgrad.dispatch.prepared import Prepared, call_of, settled
from nbgrad.dispatch.stanza import method
from nbgrad.history.record import record_op, record_view
from nbgrad.memory import backend, layout
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.ops.views.copy import contiguous, copying, full, zeros
from nbgrad.tape.modes import state


class _Known:
    """What a geometry says of specs and static arguments, which is worked out once."""

    __slots__ = ("_found", "_geometry")

    def __init__(self, geometry: Callable[..., tuple[Spec, int]]) -> None:
        self._geometry = geometry
        self._found: dict[tuple[Any, ...], tuple[Spec, int]] = {}

    def of(self, sp: Spec, static: dict[str, Any]) -> tuple[Spec, int]:
        key = (sp, *static.values())
        found = self._found.get(key)
        if found is None:
            if len(self._found) > 1024:
                self._found.clear()
            found = self._found[key] = self._geometry(sp, **static)
        return found


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
        known: dict[Any, Prepared] = {}

        def at(sp: Spec, static: dict[str, Any]) -> Prepared:
            key = (sp, *static.values())
            found = known.get(key)
            if found is None:
                if len(known) > 1024:
                    known.clear()
                found = known[key] = Prepared(op, (sp,), static, _looking(*geometry(sp, **static), name))
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
        return function

    return make


def _looking(sp: Spec, offset: int, name: str) -> Callable[[Tensor], Tensor]:
    """What makes the view."""
    look, start = backend.of(sp.device).view, offset * sp.itemsize

    def run(base: Tensor) -> Tensor:
        buf = look(base._buf, start) if start else base._buf
        return view_of(base, buf, sp, "default" if state.grad else created(), name)

    return run


# ---------------------------------------------------------------- the inverse of looking at a part


def _per_example(sp: Spec, size: int, step: int) -> Spec:
    """A spec with the dimension that counts examples in front."""
    return sp.like((size, *sp.shape), (step, *sp.strides))


def _embed_each(x: Tensor, base: Spec, at: Spec, offset: int) -> Tensor:
    n = tuple.__getitem__(x.shape, 0)
    whole = base.like((n, *base.shape))
    return _embed(x, base=whole, at=_per_example(at, n, whole.strides[0]), offset=offset)


_embeds: dict[tuple[Spec, Spec, Spec, int], tuple[int, Kernel | None]] = {}


@differentiable(
    "AsStridedScatter",
    raw=True,
    tangent=LINEAR,
    batch=_embed_each,
    input=lambda g, at, offset: as_strided_view(g, at, offset),
)
def _embed(input: Tensor, *, base: Spec, at: Spec, offset: int) -> Tensor:
    out = zeros(base)
    key = (input._spec, base, at, offset)
    found = _embeds.get(key)
    if found is None:
        if len(_embeds) > 4096:
            _embeds.clear()
        apart = at.numel and not layout.overlaps(at.shape, at.strides)
        found = _embeds[key] = (
            offset * base.itemsize,
            copying(at.like(dtype=base.dtype), input._spec) if apart else None,
        )
    start, k = found
    if at.numel:
        buf = backend.of(base.device).view(out._buf, start) if start else out._buf
        if k is None:
            _add_overlapping(wrap(buf, at.like(dtype=base.dtype)), input)
        else:
            k.launch(k.address, k.n, buf, input._buf)
    return out


def _add_overlapping(place: Tensor, g: Tensor) -> None:
    """Where the view shows one element several times its gradients add up."""
    import itertools

    memory, values = place._host(), g._host()
    for index in itertools.product(*map(builtins.range, place.shape)):
        memory[index] += values[index]


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


# ---------------------------------------------------------------- the same elements in another order


def _inverse(dims: Ints) -> Ints:
    return tuple(dims.index(d) for d in range(len(dims)))


@view(
    "Permute",
    lambda g, dims: _permute(g, dims=_inverse(dims)),
    batch=lambda x, dims: _permute(x, dims=(0, *[d + 1 for d in dims])),
)
def _permute(sp: Spec, *, dims: Ints) -> tuple[Spec, int]:
    return sp.like(tuple(sp.shape[d] for d in dims), tuple(sp.strides[d] for d in dims)), 0


_permute.op.public = {**_permute.op.public, "dims": "dims"}  # type: ignore[attr-defined]


@view(
    "Transpose",
    lambda g, dim0, dim1: _transpose(g, dim0=dim0, dim1=dim1),
    batch=lambda x, dim0, dim1: _transpose(x, dim0=dim0 + 1, dim1=dim1 + 1),
)
def _transpose(sp: Spec, *, dim0: int, dim1: int) -> tuple[Spec, int]:
    return _swapped(sp, dim0, dim1), 0


@view("T", lambda g: _t(g), batch=lambda x: _transpose(x, dim0=1, dim1=2) if x.ndim == 3 else _alias(x))
def _t(sp: Spec) -> tuple[Spec, int]:
    return _swapped(sp, 0, 1) if sp.ndim == 2 else sp, 0


def _swapped(sp: Spec, a: int, b: int) -> Spec:
    order = list(range(sp.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return sp.like(tuple(sp.shape[d] for d in order), tuple(sp.strides[d] for d in order))


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


@method
@settled
def permute(input: Tensor, *dims: Any) -> Any:
    if not dims:
        raise TypeError('permute() missing 1 required positional arguments: "dims"')
    order = _sizes(dims, "permute", "dims")
    if len(order) != input.ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of "
            f"dimensions i.e. input.dim() = {input.ndim} is not equal to len(dims) = {len(order)}"
        )
    wrapped = tuple(layout.wrap_dim(d, input.ndim) for d in order)
    if len(set(wrapped)) != len(wrapped):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return call_of(_permute, input, dims=wrapped)


@method
@settled
def transpose(input: Tensor, dim0: int, dim1: int) -> Any:
    a, b = layout.wrap_dim(dim0, input.ndim), layout.wrap_dim(dim1, input.ndim)
    return call_of(_transpose, input, dim0=a, dim1=b)


swapaxes = swapdims = transpose


@method
def t(input: Tensor) -> Tensor:
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return _t(input)


def _deprecated(text: str) -> None:
    import warnings

    warnings.warn(text, UserWarning, stacklevel=3)


_IDENTITY = "This function is the identity in these cases."
_CONJUGATE = "Consider using x.conj()."


def _T(self: Tensor) -> Tensor:
    if self.ndim == 0:
        _deprecated(f"Tensor.T is deprecated on 0-D tensors. {_IDENTITY}")
    elif self.ndim != 2:
        _deprecated(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will throw an "
            "error in a future release. Consider `x.mT` to transpose batches of matrices or "
            "`x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
        )
    return _permute(self, dims=tuple(range(self.ndim))[::-1])


def _H(self: Tensor) -> Tensor:
    if self.ndim == 0:
        _deprecated(f"Tensor.H is deprecated on 0-D tensors. {_CONJUGATE}")
        return self
    if self.ndim != 2:
        batches = " For batches of matrices, consider using tensor.mH" if self.ndim > 2 else ""
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.{batches}"
        )
    return transpose(self, 0, 1)


def _of_matrices(name: str, advice: str) -> property:
    def turned(self: Tensor) -> Tensor:
        if self.ndim == 0:
            _deprecated(f"Tensor.{name} is deprecated on 0-D tensors. {advice}")
            return self
        if self.ndim == 1:
            raise RuntimeError(
                f"tensor.{name} is only supported on matrices or batches of matrices. Got 1-D tensor."
            )
        return transpose(self, -2, -1)

    return property(turned)


Tensor.T, Tensor.H = property(_T), property(_H)  # type: ignore[attr-defined]
Tensor.mT, Tensor.mH = _of_matrices("mT", _IDENTITY), _of_matrices("mH", _CONJUGATE)  # type: ignore[attr-defined]
fix("T", "H", "mT", "mH")


@method
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    given = [[d] if isinstance(d, int) else list(d) for d in (source, destination)]
    if len(given[0]) != len(given[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({given[0]} dims) should contain the same number of dims as "
            f"destination ({given[1]} dims)"
        )
    src, dst = ([layout.wrap_dim(d, input.ndim) for d in dims] for dims in given)
    for word, dims, named in (("source", src, given[0]), ("destination", dst, given[1])):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{word}` ({named})")
    if not input.ndim:
        return _permute(input, dims=())
    order: list[int] = [-1] * input.ndim
    for s, d in zip(src, dst):
        order[d] = s
    rest = iter([d for d in range(input.ndim) if d not in src])
    return _permute(input, dims=tuple(next(rest) if d < 0 else d for d in order))


moveaxis = movedim

# ---------------------------------------------------------------- the same elements in another shape


def _view_each(x: Tensor, shape: Ints) -> Tensor:
    return _view(x, shape=(tuple.__getitem__(x.shape, 0), *shape))


@view("View", lambda g, input_spec: reshape(g, input_spec.shape), batch=_view_each)
def _view(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    strides = layout.view_strides(sp.shape, sp.strides, shape)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
            "subspaces). Use .reshape(...) instead."
        )
    return sp.like(shape, strides), 0


@view("ReshapeAlias", lambda g, input_spec: reshape(g, input_spec.shape), batch=_view_each)
def _reshape_alias(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    strides = layout.view_strides(sp.shape, sp.strides, shape)
    assert strides is not None
    return sp.like(shape, strides), 0


@view("UnsafeView", lambda g, input_spec: reshape(g, input_spec.shape), batch=_view_each)
def _unsafe_view(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    return sp.like(shape), 0


@view("Alias", lambda g: g, batch=lambda x: _alias(x))
def _alias(sp: Spec) -> tuple[Spec, int]:
    return sp, 0


def _squeezed(sp: Spec, *, dims: Ints) -> tuple[Spec, int]:
    keep = [d for d in range(sp.ndim) if d not in dims]
    return sp.like(tuple(sp.shape[d] for d in keep), tuple(sp.strides[d] for d in keep)), 0


def _squeeze_each(x: Tensor, dims: Ints) -> Tensor:
    return _squeeze_dims(x, dims=tuple([d + 1 for d in dims]))


_squeeze: Callable[..., Tensor]
_squeeze_dim: Callable[..., Tensor]
_squeeze_dims: Callable[..., Tensor]
_squeeze, _squeeze_dim, _squeeze_dims = (
    view(
        f"SqueezeBackward{k}",
        lambda g, input_spec: reshape(g, input_spec.shape),
        batch=_squeeze_each,
    )(_squeezed)
    for k in range(3)
)


@view(
    "Unsqueeze",
    lambda g, dim: _squeeze_dim(g, dims=(dim,)),
    batch=lambda x, dim: _unsqueeze(x, dim=dim + 1),
)
def _unsqueeze(sp: Spec, *, dim: int) -> tuple[Spec, int]:
    step = sp.shape[dim] * sp.strides[dim] if dim < sp.ndim else 1
    return sp.like((*sp.shape[:dim], 1, *sp.shape[dim:]), (*sp.strides[:dim], step, *sp.strides[dim:])), 0


def alias(input: Tensor) -> Tensor:
    return _alias(input)


@method
def view_as(self: Tensor, other: Tensor) -> Tensor:
    return _view(self, shape=layout.infer_size(tuple(other.shape), self._spec.numel))


@settled
def _t_view(self: Tensor, *shape: Any) -> Any:
    return call_of(_view, self, shape=layout.infer_size(_sizes(shape), self._spec.numel))


Tensor.view = _t_view  # type: ignore[attr-defined]


@method
@settled
def reshape(input: Tensor, *shape: Any) -> Any:
    return _reshaped(input, layout.infer_size(_sizes(shape, "reshape", "shape"), input._spec.numel))


def _reshaped(input: Tensor, sizes: Ints) -> Any:
    """A view where one can show the elements so, else a copy."""
    sp = input._spec
    if layout.view_strides(sp.shape, sp.strides, sizes) is not None:
        return call_of(_view if sp.contiguous else _reshape_alias, input, shape=sizes)
    copied = contiguous(input)
    out = _unsafe_view(copied, shape=sizes)
    return owned(out)


def owned(view: Tensor) -> Tensor:
    """A view of a copy that nobody else has: to the user no view."""
    view._view, view._rg = None, 1 if view._node is not None else 0
    return view


@method
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    return reshape(self, other.shape)


@method
@settled
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    a, b = layout.wrap_dim(start_dim, input.ndim), layout.wrap_dim(end_dim, input.ndim)
    if a > b:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input.ndim == 0:
        return _reshaped(input, (1,))
    if a == b:
        return input
    merged = 1
    for n in tuple(input.shape)[a : b + 1]:
        merged *= n
    return _reshaped(input, (*tuple(input.shape)[:a], merged, *tuple(input.shape)[b + 1 :]))


@method
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension, next to each other."""
    return _view(contiguous(input), shape=(input.numel(),))


@method
def unflatten(input: Tensor, dim: int, sizes: Any) -> Tensor:
    if isinstance(sizes, Tensor):
        bool(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if type(dim) is not int or not _holds_ints(sizes):
        check("inner.unflatten", (dim, sizes), {})
    d = layout.wrap_dim(dim, input.ndim)
    unexpected = "unflatten got an unexpected error:\n"
    if not input.ndim:
        raise RuntimeError(f"{unexpected}Dimension specified as {dim} but tensor has no dimensions")
    try:
        inner = layout.infer_size(tuple(sizes), input.shape[d])
    except RuntimeError as error:
        if "is invalid for input" not in str(error):
            raise RuntimeError(f"{unexpected}{error}") from None
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {d} ({input.shape[d]}) in the input "
            "tensor"
        ) from None
    return reshape(input, (*tuple(input.shape)[:d], *inner, *tuple(input.shape)[d + 1 :]))


@method
@settled
def squeeze(input: Tensor, dim: Any = None) -> Any:
    if dim is None:
        return call_of(_squeeze, input, dims=tuple(d for d in range(input.ndim) if input.shape[d] == 1))
    single = isinstance(dim, int)
    wanted = (
        (layout.wrap_dim(dim, input.ndim),)
        if single
        else layout.wrap_dims(tuple(dim), input.ndim)
        if dim
        else ()
    )
    ones = tuple(w for w in wanted if input.ndim and input.shape[w] == 1)
    return call_of(_squeeze_dim if single else _squeeze_dims, input, dims=ones)


@method
@settled
def unsqueeze(input: Tensor, dim: int) -> Any:
    n = input.ndim + 1
    if not -n <= dim < n:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})"
        )
    return call_of(_unsqueeze, input, dim=dim % n)


# ---------------------------------------------------------------- more, or fewer, elements


def _expand_each(x: Tensor, shape: Ints) -> Tensor:
    n, *sizes = x.shape
    wide = (*(1,) * (len(shape) - len(sizes)), *sizes)
    if len(wide) > len(sizes):
        x = reshape(x, (n, *wide))
    return _expand(x, shape=(n, *shape))


@view("Expand", lambda g, input_spec: hooks.sum_to(g, input_spec.shape), batch=_expand_each)
def _expand(sp: Spec, *, shape: Ints) -> tuple[Spec, int]:
    try:
        return sp.like(*layout.expand(sp.shape, sp.strides, shape)), 0
    except RuntimeError as e:
        raise RuntimeError(str(e).replace("torch.FloatTensor", sp.dtype.type_name)) from None


@method
@settled
def expand(self: Tensor, *sizes: Any, implicit: bool = False) -> Any:
    return call_of(_expand, self, shape=_sizes(sizes, "expand"))


def spread(g: Tensor, shape: Ints) -> Tensor:
    """`expand` for gradients: where nothing is recorded, without the bookkeeping that a user's view needs."""
    if state.grad or state.active:
        return _expand(g, shape=shape)
    key = (g._spec, shape)
    sp = _spreads.get(key)
    if sp is None:
        if len(_spreads) > 4096:
            _spreads.clear()
        sp = _spreads[key] = g._spec.like(*layout.expand(g._spec.shape, g._spec.strides, shape))
    return wrap(g._buf, sp)


_spreads: dict[tuple[Spec, Ints], Spec] = {}


@method
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    return _expand(self, shape=tuple(other.shape))


@method
def broadcast_to(input: Tensor, *size: Any) -> Tensor:
    return _expand(input, shape=_sizes(size, "broadcast_to"))


def _part_rule(geometry: Callable[..., tuple[Spec, int]]) -> Callable[..., Any]:
    """The gradient of a view of a part: zeros, but where it looked."""

    known = _Known(geometry)

    def rule(g: Tensor, input_spec: Spec, **static: Any) -> Tensor:
        base = input_spec.dense()
        at, offset = known.of(base, static)
        return _embed(g, base=base, at=at, offset=offset)

    return rule


def _select_geometry(sp: Spec, *, dim: int, index: int) -> tuple[Spec, int]:
    shape, strides = tuple(sp.shape), sp.strides
    return sp.like(shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :]), index * strides[dim]


def _slice_geometry(sp: Spec, *, dim: int, start: int, length: int, step: int) -> tuple[Spec, int]:
    shape, strides = tuple(sp.shape), sp.strides
    return (
        sp.like(
            (*shape[:dim], length, *shape[dim + 1 :]),
            (*strides[:dim], strides[dim] * step, *strides[dim + 1 :]),
        ),
        start * strides[dim],
    )


def _diagonal_geometry(sp: Spec, *, offset: int, dim1: int, dim2: int) -> tuple[Spec, int]:
    rows, cols = sp.shape[dim1], sp.shape[dim2]
    n = max(0, min(rows, cols - offset) if offset >= 0 else min(rows + offset, cols))
    start = offset * sp.strides[dim2] if offset >= 0 else -offset * sp.strides[dim1]
    keep = [d for d in range(sp.ndim) if d not in (dim1, dim2)]
    shape = (*(sp.shape[d] for d in keep), n)
    return sp.like(
        shape, (*(sp.strides[d] for d in keep), sp.strides[dim1] + sp.strides[dim2])
    ), start if n else 0


_select_part, _slice_part = _part_rule(_select_geometry), _part_rule(_slice_geometry)
_diagonal_part = _part_rule(_diagonal_geometry)


@view(
    "Select",
    lambda g, input_spec, dim, index: _select_part(g, input_spec, dim=dim, index=index),
    batch=lambda x, dim, index: _select(x, dim=dim + 1, index=index),
)
def _select(sp: Spec, *, dim: int, index: int) -> tuple[Spec, int]:
    return _select_geometry(sp, dim=dim, index=index)


@view(
    "Slice",
    lambda g, input_spec, dim, start, length, step: _slice_part(
        g, input_spec, dim=dim, start=start, length=length, step=step
    ),
    batch=lambda x, dim, start, length, step: _slice(x, dim=dim + 1, start=start, length=length, step=step),
)
def _slice(sp: Spec, *, dim: int, start: int, length: int, step: int) -> tuple[Spec, int]:
    return _slice_geometry(sp, dim=dim, start=start, length=length, step=step)


@view(
    "Diagonal",
    lambda g, input_spec, offset, dim1, dim2: _diagonal_part(
        g, input_spec, offset=offset, dim1=dim1, dim2=dim2
    ),
    batch=lambda x, offset, dim1, dim2: _diagonal(x, offset=offset, dim1=dim1 + 1, dim2=dim2 + 1),
)
def _diagonal(sp: Spec, *, offset: int, dim1: int, dim2: int) -> tuple[Spec, int]:
    return _diagonal_geometry(sp, offset=offset, dim1=dim1, dim2=dim2)


@method
@settled
def select(input: Tensor, dim: int, index: int) -> Any:
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = layout.wrap_dim(dim, input.ndim)
    n = tuple.__getitem__(input.shape, d)
    if not -n <= index < n:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}"
        )
    return call_of(_select, input, dim=d, index=index % n)


@method
@settled
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Any:
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    d = layout.wrap_dim(dim, input.ndim)
    n = tuple.__getitem__(input.shape, d)
    if isinstance(start, Tensor) and (start.ndim or start.dtype.category != 1):
        raise RuntimeError("start must be an 0-dim integral Tensor.")
    start = int(start)
    if not -n <= start <= n:
        raise IndexError(f"start out of range (expected to be in range of [{-n}, {n}], but got {start})")
    if start < 0:
        start += n
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    return call_of(_slice, input, dim=d, start=start, length=length, step=1)


@method
@settled
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    a, b = layout.wrap_dim(dim1, input.ndim), layout.wrap_dim(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return call_of(_diagonal, input, offset=offset, dim1=a, dim2=b)


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    return diagonal(A, offset, dim1, dim2)


@method
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    size, stride = tuple(size), tuple(stride)
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
    start = input.storage_offset() if storage_offset is None else storage_offset
    if start < 0:
        raise RuntimeError("Tensor: invalid storage offset " + str(start))
    return _strided(input, at=at, offset=start - input.storage_offset())


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
        out = make_view(input, at, offset, "AsStridedBackward0")
    else:
        out = make_view(input, at, 0, "AsStridedBackward0")
        storage = input._storage
        assert storage is not None
        out._buf = storage.memory[(input.storage_offset() + offset) * at.itemsize :]
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

# ---------------------------------------------------------------- several views at once


def _part(input: Tensor, sp: Spec, offset: int) -> Tensor:
    look = backend.of(sp.device).view
    return share(input, look(input._buf, offset * sp.itemsize), sp)


def _several(
    node_name: str, apart: bool = False
) -> Callable[[Callable[..., list[tuple[Spec, int]]]], Callable[..., tuple[Tensor, ...]]]:
    """Make what gives the geometries of several views an op. Those `apart` are none to autograd: each counts its own writes."""

    def make(geometry: Callable[..., list[tuple[Spec, int]]]) -> Callable[..., tuple[Tensor, ...]]:
        def forward(input: Tensor, **static: Any) -> Tensor:
            raise AssertionError("views are made by make_view")

        def rule(g: Any, input_spec: Spec, parts: Any) -> Tensor:
            if isinstance(g, Tensor):  # the engine's form for a node of one output, here a tuple of one view
                g = [g]
            base = input_spec.dense()
            total: Tensor | None = None
            for grad, (at, offset) in zip(g, geometry(base, **parts)):
                if grad is not None:
                    part = _embed(grad, base=base, at=at, offset=offset)
                    total = part if total is None else hooks.add(total, part)
            assert total is not None
            return total

        def batch(x: Tensor, parts: dict[str, Any]) -> tuple[Tensor, ...]:
            return views(x, parts={**parts, "dim": parts["dim"] + 1})

        op = Op(forward, {"input": rule}, node_name + "Backward0", LINEAR, batch)

        def views(input: Tensor, *, parts: dict[str, Any]) -> tuple[Tensor, ...]:
            if state.active and type(input._spec) is Marked:
                return transforms.view(op, views, input, {"parts": parts}, created(multi=True))
            found = geometry(input._spec, **parts)
            if apart:
                outs = tuple([_part(input, sp, offset) for sp, offset in found])
            else:
                outs = tuple([make_view(input, sp, offset, op.node_name, multi=True) for sp, offset in found])
            if outs and state.grad and input._rg and requires(input):
                record_op(op, outs, (input,), {"parts": parts})
            return outs

        def called(input: Tensor, **parts: Any) -> tuple[Tensor, ...]:
            return views(input, parts=parts)

        called.op = op  # type: ignore[attr-defined]
        return called

    return make


@_several("Unbind")
def _unbind(sp: Spec, *, dim: int) -> list[tuple[Spec, int]]:
    return [_select_geometry(sp, dim=dim, index=k) for k in range(sp.shape[dim])]


def _split_geometry(sp: Spec, *, dim: int, sizes: Ints) -> list[tuple[Spec, int]]:
    out, start = [], 0
    for n in sizes:
        out.append(_slice_geometry(sp, dim=dim, start=start, length=n, step=1))
        start += n
    return out


_split, _split_with_sizes = _several("Split")(_split_geometry), _several("SplitWithSizes")(_split_geometry)
_unsafe_split = _several("UnsafeSplit", apart=True)(_split_geometry)
_unsafe_split_with_sizes = _several("UnsafeSplitWithSizes", apart=True)(_split_geometry)


@method
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    at = layout.wrap_dim(dim, input.ndim)
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {at} but tensor has no dimensions")
    return _unbind(input, dim=at)


def _equal_parts(tensor: Tensor, split_size: int, dim: int) -> dict[str, Any]:
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = layout.wrap_dim(dim, tensor.ndim)
    n = tuple.__getitem__(tensor.shape, d)
    if split_size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={split_size}")
    if split_size == 0 and n:
        raise RuntimeError(f"split_size can only be 0 if dimension size is 0, but got dimension size of {n}")
    count = max(1, -(-n // split_size)) if split_size else 1
    return {"dim": d, "sizes": (split_size,) * (count - 1) + (n - split_size * (count - 1),)}


def _given_parts(tensor: Tensor, split_sizes: Sequence[int], dim: int) -> dict[str, Any]:
    if tensor.ndim == 0:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    d = layout.wrap_dim(dim, tensor.ndim)
    n, sizes = tuple.__getitem__(tensor.shape, d), tuple(split_sizes)
    if any(s < 0 for s in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    if sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {d}), but got "
            f"split_sizes={list(sizes)}"
        )
    return {"dim": d, "sizes": sizes}


def _chunks(input: Tensor, chunks: int, dim: int) -> dict[str, Any]:
    if input.ndim == 0:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    d = layout.wrap_dim(dim, input.ndim)
    size = -(-input.shape[d] // chunks)
    return _equal_parts(input, size, d) if size else {"dim": d, "sizes": (0,) * chunks}


def _holds_ints(value: Any) -> bool:
    return isinstance(value, (tuple, list)) and all([type(n) is int for n in value])


@method
def split(tensor: Any, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    if not isinstance(tensor, Tensor):
        found: tuple[Tensor, ...] = tensor.split(split_size, dim)
        return found
    if isinstance(split_size, int) and not isinstance(split_size, bool):
        return _split(tensor, **_equal_parts(tensor, split_size, dim))
    if not _holds_ints(split_size):
        check("split_with_sizes", (tensor, split_size, dim), {})
    return _split_with_sizes(tensor, **_given_parts(tensor, split_size, dim))


@method
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    return _split_with_sizes(input, **_given_parts(input, split_sizes, dim))


@method
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    parts = _chunks(input, chunks, dim)
    return (_split if input.shape[parts["dim"]] else _split_with_sizes)(input, **parts)


@method
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """As `split`, but autograd takes the parts for tensors of their own, which may be written to, each apart."""
    return _unsafe_split(input, **_equal_parts(input, split_size, dim))


@method
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    return _unsafe_split_with_sizes(input, **_given_parts(input, split_sizes, dim))


@method
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    return _unsafe_split(input, **_chunks(input, chunks, dim))


for _name in ("swapaxes", "swapdims", "moveaxis"):
    setattr(Tensor, _name, globals()[_name])

hooks.reshape, hooks.expand = reshape, lambda t, shape: _expand(t, shape=tuple(shape))
hooks.movedim, hooks.alias = movedim, alias
hooks.select = lambda t, dim, index: _select(t, dim=dim, index=index)
hooks.as_strided = lambda t, shape, strides, offset: _strided(
    t, at=t._spec.like(tuple(shape), tuple(strides)), offset=offset
)

__all__ = [
    "as_strided",
    "broadcast_to",
    "chunk",
    "diagonal",
    "flatten",
    "moveaxis",
    "movedim",
    "narrow",
    "permute",
    "ravel",
    "reshape",
    "select",
    "split",
    "split_with_sizes",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unbind",
    "unflatten",
    "unsafe_chunk",
    "unsafe_split",
    "unsafe_split_with_sizes",
    "unsqueeze",
]
