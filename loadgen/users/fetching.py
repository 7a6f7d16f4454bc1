"""Reads the partitions that a user is responsible for, and measures Fetch and EndToEnd.

One Fetch request is in flight to each leader, as with Kafka's own client. Its records count only if the partition is
still at the requested offset, so that an answer that arrives after a rebalance changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

import gevent
from gevent.queue import Queue

from broker_cy.client.aborted import AbortedTransactions
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from broker_cy.wire.records import Batch, decode_batches
from loadgen.engines.base import Work
from loadgen.net.cluster import EARLIEST, FETCH_BY_NAME, LATEST, RETRY_S, Cluster, Refused, error_name
from loadgen.net.connection import NetError
from loadgen.users.settings import Fetching
from loadgen.verify.prefix import stamp_of

# Records of one answer whose stamps are examined without yielding: enough for percentiles, in less than a millisecond.
# With 1,000, an answer of 4 MiB blocked the event loop for 4 ms.
STAMPS_MAX = 250
# The decompressed size of one batch; a batch that claims more is damaged.
PAYLOAD_BYTES_MAX = 256 << 20
EMPTY = "empty fetches"
# The answer was right; only the position was wrong.
_MOVED = ErrorCode.OFFSET_OUT_OF_RANGE


class Span(NamedTuple):
    """The records of one batch from offset `first` on. `next` is the next offset after it."""

    partition: int
    first: int
    next: int
    records: int
    size_bytes: int
    batch: Batch


class Fetcher:
    """The reading half of a consumer. `positions`: the next offset of each of its partitions."""

    def __init__(self, work: Work, cluster: Cluster, settings: Fetching) -> None:
        self._work, self._cluster, self._settings = work, cluster, settings
        self.topic = work.scenario.topic.name
        self._meter, self._end_to_end = work.book.meter("Fetch"), work.book.meter("EndToEnd")
        self.positions: dict[int, int] = {}
        # The end of the readable records of each partition, if known.
        self.ends: dict[int, int] = {}
        self._flying: dict[int, gevent.Greenlet[..., None]] = {}
        self._landed: Queue[list[Span]] = Queue()

    def assign(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets. Answers to earlier requests are ignored."""
        self.positions = dict(positions)
        self.ends = {}
        self._flying, self._landed = {}, Queue()

    def begin(self, partitions: list[int], from_: str) -> dict[int, int]:
        """Return the first or the next offset of partitions. Raises NetError and Refused."""
        at = EARLIEST if from_ == "earliest" else LATEST
        committed = self._settings.read_committed
        return self._cluster.offsets(self.topic, partitions, at, read_committed=committed)

    def forget(self) -> None:
        """Request the leaders again."""
        self._cluster.forget(self.topic)

    def poll(self, wait_ms: int) -> list[Span]:
        """Return the records of one Fetch request; none after `wait_ms`, or after a failure, which is counted."""
        if not self.positions:
            gevent.sleep(max(wait_ms / 1000, RETRY_S))
            return []
        try:
            leaders = self._by_leader()
        except (NetError, Refused) as error:
            self._failed(error.name, time.monotonic_ns())
            return []
        if len(leaders) == 1 and not self._flying:
            ((leader, asked),) = leaders.items()
            return self._fetch(leader, asked, wait_ms)
        for leader, asked in leaders.items():
            if leader not in self._flying:
                flight = gevent.spawn(self._fly, leader, asked, wait_ms, self._flying, self._landed)
                self._flying[leader] = flight
        return self._landed.get()

    def _by_leader(self) -> dict[int, dict[int, int]]:
        found: dict[int, dict[int, int]] = {}
        for partition, offset in self.positions.items():
            found.setdefault(self._cluster.leader_id(self.topic, partition), {})[partition] = offset
        return found

    def _fly(
        self,
        leader: int,
        asked: dict[int, int],
        wait_ms: int,
        flying: dict[int, gevent.Greenlet[..., None]],
        landed: Queue[list[Span]],
    ) -> None:
        spans: list[Span] = []
        try:
            spans = self._fetch(leader, asked, wait_ms)
        finally:
            del flying[leader]
            landed.put(spans)

    def _failed(self, name: str, sent_ns: int) -> None:
        """Count a failure, and wait, so that leaders are requested again, but not in a tight loop."""
        self._meter.failed(name, sent_ns, sent_ns, time.monotonic_ns())
        self._cluster.forget(self.topic)
        gevent.sleep(RETRY_S)

    def _fetch(self, leader: int, asked: dict[int, int], wait_ms: int) -> list[Span]:
        sent_ns = time.monotonic_ns()
        request = fetch_request(self.topic, asked, self._settings, wait_ms)
        try:
            connection = self._cluster.node(leader)
            timeout_s = self._cluster.timeout_s + wait_ms / 1000
            answer = connection.call(request, messages.FetchResponse, at_most=FETCH_BY_NAME, timeout_s=timeout_s)
        except NetError as error:
            if self._is_current(asked):
                self._failed(error.name, sent_ns)
            return []
        now_ns = time.monotonic_ns()
        if answer.error_code:
            self._failed(error_name(answer.error_code), sent_ns)
            return []
        spans: list[Span] = []
        errors: dict[int, None] = {}
        for topic in answer.responses:
            for part in topic.partitions:
                if self.positions.get(part.partition_index, -1) != asked.get(part.partition_index):
                    continue
                if part.error_code:
                    errors[part.error_code] = None
                    self._refused(part)
                elif not self._take(part, spans):
                    errors[ErrorCode.CORRUPT_MESSAGE] = None
        self._count(spans, sent_ns, now_ns)
        if errors:
            for code in errors:
                self._meter.failed(error_name(code), sent_ns, sent_ns, now_ns)
            self._cluster.forget(self.topic)
            gevent.sleep(RETRY_S)
        elif not spans:
            self._work.book.count(EMPTY)
        return spans

    def _is_current(self, asked: dict[int, int]) -> bool:
        return any(self.positions.get(partition) == offset for partition, offset in asked.items())

    def _refused(self, part: messages.FetchResponse.PartitionData) -> None:
        """Find a new position if retention or a new leader has removed the current one."""
        if part.error_code != _MOVED:
            return
        try:
            self.positions.update(self.begin([part.partition_index], self._settings.from_))
        except (NetError, Refused):
            self._work.book.count("no position")

    def _take(self, part: messages.FetchResponse.PartitionData, spans: list[Span]) -> bool:
        """Add the readable batches of a partition, and move its position; returns whether they are undamaged."""
        number = part.partition_index
        committed = self._settings.read_committed
        aborted = AbortedTransactions(part.aborted_transactions or ()) if committed else None
        at = self.positions[number]
        try:
            for batch in decode_batches(part.records or b""):
                following = batch.last_offset + 1
                if following <= at:
                    continue
                hidden = aborted is not None and aborted.hides(batch)
                if not hidden and not batch.is_control and batch.count:
                    first = max(at, batch.base_offset)
                    spans.append(
                        Span(number, first, following, min(batch.count, following - first), batch.size_bytes, batch)
                    )
                at = following
        except WireError:
            return False
        finally:
            self.positions[number] = at
            self.ends[number] = part.last_stable_offset if committed else part.high_watermark
        return True

    def _count(self, spans: list[Span], sent_ns: int, now_ns: int) -> None:
        if not spans:
            return
        records = sum(each.records for each in spans)
        self._meter.done(sent_ns, sent_ns, now_ns, records, sum(each.size_bytes for each in spans))
        if self._work.ledger is None:
            return  # no stamps
        left = STAMPS_MAX
        for span in spans:
            if left <= 0:
                return
            left -= span.records
            self._end_to_ends(span, now_ns)

    def _end_to_ends(self, span: Span, now_ns: int) -> None:
        """Count the time since each record was due, of those that this process produced: clocks of hosts differ."""
        work = self._work
        try:
            records = span.batch.records(PAYLOAD_BYTES_MAX)
        except WireError:
            self._work.book.count("damaged batches")
            return
        for record in records:
            if record.offset < span.first:
                continue
            stamp = stamp_of(record.value, record.headers)
            if stamp is not None and stamp.run == work.run and stamp.producer >> 40 == work.worker:
                self._end_to_end.done(stamp.due_ns, stamp.due_ns, now_ns, 1, len(record.value or b""))

    def close(self) -> None:
        """End the requests in flight."""
        gevent.killall(list(self._flying.values()))


def fetch_request(topic: str, positions: Mapping[int, int], settings: Fetching, wait_ms: int) -> messages.FetchRequest:
    """Return a Fetch request for partitions of one leader, without a fetch session."""
    part = messages.FetchRequest.FetchPartition
    wanted = messages.FetchRequest.FetchTopic(
        topic=topic,
        partitions=[
            part(partition=number, fetch_offset=offset, partition_max_bytes=settings.max_bytes)
            for number, offset in positions.items()
        ],
    )
    return messages.FetchRequest(
        replica_id=-1,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=settings.max_bytes,
        isolation_level=int(settings.read_committed),
        session_epoch=-1,
        topics=[wanted],
    )
