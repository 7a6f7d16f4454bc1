"""The epochs of the newer types of groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_cy.coordinator.group import GroupTable
from broker_cy.coordinator.modern.group import EpochGroup
from broker_cy.coordinator.step import GroupStep, Record
from broker_cy.core.step import Now


def update_epoch(
    machine: GroupTable,
    step: GroupStep,
    group: EpochGroup[Any, Any],
    now: Now,
    epoch_record: Callable[[str, int, int], Record],
    *,
    is_bumped: bool,
) -> None:
    """Begin another epoch of the group if it is to be bumped, or if a subscribed topic has changed. `epoch_record` is a
    function of the group's id, its epoch and the metadata hash.
    """
    if not is_bumped and not group.is_refresh_due(now.mono_ms):
        return
    metadata_hash = group.compute_metadata_hash(machine.image, machine.topic_hashes)
    if is_bumped or metadata_hash != group.metadata_hash:
        machine.append(step, [epoch_record(group.group_id, group.epoch + 1, metadata_hash)])
    group.refreshed(now.mono_ms)
