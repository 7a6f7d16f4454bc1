"""Requests for clusters, on a bench.wire.protocol.Client and encoded by hand as there.

Versions: Metadata 1, DescribeQuorum 0 (KIP-595), ElectLeaders 2 (KIP-460), AlterPartitionReassignments 0 and
ListPartitionReassignments 0 (KIP-455). Brokers pass the last four on to the active controller.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.wire.protocol import TIMEOUT_MS, Client, check, compact, uvarint

METADATA, ELECT_LEADERS, ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, DESCRIBE_QUORUM = 3, 43, 45, 46, 55
METADATA_VERSION, ELECT_LEADERS_VERSION, REASSIGNMENTS_VERSION, DESCRIBE_QUORUM_VERSION = 1, 2, 0, 0
PREFERRED = 0
ELECTION_NOT_NEEDED = 84
QUORUM_TOPIC = b"__cluster_metadata"


class Partition(NamedTuple):
    """A partition as Metadata shows it: node ids, -1 for a leader that does not exist."""

    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Metadata(NamedTuple):
    """One node's view of its cluster and of one topic; no partitions if it does not know the topic."""

    brokers: dict[int, tuple[str, int]]
    controller: int  # a node to which requests for the controller may be sent
    partitions: dict[int, Partition]


def metadata(client: Client, topic: str) -> Metadata:
    """Return the node's view of its cluster and of `topic`."""
    body = struct.pack(">ih", 1, len(topic)) + topic.encode() if topic else struct.pack(">i", 0)
    reader = client.call(METADATA, METADATA_VERSION, body, flexible=False)
    brokers = {}
    for _ in range(reader.number(4)):
        node, host, port = reader.number(4), reader.take(reader.number(2)).decode(), reader.number(4)
        reader.take(max(0, reader.number(2)))  # the rack
        brokers[node] = host, port
    controller = reader.number(4)
    partitions = {}
    for _ in range(reader.number(4)):
        reader.take(2)
        reader.take(reader.number(2))
        reader.take(1)
        for _ in range(reader.number(4)):
            reader.take(2)
            number, leader = reader.number(4), reader.number(4)
            replicas, in_sync = (tuple(reader.number(4) for _ in range(reader.number(4))) for _ in range(2))
            partitions[number] = Partition(leader, replicas, in_sync)
    return Metadata(brokers, controller, partitions)


def active_controller(client: Client) -> int:
    """Return the node id of the quorum's leader; -1 if there is none. Raises ProtocolError."""
    body = uvarint(2) + compact(QUORUM_TOPIC) + uvarint(2) + struct.pack(">i", 0) + b"\0\0\0"
    reader = client.call(DESCRIBE_QUORUM, DESCRIBE_QUORUM_VERSION, body)
    check(reader.number(2), "DescribeQuorum")
    reader.uvarint()
    reader.string()
    reader.uvarint()
    reader.take(4)
    check(reader.number(2), "DescribeQuorum")
    return reader.number(4)


def elect_preferred_leaders(client: Client) -> None:
    """Let the first replica of each partition lead it, if it is in sync. Raises ProtocolError."""
    body = struct.pack(">b", PREFERRED) + uvarint(0) + struct.pack(">i", TIMEOUT_MS) + b"\0"
    reader = client.call(ELECT_LEADERS, ELECT_LEADERS_VERSION, body)
    reader.take(4)
    if (code := reader.number(2)) != ELECTION_NOT_NEEDED:
        check(code, "ElectLeaders")


def reassign(client: Client, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
    """Begin to move partitions of `topic` to these nodes. Raises ProtocolError, also for a single partition."""
    body = struct.pack(">i", TIMEOUT_MS) + uvarint(2) + compact(topic.encode()) + uvarint(len(replicas) + 1)
    for partition, nodes in replicas.items():
        body += struct.pack(">i", partition) + uvarint(len(nodes) + 1) + struct.pack(f">{len(nodes)}i", *nodes) + b"\0"
    reader = client.call(ALTER_REASSIGNMENTS, REASSIGNMENTS_VERSION, body + b"\0\0")
    reader.take(4)
    check(reader.number(2), f"AlterPartitionReassignments of {topic}", reader.string())
    reader.uvarint()
    reader.string()
    for _ in range(reader.uvarint() - 1):
        partition, code = reader.number(4), reader.number(2)
        check(code, f"AlterPartitionReassignments of {topic}-{partition}", reader.string())
        reader.tags()


def is_reassigning(client: Client) -> bool:
    """Return whether any partition is being moved. Raises ProtocolError."""
    body = struct.pack(">i", TIMEOUT_MS) + uvarint(0) + b"\0"
    reader = client.call(LIST_REASSIGNMENTS, REASSIGNMENTS_VERSION, body)
    reader.take(4)
    check(reader.number(2), "ListPartitionReassignments", reader.string())
    return reader.uvarint() > 1
