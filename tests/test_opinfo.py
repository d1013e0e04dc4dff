"""A part of PyTorch's own table of operators; `python -m tests.opinfo` runs all of it."""

from types import ModuleType

import pytest

pytestmark = pytest.mark.oracle

NAMES = (
    *(
        "add",
        "mul",
        "lerp",
        "where",
        "sort",
        "kthvalue",
        "gather",
        "index_add",
        "masked_fill",
        "tril",
        "roll",
    ),
    *(
        "softmax",
        "cumsum",
        "var_mean",
        "std",
        "norm",
        "cat",
        "frexp",
        "linalg.slogdet",
        "linalg.svd",
        "linalg.solve",
    ),
    *("nn.functional.layer_norm", "nn.functional.gelu", "histogram", "linalg.qr", "empty_permuted"),
    "nn.functional.grid_sample",
)
# How the results of a gradient lie, and which of several nodes is shown, is not promised.
TOLD = ("strides of gradient", "history of", "view, offset of", "moved")


@pytest.fixture(scope="module")
def opinfo(torch: ModuleType) -> ModuleType:
    pytest.importorskip("expecttest", reason="PyTorch's tables need it")
    from tests import opinfo

    return opinfo


@pytest.mark.parametrize("name", NAMES)
def test_samples(opinfo: ModuleType, torch: ModuleType, name: str) -> None:
    modes = ["call", "gradient", "second", "in place", "out", "out empty", "error"]
    told: list[tuple[str, ...]] = []
    for task in opinfo.tasks([name], ["float64", "int64"]):
        opinfo.work(task, 2, 0, modes, 0, None, told.append)
    found = [t for t in told if t[0] == "found" and not t[2].startswith(TOLD)]
    assert not found, "\n".join(f"{mode}, {kind}: {text}" for _, mode, kind, text in found)
    assert any(t[0] == "done" for t in told)


OTHER_DTYPES = ("float32", "float16", "int32", "uint8", "bool")
OF_OTHERS = (
    *("floor_divide", "remainder", "lcm", "bitwise_left_shift", "cumsum", "cumprod", "addr", "tensordot"),
    *("logspace", "arange", "nn.functional.pixel_shuffle"),
)


@pytest.mark.parametrize("name", OF_OTHERS)
def test_samples_of_other_dtypes(opinfo: ModuleType, torch: ModuleType, name: str) -> None:
    told: list[tuple[str, ...]] = []
    for task in opinfo.tasks([name], OTHER_DTYPES):
        opinfo.work(task, 3, 0, ["call"], 0, None, told.append)
    found = [t for t in told if t[0] == "found" and not t[2].startswith(TOLD)]
    assert not found, "\n".join(f"{mode}, {kind}: {text}" for _, mode, kind, text in found)
    assert any(t[0] == "done" for t in told)


def test_an_altered_result_is_seen(
    opinfo: ModuleType, torch: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checker that finds nothing would pass everything."""
    right = opinfo.SUBJECT.exp
    monkeypatch.setattr(opinfo.SUBJECT, "exp", lambda x: right(x) + 1e-3)
    told: list[tuple[str, ...]] = []
    opinfo.work(opinfo.tasks(["exp"], ["float64"])[0], 2, 0, ["call"], 0, None, told.append)
    assert any(t[0] == "found" and t[2] == "value" for t in told)
