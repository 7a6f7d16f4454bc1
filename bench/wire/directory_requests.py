"""Requests for the data directories of a broker, on a bench.wire.protocol.Client and encoded by hand as there.

Versions: AlterReplicaLogDirs 1 (KIP-113) and DescribeLogDirs 1.
"""

import struct
from collections.abc import Collection
from typing import NamedTuple

from bench.wire.protocol import Client, check

ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS = 34, 35
ALTER_REPLICA_LOG_DIRS_VERSION = DESCRIBE_LOG_DIRS_VERSION = 1


class Replica(NamedTuple):
    """A replica of a broker; a copy is one that moves to `directory` and is not in use yet."""

    directory: str
    topic: str
    partition: int
    size_bytes: int
    is_copy: bool


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def move_replicas(client: Client, directory: str, topic: str, partitions: Collection[int]) -> None:
    """Let the broker move its replicas to a directory. Raises OSError, ProtocolError."""
    body = struct.pack(">i", 1) + _text(directory) + struct.pack(">i", 1) + _text(topic)
    body += struct.pack(">i", len(partitions)) + b"".join(struct.pack(">i", each) for each in partitions)
    reader = client.call(ALTER_REPLICA_LOG_DIRS, ALTER_REPLICA_LOG_DIRS_VERSION, body, flexible=False)
    reader.take(4)
    for _ in range(reader.number(4)):
        reader.take(reader.number(2))
        for _ in range(reader.number(4)):
            partition = reader.number(4)
            check(reader.number(2), f"AlterReplicaLogDirs of partition {partition}")


def replicas(client: Client) -> list[Replica]:
    """Return all replicas of the broker. Raises OSError, ProtocolError."""
    body = struct.pack(">i", -1)
    reader = client.call(DESCRIBE_LOG_DIRS, DESCRIBE_LOG_DIRS_VERSION, body, flexible=False)
    reader.take(4)
    found = []
    for _ in range(reader.number(4)):
        reader.take(2)  # the error of a directory, which then has no topics
        directory = reader.take(reader.number(2)).decode()
        for _ in range(reader.number(4)):
            topic = reader.take(reader.number(2)).decode()
            for _ in range(reader.number(4)):
                partition, size_bytes = reader.number(4), reader.number(8)
                reader.take(8)
                found.append(Replica(directory, topic, partition, size_bytes, bool(reader.number(1))))
    return found
