"""Scans: as many elements out as in, each made of those before it.

The gradient of a running sum is a running sum from the other end. Those of running products and of running sums of exponentials are
the linear recurrence s[k] = b[k] + a[k] * s[k - 1] from the other end, whose own gradient is itself again: no division,
so that zeros and infinities need no care, and every order of derivative exists.
"""

from __future__ import annotations

from typing import Any

from nbgrad.base.tables import cached
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor, empty, requires
from nbgrad.core.writes import check_write, rebase, written
from nbgrad.dispatch.elementwise import check_out, differentiable, into
from nbgrad.dispatch.prepared import Run, call_of, filled, prepared, settled
from nbgrad.dispatch.return_types import EXPECTED, maker, results
from nbgrad.dispatch.stanza import method
from nbgrad.kernels.cpu import scan as templates
from nbgrad.kernels.launch import FEW
from nbgrad.memory import dtypes, layout
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.storage import Marked, Spec, spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.index.gather import scatter_add
from nbgrad.ops.reduce.reduction import SUM, asked_dtype, in_runs
from nbgrad.ops.reduce.walk import walk
from nbgrad.ops.views.copy import clone, clone_spec, copier, copy_, copy_memory, full, to_dtype, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.parts import by_parts
from nbgrad.ops.views.slices import narrow
from nbgrad.tape.modes import state


def _lanes(d: _dtype) -> str:
    return "f8" if d.inexact else "i8"


def _work(sp: Spec, items: int) -> int:
    return sp.numel if items > 1 else items if sp.numel else 0


def _scan(kind: str, sp: Spec, dim: int, reverse: bool = False) -> Run:
    if sp.dtype.is_complex and not sp.ndim:
        return copier(sp, sp.dense())
    if sp.dtype.is_complex and kind == "cumsum":
        return by_parts(lambda parts: _scan(kind, parts, dim, reverse), sp)
    d = sp.dtype if sp.dtype.inexact else dtypes.int64
    out = spec(d, tuple(sp.shape), None, sp.device)
    if sp.ndim and sp.strides[dim] == out.strides[dim] == 1 and sp.dtype in _ALONG.get(kind, ()):
        return _scan_along(kind, sp, out, dim, reverse)
    how = walk(tuple(sp.shape), dim, (out.strides, sp.strides), reverse)
    code, made = sp.dtype.code, d.code
    source, signature = templates.scan(kind, code, _lanes(d), made, how.width, how.together)
    name = f"{kind}_{code}_{made}{'_lines' if how.together else ''}"
    launch = sp.backend.launch(3, "", _work(sp, how.items), sp.numel < FEW)
    return filled(
        launch,
        sp.backend.kernel(name, source, signature).address,
        how.items,
        sp.backend.constants(how.meta),
        (out,),
    )


# Products of a few float64 by themselves leave their range where those with what came before them do not.
_ALONG = {
    "cumsum": {d for d in dtypes.all_dtypes if not (d.narrow or d.is_complex)},
    "cumprod": {d for d in dtypes.all_dtypes if not (d.narrow or d.is_complex or d is dtypes.float64)},
}
_RUN = 1 << 14  # elements that a thread takes of one long line


def _scan_along(kind: str, sp: Spec, out: Spec, dim: int, reverse: bool) -> Run:
    """Of lines whose elements are neighbours."""
    if kind == "cumsum" and sp.numel == tuple.__getitem__(sp.shape, dim) >= 2 * _RUN:
        return _scan_of_one(sp, out, reverse)
    how = walk(tuple(sp.shape), dim, (out.strides, sp.strides), reverse, wide=1, few=1)
    code, made = sp.dtype.code, out.dtype.code
    source, signature = templates.along(kind, code, _lanes(out.dtype), made, reverse)
    address = sp.backend.kernel(f"{kind}_{code}_{made}_along", source, signature).address
    launch = sp.backend.launch(3, "", _work(sp, how.items), sp.numel < FEW)
    return filled(launch, address, how.items, sp.backend.constants(how.meta), (out,))


