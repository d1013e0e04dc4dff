"""Parametrisations that are in common use: weights in lengths and directions, of a bounded stretch, of columns at right angles."""

from __future__ import annotations

from typing import Any

from nbgrad.autograd.grad_mode import no_grad
from nbgrad.core.refusals import lacks_complex
from nbgrad.core.tensor import Tensor
from nbgrad.memory.dtypes import finfo
from nbgrad.nn.modules.conv import _ConvTransposeNd
from nbgrad.nn.modules.module import Module
from nbgrad.nn.utils.parametrize import register_parametrization
from nbgrad.ops.linear.decompositions import geqrf, householder_product
from nbgrad.ops.linear.distances import normalize
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.norms import vector_norm
from nbgrad.ops.linear.powers import matrix_exp
from nbgrad.ops.linear.products import mv, vdot
from nbgrad.ops.linear.systems import solve
from nbgrad.ops.make.counted import eye
from nbgrad.ops.make.drawn import randn
from nbgrad.ops.make.filled import zeros_like
from nbgrad.ops.views.join import cat

# ---------------------------------------------------------------- lengths and directions


class _WeightNorm(Module):
    """A weight as its length times its direction, for each index of `dim` apart."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def _length(self, weight: Any) -> Any:
        others = None if self.dim == -1 else tuple(d for d in range(weight.ndim) if d != self.dim)
        return vector_norm(weight, 2, others, self.dim != -1)

    def forward(self, weight_g: Any, weight_v: Any) -> Any:
        if self.dim in (0, weight_v.ndim - 1):
            lacks_complex("weight_norm_kernel", weight_v.dtype)
        return weight_v * (weight_g / self._length(weight_v))

    def right_inverse(self, weight: Any) -> Any:
        return self._length(weight), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train the lengths and the directions of the rows of a weight apart: `weight = g * v / |v|`, with one length g for each index
    of `dim`, or with None one for all.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(2, 3))
    >>> layer.parametrizations.weight.original0.shape
    torch.Size([3, 1])
    """
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def take_older(state_dict: dict[str, Any], prefix: str, *others: Any) -> None:
        """A state dict of `nn.utils.weight_norm` fits, too."""
        older = [f"{prefix}{name}_{word}" for word in "gv"]
        if all(key in state_dict for key in older):
            for k, key in enumerate(older):
                state_dict[f"{prefix}parametrizations.{name}.original{k}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(take_older)
    return module


# ---------------------------------------------------------------- the largest singular value


def _output_dim(module: Module) -> int:
    """The dimension of a module's weight that counts its outputs: the second of a transposed convolution's."""
    return 1 if isinstance(module, _ConvTransposeNd) else 0


def _as_matrix(weight: Tensor, dim: int) -> Tensor:
    """With a row for each index of `dim`."""
    moved = weight if dim == 0 else weight.permute(dim, *[d for d in range(weight.ndim) if d != dim])
    return moved.reshape(moved.size(0), -1)


def _direction(like: Tensor, n: int, eps: float) -> Tensor:
    return normalize(like.new_empty(n).normal_(0, 1), dim=0, eps=eps)


def _power_steps(matrix: Tensor, u: Tensor, v: Tensor, steps: int, eps: float, v_first: bool) -> None:
    """Turn `u` and `v`, in place, towards the singular vectors of the largest singular value."""
    back = matrix.t() if v_first else matrix.mH  # the older function's conjugates nothing
    turns = ((v, u, back), (u, v, matrix))
    with no_grad():
        for _ in range(steps):
            for to, of, by in turns if v_first else turns[::-1]:
                normalize(mv(by, of), dim=0, eps=eps, out=to)


class _SpectralNorm(Module):
    """A weight over its largest singular value; of one dimension, over its length."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        ndim = weight.ndim
        if not -ndim <= dim < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim % ndim, eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = _as_matrix(weight, self.dim)
            rows, columns = matrix.shape
            self.register_buffer("_u", _direction(matrix, rows, eps))
            self.register_buffer("_v", _direction(matrix, columns, eps))
            _power_steps(matrix, self._u, self._v, 15, eps, v_first=False)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return normalize(weight, dim=0, eps=self.eps)
        matrix = _as_matrix(weight, self.dim)
        if self.training:
            _power_steps(matrix, self._u, self._v, self.n_power_iterations, self.eps, v_first=False)
        u, v = self._u.clone(), self._v.clone()  # the next step writes over what this one's gradient reads
        divided: Tensor = weight / vdot(u, mv(matrix, v))
        return divided

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """Divide a weight by its largest singular value, so that the layer stretches nothing: the value is followed by
    `n_power_iterations` steps of power iteration at each read while the module is trained.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(2, 3))
    >>> torch.allclose(torch.linalg.matrix_norm(layer.weight, 2), torch.tensor(1.0), atol=1e-2)
    True
    """
    weight = _weight_of(module, name)
    along = _output_dim(module) if dim is None else dim
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, along, eps))


def _weight_of(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


# ---------------------------------------------------------------- columns at right angles


def _is_orthogonal(Q: Tensor) -> bool:
    n, k = Q.shape[-2:]
    unit = eye(k, dtype=Q.dtype, device=Q.device)
    return bool((Q.mH @ Q).allclose(unit, atol=10.0 * n * finfo(Q.dtype).eps))


def _turned(R: Tensor, Q: Tensor) -> Tensor:
    """With the columns of `Q` turned round where the diagonal of `R` is negative."""
    turned: Tensor = Q * R.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return turned


def _make_orthogonal(A: Tensor) -> Tensor:
    R, tau = geqrf(A)
    return _turned(R, householder_product(R, tau))


class _Orthogonal(Module):
    """A matrix with columns, or rows where it is wide, at right angles, made from any matrix of that shape."""

    base: Any

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.size(-2) < X.size(-1)
        X = X.mT if wide else X
        n, k = X.shape[-2:]
        if self.orthogonal_map == "householder":
            A = X.tril(diagonal=-1)
            Q = householder_product(A, 2 / (1 + (A * A).sum(dim=-2)))
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            low = X.tril()
            if n != k:
                low = cat([low, low.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
            skew = low - low.mH
            if self.orthogonal_map == "matrix_exp":
                Q = matrix_exp(skew)
            else:
                unit = eye(n, dtype=skew.dtype, device=skew.device)
                Q = solve(unit.add(skew, alpha=-0.5), unit.add(skew, alpha=0.5))
            Q = Q[..., :k] if n != k else Q
        if hasattr(self, "base"):
            Q = matmul(self.base, Q)
        return Q.mT if wide else Q

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        given, wide = Q, Q.size(-2) < Q.size(-1)
        Q = Q.mT if wide else Q
        n, k = Q.shape[-2:]
        if not hasattr(self, "base"):
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                    "use_trivialization=False."
                )
            A, tau = geqrf(Q)
            A.diagonal(dim1=-2, dim2=-1).sign_()
            A.diagonal(dim1=-2, dim2=-1)[tau == 0.0] *= -1
            return A.mT if wide else A
        if n == k:
            Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
        else:  # completed to a square: near zero, where the map begins, its columns are those of Q
            rest = randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
            Q = _make_orthogonal(cat([Q, rest], dim=-1))
        self.base = Q
        start = zeros_like(given)
        start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return start


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """Keep the columns of a weight, or its rows where it is wide, of length 1 and at right angles, by way of "matrix_exp" (of square
    ones), "cayley" or "householder" (of real ones). `use_trivialization` measures from the weight that was last assigned.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> torch.allclose(layer.weight.T @ layer.weight, torch.eye(3), atol=1e-5)
    True
    """
    weight = _weight_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    if orthogonal_map == "householder" and weight.is_complex():
        raise ValueError("The householder parametrization does not support complex tensors.")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
    return register_parametrization(module, name, made, unsafe=True)


__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
