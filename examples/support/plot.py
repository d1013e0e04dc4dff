"""Plots of the examples: saved where matplotlib is installed, and where it is not, that is said."""

from collections.abc import Callable
from typing import Any


def save_plot(file: str, draw: Callable[[Any], object]) -> None:
    """What `draw` draws on axes, as the picture `file`."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    figure = Figure(layout="constrained")
    draw(figure.subplots())
    figure.savefig(file)
    print(f"plot saved as {file}")
