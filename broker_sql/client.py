"""A client of the REST API of a server of SQL: ours, or ksqlDB's.

Calls block. They raise `Refused` for an error that the server answers, and ClientError otherwise."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import httpx

from broker_cy.client.errors import ClientError, Failure

ANSWER_BYTES_MAX: Final = 64 << 20
"""The largest answer to a statement, and the longest row of a query."""
TIMEOUT_S: Final = 60.0
"""For the answer to a statement; rows of a query may come at any time."""
_JSON: Final = "application/vnd.ksql.v1+json"
_ROWS: Final = "application/vnd.ksqlapi.delimited.v1"

Entity = dict[str, Any]


class Refused(ClientError):
    """The server refused a statement. `entities` are the results of the statements before it in the request."""

    def __init__(self, message: str, status: int, error_code: int, statement: str, entities: list[Entity]) -> None:
        super().__init__(Failure.REFUSED, message)
        self.status = status
        self.error_code = error_code
        self.statement = statement
        self.entities = entities


@dataclass(frozen=True)
class Server:
    """Where a server is. `context` is that of TLS; `login` is a name and a password."""

    url: str
    context: ssl.SSLContext | None = None
    login: tuple[str, str] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Settings:
    """Properties that a session has set, sent with each statement."""

    properties: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Rows:
    """The rows of a query while they come. `query_id` is empty if the server gave none."""

    query_id: str
    columns: list[tuple[str, str]]
    """Names, and types as texts."""
    _lines: Iterator[str]
    _response: httpx.Response

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield rows; DECIMAL values are Decimal. Raises Refused for an error in the midst of rows."""
        for line in self._lines:
            found = parsed(line)
            if isinstance(found, list):
                yield found
            elif isinstance(found, dict) and "error_code" in found:
                raise _refusal(self._response.status_code, found)
            # Other objects are tokens of consistency, which need no answer.

    def close(self) -> None:
        """End the connection, also from another thread than the one that reads."""
        _shut(self._response)


class SqlClient:
    """Calls of the API."""

    def __init__(self, server: Server, timeout_s: float = TIMEOUT_S) -> None:
        self.server = server
        verify: ssl.SSLContext | bool = server.context or True
        self._http = httpx.Client(
            base_url=server.url, verify=verify, auth=server.login, timeout=timeout_s, trust_env=False
        )

    def __enter__(self) -> SqlClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def info(self) -> Entity:
        """Return version, cluster and service id of the server."""
        with self._send("GET", "/info") as response:
            found = parsed(_whole(response))
        about: Entity = found["KsqlServerInfo"]
        return about

    def execute(self, text: str, settings: Settings) -> list[Entity]:
        """Run statements other than queries, and return the entities that the server answers."""
        body = {"ksql": text, "streamsProperties": dict(settings.properties)}
        with self._send("POST", "/ksql", body, _JSON) as response:
            found: list[Entity] = parsed(_whole(response))
        return found

    @contextmanager
    def query(self, text: str, settings: Settings) -> Iterator[Rows]:
        """Run a SELECT. The end of the block ends the query."""
        with self._send("POST", "/query-stream", _query_body(text, settings), _ROWS, endless=True) as response:
            lines = _lines(response)
            header = parsed(next(lines, "{}"))
            if not isinstance(header, dict) or "columnNames" not in header:
                if isinstance(header, dict) and "error_code" in header:
                    raise _refusal(response.status_code, header)
                raise ClientError(Failure.MALFORMED, "the answer has no header with columns", api="/query-stream")
            columns = list(zip(header["columnNames"], header["columnTypes"], strict=True))
            yield Rows(header.get("queryId") or "", columns, lines, response)

    @contextmanager
    def print_topic(self, text: str, settings: Settings) -> Iterator[Printed]:
        """Run PRINT. The end of the block ends it."""
        with self._send("POST", "/query-stream", _query_body(text, settings), _ROWS, endless=True) as response:
            yield Printed(_lines(response), response)

    def close_query(self, query_id: str) -> None:
        """End a push query. A query that has ended is no error."""
        with suppress(Refused), self._send("POST", "/close-query", {"queryId": query_id}, _JSON) as response:
            _whole(response)

    @contextmanager
    def _send(
        self, method: str, path: str, body: Entity | None = None, accept: str = _JSON, endless: bool = False
    ) -> Iterator[httpx.Response]:
        content = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "Content-Type": _JSON}
        timeout = httpx.Timeout(self._http.timeout.connect, read=None) if endless else self._http.timeout
        try:
            with self._http.stream(method, path, content=content, headers=headers, timeout=timeout) as response:
                if response.status_code >= 400:
                    raise _refusal(response.status_code, _error_body(response))
                yield response
        except httpx.TimeoutException:
            raise ClientError(Failure.TIMED_OUT, "no answer in time", broker=self.server.url, api=path) from None
        except httpx.InvalidURL as error:
            raise ClientError(Failure.INVALID, str(error), what=self.server.url) from None
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise ClientError(Failure.UNREACHABLE, reason, broker=self.server.url, api=path) from None


@dataclass
class Printed:
    """The lines of PRINT while they come."""

    lines: Iterator[str]
    _response: httpx.Response

    def __iter__(self) -> Iterator[str]:
        return self.lines

    def close(self) -> None:
        _shut(self._response)


def parsed(text: str) -> Any:
    """Return the value of JSON; numbers with a point are Decimal, so none of their digits is lost."""
    try:
        return json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise ClientError(Failure.MALFORMED, f"the answer is no JSON: {error}: {text[:80]!r}") from None


def _query_body(text: str, settings: Settings) -> Entity:
    return {"sql": text, "properties": dict(settings.properties)}


def _whole(response: httpx.Response) -> str:
    size, pieces = 0, []
    for piece in response.iter_bytes():
        size += len(piece)
        if size > ANSWER_BYTES_MAX:
            raise ClientError(Failure.MALFORMED, f"the answer has more than {ANSWER_BYTES_MAX} bytes")
        pieces.append(piece)
    return b"".join(pieces).decode(errors="replace")


def _lines(response: httpx.Response) -> Iterator[str]:
    """Yield the lines of an answer that are not empty, as they come."""
    rest = b""
    for piece in response.iter_bytes():
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > ANSWER_BYTES_MAX:
            raise ClientError(Failure.MALFORMED, f"a row has more than {ANSWER_BYTES_MAX} bytes")
        yield from (line.decode(errors="replace") for line in lines if line.strip())
    if rest.strip():
        yield rest.decode(errors="replace")


def _error_body(response: httpx.Response) -> Entity:
    text = _whole(response)
    with suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return {"message": text.strip() or response.reason_phrase}


def _refusal(status: int, body: Entity) -> Refused:
    code = body.get("error_code") or 0
    message = str(body.get("message") or f"HTTP status {status}")
    return Refused(message, status, code, str(body.get("statementText") or ""), body.get("entities") or [])


def _shut(response: httpx.Response) -> None:
    """Let a thread that reads the answer see its end: closing a socket does not wake it up."""
    stream = response.extensions.get("network_stream")
    found = stream.get_extra_info("socket") if stream is not None else None
    if found is not None:
        with suppress(OSError):
            found.shutdown(socket.SHUT_RDWR)
