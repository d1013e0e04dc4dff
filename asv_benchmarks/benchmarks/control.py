"""Only NumPy: what changes here is the machine, not nbgrad."""

import numpy as np


class Control:
    def setup(self) -> None:
        self.a = np.random.default_rng(0).normal(size=(200, 200))

    def time_no_autograd_control(self) -> None:
        """200 x 200 dot, as in HIPS/autograd's suite."""
        np.dot(self.a, self.a)
