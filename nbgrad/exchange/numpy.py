"""NumPy's functions of tensors: `np.sin(t)`, `np.sum(t, axis=0)`, `array + t` are the ops of the same meaning, and differentiate.

Promises users that a function of NumPy gives what PyTorch's counterpart gives, a tensor with its history, or an array where PyTorch's
tensors give one and no history is lost; that one without a counterpart (saving, formatting and comparing are such) reads the tensors'
memory as arrays and gives what NumPy gives, if no history is lost, and never writes there; and that an array which is asked to hold the
result (`array += t`) gets it, if no history is lost. Which op stands for what is a table of names, looked up when called: an op that
Tensor gains is found.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nbgrad.base.tables import cached
from nbgrad.core.plan import common_dtype, number_type
from nbgrad.core.tensor import Tensor, requires
from nbgrad.memory import dtypes
from nbgrad.ops.make.data import from_array
from nbgrad.ops.make.filled import empty_like, full_like, ones_like, zeros_like
from nbgrad.ops.pointwise.choices import where
from nbgrad.ops.views import join
from nbgrad.ops.views.copy import scalar

_Array = np.ndarray[Any, Any]

# ---------------------------------------------------------------- ufuncs

_SAME = """
    add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor ceil copysign cos cosh deg2rad
    divide exp exp2 expm1 float_power floor floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside hypot isfinite isinf
    isnan lcm ldexp less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and logical_not logical_or logical_xor matmul
    maximum minimum multiply negative nextafter not_equal positive rad2deg reciprocal remainder sign signbit sin sinh sqrt square
    subtract tan tanh trunc
"""
_UFUNCS = {name: name for name in _SAME.split()} | {
    "absolute": "abs",
    "equal": "eq",  # PyTorch's `equal` compares whole tensors
    "fabs": "abs",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}
_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "amax", "minimum": "amin"}
_REDUCED |= {"logical_and": "all", "logical_or": "any"}
_ACCUMULATED = {"add": "cumsum", "multiply": "cumprod"}


def _array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, out: Any = (), **words: Any) -> Any:
    """NumPy's function of tensors as the method of that meaning, with its gradient.

    >>> import nbgrad
    >>> import numpy as np
    >>> np.multiply(np.float32(2.0), nbgrad.ones(2))
    tensor([2., 2.])
    """
    if any(isinstance(o, np.ndarray) for o in out):
        held = [x.numpy() if isinstance(x, Tensor) else x for x in inputs]  # refuses what requires grad
        return getattr(ufunc, method)(*held, out=out, **words)
    writes = method == "at" and isinstance(
        inputs[0], Tensor
    )  # NumPy's `at` writes into read-only arrays, too
    if writes or not all(_is_operand(x) for x in inputs):
        return NotImplemented
    names = {"__call__": _UFUNCS, "reduce": _REDUCED, "accumulate": _ACCUMULATED}.get(method, {})
    function = getattr(Tensor, names.get(ufunc.__name__, ""), None)
    if function is None or (words and method == "__call__"):
        found = NotImplemented if out else _on_arrays(getattr(ufunc, method), inputs, words)
        return found if found is NotImplemented or method == "outer" else _tensors(found)
    if out:  # which PyTorch's methods do not take
        words["out"] = out[0]
        op = getattr(function, "op", None)
        function = function if op is None or method != "__call__" else op.function
    if method != "__call__":
        return _renamed(function, inputs[0], {"axis": 0} | words, {})
    operands = _in_loop_of(ufunc, [x if number_type(x) else _tensor(x) for x in inputs])
    if getattr(getattr(function, "op", None), "tensors", ()):  # no number will do
        d = common_dtype([x._spec if isinstance(x, Tensor) else number_type(x) for x in operands])
        operands = [x if isinstance(x, Tensor) else scalar(x, d) for x in operands]
    return function(*operands, **words)


def _in_loop_of(ufunc: Any, operands: list[Any]) -> list[Any]:
    """Tensors in the dtypes in which NumPy computes it, as PyTorch's are: `float32 * int64` and `int64 / int64` are float64."""
    kinds = [x._spec.dtype if isinstance(x, Tensor) else number_type(x) for x in operands]
    loop = _loop(ufunc, *kinds)
    return [
        x.to(d) if isinstance(x, Tensor) and d is not x._spec.dtype else x for x, d in zip(operands, loop)
    ]


