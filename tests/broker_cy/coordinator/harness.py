"""A `GroupMachine` with a manual clock, a log in memory, and requests in short form. The file is long because it has
each request of a group coordinator once, for the tests of all types of groups.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from broker_cy.coordinator import admin, commit, fetch
from broker_cy.coordinator.classic import join, membership, sync
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.settings import GroupSettings
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.step import ClientFacts, GroupStep, Place, Record
from broker_cy.coordinator.streams.group import StreamsGroup
from broker_cy.coordinator.written import WrittenGroups
from broker_cy.core.errors import ErrorCode
from broker_cy.core.step import Now, Work
from broker_cy.core.uuid import ZERO
from broker_cy.metadata.image import MetadataImage
from broker_cy.wire import messages

GROUP = "readers"
SESSION_MS = 10_000
RETENTION_MS = 100_000
REBALANCE_MS = 60_000
TOPIC_ID = UUID(int=0x1234)
RANGE = (("range", b"\x00\x00"),)


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription version 0."""
    out = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        out += struct.pack(">h", len(topic)) + topic.encode()
    return out + struct.pack(">i", -1)


class Harness:
    """Runs operations; `answers` has every response by token. Records are written immediately unless `hold` is set."""

    def __init__(self, **settings: Any) -> None:
        self.settings = GroupSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.wall_ms = 1_700_000_000_000
        self.mono_ms = 0
        self.log: list[Record] = []
        self.answers: dict[object, Any] = {}
        self.committed: list[Place] = []
        self.hold = False
        self.held: list[GroupStep] = []
        self.works: list[Work] = []
        self.machine = GroupMachine(self.settings)
        self.loaded = self.machine.loaded(self.now)
        self._unique = 0

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.mono_ms)

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        group = self.machine.classic(group_id)
        assert group is not None
        return group

    # ---- steps ----

    def take(self, step: GroupStep) -> GroupStep:
        for token, response in step.replies:
            assert token not in self.answers, f"{token} is answered twice"
            self.answers[token] = response
        self.committed += step.committed
        self.works += step.work
        if step.records or step.follows:
            self.held.append(step)
            # Without records before it, a step without records waits for nothing.
            if not self.hold or not any(each.records for each in self.held):
                self.write()
        return step

    def write(self) -> None:
        """The held records reach the disk."""
        steps, self.held = self.held, []
        for step in steps:
            self.log += step.records
        self.take(self.machine.written(steps, self.now))

    def fail(self, code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """The held records cannot be written."""
        steps, self.held = self.held, []
        self.take(self.machine.failed(steps, code, self.now))

    def time_out(self) -> None:
        """The held records are in the log, and not committed when their answers are due."""
        self.take(self.machine.timed_out([step for step in self.held if not step.is_late], self.now))

    def restart(self) -> None:
        """Load another state machine from the log. The results of earlier work do not come any more."""
        self.held.clear()
        self.works = []
        self.machine = replayed(self.log, self.settings, self.now, self.machine.image)

    def work(self) -> None:
        """Let the work in the background be done, and take its results."""
        works, self.works = self.works, []
        for work in works:
            self.run(work.then, *work.about, work.function(*work.arguments))

    def works_end(self, passes_max: int = 1_000) -> None:
        """Let the work in the background be done, and that which its results begin."""
        for _ in range(passes_max):
            if not self.works:
                return
            self.work()
        raise AssertionError("the work in the background does not end")

    # ---- time ----

    def advance(self, ms: int) -> None:
        """Let time pass, and run everything that becomes due at its time."""
        end = self.mono_ms + ms
        while (wake := self.machine.next_wake_ms()) is not None and wake <= end:
            self._move(max(wake, self.mono_ms))
            self.take(self.machine.expire(self.now))
        self._move(end)

    def _move(self, mono_ms: int) -> None:
        self.wall_ms += mono_ms - self.mono_ms
        self.mono_ms = mono_ms

    # ---- requests ----

    def run(self, operation: Any, *request: Any) -> GroupStep:
        return self.take(self.machine.run(operation, *request, self.now))

    def _token(self) -> object:
        self._unique += 1
        return f"request {self._unique}"

    # ---- reads ----

    def written(self) -> WrittenGroups:
        return WrittenGroups(self.machine.groups, self.held)

    def describe(self, group_id: str = GROUP, version: int = 6) -> Any:
        return admin.describe(self.written(), group_id, version)

    def list_groups(self, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[Any]:
        groups = self.written()
        found = [group for group_id in groups.ids() if (group := groups.get(group_id)) is not None]
        return admin.list_groups(found, states, types)

    def join(
        self,
        token: object,
        member_id: str = "",
        *,
        version: int = 9,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocol_type: str = "consumer",
        protocols: Iterable[tuple[str, bytes]] = RANGE,
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client_id: str = "client",
    ) -> Any:
        """Return the response, None while it is awaited."""
        self._unique += 1
        request = messages.JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocols=[
                messages.JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols
            ],
        )
        client = ClientFacts(client_id, "/127.0.0.1", version)
        self.run(join.join, request, client, f"u{self._unique}", token)
        return self.answers.get(token)

    def join_new(self, token: object, **how: Any) -> str:
        """Request an id, then join with it. Returns the id; the response is stored under `token`."""
        first = self.join((token, "id"), **how)
        assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id: str = first.member_id
        self.join(token, member_id, **how)
        return member_id

    def sync(
        self,
        token: object,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = GROUP,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
    ) -> Any:
        request = messages.SyncGroupRequest(
            group_id=group_id,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[
                messages.SyncGroupRequest.SyncGroupRequestAssignment(member_id=name, assignment=assignment)
                for name, assignment in (assignments or {}).items()
            ],
        )
        self.run(sync.sync, request, token)
        return self.answers.get(token)

    def heartbeat(
        self,
        member_id: str,
        generation: int,
        *,
        token: object = None,
        instance_id: str | None = None,
        group_id: str = GROUP,
    ) -> ErrorCode | None:
        """Return the code; None while it is awaited."""
        token = token or self._token()
        request = messages.HeartbeatRequest(
            group_id=group_id, generation_id=generation, member_id=member_id, group_instance_id=instance_id
        )
        self.run(membership.heartbeat, request, token)
        answer = self.answers.get(token)
        return None if answer is None else ErrorCode(answer.error_code)

    def leave(self, token: object, *members: tuple[str, str | None], group_id: str = GROUP) -> list[ErrorCode]:
        """Remove members given as (member id, instance id); returns the code of each."""
        identities = [
            messages.LeaveGroupRequest.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
            for member_id, instance_id in members
        ]
        self.run(membership.leave, group_id, identities, token)
        answer = self.answers.get(token)
        return [] if answer is None else [ErrorCode(member.error_code) for member in answer.members]

    def commit(
        self,
        token: object,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        group_id: str = GROUP,
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        instance_id: str | None = None,
        version: int = 9,
        retention_ms: int = -1,
        leader_epoch: int = -1,
        topic_id: UUID = TOPIC_ID,
    ) -> ErrorCode | None:
        """Return the code of the only partition; None while it is awaited."""
        request = messages.OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance_id,
            retention_time_ms=retention_ms,
            topics=[
                messages.OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        messages.OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        self.run(commit.commit, request, version, token)
        answer = self.answers.get(token)
        return None if answer is None else ErrorCode(answer.topics[0].partitions[0].error_code)

    def fetch(
        self,
        *,
        group_id: str = GROUP,
        topic: str = "t",
        partition: int = 0,
        topic_id: UUID = ZERO,
        require_stable: bool = False,
        token: object = None,
        member_id: str | None = None,
        member_epoch: int = -1,
    ) -> Any:
        """Return the response for one partition, or the group's if that has an error; None while it is awaited."""
        request = messages.OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group_id,
            member_id=member_id,
            member_epoch=member_epoch,
            topics=[
                messages.OffsetFetchRequest.OffsetFetchRequestTopics(
                    name=topic, topic_id=topic_id, partition_indexes=[partition]
                )
            ],
        )
        if require_stable:
            token = token or self._token()
            self.run(fetch.fetch_stable_offsets, request, token)
            answer = self.answers.get(token)
        else:
            answer = fetch.fetch_offsets(self.machine, request, self.held)
        return answer if answer is None or answer.error_code else answer.topics[0].partitions[0]

    def delete_offsets(self, token: object, topic: str, *partitions: int, group_id: str = GROUP) -> Any:
        request = messages.OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                messages.OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        messages.OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index)
                        for index in partitions
                    ],
                )
            ],
        )
        self.run(commit.delete_offsets, request, token)
        return self.answers.get(token)

    def delete_groups(self, token: object, *group_ids: str) -> dict[str, ErrorCode]:
        self.run(admin.delete_groups, group_ids, token)
        answer = self.answers.get(token)
        return {} if answer is None else {r.group_id: ErrorCode(r.error_code) for r in answer.results}

    # ---- whole scenarios ----

    def stable(self, *names: str, **how: Any) -> list[str]:
        """Make a stable group of dynamic members, the first of them its leader; returns their ids. Each is assigned its
        own id.
        """
        delay = self.settings.initial_rebalance_delay_ms
        ids = [self.join_new(f"join {name}", **how) for name in names]
        self.advance(delay + 1)
        while any(f"join {name}" not in self.answers for name in names):
            self.advance(self.settings.initial_rebalance_delay_ms + 1)
        generation = self.group().generation
        leader = self.group().leader_id
        assert leader is not None
        for name, member_id in zip(names, ids, strict=True):
            if member_id != leader:
                self.sync(f"sync {name}", member_id, generation)
        self.sync(f"sync {names[ids.index(leader)]}", leader, generation, {i: i.encode() for i in ids})
        return ids


