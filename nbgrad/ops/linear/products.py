"""Products of vectors and matrices, by NumPy's BLAS.

A product is read in one of three ways: `x @ y`, `x @ y.mT` or `x.mT @ y`. Its two gradients are again such products, so
each way's rule names the others, derivatives of every order exist, and no transposed view is ever made for a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from nbgrad.core.op import PRODUCT, ElementwiseOp, Op
from nbgrad.core.plan import Plan, number_type, plan_for
from nbgrad.core.tensor import Tensor, check_write, empty, hooks, requires, wrap
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import into
from nbgrad.dispatch.stanza import method
from nbgrad.history.record import record_op, written_by
from nbgrad.kernels import build, products
from nbgrad.kernels.cpu import reduce as reductions
from nbgrad.kernels.launch import FEW
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.pointwise.arithmetic import _add, add, mul
from nbgrad.ops.reduce.sums import RUN, SUM, reduction
from nbgrad.ops.views.copy import copy_memory, to_dtype, zeros
from nbgrad.ops.views.views import _t, reshape, squeeze, unsqueeze
from nbgrad.tape.modes import state

_matmul, _array, _empty = np.matmul, np.ndarray, np.empty
_bytes = np.dtype(np.uint8)
_LONG = 10000  # elements of a vector from which OpenBLAS cuts a dot product
_KEPT = 4096  # products known per function, before the table is begun anew
_NO_STATIC: dict[str, Any] = {}
Run = Callable[[Tensor, Tensor], Tensor]
Check = Callable[[Spec, Spec], None]
Rule = Callable[..., Tensor]


# ---------------------------------------------------------------- one product


def _known(check: Check, turn: str) -> Any:
    """The product without history. What it comes to depends on specs only, so it is checked and worked out once: `find` tells."""
    runs: dict[tuple[Spec, Spec], Run] = {}

    def find(a: Spec, b: Spec) -> Run:
        read_a = _turned(a) if turn == "tn" else a
        read_b = _turned(b) if turn == "nt" else b
        check(read_a, read_b)
        if len(runs) >= _KEPT:
            runs.clear()
        found = runs[a, b] = _make(read_a, read_b)
        return found

    def run(a: Tensor, b: Tensor) -> Tensor:
        return (runs.get((a._spec, b._spec)) or find(a._spec, b._spec))(a, b)

    run.find = find  # type: ignore[attr-defined]
    return run


def _make(a: Spec, b: Spec) -> Run:
    d = b.dtype  # that of both, but for batches without elements
    out = spec(d, (*a.shape[:-1], *(b.shape[-1:] if b.ndim > 1 else ())), None, a.device)
    if not out.numel or not a.shape[-1]:
        return lambda x, y: zeros(out)
    if not out.ndim and d.is_floating_point:
        return _inner(a, b, out)
    read = _as_blas_reads(a), _as_blas_reads(b)
    if read != (a, b):
        product = _make(*read)
        return lambda x, y: to_dtype(product(_copied(x, a, read[0]), _copied(y, b, read[1])), d)
    return _by_blas(a, b, out) or _by_numpy(a, b, out)


def _by_blas(a: Spec, b: Spec, out: Spec) -> Run | None:
    code = out.dtype.code
    if code not in ("f4", "f8") or not out.ndim:
        return None
    row, column = (
        spec(a.dtype, (1, *a.shape), (1, *a.strides)),
        spec(b.dtype, (*b.shape, 1), (*b.strides, 1)),
    )
    x, y = (row if a.ndim == 1 else a), (column if b.ndim == 1 else b)
    left, right = ((*sp.shape[-2:], *sp.strides[-2:]) for sp in (x, y))
    batch, apart = (a.shape[0], (a.strides[0], b.strides[0])) if a.ndim == 3 else (1, (0, 0))
    known = products.product(code, left, right, batch, apart)
    if known is None:
        return None
    launch, address, n, numbers = known
    nbytes = out.numel * out.itemsize

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        launch(address, n, x._buf, y._buf, buf, numbers)
        return wrap(buf, out)

    return run


def _inner(a: Spec, b: Spec, out: Spec) -> Run:
    """Of two lines; long ones are cut as those that are summed."""
    n, d = a.numel, out.dtype
    count = -(-n // RUN) if n >= 2 * RUN else 1
    sums = out if count == 1 else spec(dtypes.float64, (count,))
    steps = (a.strides[0], b.strides[0])
    contiguous = n == 1 or steps == (1, 1)
    source, signature = reductions.inner(d.code, d.kind, sums.dtype.code, contiguous)
    name = f"dot_{d.code}_{sums.dtype.code}_{'runs' if contiguous else 'strided'}"
    address = build.kernel(name, source, signature, contract=True).address
    launch = backend.of(out.device).launch(4, "", n // 2 if count > 1 else 1, n < FEW)
    meta = np.array([n, RUN if count > 1 else n, *steps], np.int64).view(np.uint8)
    joined = reduction(SUM, sums, (0,), False, d, "f8") if count > 1 else None
    nbytes = sums.nbytes

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        launch(address, count, meta, buf, x._buf, y._buf)
        made = wrap(buf, sums)
        return made if joined is None else joined(made)

    return run


def _by_numpy(a: Spec, b: Spec, out: Spec) -> Run:
    kind, nbytes = out.dtype.np, out.numel * out.itemsize
    shape_a, shape_b, shape = tuple(a.shape), tuple(b.shape), tuple(out.shape)
    steps_a, steps_b = (tuple([s * sp.itemsize for s in sp.strides]) for sp in (a, b))
    multiply = products.alone(_matmul) if a.numel > _LONG else _matmul
    if out.dtype.is_floating_point:  # NumPy warns of what comes of infinities
        multiply = np.errstate(all="ignore")(multiply)

    def run(x: Tensor, y: Tensor) -> Tensor:
        buf = _empty(nbytes, _bytes)
        multiply(
            _array(shape_a, kind, x._buf, 0, steps_a),
            _array(shape_b, kind, y._buf, 0, steps_b),
            _array(shape, kind, buf),
        )
        return wrap(buf, out)

    return run


def _as_blas_reads(sp: Spec) -> Spec:
    """What the product reads in place of `sp`: no BLAS has float16 (and a sum is not rounded at each step), and where it cannot
    read the strides NumPy would do without it, in 20 times the time at 256 x 256."""
    if sp.dtype is dtypes.float16:
        sp = sp.like(dtype=dtypes.float32)
    return sp if _for_blas(sp) else spec(sp.dtype, sp.shape, None, sp.device)


def _copied(t: Tensor, sp: Spec, read: Spec) -> Tensor:
    """The memory of `t`, which lies as `sp`, as `read`."""
    if read is sp:
        return t
    out = empty(read)
    copy_memory(out, wrap(t._buf, sp))
    return out


def _turned(sp: Spec) -> Spec:
    """The matrices of `sp`, each read as its transpose."""
    if sp.ndim < 2:
        return sp
    *batch, rows, columns = sp.shape
    *steps, down, along = sp.strides
    return sp.like((*batch, columns, rows), (*steps, along, down))


def _for_blas(sp: Spec) -> bool:
    """One dimension of the matrix in steps of 1, the other in steps that skip no less than a row."""
    if sp.ndim == 1:
        return sp.strides[0] == 1 or sp.shape[0] == 1
    (rows, columns), (down, along) = sp.shape[-2:], sp.strides[-2:]
    return (along == 1 and down >= columns) or (down == 1 and along >= rows) or rows == columns == 1


# ---------------------------------------------------------------- what PyTorch refuses


def _word(sp: Spec) -> str:
    return sp.dtype.c_name


def _no_bool(name: str, a: Spec, b: Spec) -> None:
    if a.dtype is dtypes.bool_ and a.numel and b.numel:
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")


def _inner_sizes(a: Spec, b: Spec) -> None:
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )


def _check_mm(a: Spec, b: Spec) -> None:
    if a.ndim != 2:
        raise RuntimeError("self must be a matrix")
    if b.ndim != 2:
        raise RuntimeError("mat2 must be a matrix")
    _inner_sizes(a, b)
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {_word(a)} != {_word(b)}")
    _no_bool("addmm_impl_cpu_", a, b)


def _check_bmm(a: Spec, b: Spec, name: str = "bmm") -> None:
    if a.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    if b.ndim != 3:
        raise RuntimeError("batch2 must be a 3D tensor")
    if a.shape[0] != b.shape[0] or a.shape[2] != b.shape[1]:
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{a.shape[0]}, {a.shape[2]}] but got: "
            f"[{b.shape[0]}, {b.shape[1]}]."
        )
    # From 400 products on PyTorch multiplies matrix by matrix.
    _no_bool(name if a.shape[1] * a.shape[2] * b.shape[2] < 400 else "addmm_impl_cpu_", a, b)
    if a.dtype is not b.dtype and a.numel and b.numel:
        raise RuntimeError(f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}")


def _check_mv(a: Spec, b: Spec) -> None:
    _check_addmv(None, a, b)


def _check_addmv(c: Spec | None, a: Spec, b: Spec) -> None:
    added = c if c is not None else b  # without an addend PyTorch makes one, of the vector's dtype
    dims = (1 if c is None else c.ndim, a.ndim, b.ndim)
    if dims[0] > 1 or dims[1:] != (2, 1):
        raise RuntimeError(f"vector + matrix @ vector expected, got {dims[0]}, {dims[1]}, {dims[2]}")
    rows = a.shape[0] if c is None or not c.ndim else c.shape[0]
    if a.shape[1] != b.shape[0] or rows not in (1, a.shape[0]):
        raise RuntimeError(
            f"size mismatch, got input ({rows}), mat ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
        )
    if not added.dtype is a.dtype is b.dtype:
        names = ", ".join(sp.dtype.scalar_name for sp in (added, a))
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {names}, and {b.dtype.scalar_name}"
        )
    _no_bool("addmv_impl_cpu", a, b)


def _check_dot(a: Spec, b: Spec) -> None:
    if a.ndim != 1 or b.ndim != 1:
        raise RuntimeError(f"1D tensors expected, but got {a.ndim}D and {b.ndim}D tensors")
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"dot : expected both vectors to have same dtype, but found {a.dtype.scalar_name} and {b.dtype.scalar_name}"
        )
    n, m = a.numel, b.numel
    if n != m:
        raise RuntimeError(
            f"inconsistent tensor size, expected tensor [{n}] and src [{m}] to have the same number of elements, but "
            f"got {n} and {m} elements respectively"
        )
    if a.dtype is dtypes.bool_:
        raise NotImplementedError("\"dot\" not implemented for 'Bool'")


def _refuse(name: str, words: Sequence[str], values: Sequence[Any]) -> None:
    for k, (word, value) in enumerate(zip(words, values, strict=True)):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{word}' (position {k + 1}) must be Tensor, not {type(value).__name__}"
            )


def _refuse_words(name: str, **numbers: Any) -> None:
    for word, value in numbers.items():
        if number_type(value) is None:
            raise TypeError(f"{name}(): argument '{word}' must be Number, not {type(value).__name__}")


def _into(
    name: str, out: Any, result: Tensor, inputs: Sequence[Tensor], apart: Sequence[Tensor] = ()
) -> Tensor:
    """`out=` of a product is of the result's very dtype; which words refuse another depends on which product it is."""
    if isinstance(out, Tensor) and out.dtype is not result.dtype:
        want, have = result._spec, out._spec
        vectors = {"dot": 2, "vdot": 2, "mv": 1}.get(name, 0)
        if name == "matmul":
            vectors = [t.ndim for t in inputs].count(1)
        if vectors == 2:
            raise RuntimeError(
                f"result dtype {have.dtype.scalar_name} does not match input dtype {want.dtype.scalar_name}"
            )
        batch = max(t.ndim for t in inputs) > 2  # PyTorch resizes `out` before it looks at it
        if vectors == 1 and (_folds(*inputs) if batch else (have.ndim < 2 and have.numel in (1, want.numel))):
            raise RuntimeError(
                f"addmv input tensors must have the same dtype, but got {have.dtype.scalar_name}, "
                f"{want.dtype.scalar_name}, and {want.dtype.scalar_name}"
            )
        if name == "inner":
            raise RuntimeError(
                f"tensordot: Expected the output tensor to have dtype {want.dtype.scalar_name}, but got an output tensor with dtype "
                f"{have.dtype.scalar_name}"
            )
        raise RuntimeError(f"Expected out tensor to have dtype {_word(want)}, but got {_word(have)} instead")
    if name == "matmul" and isinstance(out, Tensor) and [t.ndim for t in inputs] == [1, 2]:
        # PyTorch multiplies a row, and so warns of an `out` that fits.
        hooks.resize(empty(out._spec), (1, *result.shape))
    return into(name, out, result, inputs, apart=apart)


