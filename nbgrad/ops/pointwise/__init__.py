"""Functions of one element: a Python function of scalars is the whole op; kernels and gradients are derived. Read `arithmetic` first."""
