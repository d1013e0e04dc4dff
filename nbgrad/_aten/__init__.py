"""PyTorch's own operators under the names and with the schemas that they have below its functions, `torch.ops.aten`, and who takes their
calls over there: `__torch_dispatch__` of classes and modes.

`schemas.txt` holds the schemas of those that are here, `python -m tests.aten` writes it. Loaded when the first of it is asked for.
"""
