"""What PyTorch says where a tensor may not be written to, viewed, or asked for its values."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from nbgrad.tape.modes import state
from nbgrad.tape.node import Node

if TYPE_CHECKING:
    from nbgrad.core.tensor import Tensor, View
    from nbgrad.memory.dtypes import dtype


INSIDE = (
    "You are attempting to call Tensor.{} inside of a function being transformed by a functorch transform. This is unsupported, "
    "please attempt to use the functorch transforms (e.g. grad, vjp, jacrev, jacfwd, hessian) or call {} outside of a function being "
    "transformed instead."
)
NO_VALUES = (
    "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet, please "
    "file an issue at https://github.com/pytorch/pytorch/issues ."
)
NON_LEAF_GRAD = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
    "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, "
    "use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you access the "
    "leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information."
)
SIZES_DIFFER = (
    "Using a target size ({}) that is different to the input size ({}). This will likely lead to incorrect results due to "
    "broadcasting. Please ensure they have the same size."
)

LEAF_WRITE = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF_WRITE = "a view of a leaf Variable that requires grad is being used in an in-place operation."
OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)
PARTIAL = (
    "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


def lacks_complex(kernel: str, d: dtype) -> None:
    """Refuse complex numbers in the words of PyTorch's kernel of that name, which takes none."""
    if d.is_complex:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")


def lacks_kernel(kernel: str, d: dtype) -> None:
    """The same of complex numbers and of dtypes that are kept alone."""
    if d.is_complex or d.kept:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")


def kind_of(d: dtype) -> str:
    """What PyTorch calls a tensor of a dtype: by its class, where Python has one for it."""
    return (
        f"CPU{d.scalar_name}Type" if d.is_complex or d.kept or d.name in ("bool", "bfloat16") else d.type_name
    )


def no_complex_gradient(name: str, *operands: Tensor) -> None:
    """Refuse to record what PyTorch has no gradient of where the result is complex."""
    if state.grad and any([t.requires_grad for t in operands]) and any([t.is_complex() for t in operands]):
        raise RuntimeError(
            f"{name} does not support automatic differentiation for outputs with complex dtype."
        )


def _forbidden(t: Tensor, view: View, modified: str) -> str:
    """Why a view that history cannot follow was not to be written to; `modified` says what has been."""
    if view.created in ("no_grad", "inference") or t._node is None:
        start = "A view was created in"
        if t._node is not None:
            start = f"Output {t._nr} of {title(t._node)} is a view of a view which was created in"
        inference = view.created == "inference"
        inside, outside = (
            ("inference mode", "normal mode") if inference else ("no_grad mode", "grad mode enabled")
        )
        head = f"{start} {inside} and {modified} modified inplace {'in' if inference else 'with'} {outside}."
    else:
        head = f"Output {t._nr} of {title(t._node)} is a view and {modified} modified inplace."
    return head + _WHY[view.created]


_MODE_VIEW = (
    " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the "
    "view and the inplace either both inside the {0} block (if you don't want the inplace to be tracked) or both outside (if "
    "you want the inplace to be tracked)."
)
_WHY = {
    "no_grad": _MODE_VIEW.format("no_grad"),
    "inference": _MODE_VIEW.format("inference_mode"),
    "multi": " This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should replace the inplace operation by an out-of-place one.",
    "function": " This view was created inside a custom Function (or because an input was returned as-is) and the autograd logic "
    "to handle view+inplace would override the custom backward associated with the custom Function, leading to incorrect "
    "gradients. This behavior is forbidden. You can fix this by cloning the output of the custom Function.",
}


def title(node: Node) -> str:
    """A node's name as PyTorch's messages write it: Exp for ExpBackward0, Sum1 for SumBackward1."""
    name, found, number = node.name().rpartition("Backward")
    return name + number.removeprefix("0") if found and (not number or number.isdigit()) else node.name()


def written_as(node: Node) -> str:
    """The origin of what a node saved of its own output. As in PyTorch a write through a view goes by the history that the view
    got from it, as long as that is there."""
    seen = node.through_view
    return title(node if seen is None else seen() or node)


def _alike(words: str, names: str) -> dict[str, str]:
    return {name: words.format(name) for name in names.split()}


