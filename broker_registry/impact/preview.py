"""The whole trial, with a client of the registry and a client of the cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import UUID

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_registry.checks import ParsedCache
from broker_registry.client import Refused, RegistryClient, Schema, Version
from broker_registry.compatibility import Level
from broker_registry.differences import OLD, breaking
from broker_registry.impact import topics as places
from broker_registry.impact.groups import Named, last_read, to_look_up, unseen
from broker_registry.impact.result import GroupImpact, Impact, Name, ReaderImpact
from broker_registry.impact.sample import Limits, Sample, look_up, read_groups, read_sample
from broker_registry.impact.segment_files import read_files, topics_in
from broker_registry.impact.trial import Reader, Row, Trial, name_of
from broker_registry.schema_types.base import InvalidSchema, ParsedSchema, Policy
from broker_registry.serdes.values import source_of
from broker_registry.subject_names import SubjectName

VERSIONS_MAX: Final = 10_000
"""Versions of a subject whose numbers are shown."""
READERS_MAX: Final = 20
"""Present schemas that read each rewritten record."""
_ROWS_A_TURN: Final = 50


class Question(NamedTuple):
    """A schema that is to be registered. Without `topics`, they follow from the subject; without `is_key`, so does the
    part of the records. `directories` are log directories of this machine, whose segments are read instead of asking
    brokers.
    """

    subject: str
    schema: Schema
    topics: tuple[str, ...] = ()
    is_key: bool | None = None
    limits: Limits = Limits()
    directories: tuple[Path, ...] = ()


class NoTopic(ClientError):
    """No topic follows from the subject."""


class _Schemas:
    """Parsed schemas of the registry, and texts for those that cannot be used."""

    def __init__(self, client: RegistryClient, subject: str) -> None:
        self._client = client
        # Ids are those of a context.
        self._subject = None if SubjectName.parse(subject).is_default else subject
        self._cache = ParsedCache()
        self.found: dict[Name, ParsedSchema | str] = {}

    async def parse(self, schema: Schema, subject: str) -> ParsedSchema:
        """Raises ClientError, and ValueError for a schema that cannot be used."""
        source = await source_of(self._client, schema, subject)
        # A long text takes a while.
        return await asyncio.to_thread(self._cache.parsed, source)

    async def load(self, names: Iterable[Name]) -> None:
        """Raises ClientError if the registry does not answer."""
        for name in names:
            if name not in self.found:
                self.found[name] = await self._load(name)

    async def _load(self, name: Name) -> ParsedSchema | str:
        try:
            if isinstance(name, UUID):
                schema = await self._client.schema_of_guid(name)
            else:
                schema = await self._client.schema_of(name, self._subject)
            return await self.parse(schema, self._subject or "")
        except Refused as error:
            if not error.is_not_found:
                raise
            return f"the registry has no schema {name}"
        except ValueError as error:
            return f"schema {name} cannot be used: {error}"


async def preview(registry: RegistryClient, cluster: AdminClient, question: Question) -> Impact:
    """Try a schema on the records of its topics. Raises ClientError."""
    schemas = _Schemas(registry, question.subject)
    try:
        new = await schemas.parse(question.schema, question.subject)
    except InvalidSchema as error:
        raise ClientError(Failure.INVALID, f"the schema is not understood: {error}") from None
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error)) from None
    place = await _place(cluster, question, new)
    impact, policy = await _impact(registry, question, place)
    versions = await _versions(registry, question.subject)
    sample, (groups, impact.groups_problem) = await asyncio.gather(
        _sample(cluster, question, place), read_groups(cluster, place.topics)
    )
    impact.stopped = sample.stopped
    named = _named(sample.rows, place.is_key)
    looked_up, problem = await look_up(
        cluster,
        to_look_up(groups, named, sample.ranges),
        sample.ranges,
        lambda row: name_of(row.record, is_key=place.is_key),
        question.limits.seconds,
    )
    impact.groups_problem = "; ".join(each for each in (impact.groups_problem, problem) if each)
    ahead = [
        (
            group,
            GroupImpact(group=group.name, unseen=unseen(group, sample.ranges), read=last_read(group, named, looked_up)),
        )
        for group in groups
    ]
    impact.groups = [each for _, each in ahead]
    own = None if place.is_alone else frozenset[Name](each.id for each in versions)
    wanted = {name for each in named.values() for name in each.names if own is None or name in own}
    await schemas.load(sorted(wanted, key=str))
    readers = await _readers(schemas, new, versions, impact, policy, own)
    impact.readers = [each.impact for each in readers]
    trial = Trial(
        impact,
        new,
        schemas.found,
        versions={each.id: each.version for each in versions},
        own=own,
        groups=ahead,
        readers=readers,
    )
    await _run(trial, sample, question.limits, impact)
    return impact


async def _existing(cluster: AdminClient, question: Question) -> set[str]:
    if not question.directories:
        return {each.name for each in await cluster.topics.list_all()}
    try:
        return await asyncio.to_thread(topics_in, question.directories)
    except OSError as error:
        raise _unreadable(error) from None


async def _sample(cluster: AdminClient, question: Question, place: places.Place) -> Sample:
    if not question.directories:
        return await read_sample(cluster, place.topics, question.limits)
    try:
        return await asyncio.to_thread(read_files, question.directories, place.topics, question.limits)
    except OSError as error:
        raise _unreadable(error) from None


def _unreadable(error: OSError) -> ClientError:
    return ClientError(Failure.INVALID, error.strerror or str(error), what=str(error.filename or "a log directory"))


async def _place(cluster: AdminClient, question: Question, new: ParsedSchema) -> places.Place:
    existing = await _existing(cluster, question)
    if question.topics:
        missing = [each for each in question.topics if each not in existing]
        if missing:
            raise ClientError(Failure.INVALID, "the cluster has no such topic", what=missing[0])
        return places.place_in(question.subject, question.topics, is_key=question.is_key)
    try:
        return places.place_of(question.subject, new.name, existing)
    except ValueError as error:
        raise NoTopic(Failure.INVALID, str(error)) from None


async def _impact(registry: RegistryClient, question: Question, place: places.Place) -> tuple[Impact, Policy]:
    config = await registry.config(question.subject)
    level = Level(config.get("compatibilityLevel", Level.BACKWARD.value))
    has_none = level is Level.NONE
    impact = Impact(
        question.subject,
        place.topics,
        place.is_key,
        level.value,
        needs_old=level.reads_old or has_none,
        needs_new=level.is_read_by_old or has_none,
        wanted=question.limits.records,
    )
    try:
        impact.refusals = (await registry.check(question.subject, question.schema)).messages
    except Refused as error:
        # A subject without versions.
        if not error.is_not_found:
            raise
    return impact, Policy(config.get("compatibilityPolicy", Policy.STRICT.value))


async def _versions(registry: RegistryClient, subject: str) -> list[Version]:
    """Return the versions of a subject, also deleted ones: their records are still there."""
    found: list[Version] = []
    async for each in registry.listed(subject, deleted=True):
        if each.subject == subject:
            found.append(each)
        elif found:
            break
        if len(found) == VERSIONS_MAX:
            break
    return found


def _named(rows: Sequence[Row], is_key: bool) -> dict[TopicPartition, Named]:
    offsets: dict[TopicPartition, tuple[list[int], list[Name]]] = {}
    for row in rows:
        name = name_of(row.record, is_key=is_key)
        if name is not None:
            place = offsets.setdefault(row.partition, ([], []))
            place[0].append(row.record.offset)
            place[1].append(name)
    return {key: Named(*each) for key, each in offsets.items()}


async def _readers(
    schemas: _Schemas,
    new: ParsedSchema,
    versions: Sequence[Version],
    impact: Impact,
    policy: Policy,
    own: frozenset[Name] | None,
) -> list[Reader]:
    """Return the present readers: those that groups have read last, and the newest version."""
    numbers: Mapping[Name, int] = {each.id: each.version for each in versions}
    undeleted = [each for each in versions if not each.is_deleted]
    groups: dict[Name, list[str]] = {undeleted[-1].id: []} if undeleted else {}
    for group in impact.groups:
        for name in group.read:
            if own is None or name in own:
                groups.setdefault(name, []).append(group.group)
    found: list[Reader] = []
    for name, theirs in list(groups.items())[:READERS_MAX]:
        await schemas.load([name])
        schema = schemas.found[name]
        if isinstance(schema, str) or schema.canonical == new.canonical:
            continue
        is_newest = bool(undeleted) and name == undeleted[-1].id
        differences = tuple(each for each in breaking(schema, new, Level(impact.level), policy) if each.reader == OLD)
        reader = ReaderImpact(
            name=name,
            version=numbers.get(name),
            is_newest=is_newest,
            groups=tuple(theirs),
            differences=differences,
        )
        found.append(Reader(schema, reader))
    return found


async def _run(trial: Trial, sample: Sample, limits: Limits, impact: Impact) -> None:
    """Try the records, in turn with other tasks of the loop, until the time is over."""
    until_s = time.monotonic() + limits.seconds
    # The newest records first: they are what is left if the time is over.
    rows = sorted(sample.rows, key=lambda row: row.record.timestamp, reverse=True)
    for at in range(0, len(rows), _ROWS_A_TURN):
        if time.monotonic() >= until_s:
            impact.stopped = f"stopped after {limits.seconds:g} s: {at:,} of {len(rows):,} records were tried"
            return
        await asyncio.to_thread(trial.take, rows[at : at + _ROWS_A_TURN])
