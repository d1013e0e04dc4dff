"""What `EmbeddingBag` computes."""

from __future__ import annotations

from typing import Any

from nbgrad.base.warn import warn
from nbgrad.core.refusals import kind_of
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch import transforms
from nbgrad.dispatch.elementwise import differentiable
from nbgrad.memory import dtypes
from nbgrad.memory.storage import Spec
from nbgrad.nn._maps import rows_alone, shorten
from nbgrad.ops import pointwise as e
from nbgrad.ops.make import counted, filled
from nbgrad.ops.reduce import sums
from nbgrad.ops.rows import bags
from nbgrad.ops.views.copy import to_dtype, zeros
from nbgrad.ops.views.join import cat
from nbgrad.ops.views.shape import reshape
from nbgrad.ops.views.slices import narrow

_MODES = "sum", "mean", "max"


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Of the rows of `weight` that the integers in each bag name, the sum, mean or largest elements: a row per bag, of zeros if it is
    empty. Bags are the rows of a two-dimensional input, or the parts of a line that begin at `offsets` (with
    `include_last_offset` the last of these is where the last bag ends). Of "sum", `per_sample_weights` are what each row is
    multiplied by. The row `padding_idx` does not count; `max_norm` and `scale_grad_by_freq` are as in `F.embedding`.

    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> F.embedding_bag(torch.tensor([0, 1, 2]), table, torch.tensor([0, 2]))
    tensor([[2., 3.],
            [5., 6.]])
    """
    if weight.dtype is dtypes.int64 and input.is_floating_point():
        warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, ...)` is deprecated, and "
            "should now be `embedding_bag(input, weight, ...)`."
        )
        weight, input = input, weight
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same shape as the "
            f"input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, "
                f"found offsets of type {type(offsets)}"
            )
        offsets = counted.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        include_last_offset, input = False, reshape(input, (-1,))
        per_sample_weights = None if per_sample_weights is None else reshape(per_sample_weights, (-1,))
    elif input.dim() != 1:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    elif offsets is None or offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor" + " but got None" * (offsets is None))
    _check_mode(mode, scale_grad_by_freq, sparse)
    if max_norm is not None:
        shorten(weight, input, float(max_norm), float(norm_type))
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' (got "
            f"mode='{mode}'). Please open a feature request on GitHub."
        )
    return _bags(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        mode,
        per_sample_weights,
        include_last_offset,
        padding_idx,
        sparse,
    )[0]


def _check_mode(mode: str, by_freq: bool, sparse: bool) -> None:
    if mode not in _MODES:
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if sparse and mode == "max":
        raise ValueError("max mode does not support sparse weights")


def torch_embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What `F.embedding_bag` computes, `mode` being 0 for sums, 1 for means, 2 for largest elements; then to which bag each index belongs,
    how many rows a bag has, and of largest elements whose they are. Of sums these are zeros, or left out.

    >>> table, zero = torch.tensor([[1.0, 2.0], [3.0, 0.0]]), torch.tensor([0])
    >>> torch.embedding_bag(table, torch.tensor([0, 1]), zero, mode=2)
    (tensor([[3., 2.]]), tensor([0, 0]), tensor([2]), tensor([[1, 0]]))
    """
    for name, given, dims in ("input", indices, (1, 2)), ("offsets", offsets, (1,)), ("weight", weight, (2,)):
        if given.dim() not in dims:
            wanted = " or ".join(f"{d}D" for d in dims)
            raise RuntimeError(
                f"{name} has to be a {wanted} Tensor, but got Tensor of dimension {given.dim()}"
            )
    if mode not in range(3):
        raise RuntimeError("`mode` must be sum, mean, or max.")
    _check_mode(_MODES[mode], scale_grad_by_freq, sparse)
    made, bag, size, top = _bags(
        weight,
        indices,
        offsets,
        scale_grad_by_freq,
        _MODES[mode],
        per_sample_weights,
        include_last_offset,
        padding_idx,
        sparse,
    )
    if mode == 0:
        size = top = zeros(size._spec)
        bag = narrow(bag, 0, 0, 0) if padding_idx is None else bag
    if mode == 1:
        top = size.clone()
    d = dtypes.promote_types(indices.dtype, offsets.dtype)
    bag, size, top = (to_dtype(t, d) for t in (bag, size, top))
    return made, bag, size, top


