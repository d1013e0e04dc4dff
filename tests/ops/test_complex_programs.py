"""Random programs of complex numbers, in parts that run side by side."""

import warnings

import pytest

from tests.complex_programs import compare


@pytest.mark.oracle
@pytest.mark.parametrize("part", range(6))
def test_random_programs_are_torchs(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of real parts taken from complex gradients
        told = {n: words for n in range(25 * part, 25 * part + 25) if (words := compare(n))}
    assert not told
