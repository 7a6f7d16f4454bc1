"""Another cluster, as the mirrors of a link reach it: its address and login in a file, its metadata, and connections to
its brokers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
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
from broker_cy.core.errors import ErrorCode
from broker_cy.core.mirror_settings import LINK, SOURCE_TOPIC_ID, source_topic_id
from broker_cy.core.properties import read_properties_file
from broker_cy.metadata.image import RESOURCE_TOPIC
from broker_cy.replica.mirror import Cause
from broker_cy.replica.throttle import UNLIMITED, LinkThrottle
from broker_cy.replication.broker_links import CONNECT_S, BrokerLink
from broker_cy.replication.links import Asking, LinkFailed
from broker_cy.wire import messages
from broker_cy.wire.api_keys import ApiKey

if TYPE_CHECKING:
    import ssl
    from uuid import UUID

    from broker_cy.client.connection import Connection
    from broker_cy.client.outgoing import Outgoing

BOOTSTRAP: Final = "bootstrap.servers"
BYTES_PER_S: Final = "brokercy.mirror.bytes.per.second"
ANSWER_S: Final = 10.0
# Topics of one request.
TOPICS_MAX: Final = 500
# The versions of Metadata and Fetch with topic ids: Apache Kafka 3.1 and later.
METADATA_VERSION_MIN: Final = 10
FETCH_VERSION_MIN, FETCH_VERSION_MAX = 13, 17


class LinkSettings(NamedTuple):
    """The file of a link. `bytes_per_s` limits what each broker fetches over it; None for no limit."""

    bootstrap: tuple[Address, ...]
    security: ClientSecurity
    bytes_per_s: int | None = None


class Origin(NamedTuple):
    """A topic of the source that is a mirror, or was one; `topic_id` is that of its own source, None: not known."""

    is_mirror: bool
    topic_id: UUID | None


class LinkWaits(LinkFailed):
    """The source cannot be asked; `cause` says why in one word."""

    def __init__(self, cause: Cause, reason: str) -> None:
        super().__init__(reason)
        self.cause = cause


_CAUSES: Final = {Failure.INVALID: Cause.LINK_FILE, Failure.UNSUPPORTED: Cause.OLD_SOURCE}


def _cause_of(error: ClientError) -> Cause:
    return _CAUSES.get(error.failure, Cause.UNREACHABLE)


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
    for each in settings:
        if each not in login and each not in (BOOTSTRAP, BYTES_PER_S):
            raise ClientError(Failure.INVALID, f"{path}: {each} is no setting of a link")
    return LinkSettings(addresses, security_of(login, str(path)), _bytes_per_s(settings, path))


def _bytes_per_s(settings: Mapping[str, str], path: Path) -> int | None:
    text = settings.get(BYTES_PER_S)
    if text is None:
        return None
    try:
        found = int(text)
    except ValueError:
        found = 0
    if found < 1:
        raise ClientError(Failure.INVALID, f"{path}: {BYTES_PER_S} must be a whole number above 0, not {text!r}")
    return found


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
        self,
        name: str,
        client_id: str,
        outgoing: Outgoing,
        read: Callable[[], Awaitable[LinkSettings]],
        throttle: LinkThrottle,
    ) -> None:
        self.name = name
        self._client_id = client_id
        self._outgoing = outgoing
        self._read = read
        self._pool: Pool | None = None
        self._bootstrap: tuple[Address, ...] = ()
        self._addresses: dict[int, Address] = {}
        self._throttle = throttle

    async def metadata(self, topics: Sequence[str]) -> messages.MetadataResponse:
        """The metadata of up to TOPICS_MAX topics. Raises LinkFailed."""
        request = messages.MetadataRequest(
            topics=[messages.MetadataRequest.MetadataRequestTopic(name=each) for each in topics],
            allow_auto_topic_creation=False,
        )
        cause, failure = Cause.UNREACHABLE, "no broker is known"
        try:
            pool = await self._open()
            known = [Peer(address, node_id) for node_id, address in self._addresses.items()]
            for peer in (*known, *map(Peer, self._bootstrap)):
                try:
                    answer, _ = await pool.ask(
                        peer, request, messages.MetadataResponse, Deadline(ANSWER_S), at_least=METADATA_VERSION_MIN
                    )
                except ClientError as error:
                    cause, failure = _cause_of(error), str(error)
                    continue
                self._addresses = {each.node_id: Address(each.host, each.port) for each in answer.brokers}
                return answer
        except ClientError as error:
            cause, failure = _cause_of(error), str(error)
        await self.close()
        raise LinkWaits(cause, f"link {self.name}: {failure}")

    async def origins(self, topics: Sequence[str]) -> dict[str, Origin] | None:
        """Which of the topics are mirrors, or were mirrors before they were promoted: without those whose settings the
        link may not see (DESCRIBE_CONFIGS). None if the source does not answer.
        """
        kind = messages.DescribeConfigsRequest
        request = kind(
            resources=[
                kind.DescribeConfigsResource(
                    resource_type=RESOURCE_TOPIC, resource_name=each, configuration_keys=[LINK, SOURCE_TOPIC_ID]
                )
                for each in topics
            ]
        )
        answer = None
        for node_id, address in list(self._addresses.items()):
            if self._pool is None:
                return None
            with suppress(ClientError):
                answer, _ = await self._pool.ask(
                    Peer(address, node_id), request, messages.DescribeConfigsResponse, Deadline(ANSWER_S)
                )
                break
        if answer is None:
            return None
        found = {}
        for each in answer.results:
            values = {config.name: config.value or "" for config in each.configs}
            is_mirror, source_id = bool(values.get(LINK)), source_topic_id(values)
            if each.error_code == ErrorCode.NONE and (is_mirror or source_id is not None):
                found[each.resource_name] = Origin(is_mirror, source_id)
        return found

    async def _open(self) -> Pool:
        """Raises ClientError."""
        if self._pool is None:
            settings = await self._read()
            login, context = settings.security
            tls = partial(_same, context) if context is not None else None
            outgoing = replace(self._outgoing, login=login, tls=tls)
            self._bootstrap = settings.bootstrap
            self._limit_to(settings.bytes_per_s)
            self._pool = Pool(self._client_id, outgoing)
        return self._pool

    def _limit_to(self, bytes_per_s: int | None) -> None:
        self._throttle.limit_to(UNLIMITED if bytes_per_s is None else bytes_per_s)

    async def read_rate(self) -> None:
        """Take the rate that the file of the link has now. An error in the file stops the next connection, not those
        that are open.
        """
        with suppress(ClientError):
            self._limit_to((await self._read()).bytes_per_s)

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
