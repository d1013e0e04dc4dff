"""Derivatives of expressions are expressions: the reverse sweep (`vjp`) and the forward one (`tangent`).

Both visit each distinct node once, so a derivative is linear in the size of the DAG. A gradient that is zero
everywhere is the symbol ZERO, never an expression. The choice in `where` stays a choice: a cotangent
remembers the branches that it passed, and what a branch that was not taken contributes is left out by a
select at the end. So an infinite derivative in a branch that was not taken (exp's, in softplus beyond its
threshold) does no harm, where a product with 0 would give NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from nbgrad.base.records import NamedTuple

from . import parts
from .node import PRIMS, Expr, Operand, Var, as_expr, free_vars, parameters, postorder, substitute, var
from .simplify import is_number


class Zero:
    """The gradient that is zero everywhere. There is one, `ZERO`; compare with `is`."""

    _only: Zero | None = None

    def __new__(cls) -> Zero:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __reduce__(self) -> tuple[type[Zero], tuple[()]]:
        return Zero, ()

    def __repr__(self) -> str:
        return "ZERO"


ZERO = Zero()

Gradient: TypeAlias = "Expr | Zero"
Rule: TypeAlias = Callable[..., Any]


def vjp(
    body: Expr,
    wrt: Sequence[str],
    g: str = "g",
    out: str = "y",
    rule: Rule | None = None,
    inputs: Sequence[str] | None = None,
    conjugated: bool = False,
) -> dict[str, Gradient]:
    """The cotangent of each variable in `wrt`, for the cotangent `g` of the body.

    The results read `g`, the body's variables and, where the body is a single primitive whose derivative is
    written in its own output, `out`. A declared `rule` wins: a function of parameters named out of g, y and
    the inputs, that returns one gradient or a tuple, one for each of `inputs` (by default `wrt`), with None
    for a zero one. Of complex variables they are `conjugated`; a rule is one of real numbers, which holds of complex ones where it is
    holomorphic.
    """
    taken = free_vars(body) | set(inputs or wrt)
    if g in taken or out in taken or g == out:
        raise ValueError(f"the gradient {g!r} and the output {out!r} must not be called as an input is")
    if rule is not None:
        declared = _declared(body, list(inputs or wrt), g, out, rule)
        if not conjugated:
            return {name: declared.get(name, ZERO) for name in wrt}
        if all(map(parts.holomorphic, [body, *declared.values()])):
            return {n: parts.conjugate(declared[n], g) if n in declared else ZERO for n in wrt}
    swept = _reverse(body, set(wrt), var(g), var(out, body.is_bool), conjugated)
    return {name: swept.get(name, ZERO) for name in wrt}


def tangent(
    body: Expr,
    wrt: Sequence[str],
    t_names: Sequence[str],
    rule: Rule | None = None,
    inputs: Sequence[str] | None = None,
    conjugated: bool = False,
) -> Gradient:
    """The tangent of the body when the variables `wrt` have the tangents `t_names`.

    A declared `rule` (see `vjp`) wins. `conjugated`: of complex variables.
    """
    tangents = dict(zip(wrt, (var(t) for t in t_names), strict=True))
    if rule is not None and not (conjugated and not parts.holomorphic(body)):
        return _rule_tangent(body, tangents, rule, list(inputs or wrt))
    found: dict[Expr, Expr] = {}
    for node in postorder([body]):
        if isinstance(node, Var):
            if node.attr in tangents and not node.is_bool:
                found[node] = tangents[node.attr]
        elif node.prim is PRIMS["where"]:
            c, a, b = node.args
            if not node.is_bool and (a in found or b in found):
                found[node] = _choice(c, found.get(a, as_expr(0)), found.get(b, as_expr(0)))
        elif conjugated and node.prim is not None and node.prim.name in parts.BESIDE:
            if moved := {i: found[a] for i, a in enumerate(node.args) if a in found}:
                found[node] = parts.tangents(node, moved)
        elif node.prim is not None and not node.is_bool:
            terms = [
                _times(found[a], p, node)
                for i, a in enumerate(node.args)
                if a in found and (p := _partial(node, i, node, conjugated)) is not None
            ]
            if terms:
                found[node] = _sum(terms)
    return found.get(body, ZERO)


# --- one primitive ------------------------------------------------------------------------------------------


def _partial(node: Expr, i: int, y: Expr, conjugated: bool = False) -> Expr | None:
    """The derivative of a primitive in its i-th argument, None where that is zero."""
    assert node.prim is not None
    if conjugated and node.prim.name in parts.PARTIALS:
        return parts.PARTIALS[node.prim.name](*node.args)
    if i >= len(node.prim.partials) or node.prim.partials[i] is None:
        return None
    static = () if node.attr is None else (node.attr,)
    p = as_expr(node.prim.partials[i](*node.args, *static, y))
    # A product with a constant 0 is a product still: 0 * inf is NaN. A rule that says 0 (x ** 0) means zero.
    return None if is_number(p, 0) and node.prim is not PRIMS["mul"] else p


def _times(g: Expr, p: Expr, node: Expr) -> Expr:
    """g times the partial p of `node`."""
    if node.prim is PRIMS["mul"]:
        return g * p  # p is the user's other operand, whatever its form
    return _product(g, p)


def _product(g: Expr, p: Expr) -> Expr:
    """g * p as PyTorch's rules write it: g / b for p = 1 / b, and a choice for a choice."""
    if p.prim is PRIMS["where"]:
        c, a, b = p.args
        return _choice(c, _product(g, a), _product(g, b))
    if p.prim is PRIMS["neg"]:
        return -_product(g, p.args[0])
    if p.prim is PRIMS["div"] and is_number(p.args[0], 1):
        return g / p.args[1]
    if is_number(p, 0):  # a branch that passes nothing on, not even NaN
        return p
    return -g if is_number(p, -1) else g * p


