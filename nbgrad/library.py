"""Operators of the user's own, PyTorch's `torch.library`: a function with a schema, kernels by device, a gradient, a rule for `vmap`.

>>> from torch import Tensor
>>> @torch.library.custom_op("doc::twice", mutates_args=())
... def twice(x: Tensor) -> Tensor:
...     return torch.from_numpy(2 * x.numpy())
>>> twice.register_autograd(lambda ctx, g: 2 * g)
>>> x = torch.ones(2, requires_grad=True)
>>> torch.ops.doc.twice(x).sum().backward()
>>> x.grad
tensor([2., 2.])
"""

from __future__ import annotations

import collections.abc
import contextlib
import inspect
import sys
import typing
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import GenericAlias, UnionType
from typing import Any, NoReturn
from warnings import warn

from nbgrad._ops import FunctionSchema, OpOverload, find, space, tensors_in
from nbgrad.core.pytree import tree_map
from nbgrad.core.tensor import Tensor
from nbgrad.memory.device import device as _device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.ops import refused
from nbgrad.ops.host.values import equal

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]

# ---------------------------------------------------------------- schemas from annotations


def _derived(kind: Any, text: str, lists: bool, of_optional: bool, optional_lists: bool) -> dict[Any, str]:
    def sequences(inner: Any) -> tuple[Any, ...]:
        return (
            typing.Sequence[inner],
            typing.List[inner],  # noqa: UP006
            GenericAlias(collections.abc.Sequence, (inner,)),
            GenericAlias(list, (inner,)),
        )

    optional = typing.Optional[kind]  # noqa: UP045
    found = {kind: text, optional: f"{text}?"}
    if lists:
        found |= dict.fromkeys(sequences(kind), f"{text}[]")
    if of_optional:
        found |= dict.fromkeys(sequences(optional), f"{text}?[]")
    if optional_lists:
        found |= {typing.Optional[one]: f"{text}[]?" for one in sequences(kind)}  # noqa: UP045
    return found


