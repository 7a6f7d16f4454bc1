"""`broker-cy schemas impact` on records of a running broker, with the schemas of a running registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.broker_cy.commands.conftest import Cli, bare
from tests.broker_registry.operations.support import record_of
from tests.support.broker import BrokerProcess
from tests.support.registry import RegistryProcess
from tests.support.schema_records import BAD, OLD, TWO, commit, framed, new_topic, produce, registered

__all__ = ["bare"]


@pytest.fixture
def schemas(bare: Cli, broker: BrokerProcess, registry: RegistryProcess, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs `broker-cy schemas` with the registry of the module and the broker."""
    monkeypatch.setenv("BROKER_CY_REGISTRY", registry.url)
    monkeypatch.setenv("BROKER_CY_BOOTSTRAP", broker.bootstrap)
    return lambda *words, code=0, stdin=None: bare("schemas", *words, code=code, stdin=stdin)


@pytest.fixture
def name(broker: BrokerProcess, subject: str) -> str:
    """A topic with two partitions."""
    new_topic(broker.bootstrap, subject, 2)
    return subject


def file_of(directory: Path, text: str, name: str = "schema.avsc") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_records_that_would_break_are_found(
    schemas: Cli, broker: BrokerProcess, registry: RegistryProcess, name: str, tmp_path: Path
) -> None:
    """If this fails, a schema is registered that consumers cannot read records with which are in the topic."""
    one, two = registered(registry, f"{name}-value", OLD, TWO)
    old, new = framed(one, OLD, {"x": 5}), framed(two, TWO, {"x": 5, "y": 6})
    produce(broker.bootstrap, name, [new, old, None, b"plain", old])
    produce(broker.bootstrap, name, [new, new], partition=1)
    for group, offset in (("behind", 1), ("done", 5)):
        commit(broker.bootstrap, name, f"{name}-{group}", offset)
    commit(broker.bootstrap, name, f"{name}-done", 2, partition=1)
    file = file_of(tmp_path, BAD)
    found = schemas("impact", f"{name}-value", file, "--json", code=1).json
    assert (found["topics"], found["part"], found["breaks"]) == ([name], "value", True)
    assert (found["seen"], found["empty"], found["plain"]) == (7, 1, 1)
    tried = found["new_readers"]
    assert (tried["tried"], tried["broken"]) == (5, 2)
    first = tried["first"]
    assert (first["partition"], first["offset"], first["path"], first["schema"]) == (0, 1, "/y", one)
    assert first["timestamp_ms"] == 1_700_000_000_001
    assert {each["schema"]: (each["version"], each["tried"], each["broken"]) for each in found["schemas"]} == {
        one: (1, 2, 2),
        two: (2, 3, 0),
    }
    groups = {each["group"]: each for each in found["groups"]}
    assert set(groups) == {f"{name}-behind", f"{name}-done"}
    behind, done = groups[f"{name}-behind"], groups[f"{name}-done"]
    assert (behind["tried"], behind["broken"], behind["unseen"], behind["read_last"]) == (2, 2, 0, [two])
    assert (done["tried"], done["broken"], done["read_last"]) == (0, 0, [one, two])
    # The level looks at the newest version alone.
    said = schemas("impact", f"{name}-value", file, code=1).out
    assert "2 of 5 records could not be read with the new schema." in said
    assert f"{name}-0 offset 1" in said
    assert f"{name}-behind" in said
    assert "The level BACKWARD accepts the schema" in said
    assert schemas("impact", f"{name}-value", file_of(tmp_path, TWO), "--json").json["breaks"] is False


def test_a_change_that_the_level_refuses_may_break_nothing(
    schemas: Cli, broker: BrokerProcess, registry: RegistryProcess, name: str, tmp_path: Path
) -> None:
    """If this fails, a user cannot see that a refused change is harmless for the records that exist."""
    _, two = registered(registry, f"{name}-value", OLD, TWO)
    produce(broker.bootstrap, name, [framed(two, TWO, {"x": 5, "y": 6})] * 3)
    found = schemas("impact", f"{name}-value", file_of(tmp_path, BAD), "--json").json
    assert (found["is_compatible"], found["breaks"], found["new_readers"]["tried"]) == (True, False, 3)
    registry.call("PUT", f"/config/{name}-value", {"compatibility": "BACKWARD_TRANSITIVE"})
    found = schemas("impact", f"{name}-value", file_of(tmp_path, BAD), "--json").json
    assert (found["is_compatible"], found["breaks"]) == (False, False)


def test_what_a_group_read_before_the_sample_is_looked_up(
    schemas: Cli, broker: BrokerProcess, registry: RegistryProcess, name: str, tmp_path: Path
) -> None:
    """If this fails, a group that is far behind has no present reader, and what is ahead of it is not counted."""
    one, two = registered(registry, f"{name}-value", OLD, TWO)
    produce(broker.bootstrap, name, [framed(one, OLD, {"x": 1})] * 5 + [framed(two, TWO, {"x": 1, "y": 2})] * 15)
    for index, offset in enumerate((3, 3, 5)):
        commit(broker.bootstrap, name, f"{name}-{index}", offset)
    # Without x, present readers cannot read new records.
    file = file_of(tmp_path, record_of("y:int=0"))
    found = schemas("impact", f"{name}-value", file, "--records", "10", "--json").json
    assert found["seen"] == 10
    assert [(each["tried"], each["unseen"], each["read_last"]) for each in found["groups"]] == [
        (10, 7, [one]),
        (10, 7, [one]),
        (10, 5, [one]),
    ]
    readers = {each["schema"]: each for each in found["present_readers"]["readers"]}
    assert (readers[one]["groups"], readers[one]["is_newest"]) == ([f"{name}-{index}" for index in range(3)], False)
    assert (readers[two]["groups"], readers[two]["is_newest"]) == ([], True)
    assert readers[one]["tried"] == readers[one]["broken"] == readers[two]["broken"] == 10
    assert readers[one]["first"]["path"] == "/x"
    assert [each["kind"] for each in readers[one]["differences"]] == ["READER_FIELD_MISSING_DEFAULT_VALUE"]
    # BACKWARD promises nothing to them.
    assert found["breaks"] is False
    assert found["schemas"][0]["left_out"] == {"/x": 10}
    registry.call("PUT", f"/config/{name}-value", {"compatibility": "FULL"})
    assert schemas("impact", f"{name}-value", file, "--json", code=1).json["breaks"] is True


