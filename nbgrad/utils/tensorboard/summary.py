"""PyTorch's path to what a `SummaryWriter` writes."""

from nbgrad.utils.tensorboard.writer import hparams

__all__ = ["hparams"]
