"""Share groups in the harness of the group coordinator: heartbeats in short form, and a share coordinator that answers
when the test says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker_cy.coordinator.group_machine import GroupMachine
from broker_cy.coordinator.share import deletion, heartbeat, offsets
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.state_calls import DeleteState, InitializeState, Outcomes
from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.coordinator.share_state.state import SharePartitionKey
from broker_cy.coordinator.step import Call, ClientFacts, GroupStep
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata.image import ImageDelta
from broker_cy.wire import messages
from tests.broker_cy.coordinator.consumer_harness import Place, Topics
from tests.broker_cy.coordinator.harness import GROUP, Harness

UNKNOWN = Outcome(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class StateModel:
    """The state of share partitions at the share coordinator: state epoch and start offset."""

    def __init__(self) -> None:
        self.states: dict[SharePartitionKey, tuple[int, int]] = {}
        self.failing: dict[int, ErrorCode] = {}
        """The codes that requests about a partition get, by its index."""

    def serve(self, request: InitializeState | DeleteState) -> Outcomes:
        if isinstance(request, InitializeState):
            keys = [
                SharePartitionKey(request.group_id, topic_id, partition)
                for topic_id, starts in request.start_offsets.items()
                for partition in starts
            ]
            return {key: self._initialize(request, key) for key in keys}
        return {
            key: self._delete(key)
            for group_id, partitions in request.groups.items()
            for topic_id, numbers in partitions.items()
            for key in (SharePartitionKey(group_id, topic_id, number) for number in sorted(numbers))
        }

    def _initialize(self, request: InitializeState, key: SharePartitionKey) -> Outcome:
        if key.partition in self.failing:
            return Outcome(self.failing[key.partition], "failing")
        known = self.states.get(key)
        if known is not None and known[0] > request.state_epoch:
            return Outcome(ErrorCode.FENCED_STATE_EPOCH, "fenced")
        if known is not None and request.keeps:
            return Outcome()
        self.states[key] = (request.state_epoch, request.start_offsets[key.topic_id][key.partition])
        return Outcome()

    def _delete(self, key: SharePartitionKey) -> Outcome:
        if key.partition in self.failing:
            return Outcome(self.failing[key.partition], "failing")
        self.states.pop(key, None)
        return Outcome()


class ShareHarness(Harness):
    """`topics` are in the metadata of the state machine. Calls wait in `calls`."""

    def __init__(self, topics: Topics | None = None, **settings: Any) -> None:
        self.calls: list[Call] = []
        self.state = StateModel()
        super().__init__(**settings)
        self.topics = topics or Topics(t=4)
        self.machine.take_image(self.topics.image)

    def take(self, step: GroupStep) -> GroupStep:
        self.calls += step.calls
        return super().take(step)

    def serve(self, count: int | None = None) -> list[Any]:
        """Let the share coordinator answer the first calls, or all; returns their requests."""
        served, self.calls = self.calls[:count], self.calls[len(self.calls[:count]) :]
        for call in served:
            self.run(call.then, *call.about, self.state.serve(call.request))
        return [call.request for call in served]

    def restart(self) -> None:
        """Load another state machine from the log, and take what it does at first."""
        self.calls, self.held, self.works = [], [], []
        self.machine = GroupMachine(self.settings)
        self.machine.take_image(self.topics.image)
        for offset, record in enumerate(self.log):
            self.machine.apply(offset, -1, record.key, record.value)
        self.take(self.machine.loaded(self.now))

    def sharers(self, group_id: str = GROUP) -> ShareGroup:
        group = self.machine.groups.get(group_id)
        assert isinstance(group, ShareGroup)
        return group

    def change(self, delta: ImageDelta) -> GroupStep:
        return self.take(self.machine.metadata_changed(delta, self.topics.image))

    # ---- requests ----

    def beat(
        self,
        token: object,
        member_id: str,
        epoch: int,
        names: Iterable[str] | None = None,
        *,
        group_id: str = GROUP,
        rack_id: str | None = None,
        client_id: str = "client",
    ) -> Any:
        """Return the response, None while it is awaited."""
        request = messages.ShareGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            rack_id=rack_id,
            subscribed_topic_names=None if names is None else list(names),
        )
        self.run(heartbeat.heartbeat, request, ClientFacts(client_id, "/127.0.0.1", 1), token)
        return self.answers.get(token)

    def enter(self, token: object, member_id: str, *names: str, **how: Any) -> Any:
        """Join with a first heartbeat."""
        return self.beat(token, member_id, 0, names or ("t",), **how)

    def alter(self, token: object, *starts: tuple[str, int, int], group_id: str = GROUP) -> Any:
        """Set start offsets, given as (topic, partition, offset)."""
        topics: dict[str, list[Any]] = {}
        for topic, partition, offset in starts:
            topics.setdefault(topic, []).append(
                messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition(
                    partition_index=partition, start_offset=offset
                )
            )
        request = [
            messages.AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=each)
            for name, each in topics.items()
        ]
        self.run(offsets.alter, group_id, request, token)
        return self.answers.get(token)

    def delete_start_offsets(self, token: object, *names: str, group_id: str = GROUP) -> Any:
        self.run(offsets.delete, group_id, names, token)
        return self.answers.get(token)

    def delete_share_groups(self, token: object, *group_ids: str) -> Mapping[str, ErrorCode] | None:
        self.run(deletion.delete_groups, group_ids, token)
        found: Mapping[str, ErrorCode] | None = self.answers.get(token)
        return found

    # ---- what is known ----

    def code(self, token: object) -> ErrorCode:
        return ErrorCode(self.answers[token].error_code)

    def assigned(self, token: object) -> set[Place] | None:
        """The partitions in an answer; None if it has no assignment."""
        assignment = self.answers[token].assignment
        if assignment is None:
            return None
        return self.topics.places({each.topic_id: each.partitions for each in assignment.topic_partitions})

    def initialized(self, group_id: str = GROUP) -> set[Place]:
        return self.topics.places(self.sharers(group_id).share_partitions.initialized)

    def initializing(self, group_id: str = GROUP) -> set[Place]:
        return self.topics.places(self.sharers(group_id).share_partitions.initializing)

    def ready(self, member_id: str = "m", *names: str, **how: Any) -> int:
        """Let a member join, and get the partitions of its topics; returns its epoch."""
        first = self.enter(f"{member_id} joins", member_id, *names, **how)
        self.serve()
        self.advance(1_000)
        second = self.beat(f"{member_id} beats", member_id, first.member_epoch, **how)
        epoch: int = second.member_epoch
        return epoch
