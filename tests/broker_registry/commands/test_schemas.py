"""`broker-cy schemas` against running registries."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from bench.launch.nodes import free_ports
from broker_cy.core import extras
from broker_cy.launch.processes import run
from tests.broker_cy.commands.conftest import COMMAND, ROOT, Cli, Said, bare
from tests.broker_registry.operations.support import record_of
from tests.support.broker import BrokerProcess
from tests.support.registry import Registry, RegistryProcess, running_registry

__all__ = ["bare"]

INT = record_of("x:int")
TWO = record_of("x:int", "y:int=0")
# Without a default: new readers cannot read old data.
BAD = record_of("x:int", "z:string")


@pytest.fixture(scope="module")
def other(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    """A second registry, with a topic of its own."""
    directory = tmp_path_factory.mktemp("other")
    with running_registry(broker.bootstrap, directory, ["--topic", f"_schemas-{uuid.uuid4().hex[:8]}"]) as found:
        yield found


@pytest.fixture
def schemas(bare: Cli, registry: RegistryProcess, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs `broker-cy schemas` with the registry of the module."""
    monkeypatch.setenv("BROKER_CY_REGISTRY", registry.url)
    return lambda *words, code=0, stdin=None: bare("schemas", *words, code=code, stdin=stdin)


def registered(registry: Registry, subject: str, *texts: str) -> list[int]:
    return [registry.register(subject, text).body["id"] for text in texts]


def file_of(directory: Path, text: str, name: str = "schema.avsc") -> Path:
    path = directory / name
    path.write_text(text)
    return path


def test_subjects_and_versions_are_listed(schemas: Cli, registry: RegistryProcess, subject: str) -> None:
    """If this fails, operators do not see which schemas a registry has."""
    first, second = registered(registry, subject, INT, TWO)
    assert _rows(schemas("list", "--prefix", subject)) == [[subject, *_cells(2, second, TWO)]]
    assert _rows(schemas("versions", subject)) == [
        [subject, *_cells(1, first, INT)],
        [subject, *_cells(2, second, TWO)],
    ]
    (row,) = schemas("list", "--prefix", subject, "--json").json
    assert (row["subject"], row["version"], row["id"], row["type"], row["deleted"]) == (
        subject,
        2,
        second,
        "AVRO",
        False,
    )


def _rows(said: Said) -> list[list[str]]:
    return [[cell.strip() for cell in row] for row in said.rows()]


def _cells(version: int, schema_id: int, text: str) -> list[str]:
    return [f"{version}", f"{schema_id}", "AVRO", "0", f"{len(text)} B"]


def test_texts_are_shown(schemas: Cli, registry: RegistryProcess, subject: str) -> None:
    """If this fails, users cannot read a schema, or get the text of another version."""
    first, _ = registered(registry, subject, INT, TWO)
    assert json.loads(schemas("show", subject).out) == json.loads(TWO)
    assert len(schemas("show", subject).out.splitlines()) > 5
    assert json.loads(schemas("show", subject, "--version", "1").out) == json.loads(INT)
    assert schemas("show", "--id", str(first), "--json").json["schema"] == INT
    assert "error code 40402" in schemas("show", subject, "--version", "9", code=1).err
    assert "name a subject" in schemas("show", code=2).err


