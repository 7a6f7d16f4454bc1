"""The page of records: positions, search, live tail, one record, and access."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from broker_cy.admin.topics import NewTopic
from broker_cy.client.errors import ClientError, Failure
from broker_cy.wire.records import Record
from dashboard.collector import record_jobs
from dashboard.collector.record_request import parse_request
from dashboard.security.masking import Masking, parse_masks
from dashboard.security.roles import Scope
from tests.dashboard.pages.group_kit import drive, layout_of, seeing, until
from tests.dashboard.pages.record_kit import add, done, make, numbered, of, open_job
from tests.dashboard.support import OPERATOR, VIEWER, Desk
from tests.support.broker import Target
from tests.support.read_group import BEGIN_MS, FOR_EVER

MASKING = Masking(
    parse_masks(
        [{"topics": ["*"], "fields": ["$.card"], "keys": True, "headers": ["token"]}],
        lambda reason: ClientError(Failure.INVALID, reason),
    )
)
SECRET = Record(timestamp=BEGIN_MS, key=b"who", value=b'{"card": "4111", "id": 7}', headers=[("token", b"sesame")])
HIDDEN = replace(VIEWER, scope=Scope(unmasked=False))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"from_": "beginning"}, ["0-0", "1-0", "0-1", "1-1", "0-2", "1-2"]),
        ({"from_": "2"}, ["0-2", "1-2"]),
        ({"from_": "-2"}, ["1-2", "0-2"]),
        ({"from_": f"@{BEGIN_MS + 4_000}"}, ["0-2", "1-2"]),
        ({"from_": "beginning", "partitions": "1"}, ["1-0", "1-1", "1-2"]),
        ({"from_": "beginning", "value": "3"}, ["1-1"]),
        ({"from_": "beginning", "key": "~k[45]$"}, ["0-2", "1-2"]),
    ],
)
def test_positions_and_filters(broker: Target, topic: str, query: dict[str, str], expected: list[str]) -> None:
    """If this fails, a link to an offset or a time shows other records, or a search finds too few."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(6), 2)
        job = open_job(desk, topic, **query)
        progress = await desk.state("reading", done, **of(job))
        assert (progress["state"], progress["tone"], progress["done"]) == ("read to the end", "GOOD", 1.0)
        rows = await desk.rows("records", lambda state: state["found"] == len(expected), **of(job))
        assert list(rows) == expected
        first = rows[expected[0]]
        partition, offset = map(int, expected[0].split("-"))
        at = offset * 2 + partition
        assert (first["time"], first["key"], first["value"], first["size"]) == (
            f"@{BEGIN_MS + at * 1_000}", f"k{at}", str(at), "1 B",
        )  # fmt: skip

    drive(broker.bootstrap, work)


def test_a_search_pauses_at_a_page_and_goes_on_without_gaps(broker: Target, topic: str) -> None:
    """If this fails, a search ends without a message, or its second page leaves out records."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1_300))
        job = open_job(desk, topic, from_="beginning")
        looker = desk.look("reading", **of(job))
        progress = await looker.until(done)
        assert (progress["can"], progress["parts"][1][0]) == (["next"], "1,000 found")
        assert "a page is full" in progress["state"]
        last = await desk.rows("records", lambda state: state["found"] == 1_000, **of(job), **{"from": "900"})
        assert list(last)[-1] == "0-999"
        job.resume()
        progress = await looker.until(lambda state: state["state"] == "read to the end")
        assert (progress["can"], progress["parts"][1][0]) == ([], "1,300 found")
        rows = await desk.rows("records", lambda state: state["found"] == 300, **of(job))
        assert next(iter(rows)) == "0-1000"
        # The same search again, from its position.
        job.again()
        assert (await looker.until(lambda state: state["can"] == ["next"]))["parts"][1][0] == "1,000 found"

    drive(broker.bootstrap, work)


def test_a_live_tail_stops_and_resumes_where_it_stopped(broker: Target, topic: str) -> None:
    """If this fails, Stop loses the records of the time in between."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, numbered(5))
        job = open_job(desk, topic, live="1")
        looker = desk.look("reading", **of(job))
        await looker.until(lambda state: state["state"] == "live")
        await add(client, topic, numbered(2, 5))
        table = desk.look("records", **of(job))
        state = await table.until(lambda state: state["found"] == 2)
        assert [row["id"] for row in state["rows"]] == ["0-6", "0-5"]
        job.stop()
        stopped = await looker.until(lambda state: state["state"] == "stopped")
        assert stopped["can"] == ["resume"]
        await add(client, topic, numbered(3, 7))
        job.resume()
        state = await table.until(lambda state: state["found"] == 5)
        assert [row["id"] for row in state["rows"]] == ["0-9", "0-8", "0-7", "0-6", "0-5"]

    drive(broker.bootstrap, work)