def _scan_of_one(sp: Spec, out: Spec, reverse: bool) -> Run:
    """Running sums of one long line: the sums of its runs, the running sums of those, and from these on the elements of each run."""
    code, lanes, n = sp.dtype.code, _lanes(out.dtype), sp.numel
    parts = in_runs(SUM, sp, (n, 1), [], _RUN, lanes)
    count = -(-n // _RUN)
    ends = _scan(
        "cumsum", sp.like((count,), dtype=dtypes.float64 if lanes == "f8" else dtypes.int64), 0, reverse
    )
    source, signature = templates.along("cumsum", code, lanes, out.dtype.code, reverse, runs=True)
    address = sp.backend.kernel(f"cumsum_{code}_{out.dtype.code}_runs", source, signature).address
    launch, meta = sp.backend.launch(4, "", n), sp.backend.constants([_RUN, n])

    def run(t: Tensor) -> Tensor:
        got = empty(out)
        launch(address, count, meta, got._buf, t._buf, ends(parts(t))._buf)
        return got

    return run


# ---------------------------------------------------------------- running sums


@prepared("Cumsum", input=lambda g, dim, reverse: _cumsum(g, dim=dim, reverse=not reverse))
def _cumsum(input: Spec, *, dim: int, reverse: bool) -> Run:
    return _scan("cumsum", input, dim, reverse)


@prepared("Cumsum")
def _counts(input: Spec, *, dim: int) -> Run:
    """Of truth values and of smaller integers, in int64."""
    whole = clone_spec(input).like(dtype=dtypes.int64)
    convert, run = copier(input, whole), _scan("cumsum", whole, dim, False)
    return lambda t: run(convert(t))


def _dim(name: str, dim: Any, ndim: int) -> int:
    if type(dim) is not int and (not hasattr(dim, "__index__") or isinstance(dim, bool)):
        raise TypeError(f"{name}(): argument 'dim' (position 1) must be int, not {type(dim).__name__}")
    return dim if type(dim) is int and 0 <= dim < ndim else layout.wrap_dim(int(dim), ndim)


_FOUND = "expected scalar_type {want} but found {got}"


def _running(name: str, op: Any, input: Tensor, dim: Any, dtype: Any, out: Tensor | None, **more: Any) -> Any:
    d = asked_dtype(input, dtype, out)
    at = _dim(name, dim, input.ndim)
    if out is None and input._spec.dtype is d and (d.inexact or d is dtypes.int64):
        return call_of(op, input, dim=at, **more)
    of, counted = input._spec.dtype, op is _cumsum and d is dtypes.int64 and type(input._spec) is Spec
    if out is None and counted and not of.inexact and not of.kept:
        return call_of(_counts, input, dim=at)
    if d is dtypes.bool_ and input.ndim and input.numel():
        if out is not None:
            check_out(name, out, d, (input,), EXPECTED)
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
    got = to_dtype(op(to_dtype(input, d), dim=at, **more), d)
    return got if out is None else into(name, out, got, (input,), EXPECTED, apart=(input,))


@method
@settled
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Any:
    """The running sum along `dim`: each element becomes the sum of those up to it. Integers are summed in int64, unless `dtype` says in
    what. The gradient is the running sum of `g` from the other end.

    >>> torch.cumsum(torch.tensor([1, 2, 3]), dim=0)
    tensor([1, 3, 6])
    >>> torch.func.grad(lambda x: torch.cumsum(x, 0).sum())(torch.ones(3))
    tensor([3., 2., 1.])
    """
    return _running("cumsum", _cumsum, input, dim, dtype, out, reverse=False)


# ---------------------------------------------------------------- the linear recurrence


@cached(4096)
def _make_recurrence(sp: Spec, factor: Spec, dim: int, reverse: bool) -> Any:
    out = sp.dense()
    how = walk(tuple(sp.shape), dim, (out.strides, sp.strides, factor.strides), reverse)
    code = sp.dtype.code
    source, signature = templates.recurrence(code, "f8", how.width, how.together)
    address = sp.backend.kernel(
        f"recurrence_{code}{'_lines' if how.together else ''}", source, signature
    ).address
    launch = sp.backend.launch(4, "", _work(sp, how.items), sp.numel < FEW)
    meta = sp.backend.constants(how.meta)

    def scan(t: Tensor, a: Tensor) -> Tensor:
        got = empty(out)
        launch(address, how.items, meta, got._buf, t._buf, a._buf)
        return got

    return scan


def _shift(t: Tensor, dim: int, reverse: bool, value: float = 0.0) -> Tensor:
    """One place on along `dim` (back, if `reverse`), with `value` where nothing comes from."""
    if not t.ndim:
        return full(t._spec, value)
    n = tuple.__getitem__(t.shape, dim)
    shape = list(t.shape)
    shape[dim] = 1
    edge = full(t._spec.plain.like(tuple(shape)), value)
    parts = (narrow(t, dim, 1, n - 1), edge) if reverse else (edge, narrow(t, dim, 0, n - 1))
    return cat(parts, dim)


def _recurrence_rule(
    g: Tensor, factor: Tensor, y: Tensor, dim: int, reverse: bool, wanted: Any
) -> tuple[Tensor, Tensor | None]:
    back = _recurrence(g, _shift(factor, dim, not reverse), dim=dim, reverse=not reverse)
    return back, e.mul(back, _shift(y, dim, reverse)) if wanted[1] else None


@differentiable("LinearRecurrence", raw=True, all=_recurrence_rule)
def _recurrence(input: Tensor, factor: Tensor, *, dim: int, reverse: bool) -> Tensor:
    """s[k] = input[k] + factor[k] * s[k - 1]; from the other end if `reverse`."""
    got: Tensor = _make_recurrence(input._spec, factor._spec, dim, reverse)(input, factor)
    return got


# ---------------------------------------------------------------- running products and sums of exponentials


def _cumprod_rule(g: Tensor, input: Tensor, dim: int) -> Tensor:
    """The product of all before, times what all that follow make of their gradients."""
    if not g.numel():
        return g
    before = _shift(_cumprod(input, dim=dim), dim, False, 1.0)
    return e.mul(before, _recurrence(g, _shift(input, dim, True), dim=dim, reverse=True))


@prepared("Cumprod", input=_cumprod_rule)
def _cumprod(input: Spec, *, dim: int) -> Run:
    return _scan("cumprod", input, dim)


@method
@settled
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, out: Tensor | None = None) -> Any:
    """The running product along `dim`: each element becomes the product of those up to it. Integers are multiplied in int64, unless `dtype`
    says in what. The gradient needs no division, so that zeros do no harm.

    >>> torch.cumprod(torch.tensor([1, 2, 3, 4]), dim=0)
    tensor([ 1,  2,  6, 24])
    """
    return _running("cumprod", _cumprod, input, dim, dtype, out)


