"""Requests to the active controller do not wait for one that is gone, nor heartbeats for other requests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from broker_cy.client.address import Address
from broker_cy.client.pool import Peer, Pool
from broker_cy.server import envelope
from broker_cy.server.metadata.controller_link import ControllerLink
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

WAIT_S = 60.0
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
        link = ControllerLink(OWN, cast(Pool, nodes), lambda: leader, lambda node: Address("host", 9000 + node))
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
    """A pool whose controller answers the requests of one connection in their order, and an Envelope when it may."""

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
    """If this fails, a broker that forwards a long request, as that for a new voter, is fenced meanwhile."""

    async def work() -> None:
        nodes = InOrder()
        link = ControllerLink(OWN, cast(Pool, nodes), lambda: NEXT, lambda node: Address("host", 9000 + node))
        client = SimpleNamespace(
            api_key=ApiKey.ADD_RAFT_VOTER, version=0, client_id=None, client_host="127.0.0.1", principal="User:a"
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
