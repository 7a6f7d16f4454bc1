"""Acts on topics: create, add partitions, clone, delete records, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.admin.records import Start, StartKind
from broker_cy.admin.topics import BROKER_DEFAULT, NewTopic
from broker_cy.client.errors import ClientError, Failure
from broker_cy.console.acts.plan import Change, Command, Plan, Report
from broker_cy.console.fields import Field, Form
from broker_cy.console.values import integer, optional, parse_partitions, parse_position, settings, topic_name
from broker_cy.core.classes import dataclass
from broker_cy.reporting.numbers import count, plural, size

_PARTITIONS_MAX = 100_000
_REPLICAS_MAX = 32_767


@dataclass(frozen=True, slots=True)
class CreateTopic:
    """Creates a topic; `source` is the topic whose settings are copied, or empty."""

    new: NewTopic
    source: str = ""

    async def run(self, client: AdminClient) -> Report:
        made = (await client.topics.create([self.new])).whole()[self.new.name]
        copied = f" as a copy of {self.source}, without records" if self.source else ""
        return Report(
            f"created topic {self.new.name} with {plural(made.partitions, 'partition')}{copied}", (made.name,)
        )


@dataclass(frozen=True, slots=True)
class AddPartitions:
    """Adds partitions; `total` is the number of partitions afterwards."""

    topic: str
    total: int

    async def run(self, client: AdminClient) -> Report:
        (await client.topics.add_partitions({self.topic: self.total})).whole()
        return Report(f"topic {self.topic} now has {plural(self.total, 'partition')}", (self.topic,))


@dataclass(frozen=True, slots=True)
class DeleteTopics:
    names: tuple[str, ...]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.topics.delete(self.names)
        return Report.of(f"deleted {plural(len(outcome.found), 'topic')}", outcome)


@dataclass(frozen=True, slots=True)
class DeleteRecords:
    """Deletes records; `before` is the new log start offset of each partition."""

    topic: str
    before: Mapping[TopicPartition, int]

    async def run(self, client: AdminClient) -> Report:
        outcome = await client.topics.delete_records(self.before)
        return Report.of(f"deleted records of {plural(len(outcome.found), 'partition')} of {self.topic}", outcome)


def create_form(name: str = "") -> Form:
    return Form(
        "Create a topic",
        [
            Field("name", "Name", topic_name, name, "letters, digits, . _ -"),
            Field("partitions", "Partitions", optional(integer(1, _PARTITIONS_MAX)), hint="the broker's default"),
            Field("replicas", "Replication factor", optional(integer(1, _REPLICAS_MAX)), hint="the broker's default"),
            Field("settings", "Settings", settings, hint="retention.ms=3600000, cleanup.policy=compact"),
        ],
        note="The broker's default applies where a field is empty.",
    )


async def plan_create(client: AdminClient, command: Command, values: Mapping[str, Any]) -> Plan:
    """Plan creating a topic; the broker validates it without creating it."""
    new = NewTopic(
        values["name"],
        BROKER_DEFAULT if values["partitions"] is None else values["partitions"],
        BROKER_DEFAULT if values["replicas"] is None else values["replicas"],
        values["settings"],
    )
    checked = (await client.topics.create([new], validate_only=True)).whole()[new.name]
    parts: list[str | int] = ["topics", "create", new.name]
    if values["partitions"] is not None:
        parts += ["-p", new.partitions]
    if values["replicas"] is not None:
        parts += ["-r", new.replication_factor]
    for name, value in new.configs.items():
        parts += ["--set", f"{name}={value}"]
    return Plan(
        f"Create {new.name}",
        f"{plural(checked.partitions, 'partition')}, replication factor {checked.replication_factor}",
        command(*parts),
        CreateTopic(new),
        [Change(name, after=value or "") for name, value in new.configs.items()],
        verb="Create",
        is_destructive=False,
    )


def add_partitions_form(topic: TopicInfo) -> Form:
    now = len(topic.partitions)
    field = Field("total", f"Total (now {now})", integer(now + 1, _PARTITIONS_MAX), hint=f"{now + 1} or more")
    return Form(
        f"Add partitions to {topic.name}",
        [field],
        note="New records of a key may go to another partition. Partitions cannot be removed again.",
    )


async def plan_add_partitions(
    client: AdminClient, command: Command, topic: TopicInfo, values: Mapping[str, Any]
) -> Plan:
    total = values["total"]
    (await client.topics.add_partitions({topic.name: total}, validate_only=True)).whole()
    return Plan(
        f"Add partitions to {topic.name}",
        f"{len(topic.partitions)} -> {plural(total, 'partition')}: new records of a key may go to another partition",
        command("topics", "grow", topic.name, "--to", total, "--yes"),
        AddPartitions(topic.name, total),
        verb="Add",
    )


def clone_form(topic: TopicInfo) -> Form:
    return Form(
        f"Clone {topic.name}",
        [
            Field("name", "New name", topic_name, f"{topic.name}-copy"),
            Field("partitions", "Partitions", integer(1, _PARTITIONS_MAX), str(len(topic.partitions))),
            Field("replicas", "Replication factor", integer(1, _REPLICAS_MAX), str(max(1, topic.replication_factor))),
        ],
        note="The clone has the same settings, and no records.",
    )


async def plan_clone(client: AdminClient, command: Command, source: str, values: Mapping[str, Any]) -> Plan:
    new = await client.topics.plan_clone(
        source, values["name"], partitions=values["partitions"], replication_factor=values["replicas"]
    )
    (await client.topics.create([new], validate_only=True)).whole()
    return Plan(
        f"Clone {source} as {new.name}",
        f"{plural(new.partitions, 'partition')}, replication factor {new.replication_factor}, "
        f"{plural(len(new.configs), 'setting')}; no records",
        command("topics", "clone", source, new.name, "-p", new.partitions, "-r", new.replication_factor),
        CreateTopic(new, source),
        [Change(name, after=value or "") for name, value in new.configs.items()],
        verb="Clone",
        is_destructive=False,
    )


async def _spans(client: AdminClient, names: Sequence[str]) -> dict[TopicPartition, tuple[int, int]]:
    """Return start and end of each partition."""
    infos = (await client.topics.describe(names)).whole()
    keys = [TopicPartition(name, part.partition) for name, info in infos.items() for part in info.partitions]
    starts, ends = await asyncio.gather(client.offsets.earliest(keys), client.offsets.latest(keys))
    return {key: (starts.found.get(key, 0), ends.found.get(key, 0)) for key in keys}


async def plan_delete(client: AdminClient, command: Command, names: Sequence[str]) -> Plan:
    """Plan deleting topics. The name has to be typed; for several topics, their number."""
    if not names:
        raise ClientError(Failure.INVALID, "no topic is selected")
    spans, dirs = await asyncio.gather(_spans(client, names), client.log_dirs.describe(topics=names))
    sizes: dict[str, int] = {}
    for directories in dirs.found.values():
        for directory in directories:
            for replica in directory.replicas:
                sizes[replica.topic] = sizes.get(replica.topic, 0) + replica.size_bytes
    by_topic: dict[str, int] = dict.fromkeys(names, 0)
    for key, (start, end) in spans.items():
        by_topic[key.topic] += end - start
    return Plan(
        f"Delete {names[0] if len(names) == 1 else plural(len(names), 'topic')}",
        f"permanently deletes {plural(len(spans), 'partition')} with {count(sum(by_topic.values()))} offsets "
        f"({size(sum(sizes.values()))})",
        command("topics", "delete", *names, "--yes"),
        DeleteTopics(tuple(names)),
        [Change(name, note=f"{count(by_topic[name])} offsets, {size(sizes.get(name, 0))}") for name in names],
        typed=names[0] if len(names) == 1 else f"{len(names)} topics",
        verb="Delete",
    )


def delete_records_form(topic: str, partitions: int) -> Form:
    return Form(
        f"Delete records of {topic}",
        [
            Field("before", "Up to", parse_position, hint="an offset, end, -N before the end, or @TIME", is_time=True),
            Field("partitions", "Partitions", optional(_partitions_below(partitions)), hint="all; or 0,3-5"),
        ],
    )


def _partitions_below(count_of_all: int) -> Any:
    def parse(text: str) -> tuple[int, ...]:
        found = parse_partitions(text)
        if found[-1] >= count_of_all:
            raise ValueError(f"partition {found[-1]} does not exist; the topic has 0 to {count_of_all - 1}")
        return found

    return parse


def position_text(start: Start) -> str:
    """Return a position in the syntax of the command line."""
    return {
        StartKind.EARLIEST: "beginning",
        StartKind.LATEST: "end",
        StartKind.OFFSET: str(start.value),
        StartKind.LAST: f"-{start.value}",
        StartKind.TIME: f"@{start.value}",
    }[start.kind]


async def plan_delete_records(client: AdminClient, command: Command, topic: str, values: Mapping[str, Any]) -> Plan:
    every = await client.records.partitions(topic)
    wanted = values["partitions"]
    keys = [key for key in every if wanted is None or key.partition in wanted]
    spans = await client.records.spans(keys, values["before"])
    before = {key: span.start for key, span in spans.items() if span.start > span.earliest}
    lost = sum(spans[key].start - spans[key].earliest for key in before)
    parts: list[str | int] = ["records", "delete", topic, "--before", position_text(values["before"])]
    if wanted is not None:
        parts += ["-p", ",".join(map(str, wanted))]
    return Plan(
        f"Delete records of {topic}",
        f"permanently deletes {count(lost)} offsets of {plural(len(before), 'partition')}",
        command(*parts, "--yes"),
        DeleteRecords(topic, before),
        [
            Change(f"partition {key.partition}", f"start {count(spans[key].earliest)}", count(at))
            for key, at in before.items()
        ],
        typed=topic,
        verb="Delete",
        problem="" if before else "there are no records before that position",
    )
