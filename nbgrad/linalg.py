"""Linear algebra under PyTorch's names: `torch.linalg`."""

from nbgrad.ops.norm import vector_norm as vector_norm
