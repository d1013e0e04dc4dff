"""Random numbers as tensors and into tensors: what PyTorch draws besides `rand` and its kin, in the same order from the same stream.

Promises users PyTorch's distributions under PyTorch's names. To autograd a drawn number depends on nothing: where a write is recorded, the
gradient of what was there is zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import log1p, prod
from typing import Any

import numpy as np

from nbgrad.base.switches import compiling
from nbgrad.base.tables import DEFAULT_DTYPE, PLANS, Table, cached
from nbgrad.core.arguments import before_guard, placed, unset
from nbgrad.core.op import Op
from nbgrad.core.overrides import plain_types
from nbgrad.core.refusals import lacks_kernel
from nbgrad.core.tensor import Tensor, empty, hooks, requires, wrap
from nbgrad.core.writes import check_write, written
from nbgrad.dispatch.elementwise import differentiable, quiet
from nbgrad.dispatch.quick import Quick, quickly
from nbgrad.dispatch.stanza import method, stanza
from nbgrad.dispatch.transforms import batched, innermost, tangent_of
from nbgrad.expr import loops as q
from nbgrad.history.record import written_by
from nbgrad.kernels.cpu import counts
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.device import elsewhere
from nbgrad.memory.storage import Batched, Spec
from nbgrad.ops import pointwise as e
from nbgrad.ops.host.values import of_array
from nbgrad.ops.make import devices, factories, filled
from nbgrad.ops.make import drawn as drawn_ops
from nbgrad.ops.make import generator as _random
from nbgrad.ops.make.drawn import generator_of
from nbgrad.ops.make.factories import _signed_zero
from nbgrad.ops.order.scan import cumsum
from nbgrad.ops.order.sort import searchsorted, topk
from nbgrad.ops.reduce.extremes import argmax
from nbgrad.ops.reduce.sums import everywhere
from nbgrad.ops.views.copy import copier, copy_, copy_memory, to_dtype, zero_, zeros
from nbgrad.ops.views.order import _permute
from nbgrad.ops.views.shape import broadcast_to, reshape
from nbgrad.tape.modes import state

Array = np.ndarray[Any, Any]


# ---------------------------------------------------------------- in place


def _nothing(input: Tensor) -> Tensor:
    raise AssertionError("a write is recorded, not called")


def _write_of(node_name: str) -> Op:
    return Op(_nothing, {"input": lambda g: zeros(g._spec.dense())}, node_name)


There = Callable[[Tensor], Tensor]


def _drawn_into(self: Tensor, op: Op, draw: Callable[[int], Array], there: There) -> Tensor:
    """Write over all of `self` what is drawn, which no tangent moves."""
    _draw_into(self, op, draw, there)
    for k in state.duals:
        moved = tangent_of(self, k)
        if moved is not None:
            zero_(moved)
    return self


def _draw_into(self: Tensor, op: Op, draw: Callable[[int], Array], there: There) -> Tensor:
    """Write over all of `self` what `draw` gives for so many numbers, or on a GPU what `there` fills a contiguous tensor with, in the
    order in which its elements lie in memory."""
    check_write(self, state.grad and requires(self))
    if state.levels:
        generator_of(None)  # refuses, where random numbers are
        if type(self._buf) is Batched and self._buf.has:
            _draw_examples(self, op, draw, there)
            return written_by(self, op, (self,), {})
        if any(level.randomness == "different" for level in state.levels):
            raise RuntimeError(
                "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. If "
                "this is necessary for your usage, please file an issue with functorch."
            )
    if not self._spec.backend.holds:
        return written_by(self, op, (self,), {})
    if not self._spec.backend.prompt and self._spec.contiguous:
        there(self)
        return written_by(self, op, (self,), {})
    order = sorted(range(self.ndim), key=lambda d: -self._spec.strides[d])
    sizes = tuple([tuple.__getitem__(self.shape, d) for d in order])
    drawn = _drawn_as(self._spec.like(sizes), draw, there)
    if order != [*range(self.ndim)]:
        drawn = _permute(drawn, dims=tuple([order.index(d) for d in range(self.ndim)]))
    copy_memory(self, drawn)
    return written_by(self, op, (self,), {})


def _drawn_as(sp: Spec, draw: Callable[[int], Array], there: There) -> Tensor:
    """A new tensor of what is drawn."""
    if sp.backend.prompt:
        drawn, shape = draw(sp.numel), tuple(sp.shape)
        if len(shape) > 64:  # which an array has at most
            return reshape(of_array(drawn), shape)
        return of_array(drawn.reshape(shape))
    return there(empty(sp))


def _draw_examples(self: Tensor, op: Op, draw: Callable[[int], Array], there: There) -> None:
    inner = self._buf.inner
    if self._buf.level.randomness == "same":
        one = _drawn_as(self._spec.dense(), draw, there)
        copy_(inner, broadcast_to(one, tuple(inner.shape)))
    else:
        before, state.levels = state.levels, state.levels[: self._buf.level.index]
        try:
            _drawn_into(inner, op, draw, there)
        finally:
            state.levels = before


def _real(self: Tensor, refusal: str, error: type[Exception] = NotImplementedError) -> None:
    d = self._spec.dtype
    if not d.is_floating_point:
        raise error(refusal.format(d.scalar_name))


_FEW = 4096  # elements that one launch fills while it keeps Python's lock


def _quick(
    few: Callable[..., _random.Draw | None],
    kinds: tuple[type, ...] = (float, int),
    trials: Callable[..., Tensor] | None = None,
) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    """A method that draws with a short way in front: `few(spec, *numbers)` is what fills few elements by the default generator, and is
    kept for numbers, of these kinds, with which the method has drawn before. Of a tensor, `trials` is asked."""

    def before(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
        known: Table[Any, _random.Draw] = Table("ops.make.sampling.known", PLANS)
        find = known.get

        def short(self: Tensor, *args: Any, generator: Any = None, **more: Any) -> Tensor:
            if (
                trials is not None
                and len(args) == 1
                and type(args[0]) is Tensor
                and not more
                and generator is None
            ):
                return trials(slow, self, args[0])
            if more or generator is not None or type(self) not in plain_types or not quiet(self):
                return slow(self, *args, generator=generator, **more)
            for x in args:
                if x.__class__ not in kinds or (not x and _signed_zero(args)):
                    return slow(self, *args)
            sp = self._spec
            draw = find((sp, *args))
            if draw is not None:
                draw(self._buf)
                written(self)
                return self
            slow(self, *args)
            if type(sp) is Spec and sp.contiguous and 0 < sp.numel <= _FEW and sp.backend is backend.cpu:
                draw = few(sp, *args)
                if draw is not None:
                    known.keep((sp, *args), draw)
            return self

        return short

    return partial(before_guard, before)


_uniform, _normal = _write_of("UniformBackward0"), _write_of("NormalBackward0")
_random_all, _random_to, _random_range = (_write_of(f"RandomBackward{n}") for n in (2, 1, 0))
_bernoulli_by, _bernoulli_each = _write_of("BernoulliBackward2"), _write_of("BernoulliBackward1")
_exponential, _cauchy = _write_of("ExponentialBackward0"), _write_of("CauchyBackward0")
_geometric, _log_normal = _write_of("GeometricBackward0"), _write_of("LogNormalBackward0")


@method
@_quick(lambda sp, low=0, high=1: _random.few_units(sp, float(low), float(high)))
def uniform_(self: Tensor, from_: float = 0, to: float = 1, *, generator: Any = None, **named: Any) -> Tensor:
    """Fills the tensor with numbers drawn uniformly from `from` (0) up to, but without, `to` (1).

    >>> torch.empty(3).uniform_(2, 4)
    tensor([2.9925, 3.5364, 2.1770])
    """
    low = named.pop("from", from_)  # a word of Python's, so no parameter can be called so
    d = self._spec.dtype
    return _drawn_into(
        self,
        _uniform,
        lambda n: _random.uniform(generator_of(generator), n, d, float(low), float(to)),
        lambda t: devices.uniform(t, generator, float(low), float(to)),
    )


@method
@_quick(lambda sp, mean=0, std=1: _random.few_normals(sp, float(mean), float(std)))
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Any = None) -> Tensor:
    """Fills the tensor with numbers drawn from the normal distribution of this `mean` and deviation `std`.

    >>> torch.empty(3).normal_(10, 2)
    tensor([13.0820,  9.4131,  5.6424])
    """
    blocks = self._spec.contiguous
    return _drawn_into(
        self,
        _normal,
        lambda n: _random.normal(
            generator_of(generator), n, self._spec.dtype, float(mean), float(std), blocks
        ),
        lambda t: devices.normal(t, generator, float(mean), float(std)),
    )


_NO_BOUNDS = "check_random_bounds handles only integral, floating-point and boolean types"
_ALONE: Any = ...  # what is not given, where None says something


def _few_random(sp: Spec, *bounds: int) -> _random.Draw | None:
    low, high = bounds if len(bounds) == 2 else (0, *bounds) if bounds else (0, 0)
    return _random.few_integers(sp, low, high) if bounds else _random.few_random(sp)


@method
@_quick(_few_random, (int,))  # 10.0 is refused, and is 10 to a table
def random_(
    self: Tensor, from_: int | None = None, to: Any = _ALONE, *, generator: Any = None, **named: Any
) -> Tensor:
    """Fills the tensor with integers: as many as the dtype holds, below a bound, or from one to another (None: to the greatest there is).

    >>> torch.empty(3).random_(2, 9)
    tensor([6., 5., 2.])
    """
    low, d = named.pop("from", from_), self._spec.dtype
    if d.is_complex and (low is not None or to is not _ALONE):
        raise RuntimeError(_NO_BOUNDS)
    lacks_kernel("random_kernel_cpu", d)
    if low is None and to is _ALONE:
        return _drawn_into(
            self,
            _random_all,
            lambda n: _random.random(generator_of(generator), n, d),
            lambda t: devices.random(t, generator),
        )
    if low is None or to is _ALONE:  # one number, by whatever name, is where they end
        op, first, high = _random_to, 0, to if low is None else low
    else:
        op, first, high = _random_range, low, _random.greatest(d) + 1 if to is None else to
    return _drawn_into(
        self,
        op,
        lambda n: _random.randint(generator_of(generator), first, high, n, d),
        lambda t: devices.randint(t, generator, first, high),
    )


_by_chances: Table[Spec, Any] = Table("ops.make.sampling.chances", PLANS)


def _trials_into(slow: Callable[..., Tensor], self: Tensor, p: Tensor) -> Tensor:
    """A trial for each chance of a tensor that lies as the one that is written to."""
    sp = self._spec
    if p._spec is not sp or type(self) is not Tensor or not quiet(self):
        return slow(self, p)
    draw = _by_chances.get(sp)
    if draw is None:
        if type(sp) is Spec and sp.contiguous and sp.numel <= _FEW and sp.backend is backend.cpu:
            draw = _random.few_trials(sp)
            if draw is not None:
                _by_chances.keep(sp, draw)
        return slow(self, p)
    memory = draw(p._buf)
    if memory is None:
        return slow(self, p)
    self._buf[: sp.nbytes] = memory[: sp.nbytes]
    written(self)
    return self


@method
@_quick(lambda sp, p=0.5: _random.few_of("bernoulli", sp, float(p)), trials=_trials_into)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Fills the tensor with 1 where a trial succeeds and with 0 elsewhere: `p` is the chance, a number or a tensor that broadcasts.

    >>> torch.empty(4).bernoulli_(0.5)
    tensor([0., 0., 1., 0.])
    """
    if not isinstance(p, Tensor):
        lacks_kernel("bernoulli_scalar_cpu_", self._spec.dtype)
        return _drawn_into(
            self,
            _bernoulli_by,
            lambda n: _random.bernoulli(generator_of(generator), float(p), n).astype(self._spec.dtype.host),
            lambda t: devices.bernoulli(t, generator, float(p)),
        )
    lacks_kernel("bernoulli_tensor_cpu_self_", self._spec.dtype)
    _real(p, "\"bernoulli_tensor_cpu_p_\" not implemented for '{}'")
    if state.levels:
        _apart(p)  # refuses
        return copy_(self, to_dtype(_trials(self.shape, p.detach(), generator), self.dtype))
    chances = broadcast_to(p.detach(), self.shape)
    return _drawn_into(
        self,
        _bernoulli_each,
        lambda n: _random.bernoulli(generator_of(generator), _as_memory(chances, self)._host()).astype(
            self._spec.dtype.host
        ),
        lambda t: devices.bernoulli_each(t, generator, chances if t is self else _as_memory(chances, self)),
    )


