"""What plans and the raw rules may reuse, and what they must leave alone."""

import pytest

from tests.support import T

LARGE = 1 << 17  # float32: above the size from which a gradient's memory is reused


def chain(x: T.Tensor, depth: int) -> list[T.Tensor]:
    steps = [x]
    for _ in range(depth):
        steps.append(T.tanh(steps[-1]))
    return steps


def test_gradient_that_nobody_holds_gives_its_memory_on() -> None:
    x = T.ones(LARGE, requires_grad=True)
    steps = chain(x, 4)
    places: list[int] = []
    for t in steps[1:]:
        t.register_hook(lambda g: places.append(g.data_ptr()))
    steps[-1].backward(T.ones(LARGE))
    # The root is the caller's; from the first computed gradient on, one block of memory serves.
    assert len(set(places[1:])) == 1
    assert places[0] != places[1]


def test_gradient_that_somebody_holds_is_left_alone() -> None:
    x = T.ones(LARGE, requires_grad=True)
    steps = chain(x, 4)
    held: list[tuple[T.Tensor, float]] = []
    for t in steps[1:]:
        t.register_hook(lambda g: held.append((g, float(g[0]))))
    root = T.ones(LARGE)
    steps[-1].backward(root)
    assert [float(g[0]) for g, _ in held] == [value for _, value in held]
    assert float(root[0]) == 1.0
    assert len({g.data_ptr() for g, _ in held}) == len(held)


def test_gradient_that_goes_two_ways_is_left_alone() -> None:
    x, w = (T.full((LARGE,), 0.5, requires_grad=True) for _ in range(2))
    (T.tanh(x) + T.exp(w)).backward(T.ones(LARGE))
    assert float(x.grad[0]) == pytest.approx(1 - 0.46211716**2, rel=1e-6)
    assert float(w.grad[0]) == pytest.approx(1.6487212, rel=1e-6)


def test_two_leaves_of_one_gradient_have_memory_of_their_own() -> None:
    a, b = (T.ones(LARGE, requires_grad=True) for _ in range(2))
    (a + b).backward(T.ones(LARGE))
    a.grad.zero_()
    assert float(b.grad[0]) == 1.0


def test_specs_that_never_repeat_do_not_pile_up() -> None:
    from nbgrad.base.tables import PLANS
    from nbgrad.memory import storage
    from nbgrad.ops.pointwise.arithmetic import mul

    for n in range(1, PLANS + 200):
        x = T.ones(n)
        x * x
    assert len(mul.op.plans) <= PLANS
    assert len(storage._specs) <= (storage._specs.bound or 0)


def test_default_dtype_is_asked_anew() -> None:
    ints = T.arange(3)
    assert (ints * 1.5).dtype is T.float32
    assert T.exp(ints).dtype is T.float32
    T.set_default_dtype(T.float64)
    try:
        assert (ints * 1.5).dtype is T.float64
        assert T.exp(ints).dtype is T.float64
    finally:
        T.set_default_dtype(T.float32)
    assert (ints * 1.5).dtype is T.float32


def test_inputs_of_a_new_op_may_be_called_anything() -> None:
    @T.elementwise
    def product(y, g):  # type: ignore[no-untyped-def]
        return y * y * g

    a, b = (T.tensor([2.0, 3.0], dtype=T.float64, requires_grad=True) for _ in range(2))
    assert T.autograd.gradcheck(product, (a, b))
    assert T.autograd.gradgradcheck(product, (a, b))
    with pytest.raises(ValueError, match="rename it"):
        T.elementwise(lambda y: y, vjp=lambda g: g)


def test_new_op_takes_numbers_and_broadcasts() -> None:
    @T.elementwise
    def witch(x, a):  # type: ignore[no-untyped-def]
        return a**3 / (x * x + a * a)

    x = T.linspace(-2, 2, 5, requires_grad=True)
    witch(x, 2.0).sum().backward()
    want = -16 * x.detach() / (x.detach() ** 2 + 4) ** 2
    assert T.allclose(x.grad, want)
    assert witch(x.detach().view(5, 1), T.ones(3)).shape == (5, 3)


