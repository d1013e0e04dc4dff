"""Derivatives as transforms of functions: they take a function and give a function, and nest.

Reverse mode keeps its history on tensors of its own, so an inner derivative never sees an outer one's variable as its own; forward mode
opens a level of its own for each transform. What a result depends on besides the variable (a tensor that requires grad, an outer
transform) it goes on depending on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar, overload
from weakref import WeakSet

from nbgrad.autograd._run import grad as _grad
from nbgrad.autograd._vmap import basis, by_input, vmap
from nbgrad.autograd.forward_ad import _set_fwd_grad_enabled, check_tangent, duals, tangent_or_zeros
from nbgrad.autograd.grad_mode import enable_grad
from nbgrad.core.pytree import tree_flatten, tree_map, tree_unflatten
from nbgrad.core.tensor import Tensor, edge, requires, set_requires_grad
from nbgrad.dispatch.transforms import lift, moving, primal, tangent_of
from nbgrad.func._running import running
from nbgrad.memory.storage import Batched, Marked
from nbgrad.ops.make.filled import zeros_like
from nbgrad.ops.views.join import stack
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import split
from nbgrad.tape.modes import state
from nbgrad.tape.node import Node

__all__ = ["grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize", "vjp"]

Function = Callable[..., Any]
Result = TypeVar("Result")

# ---------------------------------------------------------------- the variables of one derivative


def _variables(tree: Any) -> Any:
    """The tensors of a tree as the function is to see them: its own, still part of any outer history."""
    return tree_map(_variable, tree)


def _variable(x: Any) -> Tensor:
    if not isinstance(x, Tensor):
        raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    x = lift(x, state.levels[-1] if state.levels else None)
    if type(x._spec) is Marked or requires(x):
        x = x.view_as(x)
        return x if requires(x) else _leaf(x)
    return _leaf(x.detach())


def _leaf(x: Tensor) -> Tensor:
    set_requires_grad(x, True, "only Tensors of floating point dtype can require gradients")
    return x


_past: WeakSet[Node] = WeakSet()  # variables of functions that have run, which nobody else knows


def _nodes_beyond(outs: Sequence[Tensor], own: set[Node]) -> bool:
    """Whether history leads to a leaf that is none of the variables, nor any of a function that has run."""
    found = {n for o in outs if (n := edge(o)[0]) is not None}
    left = list(found)
    while left:
        node = left.pop()
        if node in own:
            continue
        following = [n for n in node.next if n is not None and n not in found]
        if not node.next and node not in _past:
            return True
        found.update(following)
        left += following
    return False


def _gradients(
    outs: Sequence[Tensor], xs: Sequence[Tensor], weights: Sequence[Tensor] | None, outer: bool, keep: bool
) -> list[Tensor]:
    """The gradients of `outs` by the variables, zeros where nothing depends on one. They have a history of their own if somebody
    outside may ask for it: in grad mode, where something other than the variables was used, a weight of the outputs too, or inside
    another transform."""
    used = [k for k, o in enumerate(outs) if requires(o)]
    if not used:
        return [zeros_like(x.detach()) for x in xs]
    own = {n for x in xs if (n := edge(x)[0]) is not None}
    chosen = [outs[k] for k in used]
    graph = outer and (
        any(map(_history_beyond, chosen))
        or _nodes_beyond(chosen, own)
        or _nodes_before(own)
        or any(requires(w) or _history_beyond(w) for w in weights or ())
    )
    with enable_grad():
        found = _grad(
            chosen,
            list(xs),
            None if weights is None else [weights[k] for k in used],
            retain_graph=keep or graph,
            create_graph=graph,
            allow_unused=True,
        )
    return [zeros_like(x.detach()) if g is None else _settled(g, own, graph) for g, x in zip(found, xs)]


def _history_beyond(t: Tensor) -> bool:
    """Whether a tangent, or what is further out than the vmaps, has a history that is to go on."""
    while type(t._spec) is Marked:
        if any(requires(m) or _history_beyond(m) for m in t._spec.tangents.values()):
            return True
        if type(t._buf) is not Batched:
            return False
        t = t._buf.inner
        if requires(t):
            return True
    return False


def _nodes_before(own: set[Node]) -> bool:
    """Whether a variable is itself part of an outer history."""
    return any(n.next for n in own)


def _lasts(t: Tensor, own: set[Node]) -> bool:
    return requires(t) and (_nodes_before(own) or _nodes_beyond((t,), own))


def _settled(t: Tensor, own: set[Node], outer: bool) -> Tensor:
    """A result without the history that only leads back to the variables, if it is not to be asked for; so its tangents."""
    if type(t._spec) is Marked:
        for moved in t._spec.tangents.values():
            _settled(moved, own, outer)
    return t if outer and _lasts(t, own) else _cut(t)


def _cut(t: Tensor) -> Tensor:
    """Without the history that only leads back to the variables; that of other depths stays."""
    if t._node is not None or t._rg:
        t._node, t._rg, t._nr, t._view = None, 0, 0, None
    return t


def _outside(t: Any, own: set[Node], outer: bool) -> Any:
    """A value of the function as its caller gets it."""
    if not isinstance(t, Tensor) or not requires(t):
        return t
    if outer and _lasts(t, own):
        return t
    return _cut(t.view_as(t)) if type(t._spec) is Marked else t.detach()


# ---------------------------------------------------------------- reverse mode


def grad(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """The function whose result is the gradient of `func`, a number, by the arguments `argnums`; with `has_aux` also what else `func`
    returns.

    >>> torch.func.grad(lambda x: x**3)(torch.tensor(2.0))
    tensor(12.)
    """

    @functools.wraps(func)
    def gradient(*args: Any, **kwargs: Any) -> Any:
        found, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def grad_and_value(func: Function, argnums: int | tuple[int, ...] = 0, has_aux: bool = False) -> Function:
    """As `grad`, with what `func` returns behind the gradient.

    >>> torch.func.grad_and_value(lambda x: x**3)(torch.tensor(2.0))
    (tensor(12.), tensor(8.))
    """

    @functools.wraps(func)
    def both(*args: Any, **kwargs: Any) -> Any:
        outer = state.grad
        with enable_grad(), running(func, (args, kwargs)):
            chosen = _variables(_chosen(args, argnums))
            output = func(*_replaced(args, chosen, argnums), **kwargs)
        aux: Any = None
        if has_aux:
            output, aux = _with_aux(output, "grad_and_value(f)(*args)")
        if not isinstance(output, Tensor):
            raise RuntimeError(
                f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}"
            )
        if output.ndim != 0:
            raise RuntimeError(
                "grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with "
                f"{output.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
            )
        leaves, structure = tree_flatten(chosen)
        own = {n for x in leaves if (n := edge(x)[0]) is not None}
        found = tree_unflatten(_gradients((output,), leaves, None, outer, keep=False), structure)
        value = _outside(output, own, outer)
        if not has_aux:
            return found, value
        return found, (value, tree_map(lambda t: _outside(_tensor(t), own, outer), aux))

    return both


class Pullback:
    """A function called at its primals, for products of cotangents with its Jacobian there."""

    def __init__(self, func: Function, primals: tuple[Any, ...], has_aux: bool, given: Any = None) -> None:
        """`given` are all arguments of the user's function, of which `primals` may be some."""
        outer = state.grad
        with enable_grad(), running(func, primals if given is None else given):
            chosen = _variables(primals)
            output = func(*chosen)
        aux: Any = None
        if has_aux:
            output, aux = _with_aux(output, "vjp(f, *primals)")
        self.outs, self.structure = tree_flatten(output)
        _check_tensors(self.outs, "vjp(f, *primals)")
        for o in self.outs:
            if not o.dtype.inexact:
                raise RuntimeError(
                    "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype "
                    f"{o.dtype}"
                )
        self.leaves, self.in_structure = tree_flatten(chosen)
        own = self.own = {n for x in self.leaves if (n := edge(x)[0]) is not None}
        _past.update(n for n in own if not n.next)
        self.value = tree_unflatten([_outside(o, own, outer) for o in self.outs], self.structure)
        self.aux = tree_map(lambda t: _outside(_tensor(t), own, outer), aux) if has_aux else None

    def __call__(self, cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, structure = tree_flatten(cotangents)
        if structure != self.structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. cotangents: "
                f"{structure.pretty()}, primal output: {self.structure.pretty()}"
            )
        for g in given:
            if g is not None and not isinstance(g, Tensor):
                raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        outside = state.grad if create_graph is None else create_graph
        return tree_unflatten(
            _gradients(self.outs, self.leaves, given, outside, retain_graph), self.in_structure
        )


