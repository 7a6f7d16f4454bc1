"""The newest records of topics, and the positions of their groups, by Kafka's protocol: from any broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import Span, Start
from broker_cy.client.errors import ClientError
from broker_registry.impact.groups import LOOK_BACK, LOOKUPS_MAX, Group, Range
from broker_registry.impact.result import Name
from broker_registry.impact.trial import Row

RECORDS_MAX: Final = 100_000
"""The most records that are tried."""
GROUPS_MAX: Final = 2_000
"""Groups whose offsets are read: an answer has those of all their topics."""
_GROUPS_A_CALL: Final = 100


class Limits(NamedTuple):
    """Bounds of a trial. `bytes` are those of the records that are kept while it runs; `seconds` are for reading, and
    for trying.
    """

    records: int = 1_000
    bytes: int = 64 << 20
    seconds: float = 10.0


@dataclass(slots=True)
class Sample:
    """Records with the offsets of their partitions. `stopped` says why there are fewer than were wanted."""

    rows: list[Row] = field(default_factory=list)
    ranges: dict[TopicPartition, Range] = field(default_factory=dict)
    stopped: str = ""


def newest(spans: Mapping[TopicPartition, Span], count: int) -> dict[TopicPartition, int]:
    """Return where to start in each partition for the newest `count` offsets: equally many of each, and more of the
    others where one has fewer.
    """
    left = count
    starts: dict[TopicPartition, int] = {}
    # The shortest first: what it lacks is for the others.
    waiting = sorted(spans.items(), key=lambda each: (each[1].end - each[1].earliest, each[0]))
    for index, (key, span) in enumerate(waiting):
        share = min(span.end - span.earliest, -(-left // (len(waiting) - index)))
        starts[key] = span.end - share
        left -= share
    return starts


async def read_sample(client: AdminClient, topics: Iterable[str], limits: Limits) -> Sample:
    """Read the newest records, at most as many as the limits allow. Raises ClientError."""
    partitions = [each for topic in topics for each in await client.records.partitions(topic)]
    # As consumers read by default: also records of transactions that are open or were aborted.
    spans = await client.records.spans(partitions, Start.earliest())
    starts = newest(spans, min(limits.records, RECORDS_MAX))
    reached = dict(starts)
    sample = Sample()
    kept_bytes = 0
    ends = {key: span.end for key, span in spans.items() if starts[key] < span.end}
    try:
        async with asyncio.timeout(limits.seconds):
            reader = client.records.reader({key: starts[key] for key in ends}, ends=ends)
            async with reader:
                async for chunk in reader:
                    sample.rows += [Row(chunk.partition, each) for each in chunk.records]
                    reached[chunk.partition] = chunk.next_offset
                    kept_bytes += sum(len(each.key or b"") + len(each.value or b"") for each in chunk.records)
                    if kept_bytes > limits.bytes:
                        sample.stopped = f"stopped after {kept_bytes:,} bytes"
                        break
    except TimeoutError:
        sample.stopped = f"stopped reading after {limits.seconds:g} s"
    sample.ranges = {
        key: Range(starts[key], min(reached[key], span.end), span.earliest, span.end) for key, span in spans.items()
    }
    return sample


async def read_groups(client: AdminClient, topics: Sequence[str]) -> tuple[list[Group], str]:
    """Return the groups with a position in the topics, and why some are missing. A login may not see all groups."""
    wanted = frozenset(topics)
    found: list[Group] = []
    problems: list[str] = []
    try:
        names = sorted(each.group_id for each in await client.groups.listed())
        if len(names) > GROUPS_MAX:
            problems.append(f"{len(names) - GROUPS_MAX:,} of {len(names):,} groups were left out")
        for at in range(0, min(len(names), GROUPS_MAX), _GROUPS_A_CALL):
            outcome = await client.positions.fetch(names[at : min(at + _GROUPS_A_CALL, GROUPS_MAX)])
            for name, positions in sorted(outcome.found.items()):
                committed = {key: each.offset for key, each in positions.items() if key.topic in wanted}
                if committed:
                    found.append(Group(name, committed))
            problems += [str(error) for error in list(outcome.failed.values())[:1]]
    except ClientError as error:
        problems.append(str(error))
    return found, "; ".join(problems)


async def look_up(
    client: AdminClient,
    places: Sequence[tuple[TopicPartition, int]],
    ranges: Mapping[TopicPartition, Range],
    name_of: Callable[[Row], Name | None],
    seconds: float,
) -> tuple[dict[tuple[TopicPartition, int], Name], str]:
    """Return the schemas of the last records before offsets, and why some are missing."""
    found: dict[tuple[TopicPartition, int], Name] = {}
    waiting = list(places[:LOOKUPS_MAX])
    problem = ""
    if len(places) > LOOKUPS_MAX:
        problem = f"the last schemas at {len(places) - LOOKUPS_MAX:,} committed offsets were not looked up"
    try:
        async with asyncio.timeout(seconds):
            while waiting:
                # A reader has one place in each partition.
                ends = dict(reversed(waiting))
                waiting = [each for each in waiting if ends[each[0]] != each[1]]
                starts = {key: max(ranges[key].earliest, end - LOOK_BACK) for key, end in ends.items()}
                async with client.records.reader(starts, ends=ends) as reader:
                    async for chunk in reader:
                        for record in chunk.records:
                            name = name_of(Row(chunk.partition, record))
                            if name is not None:
                                found[chunk.partition, ends[chunk.partition]] = name
    except TimeoutError:
        problem = "the last schemas of some groups could not be looked up in time"
    except ClientError as error:
        problem = str(error)
    return found, problem