def _choice(condition: Expr, a: Expr, b: Expr) -> Expr:
    return PRIMS["where"].build((condition, a, b))


def _sum(terms: Sequence[Expr]) -> Expr:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


# --- the reverse sweep --------------------------------------------------------------------------------------


class _Branch(NamedTuple):
    """A branch of a `where`: the branch that leads to it, the condition, and the side it lies on."""

    before: _Branch | None
    condition: Expr
    side: bool
    depth: int


class _Branches:
    """The branches that one sweep has passed, each once, so that `is` compares them."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Expr, bool], _Branch] = {}
        self._open: dict[int, Expr] = {}

    def enter(self, before: _Branch | None, condition: Expr, side: bool) -> _Branch:
        key = (id(before), condition, side)
        if key not in self._known:
            self._known[key] = _Branch(before, condition, side, 1 if before is None else before.depth + 1)
        return self._known[key]

    def masked(self, branch: _Branch | None, value: Expr, within: _Branch | None = None) -> Expr:
        """`value` where the branch is taken, else 0; as it is in the branch that we stay within."""
        if branch is None or branch is within:
            return value
        if branch.before is None:
            held, left = (value, as_expr(0)) if branch.side else (as_expr(0), value)
            return _choice(branch.condition, held, left)
        return _choice(self._taken(branch), value, as_expr(0))

    def add(
        self, branch: _Branch | None, value: Expr, other: _Branch | None, more: Expr
    ) -> tuple[_Branch | None, Expr]:
        if branch is other:
            return branch, value + more
        if branch and other and branch.before is other.before and branch.condition is other.condition:
            # The two sides of one choice make a whole again.
            held, left = (value, more) if branch.side else (more, value)
            return branch.before, _choice(branch.condition, held, left)
        common = _common(branch, other)
        return common, self.masked(branch, value, common) + self.masked(other, more, common)

    def _taken(self, branch: _Branch) -> Expr:
        """The condition under which a branch is reached: built once per branch, outermost choice first."""
        missing = []
        at: _Branch | None = branch
        while at is not None and id(at) not in self._open:
            missing.append(at)
            at = at.before
        for step in reversed(missing):
            here = step.condition if step.side else PRIMS["logical_not"].build((step.condition,))
            self._open[id(step)] = (
                here
                if step.before is None
                else PRIMS["logical_and"].build((self._open[id(step.before)], here))
            )
        return self._open[id(branch)]


def _common(a: _Branch | None, b: _Branch | None) -> _Branch | None:
    while a is not b:
        if a is None or b is None:
            return None
        if a.depth >= b.depth:
            a, b = a.before, b
        else:
            b = b.before
    return a


def _reverse(body: Expr, wrt: set[str], g: Expr, out: Expr, conjugated: bool = False) -> dict[str, Expr]:
    order = postorder([body])
    active: set[Expr] = set()  # what depends on a wanted variable, smoothly
    for node in order:
        if not node.is_bool and (
            node.attr in wrt if isinstance(node, Var) else any(a in active for a in node.args)
        ):
            active.add(node)
    if body not in active:
        return {}
    # Within a composite, an inner output is simply its own subexpression; the output of a single primitive is
    # saved.
    single = all(a.prim is None for a in body.args)
    branches = _Branches()
    cotangents: dict[Expr, tuple[_Branch | None, Expr]] = {body: (None, g)}
    found: dict[str, Expr] = {}

    def accumulate(arg: Expr, branch: _Branch | None, value: Expr) -> None:
        seen = cotangents.get(arg)
        cotangents[arg] = (branch, value) if seen is None else branches.add(*seen, branch, value)

    for node in reversed(order):
        if node not in cotangents:
            continue
        branch, value = cotangents.pop(node)
        if node.prim is None:
            found[node.attr] = branches.masked(branch, value)
            continue
        beside = parts.cotangents(node, value) if conjugated and node.prim.name in parts.BESIDE else None
        for i, arg in enumerate(node.args):
            if arg not in active:
                continue
            if beside is not None:
                accumulate(arg, branch, beside[i])
            elif node.prim is PRIMS["where"]:
                if i > 0:
                    accumulate(arg, branches.enter(branch, node.args[0], i == 1), value)
            elif (p := _partial(node, i, out if node is body and single else node, conjugated)) is not None:
                accumulate(arg, branch, _times(value, parts.conjugate(p) if conjugated else p, node))
    return found


# --- declared rules -----------------------------------------------------------------------------------------


def _declared(body: Expr, inputs: list[str], g: str, out: str, rule: Rule) -> dict[str, Expr]:
    scope: dict[str, Expr] = {name: var(name) for name in inputs}
    scope |= {node.attr: node for node in postorder([body]) if isinstance(node, Var)}
    saved = {"y": var(out, body.is_bool), out: var(out, body.is_bool), "g": var(g), g: var(g)}
    scope = saved | scope  # an input may itself be called y; then the output goes by the name `out`
    names = parameters(rule)
    unknown = [name for name in names if name not in scope]
    if unknown:
        raise TypeError(f"a rule's parameters are g, y and the inputs {inputs}; found {unknown}")
    result = rule(*(scope[name] for name in names))
    values = result if isinstance(result, tuple) else (result,)
    if len(values) != len(inputs):
        raise TypeError(f"a rule returns one gradient for each of the inputs {inputs}; found {len(values)}")
    return {
        name: as_expr(value)
        for name, value in zip(inputs, values, strict=True)
        if value is not None and not isinstance(value, Zero)
    }


def _rule_tangent(body: Expr, tangents: Mapping[str, Operand], rule: Rule, inputs: list[str]) -> Gradient:
    """The same rule forwards: a gradient is linear in g and diagonal, so the tangent takes g's place."""
    taken = free_vars(body) | set(inputs) | {str(t) for t in tangents.values()}
    g, out = _unused("g", taken), _unused("y", taken)
    declared = _declared(body, inputs, g, out, rule)
    terms = [
        substitute(declared[name], {g: t, out: body}) for name, t in tangents.items() if name in declared
    ]
    return _sum(terms) if terms else ZERO


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name
