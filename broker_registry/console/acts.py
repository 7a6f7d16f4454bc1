"""Acts on schemas: register one, after it was tried on the records of its topic; delete versions or a subject."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.reporting.column import ids_text
from broker_cy.reporting.numbers import count, plural
from broker_registry.client import Check, Refused, RegistryClient, Schema
from broker_registry.console.deleting import Deletion, delete, deletions
from broker_registry.console.session import SchemaSession
from broker_registry.differences import diff_lines
from broker_registry.impact.preview import NoTopic, Question, preview
from broker_registry.impact.result import Impact
from broker_registry.impact.shown import broken_text, first_lines, names_text, notes, readers_text, verdict
from broker_registry.schema_types.base import TEXT_BYTES_MAX, Kind, Reference
from broker_registry.subject_names import is_valid

RESTORABLE: Final = "can be restored"
PERMANENT: Final = "for good"
_KINDS: Final = tuple(each.value for each in Kind)
_DIFF_LINES_MAX: Final = 200
_ROWS_MAX: Final = 50
"""Schemas, groups and readers of a trial that a plan lists."""
_ENDINGS: Final = {Kind.AVRO.value: ".avsc", Kind.JSON.value: ".json", Kind.PROTOBUF.value: ".proto"}


# ------------------------------------------------------------------------------------------------ registration


def register_form(subject: str = "", kind: str = Kind.AVRO.value, *, has_files: bool) -> Form:
    """Return the form for a schema. `has_files`: the text may also be that of a file of this machine."""
    files = [Field("file", "File", hint="path of a file with the schema, instead of the text")] if has_files else []
    return Form(
        "Try and register a schema",
        [
            Field("subject", "Subject", _subject, subject, "such as orders-value"),
            Field("kind", "Type", value=kind, choices=_KINDS),
            *files,
            Field("text", "Schema", is_long=True, hint="the text of the schema"),
            Field("references", "References", _references, hint="NAME=SUBJECT:VERSION, separated by blanks, or empty"),
            Field("topics", "Topics", str.split, hint="whose records it is tried on; empty: that of the subject"),
        ],
        note="The schema is tried on the newest records of the topic, and with present readers. Nothing is registered "
        "before you confirm it.",
        verb="Try",
        check=_one_text,
    )


def _subject(text: str) -> str:
    text = text.strip()
    if not is_valid(text, may_be_empty=False):
        raise ValueError("the name of a subject is expected")
    return text


def _references(text: str) -> tuple[Reference, ...]:
    return tuple(map(Reference.of, text.split()))


def _one_text(values: Mapping[str, Any]) -> tuple[str, str] | None:
    path, text = values.get("file", ""), values["text"]
    if bool(path.strip()) == bool(text.strip()):
        return "text", "enter the text of the schema" + (", or a file" if "file" in values else "")
    if path.strip():
        try:
            _text_of(Path(path.strip()))
        except ValueError as error:
            return "file", str(error)
    return None


def _text_of(path: Path) -> str:
    """Raises ValueError."""
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(TEXT_BYTES_MAX + 1)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    if len(data) > TEXT_BYTES_MAX:
        raise ValueError(f"{path} has more than {TEXT_BYTES_MAX:,} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no UTF-8") from None


@dataclass(frozen=True, slots=True)
class RegisterSchema:
    """Registers a schema. The registry has one login for all users of a console, unlike a cluster."""

    session: SchemaSession = field(repr=False, compare=False)
    subject: str
    schema: Schema

    async def run(self, client: AdminClient) -> Report:
        registry = self.session.client
        schema_id = await registry.register(self.subject, self.schema)
        found = await registry.look_up(self.subject, self.schema)
        name = f"{self.subject} version {found.version}"
        return Report(f"{name} has id {schema_id}", (name,))


async def plan_register(session: SchemaSession, client: AdminClient, values: Mapping[str, Any]) -> Plan:
    """Try a schema, and plan its registration. `values` are those of `register_form`. Raises ClientError."""
    registry, subject = session.client, values["subject"]
    path = values.get("file", "").strip()
    try:
        text = _text_of(Path(path)) if path else values["text"]
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error)) from None
    schema = Schema(values["kind"], text, values["references"])
    try:
        checked = await registry.check(subject, schema)
    except Refused as error:
        # The subject is new.
        if not error.is_not_found:
            raise
        checked = Check(True, ())
    impact, problem = await _tried(registry, client, Question(subject, schema, tuple(values["topics"])))
    breaks = impact is not None and impact.breaks
    refusal = "" if checked.is_compatible else f"the level of {subject} refuses it: {'; '.join(checked.messages[:1])}"
    said = f"It could not be tried: {problem}" if impact is None else verdict(impact)
    return Plan(
        f"Register a schema in {subject}",
        said,
        command_of(session, "register", subject, path or f"schema{_ENDINGS[schema.kind]}"),
        RegisterSchema(session, subject, schema),
        [*([] if impact is None else impact_changes(impact)), *await _diff(registry, subject, schema)],
        typed=subject if breaks else None,
        verb="Register",
        is_destructive=breaks,
        problem=refusal,
    )


async def _tried(registry: RegistryClient, client: AdminClient, question: Question) -> tuple[Impact | None, str]:
    """Return the result of a trial, or why there is none. Raises ClientError for a schema that is not understood."""
    try:
        return await preview(registry, client, question), ""
    except ClientError as error:
        if error.failure is Failure.INVALID and not isinstance(error, NoTopic):
            raise
        return None, str(error)


def impact_changes(found: Impact) -> list[Change]:
    """Return the result of a trial as lines of a plan."""
    lines = [*first_lines(found), *notes(found)]
    for schema in found.schemas[:_ROWS_MAX]:
        version = f" (version {schema.version})" if schema.version is not None else ""
        text = f"schema {schema.name}{version}: {count(schema.broken)} of {plural(schema.tried, 'record')} break"
        if schema.left_out:
            text += f"; left out: {', '.join(list(schema.left_out)[:5])}"
        lines.append(text)
    for group in found.groups[:_ROWS_MAX]:
        text = f"group {group.group}: {count(group.broken)} of {plural(group.tried, 'record')} ahead break"
        if group.unseen:
            text += f", {count(group.unseen)} offsets ahead were not tried"
        lines.append(f"{text}; read last: schema {names_text(group.read)}")
    for reader in found.readers[:_ROWS_MAX]:
        who = readers_text(reader)
        text = f"present schema {reader.name} ({who}): {count(reader.broken)} of {plural(reader.tried, 'record')} break"
        if reader.first is not None:
            text += f"; first: {broken_text(reader.first)}"
        if reader.differences:
            text += f"; differences: {', '.join(dict.fromkeys(each.kind for each in reader.differences))}"
        lines.append(text)
    return [Change(line) for line in lines]


async def _diff(registry: RegistryClient, subject: str, schema: Schema) -> list[Change]:
    """Return the lines of the difference to the newest version."""
    try:
        newest = await registry.version(subject)
    except Refused:
        return []
    old_name = f"{subject} version {newest.version} (id {newest.id})"
    lines = diff_lines((newest.schema.kind, newest.schema.text), (schema.kind, schema.text), old_name, "new")
    if not lines:
        return [Change(f"The text is that of version {newest.version}.")]
    left_out = len(lines) - _DIFF_LINES_MAX
    return [Change(each) for each in lines[:_DIFF_LINES_MAX]] + (
        [Change(f"... and {left_out:,} more lines")] if left_out > 0 else []
    )


def command_of(session: SchemaSession, *parts: str | int) -> str:
    """Return the equivalent command line."""
    return shlex.join(["broker-cy", "schemas", *map(str, parts), "--registry", session.client.name])


# ------------------------------------------------------------------------------------------------ deletion


def delete_form(what: str) -> Form:
    """Return the form that asks whether a deletion can be undone."""
    return Form(
        f"Delete {what}",
        [Field("kind", "Delete", value=RESTORABLE, choices=(RESTORABLE, PERMANENT))],
        note="A version that can be restored is read by its id, and returns when its schema is registered again. "
        "Records of a version that was deleted for good cannot be decoded any more.",
    )


@dataclass(frozen=True, slots=True)
class DeleteVersions:
    session: SchemaSession = field(repr=False, compare=False)
    subject: str
    rows: tuple[Deletion, ...]
    permanent: bool
    is_whole: bool

    async def run(self, client: AdminClient) -> Report:
        await delete(self.session.client, self.subject, self.rows, permanent=self.permanent, is_whole=self.is_whole)
        numbers = ids_text(row.version for row in self.rows)
        end = " for good" if self.permanent else ""
        return Report(f"deleted {self.subject}: versions {numbers}{end}", (self.subject,))


async def plan_delete(
    session: SchemaSession, subject: str, versions: Sequence[int] | None, values: Mapping[str, Any]
) -> Plan:
    """Plan the deletion of versions, or of a subject without `versions`. `values` are those of `delete_form`. Raises
    ClientError.
    """
    permanent = values["kind"] == PERMANENT
    rows = await deletions(session.client, subject, versions, permanent=permanent)
    referred = [row for row in rows if row.referrers]
    is_whole = versions is None
    words = ["delete", subject]
    if not is_whole:
        words += ["--version", str(rows[0].version)]
    command = command_of(session, *words, *(["--permanent"] if permanent else []))
    more = f"  (and {len(rows) - 1} more)" if not is_whole and len(rows) > 1 else ""
    return Plan(
        f"Delete {'subject' if is_whole else 'versions of'} {subject}",
        f"deletes {plural(len(rows), 'version')}, " + ("for good" if permanent else "which can be restored"),
        command + more,
        DeleteVersions(session, subject, tuple(rows), permanent, is_whole),
        [Change(f"version {row.version}", note=_note(row)) for row in rows],
        typed=subject if permanent else None,
        verb="Delete",
        problem=f"schemas refer to version {referred[0].version}: ids {ids_text(referred[0].referrers)}"
        if referred
        else "",
    )


def _note(row: Deletion) -> str:
    found = ["deleted already"] if row.is_deleted else []
    if row.referrers:
        found.append(f"ids {ids_text(row.referrers)} refer to it")
    return ", ".join(found) or "deleted"
