"""The table of PyTorch's operators that are here, `nbgrad/_aten/schemas.txt`, made from PyTorch's own schemas: `python -m tests.aten`
writes it, `--check` says whether it is fresh, `--replay` calls each operator that PyTorch's samples come to in both libraries."""

from __future__ import annotations

import itertools
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

WHERE = Path(__file__).parent.parent / "nbgrad" / "_aten" / "schemas.txt"
# What a schema must not speak of: what TorchScript alone has, or what is no tensor with strides.
_FOREIGN = re.compile(
    r"\b(Dimname|complex|Storage|Stream|QScheme|AnyEnumType|Dict|Any|Future|t\[\]|hacked_twin|__torch__)|\bprim_|\bstr\[\]|ConstQuantizerPtr|\.\.\."
)
_LISTS = re.compile(r"\.list_|_list\(|^(as_tensor|cpu|cuda|is_same_size|get_device)\(")
# Of tensors in formats that are not here, or of hardware.
_OUTSIDE = re.compile(
    r"(?<!^_)sparse|^_sparse(?!_addmm$|_mm_reduce_impl$)|mkldnn|cudnn|miopen|mps_|_foreach|_fused|quantiz|_nested|_jagged|to_dense|to_padded|fbgemm|_test_|crow_|ccol_|col_ind|row_ind|_coalesc|^_?(values|indices)$"
)


def lines() -> list[str]:
    import torch

    from nbgrad._aten.operators import function_of
    from nbgrad.core.signatures import _table

    known = _table()
    found = []
    for schema in torch._C._jit_get_all_schemas():
        text = str(schema)
        space, _, line = text.partition("::")
        if space != "aten" or "Tensor" not in text or _FOREIGN.search(text) or _LISTS.search(line):
            continue
        name = schema.name[6:]
        if _OUTSIDE.search(name) or function_of(name) is None:
            continue
        out = any(a.is_out for a in schema.arguments)
        if out and not any(
            "out=None" in k
            for p in (name, f"special.{name[8:]}", f"linalg.{name[7:]}")
            for k in known.get(p, ())
        ):
            continue
        if out and "out" not in {a.name for a in schema.arguments if a.is_out}:
            continue
        found.append(line)
    return sorted(found, key=lambda line: line[: line.index("(")].partition(".")[0])


# ---------------------------------------------------------------- beside PyTorch

# What is no function of its arguments, or gives what nobody promises.
_NOT_COMPARED = re.compile(
    r"empty|^(rand|bernoulli|normal|uniform|exponential|geometric|cauchy|log_normal|dropout|native_dropout|multinomial|poisson|binomial"
    r"|_standard_gamma|_sample_dirichlet|rrelu|alpha_dropout|feature_alpha|random|svd|linalg_svd|linalg_qr|linalg_eigh|geqrf|resize_|set_)"
)


def _ours(T: Any, torch: Any, value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return T.from_numpy(value.detach().numpy().copy()).requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype | torch.memory_format | torch.layout):
        return getattr(T, str(value).removeprefix("torch."))
    if isinstance(value, torch.device):
        return T.device(str(value))
    if isinstance(value, dict):
        return {name: _ours(T, torch, v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([_ours(T, torch, v) for v in value])
    return value


def _flat(value: Any) -> list[Any]:
    return [f for v in value for f in _flat(v)] if isinstance(value, list | tuple) else [value]


def calls(per_op: int = 4, names: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any, Any, Any]]:
    """Of PyTorch's samples: the operators that they come to, below its functions and in their gradients, with arguments and results."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    found: list[Any] = []
    seen: dict[str, int] = {}

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            keep = seen.get(str(func), 0) < per_op
            copied = tree_map(
                lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, (args, kwargs or {})
            )
            result = func(*args, **(kwargs or {}))
            if keep:
                seen[str(func)] = seen.get(str(func), 0) + 1
                again = tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, result)
                found.append((func, *copied, again))
            return result

    for op in op_db:
        if (
            (names and op.name not in names)
            or torch.float32 not in op.dtypes
            or "fft" in op.name
            or "sparse" in op.name
        ):
            continue
        try:
            samples = list(
                itertools.islice(
                    op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd), 6
                )
            )
        except Exception:
            continue
        for sample in samples:
            with warnings.catch_warnings(), Record():
                warnings.simplefilter("ignore")
                try:
                    result = op(sample.input, *sample.args, **sample.kwargs)
                    roots = [r for r in _flat(result) if isinstance(r, torch.Tensor) and r.requires_grad]
                    if roots:
                        torch.autograd.backward(roots, [torch.ones_like(r) for r in roots])
                except Exception:
                    pass
        yield from found
        found.clear()


def difference(T: Any, func: Any, args: Any, kwargs: Any, want: Any) -> str | None:
    """What our operator of the same name gives otherwise; None where it gives the same, or is not there."""
    import numpy as np
    import torch

    packet, overload = str(func).removeprefix("aten.").rsplit(".", 1)
    name = func._schema.name[6:]
    if func.namespace != "aten" or _NOT_COMPARED.search(name) or name not in dir(T.ops.aten):
        return None
    packet = getattr(T.ops.aten, name)
    if overload not in packet.overloads():
        return None
    try:
        with T.no_grad():
            got = getattr(packet, overload)(*_ours(T, torch, args), **_ours(T, torch, kwargs))
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    for a, b in zip(_flat(got), _flat(want), strict=False):
        if isinstance(b, torch.Tensor):
            if not isinstance(a, T.Tensor):
                return f"gives {a}"
            if tuple(a.shape) != tuple(b.shape) or str(a.dtype) != str(b.dtype):
                return f"gives {a.dtype} {tuple(a.shape)}, PyTorch {b.dtype} {tuple(b.shape)}"
            x, y = a.detach().numpy(), b.detach().numpy()
            if not np.allclose(x.astype("f8"), y.astype("f8"), 1e-3, 1e-3, equal_nan=True):
                return f"differs by {np.nanmax(np.abs(x.astype('f8') - y.astype('f8')))}"
        elif isinstance(a, float) and a == b:
            continue
        elif (a is None) != (b is None):
            return f"gives {a}, PyTorch {b}"
    if len(_flat(got)) != len(_flat(want)):
        return f"gives {len(_flat(got))} results, PyTorch {len(_flat(want))}"
    return None


def replay(per_op: int = 4, names: tuple[str, ...] = ()) -> tuple[set[str], dict[str, str]]:
    """The operators that were called, and of those that differ what was otherwise."""
    import nbgrad as T

    ran, told = set(), {}
    for func, args, kwargs, want in calls(per_op, names):
        try:
            said = difference(T, func, args, kwargs, want)
        except (TypeError, AttributeError, RuntimeError) as error:  # of a dtype that is not here
            said = None if "dtype" in str(error) or "complex" in str(error) else f"the harness: {error!r}"
        ran.add(str(func))
        if said is not None:
            told.setdefault(str(func), f"{said}   {str(args)[:160]} {str(kwargs)[:80]}".replace("\n", " "))
    return ran, told


def main(args: list[str]) -> int:
    text = "\n".join(lines()) + "\n"
    if "--replay" in args:
        ran, told = replay(names=tuple([a for a in args if a[0] != "-"]))
        print(
            *[f"{name}: {said}" for name, said in sorted(told.items())],
            f"{len(told)} of {len(ran)}",
            sep="\n",
        )
        return int(bool(told))
    if "--check" in args:
        return int(text != WHERE.read_text(encoding="utf-8"))
    WHERE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
