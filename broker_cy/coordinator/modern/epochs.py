"""The epochs of the newer types of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.step import Now
from broker_cy.metrics.events import Trigger


def update_epoch(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    now: Now,
    epoch_record: Callable[[str, int, int], Record],
    *,
    trigger: Trigger | None,
) -> None:
    """Begin another epoch of the group if it has a trigger, or if a subscribed topic has changed. `epoch_record` is a
    function of the group's id, its epoch and the metadata hash.
    """
    is_bumped = trigger is not None
    if not is_bumped and not group.is_refresh_due(now.mono_ms):
        return
    metadata_hash = group.compute_metadata_hash(machine.image, machine.topic_hashes)
    if is_bumped or metadata_hash != group.metadata_hash:
        begin_epoch(machine, step, group, now, epoch_record, metadata_hash, trigger or Trigger("metadata"))
    group.refreshed(now.mono_ms)


def begin_epoch(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    now: Now,
    epoch_record: Callable[[str, int, int], Record],
    metadata_hash: int,
    trigger: Trigger,
    *,
    left: int = 0,
) -> None:
    """Begin another epoch of the group, after `left` members were removed."""
    machine.append(step, [epoch_record(group.group_id, group.epoch + 1, metadata_hash)])
    group.journal.epoch_began(step, group, trigger, left, now)
