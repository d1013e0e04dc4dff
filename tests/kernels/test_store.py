"""Where kernels are kept: what somebody else may have written is not read, and whatever happens to the directory costs only time."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbgrad.kernels import store
from nbgrad.kernels.store import Store

STRANGER = 54321


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def belongs_to_a_stranger(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """As the system would show it: only root can give files away."""
    strange = path.lstat().st_ino

    def shown(call: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def look(*args: Any, **kwargs: Any) -> os.stat_result:
            found = call(*args, **kwargs)
            if found.st_ino != strange:
                return found
            fields = list(found)
            fields[stat.ST_UID] = STRANGER
            return os.stat_result(fields)

        return look

    for name in ("stat", "lstat", "fstat"):
        monkeypatch.setattr(os, name, shown(getattr(os, name)))


@pytest.fixture
def kept(tmp_path: Path) -> Store:
    return store._at(str(tmp_path / "kernels"))


@pytest.fixture
def choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | str], Store]:
    """What a new process would use, given $NBGRAD_CACHE_DIR."""
    (tmp_path / "tmp").mkdir(mode=0o700)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))

    def chosen(wanted: Path | str) -> Store:
        monkeypatch.setenv("NBGRAD_CACHE_DIR", str(wanted))
        found = store.store.__wrapped__()
        assert found is not None
        found.write("kernel.bin", b"code")
        assert found.read("kernel.bin") == b"code"
        return found

    return chosen


# ---------------------------------------------------------------- files


def test_what_was_written_is_read(kept: Store) -> None:
    assert kept.read("a.bin") is None
    kept.write("a.bin", b"code of a")
    assert kept.read("a.bin") == b"code of a"
    assert store._at(str(kept.path)).read("a.bin") == b"code of a"
    kept.write("a.bin", b"")
    assert kept.read("a.bin") == b""
    assert mode(kept.path) == 0o700
    assert {mode(p) for p in kept.path.iterdir()} == {0o600}


def test_what_is_not_whole_or_not_itself_is_not_read(kept: Store) -> None:
    kept.write("a.bin", b"code of a")
    kept.write("b.bin", b"code of b")
    path = kept.path / "a.bin"
    whole = path.read_bytes()
    for k in range(len(whole)):
        path.write_bytes(whole[:k])
        assert kept.read("a.bin") is None
        path.write_bytes(whole[:k] + bytes([whole[k] ^ 1]) + whole[k + 1 :])
        assert kept.read("a.bin") is None
    path.write_bytes((kept.path / "b.bin").read_bytes())
    assert kept.read("a.bin") is None
    kept.write("a.bin", b"code of a")
    assert kept.read("a.bin") == b"code of a"


def test_a_file_of_another_directory_is_not_read(kept: Store, tmp_path: Path) -> None:
    """Its digest is of another seal: nobody without this one can make a file."""
    other = store._at(str(tmp_path / "other"))
    other.write("a.bin", b"code")
    (other.path / "a.bin").rename(kept.path / "a.bin")
    assert kept.read("a.bin") is None


def test_a_file_that_others_own_or_may_write_is_not_read(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.write("a.bin", b"code")
    path = kept.path / "a.bin"
    for loose in (0o660, 0o602):
        path.chmod(loose)
        assert kept.read("a.bin") is None
        assert mode(path) == loose
    path.chmod(0o644)
    assert kept.read("a.bin") == b"code"
    belongs_to_a_stranger(monkeypatch, path)
    assert kept.read("a.bin") is None


def test_a_link_or_a_pipe_in_a_files_place_is_not_read(kept: Store, tmp_path: Path) -> None:
    kept.write("a.bin", b"code")
    path = kept.path / "a.bin"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert kept.read("a.bin") is None
    path.unlink()
    os.mkfifo(path)
    assert kept.read("a.bin") is None
    path.unlink()
    path.mkdir()
    assert kept.read("a.bin") is None
    kept.write("a.bin", b"code")  # which cannot be put there
    assert sorted(p.name for p in kept.path.iterdir()) == ["a.bin", "seal"]


def test_what_a_killed_process_began_is_removed(kept: Store) -> None:
    old, new = kept.path / "a.bin.1.0.part", kept.path / "a.bin.2.0.part"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    store._at(str(kept.path)).write("a.bin", b"code")
    assert not old.exists()
    assert new.exists()


# ---------------------------------------------------------------- directories


def test_a_directory_is_made_private_and_links_of_ones_own_are_followed(
    tmp_path: Path, choose: Callable[[Path | str], Store]
) -> None:
    before = os.umask(0)
    try:
        assert choose(tmp_path / "new" / "kernels").path == tmp_path / "new" / "kernels"
    finally:
        os.umask(before)
    assert mode(tmp_path / "new") == mode(tmp_path / "new" / "kernels") == 0o700
    (tmp_path / "link").symlink_to("new/../new")
    assert choose(tmp_path / "link" / "kernels").path == tmp_path / "new" / "kernels"
    (tmp_path / "round").symlink_to("round")
    assert choose(tmp_path / "round").path.parent == tmp_path / "tmp"


@pytest.mark.parametrize("loose", [0o777, 0o770, 0o702])
def test_a_loose_directory_is_left_alone(
    tmp_path: Path, choose: Callable[[Path | str], Store], loose: int
) -> None:
    wanted = tmp_path / "kernels"
    choose(wanted)
    wanted.chmod(loose)
    there = sorted(wanted.iterdir())
    found = choose(wanted)
    assert found.path == tmp_path / "tmp" / f"nbgrad-{os.geteuid()}"
    assert mode(wanted) == loose
    assert sorted(wanted.iterdir()) == there
    assert mode(found.path) == 0o700
    assert choose(wanted).path == found.path  # the next process finds it
    empty = tmp_path / "empty"
    empty.mkdir()
    empty.chmod(loose)
    assert choose(empty).path == found.path
    assert list(empty.iterdir()) == []  # a seal would be trusted once it is private
    assert mode(empty) == loose


def test_a_directory_that_was_loose_is_not_read(
    tmp_path: Path, choose: Callable[[Path | str], Store]
) -> None:
    """What lies in it may have been put there by anybody; one without a seal that is not empty can have been loose."""
    wanted = tmp_path / "kernels"
    wanted.mkdir()
    wanted.chmod(0o777)
    (wanted / "kernel.bin").write_bytes(b"planted")
    wanted.chmod(0o700)
    found = choose(wanted)
    assert found.path == wanted / f"nbgrad-{os.geteuid()}"
    assert (wanted / "kernel.bin").read_bytes() == b"planted"
    assert choose(wanted).path == found.path


def test_an_empty_directory_that_is_ours_is_taken(
    tmp_path: Path, choose: Callable[[Path | str], Store]
) -> None:
    wanted = tmp_path / "kernels"
    wanted.mkdir(mode=0o755)
    assert choose(wanted).path == wanted
    assert mode(wanted) == 0o755  # who may look in cannot read the seal


@pytest.mark.parametrize("what", ["directory", "parent", "link", "seal"])
def test_what_belongs_to_a_stranger_is_not_used(
    tmp_path: Path, choose: Callable[[Path | str], Store], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    wanted = tmp_path / "parent" / "kernels"
    choose(wanted)
    (tmp_path / "link").symlink_to(wanted)
    found_by = tmp_path / "link" if what == "link" else wanted
    strange = {"directory": wanted, "parent": wanted.parent, "link": found_by, "seal": wanted / "seal"}[what]
    if what != "directory":
        wanted.chmod(0o755)
    belongs_to_a_stranger(monkeypatch, strange)
    found = choose(found_by)
    assert wanted != found.path
    assert found.path.parent == (wanted if what == "seal" else tmp_path / "tmp")
    assert mode(wanted) == (0o700 if what == "directory" else 0o755)


def test_a_parent_that_others_may_write_to(tmp_path: Path, choose: Callable[[Path | str], Store]) -> None:
    parent = tmp_path / "shared"
    parent.mkdir()
    parent.chmod(0o777)
    assert choose(parent / "kernels").path.parent == tmp_path / "tmp"
    assert list(parent.iterdir()) == []
    parent.chmod(0o1777)  # as /tmp: others cannot rename what is ours
    assert choose(parent / "kernels").path == parent / "kernels"


def test_a_file_in_the_way_is_left(tmp_path: Path, choose: Callable[[Path | str], Store]) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("a file where the directory should be")
    assert choose(in_the_way).path.parent == tmp_path / "tmp"
    assert in_the_way.read_text() == "a file where the directory should be"


def test_a_seal_that_others_can_read_is_none(tmp_path: Path, choose: Callable[[Path | str], Store]) -> None:
    wanted = tmp_path / "kernels"
    choose(wanted)
    (wanted / "seal").chmod(0o644)
    assert choose(wanted).path == wanted / f"nbgrad-{os.geteuid()}"


def test_a_seal_that_is_not_whole_gives_way_to_a_new_directory(
    tmp_path: Path, choose: Callable[[Path | str], Store]
) -> None:
    wanted = tmp_path / "kernels"
    choose(wanted)
    (wanted / "seal").write_bytes(b"")
    os.utime(wanted / "seal", (0, 0))
    assert choose(wanted).path == wanted / f"nbgrad-{os.geteuid()}"


def test_a_relative_name_is_from_where_the_program_began(
    tmp_path: Path, choose: Callable[[Path | str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_BEGAN_IN", str(tmp_path))
    monkeypatch.chdir("/")
    assert choose("kernels/here").path == tmp_path / "kernels" / "here"
    monkeypatch.setattr(store, "_BEGAN_IN", "")  # a directory that had been removed
    assert choose("kernels/here").path.parent == tmp_path / "tmp"


def test_a_home_that_is_not_there_is_not_made(
    tmp_path: Path, choose: Callable[[Path | str], Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert choose("").path.parent == tmp_path / "tmp"
    assert not (tmp_path / "home").exists()
    (tmp_path / "home").mkdir(mode=0o700)
    assert choose("").path == tmp_path / "home" / ".cache" / "nbgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert choose("").path == tmp_path / "home" / ".cache" / "nbgrad"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert choose("").path == tmp_path / "xdg" / "nbgrad"


def test_where_nothing_can_be_kept_a_directory_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    tmp.chmod(0o777)
    program = (
        "from nbgrad.kernels.store import store\n"
        "kept = store()\n"
        "kept.write('a', b'code'); assert kept.read('a') == b'code'\n"
        "print(kept.path)"
    )
    env = {**os.environ, "NBGRAD_CACHE_DIR": str(tmp / "kernels"), "TMPDIR": str(tmp)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert Path(done.stdout.strip()).parent == tmp
    assert list(tmp.iterdir()) == []


# ---------------------------------------------------------------- while a process runs


def test_a_directory_that_is_gone_or_another_one_costs_what_was_kept(kept: Store, tmp_path: Path) -> None:
    kept.write("a.bin", b"code")

    def nothing_is_kept() -> None:
        assert kept.read("a.bin") is None
        kept.write("a.bin", b"code")
        kept.show("a.py", "text")
        assert kept.read("a.bin") is None

    kept.path.rename(tmp_path / "away")
    nothing_is_kept()
    kept.path.write_text("a file")
    nothing_is_kept()
    assert kept.path.read_text() == "a file"
    kept.path.unlink()
    kept.path.symlink_to(tmp_path / "away")
    nothing_is_kept()
    kept.path.unlink()
    kept.path.mkdir()
    nothing_is_kept()
    assert list(kept.path.iterdir()) == []
    kept.path.rmdir()
    (tmp_path / "away").rename(kept.path)
    assert kept.read("a.bin") == b"code"
    kept.path.chmod(0o777)
    nothing_is_kept()


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO])
def test_a_directory_that_takes_nothing(kept: Store, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    kept.write("a.bin", b"code")
    opened = os.open

    def refuse(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(error, os.strerror(error))
        return opened(path, flags, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        kept.write("b.bin", b"code")
        assert kept.read("a.bin") == b"code"
        assert kept.read("b.bin") is None
    assert sorted(p.name for p in kept.path.iterdir()) == ["a.bin", "seal"]


def test_a_disk_that_is_full_in_the_middle_of_a_file(kept: Store) -> None:
    program = (
        "import resource, sys\n"
        "sys.dont_write_bytecode = True\n"
        "from nbgrad.kernels import store\n"
        "kept = store._at(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))\n"
        "kept.write('a.bin', bytes(1000))\n"
        "assert kept.read('a.bin') is None\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", program, str(kept.path)], check=True)
    assert [p.name for p in kept.path.iterdir()] == ["seal"]
