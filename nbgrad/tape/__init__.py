"""Nodes, the backward loop and the modes that a thread is in.

Promises the stories above PyTorch's order of nodes, hooks and accumulation for values that are opaque here: no tensor, no array, no op is
known in this folder.
"""
