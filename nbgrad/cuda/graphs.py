"""PyTorch's `torch.cuda.graphs`: work recorded once and launched again and again, which needs a GPU."""

from __future__ import annotations

from typing import Any, NoReturn

from nbgrad.cuda._gpus import placeholder
from nbgrad.cuda.streams import Stream


class CUDAGraph:
    """Work of a GPU that is recorded once, to be launched as one.

    >>> torch.cuda.CUDAGraph() if torch.cuda.is_available() else "none"
    'none'
    """

    def __new__(cls, keep_graph: bool = False) -> Any:
        placeholder("CUDAGraph")


class graph:
    """In a `with`, what is sent to the GPU is recorded into `cuda_graph`.

    >>> torch.cuda.graph(torch.cuda.CUDAGraph()) if torch.cuda.is_available() else "none"
    'none'
    """

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
    ) -> None:
        Stream()


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> NoReturn:
    """Functions or modules as such that launch a recorded forward and a recorded backward.

    >>> x = torch.ones(2)
    >>> torch.cuda.make_graphed_callables(torch.exp, (x,)) if torch.cuda.is_available() else "none"
    'none'
    """
    placeholder("CUDAGraph")


def graph_pool_handle() -> Any:
    """What names a pool of memory that graphs may share.

    >>> torch.cuda.graph_pool_handle() if torch.cuda.is_available() else "none"
    'none'
    """
    placeholder("_graph_pool_handle")


def is_current_stream_capturing() -> bool:
    """Whether work is recorded now.

    >>> torch.cuda.is_current_stream_capturing() if torch.cuda.is_available() else "none"
    'none'
    """
    placeholder("_cuda_isCurrentStreamCapturing")
