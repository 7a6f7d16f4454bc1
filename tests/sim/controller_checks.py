"""The invariants of each operation of the controller: the states before and after it, and the reply, are compared."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

from broker_cy.controller.alter_partition import AlterPartition
from broker_cy.controller.broker_states import LeaveInSync, ReplaceLeaders, State
from broker_cy.controller.elections import UNCLEAN, ElectLeaders
from broker_cy.controller.operation import Operation
from broker_cy.controller.reassignment import AlterReassignments
from broker_cy.controller.registration import RegisterBroker
from broker_cy.metadata import features
from broker_cy.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from broker_cy.metadata.partition_index import is_reassigning
from tests.broker_cy.controller.acts import Act

Key = tuple[UUID, int]


class View(NamedTuple):
    """A copy of the state that the checks look at, because the state changes."""

    brokers: dict[int, BrokerImage]
    partitions: dict[Key, PartitionImage]
    unclean: frozenset[UUID]
    elr: bool

    @classmethod
    def of(cls, state: MetadataImage) -> View:
        topics = list(state.topics)
        return cls(
            dict(state.brokers),
            {(t.topic_id, i): p for t in topics for i, p in t.partitions.items()},
            frozenset(
                t.topic_id
                for t in topics
                if state.configs.topic(t.name).get("unclean.leader.election.enable") == "true"
            ),
            state.features.level(features.ELIGIBLE_LEADER_REPLICAS) > 0,
        )

    def is_unfenced(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced


class Checks:
    """`operation` and `index` raise AssertionError."""

    def __init__(self) -> None:
        # The target of each ongoing reassignment.
        self._targets: dict[Key, frozenset[int]] = {}

    def forget(self) -> None:
        """The newest operations were dropped: the reassignments that they requested are unknown."""
        self._targets.clear()

    def operation(self, act: Act, operation: Operation[Any], reply: Any, before: View, after: View) -> None:
        for key, partition in after.partitions.items():
            self._state(partition, after)
            old = before.partitions.get(key)
            if old is not None and old != partition:
                self._transition(key, old, partition, operation, before, after)
        self._reassignments(operation, reply, before, after)
        if isinstance(operation, RegisterBroker) and isinstance(reply, int):
            self._registration(operation, before, after)
        if isinstance(operation, AlterPartition) and not isinstance(reply, str):
            self._proposal(operation, reply, before)
        if (
            act.kind == "beat"
            and not isinstance(reply, str)
            and reply.state in (State.SHUTTING_DOWN, State.SHUTDOWN_NOW)
        ):
            broker_id = act.args[0]
            leads = [p for p in after.partitions.values() if p.leader == broker_id]
            assert not leads, f"broker {broker_id} is to stop and leads {leads}"
            waits = [p for p in after.partitions.values() if p.leader != NO_LEADER and broker_id in p.isr]
            assert not waits, f"broker {broker_id} is to stop, and acknowledgements wait for it: {waits}"

    def _state(self, p: PartitionImage, view: View) -> None:
        assert len(set(p.replicas)) == len(p.replicas) > 0, f"replicas {p}"
        assert set(p.isr) <= set(p.replicas), f"in-sync set outside the replicas: {p}"
        assert len(set(p.isr)) == len(p.isr), f"in-sync set with a member twice: {p}"
        assert not set(p.isr) & set(p.elr), f"in-sync set and eligible leaders overlap: {p}"
        assert set(p.elr) <= set(p.replicas), f"eligible leaders outside the replicas: {p}"
        assert view.elr or p.isr, f"no in-sync set: {p}"
        assert set(p.removing_replicas) | set(p.adding_replicas) <= set(p.replicas), f"reassignment: {p}"
        if p.leader == NO_LEADER:
            return
        assert p.leader in p.isr, f"the leader is not in sync: {p}"
        fenced = [r for r in p.isr if not view.is_unfenced(r)]
        assert not fenced, f"in sync, or leader, and fenced: {fenced} of {p}"

    def _transition(
        self, key: Key, old: PartitionImage, new: PartitionImage, operation: Operation[Any], before: View, after: View
    ) -> None:
        assert new.partition_epoch > old.partition_epoch, f"changed in one partition epoch: {old} {new}"
        assert new.leader_epoch >= old.leader_epoch, f"leader epoch goes back: {old} {new}"
        if new.leader != old.leader or not set(old.replicas) <= set(new.replicas):
            assert new.leader_epoch > old.leader_epoch, f"needs a new leader epoch: {old} {new}"
        if isinstance(operation, ReplaceLeaders):
            assert old.leader in operation.broker_ids, f"another one led: {old} {new}"
            assert new.leader != NO_LEADER, f"nobody leads, and its leader is not fenced: {old} {new}"
        if isinstance(operation, LeaveInSync):
            assert new.leader == old.leader, f"an election outside of its step: {old} {new}"
            assert set(old.isr) - set(new.isr) <= set(operation.broker_ids), f"another one leaves: {old} {new}"
        if new.leader in (NO_LEADER, old.leader):
            return
        # A member of the proposed set may become the leader when the set ends a reassignment.
        proposed = isinstance(operation, AlterPartition)
        if new.leader in (*old.isr, *old.elr) or proposed:
            return
        asked = isinstance(operation, ElectLeaders) and operation.request.election_type == UNCLEAN
        known = before.elr and not old.isr and old.last_known_elr == (new.leader,)
        allowed = asked or known or key[0] in after.unclean
        assert allowed, f"unclean election without permission: {old} {new}"
        # As in Kafka, the leader after a reassignment that is cancelled at the cost of records is not marked.
        recovers = new.leader_recovery_state == 1 or isinstance(operation, AlterReassignments)
        assert recovers, f"an unclean leader does not recover: {old} {new}"

    def _registration(self, operation: RegisterBroker, before: View, after: View) -> None:
        broker_id = operation.request.broker_id
        old = before.brokers.get(broker_id)
        if old is not None and old.incarnation_id == operation.request.incarnation_id:
            return
        clean = old is not None and old.epoch == operation.request.previous_broker_epoch
        assert old is None or after.brokers[broker_id].epoch > old.epoch
        for key, partition in after.partitions.items():
            assert partition.leader != broker_id, f"an unclean registration keeps its leadership: {partition}"
            was = before.partitions[key]
            if was.leader == broker_id:
                assert partition.leader_epoch > was.leader_epoch, f"KAFKA-18106: {was} {partition}"
            if after.elr and not clean:
                assert broker_id not in partition.elr, f"an eligible leader after a crash: {partition}"

    def _proposal(self, operation: AlterPartition, reply: Any, before: View) -> None:
        request = operation.request
        for topic, answered in zip(request.topics, reply.topics, strict=True):
            for asked, answer in zip(topic.partitions, answered.partitions, strict=True):
                if answer.error_code:
                    continue
                old = before.partitions[topic.topic_id, asked.partition_index]
                assert request.broker_id == old.leader, f"accepted of another than the leader: {old}"
                assert (asked.leader_epoch, asked.partition_epoch) == (old.leader_epoch, old.partition_epoch), (
                    f"accepted on another state: {asked} {old}"
                )
                for member in asked.new_isr_with_epochs:
                    broker = before.brokers.get(member.broker_id)
                    assert broker is not None, f"accepted with an unknown broker: {asked}"
                    assert broker.is_active, f"accepted with a broker out of service: {asked} {broker}"
                    assert broker.epoch == member.broker_epoch, f"accepted with an old incarnation: {asked} {broker}"

    def _reassignments(self, operation: Operation[Any], reply: Any, before: View, after: View) -> None:
        """A reassignment ends at its target, with all of the target in sync; a cancelled one where it began."""
        asked: dict[Key, Any] = {}
        if isinstance(operation, AlterReassignments) and not isinstance(reply, str):
            names = {t.name: t for t in operation.request.topics}
            for topic in reply.responses:
                for part, wanted in zip(topic.partitions, names[topic.name].partitions, strict=True):
                    if part.error_code == 0:
                        asked = {k: wanted.replicas for k in after.partitions if self._changed(k, before, after)}
        for key, new in after.partitions.items():
            old = before.partitions.get(key)
            if old is None:
                continue
            if key in asked and asked[key] is not None:
                self._targets[key] = frozenset(asked[key])
            if is_reassigning(new):
                continue
            if key in asked and asked[key] is None:
                original = tuple(r for r in old.replicas if r not in old.adding_replicas)
                assert new.replicas == original, f"cancelled, and not as before: {old} {new}"
            elif new.replicas != old.replicas or is_reassigning(old):
                target = self._targets.get(key)
                assert target is None or set(new.replicas) == target, f"ends elsewhere: {old} {new}"
                if set(old.replicas) - set(new.replicas):
                    # KAFKA-15665: replicas leave only when all that stay are in sync. A later record of the operation
                    # may take one out of the set, because its directory is offline.
                    in_sync = {*new.isr, *new.elr, *old.isr}
                    assert set(new.replicas) <= in_sync, f"ends before its target is in sync: {old} {new}"
            self._targets.pop(key, None)

    @staticmethod
    def _changed(key: Key, before: View, after: View) -> bool:
        return key in before.partitions and before.partitions[key] != after.partitions[key]

    def index(self, state: MetadataImage) -> None:
        """The index finds what a walk finds."""
        for broker_id in (1, 2):
            found = sorted((t.name, i) for t, i, _ in state.topics.with_replica(broker_id))
            walked = sorted(
                (t.name, i) for t in state.topics for i, p in t.partitions.items() if broker_id in p.replicas
            )
            assert found == walked, f"the index of broker {broker_id} has {found}, not {walked}"
