"""Every public name of PyTorch, where nbgrad has nothing of its own under it.

Promises users that a module of PyTorch can be imported and its names are found, and that what is not built says so when it is used: a
function when it is called, a class when an object is made. Nothing stands in for it. What PyTorch has is told in `names.txt`, which
`python -m tests.names` makes from PyTorch, why something is not here in `reasons.txt`; both are read when a name is first missed.
"""
