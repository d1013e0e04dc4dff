"""Pictures of graphs: what is on them, that nothing lies on anything else, and that large ones are drawn in time."""

import random
import re
import time
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.support import T

viz: Any = pytest.importorskip(f"{T.__name__}.utils.viz")
SVG = "{http://www.w3.org/2000/svg}"


def two_layers() -> tuple[Any, dict[str, Any]]:
    w, b = T.ones(3, 5, requires_grad=True), T.ones(5, requires_grad=True)
    return T.tanh(T.ones(4, 3) @ w + b).sum(), {"w": w, "b": b}


def rectangles(text: str) -> list[tuple[float, float, float, float]]:
    root = ElementTree.fromstring(text)
    return [
        (float(r.get("x", "")), float(r.get("y", "")), float(r.get("width", "")), float(r.get("height", "")))
        for r in root.iter(f"{SVG}rect")
    ]


def assert_apart(boxes: list[tuple[float, float, float, float]]) -> None:
    rows: dict[float, list[tuple[float, float, float, float]]] = {}
    for box in boxes:
        rows.setdefault(box[1] + box[3] / 2, []).append(box)
    for row in rows.values():
        row.sort()
        for (x, _, width, _), (to_x, *_) in pairwise(row):
            assert x + width < to_x
    middles = sorted(rows)
    for above, below in pairwise(middles):
        assert above + max(b[3] for b in rows[above]) / 2 < below - max(b[3] for b in rows[below]) / 2


def test_dot_names_ops_leaves_and_edges() -> None:
    loss, params = two_layers()
    text = viz.dot(loss, params)
    labels = dict(re.findall(r'  (n\d+) \[label="([^"]*)"', text))
    edges = [(labels[a], labels[b]) for a, b in re.findall(r"  (n\d+) -> (n\d+)", text)]
    assert edges == [
        ("w\\nfloat32 [3, 5]", "MmBackward0\\n[4, 5]"),
        ("MmBackward0\\n[4, 5]", "AddBackward0\\n[4, 5]"),
        ("b\\nfloat32 [5]", "AddBackward0\\n[4, 5]"),
        ("AddBackward0\\n[4, 5]", "TanhBackward0\\n[4, 5]"),
        ("TanhBackward0\\n[4, 5]", "SumBackward0\\n[]"),
    ]


def test_saved_values_are_shown_when_asked_for() -> None:
    loss, params = two_layers()
    with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        packed = T.ones(2, requires_grad=True).exp()
    assert viz.dot(loss, params).count("style=dashed") == 0
    assert viz.dot(loss, params, saved=True).count("style=dashed") == 2  # of mm, of tanh
    assert "packed by a hook" in viz.dot(packed, saved=True)
    loss.backward()
    assert viz.dot(loss, params, saved=True).count("style=dashed") == 0  # freed, and no error


def test_svg_is_the_same_graph() -> None:
    loss, params = two_layers()
    text = viz.svg(loss, params, saved=True)
    shown = [t.text for t in ElementTree.fromstring(text).iter(f"{SVG}text")]
    assert {"w", "b", "float32 [3, 5]", "MmBackward0", "TanhBackward0", "SumBackward0"} <= set(shown)
    assert len(rectangles(text)) == viz.dot(loss, params, saved=True).count("label=")
    assert text.count("marker-end") == 5
    assert_apart(rectangles(text))


def test_several_results_and_names_that_need_escaping() -> None:
    x = T.ones(2, requires_grad=True)
    text = viz.svg([x * 2, x.exp()], {'a<"b">': x})
    assert 'a<"b">' in [t.text for t in ElementTree.fromstring(text).iter(f"{SVG}text")]
    assert len(rectangles(text)) == 3
    assert 'label="a<\\"b\\">' in viz.dot(x * 2, {'a<"b">': x})
    edge = T.autograd.graph.get_gradient_edge(x * 2)
    assert viz.dot(edge).count("MulBackward0") == 1


def test_save_goes_by_the_ending(tmp_path: Path) -> None:
    loss, params = two_layers()
    viz.save(tmp_path / "g.svg", loss, params)
    viz.save(tmp_path / "g.dot", loss, params)
    assert (tmp_path / "g.svg").read_text() == viz.svg(loss, params)
    assert (tmp_path / "g.dot").read_text() == viz.dot(loss, params)


def test_without_a_graph_there_is_no_picture() -> None:
    with pytest.raises(ValueError, match="does not require grad"):
        viz.svg(T.ones(2))


@pytest.mark.parametrize("shape", ["tangle", "chain of one leaf"])
def test_large_graphs(shape: str) -> None:
    rng = random.Random(0)
    pool = [T.ones(2, requires_grad=True) for _ in range(20)]
    for _ in range(1500):
        pool.append(rng.choice(pool[-30:]) * (pool[0] if shape != "tangle" else rng.choice(pool[-30:])))
    started = time.thread_time()
    text = viz.svg(pool[-1] if shape == "tangle" else sum(pool[-5:]))
    assert time.thread_time() - started < 10  # 0.2 s on two cores; a quadratic layout took minutes
    assert_apart(rectangles(text))
