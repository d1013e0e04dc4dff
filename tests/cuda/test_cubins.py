"""What a device loads, compiled for several kinds of them, all without one: no register goes to memory for want of room, and what
computes in float32 does nothing in float64 but what is listed.

One in sixteen of what the case table asks for, by their names; `--whole`, by hand, takes all in every dtype: an hour of a processor.
"""

import re
from collections.abc import Iterator

import pytest

from nbgrad.kernels.cuda.compile import Capability, compiled
from tests.cuda.loaded import Loaded, asked
from tests.cuda.recorded import folder
from tests.cuda.texts import one_in

pytestmark = pytest.mark.cuda

CAPABILITIES: list[Capability] = [(9, 0), (7, 5), (8, 0), (12, 0)]
# Of float32, what computes in float64: sums and products, scalars of rows and of pow, functions with loops, samples of gamma and binomial
# distributions and their slopes, angles brought near 0.
FLOAT64 = re.compile(
    r"(mean|sum|nansum|prod|dot|norm\d|norm_p|cumsum|cumprod|logcumsumexp|recurrence|var|std|logsumexp|inner"
    r"|(batch|layer|rms)_norm|(log_)?softmax|nll|cross_entropy|pow|atan2"
    r"|random_(gamma|binomial)|_dirichlet_grad|_standard_gamma_grad"
    r"|special_\w*(polynomial|bessel|airy|zeta)|igammac?|polygamma|digamma|(mv)?lgamma"
    r"|sin|cos|tan|sinc)_\w+"
)


def wrong(text: Loaded, capability: Capability) -> Iterator[str]:
    """What a text does that it may not."""
    made = compiled(text.name, text.source, text.params, capability)
    device = f"{text.name} {' '.join(text.params)} on sm_{capability[0]}{capability[1]}"
    if made.params != len(text.params):
        yield f"{device}: {made.params} parameters"
    if spills := made.cubin().spills:
        yield f"{device}: spills {spills} bytes"
    floats = {code[-2:] for code in text.params if code in ("*f2", "*f4", "*f8")}
    if floats and "f8" not in floats and not FLOAT64.fullmatch(text.name) and made.float64:
        yield f"{device}: {made.float64} instructions of float64"
    if "np.uint64(cuda.grid(1))" in text.source:
        wide, narrow = (len(re.findall(rf"(?:div|rem)\.{kind}", made.ptx)) for kind in ("u64", "u32"))
        if wide > narrow:
            yield f"{device}: a division of 64 bits without one of 32"


@pytest.fixture(scope="session")
def part(tmp_path_factory: pytest.TempPathFactory, whole: bool) -> list[Loaded]:
    """What is compiled."""
    pytest.importorskip("numba.cuda")
    found = asked(folder(tmp_path_factory, "loaded"), whole)
    assert len(found) > 1500
    return found if whole else one_in(16, found)


@pytest.mark.parametrize("shard", range(8))
def test_compile_and_keep_to_registers(part: list[Loaded], whole: bool, shard: int) -> None:
    found = []
    for k, text in enumerate(part[shard::8]):
        for capability in CAPABILITIES if whole or k % 4 == 0 else CAPABILITIES[:1]:
            found += wrong(text, capability)
    assert not found, "\n".join(found)
