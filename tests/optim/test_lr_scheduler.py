"""Schedules: fifty steps exactly as PyTorch's, their state, warnings and refusals."""

import math
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.compare import outcome
from tests.support import T

METRICS = [math.cos(0.3 * k) + 1.0 / (k + 1) for k in range(60)]


def optimizer(lib: ModuleType, name: str = "SGD", **options: Any) -> Any:
    groups = [
        {"params": [lib.ones(2, requires_grad=True)], "lr": 0.3},
        {"params": [lib.ones(2, requires_grad=True)]},
    ]
    return getattr(lib.optim, name)(groups, **({"lr": 0.1} | options))


class Halving:
    """A schedule with state, which is saved."""

    def __init__(self) -> None:
        self.base = 0.5

    def __call__(self, epoch: int) -> float:
        return self.base**epoch


def in_a_row(s: Any, o: Any) -> Any:
    parts = [s.ConstantLR(o, 0.1, 4), s.ExponentialLR(o, 0.9), s.StepLR(o, 3)]
    return s.SequentialLR(o, parts, milestones=[5, 20])


def at_once(s: Any, o: Any) -> Any:
    return s.ChainedScheduler([s.LinearLR(o, 0.5, 1.0, 8), s.ExponentialLR(o, 0.95)])


def nested(s: Any, o: Any) -> Any:
    first = s.SequentialLR(o, [s.ConstantLR(o, 0.5, 3), s.CosineAnnealingLR(o, 10)], milestones=[7])
    return s.ChainedScheduler([first, s.MultiStepLR(o, [2, 20])])


MAKERS: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda k: 0.95**k),
    "LambdaLR, each": lambda s, o: s.LambdaLR(o, [Halving(), lambda k: 1 / (k + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda k: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 7, gamma=0.3),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 10, 10, 31], gamma=0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.25, 9),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.25, 0.75, 30),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.93),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 40, power=1.7),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 12, eta_min=0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 5, 2, eta_min=0.01),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, total_steps=51),
    "OneCycleLR, three": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.7], epochs=5, steps_per_epoch=12, three_phase=True, anneal_strategy="linear"
    ),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=7, step_size_down=4),
    "CyclicLR, triangular2": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.1, 6, mode="triangular2"),
    "CyclicLR, exp_range": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, mode="exp_range", gamma=0.97),
    "CyclicLR, own": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 6, scale_fn=Halving(), scale_mode="cycle"),
    "ReduceLROnPlateau": lambda s, o: s.ReduceLROnPlateau(o, factor=0.5, patience=2, cooldown=2, min_lr=0.01),
    "ReduceLROnPlateau, max": lambda s, o: s.ReduceLROnPlateau(
        o, "max", 0.5, 1, 0.05, threshold_mode="abs", min_lr=[0.01, 0.02]
    ),
    "SequentialLR": in_a_row,
    "ChainedScheduler": at_once,
    "ChainedScheduler, nested": nested,
}


