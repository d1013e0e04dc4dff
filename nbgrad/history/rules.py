"""Rules: what turns the gradient of a recorded call into those of its inputs.

Promises the engine `apply`, with two callers: the raw way launches on memory, the registered one (`graph`) calls ops and can be
differentiated again. A rule is made once for an op and a choice of the inputs that want a gradient, and says what a node saves for
it: no more than the wanted gradients read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from sys import getrefcount
from typing import Any

import numpy as np

from nbgrad.base import source
from nbgrad.base.source import text_of, tuple_of
from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.core.op import GRAD, LINEAR, OUT, ElementwiseOp, Op
from nbgrad.core.plan import Kernel, Plan
from nbgrad.core.refusals import written_as
from nbgrad.core.tensor import Tensor, hooks, new
from nbgrad.expr import diff
from nbgrad.expr.node import Expr, free_vars, is_bool, ordered_vars, postorder, substitute, var
from nbgrad.history.saved import SavedTensor, as_output, origin, read_saved, unpack
from nbgrad.memory import layout as _layout
from nbgrad.memory.dtypes import dtype, float64
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import FREED, Node, blank

_bytes = np.dtype(np.uint8)
_REUSE_FROM = (
    1 << 18
)  # bytes of a gradient from which its memory is reused; smaller ones stay in the cache anyway
_ENGINES_OWN = (
    4  # references to a gradient that only the engine has, counted in `ElementwiseRule.raw`'s runner
)

# ---------------------------------------------------------------- elementwise ops


def _order(names: Sequence[str], public: dict[str, str]) -> tuple[int, ...]:
    """PyTorch's order of saving and of looking at what was saved: by name, results last; its message is about the first that was written
    to, and hooks are called in this order."""

    def place(k: int) -> tuple[bool, str]:
        name = names[k]
        return name == OUT or (name[0] == OUT and name[1:].isdigit()), public.get(name, name)

    return tuple(sorted(range(len(names)), key=place))


def _needed(mask: tuple[bool, ...], node: Node, needed: Any) -> tuple[bool, ...]:
    """Those of the wanted inputs that lead to what was asked for; a node lists no edges after the last wanted input's."""
    return tuple([m and n in needed for m, n in zip(mask, node.next)]) + mask[len(node.next) :]


def hidden_edges(plan: Plan) -> tuple[int, ...]:
    """The operands of which PyTorch's node knows nothing: conditions, settings, and the number of an overload that takes one."""
    op = plan.op
    return tuple(
        k
        for k, (p, o) in enumerate(zip(op.params, plan.operands))
        if p in op.logical
        or (not isinstance(o, Spec) and (p in op.settings or p in op.fits or op.number_node is not None))
    )


