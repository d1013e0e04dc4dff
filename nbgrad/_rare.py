"""Functions of `torch` that few programs call: what PyTorch keeps for old ones, and steps of others that libraries use by themselves.

Each is written in terms of what users call, so that its gradients are those.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from os.path import dirname, join
from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.tensor import Tensor
from nbgrad.dispatch.elementwise import into
from nbgrad.linalg import cholesky, eigh, matrix_norm, solve_triangular, svd, vector_norm
from nbgrad.memory import dtypes
from nbgrad.memory.layout import wrap_dims
from nbgrad.nn import functional as F
from nbgrad.nn._maps import shorten
from nbgrad.nn.utils.rnn import pack_padded_sequence
from nbgrad.ops import pointwise as e
from nbgrad.ops.linear.distances import cdist
from nbgrad.ops.linear.sums_of_products import addmm
from nbgrad.ops.make.counted import arange
from nbgrad.ops.make.data import tensor
from nbgrad.ops.reduce.statistics import aminmax
from nbgrad.ops.views import join as joining
from nbgrad.ops.views.copy import to_dtype
from nbgrad.ops.views.views import as_strided


def _old(name: str, now: str) -> None:
    warnings.warn(
        f"at::{name} is deprecated and it is just left for JIT compatibility. It will be removed in a future PyTorch release. Please "
        f"use `{now}` instead",
        stacklevel=3,
    )


def nuclear_norm(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The sum of a matrix's singular values: `torch.linalg.matrix_norm(input, "nuc")`, along two dimensions.

    >>> torch.nuclear_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]]))
    tensor(7.)
    """
    _old("nuclear_norm", "linalg.matrix_norm(A, 'nuc', dim, keepdim)")
    return matrix_norm(input, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim, out=out)


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares along dimensions: `torch.linalg.vector_norm(input, 2, dim)`.

    >>> torch.frobenius_norm(torch.tensor([[3.0, 0.0], [0.0, -4.0]]), (0, 1))
    tensor(5.)
    """
    _old("frobenius_norm", "linalg.vector_norm(A, 2., dim, keepdim)")
    return vector_norm(input, 2, dim, keepdim)


def hash_tensor(input: Tensor, dim: Any = (), *, keepdim: bool = False, mode: int = 0) -> Tensor:
    """One number of all elements, or of those along dimensions, by which tensors can be told apart: the exclusive or of their bits, as
    int64 or float64.

    >>> torch.hash_tensor(torch.tensor([1, 2, 7]))
    tensor(4, dtype=torch.uint64)
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    every = dim in ((), None, [])
    if every and not input.numel():
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument."
        )
    x = input.detach()
    bits = to_dtype(x, dtypes.float64).view(dtypes.int64) if x.dtype.is_floating_point else x.long()
    dims = wrap_dims(None if every else dim, x.ndim)
    for d in dims:
        if x.ndim and not x.shape[d]:
            raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    rest = [d for d in range(x.ndim) if d not in dims]
    rows = bits.permute((*rest, *dims)).reshape(
        [x.shape[d] for d in rest] + [math.prod([x.shape[d] for d in dims])]
    )
    while rows.shape[-1] > 1:  # halves, one upon the other
        half = rows.shape[-1] // 2
        both = rows[..., :half] ^ rows[..., half : 2 * half]
        rows = both if rows.shape[-1] % 2 == 0 else joining.cat([both, rows[..., -1:]], -1)
    found = rows.squeeze(-1) if rows.shape[-1] else rows.new_zeros(rows.shape[:-1])
    if keepdim:
        found = found.reshape([1 if d in dims else n for d, n in enumerate(x.shape)])
    return found.view(dtypes.uint64)


