"""Tensors that have sizes and a device but no numbers, of which here are those of the meta device alone."""


def is_fake(x: object) -> bool:
    """Whether a tensor only stands for one that PyTorch's compiler follows: none does.

    >>> from torch._subclasses.fake_tensor import is_fake
    >>> is_fake(torch.ones(2))
    False
    """
    return False
