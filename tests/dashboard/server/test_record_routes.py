"""The HTTP routes of records: exports, and the buttons of a reading."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from broker_cy.client.errors import ClientError, Failure
from broker_cy.wire.records import Record
from dashboard import record_routes
from dashboard.context import IDENTITY
from dashboard.security.masking import Masking, parse_masks
from dashboard.security.roles import Identity
from tests.dashboard.pages.group_kit import drive, seeing, until
from tests.dashboard.pages.record_kit import done, make, numbered, of, open_job
from tests.dashboard.support import CLUSTER, OPERATOR, VIEWER, Desk
from tests.support.broker import Target
from tests.support.read_group import BEGIN_MS


@asynccontextmanager
async def browser(desk: Desk, identity: Identity | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the routes, as this identity."""
    app = Starlette(routes=record_routes.routes(desk.context))
    token = IDENTITY.set(identity or desk.identity)
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://dashboard") as client:
            yield client
    finally:
        IDENTITY.reset(token)


def lines(response: httpx.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def test_an_export_has_every_record_once(broker: Target, topic: str) -> None:
    """If this fails, an exported file cannot be produced again, or lacks records."""

    async def work(desk: Desk) -> None:
        records = [Record(timestamp=BEGIN_MS, key=None, value=b"\xff", headers=[("h", None)]), *numbered(2_999, 1)]
        await make(desk.hub.session.client, topic, records, 3)
        async with browser(desk) as client:
            response = await client.get("/export", params={"cluster": CLUSTER, "topic": topic, "from": "beginning"})
            assert response.headers["content-disposition"] == f'attachment; filename="{topic}.jsonl"'
            found = lines(response)
            assert len(found) == 3_000
            assert found[0] == {
                "topic": topic, "partition": 0, "offset": 0, "timestamp": BEGIN_MS, "key": None,
                "value": {"base64": "/w=="}, "headers": [{"name": "h", "value": None}],
            }  # fmt: skip
            for partition in range(3):
                assert [each["offset"] for each in found if each["partition"] == partition] == list(range(1_000))
            some = await client.get(
                "/export",
                params={"cluster": CLUSTER, "topic": topic, "from": "500", "partitions": "1", "value": "~^15..$"},
            )
            assert [each["value"] for each in lines(some)] == [str(at) for at in range(1_501, 1_600, 3)]
            head = await client.head("/export", params={"cluster": CLUSTER, "topic": topic})
            assert (head.status_code, head.text) == (200, "")
        (entry, _) = [each for each in desk.security.audit.entries if each["act"] == "export"]
        assert (entry["user"], entry["subject"], entry["result"]) == (VIEWER.name, topic, "started, 3,000 offsets")

    drive(broker.bootstrap, work, VIEWER)


def test_what_is_wrong_with_an_export_is_named(broker: Target, topic: str) -> None:
    """If this fails, a wrong address downloads an empty file, or the records of a topic that the user may not see."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1))
        base = {"cluster": CLUSTER, "topic": topic}
        async with browser(desk) as client:
            for params, status, reason in (
                ({"topic": topic}, 400, "cluster and topic are expected"),
                ({**base, "from": "soon"}, 400, "from: 'soon' is not a position"),
                ({**base, "from": "end"}, 400, "there is nothing to export"),
                ({**base, "partitions": "4"}, 400, "has no partition 4"),
                ({**base, "topic": "a/../b"}, 400, "topic: '/' is not allowed"),
                ({**base, "topic": "absent"}, 403, "UNKNOWN_TOPIC_OR_PARTITION"),
            ):
                response = await client.get("/export", params=params)
                assert (response.status_code, reason in response.text) == (status, True), response.text
        async with browser(desk, seeing(VIEWER, topics=("other",))) as client:
            response = await client.get("/export", params=base)
            assert (response.status_code, "may not see topic" in response.text) == (403, True)

    drive(broker.bootstrap, work, VIEWER)


def test_an_export_is_masked(broker: Target, topic: str) -> None:
    """If this fails, a user downloads fields that they may not see."""
    masking = Masking(
        parse_masks([{"topics": [topic], "fields": ["$.card"]}], lambda reason: ClientError(Failure.INVALID, reason))
    )

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, [Record(timestamp=0, value=b'{"card": "4111", "id": 1}')])
        params = {"cluster": CLUSTER, "topic": topic, "from": "beginning"}
        async with browser(desk) as client:
            (found,) = lines(await client.get("/export", params=params))
            assert json.loads(found["value"]) == {"card": "***", "id": 1}
            refused = await client.get("/export", params={**params, "value": "4111"})
            assert (refused.status_code, "hidden from you" in refused.text) == (403, True)

    drive(broker.bootstrap, work, seeing(VIEWER), masking=masking)


def test_an_export_that_ends_early_says_so(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a truncated file looks complete."""
    monkeypatch.setattr(record_routes, "RECORDS_MAX", 10)

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(100))
        params = {"cluster": CLUSTER, "topic": topic, "from": "beginning"}
        async with browser(desk) as client:
            found = lines(await client.get("/export", params=params))
            assert len(found) == 11
            assert found[-1]["incomplete"].startswith("an export has at most 10 records")

    drive(broker.bootstrap, work)


