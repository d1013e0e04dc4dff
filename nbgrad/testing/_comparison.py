"""Whether things are close, with PyTorch's words where they are not.

What is compared is taken apart into pairs (`originate_pairs`), each of a kind that knows how to compare: nothing, booleans, numbers,
tensors and what can be made one. A pair that does not match raises `ErrorMeta`, which holds what the user is told.
"""

from __future__ import annotations

import cmath
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn
from warnings import warn

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.dtypes import dtype
from nbgrad.ops.host.attributes import strided
from nbgrad.ops.host.values import isclose
from nbgrad.ops.make.data import as_tensor, tensor

Message = str | Callable[[str], str] | None
_PLEASE = (
    "If you are a user and see this message during normal operation please file an issue at https://github.com/pytorch/pytorch/issues. "
    "If you are a developer and working on the comparison functions, please "
)
_PRECISIONS = {
    "float16": (0.001, 1e-5),
    "bfloat16": (0.016, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (0.001, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


class ErrorMeta(Exception):
    """What is wrong with an item: the kind of error, its words, and where the item is."""

    def __init__(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> None:
        super().__init__(f"{_PLEASE}`raise ErrorMeta.to_error()` for user facing errors.")
        self.type, self.msg, self.id = type, msg, id

    def to_error(self, msg: Message = None) -> Exception:
        """The error for users, in their own words or in what they make of ours."""
        if isinstance(msg, str):
            return self.type(msg)
        text = self.msg
        if self.id:
            text += f"\n\nThe failure occurred for item {_item(self.id)}"
        return self.type(msg(text) if callable(msg) else text)


def _item(id: tuple[Any, ...]) -> str:
    return "".join([str([part]) for part in id])


class UnsupportedInputs(Exception):
    """A kind of pair is not for these."""


# ---------------------------------------------------------------- tolerances


def default_tolerances(
    *inputs: Any, dtype_precisions: Mapping[Any, Any] | None = None
) -> tuple[float, float]:
    """The loosest relative and absolute tolerance of these tensors' dtypes; integers have none."""
    found = []
    for one in inputs:
        if not isinstance(one, (Tensor, dtype)):
            raise TypeError(f"Expected a torch.Tensor or a torch.dtype, but got {type(one)} instead.")
        d = one.dtype if isinstance(one, Tensor) else one
        if dtype_precisions is not None:
            found.append(dtype_precisions.get(d, (0.0, 0.0)))
        else:
            found.append(_PRECISIONS.get(str(d).removeprefix("torch."), (0.0, 0.0)))
    return max([rtol for rtol, _ in found]), max([atol for _, atol in found])


def get_tolerances(
    *inputs: Any, rtol: float | None, atol: float | None, id: tuple[Any, ...] = ()
) -> tuple[float, float]:
    """The tolerances that were given, both of them, or those of the dtypes."""
    if (rtol is None) != (atol is None):
        lacking = "rtol" if rtol is None else "atol"
        raise ErrorMeta(
            ValueError,
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no {lacking}.",
            id=id,
        )
    return default_tolerances(*inputs) if rtol is None or atol is None else (rtol, atol)


# ---------------------------------------------------------------- words


def _title(default: str, identifier: Message) -> str:
    if identifier is None:
        return default
    return identifier(default) if callable(identifier) else identifier


def _mismatch(
    title: str,
    extra: str,
    differences: Sequence[tuple[str, Any, tuple[int, ...] | None, float]],
) -> str:
    """Of each difference: its kind, how large it is, where, and what is allowed."""
    equality = not any([allowed for _, _, _, allowed in differences])
    lines = [f"{title} are not {'equal' if equality else 'close'}!\n", extra.strip()]
    for kind, size, place, allowed in differences:
        text = (
            f"{kind.title()} difference: {size}"
            if place is None
            else f"Greatest {kind} difference: {size} at index {place}"
        )
        lines.append(text if equality else f"{text} (up to {allowed} allowed)")
    return "\n".join(lines).strip()


def make_scalar_mismatch_msg(
    actual: Any, expected: Any, *, rtol: float, atol: float, identifier: Message = None
) -> str:
    """What is said of two numbers."""
    apart = abs(actual - expected)
    share = float("inf") if expected == 0 else apart / abs(expected)
    return _mismatch(
        _title("Scalars", identifier),
        f"Expected {expected} but got {actual}.",
        [("absolute", apart, None, atol), ("relative", share, None, rtol)],
    )


def make_tensor_mismatch_msg(
    actual: Tensor,
    expected: Tensor,
    matches: Tensor,
    *,
    rtol: float,
    atol: float,
    identifier: Message = None,
) -> str:
    """What is said of two tensors: of the elements that do not match, how many, and the greatest differences."""
    count, shape = matches.numel(), tuple(matches.shape)
    wrong = count - int(matches.sum())
    a, b, fine = actual.flatten(), expected.flatten(), matches.flatten()
    if not (a.dtype.is_floating_point or a.is_complex()):
        a, b = a.to(dtypes.int64), b.to(dtypes.int64)
    apart = (a - b).abs()
    apart[fine] = 0
    share = apart / b.abs()
    share[fine] = 0
    differences = []
    for kind, found, allowed in (("absolute", apart, atol), ("relative", share, rtol)):
        greatest, place = found.max(0)
        at = tuple([int(n) for n in np.unravel_index(int(place), shape)]) if shape else ()
        differences.append((kind, greatest.item(), at, allowed))
    return _mismatch(
        _title("Tensor-likes", identifier),
        f"Mismatched elements: {wrong} / {count} ({wrong / count:.1%})",
        differences,
    )


# ---------------------------------------------------------------- pairs


class Pair:
    """Two things that `compare` compares. A kind that is not for them raises `UnsupportedInputs` when it is made; each is given all
    options and takes its own."""

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...] = (), **unknown: Any) -> None:
        self.actual, self.expected, self.id, self._unknown_parameters = actual, expected, id, unknown

    @staticmethod
    def _inputs_not_supported() -> NoReturn:
        raise UnsupportedInputs

    @staticmethod
    def _check_inputs_isinstance(*inputs: Any, cls: Any) -> None:
        if not all([isinstance(one, cls) for one in inputs]):
            Pair._inputs_not_supported()

    def _fail(self, type: type[Exception], msg: str, *, id: tuple[Any, ...] = ()) -> NoReturn:
        raise ErrorMeta(type, msg, id=id or self.id)

    def compare(self) -> None:
        """Raise `ErrorMeta` where they do not match."""
        raise NotImplementedError

    def extra_repr(self) -> Sequence[str | tuple[str, Any]]:
        """What else `repr` shows, as names of attributes or with their values."""
        return ()

    def __repr__(self) -> str:
        extra = [(e, getattr(self, e)) if isinstance(e, str) else e for e in self.extra_repr()]
        shown = [("id", self.id), ("actual", self.actual), ("expected", self.expected), *extra]
        return "\n".join([f"{type(self).__name__}(", *[f"    {n}={v!s}," for n, v in shown], ")"])


class ObjectPair(Pair):
    """Anything, by `==`."""

    def compare(self) -> None:
        try:
            equal = self.actual == self.expected
        except Exception as error:
            raise ErrorMeta(
                ValueError, f"{self.actual} == {self.expected} failed with:\n{error}.", id=self.id
            ) from error
        if not equal:
            self._fail(AssertionError, f"{self.actual} != {self.expected}")


class NonePair(Pair):
    """Two of which one is None."""

    def __init__(self, actual: Any, expected: Any, **other_parameters: Any) -> None:
        if actual is not None and expected is not None:
            self._inputs_not_supported()
        super().__init__(actual, expected, **other_parameters)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"None mismatch: {self.actual} is not {self.expected}")


class BooleanPair(Pair):
    """Two booleans, Python's or NumPy's."""

    def __init__(self, actual: Any, expected: Any, *, id: tuple[Any, ...], **other_parameters: Any) -> None:
        self._check_inputs_isinstance(actual, expected, cls=(bool, np.bool_))
        super().__init__(bool(actual), bool(expected), **other_parameters)

    def compare(self) -> None:
        if self.actual is not self.expected:
            self._fail(AssertionError, f"Booleans mismatch: {self.actual} is not {self.expected}")


class NumberPair(Pair):
    """Two numbers, Python's or NumPy's."""

    _TYPES = (int, float, complex)

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: tuple[Any, ...] = (),
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_dtype: bool = False,
        **other_parameters: Any,
    ) -> None:
        self._check_inputs_isinstance(actual, expected, cls=(*self._TYPES, np.number))
        actual, expected = [one.item() if isinstance(one, np.number) else one for one in (actual, expected)]
        super().__init__(actual, expected, id=id, **other_parameters)
        names = {int: "int64", float: "float64", complex: "complex128"}
        usual = [_PRECISIONS.get(names[type(one)], (0.0, 0.0)) for one in (actual, expected)]
        if rtol is None and atol is None:
            rtol, atol = max([r for r, _ in usual]), max([a for _, a in usual])
        self.rtol, self.atol = get_tolerances(rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_dtype = equal_nan, check_dtype

    def compare(self) -> None:
        actual, expected = self.actual, self.expected
        if self.check_dtype and type(actual) is not type(expected):
            self._fail(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.")
        if actual == expected or (self.equal_nan and cmath.isnan(actual) and cmath.isnan(expected)):
            return
        apart = abs(actual - expected)
        if cmath.isfinite(apart) and apart <= self.atol + self.rtol * abs(expected):
            return
        self._fail(AssertionError, make_scalar_mismatch_msg(actual, expected, rtol=self.rtol, atol=self.atol))

    def extra_repr(self) -> Sequence[str]:
        return "rtol", "atol", "equal_nan", "check_dtype"


class TensorLikePair(Pair):
    """Two tensors, or two things of related classes that tensors can be made of."""

    def __init__(
        self,
        actual: Any,
        expected: Any,
        *,
        id: tuple[Any, ...] = (),
        allow_subclasses: bool = True,
        rtol: float | None = None,
        atol: float | None = None,
        equal_nan: bool = False,
        check_device: bool = True,
        check_dtype: bool = True,
        check_layout: bool = True,
        check_stride: bool = False,
        **other_parameters: Any,
    ) -> None:
        if not (isinstance(actual, type(expected)) or isinstance(expected, type(actual))):
            self._inputs_not_supported()
        if not allow_subclasses and type(actual) is not type(expected):
            self._inputs_not_supported()
        actual, expected = self._to_tensor(actual), self._to_tensor(expected)
        super().__init__(actual, expected, id=id, **other_parameters)
        self.rtol, self.atol = get_tolerances(actual, expected, rtol=rtol, atol=atol, id=id)
        self.equal_nan, self.check_device, self.check_dtype = equal_nan, check_device, check_dtype
        self.check_layout, self.check_stride = check_layout, check_stride

    def _to_tensor(self, tensor_like: Any) -> Tensor:
        if isinstance(tensor_like, Tensor):
            return tensor_like
        try:
            made: Tensor = as_tensor(tensor_like)
        except Exception:
            self._inputs_not_supported()
        return made

    def compare(self) -> None:
        actual, expected = self.actual, self.expected
        self._compare_attributes(actual, expected)
        if "meta" in (actual.device.type, expected.device.type):
            return
        if actual.device != expected.device:
            actual, expected = actual.cpu(), expected.cpu()
        if actual.dtype != expected.dtype:
            common = dtypes.promote_types(_signed(actual.dtype), _signed(expected.dtype))
            actual, expected = actual.to(common), expected.to(common)
        if actual.layout != expected.layout:
            actual, expected = [t if t.layout == strided else t.to_dense() for t in (actual, expected)]
        if actual.layout == strided:
            self._compare_close(actual, expected)
        else:
            self._compare_sparse(actual, expected)

    def _compare_close(self, actual: Tensor, expected: Tensor, identifier: Message = None) -> None:
        self._compare_regular_values_close(
            actual,
            expected,
            rtol=self.rtol,
            atol=self.atol,
            equal_nan=self.equal_nan,
            identifier=identifier,
        )

    def _compare_sparse(self, actual: Any, expected: Any) -> None:
        """Where elements are first, then what they are."""
        kind = f"sparse {str(actual.layout).removeprefix('torch.sparse_').upper()}"
        compressed = kind != "sparse COO"
        counts = [("sparse dimensions", "sparse_dim")] * (not compressed) + [("specified values", "_nnz")]
        for words, name in counts:
            a, b = getattr(actual, name)(), getattr(expected, name)()
            if a != b:
                self._fail(
                    AssertionError, f"The number of {words} in {kind} tensors does not match: {a} != {b}"
                )
        for name in _PLACES[str(actual.layout)]:
            self._compare_regular_values_close(
                getattr(actual, name)(),
                getattr(expected, name)(),
                rtol=0,
                atol=0,
                equal_nan=False,
                identifier=f"S{kind[1:]} {name.removeprefix('_')}",
            )
        read = "values" if compressed else "_values"
        self._compare_close(getattr(actual, read)(), getattr(expected, read)(), f"S{kind[1:]} values")

    def _compare_attributes(self, actual: Tensor, expected: Tensor) -> None:
        for name, asked in (
            ("shape", True),
            ("layout", self.check_layout),
            ("stride()", self.check_stride and actual.layout == strided),
            ("device", self.check_device),
            ("dtype", self.check_dtype),
        ):
            if not asked:  # what is sparse has no strides
                continue
            read = name.removesuffix("()")
            a, b = getattr(actual, read), getattr(expected, read)
            if read != name:
                a, b = a(), b()
            if a != b:
                self._fail(AssertionError, f"The values for attribute '{name}' do not match: {a} != {b}.")

    def _compare_regular_values_close(
        self,
        actual: Tensor,
        expected: Tensor,
        *,
        rtol: float,
        atol: float,
        equal_nan: bool,
        identifier: Message = None,
    ) -> None:
        matches = isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
        if matches.all():
            return
        if not actual.ndim:
            text = make_scalar_mismatch_msg(
                actual.item(), expected.item(), rtol=rtol, atol=atol, identifier=identifier
            )
        else:
            text = make_tensor_mismatch_msg(
                actual, expected, matches, rtol=rtol, atol=atol, identifier=identifier
            )
        self._fail(AssertionError, text)

    def extra_repr(self) -> Sequence[str]:
        return (
            *("rtol", "atol", "equal_nan", "check_device", "check_dtype"),
            *("check_layout", "check_stride"),
        )


_PLACES = {
    "torch.sparse_coo": ("_indices",),
    "torch.sparse_csr": ("crow_indices", "col_indices"),
    "torch.sparse_csc": ("ccol_indices", "row_indices"),
}


def _signed(d: dtype) -> dtype:
    return dtypes.int64 if str(d) in ("torch.uint16", "torch.uint32", "torch.uint64") else d


# ---------------------------------------------------------------- what users call


def originate_pairs(
    actual: Any,
    expected: Any,
    *,
    pair_types: Sequence[type[Pair]],
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    id: tuple[Any, ...] = (),
    **options: Any,
) -> list[Pair]:
    """The pairs of two things, which sequences and mappings are taken apart into; of each the first kind that is for it."""
    more: dict[str, Any] = dict(pair_types=pair_types, sequence_types=sequence_types) | options
    more["mapping_types"] = mapping_types

    def inside(keys: Any) -> list[Pair]:
        return [
            pair
            for key in keys
            for pair in originate_pairs(actual[key], expected[key], id=(*id, key), **more)
        ]

    both = (actual, expected)
    if all([isinstance(one, sequence_types) and not isinstance(one, str) for one in both]):
        if len(actual) != len(expected):
            raise ErrorMeta(
                AssertionError,
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}",
                id=id,
            )
        return inside(range(len(actual)))
    if all([isinstance(one, mapping_types) for one in both]):
        a, b = set(actual.keys()), set(expected.keys())
        if a != b:
            raise ErrorMeta(
                AssertionError,
                f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {sorted(b - a)}\n"
                f"Additional keys in the actual mapping: {sorted(a - b)}",
                id=id,
            )
        keys: Any = a
        with contextlib.suppress(Exception):
            keys = sorted(a)
        return inside(keys)
    for kind in pair_types:
        try:
            return [kind(actual, expected, id=id, **options)]
        except UnsupportedInputs:
            continue
        except ErrorMeta:
            raise
        except Exception as error:
            raise RuntimeError(
                f"Originating a {kind.__name__}() at item {_item(id)} with\n\n{type(actual).__name__}(): {actual}\n\nand\n\n"
                f"{type(expected).__name__}(): {expected}\n\nresulted in the unexpected exception above. {_PLEASE}except the previous "
                "error and raise an expressive `ErrorMeta` instead."
            ) from error
    raise ErrorMeta(
        TypeError,
        f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.",
        id=id,
    )


def not_close_error_metas(
    actual: Any,
    expected: Any,
    *,
    pair_types: Sequence[type[Pair]] = (ObjectPair,),
    sequence_types: tuple[type, ...] = (Sequence,),
    mapping_types: tuple[type, ...] = (Mapping,),
    **options: Any,
) -> list[ErrorMeta]:
    """What is wrong with each pair that does not match."""
    try:
        pairs = originate_pairs(
            actual,
            expected,
            pair_types=pair_types,
            sequence_types=sequence_types,
            mapping_types=mapping_types,
            **options,
        )
    except ErrorMeta as error_meta:
        raise error_meta.to_error() from None
    wrong = []
    for pair in pairs:
        try:
            pair.compare()
        except ErrorMeta as error_meta:
            wrong.append(error_meta)
        except Exception as error:
            raise RuntimeError(
                f"Comparing\n\n{pair}\n\nresulted in the unexpected exception above. {_PLEASE}except the previous error and raise an "
                "expressive `ErrorMeta` instead."
            ) from error
    return wrong


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise AssertionError, with where and how far, unless each `|actual - expected| <= atol + rtol * |expected|`. Tensors, arrays and
    numbers are compared, also within sequences and mappings; of tensors also shape, dtype, device. The tolerances depend on the dtype
    unless both are given. `msg` are words for the error, or a function that makes them of ours.

    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0 + 1e-7]))
    >>> torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    Traceback (most recent call last):
    AssertionError: Tensor-likes are not close!
    <BLANKLINE>
    Mismatched elements: 1 / 2 (50.0%)
    Greatest absolute difference: 0.5 at index (1,) (up to 1e-05 allowed)
    Greatest relative difference: 0.20000000298023224 at index (1,) (up to 1.3e-06 allowed)
    """
    wrong = not_close_error_metas(
        actual,
        expected,
        pair_types=(NonePair, BooleanPair, NumberPair, TensorLikePair),
        allow_subclasses=allow_subclasses,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
        msg=msg,
    )
    if wrong:
        raise wrong[0].to_error(msg)


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: `assert_close`, which is stricter."""
    warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please use "
        "`torch.testing.assert_close()` instead. You can find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    a = actual if isinstance(actual, Tensor) else tensor(actual)
    b = expected if isinstance(expected, Tensor) else tensor(expected, dtype=a.dtype)
    if rtol is None and atol is None:
        looser = {dtypes.float16: (1e-3, 1e-3), dtypes.float32: (1e-4, 1e-5), dtypes.float64: (1e-5, 1e-8)}
        rtol, atol = default_tolerances(a, b, dtype_precisions=looser)
    assert_close(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)
