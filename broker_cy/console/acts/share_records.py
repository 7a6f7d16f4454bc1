"""Acts on the records that a share group has in flight: release, reject and redrive them, or copy them to a topic."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_cy.admin.share_records import EVERY_OFFSET, Ranges, by_partition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.acts.records import Produce
from broker_cy.console.fields import Field, Form
from broker_cy.console.values import topic_name
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.reporting.numbers import count, offsets_text, plural
from broker_cy.wire.records import Record
from broker_cy.wire.share_operations import OperatorAction

Wanted = Mapping[TopicPartition, Ranges]

# Records of one copy, which are in memory until they are produced.
COPIED_MAX: Final = 10_000
RANGES_MAX: Final = 1_000
_OFFSETS: Final = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_VERBS: Final = {OperatorAction.RELEASE: "Release", OperatorAction.REJECT: "Reject", OperatorAction.REDRIVE: "Redrive"}
_DONE: Final = {
    OperatorAction.RELEASE: "released",
    OperatorAction.REJECT: "rejected",
    OperatorAction.REDRIVE: "redrove",
}
_ALL_GONE: Final = (
    "the log has none of these records: they are not written yet, or removed by compaction, retention or a transaction"
)
_EFFECTS: Final = {
    OperatorAction.RELEASE: "{records}: available again immediately, for any member of the group",
    OperatorAction.REJECT: "{records}: archived, and not delivered to the group again",
    OperatorAction.REDRIVE: "{records}: delivered to the group again, at least once",
}


@dataclass(frozen=True, slots=True)
class ChangeShareRecords:
    """Changes the records of these offsets that are in a state for the action; with a member, only what it has
    locked.
    """

    group_id: str
    action: OperatorAction
    wanted: tuple[tuple[TopicPartition, Ranges], ...]
    member_id: str

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.share_records.change(
            self.group_id, self.action, dict(self.wanted), member_id=self.member_id
        )
        records = sum(each.records for each in outcome.found.values())
        return Report.of(f"{_DONE[self.action]} {plural(records, 'record')} of group {self.group_id}", outcome)


def parse_records(text: str) -> tuple[TopicPartition, Ranges]:
    """Parse `topic:partition` (every offset in flight), or `topic:partition:OFFSETS` with offsets such as 40,42-45."""
    match = re.fullmatch(r"([^:]+):([0-9]{1,9})(?::([0-9,-]+))?", text.strip())
    if match is None:
        raise ValueError(f"{text!r}: TOPIC:PARTITION or TOPIC:PARTITION:OFFSETS is expected, such as orders:0:40,42-45")
    key = TopicPartition(match[1], int(match[2]))
    if match[3] is None:
        return key, EVERY_OFFSET
    ranges = []
    for part in match[3].split(","):
        found = _OFFSETS.fullmatch(part)
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"{part!r} in {text!r}: an offset such as 40, or a range from low to high such as 42-45")
        ranges.append((key, int(found[1]), int(found[2] or found[1])))
    if len(ranges) > RANGES_MAX:
        raise ValueError(f"{count(len(ranges))} ranges of offsets; at most {count(RANGES_MAX)} are allowed")
    return key, by_partition(ranges)[key]


def records_text(key: TopicPartition, ranges: Ranges) -> str:
    """Return the text that `parse_records` parses."""
    place = f"{key.topic}:{key.partition}"
    if ranges == EVERY_OFFSET:
        return place
    return f"{place}:{','.join(str(first) if first == last else f'{first}-{last}' for first, last in ranges)}"


async def plan_share_records(
    client: AdminClient,
    command: Command,
    group_id: str,
    action: OperatorAction,
    wanted: Wanted,
    member_id: str = "",
) -> Plan:
    """Plan a change of records in flight: the leaders count the records that would change now.

    Partitions in which nothing would change are left out if every offset of them is wanted.
    """
    if not wanted:
        raise ClientError(Failure.INVALID, "no records are selected", what=f"group {group_id}")
    outcome = await client.share_records.change(group_id, action, wanted, member_id=member_id, is_preview=True)
    changes: list[Change] = []
    kept: list[tuple[TopicPartition, Ranges]] = []
    for key, ranges in wanted.items():
        found, error = outcome.found.get(key), outcome.failed.get(key)
        if found is not None:
            last = f"; {count(found.archived)} of them archived, after the last delivery" if found.archived else ""
            changes.append(Change(_place(key, ranges), note=f"{plural(found.records, 'record')}{last}"))
            kept.append((key, ranges))
        elif error is not None and (error.code is not ErrorCode.INVALID_RECORD_STATE or ranges != EVERY_OFFSET):
            changes.append(Change(_place(key, ranges), note=f"not changed: {error.reason or error}"))
    records = sum(each.records for each in outcome.found.values())
    archived = sum(each.archived for each in outcome.found.values())
    effect = _EFFECTS[action].format(records=plural(records, "record"))
    if archived:
        effect += f", but {count(archived)} archived, because it was the last delivery of the record"
    options = _options(wanted)
    if member_id:
        options += ["--member", member_id]
    verb = _VERBS[action]
    return Plan(
        f"{verb} records of {group_id}",
        effect,
        command("groups", verb.lower(), group_id, *options, "--yes"),
        ChangeShareRecords(group_id, action, tuple(kept), member_id),
        changes,
        verb=verb,
        is_destructive=action is not OperatorAction.REDRIVE,
        problem="" if kept else _problem(action, outcome.failed),
    )


def _options(wanted: Wanted) -> list[str | int]:
    return [part for key, ranges in wanted.items() for part in ("--records", records_text(key, ranges))]


def _problem(action: OperatorAction, failed: Mapping[TopicPartition, ClientError]) -> str:
    """Return why nothing can be changed: the first failure that is not only a partition without records."""
    errors = [error for error in failed.values() if error.code is not ErrorCode.INVALID_RECORD_STATE]
    if errors:
        return str(errors[0])
    key, first = next(iter(failed.items()))
    others = f" (and {plural(len(failed) - 1, 'other partition')})" if len(failed) > 1 else ""
    hint = ". Records before the start offset can be copied to a topic" if action is OperatorAction.REDRIVE else ""
    return f"{key}{others}: {first.reason}{hint}"


def _place(key: TopicPartition, ranges: Ranges) -> str:
    if ranges == EVERY_OFFSET:
        return str(key)
    return f"{key}, {offsets_text(ranges)}"


# ---- copies, of records that the group is done with


async def plan_copy(client: AdminClient, command: Command, group_id: str, wanted: Wanted, topic: str) -> Plan:
    """Plan producing the records of these offsets to a topic, where any consumer gets them.

    The copies have the keys, values, headers and timestamps of the records, and the headers by which Kafka 4.4 names
    the origin of a record in a topic of dead letters (KIP-1191).
    """
    if not wanted:
        raise ClientError(Failure.INVALID, "no records are selected", what=f"group {group_id}")
    total = 0
    for key, ranges in wanted.items():
        if ranges == EVERY_OFFSET:
            raise ClientError(Failure.INVALID, "a copy needs the offsets of the records", what=f"partition {key}")
        total += sum(last - first + 1 for first, last in ranges)
    if total > COPIED_MAX:
        raise ClientError(Failure.INVALID, f"{count(total)} offsets; at most {count(COPIED_MAX)} are copied at once")
    await client.records.partitions(topic)
    copies: list[Record] = []
    changes: list[Change] = []
    for key, ranges in wanted.items():
        found = [copied for first, last in ranges for copied in await _copies(client, group_id, key, first, last)]
        copies += found
        missing = sum(last - first + 1 for first, last in ranges) - len(found)
        more = f"; {count(missing)} not in the log" if missing else ""
        changes.append(Change(_place(key, ranges), note=f"{plural(len(found), 'record')}{more}"))
    return Plan(
        f"Redrive records of {group_id} to {topic}",
        f"produces {plural(len(copies), 'record')} to {topic}, where the consumers of every group get them",
        command("groups", "redrive", group_id, *_options(wanted), "--copy-to", topic, "--yes"),
        Produce(topic, tuple(copies), None),
        changes,
        verb="Redrive",
        is_destructive=False,
        problem="" if copies else _ALL_GONE,
    )


async def _copies(client: AdminClient, group_id: str, key: TopicPartition, first: int, last: int) -> list[Record]:
    origin = (("topic", key.topic), ("partition", key.partition), ("group", group_id))
    copies: list[Record] = []
    committed = Isolation.READ_COMMITTED
    span = (await client.records.spans([key], Start.offset(first), isolation=committed))[key]
    end = min(last + 1, span.end)
    if span.start >= end:
        return copies
    reader = client.records.reader({key: span.start}, ends={key: end}, isolation=committed)
    async with reader:
        async for chunk in reader:
            for record in chunk.records:
                if first <= record.offset <= last:
                    told = (*origin, ("offset", record.offset))
                    headers = tuple((f"__dlq.errors.{name}", str(value).encode()) for name, value in told)
                    copies.append(
                        Record(
                            timestamp=record.timestamp,
                            key=record.key,
                            value=record.value,
                            headers=(*record.headers, *headers),
                        )
                    )
    return copies


# ---- the forms of consoles


def _several(text: str) -> Wanted:
    """Parse records separated by blanks."""
    parsed = map(parse_records, text.split())
    ranges = [(key, first, last) for key, every in parsed for first, last in every]
    if not ranges:
        raise ValueError("TOPIC:PARTITION:OFFSETS is expected, such as orders:0:40,42-45; blanks separate partitions")
    return by_partition(ranges)


def redrive_form(group_id: str, wanted: Wanted) -> Form:
    """Return the form of a redrive; `wanted` are the records that are selected."""
    return Form(
        f"Redrive records of {group_id}",
        [
            Field(
                "records",
                "Records",
                _several,
                value=" ".join(records_text(key, ranges) for key, ranges in wanted.items()),
                hint="topic:partition:offsets, such as orders:0:40,42-45",
            ),
            Field("topic", "Copy to topic", _optional_topic, hint="in the group itself, while they are in flight"),
        ],
        note="Archived records that are in flight are delivered to the group again. The group is done with records "
        "before its start offset: copy those to a topic.",
    )


def _optional_topic(text: str) -> str:
    return topic_name(text) if text.strip() else ""


async def plan_redrive(client: AdminClient, command: Command, group_id: str, values: Mapping[str, Any]) -> Plan:
    """Plan a redrive by the values of its form."""
    if values["topic"]:
        return await plan_copy(client, command, group_id, values["records"], values["topic"])
    return await plan_share_records(client, command, group_id, OperatorAction.REDRIVE, values["records"])
