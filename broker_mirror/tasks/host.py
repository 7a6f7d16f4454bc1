"""Carries the plans of the tasks out with admin calls. Each method is one turn of a task; it raises ClientError if the
turn failed as a whole, and notes problems of single topics and groups in `problems`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

from broker_cy.admin import AdminClient, ClientError
from broker_cy.admin.acls import EVERY
from broker_cy.admin.caller import Outcome
from broker_cy.admin.configs import ConfigChange, ConfigEntry, ConfigResource, ResourceType
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.group_offsets import CommittedOffset
from broker_cy.admin.group_values import SHARE
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.produce import Producer
from broker_cy.admin.share_offsets import ShareOffsets
from broker_cy.admin.topic_log import COMPACT, LogSettings, Loss, Take, TopicLog
from broker_cy.admin.topics import NewTopic
from broker_cy.core.errors import ErrorCode
from broker_cy.wire.records import Record
from broker_mirror.filters import NameFilter
from broker_mirror.flows import Flow
from broker_mirror.formats import checkpoints as checkpoint_records
from broker_mirror.formats import offset_syncs
from broker_mirror.formats.fields import DamagedRecord, RecordReader
from broker_mirror.formats.heartbeats import Heartbeat
from broker_mirror.merged import Side
from broker_mirror.policy import HEARTBEATS
from broker_mirror.tasks.acls import plan_acls
from broker_mirror.tasks.checkpoints import Checkpoints, plan_checkpoints
from broker_mirror.tasks.groups import (
    ABSENT,
    committing_groups,
    plan_offsets,
    plan_share_offsets,
    relevant,
    share_groups,
)
from broker_mirror.tasks.topics import ClusterTopics, TopicPlan, configs_of_new, plan_configs, plan_topics
from broker_mirror.translation import Translation

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

GROUPS_A_TURN: Final = 100
"""Groups whose offsets are read and translated at a time, so that others of the loop have their turns."""
PROBLEMS_MAX: Final = 1_000
"""Problems that are kept for each task; further ones are counted in one text."""


class FlowTasks:
    """The tasks of one flow. Use it inside one running loop: `async with FlowTasks(...) as tasks`."""

    def __init__(
        self, flow: Flow, source: AdminClient, target: AdminClient, returning: NameFilter | None = None
    ) -> None:
        """`returning`: see plan_topics."""
        self.flow, self._source, self._target = flow, source, target
        self._returning = returning
        self.plan = TopicPlan({}, {}, (), {}, ())
        self.translation = Translation()
        self.checkpoints = Checkpoints()
        # Sentences by topic or group, of the last turn of each task.
        self.problems: dict[str, dict[str, str]] = {}
        # The length of the last turn of emit.checkpoints, and the time of its end.
        self.checkpoint_ms: int | None = None
        self.checkpoint_at_ms: int | None = None
        self._groups: list[str] = []
        self._share_groups: list[str] = []
        # Partitions with translated offsets by group, for people.
        self.translated: dict[str, int] = {}
        self._synced: dict[str, dict[TopicPartition, int]] = {}
        self._producer = Producer(target.caller)
        self._opening = asyncio.Lock()
        self._checkpoint_log: TopicLog | None = None
        self._sync_log: TopicLog | None = None

    async def __aenter__(self) -> FlowTasks:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await _close(self._sync_log)
        await _close(self._checkpoint_log)

    def _note(self, task: str, found: Mapping[str, str]) -> None:
        kept = dict(list(found.items())[:PROBLEMS_MAX])
        if len(found) > len(kept):
            kept["others"] = f"{len(found) - len(kept)} more"
        self.problems[task] = kept

    # ------------------------------------------------------------------------------------------------ topics

    async def refresh_topics(self, *, changes: bool) -> TopicPlan:
        """Compare the topics of both clusters; with `changes`, create topics and partitions in the target."""
        source, target = await asyncio.gather(_topics(self._source), _topics(self._target))
        plan = plan_topics(self.flow, source, target, self._returning)
        problems = dict(plan.problems)
        if changes:
            failed = await self._create(plan.create)
            failed |= _texts((await self._target.topics.add_partitions(plan.grow)) if plan.grow else None)
            problems |= {f"{name} in the target": text for name, text in failed.items()}
        self._note("refresh.topics", problems)
        self.plan = plan
        return plan

    async def _create(self, wanted: Mapping[str, tuple[str, int]]) -> dict[str, str]:
        if not wanted:
            return {}
        settings = await _configs(self._source, [topic for topic, _ in wanted.values()])
        new, failed = [], _texts(settings)
        for remote, (topic, partitions) in wanted.items():
            resource = ConfigResource(ResourceType.TOPIC, topic)
            if resource in settings.found:
                configs = configs_of_new(self.flow, settings.found[resource])
                new.append(NewTopic(remote, partitions, self.flow.values["replication.factor"], configs))
        outcome = await self._target.topics.create(new)
        return failed | {
            name: str(error)
            for name, error in outcome.failed.items()
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS
        }

    async def sync_topic_configs(self) -> None:
        """Give the remote topics the settings of their sources."""
        topics = self.plan.topics
        remote = {topic: self.flow.remote_topic(topic) for topic in topics}
        source, target = await asyncio.gather(_configs(self._source, topics), _configs(self._target, remote.values()))
        changes: dict[ConfigResource, tuple[ConfigChange, ...]] = {}
        for topic in topics:
            ours = ConfigResource(ResourceType.TOPIC, topic)
            theirs = ConfigResource(ResourceType.TOPIC, remote[topic])
            if ours in source.found and theirs in target.found:
                planned = plan_configs(self.flow, source.found[ours], target.found[theirs])
                if planned:
                    changes[theirs] = planned
        failed = _texts(source) | _texts(target)
        if changes:
            failed |= _texts(await self._target.configs.alter(changes))
        self._note("sync.topic.configs", failed)

    async def sync_topic_acls(self) -> None:
        """Give the remote topics the ACLs of their sources. Clusters without an authorizer have none."""
        try:
            source = await self._source.acls.describe(EVERY)
            target = await self._target.acls.describe(EVERY)
        except ClientError as error:
            if error.code is not ErrorCode.SECURITY_DISABLED:
                raise
            self._note("sync.topic.acls", {})
            return
        wanted = plan_acls(self.flow, source, target)
        self._note("sync.topic.acls", _texts(await self._target.acls.create(wanted)) if wanted else {})

    async def emit_heartbeat(self) -> None:
        """Write a heartbeat into the target."""
        now_ms = int(time.time() * 1000)
        beat = Heartbeat(self.flow.source, self.flow.target, now_ms)
        record = Record(timestamp=now_ms, key=beat.key(), value=beat.value())
        place = TopicPartition(HEARTBEATS, 0)
        try:
            await self._producer.send_batch(place, [record])
        except ClientError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            replicas = self.flow.values["heartbeats.topic.replication.factor"]
            created = await self._target.topics.create([NewTopic(HEARTBEATS, 1, replicas, {"cleanup.policy": COMPACT})])
            for failure in created.failed.values():
                if failure.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise failure from None
            await self._producer.send_batch(place, [record])

    # ------------------------------------------------------------------------------------------------ groups

    @property
    def has_groups(self) -> bool:
        """Whether `refresh_groups` has found a group."""
        return bool(self._groups)

    async def refresh_groups(self) -> None:
        """Look for the groups of the source whose offsets are translated."""
        listed = await self._source.groups.listed()
        offsets = await self._committed(committing_groups(self.flow.groups, listed))
        self._groups = sorted(relevant(self.flow, offsets))
        self._share_groups = share_groups(self.flow.groups, listed)

    async def emit_checkpoints(self) -> None:
        """Write checkpoints for the offsets that groups have committed since the last turn."""
        begin_s = asyncio.get_running_loop().time()
        log = await self._logs()
        offsets = await self._committed(self._groups)
        translated: dict[str, int] = {}
        points = list(plan_checkpoints(self.flow, offsets, self.translation, self.checkpoints))
        now_ms = int(time.time() * 1000)
        records, damaged = [], {}
        for each in points:
            try:
                records.append(Record(timestamp=now_ms, key=each.key(), value=each.value()))
            except ValueError as error:
                damaged[each.group] = f"the offset of {each.topic}-{each.partition} has no checkpoint: {error}"
        for begin in range(0, len(records), 1000):
            await log.append(records[begin : begin + 1000])
        for group, lasts in self.checkpoints.of_groups(self._groups).items():
            translated[group] = len(lasts)
        self.translated = translated
        self._note("emit.checkpoints", damaged)
        self.checkpoint_ms = int((asyncio.get_running_loop().time() - begin_s) * 1000)
        self.checkpoint_at_ms = int(time.time() * 1000)

    async def sync_group_offsets(self) -> None:
        """Commit the translated offsets of groups in the target, for those that have no members there."""
        await self._logs()
        failed: dict[str, str] = {}
        points = self.checkpoints.of_groups(self._groups)
        states = {each.group_id: each.state for each in await self._target.groups.listed()}
        names = list(points)
        for begin in range(0, len(names), GROUPS_A_TURN):
            part = names[begin : begin + GROUPS_A_TURN]
            committed = await self._target.group_offsets.fetch(part)
            failed |= _texts(committed)
            for group in part:
                if group not in committed.found:
                    continue
                synced = self._synced.setdefault(group, {})
                state = states.get(group, ABSENT)
                wanted = plan_offsets(points[group], state, committed.found[group], synced)
                if wanted:
                    texts = {
                        TopicPartition(each.checkpoint.topic, each.checkpoint.partition): each.checkpoint.metadata
                        for each in points[group]
                    }
                    failed |= await self._commit(group, wanted, texts, synced)
        self._synced = {group: each for group, each in self._synced.items() if group in points}
        failed |= (await self.sync_share_groups(states))[1]
        self._note("sync.group.offsets", failed)

    async def _commit(
        self,
        group: str,
        wanted: Mapping[TopicPartition, int],
        texts: Mapping[TopicPartition, str],
        synced: dict[TopicPartition, int],
    ) -> dict[str, str]:
        try:
            outcome = await self._target.group_offsets.alter(group, wanted, texts)
        except ClientError as error:
            # A member has joined since.
            return {} if error.code is ErrorCode.UNKNOWN_MEMBER_ID else {group: str(error)}
        synced.update(outcome.found)
        return {f"{group}, {key}": str(error) for key, error in outcome.failed.items()}

    async def sync_share_groups(self, states: Mapping[str, str]) -> tuple[dict[str, int], dict[str, str]]:
        """Set the translated start offsets of share groups in the target. `states` are those of the groups there.
        Returns the number of partitions of each group that has some, and problems by group.
        """
        if not self._share_groups:
            return {}, {}
        synced: dict[str, int] = {}
        source = await self._source.share_offsets.describe(self._share_groups)
        known = [group for group in self._share_groups if group in states]
        target = await self._target.share_offsets.describe(known)
        failed = _texts(source) | _texts(target)
        for group, offsets in source.found.items():
            if group in target.failed:
                continue
            theirs: ShareOffsets = target.found.get(group, {})
            wanted = plan_share_offsets(self.flow, offsets, self.translation, states.get(group, ABSENT), theirs)
            if count := len({*wanted, *(key for key, each in theirs.items() if each.start is not None)}):
                synced[group] = count
            if not wanted:
                continue
            try:
                outcome = await self._target.share_offsets.alter(group, wanted)
                failed |= {f"{group}, {key}": str(error) for key, error in outcome.failed.items()}
            except ClientError as error:
                failed[group] = f"the target has no {SHARE} group {group}: {error}"
        return synced, failed

    async def _committed(self, groups: Iterable[str]) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        outcome = await self._source.group_offsets.fetch(groups)
        self._note("refresh.groups", _texts(outcome))
        return outcome.found

    # ------------------------------------------------------------------------------------------------ logs

    async def _logs(self) -> TopicLog:
        """Return the log of the checkpoints, after that of the offset syncs was read to its end. A log that has ended,
        such as that of a topic that was created again, is read from its start into an empty state.
        """
        values = self.flow.values
        async with self._opening:
            if self._sync_log is None or self._sync_log.failure is not None:
                await _close(self._sync_log)
                self.translation = Translation()
                client = self._source if self.flow.syncs_side is Side.SOURCE else self._target
                replicas = values["offset-syncs.topic.replication.factor"]
                self._sync_log = await _opened(client, self.flow.offset_syncs_topic, replicas, self._take_syncs)
            else:
                await self._sync_log.read_to_end()
            if self._checkpoint_log is None or self._checkpoint_log.failure is not None:
                await _close(self._checkpoint_log)
                self.checkpoints = Checkpoints()
                replicas = values["checkpoints.topic.replication.factor"]
                self._checkpoint_log = await _opened(
                    self._target, self.flow.checkpoints_topic, replicas, self._take_checkpoints
                )
            return self._checkpoint_log

    def _take_syncs(self, chunk: Chunk) -> None:
        for record in chunk.records:
            try:
                sync = offset_syncs.decode(record.key, record.value, record.headers)
            except DamagedRecord as error:
                self._note("offset syncs", {"damaged": str(error)})
                continue
            self.translation.apply(sync)

    def _take_checkpoints(self, chunk: Chunk) -> None:
        for record in chunk.records:
            try:
                if record.value is None:
                    key = RecordReader("the key of a checkpoint", record.key)
                    self.checkpoints.forget((key.string("group"), key.string("topic"), key.int32("partition")))
                else:
                    self.checkpoints.apply(checkpoint_records.decode(record.key, record.value))
            except DamagedRecord as error:
                self._note("checkpoints", {"damaged": str(error)})


async def _opened(client: AdminClient, topic: str, replicas: int, take: Take) -> TopicLog:
    # Deleted offset syncs make translations smaller; they are no reason to stop.
    settings = LogSettings(create=NewTopic(topic, 1, replicas), on_loss=Loss.WARN)
    return await client.topic_log(topic, take, settings).__aenter__()


async def _close(log: TopicLog | None) -> None:
    if log is not None:
        await log.close()


async def _topics(client: AdminClient) -> ClusterTopics:
    found, failed = await client.caller.metadata.refresh(None, client.caller.deadline())
    counts = {name: len(topic.partitions) for name, topic in found.items()}
    return ClusterTopics(counts, {name: str(error) for name, error in failed.items()})


async def _configs(client: AdminClient, topics: Iterable[str]) -> Outcome[ConfigResource, tuple[ConfigEntry, ...]]:
    resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
    return await client.configs.describe(resources) if resources else Outcome({}, {})


def _texts(outcome: Outcome[K, V] | None) -> dict[str, str]:
    return {} if outcome is None else {str(key): str(error) for key, error in outcome.failed.items()}
