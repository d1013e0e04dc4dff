"""What an elementwise call is once its operands' specs are known: the dtype, the layout of the result, the kernel, its launch.

Promises the dispatcher that this is worked out once: a `Plan` rests on nothing but specs and the types of numbers, so it is kept by
them, and what is refused (a broadcast, a cast, a dtype) is refused here, before any memory is made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nbgrad.base.switches import compiling
from nbgrad.core.op import ElementwiseOp
from nbgrad.core.refusals import check_complex, check_kept, refuse_complex
from nbgrad.core.tensor import Tensor
from nbgrad.expr.node import Expr, is_bool
from nbgrad.expr.parts import NoComplexForm
from nbgrad.kernels import templates
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.device import cpu, device
from nbgrad.memory.dtypes import DIM, NUMBER, ZERODIM, dtype
from nbgrad.memory.layout import Ints
from nbgrad.memory.storage import Spec, spec

_CROSSING = 8  # elements both ways from which on a tile pays


class Plan:
    """One elementwise call, but for the addresses: which kernel, over how many elements, giving what."""

    __slots__ = (
        "address",
        "allocate",
        "beyond",
        "checked",
        "compute",
        "high",
        "kind",
        "launch",
        "low",
        "n",
        "nbytes",
        "op",
        "operands",
        "out",
        "recorders",
        "rewriters",
        "rules",
    )

    def __init__(
        self,
        op: ElementwiseOp,
        operands: tuple[Any, ...],
        out: Spec,
        compute: dtype,
        inplace: bool = False,
        runs: bool = True,
    ) -> None:
        """`operands` are specs, or for numbers their Python type; in place the output takes the first one's memory. Without `runs` it
        only says what the call is, for history's sake."""
        self.op, self.operands, self.out, self.compute, self.kind = op, operands, out, compute, compute.kind
        self.nbytes, self.allocate = out.extent * out.itemsize, out.allocate
        self.rules: dict[tuple[bool, ...], Any] = {}  # by which inputs want a gradient
        self.recorders: dict[int, Any] = {}  # by the operands' `_rg`, two bits each
        self.rewriters: dict[
            int, Any
        ] = {}  # of usual writes, the same; False where the rule reads what is overwritten
        self.checked = op.integers is not None and compute.category == dtypes.INT
        if op.fits:
            self.low, self.high = dtypes.limits(compute)
            # What fits all the same, though it is no number of the dtype.
            self.beyond = (math.inf, -math.inf) if compute.is_floating_point else ()
        if not runs:
            return
        run = Kernel.of(
            op.name,
            (op.body,),
            op.params,
            op.logical,
            operands,
            (out,),
            compute.kind,
            0 if inplace else -1,
            compute.code if compute.narrow else "",
            _rounded(op, operands),
        )
        self.address, self.n = run.address, run.n
        self.launch = _in_order(run.launch, operands[1:] if inplace else operands)


def _rounded(op: ElementwiseOp, operands: Sequence[Any]) -> list[str]:
    """The operands that become of a narrow dtype first. As PyTorch's kernels, some ops take a second operand that is but one number
    as it is."""
    numbers = [not isinstance(o, Spec) or o.numel == 1 for o in operands]
    exact = {p for p in op.settings if p not in op.rounds} | set(
        op.params[1:2] if op.opmath and numbers[1] else ()
    )
    return [p for p in op.params if p not in exact]


