"""The part of a broker that config handlers use, in memory: settings, an image, a controller that commits
immediately.
"""

from __future__ import annotations

import asyncio
import importlib
from typing import Any
from uuid import UUID

from broker_cy.broker import registry
from broker_cy.broker.context import RequestContext
from broker_cy.client.outgoing import MACHINE
from broker_cy.config import BrokerConfig
from broker_cy.controller.operation import MetadataStep, Operation, OperationContext
from broker_cy.core.clock import ManualClock
from broker_cy.events.event_log import EventLog
from broker_cy.events.own_topic_leader import OwnTopicLeader
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.replay import replay
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.wire import codec, messages
from broker_cy.wire.frame import ApiKey

HANDLERS = (
    "alter_configs",
    "describe_configs",
    "incremental_alter_configs",
    "list_config_resources",
)


class MemoryController:
    is_active = True

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self.config = config
        self.image = image
        self.records: list[Any] = []

    async def submit(self, operation: Operation[Any]) -> Any:
        step = MetadataStep()
        reply = operation.run(self.image, step, OperationContext(0, lambda: UUID(int=1), self.config))
        for record in step.records:
            self.records.append(record.message)
            replay(self.image, record.message)
        self.tell()
        return reply

    def tell(self) -> None:
        """Record what the partition service would do with a commit."""
        configs = self.image.configs
        self.config.apply_dynamic(configs.broker(self.config.node_id), configs.broker(""))


class ConfigBroker:
    """Takes the place of `broker.broker.Broker`."""

    def __init__(self, properties: dict[str, str]) -> None:
        # Events cannot be written here: no partition exists.
        self.tls = None
        self.config = BrokerConfig.from_properties({**properties, "brokercy.events.enable": "false"})
        self.node_id = self.config.node_id
        self.authorization = None
        self.image = MetadataImage()
        self.controller = MemoryController(self.config, self.image)
        loop: Any = None
        submit: Any = None
        self.events = EventLog(
            self.config,
            ManualClock(),
            loop,
            PartitionTable(),
            submit,
            OwnTopicLeader(0, "PLAINTEXT", lambda: self.image, lambda: False, MACHINE),
            lambda topic: 1,
        )
        replay(self.image, messages.RegisterBrokerRecord(broker_id=self.node_id))

    def create_topic(self, name: str, configs: dict[str, str]) -> None:
        replay(self.image, messages.TopicRecord(name=name, topic_id=UUID(int=len(self.image.topics) + 1)))
        for key, value in configs.items():
            replay(self.image, messages.ConfigRecord(resource_type=2, resource_name=name, name=key, value=value))

    def set_config(self, resource_type: int, name: str, key: str, value: str | None) -> None:
        record = messages.ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        replay(self.image, record)
        self.controller.tell()

    def set_feature(self, name: str, level: int) -> None:
        replay(self.image, messages.FeatureLevelRecord(name=name, feature_level=level))

    def call(self, request: Any, version: int) -> Any:
        """Return the handler's response after a round trip of both over the wire."""
        for handler in HANDLERS:
            importlib.import_module(f"broker_cy.handlers.{handler}")
        name = type(request).__name__.removesuffix("Request")
        key = next(key for key in ApiKey if key.name.replace("_", "") == name.upper())
        registration = registry.registrations()[key]
        assert registration.min_version <= version <= registration.max_version
        request = codec.decode(type(request), version, codec.encode(request, version))
        services: Any = self
        context = RequestContext(services, key, version, "test", "127.0.0.1", "PLAINTEXT")
        answer = registration.function(context, request)
        if registration.is_async:
            answer = asyncio.run(answer)
        return codec.decode(type(answer), version, codec.encode(answer, version))
