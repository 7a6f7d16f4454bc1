"""Connections to the brokers of a cluster, each with the API versions of its broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from broker_cy.client import versions
from broker_cy.client.address import Address
from broker_cy.client.answer_frames import CLOSED
from broker_cy.client.connection import Connection, ConnectionFailed, LoginRefused, TimedOut, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, problem_of, refused
from broker_cy.client.exchange import ANSWER_BYTES_MAX
from broker_cy.client.outgoing import Outgoing
from broker_cy.client.turns import TURN_S, Turns
from broker_cy.client.versions import Negotiation, UnsupportedApi, Versions, offered_versions
from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.wire import codec, messages
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message

R = TypeVar("R", bound=Message)

# Requests in flight, over all brokers; further ones wait for their turn.
REQUESTS_MAX = 64
# The limit of one attempt to connect, independent of the call's limit: a host that is down does not answer at all.
CONNECT_TIMEOUT_S = 10.0
# Elements of one answer: 200,000 partitions of three replicas have 1.4 million, and a replica takes 4 bytes.
ANSWER_ELEMENTS_MAX = ANSWER_BYTES_MAX // 4
_SOFTWARE_NAME = "broker-cy-admin"


class Link(NamedTuple):
    """A connection, and the facts known about its broker."""

    connection: Connection
    address: Address
    name: str  # "1 (127.0.0.1:9092)", or the address alone
    versions: Versions
    api_versions: messages.ApiVersionsResponse


class Peer(NamedTuple):
    """A broker to talk to: `node_id` is None for a bootstrap address. `lane` distinguishes connections to one broker,
    so that a Fetch that waits for data does not delay other requests.
    """

    address: Address
    node_id: int | None = None
    lane: str = ""

    @property
    def name(self) -> str:
        return str(self.address) if self.node_id is None else f"{self.node_id} ({self.address})"


class Pool:
    """At most one connection per peer, opened when it is first needed and again after it broke."""

    def __init__(self, client_id: str, outgoing: Outgoing) -> None:
        self.client_id = client_id
        self._outgoing = outgoing
        self._links: dict[Peer, Link] = {}
        self._opening: dict[Peer, asyncio.Task[Link]] = {}
        self._turns = asyncio.Semaphore(REQUESTS_MAX)
        self.is_closed = False
        # Whether any broker ever answered: a client that never reached one probably has a wrong address.
        self.has_connected = False

    def open_link(self, wanted: Callable[[Peer], bool]) -> Peer | None:
        """A connected peer that `wanted` accepts."""
        return next(
            (peer for peer, link in self._links.items() if link.connection.closed is None and wanted(peer)), None
        )

    def adopt(self, peer: Peer) -> None:
        """Use the connection to a bootstrap address for the broker that it leads to."""
        nameless = Peer(peer.address)
        if nameless in self._links and peer not in self._links:
            self._links[peer] = self._links.pop(nameless)._replace(name=peer.name)

    async def link(self, peer: Peer, deadline: Deadline) -> Link:
        """The connection to `peer`; ClientError if it cannot be made."""
        link = self._links.get(peer)
        if link is not None and link.connection.closed is None:
            return link
        if self.is_closed:
            raise ClientError(Failure.UNREACHABLE, "the client is closed", broker=peer.name)
        task = self._opening.get(peer)
        if task is None:
            # A task of its own: the first caller may be cancelled while others wait for the same connection.
            task = asyncio.create_task(self._open(peer, Deadline(min(CONNECT_TIMEOUT_S, deadline.left_s))))
            self._opening[peer] = task
            task.add_done_callback(lambda done: self._opened(peer, done))
        try:
            async with asyncio.timeout_at(deadline.at):
                return await asyncio.shield(task)
        except TimeoutError:
            raise _timed_out(peer.name, "connect", deadline, sent=False) from None

    def _opened(self, peer: Peer, task: asyncio.Task[Link]) -> None:
        self._opening.pop(peer, None)
        if not task.cancelled() and task.exception() is None:
            self._links[peer] = task.result()
            self.has_connected = True
            if self.is_closed:
                task.result().connection.close()

    async def _open(self, peer: Peer, deadline: Deadline) -> Link:
        try:
            connection = await open_connection(peer.address, self.client_id, deadline, self._outgoing)
        except TimedOut:
            raise _timed_out(peer.name, "connect", deadline, sent=False) from None
        except LoginRefused as error:
            code = ErrorCode.SASL_AUTHENTICATION_FAILED
            raise ClientError(Failure.REFUSED, str(error), broker=peer.name, api="connect", code=code) from None
        except ConnectionFailed as error:
            raise _unreachable(error, peer.name, "connect", self._outgoing) from None
        try:
            answer = await _api_versions(connection, peer.name, deadline, self._outgoing)
        except BaseException:
            connection.close()
            raise
        return Link(connection, peer.address, peer.name, offered_versions(answer), answer)

    async def ask(
        self,
        peer: Peer,
        request: Message,
        answer: type[R],
        deadline: Deadline,
        *,
        at_least: int = 0,
        at_most: int = 32767,
    ) -> tuple[R, int]:
        """Send `request` in the highest version both sides know, and return the answer and that version.

        `at_least` is the version that has what the caller needs, `at_most` the newest the caller can read. Raises
        ClientError.
        """
        api_key = type(request).API_KEY
        api = api_name(request)
        async with self._turn(peer, api, deadline):
            link = await self.link(peer, deadline)
            version = common_version(link, api_key, api, at_least, at_most)
            body = _encoded(request, version, link.name, api)
            try:
                data = await link.connection.exchange(api_key, version, body, deadline)
            except TimedOut as error:
                raise _timed_out(link.name, api, deadline, sent=error.sent) from None
            except ConnectionFailed as error:
                raise ClientError(Failure.UNREACHABLE, str(error), broker=link.name, api=api) from None
        turns = Turns(TURN_S, self._outgoing.clock)
        return await _decoded_in_turns(answer, version, data, link.name, api, turns), version

    async def tell(self, peer: Peer, request: Message, deadline: Deadline, *, at_least: int = 0) -> None:
        """Send a request that has no answer. Raises ClientError."""
        api_key = type(request).API_KEY
        api = api_name(request)
        link = await self.link(peer, deadline)
        version = common_version(link, api_key, api, at_least, 32767)
        body = _encoded(request, version, link.name, api)
        try:
            await link.connection.send_only(api_key, version, body, deadline)
        except TimedOut:
            raise _timed_out(link.name, api, deadline, sent=True) from None
        except ConnectionFailed as error:
            raise ClientError(Failure.UNREACHABLE, str(error), broker=link.name, api=api) from None

    def _turn(self, peer: Peer, api: str, deadline: Deadline) -> _Turn:
        return _Turn(self._turns, peer.name, api, deadline)

    def leave(self, lane: str) -> None:
        """Close the connections of an unused lane."""
        for peer in [peer for peer in self._links if peer.lane == lane]:
            self._links.pop(peer).connection.close()

    async def close(self) -> None:
        """Close every connection; calls in progress fail."""
        self.is_closed = True
        tasks = list(self._opening.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        links = list(self._links.values())
        self._links.clear()
        for link in links:
            link.connection.close()
        for link in links:
            await link.connection.wait_closed()


class _Turn:
    """Hold one of the pool's REQUESTS_MAX slots, waiting for it until the deadline."""

    def __init__(self, turns: asyncio.Semaphore, broker: str, api: str, deadline: Deadline) -> None:
        self._turns, self._broker, self._api, self._deadline = turns, broker, api, deadline

    async def __aenter__(self) -> None:
        try:
            async with asyncio.timeout_at(self._deadline.at):
                await self._turns.acquire()
        except TimeoutError:
            raise _timed_out(self._broker, self._api, self._deadline, sent=False) from None

    async def __aexit__(self, *exc: object) -> None:
        self._turns.release()


