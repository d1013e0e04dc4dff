"""Models as people write them, whose sources know only torch: both libraries draw the same weights, see the same losses and gradients,
step to the same weights, and read each other's files."""

import io
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support import T, as_torch

pytestmark = pytest.mark.oracle
PROGRAMS = {path.stem: path for path in sorted((Path(__file__).parent / "programs").glob("*.py"))}
STEPS = 4
EACH = pytest.mark.parametrize("name", PROGRAMS)


class Trained:
    """A program's model, made and trained under one of the libraries: what was seen on the way."""

    def __init__(self, name: str, module: ModuleType, steps: int = STEPS) -> None:
        self.names: dict[str, Any] = {"__name__": name}
        with as_torch(module):
            exec(compile(PROGRAMS[name].read_text(), name, "exec"), self.names)
            module.manual_seed(0)
            self.model, optimizer, schedule = self.names["make"]()
            self.first = arrays(self.model.state_dict())
            self.losses, self.gradients = [], []
            for _ in range(steps):
                optimizer.zero_grad()
                loss = self.names["loss"](self.model, *self.names["batch"]())
                loss.backward()
                self.names.get("after_backward", lambda model: None)(self.model)
                self.gradients.append({k: p.grad.numpy().copy() for k, p in self.model.named_parameters()})
                optimizer.step()
                if schedule is not None:
                    schedule.step()
                self.losses.append(loss.item())
            self.last = arrays(self.model.state_dict())


def arrays(state: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    return {k: v.detach().numpy().copy() for k, v in state.items()}


def check(got: dict[str, Any], want: dict[str, Any], close: float) -> None:
    assert list(got) == list(want)
    for k in want:
        far = np.abs(got[k].astype(float) - want[k]).max(initial=0)
        assert far <= close * (1 + np.abs(want[k]).max(initial=0)), (k, far)


@EACH
def test_trains_as_in_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = Trained(name, T), Trained(name, torch)
    check(ours.first, theirs.first, 1e-6)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-5)
    check(ours.gradients[0], theirs.gradients[0], 1e-5)
    check(ours.last, theirs.last, 2e-4)


@EACH
def test_files_go_both_ways(name: str) -> None:
    torch = pytest.importorskip("torch")
    made = {module: Trained(name, module, steps=1) for module in (T, torch)}
    for of, to in ((T, torch), (torch, T)):
        file = io.BytesIO()
        saved = made[of].model.state_dict()
        of.save(saved, file)
        file.seek(0)
        made[to].model.load_state_dict(to.load(file))
        check(arrays(made[to].model.state_dict()), arrays(saved), 0)


def test_samples_are_the_same() -> None:
    torch = pytest.importorskip("torch")
    drawn = []
    for module in (T, torch):
        gpt = Trained("gpt2", module, steps=2).model
        module.manual_seed(1)
        drawn.append(gpt.eval().generate(module.zeros(2, 1, dtype=module.long), 15, top_k=5).tolist())
    assert drawn[0] == drawn[1]
