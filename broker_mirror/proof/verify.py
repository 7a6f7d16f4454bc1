"""Compares both sides of a flow: the committed records of each partition, in their order or by the last of each key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from broker_cy.admin import AdminClient
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.wire.records import Batch
from broker_mirror.flows import Flow, FlowKind
from broker_mirror.formats.source_offsets import ReachedOffsets
from broker_mirror.merged import Side
from broker_mirror.proof import keys
from broker_mirror.proof.batches import BatchReader, Rate
from broker_mirror.proof.clients import Clusters, reached_of, topics_of, translation_of
from broker_mirror.proof.pairing import DIFFERENCES_MAX, RANGE_OFFSETS, Difference, Pairing
from broker_mirror.proof.ranges import Extent, RangeCounts, Unaligned, Window, copied, linked
from broker_mirror.translation import Translation

PARTS_MAX: Final = 1_024
"""Passes over a compacted partition: 200 million keys."""
_CLEANUP: Final = "cleanup.policy"
_TIMESTAMP_TYPE: Final = "message.timestamp.type"


class Outcome(Enum):
    """The verdict about a partition. UNKNOWN: nothing could be compared."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class PartitionResult:
    """The comparison of a partition of the source with its copy.

    `records` are equal on both sides (keys, with `by_key`). `behind` records of the source may still be on their way.
    `removed_*` are offsets that were not compared, because only that side has removed the records.
    """

    topic: str
    partition: int
    remote_topic: str
    records: int = 0
    behind: int = 0
    removed_in_source: int = 0
    removed_in_target: int = 0
    by_key: bool = False
    differences: Sequence[Difference] = ()
    is_cut: bool = False
    ranges: Sequence[RangeCounts] = ()
    problem: str = ""
    is_known: bool = True
    without_times: bool = False

    @property
    def outcome(self) -> Outcome:
        if self.differences or (self.problem and self.is_known):
            return Outcome.DIFFERENT
        return Outcome.EQUAL if self.is_known else Outcome.UNKNOWN


@dataclass(frozen=True, slots=True)
class Settings:
    """`bytes_per_s` bounds both clusters together; 0 is no bound."""

    topics: Sequence[str] = ()
    bytes_per_s: int = 0
    with_checksums: bool = False
    range_offsets: int = RANGE_OFFSETS


@dataclass(slots=True)
class FlowResult:
    """The comparison of a flow. `bytes` are those that were read from both clusters."""

    flow: Flow
    partitions: list[PartitionResult] = field(default_factory=list)
    bytes: int = 0

    @property
    def is_equal(self) -> bool:
        return all(each.outcome is Outcome.EQUAL for each in self.partitions)


async def verify(of: Clusters, settings: Settings) -> FlowResult:
    """Compare both sides of a flow, one partition after the other. Raises ClientError."""
    rate = Rate(settings.bytes_per_s, asyncio.get_running_loop().time)
    result = FlowResult(of.flow)
    topics = await topics_of(of, settings.topics)
    policies = await _policies(of, topics)
    translation = await translation_of(of)
    for topic, (count, remote_count) in topics.items():
        remote = of.flow.remote_topic(topic)
        if remote_count != count:
            has = "does not exist" if remote_count is None else f"has {remote_count} partitions, the source has {count}"
            result.partitions.append(PartitionResult(topic, -1, remote, problem=f"{remote} in the target {has}"))
        for partition in range(min(count, remote_count or 0)):
            keys_ = TopicPartition(topic, partition), TopicPartition(remote, partition)
            work = _Partition(of, keys_, policies[topic], settings, rate)
            result.partitions.append(await work.compare(translation))
    result.bytes = rate.bytes
    return result


@dataclass(frozen=True, slots=True)
class _Policy:
    is_compacted: bool
    with_times: bool


async def _policies(of: Clusters, topics: Mapping[str, object]) -> dict[str, _Policy]:
    """Return how each topic is compared. A topic that is compacted on one side is compared by keys. The target of a
    copy flow may set the timestamps itself, and then they differ.
    """
    source = await _configs(of.source, topics)
    remote = {topic: of.flow.remote_topic(topic) for topic in topics}
    target = await _configs(of.target, remote.values())
    found = {}
    for topic, name in remote.items():
        both = source.get(topic, {}), target.get(name, {})
        stamps = of.flow.kind is FlowKind.COPY and both[1].get(_TIMESTAMP_TYPE) == "LogAppendTime"
        found[topic] = _Policy(any("compact" in each.get(_CLEANUP, "") for each in both), not stamps)
    return found


async def _configs(client: AdminClient, topics: Iterable[str]) -> dict[str, dict[str, str]]:
    wanted = [ConfigResource(ResourceType.TOPIC, each) for each in topics]
    outcome = await client.configs.describe(wanted, names=(_CLEANUP, _TIMESTAMP_TYPE))
    return {key.name: {each.name: each.value or "" for each in entries} for key, entries in outcome.found.items()}


