"""The host's whole way to a GPU, over a driver that counts and runs no kernel: launches, memory, copies, errors, time."""

import os
from functools import lru_cache
from typing import Any

import pytest

from nbgrad.kernels.cuda import probe
from tests.cuda.null import RAISES, play

pytestmark = pytest.mark.cuda

MLP = """
from nbgrad import nn
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to("cuda")
optimiser = torch.optim.Adam(model.parameters())
x, y = torch.randn(32, 64).to("cuda"), torch.randint(0, 10, (32,)).to("cuda")
loss = nn.CrossEntropyLoss()

def step():
    optimiser.zero_grad()
    loss(model(x), y).backward()
    optimiser.step()

for _ in range(3):
    step()
"""


def test_a_training_step_waits_for_nothing() -> None:
    found = eval(play(MLP + "print(null.asked(step))"))
    assert found.pop("launches") <= 20
    assert found.pop("uploads", 0) <= 1  # of where the optimiser finds gradients
    assert found.pop("copies", 0) <= 1 and found == {}


def test_a_thousand_steps_leave_nothing_behind() -> None:
    out = play(
        MLP
        + """
lent, reserved = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
taken = null.bytes
for _ in range(1000):
    step()
print(null.bytes - taken, torch.cuda.memory_allocated() - lent, torch.cuda.memory_reserved() - reserved)
"""
    )
    assert out.split() == ["0", "0", "0"]


def test_the_host_is_quick() -> None:
    """Generously, as caches may be cold: the figures are printed."""
    out = play(
        MLP
        + """
import time
from nbgrad.kernels.cuda.launch import streams
from nbgrad.memory import gpu
serves = gpu.of(torch.device("cuda"))
a, b, w = torch.ones(4).to("cuda"), torch.ones(4).to("cuda"), torch.ones(4).to("cuda").requires_grad_()
text = "from numba import cuda\\ndef @NAME@(n, o, x, y):\\n    o[cuda.grid(1)] = x[0] * y[0]\\n"
code = serves.driver.load("times", text, ["i8", "*f4", "*f4", "*f4"])
at = (4, a._buf.address, a._buf.address, b._buf.address)

def took(f, count):
    f()
    best = 1e9
    for _ in range(7):
        start = time.thread_time()
        for _ in range(count):
            f()
        best = min(best, (time.thread_time() - start) / count * 1e6)
    return best

print({
    "block": took(lambda: serves.pool.free(serves.pool.allocate(1000, 0), 1000, 0), 5000),
    "launch": took(lambda: serves.driver.launch(code, 1, at, 0), 5000),
    "product": took(lambda: a * b, 2000),
    "recorded": took(lambda: a * w, 2000),
    "step": took(step, 40),
})
"""
    )
    found = eval(out)
    print({name: round(us, 2) for name, us in found.items()})
    assert found["block"] < 10 and found["launch"] < 10
    assert found["product"] < 50 and found["recorded"] < 50 and found["step"] < 5000


def test_launches_go_straight_to_the_driver() -> None:
    """None by way of Python, whichever thread, stream or device the last one was of, but where it is noted what a kind of call launches;
    what fails is told."""
    play(
        RAISES
        + """
import threading
from cuda.bindings import driver as cuda
from nbgrad.kernels.cuda import direct
from nbgrad.memory import gpu

def python(*args):
    raise AssertionError("a launch by way of Python")

from nbgrad.base.switches import noting

driver = gpu.of(torch.device("cuda")).driver
plainly, driver.launch = driver.launch, lambda *args: (plainly if noting.steps is not None else python)(*args)
x, w = torch.ones(4).cuda(), torch.ones(4).cuda().requires_grad_()
for way in (lambda: x * 2.5, lambda: (x * w).sum().backward(), lambda: torch.softmax(x, 0), lambda: x[[0, 1]]):
    way(), way(), way()
    thread = threading.Thread(target=lambda: null.asked(way) == null.asked(way) or print("not the same"))
    thread.start()
    thread.join()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        way()
        assert direct._now[direct.STREAM] == side.cuda_stream
    way()
    assert direct._now[direct.STREAM] == 1
raises(RuntimeError, "two devices, cuda:0 and cpu!", torch.add, x, torch.ones(4))
for launches, way in (
    (1, lambda: x * 2.5),
    (1, lambda: torch.searchsorted(x, x)),
    (1, lambda: torch.repeat_interleave(x, 2)),
    (2, lambda: x.quantile(0.3)),
    (4, lambda: torch.gradient(x)),
):
    way(), way(), way(), way()
    assert null.asked(way) == {"launches": launches}, (launches, null.asked(way))
cuda.cuCtxSetCurrent(0)
raises(torch.AcceleratorError, "CUDA error: ", lambda: x * 2.5)
"""
    )


def test_no_room() -> None:
    play(
        RAISES
        + """
x = torch.ones(1000).cuda()
null.limit.value = 256 << 20
kept = [torch.empty(4 << 20, device="cuda") for _ in range(3)]
del kept
assert torch.cuda.memory_reserved() > 48 << 20
big = torch.empty(55 << 20, device="cuda")  # what waits in lists makes room
trims = null.trims
assert trims == torch.cuda.memory_stats()["num_alloc_retries"] == 1
raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total", torch.empty, 20 << 20, device="cuda")
assert torch.cuda.memory_stats()["num_ooms"] == 1
del big
assert torch.empty(20 << 20, device="cuda").is_cuda and (x + 1).is_cuda
"""
    )


