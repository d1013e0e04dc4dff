"""What a new process waits for: the import, the first gradient with a warm cache of kernels, and with an empty one."""

IMPORT = "import nbgrad"
FIRST_GRADIENT = """
import nbgrad as torch
x = torch.ones(3, requires_grad=True)
(torch.exp(x) * x).sum().backward()
assert x.grad is not None
"""
EMPTY_CACHE = """
import atexit, os, shutil, tempfile
os.environ["NBGRAD_CACHE_DIR"] = tempfile.mkdtemp(prefix="nbgrad-bench-")
atexit.register(shutil.rmtree, os.environ["NBGRAD_CACHE_DIR"])
"""
NETWORK = """
import nbgrad as torch
F = torch.nn.functional
x, labels = torch.randn(32, 16), torch.randint(0, 4, (32,))
w1, b1, w2, b2 = (torch.randn(*s, requires_grad=True) for s in ((8, 16), (8,), (4, 8), (4,)))
F.cross_entropy(F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2), labels).backward()
assert w1.grad is not None
"""


class Startup:
    """Each is a process of its own; `timeraw` methods return what it runs."""

    number = 1
    repeat = (1, 5, 20.0)
    timeout = 120

    def timeraw_import_numpy(self) -> str:
        """The floor."""
        return "import numpy"

    def timeraw_import(self) -> str:
        return IMPORT

    def timeraw_first_gradient_warm(self) -> str:
        return FIRST_GRADIENT

    def timeraw_first_gradient_cold(self) -> str:
        return EMPTY_CACHE + FIRST_GRADIENT

    def timeraw_first_network_step_cold(self) -> str:
        return EMPTY_CACHE + NETWORK
