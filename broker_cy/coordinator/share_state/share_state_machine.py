"""The life cycle of a share coordinator: the end of loading, the metadata, records without a request, and the end.

The caller appends the records of each step in order, and calls `written` or `failed` when their outcome is known. It
calls `expire` no later than `next_wake_ms`, and `upkeep.snapshot_cold` and `upkeep.redundant_offset` at intervals.
"""

from __future__ import annotations

from broker_cy.coordinator.share_state import upkeep
from broker_cy.coordinator.share_state.share_state_table import ShareStateTable
from broker_cy.coordinator.step import CoordinatorStep
from broker_cy.core.step import Now
from broker_cy.metadata.image import ImageDelta, MetadataImage


class ShareStateMachine(ShareStateTable):
    """The state machine that the runtime drives. Operations see only its state, so this module is above theirs."""

    def loaded(self, now: Now) -> CoordinatorStep:
        """All records of the log are applied. Topics may have been deleted while no coordinator was loaded: this image
        has every topic that a coordinator before this one has seen, unless it was deleted.
        """
        step = CoordinatorStep()
        ids = {key.topic_id for key in self.entries}
        gone = [topic_id for topic_id in ids if self.image.topics.by_id(topic_id) is None]
        if gone:
            upkeep.topics_deleted(self, step, gone)
        return step

    def metadata_changed(self, delta: ImageDelta, image: MetadataImage) -> CoordinatorStep:
        """Share partitions of deleted topics are deleted."""
        step = super().metadata_changed(delta, image)
        if gone := delta.gone():
            upkeep.topics_deleted(self, step, [topic.topic_id for topic in gone])
        return step

    def expire(self, now: Now) -> CoordinatorStep:
        """Write more of the deletions and snapshots that no request waits for."""
        step = CoordinatorStep()
        if self.has_deletions() and self.may_delete(now):
            upkeep.go_on(self, step, now)
        return step

    def unload(self) -> CoordinatorStep:
        """This broker no longer coordinates the partition. Nothing to answer: every request that waits does so for a
        record, and `failed` has answered it before.
        """
        return CoordinatorStep()
