"""Defects of the share service, which its simulation must find."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from broker_cy.core.errors import KafkaError
from broker_cy.handlers import share_fetch
from broker_cy.share.sessions import TopicPartition
from broker_cy.share.share_partition import SharePartition
from broker_cy.share.share_partitions import ShareKey, SharePartitions
from broker_cy.share_service.lock_timer import LockTimer
from broker_cy.share_service.share_service import ShareService
from broker_cy.share_service.state_writes import StateWrites
from tests.sim.defects import Patch, Planter


def new_records_wake_no_fetch(patch: Patch) -> None:
    """A fetch waits for its whole time although records were written."""
    patch.setattr(ShareService, "_advanced", lambda self, topic, is_served: None)


def new_records_wake_fetches_of_full_partitions(patch: Patch) -> None:
    """Fetches of a group look for each write of new records, although none can be acquired (KAFKA-20425)."""

    def advanced(self: ShareService, topic: TopicPartition, is_served: bool) -> None:
        self._resume(self.table.wake_topic(topic))

    patch.setattr(ShareService, "_advanced", advanced)


def ended_writes_wake_no_fetch(patch: Patch) -> None:
    """A fetch does not look again after records were released or settled (KAFKA-19227)."""
    right = ShareService._written

    def written(
        self: ShareService, key: ShareKey, share: SharePartition, error: KafkaError | None, wakes: bool
    ) -> None:
        right(self, key, share, error, False)

    patch.setattr(ShareService, "_written", written)


def deleted_records_wake_no_fetch(patch: Patch) -> None:
    """A fetch of a full share partition waits although the log has deleted records that were in flight."""
    patch.setattr(ShareService, "start_moved", lambda self, key: None)


def loaded_partitions_wake_no_fetch(patch: Patch) -> None:
    """The fetch that begins a share partition waits although its state is loaded."""
    right = SharePartitions.wake

    def wake(self: SharePartitions, key: ShareKey) -> list[Hashable]:
        share = self.get(key)
        return [] if share is not None and share.end_offset == share.start_offset else right(self, key)

    patch.setattr(SharePartitions, "wake", wake)


def lost_leaderships_drop_nothing(patch: Patch) -> None:
    """A fetch waits for a partition that another broker leads now (KAFKA-19567)."""
    patch.setattr(ShareService, "apply", lambda self, delta, image: None)


def ended_connections_release_nothing(patch: Patch) -> None:
    """The records of a client that died stay locked until their locks end."""

    def disconnected(self: ShareService, connection: Hashable) -> None:
        self.sessions.disconnect(connection)

    patch.setattr(ShareService, "disconnected", disconnected)


def ended_sessions_acquire_records(patch: Patch) -> None:
    """A fetch that is under way when its connection ends locks records for a member that is gone."""
    patch.setattr(share_fetch, "_is_live", lambda ctx, session, epoch: lambda: True)


def locks_are_armed_once(patch: Patch) -> None:
    """The timer of locks fires for the first lock of a share partition only (KAFKA-19476)."""
    right = LockTimer.arm
    armed: set[tuple[int, ShareKey]] = set()

    def arm(self: LockTimer, key: ShareKey, deadline_ms: int) -> None:
        if deadline_ms and (id(self), key) not in armed:
            armed.add((id(self), key))
            right(self, key, deadline_ms)

    patch.setattr(LockTimer, "arm", arm)


def acknowledgements_are_answered_before_the_write(patch: Patch) -> None:
    """A record is delivered again after its acknowledgement was answered, because the write of it failed."""
    right = StateWrites.add

    def add(self: StateWrites, partition: SharePartition, write: Any, done: Any = None) -> None:
        right(self, partition, write)
        if done is not None:
            done(None)

    patch.setattr(StateWrites, "add", add)


def writes_overtake_each_other(patch: Patch) -> None:
    """A write that is answered late moves the start offset of the share partition back."""
    right = StateWrites.add

    def add(self: StateWrites, partition: SharePartition, write: Any, done: Any = None) -> None:
        right(StateWrites(self._key, self._persister, self._ended), partition, write, done)

    patch.setattr(StateWrites, "add", add)


def fenced_writes_keep_the_share_partition(patch: Patch) -> None:
    """A leader that was deposed goes on serving the group by the state that it had."""
    patch.setattr("broker_cy.share_service.share_service.is_fencing", lambda code: False)
    right = ShareService.apply

    def apply(self: ShareService, delta: Any, image: Any) -> None:
        kept = {key: self.table.get(key) for key in self.table}
        right(self, delta, image)
        for key, share in kept.items():
            if self.table.get(key) is None and share is not None:
                self.table.add(key, share)

    patch.setattr(ShareService, "apply", apply)
    patch.setattr(SharePartitions, "drop", lambda self, key: self.wake(key))


def operators_are_answered_before_the_write(patch: Patch) -> None:
    """The answer says that records were rejected, and they come again because the write failed."""

    def settled(future: Any) -> Any:
        future.set_result(None)
        return lambda error: None

    patch.setattr("broker_cy.share_service.operations.settled", settled)


DEFECTS: tuple[Planter, ...] = (
    new_records_wake_no_fetch,
    new_records_wake_fetches_of_full_partitions,
    ended_writes_wake_no_fetch,
    deleted_records_wake_no_fetch,
    loaded_partitions_wake_no_fetch,
    lost_leaderships_drop_nothing,
    ended_connections_release_nothing,
    ended_sessions_acquire_records,
    locks_are_armed_once,
    acknowledgements_are_answered_before_the_write,
    writes_overtake_each_other,
    fenced_writes_keep_the_share_partition,
    operators_are_answered_before_the_write,
)
