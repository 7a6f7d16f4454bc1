"""The subscribers of a topic in the order of their load, from which partitions are moved and to which they are given.

The members stand by their count of partitions, least loaded first. Two ranges grow towards each other: `take_lowest`
goes round the members with the fewest partitions, and each full round makes them level with the next ones;
`take_highest` does the same from the other side. So a choice takes constant time, without a heap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class RangesByLoad:
    """Members by load. The caller changes `loads` by one for each member that it takes."""

    __slots__ = (
        "_high_end",
        "_high_level",
        "_high_next",
        "_high_start",
        "_loads",
        "_low_end",
        "_low_level",
        "_low_next",
        "_order",
    )

    def __init__(self, members: Sequence[int], loads: list[int]) -> None:
        self._loads = loads
        self._order = sorted(members, key=loads.__getitem__)
        # The members [0, low_end) have low_level partitions, and those before low_next one more.
        self._low_end = self._low_next = 0
        self._low_level = loads[self._order[0]] - 1
        # The members [high_start, high_end) have high_level partitions, and those behind high_next one less. The
        # members behind high_end have nothing to give.
        self._high_start = self._high_end = len(self._order)
        self._high_next = len(self._order) - 1
        self._high_level = loads[self._order[-1]] + 1

    def take_lowest(self) -> int:
        """The member that gets the next partition."""
        order, loads = self._order, self._loads
        if self._low_next >= self._low_end:
            self._low_level += 1
            while self._low_end < len(order) and loads[order[self._low_end]] == self._low_level:
                self._low_end += 1
            self._low_next = 0
        member = order[self._low_next]
        self._low_next += 1
        return member

    def take_highest(self, to_give: Mapping[int, Sequence[int]]) -> int | None:
        """The member that gives up the next partition, or None if no member has one in `to_give`."""
        while True:
            if self._high_next < self._high_start:
                self._lower_high_level()
            if self._high_next < 0:
                return None
            position = self._high_next
            member = self._order[position]
            self._high_next -= 1
            if to_give.get(member):
                return member
            # The member leaves the range: it changes places with the last one of the range.
            self._high_end -= 1
            self._order[position] = self._order[self._high_end]
            self._order[self._high_end] = member

    def _lower_high_level(self) -> None:
        order, loads = self._order, self._loads
        if self._high_end <= self._high_start and self._high_start > 0:
            # Each member of the range has left it.
            self._high_level = loads[order[self._high_start - 1]]
        else:
            self._high_level -= 1
        while self._high_start > 0 and loads[order[self._high_start - 1]] == self._high_level:
            self._high_start -= 1
        self._high_next = self._high_end - 1

    def is_balanced(self) -> bool:
        """Return whether the two ranges differ by at most one partition, so that a move brings nothing."""
        return self._high_level - self._low_level <= 1
