"""How a stanza becomes a user's function, method and in-place method.

Promises the op files that naming an op once is enough, and users that `torch.f(x)`, `x.f()` and `x.f_()` are the same op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import Parameter, Signature, signature
from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.op import ElementwiseOp
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import elementwise_function, usually_writes
from nbgrad.dispatch.elementwise import inplace as write
from nbgrad.history.rules import ENDS, know_body


def stanza(
    function: Callable[..., Any] | None = None,
    /,
    *,
    vjp: Callable[..., Any] | None = None,
    promote: str = "same",
    node: str | None = None,
    name: str | None = None,
    logical: tuple[str, ...] = (),
    check: Callable[..., None] | None = None,
    kernel: Callable[..., None] | None = None,
    integers: Callable[..., None] | None = None,
    settings: tuple[str, ...] = (),
    fits: tuple[str, ...] = (),
    rounds: tuple[str, ...] = (),
    opmath: bool = False,
    exact: str | None = None,
    number_node: str | None = None,
    tensors: tuple[str, ...] = (),
    refuses: str | None = None,
    lacks: dict[str, str] | None = None,
    unmoved: str | None = None,
    constant: bool = False,
    method: bool = True,
    inplace: bool = True,
    shared: bool = True,
    backward_op: bool = False,
) -> Any:
    """A stanza of nbgrad's own: the op of a scalar function, as function, method and in-place method. `elementwise` says what
    a body and a `vjp` are; the rest are PyTorch's particulars: `lacks` names the gradients that PyTorch refuses, by input, `unmoved` an
    op that PyTorch has no tangent for, and a `constant` has no history. With `backward_op` PyTorch's gradient is one op, which has a
    gradient in all that it reads, where a choice among others would end the graph at what only its conditions read."""

    def make(body: Callable[..., Any]) -> Callable[..., Tensor]:
        op = ElementwiseOp(name or _plain_name(body), body, vjp, promote, node, logical=logical)
        op.check, op.kernel, op.settings, op.exact, op.number_node = (
            check,
            kernel,
            settings,
            exact,
            number_node,
        )
        op.fits, op.rounds, op.opmath, op.integers = fits, rounds, opmath, integers
        op.tensors, op.refuses, op.lacks = tensors or op.tensors, refuses, lacks or {}
        op.unmoved = unmoved
        op.flat = frozenset(op.params if constant else ())
        f = elementwise_function(op)
        f.__name__ = f.__qualname__ = op.name
        f.__doc__, f.__module__ = body.__doc__, body.__module__
        f.op = op  # type: ignore[attr-defined]
        f.__signature__ = _shown(tuple(op.params))  # type: ignore[attr-defined]
        if method:
            attach(f, op, inplace)
        if shared:
            know_body(op, f)
        if backward_op:
            assert vjp is not None
            gradient = _gradient_op(op, vjp)
            know_body(gradient, elementwise_function(gradient))
        return f

    return make if function is None else make(function)


@cached(None)
def _shown(params: tuple[str, ...], out: bool = True) -> Signature:
    """What `help` shows: the function has further parameters, for names and places that a call may use by PyTorch's other rules."""
    operands = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in params]
    return Signature([*operands, Parameter("out", Parameter.KEYWORD_ONLY, default=None)] if out else operands)


def _plain_name(body: Callable[..., Any]) -> str:
    """What the function is called, as a name for its kernels; one without a name is called `unnamed`."""
    given = body.__name__.strip("_")
    return given if given.isidentifier() else "unnamed"


def elementwise(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    vjp: Callable[..., Any] | None = None,
    promote: str = "same",
) -> Any:
    """Make an op of a scalar function: differentiable to any order, vectorised, threaded, one kernel.

    The body is plain Python on numbers, traced once; nbgrad's own elementwise functions may be called in it, and a choice is `where`.
    Its gradients are derived from it, or from `vjp`, a function of `g`, inputs and `y` (the output) that returns them, one for each
    input, None for none. What the gradients read is what is saved. Inputs may be tensors or numbers. `promote` is "same" (computes
    in the inputs' common dtype) or "float" (integers are taken to the default float dtype).

    >>> import nbgrad
    >>> @nbgrad.elementwise
    ... def witch(x, a): return a**3 / (x * x + a * a)
    >>> witch(nbgrad.ones(2), 1.0)
    tensor([0.5000, 0.5000])
    """
    return stanza(function, name=name, vjp=vjp, promote=promote, method=False, shared=False)


