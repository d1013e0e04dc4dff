"""Names of the package, made by `python -m tests.stubs`."""

from builtins import bool as _bool
from builtins import float as _float
from builtins import int as _int
from collections.abc import Sequence
from typing import Any, Literal, overload

from numpy import ndarray as _ndarray
from typing_extensions import TypeIs

from nbgrad import _C as _C
from nbgrad import _compile as _compile
from nbgrad import _jit_internal as _jit_internal
from nbgrad import accelerator as accelerator
from nbgrad import amp as amp
from nbgrad import autograd as autograd
from nbgrad import backends as backends
from nbgrad import compiler as compiler
from nbgrad import cpu as cpu
from nbgrad import cuda as cuda
from nbgrad import distributed as distributed
from nbgrad import distributions as distributions
from nbgrad import fft as fft
from nbgrad import func as func
from nbgrad import futures as futures
from nbgrad import fx as fx
from nbgrad import hub as hub
from nbgrad import jit as jit
from nbgrad import library as library
from nbgrad import linalg as linalg
from nbgrad import nested as nested
from nbgrad import nn as nn
from nbgrad import optim as optim
from nbgrad import overrides as overrides
from nbgrad import profiler as profiler
from nbgrad import random as random
from nbgrad import return_types as return_types
from nbgrad import serialization as serialization
from nbgrad import sparse as sparse
from nbgrad import special as special
from nbgrad import storage as storage
from nbgrad import testing as testing
from nbgrad import types as types
from nbgrad import utils as utils
from nbgrad import version as version
from nbgrad._aten.own import _log_softmax as _log_softmax
from nbgrad._aten.own import _log_softmax_backward_data as _log_softmax_backward_data
from nbgrad._aten.own import _native_batch_norm_legit as _native_batch_norm_legit
from nbgrad._aten.own import _softmax as _softmax
from nbgrad._aten.own import _softmax_backward_data as _softmax_backward_data
from nbgrad._aten.own import native_batch_norm as native_batch_norm
from nbgrad._aten.own import native_group_norm as native_group_norm
from nbgrad._C import DispatchKeySet as DispatchKeySet
from nbgrad._C import Generator as Generator
from nbgrad._compile import _disable_dynamo as _disable_dynamo
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
from nbgrad._quantized import q_per_channel_axis as q_per_channel_axis
from nbgrad._quantized import q_per_channel_scales as q_per_channel_scales
from nbgrad._quantized import q_per_channel_zero_points as q_per_channel_zero_points
from nbgrad._quantized import q_scale as q_scale
from nbgrad._quantized import q_zero_point as q_zero_point
from nbgrad._quantized import quantize_per_channel as quantize_per_channel
from nbgrad._quantized import quantize_per_tensor as quantize_per_tensor
from nbgrad._quantized import quantize_per_tensor_dynamic as quantize_per_tensor_dynamic
from nbgrad._queues import Event as Event
from nbgrad._queues import Stream as Stream
from nbgrad._rare import _add_relu as _add_relu
from nbgrad._rare import _addmm_activation as _addmm_activation
from nbgrad._rare import _aminmax as _aminmax
from nbgrad._rare import _cast_Byte as _cast_Byte
from nbgrad._rare import _cast_Char as _cast_Char
from nbgrad._rare import _cast_Double as _cast_Double
from nbgrad._rare import _cast_Float as _cast_Float
from nbgrad._rare import _cast_Half as _cast_Half
from nbgrad._rare import _cast_Int as _cast_Int
from nbgrad._rare import _cast_Long as _cast_Long
from nbgrad._rare import _cast_Short as _cast_Short
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
from nbgrad.autograd._vmap import vmap as vmap
from nbgrad.autograd.anomaly_mode import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from nbgrad.autograd.anomaly_mode import is_anomaly_enabled as is_anomaly_enabled
from nbgrad.autograd.grad_mode import enable_grad as enable_grad
from nbgrad.autograd.grad_mode import inference_mode as inference_mode
from nbgrad.autograd.grad_mode import is_grad_enabled as is_grad_enabled
from nbgrad.autograd.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from nbgrad.autograd.grad_mode import no_grad as no_grad
from nbgrad.autograd.grad_mode import set_grad_enabled as set_grad_enabled
from nbgrad.backends.cuda import get_float32_matmul_precision as get_float32_matmul_precision
from nbgrad.backends.cuda import set_float32_matmul_precision as set_float32_matmul_precision
from nbgrad.compiler import compile as compile
from nbgrad.core.methods import Number
from nbgrad.core.tensor import Tensor as Tensor
from nbgrad.dispatch.stanza import elementwise as elementwise
from nbgrad.exchange.dlpack import from_dlpack as from_dlpack
from nbgrad.exchange.files.reading import load as load
from nbgrad.exchange.files.writing import save as save
from nbgrad.exchange.schemes import qscheme as qscheme
from nbgrad.futures import Future as Future
from nbgrad.jit import fork as fork
from nbgrad.jit import wait as wait
from nbgrad.kernels.cuda.driver import AcceleratorError as AcceleratorError
from nbgrad.kernels.cuda.driver import OutOfMemoryError as OutOfMemoryError
from nbgrad.kernels.launch import get_num_threads as get_num_threads
from nbgrad.kernels.launch import set_num_threads as set_num_threads
from nbgrad.memory.device import Device
from nbgrad.memory.device import device as device
from nbgrad.memory.device import get_default_device as get_default_device
from nbgrad.memory.device import set_default_device as set_default_device
from nbgrad.memory.dtypes import dtype as _dtype
from nbgrad.memory.dtypes import dtype as dtype
from nbgrad.memory.dtypes import finfo as finfo
from nbgrad.memory.dtypes import get_default_dtype as get_default_dtype
from nbgrad.memory.dtypes import iinfo as iinfo
from nbgrad.memory.dtypes import set_default_dtype as set_default_dtype
from nbgrad.memory.layout import Size as Size
from nbgrad.memory.layout import memory_format as _memory_format
from nbgrad.memory.layout import memory_format as memory_format
from nbgrad.ops.host.attributes import layout as _layout
from nbgrad.ops.host.attributes import layout as layout
from nbgrad.ops.host.printing import set_printoptions as set_printoptions
from nbgrad.ops.host.values import is_warn_always_enabled as is_warn_always_enabled
from nbgrad.ops.host.values import set_warn_always as set_warn_always
from nbgrad.ops.linear.contract import chain_matmul as chain_matmul
from nbgrad.ops.linear.products import dsmm as dsmm
from nbgrad.ops.linear.products import spmm as spmm
from nbgrad.ops.make.constructors import BFloat16Tensor as BFloat16Tensor
from nbgrad.ops.make.constructors import BoolTensor as BoolTensor
from nbgrad.ops.make.constructors import ByteTensor as ByteTensor
from nbgrad.ops.make.constructors import CharTensor as CharTensor
from nbgrad.ops.make.constructors import DoubleTensor as DoubleTensor
from nbgrad.ops.make.constructors import FloatTensor as FloatTensor
from nbgrad.ops.make.constructors import HalfTensor as HalfTensor
from nbgrad.ops.make.constructors import IntTensor as IntTensor
from nbgrad.ops.make.constructors import LongTensor as LongTensor
from nbgrad.ops.make.constructors import ShortTensor as ShortTensor
from nbgrad.ops.make.generator import initial_seed as initial_seed
from nbgrad.ops.make.generator import manual_seed as manual_seed
from nbgrad.ops.make.generator import seed as seed
from nbgrad.ops.views.parts import view_as_complex as view_as_complex
from nbgrad.ops.views.parts import view_as_real as view_as_real
from nbgrad.overrides import _assert as _assert
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
from nbgrad.process import is_storage as is_storage
from nbgrad.process import is_vulkan_available as is_vulkan_available
from nbgrad.process import set_default_tensor_type as set_default_tensor_type
from nbgrad.process import set_flush_denormal as set_flush_denormal
from nbgrad.process import set_num_interop_threads as set_num_interop_threads
from nbgrad.process import typename as typename
from nbgrad.random import get_rng_state as get_rng_state
from nbgrad.random import set_rng_state as set_rng_state
from nbgrad.sparse._compressed import sparse_compressed_tensor as sparse_compressed_tensor
from nbgrad.sparse._compressed import sparse_csc_tensor as sparse_csc_tensor
from nbgrad.sparse._compressed import sparse_csr_tensor as sparse_csr_tensor
from nbgrad.sparse._more import _convert_indices_from_coo_to_csr as _convert_indices_from_coo_to_csr
from nbgrad.sparse._more import _convert_indices_from_csr_to_coo as _convert_indices_from_csr_to_coo
from nbgrad.sparse._more import hsmm as hsmm
from nbgrad.sparse._more import hspmm as hspmm
from nbgrad.sparse._more import resize_as_sparse_ as resize_as_sparse_
from nbgrad.sparse._more import saddmm as saddmm
from nbgrad.sparse._more import smm as smm
from nbgrad.sparse._more import sspaddmm as sspaddmm
from nbgrad.sparse._tensor import sparse_coo_tensor as sparse_coo_tensor
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
from nbgrad.storage import TypedStorage as TypedStorage
from nbgrad.storage import UntypedStorage as UntypedStorage
from nbgrad.utils.deterministic import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
)
from nbgrad.utils.deterministic import get_deterministic_debug_mode as get_deterministic_debug_mode
from nbgrad.utils.deterministic import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from nbgrad.utils.deterministic import set_deterministic_debug_mode as set_deterministic_debug_mode
from nbgrad.utils.deterministic import use_deterministic_algorithms as use_deterministic_algorithms

