"""The reader of scenes.txt: short programs, and what PyTorch shows for their expressions.

A scene is `== name`, statements, and expressions after `>>>` with what is shown below each. `python -m tests.scenes`
writes what the installed torch shows into each file of that name. The statements see `torch` (the module under test) and `shown`, a list
that callbacks may append to.
"""

import re
import sys
import warnings
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

FILES = sorted(Path(__file__).parent.rglob("scenes.txt"))


# Warnings that the scene is not about: of PyTorch's own, at its first forward mode; of Python 3.12, where a process with threads forks.
OF_THE_ROOM = ("torch.jit", "use of fork() may lead to deadlocks")


@dataclass
class Scene:
    name: str
    parts: list[tuple[str, str, str]] = field(default_factory=list)  # statements, expression, what is shown

    def __str__(self) -> str:
        return self.name

    def play(self, T: ModuleType) -> list[str]:
        names: dict[str, Any] = {"torch": T, "shown": [], "__name__": "__main__"}
        found = []
        T.manual_seed(0)
        T.set_warn_always(True)  # whatever this process was told of before
        # PyTorch's compiler turns this off at its first use, in whatever test that was.
        T.distributions.Distribution.set_default_validate_args(True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            T.FloatStorage(1)  # of which PyTorch tells once, all the same
        for statements, expression, _ in self.parts:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    exec(statements, names)
                    value = show(eval(expression, names))
                except Exception as error:
                    value = f"{type(error).__name__}: {error}".partition(". Did you mean '")[
                        0
                    ]  # says Python 3.13
            texts = [
                f"{w.category.__name__}: {w.message}".partition(" (Triggered internally")[0]
                for w in caught
                if not any(about in str(w.message) for about in OF_THE_ROOM)
            ]
            text = "\n".join([*texts, value]).replace("nbgrad.", "torch.")
            found.append(re.sub(r" +$", "", re.sub(r"0x[0-9a-f]+", "0x", text), flags=re.M).strip())
        T.set_warn_always(False)
        return found


def show(value: Any) -> str:
    if isinstance(value, OrderedDict):  # which Python 3.12 shows otherwise
        value = dict(value)
    return value if isinstance(value, str) else repr(value)


def read(file: Path) -> dict[str, Scene]:
    scenes = {}
    for block in re.split(r"^== ", file.read_text(encoding="utf-8"), flags=re.M)[1:]:
        name, _, body = block.partition("\n")
        scene = Scene(name)
        statements, expression, shown = "", "", []
        for line in [*body.rstrip().split("\n"), ">>>"]:
            if line.startswith(">>>"):
                if expression:
                    scene.parts.append((statements, expression, "\n".join(shown).rstrip()))
                    statements, shown = "", []
                expression = line[4:]
            elif line.startswith("| ") or line == "|":
                shown.append(line[2:])
            else:
                if expression:
                    scene.parts.append((statements, expression, "\n".join(shown).rstrip()))
                    statements, expression, shown = "", "", []
                statements += line + "\n"
        assert name not in scenes, f"two scenes are called {name}"
        scenes[name] = scene
    return scenes


def write(scenes: dict[str, Scene], T: ModuleType, file: Path) -> None:
    lines = []
    for scene in scenes.values():
        lines.append(f"== {scene.name}")
        for (statements, expression, _), shown in zip(scene.parts, scene.play(T), strict=True):
            lines += [*statements.strip("\n").split("\n")] if statements.strip() else []
            lines += [f">>> {expression}", *(f"| {line}".rstrip() for line in shown.split("\n"))]
        lines.append("")
    file.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    import torch

    torch.set_warn_always(True)
    for file in FILES:
        scenes = read(file)
        write(scenes, torch, file)
        sys.stdout.write(f"{len(scenes)} scenes, {sum(len(s.parts) for s in scenes.values())} expressions\n")
