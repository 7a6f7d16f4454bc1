"""Changes that another instance carries out: the leader of the group (see broker_registry.election)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from broker_registry.api.requests import Answer
from broker_registry.election import FORWARDED
from broker_registry.service import Service

_FORWARDED: Final = FORWARDED.lower().encode()
# Those that the leader needs: the types of the contents, and the login of the client.
_HEADERS: Final = (b"accept", b"content-type", b"authorization")


async def forwarded(service: Service, method: str, target: str, headers: Mapping[bytes, bytes], body: bytes) -> Answer:
    """Return the answer of the leader. Waits for an election that is held now. Raises RegistryError.

    A request that was forwarded already came from an instance that had another leader: it is not passed on again.
    """
    election = service.election
    assert election is not None
    if _FORWARDED in headers:
        raise election.no_leader()
    try:
        async with asyncio.timeout(service.settings.timeout_s):
            leader = await election.known()
    except TimeoutError:
        raise election.no_leader() from None
    passed = [(name.decode(), headers[name].decode("latin-1")) for name in _HEADERS if name in headers]
    found = await election.forward(leader, method, target, passed, body)
    return Answer(status=found.status, text=found.body)
