"""GETs that are answered where their bytes arrive: the same answers as by ASGI, and on the same connections."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import MutableMapping
from typing import Any

import pytest

from broker_cy.admin import AdminClient
from broker_registry.api.app import App
from broker_registry.api.quick import HEADERS_MAX, Peer, Requests, Short, read_headers
from broker_registry.schema_types.base import Reference
from broker_registry.security.access import EVERYTHING
from broker_registry.service import Service
from broker_registry.store.values import Config
from tests.broker_registry.api.support import GivenGuard
from tests.broker_registry.operations.support import add, record_of, wanted
from tests.support.registry import RegistryProcess

PEER = Peer("127.0.0.1")
TYPE = b"application/vnd.schemaregistry.v1+json"
TARGETS = [
    b"/schemas/ids/1",
    b"/schemas/ids/1/schema",
    b"/schemas/ids/1?fetchMaxId=false&subject=orders-value",
    b"/schemas/ids/1?subject=%3A.test%3Aorders",
    b"/schemas/ids/9",
    b"/schemas/ids/x",
    b"/schemas/ids/1/subjects",
    b"/schemas/types",
    b"/schemas?latestOnly=true",
    b"/contexts/.test/subjects",
    b"/contexts/a:b:c/subjects",
    b"/subjects",
    b"/subjects/orders-value/versions",
    b"/subjects/orders-value/versions/latest",
    b"/subjects/alias/versions/1",
    b"/subjects/a%2Fb/versions/1",
    b"/subjects/%ff/versions",
    b"/subjects/orders-value/versions/0",
    b"/subjects?offset=x",
    b"/config",
    b"/mode/orders-value",
    b"/config/orders-value?defaultToGlobal=true",
    b"/nowhere",
    b"/",
    b"//",
]


def unused() -> AdminClient:
    raise AssertionError("no broker is needed")


@pytest.fixture
def app() -> App:
    service = Service(unused)
    state = service.state
    add(state, wanted("orders-value", record_of("x:int")))
    add(state, wanted("a/b", record_of("y:int", name="S")))
    add(state, wanted(":.test:orders", record_of("x:int")))
    text = '{"type":"record","name":"T","fields":[{"name":"r","type":"R"}]}'
    add(state, wanted("refers", text, Reference("R", "orders-value", 1)))
    state.configs["alias"] = Config(alias="orders-value")
    return App(service, GivenGuard(EVERYTHING))


def by_asgi(app: App, request: Short) -> tuple[int, bytes, bytes]:
    """Return status, type and body of the answer that ASGI gives."""
    path, _, query = request.target.partition(b"?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": "",
        "raw_path": path,
        "query_string": query,
        "headers": [(b"accept", request.accept)] if request.accept else [],
    }
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    start, body = sent
    headers = dict(start["headers"])
    assert int(headers[b"content-length"]) == len(body["body"])
    return start["status"], headers[b"content-type"], body["body"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("accept", [b"", b"*/*", b"application/json; q=0.5, application/vnd.schemaregistry+json"])
def test_both_ways_have_the_same_answers(app: App, target: bytes, accept: bytes) -> None:
    """If this fails, the answer to a request depends on how its bytes arrive."""
    request = Short(target, accept)
    found = app.quick(request, PEER)
    assert found is not None
    assert found == by_asgi(app, request)


def test_requests_that_wait_are_left_to_asgi(app: App) -> None:
    """If this fails, a text in another format blocks all clients, or a type that is not served is answered."""
    long = json.dumps({"type": "record", "name": "L", "fields": [{"name": f"f{n}", "type": "int"} for n in range(500)]})
    add(app.service.state, wanted("long", long))
    assert app.quick(Short(b"/subjects/long/versions/1", b""), PEER) is not None
    assert app.quick(Short(b"/subjects/long/versions/1?format=resolved", b""), PEER) is None
    assert app.quick(Short(b"/subjects", b"text/html"), PEER) is None


HEAD = b"Host: h\r\nAccept: application/json\r\nUser-Agent: a b\r\n\r\n"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET ",
        b"GET / HTTP/1.0\r\n" + HEAD,
        b"HEAD / HTTP/1.1\r\n" + HEAD,
        b"POST / HTTP/1.1\r\n" + HEAD,
        b"GET /a b HTTP/1.1\r\n" + HEAD,
        b"GET /a#b HTTP/1.1\r\n" + HEAD,
        b"GET /\xc3\xa4 HTTP/1.1\r\n" + HEAD,
        b"GET http://h/ HTTP/1.1\r\n" + HEAD,
        b"GET / HTTP/1.1\r\n" + HEAD[:-2],
        b"GET / HTTP/1.1\r\n" + HEAD + b"x",
        (b"GET / HTTP/1.1\r\n" + HEAD) * 2,
        b"GET / HTTP/1.1\r\nX: " + b"x" * 8_192 + b"\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nContent-Length: 0\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nExpect: 100-continue\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nConnection: close\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nAccept: text/html\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nX : y\r\n" + HEAD,
        b"GET / HTTP/1.1\r\n folded\r\n" + HEAD,
        b"GET / HTTP/1.1\r\nnothing\r\n" + HEAD,
    ],
)
def test_all_other_requests_go_to_the_whole_parser(data: bytes) -> None:
    """If this fails, a request that means something else is answered as a plain GET."""
    assert Requests().read(data) is None


def test_plain_requests_are_read() -> None:
    """If this fails, all requests take the slow way; or the headers of clients fill the memory."""
    requests = Requests()
    for number in range(HEADERS_MAX * 2 + 1):
        data = b"GET /subjects?x=%d HTTP/1.1\r\nX-Trace: %d\r\nconnection: keep-alive\r\n" % (number, number) + HEAD
        assert requests.read(data) == Short(b"/subjects?x=%d" % number, b"application/json")
    assert len(requests._read) <= HEADERS_MAX
    assert read_headers(b"Host: h\r\nauthorization: A\r\n\r\n") == (b"", (b"A",))


def test_requests_of_both_kinds_on_one_connection(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a client that sends requests in parts, or several at a time, gets answers in another order."""
    host, port = registry.url.removeprefix("http://").split(":")
    schema = json.dumps({"schema": record_of("x:int")}).encode()
    path = f"/subjects/{subject}/versions".encode()
    get = b"GET " + path + b" HTTP/1.1\r\nHost: h\r\n\r\n"
    post = b"POST " + path + b" HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % len(schema) + schema
    pieces = [get, post, get, get + get, get[:20], get[20:], post[:-5], post[-5:] + get, get]
    expected = [404, 200, 200, 200, 200, 200, 200, 200, 200]
    with socket.create_connection((host, int(port)), 30) as connection, connection.makefile("rb") as answers:
        found = []
        waiting = iter((1, 1, 1, 2, 0, 1, 0, 2, 1))
        for piece in pieces:
            connection.sendall(piece)
            for _ in range(next(waiting)):
                found.append(int(answers.readline().split()[1]))
                names = {}
                while line := answers.readline().strip():
                    name, _, value = line.partition(b": ")
                    names[name.lower()] = value
                body = answers.read(int(names[b"content-length"]))
                assert names[b"content-type"] == TYPE
                assert b"date" in names
                assert isinstance(json.loads(body), list if found[-1] == 200 and b'"id"' not in body else dict)
    assert found == expected
