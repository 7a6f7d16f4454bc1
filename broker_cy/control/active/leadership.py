"""Whether this node is the active controller, and whether it may run operations at all.

It becomes the active controller when it leads the quorum and all entries before its epoch are in the image, and remains
it as long as it leads. The active controller, or else CommittedMetadata, applies committed records. `stopped_reason` is
set while no operation may run: before the start, after a stop, and when entries could not be synced or applied. In the
last case the node leaves the quorum, and stays out of it until the next start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from broker_cy.control.active.active_controller import ActiveController
from broker_cy.control.active.controller_duties import ControllerDuties
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.quorum.step import Output, Role

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from broker_cy.config import BrokerConfig
    from broker_cy.control.active.token_sweeper import TokenSweeper
    from broker_cy.control.image.committed_metadata import CommittedMetadata
    from broker_cy.control.quorum.metadata_log import MetadataLog
    from broker_cy.control.quorum.quorum_driver import QuorumDriver
    from broker_cy.control.watch.broker_watch import BrokerWatch
    from broker_cy.controller.operation import Operation
    from broker_cy.controller.refused_connections import NoteRefusedConnections
    from broker_cy.core.clock import Clock
    from broker_cy.core.randomness import Randomness
    from broker_cy.metadata.loader import Loader
    from broker_cy.metadata.records import VersionedRecord
    from broker_cy.metadata.snapshot import SnapshotId

R = TypeVar("R")


LOGGER = logging.getLogger("broker_cy.server.metadata")


def _seen(task: asyncio.Future[Any]) -> None:
    """Mark the error as seen: a node that leads no longer has no use for its activation."""
    if not task.cancelled():
        task.exception()


class Leadership:
    """Takes the reports of the quorum (quorum_driver.QuorumListener). `open` comes first."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        randomness: Randomness,
        files: MetadataLog,
        on_committed: Callable[[int], None],
    ) -> None:
        """`on_committed(end_offset)` is called for each commit."""
        self.active: ActiveController | None = None
        self.stopped_reason: str | None = "the controller has not started"
        self._config = config
        self._clock = clock
        self._loop = loop
        self._randomness = randomness
        self._files = files
        self._on_committed = on_committed
        self._driver: QuorumDriver
        self._committed: CommittedMetadata
        self._watch: BrokerWatch
        self._bootstrap: list[VersionedRecord] = []
        self._duties: ControllerDuties | None = None
        self._sweeper: TokenSweeper | None = None
        self._epoch_start_offset = -1  # while this node leads: where its epoch begins in the log
        self._high_watermark = 0

    def open(
        self,
        driver: QuorumDriver,
        committed: CommittedMetadata,
        watch: BrokerWatch,
        bootstrap: list[VersionedRecord],
    ) -> None:
        """`bootstrap` has the first records of a cluster."""
        self._bootstrap = bootstrap
        self._driver = driver
        self._committed = committed
        self._watch = watch

    def stop(self, reason: str) -> None:
        """Resign, unless the node has left the quorum already."""
        if self.stopped_reason is None:
            self.stopped_reason = reason
            self._driver.stop()
            self._committed.stop()

    # --- operations

    @property
    def can_submit(self) -> bool:
        return self.active is not None and self.stopped_reason is None

    def submit(self, operation: Operation[R]) -> asyncio.Future[R]:
        """See ControllerService.submit. Raises KafkaError."""
        if self.active is None or self.stopped_reason is not None:
            raise self.not_active()
        return self.active.submit(operation)

    def not_active(self) -> KafkaError:
        return KafkaError(
            ErrorCode.NOT_CONTROLLER, self.stopped_reason or f"node {self._config.node_id} is not the active controller"
        )

    def fence_dead(self, epochs: Mapping[int, int]) -> None:
        """Fence brokers, given with their epochs, that are certainly dead."""
        if self._duties is not None:
            self._duties.fence_dead(epochs)

    def note_cut(self, broker_id: int, epoch: int) -> None:
        """The connection of this node to a broker has ended."""
        if self._duties is not None:
            self._duties.note_cut({broker_id: epoch})

    def note_refused(self, broker_id: int, epoch: int) -> None:
        """A broker on another host refuses the connections of this node."""
        if self._duties is not None:
            self._duties.note_refused({broker_id: epoch})

    def note_report(self, report: NoteRefusedConnections) -> None:
        """Another node reports brokers that refuse its connections."""
        if self._duties is not None:
            self._duties.note_report(report)

    def fence_silent(self, broker_id: int, epoch: int) -> None:
        """Fence a broker, in this epoch of its registration, that stands still."""
        if self._duties is not None:
            self._duties.fence_silent({broker_id: epoch})

    # --- reports of the quorum and the image

    def changed(self, output: Output) -> None:
        if output.role is not Role.LEADER:
            self._epoch_start_offset = -1
            self._end(output)
        elif self._epoch_start_offset < 0:
            # The first entry that a leader appends is where its epoch begins.
            self._epoch_start_offset = output.append[0].offset
        if output.high_watermark > self._high_watermark:
            self._high_watermark = output.high_watermark
            self._on_committed(output.high_watermark)
            if self.active is not None:
                self.active.commit(output.high_watermark)
            else:
                self._committed.advance(output.high_watermark)
        self.activate()

    def activate(self) -> None:
        """Become the active controller once all entries before this node's epoch are in the image."""
        if self.active is not None or not 0 <= self._epoch_start_offset <= self._committed.end_offset:
            return
        self._committed.stop()
        self.active = ActiveController(
            self._config, self._clock, self._randomness, self._loop, self._driver, self._committed
        )
        is_new = self._committed.image.features.metadata_version == 0
        bootstrap, self._bootstrap = self._bootstrap, []
        self.active.activate(bootstrap if is_new else []).add_done_callback(_seen)
        # Entries before this node's epoch may be committed together with the beginning of the epoch. Then the high
        # watermark does not move before the next change, and operations without records, such as heartbeats, would wait
        # for it.
        self.active.commit(self._high_watermark)
        if self._config.token_secret_key is not None:
            # Imported here, because most clusters have no tokens.
            from broker_cy.control.active.token_sweeper import TokenSweeper

            self._sweeper = TokenSweeper(self._config, self._loop, self.active)
        self._duties = ControllerDuties(self._config, self._clock, self._loop, self.active, self._watch)
        self._duties.start()
        LOGGER.info("this node is the active controller", extra=facts(epoch=self._driver.quorum.epoch))

    def _end(self, output: Output) -> None:
        if self.active is not None:
            active, self.active = self.active, None
            if self._sweeper is not None:
                self._sweeper.stop()
                self._sweeper = None
            if self._duties is not None:
                self._duties.stop()
                self._duties = None
                LOGGER.info("this node is the active controller no longer", extra=facts(epoch=output.epoch))
            active.end(self.stopped_reason or f"node {self._config.node_id} leads the metadata quorum no longer")
            self._committed.advance(output.high_watermark)

    def not_written(self, error: KafkaError) -> None:
        if self.active is not None:
            self.active.not_written(error, self._files.log.log_end_offset)

    def halted(self, reason: str) -> None:
        self.stopped_reason = reason

    def replaced(self, snapshot_id: SnapshotId, loader: Loader) -> None:
        """A snapshot of the leader, loaded, has replaced the log."""
        LOGGER.info("loaded a metadata snapshot of the leader", extra=facts(file=snapshot_id.file_name))
        self._committed.replace(loader)
