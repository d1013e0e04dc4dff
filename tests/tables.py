"""PyTorch's own tables of modules and optimisers, run through both: `python -m tests.tables [names]`.

Of each module there are arguments to make it with and inputs to call it on, of each optimiser its settings, and of both calls that must
be refused. A module takes over PyTorch's parameters and shows its result, its gradients, its buffers and its text; an optimiser takes
some steps, and shows what the parameters and its state have become.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import types
import warnings
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any

from tests.compare import assert_same, outcome
from tests.opinfo import SUBJECT, Missing, Unsupported, found, leaves, made, prepare, recipe

ROOM = {"float64": 10.0, "float32": 40.0}  # times the tolerance of one op
STEPS = 4


def same(got: Any, want: Any, label: str, room: float) -> str:
    """Where they differ; nothing if they do not."""
    if type(got) is type(want) is float and math.isclose(
        got, want, rel_tol=1e-9 if room == ROOM["float64"] else 1e-5
    ):
        return ""
    try:
        assert_same(got, want, label, room)
    except AssertionError as error:
        return " ".join(str(error).split())[:400]
    return ""


def arguments(torch: ModuleType, T: ModuleType, given: Any) -> tuple[Any, Any]:
    args, kwargs = recipe(torch, tuple(given.args), {}), recipe(torch, dict(given.kwargs), {})
    memo: dict[int, Any] = {}
    return made(T, args, memo), made(T, kwargs, memo)


# ---------------------------------------------------------------- modules


def modules(torch: ModuleType, names: list[str]) -> Iterator[Any]:
    from torch.testing._internal.common_modules import module_db

    return (info for info in module_db if not names or info.name.removeprefix("nn.") in names)


def built(torch: ModuleType, T: ModuleType, info: Any, sample: Any, dtype: str, training: bool) -> Any:
    """The module, seeded."""
    args, kwargs = arguments(torch, T, sample.constructor_input)
    T.manual_seed(0)
    module = found(T, info.name)(*args, **kwargs).to(getattr(T, dtype))
    return module.train(training)


def run_of(torch: ModuleType, T: ModuleType, module: Any, sample: Any) -> Iterator[tuple[str, Any]]:
    """What a call shows, name by name."""
    args, kwargs = arguments(torch, T, sample.forward_input)
    T.manual_seed(1)
    result = module(*args, **kwargs)
    yield "result", tuple(leaves(result))
    outputs = [t for t in leaves(result) if t is not None and t.requires_grad]
    if outputs:
        along = [T.linspace(0.5, 2, t.numel(), dtype=t.dtype).reshape(t.shape) for t in outputs]
        T.autograd.backward(outputs, along)
    for k, t in enumerate(leaves([*args, *kwargs.values()])):
        if hasattr(t, "requires_grad") and t.requires_grad:
            yield f"gradient of input {k}", t.grad
    for name, p in module.named_parameters():
        yield f"gradient of {name}", p.grad
    for name, b in module.named_buffers():
        yield f"buffer {name}", b
    yield "text", repr(module)
    yield "names", list(module.state_dict())


def module_differences(torch: ModuleType, info: Any, dtype: str, training: bool) -> Iterator[str]:
    found(SUBJECT, info.name)  # or it is missing
    kind = getattr(torch, dtype)
    torch.manual_seed(0)
    samples = info.module_inputs_func(info, device="cpu", dtype=kind, requires_grad=True, training=training)
    for n, sample in enumerate(samples):
        label = f"{info.name} {dtype} {'training' if training else 'evaluation'} #{n} {sample.desc}"
        with contextlib.suppress(Unsupported):
            yield from one_module(torch, info, sample, dtype, training, label)


def one_module(
    torch: ModuleType, info: Any, sample: Any, dtype: str, training: bool, label: str
) -> Iterator[str]:
    theirs = built(torch, torch, info, sample, dtype, training)
    want = outcome(lambda: dict(run_of(torch, torch, theirs, sample)))
    # A lazy module has parameters from its first call on only.
    theirs = built(torch, torch, info, sample, dtype, training)
    ours = built(torch, SUBJECT, info, sample, dtype, training)
    if not info.is_lazy:
        ours.load_state_dict({k: SUBJECT.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    got = outcome(lambda: dict(run_of(torch, SUBJECT, ours, sample)))
    if isinstance(want, str) or isinstance(got, str):
        if got != want:
            yield f"{label}: {got if isinstance(got, str) else 'a result'}, not {want if isinstance(want, str) else 'a result'}"
        return
    if got.keys() != want.keys():
        yield f"{label}: {list(got)}, not {list(want)}"
        return
    for what in want:
        text = same(got[what], want[what], what, ROOM[dtype])
        if text:
            yield f"{label}: {text}"


def module_refusals(torch: ModuleType, info: Any) -> Iterator[str]:
    """Calls that must be refused, with which words."""
    if info.module_error_inputs_func is None:
        return
    found(SUBJECT, info.name)
    wrong = info.module_error_inputs_func(
        info, device="cpu", dtype=torch.float64, requires_grad=False, training=True
    )
    for n, error in enumerate(wrong):
        told = []
        for T in (SUBJECT, torch):

            def attempt(T: ModuleType = T, error: Any = error) -> Any:
                module = built(torch, T, info, error.module_error_input, "float64", True)
                args, kwargs = arguments(torch, T, error.module_error_input.forward_input)
                return module(*args, **kwargs)

            told.append(outcome(attempt))
        # Some of them are refused on other devices only.
        if any(isinstance(t, str) for t in told) and told[0] != told[1]:
            yield f"{info.name} refusal #{n}: {told[0]}, not {told[1]}"


# ---------------------------------------------------------------- optimisers


def optimisers(torch: ModuleType, names: list[str]) -> Iterator[Any]:
    from torch.testing._internal.common_optimizers import optim_db

    return (info for info in optim_db if not names or info.name in names)


def weights(T: ModuleType, dtype: str, turned: bool = True) -> list[Any]:
    kind = getattr(T, dtype)
    flat = [0.5, -1.25, 2.0, 0.75, -0.5, 1.5]
    second = T.tensor(flat[:4], dtype=kind).reshape(2, 2)
    return [
        T.tensor(flat, dtype=kind).reshape(2, 3).requires_grad_(),
        (second.t() if turned else second).requires_grad_(),
    ]


def scheduled(T: ModuleType, schedule: Any, optimiser: Any) -> Any:
    """The table's own function, with the schedulers of `T`."""
    named = {n: getattr(T.optim.lr_scheduler, n) for n in schedule.__code__.co_names if n[0].isupper()}
    space = {**schedule.__globals__, **named}
    return types.FunctionType(schedule.__code__, space)(optimiser)


