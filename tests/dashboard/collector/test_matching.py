"""Filters with regular expressions, which are evaluated in another process."""

from __future__ import annotations

import asyncio
import time

import pytest

from broker_cy.client.errors import ClientError
from broker_cy.console.record_filter import RecordFilter
from broker_cy.wire.records import Record
from dashboard.collector import matching
from dashboard.collector.history_pace import Pace
from dashboard.collector.matching import Matcher, has_expression

RECORDS = [
    Record(7, 0, b"key-%d" % at, b'{"n": %d}' % at, [("kind", b"even" if at % 2 == 0 else None)]) for at in range(100)
]


@pytest.mark.parametrize(
    ("wanted", "is_outside"),
    [
        (RecordFilter(), False),
        (RecordFilter(value="5"), False),
        (RecordFilter(value="~[57]}$"), True),
        (RecordFilter(key="~-1.$", header="kind=~^e"), True),
        (RecordFilter(path="$.n > 95", key="~key"), True),
        (RecordFilter(key="~", value="~^$"), True),
    ],
)
def test_it_finds_the_same_as_the_filter_itself(wanted: RecordFilter, is_outside: bool) -> None:
    """If this fails, a search in the dashboard finds other records than the same one in the terminal."""

    async def job() -> None:
        async with Matcher(wanted) as matcher:
            for _ in range(2):
                assert await matcher.match(RECORDS) == wanted.compile()(RECORDS)
            assert await matcher.match([]) == []

    assert has_expression(wanted) is is_outside
    asyncio.run(job())


def test_an_expression_that_never_ends_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one expression stops the dashboard for all users."""
    patient_s = matching.BATCH_TIMEOUT_S

    async def job() -> None:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0.01)
                turns += 1

        viewers = asyncio.create_task(others())
        async with Matcher(RecordFilter(value="~(a+)+$")) as matcher:
            await matcher.match([Record(value=b"aaa")])
            before = turns
            monkeypatch.setattr(matching, "BATCH_TIMEOUT_S", 0.5)
            with pytest.raises(ClientError, match=r"takes more than 0\.5 s for 1 record: simplify it"):
                await matcher.match([Record(value=b"a" * 60 + b"b")])
            assert turns > before
            monkeypatch.setattr(matching, "BATCH_TIMEOUT_S", patient_s)
            # Another batch gets another process.
            assert len(await matcher.match([Record(value=b"aaa")])) == 1
        viewers.cancel()
        assert not matching._running

    asyncio.run(job())


def test_a_batch_that_was_cancelled_does_not_answer_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a search that was stopped and resumed shows records that do not match."""

    async def job() -> None:
        async with Matcher(RecordFilter(value="~(a+)+$")) as matcher:
            await matcher.match([Record(value=b"a")])
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await matcher.match([Record(value=b"a" * 26 + b"b"), Record(value=b"a")])
            assert [record.value for record in await matcher.match([Record(value=b"aa"), Record(value=b"b")])] == [
                b"aa"
            ]

    asyncio.run(job())


def test_processes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the processes of many users' searches exhaust the memory."""
    monkeypatch.setattr(matching, "WORKERS_MAX", 1)

    async def job() -> None:
        async with Matcher(RecordFilter(value="~a")) as first, Matcher(RecordFilter(value="~b")) as second:
            await first.match(RECORDS)
            with pytest.raises(ClientError, match="1 searches with regular expressions are running"):
                await second.match(RECORDS)
            await first.close()
            assert await second.match([Record(value=b"b")]) != []

    asyncio.run(job())


def test_other_tasks_have_turns_while_much_is_filtered() -> None:
    """If this fails, a search takes the whole core, and frames of other viewers are late."""
    pauses_s: list[float] = []

    async def sleep(pause_s: float) -> None:
        pauses_s.append(pause_s)

    async def job() -> None:
        async with Matcher(RecordFilter(value="never")) as matcher:
            # A clock that shows the CPU time and the pauses, independent of the load of the machine.
            matcher._pace = Pace(matching.SHARE, clock_s=lambda: time.thread_time() + sum(pauses_s), sleep=sleep)
            matcher._pace.begin()
            many = [Record(value=b"x" * 500) for _ in range(4_000)]
            cpu_s = time.thread_time()
            while time.thread_time() - cpu_s < 0.2:
                await matcher.match(many)
            assert sum(pauses_s) > 0.1

    asyncio.run(job())
