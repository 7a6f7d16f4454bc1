"""ListOffsets, versions 1 to 11: by time, and earliest (-2), latest (-1), largest timestamp (-3, KIP-734), local
earliest (-4).

Under read_committed the latest offset is the last stable one, and a search by time finds no record beyond it. Before a
search by time in data that left the page cache, a worker reads that data. Omissions:
tiered storage: its special times (-5, -6) are answered -1, as Kafka does for a topic without it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import handler
from broker_cy.control.image.metadata_view import absent_partition_error
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.replica import Role
from broker_cy.security.acls import Operation, ResourceType
from broker_cy.storage.cold_lookup import largest_timestamp, look_up
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey

if TYPE_CHECKING:
    from broker_cy.replica.partition import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
# First version that knows each special time.
SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
# The replica ids of a client, and of a debugging consumer, which followers answer, too. Others are those of followers.
CONSUMER, DEBUGGING = -1, -2
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
# First version whose answer has the leader epoch of the record found.
LEADER_EPOCH_SINCE = 4
# First version whose clients know OFFSET_NOT_AVAILABLE.
OFFSET_NOT_AVAILABLE_SINCE = 5

Answer = messages.ListOffsetsResponse.ListOffsetsPartitionResponse


@handler(
    ApiKey.LIST_OFFSETS,
    versions=(1, 11),
    omissions="tiered storage: its special timestamps are answered with offset -1",
    requires="DESCRIBE on each topic",
)
async def list_offsets(ctx: RequestContext, request: messages.ListOffsetsRequest) -> messages.ListOffsetsResponse:
    topics = []
    refused = []
    shown = ctx.allowed(Operation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in request.topics))
    for topic in request.topics:
        if topic.name not in shown:
            answers = [
                failed(wanted.partition_index, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for wanted in topic.partitions
            ]
            refused.append(messages.ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
            continue
        answers = await answers_for(ctx, topic, request.isolation_level, request.replica_id)
        # As in Kafka, the answer omits a topic without partitions in the request.
        if answers:
            topics.append(messages.ListOffsetsResponse.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return messages.ListOffsetsResponse(topics=topics + refused)


async def answers_for(
    ctx: RequestContext,
    topic: messages.ListOffsetsRequest.ListOffsetsTopic,
    isolation_level: int,
    replica_id: int = CONSUMER,
) -> list[messages.ListOffsetsResponse.ListOffsetsPartitionResponse]:
    """One answer for each partition that is named; an error for those that are named more than once."""
    asked = Counter(wanted.partition_index for wanted in topic.partitions)
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        # Kafka's handler fails on it.
        return [failed(index, ErrorCode.UNKNOWN_SERVER_ERROR) for index in asked]
    await ctx.broker.openings.opened(ctx.broker.partitions.get(topic.name, index) for index in asked)
    answers = [failed(index, ErrorCode.INVALID_REQUEST) for index, times in asked.items() if times > 1]
    for wanted in topic.partitions:
        if asked[wanted.partition_index] == 1:
            answers.append(await answer_for(ctx, topic.name, wanted, isolation_level == READ_COMMITTED, replica_id))
            if wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP:
                # It may have decompressed a batch: other clients are served before the next one.
                await asyncio.sleep(0)
    return answers


def failed(index: int, code: ErrorCode) -> Answer:
    return Answer(partition_index=index, error_code=code)


async def answer_for(
    ctx: RequestContext,
    topic: str,
    wanted: messages.ListOffsetsRequest.ListOffsetsPartition,
    read_committed: bool,
    replica_id: int,
) -> Answer:
    """The offset for one partition and timestamp, or its error."""
    index, version = wanted.partition_index, ctx.version
    if version < SINCE.get(wanted.timestamp, 0) or wanted.timestamp < EARLIEST_PENDING_UPLOAD:
        return failed(index, ErrorCode.UNSUPPORTED_VERSION)
    partition = ctx.broker.partitions.get(topic, index)
    if partition is None:
        return failed(index, absent_partition_error(ctx.broker.image, topic, index))
    if partition.offline is not None:
        return failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
    code = partition.check_leader_epoch(wanted.current_leader_epoch)
    if code is not None:
        return failed(index, code)
    role = partition.replica.role
    if role != Role.LEADER and not (replica_id == DEBUGGING and role == Role.FOLLOWER):
        return failed(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    in_sync = partition.replica.in_sync
    is_settled = in_sync is None or partition.high_watermark >= in_sync.epoch_start
    is_early = wanted.timestamp in (EARLIEST, EARLIEST_LOCAL)
    if replica_id == CONSUMER and (not (is_settled or is_early) or partition.replica.begun_at >= 0):
        # A new leader, which does not know the high watermark yet (KIP-207); or a log that has begun again.
        known = version >= OFFSET_NOT_AVAILABLE_SINCE
        return failed(index, ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)
    try:
        bound = readable_end(partition, read_committed, replica_id)
        if wanted.timestamp == MAX_TIMESTAMP:
            found = await largest_timestamp(ctx.broker, partition.log)
            timestamp, offset, epoch = answer_of(partition, found, bound)
        else:
            timestamp, offset, epoch = await look_up(ctx.broker, find, partition, wanted.timestamp, bound)
    except KafkaError as error:
        return failed(index, error.code)
    except OSError as error:
        partition.read_failed(error)
        return failed(index, ErrorCode.KAFKA_STORAGE_ERROR)
    return Answer(
        partition_index=index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=epoch if version >= LEADER_EPOCH_SINCE else -1,
    )


def readable_end(partition: Partition, read_committed: bool, replica_id: int) -> int:
    """The end of the searched records: only clients do not see uncommitted ones."""
    if replica_id != CONSUMER:
        return partition.log.written_end_offset
    return partition.last_stable_offset if read_committed else partition.high_watermark


def find(partition: Partition, timestamp: int, bound: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); -1 for each missing value. Not for the largest timestamp."""
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epochs.epoch_for_offset(log.log_start_offset)
    if timestamp == LATEST:
        return -1, bound, partition.leader_epoch
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return -1, -1, -1
    return answer_of(partition, log.offset_for_timestamp(timestamp), bound)


def answer_of(partition: Partition, found: tuple[int, int] | None, bound: int) -> tuple[int, int, int]:
    if found is None or found[1] >= bound:
        return -1, -1, -1
    return found[0], found[1], partition.log.epochs.epoch_for_offset(found[1])
