"""The begin of a share partition: its persisted state, or the offset at which the group begins without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker_cy.coordinator.share_state.state import NO_START_OFFSET, SharePartitionKey
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.share import reset
from broker_cy.share.state_write import LoadError, client_error
from broker_cy.storage.cold_lookup import look_up
from broker_cy.storage.errors import StorageError
from broker_cy.storage.lookups import offset_for_timestamp

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor

    from broker_cy.coordinator_services.share_persister import SharePersister
    from broker_cy.core.clock import Clock
    from broker_cy.replica.partition import Partition
    from broker_cy.share.share_partition import SharePartition
    from broker_cy.share.share_partitions import ShareKey


class Service(Protocol):
    """The share service, as the begin of a share partition needs it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...
    @property
    def cold_reader(self) -> Executor | None: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def persister(self) -> SharePersister: ...


async def load(service: Service, key: ShareKey, share: SharePartition, partition: Partition, offset_reset: str) -> None:
    """Load the state of a share partition from its coordinator. Raises KafkaError."""
    state = await service.persister.read(SharePartitionKey(key.group_id, *key.topic), share.leader_epoch)
    if state.code is not ErrorCode.NONE:
        raise KafkaError(client_error(state.code), state.message or "")
    start_offset = state.start_offset
    if start_offset == NO_START_OFFSET:
        start_offset = await _first_offset(service, partition, offset_reset)
    try:
        share.load(state.state_epoch, start_offset, state.batches)
    except LoadError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error


async def _first_offset(service: Service, partition: Partition, policy: str) -> int:
    """Return where a group without a state begins. Unlike Kafka, which answers OFFSET_NOT_AVAILABLE until there is a
    record that is new enough, it is the high watermark if there is none: the next record is new enough.
    """
    log, high_watermark = partition.log, partition.high_watermark
    if log is None or partition.offline is not None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    timestamp = reset.timestamp(policy, service.clock.wall_ms())
    if timestamp == reset.LATEST:
        return high_watermark
    if timestamp == reset.EARLIEST:
        return log.log_start_offset
    try:
        found = await look_up(service, offset_for_timestamp, log, timestamp)
    except (OSError, StorageError) as error:
        partition.read_failed(error)
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR) from error
    return min(found[1], partition.high_watermark) if found is not None else partition.high_watermark
