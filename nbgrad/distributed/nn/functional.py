"""Collectives through which gradients pass, of every order: PyTorch's `torch.distributed.nn.functional`.

Promises that the gradient is that of the sum of all processes' results. So a gradient is a collective, too: every process calls what the
others call, backward as forward. Sums and means are linear; of the other reductions the tensors of all are gathered and reduced here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.autograd.function import Function
from nbgrad.core.tensor import Tensor, hooks
from nbgrad.distributed import _collectives as dist
from nbgrad.distributed._groups import Group, chosen, number_in
from nbgrad.distributed._mpi import ReduceOp
from nbgrad.ops.make.filled import empty_like, zeros_like

_LINEAR = (ReduceOp.SUM, ReduceOp.AVG)


def _folded(parts: Sequence[Tensor], op: Any) -> Tensor:
    """What a reduction that is not linear makes of the tensors of all."""
    whole = hooks.stack(list(parts))
    if op is ReduceOp.PRODUCT:
        return whole.prod(0)
    if op in (ReduceOp.MIN, ReduceOp.MAX):
        return whole.amin(0) if op is ReduceOp.MIN else whole.amax(0)
    raise RuntimeError(f"Cannot use {op} where gradients are computed")


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        tensor = tensor.clone().contiguous()
        dist.all_reduce(tensor, op, group)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        tensor = tensor.clone()
        dist.broadcast(tensor, group=group, group_src=src)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        total = _Reduce.apply(ctx.src, ReduceOp.SUM, ctx.group, grad)
        return None, None, total if ctx.group.rank() == ctx.src else total * 0


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.op, ctx.group = dst, op, group
        tensor = tensor.clone()
        dist.reduce(tensor, op=op, group=group, group_dst=dst)
        return tensor

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        got = _Broadcast.apply(ctx.dst, ctx.group, grad)
        return None, None, None, got / ctx.group.size() if ctx.op is ReduceOp.AVG else got


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Tensor) -> Any:
        ctx.dst, ctx.group = dst, group
        found = [zeros_like(tensor) for _ in range(group.size())]
        dist.gather(tensor, found if group.rank() == dst else None, group=group, group_dst=dst)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *grads)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        if not all(t.size() == tensors[0].size() for t in tensors):
            raise AssertionError
        found = zeros_like(tensors[0])
        dist.scatter(found, list(tensors) if group.rank() == src else None, group=group, group_src=src)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, *_Gather.apply(ctx.src, ctx.group, grad)


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Tensor) -> Any:
        ctx.group = group
        found = [empty_like(tensor) for _ in range(group.size())]
        dist.all_gather(found, tensor, group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *grads)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *tensors: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        found = empty_like(tensors[group.rank()])
        dist.reduce_scatter(found, list(tensors), op, group)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        got = _AllGather.apply(ctx.group, grad)
        n = ctx.group.size()
        return None, None, *([g / n for g in got] if ctx.op is ReduceOp.AVG else got)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shapes: Any, *tensors: Tensor) -> Any:
        ctx.group, ctx.shapes = group, [t.shape for t in tensors]
        found = [tensors[0].new_empty(shape) for shape in shapes]
        dist.all_to_all(found, list(tensors), group)
        return tuple(found)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, shape: Any, got: Any, sent: Any, input: Tensor) -> Tensor:
        ctx.group, ctx.shape, ctx.got, ctx.sent = group, input.shape, got, sent
        found = input.new_empty(shape)
        dist.all_to_all_single(found, input, got, sent, group)
        return found

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return None, None, None, None, _AllToAllSingle.apply(ctx.group, ctx.shape, ctx.sent, ctx.got, grad)


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Group = None) -> Tensor:
    """What the tensors of all processes come to: their sum, or what `op` says.

    >>> if torch.distributed.is_initialized():
    ...     total = torch.distributed.nn.functional.all_reduce(torch.ones(2, requires_grad=True))
    """
    group = chosen(group)
    if op in _LINEAR:
        return _AllReduce.apply(op, group, tensor)
    return _folded(_AllGather.apply(group, tensor), op)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Group = None) -> Tensor:
    """As `all_reduce`, for process `dst`; the others get their own tensor, of which nothing comes back.

    >>> if torch.distributed.is_initialized():
    ...     total = torch.distributed.nn.functional.reduce(torch.ones(2, requires_grad=True), 0)
    """
    group = chosen(group)
    root = number_in(group, dst, None)
    if op in _LINEAR:
        return _Reduce.apply(root, op, group, tensor)
    parts = _Gather.apply(root, group, tensor)
    return _folded(parts, op) if group.rank() == root else tensor.clone() + 0 * sum(p.sum() for p in parts)


def broadcast(tensor: Tensor, src: int, group: Group = None) -> Tensor:
    """The tensor of process `src`.

    >>> if torch.distributed.is_initialized():
    ...     theirs = torch.distributed.nn.functional.broadcast(torch.ones(2, requires_grad=True), 0)
    """
    group = chosen(group)
    return _Broadcast.apply(number_in(group, src, None), group, tensor)


def gather(tensor: Tensor, dst: int = 0, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all, for process `dst`; the others get zeros.

    >>> if torch.distributed.is_initialized():
    ...     parts = torch.distributed.nn.functional.gather(torch.ones(2, requires_grad=True))
    """
    group = chosen(group)
    found: tuple[Tensor, ...] = _Gather.apply(number_in(group, dst, None), group, tensor)
    return found


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Group = None) -> Tensor:
    """The tensor for this process among those of process `src`; every process gives as many, of the same shape.

    >>> if torch.distributed.is_initialized():
    ...     parts = [torch.ones(2, requires_grad=True)] * torch.distributed.get_world_size()
    ...     mine = torch.distributed.nn.functional.scatter(parts)
    """
    group = chosen(group)
    return _Scatter.apply(number_in(group, src, None), group, *tensors)


