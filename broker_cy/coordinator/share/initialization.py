"""How share partitions get their state: the record `initializing`, the request to the share coordinator, and then the
record `initialized`. Members get only initialized partitions, so a first assignment needs two heartbeats.

Unlike in Kafka, a partition that could not be initialized does not hold up the others of its request.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.assigning import unchanged
from broker_cy.coordinator.share import state_calls
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.state_calls import Asked, InitializeState, Outcomes
from broker_cy.coordinator.share.state_partitions import Partitions, common, in_parts, united, without
from broker_cy.coordinator.share_state.state import NO_START_OFFSET
from broker_cy.coordinator.step import CallFailed, GroupStep
from broker_cy.core.step import Now, WorkFailed

# Share partitions of one request, whose result one turn of the loop notes in about 3 ms.
ASKED_PER_CALL: Final = 2_500
# Topics for which a heartbeat requests state itself, in about 1 ms. Those of more have a turn of the loop of their own.
TOPICS_PER_HEARTBEAT: Final = 250
_NONE: Final[frozenset[int]] = frozenset()


def begin(machine: GroupTable, step: GroupStep, group: ShareGroup, now: Now) -> None:
    """Request the state of the partitions that the group may read, and that have none: for very many topics in a later
    turn.
    """
    if group.has_stateless is False or machine.has_work(group, began):
        return
    if len(group.by_name) > TOPICS_PER_HEARTBEAT:
        machine.begin_work(step, group, unchanged, (None,), began)
    else:
        _begin(machine, step, group, now)


def began(
    machine: GroupTable, step: GroupStep, group_id: str, number: int, result: WorkFailed | None, now: Now
) -> None:
    """The turn for very many topics has come."""
    machine.end_work(number, began)
    group = machine.groups.get(group_id)
    if isinstance(group, ShareGroup) and group.number == number and group.has_stateless is not False:
        _begin(machine, step, group, now)


def _begin(machine: GroupTable, step: GroupStep, group: ShareGroup, now: Now) -> None:
    group.has_stateless = False
    names: dict[UUID, str] = {}
    found: dict[UUID, frozenset[int]] = {}
    state = group.share_partitions
    for name in group.by_name:
        topic = machine.image.topics.by_name(name)
        if topic is None:
            continue
        has = state.initialized.get(topic.topic_id, _NONE) if state.initialized else _NONE
        if len(has) >= len(topic.partitions):
            continue
        group.has_stateless = True
        if group.under_way and topic.topic_id in group.under_way:
            continue
        if group.asked_at_ms and not _is_retry_due(machine, group, topic.topic_id, now):
            has |= state.initializing.get(topic.topic_id, frozenset())
        if len(has) < len(topic.partitions):
            names[topic.topic_id] = name
            found[topic.topic_id] = frozenset(topic.partitions) - has
    if not found:
        return
    # An answer may be lost: state of an earlier request stays.
    repeated = common(found, state.initializing)
    state_calls.put_share_partitions(machine, step, group, state.began(found, names))
    _ask(step, group, without(found, repeated), now, keeps=False)
    _ask(step, group, repeated, now, keeps=True)


def _is_retry_due(machine: GroupTable, group: ShareGroup, topic_id: UUID, now: Now) -> bool:
    """Whether state of the topic that was requested before, and is not there, is to be requested again. It is if the
    time of the request is not known: this coordinator has not made it.
    """
    asked_at_ms = group.asked_at_ms.get(topic_id)
    return asked_at_ms is None or now.mono_ms >= asked_at_ms + machine.settings.share.initialize_retry_interval_ms


def resume(machine: GroupTable, step: GroupStep, group: ShareGroup, now: Now) -> None:
    """This coordinator was loaded: request again what the one before it has requested without noting an answer."""
    _ask(step, group, group.share_partitions.initializing, now, keeps=True)


def _ask(step: GroupStep, group: ShareGroup, partitions: Partitions, now: Now, *, keeps: bool) -> None:
    if not partitions:
        return
    group.note_request(partitions, now.mono_ms)
    for part in in_parts(partitions, ASKED_PER_CALL):
        offsets = {topic_id: dict.fromkeys(sorted(numbers), NO_START_OFFSET) for topic_id, numbers in part.items()}
        asked = state_calls.begin_call(step, group, part)
        step.call_when_written(InitializeState(group.group_id, group.epoch, offsets, keeps), initialized, asked, keeps)


def initialized(
    machine: GroupTable, step: GroupStep, asked: Asked, keeps: bool, result: Outcomes | CallFailed, now: Now
) -> None:
    """Note which partitions have state now. The others are requested again by the next heartbeat. If an earlier request
    may have given them state, which they keep, they stay `initializing` until then.
    """
    group = asked.ended(machine)
    if group is not None:
        done = state_calls.done_of(group.group_id, result)
        fenced = state_calls.fenced_of(group, asked.partitions, result)
        after = group.share_partitions.ended(united(done, fenced) if keeps else asked.partitions, done)
        state_calls.put_share_partitions(machine, step, group, after)
        state_calls.delete_fenced(step, group, fenced)
