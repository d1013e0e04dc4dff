"""The same kernels for CUDA: the CPU's texts spread over a grid's threads, and their compilation, which needs no device."""
