"""The text beside a committed offset, in Kafka's format: the times that a task goes on from after a restart.

base64 of   2 (int8), partition time (int64)
            and if stores emitted closed windows: their number (int32), then for each
            length (int32) and UTF-8 of its name, the time up to which it did (int64)
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from broker_streams.plan.java_order import in_hash_order

_VERSION: Final = 2
_HEAD: Final = struct.Struct(">bq")
_COUNT: Final = struct.Struct(">i")
_TIME: Final = struct.Struct(">q")


class CommitMetadata(NamedTuple):
    """`partition_time_ms` is the largest timestamp of the partition, or -1. `emitted_ms` is that of TaskState."""

    partition_time_ms: int
    emitted_ms: Mapping[str, int]

    def text(self) -> str:
        parts = [_HEAD.pack(_VERSION, self.partition_time_ms)]
        if self.emitted_ms:
            parts.append(_COUNT.pack(len(self.emitted_ms)))
        for name in in_hash_order(self.emitted_ms):
            data = name.encode()
            parts += (_COUNT.pack(len(data)), data, _TIME.pack(self.emitted_ms[name]))
        return base64.b64encode(b"".join(parts)).decode()


_UNKNOWN: Final = CommitMetadata(-1, {})


def of_text(text: str | None) -> CommitMetadata:
    """Read the text of a commit. As in Kafka, a text in another format tells nothing."""
    try:
        data = base64.b64decode(text or "", validate=True)
        version, partition_time_ms = _HEAD.unpack_from(data)
        if version not in (1, _VERSION):
            return _UNKNOWN
        emitted_ms: dict[str, int] = {}
        at = _HEAD.size
        if version == _VERSION and at < len(data):
            (count,) = _COUNT.unpack_from(data, at)
            at += _COUNT.size
            for _ in range(count):
                (size_bytes,) = _COUNT.unpack_from(data, at)
                end = at + _COUNT.size + size_bytes
                name = data[at + _COUNT.size : end].decode()
                (emitted_ms[name],) = _TIME.unpack_from(data, end)
                at = end + _TIME.size
    except (ValueError, struct.error):
        return _UNKNOWN
    return CommitMetadata(partition_time_ms, emitted_ms)
