"""The state of the registry as the replay of `_schemas`: versions of subjects, ids, hashes, references, settings.

`apply` takes one record; nothing else changes the state. It takes records of any writer: a schema whose id belongs to
another text in its context is not taken, and counted, so that an id never changes its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from broker_registry.schema_types.base import Reference
from broker_registry.store import values
from broker_registry.store.keys import Key, KeyType, UnknownKey
from broker_registry.store.values import Config, Mode, SchemaValue, UnknownValue
from broker_registry.subject_names import (
    ALL_CONTEXTS,
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    WILDCARD,
    SubjectName,
    context_of,
    is_inside,
    qualified,
)

PROBLEMS_MAX: Final = 100
"""Texts about records that were not taken; further ones are counted."""


class Place(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int


class ContextId(NamedTuple):
    """An id in a context."""

    context: str
    id: int


@dataclass(frozen=True, slots=True)
class Defaults:
    """The settings of an instance that hold where the topic has none."""

    level: str = "BACKWARD"
    mode: Mode = Mode.READWRITE
    validates_fields: bool = False
    validates_new_schemas: bool = True
    allows_mode_changes: bool = True


class State:
    """See the module. Lookups return values of the topic; they do not copy."""

    def __init__(self, defaults: Defaults | None = None) -> None:
        self.defaults = defaults or Defaults()
        self.configs: dict[str | None, Config] = {}
        self.modes: dict[str | None, Mode] = {}
        # The last id of each context where schemas were deleted for good: nothing else says that their ids were given.
        self.kept_ids: dict[str, int] = {}
        # Records that were not taken, and the newest texts about them.
        self.problems_total = 0
        self.problems: list[str] = []
        self._subjects: dict[str, dict[int, SchemaValue]] = {}
        self._contexts: dict[str, None] = {}
        # context -> id -> subject -> version
        self._by_id: dict[str, dict[int, dict[str, int]]] = {}
        # context -> hash -> id
        self._ids: dict[str, dict[bytes, int]] = {}
        self._max_ids: dict[str, int] = {}
        self._referenced_by: dict[Place, dict[ContextId, None]] = {}

    # ------------------------------------------------------------------------------------------------ replay

    def apply(self, key_data: bytes | None, value_data: bytes | None, timestamp_ms: int = -1) -> None:
        """Take a record. One that cannot be read, or that contradicts an id, is counted as a problem."""
        try:
            self._apply(Key.decode(key_data or b""), value_data, timestamp_ms)
        except (UnknownKey, UnknownValue) as error:
            self._note(str(error))

    def _note(self, problem: str) -> None:
        self.problems_total += 1
        self.problems = [*self.problems[-(PROBLEMS_MAX - 1) :], problem]

    def _apply(self, key: Key, data: bytes | None, timestamp_ms: int) -> None:
        if key.kind is KeyType.SCHEMA:
            if data is None:
                self._remove(Place(key.subject or "", key.version))
            else:
                self._put(self._decoded(key, data, timestamp_ms))
        elif key.kind is KeyType.CONFIG:
            if data is None:
                self.configs.pop(key.subject, None)
            else:
                self.configs[key.subject] = values.decode_config(key, data)
        elif key.kind is KeyType.MODE:
            if data is None:
                self.modes.pop(key.subject, None)
            else:
                self.modes[key.subject] = values.decode_mode(key, data)
        elif key.kind is KeyType.CONTEXT:
            if data is None:
                self._contexts.pop(key.context or "", None)
            else:
                self._contexts[key.context or ""] = None
        elif key.kind is KeyType.DELETE_SUBJECT and data is not None:
            self._delete_up_to(key.subject or "", values.decode_subject_deletion(key, data))
        elif key.kind is KeyType.CLEAR_SUBJECT and data is not None:
            self._clear(key.subject)
        elif key.kind is KeyType.NOOP and data is not None:
            found = values.decode_max_ids(data)
            self.kept_ids.update(found)
            for context, last in found.items():
                self._max_ids[context] = max(self._max_ids.get(context, 0), last)

    def _decoded(self, key: Key, data: bytes, timestamp_ms: int) -> SchemaValue:
        """Return the value of a record. The id of one that cannot be read is not given again."""
        try:
            return SchemaValue.decode(key, data, timestamp_ms)
        except UnknownValue as error:
            context = context_of(key.subject or "")
            self._max_ids[context] = max(self._max_ids.get(context, 0), error.schema_id)
            raise

    def _put(self, value: SchemaValue) -> None:
        context = context_of(value.subject)
        for subject, version in self._by_id.get(context, {}).get(value.id, {}).items():
            other = self._subjects[subject][version]
            if other.content.text != value.content.text:
                self._note(
                    f"{value.subject} version {value.version} has the id {value.id} of another schema, "
                    f"{subject} version {version}; the record is not taken"
                )
                return
        self._remove(Place(value.subject, value.version))
        self._subjects.setdefault(value.subject, {})[value.version] = value
        self._by_id.setdefault(context, {}).setdefault(value.id, {})[value.subject] = value.version
        self._ids.setdefault(context, {})[value.md5] = value.id
        self._max_ids[context] = max(self._max_ids.get(context, 0), value.id)
        for place in referenced_places(value.subject, value.content.references):
            self._referenced_by.setdefault(place, {})[ContextId(context, value.id)] = None

    def _remove(self, place: Place) -> None:
        """Forget a version, and its id unless other versions have it."""
        versions = self._subjects.get(place.subject, {})
        value = versions.pop(place.version, None)
        if value is None:
            return
        if not versions:
            del self._subjects[place.subject]
        context = context_of(place.subject)
        ids = self._by_id[context]
        holders = ids.get(value.id, {})
        if holders.get(place.subject) == place.version:
            del holders[place.subject]
            # An import may have given the id to several versions of the subject.
            others = [each.version for each in versions.values() if each.id == value.id]
            if others:
                holders[place.subject] = max(others)
        if holders:
            return
        ids.pop(value.id, None)
        if self._ids[context].get(value.md5) == value.id:
            del self._ids[context][value.md5]
        for other in referenced_places(place.subject, value.content.references):
            referrers = self._referenced_by.get(other, {})
            referrers.pop(ContextId(context, value.id), None)
            if not referrers:
                self._referenced_by.pop(other, None)

    def _delete_up_to(self, subject: str, last: int) -> None:
        versions = self._subjects.get(subject, {})
        for version, value in versions.items():
            if version <= last and not value.is_deleted:
                versions[version] = value.deleted()

    def _clear(self, subject: str | None) -> None:
        found = [
            Place(name, version)
            for name, versions in self._subjects.items()
            if subject is None or is_inside(name, subject)
            for version, value in versions.items()
            if value.is_deleted
        ]
        for place in found:
            self._remove(place)

    # ------------------------------------------------------------------------------------------------ versions

    def versions(self, subject: str) -> list[SchemaValue]:
        """Return all versions of a subject, deleted ones too, in ascending order."""
        return [value for _, value in sorted(self._subjects.get(subject, {}).items())]

    def version(self, subject: str, version: int, *, with_deleted: bool = False) -> SchemaValue | None:
        """Return a version, the newest for -1."""
        if version == -1:
            return self.latest(subject)
        value = self._subjects.get(subject, {}).get(version)
        return None if value is None or (value.is_deleted and not with_deleted) else value

    def latest(self, subject: str) -> SchemaValue | None:
        """Return the newest version that is not deleted."""
        found = [value for value in self._subjects.get(subject, {}).values() if not value.is_deleted]
        return max(found, key=lambda value: value.version, default=None)

    def sizes(self) -> tuple[int, int, int]:
        """Return how many subjects, versions and ids there are, those that are deleted softly too."""
        versions = sum(map(len, self._subjects.values()))
        return len(self._subjects), versions, sum(map(len, self._by_id.values()))

    def has_subjects(self, container: str | None, *, with_deleted: bool) -> bool:
        """Return whether a subject, or a context, or (None) the registry has versions."""
        if container is not None and not SubjectName.parse(container).is_context:
            return self._has_versions(container, with_deleted=with_deleted)
        return any(
            self._has_versions(name, with_deleted=with_deleted)
            for name in self._subjects
            if container is None or is_inside(name, container)
        )

    def _has_versions(self, subject: str, *, with_deleted: bool) -> bool:
        return any(with_deleted or not value.is_deleted for value in self._subjects.get(subject, {}).values())

    def subjects_inside(self, container: str | None) -> list[str]:
        return sorted(name for name in self._subjects if container is None or is_inside(name, container))

    def subjects_with_prefix(self, prefix: str) -> list[str]:
        """Return the subjects with a prefix, sorted; `:*:` stands for all contexts."""
        wanted = SubjectName.parse(prefix)
        found = []
        for name in self._subjects:
            each = SubjectName.parse(name)
            if wanted.context in (WILDCARD, each.context) and each.subject.startswith(wanted.subject):
                found.append(name)
        return sorted(found)

    def all_values(self, prefix: str = ALL_CONTEXTS) -> Iterator[SchemaValue]:
        """Return the versions of the subjects with a prefix, sorted."""
        for subject in self.subjects_with_prefix(prefix):
            yield from self.versions(subject)

    # ------------------------------------------------------------------------------------------------ ids

    @property
    def contexts(self) -> list[str]:
        """The contexts but for the default one, sorted."""
        return sorted(self._contexts)

    def max_id(self, context: str) -> int:
        return self._max_ids.get(context, 0)

    def id_of(self, context: str, md5: bytes) -> int | None:
        """Return the id of a schema with this hash, if a version has it."""
        found = self._ids.get(context, {}).get(md5)
        return found if found is not None and self._by_id[context].get(found) else None

    def holders(self, context: str, schema_id: int) -> dict[str, int]:
        """Return the subjects that have an id, each with its newest version of it."""
        return self._by_id.get(context, {}).get(schema_id, {})

    def by_id(self, schema_id: int, subject: str | None) -> SchemaValue | None:
        """Return a version with an id: of the subject or context if one is given, else of the default context, else of
        any context that has the subject.
        """
        name = SubjectName.parse(subject or "")
        found = self._by_id_in(name, schema_id)
        if found is not None or not name.is_default or name.is_context:
            return found
        for context in self.contexts:
            found = self._by_id_in(SubjectName(context, name.subject), schema_id)
            if found is not None:
                return found
        return self._by_id_in(SubjectName(DEFAULT_CONTEXT, ""), schema_id)

    def _by_id_in(self, name: SubjectName, schema_id: int) -> SchemaValue | None:
        holders = self.holders(name.context, schema_id)
        if name.is_context:
            for subject, version in holders.items():
                return self._subjects[subject][version]
            return None
        return self._subjects[name.text][holders[name.text]] if name.text in holders else None

    def ids_of_hash(self, md5: bytes) -> list[ContextId]:
        """Return the ids of a hash in all contexts, the default one first."""
        found = []
        for context in (DEFAULT_CONTEXT, *self.contexts):
            schema_id = self.id_of(context, md5)
            if schema_id is not None:
                found.append(ContextId(context, schema_id))
        return found

    def referrers(self, place: Place, *, with_deleted: bool) -> list[ContextId]:
        """Return the ids of the schemas that refer to a version, sorted; without deleted ones if so wanted."""
        return sorted(
            each
            for each in self._referenced_by.get(place, {})
            if with_deleted or any(not value.is_deleted for value in self._values_with(each))
        )

    def referring_subjects(self, place: Place, *, with_deleted: bool) -> set[str]:
        return {
            value.subject
            for each in self._referenced_by.get(place, {})
            for value in self._values_with(each)
            if with_deleted or not value.is_deleted
        }

    def _values_with(self, each: ContextId) -> list[SchemaValue]:
        return [self._subjects[subject][version] for subject, version in self.holders(*each).items()]

    # ------------------------------------------------------------------------------------------------ settings

    def config(self, subject: str | None) -> Config | None:
        """Return the settings of a subject itself; None if it has none. The registry and `:.__GLOBAL:` always have."""
        found = self.configs.get(subject)
        if found is not None:
            return self._with_level(found)
        return Config(compatibility_level=self.defaults.level) if _is_top(subject) else None

    def config_in_scope(self, subject: str | None) -> Config:
        """Return the settings that hold for a subject: its own, completed by those of the registry, else those of its
        context, else those of all contexts.
        """
        own = self.configs.get(subject)
        if subject is None or own is None:
            return self._top_config(subject)
        whole = self.configs.get(None)
        own = self._with_level(own)
        if whole is None:
            return own
        return replace(
            own,
            normalize=_first(own.normalize, whole.normalize),
            validate_fields=_first(own.validate_fields, whole.validate_fields),
            validate_new_schemas=_first(own.validate_new_schemas, whole.validate_new_schemas),
            validate_rules=_first(own.validate_rules, whole.validate_rules),
            compatibility_policy=own.compatibility_policy or whole.compatibility_policy,
            compatibility_group=own.compatibility_group or whole.compatibility_group,
        )

    def _top_config(self, subject: str | None) -> Config:
        for scope in _scopes(subject):
            found = self.configs.get(scope)
            if found is not None:
                return self._with_level(found)
        return Config(compatibility_level=self.defaults.level)

    def _with_level(self, config: Config) -> Config:
        return config if config.compatibility_level else replace(config, compatibility_level=self.defaults.level)

    def mode(self, subject: str | None) -> Mode | None:
        """Return the mode of a subject itself; None if it has none."""
        found = self.modes.get(subject)
        if found is None and _is_top(subject):
            return self.defaults.mode
        return found

    def mode_in_scope(self, subject: str | None) -> Mode:
        for scope in (subject, *_scopes(subject)):
            found = self.modes.get(scope)
            if found is not None:
                return found
        return self.defaults.mode

    def validates_fields(self, config: Config) -> bool:
        return self.defaults.validates_fields if config.validate_fields is None else config.validate_fields

    def validates_new_schemas(self, config: Config) -> bool:
        own = config.validate_new_schemas
        return self.defaults.validates_new_schemas if own is None else own


def _first(own: bool | None, whole: bool | None) -> bool | None:
    return whole if own is None else own


def _is_top(subject: str | None) -> bool:
    return subject is None or SubjectName.parse(subject).context == GLOBAL_CONTEXT


def _scopes(subject: str | None) -> tuple[str | None, ...]:
    """Return the scopes around a subject from the inner to the outer one."""
    around = None if subject is None else SubjectName.parse(subject).prefix or None
    return (around, f":{GLOBAL_CONTEXT}:")


def referenced_places(subject: str, references: Sequence[Reference]) -> Iterator[Place]:
    """Return the versions to which references of a schema of `subject` lead."""
    for each in references:
        yield Place(qualified(subject, each.subject), each.version)
