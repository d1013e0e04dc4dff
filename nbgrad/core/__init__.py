"""What every op is made of: the tensor, the record of an op, its plan for given operands, the arguments that PyTorch takes.

Promises the stories above that a plan answers for a call once the layouts of its operands are known, and that a wrong call is refused in
PyTorch's words before anything is touched.
"""
