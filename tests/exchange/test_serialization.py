"""Files: what `save` writes and `load` reads, both ways between nbgrad and PyTorch; what is hostile is refused by name."""

import functools
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.support import T, as_torch

DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def things(lib: ModuleType) -> dict[str, Any]:
    base = lib.arange(12.0).reshape(3, 4)
    return {
        "tensors": {d: lib.tensor([0, 1, 3]).to(getattr(lib, d)) for d in DTYPES},
        "strided": base.t(),
        "part": base[1:, 2],
        "scalar": lib.tensor(2.5),
        "empty": lib.zeros(0, 3),
        "trained": lib.ones(2, requires_grad=True),
        "parameter": lib.nn.Parameter(lib.ones(2), requires_grad=False),
        "plain": [None, True, 1, -(2**70), 2.5, float("inf"), "é", b"\x00\xff", (1, (2,)), {3}, {"a": [1]}],
        "ordered": OrderedDict(b=1, a=lib.ones(1)),
        "counter": Counter("abb"),
        "names": [lib.Size([2, 3]), lib.float32, lib.device("cpu")],
    }


def plain(value: Any) -> Any:
    """Without the library's classes."""
    if hasattr(value, "storage_offset"):
        value_is = (type(value).__name__, str(value.dtype), value.stride(), value.storage_offset())
        return (*value_is, value.requires_grad, value.detach().tolist())
    if isinstance(value, dict):
        return type(value).__name__, {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return value if isinstance(value, (int, float, str, bytes, set, type(None))) else repr(value)


def round_trip(obj: Any) -> Any:
    file = io.BytesIO()
    T.save(obj, file)
    file.seek(0)
    return T.load(file)


def test_round_trip(tmp_path: Path) -> None:
    T.save(things(T), tmp_path / "a.pt")
    loaded = T.load(tmp_path / "a.pt")
    assert plain(loaded) == plain(things(T))
    assert type(loaded["parameter"]) is T.nn.Parameter and loaded["names"][1] is T.float32


@pytest.mark.oracle
def test_pytorch_reads_it(torch: ModuleType, tmp_path: Path) -> None:
    T.save(things(T), tmp_path / "a.pt")
    assert plain(torch.load(tmp_path / "a.pt", weights_only=True)) == plain(things(torch))


@pytest.mark.oracle
def test_it_reads_pytorch(torch: ModuleType, tmp_path: Path) -> None:
    torch.save(things(torch), tmp_path / "a.pt")
    assert plain(T.load(tmp_path / "a.pt")) == plain(things(T))


@pytest.mark.oracle
def test_state_dicts_cross(torch: ModuleType) -> None:
    """A model's and an optimiser's, from PyTorch to here and back."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    theirs = torch.optim.Adam(model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    theirs.step()
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": theirs.state_dict()}, file)
    loaded = T.load(file)
    assert loaded["model"]._metadata == model.state_dict()._metadata
    names = [name for name, _ in model.named_parameters()]
    mine = T.optim.Adam([loaded["model"][n].requires_grad_() for n in names], lr=7.0)
    mine.load_state_dict(loaded["optimizer"])
    for p in (*model.parameters(), *mine.param_groups[0]["params"]):
        p.grad = p.detach().clone()
    theirs.step()
    mine.step()
    back = io.BytesIO()
    T.save({"model": loaded["model"], "optimizer": mine.state_dict()}, back)
    back.seek(0)
    again = torch.load(back, weights_only=True)
    for (name, p), q in zip(model.named_parameters(), mine.param_groups[0]["params"], strict=True):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), 1e-6, 1e-7)
        assert torch.equal(again["model"][name], torch.from_numpy(q.detach().numpy()))
    theirs.load_state_dict(again["optimizer"])
    assert theirs.param_groups[0]["lr"] == 0.1


def test_shared_memory_stays_shared() -> None:
    base = T.zeros(4)
    a, b, c = round_trip([base, base[1:3], base.detach()])
    a[1] = 5.0
    assert b.tolist() == [5, 0] and c.tolist() == [0, 5, 0, 0]
    assert b._version == a._version == 1
    x, y = round_trip([base, base.clone()])
    x[0] = 1.0
    assert y.tolist() == [0] * 4


def test_one_object_twice() -> None:
    t = T.ones(2)
    a, b = round_trip([t, t])
    assert a is b
    cyclic: list[Any] = [1]
    cyclic.append(cyclic)
    loaded = round_trip(cyclic)
    assert loaded[1] is loaded


def test_the_same_object_gives_the_same_file() -> None:
    first, second = io.BytesIO(), io.BytesIO()
    T.save({"a": T.ones(2)}, first)
    T.save({"a": T.ones(2)}, second)
    assert first.getvalue() == second.getvalue()


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    T.save([1], path)
    with pytest.raises(pickle.PicklingError, match="lambda"):
        T.save([T.ones(1000), lambda: 1], path)
    assert T.load(path) == [1] and os.listdir(tmp_path) == ["a.pt"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import resource
    import signal

    path = tmp_path / "a.pt"
    T.save([1], path)
    monkeypatch.setattr(
        sys, "dont_write_bytecode", True
    )  # Python itself would keep what it could write of a module
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(OSError):
            T.save(T.ones(100_000), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert T.load(path) == [1] and os.listdir(tmp_path) == ["a.pt"]


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Parent directory .*none does not exist\."):
        T.save([1], tmp_path / "none" / "a.pt")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "there")
    T.save([1], tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and T.load(tmp_path / "there") == [1]


class Own:
    """Of a class that no file may name."""


@pytest.mark.parametrize(
    "obj", [Own(), Own, len, np.float64(1), np.ones(2), range(3), {1: Own()}, T.nn.ReLU()]
)
def test_what_is_not_data_is_loaded_where_it_is_trusted(obj: Any) -> None:
    file = io.BytesIO()
    T.save(obj, file)
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL "):
        T.load(file)
    file.seek(0)
    assert type(T.load(file, weights_only=False)) is type(obj)


def test_a_class_that_is_trusted() -> None:
    made, file = Own(), io.BytesIO()
    made.__dict__["weight"] = T.ones(2)
    T.save([made], file)
    name = rf"add_safe_globals\(\[{Own.__module__}.Own\]\)"
    for _ in range(2):
        file.seek(0)
        with pytest.raises(pickle.UnpicklingError, match=name):
            T.load(file)
        file.seek(0)
        with T.serialization.safe_globals([Own]):
            (loaded,) = T.load(file)
            assert T.serialization.get_safe_globals() == [Own]
        assert type(loaded) is Own and T.equal(loaded.__dict__["weight"], T.ones(2))


def plus_one(x: Any) -> Any:
    return x + 1


FUNCTIONS = {
    "a user's": lambda lib: (plus_one, [plus_one]),
    "among tensors": lambda lib: ({"f": plus_one, "t": lib.ones(1)}, [plus_one]),
    "the library's": lambda lib: (lib.nn.functional.relu, [lib.nn.functional.relu]),
    "a class of the library": lambda lib: (lib.nn.Linear, [lib.nn.Linear]),
    "Python's": lambda lib: ((len, int, range), [len, int, range]),
    "partial": lambda lib: (functools.partial(plus_one, 1), [functools.partial, plus_one]),
    "under another's name": lambda lib: (plus_one, [(len, f"{__name__}.plus_one")]),
}


@pytest.mark.parametrize("lib", [T, pytest.param("torch", marks=pytest.mark.oracle)], ids=["nbgrad", "torch"])
@pytest.mark.parametrize("case", FUNCTIONS)
def test_functions_that_are_trusted(case: str, lib: Any, request: pytest.FixtureRequest) -> None:
    if lib == "torch":
        lib = request.getfixturevalue("torch")
    (obj, trusted), file = FUNCTIONS[case](lib), io.BytesIO()
    lib.save(obj, file)
    file.seek(0)
    with lib.serialization.safe_globals(trusted):
        loaded = lib.load(file)
    if case == "under another's name":
        assert loaded is len
    elif case == "partial":
        assert loaded.func is plus_one and loaded.args == (1,)
    elif case == "among tensors":
        assert loaded["f"] is plus_one
    else:
        assert loaded is obj or loaded == obj
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global"):
        lib.load(file)


def test_functions_made_by_the_library_have_pytorchs_names() -> None:
    file = io.BytesIO()
    T.save(T.sin, file)
    with zipfile.ZipFile(file) as archive:
        assert b"ctorch\nsin\n" in archive.read("archive/data.pkl")
    file.seek(0)
    with T.serialization.safe_globals([T.sin]):
        assert T.load(file) is T.sin


def test_truth_values_are_0_and_1_whatever_a_file_holds() -> None:
    file, changed = io.BytesIO(), io.BytesIO()
    T.save(T.tensor([True, False, True]), file)
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(changed, "w") as other:
        for name in archive.namelist():
            other.writestr(name, b"\x07\x00\xff" if name.endswith("data/0") else archive.read(name))
    changed.seek(0)
    assert T.load(changed).sum().item() == 2
    entry = '{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}'
    assert T.utils.safetensors.load(file_of(entry, b"\x07\x00\xff"))["a"].sum().item() == 2


def test_safetensors_of_no_elements_may_be_long() -> None:
    entry = '{"a":{"dtype":"I64","shape":[0,4611686018427387904],"data_offsets":[0,0]}}'
    (a,) = T.utils.safetensors.load(file_of(entry)).values()
    assert (a.shape, a.dtype) == ((0, 2**62), T.int64)


def network(lib: ModuleType) -> Any:
    n = lib.nn
    return n.Sequential(n.Linear(2, 3), n.ModuleList([n.BatchNorm1d(3), n.Tanh()])).eval()


@pytest.mark.oracle
def test_whole_modules_both_ways(torch: ModuleType) -> None:
    for writer, reader in ((T, torch), (torch, T), (T, T)):
        module, file = network(writer), io.BytesIO()
        writer.save(module, file)
        file.seek(0)
        loaded = reader.load(file, weights_only=False)
        assert repr(loaded) == repr(module) and type(loaded) is reader.nn.Sequential
        x = [[0.5, -2.0]]
        np.testing.assert_allclose(
            loaded[0](reader.tensor(x)).tolist(), module[0](writer.tensor(x)).tolist(), 1e-6
        )


def test_device_and_arguments(tmp_path: Path) -> None:
    T.save([1], tmp_path / "a.pt", pickle_protocol=4)
    assert T.load(tmp_path / "a.pt", "cpu", weights_only=False, mmap=True) == [1]
    assert T.load(tmp_path / "a.pt", {"cuda:0": "cpu"}) == T.load(tmp_path / "a.pt", lambda s, _: s) == [1]
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device but"):
        T.load(tmp_path / "a.pt", map_location="cuda:0")
    with pytest.raises(
        RuntimeError, match=r"don't know how to restore data location of .* \(tagged with x\)"
    ):
        T.load(tmp_path / "a.pt", map_location="x")
    with pytest.raises(AttributeError, match=r"You can only torch\.load from a file that is seekable"):
        T.load(3)
    with pytest.raises(AttributeError, match="a file-like object with a 'write' attribute"):
        T.save(3, 3)
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap argument"):
        T.load(io.BytesIO(), mmap=True)


# ---------------------------------------------------------------- what is broken or hostile


def archive(pickled: bytes, entries: dict[str, bytes] | None = None, **options: Any) -> io.BytesIO:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as z:
        z.writestr("a/data.pkl", pickled)
        for name, data in (entries or {"data/0": bytes(16)}).items():
            z.writestr(f"a/{name}", data)
    file.seek(0)
    return file


def glob(name: str) -> bytes:
    return b"c" + name.replace(" ", "\n").encode() + b"\n"


def text(s: str) -> bytes:
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def number(n: int) -> bytes:
    return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)


def tuple_of(*items: bytes) -> bytes:
    return b"(" + b"".join(items) + b"t"


def stored(kind: str = "torch FloatStorage", key: str = "0", numel: int = 4) -> bytes:
    return tuple_of(text("storage"), glob(kind), text(key), text("cpu"), number(numel)) + b"Q"


def tensor(storage: bytes, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    place = number(offset), tuple_of(*map(number, size)), tuple_of(*map(number, stride))
    hooks = glob("collections OrderedDict") + b")R"
    return glob("torch._utils _rebuild_tensor_v2") + tuple_of(storage, *place, b"\x89", hooks) + b"R"


def test_a_file_by_hand() -> None:
    data = np.arange(4, dtype=np.float32).tobytes()
    loaded = T.load(archive(b"\x80\x02" + tensor(stored(), 1, (2,), (2,)) + b".", {"data/0": data}))
    assert loaded.tolist() == [1, 3]


PICKLES: dict[str, tuple[bytes, str]] = {
    "os.system": (
        glob("os system") + tuple_of(text("touch /nonsense")) + b"R",
        "GLOBAL os.system whose module os is blocked",
    ),
    "eval": (glob("builtins eval") + tuple_of(text("1")) + b"R", "GLOBAL eval was"),
    "python 2's eval": (glob("__builtin__ eval") + tuple_of(text("1")) + b"R", "GLOBAL eval was"),
    "getattr": (glob("builtins getattr") + b")R", "GLOBAL getattr was"),
    "own class": (glob("tests.test_serialization Own") + b")R", "GLOBAL tests.test_serialization.Own"),
    "dotted": (glob("torch Size.__class__") + b")R", "GLOBAL torch.Size.__class__"),
    "opcode of proxies": (b"(i" + b"os\nsystem\n", "broken pickle"),
    "a call of data": (text("a") + b")R", "a call of 'a' is not allowed"),
    "a call of a dtype": (glob("torch float32") + b")R", "a call of torch.float32 is not allowed"),
    "new object": (glob("torch Size") + b")\x81", "a new object of"),
    "attributes of a tensor": (
        tensor(stored(), 0, (1,), (1,)) + b"}" + text("_buf") + b"Nsb",
        "attributes of a Tensor",
    ),
    "attributes of slots": (
        glob("collections OrderedDict") + b")R" + b"N}\x86b",
        "attributes of a OrderedDict",
    ),
    "other encoding": (
        glob("_codecs encode") + tuple_of(text("a"), text("rot13")) + b"R",
        "encoded as 'rot13'",
    ),
    "storage outside": (
        tensor(stored(key="../../etc/passwd"), 0, (1,), (1,)),
        "no storage '../../etc/passwd'",
    ),
    "storage too small": (tensor(stored(numel=5), 0, (1,), (1,)), "has 16 bytes, and not 5 elements"),
    "no storage": (tensor(b"N", 0, (1,), (1,)), "has no storage"),
    "odd storage": (tuple_of(text("storage")) + b"Q", "is no storage"),
    "two kinds": (
        tuple_of(tensor(stored(), 0, (1,), (1,)), tensor(stored("torch IntStorage"), 0, (1,), (1,))),
        "described in two ways",
    ),
    "unknown kind": (
        tensor(stored("torch QUInt4x2Storage"), 0, (1,), (1,)),
        "GLOBAL torch.QUInt4x2Storage",
    ),
    "past the end": (tensor(stored(), 0, (5,), (1,)), "reaches element 4 of a storage of 4"),
    "past by stride": (tensor(stored(), 1, (2,), (3,)), "reaches element 4 of a storage of 4"),
    "past by offset": (tensor(stored(), 4, (), ()), "reaches element 4 of a storage of 4"),
    "before the start": (tensor(stored(), -1, (1,), (1,)), "offset, size and stride -1"),
    "negative stride": (tensor(stored(), 3, (2,), (-1,)), r"offset, size and stride 3, \(2,\), \(-1,\)"),
    "negative size": (tensor(stored(), 0, (-2,), (1,)), "offset, size and stride"),
    "huge": (tensor(stored(), 2**62, (2,), (1,)), "offset, size and stride"),
    "sizes without strides": (tensor(stored(), 0, (1, 1), (1,)), "do not fit each other"),
    "parameter of no tensor": (
        glob("torch._utils _rebuild_parameter") + tuple_of(b"N", b"\x88", b"N") + b"R",
        "a parameter has no tensor",
    ),
    "unhashable": (b"}]Ns", "broken pickle"),
    "stack": (b"a", "broken pickle"),
    "memo": (b"h\x07", "Memo value not found"),
    "nothing": (b"", "broken pickle"),
}


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles(name: str) -> None:
    body, words = PICKLES[name]
    with pytest.raises(pickle.UnpicklingError, match=words):
        T.load(archive(b"\x80\x02" + body + b"."))


def test_no_name_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even the module of a refused name is imported."""
    with pytest.raises(pickle.UnpicklingError):
        T.load(archive(b"\x80\x02" + glob("antigravity fly") + b")R."))
    assert "antigravity" not in sys.modules


def test_no_file_takes_the_place_of_a_pipe(tmp_path: Path) -> None:
    """Nor of a device: `save(x, "/dev/null")` left an ordinary file there."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        T.save(T.arange(3), pipe)
        assert T.load(io.BytesIO(read.result())).tolist() == [0, 1, 2]
    assert pipe.is_fifo() and [*tmp_path.iterdir()] == [pipe]


def test_broken_archives(tmp_path: Path) -> None:
    good = io.BytesIO()
    T.save({"a": T.arange(100)}, good)
    data = good.getvalue()
    path = tmp_path / "a.pt"
    for wrong in (b"", b"nonsense", data[: len(data) // 2], data[:-1]):
        path.write_bytes(wrong)
        torn = RuntimeError if wrong.startswith(b"PK") else pickle.UnpicklingError if wrong else EOFError
        with pytest.raises(torn, match=r"load: .*a\.pt is no whole zip archive"):
            T.load(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(
        RuntimeError, match=r"load: .*a\.pt cannot be read: Invalid magic number; corrupt file\?"
    ):
        T.load(path)
    at = data.index(np.arange(100).tobytes()) + 8
    path.write_bytes(data[:at] + b"\xff" + data[at + 1 :])
    with pytest.raises(RuntimeError, match="Bad CRC-32"):
        T.load(path)
    with pytest.raises(FileNotFoundError):
        T.load(tmp_path / "none.pt")


def test_odd_archives() -> None:
    with pytest.raises(RuntimeError, match="an entry of the archive is compressed"):
        T.load(archive(b"\x80\x02N.", {"data/0": bytes(10**6)}, compression=zipfile.ZIP_DEFLATED))
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    with pytest.raises(RuntimeError, match=r"no data\.pkl"):
        T.load(empty)
    other = "big" if sys.byteorder == "little" else "little"
    assert T.load(archive(b"\x80\x02N.", {"byteorder": other.encode()})) is None
    with pytest.raises(UnpicklingError, match="Unknown endianness type: middle"):
        T.load(archive(b"\x80\x02N.", {"byteorder": b"middle"}))


def rewritten(data: bytes, change: Callable[[str, bytes], bytes | None]) -> io.BytesIO:
    """An archive whose entries are changed, or left out where that gives None."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            if (entry := change(name.partition("/")[2], old.read(name))) is not None:
                new.writestr(name, entry)
    made.seek(0)
    return made


def test_another_order_of_bytes() -> None:
    """Files of machines whose greatest byte comes first, and files that do not tell."""
    file, x = io.BytesIO(), T.arange(3, dtype=T.int32)
    T.save([x, T.tensor([True, False])], file)
    swapped = x.numpy().byteswap().tobytes()
    changed = {"byteorder": b"big" if sys.byteorder == "little" else b"little", "data/0": swapped}
    x_, b_ = T.load(rewritten(file.getvalue(), lambda name, data: changed.get(name, data)))
    assert (x_.tolist(), b_.tolist()) == ([0, 1, 2], [True, False])
    changed["byteorder"] = None
    silent = rewritten(file.getvalue(), lambda name, data: changed.get(name, data))
    kinds = T.serialization.LoadEndianness
    try:
        for kind, first in ((None, 0), (kinds.LITTLE, 0), (kinds.BIG, 1)):
            T.serialization.set_default_load_endianness(kind)
            silent.seek(0)
            assert (T.load(silent)[0].tolist() == [0, 1, 2]) is bool(first), kind
    finally:
        T.serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="Invalid argument type in function set_default_load_endianness"):
        T.serialization.set_default_load_endianness("big")


