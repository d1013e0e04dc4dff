"""Hooks of modules: the nodes that backward hooks hang on."""

from __future__ import annotations

import functools
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.autograd.function import Function
from nbgrad.core.tensor import Tensor
from nbgrad.tape.modes import state

Hook = Callable[..., Any]


class WithModule:
    """A hook that is given its module, which it does not keep alive."""

    def __init__(self, hook: Hook, module: Any) -> None:
        self.hook, self.module = hook, weakref.ref(module)
        functools.update_wrapper(self, hook)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state["module"] is None:
            raise RuntimeError("You are trying to revive the hook of a dead Module!")
        self.hook, self.module = state["hook"], weakref.ref(state["module"])


class BackwardHookFunction(Function):
    """The identity: its node stands where tensors enter or leave a module, and carries the module's hooks."""

    @staticmethod
    def forward(ctx: Any, *args: Tensor) -> Any:
        ctx.mark_non_differentiable(*[a for a in args if not a.requires_grad])
        return args

    @staticmethod
    def backward(ctx: Any, *args: Any) -> Any:
        return args


class BackwardHook:
    """One call's backward hooks. A node before the call's inputs and one behind its outputs tell when the gradients of either are
    there; those of the outputs are kept until the inputs' arrive.

    >>> from nbgrad.utils.hooks import BackwardHook
    >>> x = torch.zeros(1, requires_grad=True)
    >>> hooks = BackwardHook(nn.Tanh(), [lambda module, inputs, outputs: print(inputs, outputs)], [])
    >>> hooks.setup_output_hook(torch.tanh(*hooks.setup_input_hook((x,)))).backward()
    (tensor([1.]),) (tensor([1.]),)
    """

    def __init__(self, module: Any, hooks: Sequence[Hook], pre_hooks: Sequence[Hook]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: Any = None
        self.outputs = self.inputs = 0
        self.inputs_at: list[int] | None = None
        self.outputs_at: list[int] = []

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, behind the node whose gradients are those of the inputs."""
        marked, self.inputs_at = _marked(args, self._at_inputs)
        self.inputs = len(args)
        return marked

    def setup_output_hook(self, result: Any) -> Any:
        """The results, before the node whose gradients are those of the outputs."""
        single = not isinstance(result, tuple)
        outputs = (result,) if single else result
        self.outputs = len(outputs)
        self.outputs_at = [k for k, t in enumerate(outputs) if isinstance(t, Tensor)]
        marked, _ = _marked(outputs, self._at_outputs)
        return marked[0] if single else marked

    def _at_inputs(self, grads: Any, _: Any) -> Any:
        if self.grad_outputs is None:  # the outputs that were used do not depend on the module
            return None
        assert self.inputs_at is not None
        packed = _packed(self.inputs_at, grads, self.inputs)
        for hook in self.hooks:
            packed = self._answer(hook(self.module, packed, self.grad_outputs), packed, "hook", "grad_input")
        self.grad_outputs = None
        return tuple(packed[k] for k in self.inputs_at)

    def _at_outputs(self, _: Any, grads: Any) -> Any:
        self.grad_outputs = _packed(self.outputs_at, grads, self.outputs)
        for hook in self.pre_hooks:
            got = hook(self.module, self.grad_outputs)
            self.grad_outputs = self._answer(got, self.grad_outputs, "pre hook", "grad_output")
        kept = self.grad_outputs
        if self.inputs_at is None:  # no input's gradient will arrive
            warnings.warn(
                "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs require "
                "gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html#"
                "torch.nn.Module.register_full_backward_hook for more details.",
                stacklevel=5,
            )
            for hook in self.hooks:
                got = hook(self.module, (None,) * self.inputs, self.grad_outputs)
                if got is not None and not (isinstance(got, tuple) and all(g is None for g in got)):
                    raise RuntimeError(
                        "Backward hook for Modules where no input requires gradient should always return None or None for "
                        "all gradients."
                    )
            self.grad_outputs = None
        return tuple(kept[k] for k in self.outputs_at) if self.pre_hooks else None

    def _answer(self, got: Any, before: tuple[Any, ...], what: str, name: str) -> tuple[Any, ...]:
        if got is None:
            return before
        answer: tuple[Any, ...] = got if isinstance(got, tuple) else (got,)
        if len(answer) != len(before):
            raise RuntimeError(
                f"Backward {what} returned an invalid number of {name}, got {len(answer)}, but expected {len(before)}"
            )
        return answer


def _packed(at: Sequence[int], grads: Sequence[Any], count: int) -> tuple[Any, ...]:
    found: list[Any] = [None] * count
    for k, grad in zip(at, grads):
        found[k] = grad
    return tuple(found)


def _marked(args: tuple[Any, ...], hook: Hook) -> tuple[tuple[Any, ...], list[int] | None]:
    """The arguments behind a node that calls the hook, and which of them are tensors; None if none needs a gradient."""
    at = [k for k, a in enumerate(args) if isinstance(a, Tensor)]
    if not (state.grad and any(args[k].requires_grad for k in at)):
        return args, None
    passed = BackwardHookFunction.apply(*[args[k] for k in at])
    passed = passed if isinstance(passed, tuple) else (passed,)
    node = next(t.grad_fn for t in passed if t.grad_fn is not None)
    node.register_hook(hook)
    out = list(args)
    for k, t in zip(at, passed):
        out[k] = t
    return type(args)(out) if type(args) is tuple else type(args)(*out), at


def hook_old_way(hooks: Sequence[Hook], args: Any, result: Any) -> None:
    """The hooks on the node that made the first of the outputs; and what PyTorch says where that is not all of the module."""
    first = result
    while not isinstance(first, Tensor):
        first = (
            next(v for v in first.values() if isinstance(v, Tensor)) if isinstance(first, dict) else first[0]
        )
    node = first.grad_fn
    if node is None:
        return
    for hook in hooks:
        node.register_hook(hook)
    lacks = _lacking(node, args, result)
    if lacks:
        warnings.warn(
            f"Using {lacks} Please use register_full_backward_hook to get the documented behavior.",
            FutureWarning,
            stacklevel=4,
        )


def _lacking(node: Any, args: Any, result: Any) -> str:
    deprecated = "is deprecated and will be removed in future versions. This hook will be missing some"
    outputs = (result,) if isinstance(result, Tensor) else result
    if not (isinstance(outputs, tuple) and all(isinstance(t, Tensor) for t in outputs)):
        return (
            "non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors "
            f"{deprecated} of the grad_output."
        )
    if not all(isinstance(t, Tensor) for t in args):
        return (
            "non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors "
            f"{deprecated} of the grad_input."
        )
    if len({t.grad_fn for t in outputs if t.grad_fn is not None}) > 1:
        return f"a non-full backward hook when outputs are generated by different autograd Nodes {deprecated} grad_output."
    if {t.grad_fn for t in args if t.grad_fn is not None} != {n for n, _ in node.next_functions}:
        return f"a non-full backward hook when the forward contains multiple autograd Nodes {deprecated} grad_input."
    return ""


def silenced(where: str, error: Exception) -> None:
    warnings.warn(
        f"{where} forward hook with ``always_call=True`` raised an exception that was silenced as another error was raised "
        f"in forward: {error}",
        stacklevel=4,
    )
