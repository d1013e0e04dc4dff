"""Jacobians, Hessians, and their products with vectors, of functions of tensors.

Promises PyTorch's shapes, nesting of tuples, zeros for what does not depend on an input, and words of refusal; that the inputs' own
`.grad` stays as it is; and that a result belongs to the inputs' graph if `create_graph` is true, and to none otherwise. Everything
runs backward: products from the right differentiate backward itself; but for Jacobians of the strategy "forward-mode". `vectorize`
computes all rows, or columns, at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from nbgrad.autograd._run import grad
from nbgrad.autograd._vmap import basis, by_input, vmap
from nbgrad.autograd.forward_ad import duals, tangent_or_zeros
from nbgrad.autograd.function import FunctionCtx
from nbgrad.autograd.grad_mode import enable_grad
from nbgrad.core.tensor import Tensor, edge, requires, set_requires_grad
from nbgrad.dispatch.transforms import moving
from nbgrad.memory.storage import Marked
from nbgrad.ops.make.filled import zeros, zeros_like
from nbgrad.ops.views.join import stack
from nbgrad.ops.views.slices import split
from nbgrad.tape.modes import state

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]

_within = (
    threading.local()
)  # whether the transforms around a call are those of a Jacobian that is asked for here

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def vjp(
    func: Callable[..., Any],
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """What `func` returns, and `v` times its Jacobian: one tensor per input. `v` is like the outputs and may be left out for one
    number. With `strict` an output that does not depend on an input is refused.

    >>> torch.autograd.functional.vjp(torch.exp, torch.zeros(2), torch.tensor([1.0, 3.0]))
    (tensor([1., 1.]), tensor([1., 3.]))
    """
    with enable_grad():
        several, xs = _sources("vjp", inputs, create_graph)
        many, outs = _outputs("vjp", func(*xs), strict)
        weights = _vector("vjp", v, outs, many, create_graph, "user-provided function returns")
        found = _grad(outs, xs, weights, create_graph)
        found = _filled(found, xs, strict, create_graph, _NO_OUTPUT, "jacobian")
    return _finished(outs, many, create_graph), _finished(found, several, create_graph)


def jvp(
    func: Callable[..., Any],
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """What `func` returns, and its Jacobian times `v`: one tensor per output.

    `u` times the Jacobian is linear in `u`; its derivative by `u` in direction `v` is asked for.

    >>> torch.autograd.functional.jvp(torch.exp, torch.zeros(2), torch.tensor([1.0, 3.0]))
    (tensor([1., 1.]), tensor([1., 3.]))
    """
    with enable_grad():
        several, xs = _sources("jvp", inputs, create_graph)
        weights = _vector("jvp", v, xs, several, create_graph, _ONE_INPUT)
        many, outs = _outputs("jvp", func(*xs), strict)
        us = tuple(zeros_like(o, requires_grad=True) for o in outs)
        products = _grad(outs, xs, us, True)
        if strict:
            _check_dependent(products, _CONSTANT_GRADIENT)
        found = _grad(products, us, weights, create_graph)
        found = _filled(found, outs, strict, create_graph, _NO_ENTRY, "jacobian")
    return _finished(outs, many, create_graph), _finished(found, many, create_graph)


def vhp(
    func: Callable[..., Any],
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The number that `func` returns, and `v` times its Hessian: one tensor per input.

    >>> torch.autograd.functional.vhp(lambda x: (x**3).sum(), torch.ones(2), torch.tensor([1.0, 2.0]))
    (tensor(2.), tensor([ 6., 12.]))
    """
    with enable_grad():
        several, xs, weights, out, slope = _slope("vhp", func, inputs, v, create_graph, strict)
        found = _grad(slope, xs, weights, create_graph)
        found = _filled(found, xs, strict, create_graph, _NO_JACOBIAN, "hessian")
    return _finished(out, False, create_graph), _finished(found, several, create_graph)


