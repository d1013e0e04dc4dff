"""Attention whose scores a function of Python changes or masks, by where they stand: all scores are held, as PyTorch does uncompiled.

The function is called once, with indices of four dimensions that broadcast against the scores, where PyTorch's maps it over single ones.
Gradients flow to queries, keys, values and to what the function reads.
"""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from nbgrad.base.warn import warn_once
from nbgrad.core.tensor import Tensor
from nbgrad.memory import dtypes
from nbgrad.memory.dtypes import float32, float64
from nbgrad.nn import functional as F
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.make.counted import arange
from nbgrad.ops.order.sort import argsort
from nbgrad.ops.pointwise import where
from nbgrad.ops.reduce.extremes import amax

Mod: TypeAlias = Callable[..., Tensor]
_DEFAULT_SPARSE_BLOCK_SIZE = 128
_SHOWN = 20  # rows and columns of a picture
_UNFUSED = (
    "flex_attention called without torch.compile() - this will use an unfused implementation that materializes the full scores matrix "
    "instead of generating a fused kernel.\n\nSOLUTION: Use torch.compile(flex_attention)(...)\n\nIf you want to debug your "
    "score_mod/mask_mod, you can set:\ntorch.nn.attention.flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True\n\nThis will allow "
    "you to use print statements or breakpoints. Note: This doesn't work with the backwards pass and may produce incorrect results."
)


_LSE = "return_lse is deprecated and will be removed in v2.10. Please use return_aux=AuxRequest(lse=True) instead."


class AuxRequest(NamedTuple):
    """What `flex_attention` gives beside its result: the logarithms of the sums of exponentials, and the largest scores.

    >>> torch.nn.attention.flex_attention.AuxRequest(lse=True)
    AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for.

    >>> torch.nn.attention.flex_attention.AuxOutput()
    AuxOutput(lse=None, max_scores=None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Masks nothing.

    >>> i = torch.tensor(0)
    >>> torch.nn.attention.flex_attention.noop_mask(i, i, i, i)
    tensor(True)
    """
    return batch.new_ones(size=(), dtype=dtypes.bool_, device=batch.device)


def _joined(mods: Sequence[Any], neutral: bool, join: Callable[[Any, Any], Any]) -> Mod:
    if not all([callable(mod) for mod in mods]):
        raise RuntimeError(f"All inputs should be callable mask_mods: {tuple(mods)}")

    def mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        found = b.new_ones((), dtype=dtypes.bool_) if neutral else b.new_zeros((), dtype=dtypes.bool_)
        for mod in mods:
            found = join(found, mod(b, h, q_idx, kv_idx))
        return found

    return mask


def and_masks(*mask_mods: Mod) -> Mod:
    """The mask of what all let through.

    >>> from torch.nn.attention.flex_attention import and_masks, create_mask
    >>> near = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2)
    >>> create_mask(near, None, None, 3, 3)[0, 0].int()
    tensor([[1, 0, 0],
            [1, 1, 0],
            [0, 1, 1]], dtype=torch.int32)
    """
    return _joined(mask_mods, True, lambda a, b: a & b)


def or_masks(*mask_mods: Mod) -> Mod:
    """The mask of what any lets through.

    >>> from torch.nn.attention.flex_attention import create_mask, or_masks
    >>> create_mask(or_masks(lambda b, h, q, k: q > k, lambda b, h, q, k: q < k), None, None, 2, 2)[0, 0].int()
    tensor([[0, 1],
            [1, 0]], dtype=torch.int32)
    """
    return _joined(mask_mods, False, lambda a, b: a | b)


def _places(whole: Sequence[int], device: Any) -> list[Tensor]:
    """Indices of all dimensions, which broadcast against scores."""
    return [
        arange(n, device=device).reshape([n if k == at else 1 for k in range(4)])
        for at, n in enumerate(whole)
    ]


