"""Subjects, versions and differences as the consoles show them, of a running registry."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from broker_cy.client.errors import ClientError
from broker_registry.client import RegistryClient, Schema
from broker_registry.client_settings import settings_of
from broker_registry.console.session import SchemaSession
from broker_registry.console.views import (
    SETTINGS_MAX,
    Subject,
    Subjects,
    compare,
    read_subjects,
    read_version,
    read_versions,
)
from broker_registry.schema_types.base import Reference
from tests.support.registry import RegistryProcess
from tests.support.schema_records import BAD, OLD, TWO, registered

T = TypeVar("T")


def ask(registry: RegistryProcess, call: Callable[[RegistryClient], Awaitable[T]]) -> T:
    async def run() -> T:
        return await call(RegistryClient(settings_of(registry.url)))

    return asyncio.run(run())


def subject_row(registry: RegistryProcess, name: str) -> Subject:
    return next(row for row in ask(registry, read_subjects).rows if row.name == name)


def test_a_subject_has_its_newest_version_and_its_settings(registry: RegistryProcess, subject: str) -> None:
    """If this fails, the list shows an old version as the newest, or another level than that which applies."""
    _, two = registered(registry, subject, OLD, TWO)
    assert subject_row(registry, subject) == Subject(subject, "AVRO", 2, 0, 2, two, 0, "BACKWARD", "READWRITE")
    registry.call("PUT", f"/mode/{subject}", {"mode": "READONLY"})
    assert subject_row(registry, subject).mode == "READONLY"
    registry.call("DELETE", f"/mode/{subject}")


@pytest.mark.parametrize(
    ("count", "left_out", "remark"),
    [
        (SETTINGS_MAX, False, ""),
        (SETTINGS_MAX + 1, False, "level and mode of the first 300 only"),
        (1, True, "of the first 20,000 versions"),
        (SETTINGS_MAX + 1, True, "of the first 20,000 versions, level and mode of the first 300 only"),
    ],
)
def test_subjects_tell_what_they_leave_out(count: int, left_out: bool, remark: str) -> None:
    """If this fails, a subject whose level was not read looks like one without a level."""
    row = Subject("a", "AVRO", 1, 0, 1, 1, 0)
    assert Subjects((row,) * count, left_out).remark == remark


def test_deleted_versions_are_counted_apart(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a deleted version is shown as the newest, or a deleted subject disappears before it is gone."""
    one, _ = registered(registry, subject, OLD, TWO)
    registry.call("DELETE", f"/subjects/{subject}/versions/2")
    row = subject_row(registry, subject)
    assert (row.versions, row.deleted, row.newest, row.id, row.is_deleted) == (1, 1, 1, one, False)
    found = ask(registry, lambda client: read_versions(client, subject))
    assert [(each.version, each.is_deleted) for each in found.rows] == [(2, True), (1, False)]
    assert found.undeleted == [1]
    registry.call("DELETE", f"/subjects/{subject}")
    row = subject_row(registry, subject)
    assert (row.versions, row.deleted, row.is_deleted) == (0, 2, True)


def test_a_version_has_its_references_both_ways(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a user deletes a schema that others need, or does not find what it needs."""
    registered(registry, subject, OLD)
    outer = '{"type":"record","name":"O","fields":[{"name":"r","type":"R"}]}'
    reference = {"name": "R", "subject": subject, "version": 1}
    schema_id = registry.register(f"{subject}-outer", outer, references=[reference]).body["id"]
    found = ask(registry, lambda client: read_version(client, subject, 1))
    assert [str(each) for each in found.referrers] == [f"{subject}-outer version 1 (id {schema_id})"]
    assert found.lines[0] == "{"
    outer_found = ask(registry, lambda client: read_version(client, f"{subject}-outer", 1))
    assert outer_found.references == (Reference("R", subject, 1),)


def test_two_versions_are_compared_in_both_directions(registry: RegistryProcess, subject: str) -> None:
    """If this fails, a user does not see which readers a version breaks."""
    registered(registry, subject, OLD, BAD)
    found = ask(registry, lambda client: compare(client, subject, 1, 2))
    assert [(each.kind, each.reader, each.is_refused) for each in found.breaking] == [
        ("READER_FIELD_MISSING_DEFAULT_VALUE", "new", True)
    ]
    assert any(line.startswith('+      "name": "y"') for line in found.lines)
    proto = Schema("PROTOBUF", 'syntax = "proto3"; message A {}')
    registry.call("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    ask(registry, lambda client: client.register(subject, proto))
    found = ask(registry, lambda client: compare(client, subject, 2, 3))
    assert [each.kind for each in found.breaking] == ["SCHEMA_TYPE_CHANGED"] * 2


def test_a_subject_that_does_not_exist_is_an_error(registry: RegistryProcess) -> None:
    """If this fails, the page of a deleted subject waits for ever."""
    with pytest.raises(ClientError, match="no such subject"):
        ask(registry, lambda client: read_versions(client, "absent-subject"))


def test_a_registry_that_is_down_is_told() -> None:
    """If this fails, a page of schemas stays empty without a reason."""

    async def run() -> str | None:
        session = SchemaSession(RegistryClient(settings_of("http://127.0.0.1:1")))
        with pytest.raises(ClientError, match="connection refused"):
            await session.subjects().fresh(0.0)
        return session.subjects().error

    assert "connection refused" in (asyncio.run(run()) or "")