def _trials(shape: Sequence[int], chances: Tensor, generator: Any) -> Tensor:
    """Within a vmap: where trials succeed."""
    d = dtypes.float64 if chances.dtype is dtypes.float64 else dtypes.float32
    draws = drawn_ops.rand(shape, dtype=d, device=chances.device, generator=generator)
    return e.lt(draws, chances)


def _as_memory(chances: Tensor, self: Tensor) -> Tensor:
    """The chances in the order in which the elements of `self` lie in memory, in which trials are drawn."""
    return _permute(chances, dims=tuple(sorted(range(self.ndim), key=lambda d: -self._spec.strides[d])))


@method
@_quick(lambda sp, lambd=1: _random.few_of("exponential", sp, float(lambd)))
def exponential_(self: Tensor, lambd: float = 1, *, generator: Any = None) -> Tensor:
    """Fills the tensor with numbers drawn with the density `lambd * exp(-lambd * x)` of x above 0, whose mean is `1 / lambd`.

    >>> torch.empty(3).exponential_(2)
    tensor([1.7542, 0.6152, 0.3075])
    """
    _real(
        self,
        "Exponential distribution is a continuous probability distribution. dtype must be a floating point but you "
        "specified {}",
        RuntimeError,
    )
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    return _drawn_into(
        self,
        _exponential,
        lambda n: _random.exponential(generator_of(generator), n, float(lambd)),
        lambda t: devices.exponential(t, generator, float(lambd)),
    )


