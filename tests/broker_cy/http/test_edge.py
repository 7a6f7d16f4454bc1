"""The edge of a program with a REST interface; tests/dashboard/security has its checks one by one."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.types import ASGIApp

from broker_cy.client.errors import ClientError, Failure
from broker_cy.http.addresses import Host, Hosts
from broker_cy.http.answers import JsonRequest, json_route
from broker_cy.http.edge import Edge
from broker_cy.http.requests import Answer, Headers, Request

ORIGIN = "http://127.0.0.1:8081"


class TokenLogin:
    """A login by a header that only programs send."""

    is_required = True
    hint = "a token"

    def __init__(self) -> None:
        self.notes: list[str] = []

    def identify(self, request: Request) -> str | None:
        kind, _, token = request.header(b"authorization").partition(" ")
        return token if kind == "Bearer" else None

    def is_open(self, request: Request) -> bool:
        return False

    def needed(self, request: Request) -> Answer:
        return Answer(401, "send a token", ((b"www-authenticate", b"Bearer"),))

    def ended(self, identity: str) -> str:
        return ""

    def note(self, request: Request, identity: str | None, result: str) -> None:
        self.notes.append(f"{request.method} {request.path} {result}")


class NoHeaders:
    def applied(self, headers: Headers, host: Host | None, *, path: str, status: int) -> Headers:
        return headers


async def rename(request: JsonRequest) -> dict[str, Any]:
    if request.path["subject"] == "missing":
        raise ClientError(Failure.REFUSED, "no such subject")
    return {"subject": request.path["subject"], **request.body}


def edge(login: TokenLogin) -> ASGIApp:
    return Edge(
        Starlette(routes=[json_route("/subjects/{subject}", rename)]),
        name="the registry",
        hosts=Hosts("127.0.0.1", 8081, (), tls=False),
        proxies=(),
        login=login,
        headers=NoHeaders(),
        methods=("GET", "POST", "PUT", "DELETE"),
        needs_origin=False,
        body_bytes_max=100,
        message_bytes_max=100,
        clock=lambda: 0.0,
    )


def post(
    login: TokenLogin,
    path: str,
    content: bytes,
    headers: Sequence[tuple[str, str]] = (),
    authorization: str = "Bearer anna",
) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(edge(login), client=("127.0.0.1", 40_000))
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            return await client.post(path, content=content, headers=[("authorization", authorization), *headers])

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "content", "status", "answer"),
    [
        ("/subjects/orders", b'{"id": 1}', 200, {"subject": "orders", "id": 1}),
        ("/subjects/missing", b"{}", 403, {"error": "no such subject"}),
        ("/subjects/orders", b"[]", 400, {"error": "a JSON object is expected"}),
        ("/subjects/orders", b"x" * 101, 413, {"error": "the body has more than 100 bytes"}),
    ],
)
def test_a_program_calls_an_endpoint(path: str, content: bytes, status: int, answer: Any) -> None:
    """If this fails, a REST interface cannot be served, or its errors have no text."""
    found = post(TokenLogin(), path, content)
    assert (found.status_code, found.json()) == (status, answer)


def test_a_body_that_is_not_json() -> None:
    """If this fails, a client with a defect reads only that its request failed."""
    found = post(TokenLogin(), "/subjects/orders", b"{")
    assert found.status_code == 400
    assert found.json()["error"].startswith("not JSON: ")


def test_pages_of_other_origins_are_denied() -> None:
    """If this fails, any page in a browser can call a REST interface that needs no login on this machine."""
    login = TokenLogin()
    found = post(login, "/subjects/orders", b"{}", [("origin", "http://evil.example")])
    assert (found.status_code, found.text) == (403, "the Origin of the request is not the registry's\n")
    assert login.notes == [f"POST /subjects/orders refused: {found.text.strip()}"]
    assert post(login, "/subjects/orders", b"{}", [("origin", ORIGIN)]).status_code == 200


def test_no_login() -> None:
    """If this fails, a client without a token is served, or does not learn how to log in."""
    found = post(TokenLogin(), "/subjects/orders", b"{}", authorization="none")
    assert found.status_code == 401
    assert found.headers["www-authenticate"] == "Bearer"


def test_the_edge_needs_only_its_own_libraries() -> None:
    """If this fails, a program with a REST interface needs the libraries of the dashboard."""
    blocked = "sys.modules.update(dict.fromkeys(('dash', 'fastapi', 'plotly', 'websockets', 'argon2', 'authlib')))"
    modules = ("addresses", "answers", "compressed", "edge", "limits", "own_requests", "requests", "server")
    imports = "; ".join(f"import broker_cy.http.{name}" for name in modules)
    subprocess.run([sys.executable, "-c", f"import sys; {blocked}; {imports}"], check=True)
