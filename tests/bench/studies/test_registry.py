"""The measurements of the schema registry: their parts run, and fill the recorded table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.launch import registries
from bench.launch.nodes import BrokerCy
from bench.launch.registries import BrokerRegistry
from bench.record import plan as plans
from bench.studies import registry, registry_load
from bench.studies.registry import Side
from bench.studies.registry_load import Connection, avro, get, post, proto, registration
from bench.targets.brokers import TargetError

PEER = "apicurio"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few schemas, and windows of a moment."""
    for name, value in {
        "FEW": 20,
        "MANY": 40,
        "MEMORY_SCHEMAS": 30,
        "SCHEMAS": 5,
        "GETS": 40,
        "REGISTRATIONS": 40,
    }.items():
        monkeypatch.setattr(registry, name, value)
    monkeypatch.setattr(registry_load, "MESSAGES", 3)


def test_schemas_of_the_load_differ() -> None:
    """If this fails, a registry answers from its cache, and the figures are too good."""
    assert len({avro(number) for number in range(100)}) == 100
    assert len({proto(number) for number in range(100)}) == 100
    assert proto(1).count("\n") in range(1_450, 1_550)


@pytest.mark.usefixtures("small")
def test_every_part_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """If this fails, the recorded table has rows without figures, or a measurement ends with an exception."""
    path = tmp_path / "registry.json"
    given = ["--on", "ours", "--pairs", "1", "--seconds", "1", "--json-file", str(path)]
    assert registry.main(given) == 0
    found = json.loads(path.read_text())
    (table,) = [each for each in plans.load().tables if each.name == "registry"]
    ours = {row.metric for row in table.rows if row.metric.startswith("ours_") and "_start_" not in row.metric}
    assert ours <= found.keys()
    assert {"ours_start_20_ms", "ours_start_40_ms"} <= found.keys()
    assert "reached: at most 80" in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.skipif(registries.missing() is not None, reason=registries.missing() or "")
@pytest.mark.usefixtures("small")
def test_the_peer_is_measured(tmp_path: Path) -> None:
    """If this fails, the recorded table has nothing to compare with."""
    path = tmp_path / "registry.json"
    given = ["--on", f"ours,{PEER}", "--only", "gets,registrations", "--pairs", "1", "--json-file", str(path)]
    assert registry.main(given) == 0
    found = json.loads(path.read_text())
    assert found[f"{PEER}_gets_a_core"][0] > 0
    assert found["gets_a_core_ratio"][0] > 0


def test_refusals_end_a_measurement(tmp_path: Path) -> None:
    """If this fails, errors count as answers."""
    broker = BrokerCy(tmp_path / "broker")
    node = BrokerRegistry(tmp_path / "registry", broker.start().bootstrap)
    try:
        side = Side(node.start())
        side.ids = [77]
        with pytest.raises(TargetError, match="status 404"):
            side.gets(10)
        with Connection(side.address) as connection:
            connection.send(registration("", "a", "?"))
            assert connection.answer()[0] == 422
            connection.send(get("/subjects") + post("/subjects/a", {}))
            assert connection.answer() == (200, b"[]")
            assert connection.status() == 404
        node.stop()
    finally:
        node.close()
        broker.close()
