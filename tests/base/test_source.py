"""Sources that nbgrad writes: how they are put together, listed and shown."""

import ast
import inspect
import linecache
import traceback
from pathlib import Path

import pytest

import nbgrad as torch
from nbgrad.base import source
from nbgrad.base.source import fill, function, indented, text_of, tuple_of
from nbgrad.utils import sources
from tests.map import MODULES, name_of


def test_inner_lists_are_blocks() -> None:
    lines = ["if x:", ["y = 1", "if z:", ["y = 2"], []], "return y"]
    assert indented(lines, "  ") == ["  if x:", "      y = 1", "      if z:", "          y = 2", "  return y"]
    assert text_of(lines) == "if x:\n    y = 1\n    if z:\n        y = 2\nreturn y\n"


def test_tuples_as_source() -> None:
    for items in ([], ["a"], ["a", "b"]):
        assert eval(tuple_of(items), {"a": 1, "b": 2}) == (1, 2)[: len(items)]


def test_holes_in_a_text() -> None:
    text = "def f({names}):\n    {before}\n    {lines}\n    return {{{names}}}"
    assert fill(text, names="a", before=[], lines=["if a:", ["a = {}"]]) == (
        "def f(a):\n    if a:\n        a = {}\n    return {a}"
    )
    assert fill("    {text}\n{end}", text="as it\nstands", end="") == "    as it\nstands\n"
    with pytest.raises(KeyError):
        fill("{unknown}")


def test_a_function_is_listed_and_its_lines_are_shown() -> None:
    lines = ["def divided(x):", ["y = x", "return y / NOUGHT"]]
    made = function("divided", text_of(lines), {"NOUGHT": 0}, "a test", "nothing but zero")
    assert [s.title for s in sources("nothing but zero")] == ["a test"]
    (listed,) = sources("nothing but zero")
    assert listed.text == inspect.getsource(made) == text_of(lines)
    assert repr(listed) == "<a test: nothing but zero>"
    with pytest.raises(ZeroDivisionError) as caught:
        made(1)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.line) == (listed.path, 3, "return y / NOUGHT")


def test_sources_stay_within_their_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    written = source._Written("test.source", 2)
    monkeypatch.setattr(source, "_written", written)
    paths = []
    for k in range(3):
        function("f", f"def f(): return {k}", {}, "bounded", "")
        paths += [p for p in written if p not in paths]
    assert len(written) == 1
    assert [p in linecache.cache for p in paths] == [False, False, True], "what is not listed takes no memory"


def test_what_an_op_is_run_by_is_listed() -> None:
    x = torch.ones(3, 2, requires_grad=True)
    y = torch.nn.functional.softmax(torch.Tensor.unsqueeze(x * 2, 0).squeeze(0), 1).sum()
    y.backward()
    titles = {s.title for s in sources()}
    assert "short way of elementwise ops" in titles
    assert "short way of Tensor.unsqueeze" in titles
    assert "recorder of 2 operands" in titles
    assert "runner of 2 gradients" in titles
    assert "runner of a program over rows" in titles
    assert "rules of UnsqueezeBackward0" in titles
    assert "signatures.txt" in sources("short way of Tensor.unsqueeze")[0].made_from
    for launcher in sources("launcher"):
        assert Path(launcher.path).read_text() == launcher.text
    assert sources("launcher")
    assert not sources("no such thing")


def test_a_guard_is_listed_by_the_name_that_it_guards() -> None:
    torch.kron(torch.ones(2), torch.ones(2))
    (guard,) = sources("guard of kron")
    assert "def guarded(" in guard.text
    assert "nbgrad." in guard.made_from


def test_a_refusal_shows_the_line_of_a_written_function() -> None:
    with pytest.raises(TypeError) as caught:
        torch.softmax(torch.ones(2), "x")
    shown = "".join(traceback.format_exception(caught.value))
    assert "refused_after(error, input, dim, dtype, out, )" in shown


def test_nothing_is_written_elsewhere() -> None:
    """But for a script that is run, the files of kernels, code that is put before functions, what users make of graphs, methods
    whose lines are those of the user's file, and what `nbgrad.compile` asks and runs at each call, which it shows itself."""
    running = {
        name_of(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "exec"
    }
    known = {"base.source", "kernels.build", "__main__", "core.overrides", "fx.graph_module"}
    known |= {"adjoints.methods", "compiled.call", "compiled.state"}
    assert running == {f"nbgrad.{name}" for name in known}
