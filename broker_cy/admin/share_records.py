"""Changes of the records that a share group has in flight: release, reject and redrive (wire.share_operations)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from broker_cy.admin.caller import Caller, Leaders, Outcome
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages
from broker_cy.wire.share_operations import (
    SESSION_EPOCH,
    Changed,
    Operation,
    OperatorAction,
    operation_tags,
    read_changed,
)

# Offsets of one partition: (first, last) of each range.
Ranges = tuple[tuple[int, int], ...]
OFFSET_MAX: Final = (1 << 63) - 1
EVERY_OFFSET: Final[Ranges] = ((0, OFFSET_MAX),)
_API: Final = "ShareAcknowledge"
_PARTITIONS_MAX: Final = 1_000
# The answers of brokers that do not know the operation: the request has no session.
_UNKNOWN: Final = frozenset(
    {
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.INVALID_REQUEST,
    }
)
_REASON: Final = "the broker cannot change records in flight: it is an Apache Kafka, or an older broker-cy"


class ShareRecordCalls:
    """`client.share_records`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def change(
        self,
        group_id: str,
        action: OperatorAction,
        wanted: Mapping[TopicPartition, Ranges],
        *,
        member_id: str = "",
        is_preview: bool = False,
    ) -> Outcome[TopicPartition, Changed]:
        """Change those of the records that are in a state for the action, at the leaders of their partitions. With
        `member_id` only those that this member has locked. A partition without any fails with INVALID_RECORD_STATE. A
        preview only counts them.
        """
        tags = operation_tags(Operation(action, is_preview))
        request_of = messages.ShareAcknowledgeRequest

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, Changed | Problem]:
            by_topic: dict[str, list[messages.ShareAcknowledgeRequest.AcknowledgePartition]] = {}
            for key in keys:
                batches = [
                    request_of.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[])
                    for first, last in wanted[key]
                ]
                by_topic.setdefault(key.topic, []).append(
                    request_of.AcknowledgePartition(partition_index=key.partition, acknowledgement_batches=batches)
                )
            names = {self._caller.metadata.topic_id(name): name for name in by_topic}
            request = request_of(
                group_id=group_id,
                member_id=member_id,
                share_session_epoch=SESSION_EPOCH,
                topics=[
                    request_of.AcknowledgeTopic(topic_id=topic_id, partitions=by_topic[name])
                    for topic_id, name in names.items()
                ],
                _unknown_tags=tags,
            )
            answer, _ = await self._caller.pool.ask(peer, request, messages.ShareAcknowledgeResponse, deadline)
            problem = problem_of(answer.error_code, answer.error_message)
            if problem is not None:
                if problem.code in _UNKNOWN:
                    raise ClientError(Failure.UNSUPPORTED, _REASON, broker=peer.name, api=_API, code=problem.code)
                return dict.fromkeys(keys, problem)
            found: dict[TopicPartition, Changed | Problem] = {}
            for topic in answer.responses:
                for part in topic.partitions:
                    result = problem_of(part.error_code, part.error_message) or read_changed(part._unknown_tags)
                    if result is not None and topic.topic_id in names:
                        found[TopicPartition(names[topic.topic_id], part.partition_index)] = result
            return found

        return await self._caller.spread(
            wanted,
            Leaders(self._caller.metadata),
            send,
            api=_API,
            name=lambda key: f"group {group_id}, partition {key}",
            chunk=_PARTITIONS_MAX,
            # A repeated release would also end locks of records that were delivered again meanwhile.
            repeatable=is_preview,
        )


def by_partition(ranges: Iterable[tuple[TopicPartition, int, int]]) -> dict[TopicPartition, Ranges]:
    """Return ranges of offsets by partition; neighbors become one range."""
    found: dict[TopicPartition, list[tuple[int, int]]] = {}
    for key, first, last in sorted(ranges):
        known = found.setdefault(key, [])
        if known and known[-1][1] + 1 >= first:
            known[-1] = known[-1][0], max(known[-1][1], last)
        else:
            known.append((first, last))
    return {key: tuple(each) for key, each in found.items()}