def plain(value: Any) -> Any:
    """State without the names of classes."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, tuple)) else value


def step(scheduler: Any, k: int) -> None:
    if type(scheduler).__name__ == "ReduceLROnPlateau":
        scheduler.step(METRICS[k])
    else:
        scheduler.step()


def course(
    lib: ModuleType, make: Callable[[Any, Any], Any], name: str, momentum: dict[str, Any]
) -> list[Any]:
    """All options of the groups at each of fifty steps, and the state halfway and at the end."""
    o = optimizer(lib, name, **momentum)
    scheduler = make(lib.optim.lr_scheduler, o)
    seen: list[Any] = []
    for k in range(50):
        o.step()
        step(scheduler, k)
        seen.append([{k: v for k, v in g.items() if k != "params"} for g in o.param_groups])
        seen.append(list(scheduler.get_last_lr()))
        if k in (25, 49):
            seen.append(plain({k: v for k, v in scheduler.state_dict().items() if k != "_last_lr"}))
    return seen


@pytest.mark.oracle
@pytest.mark.parametrize("which", MAKERS)
@pytest.mark.parametrize(("name", "options"), [("SGD", {"momentum": 0.9}), ("Adam", {})], ids=["SGD", "Adam"])
def test_fifty_steps(torch: ModuleType, which: str, name: str, options: dict[str, Any]) -> None:
    got = course(T, MAKERS[which], name, options)
    want = course(torch, MAKERS[which], name, options)
    assert got == want


@pytest.mark.parametrize("which", MAKERS)
def test_state_dict_goes_on(which: str) -> None:
    """A schedule made anew, with the state loaded, goes on where the saved one was."""
    o, other = optimizer(T, momentum=0.9), optimizer(T, momentum=0.9)
    scheduler = MAKERS[which](T.optim.lr_scheduler, o)
    for k in range(13):
        o.step()
        step(scheduler, k)
    fresh = MAKERS[which](T.optim.lr_scheduler, other)
    other.load_state_dict(o.state_dict())
    fresh.load_state_dict(scheduler.state_dict())
    for k in range(13, 30):
        o.step()
        other.step()
        step(scheduler, k)
        step(fresh, k)
        assert o.state_dict() == other.state_dict()


def test_rates_by_hand() -> None:
    o = optimizer(T)
    scheduler = T.optim.lr_scheduler.StepLR(o, 2, gamma=0.5)
    rates = []
    for _ in range(5):
        rates.append(scheduler.get_last_lr()[1])
        o.step()
        scheduler.step()
    assert rates == [0.1, 0.1, 0.05, 0.05, 0.025]


def test_a_tensor_rate_is_written_to() -> None:
    lr = T.tensor(0.5)
    o = T.optim.SGD([T.ones(2, requires_grad=True)], lr=lr)
    scheduler = T.optim.lr_scheduler.ExponentialLR(o, 0.5)
    o.step()
    scheduler.step()
    assert lr.item() == 0.25 and o.param_groups[0]["lr"] is lr
    assert scheduler.base_lrs[0].item() == 0.5


def told(run: Callable[[], Any]) -> list[Any]:
    """Warnings of a run."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [(w.category.__name__, str(w.message), w.filename == __file__) for w in caught]


def complaints(lib: ModuleType) -> dict[str, Callable[[], Any]]:
    s = lib.optim.lr_scheduler

    def too_early() -> None:
        s.StepLR(optimizer(lib), 2).step()

    def early_again() -> None:
        o = optimizer(lib)
        o.step()
        s.StepLR(o, 2).step()

    def overridden() -> None:
        o = optimizer(lib)
        scheduler = s.StepLR(o, 2)
        o.step = lambda: None
        scheduler.step()

    def asked() -> None:
        s.ExponentialLR(optimizer(lib), 0.5).get_lr()

    def to_epoch(make: Callable[[Any, Any], Any]) -> None:
        o = optimizer(lib)
        scheduler = make(s, o)
        o.step()
        scheduler.step(4)

    found = {"too early": too_early, "early again": early_again, "overridden": overridden, "asked": asked}
    for name in ("StepLR", "CosineAnnealingLR", "LambdaLR"):
        found[f"epoch, {name}"] = lambda make=MAKERS[name]: to_epoch(make)
    return found


@pytest.mark.oracle
@pytest.mark.parametrize("name", complaints(T))
def test_warnings(torch: ModuleType, name: str) -> None:
    want = told(complaints(torch)[name])
    assert want and told(complaints(T)[name]) == want


@pytest.mark.oracle
@pytest.mark.parametrize(
    "which", [n for n in MAKERS if not n.startswith(("Reduce", "Sequential", "Chained", "OneCycle"))]
)
@pytest.mark.filterwarnings("ignore:The epoch parameter")
def test_jump_to_an_epoch(torch: ModuleType, which: str) -> None:
    def rates(lib: ModuleType) -> list[Any]:
        o = optimizer(lib, momentum=0.9)
        scheduler = MAKERS[which](lib.optim.lr_scheduler, o)
        found = []
        for epoch in (3, 17, 1, 40):
            o.step()
            scheduler.step(epoch)
            found += scheduler.get_last_lr()
            scheduler.step()
            found += scheduler.get_last_lr()
        return found

    assert rates(T) == rates(torch)


