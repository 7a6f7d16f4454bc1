"""One request over HTTP: what is sent, and answers that are not whole."""

from __future__ import annotations

import asyncio

import pytest

from broker_cy.client.address import Address
from broker_cy.client.http_exchange import HttpAnswer, Unanswered, exchange

BYTES_MAX = 100


def answered(reply: bytes, *, method: str = "POST", body: bytes = b"{}") -> tuple[HttpAnswer | Exception, bytes]:
    """Return the answer, or the error, of a server that sends `reply`, and the bytes that it got."""
    got = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.extend(await reader.readuntil(b"\r\n\r\n"))
        got.extend(await reader.readexactly(len(body)))
        writer.write(reply)
        await writer.drain()
        writer.close()

    async def run() -> HttpAnswer | Exception:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            address = Address(*server.sockets[0].getsockname())
            try:
                login = [("Authorization", "Basic YTpi")]
                return await exchange(address, method, "/a?b", headers=login, body=body, answer_bytes_max=BYTES_MAX)
            except (Unanswered, ValueError) as error:
                return error

    return asyncio.run(run()), bytes(got)


def test_the_request_has_login_and_body() -> None:
    """If this fails, a server with a login refuses requests, or waits for a body."""
    answer, got = answered(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")
    assert answer == HttpAnswer(404, b"no")
    assert got.startswith(b"POST /a?b HTTP/1.1\r\n")
    assert b"Authorization: Basic YTpi\r\n" in got
    assert b"Content-Length: 2\r\n" in got
    assert got.endswith(b"\r\n\r\n{}")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (b"", Unanswered),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", Unanswered),
        (b"SSH-2.0-OpenSSH\r\n\r\n", Unanswered),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (BYTES_MAX + 1), ValueError),
    ],
)
def test_other_answers_are_errors(reply: bytes, kind: type[Exception]) -> None:
    """If this fails, half of an answer is taken for a whole one, or an endless one fills the memory."""
    assert isinstance(answered(reply)[0], kind)
