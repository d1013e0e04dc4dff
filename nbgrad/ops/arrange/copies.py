"""What views show, as copies: `view_copy`, `select_copy` and the like.

Each is the view itself, judged and recorded as one, whose numbers then get memory of their own: its history is the view's, so gradients of
every order, forward mode and `vmap` are those of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.core.refusals import no_complex_gradient
from nbgrad.core.tensor import Tensor, hooks
from nbgrad.dispatch.elementwise import check_out, differentiable, into
from nbgrad.dispatch.quick import quickly, replayed
from nbgrad.memory import dtypes, layout
from nbgrad.memory.storage import Marked
from nbgrad.ops.views.copy import clone, contiguous, dense_copy
from nbgrad.ops.views.order import permute, t, transpose
from nbgrad.ops.views.parts import view_as_complex, view_as_real
from nbgrad.ops.views.shape import expand, squeeze, unsqueeze
from nbgrad.ops.views.slices import _slice, diagonal, select, split, split_with_sizes, unbind
from nbgrad.ops.views.views import _sizes, alias, as_strided
from nbgrad.tape.node import node_type, shown

_EXACT = "Expected out tensor to have dtype {c_want}, but got {c_got} instead"


def _apart(view: Tensor) -> Tensor:
    """The numbers of a view that nobody else has, in memory of their own. The node of the view becomes theirs."""
    if type(view._spec) is Marked:  # inside of a transform, which wants two calls
        return clone(view, memory_format=layout.contiguous_format)
    result: Tensor = dense_copy(view.detach())
    if view._node is not None:
        node = shown(view._node)
        if not node.name().endswith("_copy"):  # of several views there is one
            node.__class__ = node_type(f"{node.name()}_copy")
        result._rg, result._node, result._nr = 1, node, view._nr
    return result


def _into(name: str, out: Tensor, result: Tensor, input: Tensor) -> Tensor:
    return into(f"aten::{name}", out, result, (input,), _EXACT)


def _copied(name: str, show: Callable[..., Tensor], input: Tensor, *given: Any, out: Tensor | None) -> Tensor:
    result = _apart(show(input, *given))
    return result if out is None else _into(name, out, result, input)


def _all_copied(
    name: str, show: Callable[..., tuple[Tensor, ...]], input: Tensor, *given: Any, out: Any
) -> Any:
    """PyTorch gives nothing back where `out` is given, and lets memory grow but for `split_copy`."""
    if out is None:
        return tuple([_apart(view) for view in show(input, *given)])
    views = show(input.detach(), *given)
    if len(out) != len(views):
        raise RuntimeError(f"{name} expected an out= argument of size {len(views)}, got size {len(out)}")
    for to, view in zip(out, views):
        check_out(name, to, view.dtype, (), _EXACT, derived=False)
    for to, view in zip(out, views):
        if show is not split and to.shape != view.shape:
            hooks.resize(to, view.shape, None)
        hooks.copy_(to.detach(), view)
    return None


@quickly(devices=True)
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of all elements.

    >>> torch.alias_copy(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    return _copied("alias_copy", alias, input, out=out)


def as_strided_copy(
    input: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """What `as_strided` shows, as a copy.

    >>> torch.as_strided_copy(torch.arange(6), (2, 2), (1, 2), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    return _copied("as_strided_copy", as_strided, input, size, stride, storage_offset, out=out)


def _refused(g: Tensor) -> Tensor:
    raise RuntimeError("derivative for aten::detach_copy is not implemented")


@differentiable("NotImplemented0", unmoved="detach_copy", input=_refused)
def _detach_copy(input: Tensor) -> Tensor:
    return dense_copy(input)


_detach_copy.op.node_name = "NotImplemented"  # type: ignore[attr-defined]  # as PyTorch shows it


def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """A copy of what `detach` gives. As in PyTorch it wants a gradient where `input` does, and has none to give.

    >>> torch.detach_copy(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    result: Tensor = _detach_copy(input)
    return result if out is None else _into("detach_copy", out, result, input)


def diagonal_copy(
    input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1, *, out: Tensor | None = None
) -> Tensor:
    """What `diagonal` shows, as a copy.

    >>> torch.diagonal_copy(torch.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _copied("diagonal_copy", diagonal, input, offset, dim1, dim2, out=out)


def expand_copy(
    input: Tensor, size: Sequence[int], *, implicit: bool = False, out: Tensor | None = None
) -> Tensor:
    """What `expand` shows, as a copy that holds each repeated element.

    >>> torch.expand_copy(torch.tensor([[1], [2]]), (-1, 3)).stride()
    (3, 1)
    """
    return _copied("expand_copy", expand, input, size, out=out)


def permute_copy(input: Tensor, dims: Sequence[int], *, out: Tensor | None = None) -> Tensor:
    """What `permute` shows, as a copy.

    >>> torch.permute_copy(torch.ones(2, 3, 4), (2, 0, 1)).stride()
    (6, 3, 1)
    """
    return _copied("permute_copy", permute, input, dims, out=out)


def select_copy(input: Tensor, dim: int, index: int, *, out: Tensor | None = None) -> Tensor:
    """What `select` shows, as a copy.

    >>> torch.select_copy(torch.tensor([[1, 2], [3, 4]]), 1, 0)
    tensor([1, 3])
    """
    no_complex_gradient("select_copy", input)
    return _copied("select_copy", select, input, dim, index, out=out)


def _sliced(input: Tensor, dim: int, start: int | None, end: int | None, step: int) -> Tensor:
    if not input.ndim:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    d = layout.wrap_dim(dim, input.ndim)
    first, last, _ = slice(start, end).indices(tuple.__getitem__(input.shape, d))
    length = -(-max(0, last - first) // step)
    return _slice(input, dim=d, start=first, length=length, step=step)


@replayed
def slice_copy(
    input: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """What a slice with these ends along `dim` shows, as a copy.

    >>> torch.slice_copy(torch.arange(6), 0, 1, -1, 2)
    tensor([1, 3])
    """
    no_complex_gradient("slice_copy", input)
    return _copied("slice_copy", _sliced, input, dim, start, end, step, out=out)


@replayed
def split_copy(input: Tensor, split_size: int, dim: int = 0, *, out: Any = None) -> Any:
    """What `split` shows, as copies.

    >>> torch.split_copy(torch.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return _all_copied("split_copy_Tensor_out()", split, input, split_size, dim, out=out)


@replayed
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0, *, out: Any = None) -> Any:
    """What `split_with_sizes` shows, as copies.

    >>> torch.split_with_sizes_copy(torch.arange(3), (1, 2))
    (tensor([0]), tensor([1, 2]))
    """
    return _all_copied("split_with_sizes_copy_out", split_with_sizes, input, split_sizes, dim, out=out)


def squeeze_copy(input: Tensor, dim: Any = None, *, out: Tensor | None = None) -> Tensor:
    """What `squeeze` shows, as a copy.

    >>> torch.squeeze_copy(torch.ones(1, 2, 1), 0).shape
    torch.Size([2, 1])
    """
    return _copied("squeeze_copy", squeeze, input, *([] if dim is None else [dim]), out=out)


def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """What `t` shows, as a copy.

    >>> torch.t_copy(torch.tensor([[1, 2]]))
    tensor([[1],
            [2]])
    """
    return _copied("t_copy", t, input, out=out)


def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """What `view_as_real` shows, as a copy.

    >>> torch.view_as_real_copy(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    return _copied("view_as_real_copy", view_as_real, input, out=out)


def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """What `view_as_complex` shows, as a copy.

    >>> torch.view_as_complex_copy(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    return _copied("view_as_complex_copy", view_as_complex, input, out=out)


def transpose_copy(input: Tensor, dim0: int, dim1: int, *, out: Tensor | None = None) -> Tensor:
    """What `transpose` shows, as a copy.

    >>> torch.transpose_copy(torch.tensor([[1, 2]]), 0, 1)
    tensor([[1],
            [2]])
    """
    return _copied("transpose_copy", transpose, input, dim0, dim1, out=out)


@replayed
def unbind_copy(input: Tensor, dim: int = 0, *, out: Any = None) -> Any:
    """What `unbind` shows, as copies.

    >>> torch.unbind_copy(torch.tensor([[1, 2], [3, 4]]))
    (tensor([1, 2]), tensor([3, 4]))
    """
    return _all_copied("unbind_copy_int_out", unbind, input, dim, out=out)


def unfold_copy(input: Tensor, dimension: int, size: int, step: int, *, out: Tensor | None = None) -> Tensor:
    """What `Tensor.unfold` shows, as a copy: of each window all elements.

    >>> torch.unfold_copy(torch.arange(4), 0, 3, 1)
    tensor([[0, 1, 2],
            [1, 2, 3]])
    """
    return _copied("unfold_copy", Tensor.unfold, input, dimension, size, step, out=out)


def unsqueeze_copy(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """What `unsqueeze` shows, as a copy.

    >>> torch.unsqueeze_copy(torch.arange(2), 1)
    tensor([[0],
            [1]])
    """
    return _copied("unsqueeze_copy", unsqueeze, input, dim, out=out)


@replayed
def view_copy(input: Tensor, size: Any, *, out: Tensor | None = None) -> Tensor:
    """What `Tensor.view` shows, as a copy, in another shape or read as another dtype. Through the latter no gradient goes.

    >>> torch.view_copy(torch.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    if isinstance(size, dtypes.dtype):
        result = _apart(input.detach().view(size))
    else:
        sizes = layout.infer_size(_sizes((size,)), input.numel())
        seen = layout.view_strides(input.shape, input.stride(), sizes) is not None
        result = _apart((input if seen else contiguous(input)).view(sizes))
    return result if out is None else _into("view_copy", out, result, input)


__all__ = [
    *("alias_copy", "as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "permute_copy"),
    *("select_copy", "slice_copy", "split_copy", "split_with_sizes_copy", "squeeze_copy", "t_copy"),
    *("transpose_copy", "unbind_copy", "unfold_copy", "unsqueeze_copy", "view_as_complex_copy"),
    *("view_as_real_copy", "view_copy"),
]
