"""Kernels for the CPU that are written by hand, and the generators of those that are not; `fold` and `memory` are the shortest."""
