"""Where copies of what a loop carries are laid when there is room for so many, and no more: the schedule of A. Griewank (1992).

Promises the fewest turns that are run again of a loop whose number of turns is known. With room for s copies, r runs of each turn at
the most suffice for (s + r)! / s! / r! turns: five for a million with 50 copies, two with 1,413.
"""

from __future__ import annotations


def onward(turns: int, room: int) -> int:
    """How far behind a copy the next one lies, where so many turns are to be reversed and there is room for so many copies, the first
    one among them; all turns if there is no room for another.

    >>> onward(10, 1), onward(10, 3), onward(10, 10)
    (10, 4, 1)
    """
    if room < 2 or turns < 2:
        return turns
    reach, runs = 1, 0  # as many turns as so many runs of each suffice for
    while reach < turns:
        runs += 1
        reach = reach * (room + runs) // runs
    one_less = reach * runs // (room + runs)  # those that a run less suffices for
    behind = one_less * room // (room + runs - 1)  # and a copy less
    return max(min(one_less, turns - behind), 1)


__all__ = ["onward"]
