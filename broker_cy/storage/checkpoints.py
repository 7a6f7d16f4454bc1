"""Kafka's text checkpoints: a version line, a count line, then one entry per line.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` and
`cleaner-offset-checkpoint` of a data directory hold "topic partition offset"; `leader-epoch-checkpoint` of a log holds
"epoch offset".

A topic may be deleted, and another one created under its name, before the file is written again. So the entries of a
topic are accompanied by one with its id: "topic/topic-id 0 0". No topic name contains a slash: Kafka, which looks
entries up by partition, ignores this entry, and drops it when it writes the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from broker_cy.core import uuid as kafka_uuid
from broker_cy.core.classes import NamedTuple
from broker_cy.storage.atomic import read_whole, write_atomically

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"

# Text of one entry: topic (249), partition (10), offset (19) and separators. A million partitions and topics.
SIZE_MAX_BYTES = 300 << 20
VERSION = b"0"
# Between a topic's name and its id.
ID_SEPARATOR = "/"
# Leader epochs and partition numbers are int32, offsets int64.
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

TopicPartition = tuple[str, int]


class Entries(NamedTuple):
    """Content of an offset checkpoint: offsets by partition, and the ids of the topics they were written for. There are
    no ids if Kafka wrote the file.
    """

    offsets: dict[TopicPartition, int]
    topic_ids: dict[str, UUID]

    def are_of(self, topic: str, topic_id: UUID | None) -> bool:
        """Whether the entries of a topic apply to the one with the id `topic_id` (None: not known): they were not
        written for another topic of that name.
        """
        written_for = self.topic_ids.get(topic)
        return topic_id is None or written_for is None or written_for == topic_id

    def offset_of(self, key: TopicPartition, topic_id: UUID | None) -> int | None:
        """The offset of a partition of a topic; None if there is no entry that applies to it."""
        return self.offsets.get(key) if self.are_of(key[0], topic_id) else None


def _lines(data: bytes, path: str) -> list[list[bytes]]:
    """Return the entries as words; raises ValueError, which names the file, if the version or the count is wrong."""
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2 or lines[0].strip() != VERSION:
        raise ValueError(f"{path}: not a checkpoint of version 0")
    entries = [line.split() for line in lines[2:]]
    if not lines[1].strip().isdigit() or int(lines[1]) != len(entries):
        raise ValueError(f"{path}: has {len(entries)} entries, expected {lines[1][:20]!r}")
    return entries


def decode_pairs(data: bytes, path: str) -> list[tuple[int, int]]:
    """Entries of a leader epoch checkpoint; raises ValueError unless both columns strictly increase."""
    pairs: list[tuple[int, int]] = []
    for words in _lines(data, path):
        if len(words) != 2 or not all(word.isdigit() for word in words):
            raise ValueError(f"{path}: entry {b' '.join(words)!r} is not an epoch and an offset")
        pair = (int(words[0]), int(words[1]))
        if pair[0] > INT32_MAX or pair[1] > INT64_MAX:
            raise ValueError(
                f"{path}: entry {pair}: expected an epoch up to {INT32_MAX} and an offset up to {INT64_MAX}"
            )
        if pairs and not (pair[0] > pairs[-1][0] and pair[1] > pairs[-1][1]):
            raise ValueError(f"{path}: entry {pair} after {pairs[-1]}: expected a higher epoch and a higher offset")
        pairs.append(pair)
    return pairs


def encode_pairs(pairs: list[tuple[int, int]]) -> bytes:
    """Text of a leader epoch checkpoint."""
    lines = "".join(f"{epoch} {offset}\n" for epoch, offset in pairs)
    return f"0\n{len(pairs)}\n{lines}".encode()


def read_entries(path: str) -> Entries:
    """Content of an offset checkpoint; empty if the file is missing or empty. Raises ValueError if it is
    damaged.
    """
    try:
        data = read_whole(path, SIZE_MAX_BYTES)
    except FileNotFoundError:
        return Entries({}, {})
    return decode_entries(data, path) if data else Entries({}, {})


def decode_entries(data: bytes, path: str) -> Entries:
    """Content of an offset checkpoint; raises ValueError if it is damaged."""
    found = Entries({}, {})
    for words in _lines(data, path):
        if len(words) != 3 or not words[1].isdigit() or not words[2].lstrip(b"-").isdigit():
            raise ValueError(f"{path}: entry {b' '.join(words)!r} is not a topic, a partition and an offset")
        partition, offset = int(words[1]), int(words[2])
        if partition > INT32_MAX or not -1 <= offset <= INT64_MAX:
            raise ValueError(
                f"{path}: entry {b' '.join(words)!r}: expected a partition up to {INT32_MAX} "
                f"and an offset from -1 to {INT64_MAX}"
            )
        try:
            topic = words[0].decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path}: topic {words[0]!r} is not UTF-8") from None
        name, slash, topic_id = topic.partition(ID_SEPARATOR)
        if not slash:
            found.offsets[topic, partition] = offset
            continue
        try:
            found.topic_ids[name] = kafka_uuid.from_text(topic_id)
        except ValueError as error:
            raise ValueError(f"{path}: {topic!r} has an invalid topic id: {error}") from None
    return found


def write_offsets(
    path: str, offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID] | None = None
) -> None:
    """Replace the file, durably; blocks for the disk. `topic_ids` as in Entries. Raises OSError."""
    write_atomically(path, encode_offsets(offsets, topic_ids or {}), sync=True)


def encode_offsets(offsets: Mapping[TopicPartition, int], topic_ids: Mapping[str, UUID]) -> bytes:
    """Text of an offset checkpoint."""
    lines = [f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items()]
    lines += [f"{topic}{ID_SEPARATOR}{kafka_uuid.to_text(topic_id)} 0 0\n" for topic, topic_id in topic_ids.items()]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def topic_ids_of(offsets: Mapping[TopicPartition, int], topic_ids: Mapping[TopicPartition, UUID]) -> dict[str, UUID]:
    """The ids of the topics in `offsets`, as far as `topic_ids` (by partition) has them."""
    return {key[0]: topic_ids[key] for key in offsets if key in topic_ids}
