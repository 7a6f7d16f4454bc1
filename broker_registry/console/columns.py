"""Columns of the tables about schemas."""

from __future__ import annotations

from typing import Final

from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone
from broker_registry.console.views import Subject, VersionRow
from broker_registry.differences import NEW, Breaking


def state_text(is_deleted: bool) -> str:
    """Return the state of a version: nothing, unless it was deleted."""
    return "deleted" if is_deleted else ""


def _of_deleted(row: Subject | VersionRow) -> Tone:
    return Tone.MUTED if row.is_deleted else Tone.PLAIN


SUBJECT: Final = Column[Subject]("subject", "Subject", lambda row: row.name, tone=_of_deleted, width=30)
SUBJECT_TYPE: Final = Column[Subject]("type", "Type", lambda row: row.kind, width=8)
VERSIONS: Final = Column[Subject]("versions", "Versions", lambda row: row.versions, Kind.COUNT, width=8)
DELETED: Final = Column[Subject]("deleted", "Deleted", lambda row: row.deleted, Kind.COUNT, width=7)
NEWEST: Final = Column[Subject]("newest", "Newest", lambda row: row.newest, Kind.NUMBER, width=6)
NEWEST_ID: Final = Column[Subject]("id", "Newest id", lambda row: row.id, Kind.NUMBER, width=9)
LEVEL: Final = Column[Subject](
    "level",
    "Level",
    lambda row: row.level,
    sort=lambda row: row.level or "",
    tone=lambda row: Tone.NOTED if row.level == "NONE" else Tone.PLAIN,
    width=19,
)
MODE: Final = Column[Subject](
    "mode",
    "Mode",
    lambda row: row.mode,
    sort=lambda row: row.mode or "",
    tone=lambda row: Tone.PLAIN if row.mode in (None, "READWRITE") else Tone.NOTED,
)

VERSION: Final = Column[VersionRow](
    "version", "Version", lambda row: row.version, Kind.NUMBER, tone=_of_deleted, width=7
)
ID: Final = Column[VersionRow]("id", "Id", lambda row: row.id, Kind.NUMBER, width=6)
TYPE: Final = Column[VersionRow]("type", "Type", lambda row: row.kind, width=8)
REFERENCES: Final = Column[VersionRow](
    "references", "References", lambda row: row.references, Kind.COUNT, hint="Schemas that it refers to"
)
SIZE: Final = Column[VersionRow]("size", "Size", lambda row: row.size_bytes, Kind.BYTES, width=8)
STATE: Final = Column[VersionRow]("state", "State", lambda row: state_text(row.is_deleted), tone=_of_deleted)


def _of_refused(row: Breaking) -> Tone:
    return Tone.BAD if row.is_refused else Tone.PLAIN


DIFFERENCE: Final = Column[Breaking]("kind", "Difference", lambda row: row.kind, tone=_of_refused, width=30)
PLACE: Final = Column[Breaking]("path", "Place", lambda row: row.path, width=20)
CANNOT_READ: Final = Column[Breaking](
    "reader",
    "Cannot read",
    lambda row: "new readers old data" if row.reader == NEW else "old readers new data",
    width=20,
)
BY_LEVEL: Final = Column[Breaking](
    "refused", "By the level", lambda row: "refused" if row.is_refused else "allowed", tone=_of_refused
)
BREAKING: Final = (DIFFERENCE, PLACE, CANNOT_READ, BY_LEVEL)
