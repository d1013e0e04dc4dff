"""What a program sees of a device `cuda`: where tensors are made and go to, what is refused, and in which words."""

import copy
import io
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from nbgrad.kernels.cpu.join import side_by_side
from nbgrad.memory import backend
from tests.compare import assert_same
from tests.support import T

pytestmark = pytest.mark.emulated
HERE = T.device("cuda", 0)


@pytest.fixture
def x() -> Any:
    return T.arange(6.0, device="cuda").reshape(2, 3)


@pytest.fixture
def c() -> Any:
    return T.arange(6.0).reshape(2, 3)


MADE: list[Callable[[], Any]] = [
    lambda: T.ones(2, device="cuda"),
    lambda: T.zeros(2, 3, device=0),
    lambda: T.empty((2,), device=HERE),
    lambda: T.full((2,), 1.5, device="cuda:0"),
    lambda: T.tensor([1, 2], device="cuda"),
    lambda: T.as_tensor(np.ones(2), device="cuda"),
    lambda: T.arange(3, device="cuda"),
    lambda: T.linspace(0, 1, 3, device="cuda"),
    lambda: T.logspace(0, 1, 3, device="cuda"),
    lambda: T.eye(2, device="cuda"),
    lambda: T.tril_indices(3, 3, device="cuda"),
    lambda: T.hann_window(4, device="cuda"),
    lambda: T.rand(2, device="cuda"),
    lambda: T.randn(2, device="cuda"),
    lambda: T.randint(0, 5, (3,), device="cuda"),
    lambda: T.randperm(4, device="cuda"),
    lambda: T.scalar_tensor(1.0, device="cuda"),
    lambda: T.empty_strided((2, 2), (1, 2), device="cuda"),
    lambda: T.zeros_like(T.ones(2), device="cuda"),
    lambda: T.from_numpy(np.ones(2)).cuda(),
    lambda: T.ones(2).to("cuda"),
    lambda: T.ones(2).to(T.ones(1, device="cuda")),
    lambda: T.ones(2).to(device="cuda", dtype=T.int64),
    lambda: T.ones(2).cuda(0),
    lambda: T.ones(2).type("torch.cuda.DoubleTensor"),
    lambda: T.ones(2).type_as(T.ones(1, device="cuda")),
    lambda: T.nn.Linear(2, 2, device="cuda").weight,
    lambda: T.nn.Linear(2, 2).cuda().weight,
    lambda: T.nn.Linear(2, 2).to("cuda").bias,
]


@pytest.mark.parametrize("make", MADE)
def test_made_there(make: Callable[[], Any]) -> None:
    t = make()
    assert t.device == HERE and t.is_cuda and not t.is_cpu and t.get_device() == 0
    assert t.cpu().device.type == "cpu"


LIKE: list[Callable[[Any], Any]] = [
    lambda x: x.new_zeros(2),
    lambda x: x.new_ones(2),
    lambda x: x.new_tensor([1, 2]),
    lambda x: x.new_full((1,), 3),
    lambda x: x.new_empty(2),
    T.zeros_like,
    T.ones_like,
    T.empty_like,
    T.rand_like,
    T.randn_like,
    lambda x: T.full_like(x, 2),
    lambda x: x.half(),
    lambda x: x.clone().detach()[1:],
    copy.copy,
    copy.deepcopy,
    lambda x: T.nn.Parameter(x).data,
    lambda x: pickle.loads(pickle.dumps(x)),
]


@pytest.mark.parametrize("make", LIKE)
def test_beside_another(make: Callable[[Any], Any], x: Any) -> None:
    assert make(x).device == HERE


def test_default_device() -> None:
    with T.device("cuda"):
        assert T.ones(2).is_cuda and T.tensor(1).is_cuda and T.nn.Linear(2, 2).weight.is_cuda
        assert T.ones(2, device="cpu").is_cpu
    T.set_default_device("cuda")
    try:
        assert T.get_default_device() == HERE and T.zeros(3).is_cuda and T.rand(2).is_cuda
        assert (T.arange(3) + 1).tolist() == [1, 2, 3]
    finally:
        T.set_default_device(None)
    assert T.zeros(3).is_cpu


def test_values_come_to_the_host(x: Any) -> None:
    assert x[1, 2].item() == 5.0 and x.tolist() == [[0, 1, 2], [3, 4, 5]] and bool(x[0, 1])
    assert float(x[0, 1]) == 1.0 and int(x[1, 1]) == 4 and [7, 8, 9][T.tensor(1, device="cuda")] == 8
    assert [float(v) for v in x[0]] == [0, 1, 2] and 3.0 in x and f"{x[1, 1]:.2f}" == "4.00"
    assert T.equal(x, x.clone()) and T.allclose(x, x + 0)
    assert x.numpy(force=True).tolist() == x.tolist() and x.type() == "torch.cuda.FloatTensor"


