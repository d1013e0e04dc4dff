"""`backward` and `grad`: what a user may ask of the engine, checked and worded as PyTorch does.

Promises that a call with wrong arguments has computed, freed and accumulated nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from nbgrad.autograd.graph import GradientEdge
from nbgrad.base.tables import Table
from nbgrad.base.warn import warn_once
from nbgrad.core.overrides import answered_elsewhere, elsewhere
from nbgrad.core.tensor import Tensor, edge, requires, wrap
from nbgrad.dispatch.transforms import mapped, put_in, take_out
from nbgrad.history.backward import run_backward
from nbgrad.memory.storage import Spec
from nbgrad.ops.views.copy import full, moved, zeros
from nbgrad.tape.engine import Wanted
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import Node

__all__ = ["backward", "grad"]

if TYPE_CHECKING:
    Roots: TypeAlias = Tensor | GradientEdge | Sequence[Tensor] | Sequence[GradientEdge]
    Weights: TypeAlias = Tensor | Sequence[Tensor | None] | None
    Key = TypeVar("Key")

_CYCLE = (
    "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can "
    "cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
    "function, make sure to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak."
)


def backward(
    tensors: Roots,
    grad_tensors: Weights = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add to the `grad` of leaves (of `inputs`, if given) the gradients of `tensors`, each times its `grad_tensors`, which may be
    left out for single numbers. The graph is freed unless `retain_graph`; with `create_graph` the gradients can be differentiated.

    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.backward([x * x, 2 * x])
    >>> x.grad
    tensor(8.)
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    _backward(tensors, grad_tensors, retain_graph, create_graph, inputs)


def _backward(tensors: Any, grad_tensors: Any, retain_graph: Any, create_graph: Any, inputs: Any) -> None:
    if elsewhere:
        named = dict(retain_graph=retain_graph, create_graph=create_graph, inputs=inputs)
        again = answered_elsewhere("backward", (tensors, grad_tensors), named)
        if again is not None:
            again()
            return
    targets = None if inputs is None else _inputs(inputs, "backward")
    _run(_several(tensors), grad_tensors, retain_graph, create_graph, targets)


def tensor_backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add to the `grad` of the graph's leaves (of `inputs`, if given) the gradient of this tensor, which must be one number unless
    `gradient` says by what its elements are weighted. The graph is freed unless it is retained; with `create_graph` the gradients can
    be differentiated.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).backward(torch.tensor([1.0, 10.0]))
    >>> x.grad
    tensor([ 2., 40.])
    """
    if inputs is None and not create_graph and not shared.rare:
        roots = _usual_root(self, gradient)
        if roots is not None:
            run_backward(roots, bool(retain_graph), False)
            return
    _backward((self,), gradient, retain_graph, create_graph, inputs)


Tensor.backward = tensor_backward  # type: ignore[assignment, method-assign]


def _usual_root(t: Tensor, gradient: Any) -> list[tuple[Node, int, Any]] | None:
    """Where the usual call starts: at one number, or with a gradient that lies as the tensor does. None for all that has to be
    looked at, or refused."""
    sp = t._spec
    if gradient is None and sp.numel == 1 and sp.dtype.is_floating_point:
        gradient = _one(sp)
    if type(gradient) is Tensor and gradient._spec is sp:
        node, number = edge(t)
        if node is not None:
            return [(node, number, gradient)]
    return None


def _check_flags(*flags: Any) -> None:
    """PyTorch's engine takes what C counts as a number."""
    for flag in flags:
        if flag is not False and flag is not True:
            index(flag)


def _run(outputs: Sequence[Any], grads: Any, retain: Any, create: bool, targets: Any) -> None:
    if state.levels or state.transforms:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead "
            "or call backward() outside of functorch transforms."
        )
    made = _make_grads(outputs, grads, len(outputs))
    _check_flags(create if retain is None else retain, create)
    roots = _roots(outputs, made)
    if create:
        warn_once(_CYCLE)
    wanted: Wanted | None = None
    if targets is not None:
        wanted = {}
        for t in targets:
            if isinstance(t, Tensor):
                t.retain_grad()
            node, number = _target(t)
            if node is not None:
                wanted.setdefault(node, {})[number] = None
    run_backward(roots, create if retain is None else retain, create, wanted)


