"""`broker-sql server` as a process, at a free port, and a plain client of its REST API."""

from __future__ import annotations

import json
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.forking import start
from tests.support.served_program import ServedProgram
from tests.support.wait import until

READY_S = 60.0
CALL_S = 60.0
_READY = re.compile(r"listening on (https?://\S+)")


class Reply(NamedTuple):
    """`body` is the value of the JSON, the bytes if it is none."""

    status: int
    body: Any


class SqlClient:
    """A client of one server."""

    url: str
    headers: dict[str, str]

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        for name, value in {**self.headers, **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=CALL_S) as answer:
                return Reply(answer.status, _value(answer.read()))
        except urllib.error.HTTPError as error:
            return Reply(error.code, _value(error.read()))

    def run(self, text: str, **more: Any) -> list[dict[str, Any]]:
        """Return the answers to statements, which have to succeed."""
        reply = self.call("POST", "/ksql", {"ksql": text, **more})
        assert reply.status == 200, reply
        found: list[dict[str, Any]] = reply.body
        return found

    def failure(self, text: str, **more: Any) -> dict[str, Any]:
        """Return the error of statements, which have to fail."""
        reply = self.call("POST", "/ksql", {"ksql": text, **more})
        assert reply.status >= 400, reply
        found: dict[str, Any] = reply.body
        return found

    def rows(self, text: str, **more: Any) -> list[list[Any]]:
        """Return the rows of a query that ends."""
        reply = self.call("POST", "/query-stream", {"sql": text, **more})
        assert reply.status == 200, reply
        lines = [reply.body] if not isinstance(reply.body, bytes) else map(json.loads, reply.body.splitlines())
        return [each for each in lines if isinstance(each, list)]


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data


class SqlServerProcess(ServedProgram, SqlClient):
    """One process; `wait` waits until it serves."""

    def __init__(self, bootstrap: str, directory: Path, options: Sequence[str] = (), name: str = "sql") -> None:
        self.headers = {}
        command = [sys.executable, "-m", "broker_sql", "server", "--listen", "127.0.0.1:0", "--bootstrap", bootstrap]
        self.child = start([*command, "--state-dir", str(directory / name), *options], directory, name)

    def wait(self) -> SqlServerProcess:
        def ready() -> re.Match[str] | None:
            assert self.child.returncode is None, self.child.tail()
            return _READY.search(self.child.stdout())

        self.url = until(ready, "the server to serve", READY_S)[1]
        return self


@contextmanager
def running_server(bootstrap: str, directory: Path, options: Sequence[str] = ()) -> Iterator[SqlServerProcess]:
    server = SqlServerProcess(bootstrap, directory, options)
    try:
        yield server.wait()
        server.stop()
    finally:
        server.kill()
