"""An in-memory cluster for the admin client: nodes, moving partitions, settings and a quorum, instead of its pool.
Requests and responses go through the codec, in the highest version, so that a field that a version lacks is also an
error here. A moving replica copies some bytes at every ListPartitionReassignments; it is complete when it has all
bytes. A replica that moves between directories copies at every DescribeLogDirs. The file is long because it is one
cluster: each request is answered from the state that the others have changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID

import pytest

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.core.errors import ErrorCode
from broker_cy.wire import codec, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message

T = TypeVar("T")
# Turns of the loop until a request arrives.
_TURNS = 5
BROKER, TOPIC = 4, 2
DYNAMIC_BROKER, DYNAMIC_TOPIC = 2, 1
LISTS = {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
VERSIONS = {
    ApiKey.METADATA: 12, ApiKey.DESCRIBE_CLUSTER: 2, ApiKey.DESCRIBE_LOG_DIRS: 5, ApiKey.DESCRIBE_CONFIGS: 4,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: 1, ApiKey.ALTER_PARTITION_REASSIGNMENTS: 1,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: 0, ApiKey.ELECT_LEADERS: 2, ApiKey.UNREGISTER_BROKER: 0,
    ApiKey.DESCRIBE_QUORUM: 2, ApiKey.ADD_RAFT_VOTER: 1, ApiKey.ALTER_REPLICA_LOG_DIRS: 2,
    ApiKey.REMOVE_RAFT_VOTER: 0, ApiKey.DESCRIBE_TOPIC_PARTITIONS: 0,
}  # fmt: skip


@dataclass
class Part:
    """A partition; `target` is set while it moves, and `copied` are the bytes of each replica to add."""

    replicas: tuple[int, ...]
    size: int = 0
    leader: int = -1
    isr: tuple[int, ...] = ()
    target: tuple[int, ...] | None = None
    copied: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.isr = self.isr or self.replicas
        self.leader = self.replicas[0] if self.leader == -1 else self.leader

    @property
    def all_replicas(self) -> tuple[int, ...]:
        """The new and the old replicas."""
        new = self.target or ()
        return (*new, *(each for each in self.replicas if each not in new))


class FakeCluster:
    """The state, and a handler for each request. Each ListPartitionReassignments copies `step_bytes` of each moving
    replica.
    """

    versions: Mapping[ApiKey, int] = VERSIONS

    def __init__(self, racks: dict[int, str | None], step_bytes: int = 10) -> None:
        self.racks = racks
        self.fenced: set[int] = set()
        self.step_bytes = step_bytes
        self.parts: dict[TopicPartition, Part] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.min_isr = 1
        self.asked: list[Message] = []
        # Errors of the next requests of a kind: an error code for the whole response.
        self.refuse: dict[ApiKey, ErrorCode] = {}
        self.moving_most = 0
        # The controller in DescribeCluster, which may be any broker; node 1 leads the quorum.
        self.controller_id = 1
        # Called before each request.
        self.before_request: Callable[[], None] = lambda: None
        self.voters: list[tuple[int, UUID]] = [(1, UUID(int=101))]
        self.observers: list[tuple[int, UUID]] = []
        # The last fetch times of voters, by the leader's clock; the other voters and the leader are always current.
        self.fetched_ms: dict[int, int] = {}
        self.page = 2
        # The directories of each broker; replicas are in the first, unless `places` has them.
        self.paths = ["/data"]
        self.offline_paths: set[tuple[int, str]] = set()
        self.places: dict[tuple[int, TopicPartition], str] = {}
        self.futures: dict[tuple[int, TopicPartition], tuple[str, int]] = {}

    def run(self, monkeypatch: pytest.MonkeyPatch, job: Callable[[AdminClient], Awaitable[T]]) -> T:
        """Run `job` with a client of this cluster."""
        monkeypatch.setattr("broker_cy.admin.client.Pool", lambda *_: FakePool(self))

        async def inside() -> T:
            async with AdminClient("127.0.0.1:1", timeout_s=5) as client:
                return await job(client)

        return asyncio.run(inside())

    def kinds(self, kind: type[Message]) -> list[Any]:
        """The requests of a kind, oldest first."""
        return [each for each in self.asked if type(each) is kind]

    def answer(self, request: Message) -> Message:
        self.asked.append(request)
        name = type(request).__name__.removesuffix("Request")
        handler: Callable[[Message], Message] = getattr(self, f"on_{name}")
        return handler(request)

    def on_Metadata(self, request: messages.MetadataRequest) -> messages.MetadataResponse:
        brokers = [
            messages.MetadataResponse.MetadataResponseBroker(node_id=each, host="127.0.0.1", port=each, rack=rack)
            for each, rack in self.racks.items()
            if each not in self.fenced
        ]
        wanted = None if request.topics is None else {each.name for each in request.topics}
        topics: dict[str, list[messages.MetadataResponse.MetadataResponsePartition]] = {}
        for key, part in sorted(self.parts.items()):
            shown = messages.MetadataResponse.MetadataResponsePartition(
                partition_index=key.partition, leader_id=part.leader, leader_epoch=1,
                replica_nodes=list(part.all_replicas), isr_nodes=list(part.isr), offline_replicas=[],
            )  # fmt: skip
            topics.setdefault(key.topic, []).append(shown)
        return messages.MetadataResponse(
            brokers=brokers, cluster_id="cluster", controller_id=min(set(self.racks) - self.fenced),
            topics=[
                messages.MetadataResponse.MetadataResponseTopic(name=name, topic_id=UUID(int=9), partitions=parts)
                for name, parts in topics.items()
                if wanted is None or name in wanted
            ]
            + [
                messages.MetadataResponse.MetadataResponseTopic(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, topic_id=UUID(int=0), partitions=[]
                )
                for name in wanted or ()
                if name not in topics
            ],
        )  # fmt: skip

    def on_DescribeCluster(self, request: messages.DescribeClusterRequest) -> messages.DescribeClusterResponse:
        return messages.DescribeClusterResponse(
            cluster_id="cluster", controller_id=self.controller_id,
            brokers=[
                messages.DescribeClusterResponse.DescribeClusterBroker(
                    broker_id=each, host="127.0.0.1", port=each, rack=rack, is_fenced=each in self.fenced
                )
                for each, rack in self.racks.items()
                if request.include_fenced_brokers or each not in self.fenced
            ],
        )  # fmt: skip

    def log_dirs_of(self, broker: int) -> messages.DescribeLogDirsResponse:
        kind = messages.DescribeLogDirsResponse
        topics: dict[str, dict[str, list[messages.DescribeLogDirsResponse.DescribeLogDirsPartition]]] = {}
        self._copy_between_directories(broker)
        for key, part in sorted(self.parts.items()):
            if broker in part.all_replicas:
                size = part.copied.get(broker, part.size)
                shown = kind.DescribeLogDirsPartition(partition_index=key.partition, partition_size=size)
                path = self.places.get((broker, key), self.paths[0])
                topics.setdefault(path, {}).setdefault(key.topic, []).append(shown)
            if (future := self.futures.get((broker, key))) is not None:
                copy = kind.DescribeLogDirsPartition(
                    partition_index=key.partition, partition_size=future[1], offset_lag=7, is_future_key=True
                )
                topics.setdefault(future[0], {}).setdefault(key.topic, []).append(copy)
        cordoned = self.configs.get((BROKER, str(broker)), {}).get("cordoned.log.dirs", "").split(",")
        # With several directories each has a volume of its own.
        sizes = {path: sum(part.partition_size for parts in found.values() for part in parts)
                 for path, found in topics.items()}  # fmt: skip
        total = 1_000 if len(self.paths) == 1 else 10_000
        return kind(
            results=[
                kind.DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=path)
                if (broker, path) in self.offline_paths
                else kind.DescribeLogDirsResult(
                    log_dir=path,
                    topics=[
                        kind.DescribeLogDirsTopic(name=name, partitions=parts)
                        for name, parts in topics.get(path, {}).items()
                    ],
                    total_bytes=total,
                    usable_bytes=900 if total == 1_000 else total - sizes.get(path, 0),
                    is_cordoned="*" in cordoned or path in cordoned,
                )
                for path in self.paths
            ]
        )

    def _copy_between_directories(self, broker: int) -> None:
        """Let the replicas of a broker that move between directories copy, and complete those that have everything."""
        for (owner, key), (path, copied) in list(self.futures.items()):
            if owner == broker and copied >= self.parts[key].size:
                self.places[owner, key] = path
                del self.futures[owner, key]
            elif owner == broker:
                self.futures[owner, key] = (path, min(self.parts[key].size, copied + self.step_bytes))

    def on_AlterReplicaLogDirs(
        self, request: messages.AlterReplicaLogDirsRequest, broker: int
    ) -> messages.AlterReplicaLogDirsResponse:
        kind = messages.AlterReplicaLogDirsResponse
        results: dict[str, list[Any]] = {}
        for each in request.dirs:
            for topic in each.topics:
                for number in topic.partitions:
                    code = self._move_to_directory(broker, TopicPartition(topic.name, number), each.path)
                    result = kind.AlterReplicaLogDirPartitionResult(partition_index=number, error_code=code)
                    results.setdefault(topic.name, []).append(result)
        return kind(
            results=[
                kind.AlterReplicaLogDirTopicResult(topic_name=name, partitions=found) for name, found in results.items()
            ]
        )

    def _move_to_directory(self, broker: int, key: TopicPartition, path: str) -> ErrorCode:
        if path not in self.paths:
            return ErrorCode.LOG_DIR_NOT_FOUND
        if (broker, path) in self.offline_paths:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if key not in self.parts or broker not in self.parts[key].all_replicas:
            self.places[broker, key] = path  # remembered until the replica exists
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if path == self.places.get((broker, key), self.paths[0]):
            self.futures.pop((broker, key), None)
        else:
            self.futures[broker, key] = (path, 0)
        return ErrorCode.NONE

    def copy_some(self) -> None:
        """Let every moving replica copy, and complete those that have everything."""
        for part in self.parts.values():
            if part.target is None:
                continue
            for broker in part.copied:
                part.copied[broker] = min(part.size, part.copied[broker] + self.step_bytes)
            if all(done >= part.size for done in part.copied.values()):
                part.replicas, part.isr, part.target, part.copied = part.target, part.target, None, {}
                part.leader = part.leader if part.leader in part.replicas else part.replicas[0]

    def on_AlterPartitionReassignments(
        self, request: messages.AlterPartitionReassignmentsRequest
    ) -> messages.AlterPartitionReassignmentsResponse:
        kind = messages.AlterPartitionReassignmentsResponse
        answers = []
        for topic in request.topics:
            results = []
            for each in topic.partitions:
                code = self._move(TopicPartition(topic.name, each.partition_index), each.replicas)
                results.append(
                    kind.ReassignablePartitionResponse(partition_index=each.partition_index, error_code=code)
                )
            answers.append(kind.ReassignableTopicResponse(name=topic.name, partitions=results))
        self.moving_most = max(self.moving_most, sum(each.target is not None for each in self.parts.values()))
        return kind(responses=answers)

    def _move(self, key: TopicPartition, replicas: list[int] | None) -> ErrorCode:
        part = self.parts.get(key)
        if part is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if replicas is None:
            if part.target is None:
                return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            # As in Kafka: the order of the union is kept.
            part.replicas = tuple(each for each in part.all_replicas if each in part.replicas)
            part.target, part.copied = None, {}
            return ErrorCode.NONE
        if not set(replicas) <= set(self.racks):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        part.target = tuple(replicas)
        part.copied = {each: 0 for each in replicas if each not in part.replicas}
        if not part.copied:
            part.replicas, part.target = part.target, None
        return ErrorCode.NONE

    def on_ListPartitionReassignments(
        self, request: messages.ListPartitionReassignmentsRequest
    ) -> messages.ListPartitionReassignmentsResponse:
        kind = messages.ListPartitionReassignmentsResponse
        if (code := self.refuse.get(ApiKey.LIST_PARTITION_REASSIGNMENTS)) is not None:
            return kind(error_code=code)
        self.copy_some()
        return kind(
            topics=[
                kind.OngoingTopicReassignment(
                    name=key.topic,
                    partitions=[
                        kind.OngoingPartitionReassignment(
                            partition_index=key.partition,
                            replicas=list(part.all_replicas),
                            adding_replicas=list(part.copied),
                            removing_replicas=[each for each in part.replicas if each not in part.target],
                        )
                    ],
                )
                for key, part in self.parts.items()
                if part.target is not None
            ]
        )

    def on_DescribeConfigs(self, request: messages.DescribeConfigsRequest) -> messages.DescribeConfigsResponse:
        kind = messages.DescribeConfigsResponse
        results = []
        for each in request.resources:
            own = self.configs.get((each.resource_type, each.resource_name), {})
            source = DYNAMIC_BROKER if each.resource_type == BROKER else DYNAMIC_TOPIC
            entries = {name: (value, source) for name, value in own.items()}
            if each.resource_type == BROKER:
                entries.setdefault("cordoned.log.dirs", ("", 5))
                entries.setdefault("log.dirs", (",".join(self.paths), 4))
            else:
                entries.setdefault("min.insync.replicas", (str(self.min_isr), 5))
            results.append(
                kind.DescribeConfigsResult(
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[
                        kind.DescribeConfigsResourceResult(name=name, value=value, config_source=source)
                        for name, (value, source) in entries.items()
                        if each.configuration_keys is None or name in each.configuration_keys
                    ],
                )
            )
        return kind(results=results)

    def on_IncrementalAlterConfigs(
        self, request: messages.IncrementalAlterConfigsRequest
    ) -> messages.IncrementalAlterConfigsResponse:
        kind = messages.IncrementalAlterConfigsResponse
        code = self.refuse.get(ApiKey.INCREMENTAL_ALTER_CONFIGS, ErrorCode.NONE)
        for each in request.resources if code == ErrorCode.NONE and not request.validate_only else ():
            own = self.configs.setdefault((each.resource_type, each.resource_name), {})
            for change in each.configs:
                listed = [word for word in own.get(change.name, "").split(",") if word]
                given = (change.value or "").split(",")
                if change.config_operation == 1:
                    own.pop(change.name, None)
                elif change.config_operation == 0:
                    own[change.name] = change.value or ""
                else:
                    assert change.name in LISTS, f"{change.name} is no list"
                    kept = [word for word in listed if word not in given]
                    left = kept + given if change.config_operation == 2 else kept
                    own[change.name] = ",".join(left)
                    if not left:
                        del own[change.name]
        return kind(
            responses=[
                kind.AlterConfigsResourceResponse(
                    error_code=code, resource_type=each.resource_type, resource_name=each.resource_name
                )
                for each in request.resources
            ]
        )

    def on_ElectLeaders(self, request: messages.ElectLeadersRequest) -> messages.ElectLeadersResponse:
        kind = messages.ElectLeadersResponse
        results = []
        for topic in request.topic_partitions or ():
            answers = []
            for number in topic.partitions:
                part = self.parts[TopicPartition(topic.topic, number)]
                candidates = part.isr if request.election_type == 0 else part.replicas
                wanted = part.replicas[0] if request.election_type == 0 else next(iter(part.replicas))
                code = ErrorCode.NONE
                if part.leader == wanted:
                    code = ErrorCode.ELECTION_NOT_NEEDED
                elif wanted not in candidates:
                    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
                else:
                    part.leader = wanted
                answers.append(kind.PartitionResult(partition_id=number, error_code=code))
            results.append(kind.ReplicaElectionResult(topic=topic.topic, partition_result=answers))
        return kind(replica_election_results=results)

    def on_UnregisterBroker(self, request: messages.UnregisterBrokerRequest) -> messages.UnregisterBrokerResponse:
        if request.broker_id not in self.racks:
            return messages.UnregisterBrokerResponse(
                error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message="no such registration"
            )
        del self.racks[request.broker_id]
        return messages.UnregisterBrokerResponse()

    def on_DescribeQuorum(self, request: messages.DescribeQuorumRequest) -> messages.DescribeQuorumResponse:
        kind = messages.DescribeQuorumResponse
        if (code := self.refuse.get(ApiKey.DESCRIBE_QUORUM)) is not None:
            return kind(error_code=code)

        def states(replicas: list[tuple[int, UUID]], end: int) -> list[Any]:
            # The last voters of the list have the latest fetch.
            return [
                kind.ReplicaState(
                    replica_id=each,
                    replica_directory_id=directory,
                    log_end_offset=end,
                    last_fetch_timestamp=self.fetched_ms.get(each, at),
                )
                for at, (each, directory) in enumerate(replicas, 1)
            ]

        part = kind.PartitionData(
            leader_id=1, leader_epoch=5, high_watermark=90,
            current_voters=states(self.voters, 100), observers=states(self.observers, 93),
        )  # fmt: skip
        listener = kind.Listener(name="CONTROLLER", host="127.0.0.1", port=19)
        return kind(
            topics=[kind.TopicData(topic_name="__cluster_metadata", partitions=[part])],
            nodes=[kind.Node(node_id=each, listeners=[listener]) for each, _ in self.voters],
        )

    def on_AddRaftVoter(self, request: messages.AddRaftVoterRequest) -> messages.AddRaftVoterResponse:
        if request.cluster_id != "cluster":
            return messages.AddRaftVoterResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        voter = (request.voter_id, request.voter_directory_id)
        if voter in self.voters:
            return messages.AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="a voter already")
        self.voters.append(voter)
        self.observers = [each for each in self.observers if each != voter]
        return messages.AddRaftVoterResponse()

    def on_RemoveRaftVoter(self, request: messages.RemoveRaftVoterRequest) -> messages.RemoveRaftVoterResponse:
        voter = (request.voter_id, request.voter_directory_id)
        if voter not in self.voters:
            return messages.RemoveRaftVoterResponse(error_code=ErrorCode.VOTER_NOT_FOUND)
        self.voters.remove(voter)
        return messages.RemoveRaftVoterResponse()

    def on_DescribeTopicPartitions(
        self, request: messages.DescribeTopicPartitionsRequest
    ) -> messages.DescribeTopicPartitionsResponse:
        """Pages of `page` partitions."""
        kind = messages.DescribeTopicPartitionsResponse
        names = {each.name for each in request.topics}
        start = ("", 0) if request.cursor is None else (request.cursor.topic_name, request.cursor.partition_index)
        keys = [key for key in sorted(self.parts) if key.topic in names and tuple(key) >= start]
        topics: dict[str, list[Any]] = {}
        for key in keys[: self.page]:
            part = self.parts[key]
            eligible = [each for each in part.replicas if each not in part.isr] if len(part.isr) < self.min_isr else []
            shown = kind.DescribeTopicPartitionsResponsePartition(
                partition_index=key.partition, replica_nodes=list(part.replicas), isr_nodes=list(part.isr),
                eligible_leader_replicas=eligible, last_known_elr=[],
            )  # fmt: skip
            topics.setdefault(key.topic, []).append(shown)
        after = keys[self.page] if len(keys) > self.page else None
        return kind(
            topics=[
                kind.DescribeTopicPartitionsResponseTopic(name=name, partitions=parts) for name, parts in topics.items()
            ],
            next_cursor=None if after is None else kind.Cursor(topic_name=after[0], partition_index=after[1]),
        )


class FakePool:
    """Replaces client.pool.Pool."""

    has_connected = True

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster

    def adopt(self, peer: Any) -> None:
        """There are no connections."""

    def open_link(self, wanted: Any) -> Any:
        return None

    async def link(self, peer: Any, deadline: Any) -> Any:
        versions = {key: SimpleNamespace(low=0, high=high) for key, high in self.cluster.versions.items()}
        return SimpleNamespace(versions=versions, name=peer.name)

    async def ask(
        self, peer: Any, request: Message, answer: Any, deadline: Any, *, at_least: int = 0, at_most: int = 32767
    ) -> tuple[Any, int]:
        key = ApiKey(type(request).API_KEY)
        if peer.node_id in self.cluster.fenced:
            raise ClientError(Failure.UNREACHABLE, "it is away", broker=peer.name, api="connect")
        self.cluster.before_request()
        # Other tasks run while a request is in flight.
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        if key not in self.cluster.versions:
            raise ClientError(Failure.UNSUPPORTED, f"no {key.name}", broker=peer.name)
        version = min(self.cluster.versions[key], at_most)
        assert version >= at_least
        got = codec.decode(type(request), version, codec.encode(request, version))
        if isinstance(got, messages.DescribeLogDirsRequest):
            self.cluster.asked.append(got)
            reply: Message = self.cluster.log_dirs_of(peer.node_id)
        elif isinstance(got, messages.AlterReplicaLogDirsRequest):
            self.cluster.asked.append(got)
            reply = self.cluster.on_AlterReplicaLogDirs(got, peer.node_id)
        else:
            reply = self.cluster.answer(got)
        return codec.decode(answer, version, codec.encode(reply, version)), version

    async def close(self) -> None:
        """There is nothing to close."""
