"""Decoded records in the consoles: what rows and searches show of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from broker_cy.client.decoded import Decoder, Part, Seen, matching, undecoded
from broker_cy.client.turns import Turns
from broker_cy.console.payload import Format, line
from broker_cy.console.record_filter import RecordFilter
from broker_cy.console.scan import Match, Row
from broker_cy.core.classes import NamedTuple
from broker_cy.wire.records import Record

LINES_MAX: Final = 10_000
"""Rows whose lines are kept, each with 2 KB at most: as many as a page has."""
WANTING_MAX: Final = 1_000
"""Rows that wait for their schemas; others wait when they are drawn again."""


def match_of(decoder: Decoder | None, topic: str, wanted: RecordFilter) -> Match | None:
    """Return a filter that looks at decoded records; None if there is no decoder or nothing is filtered."""
    if decoder is None or wanted.is_empty:
        return None
    keep = wanted.compile()

    def match(records: list[Record]) -> Awaitable[list[Record]]:
        return matching(decoder, topic, records, keep)

    return match


def shows_decoded(shown: Format) -> bool:
    """Return whether a format shows decoded data: text and hex show the bytes of the record."""
    return shown in (Format.AUTO, Format.JSON)


def caption(part: Part) -> str:
    """Return what is known about the schema of a key or value; empty if it has none."""
    # A problem has the schema in it.
    return part.problem or ("" if part.schema is None else str(part.schema))


class Lines(NamedTuple):
    """A key and a value in one line each."""

    key: str
    value: str


class DecodedRows:
    """The lines of the rows of a page. They are kept, because decoding a record takes longer than drawing it.

    `wanting` are rows that were shown without their schema, or before they were decoded; `load` decodes them.
    """

    def __init__(self, decoder: Decoder, topic: str) -> None:
        self._decoder = decoder
        self._topic = topic
        self._lines: OrderedDict[tuple[int, int], Lines] = OrderedDict()
        self.wanting: list[Row] = []

    @property
    def notice(self) -> str:
        return self._decoder.notice

    @property
    def may_load(self) -> bool:
        """Whether rows wait, and the registry may be asked now."""
        return bool(self.wanting) and self._decoder.retry_in_s <= 0

    def look(self, record: Record) -> Seen:
        """Return a record with what is known now."""
        return self._decoder.look(self._topic, record)

    async def seen(self, record: Record) -> Seen:
        """Return a record once its schemas were asked for, for a bounded time."""
        return (await self._decoder.seen(self._topic, [record]))[0]

    def lines(self, row: Row) -> Lines:
        found = self._lines.get((row.partition, row.record.offset))
        if found is None:
            seen = self.look(row.record)
            if not seen.is_final and len(self.wanting) < WANTING_MAX:
                self.wanting.append(row)
            found = self._kept(row, seen)
        return found

    def _kept(self, row: Row, seen: Seen) -> Lines:
        found = Lines(line(seen.record.key), line(seen.record.value))
        if seen.is_final:
            self._lines[row.partition, row.record.offset] = found
            while len(self._lines) > LINES_MAX:
                self._lines.popitem(last=False)
        return found

    async def load(self) -> None:
        """Decode the rows that wait; returns after a bounded time."""
        wanting, self.wanting = self.wanting, []
        found = await self._decoder.seen(self._topic, [each.record for each in wanting])
        for row, seen in zip(wanting, found, strict=True):
            self._kept(row, seen)

    async def prepare(self, rows: Iterable[Row]) -> None:
        """Make the lines of rows that a search in them needs, without holding up keys."""
        turns = Turns()
        for row in rows:
            self.lines(row)
            await turns.pause()

    def clear(self) -> None:
        """Forget the lines: a topic that was created again has other records at the same offsets."""
        self._lines.clear()
        self.wanting.clear()


def look_of(rows: DecodedRows | None) -> Callable[[Record], Seen]:
    """Return how a page looks at records: as they are, if it has no decoder."""
    return undecoded if rows is None else rows.look
