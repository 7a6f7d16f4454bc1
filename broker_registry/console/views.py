"""Subjects, versions and differences as consoles and commands show them, read with a client of the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from broker_cy.client.errors import ClientError, Failure
from broker_registry.checks import ParsedCache
from broker_registry.client import Refused, RegistryClient, Version
from broker_registry.compatibility import Level
from broker_registry.differences import Breaking, breaking, diff_lines, pretty, type_changed
from broker_registry.schema_types.base import InvalidSchema, Policy, Reference
from broker_registry.serdes.values import source_of

VERSIONS_MAX: Final = 20_000
"""Versions of all subjects that one look reads."""
SETTINGS_MAX: Final = 300
"""Subjects whose level and mode one look asks for: each is two requests."""
_AT_ONCE: Final = 8
REFERRERS_MAX: Final = 200
"""Schemas that refer to a version whose subjects are shown."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A subject with its newest version. `level` and `mode` are those that apply; None if they were not asked for.
    `deleted` counts versions that can be restored; if all are, `is_deleted`.
    """

    name: str
    kind: str
    versions: int
    deleted: int
    newest: int
    id: int
    references: int
    level: str | None = None
    mode: str | None = None

    @property
    def is_deleted(self) -> bool:
        return self.versions == 0


@dataclass(frozen=True, slots=True)
class Subjects:
    """All subjects, by name. `left_out`: the registry has more versions than one look reads."""

    rows: tuple[Subject, ...]
    left_out: bool

    @property
    def remark(self) -> str:
        """A note on the subjects and settings that the rows do not have; empty if they have all."""
        versions = f"of the first {VERSIONS_MAX:,} versions" if self.left_out else ""
        settings = f"level and mode of the first {SETTINGS_MAX:,} only" if len(self.rows) > SETTINGS_MAX else ""
        return ", ".join(filter(None, (versions, settings)))


async def read_subjects(client: RegistryClient) -> Subjects:
    """Raises ClientError."""
    found: dict[str, Subject] = {}
    count = 0
    left_out = False
    async for each in client.listed(deleted=True):
        if count == VERSIONS_MAX:
            left_out = True
            break
        count += 1
        found[each.subject] = _with_version(found.get(each.subject), each)
    rows = sorted(found.values(), key=lambda row: row.name)
    asked = await _with_settings(client, rows[:SETTINGS_MAX])
    return Subjects((*asked, *rows[SETTINGS_MAX:]), left_out)


def _with_version(known: Subject | None, each: Version) -> Subject:
    versions, deleted = (0, 0) if known is None else (known.versions, known.deleted)
    if each.is_deleted and known is not None and known.versions:
        return replace(known, deleted=deleted + 1)
    return Subject(
        each.subject,
        each.schema.kind,
        versions + (not each.is_deleted),
        deleted + each.is_deleted,
        each.version,
        each.id,
        len(each.schema.references),
    )


async def _with_settings(client: RegistryClient, rows: Iterable[Subject]) -> list[Subject]:
    permits = asyncio.Semaphore(_AT_ONCE)

    async def ask(row: Subject) -> Subject:
        async with permits:
            level, mode = await settings_in_effect(client, row.name)
            return replace(row, level=level, mode=mode)

    tasks = [asyncio.create_task(ask(row)) for row in rows]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def settings_in_effect(client: RegistryClient, subject: str) -> tuple[str | None, str | None]:
    """Return the level and the mode that apply to a subject; None for one that the login may not read. Raises
    ClientError if the registry does not answer.
    """
    level = mode = None
    try:
        level = str((await client.config(subject)).get("compatibilityLevel", Level.BACKWARD.value))
        mode = await client.mode_in_effect(subject)
    except Refused:
        # A login may read schemas and not settings.
        pass
    return level, mode


class VersionRow(NamedTuple):
    """A version without its text."""

    subject: str
    version: int
    id: int
    guid: str | None
    kind: str
    references: int
    size_bytes: int
    is_deleted: bool


@dataclass(frozen=True, slots=True)
class SubjectVersions:
    """The versions of a subject, newest first, with the level and the mode that apply."""

    name: str
    rows: tuple[VersionRow, ...]
    level: str | None
    mode: str | None

    @property
    def undeleted(self) -> list[int]:
        return [row.version for row in self.rows if not row.is_deleted]


async def read_versions(client: RegistryClient, subject: str) -> SubjectVersions:
    """Raises ClientError, also if the subject does not exist."""
    rows: list[VersionRow] = []
    async for each in client.listed(subject, deleted=True):
        if each.subject != subject:
            continue
        schema = each.schema
        size = len(schema.text.encode())
        rows.append(
            VersionRow(
                subject, each.version, each.id, each.guid, schema.kind, len(schema.references), size, each.is_deleted
            )
        )
        if len(rows) == VERSIONS_MAX:
            break
    if not rows:
        raise ClientError(Failure.INVALID, "the registry has no such subject", what=subject)
    return SubjectVersions(subject, tuple(reversed(rows)), *await settings_in_effect(client, subject))


class Referrer(NamedTuple):
    """A schema that refers to a version, at one of its places."""

    id: int
    subject: str
    version: int

    def __str__(self) -> str:
        return f"{self.subject} version {self.version} (id {self.id})"


@dataclass(frozen=True, slots=True)
class VersionText:
    """A version in full. `left_out` counts referrers that are not shown."""

    version: Version
    lines: tuple[str, ...]
    references: tuple[Reference, ...]
    referrers: tuple[Referrer, ...]
    left_out: int


async def read_version(client: RegistryClient, subject: str, number: int) -> VersionText:
    """Raises ClientError."""
    found = await client.version(subject, number, deleted=True)
    ids = await client.referrers(subject, number)
    referrers = [Referrer(each, *place) for each in ids[:REFERRERS_MAX] for place in await client.places_of(each)]
    lines = pretty(found.schema.kind, found.schema.text).splitlines()
    return VersionText(found, tuple(lines), found.schema.references, tuple(referrers), max(0, len(ids) - REFERRERS_MAX))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two versions of a subject: a unified diff, and what keeps one from reading data of the other."""

    subject: str
    old: int
    new: int
    level: Level
    policy: Policy
    lines: tuple[str, ...]
    breaking: tuple[Breaking, ...]


