"""PyTorch's `torch.export`, where a program is its module, called with arguments of the sizes that it was exported with.

The module runs the Python code of its class, and decides by values anew; the graph, made when it is asked for, has PyTorch's operators as
they come below gradients (`make_fx`).
"""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, BinaryIO, ClassVar

from nbgrad.core.tensor import Tensor
from nbgrad.exchange import files
from nbgrad.fx.experimental.proxy_tensor import make_fx
from nbgrad.fx.graph import Graph
from nbgrad.fx.graph_module import GraphModule
from nbgrad.jit._script import shared
from nbgrad.nn.modules.module import Module

Path = str | os.PathLike[str]


class _DimHint(Enum):
    AUTO, DYNAMIC, STATIC = "AUTO", "DYNAMIC", "STATIC"

    def __repr__(self) -> str:
        return f"DimHint({self.value})"

    __str__ = __repr__


class Dim:
    """A size that may be another one at each call, from `min` to `max`.

    >>> torch.export.Dim("batch", max=8)
    Dim('batch', min=0, max=8)
    """

    AUTO: ClassVar[_DimHint] = _DimHint.AUTO
    DYNAMIC: ClassVar[_DimHint] = _DimHint.DYNAMIC
    STATIC: ClassVar[_DimHint] = _DimHint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if min is not None and max is not None and max <= min:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, min or 0, max

    def __repr__(self) -> str:
        low = [] if self.min == 2 else [f"min={self.min}"]
        high = [] if self.max is None else [f"max={self.max}"]
        return f"Dim({', '.join([repr(self.__name__), *low, *high])})"


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several of these.

    >>> torch.export.dims("rows", "columns")
    (Dim('rows', min=0), Dim('columns', min=0))
    """
    return tuple([Dim(name, min=min, max=max) for name in names])


def _free(spec: Any, ndim: int) -> dict[int, Any]:
    """Which dimensions may have other sizes, each with what says so."""
    if isinstance(spec, Mapping):
        told = {d % ndim: how for d, how in spec.items()}
    elif isinstance(spec, (tuple, list)):
        told = dict(enumerate(spec))
    else:
        told = {}
    return {
        d: how for d, how in told.items() if not (how is None or how is Dim.STATIC or isinstance(how, int))
    }


class ExportedProgram:
    """A module with the sizes of the arguments that it takes.

    >>> program = torch.export.export(torch.nn.Linear(3, 1), (torch.ones(2, 3),))
    >>> program.module()(torch.ones(2, 3)).shape, list(program.state_dict)
    (torch.Size([2, 1]), ['weight', 'bias'])
    """

    __module__ = "torch.export.exported_program"

    def __init__(self, mod: Module, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any) -> None:
        self._module, self.example_inputs, self._shapes = shared(mod), (args, kwargs), shapes
        self._signature = inspect.signature(mod.forward)
        self._given = self._signature.bind(*args, **kwargs).arguments
        self._graph_module: GraphModule | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards: bool = True) -> Module:
        """A module that computes the program.

        >>> program = torch.export.export(torch.nn.Tanh(), (torch.ones(2),))
        >>> program.module()(torch.zeros(2))
        tensor([0., 0.])
        """
        return _Program(self, check_guards)

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by name.

        >>> program = torch.export.export(torch.nn.BatchNorm1d(1).eval(), (torch.ones(2, 1),))
        >>> len(program.state_dict)
        5
        """
        kept = self._module.state_dict()
        return {
            name: kept[name] for name, _ in [*self.named_parameters(), *self.named_buffers()] if name in kept
        }

    def parameters(self) -> Iterator[Any]:
        """The module's parameters.

        >>> program = torch.export.export(torch.nn.BatchNorm1d(1).eval(), (torch.ones(2, 1),))
        >>> len(list(program.parameters()))
        2
        """
        return self._module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """The module's parameters, with their names.

        >>> program = torch.export.export(torch.nn.BatchNorm1d(1).eval(), (torch.ones(2, 1),))
        >>> [name for name, _ in program.named_parameters()]
        ['weight', 'bias']
        """
        return self._module.named_parameters()

    def buffers(self) -> Iterator[Any]:
        """The module's buffers.

        >>> program = torch.export.export(torch.nn.BatchNorm1d(1).eval(), (torch.ones(2, 1),))
        >>> len(list(program.buffers()))
        3
        """
        return self._module.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """The module's buffers, with their names.

        >>> program = torch.export.export(torch.nn.BatchNorm1d(1).eval(), (torch.ones(2, 1),))
        >>> [name for name, _ in program.named_buffers()][:1]
        ['running_mean']
        """
        return self._module.named_buffers()

    @property
    def graph_module(self) -> GraphModule:
        """What operators the module comes to on the example arguments.

        >>> program = torch.export.export(torch.nn.Tanh(), (torch.ones(2),))
        >>> program.graph_module(torch.zeros(2))
        tensor([0., 0.])
        """
        if self._graph_module is None:
            args, kwargs = self.example_inputs
            mod = copy.deepcopy(self._module)  # which the call may change
            self._graph_module = make_fx(lambda *given: mod(*given, **kwargs))(*args)
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph of these.

        >>> program = torch.export.export(torch.nn.Tanh(), (torch.ones(2),))
        >>> [str(node.target) for node in program.graph.nodes][1:]
        ['aten.tanh.default', 'output']
        """
        return self.graph_module.graph

    def run_decompositions(self, decomp_table: Any = None, decompose_custom_triton_ops: bool = False) -> Any:
        """The program itself, whose operators are as they come.

        >>> program = torch.export.export(torch.nn.Tanh(), (torch.ones(2),))
        >>> program.run_decompositions() is program
        True
        """
        return self

    def _check(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Refuse arguments that are not those of the program."""
        given = self._signature.bind(*args, **kwargs).arguments
        if set(given) != set(self._given):
            raise ValueError(f"The program takes the arguments {list(self._given)}, but got {list(given)}")
        names = list(self._given)
        for name, example in self._given.items():
            value, at = given[name], names.index(name)
            if isinstance(example, Tensor):
                spec = self._shapes
                if isinstance(spec, Mapping):
                    spec = spec.get(name)
                elif spec is not None:
                    spec = spec[at] if at < len(spec) else None
                self._check_sizes(name, example, value, _free(spec, max(example.ndim, 1)))
            elif isinstance(example, (int, float, str)) and value != example:
                raise AssertionError(f"Guard failed: {name} == {example}")

    @staticmethod
    def _check_sizes(name: str, example: Tensor, value: Tensor, free: Mapping[int, Any]) -> None:
        if value.ndim != example.ndim:
            raise AssertionError(f"Guard failed: {name}.dim() == {example.ndim}")
        for d, (size, wanted) in enumerate(zip(value.shape, example.shape)):
            how = free.get(d)
            failed = f"{name}.size()[{d}]"
            if how is None and size != wanted:
                raise AssertionError(f"Guard failed: {failed} == {wanted}")
            if isinstance(how, Dim) and how.max is not None and size > how.max:
                raise AssertionError(f"Guard failed: {failed} <= {how.max}")
            if isinstance(how, Dim) and size < how.min:
                raise AssertionError(f"Guard failed: {failed} >= {how.min}")