def test_the_older_form() -> None:
    """Several in one file, among other things; nothing is run but what is trusted, and what is cut is refused."""
    base, file = T.arange(12.0).reshape(3, 4), io.BytesIO()
    held = {
        "x": base,
        "part": base[1:, 2],
        "b": T.tensor([True, False]),
        "none": T.zeros(0, 3),
        "half": T.ones(2).bfloat16(),
    }
    pickle.dump("before", file)
    T.save(held, file, _use_new_zipfile_serialization=False)
    end = file.tell()
    T.save(T.nn.Linear(2, 1), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert pickle.load(file) == "before"
    start = file.tell()
    got = T.load(file)
    assert {k: v.tolist() for k, v in got.items()} == {k: v.tolist() for k, v in held.items()}
    got["x"][1, 2] = 100
    assert got["part"].tolist() == [100, 10] and file.tell() == end
    with pytest.raises(
        UnpicklingError, match=r"Unsupported global: GLOBAL torch\.nn\.modules\.linear\.Linear"
    ):
        T.load(file)
    file.seek(end)
    assert T.load(file, weights_only=False)(T.ones(1, 2)).shape == (1, 1)
    whole = file.getvalue()[start:end]
    for cut in range(1, len(whole) - 1, 7):
        with pytest.raises((UnpicklingError, RuntimeError)):
            T.load(io.BytesIO(whole[:cut]))


@pytest.mark.oracle
def test_the_older_form_crosses(torch: ModuleType) -> None:
    for writer, reader in ((torch, T), (T, torch)):
        for weights_only in (True, False):
            file = io.BytesIO()
            for _ in range(2):
                writer.save(things(writer), file, _use_new_zipfile_serialization=False)
            file.seek(0)
            for _ in range(2):
                assert plain(reader.load(file, weights_only=weights_only)) == plain(things(reader))


@pytest.mark.oracle
def test_pickles_of_pytorch_are_read(torch: ModuleType) -> None:
    """Not files, but what `pickle` made of tensors: memory in bytes, by the names of functions in PyTorch's modules."""
    named = torch.ones(2)
    named.label = "ours"
    written = pickle.dumps((things(torch), named))
    with as_torch(T):
        got, known = pickle.loads(written)
    assert isinstance(got["strided"], T.Tensor) and plain(got) == plain(things(T))
    assert type(known) is T.Tensor and (known.tolist(), known.label) == ([1, 1], "ours")


def test_files_of_python_2_and_parts_of_storages() -> None:
    """What PyTorch wrote before 0.4: names in text of no encoding, and storages that are parts of others."""
    pid = b"(U\x07storagectorch\nFloatStorage\nU\x011U\x03cpuK\x03(U\x012K\x01K\x02ttQ"
    tensor = b"ctorch._utils\n_rebuild_tensor_v2\n(" + pid + b"K\x00(K\x02t(K\x01t\x89NtR"
    told = [pickle.dumps(t, 2) for t in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
    memory = (3).to_bytes(8, "little") + np.array([5, 6, 7], "<f4").tobytes()
    whole = b"".join([*told, b"\x80\x02]" + tensor + b"aU\x02\xc3\xa9a.", pickle.dumps(["1"], 2), memory])
    for encoding, text in (("utf-8", "é"), ("latin1", "Ã©"), ("bytes", b"\xc3\xa9")):
        x, read = T.load(io.BytesIO(whole), encoding=encoding)
        assert (x.tolist(), read) == ([6, 7], text)
    with pytest.raises(UnpicklingError, match="is no storage"):
        T.load(io.BytesIO(whole.replace(b"K\x01K\x02tt", b"K\x02K\x02tt")))


def test_memory_that_is_mapped(tmp_path: Path) -> None:
    """What is written to it stays in the process."""
    path, x = tmp_path / "a.pt", T.arange(6.0).reshape(2, 3)
    T.save({"x": x, "row": x[1], "byte": T.ones(3, dtype=T.uint8)}, path)
    got = T.load(path, mmap=True)
    got["x"][1, 0] = 7
    assert got["row"].tolist() == [7, 4, 5] and got["byte"].tolist() == [1, 1, 1]
    assert T.load(path)["x"].tolist() == x.tolist()
    T.save(x, path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        T.load(path, mmap=True)


def test_the_environment_decides_what_is_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    file = io.BytesIO()
    T.save(T.nn.Linear(2, 1), file)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    file.seek(0)
    assert isinstance(T.load(file), T.nn.Linear)
    with pytest.raises(UnpicklingError):
        T.load(file, weights_only=True)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(UnpicklingError):
        T.load(file, weights_only=False)
    assert T.serialization.get_unsafe_globals_in_checkpoint(file)[0] == "torch.nn.modules.linear.Linear"


def test_every_cut_and_flip_is_refused_or_read() -> None:
    """No damage to the pickle gives anything but an exception or data."""
    good = io.BytesIO()
    T.save({"a": T.arange(3.0), "b": [1, "x"]}, good)
    with zipfile.ZipFile(good) as z:
        pickled, data = z.read("archive/data.pkl"), z.read("archive/data/0")
    rng = np.random.RandomState(0)
    damaged = [pickled[:n] for n in range(len(pickled))]
    for _ in range(300):
        wrong = bytearray(pickled)
        wrong[rng.randint(len(wrong))] = rng.randint(256)
        damaged.append(bytes(wrong))
    for wrong in damaged:
        try:
            T.load(archive(bytes(wrong), {"data/0": data}))
        except (pickle.UnpicklingError, RuntimeError) as error:
            assert str(error)


# ---------------------------------------------------------------- safetensors


def header_of(data: bytes) -> bytes:
    (n,) = struct.unpack("<Q", data[:8])
    return data[8 : 8 + n]


def file_of(header: str | bytes, body: bytes = b"", length: int | None = None) -> bytes:
    raw = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(raw) if length is None else length) + raw + body


def test_safetensors_round_trip(tmp_path: Path) -> None:
    st = T.utils.safetensors
    tensors = {d: T.tensor([[0, 1], [3, 1]]).to(getattr(T, d)).t() for d in DTYPES}
    tensors |= {"scalar": T.tensor(2.5), "empty": T.zeros(0, 3), "grad": T.ones(1, requires_grad=True)}
    st.save_file(tensors, tmp_path / "a.safetensors", {"format": "pt"})
    loaded = st.load_file(tmp_path / "a.safetensors")
    assert st.load_metadata(tmp_path / "a.safetensors") == {"format": "pt"}
    assert set(loaded) == set(tensors)
    for name, t in tensors.items():
        got = loaded[name]
        assert got.dtype is t.dtype and got.shape == t.shape and got.tolist() == t.detach().tolist()
    loaded["float32"].add_(1)
    assert {k: v.tolist() for k, v in st.load(st.save(tensors)).items()} == {
        k: v.detach().tolist() for k, v in tensors.items()
    }


def test_safetensors_bytes() -> None:
    """The format itself, by hand."""
    data = T.utils.safetensors.save({"b": T.tensor([1, 2]), "a": T.tensor(1.5)})
    want = b'{"b":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[],"data_offsets":[16,20]}}'
    assert header_of(data).rstrip() == want and len(header_of(data)) % 8 == 0
    assert data[8 + len(header_of(data)) :] == struct.pack("<qqf", 1, 2, 1.5)


ENTRY = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
HEADERS: dict[str, tuple[bytes, str]] = {
    "short": (b"1234", "header is too small"),
    "huge": (file_of("{}", length=2**40), "header is too large"),
    "longer than the file": (file_of("{}", length=10), "the header has 10 bytes"),
    "no JSON": (file_of("{nonsense"), "no JSON"),
    "deep": (file_of('{"a":' + "[" * 100_000), "no JSON"),
    "list": (file_of("[]"), "no JSON object"),
    "no UTF-8": (file_of(b"\xff\xfe"), "no JSON"),
    "spaces first": (file_of(" {}"), "no JSON object"),
    "twice": (file_of('{"a":' + ENTRY + ',"a":' + ENTRY + "}", bytes(4)), "stands twice"),
    "fields": (file_of('{"a":{"dtype":"F32"}}'), "is described by"),
    "more fields": (
        file_of('{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}}', bytes(4)),
        "described by",
    ),
    "dtype": (
        file_of('{"a":{"dtype":"F4","shape":[],"data_offsets":[0,2]}}', bytes(2)),
        "'F4', which this",
    ),
    "negative": (file_of('{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}'), "lies at 0, -4"),
    "not whole": (file_of('{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}', bytes(4)), "the shape"),
    "true": (file_of('{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}', bytes(4)), "the shape"),
    "bytes and shape": (
        file_of('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}', bytes(4)),
        "4 bytes, and",
    ),
    "past the end": (file_of('{"a":' + ENTRY + "}"), "describes 4 bytes, and 0"),
    "not all": (file_of('{"a":' + ENTRY + "}", bytes(5)), "describes 4 bytes, and 5"),
    "overlap": (file_of('{"a":' + ENTRY + ',"b":' + ENTRY + "}", bytes(4)), "overlap or are missing"),
    "gap": (
        file_of('{"a":{"dtype":"F32","shape":[],"data_offsets":[4,8]}}', bytes(8)),
        "overlap or are missing",
    ),
    "huge shape": (
        file_of('{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}}'),
        "overflow computing buffer size from shape and/or element type",
    ),
    "huge shape of nothing": (
        file_of('{"a":{"dtype":"F32","shape":[1099511627776,1099511627776,0],"data_offsets":[0,0]}}'),
        "overflow computing buffer size from shape and/or element type",
    ),
    "metadata": (file_of('{"__metadata__":{"a":1}}'), "metadata must be text"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_hostile_safetensors(name: str, tmp_path: Path) -> None:
    data, words = HEADERS[name]
    st = T.utils.safetensors
    (tmp_path / "a").write_bytes(data)
    for read in (lambda: st.load(data), lambda: st.load_file(tmp_path / "a")):
        with pytest.raises(st.SafetensorError, match=words):
            read()


@pytest.mark.parametrize(
    "tensors", [{"a": 1}, {1: T.ones(1)}, {"__metadata__": T.ones(1)}], ids=["number", "name", "metadata"]
)
def test_safetensors_refuses(tensors: Any, tmp_path: Path) -> None:
    st = T.utils.safetensors
    (tmp_path / "a").write_bytes(b"before")
    with pytest.raises(st.SafetensorError):
        st.save_file(tensors, tmp_path / "a")
    with pytest.raises(st.SafetensorError, match="metadata must be text"):
        st.save({"a": T.ones(1)}, {"a": 1})
    assert (tmp_path / "a").read_bytes() == b"before" and os.listdir(tmp_path) == ["a"]


def test_import_is_lazy() -> None:
    """None of this is paid for by `import nbgrad`."""
    names = ("nn.modules", "optim", "exchange.files", "utils.data", "utils.safetensors")
    program = f"import sys, nbgrad; print([n for n in {names} if 'nbgrad.' + n in sys.modules])"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


LOADERS: dict[str, Callable[[], Any]] = {
    "save": lambda: T.save,
    "load": lambda: T.load,
    "optim": lambda: T.optim,
}


@pytest.mark.parametrize("name", LOADERS)
def test_lazy_names(name: str) -> None:
    assert LOADERS[name]() is getattr(T, name)
    with pytest.raises(AttributeError, match="module 'nbgrad' has no attribute 'nonsense'"):
        T.nonsense  # noqa: B018


class _Marked(T.Tensor):
    """A user's own, with a slot."""

    __slots__ = ("mark",)


@pytest.mark.parametrize("weights_only", [True, False])
def test_what_a_user_put_on_tensors(weights_only: bool) -> None:
    x = T.ones(2)
    x.note, x.other = "a", T.zeros(1)  # type: ignore[attr-defined]
    p = T.nn.Parameter(T.ones(2))
    p.note = {"b": 1}  # type: ignore[attr-defined]
    y = T.arange(3.0).as_subclass(_Marked)
    y.mark, y.note = 5, "c"  # type: ignore[attr-defined]
    file = io.BytesIO()
    T.save([x, p, y], file)
    file.seek(0)
    with T.serialization.safe_globals([_Marked]):
        a, b, c = T.load(file, weights_only=weights_only)
    assert (a.note, a.other.item(), b.note, type(b)) == ("a", 0, {"b": 1}, T.nn.Parameter)
    assert (type(c), c.mark, c.note, c.tolist()) == (_Marked, 5, "c", [0, 1, 2])
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="_Marked"):
        T.load(file)


@pytest.mark.parametrize("place", ["_buf", "_spec", "shape", "mark2"])
def test_a_file_cannot_write_to_what_a_tensor_is(place: str) -> None:
    y = T.arange(3.0).as_subclass(_Marked)
    y.mark = 1
    file = io.BytesIO()
    T.save(y, file)
    told = len(place.encode()).to_bytes(4, "little") + place.encode()
    changed = rewritten(file.getvalue(), lambda _, data: data.replace(b"\x04\x00\x00\x00mark", told))
    with T.serialization.safe_globals([_Marked]), pytest.raises(pickle.UnpicklingError, match="slot"):
        T.load(changed)


def test_what_only_writes_and_flushes_is_written_to() -> None:
    class Sender:
        """As skorch's, which sends on what was written when it is flushed."""

        def __init__(self) -> None:
            self.written = b""
            self.sent: list[bytes] = []

        def write(self, data: bytes) -> int:
            self.written += data
            return len(data)

        def flush(self) -> None:
            self.sent.append(self.written)

        def tell(self) -> int:
            raise NotImplementedError("Tell is not (yet) implemented")

    held, sender = io.BytesIO(), Sender()
    T.save({"weight": T.ones(2)}, held)
    T.save({"weight": T.ones(2)}, sender)
    assert sender.sent == [held.getvalue()]