def _takes_scores(mod: Any) -> bool:
    taken = [
        p
        for p in inspect.signature(mod).parameters.values()
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if len(taken) not in (4, 5):
        raise AssertionError(f"Expected 4 or 5 positional args, got {len(taken)}")
    return len(taken) == 5


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """The truth values of a mask, or where a function of scores does not give minus infinity.

    >>> from torch.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _places(shape, device)
    if _takes_scores(mod_fn):
        mask = mod_fn(places[0].new_zeros(shape, dtype=float32), *places) != -math.inf
    else:
        mask = mod_fn(*places)
    return mask.expand(shape).contiguous()


def _ordered(dense: Tensor) -> tuple[Tensor, Tensor]:
    """In each row how many blocks there are, and which: first those that are there, in order."""
    wide = dense.to(dtypes.int32)
    counts: Tensor = wide.sum(-1).to(dtypes.int32)
    return counts, argsort(wide, -1, True, stable=True).to(dtypes.int32).contiguous()


def _dense(counts: Tensor, indices: Tensor, columns: int) -> Tensor:
    there = arange(indices.shape[-1], device=counts.device) < counts.unsqueeze(-1)
    found = counts.new_zeros((*counts.shape, columns + 1), dtype=dtypes.int32)
    at = where(there, indices.to(dtypes.int64), columns)
    filled: Tensor = found.scatter(-1, at, 1)[..., :columns]
    return filled


_TENSORS = (
    *("kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices"),
    *("q_num_blocks", "q_indices", "full_q_num_blocks", "full_q_indices"),
)


class BlockMask:
    """A mask of scores, and which blocks of them it leaves something of: in part, or in full.

    >>> from torch.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
    >>> mask.shape, mask.to_dense().tolist()
    ((1, 1, 256, 256), [[[[1, 0], [1, 1]]]])
    """

    kv_num_blocks: Tensor
    kv_indices: Tensor

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod: Mod = noop_mask,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        held = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        for name, value in zip(_TENSORS, (*held, q_num_blocks, q_indices, full_q_num_blocks, full_q_indices)):
            setattr(self, name, value)

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Of the blocks of keys that each block of queries sees.

        >>> from torch.nn.attention.flex_attention import BlockMask
        >>> counts, which = torch.tensor([[[1, 2]]]), torch.tensor([[[[0, 1], [0, 1]]]])
        >>> BlockMask.from_kv_blocks(counts, which, BLOCK_SIZE=4).to_dense().tolist()
        [[[[1, 0], [1, 1]]]]
        """
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        rows, columns = kv_indices.shape[-2:]
        turned: list[Tensor | None] = []
        for counts, indices in ((kv_num_blocks, kv_indices), (full_kv_num_blocks, full_kv_indices)):
            if counts is None or indices is None or not compute_q_blocks:
                turned += [None, None]
            else:
                turned += _ordered(_dense(counts, indices, columns).transpose(-2, -1))
        lengths = seq_lengths or (rows * size[0], columns * size[1])
        held = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *turned)
        make: Any = cls
        made: BlockMask = make(lengths, *held, size, mask_mod or noop_mask)
        return made

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries, keys.

        >>> from torch.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.shape
        (1, 1, 256, 256)
        """
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many scores it is of.

        >>> from torch.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.numel()
        65536
        """
        return math.prod(self.shape)

    def to_dense(self) -> Tensor:
        """Which blocks it leaves anything of, as 0 and 1.

        >>> from torch.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.to_dense().tolist()
        [[[[1, 0], [1, 1]]]]
        """
        columns = self.kv_indices.shape[-1]
        found = _dense(self.kv_num_blocks, self.kv_indices, columns)
        counts, indices = self.full_kv_num_blocks, self.full_kv_indices  # type: ignore[attr-defined]
        return found if counts is None else found | _dense(counts, indices, columns)

    def sparsity(self) -> float:
        """What share of scores lies in blocks of which nothing is left, in percent.

        >>> from torch.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.sparsity()
        25.0
        """
        seen = int(self.kv_num_blocks.sum())
        full = self.full_kv_num_blocks  # type: ignore[attr-defined]
        seen += 0 if full is None else int(full.sum())
        return 100 * (1 - seen * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def _with(self, change: Callable[[Tensor], Tensor]) -> BlockMask:
        held = [getattr(self, name) for name in _TENSORS]
        make: Any = BlockMask
        changed = [None if t is None else change(t) for t in held]
        made: BlockMask = make(self.seq_lengths, *changed, self.BLOCK_SIZE, self.mask_mod)
        return made

    def to(self, device: Any) -> BlockMask:
        """The same on a device.

        >>> from torch.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.to("cpu").shape
        (1, 1, 256, 256)
        """
        return self._with(lambda t: t.to(device))

    def __getitem__(self, index: Any) -> BlockMask:
        parts = index if isinstance(index, tuple) else (index,)
        kept = tuple([slice(k, k + 1 or None) if isinstance(k, int) else k for k in parts])
        return self._with(lambda t: t[kept])

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The same of shorter sequences."""
        rows, columns = (-(-n // size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE))
        pairs: list[Any] = []
        for counts, indices in ((_TENSORS[0], _TENSORS[1]), (_TENSORS[2], _TENSORS[3])):
            held = getattr(self, counts), getattr(self, indices)
            if held[0] is None:
                pairs += [None, None]
                continue
            dense = _dense(*held, held[1].shape[-1])
            pairs += _ordered(dense[..., :rows, :columns])
        return BlockMask.from_kv_blocks(
            pairs[0],
            pairs[1],
            pairs[2],
            pairs[3],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            seq_lengths=(new_q_len, new_kv_len),
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The lengths, what is held, the sizes of blocks, and the mask.

        >>> from torch.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.as_tuple()[:2]
        (256, 256)
        """
        head = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (
            *head,
            *[getattr(self, name) for name in _TENSORS],
            None,
            None,
            None,
            None,
            *sizes,
            self.mask_mod,
        )

    def to_string(self, grid_size: tuple[int, int] | int = (_SHOWN, _SHOWN), limit: int = 4) -> str:
        """A picture of its blocks.

        >>> from torch.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
        >>> mask.to_string().split()
        ['(0,', '0)', '██', '████']
        """
        rows, columns = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        dense = self.to_dense()
        batch = dense.shape[:-2]
        lines = dense.reshape(-1, *dense.shape[-2:])
        lines = lines[: limit if len(batch) else 1].tolist()
        texts = []
        for k, picture in enumerate(lines):
            at: list[int] = []
            for n in batch[::-1]:
                k, place = divmod(k, n)
                at.insert(0, place)
            texts.append(f"{tuple(at)}\n{_picture(picture, rows, columns)}")
        if math.prod(batch) > limit:
            texts.append(
                "...\nTo print out more, set BlockMask.to_string(limit=N)\nYou can also index (BlockMask[batch, head]) to choose a "
                "specific batch or head"
            )
        return "\n".join(texts)

    def __repr__(self) -> str:
        held = [getattr(self, name) for name in _TENSORS]
        lines = [f"{name}={None if t is None else t.shape}" for name, t in zip(_TENSORS, held)]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={self.shape}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"
        )


