"""A product that is added to something: addmm and its family, forward and gradient."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from nbgrad.base.tables import PLANS, Table, cached
from nbgrad.core.op import ElementwiseOp, Op
from nbgrad.core.plan import Plan, number_type, plan_for
from nbgrad.core.tensor import Tensor, hooks, requires, wrap
from nbgrad.core.writes import check_write, written
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import apart, differentiable, into, quiet
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.dispatch.stanza import method
from nbgrad.history.record import record_op, written_by
from nbgrad.memory import dtypes, layout
from nbgrad.memory.storage import Spec
from nbgrad.ops.linear.blas import Adding, Rule, Run, _turned
from nbgrad.ops.linear.products import _bmm, _bmm_nt, _bmm_tn, _mm, _mm_nt, _mm_tn, _mv, outer
from nbgrad.ops.linear.refusals import (
    _check_addmv,
    _check_bmm,
    _inner_sizes,
    _into,
    _no_bool,
    _refuse,
    _refuse_words,
    _word,
)
from nbgrad.ops.pointwise.arithmetic import _add, mul
from nbgrad.ops.pointwise.numeric import _addcmul
from nbgrad.ops.pointwise.operators import add
from nbgrad.ops.views.copy import clone, copy_memory, in_place, to_dtype
from nbgrad.ops.views.order import _permute, _t
from nbgrad.ops.views.shape import expand, reshape, unsqueeze
from nbgrad.tape.modes import state


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
    _expandable(c, (*a.shape[:2], b.shape[2]))
    _check_bmm(a, b, "baddbmm")
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
_NUMBERS = (int, int, float, complex)  # by a dtype's category


def _fitting(number: Any, d: dtypes.dtype) -> Any:
    """A complex number as one that a real product is multiplied by."""
    return dtypes.fitting(number, d) if isinstance(number, complex) else number


def _finish(total: Tensor, input: Tensor, beta: Any, alpha: Any) -> None:
    """`total = beta * input + alpha * total` where it stands. An `input` times 0 is not looked at: its NaN do not
    count."""
    number = _NUMBERS[total._spec.dtype.category]
    beta, alpha = (number(_fitting(n, total._spec.dtype)) for n in (beta, alpha))
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
    plans: Table[tuple[Spec, Spec, Spec], tuple[Adding | None, Run, Plan]] = Table(
        "ops.linear.sums_of_products.plans", PLANS
    )
    plan_of = plans.get

    def forward(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
        key = (input._spec, mat1._spec, mat2._spec)
        found = plan_of(key)
        if found is None:
            check(key[0], key[1], _turned(key[2]) if turn == "nt" else key[2])
            if key[1].dtype.narrow:  # rounded once
                c, a, b = (to_dtype(t, dtypes.float32) for t in (input, mat1, mat2))
                return to_dtype(forward(c, a, b, beta, alpha), key[1].dtype)
            result = run(mat1, mat2)._spec
            plan = plan_for(_add.op, (result, key[0]), result)
            found = plans.keep(key, (run.adding(*key), run.find(*key[1:]), plan))
        at_once, multiply, plan = found
        if beta == 1 and alpha == 1 and at_once is not None:
            return at_once(mat1, mat2, input)
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
    op.turned = "mat2" if turn == "nt" else None

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
    """`beta * input + alpha * (mat1 @ mat2)`; `input` is broadcast to the product's shape. With `beta=0` it is not looked at, and its NaN
    do not count. The gradients are `beta * g`, `alpha * (g @ mat2.T)` and `alpha * (mat1.T @ g)`.

    >>> torch.addmm(torch.tensor([1.0, 2.0]), torch.ones(2, 3), torch.ones(3, 2), alpha=10)
    tensor([[31., 32.],
            [31., 32.]])
    """
    return _call_adding("addmm", ("mat1", "mat2"), _addmm, (input, mat1, mat2), beta, alpha, out)


@method
def baddbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """`beta * input + alpha * bmm(batch1, batch2)`; `input` is broadcast to the product's shape. With `beta=0` it is not looked at, and its
    NaN do not count.

    >>> torch.baddbmm(torch.tensor([1.0]), torch.ones(1, 2, 3), torch.ones(1, 3, 2), beta=5)
    tensor([[[8., 8.],
             [8., 8.]]])
    """
    return _call_adding("baddbmm", ("batch1", "batch2"), _baddbmm, (input, batch1, batch2), beta, alpha, out)


@method
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """`beta * input + alpha * (mat @ vec)`; `input` is broadcast to the product's shape. With `beta=0` it is not looked at, and its NaN do
    not count.

    >>> torch.addmv(torch.tensor([1.0, 2.0]), torch.ones(2, 3), torch.ones(3), alpha=10)
    tensor([31., 32.])
    """
    return _call_adding("addmv", ("mat", "vec"), _addmv, (input, mat, vec), beta, alpha, out)


_BAD_IN_PLACE = "Bad in-place call: input tensor size {} and output tensor size {} should match"


@cached(PLANS)
def _has_room(sp: Spec, a: Spec, b: Spec) -> bool:
    """Whether a product of what lies so has the shape of the first, and may be written there."""
    shape = (*tuple(a.shape)[:-1], *(tuple(b.shape)[-1:] if b.ndim > 1 else ()))
    return tuple(sp.shape) == shape and sp.dtype is not dtypes.bool_ and not sp.repeats


def _in_place(op: Any, function: Any, self: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any) -> Tensor:
    if _has_room(self._spec, a._spec, b._spec) and quiet(self, a, b):
        copy_memory(self, function(self, a, b, beta=beta, alpha=alpha))
        written(self)
        return self
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
    return _in_place(_addmm, addmm, self, mat1, mat2, beta, alpha)


@method
def baddbmm_(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _in_place(_baddbmm, baddbmm, self, batch1, batch2, beta, alpha)


@method
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return _in_place(_addmv, addmv, input, mat, vec, beta, alpha)


# ---------------------------------------------------------------- sums over outer products, and over a batch


@differentiable(
    "Addr",
    input=_addend,
    vec1=lambda g, vec2, alpha: _times(_mv(g, vec2), alpha),
    vec2=lambda g, vec1, alpha: _times(_mv(g.t(), vec1), alpha),
)
def _addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any, alpha: Any) -> Tensor:
    product = _times(mul(unsqueeze(vec1, 1), vec2), alpha)
    if beta == 0:  # an input times 0 is not looked at: its NaN do not count
        return clone(product)
    return add(_times(input, beta), product)


def _quick_addr(input: Spec, vec1: Spec, vec2: Spec, *, beta: Any, alpha: Any, out: Any) -> Quick | None:
    """Of one dtype, added as they are."""
    alike = input.dtype is vec1.dtype is vec2.dtype and input.dtype.is_floating_point
    if out is not None or beta != 1 or alpha != 1 or not alike or input.dtype.narrow:
        return None
    (rows,), (step,) = vec1.shape, vec1.strides
    column = vec1.like((rows, 1), (step, 1))
    return lambda t, x, y: _addcmul(t, wrap(x._buf, column), y, 1)


@method
@quickly(_quick_addr, devices=True)
def addr(
    input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`; `input` is broadcast to the product's shape.

    >>> torch.addr(torch.ones(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0]))
    tensor([[ 2., 11.],
            [ 3., 21.]])
    """
    for word, t in (("vec1", vec1), ("vec2", vec2)):
        if t.ndim != 1:
            raise RuntimeError(f"addr: Expected 1-D argument {word}, but got {t.ndim}-D")
    d = reduce(dtypes.promote_types, (t.dtype for t in (input, vec1, vec2)))
    for word, number in (("beta", beta), ("alpha", alpha)):
        if not d.inexact and number_type(number) in (float, complex):
            raise RuntimeError(
                f"For integral input tensors, argument {word} must not be a floating point number."
            )
        if d is not dtypes.bool_ and number_type(number) is bool:
            raise RuntimeError(f"Boolean {word} only supported for Boolean results.")
    if d is dtypes.bool_:
        beta, alpha = bool(beta), bool(alpha)
    shape, beta, alpha = (vec1.shape[0], vec2.shape[0]), _fitting(beta, d), _fitting(alpha, d)
    expand(input, shape)
    operands = [to_dtype(t, d) for t in (input, vec1, vec2)]
    result = _addr(*operands, beta=beta, alpha=alpha)
    inputs = (input, vec1, vec2)
    return result if out is None else into("addr", out, result, inputs, apart=inputs)


