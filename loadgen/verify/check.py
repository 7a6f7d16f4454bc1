"""Reads back the records of a run, and compares them with the outcomes that its workers noted.

Each partition is read from its end before the run to its end now, like a read_committed consumer. If an open
transaction still holds back the last stable offset, the records after it are read, too, but their aborted records are
not a finding.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import gevent

from broker_cy.client.aborted import AbortedTransactions
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import messages
from broker_cy.wire.records import decode_batches
from loadgen.net.cluster import EARLIEST
from loadgen.net.connection import Address
from loadgen.verify.reading import Reading
from loadgen.verify.source import RETRY_S, Passing, Source, SourceError, check_code
from loadgen.verify.stamps import feed
from loadgen.verify.verification import TEXTS_MAX, PartitionFindings, Verification

# The wait for the end of transactions before a partition is read.
STABLE_S: Final = 10.0


def verify(
    bootstrap: Sequence[Address],
    run: int,
    starts: Mapping[str, Mapping[int, int]],
    states: Iterable[Sequence[Any]],
    *,
    timeout_s: float = 30.0,
    stable_s: float = STABLE_S,
) -> Verification:
    """Verify a run. Raises SourceError if the partitions cannot be read.

    `run` is the number in its prefixes; `starts` are the end offsets of each topic's partitions before it (`ends_of`);
    `states` are those of the ledgers of all workers, one after the other. `timeout_s` bounds each answer and each wait
    for a leader, `stable_s` the wait for the end of open transactions.
    """
    began = time.monotonic()
    states = list(states)
    found = Verification()
    with Source(bootstrap, timeout_s) as source:
        for topic in sorted(starts):
            reader = _TopicReader(source, run, topic, starts[topic], states, timeout_s)
            found.partitions += reader.read(stable_s)
    found.seconds = time.monotonic() - began
    return found


def ends_of(bootstrap: Sequence[Address], topics: Iterable[str], timeout_s: float = 30.0) -> dict[str, dict[int, int]]:
    """Return the end offset of each partition, as `verify` wants those before the run. Raises SourceError."""
    with Source(bootstrap, timeout_s) as source:
        return {topic: source.offsets(topic) for topic in topics}


class _Part:
    """One partition while it is read: from `at` to `stable` with read_committed, then to `end`."""

    def __init__(self, reading: Reading, findings: PartitionFindings, stable: int, end: int) -> None:
        self.reading, self.findings, self.stable, self.end = reading, findings, stable, end
        self.at = findings.start

    @property
    def is_undecided(self) -> bool:
        return self.at >= self.stable

    def note(self, text: str) -> None:
        if len(self.findings.notes) < TEXTS_MAX:
            self.findings.notes.append(text)


class _TopicReader:
    def __init__(
        self,
        source: Source,
        run: int,
        topic: str,
        starts: Mapping[int, int],
        states: Sequence[Sequence[Any]],
        timeout_s: float,
    ) -> None:
        self._source, self._run, self._topic, self._starts, self._states = source, run, topic, starts, states
        self._timeout_s = timeout_s

    def read(self, stable_s: float) -> list[PartitionFindings]:
        ends, stable = self._ends(stable_s)
        earliest = self._source.offsets(self._topic, EARLIEST)
        if unknown := sorted(self._starts.keys() - ends.keys()):
            raise SourceError(f"topic {self._topic} has no partition {unknown[0]} any more")
        by_partition: dict[int, list[Sequence[Any]]] = {}
        for state in self._states:
            if state[1] == self._topic:
                by_partition.setdefault(state[2], []).append(state)
        parts = {}
        for partition in sorted(ends):
            # A partition that was added during the run has no start: all its records are new.
            findings = PartitionFindings(self._topic, partition, self._starts.get(partition, 0), ends[partition])
            reading = Reading(self._topic, partition, by_partition.get(partition, ()))
            part = parts[partition] = _Part(reading, findings, stable[partition], ends[partition])
            if stable[partition] < ends[partition]:
                part.note(f"a transaction is open from offset {stable[partition]} on")
            if earliest[partition] > part.at:
                self._skip(part, earliest[partition])
        self._read_all(parts)
        for part in parts.values():
            part.findings.counts = part.reading.verdict()
            part.findings.examples = part.reading.examples
        return [part.findings for part in parts.values()]

    def _ends(self, stable_s: float) -> tuple[dict[int, int], dict[int, int]]:
        """Return end and last stable offset of each partition, equal unless a transaction stays open."""
        deadline = time.monotonic() + stable_s
        while True:
            stable = self._source.offsets(self._topic, read_committed=True)
            ends = self._source.offsets(self._topic)
            if all(stable[partition] >= end for partition, end in ends.items()) or time.monotonic() > deadline:
                return ends, stable
            gevent.sleep(RETRY_S)

    def _skip(self, part: _Part, to: int) -> None:
        part.note(f"offsets {part.at} to {to - 1} were removed by retention before they were read")
        part.reading.skip()
        part.at = to

    def _read_all(self, parts: Mapping[int, _Part]) -> None:
        """Read each partition to its end, from its leader."""
        failing_since_s: float | None = None
        while left := {number: part for number, part in parts.items() if part.at < part.end}:
            try:
                moved = self._read_some(left)
            except Passing as error:
                moved = False
                if failing_since_s is not None and time.monotonic() - failing_since_s > self._timeout_s:
                    raise SourceError(f"{error} (given up after {self._timeout_s:g} s)") from error
            if moved:
                failing_since_s = None
                continue
            failing_since_s = failing_since_s or time.monotonic()
            if time.monotonic() - failing_since_s > self._timeout_s:
                number, part = next(iter(left.items()))
                raise SourceError(
                    f"partition {self._topic}-{number} returned nothing at offset {part.at} of {part.end} "
                    f"for {self._timeout_s:g} s"
                )
            gevent.sleep(RETRY_S)

    def _read_some(self, left: Mapping[int, _Part]) -> bool:
        """Ask each leader until its partitions are read, or one fails; returns whether anything was read."""
        moved = False
        for leader, partitions in self._source.leaders(self._topic).items():
            mine = {number: left[number] for number in partitions if number in left}
            while mine:
                before = sum(part.at for part in mine.values())
                self._read_from(leader, mine)
                if sum(part.at for part in mine.values()) == before:
                    break
                moved = True
                mine = {number: part for number, part in mine.items() if part.at < part.end}
        return moved

    def _read_from(self, leader: int, parts: Mapping[int, _Part]) -> None:
        for undecided in (False, True):
            mine = {number: part.at for number, part in parts.items() if part.is_undecided is undecided}
            if not mine:
                continue
            answer = self._source.fetch(leader, self._topic, mine, read_committed=not undecided)
            for number, data in answer.items():
                part = parts[number]
                if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    earliest = self._source.offsets(self._topic, EARLIEST)[number]
                    if earliest <= part.at:
                        raise SourceError(
                            f"partition {self._topic}-{number}: offset {part.at} is beyond its end, which was "
                            f"{part.end}: the log was truncated"
                        )
                    self._skip(part, earliest)
                    continue
                check_code(data.error_code, f"Fetch of partition {self._topic}-{number}")
                self._take(part, data)

    def _take(self, part: _Part, data: messages.FetchResponse.PartitionData) -> None:
        undecided = part.is_undecided
        aborted = None if undecided else AbortedTransactions(data.aborted_transactions or ())
        if undecided:
            part.reading.undecided()
        limit = part.end if undecided else part.stable
        try:
            for batch in decode_batches(data.records or b""):
                if batch.base_offset >= limit:
                    part.at = limit
                    break
                hidden = aborted is not None and aborted.hides(batch)
                if not hidden and not batch.is_control and batch.last_offset >= part.at:
                    feed(part.reading, batch, self._run, part.at, part.note)
                part.at = max(part.at, batch.last_offset + 1)
        except WireError as error:
            # The start of the next batch is unknown.
            part.reading.counts.damaged += 1
            part.note(f"offset {part.at}: {error}")
            part.at = limit