@overload
def vjp(
    func: Callable[..., Result], *primals: Any, has_aux: Literal[False] = False
) -> tuple[Result, Function]: ...
@overload
def vjp(func: Function, *primals: Any, has_aux: Literal[True]) -> tuple[Any, Function, Any]: ...
def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """What `func` returns, and the function of a cotangent that gives its product with the Jacobian, a tuple over the primals.

    >>> value, pull = torch.func.vjp(torch.exp, torch.zeros(2))
    >>> pull(torch.tensor([1.0, 3.0]))
    (tensor([1., 3.]),)
    """
    product = Pullback(func, primals, has_aux)
    return (product.value, product, product.aux) if has_aux else (product.value, product)


def jacrev(
    func: Function,
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Function:
    """The Jacobian of `func` by the arguments `argnums`, in reverse mode: one backward for all of `func`'s outputs at
    once, or for `chunk_size`; with a `chunk_size` of 1 without `vmap`.

    >>> torch.func.jacrev(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        _check_real("jacrev", args, "inputs")
        picked = _chosen(args, argnums)

        def of_chosen(*values: Any) -> Any:
            return func(
                *_replaced(args, values if isinstance(argnums, tuple) else values[0], argnums), **kwargs
            )

        back = Pullback(
            of_chosen, picked if isinstance(argnums, tuple) else (picked,), has_aux, (args, kwargs)
        )
        outs, structure = back.outs, back.structure
        _check_real("jacrev", outs, "outputs")
        inputs, in_structure = tree_flatten(picked)

        def row(*seeds: Tensor) -> tuple[Tensor, ...]:
            return tuple(tree_flatten(back(tree_unflatten(seeds, structure)))[0])

        found = _each(row, basis(outs)) if chunk_size == 1 else vmap(row, chunk_size=chunk_size)(*basis(outs))
        rows = [_settled(r, back.own, True) for r in found]
        blocks = [split(r, [o.numel() for o in outs], 0) for r in rows]
        by_output = [
            tree_unflatten(
                [reshape(blocks[i][k], (*o.shape, *x.shape)) for i, x in enumerate(inputs)], in_structure
            )
            for k, o in enumerate(outs)
        ]
        result = tree_unflatten(by_output, structure)
        return (result, back.aux) if has_aux else result

    return jacobian


def _each(row: Callable[..., tuple[Tensor, ...]], seeds: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """As `vmap` gives it, one after another, for a backward that no `vmap` takes."""
    return tuple([stack(one) for one in zip(*[row(*chosen) for chosen in zip(*seeds)])])


# ---------------------------------------------------------------- forward mode


@overload
def jvp(
    func: Callable[..., Result],
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: Literal[False] = False,
) -> tuple[Result, Result]: ...
@overload
def jvp(
    func: Function,
    primals: tuple[Any, ...],
    tangents: tuple[Any, ...],
    *,
    strict: bool = False,
    has_aux: Literal[True],
) -> tuple[Any, Any, Any]: ...
def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """What `func` returns at `primals`, and its derivative in the direction of `tangents`; both are tuples.

    >>> torch.func.jvp(torch.exp, (torch.zeros(2),), (torch.tensor([1.0, 3.0]),))
    (tensor([1., 1.]), tensor([1., 3.]))
    """
    return _jvp(func, primals, tangents, strict, has_aux, primals)


def _jvp(func: Function, primals: Any, tangents: Any, strict: bool, has_aux: bool, given: Any) -> Any:
    """`given` are all arguments of the user's function, of which `primals` may be some."""
    words = "jvp(f, primals, tangents)"
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"{words}: Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    flat, structure = tree_flatten(primals)
    directions, direction_structure = tree_flatten(tangents)
    if structure != direction_structure:
        raise RuntimeError(
            f"{words}: Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 "
            f"tensors, tangents also must be. Got primals with structure {structure} and tangents with structure "
            f"{direction_structure}"
        )
    for what, leaves in (("primals", flat), ("tangents", directions)):
        if not leaves:
            raise RuntimeError(f"{words}: Expected {what} to contain at least one Tensor.")
        for t in leaves:
            if not isinstance(t, Tensor):
                raise RuntimeError(f"{words}: Expected {what} to only contain Tensors, got {type(t)}")
    with _set_fwd_grad_enabled(True), moving() as k:
        for x, v in zip(flat, directions):
            check_tangent(x, v)
        with running(func, given, hooks=True):
            output = func(*tree_unflatten(duals(flat, directions, k), structure))
        aux: Any = None
        if has_aux:
            output, aux = _with_aux(output, words)
        outs, out_structure = tree_flatten(output)
        _check_tensors(outs, words)
        if strict and any([tangent_of(o, k) is None for o in outs]):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This is not allowed with "
                "strict=True."
            )
        values, moved = [primal(o, k) for o in outs], [tangent_or_zeros(o, k) for o in outs]
        aux = tree_map(lambda t: primal(_tensor(t), k), aux) if has_aux else None
    results = tree_unflatten(values, out_structure), tree_unflatten(moved, out_structure)
    return (*results, aux) if has_aux else results


