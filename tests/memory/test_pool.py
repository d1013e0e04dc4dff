"""The pool of a device's memory, over a driver that the CPU plays: who gets which block, what goes back when, and every count."""

import gc
import random
from typing import Any

import pytest

from nbgrad.kernels.cuda.driver import OutOfMemoryError
from nbgrad.kernels.cuda.prompt import Prompt
from nbgrad.memory.pool import LARGE_UNIT, SMALL, Pool, Private, size_of

MB = 1 << 20


class Small(Prompt):
    """A device of so many bytes, whose memory is only numbers."""

    def __init__(self, total: int = 64 * MB) -> None:
        super().__init__()
        self.total, self.live, self.next, self.trims, self.done = total, dict[int, int](), 4096, 0, True

    def allocate(self, nbytes: int, stream: int) -> int:
        if sum(self.live.values()) + nbytes > self.total:
            raise MemoryError
        self.next += nbytes
        self.live[self.next - nbytes] = nbytes
        return self.next - nbytes

    def free(self, address: int, nbytes: int, stream: int) -> None:
        assert self.live.pop(address) == nbytes

    def room(self) -> tuple[int, int]:
        return self.total - sum(self.live.values()), self.total

    def trim(self) -> None:
        self.trims += 1

    def synchronize(self, stream: int | None) -> None:
        self.done = True

    def record(self, event: Any, stream: int) -> None:
        """It is for `done` to say."""

    def passed(self, event: Any) -> bool:
        return self.done


def made(**options: Any) -> tuple[Any, Pool]:
    driver: Any = Small(**options)
    return driver, Pool(driver)


@pytest.mark.parametrize(
    ("asked", "given"),
    [(1, 512), (512, 512), (513, 1024), (SMALL, SMALL), (SMALL + 1, LARGE_UNIT), (5 * MB, 6 * MB)],
)
def test_sizes_of_blocks(asked: int, given: int) -> None:
    driver, pool = made()
    address = pool.allocate(asked, 0)
    assert driver.live == {address: given} and size_of(asked) == given
    assert pool.all.asked == asked and pool.all.reserved == given
    assert pool.all.bytes == (asked + 511) // 512 * 512  # as PyTorch counts what tensors have


def test_a_block_goes_to_its_own_stream_again() -> None:
    _, pool = made()
    first = pool.allocate(1000, 0)
    pool.free(first, 1000, 0)
    other = pool.allocate(1000, 7)
    assert other != first
    assert pool.allocate(900, 0) == first
    assert pool.all.segments == 2


