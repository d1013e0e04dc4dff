"""`torch.cuda` where there is a device, which the CPU plays: what it answers of memory, streams, graphs, generators. In processes of
their own."""

from tests.cuda.null import RAISES
from tests.cuda.test_emulated import run

BEGIN = "import nbgrad as torch\ncuda = torch.cuda\n"


def test_which_device_is_used() -> None:
    run(
        "-c",
        BEGIN
        + RAISES
        + """
assert cuda.is_available() and cuda.device_count() == 1 and torch.accelerator.is_available()
assert not cuda.is_initialized() and cuda.memory_stats() == {} and cuda.memory_allocated() == 0
cuda.init()
assert cuda.is_initialized() and cuda.current_device() == 0 == torch.accelerator.current_device_index()
assert torch.accelerator.current_accelerator() == torch.device("cuda")
has = cuda.get_device_properties("cuda:0")
assert has.name == cuda.get_device_name() and (has.major, has.minor) == cuda.get_device_capability(0) == (9, 0)
assert repr(has).startswith("_CudaDeviceProperties(name='Emulated GPU', major=9, minor=0, total_memory=16384MB, multi_proc")
assert cuda.get_arch_list() == ["sm_90"] and cuda.get_gencode_flags() == "-gencode compute=compute_90,code=sm_90"
cuda.set_device(0)
raises(cuda.AcceleratorError, "CUDA error: invalid device ordinal", cuda.set_device, 3)
raises(AssertionError, "Invalid device id", cuda.get_device_properties, 3)
raises(ValueError, "Expected a cuda device, but got: cpu", cuda.set_device, "cpu")
with cuda.device(0), cuda.device("cuda:0"), cuda.device_of(torch.ones(1).cuda()), torch.accelerator.device_index(0):
    assert torch.ones(2).cuda().get_device() == 0
assert cuda.nvtx.range_push("a") == 0 and cuda.nvtx.range_push("b") == 1 and cuda.nvtx.range_pop() == 1
with cuda.nvtx.range("step {}", 3):
    cuda.nvtx.range_end(cuda.nvtx.range_start("c"))
assert cuda.nvtx.range_pop() == 0 and cuda.nvtx.range_pop() == -1 and cuda.nvtx.mark("here") == 0
cuda.set_sync_debug_mode("error")
raises(RuntimeError, "called a synchronizing CUDA operation", torch.ones(1).cuda().item)
assert cuda.get_sync_debug_mode() == 2
""",
    )


def test_queues_by_their_common_names_and_old_types() -> None:
    run(
        "-c",
        BEGIN
        + RAISES
        + """
s, e = torch.Stream(), torch.Event("cuda", enable_timing=True)
assert type(s) is cuda.Stream and type(e) is cuda.Event and isinstance(s, torch.Stream) and isinstance(e, torch.Event)
assert s.device == torch.device("cuda", 0) and s.device_type == 1 and s.native_handle == s.cuda_stream and not s.is_capturing()
assert torch.Stream(stream_id=s.stream_id, device_index=0, device_type=1) == s != torch.Stream("cpu")
with s:
    assert torch.accelerator.current_stream() == s
    y = torch.ones(2, device="cuda") * 2
assert not e.event_id
s.record_event(e)
assert e.event_id and s.record_event().query() in (True, False) and e.device == s.device
torch.cuda.current_stream().wait_stream(s)
assert y.tolist() == [2.0, 2.0]
assert isinstance(y, cuda.FloatTensor) and not isinstance(y, torch.FloatTensor) and not isinstance(y, cuda.HalfTensor)
assert y.type() == "torch.cuda.FloatTensor" and y.type(torch.FloatTensor).device.type == "cpu"
assert torch.ones(2).type(cuda.HalfTensor).type() == "torch.cuda.HalfTensor" and y.type(cuda.FloatTensor) is y
z = cuda.LongTensor([1, 2])
assert z.device == y.device and z.tolist() == [1, 2] and cuda.FloatTensor(2, 3).shape == (2, 3) and cuda.FloatTensor(y).is_cuda
raises(RuntimeError, "legacy constructor expects device type: cuda but device type: cpu was passed", cuda.FloatTensor, 2, device="cpu")
raises(TypeError, "device=cuda", cuda.FloatTensor, torch.ones(2))
import warnings
warnings.simplefilter("ignore")
torch.set_default_tensor_type(cuda.DoubleTensor)
assert torch.zeros(1).type() == "torch.cuda.DoubleTensor"
""",
    )