@method
@_quick(lambda sp, median=0, sigma=1: _random.few_of("cauchy", sp, float(median), float(sigma)))
def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Any = None) -> Tensor:
    """Draws each element anew, by Cauchy's distribution: half of them are within `sigma` of `median`, and they have no mean.

    >>> torch.empty(3).cauchy_()
    tensor([10.5977,  0.7648, -0.1283])
    """
    if not self._spec.dtype.is_floating_point:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. dtype must be a floating point but you "
            f"specified {self._spec.dtype.c_name}"
        )
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    return _drawn_into(
        self,
        _cauchy,
        lambda n: _random.cauchy(generator_of(generator), n, float(median), float(sigma)),
        lambda t: devices.cauchy(t, generator, float(median), float(sigma)),
    )


@method
@_quick(lambda sp, mean=1, std=2: _random.few_normals(sp, float(mean), float(std), log=True))
def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Any = None) -> Tensor:
    """Fills the tensor with `exp` of numbers drawn from the normal distribution of this `mean` and deviation `std`.

    >>> torch.empty(3).log_normal_(0, 1)
    tensor([4.6692, 0.7457, 0.1132])
    """
    _real(self, "\"log_normal_cpu\" not implemented for '{}'")
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    return _drawn_into(
        self,
        _log_normal,
        lambda n: _random.log_normal(generator_of(generator), n, float(mean), float(std)),
        lambda t: devices.log_normal(t, generator, float(mean), float(std)),
    )