class Kernel:
    """A kernel chosen for operands: flat if all memory is walked in one order, else by rows."""

    __slots__ = ("address", "launch", "n")

    def __init__(self, address: int, launch: Any, n: int) -> None:
        self.address, self.launch, self.n = address, launch, n

    @staticmethod
    def of(
        title: str,
        exprs: tuple[Expr, ...],
        params: Sequence[str],
        logical: Sequence[str],
        operands: Sequence[Any],
        outs: Sequence[Spec],
        kind: str,
        over: int = -1,
        narrow: str = "",
        rounded: Sequence[str] = (),
    ) -> Kernel:
        """`over` is the operand whose memory the first output takes, if any; the launch is not given it. If results are `narrow`, a
        code, the operands that `rounded` names become of that dtype before they are computed with."""
        shape = outs[0].shape
        if any([isinstance(o, Spec) and o.device is not outs[0].device for o in operands]):
            return _of_numbers_too(title, exprs, params, logical, operands, outs, kind, over, narrow, rounded)
        specs = [o for k, o in enumerate(operands) if isinstance(o, Spec) and k != over]
        read = [o.strides for o in outs] + [
            layout.broadcast_strides(s.shape, s.strides, shape) for s in specs
        ]
        sizes, strides = layout.collapse(shape, *read)
        flat = (
            len(sizes) <= 1
            and all(not st or st[0] in (0, 1) for st in strides)
            and all(not st or st[0] == 1 for st in strides[: len(outs)])
        )
        if _turned(title, outs[0], strides):
            steps = ["v", "r" if strides[1][-1] < 0 else "b"]
        elif title == "copy" and any(st and st[-1] not in (0, 1) for st in strides):
            steps = ["g"] * len(strides)
        else:
            steps = ["v" if st and st[-1] == 1 else "g" if st and st[-1] else "s" for st in strides]
        if not sizes:  # one element: steps do not matter, and one kernel serves
            steps = ["v"] * len(strides)
        if flat:
            steps[: len(outs)] = ["v"] * len(outs)
        elif any(step == "s" or (step != "v" and title != "copy") for step in steps[: len(outs)]):
            steps = ["g"] * len(strides)
        letters = iter(steps[len(outs) :])
        given = tuple(
            templates.Operand(
                p,
                o.dtype.code if isinstance(o, Spec) else "c16" if o is complex else "",
                "n" if not isinstance(o, Spec) else "=" if k == over else next(letters),
                p in logical,
                narrow if p in rounded else "",
            )
            for k, (p, o) in enumerate(zip(params, operands))
        )
        codes = tuple(o.dtype.code for o in outs)
        try:
            source, signature = templates.elementwise(
                title, exprs, given, codes, kind, not flat, "".join(steps[: len(outs)])
            )
        except NoComplexForm:
            refuse_complex(title, dtypes.of_code(kind).scalar_name)
        steps_text = "".join(v.step for v in given).replace("=", "o")
        name, serves = f"{title}_{kind}_{steps_text}{'' if flat else '_rows'}", outs[0].backend
        made = serves.kernel(name, source, signature, unrolled=False)
        numbers = "".join("dd" if v.code else "d" if kind[0] in "fc" else "q" for v in given if v.step == "n")
        numel = outs[0].numel
        # What is written more than once is written in order, on one thread.
        about = numel if all([layout.is_injective(o.shape, o.strides) for o in outs]) else min(numel, 1)
        templates.maps[made.address] = templates.Map(title, tuple(exprs), given, codes, kind, not flat)
        split = [v.code != "" for v in given if v.step == "n"]
        if flat:
            launch = serves.launch(len(outs) + len(specs), numbers, about, True)
            return Kernel(made.address, _with_parts(launch, split), numel)
        n = sizes[-1] if sizes else 1
        rows = numel // n if n else 0
        geometry = _meta(sizes, strides, given, len(outs))
        if title == "copy":
            geometry.append(_crossing(sizes, *strides))
        meta = serves.constants(geometry)
        launch = serves.launch(len(outs) + len(specs) + 1, numbers, about, True)
        return Kernel(made.address, _with_meta(_with_parts(launch, split), meta), rows)


def _turned(title: str, to: Spec, strides: Sequence[Ints]) -> bool:
    """Whether a copy writes neighbours and reads them so too, from the last to the first or in rows of which the last is read first."""
    if title != "copy" or to.backend is not backend.cpu or not all(strides):
        return False
    _, (*rows, step) = strides
    return strides[0][-1] == 1 and (step == -1 or (step == 1 and min(rows, default=0) < 0))