# ---------------------------------------------------------------- families of three


def _product(
    node: str,
    run: Run,
    input: Callable[..., Any],
    mat2: Callable[..., Any],
    batch: Callable[..., Any],
    second: str = "mat2",
) -> Run:
    """A product as an op, with the gradients of its two operands; `batch` is that of many examples, `second` PyTorch's name of the
    second operand."""

    def forward(input: Tensor, mat2: Tensor) -> Tensor:
        return run(input, mat2)

    op = Op(forward, {"input": input, "mat2": mat2}, node, PRODUCT, batch)
    op.public = {**op.public, "mat2": second}

    def product(a: Tensor, b: Tensor) -> Tensor:
        if state.active and transforms.wrapped((a, b)):
            return transforms.apply(op, product, (a, b), _NO_STATIC)
        out = run(a, b)
        if (a._rg or b._rg) and state.grad:
            record_op(op, out, (a, b), _NO_STATIC)
        return out

    product.run, product.op = run, op  # type: ignore[attr-defined]
    return product


def _family(node: str, check: Check) -> tuple[Run, Run, Run]:
    nn = _product(
        node,
        _known(check, "nn"),
        lambda g, mat2: nt(g, mat2),
        lambda g, input: tn(input, g),
        lambda has, a, b: _matrix_product(a, b),
    )
    nt = _product(
        node,
        _known(check, "nt"),
        lambda g, mat2: nn(g, mat2),
        lambda g, input: tn(g, input),
        lambda has, a, b: _matrix_product(a, b.mT),
    )
    tn = _product(
        node,
        _known(check, "tn"),
        lambda g, mat2: nt(mat2, g),
        lambda g, input: nn(input, g),
        lambda has, a, b: _matrix_product(a.mT, b),
    )
    return nn, nt, tn


