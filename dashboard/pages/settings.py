"""Settings of a topic, a broker or a group: value, source, default, documentation; change and reset them.

Channels and acts have exactly one of the parameters `topic`, `broker` and `group`. Settings of topics are changed by
operators, all others by admins. Values of sensitive settings are never sent by the broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from dash.development.base_component import Component

from broker_cy.admin.configs import ConfigEntry, ConfigResource, ResourceType
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.configs import edit_form, is_own, plan_set, plan_unset, shown_value, source_text
from broker_cy.console.acts.plan import Plan
from broker_cy.console.columns import settings as columns
from broker_cy.console.fields import Form
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.core.configs import ConfigSource
from broker_cy.reporting.foreign_text import clean, clean_lines
from broker_cy.reporting.tone import Tone
from dashboard.acts import Act, Call, act
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, Params, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.components.panel import act_button, link, page_path, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.security.roles import Need, Role, decide

KINDS: Final = {"topic": ResourceType.TOPIC, "broker": ResourceType.BROKER, "group": ResourceType.GROUP}
# The page of the settings of each kind, and the page of the resource itself with its parameter.
PAGES: Final = {"topic": "topic-settings", "broker": "broker-settings", "group": "group-settings"}
_DOCUMENTATION_CHARACTERS_MAX: Final = 4_000
_INT32_MAX: Final = (1 << 31) - 1


def subject_of(params: Mapping[str, str]) -> tuple[str, str]:
    """Return the kind (a key of KINDS) and the name. Raises ClientError."""
    given = [(kind, params[kind]) for kind in KINDS if params.get(kind)]
    if len(given) != 1:
        raise ClientError(Failure.INVALID, f"exactly one of the parameters {', '.join(KINDS)} is expected")
    kind, name = given[0]
    if kind == "broker" and not (name.isascii() and name.isdecimal() and len(name) <= 10 and int(name) <= _INT32_MAX):
        raise ClientError(Failure.INVALID, f"{name[:40]!r} is not a broker id: a number is expected")
    return kind, name


def resource_of(params: Mapping[str, str]) -> ConfigResource:
    """Return the resource that has the settings. Raises ClientError."""
    kind, name = subject_of(params)
    return ConfigResource(KINDS[kind], name)


def role_of(params: Mapping[str, str]) -> Role:
    """Return the role that is needed for changes. Raises ClientError."""
    return Role.OPERATOR if subject_of(params)[0] == "topic" else Role.ADMIN


def default_of(entry: ConfigEntry) -> str:
    """Return the value that applies if the resource has none of its own."""
    if entry.is_sensitive:
        return "(secret)"
    if entry.is_default:
        return shown_value(entry)
    other = next((each for each in entry.synonyms if each.source is ConfigSource.DEFAULT_CONFIG), None)
    return "-" if other is None else shown_value(replace(entry, value=other.value))


class OfResource(Channel):
    """Channels of the settings of one topic, broker or group."""

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        resource_of(found)
        return found

    def sources(self) -> Sequence[Source]:
        return [self.session.configs(resource_of(self.params))]

    @property
    def entries(self) -> tuple[ConfigEntry, ...] | None:
        """Return the newest answer; None before the first."""
        return self.session.configs(resource_of(self.params)).value


@channel("settings")
class Settings(OfResource, TableChannel[ConfigEntry]):
    """All settings. `own` = 1: only settings with a value of the resource, of all brokers or of the file."""

    SUBJECT = frozenset({*KINDS, "own"})
    SORT = "name"
    COLUMNS = (
        table_column(columns.SETTING, 405),
        table_column(columns.VALUE, 220, is_flex=True),
        table_column(columns.SOURCE, 110),
        Column("default", "Default", lambda row: Cell(clean(default_of(row)), Tone.MUTED), width=190),
        Column("changed", "Change", lambda row: "restart" if row.is_read_only else "dynamic",
               lambda row: row.is_read_only, width=90,
               hint="dynamic: takes effect immediately; restart: only in the broker's configuration file"),
    )  # fmt: skip

    def rows(self) -> Iterable[ConfigEntry] | None:
        entries = self.entries
        if entries is None or self.params.get("own") != "1":
            return entries
        return [entry for entry in entries if not entry.is_default]

    def row_id(self, row: ConfigEntry) -> str:
        return row.name

    def row_text(self, row: ConfigEntry) -> str:
        return f"{row.name} {row.value or ''} {row.documentation or ''}"

    def _cells(self, row: ConfigEntry) -> list[Any]:
        first, *rest = super()._cells(row)
        kind, name = subject_of(self.params)
        here = {kind: name, "setting": row.name, "own": self.params.get("own", "")}
        return [linked(first, page_path(self.hub.name, PAGES[kind], **here)), *rest]


@channel("setting")
class Setting(OfResource, FactsChannel):
    """One setting in full."""

    PARAMS = frozenset({*KINDS, "setting"})
    REQUIRED = frozenset({"setting"})

    def facts(self) -> Sequence[Fact] | None:
        entries = self.entries
        if entries is None:
            return None
        entry = _named(entries, self.params["setting"])
        facts = [
            Fact("value", clean(columns.VALUE.shown(entry)), columns.VALUE.tone_of(entry)),
            Fact("source", source_text(entry.source)),
            Fact("type", entry.kind.name.lower()),
            Fact("default", clean(default_of(entry)), Tone.MUTED),
        ]
        if entry.is_read_only:
            facts.append(
                Fact("read-only", "change it in the broker's configuration file, and restart the broker", Tone.WARN)
            )
        for other in entry.synonyms[1:]:
            value = "(secret)" if entry.is_sensitive else other.value or "null"
            facts.append(
                Fact(f"otherwise from {source_text(other.source)}", clean(f"{other.name} = {value}"), Tone.MUTED)
            )
        text = clean_lines((entry.documentation or "")[:_DOCUMENTATION_CHARACTERS_MAX])
        return [*facts, Fact("documentation", text or "The broker has none.", Tone.PLAIN)]


def _named(entries: Sequence[ConfigEntry], name: str) -> ConfigEntry:
    entry = next((each for each in entries if each.name == name), None)
    if entry is None:
        raise ClientError(Failure.INVALID, f"there is no setting {name[:100]!r}")
    return entry


async def _entry(call: Call) -> tuple[ConfigResource, ConfigEntry]:
    """Return the setting of a call as it is now. Raises ClientError."""
    resource = resource_of(call.params)
    entries = (await call.client.configs.describe([resource], documentation=True)).whole()[resource]
    return resource, _named(entries, call.param("setting"))


class _SettingAct(Act):
    """Base: the role depends on the resource of the setting."""

    # A command line would put the value of a password into the log; the log always has the name of the setting.
    HAS_SECRETS = True

    def need(self, cluster: str, params: Mapping[str, str], rows: Sequence[str]) -> Need:
        return replace(super().need(cluster, params, rows), role=role_of(params))


@act("change-setting", Role.OPERATOR)
class ChangeSetting(_SettingAct):
    async def form(self, call: Call) -> Form | None:
        resource, entry = await _entry(call)
        if entry.is_read_only:
            reason = f"{entry.name} is read-only: change it in the broker's configuration file, and restart the broker"
            raise ClientError(Failure.INVALID, reason)
        return edit_form(resource, entry)

    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        resource, entry = await _entry(call)
        return await plan_set(call.client, call.command, resource, entry, values["value"])


@act("reset-setting", Role.OPERATOR)
class ResetSetting(_SettingAct):
    async def plan(self, call: Call, values: Mapping[str, Any]) -> Plan:
        resource, entry = await _entry(call)
        if not is_own(entry):
            kind, name = subject_of(call.params)
            raise ClientError(
                Failure.INVALID, f"{entry.name} has no value of {kind} {name} itself: nothing can be removed"
            )
        return await plan_unset(call.client, call.command, resource, entry)


def settings_page(
    context: Context,
    cluster: str,
    kind: str,
    name: str,
    setting: str,
    own: str,
    *,
    crumbs: Sequence[tuple[str, str]],
) -> Component:
    """Return the page of the settings of one topic, broker or group (`kind` of KINDS)."""
    subject = {kind: name}
    subject_of(subject)
    # Needed for the buttons, whose other parameters are not texts.
    params: dict[str, Any] = {**subject, "setting": setting}
    topics, groups = ((name,) if kind == each else () for each in ("topic", "group"))
    reason = decide(context.identity(), Need(Role.VIEWER, cluster, topics, groups))
    if reason:
        raise ClientError(Failure.REFUSED, reason)
    only_own = own == "1"
    kept = {"own": "1"} if only_own else {}
    role = role_of(subject)
    one = (
        [
            panel(
                clean(setting),
                "setting",
                "facts",
                cluster=cluster,
                params={**subject, "setting": setting},
                class_name="panel-setting",
                actions=[
                    act_button("Change", "change-setting", role=role, needs=clean(setting), **params),
                    act_button(
                        "Back to default", "reset-setting", role=role, destructive=True, needs=clean(setting), **params
                    ),
                    link("Close", page_path(cluster, PAGES[kind], **subject, **kept)),
                ],
            )
        ]
        if setting
        else []
    )
    toggle = link(
        "Show all settings" if only_own else "Show only those that are set",
        page_path(cluster, PAGES[kind], **subject, own="" if only_own else "1", setting=setting),
    )
    return shell(
        context,
        cluster,
        PAGES[kind],
        f"Settings of {kind} {clean(name)}",
        [
            *one,
            table(
                "Settings",
                "settings",
                Settings.COLUMNS,
                cluster=cluster,
                params={**subject, **kept},
                noun="setting",
                note=f"Green values were set for this {kind} itself. The name of a setting links to its documentation.",
                actions=[toggle],
            ),
        ],
        crumbs=crumbs,
    )


def topic_layout(
    context: Context, cluster: str, topic: str = "", setting: str = "", own: str = "", **_: str
) -> Component:
    crumbs = [("Topics", page_path(cluster, "topics")), (clean(topic), page_path(cluster, "topic", topic=topic))]
    return settings_page(context, cluster, "topic", topic, setting, own, crumbs=crumbs)


def broker_layout(
    context: Context, cluster: str, broker: str = "", setting: str = "", own: str = "", **_: str
) -> Component:
    crumbs = [
        ("Brokers", page_path(cluster, "brokers")),
        (f"Broker {broker}", page_path(cluster, "broker", broker=broker)),
    ]
    return settings_page(context, cluster, "broker", broker, setting, own, crumbs=crumbs)


def group_layout(
    context: Context, cluster: str, group: str = "", setting: str = "", own: str = "", **_: str
) -> Component:
    crumbs = [("Groups", page_path(cluster, "groups")), (clean(group), page_path(cluster, "group", group=group))]
    return settings_page(context, cluster, "group", group, setting, own, crumbs=crumbs)


TOPIC_PAGE = Page("topic-settings", "Settings of a topic", topic_layout, in_navigation=False, parent="topics")
BROKER_PAGE = Page("broker-settings", "Settings of a broker", broker_layout, in_navigation=False, parent="brokers")
GROUP_PAGE = Page("group-settings", "Settings of a group", group_layout, in_navigation=False, parent="groups")
