"""The case table on an emulated device, against the CPU: values, gradients, those of second order, dtypes, strides.

`NBGRAD_CUDA_EMULATE=1 python -X faulthandler -m tests.cuda.on_device [--order K] [--whole | --complex] [NAME ...]` prints what is wrong, a
case a line, each before it is run, so that the last line names the one that has ended the process; beside what is right stands what went
over at a second call. Threads run in three orders, or in the K-th. `--whole`, by hand, takes every shape and layout in every dtype,
`--complex` complex128 in each case that has floats. In a process of its own, as a device there either is or is not.
"""

from __future__ import annotations

import sys
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from nbgrad.kernels.cuda.emulated import ORDERS
from nbgrad.kernels.cuda.prompt import Prompt
from nbgrad.memory import backend
from tests import derive
from tests.cases import CASES, OpCase, Sample, samples
from tests.compare import array, assert_same, leaves, outcome
from tests.cuda.played import Solver
from tests.support import T

DEVICE = T.device("cuda", 0)
NO_KERNEL = "no CUDA kernel in this release"
# Times the rounding of a result: a cotangent less a share of the sum of all 150, which is 80 times as large.
ROUNDED = {"log_softmax_long": 2.0}


def on_device(t: Any) -> Any:
    """A copy that lies as `t`."""
    flat = t.detach().as_strided((t._spec.extent,), (1,)).to(DEVICE, copy=True)
    return flat.as_strided(t.shape, t.stride(), 0).requires_grad_(t.requires_grad)


def there(sample: Sample) -> Any:
    """The sample, whose tensors are on the device."""

    def tensors(module: Any, requires_grad: bool = False) -> list[Any]:
        return [on_device(t) for t in sample.tensors(module, requires_grad)]

    return SimpleNamespace(tensors=tensors)


def computed(case: OpCase, sample: Any, backward: bool) -> list[Any]:
    """The results, and the gradients of first and second order if there are any."""
    T.manual_seed(0)
    results = leaves(case.fn(T, *sample.tensors(T)))
    if backward and any(
        getattr(t, "requires_grad", False) for t in leaves(case.fn(T, *sample.tensors(T, True)))
    ):
        grads, further = derive.second_order(T, case, sample)
        results += [*grads, *further]
    return results


def same(got: Any, want: Any, label: str, tol: float = 1.0) -> None:
    assert (got is None) == (want is None), label
    if isinstance(want, T.Tensor):
        assert got.device == DEVICE, f"{label}: on {got.device}"
        lies = got.stride(), want.stride()
        assert not want.numel() or lies[0] == lies[1], f"{label}: lies as {lies[0]}, not {lies[1]}"
        got, want = got.detach().cpu(), want.detach()
    assert_same(got, want, label, tol)


def compare(
    case: OpCase, dtype: str, whole: bool, orders: Sequence[tuple[int, int]], given: Sequence[Sample] = ()
) -> None:
    """Raises what is wrong with the case in its first sample, in all, or in those `given`: in each order of threads the bits are the same,
    but for the last, in which sums by index are added up as threads come."""
    driver: Any = backend.of(DEVICE).driver
    backward = case.differentiable and ("float" in dtype or bool(given))
    for sample in given or (samples(case, dtype) if whole else [next(samples(case, dtype))]):
        want = outcome(partial(computed, case, sample, backward))
        bits = set()
        for driver.order in orders:
            T.use_deterministic_algorithms(driver.order != orders[-1])
            with DEVICE:
                run = partial(computed, case, there(sample), backward)
                if isinstance(want, str):
                    assert outcome(run) == want, f"{sample.label}: {outcome(run)}, not {want}"
                    continue
                got = run()
            assert len(got) == len(want), sample.label
            for k, (g, w) in enumerate(zip(got, want)):
                same(g, w, f"{sample.label}, result {k}", ROUNDED.get(case.name, 1.0))
            if T.are_deterministic_algorithms_enabled():
                bits.add(b"".join([array(t.detach()).tobytes() for t in got if isinstance(t, T.Tensor)]))
        T.use_deterministic_algorithms(False)
        assert len(bits) < 2, f"{sample.label}: the order of threads shows"


def listed(file: str) -> list[str]:
    return Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()


SOLVED = frozenset(listed("no_solver.txt"))  # which a library of factors computes


def usual(case: OpCase) -> str:
    """What a library solves in float32 the CPU may solve in float64."""
    if case.name in SOLVED:
        return "float64"
    return "float32" if "float32" in case.dtypes else case.dtypes[0]


def transfers(case: OpCase, dtype: str) -> list[int]:
    """Uploads and downloads of a call that is not the first of its kind, and those of its backward."""
    driver: Any = backend.of(DEVICE).driver
    sample, counts = there(next(samples(case, dtype))), [0, 0, 0, 0]
    backward = case.differentiable and "float" in dtype
    with DEVICE:
        for _ in range(2):
            T.manual_seed(0)
            tensors = sample.tensors(T, backward)
            at = [(driver.uploads, driver.downloads)]
            outputs = leaves(case.fn(T, *tensors))
            at.append((driver.uploads, driver.downloads))
            outputs = [t for t in outputs if getattr(t, "requires_grad", False)]
            inputs, seeds = [t for t in tensors if t.requires_grad], [T.ones_like(t) for t in outputs]
            at.append((driver.uploads, driver.downloads))
            if outputs:
                T.autograd.grad(outputs, inputs, seeds, allow_unused=True)
            at.append((driver.uploads, driver.downloads))
            counts = [at[k + 1][way] - at[k][way] for k in (0, 2) for way in (0, 1)]
    return counts


def main(*given: str) -> None:
    orders: Sequence[tuple[int, int]] = ORDERS
    if given[:1] == ("--order",):
        orders, given = [ORDERS[int(given[1])]], given[2:]
    driver: Any = backend.of(DEVICE).driver
    if isinstance(driver, Prompt):
        driver.solver = Solver()
    whole, of_pairs = given[:1] == ("--whole",), given[:1] == ("--complex",)
    if of_pairs:
        from tests.ops.test_complex import TAKEN, complex_samples
    for name in given[whole or of_pairs :] or ([case.name for case in TAKEN] if of_pairs else CASES):
        case = CASES[name]
        print(name, end=" ", flush=True)
        try:
            if of_pairs:
                compare(case, "", False, orders, complex_samples(case)[:1])
                print("right", flush=True)
                continue
            for dtype in case.dtypes if whole else [usual(case)]:
                compare(case, dtype, whole, orders)
        except NotImplementedError as error:
            print("none" if NO_KERNEL in str(error) else f"WRONG: {error}")
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            text = " ".join(str(error).split())[:200]
            print(f"WRONG: {type(error).__name__}: {text} at {at.filename}:{at.lineno}", flush=True)
            if isinstance(error, T.AcceleratorError):
                sys.exit(3)  # the device does nothing more for this process
        else:
            print("right", end=" ", flush=True)
            with suppress(TypeError, NotImplementedError):  # a dtype that the op refuses
                print(*transfers(case, usual(case)), end="")
            print()
    backend.of(DEVICE).synchronize()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
