"""Where PyTorch's libraries look for the class of nested tensors."""
