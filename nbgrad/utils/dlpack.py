"""`torch.utils.dlpack`: capsules over a tensor's memory, and tensors over a capsule's."""

from nbgrad.exchange.dlpack import DLDeviceType, from_dlpack, to_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
