"""Requests to the active controller do not wait for one that is gone."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from broker_cy.client.address import Address
from broker_cy.client.pool import Peer, Pool
from broker_cy.server.metadata.controller_link import ControllerLink
from broker_cy.wire import messages

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