def _mv_each(has: tuple[bool, bool], a: Tensor, b: Tensor) -> Tensor:
    if has == (False, True):
        return _mm_nt(b, a)
    return squeeze(_bmm(a, unsqueeze(b, -1)), -1) if has[1] else _matrix_product(a, b)


_mm, _mm_nt, _mm_tn = _family("MmBackward0", _check_mm)
_bmm, _bmm_nt, _bmm_tn = _family("BmmBackward0", _check_bmm)

_mv: Run = _product(
    "MvBackward0",
    _known(_check_mv, "nn"),
    lambda g, mat2: outer(g, mat2),
    lambda g, input: _mv(_t(input), g),
    _mv_each,
    "vec",
)
_dot, _vdot = (
    _product(
        node,
        _known(_check_dot, "nn"),
        lambda g, mat2: mul(g, mat2),
        lambda g, input: mul(g, input),
        lambda has, a, b: mul(a, b).sum(-1),
        second,
    )
    for node, second in (("DotBackward0", "tensor"), ("VdotBackward0", "other"))
)


def _called(
    name: str, words: tuple[str, str], product: Run, a: Tensor, b: Tensor, out: Tensor | None
) -> Tensor:
    try:
        result = product(a, b)
    except AttributeError:
        _refuse(name, words, (a, b))
        raise
    return result if out is None else _into(name, out, result, (a, b))