def test_what_is_known_of_memory() -> None:
    run(
        "-c",
        BEGIN
        + RAISES
        + """
x = torch.ones(1000).cuda()
assert cuda.memory_allocated() == torch.accelerator.memory_allocated() == 4096
y = torch.ones(1_000_000).cuda()
assert cuda.memory_allocated() == 4096 + 4_000_256 and cuda.memory_reserved() == 4096 + (4 << 20)
stats = cuda.memory_stats()
assert stats["requested_bytes.all.current"] == 4_004_000 and stats["allocation.large_pool.current"] == 1
assert list(stats) == sorted(stats) and cuda.memory_stats_as_nested_dict()["num_ooms"] == 0
del y
assert cuda.memory_allocated() == 4096 and cuda.max_memory_allocated() == 4_004_352
cuda.reset_peak_memory_stats()
assert cuda.max_memory_allocated() == 4096
cuda.reset_accumulated_memory_stats()
assert cuda.memory_stats()["allocation.all.allocated"] == 0
assert [s["total_size"] for s in cuda.memory_snapshot()] == [4000]  # an emulated block is as long as what it is for
lines = cuda.memory_summary().splitlines()
assert len({len(line) for line in lines}) == 1 and "| Allocated memory      |   4096 B   |" in lines[7]
free, total = cuda.mem_get_info()
assert 0 < free <= total
cuda.set_per_process_memory_fraction(1e-6)
raises(torch.OutOfMemoryError, "CUDA out of memory. Tried to allocate 3.81 MiB. GPU 0 has a", torch.ones(10**6).cuda)
assert cuda.memory_stats()["num_ooms"] == 1
cuda.set_per_process_memory_fraction(1.0)
at = cuda.caching_allocator_alloc(700)
assert cuda.memory_allocated() == 4096 + 1024
cuda.caching_allocator_delete(at)
del x
cuda.empty_cache()
assert cuda.memory_allocated() == cuda.memory_reserved() == 0
""",
    )


def test_queues_and_marks() -> None:
    for emulate in ("1", "deferred"):
        run(
            "-c",
            BEGIN
            + RAISES
            + """
first = cuda.current_stream()
assert first == cuda.default_stream() and first.cuda_stream == 0
side = cuda.Stream()
assert side != first and hash(side) != hash(first) and repr(side).startswith("<torch.cuda.Stream device=cuda:0 cuda")
begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
raises(ValueError, "Both events must be recorded", begin.elapsed_time, end)
raises(ValueError, "Both events must be created with argument 'enable_timing=True'", cuda.Event().elapsed_time, end)
x = torch.ones(1000).cuda()
with cuda.stream(side):
    assert cuda.current_stream() == side == torch.accelerator.current_stream()
    begin.record()
    side.wait_stream(first)
    y = x * 2
    x.record_stream(side)
    side.record_event(end)
assert cuda.current_stream() == first
first.wait_event(end)
end.synchronize()
assert end.query() and side.query() and begin.elapsed_time(end) >= 0
z = y + 1
y.record_stream(first)
del x, y
side.synchronize()
assert z.sum().item() == 3000
with cuda.ExternalStream(side.cuda_stream):
    assert cuda.current_stream().cuda_stream == side.cuda_stream
cuda.set_stream(side)
assert cuda.current_stream() == side
import threading
seen = []
thread = threading.Thread(target=lambda: seen.append(cuda.current_stream()))
thread.start(); thread.join()
assert seen == [first]
""",
            emulate=emulate,
        )


def test_memory_of_the_host_that_is_pinned() -> None:
    run(
        "-c",
        BEGIN
        + """
x = torch.arange(12.0).reshape(3, 4).t()
p = x.pin_memory()
assert p.is_pinned() and p[1].is_pinned() and not x.is_pinned() and p.pin_memory() is p
assert torch.equal(p, x) and p.stride() == x.stride()
assert torch.equal(p.cuda().cpu(), x)
assert cuda.host_memory_stats()["requested_bytes.all.current"] == 48
del p
assert cuda.host_memory_stats()["allocation.all.current"] == 0
torch.accelerator.empty_host_cache()
assert cuda.host_memory_stats()["reserved_bytes.all.current"] == 0
""",
    )


def test_copies_of_pinned_memory_need_not_be_waited_for() -> None:
    for emulate in ("1", "deferred"):
        run(
            "-c",
            BEGIN
            + """
from nbgrad.utils.data import DataLoader, TensorDataset
p = torch.arange(6.0).reshape(2, 3).pin_memory()
x = p.to("cuda", non_blocking=True)
y = p.t().cuda(non_blocking=True)
z = torch.empty(2, 3).pin_memory()
z.copy_(x * 2, non_blocking=True)
assert z.is_pinned() and not x.is_pinned()
del p
cuda.synchronize()
assert cuda.host_memory_stats()["allocation.all.current"] == 1
assert torch.equal(z, torch.arange(6.0).reshape(2, 3) * 2) and torch.equal(y.cpu(), z.t() / 2)
loader = DataLoader(TensorDataset(torch.arange(6.0), torch.arange(6)), batch_size=3, pin_memory=True)
for part, numbers in loader:
    assert part.is_pinned() and numbers.is_pinned()
    assert part.cuda(non_blocking=True).sum().item() == numbers.sum()
""",
            emulate=emulate,
        )


