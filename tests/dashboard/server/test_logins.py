"""The whole dashboard, over its sockets, with users of three roles: their access, and attacks."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from broker_cy.admin import AdminClient
from broker_cy.admin.records import Start
from broker_cy.admin.topics import NewTopic
from broker_cy.metrics.events import TopicCreated
from tests.support.broker import QUICK, BrokerProcess
from tests.support.dashboard import running_dashboard

PASSWORD = "correct horse battery"
WAIT_S = 60.0


@dataclass(frozen=True)
class Site:
    """A dashboard with the users ada (admin), olga (operator) and vera (viewer of orders* only)."""

    url: str
    cluster: str
    users: Path
    state: Path

    @property
    def origin(self) -> str:
        return self.url.rstrip("/")


def user(users: Path, *arguments: str) -> None:
    """Run `broker-dash user`."""
    done = subprocess.run(
        [sys.executable, "-m", "dashboard", "user", *arguments, "--users", str(users)],
        input=PASSWORD.encode(),
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(scope="module")
def broker_cy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    broker = BrokerProcess(tmp_path_factory.mktemp("broker"), QUICK)
    try:
        broker.start()
        asyncio.run(_topics(broker.bootstrap))
        yield broker
    finally:
        broker.close()


async def _topics(bootstrap: str) -> None:
    async with AdminClient(bootstrap) as client:
        (await client.topics.create([NewTopic(name, 1) for name in ("orders-1", "orders-2", "payments")])).whole()


@pytest.fixture
def site(broker_cy: BrokerProcess, tmp_path: Path) -> Iterator[Site]:
    users = tmp_path / "users.toml"
    user(users, "add", "ada", "--role", "admin", "--password-stdin")
    user(users, "add", "olga", "--role", "operator", "--password-stdin")
    user(users, "add", "vera", "--role", "viewer", "--topics", "orders*", "--password-stdin")
    options = ["--bootstrap", broker_cy.bootstrap, "--users", str(users), "--state", str(tmp_path / "state")]
    with running_dashboard(options, env={"XDG_CONFIG_HOME": str(tmp_path)}) as url:
        yield Site(url, broker_cy.bootstrap, users, tmp_path / "state")


def run(job: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(job())  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def logged_in(site: Site, name: str) -> AsyncIterator[httpx.AsyncClient]:
    """A browser's client with the cookie of a user, which sends the origin as browsers do."""
    async with httpx.AsyncClient(base_url=site.origin, headers={"Origin": site.origin}, timeout=30) as client:
        answer = await client.post("/login", data={"name": name, "password": PASSWORD, "next": "/"})
        assert answer.status_code == 303, answer.text
        yield client


def live(site: Site, client: httpx.AsyncClient | None, origin: str | None = None) -> Any:
    """Connect to /live with the cookies of a client."""
    cookies = "; ".join(f"{name}={value}" for name, value in client.cookies.items()) if client is not None else ""
    address = urlsplit(site.origin)
    return connect(
        f"ws://{address.netloc}/live",
        origin=origin if origin is not None else site.origin,  # type: ignore[arg-type]
        additional_headers={"Cookie": cookies} if cookies else {},
    )


