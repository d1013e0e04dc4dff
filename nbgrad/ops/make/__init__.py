"""Tensors from nothing: data, fills, ranges (`creation`, to be read first), random numbers with PyTorch's streams, windows."""
