"""Fetch requests, and the records in their answers."""

from __future__ import annotations

from collections.abc import Mapping

from broker_cy.admin.caller import Caller
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.client.aborted import AbortedTransactions
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import problem_of, refused
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import WireError
from broker_cy.wire import messages
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge
from broker_cy.wire.records import Batch, Record, decode_batches

# The largest decompressed size of one batch. A batch that claims more is reported as damaged.
PAYLOAD_BYTES_MAX = 256 << 20
_NO_SESSION_EPOCH = -1


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of one answer about one partition: `records` in order, and where the next ones start.

    `records` excludes transaction markers, aborted records for READ_COMMITTED (`aborted` counts them), and records of
    batches that do not contain the searched bytes (`passed` counts them). `lost_from`: offsets from there on were
    deleted before they could be read. `damage`: parts that could not be read and were skipped. `high_watermark` and
    `log_start_offset` are the partition's at that time; -1 if the answer lacks them.
    """

    partition: TopicPartition
    records: list[Record]
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    size_bytes: int
    aborted: int
    lost_from: int | None
    damage: tuple[str, ...]
    passed: int = 0


async def fetch(
    caller: Caller,
    peer: Peer,
    offsets: Mapping[TopicPartition, int],
    deadline: Deadline,
    *,
    bytes_max: int,
    partition_bytes_max: int,
    bytes_min: int = 0,
    wait_ms: int = 0,
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> tuple[messages.FetchResponse, int]:
    """Fetch from these offsets, without a session: the answer, and the version of the API. The broker waits up to
    `wait_ms` for `bytes_min`. Raises ClientError.
    """
    by_topic: dict[str, list[messages.FetchRequest.FetchPartition]] = {}
    for key, offset in offsets.items():
        part = messages.FetchRequest.FetchPartition(
            partition=key.partition, fetch_offset=offset, partition_max_bytes=partition_bytes_max
        )
        by_topic.setdefault(key.topic, []).append(part)
    topic_id = caller.metadata.topic_id
    request = messages.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        isolation_level=isolation,
        session_epoch=_NO_SESSION_EPOCH,
        topics=[
            messages.FetchRequest.FetchTopic(topic=name, topic_id=topic_id(name), partitions=parts)
            for name, parts in by_topic.items()
        ],
    )
    answer, version = await caller.pool.ask(peer, request, messages.FetchResponse, deadline)
    if (problem := problem_of(answer.error_code)) is not None:
        raise refused(problem, peer.name, "Fetch")
    return answer, version


def decode_partition(
    key: TopicPartition,
    part: messages.FetchResponse.PartitionData,
    start: int,
    end: int | None,
    isolation: Isolation,
    lost_from: int | None = None,
    containing: bytes | None = None,
) -> Chunk:
    """The records from `start` to `end` (not included; None: all) of one partition of an answer.

    `containing`: batches without these bytes are passed over.
    """
    data = part.records or b""
    aborted = AbortedTransactions(part.aborted_transactions or []) if isolation is Isolation.READ_COMMITTED else None
    records: list[Record] = []
    damage: list[str] = []
    skipped = passed = 0
    next_offset = start
    try:
        for batch in decode_batches(data):
            if aborted is not None and aborted.hides(batch):
                skipped += 0 if batch.is_control else batch.count
            elif batch.last_offset >= start and not batch.is_control:
                passed += _take(batch, start, end, records, damage, containing)
            next_offset = max(next_offset, batch.last_offset + 1)
            if end is not None and next_offset >= end:
                break
    except WireError as error:
        # The start of the next batch cannot be found: skip to the high watermark, and read later records.
        damage.append(f"offset {next_offset}: {error}")
        next_offset = max(next_offset, part.high_watermark, start + 1)
    return Chunk(
        key,
        records,
        next_offset,
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        len(data),
        skipped,
        lost_from,
        tuple(damage),
        passed,
    )


def _take(
    batch: Batch, start: int, end: int | None, records: list[Record], damage: list[str], containing: bytes | None
) -> int:
    """Add the batch's records from `start` to `end`, or its damage; returns how many were passed over."""
    where = f"offsets {batch.base_offset} to {batch.last_offset}"
    if not batch.is_valid():
        damage.append(f"{where}: the checksum is wrong")
        return 0
    try:
        theirs = batch.records(PAYLOAD_BYTES_MAX, containing)
    except (WireError, CorruptPayload, PayloadTooLarge) as error:
        damage.append(f"{where}: {error}")
        return 0
    if theirs is None:
        # A part of the batch may be before the start or after the end.
        last = batch.last_offset if end is None else min(batch.last_offset, end - 1)
        return min(batch.count, last - max(batch.base_offset, start) + 1)
    if batch.base_offset < start or (end is not None and batch.last_offset >= end):
        theirs = [each for each in theirs if each.offset >= start and (end is None or each.offset < end)]
    records.extend(theirs)
    return 0