async def told(socket: ClientConnection, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Return the next message that satisfies `wanted`."""
    async with asyncio.timeout(WAIT_S):
        while True:
            for line in str(await socket.recv()).split("\n"):
                message: dict[str, Any] = json.loads(line)
                if wanted(message):
                    return message


async def closed(socket: ClientConnection) -> None:
    """Wait until the server has closed the connection."""
    async with asyncio.timeout(WAIT_S):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()


def subscribe(site: Site, channel: str, **params: str) -> str:
    return json.dumps({"subscribe": {"id": "a", "cluster": site.cluster, "channel": channel, "params": params}})


def test_nothing_without_a_login(site: Site) -> None:
    """If this fails, every host of the network can read the cluster."""

    async def job() -> None:
        async with httpx.AsyncClient(base_url=site.origin, headers={"Origin": site.origin}, timeout=30) as client:
            page = await client.get(f"/c/{site.cluster}/topics", headers={"Accept": "text/html"})
            assert page.status_code in (302, 303)
            assert page.headers["location"].startswith("/login")
            for path in ("/_dash-layout", "/_dash-dependencies", "/assets/live.js", "/export", "/nothing"):
                assert (await client.get(path)).status_code == 401, path
            for path in ("/_dash-update-component", "/act/open", "/act/plan", "/act/execute"):
                assert (await client.post(path, json={})).status_code == 401, path
            assert (await client.get("/healthz")).status_code == 200
            wrong = await client.post("/login", data={"name": "ada", "password": "wrong", "next": "/"})
            assert wrong.status_code == 401
        with pytest.raises(InvalidStatus):
            await live(site, None)

    run(job)


@pytest.mark.full
def test_forged_origins_are_refused(site: Site) -> None:
    """If this fails, a page of another site acts with its visitor's login."""

    async def job() -> None:
        async with logged_in(site, "ada") as client:
            request = {"cluster": site.cluster, "act": "create-topic", "params": {}, "rows": []}
            for origin in ("https://evil.example", "null", site.origin + ".evil.example"):
                answer = await client.post("/act/open", json=request, headers={"Origin": origin})
                assert answer.status_code == 403, origin
                with pytest.raises(InvalidStatus):
                    await live(site, client, origin)
            assert (await client.post("/act/open", json=request)).status_code == 200

    run(job)


@pytest.mark.full
def test_a_viewer_sees_only_what_is_allowed(site: Site) -> None:
    """If this fails, names of topics that a user may not see are in frames, counts or searches."""

    async def job() -> None:
        async with logged_in(site, "vera") as client, live(site, client) as socket:
            await socket.send(subscribe(site, "topics", internal="1"))
            message = await told(socket, lambda each: bool(each.get("data")))
            assert [row["id"] for row in message["data"]["rows"]] == ["orders-1", "orders-2"]
            assert (message["data"]["found"], message["data"]["total"]) == (2, 2)
            await socket.send(subscribe(site, "topics", filter="pay"))
            message = await told(socket, lambda each: bool(each.get("data")))
            assert message["data"]["rows"] == []

    run(job)


@pytest.mark.full
def test_acts_past_the_role_are_refused_and_noted(site: Site) -> None:
    """If this fails, only a hidden button keeps a viewer from deleting a topic."""

    async def job() -> None:
        async def opened(client: httpx.AsyncClient, act: str, **params: str) -> tuple[int, str]:
            request = {"cluster": site.cluster, "act": act, "params": params, "rows": []}
            answer = await client.post("/act/open", json=request)
            return answer.status_code, answer.text

        async with logged_in(site, "vera") as vera, logged_in(site, "olga") as olga, logged_in(site, "ada") as ada:
            for client, act in ((vera, "create-topic"), (vera, "delete-topics"), (olga, "delete-topics")):
                status, text = await opened(client, act, topic="orders-1")
                assert status == 403, text
                assert "role" in text
            status, text = await opened(ada, "delete-topics", topic="orders-1")
            plan = json.loads(text)["plan"]
            # Another user cannot execute it, and it needs the typed name.
            for client in (vera, olga):
                refused = await client.post("/act/execute", json={"plan": plan["id"], "typed": "orders-1"})
                assert refused.status_code == 400
            wrong = await ada.post("/act/execute", json={"plan": plan["id"], "typed": "orders"})
            assert "nothing was changed" in wrong.json()["error"]
        entries = [json.loads(line) for line in (site.state / "audit.log").read_text().splitlines()]
        refused_acts = [(each["user"], each["act"]) for each in entries if each["result"].startswith("refused")]
        assert {("vera", "create-topic"), ("vera", "delete-topics"), ("olga", "delete-topics")} <= set(refused_acts)

    run(job)


@pytest.mark.full
def test_events_name_who_changed_something(site: Site, broker_cy: BrokerProcess) -> None:
    """If this fails, a shared dashboard hides which user made a change."""

    async def job() -> None:
        async with logged_in(site, "olga") as client:
            request = {"cluster": site.cluster, "act": "create-topic", "params": {}, "rows": []}
            values = {"name": "by-olga", "partitions": "1", "replicas": "", "settings": ""}
            answer = (await client.post("/act/plan", json={**request, "values": values})).json()
            done = (await client.post("/act/execute", json={"plan": answer["plan"]["id"], "typed": None})).json()
            assert "created topic by-olga" in done["said"]
            again = await client.post("/act/execute", json={"plan": answer["plan"]["id"], "typed": None})
            assert again.status_code == 400
        async with AdminClient(broker_cy.bootstrap) as admin:
            span = await admin.events.span(Start.earliest())
            entries = await admin.events.read_range(span.start, span.end) or []
            authors = {
                each.item.event.topic: each.item.event.by.client_id
                for each in entries
                if each.item is not None and isinstance(each.item.event, TopicCreated)
            }
            assert authors["by-olga"] == "dashboard/olga"

    run(job)


def test_a_removed_user_loses_open_sockets(site: Site) -> None:
    """If this fails, a removed user keeps watching until the tab is closed."""

    async def job() -> None:
        async with logged_in(site, "vera") as client, live(site, client) as socket:
            await socket.send(subscribe(site, "health"))
            await told(socket, lambda each: bool(each.get("data")))
            await asyncio.to_thread(user, site.users, "remove", "vera", "--yes")
            await closed(socket)
            assert (await client.get("/_dash-layout")).status_code == 401

    run(job)


@pytest.mark.full
def test_oversized_messages_and_bodies_end_only_their_sender(site: Site) -> None:
    """If this fails, one client can exhaust the dashboard's memory."""

    async def job() -> None:
        async with logged_in(site, "ada") as client, live(site, client) as other:
            await told(other, lambda each: "hello" in each)
            async with live(site, client) as socket:
                await socket.send("x" * 100_000)
                await closed(socket)
            # The dashboard closes the connection after its response; a client that is still writing may not receive it.
            with contextlib.suppress(httpx.TransportError):
                assert (await client.post("/act/open", content=b"x" * (9 << 20))).status_code == 413
            await other.send(subscribe(site, "health"))
            await told(other, lambda each: bool(each.get("data")))

    run(job)
