"""Whether all processes call the same: under $NBGRAD_DISTRIBUTED_DEBUG=1, or PyTorch's $TORCH_DISTRIBUTED_DEBUG=DETAIL.

Promises that a collective which another process calls otherwise (another one, another shape or dtype) is refused, by name, before it
hangs or gives nonsense; one to which another does not come, when the group's time is over. It costs a message more for each collective.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from nbgrad.core.tensor import Tensor
from nbgrad.distributed._mpi import mpi, within

if TYPE_CHECKING:
    from nbgrad.distributed._groups import ProcessGroup

_LENGTH = 4096  # bytes of a description that are compared and told


def is_on() -> bool:
    return (
        os.environ.get("NBGRAD_DISTRIBUTED_DEBUG", "0") not in ("", "0")
        or os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"
    )


def check(group: ProcessGroup, kind: str, tensors: list[Tensor], more: str = "") -> None:
    """`more` is what else has to be alike, such as the reduction."""
    mine = _description(group, kind, tensors) + f"\0{more}"
    sent = np.zeros(_LENGTH, np.uint8)
    text = mine.encode()[:_LENGTH]
    sent[: len(text)] = np.frombuffer(text, np.uint8)
    got = np.empty((group.size(), _LENGTH), np.uint8)
    request = group.comm.Iallgather([sent, mpi().BYTE], [got, mpi().BYTE])
    if not within(request, group.timeout.total_seconds()):
        raise RuntimeError(
            f"Rank {group.rank()} waited {group.timeout} for all ranks to call {mine.partition(chr(0))[0]}, and some did not."
        )
    for rank in range(group.size()):
        theirs = got[rank].tobytes().rstrip(b"\0").decode(errors="replace")
        if theirs.rstrip("\0") != mine.rstrip("\0"):
            raise RuntimeError(_mismatch(group.rank(), mine, rank, theirs))


def _description(group: ProcessGroup, kind: str, tensors: list[Tensor]) -> str:
    text = f"CollectiveFingerPrint(SequenceNumber={group.count}, OpType={kind}"
    if not tensors:
        return text + ")"
    t = tensors[0]
    shapes = ", ".join(str(n) for n in t.shape)
    options = (  # of the dtype PyTorch tells nothing here
        f"TensorOptions(dtype=float (default), device={t.device.type}, layout=Strided (default), requires_grad=false (default), "
        "pinned_memory=false (default), memory_format=(nullopt))"
    )
    return (
        text + f", TensorShape=[{shapes}], TensorDtypes={t.dtype.scalar_name}, TensorDeviceTypes={options})"
    )


def _mismatch(rank: int, mine: str, other: int, theirs: str) -> str:
    (mine, my_more), (theirs, their_more) = (text.partition("\0")[::2] for text in (mine, theirs))
    told = (
        f"Detected mismatch between collectives on ranks. Rank {rank} is running collective: {mine}, but Rank {other} is running "
        f"collective: {theirs}."
    )
    differs = []
    for word, label in (
        ("SequenceNumber=", "Sequence number: "),
        ("OpType=", "Op type: "),
        ("TensorShape=[", "Tensor Tensor shapes: "),
        ("TensorDtypes=", "Tensor Tensor dtypes: "),
        ("TensorDeviceTypes=", "Tensor Tensor devices: "),
    ):
        a, b = _after(mine, word), _after(theirs, word)
        if a != b:
            differs.append(f"  {label}{a}vs {b}")
    if not differs:
        differs.append(f"  {my_more} vs {their_more}")
    return told + "Collectives differ in the following aspects: " + "".join(differs)


def _after(text: str, word: str) -> str:
    found: Any = text.partition(word)[2]
    end = "]" if word.endswith("[") else "), " if "Options" in found[:14] else ","
    return str(found.partition(end)[0].rstrip(")"))
