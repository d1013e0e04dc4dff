"""Checkpoints: a part of the forward pass keeps its inputs only, and backward computes it again for what it needs of the rest.

Promises PyTorch's two ways. With `use_reentrant=False` whatever is saved inside becomes a `_Holder`, which is filled by the one
recomputation that the first of them asks for in a backward: backward, `grad`, nested checkpoints and gradients of gradients work as
without it. With `use_reentrant=True` the whole part is one node, whose gradient is a backward inside the backward.
"""

from __future__ import annotations

import contextlib
import threading
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from nbgrad.amp.autocast_mode import autocast
from nbgrad.autograd._calls import Call, Watch, tensors_in
from nbgrad.autograd._run import backward
from nbgrad.autograd.function import Function
from nbgrad.autograd.grad_mode import enable_grad
from nbgrad.autograd.graph import saved_tensors_hooks
from nbgrad.core.casting import casting
from nbgrad.core.pytree import tree_flatten
from nbgrad.core.tensor import Tensor, requires
from nbgrad.history.saved import origin, save, unpack
from nbgrad.memory import philox
from nbgrad.ops.host.values import of_array
from nbgrad.ops.make.generator import default_generator
from nbgrad.tape.modes import state
from nbgrad.tape.node import Node, blank
from nbgrad.utils._selective import CheckpointPolicy as CheckpointPolicy
from nbgrad.utils._selective import SelectiveCheckpointContext as SelectiveCheckpointContext
from nbgrad.utils._selective import (
    create_selective_checkpoint_contexts as create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Contexts = tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]


class CheckpointError(RuntimeError):
    """The recomputation did not save what the forward pass saved.

    >>> calls = []
    >>> def odd(x):
    ...     calls.append(x)
    ...     return x.exp() if len(calls) == 1 else x.exp().exp()
    >>> x = torch.ones(1, requires_grad=True)
    >>> y = torch.utils.checkpoint.checkpoint(odd, x, use_reentrant=False, early_stop=False)
    >>> try:
    ...     y.backward()
    ... except torch.utils.checkpoint.CheckpointError:
    ...     print("not the same")
    not the same
    """


def noop_context_fn() -> Contexts:
    """Two contexts that do nothing: what `checkpoint` uses unless told otherwise.

    >>> forward, again = torch.utils.checkpoint.noop_context_fn()
    >>> with forward:
    ...     print("nothing changes")
    nothing changes
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Contexts] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose saved values backward will compute again.

    `preserve_rng_state=False` (a keyword, default True) lets the recomputation draw other random numbers. Not re-entrant only:
    `context_fn` gives the contexts of the forward pass and of the recomputation, `determinism_check="none"` accepts that the two
    save values of other shapes or dtypes, `debug` puts the operations of both into the error, `early_stop=False` recomputes to
    the end.

    >>> def function(x):
    ...     print("computed")
    ...     return x.sin()
    >>> x = torch.zeros(1, requires_grad=True)
    >>> y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    computed
    >>> y.backward()
    computed
    >>> x.grad
    tensor([1.])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling "
            "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need to "
            "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
            "differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if not use_reentrant:
        return _holding(function, args, kwargs, preserve, context_fn, determinism_check, debug, early_stop)
    _no_more(kwargs)
    if context_fn is not noop_context_fn or debug is not False:
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    return CheckpointFunction.apply(function, preserve, *args)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The functions (or an `nn.Sequential`), one after the other, in so many segments; all but the last are checkpoints.

    >>> net = nn.Sequential(nn.Tanh(), nn.Tanh(), nn.Tanh(), nn.Tanh())
    >>> x = torch.zeros(1, requires_grad=True)
    >>> torch.utils.checkpoint.checkpoint_sequential(net, 2, x, use_reentrant=False).backward()
    >>> x.grad
    tensor([1.])
    """
    if use_reentrant is None:
        warnings.warn(
            "torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly. In version 2.9 "
            "we will raise an exception if use_reentrant is not passed. use_reentrant=False is recommended, but if you need to "
            "preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on the "
            "differences between the two variants.",
            stacklevel=2,
        )
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    _no_more(kwargs)
    functions = list(functions.children() if hasattr(functions, "children") else functions)

    def one_after_the_other(part: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for function in part:
                value = function(value)
            return value

        return run

    size = len(functions) // segments
    done = 0
    for start in range(0, size * (segments - 1), size):
        done = start + size
        segment = one_after_the_other(functions[start:done])
        input = checkpoint(segment, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return one_after_the_other(functions[done:])(input)


def _no_more(kwargs: dict[str, Any]) -> None:
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))


