"""The states and the special epochs of members of consumer and share groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from itertools import islice
from operator import is_
from typing import Final, TypeVar

# A topic, and its partitions.
K = TypeVar("K")
V = TypeVar("V")
R = TypeVar("R")

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


def added_to(before: Mapping[K, V], after: Mapping[K, V]) -> list[tuple[K, V]] | None:
    """The last topics of `after`, if its first ones are those of `before` with the same values, else None. It computes
    no hash: that of a topic id takes most of the time of a look-up, and there may be 10,000 of them.
    """
    count = len(before)
    if len(after) < count or not all(map(is_, before, after)):
        return None
    if not all(map(is_, before.values(), after.values())):
        return None
    return list(islice(after.items(), count, None))


def of_each(values: Iterable[V], make: Callable[[V], R]) -> list[R]:
    """What `make` returns for each of the values; for one object once: 10,000 topics of a member have few values."""
    found = list(values)
    ids = list(map(id, found))
    made = {each: make(value) for each, value in dict(zip(ids, found, strict=True)).items()}
    return list(map(made.__getitem__, ids))


_STATES = frozenset(map(int, MemberState))
