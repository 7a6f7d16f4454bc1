"""Log directories that tests write, with the indexes that a broker would write, and reads of them with the source."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from broker_cy.storage.checkpoints import HIGH_WATERMARKS, write_offsets
from broker_cy.wire.control import EndTxnMarker, encode_control
from broker_cy.wire.records import Record, encode_batch
from spark_analytics.segments import options, plan
from spark_analytics.segments.plan import Range, Wanted
from spark_analytics.segments.read import read
from spark_analytics.segments.report import Counters
from spark_analytics.segments.source import arrow_schema, schema_of
from spark_analytics.segments.walk import Damage

TIME_MS = 1_700_000_000_000


class Log:
    """A partition's log that grows batch by batch; each batch is in the indexes, except the first of a segment."""

    def __init__(self, root: Path, topic: str = "t", partition: int = 0) -> None:
        self.root = root
        self.topic = topic
        self.partition = partition
        self.directory = root / f"{topic}-{partition}"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.next_offset = 0
        self.base_offset = 0
        # Position of each batch, by base offset, in its segment.
        self.positions: dict[int, int] = {}
        self._largest_ms = -1
        self.path("log").touch()

    def path(self, suffix: str, base_offset: int | None = None) -> Path:
        """Return the path of a file of a segment, by default of the last one."""
        base = self.base_offset if base_offset is None else base_offset
        return self.directory / f"{base:020d}.{suffix}"

    def roll(self) -> None:
        """Begin a new segment."""
        self.base_offset = self.next_offset
        self._largest_ms = -1
        self.path("log").touch()

    def append(self, records: Iterable[Record], **settings: Any) -> int:
        """Append a batch; return its base offset."""
        listed = list(records)
        base = self.next_offset
        data = encode_batch(listed, base_offset=base, **settings)
        largest_ms = settings.get("log_append_time_ms") or max(each.timestamp for each in listed)
        self.append_bytes(data, base, base + len(listed) - 1, largest_ms)
        return base

    def append_bytes(self, data: bytes, base: int, last: int, largest_ms: int) -> None:
        """Append an encoded batch."""
        position = self.path("log").stat().st_size
        self.positions[base] = position
        with self.path("log").open("ab") as file:
            file.write(data)
        if position > 0:
            with self.path("index").open("ab") as file:
                file.write(struct.pack(">ii", last - self.base_offset, position))
        if largest_ms > self._largest_ms:
            self._largest_ms = largest_ms
            with self.path("timeindex").open("ab") as file:
                file.write(struct.pack(">qi", largest_ms, last - self.base_offset))
        self.next_offset = last + 1

    def end_transaction(self, producer_id: int, commit: bool) -> int:
        """Append a marker; return its offset."""
        marker = encode_control(EndTxnMarker(commit, 0), TIME_MS)
        return self.append([marker], control=True, transactional=True, producer_id=producer_id, producer_epoch=0)

    def mark(self, high_watermark: int) -> None:
        """Write the high watermark of only this partition."""
        write_offsets(f"{self.root}/{HIGH_WATERMARKS}", {(self.topic, self.partition): high_watermark})

    def flip(self, base: int, at: int, segment: int | None = None) -> None:
        """Invert a byte of the batch at offset `base`."""
        path = self.path("log", segment)
        data = bytearray(path.read_bytes())
        data[self.positions[base] + at] ^= 0xFF
        path.write_bytes(data)


def records(count: int, first: int = 0, value_bytes: int = 10, step_ms: int = 1000) -> list[Record]:
    """Return records whose key and time contain their number."""
    value = b"v" * value_bytes
    return [Record(0, TIME_MS + (first + n) * step_ms, b"%d" % (first + n), value) for n in range(count)]


def ranges(path: Path, topic: str = "t", wanted: Wanted | None = None, **given: Any) -> tuple[list[Range], Counters]:
    """Return the plan of a read, and its figures."""
    chosen = options.parse(options.as_text([path], [topic], **given))
    counters = Counters()
    return plan.batch_ranges(chosen, wanted or Wanted(), Damage(chosen.skips, counters)), counters


def rows(
    path: Path, topic: str = "t", wanted: Wanted | None = None, **given: Any
) -> tuple[list[dict[str, Any]], Counters]:
    """Return the rows that the source reads without Spark, and the figures of plan and tasks."""
    chosen = options.parse(options.as_text([path], [topic], **given))
    found, counters = ranges(path, topic, wanted, **given)
    schema = arrow_schema(schema_of(chosen))
    listed: list[dict[str, Any]] = []
    for each in found:
        for batch in read(each, chosen, schema, counters):
            batch.validate(full=True)
            listed += batch.to_pylist()
    return listed, counters


def offsets(path: Path, **given: Any) -> list[int]:
    """Return the offsets of the rows that the source reads."""
    return [row["offset"] for row in rows(path, **given)[0]]
