"""Pictures of the code, drawn from `tests.map` at each build: how large the stories are, and who imports whom."""

from __future__ import annotations

from importlib import import_module

import nbgrad as torch
from nbgrad.utils import viz
from tests.map import MODULES, STORIES, arrows, name_of, story_of

SHOWN = [story for story in STORIES if story not in ("__init__", "__main__")]


def colour(story: str) -> str:
    """Of the three parts: what carries a call, the ops, PyTorch's faces."""
    return (
        "op"
        if story.startswith("ops.")
        else "base"
        if SHOWN.index(story) < SHOWN.index("ops.views")
        else "face"
    )


def lines() -> dict[str, int]:
    counted = dict.fromkeys(SHOWN, 0)
    for path in MODULES:
        story = story_of(name_of(path))
        if story in counted:
            counted[story] += len(path.read_text(encoding="utf-8").splitlines())
    return counted


def tower() -> str:
    """A bar for each story, the lowest one at the bottom."""
    counted = lines()
    longest, height = max(counted.values()), 18
    rows = []
    for k, story in enumerate(reversed(SHOWN)):
        y, width = k * height, max(2, round(190 * counted[story] / longest))
        rows.append(
            f'<text x="102" y="{y + 13}" text-anchor="end">{story}</text>'
            f'<rect class="{colour(story)}" x="108" y="{y + 2}" width="{width}" height="{height - 4}" rx="2"/>'
            f'<text class="quiet" x="{112 + width}" y="{y + 13}">{counted[story]:,}</text>'
        )
    return drawn(344, height * len(SHOWN), rows, "Stories of the code and their lines")


def matrix() -> str:
    """A square where the story of a row imports from that of a column. An arrow upwards would stand right of the diagonal."""
    drawn_arrows, size, left, top = arrows(), 15, 94, 100
    cells = []
    for k, story in enumerate(SHOWN):
        at = left + k * size
        cells.append(f'<text x="{left - 6}" y="{top + k * size + 11}" text-anchor="end">{story}</text>')
        cells.append(f'<text transform="translate({at + 11} {top - 6}) rotate(-90)">{story}</text>')
        cells.append(
            f'<rect class="diagonal" x="{at}" y="{top + k * size}" width="{size - 1}" height="{size - 1}"/>'
        )
        cells += [
            f'<rect class="{colour(below)}" x="{left + j * size}" y="{top + k * size}" width="{size - 1}" height="{size - 1}" rx="2">'
            f"<title>{story} imports from {below}, in {len(drawn_arrows[story, below])} places</title></rect>"
            for j, below in enumerate(SHOWN)
            if (story, below) in drawn_arrows
        ]
    side = size * len(SHOWN)
    return drawn(left + side, top + side, cells, "Which story imports from which")


def drawn(width: int, height: int, parts: list[str], title: str) -> str:
    inside = "\n".join(parts)
    return (
        f'<div class="picture"><svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{title}">\n'
        f"{inside}\n</svg></div>"
    )


def graph() -> str:
    """The graph of a small network's loss, drawn by the library itself."""
    x, target = torch.ones(4, 3), torch.zeros(4, 2)
    w, b = torch.ones(3, 2, requires_grad=True), torch.zeros(2, requires_grad=True)
    loss = torch.nn.functional.mse_loss(torch.tanh(x @ w + b), target)
    return viz.svg(loss, params={"w": w, "b": b})


def page() -> str:
    counted = lines()
    table = ["| story | lines | what it holds |", "|---|---:|---|"]
    for story in SHOWN:
        said = " ".join((import_module(f"nbgrad.{story}").__doc__ or "").split("\n\n")[0].split())
        table.append(f"| `{story}` | {counted[story]:,} | {said.replace('|', chr(92) + '|')} |")
    return PAGE.format(
        tower=tower(),
        matrix=matrix(),
        table="\n".join(table),
        total=f"{sum(counted.values()):,}",
        count=len(MODULES),
    )


PAGE = """# A map of the code

A call goes down through the stories and its gradient comes up again. Each imports only from those below it; a test holds that.
There are {total} lines in {count} files. The pictures are drawn from the code whenever this site is built.

## From the ground up

Read from the bottom. <span class="key base"></span> what carries a call, <span class="key op"></span> the ops, a bar for each family,
<span class="key face"></span> the faces with PyTorch's names.

{tower}

{table}

## Who imports whom

A row imports from the columns with a square. All of them lie left of the diagonal, so no story reaches up. Point at a square for the count.

{matrix}

## The way of one multiplication

Follow `z = x * y; z.backward()`.

User call
:   `Tensor.__mul__` is the function that `dispatch/elementwise.py` made from the stanza `mul` in `ops/pointwise/arithmetic.py`.

Op
:   It promotes dtypes, broadcasts shapes, and allocates the output through the backend.

Kernel
:   Strides are collapsed. The flat, rows or general form of `mul`'s kernel is looked up, or built from its expression by
    `kernels/build.py` at first use, and a launcher runs it. [From scalar function to kernel](kernel.md) shows such texts.

Tape
:   If an input requires grad, a node is recorded with the values that the wanted partials read: here `y` for the gradient of `x`,
    and `x` for that of `y`.

Backward
:   `backward()` walks nodes, latest first, and runs each rule: one more kernel, made from the derivative of the same expression.
    So the gradient of a gradient needs nothing new.

## What backward walks

The graph of `mse_loss(tanh(x @ w + b), target)`, drawn by `nbgrad.utils.viz`:

![The graph: AccumulateGrad of w and b, MmBackward0, AddBackward0, TanhBackward0, MseLossBackward0](graph.svg)
"""