def test_printed(x: Any) -> None:
    assert repr(x) == "tensor([[0., 1., 2.],\n        [3., 4., 5.]], device='cuda:0')"
    y = T.ones(2, device="cuda", dtype=T.float64, requires_grad=True)
    assert repr(y) == "tensor([1., 1.], device='cuda:0', dtype=torch.float64, requires_grad=True)"
    assert repr(y * 2) == "tensor([2., 2.], device='cuda:0', dtype=torch.float64, grad_fn=<MulBackward0>)"
    assert repr(T.empty(0, 3, device="cuda")) == "tensor([], device='cuda:0', size=(0, 3))"
    assert str(x[0, :2].clone().untyped_storage()) == (
        " 0\n 0\n 0\n 0\n 0\n 0\n 128\n 63\n[torch.storage.UntypedStorage(device=cuda:0) of size 8]"
    )


def test_to_where_it_is_already(x: Any) -> None:
    for where in ("cuda", "cuda:0", HERE, T.device("cuda"), 0):
        assert x.to(where) is x
    assert x.cuda() is x and x.to("cuda", copy=True) is not x
    assert x.t().cpu().stride() == (1, 3)


def test_copies_both_ways(x: Any, c: Any) -> None:
    assert (c * 0).copy_(x).tolist() == (x * 0).copy_(c).tolist() == c.tolist()
    assert (x * 0).t().copy_(T.tensor([[1, 2]])).tolist() == [[1, 2]] * 3
    assert x[:, ::2].cpu().tolist() == [[0, 2], [3, 5]] and c[:, ::2].cuda().tolist() == [[0, 2], [3, 5]]
    x[0], c[1] = c[1] * 2, x[0] + 1
    assert x.tolist() == [[6, 8, 10], [3, 4, 5]] and c.tolist() == [[0, 1, 2], [1, 2, 3]]
    x[0, 0] = T.tensor(7.0)
    assert x[0, 0].item() == 7


def test_a_number_of_the_cpu_goes_with_all(x: Any) -> None:
    two = T.tensor(2.0, requires_grad=True)
    for got in (x + two, two + x, T.where(x > 100, x, two) * 0 + x + 2):
        assert got.is_cuda and got.tolist() == [[2, 3, 4], [5, 6, 7]]
    assert (x * T.tensor(2.0, dtype=T.float64)).dtype == T.float32
    assert (T.tensor(2) + T.tensor(3.0, device="cuda")).tolist() == 5.0
    assert T.where(T.tensor(True), x, x + 1).tolist() == x.tolist()
    assert x.clone().add_(two.detach()).tolist() == (x + 2).tolist()
    (x * two).sum().backward()
    assert two.grad.is_cpu and two.grad.item() == 15.0


def test_whole_numbers_are_those_of_the_cpu() -> None:
    here, there = T.tensor([1, 2]), T.tensor([1, 2], device="cuda")
    assert (there + 2**63).tolist() == (here + 2**63).tolist()
    assert (there + True).tolist() == [2, 3]
    with pytest.raises(OverflowError, match="int too big to convert"):
        there + 2**64


def test_gradients_go_back(x: Any, c: Any) -> None:
    for start, other in ((c, "cuda"), (x, "cpu")):
        leaf = start.clone().requires_grad_()
        there = leaf.to(other)
        assert type(there.grad_fn).__name__ == "ToCopyBackward0"
        there.square().sum().backward()
        assert leaf.grad.device == leaf.device and leaf.grad.tolist() == (2 * c).tolist()