def _of_numbers_too(
    title: str,
    exprs: tuple[Expr, ...],
    params: Sequence[str],
    logical: Sequence[str],
    operands: Sequence[Any],
    outs: Sequence[Spec],
    kind: str,
    over: int,
    narrow: str,
    rounded: Sequence[str],
) -> Kernel:
    """Of operands one of which lies on the CPU, without dimensions: it is a number, read at the call."""
    away = [isinstance(o, Spec) and o.device is not outs[0].device for o in operands]
    number = {"f": float, "c": complex}.get(kind[0], int)
    near = [number if far else o for o, far in zip(operands, away)]
    k = Kernel.of(title, exprs, params, logical, near, outs, kind, over, narrow, rounded)
    given = [j for j in _tensors_first(operands) if j != over]
    places = [given.index(j) for j in _tensors_first(near) if j != over]
    read = [operands[given[p]].read if away[given[p]] else None for p in places]
    count = len(outs)

    def launch(address: Any, n: int, *args: Any) -> None:
        values = [args[count + p] if r is None else r(args[count + p])[0] for p, r in zip(places, read)]
        k.launch(address, n, *args[:count], *values)

    return Kernel(k.address, launch, k.n)


def _tensors_first(operands: Sequence[Any]) -> list[int]:
    """The order in which a kernel takes operands."""
    return sorted(range(len(operands)), key=lambda j: not isinstance(operands[j], Spec))


def _in_order(launch: Any, operands: Sequence[Any]) -> Any:
    """A launch of the operands as they come; a kernel takes tensors first."""
    order = _tensors_first(operands)
    if order == list(range(len(operands))):
        return launch
    return lambda address, n, buf, *values: launch(address, n, buf, *[values[k] for k in order])


def _meta(sizes: Any, strides: Any, given: Any, outs: int) -> list[int]:
    """What a rows kernel reads of the geometry; numbers among the operands take a place but no strides."""
    d = max(len(sizes) - 1, 0)
    flat = [d, sizes[-1] if sizes else 1, *sizes[:d][::-1]]
    steps = iter(strides)
    every = [next(steps) for _ in range(outs)] + [
        next(steps) if v.step not in "n=" else (0,) * (d + 1) for v in given
    ]
    for st in every:
        flat += st[:d][::-1]
    flat += [st[-1] if st else 0 for st in every]
    return flat


def _crossing(sizes: Ints, to: Ints, source: Ints) -> int:
    """Which dimension, counted as in a rows kernel's geometry from 1 on, is the one along which neighbours lie in one operand, as they lie
    in the other along the innermost; 0 if there is none, or too little of either."""
    for e, size in enumerate(sizes[-2::-1]):
        steps = {(to[-1], source[-2 - e]), (source[-1], to[-2 - e])}
        if (1, 1) in steps and to[-1] != source[-1] and min(size, sizes[-1]) >= _CROSSING:
            return e + 1
    return 0


def _with_parts(launch: Any, split: Sequence[bool]) -> Any:
    """Of the numbers, which come last, those that are complex go in as their parts."""
    if not any(split):
        return launch

    def parts(address: int, n: int, *args: Any) -> None:
        given = [(v.real, v.imag) if two else (v,) for v, two in zip(args[-len(split) :], split)]
        launch(address, n, *args[: -len(split)], *[part for both in given for part in both])

    return parts


def _with_meta(launch: Any, meta: Any) -> Any:
    def rows(address: int, n: int, *args: Any) -> None:
        launch(address, n, meta, *args)

    return rows


def number_type(value: Any) -> type | None:
    """float, int, bool or complex for what counts as a Python number (NumPy's scalars do, its bools as floats), else None."""
    t = type(value)
    if t is float or t is int or t is bool:
        return t
    if isinstance(value, np.generic):
        return {"f": float, "i": int, "u": int, "b": float, "c": complex}.get(value.dtype.kind)
    for base in (bool, int, float, complex):
        if isinstance(value, base):
            return base
    return None


_NUMBERS = {float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool_, complex: dtypes.complex128}


def common_dtype(operands: Sequence[Any]) -> dtype:
    """Of specs and types of numbers."""
    return dtypes.result_dtype(
        (DIM if o.ndim else ZERODIM, o.dtype) if isinstance(o, Spec) else (NUMBER, _NUMBERS[o])
        for o in operands
    )


