"""Settings of a broker: viewed, changed and reset with keys."""

from __future__ import annotations

from typing import Any

from admin_tui.screens.settings import BrokerSettingsView
from broker_cy.admin.configs import ConfigEntry, ConfigResource, ResourceType
from broker_cy.core.configs import ConfigSource
from tests.admin_tui.conftest import Terminal, drive
from tests.support.broker import BrokerProcess

BROKER = ConfigResource(ResourceType.BROKER, "1")
SETTING = "message.max.bytes"


async def value_of(terminal: Terminal, name: str) -> ConfigEntry:
    (entry,) = (await terminal.client.configs.describe([BROKER], names=[name])).whole()[BROKER]
    return entry


async def open_setting(terminal: Terminal, name: str) -> Any:
    """Move the cursor to one setting; returns the table."""
    await terminal.command("brokers")
    await terminal.shows("controller")
    await terminal.press("e")
    await terminal.goes_to("broker-settings")
    await terminal.shows("brokers > 1 > settings", "Settings · ")
    await terminal.press("slash")
    await terminal.type(name)
    await terminal.press("enter")
    grid: Any = terminal.app.screen.query_one("Grid")
    grid.move_to(next(at for at, row in enumerate(grid.view) if row.name == name))
    await terminal.until(lambda: grid.selected.name == name, name)
    return grid


def test_a_broker_setting_is_changed_and_taken_back(broker_cy: BrokerProcess) -> None:
    """If this fails, a setting is changed to nonsense, on another broker, or cannot be changed back."""

    async def job(terminal: Terminal) -> None:
        before = await value_of(terminal, SETTING)
        assert before.source is ConfigSource.DEFAULT_CONFIG
        grid = await open_setting(terminal, SETTING)
        await terminal.press("e")
        await terminal.shows(f"{SETTING} of broker 1")
        await terminal.fill(value="much")
        await terminal.shows("a whole number")
        await terminal.fill(value="-1")
        # Only the broker can check this rule: the form is shown again, with the typed values.
        await terminal.shows("INVALID_REQUEST")
        assert await value_of(terminal, SETTING) == before
        await terminal.fill(value="2097152")
        await terminal.shows(
            f"{SETTING}: {before.value} -> 2097152", f"configs alter broker 1 --set={SETTING}=2097152 --yes"
        )
        await terminal.press("escape")
        assert await value_of(terminal, SETTING) == before
        await terminal.press("e")
        await terminal.fill(value="2097152")
        await terminal.shows("-> 2097152")
        await terminal.press("tab", "enter")
        await terminal.shows(f"set {SETTING} of broker 1 to 2097152", "2097152  (2.0 MiB)")
        changed = await value_of(terminal, SETTING)
        assert (changed.value, changed.source) == ("2097152", ConfigSource.DYNAMIC_BROKER_CONFIG)
        await terminal.until(lambda: grid.selected.source is ConfigSource.DYNAMIC_BROKER_CONFIG, "the new source")
        await terminal.press("ctrl+d")
        await terminal.shows(f"{SETTING}: 2097152 -> {before.value}", f"--delete {SETTING}")
        await terminal.press("tab", "enter")
        await terminal.shows(f"removed {SETTING} from broker 1")
        assert await value_of(terminal, SETTING) == before

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_what_cannot_be_changed_is_grey(broker_cy: BrokerProcess) -> None:
    """If this fails, a key opens a form whose value the broker refuses in any case."""

    async def job(terminal: Terminal) -> None:
        await open_setting(terminal, "node.id")
        view = terminal.app.screen
        assert isinstance(view, BrokerSettingsView)
        assert view.check_action("edit", ()) is None
        assert view.check_action("unset", ()) is None
        await terminal.press("e", "enter")
        assert terminal.app.screen is view

    drive(broker_cy.bootstrap, job, size=(120, 40))


def test_readonly_changes_no_broker(broker_cy: BrokerProcess) -> None:
    """If this fails, a user of a read-only console changes a broker."""

    async def job(terminal: Terminal) -> None:
        before = await value_of(terminal, SETTING)
        await open_setting(terminal, SETTING)
        view = terminal.app.screen
        await terminal.press("e", "enter", "ctrl+d")
        assert terminal.app.screen is view
        assert await value_of(terminal, SETTING) == before

    drive(broker_cy.bootstrap, job, size=(120, 40), is_readonly=True)
