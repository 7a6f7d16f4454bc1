"""The way back after a failover: topics of the old source become mirrors of the topics that were promoted. Equal
records are not copied again; those that only the old source has are lost, and counted before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Leaders
from broker_cy.admin.configs import AlterOp, ConfigChange, ConfigResource, ResourceType
from broker_cy.admin.metadata import TopicInfo, TopicPartition
from broker_cy.admin.mirror_links import MirrorTopic
from broker_cy.admin.offsets import LATEST, OffsetAt
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.mirror_settings import LINK, SOURCE_TOPIC, SOURCE_TOPIC_ID
from broker_cy.wire import messages

# Partitions of one request.
PARTITIONS_MAX: Final = 2_000
# The newest leader epochs of a log that are compared.
EPOCHS_MAX: Final = 100
_CONSUMER: Final = -1
_UNKNOWN: Final = -1


class EpochEnd(NamedTuple):
    """The newest leader epoch of a log that is not after the one asked for, and where it ends; both -1 without one."""

    epoch: int
    end: int


@dataclass(frozen=True, slots=True)
class ReversalRow:
    """A topic of the old source. `lost` are its offsets that the promoted topic does not have, and `missing` those of
    the promoted topic that will be copied. None: not known. `state` is "topic", "mirror" or "mirror before".
    """

    topic: str
    promoted: str
    partitions: int
    lost: int | None
    missing: int | None
    state: str = "topic"
    problem: str = ""


async def epoch_ends(client: AdminClient, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, EpochEnd]:
    """Return the ends of leader epochs. Raises ClientError."""
    request_of = messages.OffsetForLeaderEpochRequest

    async def send(
        peer: Peer, keys: list[TopicPartition], deadline: Deadline
    ) -> dict[TopicPartition, EpochEnd | Problem]:
        topics: dict[str, list[messages.OffsetForLeaderEpochRequest.OffsetForLeaderPartition]] = {}
        for key in keys:
            part = request_of.OffsetForLeaderPartition(
                partition=key.partition, current_leader_epoch=_UNKNOWN, leader_epoch=wanted[key]
            )
            topics.setdefault(key.topic, []).append(part)
        request = request_of(
            replica_id=_CONSUMER,
            topics=[request_of.OffsetForLeaderTopic(topic=name, partitions=parts) for name, parts in topics.items()],
        )
        answer, _ = await client.caller.pool.ask(peer, request, messages.OffsetForLeaderEpochResponse, deadline)
        return {
            TopicPartition(topic.topic, part.partition): problem_of(part.error_code)
            or EpochEnd(part.leader_epoch, part.end_offset)
            for topic in answer.topics
            for part in topic.partitions
        }

    outcome = await client.caller.spread(
        wanted,
        Leaders(client.caller.metadata),
        send,
        api="OffsetForLeaderEpoch",
        name=lambda key: f"partition {key}",
        chunk=PARTITIONS_MAX,
    )
    return outcome.whole()


class Reversal:
    """`old` is the source before the failover, `promoted` the target. `link` leads from the brokers of the old source
    to the target.
    """

    def __init__(self, old: AdminClient, promoted: AdminClient, link: str, mirrors: Iterable[MirrorTopic]) -> None:
        self._old, self._promoted, self._link = old, promoted, link
        self._mirrors = list(mirrors)

    async def rows(self, now: Mapping[str, MirrorTopic]) -> list[ReversalRow]:
        """Return the topics as they are. `now` are those of the old source that are mirrors, or were promoted. Raises
        ClientError.
        """
        names = sorted({each.source for each in self._mirrors})
        infos, _ = await self._old.caller.metadata.refresh(names, self._old.caller.deadline())
        rows = []
        for mirror in self._mirrors:
            found = now.get(mirror.source)
            is_mirror = found is not None and found.link is not None
            row = ReversalRow(
                mirror.source, mirror.name, mirror.partitions, None, None, "mirror before" if is_mirror else "topic"
            )
            problem = problem_with(mirror, infos.get(mirror.source))
            if problem or is_mirror:
                rows.append(replace(row, problem=problem))
                continue
            rows.append(await self._counted(row, mirror, len(infos[mirror.source].partitions)))
        return rows

    async def _counted(self, row: ReversalRow, mirror: MirrorTopic, partitions: int) -> ReversalRow:
        pairs = {
            TopicPartition(mirror.source, index): TopicPartition(mirror.name, index) for index in range(partitions)
        }
        ours = (await self._old.offsets.at(dict.fromkeys(pairs, LATEST))).whole()
        theirs = (await self._promoted.offsets.at(dict.fromkeys(pairs.values(), LATEST))).whole()
        common = await self._common(pairs, ours)
        lost = sum((ours[key].offset or 0) - common[key] for key in pairs)
        missing = sum(max(0, (theirs[other].offset or 0) - common[key]) for key, other in pairs.items())
        return replace(row, partitions=partitions, lost=lost, missing=missing)

    async def _common(
        self, pairs: Mapping[TopicPartition, TopicPartition], ends: Mapping[TopicPartition, OffsetAt]
    ) -> dict[TopicPartition, int]:
        """Return up to which offset both logs are equal, by the leader epochs that both have (KIP-101)."""
        found = dict.fromkeys(pairs, 0)
        at = {key: EpochEnd(each.leader_epoch, each.offset or 0) for key, each in ends.items()}
        for _ in range(EPOCHS_MAX):
            at = {key: each for key, each in at.items() if each.epoch >= 0}
            if not at:
                break
            theirs = await epoch_ends(self._promoted, {pairs[key]: each.epoch for key, each in at.items()})
            for key, each in list(at.items()):
                other = theirs[pairs[key]]
                if other.epoch == each.epoch:
                    found[key] = min(each.end, other.end)
                    del at[key]
            # The newest epoch that both may have.
            earlier = {key: theirs[pairs[key]].epoch for key in at if theirs[pairs[key]].epoch >= 0}
            at = await epoch_ends(self._old, earlier) if earlier else {}
        return found

    async def carry_out(self, rows: Collection[ReversalRow]) -> list[ReversalRow]:
        """Make mirrors of the topics without a problem. Raises ClientError if the old source does not answer."""
        wanted = [row for row in rows if not row.problem and row.state == "topic"]
        changes = {}
        for row in wanted:
            source = (
                ConfigChange(SOURCE_TOPIC, AlterOp.DELETE)
                if row.promoted == row.topic
                else ConfigChange(SOURCE_TOPIC, AlterOp.SET, row.promoted)
            )
            changes[ConfigResource(ResourceType.TOPIC, row.topic)] = (
                ConfigChange(SOURCE_TOPIC_ID, AlterOp.DELETE),
                source,
                ConfigChange(LINK, AlterOp.SET, self._link),
            )
        failed = {}
        if changes:
            outcome = await self._old.configs.alter(changes)
            failed = {resource.name: str(error) for resource, error in outcome.failed.items()}
        done = {row.topic for row in wanted} - set(failed)
        return [
            replace(row, state="mirror" if row.topic in done else row.state, problem=failed.get(row.topic, row.problem))
            for row in rows
        ]


def problem_with(mirror: MirrorTopic, old: TopicInfo | None) -> str:
    """Return why a topic of the old source cannot mirror the promoted one; empty if it can."""
    if mirror.link is not None:
        return f"topic {mirror.name} is still a mirror: promote it first"
    if old is None:
        return f"the old source has no topic {mirror.source}: create it as a mirror"
    if old.topic_id != mirror.source_id:
        return f"topic {mirror.source} of the old source is another one than {mirror.name} was copied from"
    if len(old.partitions) > mirror.partitions:
        return f"topic {mirror.source} has {len(old.partitions)} partitions, and {mirror.name} only {mirror.partitions}"
    return ""