_forced = SimpleNamespace(early_stop=None, debug=None)  # what the two below say in place of the arguments


@contextlib.contextmanager
def _force(name: str, value: bool | None) -> Iterator[None]:
    before = getattr(_forced, name)
    setattr(_forced, name, value)
    try:
        yield
    finally:
        setattr(_forced, name, before)


def set_checkpoint_early_stop(enable: bool) -> contextlib.AbstractContextManager[None]:
    """Inside the block, in place of the argument `early_stop`: whether a recomputation ends as soon as it has what is asked for.

    >>> def function(x):
    ...     y = x.exp()
    ...     print("to the end")
    ...     return y
    >>> x = torch.zeros(1, requires_grad=True)
    >>> with torch.utils.checkpoint.set_checkpoint_early_stop(False):
    ...     y = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False)
    to the end
    >>> y.backward()
    to the end
    """
    return _force("early_stop", enable)


def set_checkpoint_debug_enabled(enabled: bool | None) -> contextlib.AbstractContextManager[None]:
    """Inside the block, in place of the argument `debug`: whether errors name the operations of both passes.

    >>> x = torch.zeros(1, requires_grad=True)
    >>> with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):
    ...     y = torch.utils.checkpoint.checkpoint(torch.exp, x, use_reentrant=False)
    >>> y.backward()
    >>> x.grad
    tensor([1.])
    """
    return _force("debug", enabled)


@contextlib.contextmanager
def _random_from(rng_state: Any) -> Iterator[None]:
    """Inside, random numbers are drawn from this state on; the stream outside goes on as if nothing had been drawn."""
    if rng_state is None:
        yield
        return
    outside = default_generator.state()
    default_generator.restore(rng_state)
    try:
        yield
    finally:
        default_generator.restore(outside)


def _casts() -> Callable[[], contextlib.ExitStack]:
    """What autocast does now: gives a context, a new one each time, in which it does so again."""
    then = [(kind, narrow, kind in casting.on, casting.caching) for kind, narrow in casting.dtypes.items()]

    def again() -> contextlib.ExitStack:
        with contextlib.ExitStack() as stack:
            for what in then:
                stack.enter_context(autocast(*what))
            return stack.pop_all()

    return again


# ---------------------------------------------------------------- on hooks for saved values


def _holding(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve: bool,
    context_fn: Callable[[], Contexts],
    determinism_check: str,
    debug: bool,
    early_stop: bool,
) -> Any:
    log = None
    if debug if _forced.debug is None else _forced.debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        log = _OperationLog()
        context_fn = log.contexts
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    forward_context, recompute_context = context_fn()
    rng_state = default_generator.state() if preserve else None

    casts = _casts()

    def recompute(*args: Any) -> None:
        with _random_from(rng_state), casts(), recompute_context:
            function(*args, **kwargs)

    if not state.grad:
        return function(*args, **kwargs)
    early = early_stop if _forced.early_stop is None else _forced.early_stop
    frame = _Frame(recompute, args, early, _CHECKS[determinism_check], log)
    with saved_tensors_hooks(frame.hold, frame.take), forward_context:
        result = function(*args, **kwargs)
        frame.forward_done = True
    if not frame.forward_done:
        raise RuntimeError(
            "torch.utils.checkpoint: the forward context provided by context_fn suppressed an exception raised during the "
            "checkpointed forward. This is not supported because checkpoint cannot return a value for a failed forward."
        )
    return result


_CHECKS: dict[str, Callable[[Tensor], Any]] = {
    "default": lambda t: {"shape": t.shape, "dtype": t.dtype, "device": t.device},
    "none": lambda t: None,
}


class _Stop(Exception):
    """Ends a recomputation that has everything that is asked for."""


class _Holder:
    """Stands on a node for a saved value, the so-manieth of its frame."""

    __slots__ = ("__weakref__", "place")

    def __init__(self, place: int) -> None:
        self.place = place


