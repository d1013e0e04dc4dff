"""`torch.nn.utils`."""

from nbgrad.nn.utils import clip_grad as clip_grad
from nbgrad.nn.utils import convert_parameters as convert_parameters
from nbgrad.nn.utils import fusion as fusion
from nbgrad.nn.utils import init as init
from nbgrad.nn.utils import parametrizations, parametrize, rnn, stateless
from nbgrad.nn.utils.clip_grad import _clip_grads_with_norm_ as clip_grads_with_norm_
from nbgrad.nn.utils.clip_grad import _get_total_norm as get_total_norm
from nbgrad.nn.utils.clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_
from nbgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from nbgrad.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from nbgrad.nn.utils.init import skip_init
from nbgrad.nn.utils.memory_format import (
    convert_conv2d_weight_memory_format,
    convert_conv3d_weight_memory_format,
)
from nbgrad.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from nbgrad.nn.utils.weight_norm import remove_weight_norm, weight_norm

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "convert_conv2d_weight_memory_format",
    "convert_conv3d_weight_memory_format",
    "fuse_conv_bn_eval",
    "fuse_conv_bn_weights",
    "fuse_linear_bn_eval",
    "fuse_linear_bn_weights",
    "get_total_norm",
    "parameters_to_vector",
    "parametrizations",
    "parametrize",
    "remove_spectral_norm",
    "remove_weight_norm",
    "rnn",
    "skip_init",
    "spectral_norm",
    "stateless",
    "vector_to_parameters",
    "weight_norm",
]
