"""Opens the directories of a node at its start, with the settings of storage."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

from broker_cy.control.membership.cordons import is_cordoned
from broker_cy.core import uuid as uuids
from broker_cy.metadata import topic_names
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories, open_metadata_directory, usable
from broker_cy.storage.placement import PlacementRule
from broker_cy.storage.settings import StorageSettings

if TYPE_CHECKING:
    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.core.randomness import Randomness
    from broker_cy.server.worker_pools import BrokerPools
    from broker_cy.storage.data_directory import DataDirectory

RECOVERY_THREADS = "num.recovery.threads.per.data.dir"
# Kafka's value for intervals that mean never.
NEVER_MS = 2**63 - 1


def open_node_directories(config: BrokerConfig, randomness: Randomness) -> tuple[list[DataDirectory], DataDirectory]:
    """Lock log.dirs and the directory of the metadata log, and format them if this node may begin a cluster. Some of
    log.dirs may be offline. Raises DataDirectoryError, OSError.
    """
    metadata_path = config["metadata.log.dir"] or str(config.log_dirs[0])
    directories = open_directories(
        [os.path.abspath(path) for path in config.log_dirs],
        config.node_id,
        lambda: uuids.to_text(randomness.kafka_uuid()),
        randomness.kafka_uuid,
        may_format=config.begins_cluster,
        metadata_path=metadata_path,
    )
    try:
        metadata_directory = open_metadata_directory(
            metadata_path, directories, randomness.kafka_uuid, may_format=config.begins_cluster
        )
    except BaseException:
        for each in directories:
            each.close()
        raise
    return directories, metadata_directory


def storage_settings(config: BrokerConfig) -> StorageSettings:
    # By default Kafka never checks, and flush.ms has no effect; here it is checked with each tick in that case.
    flush_check_ms = config["log.flush.scheduler.interval.ms"]
    return StorageSettings(
        checkpoint_interval_ms=config["log.flush.offset.checkpoint.interval.ms"],
        start_offset_checkpoint_interval_ms=config["log.flush.start.offset.checkpoint.interval.ms"],
        flush_check_interval_ms=flush_check_ms if 0 < flush_check_ms < NEVER_MS else 0,
        retention_check_interval_ms=config["log.retention.check.interval.ms"],
        producer_id_expiration_ms=config["producer.id.expiration.ms"],
        recovery_threads=config[RECOVERY_THREADS],
        placement=PlacementRule(config["brokercy.log.dirs.placement"]),
        kept_whole=topic_names.PROTECTED_TOPICS,
    )


def cleaner_settings(config: BrokerConfig) -> CleanerSettings:
    return CleanerSettings(
        enable=config["log.cleaner.enable"],
        threads=config["log.cleaner.threads"],
        dedupe_buffer_bytes=config["log.cleaner.dedupe.buffer.size"],
        load_factor=config["log.cleaner.io.buffer.load.factor"],
        io_buffer_bytes=config["log.cleaner.io.buffer.size"],
        io_max_bytes_per_s=config["log.cleaner.io.max.bytes.per.second"],
        backoff_ms=config["log.cleaner.backoff.ms"],
    )


def open_log_manager(config: BrokerConfig, clock: Clock, randomness: Randomness, pools: BrokerPools) -> LogManager:
    """The log manager of a broker, over its directories. Raises DataDirectoryError, OSError."""
    directories, metadata_directory = open_node_directories(config, randomness)
    logs = LogManager(
        directories,
        storage_settings(config),
        pools.background_jobs,
        open_jobs=pools.open_jobs,
        check_jobs=pools.disk_jobs,
        room_jobs=pools.room_jobs,
        metadata_directory=metadata_directory,
        disk_workers=pools.disk_workers,
        run_all=pools.run_all,
    )
    logs.placement.is_cordoned = partial(is_cordoned, config)
    logs.cleaner = LogCleaner(
        logs.logs,
        [each.path for each in usable(logs.data_directories)],
        cleaner_settings(config),
        pools.cleaner_jobs,
        logs.removal.files,
        clock,
        randomness,
        unopened=logs.unopened,
    )
    return logs
