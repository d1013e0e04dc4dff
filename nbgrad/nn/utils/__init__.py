"""`torch.nn.utils`."""

from nbgrad.nn.utils import clip_grad as clip_grad
from nbgrad.nn.utils import convert_parameters as convert_parameters
from nbgrad.nn.utils import parametrizations as parametrizations
from nbgrad.nn.utils import parametrize as parametrize
from nbgrad.nn.utils import rnn as rnn
from nbgrad.nn.utils.clip_grad import _clip_grads_with_norm_ as clip_grads_with_norm_
from nbgrad.nn.utils.clip_grad import _get_total_norm as get_total_norm
from nbgrad.nn.utils.clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_
from nbgrad.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm",
    "clip_grad_norm_",
    "clip_grad_value_",
    "clip_grads_with_norm_",
    "get_total_norm",
    "parameters_to_vector",
    "vector_to_parameters",
]
