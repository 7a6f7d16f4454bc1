"""The result of a trial for people: a verdict, lines about the first broken records, and columns of its tables."""

from __future__ import annotations

from typing import Final

from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import count, plural, when
from broker_cy.reporting.tone import Tone
from broker_registry.impact.result import (
    Broken,
    GroupImpact,
    Impact,
    Name,
    ReaderImpact,
    SchemaImpact,
    Tally,
)

_PATHS_SHOWN: Final = 5


def names_text(names: tuple[Name, ...]) -> str:
    return ", ".join(map(str, names)) or "none known"


def _broken_tone(row: Tally) -> Tone:
    return Tone.BAD if row.broken else Tone.PLAIN


def _why(row: Tally) -> str:
    return "" if row.first is None else problem_text(row.first)


def problem_text(broken: Broken) -> str:
    """Return the reason with the path of the value."""
    return f"{broken.path}: {broken.reason}" if broken.path else broken.reason


def broken_text(broken: Broken) -> str:
    """Return a line about a record."""
    stamp = broken.place.timestamp_ms
    time = f", {when(stamp)}" if stamp >= 0 else ""
    return f"{broken.place}{time}, schema {broken.schema}: {problem_text(broken)}"


def _left_out(row: SchemaImpact) -> str:
    shown = [path for path, _ in row.left_out.most_common(_PATHS_SHOWN)]
    more = len(row.left_out) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _version(number: int | None) -> str:
    return "" if number is None else str(number)


SCHEMA_COLUMNS: Final = (
    Column[SchemaImpact]("schema", "Schema", lambda row: str(row.name), sort=lambda row: str(row.name)),
    Column[SchemaImpact]("version", "Version", lambda row: _version(row.version), sort=lambda row: row.version or 0),
    Column[SchemaImpact]("type", "Type", lambda row: row.kind),
    Column[SchemaImpact]("records", "Records", lambda row: row.tried, Kind.COUNT),
    Column[SchemaImpact]("broken", "Broken", lambda row: row.broken, Kind.COUNT, tone=_broken_tone),
    Column[SchemaImpact]("why", "First problem", _why, width=30),
    Column[SchemaImpact]("left_out", "Left out", _left_out, width=20),
)
GROUP_COLUMNS: Final = (
    Column[GroupImpact]("group", "Group", lambda row: row.group, width=20),
    Column[GroupImpact]("read", "Read last", lambda row: names_text(row.read)),
    Column[GroupImpact]("records", "Ahead", lambda row: row.tried, Kind.COUNT),
    Column[GroupImpact]("broken", "Broken", lambda row: row.broken, Kind.COUNT, tone=_broken_tone),
    Column[GroupImpact]("unseen", "Not tried", lambda row: row.unseen, Kind.COUNT),
    Column[GroupImpact]("why", "First problem", _why, width=30),
)
READER_COLUMNS: Final = (
    Column[ReaderImpact]("schema", "Schema", lambda row: str(row.name), sort=lambda row: str(row.name)),
    Column[ReaderImpact]("version", "Version", lambda row: _version(row.version), sort=lambda row: row.version or 0),
    Column[ReaderImpact]("groups", "Read last by", lambda row: readers_text(row), width=20),
    Column[ReaderImpact]("records", "Records", lambda row: row.tried, Kind.COUNT),
    Column[ReaderImpact]("broken", "Broken", lambda row: row.broken, Kind.COUNT, tone=_broken_tone),
    Column[ReaderImpact]("why", "First problem", _why, width=30),
    Column[ReaderImpact]("differences", "Differences", lambda row: _differences(row), width=20),
)


def readers_text(row: ReaderImpact) -> str:
    names = ["the newest version"] if row.is_newest else []
    return ", ".join([*names, *row.groups])


def _differences(row: ReaderImpact) -> str:
    return ", ".join(dict.fromkeys(each.kind for each in row.differences))


def verdict(found: Impact) -> str:
    """Return the result in a sentence."""
    if not found.new.tried:
        return f"No record of {found.subject} was tried: nothing is known to break."
    records = plural(found.new.tried, "record")
    if found.breaks_readers_of_old:
        text = f"{count(found.new.broken)} of {records} could not be read with the new schema."
    else:
        text = f"All {records} can be read with the new schema."
    present = [each for each in found.readers if each.tried]
    if not present:
        return text
    worst = max(present, key=lambda each: each.broken)
    rewritten = plural(worst.tried, "record")
    if worst.broken:
        return f"{text} Rewritten with it, {count(worst.broken)} of {rewritten} could not be read by present readers."
    return f"{text} Present readers can read {rewritten} rewritten with it."


def notes(found: Impact) -> list[str]:
    """Return lines about the bounds of the trial, and about what the level promises."""
    part = "key" if found.is_key else "value"
    lines = [f"Read {plural(found.seen, 'record')} of {', '.join(found.topics)} ({part}s)."]
    for number, text in (
        (found.empty, f"without a {part}"),
        (found.plain, "without a schema"),
        (found.other, "of other subjects"),
        (found.damaged, "that cannot be read with their own schema either"),
        (found.not_rewritten, "that the new schema cannot write again"),
    ):
        if number:
            lines.append(f"{plural(number, 'record')} {text}.")
    if found.stopped:
        lines.append(f"The trial {found.stopped}.")
    if found.groups_problem:
        lines.append(f"Groups are missing: {found.groups_problem}")
    lines.append(_level(found))
    return lines


def _level(found: Impact) -> str:
    says = "refuses the schema" if found.refusals else "accepts the schema"
    if found.level == "NONE":
        return f"The level NONE {says} and promises nothing: both directions count here."
    promised = [
        text
        for is_needed, text in (
            (found.needs_old, "new readers take old records"),
            (found.needs_new, "present readers take new records"),
        )
        if is_needed
    ]
    return f"The level {found.level} {says}. It promises that {' and that '.join(promised)}."


def first_lines(found: Impact) -> list[str]:
    """Return lines about the first record that each direction would break."""
    lines = []
    if found.new.first is not None:
        lines.append(f"First record that breaks: {broken_text(found.new.first)}")
    broken = [each.first for each in found.readers if each.first is not None]
    if broken:
        first = min(broken)
        lines.append(f"First rewritten record that breaks present readers: {broken_text(first)}")
    if found.first_damaged is not None:
        lines.append(f"First record that is broken already: {broken_text(found.first_damaged)}")
    return lines
