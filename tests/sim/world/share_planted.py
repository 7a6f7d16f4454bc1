"""Defects of share groups (KIP-932) that worlds of the profile `cluster-shares` have to find. Most are those of the
simulations of single parts: the brokers show them to their clients.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_cy.coordinator.share_state.answers import Outcome
from broker_cy.share import operating
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.state_write import StateWrite
from broker_cy.share_service import operations
from broker_cy.share_service.state_writes import StateWrites
from broker_cy.wire.share_operations import OperatorAction
from tests.sim import share_defects, share_service_defects, share_state_defects
from tests.sim.world.plan import CLUSTER_SHARES
from tests.sim.world.planted import Planted

# So many seeds from the first one on find a defect.
SEEDS = 30


def lost_answers_of_writes_count_as_written(patch: pytest.MonkeyPatch) -> None:
    """Acknowledgements whose write failed, or was not answered, are answered without an error."""
    right = StateWrites._answered

    def wrong(self: StateWrites, future: asyncio.Future[Outcome]) -> None:
        done: asyncio.Future[Outcome] = future.get_loop().create_future()
        done.set_result(Outcome())
        right(self, done)

    patch.setattr(StateWrites, "_answered", wrong)


def records_that_operators_release_are_archived(patch: pytest.MonkeyPatch) -> None:
    """Records that an operator takes from a slow member are not delivered to another one."""
    right = operating.operate

    def operate(partition: SharePartition, action: int, *rest: Any) -> tuple[StateWrite | None, int, int]:
        return right(partition, OperatorAction.REJECT if action == OperatorAction.RELEASE else action, *rest)

    patch.setattr(operating, "operate", operate)


def _of_operators(plant: Any) -> tuple[str, Planted]:
    """A defect of the function that changes records for operators: the broker has imported it."""

    def plant_here(patch: pytest.MonkeyPatch) -> None:
        plant(patch)
        patch.setattr(operations, "operate", operating.operate)

    return plant.__name__, Planted(plant_here, SEEDS, profile=CLUSTER_SHARES)


def _planted(plant: Any, first: int = 0, seeds: int = SEEDS) -> tuple[str, Planted]:
    return plant.__name__, Planted(plant, seeds, first, CLUSTER_SHARES)


SHARE_PLANTED: dict[str, Planted] = dict(
    [
        _planted(lost_answers_of_writes_count_as_written),
        _planted(share_state_defects.snapshot_loses_the_batches),
        # All coordinators have it, so that members notice it by their memberships, too.
        _planted(share_state_defects.response_is_sent_before_the_write),
        _planted(share_service_defects.acknowledgements_are_answered_before_the_write),
        _planted(share_service_defects.ended_connections_release_nothing),
        _planted(share_defects.closed_sessions_release_nothing),
        _planted(share_defects.released_records_are_archived),
        _planted(share_defects.persisted_acknowledgements_are_undone),
        _planted(share_defects.old_connections_end_new_sessions),
        # Few plans have the outage.
        _planted(share_state_defects.old_leader_may_write, 10),
        _planted(share_state_defects.leader_epoch_of_a_read_is_not_written),
        # Half of the plans have an operator.
        _of_operators(share_defects.operators_change_locks_of_others),
        _of_operators(share_defects.rejections_are_not_persisted),
        _of_operators(share_defects.redriven_records_keep_their_count),
        _of_operators(records_that_operators_release_are_archived),
    ]
)
