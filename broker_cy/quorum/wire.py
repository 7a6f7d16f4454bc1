"""The messages of the quorum at the edge of a node, as Kafka 4.3.1 speaks them: Vote 0-2, BeginQuorumEpoch 0-1,
EndQuorumEpoch 0-1, Fetch 12-18, FetchSnapshot 0-1, AddRaftVoter 0-1, RemoveRaftVoter 0 and UpdateRaftVoter 0. Pure
functions that check the messages of other nodes, and complete those of this node for the version of a connection.

A request from another cluster, or about another partition, does not reach the state machine: `sender_of` raises Refused
with the response to send. The machine checks all that depends on its state (epochs, roles).
"""

from __future__ import annotations

from typing import Any, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.quorum.messages import address_on, endpoints_of, leader_of, part_of
from broker_cy.quorum.voters import ReplicaKey
from broker_cy.wire import messages as wire
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message
from broker_cy.wire.frame import response_class

VERSIONS: Final = {
    ApiKey.VOTE: (0, 2),
    ApiKey.BEGIN_QUORUM_EPOCH: (0, 1),
    ApiKey.END_QUORUM_EPOCH: (0, 1),
    # Older versions do not have the epoch of the last entry, which a replica of the quorum must send.
    ApiKey.FETCH: (12, 18),
    ApiKey.FETCH_SNAPSHOT: (0, 1),
    ApiKey.ADD_RAFT_VOTER: (0, 1),
    ApiKey.REMOVE_RAFT_VOTER: (0, 0),
    ApiKey.UPDATE_RAFT_VOTER: (0, 0),
}
"""The versions of the requests that nodes of the quorum send."""
PRE_VOTE_VERSION: Final = 2
"""A receiver of an older Vote knows no pre-votes, and treats one as a vote."""
# The versions of Fetch from which on a request has ReplicaState, and a response the addresses of leaders.
_REPLICA_STATE_SINCE: Final = 15
_FETCH_ENDPOINTS_SINCE: Final = 17


class Identity(NamedTuple):
    """This node: its cluster, its key, and the name of the controller listener that nodes of the quorum use."""

    cluster_id: str
    replica: ReplicaKey
    listener: str


class Refused(Exception):
    """The request is answered with `response`; the state machine does not see it."""

    def __init__(self, response: Message, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.response = response
        self.error = error


# --- checks


def is_strange(me: Identity, cluster_id: str | None) -> bool:
    """Whether a request comes from another cluster. Kafka does not insist on a cluster id."""
    return cluster_id is not None and cluster_id != me.cluster_id


def sender_of(me: Identity, request: Any) -> int:
    """The id of the node that sent the request, -1 if it names none. Raises Refused."""
    if is_strange(me, request.cluster_id):
        raise _refused(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
    if isinstance(request, wire.UpdateRaftVoterRequest):
        # The machine checks the rest of the voter.
        if request.voter_id < 0 or address_on(endpoints_of(request.listeners), me.listener) is None:
            raise _refused(request, ErrorCode.INVALID_REQUEST)
        return request.voter_id
    part = part_of(request)
    if part is None:
        raise _refused(request, ErrorCode.INVALID_REQUEST)
    if isinstance(request, wire.FetchRequest):
        return request.replica_id if request.replica_id >= 0 else request.replica_state.replica_id
    holder: Any = request if isinstance(request, wire.FetchSnapshotRequest) else part
    found: int = holder.replica_id if hasattr(holder, "replica_id") else holder.leader_id
    return found


def _refused(request: Any, error: ErrorCode) -> Refused:
    response: Any = response_class(request.API_KEY)
    return Refused(response(error_code=error), error)


def check_response(response: Any) -> None:
    """Raise KafkaError with the error of a response that is about the request as a whole, such as
    INCONSISTENT_CLUSTER_ID. The machine reads all others.
    """
    if isinstance(response, (wire.AddRaftVoterResponse, wire.RemoveRaftVoterResponse)):
        return
    if isinstance(response, wire.UpdateRaftVoterResponse):
        leader_of(response, "")
    elif response.error_code or part_of(response) is None:
        # A response without the requested part has no result.
        code = ErrorCode(response.error_code or ErrorCode.UNKNOWN_SERVER_ERROR)
        raise KafkaError(code, f"{type(response).__name__} has no result")


def error_of(response: Any) -> ErrorCode:
    """The error of a response that `check_response` has accepted."""
    whole = (wire.UpdateRaftVoterResponse, wire.AddRaftVoterResponse, wire.RemoveRaftVoterResponse)
    return ErrorCode((response if isinstance(response, whole) else part_of(response)).error_code)


# --- versions


def fit_request(me: Identity, request: Any, version: int) -> None:
    """Complete a request of this node for `version`. It may be called again with another version."""
    request.cluster_id = me.cluster_id
    if isinstance(request, wire.FetchRequest):
        has_state = version >= _REPLICA_STATE_SINCE
        request.replica_id = -1 if has_state else me.replica.id
        request.replica_state = wire.FetchRequest.ReplicaState(replica_id=me.replica.id if has_state else -1)
    elif isinstance(request, wire.AddRaftVoterRequest):
        # Before version 1 the response follows the commit, which the new voter itself has to acknowledge.
        request.ack_when_committed = version < 1


def fit_response(response: Any, version: int) -> None:
    """Drop the address of the leader from a response if `version` does not have it."""
    since = _FETCH_ENDPOINTS_SINCE if isinstance(response, wire.FetchResponse) else 1
    if version < since and not isinstance(response, wire.UpdateRaftVoterResponse):
        response.node_endpoints = []
