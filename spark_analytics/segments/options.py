"""The options of the source, as text in Spark and typed here. Unknown options and values are rejected."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from spark_analytics.segments.errors import SegmentsError

READ_COMMITTED = "read_committed"
ISOLATIONS = ("read_uncommitted", READ_COMMITTED)
STOP, SKIP = "stop", "skip"
# Bytes of segments that one task reads: a large segment is divided, and small ones are combined.
RANGE_BYTES = 128 << 20
_INT64_MAX = 2**63 - 1
# Spark's names of the options, by the fields.
NAMES = {
    "path": "path",
    "topic": "topic",
    "include_headers": "includeHeaders",
    "isolation": "isolation",
    "starting_offset": "startingOffset",
    "ending_offset": "endingOffset",
    "starting_timestamp": "startingTimestamp",
    "ending_timestamp": "endingTimestamp",
    "on_damage": "onDamage",
    "range_bytes": "rangeBytes",
    "report": "report",
    "max_offsets_per_trigger": "maxOffsetsPerTrigger",
}


@dataclass(frozen=True)
class Options:
    """The request of a read. Bounds are those of Spark's Kafka source: from the first, up to but not including the
    second.

    A time bound is the offset of the first record, in each partition, with that timestamp (ms since 1970) or a later
    one. Without such a record, a start bound reads nothing, and an end bound reads everything. Offset bounds are for
    each partition. Several bounds apply together.
    """

    path: tuple[str, ...]
    topic: tuple[str, ...]
    include_headers: bool = False
    isolation: str = ISOLATIONS[0]  # the default of Kafka's consumer, and so of Spark's Kafka source
    starting_offset: int | None = None
    ending_offset: int | None = None
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    on_damage: str = STOP
    range_bytes: int = RANGE_BYTES
    report: str | None = None  # a directory into which each task writes what it read (`report.py`)
    # Offsets of a micro-batch of a stream, divided among the partitions by their remaining offsets: at least one of
    # each.
    max_offsets_per_trigger: int | None = None

    @property
    def committed_only(self) -> bool:
        """Return whether records of aborted and of open transactions are left out."""
        return self.isolation == READ_COMMITTED

    @property
    def skips(self) -> bool:
        """Return whether damage is left out and counted, not raised."""
        return self.on_damage == SKIP


def parse(given: Mapping[str, str]) -> Options:
    """Return the options that Spark passes, whose names may be in any case. Raises SegmentsError."""
    by_name = {name.lower(): field for field, name in NAMES.items()}
    found: dict[str, Any] = {}
    for name, text in given.items():
        field = by_name.get(name.lower())
        if field is None:
            raise SegmentsError(f"unknown option {name!r}; allowed are {', '.join(NAMES.values())}")
        found[field] = _value(field, text)
    for field in ("path", "topic"):
        if not found.get(field):
            raise SegmentsError(
                f"option {field!r} is missing: it names one or more "
                f"{'log directories' if field == 'path' else 'topics'}, separated by commas"
            )
    options = Options(**found)
    _check_order(options.starting_offset, options.ending_offset, "Offset")
    _check_order(options.starting_timestamp, options.ending_timestamp, "Timestamp")
    return options


def check_batch(options: Options) -> None:
    """Raise SegmentsError for options that only a stream has."""
    if options.max_offsets_per_trigger is not None:
        raise SegmentsError(f"option {NAMES['max_offsets_per_trigger']!r} is only allowed in a stream")


def check_stream(options: Options) -> None:
    """Raise SegmentsError for options that only a batch query has."""
    for field in ("ending_offset", "ending_timestamp"):
        if getattr(options, field) is not None:
            raise SegmentsError(f"option {NAMES[field]!r} is not allowed in a stream, which has no end")


def as_text(directories: Iterable[str | os.PathLike[str]], topics: Iterable[str], **others: Any) -> dict[str, str]:
    """Return Spark's options for fields of Options; None means not given. Raises SegmentsError."""
    found = {"path": ",".join(os.fspath(each) for each in directories), "topic": ",".join(topics)}
    for field, value in others.items():
        name = NAMES.get(field)
        if name is None or name in found:
            allowed = ", ".join(each for each in NAMES if each not in found)
            raise SegmentsError(f"unknown option {field!r}; allowed are {allowed}")
        if value is not None:
            found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    parse(found)
    return found


def _check_order(start: int | None, end: int | None, what: str) -> None:
    if start is not None and end is not None and start > end:
        raise SegmentsError(f"starting{what} {start} is after ending{what} {end}")


def _value(field: str, text: str) -> Any:
    if field in ("path", "topic"):
        return tuple(dict.fromkeys(each for part in text.split(",") if (each := part.strip())))
    if field == "include_headers":
        return _one_of(field, text.lower(), ("true", "false")) == "true"
    if field == "isolation":
        return _one_of(field, text.lower(), ISOLATIONS)
    if field == "on_damage":
        return _one_of(field, text.lower(), (STOP, SKIP))
    if field == "report":
        return text
    lowest = 1 if field in ("range_bytes", "max_offsets_per_trigger") else 0
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not lowest <= number <= _INT64_MAX:
        raise SegmentsError(f"option {NAMES[field]!r} is {text!r}; a whole number from {lowest} on is allowed")
    return number


def _one_of(field: str, text: str, allowed: tuple[str, ...]) -> str:
    if text not in allowed:
        raise SegmentsError(f"option {NAMES[field]!r} is {text!r}; allowed are {' and '.join(allowed)}")
    return text
