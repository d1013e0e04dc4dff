"""`torch.utils.weak`: dictionaries whose keys are objects themselves, not what equals them, and which keep none of them alive."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any
from weakref import ref

from nbgrad.core.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

WeakRef = ref


class WeakIdRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference that equals those to the same object.

    >>> x = torch.ones(2)
    >>> torch.utils.weak.WeakIdRef(x) == torch.utils.weak.WeakIdRef(x)
    True
    """

    __slots__ = ["_id"]

    def __init__(self, key: Any, callback: Callable[[Any], Any] | None = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)  # type: ignore[call-arg]

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, its = self(), other() if isinstance(other, ref) else None
        return self is other if mine is None or its is None else mine is its


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary by objects; what stood under one goes with it.

    >>> x = torch.ones(2)
    >>> names = torch.utils.weak.WeakIdKeyDictionary({x: "x"})
    >>> names[x], torch.ones(2) in names
    ('x', False)
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        here = ref(self)

        def remove(key: Any) -> None:
            if (still := here()) is not None:
                still.data.pop(key, None)

        self._remove = remove
        self.update(dict or {})

    def __getitem__(self, key: Any) -> Any:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # nothing refers weakly to it
            return False

    def __iter__(self) -> Iterator[Any]:
        found = (kept() for kept in list(self.data))  # a list, as one may go meanwhile
        return (key for key in found if key is not None)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """The weak references to its keys."""
        return list(self.data)

    def copy(self) -> Any:
        """Another one with the same."""
        return type(self)({} if not self.data else self)

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> Any:
        made = type(self)()
        for key, value in self.items():
            made[key] = copy.deepcopy(value, memo)
        return made

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def __or__(self, other: Any) -> Any:
        return self.copy().__ior__(other)


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor.

    >>> x = torch.ones(2)
    >>> torch.utils.weak.TensorWeakRef(x)() is x
    True
    """

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected torch.Tensor, got {type(tensor)}")
        self.ref = ref(tensor)

    def __call__(self) -> Any:
        return self.ref()
