"""The controller service over a real directory, and handlers called as a connection would call them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from broker_cy.access.authorization import Authorization
from broker_cy.broker.broker import Broker
from broker_cy.broker.client_quotas import ClientQuotas
from broker_cy.broker.context import RequestContext
from broker_cy.broker.registry import ListenerKind, registrations
from broker_cy.client.outgoing import MACHINE
from broker_cy.config import BrokerConfig
from broker_cy.control.controller_service import ControllerService
from broker_cy.control.topics.auto_topics import AutoTopics
from broker_cy.control.watch.suspects import Departed, Suspects
from broker_cy.core import uuid as uuids
from broker_cy.core.clock import ManualClock
from broker_cy.core.errors import ErrorCode
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.events.event_log import EventLog
from broker_cy.events.log_events import LogEvents
from broker_cy.events.own_topic_leader import OwnTopicLeader
from broker_cy.handlers import load_handlers
from broker_cy.metadata.image import Endpoint, MetadataImage
from broker_cy.replica.partition_table import PartitionTable
from broker_cy.security.acls import ANONYMOUS
from broker_cy.security.authorizer import Authorizer
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.settings import StorageSettings
from broker_cy.wire import codec, frame, messages

# Events cannot be written here: no partition exists.
QUIET = {"node.id": "1", "brokercy.events.enable": "false"}
# Now: `call` reads the handlers themselves from the registry.
load_handlers()
LISTENERS = {"PLAINTEXT": Endpoint("host-a", 9092, 0), "OTHER": Endpoint("host-b", 9093, 0)}


class MetadataBroker:
    """As much of a broker as the metadata handlers use, over the data directory `path`. Use as a context manager."""

    def __init__(
        self, path: Path, settings: dict[str, str] | None = None, authorizer: Authorizer | None = None
    ) -> None:
        own = {"log.dirs": str(path), "broker.rack": "r1"}
        self.config = BrokerConfig.from_properties({**QUIET, **own, **(settings or {})})
        self.path = path
        self.clock = ManualClock()
        self.directories: list[DataDirectory] = []
        self.controller: ControllerService
        self.auto_topics: AutoTopics
        self.events: EventLog
        self.randomness = MACHINE_RANDOMNESS
        self.quotas = ClientQuotas(self.config, self.clock)
        self.suspects: Suspects
        self.departed: Departed
        self.node_id = 1
        self.cluster_id = ""
        self.changes: list[Any] = []
        self.authorizer = authorizer
        self.authorization: Authorization | None = None

    @property
    def image(self) -> MetadataImage:
        return self.controller.image

    def open(self) -> MetadataBroker:
        """Set up everything without starting it."""
        new_uuid = MACHINE_RANDOMNESS.kafka_uuid
        self.directories = open_directories([str(self.path)], 1, lambda: uuids.to_text(new_uuid()), new_uuid)
        self.cluster_id = self.directories[0].cluster_id
        logs = LogManager(self.directories, StorageSettings(), InlineJobs())
        loop = asyncio.get_running_loop()
        self.suspects = Suspects(loop)
        self.departed = Departed(loop)
        self.controller = ControllerService.open(self.config, self.clock, loop, logs, MACHINE_RANDOMNESS, MACHINE)
        if self.authorizer is not None:
            log_events = LogEvents(self.clock)
            self.authorization = Authorization(
                self.authorizer, lambda: self.controller.announced_end, lambda: self.image.offset + 1, log_events
            )
            self.controller.subscribe(self.authorization.apply)
        self.controller.subscribe(self.quotas.apply)
        self.auto_topics = AutoTopics(self.config, loop, LogEvents(self.clock))
        self.events = EventLog(
            self.config,
            self.clock,
            loop,
            PartitionTable(),
            self.controller.submit,
            OwnTopicLeader(0, "PLAINTEXT", lambda: self.controller.image, lambda: False, MACHINE),
            lambda topic: 1,
        )
        self.controller.subscribe(lambda delta, image: self.changes.append(delta))
        return self

    async def __aenter__(self) -> MetadataBroker:
        try:
            await self.open().controller.start(LISTENERS)
            await self.controller.join()
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.controller.stop()
        self.close()

    def close(self) -> None:
        for directory in self.directories:
            directory.close()

    async def call(
        self,
        request: Any,
        version: int,
        listener: str = "PLAINTEXT",
        principal: str = ANONYMOUS,
        host: str = "127.0.0.1",
        client_id: str = "test",
    ) -> Any:
        """Encode the request, decode it as the broker does, run the handler, and return what a client would decode."""
        served = {**registrations(ListenerKind.CONTROLLER), **registrations()}
        api_key = next((key for key in served if frame.request_class(key) is type(request)), None)
        assert api_key is not None, f"the test has to import the handler of {type(request).__name__}"
        registration = served[api_key]
        assert registration.min_version <= version <= registration.max_version
        request = codec.decode(type(request), version, codec.encode(request, version))
        context = RequestContext(cast(Broker, self), api_key, version, client_id, host, listener, principal=principal)
        response = registration.function(context, request)
        if inspect.isawaitable(response):
            response = await response
        return codec.decode(type(response), version, codec.encode(response, version))


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a test's coroutine on a separate loop."""
    asyncio.run(work())


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that must become true soon."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


Work = Callable[[MetadataBroker], Coroutine[Any, Any, None]]


def with_broker(
    path: Path, work: Work, settings: dict[str, str] | None = None, authorizer: Authorizer | None = None
) -> None:
    async def main() -> None:
        async with MetadataBroker(path, settings, authorizer) as broker:
            await work(broker)

    asyncio.run(main())


async def create(broker: MetadataBroker, name: str, partitions: int = 1, version: int = 7, **fields: Any) -> Any:
    topic = messages.CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = await broker.call(messages.CreateTopicsRequest(topics=[topic], **fields), version)
    return response.topics[0]


def errors(response: Any) -> dict[Any, str]:
    return {topic.name: ErrorCode(topic.error_code).name for topic in response.topics}
