"""Tiers, and the state that a test may not leave behind."""

import os
import random
import signal
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from tests.support import T

# A shell starts what it runs in the background deaf to Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TIERS = {"oracle", "cuda", "gpu", "slow", "emulated", "libraries", "mpi"}
EMULATE = "NBGRAD_CUDA_EMULATE"
SETTINGS = (
    "get_default_device",
    "get_default_dtype",
    "get_num_threads",
    "is_anomaly_enabled",
    "is_grad_enabled",
    "is_inference_mode_enabled",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--whole", action="store_true", help="every case in every dtype, shape and layout: for long"
    )


def pytest_configure(config: pytest.Config) -> None:
    if "emulated" in config.getoption("-m").split():
        os.environ.setdefault(EMULATE, "1")


@pytest.fixture(scope="session")
def whole(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--whole"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The fast tier, which the README runs, is what carries no other tier's mark. What needs an emulated device is for processes that
    have one: a test of the fast tier starts it. What needs PyTorch's libraries is for an environment that has all of them."""
    if not os.environ.get(EMULATE):
        items[:] = [item for item in items if not item.get_closest_marker("emulated")]
    if "libraries" not in config.getoption("-m").split():
        items[:] = [item for item in items if not item.get_closest_marker("libraries")]
    for item in items:
        if not TIERS & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.fast)


@pytest.fixture(scope="session")
def torch() -> ModuleType:
    """The oracle. Imported here and not by test modules, so that they can be collected without it."""
    return pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def global_state() -> Iterator[None]:
    """Modes, settings and random streams are as a new process has them, before and after a test, in whichever order the tests come."""
    random.seed(0)
    np.random.seed(0)
    T.manual_seed(0)
    modules = {T, sys.modules.get("torch", T)}
    for module in modules:
        module.default_generator.manual_seed(0)  # torch.manual_seed takes a millisecond
        module.set_warn_always(True)  # else some warnings come once a process, in whichever test is first
    before = [[getattr(module, name)() for name in SETTINGS] for module in modules]
    yield
    for module, values in zip(modules, before):
        for name, value in zip(SETTINGS, values):
            assert getattr(module, name)() == value, (
                f"the test left another value of {module.__name__}.{name}()"
            )
