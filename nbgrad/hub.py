"""PyTorch's `torch.hub`: files and models of others, from where they were fetched before.

Promises that what lies in the hub's directory, or in one that is named, is loaded as PyTorch loads it. A file is fetched by Python's own
`urllib`; whole repositories are not: one that PyTorch has put into the directory is used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from typing import Any
from urllib.parse import urlparse as urlparse  # libraries take it from here

_dir: list[str] = []  # what was set
_AT_ONCE = 1 << 17  # bytes

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # of a file's name, which libraries look for


def _get_torch_home() -> str:
    """Where PyTorch keeps what programs fetch."""
    home = os.getenv("TORCH_HOME") or os.path.join(os.getenv("XDG_CACHE_HOME", "~/.cache"), "torch")
    return os.path.expanduser(home)


def get_dir() -> str:
    """Where models that were fetched are kept: `$TORCH_HOME/hub`, unless another directory was set.

    >>> import os
    >>> os.path.basename(torch.hub.get_dir())
    'hub'
    """
    return _dir[-1] if _dir else os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep them in another directory.

    >>> before = torch.hub.get_dir()
    >>> torch.hub.set_dir("/models")
    >>> torch.hub.get_dir()
    '/models'
    >>> torch.hub.set_dir(before)
    """
    _dir[:] = [os.path.expanduser(d)]


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch a file. It stands at `dst` when it is whole, and when its SHA-256 begins with `hash_prefix`; `progress` tells how far it is.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "there.txt").write_text("weights")
    >>> torch.hub.download_url_to_file((folder / "there.txt").as_uri(), str(folder / "here.txt"), progress=False)
    >>> (folder / "here.txt").read_text()
    'weights'
    """
    from urllib.request import Request, urlopen  # 20 ms that who finds its file here does not pay

    dst = os.path.expanduser(dst)
    digest, done = hashlib.sha256(), 0
    part, name = tempfile.mkstemp(".partial", f"{os.path.basename(dst)}.", os.path.dirname(dst) or ".")
    try:
        with open(part, "wb") as file, urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as source:
            whole = int(source.headers.get("Content-Length") or 0)
            while piece := source.read(_AT_ONCE):
                file.write(piece)
                digest.update(piece)
                done += len(piece)
                if progress:
                    sys.stderr.write(f"\r{100 * done / whole:.1f}%" if whole else f"\r{done} bytes")
        if progress:
            sys.stderr.write("\n")
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, dst)
    finally:
        if os.path.exists(name):
            os.remove(name)


def _umask() -> int:
    """Which rights new files do not get; it is told only to who sets it."""
    now = os.umask(0)
    os.umask(now)
    return now


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """`torch.load` of a file that is fetched once, to `model_dir` or the hub's folder of checkpoints, under its name in the address or
    `file_name`. With `check_hash` the name ends in the first digits of its SHA-256.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> torch.save({"weight": torch.ones(2)}, folder / "small.pt")
    >>> torch.hub.load_state_dict_from_url("https://models.example/small.pt", model_dir=str(folder))
    {'weight': tensor([1., 1.])}
    """
    from nbgrad.exchange.files import load as load_file

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = os.path.basename(urlparse(url).path) if file_name is None else file_name
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        digits = re.search(r"-([a-f0-9]*)\.", name) if check_hash else None
        download_url_to_file(url, path, digits and digits[1], progress)
    found: dict[str, Any] = load_file(path, map_location=map_location, weights_only=weights_only)
    return found


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function `model` of a folder's `hubconf.py` gives for the other arguments. Of a repository ("owner/name:branch") the
    folder is that in the hub's directory.

    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "hubconf.py").write_text("def doubled(x): return 2 * x")
    >>> torch.hub.load(str(folder), "doubled", torch.ones(2), source="local")
    tensor([2., 2.])
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = repo_or_dir if source == "local" else _fetched(repo_or_dir, force_reload)
    sys.path.insert(0, folder)
    try:
        entries = _module(os.path.join(folder, "hubconf.py"))
        if not isinstance(model, str):
            raise ValueError("Invalid input: model should be a string of function name")
        missing = [name for name in getattr(entries, "dependencies", ()) if not _is_there(name)]
        if missing:
            raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
        entry = getattr(entries, model, None)
        if not callable(entry):
            raise RuntimeError(f"Cannot find callable {model} in hubconf")
        return entry(*args, **kwargs)
    finally:
        sys.path.remove(folder)


def _module(path: str) -> Any:
    spec = importlib.util.spec_from_file_location("hubconf.py", path)
    assert spec is not None and spec.loader is not None  # as the name ends in .py
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _is_there(name: str) -> bool:
    return name in sys.modules or importlib.util.find_spec(name) is not None


def _fetched(repo: str, force_reload: bool) -> str:
    """Where PyTorch puts a repository: its main branch unless one is named."""
    from nbgrad.names.absent import NotBuiltError

    name, _, branch = repo.partition(":")
    for each in [branch] if branch else ["main", "master"]:
        folder = os.path.join(get_dir(), "_".join([*name.split("/"), each.replace("/", "_")]))
        if os.path.isdir(folder) and not force_reload:
            return folder
    raise NotBuiltError(
        f"nbgrad fetches no repositories: put {repo} into {get_dir()} as PyTorch's torch.hub does, or give its folder with source='local'"
    )


__all__ = ["download_url_to_file", "get_dir", "load", "load_state_dict_from_url", "set_dir"]
