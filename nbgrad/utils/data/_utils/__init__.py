"""PyTorch's paths to what its libraries read of a loader's machinery."""
