"""One partition, as the metadata log has it."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from broker_cy.core.classes import NamedTuple

NO_LEADER: Final = -1


class PartitionImage(NamedTuple):
    """One partition. `isr` is a subset of `replicas`; `leader` is in `isr` or NO_LEADER; epochs only grow.

    `directories[i]` is the log directory id of `replicas[i]`. `elr` and `last_known_elr` are defined in KIP-966.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[UUID, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
