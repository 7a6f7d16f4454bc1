"""The records that a partition must have according to the responses that clients got, and the comparison with its
contents.

Every record has a unique id in a header, and its key and value follow from the id, so that each record that is read
identifies its sending. The promises:

- An acknowledged record exists once, at its offset, with its key and value, unless its offset is below a DeleteRecords,
  its transaction was aborted (for read_committed), or a newer record of its key allows compaction to drop it.
- A refused record, one of an aborted transaction (for read_committed), one before the log start, and one of a deleted
  topic of the same name, does not exist.
- A record without a response exists once or not at all. A restart settles its fate, which then never changes.
- The records of one producer keep their order. Offsets of a log without transactions and compaction have no gap.
- The log starts at the offset of the last DeleteRecords, or at 0 without one. After a kill it may also start earlier,
  down to its start after the previous restart, with the records that existed then.
- A transaction whose end is unknown exists with all its acknowledged records or with none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum


class Fate(Enum):
    """The fate of a record, as its sender knows it."""

    ACKED = "acked"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class End(Enum):
    """The end of a transaction, as its owner knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Transaction:
    end: End = End.UNKNOWN


@dataclass(slots=True)
class Sent:
    """One record that was sent; `number` counts the records of its sender."""

    id: str
    key: bytes | None
    value: bytes | None
    sender: int
    number: int
    transaction: Transaction | None = None
    fate: Fate = Fate.UNKNOWN
    offset: int | None = None

    @property
    def aborted(self) -> bool:
        return self.transaction is not None and self.transaction.end is End.ABORTED

    @property
    def committed(self) -> bool:
        return self.transaction is None or self.transaction.end is End.COMMITTED


@dataclass(frozen=True, slots=True)
class Found:
    """One record as a consumer received it."""

    id: str
    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Reading:
    """The records that one consumer received from a partition, from the log start to the end."""

    committed: bool
    """Whether the consumer's isolation level was read_committed."""
    start: int
    end: int
    records: Sequence[Found]


@dataclass(slots=True)
class Partition:
    """Since its topic was created."""

    start: int = 0
    """The offset up to which DeleteRecords was acknowledged."""
    settled: int = 0
    """The log start after the last restart: a kill may undo later deletions (docs/architecture-durability.md)."""
    sent: dict[str, Sent] = field(default_factory=dict)


@dataclass
class Topic:
    """One incarnation of a topic; a later topic of the same name has none of its records."""

    partitions: list[Partition] = field(default_factory=list)
    compacted: bool = False
    """Whether its cleanup.policy ever contained `compact`."""
    transactions: list[Transaction] = field(default_factory=list)


def check(topic: Topic, number: int, reading: Reading) -> list[str]:
    """Describe the differences between a reading of a partition and the model."""
    partition = topic.partitions[number]
    wrong: list[str] = []
    if not partition.settled <= reading.start <= partition.start:
        bounds = f"{partition.settled} to {partition.start}"
        wrong.append(f"the log begins at {reading.start}, and it must begin at {bounds}")
    wrong += _not_to_be_there(partition, reading)
    wrong += _order(partition, reading)
    missing = _missing_compacted if topic.compacted else _missing
    wrong += missing(partition, reading)
    if not topic.compacted and not topic.transactions:
        offsets = [found.offset for found in reading.records]
        if offsets != list(range(reading.start, reading.end)):
            wrong.append(f"offsets {_gaps(offsets, reading.start, reading.end)} have no record")
    return wrong


def _gaps(offsets: list[int], start: int, end: int) -> list[int]:
    return sorted(set(range(start, end)) - set(offsets))[:5]


def _not_to_be_there(partition: Partition, reading: Reading) -> list[str]:
    wrong = []
    seen: dict[str, int] = {}
    for found in reading.records:
        sent = partition.sent.get(found.id)
        what = f"offset {found.offset} has {found.id}"
        if sent is None:
            wrong.append(f"{what}, which nobody sent to this partition of this topic")
            continue
        if found.id in seen:
            wrong.append(f"{what}, which is at {seen[found.id]}, too")
        seen[found.id] = found.offset
        if sent.fate is Fate.REFUSED:
            wrong.append(f"{what}, which was refused")
        elif sent.fate is Fate.ACKED and sent.offset != found.offset:
            wrong.append(f"{what}, which was acknowledged at {sent.offset}")
        if (found.key, found.value) != (sent.key, sent.value):
            wrong.append(f"{what} with another key or value than it was sent with")
        if reading.committed and sent.aborted:
            wrong.append(f"{what} of an aborted transaction")
        if found.offset < reading.start:
            wrong.append(f"{what} before the log start {reading.start}")
    return wrong


