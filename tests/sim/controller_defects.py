"""Defects of the controller, which its simulation must find. Each is planted by replacing one function or value. The
file is long because it is one list.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from broker_cy.controller import (
    alter_partition,
    broker_states,
    elections,
    quota_ops,
    reassignment,
    refused_connections,
    token_ops,
)
from broker_cy.controller.alter_partition import AlterPartition
from broker_cy.controller.broker_states import FenceBrokers, Heartbeat, ReplaceLeaders, Withdrawal
from broker_cy.controller.controller import Controller
from broker_cy.controller.elections import Part, Partitions
from broker_cy.controller.heartbeats import Contact
from broker_cy.controller.operation import MetadataStep, OperationContext
from broker_cy.controller.partition_change import PartitionChange
from broker_cy.controller.quota_ops import AlterClientQuotas
from broker_cy.controller.refused_connections import NoteRefusedConnections
from broker_cy.controller.registration import RegisterBroker
from broker_cy.controller.rules import Rules
from broker_cy.metadata import quotas, replay
from broker_cy.metadata.authors import Author
from broker_cy.metadata.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage
from broker_cy.metadata.partition_index import Masks, PartitionIndex
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.topics import TopicsImage
from tests.sim.defects import SEEDS, Patch, Planter


def takes_in_sync_members_that_are_no_replicas(patch: Patch) -> None:
    """KAFKA-9672: the proposed in-sync set is not compared with the replicas."""
    patch.setattr(AlterPartition, "_invalid", lambda self, partition, asked, isr: None)


def takes_in_sync_members_that_are_fenced(patch: Patch) -> None:
    """KAFKA-13916: a broker that is fenced, or stops, gets back into the in-sync set."""
    patch.setattr(alter_partition, "_eligible", lambda state, members: all(b in state.brokers for b in members))


def takes_in_sync_members_of_an_older_incarnation(patch: Patch) -> None:
    """KIP-903: a broker that was started again without its records is in sync because it once had them."""
    right = alter_partition._eligible
    patch.setattr(alter_partition, "_eligible", lambda state, members: right(state, dict.fromkeys(members, -1)))


def takes_stale_proposals(patch: Patch) -> None:
    """A proposal that is based on an older partition epoch replaces the newer state."""
    right = AlterPartition._stale

    def stale(self: AlterPartition, partition: PartitionImage, asked: Any) -> Any:
        epoch = asked.partition_epoch
        asked.partition_epoch = max(epoch, partition.partition_epoch)
        found = right(self, partition, asked)
        asked.partition_epoch = epoch
        return found

    patch.setattr(AlterPartition, "_stale", stale)


def ends_a_reassignment_with_one_in_sync(patch: Patch) -> None:
    """KAFKA-15665: replicas leave as soon as one of those that stay is in sync."""

    def complete(self: PartitionChange) -> None:
        isr = tuple(r for r in self.isr if r not in self.removing)
        replicas = tuple(r for r in self.replicas if r not in self.removing)
        if (self.removing or self.adding) and isr and replicas:
            self.isr, self.replicas, self.removing, self.adding = isr, replicas, (), ()

    patch.setattr(PartitionChange, "_complete_reassignment", complete)


def keeps_the_leader_of_an_unclean_registration(patch: Patch) -> None:
    """KAFKA-18106: a new incarnation of a broker continues in the leader epoch of the one before."""
    patch.setattr(RegisterBroker, "_leave_partitions", lambda self, state, context, existing: [])


def keeps_eligible_leaders_that_crashed(patch: Patch) -> None:
    """KIP-966: a broker that may have lost records stays an eligible leader."""
    patch.setattr(
        elections,
        "after_unclean_shutdown",
        lambda rules, partitions, broker: elections.without_brokers(rules, partitions, frozenset((broker,))),
    )


def elects_a_fenced_last_known_leader(patch: Patch) -> None:
    """KAFKA-19522: the last known leader is elected although it is fenced."""

    def last_known(self: PartitionChange) -> int:
        known = self.partition.last_known_elr
        if not self.rules.elr_enabled or self.isr or self.elr or len(known) != 1:
            return NO_LEADER
        return known[0]

    patch.setattr(PartitionChange, "_last_known_leader", last_known)


def silent_broker_loses_its_session(patch: Patch) -> None:
    """A broker that stands still is replaced by another one with its id, and continues later."""
    right = FenceBrokers.run

    def run(self: FenceBrokers, state: MetadataImage, step: MetadataStep, context: OperationContext) -> tuple[int, ...]:
        return right(replace(self, ended=True), state, step, context)

    patch.setattr(FenceBrokers, "run", run)


def silence_of_an_earlier_incarnation_counts(patch: Patch) -> None:
    """A broker is fenced because the one before it stood still."""
    right = FenceBrokers.run

    def run(self: FenceBrokers, state: MetadataImage, step: MetadataStep, context: OperationContext) -> tuple[int, ...]:
        return right(replace(self, epochs=None), state, step, context)

    patch.setattr(FenceBrokers, "run", run)


def leaders_are_replaced_of_an_earlier_incarnation(patch: Patch) -> None:
    """A broker that has registered again loses its leaderships, because its former process has ended."""
    right = ReplaceLeaders.run

    def run(
        self: ReplaceLeaders, state: MetadataImage, step: MetadataStep, context: OperationContext
    ) -> Withdrawal | None:
        return right(replace(self, epochs=None), state, step, context)

    patch.setattr(ReplaceLeaders, "run", run)


def nobody_leads_until_the_fence(patch: Patch) -> None:
    """A broker that may be fenced soon loses its leaderships, and no other broker takes them."""

    def in_place_of(rules: Rules, led: Partitions, brokers: frozenset[int], skip: int) -> Part:
        return Part(elections.without_brokers(rules, led, brokers), None)

    patch.setattr(elections, "in_place_of", in_place_of)


def what_nobody_else_may_lead_has_no_leader_before_the_fence(patch: Patch) -> None:
    """A broker leaves also those in-sync sets whose partitions it leads."""

    def out_of_in_sync(rules: Rules, partitions: Partitions, brokers: frozenset[int], skip: int) -> Part:
        return Part(elections.without_brokers(rules, partitions, brokers), None)

    patch.setattr(elections, "out_of_in_sync", out_of_in_sync)


def one_refusal_suffices(patch: Patch) -> None:
    """A broker is fenced because the controller alone is refused, although others could be."""
    patch.setattr(
        NoteRefusedConnections,
        "_is_gone",
        lambda self, state, context, broker, contact: contact.is_refused(context.config.node_id, context.monotonic_ms),
    )


def controller_need_not_be_refused(patch: Patch) -> None:
    """A broker is fenced that only others do not reach."""
    right = Contact.is_refused
    patch.setattr(Contact, "is_refused", lambda self, node, now_ms: node == 1 or right(self, node, now_ms))


def refusals_of_an_earlier_epoch_count(patch: Patch) -> None:
    """A broker is fenced because the process before it has ended."""
    right = NoteRefusedConnections.run

    def run(
        self: NoteRefusedConnections, state: MetadataImage, step: MetadataStep, context: OperationContext
    ) -> dict[int, int]:
        epochs = {each: state.brokers[each].epoch for each in self.epochs if each in state.brokers}
        return right(replace(self, epochs=epochs), state, step, context)

    patch.setattr(NoteRefusedConnections, "run", run)


def heartbeat_leaves_refusals(patch: Patch) -> None:
    """Reports about a broker count although it has sent a heartbeat since."""

    def beat(self: Contact, now_ms: int) -> None:
        self.last_ms, self.is_cut = now_ms, False

    patch.setattr(Contact, "beat", beat)


def observers_of_one_host_count_twice(patch: Patch) -> None:
    """The controller and a broker on its host count as two observers, although both are behind the same firewall."""
    patch.setattr(refused_connections, "_host_of_node", lambda state, node_id: "")


def refusals_count_for_ever(patch: Patch) -> None:
    """A report from an hour ago counts together with a new report from another node."""
    patch.setattr(Contact, "is_refused", lambda self, node, now_ms: node in self.refused_by)


def one_refusal_suffices_where_nobody_else_is(patch: Patch) -> None:
    """The controller does not look a second time before it decides alone."""
    patch.setattr(refused_connections, "ALONE_MS", 0)


def successor_need_not_wait_for_the_connection(patch: Patch) -> None:
    """A second process with the same id and addresses takes the place of one that lives."""
    right = RegisterBroker._is_alive

    def is_alive(self: RegisterBroker, existing: BrokerImage, context: OperationContext) -> bool:
        context.heartbeats.contact(existing).is_cut = True
        return right(self, existing, context)

    patch.setattr(RegisterBroker, "_is_alive", is_alive)


def heartbeat_leaves_the_cut(patch: Patch) -> None:
    """The same, because its connection broke once and it has sent a heartbeat since."""

    def beat(self: Contact, now_ms: int) -> None:
        self.last_ms = now_ms
        self.refused_by.clear()

    patch.setattr(Contact, "beat", beat)


def successor_may_be_elsewhere(patch: Patch) -> None:
    """A process with other addresses takes the place of one that was cut off."""
    right = RegisterBroker._is_alive

    def is_alive(self: RegisterBroker, existing: BrokerImage, context: OperationContext) -> bool:
        return right(self, existing._replace(listeners=self._listeners()), context)

    patch.setattr(RegisterBroker, "_is_alive", is_alive)


def flapping_brokers_are_back_at_once(patch: Patch) -> None:
    """A broker that is fenced again and again moves its leaderships back and forth."""
    patch.setattr(Contact, "held_until_ms", -1)


def holds_down_the_only_candidate(patch: Patch) -> None:
    """A flapping broker stays fenced although no other broker can lead its partitions."""
    patch.setattr(Heartbeat, "_would_lead", lambda self, state, context: False)


def elects_a_fenced_replica(patch: Patch) -> None:
    """A leader is elected that is fenced."""
    patch.setattr(
        Rules, "may_lead", lambda self, broker, partition: broker not in self.gone and broker in self.state.brokers
    )


def elects_uncleanly_without_permission(patch: Patch) -> None:
    """A replica that may lack records is elected although the topic does not allow it."""
    patch.setattr(Rules, "unclean_allowed", lambda self, topic: True)


def lets_acknowledgements_wait_for_a_broker_that_stops(patch: Patch) -> None:
    """KAFKA-15021, at the controller: a broker that begins to stop stays in the in-sync sets."""
    right = Heartbeat._move_leaders

    def move(self: Heartbeat, *found: Any) -> list[VersionedRecord]:
        no_leader_change = -2
        return [r for r in right(self, *found) if getattr(r.message, "leader", 0) != no_leader_change]

    patch.setattr(Heartbeat, "_move_leaders", move)


def lets_a_leader_stop(patch: Patch) -> None:
    """A broker may stop while it leads partitions."""
    right = Heartbeat._next

    def following(self: Heartbeat, *found: Any, is_held: bool) -> broker_states.State:
        after = right(self, *found, is_held=is_held)
        return broker_states.State.SHUTDOWN_NOW if after is broker_states.State.SHUTTING_DOWN else after

    patch.setattr(Heartbeat, "_next", following)
    patch.setattr(Heartbeat, "_directories", lambda self, state, context, broker: [])
    patch.setattr(broker_states, "fence", lambda state, context, brokers, reason: [])


def removes_replicas_within_a_leader_epoch(patch: Patch) -> None:
    """A broker that left a partition can still act in its leader epoch."""
    right = PartitionChange.record

    def record(self: PartitionChange) -> Any:
        found = right(self)
        leader = self.partition.leader
        if found is not None and found.message.leader == leader:
            found.message.leader = -2
        return found

    patch.setattr(PartitionChange, "record", record)


def cancels_to_the_target(patch: Patch) -> None:
    """A cancelled reassignment keeps the replicas that it was adding."""
    right = reassignment._cancel

    def cancel(change: PartitionChange) -> None:
        right(change)
        change.replicas = change.partition.replicas

    patch.setattr(reassignment, "_cancel", cancel)


def forgets_partitions_that_are_not_committed(patch: Patch) -> None:
    """The partitions of a broker are looked up in the committed state alone."""

    def committed(self: TopicsImage) -> tuple[PartitionIndex, set[Any]]:
        image = self
        while image._below is not None:
            image = image._below
        return PartitionIndex.of((topic.topic_id, topic.partitions) for topic in image), set()

    def select(self: TopicsImage, masks: Masks, changed: set[Any], wanted: Any) -> Iterator[Any]:
        for topic_id, mask in masks.items():
            topic = self.by_id(topic_id)
            for number in range(mask.bit_length()) if topic else ():
                if topic is not None and mask >> number & 1:
                    yield topic, number, topic.partitions[number]

    patch.setattr(TopicsImage, "_committed", committed)
    patch.setattr(TopicsImage, "_select", select)


def keeps_operations_that_were_not_written(patch: Patch) -> None:
    """The state keeps operations of an epoch in which this node did not stay the leader."""
    patch.setattr(Controller, "abandon", lambda self, end_offset=-1: None)


def anybody_renews_tokens(patch: Patch) -> None:
    """Any client that knows the HMAC of a token can renew it."""
    right = token_ops._found

    def found(state: MetadataImage, context: OperationContext, wanted: bytes, requester: str, **options: bool) -> Any:
        owners = [each.owner for each in state.tokens.values()]
        tries = (right(state, context, wanted, each, **options) for each in (requester, *owners))
        first = next(tries)
        return next((each for each in (first, *tries) if each[0] is not None), first)

    patch.setattr(token_ops, "_found", found)


def renewed_tokens_live_for_ever(patch: Patch) -> None:
    """A token is renewed beyond the end of its life."""
    right = token_ops._until

    def until(step: MetadataStep, token: Any, time_ms: int, by: Author, response: Any) -> Any:
        reply = right(step, token, time_ms, by, response)
        step.records[0].message.expiration_timestamp = reply.expiry_timestamp_ms = time_ms
        return reply

    patch.setattr(token_ops, "_until", until)


def expired_tokens_are_renewed(patch: Patch) -> None:
    """A token that has expired, which its owner has given up, counts again."""
    patch.setattr(token_ops, "is_expired", lambda token, now_ms: False)


def sweep_takes_tokens_that_count(patch: Patch) -> None:
    """The sweep removes tokens in the last second of their time."""
    right = token_ops.SweepTokens.run

    def run(self: token_ops.SweepTokens, state: MetadataImage, step: MetadataStep, context: OperationContext) -> bool:
        return right(self, state, step, context._replace(now_ms=context.now_ms + 1_000))

    patch.setattr(token_ops.SweepTokens, "run", run)


def withdrawals_of_rights_have_no_author(patch: Patch) -> None:
    """It is unknown who revoked access: a record that removes an ACL or a user has no author."""

    def drop(image: MetadataImage, key: tuple[Any, ...], record: Any) -> None:
        image.kept.pop(key, None)

    patch.setattr(replay, "_drop", drop)


def changes_of_tokens_have_no_author(patch: Patch) -> None:
    """It is unknown who renewed or expired a token, although the creator is known."""
    patch.setattr(token_ops, "tag_of", lambda author: ())


def changes_of_quotas_have_no_author(patch: Patch) -> None:
    """It is unknown who removed a quota."""
    patch.setattr(quota_ops, "tag_of", lambda author: ())


def authors_are_lost_where_commits_are_gathered(patch: Patch) -> None:
    """Only some of several operations that are committed together have an author."""
    right = MetadataImage.merge

    def merge(self: MetadataImage, above: MetadataImage) -> None:
        authors = self.authors
        right(self, above)
        if authors:
            self.authors = authors | dict.fromkeys(above.authors, b"")

    patch.setattr(MetadataImage, "merge", merge)


def takes_the_default_for_all_entities_of_a_type(patch: Patch) -> None:
    """The quota of the default user is that of a user without a name: it is lost when another default is set."""
    right = quotas.entity_of
    patch.setattr(quotas, "entity_of", lambda names: right({kind: name or "a" for kind, name in names.items()}))


def takes_keys_of_other_entities(patch: Patch) -> None:
    """A connection rate is stored for a user, although it has no effect there."""
    right = quota_ops._check

    def check(keys: Any, key: str, value: float) -> None:
        if key in keys or key == "unknown":
            right(keys, key, value)

    patch.setattr(quota_ops, "_check", check)


def validates_only_and_writes(patch: Patch) -> None:
    """A trial of a quota throttles clients."""
    right = AlterClientQuotas.run

    def run(self: AlterClientQuotas, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        self.request.validate_only = False
        return right(self, state, step, context)

    patch.setattr(AlterClientQuotas, "run", run)


def compares_with_quotas_that_are_committed(patch: Patch) -> None:
    """A quota that is set again before its removal is committed is lost."""
    right = AlterClientQuotas.run

    def run(self: AlterClientQuotas, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        return right(self, base[0] if base else state, step, context)

    commit = Controller.commit

    def committed(self: Controller, *found: Any) -> Any:
        base[:] = [self.image]
        return commit(self, *found)

    base: list[MetadataImage] = []
    patch.setattr(Controller, "commit", committed)
    patch.setattr(AlterClientQuotas, "run", run)


def removes_what_is_not_there(patch: Patch) -> None:
    """The removal of one quota removes the other quotas of the entity."""
    right = quota_ops._records

    def records(state: MetadataImage, names: Any, entity: Any, values: Any) -> list[VersionedRecord]:
        if None in values.values():
            values = {**values, **{key[2]: None for key in state.kept if key[:2] == (quotas.QUOTA, entity)}}
        return right(state, names, entity, values)

    patch.setattr(quota_ops, "_records", records)


# The most seeds that each of them may take.
DEFECTS: dict[Planter, int] = {
    takes_in_sync_members_that_are_no_replicas: 4 * SEEDS,
    takes_in_sync_members_that_are_fenced: SEEDS,
    takes_in_sync_members_of_an_older_incarnation: SEEDS,
    takes_stale_proposals: SEEDS,
    ends_a_reassignment_with_one_in_sync: SEEDS,
    keeps_the_leader_of_an_unclean_registration: SEEDS,
    keeps_eligible_leaders_that_crashed: SEEDS,
    elects_a_fenced_last_known_leader: 4 * SEEDS,
    elects_a_fenced_replica: SEEDS,
    silent_broker_loses_its_session: SEEDS,
    silence_of_an_earlier_incarnation_counts: SEEDS,
    leaders_are_replaced_of_an_earlier_incarnation: SEEDS,
    nobody_leads_until_the_fence: SEEDS,
    what_nobody_else_may_lead_has_no_leader_before_the_fence: SEEDS,
    one_refusal_suffices: SEEDS,
    controller_need_not_be_refused: SEEDS,
    refusals_of_an_earlier_epoch_count: SEEDS,
    heartbeat_leaves_refusals: SEEDS,
    observers_of_one_host_count_twice: SEEDS,
    refusals_count_for_ever: 8 * SEEDS,
    one_refusal_suffices_where_nobody_else_is: SEEDS,
    successor_need_not_wait_for_the_connection: SEEDS,
    heartbeat_leaves_the_cut: SEEDS,
    successor_may_be_elsewhere: SEEDS,
    flapping_brokers_are_back_at_once: 4 * SEEDS,
    holds_down_the_only_candidate: SEEDS,
    elects_uncleanly_without_permission: SEEDS,
    lets_acknowledgements_wait_for_a_broker_that_stops: SEEDS,
    lets_a_leader_stop: SEEDS,
    removes_replicas_within_a_leader_epoch: SEEDS,
    cancels_to_the_target: SEEDS,
    forgets_partitions_that_are_not_committed: SEEDS,
    keeps_operations_that_were_not_written: SEEDS,
    anybody_renews_tokens: SEEDS,
    renewed_tokens_live_for_ever: SEEDS,
    expired_tokens_are_renewed: SEEDS,
    sweep_takes_tokens_that_count: SEEDS,
    withdrawals_of_rights_have_no_author: SEEDS,
    changes_of_tokens_have_no_author: SEEDS,
    changes_of_quotas_have_no_author: SEEDS,
    authors_are_lost_where_commits_are_gathered: SEEDS,
    takes_the_default_for_all_entities_of_a_type: SEEDS,
    takes_keys_of_other_entities: SEEDS,
    validates_only_and_writes: SEEDS,
    compares_with_quotas_that_are_committed: SEEDS,
    removes_what_is_not_there: SEEDS,
}
