"""Kafka's text checkpoints: a version line, a count line, one entry a line.

`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`, `replication-offset-checkpoint` and
`cleaner-offset-checkpoint` of a data directory hold "topic partition offset"; `leader-epoch-checkpoint` of a log holds
"epoch offset".
"""

from collections.abc import Mapping

from broker_cy.storage.atomic import read_whole, write_atomically

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
CLEANED_OFFSETS = "cleaner-offset-checkpoint"

# Text of one entry: topic (249), partition (10), offset (19) and separators. A million partitions.
SIZE_MAX_BYTES = 300 << 20
VERSION = b"0"
# Leader epochs and partition numbers are int32, offsets int64.
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

TopicPartition = tuple[str, int]


def _lines(data: bytes, path: str) -> list[list[bytes]]:
    """Entries as words; raises ValueError naming the file where the version or the count is wrong."""
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2 or lines[0].strip() != VERSION:
        raise ValueError(f"{path}: not a checkpoint of version 0")
    entries = [line.split() for line in lines[2:]]
    if not lines[1].strip().isdigit() or int(lines[1]) != len(entries):
        raise ValueError(f"{path}: claims {lines[1][:20]!r} entries and has {len(entries)}")
    return entries


def decode_pairs(data: bytes, path: str) -> list[tuple[int, int]]:
    """Entries of a leader epoch checkpoint; raises ValueError unless both columns strictly increase."""
    pairs: list[tuple[int, int]] = []
    for words in _lines(data, path):
        if len(words) != 2 or not all(word.isdigit() for word in words):
            raise ValueError(f"{path}: entry {b' '.join(words)!r} is not an epoch and an offset")
        pair = (int(words[0]), int(words[1]))
        if pair[0] > INT32_MAX or pair[1] > INT64_MAX:
            raise ValueError(f"{path}: entry {pair} is larger than an epoch or an offset can be")
        if pairs and not (pair[0] > pairs[-1][0] and pair[1] > pairs[-1][1]):
            raise ValueError(f"{path}: entry {pair} does not follow {pairs[-1]}")
        pairs.append(pair)
    return pairs


def encode_pairs(pairs: list[tuple[int, int]]) -> bytes:
    """Text of a leader epoch checkpoint."""
    lines = "".join(f"{epoch} {offset}\n" for epoch, offset in pairs)
    return f"0\n{len(pairs)}\n{lines}".encode()


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """(topic, partition) -> offset; empty where the file is missing or empty. Raises ValueError where it is damaged."""
    try:
        data = read_whole(path, SIZE_MAX_BYTES)
    except FileNotFoundError:
        return {}
    return decode_offsets(data, path) if data else {}


def decode_offsets(data: bytes, path: str) -> dict[TopicPartition, int]:
    """Entries of an offset checkpoint; raises ValueError where it is damaged."""
    found: dict[TopicPartition, int] = {}
    for words in _lines(data, path):
        if len(words) != 3 or not words[1].isdigit() or not words[2].lstrip(b"-").isdigit():
            raise ValueError(f"{path}: entry {b' '.join(words)!r} is not a topic, a partition and an offset")
        partition, offset = int(words[1]), int(words[2])
        if partition > INT32_MAX or not -1 <= offset <= INT64_MAX:
            raise ValueError(f"{path}: entry {b' '.join(words)!r} is outside of what a partition or an offset can be")
        try:
            topic = words[0].decode()
        except UnicodeDecodeError:
            raise ValueError(f"{path}: topic {words[0]!r} is not UTF-8") from None
        found[topic, partition] = offset
    return found


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace the file, durably; blocks for the disk. Raises OSError."""
    write_atomically(path, encode_offsets(offsets), sync=True)


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Text of an offset checkpoint."""
    lines = "".join(f"{topic} {partition} {offset}\n" for (topic, partition), offset in offsets.items())
    return f"0\n{len(offsets)}\n{lines}".encode()
