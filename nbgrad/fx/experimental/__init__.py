"""PyTorch's path to what traces below functions."""
