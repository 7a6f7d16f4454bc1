"""One connection to a broker over a gevent socket: requests of many greenlets, answered in their order.

The hub reads the socket: its watcher stays active while the connection is open, parses the answers and switches to the
greenlet that waits. So an exchange costs one send, one receive and two switches.
"""

from __future__ import annotations

import socket as plain
import time
from typing import Any, TypeVar

import gevent
from gevent import socket
from gevent.event import Event
from gevent.lock import Semaphore
from greenlet import getcurrent, greenlet

from broker_cy.client.connection import reason_of
from broker_cy.client.errors import ClientError
from broker_cy.client.exchange import SIZE_BYTES, Exchange, ExchangeError
from broker_cy.client.login import AGAIN_AFTER, ClientLogin, apply, exchange_tokens
from broker_cy.client.program import unreachable
from broker_cy.client.versions import Negotiation, UnsupportedApi, Versions, common_version, offered_versions
from broker_cy.core.errors import ErrorCode, WireError
from broker_cy.security.sasl.exchange import LoginFailed
from broker_cy.wire import codec
from broker_cy.wire.api_keys import ApiKey
from broker_cy.wire.codec import Message
from loadgen.net import login as logins
from loadgen.net.tls import TlsSocket

R = TypeVar("R", bound=Message)
T = TypeVar("T")
Address = tuple[str, int]

SOFTWARE_NAME = "broker-load"
# The most bytes that one receive returns. All connections of a process share the buffer; a connection keeps only the
# part of an answer whose rest has not arrived, so that an idle one has no buffer.
RECEIVE_BYTES = 256 << 10
# The interval at which overdue answers are searched.
SWEEP_S = 0.1
_READ = 1


class NetError(Exception):
    """The connection could not be made or broke, or no answer arrived; the text says why.

    `sent`: whether the request may have arrived, so that its outcome is unknown. `name` is short, for counts.
    """

    def __init__(self, name: str, text: str, *, sent: bool) -> None:
        super().__init__(text)
        self.name, self.sent = name, sent


class _Call:
    """A request that waits for its answer."""

    __slots__ = ("body", "connection", "due_s", "error", "waiter")

    def __init__(self, connection: Connection, due_s: float) -> None:
        self.connection, self.due_s = connection, due_s
        self.waiter: greenlet | None = None
        self.body: memoryview | None = None
        self.error: NetError | None = None


class _Waiting:
    """The waiting calls of a process. One timer serves all: a timer for each would cost more than the rest."""

    def __init__(self) -> None:
        self.calls: dict[_Call, None] = {}
        self._hub: Any = None
        self._timer: Any = None
        self.scratch = memoryview(bytearray(RECEIVE_BYTES))

    def start(self, hub: Any) -> None:
        """Begin in this hub; after a fork or in another thread the hub is another one."""
        if self._hub is not hub:
            self._hub, self.calls = hub, {}
            self._timer = hub.loop.timer(SWEEP_S, SWEEP_S, ref=False)
            self._timer.start(self._sweep)

    def _sweep(self) -> None:
        now_s = time.monotonic()
        for call in [call for call in self.calls if call.due_s < now_s]:
            call.connection.close(NetError("REQUEST_TIMED_OUT", "an answer did not arrive in time", sent=True))


_waiting = _Waiting()


_last_versions: Versions = {}


def _shared(versions: Versions) -> Versions:
    """Return one object for equal versions, because thousands of connections go to brokers of one release."""
    global _last_versions
    if versions != _last_versions:
        _last_versions = versions
    return _last_versions