class ElementwiseRule:
    """The gradient of one plan for one choice of inputs that want it. Two callers: raw, which launches one kernel for all of
    them, and registered (`graph`), which calls an op per input and so can be differentiated again."""

    def __init__(self, plan: Plan, mask: tuple[bool, ...]) -> None:
        op = plan.op
        self.plan, self.mask = plan, mask
        self.edges = len(mask) if op.refuses is None else sum(mask)
        self.node_name = op.node_name
        if op.number_node is not None and not all(isinstance(o, Spec) for o in plan.operands):
            self.node_name = op.number_node
        self.wanted = tuple(p for p, w in zip(op.params, mask) if w)
        self.hidden = hidden_edges(plan)
        names = op.reads(self.wanted, plan.compute.is_complex)
        positions = {p: k for k, p in enumerate(op.params)}
        self.tensors = tuple(n for n in names if n != OUT and isinstance(plan.operands[positions[n]], Spec))
        self.saves_output = OUT in names
        self.tensor_positions = tuple(positions[n] for n in self.tensors)
        self.number_names = tuple(
            n for n in names if n != OUT and not isinstance(plan.operands[positions[n]], Spec)
        )
        self.number_positions = tuple(positions[n] for n in self.number_names)
        self.saved_names = (*self.tensors, *((OUT,) if self.saves_output else ()))
        as_tensor = op.number_node is None and set(self.number_names).difference(op.settings, op.fits)
        self.holds = bool(as_tensor)  # PyTorch saves a number that no overload takes as a tensor
        self.order = _order(self.saved_names, op.public)
        self.backs: Table[Any, Callable[..., Any]] = Table(
            "history.rules.backs", PLANS
        )  # by how the gradient lies
        self.by_ops: dict[tuple[bool, ...], Callable[..., Any]] = {}  # by which gradients are wanted

    def made_by(self, node: Node, k: int) -> str:
        """ ", which is output 0 of Exp," for a saved value that an op made."""
        t = (node.saved or ())[k]
        if self.saved_names[k] == OUT:
            return f", which is output 0 of {written_as(node)},"
        return origin(t)

    def apply(self, node: Node, g: Tensor, needed: Any, graph: bool) -> Any:
        mask = self.mask
        key: Any = g._spec
        if needed is not None:
            for wanted, target in zip(mask, node.next):
                if wanted and target not in needed:
                    mask = _needed(mask, node, needed)
                    key = key, mask
                    break
        if graph:
            return (self.by_ops.get(mask) or self.by_ops.setdefault(mask, self.by_op(mask)))(g, node)
        run = self.backs.get(key)
        if run is None:
            run = self.backs.keep(key, self.raw(g._spec, mask))
        return run(g, node)

    @cached_property
    def of_packed(self) -> ElementwiseRule:
        """The same rule, of nodes whose saved values come out of hooks: those may lie otherwise than the kernels expect."""
        rule = copy(self)
        rule.__class__ = _OfPacked
        return rule

    def by_op(self, mask: tuple[bool, ...]) -> Callable[..., Any]:
        """The function that calls an op for each gradient that is wanted, on g, what is saved, and the numbers."""
        op = self.plan.op
        op.check_derivative(mask)
        where = {GRAD: "g"} | {n: f"s{k}" for k, n in enumerate(self.saved_names)}
        where |= {n: f"node.static[{k}]" for k, n in enumerate(self.number_names)}
        functions = []
        values = []
        for p, wanted in zip(op.params, mask):
            function, read = partial_function(op, p, self.plan.compute) if wanted else (None, ())
            names = [where[n] for n in read]
            functions.append(function)
            values.append(
                None if not wanted else f"f{{k}}({', '.join(names)})" if function else "".join(names)
            )
        make = _by_op_maker(len(self.saved_names), self.saves_output, self.holds, tuple(values))
        return make(functions, self.plan.operands)

    def raw(self, g: Spec, mask: tuple[bool, ...]) -> Callable[..., Any]:
        """Build the function that turns g and the saved values into gradients: one launch for all that need computing."""
        op, plan = self.plan.op, self.plan
        op.check_derivative(mask)
        by_name: dict[str, Any] = {GRAD: g, OUT: plan.out, **dict(zip(op.params, plan.operands))}
        results: list[
            tuple[str, Any, Any]
        ] = []  # per input: how its gradient comes, from where, for which operand
        exprs: list[Expr] = []
        outs: list[Spec] = []
        for p, wanted, operand in zip(op.params, mask, plan.operands):
            partial = op.partials_of(plan.compute)[p]
            if not wanted:
                results.append(("none", None, None))
            elif partial is diff.ZERO:
                results.append(("zero", None, operand))
            elif partial is var(GRAD):
                results.append(("g", None, operand))
            else:
                results.append(("made", len(exprs), operand))
                exprs.append(partial)
                same = operand.shape == plan.out.shape
                outs.append(
                    spec(
                        operand.dtype if same else plan.out.dtype,
                        tuple(plan.out.shape),
                        None,
                        plan.out.device,
                    )
                )
        if not exprs:
            if all(
                how == "none" or (how == "g" and (o.shape, o.dtype, o.device) == (g.shape, g.dtype, g.device))
                for how, _, o in results
            ):
                wants = [how == "g" for how, _, _ in results]
                if wants == [True, False]:
                    return lambda grad, node: (grad, None)
                if wants == [True, True]:
                    return lambda grad, node: (grad, grad)
            return lambda grad, node: [_plain(how, grad, operand) for how, _, operand in results]
        names = [n for n in (GRAD, *self.saved_names, *self.number_names) if n in free_vars(*exprs)]
        operands = [by_name[n] for n in names]
        layout = [(o.shape, o.strides) for o in operands if isinstance(o, Spec)]
        shape = plan.out.shape
        strides = _layout.output_strides(tuple(shape), layout) if layout[0][0] == shape else None
        if strides is not None:
            outs = [spec(o.dtype, tuple(shape), strides, o.device) for o in outs]
        where = [(GRAD, *self.saved_names).index(n) - 1 for n in names if n in (GRAD, *self.saved_names)]
        keep = [self.number_names.index(n) for n in names if n in self.number_names]

        rounded = [
            n for n, o in zip(names, operands) if isinstance(o, Spec) and (o.numel > 1 or not op.opmath)
        ]

        def runner(over: int) -> Callable[..., Any]:
            title = f"{op.name}_backward"
            narrow = plan.compute.code if plan.compute.narrow else ""
            kernel = Kernel.of(
                title, tuple(exprs), names, op.logical, operands, outs, plan.kind, over, narrow, rounded
            )
            return _runner(kernel, outs, where, keep, results, over >= 0, self.holds)

        fresh = runner(-1)
        large = outs[0].numel * outs[0].itemsize >= _REUSE_FROM
        if not large or outs[0] is not g or GRAD not in names or any(how == "g" for how, _, _ in results):
            return fresh
        reuse = runner(names.index(GRAD))

        def either(grad: Tensor, node: Node) -> Any:
            """A large gradient that nobody else has gives its memory to the result: writing to cold memory costs twice."""
            buf = grad._buf
            if buf.base is None and getrefcount(buf) == 3 and getrefcount(grad) == _ENGINES_OWN:
                del buf
                return reuse(grad, node)
            return fresh(grad, node)

        return either

    def read(self, node: Node, name: str, raw: bool) -> Any:
        """`grad_fn._saved_<name>` by PyTorch's names: self, other, result. Where no overload of PyTorch's takes a number, it
        saves one as a tensor."""
        op = self.plan.op
        if name in op.shown and not raw:
            return op.shown[name]
        wanted = self.names(node).get(name, "")
        if wanted in self.number_names:
            if self.holds and node.saved is None:
                raise RuntimeError(FREED)
            value = node.static[self.number_names.index(wanted)]
            if wanted in op.settings or wanted in op.fits or op.number_node is not None:
                return value
            whole = isinstance(value, int)
            return SavedTensor.of(node, None) if raw else hooks.scalar(value, None if whole else float64)
        return read_saved(node, wanted, name, raw)

    def names(self, node: Node) -> dict[str, str]:
        op = self.plan.op
        return {
            op.public.get(n, n): n for n in op.reads(op.params, self.plan.compute.is_complex)
        } | dict.fromkeys(op.shown, "")

    def output_at(self, node: Node, k: int) -> int | None:
        return 0 if k >= len(self.tensors) else None

    def layouts(self, node: Node) -> tuple[Spec, ...]:
        return (self.plan.out,)


