"""Replicas whose log may be in a data directory that is offline: they get no empty log elsewhere.

An empty log would count as a complete one: the replica may lead without any record, and it would be in two directories
when the disk is back (KAFKA-16234). The metadata name the directory of a replica, but not always: a report may be under
way, and a replica without a directory in the metadata (UNASSIGNED, or MIGRATING before KIP-858) counts as online. So a
start without all of its directories replaces no log of a replica that is in sync or an eligible leader, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker_cy.controller.rules import directory_of
from broker_cy.core import uuid as uuids

if TYPE_CHECKING:
    from broker_cy.metadata.partition import PartitionImage
    from broker_cy.storage.data_directory import DataDirectory

_UNKNOWN = frozenset({uuids.UNASSIGNED_DIRECTORY, uuids.MIGRATING_DIRECTORY})


def reason(part: PartitionImage, node_id: int, directories: Sequence[DataDirectory], *, is_start: bool) -> str | None:
    """Why the log of a replica without one must not be created; None if it may be. A partition that this process
    learns of later than at its `is_start` is new.
    """
    failed = [each for each in directories if each.failure is not None]
    if not failed:
        return None
    directory_id = directory_of(part, node_id)
    is_online = any(each.directory_id == directory_id and each.failure is None for each in directories)
    if is_online or directory_id in _UNKNOWN:
        has_had_records = is_start and node_id in (*part.isr, *part.elr, *part.last_known_elr)
        if not has_had_records:
            return None
    named = next((each for each in failed if each.directory_id == directory_id), failed[0])
    return f"its log may be in {named.path}, which is offline: {named.failure}"
