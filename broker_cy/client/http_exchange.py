"""One request over HTTP/1.1 on a connection of its own. No redirection is followed, and no proxy is used."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker_cy.client.address import Address
from broker_cy.core.classes import NamedTuple

if TYPE_CHECKING:
    import h11

_READ_BYTES: Final = 1 << 16


class HttpAnswer(NamedTuple):
    """An answer. Interim answers (1xx) are skipped."""

    status: int
    body: bytes


class Unanswered(Exception):
    """A connection was open, and ended without a whole answer: the request may have been performed."""


async def exchange(
    address: Address,
    method: str,
    target: str,
    *,
    headers: Sequence[tuple[str, str]] = (),
    body: bytes = b"",
    context: ssl.SSLContext | None = None,
    answer_bytes_max: int,
) -> HttpAnswer:
    """Raises OSError if no connection was opened, Unanswered if it ended or the answer is no HTTP, and ValueError for
    a header that HTTP does not allow and for an answer of more than `answer_bytes_max`. The caller limits the time.
    """
    # A library of extras: programs that may ask a registry or a server are installed without them.
    import h11

    reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    try:
        http = h11.Connection(h11.CLIENT)
        length = [("Content-Length", str(len(body)))] if body or method in ("POST", "PUT") else []
        fields = [("Host", str(address)), ("Connection", "close"), *headers, *length]
        sent = http.send(h11.Request(method=method, target=target, headers=fields)) or b""
        sent += http.send(h11.Data(data=body)) or b"" if body else b""
        writer.write(sent + (http.send(h11.EndOfMessage()) or b""))
        return await _answer(http, reader, answer_bytes_max)
    except (OSError, h11.RemoteProtocolError) as error:
        raise Unanswered(str(error) or type(error).__name__) from error
    except h11.LocalProtocolError as error:
        raise ValueError(f"the request is no HTTP: {error}") from None
    finally:
        writer.close()


async def _answer(http: h11.Connection, reader: asyncio.StreamReader, answer_bytes_max: int) -> HttpAnswer:
    import h11

    status, body = 0, bytearray()
    while True:
        event = http.next_event()
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(_READ_BYTES))
        elif isinstance(event, h11.Response):
            status = event.status_code
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > answer_bytes_max:
                raise ValueError(f"the answer has more than {answer_bytes_max:,} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return HttpAnswer(status, bytes(body))
        elif isinstance(event, h11.ConnectionClosed):
            raise Unanswered("the connection was closed")
