"""Tensors seen from Python: numbers and lists, printing, attributes, storages. `values` is the easiest to read first."""
