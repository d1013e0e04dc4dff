"""What only a GPU can say: `pytest -m gpu -x`. `python -m asv_benchmarks.gpu --json out.json` runs these, too, and takes figures."""

import os
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from nbgrad.memory import backend
from tests.cases import CASES
from tests.cuda.on_device import SOLVED, listed
from tests.cuda.test_emulated import FEW
from tests.support import T

pytestmark = pytest.mark.gpu


def on_device(*names: str, under: tuple[str, ...] = ()) -> dict[str, str]:
    """What is said of each case in a word, or all of it if that is bad; in a process of its own, as an error of a kernel ends all that
    uses the device."""
    command = [
        *under,
        sys.executable,
        "-X",
        "faulthandler",
        "-m",
        "tests.cuda.on_device",
        "--order",
        "0",
        *names,
    ]
    env = {k: v for k, v in os.environ.items() if k != "NBGRAD_CUDA_EMULATE"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    lines = [line for line in done.stdout.splitlines() if not line.startswith("=====")]
    said = dict(line.split(" ", 1) for line in lines)
    return {name: text if text.startswith("WRONG") else text.split()[0] for name, text in said.items()}


def test_smoke() -> None:
    assert T.cuda.is_available(), "no GPU"
    x = T.arange(10.0)
    y = x.cuda().requires_grad_()
    (y.sigmoid() * y).sum().backward()
    w = x.clone().requires_grad_()
    (w.sigmoid() * w).sum().backward()
    assert y.grad is not None and w.grad is not None
    assert T.allclose(y.grad.cpu(), w.grad)
    assert T.cuda.memory_allocated() > 0


def test_a_case_of_each_family() -> None:
    assert Counter(on_device(*FEW).values()) == {"right": len(FEW)}


def test_the_table() -> None:
    found = on_device()
    assert found.keys() == CASES.keys()
    assert {name: said for name, said in found.items() if said not in ("right", "none")} == {}
    none = {name for name, said in found.items() if said == "none"}
    library = getattr(backend.of(T.device("cuda", 0)), "driver").solver  # noqa: B009
    assert none == {*listed("no_kernel.txt"), *(SOLVED if library is None else ())}


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_kernels_keep_to_their_memory(tool: str) -> None:
    sanitizer = shutil.which("compute-sanitizer")
    assert sanitizer, "compute-sanitizer comes with CUDA's toolkit"
    said = on_device(*FEW, under=(sanitizer, "--tool", tool, "--error-exitcode", "9"))
    assert Counter(said.values()) == {"right": len(FEW)}


def test_random_numbers_are_those_of_pytorch() -> None:
    """The digits that its users publish, of seed 0."""
    T.manual_seed(0)
    first, then = T.rand(8, device="cuda"), T.rand(4, device="cuda")
    assert [round(x, 4) for x in first.tolist()] == [
        0.3990,
        0.5167,
        0.0249,
        0.9401,
        0.9459,
        0.7967,
        0.4150,
        0.8203,
    ]
    assert [round(x, 4) for x in then.tolist()] == [0.9722, 0.7910, 0.4690, 0.3300]
    T.manual_seed(0)
    normal = T.randn(8, device="cuda").tolist()
    wanted = [-0.9247, -0.4253, -2.6438, 0.1452, -0.1209, -0.5797, -0.6229, -0.3284]
    assert all(abs(x - y) < 2e-4 for x, y in zip(normal, wanted, strict=True))


def test_no_room() -> None:
    free, _ = T.cuda.mem_get_info()
    with pytest.raises(T.OutOfMemoryError, match=r"CUDA out of memory\. Tried to allocate"):
        T.empty(free, device="cuda")
    assert T.ones(3).cuda().sum().item() == 3


def test_streams_wait_for_each_other() -> None:
    x = T.ones(1 << 22).cuda()
    side = T.cuda.Stream()
    begin, end = T.cuda.Event(enable_timing=True), T.cuda.Event(enable_timing=True)
    side.wait_stream(T.cuda.current_stream())
    with T.cuda.stream(side):
        begin.record()
        for _ in range(50):
            x = x * 1.0 + 1.0
        end.record()
    T.cuda.current_stream().wait_event(end)
    assert x.amax().item() == x.amin().item() == 51
    assert begin.elapsed_time(end) > 0


def test_a_graph_is_replayed() -> None:
    x = T.zeros(1 << 16).cuda()
    graph = T.cuda.CUDAGraph()
    (x * 2 + 1).sum()
    with T.cuda.graph(graph):
        y = (x * 2 + 1).sum()
    for value in (1.0, 3.0):
        x.fill_(value)
        graph.replay()
        assert y.item() == (2 * value + 1) * (1 << 16)
