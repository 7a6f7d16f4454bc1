"""Deletion of versions, subjects and contexts: first soft, which a new registration undoes, then permanent."""

from __future__ import annotations

from broker_registry.errors import (
    Code,
    RegistryError,
    not_permitted,
    reference_exists,
    subject_not_found,
    version_not_found,
)
from broker_registry.operations.plan import Plan, Record, subject_part
from broker_registry.operations.wanted import LATEST
from broker_registry.store.keys import Key, KeyType, schema_key
from broker_registry.store.state import Place, State
from broker_registry.store.values import SchemaValue, encode_max_ids, encode_subject_deletion
from broker_registry.subject_names import SubjectName, context_of


def delete_version(state: State, subject: str, version: int, *, is_permanent: bool) -> Plan[int]:
    """Delete a version, the newest for LATEST; returns its number."""
    value = _wanted_version(state, subject, version, is_permanent=is_permanent)
    _check_writable(state, subject)
    place = Place(subject, value.version)
    if state.referrers(place, with_deleted=is_permanent):
        raise reference_exists(subject, value.version)
    if not is_permanent:
        records: list[Record] = [(value.key.encode(), value.deleted().encode())]
    elif not value.is_deleted:
        text = f"Subject '{subject}' Version {value.version} was not deleted first before being permanently deleted"
        raise RegistryError(Code.VERSION_NOT_SOFT_DELETED, text)
    else:
        records = [(value.key.encode(), None)]
        if len(state.versions(subject)) == 1:
            records += _settings_removed(state, subject)
        records.append(last_ids(state, subject))
    return Plan(value.version, records, writes=frozenset({subject_part(subject)}), is_exclusive=is_permanent)


def _wanted_version(state: State, subject: str, version: int, *, is_permanent: bool) -> SchemaValue:
    if version != LATEST and not is_permanent:
        value = state.version(subject, version, with_deleted=True)
        if value is not None and value.is_deleted:
            text = f"Subject '{subject}' Version {version} was soft deleted.Set permanent=true to delete permanently"
            raise RegistryError(Code.VERSION_SOFT_DELETED, text)
    value = state.version(subject, version, with_deleted=True)
    if value is None:
        raise version_not_found(version) if state.versions(subject) else subject_not_found(subject)
    return value


def delete_subject(state: State, subject: str, *, is_permanent: bool) -> Plan[list[int]]:
    """Delete all versions of a subject; returns their numbers."""
    versions = state.versions(subject)
    if not versions:
        raise subject_not_found(subject)
    undeleted = [value for value in versions if not value.is_deleted]
    if not is_permanent and not undeleted:
        text = f"Subject '{subject}' was soft deleted.Set permanent=true to delete permanently"
        raise RegistryError(Code.SUBJECT_SOFT_DELETED, text)
    _check_writable(state, subject)
    deleted = versions if is_permanent else undeleted
    for value in deleted:
        place = Place(subject, value.version)
        if state.referring_subjects(place, with_deleted=is_permanent) - {subject}:
            raise reference_exists(subject, value.version)
        if is_permanent and not value.is_deleted:
            text = f"Subject '{subject}' was not deleted first before being permanently deleted"
            raise RegistryError(Code.SUBJECT_NOT_SOFT_DELETED, text)
    if is_permanent:
        # In descending order, so that a reader that stops halfway has no version whose reference is gone.
        records: list[Record] = [(value.key.encode(), None) for value in reversed(deleted)]
        records += _settings_removed(state, subject)
        records.append(last_ids(state, subject))
    else:
        key = Key(KeyType.DELETE_SUBJECT, subject)
        records = [(key.encode(), encode_subject_deletion(subject, deleted[-1].version))]
    numbers = [value.version for value in deleted]
    return Plan(numbers, records, writes=frozenset({subject_part(subject)}), is_exclusive=is_permanent)


def delete_context(state: State, subject: str) -> Plan[None]:
    """Delete a context that has no versions, deleted ones neither. `subject` names it, such as `:.test:`."""
    if state.has_subjects(subject, with_deleted=True):
        raise RegistryError(Code.CONTEXT_NOT_EMPTY, f"The specified context '{subject}' is not empty.")
    key = Key(KeyType.CONTEXT, context=SubjectName.parse(subject).context)
    return Plan(None, [(key.encode(), None)], is_exclusive=True)


def _check_writable(state: State, subject: str) -> None:
    if state.mode_in_scope(subject).is_read_only:
        context = SubjectName.parse(subject).prefix
        raise not_permitted(f"Subject {subject} in context {context} is in read-only mode")


def _settings_removed(state: State, subject: str) -> list[Record]:
    """Return the records that remove the settings of a subject with its last version."""
    records: list[Record] = []
    if subject in state.modes:
        records.append((Key(KeyType.MODE, subject).encode(), None))
    if subject in state.configs:
        records.append((Key(KeyType.CONFIG, subject).encode(), None))
    return records


def last_ids(state: State, *subjects: str) -> Record:
    """Return the record that keeps the last ids of the contexts of these subjects, so that none is given again when
    the cleaner has removed the deleted schemas.
    """
    found = {context: state.max_id(context) for context in map(context_of, subjects)}
    return Key(KeyType.NOOP).encode(), encode_max_ids({**state.kept_ids, **found})


def tombstones(state: State, subject: str | None) -> list[Record]:
    """Return the records that delete all versions of a subject, context or the registry for good. Raises RegistryError
    if other schemas refer to one.
    """
    records: list[Record] = []
    names = state.subjects_inside(subject)
    for name in names:
        for value in state.versions(name):
            if state.referrers(Place(name, value.version), with_deleted=True):
                raise reference_exists(name, value.version)
            records.append((schema_key(name, value.version).encode(), None))
    if records:
        records.append(last_ids(state, *names))
    return records
