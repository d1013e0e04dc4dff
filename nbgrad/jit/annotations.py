"""What annotations of scripts are written with."""

from __future__ import annotations


class BroadcastingListCls:
    """Annotates a list of so many numbers, for which one will do: `BroadcastingList2[int]`."""

    def __getitem__(self, types: object) -> None: ...


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingList4 = BroadcastingList5 = (
    BroadcastingList6
) = BroadcastingListCls()
