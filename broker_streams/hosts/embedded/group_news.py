"""The group's answers about the application: reasons to wait, which are logged once, and reasons to end.

The decisions are those of Kafka Streams 4.3 (StreamThread.handleStreamsRebalanceData): topics with wrong numbers of
partitions end the application at once, missing source topics after MISSING_S.
"""

from __future__ import annotations

import enum
import logging
from typing import Final

from broker_cy.client.group_member import State
from broker_cy.client.streams_member import Status, StreamsMember
from broker_cy.core.errors import ErrorCode
from broker_streams.kernel.errors import StreamsError

_LOG = logging.getLogger("broker_streams")
# Two of Kafka's heartbeats of 5 s.
MISSING_S: Final = 10.0
NO_STREAMS_GROUPS: Final = (
    "the cluster has no streams groups (KIP-1071): they need brokers of this project, or Kafka 4.2 and later, with the"
    " feature streams.version (`broker-cy cluster finalize streams.version=1`) and the protocol streams in"
    " group.coordinator.rebalance.protocols"
)
_REFUSALS: Final = {
    ErrorCode.UNSUPPORTED_VERSION: NO_STREAMS_GROUPS,
    ErrorCode.INVALID_REQUEST: (
        "a group keeps the topology of its first member: for another one, stop all instances, and delete the group"
        " with its offsets, or choose another application.id"
    ),
}


class _Code(enum.IntEnum):
    """The codes of KIP-1071."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


_NAMES: Final = {each.value: each.name for each in _Code}


class MissingSourceTopics(StreamsError):
    """Source topics do not exist, or no longer."""


class GroupNews:
    """The news that one member has heard."""

    def __init__(self, application_id: str) -> None:
        self._application_id = application_id
        self._shown: tuple[Status, ...] = ()
        self._missing_since_s: float | None = None

    def look(self, member: StreamsMember, now_s: float) -> None:
        """Log what is new. Raises StreamsError: the application cannot go on."""
        group = f"group {self._application_id}"
        if member.state is State.FAILED:
            said = f"{member.failure.name} {member.failure_text}".rstrip()
            more = _REFUSALS.get(member.failure)
            raise StreamsError(f"{group} refuses the application: {said}{f' ({more})' if more else ''}")
        missing: Status | None = None
        for status in member.statuses:
            if status not in self._shown and status.code != _Code.ASSIGNMENT_DELAYED:
                _LOG.warning("%s waits: %s: %s", group, _NAMES.get(status.code, status.code), status.detail)
            match status.code:
                case _Code.INCORRECTLY_PARTITIONED_TOPICS:
                    raise StreamsError(
                        f"{group} cannot run the application: INCORRECTLY_PARTITIONED_TOPICS: {status.detail} (a source"
                        " topic has other partitions than when the internal topics were created: reset the"
                        " application, or choose another application.id)"
                    )
                case _Code.SHUTDOWN_APPLICATION:
                    raise StreamsError(f"an instance asked all instances of {group} to end: {status.detail}")
                case _Code.MISSING_SOURCE_TOPICS:
                    missing = status
        self._shown = member.statuses
        if missing is None:
            self._missing_since_s = None
        elif self._missing_since_s is None:
            self._missing_since_s = now_s
        elif now_s - self._missing_since_s >= MISSING_S:
            raise MissingSourceTopics(
                f"{group} cannot run the application: MISSING_SOURCE_TOPICS: {missing.detail} Create them, or change"
                " the topology"
            )