_Number = int | float | bool
_KINDS: dict[Any, str] = {
    **_derived(Tensor, "Tensor", True, True, False),
    **_derived(int, "SymInt", True, False, True),
    **_derived(float, "float", True, False, True),
    **_derived(bool, "bool", True, False, True),
    **_derived(str, "str", False, False, False),
    **_derived(typing.Union[int, float, bool], "Scalar", True, False, False),  # noqa: UP007
    **_derived(_dtype, "ScalarType", False, False, False),
    **_derived(_device, "Device", False, False, False),
}
_RESULTS: dict[Any, str] = {
    Tensor: "Tensor",
    typing.List[Tensor]: "Tensor[]",  # noqa: UP006
    list[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    _Number: "Scalar",
}


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: Any,
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The schema that a function's annotations say; `mutates_args` names the arguments that it writes to, or is "unknown".

    >>> def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor: ...
    >>> torch.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float factor=2.0) -> Tensor'
    """
    shape = inspect.signature(prototype_function)

    def refuse(what: str) -> NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {shape})")

    def read(annotation: Any) -> Any:
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, prototype_function.__globals__)
            except Exception as error:
                refuse(
                    f"Unsupported type annotation {annotation}. It is not a type. ({type(error).__name__}: {error})"
                )
        if isinstance(annotation, UnionType):
            return typing.Union.__getitem__(typing.get_args(annotation))
        return annotation

    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError(
            "mutates_args must either be a sequence of the names of the arguments that are mutated or the string 'unknown'. "
        )
    shown: list[str] = []
    for k, (name, param) in enumerate(shape.parameters.items()):
        if param.kind not in (param.POSITIONAL_OR_KEYWORD, param.KEYWORD_ONLY):
            refuse("We do not support positional-only args, varargs, or varkwargs.")
        if param.kind is param.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        if param.annotation is param.empty:
            refuse(f"Parameter {name} must have a type annotation.")
        annotation = read(param.annotation)
        try:
            kind = _KINDS.get(annotation)
        except TypeError:
            kind = None
        if kind is None:
            instead = ""
            if typing.get_origin(annotation) is tuple:
                kinds = {*typing.get_args(annotation)}
                example = f"For example, list[{kinds.pop().__name__}].  " if len(kinds) == 1 else ""
                instead = f"We do not support Tuple inputs in schema. As a workaround, please try to use List instead. {example}"
            refuse(
                f"Parameter {name} has unsupported type {param.annotation}. {instead}The valid types are: {_KINDS.keys()}."
            )
        unknown = mutates_args == "unknown" and kind.startswith("Tensor")
        if unknown or (mutates_args != "unknown" and name in mutates_args):
            if not kind.startswith("Tensor"):
                refuse(
                    f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated"
                )
            kind = f"Tensor(a{k}!){kind.removeprefix('Tensor')}"
        shown.append(
            f"{kind} {name}" if param.default is param.empty else f"{kind} {name}={_default(param, refuse)}"
        )
    if mutates_args != "unknown":
        strange = set(mutates_args) - set(shape.parameters)
        if strange:
            refuse(
                f"{strange} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of all "
                "args that the custom op mutates, or just the string 'unknown' if you don't know."
            )
    return f"{op_name or ''}({', '.join(shown)}) -> {_result(read(shape.return_annotation), refuse)}"


def _default(param: inspect.Parameter, refuse: Callable[[str], NoReturn]) -> str:
    value = param.default
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, (str, _device)):
        return f'"{value}"'
    if isinstance(value, _dtype):
        return str(value).removeprefix("torch.")
    refuse(
        f"Parameter {param.name} has an unsupported default value type {type(value)}. Please file an issue on GitHub so we can prioritize "
        "this."
    )


def _result(annotation: Any, refuse: Callable[[str], NoReturn]) -> str:
    if annotation is None:
        return "()"
    if annotation is inspect.Parameter.empty:
        refuse("No return type annotation was provided. Please add one.")
    parts = typing.get_args(annotation) if typing.get_origin(annotation) is tuple else (annotation,)
    if any([part not in _RESULTS for part in parts]):
        refuse(f"Return has unsupported type {annotation}. The valid types are: {_RESULTS}.")
    if typing.get_origin(annotation) is not tuple:
        return _RESULTS[annotation]
    text = ", ".join([_RESULTS[part] for part in parts])
    return f"(({text}))" if len(parts) == 1 else f"({text})"


# ---------------------------------------------------------------- operators as functions


def _split(qualname: str) -> tuple[str, str]:
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(
            f"Expected `qualname` to be of the form 'namespace::name', but got {qualname}. The qualname passed to the torch.library APIs "
            "must consist of a namespace and a name, e.g. aten::sin"
        )
    return parts[0], parts[1]


def _new(qualname: str, schema: str) -> OpOverload:
    namespace, name = _split(qualname)
    name, _, overload = name.partition(".")
    packet = space(namespace).packet(name)
    if (overload or "default") in packet.overloads():
        raise RuntimeError(
            f"Tried to register an operator ({namespace}::{name}{schema}) with the same name and overload name multiple times."
        )
    return packet.add(FunctionSchema(f"{qualname}{schema}"))


def _kinds(device_types: Any) -> list[str]:
    return [device_types] if isinstance(device_types, str) else list(device_types)


class CustomOpDef:
    """What `custom_op` makes of a function: it is called as the function is, and takes what else there is to the operator."""

    def __init__(self, op: OpOverload, fn: Callable[..., Any]) -> None:
        self._op, self._init_fn = op, fn
        self._namespace, self._name, self._qualname = op.namespace, op._opname, op._schema.name
        self._opoverload = op

        def lacking(kind: str) -> Exception:
            if kind == "meta":
                return RuntimeError(
                    f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx tracing to work. "
                    f"Please use `{fn.__name__}.register_fake` to add an fake impl."
                )
            return RuntimeError(
                f"{self._name} does not have a kernel registered for {kind}. Please use the register_kernel decorator to add one."
            )

        op.fresh, op.lacking = not op._schema.is_mutable, lacking

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Any:
        """Run this function for tensors on these kinds of devices; None means all that have none of their own."""

        def put(fn: Callable[..., Any]) -> Callable[..., Any]:
            for kind in [""] if device_types is None else _kinds(device_types):
                self._op.kernels[_key(kind)] = fn
            return fn

        return put if fn is None else put(fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """What the operator gives of tensors without memory (`device="meta"`)."""
        self._op.kernels["Meta"] = fn
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """The gradient: `backward(ctx, *grads)` gives one for each argument (None for what has none), `setup_context(ctx, inputs,
        output)` saves what it reads."""
        schema = self._op._schema
        if schema.is_mutable:
            raise RuntimeError(
                f"Cannot register autograd formula for non-functional operator {self} with schema {schema}. Please create a functional "
                "operator and register an autograd formula for that."
            )
        self._op.backward = backward, setup_context

    def register_vmap(self, func: Callable[..., Any] | None = None) -> Any:
        """The rule for `vmap`: `func(info, in_dims, *args)` gives the result and where its examples lie."""

        def put(func: Callable[..., Any]) -> Callable[..., Any]:
            self._op.vmap = func
            return func

        return put if func is None else put(func)

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Any = None, /) -> Any:
        """What answers a call of the operator in the place of a class's or a mode's `__torch_dispatch__`: `fn(mode or class, func, types,
        args, kwargs)`."""
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Within it, what was registered for a kind of device is used, or not."""
        before = set(self._op.disabled)
        (self._op.disabled.discard if enabled else self._op.disabled.add)(device_type)
        try:
            yield
        finally:
            self._op.disabled = before


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: Any,
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function with annotations an operator, `torch.ops.namespace.name`. It may do anything with the tensors that it gets, such as
    hand their arrays to NumPy; what it writes to must be named in `mutates_args`, and its results must be new.

    >>> @torch.library.custom_op("doc::root", mutates_args=())
    ... def root(x: torch.Tensor) -> torch.Tensor:
    ...     return torch.from_numpy(x.numpy() ** 0.5)
    >>> root(torch.tensor([4.0]))
    tensor([2.])
    """

    def make(fn: Callable[..., Any]) -> CustomOpDef:
        text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
        namespace, bare = _split(name)
        if bare in space(namespace)._packets:
            space(namespace)._packets.pop(bare)  # PyTorch lets the newest stand
        op = _new(name, text)
        made = CustomOpDef(op, fn)
        made.register_kernel(device_types, fn)
        return made

    return make if fn is None else make(fn)


def triton_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: Any, schema: str | None = None
) -> Any:
    """An operator that is made of kernels of Triton's, for libraries that have such beside plain ones: a `custom_op` for every device,
    since a kernel of Triton's is launched by its own library.

    >>> @torch.library.triton_op("doc::halved", mutates_args=())
    ... def halved(x: torch.Tensor) -> torch.Tensor:
    ...     return x / 2
    >>> torch.ops.doc.halved(torch.ones(2))
    tensor([0.5000, 0.5000])
    """
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(triton_kernel: Callable[..., Any], /) -> Any:
    """A kernel of Triton's within a `triton_op`: itself, as nothing here looks into it.

    >>> torch.library.wrap_triton(len)
    Traceback (most recent call last):
    RuntimeError: wrap_triton only works on functions annotated with triton.jit or triton.autotune
    """
    if not type(triton_kernel).__module__.startswith("triton."):
        raise RuntimeError("wrap_triton only works on functions annotated with triton.jit or triton.autotune")
    return triton_kernel


# ---------------------------------------------------------------- operators by name

_DEVICES = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "default": "", "": ""}


def _key(kind: str) -> str:
    """What a kernel is kept under: PyTorch's name of a kind of call, or of a device."""
    return _DEVICES.get(kind, kind) if kind != "CompositeExplicitAutograd" else ""


