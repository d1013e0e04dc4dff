"""Autocast: what comes of each case and loss under it is of the dtype that it is of in PyTorch; who never uses it pays nothing."""

import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests.cases import CASES, samples
from tests.compare import leaves
from tests.support import T

REFUSED = {("linalg_matrix_exp", True)}  # here, as PyTorch refuses it outside of autocast
LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    name: lambda F, a, b, name=name: getattr(F, name)(a, b)
    for name in (
        *(
            "mse_loss",
            "l1_loss",
            "smooth_l1_loss",
            "huber_loss",
            "kl_div",
            "binary_cross_entropy",
            "cross_entropy",
        ),
        *("binary_cross_entropy_with_logits", "poisson_nll_loss", "hinge_embedding_loss", "soft_margin_loss"),
        *("cosine_similarity", "pairwise_distance", "multilabel_soft_margin_loss"),
    )
}


def dtypes(lib: ModuleType, name: str, low: bool) -> list[str] | str:
    sample = next(iter(samples(CASES[name], "float32")))
    lib.manual_seed(0)
    operands = [t.detach().bfloat16() if low and t.dtype == lib.float32 else t for t in sample.tensors(lib)]
    try:
        with lib.autocast("cpu"):
            return [str(v.dtype) for v in leaves(CASES[name].fn(lib, *operands)) if isinstance(v, lib.Tensor)]
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return type(error).__name__


@pytest.mark.oracle
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "float32" in case.dtypes])
def test_dtypes_of_cases(name: str) -> None:
    import torch

    for low in (False, True):
        wanted = dtypes(torch, name, low)
        if isinstance(wanted, list) and (name, low) not in REFUSED:
            assert dtypes(T, name, low) == wanted, f"bfloat16: {low}"


@pytest.mark.oracle
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides the total loss")
@pytest.mark.parametrize("name", LOSSES)
def test_dtypes_of_losses(name: str) -> None:
    import torch

    found = []
    for lib in (T, torch):
        a = lib.full((3, 4), 0.5, dtype=lib.bfloat16)
        with lib.autocast("cpu"):
            found.append(str(LOSSES[name](lib.nn.functional, a, a).dtype))
    assert found[0] == found[1]


@pytest.mark.oracle
def test_training_is_pytorchs() -> None:
    import torch

    curves = []
    for lib in (T, torch):
        lib.manual_seed(0)
        model = lib.nn.Sequential(
            lib.nn.Conv2d(1, 4, 3), lib.nn.ReLU(), lib.nn.Flatten(), lib.nn.Linear(64, 3)
        )
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        scaler = lib.amp.GradScaler("cpu")
        x, y = lib.randn(8, 1, 6, 6), lib.randint(0, 3, (8,))
        curve = []
        for _ in range(10):
            optimizer.zero_grad()
            with lib.autocast("cpu"):
                loss = lib.nn.functional.cross_entropy(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            curve.append(loss.item())
        curves.append(curve)
    # Sums of products are rounded to 8 bits once; where another order of a sum tips a rounding, a logit moves by 2^-8 of itself.
    assert curves[0] == pytest.approx(curves[1], rel=2e-3)


def test_a_backward_inside_of_it_casts_nothing() -> None:
    weight = T.nn.Parameter(T.full((2, 2), 1.001))
    layer = T.nn.LSTM(2, 2)
    with T.autocast("cpu"):
        out, _ = layer(T.ones(3, 1, 2) @ weight)
        out.float().sum().backward()
    assert out.dtype is T.bfloat16 and weight.grad is not None and weight.grad.dtype is T.float32
    assert all(p.grad is not None and p.grad.dtype is T.float32 for p in layer.parameters())


def test_other_threads_do_not_cast() -> None:
    from threading import Thread

    found: list[Any] = []
    with T.autocast("cpu"):
        thread = Thread(target=lambda: found.append(T.mm(T.ones(1, 1), T.ones(1, 1)).dtype))
        thread.start()
        thread.join()
    assert found == [T.float32]


def test_functions_are_their_own_until_it_is_used() -> None:
    """In a process of its own: what was put before functions stays."""
    program = (
        "import nbgrad as T; f = T.mm; T.ones(1, 1).mm(T.ones(1, 1)); own = f.__code__\n"
        "T.mm(T.ones(1, 1), T.ones(1, 1)); before = f.__code__\n"
        "with T.autocast('cpu'): low = f(T.ones(1, 1), T.ones(1, 1)).dtype\n"
        "print(before is f.__code__, f is T.mm, low, f(T.ones(1, 1), T.ones(1, 1)).dtype)\n"
        "class Mine(T.Tensor): pass\n"
        "x = T.ones(1, 1).as_subclass(Mine)\n"
        "with T.autocast('cpu'): print(type(f(x, x)).__name__, f(x, x).dtype, type(x @ x).__name__)\n"
        "print(f(x, x).dtype)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "False True torch.bfloat16 torch.float32",
        "Mine torch.bfloat16 Mine",
        "torch.float32",
    ]


@pytest.mark.parametrize("dims", [2, 3])
def test_what_is_cast_inside_of_another_function(dims: int) -> None:
    """A plan was made for what is cast, and run on what is not."""
    functional = T.nn.functional
    x = T.rand(1, 2, *[6] * dims).half()
    for _ in range(2):
        with T.autocast("cpu"):
            found = getattr(functional, f"lp_pool{dims}d")(x, 2.0, 2)
        means = getattr(functional, f"avg_pool{dims}d")(x.pow(2.0).float(), 2)
        assert (found.float() - (means * 2**dims).sqrt()).abs().max() < 1e-2