class _OfPacked(ElementwiseRule):
    @cached_property
    def known(self) -> list[Spec]:
        """How the kernels expect the saved values to lie."""
        return [self.plan.operands[k] for k in self.tensor_positions] + [self.plan.out] * self.saves_output

    def apply(self, node: Node, g: Tensor, needed: Any, graph: bool) -> Any:
        saved = unpack(node)
        if graph or [t._spec for t in saved] != self.known:
            mask = self.mask if needed is None else _needed(self.mask, node, needed)
            return (self.by_ops.get(mask) or self.by_ops.setdefault(mask, self.by_op(mask)))(g, node, saved)
        unpacked = blank()
        unpacked.next, unpacked.static, unpacked.saved = node.next, node.static, saved
        unpacked.versions = tuple([0 if t._storage is None else t._storage.version for t in saved])
        return super().apply(unpacked, g, needed, graph)


def _plain(how: str, g: Tensor, operand: Any) -> Tensor | None:
    if how == "none":
        return None
    return _fit(g, operand) if how == "g" else hooks.zeros(operand.dense())


def _fit(grad: Tensor, operand: Spec) -> Tensor:
    """Undo broadcasting and promotion: the gradient in the shape and dtype of the input, and where that is."""
    if grad._spec.shape != operand.shape:
        grad = hooks.sum_to(grad, operand.shape)
    same = grad._spec.dtype is operand.dtype and grad._spec.device is operand.device
    return grad if same else hooks.part_in(grad, operand.dtype, operand.device)


