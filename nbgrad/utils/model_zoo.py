"""PyTorch's older names for what `torch.hub` loads."""

from nbgrad.hub import load_state_dict_from_url as load_url
from nbgrad.hub import urlparse as urlparse

__all__ = ["load_url"]
