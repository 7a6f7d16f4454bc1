"""Offsets of partitions: the first, the last, and those at a time (ListOffsets)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from broker_cy.admin.caller import Caller, Leaders, Outcome
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages

# Partitions of one request.
PARTITIONS_MAX = 2_000
_CONSUMER = -1

LATEST: Final = -1
"""The end: the offset of the next record. For READ_COMMITTED the last stable offset."""
EARLIEST: Final = -2
"""The log start offset."""
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734); from ListOffsets 7 on."""
_MAX_TIMESTAMP_FROM = 7


class Isolation(IntEnum):
    """The records that a reader gets."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class OffsetAt(NamedTuple):
    """An answer: `offset` is None if no record is recent enough, `timestamp_ms` if none was returned."""

    offset: int | None
    timestamp_ms: int | None
    leader_epoch: int


class OffsetCalls:
    """`client.offsets`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def at(
        self, wanted: Mapping[TopicPartition, int], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> Outcome[TopicPartition, OffsetAt]:
        """The offset of each partition at EARLIEST, LATEST, MAX_TIMESTAMP, or the first whose timestamp is at or
        after a time in ms since 1970.
        """
        for key, timestamp in wanted.items():
            if timestamp < MAX_TIMESTAMP:
                raise ClientError(
                    Failure.INVALID,
                    f"timestamp {timestamp}: a time in ms, -1 (latest), -2 (earliest) or -3 (largest) is allowed",
                    what=f"partition {key}",
                )
        at_least = _MAX_TIMESTAMP_FROM if MAX_TIMESTAMP in wanted.values() else 2 if isolation else 1

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, OffsetAt | Problem]:
            by_topic: dict[str, list[messages.ListOffsetsRequest.ListOffsetsPartition]] = {}
            for key in keys:
                part = messages.ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=key.partition, timestamp=wanted[key]
                )
                by_topic.setdefault(key.topic, []).append(part)
            request = messages.ListOffsetsRequest(
                replica_id=_CONSUMER,
                isolation_level=isolation,
                topics=[
                    messages.ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=parts)
                    for name, parts in by_topic.items()
                ],
                timeout_ms=deadline.left_ms,
            )
            answer, _ = await self._caller.pool.ask(
                peer, request, messages.ListOffsetsResponse, deadline, at_least=at_least
            )
            return {
                TopicPartition(topic.name, part.partition_index): problem_of(part.error_code) or _offset_at(part)
                for topic in answer.topics
                for part in topic.partitions
            }

        return await self._caller.spread(
            wanted,
            Leaders(self._caller.metadata),
            send,
            api="ListOffsets",
            name=lambda key: f"partition {key}",
            chunk=PARTITIONS_MAX,
        )

    async def earliest(self, partitions: Iterable[TopicPartition]) -> Outcome[TopicPartition, int]:
        """The log start offset of each partition."""
        return _known(await self.at(dict.fromkeys(partitions, EARLIEST)))

    async def latest(
        self, partitions: Iterable[TopicPartition], *, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> Outcome[TopicPartition, int]:
        """The end of each partition: its high watermark, or last stable offset."""
        return _known(await self.at(dict.fromkeys(partitions, LATEST), isolation=isolation))


def _offset_at(part: messages.ListOffsetsResponse.ListOffsetsPartitionResponse) -> OffsetAt:
    return OffsetAt(
        None if part.offset < 0 else part.offset,
        None if part.timestamp < 0 else part.timestamp,
        part.leader_epoch,
    )


def _known(outcome: Outcome[TopicPartition, OffsetAt]) -> Outcome[TopicPartition, int]:
    failed = dict(outcome.failed)
    found: dict[TopicPartition, int] = {}
    for key, each in outcome.found.items():
        if each.offset is None:
            failed[key] = ClientError(
                Failure.REFUSED,
                "the leader returned no offset",
                api="ListOffsets",
                code=ErrorCode.OFFSET_NOT_AVAILABLE,
                what=f"partition {key}",
            )
        else:
            found[key] = each.offset
    return Outcome(found, failed)