@overload
def grad(
    outputs: Roots,
    inputs: Roots,
    grad_outputs: Weights = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...
@overload
def grad(
    outputs: Roots,
    inputs: dict[Key, Tensor],
    grad_outputs: Weights = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> dict[Key, Tensor]: ...
def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of `outputs` (times `grad_outputs`) with respect to `inputs`, a tuple; no `grad` is touched. An input that the
    outputs do not depend on is refused, gives None with `allow_unused`, or zeros with `materialize_grads`. With `create_graph` the
    result can be differentiated itself; with `is_grads_batched` the first dimension of `grad_outputs` counts several at once.

    >>> x = torch.tensor(2.0, requires_grad=True)
    >>> (first,) = torch.autograd.grad(x**3, x, create_graph=True)
    >>> torch.autograd.grad(first, x)
    (tensor(12.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    outputs = _several(outputs)
    targets = _inputs(inputs, "grad")
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts "
            "of the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    unused_too = materialize_grads if allow_unused is None else allow_unused
    keep = create_graph if retain_graph is None else retain_graph
    _check_flags(keep, create_graph, unused_too)
    roots = None
    try:
        if len(outputs) == 1 and type(outputs[0]) is Tensor and not is_grads_batched:
            roots = _usual_root(outputs[0], grad_outputs)
        if roots is None:
            grads = _make_grads(outputs, grad_outputs, len(outputs), is_grads_batched)
            if not is_grads_batched:
                roots = _roots(outputs, grads)
        if roots is None:
            found = _batched(outputs, targets, grads, keep, create_graph, unused_too)
        else:
            found = _gradients(roots, targets, keep, create_graph, unused_too)
    except RuntimeError:  # of sparse tensors, before anything has run
        named = dict(retain_graph=retain_graph, create_graph=create_graph, allow_unused=unused_too)
        again = answered_elsewhere("grad", (outputs, inputs, grad_outputs), named) if elsewhere else None
        if again is None:
            raise
        return again()
    if materialize_grads:
        if any(g is None and not isinstance(t, Tensor) for g, t in zip(found, targets)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        found = [_zeros(t, create_graph) if g is None else g for g, t in zip(found, targets)]
    return dict(zip(inputs, found)) if type(inputs) is dict else tuple(found)


def _gradients(
    roots: Any, targets: Sequence[Any], keep: bool, graph: bool, unused_too: bool
) -> list[Tensor | None]:
    found: dict[Any, Tensor | None] = {}
    wanted: Wanted = {}
    places = []
    for t in targets:
        node, number = place = _target(t)
        places.append(place)
        if node is not None:
            wanted.setdefault(node, {})[number] = partial(found.__setitem__, place)
        elif not requires(t):
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    run_backward(roots, keep, graph, wanted)
    gradients = [found.get(place) for place in places]
    for k, gradient in enumerate(() if unused_too else gradients):
        if gradient is None:
            raise RuntimeError(
                f"The differentiated Tensor at index {k} appears to not have been used in the graph. Set allow_unused=True if "
                "this is the desired behavior."
            )
    return gradients


def _batched(
    outputs: Sequence[Any],
    targets: Sequence[Any],
    grads: Sequence[Any],
    keep: bool,
    graph: bool,
    unused_too: bool,
) -> list[Any]:
    """All products at once: the first dimension of each gradient counts them."""
    sizes = {g.shape[0] for g in grads if g is not None}
    count = max(sizes, default=0)
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}"
        )
    with mapped(count, "error") as level:
        each = [None if g is None else put_in(g, 0, level) for g in grads]
        found = _gradients(_roots(outputs, each), targets, keep, graph, unused_too)
        return [None if g is None else take_out(g, 0, level) for g in found]


# ---------------------------------------------------------------- arguments


def _several(tensors: Any) -> tuple[Any, ...]:
    return (tensors,) if isinstance(tensors, (Tensor, GradientEdge)) else tuple(tensors)


def _inputs(inputs: Any, name: str) -> tuple[Any, ...]:
    if type(inputs) is dict:
        found = tuple(inputs.values())
    elif type(inputs) not in (Tensor, tuple, list) and isinstance(inputs, Mapping):
        raise TypeError(
            f"`inputs` argument to `{name}()` must be a dict, not {type(inputs).__name__}. Other Mapping types are not supported."
        )
    else:
        found = _several(inputs)
    if not found:
        raise RuntimeError(f"`inputs` argument to `{name}()` cannot be empty.")
    for t in found:
        if not isinstance(t, Tensor) and not isinstance(t, GradientEdge):
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(t).__name__}")
    return found


def _target(t: Any) -> tuple[Node | None, int]:
    return edge(t) if isinstance(t, Tensor) else (t.node, t.output_nr)


def _zeros(t: Tensor, requires_grad: bool) -> Tensor:
    return zeros(t._spec.dense()).requires_grad_(requires_grad)


def _make_grads(outputs: Sequence[Any], grads: Any, count: int, batched: bool = False) -> list[Tensor | None]:
    """The gradient that each output starts with: the one given, checked, or 1 for a number."""
    if grads is None:
        given: tuple[Any, ...] = (None,) * count
    else:
        given = (grads,) if isinstance(grads, Tensor) else tuple(grads)
    made: list[Tensor | None] = []
    for k, (out, g) in enumerate(zip(outputs, given)):
        if not isinstance(out, (Tensor, GradientEdge)):
            raise AssertionError("Expected output to be a torch.Tensor")
        known = out._spec if isinstance(out, Tensor) else out.node.rule.layouts(out.node)[out.output_nr]
        if isinstance(g, Tensor):
            if batched and isinstance(out, GradientEdge):
                raise RuntimeError("Batched grads are not supported with GradientEdge")
            if known is not None:
                _check_shape(k, known, g, batched)
                _check_kind(k, known, g)
            made.append(g)
        elif g is not None:
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        elif isinstance(out, Tensor) and not requires(out):
            made.append(None)
        else:
            made.append(_one(known))
    return made


def _check_shape(k: int, known: Spec, g: Tensor, batched: bool) -> None:
    shape = g.shape[1:] if batched else g.shape
    if shape == known.shape:
        return
    mismatch = f"grad_output[{k}] has a shape of {g.shape if not batched else g.shape[2:]} and output[{k}] has a shape of {known.shape}."
    if batched:
        raise RuntimeError(
            "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch dimension. The sizes "
            "of the remaining dimensions are expected to match the shape of corresponding output, but a mismatch was detected: "
            f"{mismatch} If you only want some tensors in `grad_output` to be considered batched, consider using vmap."
        )
    raise RuntimeError(f"Mismatch in shape: {mismatch}")


def _check_kind(k: int, known: Spec, g: Tensor) -> None:
    if g.dtype.is_complex is not known.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{k}] has a dtype of {g.dtype} and output[{k}] has a dtype of {known.dtype}."
        )


_ones: Table[Spec, Any] = Table("autograd._run.ones", 256)  # their bytes
_one_of = _ones.get


def _one(known: Spec | None) -> Tensor:
    if known is None or known.numel != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not known.dtype.is_floating_point:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {known.dtype}"
        )
    template = _one_of(known)
    if template is None:
        template = _ones.keep(known, full(known.dense(), 1)._buf)
    return wrap(template.copy(), known.dense())


def _roots(outputs: Sequence[Any], grads: Sequence[Tensor | None]) -> list[tuple[Node, int, Any]]:
    if len(outputs) != len(grads):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    roots = []
    for k, (out, g) in enumerate(zip(outputs, grads)):
        node, number = _target(out)
        if node is None:
            raise RuntimeError(f"element {k} of tensors does not require grad and does not have a grad_fn")
        known = out._spec if isinstance(out, Tensor) else node.rule.layouts(node)[number]
        if g is not None and known is not None:
            if g._spec.device is not known.device and g.ndim:
                raise RuntimeError(
                    f"invalid gradient at index {k} - expected device {known.device} but got {g.device}"
                )
            g = moved(g, known.dtype, known.device)
        roots.append((node, number, g))
    return roots