def _bags(
    weight: Tensor,
    index: Tensor,
    offsets: Tensor,
    by_freq: bool,
    mode: str,
    scale: Tensor | None,
    last: bool,
    padding: int | None,
    sparse: bool,
) -> tuple[Tensor, ...]:
    d = dtypes.promote_types(index.dtype, offsets.dtype)
    if d not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"torch.{d.scalar_name}Tensor instead (while checking arguments for embedding_bag)"
        )
    if not weight.dtype.is_floating_point:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but "
            f"got {kind_of(weight.dtype)} instead (while checking arguments for embedding_bag)"
        )
    if scale is not None and scale.dtype is not weight.dtype:
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type "
            f"torch.{weight.dtype.scalar_name}Tensor does not equal torch.{scale.dtype.scalar_name}Tensor (while checking arguments "
            "for embedding_bag)"
        )
    rows = weight.shape[0]
    if padding is not None and not -rows <= padding < rows:
        raise RuntimeError(
            f"padding_idx must be within the number of embeddings, -{rows} through {rows - 1}, but got {padding}"
        )
    # PyTorch has a way of its own for these, which ends the last bag where it is told to; others let it take all that is left.
    quick = mode != "max" and padding is None and weight.dtype is not dtypes.float64
    starts, index, scale = _parts(
        to_dtype(offsets, dtypes.int64), to_dtype(index, dtypes.int64), scale, last, quick
    )
    _check_rows(transforms.innermost(index), rows, quick)
    settings: dict[str, Any] = {
        "mode": mode,
        "padding": -1 if padding is None else padding % rows,
        "by_freq": bool(by_freq),
    }
    if sparse and rows_alone(weight):
        return _bags_of_rows(weight, index, starts, scale, **settings)
    return _computed(weight, index, starts, scale, settings)


def _computed(
    weight: Tensor, index: Tensor, starts: Tensor, scale: Tensor | None, settings: dict[str, Any]
) -> tuple[Tensor, ...]:
    if not weight.dtype.narrow:
        return bags.bag(weight, index, starts, scale, **settings)
    wide = [None if t is None else to_dtype(t, dtypes.float32) for t in (weight, scale)]
    made, *others = bags.bag(wide[0], index, starts, wide[1], **settings)
    return to_dtype(made, weight.dtype), *others


def _gradient_by_row(
    g: list[Any],
    weight_spec: Spec,
    index: Tensor,
    scale: Tensor | None,
    y1: Tensor,
    y2: Tensor,
    mode: str,
    padding: int,
    by_freq: bool,
) -> Tensor:
    if by_freq:
        raise RuntimeError("embedding_backward: scale_grad_by_freq not supported with sparse gradients")
    from nbgrad.sparse._gradients import of_rows

    return of_rows(bags.rows_of(g[0], scale, y1, y2, mode), index, weight_spec, padding)


def _gradient_by_scale(g: list[Any], weight: Tensor, index: Tensor, y1: Tensor, padding: int) -> Tensor:
    return to_dtype(bags._by_scale(g, weight, index, y1, padding), weight.dtype)


@differentiable("EmbeddingBag", weight=_gradient_by_row, scale=_gradient_by_scale)
def _bags_of_rows(
    weight: Tensor, index: Tensor, starts: Tensor, scale: Tensor | None, **settings: Any
) -> tuple[Tensor, ...]:
    return _computed(weight, index, starts, scale, settings)


def _parts(
    offsets: Tensor, index: Tensor, scale: Tensor | None, last: bool, quick: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Where bags begin and the last one ends; the indices that lie in bags, and what belongs to them."""
    count = index.shape[0]
    if not transforms.innermost(offsets)._spec.backend.holds:
        return filled.empty(offsets.shape[0] + (not last), dtype=dtypes.int64, device="meta"), index, scale
    given: list[int] = offsets.tolist()
    if last and not given:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if given and given[0]:
        raise RuntimeError(
            "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got "
            f"{given[0]}\n[ torch.{offsets.dtype.scalar_name}Tensor{{}} ]"
        )
    if given and given[-1] > count:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {given[-1]}"
        )
    if given != sorted(given):
        raise RuntimeError("embedding_bag: offsets must not decrease")
    if last and (quick or given[-1] == count):
        end = given[-1]
        return offsets, narrow(index, 0, 0, end), None if scale is None else narrow(scale, 0, 0, end)
    starts = narrow(offsets, 0, 0, len(given) - last)
    end_: Any = filled.full((1,), count, dtype=dtypes.int64, device=offsets.device)
    return cat([starts, end_]), index, scale


def _check_rows(index: Tensor, rows: int, quick: bool) -> None:
    if not index._spec.backend.holds or not sums.any(e.logical_or(e.lt(index, 0), e.ge(index, rows))):
        return
    values: list[int] = reshape(index, (-1,)).tolist()
    place, value = next((k, v) for k, v in enumerate(values) if not 0 <= v < rows)
    if not quick:
        raise RuntimeError(
            f"embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be {value}"
        )
    raise RuntimeError(
        f"Index {place} of input takes value {value} which is not in the valid range [0, {rows})"
    )


__all__ = ["embedding_bag"]
