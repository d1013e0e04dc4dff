"""Tensors in and out: NumPy's functions, DLPack, files that PyTorch reads and writes.

Promises users that memory is shared where both sides can, and that a file runs no code and reads no memory that is not its own.
"""