def hvp(
    func: Callable[..., Any],
    inputs: Inputs,
    v: Inputs | None = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The number that `func` returns, and its Hessian times `v`: as `vhp` where the Hessian is symmetric, at twice the cost.

    >>> torch.autograd.functional.hvp(lambda x: (x**3).sum(), torch.ones(2), torch.tensor([1.0, 2.0]))
    (tensor(2.), tensor([ 6., 12.]))
    """
    with enable_grad():
        several, xs, weights, out, slope = _slope("hvp", func, inputs, v, create_graph, strict)
        us = tuple(zeros_like(x, requires_grad=True) for x in xs)
        products = _grad(slope, xs, us, True)
        found = _grad(products, us, weights, create_graph)
        found = _filled(found, xs, strict, create_graph, _NO_HESSIAN_ENTRY, "hessian")
    return _finished(out, False, create_graph), _finished(found, several, create_graph)


def jacobian(
    func: Callable[..., Any],
    inputs: Inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The derivatives of all that `func` returns: of shape output + input; a tuple over outputs of tuples over inputs, each level
    only where there is a tuple. With `vectorize` all rows are computed at once.

    >>> torch.autograd.functional.jacobian(lambda x: x * x, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    if strategy not in _STRATEGIES:
        raise AssertionError(
            f'{_STRATEGY} Hint: If your function has more outputs than inputs, "forward-mode" tends to be more performant. '
            'Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        several, xs = _sources("jacobian", inputs, create_graph)
        many, outs = _outputs("jacobian", func(*xs), strict)
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. Please "
                "either set `strict=False` or `vectorize=False`."
            )
        for out in () if vectorize else outs:
            if out.is_complex() and out.numel() and requires(out):
                raise RuntimeError(
                    f"grad can be implicitly created only for real scalar outputs but got {out.dtype}"
                )
        made = (
            _all_blocks(outs, xs, create_graph)
            if vectorize or (not (strict or create_graph) and _rows_at_once(outs))
            else [_blocks(k, out, xs, create_graph, strict) for k, out in enumerate(outs)]
        )
        blocks = [_finished(of_one, several, create_graph) for of_one in made]
    return tuple(blocks) if many else blocks[0]


def hessian(
    func: Callable[..., Any],
    inputs: Inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of the number that `func` returns: of shape input + input; for a tuple of inputs, a tuple of tuples.

    >>> torch.autograd.functional.hessian(lambda x: x[0] * x[1], torch.tensor([1.0, 2.0]))
    tensor([[0., 1.],
            [1., 0.]])
    """
    several, xs = _tensors("hessian", "inputs", inputs)
    if outer_jacobian_strategy not in _STRATEGIES:
        raise AssertionError(_STRATEGY)

    def number(*args: Tensor) -> Tensor:
        many, outs = _outputs("hessian", func(*args), strict)
        return _number("hessian", many, outs)[0].squeeze()

    def slope(*args: Tensor) -> tuple[Tensor, ...]:
        found = jacobian(number, args, create_graph=True)
        if strict:
            _check_dependent(found, _CONSTANT_JACOBIAN)
        return found

    found = jacobian(slope, xs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if several else found[0][0]


# ---------------------------------------------------------------- derivatives


def _grad(
    outputs: Sequence[Tensor | None],
    inputs: tuple[Tensor, ...],
    weights: Sequence[Tensor] | None,
    graph: bool,
    keep: bool | None = None,
) -> tuple[Tensor | None, ...]:
    """`grad` of those outputs that depend on anything."""
    used = [k for k, out in enumerate(outputs) if out is not None and requires(out)]
    if not used:
        return (None,) * len(inputs)
    return grad(
        [outputs[k] for k in used],  # type: ignore[arg-type]
        inputs,
        None if weights is None else [weights[k] for k in used],
        retain_graph=keep,
        create_graph=graph,
        allow_unused=True,
    )


def _blocks(k: int, out: Tensor, xs: tuple[Tensor, ...], graph: bool, strict: bool) -> tuple[Tensor, ...]:
    """The Jacobian of output `k` by each input, a row per element of the output."""
    rows = []
    number = out.numel() == 1
    for seed in (None,) if number else basis((out,))[0].unbind():
        row = []
        for i, (g, x) in enumerate(
            zip(_grad((out,), xs, None if seed is None else (seed,), graph, keep=True), xs)
        ):
            if strict and g is None:
                raise RuntimeError(
                    f"Output {k} of the user-provided function is independent of input {i}.{_NOT_ALLOWED}"
                )
            if strict and graph and g is not None and not requires(g):
                # PyTorch names the output's number here, and calls it the input's.
                raise RuntimeError(_CONSTANT.format("jacobian", k))
            row.append(zeros_like(x) if g is None else g)
        rows.append(row)
    if number:
        return tuple([g.reshape(out.shape + x.shape).contiguous() for g, x in zip(rows[0], xs)])
    return tuple([stack([row[i] for row in rows]).view(out.shape + x.shape) for i, x in enumerate(xs)])


_FEW = (
    4  # rows; below, one backward for each takes less time than one for all (measured on chains of small ops)
)


def _rows_at_once(outs: tuple[Tensor, ...]) -> bool:
    """Whether it pays to compute all rows by one backward, and nobody can tell: no hook and no function of the user's would see it."""
    if sum([o.numel() for o in outs]) < _FEW:
        return False
    left = [n for o in outs if (n := edge(o)[0]) is not None]
    seen = set(left)
    while left:
        node = left.pop()
        if node.hooked or isinstance(node, FunctionCtx):
            return False
        following = [n for n in node.next if n is not None and n not in seen]
        seen.update(following)
        left += following
    return True


def _all_blocks(outs: tuple[Tensor, ...], xs: tuple[Tensor, ...], graph: bool) -> list[tuple[Tensor, ...]]:
    """The Jacobian of all outputs by each input, by one backward for all rows at once."""
    sizes = [o.numel() for o in outs]
    used = [k for k, o in enumerate(outs) if requires(o)]
    rows: Sequence[Tensor | None] = (None,) * len(xs)
    if used:
        seeds = basis(outs)
        rows = grad(
            [outs[k] for k in used],
            xs,
            [seeds[k] for k in used],
            create_graph=graph,
            allow_unused=True,
            is_grads_batched=True,
        )
    parts = [
        split(zeros((sum(sizes), *x.shape), dtype=x.dtype) if r is None else r, sizes)
        for r, x in zip(rows, xs)
    ]
    return [
        tuple([part[k].view(o.shape + x.shape) for part, x in zip(parts, xs)]) for k, o in enumerate(outs)
    ]


def _forward_jacobian(
    func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool
) -> Any:
    """The Jacobian by one forward for all columns at once; PyTorch gives lists here where there are several."""
    if strict:
        raise RuntimeError(_NOT_TOGETHER.format("strict=True", "strict=False"))
    if not vectorize:
        raise NotImplementedError(_ONLY_VECTORIZED)
    if create_graph:
        raise NotImplementedError(_NOT_TOGETHER.format("create_graph=True", "create_graph=False"))
    several, xs = _tensors("jacobian", "inputs", inputs)
    many: list[bool] = []

    def outputs(*args: Tensor) -> tuple[Tensor, ...]:
        tupled, outs = _outputs("jacobian", func(*args), strict)
        many[:] = [tupled]
        return outs

    def push(*directions: Tensor) -> tuple[Tensor, ...]:
        with moving() as k:
            return tuple([tangent_or_zeros(o, k) for o in outputs(*duals(points, directions, k))])

    points = [x.detach() for x in xs]
    before = getattr(_within, "jacobian", False)
    _within.jacobian = before or not (state.transforms or state.levels)
    try:
        columns = vmap(push)(*basis(points))
    finally:
        _within.jacobian = before
    found = [by_input(column, column.shape[1:], points) for column in columns]
    blocks = [of_one if several else of_one[0] for of_one in found]
    return blocks if many[0] else blocks[0]


def _slope(
    name: str, func: Callable[..., Any], inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[
    bool, tuple[Tensor, ...], tuple[Tensor, ...] | None, tuple[Tensor, ...], tuple[Tensor | None, ...]
]:
    """What `vhp` and `hvp` start with: whether there are several inputs, the inputs, the vector, the number, its gradient."""
    several, xs = _sources(name, inputs, create_graph)
    weights = _vector(name, v, xs, several, create_graph, _ONE_INPUT)
    out = _number(name, *_outputs(name, func(*xs), strict))
    slope = _grad(out, xs, None, True)
    if strict:
        _check_dependent(slope, _CONSTANT_JACOBIAN)
    return several, xs, weights, out, slope


# ---------------------------------------------------------------- arguments and results


def _tensors(name: str, what: str, given: Any) -> tuple[bool, tuple[Tensor, ...]]:
    """Whether it is a tuple, and its tensors."""
    several = isinstance(given, tuple)
    found = given if several else (given,)
    for k, t in enumerate(found):
        if not isinstance(t, Tensor):
            which = f"value at index {k}" if several else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {which} has type {type(t)}."
            )
    return several, found


def _sources(name: str, inputs: Any, create_graph: bool) -> tuple[bool, tuple[Tensor, ...]]:
    """The inputs as `func` gets them: tensors that nobody else has, of the user's graph if a graph is to be created."""
    several, found = _tensors(name, "inputs", inputs)
    return several, tuple(_variable(_own(t, create_graph)) for t in found)


def _variable(t: Tensor) -> Tensor:
    if requires(t):
        return t
    if getattr(_within, "jacobian", False):  # the transforms are those of a Jacobian further out
        set_requires_grad(t, True, "only Tensors of floating point dtype can require gradients")
        return t
    return t.requires_grad_()


def _own(t: Tensor, create_graph: bool) -> Tensor:
    outer = requires(t) or type(t._spec) is Marked  # somebody further out differentiates by it
    return t.view_as(t) if create_graph and outer else t.detach()


def _outputs(name: str, returned: Any, strict: bool) -> tuple[bool, tuple[Tensor, ...]]:
    many, outs = _tensors(name, "outputs of the user-provided function", returned)
    if strict:
        _check_dependent(outs, _CONSTANT_OUTPUT)
    return many, outs


def _number(name: str, many: bool, outs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    if many:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single element"
        )
    return outs


def _vector(
    name: str, v: Any, like: tuple[Tensor, ...], several: bool, create_graph: bool, where: str
) -> tuple[Tensor, ...] | None:
    """`v`, which must be like these tensors, and may only be missing if they are one number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {where} a single Tensor with a single element."
            )
        return None
    _, found = _tensors(name, "v", v)
    if len(found) != len(like):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(like)} but got {len(found)}."
            if several
            else "The given v should contain a single Tensor."
        )
    for k, (t, model) in enumerate(zip(found, like)):
        if t.shape != model.shape:
            which = f"Entry {k} in " if several else ""
            raise RuntimeError(f"{which}v has invalid size: should be {model.shape} but got {t.shape}.")
    return tuple(_own(t, create_graph) for t in found)


def _check_dependent(tensors: Sequence[Tensor | None], constant: str) -> None:
    """Strict mode's demand of each tensor."""
    for k, t in enumerate(tensors):
        if t is None:
            raise RuntimeError(_NO_OUTPUT.format(k))
        if not requires(t):
            raise RuntimeError(constant.format(k))


def _filled(
    found: Sequence[Tensor | None],
    like: tuple[Tensor, ...],
    strict: bool,
    create_graph: bool,
    missing: str,
    what: str,
) -> tuple[Tensor, ...]:
    """Zeros for what is missing; in strict mode a refusal, also of what the graph to be created would not reach."""
    if strict:
        for k, g in enumerate(found):
            if g is None:
                raise RuntimeError(missing.format(k))
            if create_graph and not requires(g):
                raise RuntimeError(_CONSTANT.format(what, k))
    return tuple(zeros_like(t) if g is None else g for g, t in zip(found, like))


def _finished(tensors: tuple[Tensor, ...], several: bool, create_graph: bool) -> Any:
    found = tensors if create_graph else tuple(t.detach() for t in tensors)
    return found if several else found[0]


# ---------------------------------------------------------------- PyTorch's words

_STRATEGIES = ("forward-mode", "reverse-mode")
_STRATEGY = 'Expected strategy to be either "forward-mode" or "reverse-mode".'
_ONLY_VECTORIZED = "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`."
_NOT_TOGETHER = (
    'torch.autograd.functional.jacobian: `{}` and `strategy="forward-mode"` are not supported together (yet). Please either set `{}` '
    'or `strategy="reverse-mode"`.'
)
_ONE_INPUT = "input to the user-provided function is"
_NOT_ALLOWED = " This is not allowed in strict mode."
_CONSTANT = (
    "The {} of the user-provided function is independent of input {}. This is not allowed in strict mode when "
    "create_graph=True."
)
_CONSTANT_OUTPUT = (
    "Output {} of the user-provided function does not require gradients. The outputs must be computed in a differentiable "
    "manner from the input when running in strict mode."
)
_CONSTANT_GRADIENT = (
    "The gradient with respect to input {} is independent of the inputs of the user-provided function."
    + _NOT_ALLOWED
)
_CONSTANT_JACOBIAN = (
    "While computing the hessian, found that the jacobian of the user-provided function with respect to input {} is "
    "independent of the input. This is not allowed in strict mode. You should ensure that your function is twice "
    "differentiable and that the jacobian depends on the inputs (this would be violated by a linear function for example)."
)
_NO_OUTPUT = "The output of the user-provided function is independent of input {}." + _NOT_ALLOWED
_NO_JACOBIAN = "The jacobian of the user-provided function is independent of input {}." + _NOT_ALLOWED
_NO_ENTRY = (
    "The gradient with respect to the input is independent of entry {} in the grad_outputs when using the double backward "
    "trick to compute forward mode gradients." + _NOT_ALLOWED
)
_NO_HESSIAN_ENTRY = (
    "The hessian of the user-provided function is independent of entry {} in the grad_jacobian. This is not allowed in "
    "strict mode as it prevents from using the double backward trick to replace forward mode AD."
)
