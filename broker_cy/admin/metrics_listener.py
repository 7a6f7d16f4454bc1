"""Pages of the metrics listeners of brokers: facts that no Kafka API reports. The address is the setting
`brokercy.metrics.listener`; a page may need a token and TLS.
"""

from __future__ import annotations

import asyncio
import ssl
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Final

from broker_cy.admin.caller import Caller, every_broker
from broker_cy.admin.configs import ConfigCalls, ConfigResource, ResourceType
from broker_cy.client.address import Address, parse_address
from broker_cy.client.errors import ClientError
from broker_cy.client.http_exchange import Unanswered, exchange
from broker_cy.client.secrets import first_line

LISTENER: Final = "brokercy.metrics.listener"
CERTIFICATE: Final = "brokercy.metrics.ssl.certificate.file"
# The time limit for one broker: the others are shown without it.
TIMEOUT_S: Final = 2.0
ANSWER_BYTES_MAX: Final = 64 << 20
# Hosts that mean every address.
_ANY = frozenset({"", "0.0.0.0", "::"})


async def pages_of(
    caller: Caller, target: str, token_file: Path | None = None, context: ssl.SSLContext | None = None
) -> dict[int, bytes]:
    """The answers of brokers to a request with the path `target`, by node: Apache Kafka does not answer, nor a broker
    whose setting is empty, or that wants another token than the first line of `token_file`. `context`: whom to trust
    with TLS; None: whom the system trusts.
    """
    try:
        resources = [
            ConfigResource(ResourceType.BROKER, str(node)) for node in await every_broker(caller, caller.deadline())
        ]
        nodes = dict(caller.metadata.nodes)
        described = await ConfigCalls(caller).describe(resources, names=[LISTENER, CERTIFICATE])
    except ClientError:
        return {}
    found: dict[int, bytes] = {}
    asked: set[Address] = set()
    for resource, entries in described.found.items():
        values = {entry.name: entry.value for entry in entries}
        if not (value := values.get(LISTENER)):
            continue
        try:
            async with asyncio.timeout(TIMEOUT_S):
                address = parse_address(value, needs_port=True, is_listener=True)
                if address.host in _ANY:
                    address = address._replace(host=nodes[int(resource.name)].address.host)
                if address in asked:
                    continue  # the brokers of a node with shards have one listener
                asked.add(address)
                secured = (context or _system_context()) if values.get(CERTIFICATE) else None
                token = None if token_file is None else first_line(token_file).strip()
                page = await _get(address, target, token, secured)
        except (OSError, ValueError, TimeoutError, Unanswered):
            continue
        if page:
            found[int(resource.name)] = page
    return found


@cache
def _system_context() -> ssl.SSLContext:
    """The authorities of the system are read for it."""
    return ssl.create_default_context()


async def _get(address: Address, target: str, token: str | None, context: ssl.SSLContext | None) -> bytes:
    """The body of an answer 200; b"" for another one. Raises OSError, Unanswered and ValueError."""
    headers = [] if token is None else [("Authorization", f"Bearer {token}")]
    answer = await exchange(address, "GET", target, headers=headers, context=context, answer_bytes_max=ANSWER_BYTES_MAX)
    return answer.body if answer.status == HTTPStatus.OK else b""
