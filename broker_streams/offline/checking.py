"""Recomputes the results of an application from its recorded input, and compares them with what it has written."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Start
from broker_streams.offline.certainty import Certainties, Certainty, Level
from broker_streams.offline.cut import Cut, consistent_cut
from broker_streams.offline.history import POLICY, History, chunks, inputs_of
from broker_streams.offline.inputs import feed
from broker_streams.offline.results import ANY_PARTITION, Results, Row, Side
from broker_streams.offline.runner import Result, Runner
from broker_streams.plan.topology import Sink, Topology

# The records of the application, and those that it should have written.
WRITTEN: Final = Side.OLD
RECOMPUTED: Final = Side.NEW
# Topics between sub-topologies, for applications whose group has no topology: those on Spark.
_REPARTITION: Final = re.compile(r".*-repartition|.*-KTABLE-FK-JOIN-SUBSCRIPTION-(?:REGISTRATION|RESPONSE)-\d+-topic")


class Deviation(NamedTuple):
    """A record, or a key with its last value, that the application wrote in another number than it should have."""

    kind: str
    partition: int
    key: bytes | None
    # None if it was not written, or should not have been.
    written: bytes | None
    recomputed: bytes | None
    times_written: int = 1
    times_recomputed: int = 1


MISSING: Final = "missing"
DOUBLED: Final = "doubled"
UNEXPECTED: Final = "unexpected"
DIFFERENT: Final = "different"


@dataclass
class TopicCheck:
    """`compared` is the level of the comparison. `is_determined` False: differences may be legitimate. `counts` are
    the deviations by kind, and `deviations` the first of them. `disordered`: partitions in another order.
    """

    topic: str
    is_changelog: bool
    written: int
    recomputed: int
    certainty: Certainty
    compared: Level
    counts: dict[str, int] = field(default_factory=dict)
    deviations: list[Deviation] = field(default_factory=list)
    disordered: list[int] = field(default_factory=list)

    @property
    def is_determined(self) -> bool:
        return self.certainty.level is not Level.NOTHING

    @property
    def is_equal(self) -> bool:
        return not self.counts and not self.disordered


@dataclass
class Check:
    """The result: `processed` records of the input, up to the committed offsets `until`."""

    processed: int
    until: dict[TopicPartition, int]
    topics: list[TopicCheck]
    notes: list[str] = field(default_factory=list)

    @property
    def is_proven(self) -> bool:
        return all(each.is_equal for each in self.topics if each.is_determined)


@dataclass(frozen=True)
class Wanted:
    """`starts`: where the application began, by partition; without an entry at the first record of the log. `group_id`:
    the application that wrote the results, None: the one whose results are computed. `with_changelogs`: compare them
    too. `first`: deviations to keep of a topic.
    """

    starts: Mapping[TopicPartition, int]
    topics: Collection[str]
    first: int
    group_id: str | None = None
    with_changelogs: bool = True


Take = Callable[[list[Result]], Awaitable[None]]


async def check(history: History, runner: Runner, wanted: Wanted, also: Take | None = None) -> Check:
    """Compare what an application has written with what the runner computes. `also` gets the results of the runner.
    Raises ClientError, StreamsError.
    """
    client, isolation = history.client, history.isolation
    topology, settings = runner.topology, runner.settings
    compacted = await history.compacted(topic for topic, _ in runner.inputs)
    certainties = Certainties(topology, settings, uses_clock=runner.uses_clock, compacted=compacted)
    changelogs = certainties.changelogs() if wanted.with_changelogs else {}
    existing = {each.name: len(each.partitions) for each in await client.topics.list_all()}
    every = (*certainties.topics().items(), *changelogs.items())
    compared = {topic: each for topic, each in every if topic in existing}
    for topic in wanted.topics:
        if topic not in compared:
            raise ClientError(Failure.INVALID, f"--topic {topic}: compared are {', '.join(compared) or 'none'}")
    if wanted.topics:
        compared = {topic: each for topic, each in compared.items() if topic in wanted.topics}
    outputs = [TopicPartition(topic, number) for topic in compared for number in range(existing[topic])]
    writer_id = wanted.group_id or settings.application_id
    repartition = await repartition_partitions(client, writer_id, existing)
    cut = await consistent_cut(client, writer_id, outputs, repartition)
    starts, ends, notes = await _range(history, topology, runner, cut, wanted)
    with Results() as results:
        tasks: dict[tuple[str, int], set[tuple[int, int]]] = {}

        async def take(made: list[Result]) -> None:
            _keep(made, compared, tasks, results)
            if also is not None:
                await also(made)

        processed = await feed(history, runner, starts, ends, take)
        begins = await _read_written(client, outputs, cut, results, isolation)
        shared = {place for place, owners in tasks.items() if len(owners) > 1}
        found = []
        for topic, certainty in compared.items():
            is_changelog = topic in changelogs
            limited, lacks = await _limited(client, topic, certainty, begins, is_changelog=is_changelog)
            ordered = {number for name, number in tasks if name == topic and (name, number) not in shared}
            made = TopicCheck(topic, is_changelog, *results.counts(topic), limited, limited.level)
            _compare(results, made, ordered, wanted.first, lacks=lacks)
            found.append(made)
    if any(isinstance(node, Sink) and node.topic is None for node in topology.nodes):
        notes.append("topics that functions of sinks choose are not compared")
    return Check(processed, ends, found, notes)


def _keep(
    made: list[Result],
    compared: Collection[str],
    tasks: dict[tuple[str, int], set[tuple[int, int]]],
    results: Results,
) -> None:
    """Keep what was computed, and the tasks that write each partition."""
    rows: dict[str, list[Row]] = {}
    for each in made:
        if each.topic in compared:
            number = ANY_PARTITION if each.partition is None else each.partition
            tasks.setdefault((each.topic, number), set()).add(each.task)
            rows.setdefault(each.topic, []).append(Row(number, each.key, each.value, each.timestamp, each.headers))
    for topic, theirs in rows.items():
        results.add(RECOMPUTED, topic, theirs)


async def repartition_partitions(
    client: AdminClient, application_id: str, existing: Mapping[str, int]
) -> list[TopicPartition]:
    """The partitions of an application's repartition topics: by their names, and as its group knows them. Raises
    ClientError.
    """
    names = {name for name in existing if name.startswith(f"{application_id}-") and _REPARTITION.fullmatch(name)}
    group = (await client.groups.describe([application_id])).found.get(application_id)
    if group is not None and group.topology is not None:
        names = {each.name for part in group.topology.subtopologies for each in part.repartition_sources}
    return [
        TopicPartition(name, number) for name in sorted(names & existing.keys()) for number in range(existing[name])
    ]


async def _range(
    history: History, topology: Topology, runner: Runner, cut: Cut, wanted: Wanted
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int], list[str]]:
    """Where the input begins and ends. Raises ClientError: records of the begin are gone, on which state depends."""
    keys = [TopicPartition(*place) for place in runner.inputs]
    spans = await history.spans(keys, Start.earliest())
    starts, ends, notes = {}, {}, []
    for key in keys:
        begin = wanted.starts.get(key, 0)
        ends[key] = cut.committed.get(key, spans[key].earliest)
        starts[key] = min(max(begin, spans[key].earliest), ends[key])
        if spans[key].earliest > begin and key in cut.committed:
            if topology.stores:
                reason = (
                    f"the log begins at offset {spans[key].earliest}: records that the state depends on were deleted,"
                    " so the results cannot be computed again without an archive (--segments, --lake) of them"
                )
                raise ClientError(Failure.REFUSED, reason, what=f"partition {key}")
            notes.append(f"{key} begins at offset {spans[key].earliest}: results of earlier records are not compared")
    return starts, ends, notes


async def _read_written(
    client: AdminClient, outputs: list[TopicPartition], cut: Cut, results: Results, isolation: Isolation
) -> dict[TopicPartition, int]:
    """Keep the records of the topics up to the cut; return where their logs begin."""
    if not outputs:
        return {}
    spans = await client.records.spans(outputs, Start.earliest())
    begins = {key: span.earliest for key, span in spans.items()}
    async for chunk in chunks(client, begins, cut.ends, isolation):
        rows = [Row(chunk.partition.partition, *each[:3], each[4]) for each in inputs_of(chunk)]
        results.add(WRITTEN, chunk.partition.topic, rows)
    return begins


async def _limited(
    client: AdminClient, topic: str, certainty: Certainty, begins: Mapping[TopicPartition, int], *, is_changelog: bool
) -> tuple[Certainty, bool]:
    """The certainty as far as the topic still has its records, and whether keys may have been deleted."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    described = (await client.configs.describe([resource], names=[POLICY])).whole()[resource]
    policy = next((each.value or "" for each in described if each.name == POLICY), "")
    is_cut = any(key.topic == topic and at > 0 for key, at in begins.items())
    if not is_changelog and "compact" in policy:
        certainty = certainty.at_most(Level.LAST, "the topic is compacted")
    elif is_cut:
        certainty = certainty.at_most(Level.LAST, "the first records of the topic were deleted")
    # The log of a compacted topic may begin later, too: its last values are all there.
    return certainty, "delete" in policy and (is_changelog or is_cut)


