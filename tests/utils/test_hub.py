"""Files and models of others: fetched once, checked, loaded from where they are."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import T


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Path]:
    before = T.hub.get_dir()
    T.hub.set_dir(tmp_path / "hub")
    yield tmp_path
    T.hub.set_dir(before)


def test_weights_are_fetched_once(hub: Path, capsys: pytest.CaptureFixture[str]) -> None:
    T.save({"w": T.arange(3)}, hub / "m.pt")
    url = (hub / "m.pt").as_uri()
    for _ in range(2):
        assert T.hub.load_state_dict_from_url(url)["w"].tolist() == [0, 1, 2]
        (hub / "m.pt").unlink(missing_ok=True)
    told = capsys.readouterr()
    assert told.out == f'Downloading: "{url}" to {hub}/hub/checkpoints/m.pt\n' and told.err == "\r100.0%\n"
    assert T.utils.model_zoo.load_url(url, map_location="cpu", weights_only=True)["w"].numel() == 3


def test_a_file_that_is_another_is_not_kept(hub: Path) -> None:
    digits = hashlib.sha256(b"some").hexdigest()[:8]
    for name in (f"m-{digits}.pt", "m-00000000.pt"):
        (hub / name).write_bytes(b"some")
    into = str(hub / "here.pt")
    T.hub.download_url_to_file((hub / f"m-{digits}.pt").as_uri(), into, digits, progress=False)
    assert Path(into).read_bytes() == b"some"
    with pytest.raises(RuntimeError, match=f'invalid hash value .expected "00000000", got "{digits}'):
        T.hub.load_state_dict_from_url((hub / "m-00000000.pt").as_uri(), check_hash=True, progress=False)
    assert not list((hub / "hub" / "checkpoints").iterdir())


def test_models_of_a_folder(hub: Path) -> None:
    repo = hub / "hub" / "me_mine_main"
    repo.mkdir(parents=True)
    (repo / "sizes.py").write_text("two = 2")
    (repo / "hubconf.py").write_text(
        "dependencies = ['sys']\nfrom sizes import two\ndef net(n=3): return (n, two)\nx = 3"
    )
    assert T.hub.load(str(repo), "net", 5, source="local") == (5, 2)
    assert T.hub.load("me/mine", "net", trust_repo=True) == T.hub.load("me/mine:main", "net") == (3, 2)
    for given, said in (
        ((repo, "nothing"), "Cannot find callable nothing in hubconf"),
        ((repo, "x"), "Cannot find callable x in hubconf"),
        ((repo, 3), "model should be a string of function name"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=said):
            T.hub.load(str(given[0]), given[1], source="local")
    with pytest.raises(ValueError, match='Unknown source: "gitlab"'):
        T.hub.load(str(repo), "net", source="gitlab")
    (repo / "hubconf.py").write_text("dependencies = ['nothing_of_this', 'sys', 'nor_this']")
    with pytest.raises(RuntimeError, match="Missing dependencies: nothing_of_this, nor_this"):
        T.hub.load(str(repo), "net", source="local")
    assert str(repo) not in sys.path
