"""Requests to the active controller do not wait for a former one, nor heartbeats for other requests."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from broker_cy.client.address import Address
from broker_cy.client.outgoing import MACHINE
from broker_cy.client.pool import REQUESTS_MAX, Peer, Pool
from broker_cy.control.link import envelope
from broker_cy.control.link.controller_link import ControllerLink
from broker_cy.control.quorum.quorum_opening import open_network
from broker_cy.quorum.entries import OffsetAndEpoch
from broker_cy.quorum.messages import vote_request
from broker_cy.quorum.step import Send
from broker_cy.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from broker_cy.wire import codec, frame, messages
from broker_cy.wire.api_keys import ApiKey
from tests.broker_cy.handlers.metadata_broker import MetadataBroker

WAIT_S = 60.0
ROLES = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
}
OWN, FROZEN, NEXT = 1, 2, 3


class Nodes:
    """A pool whose node FROZEN never answers."""

    def __init__(self) -> None:
        self.asked: list[int | None] = []

    async def ask(self, peer: Peer, request: Any, answer: type[Any], deadline: Any) -> tuple[Any, int]:
        self.asked.append(peer.node_id)
        if peer.node_id == FROZEN:
            await asyncio.Event().wait()
        return answer(), 0


def test_what_waits_for_a_frozen_controller_goes_to_the_next_one() -> None:
    """If this fails, heartbeats and in-sync sets wait for the timeout of a request although there is another leader."""

    async def work() -> None:
        nodes = Nodes()
        leader = FROZEN
        pool = cast(Pool, nodes)
        link = ControllerLink(OWN, pool, pool, lambda: leader, lambda node: Address("host", 9000 + node))
        asking = asyncio.ensure_future(
            link.ask(messages.BrokerHeartbeatRequest(), messages.BrokerHeartbeatResponse, WAIT_S)
        )
        async with asyncio.timeout(WAIT_S / 2):
            while not nodes.asked:
                await asyncio.sleep(0)
            # None is known for a while.
            leader = -1
            link.leader_changed()
            await asyncio.sleep(0)
            leader = NEXT
            link.leader_changed()
            found = await asking
            assert isinstance(found, messages.BrokerHeartbeatResponse)
            assert nodes.asked == [FROZEN, NEXT]
            leader = OWN
            assert await link.ask(messages.BrokerHeartbeatRequest(), messages.BrokerHeartbeatResponse, WAIT_S) is None

    asyncio.run(work())


class InOrder:
    """A pool with one connection: its controller answers in the order of the requests, an Envelope when it may."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.asked: list[type[Any]] = []
        self._connections: dict[Peer, asyncio.Lock] = {}

    async def ask(self, peer: Peer, request: Any, answer: type[Any], deadline: Any) -> tuple[Any, int]:
        self.asked.append(type(request))
        async with self._connections.setdefault(peer, asyncio.Lock()):
            if isinstance(request, messages.EnvelopeRequest):
                await self.may_answer.wait()
                data = envelope.response_data(ApiKey.ADD_RAFT_VOTER, 0, 0, messages.AddRaftVoterResponse())
                return answer(response_data=data), 0
            return answer(), 0


def test_a_heartbeat_does_not_wait_behind_a_request_of_a_client() -> None:
    """If this fails, a broker that forwards a long request, such as one for a new voter, is fenced in the meantime."""

    async def work() -> None:
        nodes, others = InOrder(), InOrder()
        link = ControllerLink(
            OWN, cast(Pool, others), cast(Pool, nodes), lambda: NEXT, lambda node: Address("host", 9000 + node)
        )
        client = SimpleNamespace(
            api_key=ApiKey.ADD_RAFT_VOTER,
            version=0,
            client_id=None,
            client_host="127.0.0.1",
            principal="User:a",
            by_token=False,
        )
        request = messages.AddRaftVoterRequest(voter_directory_id=UUID(int=1))
        forwarding = asyncio.ensure_future(
            link.forward(cast(envelope.Asked, client), request, messages.AddRaftVoterResponse, WAIT_S)
        )
        async with asyncio.timeout(WAIT_S / 2):
            while not nodes.asked:
                await asyncio.sleep(0)
            beat = await link.ask(messages.BrokerHeartbeatRequest(), messages.BrokerHeartbeatResponse, WAIT_S)
            assert isinstance(beat, messages.BrokerHeartbeatResponse)
            assert not forwarding.done()
            nodes.may_answer.set()
            assert isinstance(await forwarding, messages.AddRaftVoterResponse)

    asyncio.run(work())


class Silent:
    """A controller that hangs after it has answered ApiVersions, and the requests that it has received."""

    def __init__(self) -> None:
        self.envelopes = 0
        self.votes = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                request = await reader.readexactly(size)
                key, version, correlation_id, _, _ = frame.parse_request_header(request)
                self.envelopes += key == ApiKey.ENVELOPE
                self.votes += key == ApiKey.VOTE
                if key == ApiKey.API_VERSIONS:
                    served = messages.ApiVersionsResponse.ApiVersion
                    answer: Any = messages.ApiVersionsResponse(
                        api_keys=[
                            served(api_key=each, min_version=0, max_version=frame.api_versions(each)[1])
                            for each in (ApiKey.API_VERSIONS, ApiKey.ENVELOPE, ApiKey.VOTE)
                        ]
                    )
                else:
                    continue
                body = struct.pack(">i", correlation_id) + codec.encode(answer, version)
                writer.write(struct.pack(">i", len(body)) + body)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def test_a_vote_does_not_wait_for_a_flood_of_forwarded_requests(tmp_path: Path) -> None:
    """If this fails, clients that ask for changes while the active controller stands still prevent the election of
    another one, and heartbeats.
    """

    async def work() -> None:
        silent = Silent()
        server = await asyncio.start_server(silent.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = {"controller.quorum.voters": f"1@127.0.0.1:1,2@127.0.0.1:{port}"}
        config = MetadataBroker(tmp_path, {**ROLES, **settings}).config
        voters = VoterSet(
            [Voter(ReplicaKey(each), (Endpoint("CONTROLLER", "127.0.0.1", port),)) for each in (OWN, FROZEN)]
        )
        me, other = voters.get(OWN), voters.get(FROZEN)
        assert me is not None
        assert other is not None
        quorum = SimpleNamespace(leader_id=FROZEN, endpoints=lambda node: other.endpoints)
        loop = asyncio.get_running_loop()
        reach = open_network(config, me, "id", cast(Any, quorum), cast(Any, None), loop, MACHINE, None)
        reach.network.open(cast(Any, SimpleNamespace(take=lambda event: None)))
        client = SimpleNamespace(
            api_key=ApiKey.CREATE_TOPICS,
            version=7,
            client_id=None,
            client_host="127.0.0.1",
            principal="User:a",
            by_token=False,
        )
        flood = [
            asyncio.ensure_future(
                reach.link.forward(
                    cast(envelope.Asked, client), messages.CreateTopicsRequest(), messages.CreateTopicsResponse, WAIT_S
                )
            )
            for _ in range(2 * REQUESTS_MAX)
        ]
        async with asyncio.timeout(WAIT_S / 2):
            while not silent.envelopes:
                await asyncio.sleep(0.001)
            vote = vote_request(ReplicaKey(1), 2, OffsetAndEpoch(0, 0), pre_vote=False)
            reach.network.send(Send(FROZEN, vote))
            while not silent.votes:
                await asyncio.sleep(0.001)
        for each in flood:
            each.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        await reach.network.close()
        for pool in reach.pools:
            await pool.close()
        server.close()
        await server.wait_closed()

    asyncio.run(work())
