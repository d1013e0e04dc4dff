"""Comparing tensors in tests, and making them: PyTorch's `torch.testing`."""

from nbgrad.testing._comparison import assert_allclose as assert_allclose
from nbgrad.testing._comparison import assert_close as assert_close
from nbgrad.testing._creation import make_tensor as make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