def shown_of(T: ModuleType, *what: Any) -> dict[str, Any]:
    return dict(optimised(T, *what))


def optimised(T: ModuleType, info: Any, kwargs: Any, schedules: Any, dtype: str) -> Iterator[tuple[str, Any]]:
    params = weights(T, dtype, info.name != "LBFGS")  # which PyTorch refuses gradients that are no vectors
    optimiser = found(T, f"optim.{info.name}")(params, **made(T, kwargs, {}))
    planned = [scheduled(T, s, optimiser) for s in schedules]
    yield "text", repr(optimiser)
    pulls = [(1.0, 0.5), (-2.0, 0.25), (0.5, 3.0), (1.5, -0.75)]
    # The later steps of LBFGS end elsewhere in PyTorch, too, where it begins 1e-14 beside.
    for step in range(1 if info.name == "LBFGS" else STEPS):
        a, b = pulls[step]

        def closure(a: float = a, b: float = b) -> Any:
            optimiser.zero_grad()
            loss = sum(((p * a) ** 2).sum() + (p.sin() * b).sum() for p in params)
            loss.backward()
            return loss

        loss = closure()
        optimiser.step(closure)
        for s in planned:
            s.step(loss) if "Plateau" in type(s).__name__ else s.step()
        yield f"loss {step}", loss
        yield f"parameters {step}", tuple(p.detach().clone() for p in params)
    held = optimiser.state_dict()
    yield "groups", [{k: str(v) for k, v in g.items()} for g in held["param_groups"]]
    for n, kept in held["state"].items():
        yield f"names of the state of {n}", sorted(kept)
        for k, v in sorted(kept.items()):
            if info.name == "LBFGS" and k not in ("n_iter", "func_evals", "t", "prev_loss"):
                continue  # quotients of differences that are nearly nothing
            yield f"state {k} of {n}", v if isinstance(v, (int, float)) else tuple(leaves(v))
    yield "schedules", [s.get_last_lr() for s in planned]


