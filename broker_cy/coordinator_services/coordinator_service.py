"""The common part of the coordinators of groups, transactions and share state: one runtime for each partition of an
internal topic that this broker leads.
The topic is created when a client first looks up a coordinator. A runtime is loaded from the log when this broker
becomes the leader of its partition; until then, requests for its groups or transactional ids wait, and fail with
COORDINATOR_LOAD_IN_PROGRESS if that takes long. It is closed when the leadership or its epoch changes: waiting requests
are answered with NOT_COORDINATOR, and the next leader has its state from the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from broker_cy.control.topics.internal_topics import creatable_topic
from broker_cy.controller.create_topics import CreateTopics
from broker_cy.coordinator.routing import partition_for
from broker_cy.coordinator_services.coordinator_runtime import (
    CoordinatorRuntime,
    LoadState,
    M,
    RuntimeContext,
    Service,
    ignore,
)
from broker_cy.coordinator_services.sweeper import Sweeper
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.core.waiters import Waiters
from broker_cy.metadata.image import NO_LEADER, MetadataImage
from broker_cy.wire import messages

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.config import BrokerConfig
    from broker_cy.core.clock import Clock
    from broker_cy.events.log_events import LogEvents
    from broker_cy.metadata.image import ImageDelta
    from broker_cy.metrics.events import Event
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable

# A write takes a turn or two of the loop; a disk that hangs must not delay the shutdown.
STOP_WRITES_S = 0.5
# A request that needs the topic waits this long for it; Kafka's clients ask again after 100 ms.
CREATE_WAIT_S = 1.0
# A request waits this long for a coordinator that is being loaded. librdkafka repeats a commit twice within 0.3 s, then
# its user sees the error, and a busy machine may load for longer. Heartbeats, which are sent every 3 s by default, do
# not wait, but those behind a request on its connection do.
LOAD_WAIT_S: Final = 2.0
# A client may know before this broker that this one is the coordinator: metadata arrive within so much time.
BEHIND_WAIT_S: Final = 0.5
# How long clients may come to a coordinator that has moved, because they do not know it yet.
RESIGNED_S: Final = 5.0
# Logs that are read at the same time: one that has to come from the disk does not hold up the others.
LOADERS_MAX: Final = 4

Submit = Callable[[Any], Awaitable[Any]]
# Attributes of an enumeration are slow to look up.
_ACTIVE: Final = LoadState.ACTIVE
S = TypeVar("S", bound=CoordinatorRuntime[Any, Any])


class ServiceContext(NamedTuple):
    """The common parts of all coordinators' services. `submit` runs an operation of the controller, `topic_settings`
    gives a topic's typed settings by Kafka's names, `executor` reads logs (None: the loop's own).
    """

    config: BrokerConfig
    clock: Clock
    loop: asyncio.AbstractEventLoop
    partitions: PartitionTable
    submit: Submit
    topic_settings: Callable[[str], Any]
    executor: Executor | None
    log_events: LogEvents


class CoordinatorService(Generic[S, M]):
    """`apply` follows the metadata: subscribe it after the service that opens the partitions."""

    topic = ""
    """The internal topic; each of its partitions gets a runtime."""
    what = ""
    """Name of the coordinated resource in error messages."""
    logger = logging.getLogger("broker_cy.server.coordinators")

    def __init__(self, context: ServiceContext) -> None:
        self.runtimes: dict[int, S] = {}
        self.partition_count = 0
        """Partitions of the topic; 0 while it does not exist."""
        self._config = context.config
        self._loop = context.loop
        self._partitions = context.partitions
        self._submit = context.submit
        self._topic_settings = context.topic_settings
        self._max_batch_bytes = 0
        self._image = MetadataImage()
        self._services: dict[type, Service] = {}
        self._runtime_context = RuntimeContext(
            context.clock,
            context.loop,
            lambda: self._max_batch_bytes,
            context.executor,
            context.log_events,
            self._services,
        )
        self._to_load: deque[S] = deque()
        self._loaders: dict[asyncio.Task[None], None] = {}
        # Requests that wait for the coordinator of a partition.
        self.waiters = Waiters(context.loop)
        # When this broker ceased to lead a partition, in the time of the loop.
        self._resigned_s: dict[int, float] = {}
        self._creating: asyncio.Task[None] | None = None
        self._stopped = False
        self._sweepers: list[Sweeper[S]] = []
        self.on_event: Callable[[Event], None] = ignore

    def _new_runtime(self, partition: Partition, leader_epoch: int) -> S:
        raise NotImplementedError

    def _sweep_every(self, interval_ms: int, work: Callable[[S], None]) -> None:
        self._sweepers.append(Sweeper(self._loop, interval_ms, lambda: list(self.runtimes.values()), work))

    def add_service(self, request: type, service: Service) -> None:
        """Let `service` answer the calls of this type, before the first runtime is opened."""
        self._services[request] = service

    # ---- following the metadata ----

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """Open runtimes for partitions of the topic that this broker leads now, and close those of the others."""
        if self._stopped:
            return
        self._image = image
        if any(topic.name == self.topic for topic in delta.gone()):
            self._close_runtimes()
        epochs = self._led_epochs(image)
        self._resign([index for index, runtime in self.runtimes.items() if epochs.get(index) != runtime.leader_epoch])
        for runtime in self.runtimes.values():
            runtime.metadata_changed(delta, image)
        known = image.topics.by_name(self.topic)
        if known is not None:
            self._max_batch_bytes = self._topic_settings(self.topic)["max.message.bytes"]
            self.partition_count = len(known.partitions)
            self._open_runtimes(epochs)
        if delta.topics:
            self.waiters.wake_all()

    def _led_epochs(self, image: MetadataImage) -> dict[int, int]:
        """The leader epochs of the partitions of the topic that this broker leads."""
        known = image.topics.by_name(self.topic)
        if known is None:
            return {}
        node_id = self._config.node_id
        return {index: each.leader_epoch for index, each in known.partitions.items() if each.leader == node_id}

    def _resign(self, indexes: list[int]) -> None:
        """This broker no longer leads these partitions, or it leads them in another epoch."""
        for index in indexes:
            self._resigned_s[index] = self._loop.time()
            self.runtimes.pop(index).close()
        if indexes:
            self.logger.info(
                "no longer the coordinator of partitions",
                extra=facts(topic=self.topic, partitions=",".join(map(str, sorted(indexes)))),
            )

    def _open_runtimes(self, epochs: dict[int, int]) -> None:
        fresh = []
        for index, leader_epoch in epochs.items():
            partition = self._partitions.get(self.topic, index)
            if partition is None or index in self.runtimes:
                continue
            if partition.assigned is not None and partition.assigned.leader_epoch != leader_epoch:
                continue  # it takes this role a little later: `partition_led`
            runtime = self.runtimes[index] = self._new_runtime(partition, leader_epoch)
            runtime.on_event = self.on_event
            runtime.on_loaded = partial(self.waiters.wake, index)
            runtime.machine.take_image(self._image)
            fresh.append(runtime)
        self._to_load.extend(fresh)
        for _ in range(min(LOADERS_MAX - len(self._loaders), len(self._to_load))):
            loader = keep_running(self._loop, self._load, f"loading {self.topic}")
            self._loaders[loader] = None
            loader.add_done_callback(self._loaders.pop)
        for sweeper in self._sweepers:
            sweeper.start()

    def partition_online(self, topic: str, index: int) -> None:
        """A partition that was offline is served again: load its runtime."""
        runtime = self.runtimes.get(index)
        if topic == self.topic and runtime is not None and runtime.state is LoadState.FAILED and not self._stopped:
            del self.runtimes[index]
            self._open_runtimes(self._led_epochs(self._image))

    def partition_led(self, topic: str) -> None:
        """A partition may lead only now, although the metadata have named this broker as its leader for some time."""
        if topic == self.topic and not self._stopped:
            self._open_runtimes(self._led_epochs(self._image))

    async def _load(self) -> None:
        while self._to_load:
            await self._to_load.popleft().load()

    async def loaded(self) -> None:
        """Wait until the log of each existing runtime is replayed, or could not be. It answers then, unless it waits
        for its followers.
        """
        while self._loaders:
            await asyncio.wait(list(self._loaders))

    def _active(self) -> list[S]:
        return [runtime for runtime in self.runtimes.values() if runtime.state is LoadState.ACTIVE]

    def _close_runtimes(self) -> None:
        for runtime in self.runtimes.values():
            runtime.close()
        self.runtimes.clear()
        self.partition_count = 0

    async def stop(self) -> None:
        """Write the accepted records, answer the remaining requests with NOT_COORDINATOR, and cancel every timer and
        task.
        """
        self._stopped = True
        for sweeper in self._sweepers:
            sweeper.stop()
        deadline = self._loop.time() + STOP_WRITES_S
        while any(runtime.is_writing for runtime in self._active()) and self._loop.time() < deadline:
            await asyncio.sleep(0)
        self._close_runtimes()
        self.waiters.wake_all()
        self._to_load.clear()
        for task in (*self._loaders, self._creating):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    # ---- the topic ----

    async def ensure_topic(self) -> ErrorCode:
        """Create the topic if it does not exist. Returns NONE if it exists afterwards; COORDINATOR_NOT_AVAILABLE also
        if that takes longer than CREATE_WAIT_S, as without an active controller.
        """
        if self.partition_count:
            return ErrorCode.NONE
        if self._creating is None or self._creating.done():
            self._creating = self._loop.create_task(self._create_topic())
        await asyncio.wait([self._creating], timeout=CREATE_WAIT_S)
        return ErrorCode.NONE if self.partition_count else ErrorCode.COORDINATOR_NOT_AVAILABLE

    async def _create_topic(self) -> None:
        request = messages.CreateTopicsRequest(topics=[creatable_topic(self.topic, self._config)])
        reason = ""
        try:
            response = await self._submit(CreateTopics(request))
        except KafkaError as error:
            reason = str(error)
        else:
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    reason = f"{ErrorCode(result.error_code).name}: {result.error_message}"
        if reason:
            self.logger.error("could not create an internal topic", extra=facts(topic=self.topic, reason=reason))

    # ---- for handlers ----

    def partition_for(self, key: str) -> int:
        """The partition of a group or transactional id; only while `partition_count` is not 0."""
        return partition_for(key, self.partition_count)

    def runtime_for(self, key: str) -> S:
        """The active runtime of a group or transactional id. Raises KafkaError: NOT_COORDINATOR,
        COORDINATOR_LOAD_IN_PROGRESS.
        """
        runtime = self.runtimes.get(self.partition_for(key)) if self.partition_count else None
        if runtime is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"this broker does not coordinate {self.what} {key!r}")
        code = runtime.check()
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"the coordinator of {self.what} {key!r} is {runtime.state.value}")
        return runtime

    def active_runtime(self, key: str) -> S | None:
        """`runtime_for` of a broker that answers for the key now; None if it does not."""
        count = self.partition_count
        runtime = self.runtimes.get(partition_for(key, count)) if count else None
        return runtime if runtime is not None and runtime.state is _ACTIVE else None

    async def ready(self, key: str) -> S:
        """`runtime_for`, which waits while the coordinator is being loaded, or is about to be, LOAD_WAIT_S at most."""
        try:
            return self.runtime_for(key)
        except KafkaError:
            await self._until_loaded((key,))
        return self.runtime_for(key)

    async def ready_all(self, keys: Sequence[str]) -> list[S | KafkaError]:
        """The same for several, which wait together."""
        found = [self._found(key) for key in keys]
        if any(isinstance(each, KafkaError) for each in found):
            await self._until_loaded(keys)
            # A coordinator that was found before may have been closed meanwhile.
            found = [self._found(key) for key in keys]
        return found

    def _found(self, key: str) -> S | KafkaError:
        try:
            return self.runtime_for(key)
        except KafkaError as error:
            return error

    async def _until_loaded(self, keys: Iterable[str]) -> None:
        if not self.partition_count:
            return
        now_s = self._loop.time()
        for index in {self.partition_for(key): None for key in keys}:
            while limit_s := self._wait_s(index):
                if not await self.waiters.wait(index, now_s + limit_s - self._loop.time()):
                    break

    def _wait_s(self, index: int) -> float:
        """How long a request may wait for the coordinator of a partition; 0 if it need not wait."""
        runtime = self.runtimes.get(index)
        if runtime is not None:
            return LOAD_WAIT_S if runtime.state is LoadState.LOADING else 0.0
        return BEHIND_WAIT_S if self._may_lead_soon(index) else 0.0

    def _may_lead_soon(self, index: int) -> bool:
        """Whether clients that come because of a partition, which another broker leads, may know more than this one."""
        known = self._image.topics.by_name(self.topic)
        partition = known.partitions.get(index) if known is not None else None
        if self._stopped or partition is None or self._config.node_id not in partition.replicas:
            return False
        resigned_s = self._resigned_s.get(index)
        return resigned_s is None or self._loop.time() - resigned_s > RESIGNED_S

    def other_coordinator(self, key: str) -> int | None:
        """The other broker that coordinates a group or transactional id; None if it is this one, or none, or if this
        service was stopped: then it knows no partitions.
        """
        if len(self._image.brokers) <= 1 or not self.partition_count:
            return None
        known = self._image.topics.by_name(self.topic)
        partition = known.partitions.get(self.partition_for(key)) if known is not None else None
        if partition is None or partition.leader in (NO_LEADER, self._config.node_id):
            return None
        return partition.leader

    @property
    def is_loading(self) -> bool:
        """Whether a runtime is still being loaded."""
        return any(runtime.state is LoadState.LOADING for runtime in self.runtimes.values())

    def _loaded_runtimes(self) -> list[S]:
        """All active runtimes. Raises KafkaError(COORDINATOR_LOAD_IN_PROGRESS) while one is still being loaded."""
        if self.is_loading:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return self._active()

    def machines_now(self) -> list[M]:
        """The state machines that are loaded."""
        return [runtime.machine for runtime in self._active()]
