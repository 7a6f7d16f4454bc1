"""One subject of the schema registry: its versions, the text of one with its references, the differences of two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from dash import html
from dash.development.base_component import Component

from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.fields import Field, Form
from broker_cy.console.figures import Fact
from broker_cy.console.listeners import Source
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.tone import Tone
from broker_registry.console import columns
from broker_registry.console.views import Comparison, SubjectVersions, VersionRow, VersionText
from broker_registry.differences import Breaking
from dashboard.collector.channel import Cell, Channel, Column, FactsChannel, Params, TableChannel, channel, linked
from dashboard.collector.columns import table_column
from dashboard.collector.holdings import require_all_subjects, sees_all_subjects
from dashboard.collector.patches import State
from dashboard.components.explain import explain_box
from dashboard.components.panel import act_button, listing, page_path, panel, table
from dashboard.components.shell import shell
from dashboard.context import Context, Page
from dashboard.pages.schema_acts import (
    HIDDEN,
    NOT_CONFIGURED,
    DeleteSubject,
    DeleteVersions,
    RegisterSchema,
    schemas_of,
)
from dashboard.pages.schemas import NAME as LIST
from dashboard.pages.schemas import SUBJECT_PAGE, TITLE
from dashboard.security.roles import Role

LINES_MAX: Final = 2_000
LINE_CHARACTERS_MAX: Final = 2_000
_BREAKING_MAX: Final = 200
_INT32_MAX: Final = (1 << 31) - 1
_DIFF_TONES: Final = {"+": Tone.GOOD, "-": Tone.BAD, "@": Tone.NOTED}


def number_of(text: str) -> int:
    """Return the number of a version. Raises ValueError."""
    text = text.strip()
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and 0 < int(text) <= _INT32_MAX):
        raise ValueError("the number of a version is expected")
    return int(text)


class OfSubject(Channel):
    """Channels of one subject."""

    @classmethod
    def check(cls, params: Params) -> dict[str, str]:
        found = super().check(params)
        for name in ("version", "against"):
            if name in found:
                try:
                    number_of(found[name])
                except ValueError as error:
                    raise ClientError(Failure.INVALID, f"{cls.name}: {name}: {error}") from None
        return found

    @property
    def versions(self) -> SubjectVersions | None:
        require_all_subjects(self.scope, HIDDEN)
        return schemas_of(self.hub).versions(self.params["subject"]).value


@channel("subject-facts")
class SubjectFacts(OfSubject, FactsChannel):
    PARAMS = frozenset({"subject"})
    REQUIRED = PARAMS

    def sources(self) -> Sequence[Source]:
        return [schemas_of(self.hub).versions(self.params["subject"])]

    def facts(self) -> Sequence[Fact] | None:
        found = self.versions
        if found is None:
            return None
        return [
            Fact("level", found.level or "unknown", Tone.NOTED if found.level == "NONE" else Tone.PLAIN),
            Fact("mode", found.mode or "unknown", Tone.PLAIN if found.mode == "READWRITE" else Tone.NOTED),
            Fact("versions", str(len(found.undeleted))),
            Fact("deleted", str(len(found.rows) - len(found.undeleted))),
        ]


@channel("subject-versions")
class Versions(OfSubject, TableChannel[VersionRow]):
    SUBJECT = frozenset({"subject"})
    REQUIRED = SUBJECT
    SORT = "version"
    IS_DESCENDING = True
    COLUMNS = (
        table_column(columns.VERSION, 110),
        table_column(columns.ID, 90),
        table_column(columns.TYPE, 110),
        table_column(columns.REFERENCES, 120),
        table_column(columns.SIZE, 100),
        table_column(columns.STATE, 100),
        Column("compare", "Differences", lambda row: "" if row.version == 1 else "with the one before",
                           width=180, is_flex=True),
    )  # fmt: skip

    def sources(self) -> Sequence[Source]:
        return [schemas_of(self.hub).versions(self.params["subject"])]

    def rows(self) -> Iterable[VersionRow] | None:
        found = self.versions
        return None if found is None else found.rows

    def row_id(self, row: VersionRow) -> str:
        return str(row.version)

    def row_text(self, row: VersionRow) -> str:
        return f"{row.version} {row.id} {row.guid or ''}"

    def _cells(self, row: VersionRow) -> list[Any]:
        first, *middle, last = super()._cells(row)
        here = {"subject": self.params["subject"], "version": str(row.version)}
        found = self.versions
        earlier = [] if found is None else [each.version for each in found.rows if each.version < row.version]
        before = (
            linked(last, page_path(self.hub.name, SUBJECT_PAGE, **here, against=str(max(earlier)))) if earlier else ""
        )
        return [linked(first, page_path(self.hub.name, SUBJECT_PAGE, **here)), *middle, before]


class TextChannel(OfSubject):
    """Lines with their tones. At most LINES_MAX are sent; `more` counts the others."""

    async def state(self) -> State | None:
        require_all_subjects(self.scope, HIDDEN)
        found = self.lines()
        if found is None:
            return None
        shown = [[clean(line[:LINE_CHARACTERS_MAX]), tone.name] for line, tone in found[:LINES_MAX]]
        return {"lines": shown, "more": max(0, len(found) - LINES_MAX)}

    def lines(self) -> Sequence[tuple[str, Tone]] | None:
        raise NotImplementedError


@channel("version-text")
class Text(TextChannel):
    PARAMS = frozenset({"subject", "version"})
    REQUIRED = PARAMS

    def sources(self) -> Sequence[Source]:
        return [_version(self)]

    def lines(self) -> Sequence[tuple[str, Tone]] | None:
        found = _version(self).value
        return None if found is None else [(line, Tone.PLAIN) for line in found.lines]


def _version(channel: Channel) -> Any:
    return schemas_of(channel.hub).version(channel.params["subject"], number_of(channel.params["version"]))


@channel("version-references")
class References(OfSubject, TableChannel[tuple[str, str, int]]):
    """Rows are (kind, subject, version): what the version refers to, and what refers to it."""

    SUBJECT = frozenset({"subject", "version"})
    REQUIRED = SUBJECT
    COLUMNS = (
        Column("kind", "Reference", lambda row: clean(row[0]), width=200),
        table_column(columns.SUBJECT.by(lambda row: row[1]), is_flex=True),
        table_column(columns.VERSION.by(lambda row: row[2]), 110),
    )

    def sources(self) -> Sequence[Source]:
        return [_version(self)]

    def rows(self) -> Iterable[tuple[str, str, int]] | None:
        require_all_subjects(self.scope, HIDDEN)
        found: VersionText | None = _version(self).value
        if found is None:
            return None
        rows = [(f"refers to, as {each.name}", each.subject, each.version) for each in found.references]
        rows += [(f"referred to by id {each.id}", each.subject, each.version) for each in found.referrers]
        return rows

    def row_id(self, row: tuple[str, str, int]) -> str:
        return f"{row[0]} {row[1]} {row[2]}"

    def _cells(self, row: tuple[str, str, int]) -> list[Any]:
        kind, subject, version = super()._cells(row)
        path = page_path(self.hub.name, SUBJECT_PAGE, subject=row[1], version=str(row[2]))
        return [kind, linked(subject, path), version]


def _comparison(channel: Channel) -> Any:
    first, second = sorted(number_of(channel.params[name]) for name in ("version", "against"))
    return schemas_of(channel.hub).comparison(channel.params["subject"], first, second)


@channel("version-differences")
class Differences(OfSubject, TableChannel[Breaking]):
    """The differences that keep one of two versions from reading data of the other."""

    SUBJECT = frozenset({"subject", "version", "against"})
    REQUIRED = SUBJECT
    COLUMNS = (
        table_column(columns.DIFFERENCE, 260),
        table_column(columns.PLACE, 200, is_flex=True),
        table_column(columns.CANNOT_READ, 180),
        table_column(columns.BY_LEVEL, 110),
    )

    def sources(self) -> Sequence[Source]:
        return [_comparison(self)]

    def rows(self) -> Iterable[Breaking] | None:
        require_all_subjects(self.scope, HIDDEN)
        found: Comparison | None = _comparison(self).value
        return None if found is None else found.breaking

    def row_id(self, row: Breaking) -> str:
        return f"{row.reader} {row.kind} {row.path}"

    def _cells(self, row: Breaking) -> list[Any]:
        return [each.encoded() if isinstance(each, Cell) else each for each in super()._cells(row)]


@channel("version-diff")
class Diff(TextChannel):
    """The lines that two versions have not in common."""

    PARAMS = frozenset({"subject", "version", "against"})
    REQUIRED = PARAMS

    def sources(self) -> Sequence[Source]:
        return [_comparison(self)]

    def lines(self) -> Sequence[tuple[str, Tone]] | None:
        found: Comparison | None = _comparison(self).value
        if found is None:
            return None
        return [(line, _DIFF_TONES.get(line[:1], Tone.PLAIN)) for line in found.lines]


def compare_form() -> Form:
    """The form that asks which versions are shown."""

    def optional(text: str) -> int | None:
        return number_of(text) if text.strip() else None

    return Form(
        "Show and compare",
        [
            Field("version", "Version", number_of, hint="a number"),
            Field("against", "Compare with", optional, hint="a number, or empty"),
        ],
        note="The text of a version, and its differences from another one.",
        verb="Show",
    )


def layout(context: Context, cluster: str, subject: str = "", version: str = "", against: str = "") -> Component:
    title = f"Subject {clean(subject)}" if subject else "Subject"
    crumbs = [(TITLE, page_path(cluster, LIST))]
    if not sees_all_subjects(context.identity().scope):
        return shell(context, cluster, SUBJECT_PAGE, title, [html.P(HIDDEN, className="panel")], crumbs=crumbs)
    if context.hub(cluster).schemas is None:
        text = html.P(NOT_CONFIGURED, className="panel", role="status")
        return shell(context, cluster, SUBJECT_PAGE, title, [text], crumbs=crumbs)
    if not subject:
        raise ClientError(Failure.INVALID, "the address names no subject")
    texts = {"version": version, "against": against}
    problems = compare_form().checked(texts).problems if version or against else {}
    return shell(
        context,
        cluster,
        SUBJECT_PAGE,
        title,
        [
            panel("Settings", SubjectFacts.name, "facts", cluster=cluster, params={"subject": subject}),
            _versions(cluster, subject),
            explain_box("Show and compare", compare_form(), texts, problems),
            *(_chosen(cluster, subject, texts) if version and not problems else []),
        ],
        crumbs=crumbs,
    )


def _versions(cluster: str, subject: str) -> Component:
    return table(
        "Versions",
        Versions.name,
        Versions.COLUMNS,
        cluster=cluster,
        params={"subject": subject},
        noun="version",
        can_mark=True,
        height_rows=8,
        actions=[
            act_button("Register", RegisterSchema.name, role=Role.OPERATOR, subject=subject),
            act_button(
                "Delete marked", DeleteVersions.name, role=Role.ADMIN, destructive=True, rows="marked", subject=subject
            ),
            act_button(
                "Delete subject",
                DeleteSubject.name,
                role=Role.ADMIN,
                destructive=True,
                subject=subject,
                after=page_path(cluster, LIST),
            ),
        ],
    )


def _chosen(cluster: str, subject: str, texts: Mapping[str, str]) -> list[Component]:
    version = str(number_of(texts["version"]))
    params = {"subject": subject, "version": version}
    found: list[Component] = []
    if texts["against"].strip():
        pair = {**params, "against": str(number_of(texts["against"]))}
        found = [
            listing(
                "Incompatible differences",
                Differences.name,
                Differences.COLUMNS,
                cluster=cluster,
                params=pair,
                rows=_BREAKING_MAX,
                empty="Each version reads the data of the other.",
            ),
            panel("Differences", Diff.name, "text", cluster=cluster, params=pair, empty="The texts are the same."),
        ]
    return [
        *found,
        panel(f"Version {version}", Text.name, "text", cluster=cluster, params=params),
        listing(
            "References",
            References.name,
            References.COLUMNS,
            cluster=cluster,
            params=params,
            rows=_BREAKING_MAX,
            empty="The version refers to no schema, and none refers to it.",
        ),
    ]


PAGE = Page(SUBJECT_PAGE, "Subject", layout, in_navigation=False, parent=LIST)
