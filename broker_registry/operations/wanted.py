"""The schema of a request, its references resolved, and the searches for it among stored versions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from broker_registry.checks import Canonical, Canonicalize, FindEquivalent, Source
from broker_registry.errors import invalid_schema
from broker_registry.operations.plan import Steps
from broker_registry.rules import VERSION_PROPERTY, Metadata, RuleSet
from broker_registry.schema_types.base import InvalidSchema, ParseSettings, Reference, Resolved
from broker_registry.store.state import State
from broker_registry.store.values import Config, SchemaContent, SchemaValue
from broker_registry.subject_names import context_of, qualified

LATEST: Final = -1
NO_ID: Final = -1
REFERENCES_MAX: Final = 1_000
"""Referenced schemas of one schema, with those that they refer to."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A schema in a request. `version` is 0 if the request names none, LATEST for the newest; `id` NO_ID for a new
    one. `content.text` may be empty: then the newest version has the text.
    """

    subject: str
    content: SchemaContent
    version: int = 0
    id: int = NO_ID

    @property
    def has_text(self) -> bool:
        return bool(self.content.text.strip())

    @property
    def context(self) -> str:
        return context_of(self.subject)


@dataclass(frozen=True, slots=True)
class Parsed:
    """A request whose content is canonical, and the source of its checks."""

    wanted: Wanted
    source: Source
    canonical: Canonical


def resolve(
    state: State, subject: str, references: Sequence[Reference], *, with_deleted: bool
) -> tuple[tuple[Reference, ...], tuple[Resolved, ...]]:
    """Return the references with versions in place of LATEST, and the texts that they lead to, each one behind those
    that it refers to. Raises InvalidSchema.
    """
    found: dict[str, str] = {}
    # Names that are followed now: one that leads to itself is a circle.
    open_names: set[str] = set()

    def follow(parent: str, wanted: Sequence[Reference]) -> tuple[Reference, ...]:
        whole = []
        for each in wanted:
            place = qualified(parent, each.subject)
            value = state.version(place, each.version, with_deleted=with_deleted)
            if value is None:
                raise InvalidSchema(f'No schema reference found for subject "{place}" and version {each.version}')
            whole.append(replace(each, version=value.version))
            if each.name in open_names:
                raise InvalidSchema(f"the references are a circle: {each.name}")
            if each.name not in found:
                if len(found) + len(open_names) >= REFERENCES_MAX:
                    raise InvalidSchema(f"more than {REFERENCES_MAX:,} schemas are referenced")
                open_names.add(each.name)
                follow(value.subject, value.content.references)
                open_names.remove(each.name)
                found[each.name] = value.content.text
        return tuple(whole)

    try:
        whole = follow(subject, references)
    except RecursionError:
        raise InvalidSchema(f"the references of {subject} are too deep") from None
    return whole, tuple(Resolved(name, text) for name, text in found.items())


def referenced_subjects(state: State, value: SchemaValue) -> set[str]:
    """Return the subjects of the versions that a stored version refers to, also through others."""
    found: set[str] = set()
    seen: set[tuple[str, int]] = set()
    left = [value]
    while left:
        each = left.pop()
        for reference in each.content.references:
            place = qualified(each.subject, reference.subject), reference.version
            if place not in seen:
                seen.add(place)
                found.add(place[0])
                other = state.version(*place, with_deleted=True)
                left += [] if other is None else [other]
    return found


def source_of(state: State, value: SchemaValue) -> Source:
    """Return the source of a stored version. Raises InvalidSchema if a referenced version is gone."""
    _, resolved = resolve(state, value.subject, value.content.references, with_deleted=True)
    return Source(value.content.schema_type, value.content.text, resolved)


def parse(state: State, wanted: Wanted, config: Config, *, is_new: bool, normalizes: bool) -> Steps[Parsed]:
    """Return the request with its canonical text. Raises RegistryError for an invalid schema."""
    content = wanted.content
    is_import = state.mode_in_scope(wanted.subject).is_import
    settings = ParseSettings(
        is_new=is_new,
        validates=not is_import,
        is_strict=state.validates_fields(config),
        normalizes=normalizes and not is_import,
    )
    try:
        references, resolved = resolve(state, wanted.subject, content.references, with_deleted=not is_new)
        canonical: Canonical = yield Canonicalize(Source(content.schema_type, content.text, resolved), settings)
    except InvalidSchema as error:
        raise invalid_schema(str(error) if _is_unknown(content) else _details(content, error)) from None
    if settings.normalizes:
        references = tuple(sorted(set(references), key=lambda each: (each.subject, each.version, each.name)))
    whole = content._replace(text=canonical.text, references=references)
    return Parsed(replace(wanted, content=whole), Source(content.schema_type, canonical.text, resolved), canonical)


def _is_unknown(content: SchemaContent) -> bool:
    return content.schema_type not in ("AVRO", "JSON", "PROTOBUF")


def _details(content: SchemaContent, error: InvalidSchema) -> str:
    return f"Invalid schema of type {content.schema_type}, details: {error}"


def find_same(state: State, parsed: Parsed, values: Iterable[SchemaValue]) -> Steps[SchemaValue | None]:
    """Return the first of the versions that is the wanted schema in another form: its references are resolved in the
    text, or the property `confluent:version` is missing in one of them.
    """
    content = parsed.wanted.content
    candidates, sources = [], []
    for value in values:
        if value.content.schema_type != content.schema_type or not _has_same_rest(content, value):
            continue
        is_resolved = not content.references and bool(value.content.references)
        if is_resolved or _latest_replaced(state, content.references) == value.content.references:
            try:
                sources.append(source_of(state, value))
            except InvalidSchema:
                continue
            candidates.append(value)
    if not candidates:
        return None
    try:
        index: int | None = yield FindEquivalent(parsed.source, tuple(sources))
    except InvalidSchema as error:
        raise invalid_schema(_details(content, error)) from None
    return None if index is None else candidates[index]


def _latest_replaced(state: State, references: Sequence[Reference]) -> tuple[Reference, ...]:
    found = []
    for each in references:
        newest = state.latest(each.subject) if each.version == LATEST else None
        found.append(each if newest is None else replace(each, version=newest.version))
    return tuple(found)


def _version_property(metadata: Metadata | None) -> int | None:
    text = None if metadata is None else metadata.value_of(VERSION_PROPERTY)
    return int(text) if text is not None and text.lstrip("+-").isdecimal() else None


def _has_same_rest(content: SchemaContent, stored: SchemaValue) -> bool:
    """Return whether metadata and rules are the same, but for `confluent:version` in one of them."""
    if not _same_rules(content.rule_set, stored.content.rule_set):
        return False
    mine, theirs = content.metadata, stored.content.metadata
    my_version, their_version = _version_property(mine), _version_property(theirs)
    if (my_version is None) == (their_version is None):
        return mine == theirs
    if my_version is not None and my_version != stored.version:
        return False
    without = [(each or Metadata()).with_property(VERSION_PROPERTY, None) for each in (mine, theirs)]
    return without[0] == without[1]


def _same_rules(mine: RuleSet | None, theirs: RuleSet | None) -> bool:
    return mine == theirs
