"""BrokerHeartbeat (63), and fencing: the states of a broker, and the effect of a change of state on its partitions.

    FENCED -> UNFENCED            it has applied its own registration, and its hold-down has ended if it flaps (or it is
                                  needed: it alone can lead a partition)
    UNFENCED -> FENCED            it requests that, or its session ends (`FenceBrokers`)
    UNFENCED -> SHUTTING_DOWN     it requests a shutdown and leads partitions: they move to others first
    any -> SHUTDOWN_NOW           it need not wait any longer; it is fenced, and may stop

A fenced broker leads no partition, is in no in-sync set (except as its last member), and clients are not sent to it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from typing import Any, Final
from uuid import UUID

from broker_cy.controller import elections
from broker_cy.controller.broker_records import check_epoch, fence_record
from broker_cy.controller.heartbeats import Contact
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.rules import Rules, directory_of
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.metadata import features
from broker_cy.metadata.fence_reasons import FenceReason
from broker_cy.metadata.image import BrokerImage, MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages


class State(Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    SHUTTING_DOWN = "in controlled shutdown"
    SHUTDOWN_NOW = "may stop"


# The states that a heartbeat may lead to, by the current state.
SUCCESSORS: Final[dict[State, frozenset[State]]] = {
    State.FENCED: frozenset((State.FENCED, State.UNFENCED, State.SHUTDOWN_NOW)),
    State.UNFENCED: frozenset(State),
    State.SHUTTING_DOWN: frozenset((State.SHUTTING_DOWN, State.SHUTDOWN_NOW)),
}


class HeartbeatReply(NamedTuple):
    """The fields of a BrokerHeartbeatResponse, and the state, for events."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
    state: State


def cordon_records(level: int, broker: BrokerImage, cordoned: Iterable[UUID]) -> list[VersionedRecord]:
    """Note which log directories of a broker take no new replicas (KIP-1066), if that is new, and metadata.version
    `level` has it.
    """
    directories = list(cordoned)
    if level < features.MV_CORDONED or (
        broker.cordoned_log_dirs is not None and set(directories) == set(broker.cordoned_log_dirs)
    ):
        return []
    record = messages.BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.epoch, cordoned_log_dirs=directories
    )
    return [VersionedRecord(record, 3)]


def fence(
    state: MetadataImage, context: OperationContext, brokers: Iterable[BrokerImage], reason: FenceReason
) -> list[VersionedRecord]:
    """The records that fence brokers: all in one step, so that none of them becomes the successor of another."""
    fenced = list(brokers)
    gone = frozenset(broker.broker_id for broker in fenced)
    rules = Rules(state, context.config, gone=gone)
    records = elections.without_brokers(rules, _of_all(state, gone), gone)
    return records + [fence_record(broker, fenced=True, reason=reason) for broker in fenced]


def _of_all(state: MetadataImage, brokers: frozenset[int]) -> elections.Partitions:
    """The partitions of several brokers, each once."""
    seen: set[tuple[UUID, int]] = set()
    for broker_id in brokers:
        for topic, index, partition in state.topics.with_replica(broker_id):
            if (topic.topic_id, index) not in seen:
                seen.add((topic.topic_id, index))
                yield topic, index, partition


@dataclass(frozen=True, slots=True)
class Withdrawal(Operation["Withdrawal | None"]):
    """A step that removes brokers from partitions before `FenceBrokers` fences the brokers. Each step is bounded
    (elections.Part) and begins at `skip`; the reply is the next step, None before the fence.
    """

    broker_ids: tuple[int, ...]
    epochs: dict[int, int] | None = None
    skip: int = 0

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Withdrawal | None:
        found = _incarnations(state, self.broker_ids, self.epochs)
        gone = frozenset(broker.broker_id for broker in found if not broker.fenced)
        part = self._part(state, Rules(state, context.config, gone=gone), gone)
        following = self._after_last() if part.skip is None else replace(self, skip=part.skip)
        step.atomic = False
        step.records += part.records
        return following

    @abstractmethod
    def _part(self, state: MetadataImage, rules: Rules, gone: frozenset[int]) -> elections.Part: ...

    def _after_last(self) -> Withdrawal | None:
        """The operation that follows the last part."""
        return None


