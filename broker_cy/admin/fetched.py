"""Fetch requests, and the records in their answers."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from uuid import UUID

from broker_cy.admin.caller import Caller
from broker_cy.admin.fetch_session_handler import NO_SESSION, FetchSessionHandler, SessionRequest
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.client.aborted import AbortedTransactions
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import problem_of, refused
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge
from broker_cy.wire.records import Batch, Record, decode_batches

# The largest decompressed size of one batch. A batch that claims more is reported as damaged.
PAYLOAD_BYTES_MAX = 256 << 20
_SESSION_LOST = (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The part of one answer about one partition: `records` in order, and where the next ones start, at most
    the end that the reader was given.

    `records` excludes transaction markers, aborted records for READ_COMMITTED (`aborted` counts them), and records of
    batches that do not contain the searched bytes (`passed` counts them). `lost_from`: offsets from there on were
    deleted before they could be read. `damage`: parts that could not be read and were skipped. `high_watermark` and
    `log_start_offset` are the partition's at that time; -1 if the answer lacks them. Read as rows, `records` is empty,
    `rows` has the last value of each key, None for a deletion, and `row_records` counts the records behind them.
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
    rows: dict[bytes, bytes | None] | None = None
    row_records: int = 0


class RowForm(Enum):
    """The values of a partition that is read as rows."""

    PLAIN = 0
    # The timestamp of the record as a big-endian int64, and the value.
    TIMESTAMPED = 1


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
    session: FetchSessionHandler | None = None,
    rack: str = "",
) -> tuple[messages.FetchResponse, int]:
    """Fetch from these offsets: the answer, and the version of the API. The broker waits up to `wait_ms` for
    `bytes_min`. With `session`, the answer lacks partitions without news. With `rack`, it may name a replica there
    that should be asked instead (KIP-392). Raises ClientError.
    """
    try:
        while True:
            asked = (
                SessionRequest(*NO_SESSION, offsets, ())
                if session is None
                else session.next(offsets, caller.metadata.topic_id)
            )
            request = _request(caller, asked, partition_bytes_max)
            request.max_wait_ms, request.min_bytes, request.max_bytes = wait_ms, bytes_min, bytes_max
            request.isolation_level, request.rack_id = isolation, rack
            answer, version = await caller.pool.ask(peer, request, messages.FetchResponse, deadline)
            problem = problem_of(answer.error_code)
            if problem is None:
                if session is not None:
                    session.took(answer.session_id)
                return answer, version
            if session is None or asked.session_id == 0 or problem.code not in _SESSION_LOST:
                raise refused(problem, peer.name, "Fetch")
            session.reset()
    except BaseException:
        if session is not None:
            session.reset()
        raise


def _request(caller: Caller, asked: SessionRequest, partition_bytes_max: int) -> messages.FetchRequest:
    by_topic: dict[str, list[messages.FetchRequest.FetchPartition]] = {}
    for key, offset in asked.changed.items():
        part = messages.FetchRequest.FetchPartition(
            partition=key.partition, fetch_offset=offset, partition_max_bytes=partition_bytes_max
        )
        by_topic.setdefault(key.topic, []).append(part)
    topic_id = caller.metadata.topic_id
    forgotten: dict[tuple[str, UUID], list[int]] = {}
    for key, known_id in asked.forgotten:
        forgotten.setdefault((key.topic, known_id), []).append(key.partition)
    return messages.FetchRequest(
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=[
            messages.FetchRequest.FetchTopic(topic=name, topic_id=topic_id(name), partitions=parts)
            for name, parts in by_topic.items()
        ],
        forgotten_topics_data=[
            messages.FetchRequest.ForgottenTopic(topic=name, topic_id=known_id, partitions=numbers)
            for (name, known_id), numbers in forgotten.items()
        ],
    )


def decode_partition(
    key: TopicPartition,
    part: messages.FetchResponse.PartitionData,
    start: int,
    end: int | None,
    isolation: Isolation,
    lost_from: int | None = None,
    containing: bytes | None = None,
    form: RowForm | None = None,
) -> Chunk:
    """The records from `start` to `end` (not included; None: all) of one partition of an answer.

    `containing`: batches without these bytes are passed over. `form`: the records are read as rows, several times as
    fast.
    """
    data = part.records or b""
    aborted = AbortedTransactions(part.aborted_transactions or []) if isolation is Isolation.READ_COMMITTED else None
    records: list[Record] = []
    damage: list[str] = []
    skipped = passed = row_records = 0
    rows: dict[bytes, bytes | None] | None = None if form is None else {}
    next_offset = start
    try:
        for batch in decode_batches(data):
            if aborted is not None and aborted.hides(batch):
                skipped += 0 if batch.is_control else batch.count
            elif batch.last_offset >= start and not batch.is_control and rows is not None:
                row_records += _take_rows(batch, start, end, rows, damage, form is RowForm.TIMESTAMPED)
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
        # A batch may have records beyond the end: they were not passed on.
        next_offset if end is None else min(next_offset, max(start, end)),
        part.high_watermark,
        part.last_stable_offset,
        part.log_start_offset,
        len(data),
        skipped,
        lost_from,
        tuple(damage),
        passed,
        rows,
        row_records,
    )


def _take_rows(
    batch: Batch, start: int, end: int | None, rows: dict[bytes, bytes | None], damage: list[str], timestamps: bool
) -> int:
    """Set the rows of the batch's records from `start` to `end`, or add its damage; returns their number."""
    where = f"offsets {batch.base_offset} to {batch.last_offset}"
    if not batch.is_valid():
        damage.append(f"{where}: the checksum is wrong")
        return 0
    last = batch.last_offset + 1 if end is None else end
    try:
        return batch.set_rows(rows, start, last, timestamps=timestamps, max_payload_bytes=PAYLOAD_BYTES_MAX)
    except (WireError, CorruptPayload, PayloadTooLarge) as error:
        damage.append(f"{where}: {error}")
        return 0


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