def _runner(
    kernel: Kernel,
    outs: list[Spec],
    where: list[int],
    keep: list[int],
    results: list[tuple[str, Any, Any]],
    over: bool,
    holds: bool,
) -> Callable[..., Any]:
    """`where` lists the tensors read: -1 is g, others index the saved; `keep` the numbers; `over`: write over g; `holds`: the node has
    something to lose, be it no tensor."""
    forms = []
    for how, k, operand in results:
        exact = how == "made" and all(
            getattr(outs[k], what) == getattr(operand, what) for what in ("shape", "dtype", "device")
        )
        forms.append("exact" if exact else how)
    make = _runner_maker(
        len(outs),
        tuple(where),
        tuple(keep),
        tuple((f, k) for f, (_, k, _) in zip(forms, results)),
        over,
        holds,
    )
    sizes = [o.extent * o.itemsize for o in outs]
    operands = [operand for _, _, operand in results]
    return make(kernel.launch, kernel.address, kernel.n, sizes, outs, operands)


@cached(1024)
def _runner_maker(
    count: int,
    where: tuple[int, ...],
    keep: tuple[int, ...],
    forms: tuple[tuple[str, Any], ...],
    over: bool,
    holds: bool,
) -> Callable[..., Any]:
    """Source of the few lines between a gradient's arrival and its kernel, without loops: measured 1 us a node less than with."""
    names = ", ".join
    before: list[Any] = [
        f"size{k}, out{k}, allocate{k} = sizes[{k}], outs[{k}], outs[{k}].allocate" for k in range(count)
    ]
    before += [
        f"operand{k} = operands[{k}]" for k, (form, _) in enumerate(forms) if form not in ("exact", "none")
    ]
    lines: list[Any] = []
    held = sorted({k for k in where if k >= 0})
    lines += _unpacking(held, holds)
    lines += [
        f"b{k} = {'g._buf' if over and k == 0 else f'allocate{k}(size{k}, bytes_)'}" for k in range(count)
    ]
    read = ["g._buf" if k < 0 else f"s{k}._buf" for k in where if k >= 0 or not over]
    read += [f"node.static[{k}]" for k in keep]
    lines.append(f"launch(address, n, {names([f'b{k}' for k in range(count)] + read)})")
    given = []
    for k, (form, at) in enumerate(forms):
        if form in ("made", "exact"):
            lines += [
                f"t{k} = new(Tensor)",
                f"t{k}._buf, t{k}._spec = b{at}, out{at}",
                f"t{k}._rg = t{k}._nr = 0",
                f"t{k}._storage = t{k}._node = t{k}._view = t{k}._ad = None",
            ]
        given.append(
            {"none": "None", "exact": f"t{k}", "made": f"fit(t{k}, operand{k})"}.get(
                form, f"plain({form!r}, g, operand{k})"
            )
        )
    lines.append(f"return {tuple_of(given)}")
    whole = [
        "def make(launch, address, n, sizes, outs, operands):",
        [*before, "def run(g, node):", lines, "return run"],
    ]
    scope: dict[str, Any] = dict(unpack=unpack, bytes_=_bytes, new=new, Tensor=Tensor, fit=_fit, plain=_plain)
    about = f"reads g and what was saved at {held}, makes {names([form for form, _ in forms])}"
    return source.function("make", text_of(whole), scope, f"runner of {len(forms)} gradients", about)


