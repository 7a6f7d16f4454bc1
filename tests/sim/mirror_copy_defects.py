"""Defects of the mirror's copy machine, which its simulation must find. Each is planted by replacing one function."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from broker_mirror.copy.actions import Identity, Stage, Verdict
from broker_mirror.copy.flow import CopyMachine
from broker_mirror.copy.partition import CopyPartition, Key
from tests.sim.defects import Patch, Planter


def aborted_partitions_go_on_where_they_were(patch: Patch) -> None:
    """After an abort, the records of the transaction are not fetched again."""

    def rewind(self: CopyPartition) -> None:
        self.queue.clear()
        self.sent.clear()
        self.waiting_bytes = 0
        self.retry_at_ms, self.attempts = None, 0
        self.copied.clear()

    patch.setattr(CopyPartition, "rewind", rewind)


def sequences_outlive_their_producer(patch: Patch) -> None:
    """A new epoch continues with the sequences of the old one."""

    def take(self: CopyMachine, identity: Identity) -> None:
        self.identity = identity

    patch.setattr(CopyMachine, "_take_identity", take)


def fetched_offsets_are_committed(patch: Patch) -> None:
    """The committed offset is that of the last fetch, also if its records were not produced yet."""
    right = CopyMachine._close

    def close(self: CopyMachine, out: list[Any], now_ms: int) -> None:
        for each in self.partitions.values():
            if each.is_dirty and each.position is not None:
                each.reached = each.position
        right(self, out, now_ms)

    patch.setattr(CopyMachine, "_close", close)


def late_answers_of_fetches_are_taken(patch: Patch) -> None:
    """Records that were fetched from another offset than the wanted one are appended."""
    right = CopyMachine.fetched

    def fetched(self: CopyMachine, key: Key, offset: int, *rest: Any) -> bool:
        each = self.partitions.get(key)
        wanted = offset if each is None or each.position is None else each.position
        return right(self, key, wanted, *rest)

    patch.setattr(CopyMachine, "fetched", fetched)


def transactions_end_before_their_offsets_are_written(patch: Patch) -> None:
    """The commit does not wait for the answer to the committed offsets."""
    right = CopyMachine._close

    def close(self: CopyMachine, out: list[Any], now_ms: int) -> None:
        right(self, out, now_ms)
        if self.transactional and self.stage is Stage.WRITING:
            self._to(Stage.COMMITTING)

    patch.setattr(CopyMachine, "_close", close)


def batches_without_an_answer_are_committed(patch: Patch) -> None:
    """A batch whose answer got lost counts as stored."""

    def refused(self: CopyMachine, action: Any, verdict: Verdict, text: str, now_ms: int) -> None:
        if verdict is Verdict.RETRY:
            self.stored(action, -1)
        else:
            right(self, action, verdict, text, now_ms)

    right = CopyMachine.refused
    patch.setattr(CopyMachine, "refused", refused)


def renewed_producers_forget_what_has_no_answer(patch: Patch) -> None:
    """A new producer id without transactions begins with the next batch."""

    def requeue(self: CopyPartition) -> None:
        self.sent.clear()
        self.waiting_bytes = sum(each.size_bytes for each in self.queue)
        self.retry_at_ms, self.attempts = None, 0

    patch.setattr(CopyPartition, "requeue", requeue)


def answered_batches_are_not_sent_after_older_ones(patch: Patch) -> None:
    """Only batches without an answer are sent again if their producer id is lost."""

    def requeue(self: CopyPartition) -> None:
        self.queue.extendleft(each.piece for each in reversed(self.sent) if not each.is_stored)
        self.waiting_bytes = sum(each.size_bytes for each in self.queue)
        self.sent.clear()
        self.retry_at_ms, self.attempts = None, 0

    patch.setattr(CopyPartition, "requeue", requeue)


def partitions_with_problems_are_tried_with_the_others(patch: Patch) -> None:
    """A partition that the target refuses makes each transaction fail."""
    right = CopyMachine.refused

    def refused(self: CopyMachine, action: Any, verdict: Verdict, text: str, now_ms: int) -> None:
        right(self, action, verdict, text, now_ms)
        for each in self.partitions.values():
            each.is_suspect, each.problem = False, None

    patch.setattr(CopyMachine, "refused", refused)


def runs_ignore_gaps(patch: Patch) -> None:
    """An offset sync covers records between which compaction has removed some."""

    def copied(self: CopyPartition, source: int, target: int, count: int) -> None:
        if self.copied:
            first, at, before = self.copied[-1]
            self.copied[-1] = first, at, before + count
        else:
            self.copied.append((source, target, count))

    patch.setattr(CopyPartition, "_copied", copied)


def committed_offsets_are_not_loaded(patch: Patch) -> None:
    """A new owner begins each partition at its first record."""

    def loaded(self: CopyMachine, offsets: Mapping[Key, int], problems: Mapping[Key, str], now_ms: int) -> None:
        right(self, dict.fromkeys(offsets, 0), problems, now_ms)

    right = CopyMachine.loaded
    patch.setattr(CopyMachine, "loaded", loaded)


def left_out_records_are_not_committed(patch: Patch) -> None:
    """Records that transforms have left out are passed like markers: the committed offset stays before them."""
    right = CopyPartition.take

    def take(self: CopyPartition, pieces: list[Any], next_offset: int, filtered_to: int = 0) -> None:
        right(self, pieces, next_offset)

    patch.setattr(CopyPartition, "take", take)


def left_out_records_are_committed_before_others(patch: Patch) -> None:
    """The committed offset passes records that were left out while a batch before them has no answer."""

    def take(self: CopyPartition, pieces: list[Any], next_offset: int, filtered_to: int = 0) -> None:
        right(self, pieces, next_offset, filtered_to)
        if not pieces and filtered_to:
            self.reached = next_offset

    right = CopyPartition.take
    patch.setattr(CopyPartition, "take", take)


DEFECTS: tuple[Planter, ...] = (
    aborted_partitions_go_on_where_they_were,
    sequences_outlive_their_producer,
    fetched_offsets_are_committed,
    late_answers_of_fetches_are_taken,
    transactions_end_before_their_offsets_are_written,
    batches_without_an_answer_are_committed,
    renewed_producers_forget_what_has_no_answer,
    runs_ignore_gaps,
    committed_offsets_are_not_loaded,
)
"""Those that each flow shows."""
FILTER_DEFECTS: tuple[Planter, ...] = (
    left_out_records_are_not_committed,
    left_out_records_are_committed_before_others,
)
"""Those that a flow with a filter shows."""