@cached(256)
def _loop(ufunc: Any, *kinds: Any) -> Sequence[Any]:
    """The dtypes of NumPy's loop for tensors and numbers of these; what they are where it has none."""
    if any([isinstance(d, dtypes.dtype) and d.bits is not None for d in kinds]):
        return kinds  # NumPy has no such dtype
    known = [d.np if isinstance(d, dtypes.dtype) else np.dtype(d) if d is bool else d for d in kinds]
    try:
        found = ufunc.resolve_dtypes((*known, *[None] * ufunc.nout))
        return [dtypes.from_numpy_dtype(d) for d in found[: len(kinds)]]
    except TypeError:  # none, or one of objects
        return kinds


def _is_operand(x: Any) -> bool:
    return isinstance(x, (Tensor, np.ndarray)) or number_type(x) is not None


def _tensor(x: Any) -> Tensor:
    """An operand as a tensor. Of an array, a copy: what a rule reads must not change with the user's array."""
    if isinstance(x, Tensor):
        return x
    return from_array(x.copy()) if isinstance(x, np.ndarray) else scalar(x)


# ---------------------------------------------------------------- other functions

# NumPy's words and PyTorch's; a call with a word that is not here, or in the entry of its function, is NumPy's own.
_WORDS = {"axis": "dim", "keepdims": "keepdim", "dtype": "dtype", "out": "out"}

_FUNCTIONS: dict[Any, tuple[str | Callable[..., Any], dict[str, str]]] = {
    np.all: ("all", {}),
    np.amax: ("amax", {}),
    np.amin: ("amin", {}),
    np.any: ("any", {}),
    np.argmax: ("argmax", {}),
    np.argmin: ("argmin", {}),
    np.argsort: ("argsort", {"stable": "stable"}),
    np.around: ("round", {"decimals": "decimals"}),
    np.clip: ("clamp", {"a_min": "min", "a_max": "max", "min": "min", "max": "max"}),
    np.concatenate: (join.cat, {}),
    np.copy: ("clone", {}),
    np.diagonal: ("diagonal", {"offset": "offset", "axis1": "dim1", "axis2": "dim2"}),
    np.empty_like: (empty_like, {}),
    np.expand_dims: ("unsqueeze", {}),
    np.full_like: (full_like, {"fill_value": "fill_value"}),
    np.inner: ("inner", {"b": "other"}),
    np.max: ("amax", {}),
    np.mean: ("mean", {}),
    np.min: ("amin", {}),
    np.moveaxis: ("movedim", {"source": "source", "destination": "destination"}),
    np.ones_like: (ones_like, {}),
    np.outer: ("outer", {"b": "vec2"}),
    np.prod: ("prod", {}),
    np.ravel: ("ravel", {}),
    np.repeat: ("repeat_interleave", {"repeats": "repeats"}),
    np.roll: ("roll", {"shift": "shifts", "axis": "dims"}),
    np.round: ("round", {"decimals": "decimals"}),
    np.squeeze: ("squeeze", {}),
    np.stack: (join.stack, {}),
    np.sum: ("sum", {}),
    np.swapaxes: ("transpose", {"axis1": "dim0", "axis2": "dim1"}),
    np.trace: ("trace", {}),
    np.tril: ("tril", {"k": "diagonal"}),
    np.triu: ("triu", {"k": "diagonal"}),
    np.vdot: ("vdot", {"b": "other"}),
    np.where: (where, {"x": "input", "y": "other"}),
    np.zeros_like: (zeros_like, {}),
}


