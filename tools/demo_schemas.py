"""A schema registry beside a demo, with schemas for pictures of the consoles' pages."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from broker_registry.client import RegistryClient, Schema
from broker_registry.client_settings import settings_of
from broker_registry.schema_types.base import Kind, Reference
from demo.topics import AUDIT, INDEX, PACKAGES, UPDATES

STOP_S: Final = 30.0
SUBJECT: Final = f"{PACKAGES}-value"
MAINTAINER: Final = "maintainer"
_UPDATE: Final = """syntax = "proto3";
package packages;

message Update {
  string name = 1;
  string version = 2;
  repeated string tags = 3;
}
"""


def _record(name: str, *fields: Mapping[str, Any]) -> str:
    return json.dumps({"type": "record", "name": name, "namespace": "com.example", "fields": fields})


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


_PACKAGE: Final = (_field("name", "string"), _field("version", "string"), _field("size_bytes", "long"))
_INSTALLED: Final = _field("installed", {"type": "long", "logicalType": "timestamp-millis"})
_OF: Final = Reference("com.example.Maintainer", MAINTAINER, 1)


async def register(url: str) -> None:
    """Register versions of several types and levels: the third one of SUBJECT cannot read data of the second."""
    client = RegistryClient(settings_of(url))
    maintainer = _record("Maintainer", _field("name", "string"), _field("email", "string"))
    await client.register(MAINTAINER, Schema(Kind.AVRO.value, maintainer))
    await client.set_config(SUBJECT, {"compatibilityLevel": "FORWARD"})
    section = _field("section", "string", default="main")
    by = _field("maintainer", "com.example.Maintainer")
    await client.register(SUBJECT, Schema(Kind.AVRO.value, _record("Package", *_PACKAGE)))
    await client.register(SUBJECT, Schema(Kind.AVRO.value, _record("Package", *_PACKAGE, section)))
    newest = _record("Package", *_PACKAGE, section, by, _INSTALLED)
    await client.register(SUBJECT, Schema(Kind.AVRO.value, newest, (_OF,)))
    await client.register(f"{UPDATES}-value", Schema(Kind.PROTOBUF.value, _UPDATE))
    entry = {"type": "object", "title": "Entry", "properties": {"who": {"type": "string"}, "at": {"type": "string"}}}
    for required in (["who", "at"], ["who"]):
        await client.register(f"{AUDIT}-value", Schema(Kind.JSON.value, json.dumps({**entry, "required": required})))
    await client.delete_version(f"{AUDIT}-value", 1)
    await client.set_mode(f"{AUDIT}-value", "READONLY")
    await client.register(f"{INDEX}-key", Schema(Kind.AVRO.value, '"string"'))


@contextmanager
def running_registry(bootstrap: str, listen: str) -> Iterator[str]:
    """Run a registry with the schemas; the value is its URL."""
    command = [sys.executable, "-m", "broker_registry", "--bootstrap", bootstrap, "--listen", listen]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = next(filter(None, (re.search(r"listening on (\S+)", text) for text in process.stdout)), None)
        if found is None:
            raise SystemExit("the registry ended")
        url = found[1]
        # A thread of its own: the caller may run a loop, as Playwright does.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, register(url)).result()
        yield url
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
