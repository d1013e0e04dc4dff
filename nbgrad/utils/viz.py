"""A picture of a graph: the nodes that lead from results back to leaves, as SVG or as DOT text.

    loss = torch.nn.functional.mse_loss(torch.tanh(x @ w + b), target)
    torch.utils.viz.save("graph.svg", loss, params={"w": w, "b": b})

Promises a drawing that needs nothing but this module: `svg` gives a self-contained picture, whose layout is made here; `dot` gives
the same graph for Graphviz. Leaves stand at the top and results at the bottom, so that the forward pass is read downwards: each edge
goes from what an op read to the op. A leaf shows its name, if `params` gives one, and its shape; an op shows its node's name and the
shape of its result; with `saved=True` also the values that it keeps for backward. Drawing saves, frees and computes nothing.

The layout is that of layered drawings. A node's row is its longest path from a leaf; an edge over several rows gets a dummy in each
row between; the order in a row follows the barycentres of the neighbours, a few sweeps down and up; and places move towards their
neighbours as far as the order lets them. All of it is loops, linear or a sort per sweep, for graphs of some thousand nodes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

from nbgrad.autograd.graph import GradientEdge
from nbgrad.core.tensor import Tensor, edge
from nbgrad.history.saved import Packed
from nbgrad.tape.node import AccumulateGrad, Node, shown

__all__ = ["dot", "save", "svg"]

# kind: fill and outline
_COLOURS = {
    "leaf": ("#cfe3f7", "#3b76af"),
    "op": ("#eeeeee", "#777777"),
    "result": ("#cdebcf", "#3f8f46"),
    "saved": ("#fbe3c0", "#c98a2b"),
}


class Box:
    """One box of the picture, and which boxes point at it (indices into the list of boxes)."""

    __slots__ = ("kind", "lines", "sources")

    def __init__(self, kind: str, lines: list[str]) -> None:
        self.kind, self.lines = kind, lines
        self.sources: list[int] = []


def dot(results: Any, params: Mapping[str, Tensor] | None = None, saved: bool = False) -> str:
    """The graph of a tensor, or of several, as text for Graphviz. `params` gives leaves names (a module's
    `dict(named_parameters())`); `saved` shows what nodes keep for backward.

    >>> from nbgrad.utils import viz
    >>> x = torch.ones(2, requires_grad=True)
    >>> "ExpBackward0" in viz.dot(x.exp(), {"x": x})
    True
    """
    boxes = _boxes(results, params, saved)
    lines = ["digraph {", '  node [shape=box, style=filled, fontname="monospace", fontsize=11]']
    for k, box in enumerate(boxes):
        label = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in box.lines)
        fill, outline = _COLOURS[box.kind]
        lines.append(f'  n{k} [label="{label}", fillcolor="{fill}", color="{outline}"]')
    for k, box in enumerate(boxes):
        style = " [style=dashed, arrowhead=none]"
        lines += [f"  n{s} -> n{k}{style if boxes[s].kind == 'saved' else ''}" for s in box.sources]
    return "\n".join([*lines, "}"]) + "\n"


def save(
    path: str | os.PathLike[str],
    results: Any,
    params: Mapping[str, Tensor] | None = None,
    saved: bool = False,
) -> None:
    """Write the picture of a graph: DOT text to a path that ends in `.dot` or `.gv`, else SVG. See `dot` for the arguments.

    >>> import tempfile
    >>> from nbgrad.utils import viz
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     viz.save(f"{folder}/graph.svg", torch.ones(2, requires_grad=True).exp())
    """
    draw = dot if os.fspath(path).endswith((".dot", ".gv")) else svg
    with open(path, "w", encoding="utf-8") as file:
        file.write(draw(results, params, saved))


# ---------------------------------------------------------------- what there is to draw


def _boxes(results: Any, params: Mapping[str, Tensor] | None, saved: bool) -> list[Box]:
    """Sources before what reads them."""
    several: Sequence[Any] = (results,) if isinstance(results, (Tensor, GradientEdge)) else tuple(results)
    roots: list[Node] = []
    for t in several:
        node = t.node if isinstance(t, GradientEdge) else edge(t)[0]
        if node is None:
            raise ValueError("viz: there is no graph to draw, as the tensor does not require grad")
        roots.append(node)
    names = {edge(t)[0]: name for name, t in (params or {}).items() if t.requires_grad}
    nodes = _reached(roots)
    place: dict[Node, int] = {}
    boxes: list[Box] = []
    for node in nodes:
        box = Box("result" if node in roots else "op", _label(node))
        if isinstance(shown(node), AccumulateGrad):
            box.kind, box.lines = "leaf", [*filter(None, [names.get(node)]), _shape(node.static())]
        elif node in names:
            box.lines.insert(0, names[node])
        box.sources = [place[source] for source in node.next if source is not None]
        if saved:
            for line in _saved(node):
                box.sources.append(len(boxes))
                boxes.append(Box("saved", [line]))
        place[node] = len(boxes)
        boxes.append(box)
    return boxes


def _reached(roots: Iterable[Node]) -> list[Node]:
    """Every node below the roots, each after all that it points at: in the order in which they were recorded."""
    found = dict.fromkeys(roots)
    left = list(found)
    while left:
        for node in left.pop().next:
            if node is not None and node not in found:
                found[node] = None
                left.append(node)
    return sorted(found, key=lambda node: node.seq)


def _label(node: Node) -> list[str]:
    layouts = node.rule.layouts(node) if hasattr(node.rule, "layouts") else ()
    shapes = ", ".join(str(list(known.shape)) for known in layouts if known is not None)
    return [type(shown(node)).__name__, *([shapes] if shapes else [])]


def _shape(t: Tensor) -> str:
    return f"{str(t.dtype).removeprefix('torch.')} {list(t.shape)}"


def _saved(node: Node) -> list[str]:
    """What each kept value is; what a hook has packed is not unpacked for a picture."""
    return ["packed by a hook" if type(t) is Packed else _shape(t) for t in node.saved or () if t is not None]


# ---------------------------------------------------------------- where it is drawn

_LETTER, _LINE, _GAP, _ROW = 6.8, 15, 18, 46  # a letter's width, a line's height, between boxes, between rows
_SWEEPS = 8
_LONG = 20  # rows; an edge over more is drawn straight, as making room for all such would be quadratic


def svg(results: Any, params: Mapping[str, Tensor] | None = None, saved: bool = False) -> str:
    """The graph of a tensor, or of several, as a self-contained SVG picture. See `dot` for the arguments.

    >>> from nbgrad.utils import viz
    >>> viz.svg(torch.ones(2, requires_grad=True).exp())[:4]
    '<svg'
    """
    boxes = _boxes(results, params, saved)
    widths = [_LETTER * max(map(len, box.lines)) + 14 for box in boxes]
    heights = [_LINE * len(box.lines) + 8 for box in boxes]
    layers, links, chains = _layers(boxes, widths)
    neighbours = _neighbours(links, len(widths))
    _order(layers, neighbours)
    xs = _places(layers, neighbours, widths)
    tops, bottoms = [0.0] * len(widths), [0.0] * len(widths)  # of the row that each is in
    y = float(_GAP)
    for layer in layers:
        tallest = max([heights[k] for k in layer if k < len(boxes)], default=0)
        for k in layer:
            tops[k], bottoms[k] = y, y + tallest
        y += tallest + _ROW
    width, height = max(x + w / 2 for x, w in zip(xs, widths)) + _GAP, y - _ROW + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}">',
        "<style>text{font:11px monospace;text-anchor:middle}path{fill:none;stroke:#888}.saved{stroke-dasharray:3}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" style="fill:#888;stroke:none"/></marker></defs>',
    ]
    for chain in chains:
        source, target = chain[0], chain[-1]
        points = [
            (xs[source], (tops[source] + bottoms[source] + heights[source]) / 2),
            (xs[source], bottoms[source]),
        ]
        for k in chain[1:-1]:
            points += [(xs[k], tops[k]), (xs[k], bottoms[k])]
        points += [
            (xs[target], tops[target]),
            (xs[target], (tops[target] + bottoms[target] - heights[target]) / 2),
        ]
        form = ' class="saved"' if boxes[source].kind == "saved" else ' marker-end="url(#tip)"'
        parts.append(f'<path d="{_curve(points)}"{form}/>')
    for k, box in enumerate(boxes):
        fill, outline = _COLOURS[box.kind]
        x, y = xs[k] - widths[k] / 2, (tops[k] + bottoms[k] - heights[k]) / 2
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{widths[k]:.1f}" height="{heights[k]}" rx="4" fill="{fill}" stroke="{outline}"/>'
        )
        for row, line in enumerate(box.lines):
            parts.append(f'<text x="{xs[k]:.1f}" y="{y + _LINE * (row + 1):.1f}">{escape(line)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _curve(points: list[tuple[float, float]]) -> str:
    """Through the points: straight down inside a row, and bent between rows."""
    x, y = points[0]
    text = f"M{x:.1f} {y:.1f}"
    for to_x, to_y in points[1:]:
        half = (y + to_y) / 2
        if to_x != x:
            text += f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}"
        elif to_y != y:
            text += f"V{to_y:.1f}"
        x, y = to_x, to_y
    return text


def _layers(
    boxes: list[Box], widths: list[float]
) -> tuple[list[list[int]], list[tuple[int, int]], list[list[int]]]:
    """The rows; the links, each from a row to the next; and each edge as the chain of its links. Dummies are numbered after the boxes,
    and get a width."""
    row = [0] * len(boxes)
    for k, box in enumerate(boxes):
        row[k] = max((row[s] + 1 for s in box.sources), default=0)
    nearest = [len(boxes)] * len(boxes)
    for k in range(len(boxes) - 1, -1, -1):  # what nothing leads to stands just above what reads it
        if not boxes[k].sources and nearest[k] < len(boxes):
            row[k] = nearest[k] - 1
        for s in boxes[k].sources:
            nearest[s] = min(nearest[s], row[k])
    layers: list[list[int]] = [[] for _ in range(max(row) + 1)]
    for k, r in enumerate(row):
        layers[r].append(k)
    links: list[tuple[int, int]] = []
    chains: list[list[int]] = []
    for k, box in enumerate(boxes):
        for s in dict.fromkeys(box.sources):
            if row[k] - row[s] > _LONG:
                chains.append([s, k])
                continue
            chain = [s]
            for r in range(row[s] + 1, row[k]):
                layers[r].append(len(widths))
                chain.append(len(widths))
                widths.append(2.0)
            chain.append(k)
            chains.append(chain)
            links += pairwise(chain)
    return layers, links, chains


Neighbours = tuple[list[list[int]], list[list[int]]]  # by box or dummy: those above, those below


def _neighbours(links: list[tuple[int, int]], count: int) -> Neighbours:
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for a, b in links:
        above[b].append(a)
        below[a].append(b)
    return above, below


def _order(layers: list[list[int]], neighbours: Neighbours) -> None:
    """Sort each row by the mean position of its neighbours in the row before, down and up in turn."""
    position = {k: at for layer in layers for at, k in enumerate(layer)}
    for sweep in range(_SWEEPS):
        beside = neighbours[sweep % 2]
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            means = {
                k: sum(position[n] for n in beside[k]) / len(beside[k]) if beside[k] else position[k]
                for k in layer
            }
            layer.sort(key=means.__getitem__)
            for at, k in enumerate(layer):
                position[k] = at


def _places(layers: list[list[int]], neighbours: Neighbours, widths: list[float]) -> list[float]:
    """The middle of each box or dummy: towards the mean of its neighbours, without passing who stands beside it."""
    xs = [0.0] * len(widths)
    for sweep in range(_SWEEPS + 1):
        beside = neighbours[sweep % 2]
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wishes = [sum(xs[n] for n in beside[k]) / len(beside[k]) if beside[k] else xs[k] for k in layer]
            _spread(layer, wishes, widths, xs)
    left = min(x - w / 2 for x, w in zip(xs, widths)) - _GAP
    return [x - left for x in xs]


def _spread(layer: list[int], wishes: list[float], widths: list[float], xs: list[float]) -> None:
    """Give each its wish but for the room that boxes need. Those that press on each other move as one block, to the mean of what its
    members wish, which is the least-squares answer."""
    offset = 0.0
    offsets = []
    blocks: list[tuple[float, int]] = []  # mean wish less offset, and size
    for k, (box, wish) in enumerate(zip(layer, wishes)):
        if k:
            offset += (widths[layer[k - 1]] + widths[box]) / 2 + _GAP
        offsets.append(offset)
        mean, size = wish - offset, 1
        while blocks and blocks[-1][0] > mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    starts = [mean for mean, size in blocks for _ in range(size)]
    for box, start, offset in zip(layer, starts, offsets):
        xs[box] = start + offset