async def compare(client: RegistryClient, subject: str, old: int, new: int) -> Comparison:
    """Raises ClientError, also for a schema that is not understood."""
    first = await client.version(subject, old, deleted=True)
    second = await client.version(subject, new, deleted=True)
    config = await client.config(subject)
    level = Level(config.get("compatibilityLevel", Level.BACKWARD.value))
    policy = Policy(config.get("compatibilityPolicy", Policy.STRICT.value))
    lines = diff_lines(
        (first.schema.kind, first.schema.text),
        (second.schema.kind, second.schema.text),
        *(f"{each.subject} version {each.version} (id {each.id})" for each in (first, second)),
    )
    found = await _breaking(client, first, second, level, policy)
    return Comparison(subject, old, new, level, policy, tuple(lines), tuple(found))


async def _breaking(client: RegistryClient, old: Version, new: Version, level: Level, policy: Policy) -> list[Breaking]:
    if old.schema.kind != new.schema.kind:
        return type_changed(level)
    try:
        sources = [await source_of(client, each.schema, each.subject) for each in (old, new)]

        def look() -> list[Breaking]:
            cache = ParsedCache()
            first, second = [cache.parsed(each) for each in sources]
            return breaking(first, second, level, policy)

        # A long text takes a while.
        return await asyncio.to_thread(look)
    except InvalidSchema as error:
        raise ClientError(Failure.MALFORMED, f"a schema is not understood: {error}", what=new.subject) from None
    except ValueError as error:
        raise ClientError(Failure.MALFORMED, str(error), what=new.subject) from None
