"""The tensor: memory, geometry and autograd state; and the rules by which history follows writes.

Promises the dispatcher: `_buf` is the memory from the first element on, `_spec` how to read it, `_rg` whether a result may need
recording (0 no, 1 yes, 2 a view: ask `requires`). Promises users that a write through any view is seen by the version counter and
by the history of every tensor that shares the memory. Ops attach themselves as methods; here is what all of them stand on.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from sys import getrefcount
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from nbgrad.base.tables import PLANS, cached
from nbgrad.core.refusals import INSIDE, NO_VALUES, NON_LEAF_GRAD, _forbidden
from nbgrad.memory import backend, dtypes, layout
from nbgrad.memory.device import device
from nbgrad.memory.storage import APART, Batched, Detached, Marked, Moved, Nothing, Spec, Storage
from nbgrad.tape.modes import shared, state
from nbgrad.tape.node import HookTable, Node, RemovableHandle, blank, node_type, register, sequence, shown

new: Callable[[type], Any] = object.__new__
_int = int
_bool = bool
_bytes = np.dtype(np.uint8)

_SAME = object()  # as the tensor's own dtype


class AutogradMeta:
    """What few tensors have: a gradient, hooks, a wish to keep a gradient."""

    __slots__ = ("grad", "grad_dtype", "hooks", "lock", "post_hooks", "retains", "sink")

    def __init__(self) -> None:
        self.grad: Tensor | None = None
        self.hooks: HookTable | None = None  # of a leaf; those of other tensors live on their node
        self.post_hooks: HookTable | None = None
        self.retains = False
        self.grad_dtype: Any = _SAME  # what a leaf's gradient is cast to: None keeps what comes
        self.sink: Node | None = None
        self.lock = threading.RLock()


class View:
    """Where a view comes from. `version` is the base's when the view's history was last read, `leaf` says that the user made
    the view itself require grad. Who makes one fills it: an `__init__` takes as long again."""

    __slots__ = ("base", "created", "leaf", "version")
    base: Tensor
    created: str
    leaf: bool
    version: int


if TYPE_CHECKING:
    from nbgrad.core.methods import Methods
else:
    Methods = (
        object  # ops attach themselves as methods when they are loaded, which type checkers read from a stub
    )


class Tensor(Methods):
    """An array with a dtype, a device and, where it is asked for, a history from which gradients are computed.

    `torch.tensor` makes one from values; functions and methods make others from it. With `requires_grad` what is computed from it is
    recorded, and `backward()` of a result adds the gradient to `grad`. Several tensors may look at one memory: see `view` and
    `detach`.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __module__ = "nbgrad"  # where users find it

    __slots__ = (
        "__dict__",
        "__weakref__",
        "_ad",
        "_buf",
        "_node",
        "_nr",
        "_rg",
        "_spec",
        "_storage",
        "_view",
    )
    _buf: Any
    _spec: Spec
    _rg: int
    _node: Node | None
    _nr: int
    _storage: Storage | None
    _view: View | None
    _ad: AutogradMeta | None

    __array_priority__ = 1000

    def __new__(cls, *args: Any, **kwargs: Any) -> Tensor:
        return construct(cls, *args, **kwargs)

    # -- geometry -----------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> layout.Size:
        """How many elements there are along each dimension, as a `torch.Size`.

        >>> torch.ones(2, 3).shape
        torch.Size([2, 3])
        """
        return self._spec.shape

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements, such as `torch.float32`.

        >>> torch.tensor([1, 2]).dtype
        torch.int64
        """
        return self._spec.dtype

    @property
    def device(self) -> device:
        """Where the memory is.

        >>> torch.ones(2).device
        device(type='cpu')
        """
        return self._spec.device

    @property
    def ndim(self) -> int:
        """How many dimensions there are; 0 for a single number.

        >>> torch.ones(2, 3).ndim
        2
        """
        return self._spec.ndim

    @overload
    def size(self, dim: int) -> int: ...
    @overload
    def size(self, dim: None = None) -> layout.Size: ...
    def size(self, dim: int | None = None) -> layout.Size | int:
        """The shape, or with `dim` the number of elements along that dimension; a negative `dim` counts from the end.

        >>> torch.ones(2, 3).size(), torch.ones(2, 3).size(-1)
        (torch.Size([2, 3]), 3)
        """
        return self._spec.shape if dim is None else layout.along(self._spec.shape, dim)

    @overload
    def stride(self, dim: int) -> int: ...
    @overload
    def stride(self, dim: None = None) -> tuple[int, ...]: ...
    def stride(self, dim: int | None = None) -> tuple[int, ...] | int:
        """How many elements of memory lie between neighbours along each dimension, or along `dim`.

        >>> torch.ones(2, 3).stride(), torch.ones(2, 3).t().stride()
        ((3, 1), (1, 3))
        """
        return self._spec.strides if dim is None else layout.along(self._spec.strides, dim)

    def dim(self) -> int:
        """How many dimensions there are, as `ndim`.

        >>> torch.ones(2, 3).dim()
        2
        """
        return self._spec.ndim

    def numel(self) -> int:
        """How many elements there are: the product of the shape.

        >>> torch.ones(2, 3).numel()
        6
        """
        return self._spec.numel

    nelement = numel
    ndimension = dim

    def element_size(self) -> int:
        """How many bytes one element takes, as `itemsize`.

        >>> torch.ones(2, dtype=torch.float64).element_size()
        8
        """
        return self._spec.itemsize

    @property
    def itemsize(self) -> int:
        """How many bytes one element takes.

        >>> torch.ones(2, dtype=torch.int16).itemsize
        2
        """
        return self._spec.itemsize

    @property
    def nbytes(self) -> int:
        """How many bytes all elements take: `numel() * itemsize`, however many the memory has.

        >>> torch.ones(2, 3).nbytes
        24
        """
        return self._spec.numel * self._spec.itemsize

    def is_contiguous(self, *, memory_format: layout.memory_format = layout.contiguous_format) -> bool:
        """Whether the elements lie in memory one after the other, the last dimension running fastest; or in the order that
        `memory_format` says.

        >>> x = torch.ones(2, 3)
        >>> x.is_contiguous(), x.t().is_contiguous()
        (True, False)
        >>> torch.ones(2, 3, 4, 5).is_contiguous(memory_format=torch.channels_last)
        False
        """
        if memory_format is layout.contiguous_format:
            return self._spec.contiguous
        return layout.is_in_format(tuple(self._spec.shape), self._spec.strides, memory_format)

    def is_floating_point(self) -> bool:
        """Whether the elements are real numbers with a fractional part.

        >>> torch.ones(2).is_floating_point(), torch.tensor([1]).is_floating_point()
        (True, False)
        """
        return self._spec.dtype.is_floating_point

    def is_complex(self) -> bool:
        """Whether the elements are complex numbers, of a real and an imaginary part.

        >>> torch.ones(2).is_complex(), torch.tensor([1j]).is_complex()
        (False, True)
        """
        return self._spec.dtype.is_complex

    def is_signed(self) -> bool:
        """Whether the elements may be negative.

        >>> torch.ones(2).is_signed(), torch.ones(2, dtype=torch.uint8).is_signed()
        (True, False)
        """
        return self._spec.dtype.is_signed

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is a GPU's.

        >>> torch.ones(2).is_cuda
        False
        """
        return self._spec.device.type == "cuda"

    @property
    def is_cpu(self) -> bool:
        """Whether the memory is the CPU's.

        >>> torch.ones(2).is_cpu
        True
        """
        return self._spec.backend is backend.cpu

    @property
    def is_meta(self) -> bool:
        """Whether the tensor has no memory: only a shape, a dtype and strides.

        >>> torch.ones(2, device="meta").is_meta
        True
        """
        return self._spec.backend is backend.meta

    def data_ptr(self) -> int:
        """The address of the first element; 0 where there is none.

        >>> x = torch.ones(4)
        >>> x[1:].data_ptr() - x.data_ptr()
        4
        """
        buf, sp = self._buf, self._spec
        if buf.__class__ is Batched:
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        serves = sp.backend
        return serves.address(buf) if sp.numel and serves.holds and buf.__class__ is not Nothing else 0

    def storage_offset(self) -> int:
        """How many elements of the memory lie before the first one that the tensor shows.

        >>> torch.ones(4)[1:].storage_offset()
        1
        """
        if self._storage is None or self._storage.memory is self._buf:
            return 0
        address = self._spec.backend.address
        return (address(self._buf) - address(self._storage.memory)) // self._spec.itemsize

    def _host(self, refusal: str | None = None) -> np.ndarray[Any, Any]:
        if type(self._buf) is Batched:
            if self._buf.has:
                raise RuntimeError(refusal or NO_VALUES)
            return common(self)._host(refusal)
        if self._spec.ndim > 64:  # NumPy has no such arrays
            raise ValueError("number of dimensions must be within [0, 64]")
        return self._spec.backend.to_host(self._buf, self._spec)

    # -- autograd state -----------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether what is computed from the tensor is recorded, so that `backward` reaches it. It can be set on leaves only, and on a
        tensor that was computed it is true when one of the inputs had it.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.requires_grad, (x + 1).requires_grad, x.detach().requires_grad
        (True, True, False)
        """
        return requires(self)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        set_requires_grad(
            self, value, "only Tensors of floating point and complex dtype can require gradients"
        )

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad must be a bool")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` and return the tensor itself.

        >>> torch.ones(2).requires_grad_()
        tensor([1., 1.], requires_grad=True)
        """
        if state.transforms or state.levels:
            raise RuntimeError(
                INSIDE.format(
                    "requires_grad_() (or perhaps using torch.autograd.functional.* APIs)", "requires_grad_()"
                )
            )
        set_requires_grad(self, requires_grad, "only Tensors of floating point dtype can require gradients")
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made the tensor: gradients end here, in `grad`, if it requires any.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.is_leaf, (x + 1).is_leaf
        (True, False)
        """
        return self.grad_fn is None

    @property
    def grad_fn(self) -> Node | None:
        """The node of the graph that made the tensor and computes its gradient; None for leaves.

        >>> x = torch.ones(2, requires_grad=True)
        >>> type((x * 2).grad_fn).__name__, x.grad_fn
        ('MulBackward0', None)
        """
        node = history(self)
        return None if node is None else shown(node)

    @property
    def _grad_fn(self) -> Node | None:
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: object) -> None:
        if value is not None:
            raise RuntimeError("_grad_fn can be only set to None")
        self.detach_()

    @_grad_fn.deleter
    def _grad_fn(self) -> None:
        raise RuntimeError("Deletion of _grad_fn not allowed. Detach tensor instead!")

    @property
    def output_nr(self) -> int:
        """Which output of its `grad_fn` the tensor is.

        >>> a, b = torch.ones(2, requires_grad=True).unbind()
        >>> a.output_nr, b.output_nr
        (0, 1)
        """
        history(self)
        return self._nr

    @property
    def _version(self) -> int:
        storage = storage_of(self)
        if storage.inference:
            raise RuntimeError("Inference tensors do not track version counter.")
        return storage.version % APART

    @property
    def _base(self) -> Tensor | None:
        return None if self._view is None else self._view.base

    def _is_view(self) -> bool:
        return self._view is not None

    def is_inference(self) -> bool:
        """Whether the tensor was made in `torch.inference_mode`, so that no graph may use it.

        >>> with torch.inference_mode():
        ...     x = torch.ones(2)
        >>> x.is_inference()
        True
        """
        return of_inference(self)

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward` has added up so far; None before the first. Later calls add to it, so a training step clears
        it first.

        >>> x = torch.ones(2, requires_grad=True)
        >>> (3 * x).sum().backward()
        >>> (3 * x).sum().backward()
        >>> x.grad
        tensor([6., 6.])
        """
        ad = self._ad
        if self._node is not None and (ad is None or not (ad.retains or ad.grad is not None)):
            warnings.warn(NON_LEAF_GRAD, UserWarning, stacklevel=2)
        return None if ad is None else ad.grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            check_grad(self, value)
        meta(self).grad = value

    @grad.deleter
    def grad(self) -> None:
        meta(self).grad = None

    @property
    def grad_dtype(self) -> Any:
        """What gradients that arrive here are cast to; None takes them as they come. It is the tensor's own dtype unless set, on
        leaves only.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.grad_dtype = torch.float64
        >>> x.sum().backward()
        >>> x.grad.dtype
        torch.float64
        """
        chosen = _SAME if self._ad is None else self._ad.grad_dtype
        return self._spec.dtype if chosen is _SAME else chosen

    @grad_dtype.setter
    def grad_dtype(self, value: Any) -> None:
        if history(self) is not None:
            raise RuntimeError("grad_dtype can only be set on leaf tensors.")
        if value is not None and not isinstance(value, dtypes.dtype):
            raise RuntimeError(f"grad_dtype must be a torch.dtype or None, but got {type(value).__name__}")
        ad = meta(self)
        if ad.grad is not None and value is not None and ad.grad._spec.dtype is not value:
            raise RuntimeError(
                f"Cannot set grad_dtype to '{value.scalar_name}' because there is already a gradient with dtype "
                f"'{ad.grad._spec.dtype.c_name}'. Please clear the gradient (.grad = None) before changing grad_dtype, or "
                "ensure the new grad_dtype matches the existing gradient's dtype."
            )
        ad.grad_dtype = value

    @property
    def _grad(self) -> Tensor | None:
        return None if self._ad is None else self._ad.grad

    @_grad.setter
    def _grad(self, value: Tensor | None) -> None:
        self.grad = value

    @_grad.deleter
    def _grad(self) -> None:
        del self.grad

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad` was called on a tensor that is no leaf.

        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> y.retain_grad()
        >>> y.retains_grad
        True
        """
        return self._ad is not None and self._ad.retains

    def retain_grad(self) -> None:
        """Let `backward` keep the gradient of a tensor that was computed in its `grad`, as it does for leaves. Does nothing on a
        leaf.

        >>> x = torch.ones(2, requires_grad=True)
        >>> y = x * 2
        >>> y.retain_grad()
        >>> (y * y).sum().backward()
        >>> y.grad
        tensor([4., 4.])
        """
        if not requires(self):
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if state.transforms or state.levels:
            raise RuntimeError(INSIDE.format("retain_grad()", "retain_grad()"))
        node = None if self._node is None else history(self)
        if node is None or self.retains_grad:
            return
        if node.retain is None:
            node.retain = {}
        node.retain[self._nr] = weakref.ref(self)
        node.hooked = True
        meta(self).retains = True

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call `hook` with the gradient of this tensor each time that it is computed; a tensor which the hook returns takes its
        place. The handle that comes back takes the hook off again with `remove()`.

        >>> x = torch.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda g: 10 * g)
        >>> (2 * x).sum().backward()
        >>> x.grad
        tensor([20., 20.])
        """
        if not requires(self):
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node = self._node
        if node is None or node.tensor_hooks is None or self._nr not in node.tensor_hooks:
            node = history(self)  # a view that has hooks is not read anew for one more: PyTorch's rule
        if node is None:
            ad = meta(self)
            if ad.hooks is None:
                ad.hooks = OrderedDict()
            table = ad.hooks
            node = accumulator(self)  # it may be there already; one that is made later finds the leaf's hooks
            node.tensor_hooks = {0: table}
        else:
            if node.tensor_hooks is None:
                node.tensor_hooks = {}
            table = node.tensor_hooks.setdefault(self._nr, OrderedDict())
        node.hooked = shared.hooked = True
        return register(table, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call `hook` with this leaf after a gradient has been added to its `grad`. What it returns must be None; the handle that
        comes back takes it off again with `remove()`.

        >>> x = torch.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda p: print("now", p.grad))
        >>> (2 * x).sum().backward()
        now tensor([2., 2.])
        """
        if not requires(self):
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if history(self) is not None:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        accumulator(self).hooked = True  # as above
        ad = meta(self)
        if ad.post_hooks is None:
            ad.post_hooks = OrderedDict()
        return register(ad.post_hooks, hook)

    @property
    def _backward_hooks(self) -> HookTable | None:
        node = history(self)
        if node is None:
            return None if self._ad is None else self._ad.hooks
        return None if node.tensor_hooks is None else node.tensor_hooks.get(self._nr)

    @_backward_hooks.setter
    def _backward_hooks(self, value: object) -> None:
        node = history(self)
        if value is None and node is not None and node.tensor_hooks is not None:
            node.tensor_hooks.pop(self._nr, None)
        elif value is None and self._ad is not None and self._ad.hooks is not None:
            self._ad.hooks.clear()
            self._ad.hooks = None

    @_backward_hooks.deleter
    def _backward_hooks(self) -> None:
        raise RuntimeError("Deletion of _backwards_hooks not allowed!")

    @property
    def _post_accumulate_grad_hooks(self) -> HookTable | None:
        return None if self._ad is None else self._ad.post_hooks

    @_post_accumulate_grad_hooks.deleter
    def _post_accumulate_grad_hooks(self) -> None:
        raise RuntimeError("Deletion of _post_accumulate_grad_hooks not allowed!")

    def detach(self) -> Tensor:
        """The same values in the same memory without history: no gradient flows back through it. Writes to either show in both.

        >>> x = torch.ones(2, requires_grad=True)
        >>> (x * x.detach()).sum().backward()
        >>> x.grad
        tensor([1., 1.])
        """
        if type(self._spec) is Marked:
            return hooks.detached(self)
        out = wrap(self._buf, self._spec)
        out._storage = self._storage or storage_of(self)
        return out

    def detach_(self) -> Tensor:
        """Make the tensor itself a leaf that requires no gradient: its history is dropped. Views refuse it.

        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> y.detach_()
        tensor([2., 2.])
        """
        if self._view is not None:
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using DistributedDataParallel (DDP) "
                "for training, and gradient_as_bucket_view is set as True, gradients are views of DDP buckets, and "
                "hence detach_() cannot be called on these gradients. To fix this error, please refer to the "
                "Optimizer.zero_grad() function in torch/optim/optimizer.py as the solution."
            )
        record: Any = storage_of(self)
        if self._node is not None:
            self._storage = Detached(record)
        self._node, self._nr, self._rg = None, 0, 0
        if type(self._spec) is Marked:  # tangents go too
            self._spec = Marked(self._spec) if type(self._buf) is Batched else self._spec.plain
        return self

    @property
    def data(self) -> Tensor:
        """The same memory without history, where writes are not noticed by the graph: gradients saved from the old values may come
        out wrong. Setting it lets the tensor show other memory; its history and its `grad` stay.

        >>> x = torch.ones(2, requires_grad=True)
        >>> x.data *= 5
        >>> x
        tensor([5., 5.], requires_grad=True)
        """
        sp = self._spec
        if type(sp) is not Spec or shared.rare:
            if type(self._buf) is Batched:
                raise RuntimeError("accessing `data` under vmap transform is not allowed")
            return uncounted(self)
        out: Tensor = new(Tensor)  # `uncounted`, in line
        storage = self._storage or storage_of(self)
        out._buf, out._spec = self._buf, sp
        out._rg = out._nr = 0
        out._node = out._view = out._ad = None
        out._storage = own = Storage(storage.memory)
        own.inference = storage.inference
        return out

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if type(self._buf) is Batched:
            raise RuntimeError("mutating directly with `.data` under vmap transform is not allowed.")
        if requires(self) and not value._spec.dtype.inexact:
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype"
            )
        if value._spec.backend.holds is not self._spec.backend.holds:
            raise RuntimeError(
                "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
            )
        if value is not self:
            move(self, value)

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    def __hash__(self) -> int:
        return id(self)


def fix(*names: str) -> None:
    """Make properties of Tensor such as PyTorch's, which can be neither set nor deleted."""
    for name in names:

        def refuse(self: Tensor, value: object = None, name: str = name) -> None:
            raise AttributeError(f"attribute '{name}' of 'torch._C.TensorBase' objects is not writable")

        setattr(Tensor, name, getattr(Tensor, name).setter(refuse).deleter(refuse))


Tensor.name = property(  # type: ignore[assignment, method-assign]
    lambda self: None, doc="Always None.\n\n    >>> print(torch.ones(2).name)\n    None\n    "
)
fix("shape", "dtype", "device", "ndim", "itemsize", "nbytes", "is_cuda", "is_cpu", "is_meta")
fix("is_leaf", "grad_fn", "output_nr", "_version", "_base", "retains_grad", "name")


def construct(cls: type, *args: Any, **kwargs: Any) -> Any:
    """`Tensor(...)`; the creation layer puts its own in place."""
    raise TypeError("the creation layer is not loaded")


# ---------------------------------------------------------------- making


def wrap(buf: Any, sp: Spec) -> Tensor:
    """A tensor over fresh memory, without history."""
    t: Tensor = new(Tensor)
    t._buf, t._spec = buf, sp
    t._rg = t._nr = 0
    t._storage = t._node = t._view = t._ad = None
    if shared.rare and state.modes.inference:
        as_inference(t)
    return t


def as_inference(t: Tensor) -> None:
    """Mark memory made in inference mode: it counts no versions, and no graph may save it."""
    storage_of(t).inference = True


def empty(sp: Spec) -> Tensor:
    try:
        return wrap(sp.allocate(sp.nbytes, _bytes), sp)
    except MemoryError as error:
        backend.check_room(error)
        raise


def uncounted(t: Tensor) -> Tensor:
    """The same memory without history, writes through which are not counted; of what a vmap looks after, without history."""
    if type(t._buf) is Batched:
        return hooks.detached(t)
    out = share(t, t._buf, t._spec.plain)
    storage_of(out).inference = of_inference(t)
    return out


def share(t: Tensor, buf: Any, sp: Spec) -> Tensor:
    """Another tensor over the same memory: no history, and a version counter of its own until one is given."""
    out = wrap(buf, sp)
    out._storage = Storage(storage_of(t).memory)
    return out


def move(t: Tensor, to: Tensor) -> None:
    """Let `t` read what `to` reads. Its count of writes stays its own and that of those who shared its memory."""
    memory = storage_of(to).memory
    t._storage = Moved(memory, storage_of(t))
    t._buf, t._spec = to._buf, to._spec if type(to._buf) is Batched else to._spec.plain


def view_of(base: Tensor, buf: Any, sp: Spec, created: str) -> Tensor:
    """A view of `base` with its own reading of the memory; the caller records its history."""
    out = wrap(buf, sp)
    storage = out._storage = storage_of(base)
    if storage.inference:
        return out
    root = base
    if base._view is not None:
        root = base._view.base
        if base._view.created != "default" and created == "default":
            created = base._view.created
    view: View = new(View)
    view.base, view.version, view.created, view.leaf = root, storage.version, created, False
    out._view = view
    out._rg = 2
    return out


def common(t: Tensor) -> Tensor:
    """What all examples of a vmap share, as it is outside, as are values in forward mode along all directions; else the tensor."""
    while type(t._buf) is Batched and not t._buf.has:
        t = t._buf.inner
    return t


def storage_of(t: Tensor) -> Storage:
    storage = t._storage
    if storage is None:
        storage = t._storage = Storage(t._buf) if t._node is None else _shared_with_saved(t, t._node)
    return storage


def _shared_with_saved(t: Tensor, node: Node) -> Storage:
    """A node that saved its output did not make a record for it, as most are never needed (0.2 us): it gets the one that is made now.
    So before a tensor loses its node, it gets its record."""
    kept = [s for s in node.saved or () if type(s) is Tensor and s._buf is t._buf]
    storage = next((s._storage for s in kept if s._storage is not None), None) or Storage(t._buf)
    for s in kept:
        s._storage = storage
    return storage


def meta(t: Tensor) -> AutogradMeta:
    ad = t._ad
    if ad is None:
        ad = t._ad = AutogradMeta()
    return ad


def of_inference(t: Tensor) -> bool:
    """Whether it was made in inference mode, without asking a class that overrides functions."""
    return t._storage is not None and t._storage.inference


def set_requires_grad(t: Tensor, value: bool, refusal: str) -> None:
    if not isinstance(value, _bool):
        raise RuntimeError("requires_grad must be a bool")
    if value and t._node is not None:  # a view that may no longer be looked at keeps it, too
        return
    if history(t) is not None:
        if not value:
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
                "subgraph that doesn't require differentiation use var_no_grad = var.detach()."
            )
        return
    if value and not t._spec.dtype.inexact:
        raise RuntimeError(refusal)
    if value and of_inference(t) and not state.modes.inference:
        raise RuntimeError(
            "Setting requires_grad=True on inference tensor outside InferenceMode is not allowed."
        )
    if t._view is not None:
        t._rg, t._view.leaf = 2, value
    else:
        t._rg = 1 if value else 0


# ---------------------------------------------------------------- history


def requires(t: Tensor) -> bool:
    """Whether a gradient of `t` can be asked for. A view of what requires grad does, though made under `no_grad`."""
    if t._rg != 2:
        return t._rg == 1
    view = t._view
    assert view is not None
    return t._node is not None or view.leaf or requires(view.base)


def history(t: Tensor) -> Node | None:
    """The node that made `t`; a view of what was written to since is read anew, from what the base is now."""
    view = t._view
    if t._rg == 2 and view is not None:
        counted = storage_of(t).version
        if view.version != counted and (t._node is not None or requires(view.base)):
            if view.created != "default":
                raise RuntimeError(_forbidden(t, view, "its base or another view of its base has been"))
            set_history(t, _read_anew(t, view.base))
            view.version = counted
    return t._node


def edge(t: Tensor) -> tuple[Node | None, int]:
    """Where the gradient of `t` goes; (None, 0) where it is not wanted."""
    node = t._node if t._rg != 2 else history(t)
    if node is not None:
        return node, t._nr
    if t._rg == 1 or (t._view is not None and t._view.leaf):
        return accumulator(t), 0
    return None, 0


_UNUSED = 3  # references to a sink that no graph has: its leaf's, the one here, and getrefcount's argument


def accumulator(leaf: Tensor) -> Node:
    """The leaf's sink, which is the leaf's own: it refers back weakly, so that the two are no cycle, and a node that points at it
    holds the leaf too (`leaves`). What no graph has any more is as new: it has lost the hooks on it, and its number is of now, by
    which it runs as soon as it has all its gradients. The number is drawn before the look, so that another thread, which may
    take the sink right after it, draws a larger one."""
    ad = leaf._ad or meta(leaf)
    sink = ad.sink
    if sink is None or sink.hooked:
        return _sink_with_hooks(leaf, ad)
    number = next(sequence)
    if getrefcount(sink) == _UNUSED:
        sink.seq = number
    return sink


def _sink_with_hooks(leaf: Tensor, ad: AutogradMeta) -> Node:
    with ad.lock:
        sink = ad.sink
        if sink is None or getrefcount(sink) == _UNUSED + 1:  # its caller has it too
            sink = blank()
            sink.static, sink.rule, sink.seq = weakref.ref(leaf), accumulation, next(sequence)
            if ad.hooks or ad.post_hooks:
                sink.tensor_hooks, sink.hooked = None if ad.hooks is None else {0: ad.hooks}, True
            ad.sink = sink
        else:
            shared.late = True
    return sink


class ViewRule:
    """The rule of a view that was read anew after a write to its base: PyTorch's AsStridedBackward0."""

    def __init__(self, at: Spec, offset: int, base: Spec) -> None:
        self.at, self.offset, self.base = at, offset, base

    def apply(self, node: Node, g: Any, needed: Any, graph: bool) -> Any:
        return (hooks.embed(g, self.base, self.at, self.offset),)

    def layouts(self, node: Node) -> tuple[Spec, ...]:
        return (self.at,)

    def read(self, node: Node, name: str, raw: bool) -> Any:
        """As PyTorch shows them: `grad_fn._saved_size` and kin."""
        if raw or name not in self.names(node):
            kind = type(shown(node)).__name__
            raise AttributeError(f"'{kind}' object has no attribute '_{'raw_' * raw}saved_{name}'")
        return self.names(node)[name]

    def names(self, node: Node) -> dict[str, Any]:
        return {
            "size": tuple(self.at.shape),
            "storage_offset": self.offset,
            "stride": tuple(self.at.strides),
        }


_view_rule = cached(PLANS)(ViewRule)


def _read_anew(t: Tensor, base: Tensor) -> Node:
    """The history of a view, now that its base has been written to."""
    steps, node = [], t._node if state.modes.view_replay else None
    while node is not None and getattr(getattr(node.rule, "op", None), "views", False):
        steps.append(node)
        node = node.next[0]
    if not steps:
        return view_node(t, base, between(t, base))
    edge_there = edge(base)
    for step in reversed(steps):
        node = blank()
        node.next, node.numbers = (edge_there[0],), (edge_there[1],)
        node.rule, node.static, node.seq = step.rule, step.static, next(sequence)
        edge_there = node, 0
    assert node is not None
    return node


def between(t: Tensor, base: Tensor) -> int:
    """How many elements of their memory, as `t` counts them, lie before the first of `t` and not before the first of its base."""
    sp, shown = t._spec, base._spec
    if t._storage is base._storage and sp.itemsize == shown.itemsize:
        if t._buf is base._buf:
            return 0
        address = sp.backend.address
        return (address(t._buf) - address(base._buf)) // sp.itemsize
    return t.storage_offset() - base.storage_offset() * shown.itemsize // sp.itemsize


_AsStrided = node_type("AsStridedBackward0")


def view_node(t: Tensor, base: Tensor, offset: int, target: Node | None = None) -> Node:
    """What reads the base's history anew; `target` is its node, if that is known and has one output."""
    node: Node = blank(_AsStrided)
    if target is None:
        target, number = edge(base)
        node.numbers = (number,)
    node.next, node.static = (target,), None
    node.rule = _view_rule(t._spec, offset, base._spec)
    node.seq = next(sequence)
    return node


class Hooks:
    """What the tape needs of ops that are defined above it; the ops hand themselves in when they are loaded."""

    embed: Callable[[Any, Spec, Spec, int], Tensor]
    add: Callable[[Tensor, Tensor], Tensor]
    add_: Callable[[Tensor, Tensor], Tensor]
    add_part: Callable[[Tensor, Tensor, Spec, int], None]
    embed_part: Callable[..., Tensor]  # as `embed`, of a part of a base that is dense
    embedded_part: Callable[[Tensor, Spec, Spec, int], Tensor]  # the same, not recorded
    adding: Callable[[Spec, Spec], Any]  # the plan of an addition in place
    clone: Callable[[Tensor], Tensor]
    contiguous: Callable[[Tensor], Tensor]
    copier: Callable[..., Callable[[Tensor], Tensor]]  # what copies tensors that lie so
    copy_: Callable[[Tensor, Tensor], Tensor]
    copy_memory: Callable[[Tensor, Tensor], None]  # no history, no count
    as_strided: Callable[..., Tensor]
    to_dtype: Callable[[Tensor, Any], Tensor]
    part_in: Callable[[Tensor, Any, device], Tensor]  # a gradient in a dtype and on a device
    sum_to: Callable[[Tensor, Any], Tensor]
    conj: Callable[[Tensor], Tensor]
    conj_back: Callable[[Tensor], Tensor]
    real: Callable[[Tensor], Tensor]
    look: Callable[[Tensor, Spec, int], Tensor]
    scalar: Callable[..., Tensor]
    tensor: Callable[..., Tensor]
    elementwise_function: Callable[..., Callable[..., Tensor]]
    resize: Callable[..., None]
    reshape: Callable[[Tensor, Any], Tensor]
    expand: Callable[[Tensor, Any], Tensor]
    select: Callable[[Tensor, int, int], Tensor]
    stack: Callable[..., Tensor]
    cat: Callable[..., Tensor]
    movedim: Callable[[Tensor, int, int], Tensor]
    alias: Callable[[Tensor], Tensor]
    from_dlpack: Callable[[Any], Tensor]
    detached: Callable[[Tensor], Tensor]
    laid_out: Callable[[Tensor, Any], Tensor]
    ones_like: Callable[[Tensor], Tensor]
    sparse_arrives: Callable[[Any, Tensor, bool], None]  # a sparse gradient comes to a leaf
    pinned: Callable[[Tensor], Tensor]
    zeros: Callable[[Spec], Tensor]


hooks = Hooks()


def set_history(t: Tensor, node: Node, number: int = 0) -> None:
    storage_of(t)
    was, before = t._node, t._nr
    t._node, t._nr = node, number
    t._rg = 2 if t._rg == 2 else 1
    if was is not None and t._ad is not None and t._ad.retains and was.retain is not None:
        kept = was.retain.pop(before, None)  # retain_grad follows the tensor, hooks stay with the old history
        if kept is not None:
            node.retain, node.hooked = {number: kept}, True


# ---------------------------------------------------------------- gradients arrive


_SINKS_OWN = 3  # references to a gradient that only the engine has, counted in `Accumulation.apply`


class Accumulation:
    """The rule of every leaf's sink."""

    node_name = "AccumulateGrad"

    @staticmethod
    def apply(node: Node, grad: Tensor, needed: Any, graph: bool) -> tuple[()]:
        """Add to the leaf's `.grad`. The first gradient is taken over if nobody else has it, else copied; later ones are added
        in place, but for create_graph, where the sum is a new tensor."""
        leaf = node.static()
        if leaf is None:
            return ()  # its graph would hold it: nobody has any
        ad = leaf._ad
        ad.lock.acquire()  # a `with` block takes three times as long
        try:
            wanted = leaf._rg == 1 or requires(leaf)  # the wish may have been taken back since
            if (
                # 2 = the tensor's slot and getrefcount's argument: memory that anything else reaches, be it a view, has more.
                # And who holds the tensor (another node, a hook, a user's list) would see later sums through it.
                getrefcount(grad) <= _SINKS_OWN
                and getrefcount(grad._buf) == 2
                and grad._buf.base is None
                and grad._spec is leaf._spec
                and ad.grad is None
                and grad._rg == 0
                and ad.grad_dtype is _SAME
                and wanted
                and not grad._spec.repeats
            ):
                ad.grad = grad
            elif grad is not None and wanted:
                _accumulate(leaf, ad, grad, state.grad)
        finally:
            ad.lock.release()
        if ad.post_hooks:
            for hook in list(ad.post_hooks.values()):
                asked, state.asked = state.asked, state.outside
                try:
                    got = hook(leaf)
                finally:
                    state.asked = asked
                if got is None or got is leaf:  # as what `lambda p: p.add_(p.grad)` gives
                    continue
                if isinstance(got, Tensor):
                    raise RuntimeError("Tensor post accumulate grad hooks should return None.")
                raise TypeError(f"expected Variable, but hook returned '{type(got).__name__}'")
        return ()

    @staticmethod
    def layouts(node: Node) -> tuple[Spec | None, ...]:
        leaf = node.static()
        return (None if leaf is None else leaf._spec,)


accumulation = Accumulation()


def _accumulate(leaf: Tensor, ad: AutogradMeta, grad: Tensor, graph: bool) -> None:
    if type(grad._spec) is Marked and grad.is_sparse:
        hooks.sparse_arrives(ad, grad, graph)
        return
    wanted = leaf._spec.dtype if ad.grad_dtype is _SAME else ad.grad_dtype
    fresh = grad._spec.dtype is not wanted and wanted is not None
    if fresh:
        grad = hooks.to_dtype(grad, wanted)
    have = ad.grad
    if have is not None and not graph and type(grad._spec) is not Marked:  # the usual one
        if shared.rare and state.modes.before_write is not None:
            state.modes.before_write(have)
        ad.grad = hooks.add_(have, grad)  # the same, unless one of them alone is sparse
        return
    sp = leaf._spec.plain.like(dtype=grad._spec.dtype)
    dense = sp.contiguous or layout.is_dense(sp.shape, sp.strides)
    if have is not None:
        ad.grad = hooks.add(have, grad)
    elif type(grad._spec) is Marked:  # it has a tangent, which only ops see
        ad.grad = hooks.clone(grad)
    elif graph:  # a copy that is recorded
        ad.grad = hooks.copy_(empty(sp), grad) if dense else hooks.laid_out(grad, sp.dense().strides)
    elif fresh and _same_layout(leaf._spec, grad._spec):
        ad.grad = grad  # memory that the cast made
    else:
        ad.grad = empty(sp if dense else sp.dense())
        hooks.copy_memory(ad.grad, grad)


def _same_layout(leaf: Spec, grad: Spec) -> bool:
    if leaf is grad or leaf.strides == grad.strides:
        return True
    return grad.contiguous and (leaf.contiguous or not layout.is_dense(leaf.shape, leaf.strides))


def check_grad(t: Tensor, grad: Any) -> None:
    if not isinstance(grad, Tensor):
        raise TypeError(
            f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}"
        )
    if type(grad._spec) is Marked and grad.layout is not t.layout and not grad.is_sparse:
        raise RuntimeError("attempting to assign a gradient to a tensor that has data of a different type")
    if grad is t:
        raise RuntimeError("can't assign Variable as its own grad")
    if grad._spec.dtype is not t._spec.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{grad._spec.dtype.c_name}' to a tensor with grad_dtype "
            f"'{t._spec.dtype.scalar_name}'. The gradient must match the tensor's grad_dtype (defaults to the tensor's "
            "dtype). You can set the tensor's grad_dtype attribute with a specific dtype, or None to allow any dtype. "
            "Set grad_dtype with caution. Diverging the dtypes of a tensor and its gradient may break downstream "
            "systems that assume they match."
        )
    if grad._spec.device != t._spec.device:
        raise RuntimeError(
            f"attempting to assign a gradient with device type '{grad._spec.device.type}' to a tensor with device type "
            f"'{t._spec.device.type}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if grad._spec.shape != t._spec.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{list(grad._spec.shape)}' to a tensor of size "
            f"'{list(t._spec.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )
