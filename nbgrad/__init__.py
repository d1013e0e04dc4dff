"""nbgrad: PyTorch's autograd on NumPy arrays, every kernel a Numba function.

>>> import nbgrad as torch
>>> x = torch.arange(4.0, requires_grad=True)
>>> y = 2 * torch.dot(x, x)
>>> y.backward()
>>> x.grad
tensor([ 0.,  4.,  8., 12.])

This module only re-exports: what a name is stands in the module that it comes from.
"""

import typing as _typing
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi

from nbgrad.base import collector as _collector

_resting = _collector.rest()
# isort: split
from nbgrad import _to_kinds as _to_kinds
from nbgrad import _to_sparse as _to_sparse
from nbgrad import autograd as autograd
from nbgrad import func as func
from nbgrad import linalg as linalg
from nbgrad import nn as nn
from nbgrad import random as random
from nbgrad import return_types as return_types
from nbgrad import special as special
from nbgrad import utils as utils
from nbgrad.autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from nbgrad.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
from nbgrad.autograd.anomaly_mode import set_anomaly_enabled as set_anomaly_enabled
from nbgrad.autograd.grad_mode import enable_grad as enable_grad
from nbgrad.autograd.grad_mode import inference_mode as inference_mode
from nbgrad.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from nbgrad.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from nbgrad.autograd.grad_mode import no_grad as no_grad
from nbgrad.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from nbgrad.core import arguments as _arguments
from nbgrad.core.tensor import Tensor as Tensor
from nbgrad.dispatch.stanza import elementwise as elementwise
from nbgrad.exchange import numpy as _numpy  # noqa: F401  NumPy's functions of tensors
from nbgrad.exchange.dlpack import from_dlpack as from_dlpack
from nbgrad.func import vmap as vmap
from nbgrad.kernels.launch import get_num_threads as get_num_threads
from nbgrad.kernels.launch import set_num_threads as set_num_threads
from nbgrad.memory.backend import AcceleratorError as AcceleratorError
from nbgrad.memory.backend import OutOfMemoryError as OutOfMemoryError
from nbgrad.memory.device import device as device
from nbgrad.memory.device import get_default_device as get_default_device
from nbgrad.memory.device import set_default_device as set_default_device
from nbgrad.memory.dtypes import bfloat16 as bfloat16

