"""Why a broker was fenced, as far as the controller knows: for events and logs, nothing depends on it.

Kafka's records do not have it, so it is a tagged field that Kafka's specification does not know, as in
controller.refused_connections: nodes of Apache Kafka skip it, and its controllers never write it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

# The tagged field of BrokerRegistrationChangeRecord, and of RegisterBrokerRecord in snapshots.
TAG: Final = 10_000


class FenceReason(IntEnum):
    """The number is that of the tagged field; events have the name, in lower case."""

    UNKNOWN = 0
    STOPPED = 1  # in order: the controller allowed it
    SESSION_TIMEOUT = 2
    PROCESS_ENDED = 3  # its host refused connections, or the parent of a shard has seen its end
    STANDS_STILL = 4  # it left questions unanswered
    REFUSES_CONNECTIONS = 5  # those of other hosts
    REQUESTED = 6  # by itself


def tag_of(reason: FenceReason) -> tuple[tuple[int, bytes], ...]:
    return ((TAG, bytes((reason,))),) if reason else ()


def read_tag(tags: Iterable[tuple[int, bytes]]) -> FenceReason:
    """The argument of `tag_of`; UNKNOWN without the field, or if it is not understood."""
    data = dict(tags).get(TAG, b"")
    try:
        return FenceReason(data[0])
    except (IndexError, ValueError):
        return FenceReason.UNKNOWN