def api_name(request: Message) -> str:
    """`ListOffsets` for a ListOffsetsRequest."""
    return type(request).__name__.removesuffix("Request")


def common_version(link: Link, api_key: int, api: str, at_least: int, at_most: int) -> int:
    """The highest version that the broker and this client know, from `at_least` to `at_most`. Raises ClientError
    without one.
    """
    try:
        return versions.common_version(link.versions, api_key, api, at_least, at_most)
    except UnsupportedApi as error:
        raise ClientError(Failure.UNSUPPORTED, str(error), broker=link.name, api=api) from None


def _encoded(request: Message, version: int, broker: str, api: str) -> bytes:
    try:
        return codec.encode(request, version)
    except WireError as error:
        raise ClientError(
            Failure.INVALID, f"cannot be encoded in version {version}: {error}", broker=broker, api=api
        ) from None


async def _decoded_in_turns(answer: type[R], version: int, data: memoryview, broker: str, api: str, turns: Turns) -> R:
    """Raises ClientError. A large answer takes a tenth of a second, in which others may run."""
    parts = codec.decode_parts(answer, version, data, ANSWER_ELEMENTS_MAX)
    try:
        while True:
            next(parts)
            await turns.pause()
    except StopIteration as decoded:
        whole: R = decoded.value
        return whole
    except WireError as error:
        raise _malformed(api, version, error, broker) from None


def _malformed(api: str, version: int, error: WireError, broker: str) -> ClientError:
    return ClientError(
        Failure.MALFORMED, f"the answer in version {version} is malformed: {error}", broker=broker, api=api
    )


def _timed_out(broker: str, api: str, deadline: Deadline, *, sent: bool) -> ClientError:
    reason = "no connection" if api == "connect" else "no answer" if sent else "could not be asked"
    return ClientError(Failure.TIMED_OUT, f"{reason} within {round(deadline.timeout_s, 1):g} s", broker=broker, api=api)


def _unreachable(error: ConnectionFailed, broker: str, api: str, outgoing: Outgoing) -> ClientError:
    reason = str(error)
    if reason == CLOSED:
        which = "without" if outgoing.tls is not None else "with"
        reason += f", as a listener {which} TLS does with this security.protocol"
    return ClientError(Failure.UNREACHABLE, reason, broker=broker, api=api)


async def _api_versions(
    connection: Connection, name: str, deadline: Deadline, outgoing: Outgoing
) -> messages.ApiVersionsResponse:
    """Return the versions that the broker supports."""
    api = "ApiVersions"
    negotiation = Negotiation(_SOFTWARE_NAME)
    while True:
        version = negotiation.version
        try:
            data = await connection.exchange(ApiKey.API_VERSIONS, version, negotiation.body, deadline)
        except TimedOut as error:
            raise _timed_out(name, api, deadline, sent=error.sent) from None
        except ConnectionFailed as error:
            raise _unreachable(error, name, api, outgoing) from None
        try:
            answer = negotiation.take(data)
        except WireError as error:
            raise _malformed(api, version, error, name) from None
        if answer is not None:
            if (problem := problem_of(answer.error_code)) is not None:
                raise refused(problem, name, api)
            return answer