def dtypes_of(op: ElementwiseOp, operands: tuple[Any, ...]) -> tuple[dtype, dtype]:
    """In which dtype the op computes, and which it gives."""
    values = [o for p, o in zip(op.params, operands) if p not in op.logical and p not in op.settings]
    compute = common_dtype(values)
    if op.check is not None:
        op.check(compute, values)
    if op.promote in ("float", "complex") and compute.category < dtypes.FLOAT:
        compute = dtypes.get_default_dtype()
    if op.promote == "complex":
        compute = compute.to_complex()
    if op.promote in ("compare", "bool") or is_bool(op.body):
        return compute, dtypes.bool_
    return compute, compute.to_real() if op.real_valued and compute.is_complex else compute


def make_plan(
    op: ElementwiseOp, operands: tuple[Any, ...], out: Spec | None = None, runs: bool = True
) -> Plan:
    """`out` is where the result goes, if that is settled (in place). What is refused, is refused in PyTorch's order."""
    specs = [o for o in operands if isinstance(o, Spec)]
    compute, result = dtypes_of(op, operands)
    if compute.is_complex:
        check_complex(op.name if out is None else f"{op.name}_", compute.scalar_name)
    if compute.kept:
        check_kept(op.name, compute)
    shape = layout.broadcast_shapes(*(s.shape for s in specs))
    inplace = out is not None
    if out is None:
        laid = [  # a number that is an operand counts as a tensor without dimensions
            (o.shape, o.strides if p in op.logical else _cast_strides(o, compute))
            if isinstance(o, Spec)
            else ((), ())
            for p, o in zip(op.params, operands)
            if isinstance(o, Spec) or (p not in op.settings and p not in op.fits)
        ]
        strides = None if op.dense else layout.output_strides(shape, laid)
        out = spec(result, tuple(shape), strides, device_of(specs))
    else:
        layout.check_target(out.shape, shape)
        check_cast(result, out.dtype)
        backend.same([out.device, device_of(specs)])
    if op.kernel is not None:
        op.kernel(compute, operands)
    return Plan(op, operands, out, compute, inplace, runs)


def device_of(specs: Sequence[Spec]) -> device:
    """Where operands are; one without dimensions may be on the CPU whatever the others are on."""
    first = specs[0].device
    if all([s.device is first for s in specs]):
        return first
    counted = [s.device for s in specs if s.ndim or s.device is not cpu]
    backend.same(counted)
    return counted[0]


def _cast_strides(s: Spec, compute: dtype) -> Ints:
    """How an operand lies when the result's layout is decided: PyTorch casts first, and a cast leaves no element stored twice."""
    return s.strides if s.dtype is compute else layout.kept_strides(s.shape, s.strides)


EXPECTED = "Expected out tensor to have dtype {c_want}, but got {c_got} instead"
_SAME_SCALAR = "{name}(): self and result must have the same scalar type"

# What ops say of an `out=` of another dtype than their result has; one that stands nowhere here casts.
_OUT_WORDS = {
    **dict.fromkeys(
        (
            *(
                "gather",
                "take_along_dim",
                "scatter",
                "scatter_add",
                "scatter_reduce",
                "index_copy",
                "index_add",
            ),
            *("index_reduce", "slice_scatter", "tril", "triu", "isin", "softmax", "log_softmax", "linear"),
            *("linalg_cholesky", "linalg_eigvalsh", "linalg_inv", "linalg_lu_solve", "linalg_solve"),
            *("linalg_svdvals",),
        ),
        EXPECTED,
    ),
    **dict.fromkeys(("masked_select", "index_select"), _SAME_SCALAR),
    "take": "take(): self and out expected to have the same dtype, but got self.dtype = {want} and out.dtype = {got}",
    "conj_physical": "Found dtype {got} but expected {want}",
    "quantile": "quantile() out tensor must be same dtype as the input tensor",
    "nanquantile": "quantile() out tensor must be same dtype as the input tensor",
    "linalg_vecdot": "linalg.vecdot: Expected out of dtype{want} but found {got}",
    "linalg_multi_dot": "multi_dot(): expected out tensor to have dtype {c_want} but got {c_got}",
    "linalg_norm": "linalg.norm expected out tensor dtype {want} but got: {got}",
    "linalg_matrix_norm": "linalg.matrix_norm expected out tensor dtype {want} but got: {got}",
    "linalg_solve_triangular": "expected scalar type {want} but found {got}",
}
# What those say that cast, where it cannot be.
_CASTABLE = "{name}: Expected result to be safely castable from {want} dtype, but got result with dtype {got}"
_CAST_WORDS = {
    **dict.fromkeys(("cholesky", "cholesky_inverse", "cholesky_solve"), _CASTABLE),
    **{f"linalg_{n}": _CASTABLE.replace("{name}", n) for n in ("matrix_power", "tensorinv", "tensorsolve")},
    **{f"linalg_{n}": _CASTABLE.replace("{name}", f"linalg.{n}") for n in ("cond", "pinv")},
    **{
        f"linalg_{n}": _CASTABLE.replace("{name}", f"torch.linalg.{n}")
        for n in ("householder_product", "matrix_rank")
    },
    **{
        f"linalg_{n}": f"torch.linalg.{n}: Expected eigenvalues to be safely castable from {{want}} dtype, but got eigenvalues with "
        "dtype {got}"
        for n in ("eig", "eigvals")
    },
    "linalg_lstsq": "torch.linalg.lstsq: Expected solution to be safely castable from {want} dtype, but got solution with dtype {got}",
}


