"""PyTorch's pipes of data, of which few are here."""
