"""The screens of schemas, with a running registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from textual.widgets import TextArea

from admin_tui.widgets.grid import Grid
from broker_registry.console import views
from tests.admin_tui.conftest import Terminal, drive, entry_of
from tests.support.broker import QUICK, BrokerProcess
from tests.support.registry import RegistryProcess, running_registry
from tests.support.schema_records import BAD, OLD, TWO, framed, new_topic, produce, registered

SIZE = (140, 40)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker of its own: other screens show all topics of theirs."""
    found = BrokerProcess(tmp_path_factory.mktemp("schemas-broker"), QUICK)
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture(scope="module")
def registry(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryProcess]:
    with running_registry(broker.bootstrap, tmp_path_factory.mktemp("tui-registry")) as found:
        yield found


def grid_of(terminal: Terminal) -> Grid[object]:
    return terminal.app.screen.query(Grid).first()


def test_subjects_without_level_and_mode_are_told(
    broker: BrokerProcess, registry: RegistryProcess, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, an engineer takes a subject whose level was not read for one without a level."""
    monkeypatch.setattr(views, "SETTINGS_MAX", 1)
    for number in (1, 2):
        registered(registry, f"{name}-{number}-value", OLD)

    async def job(terminal: Terminal) -> None:
        await terminal.command("schemas")
        await terminal.goes_to("schemas")
        await terminal.shows(f"{name}-2-value", "Subjects (level and mode of the first 1 only)")

    drive(replace(entry_of(broker.bootstrap), registry=registry.url), job, size=SIZE)


def test_subjects_versions_and_differences_are_shown(
    broker: BrokerProcess, registry: RegistryProcess, name: str
) -> None:
    """If this fails, an engineer does not see the schemas of records, or which of them are incompatible."""
    one, two = registered(registry, f"{name}-value", OLD, BAD)
    outer = '{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}'
    reference = {"name": "R", "subject": f"{name}-value", "version": 2}
    registry.register(f"{name}-outer", outer, references=[reference])

    async def job(terminal: Terminal) -> None:
        await terminal.command("schemas")
        await terminal.goes_to("schemas")
        await terminal.shows(f"{name}-value", f"{name}-outer", "BACKWARD", "READWRITE")
        await terminal.press("slash")
        await terminal.type(f"{name}-value")
        await terminal.press("enter", "enter")
        await terminal.goes_to("schema")
        await terminal.shows(f"schemas > {name}-value", '"name": "y"', f"id {two}", f"{name}-outer version 1")
        await terminal.press("j")
        await terminal.shows(f"Version 1, id {one}")
        await terminal.hides('"name": "y"')
        await terminal.press("k", "v")
        await terminal.shows("READER_FIELD_MISSING_DEFAULT_VALUE", "refused", "The level is BACKWARD.", "+++")
        await terminal.press("j")
        await terminal.shows("One version has no differences.")
        await terminal.press("escape")
        await terminal.goes_to("schemas")

    drive(replace(entry_of(broker.bootstrap), registry=registry.url), job, size=SIZE)


def test_a_schema_is_pasted_tried_and_registered(broker: BrokerProcess, registry: RegistryProcess, name: str) -> None:
    """If this fails, a schema is registered that breaks records, without a word about them."""
    new_topic(broker.bootstrap, name, 1)
    one, two = registered(registry, f"{name}-value", OLD, TWO)
    produce(broker.bootstrap, name, [framed(one, OLD, {"x": 1}), framed(two, TWO, {"x": 1, "y": 2})])

    async def job(terminal: Terminal) -> None:
        await terminal.command(f"schema {name}-value")
        await terminal.goes_to("schema")
        await terminal.until(lambda: grid_of(terminal).rows, "the versions")
        await terminal.press("c")
        await terminal.until(lambda: terminal.app.screen.query("#field-text"), "the form")
        await terminal.press("ctrl+s")
        await terminal.shows("enter the text of the schema, or a file")
        terminal.app.screen.query_one("#field-text", TextArea).text = BAD
        await terminal.press("ctrl+s")
        await terminal.shows("1 of 2 records could not be read", f"First record that breaks: {name}-0 offset 0")
        assert registry.get(f"/subjects/{name}-value/versions") == [1, 2]
        await terminal.type(f"{name}-value")
        await terminal.press("enter")
        await terminal.shows("version 3 has id")
        await terminal.until(lambda: len(grid_of(terminal).rows) == 3, "the new version")
        # The cursor stays on the version that it was on.
        await terminal.press("g")
        await terminal.shows("Version 3, id")
        await terminal.press("ctrl+d")
        await terminal.fill(kind="can be restored")
        await terminal.shows("deletes 1 version, which can be restored")
        await terminal.press("right", "enter")
        await terminal.shows(f"deleted {name}-value: versions 3")
        assert registry.get(f"/subjects/{name}-value/versions") == [1, 2]

    drive(replace(entry_of(broker.bootstrap), registry=registry.url), job, size=SIZE)


def test_without_a_registry_the_screen_says_how_to_name_one(broker: BrokerProcess) -> None:
    """If this fails, an empty table looks like a registry without schemas."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("schemas")
        await terminal.goes_to("schemas")
        await terminal.shows("No schema registry is known", "--registry URL")
        assert "Register" not in terminal.lines()[-1]
        await terminal.command("schema x")
        await terminal.goes_to("schema")
        await terminal.shows("No schema registry is known")

    drive(broker.bootstrap, job, size=SIZE)


def test_a_registry_that_is_down_is_told(broker: BrokerProcess) -> None:
    """If this fails, the table waits for ever without a reason."""

    async def job(terminal: Terminal) -> None:
        await terminal.command("schemas")
        await terminal.goes_to("schemas")
        await terminal.shows("connection refused", "no answer")

    drive(replace(entry_of(broker.bootstrap), registry="http://127.0.0.1:1"), job, size=SIZE)


def test_nothing_is_changed_in_readonly_mode(broker: BrokerProcess, registry: RegistryProcess, name: str) -> None:
    """If this fails, a console that was started to look deletes schemas."""
    registered(registry, f"{name}-value", OLD)

    async def job(terminal: Terminal) -> None:
        await terminal.command(f"schema {name}-value")
        await terminal.goes_to("schema")
        await terminal.until(lambda: grid_of(terminal).rows, "the version")
        await terminal.press("ctrl+d", "c")
        assert not terminal.app.screen.query("#field-kind, #field-text")

    drive(replace(entry_of(broker.bootstrap), registry=registry.url), job, size=SIZE, is_readonly=True)