def _gradient_op(op: ElementwiseOp, vjp: Callable[..., Any]) -> ElementwiseOp:
    """The gradient of the first input as an op."""
    names = list(signature(vjp).parameters)

    def body(*args: Any) -> Any:
        by_name = dict(zip(sorted(names), args))
        found = vjp(*(by_name[n] for n in names))
        return found[0] if isinstance(found, tuple) else found

    parameters = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD) for n in sorted(names)]
    body.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    node = ENDS.get(op.node_name.removesuffix("Backward0")) or f"{op.node_name.removesuffix('0')}Backward0"
    return ElementwiseOp(f"{op.name}_backward", body, node_name=node)


def attach(f: Callable[..., Any], op: ElementwiseOp, in_place_too: bool = True) -> None:
    setattr(Tensor, op.name, f)
    if not in_place_too:
        return

    def in_place(self: Tensor, *args: Any) -> Tensor:
        if len(op.params) == 1 and args:
            raise TypeError(f"Tensor.{op.name}_() takes no arguments ({len(args)} given)")
        for k, (name, a) in enumerate(zip(op.params[1:], args), 1):
            if name in op.tensors and not isinstance(a, Tensor):
                kind = type(a).__name__
                raise TypeError(f"{op.name}_(): argument '{name}' (position {k}) must be Tensor, not {kind}")
        return write(op, (self, *args))

    in_place.__name__ = in_place.__qualname__ = op.name + "_"
    in_place.__doc__ = words_in_place(f)
    in_place.__signature__ = _shown(tuple(op.params), out=False)  # type: ignore[attr-defined]
    setattr(Tensor, op.name + "_", usually_writes(op)(in_place))


def words_in_place(function: Callable[..., Any]) -> str:
    """What a form in place says: the words of its function stand once."""
    return f"`{function.__name__.removeprefix('_t_')}` in place: the tensor itself becomes the result.\n\n    {function.__doc__ or ''}"


def in_place_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that writes in place say what the one that does not says."""

    def say(form: Callable[..., Any]) -> Callable[..., Any]:
        form.__doc__ = words_in_place(function)
        return form

    return say


def in_place_functions(names: Sequence[str]) -> dict[str, Callable[..., Any]]:
    """`torch.exp_` is `Tensor.exp_`: those of the names that PyTorch also has as functions, for a module's globals."""
    return {f"{name}_": getattr(Tensor, f"{name}_") for name in names}


SAME = "Found dtype {got} but expected {want}"  # PyTorch's word on an `out` where it casts nothing


def refuse(
    kernel: str, *, floats: bool = False, ints: bool = False, bools: bool = False, complexes: bool = False
) -> Any:
    """A check that refuses categories of dtypes in the words of PyTorch's kernel of that name."""

    def check(compute: Any, operands: Any) -> None:
        if (bools, ints, floats, complexes)[compute.category]:
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{compute.scalar_name}'")

    return check


def no_tensor(name: str, first: Any, second: Any, names: tuple[str, str] = ("x", "n")) -> TypeError:
    """The refusal of two numbers, of which either one may be a number."""
    got = f"{type(first).__name__}, {type(second).__name__}"
    forms = [("Tensor", "Tensor"), ("Number", "Tensor"), ("Tensor", "Number")]
    listed = [
        f" * ({a} {'self' if a == 'Number' and names[0] == 'input' else names[0]}, {b} {names[1]}, *, Tensor out = None)\n"
        for a, b in forms
    ]
    return TypeError(
        f"{name}() received an invalid combination of arguments - got ({got}), but expected one of:\n{''.join(listed)}"
    )


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Also make a function, under its own name, a method of Tensor. One without words says what the method that it takes the place of
    says, or a form in place what the method without `_` says."""
    name = function.__name__.removeprefix("_t_")
    if not function.__doc__ and (said := vars(Tensor).get(name.removesuffix("_"))):
        function.__doc__ = words_in_place(said) if name[-1] == "_" else said.__doc__
    setattr(Tensor, name, function)
    return function


def method_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, where the function takes an `out` beside its operand and the method nothing."""

    def alone(self: Tensor, *args: Any, **named: Any) -> Any:
        if args or named:
            what = "keyword arguments" if named else f"arguments ({len(args)} given)"
            raise TypeError(f"TensorBase.{function.__name__}() takes no {what}")
        return function(self)

    alone.__name__ = alone.__qualname__ = function.__name__
    alone.__doc__ = function.__doc__
    setattr(Tensor, function.__name__, alone)
    return function