@method
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _called("mm", ("input", "mat2"), _mm, input, mat2, out)


@method
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _called("bmm", ("input", "mat2"), _bmm, input, mat2, out)


@method
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _called("mv", ("input", "vec"), _mv, input, vec, out)


@method
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _called("dot", ("input", "tensor"), _dot, input, tensor, out)


@method
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _called("vdot", ("input", "other"), _vdot, input, other, out)


# ---------------------------------------------------------------- products added to something


def _check_addmm(c: Spec, a: Spec, b: Spec) -> None:
    for name, sp in (("mat1", a), ("mat2", b)):
        if sp.ndim != 2:
            raise RuntimeError(f"{name} must be a matrix, got {sp.ndim}-D tensor")
    _inner_sizes(a, b)
    for name, sp in (("self", c), ("mat1", a)):
        if sp.dtype is not b.dtype:
            raise RuntimeError(
                f"{name} and mat2 must have the same dtype, but got {sp.dtype.scalar_name} and {b.dtype.scalar_name}"
            )
    _expandable(c, (a.shape[0], b.shape[1]))
    _addable_bool("addmm_impl_cpu_", a, b)


def _check_baddbmm(c: Spec, a: Spec, b: Spec) -> None:
    for sp, dim in ((a, 0), (a, 1), (b, 2)):  # of which the first operand's size is made
        layout.wrap_dim(dim, sp.ndim)
    _check_bmm(a, b, "baddbmm")
    _expandable(c, (*a.shape[:2], b.shape[2]))
    if c.dtype is not a.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {_word(c)}, batch1: {_word(a)}, batch2: {_word(b)}"
        )