def test_a_live_tail_counts_what_it_drops(broker: Target, topic: str) -> None:
    """If this fails, a burst exhausts the memory, or is dropped without a message."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, [])
        job = open_job(desk, topic, live="1")
        looker = desk.look("reading", **of(job))
        await looker.until(lambda state: state["state"] == "live")
        await add(client, topic, numbered(5_400))
        state = await looker.until(lambda state: state["parts"][0][0] == "5,400 seen")
        assert state["parts"][1:] == [["5,000 kept", "PLAIN"], ["400 dropped", "WARN"]]
        rows = await desk.rows("records", lambda state: state["found"] == 5_000, **of(job))
        assert next(iter(rows)) == "0-5399"

    drive(broker.bootstrap, work)


def test_nothing_is_read_while_nobody_looks(broker: Target, topic: str) -> None:
    """If this fails, a closed tab keeps the dashboard busy, or a tab that comes back shows an ended reading."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        await make(client, topic, [])
        job = open_job(desk, topic, live="1")
        await asyncio.sleep(0)
        assert not job.is_running
        heard = asyncio.Event()
        job.subscribe(heard.set)
        await until(lambda: job.tail is not None and job.tail.is_running, "the tail")
        job.unsubscribe(heard.set)
        await until(lambda: not job.is_running and job.tail is not None and not job.tail.is_running, "the end")
        await add(client, topic, numbered(1))
        job.subscribe(heard.set)
        await until(lambda: len(job.rows()) == 1, "the record of the time in between")
        assert job.error is None

    drive(broker.bootstrap, work)


def test_a_failure_is_reported_and_can_be_retried(broker: Target, topic: str) -> None:
    """If this fails, a reading that failed looks as if it were complete."""

    async def work(desk: Desk) -> None:
        job = open_job(desk, topic, from_="beginning")
        looker = desk.look("reading", **of(job))
        assert topic in await looker.failed()
        client = desk.hub.session.client
        await make(client, topic, numbered(2))
        job.resume()
        assert (await looker.until(done))["state"] == "read to the end"
        other = open_job(desk, topic, from_="beginning", partitions="0,7")
        assert "has no partition 7; it has 0 to 0" in await desk.look("records", **of(other)).failed()

    drive(broker.bootstrap, work)


