"""The server of an ASGI application."""

from __future__ import annotations

import signal
import socket
import threading
import urllib.request
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from broker_cy.client.errors import ClientError
from broker_cy.http.server import Certificate, Listening, bind, serve


def test_it_serves_until_a_signal(capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, a service manager cannot stop a program that serves HTTP, or sees it fail at each stop."""

    async def answer(_: Request) -> Response:
        signal.raise_signal(signal.SIGTERM)
        return PlainTextResponse("served")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    bound = bind("127.0.0.1", 0)
    texts: list[bytes] = []

    def visit() -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{bound.getsockname()[1]}/", timeout=30) as found:
            texts.append(found.read())

    client = threading.Thread(target=visit)
    client.start()
    try:
        serve(Starlette(routes=[Route("/", answer)]), [Listening(bound)], "ready")
    finally:
        client.join(30)
        bound.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    assert texts == [b"served"]
    assert capsys.readouterr().out == "ready\n"


def test_an_address_in_use() -> None:
    """If this fails, a program that cannot listen ends with a traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ClientError, match=f"cannot listen on 127.0.0.1:{port}: Address already in use"):
            bind("127.0.0.1", port)


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    """If this fails, a wrong file is noticed by the first client."""
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    with pytest.raises(ClientError, match="there is no such file"):
        Certificate(chain, key).context()
    chain.write_text("x")
    key.write_text("x")
    with pytest.raises(ClientError, match="certificate and key cannot be used"):
        Certificate(chain, key).context()
