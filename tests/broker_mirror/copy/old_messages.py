"""Bytes of message sets of magic 0 and 1, as producers and brokers before Kafka 0.11 wrote them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from broker_cy.wire.compression import Codec, compress

LOG_APPEND_TIME = 0x08


class Old(NamedTuple):
    """A message; its timestamp exists in magic 1 only."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int = -1


def _field(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(each: Old, magic: int, attributes: int = 0) -> bytes:
    """One message of a log or an answer."""
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", each.timestamp)
    body += _field(each.key) + _field(each.value)
    return struct.pack(">qiI", each.offset, len(body) + 4, zlib.crc32(body)) + body


def plain(messages: Sequence[Old], magic: int) -> bytes:
    return b"".join(message(each, magic) for each in messages)


def compressed(messages: Sequence[Old], magic: int, codec: Codec, arrived_ms: int | None = None) -> bytes:
    """A message with a codec; with `arrived_ms` it has the time of its arrival."""
    base = messages[0].offset if magic else 0
    inside = compress(codec, plain([each._replace(offset=each.offset - base) for each in messages], magic))
    if magic == 0 and codec is Codec.LZ4:
        # The checksum of the frame's descriptor was wrong in magic 0 (KAFKA-3160).
        inside = inside[:6] + bytes([inside[6] ^ 0x55]) + inside[7:]
    attributes = int(codec) | (0 if arrived_ms is None else LOG_APPEND_TIME)
    stamp = max(each.timestamp for each in messages) if arrived_ms is None else arrived_ms
    return message(Old(messages[-1].offset, None, inside, stamp), magic, attributes)