def slice_inverse(
    input: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    """A view of `input` with the sizes and strides of `src`, of which it was a slice.

    >>> torch.slice_inverse(torch.arange(4.0), torch.arange(4.0)[:2])
    tensor([0., 1.])
    """
    return as_strided(input, src.shape, src.stride(), src.storage_offset())


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Shortens, in place, the rows that are named and whose norm is greater than `max_norm`.

    >>> torch.embedding_renorm_(torch.tensor([[3.0, 4.0]]), torch.tensor([0]), 1.0, 2.0)
    tensor([[0.6000, 0.8000]])
    """
    with no_grad():
        shorten(input, indices, float(max_norm), float(norm_type))
    return input


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """The mean and the biased variance of each channel, by which the running ones are moved, the variance by the unbiased one.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.batch_norm_update_stats(x, torch.zeros(2), torch.ones(2), 0.1)
    (tensor([2., 3.]), tensor([1., 1.]))
    """
    rows = input.detach().transpose(0, 1).flatten(1)
    mean, var = rows.mean(1), rows.var(1, correction=0)
    n = rows.shape[1]
    moved = ((running_mean, mean), (running_var, var * (n / max(n - 1, 1))))
    for running, now in moved:
        if running is not None:
            running.mul_(1 - momentum).add_(now, alpha=momentum)
    return mean, var


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Callable[..., Any] | None = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:
    """The `k` largest (or, with `largest=False`, least) eigenvalues of a symmetric matrix, or of the pair (A, B), and their vectors. They
    are those to which PyTorch's iteration comes closer, from a decomposition of the whole matrix: what steers it changes nothing.

    >>> torch.lobpcg(torch.diag(torch.arange(1.0, 7.0)), k=2)[0].round()
    tensor([6., 5.])
    """
    m = A.shape[-1]
    if A.shape[-2] != m:
        raise AssertionError(f"A must be square, got shape {A.shape}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    if m < 3 * (k if n is None else n):
        raise ValueError(
            f"LOBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of requested eigenpairs "
            f"(={k if n is None else n})"
        )
    full = A.to_dense() if A.is_sparse else A
    other = B.to_dense() if B is not None and B.is_sparse else B
    if other is None:
        values, vectors = eigh(full)
    else:
        L = cholesky(other)
        half = solve_triangular(L, full, upper=False)
        values, found = eigh(solve_triangular(L, half.mT, upper=False))
        vectors = solve_triangular(L.mT, found, upper=True)
    if largest is False:
        return values[..., :k], vectors[..., :k]
    return values.flip(-1)[..., :k], vectors.flip(-1)[..., :k]


# ---------------------------------------------------------------- steps of others


def _cast(name: str, d: Any) -> Callable[..., Tensor]:
    def function(input: Tensor, non_blocking: bool = False) -> Tensor:
        return to_dtype(input, d)

    function.__name__ = function.__qualname__ = name
    return function


_cast_Byte = _cast("_cast_Byte", dtypes.uint8)
_cast_Char = _cast("_cast_Char", dtypes.int8)
_cast_Double = _cast("_cast_Double", dtypes.float64)
_cast_Float = _cast("_cast_Float", dtypes.float32)
_cast_Half = _cast("_cast_Half", dtypes.float16)
_cast_Int = _cast("_cast_Int", dtypes.int32)
_cast_Long = _cast("_cast_Long", dtypes.int64)
_cast_Short = _cast("_cast_Short", dtypes.int16)


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The sizes of a tensor."""
    return tensor([*input.shape], dtype=dtypes.int64)


def _dim_arange(like: Tensor, dim: int) -> Tensor:
    """0, 1, ... for the places along a dimension."""
    return arange(like.shape[dim], device=like.device)


def _int_mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of two matrices of int8, in int32."""
    for t in (input, mat2):
        if t.dtype is not dtypes.int8:
            raise RuntimeError(f"Expected result of int8 tensors, but got {t.dtype.scalar_name}")
    found = to_dtype(input, dtypes.int32) @ to_dtype(mat2, dtypes.int32)
    return found if out is None else into("_int_mm", out, found, (input, mat2))


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    """`v` in which each row along `dim` is as long as `g` says."""
    return v * (g / _length(v, dim))


def _length(v: Tensor, dim: int) -> Tensor:
    if dim == -1:
        return vector_norm(v)
    return vector_norm(v, 2, [d for d in range(v.ndim) if d != dim % v.ndim], True)


def _weight_norm_interface(v: Tensor, g: Tensor, dim: int = 0) -> tuple[Tensor, Tensor]:
    """`_weight_norm`, and how long the rows were."""
    return _weight_norm(v, g, dim), _length(v, dim).detach()


def _aminmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The least and the largest element."""
    warnings.warn(
        "_aminmax is deprecated as of PyTorch 1.11 and will be removed in a future release. Use aminmax instead. This warning will only "
        "appear once per process.",
        stacklevel=2,
    )
    return tuple(aminmax(input, dim=dim, keepdim=keepdim))


def _safe_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax, and zeros where all is minus infinity."""
    nothing = (input == -math.inf).all(dim, True)
    return F.softmax(input, dim, dtype=dtype).masked_fill(nothing, 0.0)


def _masked_softmax(
    input: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None
) -> Tensor:
    """Softmax among what the mask does not hide: of pairs (type 0), keys of each example (1) or any (2)."""
    if mask_type == 0 and mask.ndim == 2:
        mask = mask.view(1, 1, *mask.shape)
    elif mask_type == 1 and mask.ndim == 2:
        mask = mask.view(mask.shape[0], 1, 1, mask.shape[1])
    return F.softmax(input.masked_fill(mask, -math.inf), -1 if dim is None else dim)


def _addmm_activation(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Any = 1,
    alpha: Any = 1,
    use_gelu: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """A product with a bias, and `relu` (or `gelu`) of it."""
    found = addmm(input, mat1, mat2, beta=beta, alpha=alpha)
    found = F.gelu(found) if use_gelu else F.relu(found)
    return found if out is None else into("_addmm_activation", out, found, (input, mat1, mat2))


def _add_relu(input: Tensor, other: Any, *, alpha: Any = 1) -> Tensor:
    """A sum, and 0 for what of it is negative."""
    return F.relu(e.add(input, other, alpha=alpha))


def _euclidean_dist(x1: Tensor, x2: Tensor) -> Tensor:
    """The distances of rows."""
    return cdist(x1, x2)


def _fused_rms_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, eps: float | None
) -> tuple[Tensor, Tensor]:
    """`rms_norm`, and the factors by which rows were divided."""
    dims = [*range(-len(normalized_shape), 0)]
    least = dtypes.finfo(input.dtype).eps if eps is None else eps
    factors = (input.square().mean(dims, True) + least).rsqrt()
    return F.rms_norm(input, normalized_shape, weight, eps), factors


def _unsafe_index_put(
    input: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
) -> Tensor:
    """`index_put`."""
    return input.index_put(tuple(indices), values, accumulate)


def _stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """`stack`."""
    return joining.stack(tensors, dim)


def _chunk_cat(tensors: Sequence[Tensor], dim: int, num_chunks: int) -> Tensor:
    """Tensors cut into as many chunks each, and these side by side."""
    lots = [
        F.pad(t.flatten(dim), (0, -t.flatten(dim).shape[-1] % num_chunks)).chunk(num_chunks, dim)
        if t.shape[dim] % num_chunks
        else [part.flatten(dim) for part in t.chunk(num_chunks, dim)]
        for t in tensors
    ]
    return joining.stack([joining.cat(parts, dim) for parts in zip(*lots)], dim)


def _trilinear(
    i1: Tensor,
    i2: Tensor,
    i3: Tensor,
    expand1: Sequence[int],
    expand2: Sequence[int],
    expand3: Sequence[int],
    sumdim: Sequence[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The product of three tensors, to which dimensions are added, summed along some."""
    for axes, which in ((expand1, 0), (expand2, 1), (expand3, 2)):
        for d in axes:
            i1, i2, i3 = (t.unsqueeze(d) if k == which else t for k, t in enumerate((i1, i2, i3)))
    return (i1 * i2 * i3).sum([*sumdim]) if sumdim else i1 * i2 * i3


def _is_zerotensor(input: Tensor) -> bool:
    """Whether a tensor is zero without having memory: none is."""
    return False


def _conj_physical(input: Tensor) -> Tensor:
    """The conjugate, a copy."""
    return input.conj_physical()


def _neg_view(input: Tensor) -> Tensor:
    """The negative."""
    return -input


def _logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """`logcumsumexp`."""
    return input.logcumsumexp(dim)


def _pack_padded_sequence(input: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """The data and the batch sizes of `pack_padded_sequence`."""
    packed = pack_padded_sequence(input, lengths, batch_first=batch_first)
    return packed.data, packed.batch_sizes


def _linalg_eigh(A: Tensor, UPLO: str = "L", compute_v: bool = True) -> tuple[Tensor, Tensor]:
    """`torch.linalg.eigh`."""
    return tuple(eigh(A, UPLO))  # type: ignore[return-value]


def _linalg_svd(
    A: Tensor, full_matrices: bool = False, compute_uv: bool = True, *, driver: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """`torch.linalg.svd`."""
    return tuple(svd(A, full_matrices, driver=driver))  # type: ignore[return-value]


def _compute_linear_combination(input: Tensor, coefficients: Tensor) -> Tensor:
    """Sums of tensors by rows of coefficients."""
    rows = to_dtype(coefficients, input.dtype) @ input.flatten(1)
    return rows.unflatten(1, input.shape[1:])


def _to_cpu(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Tensors on the CPU."""
    return tuple([t.cpu() for t in tensors])


def compiled_with_cxx11_abi() -> bool:
    """As libraries ask of PyTorch's build.

    >>> torch.compiled_with_cxx11_abi()
    True
    """
    return True


def get_file_path(*path_components: str) -> str:
    """A path in the package.

    >>> torch.get_file_path("nn").endswith("nn")
    True
    """
    return join(dirname(dirname(import_module(__name__.partition(".")[0]).__file__ or "")), *path_components)
