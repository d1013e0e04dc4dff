"""Images read where a grid says, with PyTorch's checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.signatures import check
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.quick import Quick, quickly, replayed
from nbgrad.memory.storage import Spec
from nbgrad.ops.windows import grids
from nbgrad.ops.windows.geometry import check_dtype

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
_CHANGED = (
    "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please specify "
    "align_corners=True if the old behavior is desired. See the documentation of grid_sample for details."
)


def _sizes(input: Tensor, grid: Tensor) -> str:
    return f"but got input with sizes {list(input.shape)} and grid with sizes {list(grid.shape)}"


def _check(input: Tensor, grid: Tensor, mode: int) -> None:
    if input._spec.device is not grid._spec.device:
        raise RuntimeError(
            f"grid_sampler(): expected input and grid to be on same device, but input is on {input._spec.device} and grid is on "
            f"{grid._spec.device}"
        )
    if input.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, {_sizes(input, grid)}"
        )
    if grid.shape[-1] != input.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {input.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(grid.shape)}"
        )
    for d, n in enumerate(input.shape[2:], 2):
        if n == 0:
            raise RuntimeError(
                "grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes "
                f"{list(input.shape)} with dimension {d} being empty"
            )
    dims = 2 if input.ndim == 4 else 3
    if input.ndim != dims + 2 or grid.ndim != input.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected {dims + 2}D input and grid with same number of dimensions, {_sizes(input, grid)}"
        )
    if dims == 3 and mode == 2:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    kernel = "grid_sampler_2d_cpu_kernel_impl" if dims == 2 else "grid_sampler3d_cpu"
    check_dtype(kernel, input.dtype, input.dtype.is_floating_point)
    if input.dtype is not grid.dtype:
        raise RuntimeError(
            f"expected scalar type {input.dtype.scalar_name} but found {grid.dtype.scalar_name}"
        )


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`grid_sample` with its modes as numbers: 0, 1, 2 for "bilinear", "nearest", "bicubic"; and for "zeros", "border", "reflection".

    >>> x = torch.tensor([[[[1.0, 3.0]]]])
    >>> torch.grid_sampler(x, torch.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[2.]]]])
    """
    _check(input, grid, interpolation_mode)
    found: Tensor = grids.sampler[input.ndim - 2](
        input,
        grid,
        mode=grids.MODES[min(interpolation_mode, 2)],
        padding=padding_mode,
        corners=align_corners,
        orders=(0,) * (input.ndim - 2),
    )
    return found


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """The same for planes.

    >>> torch.grid_sampler_2d(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 0, 0, True)
    tensor([[[[1.]]]])
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """The same for volumes.

    >>> torch.grid_sampler_3d(torch.ones(1, 1, 2, 2, 2), torch.zeros(1, 1, 1, 1, 3), 0, 0, True)
    tensor([[[[[1.]]]]])
    """
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def _planned(input: Spec, grid: Spec, mode: Any, padding_mode: Any, align_corners: Any) -> Quick | None:
    if type(align_corners) is not bool or not (input.canonical and grid.canonical) or not input.numel:
        return None
    numbers = GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode]
    return grids.reading(input, grid, numbers[0], numbers[1], align_corners)


@quickly(_planned, devices=True)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """`input` (examples, channels, rows, columns) read at the places in `grid` (examples, rows, columns, 2): x and y from -1 to 1, which
    are the middles of the outermost elements (`align_corners`) or their edges. `mode` says of what a result is made: of the elements around
    ("bilinear"), of more of them ("bicubic"), or of the nearest. Beyond the edges there are zeros, the "border", or a "reflection".
    Volumes have three coordinates. Input and grid have gradients of every order.

    >>> x = torch.tensor([[[[1.0, 3.0]]]])
    >>> F.grid_sample(x, torch.tensor([[[[0.5, 0.0], [-1.0, 0.0]]]]), align_corners=True)
    tensor([[[[2.5000, 1.0000]]]])
    """
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warn(_CHANGED)
    numbers = GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode]
    settings = (*numbers, bool(align_corners))
    check("grid_sampler", (input, grid, *settings), {})
    return grid_sampler(input, grid, *settings)


@replayed
def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """`affine_grid` without its checks.

    >>> torch.affine_grid_generator(torch.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2), True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    if len(size) not in (4, 5):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    if theta.shape[0] != size[0]:
        dims = len(size) - 1
        raise RuntimeError(
            f"Expected size for first two dimensions of batch2 tensor to be: [{size[0]}, {dims}] but got: "
            f"[{theta.shape[0]}, {dims}]."
        )
    grid: Tensor = grids.affine_grid(theta, size=tuple(size[2:]), corners=bool(align_corners))
    return grid


@replayed
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """For `grid_sample`: where the maps `theta` (examples, 2, 3) take the elements of an image of this `size` (examples, channels, rows,
    columns); volumes have maps of 3 rows and 4 columns. -1 and 1 are the middles of the outermost elements, or their edges.

    >>> F.affine_grid(torch.tensor([[[2.0, 0.0, 0.0], [0.0, 1.0, 0.5]]]), (1, 1, 1, 2), align_corners=False)
    tensor([[[[-1.0000,  0.5000],
              [ 1.0000,  0.5000]]]])
    """
    if align_corners is None:
        warn(_CHANGED)
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    dims = len(size) - 2
    if dims not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. "
            f"Got size {size}."
        )
    if theta.dim() != 3 or theta.shape[1:] != (dims, dims + 1):
        raise ValueError(
            f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {size}. Got {theta.shape}."
        )
    if align_corners and min(size[2:]) == 1:
        warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when align_corners=True. This is "
            "not an intended use case of affine_grid. See the documentation of affine_grid for details."
        )
    elif min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {size}")
    check("affine_grid_generator", (theta, size, bool(align_corners)), {})
    return affine_grid_generator(theta, size, bool(align_corners))


__all__ = ["affine_grid", "grid_sample"]
