"""PyTorch's `torch.cuda.graphs`: work recorded once and launched again and again, which needs a GPU.

A graph writes to the memory it was recorded with, which therefore is nobody else's as long as it lives. Numbers that the CPU gave to
kernels stay what they were; random numbers are new at each launch.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any

from nbgrad.autograd import Function, grad
from nbgrad.core.tensor import Tensor
from nbgrad.cuda._gpus import placeholder, served
from nbgrad.cuda.streams import Stream, StreamContext, current_stream
from nbgrad.kernels.cuda.driver import CAPTURES
from nbgrad.memory import gpu
from nbgrad.memory.pool import Private
from nbgrad.nn.modules.module import Module
from nbgrad.ops.make.filled import empty_like


class CUDAGraph:
    """Work of a GPU that is recorded once, to be launched as one.

    >>> torch.cuda.CUDAGraph() if torch.cuda.is_available() else "none"
    'none'
    """

    _graph: Any  # and the constants that its kernels read
    _private: Private | None
    _recording: gpu.Recording
    _stream: Stream

    def __new__(cls, keep_graph: bool = False) -> Any:
        placeholder("CUDAGraph")
        made = object.__new__(cls)
        made._graph = made._private = None
        return made

    def capture_begin(self, pool: Private | None = None, capture_error_mode: str = "global") -> None:
        """Record what the current stream is asked from now on, and do none of it; with `pool` in the memory of another graph. What other
        code of the process may ask CUDA for meanwhile is for `capture_error_mode` to say: of all threads ("global"), of this one
        ("thread_local"), or nothing is refused ("relaxed")."""
        if capture_error_mode not in CAPTURES:
            raise RuntimeError(
                f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}"
            )
        self._stream = current_stream()
        if self._stream.cuda_stream == 0:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default "
                "stream.)"
            )
        self.reset()
        self._private = Private() if pool is None else pool
        serves = served(self._stream.device)
        serves.driver.begin(self._stream.cuda_stream, CAPTURES.index(capture_error_mode))
        serves.pool.begin(self._stream.cuda_stream, self._private)
        self._recording = serves.recordings[self._stream.cuda_stream] = gpu.Recording(serves)

    def capture_end(self) -> None:
        """What was asked until now is the graph."""
        serves = served(self._stream.device)
        del serves.recordings[self._stream.cuda_stream]
        serves.pool.end(self._stream.cuda_stream)
        self._graph = serves.driver.end(self._stream.cuda_stream), serves.held()

    def instantiate(self) -> None:
        """Make it ready, as it is when it was recorded."""

    def replay(self) -> None:
        """Launch all of it on the current stream."""
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        graph, _ = self._graph
        self._recording.go_on()
        served(self._stream.device).driver.replay(graph, current_stream().cuda_stream)

    def reset(self) -> None:
        """Forget what was recorded, and let others have its memory."""
        if self._private is not None:
            private, self._private, self._graph = self._private, None, None
            served(self._stream.device).pool.release(private, self._stream.cuda_stream)

    def pool(self) -> Private | None:
        """What names its memory, which another graph may share."""
        return self._private

    def __del__(self) -> None:
        self.reset()


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
        self.capture_stream = Stream() if stream is None else stream
        self.stream_ctx = StreamContext(self.capture_stream)
        self.cuda_graph, self.pool = cuda_graph, pool
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        serves = served()
        serves.synchronize()
        gc.collect()
        serves.pool.empty()
        self.stream_ctx.__enter__()
        self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)

    def __exit__(self, *raised: object) -> None:
        self.cuda_graph.capture_end()
        self.stream_ctx.__exit__(*raised)


Callables = Callable[..., Any] | Sequence[Callable[..., Any]]


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Functions or modules as such that launch a recorded forward and a recorded backward.

    >>> x = torch.ones(2)
    >>> torch.cuda.make_graphed_callables(torch.exp, (x,)) if torch.cuda.is_available() else "none"
    'none'
    """
    placeholder("CUDAGraph")
    alone = not isinstance(callables, tuple)
    functions = (callables,) if alone else callables
    samples = (sample_args,) if alone else sample_args
    pool = graph_pool_handle() if pool is None else pool
    made = [_Recorded(f, args) for f, args in zip(functions, samples, strict=True)]
    with StreamContext(Stream()):
        for recorded in made:
            for _ in range(num_warmup_iters):
                recorded.backward(recorded.forward(), allow_unused_input)
    served().synchronize()
    for recorded in made:
        recorded.record_forward(pool)
    for recorded in reversed(made):
        recorded.record_backward(pool, allow_unused_input)
    graphed = [recorded.callable() for recorded in made]
    return graphed[0] if alone else tuple(graphed)


