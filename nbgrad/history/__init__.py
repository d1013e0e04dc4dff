"""What a call leaves behind: values saved for backward, the rules that read them, the node that is recorded, the way into the engine.

Promises the tape's users that a saved value is the one that the call saw, or backward says that it was changed; and the dispatcher that
recording costs one generated function per plan.
"""
