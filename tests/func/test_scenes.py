"""Programs that transform functions show what PyTorch shows; scenes.txt holds them."""

from pathlib import Path
from types import ModuleType

import pytest

from tests.autograd.scenes import Scene, read
from tests.support import T, as_torch

EACH = pytest.mark.parametrize("scene", read(Path(__file__).parent / "scenes.txt").values(), ids=str)


@EACH
def test_shows_what_pytorch_shows(scene: Scene) -> None:
    with as_torch(T):
        shown = scene.play(T)
    for (_, expression, want), got in zip(scene.parts, shown, strict=True):
        assert got == want, expression


@pytest.mark.oracle
@EACH
def test_pytorch_shows_it(torch: ModuleType, scene: Scene) -> None:
    for (_, expression, want), got in zip(scene.parts, scene.play(torch), strict=True):
        assert got == want, expression
