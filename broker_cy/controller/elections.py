"""Elections in bulk, and those that operators ask for: ElectLeaders (43), preferred leaders in small steps, unclean
elections after a setting allowed them.

A step of an election is not atomic: it has one record for each partition, and a crash between two batches leaves some
partitions without a change. The next fencing, or the next start, then finds the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, Final
from uuid import UUID

from broker_cy.controller import mirror_ops
from broker_cy.controller.operation import RECORDS_PER_STEP_MAX, MetadataStep, Operation, OperationContext
from broker_cy.controller.partition_change import Election, PartitionChange
from broker_cy.controller.rules import Rules
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.image import NO_LEADER, MetadataImage, PartitionImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.metadata.replay import changed_partition
from broker_cy.metadata.topics import TopicImage
from broker_cy.wire import messages

Partitions = Iterable[tuple[TopicImage, int, PartitionImage]]

# Kafka's MAX_ELECTIONS_PER_IMBALANCE: the elections of one step of `BalanceLeaders` and `ElectUnclean`.
ELECTIONS_PER_STEP_MAX: Final = 1_000

# Between the parts of a long change the controller, and the brokers that apply it, serve clients: a part is about 5 ms.
CHANGES_PER_PART: Final = 400

PREFERRED: Final = 0
UNCLEAN: Final = 1


def without_brokers(
    rules: Rules, partitions: Partitions, brokers: frozenset[int], eligible: bool = False
) -> list[VersionedRecord]:
    """Changes that take `brokers` out of in-sync sets and leadership; they are among `rules.gone`. `eligible`: also the
    elections of partitions that have one of them as an eligible leader (KIP-966), which it stays.
    """
    return [record for record in _changes(rules, partitions, brokers, eligible) if record is not None]


def _changes(
    rules: Rules, partitions: Partitions, brokers: frozenset[int], eligible: bool = False
) -> Iterator[VersionedRecord | None]:
    """The same, with None for each partition that does not change."""
    for topic, index, partition in partitions:
        members = (partition.leader, *partition.isr, *(partition.elr if eligible else ()))
        if brokers.isdisjoint(members):
            yield None
            continue
        change = PartitionChange(rules, topic, index, partition)
        change.isr = tuple(r for r in partition.isr if r not in brokers)
        yield change.record()


class Part(NamedTuple):
    """A part of many changes: at most CHANGES_PER_PART records, and how many partitions the next part skips, because
    nothing changes them. None: this is the last part.
    """

    records: list[VersionedRecord]
    skip: int | None


def _part(changes: Iterator[VersionedRecord | None], skip: int) -> Part:
    """The next part of `changes`, which begin after `skip` partitions. Changed partitions are not listed again."""
    records: list[VersionedRecord] = []
    for record in changes:
        if record is None:
            skip += 1
            continue
        records.append(record)
        if len(records) == CHANGES_PER_PART:
            return Part(records, skip)
    return Part(records, None)


def in_place_of(rules: Rules, led: Partitions, brokers: frozenset[int], skip: int) -> Part:
    """Elections of other leaders for the partitions that `brokers` lead; `brokers` are among `rules.gone`. A partition
    without another possible leader does not change.
    """
    changes = _changes(rules, itertools.islice(led, skip, None), brokers)
    return _part((each if each is not None and each.message.leader >= 0 else None for each in changes), skip)


def out_of_in_sync(rules: Rules, partitions: Partitions, brokers: frozenset[int], skip: int) -> Part:
    """Changes that take `brokers` out of the in-sync sets of partitions that others lead."""
    # A partition without another possible leader waits for the fence, like one without a leader.
    nobody = (NO_LEADER, *brokers)
    found = (each for each in partitions if each[2].leader not in nobody and not brokers.isdisjoint(each[2].isr))
    return _part(_changes(rules, itertools.islice(found, skip, None), brokers), skip)


def after_unclean_shutdown(rules: Rules, partitions: Partitions, broker_id: int) -> list[VersionedRecord]:
    """Changes that take the broker out of in-sync sets, eligible leaders (KIP-966) and leadership: it may have lost
    records that it had acknowledged. It is among `rules.gone`.
    """
    records = []
    lost = frozenset((broker_id,))
    for topic, index, partition in partitions:
        if broker_id in partition.isr or broker_id in partition.elr:
            change = PartitionChange(rules, topic, index, partition)
            change.isr = tuple(r for r in partition.isr if r != broker_id)
            change.unclean_shutdown = lost
            record = change.record()
            if record is not None:
                records.append(record)
    return records


def for_leaderless(rules: Rules, state: MetadataImage) -> list[VersionedRecord]:
    """Elections for all partitions without a leader, after a broker, in `rules.back`, came back."""
    return list(_elections_of_leaderless(rules, state))


def would_lead(rules: Rules, state: MetadataImage) -> bool:
    """Whether `for_leaderless` elects one of `rules.back`."""
    return any(record.message.leader in rules.back for record in _elections_of_leaderless(rules, state))


def _elections_of_leaderless(rules: Rules, state: MetadataImage) -> Iterator[VersionedRecord]:
    for topic, index, partition in state.topics.led_by(NO_LEADER):
        if not rules.back.isdisjoint(partition.replicas):
            record = PartitionChange(rules, topic, index, partition).record()
            if record is not None:
                yield record


class Working:
    """The partitions as the records of this operation leave them, so that two parts of a request for one partition do
    not contradict each other. At most RECORDS_PER_STEP_MAX records, as of every request of a user.
    """

    __slots__ = ("_changed", "records", "rules")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.records: list[VersionedRecord] = []
        self._changed: dict[tuple[UUID, int], PartitionImage] = {}

    def partition(self, topic: TopicImage, index: int) -> PartitionImage | None:
        return self._changed.get((topic.topic_id, index)) or topic.partitions.get(index)

    def change(self, topic: TopicImage, index: int) -> PartitionChange:
        """A change of a partition that exists."""
        partition = self.partition(topic, index)
        assert partition is not None
        return PartitionChange(self.rules, topic, index, partition)

    def apply(self, change: PartitionChange) -> PartitionImage | None:
        """Add the record of the change. Returns the changed partition, None if nothing changes. Raises KafkaError."""
        record = change.record()
        if record is None:
            return None
        self._add(record)
        after = changed_partition(change.partition, record.message)
        self._changed[change.topic.topic_id, change.index] = after
        return after

    def raise_epoch(
        self, topic: TopicImage, index: int, partition: PartitionImage, leader_epoch: int
    ) -> PartitionImage:
        """Have the leader go on in the given, later epoch. Returns the changed partition. Raises KafkaError."""
        self._add(mirror_ops.raised(self.rules.state, topic.topic_id, index, partition, leader_epoch))
        after = partition._replace(leader_epoch=leader_epoch, partition_epoch=partition.partition_epoch + 1)
        self._changed[topic.topic_id, index] = after
        return after

    def _add(self, record: VersionedRecord) -> None:
        if len(self.records) >= RECORDS_PER_STEP_MAX:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
        self.records.append(record)


@dataclass(slots=True)
class ElectLeaders(Operation[Any]):
    """Elect leaders for `request`, an ElectLeadersRequest: the preferred replica, or, for a partition without a leader,
    a live replica that may lack records. The reply is an ElectLeadersResponse.

    With `topic_partitions` None, all partitions are meant, and those that need no election are not in the reply.
    Raises KafkaError(INVALID_REQUEST) for an unknown type of election.
    """

    request: Any

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> Any:
        kind = self.request.election_type
        if kind not in (PREFERRED, UNCLEAN):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown election type {kind}")
        working = Working(Rules(state, context.config))
        results = []
        if self.request.topic_partitions is None:
            for topic in state.topics:
                outcomes = [(index, _elect(working, topic, index, kind)) for index in topic.partitions]
                needed = [(i, e) for i, e in outcomes if e is None or e.code is not ErrorCode.ELECTION_NOT_NEEDED]
                results.append(_results(topic.name, needed))
        else:
            for asked in self.request.topic_partitions:
                found = state.topics.by_name(asked.topic)
                outcomes = [
                    (index, _elect(working, found, index, kind) if found else _unknown(f"topic as {asked.topic}"))
                    for index in asked.partitions
                ]
                results.append(_results(asked.topic, outcomes))
        step.atomic = False
        step.records += working.records
        return messages.ElectLeadersResponse(replica_election_results=results)


def _unknown(what: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")


def _elect(working: Working, topic: TopicImage, index: int, kind: int) -> KafkaError | None:
    partition = working.partition(topic, index)
    if partition is None:
        return _unknown(f"partition as {topic.name}-{index}")
    preferred = kind == PREFERRED
    if partition.leader == partition.replicas[0] if preferred else partition.leader != NO_LEADER:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    change = working.change(topic, index)
    change.election = Election.PREFERRED if preferred else Election.UNCLEAN
    if working.apply(change) is not None:
        return None
    if preferred:
        return KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return KafkaError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")


def _results(topic: str, outcomes: list[tuple[int, KafkaError | None]]) -> Any:
    response = messages.ElectLeadersResponse
    return response.ReplicaElectionResult(
        topic=topic,
        partition_result=[
            response.PartitionResult(
                partition_id=index,
                error_code=int(error.code) if error else 0,
                error_message=error.message if error else None,
            )
            for index, error in outcomes
        ],
    )


@dataclass(frozen=True, slots=True)
class BalanceLeaders(Operation[bool]):
    """One step towards preferred leaders (auto.leader.rebalance.enable): at most `elections_max` elections. The reply
    is whether more may follow; then the caller waits a moment, so that clients do not all reconnect at the same time.
    """

    elections_max: int = ELECTIONS_PER_STEP_MAX

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> bool:
        rules = Rules(state, context.config)
        records: list[VersionedRecord] = []
        for topic, index, partition in state.topics.imbalanced():
            if len(records) >= self.elections_max:
                step.records += records
                return True
            change = PartitionChange(rules, topic, index, partition)
            change.election = Election.PREFERRED
            record = change.record()
            if record is not None:
                records.append(record)
        step.records += records
        return False


@dataclass(frozen=True, slots=True)
class ElectUnclean(Operation[bool]):
    """Elect leaders for partitions without one where unclean.leader.election.enable allows it by now; at most
    `elections_max`. The reply is whether there may be more.
    """

    elections_max: int = ELECTIONS_PER_STEP_MAX

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> bool:
        rules = Rules(state, context.config)
        records: list[VersionedRecord] = []
        for topic, index, partition in state.topics.led_by(NO_LEADER):
            if len(records) >= self.elections_max:
                step.records += records
                return True
            change = PartitionChange(rules, topic, index, partition)
            if change.election is Election.UNCLEAN:
                record = change.record()
                if record is not None:
                    records.append(record)
        step.records += records
        return False
