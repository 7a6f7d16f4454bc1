"""Acts on groups: reset offsets by every rule, delete groups, delete committed offsets."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.reset import ResetKind, ResetRule, ResetStep
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.quantities import parse_duration
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.values import INT64_MAX, INT64_MIN, integer, parse_partitions, parse_time
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import count, plural

RULES = ("earliest", "latest", "offset", "time", "duration ago", "shift", "as group", "listed")
_NEEDS = {
    "offset": "an offset",
    "time": "2026-01-31T12:00, -15m (ago) or ms since 1970",
    "duration ago": "such as 15m or 2h",
    "shift": "number of offsets forward; negative for backward",
    "as group": "a group",
    "listed": "topic:partition=offset, separated by commas",
}


@dataclass(frozen=True, slots=True)
class ResetOffsets:
    """Commits new offsets; `steps` are the partitions whose offset changes."""

    group_id: str
    steps: tuple[ResetStep, ...]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.reset.apply(self.group_id, self.steps)
        return Report.of(f"reset the offsets of {plural(len(outcome.found), 'partition')} of {self.group_id}", outcome)


@dataclass(frozen=True, slots=True)
class DeleteGroups:
    group_ids: tuple[str, ...]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.groups.delete(self.group_ids)
        return Report.of(f"deleted {plural(len(outcome.found), 'group')}", outcome)


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    group_id: str
    partitions: tuple[TopicPartition, ...]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.positions.delete(self.group_id, self.partitions)
        deleted = plural(len(outcome.found), "partition")
        return Report.of(f"deleted the committed offsets of {deleted} of {self.group_id}", outcome)


def reset_form(group_id: str, topics: Sequence[str] = ()) -> Form:
    """Return the form of a reset. `topics`, for which the group has committed offsets, are used in the hint."""
    hint = f"all topics of the group; or {', '.join(topics[:2]) or 'orders'}:0,3"
    return Form(
        f"Reset {group_id}",
        [
            Field("rule", "To", value="earliest", choices=RULES),
            Field(
                "value",
                "Value",
                hint="offset, time, duration, shift, group or list",
                is_time=True,
                time_if=("rule", "time"),
            ),
            Field("topics", "Topics", _topics, hint=hint),
        ],
        note="Up and down select the rule. The group must have no members.",
        check=check_reset,
    )


def _topics(text: str) -> dict[str, tuple[int, ...] | None] | None:
    """Parse `topic` and `topic:0,3-5`, with blanks or commas between topics; None for an empty field."""
    found: dict[str, tuple[int, ...] | None] = {}
    # A comma before a digit separates partitions of the preceding topic.
    for part in re.split(r"\s+|,(?![0-9]+(?:[,-]|\s|$))", text.strip()):
        if not part:
            continue
        topic, colon, partitions = part.rpartition(":")
        if colon:
            found[topic] = parse_partitions(partitions)
        else:
            found[part] = None
    return found or None


def rule_of(values: Mapping[str, Any], now_ms: int) -> ResetRule:
    """Return the rule that the fields select. Raises ValueError, which names the allowed values."""
    rule, text = values["rule"], values["value"].strip()
    if rule in _NEEDS and not text:
        raise ValueError(f"{_NEEDS[rule]} is expected")
    if rule not in _NEEDS and text:
        raise ValueError(f"{rule} takes no value")
    if rule == "offset":
        return ResetRule(ResetKind.OFFSET, integer(0)(text))
    if rule == "time":
        return ResetRule(ResetKind.TIME, parse_time(text))
    if rule == "duration ago":
        return ResetRule(ResetKind.TIME, max(0, now_ms - parse_duration(text)))
    if rule == "shift":
        return ResetRule(ResetKind.SHIFT, integer(INT64_MIN, INT64_MAX)(text))
    if rule == "as group":
        return ResetRule(ResetKind.GROUP, group_id=text)
    if rule == "listed":
        return ResetRule(ResetKind.LISTED, listed=_listed(text))
    return ResetRule(ResetKind.EARLIEST if rule == "earliest" else ResetKind.LATEST)


def _listed(text: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(.+):([0-9]{1,9})=([0-9]{1,19})\s*", part)
        if match is None:
            raise ValueError(f"{part.strip()!r}: topic:partition=offset is expected")
        found[TopicPartition(match[1], int(match[2]))] = integer(0)(match[3])
    return found


def check_reset(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """Check what depends on several values."""
    try:
        rule_of(values, INT64_MAX)
    except ValueError as error:
        return "value", str(error)
    return None


async def plan_reset(
    client: AdminClient, command: Command, group_id: str, values: Mapping[str, Any], now_ms: int
) -> Plan:
    """Plan a reset, with old and new offset of each partition; refused while the group has members."""
    rule = rule_of(values, now_ms)
    partitions = await _partitions(client, group_id, rule, values["topics"])
    steps = await client.reset.plan(group_id, rule, partitions)
    changed = [step for step in steps if step.change != 0]
    again = sum(-step.change for step in changed if step.change is not None and step.change < 0)
    skipped = sum(step.change for step in changed if step.change is not None and step.change > 0)
    return Plan(
        f"Reset {group_id}",
        f"changes {plural(len(changed), 'partition')} of {len(steps)}: {count(again)} offsets will be read again, "
        f"{count(skipped)} will be skipped",
        reset_command(command, group_id, rule, values["topics"]),
        ResetOffsets(group_id, tuple(changed)),
        [_change(step) for step in changed],
        verb="Reset",
        problem="" if changed else "every partition is already at that offset",
    )


async def _partitions(
    client: AdminClient, group_id: str, rule: ResetRule, topics: Mapping[str, tuple[int, ...] | None] | None
) -> list[TopicPartition] | None:
    """Return the selected partitions; None for all for which the group, or the rule, has offsets."""
    if topics is None:
        return None
    keys: list[TopicPartition] = []
    for topic, numbers in topics.items():
        every = await client.records.partitions(topic)
        wanted = [key for key in every if numbers is None or key.partition in numbers]
        if numbers is not None and len(wanted) < len(numbers):
            missing = next(number for number in numbers if number >= len(every))
            raise ClientError(Failure.INVALID, f"{topic} has no partition {missing}; it has 0 to {len(every) - 1}")
        keys += wanted
    return keys


def _change(step: ResetStep) -> Change:
    moved = "" if step.change is None else f"{step.change:+,}"
    limited = f"limited to the log, {count(step.start)} to {count(step.end)}" if step.is_moved_in else ""
    old = "(none)" if step.old is None else count(step.old)
    return Change(str(step.partition), old, count(step.new), "; ".join(filter(None, (moved, limited))))


def reset_command(
    command: Command, group_id: str, rule: ResetRule, topics: Mapping[str, tuple[int, ...] | None] | None
) -> str:
    """Return the equivalent command line."""
    parts: list[str | int] = ["groups", "reset", group_id]
    for topic, numbers in (topics or {}).items():
        parts += ["--topic", topic if numbers is None else f"{topic}:{','.join(map(str, numbers))}"]
    if rule.kind is ResetKind.LISTED:
        lines = "".join(f"{key.topic},{key.partition},{offset}\n" for key, offset in rule.listed.items())
        return f"printf %s {shlex.quote(lines)} | {command(*parts, '--from-file', '/dev/stdin', '--yes')}"
    rules: dict[ResetKind, list[str | int]] = {
        ResetKind.EARLIEST: ["--to-earliest"],
        ResetKind.LATEST: ["--to-latest"],
        ResetKind.OFFSET: ["--to-offset", rule.value],
        ResetKind.TIME: ["--to-time", rule.value],
        ResetKind.SHIFT: [f"--shift-by={rule.value}"],
        ResetKind.GROUP: ["--from-group", rule.group_id],
    }
    return command(*parts, *rules[rule.kind], "--yes")


async def plan_delete_groups(client: AdminClient, command: Command, group_ids: Sequence[str]) -> Plan:
    """Plan deleting groups; refused while a group has members."""
    if not group_ids:
        raise ClientError(Failure.INVALID, "no group is selected")
    described = (await client.groups.describe(group_ids)).whole()
    committed = (await client.positions.fetch(group_ids)).whole()
    busy = [group for group in described.values() if group.members]
    total = sum(len(offsets) for offsets in committed.values())
    name = group_ids[0] if len(group_ids) == 1 else f"{len(group_ids)} groups"
    return Plan(
        f"Delete {name}",
        f"permanently deletes the committed offsets of {plural(total, 'partition')}",
        command("groups", "delete", *group_ids, "--yes"),
        DeleteGroups(tuple(group_ids)),
        [Change(group_id, note=plural(len(committed.get(group_id, {})), "partition")) for group_id in group_ids],
        typed=name,
        verb="Delete",
        problem=f"{busy[0].group_id} has {plural(len(busy[0].members), 'member')}; stop them first" if busy else "",
    )


async def plan_delete_offsets(
    client: AdminClient, command: Command, group_id: str, partitions: Sequence[TopicPartition]
) -> Plan:
    """Plan deleting the committed offsets of some partitions."""
    if not partitions:
        raise ClientError(Failure.INVALID, "no partition is selected")
    committed = (await client.positions.fetch([group_id])).whole()[group_id]
    by_topic: dict[str, list[int]] = {}
    for key in partitions:
        by_topic.setdefault(key.topic, []).append(key.partition)
    options: list[str | int] = []
    for topic, numbers in by_topic.items():
        options += ["--topic", f"{topic}:{','.join(map(str, sorted(numbers)))}"]
    return Plan(
        f"Delete offsets of {group_id}",
        f"permanently deletes the committed offsets of {plural(len(partitions), 'partition')}",
        command("groups", "delete-offsets", group_id, *options, "--yes"),
        DeleteOffsets(group_id, tuple(partitions)),
        [
            Change(str(key), count(committed[key].offset) if key in committed else "(none)", "(none)")
            for key in partitions
        ],
        typed=group_id,
        verb="Delete",
    )
