"""The result of a trial of a new schema."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from broker_registry.differences import Breaking

Name = int | UUID
"""A schema by its id, or by its GUID."""


class Place(NamedTuple):
    """A record. The timestamp is in ms since 1970, -1 without one."""

    timestamp_ms: int
    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offset {self.offset}"


class Broken(NamedTuple):
    """A record that a reader cannot take. `path` leads to the value, such as `/items/2/price`; it may be empty."""

    place: Place
    schema: Name
    path: str
    reason: str


@dataclass(slots=True)
class Tally:
    """Records that a reader tried. `first` is the oldest one that it cannot take."""

    tried: int = 0
    broken: int = 0
    first: Broken | None = None

    def add(self, broken: Broken | None) -> None:
        self.tried += 1
        if broken is not None:
            self.broken += 1
            if self.first is None or broken.place < self.first.place:
                self.first = broken


@dataclass(slots=True)
class SchemaImpact(Tally):
    """Records of one writer's schema, read with the new one. `version` is that of the subject, None if it has none.
    `left_out` counts records by the paths of values that the new schema does not have.
    """

    name: Name = 0
    version: int | None = None
    kind: str = ""
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class GroupImpact(Tally):
    """The records ahead of a group, read with the new schema: those at or behind its committed offsets.

    `unseen` counts offsets ahead of it that the sample does not have. `read` has the schema of the last record before
    the committed offset, by partition: the newest one that its clients are known to have handled.
    """

    group: str = ""
    unseen: int = 0
    read: tuple[Name, ...] = ()


@dataclass(slots=True)
class ReaderImpact(Tally):
    """Records rewritten with the new schema, and read with a present schema. `groups` have read it last.
    `differences` keep it from reading some records of the new schema, whether or not the sample has such.
    """

    name: Name = 0
    version: int | None = None
    is_newest: bool = False
    groups: tuple[str, ...] = ()
    differences: tuple[Breaking, ...] = ()


@dataclass(slots=True)
class Impact:
    """The result. `seen` records were read; of them `empty` have no value, `plain` name no schema, `other` belong to
    other subjects, and `damaged` cannot be read with their own schema either. `stopped` says why there are fewer
    records than were asked for; `groups_problem` why groups are missing.

    `needs_old`, `needs_new`: the level of the subject promises that new readers take old records, or that present
    readers take new ones. A level without a promise needs both here.
    """

    subject: str
    topics: tuple[str, ...]
    is_key: bool
    level: str
    needs_old: bool
    needs_new: bool
    refusals: tuple[str, ...] = ()
    wanted: int = 0
    seen: int = 0
    empty: int = 0
    plain: int = 0
    other: int = 0
    damaged: int = 0
    not_rewritten: int = 0
    first_damaged: Broken | None = None
    stopped: str = ""
    groups_problem: str = ""
    new: Tally = field(default_factory=Tally)
    schemas: list[SchemaImpact] = field(default_factory=list)
    groups: list[GroupImpact] = field(default_factory=list)
    readers: list[ReaderImpact] = field(default_factory=list)

    @property
    def breaks_readers_of_old(self) -> bool:
        return self.new.broken > 0

    @property
    def breaks_present_readers(self) -> bool:
        return any(each.broken for each in self.readers)

    @property
    def breaks(self) -> bool:
        """Whether a direction that the level needs is broken."""
        return (self.needs_old and self.breaks_readers_of_old) or (self.needs_new and self.breaks_present_readers)


def as_json(found: Impact) -> dict[str, Any]:
    """Return the result for programs."""
    return {
        "subject": found.subject,
        "topics": list(found.topics),
        "part": "key" if found.is_key else "value",
        "level": found.level,
        "breaks": found.breaks,
        "is_compatible": not found.refusals,
        "messages": list(found.refusals),
        "wanted": found.wanted,
        "seen": found.seen,
        "empty": found.empty,
        "plain": found.plain,
        "other_subjects": found.other,
        "damaged": found.damaged,
        "first_damaged": _broken(found.first_damaged),
        "not_rewritten": found.not_rewritten,
        "stopped": found.stopped or None,
        "groups_problem": found.groups_problem or None,
        "new_readers": {"needed": found.needs_old, **_tally(found.new)},
        "schemas": [
            {
                "schema": _name(each.name),
                "version": each.version,
                "type": each.kind,
                **_tally(each),
                "left_out": dict(each.left_out),
            }
            for each in found.schemas
        ],
        "groups": [
            {
                "group": each.group,
                **_tally(each),
                "unseen": each.unseen,
                "read_last": [_name(name) for name in each.read],
            }
            for each in found.groups
        ],
        "present_readers": {
            "needed": found.needs_new,
            "readers": [
                {
                    "schema": _name(each.name),
                    "version": each.version,
                    "is_newest": each.is_newest,
                    "groups": list(each.groups),
                    **_tally(each),
                    "differences": [difference._asdict() for difference in each.differences],
                }
                for each in found.readers
            ],
        },
    }


def _name(name: Name) -> int | str:
    return name if isinstance(name, int) else str(name)


def _tally(found: Tally) -> dict[str, Any]:
    return {"tried": found.tried, "broken": found.broken, "first": _broken(found.first)}


def _broken(found: Broken | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {**found.place._asdict(), "schema": _name(found.schema), "path": found.path, "reason": found.reason}
