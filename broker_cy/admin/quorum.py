"""The metadata quorum: its leader, voters and observers, and changes of its voters (KIP-595, KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from broker_cy.admin.address import Address
from broker_cy.admin.caller import Caller
from broker_cy.admin.cluster import UPGRADE, finalize_features
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.core.classes import NamedTuple, dataclass
from broker_cy.core.uuid import to_text
from broker_cy.wire import messages

_METADATA_TOPIC = "__cluster_metadata"
KRAFT_VERSION = "kraft.version"
_NO_DIRECTORY = to_text(UUID(int=0))
# A voter fetches at least each 500 ms, and gives its leader up after controller.quorum.fetch.timeout.ms (2 s).
AWAY_MS = 10_000


class QuorumEndpoint(NamedTuple):
    """A listener of a controller for other nodes of the quorum."""

    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.listener}://{Address(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A voter or observer of the metadata log. Times are ms since 1970, None if unknown; `endpoints` are known for
    voters, if the broker reports them (DescribeQuorum 2).
    """

    replica_id: int
    directory_id: str
    log_end_offset: int
    lag: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None
    endpoints: tuple[QuorumEndpoint, ...] = ()

    @property
    def has_directory(self) -> bool:
        """Whether its directory id is known; that of a voter which a configuration file lists is not."""
        return self.directory_id != _NO_DIRECTORY


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The metadata quorum: leader, and how far each of its replicas is behind it, in records."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]

    @property
    def away(self) -> tuple[int, ...]:
        """The voters that the leader has not heard from for AWAY_MS, or not since it was elected; none without a
        leader. Times are of the leader's clock, which shows itself as heard from now.
        """
        (now_ms, *_) = [each.last_fetch_ms for each in self.voters if each.replica_id == self.leader_id] or [None]
        if now_ms is None:
            heard = (each.last_fetch_ms for each in (*self.voters, *self.observers) if each.last_fetch_ms is not None)
            now_ms = max(heard, default=0)
        return tuple(
            each.replica_id
            for each in self.voters
            if 0 <= self.leader_id != each.replica_id
            and (each.last_fetch_ms is None or now_ms - each.last_fetch_ms > AWAY_MS)
        )

    @property
    def spare(self) -> int:
        """How many voters the quorum can lose in addition to those that are away."""
        return max(0, len(self.voters) - len(self.away) - (len(self.voters) // 2 + 1))


class QuorumCalls:
    """`client.quorum`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def describe(self) -> QuorumDescription:
        """The metadata quorum. Raises ClientError, UNSUPPORTED if the broker does not report it."""
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
        endpoints = {
            node.node_id: tuple(QuorumEndpoint(each.name, each.host, each.port) for each in node.listeners)
            for node in answer.nodes
        }
        return QuorumDescription(
            part.leader_id,
            part.leader_epoch,
            part.high_watermark,
            tuple(_replica(each, end, endpoints.get(each.replica_id, ())) for each in part.current_voters),
            tuple(_replica(each, end, endpoints.get(each.replica_id, ())) for each in part.observers),
        )

    async def add_voter(self, voter_id: int, directory_id: UUID, endpoints: Iterable[QuorumEndpoint]) -> None:
        """Make the observer with this id and metadata directory a voter, which the others reach at `endpoints`.

        Returns when the change is committed. Raises ClientError: DUPLICATE_VOTER, UNSUPPORTED_VERSION with voters
        that the configuration file lists (kraft.version 0), REQUEST_TIMED_OUT if the observer is too far behind.
        """
        deadline = self._caller.deadline()
        request = messages.AddRaftVoterRequest(
            cluster_id=await self._cluster_id(),
            timeout_ms=deadline.left_ms,
            voter_id=voter_id,
            voter_directory_id=directory_id,
            listeners=[
                messages.AddRaftVoterRequest.Listener(name=each.listener, host=each.host, port=each.port)
                for each in endpoints
            ],
        )
        await self._caller.ask(
            request,
            messages.AddRaftVoterResponse,
            lambda got: problem_of(got.error_code, got.error_message),
            controller=True,
            deadline=deadline,
            what=f"voter {voter_id}",
        )

    async def remove_voter(self, voter_id: int, directory_id: UUID) -> None:
        """Make the voter with this id and metadata directory an observer. Returns when the change is committed. Raises
        ClientError: VOTER_NOT_FOUND, UNSUPPORTED_VERSION as `add_voter`.
        """
        request = messages.RemoveRaftVoterRequest(
            cluster_id=await self._cluster_id(), voter_id=voter_id, voter_directory_id=directory_id
        )
        await self._caller.ask(
            request,
            messages.RemoveRaftVoterResponse,
            lambda got: problem_of(got.error_code, got.error_message),
            controller=True,
            what=f"voter {voter_id}",
        )

    async def upgrade(self, kraft_version: int) -> None:
        """Finalize a kraft.version. Returns when that is committed. Raises ClientError: INVALID_UPDATE_VERSION if a
        node does not support it, or is not known to.
        """
        await finalize_features(self._caller, [(KRAFT_VERSION, kraft_version, UPGRADE)], KRAFT_VERSION)

    async def _cluster_id(self) -> str | None:
        """The id that the brokers compare with their own, so that no other cluster is changed by mistake."""
        await self._caller.metadata.refresh((), self._caller.deadline())
        return self._caller.metadata.cluster_id


def _quorum_problem(answer: messages.DescribeQuorumResponse) -> Problem | None:
    problem = problem_of(answer.error_code, answer.error_message)
    for topic in answer.topics:
        for part in topic.partitions:
            problem = problem or problem_of(part.error_code, part.error_message)
    return problem


def _replica(
    each: messages.DescribeQuorumResponse.ReplicaState, leader_end: int, endpoints: tuple[QuorumEndpoint, ...]
) -> QuorumReplica:
    return QuorumReplica(
        each.replica_id,
        to_text(each.replica_directory_id),
        each.log_end_offset,
        max(0, leader_end - each.log_end_offset),
        None if each.last_fetch_timestamp < 0 else each.last_fetch_timestamp,
        None if each.last_caught_up_timestamp < 0 else each.last_caught_up_timestamp,
        endpoints,
    )
