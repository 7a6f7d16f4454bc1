"""The newest records of topics from the log directories of a broker on this machine: segments in Kafka's format.

A broker may write them meanwhile: what is not whole at the end is left out. Offsets are those of the files, which may
be behind the high watermark, and before the log start offset.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span
from broker_cy.core.errors import WireError
from broker_cy.wire.compression import CorruptPayload, PayloadTooLarge
from broker_cy.wire.records import Batch, Record, decode_batches
from broker_registry.impact.groups import Range
from broker_registry.impact.sample import RECORDS_MAX, Limits, Sample, newest
from broker_registry.impact.trial import Row

_DIRECTORY: Final = re.compile(r"(.+)-(\d+)")
_ENTRY: Final = struct.Struct(">ii")
"""An entry of an index: offset less that of the segment, and position in the segment."""
_CHUNK_BYTES: Final = 8 << 20
_BATCH_BYTES_MAX: Final = 256 << 20
_PAYLOAD_BYTES_MAX: Final = 256 << 20
_HEADER_BYTES: Final = 12
_LENGTH: Final = struct.Struct(">qi")


def topics_in(directories: Iterable[Path]) -> set[str]:
    """Return the topics that have partitions in log directories. Raises OSError."""
    return {key.topic for key, _ in _partitions(directories)}


def _partitions(directories: Iterable[Path]) -> Iterator[tuple[TopicPartition, Path]]:
    for directory in directories:
        for path in sorted(directory.iterdir()):
            found = _DIRECTORY.fullmatch(path.name)
            if found is not None and path.is_dir():
                yield TopicPartition(found[1], int(found[2])), path


def read_files(directories: Sequence[Path], topics: Iterable[str], limits: Limits) -> Sample:
    """Read the newest records, at most as many as the limits allow. Raises OSError."""
    until_s = time.monotonic() + limits.seconds
    wanted = frozenset(topics)
    logs = {key: _Log(path) for key, path in _partitions(directories) if key.topic in wanted}
    spans = {key: Span(log.start, log.end(), log.start) for key, log in logs.items()}
    starts = newest(spans, min(limits.records, RECORDS_MAX))
    sample = Sample()
    kept_bytes = 0
    reached = dict(starts)
    for key, log in sorted(logs.items()):
        for batch in log.batches(starts[key]):
            records = [each for each in _records(batch) if each.offset >= starts[key]]
            sample.rows += [Row(key, each) for each in records]
            reached[key] = max(reached[key], batch.last_offset + 1)
            kept_bytes += sum(len(each.key or b"") + len(each.value or b"") for each in records)
            if kept_bytes > limits.bytes:
                sample.stopped = f"stopped after {kept_bytes:,} bytes"
            elif time.monotonic() > until_s:
                sample.stopped = f"stopped reading after {limits.seconds:g} s"
            if sample.stopped:
                break
        if sample.stopped:
            break
    sample.ranges = {
        key: Range(starts[key], min(reached[key], span.end), span.earliest, span.end) for key, span in spans.items()
    }
    return sample


def _records(batch: Batch) -> list[Record]:
    """Return the records of a batch; none if it has markers or is damaged."""
    if batch.is_control or not batch.is_valid():
        return []
    try:
        return batch.records(_PAYLOAD_BYTES_MAX) or []
    except (WireError, CorruptPayload, PayloadTooLarge):
        return []


class _Log:
    """The segments of a partition."""

    def __init__(self, directory: Path) -> None:
        self._segments = sorted(path for path in directory.glob("*.log") if path.stem.isdecimal())

    @property
    def start(self) -> int:
        return int(self._segments[0].stem) if self._segments else 0

    def end(self) -> int:
        """Return the offset behind the last batch."""
        end = self.start
        for path in self._segments[-1:]:
            end = int(path.stem)
            for batch in _batches(path, _position(path, None)):
                end = batch.last_offset + 1
        return end

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield the batches from the one that has an offset on."""
        bases = [int(path.stem) for path in self._segments]
        first = max((index for index, base in enumerate(bases) if base <= start), default=0)
        for path in self._segments[first:]:
            for batch in _batches(path, _position(path, start)):
                if batch.last_offset >= start:
                    yield batch


def _position(segment: Path, offset: int | None) -> int:
    """Return where to read for an offset, or for the end of a segment: by its index, 0 without one."""
    try:
        data = segment.with_suffix(".index").read_bytes()
    except OSError:
        return 0
    base, found, last = int(segment.stem), 0, -1
    for relative, position in _ENTRY.iter_unpack(data[: len(data) // _ENTRY.size * _ENTRY.size]):
        # An index that is written is longer than its entries: zeros follow.
        if relative <= last or (offset is not None and base + relative > offset):
            break
        last, found = relative, position
    return found


def _batches(segment: Path, position: int) -> Iterator[Batch]:
    """Yield the whole batches of a file from a position on."""
    with segment.open("rb") as file:
        file.seek(position)
        data = b""
        while chunk := file.read(_CHUNK_BYTES):
            data += chunk
            size = _whole(data)
            if size > 0:
                try:
                    yield from decode_batches(data[:size])
                except WireError:
                    return
                data = data[size:]
            elif size < 0:
                return


def _whole(data: bytes) -> int:
    """Return the bytes of the whole batches at the begin of `data`; -1 if no batch follows."""
    at = 0
    while len(data) - at >= _HEADER_BYTES:
        _, length = _LENGTH.unpack_from(data, at)
        if not 0 < length <= _BATCH_BYTES_MAX:
            # Space that is allocated, and not written.
            return at or -1
        if len(data) - at < _HEADER_BYTES + length:
            break
        at += _HEADER_BYTES + length
    return at
