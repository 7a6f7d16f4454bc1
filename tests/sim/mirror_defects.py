"""Defects of mirrors, which their simulation must find. Each is planted by replacing one function or value.

Two that it finds in hundreds of seeds at best are in tests/broker_cy/replica/test_mirror.py instead: a new leader that
reaches a deposed leader of the source, and a leader that truncates its log and still counts what followers had fetched.
"""

from __future__ import annotations

from broker_cy.replica import following
from broker_cy.replica.mirror import Act, Mirror
from tests.sim import mirror_world
from tests.sim.defects import Patch, Planter

SEEDS_MAX = 30


def uncommitted_records_are_taken(patch: Patch) -> None:
    """A mirror takes records that its source has not committed."""
    patch.setattr(
        Mirror, "take", lambda self, replica, asked, answer, epochs, start: following.decide(asked, answer, epochs)
    )


def diverging_answers_are_ignored(patch: Patch) -> None:
    """A mirror does not truncate after an unclean election of its source."""
    patch.setattr(Mirror, "_cut", lambda self, offset, end, start: following.Step(is_ignored=True))


def epochs_are_not_raised(patch: Patch) -> None:
    """A mirror appends batches of a later epoch than that of its leader."""
    right = vars(Mirror)["want"].fget
    assert right is not None

    def want(self: Mirror) -> Act:
        found: Act = right(self)
        return Act.FETCH if found is Act.RAISE else found

    patch.setattr(Mirror, "want", property(want))


def answers_of_an_older_log_count(patch: Patch) -> None:
    """An answer counts although the log, or the leader of the source, is another one by now."""
    patch.setattr(Mirror, "is_expected", lambda self, replica, asked, epochs: True)


def promotion_continues_the_epochs(patch: Patch) -> None:
    """A promoted leader writes in the epoch after that of the source, in which the source may write, too."""
    patch.setattr(mirror_world, "PROMOTION_EPOCHS", 1)


DEFECTS: dict[Planter, int] = dict.fromkeys(
    (
        uncommitted_records_are_taken,
        diverging_answers_are_ignored,
        epochs_are_not_raised,
        answers_of_an_older_log_count,
        promotion_continues_the_epochs,
    ),
    SEEDS_MAX,
)