REFUSED: list[tuple[Callable[[Any, Any], Any], type[Exception], str]] = [
    *[
        (f, RuntimeError, r"same device, but found at least two devices, cuda:0 and cpu!")
        for f in (
            lambda x, c: x + c,
            lambda x, c: c * x,
            lambda x, c: T.tensor(2.0, device="cuda") + c,
            lambda x, c: c.add_(x),
            lambda x, c: T.tensor(1.0).add_(T.tensor(1.0, device="cuda")),
            lambda x, c: x @ c.t(),
            lambda x, c: T.cat([x, c]),
            lambda x, c: T.nn.functional.linear(x, c),
        )
    ],
    (
        lambda x, c: x.numpy(),
        TypeError,
        r"can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu\(\) to copy the tensor to host memory first.",
    ),
    (lambda x, c: np.asarray(x), TypeError, "can't convert cuda:0 device type tensor to numpy"),
    (lambda x, c: T.add(x, x, out=c), RuntimeError, "Attempting to copy from device cuda:0 to device cpu"),
    (lambda x, c: setattr(c.requires_grad_(), "grad", x), RuntimeError, "gradient with device type 'cuda'"),
    (lambda x, c: (x.requires_grad_() * 2).backward(c), RuntimeError, "expected device cuda:0 but got cpu"),
    (lambda x, c: x.cuda("cpu"), RuntimeError, "Invalid device, must be cuda device"),
    (lambda x, c: c.to("cuda:3"), RuntimeError, "invalid device ordinal"),
    (
        lambda x, c: T.linalg.svd(x),
        NotImplementedError,
        r"linalg.svd: no CUDA kernel in this release; move its operand with .cpu\(\), or pip install 'nbgrad\[cusolver\]'",
    ),
    (lambda x, c: x[:, :2].inverse(), NotImplementedError, "linalg.inv: no CUDA kernel"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED)
def test_refused(call: Any, kind: type[Exception], words: str, x: Any, c: Any) -> None:
    for _ in range(2):  # a second call of a kind may go another way
        with pytest.raises(kind, match=words):
            call(x, c)
    assert c.tolist() == x.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_numpy_finds_nothing_to_read(x: Any) -> None:
    for read in (memoryview, np.frombuffer, np.asarray):
        with pytest.raises((TypeError, AttributeError)):
            read(x._buf)


def test_files_keep_the_device(x: Any, c: Any) -> None:
    file = io.BytesIO()
    T.save({"there": x, "part": x[1], "here": c}, file)

    def load(**how: Any) -> Any:
        file.seek(0)
        return T.load(file, **how)

    found = load()
    assert found["there"].is_cuda and found["here"].is_cpu and found["part"].tolist() == [3, 4, 5]
    assert found["part"].untyped_storage() == found["there"].untyped_storage()
    assert load(map_location="cpu")["there"].is_cpu and load(map_location="cuda")["here"].is_cuda
    assert load(map_location={"cuda:0": "cpu"})["there"].is_cpu
    assert load(map_location=lambda storage, location: storage.cuda())["here"].is_cuda
    with pytest.raises(RuntimeError, match=r"CUDA device 1 but torch.cuda.device_count\(\) is 1"):
        load(map_location="cuda:1")


def test_storages(x: Any, c: Any) -> None:
    storage = x.untyped_storage()
    assert (
        storage.nbytes() == 24
        and storage.device == HERE
        and storage.cpu().tolist() == c.untyped_storage().tolist()
    )
    assert x[1].storage_offset() == 3 and x[1].data_ptr() - x.data_ptr() == 12
    storage[3] = 64
    assert x[0, 0].item() == 2.0
    assert T.UntypedStorage([1, 2], device="cuda").tolist() == [1, 2]
    assert x.clone().resize_(3, 3)[:2].tolist() == [[2, 1, 2], [3, 4, 5]]
    c.data = x
    assert c.is_cuda


def test_transforms(x: Any) -> None:
    assert T.func.vmap(lambda row: row * 2)(x).tolist() == (x * 2).tolist()
    assert T.func.grad(lambda a: (a**2).sum())(x).tolist() == (2 * x).tolist()
    assert T.func.jacrev(T.square)(x[0]).tolist() == T.func.jacfwd(T.square)(x[0]).tolist()
    assert T.func.hessian(lambda a: (a**3).sum())(x[0]).diagonal().tolist() == [0, 6, 12]
    assert T.func.jvp(T.square, (x,), (x,))[1].tolist() == (2 * x * x).tolist()


def test_memory_is_poisoned_and_goes_back() -> None:
    pool = backend.of(HERE).pool
    assert T.empty(3, device="cuda").isnan().all().item()
    for first in (True, False):  # the first of a kind leaves a plan's constants
        before = pool.all.bytes
        t = T.ones(1000, device="cuda")
        part = t[10:]
        del t
        assert pool.all.bytes > before and part.sum().item() == 990
        del part
        assert first or pool.all.bytes == before


def test_a_write_beside_a_block_is_seen() -> None:
    device: Any = backend.of(HERE)
    t = T.zeros(4, device="cuda")
    device.driver.fill(t.data_ptr() + 16, 0, 1, 0)
    del t
    with pytest.raises(RuntimeError, match="beside a block of 16 bytes"):
        device.driver.synchronize(None)


def test_sequences_go_there_and_back() -> None:
    rnn = T.nn.utils.rnn
    x = T.randn(5, 3, 3)
    got, want = (
        rnn.pad_packed_sequence(rnn.pack_padded_sequence(t, [5, 2, 3], enforce_sorted=False))
        for t in (x.cuda(), x)
    )
    assert got[0].is_cuda and T.equal(got[0].cpu(), want[0]) and T.equal(got[1], want[1])
    log_probs, labels = T.randn(4, 2, 3).log_softmax(-1), T.tensor([[1, 2], [2, 1]])
    losses = [
        T.nn.functional.ctc_loss(log_probs.to(d), labels.to(d), (4, 4), (2, 1)).cpu() for d in (HERE, "cpu")
    ]
    assert T.allclose(*losses)


def test_what_has_no_shape_yet_goes_there() -> None:
    layer = T.nn.LazyLinear(2).cuda()
    assert layer(T.ones(3, 4, device="cuda")).shape == (3, 2) and layer.weight.is_cuda


def test_memory_of_the_host_is_refused_by_kernels() -> None:
    with pytest.raises(RuntimeError, match="at least two devices, cuda:0 and cpu!"):
        here = T.ones(3, device="cuda")
        kernel = here._spec.backend.kernel("join_2_i4", *side_by_side(2, "i4")).address
        here._spec.backend.launch(2, "", 3)(kernel, 3, here._buf, np.ones(3))


def test_a_step_without_capturable_is_captured() -> None:
    layer = T.nn.Linear(2, 1).cuda()
    optimizer = T.optim.SGD(layer.parameters(), lr=0.5)
    layer(T.ones(1, 2, device="cuda")).sum().backward()
    before, graph = layer.weight.detach().clone(), T.cuda.CUDAGraph()
    with T.cuda.graph(graph):
        optimizer.step()
    graph.replay()
    assert T.allclose(layer.weight.detach(), before - 0.5)


@pytest.mark.parametrize("classes", [[0, 3], [-1, 0]])
def test_a_class_that_is_none_is_told_to_who_waits(classes: list[int]) -> None:
    index = T.tensor(classes, device="cuda")
    assert T.nn.functional.one_hot(index.clamp(0, 2), 3).sum().item() == 2
    found = T.nn.functional.one_hot(index, 3)
    with pytest.raises(RuntimeError, match="is out of bounds for dimension 1 with size 3"):
        found.cpu()
    with pytest.raises(RuntimeError, match=r"Class values must be non-negative\."):
        T.nn.functional.one_hot(-1 - index.clamp(0, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda **more: T.zeros(2, 3, **more),
        lambda **more: T.empty((2,), requires_grad=True, **more),
        lambda **more: T.tensor([1.0, 2.0], **more),
        lambda **more: T.full((2,), 1.5, **more),
        lambda **more: T.randn(3, **more),
        lambda **more: T.arange(3, **more),
        lambda **more: T.zeros_like(T.ones(2), **more),
        lambda **more: T.ones(2).new_zeros(3, **more),
        lambda **more: T.normal(0.0, 1.0, (2,), **more),
    ],
)
def test_factories_pin(make: Callable[..., Any]) -> None:
    made = make(pin_memory=True)
    assert made.is_pinned() and made.is_leaf and not make(pin_memory=False).is_pinned()
    assert made.requires_grad == make().requires_grad and made.stride() == make().stride()


def test_only_the_hosts_memory_is_pinned() -> None:
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        T.zeros(2, device="cuda", pin_memory=True)
    assert T.zeros(2, device="meta", pin_memory=True).is_meta


def test_a_capture_knows_three_modes() -> None:
    with pytest.raises(RuntimeError, match="Unknown capture error mode"), T.cuda.stream(T.cuda.Stream()):
        T.cuda.CUDAGraph().capture_begin(capture_error_mode="odd")


@pytest.mark.parametrize("dtype", [T.float32, T.float64, T.float16, T.int64, T.int16, T.uint8])
def test_numbers_are_counted_there(dtype: Any) -> None:
    calls: list[Callable[..., Any]] = [
        partial(T.arange, 2, 90, 7),
        partial(T.arange, 9, 0, -2),
        partial(T.arange, 0),
        *(partial(T.linspace, 17.7, 1.3, steps) for steps in (0, 1, 2, 3, 100)),
        *(partial(T.logspace, 0.1, 1.9, steps) for steps in (0, 1, 2, 5)),
    ]
    if dtype.is_floating_point:
        calls.append(partial(T.arange, 0.5, 9.7, 1.25))
    driver: Any = backend.of(T.device("cuda", 0)).driver
    for call in calls:
        before = driver.uploads
        got = call(dtype=dtype, device="cuda")
        assert driver.uploads == before or call.args[-1] == 1
        assert_same(got.cpu(), call(dtype=dtype), f"{call} of {dtype}")
    assert T.arange(2**62, 2**62 + 3, device="cuda").tolist() == [2**62 + k for k in range(3)]
