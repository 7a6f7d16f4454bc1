import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.flush_group import FlushedLog, FlushGroup
from broker_cy.replica.in_sync import Altered, Assigned, InSync, Proposal
from broker_cy.replica.verification import Verification
from broker_cy.storage.log import Log

class Partition(FlushedLog):
    """A partition as clients see it. `offline` is the reason why there is no `log` or why it is not served, or None."""

    topic_id: UUID
    offline: str | None
    last_stable_offset: int
    replication_factor: int
    min_insync_replicas: int
    unopened: bool
    protected: bool
    batches: int
    records: int
    appended_bytes: int
    fetches: int
    fetched_bytes: int

    def __init__(
        self,
        group: FlushGroup,
        topic: str,
        index: int,
        topic_id: UUID,
        log: Log | None,
        leader_epoch: int,
        *,
        protected: bool = False,
        offline_reason: str | None = None,
        replication_factor: int = 1,
        unopened: bool = False,
    ) -> None: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    def lead(self, leader_epoch: int) -> None: ...
    assigned: Assigned | None
    def assign(
        self, image: Assigned, leads: bool, new_in_sync: Callable[[], InSync], high_watermark: int
    ) -> None: ...
    def answered(self, proposal: Proposal, answer: Altered) -> None: ...
    def tick(self) -> None: ...
    def configure(self, settings: Mapping[str, Any]) -> None: ...
    def before_flush(self, stage: Callable[[], None]) -> None: ...
    def append_then(self, batch: bytes, now_ms: int, done: Callable[[KafkaError | None], None]) -> None: ...
    def call_when_committed(self, end_offset: int, done: Callable[[KafkaError | None], None]) -> None: ...
    def append_records(self, batch: bytes, now_ms: int) -> asyncio.Future[int]: ...
    def append_transactional(
        self, batch: bytes, now_ms: int, verification: Verification | None
    ) -> asyncio.Future[int]: ...
    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        now_ms: int,
        transaction_version: int = 2,
    ) -> asyncio.Future[int]: ...
    def verify_producer(self, producer_id: int, epoch: int, *, adds: bool) -> Verification | None: ...
    def check_leader_epoch(self, epoch: int) -> ErrorCode | None: ...
    def read_failed(self, error: BaseException) -> None: ...
    def come_online(self, log: Log) -> None: ...
    def stay_offline(self, reason: str) -> None: ...
    def close(self) -> None: ...