def _unpacking(held: Sequence[int], holds: bool, how: str = "node") -> list[str]:
    """Lines that read what was saved at these places as s0, s1 ... What `unpack` checks, in line: no storage record, or no write since.
    Where it is called, `how` is what it is given."""
    if not held:
        return [f"if node.saved is None: unpack({how})"] * holds
    lines = ["saved = node.saved", f"if saved is None: unpack({how})"]
    for k in held:
        lines += [f"s{k} = saved[{k}]", f"st{k} = s{k}._storage"]
    written = " or ".join(f"(st{k} is not None and st{k}.version != node.versions[{k}])" for k in held)
    lines.append(f"if {written}: saved = unpack({how}); {'; '.join(f's{k} = saved[{k}]' for k in held)}")
    return lines


@cached(1024)
def _by_op_maker(
    count: int, saves_output: bool, holds: bool, values: tuple[str | None, ...]
) -> Callable[..., Any]:
    """Source of what calls ops for gradients: `values` are the texts of the wanted ones, of which that without a letter is zero; the
    last of `count` saved values is the output, if any is. Values that hooks give are given to it."""
    wanted = [k for k, value in enumerate(values) if value is not None]
    lines: list[Any] = [
        "if saved is None:",
        [*_unpacking(range(count), holds), "pass"],
        "else:",
        [*[f"s{k} = saved[{k}]" for k in range(count)], "pass"],
    ]
    if saves_output:
        lines.append(f"s{count - 1} = as_output(s{count - 1}, node, 0)")
    for k in wanted:
        lines += [
            f"r{k} = {(values[k] or f'zeros(o{k}.dense())').format(k=k)}",
            f"if r{k}._spec is not o{k}: r{k} = fit(r{k}, o{k})",
        ]
    lines.append(f"return {tuple_of([f'r{k}' if k in wanted else 'None' for k in range(len(values))])}")
    whole = [
        "def make(functions, operands):",
        [
            *[f"f{k}, o{k} = functions[{k}], operands[{k}]" for k in wanted],
            "def run(g, node, saved=None):",
            lines,
            "return run",
        ],
    ]
    scope: dict[str, Any] = dict(
        unpack=unpack, as_output=as_output, fit=_fit, zeros=lambda sp: hooks.zeros(sp)
    )
    title = f"{len(values)} gradients by ops"
    return source.function("make", text_of(whole), scope, title, f"calls {', '.join(filter(None, values))}")


# What a gradient ends with in PyTorch, which is what shows as its grad_fn, by the node of the op (and its input, where they differ).
# Those that are not here have a backward of their own there, too: TanhBackwardBackward0.
ENDS = {
    node: end
    for end, nodes in {
        "MulBackward0": "Abs Acos Addcdiv Addcmul Asin Asinh Atan2 Copysign Cos Cosh Digamma Div Erf Erfc Erfinv Expm1 Fmod"
        " FmodBackward1 I0 Lgamma Mish Mul NanToNum Pow PowBackward1.exponent Reciprocal Remainder RemainderBackward1 Rsqrt Silu Sin"
        " Sinh Tan",
        "MulBackward1": "Exp2 Ldexp Lerp",
        "DivBackward0": "Atan Atanh Hypot Log10 Log1P Log2 Logaddexp Logaddexp2 Sqrt Xlogy.other",
        "WhereBackward0": "Clamp ClampBackward1 Logit PowBackward1 Sinc Where",
        "MaskedFillBackward0": "Fmax Fmin MaskedFill Maximum Minimum Xlogy",
        "AddBackward0": "Sub",
        "EluBackwardBackward0": "Celu",
        "ThresholdBackwardBackward0": "Relu",
    }.items()
    for node in nodes.split()
}


def partial_function(op: ElementwiseOp, param: str, compute: dtype) -> tuple[Any, tuple[str, ...]]:
    """The gradient for one input as an op, and what it reads: what create_graph, hooks and transforms run."""
    key = (param, compute.is_complex)
    found: tuple[Any, tuple[str, ...]] | None = op._derived.get(key)
    if found is None:
        node = op.node_name.removesuffix("Backward0")
        end = ENDS.get(f"{node}.{param}") or ENDS.get(node)
        node_name = end or op.node_name.removesuffix("0") + "Backward0"
        partial = op.partials_of(compute)[param]
        found = op._derived[key] = derived(op, partial, f"{op.name}_{param}grad", node_name)
    return found


