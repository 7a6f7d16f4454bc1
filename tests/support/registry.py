"""`broker-registry` as a process, at a free port, and a plain client of its REST API."""

from __future__ import annotations

import json
import re
import ssl
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

from tests.support.forking import start
from tests.support.served_program import ServedProgram
from tests.support.wait import until

READY_S = 60.0
CALL_S = 60.0
TYPE = "application/vnd.schemaregistry.v1+json"
_READY = re.compile(r"listening on (https?://\S+)")


class Reply(NamedTuple):
    """`body` is the value of the JSON, the bytes if it is none."""

    status: int
    body: Any


class Registry:
    """A client of one instance."""

    def __init__(self, url: str) -> None:
        self.url = url
        # For https, and the headers of each request, such as a login.
        self.context: ssl.SSLContext | None = None
        self.headers: dict[str, str] = {}

    def call(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Reply:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method=method)
        for name, value in {"Content-Type": TYPE, **self.headers, **(headers or {})}.items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=CALL_S, context=self.context) as answer:
                return Reply(answer.status, _value(answer.read()))
        except urllib.error.HTTPError as error:
            return Reply(error.code, _value(error.read()))

    def get(self, path: str) -> Any:
        """Return the body of a successful answer."""
        reply = self.call("GET", path)
        assert reply.status == 200, reply
        return reply.body

    def register(self, subject: str, schema: str, **more: Any) -> Reply:
        return self.call("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema, **more})


def _value(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return data


class RegistryProcess(ServedProgram, Registry):
    """One process; `start` waits until it serves."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        options: Sequence[str] = (),
        name: str = "registry",
        listen: str = "127.0.0.1:0",
    ) -> None:
        """Without `bootstrap`, options name the cluster; without `listen`, they name the addresses."""
        command = [sys.executable, "-m", "broker_registry"]
        command += ["--listen", listen] if listen else []
        command += ["--bootstrap", bootstrap] if bootstrap else []
        self.child = start([*command, *options], directory, name)
        super().__init__("")
        self.urls: list[str] = []

    def wait(self) -> RegistryProcess:
        def ready() -> re.Match[str] | None:
            assert self.child.returncode is None, self.child.tail()
            return _READY.search(self.child.stdout())

        self.url = until(ready, "the registry to serve", READY_S)[1]
        self.urls = re.findall(r"https?://\S+", self.child.stdout())
        return self


@contextmanager
def running_registry(bootstrap: str, directory: Path, options: Sequence[str] = ()) -> Iterator[RegistryProcess]:
    registry = RegistryProcess(bootstrap, directory, options)
    try:
        yield registry.wait()
        registry.stop()
    finally:
        registry.kill()