def _compare(results: Results, of: TopicCheck, ordered: Collection[int], first: int, *, lacks: bool) -> None:
    """Fill in the deviations. `ordered` are the partitions that one task writes."""
    if not of.is_determined:
        # The contents are compared all the same, for the user to judge.
        of.compared = Level.LAST if of.is_changelog else Level.CONTENTS
    for each in (_last if of.compared is Level.LAST else _contents)(results, of.topic):
        if lacks and each.kind == MISSING:
            continue
        of.counts[each.kind] = of.counts.get(each.kind, 0) + 1
        if len(of.deviations) < first:
            of.deviations.append(each)
    if of.compared is Level.RECORDS:
        of.disordered = [number for number in results.orders(of.topic) if number in ordered]


def _contents(results: Results, topic: str) -> Iterator[Deviation]:
    for row, written, recomputed in results.contents(topic):
        if written < recomputed:
            kind = MISSING
        else:
            kind = DOUBLED if recomputed else UNEXPECTED
        values = (row.value if written else None), (row.value if recomputed else None)
        yield Deviation(kind, row.partition, row.key, *values, written, recomputed)


def _last(results: Results, topic: str) -> Iterator[Deviation]:
    for partition, key, written, recomputed in results.finals(topic):
        kind = MISSING if written is None else UNEXPECTED if recomputed is None else DIFFERENT
        yield Deviation(kind, partition, key, written, recomputed)
