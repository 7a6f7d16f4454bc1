"""Records by the schemas of a registry in the console."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import replace

import pytest

from admin_tui.screens.messages import MessagesView
from bench.launch.nodes import free_ports
from broker_cy.wire.records import Record
from broker_registry.serdes.framing import with_id
from tests.admin_tui.conftest import Terminal, drive, entry_of
from tests.admin_tui.test_records_screen import with_records
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import RegistryProcess, running_registry
from tests.support.wait import until

AVRO = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}, {"name": "s", "type": "string"}]}


@pytest.fixture(scope="module")
def broker_cy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that allows the transactions of a registry: that of the other tests ends them after a second."""
    broker = BrokerProcess(tmp_path_factory.mktemp("schemas-broker"), QUICK)
    try:
        yield broker.start()
    finally:
        broker.close()


@pytest.fixture(scope="module")
def registry(broker_cy: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    directory = tmp_path_factory.mktemp("registry")
    with running_registry(broker_cy.bootstrap, directory, ["--topic", f"_schemas-{uuid.uuid4().hex[:8]}"]) as found:
        yield found


def register(registry: RegistryProcess, subject: str) -> int:
    def answered() -> int | None:
        # On a loaded machine, a registry that was just started may answer that the topic takes too long.
        reply = registry.register(subject, json.dumps(AVRO))
        return None if reply.status >= 500 else int(reply.body["id"])

    return until(answered, "the registry to register a schema", 60)


def row(schema_id: int, number: int) -> bytes:
    """Return the bytes of x = number, s = "sign-number"."""
    text = b"sign-%d" % number
    return with_id(schema_id, bytes([number * 2]) + bytes([len(text) * 2]) + text)


def test_values_are_shown_and_searched_by_their_schemas(
    broker_cy: BrokerProcess, registry: RegistryProcess, name: str
) -> None:
    """If this fails, users of the console see the bytes of Avro records, and a search for a field finds nothing."""
    schema_id = register(registry, f"{name}-value")
    records = [Record(timestamp=n + 1, key=b"k%d" % n, value=row(schema_id, n)) for n in range(20)]
    records.append(Record(timestamp=100, key=b"short", value=with_id(schema_id, b"")))

    async def job(terminal: Terminal) -> None:
        view = await with_records(terminal, name, records)
        await terminal.shows('{"x": 19, "s": "sign-19"}', "21 found")
        await terminal.press("f")
        await terminal.fill(start="beginning", path="$.x >= 18")
        await terminal.shows("2 found", '{"x": 18, "s": "sign-18"}')
        await terminal.press("enter")
        await terminal.shows(f"AVRO schema {schema_id}, {name}-value version 1", '"s": "sign-')
        await terminal.press("v")
        await terminal.shows("format: text", f"AVRO schema {schema_id}")
        await terminal.hides('"s": "sign-')
        await terminal.press("escape")
        assert all((each.record.value or b"").startswith(b"\0") for each in view.grid.rows)
        await terminal.press("f")
        await terminal.fill(start="beginning", path="", key="short")
        await terminal.shows("1 found")
        await terminal.press("enter")
        await terminal.shows(f"no record of AVRO schema {schema_id}", "00000000  00 00 00 00")
        await terminal.press("escape")

    drive(replace(entry_of(broker_cy.bootstrap), registry=registry.url), job, size=(140, 40))


def test_following_shows_decoded_values(broker_cy: BrokerProcess, registry: RegistryProcess, name: str) -> None:
    """If this fails, live mode filters the bytes of records."""
    schema_id = register(registry, f"{name}-value")

    async def job(terminal: Terminal) -> None:
        view = await with_records(terminal, name, [Record(value=b"before")])
        await terminal.shows("before")
        await terminal.press("f")
        await terminal.fill(start="end", path="$.x = 3")
        await terminal.shows("live", "0 seen")
        await terminal.client.records.producer().send(name, [Record(value=row(schema_id, n)) for n in range(5)])
        await terminal.shows('{"x": 3, "s": "sign-3"}', "5 seen", "1 found")
        assert isinstance(view, MessagesView)

    drive(replace(entry_of(broker_cy.bootstrap), registry=registry.url), job, size=(140, 40))


def test_records_are_shown_without_the_registry(broker_cy: BrokerProcess, name: str) -> None:
    """If this fails, the console shows no records, or does not say why, while the registry is down."""
    (port,) = free_ports(1)

    async def job(terminal: Terminal) -> None:
        await with_records(terminal, name, [Record(key=b"some-key", value=with_id(1, b"\xff"))])
        await terminal.shows("some-key", "00 00 00 00 01 ff", "no answer of the schema registry")
        await terminal.press("enter")
        await terminal.shows("the registry does not answer", "connection refused", "00000000  00 00 00 00 01 ff")
        await terminal.press("escape")

    entry = replace(entry_of(broker_cy.bootstrap), registry=f"http://127.0.0.1:{port}")
    drive(entry, job, size=(180, 40))