class GraphExecGroup:
    """Backwards inside the block count as one: what a checkpoint recomputes for one of them serves the others. They must not need
    the same saved value twice.

    >>> def function(x):
    ...     print("computed")
    ...     return x.exp(), x.sin()
    >>> x = torch.zeros(1, requires_grad=True)
    >>> a, b = torch.utils.checkpoint.checkpoint(function, x, use_reentrant=False, early_stop=False)
    computed
    >>> with torch.utils.checkpoint.GraphExecGroup():
    ...     a.backward()
    ...     b.backward()
    computed
    """

    _here = threading.local()

    @classmethod
    def _get_current_group(cls) -> GraphExecGroup | None:
        return getattr(cls._here, "group", None)

    def __enter__(self) -> GraphExecGroup:
        outer = self._get_current_group()
        if outer is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {outer}")
        self._here.group = self
        return self

    def __exit__(self, *_: object) -> None:
        self._here.group = None

    def __repr__(self) -> str:
        return f"<torch.utils.checkpoint.GraphExecGroup object at {id(self):#x}>"


class _Run:
    """One recomputation: what it has saved, by place; None once it was taken."""

    def __init__(self) -> None:
        self.count, self.done = 0, False
        self.values: dict[int, Tensor | None] = {}


class _Once:
    """In place of a backward, for a value that is asked for outside of any."""


class _InputsRule:
    @staticmethod
    def made_by(node: Node, k: int) -> str:
        return origin((node.saved or ())[k])


class _Frame:
    """One call of `checkpoint`: its inputs, and its holders as long as the graph has them."""

    def __init__(
        self,
        recompute: Callable[..., None],
        args: tuple[Any, ...],
        early_stop: bool,
        describe: Callable[[Tensor], Any],
        log: _OperationLog | None,
    ) -> None:
        self.recompute, self.early_stop, self.describe, self.log = recompute, early_stop, describe, log
        # Tensors among the inputs are saved as those of a node are: writes to them are seen, and the hooks of an outer
        # checkpoint hold them, so that asking for them here makes it recompute first.
        self.inputs = blank()
        self.inputs.rule = _InputsRule
        self.inputs.saved, self.inputs.versions = save([a for a in args if isinstance(a, Tensor)])
        self.others = [None if isinstance(a, Tensor) else (a,) for a in args]
        self.holders: list[weakref.ref[_Holder]] = []
        self.described: list[Any] = []
        self.runs: weakref.WeakKeyDictionary[Any, _Run] = weakref.WeakKeyDictionary()  # by backward
        self.forward_done = False
        self.more_than_held = False  # a backward inside the function recomputed more of it than had run

    def hold(self, t: Tensor) -> _Holder:
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.described.append(self.describe(t))
        return holder

    def take(self, holder: _Holder) -> Tensor:
        if self.log is None:
            return self._take(holder)
        try:
            return self._take(holder)
        except CheckpointError as error:
            raise CheckpointError(self.log.report()) from error

    def _take(self, holder: _Holder) -> Tensor:
        group = GraphExecGroup._get_current_group()
        task = group or state.task or _Once()
        run = self.runs.setdefault(task, _Run())
        if not run.done:
            tensors = iter(unpack(self.inputs))
            args = [next(tensors) if other is None else other[0] for other in self.others]

            def refill(t: Tensor) -> Tensor:
                return self._refill(t, run)

            with contextlib.suppress(_Stop), saved_tensors_hooks(refill, _as_is), enable_grad():
                self.recompute(*args)
            run.done = True
            self._check(run)
        value = run.values[holder.place]
        if value is None:
            overlap = (
                "Performing two backward calls that overlap (i.e. require the same saved activation in order to compute gradients) is "
                "not allowed while under the torch.utils.checkpoint.GraphExecGroup context. "
            )
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. "
                f"{'' if group is None else overlap}If you are calling ctx.saved_tensors in backward, make sure to do so only once. "
                "Otherwise please open an issue with details on your use case."
            )
        run.values[holder.place] = None
        return value

    def _refill(self, t: Tensor, run: _Run) -> Tensor:
        if requires(t):
            t = t.detach()
        k = run.count
        run.count += 1
        if k >= len(self.holders):
            if not self.forward_done:
                self.more_than_held = True
                return t
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward pass.\n"
                + _TIP
            )
        if self.holders[k]() is not None:
            run.values[k] = t
        if self.early_stop and k + 1 == len(self.holders):
            raise _Stop
        return t

    def _check(self, run: _Run) -> None:
        """Refuse a recomputation that differs from what it repeats."""
        if self.more_than_held:
            return
        if run.count != len(self.holders):
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {run.count}.\n{_TIP}"
            )
        different = ""
        for k, value in run.values.items():
            now = None if value is None else self.describe(value)
            if now != self.described[k]:
                different += f"tensor at position {k}:\nsaved metadata: {self.described[k]}\nrecomputed metadata: {now}\n"
        if different:
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the "
                f"forward pass.\n{different}.\n{_TIP}"
            )


