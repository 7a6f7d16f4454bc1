"""The page of ACLs: denials over time, ACLs with an explanation of each decision, and SCRAM users.

ACLs and denials name topics, groups, users and hosts: a viewer who may see only some topics sees none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.admin.scram_users import ScramCredential
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.acls import asked_of, explain_form, verdict_lines
from broker_cy.console.columns import access
from broker_cy.console.listeners import Source
from broker_cy.console.refusals import Refusal, asked_texts, refusals_of
from broker_cy.console.session import now_ms
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics.events import AccessDenied, LoginFailed
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.tone import Tone
from broker_cy.security.acl_words import shown
from broker_cy.security.acls import Binding
from broker_cy.security.explain import authorizer_of, explain
from dashboard.collector.channel import Cell, Channel, Column, Params, TableChannel, channel, linked
from dashboard.collector.charts import Ranged, TimeChannel
from dashboard.collector.columns import table_column
from dashboard.collector.frames import Health
from dashboard.collector.history_marks import LIMIT_MAX
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.collector.patches import State
from dashboard.collector.time_range import parse_range
from dashboard.components.explain import explain_box
from dashboard.components.panel import act_button, listing, page_path, panel, table
from dashboard.components.ranges import ranges
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.events import id_of
from dashboard.pages.rights_acts import CreateAcl, CreateUser, DeleteAcls, DeleteUser, SetPassword, credential_id
from dashboard.security.roles import Role

NAME: Final = "rights"
DEFAULT_RANGE: Final = "1d"
KINDS: Final = (AccessDenied.TYPE, LoginFailed.TYPE)
NO_AUTHORIZER: Final = (
    "The brokers have no authorizer: every client may perform every operation, and there are no ACLs."
)
HIDDEN: Final = "ACLs are those of all topics and groups; your account may see only some of them."
# Points of the chart: each is a part of the range.
POINTS: Final = 120
# Brokers aggregate denials over this time.
STEP_MS_MIN: Final = 10_000
ASKED: Final = ("principal", "operation", "resource", "host")
_LINES_MAX: Final = 10


class _OfAcls(Channel):
    """Channels of the ACLs. A cluster without an authorizer has none, which is not a failure."""

    def sources(self) -> Sequence[Source]:
        return [self.session.acls()]

    def health(self) -> Health:
        failure = self.session.acls().failure
        if failure is not None and failure.code is ErrorCode.SECURITY_DISABLED:
            return Health(0, NO_AUTHORIZER, True)
        return super().health()


class _OfRefusals(Ranged):
    """Channels of the denials of a range. They are current as long as the topic of events can be followed."""

    def sources(self) -> Sequence[Source]:
        return [self.session.events, self.hub.history]

    def health(self) -> Health:
        error = self.hub.history.events_error or self.session.events.error or ""
        return Health(0, error, self.session.events.is_absent)

    async def refusals(self) -> tuple[list[Refusal], int, int] | None:
        """The denials of the range, the oldest first, and its bounds; None while they are not known."""
        require_all_subjects(self.scope, HIDDEN)
        history = self.hub.history
        if history.events_covered_from_ms is None:
            return None
        from_ms, to_ms = parse_range(self.params.get("range", DEFAULT_RANGE)).bounds(now_ms())
        found = await history.events(from_ms, to_ms + 1_000, KINDS, LIMIT_MAX)
        return refusals_of(found), from_ms, to_ms


@channel("refusals")
class Refusals(_OfRefusals, TableChannel[Refusal]):
    """Denials of a range, the newest first."""

    SUBJECT = frozenset({"range"})
    COLUMNS = (
        Column("time", "Time", lambda row: f"@{row.time_ms}", width=200, is_time=True),
        table_column(access.DENIED_PRINCIPAL, 130),
        table_column(access.DENIED_OPERATION, 200),
        table_column(access.DENIED_REASON, 300, is_flex=True),
        table_column(access.DENIED_COUNT, 75),
        table_column(access.DENIED_HOST, 115),
    )

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._rows: list[Refusal] | None = None

    async def state(self) -> State | None:
        found = await self.refusals()
        if found is not None:
            self._rows = found[0][::-1]
        return await super().state()

    def rows(self) -> Iterable[Refusal] | None:
        return self._rows

    def row_id(self, row: Refusal) -> str:
        return " ".join((str(row.time_ms), str(row.stamped.broker), row.who, row.host, row.what, row.api, row.why))

    def row_text(self, row: Refusal) -> str:
        return f"{row.who} {row.host} {row.what} {row.why} {row.api}"

    def _cells(self, row: Refusal) -> list[Any]:
        time, who, what, *rest = super()._cells(row)
        span = self.params.get("range", "")
        detail = linked(time, page_path(self.hub.name, "events", event=id_of(row.stamped), range=span))
        asked = asked_texts(row.stamped)
        if asked is not None:
            what = linked(what, page_path(self.hub.name, NAME, range=span, **asked))
        return [detail, who, what, *rest]


@channel("refusals-over-time")
class RefusalsOverTime(_OfRefusals, TimeChannel):
    """The number of denied operations and failed logins in each part of the range."""

    async def state(self) -> State | None:
        found = await self.refusals()
        if found is None:
            return None
        refusals, from_ms, to_ms = found
        step_ms = max(STEP_MS_MIN, -(-(to_ms - from_ms) // POINTS))
        first_ms = from_ms - from_ms % step_ms
        points = (to_ms - first_ms) // step_ms + 1
        values = {LoginFailed.TYPE: [0] * points, AccessDenied.TYPE: [0] * points}
        for row in refusals:
            at = (row.time_ms - first_ms) // step_ms
            if 0 <= at < points:
                values[row.stamped.event.TYPE][at] += row.times + row.left_out
        return {
            "t": [first_ms + at * step_ms for at in range(points)],
            "series": [{"name": "rights", "role": ""}, {"name": "logins", "role": ""}],
            "v": [values[AccessDenied.TYPE], values[LoginFailed.TYPE]],
            "unit": "",
            "from_ms": first_ms,
            "to_ms": first_ms + points * step_ms,
            "note": f"only the last {LIMIT_MAX:,} events" if len(refusals) >= LIMIT_MAX else "",
            "marks": [],
        }


@channel("acls")
class Acls(_OfAcls, TableChannel[Binding]):
    """All ACLs."""

    SORT = "resource"
    COLUMNS = (
        table_column(access.RESOURCE, 220, is_flex=True),
        table_column(access.PERMISSION, 110),
        table_column(access.PRINCIPAL, 200),
        table_column(access.OPERATION, 160),
        table_column(access.HOST, 140),
    )

    def rows(self) -> Iterable[Binding] | None:
        require_all_subjects(self.scope, HIDDEN)
        return self.session.acls().value

    def row_id(self, row: Binding) -> str:
        return shown(row)


@channel("scram-users")
class ScramUsers(TableChannel[ScramCredential]):
    """The credentials of users."""

    SORT = "user"
    COLUMNS = (
        table_column(access.USER, 220, is_flex=True),
        table_column(access.MECHANISM, 180),
        table_column(access.ITERATIONS),
    )

    def sources(self) -> Sequence[Source]:
        return [self.session.scram_users()]

    def rows(self) -> Iterable[ScramCredential] | None:
        require_all_subjects(self.scope, HIDDEN)
        return self.session.scram_users().value

    def row_id(self, row: ScramCredential) -> str:
        return credential_id(row)


@channel("acl-explanation")
class Explanation(_OfAcls, TableChannel[tuple[int, str]]):
    """The decision on the four parameters by the current ACLs: a line each."""

    SUBJECT = REQUIRED = frozenset(ASKED)
    COLUMNS = (Column("line", "Explanation", lambda row: _line(row[1]), is_flex=True),)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        values = explain_form().checked({name: self.params[name] for name in ASKED}).values
        self._asked = asked_of(values)

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        for name, problem in explain_form().checked({name: found[name] for name in ASKED}).problems.items():
            raise ClientError(Failure.INVALID, f"{cls.name}: {name}: {problem}")
        return found

    def rows(self) -> Iterable[tuple[int, str]] | None:
        require_all_subjects(self.scope, HIDDEN)
        bindings = self.session.acls().value
        if bindings is None:
            return None
        verdict = explain(authorizer_of(bindings), bindings, self._asked)
        return list(enumerate(verdict_lines(self._asked, verdict)))

    def row_id(self, row: tuple[int, str]) -> str:
        return str(row[0])


def _line(text: str) -> str | Cell:
    for word, tone in (("ALLOWED", Tone.GOOD), ("REFUSED", Tone.BAD)):
        if text.startswith(word):
            return Cell(clean(text), tone)
    return clean(text)


def layout(context: Context, cluster: str, range: str = "", **query: str) -> Component:
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, NAME, "Access", [html.P(HIDDEN, className="panel")])
    texts = {name: query.get(name, "") for name in ASKED}
    is_asked = any(texts.values())
    texts["host"] = texts["host"] or "*"
    problems = explain_form().checked(texts).problems if is_asked else {}
    return shell(
        context,
        cluster,
        NAME,
        "Access",
        [
            explain_box("Explain a decision", explain_form(texts), texts, problems),
            *([_explanation(cluster, texts)] if is_asked and not problems else []),
            *_refusals(cluster, range),
            *_tables(cluster),
        ],
        actions=[ranges(cluster, NAME, range, DEFAULT_RANGE, **(texts if is_asked else {}))],
    )


def _explanation(cluster: str, texts: Mapping[str, str]) -> Component:
    return listing(
        "Explanation",
        "acl-explanation",
        Explanation.COLUMNS,
        cluster=cluster,
        params=texts,
        rows=_LINES_MAX,
        class_name="explanation",
    )


def _refusals(cluster: str, range: str) -> list[Component]:
    chosen = {"range": range or DEFAULT_RANGE}
    return [
        panel(
            "Denials over time",
            "refusals-over-time",
            "chart",
            cluster=cluster,
            params=chosen,
            options={"height": 180},
            note="Denied operations and failed logins in each part of the range.",
            empty="No operation was denied, and no login failed in this range.",
        ),
        table(
            "Denials",
            "refusals",
            Refusals.COLUMNS,
            cluster=cluster,
            params=chosen,
            noun="denial",
            height_rows=8,
            note=f"Newest first, at most {LIMIT_MAX:,}. Equal denials within ten seconds are one row. The time links "
            "to all fields, the denied operation to an explanation by the current ACLs.",
            empty="No operation was denied, and no login failed in this range.",
        ),
    ]


def _tables(cluster: str) -> list[Component]:
    return [
        table(
            "ACLs",
            "acls",
            Acls.COLUMNS,
            cluster=cluster,
            noun="ACL",
            can_mark=True,
            height_rows=10,
            note="A trailing * matches every name with that prefix. A DENY ACL overrides every ALLOW.",
            actions=[
                act_button("Create", CreateAcl.name, role=Role.ADMIN, needs="ACLs"),
                act_button("Delete marked", DeleteAcls.name, role=Role.ADMIN, destructive=True, rows="marked"),
            ],
        ),
        table(
            "SCRAM users",
            "scram-users",
            ScramUsers.COLUMNS,
            cluster=cluster,
            noun="user",
            can_mark=True,
            height_rows=6,
            note="A row for each mechanism of a user. Brokers never return passwords or stored credentials.",
            actions=[
                act_button("Create", CreateUser.name, role=Role.ADMIN, needs="SCRAM users"),
                act_button("Set password", SetPassword.name, role=Role.ADMIN, rows="marked"),
                act_button("Delete marked", DeleteUser.name, role=Role.ADMIN, destructive=True, rows="marked"),
            ],
        ),
    ]


PAGE = Page(NAME, "Access", layout)
