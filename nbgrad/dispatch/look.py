"""Views by plan: what an index or a chain of views comes to is worked out once for a layout, and found again by one look-up.

Promises who makes views the lines that make the tensor, the record of where it comes from and the nodes of all steps in one frame,
without the tensors between; and that these are the very nodes that the steps would leave one by one, as a plan is read off them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from nbgrad.base.source import Lines, function, text_of
from nbgrad.core.op import Op
from nbgrad.core.tensor import Tensor, View, accumulator, edge, new, requires, storage_of, wrap
from nbgrad.history.record import op_rule
from nbgrad.memory.storage import Marked, Spec
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import NUMBERS, VERSIONS, Node, leaving, sequence

# What it is read as, and from which byte on; of the first step, the rule (None where nothing can be recorded) and what its node keeps; of
# further steps the same.
Look = tuple[Spec, int, Any, Any, tuple[tuple[Any, Any], ...]]

SCOPE: dict[str, Any] = dict(Node=Node, Tensor=Tensor, View=View, accumulator=accumulator, edge=edge, new=new)
SCOPE |= dict(NUMBERS=NUMBERS, VERSIONS=VERSIONS)
SCOPE |= dict(requires=requires, sequence=sequence, shared=shared, state=state, storage_of=storage_of)


def following(rule: str, kept: str) -> list[str]:
    """Lines that record one more step."""
    return [
        "into, node = node, Node()",
        *leaving("static"),
        f"node.next, node.static = (into,), {kept}",
        f"node.rule, node.seq = {rule}, next(sequence)",
    ]


ANY: Lines = ["for rule, kept in more:", following("rule", "kept")]


def looking(base: str, kept: str, steps: Lines = ()) -> list[Any]:
    """Lines that return the view of `base` as `shown` from the `byte` on, its first step recorded by `rule` with what is `kept`, and then
    `steps`; or go on where the long way is due: what few programs switch, and inference tensors, are none of theirs. A view that is
    out of date, and one that nobody has asked a gradient of, are looked at by who knows (`edge`, `requires`)."""
    return [
        f"storage = {base}._storage",
        "if storage is None:",
        [f"storage = storage_of({base})"],
        "if not (shared.rare or storage.inference):",
        [
            "t = new(Tensor)",
            f"t._buf = {base}._buf[byte:] if byte else {base}._buf",
            "t._spec, t._storage, t._rg, t._nr = shown, storage, 2, 0",
            "t._ad = None",
            "t._view = view = new(View)",
            f"above = {base}._view",
            "view.version = storage.version",
            "view.leaf = False",
            "if above is None:",
            [f"view.base, view.created = {base}, 'default'"],
            "else:",
            ["view.base, view.created = above.base, above.created"],
            "if not state.grad:",
            ["view.created = 'no_grad'"],
            f"elif {base}._rg and rule is not None:",
            [
                *_recording(base, kept, steps),
                "t._node = node",
                "return t",
            ],
            "t._node = None",
            "return t",
        ],
    ]


def _recording(base: str, kept: str, steps: Lines = ()) -> list[Any]:
    """Lines that make `node`, which is None of what wants no gradient."""
    return [
        f"node, into = Node(), {base}._node",
        *leaving("static"),
        f"if {base}._rg == 1:",
        [
            "if into is None:",
            [f"into, node.leaves = accumulator({base}), {base}"],
            f"elif {base}._nr:",
            [f"node.numbers = ({base}._nr,)"],
        ],
        "elif into is None or above.version != storage.version:",
        [
            f"if into is None and not requires({base}):",
            ["node = None"],
            "else:",
            [
                f"into, number = edge({base})",
                f"if {base}._node is None:",
                [f"node.leaves = {base}"],
                "elif number:",
                ["node.numbers = (number,)"],
            ],
        ],
        f"elif {base}._nr:",
        [f"node.numbers = ({base}._nr,)"],
        "if node is not None:",
        [
            f"node.next, node.static = (into,), {kept}",
            "node.rule, node.seq = rule, next(sequence)",
            *steps,
        ],
    ]


# All views of a plan of several: each part's layout and first byte, the rule, and what the node keeps. None where the long way is due.
Looks = tuple[tuple[tuple[Spec, int], ...], Any, Any]
_SEVERAL: Lines = [
    "def several(base, plan):",
    [
        "parts, rule, kept = plan",
        "storage = base._storage",
        "if storage is None:",
        ["storage = storage_of(base)"],
        "if shared.rare or storage.inference:",
        ["return None"],
        "above, buf, version = base._view, base._buf, storage.version",
        "root = base if above is None else above.base",
        "node, number, created = None, 0, 'multi'",
        "if not state.grad:",
        ["created = 'no_grad'"],
        "elif base._rg and rule is not None:",
        [
            *_recording("base", "kept"),
            ["if len(parts) > 1:", ["node.outputs = len(parts)"]],
        ],
        "step = 0 if node is None else 1",
        "made, number = [], 0",
        "for shown, byte in parts:",
        [
            "t = new(Tensor)",
            "t._buf = buf[byte:] if byte else buf",
            "t._spec, t._storage, t._rg, t._nr = shown, storage, 2, number",
            "t._node, t._ad = node, None",
            "t._view = view = new(View)",
            "view.base, view.created, view.version, view.leaf = root, created, version, False",
            "number += step",
            "made.append(t)",
        ],
        "return tuple(made)",
    ],
]
several: Callable[[Tensor, Looks], tuple[Tensor, ...] | None] = function(
    "several", text_of(_SEVERAL), SCOPE | {"__name__": __name__}, "several views", "their plan"
)


_ONE: Lines = [
    "def one(base, plan):",
    ["shown, byte, rule, kept, more = plan", *looking("base", "kept", ANY), "return None"],
]
one: Callable[[Tensor, Look], Tensor | None] = function(
    "one", text_of(_ONE), SCOPE | {"__name__": __name__}, "one view", "its plan"
)


def rule_of(op: Op, sp: Spec) -> Any:
    return op_rule(op, (True,), (True,), False) if sp.dtype.inexact else None


def look_of(op: Op, sp: Spec, static: dict[str, Any], out: Spec, offset: int) -> Look | None:
    """The plan of one view; None where its memory may begin where the buffer ends, of which a slice would know nothing."""
    if type(sp) is Marked or not out.numel:
        return None
    return out, offset * out.itemsize, rule_of(op, sp), (static, (sp,), out), ()


def looks_of(op: Op, sp: Spec, static: dict[str, Any], found: Iterable[tuple[Spec, int]]) -> Looks | None:
    """The same of several views."""
    parts = tuple([(out, offset * out.itemsize) for out, offset in found])
    if type(sp) is Marked or not parts or not all([out.numel for out, _ in parts]):
        return None
    rule = op_rule(op, (True,), (True,), True) if sp.dtype.inexact else None
    return parts, rule, (static, (sp,), tuple([out for out, _ in parts]))


def learn(t: Tensor, chain: Callable[[Tensor], Tensor]) -> Look | None:
    """The plan of a chain of views, read off the nodes that it leaves when it is called on a leaf which lies as `t` does. None where there
    is none to be had; what the chain refuses, it refuses here."""
    sp = t._spec
    if shared.rare or state.active or type(sp) is Marked:
        return None
    leaf = wrap(t._buf, sp)
    leaf._rg = 1 if sp.dtype.inexact else 0
    before, state.grad = state.grad, True
    try:
        out = chain(leaf)
    finally:
        state.grad = before
    if not out._spec.numel:
        return None
    start = (out.storage_offset() - leaf.storage_offset()) * sp.itemsize
    steps = list(_steps(out._node))[::-1]
    if not steps:
        return None if leaf._rg else (out._spec, start, None, None, ())
    return out._spec, start, *steps[0], tuple(steps[1:])


def _steps(node: Node | None) -> Iterable[tuple[Any, Any]]:
    while node is not None and node.next:
        assert node.rule.op.views
        yield node.rule, node.static
        node = node.next[0]
