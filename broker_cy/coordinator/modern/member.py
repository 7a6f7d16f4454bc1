"""The states and the special epochs of members of consumer and share groups."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1


class MemberState(IntEnum):
    """The states of Kafka's records."""

    STABLE = 0
    """It has its part of an assignment; this may not be the newest one."""
    UNREVOKED_PARTITIONS = 1
    """It still has to give up partitions."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others have to give up."""
    UNKNOWN = 127
    """A state of a newer Kafka."""

    @classmethod
    def of(cls, value: int) -> MemberState:
        return cls(value) if value in _STATES else cls.UNKNOWN


_STATES = frozenset(map(int, MemberState))