def optimiser_differences(torch: ModuleType, info: Any, dtype: str) -> Iterator[str]:
    found(SUBJECT, f"optim.{info.name}")
    if info.only_supports_sparse_grads:
        raise Missing(info.name)
    kind = getattr(torch, dtype)
    ways: list[dict[str, bool]] = [{}]
    if "foreach" in info.supported_impls:
        # PyTorch's ASGD of many tensors takes its rate in float32.
        fine = info.name != "ASGD" or dtype == "float32"
        ways = [{}, {"foreach": False}, *([{"foreach": True}] if fine else [])]
    plans = [[], *info.scheduler_inputs]
    for n, given in enumerate(info.optim_inputs_func(device="cpu", dtype=kind)):
        for m, schedules in enumerate(plans if n == 0 else [[]]):
            for way in ways:
                try:
                    kwargs = recipe(torch, {**given.kwargs, **way}, {})
                except Unsupported:
                    continue
                told = [
                    outcome(partial(shown_of, T, info, kwargs, schedules, dtype)) for T in (SUBJECT, torch)
                ]
                label = f"{info.name} {dtype} #{n} {given.desc} {way or ''} {f'schedules {m}' if m else ''}"
                got, want = told
                if isinstance(got, str) or isinstance(want, str):
                    if got != want:
                        yield f"{label}: {got if isinstance(got, str) else 'steps'}, not {want if isinstance(want, str) else 'steps'}"
                    continue
                if got.keys() != want.keys():
                    yield f"{label}: {sorted(got.keys() ^ want.keys())} on one side only"
                for what in want.keys() & got.keys():
                    text = same(got[what], want[what], what, ROOM[dtype])
                    if text:
                        yield f"{label}: {text}"
                        break


def optimiser_text(T: ModuleType, info: Any, params: Any, kwargs: Any) -> str:
    target = weights(T, "float64") if params is None else made(T, params, {})
    return repr(found(T, f"optim.{info.name}")(target, **made(T, kwargs, {})))


def optimiser_refusals(torch: ModuleType, info: Any) -> Iterator[str]:
    if info.optim_error_inputs_func is None:
        return
    found(SUBJECT, f"optim.{info.name}")
    for n, error in enumerate(info.optim_error_inputs_func(device="cpu", dtype=torch.float64)):
        given = error.optimizer_error_input
        with contextlib.suppress(Unsupported):
            params = (
                given.params
                if given.params is None or isinstance(given.params, str)
                else recipe(torch, given.params, {})
            )
            kwargs = recipe(torch, dict(given.kwargs), {})
            told = [outcome(partial(optimiser_text, T, info, params, kwargs)) for T in (SUBJECT, torch)]
            if told[0] != told[1]:
                yield f"{info.name} refusal #{n} {given.desc}: {told[0]}, not {told[1]}"


# ---------------------------------------------------------------- all


def differences(torch: ModuleType, name: str, dtypes: list[str]) -> Iterator[str]:
    """Of one module or optimiser."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in modules(torch, [name]):
            for dtype in dtypes:
                for training in (True, False):
                    yield from module_differences(torch, info, dtype, training)
            yield from module_refusals(torch, info)
        for info in optimisers(torch, [name]):
            for dtype in dtypes:
                yield from optimiser_differences(torch, info, dtype)
            yield from optimiser_refusals(torch, info)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.tables", description=__doc__)
    parser.add_argument("names", nargs="*", help="Linear, Adam; all, if none is given")
    parser.add_argument("--dtypes", default="float64,float32")
    asked = parser.parse_args()
    torch = prepare()
    every = [i.name.removeprefix("nn.") for i in (*modules(torch, []), *optimisers(torch, []))]
    bad, missing = 0, []
    for name in asked.names or every:
        try:
            for text in differences(torch, name, asked.dtypes.split(",")):
                print(text, flush=True)
                bad += 1
        except Missing:
            missing.append(name)
    print(f"missing ({len(missing)}): {', '.join(missing)}")
    print(f"{len(every) - len(missing)} modules and optimisers, {bad} differences")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
