"""The case table on an emulated device against the CPU: `NBGRAD_CUDA_EMULATE=1 python -X faulthandler -m tests.cuda.on_device`.

Of each case what is wrong, if anything is, and how often the host waited; in a process of its own, as where tensors are is not
to be changed for other tests.
"""

from __future__ import annotations

import sys
import time
import traceback
import warnings
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from nbgrad.memory import backend
from tests import derive
from tests.cases import CASES, OpCase, Sample, samples
from tests.compare import assert_same, leaves, outcome
from tests.support import T

DEVICE = T.device("cuda", 0)


def on_device(t: Any) -> Any:
    """A copy that lies as `t`."""
    flat = t.detach().as_strided((t._spec.extent,), (1,)).to(DEVICE)
    return flat.as_strided(t.shape, t.stride(), 0).requires_grad_(t.requires_grad)


def there(sample: Sample) -> Any:
    """The sample, whose tensors are on the device."""

    def tensors(module: Any, requires_grad: bool = False) -> list[Any]:
        return [on_device(t) for t in sample.tensors(module, requires_grad)]

    return SimpleNamespace(tensors=tensors, label=sample.label)


def computed(case: OpCase, sample: Any, backward: bool) -> list[Any]:
    """The results, and the gradients of first and second order if there are any."""
    T.manual_seed(0)
    results = leaves(case.fn(T, *sample.tensors(T)))
    if backward and any(getattr(t, "requires_grad", False) for t in leaves(case.fn(T, *sample.tensors(T, True)))):
        grads, further = derive.second_order(T, case, sample)
        results += [*grads, *further]
    return results


def same(got: Any, want: Any, label: str) -> None:
    assert (got is None) == (want is None), label
    if isinstance(want, T.Tensor):
        assert got.device == DEVICE, f"{label}: on {got.device}"
        assert not want.numel() or got.stride() == want.stride(), f"{label}: lies as {got.stride()}, not {want.stride()}"
        got, want = got.detach().cpu(), want.detach()
    assert_same(got, want, label)


def compared(case: OpCase, dtype: str, count: int) -> None:
    """Raises what is wrong with the case in its first samples."""
    for sample in list(samples(case, dtype))[:count]:
        backward = case.differentiable and "float" in dtype
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = outcome(lambda: computed(case, sample, backward))
            with DEVICE:
                if isinstance(want, str):
                    assert outcome(lambda: computed(case, there(sample), backward)) == want
                    continue
                got = computed(case, there(sample), backward)
        assert len(got) == len(want), sample.label
        for k, (g, w) in enumerate(zip(got, want)):
            same(g, w, f"{sample.label}, result {k}")


def main(names: Sequence[str]) -> None:
    driver = backend.of(DEVICE).driver
    wrong = 0
    began = time.time()
    for name in names or CASES:
        case = CASES[name]
        print(name, end=" ", flush=True)
        try:
            compared(case, "float32" if "float32" in case.dtypes else case.dtypes[0], 1)
            print("ok")
        except Exception as error:
            wrong += 1
            text = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
            where = traceback.extract_tb(error.__traceback__)[-1]
            print("WRONG", text, f"[{where.filename.rpartition('nbgrad/')[2]}:{where.lineno}]")
            if names:
                traceback.print_exc()
    print(wrong, "wrong", driver.uploads, driver.downloads, time.time() - began)


if __name__ == "__main__":
    main(sys.argv[1:])