@dataclass(frozen=True, slots=True)
class ReplaceLeaders(Withdrawal):
    """Elect other leaders in place of the brokers. Clients wait for these elections: with n replicas per partition, a
    failed broker leads 1/n of its partitions, and only follows in the others. A partition without another possible
    leader does not change.
    """

    def _part(self, state: MetadataImage, rules: Rules, gone: frozenset[int]) -> elections.Part:
        led = (found for broker_id in sorted(gone) for found in state.topics.led_by(broker_id))
        return elections.in_place_of(rules, led, gone, self.skip)

    def _after_last(self) -> Withdrawal | None:
        return LeaveInSync(self.broker_ids, self.epochs)


@dataclass(frozen=True, slots=True)
class LeaveInSync(Withdrawal):
    """Remove the brokers from the in-sync sets of partitions that others lead: clients with acks=all wait for this."""

    def _part(self, state: MetadataImage, rules: Rules, gone: frozenset[int]) -> elections.Part:
        return elections.out_of_in_sync(rules, _of_all(state, gone), gone, self.skip)


def _incarnations(
    state: MetadataImage, broker_ids: tuple[int, ...], epochs: dict[int, int] | None
) -> list[BrokerImage]:
    """The registered brokers among `broker_ids`, without those that have another epoch than that in `epochs`."""
    found = [state.brokers.get(broker_id) for broker_id in sorted(set(broker_ids))]
    return [
        broker
        for broker in found
        if broker is not None and (epochs is None or epochs.get(broker.broker_id) in (None, broker.epoch))
    ]


@dataclass(frozen=True, slots=True)
class FenceBrokers(Operation[tuple[int, ...]]):
    """Fence brokers that are known to be dead, for `reason`. The reply is the ids of those
    that were not fenced yet; ids that are not registered are ignored. With `epochs`, by broker, a broker that has
    registered again since is spared. Unless they `ended`, their processes keep their sessions: no other ones may
    register in their place.
    """

    broker_ids: tuple[int, ...]
    reason: FenceReason
    epochs: dict[int, int] | None = None
    ended: bool = True

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> tuple[int, ...]:
        chosen = []
        for broker in _incarnations(state, self.broker_ids, self.epochs):
            if self.ended:
                # Its process is dead: another one may register now.
                context.heartbeats.contact(broker).heard = False
            if not broker.fenced:
                context.heartbeats.contact(broker).fence(context.monotonic_ms)
                chosen.append(broker)
        if not chosen:
            return ()
        step.atomic = False
        step.records += fence(state, context, chosen, self.reason)
        return tuple(broker.broker_id for broker in chosen)


