"""The metadata hash of a group: it changes if a topic of the group changes its id, its partitions or their racks.

It is stored in the log, so it must have Kafka's value: XXH3 (64 bits, seed 0) over the little-endian bytes that hash4j
writes for each field. A string is its UTF-16 units, then their number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping

from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.topics import TopicImage

_VERSION = 0
_I32 = struct.Struct("<i")
_HEAD = struct.Struct("<bQQ")
_HALF = (1 << 64) - 1
_LENGTHS = struct.Struct("<ii")
# The indexes of most partitions, as they are hashed.
_INDEXES_MAX = 128
_INDEXES = [_I32.pack(index) for index in range(_INDEXES_MAX)]
NO_TOPICS_HASH = 0


def topic_hashes(topics: Iterable[TopicImage], image: MetadataImage) -> dict[str, int]:
    """The hash of each topic by name, as a signed number. A replica on a broker without a rack counts for nothing."""
    # There are many topics and partitions, on few sets of brokers.
    of_brokers: dict[tuple[int, ...], bytes] = {}
    return {topic.name: _topic_hash(topic, image, of_brokers) for topic in topics}


def _topic_hash(topic: TopicImage, image: MetadataImage, of_brokers: dict[tuple[int, ...], bytes]) -> int:
    units = topic.name.encode("utf-16-le", "surrogatepass")
    number = topic.topic_id.int
    partitions, count = topic.partitions, len(topic.partitions)
    parts = [_HEAD.pack(_VERSION, number >> 64, number & _HALF), units, _LENGTHS.pack(len(units) // 2, count)]
    for index in range(count):
        replicas = partitions[index].replicas
        racks = of_brokers.get(replicas)
        if racks is None:
            racks = of_brokers[replicas] = _racks(replicas, image)
        parts.append(_INDEXES[index] if index < _INDEXES_MAX else _I32.pack(index))
        parts.append(racks)
    return _digest(b"".join(parts))


def group_hash(hashes: Mapping[str, int]) -> int:
    """The hash over the topics of a group, given the hash of each existing topic by name."""
    if not hashes:
        return NO_TOPICS_HASH
    # Java orders strings by their UTF-16 units: those of names in ASCII, as legal ones are, are in the order of Python.
    names = list(hashes)
    ordered = sorted(names) if "".join(names).isascii() else sorted(names, key=_units)
    values = hashes.values() if ordered == names else map(hashes.__getitem__, ordered)
    return _digest(struct.pack(f"<{len(ordered)}q", *values))


def _racks(replicas: Iterable[int], image: MetadataImage) -> bytes:
    """Return the bytes that the racks of a partition add to the hash."""
    brokers = (image.brokers.get(replica) for replica in replicas)
    racks = [broker.rack for broker in brokers if broker is not None and broker.rack is not None]
    return b"".join(_I32.pack(len(_units(rack)) // 2) + _text(rack) for rack in sorted(racks, key=_units))


def _units(text: str) -> bytes:
    """The UTF-16 units, big-endian: the order of Java's strings."""
    return text.encode("utf-16-be", "surrogatepass")


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _I32.pack(len(units) // 2)


def _digest(data: bytes) -> int:
    # Here, because a broker whose groups are classic has no use for the library.
    import xxhash

    value = xxhash.xxh3_64_intdigest(data)
    return value - (1 << 64) if value >= 1 << 63 else value
