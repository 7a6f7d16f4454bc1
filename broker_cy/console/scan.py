"""Reading records for people: a scan that can be stopped and resumed, and a live tail with bounded memory.

Consoles read the numbers of both at their own pace.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import Enum

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Span
from broker_cy.client.errors import ClientError
from broker_cy.console.record_filter import RecordFilter
from broker_cy.core.classes import NamedTuple
from broker_cy.wire.records import Record

# Records of a page, and their total size; a scan that reaches either pauses until it is resumed.
PAGE_RECORDS_MAX = 1_000
KEPT_BYTES_MAX = 64 << 20
# Records that a live tail keeps; older ones are dropped and counted.
RING_RECORDS_MAX = 5_000
# Records that are filtered before other tasks have a turn: about 3 ms.
RECORDS_A_TURN = 4_000
_RECORD_OVERHEAD_BYTES = 200

# Returns the matching records of a list. Raises ClientError, which ends the reading.
Match = Callable[[list[Record]], Awaitable[list[Record]]]


class Row(NamedTuple):
    """A record and its partition."""

    partition: int
    record: Record

    @property
    def order(self) -> tuple[int, int, int]:
        """Return the sort key: by time over all partitions; records of one partition with the same time keep their
        order.
        """
        return (self.record.timestamp, self.partition, self.record.offset)


def weight(record: Record) -> int:
    """Return the approximate size of a record in memory, in bytes."""
    size = _RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
    return size


class State(Enum):
    """The state of a scan, as shown to users."""

    READY = "ready"
    RUNNING = "reading"
    PAUSED = "a page is full"
    STOPPED = "stopped"
    DONE = "at the end"
    FAILED = "failed"


class Scan:
    """Reads `spans` and keeps the records that match `wanted` in `rows`.

    With `newest`, it reads all records and keeps only this number of newest ones; without it, the scan pauses when a
    page is full. `run` resumes at the same place. `match` is an equivalent filter instead of `wanted.compile()`: a
    program with many users must not run their regular expressions in its event loop. With `is_decoded`, it looks at
    decoded keys and values (broker_cy/console/decoding.py).
    """

    def __init__(
        self,
        client: AdminClient,
        spans: Mapping[TopicPartition, Span],
        wanted: RecordFilter | None = None,
        *,
        newest: int | None = None,
        page_max: int = PAGE_RECORDS_MAX,
        bytes_max: int = KEPT_BYTES_MAX,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        take: Callable[[TopicPartition, list[Record]], None] | None = None,
        match: Match | None = None,
        is_decoded: bool = False,
    ) -> None:
        self._client = client
        self._keep = (wanted or RecordFilter()).compile()
        self._containing = (wanted or RecordFilter()).needle(is_decoded=is_decoded)
        self._newest = newest
        self._page_max = page_max
        self._bytes_max = bytes_max
        self._match = match
        self._isolation = isolation
        self._take_all = take
        self.positions = {key: span.start for key, span in spans.items()}
        self._starts = dict(self.positions)
        self._ends = {key: span.end for key, span in spans.items()}
        self.rows: list[Row] = []
        self.kept_bytes = 0
        self.state = State.READY
        self.error = ""
        self.records = 0
        self.matches = 0
        self.bytes = 0
        self.lost = 0
        self.damage: list[str] = []
        self.seconds = 0.0
        self._running_since_s: float | None = None

    @property
    def offsets_total(self) -> int:
        return sum(end - self._starts[key] for key, end in self._ends.items())

    @property
    def offsets_done(self) -> int:
        return sum(min(at, self._ends[key]) - self._starts[key] for key, at in self.positions.items())

    @property
    def found(self) -> int:
        """Return the number of records that matched; with `newest`, at most that number."""
        return self.matches if self._newest is None else min(self.matches, self._newest)

    @property
    def elapsed_s(self) -> float:
        """Time spent reading, in seconds."""
        now = 0.0 if self._running_since_s is None else time.monotonic() - self._running_since_s
        return self.seconds + now

    async def run(self) -> None:
        """Read until the page is full, the end is reached, it fails, or it is cancelled (then it is STOPPED)."""
        self.state, self.error = State.RUNNING, ""
        self._running_since_s = time.monotonic()
        begun = len(self.rows)
        self._page_bytes = 0
        ends = {key: end for key, end in self._ends.items() if self.positions[key] < end}
        starts = {key: self.positions[key] for key in ends}
        try:
            async with self._client.records.reader(
                starts, ends=ends, isolation=self._isolation, containing=self._containing
            ) as reader:
                async for chunk in reader:
                    if not await self._take(chunk, begun):
                        self.state = State.PAUSED
                        return
            self.state = State.DONE
        except ClientError as error:
            self.state, self.error = State.FAILED, str(error)
        except asyncio.CancelledError:
            self.state = State.STOPPED
            raise
        finally:
            self.seconds, self._running_since_s = self.elapsed_s, None

    async def _take(self, chunk: Chunk, begun: int) -> bool:
        """Keep the matching records of a chunk; False if the page is full. The position is then after the last one."""
        key = chunk.partition
        self.bytes += chunk.size_bytes
        self.damage += chunk.damage[: 100 - len(self.damage)]
        if chunk.lost_from is not None:
            self.lost += max(0, chunk.log_start_offset - chunk.lost_from)
        for at in range(0, len(chunk.records), RECORDS_A_TURN):
            part = chunk.records[at : at + RECORDS_A_TURN]
            found = self._keep(part) if self._match is None else await self._match(part)
            if self._take_all is not None:
                self._take_all(key, found)
            elif found:
                taken = self._add(key.partition, found, begun)
                if taken < len(found):
                    stop = found[taken].offset
                    self.matches += taken
                    self.records += sum(record.offset < stop for record in part)
                    self.positions[key] = stop
                    return False
            self.matches += len(found)
            self.records += len(part)
            self.positions[key] = part[-1].offset + 1
            await asyncio.sleep(0)
        self.records += chunk.passed
        self.positions[key] = chunk.next_offset
        return True

    def _add(self, partition: int, found: Iterable[Record], begun: int) -> int:
        """Add records and return how many of them fit."""
        taken = 0
        for record in found:
            if self._newest is None:
                # One record of any size always fits.
                full = len(self.rows) - begun >= self._page_max or self._page_bytes >= self._bytes_max
                if full:
                    return taken
            size = weight(record)
            self._page_bytes += size
            self.kept_bytes += size
            self.rows.append(Row(partition, record))
            taken += 1
        if self._newest is not None and (len(self.rows) > 4 * self._newest + 1000 or self.kept_bytes > self._bytes_max):
            self._trim()
        return taken

    def _trim(self) -> None:
        self.rows.sort(key=lambda row: row.order)
        del self.rows[: -self._newest if self._newest else None]
        self.kept_bytes = sum(weight(row.record) for row in self.rows)
        while self.kept_bytes > self._bytes_max and len(self.rows) > 1:
            self.kept_bytes -= weight(self.rows.pop(0).record)

    def forget_rows(self) -> None:
        """Discard the page, to make room for the next one."""
        self.rows = []
        self.kept_bytes = 0

    def shown(self) -> list[Row]:
        """Return the rows by time, ascending; with `newest`, descending."""
        rows = sorted(self.rows, key=lambda row: row.order, reverse=self._newest is not None)
        return rows if self._newest is None else rows[: self._newest]


class Tail:
    """Follows partitions from `starts` on; keeps the newest records and counts the dropped ones. `match` and
    `is_decoded`: see Scan.
    """

    def __init__(
        self,
        client: AdminClient,
        starts: Mapping[TopicPartition, int],
        wanted: RecordFilter | None = None,
        *,
        records_max: int = RING_RECORDS_MAX,
        bytes_max: int = KEPT_BYTES_MAX,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        match: Match | None = None,
        is_decoded: bool = False,
    ) -> None:
        self._client = client
        self._keep = (wanted or RecordFilter()).compile()
        self._containing = (wanted or RecordFilter()).needle(is_decoded=is_decoded)
        self._records_max = records_max
        self._bytes_max = bytes_max
        self._isolation = isolation
        self._match = match
        self.positions = dict(starts)
        self.ring: deque[Row] = deque()
        self.kept_bytes = 0
        self.seen = 0
        self.matches = 0
        self.dropped = 0
        self.lost = 0
        self.error = ""
        self.is_running = False

    async def run(self) -> None:
        """Run until it is cancelled or fails; `error` reports the failure, and another `run` resumes from there."""
        self.is_running, self.error = True, ""
        try:
            async with self._client.records.reader(
                self.positions, isolation=self._isolation, containing=self._containing
            ) as reader:
                async for chunk in reader:
                    for at in range(0, len(chunk.records), RECORDS_A_TURN):
                        part = chunk.records[at : at + RECORDS_A_TURN]
                        found = self._keep(part) if self._match is None else await self._match(part)
                        self._take(chunk.partition.partition, part, found)
                        # Stopped here, it resumes without repeating records.
                        self.positions[chunk.partition] = part[-1].offset + 1
                        await asyncio.sleep(0)
                    self.seen += chunk.passed
                    if chunk.lost_from is not None:
                        self.lost += max(0, chunk.log_start_offset - chunk.lost_from)
                    self.positions[chunk.partition] = chunk.next_offset
        except ClientError as error:
            self.error = str(error)
        finally:
            self.is_running = False

    def _take(self, partition: int, records: list[Record], found: list[Record]) -> None:
        self.seen += len(records)
        self.matches += len(found)
        # Records that later ones of the same chunk would push out are not added.
        if len(found) > self._records_max:
            self.dropped += len(found) - self._records_max
            found = found[-self._records_max :]
        for record in found:
            self.ring.append(Row(partition, record))
            self.kept_bytes += weight(record)
        while len(self.ring) > self._records_max or (self.kept_bytes > self._bytes_max and len(self.ring) > 1):
            self.kept_bytes -= weight(self.ring.popleft().record)
            self.dropped += 1