def test_differences_have_their_kinds(schemas: Cli, registry: RegistryProcess, subject: str) -> None:
    """If this fails, a user does not see why a change is incompatible, and in which direction."""
    registry.call("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    registered(registry, subject, INT, BAD)
    registry.call("PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})
    said = schemas("diff", subject).out
    assert f"--- {subject} version 1" in said
    assert '+      "name": "z"' in said
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in said
    found = schemas("diff", subject, "1", "2", "--json").json
    assert found["level"] == "BACKWARD"
    assert [(each["kind"], each["reader"], each["is_refused"]) for each in found["incompatibilities"]] == [
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "new", True)
    ]
    # The other way round only the old reader has the problem, which BACKWARD allows.
    found = schemas("diff", subject, "2", "1", "--json").json
    assert [(each["reader"], each["is_refused"]) for each in found["incompatibilities"]] == [("old", False)]


JSON_OLD = '{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}'
JSON_GOOD = JSON_OLD.replace('"additionalProperties":false', '"additionalProperties":{"type":"string"}')
JSON_BAD = JSON_OLD.replace('"a":{"type":"string"}', '"a":{"type":"integer"}')
PROTO_OLD = 'syntax = "proto3";\n\nmessage M {\n  string a = 1;\n}\n'
PROTO_GOOD = PROTO_OLD.replace("string a = 1;", "string a = 1;\n  int64 b = 2;")
PROTO_BAD = PROTO_OLD.replace("string a", "int32 a")


@pytest.mark.parametrize(
    ("ending", "old", "good", "bad", "kind"),
    [
        ("json", JSON_OLD, JSON_GOOD, JSON_BAD, "TYPE_CHANGED"),
        ("proto", PROTO_OLD, PROTO_GOOD, PROTO_BAD, "FIELD_SCALAR_KIND_CHANGED"),
    ],
)
def test_other_schema_types_are_compared_too(
    schemas: Cli, registry: RegistryProcess, subject: str, tmp_path: Path,
    ending: str, old: str, good: str, bad: str, kind: str,
) -> None:  # fmt: skip
    """If this fails, users of JSON Schema and Protobuf do not see why a change is incompatible."""
    files = {
        name: file_of(tmp_path, text, f"{name}.{ending}") for name, text in zip("ogb", (old, good, bad), strict=True)
    }
    assert schemas("register", subject, files["o"], "--json").json["version"] == 1
    assert "is compatible" in schemas("check", subject, files["g"]).out
    found = schemas("check", subject, files["b"], "--json", code=1).json
    assert any(kind in each for each in found["messages"])
    assert kind in schemas("check", subject, files["b"], code=1).out
    assert schemas("register", subject, files["g"], "--json").json["version"] == 2
    said = schemas("diff", subject).out
    assert f"+++ {subject} version 2" in said
    registry.call("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    assert schemas("register", subject, files["b"], "--json").json["version"] == 3
    found = schemas("diff", subject, "1", "3", "--json").json
    assert (found["old"], found["new"], found["level"]) == (1, 3, "NONE")
    assert {(each["kind"], each["reader"], each["is_refused"]) for each in found["incompatibilities"]} == {
        (kind, "new", False),
        (kind, "old", False),
    }
    assert kind in schemas("diff", subject, "1", "3").out


def test_a_file_is_checked_and_registered(
    schemas: Cli, registry: RegistryProcess, subject: str, tmp_path: Path
) -> None:
    """If this fails, a pipeline accepts a change that the registry refuses, or registers one that it only tries."""
    registered(registry, subject, INT)
    good, bad = file_of(tmp_path, TWO), file_of(tmp_path, BAD, "bad.avsc")
    assert "is compatible" in schemas("check", subject, good).out
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in schemas("check", subject, bad, code=1).out
    assert schemas("check", subject, bad, "--json", code=1).json["is_compatible"] is False
    assert schemas("check", subject, bad, "--against", "1", code=1).out
    assert "would register" in schemas("register", subject, good, "--dry-run").err
    assert "would not register" in schemas("register", subject, bad, "--dry-run", code=1).err
    assert registry.get(f"/subjects/{subject}/versions") == [1]
    said = schemas("register", subject, good, "--json").json
    assert (said["subject"], said["version"]) == (subject, 2)
    assert schemas("register", subject, good).out == f"{subject} version 2 has id {said['id']}\n"
    assert "error code 409" in schemas("register", subject, bad, code=1).err
    assert "add --type" in schemas("check", subject, file_of(tmp_path, INT, "x.txt"), code=2).err
    assert "is compatible" in schemas("check", subject, tmp_path / "x.txt", "--type", "avro").out
    assert "no reference" in schemas("check", subject, good, "--reference", "a", code=2).err


def test_deletions_are_confirmed(schemas: Cli, registry: RegistryProcess, subject: str) -> None:
    """If this fails, a script deletes schemas without anybody's consent, or a dry run deletes them."""
    registered(registry, subject, INT, TWO)
    path = f"/subjects/{subject}/versions"
    assert "would delete" in schemas("delete", subject, "--dry-run").err
    assert "add --yes" in schemas("delete", subject, "--permanent", code=4, stdin=b"").err
    assert registry.get(path) == [1, 2]
    assert schemas("delete", subject, "--version", "1", "--yes").out == f"deleted {subject}: versions 1\n"
    assert registry.get(path) == [2]
    assert registry.get(f"{path}?deleted=true") == [1, 2]
    said = schemas("delete", subject, "--permanent", "--yes", "--json").json
    assert said == {"subject": subject, "versions": [1, 2], "permanent": True, "dry_run": False}
    assert registry.call("GET", f"{path}?deleted=true").status == 404
    assert "error code 40401" in schemas("delete", subject, "--yes", code=1).err


def test_referenced_schemas_stay(schemas: Cli, registry: RegistryProcess, subject: str) -> None:
    """If this fails, a schema is deleted that others need to be parsed."""
    registered(registry, subject, INT)
    outer = '{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}'
    references = [{"name": "R", "subject": subject, "version": 1}]
    schema_id = registry.register(f"{subject}-outer", outer, references=references).body["id"]
    said = schemas("delete", subject, "--yes", code=1).err
    assert "error code 42206" in said
    assert str(schema_id) in said


def test_copies_keep_ids(schemas: Cli, registry: RegistryProcess, other: RegistryProcess, subject: str) -> None:
    """If this fails, records that were written before a move are decoded with other schemas."""
    # Ids in the target must not be those that it would assign.
    registered(registry, f"{subject}-before", record_of(f"{subject.replace('-', '_')}:int"))
    ids = registered(registry, subject, INT, TWO)
    outer = '{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}'
    references = [{"name": "R", "subject": subject, "version": 2}]
    ids.append(registry.register(f"{subject}-outer", outer, references=references).body["id"])
    words = ["copy", "--to", other.url, "--subject", f"{subject}-outer", "--subject", subject]
    assert "would copy 3 versions" in schemas(*words, "--dry-run").err
    assert "add --yes" in schemas(*words, code=4, stdin=b"").err
    assert other.call("GET", f"/subjects/{subject}/versions").status == 404
    assert "copied 3 versions" in schemas(*words, "--yes").out
    for path, schema_id in zip(
        (f"{subject}/versions/1", f"{subject}/versions/2", f"{subject}-outer/versions/1"), ids, strict=True
    ):
        theirs, ours = registry.get(f"/subjects/{path}"), other.get(f"/subjects/{path}")
        assert ours["id"] == schema_id
        assert {**ours, "ts": 0} == {**theirs, "ts": 0}
    # The mode of the subject is again that of the registry.
    assert other.call("GET", f"/mode/{subject}").status == 404
    said = schemas(*words, "--yes", "--json").json
    assert said["copied"] == 0
    # A newer version is added to the same subject.
    registered(registry, subject, record_of("x:int", "y:int=0", "w:int=1"))
    assert schemas(*words, "--yes", "--json").json["copied"] == 1
    assert other.get(f"/subjects/{subject}/versions") == [1, 2, 3]


def test_a_copy_replaces_nothing(schemas: Cli, registry: RegistryProcess, other: RegistryProcess, subject: str) -> None:
    """If this fails, a copy changes the meaning of an id, and records there are decoded wrong."""
    name = subject.replace("-", "_")
    registered(registry, subject, record_of(f"{name}:int"))
    registered(other, subject, record_of(f"{name}:string"))
    said = schemas("copy", "--to", other.url, "--subject", subject, "--yes", code=1)
    assert "has another schema" in said.err
    assert other.call("GET", f"/mode/{subject}").status == 404
    assert len(other.get(f"/subjects/{subject}/versions")) == 1


def test_copies_have_settings_and_deleted_versions(
    schemas: Cli, registry: RegistryProcess, other: RegistryProcess, subject: str
) -> None:
    """If this fails, a registry that is moved allows other changes than before, or forgets what can be restored."""
    context = f":.{subject}:"
    names = [f"{context}{name}" for name in "ab"]
    ids = registered(registry, names[0], INT, TWO) + registered(registry, names[1], INT)
    for name, config in (
        (names[0], {"compatibility": "FULL", "normalize": True}),
        (context, {"compatibility": "NONE"}),
    ):
        assert registry.call("PUT", f"/config/{quote(name, safe='')}", config).status == 200
    assert registry.call("DELETE", f"/subjects/{names[0]}/versions/1").body == 1
    assert registry.call("PUT", f"/mode/{names[1]}", {"mode": "READONLY"}).status == 200
    words = ["copy", "--to", other.url, "--prefix", context]
    assert "copied 2 versions to" in schemas(*words, "--yes").out
    assert other.get(f"/subjects/{names[0]}/versions?deleted=true") == [2]
    assert other.call("GET", f"/config/{names[0]}").status == 404
    words += ["--deleted", "--settings"]
    said = schemas(*words, "--dry-run").err
    assert "would copy 1 versions and the settings of 3 scopes" in said
    said = schemas(*words, "--yes", "--json").json
    assert (said["copied"], said["settings"]) == (1, 3)
    assert other.get(f"/subjects/{names[0]}/versions") == [2]
    assert other.get(f"/subjects/{names[0]}/versions?deleted=true") == [1, 2]
    assert other.get(f"/subjects/{names[0]}/versions/1?deleted=true")["id"] == ids[0]
    for path in (f"config/{names[0]}", f"config/{context}", f"mode/{names[1]}"):
        assert other.get(f"/{path}") == registry.get(f"/{path}")
    # All versions have been copied; the settings stay the same.
    assert schemas(*words, "--yes", "--json").json["copied"] == 0
    assert other.call("GET", f"/mode/{names[0]}").status == 404
    # The mode of a registry that is frozen for its move stays there.
    before = registry.get("/config"), other.get("/config")
    assert registry.call("PUT", "/config", {"compatibility": "FORWARD"}).status == 200
    try:
        schemas("copy", "--to", other.url, "--settings", "--subject", names[1], "--yes")
        assert other.get("/config") == before[1]
    finally:
        registry.call("PUT", "/config", {"compatibility": before[0]["compatibilityLevel"]})


def test_problems_have_the_exit_codes_of_all_commands(bare: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a script cannot tell a registry that is down from one that refuses."""
    monkeypatch.delenv("BROKER_CY_REGISTRY", raising=False)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    assert "connection refused" in bare("schemas", "list", "--registry", url, code=3).err
    said = bare("schemas", "list", "--registry", url, "--json", code=3).err
    assert json.loads(said)["error"]["failure"] == "unreachable"
    assert "no URL of a registry" in bare("schemas", "list", "--registry", "127.0.0.1:8081", code=2).err
    monkeypatch.setattr(extras, "find_spec", lambda name: None if name == "fastavro" else name)
    said = bare("schemas", "list", "--registry", url, code=2).err
    assert "pip install 'broker-cy[registry]'" in said


def completions(words: str, variables: dict[str, str]) -> list[str]:
    """Return the completions that bash would offer for the last word."""
    env = {"_BROKER_CY_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    done = run(COMMAND, cwd=ROOT, env={**env, **variables}, check=False)
    return [line.split(",", 1)[1] for line in done.stdout.decode().splitlines() if line]


def test_subjects_are_completed(registry: RegistryProcess, subject: str) -> None:
    """If this fails, long names of subjects have to be typed."""
    registered(registry, subject, INT)
    of_registry = {"BROKER_CY_REGISTRY": registry.url}
    start = subject[:-3]
    assert completions(f"broker-cy schemas show {start}", of_registry) == [subject]
    assert completions(f"broker-cy schemas show --registry {registry.url} {start}", {}) == [subject]
    assert completions(f"broker-cy produce t --value-subject {start}", of_registry) == [subject]
    # A registry that is down offers nothing, and prints nothing.
    (port,) = free_ports(1)
    assert completions("broker-cy schemas show s", {"BROKER_CY_REGISTRY": f"http://127.0.0.1:{port}"}) == []
