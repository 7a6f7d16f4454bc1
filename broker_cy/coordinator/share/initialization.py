"""How share partitions get their state: the record `initializing`, the request to the share coordinator, and then the
record `initialized`. Members get only initialized partitions, so a first assignment needs two heartbeats.

Unlike in Kafka, a partition that could not be initialized does not hold up the others of its request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from operator import eq
from typing import Final
from uuid import UUID

from broker_cy.coordinator.assignors.spec import Assignment
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.assigning import unchanged
from broker_cy.coordinator.modern.topic_values import in_order, of_each
from broker_cy.coordinator.share import records, state_calls
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.state_calls import Asked, InitializeState, Outcomes
from broker_cy.coordinator.share.state_partitions import (
    Partitions,
    SharePartitions,
    common,
    in_parts,
    of_topics,
    united,
    without,
)
from broker_cy.coordinator.share_state.state import NO_START_OFFSET
from broker_cy.coordinator.step import CallFailed, GroupStep, Record
from broker_cy.core.classes import NamedTuple
from broker_cy.core.step import Now, WorkFailed
from broker_cy.metadata.topics import TopicImage

# Share partitions of one request.
ASKED_PER_CALL: Final = 2_500
# Topics of a group whose state the loop looks for, and notes, itself, in about 1 ms. It leaves those of more to a
# worker.
TOPICS_PER_HEARTBEAT: Final = 250
_NONE: Final[frozenset[int]] = frozenset()


# ---- requests ----


class Search(NamedTuple):
    """All that a search for partitions without state follows from, as values; with the `targets` of the members, it
    also looks for partitions without a member. `asked_at_ms` is when the state of topics was asked for, and topics that
    were asked for after `due_ms` wait (monotonic).
    """

    group_id: str
    topics: Sequence[TopicImage]
    targets: Sequence[Assignment] | None
    state: SharePartitions
    under_way: Set[UUID]
    asked_at_ms: Mapping[UUID, int]
    due_ms: int


class Request(NamedTuple):
    """Partitions of one request, with their start offsets. It `keeps` the state of those that were asked for before."""

    partitions: Partitions
    start_offsets: Mapping[UUID, Mapping[int, int]]
    keeps: bool


class Found(NamedTuple):
    """The partitions to ask for now, their requests, and the share partitions that follow, with their record; None if
    there are none to ask for.
    """

    has_unassigned: bool | None
    has_stateless: bool
    partitions: Partitions
    requests: Sequence[Request]
    after: tuple[SharePartitions, Record] | None


def begin(machine: GroupTable, step: GroupStep, group: ShareGroup, now: Now) -> None:
    """Request the state of the partitions that the group may read, and that have none; for very many topics, after a
    search in the background.
    """
    if group.has_stateless is False or machine.has_work(group, began) or machine.has_work(group, collected):
        return
    if is_large(group):
        machine.begin_work(step, group, unchanged, (None,), collected)
    else:
        _request(machine, step, group, search(_collected(machine, group, None, now)), now)


def is_large(group: ShareGroup) -> bool:
    """Whether its partitions are looked at in the background."""
    return len(group.by_name) > TOPICS_PER_HEARTBEAT


def collected(
    machine: GroupTable, step: GroupStep, group_id: str, number: int, result: WorkFailed | None, now: Now
) -> None:
    """The turn has come in which the search for very many topics begins."""
    machine.end_work(number, collected)
    group = machine.groups.get(group_id)
    if isinstance(group, ShareGroup) and group.number == number and group.has_stateless is not False:
        group.has_stateless = True
        given = _collected(machine, group, tuple(group.target.values()), now)
        machine.begin_work(step, group, search, (given,), began)


def _collected(machine: GroupTable, group: ShareGroup, targets: Sequence[Assignment] | None, now: Now) -> Search:
    return Search(
        group.group_id,
        machine.image.topics.named(group.by_name),
        targets,
        group.share_partitions,
        frozenset(group.under_way),
        dict(group.asked_at_ms),
        now.mono_ms - machine.settings.share.initialize_retry_interval_ms,
    )


def leaves_out(readable: Partitions, targets: Iterable[Assignment]) -> bool:
    """Whether these partitions are not all in the targets, or the targets have others of their topics."""
    assigned = united(*targets)
    return not all(map(eq, map(assigned.get, readable), readable.values()))


def search(given: Search) -> Found:
    """Find the partitions without state. Runs in the background for very many topics."""
    state = given.state
    has_unassigned = None
    if given.targets is not None:
        readable = of_topics(state.initialized, {topic.topic_id for topic in given.topics})
        has_unassigned = leaves_out(readable, given.targets)
    names: dict[UUID, str] = {}
    found: dict[UUID, frozenset[int]] = {}
    has_stateless = False
    for topic in given.topics:
        topic_id = topic.topic_id
        has = state.initialized.get(topic_id, _NONE)
        if len(has) >= len(topic.partitions):
            continue
        has_stateless = True
        if topic_id in given.under_way:
            continue
        if not _is_retry_due(given, topic_id):
            has |= state.initializing.get(topic_id, _NONE)
        if len(has) < len(topic.partitions):
            names[topic_id] = topic.name
            found[topic_id] = frozenset(topic.partitions) - has
    if not found:
        return Found(has_unassigned, has_stateless, {}, (), None)
    partitions = {topic_id: found[topic_id] for topic_id in in_order(found)}
    new = state.began(partitions, names)
    # An answer may be lost: state of an earlier request stays.
    repeated = common(partitions, state.initializing)
    record = records.share_partitions_record(given.group_id, new)
    requests = [
        *_requests(without(partitions, repeated), keeps=False),
        *_requests(repeated, keeps=True),
    ]
    return Found(has_unassigned, has_stateless, partitions, requests, (new, record))


def _requests(partitions: Partitions, *, keeps: bool) -> Iterator[Request]:
    for part in in_parts(partitions, ASKED_PER_CALL):
        offsets = of_each(part.values(), _without_start)
        yield Request(part, dict(zip(part, offsets, strict=True)), keeps)


def _without_start(partitions: frozenset[int]) -> Mapping[int, int]:
    return dict.fromkeys(sorted(partitions), NO_START_OFFSET)


def _is_retry_due(given: Search, topic_id: UUID) -> bool:
    """Whether state of the topic that was requested before, and is not there, is to be requested again. It is if the
    time of the request is not known: this coordinator has not made it.
    """
    asked_at_ms = given.asked_at_ms.get(topic_id)
    return asked_at_ms is None or asked_at_ms <= given.due_ms


def began(
    machine: GroupTable, step: GroupStep, group_id: str, number: int, result: Found | WorkFailed, now: Now
) -> None:
    """The search has ended. It is repeated if the group or its topics have changed since."""
    machine.end_work(number, began)
    group = machine.groups.get(group_id)
    if not isinstance(group, ShareGroup) or group.number != number or group.has_stateless is False:
        return
    if isinstance(result, WorkFailed):
        # The next heartbeat begins another one.
        group.has_stateless = None
    elif group.has_stateless is None or not group.under_way.keys().isdisjoint(result.partitions.keys()):
        begin(machine, step, group, now)
    else:
        _request(machine, step, group, result, now)


def _request(machine: GroupTable, step: GroupStep, group: ShareGroup, found: Found, now: Now) -> None:
    group.has_stateless = found.has_stateless
    if found.has_unassigned is not None:
        group.has_unassigned = found.has_unassigned
    if found.after is None:
        return
    new, record = found.after
    if new != group.share_partitions:
        state_calls.append_share_partitions(machine, step, group, new, record)
    _ask(step, group, found.requests, now)


def resume(machine: GroupTable, step: GroupStep, group: ShareGroup, now: Now) -> None:
    """This coordinator was loaded: request again what the one before it has requested without noting an answer."""
    _ask(step, group, list(_requests(group.share_partitions.initializing, keeps=True)), now)


def _ask(step: GroupStep, group: ShareGroup, requests: Sequence[Request], now: Now) -> None:
    if requests:
        group.note_request(chain.from_iterable(each.partitions for each in requests), now.mono_ms)
    for partitions, offsets, keeps in requests:
        asked = state_calls.begin_call(step, group, partitions)
        step.call_when_written(InitializeState(group.group_id, group.epoch, offsets, keeps), initialized, asked, keeps)


# ---- results ----


class Noted(NamedTuple):
    """The share partitions after a result, with their record, and those that have state of a later epoch."""

    after: SharePartitions
    record: Record
    fenced: Partitions


def initialized(
    machine: GroupTable, step: GroupStep, asked: Asked, keeps: bool, result: Outcomes | CallFailed, now: Now
) -> None:
    """Note which partitions have state now; for very many topics, in a later turn. The others are requested again by
    the next heartbeat. If an earlier request may have given them state, which they keep, they stay `initializing` until
    then.
    """
    group = asked.group(machine)
    if group is None:
        return
    state = group.share_partitions
    given = (group.group_id, state, asked.partitions, keeps, result)
    if len(state.names) > TOPICS_PER_HEARTBEAT:
        machine.begin_work(step, group, noted, given, note, asked, keeps, result, state)
    else:
        _note(machine, step, group, asked, noted(*given))


def noted(
    group_id: str, state: SharePartitions, asked: Partitions, keeps: bool, result: Outcomes | CallFailed
) -> Noted:
    """Return the changes that follow from a result. Runs in the background for very many topics."""
    done = state_calls.done_of(group_id, result)
    fenced = state_calls.fenced_of(state, asked, result)
    after = state.ended(united(done, fenced) if keeps else asked, done)
    return Noted(after, records.share_partitions_record(group_id, after), fenced)


def note(
    machine: GroupTable,
    step: GroupStep,
    group_id: str,
    number: int,
    asked: Asked,
    keeps: bool,
    result: Outcomes | CallFailed,
    state: SharePartitions,
    found: Noted | WorkFailed,
    now: Now,
) -> None:
    """The turn of a result has come; that of another one may have changed the share partitions meanwhile."""
    machine.end_work(number, note)
    group = asked.group(machine)
    if group is None:
        return
    if isinstance(found, WorkFailed):
        group.call_ends(asked.partitions)
    elif group.share_partitions is not state:
        initialized(machine, step, asked, keeps, result, now)
    else:
        _note(machine, step, group, asked, found)


def _note(machine: GroupTable, step: GroupStep, group: ShareGroup, asked: Asked, found: Noted) -> None:
    group.call_ends(asked.partitions)
    if found.after != group.share_partitions:
        state_calls.append_share_partitions(machine, step, group, found.after, found.record)
    state_calls.delete_fenced(step, group, found.fenced)
