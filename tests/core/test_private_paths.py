"""What libraries read of PyTorch's compiled part answers as there."""

from types import ModuleType
from typing import Any

import pytest

from tests.support import T


@pytest.mark.oracle
def test_of_transforms_modes_and_memory(torch: ModuleType) -> None:
    def answers(t: Any) -> list[Any]:
        c = t._C
        a = t.ones(3)
        found: list[Any] = [c._are_functorch_transforms_active(), c._is_torch_function_mode_enabled()]
        t.vmap(lambda x: found.append((c._are_functorch_transforms_active(), _batched(t, x))) or x)(a)
        t.func.grad(lambda x: found.append(c._are_functorch_transforms_active()) or x.sum())(a)
        with t.overrides.TorchFunctionMode():
            found.append(c._is_torch_function_mode_enabled())
        return [*found, c._is_alias_of(a, a[1:]), c._is_alias_of(a, a + 1), c._is_alias_of(a, a.detach())]

    assert answers(T) == answers(torch)


def _batched(t: Any, x: Any) -> bool:
    if t is T:
        from nbgrad._C._functorch import get_unwrapped, is_batchedtensor
    else:
        from torch._C._functorch import get_unwrapped, is_batchedtensor
    return is_batchedtensor(x) and tuple(get_unwrapped(x).shape) == (3,)


def test_libraries_replace_parts_of_vmap(monkeypatch: pytest.MonkeyPatch) -> None:
    import nbgrad._functorch.vmap as parts

    seen = []
    whole = parts._create_batched_inputs

    def counted(*args: Any) -> Any:
        seen.append(args[0])
        return whole(*args)

    monkeypatch.setattr(parts, "_create_batched_inputs", counted)
    assert T.vmap(lambda x: x * 2)(T.ones(2)).tolist() == [2.0, 2.0] and seen == [[0]]


def test_a_first_call_of_an_object_that_overrides_is_answered() -> None:
    """In a process of its own, as it is the first: before a function has looked at any argument, or with plain ones."""
    import subprocess
    import sys

    code = """
import nbgrad as t
class Mine:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None): return func.__name__
if {first}: t.stack([t.ones(1), t.ones(1)])
print(t.stack([Mine(), Mine()]), t.stack([Mine(), Mine()]), t.cat([t.ones(1), Mine()]), t.stack([t.ones(1)] * 2).shape)
"""
    for first in (False, True):
        done = subprocess.run(
            [sys.executable, "-c", code.format(first=first)], capture_output=True, text=True, check=False
        )
        assert done.stdout.split(None, 3)[:3] == ["stack", "stack", "cat"], done.stderr
