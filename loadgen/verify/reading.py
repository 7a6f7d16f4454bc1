"""Compares the records read from one partition with the ledgers; it performs no I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import Any

from loadgen.verify.ledger import ABORTED, ACKNOWLEDGED, REFUSED, UNKNOWN
from loadgen.verify.verification import EXAMPLES_MAX, Counts, Example

_SEQUENCE_MASK = 0x7FFFFFFF


class _Track:
    """One producer's records of the partition: those in the ledger, and those that were read.

    Invariants: of the sequences below `next`, those in the gaps were not read, and the others were. Gaps are sorted and
    disjoint: [starts[i], ends[i]). A gap is `unsure` if offsets were skipped where its records would have been.
    """

    __slots__ = (
        "ends", "epoch", "first_ones", "last_ones", "next", "outcomes", "producer", "sent", "starts", "unsure",
    )  # fmt: skip

    def __init__(self, producer: int, sent: int, exceptions: Iterable[Sequence[int]]) -> None:
        self.producer, self.sent = producer, sent
        ordered = sorted((first, first + count, outcome) for first, count, outcome in exceptions)
        self.first_ones = [first for first, _, _ in ordered]
        self.last_ones = [behind for _, behind, _ in ordered]
        self.outcomes = [outcome for _, _, outcome in ordered]
        self.next = 0
        self.epoch = 0
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.unsure: list[bool] = []

    def pieces(self, first: int, behind: int) -> Iterable[tuple[int, int, int]]:
        """Yield (first, behind, outcome) for the parts of [first, behind)."""
        at = max(0, bisect_right(self.first_ones, first) - 1)
        while first < behind:
            while at < len(self.first_ones) and self.last_ones[at] <= first:
                at += 1
            if at == len(self.first_ones) or self.first_ones[at] >= behind:
                yield first, behind, ACKNOWLEDGED
                return
            if first < self.first_ones[at]:
                yield first, self.first_ones[at], ACKNOWLEDGED
                first = self.first_ones[at]
            end = min(behind, self.last_ones[at])
            yield first, end, self.outcomes[at]
            first = end

    def add_gap(self, start: int, end: int, unsure: bool) -> None:
        self.starts.append(start)
        self.ends.append(end)
        self.unsure.append(unsure)

    def fill(self, first: int, behind: int) -> list[tuple[int, int]]:
        """Take [first, behind), which is below `next`, out of the gaps; returns the parts that were in one."""
        found: list[tuple[int, int]] = []
        at = max(0, bisect_right(self.starts, first) - 1)
        while at < len(self.starts) and self.starts[at] < behind:
            start, end, unsure = self.starts[at], self.ends[at], self.unsure[at]
            low, high = max(start, first), min(end, behind)
            if low >= high:
                at += 1
                continue
            found.append((low, high))
            left = [(a, b) for a, b in ((start, low), (high, end)) if a < b]
            self.starts[at : at + 1] = [a for a, _ in left]
            self.ends[at : at + 1] = [b for _, b in left]
            self.unsure[at : at + 1] = [unsure] * len(left)
            at += len(left)
        return found


class Reading:
    """One partition of one run. Call `feed` for its records in the order of offsets, then `verdict`.

    `states` are those of all ledgers (`Ledger.state`); other partitions are ignored. A record is fed with its
    producer's number in the ledger: that of its stamp, or `of_batches` of the producer id of its batch.
    """

    def __init__(self, topic: str, partition: int, states: Iterable[Sequence[Any]]) -> None:
        self.topic, self.partition = topic, partition
        self.counts = Counts()
        self.examples: dict[str, list[Example]] = {}
        self._tracks: dict[int, _Track] = {}
        for producer, of_topic, of_partition, sent, exceptions in states:
            if of_topic != topic or of_partition != partition:
                continue
            if producer in self._tracks:
                raise ValueError(f"two ledgers have producer {producer} in partition {topic}-{partition}")
            self._tracks[producer] = track = _Track(producer, sent, exceptions)
            self.counts.sent += sent
            self.counts.acknowledged += sent - sum(count for _, count, _ in exceptions)
            if any(behind > sent for behind in track.last_ones):
                raise ValueError(f"a ledger has outcomes of producer {producer} beyond its {sent} records")
        self._epoch = 0
        self._is_undecided = False

    def has(self, producer: int) -> bool:
        """Return whether a ledger has this producer in this partition."""
        return producer in self._tracks

    def skip(self) -> None:
        """Note that offsets were skipped because retention had removed them: records that are missing there are not
        lost.
        """
        self._epoch += 1

    def undecided(self) -> None:
        """Note that from here on a transaction may be open: aborted records are returned and are not an error."""
        self._is_undecided = True

    def feed(self, offset: int, producer: int, sequence: int, count: int = 1) -> None:
        """Take `count` records with consecutive offsets and sequences."""
        self.counts.read += count
        track = self._tracks.get(producer)
        if track is None:
            self.counts.unclaimed += count
            return
        behind = sequence + count
        if sequence == track.next and not track.outcomes and behind <= track.sent and track.epoch == self._epoch:
            track.next = behind
            return
        if behind > track.sent:
            self.counts.unclaimed += behind - max(sequence, track.sent)
            behind = track.sent
        if sequence < behind:
            self._take(track, offset - sequence, sequence, behind)

    def feed_batch(self, offset: int, producer: int, base_sequence: int, count: int) -> None:
        """Take a batch by the sequence in its header, an int32 that continues at 0 after its highest value."""
        track = self._tracks[producer]
        # The number with these 31 bits that is nearest to the expected one.
        ahead = (base_sequence - track.next) & _SEQUENCE_MASK
        sequence = track.next + ahead
        if ahead > _SEQUENCE_MASK // 2 and sequence > _SEQUENCE_MASK:
            sequence -= _SEQUENCE_MASK + 1
        self.feed(offset, producer, sequence, count)

    def foreign(self, count: int) -> None:
        """Count records of other runs."""
        self.counts.foreign += count

    def _take(self, track: _Track, shift: int, first: int, behind: int) -> None:
        """Take [first, behind); the offset of each is its sequence plus `shift`."""
        old = min(behind, track.next)
        if first < old:
            filled = track.fill(first, old)
            for low, high in filled:
                self._late(track, low, high, shift)
                self._judge(track, low, high, shift)
            at = first
            for low, high in [*filled, (old, old)]:
                self._find("duplicated", track, at, low, shift)
                at = high
        if behind <= track.next:
            return
        new = max(first, track.next)
        if new > track.next:
            track.add_gap(track.next, new, track.epoch != self._epoch)
        track.epoch, track.next = self._epoch, behind
        self._judge(track, new, behind, shift)

    def _late(self, track: _Track, first: int, behind: int, shift: int) -> None:
        """Count records that come after newer ones. Records with an unknown outcome may: their producer gave them up,
        and a network can deliver a request of a closed connection after one of the next connection.
        """
        for low, high, outcome in track.pieces(first, behind) if track.outcomes else [(first, behind, ACKNOWLEDGED)]:
            if outcome != UNKNOWN:
                self._find("reordered", track, low, high, shift)

    def _judge(self, track: _Track, first: int, behind: int, shift: int) -> None:
        """Count records, read for the first time, that must not or need not be in the log."""
        if not track.outcomes:
            return
        for low, high, outcome in track.pieces(first, behind):
            if outcome == UNKNOWN:
                self.counts.unknown_present += high - low
            elif outcome == REFUSED:
                self._find("refused_but_read", track, low, high, shift)
            elif outcome == ABORTED and not self._is_undecided:
                self._find("aborted_but_read", track, low, high, shift)

    def _find(self, defect: str, track: _Track, first: int, behind: int, shift: int | None) -> None:
        """Count a defect of the records [first, behind), and keep the first ones as examples."""
        if first >= behind:
            return
        setattr(self.counts, defect, getattr(self.counts, defect) + behind - first)
        examples = self.examples.setdefault(defect, [])
        for sequence in range(first, min(behind, first + EXAMPLES_MAX - len(examples))):
            offset = None if shift is None else sequence + shift
            producer, by_batches = track.producer, track.producer < 0
            examples.append(
                Example(
                    -1 - producer if by_batches else producer, self.partition, sequence, offset, by_batches, self.topic
                )
            )

    def verdict(self) -> Counts:
        """Count the missing records at the end; returns all counts."""
        for track in self._tracks.values():
            gaps = list(zip(track.starts, track.ends, track.unsure, strict=True))
            gaps.append((track.next, track.sent, track.epoch != self._epoch))
            for start, end, unsure in gaps:
                for low, high, outcome in track.pieces(start, end):
                    if outcome == UNKNOWN:
                        self.counts.unknown_absent += high - low
                    elif outcome == ACKNOWLEDGED and unsure:
                        self.counts.not_checkable += high - low
                    elif outcome == ACKNOWLEDGED:
                        self._find("lost", track, low, high, None)
        return self.counts
