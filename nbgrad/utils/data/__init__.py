"""`nbgrad.utils.data`: datasets, samplers, and loaders of batches."""

from nbgrad.utils.data._fetch import _DatasetKind as _DatasetKind
from nbgrad.utils.data._pipes import DataChunk as DataChunk
from nbgrad.utils.data._pipes import IterDataPipe as IterDataPipe
from nbgrad.utils.data._pipes import MapDataPipe as MapDataPipe
from nbgrad.utils.data._pipes import functional_datapipe as functional_datapipe
from nbgrad.utils.data.collate import default_collate as default_collate
from nbgrad.utils.data.collate import default_convert as default_convert
from nbgrad.utils.data.dataloader import DataLoader as DataLoader
from nbgrad.utils.data.dataloader import get_worker_info as get_worker_info
from nbgrad.utils.data.dataset import ChainDataset as ChainDataset
from nbgrad.utils.data.dataset import ConcatDataset as ConcatDataset
from nbgrad.utils.data.dataset import Dataset as Dataset
from nbgrad.utils.data.dataset import IterableDataset as IterableDataset
from nbgrad.utils.data.dataset import StackDataset as StackDataset
from nbgrad.utils.data.dataset import Subset as Subset
from nbgrad.utils.data.dataset import TensorDataset as TensorDataset
from nbgrad.utils.data.dataset import random_split as random_split
from nbgrad.utils.data.distributed import DistributedSampler as DistributedSampler
from nbgrad.utils.data.sampler import BatchSampler as BatchSampler
from nbgrad.utils.data.sampler import RandomSampler as RandomSampler
from nbgrad.utils.data.sampler import Sampler as Sampler
from nbgrad.utils.data.sampler import SequentialSampler as SequentialSampler
from nbgrad.utils.data.sampler import SubsetRandomSampler as SubsetRandomSampler
from nbgrad.utils.data.sampler import WeightedRandomSampler as WeightedRandomSampler

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataChunk",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterDataPipe",
    "IterableDataset",
    "MapDataPipe",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "default_convert",
    "functional_datapipe",
    "get_worker_info",
    "random_split",
]
