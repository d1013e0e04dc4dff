"""PyTorch's `torch.backends`, for scripts that ask what there is or set switches: none of these libraries is used here."""

from nbgrad.backends import cudnn as cudnn
from nbgrad.backends import mps as mps
