"""Tiers, and the state that a test may not leave behind."""

import os
import signal
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.support import T

# A shell starts what it runs in the background deaf to Ctrl-C, which some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TIERS = {"oracle", "cuda", "gpu", "slow", "emulated", "libraries", "mpi"}
EMULATE = "NBGRAD_CUDA_EMULATE"


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
    """Modes, default dtype and random stream are as a new process has them, before and after a test."""
    T.manual_seed(0)
    for module in (T, sys.modules.get("torch", T)):
        module.set_warn_always(True)  # else some warnings come once a process, in whichever test is first
    yield
    assert T.is_grad_enabled(), "the test left grad mode off"
    assert T.get_default_dtype() is T.float32, "the test left another default dtype"
