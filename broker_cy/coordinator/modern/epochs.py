"""The epochs of the newer types of groups.

An epoch has the metadata hash of the topics that the group reads. It is kept until the topics change, and so are the
hashes of single topics. Those of a group that reads 10,000 topics are computed in parts after a load, when a member
names them, and after a search for regular expressions, in the order of the names, in which the metadata hash needs
them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.assigning import unchanged
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.modern.metadata_hash import topic_hashes
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.step import Now, WorkFailed
from broker_cy.metadata.topics import TopicImage
from broker_cy.metrics.events import Trigger

# Topics and partitions that one turn of the loop hashes, in about 2 ms.
HASHED_PER_TURN: Final = 1_500


def hash_some(machine: GroupTable, names: Collection[str]) -> bool:
    """Compute hashes of topics that are not known yet, at most HASHED_PER_TURN. Return whether all are known, and the
    rest of the turn can be used.
    """
    known, topics = machine.topic_hashes, machine.image.topics
    some: list[TopicImage] = []
    size = 0
    for name in names:
        if size >= HASHED_PER_TURN:
            break
        if name not in known and (topic := topics.by_name(name)) is not None:
            some.append(topic)
            size += 1 + len(topic.partitions)
    known.update(topic_hashes(some, machine.image))
    return 2 * size <= HASHED_PER_TURN


def hashed(
    machine: GroupTable, step: GroupStep, group_id: str, number: int, result: list[str] | WorkFailed, now: Now
) -> None:
    """The turn of the next hashes has come; the result has the names of the topics in their order."""
    machine.end_work(number, hashed)
    group = machine.groups.get(group_id)
    is_same = isinstance(group, EpochGroup) and group.number == number
    if group is not None and is_same and not isinstance(result, WorkFailed) and not hash_some(machine, result):
        machine.begin_work(step, group, unchanged, (result,), hashed)


def _hash_all(machine: GroupTable, step: GroupStep, group: EpochGroup[Any, Any]) -> bool:
    """Compute hashes of the group's topics, those of many in later turns. Return whether all are known."""
    if machine.has_work(group, hashed):
        return False
    unknown = machine.image.topics.existing(group.subscribed_topics().difference(machine.topic_hashes))
    if 2 * len(unknown) <= HASHED_PER_TURN:
        hash_some(machine, unknown)
        unknown -= machine.topic_hashes.keys()
    if not unknown:
        return True
    machine.begin_work(step, group, sorted, (unknown,), hashed)
    return False


def newest_hash(machine: GroupTable, step: GroupStep, group: EpochGroup[Any, Any]) -> int | None:
    """The metadata hash over the topics of the group as they are now. None if the hashes of many are not known yet:
    they are computed in later turns, after which a heartbeat compares it with that of the group. An epoch that begins
    meanwhile has the metadata hash of the one before, and another one follows.
    """
    if group.hash_now is None:
        group.hash_now = group.known_metadata_hash(machine.topic_hashes)
    if group.hash_now is None and not _hash_all(machine, step, group):
        group.refresh_at_ms = 0
        return None
    return hash_now(machine, group)


def hash_now(machine: GroupTable, group: EpochGroup[Any, Any]) -> int:
    """The metadata hash over the topics of the group as they are now."""
    if group.hash_now is None:
        group.hash_now = group.compute_metadata_hash(machine.image, machine.topic_hashes)
    return group.hash_now


def update_epoch(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    now: Now,
    epoch_record: Callable[[str, int, int], Record],
    *,
    trigger: Trigger | None,
) -> None:
    """Begin another epoch of the group if it has a trigger, or if a subscribed topic has changed. If the hashes of many
    topics are not known yet, a later heartbeat finds out about changes. `epoch_record` is a function of the group's id,
    its epoch and the metadata hash.
    """
    if trigger is None and not group.is_refresh_due(now.mono_ms):
        return
    metadata_hash = newest_hash(machine, step, group)
    if trigger is None and metadata_hash not in (None, group.metadata_hash):
        trigger = group.metadata_trigger(machine.topic_hashes)
    if trigger is not None:
        begin_epoch(machine, step, group, now, epoch_record, metadata_hash, trigger)
    if metadata_hash is not None:
        group.refreshed(now.mono_ms)


def begin_epoch(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    now: Now,
    epoch_record: Callable[[str, int, int], Record],
    metadata_hash: int | None,
    trigger: Trigger,
    *,
    left: int = 0,
) -> None:
    """Begin another epoch of the group, after `left` members were removed. None: with the metadata hash that it has."""
    if metadata_hash is None:
        metadata_hash = group.metadata_hash
    machine.append(step, [epoch_record(group.group_id, group.epoch + 1, metadata_hash)])
    group.journal.epoch_began(step, group, trigger, left, now)