_ADDBMM_OUT = "self and mat2 must have the same dtype, but got {got} and {want}"


def _addbmm_back(g: Tensor, other: Tensor, alpha: Any, second: bool) -> Tensor:
    wide = expand(g, (other.shape[0], *g.shape))
    return _times(_bmm(other.mT, wide) if second else _bmm(wide, other.mT), alpha)


@differentiable(
    "Addbmm",
    input=_addend,
    batch1=lambda g, batch2, alpha: _addbmm_back(g, batch2, alpha, False),
    batch2=lambda g, batch1, alpha: _addbmm_back(g, batch1, alpha, True),
)
def _addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any, alpha: Any) -> Tensor:
    n, rows, inner = batch1.shape
    wide = reshape(_permute(batch1, dims=(1, 0, 2)), (rows, n * inner))
    return _addmm(input, wide, reshape(batch2, (n * inner, batch2.shape[2])), beta, alpha)


@method
@replayed
def addbmm(
    input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Tensor | None = None
) -> Tensor:
    """`beta * input + alpha * bmm(batch1, batch2).sum(0)`: the products of all pairs of a batch, added up; `input` is broadcast to their
    shape.

    >>> torch.addbmm(torch.zeros(2, 2), torch.ones(5, 2, 3), torch.ones(5, 3, 2))
    tensor([[15., 15.],
            [15., 15.]])
    """
    layout.wrap_dim(1, batch1.ndim)
    layout.wrap_dim(2, batch2.ndim)
    if batch1.ndim != 3:
        raise RuntimeError("batch1 must be a 3D tensor")
    wide = expand(input, (batch1.shape[1], batch2.shape[layout.wrap_dim(2, batch2.ndim)]))
    if batch1.shape[0] != batch2.shape[0]:
        raise RuntimeError(
            f"batch1 and batch2 must have same number of batches, got {batch1.shape[0]} and {batch2.shape[0]}"
        )
    if batch1.shape[2] != batch2.shape[1]:
        sizes = [f"{t.shape[1]}x{t.shape[2]}" for t in (batch1, batch2)]
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({sizes[0]} and {sizes[1]})")
    result = _addbmm(wide, batch1, batch2, beta=beta, alpha=alpha)
    if out is None:
        return result
    return into("addbmm", out, result, (input, batch1, batch2), _ADDBMM_OUT, apart=(input,))


in_place(addr, apart)
in_place(addbmm)

__all__ = ["addbmm", "addmm", "addmv", "addmv_", "addr", "baddbmm"]