class Library:
    """Operators of a namespace, defined (`kind` "DEF") or given kernels ("IMPL", "FRAGMENT"), for calls of `dispatch_key`.

    >>> lib = torch.library.Library("doclib", "DEF")
    >>> lib.define("plus(Tensor x, Tensor y) -> Tensor")
    'plus'
    >>> lib.impl("plus", lambda x, y: x + y, "CompositeImplicitAutograd")
    >>> torch.ops.doclib.plus(torch.ones(1), torch.ones(1))
    tensor([2.])
    """

    # By namespace: the library that was made by "DEF", of which there is one, and where that was.
    _defining: typing.ClassVar[weakref.WeakValueDictionary[str, Library]] = weakref.WeakValueDictionary()

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in ("prim", "prims") and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                f"{ns} is a reserved namespace. Please try creating a library with another name."
            )
        frame = sys._getframe(1)
        self._place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        before = self._defining.get(ns) if kind == "DEF" else None
        if before is not None:
            raise RuntimeError(
                f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your definitions in a single "
                "TORCH_LIBRARY block.  If you were trying to specify implementations, consider using TORCH_LIBRARY_IMPL (which can be "
                "duplicated).  If you really intended to define operators for a single namespace in a distributed way, you can use "
                "TORCH_LIBRARY_FRAGMENT to explicitly indicate this.  Previous registration of TORCH_LIBRARY was registered at "
                f"{before._place}; latest registration was registered at {self._place}"
            )
        if kind == "DEF":
            self._defining[ns] = self
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._ops: list[tuple[str, str]] = []

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator by its schema, and return its name."""
        name, _, rest = schema.partition("(")
        _new(f"{self.ns}::{name.strip()}", f"({rest}")
        self._ops.append((self.ns, name.strip()))
        return name.strip()

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Give an operator a kernel for calls of this key, or of the library's."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("nbgrad has no sets of dispatch keys to hand to a kernel")
        op = (
            find(f"{self.ns}::{op_name}")
            if isinstance(op_name, str) and "::" not in op_name
            else find(op_name)
        )
        key = _key(dispatch_key or self.dispatch_key) or "CompositeImplicitAutograd"
        if key in op.kernels and not allow_override:
            raise RuntimeError(
                f"This is not allowed since there's already a kernel registered from python overriding {op._opname}'s behavior for "
                f"{key} dispatch key and {self.ns} namespace."
            )
        op.kernels[key] = fn

    def _destroy(self) -> None:
        for ns, name in self._ops:
            bare, _, overload = name.partition(".")
            packets = space(ns)._packets
            if bare in packets:
                packets[bare]._found.pop(overload or "default", None)
                if not packets[bare]._found:
                    packets.pop(bare)
        self._ops.clear()
        if self._defining.get(self.ns) is self:
            del self._defining[self.ns]


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    library = Library(*args, **kwargs)
    try:
        yield library
    finally:
        library._destroy()


def define(
    qualname: Any, schema: Any = None, /, *args: Any, lib: Library | None = None, tags: Any = ()
) -> Any:
    """Define an operator by name and schema.

    >>> torch.library.define("doc::minus", "(Tensor x, Tensor y) -> Tensor")
    >>> @torch.library.impl("doc::minus", "default")
    ... def minus(x, y): return x - y
    >>> torch.ops.doc.minus(torch.ones(1), torch.ones(1))
    tensor([0.])
    """
    if isinstance(qualname, Library):  # the old form, which decorates a kernel

        def put(fn: Callable[..., Any]) -> Callable[..., Any]:
            name = qualname.define(schema, *args)
            qualname.impl(name, fn)
            return fn

        return put
    if not isinstance(qualname, str):
        raise ValueError(
            f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}"
        )
    _split(qualname)
    if not isinstance(schema, str) or not schema.lstrip().startswith("("):
        raise ValueError(
            f'define(qualname, schema, ...): expected schema to look like e.g. "(Tensor x) -> Tensor" but got "{schema}"'
        )
    _new(qualname, schema)
    return None


def impl(
    qualname: Any, types: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None
) -> Any:
    """Give an operator a kernel for these kinds of devices, "default" for all."""
    if isinstance(qualname, Library):
        library, name = qualname, types

        def put_in(fn: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, fn, func if isinstance(func, str) else "")
            return fn

        return put_in

    def put(fn: Callable[..., Any]) -> Callable[..., Any]:
        op = find(qualname)
        for kind in _kinds(types):
            key = _key(kind)
            if key in op.kernels:
                raise RuntimeError(
                    f"This is not allowed since there's already a kernel registered from python overriding {op._opname}'s behavior for "
                    f"{key or 'CompositeExplicitAutograd'} dispatch key and {op.namespace} namespace."
                )
            op.kernels[key] = fn
        return fn

    return put if func is None else put(func)


def _definition(op: Any) -> OpOverload:
    return op._op if isinstance(op, CustomOpDef) else find(op)


def register_kernel(
    op: Any, device_types: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None
) -> Any:
    """Give an operator of `custom_op` a kernel for these kinds of devices."""

    def put(fn: Callable[..., Any]) -> Callable[..., Any]:
        found = _definition(op)
        for kind in [""] if device_types is None else _kinds(device_types):
            found.kernels[_key(kind)] = fn
        return fn

    return put if func is None else put(func)


def register_fake(
    op: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """What an operator gives of tensors without memory. Of one that a library of C++ would have brought, which was refused, it is
    passed over, as libraries say this of all their operators, loaded or not."""

    def put(fn: Callable[..., Any]) -> Callable[..., Any]:
        try:
            _definition(op).kernels["Meta"] = fn
        except RuntimeError:
            if not refused:
                raise
        return fn

    return put if func is None else put(func)


def impl_abstract(
    qualname: Any, func: Callable[..., Any] | None = None, *, lib: Library | None = None, _stacklevel: int = 1
) -> Any:
    """Deprecated: `register_fake`."""
    warn(
        "`torch.library.impl_abstract` was renamed to `torch.library.register_fake`. Please use that instead; we will remove "
        "`torch.library.impl_abstract` in a future version of PyTorch.",
        FutureWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)


def register_autograd(
    op: Any,
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """The gradient of an operator, as `CustomOpDef.register_autograd` takes it."""
    found = _definition(op)
    if found._schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {found} with schema {found._schema}. Please create a functional "
            "operator and register an autograd formula for that."
        )
    found.backward = backward, setup_context


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Library | None = None) -> Any:
    """The rule of an operator for `vmap`."""

    def put(fn: Callable[..., Any]) -> Callable[..., Any]:
        _definition(op).vmap = fn
        return fn

    return put if func is None else put(func)


def register_torch_dispatch(
    op: Any,
    torch_dispatch_class: Any,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """What answers a call of an operator in the place of the `__torch_dispatch__` of a class or a mode, as
    `CustomOpDef.register_torch_dispatch` takes it."""

    def put(fn: Callable[..., Any]) -> Callable[..., Any]:
        found = _definition(op)
        if torch_dispatch_class in found.dispatchers:
            raise RuntimeError(
                f"{torch_dispatch_class} already has a `__torch_dispatch__` implementation for {found}"
            )
        found.dispatchers[torch_dispatch_class] = fn
        return fn

    return put if func is None else put(func)


def fallthrough_kernel(*args: Any, **kwargs: Any) -> NoReturn:
    """Stands for no kernel."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def get_ctx() -> NoReturn:
    """Refused: there are no sizes that depend on data in what a fake kernel gives."""
    raise NotImplementedError(
        "nbgrad has no torch.library.get_ctx: a fake kernel gives tensors of sizes that are known"
    )