def _as_is(t: Tensor) -> Tensor:
    return t


_TIP = """
Tip: To see a more detailed error message, either pass `debug=True` to
`torch.utils.checkpoint.checkpoint(...)` or wrap the code block
with `with torch.utils.checkpoint.set_checkpoint_debug_enabled(True):` to
enable checkpoint\N{NON-BREAKING HYPHEN}debug mode globally.

If this error occurs under torch.compile with automatic_dynamic_shapes enabled,
it may be because the recomputation selected a different compiled graph than the
forward pass (e.g., a dynamic graph instead of the original static graph).
To fix this, either:
  - Use torch._dynamo.mark_dynamic() to explicitly mark varying dimensions as
    dynamic upfront, avoiding the static-to-dynamic transition.
  - Call torch._C._dynamo.eval_frame._set_lru_cache(False) to disable LRU cache
    reordering, which can change which graph is checked first between forward
    and recompute.
See https://github.com/pytorch/pytorch/issues/166926 for more details and
workaround examples.
"""


class _OperationLog:
    """With `debug`: what was called in the forward pass and in the recomputation, and where."""

    def __init__(self) -> None:
        self.forward, self.again = _OperationWatch(), _OperationWatch()

    def contexts(self) -> Contexts:
        return self.forward, self.again

    def report(self) -> str:
        return _REPORT.format(
            forward_traces=self.forward.traces("original"),
            recompute_traces=self.again.traces("recompute"),
            forward_ops="\n".join(self.forward.lines),
            recompute_ops="\n".join(self.again.lines),
        )


class _OperationWatch(Watch):
    """Writes a line a call, in which tensors have numbers: "$2: f32[3] = aten::mul($0, $1)"."""

    def __enter__(self) -> Any:
        self.lines: list[str] = []
        self.stacks: list[str] = []
        self.named: list[Tensor] = []  # by number
        return super().__enter__()

    def entered(self, call: Call) -> None:
        if len(self.stack) == 1:
            called = ", ".join(self._name(t) for t in tensors_in(list(call.args)))
            frames = reversed(traceback.extract_stack(call.frame))
            where = "\n".join(f"{f.filename}:{f.lineno}:{f.name}" for f in frames)
            call.data = f"{call.name}({called})", where

    def left(self, call: Call, result: Any) -> None:
        if call.data is not None and (several := tensors_in(result)):  # none: the recomputation ended inside
            made = ", ".join(f"{self._name(t)}: {_short(t)}" for t in several)
            self.lines.append(f"{made} = {call.data[0]}")
            self.stacks.append(call.data[1])

    def _name(self, t: Tensor) -> str:
        for k, known in enumerate(self.named):
            if known is t:
                return f"${k}"
        self.named.append(t)
        return f"${len(self.named) - 1}"

    def traces(self, label: str) -> str:
        count = len(self.lines)
        return "".join(
            f"{line}   ({k} of {count} in {label})\n\n{where}\n\n\n"
            for k, (line, where) in enumerate(zip(self.lines, self.stacks), 1)
        )


def _short(t: Tensor) -> str:
    return f"{t.dtype.abbr}{list(t.shape)}"


