"""The anomalies of a log with transactions, found in a recorded history.

The names and definitions are those of Jepsen's Kafka workload (`jepsen.tests.kafka`), with the differences stated
here. The checks are stricter because the client and the recorder report more, and because there is only one replica.

- LOST_WRITE: a record that must be readable (see below) is in no poll, although a consumer of the same isolation level
  read its offset (with another value) or a greater one of the partition.
- DUPLICATE: a value has two offsets, according to polls and acknowledgements, also in two partitions (Jepsen: in one).
  Producers must be idempotent.
- ABORTED_READ: G1a. A read_committed poll returned a record of an aborted transaction, or any poll a refused record.
- INCONSISTENT_OFFSETS: an offset of a partition has two values, according to polls and acknowledgements (Jepsen leaves
  out acknowledgements in transactions that may have been aborted; an offset is not used again here after an abort).
- POLL_SKIP: a consumer went from one offset to a greater one and skipped a record that it must see, within a poll or
  between two, without a seek or another assignment. (Jepsen compares consecutive polls only for consumers without a
  group, since a rebalance may come between; here each assignment is recorded.) Skipping records that may have been
  deleted is permitted.
- NONMONOTONIC_POLL: a consumer read an offset again, or one below its position, without a seek or another assignment.
- UNSEEN: a record that must be readable is in no poll of an isolation level, and neither is a greater offset. It is an
  anomaly because a history ends with consumers that read up to the end. (Jepsen includes lost records in it.)
- PRECOMMITTED_READ: a read_committed poll ended before the commit of the record's transaction was requested (Jepsen:
  only a poll within the transaction itself; here a poll of any consumer).

A record must be readable with read_uncommitted if it was acknowledged; with read_committed if, in addition, it is in no
transaction, or in one that committed: its owner received that response, or, if the owner received none, a
read_committed poll returned some record of it. So a transaction that is read only in part is a lost write. No record
has to be readable before an offset up to which records were to be deleted; this applies to a poll that ended after the
deletion was requested.

In a compacted partition a record may be removed if there may be a newer one of its key: one with a greater offset, or
one whose offset is not known; refused and aborted records do not count. A record of an aborted transaction may also be
removed. tests/broker_cy/storage/cleaning.py checks tombstones, and the exact records that a pass of the cleaner keeps.

A partition with unclean elections may lose any record. Reads and acknowledgements from before the elections were over
are not compared with later reads; from then on a value has one offset, and an offset one value, as elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from tests.history.operations import (
    Assign,
    Compact,
    Crash,
    Delete,
    Fate,
    Operation,
    Outcome,
    Place,
    Poll,
    Read,
    Seek,
    Send,
    Transaction,
    Unclean,
)

# Greater than every offset.
NOWHERE = float("inf")


class Anomaly(Enum):
    LOST_WRITE = "lost write"
    DUPLICATE = "duplicate"
    ABORTED_READ = "aborted read"
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    POLL_SKIP = "poll skip"
    NONMONOTONIC_POLL = "non-monotonic poll"
    UNSEEN = "unseen"
    PRECOMMITTED_READ = "precommitted read"


@dataclass(frozen=True, slots=True)
class Finding:
    anomaly: Anomaly
    text: str

    def __str__(self) -> str:
        return f"{self.anomaly.value}: {self.text}"


class _History:
    """The operations of a history, indexed for the checks."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.sends: dict[str, Send] = {}
        self.transactions: dict[str, Transaction] = {}
        # A poll and whether its consumer reads read_committed.
        self.polls: list[tuple[Poll, bool]] = []
        # The requested deletions: (time, offset) by partition.
        self.deletions: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        self.compacted: set[Place] = set()
        # The end of the unclean elections, by partition.
        self.unclean: dict[Place, int] = {}
        self.by_consumer: dict[str, list[Assign | Seek | Poll | Crash]] = defaultdict(list)
        committed: dict[str, bool] = {}
        for operation in operations:
            match operation:
                case Send():
                    assert operation.value not in self.sends, f"value {operation.value} was sent twice"
                    self.sends[operation.value] = operation
                case Transaction():
                    self.transactions[operation.name] = operation
                case Delete():
                    self.deletions[operation.place].append((operation.began, operation.offset))
                case Compact():
                    self.compacted.add(operation.place)
                case Unclean():
                    self.unclean[operation.place] = operation.ended
                case Crash():
                    self.by_consumer[operation.who].append(operation)
                case Assign():
                    committed[operation.consumer] = operation.committed
                    self.by_consumer[operation.consumer].append(operation)
                case Seek():
                    self.by_consumer[operation.consumer].append(operation)
                case Poll():
                    self.polls.append((operation, committed[operation.consumer]))
                    self.by_consumer[operation.consumer].append(operation)
        self.seen: dict[bool, set[str]] = {committed: set() for _, committed in self.polls}
        self.greatest: dict[tuple[bool, Place], int] = {}
        for poll, of_committed in self.polls:
            for read in poll.records:
                self.seen[of_committed].add(read.value)
                key = of_committed, read.place
                self.greatest[key] = max(self.greatest.get(key, -1), read.offset)
        # Transactions with an unknown outcome and a record that a read_committed consumer read.
        self.seen_transactions = {
            self.sends[value].transaction for value in self.seen.get(True, ()) if value in self.sends
        }
        # The greatest offset at which a record of a key may be, by partition and key; NOWHERE if it is not known.
        self.newest: dict[tuple[Place, str | None], float] = {}
        offsets = {read.value: read.offset for poll, _ in self.polls for read in poll.records}
        for send in self.sends.values():
            written = send.fate is not Fate.REFUSED and self.outcome(send) is not Outcome.ABORTED
            if written and send.place in self.compacted:
                offset = send.offset if send.offset is not None else offsets.get(send.value, NOWHERE)
                of = send.place, send.key
                self.newest[of] = max(self.newest.get(of, -1), offset)

    def outcome(self, send: Send) -> Outcome:
        """The outcome of the record's transaction; a record without a transaction is committed."""
        if send.transaction is None:
            return Outcome.COMMITTED
        known = self.transactions.get(send.transaction)
        if known is None or known.outcome is Outcome.UNKNOWN:
            return Outcome.COMMITTED if send.transaction in self.seen_transactions else Outcome.UNKNOWN
        return known.outcome

    def deleted_before(self, place: Place, time: int | None = None) -> int:
        """The offset below which records may be deleted, at `time` or at the end."""
        return max((offset for began, offset in self.deletions[place] if time is None or began < time), default=0)

    def superseded(self, send: Send, offset: int | None) -> bool:
        """Whether compaction may have removed the record, which was written there."""
        if send.place not in self.compacted:
            return False
        if offset is None or self.outcome(send) is not Outcome.COMMITTED:
            return True
        return self.newest.get((send.place, send.key), -1) > offset

    def must_be_there(self, send: Send, committed: bool) -> bool:
        if send.place in self.unclean or self.superseded(send, send.offset):
            return False
        return send.fate is Fate.ACKED and (not committed or self.outcome(send) is Outcome.COMMITTED)

    def must_see(self, committed: bool) -> dict[Place, list[int]]:
        """Sorted offsets that no consumer of this isolation level may skip, by partition."""
        offsets: dict[Place, set[int]] = defaultdict(set)
        for send in self.sends.values():
            if send.offset is not None and self.must_be_there(send, committed):
                offsets[send.place].add(send.offset)
        for poll, of_committed in self.polls:
            for read in poll.records:
                # All consumers of an isolation level must see the records that one of them read; read_uncommitted
                # consumers must also see the records that a read_committed one read.
                sent = self.sends.get(read.value)
                may_go = read.place in self.unclean or (sent is not None and self.superseded(sent, read.offset))
                if (of_committed or not committed) and not may_go:
                    offsets[read.place].add(read.offset)
        return {place: sorted(found) for place, found in offsets.items()}


