"""Images of another size, images read where a grid says, and channels divided by what is around them."""

from __future__ import annotations

from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.quick import quickly, replayed
from nbgrad.ops import pointwise as e
from nbgrad.ops.arrange.padding import pad
from nbgrad.ops.views.shape import reshape, squeeze, unsqueeze
from nbgrad.ops.windows.pooling import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    avg_pool2d,
    avg_pool3d,
)
from nbgrad.ops.windows.resampling import resample

_LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
_AREA = {3: adaptive_avg_pool1d, 4: adaptive_avg_pool2d, 5: adaptive_avg_pool3d}
_FORMAT = "Please provide input tensor in (N, C, d1, d2, ...,dK) format and {} format."


def _is_integer(n: Any) -> bool:
    if isinstance(n, Tensor):
        return not n.dtype.is_floating_point
    return hasattr(n, "__index__") and not isinstance(n, bool)


def _size(input: Tensor, size: Any) -> list[Any]:
    dims = input.dim() - 2
    if not isinstance(size, (list, tuple)):
        return [_number(size)] * dims
    if len(size) != dims:
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with spatial dimensions "
            f"of {list(input.shape[2:])} and output size of {size}. {_FORMAT.format('output size in (o1, o2, ...,oK)')}"
        )
    if not all(_is_integer(n) for n in size):
        raise TypeError(
            "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got size with "
            f"types {[type(n) for n in size]}"
        )
    return [_number(n) for n in size]


def _number(n: Any) -> Any:
    """What a tensor of one integer holds; else `n` itself, to be judged."""
    return n.item() if isinstance(n, Tensor) and n.numel() == 1 and not n.dtype.is_floating_point else n


def _factors(input: Tensor, scale_factor: Any) -> list[Any]:
    dims = input.dim() - 2
    if not isinstance(scale_factor, (list, tuple)):
        return [scale_factor] * dims
    if len(scale_factor) != dims:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
            f"dimensions of {list(input.shape[2:])} and scale_factor of shape {scale_factor}. "
            f"{_FORMAT.format('scale_factor in (s1, s2, ...,sK)')}"
        )
    return list(scale_factor)


def _check_mode(input: Tensor, mode: str, align_corners: bool, antialias: bool) -> None:
    """Whether there is such a mode for inputs of so many dimensions."""
    ndim = input.dim()
    if ndim in _LINEAR and mode in ("nearest", "nearest-exact", _LINEAR[ndim]):
        return
    if ndim == 4 and mode == "bicubic":
        return
    if ndim == 4 and mode == "lanczos":
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
        return
    needs = {name: count for count, name in _LINEAR.items()}.get(mode)
    if ndim in _LINEAR and needs is not None:
        raise NotImplementedError(f"Got {ndim}D input, but {mode} mode needs {needs}D input")
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {ndim}D) for the modes: nearest | linear | bilinear "
        f"| bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


@quickly(devices=True)
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The input, of examples with channels, in another size: `size`, or `scale_factor` times as large, in all dimensions after the
    second. `mode` says of what results are made: of the element that lies nearest ("nearest", or "nearest-exact", as other programs count
    it), of those around them, weighted ("linear", "bilinear", "trilinear", "bicubic"), or of means ("area"). With `align_corners` the
    middles of corners stay where they are, else their edges. With `antialias`, "bilinear", "bicubic" and "lanczos" average over what a
    smaller image leaves out. Of a `scale_factor` positions follow from the factor, or, with `recompute_scale_factor`, from the sizes.

    >>> F.interpolate(torch.tensor([[[1.0, 3.0]]]), size=4)
    tensor([[[1., 1., 3., 3.]]])
    >>> F.interpolate(torch.tensor([[[1.0, 3.0]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear"
        )
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    outs = None if size is None else _size(input, size)
    factors = None if scale_factor is None else _factors(input, scale_factor)
    if recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if factors is not None and (mode == "area" or recompute_scale_factor):
        outs, factors = [int(n * f) for n, f in zip(input.shape[2:], factors)], None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input"
        )
    if mode == "area" and input.ndim in _AREA:
        if input.ndim == 3:
            check("adaptive_avg_pool1d", (input, outs), {})
        return _AREA[input.ndim](input, outs)
    _check_mode(input, mode, bool(align_corners), antialias)
    return _resampled(input, mode, outs, factors, bool(align_corners), bool(antialias))


def _resampled(
    input: Tensor, mode: str, outs: Any, factors: Any, align_corners: bool, antialias: bool
) -> Tensor:
    kind = "linear" if mode.endswith("linear") else mode.removeprefix("bi")
    given = outs if factors is None else factors
    if not all(
        (_is_integer(n) and not isinstance(n, Tensor)) or (factors is not None and isinstance(n, float))
        for n in given
    ):
        name = f"upsample_{mode.replace('-', '_')}{input.dim() - 2}d"
        types = ", ".join([type(n).__name__ for n in given])
        raise TypeError(
            f"{name}() received an invalid combination of arguments - got a list of [{types}] as size or scale factors"
        )
    if factors is None:
        factors = [None] * len(outs)
    else:
        if not all(abs(n * f) < 2.0**63 for n, f in zip(input.shape[2:], factors)):
            raise RuntimeError("value cannot be converted to type int64_t without overflow")
        outs = [int(n * f) for n, f in zip(input.shape[2:], factors)]
    return resample(input, kind + "-aa" * antialias, tuple(outs), tuple(factors), align_corners)


def _deprecated(name: str) -> None:
    warn(f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.")


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """An older name of `interpolate`.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample(torch.tensor([[[1.0, 3.0]]]), size=4)
    tensor([[[1., 1., 3., 3.]]])
    """
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of `interpolate`, each result being the element that lies nearest.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample_nearest(torch.tensor([[[1.0, 3.0]]]), size=4)
    tensor([[[1., 1., 3., 3.]]])
    """
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """An older name of `interpolate` with "bilinear" and corners aligned.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     F.upsample_bilinear(torch.tensor([[[[1.0, 4.0]]]]), size=(1, 4))
    tensor([[[[1., 2., 3., 4.]]]])
    """
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


@replayed
def local_response_norm(
    input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0
) -> Tensor:
    """Each element divided by `(k + alpha * mean of squares) ** beta`, the mean being over `size` channels around its own.

    >>> F.local_response_norm(torch.ones(1, 2, 1), 2, alpha=1.0)
    tensor([[[0.7378],
             [0.5946]]])
    """
    dim = input.dim()
    if dim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality                          input (got {dim} dimensions)"
        )
    if input.numel() == 0:
        return input
    squares, around = e.mul(input, input), (size // 2, (size - 1) // 2)
    if dim == 3:
        padded = pad(unsqueeze(squares, 1), (0, 0, *around))
        means = squeeze(avg_pool2d(padded, (size, 1), 1), 1)
    else:
        count, channels, rows, *_ = input.shape
        padded = pad(reshape(squares, (count, 1, channels, rows, -1)), (0, 0, 0, 0, *around))
        means = reshape(squeeze(avg_pool3d(padded, (size, 1, 1), 1), 1), input.shape)
    return e.div(input, e.pow(e.add(e.mul(means, alpha), k), beta))


__all__ = ["interpolate", "local_response_norm", "upsample", "upsample_bilinear", "upsample_nearest"]