# What PyTorch says of elementwise ops that take no complex numbers, by the op's name; of others, that their kernel is not implemented.
_NOT_COMPLEX: dict[type[Exception], dict[str, str]] = {
    NotImplementedError: {
        **_alike("{} is not supported for complex inputs", "floor ceil trunc"),
        **_alike("clamp is not supported for complex types", "clamp clamp_min clamp_max relu hardtanh"),
        **_alike("{} is not implemented for complex tensors.", "signbit"),
        "sign": "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.",
    },
    RuntimeError: {
        **_alike("{} not implemented for complex tensors.", "maximum minimum fmax fmin"),
        **_alike("{} does not support complex inputs.", "isneginf isposinf"),
        **_alike("{} is not supported for complex tensors.", "deg2rad rad2deg"),
        "heaviside": "heaviside is not yet implemented for complex tensors.",
        "abs_": "In-place abs is not supported for complex tensors.",
    },
}
_KERNELS = {
    **_alike("{}_vml_cpu", "erf erfc erfinv i0 lgamma round"),
    **{
        "gelu": "GeluKernelImpl",
        "gelu_tanh": "GeluKernelImpl",
        "celu": "elu_cpu",
        "ndtr": "erf_vml_cpu",
        "special_ndtr": "erf_vml_cpu",
        "digamma": "digamma",
        "logsigmoid": "log_sigmoid_cpu",
    },
    **{
        "div_trunc_int": "div_trunc_cpu",
        "bitwise_left_shift": "lshift_cpu",
        "bitwise_right_shift": "rshift_cpu",
    },
    **{"softshrink": "softshrink_check", "rrelu_with_noise": "leaky_relu_cpu"},
}
_COMPUTED = {"logit", "gelu_tanh"}  # which a complex kernel could compute, and PyTorch does not


def check_complex(name: str, scalar_name: str) -> None:
    """Refuse an op, by its name, that has no complex form in PyTorch."""
    for error, words in _NOT_COMPLEX.items():
        found = words.get(name) or words.get(name.removesuffix("_"))
        if found is not None:
            raise error(found)
    if name in _COMPUTED:
        refuse_complex(name, scalar_name)


def refuse_complex(name: str, scalar_name: str) -> NoReturn:
    kernel = _KERNELS.get(name, f"{name.removeprefix('special_')}_cpu")
    raise NotImplementedError(f"\"{kernel}\" not implemented for '{scalar_name}'")


# Ops by name that PyTorch has of what is kept: moves of all, arithmetic of integers without sign and of floats of 8 bits.
_MOVED = """
    to_copy dense_copy clone cat stack repeat flip rolled rot90 diagonal_copy diag_embed constant part true where eq ne mul isnan isreal
    unique2 unique_dim unique_consecutive masked_select nonzero
"""
_COUNTED = """
    bitwise_and bitwise_or bitwise_xor sum sum_all prod prod_all nansum sorted_along argsort floor ceil trunc round isinf isfinite
    nan_to_num isneginf isposinf signbit
"""
_MOVES, _UNSIGNED = frozenset(_MOVED.split()), frozenset(_COUNTED.split())
_KEPT_KERNELS = {
    **_alike("add_stub", "add sub rsub"),
    **_alike("{}_cpu", "neg abs bitwise_not remainder lt le gt ge topk kthvalue mode amax amin aminmax"),
    **_alike("{}", "max_all min_all cross masked_fill trace"),
    **_alike(
        "{}_vml_cpu",
        "sqrt exp log log2 log10 log1p expm1 sin cos tan sinh cosh tanh asin acos atan floor ceil round trunc rsqrt",
    ),
    **_alike("{}_out_cpu", "cumsum cumprod logcumsumexp"),
    **{"amax": "max_values_cpu", "amin": "min_values_cpu", "logsumexp": "max_values_cpu"},
    **{"max_dim": "max_cpu", "min_dim": "min_cpu", "median_of_all": "median_cpu", "norm": "norm_cpu"},
    **{
        "place": "argmax_cpu",
        "place_of_all": "argmax_cpu",
        "prod": "prod_out_cpu",
        "prod_all": "prod_out_cpu",
    },
    **_alike("sum_cpu", "sum sum_all mean mean_all"),
    **_alike("sorting_kernel_method_name", "sorted_along argsort"),
    **_alike("pow", "pow_tensor pow_number square"),
    **_alike("maximum_cpu", "maximum fmax"),
    **_alike("minimum_cpu", "minimum fmin"),
    **_alike("sign_cpu", "sign sgn"),
    **_alike("nonzero_count_cpu", "count_nonzero"),
    **{
        "softmax": "softmax_kernel_impl",
        "log_softmax": "log_softmax_lastdim_kernel_impl",
        "mse_loss": "mse_cpu",
    },
    **{"clamp": "clamp_scalar_cpu", "clamp_min": "clamp_min_scalar_cpu", "clamp_max": "clamp_max_scalar_cpu"},
    **{"relu": "clamp_min_scalar_cpu", "lerp": "lerp_kernel_scalar", "addcmul": "addcmul_cpu_out"},
    **{"addcdiv": "addcdiv_cpu_out", "pool": "max_pool2d", "columns": "im2col_out_cpu", "isinf": "isinf"},
    **{"isfinite": "isfinite", "nan_to_num": "nan_to_num"},
}


def check_kept(name: str, d: dtype) -> None:
    """Refuse an op, by its name, that PyTorch has not of a dtype that is kept."""
    if (
        name in _MOVES
        or (name in _UNSIGNED and not d.inexact)
        or (name == "abs" and d.inexact and d.is_signed)
    ):
        return
    kernel = _KEPT_KERNELS.get(name) or _KERNELS.get(name) or f"{name.removeprefix('special_')}_cpu"
    raise NotImplementedError(f"\"{kernel}\" not implemented for '{d.scalar_name}'")
