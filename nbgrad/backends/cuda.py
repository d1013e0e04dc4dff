"""How CUDA's libraries are to compute, for scripts that choose it before they ask for a GPU: products by cuBLAS, where it is, go by it."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from typing import Any, Final

from nbgrad.backends._switches import switch
from nbgrad.kernels.cuda.blas import switches
from nbgrad.memory import gpu
from nbgrad.nn.attention import SDPBackend, sdpa_kernel
from nbgrad.nn.attention import enabled as _attention

_PRECISIONS: Final = ("highest", "high", "medium")


def is_built() -> bool:
    """Whether nbgrad computes on a GPU here.

    >>> torch.backends.cuda.is_built() == torch.cuda.is_available()
    True
    """
    return gpu.device_count() > 0


class _Precision:
    """How exactly float32 matrices are to be multiplied; `allow_tf32` is another word for it."""

    matmul = "highest"


def _set(precision: str) -> None:
    _Precision.matmul = precision
    switches.tf32 = precision != "highest"


def get_float32_matmul_precision() -> str:
    """How exactly float32 matrices are to be multiplied, as it was set.

    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    return _Precision.matmul


def set_float32_matmul_precision(precision: str) -> None:
    """Allow float32 matrices to be multiplied less exactly, "high" or "medium" in place of "highest": by cuBLAS on a GPU. Elsewhere they
    always are as exact as float32 is.

    >>> torch.set_float32_matmul_precision("high")
    >>> torch.backends.cuda.matmul.allow_tf32
    True
    >>> torch.set_float32_matmul_precision("highest")
    """
    if not isinstance(precision, str):
        raise RuntimeError(f"set_float32_matmul_precision expects a str, but got {type(precision).__name__}")
    if precision not in _PRECISIONS:
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the currentsetFloat32MatmulPrecision call has no effect.",
            UserWarning,
            stacklevel=2,
        )
        return
    _set(precision)


_SUMS: Final = {
    "allow_fp16_reduced_precision_reduction": "f2",
    "allow_bf16_reduced_precision_reduction": "g2",
}


class cuBLASModule:
    """The switches of `matmul`.

    >>> torch.backends.cuda.matmul.allow_fp16_accumulation
    False
    """

    def __init__(self) -> None:
        vars(self).update(
            allow_fp16_reduced_precision_reduction=True,
            allow_bf16_reduced_precision_reduction=True,
            allow_fp16_accumulation=False,
        )

    def __getattr__(self, name: str) -> Any:
        if name == "allow_tf32":
            return _Precision.matmul != "highest"
        if name == "fp32_precision":
            return "none" if _Precision.matmul == "highest" else "tf32"
        raise AttributeError(f"Unknown attribute {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "allow_tf32":
            switch("set_allow_tf32_cublas", value)
            _set("high" if value else "highest")
        elif name == "fp32_precision":
            if value not in ("none", "ieee", "tf32"):
                raise RuntimeError(f"Unknown precision: {value}")
            _set("high" if value == "tf32" else "highest")
        elif name == "allow_fp16_accumulation":
            switch("set_allow_fp16_accumulation_cublas", value)
            vars(self)[name] = value
        elif name not in vars(self):
            raise AttributeError(f"Unknown attribute {name}")
        elif not isinstance(value, bool):
            raise TypeError(f"{name} expects a bool or a tuple/list of bools, but got {type(value)!r}")
        else:
            vars(self)[name] = value
            if name in _SUMS:
                code = frozenset((_SUMS[name],))
                switches.whole_sums = switches.whole_sums - code if value else switches.whole_sums | code


matmul: Final = cuBLASModule()


def flash_sdp_enabled() -> bool:
    """Whether attention may be computed by CUDA's flash kernels, as it was set.

    >>> torch.backends.cuda.flash_sdp_enabled()
    True
    """
    return _attention["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Whether attention may be computed by CUDA's flash kernels. It is kept, and changes nothing here.

    >>> torch.backends.cuda.enable_flash_sdp(True)
    """
    switch("set_sdp_use_math", enabled)
    _attention["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may be computed by CUDA's kernels that save memory, as it was set.

    >>> torch.backends.cuda.mem_efficient_sdp_enabled()
    True
    """
    return _attention["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Whether attention may be computed by CUDA's kernels that save memory. It is kept, and changes nothing here.

    >>> torch.backends.cuda.enable_mem_efficient_sdp(True)
    """
    switch("set_sdp_use_math", enabled)
    _attention["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Whether attention may be computed op by op, as it was set.

    >>> torch.backends.cuda.math_sdp_enabled()
    True
    """
    return _attention["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Whether attention may be computed op by op. It is kept, and changes nothing here.

    >>> torch.backends.cuda.enable_math_sdp(True)
    """
    switch("set_sdp_use_math", enabled)
    _attention["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Whether attention may be computed by cuDNN, as it was set.

    >>> torch.backends.cuda.cudnn_sdp_enabled()
    True
    """
    return _attention["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Whether attention may be computed by cuDNN. It is kept, and changes nothing here.

    >>> torch.backends.cuda.enable_cudnn_sdp(True)
    """
    switch("set_sdp_use_cudnn", enabled)
    _attention["cudnn"] = enabled


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, object]]:
    """The older word for `torch.nn.attention.sdpa_kernel`.

    >>> with torch.backends.cuda.sdp_kernel(enable_flash=False):
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    """
    warnings.warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context manager will be removed. Please see "
        "`torch.nn.attention.sdpa_kernel()` for the new context manager, with updated signature.",
        FutureWarning,
        stacklevel=3,
    )
    ways = {
        SDPBackend.FLASH_ATTENTION: enable_flash,
        SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient,
        SDPBackend.MATH: enable_math,
        SDPBackend.CUDNN_ATTENTION: enable_cudnn,
    }
    with sdpa_kernel([way for way, on in ways.items() if on]) as context:
        yield context


def is_flash_attention_available() -> bool:
    """Whether there are flash kernels: none.

    >>> torch.backends.cuda.is_flash_attention_available()
    False
    """
    return False


__all__ = [
    "cuBLASModule",
    "cudnn_sdp_enabled",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "sdp_kernel",
]