def test_number_that_does_not_fit_is_refused_every_time() -> None:
    x = T.ones(3, dtype=T.float16)
    for _ in range(3):
        for call in (lambda: x**1e5, lambda: T.clamp(x, 0.0, 1e5), lambda: T.clamp_min(x, -1e5)):
            with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half"):
                call()
        assert T.clamp(x, 0.5, float("inf")).tolist() == [1.0] * 3


def test_numbers_may_come_before_tensors() -> None:
    condition = T.tensor([True, False, True])
    for _ in range(2):  # the first call makes the plan, the second finds it
        x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = T.where(condition, -1.0, x)
        assert y.tolist() == [-1.0, 2.0, -1.0]
        y.sum().backward()
        assert x.grad.tolist() == [0.0, 1.0, 0.0]
        mixed = T.elementwise(lambda a, b, c: a - b / c, name="mixed")
        assert mixed(1.0, 2, x).tolist() == pytest.approx([-1.0, 0.0, 1 / 3])


def test_op_of_three_tensors_records_what_wants_a_gradient() -> None:
    a, b, c = (T.full((2,), v, requires_grad=w) for v, w in ((1.0, True), (2.0, False), (3.0, True)))
    for _ in range(2):
        a.grad = c.grad = None
        y = T.addcmul(a, b, c.view(2), value=0.5)
        assert [f is not None for f, _ in y.grad_fn.next_functions[:3]] == [True, False, True]
        y.sum().backward()
        assert (a.grad.tolist(), b.grad, c.grad.tolist()) == ([1.0, 1.0], None, [1.0, 1.0])


def test_a_function_without_a_name_is_an_op_too() -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    T.elementwise(lambda a, b, c: a * b + c)(x, 3.0, 1.0).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_what_fits_64_bits_unsigned_wraps() -> None:
    i = T.tensor([1, 2])
    assert (i + 2**63).tolist() == [1 - 2**63, 2 - 2**63]
    assert (i + 2**63).tolist() == [1 - 2**63, 2 - 2**63], "by the plan that is known by then"


def test_comparisons_record_nothing() -> None:
    x, w = (T.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    for _ in range(2):  # the first call makes the plan, the second finds it
        for got in (x < w, T.isnan(x), T.logical_and(x, w), x == 1.0):
            assert got.dtype is T.bool and not got.requires_grad and got.grad_fn is None


def test_view_is_asked_at_each_call_if_it_wants_a_gradient() -> None:
    base, w = T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0], requires_grad=True)
    leaf = T.tensor([1.0, 2.0], requires_grad=True)
    for x, wants in ((base.view(2), False), (leaf.view(2), True), (base.view(2), False)):
        product = x * w
        assert [f is not None for f, _ in product.grad_fn.next_functions] == [wants, True]
        assert (product.grad_fn._saved_other is not None) == wants
    late = base.view(2)
    base.mul_(w)  # now the base, and its view, have a history
    (late * late).sum().backward()
    assert w.grad.tolist() == [2 * 1.0 * 3.0, 2 * 4.0 * 4.0]


def test_integers_are_not_divided_by_zero_at_any_call() -> None:
    x, zero = T.tensor([5, 6]), T.tensor([1, 0])
    for _ in range(3):
        assert (x % 4).tolist() == [1, 2] and T.fmod(x, T.tensor([2, 4])).tolist() == [1, 2]
        for call in (lambda: x % 0, lambda: T.fmod(x, zero), lambda: x // zero, lambda: x.remainder_(0)):
            with pytest.raises(RuntimeError, match="ZeroDivisionError"):
                call()
        assert x.tolist() == [5, 6]
        assert (x.float() % 0.0).isnan().all()


def test_keywords_that_are_not_as_usual() -> None:
    x = T.tensor([1.0, 2.0], requires_grad=True)
    for alpha in (1, 1.0, 3):
        assert T.add(x, x.detach(), alpha=alpha).tolist() == [1.0 + alpha, 2.0 + 2 * alpha]
    assert T.div(x, 2, rounding_mode="floor").tolist() == [0.0, 1.0]
    assert T.add(x, 1, alpha=2).grad_fn.name() == T.add(x, 1).grad_fn.name() == "AddBackward0"
    with pytest.raises(RuntimeError, match="alpha must not be a floating point"):
        T.add(T.tensor([1]), 1, alpha=0.5)
