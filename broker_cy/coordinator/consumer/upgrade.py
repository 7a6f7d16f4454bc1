"""A classic group with members becomes a consumer group, because a member joins by the consumer protocol.

Its members stay, and go on by the classic protocol; each moves to the consumer protocol when it restarts. A worker
converts a group with very many topics. Meanwhile, COORDINATOR_LOAD_IN_PROGRESS lets clients repeat their requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from broker_cy.coordinator.classic import rebalance
from broker_cy.coordinator.classic.group import ClassicGroup
from broker_cy.coordinator.classic.journal import trigger_of
from broker_cy.coordinator.classic.member import ClassicMember, Protocols
from broker_cy.coordinator.classic.state import GroupState
from broker_cy.coordinator.consumer import embedded, records
from broker_cy.coordinator.consumer.group import ConsumerGroup
from broker_cy.coordinator.consumer.hooks import HookedConsumerGroup
from broker_cy.coordinator.consumer.member import ClassicMembership, ConsumerMember, with_epoch
from broker_cy.coordinator.group import Group, GroupTable
from broker_cy.coordinator.modern.assigning import TOPICS_PER_TURN, unchanged
from broker_cy.coordinator.modern.epochs import newest_hash
from broker_cy.coordinator.modern.group import UNKNOWN_TIME_MS
from broker_cy.coordinator.modern.journal import Noted
from broker_cy.coordinator.modern.records import as_recorded
from broker_cy.coordinator.modern.replay import index_topics, removed
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.step import UNCHANGED, Now, WorkFailed
from broker_cy.metadata.topics import TopicImage
from broker_cy.metrics.events import GroupConverted

# The bytes of members' subscriptions and assignments that the loop converts itself, in about 1 ms.
BYTES_PER_TURN: Final = 16 << 10


class Facts(NamedTuple):
    """A member of the classic group, as values; `metadata` is its subscription for the protocol of the group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    metadata: bytes
    assignment: bytes


class Source(NamedTuple):
    """All that the conversion of a group follows from, but for the ids of topics."""

    group_id: str
    generation: int
    members: tuple[Facts, ...]

    @property
    def is_large(self) -> bool:
        return sum(len(each.metadata) + len(each.assignment) for each in self.members) > BYTES_PER_TURN


class Made(NamedTuple):
    """The consumer group, which is not in the table yet, with its records before and after that of its epoch."""

    group: HookedConsumerGroup
    members: list[Record]
    rest: list[Record]


class Conversion(NamedTuple):
    """The result of the background; an error if the group cannot be converted. `generation` is that of the metadata in
    which the first topics were looked up.
    """

    source: Source
    made: Made | KafkaError
    generation: int


def upgrade(machine: GroupTable, step: GroupStep, group: ClassicGroup, now: Now) -> None:
    """Write the group as a consumer group. Raises KafkaError: GROUP_ID_NOT_FOUND if that is not possible or not
    allowed, COORDINATOR_LOAD_IN_PROGRESS while it is being converted.
    """
    _check(machine, group)
    source = _source(group)
    made = _converted(machine, step, group, source) if source.is_large else convert(source, machine.image.topics)
    if isinstance(made, KafkaError):
        raise made
    for member in group.members.values():
        # They join again, as members of the consumer group.
        answer = rebalance.join_error(member.member_id, ErrorCode.REBALANCE_IN_PROGRESS)
        rebalance.answer_join(step, group, member, answer)
        rebalance.answer_sync(step, member, rebalance.sync_error(ErrorCode.REBALANCE_IN_PROGRESS))
    _write(machine, step, group, made)
    for member in group.members.values():
        rebalance.set_session(machine, group, member, now)
    step.then(Upgraded(group.group_id, group.number))
    count = len(group.members)
    step.then(Noted(group.group_id, (GroupConverted(group.group_id, "classic", "consumer", group.generation, count),)))


def _check(machine: GroupTable, group: ClassicGroup) -> None:
    settings = machine.settings.consumer
    reason = None
    if not settings.migration_policy.is_upgrade_enabled:
        reason = "group.consumer.migration.policy does not allow it"
    elif not group.uses_consumer_protocol:
        reason = f"its protocol type is {group.protocol_type}"
    elif len(group.members) > settings.max_size:
        reason = f"it has {len(group.members)} members, and group.consumer.max.size is {settings.max_size}"
    if reason is not None:
        raise _impossible(group.group_id, reason)


def _impossible(group_id: str, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.GROUP_ID_NOT_FOUND, f"the classic group {group_id} cannot become a consumer group: {reason}"
    )


def _source(group: ClassicGroup) -> Source:
    protocol = group.protocol_name or group.select_protocol()
    return Source(
        group.group_id, group.generation, tuple(_facts(member, protocol) for member in group.members.values())
    )


def _facts(member: ClassicMember, protocol: str) -> Facts:
    return Facts(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.session_timeout_ms,
        member.protocols,
        member.metadata(protocol),
        member.assignment,
    )


# ---- the consumer group, as a function of values ----


