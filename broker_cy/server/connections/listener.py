"""Listening sockets: accept, admit, and hand over to connections.

Bounds: `max.connections` over all listeners, or fewer if the process may not open as many descriptors (beyond it
nothing is accepted until a connection ends: new peers wait in the kernel's backlog); `max.connections.per.ip` with
overrides (beyond it a new connection is closed at once, as in Kafka); and ACCEPTS_PER_TURN accepts in one turn of the
loop.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections import Counter
from typing import TYPE_CHECKING

from broker_cy.core.logs import facts
from broker_cy.server.connections.answers import ServerCore
from broker_cy.server.connections.connection import Connection
from broker_cy.server.connections.transport import SocketTransport

if TYPE_CHECKING:
    from collections.abc import Mapping

LOGGER = logging.getLogger("broker_cy.server.connections.listener")

ACCEPTS_PER_TURN = 64
# socket.receive.buffer.bytes in Kafka's defaults and in its example file. With a buffer of this fixed size, a request
# of 1 MB takes eight wake-ups: twice the CPU, half the rate. So the kernel sizes the buffer (it grows up to
# net.ipv4.tcp_rmem), and only other values are set.
DEFAULT_RECEIVE_BUFFER_BYTES = 102_400
# Kafka's default of socket.send.buffer.bytes, and the size that replaces it: sendfile of 1 MB then wakes up half as
# often, which saves a tenth of its CPU. Much larger buffers cost more, because the data is no longer in the processor's
# cache when the reader gets it.
DEFAULT_SEND_BUFFER_BYTES, SEND_BUFFER_BYTES = 102_400, 204_800
# Prefix of the address of an IPv4 peer of an IPv6 socket.
MAPPED_IPV4 = "::ffff:"
# Pause of accepting after the process ran out of descriptors.
DESCRIPTOR_PAUSE_S = 0.1


class ListenError(Exception):
    """The broker cannot listen on an address; the message names the address and says what to do."""


class Admission:
    """Counts connections against `max.connections` and `max.connections.per.ip`."""

    def __init__(self, connections_max: int, per_ip_max: int, per_ip_overrides: Mapping[str, int]) -> None:
        self.connections_max = connections_max
        self.per_ip_max = per_ip_max
        self.per_ip_overrides = dict(per_ip_overrides)
        self.by_ip: Counter[str] = Counter()
        self.total = 0

    @property
    def full(self) -> bool:
        return self.total >= self.connections_max

    def limit_of(self, host: str) -> int:
        return self.per_ip_overrides.get(host, self.per_ip_max)

    def admit(self, host: str) -> bool:
        """Count one connection of `host`. False if the host has reached its limit."""
        if self.by_ip[host] >= self.limit_of(host):
            return False
        self.by_ip[host] += 1
        self.total += 1
        return True

    def leave(self, host: str) -> None:
        self.total -= 1
        self.by_ip[host] -= 1
        if self.by_ip[host] <= 0:
            del self.by_ip[host]


def open_socket(name: str, host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket on the first address of `host` (empty: all addresses); raises ListenError."""
    try:
        info = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE, family=socket.AF_UNSPEC
        )
    except OSError as error:
        raise ListenError(f"listener {name}: {host!r} is not an address of this machine ({error.strerror})") from None
    info.sort(key=lambda entry: entry[0] != socket.AF_INET)
    family, kind, protocol, _, address = info[0]
    if not host and socket.has_dualstack_ipv6():
        # No host means every address of this machine, as in Kafka: one IPv6 socket that takes IPv4 as well.
        family, address = socket.AF_INET6, ("::", port, 0, 0)
    listening = socket.socket(family, kind | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC, protocol)
    try:
        if not host and family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(backlog)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            advice = "is in use: stop the program that listens there, or choose another port with --listener HOST:PORT"
        elif error.errno == errno.EACCES:
            advice = "needs privileges: choose a port above 1023 with --listener HOST:PORT"
        else:
            advice = f"cannot be listened on: {error.strerror}"
        raise ListenError(f"listener {name}: {host or '*'}:{port} {advice}") from None
    return listening


class Listener:
    """One named listener: accepts clients and creates a `Connection` for each one that is admitted."""

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        core: ServerCore,
        admission: Admission,
        *,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
    ) -> None:
        self.name = name
        self.socket = listening
        self.core = core
        self.admission = admission
        self.send_buffer_bytes = send_buffer_bytes
        self.receive_buffer_bytes = receive_buffer_bytes
        host, port = listening.getsockname()[:2]
        self.host: str = host
        self.port: int = port
        self.local = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.loop: asyncio.AbstractEventLoop = core.loop
        self.accepting = False

    def start(self) -> None:
        """Accept from now on."""
        if not self.accepting:
            self.accepting = True
            self.loop.add_reader(self.socket.fileno(), self._on_ready)

    def pause(self) -> None:
        """Accept nothing until `start`; peers wait in the kernel's backlog."""
        if self.accepting:
            self.accepting = False
            self.loop.remove_reader(self.socket.fileno())

    def close(self) -> None:
        self.pause()
        self.socket.close()

    def _on_ready(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self.admission.full:
                self.core.log_events.connections_full(self.name, self.admission.total)
                self.pause()
                return
            try:
                client, address = self.socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._out_of_descriptors(error)
                return
            self._admit(client, address[0].removeprefix(MAPPED_IPV4), address[1])

    def _out_of_descriptors(self, error: OSError) -> None:
        LOGGER.error(
            "could not accept a connection; will retry",
            extra=facts(listener=self.name, reason=str(error), retry_s=DESCRIPTOR_PAUSE_S),
        )
        self.pause()
        self.loop.call_later(DESCRIPTOR_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self.socket.fileno() >= 0 and not self.core.stopping:
            self.start()

    def _admit(self, client: socket.socket, host: str, port: int) -> None:
        if not self.admission.admit(host):
            self.core.log_events.connection_refused(self.name, host, port, self.admission.limit_of(host))
            client.close()
            return
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # -1 leaves the size to the kernel, which adapts it to the connection.
        if self.send_buffer_bytes > 0:
            size = self.send_buffer_bytes
            size = SEND_BUFFER_BYTES if size == DEFAULT_SEND_BUFFER_BYTES else size
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        if self.receive_buffer_bytes not in (-1, DEFAULT_RECEIVE_BUFFER_BYTES):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self.receive_buffer_bytes)
        Connection(self.core, SocketTransport(client.detach()), self.name, host, port, self.local)
