"""PyTorch's `torch.version`: with what it was built, which is nothing but Python."""

from nbgrad.torch_version import __version__ as __version__

debug: bool = False
cuda: str | None = None
git_version: str = "unknown"
hip: str | None = None
rocm: str | None = None
xpu: str | None = None

__all__ = ["__version__", "cuda", "debug", "git_version", "hip", "rocm", "xpu"]
