"""The same kernels for CUDA: families of our own, else the CPU's texts spread over a grid's threads; their compilation and their emulation,
neither of which needs a device."""
