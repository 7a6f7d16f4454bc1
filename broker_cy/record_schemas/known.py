"""The schemas that each subject of the registry has, as a pure state machine: `apply` is the only change.

A schema is named by its id or by its GUID; the state is the same for both. Versions that are deleted, softly too, are
not in their subject: a record may no longer name them. Only subjects of the default context count, as in Confluent
Server, because a topic has no context.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from broker_cy.core.classes import NamedTuple

VERSIONS_MAX: Final = 1_000_000
"""Versions that are kept, at about 300 bytes each. Further ones are not known, so their records are refused."""

# An id, or the 16 bytes of a GUID.
SchemaName = int | bytes


class SchemaVersion(NamedTuple):
    """A version of a subject. `guid` is None if the record has none, `record_name` if the schema has none."""

    subject: str
    version: int
    id: int
    guid: bytes | None
    record_name: str | None


class VersionGone(NamedTuple):
    """The version is deleted, softly or for good."""

    subject: str
    version: int


class VersionsGone(NamedTuple):
    """All versions up to this one are deleted."""

    subject: str
    last: int


class AliasSet(NamedTuple):
    """The subject stands for another one; for itself with None."""

    subject: str
    alias: str | None


Entry = SchemaVersion | VersionGone | VersionsGone | AliasSet


class KnownSchemas:
    """See the module. `dropped` counts versions beyond VERSIONS_MAX."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[int, SchemaVersion]] = {}
        # By subject: how many of its versions have this schema.
        self._names: dict[str, dict[SchemaName, int]] = {}
        self._record_names: dict[SchemaName, str] = {}
        self._aliases: dict[str, str] = {}
        self.versions = 0
        self.dropped = 0

    def apply(self, entry: Entry) -> None:
        match entry:
            case SchemaVersion(subject, version):
                self._remove(subject, version)
                self._add(entry)
            case VersionGone(subject, version):
                self._remove(subject, version)
            case VersionsGone(subject, last):
                for version in [each for each in self._versions.get(subject, {}) if each <= last]:
                    self._remove(subject, version)
            case AliasSet(subject, alias):
                if alias is None:
                    self._aliases.pop(subject, None)
                else:
                    self._aliases[subject] = alias

    def has(self, subject: str, schema: SchemaName) -> bool:
        """Return whether a version of the subject, or of the one that it stands for, has the schema."""
        return schema in self._names.get(self._aliases.get(subject, subject), ())

    def record_name(self, schema: SchemaName) -> str | None:
        """Return the name of the record or message that a schema defines; None if it is not known or has none."""
        return self._record_names.get(schema)

    def _add(self, version: SchemaVersion) -> None:
        if self.versions >= VERSIONS_MAX:
            self.dropped += 1
            return
        self.versions += 1
        self._versions.setdefault(version.subject, {})[version.version] = version
        counts = self._names.setdefault(version.subject, {})
        for name in _names_of(version):
            counts[name] = counts.get(name, 0) + 1
            if version.record_name is not None:
                self._record_names[name] = version.record_name

    def _remove(self, subject: str, version: int) -> None:
        versions = self._versions.get(subject, {})
        gone = versions.pop(version, None)
        if gone is None:
            return
        self.versions -= 1
        counts = self._names[subject]
        for name in _names_of(gone):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        if not versions:
            del self._versions[subject], self._names[subject]


def _names_of(version: SchemaVersion) -> Iterable[SchemaName]:
    return (version.id,) if version.guid is None else (version.id, version.guid)
