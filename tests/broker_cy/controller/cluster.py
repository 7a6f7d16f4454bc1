"""A controller with a log in memory: operations in, batches kept, so that everything can be replayed."""

from __future__ import annotations

from typing import TypeVar
from uuid import UUID

from broker_cy.config import BrokerConfig
from broker_cy.controller.activation import Activate, default_bootstrap
from broker_cy.controller.broker_ops import StartBroker
from broker_cy.controller.controller import Controller
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.metadata import framing
from broker_cy.metadata.image import Endpoint, ImageDelta, MetadataImage
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import VersionedRecord

R = TypeVar("R")
DIRECTORY = UUID(int=1 << 100)
LISTENERS = {"PLAINTEXT": Endpoint("127.0.0.1", 9092, 0)}


class Records(Operation[None]):
    """Writes given records."""

    def __init__(self, *records: VersionedRecord, atomic: bool = True) -> None:
        self.records = list(records)
        self.atomic = atomic

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> None:
        step.atomic = self.atomic
        step.records += self.records


class Cluster:
    """`run` commits each operation immediately; `accept` leaves it uncommitted until `commit` or `abandon`."""

    def __init__(self, settings: dict[str, str] | None = None, image: MetadataImage | None = None) -> None:
        self.config = BrokerConfig.from_properties({"node.id": "1", "log.dirs": "unused", **(settings or {})})
        self.controller = Controller(image or MetadataImage())
        self.log: list[bytes] = []
        self._pending: list[bytes] = []
        self.next_offset = self.controller.image.offset + 1
        self.epoch = max(self.controller.image.epoch, 0) + 1
        self.now_ms = 0
        self.wall_ms = 0
        self._ids = 1000 + self.next_offset

    @classmethod
    def started(cls, settings: dict[str, str] | None = None, bootstrap: list[VersionedRecord] | None = None) -> Cluster:
        cluster = cls(settings)
        cluster.run(Activate(bootstrap or default_bootstrap(), in_transaction=False))
        cluster.start()
        return cluster

    def start(self, broker_id: int = 1) -> int:
        return self.run(StartBroker(broker_id, self.new_uuid(), LISTENERS, (DIRECTORY,), None))

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def new_uuid(self) -> UUID:
        self._ids += 1
        return UUID(int=self._ids)

    def accept(self, operation: Operation[R]) -> R:
        context = OperationContext(
            self.wall_ms, self.new_uuid, self.config, self.next_offset, self.now_ms, self.controller.heartbeats
        )
        batches, reply = self.controller.run(operation, context)
        for batch in batches:
            self._pending.append(framing.data_batch(batch, self.next_offset, self.epoch, 1000))
            self.next_offset += len(batch)
        return reply

    def commit(self) -> ImageDelta | None:
        self.log += self._pending
        self._pending.clear()
        return self.controller.commit(self.next_offset, self.epoch)

    def abandon(self) -> None:
        self._pending.clear()
        self.controller.abandon()
        self.next_offset = self.image.offset + 1

    def run(self, operation: Operation[R]) -> R:
        reply = self.accept(operation)
        self.commit()
        return reply

    def replayed(self) -> MetadataImage:
        """Return the state that a restart would read."""
        loader = Loader()
        for batch in self.log:
            loader.load_log(batch)
        return loader.image
