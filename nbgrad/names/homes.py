"""What classes and functions are called while nbgrad stands in torch's place: as PyTorch's, so that what libraries ask of `__module__`
has its answer, and a pickle of either is read by the other."""

from __future__ import annotations

import sys
from importlib import import_module
from types import FunctionType, ModuleType
from typing import Any, Final

from nbgrad.base import ours
from nbgrad.base.tables import cached
from nbgrad.names import finder

_BELOW: Final = ("as_torch", "compiled", "ops")  # which PyTorch has none of, beside `finder.INSIDE`
# Where PyTorch has it, where it is, and which classes: of those that do not stand in the module of PyTorch's name.
_MOVED: Final = """
torch                                   _queues Event Stream
torch                                   _C DispatchKeySet
torch                                   kernels.cuda.driver AcceleratorError OutOfMemoryError
torch                                   memory.dtypes finfo iinfo
torch                                   storage BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
torch                                   storage DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage
torch._C._distributed_c10d              distributed._buckets GradBucket
torch._C._profiler                      profiler ProfilerActivity
torch.autograd.graph                    tape.node Node
torch.autograd.profiler_util            autograd.profiler EventList FunctionEvent
torch.cuda                              cuda.streams StreamContext
torch.distributed.checkpoint.api        distributed.checkpoint._files CheckpointException
torch.distributed.distributed_c10d      distributed._groups Backend GroupMember ProcessGroup group
torch.distributed.distributed_c10d      distributed._collectives P2POp
torch.distributed.distributed_c10d      distributed._mpi ReduceOp Work
torch.export.dynamic_shapes             export Dim
torch.jit                               futures Future
torch.jit._script                       jit Attribute
torch.masked.maskedtensor.core          masked._tensor MaskedTensor
torch.nn.modules.activation             nn.modules.attention MultiheadAttention
torch.nn.modules.batchnorm              nn.modules.lazy LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d
torch.nn.modules.conv                   nn.modules.lazy LazyConv1d LazyConv2d LazyConv3d
torch.nn.modules.conv                   nn.modules.lazy LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d
torch.nn.modules.instancenorm           nn.modules.lazy LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d
torch.nn.modules.linear                 nn.modules.lazy LazyLinear
torch.optim                             optim.adafactor Adafactor
torch.optim                             optim.muon Muon
torch.optim.adamw                       optim.adam AdamW
torch.profiler.profiler                 profiler ProfilerAction profile
torch.serialization                     exchange.files LoadEndianness
torch.utils.data.datapipes._decorator   utils.data._pipes functional_datapipe
torch.utils.data.datapipes.datapipe     utils.data._pipes DataChunk IterDataPipe MapDataPipe
torch.distributed.algorithms._checkpoint.checkpoint_wrapper utils._activations ActivationWrapper CheckpointImpl CheckpointWrapper
torch.distributed.algorithms._checkpoint.checkpoint_wrapper utils._activations OffloadWrapper
torch.utils.checkpoint                  utils._selective CheckpointPolicy SelectiveCheckpointContext create_selective_checkpoint_contexts
torch.utils.data._utils.collate         utils.data.collate default_collate default_convert
torch.utils.data.dataloader             utils.data._fetch _DatasetKind
torch.utils.dlpack                      exchange.dlpack DLDeviceType
torch.utils.hooks                       nn.modules._hooks BackwardHook
"""
# Pickles of some libraries name what stands in a module that is loaded, and copy what does not.
_LOOKED_FOR: Final = ("torch.optim.adamw", "torch.utils.data._utils.collate")
_moved: Final = {
    (finder.own(f"torch.{where}"), name): home
    for home, where, *names in map(str.split, _MOVED.split("\n")[1:-1])
    for name in names
}


@cached(None)
def _home(module: str | None) -> str:
    """What a module of ours is called, if libraries see it."""
    if module is None or not module.startswith("nbgrad") or not ours.is_ours(module):
        return ""
    story = module.split(".", 2)[1:2]
    return "" if story and (story[0] in finder.INSIDE or story[0] in _BELOW) else finder.torchs(module)


def rename(module: ModuleType) -> None:
    """Call what a module of ours shows as PyTorch's, and let the module be found under PyTorch's path, too."""
    if home := _home(module.__name__):
        sys.modules.setdefault(home, module)
    own = vars(module)
    for value in [*own.values(), *(vars(own["Tensor"]).values() if home == "torch" else ())]:
        if isinstance(value, type) or type(value) is FunctionType:
            thing: Any = value
            if named := _moved.get((thing.__module__, thing.__qualname__)) or _home(thing.__module__):
                thing.__module__ = named
                if named in _LOOKED_FOR and named not in sys.modules:
                    import_module(named)
