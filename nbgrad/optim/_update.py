"""How an optimiser that is a scalar rule takes a step: one pass of a kernel over all parameters of a group.

Promises the optimisers that saying what happens to one element is enough. A `Rule` is two plain functions, which run on
expressions (to become kernels) and on tensors: for what the kernel does not take (memory with gaps, mixed dtypes) and where the
step itself is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from nbgrad.autograd.grad_mode import enable_grad, set_grad_enabled
from nbgrad.core.tensor import Tensor, storage_of
from nbgrad.core.writes import check_write
from nbgrad.expr.node import as_expr, free_vars, parameters, var
from nbgrad.kernels.cpu import optim as _kernels
from nbgrad.memory import dtypes, gpu, layout
from nbgrad.memory.backend import cpu
from nbgrad.memory.storage import Spec, spec
from nbgrad.ops.make.filled import full_like, zeros_like
from nbgrad.ops.views.copy import scalar, zeros
from nbgrad.ops.views.parts import view_as_real
from nbgrad.optim._outside import FUSED
from nbgrad.optim.optimizer import Optimizer
from nbgrad.tape.modes import state as modes


class Rule:
    """`prepare(numbers..., step)` gives by name the numbers that the body reads; `body(p, g, buffers..., n)`, n being those, gives
    the new p and buffers. `writes` is how often PyTorch writes to a parameter in a step, which its version counter shows; `capturable`
    says that where a step is differentiated, PyTorch computes with the count as the tensor that it is, of its precision."""

    def __init__(
        self,
        name: str,
        prepare: Callable[..., dict[str, Any]],
        body: Callable[..., Any],
        writes: int = 1,
        capturable: bool = False,
    ) -> None:
        self.name, self.prepare, self.body, self.writes, self.capturable = (
            name,
            prepare,
            body,
            writes,
            capturable,
        )
        given = parameters(prepare)
        self.counts = "step" in given
        self.numbers = tuple(n for n in given if n != "step")
        self.buffers = tuple(parameters(body)[2:-1])
        self._built: dict[Kind, Built] = {}

    def built(self, kind: Kind) -> Built:
        found = self._built.get(kind)
        if found is None:
            found = self._built[kind] = self._build(kind)
        return found

    def _build(self, kind: Kind) -> Built:
        prepared = {k: as_expr(e) for k, e in self.prepare(*map(var, parameters(self.prepare))).items()}
        inputs = ("p", "g", *self.buffers)
        results = self.body(*map(var, inputs), SimpleNamespace(**{n: var(n) for n in prepared}))
        derived = tuple((n, e) for n, e in prepared.items() if n in free_vars(*results))
        begin = _kernels.begin(self.name, self.numbers, derived, kind.step)
        how = self.name, tuple(n for n, _ in derived), inputs, tuple(zip(("p", *self.buffers), results))
        alone = not kind.served.prompt

        def update(shared: bool) -> Any:
            text = _kernels.update(*how, kind.code, alone, shared)
            return kind.served.kernel(f"{self.name}_update", *text, unrolled=False).address

        first = kind.counting.kernel(f"{self.name}_begin", *begin).address
        return Built(first, update(False), len(derived), update(True) if alone else None)

    def by_tensors(self, row: Row, numbers: Sequence[Any], graph: bool = False) -> None:
        """The same step by ops on tensors, as part of a `graph` or not. The graph reads what was there before the step."""
        p, grad, step, *buffers = row
        if self.counts:
            step.add_(1)
            numbers = [*numbers, step.clone() if graph and self.capturable else step.item()]
        before = [t.clone() for t in (p, *buffers)] if graph else [p, *buffers]
        results = self.body(before[0], grad, *before[1:], SimpleNamespace(**self.prepare(*numbers)))
        for t, value in zip((p, *buffers), results):
            t.copy_(value)
        storage_of(p).version += self.writes - 1


class Kind(NamedTuple):
    """What rows of one launch have in common: the dtypes of elements and counts (""), and who serves both."""

    code: str
    step: str
    served: Any
    counting: Any


class Built(NamedTuple):
    """Addresses of the kernel per parameter and the kernel per element, and how many numbers the one leaves to the other; on a GPU also of
    the kernel per element that takes them from the launch."""

    begin: Any
    update: Any
    derived: int
    shared: Any


Row = tuple[Any, ...]  # parameter, gradient, count (None if the rule has none), buffers


def _same(a: list[Any], b: list[Any]) -> bool:
    return len(a) == len(b) and all(map(is_, a, b))


class Table:
    """What one launch takes, kept from step to step while parameters and state stay where they are."""

    def __init__(self, rule: Rule, rows: Sequence[Row], kept: list[Any], specs: list[Any]) -> None:
        self.rule, self.kept, self.specs = rule, kept, specs
        self.slow: list[int] = []
        taken: dict[Kind, list[int]] = {}
        for k, row in enumerate(rows):
            if _fits(row):
                check_write(row[0], False)
                taken.setdefault(_kind(row), []).append(k)
            else:
                self.slow.append(k)
        self.batches = [
            (_Batch if kind.served.prompt else _There)(rule, rows, chosen, kind)
            for kind, chosen in taken.items()
        ]

    def run(self, rows: Sequence[Row], numbers: list[float]) -> None:
        packed = np.array(numbers, np.float64).view(np.uint8)
        for batch in self.batches:
            batch.run(rows, packed)
        for k in self.slow:
            self.rule.by_tensors(rows[k], numbers)


class _Batch:
    """The rows of one kind."""

    def __init__(self, rule: Rule, rows: Sequence[Row], chosen: list[int], kind: Kind) -> None:
        self.chosen, self.kind = chosen, kind
        self.built = rule.built(kind)
        held = [[rows[k][0], *rows[k][3:]] for k in chosen]  # what is written: parameter and buffers
        lengths = [r[0]._spec.numel for r in held]
        self.total = sum(lengths)
        # Per row: length; addresses of parameter, gradient (filled in at each step), buffers.
        self.table = np.zeros((len(chosen), 3 + len(rule.buffers)), np.int64)
        columns = [self.addresses([t._buf for t in column]) for column in zip(*held)]
        self.table[:, [0, 1, *range(3, 2 + len(columns))]] = np.array([lengths, *columns]).T
        self.counts = np.zeros((len(chosen), 2), np.int64)
        if rule.counts:
            where = kind.counting.address
            self.counts[:, 1] = [where(rows[k][2]._buf) for k in chosen]
        self.derived = np.empty(len(chosen) * self.built.derived).view(np.uint8)
        # Parameters that share memory are stepped one after the other, on one thread.
        nbytes = [n * held[0][0]._spec.itemsize for n in lengths]
        self.cut = 1 if _kernels.overlap(columns[0], nbytes) else self.total
        self.written = [(t, rule.writes if k == 0 else 1) for r in held for k, t in enumerate(r)]
        self.written += [(rows[k][2], 1) for k in chosen if rule.counts]
        for t, _ in self.written:
            storage_of(t)

    addresses = staticmethod(_kernels.addresses)

    def run(self, rows: Sequence[Row], numbers: Any) -> None:
        self.table[:, 2] = _kernels.addresses([rows[k][1]._buf for k in self.chosen])
        backend = self.kind.served
        count, table = len(self.chosen), self.table.reshape(-1).view(np.uint8)
        counts = self.counts.reshape(-1).view(np.uint8)
        backend.launch(3, "", 1)(self.built.begin, count, counts, numbers, self.derived)
        backend.launch(2, "", self.cut)(self.built.update, self.total, table, self.derived)
        for t, times in self.written:
            t._storage.version += times


class _There(_Batch):
    """The same on a GPU. Counts are where PyTorch has them, mostly on the CPU: then the numbers go with the launch, as long as all rows
    have counted as far. What is uploaded stays there until it changes: addresses, and numbers for counts on the GPU."""

    def __init__(self, rule: Rule, rows: Sequence[Row], chosen: list[int], kind: Kind) -> None:
        super().__init__(rule, rows, chosen, kind)
        # Per row: where it begins; addresses.
        self.table[:, 0] = np.cumsum(self.table[:, 0]) - self.table[:, 0]
        self.uploaded: dict[str, tuple[bytes, Any]] = {}
        self.letters = "d" * self.built.derived
        if not kind.counting.prompt:
            self.derived = kind.served.empty(len(self.derived))

    @staticmethod
    def addresses(buffers: Sequence[Any]) -> list[int]:
        return [int(b.address) for b in buffers]

    def run(self, rows: Sequence[Row], numbers: Any) -> None:
        self.table[:, 2] = self.addresses([rows[k][1]._buf for k in self.chosen])
        count, (served, counting) = len(self.chosen), self.kind[2:]
        table = self.there("table", np.concatenate([[count], self.table.reshape(-1)]))
        if counting.prompt:
            counts = self.counts.reshape(-1).view(np.uint8)
            counting.launch(3, "", 1)(self.built.begin, count, counts, numbers, self.derived)
            derived, first = self.derived, self.derived[: len(self.derived) // count]
            if derived.tobytes() == first.tobytes() * count:
                given = first.view(np.float64).tolist()
                served.launch(1, self.letters, self.cut)(self.built.shared, self.total, table, *given)
            else:
                derived = self.there("derived", derived)
                served.launch(2, "", self.cut)(self.built.update, self.total, table, derived)
        else:
            counts, given = self.there("counts", self.counts), self.there("numbers", numbers)
            served.launch(3, "", count)(self.built.begin, count, counts, given, self.derived)
            served.launch(2, "", self.cut)(self.built.update, self.total, table, self.derived)
        for t, times in self.written:
            t._storage.version += times

    def there(self, name: str, array: np.ndarray[Any, Any]) -> Any:
        """What the device has of an array, uploaded anew where that has changed."""
        data, known = array.tobytes(), self.uploaded.get(name)
        if known is None or known[0] != data:
            made = self.kind.served.constants(array.reshape(-1).view(np.int64).tolist())
            known = self.uploaded[name] = data, made
        return known[1]


def _kind(row: Row) -> Kind:
    p, _, step, *_ = row
    where = p._spec.backend
    if step is None:
        return Kind(p._spec.dtype.code, "", where, cpu)
    return Kind(p._spec.dtype.code, step._spec.dtype.code, where, step._spec.backend)


_TAKEN = (dtypes.float32, dtypes.float64)


def _fits(row: Row) -> bool:
    """Whether all of a row is memory of one layout without gaps, so that the order of its elements does not matter."""
    p, grad, step, *buffers = row
    sp: Spec = p._spec
    return (
        type(sp) is Spec
        and sp.backend.holds
        and sp.dtype in _TAKEN
        and (step is None or (step._spec.dtype in _TAKEN and step._spec.device in (cpu.device, sp.device)))
        and sp.numel > 0
        and layout.is_dense(sp.shape, sp.strides)
        and all(type(t._spec) is Spec and _alike(t._spec, sp) for t in (grad, *buffers))
    )


def _alike(a: Spec, b: Spec) -> bool:
    same = a.dtype is b.dtype and a.shape == b.shape and a.strides == b.strides
    return a is b or (same and a.device is b.device)


# Options that PyTorch's optimisers did not always have, and how files without them are read.
_ADDED: dict[str, bool | None] = {"foreach": None, "fused": None} | dict.fromkeys(
    ("amsgrad", "nesterov", "maximize", "capturable", "differentiable", "decoupled_weight_decay"), False
)


def _by_parts(row: Row) -> Row:
    """Complex parameters are stepped as pairs of real ones."""
    return tuple([view_as_real(t) if t is not None and t.is_complex() else t for t in row])


def filled_like(p: Tensor, value: float) -> Tensor:
    """A number for each that a parameter has: of a complex one, for each part."""
    return full_like(p, complex(value, value) if p.is_complex() else value)


class RuleOptimizer(Optimizer):
    """An optimiser whose step is a rule for one element. A subclass says which (`_rule`), with what numbers, and `_init`. Its constructor
    is but a signature: what becomes of the arguments is said by two lists of their names."""

    _judged: str  # options that have bounds, in the order in which PyTorch looks at them
    _options: str  # all of them, in the order of PyTorch's state dicts
    _begun = "step"  # what the state of a parameter has once it has been stepped
    _differs = False  # whether some of the rule's numbers are of a parameter, and not of its group

    def _begin(self, given: dict[str, Any]) -> None:
        """The constructor, of its `locals()`."""
        self._judge(given)
        super().__init__(given["params"], {name: given[name] for name in self._options.split()})
        if given.get("fused"):
            if given["differentiable"]:
                raise RuntimeError("`fused` does not support `differentiable`")
            if given["foreach"]:
                raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def _judge(self, given: dict[str, Any]) -> None:
        for name in self._judged.split():
            check_option(name, given[name])

    def _prepare(self) -> None:
        super()._prepare()
        self._tables: dict[Any, Table] = {}

    def _rule(self, group: dict[str, Any], first: bool) -> Rule:
        """The rule of a group; `first` where the state of a parameter is fresh."""
        raise NotImplementedError

    def _numbers(self, group: dict[str, Any]) -> Sequence[Any]:
        """The values of the rule's numbers."""
        raise NotImplementedError

    def _own(self, state: dict[str, Any], group: dict[str, Any]) -> tuple[Any, ...]:
        """The values of those that follow as a parameter's own, where it has any; brings its state up to date."""
        raise NotImplementedError

    def _init(self, p: Tensor, group: dict[str, Any], rule: Rule) -> dict[str, Any]:
        """State of a parameter before its first step."""
        counted = {"step": _count_for(p, group)} if rule.counts else {}
        return counted | {name: zeros_like(p) for name in rule.buffers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """State of an older release lacks options, and its counts are numbers."""
        super().__setstate__(state)
        for group in self.param_groups:
            for name in _ADDED.keys() & self.defaults.keys():
                group.setdefault(name, _ADDED[name])
        for own in self.state.values():
            if isinstance(own, dict) and isinstance(own.get("step"), (int, float)):
                own["step"] = scalar(float(own["step"]), count_dtype())

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters by their gradients, those without one staying as they are. A `closure`, if given, is called first
        with gradients enabled, and its loss is the result.
        """
        with set_grad_enabled(self.defaults.get("differentiable", False)):
            loss = None
            if closure is not None:
                with enable_grad():
                    loss = closure()
            if gpu.capturing() and not all([group.get("capturable", True) for group in self.param_groups]):
                raise RuntimeError(
                    f"Attempting CUDA graph capture of step() for an instance of {type(self).__name__} but param_groups' capturable is "
                    "False."
                )
            for number, group in enumerate(self.param_groups):
                self._step_group(number, group)
        return loss

    def _step_group(self, number: int, group: dict[str, Any]) -> None:
        try:
            later, first = self._rule(group, False), self._rule(group, True)
        except Exception:  # options that are no options matter to nobody where there is nothing to do
            if all([p.grad is None for p in group["params"]]):
                return
            raise
        rows: dict[tuple[Rule, tuple[float, ...]], list[Row]] = {(later, ()): [], (first, ()): []}
        steady, fresh = rows[later, ()], rows[first, ()]
        names, counts, stateful = later.buffers, later.counts, bool(later.buffers or later.counts)
        apart: list[Tensor] = []
        fused = group.get("fused")
        for p in group["params"]:
            grad, of_parts = p.grad, p._spec.dtype.is_complex
            if grad is None:
                continue
            if fused and (of_parts or p._spec.device.type not in FUSED):
                raise RuntimeError(
                    "`fused=True` requires all the params to be floating point Tensors of supported devices: "
                    f"{list(FUSED)} but {p.dtype} and {p.device.type}"
                )
            if type(grad) is not Tensor and grad.is_sparse:
                apart.append(p)
                self._check_sparse(group)
                continue
            into = steady
            state: dict[str, Any] = {}
            if stateful:
                state = self.state[p]
                if state.get(self._begun) is None:
                    state.update(self._init(p, group, later))
                    into = fresh
                if self._differs:
                    into = rows.setdefault((later, self._own(state, group)), [])
            row = (p, grad, state["step"] if counts else None, *[state[n] for n in names])
            into.append(_by_parts(row) if of_parts else row)
        for k, ((rule, own), found) in enumerate(rows.items()):
            if found:
                self._run((number, k), rule, found, (*self._numbers(group), *own))

        for p in apart:
            self._step_sparse(p, group)

    def _check_sparse(self, group: dict[str, Any]) -> None:
        """Refuse a group with a sparse gradient, as most optimisers do, before anything of it is stepped."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _step_sparse(self, p: Tensor, group: dict[str, Any]) -> None:
        """The step of a parameter whose gradient is sparse."""

    def _run(self, number: tuple[int, int], rule: Rule, rows: list[Row], numbers: Sequence[Any]) -> None:
        if modes.grad:
            for row in rows:
                rule.by_tensors(row, numbers, graph=True)
            return
        kept = [t._buf for p, _, *others in rows for t in (p, *others) if t is not None]
        specs = [t._spec for row in rows for t in row if t is not None]
        table = self._tables.get((number, rule))
        if table is None or not (_same(kept, table.kept) and _same(specs, table.specs)):
            table = self._tables[number, rule] = Table(rule, rows, kept, specs)
        table.run(rows, [float(x) for x in numbers])


def _count_for(p: Tensor, group: dict[str, Any]) -> Tensor:
    """Where PyTorch counts the steps of a parameter: on the CPU, but for what is captured or fused on a GPU."""
    if (group.get("capturable") or group.get("fused")) and not p._spec.backend.prompt:
        return zeros(spec(dtypes.float32 if group.get("fused") else count_dtype(), (), None, p._spec.device))
    return scalar(0.0, count_dtype())


def count_dtype() -> dtypes.dtype:
    return dtypes.float64 if dtypes.get_default_dtype() is dtypes.float64 else dtypes.float32


def number(x: float | Tensor) -> float:
    """The value of an option, whether or not somebody asks for its gradient."""
    return float(x.detach()) if isinstance(x, Tensor) else float(x)


_WORDS = {"lr": "learning rate", "eps": "epsilon value"}


def check_option(name: str, value: Any) -> None:
    """Refuse an option that PyTorch refuses, named as its messages name it."""
    if name == "betas":
        for k in range(2):
            if not 0.0 <= value[k] < 1.0:
                raise ValueError(f"Invalid beta parameter at index {k}: {value[k]}")
    elif name == "etas":
        if not 0.0 < value[0] < 1.0 < value[1]:
            raise ValueError(f"Invalid eta values: {value[0]}, {value[1]}")
    elif name == "rho":
        if not 0.0 <= value <= 1.0:
            raise ValueError(f"Invalid rho value: {value}")
    elif name == "lr" and isinstance(value, Tensor) and value.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    elif not 0.0 <= value:  # noqa: SIM300  in this order Python's own refusal reads as under PyTorch
        raise ValueError(f"Invalid {_WORDS.get(name, name + ' value')}: {value}")


def downhill(p: Any, g: Any, n: Any, decays: bool, maximize: bool, decoupled: bool = False) -> Any:
    """The parameter and the gradient that a body goes on with: turned round to go up, and with weight decay in one or the other."""
    g = -g if maximize else g
    if decays and decoupled:
        return p * n.keep, g
    return p, g + p * n.decay if decays else g


def check_capturable(
    group: dict[str, Any], what: str = "params and state_steps", devices: Sequence[str] = ("xla",)
) -> None:
    """PyTorch's kernels for the CPU cannot be captured, but for the fused ones, which do not care."""
    if not group["capturable"] or group.get("fused"):
        return
    if all(p.grad is None or p.is_cuda for p in group["params"]):
        return
    allowed = ["cuda", "xpu", "hpu", "privateuseone", *(() if group["foreach"] else devices)]
    raise AssertionError(f"If capturable=True, {what} must be on supported devices: {allowed}.")