# Last, as PyTorch's names for dtypes hide the builtins.
from nbgrad.memory.dtypes import bool as bool
from nbgrad.memory.dtypes import can_cast as can_cast
from nbgrad.memory.dtypes import cdouble as cdouble
from nbgrad.memory.dtypes import cfloat as cfloat
from nbgrad.memory.dtypes import complex64 as complex64
from nbgrad.memory.dtypes import complex128 as complex128
from nbgrad.memory.dtypes import double as double
from nbgrad.memory.dtypes import dtype as dtype
from nbgrad.memory.dtypes import finfo as finfo
from nbgrad.memory.dtypes import float as float
from nbgrad.memory.dtypes import float8_e4m3fn as float8_e4m3fn
from nbgrad.memory.dtypes import float8_e4m3fnuz as float8_e4m3fnuz
from nbgrad.memory.dtypes import float8_e5m2 as float8_e5m2
from nbgrad.memory.dtypes import float8_e5m2fnuz as float8_e5m2fnuz
from nbgrad.memory.dtypes import float8_e8m0fnu as float8_e8m0fnu
from nbgrad.memory.dtypes import float16 as float16
from nbgrad.memory.dtypes import float32 as float32
from nbgrad.memory.dtypes import float64 as float64
from nbgrad.memory.dtypes import get_default_dtype as get_default_dtype
from nbgrad.memory.dtypes import half as half
from nbgrad.memory.dtypes import iinfo as iinfo
from nbgrad.memory.dtypes import int as int
from nbgrad.memory.dtypes import int8 as int8
from nbgrad.memory.dtypes import int16 as int16
from nbgrad.memory.dtypes import int32 as int32
from nbgrad.memory.dtypes import int64 as int64
from nbgrad.memory.dtypes import long as long
from nbgrad.memory.dtypes import promote_types as promote_types
from nbgrad.memory.dtypes import set_default_dtype as set_default_dtype
from nbgrad.memory.dtypes import short as short
from nbgrad.memory.dtypes import uint8 as uint8
from nbgrad.memory.dtypes import uint16 as uint16
from nbgrad.memory.dtypes import uint32 as uint32
from nbgrad.memory.dtypes import uint64 as uint64
from nbgrad.memory.layout import Size as Size
from nbgrad.memory.layout import channels_last as channels_last
from nbgrad.memory.layout import channels_last_3d as channels_last_3d
from nbgrad.memory.layout import contiguous_format as contiguous_format
from nbgrad.memory.layout import memory_format as memory_format
from nbgrad.memory.layout import preserve_format as preserve_format
from nbgrad.names import finder as _finder
from nbgrad.nn import _bags as _bags
from nbgrad.nn import _ctc as _ctc
from nbgrad.nn import _dropouts as _dropouts
from nbgrad.nn._below import *  # noqa: F403
from nbgrad.nn._dropouts import alpha_dropout_ as alpha_dropout_
from nbgrad.nn._dropouts import dropout_ as dropout_
from nbgrad.nn._dropouts import feature_alpha_dropout_ as feature_alpha_dropout_
from nbgrad.nn._dropouts import feature_dropout as feature_dropout
from nbgrad.nn._dropouts import feature_dropout_ as feature_dropout_
from nbgrad.nn._dropouts import native_dropout as native_dropout
from nbgrad.nn._grids import affine_grid_generator as affine_grid_generator
from nbgrad.nn._grids import grid_sampler as grid_sampler
from nbgrad.nn._grids import grid_sampler_2d as grid_sampler_2d
from nbgrad.nn._grids import grid_sampler_3d as grid_sampler_3d
from nbgrad.nn._norms import native_layer_norm as native_layer_norm
from nbgrad.nn._recurrent import *  # noqa: F403
from nbgrad.nn.functional import bilinear as bilinear
from nbgrad.nn.functional import channel_shuffle as channel_shuffle
from nbgrad.nn.functional import cosine_similarity as cosine_similarity
from nbgrad.nn.functional import group_norm as group_norm
from nbgrad.nn.functional import layer_norm as layer_norm
from nbgrad.nn.functional import native_channel_shuffle as native_channel_shuffle
from nbgrad.nn.functional import pairwise_distance as pairwise_distance
from nbgrad.nn.functional import pixel_shuffle as pixel_shuffle
from nbgrad.nn.functional import pixel_unshuffle as pixel_unshuffle
from nbgrad.nn.functional import rms_norm as rms_norm
from nbgrad.nn.functional import rrelu as rrelu
from nbgrad.nn.functional import rrelu_ as rrelu_
from nbgrad.ops.arrange.copies import *  # noqa: F403
from nbgrad.ops.arrange.diagonals import *  # noqa: F403
from nbgrad.ops.arrange.orders import *  # noqa: F403
from nbgrad.ops.arrange.padding import *  # noqa: F403
from nbgrad.ops.arrange.parts import *  # noqa: F403
from nbgrad.ops.host import saved_names as _saved_names  # noqa: F401  sets them
from nbgrad.ops.host.attributes import *  # noqa: F403
from nbgrad.ops.host.printing import set_printoptions as set_printoptions
from nbgrad.ops.host.resizing import *  # noqa: F403
from nbgrad.ops.host.storage import *  # noqa: F403
from nbgrad.ops.host.typed import *  # noqa: F403
from nbgrad.ops.host.values import *  # noqa: F403
from nbgrad.ops.index.brackets import *  # noqa: F403
from nbgrad.ops.index.gather import *  # noqa: F403
from nbgrad.ops.index.put import *  # noqa: F403
from nbgrad.ops.index.reduce_at import *  # noqa: F403
from nbgrad.ops.index.segments import *  # noqa: F403
from nbgrad.ops.index.segments import segment_reduce as _segment_reduce  # noqa: F401  PyTorch's other name of it
from nbgrad.ops.linear.calculus import *  # noqa: F403
from nbgrad.ops.linear.cholesky import *  # noqa: F403
from nbgrad.ops.linear.contract import *  # noqa: F403
from nbgrad.ops.linear.decompositions import *  # noqa: F403
from nbgrad.ops.linear.determinants import *  # noqa: F403
from nbgrad.ops.linear.distances import *  # noqa: F403
from nbgrad.ops.linear.lu import *  # noqa: F403
from nbgrad.ops.linear.matmul import *  # noqa: F403
from nbgrad.ops.linear.matrix_norms import *  # noqa: F403
from nbgrad.ops.linear.powers import *  # noqa: F403
from nbgrad.ops.linear.products import *  # noqa: F403
from nbgrad.ops.linear.sums_of_products import *  # noqa: F403
from nbgrad.ops.linear.systems import *  # noqa: F403
from nbgrad.ops.make.constructors import *  # noqa: F403
from nbgrad.ops.make.counted import *  # noqa: F403
from nbgrad.ops.make.data import *  # noqa: F403
from nbgrad.ops.make.drawn import *  # noqa: F403
from nbgrad.ops.make.filled import *  # noqa: F403
from nbgrad.ops.make.generator import Generator as Generator
from nbgrad.ops.make.generator import default_generator as default_generator
from nbgrad.ops.make.generator import initial_seed as initial_seed
from nbgrad.ops.make.generator import manual_seed as manual_seed
from nbgrad.ops.make.generator import seed as seed
from nbgrad.ops.make.sampling import *  # noqa: F403
from nbgrad.ops.make.windows import *  # noqa: F403
from nbgrad.ops.order.counting import *  # noqa: F403
from nbgrad.ops.order.scan import *  # noqa: F403
from nbgrad.ops.order.sort import *  # noqa: F403
from nbgrad.ops.order.unique import *  # noqa: F403
from nbgrad.ops.pointwise.activations import *  # noqa: F403
from nbgrad.ops.pointwise.arithmetic import *  # noqa: F403
from nbgrad.ops.pointwise.choices import *  # noqa: F403
from nbgrad.ops.pointwise.comparisons import *  # noqa: F403
from nbgrad.ops.pointwise.functions import *  # noqa: F403
from nbgrad.ops.pointwise.gamma import *  # noqa: F403
from nbgrad.ops.pointwise.numeric import *  # noqa: F403
from nbgrad.ops.pointwise.operators import *  # noqa: F403
from nbgrad.ops.pointwise.parts import *  # noqa: F403
from nbgrad.ops.pointwise.quantised import *  # noqa: F403
from nbgrad.ops.reduce.extremes import *  # noqa: F403
from nbgrad.ops.reduce.statistics import *  # noqa: F403
from nbgrad.ops.reduce.sums import *  # noqa: F403
from nbgrad.ops.rows.softmax import *  # noqa: F403
from nbgrad.ops.transform.short import *  # noqa: F403
from nbgrad.ops.views import turned as _turned  # noqa: F401  views in place: methods
from nbgrad.ops.views.copy import *  # noqa: F403
from nbgrad.ops.views.join import *  # noqa: F403
from nbgrad.ops.views.order import *  # noqa: F403
from nbgrad.ops.views.parts import *  # noqa: F403
from nbgrad.ops.views.shape import *  # noqa: F403
from nbgrad.ops.views.slices import *  # noqa: F403
from nbgrad.ops.views.views import *  # noqa: F403
from nbgrad.ops.windows.convolutions import *  # noqa: F403
from nbgrad.ops.windows.pooling import adaptive_avg_pool1d as adaptive_avg_pool1d
from nbgrad.ops.windows.pooling import adaptive_max_pool1d_with_indices as adaptive_max_pool1d  # noqa: F401
from nbgrad.ops.windows.pooling import avg_pool1d as avg_pool1d
from nbgrad.ops.windows.pooling import max_pool1d as max_pool1d
from nbgrad.ops.windows.pooling import max_pool1d_with_indices as max_pool1d_with_indices
from nbgrad.ops.windows.pooling import max_pool2d as max_pool2d
from nbgrad.ops.windows.pooling import max_pool3d as max_pool3d
from nbgrad.random import get_rng_state as get_rng_state
from nbgrad.random import set_rng_state as set_rng_state

