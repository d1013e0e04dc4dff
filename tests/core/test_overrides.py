"""Who overrides a function is handed what PyTorch hands him; and who overrides nothing runs the code that he ran before."""

import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

import nbgrad
from nbgrad.names.absent import is_absent

# Arguments to try: T stands for an instance that overrides, P for a plain tensor.
WAYS: list[list[Any]] = [
    *(
        ["T"],
        ["T", 1],
        ["T", "T"],
        ["T", "P"],
        ["P", "T"],
        [["T", "P"]],
        ["T", 1, 1],
        ["T", 1, "T"],
        ["T", 1, "P"],
    ),
    *(
        ["T", "T", "T"],
        ["T", "P", "P"],
        ["P", "P", "T"],
        ["T", 1.0, 2.0],
        ["T", 1, 1, 1],
        ["T", [1]],
        ["T", [1], [1]],
    ),
    *(
        ["T", [1], "P"],
        ["T", [1, 1], [1, 1], [1, 1]],
        ["T", "P", "P", "P"],
        ["ij,jk", "T", "P"],
        ["T", 1, "P", 1.0],
    ),
    *(
        ["T", "P", 1],
        ["T", "P", [1]],
        ["T", 2, 1.0],
        [1, "T"],
        ["T", "P", "P", [1]],
        ["T", [1, 1], [1, 1]],
        ["T", [1], 1],
    ),
]
LEFT_OUT = {  # by a way that none of them means
    *(
        "torch.einsum",
        "torch.mm",
        "nn.init.calculate_gain",
        "nn.init.trunc_normal_",
        "Tensor.__repr__",
        "torch.typename",
    ),
    *(
        "torch.tensor",
        "torch.as_tensor",
        "torch.asarray",
        "torch.compile",
        "torch.save",
        "torch.load",
        "torch.wait",
        "torch.fork",
    ),
    *(
        "torch.set_printoptions",
        "torch.set_default_device",
        "torch.set_rng_state",
        "torch.manual_seed",
        "torch.import_ir_module",
    ),
}


def _spaces(T: ModuleType) -> Iterator[tuple[str, Any]]:
    for path in ("torch", "nn.functional", "nn.init", "linalg", "special", "Tensor"):
        space: Any = T
        for name in path.split(".") if path != "torch" else ():
            space = getattr(space, name)
        yield path, space


def _names() -> list[str]:
    """Functions that both have."""
    import torch

    found = []
    for (path, ours), (_, theirs) in zip(_spaces(nbgrad), _spaces(torch), strict=True):
        # What is loaded when it is named hands over by the functions that it calls.
        for name in vars(ours) if path == "torch" else dir(ours):
            own, other = getattr(ours, name), getattr(theirs, name, None)
            if path != "Tensor" and not (
                name[0].islower() and name in getattr(theirs, "__all__", dir(theirs))
            ):
                continue
            special = name[:2] == "__" and getattr(object, name, None) is not None and name != "__eq__"
            if (
                callable(own)
                and callable(other)
                and not is_absent(own)
                and not isinstance(own, (type, ModuleType))
                and not special
            ):
                found.append(f"{path}.{name}")
    return [
        name
        for name in found
        if name not in LEFT_OUT and not name.endswith(("__setstate__", "__torch_function__"))
    ]


def _handed(T: ModuleType, name: str) -> list[str]:
    """What an instance of a class, and one that is no tensor, are handed by a function for each way of calling it."""
    told: list[str] = []

    def note(func: Any, types: Any, args: Any, kwargs: Any) -> None:
        named = kwargs and {
            k: v if isinstance(v, (int, float, str)) else type(v).__name__ for k, v in kwargs.items()
        }
        kinds = [t.__name__ for t in types], [type(a).__name__ for a in args]
        told.append(f"{T.overrides.resolve_name(func)} {kinds} {named}")

    class Sub(T.Tensor):  # type: ignore[name-defined, misc]
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
            note(func, types, args, kwargs)

    class Duck:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> None:
            note(func, types, args, kwargs)

    path, _, last = name.rpartition(".")
    function = getattr(dict(_spaces(T))[path], last)
    plain = T.ones(2, 3)
    found = []
    for one in (plain.as_subclass(Sub), Duck()):
        for way in WAYS:
            told.clear()

            def put(word: Any, one: Any = one) -> Any:
                return (
                    [put(w) for w in word]
                    if isinstance(word, list)
                    else {"T": one, "P": plain}.get(word, word)
                )

            try:
                function(*[put(word) for word in way])
            except Exception as error:
                told.append(type(error).__name__)
            found.append(told[0] if told else "nobody")
    return found


@pytest.mark.oracle
def test_hands_over_what_pytorch_hands_over() -> None:
    """Of the ways that PyTorch takes, by which the function itself is handed over."""
    import torch

    wrong, count = [], 0
    names = _names()
    for name in names:
        for way, ours, theirs in zip(WAYS * 2, _handed(nbgrad, name), _handed(torch, name), strict=True):
            full = name if name.startswith("torch.") else f"torch.{name}"
            if theirs.partition(" ")[0] in (full, full.replace("torch.", "torch.functional.", 1)):
                count += 1
                if ours != theirs:
                    wrong.append(f"{name}{way}: {ours}, not {theirs}")
    assert not wrong, "\n".join(wrong)
    assert len(names) > 1200 and count > 5000


