"""Decoded rows of a panel: it never waits long, and is computed again when more is known."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from broker_cy.client.decoded import Part, Seen
from broker_cy.console.scan import Row
from broker_cy.wire.records import Record
from dashboard.collector import decoded
from dashboard.collector.decoded import DecodedRows


class SlowDecoder:
    """Answers when `gate` is set; `is_down` leaves records as they are, for another attempt."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.notice = ""
        self.retry_in_s = 0.0
        self.asked = 0

    async def load(self, records: Sequence[Record]) -> None:
        raise AssertionError("not used")

    def look(self, topic: str, record: Record) -> Seen:
        return Seen(record, Part(record.key), Part(record.value, None, "later", is_final=False))

    async def seen(self, topic: str, records: Sequence[Record]) -> list[Seen]:
        self.asked += 1
        await self.gate.wait()
        if self.notice:
            return [self.look(topic, record) for record in records]
        return [Seen(Record(each.offset, 1, None, b"decoded"), Part(None), Part(b"decoded")) for each in records]


ROWS = [Row(0, Record(n, 1, None, b"raw")) for n in range(3)]


def run(scenario: Callable[[SlowDecoder], Awaitable[None]]) -> None:
    async def inside() -> None:
        await scenario(SlowDecoder())

    asyncio.run(inside())


def values(found: Sequence[Seen]) -> list[bytes | None]:
    return [each.record.value for each in found]


def test_a_panel_shows_bytes_first_and_is_called_later() -> None:
    """If this fails, a slow registry makes pages slow, or bytes stay on a page after it has answered."""

    async def scenario(decoder: SlowDecoder) -> None:
        rows = DecodedRows(decoder, "orders")
        called = asyncio.Event()
        rows.subscribe(called.set)
        assert values(await rows.seen(ROWS)) == [b"raw"] * 3
        assert values(await rows.seen(ROWS)) == [b"raw"] * 3
        assert decoder.asked == 1
        decoder.gate.set()
        await called.wait()
        assert values(await rows.seen(ROWS)) == [b"decoded"] * 3
        assert decoder.asked == 1
        await rows.close()

    run(scenario)


def test_a_panel_that_is_whole_is_not_called() -> None:
    """If this fails, pages of records are computed again and again."""

    async def scenario(decoder: SlowDecoder) -> None:
        decoder.gate.set()
        rows = DecodedRows(decoder, "orders")
        calls: list[int] = []
        rows.subscribe(lambda: calls.append(1))
        assert values(await rows.seen(ROWS)) == [b"decoded"] * 3
        for _ in range(5):
            await asyncio.sleep(0)
        assert (calls, rows._timer) == ([], None)

    run(scenario)


def test_a_registry_that_is_down_is_asked_again_by_a_timer() -> None:
    """If this fails, a page shows bytes until it is loaded again, or asks the registry all the time."""

    async def scenario(decoder: SlowDecoder) -> None:
        decoder.gate.set()
        decoder.notice = "refused"
        rows = DecodedRows(decoder, "orders")
        called = asyncio.Event()
        rows.subscribe(called.set)
        assert values(await rows.seen(ROWS)) == [b"raw"] * 3
        assert rows.notice == "refused"
        assert rows._timer is not None
        assert 0 < rows._timer.when() - asyncio.get_running_loop().time() <= decoded.AGAIN_S
        decoder.notice = ""
        rows._call()
        assert called.is_set()
        assert values(await rows.seen(ROWS)) == [b"decoded"] * 3
        await rows.close()
        assert rows._timer is None

    run(scenario)


def test_without_a_registry_rows_stay_as_they_are() -> None:
    """If this fails, pages of clusters without a registry break."""

    async def scenario(_: SlowDecoder) -> None:
        rows = DecodedRows(None, "orders")
        assert values(await rows.seen(ROWS)) == [b"raw"] * 3
        assert rows.notice == ""

    run(scenario)
