"""One client's connections to the brokers of a cluster, used like a Channel. As in Kafka's clients, each request goes
to the leader, to the coordinator or to any broker. Requests leave in the order in which they were sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_cy.core.errors import ErrorCode
from broker_cy.wire import messages as m
from tests.sim.world.wire import TIMEOUT_S, Channel, Lost, codes_of

if TYPE_CHECKING:
    from tests.sim.world.world import World

# A host without power does not answer, but another one may.
CONNECT_TIMEOUT_S = 1.0
GROUP, TRANSACTION = 0, 1
# The last version of Produce and Fetch in which topics have names.
BY_NAME = 12
# After these errors the client must look up the leader or the coordinator again.
STALE = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    }
)


class Waiting(NamedTuple):
    request: Any
    version: int
    timeout_s: float
    answer: asyncio.Future[Any]
    # For a batch: the number of failed batches of its partition when it was queued.
    failures: int = 0


class Router:
    """Never lost as a whole; `close` drops all connections."""

    is_lost = False

    def __init__(self, world: World, name: str, draw: Any, site: str) -> None:
        self._world = world
        self._name = name
        self._hosts = [host for host, machine in world.clusters[site].machines.items() if machine.is_broker]
        self._any = draw.choice(self._hosts)
        self._channels: dict[str, Channel] = {}
        # By topic id or name, and partition: the host of the leader, or None.
        self._leaders: dict[tuple[Any, int], str | None] = {}
        # The same for the leader epochs: as in Kafka's consumers, each fetch contains the epoch that the client knows.
        self._epochs: dict[tuple[Any, int], int] = {}
        self._coordinators: dict[tuple[int, str], str] = {}
        # By topic id or name, and partition: the host that has not answered all batches yet, and their number.
        self._unanswered: dict[tuple[Any, int], tuple[str, int]] = {}
        # The same: the number of failed batches.
        self._failures: dict[tuple[Any, int], int] = {}
        self._queue: deque[Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Do nothing: connections are opened when they are needed."""

    def close(self) -> None:
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()
        while self._queue:
            _fail(self._queue.popleft().answer, Lost(f"{self._name}: closed by the client"))
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def send(self, request: Any, version: int, timeout_s: float = TIMEOUT_S) -> asyncio.Future[Any]:
        """Send a request; the result is its answer, or Lost."""
        answer: asyncio.Future[Any] = self._world.clients.create_future()
        failures = self._failures.get(_produced(request, version), 0) if isinstance(request, m.ProduceRequest) else 0
        self._queue.append(Waiting(request, version, timeout_s, answer, failures))
        if self._task is None:
            self._task = self._world.clients.create_task(self._run())
        return answer

    def epoch_of(self, topic: Any, partition: int) -> int:
        """The leader epoch that requests about a partition contain: -1 if it is not known."""
        return self._epochs.get((topic, partition), -1)

    async def _run(self) -> None:
        while self._queue:
            waiting = self._queue.popleft()
            try:
                await self._send(waiting)
            except Lost as error:
                if isinstance(waiting.request, m.ProduceRequest):
                    self._batch_failed(_produced(waiting.request, waiting.version))
                _fail(waiting.answer, error)
            except asyncio.CancelledError:
                _fail(waiting.answer, Lost(f"{self._name}: closed by the client"))
                raise
        self._task = None

    async def _send(self, waiting: Waiting) -> None:
        """Raises Lost."""
        request = waiting.request
        if isinstance(request, m.FetchRequest):
            return await self._fetch(waiting)
        host = await self._target(request, waiting.version)
        channel = await self._channel(host)
        if isinstance(request, m.ProduceRequest):
            self._keep_order(waiting, host)

        def answered(sent: asyncio.Future[Any]) -> None:
            has_failed = sent.exception() is not None or any(codes_of(sent.result()))
            if isinstance(request, m.ProduceRequest) and has_failed:
                self._batch_failed(_produced(request, waiting.version))
            self._answered(request, host, sent, waiting.answer)

        channel.send(request, waiting.version, waiting.timeout_s).add_done_callback(answered)
        return None

    def _keep_order(self, waiting: Waiting, host: str) -> None:
        """A broker that does not know a producer takes any sequence as its first one. As in Kafka's producer, no batch
        is sent after one of its partition that has failed and is to be sent again before it; those that are under way
        together all go to one broker. Raises Lost.
        """
        key = _produced(waiting.request, waiting.version)
        at, count = self._unanswered.get(key, (host, 0))
        if at != host or self._failures.get(key, 0) != waiting.failures:
            raise Lost(f"{self._name}: the batch before was not written")
        self._unanswered[key] = host, count + 1

        def answered(_: object) -> None:
            at, count = self._unanswered.pop(key)
            if count > 1:
                self._unanswered[key] = at, count - 1

        waiting.answer.add_done_callback(answered)

    def _batch_failed(self, key: tuple[Any, int]) -> None:
        self._failures[key] = self._failures.get(key, 0) + 1

    def _answered(
        self, request: Any, host: str, sent: asyncio.Future[Any], answer: asyncio.Future[Any] | None
    ) -> asyncio.Future[Any]:
        """Forget the wrong route, and pass the answer on."""
        error = sent.exception()
        if error is not None:
            self._forget_host(host)
            if answer is not None:
                _fail(answer, error)
        else:
            response = sent.result()
            if not STALE.isdisjoint(codes_of(response)):
                self._leaders.clear()
                self._coordinators.pop(_coordinated(request), None)  # type: ignore[arg-type]
            if answer is not None and not answer.done():
                answer.set_result(response)
        return sent

    def _forget_host(self, host: str) -> None:
        self._leaders = {key: at for key, at in self._leaders.items() if at != host}
        self._coordinators = {key: at for key, at in self._coordinators.items() if at != host}
        if host == self._any:
            self._any = self._hosts[(self._hosts.index(host) + 1) % len(self._hosts)]

    async def _channel(self, host: str) -> Channel:
        """Raises Lost."""
        channel = self._channels.get(host)
        if channel is None or channel.is_lost:
            channel = self._channels[host] = Channel(self._world, self._name, host)
            try:
                await channel.open(CONNECT_TIMEOUT_S)
            except Lost:
                self._forget_host(host)
                raise
        return channel

    async def _fetch(self, waiting: Waiting) -> None:
        """Ask each leader for its partitions; lost answers are left out. Raises Lost."""
        parts: dict[str, list[Any]] = {}
        request = waiting.request
        for topic in request.topics:
            key = topic.topic_id if waiting.version > BY_NAME else topic.topic
            for each in topic.partitions:
                try:
                    host = await self._leader(key, each.partition)
                except Lost:
                    continue
                each.current_leader_epoch = self.epoch_of(key, each.partition)
                part = m.FetchRequest.FetchTopic(topic=topic.topic, topic_id=topic.topic_id, partitions=[each])
                parts.setdefault(host, []).append(part)
        sent = []
        for host, topics in parts.items():
            one = m.FetchRequest(
                max_wait_ms=request.max_wait_ms,
                min_bytes=request.min_bytes,
                isolation_level=request.isolation_level,
                topics=topics,
            )
            try:
                channel = await self._channel(host)
            except Lost:
                continue
            sent.append((host, channel.send(one, waiting.version, waiting.timeout_s)))
        if not sent:
            raise Lost(f"{self._name}: no leader answers")
        left = len(sent)
        responses: list[Any] = []

        def answered(host: str, done: asyncio.Future[Any]) -> None:
            nonlocal left
            left -= 1
            self._answered(request, host, done, None)
            if done.exception() is None:
                responses.extend(done.result().responses)
            if not left and not waiting.answer.done():
                waiting.answer.set_result(m.FetchResponse(responses=responses))

        for host, each in sent:
            each.add_done_callback(lambda done, host=host: answered(host, done))  # type: ignore[misc]

    # --- routes

    async def _target(self, request: Any, version: int) -> str:
        """Return the host to which to send a request. Raises Lost."""
        if (coordinated := _coordinated(request)) is not None:
            return await self._coordinator(*coordinated)
        match request:
            case m.ProduceRequest():
                return await self._leader(*_produced(request, version))
            case m.ListOffsetsRequest() | m.DeleteRecordsRequest():
                topic = request.topics[0]
                part = topic.partitions[0]
                host = await self._leader(topic.name, part.partition_index)
                if isinstance(part, m.ListOffsetsRequest.ListOffsetsPartition):
                    part.current_leader_epoch = self.epoch_of(topic.name, part.partition_index)
                return host
        return str(self._any)

    async def _ask_any(self, request: Any, version: int) -> Any:
        """Raises Lost."""
        host = self._any
        sent = (await self._channel(host)).send(request, version)
        try:
            return await sent
        except Lost:
            self._forget_host(host)
            raise

    async def _leader(self, topic: Any, partition: int) -> str:
        """Any broker for a partition that does not exist. Raises Lost."""
        if (topic, partition) not in self._leaders:
            await self._look()
        if (topic, partition) not in self._leaders:
            return str(self._any)
        host = self._leaders[topic, partition]
        if host is None:
            del self._leaders[topic, partition]
            raise Lost(f"{self._name}: {topic}-{partition} has no leader")
        return host

    async def _look(self) -> None:
        answer = await self._ask_any(m.MetadataRequest(topics=None, allow_auto_topic_creation=False), 13)
        hosts = {each.node_id: each.host for each in answer.brokers}
        self._leaders = {
            (key, part.partition_index): hosts.get(part.leader_id)
            for topic in answer.topics
            for part in topic.partitions
            for key in (topic.topic_id, topic.name)
        }
        self._epochs = {
            (key, part.partition_index): part.leader_epoch
            for topic in answer.topics
            for part in topic.partitions
            for key in (topic.topic_id, topic.name)
        }

    async def _coordinator(self, kind: int, key: str) -> str:
        if (kind, key) not in self._coordinators:
            answer = await self._ask_any(m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
            found = answer.coordinators[0]
            if found.error_code:
                raise Lost(f"{self._name}: no coordinator of {key}: {ErrorCode(found.error_code).name}")
            self._coordinators[kind, key] = str(found.host)
        return self._coordinators[kind, key]


def _coordinated(request: Any) -> tuple[int, str] | None:
    """Kind and key of the coordinator that has to answer a request; None for one that needs none."""
    match request:
        case m.InitProducerIdRequest():
            return (TRANSACTION, request.transactional_id) if request.transactional_id else None
        case m.EndTxnRequest():
            return TRANSACTION, request.transactional_id
        case m.AddPartitionsToTxnRequest():
            return TRANSACTION, request.v3_and_below_transactional_id
        case m.DescribeTransactionsRequest():
            return TRANSACTION, request.transactional_ids[0]
        case m.DescribeGroupsRequest():
            return GROUP, request.groups[0]
        case m.ConsumerGroupDescribeRequest() | m.StreamsGroupDescribeRequest():
            return GROUP, request.group_ids[0]
        case m.DeleteGroupsRequest():
            return GROUP, request.groups_names[0]
        case m.OffsetFetchRequest():
            return GROUP, request.groups[0].group_id
    group = getattr(request, "group_id", None)
    return (GROUP, group) if group is not None else None


def _produced(request: m.ProduceRequest, version: int) -> tuple[Any, int]:
    """Topic id or name, and partition, of the only batch of a request."""
    topic = request.topic_data[0]
    return topic.topic_id if version > BY_NAME else topic.name, topic.partition_data[0].index


def _fail(answer: asyncio.Future[Any], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
        # Marks the exception as retrieved: a caller that still waits gets it, others have given up the request.
        answer.exception()
