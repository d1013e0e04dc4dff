"""How classes and modes take functions over, PyTorch's `torch.overrides`.

A class with `__torch_function__` is asked in the place of every function that gets an instance of it, a `TorchFunctionMode` in the place
of every function that is called while it is on. `core/overrides.py` has what stands behind it.

>>> class Counting(torch.overrides.TorchFunctionMode):
...     calls = 0
...     def __torch_function__(self, func, types, args=(), kwargs=None):
...         self.calls += 1
...         return func(*args, **(kwargs or {}))
>>> with Counting() as mode:
...     x = torch.ones(2) * 3
>>> mode.calls
2
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from sys import modules
from types import FunctionType, ModuleType
from typing import Any, Self
from warnings import warn

from nbgrad.base.ours import is_ours
from nbgrad.base.tables import cached
from nbgrad.core import overrides as _core
from nbgrad.core.tensor import Tensor
from nbgrad.tape.modes import state

__all__ = [
    "enable_reentrant_dispatch",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "redispatch_function",
    "resolve_name",
    "wrap_torch_function",
]

# ---------------------------------------------------------------- asking


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments is somebody else's: one of them has a `__torch_function__`, or a mode is on. Plain tensors and
    parameters have none.

    >>> torch.overrides.has_torch_function((torch.ones(2), 1))
    False
    """
    if state.skip:
        state.skip = False
        return False
    if state.asked == _core.NOBODY:
        return False
    if state.functions:
        return True
    return state.asked == _core.ALL and any([_core.overrides(type(a)) for a in relevant_args])