def check(operations: Iterable[Operation]) -> list[Finding]:
    """Every anomaly of a complete history: one with the ends of its transactions, and with consumers that read to the
    end.
    """
    history = _History(operations)
    findings = [*_offsets(history), *_missing(history), *_not_to_be_read(history)]
    must_see = {committed: history.must_see(committed) for committed in history.seen}
    for consumer, steps in history.by_consumer.items():
        findings += _walk(consumer, steps, must_see, history)
    return findings


def _offsets(history: _History) -> list[Finding]:
    values: dict[tuple[Place, int], set[str]] = defaultdict(set)
    places: dict[str, set[tuple[Place, int]]] = defaultdict(set)

    def note(place: Place, offset: int, value: str) -> None:
        values[place, offset].add(value)
        places[value].add((place, offset))

    for send in history.sends.values():
        if send.offset is not None and send.fate is Fate.ACKED and send.place not in history.unclean:
            note(send.place, send.offset, send.value)
    for poll, _ in history.polls:
        for read in poll.records:
            if poll.ended > history.unclean.get(read.place, -1):
                note(read.place, read.offset, read.value)
    return [
        Finding(Anomaly.INCONSISTENT_OFFSETS, f"{_at(*where)} is {' and '.join(sorted(found))}")
        for where, found in values.items()
        if len(found) > 1
    ] + [
        Finding(Anomaly.DUPLICATE, f"{value} is at {' and '.join(_at(*where) for where in sorted(found))}")
        for value, found in places.items()
        if len(found) > 1
    ]


