"""A node does not start while another one runs with its id as a voter.

Voters of controller.quorum.voters have no directory ids: other nodes cannot tell two nodes with one id apart, and would
count the votes and the fetches of both.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from broker_cy.client.address import Address
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError
from broker_cy.client.outgoing import Outgoing
from broker_cy.client.pool import Peer, Pool
from broker_cy.config import BrokerConfig
from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.wire import messages

# A host that is down does not answer at all; it delays the start of this node by so much.
ANSWER_S: Final = 1.0
_CONTROLLERS: Final = 2  # the endpoint type of DescribeCluster


async def refuse_same_id(config: BrokerConfig, outgoing: Outgoing) -> None:
    """Check, before this node listens, that no node answers at the address that the voters have for its id. If this
    node itself listens exactly there, binding the socket is the check. Raises RegistrationRefused.
    """
    mine = next((voter for voter in config.quorum_voters if voter.node_id == config.node_id), None)
    if mine is None or any((at.host, at.port) == (mine.host, mine.port) for at in config.network.controller_listeners):
        return
    pool = Pool("broker-cy", outgoing)
    try:
        # Another listener there, such as a proxy, does not answer as a controller.
        with suppress(ClientError):
            request = messages.DescribeClusterRequest(endpoint_type=_CONTROLLERS)
            await pool.ask(
                Peer(Address(mine.host, mine.port)), request, messages.DescribeClusterResponse, Deadline(ANSWER_S)
            )
            raise RegistrationRefused(
                f"another controller answers at {mine.host}:{mine.port}, the address of node {mine.node_id} in "
                "controller.quorum.voters: give this node a node.id and directories of its own, or stop the other one"
            )
    finally:
        await pool.close()
