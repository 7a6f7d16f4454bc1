"""The services a handler sees, in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig, TopicSettings
    from broker_cy.core.clock import Clock
    from broker_cy.core.errors import ErrorCode
    from broker_cy.metadata.image import MetadataImage
    from broker_cy.replica.partition_table import PartitionTable
    from broker_cy.server.auto_topics import AutoTopics
    from broker_cy.server.controller_service import ControllerService
    from broker_cy.server.group_service import GroupService
    from broker_cy.server.txn_markers import TxnMarkers
    from broker_cy.storage.log_manager import LogManager


class Verifier(Protocol):
    """What Produce and TxnOffsetCommit ask of the transaction coordinator."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[tuple[str, int]],
        *,
        add: bool,
    ) -> asyncio.Future[dict[tuple[str, int], ErrorCode]]:
        """Whether each partition, as (topic, index), is in the producer's transaction; with `add`, it is from now on.
        The future may raise KafkaError, which is for all.
        """


class Broker:
    """One broker: configuration, clock and the services that hold its state. Built and started by `lifecycle`."""

    def __init__(self, config: BrokerConfig, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.clock = clock
        self.loop = loop
        self.node_id: int = config.node_id
        self.cluster_id: str = ""
        self.log_manager: LogManager
        self.partitions: PartitionTable
        self.controller: ControllerService
        self.auto_topics: AutoTopics
        self.groups: GroupService
        self.txn_markers: TxnMarkers
        self.transactions: Verifier | None = None
        self.cold_reader: Executor  # reads what left the page cache

    @property
    def image(self) -> MetadataImage:
        """The newest committed metadata image."""
        return self.controller.image

    topic_settings: Callable[[str], TopicSettings]
