"""Acts on settings of topics and brokers, and formatting of settings."""

from __future__ import annotations

from collections.abc import Callable

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import SECRET, AlterOp, ConfigChange, ConfigEntry, ConfigResource
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.values import INT64_MAX, INT64_MIN, integer
from broker_cy.core.classes import dataclass
from broker_cy.core.configs import ConfigSource, ConfigType
from broker_cy.reporting.numbers import duration, size

SOURCES = {
    ConfigSource.DYNAMIC_TOPIC_CONFIG: "topic",
    ConfigSource.DYNAMIC_BROKER_CONFIG: "broker",
    ConfigSource.DYNAMIC_GROUP_CONFIG: "group",
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
    ConfigSource.STATIC_BROKER_CONFIG: "file",
    ConfigSource.DEFAULT_CONFIG: "default",
    ConfigSource.UNKNOWN: "unknown",
}
_OWN = (
    ConfigSource.DYNAMIC_TOPIC_CONFIG,
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_GROUP_CONFIG,
)
_INT32_MAX, _INT16_MAX = (1 << 31) - 1, (1 << 15) - 1
_HUMAN_MS_MIN, _HUMAN_BYTES_MIN = 1_000, 1_024
_NOTE_CHARACTERS_MAX = 300


@dataclass(frozen=True, slots=True)
class AlterConfig:
    """One change of one resource; `said` is the sentence that reports it."""

    resource: ConfigResource
    change: ConfigChange
    said: str

    async def run(self, client: AdminClient) -> Report:
        (await client.configs.alter({self.resource: [self.change]})).whole()
        return Report(self.said, (self.change.name,))


def source_text(source: ConfigSource) -> str:
    """Return the source of a value, in a word."""
    return SOURCES.get(source, "other")


def is_own(entry: ConfigEntry) -> bool:
    """Return whether the value was set for this resource itself, so that it can be removed."""
    return entry.source in _OWN


def shown_value(entry: ConfigEntry) -> str:
    """Return the value; large times and sizes also in larger units."""
    if entry.is_sensitive:
        return SECRET
    if entry.value is None:
        return "(null)"
    value = entry.value
    if value.isdecimal() and int(value) < INT64_MAX:
        if entry.name.endswith(".ms") and int(value) >= _HUMAN_MS_MIN:
            return f"{value}  ({duration(int(value))})"
        if entry.name.endswith(".bytes") and int(value) >= _HUMAN_BYTES_MIN:
            return f"{value}  ({size(int(value))})"
    return value


def parser_of(entry: ConfigEntry) -> Callable[[str], str]:
    """Return the parser for the type of a setting; the broker checks the rest before anything is changed."""
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


def edit_form(resource: ConfigResource, entry: ConfigEntry) -> Form:
    """Return a form that asks for `value`."""
    field = Field(
        "value",
        entry.kind.name.lower(),
        parser_of(entry),
        "" if entry.is_sensitive else entry.value or "",
        choices=("true", "false") if entry.kind is ConfigType.BOOLEAN else (),
        is_secret=entry.is_sensitive,
    )
    return Form(f"{entry.name} of {resource}", [field], note=(entry.documentation or "")[:_NOTE_CHARACTERS_MAX])


async def plan_set(
    client: AdminClient, command: Command, resource: ConfigResource, entry: ConfigEntry, value: str
) -> Plan:
    """Plan setting a value; the broker validates it without changing anything."""
    change = ConfigChange(entry.name, AlterOp.SET, value)
    shown = SECRET if entry.is_sensitive else value
    return await _plan(client, command, resource, entry, change, shown, f"set {entry.name} of {resource} to {shown}")


async def plan_unset(client: AdminClient, command: Command, resource: ConfigResource, entry: ConfigEntry) -> Plan:
    """Plan removing the resource's own value, so that the next synonym or the default applies."""
    after = next((other.value for other in entry.synonyms if other.source not in _OWN), None) or "its default"
    change = ConfigChange(entry.name, AlterOp.DELETE)
    said = f"removed {entry.name} from {resource}; {after} applies"
    return await _plan(client, command, resource, entry, change, after, said)


async def _plan(
    client: AdminClient,
    command: Command,
    resource: ConfigResource,
    entry: ConfigEntry,
    change: ConfigChange,
    after: str,
    said: str,
) -> Plan:
    (await client.configs.alter({resource: [change]}, validate_only=True)).whole()
    is_set = change.op is AlterOp.SET
    if is_set:
        option = [f"--set-file={change.name}=FILE" if entry.is_sensitive else f"--set={change.name}={change.value}"]
    else:
        option = ["--delete", change.name]
    return Plan(
        f"{'Set' if is_set else 'Remove'} {change.name}",
        f"1 setting of {resource}",
        command("configs", "alter", resource.kind.name.lower(), resource.name, *option, "--yes"),
        AlterConfig(resource, change, said),
        [Change(change.name, SECRET if entry.is_sensitive else entry.value or "(null)", after)],
        verb="Change",
    )
