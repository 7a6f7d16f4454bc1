"""Defects of mirrors between clusters that worlds of the profiles `mirror-link` and `mirror-copy` have to find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.controller import mirror_ops
from broker_cy.replica import following
from broker_cy.replica.following import NONE, Step
from broker_cy.replica.in_sync import InSync
from broker_cy.replica.mirror import Mirror
from broker_cy.replication.mirror_manager import MirrorManager
from broker_mirror.copy import fetching
from broker_mirror.copy import host as copy_host
from broker_mirror.copy.fetching import Fetching
from broker_mirror.copy.flow import CopyMachine
from broker_mirror.copy.loading import Begins, Loading
from broker_mirror.copy.partition import Key
from broker_mirror.copy.positions import Position
from broker_mirror.copy.restamp import Piece, cut
from broker_mirror.flow_run import FlowRun, transactional_prefix
from broker_mirror.flows import Flow
from broker_mirror.tasks import checkpoints
from broker_mirror.translation import PartitionRanges
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


def logs_begin_within_a_batch(patch: pytest.MonkeyPatch) -> None:
    """A log begins again at the log start of the source. The first batch there may begin before it: then the log begins
    once more.
    """
    patch.setattr(Mirror, "_begin", lambda self, source_start, source_end: Step(restart_at=source_start))


def logs_begin_on_leaders_alone(patch: pytest.MonkeyPatch) -> None:
    """A log that begins again is read although other replicas in sync do not have its first offset."""

    def truncated(self: InSync, log_end: int) -> None:
        self.epoch_start = min(self.epoch_start, log_end)
        for follower in self.followers.values():
            follower.end_offset = follower.leader_end_then = log_end

    patch.setattr(InSync, "truncated", truncated)


def aborted_records_are_copied(patch: pytest.MonkeyPatch) -> None:
    """A copy flow reads uncommitted records."""

    class Level:
        READ_COMMITTED = Isolation.READ_UNCOMMITTED

    patch.setattr(fetching, "Isolation", Level)


def deleted_records_are_not_named(patch: pytest.MonkeyPatch) -> None:
    """A copy flow goes on after records that were deleted before they were copied, and its status does not say so."""
    right = CopyMachine.lost

    def lost(self: CopyMachine, key: Key, offset: int, start: int) -> None:
        right(self, key, offset, start)
        self.partitions[key].note = None

    patch.setattr(CopyMachine, "lost", lost)


def deletions_lead_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """After a deletion a copy flow goes on at the end of the partition, and not at its first record."""

    async def out_of_range(self: Fetching, key: TopicPartition, offset: int) -> bool:
        end = (await self._client.offsets.latest([key])).whole()[key]
        self._machine.lost(key, offset, end)
        return True

    patch.setattr(Fetching, "_out_of_range", out_of_range)


def compacted_batches_are_left_out(patch: pytest.MonkeyPatch) -> None:
    """A copy flow skips the batches of the compacted topic that it cannot pass on as they are."""

    def wrong(records: bytes, start: int, aborted: Any, where: str, bytes_max: int) -> tuple[list[Piece], int]:
        pieces, next_offset = cut(records, start, aborted, where, bytes_max)
        is_compacted = where.startswith("partition c")
        return [each for each in pieces if not (is_compacted and each.encoded_again)], next_offset

    patch.setattr(fetching, "cut", wrong)


def former_owners_are_not_fenced(patch: pytest.MonkeyPatch) -> None:
    """A process that takes partitions over does not initialize the transactional id of their former owner: it has one
    of its own.
    """

    async def prepare(self: FlowRun) -> None:
        """Nothing is fenced."""

    def own_id(flow: Flow, owner: int) -> str:
        return f"{transactional_prefix(flow)}{owner}-{asyncio.get_running_loop().time():.6f}"

    patch.setattr(FlowRun, "_prepare", prepare)
    patch.setattr(copy_host, "transactional_id_of", own_id)


def reached_offsets_are_not_loaded(patch: pytest.MonkeyPatch) -> None:
    """A process that takes partitions over begins at their first records."""

    async def committed(self: Loading) -> dict[TopicPartition, Position]:
        return {}

    patch.setattr(Loading, "committed", committed)


def reached_offsets_are_those_of_the_end(patch: pytest.MonkeyPatch) -> None:
    """A process that takes partitions over begins at their ends."""
    right = Loading.begins

    async def begins(
        self: Loading, keys: Sequence[TopicPartition], committed: Mapping[TopicPartition, Position]
    ) -> Begins:
        found = await right(self, keys, committed)
        ends = await self._source.offsets.latest([key for key in found.offsets if key in committed])
        found.offsets.update(ends.found)
        return found

    patch.setattr(Loading, "begins", begins)


def checkpoints_pass_the_copy(patch: pytest.MonkeyPatch) -> None:
    """An offset after the last copied record is translated as if the records up to it were copied, too."""

    def translate(self: PartitionRanges, offset: int) -> int | None:
        before = [each for each in self.ranges() if each.source <= offset]
        return before[-1].target + offset - before[-1].source if before else None

    patch.setattr(PartitionRanges, "translate", translate)


def checkpoints_go_back(patch: pytest.MonkeyPatch) -> None:
    """Translations become less precise, as those of MirrorMaker 2, and checkpoints follow them."""
    right = PartitionRanges.__init__

    def few(self: PartitionRanges) -> None:
        right(self, ranges_max=3)

    patch.setattr(PartitionRanges, "__init__", few)
    patch.setattr(checkpoints, "_is_newer", lambda found, last: found.target_offset != last.target_offset)


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
    (logs_begin_within_a_batch, 130),
    (logs_begin_on_leaders_alone, 180),
) | _copied(
    (aborted_records_are_copied, 0),
    (deleted_records_are_not_named, 0),
    (deletions_lead_to_the_end, 5),
    (compacted_batches_are_left_out, 0),
    (former_owners_are_not_fenced, 5),
    (reached_offsets_are_not_loaded, 0),
    (reached_offsets_are_those_of_the_end, 0),
    (checkpoints_pass_the_copy, 0),
    (checkpoints_go_back, 0),
)
# Those that `make test` looks for: one of each kind.
QUICK = frozenset({"link: promotions_continue_the_epochs", "copy: aborted_records_are_copied"})
