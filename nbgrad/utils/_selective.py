"""Which results a checkpoint keeps: `create_selective_checkpoint_contexts`.

Promises `checkpoint` two modes that see its operators. In the forward pass the first keeps the results that a policy names; in the
recomputation the second gives them in the order in which they came, and computes the others again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from enum import Enum
from typing import Any, Self, TypeAlias

from nbgrad._aten.calls import keep_whole
from nbgrad._ops import OpOverload
from nbgrad.core.pytree import tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.utils._python_dispatch import TorchDispatchMode


class CheckpointPolicy(Enum):
    """What is to happen with the result of an operator. MUST and PREFER are the same without a compiler, and what a compiler would keep in
    the memory of a CPU is computed again.

    >>> torch.utils.checkpoint.CheckpointPolicy.MUST_SAVE
    <CheckpointPolicy.MUST_SAVE: 0>
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told besides the operator and its arguments: its result, and that this is no recomputation, in which no policy is
    asked.

    >>> torch.utils.checkpoint.SelectiveCheckpointContext(is_recompute=False).is_recompute
    False
    """

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


Policy: TypeAlias = Callable[..., Any]
_Results: TypeAlias = defaultdict[OpOverload, list[Any]]  # of the calls of each operator, in their order
_KEPT = (True, CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)
_COMPUTED = object()  # a result that is computed again
_GIVEN = object()  # one that has been given back
_TIP = (
    "This can happen if the operations in the checkpointed region are nondeterministic or depend on global state that changed between "
    "forward and backward."
)


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[OpOverload], allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """The contexts of a checkpoint that keeps some results: those of the operators in a list, or those for which
    `policy(context, operator, *args, **kwargs)` says so. What is kept must not be written to, unless that is allowed.

    >>> from functools import partial
    >>> from nbgrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    >>> x = torch.eye(2, requires_grad=True)
    >>> checkpoint(lambda x: torch.mm(x, x).exp().sum(), x, use_reentrant=False, context_fn=keep).backward()
    >>> x.grad
    tensor([[5.4366, 2.0000],
            [2.0000, 5.4366]])
    """
    kept: _Results = defaultdict(list)
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op!s} of type {type(op)}. "
                )
        named = set(policy_fn_or_list)

        def policy(context: Any, op: OpOverload, *args: Any, **kwargs: Any) -> Any:
            return op in named
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    return _Keeping(policy, kept), _Giving(kept, allow_cache_entry_mutation)


class _Kept:
    """A tensor of a result, and how often its memory had been written to."""

    def __init__(self, t: Tensor) -> None:
        self.tensor, self.version = t.detach(), t._version

    def get(self, may_be_written: bool) -> Tensor:
        if self.tensor._version != self.version and not may_be_written:
            raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
        return self.tensor


class _Keeping(TorchDispatchMode):
    """The forward pass."""

    def __init__(self, policy: Policy, kept: _Results) -> None:
        super().__init__()
        self.policy, self.kept = policy, kept

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._opname == "detach":  # by which values are saved
            return func(*args, **kwargs)
        may_be_kept = keep_whole(func)
        result = func(*args, **kwargs)
        context = SelectiveCheckpointContext(is_recompute=False, op_output=result)
        keeps = self.policy(context, func, *args, **kwargs) in _KEPT and may_be_kept
        self.kept[func].append(tree_map(_kept, result) if keeps else _COMPUTED)
        return result


def _kept(value: Any) -> Any:
    return _Kept(value) if isinstance(value, Tensor) else value


class _Giving(TorchDispatchMode):
    """The recomputation."""

    def __init__(self, kept: _Results, may_be_written: bool) -> None:
        super().__init__()
        self.kept, self.may_be_written = kept, may_be_written

    def __enter__(self) -> Self:
        self.calls: Counter[OpOverload] = Counter()
        return super().__enter__()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func._opname == "detach":
            return func(*args, **(kwargs or {}))
        place = self.calls[func]
        self.calls[func] += 1
        if func not in self.kept:
            raise RuntimeError(f"{func} encountered during backward but not found in storage. {_TIP}")
        results = self.kept[func]
        if place >= len(results):
            raise RuntimeError(
                f"{func} invocation index {place} encountered during backward but not found in storage. {_TIP}"
            )
        result = results[place]
        if result is _GIVEN:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under selective "
                "activation checkpoint."
            )
        keep_whole(func)
        if result is _COMPUTED:
            return func(*args, **(kwargs or {}))
        results[place] = _GIVEN
        return tree_map(lambda v: v.get(self.may_be_written) if type(v) is _Kept else v, result)
