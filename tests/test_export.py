"""Programs made of modules: what they compute, which arguments they refuse, files."""

from typing import Any

import pytest

from tests.support import T


class Scaled(T.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = T.nn.Linear(3, 2), T.nn.Dropout(0.5)
        self.register_buffer("shift", T.ones(2))

    def forward(self, x: Any, y: Any = None, *, k: float = 2.0) -> Any:
        return self.drop(self.layer(x)) * k + (self.shift if y is None else y)


def test_a_program_is_its_module_as_it_was(tmp_path: Any) -> None:
    module, x = Scaled().eval(), T.ones(4, 3)
    program = T.export.export(module, (x,))
    made, before = program.module(), module(x)
    module.train()  # which the program does not follow
    assert T.equal(made(x), before) and T.equal(program.graph_module(x), before)
    assert list(program.state_dict) == ["layer.weight", "layer.bias", "shift"]
    assert all(a is b for a, b in zip(made.parameters(), module.parameters(), strict=True))
    assert "aten.addmm.default" in [str(node.target) for node in program.graph.nodes]
    made(x).sum().backward()
    assert module.layer.weight.grad is not None
    file = tmp_path / "program.pt2"
    T.export.save(program, file, extra_files={"note": "of one layer"})
    notes = {"note": ""}
    again = T.export.load(file, extra_files=notes)
    assert T.equal(again.module()(x), before) and notes == {"note": "of one layer"}
    for call in (made.train, made.eval):
        with pytest.raises(NotImplementedError, match="is not supported yet"):
            call()
    with pytest.raises(RuntimeError, match="Unable to call ExportedProgram directly"):
        program(x)
    with pytest.raises(ValueError, match="Expected `mod` to be an instance"):
        T.export.export(T.tanh, (x,))


def test_sizes_are_fixed_but_for_those_that_are_freed() -> None:
    x, batch = T.ones(4, 3), T.export.Dim("batch", max=8)
    fixed = T.export.export(Scaled(), (x,), {"k": 3.0}).module()
    assert fixed(x, k=3.0).shape == (4, 2)
    for size, message in ((5, r"x.size\(\)\[0\] == 4"), (4, "k == 3.0")):
        with pytest.raises(AssertionError, match=f"Guard failed: {message}"):
            fixed(T.ones(size, 3), k=3.0 if size == 5 else 4.0)
    for shapes in ({"x": {0: batch}}, ((batch, None),), [{0: batch}]):
        freed = T.export.export(Scaled(), (x,), dynamic_shapes=shapes).module()
        assert freed(T.ones(7, 3)).shape == (7, 2)
        with pytest.raises(AssertionError, match=r"x.size\(\)\[0\] <= 8"):
            freed(T.ones(9, 3))
        with pytest.raises(AssertionError, match=r"x.size\(\)\[1\] == 3"):
            freed(T.ones(4, 4))
    assert T.export.export(Scaled(), (x,), dynamic_shapes={"x": {0: T.export.Dim.AUTO}}).module()(
        x[:1]
    ).shape == (1, 2)