__version__: str
bfloat16: _dtype
bool: _dtype
cdouble: _dtype
cfloat: _dtype
channels_last: _memory_format
channels_last_3d: _memory_format
complex128: _dtype
complex64: _dtype
contiguous_format: _memory_format
e: _float
float: _dtype
float16: _dtype
float32: _dtype
float64: _dtype
float8_e4m3fn: _dtype
float8_e4m3fnuz: _dtype
float8_e5m2: _dtype
float8_e5m2fnuz: _dtype
float8_e8m0fnu: _dtype
half: _dtype
has_lapack: _bool
has_mkl: _bool
has_openmp: _bool
inf: _float
int: _dtype
int16: _dtype
int32: _dtype
int64: _dtype
int8: _dtype
jagged: _layout
long: _dtype
nan: _float
newaxis: None
per_channel_affine: qscheme
per_channel_affine_float_qparams: qscheme
per_channel_symmetric: qscheme
per_tensor_affine: qscheme
per_tensor_symmetric: qscheme
pi: _float
preserve_format: _memory_format
short: _dtype
sparse_coo: _layout
sparse_csc: _layout
sparse_csr: _layout
strided: _layout
uint16: _dtype
uint32: _dtype
uint64: _dtype
uint8: _dtype

def abs(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def abs_(input: Tensor) -> Tensor: ...
def absolute(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acos_(input: Tensor) -> Tensor: ...
def acosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def acosh_(input: Tensor) -> Tensor: ...
def adaptive_avg_pool1d(input: Tensor, output_size: Sequence[_int] | _int) -> Tensor: ...
def adaptive_max_pool1d(input: Tensor, output_size: Sequence[_int] | _int) -> Tensor: ...
def add(
    input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
def addbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addcdiv(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1, out: Tensor | None = None
) -> Tensor: ...
def addcmul(
    input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def addmm(
    input: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    out_dtype: _dtype,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def addmv(
    input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor: ...
def addr(
    input: Tensor,
    vec1: Tensor,
    vec2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
def adjoint(input: Tensor) -> Tensor: ...
def affine_grid_generator(theta: Tensor, size: Sequence[_int], align_corners: _bool) -> Tensor: ...
def alias_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def all(
    input: Tensor, dim: Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def all(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def allclose(
    input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False
) -> _bool: ...
def alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def amax(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def amin(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def aminmax(
    input: Tensor,
    *,
    dim: _int | None = None,
    keepdim: _bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.aminmax: ...
def angle(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def any(
    input: Tensor, dim: Sequence[_int] | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def any(input: Tensor, dim: _int, keepdim: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
@overload
def arange(
    end: Number,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def arange(
    start: Number,
    end: Number,
    step: Number = 1,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def arccos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccos_(input: Tensor) -> Tensor: ...
def arccosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arccosh_(input: Tensor) -> Tensor: ...
def arcsin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsin_(input: Tensor) -> Tensor: ...
def arcsinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arcsinh_(input: Tensor) -> Tensor: ...
def arctan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctan_(input: Tensor) -> Tensor: ...
def arctanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def arctanh_(input: Tensor) -> Tensor: ...
def argmax(
    input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def argmin(
    input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def argsort(
    input: Tensor, *, stable: _bool, dim: _int = -1, descending: _bool = False, out: Tensor | None = None
) -> Tensor: ...
@overload
def argsort(input: Tensor, dim: _int = -1, descending: _bool = False) -> Tensor: ...
def argwhere(input: Tensor) -> Tensor: ...
def as_strided(
    input: Tensor, size: Sequence[_int], stride: Sequence[_int], storage_offset: _int | None = None
) -> Tensor: ...
def as_strided_copy(
    input: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def as_strided_scatter(
    input: Tensor,
    src: Tensor,
    size: Sequence[_int],
    stride: Sequence[_int],
    storage_offset: _int | None = None,
) -> Tensor: ...
def as_tensor(data: Any, *, dtype: _dtype | None = None, device: Device | None = None) -> Tensor: ...
def asarray(
    obj: Any,
    *,
    dtype: _dtype | None = None,
    device: Device | None = None,
    copy: _bool | None = None,
    requires_grad: _bool | None = None,
) -> Tensor: ...
def asin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asin_(input: Tensor) -> Tensor: ...
def asinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def asinh_(input: Tensor) -> Tensor: ...
def atan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atan_(input: Tensor) -> Tensor: ...
def atanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def atanh_(input: Tensor) -> Tensor: ...
@overload
def atleast_1d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_1d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_1d(tensor: Tensor, other: Tensor, /, *others: Tensor) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_2d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_2d(tensor: Tensor, other: Tensor, /, *others: Tensor) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensor: Tensor, /) -> Tensor: ...
@overload
def atleast_3d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]: ...
@overload
def atleast_3d(tensor: Tensor, other: Tensor, /, *others: Tensor) -> tuple[Tensor, ...]: ...
def avg_pool1d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    ceil_mode: _bool = False,
    count_include_pad: _bool = True,
) -> Tensor: ...
@overload
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def baddbmm(
    input: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    out_dtype: _dtype,
    *,
    beta: Number = 1,
    alpha: Number = 1,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bartlett_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def bartlett_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
) -> Tensor: ...
@overload
def bernoulli(input: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def bernoulli(input: Tensor, p: _float, *, generator: Generator | None = None) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: _int = 0,
) -> Tensor: ...
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor: ...
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor: ...
@overload
def bitwise_and(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bitwise_and(self: Number, other: Tensor) -> Tensor: ...
@overload
def bitwise_left_shift(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bitwise_left_shift(self: Number, other: Tensor) -> Tensor: ...
def bitwise_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bitwise_or(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bitwise_or(self: Number, other: Tensor) -> Tensor: ...
@overload
def bitwise_right_shift(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bitwise_right_shift(self: Number, other: Tensor) -> Tensor: ...
@overload
def bitwise_xor(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bitwise_xor(self: Number, other: Tensor) -> Tensor: ...
@overload
def blackman_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def blackman_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def block_diag(*tensors: Tensor) -> Tensor: ...
@overload
def bmm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def bmm(input: Tensor, mat2: Tensor, out_dtype: _dtype, *, out: Tensor | None = None) -> Tensor: ...
def broadcast_shapes(*shapes: _int | Sequence[_int]) -> Size: ...
def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]: ...
def broadcast_to(input: Tensor, size: Sequence[_int]) -> Tensor: ...
@overload
def bucketize(
    input: Tensor,
    boundaries: Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def bucketize(
    self: Number, boundaries: Tensor, *, out_int32: _bool = False, right: _bool = False
) -> Tensor: ...
def can_cast(from_: _dtype, to: _dtype) -> _bool: ...
def cartesian_prod(*tensors: Tensor | Sequence[Tensor]) -> Tensor: ...
def cat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def cdist(x1: Tensor, x2: Tensor, p: _float = 2.0, compute_mode: str | None = None) -> Tensor: ...
def ceil(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ceil_(input: Tensor) -> Tensor: ...
def celu(input: Tensor, alpha: Number = 1.0) -> Tensor: ...
def celu_(input: Tensor, alpha: Number = 1.0) -> Tensor: ...
def channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
def cholesky(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_inverse(input: Tensor, upper: _bool = False, *, out: Tensor | None = None) -> Tensor: ...
def cholesky_solve(
    input: Tensor, input2: Tensor, upper: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def clamp(
    input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def clamp(
    input: Tensor, min: Number | None = None, max: Number | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def clamp_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor: ...
@overload
def clamp_(input: Tensor, min: Number | None = None, max: Number | None = None) -> Tensor: ...
def clamp_max(input: Tensor, max: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def clamp_max_(input: Tensor, max: Tensor | Number) -> Tensor: ...
def clamp_min(input: Tensor, min: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def clamp_min_(input: Tensor, min: Tensor | Number) -> Tensor: ...
@overload
def clip(
    input: Tensor, min: Tensor | None = None, max: Tensor | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def clip(
    input: Tensor, min: Number | None = None, max: Number | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def clip_(input: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor: ...
@overload
def clip_(input: Tensor, min: Number | None = None, max: Number | None = None) -> Tensor: ...
def clone(input: Tensor, *, memory_format: _memory_format | None = None) -> Tensor: ...
def column_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def combinations(input: Tensor, r: _int = 2, with_replacement: _bool = False) -> Tensor: ...
def complex(real: Tensor, imag: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def concat(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def concatenate(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def conj(input: Tensor) -> Tensor: ...
def conj_physical(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def conj_physical_(input: Tensor) -> Tensor: ...
def constant_pad_nd(input: Tensor, pad: Sequence[_int], value: Number = 0) -> Tensor: ...
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = 0,
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = 0,
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int | str = 0,
    dilation: Sequence[_int] | _int = 1,
    groups: _int = 1,
) -> Tensor: ...
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: _int = 0) -> Tensor: ...
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int = 0,
    output_padding: Sequence[_int] | _int = 0,
    groups: _int = 1,
    dilation: Sequence[_int] | _int = 1,
) -> Tensor: ...
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int = 0,
    output_padding: Sequence[_int] | _int = 0,
    groups: _int = 1,
    dilation: Sequence[_int] | _int = 1,
) -> Tensor: ...
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sequence[_int] | _int = 1,
    padding: Sequence[_int] | _int = 0,
    output_padding: Sequence[_int] | _int = 0,
    groups: _int = 1,
    dilation: Sequence[_int] | _int = 1,
) -> Tensor: ...
def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[_int],
    padding: Sequence[_int],
    dilation: Sequence[_int],
    transposed: _bool,
    output_padding: Sequence[_int],
    groups: _int,
) -> Tensor: ...
def copysign(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def corrcoef(input: Tensor) -> Tensor: ...
def cos(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cos_(input: Tensor) -> Tensor: ...
def cosh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def cosh_(input: Tensor) -> Tensor: ...
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 0
) -> Tensor: ...
def cosine_similarity(x1: Tensor, x2: Tensor, dim: _int = 1, eps: _float = 1e-08) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: _int | None = None) -> Tensor: ...
@overload
def count_nonzero(input: Tensor, dim: Sequence[_int]) -> Tensor: ...
def cov(
    input: Tensor, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor: ...
def cross(input: Tensor, other: Tensor, dim: _int | None = None, *, out: Tensor | None = None) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Sequence[_int],
    target_lengths: Sequence[_int],
    blank: _int = 0,
    reduction: _int = 0,
    zero_infinity: _bool = False,
) -> Tensor: ...
@overload
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: _int = 0,
    reduction: _int = 0,
    zero_infinity: _bool = False,
) -> Tensor: ...
def cummax(input: Tensor, dim: _int, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummax: ...
def cummin(input: Tensor, dim: _int, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummin: ...
def cumprod(
    input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None
) -> Tensor: ...
def cumsum(input: Tensor, dim: _int, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def cumulative_trapezoid(y: Tensor, *, dx: Number = 1, dim: _int = -1) -> Tensor: ...

default_generator: Generator

def deg2rad(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def deg2rad_(input: Tensor) -> Tensor: ...
def det(input: Tensor) -> Tensor: ...
def detach(input: Tensor) -> Tensor: ...
def detach_(input: Tensor) -> Tensor: ...
def detach_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def diag(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def diag_embed(input: Tensor, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor: ...
def diagflat(input: Tensor, offset: _int = 0) -> Tensor: ...
def diagonal(input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor: ...
def diagonal_copy(
    input: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1, *, out: Tensor | None = None
) -> Tensor: ...
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1
) -> Tensor: ...
def diff(
    input: Tensor,
    n: _int = 1,
    dim: _int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def dist(input: Tensor, other: Tensor, p: Number = 2) -> Tensor: ...
def div(
    input: Tensor | Number,
    other: Tensor | Number,
    *,
    rounding_mode: str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def divide(
    input: Tensor | Number,
    other: Tensor | Number,
    *,
    rounding_mode: str | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def dot(input: Tensor, tensor: Tensor, *, out: Tensor | None = None) -> Tensor: ...

double: _dtype

def dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
@overload
def dsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def dsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def dstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
@overload
def einsum(equation: str, /, *operands: Tensor | Sequence[Tensor]) -> Tensor: ...
@overload
def einsum(operand: Tensor, axes: Sequence[Any], /, *others: Tensor | Sequence[Any]) -> Tensor: ...
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: _int = -1,
    scale_grad_by_freq: _bool = False,
    sparse: _bool = False,
) -> Tensor: ...
@overload
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: _bool = False,
    mode: _int = 0,
    sparse: _bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: _bool = False,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
@overload
def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: _bool,
    mode: _int,
    sparse: _bool,
    per_sample_weights: Tensor | None,
    include_last_offset: _bool,
    padding_idx: _int | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]: ...
@overload
def empty(
    size: Sequence[_int],
    *,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def empty(
    *size: _int,
    memory_format: _memory_format | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def empty_like(
    input: Tensor,
    *,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def empty_permuted(
    size: Sequence[_int],
    physical_layout: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def empty_strided(
    size: Sequence[_int],
    stride: Sequence[_int],
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def eq(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def equal(input: Tensor, other: Tensor) -> _bool: ...
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erf_(input: Tensor) -> Tensor: ...
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def erfc_(input: Tensor) -> Tensor: ...
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def exp2_(input: Tensor) -> Tensor: ...
def exp_(input: Tensor) -> Tensor: ...
def expand_copy(
    input: Tensor, size: Sequence[_int], *, implicit: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def expm1(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def expm1_(input: Tensor) -> Tensor: ...
@overload
def eye(
    n: _int,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def eye(
    n: _int,
    m: _int,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: _int, quant_min: _int, quant_max: _int
) -> Tensor: ...
@overload
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: _float, zero_point: _int, quant_min: _int, quant_max: _int
) -> Tensor: ...
@overload
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, quant_min: _int, quant_max: _int
) -> Tensor: ...
def feature_alpha_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_alpha_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_dropout(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def feature_dropout_(input: Tensor, p: _float, train: _bool) -> Tensor: ...
def fill(input: Tensor, value: Tensor | Number) -> Tensor: ...
def fill_(input: Tensor, value: Tensor | Number) -> Tensor: ...
def fix(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fix_(input: Tensor) -> Tensor: ...
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = -1) -> Tensor: ...
def flip(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
def fliplr(input: Tensor) -> Tensor: ...
def flipud(input: Tensor) -> Tensor: ...
@overload
def float_power(input: Tensor, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def float_power(self: Number, exponent: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def floor(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def floor_(input: Tensor) -> Tensor: ...
def floor_divide(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def fmax(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmin(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def fmod(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def frac(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def frac_(input: Tensor) -> Tensor: ...
def frexp(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.frexp: ...
def from_file(
    filename: str,
    shared: _bool | None = None,
    size: _int = 0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def from_numpy(array: _ndarray[Any, Any], /) -> Tensor: ...
def frombuffer(
    buffer: Any, *, dtype: _dtype, count: _int = -1, offset: _int = 0, requires_grad: _bool = False
) -> Tensor: ...
def full(
    size: Sequence[_int],
    fill_value: Number,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def full_like(
    input: Tensor,
    fill_value: Number,
    *,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def gather(
    input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False, out: Tensor | None = None
) -> Tensor: ...
def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def gcd_(input: Tensor, other: Tensor) -> Tensor: ...
def ge(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def geqrf(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.geqrf: ...
def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def get_device(input: Tensor) -> _int: ...
@overload
def gradient(
    input: Tensor, *, spacing: Number = ..., dim: Sequence[_int], edge_order: _int = 1
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor, *, spacing: Number | None = None, dim: _int | None = None, edge_order: _int = 1
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor,
    *,
    spacing: Sequence[Number] | Sequence[Tensor],
    dim: _int | None = None,
    edge_order: _int = 1,
) -> tuple[Tensor, ...]: ...
@overload
def gradient(
    input: Tensor, *, spacing: Sequence[Number] | Sequence[Tensor], dim: Sequence[_int], edge_order: _int = 1
) -> tuple[Tensor, ...]: ...
def greater(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def greater_equal(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: _int, padding_mode: _int, align_corners: _bool
) -> Tensor: ...
def group_norm(
    input: Tensor,
    num_groups: _int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
    cudnn_enabled: _bool = True,
) -> Tensor: ...
@overload
def gru(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def gru(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
def gru_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
def gt(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    alpha: _float,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hamming_window(
    window_length: _int,
    periodic: _bool,
    alpha: _float,
    beta: _float,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hann_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def hann_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def hardshrink(input: Tensor, lambd: Number = 0.5, *, out: Tensor | None = None) -> Tensor: ...
def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: _float = 1.0, reduction: _int = 0
) -> Tensor: ...
def histc(
    input: Tensor, bins: _int = 100, min: Number = 0, max: Number = 0, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def histogram(
    input: Tensor,
    bins: Tensor,
    *,
    weight: Tensor | None = None,
    density: _bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.histogram: ...
@overload
def histogram(
    input: Tensor,
    bins: _int = 100,
    *,
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.histogram: ...
def histogramdd(
    input: Tensor,
    bins: _int | Sequence[_int] | Sequence[Tensor],
    range: Sequence[_float] | None = None,
    weight: Tensor | None = None,
    density: _bool = False,
) -> return_types.histogramdd: ...
@overload
def hsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def hsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def hstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def hypot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def i0_(input: Tensor) -> Tensor: ...
def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def imag(input: Tensor) -> Tensor: ...
def index_add(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
def index_copy(
    input: Tensor, dim: _int, index: Tensor, source: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def index_fill(input: Tensor, dim: _int, index: Tensor, value: Tensor | Number) -> Tensor: ...
def index_put(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False
) -> Tensor: ...
def index_put_(
    input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: _bool = False
) -> Tensor: ...
def index_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
def index_select(input: Tensor, dim: _int, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def inner(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: _bool,
    momentum: _float,
    eps: _float,
    cudnn_enabled: _bool,
) -> Tensor: ...
def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def is_complex(input: Tensor) -> _bool: ...
def is_conj(input: Tensor) -> _bool: ...
def is_distributed(input: Tensor) -> _bool: ...
def is_floating_point(input: Tensor) -> _bool: ...
def is_inference(input: Tensor) -> _bool: ...
def is_neg(input: Tensor) -> _bool: ...
def is_nonzero(input: Tensor) -> _bool: ...
def is_same_size(input: Tensor, other: Tensor) -> _bool: ...
def is_signed(input: Tensor) -> _bool: ...
def is_tensor(obj: object, /) -> TypeIs[Tensor]: ...
def isclose(
    input: Tensor, other: Tensor, rtol: _float = 1e-05, atol: _float = 1e-08, equal_nan: _bool = False
) -> Tensor: ...
def isfinite(input: Tensor) -> Tensor: ...
@overload
def isin(
    elements: Tensor,
    test_elements: Tensor,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    element: Number,
    test_elements: Tensor,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def isin(
    elements: Tensor,
    test_element: Number,
    *,
    assume_unique: _bool = False,
    invert: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
def isinf(input: Tensor) -> Tensor: ...
def isnan(input: Tensor) -> Tensor: ...
def isneginf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isposinf(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def isreal(input: Tensor) -> Tensor: ...
def istft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    normalized: _bool = False,
    onesided: _bool | None = None,
    length: _int | None = None,
    return_complex: _bool = False,
) -> Tensor: ...
@overload
def kaiser_window(
    window_length: _int,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def kaiser_window(
    window_length: _int,
    periodic: _bool,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def kaiser_window(
    window_length: _int,
    periodic: _bool,
    beta: _float,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def kl_div(input: Tensor, target: Tensor, reduction: _int = 0, *, log_target: _bool = False) -> Tensor: ...
def kron(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def kthvalue(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    keepdim: _bool = False,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.kthvalue: ...
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[_int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: _float = 1e-05,
    cudnn_enable: _bool = True,
) -> Tensor: ...
def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lcm_(input: Tensor, other: Tensor) -> Tensor: ...
def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ldexp_(input: Tensor, other: Tensor) -> Tensor: ...
def le(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def lerp(input: Tensor, end: Tensor, weight: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def less(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def less_equal(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def linspace(
    start: Tensor | Number,
    end: Tensor | Number,
    steps: _int,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def log(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log10_(input: Tensor) -> Tensor: ...
def log1p(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log1p_(input: Tensor) -> Tensor: ...
def log2(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def log2_(input: Tensor) -> Tensor: ...
def log_(input: Tensor) -> Tensor: ...
def log_softmax(
    input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logcumsumexp(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
def logdet(input: Tensor) -> Tensor: ...
def logical_and(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_not(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_or(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logical_xor(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def logit(input: Tensor, eps: _float | None = None, *, out: Tensor | None = None) -> Tensor: ...
def logit_(input: Tensor, eps: _float | None = None) -> Tensor: ...
def logspace(
    start: Tensor | Number,
    end: Tensor | Number,
    steps: _int,
    base: _float = 10.0,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def logsumexp(
    input: Tensor, dim: Sequence[_int] | _int, keepdim: _bool = False, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def lstm(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def lstm(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor, Tensor]: ...
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]: ...
def lt(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def lu(
    A: Tensor, pivot: _bool = True, get_infos: Literal[False] = False, out: Any = None
) -> tuple[Tensor, Tensor]: ...
@overload
def lu(
    A: Tensor, pivot: _bool = True, *, get_infos: Literal[True], out: Any = None
) -> tuple[Tensor, Tensor, Tensor]: ...
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def lu_unpack(
    LU_data: Tensor,
    LU_pivots: Tensor,
    unpack_data: _bool = True,
    unpack_pivots: _bool = True,
    *,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> return_types.lu_unpack: ...
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: _float = 0.0, reduction: _int = 0
) -> Tensor: ...
def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor: ...
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor: ...
def masked_select(input: Tensor, mask: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def matrix_exp(input: Tensor) -> Tensor: ...
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def max(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.max: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
) -> Tensor: ...
def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
) -> Tensor: ...
def max_pool3d(
    input: Tensor,
    kernel_size: Sequence[_int] | _int,
    stride: Sequence[_int] | _int | None = None,
    padding: Sequence[_int] | _int = 0,
    dilation: Sequence[_int] | _int = 1,
    ceil_mode: _bool = False,
) -> Tensor: ...
def maximum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mean(input: Tensor, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor: ...
@overload
def mean(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def median(input: Tensor) -> Tensor: ...
@overload
def median(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.median: ...
def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]: ...
@overload
def min(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def min(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.min: ...
def minimum(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mm(input: Tensor, mat2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def mm(input: Tensor, mat2: Tensor, out_dtype: _dtype, *, out: Tensor | None = None) -> Tensor: ...
def mode(
    input: Tensor, dim: _int = -1, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.mode: ...
@overload
def moveaxis(input: Tensor, source: _int, destination: _int) -> Tensor: ...
@overload
def moveaxis(input: Tensor, source: Sequence[_int], destination: Sequence[_int]) -> Tensor: ...
@overload
def movedim(input: Tensor, source: _int, destination: _int) -> Tensor: ...
@overload
def movedim(input: Tensor, source: Sequence[_int], destination: Sequence[_int]) -> Tensor: ...
def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mul(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def multinomial(
    input: Tensor,
    num_samples: _int,
    replacement: _bool = False,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def multiply(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def mv(input: Tensor, vec: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def mvlgamma(input: Tensor, p: _int, *, out: Tensor | None = None) -> Tensor: ...
def nan_to_num(
    input: Tensor,
    nan: _float | None = None,
    posinf: _float | None = None,
    neginf: _float | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def nan_to_num_(
    input: Tensor, nan: _float | None = None, posinf: _float | None = None, neginf: _float | None = None
) -> Tensor: ...
def nanmean(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def nanmedian(input: Tensor) -> Tensor: ...
@overload
def nanmedian(
    input: Tensor, dim: _int, keepdim: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.nanmedian: ...
def nanquantile(
    input: Tensor,
    q: Tensor | _float,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def nansum(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def narrow(input: Tensor, dim: _int, start: Tensor | _int, length: _int) -> Tensor: ...
def narrow_copy(
    input: Tensor, dim: _int, start: _int, length: _int, *, out: Tensor | None = None
) -> Tensor: ...
def native_channel_shuffle(input: Tensor, groups: _int) -> Tensor: ...
def native_dropout(input: Tensor, p: _float, train: _bool | None) -> tuple[Tensor, Tensor]: ...
def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None, bias: Tensor | None, eps: _float
) -> tuple[Tensor, Tensor, Tensor]: ...
def ne(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def neg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def neg_(input: Tensor) -> Tensor: ...
def negative(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def negative_(input: Tensor) -> Tensor: ...
def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
def nonzero_static(
    input: Tensor, *, size: _int, fill_value: _int = -1, out: Tensor | None = None
) -> Tensor: ...
def norm(
    input: Tensor,
    p: _float | str | None = "fro",
    dim: _int | Sequence[_int] | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
) -> Tensor: ...
def norm_except_dim(v: Tensor, pow: _int = 2, dim: _int = 0) -> Tensor: ...
@overload
def normal(
    mean: Tensor | _float, std: Tensor, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def normal(
    mean: Tensor, std: _float = 1, *, generator: Generator | None = None, out: Tensor | None = None
) -> Tensor: ...
@overload
def normal(
    mean: _float,
    std: _float,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def not_equal(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def numel(input: Tensor) -> _int: ...
@overload
def ones(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def ones(
    *size: _int,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def ones_like(
    input: Tensor,
    *,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def orgqr(input: Tensor, input2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def ormqr(
    input: Tensor,
    input2: Tensor,
    input3: Tensor,
    left: _bool = True,
    transpose: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def outer(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def pairwise_distance(
    x1: Tensor, x2: Tensor, p: _float = 2, eps: _float = 1e-06, keepdim: _bool = False
) -> Tensor: ...
def pdist(input: Tensor, p: _float = 2) -> Tensor: ...
def permute(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
def permute_copy(input: Tensor, dims: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def pinverse(input: Tensor, rcond: _float = 1e-15) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: _int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: _int) -> Tensor: ...
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor: ...
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: _bool, full: _bool, eps: _float, reduction: _int
) -> Tensor: ...
def polar(abs: Tensor, angle: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def polygamma(n: _int, input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def positive(input: Tensor) -> Tensor: ...
@overload
def pow(input: Tensor, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def pow(self: Number, exponent: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def prelu(input: Tensor, weight: Tensor) -> Tensor: ...
@overload
def prod(input: Tensor, *, dtype: _dtype | None = None) -> Tensor: ...
@overload
def prod(
    input: Tensor,
    dim: _int,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def promote_types(type1: _dtype, type2: _dtype) -> _dtype: ...
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor: ...
def qr(input: Tensor, some: _bool = True, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.qr: ...
def quantile(
    input: Tensor,
    q: Tensor | _float,
    dim: _int | None = None,
    keepdim: _bool = False,
    *,
    interpolation: str = "linear",
    out: Tensor | None = None,
) -> Tensor: ...
def rad2deg(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rad2deg_(input: Tensor) -> Tensor: ...
@overload
def rand(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def rand(
    *size: _int,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint(
    low: _int,
    high: _int,
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    low: _int,
    high: _int,
    *,
    generator: Generator | None = None,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randint_like(
    input: Tensor,
    high: Tensor | _int,
    *,
    generator: Generator | None = None,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn(
    size: Sequence[_int],
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def randn(
    *size: _int,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def randperm(
    n: _int,
    *,
    generator: Generator | None = None,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def range(
    start: Number,
    end: Number,
    step: Number = 1,
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout = ...,
    device: Device | None = None,
    requires_grad: _bool = False,
) -> Tensor: ...
def ravel(input: Tensor) -> Tensor: ...
def real(input: Tensor) -> Tensor: ...
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def reciprocal_(input: Tensor) -> Tensor: ...
def relu(input: Tensor) -> Tensor: ...
def relu_(input: Tensor) -> Tensor: ...
@overload
def remainder(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def remainder(self: Number, other: Tensor) -> Tensor: ...
def renorm(input: Tensor, p: Number, dim: _int, maxnorm: Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def repeat_interleave(
    input: Tensor, repeats: Tensor | _int, dim: _int | None = None, *, output_size: _int | None = None
) -> Tensor: ...
@overload
def repeat_interleave(repeats: Tensor, *, output_size: _int | None = None) -> Tensor: ...
def reshape(input: Tensor, shape: Sequence[_int]) -> Tensor: ...
def resize_as_(
    input: Tensor, the_template: Tensor, *, memory_format: _memory_format | None = None
) -> Tensor: ...
def resolve_conj(input: Tensor) -> Tensor: ...
def resolve_neg(input: Tensor) -> Tensor: ...
@overload
def result_type(tensor: Tensor, other: Tensor | Number) -> _dtype: ...
@overload
def result_type(scalar: Number, tensor: Tensor) -> _dtype: ...
@overload
def result_type(scalar1: Number, scalar2: Number) -> _dtype: ...
def rms_norm(
    input: Tensor, normalized_shape: Sequence[_int], weight: Tensor | None = None, eps: _float | None = None
) -> Tensor: ...
@overload
def rnn_relu(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def rnn_relu(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
def rnn_relu_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
@overload
def rnn_tanh(
    data: Tensor,
    batch_sizes: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
) -> tuple[Tensor, Tensor]: ...
@overload
def rnn_tanh(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: _bool,
    num_layers: _int,
    dropout: _float,
    train: _bool,
    bidirectional: _bool,
    batch_first: _bool,
) -> tuple[Tensor, Tensor]: ...
def rnn_tanh_cell(
    input: Tensor,
    hx: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> Tensor: ...
def roll(
    input: Tensor, shifts: Sequence[_int] | _int, dims: Sequence[_int] | _int | None = None
) -> Tensor: ...
def rot90(input: Tensor, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor: ...
def round(input: Tensor, *, decimals: _int = ..., out: Tensor | None = None) -> Tensor: ...
def round_(input: Tensor, *, decimals: _int = ...) -> Tensor: ...
def row_stack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
def rrelu(
    input: Tensor,
    lower: Number = 0.125,
    upper: Number = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rrelu_(
    input: Tensor,
    lower: Number = 0.125,
    upper: Number = 0.3333333333333333,
    training: _bool = False,
    generator: Generator | None = None,
) -> Tensor: ...
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def rsqrt_(input: Tensor) -> Tensor: ...
@overload
def rsub(input: Tensor, other: Tensor, *, alpha: Number = 1) -> Tensor: ...
@overload
def rsub(input: Tensor, other: Number, alpha: Number = 1) -> Tensor: ...
def scalar_tensor(
    s: Number,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, *, reduce: str = ..., out: Tensor | None = None
) -> Tensor: ...
@overload
def scatter(
    input: Tensor, dim: _int, index: Tensor, value: Number, *, reduce: str = ..., out: Tensor | None = None
) -> Tensor: ...
def scatter_add(
    input: Tensor, dim: _int, index: Tensor, src: Tensor, *, out: Tensor | None = None
) -> Tensor: ...
def scatter_reduce(
    input: Tensor,
    dim: _int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    *,
    include_self: _bool = True,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def searchsorted(
    sorted_sequence: Tensor,
    self: Number,
    *,
    out_int32: _bool = False,
    right: _bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: _int = 0,
    unsafe: _bool = False,
    initial: Number | None = None,
) -> Tensor: ...
def select(input: Tensor, dim: _int, index: _int) -> Tensor: ...
def select_copy(input: Tensor, dim: _int, index: _int, *, out: Tensor | None = None) -> Tensor: ...
def select_scatter(input: Tensor, src: Tensor, dim: _int, index: _int) -> Tensor: ...
def selu(input: Tensor) -> Tensor: ...
def selu_(input: Tensor) -> Tensor: ...
def set_anomaly_enabled(enabled: _bool, check_nan: _bool = True) -> None: ...
def sgn(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sigmoid_(input: Tensor) -> Tensor: ...
def sign(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def signbit(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sin_(input: Tensor) -> Tensor: ...
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinc_(input: Tensor) -> Tensor: ...
def sinh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sinh_(input: Tensor) -> Tensor: ...
def slice_copy(
    input: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slice_scatter(
    input: Tensor,
    src: Tensor,
    dim: _int = 0,
    start: _int | None = None,
    end: _int | None = None,
    step: _int = 1,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
def slogdet(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.slogdet: ...
def softmax(
    input: Tensor, dim: _int, dtype: _dtype | None = None, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def sort(
    input: Tensor,
    *,
    stable: _bool | None,
    dim: _int = -1,
    descending: _bool = False,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.sort: ...
@overload
def sort(
    input: Tensor, dim: _int = -1, descending: _bool = False, *, out: tuple[Tensor, Tensor] | None = None
) -> return_types.sort: ...
def split(
    tensor: Tensor, split_size_or_sections: _int | Sequence[_int], dim: _int = 0
) -> tuple[Tensor, ...]: ...
def split_copy(
    input: Tensor, split_size: _int, dim: _int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
def split_with_sizes(input: Tensor, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
def split_with_sizes_copy(
    input: Tensor, split_sizes: Sequence[_int], dim: _int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def sqrt_(input: Tensor) -> Tensor: ...
def square(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def square_(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor) -> Tensor: ...
@overload
def squeeze(input: Tensor, dim: _int | Sequence[_int]) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def squeeze_copy(input: Tensor, dim: _int | Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
def stack(tensors: Sequence[Tensor], dim: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: Number | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def std(input: Tensor, unbiased: _bool = True) -> Tensor: ...
@overload
def std_mean(
    input: Tensor, dim: Sequence[_int] | _int | None, unbiased: _bool = True, keepdim: _bool = False
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: Number | None = None,
    keepdim: _bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def std_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def stft(
    input: Tensor,
    n_fft: _int,
    hop_length: _int | None = None,
    win_length: _int | None = None,
    window: Tensor | None = None,
    center: _bool = True,
    pad_mode: str = "reflect",
    normalized: _bool = False,
    onesided: _bool | None = None,
    return_complex: _bool | None = None,
    align_to_window: _bool | None = None,
) -> Tensor: ...
def sub(
    input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def subtract(
    input: Tensor | Number, other: Tensor | Number, *, alpha: Number = 1, out: Tensor | None = None
) -> Tensor: ...
@overload
def subtract(input: Tensor | Number, other: Number, alpha: Number = 1) -> Tensor: ...
@overload
def sum(input: Tensor, *, dtype: _dtype | None = None) -> Tensor: ...
@overload
def sum(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    keepdim: _bool = False,
    *,
    dtype: _dtype | None = None,
    out: Tensor | None = None,
) -> Tensor: ...
def svd(
    input: Tensor,
    some: _bool = True,
    compute_uv: _bool = True,
    *,
    out: tuple[Tensor, Tensor, Tensor] | None = None,
) -> return_types.svd: ...
def swapaxes(input: Tensor, axis0: _int, axis1: _int) -> Tensor: ...
def swapdims(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def t(input: Tensor) -> Tensor: ...
def t_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take(input: Tensor, index: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def take_along_dim(
    input: Tensor, indices: Tensor, dim: _int | None = None, *, out: Tensor | None = None
) -> Tensor: ...
def tan(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tan_(input: Tensor) -> Tensor: ...
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def tanh_(input: Tensor) -> Tensor: ...
def tensor(
    data: Any,
    *,
    dtype: _dtype | None = None,
    device: Device | None = None,
    pin_memory: _bool = False,
    requires_grad: _bool = False,
) -> Tensor: ...
@overload
def tensor_split(input: Tensor, indices: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, tensor_indices_or_sections: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
@overload
def tensor_split(input: Tensor, sections: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def tensordot(
    a: Tensor,
    b: Tensor,
    dims: _int | Tensor | Sequence[Sequence[_int]] | Sequence[_int] = 2,
    out: Tensor | None = None,
) -> Tensor: ...
def threshold(input: Tensor, threshold: Number, value: Number, *, out: Tensor | None = None) -> Tensor: ...
def threshold_(input: Tensor, threshold: Number, value: Number) -> Tensor: ...
def tile(input: Tensor, dims: Sequence[_int]) -> Tensor: ...
def topk(
    input: Tensor,
    k: _int,
    dim: _int = -1,
    largest: _bool = True,
    sorted: _bool = True,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.topk: ...
def trace(input: Tensor) -> Tensor: ...
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor: ...
def transpose_copy(input: Tensor, dim0: _int, dim1: _int, *, out: Tensor | None = None) -> Tensor: ...
@overload
def trapezoid(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
@overload
def trapezoid(y: Tensor, *, dx: Number = 1, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, *, dx: _float = 1, dim: _int = -1) -> Tensor: ...
@overload
def trapz(y: Tensor, x: Tensor, *, dim: _int = -1) -> Tensor: ...
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: _bool = True,
    transpose: _bool = False,
    unitriangular: _bool = False,
    *,
    out: tuple[Tensor, Tensor] | None = None,
) -> return_types.triangular_solve: ...
def tril(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def tril_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: _float = 1.0,
    p: _float = 2,
    eps: _float = 1e-06,
    swap: _bool = False,
    reduction: _int = 0,
) -> Tensor: ...
def triu(input: Tensor, diagonal: _int = 0, *, out: Tensor | None = None) -> Tensor: ...
def triu_indices(
    row: _int,
    col: _int,
    offset: _int = 0,
    *,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def true_divide(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
def trunc(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def trunc_(input: Tensor) -> Tensor: ...
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unbind_copy(
    input: Tensor, dim: _int = 0, *, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]: ...
def unflatten(input: Tensor, dim: _int, sizes: Sequence[_int]) -> Tensor: ...
def unfold_copy(
    input: Tensor, dimension: _int, size: _int, step: _int, *, out: Tensor | None = None
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    return_inverse: Literal[False] = False,
    *,
    return_counts: Literal[True],
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool = True,
    *,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: _int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique(
    input: Tensor,
    sorted: _bool,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: _int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[True],
    return_counts: Literal[False] = False,
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[False] = False,
    *,
    return_counts: Literal[True],
    dim: _int | None = None,
) -> tuple[Tensor, Tensor]: ...
@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[True],
    return_counts: Literal[True],
    dim: _int | None = None,
) -> tuple[Tensor, Tensor, Tensor]: ...
def unravel_index(indices: Tensor, shape: _int | Sequence[_int]) -> tuple[Tensor, ...]: ...
def unsafe_chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unsafe_split(tensor: Tensor, split_size: _int, dim: _int = 0) -> tuple[Tensor, ...]: ...
def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Sequence[_int], dim: _int = 0
) -> tuple[Tensor, ...]: ...
def unsqueeze(input: Tensor, dim: _int) -> Tensor: ...
def unsqueeze_copy(input: Tensor, dim: _int, *, out: Tensor | None = None) -> Tensor: ...
def vander(x: Tensor, N: _int | None = None, increasing: _bool = False) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: Sequence[_int] | _int | None,
    unbiased: _bool = True,
    keepdim: _bool = False,
    *,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: Number | None = None,
    keepdim: _bool = False,
    out: Tensor | None = None,
) -> Tensor: ...
@overload
def var(input: Tensor, unbiased: _bool = True) -> Tensor: ...
@overload
def var_mean(
    input: Tensor, dim: Sequence[_int] | _int | None, unbiased: _bool = True, keepdim: _bool = False
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(
    input: Tensor,
    dim: Sequence[_int] | _int | None = None,
    *,
    correction: Number | None = None,
    keepdim: _bool = False,
) -> tuple[Tensor, Tensor]: ...
@overload
def var_mean(input: Tensor, unbiased: _bool = True) -> tuple[Tensor, Tensor]: ...
def vdot(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def view_as_complex_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def view_as_real_copy(input: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, dtype: _dtype, *, out: Tensor | None = None) -> Tensor: ...
@overload
def view_copy(input: Tensor, size: Sequence[_int], *, out: Tensor | None = None) -> Tensor: ...
@overload
def vsplit(input: Tensor, sections: _int) -> tuple[Tensor, ...]: ...
@overload
def vsplit(input: Tensor, indices: Sequence[_int]) -> tuple[Tensor, ...]: ...
def vstack(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor: ...
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
@overload
def where(condition: Tensor, self: Number, other: Tensor | Number) -> Tensor: ...
@overload
def where(condition: Tensor, input: Tensor, other: Number) -> Tensor: ...
@overload
def xlogy(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor: ...
@overload
def xlogy(self: Number, other: Tensor, *, out: Tensor | None = None) -> Tensor: ...
def xlogy_(input: Tensor, other: Tensor | Number) -> Tensor: ...
def zero_(input: Tensor) -> Tensor: ...
@overload
def zeros(
    size: Sequence[_int],
    *,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
@overload
def zeros(
    *size: _int,
    out: Tensor | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
def zeros_like(
    input: Tensor,
    *,
    memory_format: _memory_format | None = None,
    dtype: _dtype | None = None,
    layout: _layout | None = None,
    device: Device | None = None,
    pin_memory: _bool | None = False,
    requires_grad: _bool | None = False,
) -> Tensor: ...
