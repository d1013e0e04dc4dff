"""What scripting and tracing make of a module: one with its parameters, which runs the code of its class as it is.

The class is made of the module's own, so that all its methods are there, and says of itself what PyTorch's scripted modules say. The
parameters are those of the module that was given; what else it holds by name is its own, as training or not.
"""

from __future__ import annotations

import copy
import dis
import io
import os
import traceback
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO, Final, NoReturn, cast

from nbgrad.base.ours import is_ours
from nbgrad.base.tables import cached
from nbgrad.exchange import files
from nbgrad.names.absent import NotBuiltError, function
from nbgrad.names.finder import torchs
from nbgrad.nn.modules.module import Module
from nbgrad.nn.parameter import Parameter, is_lazy
from nbgrad.overrides import _assert

_EXTRA: Final = "/extra/"  # where PyTorch's archives have what `_extra_files` names
Path = str | os.PathLike[str]


_COMPILED: Final = ("code", "code_with_constants", "graph", "inlined_graph")


class ScriptModule(Module):
    """A module that was scripted or traced, or one whose class says so; its `forward` is Python's.

    >>> isinstance(torch.jit.script(torch.nn.Tanh()), torch.jit.ScriptModule)
    True
    """

    __module__ = "torch.jit._script"

    def __getattr__(self, name: str) -> Any:
        if name in _COMPILED:
            function(f"torch.jit.ScriptModule.{name}", attribute=True)()
        return super().__getattr__(name)

    def save(self, f: Path, _extra_files: dict[str, Any] | None = None) -> None:
        """Write the module to a file, which `torch.jit.load` reads: its classes by name, so that they must be found where it is read.

        >>> import tempfile, os
        >>> file = os.path.join(tempfile.mkdtemp(), "tanh.pt")
        >>> torch.jit.script(torch.nn.Tanh()).save(file)
        >>> torch.jit.load(file)(torch.zeros(1))
        tensor([0.])
        """
        with files.replacing(f) as file:
            file.write(self.save_to_buffer(_extra_files))

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """The bytes of such a file.

        >>> len(torch.jit.script(torch.nn.Tanh()).save_to_buffer()) > 0
        True
        """
        file = io.BytesIO()
        files.save(_Plain(self), file)
        with zipfile.ZipFile(file, "a") as archive:
            for name, data in (_extra_files or {}).items():
                archive.writestr(f"archive{_EXTRA}{name}", data)
        return file.getvalue()


class Error(Exception):
    """What a scripted module's own `raise` and `assert` end in, whatever they raise.

    >>> class Never(nn.Module):
    ...     def forward(self, x):
    ...         raise ValueError("no")
    >>> try:
    ...     torch.jit.script(Never())(torch.ones(1))
    ... except torch.jit.Error as error:
    ...     str(error).splitlines()[-1]
    'builtins.ValueError: no'
    """

    __module__ = "torch.jit"


_RAISES: Final = dis.opmap["RAISE_VARARGS"]
_ASSERTS: Final = _assert.__code__
_INTERPRETER: Final = "The following operation failed in the TorchScript interpreter.\nTraceback of TorchScript (most recent call last):\n"


