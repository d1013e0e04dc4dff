"""What a new process waits for: the import, then its first gradient and first training step with a warm cache of kernels and an empty one.

Expected: the import under 0.15 s, the first gradient under 0.8 s warm, a small network's first training step under 3 s cold.
"""

import subprocess
import sys

FIRST = {
    "gradient": """
import nbgrad as torch
x = torch.ones(3, requires_grad=True)
(torch.exp(x) * x).sum().backward()
assert x.grad is not None
""",
    "training_step": """
import nbgrad as torch
from nbgrad import nn
net = nn.Sequential(nn.Linear(16, 8), nn.Tanh(), nn.Linear(8, 4))
optimizer = torch.optim.Adam(net.parameters())
nn.functional.cross_entropy(net(torch.randn(32, 16)), torch.randint(0, 4, (32,))).backward()
optimizer.step()
""",
}
EMPTY_CACHE = """
import atexit, os, shutil, tempfile
os.environ["NBGRAD_CACHE_DIR"] = tempfile.mkdtemp(prefix="nbgrad-bench-")
atexit.register(shutil.rmtree, os.environ["NBGRAD_CACHE_DIR"])
"""


class Process:
    """Each is a process of its own; `timeraw` methods return what it runs."""

    number = 1
    repeat = (1, 5, 20.0)
    timeout = 120


class Import(Process):
    def timeraw_numpy(self) -> str:
        """The floor."""
        return "import numpy"

    def timeraw_nbgrad(self) -> str:
        return "import nbgrad"


class First(Process):
    params = (tuple(FIRST),)
    param_names = ("what",)


class Warm(First):
    def setup(self, what: str) -> None:
        subprocess.run([sys.executable, "-c", FIRST[what]], check=True)

    def timeraw_first(self, what: str) -> str:
        return FIRST[what]


class Cold(First):
    def timeraw_first(self, what: str) -> str:
        return EMPTY_CACHE + FIRST[what]
