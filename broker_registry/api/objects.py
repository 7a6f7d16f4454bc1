"""JSON objects of answers, members in the order of Confluent's registry, without empty ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_registry.store.state import State
from broker_registry.store.values import SchemaValue, optional_members
from broker_registry.subject_names import SubjectName, qualified

QUALIFIED: Final = "qualified"
"""The value of `referenceFormat` with which references name their contexts."""


def _late_members(value: SchemaValue) -> dict[str, Any]:
    members: dict[str, Any] = {} if value.timestamp_ms < 0 else {"ts": value.timestamp_ms}
    return {**members, "deleted": value.is_deleted}


def _content(value: SchemaValue, text: str | None, reference_format: str | None) -> dict[str, Any]:
    members = optional_members(value.content)
    if reference_format == QUALIFIED and not SubjectName.parse(value.subject).is_default:
        for each in members.get("references", ()):
            each["subject"] = qualified(value.subject, each["subject"])
    return {**members, "schema": value.content.text if text is None else text}


def schema_of_subject(
    value: SchemaValue, text: str | None = None, reference_format: str | None = None
) -> dict[str, Any]:
    """Return a version of a subject; `text` is its schema in another format."""
    return {
        "subject": value.subject,
        "version": value.version,
        "id": value.id,
        "guid": value.guid,
        "schemaType": value.content.schema_type,
        **_content(value, text, reference_format),
        **_late_members(value),
    }


def schema_of_id(
    value: SchemaValue,
    text: str | None = None,
    reference_format: str | None = None,
    *,
    with_subject: bool = False,
    max_id: int | None = None,
) -> dict[str, Any]:
    """Return the schema of an id."""
    members: dict[str, Any] = {"subject": value.subject, "version": value.version} if with_subject else {}
    content = _content(value, text, reference_format)
    members |= {"guid": value.guid, "schemaType": value.content.schema_type, "schema": content.pop("schema"), **content}
    if max_id is not None:
        members["maxId"] = max_id
    return {**members, **_late_members(value)}


def registered(value: SchemaValue, text: str | None = None) -> dict[str, Any]:
    """Return the answer to a registration."""
    return {
        "id": value.id,
        "version": value.version,
        "guid": value.guid,
        "schemaType": value.content.schema_type,
        **_content(value, text, None),
    }


def aliases_of(state: State, prefix: str, sees: Callable[[str], bool]) -> dict[str, list[str]]:
    """Return the subjects that settings with `alias` lead to, each with the names that lead to it and that the client
    `sees`.
    """
    found: dict[str, list[str]] = {}
    for subject in state.configs:
        config = state.configs[subject]
        if subject is None or not config.alias or not sees(subject):
            continue
        wanted, name = SubjectName.parse(prefix), SubjectName.parse(subject)
        if wanted.context in ("*", name.context) and name.subject.startswith(wanted.subject):
            found.setdefault(qualified(subject, config.alias), []).append(subject)
    return found