def check_out_dtype(name: str, result: dtype, out: dtype, exact: str | None = None) -> None:
    """Refuse an `out=` of a dtype that cannot take the result; `exact` holds the words of an op that casts nothing."""
    words = exact or _OUT_WORDS.get(name)
    if words is None and not dtypes.can_cast(result, out):
        words = _CAST_WORDS.get(name)
    if words is None:
        check_cast(result, out)
    elif result is not out:
        raise RuntimeError(
            words.format(
                name=name,
                want=result.scalar_name,
                got=out.scalar_name,
                c_want=result.c_name,
                c_got=out.c_name,
            )
        )


def check_cast(result: dtype, to: dtype) -> None:
    if not dtypes.can_cast(result, to):
        raise RuntimeError(
            f"result type {result.scalar_name} can't be cast to the desired output type {to.scalar_name}"
        )


def plan_for(
    op: ElementwiseOp, operands: tuple[Any, ...], out: Spec | None = None, runs: bool = True
) -> Plan:
    """The plan of these operands; with `out`, in place: the first operand's memory, so laid out, takes the result. One that does not
    run only says what the call is."""
    key: Any = operands if out is None and runs else (operands, out, runs)
    plan: Plan | None = op.plans.get(key) or op.plans.get((key,))
    if plan is None:
        plan = make_plan(op, operands, out, runs)
        # Where values are to be looked at, by a key that the short way asks for with those alone that pass.
        op.plans.keep((key,) if plan.checked else key, plan)
    return plan


_FEW_DIVISORS = 64


def divides(sp: Any, buf: Any) -> bool:
    """Whether a tensor that lies so is one of integers of which it can be told at a glance that none is 0, or one at which nobody looks."""
    if type(sp) is not Spec or compiling.thread is not None:
        return False
    if sp.backend is not backend.cpu:
        return True
    form: Any = sp.dtype.np.char
    known = sp.contiguous and sp.numel <= _FEW_DIVISORS and not sp.dtype.inexact
    return known and 0 not in memoryview(buf)[: sp.nbytes].cast(form)


def check_values(plan: Plan, args: Sequence[Any]) -> None:
    """What specs and types do not tell: whether numbers fit, and what integers must not be."""
    if plan.checked:
        plan.op.integers(*args)  # type: ignore[misc]
    if not plan.op.fits:
        return
    for name, value in zip(plan.op.params, args):
        if name in plan.op.fits and not isinstance(value, Tensor):
            dtypes.fitting(value, plan.compute)


def launch(plan: Plan, buf: Any, args: Sequence[Any]) -> None:
    values = [a._buf if isinstance(a, Tensor) else a for a in args]
    try:
        plan.launch(plan.address, plan.n, buf, *values)
    except OverflowError:
        if any(type(v) is int and not -(2**63) <= v < 2**64 for v in values):
            raise OverflowError("int too big to convert") from None
        # What fits 64 bits without a sign has, as in PyTorch, the value that they have with one.
        plan.launch(
            plan.address, plan.n, buf, *[v - 2**64 if type(v) is int and v >= 2**63 else v for v in values]
        )
