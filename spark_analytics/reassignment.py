"""Plans of reassignments, as kafka-reassign-partitions reads and prints them:

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 1]}]}

The first replica leads the partition while all replicas are available; `what-if` predicts its load. The other replicas,
and `log_dirs`, do not change which broker serves clients.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# A plan of PLAN_MAX partitions (jobs/what_if.py) has about 10 MB.
BYTES_MAX = 64 << 20


class PlanError(ValueError):
    """The plan cannot be used; the text names the file, the entry, and the allowed values."""


@dataclass(frozen=True)
class Reassignment:
    """One partition and its new leader; `source` is its current leader, if that is known."""

    topic: str
    partition: int
    target: int
    source: int | None = None


def read(plan: Path, current: Path | None = None) -> list[Reassignment]:
    """Return the plan of a file. `current` is a file of the same form with the current assignment, as
    kafka-reassign-partitions prints it with the plan; None: not known. Raises PlanError.
    """
    found = _file(plan)
    if current is None:
        return found
    places = {(each.topic, each.partition): each.target for each in _file(current)}
    for each in found:
        if (each.topic, each.partition) not in places:
            raise PlanError(f"{current}: {each.topic}-{each.partition} of the plan is missing")
    return [replace(each, source=places[each.topic, each.partition]) for each in found]


def _file(path: Path) -> list[Reassignment]:
    try:
        with path.open("rb") as file:
            raw = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise PlanError(f"{path} cannot be read: {error.strerror}") from None
    if len(raw) > BYTES_MAX:
        raise PlanError(f"{path} has more than {BYTES_MAX >> 20} MiB, which no plan has")
    try:
        return parse(raw)
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def parse(raw: bytes | str) -> list[Reassignment]:
    """Return the plan of a text. Raises PlanError."""
    try:
        whole: Any = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"not JSON: {error}") from None
    if not isinstance(whole, dict) or not isinstance(whole.get("partitions"), list):
        raise PlanError('not a plan: {"version": 1, "partitions": [...]} is expected')
    if (version := whole.get("version", 1)) != 1:
        raise PlanError(f"version {version!r}: 1 is allowed")
    if not whole["partitions"]:
        raise PlanError("the plan has no partitions")
    found = [_entry(number, each) for number, each in enumerate(whole["partitions"], 1)]
    check_once(found)
    return found


def check_once(plan: Sequence[Reassignment]) -> None:
    """Raise PlanError if a partition occurs twice."""
    seen: set[tuple[str, int]] = set()
    for each in plan:
        if (each.topic, each.partition) in seen:
            raise PlanError(f"the plan names {each.topic}-{each.partition} twice: one target is allowed")
        seen.add((each.topic, each.partition))


def _entry(number: int, entry: Any) -> Reassignment:
    if not isinstance(entry, dict):
        raise PlanError(f"partition entry {number} is {_shown(entry)}: an object is expected")
    topic: Any = entry.get("topic")
    partition: Any = entry.get("partition")
    replicas: Any = entry.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise PlanError(f"partition entry {number}: topic is {_shown(topic)}: a name is expected")
    if not _is_number(partition):
        raise PlanError(f"partition entry {number}, {topic}: partition is {_shown(partition)}: 0 or more is allowed")
    where = f"{topic}-{partition}"
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise PlanError(f"{where}: replicas is {_shown(replicas)}: a list of ids of brokers is expected")
    if len(set(replicas)) < len(replicas):
        raise PlanError(f"{where}: replicas is {_shown(replicas)}: each broker is allowed once")
    return Reassignment(topic, partition, replicas[0])


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _shown(value: Any) -> str:
    text = "missing" if value is None else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