# Of these all arguments must be given, unlike of the functions of their names in nn.functional.
alpha_dropout = _dropouts.torch_alpha_dropout
ctc_loss = _ctc.torch_ctc_loss
dropout = _dropouts.torch_dropout
embedding_bag = _bags.torch_embedding_bag
feature_alpha_dropout = _dropouts.torch_feature_alpha_dropout

_arguments.guard_modules(globals())

__version__ = "0.1.0"

if _typing.TYPE_CHECKING:
    from nbgrad import accelerator as accelerator
    from nbgrad import amp as amp
    from nbgrad import backends as backends
    from nbgrad import compiler as compiler
    from nbgrad import cpu as cpu
    from nbgrad import cuda as cuda
    from nbgrad import distributed as distributed
    from nbgrad import distributions as distributions
    from nbgrad import fft as fft
    from nbgrad import futures as futures
    from nbgrad import fx as fx
    from nbgrad import hub as hub
    from nbgrad import jit as jit
    from nbgrad import library as library
    from nbgrad import nested as nested
    from nbgrad import optim as optim
    from nbgrad import overrides as overrides
    from nbgrad import profiler as profiler
    from nbgrad import serialization as serialization
    from nbgrad import sparse as sparse
    from nbgrad import testing as testing
    from nbgrad import types as types
    from nbgrad import version as version
    from nbgrad._aten.own import native_batch_norm as native_batch_norm
    from nbgrad._aten.own import native_group_norm as native_group_norm
    from nbgrad._C import DispatchKeySet as DispatchKeySet
    from nbgrad._control import cond as cond
    from nbgrad._control import sym_float as sym_float
    from nbgrad._control import sym_int as sym_int
    from nbgrad._control import sym_ite as sym_ite
    from nbgrad._control import sym_max as sym_max
    from nbgrad._control import sym_min as sym_min
    from nbgrad._control import sym_not as sym_not
    from nbgrad._control import sym_sqrt as sym_sqrt
    from nbgrad._control import sym_sum as sym_sum
    from nbgrad._control import while_loop as while_loop
    from nbgrad._lowrank import pca_lowrank as pca_lowrank
    from nbgrad._lowrank import svd_lowrank as svd_lowrank
    from nbgrad._quantized import _choose_qparams_per_tensor as _choose_qparams_per_tensor
    from nbgrad._quantized import _empty_affine_quantized as _empty_affine_quantized
    from nbgrad._quantized import _make_per_channel_quantized_tensor as _make_per_channel_quantized_tensor
    from nbgrad._quantized import _make_per_tensor_quantized_tensor as _make_per_tensor_quantized_tensor
    from nbgrad._quantized import dequantize as dequantize
    from nbgrad._quantized import int_repr as int_repr
    from nbgrad._quantized import per_channel_affine as per_channel_affine
    from nbgrad._quantized import per_channel_affine_float_qparams as per_channel_affine_float_qparams
    from nbgrad._quantized import per_channel_symmetric as per_channel_symmetric
    from nbgrad._quantized import per_tensor_affine as per_tensor_affine
    from nbgrad._quantized import per_tensor_symmetric as per_tensor_symmetric
    from nbgrad._quantized import q_per_channel_axis as q_per_channel_axis
    from nbgrad._quantized import q_per_channel_scales as q_per_channel_scales
    from nbgrad._quantized import q_per_channel_zero_points as q_per_channel_zero_points
    from nbgrad._quantized import q_scale as q_scale
    from nbgrad._quantized import q_zero_point as q_zero_point
    from nbgrad._quantized import qscheme as qscheme
    from nbgrad._quantized import quantize_per_channel as quantize_per_channel
    from nbgrad._quantized import quantize_per_tensor as quantize_per_tensor
    from nbgrad._quantized import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
    from nbgrad._queues import Event as Event
    from nbgrad._queues import Stream as Stream
    from nbgrad._rare import _add_relu as _add_relu
    from nbgrad._rare import _addmm_activation as _addmm_activation
    from nbgrad._rare import _aminmax as _aminmax
    from nbgrad._rare import _chunk_cat as _chunk_cat
    from nbgrad._rare import _compute_linear_combination as _compute_linear_combination
    from nbgrad._rare import _conj_physical as _conj_physical
    from nbgrad._rare import _dim_arange as _dim_arange
    from nbgrad._rare import _euclidean_dist as _euclidean_dist
    from nbgrad._rare import _fused_rms_norm as _fused_rms_norm
    from nbgrad._rare import _int_mm as _int_mm
    from nbgrad._rare import _is_zerotensor as _is_zerotensor
    from nbgrad._rare import _linalg_eigh as _linalg_eigh
    from nbgrad._rare import _linalg_svd as _linalg_svd
    from nbgrad._rare import _logcumsumexp as _logcumsumexp
    from nbgrad._rare import _masked_softmax as _masked_softmax
    from nbgrad._rare import _neg_view as _neg_view
    from nbgrad._rare import _pack_padded_sequence as _pack_padded_sequence
    from nbgrad._rare import _safe_softmax as _safe_softmax
    from nbgrad._rare import _shape_as_tensor as _shape_as_tensor
    from nbgrad._rare import _stack as _stack
    from nbgrad._rare import _to_cpu as _to_cpu
    from nbgrad._rare import _trilinear as _trilinear
    from nbgrad._rare import _unsafe_index_put as _unsafe_index_put
    from nbgrad._rare import _weight_norm as _weight_norm
    from nbgrad._rare import _weight_norm_interface as _weight_norm_interface
    from nbgrad._rare import batch_norm_update_stats as batch_norm_update_stats
    from nbgrad._rare import compiled_with_cxx11_abi as compiled_with_cxx11_abi
    from nbgrad._rare import embedding_renorm_ as embedding_renorm_
    from nbgrad._rare import frobenius_norm as frobenius_norm
    from nbgrad._rare import get_file_path as get_file_path
    from nbgrad._rare import hash_tensor as hash_tensor
    from nbgrad._rare import lobpcg as lobpcg
    from nbgrad._rare import nuclear_norm as nuclear_norm
    from nbgrad._rare import slice_inverse as slice_inverse
    from nbgrad.accelerator import get_device_module as get_device_module
    from nbgrad.amp.autocast_mode import autocast as autocast
    from nbgrad.amp.autocast_mode import autocast_decrement_nesting as autocast_decrement_nesting
    from nbgrad.amp.autocast_mode import autocast_increment_nesting as autocast_increment_nesting
    from nbgrad.amp.autocast_mode import clear_autocast_cache as clear_autocast_cache
    from nbgrad.amp.autocast_mode import get_autocast_cpu_dtype as get_autocast_cpu_dtype
    from nbgrad.amp.autocast_mode import get_autocast_dtype as get_autocast_dtype
    from nbgrad.amp.autocast_mode import get_autocast_gpu_dtype as get_autocast_gpu_dtype
    from nbgrad.amp.autocast_mode import is_autocast_cache_enabled as is_autocast_cache_enabled
    from nbgrad.amp.autocast_mode import is_autocast_cpu_enabled as is_autocast_cpu_enabled
    from nbgrad.amp.autocast_mode import is_autocast_enabled as is_autocast_enabled
    from nbgrad.amp.autocast_mode import set_autocast_cache_enabled as set_autocast_cache_enabled
    from nbgrad.amp.autocast_mode import set_autocast_cpu_dtype as set_autocast_cpu_dtype
    from nbgrad.amp.autocast_mode import set_autocast_cpu_enabled as set_autocast_cpu_enabled
    from nbgrad.amp.autocast_mode import set_autocast_dtype as set_autocast_dtype
    from nbgrad.amp.autocast_mode import set_autocast_enabled as set_autocast_enabled
    from nbgrad.amp.autocast_mode import set_autocast_gpu_dtype as set_autocast_gpu_dtype
    from nbgrad.amp.grad_scaler import GradScaler as GradScaler
    from nbgrad.as_torch import install as install
    from nbgrad.autograd._plain import differentiable as differentiable
    from nbgrad.backends.cuda import get_float32_matmul_precision as get_float32_matmul_precision
    from nbgrad.backends.cuda import set_float32_matmul_precision as set_float32_matmul_precision
    from nbgrad.compiler import compile as compile
    from nbgrad.exchange.files import load as load
    from nbgrad.exchange.files import save as save
    from nbgrad.futures import Future as Future
    from nbgrad.jit import fork as fork
    from nbgrad.jit import wait as wait
    from nbgrad.process import _assert_async as _assert_async
    from nbgrad.process import _check as _check
    from nbgrad.process import _check_index as _check_index
    from nbgrad.process import _check_is_size as _check_is_size
    from nbgrad.process import _check_not_implemented as _check_not_implemented
    from nbgrad.process import _check_tensor_all as _check_tensor_all
    from nbgrad.process import _check_tensor_all_with as _check_tensor_all_with
    from nbgrad.process import _check_type as _check_type
    from nbgrad.process import _check_value as _check_value
    from nbgrad.process import _check_with as _check_with
    from nbgrad.process import get_num_interop_threads as get_num_interop_threads
    from nbgrad.process import has_lapack as has_lapack
    from nbgrad.process import has_mkl as has_mkl
    from nbgrad.process import has_openmp as has_openmp
    from nbgrad.process import is_storage as is_storage
    from nbgrad.process import is_vulkan_available as is_vulkan_available
    from nbgrad.process import set_default_tensor_type as set_default_tensor_type
    from nbgrad.process import set_flush_denormal as set_flush_denormal
    from nbgrad.process import set_num_interop_threads as set_num_interop_threads
    from nbgrad.process import typename as typename
    from nbgrad.sparse import _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr
    from nbgrad.sparse import _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo
    from nbgrad.sparse import hsmm as hsmm
    from nbgrad.sparse import hspmm as hspmm
    from nbgrad.sparse import resize_as_sparse_ as resize_as_sparse_
    from nbgrad.sparse import saddmm as saddmm
    from nbgrad.sparse import smm as smm
    from nbgrad.sparse import sparse_compressed_tensor as sparse_compressed_tensor
    from nbgrad.sparse import sparse_coo as sparse_coo
    from nbgrad.sparse import sparse_coo_tensor as sparse_coo_tensor
    from nbgrad.sparse import sparse_csc as sparse_csc
    from nbgrad.sparse import sparse_csc_tensor as sparse_csc_tensor
    from nbgrad.sparse import sparse_csr as sparse_csr
    from nbgrad.sparse import sparse_csr_tensor as sparse_csr_tensor
    from nbgrad.sparse import sspaddmm as sspaddmm
    from nbgrad.storage import BFloat16Storage as BFloat16Storage
    from nbgrad.storage import BoolStorage as BoolStorage
    from nbgrad.storage import ByteStorage as ByteStorage
    from nbgrad.storage import CharStorage as CharStorage
    from nbgrad.storage import ComplexDoubleStorage as ComplexDoubleStorage
    from nbgrad.storage import ComplexFloatStorage as ComplexFloatStorage
    from nbgrad.storage import DoubleStorage as DoubleStorage
    from nbgrad.storage import FloatStorage as FloatStorage
    from nbgrad.storage import HalfStorage as HalfStorage
    from nbgrad.storage import IntStorage as IntStorage
    from nbgrad.storage import LongStorage as LongStorage
    from nbgrad.storage import ShortStorage as ShortStorage
    from nbgrad.storage import Storage as Storage
    from nbgrad.utils.deterministic import (
        are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
    )
    from nbgrad.utils.deterministic import get_deterministic_debug_mode as get_deterministic_debug_mode
    from nbgrad.utils.deterministic import (
        is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
    )
    from nbgrad.utils.deterministic import set_deterministic_debug_mode as set_deterministic_debug_mode
    from nbgrad.utils.deterministic import use_deterministic_algorithms as use_deterministic_algorithms