def _order(partition: Partition, reading: Reading) -> list[str]:
    wrong = []
    last: dict[int, tuple[int, str]] = {}
    offset = -1
    for found in reading.records:
        if found.offset <= offset:
            wrong.append(f"offset {found.offset} was read after offset {offset}")
        offset = found.offset
        sent = partition.sent.get(found.id)
        if sent is None:
            continue
        number, name = last.get(sent.sender, (-1, ""))
        if sent.number < number:
            wrong.append(f"offset {found.offset} has {found.id} behind {name}, which was sent later")
        last[sent.sender] = sent.number, found.id
    return wrong


def _expected(partition: Partition, reading: Reading) -> Iterable[Sent]:
    """Return the acknowledged records that a reader of this isolation level receives if nothing is compacted."""
    for sent in partition.sent.values():
        if sent.fate is Fate.ACKED and sent.offset is not None and sent.offset >= min(reading.start, partition.start):
            if reading.committed and not sent.committed:
                continue
            yield sent


def _missing(partition: Partition, reading: Reading) -> list[str]:
    there = {found.id for found in reading.records}
    lost = [sent for sent in _expected(partition, reading) if sent.id not in there]
    if not lost:
        return []
    shown = ", ".join(f"{sent.id} at {sent.offset}" for sent in lost[:5])
    return [f"{len(lost)} acknowledged records are not there: {shown}"]


def _missing_compacted(partition: Partition, reading: Reading) -> list[str]:
    """Check that the newest record of each key exists, or a newer one of unknown fate; nothing older than a removed
    tombstone.
    """
    there = {found.id: found for found in reading.records}
    newest: dict[bytes | None, Sent] = {}
    # A record whose fate is unknown may have superseded all others of its key.
    uncertain: set[bytes | None] = set()
    for sent in partition.sent.values():
        if sent.aborted or sent.fate is Fate.REFUSED:
            continue
        if sent.fate is Fate.UNKNOWN or not sent.committed:
            uncertain.add(sent.key)
            continue
        assert sent.offset is not None
        before = newest.get(sent.key)
        if before is None or (before.offset or 0) < sent.offset:
            newest[sent.key] = sent
    wrong = []
    for key, sent in newest.items():
        if sent.id in there or sent.offset is None or sent.offset < reading.start:
            continue
        if sent.value is None:
            older = [
                found.id
                for found in reading.records
                if found.key == key and found.offset < sent.offset and not partition.sent[found.id].aborted
            ]
            if older:
                wrong.append(f"{older[:3]} of key {key!r} are there, and the tombstone {sent.id} behind them is not")
        elif key not in uncertain:
            wrong.append(f"{sent.id} at {sent.offset} is not there, and it is the newest of its key {key!r}")
    return wrong


def settle(topic: Topic, readings: Iterable[tuple[int, Reading]]) -> list[str]:
    """Settle every unknown fate by the readings; reports transactions that exist only in part.

    `readings` are of every partition, first at read_uncommitted, made after a restart, when no request is outstanding.
    """
    wrong = []
    shown: dict[int, list[tuple[Sent, bool]]] = defaultdict(list)
    for number, reading in readings:
        partition = topic.partitions[number]
        there = {found.id: found.offset for found in reading.records}
        if not reading.committed:
            for sent in partition.sent.values():
                if sent.fate is not Fate.UNKNOWN:
                    continue
                if sent.id in there:
                    sent.fate, sent.offset = Fate.ACKED, there[sent.id]
                elif not (topic.compacted and sent.value is None):
                    # A tombstone may have been written, and removed by compaction with all that it superseded.
                    sent.fate = Fate.REFUSED
        else:
            for sent in partition.sent.values():
                if sent.offset is None or sent.offset < reading.start or sent.fate is not Fate.ACKED:
                    continue
                if sent.transaction is not None and sent.transaction.end is End.UNKNOWN:
                    shown[id(sent.transaction)].append((sent, sent.id in there))
    for transaction in topic.transactions:
        if transaction.end is not End.UNKNOWN:
            continue
        seen = [sent.id for sent, is_there in shown[id(transaction)] if is_there]
        gone = [sent.id for sent, is_there in shown[id(transaction)] if not is_there]
        if topic.compacted:
            transaction.end = End.COMMITTED if seen else End.UNKNOWN
            continue
        transaction.end = End.COMMITTED if seen else End.ABORTED
        if seen and gone:
            wrong.append(f"{seen[:3]} of a transaction are committed, and {gone[:3]} of it are not")
    return wrong


def restarted(topic: Topic, readings: Iterable[tuple[int, Reading]]) -> None:
    """From now on, logs must keep their current start. Call `check` first, which checks that they may start there."""
    for number, reading in readings:
        partition = topic.partitions[number]
        partition.start = partition.settled = reading.start


def stopped(topic: Topic) -> None:
    """Before a clean stop: every deletion is permanent."""
    for partition in topic.partitions:
        partition.settled = partition.start