def derived(op: ElementwiseOp, e: Any, title: str, node_name: str) -> tuple[Any, tuple[str, ...]]:
    """A gradient or tangent of `op` as a function, and what it reads; no function for one variable as it is, nothing read for 0."""
    if e is diff.ZERO:
        return None, ()
    names = tuple(ordered_vars(e))
    if e is var(names[0]):
        return None, names
    while _untraced:
        known_op, known_function = _untraced.pop(0)
        if tuple(ordered_vars(known_op.body)) == known_op.params and not known_op.logical:
            _bodies.setdefault(_positional(known_op.body, known_op.params), (known_function, known_op.params))
    known = _bodies.get(_positional(e, names))
    if known is not None and len(known[1]) == len(names):
        return known[0], names
    # By position, as `g` and `y` are names that an op's own gradient takes.
    params = {n: var(f"v{k}", n in op.logical) for k, n in enumerate(names)}
    joins = any([n.prim is not None and n.prim.name == "join" for n in postorder([e])])
    made = ElementwiseOp(
        title,
        substitute(e, params),
        promote="complex" if joins else "same",  # complex numbers of real ones
        node_name=node_name,
        params=tuple(f"v{k}" for k in range(len(names))),
        logical=tuple(f"v{k}" for k, n in enumerate(names) if n in op.logical),
    )
    smooth = smooth_vars(e)
    made.flat = frozenset(f"v{k}" for k, n in enumerate(names) if n not in smooth)
    return hooks.elementwise_function(made), names


def smooth_vars(e: Expr) -> set[str]:
    """The variables that are read other than by comparisons."""
    found, seen, left = set(), set(), [e]
    while left:
        node = left.pop()
        if node in seen or is_bool(node):
            continue
        seen.add(node)
        left += node.args
        if not node.args:
            found |= free_vars(node)
    return found


_bodies: Table[Expr, tuple[Callable[..., Tensor], tuple[str, ...]]] = Table("history.rules.bodies", None)


def _positional(e: Expr, names: Sequence[str]) -> Expr:
    return substitute(e, {n: var(f"v{k}") for k, n in enumerate(names)})


_untraced: list[tuple[ElementwiseOp, Callable[..., Tensor]]] = []  # traced when a second order first asks


def know_body(op: ElementwiseOp, function: Callable[..., Tensor]) -> None:
    """Let gradients that have this very body be this op: the gradient of `exp` is a `mul`, and shows MulBackward0."""
    _untraced.append((op, function))


# ---------------------------------------------------------------- all other ops


OWN = {
    "place",
    "parts",
    "at",
    "reverse",
    "length",
}  # what rules read here, and PyTorch's nodes do not know by any name


def _complex(g: list[Any]) -> bool:
    """Whether one of the gradients is complex."""
    return any([x is not None and x._spec.dtype.is_complex for x in g])


def _turns(node: Node) -> bool:
    """Whether a rule may multiply the gradient by a number that is not real: one that it has saved, or that the call was given."""
    saved = [t for t in node.saved or () if t is not None]
    return any([type(t) is not Tensor or t._spec.dtype.inexact for t in saved]) or any(
        [isinstance(value, complex) for value in node.static[0].values()]
    )