def has_torch_function_unary(input: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((input,))


def has_torch_function_variadic(*args: Any) -> bool:
    """`has_torch_function` of the arguments themselves."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What a call of `public_api` comes to by those who override it: modes first, then the classes of `relevant_args`, a class before
    those that it inherits from.

    >>> def half(x):
    ...     if torch.overrides.has_torch_function_unary(x):
    ...         return torch.overrides.handle_torch_function(half, (x,), x)
    ...     return x / 2
    >>> half(torch.ones(1))
    tensor([0.5000])
    """
    asked = _core.python_asked(relevant_args)
    return _core.ask(public_api, tuple(map(type, asked)), asked, args, kwargs, python=True)


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function be overridden: `dispatcher`, called with the same arguments, says which of them are asked.

    >>> @torch.overrides.wrap_torch_function(lambda x: (x,))
    ... def half(x): return x / 2
    >>> half(torch.ones(1))
    tensor([0.5000])
    """

    def inner(func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return inner


def _assert(condition: Any, message: str) -> Any:
    """`assert`, which may be overridden: of what stands for a value while a program is traced, a step."""
    if type(condition) is not Tensor and has_torch_function((condition,)):
        return handle_torch_function(_assert, (condition,), condition, message)
    assert condition, message


def redispatch_function(func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Call `func` itself, of whose arguments nobody is asked; what it calls in turn is overridden as ever."""
    state.skip = True
    try:
        return func(*args, **(kwargs or {}))
    finally:
        state.skip = False


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Within it, calls are overridden as they are outside: the state that `__torch_function__` runs in is put aside."""
    with _core.switched(_core.ALL):
        yield


# ---------------------------------------------------------------- modes


class TorchFunctionMode:
    """While it is on (`with mode:`), every function of the library is its own `__torch_function__`, also those that make tensors of
    none. Inside of that, calls go to the mode below.

    >>> class Doubling(torch.overrides.TorchFunctionMode):
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         result = func(*args, **(kwargs or {}))
    ...         return 2 * result if func is torch.ones else result
    >>> with Doubling():
    ...     torch.ones(2)
    tensor([2., 2.])
    """

    inner: TorchFunctionMode

    def __init__(self) -> None:
        pass

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _push_mode(self)
        return self

    def __exit__(self, *_: object) -> None:
        _pop_mode()

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Deprecated: `with Mode():` does it."""
        warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls what was called."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _push_mode(mode: Any) -> None:
    _core.push(mode)


def _pop_mode() -> Any:
    return _core.pop()


@contextmanager
def _pop_mode_temporarily() -> Iterator[Any]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


def _get_current_function_mode() -> Any:
    return state.functions[-1] if state.functions else None


def _get_current_function_mode_stack() -> list[Any]:
    return list(state.functions)


class _Switch:
    """Within it, or while an instance lives, this thread asks fewer."""

    asked = _core.NOBODY

    def __init__(self) -> None:
        self._before: int | None = state.asked
        state.asked = min(state.asked, self.asked)

    def _back(self) -> None:
        if self._before is not None:
            state.asked, self._before = self._before, None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._back()

    def __del__(self) -> None:
        self._back()


class DisableTorchFunctionSubclass(_Switch):
    """Within it, no class is asked, as `super().__torch_function__` has it; modes are."""

    asked = _core.MODES_ONLY


class DisableTorchFunction(_Switch):
    """Within it, neither classes nor modes are asked."""


# ---------------------------------------------------------------- what can be overridden

_IGNORED = {
    "": "typename is_tensor is_storage set_default_tensor_type set_default_device get_default_device set_rng_state get_rng_state "
    "manual_seed initial_seed seed thread_safe_generator save load set_printoptions fork get_default_dtype get_num_interop_threads "
    "get_num_threads init_num_threads is_anomaly_enabled is_anomaly_check_nan_enabled is_grad_enabled set_anomaly_enabled "
    "set_flush_denormal set_num_interop_threads set_num_threads wait as_tensor from_numpy tensor default_generator device dtype finfo "
    "iinfo memory_format qscheme set_grad_enabled no_grad enable_grad inference_mode is_inference_mode_enabled layout arange as_strided "
    "bartlett_window blackman_window broadcast_shapes can_cast compile empty empty_permuted empty_strided eye from_file full fill "
    "hamming_window hann_window kaiser_window linspace logspace normal ones promote_types rand rand_like randn randn_like randint "
    "randint_like randperm range result_type scalar_tensor sparse_coo_tensor sparse_compressed_tensor sparse_csr_tensor "
    "sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor tril_indices triu_indices vander zeros set_autocast_enabled "
    "is_autocast_enabled set_autocast_dtype get_autocast_dtype clear_autocast_cache autocast_increment_nesting "
    "autocast_decrement_nesting is_autocast_cache_enabled set_autocast_cache_enabled are_deterministic_algorithms_enabled "
    "use_deterministic_algorithms is_deterministic_algorithms_warn_only_enabled set_deterministic_debug_mode get_device_module "
    "get_deterministic_debug_mode set_float32_matmul_precision get_float32_matmul_precision is_warn_always_enabled set_warn_always vmap "
    "cond frombuffer asarray",
    "nn.functional": "assert_int_or_pair upsample upsample_bilinear upsample_nearest has_torch_function has_torch_function_unary "
    "has_torch_function_variadic handle_torch_function grouped_mm scaled_grouped_mm scaled_mm sigmoid hardsigmoid tanh hardswish "
    "_canonical_mask _none_or_dtype",
    "nn.init": "calculate_gain uniform normal constant eye dirac xavier_uniform xavier_normal kaiming_uniform kaiming_normal orthogonal "
    "sparse",
    "fft": "fftfreq rfftfreq",
    "Tensor": "__delitem__ __dir__ __getattribute__ __init__ __iter__ __init_subclass__ __delattr__ __setattr__ __torch_function__ "
    "__torch_dispatch__ __new__ __subclasshook__ __hash__ as_subclass eig lstsq reinforce new new_tensor new_empty new_empty_strided "
    "new_zeros new_ones new_full _make_subclass solve symeig stride unflatten to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr "
    "to_sparse_bsc _reduce_ex_internal _make_wrapper_subclass _conj _conj_physical _neg_view _is_all_true _is_any_true "
    "to_padded_tensor",
}


# Of these PyTorch's own name is in `torch.functional`.
_NAMES = """
    align_tensors atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist chain_matmul einsum
    istft lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive unravel_index
"""
_FUNCTIONAL = frozenset(_NAMES.split())


def _spaces() -> Iterator[tuple[str, Any]]:
    """Where functions are, by path; a function that is in several is that of the last."""
    package = modules[__name__.partition(".")[0]]
    yield "", package
    for path in ("nn.functional", "nn.init"):
        found: Any = package
        for name in path.split("."):
            found = getattr(found, name, None)
        if found is not None:
            yield path, found
    yield "Tensor", Tensor
    for path in ("linalg", "fft", "special"):
        if hasattr(package, path):
            yield path, getattr(package, path)


@cached(None)
def get_ignored_functions() -> set[Callable[..., Any]]:
    """The public functions that no class overrides, mostly as they take no tensor.

    >>> torch.zeros in torch.overrides.get_ignored_functions(), torch.add in torch.overrides.get_ignored_functions()
    (True, False)
    """
    spaces = dict(_spaces())
    return {
        found
        for path, names in _IGNORED.items()
        for name in names.split()
        if (found := getattr(spaces.get(path), name, None)) is not None
    }


@cached(None)
def _found() -> tuple[dict[Any, list[Callable[..., Any]]], dict[Any, str]]:
    lists: dict[Any, list[Callable[..., Any]]] = defaultdict(list)
    index: dict[Any, str] = {}
    ignored = get_ignored_functions()
    for path, space in _spaces():
        start = f"torch.{path}." if path else "torch."
        for name in dir(space):
            if space is not Tensor and name[:2] == "__":
                continue
            left_out = space is not Tensor and (name[0] == "_" or name[-1] == "_" or not name[0].islower())
            value = getattr(space, name, None)
            if (
                isinstance(value, (ModuleType, type))
                or getattr(object, name, None) == value
                or name[:6] == "_spec"
            ):
                continue
            if isinstance(value, property):
                index[value.__get__], index[value.__set__] = (
                    f"{start}{name}.__get__",
                    f"{start}{name}.__set__",
                )
                if not left_out and value.__get__ not in ignored:
                    lists[value].append(value.__get__)
            elif isinstance(value, FunctionType) and is_ours(value.__module__):
                if value.__name__ != name and _core.ALIASES.get(name) == value.__name__:
                    continue
                index[value] = (
                    f"{start}functional.{name}" if not path and name in _FUNCTIONAL else start + name
                )
                if not left_out and value not in ignored:
                    lists[space].append(value)
    return lists, index


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """The functions that classes override, by where they are; of a property, what reads it.

    >>> torch.add in torch.overrides.get_overridable_functions()[torch]
    True
    """
    return _found()[0]


@cached(None)
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For each function that can be overridden one that takes the same arguments, and returns -1.

    >>> torch.overrides.get_testing_overrides()[torch.add](1, 2)
    -1
    """
    return {func: _stand_in(func) for functions in get_overridable_functions().values() for func in functions}


def _stand_in(func: Callable[..., Any]) -> Callable[..., Any]:
    def stand_in(*args: Any, **kwargs: Any) -> int:
        return -1

    taken = inspect.signature((lambda self: -1) if func.__name__ == "__get__" else func)
    stand_in.__signature__ = taken  # type: ignore[attr-defined]
    return stand_in


def resolve_name(f: Callable[..., Any]) -> str | None:
    """What a function that `__torch_function__` gets is called, as a text that names it in Python.

    >>> torch.overrides.resolve_name(torch.Tensor.add), torch.overrides.resolve_name(torch.Tensor.grad.__get__)
    ('torch.Tensor.add', 'torch.Tensor.grad.__get__')
    """
    if hasattr(f, "_qualified_op_name"):
        return str(f)
    return _found()[1].get(f)


@cached(None)
def _tensor_methods() -> set[Callable[..., Any]]:
    return set(get_overridable_functions()[Tensor])


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function that `__torch_function__` gets is a method of Tensor, or what reads a property.

    >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.add), torch.overrides.is_tensor_method_or_property(torch.add)
    (True, False)
    """
    return func in _tensor_methods() or func.__name__ == "__get__"


def is_tensor_like(inp: Any) -> bool:
    """Whether something is a tensor or has a `__torch_function__`.

    >>> torch.overrides.is_tensor_like(torch.ones(2)), torch.overrides.is_tensor_like(2)
    (True, False)
    """
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")
