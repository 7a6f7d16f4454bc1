"""Defects of mirrors between clusters that worlds of the profiles `mirror-link` and `mirror-copy` have to find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker_cy.admin.offsets import Isolation
from broker_cy.controller import mirror_ops
from broker_cy.replica import following
from broker_cy.replica.following import NONE, Step
from broker_cy.replica.mirror import Mirror
from broker_cy.replication.mirror_manager import MirrorManager
from broker_mirror.copy import fetching
from tests.sim import mirror_defects
from tests.sim.world.plan import MIRROR_COPY, MIRROR_LINK
from tests.sim.world.planted import Plant, Planted

# So many seeds from the first one on find a defect.
SEEDS = 30


def transactions_of_the_source_stay_open(patch: pytest.MonkeyPatch) -> None:
    """A promoted leader does not abort what was open: readers of committed records stop there."""
    patch.setattr(MirrorManager, "_end_transactions", lambda self, partition: None)


def reversals_copy_everything(patch: pytest.MonkeyPatch) -> None:
    """A log that diverges is truncated to its first batch."""
    right = Mirror._cut

    def wrong(self: Mirror, offset: int, end: int, log_start: int) -> Step:
        return right(self, min(offset, log_start + 1), end, log_start)

    patch.setattr(Mirror, "_cut", wrong)


def promotions_continue_the_epochs(patch: pytest.MonkeyPatch) -> None:
    """A promoted leader writes in the epoch after that of the source, in which the source may write, too."""
    patch.setattr(mirror_ops, "PROMOTION_EPOCHS", 1)


def producer_ids_are_those_of_the_source(patch: pytest.MonkeyPatch) -> None:
    """A cluster with mirrors gives out producer ids that the source has given out, too."""
    patch.setattr(mirror_ops, "own_producer_ids", lambda state, records, draw: [])


def logs_never_begin_again(patch: pytest.MonkeyPatch) -> None:
    """A follower that would have to truncate its log below its start empties it, and goes on from there."""
    patch.setattr(
        following,
        "begin_again",
        lambda step, log_start, leader_start=NONE: (
            step if step.truncate_to == NONE else step._replace(truncate_to=max(step.truncate_to, log_start))
        ),
    )


def aborted_records_are_copied(patch: pytest.MonkeyPatch) -> None:
    """A copy flow reads uncommitted records."""

    class Level:
        READ_COMMITTED = Isolation.READ_UNCOMMITTED

    patch.setattr(fetching, "Isolation", Level)


def _linked(*plants: tuple[Callable[[pytest.MonkeyPatch], Any], int]) -> dict[str, Planted]:
    return {f"link: {plant.__name__}": Planted(plant, SEEDS, first, MIRROR_LINK) for plant, first in plants}


def _copied(*plants: tuple[Plant, int]) -> dict[str, Planted]:
    return {f"copy: {plant.__name__}": Planted(plant, SEEDS, first, MIRROR_COPY) for plant, first in plants}


MIRROR_PLANTED = _linked(
    (mirror_defects.epochs_are_not_raised, 0),
    (mirror_defects.answers_of_an_older_log_count, 0),
    (transactions_of_the_source_stay_open, 0),
    (reversals_copy_everything, 0),
    (promotions_continue_the_epochs, 0),
    (producer_ids_are_those_of_the_source, 0),
    (logs_never_begin_again, 20),
) | _copied(
    (aborted_records_are_copied, 0),
)
# Those that `make test` looks for: one of each kind.
QUICK = frozenset({"link: promotions_continue_the_epochs", "copy: aborted_records_are_copied"})