class OpRule:
    """The gradient of an `Op` for one choice of inputs that want it: what is saved, and the calls of its rules, written out as source
    once, because collecting a rule's arguments by name at each call cost more than the rule."""

    def __init__(self, op: Op, mask: tuple[bool, ...], given: tuple[bool, ...], several: bool) -> None:
        """`given` says which of the inputs are there at all (an optional one may be None); `several`, that the op's result is a
        tuple: its rules get a list of gradients, though only one of the outputs may have one."""
        self.op, self.mask, self.node_name, self.single = op, mask, op.node_name, not several
        self.edges = len(mask)
        self.overwrites = any("own" in op.reads[n] for n in op.reads)
        self.conjugated = op.tangent is not LINEAR and op.holomorphic
        if "all" in op.rules:
            asked = set(op.reads["all"])
        else:
            asked = {n for p, m in zip(op.inputs, mask) if m and p in op.rules for n in op.reads[p]}
        names = [] if op.variadic else list(op.inputs)
        self.hidden = () if "all" in op.rules else tuple(k for k, n in enumerate(names) if n not in op.rules)
        self.inputs = tuple(k for k, n in enumerate(names) if n in asked and given[k])
        self.outputs = tuple(
            int(n[1:] or 0) for n in sorted(asked) if n == OUT or (n[0] == OUT and n[1:].isdigit())
        )
        self.saved_names = (
            *(names[k] for k in self.inputs),
            *(n for n in sorted(asked) if n == OUT or (n[0] == OUT and n[1:].isdigit())),
        )
        self.turned = self.saved_names.index(op.turned) if op.turned in self.saved_names else None
        self.order = _order(self.saved_names, op.public)
        self.holds = not asked.isdisjoint(op.held)
        where = {GRAD: "g", "wanted": "wanted", "specs": "layout", "own": "own"}
        where |= {n: f"saved[{k}]" for k, n in enumerate(self.saved_names)}
        where |= {n: "None" for k, n in enumerate(names) if not given[k]}
        where |= {f"{n}_spec": f"layout[{k}]" for k, n in enumerate(names)}

        def call(rule: str) -> str:
            return f"{rule}({', '.join(where.get(n) or f'static[{n!r}]' for n in op.reads[rule])})"

        text = (
            call("all")
            if "all" in op.rules
            else "".join(
                (f"({call(n)}) if wanted[{k}] else None, " if m and n in op.rules else "None, ")
                for k, (n, m) in enumerate(zip(op.inputs, mask))
            )
        )
        self.lines = ["if type(g) is not list: g = [g]"] if several and not op.statistics else []
        self.lines.append(f"return ({text})")

    @cached_property
    def run(self) -> Callable[..., Any]:
        """Calls the rules on g and what they read."""
        return self._function("run(g, saved, static, layout, wanted, own=False)", [])

    @cached_property
    def raw(self) -> Callable[..., Any]:
        """The same on g and the node, what it saved being looked at first."""
        before = _unpacking(range(len(self.saved_names)), self.holds, "node, True")
        return self._function("raw(g, node, wanted, own)", [*before, "static, layout, _ = node.static"])

    def _function(self, signature: str, before: list[str]) -> Any:
        wanted = [n for n, m in zip(self.op.inputs, self.mask) if m]
        return source.function(
            signature.partition("(")[0],
            text_of([f"def {signature}:", before + self.lines]),
            {"unpack": unpack, **self.op.rules},
            f"rules of {self.node_name}",
            f"the gradients of {', '.join(wanted) or 'all inputs'}",
        )

    def made_by(self, node: Node, k: int) -> str:
        t = (node.saved or ())[k]
        if k >= len(self.inputs):
            if not t._spec.dtype.inexact:
                return ""
            return f", which is output {self.outputs[k - len(self.inputs)]} of {written_as(node)},"
        return origin(t)

    def apply(self, node: Node, g: Any, needed: Any, graph: bool) -> Any:
        mask = self.mask
        if needed is not None:
            for wanted, target in zip(mask, node.next):
                if wanted and target not in needed:
                    mask = _needed(mask, node, needed)
                    break
        if (
            self.conjugated
            and (_complex(g) if type(g) is list else g._spec.dtype.is_complex)
            and _turns(node)
        ):
            turned = [x if x is None else hooks.conj(x) for x in g] if type(g) is list else hooks.conj(g)
            made = self.registered(node, turned, mask) if graph else self.raw(turned, node, mask, False)
            return tuple([x if x is None else hooks.conj_back(x) for x in made])
        if graph:
            return self.registered(node, g, mask)
        own = False
        if self.overwrites and g._rg == 0:
            buf = g._buf
            own = (
                buf.base is None
                and g._spec.numel * g._spec.itemsize >= _REUSE_FROM
                and getrefcount(buf) == 3
                and getrefcount(g) == _ENGINES_OWN - 1
            )
        return self.raw(g, node, mask, own)

    def registered(self, node: Node, g: Any, mask: tuple[bool, ...]) -> Any:
        saved = unpack(node, alike=True) if node.saved != () else ()
        if self.outputs:
            first = len(self.inputs)
            saved = (
                *saved[:first],
                *(
                    t if k and self.op.statistics else as_output(t, node, k)
                    for t, k in zip(saved[first:], self.outputs)
                ),
            )
        static, layout, _ = node.static
        return self.run(g, saved, static, layout, mask)

    def layouts(self, node: Node) -> tuple[Spec, ...]:
        result = node.static[2]
        return (result,) if isinstance(result, Spec) else result[: node.outputs]

    def read(self, node: Node, name: str, raw: bool) -> Any:
        if name in self.op.places:
            if node.saved is None:
                raise RuntimeError(FREED)
            return _shown_places(node, self.op.places[name](node.static[0]["place"]), raw)
        if name in self.op.shown and not raw:
            how = self.op.shown[name]
            return how(**node.static[0]) if callable(how) else how
        wanted = self.names(node).get(name, "")
        if wanted.endswith("_spec") and not raw:
            return tuple(node.static[1][self.op.inputs.index(wanted.removesuffix("_spec"))].shape)
        if wanted not in node.static[0]:
            return read_saved(node, "" if wanted.endswith("_spec") else wanted, name, raw)
        return read_saved(node, "", name, raw) if raw else node.static[0][wanted]

    def names(self, node: Node) -> dict[str, str]:
        """PyTorch calls an integer output `indices`, others by number if there are several."""
        layouts = node.static[2]
        public = dict(self.op.public)
        for k, known in enumerate(() if isinstance(layouts, Spec) else layouts):
            public[f"{OUT}{k}"] = f"result{k}" if known.dtype.inexact else "indices"
        for n in self.op.inputs:
            public[f"{n}_spec"] = f"{public.get(n, n)}_sym_sizes"
        read = {n for reads in self.op.reads.values() for n in reads} - OWN
        return {
            public.get(n, n): n
            for n in sorted(read)
            if n in public or n in self.op.inputs or n in node.static[0]
        } | dict.fromkeys((*self.op.shown, *self.op.places), "")

    def output_at(self, node: Node, k: int) -> int | None:
        first = len(self.inputs)
        if k < first or (self.op.statistics and self.outputs[k - first]):
            return None
        return self.outputs[k - first]


