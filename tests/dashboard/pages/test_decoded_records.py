"""Records by the schemas of a registry: rows, searches, one record, masking, and a registry that is down."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bench.launch.nodes import free_ports
from broker_cy.client.errors import ClientError, Failure
from broker_cy.wire.records import Record
from broker_registry.serdes.framing import with_id
from dashboard.security.masking import Masking, parse_masks
from tests.dashboard.pages.group_kit import drive
from tests.dashboard.pages.record_kit import done, make, of, open_job
from tests.dashboard.pages.test_records import HIDDEN
from tests.dashboard.support import Desk
from tests.support.broker import Target
from tests.support.read_group import BEGIN_MS
from tests.support.registry import RegistryProcess, running_registry
from tests.support.wait import until

FIELDS = [{"name": "n", "type": "int"}, {"name": "card_number", "type": "string"}]
AVRO = json.dumps({"type": "record", "name": "R", "fields": FIELDS})
PROTO = 'syntax = "proto3"; message R { int32 n = 1; string card_number = 2; }'
MASKING = Masking(
    parse_masks([{"topics": ["*"], "fields": ["$.card_number"]}], lambda reason: ClientError(Failure.INVALID, reason))
)


@pytest.fixture(scope="module")
def registry(broker: Target, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    directory = tmp_path_factory.mktemp("registry")
    with running_registry(broker.bootstrap, directory, ["--topic", f"_schemas-{uuid.uuid4().hex[:8]}"]) as found:
        yield found


def avro(schema_id: int, number: int) -> bytes:
    """Return the bytes of n = number, card_number = "4111"."""
    return with_id(schema_id, bytes([number * 2]) + b"\x084111")


def records_of(schema_id: int, count: int) -> list[Record]:
    return [Record(timestamp=BEGIN_MS + n, key=b"k%d" % n, value=avro(schema_id, n)) for n in range(count)]


def register(registry: RegistryProcess, subject: str, text: str, kind: str = "AVRO") -> int:
    def answered() -> int | None:
        # On a loaded machine, a registry that was just started may answer that the topic takes too long.
        reply = registry.call("POST", f"/subjects/{subject}/versions", {"schema": text, "schemaType": kind})
        return None if reply.status >= 500 else int(reply.body["id"])

    return until(answered, "the registry to register a schema", 60)


def is_decoded(state: Any) -> bool:
    """Whether the rows of a state are decoded: they are shown as bytes while the registry is asked."""
    return all(value_of(row).startswith(("{", "***")) for row in state["rows"])


def value_of(row: Any) -> str:
    cell = row["cells"][5]
    return cell if isinstance(cell, str) else str(cell["t"])


def test_rows_and_searches_are_decoded(broker: Target, registry: RegistryProcess, topic: str) -> None:
    """If this fails, users see the bytes of Avro records, and a search for a field or a pattern finds nothing."""
    schema_id = register(registry, f"{topic}-value", AVRO)

    async def work(desk: Desk) -> None:
        bad = Record(timestamp=BEGIN_MS + 99, key=b"bad", value=with_id(schema_id, b"\x02"))
        await make(desk.hub.session.client, topic, [*records_of(schema_id, 10), bad])

        async def found(wanted: Callable[[Any], bool] = is_decoded, **query: str) -> dict[str, str]:
            job = open_job(desk, topic, from_="beginning", **query)
            assert (await desk.state("reading", done, **of(job)))["state"] == "read to the end"
            rows = await desk.rows("records", wanted, **of(job))
            return {place: str(row["value"]) for place, row in rows.items()}

        assert (await found(key="k"))["0-3"] == '{"n": 3, "card_number": "4111"}'
        assert await found(path="$.n = 8") == {"0-8": '{"n": 8, "card_number": "4111"}'}
        assert list(await found(value='"n": 4')) == ["0-4"]
        assert list(await found(value='~"n": [56]')) == ["0-5", "0-6"]
        assert await found(any, key="bad") == {"0-10": with_id(schema_id, b"\x02").hex(" ")}
        # The format hex shows the bytes of the record.
        assert (await found(any, path="$.n = 8", format="hex"))["0-8"] == avro(schema_id, 8).hex(" ")
        one = await desk.state("record", lambda state: state["value_note"], topic=topic, partition="0", offset="3")
        assert json.loads(one["value"]) == {"n": 3, "card_number": "4111"}
        assert one["value_note"] == f"AVRO schema {schema_id}, {topic}-value version 1"
        assert (one["key"], one["key_note"]) == ("k3", "")
        one = await desk.state("record", lambda state: state["value_note"], topic=topic, partition="0", offset="10")
        assert one["value"].startswith("00000000  00 00 00 00")
        assert one["value_note"].startswith(f"no record of AVRO schema {schema_id}, ")

    drive(broker.bootstrap, work, registry=registry.url)


def test_masking_judges_decoded_values(broker: Target, registry: RegistryProcess, topic: str) -> None:
    """If this fails, users without `unmasked` read hidden fields of records with schemas."""
    avro_id = register(registry, f"{topic}-value", AVRO)
    proto_id = register(registry, f"{topic}-proto", PROTO, "PROTOBUF")
    values = [avro(avro_id, 1), with_id(proto_id, b"\0\x08\x02\x12\x044111"), with_id(avro_id, b"\x02\x084111!")]

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, [Record(timestamp=BEGIN_MS, value=value) for value in values])
        job = open_job(desk, topic, from_="beginning")
        await desk.state("reading", done, **of(job))

        def are_decoded(state: Any) -> bool:
            # A hidden row looks the same while the registry is asked for its schema, and if it cannot be decoded.
            return ["{" in value_of(row) for row in state["rows"]] == [True, True, False]

        rows = await desk.rows("records", are_decoded, **of(job))
        assert [str(row["value"]) for row in rows.values()] == [
            '{"n": 1, "card_number": "***"}',
            '{"n": 2, "cardNumber": "***"}',
            "*** (12 bytes hidden)",
        ]
        for offset in range(3):
            for shown in ("auto", "text", "json", "hex"):
                one = await desk.state("record", topic=topic, partition="0", offset=str(offset), format=shown)
                assert "4111" not in json.dumps(one)
                assert b"4111".hex(" ") not in json.dumps(one)
                assert one["masked"] is True
        one = await desk.state("record", topic=topic, partition="0", offset="2")
        # The reason may quote the value.
        assert one["value_note"] == "not decoded"
        assert MASKING.may_search(HIDDEN.scope, topic, job.request.wanted) == ""

    drive(broker.bootstrap, work, HIDDEN, masking=MASKING, registry=registry.url)


def test_records_are_shown_without_the_registry(broker: Target, topic: str) -> None:
    """If this fails, the page shows no records, or does not say why, while the registry is down."""
    (port,) = free_ports(1)

    async def work(desk: Desk) -> None:
        await make(desk.hub.session.client, topic, [Record(timestamp=BEGIN_MS, value=with_id(1, b"\xff"))])
        job = open_job(desk, topic, from_="beginning")
        rows = await desk.rows("records", lambda state: state["found"] == 1, **of(job))
        assert str(rows["0-0"]["value"]) == "00 00 00 00 01 ff"
        progress = await desk.state("reading", lambda state: len(state["parts"]) == 4, **of(job))
        reason = f"http://127.0.0.1:{port}: connection refused: no process listens there"
        assert progress["parts"][-1] == [f"shown as bytes, no answer of the schema registry: {reason}", "WARN"]
        one = await desk.state("record", topic=topic, partition="0", offset="0")
        assert one["value_note"] == f"the registry does not answer: {reason}"

    drive(broker.bootstrap, work, registry=f"http://127.0.0.1:{port}")
