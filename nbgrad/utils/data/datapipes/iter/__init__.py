"""Pipes that are streams."""

from nbgrad.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher

__all__ = ["Batcher"]
