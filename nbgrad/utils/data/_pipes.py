"""The bases of PyTorch's data pipes: streams and maps that take one another, and the names by which a pipe's functions make others. The
pipes that PyTorch has of these are not here; libraries bring their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, ClassVar, TypeVar

from nbgrad.utils.data.dataset import Dataset, IterableDataset

_T = TypeVar("_T", bound=type)


class _Piped:
    """Finds functions that were registered under a name, as if they were methods."""

    functions: ClassVar[dict[str, Callable[..., Any]]]
    _again = "Unable to add DataPipe function name {} as it is already taken"

    def __getattr__(self, attribute_name: str) -> Any:
        functions = type(self).functions
        if attribute_name in functions:
            return partial(functions[attribute_name], self)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{attribute_name}'")

    @classmethod
    def register_function(cls, function_name: str, function: Callable[..., Any]) -> None:
        """Let all pipes of this kind have a function, which gets the pipe first."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(
        cls, function_name: str, cls_to_register: type, enable_df_api_tracing: bool = False
    ) -> None:
        """Let all pipes of this kind have a function that makes one of a class, of the pipe and what it is called with."""
        if function_name in cls.functions:
            raise Exception(cls._again.format(function_name))
        cls.functions[function_name] = cls_to_register

    def __repr__(self) -> str:
        return type(self).__qualname__


class DataChunk(list[Any]):
    """What a pipe gives at once.

    >>> list(torch.utils.data.DataChunk([1, 2]).raw_iterator())
    [1, 2]
    """

    def raw_iterator(self) -> Iterator[Any]:
        """All of it, one after another."""
        yield from self


class IterDataPipe(_Piped, IterableDataset[Any]):
    """The base of pipes that are streams: a subclass has `__iter__`.

    >>> @torch.utils.data.functional_datapipe("doubled")
    ... class Doubler(torch.utils.data.IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * x for x in self.source)
    >>> class Count(torch.utils.data.IterDataPipe):
    ...     def __iter__(self):
    ...         return iter([1, 2, 3])
    >>> list(Count().doubled())
    [2, 4, 6]
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class MapDataPipe(_Piped, Dataset[Any]):
    """The base of pipes that are found by a key: a subclass has `__getitem__`.

    >>> class Squares(torch.utils.data.MapDataPipe):
    ...     def __getitem__(self, key):
    ...         return key * key
    >>> Squares()[3]
    9
    """

    functions: ClassVar[dict[str, Callable[..., Any]]] = {}


class functional_datapipe:
    """Registers a class of pipes under a name, by which each pipe makes one of it.

    >>> torch.utils.data.functional_datapipe("shuffled").name
    'shuffled'
    """

    def __init__(self, name: str, enable_df_api_tracing: bool = False) -> None:
        self.name = name
        self.enable_df_api_tracing = enable_df_api_tracing

    def __call__(self, cls: _T) -> _T:
        kind: Any = next(
            (k for k in (IterDataPipe, MapDataPipe) if isinstance(cls, type) and issubclass(cls, k)), None
        )
        if kind is None:
            raise TypeError("`functional_datapipe` can only decorate IterDataPipe or MapDataPipe")
        kind.register_datapipe_as_function(self.name, cls)
        return cls
