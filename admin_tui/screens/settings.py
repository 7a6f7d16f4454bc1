"""Settings of a topic or a broker: value, source and documentation; edit, and reset to the default."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from admin_tui.screens.view import View
from admin_tui.widgets.columns import grid_column
from admin_tui.widgets.grid import Grid
from broker_cy.admin.configs import ConfigEntry, ConfigResource, ResourceType
from broker_cy.console.acts.configs import edit_form, is_own, plan_set, plan_unset, source_text
from broker_cy.console.columns import settings
from broker_cy.reporting.foreign_text import clean


class SettingsView(View):
    """Settings of one resource."""

    CHANGES = frozenset({"edit", "unset"})
    ABOUT = """Every setting with its value and the source of the value. The lower part has its documentation, and the
    values that would apply without this one.

`e` edits. `ctrl+d` removes the value that was set for this topic or broker, so that the next one applies. `o` shows
only settings that differ from the default."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e,enter", "edit", "Edit", id="settings.edit"),
        Binding("ctrl+d", "unset", "Back to default", id="settings.unset"),
        Binding("o", "own", "Only set", id="settings.own"),
    ]
    DEFAULT_CSS = """
    SettingsView #about { height: 6; border: round $panel-lighten-2; border-title-color: $text-accent; }
    """
    KIND: ClassVar[ResourceType]

    def __init__(self, name: str) -> None:
        super().__init__()
        self.resource = ConfigResource(self.KIND, name)
        self._only_own = False

    @property
    def path(self) -> str:
        return f"{self.KIND.name.lower()}s > {self.resource.name} > settings"

    def body(self) -> ComposeResult:
        yield Grid[ConfigEntry](
            [
                grid_column(settings.SETTING, letter="S"),
                grid_column(settings.VALUE, flex=True, letter="V"),
                grid_column(settings.SOURCE, letter="O"),
            ],
            key=lambda row: row.name,
            text=lambda row: f"{row.name} {row.value}",
            title="Settings",
        )
        yield Static(Text(""), id="about")

    def connect(self) -> None:
        self.link(self.session.configs(self.resource), self.grid, self._show)
        self.grid.focus()

    def _show(self) -> None:
        entries = self.session.configs(self.resource).value
        if entries is not None:
            self.grid.set_rows(entry for entry in entries if not (self._only_own and entry.is_default))

    def on_grid_moved(self, event: Grid.Moved) -> None:
        event.stop()
        entry: ConfigEntry | None = self.grid.selected
        about = self.query_one("#about", Static)
        self.refresh_bindings()
        if entry is None:
            about.update(Text(""))
            return
        about.border_title = Text(entry.name)
        text = Text(clean(entry.documentation or ""))
        if entry.is_read_only:
            text.append("\nread-only: change it in the broker's configuration file and restart the broker", "yellow")
        for other in entry.synonyms[1:]:
            text.append(f"\notherwise: {other.name} = {clean(other.value or 'null')}", "bright_black")
            text.append(f" ({source_text(other.source)})", "bright_black")
        about.update(text)

    def on_grid_selected(self, event: Grid.Selected) -> None:
        event.stop()
        self.action_edit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        entry: ConfigEntry | None = self.grid.selected if self.query(Grid) else None
        if action in ("edit", "unset") and entry is None:
            return False
        if action == "edit" and entry is not None and entry.is_read_only:
            return None
        if action == "unset" and entry is not None and not is_own(entry):
            return None
        return super().check_action(action, parameters)

    def action_own(self) -> None:
        self._only_own = not self._only_own
        self._show()

    def action_edit(self) -> None:
        entry: ConfigEntry | None = self.grid.selected
        if entry is None or entry.is_read_only:
            return
        self.act(
            lambda values: plan_set(self.client, self.command, self.resource, entry, values["value"]),
            form=edit_form(self.resource, entry),
        )

    def action_unset(self) -> None:
        entry: ConfigEntry | None = self.grid.selected
        if entry is not None:
            self.act(lambda values: plan_unset(self.client, self.command, self.resource, entry))


class TopicSettingsView(SettingsView):
    """Settings of a topic."""

    NAME = "topic-settings"
    KIND = ResourceType.TOPIC


class BrokerSettingsView(SettingsView):
    """Settings of a broker."""

    NAME = "broker-settings"
    KIND = ResourceType.BROKER