def _missing(history: _History) -> list[Finding]:
    findings = []
    for send in history.sends.values():
        for committed, seen in history.seen.items():
            if send.value in seen or not history.must_be_there(send, committed):
                continue
            if send.offset is not None and send.offset < history.deleted_before(send.place):
                continue
            greatest = history.greatest.get((committed, send.place), -1)
            # An acknowledgement may come without an offset (acks=0 of some clients): then nothing excuses that it was
            # not read.
            lost = send.offset is None or send.offset <= greatest
            where = _at(send.place, send.offset if send.offset is not None else -1)
            findings.append(
                Finding(
                    Anomaly.LOST_WRITE if lost else Anomaly.UNSEEN,
                    f"{send.value} at {where} (transaction {send.transaction}) was acknowledged, and no "
                    f"{_level(committed)} consumer got it; the greatest offset that one got is {greatest}",
                )
            )
    return findings


def _not_to_be_read(history: _History) -> list[Finding]:
    findings = []
    for poll, committed in history.polls:
        for read in poll.records:
            send = history.sends.get(read.value)
            where = _at(read.place, read.offset)
            assert send is not None, f"{poll.consumer} got {read.value!r} at {where}, and nobody sent that"
            what = f"{poll.consumer} ({_level(committed)}) got {read.value} at {where}"
            if send.fate is Fate.REFUSED:
                findings.append(Finding(Anomaly.ABORTED_READ, f"{what}, which was refused"))
            if not committed or send.transaction is None:
                continue
            transaction = history.transactions.get(send.transaction)
            if transaction is not None and transaction.outcome is Outcome.ABORTED:
                findings.append(Finding(Anomaly.ABORTED_READ, f"{what} of the aborted transaction {send.transaction}"))
            elif transaction is None or transaction.commit_began is None or poll.ended < transaction.commit_began:
                findings.append(
                    Finding(Anomaly.PRECOMMITTED_READ, f"{what} before {send.transaction} was asked to commit")
                )
    return findings


def _walk(
    consumer: str,
    steps: list[Assign | Seek | Poll | Crash],
    must_see: dict[bool, dict[Place, list[int]]],
    history: _History,
) -> list[Finding]:
    findings: list[Finding] = []
    # None: the position is not known, and the first record read determines it.
    position: dict[Place, int | None] = {}
    committed = False

    def go(place: Place, target: int, how: str, time: int) -> None:
        """Move from the position to `target`; add a finding if that skips an offset that must be seen."""
        at = position[place]
        if at is None:
            return
        known = must_see[committed].get(place, [])
        first, end = bisect_left(known, max(at, history.deleted_before(place, time))), bisect_left(known, target)
        if first < end:
            text = f"{consumer} ({_level(committed)}) {how} {_at(place, target)} from {position[place]}"
            text += f", over {known[first:end][:5]}"
            findings.append(Finding(Anomaly.POLL_SKIP, text))

    def take(read: Read, time: int) -> None:
        if read.place not in position:
            raise AssertionError(f"{consumer} got {_at(read.place, read.offset)}, which is not assigned to it")
        at = position[read.place]
        if at is not None and read.offset < at:
            text = f"{consumer} got {_at(read.place, read.offset)} at position {at}"
            findings.append(Finding(Anomaly.NONMONOTONIC_POLL, text))
        else:
            go(read.place, read.offset, "got", time)
        position[read.place] = read.offset + 1

    for step in steps:
        match step:
            case Crash():
                position.clear()
            case Assign():
                committed = step.committed
                position = dict(step.positions)
            case Seek():
                position[step.place] = step.offset
            case Poll():
                for read in step.records:
                    take(read, step.ended)
                for place, said in step.positions.items():
                    at = position[place]
                    if at is not None and said < at:
                        text = f"{consumer} says it is at {_at(place, said)} after it got all below {at}"
                        findings.append(Finding(Anomaly.NONMONOTONIC_POLL, text))
                    else:
                        go(place, said, "says it is at", step.ended)
                    position[place] = said
    return findings


def _level(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


def _at(place: Place, offset: int) -> str:
    return f"{place[0]}-{place[1]}@{offset}"
