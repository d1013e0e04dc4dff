"""Linear algebra under PyTorch's names: `torch.linalg`."""

from nbgrad.ops.arrange.parts import linalg_vander as vander
from nbgrad.ops.linear.cholesky import cholesky_ex
from nbgrad.ops.linear.cholesky import linalg_cholesky as cholesky
from nbgrad.ops.linear.contract import linalg_cross as cross
from nbgrad.ops.linear.contract import multi_dot, vecdot
from nbgrad.ops.linear.decompositions import eigvalsh, householder_product, lstsq, matrix_rank, pinv, svdvals
from nbgrad.ops.linear.decompositions import linalg_eigh as eigh
from nbgrad.ops.linear.decompositions import linalg_qr as qr
from nbgrad.ops.linear.decompositions import linalg_svd as svd
from nbgrad.ops.linear.determinants import det
from nbgrad.ops.linear.determinants import linalg_slogdet as slogdet
from nbgrad.ops.linear.eig import eigvals
from nbgrad.ops.linear.eig import linalg_eig as eig
from nbgrad.ops.linear.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from nbgrad.ops.linear.lu import linalg_lu as lu
from nbgrad.ops.linear.lu import linalg_lu_solve as lu_solve
from nbgrad.ops.linear.lu import lu_factor, lu_factor_ex
from nbgrad.ops.linear.matmul import matmul
from nbgrad.ops.linear.matrix_norms import cond, matrix_norm
from nbgrad.ops.linear.matrix_norms import linalg_norm as norm
from nbgrad.ops.linear.norms import vector_norm
from nbgrad.ops.linear.powers import linalg_matrix_exp as matrix_exp
from nbgrad.ops.linear.powers import linalg_matrix_power as matrix_power
from nbgrad.ops.linear.systems import (
    LinAlgError,
    inv,
    inv_ex,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from nbgrad.ops.views.slices import linalg_diagonal as diagonal

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]