@method
@_quick(lambda sp, p: _random.few_of("geometric", sp, log1p(-p)))
def geometric_(self: Tensor, p: float, *, generator: Any = None) -> Tensor:
    """Fills the tensor with how many trials of chance `p` it takes to succeed once: k with the chance `p * (1 - p) ** (k - 1)`.

    >>> torch.empty(4).geometric_(0.5)
    tensor([1., 1., 2., 1.])
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    lacks_kernel("geometric_cpu", self._spec.dtype)
    if self._spec.dtype is dtypes.bool_:
        raise NotImplementedError("\"geometric_cpu\" not implemented for 'Bool'")
    return _drawn_into(
        self,
        _geometric,
        lambda n: _random.geometric(generator_of(generator), n, float(p)),
        lambda t: devices.geometric(t, generator, float(p)),
    )


# ---------------------------------------------------------------- of tensors


def _apart(*inputs: Tensor) -> tuple[Tensor, ...]:
    """The inputs of what draws by them. Within vmaps whose examples are to have different numbers each example has inputs of its own, also
    where one was given for all."""
    if not state.levels:
        return inputs
    generator_of(None)  # refuses, where random numbers are
    held, at = set(), list(inputs)
    while at:
        t = at.pop()
        if type(t._buf) is Batched:
            held |= {t._buf.level} if t._buf.has else set()
            at.append(t._buf.inner)
    if any(level.randomness == "same" for level in held):
        raise RuntimeError(
            "Vmap does not currently support same randomness with a batched tensor input. Please file an issue with functorch"
        )
    wanting = [k for k in state.levels if k.randomness == "different" and k not in held]
    if not wanting:
        return inputs
    none = filled.zeros([k.size for k in wanting], dtype=inputs[0].dtype, device=inputs[0].device)
    for level in wanting:
        none = batched(none, level)
    return e.add(inputs[0], none), *inputs[1:]


def _standard(like: Tensor, generator: Any) -> Tensor:
    return normal_(empty(like._spec.dense()), generator=generator)


@differentiable(
    "NormalBackward3",
    mean=lambda g, mean_spec: zeros(mean_spec.dense()),
    std=lambda g, std_spec: zeros(std_spec.dense()),
)
def _normal_both(mean: Tensor, std: Tensor, *, generator: Any) -> Tensor:
    drawn = _standard(e.add(mean, std), generator)
    return e.add(e.mul(drawn, std), mean)


@differentiable("NormalBackward1", input=lambda g, input_spec: zeros(input_spec.dense()))
def _normal_about(input: Tensor, *, std: float, generator: Any) -> Tensor:
    return e.add(e.mul(_standard(input, generator), std), input)


@differentiable("NormalBackward2", input=lambda g, input_spec: zeros(input_spec.dense()))
def _normal_by(input: Tensor, *, mean: float, generator: Any) -> Tensor:
    return e.add(e.mul(_standard(input, generator), input), mean)


def _place_of(*given: Any) -> Any:
    return next(t.device for t in given if isinstance(t, Tensor))


def _of_sizes(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Few numbers of one distribution, by the default generator, have a short way."""
    known: Table[Any, tuple[_random.Draw, Spec]] = Table("ops.make.sampling.normals", PLANS, DEFAULT_DTYPE)
    find = known.get

    def short(*args: Any, **more: Any) -> Tensor:
        given = placed(("mean", "std", "size"), args, more) if more else args
        if given is None or len(given) != 3 or given[2].__class__ is not tuple:
            return slow(*args, **more)
        for x in given[:2]:
            if (x.__class__ is not float and x.__class__ is not int) or (not x and _signed_zero(given)):
                return slow(*args, **more)
        for n in given[2]:
            if n.__class__ is not int:
                return slow(*args, **more)
        if state.active or state.levels or elsewhere.threads or compiling.thread is not None:
            return slow(*args, **more)
        found = find(given)
        if found is not None:
            return wrap(found[0](), found[1])
        t = slow(*args, **more)
        if type(t._spec) is Spec and 0 < t._spec.numel <= _FEW and t._spec.backend is backend.cpu:
            draw = _random.few_normals(t._spec, float(given[0]), float(given[1]))
            if draw is not None:
                known.keep(given, (draw, t._spec))
        return t

    return short


@partial(before_guard, _of_sizes)
def normal(
    mean: Any,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    out: Tensor | None = None,
    **more: Any,
) -> Tensor:
    """Numbers drawn from normal distributions: of means and deviations, element by element, where one of both is a tensor, or of two
    numbers in a tensor of sizes `size`. The gradient is 0.

    >>> torch.normal(torch.tensor([0.0, 100.0]), 1.0)
    tensor([ 1.5410, 99.7066])
    >>> torch.normal(0.0, 1.0, (2,))
    tensor([-2.1788,  0.5684])
    """
    mean, std = (float(v) if type(v) is int else v for v in (mean, std))
    if out is not None:
        factories._of_out("normal", out, more.get("dtype"))
        if size is None:
            size = layout.broadcast_shapes(*(t.shape for t in (mean, std) if isinstance(t, Tensor)))
        factories._sized(out, size)
        if isinstance(std, Tensor):
            return normal_(out, generator=generator).mul_(std).add_(mean)
        if isinstance(mean, Tensor):
            return normal_(out, 0, std, generator=generator).add_(mean)
        return factories._finish(
            normal_(out, mean, std, generator=generator), more.get("requires_grad", False)
        )
    if size is not None and state.levels:
        kinds = {k: v for k, v in more.items() if k not in ("requires_grad", "pin_memory")}
        got = e.add(e.mul(drawn_ops.randn(size, generator=generator, **kinds), std), mean)
    elif size is not None:
        t = filled.empty(size, **{k: v for k, v in more.items() if k not in ("requires_grad", "pin_memory")})
        t = hooks.pinned(t) if more.get("pin_memory") else t
        normal_(t, mean, std, generator=generator)
        got = t.requires_grad_(bool(more.get("requires_grad", False)))
    else:
        if isinstance(std, Tensor) and std.is_complex():
            raise RuntimeError("normal expects standard deviation to be non-complex")
        for t in (mean, std):
            if isinstance(t, Tensor) and not t.is_complex():
                _real(t, "\"normal_kernel_cpu\" not implemented for '{}'")
        if isinstance(std, Tensor):
            if std.numel() and not std.is_meta and not everywhere(e.ge(innermost(std.detach()), 0)):
                raise RuntimeError("normal expects all elements of std >= 0.0")
        elif not std >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
        if state.levels:  # each example's own numbers, or the same for all, are made where `randn` is
            _apart(*[t for t in (mean, std) if isinstance(t, Tensor)])
            shape = e.add(mean, std).shape
            d = (mean if isinstance(mean, Tensor) else std).dtype
            drawn = drawn_ops.randn(shape, dtype=d, device=_place_of(mean, std), generator=generator)
            got = e.add(e.mul(drawn, std), mean)
        elif isinstance(mean, Tensor) and isinstance(std, Tensor):
            got = _normal_both(mean, std, generator=generator)
        elif isinstance(mean, Tensor):
            got = _normal_about(mean, std=std, generator=generator)
        else:
            got = _normal_by(std, mean=mean, generator=generator)
    return got