class Connection:
    """Created by `connect`. Used by any number of greenlets of one thread; never reopened."""

    def __init__(self, sock: Any, client_id: str, timeout_s: float) -> None:
        self._socket = sock
        self._exchange: Exchange[_Call] = Exchange(client_id)
        self.timeout_s = timeout_s
        self.versions: Versions = {}
        self.closed: NetError | None = None
        self._login: ClientLogin | None = None
        self._host = ""
        # The time of the next login (KIP-368), and the greenlet that performs it: requests of other greenlets wait for
        # `_is_free`.
        self._again_s = float("inf")
        self._logging_in: greenlet | None = None
        self._is_free = Event()
        self._hub = gevent.get_hub()
        _waiting.start(self._hub)
        # The part of a frame that has arrived: its size field, or with `_sized` the whole frame without it.
        self._partial = memoryview(b"")
        self._filled = 0
        self._sized = False
        # Held by the greenlet that waits for room in the socket: data of other greenlets is sent after it.
        self._sender = Semaphore()
        if isinstance(sock, TlsSocket):
            sock.on_pending = self._readable
        self._watcher = self._hub.loop.io(sock.fileno(), _READ)
        self._watcher.start(self._readable)

    def negotiate(self) -> None:
        """Request the broker's versions. Raises NetError."""
        negotiation = Negotiation(SOFTWARE_NAME)
        while True:
            answer = self.exchange(ApiKey.API_VERSIONS, negotiation.version, negotiation.body)
            try:
                decoded = negotiation.take(answer)
            except WireError as error:
                raise self._malformed("ApiVersions", error) from None
            if decoded is not None:
                if decoded.error_code:
                    raise NetError(ErrorCode(decoded.error_code).name, "ApiVersions was refused", sent=True)
                self.versions = _shared(offered_versions(decoded))
                return

    def log_in(self, login: ClientLogin, host: str) -> None:
        """Log in to the server on the host, and again with the first request after most of the session has passed.
        Raises NetError.
        """
        self._logging_in = getcurrent()
        self._is_free.clear()
        try:
            # It runs in a thread, because it may request a token from a provider.
            exchange = self._hub.threadpool.apply(login.begin, (host,))
            # The steps of Kerberos may block, too.
            call = self._hub.threadpool.apply if exchange.blocks else apply
            lifetime_ms = exchange_tokens(login, exchange, self.exchange, call)
            self._login, self._host = login, host
            session_s = lifetime_ms / 1000 * AGAIN_AFTER
            self._again_s = time.monotonic() + session_s if lifetime_ms else float("inf")
        except LoginFailed as error:
            refused = NetError("SASL_AUTHENTICATION_FAILED", str(error), sent=True)
            self.close(refused)
            raise refused from None
        finally:
            self._logging_in = None
            self._is_free.set()

    def _keep_session(self, login: ClientLogin) -> None:
        """Wait for a login in progress, or begin one that is due."""
        while self._logging_in is not None and self._logging_in is not getcurrent():
            self._is_free.wait()
        if self._logging_in is None and self.closed is None and time.monotonic() >= self._again_s:
            self.log_in(login, self._host)

    def call(self, request: Message, answer: type[R], *, at_most: int = 32767, timeout_s: float | None = None) -> R:
        """Send a request in the highest common version and return its decoded answer. Raises NetError."""
        api_key = type(request).API_KEY
        api = type(request).__name__.removesuffix("Request")
        version = self.version(api_key, api, at_most)
        try:
            encoded = codec.encode(request, version)
        except WireError as error:
            # An old broker's version does not have a field of the request.
            raise NetError("UNSUPPORTED_VERSION", f"{api} version {version}: {error}", sent=False) from None
        body = self.exchange(api_key, version, encoded, timeout_s)
        try:
            return codec.decode(answer, version, body)
        except WireError as error:
            raise self._malformed(api, error) from None

    def version(self, api_key: int, api: str, at_most: int = 32767) -> int:
        """Return the highest common version. Raises NetError."""
        try:
            return common_version(self.versions, api_key, api, 0, at_most)
        except UnsupportedApi as error:
            raise NetError("UNSUPPORTED_VERSION", str(error), sent=False) from None

    def exchange(self, api_key: int, version: int, body: bytes, timeout_s: float | None = None) -> memoryview:
        """Send a request and wait for the body of its answer. Raises NetError.

        A connection with an overdue answer is closed: later requests would wait behind it.
        """
        self._check()
        call = _Call(self, time.monotonic() + (self.timeout_s if timeout_s is None else timeout_s))
        head = self._exchange.head(api_key, version, len(body), call)
        self._send(head + body)
        return self._wait(call)

    def exchange_again(self, request: bytearray, flexible: bool) -> memoryview:
        """Send a complete request once more, with a new correlation id, and wait for its answer. Raises NetError."""
        self._check()
        call = _Call(self, time.monotonic() + self.timeout_s)
        self._exchange.again(request, flexible, call)
        self._send(request)
        return self._wait(call)

    def send_only(self, api_key: int, version: int, body: bytes) -> None:
        """Send a request that has no answer (Produce with acks=0). Raises NetError."""
        self._check()
        self._send(self._exchange.head(api_key, version, len(body)) + body)

    def request(self, api_key: int, version: int, body: bytes) -> bytearray:
        """Return a complete request for `exchange_again`; its correlation id is set there."""
        return bytearray(Exchange[None](self._exchange.client_id).head(api_key, version, len(body)) + body)

    def _check(self) -> None:
        if self._login is not None:
            self._keep_session(self._login)
        if self.closed is not None:
            raise NetError(self.closed.name, str(self.closed), sent=False)

    def _send(self, data: bytes | bytearray) -> None:
        if self._sender.locked():
            return self._send_rest(memoryview(data))
        try:
            sent = self._socket._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise self._break(error) from None
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:])
        return None

    def _send_rest(self, data: memoryview) -> None:
        with self._sender:
            if self.closed is not None:
                raise NetError(self.closed.name, str(self.closed), sent=False)
            try:
                self._socket.sendall(data)
            except OSError as error:
                raise self._break(error) from None

    def _wait(self, call: _Call) -> memoryview:
        if call.body is None and call.error is None:
            call.waiter = getcurrent()
            _waiting.calls[call] = None
            try:
                self._hub.switch()
            finally:
                call.waiter = None
                _waiting.calls.pop(call, None)
        if call.error is not None:
            raise call.error
        assert call.body is not None
        return call.body

    def _readable(self) -> None:
        """Read the data that has arrived; called by the hub."""
        into = self._partial[self._filled :] if len(self._partial) else _waiting.scratch
        try:
            count = self._socket._sock.recv_into(into)
        except BlockingIOError:
            return
        except OSError as error:
            self._break(error)
            return
        if count == 0:
            self.close(NetError("DISCONNECTED", "the broker closed the connection", sent=True))
            return
        ready: list[_Call] = []
        try:
            if len(self._partial):
                self._continue(count, ready)
            else:
                self._begin(into[:count], ready)
        except ExchangeError as error:
            self.close(NetError("CORRUPT_ANSWER", str(error), sent=True))
        for call in ready:
            if call.waiter is not None:
                call.waiter.switch()

    def _begin(self, data: memoryview, ready: list[_Call]) -> None:
        """Take the answers in `data`, and keep a copy of the last one if it is incomplete."""
        exchange, at, end = self._exchange, 0, len(data)
        while end - at >= SIZE_BYTES:
            size = exchange.answer_bytes(data[at : at + SIZE_BYTES])
            at += SIZE_BYTES
            if end - at < size:
                self._keep(bytearray(size), data[at:], sized=True)
                return
            # A copy: the buffer is used again before the greenlet has read its answer.
            self._answered(memoryview(bytes(data[at : at + size])), ready)
            at += size
        if at < end:
            self._keep(bytearray(SIZE_BYTES), data[at:], sized=False)

    def _keep(self, whole: bytearray, part: memoryview, *, sized: bool) -> None:
        whole[: len(part)] = part
        self._partial, self._filled, self._sized = memoryview(whole), len(part), sized

    def _continue(self, count: int, ready: list[_Call]) -> None:
        """Take the next `count` bytes of the incomplete answer."""
        self._filled += count
        whole = self._partial
        if self._filled < len(whole):
            return
        if self._sized:
            self._partial, self._filled = memoryview(b""), 0
            self._answered(whole, ready)
        else:
            self._keep(bytearray(self._exchange.answer_bytes(whole)), whole[:0], sized=True)

    def _answered(self, answer: memoryview, ready: list[_Call]) -> None:
        call, body = self._exchange.take(answer)
        call.body = body
        ready.append(call)

    def _malformed(self, api: str, error: WireError) -> NetError:
        return NetError("CORRUPT_ANSWER", f"the answer to {api} is malformed: {error}", sent=True)

    def _break(self, error: OSError) -> NetError:
        broken = NetError("DISCONNECTED", error.strerror or str(error), sent=True)
        self.close(broken)
        return broken

    def close(self, reason: NetError | None = None) -> None:
        """Drop the connection; waiting requests fail with `reason`."""
        if self.closed is not None:
            return
        self.closed = reason or NetError("DISCONNECTED", "closed by the client", sent=True)
        self._watcher.stop()
        self._watcher.close()
        self._socket.close()
        for call in self._exchange.abandon():
            call.error = self.closed
            if call.waiter is not None:
                self._hub.loop.run_callback(_wake, call)


