"""Values of a schema: the pool that a run gets, and what is refused before it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from broker_cy.client.clusters import ClusterEntry
from broker_cy.client.errors import ClientError
from broker_cy.client.payload.values import POOL_BYTES, ValueSource
from broker_registry.schema_types.base import Kind, ParseSettings
from broker_registry.schema_types.parsers import PARSERS
from broker_registry.serdes.encoder import Encoder
from loadgen.scenario import encoded
from loadgen.scenario.encoded import with_encoded
from loadgen.scenario.model import Scenario, scenario_of, state_of
from loadgen.scenario.toml_file import SpecError, read_scenario

AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]})
CLUSTER = ClusterEntry("a", (), registry="http://registry:1")
TEXT = """
[[users]]
kind = "producer"
count = 1
payload = { PAYLOAD }
"""


class FakeEncoders:
    def __init__(self, text: str) -> None:
        self._parsed = PARSERS[Kind.AVRO](text, (), ParseSettings())
        self.asked: list[tuple[Any, ...]] = []

    async def newest(self, subject: str, message: str | None) -> Encoder:
        self.asked.append((subject, message))
        return Encoder(7, self._parsed, message)

    async def by_id(self, schema_id: int, message: str | None) -> Encoder:
        self.asked.append((schema_id, message))
        return Encoder(schema_id, self._parsed, message)


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeEncoders:
    found = FakeEncoders(AVRO)
    monkeypatch.setattr(encoded, "encoders_of", lambda cluster: found if cluster.has_registry else None)
    return found


def read(directory: Path, payload: str, **overrides: str) -> Scenario:
    path = directory / "s.toml"
    path.write_text(TEXT.replace("PAYLOAD", payload))
    return read_scenario(path, {name.replace("_", "-"): value for name, value in overrides.items()})


def test_random_values_are_encoded_before_the_run(tmp_path: Path, registry: FakeEncoders) -> None:
    """If this fails, a run sends values that consumers cannot decode, or pays for encoding each record."""
    scenario = read(tmp_path, 'kind = "schema", subject = "orders-value", count = 50')
    found = with_encoded(scenario, CLUSTER)
    assert registry.asked == [("orders-value", None)]
    payload = found.users[0].payload
    assert len(payload.lines) == 50
    assert all(line.startswith(b"\0\0\0\0\x07") for line in payload.lines)
    assert len(set(payload.lines)) > 40
    # The same seed gives the same values, and workers get them.
    assert with_encoded(scenario, CLUSTER) == found
    assert scenario_of(state_of(found)) == found
    values = ValueSource(payload, 1, now=lambda: 0.0).cursor(0)
    assert {values.next() for _ in range(50)} == set(payload.lines)
    assert not payload.takes_prefix


def test_values_of_a_file_are_encoded(tmp_path: Path, registry: FakeEncoders) -> None:
    """If this fails, users cannot send their own values by a schema."""
    (tmp_path / "v.jsonl").write_text('{"x": 1}\n{"x": 2}\n')
    found = with_encoded(read(tmp_path, 'kind = "schema", id = 9, path = "v.jsonl"'), CLUSTER)
    assert registry.asked == [(9, None)]
    assert found.users[0].payload.lines == (b"\0\0\0\0\x09\x02", b"\0\0\0\0\x09\x04")
    (tmp_path / "v.jsonl").write_text('{"x": 1}\n{"x": "a"}\n')
    with pytest.raises(ClientError, match=r'users producer: .*v.jsonl: value 2: /x: "a" is no int'):
        with_encoded(read(tmp_path, 'kind = "schema", id = 9, path = "v.jsonl"'), CLUSTER)


def test_the_option_replaces_the_payload(tmp_path: Path, registry: FakeEncoders) -> None:
    """If this fails, `--value-subject` has no effect on scenarios with values of their own."""
    scenario = read(tmp_path, "size = 100, entropy = 0.5", value_subject="orders-value")
    assert (scenario.users[0].payload.kind, scenario.users[0].payload.count) == ("schema", 1_000)
    assert len(with_encoded(scenario, CLUSTER).users[0].payload.lines) == 1_000
    with pytest.raises(SpecError, match="--value-subject: 's' cannot be combined with --size"):
        read(tmp_path, "size = 100", size="50", value_subject="s")


def test_the_pool_is_bounded(tmp_path: Path, registry: FakeEncoders, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a schema with large values fills the memory of each worker."""
    assert POOL_BYTES == 4 << 20
    monkeypatch.setattr(encoded, "POOL_BYTES", 100)
    found = with_encoded(read(tmp_path, 'kind = "schema", subject = "s"'), CLUSTER)
    assert len(found.users[0].payload.lines) < 30


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ('kind = "schema"', "give either subject or id"),
        ('kind = "schema", subject = "s", id = 1', "give either subject or id"),
        ('kind = "schema", subject = "s", count = 20001', "20001"),
        ('kind = "schema", subject = "s", path = "none.jsonl"', "cannot be read"),
        ('kind = "schema", subject = "s", size = 5', "size"),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, payload: str, reason: str) -> None:
    """If this fails, a run starts with other values than its scenario says."""
    with pytest.raises(SpecError, match=reason):
        read(tmp_path, payload)


def test_what_a_run_needs_is_told_before_it(tmp_path: Path, registry: FakeEncoders) -> None:
    """If this fails, a run without a registry, or with a message that is unknown, fails after its topic was made."""
    scenario = read(tmp_path, 'kind = "schema", subject = "s"')
    with pytest.raises(ClientError, match="users producer: its values have a schema: name the registry: --registry"):
        with_encoded(scenario, ClusterEntry("a", ()))
    with pytest.raises(ClientError, match="AVRO schemas have no messages"):
        with_encoded(read(tmp_path, 'kind = "schema", subject = "s", message = "M"'), CLUSTER)
    plain = read(tmp_path, "size = 100")
    assert with_encoded(plain, ClusterEntry("a", ())) is plain