def _logcumsumexp_rule(g: Tensor, input: Tensor, y: Tensor, dim: int) -> Tensor:
    """exp(input[k] - y[j]) of all j from k on, as products of factors that are no more than 1."""
    if not g.numel():
        return g
    # As in PyTorch: beyond an infinity nothing is left for what is finite, and what an infinity gets is not known.
    none = full(y._spec.plain.like(()), float("-inf"))
    ratio = e.exp(e.where(e.isinf(y), none, e.sub(y, _shift(y, dim, True))))
    return e.mul(e.exp(e.sub(input, y)), _recurrence(g, ratio, dim=dim, reverse=True))


@prepared("Logcumsumexp", input=_logcumsumexp_rule)
def _logcumsumexp(input: Spec, *, dim: int) -> Run:
    return _scan("logcumsumexp", input, dim)


@method
@settled
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Any:
    """`log(cumsum(exp(input)))` along `dim`, computed so that nothing overflows.

    >>> torch.logcumsumexp(torch.tensor([1000.0, 1000.0]), dim=0)
    tensor([1000.0000, 1000.6932])
    """
    at = _dim("logcumsumexp", dim, input.ndim)
    if not input._spec.dtype.inexact:
        raise NotImplementedError(
            f"\"logcumsumexp_out_cpu\" not implemented for '{input._spec.dtype.scalar_name}'"
        )
    if out is None:
        return call_of(_logcumsumexp, input, dim=at)
    return into("logcumsumexp", out, _logcumsumexp(input, dim=at), (input,), _FOUND, apart=(input,))


# ---------------------------------------------------------------- running extremes


