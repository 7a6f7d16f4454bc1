"""Decoded records as pages of a console show them, with a registry that answers late or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker_cy.client.decoded import Part, SchemaName, Seen
from broker_cy.console.decoding import LINES_MAX, DecodedRows, caption, look_of, match_of, shows_decoded
from broker_cy.console.payload import Format
from broker_cy.console.record_filter import RecordFilter
from broker_cy.console.scan import Row
from broker_cy.wire.records import Record

NAME = SchemaName("AVRO", 7, None, "orders-value", 2)


class FakeDecoder:
    """Decodes `!text` to `{"text": ...}` once `load` was called; `notice` is that of a registry that is down."""

    def __init__(self) -> None:
        self.is_loaded = False
        self.notice = ""
        self.retry_in_s = 0.0
        self.loads: list[int] = []
        self.looks = 0

    async def load(self, records: Sequence[Record]) -> None:
        self.loads.append(len(records))
        self.is_loaded = not self.notice

    def look(self, topic: str, record: Record) -> Seen:
        assert topic == "orders"
        self.looks += 1
        value = record.value or b""
        if not value.startswith(b"!"):
            return Seen(record, Part(record.key), Part(record.value))
        if not self.is_loaded:
            return Seen(record, Part(record.key), Part(value, None, "later", is_final=False))
        data = b'{"text": "%b"}' % value[1:]
        shown = Record(record.offset, record.timestamp, record.key, data)
        return Seen(shown, Part(record.key), Part(data, NAME))

    async def seen(self, topic: str, records: Sequence[Record]) -> list[Seen]:
        await self.load(records)
        self.looks -= len(records)
        return [self.look(topic, each) for each in records]


def row(offset: int, value: bytes) -> Row:
    return Row(0, Record(offset, 1, b"k", value))


def test_rows_are_shown_at_once_and_decoded_later() -> None:
    """If this fails, a page is empty until the registry answers, or shows bytes for ever."""
    decoder = FakeDecoder()
    rows = DecodedRows(decoder, "orders")
    assert rows.lines(row(0, b"!a")) == ("k", "!a")
    assert rows.lines(row(1, b"plain")) == ("k", "plain")
    assert rows.may_load
    asyncio.run(rows.load())
    assert decoder.loads == [1]
    assert rows.wanting == []
    looks = decoder.looks
    assert rows.lines(row(0, b"!a")) == ("k", '{"text": "a"}')
    assert decoder.looks == looks


def test_a_registry_that_is_down_is_not_asked_by_each_tick() -> None:
    """If this fails, a console asks a registry that is down five times a second."""
    decoder = FakeDecoder()
    rows = DecodedRows(decoder, "orders")
    decoder.notice, decoder.retry_in_s = "refused", 5.0
    rows.lines(row(0, b"!a"))
    assert (rows.notice, rows.may_load) == ("refused", False)
    decoder.retry_in_s = 0.0
    assert rows.may_load


def test_lines_are_kept_within_a_bound() -> None:
    """If this fails, each drawing of a page decodes its records again, or a long tail fills the memory."""
    decoder = FakeDecoder()
    decoder.is_loaded = True
    rows = DecodedRows(decoder, "orders")
    asyncio.run(rows.prepare([row(n, b"!a") for n in range(LINES_MAX + 5)]))
    assert decoder.looks == LINES_MAX + 5
    rows.lines(row(LINES_MAX, b"!a"))
    assert decoder.looks == LINES_MAX + 5
    rows.lines(row(0, b"!a"))
    assert decoder.looks == LINES_MAX + 6
    rows.clear()
    assert rows.lines(row(LINES_MAX, b"!b")) == ("k", '{"text": "b"}')


def test_searches_return_records_as_they_are_in_the_topic() -> None:
    """If this fails, producing a found record again writes JSON instead of its bytes."""
    assert match_of(None, "orders", RecordFilter(value="a")) is None
    assert match_of(FakeDecoder(), "orders", RecordFilter()) is None
    match = match_of(FakeDecoder(), "orders", RecordFilter(path="$.text = b"))
    assert match is not None
    records = [row(n, b"!" + bytes([97 + n])).record for n in range(3)]

    async def run() -> list[Record]:
        assert match is not None
        return await match(records)

    assert asyncio.run(run()) == [records[1]]
    assert records[1].value == b"!b"


def test_captions_name_the_schema_or_the_problem() -> None:
    """If this fails, users do not see which schema a value has, or why it is shown as bytes."""
    assert caption(Part(b"x")) == ""
    assert caption(Part(b"{}", NAME)) == "AVRO schema 7, orders-value version 2"
    assert caption(Part(b"x", None, "no record of AVRO schema 7: it ends")) == "no record of AVRO schema 7: it ends"
    assert [each for each in Format if shows_decoded(each)] == [Format.AUTO, Format.JSON]
    record = Record(0, 1, b"k", b"v")
    assert look_of(None)(record).record is record