# ---------------------------------------------------------------- checks

_TESTS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


class OpCheckError(Exception):
    """What `opcheck` found."""


def opcheck(
    op: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = _TESTS,
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Whether an operator is what it says, tried on these arguments: that it writes to what its schema says alone and gives new tensors
    (`test_schema`), has a gradient where one is wanted (`test_autograd_registration`), gives of tensors without memory what it gives
    of others (`test_faketensor`), and gradients of the arguments' shapes (`test_aot_dispatch_dynamic`).

    >>> @torch.library.custom_op("doc::same", mutates_args=())
    ... def same(x: torch.Tensor) -> torch.Tensor:
    ...     return x.clone()
    >>> torch.library.opcheck(same, (torch.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    found, named = _definition(op), kwargs or {}
    told: dict[str, Any] = {}
    for test in [test_utils] if isinstance(test_utils, str) else test_utils:
        if test not in _TESTS:
            raise RuntimeError(
                f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be subset of {_TESTS} but it was not"
            )
        fresh = tree_map(_copied, (args, named))
        try:
            globals()[f"_{test}"](found, *fresh)
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {test} failed with {error} (scroll up for stack trace)"
                ) from error
            told[test] = error
            continue
        told[test] = "SUCCESS"
    return told


def _copied(t: Any) -> Any:
    return t.detach().clone().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t


def _without_memory(t: Any) -> Any:
    return t.detach().to("meta") if isinstance(t, Tensor) else t


def _test_schema(op: OpOverload, args: Any, kwargs: Any) -> None:
    values = op._schema.bound(args, kwargs)
    before = {name: [t.detach().clone() for t in tensors_in([v])] for name, v in values.items()}
    op(*args, **kwargs)
    for argument in op._schema.arguments:
        name = argument.name
        wrote = any([not equal(a, b.detach()) for a, b in zip(before[name], tensors_in([values[name]]))])
        if wrote and not argument.is_write:
            raise RuntimeError(
                f"{op.name()}: for argument '{name}': the operator's schema {op._schema} specified that the operator does not mutate "
                "the argument, but this seems to be empirically wrong."
            )


def _test_autograd_registration(op: OpOverload, args: Any, kwargs: Any) -> None:
    wants = any([t.requires_grad for t in tensors_in([*args, *kwargs.values()])])
    if wants and op.backward is None and not {"Autograd", "CompositeImplicitAutograd"} & op.kernels.keys():
        raise AssertionError(
            f"{op} has no autograd formula, but an argument requires grad: register one by torch.library.register_autograd"
        )


def _test_faketensor(op: OpOverload, args: Any, kwargs: Any) -> None:
    real = op(*args, **kwargs)
    fake_args, fake_kwargs = tree_map(_without_memory, (args, kwargs))
    fake = op(*fake_args, **fake_kwargs)
    pair = [list(tensors_in([r] if not isinstance(r, tuple) else r)) for r in (real, fake)]
    if len(pair[0]) != len(pair[1]):
        raise AssertionError(f"the fake kernel gives {len(pair[1])} tensors, the operator {len(pair[0])}")
    for a, b in zip(*pair):
        for name in ("shape", "dtype"):
            if getattr(a, name) != getattr(b, name):
                raise AssertionError(
                    f"the fake kernel gives {name} {getattr(b, name)}, the operator {getattr(a, name)}"
                )


def _test_aot_dispatch_dynamic(op: OpOverload, args: Any, kwargs: Any) -> None:
    wants = [t for t in tensors_in([*args, *kwargs.values()]) if t.requires_grad]
    result = op(*args, **kwargs)
    roots = [t for t in tensors_in(result if isinstance(result, tuple) else (result,)) if t.requires_grad]
    if wants and roots:
        sum([t.sum() for t in roots]).backward()  # type: ignore[union-attr]
        for t in wants:
            if t.grad is not None and t.grad.shape != t.shape:
                raise AssertionError(f"a gradient has the shape {t.grad.shape}, its argument {t.shape}")