class _Program(Module):
    """What `ExportedProgram.module()` gives: the names of the module's parts are its own."""

    def __init__(self, program: ExportedProgram, checked: bool) -> None:
        super().__init__()
        of = program._module
        self.training = of.training
        for held in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            vars(self)[held] = vars(of)[held]
        vars(self).update(_program=program, _checked=checked)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        program: ExportedProgram = vars(self)["_program"]
        if vars(self)["_checked"]:
            program._check(args, kwargs)
        return program._module(*args, **kwargs)

    def train(self, mode: bool = True) -> Any:
        raise NotImplementedError(f"Calling {'train' if mode else 'eval'}() is not supported yet.")

    def _get_name(self) -> str:
        return "GraphModule"


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: Sequence[str] = (),
    prefer_deferred_runtime_asserts_over_guards: bool = False,
) -> ExportedProgram:
    """The module as a program of such arguments, training or not as it is now: their sizes are fixed, but for those that
    `dynamic_shapes` frees, by argument and dimension. The module is not called.

    >>> batch = torch.export.Dim("batch")
    >>> program = torch.export.export(torch.nn.Tanh(), (torch.ones(2, 3),), dynamic_shapes=({0: batch},))
    >>> program.module()(torch.zeros(1, 3))
    tensor([[0., 0., 0.]])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise TypeError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    return ExportedProgram(mod, args, dict(kwargs or {}), dynamic_shapes)


def save(
    ep: ExportedProgram,
    f: Path | BinaryIO,
    *,
    extra_files: dict[str, Any] | None = None,
    opset_version: Any = None,
    pickle_protocol: int = 2,
) -> None:
    """Write a program to a file, its classes by name.

    >>> import io
    >>> file = io.BytesIO()
    >>> torch.export.save(torch.export.export(torch.nn.Tanh(), (torch.ones(2),)), file)
    >>> start = file.seek(0)
    >>> torch.export.load(file).module()(torch.zeros(2))
    tensor([0., 0.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    files.save((ep._module, *ep.example_inputs, ep._shapes, dict(extra_files or {})), f)


def load(
    f: Path | BinaryIO, *, extra_files: dict[str, Any] | None = None, expected_opset_version: Any = None
) -> ExportedProgram:
    """A program that `torch.export.save` wrote: only of files that you trust, as code may run.

    >>> torch.export.load("program.pt2")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'program.pt2'
    """
    mod, args, kwargs, shapes, extra = files.load(f, weights_only=False)
    for name in extra_files or ():
        if name in extra and extra_files is not None:
            extra_files[name] = extra[name]
    return ExportedProgram(mod, args, kwargs, shapes)


__all__ = ["Dim", "ExportedProgram", "dims", "export", "load", "save"]