def _addable_bool(name: str, a: Spec, b: Spec) -> None:
    """PyTorch multiplies by the int beta where there is no product to add to."""
    _no_bool(name, a, b)
    if a.dtype is dtypes.bool_ and a.shape[-2] and b.shape[-1]:
        raise RuntimeError("result type Long can't be cast to the desired output type Bool")


def _expandable(c: Spec, shape: tuple[int, ...]) -> None:
    try:
        layout.expand(c.shape, c.strides, shape)
    except RuntimeError as e:
        raise RuntimeError(str(e).replace("torch.FloatTensor", c.dtype.type_name)) from None


_blend = ElementwiseOp("blend", lambda total, input, alpha, beta: alpha * total + beta * input)
_ONES = {"beta": 1, "alpha": 1}


def _finish(total: Tensor, input: Tensor, beta: Any, alpha: Any) -> None:
    """`total = beta * input + alpha * total` where it stands. An `input` times 0 is not looked at: its NaN do not
    count."""
    number = float if total._spec.dtype.is_floating_point else int
    beta, alpha = number(beta), number(alpha)
    if beta == 0:
        plan = plan_for(mul.op, (total._spec, number), total._spec)
        plan.launch(plan.address, plan.n, total._buf, alpha)
    else:
        plan = plan_for(_blend, (total._spec, input._spec, number, number), total._spec)
        plan.launch(plan.address, plan.n, total._buf, input._buf, alpha, beta)


def _times(t: Tensor, number: Any) -> Tensor:
    return t if number == 1 else mul(t, number)


def _addend(g: Tensor, input_spec: Spec, beta: Any) -> Tensor:
    g = _times(g, beta)
    return g if g._spec.shape == input_spec.shape else hooks.sum_to(g, input_spec.shape)


