"""The cluster as a whole: brokers, controller, quorum, features, and the requests that a broker supports."""

from __future__ import annotations

from dataclasses import dataclass

from broker_cy.admin.caller import Caller
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.core.uuid import to_text
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

_BROKERS_ENDPOINT = 1
_METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class BrokerInfo:
    """A broker. `is_fenced`: registered, but not in service (KIP-1073); reported from DescribeCluster 2 on."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The answer of DescribeCluster. `controller_id` is the broker for changes, -1 if there is none."""

    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerInfo, ...]


@dataclass(frozen=True, slots=True)
class FeatureRange:
    """A feature: the levels that the broker supports, and the level that the cluster finalized (None: none)."""

    name: str
    supported_min: int
    supported_max: int
    finalized: int | None


@dataclass(frozen=True, slots=True)
class ApiRange:
    """An API that the broker supports, with its versions."""

    api_key: int
    name: str
    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer of the metadata log. Times are ms since 1970, None if they are not known."""

    replica_id: int
    directory_id: str
    log_end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The metadata quorum: leader, and how far each of its replicas is behind it, in records."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


class ClusterCalls:
    """`client.cluster`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(self) -> ClusterDescription:
        """Brokers, including fenced ones where the broker reports them, and the controller. Raises ClientError."""
        deadline = self._caller.deadline()
        request = messages.DescribeClusterRequest(endpoint_type=_BROKERS_ENDPOINT)
        link = await self._caller.pool.link(await self._caller.metadata.any_peer(deadline), deadline)
        offered = link.versions.get(ApiKey.DESCRIBE_CLUSTER)
        if offered is not None and offered.high >= 2:
            request.include_fenced_brokers = True
        answer = await self._caller.ask(
            request,
            messages.DescribeClusterResponse,
            lambda got: problem_of(got.error_code, got.error_message),
            deadline=deadline,
        )
        brokers = [
            BrokerInfo(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in answer.brokers
        ]
        brokers.sort(key=lambda each: each.broker_id)
        return ClusterDescription(answer.cluster_id, answer.controller_id, tuple(brokers))

    async def features(self, broker_id: int | None = None) -> tuple[FeatureRange, ...]:
        """Features of a broker (None: any), by name. Raises ClientError."""
        answer = await self._api_versions(broker_id)
        finalized = {each.name: each.max_version_level for each in answer.finalized_features}
        supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
        return tuple(
            FeatureRange(name, *supported.get(name, (0, 0)), finalized.get(name))
            for name in sorted(supported | finalized)
        )

    async def api_versions(self, broker_id: int | None = None) -> tuple[ApiRange, ...]:
        """The APIs that a broker (None: any) supports, by API key. Raises ClientError."""
        answer = await self._api_versions(broker_id)
        ranges = [
            ApiRange(each.api_key, _name_of(each.api_key), each.min_version, each.max_version)
            for each in answer.api_keys
        ]
        return tuple(sorted(ranges, key=lambda each: each.api_key))

    async def _api_versions(self, broker_id: int | None) -> messages.ApiVersionsResponse:
        # Asked for each time: finalized features change while a connection is open.
        request = messages.ApiVersionsRequest(client_software_name="broker-cy-admin", client_software_version="1")
        return await self._caller.ask(
            request, messages.ApiVersionsResponse, lambda got: problem_of(got.error_code), node_id=broker_id
        )

    async def quorum(self) -> QuorumDescription:
        """The metadata quorum (KIP-595). ClientError, UNSUPPORTED where the broker does not report it."""
        asked = messages.DescribeQuorumRequest.TopicData(
            topic_name=_METADATA_TOPIC, partitions=[messages.DescribeQuorumRequest.PartitionData(partition_index=0)]
        )
        answer = await self._caller.ask(
            messages.DescribeQuorumRequest(topics=[asked]),
            messages.DescribeQuorumResponse,
            _quorum_problem,
            controller=True,
        )
        parts = [part for topic in answer.topics for part in topic.partitions]
        if len(parts) != 1:
            raise ClientError(
                Failure.MALFORMED, f"{len(parts)} partitions are in the answer, not 1", api="DescribeQuorum"
            )
        part = parts[0]
        ends = [each.log_end_offset for each in part.current_voters if each.replica_id == part.leader_id]
        end = max(ends, default=part.high_watermark)
        return QuorumDescription(
            part.leader_id,
            part.leader_epoch,
            part.high_watermark,
            tuple(_replica(each, end) for each in part.current_voters),
            tuple(_replica(each, end) for each in part.observers),
        )


def _quorum_problem(answer: messages.DescribeQuorumResponse) -> Problem | None:
    problem = problem_of(answer.error_code, answer.error_message)
    for topic in answer.topics:
        for part in topic.partitions:
            problem = problem or problem_of(part.error_code, part.error_message)
    return problem


def _replica(each: messages.DescribeQuorumResponse.ReplicaState, leader_end: int) -> QuorumReplica:
    return QuorumReplica(
        each.replica_id,
        to_text(each.replica_directory_id),
        each.log_end_offset,
        max(0, leader_end - each.log_end_offset),
        None if each.last_fetch_timestamp < 0 else each.last_fetch_timestamp,
        None if each.last_caught_up_timestamp < 0 else each.last_caught_up_timestamp,
    )


def _name_of(api_key: int) -> str:
    """`ListOffsets` for 2; the number for an API this version does not know."""
    try:
        words = ApiKey(api_key).name.split("_")
    except ValueError:
        return str(api_key)
    return "".join(word.capitalize() for word in words)
