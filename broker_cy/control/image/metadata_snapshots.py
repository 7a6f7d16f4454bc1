"""Decides when a snapshot of the metadata is written, and removes superfluous files afterwards.

A snapshot is written by Kafka's rules: after `metadata.log.max.record.bytes.between.snapshots` bytes of records, or
after `metadata.log.max.snapshot.interval.ms` if any record came. While the directory holds more than
`metadata.max.retention.bytes`, or a snapshot older than `metadata.max.retention.ms`, the oldest snapshot is deleted,
with the log below the next one; the newest snapshot is always kept.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from broker_cy.core.logs import facts
from broker_cy.metadata import snapshot
from broker_cy.metadata.snapshot import SnapshotId

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig
    from broker_cy.control.quorum.metadata_log import MetadataLog
    from broker_cy.core.clock import Clock
    from broker_cy.metadata.image import MetadataImage
    from broker_cy.metadata.snapshot import KRaftState

LOGGER = logging.getLogger("broker_cy.server.metadata")


class SnapshotKeeper:
    """`committed` has to be called after every commit. At most one snapshot is written at a time."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        executor: Executor | None,
        files: MetadataLog,
        kraft: Callable[[int], KRaftState],
        in_transaction: Callable[[], bool],
        on_written: Callable[[SnapshotId], None],
        bytes_since_snapshot: int,
    ) -> None:
        """`kraft(end_offset)` is the state of the quorum in a snapshot with this end; `in_transaction` returns whether
        the image ends within a metadata transaction; `on_written` is called for each snapshot, after the removal of the
        superfluous ones.
        """
        self._config = config
        self._clock = clock
        self._loop = loop
        self._executor = executor
        self._files = files
        self._kraft = kraft
        self._in_transaction = in_transaction
        self._on_written = on_written
        self._bytes = bytes_since_snapshot
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._image: MetadataImage

    def committed(self, image: MetadataImage, size_bytes: int) -> None:
        """Records of `size_bytes` have become part of `image`."""
        self._image = image
        self._bytes += size_bytes
        if self._bytes >= self._config["metadata.log.max.record.bytes.between.snapshots"]:
            self._begin()
        elif self._timer is None and self._bytes:
            interval_ms = self._config["metadata.log.max.snapshot.interval.ms"]
            if interval_ms > 0:
                self._timer = self._loop.call_later(interval_ms / 1000, self._begin)

    async def stop(self) -> None:
        """Abandon the snapshot that is being written, if any, and begin no other. The next start removes its file."""
        self._disarm()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _begin(self) -> None:
        self._disarm()
        if self._task is None and self._may_begin():
            self._task = self._loop.create_task(self._write())

    def _may_begin(self) -> bool:
        """A snapshot that ended within a transaction would lack the records of its first part (KAFKA-17713). The commit
        that ends it, or the next one, begins the snapshot.
        """
        return not self._in_transaction()

    async def _write(self) -> None:
        image = self._image.copy()
        size_bytes, self._bytes = self._bytes, 0
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        now_ms = self._clock.wall_ms()
        parts = []
        try:
            records = snapshot.records_of(image)
            kraft = self._kraft(snapshot_id.end_offset)
            for part in snapshot.write(records, kraft, snapshot_id.epoch, now_ms, now_ms):
                parts.append(part)
                # The image is a copy, so the loop may turn while it is being encoded.
                await asyncio.sleep(0)
            await self._run(self._files.write_snapshot, snapshot_id, parts)
            LOGGER.info("wrote a metadata snapshot", extra=facts(file=snapshot_id.file_name))
            await self._remove_superfluous()
            self._on_written(snapshot_id)
        except OSError as error:
            # Nothing is lost: the log has everything. The next commit tries again.
            self._bytes += size_bytes
            LOGGER.warning(
                "could not write a metadata snapshot; will retry", extra=facts(file=snapshot_id.file_name, reason=error)
            )
        finally:
            self._task = None

    async def _remove_superfluous(self) -> None:
        """Drop old snapshots, and the log below the oldest one that is kept."""
        ids = self._files.snapshots()
        while len(ids) >= 2 and self._is_over(ids):
            await self._run(self._files.delete_snapshot, ids.pop(0))
            await self._run(self._files.delete_log_before(ids[0].end_offset, self._clock.wall_ms()))

    def _is_over(self, ids: list[SnapshotId]) -> bool:
        now_ms = self._clock.wall_ms()
        sizes, ages = zip(*(self._files.snapshot_size_and_age(i, now_ms) for i in ids), strict=True)
        bytes_max: int = self._config["metadata.max.retention.bytes"]
        age_max_ms: int = self._config["metadata.max.retention.ms"]
        total = sum(sizes) + self._files.log.size_bytes
        # Negative means no limit.
        return bool(0 <= bytes_max < total or 0 <= age_max_ms < ages[0])

    async def _run(self, function: Any, *arguments: Any) -> None:
        await self._loop.run_in_executor(self._executor, function, *arguments)
