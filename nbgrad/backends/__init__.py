"""PyTorch's `torch.backends`, for scripts that ask what there is or set switches: none of these libraries is used here."""

from nbgrad.backends import cpu as cpu
from nbgrad.backends import cuda as cuda
from nbgrad.backends import cudnn as cudnn
from nbgrad.backends import mha as mha
from nbgrad.backends import mkl as mkl
from nbgrad.backends import mkldnn as mkldnn
from nbgrad.backends import mps as mps
from nbgrad.backends import openmp as openmp