@differentiable("BernoulliBackward0", input=lambda g, input_spec: zeros(input_spec.dense()))
def _bernoulli(input: Tensor, *, generator: Any) -> Tensor:
    return bernoulli_(empty(input._spec.dense()), input, generator=generator)


def _no_trials(g: Tensor) -> Tensor:
    raise RuntimeError("derivative for aten::bernoulli is not implemented")


@differentiable("NotImplemented", input=_no_trials)
def _bernoulli_alike(input: Tensor, *, p: Any, generator: Any) -> Tensor:
    return bernoulli_(filled.empty_like(input), p, generator=generator)


_bernoulli_alike.op.node_name = "NotImplemented"  # type: ignore[attr-defined]


def _of_chances(slow: Callable[..., Tensor]) -> Callable[..., Tensor]:
    known: Table[Spec, Any] = Table("ops.make.sampling.trials", PLANS)
    find = known.get

    def short(*args: Any, **more: Any) -> Tensor:  # whatever its arguments are called, the guard knows them
        if more or len(args) != 1 or type(input := args[0]) is not Tensor or not quiet(input):
            return slow(*args, **more)
        sp = input._spec
        draw = find(sp)
        if draw is None:
            t = slow(input)
            if type(sp) is Spec and sp.contiguous and sp.numel <= _FEW and sp.backend is backend.cpu:
                draw = _random.few_trials(sp)
                if draw is not None:
                    known.keep(sp, draw)
            return t
        memory = draw(input._buf)
        return slow(input) if memory is None else wrap(memory, sp)

    return short


@method
@partial(before_guard, _of_chances)
def bernoulli(input: Tensor, p: Any = unset, *, generator: Any = None, out: Tensor | None = None) -> Tensor:
    """A trial for each element, 1 if it succeeds and 0 if not: of the chance that the element is, or of `p`. The gradient is 0.

    >>> torch.bernoulli(torch.tensor([0.0, 0.5, 1.0]))
    tensor([0., 0., 1.])
    """
    if p is not unset:
        if state.levels:  # each example's own, or one for all
            return bernoulli_(filled.empty_like(input.detach()), p, generator=generator)
        return _bernoulli_alike(input, p=p, generator=generator)
    if state.levels:
        got = to_dtype(_trials(input.shape, _apart(input.detach())[0], generator), input.dtype)
    else:
        got = _bernoulli(input, generator=generator)
    return got if out is None else factories._finish(got, False, out)


# ---------------------------------------------------------------- counts


@cached(128)
def _counter(name: str, code: str) -> tuple[int, Callable[..., None]]:
    source, codes = counts.source(name, code)
    launch = backend.cpu.launch(len(codes) - 3, "q", 1)
    return backend.cpu.kernel(f"random_{name}_{code}", source, codes).address, launch


def _count(name: str, generator: Any, *inputs: Array) -> Array:
    """An element for each of the inputs', all of one dtype, from as many uniforms as they turn out to need: too many are drawn, and
    the stream is taken back to behind the last that was used."""
    gen, first = generator_of(generator), inputs[0]
    run_at, run = _counter(name, "f4" if first.dtype == np.float32 else "f8")
    out, used = np.empty(first.size, first.dtype), np.zeros(2, np.int64)
    size, done, few = first.itemsize, 0, 16
    normal = [np.empty(16, np.uint8)] if name == "gamma" else []  # the one that is kept for later
    memory = [out.view(np.uint8), *(np.ascontiguousarray(a).reshape(-1).view(np.uint8) for a in inputs)]
    with gen.lock:
        while done < first.size:
            before = gen._words, gen._at
            have = 4 * (first.size - done) + few
            units = _random.uniform(gen, have, dtypes.float64)
            used[:] = 0
            operands = [m[done * size :] for m in memory]
            for kept in normal:
                kept[:] = gen._kept
            run(
                run_at, first.size - done, *operands, units.view(np.uint8), *normal, used.view(np.uint8), have
            )
            gen._words, gen._at = before
            gen.take(2 * int(used[1]))
            for kept in normal:
                gen._kept[:] = kept
            done, few = done + int(used[0]), 2 * few
    return out.reshape(first.shape)


