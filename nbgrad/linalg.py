"""Linear algebra under PyTorch's names: `torch.linalg`."""

from nbgrad.ops.contract import linalg_cross as cross
from nbgrad.ops.contract import multi_dot as multi_dot
from nbgrad.ops.contract import vecdot as vecdot
from nbgrad.ops.linalg import matmul as matmul
from nbgrad.ops.movement import linalg_diagonal as diagonal
from nbgrad.ops.norm import vector_norm as vector_norm
from nbgrad.ops.parts import linalg_vander as vander

__all__ = ["cross", "diagonal", "matmul", "multi_dot", "vander", "vecdot", "vector_norm"]