class _Recorded:
    """A function with the tensors that its graphs read and write."""

    def __init__(self, function: Callable[..., Any], args: Sequence[Tensor]) -> None:
        self.function, self.args = function, tuple(args)
        parameters = function.parameters() if isinstance(function, Module) else ()
        self.inputs = (*self.args, *parameters)
        self.wanted = [t for t in self.inputs if t.requires_grad]
        self.forth, self.back = CUDAGraph(), CUDAGraph()

    def forward(self) -> list[Tensor]:
        out = self.function(*self.args)
        self.single = isinstance(out, Tensor)
        return [out] if self.single else list(out)

    def backward(self, outputs: list[Tensor], allow_unused: bool) -> Sequence[Tensor | None]:
        ends = [t for t in outputs if t.requires_grad]
        self.grads = [empty_like(t) for t in ends]
        if not ends or not self.wanted:
            return ()
        found: Sequence[Tensor | None] = grad(
            ends, self.wanted, self.grads, only_inputs=True, allow_unused=allow_unused
        )
        return found

    def record_forward(self, pool: Private) -> None:
        with graph(self.forth, pool):
            self.outputs = self.forward()

    def record_backward(self, pool: Private, allow_unused: bool) -> None:
        with graph(self.back, pool):
            found = iter(self.backward(self.outputs, allow_unused))
        self.found = [next(found, None) if t.requires_grad else None for t in self.inputs]

    def callable(self) -> Any:
        function, one = self.function, _as_function(self)
        parameters = self.inputs[len(self.args) :]

        def graphed(*args: Tensor) -> Any:
            out = one.apply(*args, *parameters)
            return out[0] if self.single else tuple(out)

        if not isinstance(function, Module):
            return graphed
        training, usual = function.training, function.forward

        def forward(*args: Any, **named: Any) -> Any:
            """In the mode in which it was recorded."""
            return graphed(*args) if function.training == training else usual(*args, **named)

        function.forward = forward
        return function


def _as_function(recorded: _Recorded) -> Any:
    """The pair of graphs as one node of the tape."""

    class Graphed(Function):
        @staticmethod
        def forward(ctx: Any, *given: Tensor) -> tuple[Tensor, ...]:
            for to, source in zip(recorded.args, given):
                if to.data_ptr() != source.data_ptr():
                    to.detach().copy_(source)
            recorded.forth.replay()
            return tuple([t.detach() for t in recorded.outputs])

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
            wanted = [g for g, t in zip(grads, recorded.outputs) if t.requires_grad]
            for to, g in zip(recorded.grads, wanted):
                to.copy_(g)
            recorded.back.replay()
            return tuple([None if t is None else t.detach() for t in recorded.found])

    return Graphed


def graph_pool_handle() -> Any:
    """What names a pool of memory that graphs may share.

    >>> torch.cuda.graph_pool_handle() if torch.cuda.is_available() else "none"
    'none'
    """
    placeholder("_graph_pool_handle")
    return Private()


def is_current_stream_capturing() -> bool:
    """Whether work is recorded now.

    >>> torch.cuda.is_current_stream_capturing() if torch.cuda.is_available() else "none"
    'none'
    """
    placeholder("_cuda_isCurrentStreamCapturing")
    return gpu.capturing()