def test_others_share_the_memory() -> None:
    play(
        """
from cuda.core.utils import StridedMemoryView
from numba import cuda as numbas
x = torch.arange(12.0).reshape(3, 4).to("cuda").t()
view = StridedMemoryView.from_dlpack(x, stream_ptr=-1)
assert view.ptr == x.data_ptr() and view.shape == (4, 3) and view.strides == (1, 4) and view.device_id == 0
assert StridedMemoryView.from_cuda_array_interface(x, stream_ptr=-1).ptr == x.data_ptr()
assert numbas.as_cuda_array(x).strides == (4, 16)
again = torch.as_tensor(numbas.as_cuda_array(x))
assert again.data_ptr() == x.data_ptr() and again.stride() == (1, 4)
del again
back = torch.from_dlpack(view)
assert back.data_ptr() == x.data_ptr() and back.stride() == (1, 4) and back.device == x.device
lent = torch.cuda.memory_allocated()
del x, view
assert torch.cuda.memory_allocated() == lent
del back
assert torch.cuda.memory_allocated() == 0
"""
    )


def test_an_error_of_a_kernel_is_told_with_its_name() -> None:
    play(
        RAISES
        + """
x = torch.ones(4).cuda()
y = x * 2
null.fault.value = 700
raises(torch.AcceleratorError, "CUDA error: an illegal memory access was encountered\\nCUDA kernel errors might", torch.cuda.synchronize)
null.fault.value = 700
raises(torch.AcceleratorError, "an illegal memory access was encountered", y.item if y.numel() == 1 else y.tolist)
"""
    )
    out = play(
        """
x = torch.ones(4).cuda()
x * 2
null.fault.value = 700
try:
    x * 2
except torch.AcceleratorError as error:
    print(str(error).splitlines()[-1])
""",
        CUDA_LAUNCH_BLOCKING="1",
    )
    assert out.startswith("The kernel that was launched last is `mul")


def test_a_process_that_was_forked_is_refused() -> None:
    play(
        RAISES
        + """
import os
x = torch.ones(4).cuda()
assert not torch.cuda._is_in_bad_fork()
child = os.fork()
if not child:
    assert torch.cuda._is_in_bad_fork()
    raises(RuntimeError, "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multipro", torch.ones(4).cuda)
    raises(RuntimeError, "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multipro", x.tolist)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert (x + 1).is_cuda
"""
    )


def test_of_a_driver_that_is_not_there_children_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are told that there is none, as their parent was, and not how to start processes."""
    monkeypatch.setattr(probe, "_process", os.getpid() + 1)
    for driver in (None, probe.Found(1, 13000)):
        found: Any = lru_cache(lambda driver=driver: driver)
        monkeypatch.setattr(probe, "found", found)
        assert not probe.forked()
        probe.found()
        assert probe.forked() is (driver is not None)


def test_what_is_missing_is_said() -> None:
    begin = "import ctypes\nnull = ctypes.CDLL('libcuda.so.1')\nimport nbgrad as torch\n" + RAISES
    for name, value, kind, text in (
        ("null_devices", 0, "RuntimeError", "No CUDA GPUs are available"),
        (
            "null_version",
            12080,
            "RuntimeError",
            "system is too old (found version 12080). Please update your",
        ),
    ):
        play(
            f"""
ctypes.c_int64.in_dll(null, "{name}").value = {value}
assert not torch.cuda.is_available() and torch.cuda.device_count() == 0
raises({kind}, "{text}", torch.cuda.init)
raises({kind}, "{text}", torch.ones(1).cuda)
""",
            begin,
        )
    for found, text in (
        ("'no_such_package'", "there is a driver, but no no_such_package; pip install 'nbgrad[cuda]'"),
        ("'cuda.core.no_such'", "there is a driver, but no cuda.core.no_such; pip install 'nbgrad[cuda]'"),
    ):
        play(
            f"""
from nbgrad.kernels.cuda import probe
probe._NEEDED = ({found},)
assert not torch.cuda.is_available()
raises(AssertionError, "Torch not compiled with CUDA enabled: {text}", torch.cuda.init)
""",
            begin,
        )
    play(
        """
from nbgrad.kernels.cuda import probe
probe._COMPILER = (0, 29)
raises(AssertionError, "kernels are compiled by numba-cuda 0.29, and this is 0.30", torch.cuda.init)
""",
        begin,
    )


def test_graphs_launch_as_one() -> None:
    play(
        """
x = torch.ones(8).cuda()
y = (x * 2).sum()
graph = torch.cuda.CUDAGraph()
def record():
    global y
    with torch.cuda.graph(graph):
        y = (x * 2).sum()
assert "launches" not in null.asked(record)
assert null.asked(graph.replay) == {"launches": 2, "graphs": 1}
assert null.asked(graph.replay) == {"launches": 2, "graphs": 1}
torch.rand(8, device="cuda")
random = torch.cuda.CUDAGraph()
with torch.cuda.graph(random):
    z = torch.rand(8, device="cuda") + torch.randn(8, device="cuda")
assert null.asked(random.replay) == {"launches": 3, "graphs": 1, "uploads": 1}  # of where the stream stands
"""
    )


def test_cubins_are_kept() -> None:
    """The second process asks for no compiler."""
    program = """
import sys
x = torch.ones(4).cuda()
x * 7
print("numba.cuda" in sys.modules or "numba_cuda" in sys.modules)
"""
    play(program)
    assert play(program).strip() == "False"


def test_a_stream_of_its_own_for_each_thread() -> None:
    play(
        """
import threading
x = torch.ones(4).cuda()
found = []
def work():
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        y = x + 1
        found.append((torch.cuda.current_stream() == side, y._buf.stream == side.cuda_stream))
threads = [threading.Thread(target=work) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
assert found == [(True, True)] * 4, found
assert torch.cuda.current_stream().cuda_stream == 0
"""
    )
