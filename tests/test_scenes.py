"""Programs around modules, optimisers and data show what PyTorch shows; the directories' scenes.txt hold them."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.autograd.scenes import Scene, read
from tests.support import T, as_torch

HERE = Path(__file__).parent
SCENES = [
    s for part in ("nn", "ops", "optim", "utils/data") for s in read(HERE / part / "scenes.txt").values()
]
EACH = pytest.mark.parametrize("scene", SCENES, ids=str)


def check(scene: Scene, module: ModuleType) -> None:
    with as_torch(module):
        shown = scene.play(module)
    for (_, expression, want), got in zip(scene.parts, shown, strict=True):
        assert got == want, expression


@EACH
def test_shows_what_pytorch_shows(scene: Scene) -> None:
    check(scene, T)


@pytest.mark.oracle
@EACH
def test_pytorch_shows_it(torch: ModuleType, scene: Scene) -> None:
    check(scene, torch)