def _picture(dense: list[list[int]], rows: int, columns: int) -> str:
    high = max(-(-len(dense) // rows), 1)
    wide = max(-(-len(dense[0]) // columns), 1)
    text = ""
    for r in range(0, len(dense), high):
        for c in range(0, len(dense[0]), wide):
            cell = [v for line in dense[r : r + high] for v in line[c : c + wide]]
            text += "██" if all(cell) else "░░" if any(cell) else "  "
        text += "\n"
    return text


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """The mask that a function of indices says, with the blocks of it; None in place of `B` or `H` where it is the same of all.

    >>> from torch.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256).sparsity()
    25.0
    """
    if not callable(mask_mod):
        raise TypeError(f"{mask_mod!r} is not a callable object")
    if _takes_scores(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    high, wide = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // high), -(-KV_LEN // wide)
    mask = F.pad(mask, (0, columns * wide - KV_LEN, 0, rows * high - Q_LEN))
    counts = mask.reshape(*mask.shape[:2], rows, high, columns, wide).sum((-3, -1))
    full = counts == high * wide if separate_full_blocks else None
    some = (counts > 0) & ~full if full is not None else counts > 0
    blocks: list[Any] = [*_ordered(some), *((None, None) if full is None else _ordered(full))]
    return BlockMask.from_kv_blocks(
        blocks[0],
        blocks[1],
        blocks[2],
        blocks[3],
        BLOCK_SIZE=(high, wide),
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )


def _check(query: Tensor, key: Tensor, value: Tensor, block_mask: Any, enable_gqa: bool) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    if query.size(-1) != key.size(-1):
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got E={query.size(-1)} and E={key.size(-1)}."
        )
    heads, its = query.size(-3), key.size(-3)
    if not enable_gqa and heads != its:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={its}. Try setting enable_gqa=True "
            "for GQA."
        )
    if enable_gqa and heads % its:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={its}."
        )
    if block_mask is None:
        return
    q, kv = query.size(-2), key.size(-2)
    of_q, of_kv = block_mask.BLOCK_SIZE and block_mask.seq_lengths
    said = (
        f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={q} and kv_len={kv}. "
    )
    said += "As the block mask was created "
    if q > of_q or kv > of_kv:
        raise ValueError(
            said
            + "for a smaller length than you're using it for, you likely need to create a new block mask."
        )
    if q < of_q or kv < of_kv:
        raise ValueError(
            said
            + "for a larger length than you're using it for, you can either 1. create a new block mask with the correct length, or 2. "
            "'adjust' the existing block mask to the correct length by calling block_mask._adjust(q_len, kv_len). This essentially 'crops' "
            "the block mask to the upper left corner, which does not work for all mask_mods!"
        )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with scores changed by `score_mod(score, batch, head, q, kv)` and masked by `block_mask`; a query that sees nothing gets
    zeros. `enable_gqa` lets groups of heads share keys and values.

    >>> from torch.nn.attention.flex_attention import flex_attention
    >>> x = torch.eye(3).reshape(1, 1, 3, 3)
    >>> flex_attention(x, x, x, lambda score, b, h, q, k: torch.where(q >= k, score, -torch.inf), scale=200.0)[0, 0]
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, please use return_aux=AuxRequest(lse=True) instead."
        )
    if return_lse:
        warnings.warn(_LSE, FutureWarning, stacklevel=2)
    warn_once(_UNFUSED)
    groups = query.size(1) // key.size(1)
    if groups > 1:
        key, value = (t.repeat_interleave(groups, 1) for t in (key, value))
    wide = float64 if query.dtype is float64 else float32
    factor = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = matmul(query, key.transpose(-2, -1)).to(wide) * factor
    if score_mod is not None or block_mask is not None:
        places = _places(scores.shape, scores.device)
        if score_mod is not None:
            scores = score_mod(scores, *places).to(wide).expand(scores.shape)
        if block_mask is not None:
            scores = where(block_mask.mask_mod(*places), scores, -math.inf)
    unseen = (scores == -math.inf).all(-1, keepdim=True)
    if bool(unseen.any()):
        found = F.softmax(scores.masked_fill(unseen, 0.0), -1).masked_fill(unseen, 0.0)
    else:
        found = F.softmax(scores, -1)
    result = matmul(found.to(query.dtype), value.to(query.dtype))
    if return_aux is None and not return_lse:
        return result
    lse = scores.logsumexp(-1)
    if return_aux is None:
        return result, lse
    return result, AuxOutput(
        lse if return_aux.lse else None, amax(scores, -1) if return_aux.max_scores else None
    )


__all__ = [
    *(
        "AuxOutput",
        "AuxRequest",
        "BlockMask",
        "and_masks",
        "create_block_mask",
        "create_mask",
        "flex_attention",
    ),
    *("noop_mask", "or_masks"),
]