def _wake(call: _Call) -> None:
    if call.waiter is not None:
        call.waiter.switch()


def connect(address: Address, client_id: str, timeout_s: float, *, negotiate: bool = True) -> Connection:
    """Open a connection, request the broker's versions, and log in if the process has a login. Raises NetError."""
    try:
        security = logins.chosen()
    except ClientError as error:
        raise NetError("INVALID_CONFIG", str(error), sent=False) from error
    until_s = time.monotonic() + timeout_s
    try:
        sock: Any = socket.create_connection(address, timeout_s)
        sock.setsockopt(plain.IPPROTO_TCP, plain.TCP_NODELAY, 1)
        sock.settimeout(None)
        if security.tls is not None:
            sock = TlsSocket(sock, security.tls, address[0], until_s - time.monotonic())
    except OSError as error:
        name = "TIMED_OUT" if isinstance(error, TimeoutError) else "CONNECTION_FAILED"
        told = unreachable(reason_of(error), f"{address[0]}:{address[1]}")
        raise NetError(name, str(told), sent=False) from told
    connection = Connection(sock, client_id, max(0.001, until_s - time.monotonic()))
    try:
        if negotiate:
            connection.negotiate()
        if security.login is not None:
            connection.log_in(security.login, address[0])
        connection.timeout_s = timeout_s
    except BaseException:
        connection.close()
        raise
    return connection
