"""Memory that changes its size or its tensor: nobody who shares it is left behind. What PyTorch shows is in scenes.txt."""

import gc
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.support import T


def test_what_resized_a_view_can_be_saved_and_loaded(tmp_path: Path) -> None:
    x = T.arange(6.0)
    v = x[2:4]
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        T.add(T.ones(9), 1, out=v)
    T.save({"x": x, "v": v}, tmp_path / "f")
    loaded = T.load(tmp_path / "f")
    assert loaded["v"].storage_offset() == 2
    loaded["v"].zero_()
    assert loaded["x"].tolist() == [0, 1, 0, 0, 0, 0]


def test_memory_that_ends_within_an_element_can_be_saved_and_loaded(tmp_path: Path) -> None:
    x = T.zeros(0).set_(T.UntypedStorage([0, 0, 128, 63, 7]))
    T.save(x, tmp_path / "f")
    assert T.load(tmp_path / "f").tolist() == [1.0]


def test_memory_that_an_array_has_does_not_move() -> None:
    """Also where the record that lent it is gone."""
    x = T.arange(6.0)
    seen = np.asarray(x.data[1:])
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(7)
    x += 1
    assert seen.tolist() == [2, 3, 4, 5, 6]
    del seen
    assert x.resize_(7).untyped_storage().nbytes() == 28


def test_a_tensor_that_is_not_found_makes_it_a_refusal() -> None:
    x = T.arange(6.0)
    hidden = x[1:]
    gc.freeze()  # the collector no longer looks at it
    try:
        with pytest.raises(RuntimeError, match="not resizable"):
            x.resize_(7)
    finally:
        gc.unfreeze()
    x.resize_(7)[1] = 5
    assert hidden[0] == 5


def test_a_storage_does_not_shrink_under_a_tensor() -> None:
    x = T.arange(6.0).resize_(1)
    x.untyped_storage().resize_(8)
    assert (x.tolist(), x.untyped_storage().nbytes()) == ([0], 8)
    v = x.as_strided((1,), (1,), 1)
    with pytest.raises(RuntimeError, match="past the first 4 bytes"):
        x.untyped_storage().resize_(4)
    assert v.storage_offset() == 1


def test_saved_values_grow_too() -> None:
    x = T.ones(3, requires_grad=True)
    y = T.full((3,), 2.0)
    z = (x * y).sum()
    y.untyped_storage().resize_(800)
    with T.no_grad():
        y.data.add_(1)
    z.backward()
    assert x.grad.tolist() == [3, 3, 3]


def test_growing_while_others_compute() -> None:
    """Threads on memory of their own are not disturbed."""
    failed = []

    def work() -> None:
        try:
            x = T.arange(4.0)
            v = x[1:3]
            for n in range(5, 8):
                x.resize_(n)
                v.add_(1)
                assert x[1:3].tolist() == v.tolist() == [1 + n - 4, 2 + n - 4]
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed


def test_a_storage_of_ones_own() -> None:
    s = T.UntypedStorage([0, 0, 128, 63, 7])
    assert (list(s), len(s), s.element_size(), s == s.untyped()) == ([0, 0, 128, 63, 7], 5, 1, True)
    x = T.tensor([]).set_(s, 0, (1,))
    s[2] = 0
    assert x.tolist() == [0.5]
    assert T.UntypedStorage(8).nbytes() == 8
    with warnings.catch_warnings(action="ignore"):
        assert x.storage().fill_(3).tolist() == [3.0]
    assert x.tolist() == [3.0]


def test_what_was_detached_in_place_grows_too() -> None:
    p = T.nn.Parameter(T.ones(3))
    q = p.view(-1).unsafe_split(2)[0]
    q.detach_()
    q.resize_(9)
    q[0] = 5
    assert p.tolist() == [5, 1, 1]
    y = p.exp()
    z = y.detach()
    y.detach_()
    z.resize_(40)
    with T.no_grad():
        z[0] = 2
    assert y[0] == 2
    assert y.untyped_storage().nbytes() == 160


def test_threads_that_let_one_memory_grow() -> None:
    """Each call is done or refused, and memory never gets smaller by one that came late."""
    x = T.arange(8.0)
    failed = []

    def work(seed: int) -> None:
        for n in range(10 + seed, 16 + seed):
            try:
                x.detach().resize_(n)
            except RuntimeError as error:
                if "not resizable" not in str(error):
                    failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failed
    x.resize_(40)
    assert x[:8].tolist() == list(range(8))
    assert x.untyped_storage().nbytes() == 160


def test_bytes_that_are_read_as_bools_count_as_true() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that bytes cannot be written to
        x = T.frombuffer(b"\x01\x02\x00\x05", dtype=T.bool)
    assert x.sum().item() == 3
    assert (x + 0).tolist() == [1, 1, 0, 1]


def test_memory_that_is_shared_keeps_its_place() -> None:
    """Also where the tensor that shared it is gone, and the collector looks at nothing that was there before."""
    x = T.arange(6.0)
    v, n = x[2:], x.numpy()
    gc.freeze()
    try:
        x.share_memory_()
    finally:
        gc.unfreeze()
    v[0] = 9
    assert x.tolist() == [0, 1, 9, 3, 4, 5]
    assert n[2] == 2
    assert v.is_shared() and v._version == x._version == 1
    y = x.detach()
    del x, v
    with pytest.raises(RuntimeError, match="not resizable"):
        y.resize_(7)
    with pytest.raises(RuntimeError, match="not resizable"):
        y.untyped_storage().resize_(40)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_what_was_saved_is_shared_too() -> None:
    p = T.nn.Parameter(T.ones(3))
    optimizer = T.optim.SGD([p], 0.5, momentum=0.9)
    y = (p * p).sum()
    p.share_memory_()
    y.backward()
    optimizer.step()
    assert p.is_shared()
    assert p.tolist() == [0, 0, 0]
    p.grad.fill_(1)
    optimizer.step()
    assert p.untyped_storage().float()[0] == p.untyped_storage()[0]


def test_one_storage_of_one_memory() -> None:
    x = T.arange(4.0)
    s = x.untyped_storage()
    assert x[2:].untyped_storage() is x.detach().untyped_storage() is s
    x.resize_(100)
    assert x.untyped_storage() is s and s.nbytes() == 400
    x.share_memory_()
    assert x.untyped_storage() is s


def test_a_part_of_a_storage_holds_the_whole() -> None:
    s = T.UntypedStorage([1, 2, 3, 4])
    part = s[1:3]
    part.fill_(9)
    assert s.tolist() == [1, 9, 9, 4]
    for fixed in (s, part):
        with pytest.raises(RuntimeError, match="not resizable"):
            fixed.resize_(9)
    del s, fixed
    assert part.tolist() == [9, 9]


def test_a_file_that_is_too_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(bytes(range(8)))
    with pytest.raises(RuntimeError, match="is smaller than the required mapping size <12>"):
        T.from_file(str(path), False, 3)
    x = T.from_file(str(path), True, 3)
    x.fill_(1)
    assert path.read_bytes() == b"\0\0\x80?" * 3
    assert x.untyped_storage().filename == str(path)
    y = T.from_file(str(path), False, 3)
    y.zero_()
    assert path.read_bytes() == b"\0\0\x80?" * 3
