"""Fourier transforms, and what is made of them. `passes` says how one is done by kernels, `fft` has the ops."""
