"""Functions whose gradient the user writes.

Promises that the context a user sees is the node of the graph itself, as in PyTorch: what `forward` puts on `ctx`, `backward` finds
there, and `grad_fn` shows it. What `save_for_backward` is given goes through the same checks and hooks as what ops save.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.autograd._kept import _count, _count_writes, _forbid_writes, _keep, _output, _unpack
from nbgrad.autograd.forward_ad import check_tangent
from nbgrad.base.records import NamedTuple
from nbgrad.base.tables import cached
from nbgrad.core.overrides import armed
from nbgrad.core.pytree import broadcast_to_and_flatten, tree_flatten, tree_map, tree_unflatten
from nbgrad.core.refusals import title
from nbgrad.core.tensor import Tensor, accumulator, edge, new, requires, storage_of
from nbgrad.dispatch import transforms
from nbgrad.history.backward import note_origin
from nbgrad.history.saved import Output, SavedTensor, origin
from nbgrad.memory.layout import wrap_dim
from nbgrad.memory.storage import Level, Spec
from nbgrad.ops.reduce.sums import sum_to
from nbgrad.ops.views.copy import moved, zeros
from nbgrad.tape.modes import PLAIN, put_back, shared, state
from nbgrad.tape.node import HELD, Node, blank, node_type, sequence

_ids = itertools.count()
_NO_SETUP = (
    "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
    "setup_context staticmethod. For more details, please see https://pytorch.org/docs/main/notes/extending.func.html"
)


class FunctionCtx:
    """What `forward`, `setup_context` and `backward` say and ask about one call; any attribute may be set on it.

    >>> class Square(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * x * g
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> Square.apply(x).backward()
    >>> x.grad
    tensor(6.)
    """

    # A node has slots for what every op has; these, which a call may set, go to its dict.
    to_save: tuple[Any, ...] = ()
    saved_for_forward: tuple[Any, ...] = ()
    dirty_tensors: tuple[Any, ...] = ()
    non_differentiable: tuple[Any, ...] = ()
    materialize_grads = _materialize_non_diff_grads = True
    needs_input_grad: tuple[bool, ...] = ()
    forwards = False  # while `jvp` runs: what is saved is what was saved for it

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or other tensors for `backward`, where they are `ctx.saved_tensors`."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`."""
        for t in tensors:
            if not (isinstance(t, Tensor) or t is None):
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` has written to; they must be returned."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether a gradient that is missing comes to `backward` as zeros (the default) or as None."""
        if not isinstance(value, bool):
            raise TypeError(
                "set_materialize_grads received an invalid combination of arguments - got (), but expected (bool)"
            )
        self.materialize_grads = value


class BackwardCFunction(Node, FunctionCtx):
    """The node of one call of a `Function`, and its context."""

    undefined = True
    _forward_cls: type[Function]

    def materializes(self, t: Tensor) -> bool:
        """Whether a gradient of this output that is missing may come as zeros."""
        return self._materialize_non_diff_grads or t._node is self

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept, as a tuple."""
        return self.saved_for_forward if self.forwards else _unpack(self)

    @property
    def saved_variables(self) -> tuple[Any, ...]:
        """The old name of `saved_tensors`."""
        warnings.warn(
            "'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2
        )
        return self.saved_tensors

    @property
    def _raw_saved_tensors(self) -> tuple[Any, ...]:
        return tuple([SavedTensor.of(self, k) for k in range(_count(self))])

    def maybe_clear_saved_tensors(self) -> None:
        self.saved = None

    def apply(self, *grads: Any) -> Any:
        """Run the user's `backward` or `vjp`."""
        return _backward_of(self._forward_cls)(self, *grads)

    def apply_jvp(self, *tangents: Any) -> Any:
        """Run the user's `jvp`."""
        return self._forward_cls.jvp(self, *tangents)

    def __call__(self, *grads: Any) -> Any:
        raise TypeError(f"'{type(self).__name__}' object is not callable")

    def __repr__(self) -> str:
        return f"<torch.autograd.function.{type(self).__name__} object at {id(self):#x}>"


class FunctionMeta(type):
    """Gives every `Function` the class of its nodes, named after it."""

    _backward_cls: type[BackwardCFunction]

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        super().__init__(name, bases, attrs)
        node_class = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls})
        node_class._autograd_function_id = next(_ids)  # type: ignore[attr-defined]
        cls._backward_cls = node_class


class Function(metaclass=FunctionMeta):
    """A differentiable operation of one's own: a subclass with static `forward` and `backward`, called through `apply`.

    `forward(ctx, *args)` computes; or `forward(*args)` does and `setup_context(ctx, inputs, output)` keeps what is needed.
    `backward(ctx, *grads)` (or `vjp`) gets a gradient for each output and returns one for each argument, None where there is none.

    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x): return 2 * x
    ...     @staticmethod
    ...     def backward(ctx, g): return 2 * g
    >>> x = torch.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    generate_vmap_rule = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on "
            "the class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with "
            "static forward method. (Example: https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs, tensors or anything else; the user writes it. Its first argument is `ctx` unless there is a
        `setup_context`.

        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x): return 2 * x
        >>> Double.apply(torch.ones(2))
        tensor([2., 2.])
        """
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Keep what `backward` needs, where `forward` does not take `ctx`: `inputs` is the tuple of its arguments, `output` what it
        returned.

        >>> class Square(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(x): return x * x
        ...     @staticmethod
        ...     def setup_context(ctx, inputs, output): ctx.save_for_backward(*inputs)
        ...     @staticmethod
        ...     def backward(ctx, g): return 2 * g * ctx.saved_tensors[0]
        >>> torch.func.grad(Square.apply)(torch.tensor(3.0))
        tensor(6.)
        """
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod  # words, here and below, so that type checkers let a user's own name what it takes
    def backward(ctx: Any, *grad_outputs: Any, **_: Any) -> Any:
        """The gradients of the arguments, one for each, None where there is none, from those of the outputs; the user writes it, or
        `vjp`.

        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x): return 2 * x
        ...     @staticmethod
        ...     def backward(ctx, g): return 2 * g
        >>> x = torch.ones(2, requires_grad=True)
        >>> torch.autograd.grad(Double.apply(x).sum(), x)
        (tensor([2., 2.]),)
        """
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any, **_: Any) -> Any:
        """The tangents of the outputs from those of the arguments, for forward mode; the user writes it.

        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(x): return 2 * x
        ...     @staticmethod
        ...     def setup_context(ctx, inputs, output): pass
        ...     @staticmethod
        ...     def jvp(ctx, t): return 2 * t
        >>> torch.func.jvp(Double.apply, (torch.tensor(3.0),), (torch.tensor(1.0),))
        (tensor(6.), tensor(2.))
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """The function of many examples: `info.batch_size` of them, along `in_dims` of the arguments; returns the outputs and where
        their examples lie. The user writes it, or sets `generate_vmap_rule` and has it made.

        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(x): return 2 * x
        ...     @staticmethod
        ...     def setup_context(ctx, inputs, output): pass
        ...     @staticmethod
        ...     def vmap(info, in_dims, x): return 2 * x, in_dims[0]
        >>> torch.vmap(Double.apply)(torch.ones(3))
        tensor([2., 2., 2.])
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function on these arguments; the result is recorded if an argument requires grad.

        >>> class Double(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x): return 2 * x
        >>> Double.apply(torch.ones(2, requires_grad=True)).requires_grad
        True
        """
        separate = cls.setup_context is not Function.setup_context
        if kwargs or (separate and not _takes(cls.forward, len(args))):
            args = _bound(cls, separate, args, kwargs)
        if not separate and (state.active or shared.rare) and (state.transforms or state.levels):
            raise RuntimeError(_NO_SETUP)
        if state.active and transforms.wrapped(tree_flatten(args)[0]):
            return _transformed(cls, args, separate)
        node, result = cls._call(args, separate, cls.forward)
        if node.saved_for_forward:  # which nobody asks for any more: it would live as long as the result
            del node.saved_for_forward
        return result

    @classmethod
    def _call(
        cls, args: tuple[Any, ...], separate: bool, forward: Callable[..., Any]
    ) -> tuple[BackwardCFunction, Any]:
        """The node of the call, and what it returns."""
        node: BackwardCFunction = blank(cls._backward_cls)
        node.saved, node.versions = HELD, ()
        needs = []
        targets = []
        numbers = []
        for a in args:
            if isinstance(a, Tensor):
                if a._rg and requires(a):
                    needs.append(True)
                    target, number = (a._node, a._nr) if a._rg == 1 else edge(a)
                    if a._node is None:
                        target = accumulator(a) if a._rg == 1 else target
                        node.leaves = (a, node.leaves)
                    targets.append(target)
                    numbers.append(number)
                    continue
                targets.append(None)
                numbers.append(0)
            needs.append(False)
        node.needs_input_grad = tuple(needs)
        node.next, node.numbers = tuple(targets), tuple(numbers)
        node.seq = next(sequence)
        node.rule = _rule
        recorded = state.grad
        state.grad = False
        try:
            if separate:
                result = forward(*args)
                cls.setup_context(node, args, result)
            else:
                result = forward(node, *args)
        finally:
            state.grad = recorded
        recorded = recorded and True in needs
        if (
            recorded
            and type(result) is Tensor
            and result._rg == 0
            and result._view is None
            and result._spec.dtype.inexact
            and not (node.dirty_tensors or node.non_differentiable or any([result is a for a in args]))
        ):
            # One fresh result, the common case: measured 1.5 us less than the long way.
            result._node, result._rg = node, 1
            node.static = (tuple([a._spec if isinstance(a, Tensor) else None for a in args]), (result._spec,))
            if node.to_save:
                _keep(node)
            if shared.rare:
                note_origin(node)
            return node, result
        single = not isinstance(result, tuple)
        outs = (result,) if single else result
        if node.dirty_tensors:
            _count_writes(node, args)
        wrapped = [
            _output(node, t, k, args, recorded, len(outs), separate) if isinstance(t, Tensor) else t
            for k, t in enumerate(outs)
        ]
        if node.dirty_tensors and not all(any(d is w for w in wrapped) for d in node.dirty_tensors):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as output. The inputs that are modified "
                "inplace must all be outputs of the Function."
            )
        if node.non_differentiable and not all(isinstance(t, Tensor) for t in node.non_differentiable):
            raise RuntimeError("mark_non_differentiable only accepts variable arguments, but got ")
        if recorded:
            if len(wrapped) != 1:
                node.outputs = len(wrapped)
                _forbid_writes(node, wrapped)
            node.static = (
                tuple([a._spec if isinstance(a, Tensor) else None for a in args]),
                tuple([t._spec if isinstance(t, Tensor) and node.materializes(t) else None for t in wrapped]),
            )
            if node.to_save:
                _keep(node)
            if shared.rare:
                note_origin(node)
        return node, wrapped[0] if single else tuple(wrapped)


@cached(1024)
def _takes(forward: Callable[..., Any], many: int) -> bool:
    """Whether so many arguments by position are all that `forward` has parameters for."""
    parameters = inspect.signature(forward).parameters.values()
    plain = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    more = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    return len(plain) + more == len(parameters) and (len(plain) <= many if more else len(plain) == many)


def _bound(
    cls: type[Function], separate: bool, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Keywords and defaults in the places of `forward`'s parameters, of which none may be given by keyword only."""
    signature = inspect.signature(cls.forward)
    if not separate:
        _refuse_keyword(next((k for k in kwargs if k not in signature.parameters), None))
    given = signature.bind(*args, **kwargs) if separate else signature.bind(None, *args, **kwargs)
    if separate:
        given.apply_defaults()
    _refuse_keyword(next(iter(given.kwargs), None))
    return given.args if separate else given.args[1:]


def _refuse_keyword(name: str | None) -> None:
    if name is not None:
        raise TypeError(f"forward() got an unexpected keyword argument '{name}'")


# ---------------------------------------------------------------- inside transforms


def _transformed(cls: type[Function], args: tuple[Any, ...], separate: bool) -> Any:
    """The call inside a vmap, or with tangents: value and history first, then the tangents that the user's `jvp` gives."""
    level, ids = transforms.survey(tree_flatten(args)[0])
    forward = cls.forward
    if level is not None:
        forward = _of_examples(cls, args, level)
        args = tree_map(lambda a: transforms.lift(a, level), args)
    # What `jvp` gives tangents to, the ops of `forward` do not; inside a vmap `forward` is a call further out, which may have its own.
    open_levels = state.duals
    state.duals = () if level is None else tuple([k for k in open_levels if k not in ids])
    try:
        given = {
            k: [transforms.tangent_of(a, k) if isinstance(a, Tensor) else None for a in args] for k in ids
        }
        node, result = cls._call(args, separate, forward)
        outs = result if isinstance(result, tuple) else (result,)
        for t in outs if ids else ():
            if isinstance(
                t, Tensor
            ):  # a mark of its own, as others share theirs; what was written to keeps its tangents
                transforms.dual(t, dict(getattr(t._spec, "tangents", {})))
        for k in ids:
            state.duals = tuple([i for i in open_levels if i < k])
            _move(node, args, given[k], outs, k)
        if node.saved_for_forward:
            del node.saved_for_forward
    finally:
        state.duals = open_levels
    return result


def _move(
    node: BackwardCFunction,
    args: Sequence[Any],
    tangents: Sequence[Tensor | None],
    outs: Sequence[Any],
    k: int,
) -> None:
    """The outputs get the tangents that the user's `jvp` makes of the arguments'."""
    given = [
        zeros(a._spec.dense())
        if t is None and isinstance(a, Tensor) and a._spec.dtype.inexact and node.materialize_grads
        else t
        for a, t in zip(args, tangents)
    ]
    versions = [None if t is None else storage_of(t).version for t in tangents]
    node.forwards = True
    try:
        found = node._forward_cls.jvp(node, *given)
    finally:
        node.forwards = False
    found = found if isinstance(found, tuple) else (found,)
    for n, t in enumerate(found):
        if not (t is None or isinstance(t, Tensor)):
            raise RuntimeError(f"expected Variable or None (got {type(t).__name__}) for grad output {n}.")
    if len(found) != len(outs):
        raise RuntimeError(
            f"Function's jvp returned an invalid number of forward gradients (expected {len(outs)} but got {len(found)})"
        )
    for n, (t, tangent) in enumerate(zip(outs, found)):
        if not isinstance(t, Tensor):
            continue
        if not t._spec.dtype.inexact or any(t is other for other in node.non_differentiable):
            if tangent is not None:
                raise RuntimeError(
                    f"Function's jvp returned a gradient at position {n}, but  the corresponding forward output is not a "
                    "differentiable Tensor.You should return None at that position instead."
                )
            continue
        written = next((m for m, a in enumerate(args) if a is t), None)
        own = None if written is None else tangents[written]
        if written is not None and own is not None:
            if tangent is not own or storage_of(own).version == versions[written]:
                raise RuntimeError(
                    "An inplace custom Function is not modifying the forward mode gradients inplace. If the forward is modifying an "
                    "input inplace, then the jvp function must modify the corresponding gradient inplace."
                )
        elif tangent is not None:
            check_tangent(t, tangent)
            _check_view(t, tangent, args, tangents)
            t._spec.tangents[k] = tangent  # type: ignore[attr-defined]


def _check_view(t: Tensor, moved: Tensor, args: Sequence[Any], tangents: Sequence[Tensor | None]) -> None:
    """Where an output is a view of an input, its tangent has to be one of that input's."""
    if t._view is None:
        return
    base = t._view.base
    for a, own in zip(args, tangents):
        if own is not None and (a is base or (a._view is not None and a._view.base is base)):
            if moved._view is None:
                raise RuntimeError(
                    "A custom Function's forward is returning a view (or an input as-is) but the jvp is not returning a view."
                )
            if own._view is not None and moved._view.base is not own._view.base:
                raise RuntimeError(
                    "A custom Function is returning a view but the jvp is not returning a view of the same base as the given grad "
                    "input."
                )
            if own._view is None and moved._view.base is not own:
                raise RuntimeError(
                    "A custom Function is returning a view but the jvp is not returning a view of the given grad input."
                )
            return


def _of_examples(cls: type[Function], args: tuple[Any, ...], level: Level) -> Callable[..., Any]:
    """The forward for all examples of a vmap: by the user's `vmap`, or generated."""
    own_rule = cls.vmap is not Function.vmap
    if own_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an overridden vmap staticmethod. "
            "Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to avoid ambiguity. For more details, "
            "please see https://pytorch.org/docs/main/notes/extending.func.html"
        )
    if not (own_rule or cls.generate_vmap_rule):
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override and implement the vmap "
            "staticmethod or set generate_vmap_rule=True. For more details, please see "
            "https://pytorch.org/docs/main/notes/extending.func.html"
        )
    leaves, structure = tree_flatten(args)
    peeled = [transforms.peel(a, level) if isinstance(a, Tensor) else (a, False) for a in leaves]
    has = [h for _, h in peeled]
    inners = tree_unflatten([x for x, _ in peeled], structure)

    def forward(*_: Any) -> Any:
        recorded, state.grad = state.grad, True  # history further out is not this call's to switch off
        try:
            if not any(has):
                made, dims = cls.apply(*inners), None
            elif own_rule:
                in_dims = tree_unflatten([0 if h else None for h in has], structure)
                made, dims = _two(cls.vmap(VmapInfo(level.size, level.randomness), in_dims, *inners))
            else:
                made, dims = _generated(cls, has, level).apply(*inners), 0
        finally:
            state.grad = recorded
        outs, spec = tree_flatten(made)
        places = broadcast_to_and_flatten(dims, spec)
        if places is None:
            raise RuntimeError(
                "The autograd.Function's vmap staticmethod returned an incompatible (output, out_dims) tuple. Expected "
                f"out_dims={dims} to be compatible with the structure of `output`. out_dims has structure {tree_flatten(dims)[1]} but "
                f"output has structure {spec}. For more details, please see "
                "https://pytorch.org/docs/main/notes/extending.func.html"
            )
        return tree_unflatten(
            [
                o
                if not isinstance(o, Tensor)
                else transforms.batched(o, level, False)
                if d is None
                else transforms.put_in(o, wrap_dim(d, o.ndim), level)
                for o, d in zip(outs, places)
            ],
            spec,
        )

    return forward


def _two(returned: Any) -> Any:
    """What a `vmap` staticmethod returns: the output, and where its examples lie."""
    if not isinstance(returned, tuple) or len(returned) != 2:
        got = f"{len(returned)} returns" if isinstance(returned, tuple) else f"a {type(returned)}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure compatible with the "
            f"output. Got {got} instead"
        )
    return returned


class VmapInfo(NamedTuple):
    """What a `vmap` staticmethod is told."""

    batch_size: int
    randomness: str


def _generated(cls: type[Function], has: Sequence[bool], level: Level) -> type[Function]:
    """The same function of all examples: its forward and its backward are those of one, mapped."""
    size, randomness = level.size, level.randomness

    def wrap_all(values: Sequence[Any], flags: Sequence[bool], inside: Level) -> list[Any]:
        return [transforms.batched(v, inside) if f else v for v, f in zip(values, flags)]

    def unwrapped(t: Any, inside: Level) -> tuple[Any, bool]:
        return transforms.peel(t, inside) if isinstance(t, Tensor) else (t, False)

    def spread(tree: Any, flags: Sequence[bool], inside: Level) -> Any:
        leaves, structure = tree_flatten(tree)
        return tree_unflatten(wrap_all(leaves, flags, inside), structure)

    def gathered(tree: Any, inside: Level) -> Any:
        return tree_map(lambda t: transforms.take_out(t, 0, inside) if isinstance(t, Tensor) else t, tree)

    class Mapped(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inners: Any) -> Any:
            with transforms.mapped(size, randomness) as inside:
                return gathered(cls.forward(*spread(inners, has, inside)), inside)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            leaves, structure = tree_flatten(output)
            with transforms.mapped(size, randomness) as inside:
                one: Any = new(cls._backward_cls)
                outs = [transforms.batched(t, inside) if isinstance(t, Tensor) else t for t in leaves]
                cls.setup_context(one, spread(inputs, has, inside), tree_unflatten(outs, structure))
                backwards, forwards = (
                    [unwrapped(t, inside) for t in kept] for kept in (one.to_save, one.saved_for_forward)
                )
            ctx.one = {k: v for k, v in vars(one).items() if k not in ("to_save", "saved_for_forward")}
            ctx.save_for_backward(*[t for t, _ in backwards])
            ctx.save_for_forward(*[t for t, _ in forwards])
            ctx.flags = [h for _, h in backwards], [h for _, h in forwards]
            ctx.set_materialize_grads(one.materialize_grads)
            constant = [t for t, o in zip(leaves, outs) if any(o is n for n in one.non_differentiable)]
            ctx.mark_non_differentiable(*constant)
            flags = iter(has)
            ctx.has = []  # by argument: those that are tensors may get a gradient
            for a in inputs:
                own = [next(flags) for _ in tree_flatten(a)[0]]
                ctx.has.append(isinstance(a, Tensor) and own[0])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            with transforms.mapped(size, randomness) as inside:
                one = _OneExample(ctx, wrap_all(ctx.saved_tensors, ctx.flags[0], inside))
                found = _backward_of(cls)(
                    one, *[None if g is None else transforms.batched(g, inside) for g in grads]
                )
                found = found if isinstance(found, tuple) else (found,)
                taken = [None if g is None else transforms.take_out(g, 0, inside) for g in found]
            return tuple([g if g is None or h else g.sum(0) for g, h in zip(taken, ctx.has)])

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            with transforms.mapped(size, randomness) as inside:
                one = _OneExample(ctx, wrap_all(ctx.saved_tensors, ctx.flags[1], inside))
                moving = [
                    transforms.batched(t, inside) if h and isinstance(t, Tensor) else t
                    for t, h in zip(tangents, ctx.has)
                ]
                return gathered(cls.jvp(one, *moving), inside)

    Mapped.__name__ = Mapped.__qualname__ = cls.__name__
    return Mapped


class _OneExample:
    """The context of one example, made of that of all."""

    def __init__(self, ctx: Any, saved: Sequence[Any]) -> None:
        vars(self).update(ctx.one)
        self.saved_tensors, self.needs_input_grad = tuple(saved), ctx.needs_input_grad


# ---------------------------------------------------------------- backward


def _backward_of(cls: type[Function]) -> Callable[..., Any]:
    if cls.vjp is not Function.vjp:
        if cls.backward is not Function.backward:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement one of them."
            )
        return cls.vjp
    return cls.backward


class FunctionRule:
    """The rule of every custom node: calls the user's backward, and checks what it returns against the arguments."""

    @staticmethod
    def apply(node: BackwardCFunction, grads: Any, needed: Any, graph: bool) -> Sequence[Any]:
        inputs, outputs = node.static
        if len(outputs) == 1:
            grads = (grads,)
        if node.materialize_grads:
            for g in grads:
                if g is None:
                    grads = [
                        zeros(sp.dense()) if g is None and sp is not None else g
                        for g, sp in zip(grads, outputs)
                    ]
                    break
        recorded = graph and state.grad  # where the rules call no ops, nothing is recorded
        modes = state.modes if shared.rare else PLAIN
        asked, state.asked = state.asked, state.outside if armed.on else state.asked
        try:
            results = _backward_of(node._forward_cls)(node, *grads)
        finally:
            state.asked = asked
        if shared.rare or state.grad is not recorded:
            put_back(recorded, modes)
        if not isinstance(results, tuple):
            results = (results,)
        if len(results) != len(inputs):
            results = _trimmed(node, results, len(inputs))
        checked: list[Any] = []
        for k, (g, sp) in enumerate(zip(results, inputs)):
            if g is not None and not isinstance(g, Tensor):
                raise RuntimeError(f"expected Variable or None (got {type(g).__name__})")
            if sp is None:
                if g is not None:
                    raise RuntimeError(
                        f"function {type(node).__name__} returned a gradient different than None at position {k + 1}, but the "
                        "corresponding forward input was not a Variable"
                    )
                continue
            if g is None or not node.needs_input_grad[k]:
                checked.append(None)
            else:
                checked.append(g if g._spec is sp else _fitted(node, g, sp, len(checked)))
        return checked

    @staticmethod
    def made_by(node: Node, k: int) -> str:
        kept = (node.saved or ())[k]
        return f", which is output {kept.number} of {title(node)}," if type(kept) is Output else origin(kept)

    @staticmethod
    def output_at(node: Node, k: int) -> int | None:
        kept = (node.saved or ())[k]
        return kept.number if type(kept) is Output else None

    @staticmethod
    def layouts(node: Node) -> tuple[Spec | None, ...]:
        return node.static[1]


_rule = FunctionRule()


def _trimmed(node: Node, results: tuple[Any, ...], count: int) -> tuple[Any, ...]:
    if len(results) > count and all(g is None for g in results[count:]):
        return results[:count]
    raise RuntimeError(
        f"function {type(node).__name__} returned an incorrect number of gradients (expected {count}, got {len(results)})"
    )


def _fitted(node: Node, g: Tensor, sp: Spec, k: int) -> Tensor:
    if g._spec.shape != sp.shape:
        if not _expands(sp.shape, g._spec.shape):
            raise RuntimeError(
                f"Function {type(node).__name__} returned an invalid gradient at index {k} - got {list(g._spec.shape)} but expected "
                f"shape compatible with {list(sp.shape)}"
            )
        g = sum_to(g, sp.shape)
    if g._spec.dtype.is_complex and not sp.dtype.is_complex:
        raise RuntimeError(
            "Expected isFloatingType(grad.scalar_type()) || (input_is_complex == grad_is_complex) to be true, but got false.  (Could "
            "this error message be improved?  If so, please report an enhancement request to PyTorch.)"
        )
    if g._spec.device is not sp.device and g.ndim:
        raise RuntimeError(
            f"Function {type(node).__name__} returned an invalid gradient at index {k} - expected device {sp.device} but got {g.device}"
        )
    return moved(g, sp.dtype, sp.device)


def _expands(shape: Sequence[int], to: Sequence[int]) -> bool:
    return len(shape) <= len(to) and all(
        n in (1, m) for n, m in zip(reversed(tuple(shape)), reversed(tuple(to)))
    )


# ---------------------------------------------------------------- once


class _ErrorRule:
    """What stands behind the results of a backward that must not be differentiated."""

    @staticmethod
    def apply(node: Node, grads: Any, needed: Any, graph: bool) -> Any:
        raise RuntimeError(
            "trying to differentiate twice a function that was marked with @once_differentiable"
        )

    @staticmethod
    def layouts(node: Node) -> tuple[Spec | None, ...]:
        return node.static


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A backward that need not be differentiable itself: to differentiate it is an error, and no gradient is wrong in silence."""

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any) -> Any:
        recorded = state.grad
        state.grad = False
        try:
            results = fn(ctx, *args)
        finally:
            state.grad = recorded
        if not recorded or not any(isinstance(a, Tensor) and requires(a) for a in args):
            return results
        several = results if isinstance(results, tuple) else (results,)
        node: Node = blank(node_type("Error"))
        node.next, node.numbers = (None,), (0,)
        node.static = tuple([t._spec if isinstance(t, Tensor) else None for t in several])
        node.rule, node.seq = _ErrorRule, next(sequence)
        if len(several) != 1:
            node.outputs = len(several)
        guarded = []
        for k, t in enumerate(several):
            if isinstance(t, Tensor):
                t = t.detach()
                t._node, t._nr, t._rg = node, k, 1
            guarded.append(t)
        return tuple(guarded) if isinstance(results, tuple) else guarded[0]

    return wrapper


class InplaceFunction(Function):
    """PyTorch's old base of functions that may write to their input; its `ctx` is that of any `Function`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """PyTorch's old base of functions with nested arguments, kept for its name.

    >>> issubclass(torch.autograd.NestedIOFunction, torch.autograd.Function)
    True
    """


__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]
