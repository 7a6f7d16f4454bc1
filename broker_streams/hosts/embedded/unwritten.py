"""The records of a commit that the cluster has not taken yet, in the parts in which they are sent.

A part that is refused is cut until the record that is to blame stands alone, or is dropped. The others keep their
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from broker_cy.admin.produce import BATCH_BYTES_MAX, size_of
from broker_cy.wire.records import Record
from broker_streams.hosts.results import Results
from broker_streams.kernel.errors import Output
from broker_streams.kernel.task import Task

Place = tuple[str, int | None]
"""A topic and a partition; None: the producer chooses it."""


class Part:
    """Records of one batch. `first`: the index of the first one among the results for its place. `letter_of`: the task
    whose dead letter it is; None: these are results.
    """

    __slots__ = ("first", "is_written", "letter_of", "records")

    def __init__(self, records: Sequence[Record], first: int, letter_of: Task | None = None) -> None:
        self.records, self.first, self.letter_of = records, first, letter_of
        self.is_written = False

    def cut(self, start: int, end: int) -> Part:
        return Part(self.records[start:end], self.first + start, self.letter_of)

    @property
    def size_bytes(self) -> int:
        return sum(map(size_of, self.records))


class Unwritten:
    """`limits`: the largest batches in bytes that topics took, where that is less than the producer's batches."""

    def __init__(self, results: Results, limits: Mapping[str, int]) -> None:
        self._results = results
        self._limits = limits
        self.parts: dict[Place, list[Part]] = {}
        for place, batches in results.batches().items():
            first, found = 0, []
            for batch in batches:
                found.append(Part(batch, first))
                first += len(batch)
            self.parts[place] = self._small(place[0], found)

    def _small(self, topic: str, parts: Iterable[Part]) -> list[Part]:
        limit = self._limits.get(topic)
        return list(parts) if limit is None else [piece for part in parts for piece in _pieces(part, limit)]

    def shrink(self, topic: str) -> None:
        """Apply a smaller limit of the topic to what was not written."""
        for place, parts in self.parts.items():
            if place[0] == topic:
                written = [part for part in parts if part.is_written]
                self.parts[place] = written + self._small(topic, parts[len(written) :])

    def halve(self, place: Place, part: Part) -> None:
        """Send a part as two ones."""
        middle = len(part.records) // 2
        self._replace(place, part, [part.cut(0, middle), part.cut(middle, len(part.records))])

    def drop(self, place: Place, part: Part, indices: Iterable[int]) -> None:
        """Leave records of a part out."""
        start, kept = 0, []
        for index in sorted(indices):
            kept.append(part.cut(start, index))
            if part.letter_of is None:
                self._results.uncount(*place, 1, size_of(part.records[index]))
            start = index + 1
        kept.append(part.cut(start, len(part.records)))
        self._replace(place, part, [each for each in kept if each.records])

    def _replace(self, place: Place, part: Part, by: list[Part]) -> None:
        parts = self.parts[place]
        at = parts.index(part)
        parts[at : at + 1] = by

    def task_of(self, place: Place, part: Part, index: int) -> Task | None:
        """The task that wrote a record of a part; None: the results do not know it."""
        if part.letter_of is not None:
            return part.letter_of
        found: Task | None = self._results.origin_of(*place, part.first + index)
        return found

    def add_letters(self, letters: Iterable[Output], task: Task) -> None:
        """Send dead letters of a task, too."""
        for letter in letters:
            self.parts.setdefault(letter[:2], []).append(Part([record_of(letter)], 0, task))

    def begin_again(self) -> None:
        """Nothing was written: the transaction was aborted."""
        for parts in self.parts.values():
            for part in parts:
                part.is_written = False


def _pieces(part: Part, limit_bytes: int) -> Iterator[Part]:
    """Cut a part so that no piece is larger than the limit, unless it is one record."""
    start, size = 0, 0
    for index, record in enumerate(part.records):
        added = size_of(record)
        if index > start and size + added > min(limit_bytes, BATCH_BYTES_MAX):
            yield part.cut(start, index)
            start, size = index, 0
        size += added
    yield part.cut(start, len(part.records))


def record_of(output: Output) -> Record:
    _, _, key, value, timestamp, headers = output
    return Record(key=key, value=value, timestamp=timestamp, headers=headers)
