"""PyTorch's path to tensors without numbers."""
