"""What tensors of real numbers on a CPU answer to questions that PyTorch asks of all its kinds: which parts they have, how they are
laid out, where they are."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from nbgrad.base.warn import warn_once
from nbgrad.core.arguments import before_guard
from nbgrad.core.tensor import Tensor, fix, hooks, wrap
from nbgrad.dispatch.stanza import method
from nbgrad.memory import dtypes, gpu, pinned
from nbgrad.memory.device import device as _device
from nbgrad.memory.layout import memory_format
from nbgrad.ops.pointwise.parts import conj
from nbgrad.ops.views.copy import fill_, to_dtype, zero_
from nbgrad.ops.views.order import transpose


def _size_before(slow: Callable[..., Any]) -> Callable[..., Any]:
    def short(*args: Any, **more: Any) -> Any:
        try:
            if len(args) == 1 and not more:
                return args[0]._spec.shape
            if len(args) == 2 and not more and args[1].__class__ is int:
                return tuple.__getitem__(args[0]._spec.shape, args[1])
        except (AttributeError, IndexError):
            pass
        return slow(*args, **more)

    return short


Tensor.size = before_guard(_size_before, Tensor.size)  # type: ignore[method-assign]

# ---------------------------------------------------------------- parts of numbers


@method
def resolve_conj(input: Tensor) -> Tensor:
    """The tensor with a conjugation that waits carried out: itself, as none ever waits here.

    >>> torch.ones(2).resolve_conj()
    tensor([1., 1.])
    """
    return input


@method
def is_conj(input: Tensor) -> bool:
    """Whether a conjugation waits to be carried out: never here.

    >>> torch.ones(2).is_conj()
    False
    """
    return False


@method
def resolve_neg(input: Tensor) -> Tensor:
    """The tensor with a change of sign that waits carried out: itself, as none ever waits here.

    >>> torch.ones(2).resolve_neg()
    tensor([1., 1.])
    """
    return input


@method
def is_neg(input: Tensor) -> bool:
    """Whether a change of sign waits to be carried out: never here.

    >>> torch.ones(2).is_neg()
    False
    """
    return False


@method
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of every matrix: the last two dimensions exchanged, of real numbers as a view.

    >>> torch.arange(6).view(2, 3).adjoint()
    tensor([[0, 3],
            [1, 4],
            [2, 5]])
    """
    if input.ndim == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    if not input.ndim:
        warn_once("adjoint() is deprecated on 0-D tensors. Consider using x.conj().")
        return hooks.conj(input) if input.is_complex() else hooks.alias(input)
    turned: Tensor = conj(transpose(input, -2, -1))
    return turned


# ---------------------------------------------------------------- layout and place


class layout:
    """How elements are stored; here always with strides, `torch.strided`.

    >>> torch.ones(2).layout
    torch.strided
    """

    __module__ = "nbgrad"  # where users find it

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"torch.{self._name}"

    def __reduce__(self) -> str:
        return self._name


strided = layout("strided")
newaxis = None

Tensor.layout = property(lambda self: strided, doc=layout.__doc__)  # type: ignore[assignment, method-assign]
fix("layout")


def _always(name: str, answer: bool) -> property:
    words = f"Whether the tensor is of this kind or in this place; here always {answer}."
    return property(lambda self: answer, doc=f"{words}\n\n    >>> torch.ones(2).{name}\n    {answer}\n    ")


_OTHER_PLACES = ("ipu", "maia", "mkldnn", "mps", "mtia", "vulkan", "xla", "xpu")
_OTHER_KINDS = ("nested", "quantized", "sparse", "sparse_csr")
for _name in (f"is_{_kind}" for _kind in (*_OTHER_PLACES, *_OTHER_KINDS)):
    setattr(Tensor, _name, _always(_name, False))


@method
def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is locked for copies to a GPU.

    >>> torch.ones(2).is_pinned()
    False
    """
    return self.is_cpu and pinned.is_pinned(self._buf)


@method
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in memory that is locked for copies to a GPU, which there must be.

    >>> torch.ones(2).pin_memory() if torch.cuda.is_available() else "none"
    'none'
    """
    if self.is_meta:
        raise RuntimeError(
            f"cannot pin 'Meta{self.dtype.scalar_name}Type' only dense CPU tensors can be pinned"
        )
    if self.is_cuda:
        raise RuntimeError(
            f"cannot pin 'torch.cuda.{self.dtype.scalar_name}Tensor' only dense CPU tensors can be pinned"
        )
    if not gpu.device_count():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if self.is_pinned():
        return self
    gpu.of(_device("cuda"))
    sp = self._spec
    made = wrap(pinned.empty(sp.nbytes), sp.dense() if sp.repeats else sp)
    return made.copy_(self)