def _raised(error: Exception) -> str | None:
    """What PyTorch says where a user's code raised the error itself, as its own text tells."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None and trace.tb_next.tb_frame.f_code is not _ASSERTS:
        trace = trace.tb_next
    if trace is None or isinstance(error, Error) or is_ours(trace.tb_frame.f_globals.get("__name__")):
        return None
    if trace.tb_next is None and trace.tb_frame.f_code.co_code[trace.tb_lasti] != _RAISES:
        return None
    kind = type(error)
    name = (
        "RuntimeError: AssertionError" if kind is AssertionError else f"{kind.__module__}.{kind.__qualname__}"
    )
    told = str(error.args[0]) if error.args else ""
    return f"{_INTERPRETER}{_where(error)}{name}: {told}\n"


def _where(error: Exception) -> str:
    return "".join(traceback.format_tb(error.__traceback__.tb_next if error.__traceback__ else None))


class RecursiveScriptModule(ScriptModule):
    """What `torch.jit.script` makes of a module."""

    _class: type[Module]
    __module__ = "torch.jit._script"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if (told := _raised(error)) is not None:
                raise Error(told) from error
            if isinstance(error, (Error, RuntimeError)):
                raise
            said = f"KeyError: {error.args[0]}" if isinstance(error, KeyError) else error
            raise RuntimeError(f"{_INTERPRETER}{_where(error)}RuntimeError: {said}\n") from error

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return self._class.__name__

    __repr__ = Module.__repr__

    def extra_repr(self) -> str:
        return f"original_name={self.original_name}"

    def __copy__(self) -> Any:
        return _of(type(self), vars(self))

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = object.__new__(type(self))
        vars(made).update(copy.deepcopy(vars(self), memo))
        return made

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        where = self._class.__module__
        whole = f"__torch__.{'' if where == '__main__' else torchs(where) + '.'}{self.original_name}"
        raise RuntimeError(
            f"Tried to serialize object {whole} which does not have a __getstate__ method defined!"
        )


class TracedModule(RecursiveScriptModule):
    """What `torch.jit.trace` makes of the modules within one, which go by their own names."""

    __module__ = "torch.jit._trace"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Asked for here: this class may come into being while `fx` traces, which has put something else there.
        return Module.__call__(self, *args, **kwargs)

    def _get_name(self) -> str:
        return self.original_name


class TopLevelTracedModule(TracedModule):
    """What `torch.jit.trace` makes of a module."""

    __module__ = "torch.jit._trace"


@cached(None)
def _class(kind: type[RecursiveScriptModule], of: type[Module]) -> type[Any]:
    name = of.__name__ if kind is TracedModule else kind.__name__
    body = {"_class": of, "__module__": kind.__module__, "__doc__": of.__doc__}
    return cast(Any, type(kind))(name, (kind, of), body)


def _of(kind: type[Any], held: dict[str, Any]) -> Any:
    """A module of a class with the attributes of another: what it keeps for itself, by name, are dictionaries of its own."""
    made = object.__new__(kind)
    for name, value in held.items():
        own = name[0] == "_" and isinstance(value, (dict, set))
        vars(made)[name] = copy.copy(value) if own else value
    return made


def _each(module: Module, known: dict[int, Any], make: Callable[[Module], Any]) -> Any:
    """A tree of modules with each made into another, once."""
    found = known.get(id(module))
    if found is None:
        found = known[id(module)] = make(module)
        inside = vars(found).get("_modules", {})
        for name, child in inside.items():
            if isinstance(child, Module):
                inside[name] = _each(child, known, make)
    return found


def scripted(
    module: Module, top: type[Any] = RecursiveScriptModule, inner: type[Any] = RecursiveScriptModule
) -> Any:
    """The module as scripted or traced."""
    for each in module.modules():
        for name, held in [*each._parameters.items(), *each._buffers.items()]:
            if is_lazy(held):
                raise RuntimeError(
                    f"'{torchs(type(each).__module__)}.{type(each).__name__}' has uninitialized parameters {name}. Did you forget to run "
                    "a forward pass?"
                )

    def make(m: Module) -> Any:
        kind = top if m is module else inner
        return _of(type(m), vars(m)) if isinstance(m, ScriptModule) else _of(_class(kind, type(m)), vars(m))

    return _each(module, {}, make)


def shared(module: Module) -> Any:
    """The module again, with the same parameters and what it holds by name now."""
    return _each(module, {}, lambda m: _of(type(m), vars(m)))


def frozen(module: ScriptModule) -> Any:
    """The module with parameters that want no gradient."""

    def make(m: Module) -> Any:
        made = _of(type(m), vars(m))
        for name, held in made._parameters.items():
            if held is not None:
                made._parameters[name] = Parameter(held.detach(), requires_grad=False)
        return made

    return _each(module, {}, make)


class _Plain:
    """The module that was scripted, on its way into a file; whoever reads the file gets the scripted one."""

    def __init__(self, module: Module) -> None:
        def make(m: Module) -> Any:
            return _of(m._class if isinstance(m, RecursiveScriptModule) else type(m), vars(m))

        self.module = _each(module, {}, make)

    def __reduce__(self) -> Any:
        return scripted, (self.module,)


def save(m: Any, f: Path | BinaryIO, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a scripted or traced module to a file, its classes by name; `_extra_files` holds further texts by their names.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.script(torch.nn.Linear(2, 1)), file)
    >>> start = file.seek(0)
    >>> torch.jit.load(file).original_name
    'Linear'
    """
    if isinstance(f, (str, os.PathLike)):
        m.save(f, _extra_files=_extra_files)
    else:
        f.write(m.save_to_buffer(_extra_files=_extra_files))


def load(
    f: Path | BinaryIO,
    map_location: Any = None,
    _extra_files: dict[str, Any] | None = None,
    _restore_shapes: bool = False,
) -> Any:
    """A module that `torch.jit.save` wrote: only of files that you trust, as code may run. The names in `_extra_files` get what the file
    has for them.

    >>> import io
    >>> file = io.BytesIO(torch.jit.script(torch.nn.Tanh()).save_to_buffer({"note": b"of one layer"}))
    >>> notes = {"note": ""}
    >>> torch.jit.load(file, _extra_files=notes), notes
    (RecursiveScriptModule(original_name=Tanh), {'note': b'of one layer'})
    """
    if isinstance(f, (str, os.PathLike)):
        if not os.path.exists(f):
            raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
        with open(f, "rb") as opened:
            data = io.BytesIO(opened.read())
    else:
        data = io.BytesIO(f.read())
    with zipfile.ZipFile(data) as archive:
        names = archive.namelist()
        if any(name.endswith("/constants.pkl") for name in names):
            raise NotBuiltError(
                "nbgrad reads no archive of PyTorch's scripts: load the module's state_dict, saved with torch.save, into a module of the "
                "same class"
            )
        for name in names:
            _, extra, wanted = name.partition(_EXTRA)
            if extra and _extra_files is not None and wanted in _extra_files:
                _extra_files[wanted] = archive.read(name)
    data.seek(0)
    return files.load(data, map_location, weights_only=False)
