"""A node does not go into service at an address that is certainly unreachable.

Other nodes and clients connect to the addresses in `advertised.listeners`. With a wrong port there, a broker is a
member of the cluster and leads partitions that no client can read. So a broker whose advertised address differs from
that of its listener connects to itself there, after it is registered and before it is in service:

    accepted                                    the address works; a proxy that listens there is trusted
    refused, by this machine itself             after REFUSED_S certain: no process listens there; the broker ends
    refused by another machine, no answer,      decides nothing, and is logged: behind a NAT or in a container a node
    an unknown name                             often does not reach itself under the address that others use

Only the listener between brokers is checked, and only while another broker is registered: clients may reach a single
node in a container through a port that this machine does not have. `broker_watch` handles addresses that other nodes
find unreachable later.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from broker_cy.client.address import Address
from broker_cy.client.connection import ConnectionFailed, ConnectionRefused, TimedOut, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.client.outgoing import Outgoing
from broker_cy.control.membership.registration_refused import RegistrationRefused
from broker_cy.core.logs import facts

LOGGER = logging.getLogger("broker_cy.server.metadata")

# How long a start waits at most for an address that does not answer.
CONNECT_S: Final = 1.0
# A proxy may start after the broker: connections must be refused for REFUSED_S, one each AGAIN_S.
REFUSED_S: Final = 10.0
AGAIN_S: Final = 0.25


async def check_own_address(
    listener: str, advertised: Address, listens: Address, outgoing: Outgoing, *, has_others: bool
) -> None:
    """`listener` is the name of the listener between brokers; the node `listens` and is `advertised` at these
    addresses. `has_others`: another broker is registered. Raises RegistrationRefused.
    """
    if advertised == listens:
        return
    deadline_s = asyncio.get_running_loop().time() + REFUSED_S
    is_noted = False
    while (problem := await _problem(advertised, outgoing)) is not None:
        reason = str(problem) or f"no answer within {CONNECT_S:g} s"
        is_certain = isinstance(problem, ConnectionRefused) and has_others and await outgoing.is_own(advertised.host)
        if not is_certain:
            break
        if asyncio.get_running_loop().time() > deadline_s:
            raise RegistrationRefused(
                f"listener {listener} is advertised at {advertised}, and this machine refuses connections there: "
                f"{reason}. The broker listens at {listens}. Correct advertised.listeners, or let that port lead to "
                "the broker for connections of this machine as well. The broker stays fenced; nothing is lost"
            )
        if not is_noted:
            is_noted = True
            LOGGER.warning(
                "this broker is registered, and still fenced: no process listens at the address that it advertises",
                extra=facts(listener=listener, address=advertised, seconds_max=REFUSED_S),
            )
        await asyncio.sleep(AGAIN_S)
    else:
        return
    LOGGER.error(
        "this node does not reach itself at the address that it advertises",
        extra=facts(
            listener=listener,
            address=advertised,
            reason=reason,
            remedy="correct advertised.listeners, unless other nodes and clients reach it there (NAT, containers)",
        ),
    )


async def _problem(address: Address, outgoing: Outgoing) -> Exception | None:
    """Why a connection fails; None if it does not."""
    try:
        connection = await open_connection(address, "broker-cy-self", Deadline(CONNECT_S), outgoing)
    except (ConnectionFailed, TimedOut) as error:
        return error
    # uvloop writes at the end of a turn: closed sooner, the last message of a TLS handshake would be lost, and the
    # listener would report a handshake that failed.
    await asyncio.sleep(0)
    connection.close()
    return None