def test_streams_wait_for_what_they_are_told_to() -> None:
    """Nothing of another stream's is done: who does not wait reads poison. What plans have uploaded is there for all."""
    run(
        "-c",
        BEGIN
        + """
side, event = cuda.Stream(), cuda.Event()
x = torch.arange(6.0).reshape(2, 3).cuda()
with cuda.stream(side):
    early = x + 1
side.synchronize()
assert early.isnan().all(), "it was done before it was asked for"
y = x.t() * 2
event.record()
with cuda.stream(side):
    event.wait()
    late, other = x.t() * y, y.flip(0)
    mark = side.record_event()
side.synchronize()
want = torch.arange(6.0).reshape(2, 3).t()
with cuda.stream(side):
    assert torch.equal(late.cpu(), want * want * 2) and torch.equal(other.cpu(), (want * 2).flip(0))
    z = late.sum()
cuda.current_stream().wait_stream(side)
w = z + 1
assert w.item() == 2 * (0 + 1 + 4 + 9 + 16 + 25) + 1 and mark.query()
a, b = cuda.Stream(), cuda.Stream()
with cuda.stream(a):
    kept = torch.ones(3000, device="cuda") * 3
    there = a.record_event()
with cuda.stream(b):
    b.wait_event(there)
    doubled = kept * 2
    kept.record_stream(b)
    del kept
with cuda.stream(a):
    more = torch.zeros(3000, device="cuda")
b.synchronize()
with cuda.stream(b):
    assert doubled.sum().item() == 18000
cuda.synchronize()
""",
        emulate="deferred",
    )


def test_generators() -> None:
    run(
        "-c",
        BEGIN
        + """
torch.manual_seed(5)
assert cuda.initial_seed() == 5
state = cuda.get_rng_state()
assert state.tolist() == [5] + [0] * 15 and cuda.get_rng_state_all()[0].tolist() == state.tolist()
cuda.manual_seed(2**40)
assert cuda.initial_seed() == 2**40 and torch.initial_seed() == 5
cuda.set_rng_state(state)
assert cuda.initial_seed() == 5
cuda.seed_all()
g = torch.Generator(device="cuda").manual_seed(3)
assert isinstance(g, torch.Generator) and g.device == torch.device("cuda:0") and g.initial_seed() == 3
assert g.clone_state().get_state().tolist() == g.get_state().tolist() == [3] + [0] * 15
assert g.set_offset(8).get_offset() == 8 and g.get_state()[8] == 8
(default,) = cuda.default_generators
assert default.manual_seed(9).initial_seed() == cuda.initial_seed() == 9
""",
    )


def test_graphs() -> None:
    for emulate in ("1", "deferred"):
        run(
            "-c",
            BEGIN
            + RAISES
            + """
x = torch.zeros(4).cuda()
raises(RuntimeError, "CUDA graphs must be captured on a non-default stream.", cuda.CUDAGraph().capture_begin)
raises(RuntimeError, "without a preceding successful capture", cuda.CUDAGraph().replay)
one = cuda.CUDAGraph()
with cuda.graph(one):
    assert cuda.is_current_stream_capturing()
    y = (x * 2).sum() + 1
assert not cuda.is_current_stream_capturing()
for value in (3.0, 5.0):
    x.fill_(value)
    one.replay()
    assert y.item() == 8 * value + 1
other = cuda.CUDAGraph()
with cuda.graph(other, pool=one.pool()):
    z = y * 10
one.replay()
other.replay()
assert z.item() == 410
with cuda.graph(other):
    w = x * 3
    raises(RuntimeError, "operation not permitted when stream is capturing", x.sum().item)
    raises(RuntimeError, "operation not permitted when stream is capturing", torch.ones(2).cuda)
before = cuda.memory_allocated()
del one, other, w, y, z
cuda.empty_cache()
assert before - cuda.memory_allocated() >= 3 * 512 and cuda.memory_reserved() == cuda.memory_allocated()
""",
            emulate=emulate,
        )


def test_graphs_draw_on() -> None:
    """As the same calls without a graph."""
    for emulate in ("1", "deferred"):
        run(
            "-c",
            BEGIN
            + """
def draw():
    return torch.rand(5, device="cuda"), torch.randn(700, device="cuda"), torch.randint(0, 9, (3,), device="cuda")

torch.manual_seed(3)
want = [[t.tolist() for t in draw()] for _ in range(3)]
graph = cuda.CUDAGraph()
with cuda.graph(graph):
    drawn = draw()
torch.manual_seed(3)
for numbers in want:
    graph.replay()
    assert [t.tolist() for t in drawn] == numbers
assert torch.rand(1, device="cuda").item() != want[0][0][0]
""",
            emulate=emulate,
        )


def test_a_graphed_module_trains() -> None:
    run(
        "-c",
        BEGIN
        + """
from nbgrad import nn
torch.manual_seed(0)
usual = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()
graphed = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2)).cuda()
graphed.load_state_dict(usual.state_dict())
graphed = cuda.make_graphed_callables(graphed, (torch.ones(5, 3).cuda(),))
for step in range(3):
    x = torch.randn(5, 3).cuda()
    for model in (usual, graphed):
        model.zero_grad()
        model(x).square().sum().backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
for p, q in zip(usual.parameters(), graphed.parameters()):
    assert torch.equal(p.cpu(), q.cpu())
""",
    )
