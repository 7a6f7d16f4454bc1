"""Another cluster, as the mirrors of a link reach it: its address and login in a file, its metadata, and connections to
its brokers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker_cy.client.address import Address, parse_addresses
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.pool import Peer, Pool, common_version
from broker_cy.client.security import PREFIXES, ClientSecurity, security_of
from broker_cy.core.config_def.types import ConfigError
from broker_cy.core.properties import read_properties_file
from broker_cy.replication.broker_links import CONNECT_S, BrokerLink
from broker_cy.replication.links import Asking, LinkFailed
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    import ssl

    from broker_cy.client.connection import Connection
    from broker_cy.client.outgoing import Outgoing

BOOTSTRAP: Final = "bootstrap.servers"
ANSWER_S: Final = 10.0
# Topics of one request.
TOPICS_MAX: Final = 500
# The versions of Metadata and Fetch with topic ids: Apache Kafka 3.1 and later.
METADATA_VERSION_MIN: Final = 10
FETCH_VERSION_MIN, FETCH_VERSION_MAX = 13, 17


class LinkSettings(NamedTuple):
    """The file of a link."""

    bootstrap: tuple[Address, ...]
    security: ClientSecurity


def read_link(directory: str | None, name: str) -> LinkSettings:
    """Read the file of a link. Blocks. Raises ClientError."""
    if directory is None:
        raise ClientError(Failure.INVALID, f"link {name} needs brokercy.mirror.links.dir, the directory with its file")
    path = Path(directory) / f"{name}.properties"
    try:
        settings = read_properties_file(path)
        addresses = parse_addresses(settings.get(BOOTSTRAP, ""))
    except ConfigError as error:
        raise ClientError(Failure.INVALID, str(error)) from None
    except ValueError as error:
        raise ClientError(Failure.INVALID, f"{path}: {BOOTSTRAP}: {error}") from None
    login = {each: text for each, text in settings.items() if each.startswith(PREFIXES)}
    return LinkSettings(addresses, security_of(login, str(path)))


def _same(context: ssl.SSLContext) -> ssl.SSLContext:
    return context


class MirrorLink(BrokerLink):
    """A connection to a broker of the source, which knows this version of Fetch: requests are of this version."""

    def __init__(self, connection: Connection, fetch_version: int) -> None:
        super().__init__(connection)
        self.fetch_version = fetch_version

    def ask(self, api_key: int, version: int, body: bytes, asking: Asking) -> None:
        super().ask(api_key, self.fetch_version if api_key == ApiKey.FETCH else version, body, asking)


class SourceCluster:
    """The cluster at the other end of a link. `read` gives the settings of the link, and is called again after all
    brokers were unreachable: the file may name others by then.
    """

    def __init__(
        self, name: str, client_id: str, outgoing: Outgoing, read: Callable[[], Awaitable[LinkSettings]]
    ) -> None:
        self.name = name
        self._client_id = client_id
        self._outgoing = outgoing
        self._read = read
        self._pool: Pool | None = None
        self._bootstrap: tuple[Address, ...] = ()
        self._addresses: dict[int, Address] = {}

    async def metadata(self, topics: Sequence[str]) -> messages.MetadataResponse:
        """The metadata of up to TOPICS_MAX topics. Raises LinkFailed."""
        request = messages.MetadataRequest(
            topics=[messages.MetadataRequest.MetadataRequestTopic(name=each) for each in topics],
            allow_auto_topic_creation=False,
        )
        failure = "no broker is known"
        try:
            pool = await self._open()
            known = [Peer(address, node_id) for node_id, address in self._addresses.items()]
            for peer in (*known, *map(Peer, self._bootstrap)):
                try:
                    answer, _ = await pool.ask(
                        peer, request, messages.MetadataResponse, Deadline(ANSWER_S), at_least=METADATA_VERSION_MIN
                    )
                except ClientError as error:
                    failure = str(error)
                    continue
                self._addresses = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
                return answer
        except ClientError as error:
            failure = str(error)
        await self.close()
        raise LinkFailed(f"link {self.name}: {failure}")

    async def _open(self) -> Pool:
        """Raises ClientError."""
        if self._pool is None:
            settings = await self._read()
            login, context = settings.security
            tls = partial(_same, context) if context is not None else None
            outgoing = replace(self._outgoing, login=login, tls=tls)
            self._bootstrap = settings.bootstrap
            self._pool = Pool(self._client_id, outgoing)
        return self._pool

    async def connect(self, broker_id: int) -> MirrorLink:
        """Connect to a broker that `metadata` has named; the caller closes it. Raises LinkFailed."""
        address = self._addresses.get(broker_id)
        if address is None or self._pool is None:
            raise LinkFailed(f"link {self.name}: broker {broker_id} is not known")
        peer = Peer(address, broker_id, "fetch")
        try:
            link = await self._pool.link(peer, Deadline(CONNECT_S))
            version = common_version(link, ApiKey.FETCH, "Fetch", FETCH_VERSION_MIN, FETCH_VERSION_MAX)
        except ClientError as error:
            raise LinkFailed(f"link {self.name}: {error}") from error
        return MirrorLink(link.connection, version)

    async def close(self) -> None:
        """Close all connections; the next call opens others."""
        pool, self._pool = self._pool, None
        self._addresses = {}
        if pool is not None:
            await pool.close()
