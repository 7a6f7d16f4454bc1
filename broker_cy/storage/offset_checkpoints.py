"""The offset checkpoints of all data directories, Kafka's three and the written points: what they said at start, and
what they have to say now.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker_cy.core.logs import facts
from broker_cy.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    TopicPartition,
    read_offsets,
    write_offsets,
)
from broker_cy.storage.log import Log
from broker_cy.storage.written_points import WRITTEN_POINTS, read_points, write_points

logger = logging.getLogger(__name__)

METADATA_TOPIC = "__cluster_metadata"
ALL = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, WRITTEN_POINTS)


class Content(NamedTuple):
    """What a checkpoint file has to hold. Of two for the same path the one with the higher `sequence` is newer."""

    sequence: int
    path: str
    offsets: Mapping[TopicPartition, int]


class OffsetCheckpoints:
    """Checkpoints of the data directories at `roots`."""

    def __init__(self, roots: list[str]) -> None:
        self.roots = roots
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.written_points: dict[TopicPartition, int] = {}
        self._by_name = {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            HIGH_WATERMARKS: self.high_watermarks,
            WRITTEN_POINTS: self.written_points,
        }
        self._collected = 0
        # By path, the sequence of what its file holds. Each is guarded by a lock, as the file itself is: the loop
        # writes (truncation, stop) while a worker may, and written points never wait for the sync of another file.
        self._written = {f"{root}/{name}": 0 for root in roots for name in ALL}
        self._locks = {path: threading.Lock() for path in self._written}
        for root in roots:
            for name, offsets in self._by_name.items():
                try:
                    read = read_points if name == WRITTEN_POINTS else read_offsets
                    offsets.update(read(f"{root}/{name}"))
                except ValueError as error:
                    # As in Kafka: every log of this directory is then recovered from its start.
                    logger.warning("damaged checkpoint taken to be empty", extra=facts(reason=error))

    def forget(self, key: TopicPartition) -> None:
        """Drop what was said of a partition that is gone."""
        for offsets in self._by_name.values():
            offsets.pop(key, None)

    def collect(
        self, names: Iterable[str], logs: Mapping[TopicPartition, Log], offline: Iterable[TopicPartition]
    ) -> list[Content]:
        """What the checkpoint files `names` have to hold now. Partitions that are offline keep what was read at
        start. To be called on the loop.
        """
        self._collected += 1
        wanted: list[Content] = []
        for name in names:
            found: dict[str, dict[TopicPartition, int]] = {root: {} for root in self.roots}
            for key, log in logs.items():
                offsets = found.get(os.path.dirname(log.directory))
                if offsets is None:
                    continue
                if key[0] == METADATA_TOPIC:
                    # The quorum syncs that log itself. Kafka does not note how far; a start needs it to tell damage
                    # from a torn end.
                    if name == RECOVERY_POINTS and key in self.recovery_points:
                        offsets[key] = self.recovery_points[key]
                    continue
                if name == RECOVERY_POINTS:
                    offsets[key] = log.recovery_point
                elif name == WRITTEN_POINTS:
                    if log.written_point > log.recovery_point and not log.sync_failed:
                        offsets[key] = log.written_point
                elif name == HIGH_WATERMARKS:
                    offsets[key] = min(self.high_watermarks.get(key, log.written_end_offset), log.written_end_offset)
                elif log.log_start_offset > 0:
                    # Also where the name of the first segment says it: with the power those before it may come back.
                    offsets[key] = log.log_start_offset
            for key in offline:
                for root, offsets in found.items():
                    if key in self._by_name[name] and os.path.isdir(f"{root}/{key[0]}-{key[1]}"):
                        offsets[key] = self._by_name[name][key]
            wanted += [Content(self._collected, f"{root}/{name}", offsets) for root, offsets in found.items()]
        return wanted

    def write(self, wanted: Iterable[Content]) -> None:
        """Write checkpoint files, durably but for the written points: blocks for the disk and for a write in another
        thread. A file that holds something newer is left as it is. Raises OSError.
        """
        for sequence, path, offsets in wanted:
            with self._locks[path]:
                if sequence > self._written[path]:
                    write = write_points if path.endswith(WRITTEN_POINTS) else write_offsets
                    write(path, offsets)
                    self._written[path] = sequence
