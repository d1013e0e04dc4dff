"""The record of an op: its name, what one call computes, and the rules of its gradient.

Promises the dispatcher that everything about an op that does not depend on operands is here and worked out once: for an
elementwise op the traced body, the gradient's expression for each input and what each reads; for any other op its forward function
and, per input, a rule whose parameter names say what it reads. Nothing is traced before the first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbgrad.base.parameters import parameters, required, variadic
from nbgrad.base.tables import DEFAULT_DTYPE, PLANS, Table
from nbgrad.expr import diff, node
from nbgrad.expr.making import LOCK, uninterrupted
from nbgrad.expr.node import Expr
from nbgrad.expr.parts import REAL_VALUED

LINEAR = "linear"  # in all its inputs together: the tangent is the op of the tangents
PRODUCT = "product"  # linear in each: the tangent is a sum of the op with one input's tangent in its place
OUT = "y"  # the name by which a rule reads the op's own output
GRAD = "g"
PUBLIC = {
    "input": "self",
    OUT: "result",
    "dims": "dim",
    "times": "repeats",
}  # PyTorch's names of what a rule reads, where it has others
NO_TANGENT = (
    "Trying to use forward AD with {} that does not support it because it has not been implemented yet.\nPlease file an issue to "
    "PyTorch at https://github.com/pytorch/pytorch/issues/new?template=feature-request.yml so that we can prioritize its "
    "implementation or submit a PR adding the implementation to derivatives.yaml"
)


class _Once:
    """An attribute that is computed when it is first asked for. Python 3.11's own holds a lock meanwhile, one for all instances, which
    a thread that holds `LOCK` would wait for."""

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self.compute = compute

    def __get__(self, owner: Any, _: type) -> Any:
        if owner is None:
            return self
        return vars(owner).setdefault(self.compute.__name__, self.compute(owner))


class ElementwiseOp:
    """An op of one scalar function. `promote` says in which dtype it computes and what it gives: "same" (the operands' common
    dtype), "float" (integers go to the default float), "complex" (real numbers go on to complex ones of such parts), "compare"
    (computes in the common dtype, gives bool), "bool"."""

    def __init__(
        self,
        name: str,
        body: Callable[..., Any] | Expr,
        rule: Callable[..., Any] | None = None,
        promote: str = "same",
        node_name: str | None = None,
        params: tuple[str, ...] | None = None,
        logical: tuple[str, ...] = (),
    ) -> None:
        self.name, self._body, self.rule, self.promote, self.logical = name, body, rule, promote, logical
        self.node_name = node_name or "".join(w.capitalize() for w in name.split("_")) + "Backward0"
        given = params if params is not None else parameters(body)  # type: ignore[arg-type]
        if rule is not None and OUT in given:
            raise ValueError(
                f"elementwise: {name}() declares a vjp and has an input called {OUT!r}, which in a vjp is the output: rename it"
            )
        # A function of x and y is what users write; to its gradient `g` and `y` mean the gradient and the output.
        self.params = tuple(f"{p}_" if p in (GRAD, OUT) else p for p in given)
        self._given = given
        # Both refuse, given the computing dtype and the operands: before anything else, and last, as PyTorch's kernels do.
        self.check: Callable[..., None] | None = None
        self.kernel: Callable[..., None] | None = None
        self.integers: Callable[..., None] | None = (
            None  # refuses, at each call that computes integers, by their values
        )
        self.settings: tuple[str, ...] = ()  # the numbers that do not decide the dtype
        self.fits: tuple[
            str, ...
        ] = ()  # the numbers that are refused if the dtype cannot hold them; others wrap
        self.rounds: tuple[str, ...] = ()  # of the settings, those that are rounded to a narrow dtype first
        self.opmath = False  # so is no second operand that is but one number
        self.exact: str | None = (
            None  # the words that refuse an `out` of another dtype than the result's; None: it is cast
        )
        self.number_node: str | None = (
            None  # what shows as grad_fn where a number is among the operands, if something else
        )
        self.refuses: str | None = None  # PyTorch's name of an op that it has no derivative for
        self.lacks: dict[str, str] = {}  # by input, PyTorch's name of a gradient that it does not have
        self.unmoved: str | None = None  # PyTorch's name of an op that it has no tangent for
        self.public = PUBLIC
        self.shown: dict[str, Any] = {}  # what else PyTorch's node keeps, by its name
        self.flat: frozenset[str] = frozenset()  # inputs that only comparisons read: the graph ends there
        self.dense = False  # its results lie as new tensors do, however the operands lie
        self.tensors: tuple[str, ...] = (
            self.params if len(self.params) == 1 else ()
        )  # the inputs for which no number will do
        self.plans: Table[Any, Any] = Table("core.op.plans", PLANS, DEFAULT_DTYPE)
        self.function: Callable[..., Any]  # what users call, once it is made
        self._derived: dict[Any, Any] = {}  # the ops of its gradients and tangents, as they are asked for
        self._reads: dict[Any, tuple[str, ...]] = {}  # by the inputs that want a gradient

    @_Once
    def body(self) -> Expr:
        if isinstance(self._body, Expr):
            return self._body
        traced = node.trace(self._body, bools=self.logical)[1]
        renamed = {a: node.var(b) for a, b in zip(self._given, self.params) if a != b}
        return node.substitute(traced, renamed) if renamed else traced

    @_Once
    def real_valued(self) -> bool:
        """Whether it gives real numbers of complex ones."""
        return self.body.prim is not None and self.body.prim.name in REAL_VALUED

    @_Once
    def partials(self) -> dict[str, Any]:
        """Per input: the gradient it gets, an Expr of `g`, inputs and `y`; ZERO where there is none."""
        return self._partials(False)

    @_Once
    def complex_partials(self) -> dict[str, Any]:
        """The same of complex numbers."""
        return self._partials(True)

    def partials_of(self, compute: Any) -> dict[str, Any]:
        """Those of a computation in that dtype."""
        found: dict[str, Any] = self.complex_partials if compute.is_complex else self.partials
        return found

    def _partials(self, conjugated: bool) -> dict[str, Any]:
        wrt = [p for p in self.params if p not in self.logical]
        if node.is_bool(self.body):
            return dict.fromkeys(self.params, diff.ZERO)
        inputs = wrt if self.rule else None
        with uninterrupted(), LOCK:
            found = diff.vjp(self.body, wrt, GRAD, OUT, self.rule, inputs, conjugated)
        return {p: found.get(p, diff.ZERO) for p in self.params}

    def check_derivative(self, mask: tuple[bool, ...]) -> None:
        if self.refuses is not None:
            raise RuntimeError(f"derivative for {self.refuses} is not implemented")
        for name, wanted in zip(self.params, mask):
            if wanted and name in self.lacks:
                raise NotImplementedError(f"the derivative for '{self.lacks[name]}' is not implemented.")

    def check_tangent(self) -> None:
        if self.refuses is not None:
            raise NotImplementedError(
                f"Trying to use forward AD with {self.refuses} that does not support it."
            )
        if self.unmoved is not None:
            raise NotImplementedError(NO_TANGENT.format(self.unmoved))

    def tangent(self, given: tuple[str, ...], conjugated: bool = False) -> Any:
        """The tangent of the output, an Expr of the inputs and, for those that are `given` one, of their tangents `t_<input>`."""
        if node.is_bool(self.body):
            return diff.ZERO
        wrt = [p for p in self.params if p not in self.logical]
        moving = [p for p in given if p in wrt]
        return diff.tangent(
            self.body,
            moving,
            [f"t_{p}" for p in moving],
            self.rule,
            wrt if self.rule else None,
            conjugated,
        )

    def reads(self, wanted: tuple[str, ...], conjugated: bool = False) -> tuple[str, ...]:
        """The values, by name, that the gradients of the wanted inputs are made of: what must be saved."""
        found = self._reads.get((wanted, conjugated))
        if found is None:
            partials = self.complex_partials if conjugated else self.partials
            names = node.free_vars(*(partials[p] for p in wanted if partials[p] is not diff.ZERO))
            found = self._reads[wanted, conjugated] = tuple(n for n in (*self.params, OUT) if n in names)
        return found

    def __repr__(self) -> str:
        return f"<elementwise op {self.name}({', '.join(self.params)}): {self.body}>"


class Op:
    """Any other op: `forward(*tensors, **static)` on tensors without history, and rules by input name.

    A rule's parameters say what it reads: `g` (the gradient; a list where the op has several outputs), an input's name (saved), `y`
    or `y0`, `y1` (a saved output), `<input>_spec` (how an input is laid out, which costs nothing), or a static argument.
    Rules are written for real numbers. Of complex ones those hold of an op that is `holomorphic` all the same, as it is unless it says
    otherwise: on the conjugate of `g` they give the conjugates of the gradients.

    The key `all` in place of inputs' names holds one rule for all inputs, which also may ask for `wanted`. A rule that asks for `own`
    is told whether nobody else has the gradient's memory, so that a result may take it.

    With `statistics`, results after the first are what rules read and nobody else: they have no history, and `g` is the first one's.
    With `views` a result shows the input's memory. `unmoved` is PyTorch's name of an op that it has no tangent for, `untrained` its
    name and that of an input that may not want a gradient.

    `tangent` is the rule of forward mode: LINEAR, PRODUCT, or a function that reads `t` (the tangent of the only input) or
    `<input>_t` (None where there is none) and what other rules read. `batch` is vmap's: given, for a single input, the tensor of all
    examples (along its first dimension) and the static arguments, for several inputs first a tuple saying which have that dimension,
    it gives the results of all examples, along their first dimension, or NotImplemented; without it each example is computed by itself.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        rules: dict[str, Callable[..., Any]],
        node_name: str,
        tangent: Callable[..., Any] | str | None = None,
        batch: Callable[..., Any] | None = None,
        statistics: bool = False,
        views: bool = False,
        unmoved: str | None = None,
        untrained: tuple[str, str] | None = None,
        holomorphic: bool = True,
    ) -> None:
        self.forward, self.rules, self.node_name, self.unmoved = forward, rules, node_name, unmoved
        self.untrained = untrained
        self.function: Callable[..., Any] | None = None  # of tensors and static arguments, once it is made
        self.shapes = (
            False  # a result is its input, which nobody else has, in another shape: no view to users
        )
        self.holomorphic = holomorphic
        self.tangent, self.batch, self.statistics, self.views = tangent, batch, statistics, views
        self.tangent_reads = parameters(tangent) if callable(tangent) else ()
        self.name = forward.__name__.strip("_")
        self.inputs, self.variadic = required(forward), variadic(forward)
        self.rules_of: Table[Any, Any] = Table(
            "core.op.rules_of", PLANS
        )  # by the inputs that want a gradient, and those that are there
        self.recorders: Table[int, Callable[..., None]] = Table("core.op.recorders", PLANS)
        self.again: Callable[..., Any] | None = (
            None  # what a vmap calls in the op's place on what it has taken itself off
        )
        self.part: Any = None  # of a view of a part: where in a gradient of the input that of the view goes
        self.held: tuple[
            str, ...
        ] = ()  # static arguments that PyTorch saves as tensors: gone when the node has run
        self.places: dict[
            str, Callable[[Any], Any]
        ] = {}  # by PyTorch's name: the index tensors that a place stands for
        self.turned: str | None = None  # the input whose transpose PyTorch saves
        self.public = PUBLIC
        self.shown: dict[str, Any] = {}  # as in ElementwiseOp, or a function of the static arguments
        self.reads = {k: parameters(rule) for k, rule in rules.items()}

    def check_tangent(self) -> None:
        if self.unmoved is not None:
            raise NotImplementedError(NO_TANGENT.format(self.unmoved))

    def __repr__(self) -> str:
        return f"<op {self.name}({', '.join(self.inputs)})>"