_REPORT = """ \
An error happened while unpacking tensors; dumping logs of latest computation
because you passed `debug=True` to `torch.utils.checkpoint.checkpoint()`.
Scroll all the way down for guidance on how to navigate these logs.

+~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+
|        1. Stack traces of the operators that ran in the original forward     |
+------------------------------------------------------------------------------+

{forward_traces}
+~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+
|        2. Stack traces of the operators that ran during recomputation        |
+------------------------------------------------------------------------------+

{recompute_traces}
+~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~+
|       3. Log of operators in the original forward and recomputation          |
+------------------------------------------------------------------------------+
(Scroll up to correlate stack traces with each operation listed below. This
 helps identify their source in the code.)

IMPORTANT: Differences in "detach" calls between the original forward and the
           recomputation are expected. They are introduced by the checkpointing
           mechanism and can be ignored.

Operations executed during the original forward:

{forward_ops}

Operations executed during recomputation:

{recompute_ops}

+------------------------------------------------------------------------------+
 ERROR: Detected non-determinism while running activation checkpointing

 You are seeing this error because you passed `debug=True` to checkpoint and
 tensors to be saved during the original forward and differ between those saved
 during recomputation. This can happen if different operators were ran in the
 original forward and in the recomputation.

 To identify where the mismatch may be coming from, you can do the following:

 1) Compare the operators ran during original forward and recomputation to
    see where they differ. These operators are printed above in the order they
    were executed.

 2) Review the stack trace for each operator to locate its invocation source.
    Each operator's stack trace is printed in their execution order.

 Note that the logs can be quite long. Here's how they are structured:
 (Tip: you can Ctrl-f for these headers)

 1. Stack traces of the operators that ran in the original forward
 2. Stack traces of the operators that ran during recomputation
 3. Log of operators in the original forward and recomputation
 4. Error message                                             <--- You are here
--------------------------------------------------------------------------------
"""


# ---------------------------------------------------------------- a backward inside the backward


class CheckpointFunction(Function):
    """The whole function as one node: nothing inside is recorded until its gradient has arrived. What `checkpoint` uses with
    `use_reentrant=True`.

    >>> x = torch.zeros(1, requires_grad=True)
    >>> torch.utils.checkpoint.CheckpointFunction.apply(torch.exp, True, x).backward()
    >>> x.grad
    tensor([1.])
    """

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.rng_state = default_generator.state() if preserve_rng_state else None
        ctx.casts = _casts()
        ctx.others = [None if isinstance(a, Tensor) else (a,) for a in args]
        ctx.save_for_backward(*[a for a in args if isinstance(a, Tensor)])
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        if state.task is not None and state.task.asked:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). To resolve this error, you can either set use_reentrant=False, or call .backward() without passing "
                "the `inputs` argument."
            )
        tensors = iter(ctx.saved_tensors)
        inputs = detach_variable(tuple([next(tensors) if o is None else o[0] for o in ctx.others]))
        with _random_from(ctx.rng_state), ctx.casts(), enable_grad():
            outputs = ctx.run_function(*inputs)
        if isinstance(outputs, Tensor):
            outputs = (outputs,)
        roots = [(t, g) for t, g in zip(outputs, grads) if isinstance(t, Tensor) and t.requires_grad]
        if not roots:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        backward([t for t, _ in roots], [g for _, g in roots])
        return (None, None, *[t.grad if isinstance(t, Tensor) else None for t in inputs])


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same values as leaves that require grad where these do.

    >>> x = torch.zeros(1, requires_grad=True) * 2
    >>> torch.utils.checkpoint.detach_variable((x,))
    (tensor([0.], requires_grad=True),)
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}"
        )
    return tuple([t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs])


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Where GPUs of tensors among the arguments stand in their random numbers: their indices, and states.

    >>> torch.utils.checkpoint.get_device_states(torch.zeros(1))
    ([], [])
    """
    devices = [t.get_device() for t in tree_flatten(args)[0] if isinstance(t, Tensor) and t.is_cuda]
    return devices, [of_array(philox.of(d).state()) for d in devices]


def set_device_states(devices: list[int], states: list[Tensor], *, device_type: str | None = None) -> None:
    """Put GPUs' generators into states that `get_device_states` gave.

    >>> torch.utils.checkpoint.set_device_states([], [])
    """
    for device, rng_state in zip(devices, states):
        philox.of(device).restore(rng_state._host())


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if none of the inputs requires grad: a re-entrant checkpoint would give none.

    >>> torch.utils.checkpoint.check_backward_validity([torch.zeros(1, requires_grad=True)])
    """
    if not any(t.requires_grad for t in inputs if isinstance(t, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
