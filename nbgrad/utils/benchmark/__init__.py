"""How long statements take: `Timer` measures one, `Compare` lays out many.

>>> timer = torch.utils.benchmark.Timer("x + 1", globals={"x": 1})
>>> timer.timeit(100).number_per_run
100
"""

from nbgrad.utils.benchmark.utils.common import Measurement as Measurement
from nbgrad.utils.benchmark.utils.common import TaskSpec as TaskSpec
from nbgrad.utils.benchmark.utils.common import ordered_unique as ordered_unique
from nbgrad.utils.benchmark.utils.common import select_unit as select_unit
from nbgrad.utils.benchmark.utils.common import set_torch_threads as set_torch_threads
from nbgrad.utils.benchmark.utils.common import trim_sigfig as trim_sigfig
from nbgrad.utils.benchmark.utils.common import unit_to_english as unit_to_english
from nbgrad.utils.benchmark.utils.compare import Colorize as Colorize
from nbgrad.utils.benchmark.utils.compare import Compare as Compare
from nbgrad.utils.benchmark.utils.timer import Language as Language
from nbgrad.utils.benchmark.utils.timer import Timer as Timer
from nbgrad.utils.benchmark.utils.timer import timer as timer
