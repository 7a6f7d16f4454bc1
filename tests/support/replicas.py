"""The contents of each replica of a partition, byte for byte, read from its broker.

A consumer may fetch from any replica that is in sync (KIP-392), up to the high watermark that this replica knows.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from broker_cy.core.errors import ErrorCode
from tests.support.acked import Address, fetch
from tests.support.raw_wire import Connection
from tests.support.wait import until

WAIT_S = 60.0
# The offset of a batch's first record, and the length of the rest of the batch.
_PREFIX = struct.Struct(">qi")
# The position of the last record's offset, which is relative to the first one's.
_LAST_DELTA_AT = 23


def batches(address: Address, topic: str, partition: int) -> tuple[int, bytes]:
    """The high watermark that a replica knows, and all its batches before that. AssertionError for any error."""
    found, offset = bytearray(), 0
    with Connection(address) as connection:
        while True:
            error, high_watermark, data = fetch(connection, topic, partition, offset)
            assert error == ErrorCode.NONE, f"{address}: {topic}-{partition} at {offset}: {ErrorCode(error).name}"
            if offset >= high_watermark:
                return high_watermark, bytes(found)
            at, before = 0, offset
            while at + _PREFIX.size <= len(data):
                first, length = _PREFIX.unpack_from(data, at)
                end = at + _PREFIX.size + length
                if end > len(data):
                    break
                assert first == offset, f"{address}: {topic}-{partition} has {first} after {offset}"
                offset = first + int(struct.unpack_from(">i", data, at + _LAST_DELTA_AT)[0]) + 1
                found += data[at:end]
                at = end
            assert offset > before, f"{address}: {topic}-{partition} has nothing at {offset} of {high_watermark}"


def equal_replicas(addresses: Mapping[int, Address], topic: str, partition: int) -> bytes:
    """Wait until all replicas of a partition without writers know the same high watermark; returns the batches, which
    must be the same in all of them.
    """

    def read() -> dict[int, tuple[int, bytes]] | None:
        found = {number: batches(address, topic, partition) for number, address in addresses.items()}
        return found if len({high for high, _ in found.values()}) == 1 else None

    found = until(read, f"one high watermark of {topic}-{partition} at all replicas", WAIT_S, 0.1)
    contents = {number: content for number, (_, content) in found.items()}
    sizes = {number: len(content) for number, content in contents.items()}
    assert len(set(contents.values())) == 1, f"the replicas of {topic}-{partition} differ; their bytes: {sizes}"
    return next(iter(contents.values()))