@dataclass(slots=True)
class Heartbeat(Operation[HeartbeatReply]):
    """`request` is a BrokerHeartbeatRequest. Raises KafkaError(STALE_BROKER_EPOCH)."""

    request: Any

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> HeartbeatReply:
        request = self.request
        broker = check_epoch(state, request.broker_id, request.broker_epoch)
        contact = context.heartbeats.contact(broker)
        lowest = context.heartbeats.lowest_offset(state.brokers)
        current = _state_of(broker, contact)
        is_held = (
            context.monotonic_ms < contact.held_until_ms
            # A broker is not held if no other broker serves, or if only it can lead a partition.
            and any(b.is_active for b in state.brokers.values())
            and not (current is State.FENCED and self._would_lead(state, context))
        )
        after = self._next(state, current, contact, lowest, is_held=is_held)
        assert after in SUCCESSORS[current]
        records: list[VersionedRecord] = []
        if after is State.SHUTTING_DOWN:
            # At every heartbeat, because the records of the first one may not have been written.
            records = self._move_leaders(state, context, broker)
        elif after is not current:
            if after is State.UNFENCED:
                records = self._unfence(state, context, broker)
            elif not broker.fenced:
                records = fence(state, context, (broker,), self._reason(after))
        records += self._directories(state, context, broker)
        self._note(contact, after, context, len(records))
        is_fenced = after in (State.FENCED, State.SHUTDOWN_NOW)
        is_caught_up = request.current_metadata_offset >= contact.registered_at
        step.atomic = False
        step.records += records
        return HeartbeatReply(is_caught_up, is_fenced, after is State.SHUTDOWN_NOW, after)

    def _next(self, state: MetadataImage, current: State, contact: Contact, lowest: int, *, is_held: bool) -> State:
        request = self.request
        if current is State.FENCED:
            if request.want_shut_down:
                return State.SHUTDOWN_NOW
            if not is_held and not request.want_fence and request.current_metadata_offset >= contact.registered_at:
                return State.UNFENCED
            return State.FENCED
        leads = next(iter(state.topics.led_by(request.broker_id)), None) is not None
        if current is State.SHUTTING_DOWN:
            # The other brokers must know that it leads no partition before it stops.
            return State.SHUTTING_DOWN if leads or contact.shutdown_at > lowest else State.SHUTDOWN_NOW
        if request.want_shut_down:
            return State.SHUTTING_DOWN if leads and not request.want_fence else State.SHUTDOWN_NOW
        return State.FENCED if request.want_fence else State.UNFENCED

    def _reason(self, after: State) -> FenceReason:
        if after is State.FENCED:
            return FenceReason.REQUESTED
        # A shard's parent sets both flags for a shard that has ended (`BrokerMembership.report_end`).
        return FenceReason.PROCESS_ENDED if self.request.want_fence else FenceReason.STOPPED

    def _note(self, contact: Contact, after: State, context: OperationContext, records: int) -> None:
        contact.beat(context.monotonic_ms)
        contact.heard = after is not State.SHUTDOWN_NOW
        contact.metadata_offset = self.request.current_metadata_offset
        if after in (State.FENCED, State.SHUTDOWN_NOW):
            contact.shutdown_at = -1
        elif after is State.SHUTTING_DOWN and not contact.is_shutting_down:
            contact.shutdown_at = context.next_offset + records - 1

    def _unfence(self, state: MetadataImage, context: OperationContext, broker: BrokerImage) -> list[VersionedRecord]:
        return [
            fence_record(broker, fenced=False),
            *elections.for_leaderless(self._rules_when_back(state, context), state),
        ]

    def _would_lead(self, state: MetadataImage, context: OperationContext) -> bool:
        """Whether a partition without a leader would have one if the broker came back."""
        return elections.would_lead(self._rules_when_back(state, context), state)

    def _rules_when_back(self, state: MetadataImage, context: OperationContext) -> Rules:
        return Rules(state, context.config, back=frozenset((self.request.broker_id,)))

    def _move_leaders(
        self, state: MetadataImage, context: OperationContext, broker: BrokerImage
    ) -> list[VersionedRecord]:
        records = []
        if not broker.in_controlled_shutdown:
            record = messages.BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1
            )
            records.append(VersionedRecord(record, 1))
        gone = frozenset((broker.broker_id,))
        rules = Rules(state, context.config, gone=gone)
        return records + elections.without_brokers(rules, state.topics.with_replica(broker.broker_id), gone)

    def _directories(
        self, state: MetadataImage, context: OperationContext, broker: BrokerImage
    ) -> list[VersionedRecord]:
        """The changes by log directories that went offline (KIP-858), or that take no new partitions (KIP-1066)."""
        records: list[VersionedRecord] = []
        level = state.features.metadata_version
        offline = frozenset(self.request.offline_log_dirs) & frozenset(broker.log_dirs)
        if offline and level >= features.MV_DIRECTORIES:
            gone = frozenset((broker.broker_id,))
            rules = Rules(state, context.config, gone=gone)
            lost = (
                found
                for found in state.topics.with_replica(broker.broker_id)
                if directory_of(found[2], broker.broker_id) in offline
            )
            records += elections.without_brokers(rules, lost, gone)
            record = messages.BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id,
                broker_epoch=broker.epoch,
                log_dirs=[each for each in broker.log_dirs if each not in offline],
            )
            records.append(VersionedRecord(record, 2))
        cordoned = self.request.cordoned_log_dirs
        return records + ([] if cordoned is None else cordon_records(level, broker, cordoned))


def _state_of(broker: BrokerImage, contact: Contact) -> State:
    if broker.fenced:
        return State.FENCED
    return State.SHUTTING_DOWN if contact.is_shutting_down else State.UNFENCED