def test_register_and_check_try_first(
    schemas: Cli, broker: BrokerProcess, registry: RegistryProcess, name: str, tmp_path: Path
) -> None:
    """If this fails, a pipeline registers a schema that breaks records which it was told to look at."""
    one, two = registered(registry, f"{name}-value", OLD, TWO)
    produce(broker.bootstrap, name, [framed(one, OLD, {"x": 1}), framed(two, TWO, {"x": 1, "y": 2})])
    file = file_of(tmp_path, BAD)
    # Against the newest version alone, the schema is compatible.
    assert schemas("check", f"{name}-value", file, "--json").json["is_compatible"] is True
    said = schemas("check", f"{name}-value", file, "--records", "10", code=1).out
    assert "is compatible" in said
    assert "1 of 2 records could not be read" in said
    assert schemas("check", f"{name}-value", file, "--records", "10", "--json", code=1).json["impact"]["breaks"] is True
    said = schemas("register", f"{name}-value", file, "--records", "10", code=4, stdin=b"").err
    assert "First record that breaks" in said
    assert "add --yes" in said
    assert registry.get(f"/subjects/{name}-value/versions") == [1, 2]
    assert "1 of 2 records" in schemas("register", f"{name}-value", file, "--records", "10", "--dry-run", code=1).err
    assert schemas("register", f"{name}-value", file, "--records", "10", "--yes").out
    assert registry.get(f"/subjects/{name}-value/versions") == [1, 2, 3]


def test_topics_of_other_strategies_are_named(
    schemas: Cli, broker: BrokerProcess, registry: RegistryProcess, name: str, tmp_path: Path
) -> None:
    """If this fails, a subject of RecordNameStrategy cannot be tried, or is tried on records of other subjects."""
    record = f"R{name.replace('-', '')}"
    own = json.loads(OLD) | {"name": record}
    (mine,) = registered(registry, record, json.dumps(own))
    (other,) = registered(registry, "Other", OLD)
    produce(broker.bootstrap, name, [framed(mine, json.dumps(own), {"x": 1}), framed(other, OLD, {"x": 1})])
    file = file_of(tmp_path, json.dumps(json.loads(BAD) | {"name": record}))
    assert "name the topics" in schemas("impact", record, file, code=2).err
    found = schemas("impact", record, file, "--topic", name, "--json", code=1).json
    assert (found["new_readers"]["tried"], found["new_readers"]["broken"], found["other_subjects"]) == (1, 1, 1)
    assert "no such topic" in schemas("impact", record, file, "--topic", "absent", code=2).err


def test_a_new_subject_has_no_records_to_break(schemas: Cli, broker: BrokerProcess, name: str, tmp_path: Path) -> None:
    """If this fails, the first registration of a subject cannot be tried."""
    produce(broker.bootstrap, name, [b"plain"])
    said = schemas("impact", f"{name}-value", file_of(tmp_path, OLD)).out
    assert "nothing is known to break" in said
    assert "1 record without a schema" in said
    assert "not understood" in schemas("impact", f"{name}-value", file_of(tmp_path, '{"type":"x"}'), code=2).err


def test_the_registry_of_the_cluster_file_is_used(
    schemas: Cli,
    broker: BrokerProcess,
    registry: RegistryProcess,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If this fails, a change is tried with the schemas of another cluster's registry."""
    monkeypatch.setenv("BROKER_CY_REGISTRY", "http://127.0.0.1:1")
    monkeypatch.delenv("BROKER_CY_BOOTSTRAP")
    (one,) = registered(registry, f"{name}-value", OLD)
    produce(broker.bootstrap, name, [framed(one, OLD, {"x": 1})])
    clusters = file_of(
        tmp_path,
        f'[clusters.here]\nbootstrap = "{broker.bootstrap}"\nregistry = "{registry.url}"\n',
        "clusters.toml",
    )
    words: list[str | Path] = [
        "impact",
        f"{name}-value",
        file_of(tmp_path, TWO),
        "--clusters-file",
        clusters,
        "--cluster",
        "here",
    ]
    assert schemas(*words, "--json").json["new_readers"]["tried"] == 1


def test_segments_are_read_where_they_are(
    schemas: Cli, broker: BrokerProcess, registry: RegistryProcess, name: str, tmp_path: Path
) -> None:
    """If this fails, an operator cannot try a schema on the files of a broker, or gets another result."""
    one, two = registered(registry, f"{name}-value", OLD, TWO)
    produce(broker.bootstrap, name, [framed(one, OLD, {"x": 1}), framed(two, TWO, {"x": 1, "y": 2})])
    (log,) = broker.directory.rglob(f"{name}-0")
    words: list[str | Path] = ["impact", f"{name}-value", file_of(tmp_path, BAD), "--json"]
    by_requests = schemas(*words, code=1).json
    assert by_requests["new_readers"]["broken"] == 1
    assert schemas(*words, "--data-dir", log.parent, code=1).json == by_requests
    assert "no topic of the cluster follows" in schemas(*words, "--data-dir", tmp_path, code=2).err