def _few_counts(name: str, sp: Spec) -> Callable[..., Array | None] | None:
    """What draws as many numbers as there are elements by the default generator, if a first lot of uniforms is enough for them."""
    if sp.dtype not in (dtypes.float32, dtypes.float64) or not sp.contiguous or not 0 < sp.numel <= _FEW:
        return None
    (run_at, run), n, have = _counter(name, sp.dtype.code), sp.numel, 4 * sp.numel + 16
    gen, nbytes = _random.default_generator, sp.nbytes
    units_of = _random.few("uniform_f8", sp.like((have,), dtype=dtypes.float64))
    normal = [np.empty(16, np.uint8)] if name == "gamma" else []  # as in `_count`

    def draw(*inputs: Any) -> Array | None:
        out, used = np.empty(nbytes, np.uint8), np.zeros(16, np.uint8)
        with gen.lock:
            before = gen._words, gen._at
            for kept in normal:
                kept[:] = gen._kept
            run(run_at, n, out, *inputs, units_of(), *normal, used, have)
            gen._words, gen._at = before
            done, took = used.view(np.int64).tolist()
            if done < n:
                return None
            gen.take(2 * took)
            for kept in normal:
                gen._kept[:] = kept
        return out

    return draw


def _few_poisson(input: Spec, generator: Any) -> Quick | None:
    wide = input.like(dtype=dtypes.float64)
    draw = _few_counts("poisson", wide) if generator is None and input.contiguous else None
    if draw is None or not input.dtype.is_floating_point:
        return None
    if wide is input:
        first: Any = None
    else:
        first, last = copier(input, wide), copier(wide, input)

    def found(t: Tensor) -> Tensor | None:
        made = draw((t if first is None else first(t))._buf)
        if made is None:
            return None
        return wrap(made, input) if first is None else last(wrap(made, wide))

    return found


def _few_binomial(count: Spec, prob: Spec, generator: Any) -> Quick | None:
    draw = _few_counts("binomial", count) if generator is None and prob is count else None
    if draw is None:
        return None

    def found(count: Tensor, prob: Tensor) -> Tensor | None:
        made = draw(count._buf, prob._buf)
        return None if made is None else wrap(made, sp)

    sp = count.dense()
    return found


@differentiable("PoissonBackward0", input=lambda g, input_spec: zeros(input_spec.dense()))
def _poisson(input: Tensor, *, generator: Any) -> Tensor:
    if not input._spec.backend.prompt:
        return to_dtype(devices.count("poisson", generator, to_dtype(input, dtypes.float64)), input.dtype)
    rates = np.asarray(input._host(), np.float64)
    if not (rates >= 0).all():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return to_dtype(of_array(_count("poisson", generator, rates)), input.dtype)


@quickly(_few_poisson)
def poisson(input: Tensor, generator: Any = None) -> Tensor:
    """How many events there are where `input` are expected: for each element, k with the chance `exp(-input) * input ** k / k!`. The
    gradient is 0.

    >>> torch.poisson(torch.tensor([1.0, 10.0, 100.0]))
    tensor([  2.,  15., 109.])
    """
    if not isinstance(input, Tensor):
        raise TypeError(
            f"poisson(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}"
        )
    _real(input, "\"poisson_cpu\" not implemented for '{}'")
    return _poisson(*_apart(input), generator=generator)


def _no_derivative(g: Tensor) -> Tensor:
    raise RuntimeError("derivative for aten::binomial is not implemented")


@differentiable("NotImplemented", count=_no_derivative, prob=_no_derivative)
def _binomial(count: Tensor, prob: Tensor, *, generator: Any) -> Tensor:
    shape = layout.broadcast_shapes(tuple(count.shape), tuple(prob.shape))
    if not count._spec.backend.prompt:
        return devices.count("binomial", generator, *(broadcast_to(t, shape) for t in (count, prob)))
    return of_array(
        _count("binomial", generator, *(np.broadcast_to(t._host(), shape) for t in (count, prob)))
    )


_binomial.op.node_name = "NotImplemented"  # type: ignore[attr-defined]