def _adding(
    node: str, product: Any, turn: str, check: Callable[[Spec, Spec, Spec], None], first: Rule, second: Rule
) -> Any:
    """`beta * input + alpha * product` as an op; `first` and `second` are the rules of the product."""
    run = product.run
    plans: dict[tuple[Spec, Spec, Spec], tuple[Run, Plan]] = {}

    def forward(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
        key = (input._spec, mat1._spec, mat2._spec)
        found = plans.get(key)
        if found is None:
            check(key[0], key[1], _turned(key[2]) if turn == "nt" else key[2])
            if key[1].dtype is dtypes.float16:  # rounded once
                c, a, b = (to_dtype(t, dtypes.float32) for t in (input, mat1, mat2))
                return to_dtype(forward(c, a, b, beta, alpha), dtypes.float16)
            if len(plans) >= _KEPT:
                plans.clear()
            result = run(mat1, mat2)._spec
            found = plans[key] = (run.find(*key[1:]), plan_for(_add.op, (result, key[0]), result))
        multiply, plan = found
        out = multiply(mat1, mat2)
        if beta == 1 and alpha == 1:
            plan.launch(plan.address, plan.n, out._buf, input._buf)
        else:
            _finish(out, input, beta, alpha)
        return out

    def wrt_mat1(g: Tensor, mat2: Tensor, alpha: Any) -> Tensor:
        return _times(first(g, mat2), alpha)

    def wrt_mat2(g: Tensor, mat1: Tensor, alpha: Any) -> Tensor:
        return _times(second(g, mat1), alpha)

    def moved(
        input: Tensor,
        mat1: Tensor,
        mat2: Tensor,
        y: Tensor,
        input_t: Tensor | None,
        mat1_t: Tensor | None,
        mat2_t: Tensor | None,
        beta: Any,
        alpha: Any,
    ) -> Tensor:
        parts = [hooks.expand(_times(input_t, beta), y.shape)] if input_t is not None else []
        parts += [_times(product(mat1_t, mat2), alpha)] if mat1_t is not None else []
        parts += [_times(product(mat1, mat2_t), alpha)] if mat2_t is not None else []
        return reduce(add, parts)

    def each(
        has: tuple[bool, ...], input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any
    ) -> Tensor:
        out = product.op.batch(has[1:], mat1, mat2) if True in has[1:] else product(mat1, mat2)
        out = _times(out, alpha)
        if beta == 0:
            return out
        if has[0]:
            n, *shape = input.shape
            ndim = out.ndim - (True in has[1:])
            input = reshape(input, (n, *(1,) * (ndim - len(shape)), *shape))
        return add(out, _times(input, beta))

    op = Op(forward, {"input": _addend, "mat1": wrt_mat1, "mat2": wrt_mat2}, node, moved, each)

    def function(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
        if state.active and transforms.wrapped((input, mat1, mat2)):
            return transforms.apply(op, function, (input, mat1, mat2), {"beta": beta, "alpha": alpha})
        out = forward(input, mat1, mat2, beta, alpha)
        if (input._rg or mat1._rg or mat2._rg) and state.grad:
            record_op(
                op, out, (input, mat1, mat2), _ONES if beta == alpha == 1 else {"beta": beta, "alpha": alpha}
            )
        return out

    function.op, function.forward = op, forward  # type: ignore[attr-defined]
    return function


_addmm = _adding(
    "AddmmBackward0",
    _mm,
    "nn",
    _check_addmm,
    lambda g, mat2: _mm_nt(g, mat2),
    lambda g, mat1: _mm_tn(mat1, g),
)
_addmm_nt = _adding(
    "AddmmBackward0",
    _mm_nt,
    "nt",
    _check_addmm,
    lambda g, mat2: _mm(g, mat2),
    lambda g, mat1: _mm_tn(g, mat1),
)
_baddbmm = _adding(
    "BaddbmmBackward0",
    _bmm,
    "nn",
    _check_baddbmm,
    lambda g, mat2: _bmm_nt(g, mat2),
    lambda g, mat1: _bmm_tn(mat1, g),
)
_addmv = _adding(
    "AddmvBackward0",
    _mv,
    "nn",
    _check_addmv,
    lambda g, mat2: outer(g, mat2),
    lambda g, mat1: _mv(_t(mat1), g),
)


def _call_adding(
    name: str,
    words: tuple[str, str],
    op: Callable[..., Tensor],
    tensors: tuple[Tensor, Tensor, Tensor],
    beta: Any,
    alpha: Any,
    out: Tensor | None,
) -> Tensor:
    _refuse_words(name, beta=beta, alpha=alpha)
    try:
        result = op(*tensors, beta, alpha)
    except AttributeError:
        _refuse(name, ("input", *words), tensors)
        raise
    return result if out is None else _into(name, out, result, tensors, tensors[:1])


@method
def addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    return _call_adding("addmm", ("mat1", "mat2"), _addmm, (input, mat1, mat2), beta, alpha, out)


@method
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    return _call_adding("baddbmm", ("batch1", "batch2"), _baddbmm, (input, batch1, batch2), beta, alpha, out)


@method
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    return _call_adding("addmv", ("mat", "vec"), _addmv, (input, mat, vec), beta, alpha, out)


_BAD_IN_PLACE = "Bad in-place call: input tensor size {} and output tensor size {} should match"


def _in_place(op: Any, self: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> Tensor:
    if state.active and transforms.wrapped((self, a, b)):
        return transforms.inplace(op, self, a, b, beta=beta, alpha=alpha)
    check_write(self, state.grad and (requires(self) or requires(a) or requires(b)))
    shape = (*a.shape[:-1], *(b.shape[-1:] if b.ndim > 1 else ()))
    if self._spec.dtype is dtypes.bool_ and shape != self._spec.shape:
        raise RuntimeError(_BAD_IN_PLACE.format(list(self.shape), list(shape)))
    result = op.forward(self, a, b, beta, alpha)
    if result._spec.shape != self._spec.shape:
        raise RuntimeError(_BAD_IN_PLACE.format(list(self.shape), list(shape)))
    copy_memory(self, result)
    return written_by(self, op.op, (self, a, b), {"beta": beta, "alpha": alpha})


@method
def addmm_(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _in_place(_addmm, self, mat1, mat2, beta, alpha)


@method
def baddbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _in_place(_baddbmm, self, batch1, batch2, beta, alpha)


@method
def addmv_(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _in_place(_addmv, self, mat, vec, beta, alpha)


# ---------------------------------------------------------------- products made of those


def _shaped(node: str) -> Callable[[Tensor, tuple[int, ...]], Tensor]:
    """A product that nobody else has, in another shape: to the user no view. `node` is what PyTorch shows there."""

    def forward(input: Tensor) -> Tensor:
        raise AssertionError("recorded, never called")

    op = Op(forward, {"input": lambda g, input_spec: reshape(g, input_spec.shape)}, node)

    def shaped(t: Tensor, shape: tuple[int, ...]) -> Tensor:
        if state.active and transforms.wrapped((t,)):
            return reshape(t, shape)
        out = wrap(t._buf, spec(t.dtype, shape, None, t.device))
        if t._rg:
            record_op(op, out, (t,), {})
        return out

    return shaped


_unsafe_view, _view, _squeeze = map(_shaped, ("UnsafeViewBackward0", "ViewBackward0", "SqueezeBackward4"))


@method
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _called("matmul", ("input", "other"), _matrix_product, input, other, out)


def _matrix_product(a: Tensor, b: Tensor) -> Tensor:
    """Vectors, matrices and batches, which broadcast. As in PyTorch, a batch times a matrix is one tall product."""
    dims = a._spec.ndim, b._spec.ndim
    if dims == (2, 2):
        return _mm(a, b)
    if 0 in dims:
        raise RuntimeError(
            f"both arguments to matmul need to be at least 1D, but they are {dims[0]}D and {dims[1]}D"
        )
    if dims == (1, 1):
        return _dot(a, b)
    if dims == (2, 1):
        return _mv(a, b)
    if dims == (1, 2):
        return _squeeze(_mm(reshape(a, (1, a.shape[0])), b), (b.shape[1],))
    if _folds(a, b):
        return _folded(a, b) if dims[0] >= dims[1] else _folded_right(a, b)
    return _batched(a, b)


def _folds(a: Tensor, b: Tensor) -> bool:
    left = a.ndim >= b.ndim
    large, small = (a._spec, b) if left else (_turned(b._spec), a)
    if large.ndim < 3 or small.ndim > 2:
        return False
    if requires(small):
        return True  # else its gradient would be as large as the batch before it is summed
    if a.ndim == 2:
        return False
    shape, steps = large.shape, large.strides
    return not large.numel or all(steps[d] == steps[d + 1] * shape[d + 1] for d in range(large.ndim - 2))


def _rows(t: Tensor) -> Tensor:
    """All but the last dimension as one."""
    *lead, last = t.shape
    n = 1
    for size in lead:
        n *= size
    return reshape(t, (n, last))


def _folded(a: Tensor, b: Tensor) -> Tensor:
    lead = tuple(a.shape)[:-1]
    if b.ndim == 1:
        return _unsafe_view(_mv(_rows(a), b), lead)
    return _unsafe_view(_mm(_rows(a), b), (*lead, b.shape[1]))


def _folded_right(a: Tensor, b: Tensor) -> Tensor:
    turned = b.mT
    lead = tuple(turned.shape)[:-1]
    if a.ndim == 1:
        return _unsafe_view(_mv(_rows(turned), a), lead)
    out = _unsafe_view(_mm_nt(_rows(turned), a), (*lead, a.shape[0]))
    return out.mT.contiguous()


def _batched(a: Tensor, b: Tensor) -> Tensor:
    shape_a, shape_b = tuple(a.shape), tuple(b.shape)
    if len(shape_a) == len(shape_b) == 3 and shape_a[0] != shape_b[0]:
        if shape_a[0] == 1 and requires(a):
            return _matrix_product(reshape(a, shape_a[1:]), b)
        if shape_b[0] == 1 and requires(b):
            return _matrix_product(a, reshape(b, shape_b[1:]))
    matrix_a = shape_a[-2:] if len(shape_a) > 1 else (1, *shape_a)
    matrix_b = shape_b[-2:] if len(shape_b) > 1 else (*shape_b, 1)
    batch = tuple(layout.broadcast_shapes(shape_a[:-2], shape_b[:-2]))
    out = _bmm(_batch_of(a, batch, matrix_a), _batch_of(b, batch, matrix_b))
    rows = shape_a[-2:-1] if len(shape_a) > 1 else ()
    columns = shape_b[-1:] if len(shape_b) > 1 else ()
    return _unsafe_view(out, (*batch, *rows, *columns))


def _batch_of(t: Tensor, batch: tuple[int, ...], matrix: tuple[int, ...]) -> Tensor:
    if t.ndim == 1:
        t = reshape(t, matrix)
    if tuple(t.shape) != (*batch, *matrix):
        t = t.expand(*batch, *matrix)
    if len(batch) == 1:
        return t
    n = 1
    for size in batch:
        n *= size
    return reshape(t, (n, *matrix))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """`input @ weight.T + bias`; the weight is read as it lies."""
    if out is not None:
        return into("linear", out, linear(input, weight, bias), (input, weight, bias))
    try:
        a, w = input._spec, weight._spec
        if w.ndim == 2 and a.ndim == 2:
            return _mm_nt(input, weight) if bias is None else _addmm_nt(bias, input, weight)
        if bias is not None:
            bias._spec  # noqa: B018
    except AttributeError:
        _refuse(
            "linear", ("input", "weight", "bias"), (input, weight) if bias is None else (input, weight, bias)
        )
        raise
    if not a.ndim or not w.ndim:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {a.ndim}D and {w.ndim}D"
        )
    if w.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {w.ndim}D")
    if w.ndim == 1:
        if bias is None:
            return _matrix_product(input, weight)
        return _addmm_nt(bias, input, weight) if a.ndim == 2 else add(_matrix_product(input, weight), bias)
    shape = (*tuple(a.shape)[:-1], w.shape[0])
    if bias is not None and bias.ndim < 2 and a.contiguous:
        return _view(_addmm_nt(bias, _rows(input), weight), shape)
    product = (_unsafe_view if a.ndim > 1 else _squeeze)(_mm_nt(_rows(input), weight), shape)
    return product if bias is None else add(product, bias)


def _check_vector(name: str, word: str, t: Tensor) -> None:
    if t.ndim != 1:
        raise RuntimeError(f"{name}: Expected 1-D argument {word}, but got {t.ndim}-D")


@method
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _outer("outer", input, vec2, out)


@method
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _outer("ger", input, vec2, out)


def _outer(name: str, a: Tensor, b: Tensor, out: Tensor | None) -> Tensor:
    _refuse(name, ("input", "vec2"), (a, b))
    _check_vector("outer", "self", a)
    _check_vector("outer", "vec2", b)
    result = mul(reshape(a, (a.shape[0], 1)), b)
    return result if out is None else into(name, out, result, (a, b), apart=(a, b))


@method
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    return _called("inner", ("input", "other"), _inner_product, input, other, out)


def _inner_product(a: Tensor, b: Tensor) -> Tensor:
    if not a.ndim or not b.ndim:
        return mul(a, b)
    if a._spec.dtype is not b._spec.dtype:
        raise RuntimeError("both inputs should have same dtype")
    if a.shape[-1] != b.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(a.shape)} and {list(b.shape)}"
        )
    if a.ndim == b.ndim == 1:
        return _view(_dot(a, b), ())
    return _view(_mm_nt(_rows(a), _rows(b)), (*tuple(a.shape)[:-1], *tuple(b.shape)[:-1]))


def _operator(self: Tensor, other: Any) -> Any:
    return _matrix_product(self, other) if isinstance(other, Tensor) else NotImplemented


def _reflected(self: Tensor, other: Any) -> Any:
    return _matrix_product(other, self) if isinstance(other, Tensor) else NotImplemented


Tensor.__matmul__, Tensor.__rmatmul__ = _operator, _reflected

__all__ = ["addmm", "addmv", "baddbmm", "bmm", "dot", "ger", "inner", "matmul", "mm", "mv", "outer", "vdot"]
