"""The metadata hash of a group: it changes if a topic of the group changes its id, its partitions or their racks.

It is stored in the log, so it must have Kafka's value: XXH3 (64 bits, seed 0) over the little-endian bytes that hash4j
writes for each field. A string is its UTF-16 units, then their number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

import xxhash

from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.topics import TopicImage

_VERSION = 0
_I32 = struct.Struct("<i")
_I64 = struct.Struct("<q")
NO_TOPICS_HASH = 0


def topic_hash(topic: TopicImage, image: MetadataImage) -> int:
    """The hash of one topic, as a signed number. A replica on a broker without a rack counts for nothing."""
    most, least = struct.unpack(">qq", topic.topic_id.bytes)
    hasher = xxhash.xxh3_64(struct.pack("<bqq", _VERSION, most, least))
    hasher.update(_text(topic.name))
    count = len(topic.partitions)
    hasher.update(_I32.pack(count))
    # A topic has many partitions, on few sets of brokers.
    of_brokers: dict[tuple[int, ...], bytes] = {}
    parts: list[bytes] = []
    for index in range(count):
        replicas = topic.partitions[index].replicas
        racks = of_brokers.get(replicas)
        if racks is None:
            racks = of_brokers[replicas] = _racks(replicas, image)
        parts += (_I32.pack(index), racks)
    hasher.update(b"".join(parts))
    return _signed(hasher.intdigest())


def group_hash(hashes: Mapping[str, int]) -> int:
    """The hash over the topics of a group, given the hash of each existing topic by name."""
    if not hashes:
        return NO_TOPICS_HASH
    ordered = sorted(hashes, key=_units)
    return _signed(xxhash.xxh3_64_intdigest(b"".join(_I64.pack(hashes[name]) for name in ordered)))


def _racks(replicas: Iterable[int], image: MetadataImage) -> bytes:
    """What the racks of a partition add to the hash."""
    brokers = (image.brokers.get(replica) for replica in replicas)
    racks = [broker.rack for broker in brokers if broker is not None and broker.rack is not None]
    return b"".join(_I32.pack(len(_units(rack)) // 2) + _text(rack) for rack in sorted(racks, key=_units))


def _units(text: str) -> bytes:
    """The UTF-16 units, big-endian: the order of Java's strings."""
    return text.encode("utf-16-be", "surrogatepass")


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _I32.pack(len(units) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
