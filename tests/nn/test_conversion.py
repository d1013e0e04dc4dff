"""How modules change what their parameters hold: in place, by new parameters, or by exchanging two tensors."""

import weakref

import pytest

import nbgrad as torch
from nbgrad import nn


@pytest.fixture
def swapping():
    torch.__future__.set_swap_module_params_on_conversion(True)
    yield
    torch.__future__.set_swap_module_params_on_conversion(False)


@pytest.fixture
def overwriting():
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    yield
    torch.__future__.set_overwrite_module_params_on_conversion(False)


def test_who_holds_one_of_two_swapped_tensors_sees_the_other():
    a, b = nn.Parameter(torch.ones(2)), torch.arange(3)
    a.note, first, second = "a's", a, b
    torch.utils.swap_tensors(a, b)
    assert first.tolist() == [0, 1, 2] and type(first) is torch.Tensor and not first.requires_grad
    assert second.tolist() == [1, 1] and type(second) is nn.Parameter and second.note == "a's"
    (2 * second).sum().backward()
    assert second.grad.tolist() == [2, 2] and first.grad is None


def test_a_gradient_on_its_way_to_a_swapped_tensor_is_refused():
    a, b = torch.ones(2, requires_grad=True), torch.zeros(3)
    y = (2 * a).sum()
    torch.utils.swap_tensors(a, b)
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        y.backward()
    assert a.grad is None and b.grad is None


@pytest.mark.parametrize(
    "holding",
    [
        pytest.param(lambda a: a * a, id="saved"),
        pytest.param(lambda a: a[0], id="viewed"),
        pytest.param(lambda a: setattr(other := torch.ones(2), "grad", a.detach_()) or other, id="gradient"),
    ],
)
def test_what_others_know_by_its_memory_is_not_swapped(holding):
    a, b = torch.ones(2, requires_grad=True), torch.zeros(2)
    held = holding(a)
    with pytest.raises(RuntimeError, match="Expected use_count of t1 to be 1 or 2"):
        torch.utils.swap_tensors(a, b)
    assert a.tolist() == [1, 1]
    del held


def test_what_is_held_weakly_is_not_swapped():
    a, b = torch.ones(2, requires_grad=True), torch.zeros(2)
    a.sum().backward()  # which has a weak reference of its own
    torch.utils.swap_tensors(a, b)
    torch.utils.swap_tensors(b, a)
    ref = weakref.ref(a)
    with pytest.raises(RuntimeError, match="Cannot swap t1 because it has weakref"):
        torch.utils.swap_tensors(a, b)
    assert ref() is a


def test_unlike_slots_are_not_swapped():
    class One(torch.Tensor):
        __slots__ = ("here",)

    one, other = torch.ones(2).as_subclass(One), torch.ones(2).as_subclass(One)
    one.here = 1
    torch.utils.swap_tensors(one, other)
    assert other.here == 1 and not hasattr(one, "here")
    with pytest.raises(RuntimeError, match="different slots"):
        torch.utils.swap_tensors(one, torch.ones(2))


def test_a_module_swaps_when_it_is_cast(swapping):
    net, x = nn.Linear(2, 3), torch.ones(1, 2)
    net(x).sum().backward()
    weight, grad = net.weight, net.weight.grad
    net.double()
    assert net.weight is weight and weight.dtype is torch.float64 and weight.requires_grad
    assert weight.grad is grad and grad.dtype is torch.float64
    net(x.double()).sum().backward()
    assert grad[0].tolist() == [2, 2]
    y = net(torch.ones(1, 2, dtype=torch.float64, requires_grad=True))
    with pytest.raises(RuntimeError, match=r"_apply\(\): Couldn't swap Linear.weight"):
        net.float()
    y.sum().backward()  # the graph is as it was


@pytest.mark.parametrize("assign", [False, True])
def test_a_module_swaps_when_it_loads(swapping, assign):
    class Doubling(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.module_load:
                return args[1].as_subclass(torch.Tensor) * 2
            return super().__torch_function__(func, types, args, kwargs)

    net, other = nn.Linear(2, 3), nn.Linear(2, 3)
    weight, state = net.weight, other.state_dict()
    net.load_state_dict(state, assign=assign)
    assert net.weight is weight and type(weight) is nn.Parameter and torch.equal(weight, other.weight)
    assert (weight.data_ptr() == other.weight.data_ptr()) is assign
    state["weight"] = state["weight"].as_subclass(Doubling)
    net.load_state_dict(state, assign=assign)
    assert net.weight is weight and torch.equal(weight, 2 * other.weight)


def test_a_module_makes_new_parameters(overwriting):
    net = nn.Linear(2, 3)
    net(torch.ones(1, 2)).sum().backward()
    weight = net.weight
    net.double()
    assert net.weight is not weight and weight.dtype is weight.grad.dtype is torch.float32
    assert net.weight.dtype is net.weight.grad.dtype is torch.float64 and net.weight.requires_grad