@pytest.mark.oracle
def test_what_python_hands_on_is_read_off_pytorch() -> None:
    from tests import overridden

    assert overridden.lines() == overridden.FILE.read_text(encoding="utf-8").splitlines()


def test_code_is_its_own_while_nobody_overrides() -> None:
    program = """
import nbgrad as torch
from nbgrad.core import overrides
functions = [torch.add, torch.nn.functional.relu, torch.Tensor.sum, torch.Tensor.shape.fget, torch.zeros, torch.Tensor.__add__]
model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LazyLinear(3))
def step():
    loss = torch.nn.functional.relu(model(torch.ones(1, 2)) + torch.zeros(3)).sum()
    torch.add(loss, 1).backward()
    return loss.shape
step()
before = [f.__code__ for f in functions]
assert not overrides.armed.on
class Mode(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
for _ in range(2):
    with Mode():
        assert all(f.__code__ is not b for f, b in zip(functions, before))
        step()
    assert [f.__code__ for f in functions] == before and not overrides.armed.on
step()
torch.ones(2).as_subclass(type('Mine', (torch.Tensor,), {}))
assert overrides.armed.on
step()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_modes_are_a_threads_own() -> None:
    import threading

    told: list[str] = []

    class Log(nbgrad.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            told.append(threading.current_thread().name)
            return func(*args, **(kwargs or {}))

    x = nbgrad.ones(3)
    with Log():
        threads = [threading.Thread(target=lambda: [x + 1 for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            x + 1
        for thread in threads:
            thread.join()
    assert told == ["MainThread"] * 50


def test_a_device_is_told_to_what_makes_tensors() -> None:
    from nbgrad.utils._device import DeviceContext

    with DeviceContext("meta"):
        made = nbgrad.ones(2), nbgrad.zeros(2, device="cpu"), nbgrad.tensor([1.0])
    assert [t.device.type for t in made] == ["meta", "cpu", "meta"]


def test_what_a_mode_raises_leaves_it_as_it_was() -> None:
    class Fails(nbgrad.overrides.TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            raise KeyError("told")

    stack = nbgrad.overrides._get_current_function_mode_stack
    mode = Fails()
    with mode:
        for _ in range(2):
            with pytest.raises(KeyError, match="told"):
                nbgrad.ones(2)
            assert stack() == [mode]
    assert stack() == [] and nbgrad.ones(2).tolist() == [1, 1]
    with pytest.raises(AssertionError, match="empty mode stack"):
        nbgrad.overrides._pop_mode()


def test_arguments_are_shown_as_ever_while_functions_look_at_them() -> None:
    from inspect import signature

    functions = [
        nbgrad.Tensor.size,
        nbgrad.add,
        nbgrad.meshgrid,
        nbgrad.nn.functional.relu,
        nbgrad.Tensor.detach,
    ]
    before = [str(signature(f)) for f in functions]

    class Passes(nbgrad.overrides.BaseTorchFunctionMode):
        pass

    with Passes():
        assert [str(signature(f)) for f in functions] == before
    with (
        pytest.raises(TypeError, match=r"Tensor\.detach\(\) takes 1 positional argument but 2 were given"),
        Passes(),
    ):
        nbgrad.ones(2).detach(1)  # type: ignore[call-arg]


def test_a_function_that_never_asks_does_not_under_a_name_that_a_library_gives_it() -> None:
    """It is called by the method that took its place, which would ask it again."""
    program = """
import nbgrad as torch
kept = torch.Tensor.kept = torch.Tensor.as_subclass
torch.Tensor.as_subclass = lambda self, kind: kept(self, kind)
class Mine(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs)
mine = torch.ones(2).as_subclass(Mine)
print(type(mine.as_subclass(torch.Tensor)) is torch.Tensor, type(mine + 1) is Mine)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "True True\n", done.stderr


@pytest.mark.oracle
def test_pytorch_itself_and_its_tensors_are_refused() -> None:
    """In a program that has both: each asks the other's tensors, which would go on without end."""
    import torch

    ours, theirs = nbgrad.ones(2), torch.ones(2)
    for call in (torch.nn.functional.relu, torch.exp, torch.ones(2).add, lambda t: torch.nn.Linear(2, 1)(t)):
        with pytest.raises(TypeError, match=r"of PyTorch itself was handed a tensor of nbgrad"):
            call(ours)
    for other in (theirs, torch.nn.Parameter(theirs)):
        for add in (lambda a, b: a + b, lambda a, b: b + a):
            with pytest.raises(TypeError, match="unsupported operand"):
                add(ours, other)
        with pytest.raises(TypeError, match="must be Tensor"):
            nbgrad.mul(ours, other)
