"""Defects of share partitions and share sessions, which their simulation must find. Most are bugs that Kafka had."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from broker_cy.share import acknowledging, acquiring, operating
from broker_cy.share.sessions import Closed, SessionKey, ShareSession, ShareSessions, TopicPartition
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey, SharePartitions
from broker_cy.share.state_write import AcknowledgeType, StateWrite
from broker_cy.wire.share_operations import OperatorAction
from tests.sim.defects import Patch, Planter


def ended_locks_are_lost_during_a_write(patch: Patch) -> None:
    """The end of a lock is dropped while the write of another record is under way (KAFKA-19476)."""
    right = acknowledging.expire

    def expire(partition: SharePartition, now_ms: int) -> StateWrite | None:
        return None if any(run[-1] for run in partition.in_flight()) else right(partition, now_ms)

    patch.setattr(acknowledging, "expire", expire)


def locks_of_released_records_run_on(patch: Patch) -> None:
    """The lock of the last holder ends for the new one, too (KAFKA-18918)."""
    right = acquiring.acquire

    def acquire(partition: SharePartition, member_id: str, *rest: Any) -> list[tuple[int, int, int]]:
        found = right(partition, member_id, *rest)
        renewed = [(first, last, bytes((AcknowledgeType.RENEW,))) for first, last, count in found if count > 1]
        acknowledging.acknowledge(partition, member_id, renewed, rest[-1] - partition.lock_ms // 2)
        return found

    patch.setattr(acquiring, "acquire", acquire)


def locks_are_never_ended(patch: Patch) -> None:
    """A record whose holder is gone stays locked."""
    patch.setattr(acknowledging, "expire", lambda partition, now_ms: None)


def acknowledgements_wake_no_fetch(patch: Patch) -> None:
    """A fetch that waits is not woken by records that were released or settled (KAFKA-19227)."""
    right = acknowledging.written

    def written(partition: SharePartition, write: StateWrite) -> bool:
        right(partition, write)
        return False

    patch.setattr(acknowledging, "written", written)


def failed_writes_wake_no_fetch(patch: Patch) -> None:
    """Records whose lock ended during a write that failed are available, and no fetch looks at them."""
    right = acknowledging.failed

    def failed(partition: SharePartition, write: StateWrite) -> bool:
        right(partition, write)
        return False

    patch.setattr(acknowledging, "failed", failed)


def dropped_partitions_wake_no_fetch(patch: Patch) -> None:
    """A fetch waits for a share partition whose leader has changed (KAFKA-19567)."""

    def drop_topic(self: SharePartitions, topic: TopicPartition) -> list[Hashable]:
        for group_id in list(self._groups.get(topic, ())):
            self._partitions.pop(ShareKey(group_id, topic))
        self._groups.pop(topic, None)
        return []

    patch.setattr(SharePartitions, "drop_topic", drop_topic)


def leaders_are_not_fenced(patch: Patch) -> None:
    """A share partition of an earlier leadership still serves the group: the state it reads is its own."""
    right = SharePartitions.add

    def add(self: SharePartitions, key: ShareKey, partition: SharePartition) -> None:
        if self.get(key) is None:
            right(self, key, partition)

    patch.setattr(SharePartitions, "drop_topic", lambda self, topic: [])
    patch.setattr(SharePartitions, "add", add)


def old_connections_end_new_sessions(patch: Patch) -> None:
    """The end of a connection removes the session that its member has opened on another one (KAFKA-19015, 19950)."""
    right = ShareSessions._remove

    def remove(self: ShareSessions, key: SessionKey) -> Closed:
        connection = self._sessions[key].connection
        closed = right(self, key)
        self._of_connection.setdefault(connection, {})[key] = None
        return closed

    def disconnect(self: ShareSessions, connection: Hashable) -> list[Closed]:
        keys = list(self._of_connection.get(connection, ()))
        ended = [right(self, key) for key in keys if key in self._sessions]
        self._of_connection.pop(connection, None)
        return ended

    patch.setattr(ShareSessions, "_remove", remove)
    patch.setattr(ShareSessions, "disconnect", disconnect)


def second_sessions_leak_counters(patch: Patch) -> None:
    """A member that opens its session again is counted twice (KAFKA-23510)."""
    right = ShareSessions.open

    def open_(
        self: ShareSessions, key: SessionKey, connection: Hashable, partitions: Iterable[TopicPartition]
    ) -> ShareSession:
        self._sessions.pop(key, None)
        return right(self, key, connection, partitions)

    patch.setattr(ShareSessions, "open", open_)


def closed_sessions_release_nothing(patch: Patch) -> None:
    """A member that leaves keeps its records until their locks end (KAFKA-17396)."""
    patch.setattr(SharePartitions, "release", lambda self, closed: [])


def compacted_batches_stay_available(patch: Patch) -> None:
    """Records that compaction removed stay available, so that the start offset does not move (KAFKA-17351)."""
    right = acquiring.acquire

    def acquire(partition: SharePartition, *rest: Any) -> list[tuple[int, int, int]]:
        *before, fetch_offset, read, now_ms = rest
        bounds = read.bounds()
        changed = [*before, max(fetch_offset, bounds[0][0]) if bounds else fetch_offset, read, now_ms]
        return right(partition, *changed)

    patch.setattr(acquiring, "acquire", acquire)


def acknowledgements_below_a_gap_fail(patch: Patch) -> None:
    """An acknowledgement below the first records in flight ends in an exception (read in Kafka 4.3.1)."""
    right = acknowledging.acknowledge

    def acknowledge(partition: SharePartition, member_id: str, batches: Any, now_ms: int) -> StateWrite | None:
        runs = partition.in_flight()
        if runs and batches and batches[0][0] < runs[0][0] and runs[0][0] > partition.start_offset:
            raise LookupError("there is no batch at or before the start offset")
        return right(partition, member_id, batches, now_ms)

    patch.setattr(acknowledging, "acknowledge", acknowledge)


def persisted_acknowledgements_are_undone(patch: Patch) -> None:
    """An acknowledgement that was answered is undone, and the record is delivered again."""
    patch.setattr(acknowledging, "written", acknowledging.failed)


def released_records_are_archived(patch: Patch) -> None:
    """A record that a member releases is never delivered again: the start offset passes it."""
    right = acknowledging.acknowledge

    def acknowledge(partition: SharePartition, member_id: str, batches: Any, now_ms: int) -> StateWrite | None:
        changed = [(first, last, types.replace(b"\x02", b"\x03")) for first, last, types in batches]
        return right(partition, member_id, changed, now_ms)

    patch.setattr(acknowledging, "acknowledge", acknowledge)


def acknowledgements_count_without_a_lock(patch: Patch) -> None:
    """A member that never had a record settles it."""
    right = acknowledging.acknowledge

    def acknowledge(partition: SharePartition, member_id: str, batches: Any, now_ms: int) -> StateWrite | None:
        holders = {run[4] for run in partition.in_flight() if run[4] is not None and not run[-1]}
        return right(partition, min(holders) if member_id not in holders and holders else member_id, batches, now_ms)

    patch.setattr(acknowledging, "acknowledge", acknowledge)


def redriven_records_keep_their_count(patch: Patch) -> None:
    """A record that an operator redrives is written with the delivery count that it had, so that the share coordinator
    keeps it archived, and the next leader does not deliver it.
    """
    right = operating.operate

    def operate(partition: SharePartition, action: int, *rest: Any) -> tuple[StateWrite | None, int, int]:
        write, records, archived = right(partition, action, *rest)
        if write is not None and action == OperatorAction.REDRIVE:
            batches = tuple((first, last, count - 1, state) for first, last, count, state in write.batches)
            write = write._replace(batches=batches)
        return write, records, archived

    patch.setattr(operating, "operate", operate)


def rejections_are_not_persisted(patch: Patch) -> None:
    """A record that an operator rejected is available at the next leader."""
    right = operating.operate

    def operate(partition: SharePartition, action: int, *rest: Any) -> tuple[StateWrite | None, int, int]:
        write, records, archived = right(partition, action, *rest)
        if write is not None and action == OperatorAction.REJECT:
            write = write._replace(batches=tuple((first, last, count, 0) for first, last, count, _ in write.batches))
        return write, records, archived

    patch.setattr(operating, "operate", operate)


def operators_change_locks_of_others(patch: Patch) -> None:
    """Records are released for all members, although the operator named one that holds nothing of them."""
    right = operating.operate

    def operate(
        partition: SharePartition, action: int, member_id: str | None, ranges: Any, is_preview: bool
    ) -> tuple[StateWrite | None, int, int]:
        return right(partition, action, None if is_preview else member_id, ranges, is_preview)

    patch.setattr(operating, "operate", operate)


DEFECTS: tuple[Planter, ...] = (
    ended_locks_are_lost_during_a_write,
    locks_of_released_records_run_on,
    locks_are_never_ended,
    acknowledgements_wake_no_fetch,
    failed_writes_wake_no_fetch,
    dropped_partitions_wake_no_fetch,
    leaders_are_not_fenced,
    old_connections_end_new_sessions,
    second_sessions_leak_counters,
    closed_sessions_release_nothing,
    compacted_batches_stay_available,
    acknowledgements_below_a_gap_fail,
    persisted_acknowledgements_are_undone,
    released_records_are_archived,
    acknowledgements_count_without_a_lock,
    redriven_records_keep_their_count,
    rejections_are_not_persisted,
    operators_change_locks_of_others,
)
