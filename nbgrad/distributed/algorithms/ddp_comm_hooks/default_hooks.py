"""PyTorch's hooks for `DistributedDataParallel.register_comm_hook`: the mean as it is, or sent in 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.core.tensor import Tensor
from nbgrad.distributed._buckets import GradBucket
from nbgrad.distributed._collectives import all_reduce
from nbgrad.distributed._groups import chosen
from nbgrad.futures import Future
from nbgrad.memory import dtypes

Hook = Callable[[Any, GradBucket], Future[Tensor]]


def _begun(group: Any, t: Tensor) -> Future[Any]:
    work = all_reduce(t, group=group, async_op=True)
    assert work is not None
    return work.get_future()


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the processes, as without a hook.

    >>> hook = torch.distributed.algorithms.ddp_comm_hooks.default_hooks.allreduce_hook
    """
    group = chosen(process_group)
    bucket.buffer().div_(group.size())
    return _begun(group, bucket.buffer()).then(lambda done: done.value()[0])


def _compressed(process_group: Any, bucket: GradBucket, dtype: Any) -> Future[Tensor]:
    group, whole = chosen(process_group), bucket.buffer()
    sent = whole.to(dtype).div_(group.size())

    def back(done: Future[Any]) -> Tensor:
        whole.copy_(done.value()[0])
        return whole

    return _begun(group, sent).then(back)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the processes, sent and added up as float16.

    >>> hook = torch.distributed.algorithms.ddp_comm_hooks.default_hooks.fp16_compress_hook
    """
    return _compressed(process_group, bucket, dtypes.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """The mean over the processes, sent and added up as bfloat16.

    >>> hook = torch.distributed.algorithms.ddp_comm_hooks.default_hooks.bf16_compress_hook
    """
    return _compressed(process_group, bucket, dtypes.bfloat16)


def _wrapped(hook: Hook, dtype: Any) -> Hook:
    def around(state: Any, bucket: GradBucket) -> Future[Tensor]:
        whole = bucket.buffer()
        bucket.set_buffer(whole.to(dtype))

        def back(done: Future[Any]) -> Tensor:
            whole.copy_(done.value())
            return whole

        return hook(state, bucket).then(back)

    return around


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """`hook`, given the bucket as float16.

    >>> hooks = torch.distributed.algorithms.ddp_comm_hooks.default_hooks
    >>> hook = hooks.fp16_compress_wrapper(hooks.allreduce_hook)
    """
    return _wrapped(hook, dtypes.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """`hook`, given the bucket as bfloat16.

    >>> hooks = torch.distributed.algorithms.ddp_comm_hooks.default_hooks
    >>> hook = hooks.bf16_compress_wrapper(hooks.allreduce_hook)
    """
    return _wrapped(hook, dtypes.bfloat16)


__all__ = [
    *("allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper"),
    *("fp16_compress_hook", "fp16_compress_wrapper"),
]