# What not every program needs is loaded when it is first named (PEP 562): modules, and functions of modules.
_later = {
    "fft": "nbgrad.fft",
    "DispatchKeySet": "nbgrad._C",
    "native_batch_norm": "nbgrad._aten.own",
    "cond": "nbgrad._control",
    "sym_float": "nbgrad._control",
    "sym_int": "nbgrad._control",
    "sym_ite": "nbgrad._control",
    "sym_max": "nbgrad._control",
    "sym_min": "nbgrad._control",
    "sym_not": "nbgrad._control",
    "sym_sqrt": "nbgrad._control",
    "sym_sum": "nbgrad._control",
    "while_loop": "nbgrad._control",
    "pca_lowrank": "nbgrad._lowrank",
    "svd_lowrank": "nbgrad._lowrank",
    "BFloat16Storage": "nbgrad.storage",
    "BoolStorage": "nbgrad.storage",
    "ByteStorage": "nbgrad.storage",
    "CharStorage": "nbgrad.storage",
    "ComplexDoubleStorage": "nbgrad.storage",
    "ComplexFloatStorage": "nbgrad.storage",
    "DoubleStorage": "nbgrad.storage",
    "FloatStorage": "nbgrad.storage",
    "HalfStorage": "nbgrad.storage",
    "IntStorage": "nbgrad.storage",
    "LongStorage": "nbgrad.storage",
    "ShortStorage": "nbgrad.storage",
    "Storage": "nbgrad.storage",
    "storage": "nbgrad.storage",
    "Event": "nbgrad._queues",
    "GradScaler": "nbgrad.amp.grad_scaler",
    "Stream": "nbgrad._queues",
    "_C": "nbgrad._C",
    "_assert": "nbgrad.overrides",
    "_assert_async": "nbgrad.process",
    "_check": "nbgrad.process",
    "_check_index": "nbgrad.process",
    "_check_is_size": "nbgrad.process",
    "_check_not_implemented": "nbgrad.process",
    "_check_tensor_all": "nbgrad.process",
    "_check_tensor_all_with": "nbgrad.process",
    "_check_type": "nbgrad.process",
    "_check_value": "nbgrad.process",
    "_check_with": "nbgrad.process",
    "_compile": "nbgrad._compile",
    "_disable_dynamo": "nbgrad._compile",
    "_jit_internal": "nbgrad._jit_internal",
    "accelerator": "nbgrad.accelerator",
    "amp": "nbgrad.amp",
    "are_deterministic_algorithms_enabled": "nbgrad.utils.deterministic",
    "autocast": "nbgrad.amp.autocast_mode",
    "autocast_decrement_nesting": "nbgrad.amp.autocast_mode",
    "autocast_increment_nesting": "nbgrad.amp.autocast_mode",
    "backends": "nbgrad.backends",
    "clear_autocast_cache": "nbgrad.amp.autocast_mode",
    "compile": "nbgrad.compiler",
    "compiler": "nbgrad.compiler",
    "cpu": "nbgrad.cpu",
    "cuda": "nbgrad.cuda",
    "differentiable": "nbgrad.autograd._plain",
    "distributed": "nbgrad.distributed",
    "distributions": "nbgrad.distributions",
    "futures": "nbgrad.futures",
    "fx": "nbgrad.fx",
    "get_autocast_cpu_dtype": "nbgrad.amp.autocast_mode",
    "get_autocast_dtype": "nbgrad.amp.autocast_mode",
    "get_autocast_gpu_dtype": "nbgrad.amp.autocast_mode",
    "get_deterministic_debug_mode": "nbgrad.utils.deterministic",
    "get_device_module": "nbgrad.accelerator",
    "get_float32_matmul_precision": "nbgrad.backends.cuda",
    "get_num_interop_threads": "nbgrad.process",
    "has_lapack": "nbgrad.process",
    "has_mkl": "nbgrad.process",
    "has_openmp": "nbgrad.process",
    "hub": "nbgrad.hub",
    "install": "nbgrad.as_torch",
    "is_autocast_cache_enabled": "nbgrad.amp.autocast_mode",
    "is_autocast_cpu_enabled": "nbgrad.amp.autocast_mode",
    "is_autocast_enabled": "nbgrad.amp.autocast_mode",
    "is_deterministic_algorithms_warn_only_enabled": "nbgrad.utils.deterministic",
    "is_storage": "nbgrad.process",
    "is_vulkan_available": "nbgrad.process",
    "jit": "nbgrad.jit",
    "library": "nbgrad.library",
    "load": "nbgrad.exchange.files",
    "quantize_per_tensor": "nbgrad._quantized",
    "quantize_per_channel": "nbgrad._quantized",
    "quantize_per_tensor_dynamic": "nbgrad._quantized",
    "dequantize": "nbgrad._quantized",
    "int_repr": "nbgrad._quantized",
    "q_scale": "nbgrad._quantized",
    "q_zero_point": "nbgrad._quantized",
    "q_per_channel_scales": "nbgrad._quantized",
    "q_per_channel_zero_points": "nbgrad._quantized",
    "q_per_channel_axis": "nbgrad._quantized",
    "qscheme": "nbgrad._quantized",
    "per_tensor_affine": "nbgrad._quantized",
    "per_tensor_symmetric": "nbgrad._quantized",
    "per_channel_affine": "nbgrad._quantized",
    "per_channel_symmetric": "nbgrad._quantized",
    "per_channel_affine_float_qparams": "nbgrad._quantized",
    "_make_per_tensor_quantized_tensor": "nbgrad._quantized",
    "_make_per_channel_quantized_tensor": "nbgrad._quantized",
    "_choose_qparams_per_tensor": "nbgrad._quantized",
    "_empty_affine_quantized": "nbgrad._quantized",
    "nuclear_norm": "nbgrad._rare",
    "frobenius_norm": "nbgrad._rare",
    "hash_tensor": "nbgrad._rare",
    "slice_inverse": "nbgrad._rare",
    "embedding_renorm_": "nbgrad._rare",
    "batch_norm_update_stats": "nbgrad._rare",
    "lobpcg": "nbgrad._rare",
    "_shape_as_tensor": "nbgrad._rare",
    "_dim_arange": "nbgrad._rare",
    "_int_mm": "nbgrad._rare",
    "_weight_norm": "nbgrad._rare",
    "_weight_norm_interface": "nbgrad._rare",
    "_aminmax": "nbgrad._rare",
    "_safe_softmax": "nbgrad._rare",
    "_masked_softmax": "nbgrad._rare",
    "_addmm_activation": "nbgrad._rare",
    "_add_relu": "nbgrad._rare",
    "_euclidean_dist": "nbgrad._rare",
    "_fused_rms_norm": "nbgrad._rare",
    "_unsafe_index_put": "nbgrad._rare",
    "_stack": "nbgrad._rare",
    "_chunk_cat": "nbgrad._rare",
    "_trilinear": "nbgrad._rare",
    "_is_zerotensor": "nbgrad._rare",
    "_conj_physical": "nbgrad._rare",
    "_neg_view": "nbgrad._rare",
    "_logcumsumexp": "nbgrad._rare",
    "_pack_padded_sequence": "nbgrad._rare",
    "_linalg_eigh": "nbgrad._rare",
    "_linalg_svd": "nbgrad._rare",
    "_compute_linear_combination": "nbgrad._rare",
    "_to_cpu": "nbgrad._rare",
    "compiled_with_cxx11_abi": "nbgrad._rare",
    "get_file_path": "nbgrad._rare",
    "_cast_Byte": "nbgrad._rare",
    "_cast_Char": "nbgrad._rare",
    "_cast_Double": "nbgrad._rare",
    "_cast_Float": "nbgrad._rare",
    "_cast_Half": "nbgrad._rare",
    "_cast_Int": "nbgrad._rare",
    "_cast_Long": "nbgrad._rare",
    "_cast_Short": "nbgrad._rare",
    "fork": "nbgrad.jit",
    "wait": "nbgrad.jit",
    "Future": "nbgrad.futures",
    "native_group_norm": "nbgrad._aten.own",
    "_softmax_backward_data": "nbgrad._aten.own",
    "_log_softmax_backward_data": "nbgrad._aten.own",
    "_softmax": "nbgrad._aten.own",
    "_log_softmax": "nbgrad._aten.own",
    "_native_batch_norm_legit": "nbgrad._aten.own",
    "jagged": "nbgrad.nested._tensor",
    "nested": "nbgrad.nested",
    "optim": "nbgrad.optim",
    "overrides": "nbgrad.overrides",
    "profiler": "nbgrad.profiler",
    "save": "nbgrad.exchange.files",
    "serialization": "nbgrad.serialization",
    "sparse": "nbgrad.sparse",
    "sparse_coo": "nbgrad.sparse",
    "sspaddmm": "nbgrad.sparse",
    "sparse_csc_tensor": "nbgrad.sparse",
    "sparse_csc": "nbgrad.sparse",
    "sparse_compressed_tensor": "nbgrad.sparse",
    "smm": "nbgrad.sparse",
    "saddmm": "nbgrad.sparse",
    "resize_as_sparse_": "nbgrad.sparse",
    "hspmm": "nbgrad.sparse",
    "hsmm": "nbgrad.sparse",
    "sparse_coo_tensor": "nbgrad.sparse",
    "sparse_csr": "nbgrad.sparse",
    "_convert_indices_from_coo_to_csr": "nbgrad.sparse",
    "_convert_indices_from_csr_to_coo": "nbgrad.sparse",
    "sparse_csr_tensor": "nbgrad.sparse",
    "set_autocast_cache_enabled": "nbgrad.amp.autocast_mode",
    "set_autocast_cpu_dtype": "nbgrad.amp.autocast_mode",
    "set_autocast_cpu_enabled": "nbgrad.amp.autocast_mode",
    "set_autocast_dtype": "nbgrad.amp.autocast_mode",
    "set_autocast_enabled": "nbgrad.amp.autocast_mode",
    "set_autocast_gpu_dtype": "nbgrad.amp.autocast_mode",
    "set_default_tensor_type": "nbgrad.process",
    "set_deterministic_debug_mode": "nbgrad.utils.deterministic",
    "set_float32_matmul_precision": "nbgrad.backends.cuda",
    "set_flush_denormal": "nbgrad.process",
    "set_num_interop_threads": "nbgrad.process",
    "testing": "nbgrad.testing",
    "typename": "nbgrad.process",
    "types": "nbgrad.types",
    "use_deterministic_algorithms": "nbgrad.utils.deterministic",
    "version": "nbgrad.version",
}


def __getattr__(name: str) -> _typing.Any:
    if name in _later:
        from importlib import import_module

        module = import_module(_later[name])
        return module if module.__name__.endswith(name) else getattr(module, name)
    if name.startswith("_foreach_"):
        from nbgrad import _foreach

        if name in _foreach.NAMES:
            return globals().setdefault(name, _foreach.make(name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_later})


_finder.add_to_tensor(Tensor)
_finder.open_modules()
del _resting