def replayed(
    log: Iterable[Record], settings: GroupSettings, now: Now, image: MetadataImage | None = None
) -> GroupMachine:
    """Return a state machine loaded from records."""
    machine = GroupMachine(settings)
    if image is not None:
        machine.take_image(image)
    for offset, record in enumerate(log):
        machine.apply(offset, -1, record.key, record.value)
    machine.loaded(now)
    return machine


def consumer_state(group: ConsumerGroup) -> tuple[Any, ...]:
    """Return the durable state of a consumer group, for comparison."""
    return (
        (group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_at_ms),
        group.has_partition_metadata,
        (dict(group.members), dict(group.target), dict(group.resolved), dict(group.static_members)),
        {topic_id: dict(partitions) for topic_id, partitions in group.owners.items()},
        (dict(group.by_name), dict(group.by_regex), dict(group.regex_members), dict(group.assignors)),
        (group.classic_members, dict(group.classic_protocols)),
    )


def streams_state(group: StreamsGroup) -> tuple[Any, ...]:
    """Return the durable state of a streams group, for comparison."""
    return (
        (group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_at_ms),
        (group.topology, dict(group.readers), group.validated_epoch, dict(group.assignment_configs)),
        (dict(group.members), dict(group.target), dict(group.active)),
        {task: dict(processes) for task, processes in group.copies.items()},
    )


