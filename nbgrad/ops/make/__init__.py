"""Tensors from nothing: data, fills, ranges (`filled`, to be read first), random numbers with PyTorch's streams, windows."""
