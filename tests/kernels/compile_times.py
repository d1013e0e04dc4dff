"""What each kernel of the cases takes to compile: `python -m tests.kernels.compile_times float32,float64 exp softmax` with an empty cache,
or of all cases; seconds of one thread of the processor, the longest last.
"""

import sys
import time
from types import TracebackType

from nbgrad.kernels import progress
from tests.cases import CASES
from tests.kernels.bits import lines

found: list[tuple[float, str]] = []


class timed(progress.compiling):
    __slots__ = ("began",)

    def __enter__(self) -> None:
        super().__enter__()
        self.began = time.thread_time()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        found.append((time.thread_time() - self.began, self.name))
        super().__exit__(kind, error, trace)


if __name__ == "__main__":
    progress.compiling = timed  # type: ignore[misc]
    for _ in lines(sys.argv[1].split(","), sys.argv[2:] or sorted(CASES), brief=True):
        pass
    for seconds, name in sorted(found):
        print(f"{seconds:.3f} {name}")
    print("numba" in sys.modules)
