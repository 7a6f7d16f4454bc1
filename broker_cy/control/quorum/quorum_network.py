"""The messages of the metadata quorum on the network: requests to other nodes, and the requests that they send.

A node has at most one request of each kind on its way to another node; while it waits for the response, only the newest
further one is kept, because it replaces the older ones. An undelivered request is repeated as long as the machine waits
for its response. Fetches have a connection of their own: they wait at the leader.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from broker_cy.client.address import Address
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.pool import Peer, Pool, common_version
from broker_cy.core.errors import ErrorCode, KafkaError, WireError
from broker_cy.core.log_limits import RateLimit
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.metadata.features import KRAFT_VERSION
from broker_cy.metadata.snapshot import SnapshotId
from broker_cy.quorum import wire, wire_admin, wire_log
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.messages import FETCH_BYTES_MAX, failed, part_of, vote_request, vote_response
from broker_cy.quorum.step import BOOTSTRAP, AddVoter, Received, Role, Send
from broker_cy.quorum.voters import ReplicaKey
from broker_cy.storage.cold_lookup import look_up
from broker_cy.wire import frame, messages
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from broker_cy.control.quorum.metadata_log import MetadataLog
    from broker_cy.control.quorum.quorum_driver import QuorumDriver
    from broker_cy.core.clock import Clock
    from broker_cy.quorum.entries import Batch
    from broker_cy.wire.codec import Message

LOGGER = logging.getLogger("broker_cy.server.metadata")

# Between two attempts to reach a node.
RETRY_S: Final = 0.05
# The longest wait of an AddRaftVoter, even if it asks for more.
ADD_VOTER_MS_MAX: Final = 60_000

CLIENTS_LISTENER: Final = (
    "this is a listener for clients: use the address of a listener that controller.listener.names of that node names"
)

REMEDY: Final = (
    "if no controller is to listen there, correct controller.quorum.bootstrap.servers or controller.quorum.voters; "
    "else start that controller, and see that this host can connect to it"
)

# The errors of a node that does not have the sender among its voters.
_OTHER_VOTERS: Final = frozenset({ErrorCode.INCONSISTENT_VOTER_SET, ErrorCode.VOTER_NOT_FOUND})


class QuorumNetwork:
    """The driver's NetworkChannel. `answer` takes the requests of other nodes."""

    def __init__(
        self,
        me: wire.Identity,
        address_of: Callable[[int], Address | None],
        pool: Pool,
        loop: asyncio.AbstractEventLoop,
        request_ms: int,
        files: MetadataLog,
        clock: Clock,
        own: frozenset[Address] = frozenset(),
        executor: Executor | None = None,
    ) -> None:
        """`address_of` returns the address of a node, or of a bootstrap server by its negative id. `request_ms` is how
        long the machine waits for a response. `own` are this node's addresses for other nodes. `executor` reads data
        that is not in memory, and snapshots; None: the loop's default one.
        """
        self._me = me
        self._own = own
        self.address_of = address_of
        self._pool = pool
        self.loop = loop
        self.cold_reader = executor
        self._request_s = request_ms / 1000
        self._files = files
        self._driver: QuorumDriver
        self._newest: dict[tuple[int, type[Message]], Send] = {}
        self._tasks: dict[tuple[int, type[Message]], asyncio.Task[None]] = {}
        self._reported: dict[int, str] = {}  # by node: why it gave no answer that helps, as it was logged
        self._unreached: set[int] = set()  # of these, the nodes that gave none
        self._is_known = False  # a node with this cluster's id has answered
        self.start_failure: asyncio.Future[str] = loop.create_future()
        """Done once this node cannot take part: the reason and the remedy. Another node reports that this one is not
        part of its cluster, or this node's disk failed.
        """
        self._strangers = RateLimit(clock)

    def open(self, driver: QuorumDriver) -> None:
        self._driver = driver

    @property
    def unreached(self) -> str:
        """The addresses that the last attempt did not reach, with the reasons; empty if all were reached."""
        found = {str(self.address_of(node)): self._reported[node] for node in sorted(self._unreached)}
        return "; ".join(f"{address}: {reason}" for address, reason in found.items())

    async def close(self) -> None:
        """Stop sending; requests that are on their way are still delivered."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- requests of this node

    def send(self, request: Send) -> None:
        key = (request.to, type(request.message))
        self._newest[key] = request
        if key not in self._tasks:
            name = f"{type(request.message).__name__} to controller {request.to}"
            self._tasks[key] = keep_running(self.loop, lambda: self._deliver(key), name)

    async def _deliver(self, key: tuple[int, type[Message]]) -> None:
        while (request := self._newest.pop(key, None)) is not None:
            response = await self._exchange(request.to, request.message)
            if response is not None:
                message, batches = response
                self._driver.take(Received(request.to, message, request.correlation, self._me.listener, batches))
        del self._tasks[key]

    async def _exchange(self, to: int, request: Message) -> tuple[Message, tuple[Batch, ...]] | None:
        """The response, and the batches in it; None if none arrives in time, or the machine has sent a newer
        request.
        """
        deadline = Deadline(self._request_s)
        if isinstance(request, messages.RemoveRaftVoterRequest):
            key = ReplicaKey(request.voter_id, request.voter_directory_id)
            if await self._is_alive(key):
                self._fail_start(
                    key.id,
                    f"the voter {key} runs, and answers at {self.address_of(key.id)}: this node has its node.id and "
                    "another directory. Give this node a node.id and directories of its own, or stop the other",
                )
                return None
        is_first = True
        while True:
            try:
                response = await self._ask(to, request, deadline)
                batches = _batches_of(response)
            except ClientError as error:
                # A later attempt has the rest of the time, perhaps a millisecond: its end does not replace the reason.
                if is_first or error.failure is not Failure.TIMED_OUT:
                    self._not_reached(to, error.reason)
                if not error.retriable:
                    return None
            except KafkaError as error:
                self._refused_by(to, error)
                return None
            except WireError as error:
                self._not_reached(to, str(error))
                return None
            else:
                self._accepted(to, response)
                return response, batches
            if (to, type(request)) in self._newest or deadline.left_s <= RETRY_S:
                return None
            await asyncio.sleep(RETRY_S)
            is_first = False

    async def _ask(self, to: int, request: Any, deadline: Deadline) -> Message:
        address = self.address_of(to)
        if address is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"the address of controller {to} is not known")
        api_key = ApiKey(request.API_KEY)
        is_fetch = api_key in (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)
        peer = Peer(address, to if to >= 0 else None, "fetch" if is_fetch else "")
        link = await self._pool.link(peer, deadline)
        if ApiKey.VOTE not in link.versions:
            # It would answer a Fetch: with an error, as for any topic that it does not have.
            raise ClientError(Failure.UNSUPPORTED, CLIENTS_LISTENER, broker=peer.name)
        version = common_version(link, api_key, api_key.name, *wire.VERSIONS[api_key])
        if isinstance(request, messages.VoteRequest) and version < wire.PRE_VOTE_VERSION:
            vote = request.topics[0].partitions[0]
            if vote.pre_vote:
                # A node that knows no pre-votes does not object.
                return vote_response(vote.replica_epoch, -1, granted=True)
        return await self._ask_in(version, peer, request, deadline)

    async def _ask_in(self, version: int, peer: Peer, request: Any, deadline: Deadline) -> Message:
        """The response to a request that is sent in this version."""
        wire.fit_request(self._me, request, version)
        response_class = frame.response_class(request.API_KEY)
        response, _ = await self._pool.ask(peer, request, response_class, deadline, at_least=version, at_most=version)
        wire.check_response(response)
        return response

    async def _is_alive(self, voter: ReplicaKey) -> bool:
        """Whether a voter with the id of this node answers at its address. This node is to replace it because its disk
        is lost. The question is a pre-vote, which binds no node: only the node with that disk answers it as its own.
        """
        address = self.address_of(voter.id)
        if address is None or address in self._own:
            return False
        request = vote_request(
            self._me.replica, self._driver.quorum.epoch, OffsetAndEpoch(0, 0), pre_vote=True, voter=voter
        )
        peer, deadline = Peer(address, None, "voter"), Deadline(self._request_s / 2)
        try:
            response = await self._ask_in(wire.PRE_VOTE_VERSION, peer, request, deadline)
        except (ClientError, KafkaError, WireError):
            return False
        return wire.error_of(response) is ErrorCode.NONE

    def _accepted(self, to: int, response: Message) -> None:
        """A node has answered, and so it has this cluster's id."""
        self._is_known = True
        self._unreached.discard(to)
        error = wire.error_of(response)
        is_of_voter = isinstance(response, (messages.VoteResponse, messages.UpdateRaftVoterResponse))
        is_change = isinstance(response, (messages.AddRaftVoterResponse, messages.RemoveRaftVoterResponse))
        if is_of_voter and error in _OTHER_VOTERS:
            self._fail_start(
                to,
                f"the controller at {self.address_of(to)} does not have {self._me.replica} among its voters: "
                "controller.quorum.voters must be the same on all nodes; where the metadata log has the voters, "
                "controller.quorum.bootstrap.servers takes its place, and broker-cy quorum add makes a node a voter",
            )
        elif is_change and error is not ErrorCode.NONE:
            reason = getattr(response, "error_message", None) or error.name
            self._report(to, f"the leader does not make this node a voter yet: {reason}")
        else:
            self._reported.pop(to, None)

    def _refused_by(self, to: int, error: KafkaError) -> None:
        if error.code is not ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._report(to, str(error))
            return
        address = self.address_of(to)
        reason = (
            f"the controller at {address} belongs to another cluster than this node, whose directories have cluster.id "
            f"{self._me.cluster_id}: correct the address (controller.quorum.voters, controller.quorum.bootstrap."
            "servers), or use directories that were formatted with the id of that cluster"
        )
        if self._is_known:
            self._report(to, reason)
        else:
            self._fail_start(to, reason)

    def _fail_start(self, to: int, reason: str) -> None:
        self._report(to, reason)
        self.fail_start(reason)

    def fail_start(self, reason: str) -> None:
        """This node cannot take part: that ends a start that is under way."""
        if not self.start_failure.done():
            self.start_failure.set_result(reason)

    def _report(self, to: int, reason: str) -> None:
        """Log why a node is of no use, once until it is."""
        if self._is_new(to, reason):
            LOGGER.warning("could not reach a controller; will retry", extra=facts(node=to, reason=reason))

    def _not_reached(self, to: int, reason: str) -> None:
        """Log why no controller answers at the address of a node, and the remedy, once until one does."""
        address = self.address_of(to)
        # A voter may be a bootstrap server, too.
        is_known = any(self.address_of(each) == address and self._reported[each] == reason for each in self._unreached)
        self._unreached.add(to)
        if self._is_new(to, reason) and not is_known:
            known = {} if to <= BOOTSTRAP else {"node": to}
            LOGGER.warning(
                "could not reach a controller; will retry",
                extra=facts(**known, address=address, reason=reason, remedy=REMEDY),
            )

    def _is_new(self, to: int, reason: str) -> bool:
        is_new = self._reported.get(to) != reason
        self._reported[to] = reason
        return is_new

    # --- changes of the voters

    async def add(self, request: messages.AddRaftVoterRequest) -> Message:
        """The response to an AddRaftVoter, after a request to the new voter for its supported levels of kraft.version.
        Raises KafkaError if it cannot be reached.
        """
        try:
            voter = wire_admin.voter_to_add(self._me, request)
        except wire.Refused as refused:
            return refused.response
        endpoint = next(one for one in voter.endpoints if one.name == self._me.listener)
        timeout_ms = min(max(request.timeout_ms, 1), ADD_VOTER_MS_MAX)
        deadline = Deadline(timeout_ms / 1000)
        try:
            link = await self._pool.link(Peer(Address(endpoint.host, endpoint.port), voter.key.id), deadline)
        except ClientError as error:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"voter {voter.key} does not answer at {endpoint.host}:{endpoint.port} ({error}): the address must be "
                "that of its controller listener, which every other node must be able to reach",
            ) from error
        ranges = {one.name: one for one in link.api_versions.supported_features}
        found = ranges.get(KRAFT_VERSION)
        voter = voter._replace(
            min_kraft_version=found.min_version if found is not None else 0,
            max_kraft_version=found.max_version if found is not None else 0,
        )
        change = AddVoter(voter, timeout_ms, request.ack_when_committed)
        return wire_admin.add_response(await self._driver.change_voters(change))

    async def remove(self, request: messages.RemoveRaftVoterRequest) -> Message:
        """The response to a RemoveRaftVoter."""
        try:
            change = wire_admin.voter_to_remove(self._me, request)
        except wire.Refused as refused:
            return refused.response
        return wire_admin.remove_response(await self._driver.change_voters(change))

    # --- requests of other nodes

    async def _add_content(self, response: messages.FetchSnapshotResponse, max_bytes: int) -> None:
        """Add the bytes of the snapshot, which a worker reads."""
        part = response.topics[0].partitions[0]
        snapshot_id = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
        size_max = min(max_bytes, FETCH_BYTES_MAX)
        try:
            size, content = await self.loop.run_in_executor(
                self.cold_reader, self._files.read_snapshot, snapshot_id, part.position, size_max
            )
        except OSError:
            part.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
            return
        if 0 <= part.position < size:
            part.size, part.unaligned_records = size, content
        else:
            part.error_code = ErrorCode.POSITION_OUT_OF_RANGE

    def _records_from(self, offset: int) -> bytes:
        return self._files.read(offset, self._files.log.written_end_offset, FETCH_BYTES_MAX)

    async def answer(self, request: Any, version: int, listener: str) -> Message:
        """The response to a request that arrived on `listener`."""
        quorum = self._driver.quorum
        try:
            source = wire.sender_of(self._me, request)
        except wire.Refused as refused:
            self._strangers.log(
                logging.WARNING,
                "refused a request of another node of the quorum",
                request=type(request).__name__,
                reason=refused.error.name,
            )
            return refused.response
        answer = None
        if quorum.role is not Role.CLOSED:
            answer = await self._driver.ask(source, request, listener)
        if answer is None:
            # This node stops.
            response = failed(request, quorum.epoch, quorum.leader_id, ErrorCode.BROKER_NOT_AVAILABLE)
        else:
            response = answer.message
            if answer.records_from >= 0:
                records = await look_up(self, self._records_from, answer.records_from)
                part_of(response).records = records
            elif isinstance(response, messages.FetchSnapshotResponse) and wire.error_of(response) is ErrorCode.NONE:
                await self._add_content(response, request.max_bytes)
        wire.fit_response(response, version)
        return response


def _batches_of(response: Message) -> tuple[Batch, ...]:
    """The batches of a Fetch response. Raises WireError for records that are damaged."""
    if not isinstance(response, messages.FetchResponse):
        return ()
    return wire_log.batches_of(response.responses[0].partitions[0].records or b"")