def all_gather(tensor: Tensor, group: Group = None) -> tuple[Tensor, ...]:
    """The tensors of all.

    >>> if torch.distributed.is_initialized():
    ...     parts = torch.distributed.nn.functional.all_gather(torch.ones(2, requires_grad=True))
    """
    found: tuple[Tensor, ...] = _AllGather.apply(chosen(group), tensor)
    return found


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Group = None
) -> Tensor:
    """What the tensors for this process in all lists come to; it is written to `output`, too.

    >>> if torch.distributed.is_initialized():
    ...     parts = [torch.ones(2, requires_grad=True)] * torch.distributed.get_world_size()
    ...     mine = torch.distributed.nn.functional.reduce_scatter(torch.empty(2), parts)
    """
    group = chosen(group)
    if op in _LINEAR:
        found = _ReduceScatter.apply(op, group, *input_list)
    else:
        found = _folded(_AllToAll.apply(group, [output.shape] * group.size(), *input_list), op)
    output.detach().copy_(found.detach())
    return found


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Group = None
) -> tuple[Tensor, ...]:
    """The tensors for this process in everybody's list; they are written to the first list, too.

    >>> if torch.distributed.is_initialized():
    ...     parts = [torch.ones(2, requires_grad=True)] * torch.distributed.get_world_size()
    ...     theirs = torch.distributed.nn.functional.all_to_all([torch.empty(2) for _ in parts], parts)
    """
    shapes = [t.shape for t in output_tensor_list]
    found: tuple[Tensor, ...] = _AllToAll.apply(chosen(group), shapes, *input_tensor_list)
    for to, t in zip(output_tensor_list, found):
        to.detach().copy_(t.detach())
    return found


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Group = None,
) -> Tensor:
    """The parts for this process of everybody's `input`; they are written to `output`, too.

    >>> if torch.distributed.is_initialized():
    ...     mine = torch.ones(torch.distributed.get_world_size(), requires_grad=True)
    ...     theirs = torch.distributed.nn.functional.all_to_all_single(torch.empty_like(mine), mine)
    """
    found = _AllToAllSingle.apply(chosen(group), output.shape, output_split_sizes, input_split_sizes, input)
    output.detach().copy_(found.detach())
    return found


__all__ = [
    *("all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast"),
    *("gather", "reduce", "reduce_scatter", "scatter"),
]
