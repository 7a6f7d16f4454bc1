"""Moves of this broker's replicas between its data directories, as its clients and the metadata see them (KIP-113).

`alter` begins and cancels moves. A copy that has caught up is reported to the controller (LogManager.place_of), and
becomes the log once the metadata name its directory (`settle`). Before metadata.version 3.7-IV2 the metadata name none,
and it becomes the log at once.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from broker_cy.control.membership.cordons import is_cordoned
from broker_cy.controller.rules import directory_of
from broker_cy.core.errors import ErrorCode
from broker_cy.metadata import features

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.metadata.image import ImageDelta, MetadataImage
    from broker_cy.replica.partition_table import PartitionTable
    from broker_cy.storage.data_directory import DataDirectory
    from broker_cy.storage.log_manager import LogManager

THREADS: Final = "num.replica.alter.log.dirs.threads"
# Kafka's names of copies have a suffix of this length (KAFKA-4893).
_SUFFIX: Final = len("." + "0" * 32 + "-future")
_NAME_MAX: Final = 255


class DirectoryMoves:
    """The moves of `logs`; `table` has the partitions of this broker."""

    def __init__(self, config: BrokerConfig, logs: LogManager, table: PartitionTable) -> None:
        self._config = config
        self._logs = logs
        self._table = table
        logs.moves.copying_max = config[THREADS] or len(logs.data_directories)

    def limit_to(self, bytes_per_s: float) -> None:
        """The rate of replica.alter.log.dirs.io.max.bytes.per.second; math.inf without a limit."""
        self._logs.moves.bytes_per_s = bytes_per_s

    def alter(self, topic: str, index: int, path: str, image: MetadataImage) -> ErrorCode:
        """Move the replica of a partition to the data directory at `path`, or let it stay there. A replica that does
        not exist yet will be created there: REPLICA_NOT_AVAILABLE, or UNKNOWN_TOPIC_OR_PARTITION if the metadata do not
        have the partition either.
        """
        key = (topic, index)
        if len(f"{topic}-{index}") + _SUFFIX > _NAME_MAX:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        target = self._directory(path)
        if target is None:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if target.failure is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        partition = self._table.get(topic, index)
        if partition is None:
            return self._remember(key, target, image)
        log = self._logs.get(topic, index)
        if partition.offline is not None or log is None or log.offline is not None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if os.path.dirname(log.directory) == target.path:
            self._logs.moves.cancel(key)
            return ErrorCode.NONE
        if is_cordoned(self._config, self._name_of(target)):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        self._logs.moves.start(key, log, target)
        return ErrorCode.NONE

    def _remember(self, key: tuple[str, int], target: DataDirectory, image: MetadataImage) -> ErrorCode:
        """Let a replica that does not exist yet be created in `target`, and return the error that says so."""
        if is_cordoned(self._config, self._name_of(target)):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        self._logs.placement.prefer(key, target.path)
        topic, index = key
        found = image.topics.by_name(topic)
        is_known = found is not None and index in found.partitions
        return ErrorCode.REPLICA_NOT_AVAILABLE if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def _directory(self, path: str) -> DataDirectory | None:
        """The directory whose absolute path, as DescribeLogDirs shows it, is exactly this one, as in Kafka."""
        return next((each for each in self._logs.data_directories if each.path == path), None)

    def _name_of(self, directory: DataDirectory) -> str:
        """The entry of log.dirs."""
        return next(str(path) for path in self._config.log_dirs if os.path.abspath(path) == directory.path)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The metadata have changed."""
        moves: Mapping[tuple[str, int], object] = self._logs.moves.moves
        if moves:
            changed = {each.after.name for each in delta.topics if each.after is not None}
            for topic, index in [key for key in moves if key[0] in changed]:
                self.settle(topic, index, image)

    def settle(self, topic: str, index: int, image: MetadataImage) -> None:
        """A copy has caught up, or the metadata have changed: it may be accepted."""
        move = self._logs.moves.moves.get((topic, index))
        found = image.topics.by_name(topic)
        part = found.partitions.get(index) if found is not None else None
        if move is None or part is None:
            return
        if image.features.metadata_version < features.MV_DIRECTORIES:
            directory_id = move.target.directory_id
        else:
            directory_id = directory_of(part, self._config.node_id)
        self._logs.moves.accepted((topic, index), directory_id)