def share_state(group: ShareGroup) -> tuple[Any, ...]:
    """Return the durable state of a share group, for comparison."""
    return (
        (group.epoch, group.metadata_hash, group.assignment_epoch, group.assigned_at_ms),
        (dict(group.members), dict(group.target), dict(group.by_name), group.share_partitions),
    )


def durable(machine: GroupMachine) -> dict[str, Any]:
    """Return the durable state, for comparison."""
    groups_of = {
        topic: set(machine.offsets.groups_of(topic)) for each in machine.offsets.by_group.values() for topic in each
    }
    return {
        "groups by topic": groups_of,
        "groups": {group.group_id: group.record for group in machine.classic_groups() if group.record is not None},
        "offsets": {
            (group, topic, index): offset
            for group, topics in machine.offsets.by_group.items()
            for topic, partitions in topics.items()
            for index, offset in partitions.items()
        },
        "consumer": {
            group.group_id: consumer_state(group)
            for group in machine.groups.values()
            if isinstance(group, ConsumerGroup)
        },
        "streams": {
            group.group_id: streams_state(group) for group in machine.groups.values() if isinstance(group, StreamsGroup)
        },
        "share": {
            group.group_id: share_state(group) for group in machine.groups.values() if isinstance(group, ShareGroup)
        },
        "subscribers": {
            topic: {*machine.subscribers.of(topic), *machine.subscribers.wide}
            for group in machine.groups.values()
            if isinstance(group, EpochGroup)
            for topic in group.subscribed_topics()
        },
        "pending": sorted(machine.offsets.pending_offsets(), key=repr),
    }