@quickly(_few_binomial)
def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Successes among `count` trials of the chance `prob`, element by element and broadcast. There is no gradient.

    >>> torch.binomial(torch.tensor([10.0, 100.0]), torch.tensor([0.5]))
    tensor([ 7., 51.])
    """
    for k, (name, t) in enumerate((("count", count), ("prob", prob)), 1):
        if not isinstance(t, Tensor):
            raise TypeError(
                f"binomial(): argument '{name}' (position {k}) must be Tensor, not {type(t).__name__}"
            )
    _real(count, "binomial only supports floating-point dtypes for count, got: {}", ValueError)
    _real(prob, "binomial only supports floating-point dtypes for prob, got: {}", ValueError)
    if prob.dtype is not count.dtype:
        raise RuntimeError(f"Found dtype {prob.dtype.scalar_name} but expected {count.dtype.scalar_name}")
    if count.dtype.narrow:
        raise NotImplementedError(f"\"binomial_cpu\" not implemented for '{count.dtype.scalar_name}'")
    return _binomial(*_apart(count, prob), generator=generator)


# ---------------------------------------------------------------- gamma, and what is made of it


def _floats_of_both(name: str, *given: Tensor) -> None:
    d = given[0].dtype
    for t in given[1:]:
        if t.dtype is not d:
            wide, narrow = sorted((d, t.dtype), key=lambda kind: -kind.itemsize)
            raise RuntimeError(f"Found dtype {wide.scalar_name} but expected {narrow.scalar_name}")
    if d not in (dtypes.float32, dtypes.float64):
        raise NotImplementedError(f"\"{name}\" not implemented for '{d.scalar_name}'")


_gamma_slope = stanza(
    lambda input, output: q.gamma_slope(input, output),
    name="_standard_gamma_grad",
    node="StandardGammaGradBackward0",
    tensors=("input", "output"),
    lacks=dict.fromkeys(("input", "output"), "_standard_gamma_grad"),
    unmoved="_standard_gamma_grad",
    method=False,
)


_gamma_slope.op.dense = True


def _standard_gamma_grad(input: Tensor, output: Tensor) -> Tensor:
    """How fast numbers `output` that `_standard_gamma(input)` has drawn grow with `input`, if they stay where they are in the distribution.

    >>> torch._standard_gamma_grad(torch.tensor([1.0, 20.0]), torch.tensor([0.5, 25.0]))
    tensor([0.8070, 1.1251])
    """
    _floats_of_both("_standard_gamma_grad_cpu", input, output)
    return _gamma_slope(input, output)


@differentiable(
    "StandardGamma", unmoved="_standard_gamma", input=lambda g, input, y: e.mul(g, _gamma_slope(input, y))
)
def _gamma(input: Tensor, *, generator: Any) -> Tensor:
    if not input._spec.backend.prompt:
        return devices.count("gamma", generator, input)
    return of_array(_count("gamma", generator, input._host()))


def _few_gammas(input: Spec, generator: Any) -> Quick | None:
    draw = _few_counts("gamma", input) if generator is None else None
    if draw is None:
        return None

    def found(t: Tensor) -> Tensor | None:
        made = draw(t._buf)
        return None if made is None else wrap(made, input)

    return found


@quickly(_few_gammas)
def _standard_gamma(input: Tensor, generator: Any = None) -> Tensor:
    """Numbers drawn from gamma distributions of the shapes `input` and of rate 1. The gradient is `g * _standard_gamma_grad(input, y)`.

    >>> torch._standard_gamma(torch.tensor([0.5, 5.0, 500.0]))
    tensor([7.8936e-04, 2.7153e+00, 5.0326e+02])
    """
    _floats_of_both("gamma_cpu", input)
    return _gamma(*_apart(input), generator=generator)


_beta_slope = stanza(
    lambda x, alpha, total: q.beta_slope(x, alpha, total),
    name="_dirichlet_grad",
    node="NotImplemented",
    tensors=("x", "alpha", "total"),
    refuses="aten::_dirichlet_grad",
    method=False,
)


_beta_slope.op.dense = True


def _dirichlet_grad(x: Tensor, alpha: Tensor, total: Tensor) -> Tensor:
    """How fast a number `x` drawn from the beta distribution of `alpha` and `total - alpha` grows with `alpha`, over `1 - x`.

    >>> torch._dirichlet_grad(torch.tensor([0.2]), torch.tensor([1.0]), torch.tensor([3.0]))
    tensor([0.3277])
    """
    _floats_of_both("_dirichlet_grad_cpu", x, alpha, total)
    return _beta_slope(x, alpha, total)


def _no_dirichlet(g: Tensor) -> Tensor:
    raise RuntimeError("derivative for aten::_sample_dirichlet is not implemented")


@differentiable("NotImplemented", input=_no_dirichlet)
def _dirichlet(input: Tensor, *, generator: Any) -> Tensor:
    if not input._spec.backend.prompt:
        least, most = _bounds(input.dtype)
        there = devices.count("gamma", generator, to_dtype(input, dtypes.float64))
        shares = e.div(there, there.sum(-1, keepdim=True)) if there.ndim else e.div(there, there)
        return e.clamp(to_dtype(shares, input.dtype), float(least), float(most))
    return of_array(_shares(_count("gamma", generator, input._host().astype(np.float64)), input.dtype))


def _shares(drawn: Array, d: dtypes.dtype) -> Array:
    least, most = _bounds(d)
    parts = (drawn / np.add.reduce(drawn, -1, keepdims=True) if drawn.ndim else drawn / drawn).astype(d.np)
    return np.asarray(np.minimum(np.maximum(parts, least), most))


@cached(4)
def _bounds(d: dtypes.dtype) -> tuple[Any, Any]:
    """PyTorch's: no part is 0, none is 1."""
    real = np.finfo(d.np)
    return real.tiny, np.nextafter(real.dtype.type(1), real.dtype.type(0))


_dirichlet.op.node_name = "NotImplemented"  # type: ignore[attr-defined]


def _few_dirichlets(input: Spec, generator: Any) -> Quick | None:
    wide = input.like(dtype=dtypes.float64)
    draw = _few_counts("gamma", wide) if generator is None and input.contiguous else None
    if draw is None or not input.ndim or input.dtype not in (dtypes.float32, dtypes.float64):
        return None
    first, shape = copier(input, wide), tuple(input.shape)

    def found(t: Tensor) -> Tensor | None:
        drawn = draw(first(t)._buf)
        if drawn is None:
            return None
        return wrap(
            _shares(drawn.view(np.float64).reshape(shape), input.dtype).reshape(-1).view(np.uint8), input
        )

    return found


@quickly(_few_dirichlets)
def _sample_dirichlet(input: Tensor, generator: Any = None) -> Tensor:
    """Shares that add up to 1, drawn from Dirichlet's distribution: along the last dimension of `input` stand its parameters. There is no
    gradient.

    >>> torch._sample_dirichlet(torch.tensor([1.0, 10.0, 100.0]))
    tensor([0.0286, 0.0871, 0.8844])
    """
    _floats_of_both("dirichlet", input)
    return _dirichlet(*_apart(input), generator=generator)


# ---------------------------------------------------------------- of lines of weights


