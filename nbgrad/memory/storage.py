"""Memory, and what is known about it without looking at it.

Promises the tensor layer: a `Spec` (dtype, device, shape, strides) is interned, so two tensors that look alike share one and a
tuple of specs is a key that hashes at C speed; a `Storage` owns memory and counts the writes to it.
"""

from __future__ import annotations

from math import prod
from typing import Any

from nbgrad.base.tables import Table
from nbgrad.memory import backend as _backend
from nbgrad.memory import device as _device
from nbgrad.memory.dtypes import dtype
from nbgrad.memory.layout import Ints, Size, check_size, contiguous_strides, is_contiguous


class Spec:
    """How a buffer is read. `extent` counts the elements from the first to the last that it reaches, `nbytes` their bytes. What is
    `contiguous` may have any stride where there is one element or none; what is `canonical` has the strides of a new tensor. `repeats`
    says that it was expanded: of all layouts that show an element twice, PyTorch refuses only these as the target of a write. `read`
    takes the one element out of a buffer, as the first of a tuple; None where there are more, or none. `backend` is what serves the
    device, and `allocate(nbytes, bytes_)` gives its memory: a plan that copies it has no choice to make at a call."""

    __slots__ = (
        "allocate",
        "backend",
        "canonical",
        "contiguous",
        "device",
        "dtype",
        "extent",
        "itemsize",
        "nbytes",
        "ndim",
        "numel",
        "plain",
        "read",
        "repeats",
        "shape",
        "strides",
    )
    plain: Spec  # without what a transform has marked

    def __init__(self, dtype: dtype, shape: Ints, strides: Ints, device: _device.device) -> None:
        self.plain = self
        self.dtype, self.device, self.shape, self.strides = dtype, device, Size(shape), strides
        self.backend = _backend.of(device)
        self.allocate: _backend.Allocate = self.backend.allocate
        self.itemsize = dtype.itemsize
        self.ndim = len(shape)
        self.numel = prod(shape)
        self.contiguous = is_contiguous(shape, strides)
        self.canonical = self.contiguous and strides == contiguous_strides(shape)
        self.extent = 1 + sum(s * (n - 1) for s, n in zip(strides, shape)) if self.numel else 0
        self.nbytes = self.extent * self.itemsize
        check_size(shape, strides, self.nbytes)
        code = dtype.code  # which what has no kernels refuses to tell
        self.read: Any = self.backend.reader(code) if self.numel == 1 else None
        self.repeats = bool(self.numel) and any([s == 0 and n > 1 for s, n in zip(strides, shape)])

    def __repr__(self) -> str:
        return f"Spec({self.dtype.abbr}{list(self.shape)}, strides={list(self.strides)}, {self.device})"

    def like(
        self, shape: Ints | None = None, strides: Ints | None = None, dtype: dtype | None = None
    ) -> Spec:
        """The same, but for what is named; a new shape is contiguous unless strides are given."""
        if shape is None:
            shape, strides = self.shape, self.strides if strides is None else strides
        return spec(dtype or self.dtype, shape, strides, self.device)

    def on(self, device: _device.device) -> Spec:
        """The same on another device."""
        return self if device is self.device else spec(self.dtype, self.shape, self.strides, device)

    def dense(self) -> Spec:
        """Contiguous, with the strides that a new tensor of this shape has, the rest the same."""
        return self if self.canonical else spec(self.dtype, self.shape, None, self.device)


_specs: Table[tuple[dtype, Ints, Ints | None, _device.device], Spec] = Table("memory.storage.specs", 20000)
_spec_of = _specs.get


def spec(dtype: dtype, shape: Ints, strides: Ints | None, device: _device.device) -> Spec:
    """The one Spec of these; without strides, the contiguous one. Equal specs made long apart may differ in identity."""
    key = (dtype, shape, strides, device)
    found = _spec_of(key)
    if found is None:
        where = _device.settled(device)
        if strides is None or where is not device:
            found = spec(dtype, shape, contiguous_strides(shape) if strides is None else strides, where)
        else:
            found = Spec(dtype, shape, strides, device)
        _specs.keep(key, found)
    return found


class Marked(Spec):
    """The spec of a tensor that a transform looks after: it reads like `plain`, but no table of plans knows it, so a call on the short
    way misses and comes to the transforms. `tangents` are forward mode's, by level."""

    __slots__ = ("tangents",)

    def __init__(self, like: Spec, tangents: dict[int, Any] | None = None) -> None:
        for slot in Spec.__slots__:
            setattr(self, slot, getattr(like.plain, slot))
        self.read = None  # what is batched has no bytes
        self.tangents = {} if tangents is None else tangents

    def dense(self) -> Spec:
        return self.plain.dense()


class Level:
    """One vmap that is running: the how-manieth of the thread, over how many examples, and what random numbers they get."""

    __slots__ = ("index", "randomness", "size")

    def __init__(self, index: int, size: int, randomness: str) -> None:
        self.index, self.size, self.randomness = index, size, randomness


class Batched:
    """What a tensor has in memory's place inside a vmap: the tensor of all examples, along its first dimension; where `has` is
    false, the one that all examples share."""

    __slots__ = ("has", "inner", "level")
    base = ()  # to who asks if this memory could be taken over: somebody else's

    def __init__(self, inner: Any, level: Level, has: bool) -> None:
        self.inner, self.level, self.has = inner, level, has

    @property
    def __array_interface__(self) -> Any:
        return self.inner._buf.__array_interface__


class Nothing:
    """What stands in memory's place in a tensor that has none, for which its class answers: kernels refuse it."""

    __slots__ = ()
    base = ()
    nbytes = 0


class Storage:
    """The owner of a block of memory, and the count of writes to it that views and `detach()` share. It is `lent` where NumPy or another
    library has seen the memory, which then must stay where it is."""

    __slots__ = ("__weakref__", "inference", "lent", "memory", "version")
    lent: bool  # where it is not set it is not so: a record costs a view as little as can be

    def __init__(self, memory: Any) -> None:
        self.memory = memory
        self.version = 0
        self.inference = False


class Moved(Storage):
    """What a tensor has that was given another memory: that, and the count of writes that it goes on sharing with its former views."""

    __slots__ = ("counted",)
    counted: Storage

    def __init__(self, memory: Any, before: Storage) -> None:
        self.memory = memory
        self.counted = before.counted if type(before) is Moved else before

    @property
    def version(self) -> int:
        return self.counted.version

    @version.setter
    def version(self, count: int) -> None:
        self.counted.version = count

    @property
    def inference(self) -> bool:  # type: ignore[override]
        return self.counted.inference


APART = 1 << 40  # of the versions of a tensor that was detached in place; below it stands what users see


class Detached(Moved):
    """The record of a tensor that was detached in place: as the one that it had and others still have, at versions that no node has
    saved, so that nodes which saved the tensor with its history come to look."""

    __slots__ = ()

    def __init__(self, before: Storage) -> None:
        super().__init__(before.memory, before)

    @property
    def version(self) -> int:
        return self.counted.version + APART

    @version.setter
    def version(self, count: int) -> None:
        self.counted.version = count - APART