async def extent_of(client: AdminClient, key: TopicPartition) -> Extent:
    """Return the extent of a partition. Raises ClientError."""
    start = (await client.offsets.earliest([key])).whole()[key]
    end = (await client.offsets.latest([key], isolation=Isolation.READ_COMMITTED)).whole()[key]
    return Extent(start, max(start, end))


async def window_of(of: Clusters, source: TopicPartition, target: TopicPartition, translation: Translation) -> Window:
    """Return the offsets of a partition to compare.

    The order of the requests matters: records before the offset that the flow has committed are in the target before
    its end is read, and these are in the source before its end is read. Raises ClientError and Unaligned.
    """
    reached: ReachedOffsets = await reached_of(of)
    in_target = await extent_of(of.target, target)
    in_source = await extent_of(of.source, source)
    if of.flow.kind is FlowKind.LINK:
        return linked(in_source, in_target)
    ranges = translation.partition(source.topic, source.partition)
    next_offset = reached.next_offset(source.topic, source.partition)
    return copied(in_source, in_target, [] if ranges is None else ranges.ranges(), next_offset)


class _Partition:
    """Compares one partition."""

    def __init__(
        self,
        of: Clusters,
        keys_: tuple[TopicPartition, TopicPartition],
        policy: _Policy,
        settings: Settings,
        rate: Rate,
    ) -> None:
        self._of = of
        self._source, self._target = keys_
        self._policy, self._settings, self._rate = policy, settings, rate

    async def compare(self, translation: Translation) -> PartitionResult:
        result = PartitionResult(self._source.topic, self._source.partition, self._target.topic)
        result.without_times = not self._policy.with_times
        try:
            window = await window_of(self._of, self._source, self._target, translation)
        except Unaligned as error:
            result.problem, result.is_known = str(error), False
            return result
        result.removed_in_source, result.removed_in_target = window.removed_in_source, window.removed_in_target
        if self._policy.is_compacted:
            await self._by_key(window, result)
        else:
            await self._in_order(window, result)
        return result

    def _readers(self, window: Window) -> dict[Side, BatchReader]:
        return {
            Side.SOURCE: BatchReader(self._of.source, self._source, *window.source, self._rate),
            Side.TARGET: BatchReader(self._of.target, self._target, *window.target, self._rate),
        }

    async def _in_order(self, window: Window, result: PartitionResult) -> None:
        pairing = Pairing(
            window,
            with_times=self._policy.with_times,
            with_offsets=self._of.flow.kind is FlowKind.LINK,
            with_checksums=self._settings.with_checksums,
            range_offsets=self._settings.range_offsets,
        )
        readers = self._readers(window)
        while (side := pairing.wanted()) is not None:
            batches = await readers[side].read()
            pairing.feed(side, batches, ended=readers[side].ended)
            if (removed := _removed(readers)) is not None:
                result.problem, result.is_known = removed, False
                break
        result.records, result.behind = pairing.paired, pairing.behind
        result.is_cut, result.ranges = pairing.is_cut, pairing.ranges
        if result.is_known:
            result.differences = pairing.differences

    async def _by_key(self, window: Window, result: PartitionResult) -> None:
        result.by_key = True
        parts = 1
        while parts <= PARTS_MAX:
            differences: list[Difference] = []
            records = behind = 0
            try:
                for part in range(parts):
                    found, equal, later = await self._pass(window, part, parts)
                    differences = [*differences, *found][: DIFFERENCES_MAX + 1]
                    records += equal
                    behind += later
            except keys.TooManyKeys:
                parts *= 2
                continue
            result.records, result.behind = records, behind
            result.differences = differences[:DIFFERENCES_MAX]
            result.is_cut = len(differences) > DIFFERENCES_MAX
            return
        result.problem, result.is_known = f"it has more than {PARTS_MAX * keys.KEYS_MAX:,} keys", False

    async def _pass(self, window: Window, part: int, parts: int) -> tuple[list[Difference], int, int]:
        sides = {}
        for side, reader in self._readers(window).items():
            extent = window.source if side is Side.SOURCE else window.target
            last = keys.LastOfKeys(extent, part, parts, with_times=self._policy.with_times)
            async for batches in _each(reader):
                for one in batches:
                    last.add(one)
            sides[side] = last
        return keys.differences(window, sides[Side.SOURCE], sides[Side.TARGET])


async def _each(reader: BatchReader) -> AsyncIterator[list[Batch]]:
    while not reader.ended:
        yield await reader.read()


def _removed(readers: Mapping[Side, BatchReader]) -> str | None:
    """Return a sentence if retention was faster than the comparison."""
    for side, reader in readers.items():
        if reader.removed_until is not None:
            return (
                f"the {side.value} has removed records up to offset {reader.removed_until} meanwhile: verify it again"
            )
    return None
