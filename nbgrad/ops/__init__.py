"""What each op is: one stanza, forward and rule together, a folder for a family; a family imports only from those below it.

From below: views, pointwise, reduce, index, arrange, host, order, linear, rows, make. Promises users PyTorch's values, gradients of every
order, layouts and words for each name.
"""