_PENDING = (
    3  # references to a gradient that only waits: the engine's, and, counted in `PartRule.apply`, two there
)


class PartRule(OpRule):
    """That of a view which looks at a part. Where a gradient of the input waits for more, and nobody else has it, the part's is added to it
    there and then: what a loop over all parts costs does not grow with the whole."""

    def apply(self, node: Node, g: Any, needed: Any, graph: bool) -> Any:
        static, (sp,), _ = node.static
        base = sp.dense()
        at, offset = self.op.part(base, static)
        if graph or type(g._spec) is Marked:
            return (hooks.embed_part(g, base=base, at=at, offset=offset),)
        task, target = state.task, node.next[0]
        if not (task is None or node.hooked or shared.rare):
            total = task.pending.get(target)
            if (
                total is not None
                and (needed is None or target in needed)
                and type(total) is Tensor
                and total._spec is base
                and total._rg == 0
                and getrefcount(total) == _PENDING
                and total._buf.base is None
                and getrefcount(total._buf) == 2
                and g._rg == 0
                and g._spec.dtype is base.dtype
            ):
                hooks.add_part(total, g, at, offset)
                return ()
        return (hooks.embedded_part(g, base, at, offset),)


def _shown_places(node: Node, found: Any, raw: bool) -> Any:
    """Index tensors as a user sees them: a list of them has None for the dimensions without one."""
    if isinstance(found, tuple):
        return tuple([_shown_places(node, one, raw) for one in found])
    return SavedTensor.showing(node, found) if raw else found