def jacfwd(
    func: Function,
    argnums: int | tuple[int, ...] | None = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Function:
    """The Jacobian of `func` by the arguments `argnums` (None: by all), in forward mode: one forward for all directions at once.

    >>> torch.func.jacfwd(lambda x: x * x)(torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """

    @functools.wraps(func)
    def jacobian(*args: Any, **kwargs: Any) -> Any:
        _check_real("jacfwd", args, "inputs")
        by = tuple(range(len(args))) if argnums is None else argnums
        picked = _chosen(args, by)
        inputs, in_structure = tree_flatten(picked)
        found: dict[str, Any] = {}

        def of_chosen(values: Any) -> Any:
            return func(*_replaced(args, values, by), **kwargs)

        def push(*directions: Tensor) -> Any:
            moving = tree_unflatten(directions, in_structure)
            got = _jvp(of_chosen, (picked,), (moving,), False, has_aux, picked)  # others are not written
            _check_real("jacfwd", got[0], "outputs")
            moved, found["structure"] = tree_flatten(got[1])
            found["shapes"] = [tuple(m.shape) for m in moved]
            return (tuple(moved), got[2]) if has_aux else (tuple(moved), ())

        columns, aux = vmap(push, out_dims=(0, 0), randomness=randomness)(*basis(inputs))
        by_output = []
        for column, shape in zip(columns, found["shapes"]):
            by_output.append(tree_unflatten(by_input(column, shape, inputs), in_structure))
        result = tree_unflatten(by_output, found["structure"])
        return (result, tree_map(lambda t: t[0], aux)) if has_aux else result

    return jacobian


def hessian(func: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """The second derivatives of `func`: forward over reverse.

    >>> torch.func.hessian(lambda x: x[0] * x[1])(torch.tensor([1.0, 2.0]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """What `func` returns at `primals`, and its derivative there as a function of the direction.

    The function runs once: its Jacobian times a direction is the derivative of its backward, which is linear in the cotangent.

    >>> value, push = torch.func.linearize(torch.exp, torch.zeros(2))
    >>> push(torch.tensor([1.0, 3.0]))
    tensor([1., 3.])
    """
    if not callable(func):
        raise TypeError(f"'{type(func).__name__}' object is not callable")
    outer = state.grad
    with enable_grad(), running(func, primals):
        chosen = _variables(primals)
        output = func(*chosen)
        outs, structure = tree_flatten(output)
        _check_tensors(outs, "linearize(f, *primals)")
        leaves, in_structure = tree_flatten(chosen)
        own = {n for x in leaves if (n := edge(x)[0]) is not None}
        _past.update(n for n in own if not n.next)
        value = tree_map(lambda t: _outside(t, own, outer), output)
        seeds = [zeros_like(o.detach(), requires_grad=True) for o in outs]
        used = [k for k, o in enumerate(outs) if requires(o)]
        products = (
            _grad(
                [outs[k] for k in used],
                leaves,
                [seeds[k] for k in used],
                create_graph=True,
                allow_unused=True,
            )
            if used
            else (None,) * len(leaves)
        )
    live = [k for k, p in enumerate(products) if p is not None and requires(p)]

    def derivative(*tangents: Any) -> Any:
        given, given_structure = tree_flatten(tangents)
        if given_structure != in_structure:
            raise RuntimeError(
                f"Expected the tangents {given_structure} to have the same argspec as the primals {in_structure}"
            )
        for k, (x, v) in enumerate(zip(leaves, given)):
            for what, got, want in (("shape", v.shape, x.shape), ("dtype", v.dtype, x.dtype)):
                if got != want:
                    raise RuntimeError(
                        f"tangent:{k} with {what} {got} in flattened pytree doesn't match the {what} {want} of the corresponding primal."
                    )
        found: Sequence[Tensor | None] = (None,) * len(seeds)
        if live:
            found = _grad(
                [products[k] for k in live],  # type: ignore[arg-type]
                seeds,
                [given[k] for k in live],
                retain_graph=True,
                allow_unused=True,
            )
        moved = [zeros_like(s.detach()) if t is None else t for t, s in zip(found, seeds)]
        return tree_unflatten(moved, structure)

    return value, derivative


# ---------------------------------------------------------------- arguments


def _check_real(name: str, values: Any, what: str) -> None:
    for k, t in enumerate(tree_flatten(values)[0]):
        if isinstance(t, Tensor) and t.is_complex():
            raise RuntimeError(
                f"{name}: Expected all {what} to be real but received complex tensor at flattened input idx: {k}"
            )


def _chosen(args: tuple[Any, ...], argnums: Any) -> Any:
    """The arguments by which is differentiated: one, or a tuple."""
    if isinstance(argnums, int):
        return args[_position(argnums, len(args))]
    if not isinstance(argnums, tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    if not argnums:
        raise RuntimeError("argnums must be non-empty")
    positions = tuple([_position(n, len(args)) for n in argnums])
    if len(set(positions)) != len(positions):
        raise RuntimeError(f"argnums elements must be unique, got {positions}")
    return tuple([args[n] for n in positions])


def _position(argnum: Any, count: int) -> int:
    if not isinstance(argnum, int):
        raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
    if not -count <= argnum < count:
        raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    return argnum % count


def _replaced(args: tuple[Any, ...], values: Any, argnums: Any) -> tuple[Any, ...]:
    """The arguments with those differentiated by in their places."""
    by_place = (
        {argnums % len(args): values}
        if isinstance(argnums, int)
        else {n % len(args): v for n, v in zip(argnums, values)}
    )
    return tuple([by_place.get(k, a) for k, a in enumerate(args)])


def _with_aux(output: Any, words: str) -> tuple[Any, Any]:
    if not (isinstance(output, tuple) and len(output) == 2):
        raise RuntimeError(
            f"{words}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return output[0], output[1]


def _tensor(x: Any) -> Tensor:
    """What a function gives beside its output are tensors too."""
    if not isinstance(x, Tensor):
        raise RuntimeError(f"Expected tensors, got unsupported type {type(x)}")
    return x


def _check_tensors(outs: list[Any], words: str) -> None:
    if not outs or (len(outs) == 1 and outs[0] is None):
        raise RuntimeError(
            f"{words}: Expected f to be a function that has non-empty output (got output = {outs})"
        )
    for o in outs:
        if not isinstance(o, Tensor):
            raise RuntimeError(
                f"{words}: expected f(*primals) to return only tensors, got unsupported type {type(o)}"
            )