def _array_function(self: Tensor, function: Any, types: Any, args: Any, words: Any) -> Any:
    """NumPy's functions of arrays that tensors have too, with their gradients; the rest are NumPy's own, on the tensors' memory.

    >>> import nbgrad
    >>> import numpy as np
    >>> np.sum(nbgrad.ones(2, 2), axis=0)
    tensor([2., 2.])
    """
    result: Any = NotImplemented
    if function in _ARRAYS and not _recorded([args, [*words.values()]]):
        return function(*_held(args, True), **{name: _held(x, True) for name, x in words.items()})
    if (own := _OWN.get(function)) is not None:
        result = own(*args, **words)
    elif function in _FUNCTIONS:
        found, names = _FUNCTIONS[function]
        op = getattr(Tensor, found) if isinstance(found, str) else found
        (_, first), *given = _bound(function, args, words).items()
        result = _renamed(op, first, dict(given), names)
    return _on_arrays(function, args, words) if result is NotImplemented else result


def _on_arrays(function: Any, args: Any, words: Any) -> Any:
    """What tensors have no counterpart of is NumPy's own, on their memory; one that requires grad is refused."""
    found = function(*_held(args), **{name: _held(x) for name, x in words.items()})
    return _tensors(found) if function in _TENSORS else found


def _tensors(found: Any) -> Any:
    """Arrays of numbers as tensors."""
    if isinstance(found, tuple):
        return tuple([_tensors(x) for x in found])
    return from_array(np.asarray(found)) if np.asarray(found).dtype != object else found


def _held(x: Any, writeable: bool = False) -> Any:
    """With arrays for tensors, which NumPy may read only where it might write: nobody would count that."""
    if isinstance(x, (list, tuple)):
        return (list if isinstance(x, list) else tuple)([_held(item, writeable) for item in x])
    if not isinstance(x, Tensor):
        return x
    array = x.numpy().view()
    array.flags.writeable = writeable
    return array


def _recorded(x: Any) -> bool:
    return any(map(_recorded, x)) if isinstance(x, (list, tuple)) else isinstance(x, Tensor) and requires(x)


# Of tensors without a history PyTorch's give arrays here, which programs go on with as such; a history it refuses, and we go on with.
_ARRAYS = frozenset(
    [
        *(
            np.broadcast_to,
            np.column_stack,
            np.concatenate,
            np.copy,
            np.diagonal,
            np.dot,
            np.dstack,
            np.empty_like,
        ),
        *(
            np.expand_dims,
            np.full_like,
            np.hstack,
            np.inner,
            np.linalg.norm,
            np.ones_like,
            np.outer,
            np.ravel,
            np.roll,
        ),
        *(
            np.sort,
            np.stack,
            np.tile,
            np.trace,
            np.tril,
            np.triu,
            np.vdot,
            np.vstack,
            np.where,
            np.zeros_like,
        ),
    ]
)
# And tensors here, though they are NumPy's own.
_TENSORS = frozenset(
    [
        *(
            np.argpartition,
            np.choose,
            np.delete,
            np.diagflat,
            np.insert,
            np.linalg.inv,
            np.linalg.solve,
            np.linspace,
        ),
        *(np.logspace, np.ptp, np.real, np.searchsorted, np.take),
    ]
)


@cached(256)
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def _bound(function: Any, args: Any, words: Any) -> dict[str, Any]:
    """The arguments that were given, by NumPy's names."""
    if function in _WITHOUT_SIGNATURE:
        return dict(zip(_WITHOUT_SIGNATURE[function], args)) | words
    return dict(_signature(function).bind(*args, **words).arguments)


_WITHOUT_SIGNATURE = {
    np.concatenate: ("arrays", "axis", "out"),
    np.empty_like: ("prototype", "dtype"),
    np.inner: ("a", "b"),
    np.vdot: ("a", "b"),
    np.where: ("condition", "x", "y"),
}


