"""What scripts ask of accelerators and their libraries is answered as by PyTorch on a machine that has none."""

from types import ModuleType

import pytest

from tests.support import T


def asked(t: ModuleType) -> list[object]:
    cudnn = t.backends.cudnn
    return [
        *(cudnn.is_available(), cudnn.version(), cudnn.enabled, cudnn.benchmark, cudnn.deterministic),
        *(t.backends.mps.is_available(), t.backends.mps.is_built(), t.cuda.is_available()),
    ]


def test_there_is_no_accelerator() -> None:
    assert asked(T) == [False, None, True, False, False, False, False, False]


# PyTorch's own tests fix its switches for a whole process, so these are not compared with it.
def test_switches_can_be_set() -> None:
    T.backends.cudnn.benchmark = True
    assert T.backends.cudnn.benchmark
    T.backends.cudnn.benchmark = False


@pytest.mark.parametrize(
    ("switch", "value", "text"),
    [
        ("benchmark", "a", "set_benchmark_cudnn expects a bool, but got str"),
        ("enabled", 1, "set_enabled_cudnn expects a bool, but got int"),
        ("deterministic", 1, "set_deterministic_cudnn expects a bool, but got int"),
        ("allow_tf32", 1, "set_allow_tf32_cublas expects a bool, but got int"),
    ],
)
def test_switches_take_bools(switch: str, value: object, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        setattr(T.backends.cudnn, switch, value)


@pytest.mark.oracle
def test_pytorch_answers_so(torch: ModuleType) -> None:
    if torch.cuda.is_available() or torch.backends.mps.is_available():
        torch = T  # nothing to compare with
    assert asked(torch) == asked(T)
