"""A controller with a log in memory: operations in, batches kept, so that everything can be replayed."""

from __future__ import annotations

from typing import Any, TypeVar
from uuid import UUID

from broker_cy.config import BrokerConfig
from broker_cy.controller.activation import Activate, default_bootstrap
from broker_cy.controller.broker_states import Heartbeat, HeartbeatReply
from broker_cy.controller.controller import Controller
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.controller.registration import RegisterBroker
from broker_cy.metadata import features, framing
from broker_cy.metadata.image import Endpoint, ImageDelta, MetadataImage
from broker_cy.metadata.loader import Loader
from broker_cy.metadata.records import VersionedRecord
from broker_cy.wire import messages

R = TypeVar("R")
CLUSTER_ID = "a-cluster"


def directory(broker_id: int) -> UUID:
    """The only log directory of a broker."""
    return UUID(int=(1 << 100) + broker_id)


DIRECTORY = directory(1)
LISTENERS = {"PLAINTEXT": Endpoint("host-1", 9092, 0)}


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
        """Start a node, whose controller becomes active and whose broker joins; returns the broker epoch."""
        self.run(Activate([], in_transaction=False))
        self.join(broker_id)
        return self.image.brokers[broker_id].epoch

    def registration(self, broker_id: int, **fields: Any) -> RegisterBroker:
        request = messages.BrokerRegistrationRequest(
            broker_id=broker_id,
            cluster_id=CLUSTER_ID,
            incarnation_id=self.new_uuid(),
            listeners=[
                messages.BrokerRegistrationRequest.Listener(
                    name="PLAINTEXT", host=f"host-{broker_id}", port=9092, security_protocol=0
                )
            ],
            features=[
                messages.BrokerRegistrationRequest.Feature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in features.SUPPORTED.items()
            ],
            log_dirs=[directory(broker_id)],
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return RegisterBroker(request, 4, CLUSTER_ID)

    def register(self, broker_id: int, **fields: Any) -> int:
        return self.run(self.registration(broker_id, **fields))

    def beat(self, broker_id: int, **fields: Any) -> HeartbeatReply:
        """A heartbeat of a broker that has applied the whole log."""
        request = messages.BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=self.image.brokers[broker_id].epoch,
            current_metadata_offset=self.next_offset - 1,
        )
        for name, value in fields.items():
            setattr(request, name, value)
        return self.run(Heartbeat(request))

    def join(self, broker_id: int) -> None:
        """Register as after a clean shutdown, and unfence."""
        before = self.image.brokers.get(broker_id)
        self.register(broker_id, previous_broker_epoch=before.epoch if before else -1)
        assert not self.beat(broker_id).is_fenced

    def stop(self, broker_id: int) -> None:
        """A controlled shutdown."""
        while not self.beat(broker_id, want_shut_down=True).should_shut_down:
            pass

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
