"""On `meta` every case of the table has the dtypes, shapes and strides that it has on the CPU, forward and gradients, and nothing is
computed: no memory is made, and what reads values is refused."""

from typing import Any

import pytest

from tests.cases import CASES, OpCase, Sample, samples
from tests.compare import leaves
from tests.support import T

# Whose shapes, or whether there is a result at all, values decide.
BY_VALUE = {
    *("allclose", "allclose_self", "equal", "equal_self"),
    *("masked_scatter", "inplace_masked_scatter", "cov_weights"),
    *(
        "nonzero_static",
        "bincount",
        "bincount_weights",
        "histogramdd",
        "unique",
        "unique_dim",
        "unique_consecutive",
    ),
    *("histogram", "histogramdd", "linalg_lstsq", "linalg_lstsq_residuals"),
}


def there(sample: Sample, requires_grad: bool) -> list[Any]:
    """The operands without memory, lying as they do on the CPU."""
    made = [T.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for t in sample.tensors(T)]
    return [t.requires_grad_() if requires_grad and t.dtype.is_floating_point else t for t in made]


def laid(values: Any, device: str) -> list[Any]:
    found = []
    for v in leaves(values):
        if isinstance(v, T.Tensor):
            assert v.device.type == device
            found.append((str(v.dtype), tuple(v.shape), v.stride() if v.numel() else None))
        else:
            found.append(v)
    return found


def results(case: OpCase, tensors: list[Any]) -> list[Any]:
    """What the case gives, and the gradients if there are any."""
    T.manual_seed(0)
    found = leaves(case.fn(T, *tensors))
    asked = [t for t in tensors if t.requires_grad]
    wanted = [r for r in found if isinstance(r, T.Tensor) and r.requires_grad]
    if asked and wanted:
        grads = T.autograd.grad(wanted, asked, [T.ones_like(r) for r in wanted], allow_unused=True)
        found += [g for g in grads if g is not None]
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:torch.searchsorted")
@pytest.mark.parametrize("name", [name for name in CASES if name not in BY_VALUE])
def test_shapes_without_memory(name: str) -> None:
    case = CASES[name]
    for dtype in ("float32", "int64"):
        for sample in samples(case, dtype) if dtype in case.dtypes else ():
            wants_grad = case.differentiable and dtype == "float32"
            try:
                want = laid(results(case, sample.tensors(T, wants_grad)), "cpu")
            except (
                RuntimeError,
                ValueError,
                IndexError,
                TypeError,
            ):  # of a shape or dtype that the op refuses
                continue
            with T.device("meta"):  # what the case makes by itself lies there, too
                got = results(case, there(sample, wants_grad))
            assert laid(got, "meta") == want, sample.label


@pytest.mark.parametrize("name", sorted(BY_VALUE))
def test_what_reads_values_is_refused(name: str) -> None:
    case = CASES[name]
    sample = next(iter(samples(case, "float32" if "float32" in case.dtypes else "int64")))
    with pytest.raises((NotImplementedError, RuntimeError), match=r"[mM]eta"):
        case.fn(T, *there(sample, False))


def test_where_tensors_are_made() -> None:
    with T.device("meta"):
        made = [
            T.ones(2),
            T.tensor([1.0]),
            T.arange(3),
            T.full((2,), 1.5),
            T.eye(2),
            T.randn(2),
            T.ones(2, device="cpu"),
        ]
        with T.device("cpu"):
            made.append(T.ones(2))
        inner = T.nn.Linear(2, 3)
    assert [t.device.type for t in made] == ["meta"] * 6 + ["cpu"] * 2
    assert inner.weight.is_meta and T.ones(2).is_cpu
    T.set_default_device("meta")
    try:
        assert T.get_default_device() == T.device("meta") and T.zeros(1).is_meta
    finally:
        T.set_default_device(None)
    assert T.zeros(1).is_cpu


def test_a_network_is_laid_out_before_it_has_memory() -> None:
    net = T.nn.Sequential(T.nn.Linear(4, 8, device="meta"), T.nn.ReLU(), T.nn.Linear(8, 2, device="meta"))
    assert net(T.ones(3, 4, device="meta")).shape == (3, 2)
    with pytest.raises(NotImplementedError, match="to_empty"):
        net.to("cpu")
    net = net.to_empty(device="cpu")
    state = {name: T.ones_like(p) for name, p in net.state_dict().items()}
    net.load_state_dict(state)
    assert net(T.ones(1, 4)).tolist() == [[41.0, 41.0]]


MIXED = [
    lambda m, c: m + c,
    lambda m, c: c * m,
    lambda m, c: m @ c,
    lambda m, c: T.cat([m, c]),
    lambda m, c: T.where(c > 0, m, m),
    lambda m, c: c[m.long()],
    lambda m, c: c.copy_(m),
    lambda m, c: T.nn.functional.embedding(m.long(), c),
    lambda m, c: c.add_(m),
    lambda m, c: T.dot(c[0], m[0]),
    lambda m, c: c.gather(0, m.long()),
    lambda m, c: c.index_put_((m.long(),), c + 1),
    lambda m, c: T.searchsorted(c, m),
]


@pytest.mark.parametrize("call", MIXED)
def test_other_memory_is_refused_and_nothing_is_written(call: Any) -> None:
    m, c = T.ones(2, 2, device="meta"), T.ones(2, 2)
    with pytest.raises(
        (RuntimeError, NotImplementedError), match=r"same device|expected device|copy out of meta"
    ):
        call(m, c)
    assert c.tolist() == [[1, 1], [1, 1]]


def test_a_number_of_the_cpu_goes_with_all() -> None:
    m = T.ones(2, 2, device="meta")
    assert (m + T.tensor(1.0)).is_meta and (T.tensor(1.0) * m).is_meta and (m + 1).is_meta
    assert m.to("meta") is m and m.detach().clone().is_meta and m[1:].storage_offset() == 2
    assert repr(m[0]) == "tensor(..., device='meta', size=(2,))"
    with pytest.raises(RuntimeError, match=r"Tensor.item\(\) cannot be called on meta tensors"):
        m.sum().item()


ELSEWHERE = [
    lambda m, c: T.add(c, c, out=m),
    lambda m, c: T.exp(m, out=c),
    lambda m, c: T.matmul(c, c, out=m),
    lambda m, c: setattr(c, "data", m),
    lambda m, c: c.put_(m[0].long(), c[0].clone()),
    lambda m, c: c.take(m.long()),
    lambda m, c: T.bincount(T.tensor([1, 0]), weights=m[0]),
]


@pytest.mark.parametrize("call", ELSEWHERE)
def test_nothing_goes_to_another_device_unsaid(call: Any) -> None:
    m, c = T.ones(2, 2, device="meta"), T.ones(2, 2)
    for _ in range(2):  # a second call of a kind may go another way
        with pytest.raises(
            (RuntimeError, NotImplementedError), match=r"[dD]evice|incompatible tensor type|Meta"
        ):
            call(m, c)
    assert c.tolist() == [[1, 1], [1, 1]] and m.is_meta