def test_a_job_belongs_to_one_viewer(broker: Target, topic: str) -> None:
    """If this fails, one user sees or stops another user's reading."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1))
        job = open_job(desk, topic)
        jobs = desk.hub.jobs
        with pytest.raises(ClientError, match="has ended"):
            jobs.of(job.id, OPERATOR)
        with pytest.raises(ClientError, match="has ended"):
            jobs.get(job.id, f"{topic}-other", desk.identity.scope)
        desk.identity = seeing(VIEWER, topics=(f"{topic}*",))
        with pytest.raises(ClientError, match="has ended"):
            desk.look("records", **of(job))
        desk.identity = seeing(VIEWER, topics=("other*",))
        for channel, params in (
            ("records", of(job)),
            ("reading", of(job)),
            ("record", {"topic": topic, "partition": "0", "offset": "0"}),
        ):
            with pytest.raises(ClientError, match="may not see topic"):
                desk.look(channel, **params)
        with pytest.raises(ClientError, match="may not see topic"):
            layout_of(desk, "records", topic=topic)
        assert len(jobs) == 1

    drive(broker.bootstrap, work)


def test_jobs_are_bounded(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one user exhausts the dashboard's memory, or keeps all others from reading."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1))
        first = open_job(desk, topic)
        looker = desk.look("reading", **of(first))
        await looker.until(done)
        for _ in range(record_jobs.JOBS_OF_USER_MAX * 2):
            open_job(desk, topic)
        # The only watched job still exists.
        assert len(desk.hub.jobs) == record_jobs.JOBS_OF_USER_MAX
        assert first.ended == ""
        monkeypatch.setattr(record_jobs, "JOBS_OF_USER_MAX", 1)
        open_job(desk, topic)
        assert "you opened 1 newer ones" in await looker.failed()
        monkeypatch.setattr(record_jobs, "JOBS_MAX", 1)
        desk.identity = OPERATOR
        mine = open_job(desk, topic)
        await desk.state("reading", done, **of(mine))
        desk.identity = VIEWER
        with pytest.raises(ClientError, match="1 topics are being read"):
            open_job(desk, topic)

    drive(broker.bootstrap, work)


def test_idle_jobs_end(broker: Target, topic: str) -> None:
    """If this fails, the records of closed tabs stay in memory forever."""

    async def work(desk: Desk) -> None:
        clock = 0.0
        jobs = record_jobs.RecordJobs(desk.hub.session.client, lambda: clock)
        request, _ = parse_request(topic, {})
        assert request is not None
        unseen, seen = jobs.open(desk.identity, request), jobs.open(desk.identity, request)
        heard = asyncio.Event()
        seen.subscribe(heard.set)
        clock = record_jobs.UNSEEN_S - 1
        jobs.sweep()
        assert len(jobs) == 2
        seen.unsubscribe(heard.set)
        clock += 1
        jobs.sweep()
        assert (len(jobs), unseen.ended != "", seen.ended) == (1, True, "")
        clock += record_jobs.KEPT_S
        jobs.sweep()
        assert (len(jobs), seen.ended != "") == (0, True)
        await jobs.close()

    drive(broker.bootstrap, work)


def test_one_record_in_full(broker: Target, topic: str) -> None:
    """If this fails, numbers are rounded, bytes are unreadable, or an offset without a record shows no message."""

    async def work(desk: Desk) -> None:
        client = desk.hub.session.client
        records = [
            Record(
                timestamp=BEGIN_MS,
                key=b"\x00\xff",
                value=b'{"id": 9007199254740993}',
                headers=[("a", b"b"), ("n", None)],
            ),
            Record(timestamp=BEGIN_MS, key=None, value=b"plain\x1b[31m"),
        ]
        await make(client, topic, records)
        where: dict[str, Any] = {"topic": topic, "partition": "0"}
        found = await desk.state("record", **where, offset="0")
        facts = dict(found["facts"])
        assert (facts["time"], facts["UTC"], facts["value"]) == (f"@{BEGIN_MS}", "2023-11-14 22:13:20.000Z", "24 B")
        assert found["headers"] == [["a", "b"], ["n", "null"]]
        assert found["key"].startswith("00000000  00 ff")
        assert '"id": 9007199254740993' in found["value"]
        other = await desk.state("record", **where, offset="1")
        assert (other["key"], "\x1b" in other["value"]) == ("null", False)
        assert (await desk.state("record", **where, offset="0", format="hex"))["value"].startswith("00000000  7b 22")
        assert "there is no offset 2 yet: the next one is 2" in await desk.look("record", **where, offset="2").failed()
        for bad in ({"offset": "x"}, {"offset": "1", "format": "xml"}, {"offset": "1" * 20}):
            with pytest.raises(ClientError, match=r"is expected|are allowed"):
                desk.look("record", **where, **bad)

    drive(broker.bootstrap, work)


def test_hidden_fields_are_hidden_everywhere(broker: Target, topic: str) -> None:
    """If this fails, a user without `unmasked` reads a field that the rules hide, or finds it by searching."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, [SECRET])
        job = open_job(desk, topic)
        looker = desk.look("records", **of(job))
        state = await looker.until(lambda state: state["found"] == 1)
        one = desk.look("record", topic=topic, partition="0", offset="0")
        found = await one.until(lambda state: True)
        for text in (str(looker.states), str(one.states)):
            assert not any(secret in text for secret in ("4111", "sesame", "who")), text
        assert '"id": 7' in found["value"]
        assert found["masked"]
        assert state["rows"][0]["id"] == "0-0"
        # The filter of the table must not look into the record either.
        filtered: dict[str, Any] = {**of(job), "filter": "4111"}
        assert (await desk.state("records", **filtered))["found"] == 1
        for query, reason in (({"value": "4111"}, "hidden from you"), ({"path": "$.card = 4111"}, "hidden from you"),
                              ({"key": "who"}, "keys of")):  # fmt: skip
            page = layout_of(desk, "records", topic=topic, **query)
            assert reason in page
            assert "data-panel" not in page
        assert "data-panel" in layout_of(desk, "records", topic=topic, path="$.id = 7")

    drive(broker.bootstrap, work, HIDDEN, masking=MASKING)


def test_text_of_records_is_never_taken_for_something_else(broker: Target, topic: str) -> None:
    """If this fails, a key such as @1700000000000 is shown as a time, or a control character reaches the page."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, [Record(timestamp=-1, key=b"@1700000000000", value=b"a\x00b")])
        state = await desk.state("records", lambda state: state["found"] == 1, **of(open_job(desk, topic)))
        cells = state["rows"][0]["cells"]
        assert cells[3] == {"t": "@1700000000000", "literal": True}
        assert cells[5] == "61 00 62"

    drive(broker.bootstrap, work)


def test_the_address_is_the_state_of_the_page(broker: Target, topic: str) -> None:
    """If this fails, a shared link shows another view, or a wrong one shows nothing at all."""

    async def work(desk: Desk) -> None:
        (await desk.hub.session.client.topics.create([NewTopic(topic, 2, configs=FOR_EVER)])).whole()
        page = layout_of(desk, "records", topic=topic, **{"from": "17", "partitions": "1", "value": "x"})
        assert '"name": "from", "label": "From", "value": "17"' in page
        assert "from=17&partitions=1&value=x" in page
        wrong = layout_of(desk, "records", topic=topic, **{"from": "soon", "value": "~("})
        assert "is not a position: beginning, end, an offset" in wrong
        assert "is not a regular expression" in wrong
        assert "data-panel" not in wrong
        long = layout_of(desk, "records", topic=topic, value="x" * 1_001)
        assert "1,000 characters are allowed" in long
        with pytest.raises(ClientError, match="names no topic"):
            layout_of(desk, "records")

    drive(broker.bootstrap, work)