def convert(source: Source, topics: embedded.Topics) -> Made | KafkaError:
    """Make a consumer group of a classic one. For a large group, this runs in the background."""
    group_id, generation = source.group_id, source.generation
    made = HookedConsumerGroup(group_id)
    made.epoch = made.assignment_epoch = generation
    made.assigned_at_ms = UNKNOWN_TIME_MS
    made.look_up_begins()
    members: list[Record] = []
    targets: list[Record] = []
    current: list[Record] = []
    try:
        for facts in source.members:
            member_id = facts.member_id
            names, rack_id = embedded.subscribed(facts.metadata)
            assigned = as_recorded(embedded.assignment_of(facts.assignment, topics))
            member = ConsumerMember(
                member_id,
                generation,
                generation,
                instance_id=facts.instance_id,
                rack_id=rack_id,
                rebalance_timeout_ms=facts.rebalance_timeout_ms,
                client_id=facts.client_id,
                client_host=facts.client_host,
                topics=frozenset(names),
                assigned=with_epoch(assigned, generation),
                classic=ClassicMembership(facts.session_timeout_ms, facts.protocols),
            )
            made.put_member(member_id, member)
            made.put_target(member_id, assigned)
            # A leader may assign topics that the member has not named.
            if member.topics.issuperset(embedded.assigned_names(facts.assignment)):
                made.note_read(member_id, member.topics, assigned)
            members.append(records.member_record(group_id, member, names))
            targets.append(records.target_record(group_id, member_id, assigned))
            current.append(records.current_record(group_id, member))
    except embedded.CustomAssignorError as error:
        return _impossible(group_id, str(error))
    except WireError as error:
        return _impossible(group_id, f"the metadata of {member_id} are malformed: {error}")
    return Made(made, members, [*targets, records.target_epoch_record(group_id, generation, UNKNOWN_TIME_MS), *current])


def _write(machine: GroupTable, step: GroupStep, group: ClassicGroup, made: Made) -> None:
    """Append the records, which are not read again: the group has what they say."""
    group_id = group.group_id
    machine.append(step, group.tombstones())
    machine.add_group(made.group)
    made.group.metadata_hash = newest_hash(machine, step, made.group) or made.group.metadata_hash
    epoch = records.epoch_record(group_id, made.group.epoch, made.group.metadata_hash)
    new = [*made.members, epoch, *made.rest]
    step.records += new
    # All of it is undone with the first record.
    step.before += [GroupMade(group_id), *[UNCHANGED] * (len(new) - 1)]
    machine.next_offset += len(new)
    index_topics(machine, made.group, set())


# ---- in the background ----


def _converted(machine: GroupTable, step: GroupStep, group: ClassicGroup, source: Source) -> Made | KafkaError:
    """The result of the background, which is used up. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) if there is none
    for the group as it is now: a client repeats its request then.
    """
    found: Conversion | None = group.conversion
    group.conversion = None
    if found is not None and found.source == source:
        if isinstance(found.made, Made) and found.generation != machine.image.generation:
            found.made.group.topics_changed({})
        return found.made
    if not (machine.has_work(group, looked_up) or machine.has_work(group, converted)):
        generation = machine.image.generation
        machine.begin_work(step, group, assigned_names, (source,), looked_up, source, generation, {})
    raise KafkaError(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"the classic group {group.group_id} is becoming a consumer group"
    )


def assigned_names(source: Source) -> list[str]:
    """The names of all topics that members are assigned."""
    return list(dict.fromkeys(name for each in source.members for name in embedded.assigned_names(each.assignment)))


def looked_up(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    source: Source,
    generation: int,
    topics: Mapping[str, TopicImage],
    result: list[str] | WorkFailed,
    now: Now,
) -> None:
    """The turn of the next names has come. A topic that changes meanwhile is one of the next epoch."""
    machine.end_work(number, looked_up)
    group = _same(machine, group_id, number)
    if group is None or isinstance(result, WorkFailed):
        return
    part, rest = result[:TOPICS_PER_TURN], result[TOPICS_PER_TURN:]
    found = {**topics, **{topic.name: topic for topic in machine.image.topics.named(part)}}
    if rest:
        machine.begin_work(step, group, unchanged, (rest,), looked_up, source, generation, found)
    else:
        given = source, embedded.FoundTopics(found)
        machine.begin_work(step, group, convert, given, converted, source, generation)


def converted(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    source: Source,
    generation: int,
    result: Made | KafkaError | WorkFailed,
    now: Now,
) -> None:
    """Keep the result for the next member that joins by the consumer protocol."""
    machine.end_work(number, converted)
    group = _same(machine, group_id, number)
    if group is not None and not isinstance(result, WorkFailed):
        group.conversion = Conversion(source, result, generation)


def _same(machine: GroupTable, group_id: str, number: int) -> ClassicGroup | None:
    group = machine.groups.get(group_id)
    return group if isinstance(group, ClassicGroup) and group.number == number else None


# ---- the outcome of the records ----


class GroupMade(NamedTuple):
    """The table had no group of this id before its first record."""

    group_id: str

    def undo(self, group: Group | None) -> Group | None:
        return None

    def restore(self, machine: GroupTable) -> None:
        group = machine.groups[self.group_id]
        assert isinstance(group, ConsumerGroup)
        removed(machine, group)
        machine.displace(group)


class Upgraded(NamedTuple):
    """The records that make a consumer group of a classic one."""

    group_id: str
    number: int

    def written(self, machine: GroupTable, out: GroupStep, now: Now) -> None:
        """Nothing waits for them."""

    def failed(self, machine: GroupTable, out: GroupStep, now: Now, code: ErrorCode) -> None:
        """The classic group goes on: its members were told to join again."""
        group = machine.groups.get(self.group_id)
        if not isinstance(group, ClassicGroup) or group.number != self.number:
            return
        for member in group.members.values():
            rebalance.set_session(machine, group, member, now)
        if group.can_rebalance:
            rebalance.prepare(machine, out, group, now, trigger_of("write_failed"))
        elif group.state is GroupState.PREPARING_REBALANCE:
            rebalance.set_join_timer(machine, group, now, group.rebalance_timeout_ms)
