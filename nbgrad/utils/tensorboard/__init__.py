"""PyTorch's `torch.utils.tensorboard`."""

from nbgrad.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
