"""Operands that are not all on one device: each call of several in the case table refuses it, but those that PyTorch has copy."""

import re
import warnings
from typing import Any

import pytest

from tests.cases import CASES, samples
from tests.cuda.on_device import DEVICE, on_device, usual
from tests.support import T

pytestmark = pytest.mark.emulated

# A part is written over from wherever its values are; a broadcast is views.
TAKEN = re.compile(
    r"(select|slice|diagonal|as_strided)_scatter|setitem_\w+|inplace_view_diagonal|broadcast_tensors"
)
WORDS = re.compile(
    r"Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
    r"|Input and (hidden|parameter) tensors are not at the same device, found input tensor at (cpu|cuda:0) and \w+ tensor at (cpu|cuda:0)"
    r"|grid_sampler\(\): expected input and grid to be on same device, but input is on (cpu|cuda:0) and grid is on (cpu|cuda:0)"
    r"|Input tensors must all be on the same device. Input 0 is on device (cpu|cuda:0) and input 1 is on device (cpu|cuda:0)."
    r"|Expected query, key, and value to have the same device type, but got [\w :.]+ and value.device: (cpu|cuda:0) instead."
    r"|meshgrid expects all tensors to have the same device"
)


def _said(case: Any, operands: list[Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            case.fn(T, *operands)
        except RuntimeError as error:
            return str(error)
    return ""


def test_each_call_of_several_refuses_another_devices() -> None:
    asked, wrong = 0, []
    for case in CASES.values():
        sample = next(samples(case, usual(case)))
        for k in range(len(sample.tensors(T))):
            operands = [t if j == k else on_device(t) for j, t in enumerate(sample.tensors(T))]
            if len(operands) < 2 or not operands[k].ndim:
                continue
            said = _said(case, operands)
            asked += 1
            fine = (
                not said if TAKEN.fullmatch(case.name) else WORDS.fullmatch(said) or "no CUDA kernel" in said
            )
            if not fine:
                wrong.append(f"{case.name}, operand {k}: {said or 'taken'}")
    assert asked > 400 and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("times", [[1, 2, 0], [2]])
def test_counts_of_repetitions_are_where_what_is_repeated_is(times: list[int]) -> None:
    for x, n in ((T.ones(3, device=DEVICE), T.tensor(times)), (T.ones(3), T.tensor(times, device=DEVICE))):
        with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
            x.repeat_interleave(n)


def test_ranks_are_where_what_is_in_order_is() -> None:
    with pytest.raises(RuntimeError, match=re.escape("quantile() q tensor must be on the same device")):
        T.ones(3, device=DEVICE).quantile(T.tensor([0.5]))


def test_a_complex_number_on_the_cpu_is_a_number() -> None:
    """Beside real and complex operands, and at a call that is planned already."""
    x = T.ones(2, device=DEVICE)
    for number in (2j, 1 - 1j):
        for operand in (x, x * 1j):
            got = (operand * T.tensor(number)).cpu().tolist()
            assert got == (operand.cpu() * number).tolist()