def test_an_export_ends_with_its_client(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, cancelled downloads continue to read, and soon no user can export records."""
    monkeypatch.setattr(record_routes, "_PART_BYTES", 100)

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(5_000))
        exports = record_routes.Exports(desk.context)
        app = Starlette(routes=[Route("/export", exports.serve)])
        sent: list[MutableMapping[str, Any]] = []
        left, stuck = asyncio.Event(), asyncio.Event()

        async def receive() -> MutableMapping[str, Any]:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)
            if len(sent) > 3:
                stuck.set()
                await asyncio.Event().wait()

        query = f"cluster={CLUSTER}&topic={topic}&from=beginning".encode()
        scope = {"type": "http", "method": "GET", "path": "/export", "query_string": query, "headers": []}
        token = IDENTITY.set(desk.identity)
        running = asyncio.create_task(app(scope, receive, send))
        IDENTITY.reset(token)
        await stuck.wait()
        assert exports._running.total() == 1
        left.set()
        await asyncio.wait_for(running, 10)
        assert exports._running.total() == 0
        assert len(sent) == 4

    drive(broker.bootstrap, work)


def test_exports_are_bounded(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one user occupies the dashboard with downloads."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1))
        params = {"cluster": CLUSTER, "topic": topic, "from": "beginning"}
        for name in ("EXPORTS_OF_USER_MAX", "EXPORTS_MAX"):
            with monkeypatch.context() as patched:
                patched.setattr(record_routes, name, 0)
                async with browser(desk) as client:
                    response = await client.get("/export", params=params)
                assert (response.status_code, "0 exports" in response.text) == (403, True)

    drive(broker.bootstrap, work)


def test_exports_at_once_are_bounded(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one user starts any number of downloads, by starting them at the same time."""
    monkeypatch.setattr(record_routes, "_PART_BYTES", 100)

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1_000))
        exports = record_routes.Exports(desk.context)
        app = Starlette(routes=[Route("/export", exports.serve)])
        left = asyncio.Event()
        statuses: list[int] = []

        async def receive() -> MutableMapping[str, Any]:
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
            elif statuses.count(200) and message.get("more_body"):
                # A client that stops reading.
                await asyncio.Event().wait()

        async def export(query: bytes) -> None:
            scope = {"type": "http", "method": "GET", "path": "/export", "query_string": query, "headers": []}
            token = IDENTITY.set(desk.identity)
            try:
                await app(scope, receive, send)
            finally:
                IDENTITY.reset(token)

        query = f"cluster={CLUSTER}&topic={topic}&from=beginning".encode()
        running = [asyncio.create_task(export(query)) for _ in range(10)]
        await until(lambda: len(statuses) == 10, "the answers")
        assert sorted(statuses) == [200] * record_routes.EXPORTS_OF_USER_MAX + [403] * 8
        assert exports._running.total() == record_routes.EXPORTS_OF_USER_MAX
        left.set()
        await asyncio.wait_for(asyncio.gather(*running), 10)
        assert not exports._running
        # The client disconnects before the first part.
        await asyncio.wait_for(export(query), 10)
        assert not exports._running
        # A failure between the start and the response.
        await asyncio.wait_for(export(query + b"&partitions=9"), 10)
        assert (statuses[-1], exports._running) == (400, {})

    drive(broker.bootstrap, work)


