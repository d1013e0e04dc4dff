"""What holds numbers, and how it is read: dtypes and their promotion, devices, shapes and strides, storages with their version counter.

Promises the stories above that a tensor's memory is described in one place (`Spec`), that two readings of one memory know of each other's
writes, and that a backend has four verbs only: empty, view, launch, to_host.
"""
