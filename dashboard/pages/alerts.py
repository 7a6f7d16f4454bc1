"""Alerts: every rule with its state, and the alerts that fired or were resolved since the dashboard started.

A rule is about topics, groups, disks or the cluster. A viewer with limited access sees the alerts of the visible topics
and groups, and no rule whose pattern names others: the count or the text of such a rule would reveal hidden ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dash import html
from dash.development.base_component import Component

from broker_cy.console.alerts.rules import KINDS, Rule
from broker_cy.console.alerts.watch import FIRING, OK, PENDING, UNKNOWN, Finding, Notice, Watch
from broker_cy.console.columns import alerts as columns
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import duration, plural
from broker_cy.reporting.tone import Tone
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, TableChannel, channel
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import sees_all_subjects
from dashboard.components.panel import listing, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.security.roles import Role, Scope

NOTICES_SHOWN = 100
ROWS_HIGH = 10


def sees_subject(scope: Scope, rule: Rule, subject: str) -> bool:
    """Whether a viewer may see the resource of an alert (see broker_cy.console.alerts.looks)."""
    if sees_all_subjects(scope):
        return True
    fields = KINDS[rule.kind]
    if "group" in fields:
        return bool(subject) and scope.sees_group(subject)
    if "topic" in fields:
        # TOPIC-PARTITION, or TOPIC-PARTITION/PRODUCER of a transaction that hangs.
        topic = subject.partition("/")[0].rpartition("-")[0]
        return bool(topic) and scope.sees_topic(topic)
    # A flow of a mirror is about many topics, and its alerts name them.
    return "flow" not in fields


def _names_subjects(rule: Rule) -> bool:
    fields = KINDS[rule.kind]
    patterns = {"group": rule.group, "topic": rule.topic, "flow": rule.flow}
    return bool(rule.exclude) or any(name in fields and pattern != "*" for name, pattern in patterns.items())


def visible(findings: Iterable[Finding], scope: Scope) -> list[Finding]:
    """Return the findings as a viewer may see them: a rule whose alerts are all hidden is ok for them."""
    if sees_all_subjects(scope):
        return list(findings)
    found: list[Finding] = []
    quiet: dict[str, Finding] = {}
    for each in findings:
        if each.state in (FIRING, PENDING) and sees_subject(scope, each.rule, each.subject):
            found.append(each)
        elif not _names_subjects(each.rule):
            # The reason why a rule is unknown can contain counts and names of groups.
            state = UNKNOWN if each.state == UNKNOWN else OK
            quiet.setdefault(each.rule.name, Finding(each.rule, state, "", "", None))
    loud = {each.rule.name for each in found}
    return found + [each for name, each in quiet.items() if name not in loud]


class _OfAlerts(Channel):
    @property
    def watch(self) -> Watch:
        return self.hub.alerts.watch(self.session.entry.name)

    def sources(self) -> Sequence[Source]:
        return [self.watch]


@channel("alert-counts")
class AlertCounts(_OfAlerts, FactsChannel):
    """The number of alerts in each state."""

    def facts(self) -> Sequence[Fact] | None:
        if self.watch.age_s is None:
            return None
        states = [each.state for each in visible(self.watch.findings, self.scope)]
        firing, pending, unknown = (states.count(state) for state in (FIRING, PENDING, UNKNOWN))
        return [
            Fact("firing", str(firing), Tone.BAD if firing else Tone.GOOD),
            Fact("pending", str(pending), Tone.WARN if pending else Tone.PLAIN),
            Fact("rules unknown", str(unknown), Tone.MUTED),
            Fact("rules ok", str(states.count(OK))),
            Fact("evaluated every", f"{self.hub.alerts.interval_s:g} s"),
        ]


@channel("alerts")
class Alerts(_OfAlerts, TableChannel[Finding]):
    """Every rule, and each resource that violates it."""

    SORT = "state"
    COLUMNS = (
        table_column(columns.STATE, 100),
        table_column(columns.RULE, 230),
        table_column(columns.WHAT, 280, is_flex=True),
        table_column(columns.FOR, 110),
        table_column(columns.KIND, 210),
    )

    def rows(self) -> Iterable[Finding] | None:
        return None if self.watch.age_s is None else visible(self.watch.findings, self.scope)

    def row_id(self, row: Finding) -> str:
        return f"{row.rule.name} {row.state} {row.subject}"

    def row_text(self, row: Finding) -> str:
        return f"{row.state} {row.rule.name} {row.rule.kind} {row.text}"


@channel("alert-history")
class AlertHistory(TableChannel[Notice]):
    """Alerts that began to fire or were resolved, the newest first."""

    COLUMNS = (
        Column("time", "Time", lambda row: f"@{row.at_ms}", is_time=True),
        Column("state", "State", lambda row: Cell("fired", Tone.BAD) if row.is_firing else Cell("resolved", Tone.GOOD)),
        table_column(columns.RULE.by(lambda row: row.rule.name)),
        table_column(columns.WHAT.by(lambda row: row.text), is_flex=True),
        Column("since", "Violated for", lambda row: duration(row.at_ms - row.since_ms), None, True),
    )

    def sources(self) -> Sequence[Source]:
        return [self.hub.alert_log]

    def rows(self) -> Iterable[Notice] | None:
        notices = reversed(self.hub.alert_log.notices)
        return (each for each in notices if sees_subject(self.scope, each.rule, each.subject))

    def row_id(self, row: Notice) -> str:
        return f"{row.at_ms} {row.rule.name} {row.subject} {row.is_firing}"


@channel("webhook")
class WebhookFacts(_OfAlerts, FactsChannel):
    """Deliveries to the webhook, for admins: its host is part of the configuration."""

    ROLE = Role.ADMIN

    def facts(self) -> Sequence[Fact] | None:
        return [fact._replace(value=clean(fact.value)) for fact in self.hub.alerts.webhook_facts()]


def layout(context: Context, cluster: str, **_: str) -> Component:
    hub = context.hub(cluster)
    has_webhook = hub.alerts.settings.webhook is not None and context.identity().role >= Role.ADMIN
    dropped = hub.alert_log.dropped
    older = f" {plural(dropped, 'older one')} were dropped." if dropped else ""
    return shell(
        context,
        cluster,
        "alerts",
        "Alerts",
        [
            html.Div(
                [
                    panel("State", "alert-counts", "facts", cluster=cluster),
                    *([panel("Webhook", "webhook", "facts", cluster=cluster)] if has_webhook else []),
                ],
                className="columns wide",
            ),
            table(
                "Rules and alerts",
                "alerts",
                Alerts.COLUMNS,
                cluster=cluster,
                noun="row",
                height_rows=ROWS_HIGH,
                note="pending: violated, but not yet for as long as the rule requires. unknown: the cluster did not "
                "answer, or too little was observed.",
            ),
            listing(
                "Fired and resolved",
                "alert-history",
                AlertHistory.COLUMNS,
                cluster=cluster,
                rows=NOTICES_SHOWN,
                note=f"The newest {NOTICES_SHOWN} since the dashboard started.{older}",
                empty="No alert fired since the dashboard started.",
            ),
        ],
    )


PAGE = Page("alerts", "Alerts", layout)
