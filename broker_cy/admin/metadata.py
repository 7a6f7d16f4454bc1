"""The client's metadata of the cluster: brokers, topics and partition leaders. Kept until it is wrong or too old."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from uuid import UUID

from broker_cy.admin.address import Address
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of, refused
from broker_cy.client.pool import Peer, Pool
from broker_cy.client.turns import Turns
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.core.uuid import ZERO
from broker_cy.metrics import topics as own_topics
from broker_cy.wire import messages

# How long leaders are kept without an error; Kafka's metadata.max.age.ms is 5 minutes, but a console shows more recent
# data.
METADATA_AGE_MAX_S = 60.0
# Topics whose leaders are kept. Beyond that, all are forgotten and asked for again.
CACHED_TOPICS_MAX = 100_000
NO_LEADER = -1


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Node:
    """A broker as clients reach it."""

    node_id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)


class PartitionInfo(NamedTuple):
    """A partition and its replicas. `leader_id` is -1 without a leader. `adding_replicas` are those of `replicas` that
    a reassignment adds; TopicCalls looks for them only if replicas are not in sync.
    """

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...] = ()

    @property
    def is_offline(self) -> bool:
        return self.leader_id == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        """Whether some replicas are not in sync. As in Kafka, replicas that a reassignment adds do not count: they are
        not in sync because they are new.
        """
        return len(self.in_sync_replicas) < len(self.replicas) - len(self.adding_replicas)


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic and its partitions, by their number. `topic_id` is all zeros if the broker is too old to report it."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]

    @property
    def is_own(self) -> bool:
        """Whether it belongs to the cluster: topics reported as internal, and broker-cy's own topics."""
        return self.is_internal or self.name in (own_topics.EVENTS, own_topics.SAMPLES)

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition; 0 without partitions."""
        return len(self.partitions[0].replicas) if self.partitions else 0


class _Cached(NamedTuple):
    topic: TopicInfo
    until_s: float


class Metadata:
    """Asks any broker for unknown metadata, and keeps the answer."""

    def __init__(self, pool: Pool, bootstrap: Sequence[Address]) -> None:
        if not bootstrap:
            raise ClientError(Failure.INVALID, "no broker address was given")
        self.pool = pool
        self.bootstrap = tuple(bootstrap)
        self.nodes: dict[int, Node] = {}
        self.controller_id = NO_LEADER
        self.cluster_id: str | None = None
        self._topics: dict[str, _Cached] = {}

    async def any_peer(self, deadline: Deadline) -> Peer:
        """A reachable broker: a connected one, else the first that accepts a connection. If none does, raises the
        ClientError of the last one.
        """
        known = [self.peer_of(node) for node in self.nodes.values()]
        peers = known + [Peer(address) for address in self.bootstrap if address not in {each.address for each in known}]
        connected = self.pool.open_link(lambda peer: peer.lane == "" and (peer in peers or not self.nodes))
        if connected is not None:
            return connected
        failure: ClientError | None = None
        for index, peer in enumerate(peers):
            # Each gets its share of the time, so that an unresponsive broker leaves some for the others.
            share = Deadline(deadline.left_s / (len(peers) - index))
            try:
                await self.pool.link(peer, share)
                return peer
            except ClientError as error:
                failure = error
        assert failure is not None
        raise failure

    @staticmethod
    def peer_of(node: Node) -> Peer:
        return Peer(node.address, node.node_id)

    async def peer(self, node_id: int, deadline: Deadline) -> Peer:
        """How to reach broker `node_id`; ClientError if the cluster has no such broker now."""
        node = self.nodes.get(node_id)
        if node is None:
            await self.refresh((), deadline)
            node = self.nodes.get(node_id)
        if node is None:
            known = ", ".join(map(str, sorted(self.nodes))) or "none"
            raise ClientError(Failure.INVALID, f"the cluster has no broker {node_id} now; it has {known}")
        return self.peer_of(node)

    async def refresh(
        self, topics: Iterable[str] | None, deadline: Deadline, *, create: bool = False
    ) -> tuple[dict[str, TopicInfo], dict[str, ClientError]]:
        """Ask for brokers and `topics` (None: all there are), keep them, and return found and failed topics.

        With `create` the broker may create missing topics (auto.create.topics.enable). It does so in the background:
        this call reports them as UNKNOWN_TOPIC_OR_PARTITION, and a later one finds them.
        """
        names = None if topics is None else list(dict.fromkeys(topics))
        peer = await self.any_peer(deadline)
        wanted = messages.MetadataRequest.MetadataRequestTopic
        request = messages.MetadataRequest(
            topics=None if names is None else [wanted(name=name) for name in names],
            # Version 4 added this field; without it a broker creates missing topics against the client's wish.
            allow_auto_topic_creation=create,
        )
        answer, _ = await self.pool.ask(peer, request, messages.MetadataResponse, deadline, at_least=4)
        if (problem := problem_of(answer.error_code)) is not None:
            raise refused(problem, peer.name, "Metadata")
        self.nodes = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in answer.brokers}
        for node in self.nodes.values():
            self.pool.adopt(self.peer_of(node))
        self.controller_id = answer.controller_id
        self.cluster_id = answer.cluster_id
        # From now on the id of a bootstrap address is known.
        known = {node.address: self.peer_of(node).name for node in self.nodes.values()}
        return await self._remember(answer, names, known.get(peer.address, peer.name))

    async def _remember(
        self, answer: messages.MetadataResponse, names: list[str] | None, broker: str
    ) -> tuple[dict[str, TopicInfo], dict[str, ClientError]]:
        found: dict[str, TopicInfo] = {}
        failed: dict[str, ClientError] = {}
        turns = Turns()
        # Topics are removed one by one: freeing a large answer in one step blocks the loop for tens of milliseconds.
        topics, answer.topics = answer.topics, []
        topics.reverse()
        while topics:
            each = topics.pop()
            name = each.name or ""
            problem = problem_of(each.error_code)
            # Partitions without a leader are listed with the topic: that is not a failure of the topic.
            if problem is not None and problem.code is not ErrorCode.LEADER_NOT_AVAILABLE:
                failed[name] = refused(problem, broker, "Metadata", f"topic {name}")
                continue
            topic, known = _topic_info(each), self._topics.get(name)
            # An unchanged topic keeps its known object, which views also hold: no large object is freed later.
            found[name] = known.topic if known is not None and known.topic == topic else topic
            await turns.pause()
        # One turn updates the cache after the whole answer is decoded, so that it never contains half of an answer.
        if names is None or len(self._topics) > CACHED_TOPICS_MAX:
            self._topics.clear()
        until_s = asyncio.get_running_loop().time() + METADATA_AGE_MAX_S
        for name, topic in found.items():
            self._topics[name] = _Cached(topic, until_s)
        for name in failed:
            self._topics.pop(name, None)
        for name in names or ():
            if name not in found and name not in failed:
                unknown = Problem(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                failed[name] = refused(unknown, broker, "Metadata", f"topic {name}")
        return found, failed

    async def topics(
        self, names: Iterable[str], deadline: Deadline
    ) -> tuple[dict[str, TopicInfo], dict[str, ClientError]]:
        """Topics by name, from the cache if known; found and failed ones."""
        now = asyncio.get_running_loop().time()
        found: dict[str, TopicInfo] = {}
        missing: list[str] = []
        for name in dict.fromkeys(names):
            cached = self._topics.get(name)
            if cached is not None and cached.until_s > now:
                found[name] = cached.topic
            else:
                missing.append(name)
        failed: dict[str, ClientError] = {}
        if missing:
            fresh, failed = await self.refresh(missing, deadline)
            found.update(fresh)
        return found, failed

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The cached leader: -1 for none now, None if the partition is unknown."""
        cached = self._topics.get(partition.topic)
        if cached is None:
            return None
        partitions, number = cached.topic.partitions, partition.partition
        # Their numbers are 0 to n - 1, unless the broker leaves one out.
        if 0 <= number < len(partitions) and partitions[number].partition == number:
            return partitions[number].leader_id
        return next((each.leader_id for each in partitions if each.partition == number), None)

    def topic_id(self, name: str) -> UUID:
        """The cached id; all zeros if the cache has none."""
        cached = self._topics.get(name)
        return ZERO if cached is None else cached.topic.topic_id

    def forget(self, topics: Iterable[str]) -> None:
        """Ask for these topics again when they are next needed."""
        for name in topics:
            self._topics.pop(name, None)


def _topic_info(each: messages.MetadataResponse.MetadataResponseTopic) -> TopicInfo:
    partitions = [
        PartitionInfo(
            part.partition_index,
            part.leader_id,
            part.leader_epoch,
            tuple(part.replica_nodes),
            tuple(part.isr_nodes),
            tuple(part.offline_replicas),
        )
        for part in each.partitions
    ]
    partitions.sort(key=lambda part: part.partition)
    return TopicInfo(each.name or "", each.topic_id, each.is_internal, tuple(partitions))