@pytest.mark.parametrize("events", [16, 8192])
def test_counts_are_those_of_all_that_is_lent(events: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside a list of what is; counted many times on the way, or once."""
    monkeypatch.setattr("nbgrad.memory.pool.EVENTS", events)
    driver, pool = made(total=1 << 40)
    rng, lent = random.Random(0), list[tuple[int, int, int]]()
    most = asked = 0
    peaks = dict.fromkeys(("all", "small_pool", "large_pool"), (0, 0))
    for _ in range(4000):
        if rng.random() < 0.55:
            nbytes = rng.choice([rng.randrange(1, 5000), rng.randrange(SMALL, 9 * MB)])
            stream = rng.randrange(3)
            lent.append((pool.allocate(nbytes, stream), nbytes, stream))
            asked += nbytes
        elif lent:
            pool.free(*lent.pop(rng.randrange(len(lent))))
        most = max(most, sum(n for _, n, _ in lent))
        for kind, (count, nbytes) in peaks.items():
            those = [
                -(-n // 512) * 512
                for _, n, _ in lent
                if kind == "all" or (n <= SMALL) == (kind == "small_pool")
            ]
            peaks[kind] = max(count, len(those)), max(nbytes, sum(those))
    figures = pool.figures()
    for kind, both in peaks.items():
        assert (figures["allocation"][kind]["peak"], figures["allocated_bytes"][kind]["peak"]) == both
    assert figures["requested_bytes"]["all"]["current"] == sum(n for _, n, _ in lent)
    assert figures["requested_bytes"]["all"]["peak"] == most
    assert figures["requested_bytes"]["all"]["allocated"] == asked
    assert figures["allocation"]["small_pool"]["current"] == sum(n <= SMALL for _, n, _ in lent)
    assert figures["reserved_bytes"]["all"]["current"] == sum(driver.live.values())
    listed = pool.segments()
    assert sum(s["total_size"] for s in listed) == sum(driver.live.values())
    assert sum(s["allocated_size"] > 0 for s in listed) == len(lent)
    for block in lent:
        pool.free(*block)
    pool.empty()
    assert driver.live == {} and pool.all.bytes == pool.all.count == pool.all.asked == pool.all.reserved == 0


def test_peaks_and_totals_begin_anew() -> None:
    _, pool = made()
    pool.free(pool.allocate(5000, 0), 5000, 0)
    kept = pool.allocate(100, 0)
    pool.begin_peaks()
    pool.begin_totals()
    pool.free(kept, 100, 0)
    found = pool.figures()["allocated_bytes"]["all"]
    assert found == {"current": 0, "peak": 512, "allocated": 0, "freed": 512}


def test_lists_hold_no_more_than_a_part_of_the_device() -> None:
    driver, pool = made()
    for size in range(1, 40):
        address = pool.allocate(size * SMALL // 2, 0)
        pool.free(address, size * SMALL // 2, 0)
    assert sum(driver.live.values()) < driver.total // 2


def test_out_of_memory_is_tried_again_once() -> None:
    driver, pool = made()
    for _ in range(8):  # in lists of a size that nobody wants now
        pool.free(pool.allocate(MB - 512, 0), MB - 512, 0)
    kept = pool.allocate(60 * MB, 0)
    assert pool.retries == 0 or driver.trims
    with pytest.raises(OutOfMemoryError) as caught:
        pool.allocate(10 * MB, 0)
    assert str(caught.value) == (
        "CUDA out of memory. Tried to allocate 10.00 MiB. GPU 0 has a total capacity of 64.00 MiB of which 4.00 MiB is free. "
        "Of the allocated memory 60.00 MiB is allocated by tensors, and 0 bytes is reserved by nbgrad but unallocated."
    )
    assert pool.figures()["num_ooms"] == 1
    pool.free(kept, 60 * MB, 0)
    assert pool.allocate(62 * MB, 0)  # what waits in lists makes room


def test_rubbish_in_circles_makes_room() -> None:
    _, pool = made()

    class Tensor:
        def __init__(self) -> None:
            self.address, self.me = pool.allocate(40 * MB, 0), self

        def __del__(self) -> None:
            pool.free(self.address, 40 * MB, 0)

    gc.disable()
    try:
        Tensor()
        assert Tensor().address
    finally:
        gc.enable()
    assert pool.retries == 1


def test_a_part_of_the_memory_may_be_all_there_is() -> None:
    _, pool = made()
    pool.fraction = 0.25
    pool.allocate(16 * MB, 0)
    with pytest.raises(OutOfMemoryError, match=r"of which 48\.00 MiB is free\. 16\.00 MiB allowed; Of the"):
        pool.allocate(2 * MB, 0)


def test_what_another_stream_uses_waits_for_it() -> None:
    driver, pool = made()
    block = pool.allocate(1000, 0)
    pool.used_by(block, 5)
    driver.done = False
    pool.free(block, 1000, 0)
    assert pool.allocate(1000, 0) != block
    driver.done = True
    assert pool.allocate(1000, 0) == block
    pool.free(block, 1000, 0)
    assert pool.allocate(1000, 0) == block  # it was used by then, and is no more


def test_blocks_of_a_graph_are_nobody_elses() -> None:
    _, pool = made()
    before = pool.allocate(1000, 3)
    private = Private()
    pool.begin(3, private)
    inside, gone = pool.allocate(1000, 3), pool.allocate(1000, 3)
    pool.free(before, 1000, 3)
    pool.free(gone, 1000, 3)
    assert pool.allocate(1000, 3) == gone  # again, in the same graph
    pool.free(gone, 1000, 3)
    pool.end(3)
    pool.free(inside, 1000, 3)
    assert pool.allocate(1000, 3) == before
    assert pool.allocate(1000, 3) not in (inside, gone)
    pool.release(private, 3)
    assert {pool.allocate(1000, 3), pool.allocate(1000, 3)} == {inside, gone}
