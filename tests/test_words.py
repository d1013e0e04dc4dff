"""What every public name says of itself: a docstring of our own, whose examples run and print what torch prints.

`python -m tests.test_words` lists the names that say nothing and those that show no example.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from nbgrad.names.absent import is_absent
from tests.support import SUBJECT, T

MODULES = (
    *("", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.parametrize", "nn.utils.rnn", "optim"),
    *(
        "optim.lr_scheduler",
        "optim.swa_utils",
        "linalg",
        "fft",
        "special",
        "sparse",
        "func",
        "autograd",
        "autograd.functional",
    ),
    *(
        *("compiler", "distributed", "futures", "hub", "jit", "masked", "nested", "export"),
        "autograd.forward_ad",
        "autograd.graph",
        "utils",
        "utils.data",
        "utils.checkpoint",
        "random",
        "profiler",
        "autograd.profiler",
        "serialization",
        "accelerator",
        "cpu",
        "cuda",
        "cuda.nvtx",
        "backends.cuda",
        "backends.cudnn",
        "backends.mha",
        "backends.mkl",
        "backends.mkldnn",
        "backends.mps",
        "backends.openmp",
        "distributions",
        "distributions.constraint_registry",
        "distributions.constraints",
        "distributions.relaxed_bernoulli",
        "distributions.relaxed_categorical",
        "distributions.utils",
    ),
)
OURS_ALONE = re.compile(r"\bnbgrad\b")  # in an example: torch has nothing like it
NO_EXAMPLE = re.compile(
    r"Tensor\.(__\w+__|\w+_)|.*\.reset_\w+|.*\.clone|autograd\.profiler\.\w+\.\w+|.*\.(Tensor|dtype|device|Size)|\w*(Tensor|Storage)"
    r"|\w+_autocast_[cg]pu_\w+|set_num_interop_threads"
)  # shown by others: forms in place, types, older names; and what can be done once


def public() -> Iterator[tuple[str, Any]]:
    """Every public function, method, property and class by its path."""
    for path in MODULES:
        module = importlib.import_module(f"{SUBJECT}.{path}".rstrip("."))
        names = getattr(module, "__all__", dir(module))
        for name in [*names, *dir(module.modules)] if path == "nn" else names:  # nn loads its modules late
            thing = getattr(module, name, None)
            if name.startswith("_") or inspect.ismodule(thing) or not callable(thing):
                continue
            if (getattr(thing, "__module__", None) or "").split(".")[0] == SUBJECT or not inspect.isclass(
                thing
            ):
                yield f"{path}.{name}".lstrip("."), thing
                if inspect.isclass(thing) and path.startswith(("nn", "optim", "autograd")):
                    yield from methods(f"{path}.{name}", thing)
    for name in dir(T.Tensor):
        thing = inspect.getattr_static(T.Tensor, name)
        if not (name.startswith("_") or is_absent(thing)) and (
            callable(thing) or isinstance(thing, property)
        ):
            yield f"Tensor.{name}", thing


def methods(path: str, cls: type) -> Iterator[tuple[str, Any]]:
    """Those that a class has beside what its base has, which says it."""
    for name, thing in vars(cls).items():
        if not name.startswith("_") and not any([hasattr(base, name) for base in cls.__bases__]):
            thing = getattr(thing, "__func__", thing)
            if inspect.isfunction(thing) or isinstance(thing, property):
                yield f"{path}.{name}", thing


def words() -> dict[str, str]:
    return {path: inspect.cleandoc(thing.__doc__ or "") for path, thing in public()}


def examples() -> dict[str, str]:
    """Each docstring with examples, once, by the first path that shows it."""
    by_text: dict[str, str] = {}
    for path, text in words().items():
        if (
            ">>>" in text and not path.endswith("_") and path != "install"
        ):  # which a process sees from then on
            by_text.setdefault(text, path)
    return {path: text for text, path in by_text.items()}


def run(path: str, text: str, torch: Any) -> str:
    """What went otherwise than the text says."""
    scope = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    test = doctest.DocTestParser().get_doctest(text, scope, path, None, None)
    said: list[str] = []
    torch.manual_seed(0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=said.append)
    return "".join(said)


def wanting() -> tuple[list[str], list[str]]:
    """The names that say nothing, and those that show no example."""
    said = words()
    mute = [path for path, text in said.items() if not text]
    return mute, [p for p, text in said.items() if text and ">>>" not in text and not NO_EXAMPLE.fullmatch(p)]


def test_every_name_says_what_it_is() -> None:
    assert wanting() == ([], [])


@pytest.mark.filterwarnings("ignore:.torch.backends.cuda.sdp_kernel")
@pytest.mark.filterwarnings(
    "ignore:The PyTorch API of MaskedTensors",
    "ignore:at..(nuclear|frobenius)_norm is deprecated",
    "ignore:torch.set_default_tensor_type.. is deprecated",
)
def test_examples_print_what_they_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # whether PyTorch is installed here must not matter
    failed = [said for path, text in examples().items() if (said := run(path, text, T))]
    assert not failed, "\n".join(failed)


def test_what_installs_does_what_it_says() -> None:
    """In a process of its own, as all of that sees it."""
    code = """if True:
        import doctest, nbgrad
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        for test in doctest.DocTestFinder().find(nbgrad.install, "install", globs={}):
            runner.run(test)
        assert runner.tries > 1 and not runner.failures"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)


@pytest.mark.oracle
@pytest.mark.filterwarnings(
    "ignore:.torch.jit.(script|fork|wait). is deprecated",
    "ignore:Attempted to insert a get_attr Node",
    "ignore:Sparse CS[CR] tensor support is in beta",
    "ignore:Sparse invariant checks are implicitly disabled",
    "ignore:torch.sparse.SparseTensor",
    "ignore:The PyTorch API of (nested|MaskedTensors)",
    "ignore:torch.quantize_per_tensor, torch.quantize_per_channel",
    "ignore:at..(nuclear|frobenius)_norm is deprecated",
    "ignore:torch.set_default_tensor_type.. is deprecated",
    "ignore:.torch.backends.cuda.sdp_kernel",
)  # its own
def test_examples_print_what_torch_prints() -> None:
    import torch

    torch.autograd.set_detect_anomaly(False, check_nan=True)  # whatever this process was told of before
    shared = {
        path: text
        for path, text in examples().items()
        if not OURS_ALONE.search(text) and not path.startswith(("jit.", "compile"))
    }
    failed = [said for path, text in shared.items() if (said := run(path, text, torch))]
    assert len(shared) > 0.9 * len(examples()) - 40
    assert not failed, "\n".join(failed)


def main() -> None:
    for title, names in zip(("say nothing", "show no example"), wanting()):
        print(f"{len(names)} of {len(words())} {title}: {' '.join(names)}\n")


if __name__ == "__main__":
    main()
