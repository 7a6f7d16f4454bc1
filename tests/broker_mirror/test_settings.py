"""The table of settings beside the definitions of Kafka 4.3.1's classes, and its page."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from broker_cy.client.security import NAMES
from broker_cy.core.config_def.scoped import Support
from broker_cy.core.config_def.types import to_text
from broker_mirror.settings import Place, Scope, Setting, is_known, setting_of, table
from tests.broker_mirror.oracle import mirror_maker
from tests.support import needs, recorded

ROOT = Path(__file__).resolve().parents[2]
CLASSES = {
    "Source": Scope.FLOW,
    "Checkpoint": Scope.FLOW,
    "Heartbeat": Scope.FLOW,
    "worker": Scope.WORKER,
    "top": Scope.FILE,
    "consumer": Scope.CONSUMER,
    "producer": Scope.PRODUCER,
    "admin": Scope.ADMIN,
}
SECURITY = ("ssl.", "sasl.", "security.", "bootstrap.servers", "config.providers", "internal.")
# Defaults that differ from those of the class, with the reason.
DEFAULTS = {
    (Scope.FLOW, "enabled"): "false, which MirrorMakerConfig sets",
    (Scope.FLOW, "source.cluster.alias"): "that of the pair, which MirrorMakerConfig sets",
    (Scope.FLOW, "target.cluster.alias"): "that of the pair, which MirrorMakerConfig sets",
    (Scope.FLOW, "key.converter"): "that of the worker",
    (Scope.FLOW, "value.converter"): "that of the worker",
    (Scope.FLOW, "header.converter"): "that of the worker",
    (Scope.WORKER, "key.converter"): "bytes, which MirrorMakerConfig sets",
    (Scope.WORKER, "value.converter"): "bytes, which MirrorMakerConfig sets",
    (Scope.WORKER, "header.converter"): "bytes, which MirrorMakerConfig sets",
    (Scope.WORKER, "offset.storage.topic"): "mm2-offsets.SOURCE.internal, which MirrorMakerConfig sets",
    (Scope.WORKER, "exactly.once.source.support"): "enabled: a mirror copies exactly once",
    (Scope.CONSUMER, "auto.offset.reset"): "earliest, which MirrorConnectorConfig sets",
    (Scope.CONSUMER, "client.rack"): "null for the empty text",
}


def definitions() -> list[tuple[Scope, str, str, str | None]]:
    """(scope, name, type, default) of each setting of Kafka's classes, without those of security."""
    return [
        (CLASSES[of_class], name, kind, default)
        for of_class, rows in recorded.of_kafka("mirror_settings").items()
        if of_class in CLASSES
        for name, kind, default, _ in rows
        if not name.startswith(SECURITY)
    ]


def test_every_setting_of_kafka_is_known() -> None:
    """If this fails, a file that MirrorMaker 2 runs is refused."""
    assert len(definitions()) > 300
    assert [(scope, name) for scope, name, _, _ in definitions() if not is_known(Place(scope, name))] == []


def test_types_and_defaults_are_those_of_kafka() -> None:
    """If this fails, a file without a setting means something else here."""
    compared = 0
    for scope, name, kind, default in definitions():
        setting = table().get((scope, name))
        if setting is None or setting.support is not Support.EFFECTIVE:
            continue
        assert setting.type.name == kind, name
        if (scope, name) in DEFAULTS:
            continue
        if default == "(required)":
            assert setting.required, name
            continue
        theirs = setting.parse(default) if default is not None else None
        assert to_text(setting.default, setting.type) == to_text(theirs, setting.type), name
        compared += 1
    assert compared > 50


def test_exceptions_are_in_use() -> None:
    """If this fails, the list hides a default that became another."""
    theirs = {(scope, name): default for scope, name, _, default in definitions()}
    for key in DEFAULTS:
        assert table()[key].default_text != theirs[key]


def is_used(name: str, text: str) -> bool:
    """Whether a source names the setting, or what its name is made of: refresh.topics of refresh.topics.enabled."""
    for suffix in (".enabled", ".interval.seconds", ".exclude"):
        if name.endswith(suffix) and f'"{name.removesuffix(suffix)}"' in text:
            return True
    return f'"{name}"' in text


def test_settings_with_an_effect_are_used() -> None:
    """If this fails, a setting is read, checked and then ignored, although the page says what it does."""
    sources = [path for path in (ROOT / "broker_mirror").rglob("*.py") if path.name != "settings.py"]
    text = "".join(path.read_text() for path in sources)
    unused = {
        name
        for (scope, name), setting in table().items()
        if setting.support is Support.EFFECTIVE
        and not is_used(name, text)
        # A setting with one possible value, and config providers, which the parser of the file takes.
        and not (setting.documentation or "").startswith("Only this class")
        and not name.endswith("*")
        and scope is not Scope.FILE
    }
    assert unused == set()


def test_no_setting_of_connections_is_in_the_table() -> None:
    """If this fails, a setting has two meanings at one place."""
    assert [name for _, name in table() if name in NAMES] == []


@pytest.mark.parametrize(
    ("scope", "name", "row"),
    [
        (Scope.FLOW, "transforms.x.type", "transforms.*"),
        (Scope.FLOW, "transforms", "transforms"),
        (Scope.WORKER, "config.storage.topic", "config.storage.*"),
        (Scope.WORKER, "offset.storage.topic", "offset.storage.topic"),
        (Scope.WORKER, "offset.storage.cleanup.policy", "offset.storage.*"),
        (Scope.CONSUMER, "topics", None),
    ],
)
def test_a_name_finds_its_row(scope: Scope, name: str, row: str | None) -> None:
    """If this fails, a setting is unknown, or has the meaning of another one."""
    found: Setting | None = setting_of(scope, name)
    assert (None if found is None else found.name) == row


def test_the_page_is_up_to_date() -> None:
    """If this fails, docs/mirror-settings.md lacks a setting: run python tools/mirror_doc.py."""
    done = subprocess.run([sys.executable, ROOT / "tools" / "mirror_doc.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.full
@needs.java
def test_the_recorded_definitions_are_current() -> None:
    """If this fails, the recorded settings are not those of Kafka's classes."""
    with mirror_maker() as java:
        recorded.check("mirror_settings", java.ask({"op": "defs"}))