def refusals(lib: ModuleType) -> dict[str, Callable[[], Any]]:
    s = lib.optim.lr_scheduler
    o = optimizer(lib, momentum=0.9)
    other = optimizer(lib)

    def grown() -> None:
        mine = optimizer(lib)
        scheduler = s.ReduceLROnPlateau(mine, patience=0, min_lr=[0.1, 0.1])
        mine.add_param_group({"params": [lib.ones(1, requires_grad=True)]})
        scheduler.step(1.0)
        scheduler.step(2.0)

    def past_the_end() -> None:
        mine = optimizer(lib, momentum=0.9)
        scheduler = s.OneCycleLR(mine, 0.1, total_steps=2)
        for _ in range(4):
            mine.step()
            scheduler.step()

    return {
        "no optimizer": lambda: s.StepLR(3, 2),
        "no optimizer, plateau": lambda: s.ReduceLROnPlateau(3),
        "no optimizer, cyclic": lambda: s.CyclicLR(3, 1, 2),
        "resumed": lambda: s.StepLR(optimizer(lib), 2, last_epoch=3),
        "base": lambda: s.LRScheduler(optimizer(lib)),
        "lambdas": lambda: s.LambdaLR(o, [lambda k: k]),
        "no function": lambda: s.MultiplicativeLR(o, 3),
        "constant": lambda: s.ConstantLR(o, 2.0),
        "linear start": lambda: s.LinearLR(o, 0.0),
        "linear end": lambda: s.LinearLR(o, 0.5, 2.0),
        "restarts T_0": lambda: s.CosineAnnealingWarmRestarts(o, 0),
        "restarts T_mult": lambda: s.CosineAnnealingWarmRestarts(o, 1, 0),
        "restarts eta_min": lambda: s.CosineAnnealingWarmRestarts(o, 1, 1, "a"),
        "restarts epoch": lambda: s.CosineAnnealingWarmRestarts(o, 1).step(-1),
        "cycle without steps": lambda: s.OneCycleLR(o, 0.1),
        "cycle of steps": lambda: s.OneCycleLR(o, 0.1, total_steps=0),
        "cycle of epochs": lambda: s.OneCycleLR(o, 0.1, epochs=-1, steps_per_epoch=1),
        "cycle of parts": lambda: s.OneCycleLR(o, 0.1, epochs=1, steps_per_epoch=0),
        "cycle share": lambda: s.OneCycleLR(o, 0.1, total_steps=5, pct_start=2.0),
        "cycle strategy": lambda: s.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="a"),
        "cycle rates": lambda: s.OneCycleLR(o, [0.1], total_steps=5),
        "cycle momentum": lambda: s.OneCycleLR(optimizer(lib, "Adagrad"), 0.1, total_steps=5),
        "past the end": past_the_end,
        "cyclic mode": lambda: s.CyclicLR(o, 0.1, 0.2, mode="a"),
        "cyclic rates": lambda: s.CyclicLR(o, 0.1, [0.2, 0.3, 0.4]),
        "plateau factor": lambda: s.ReduceLROnPlateau(o, factor=1.0),
        "plateau mode": lambda: s.ReduceLROnPlateau(o, "a"),
        "plateau threshold": lambda: s.ReduceLROnPlateau(o, threshold_mode="a"),
        "plateau rates": lambda: s.ReduceLROnPlateau(o, min_lr=[0.1]),
        "plateau grown": grown,
        "in a row, none": lambda: s.SequentialLR(o, [], []),
        "in a row, no schedule": lambda: s.SequentialLR(o, [3], []),
        "in a row, plateau": lambda: s.SequentialLR(o, [s.ReduceLROnPlateau(o)], []),
        "in a row, another": lambda: s.SequentialLR(o, [s.StepLR(other, 1)], []),
        "in a row, milestones": lambda: s.SequentialLR(o, [s.StepLR(o, 1)], [3]),
        "at once, none": lambda: s.ChainedScheduler([]),
        "at once, plateau": lambda: s.ChainedScheduler([s.ReduceLROnPlateau(o)]),
        "at once, another": lambda: s.ChainedScheduler([s.StepLR(o, 1), s.StepLR(other, 1)]),
    }


@pytest.mark.oracle
@pytest.mark.parametrize("name", refusals(T))
def test_refusals(torch: ModuleType, name: str) -> None:
    want = outcome(refusals(torch)[name])
    assert isinstance(want, str)
    assert outcome(refusals(T)[name]) == want
