"""Changes that an operator makes to records in flight: at the leader of their partition, which has their states."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.reporting.numbers import offsets_text
from broker_cy.share.operating import operate
from broker_cy.share.sessions import TopicPartition
from broker_cy.share.share_partitions import ShareKey
from broker_cy.share_service.state_writes import settled
from broker_cy.wire.share_operations import Changed, Operation, OperatorAction

if TYPE_CHECKING:
    from broker_cy.share.share_partition import SharePartition
    from broker_cy.share.state_write import StateWrite
    from broker_cy.share_service.share_service import ShareService

Ranges = list[tuple[int, int]]


class Applied(NamedTuple):
    """The records that were changed are between the two offsets, which a preview leaves at -1."""

    changed: Changed
    first_offset: int = -1
    last_offset: int = -1


# The states that records must have, for messages.
_NEEDED: Final = {
    OperatorAction.RELEASE: "locked",
    OperatorAction.REJECT: "locked or available",
    OperatorAction.REDRIVE: "archived",
}


async def apply_operation(
    service: ShareService,
    group_id: str,
    member_id: str | None,
    operation: Operation,
    wanted: Mapping[TopicPartition, Ranges],
) -> dict[TopicPartition, Applied | KafkaError]:
    """Change records of share partitions, those that `member_id` has locked or, with None, those of any member and
    none. Returns the results once the states are persisted; a preview changes nothing.
    """
    results: dict[TopicPartition, Applied | KafkaError] = {}
    waiting: dict[TopicPartition, tuple[StateWrite, asyncio.Future[KafkaError | None]]] = {}
    for topic, ranges in wanted.items():
        key = ShareKey(group_id, topic)
        try:
            share = _served(service, key)
        except KafkaError as error:
            results[topic] = error
            continue
        write, records, archived = operate(share, operation.action, member_id, ranges, operation.is_preview)
        if not records:
            results[topic] = KafkaError(
                ErrorCode.INVALID_RECORD_STATE, _nothing(share, operation.action, member_id, ranges)
            )
            continue
        changed = Changed(records, archived)
        if write is None:
            results[topic] = Applied(changed)
        else:
            first, last = min(batch[0] for batch in write.batches), max(batch[1] for batch in write.batches)
            results[topic] = Applied(changed, first, last)
            waiting[topic] = write, service.loop.create_future()
            service.write(key, share, write, settled(waiting[topic][1]))
    for topic, (write, future) in waiting.items():
        failure = await future
        if failure is not None:
            results[topic] = failure
        else:
            service.counts.operated(group_id, operation.action, write)
    return results


def _served(service: ShareService, key: ShareKey) -> SharePartition:
    """Return the share partition, which this broker serves. Raises KafkaError."""
    service.leading(key.topic)
    share = service.table.get(key)
    if share is None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE,
            f"no member of group {key.group_id} fetches the partition now, so no record of it is in flight",
        )
    if not share.is_active:
        raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the records in flight are still being loaded")
    return share


def _nothing(share: SharePartition, action: OperatorAction, member_id: str | None, ranges: Ranges) -> str:
    """Say why no record was changed."""
    of_ranges = "" if ranges[0][1] > share.end_offset and ranges[0][0] == 0 else f" of {offsets_text(ranges, most=3)}"
    of_member = "" if member_id is None else f" by member {member_id}"
    flight = share.in_flight()
    seen = offsets_text([(max(share.start_offset, flight[0][0]), flight[-1][1])]) if flight else "nothing"
    return f"no record{of_ranges} is {_NEEDED[action]}{of_member}; in flight: {seen}"
