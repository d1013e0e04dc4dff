"""How a stanza becomes a user's function, method and in-place method.

Promises the op files that naming an op once is enough, and users that `torch.f(x)`, `x.f()` and `x.f_()` are the same op.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad._dispatch import elementwise_function, inplace
from nbgrad._op import ElementwiseOp
from nbgrad._record import know_body
from nbgrad._tensor import Tensor


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
    settings: tuple[str, ...] = (),
    fits: tuple[str, ...] = (),
    opmath: bool = False,
    exact: str | None = None,
    number_node: str | None = None,
    tensors: tuple[str, ...] = (),
    refuses: str | None = None,
    method: bool = True,
    shared: bool = True,
) -> Any:
    """A stanza of nbgrad's own: the op of a scalar function, as function, method and in-place method. `elementwise` says what
    a body and a `vjp` are; the rest are PyTorch's particulars."""

    def make(body: Callable[..., Any]) -> Callable[..., Tensor]:
        op = ElementwiseOp(name or body.__name__.strip("_"), body, vjp, promote, node, logical=logical)
        op.check, op.kernel, op.settings, op.exact, op.number_node = (
            check,
            kernel,
            settings,
            exact,
            number_node,
        )
        op.fits, op.opmath = fits, opmath
        op.tensors, op.refuses = tensors or op.tensors, refuses
        f = elementwise_function(op)
        f.__name__ = f.__qualname__ = op.name
        f.__doc__ = body.__doc__
        f.op = op  # type: ignore[attr-defined]
        if method:
            attach(f, op)
        if shared:
            know_body(op, f)
        return f

    return make if function is None else make(function)


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


def attach(f: Callable[..., Any], op: ElementwiseOp) -> None:
    setattr(Tensor, op.name, f)

    def in_place(self: Tensor, *args: Any) -> Tensor:
        return inplace(op, (self, *args))

    in_place.__name__ = in_place.__qualname__ = op.name + "_"
    setattr(Tensor, op.name + "_", in_place)


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Also make a function, under its own name, a method of Tensor."""
    setattr(Tensor, function.__name__.removeprefix("_t_"), function)
    return function