def _check_weights(values: Array, several: bool) -> None:
    if several:
        for wrong, bad in (("< 0", ~(values >= 0)), ("= infinity or NaN", np.isinf(values))):
            if bad.any():
                raise RuntimeError(
                    f"invalid multinomial distribution (encountering probability entry {wrong})"
                )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if not (values.sum(-1) > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")


_MANY = 1 << 20  # weights, of which a few are drawn


@cached(PLANS)
def _few_shares(input: Spec, most: int = _FEW) -> Callable[[Tensor], Any] | None:
    """What gives the running shares of few weights, or None of what are none."""
    if input.dtype not in (dtypes.float32, dtypes.float64) or input.backend is not backend.cpu:
        return None
    *lines, columns = tuple(input.shape) if input.ndim in (1, 2) else (0,)
    if not input.contiguous or not 0 < input.numel <= most:
        return None
    code, told, rows, nbytes = input.dtype.code, backend.cpu.told, prod(lines), input.nbytes
    address = backend.cpu.kernel(f"shares_{code}", *counts.shares(code)).address
    launch = backend.cpu.launch(3, "q", 1, input.numel <= _FEW)

    def share(weights: Tensor) -> Any:
        shares, (number, seen) = np.empty(nbytes, np.uint8), told.count
        launch(address, rows, weights._buf, shares, number, columns)
        return None if seen[0] else shares

    return share


@cached(PLANS)
def _one_place(input: Spec) -> Callable[..., Tensor | None] | None:
    """Of few weights, from which one place is drawn."""
    share = _few_shares(input)
    if share is None:
        return None

    def found(weights: Tensor, generator: Any = None) -> Tensor | None:
        if share(weights) is None:
            return None
        against = exponential_(empty(input), generator=generator)
        place: Tensor = argmax(e.div(wrap(weights._buf, input), against), -1, True)
        return place

    return found


def _few_places(input: Spec, num_samples: Any, replacement: Any, *, generator: Any, out: Any) -> Quick | None:
    """Several places, that may be the same."""
    usual = generator is None and out is None and type(num_samples) is int
    if usual and num_samples == 1:
        return _one_place(input)
    share = _few_shares(input, _MANY) if usual else None
    if share is None:
        return None
    *lines, columns = tuple(input.shape)
    made = input.like((*lines, num_samples), dtype=dtypes.int64)
    if replacement is not True or num_samples < 2 or made.numel > _FEW:
        return None
    code = input.dtype.code
    placing = backend.cpu.kernel(f"places_{code}", *counts.places(code)).address
    place = backend.cpu.launch(3, "qq", 1, True)
    units_of, n = _random.few("uniform_f8", made.like(dtype=dtypes.float64)), made.numel

    def found(weights: Tensor) -> Tensor | None:
        shares = share(weights)
        if shares is None:
            return None
        places = empty(made)
        place(placing, n, shares, units_of(), places._buf, columns, num_samples)
        return places

    return found


@method
@quickly(_few_places, records=False)
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """`num_samples` places of a line (or of each line of a matrix), drawn by their weights, which need not add up to 1. Without
    `replacement` no place is drawn twice. No gradient passes.

    >>> torch.multinomial(torch.tensor([0.0, 1.0, 1.0]), 6, replacement=True)
    tensor([2, 2, 1, 2, 2, 2])
    """
    if num_samples == 1 and out is None and type(input._spec) is Spec and not state.active:
        few = _one_place(input._spec)
        place = few and few(input, generator)
        if place is not None:
            return place
    (weights,) = _apart(input.detach())
    _real(weights, "multinomial only supports floating-point dtypes for input, got: {}", RuntimeError)
    if weights.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and num_samples > tuple.__getitem__(weights.shape, -1):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if weights.is_meta:
        return filled.empty((*tuple(weights.shape)[:-1], num_samples), dtype=dtypes.int64, device="meta")
    every = innermost(weights)
    if weights._spec.backend.prompt:
        _check_weights(every._host(), replacement and num_samples > 1)
    elif not everywhere(e.logical_and(e.ge(every, 0), e.lt(every, float("inf")))):
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    elif not everywhere(e.gt(cumsum(every, -1).narrow(-1, every.shape[-1] - 1, 1), 0)):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement and num_samples > 1:
        wide = to_dtype(weights, dtypes.float32) if weights.dtype.narrow else weights
        sums, last = cumsum(wide, -1), tuple.__getitem__(weights.shape, -1)
        shares = e.div(sums, sums.narrow(-1, last - 1, 1))
        draws = drawn_ops.rand(
            (*tuple(weights.shape)[:-1], num_samples),
            dtype=dtypes.float64,
            device=weights.device,
            generator=generator_of(generator) if weights.is_cpu else generator,
        )
        got = searchsorted(to_dtype(shares, dtypes.float64), draws).clamp(max=last - 1)
    else:
        race = e.div(weights, exponential_(filled.empty_like(weights), generator=generator))
        got = argmax(race, -1, True) if num_samples == 1 else topk(race, num_samples)[1]
    if out is None:
        return got
    if out.dtype is not dtypes.int64:
        raise RuntimeError(f"multinomial expects Long tensor out, got: {out.dtype.scalar_name}")
    return factories._finish(got, False, out)


__all__ = [
    *("_dirichlet_grad", "_sample_dirichlet", "_standard_gamma", "_standard_gamma_grad"),
    *("bernoulli", "binomial", "multinomial", "normal", "poisson"),
]
