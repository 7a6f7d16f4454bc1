"""How share partitions lose their state: with their group (DeleteGroups), by DeleteShareGroupOffsets, and with their
topic. In the first two cases, the record `deleting` is written before the share coordinator is asked. It follows the
deletion of topics itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

from broker_cy.coordinator.expiry import offset_tombstones
from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.share import state_calls
from broker_cy.coordinator.share.group import ShareGroup
from broker_cy.coordinator.share.state_calls import Asked, DeleteState, Outcomes
from broker_cy.coordinator.share.state_partitions import Partitions, united
from broker_cy.coordinator.step import CallFailed, GroupStep, Waiting
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.step import Now, Token

Codes = Mapping[str, ErrorCode]


# ---- DeleteGroups ----


def has_share_groups(machine: GroupTable, group_ids: Iterable[str]) -> bool:
    """Whether `delete_groups` has something to do."""
    return any(isinstance(machine.groups.get(group_id), ShareGroup) for group_id in group_ids)


def delete_groups(machine: GroupTable, step: GroupStep, group_ids: Iterable[str], token: Token, now: Now) -> None:
    """Delete those of the groups that are share groups, with their state. The answer has the code of each of them."""
    codes: dict[str, ErrorCode] = {}
    groups: dict[str, Partitions] = {}
    asked: list[Asked] = []
    step.atomic = False
    for group_id in dict.fromkeys(group_ids):
        group = machine.groups.get(group_id)
        if not isinstance(group, ShareGroup):
            continue
        try:
            if group.members:
                raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
            state_calls.check_calls(group, group.under_way)
        except KafkaError as error:
            codes[group_id] = error.code
            continue
        state = group.share_partitions
        # A deletion that was not completed is repeated.
        partitions = united(state.initializing, state.initialized, state_calls.existing(machine, state.deleting))
        if partitions:
            group = state_calls.put_share_partitions(machine, step, group, state.removing(state.topic_ids))
            groups[group_id] = partitions
            asked.append(state_calls.begin_call(step, group, partitions))
        else:
            codes[group_id] = ErrorCode.NONE
            _remove(machine, step, group)
    if not asked:
        step.reply_when_written(token, codes, _not_deleted, tuple(codes))
        return
    waiting = Waiting(token, _not_deleted, ((*codes, *groups),))
    step.call_for(waiting, DeleteState(groups), states_deleted, tuple(asked), codes, token)


def states_deleted(
    machine: GroupTable,
    step: GroupStep,
    asked: Collection[Asked],
    known: Codes,
    token: Token,
    result: Outcomes | CallFailed,
    now: Now,
) -> None:
    """Delete the groups that have no state any more. `known` are the codes of the other groups."""
    codes = dict(known)
    step.atomic = False
    for each in asked:
        failed = state_calls.failed_topics(each.group_id, each.partitions, result)
        group = each.ended(machine)
        code = next(iter(failed.values()), ErrorCode.NONE)
        if code is ErrorCode.NONE and group is not None:
            code = group.check_deletion()
            if code is ErrorCode.NONE:
                _remove(machine, step, group)
        codes[each.group_id] = code
    step.reply_when_written(token, codes, _not_deleted, tuple(codes))


def _remove(machine: GroupTable, step: GroupStep, group: ShareGroup) -> None:
    machine.append(step, [*offset_tombstones(machine, group.group_id), *group.tombstones()])


def _not_deleted(group_ids: Iterable[str], code: ErrorCode) -> Codes:
    return dict.fromkeys(group_ids, code)


# ---- after a start ----


def resume(machine: GroupTable, step: GroupStep, group: ShareGroup) -> None:
    """This coordinator was loaded: repeat a deletion whose end the one before it has not noted."""
    partitions = state_calls.existing(machine, group.share_partitions.deleting)
    if partitions:
        asked = state_calls.begin_call(step, group, partitions)
        step.call_when_written(DeleteState({group.group_id: partitions}), topics_removed, asked)


def topics_removed(machine: GroupTable, step: GroupStep, asked: Asked, result: Outcomes | CallFailed, now: Now) -> None:
    """Note which topics have no state any more."""
    group = asked.ended(machine)
    if group is not None:
        failed = state_calls.failed_topics(asked.group_id, asked.partitions, result)
        done = asked.partitions.keys() - failed.keys()
        state_calls.put_share_partitions(machine, step, group, group.share_partitions.removed(done))


# ---- deleted topics ----


def topics_deleted(machine: GroupTable, step: GroupStep, topic_ids: Collection[UUID]) -> None:
    """Forget the share partitions of deleted topics. If the record cannot be written, they stay until the coordinator
    moves: nothing is done with them.
    """
    for group in [group for group in machine.groups.values() if isinstance(group, ShareGroup)]:
        forget(machine, step, group, group.share_partitions.topic_ids.intersection(topic_ids))


def forget_missing(machine: GroupTable, step: GroupStep, group: ShareGroup) -> None:
    """This coordinator was loaded: forget topics that were deleted while none was. The metadata have every topic that
    an earlier coordinator has seen, because they are newer than the election of this one.
    """
    topics = machine.image.topics
    forget(machine, step, group, {each for each in group.share_partitions.topic_ids if topics.by_id(each) is None})


def forget(machine: GroupTable, step: GroupStep, group: ShareGroup, topic_ids: Collection[UUID]) -> None:
    if topic_ids:
        # Each record stands for itself.
        step.atomic = False
        state_calls.put_share_partitions(machine, step, group, group.share_partitions.forgotten(topic_ids))