def test_a_response_that_is_never_sent_has_no_place(broker: Target, topic: str) -> None:
    """If this fails, exports are refused forever although none is running."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1))
        exports = record_routes.Exports(desk.context)
        query = f"cluster={CLUSTER}&topic={topic}&from=beginning".encode()
        scope = {"type": "http", "method": "GET", "path": "/export", "query_string": query, "headers": []}
        token = IDENTITY.set(desk.identity)
        try:
            response = await exports.serve(Request(scope))
            assert exports._running.total() == 1
            del response
            gc.collect()
            assert not exports._running
        finally:
            IDENTITY.reset(token)

    drive(broker.bootstrap, work)


@pytest.mark.parametrize("value", ["", "no record has this"])
def test_an_export_ends_with_the_login(broker: Target, topic: str, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """If this fails, a removed user continues to download records for half an hour."""
    monkeypatch.setattr(record_routes, "_PART_BYTES", 100)

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(1_000))
        checks = 0

        def current(_: Identity) -> str:
            nonlocal checks
            checks += 1
            return "the session has ended: the user was changed or removed" if checks > (0 if value else 2) else ""

        monkeypatch.setattr(desk.security, "current", current)
        params = {"cluster": CLUSTER, "topic": topic, "from": "beginning", "value": value}
        async with browser(desk) as client:
            found = lines(await client.get("/export", params=params))
        assert found[-1] == {"incomplete": "the session has ended: the user was changed or removed"}
        assert (1 if value else 2) <= len(found) < 100

    drive(broker.bootstrap, work)


def test_the_buttons_of_a_reading(broker: Target, topic: str) -> None:
    """If this fails, Stop does nothing, or works on the readings of others."""

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, numbered(3))
        job = open_job(desk, topic, live="1")
        looker = desk.look("reading", **of(job))
        await looker.until(lambda state: state["state"] == "live")
        body = {"cluster": CLUSTER, "job": job.id}
        async with browser(desk, OPERATOR) as other:
            response = await other.post("/reading/stop", json=body)
            assert (response.status_code, response.json()) == (400, {"error": "this reading has ended: read again"})
        assert job.is_running
        async with browser(desk) as client:
            assert (await client.post("/reading/stop", json=body)).json() == {}
            await looker.until(lambda state: state["state"] == "stopped")
            await client.post("/reading/resume", json=body)
            await looker.until(lambda state: state["state"] == "live")
            for wrong in ({}, {"cluster": CLUSTER, "job": 1}, {"cluster": "other", "job": job.id}):
                assert "error" in (await client.post("/reading/stop", json=wrong)).json()
            assert "known: stop, resume, again, leave" in (await client.post("/reading/x", json=body)).json()["error"]
            assert (await client.post("/reading/stop", content=b"{")).json()["error"].startswith("not JSON")
            assert (await client.post("/reading/leave", json=body)).json() == {}
        assert "page was left" in await looker.failed()
        await until(lambda: len(desk.hub.jobs) == 0, "the end of the job")
        again = open_job(desk, topic, from_="beginning")
        assert (await desk.state("reading", done, **of(again)))["done"] == 1.0

    drive(broker.bootstrap, work)
