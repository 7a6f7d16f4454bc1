"""Settings of a topic or a broker: what holds, where it comes from, what it is for; edit, and back to the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from admin_tui.screens.view import View
from admin_tui.widgets.grid import Column, Grid
from broker_cy.admin.configs import (
    AlterOp,
    ConfigChange,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ConfigType,
    ResourceType,
)
from broker_cy.admin.text import clean, duration, size
from broker_cy.console.acts.plan import Plan
from broker_cy.console.fields import Field
from broker_cy.console.values import INT64_MAX, INT64_MIN, integer

_SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "file",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.UNKNOWN: "unknown",
}
_INT32_MAX, _INT16_MAX = (1 << 31) - 1, (1 << 15) - 1
_HUMAN_MS_MIN, _HUMAN_BYTES_MIN = 1_000, 1_024


def shown_value(entry: ConfigEntry) -> str:
    """The value, and for large times and sizes what it is in larger units."""
    if entry.is_sensitive:
        return "(secret)"
    if entry.value is None:
        return "(null)"
    value = clean(entry.value)
    if value.isdecimal() and int(value) < INT64_MAX:
        if entry.name.endswith(".ms") and int(value) >= _HUMAN_MS_MIN:
            return f"{value}  ({duration(int(value))})"
        if entry.name.endswith(".bytes") and int(value) >= _HUMAN_BYTES_MIN:
            return f"{value}  ({size(int(value))})"
    return value


def parser_of(entry: ConfigEntry) -> Callable[[str], str]:
    """Checks a value by its type; the broker checks the rest before anything is changed."""
    ranges = {
        ConfigType.INT: (-_INT32_MAX - 1, _INT32_MAX),
        ConfigType.SHORT: (-_INT16_MAX - 1, _INT16_MAX),
        ConfigType.LONG: (INT64_MIN, INT64_MAX),
    }

    def parse(text: str) -> str:
        if entry.kind in ranges:
            return str(integer(*ranges[entry.kind])(text))
        if entry.kind is ConfigType.BOOLEAN and text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        if entry.kind is ConfigType.DOUBLE:
            try:
                float(text)
            except ValueError:
                raise ValueError(f"{text!r}: a number is expected") from None
        return text

    return parse


class SettingsView(View):
    """Settings of one resource."""

    CHANGES = frozenset({"edit", "unset"})
    ABOUT = """Every setting with its value and where it comes from; the lower part says what it is for, and what
    would hold without it.

`e` edits, `ctrl+d` takes the own value away, so that the next in the list holds. `o` shows only what is not a
default."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e,enter", "edit", "Edit", id="settings.edit"),
        Binding("ctrl+d", "unset", "Back to default", id="settings.unset"),
        Binding("o", "own", "Only own", id="settings.own"),
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
                Column("Setting", lambda row: row.name, 38, lambda row: row.name, letter="S"),
                Column("Value", self._value, 20, lambda row: row.value or "", flex=True, letter="V"),
                Column("From", lambda row: _SOURCES.get(row.source, "other"), 11, lambda row: row.source, letter="F"),
            ],
            key=lambda row: row.name,
            text=lambda row: f"{row.name} {row.value}",
            title="Settings",
        )
        yield Static(Text(""), id="about")

    @staticmethod
    def _value(row: ConfigEntry) -> Text:
        own = row.source in (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)
        return Text(shown_value(row), "bold cyan" if own else "bright_black" if row.is_read_only else "")

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
            text.append("\nread-only: it is changed in the broker's file, and a start", "yellow")
        for other in entry.synonyms[1:]:
            text.append(f"\nwithout it: {other.name} = {clean(other.value or 'null')}", "bright_black")
            text.append(f" ({_SOURCES.get(other.source, 'other')})", "bright_black")
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
        if action == "unset" and entry is not None and entry.source not in _OWN:
            return None
        return super().check_action(action, parameters)

    def action_own(self) -> None:
        self._only_own = not self._only_own
        self._show()

    def action_edit(self) -> None:
        entry: ConfigEntry | None = self.grid.selected
        if entry is None or entry.is_read_only:
            return
        field = Field(
            "value",
            entry.kind.name.lower(),
            parser_of(entry),
            "" if entry.is_sensitive else entry.value or "",
            choices=("true", "false") if entry.kind is ConfigType.BOOLEAN else (),
        )
        self.act(
            lambda values: self._plan(entry, ConfigChange(entry.name, AlterOp.SET, values["value"])),
            title=f"{entry.name} of {self.resource}",
            fields=[field],
            note=clean(entry.documentation or "")[:300],
        )

    def action_unset(self) -> None:
        entry: ConfigEntry | None = self.grid.selected
        if entry is not None:

            async def plan(values: Mapping[str, Any]) -> Plan:
                return await self._plan(entry, ConfigChange(entry.name, AlterOp.DELETE))

            self.act(plan)

    async def _plan(self, entry: ConfigEntry, change: ConfigChange) -> Plan:
        """The broker checks it without changing anything."""
        wanted = {self.resource: [change]}
        (await self.client.configs.alter(wanted, validate_only=True)).whole()
        is_set = change.op is AlterOp.SET
        own = (f"--set={change.name}={change.value}",) if is_set else ("--delete", change.name)
        after = (
            change.value
            if is_set
            else next((other.value for other in entry.synonyms if other.source not in _OWN), "its default")
        )

        async def run() -> str:
            (await self.client.configs.alter(wanted)).whole()
            return f"{change.name} is {after} now"

        return Plan(
            f"{'Set' if is_set else 'Unset'} {change.name}",
            f"1 setting of {self.resource}",
            self.command("configs", "alter", self.KIND.name.lower(), self.resource.name, *own, "--yes"),
            run,
            [f"{change.name}: {'(secret)' if entry.is_sensitive else entry.value} -> {after}"],
            verb="Change",
        )


_OWN = (ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigSource.DYNAMIC_BROKER_CONFIG)


class TopicSettingsView(SettingsView):
    """Settings of a topic."""

    NAME = "topic-settings"
    KIND = ResourceType.TOPIC


class BrokerSettingsView(SettingsView):
    """Settings of a broker."""

    NAME = "broker-settings"
    KIND = ResourceType.BROKER