def _scan_extreme(word: str, sp: Spec, dim: int) -> Run:
    values = sp.dense()
    places = values.like(dtype=dtypes.int64)
    how = walk(tuple(sp.shape), dim, (values.strides, sp.strides))
    code = sp.dtype.code
    source, signature = templates.extreme(word, code, sp.dtype.kind, how.width, how.together)
    address = sp.backend.kernel(
        f"cum{word}_{code}{'_lines' if how.together else ''}", source, signature
    ).address
    launch = sp.backend.launch(4, "", _work(sp, how.items), sp.numel < FEW)
    return filled(launch, address, how.items, sp.backend.constants(how.meta), (values, places))


def _to_places(g: Any, y1: Tensor, input_spec: Spec, dim: int) -> Tensor:
    if not input_spec.ndim:
        return g[0]
    return scatter_add(zeros(input_spec.dense()), dim, y1, g[0])


@prepared("Cummax", result=maker("cummax"), input=_to_places)
def _cummax(input: Spec, *, dim: int) -> Run:
    return _scan_extreme("max", input, dim)


@prepared("Cummin", result=maker("cummin"), input=_to_places)
def _cummin(input: Spec, *, dim: int) -> Run:
    return _scan_extreme("min", input, dim)


def _running_extreme(name: str, op: Any, input: Tensor, dim: Any, out: Any) -> Any:
    at = _dim(name, dim, input.ndim)
    if input.ndim and input.numel():
        lacks_kernel(f"{name}_cpu", input._spec.dtype)
    elif input.is_complex() and out is None:  # PyTorch has nothing to compare
        return maker(name)((clone(input), zeros(input._spec.plain.dense().like(dtype=dtypes.int64))))
    if out is None:
        return call_of(op, input, dim=at)
    return results(name, op(input, dim=at), out, (input,), exact=_FOUND)


@method
@settled
def cummax(input: Tensor, dim: int, *, out: Any = None) -> Any:
    """The largest element so far along `dim` and its place, as `values` and `indices`; of equals the last place. Each value's gradient goes
    to its place.

    >>> torch.cummax(torch.tensor([1.0, 3.0, 2.0, 3.0]), dim=0)
    torch.return_types.cummax(
    values=tensor([1., 3., 3., 3.]),
    indices=tensor([0, 1, 1, 3]))
    """
    return _running_extreme("cummax", _cummax, input, dim, out)


@method
@settled
def cummin(input: Tensor, dim: int, *, out: Any = None) -> Any:
    """The smallest element so far along `dim` and its place, as `values` and `indices`; of equals the last place. Each value's gradient
    goes to its place.

    >>> torch.cummin(torch.tensor([3.0, 1.0, 2.0, 1.0]), dim=0)
    torch.return_types.cummin(
    values=tensor([3., 1., 1., 1.]),
    indices=tensor([0, 1, 1, 3]))
    """
    return _running_extreme("cummin", _cummin, input, dim, out)


# ---------------------------------------------------------------- in place


def _over(name: str, self: Tensor, dim: Any, dtype: Any, function: Any, **more: Any) -> Tensor:
    """`self` becomes the scan of what it was. Rules that read the input have a copy of it."""
    d, at = self._spec.dtype, _dim(name, dim, self.ndim)
    if dtype is not None and dtypes.to_dtype(dtype) is not d:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {d.name} and output tensor dtype {dtypes.to_dtype(dtype).name} "
            "should match"
        )
    if d is dtypes.bool_ and self.ndim and self.numel():
        raise NotImplementedError(f"\"{name}_out_cpu\" not implemented for 'Bool'")
    check_write(self, state.grad and requires(self))
    if type(self._spec) is Marked:
        return copy_(self, to_dtype(function(clone(self), dim=at, **more), d))
    result = to_dtype(function(clone(self) if name == "cumprod" else self, dim=at, **more), d)
    copy_memory(self, result)
    if result._node is None:
        written(self)
    else:
        rebase(self, result._node)
    return self


@method
def _t_cumsum_(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    return _over("cumsum", self, dim, dtype, _cumsum, reverse=False)


@method
def _t_cumprod_(self: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    return _over("cumprod", self, dim, dtype, _cumprod)


__all__ = ["cummax", "cummin", "cumprod", "cumsum", "logcumsumexp"]