def _renamed(op: Any, first: Any, given: dict[str, Any], names: dict[str, str]) -> Any:
    """Call an op with NumPy's arguments under PyTorch's names. An axis of None is PyTorch's default: all."""
    names = _WORDS | names
    if not given.keys() <= names.keys() or isinstance(given.get("out"), np.ndarray):
        return NotImplemented
    if given.get("axis", 0) is None:
        del given["axis"]
    if given.get("dtype") is not None and not isinstance(given["dtype"], dtypes.dtype):
        given["dtype"] = dtypes.from_numpy_dtype(np.dtype(given["dtype"]))
    operand = [_tensor(x) for x in first] if isinstance(first, (list, tuple)) else _tensor(first)
    converted = {names[n]: _tensor(x) if isinstance(x, np.ndarray) else x for n, x in given.items()}
    return op(operand, **converted)


def _transpose(a: Tensor, axes: Any = None) -> Tensor:
    return a.permute(*(reversed(range(a.ndim)) if axes is None else axes))


def _flip(m: Tensor, axis: Any = None) -> Tensor:
    return m.flip(tuple(range(m.ndim)) if axis is None else axis)


def _norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    matrix = (x.ndim if axis is None else np.size(axis)) != 1
    if matrix and not (ord is None or (ord == "fro" and x.ndim == 2)):
        return NotImplemented
    return x.norm(2 if ord in (None, "fro") else ord, axis, keepdims)


def _running(name: str) -> Callable[..., Tensor]:
    def op(a: Tensor, axis: int | None = None) -> Tensor:
        return getattr(a.ravel() if axis is None else a, name)(axis or 0)

    return op


def _moment(name: str) -> Callable[..., Tensor]:
    """NumPy divides by the number of elements where PyTorch, unless told, takes one less."""

    def op(a: Tensor, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Tensor:
        return getattr(a, name)(axis, correction=ddof, keepdim=keepdims)

    return op


def _sort(a: Tensor, axis: int | None = -1) -> Tensor:
    return a.ravel().sort()[0] if axis is None else a.sort(axis)[0]


def _size(a: Tensor, axis: int | None = None) -> int:
    return a.numel() if axis is None else a.size(axis)


def _nonzero(a: Tensor) -> Any:
    return a.nonzero(as_tuple=True)


def _dot(a: Any, b: Any) -> Any:
    a, b = _tensor(a), _tensor(b)
    if a.ndim > 2 or b.ndim > 2:  # NumPy's sum has no counterpart
        return NotImplemented
    return a * b if 0 in (a.ndim, b.ndim) else a.matmul(b)


def _joined(function: Callable[[list[Tensor]], Tensor]) -> Callable[..., Tensor]:
    return lambda tup: function([_tensor(x) for x in tup])


_OWN: dict[Any, Callable[..., Any]] = {
    np.broadcast_to: lambda array, shape: array.broadcast_to(shape),
    np.column_stack: _joined(join.column_stack),
    np.cumprod: _running("cumprod"),
    np.cumsum: _running("cumsum"),
    np.dot: _dot,
    np.dstack: _joined(join.dstack),
    np.flip: _flip,
    np.hstack: _joined(join.hstack),
    np.linalg.norm: _norm,
    np.ndim: Tensor.dim,
    np.nonzero: _nonzero,
    np.reshape: lambda a, shape: a.reshape(shape),
    np.shape: lambda a: tuple(a.shape),
    np.size: _size,
    np.tile: lambda A, reps: A.tile(reps),
    np.sort: _sort,
    np.std: _moment("std"),
    np.transpose: _transpose,
    np.var: _moment("var"),
    np.vstack: _joined(join.vstack),
}

for _name, _method in {"__array_ufunc__": _array_ufunc, "__array_function__": _array_function}.items():
    setattr(Tensor, _name, _method)