def in_pinned(t: Tensor) -> Tensor:
    """What was just made, as a factory is asked for it by `pin_memory=True`."""
    if t.is_meta:
        return t
    if t.is_cuda:
        raise RuntimeError("Only dense CPU tensors can be pinned")
    if not gpu.device_count():
        raise RuntimeError(
            "pin_memory=True requires a CUDA or other accelerator backend; no pinned memory allocator is available on this system."
        )
    return pin_memory(t.detach()).requires_grad_(t.requires_grad)


hooks.pinned = in_pinned


@method
def record_stream(self: Tensor, s: Any) -> None:
    """Keep the memory, when nobody has the tensor any more, until `s`, a queue of a GPU's work, has done what it was asked.

    >>> x = torch.ones(2)
    >>> x.record_stream(torch.cuda.current_stream()) if torch.cuda.is_available() else "none"
    'none'
    """
    if not hasattr(s, "cuda_stream"):
        raise RuntimeError("unknown parameter type")
    buffer = self._buf
    block = getattr(buffer, "base", None) or buffer
    if isinstance(block, gpu.Block) and block.stream != s.cuda_stream:
        block.serves.pool.used_by(block.address, s.cuda_stream)


@method
def get_device(input: Tensor) -> int:
    """The number of the GPU that holds the tensor; -1 for the CPU.

    >>> torch.ones(2).get_device()
    -1
    """
    return input._spec.device.index if input._spec.device.index is not None else -1


@method
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Dimensions from the one with the largest steps in memory on. With `ambiguity_check` it is refused where sizes of 1 or equal steps
    leave a choice; or, if that is a list of memory formats, where moreover not one of them alone fits.

    >>> torch.ones(2, 3, 4).permute(2, 0, 1).dim_order()
    (1, 2, 0)
    """
    listed = isinstance(ambiguity_check, list)
    if not isinstance(ambiguity_check, bool) and not (
        listed and all([isinstance(f, memory_format) for f in ambiguity_check])
    ):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    steps = self.stride()
    open_ = 1 in tuple(self.shape) or any([a == b for a, b in pairwise(steps)])
    if (listed or ambiguity_check) and open_:
        fitting = [self.is_contiguous(memory_format=f) for f in ambiguity_check] if listed else []
        if sum(fitting) != 1:
            raise RuntimeError(
                "The tensor does not have unique dim order, or cannot map to exact one of the given memory formats."
            )
    return tuple(sorted(range(self.ndim), key=lambda d: -self.stride(d)))


@method
def dense_dim(self: Tensor) -> int:
    """How many dimensions are stored in full: all of them.

    >>> torch.ones(2, 3).dense_dim()
    2
    """
    return self.ndim


@method
def sparse_dim(self: Tensor) -> int:
    """How many dimensions are stored by index: none.

    >>> torch.ones(2, 3).sparse_dim()
    0
    """
    return 0


@method
def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with all elements stored: itself, in `dtype` if one is given.

    >>> torch.ones(2).to_dense()
    tensor([1., 1.])
    """
    return self if dtype is None else to_dtype(self, dtype)


@method
def is_distributed(input: Tensor) -> bool:
    """Whether the tensor is spread over several machines: never here.

    >>> torch.is_distributed(torch.ones(2))
    False
    """
    return False


def is_inference(input: Tensor) -> bool:
    """Whether `input` was made in `torch.inference_mode`, so that no graph may use it.

    >>> torch.is_inference(torch.ones(2))
    False
    """
    return input.is_inference()


def is_signed(input: Tensor) -> bool:
    """Whether the elements of `input` may be negative.

    >>> torch.is_signed(torch.ones(2)), torch.is_signed(torch.ones(2, dtype=torch.uint8))
    (True, False)
    """
    return input.dtype not in (dtypes.uint8, dtypes.bool_)


# ---------------------------------------------------------------- methods that are functions too


def detach(input: Tensor) -> Tensor:
    """The same values in the same memory without history: no gradient flows back through it.

    >>> torch.detach(torch.ones(2, requires_grad=True))
    tensor([1., 1.])
    """
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Forget the history of a tensor in place.

    >>> torch.detach_(torch.ones(2, requires_grad=True) * 2)
    tensor([2., 2.])
    """
    return input.detach_()


def fill(input: Tensor, value: Any) -> Tensor:
    """A tensor like `input` with `value` for every element. `input` gets no gradient, a tensor `value` the sum.

    >>> torch.fill(torch.zeros(2), 7)
    tensor([7., 7.])
    """
    return fill_(input.clone(), value)


__all__ = [
    *(
        "adjoint",
        "detach",
        "detach_",
        "fill",
        "fill_",
        "get_device",
    ),
    *(
        "is_conj",
        "is_distributed",
        "is_inference",
        "is_neg",
        "is_signed",
        "layout",
        "newaxis",
        "resolve_conj",
        "resolve_neg",
        "strided",
    ),
    "zero_",
]
