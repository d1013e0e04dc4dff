"""The one point that every call passes: scalar functions, ops that their tensors' layouts settle, what vmap and forward mode make of both.

Promises an op's stanza that it need say only what the op is; promotion, broadcasting, `out=`, in-place forms, recording and transforms come
from here.
"""
