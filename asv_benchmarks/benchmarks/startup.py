"""What a new process waits for: the import, then its first gradient, its first step of a small network and of a block of a GPT, and a
session of forty different calls, each typed for the first time; with a warm cache of kernels and an empty one.

Expected of CPU time, with bytecode written, beyond NumPy's import: the import 0.08 s; warm, the first gradient 0.02 s more. With an
empty cache a step of the network 1.2 s, the block 2, the session 3; with `NBGRAD_COMPILER=numba` four times that.
"""

import os
import subprocess
import sys

FIRST = {
    "gradient": """
import nbgrad as torch
x = torch.ones(3, requires_grad=True)
(torch.exp(x) * x).sum().backward()
assert x.grad is not None
""",
    "network": """
import nbgrad as torch
from nbgrad import nn
net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = torch.optim.Adam(net.parameters())
nn.functional.cross_entropy(net(torch.randn(32, 64)), torch.randint(0, 10, (32,))).backward()
optimizer.step()
""",
    "gpt": """
import nbgrad as torch
from nbgrad import nn
F = nn.functional

class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.before, self.between = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.before(x)).split(d, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.between(x))))

words, places, block, head = nn.Embedding(65, 64), nn.Embedding(32, 64), Block(64, 4), nn.Linear(64, 65)
optimizer = torch.optim.AdamW([p for m in (words, places, block, head) for p in m.parameters()])
x, y = torch.randint(0, 65, (2, 4, 32))
F.cross_entropy(head(block(words(x) + places(torch.arange(32)))).view(-1, 65), y.view(-1)).backward()
optimizer.step()
""",
    "session": """
import nbgrad as torch
x = torch.linspace(0.1, 1, 12).reshape(3, 4)
y, i = torch.ones(3, 4) * 2, torch.arange(12).reshape(3, 4)
x + y, x - y, x * y, x / y, x ** 2, -x
x.exp(), x.log(), x.sqrt(), x.sin(), x.cos(), x.tanh(), x.sigmoid(), x.abs(), torch.relu(x), x.clamp(0.2, 0.8)
x.sum(), x.sum(0), x.mean(), x.max(), x.min(1), x.argmax(), x.std(), x.var(0), x.cumsum(0), x.prod(), x.norm()
x @ y.t(), torch.cat([x, y]), torch.stack([x, y]), x[x > 0.5], torch.where(x > 0.5, x, y), x.sort(), x.topk(2)
torch.softmax(x, 1), torch.randn(3, 3), i % 5, i.float(), torch.eye(3), str(x)
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
        env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        subprocess.run([sys.executable, "-c", FIRST[what]], check=True, env=env)

    def timeraw_first(self, what: str) -> str:
        return FIRST[what]


class Cold(First):
    def timeraw_first(self, what: str) -> str:
        return EMPTY_CACHE + FIRST[what]
