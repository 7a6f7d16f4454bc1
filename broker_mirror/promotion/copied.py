"""The planned failover of topics of a copy flow. They take records of producers all the time, so nothing has to be
promoted: what is left is to wait for the last records, and to commit the translated offsets of groups.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.metadata import TopicPartition
from broker_mirror.flows import Flow
from broker_mirror.formats import checkpoints as checkpoint_records
from broker_mirror.formats.fields import DamagedRecord
from broker_mirror.lag import lag_of
from broker_mirror.promotion.linked import PromotionRow, Show, wait_until_copied
from broker_mirror.proof.clients import records_of
from broker_mirror.status import PartitionLag
from broker_mirror.tasks.checkpoints import Checkpoints
from broker_mirror.tasks.groups import ABSENT, plan_offsets
from broker_mirror.tasks.host import FlowTasks

LOOK_S: Final = 1.0
STATE: Final = "copied"


def is_wanted(flow: Flow, topic: str, topics: Collection[str]) -> bool:
    """Whether a topic of the source is one of those to wait for: its remote topic is among `topics`, without any: all
    of the flow except heartbeats, which never end.
    """
    if topics:
        return flow.remote_topic(topic) in topics
    return not flow.policy.is_heartbeats_topic(topic)


def rows_of(flow: Flow, lags: Collection[PartitionLag]) -> list[PromotionRow]:
    """Return the topics of the target with these lags."""
    found: dict[str, list[PartitionLag]] = {}
    for each in lags:
        found.setdefault(each.topic, []).append(each)
    rows = []
    for topic, parts in sorted(found.items()):
        numbers = [each.lag for each in parts if each.lag is not None]
        is_known = len(numbers) == len(parts)
        rows.append(
            PromotionRow(
                flow.remote_topic(topic),
                "",
                topic,
                len(parts),
                sum(numbers) if is_known else None,
                sum(each > 0 for each in numbers) if is_known else None,
                0,
                STATE,
            )
        )
    return rows


class CopyPromotion:
    """`topics` are those of the target, see is_wanted."""

    def __init__(self, flow: Flow, source: AdminClient, target: AdminClient, topics: Collection[str]) -> None:
        self._flow, self._source, self._target, self._topics = flow, source, target, topics

    async def _lags(self) -> list[PartitionLag]:
        return [each for each in await lag_of(self._flow) if is_wanted(self._flow, each.topic, self._topics)]

    async def rows(self, *, is_forced: bool) -> list[PromotionRow]:
        """Return the topics as they are now. Raises ClientError; but if it is forced, a source that does not answer
        has no topics that are known.
        """
        try:
            return rows_of(self._flow, await self._lags())
        except ClientError:
            if not is_forced:
                raise
            infos = await self._target.topics.list_all()
            upstream = {each.name: self._flow.policy.upstream_topic(each.name) for each in infos}
            return [
                PromotionRow(each.name, "", topic, len(each.partitions), None, None, 0, STATE)
                for each in infos
                if (topic := upstream[each.name]) is not None
                and self._flow.remote_topic(topic) == each.name
                and self._flow.copies_topic(topic)
                and is_wanted(self._flow, topic, self._topics)
            ]

    async def wait(self, timeout_s: float, show: Show) -> list[PromotionRow]:
        """Wait until everything was copied: see `wait_until_copied`."""

        async def look() -> tuple[list[PromotionRow], Sequence[int | None]]:
            lags = await self._lags()
            return rows_of(self._flow, lags), [each.end for each in lags]

        return await wait_until_copied(look, LOOK_S, timeout_s, show)

    async def commit_groups(self, *, is_forced: bool) -> tuple[dict[str, int], dict[str, str]]:
        """Commit the translated offsets of groups in the target. Unless it is forced, newest checkpoints are written
        first, and share groups, which have none, get their start offsets. Returns the number of partitions of each
        group, and problems by group. Raises ClientError.
        """
        states = {each.group_id: each.state for each in await self._target.groups.listed()}
        carried: dict[str, int] = {}
        problems: dict[str, str] = {}
        if not is_forced:
            async with FlowTasks(self._flow, self._source, self._target) as tasks:
                await tasks.refresh_groups()
                await tasks.emit_checkpoints()
                carried, problems = await tasks.sync_share_groups(states)
        known = Checkpoints()
        groups: dict[str, None] = {}
        async for record in records_of(self._target, self._flow.checkpoints_topic):
            if record.value is None:
                continue
            try:
                found = checkpoint_records.decode(record.key, record.value)
            except DamagedRecord:
                continue
            known.apply(found)
            groups[found.group] = None
        points = known.of_groups(group for group in groups if self._flow.groups.takes(group))
        there = await self._target.group_offsets.fetch(points) if points else None
        for group, lasts in points.items():
            carried[group] = len(lasts)
            committed = there.found.get(group, {}) if there is not None else {}
            wanted = plan_offsets(lasts, states.get(group, ABSENT), committed, {})
            texts = {TopicPartition(e.checkpoint.topic, e.checkpoint.partition): e.checkpoint.metadata for e in lasts}
            try:
                outcome = await self._target.group_offsets.alter(group, wanted, texts) if wanted else None
            except ClientError as error:
                problems[group] = str(error)
                continue
            if outcome is not None:
                problems |= {f"{group}, {key}": str(error) for key, error in outcome.failed.items()}
        return carried, problems

    def ended(self, row: PromotionRow) -> PromotionRow:
        return replace(row, left=row.lag)
