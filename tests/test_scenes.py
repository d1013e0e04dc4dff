"""Programs show what PyTorch shows; the directories' scenes.txt hold them."""

from types import ModuleType

import pytest

from tests.scenes import FILES, Scene, read
from tests.support import T, as_torch

EACH = pytest.mark.parametrize(
    "scene",
    [
        pytest.param(scene, id=f"{file.parent.name}: {scene}")
        for file in FILES
        for scene in read(file).values()
    ],
)


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
