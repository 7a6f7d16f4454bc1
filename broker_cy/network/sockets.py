"""The network of the machine: listening TCP sockets and accepted ones, and connections to other nodes."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import TYPE_CHECKING

from broker_cy.client import outgoing
from broker_cy.core.classes import NamedTuple
from broker_cy.network.transport import SocketTransport

if TYPE_CHECKING:
    import ssl

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


class ListenError(Exception):
    """The broker cannot listen on an address; the message names the address and says what to do."""


class Buffers(NamedTuple):
    """socket.send.buffer.bytes and socket.receive.buffer.bytes; -1 leaves the size to the kernel."""

    send_bytes: int
    receive_bytes: int


class SocketNetwork:
    """TCP on this machine."""

    def listen(self, name: str, host: str, port: int, backlog: int, buffers: Buffers) -> SocketAcceptor:
        """Listen for the listener `name`, on the first address of `host` (empty: all addresses). Raises ListenError."""
        return SocketAcceptor(open_socket(name, host, port, backlog), buffers)

    async def connect(
        self, protocol: asyncio.BufferedProtocol, host: str, port: int, tls: ssl.SSLContext | None = None
    ) -> None:
        """Connect to another node. Raises OSError."""
        await outgoing.connect(protocol, host, port, tls)

    async def addresses(self, host: str) -> list[str]:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    def own_name(self) -> str:
        """Return the name under which others reach this machine, if a listener has no address of its own."""
        return socket.getfqdn()


class SocketAcceptor:
    """A listening socket."""

    def __init__(self, listening: socket.socket, buffers: Buffers) -> None:
        self._socket = listening
        self._buffers = buffers
        host, port = listening.getsockname()[:2]
        self.host: str = host
        self.port: int = port

    @property
    def fd(self) -> int:
        """The descriptor that the loop watches; -1 once it is closed."""
        return self._socket.fileno()

    def accept(self) -> SocketIncoming:
        """Raises BlockingIOError if no client waits, and other OSErrors."""
        client, address = self._socket.accept()
        return SocketIncoming(client, address[0].removeprefix(MAPPED_IPV4), address[1], self._buffers)

    def close(self) -> None:
        self._socket.close()


class SocketIncoming:
    """An accepted client; the broker decides whether to keep it. Exactly one of the methods is called."""

    def __init__(self, client: socket.socket, host: str, port: int, buffers: Buffers) -> None:
        self._client = client
        self._buffers = buffers
        self.host = host
        self.port = port

    def refuse(self) -> None:
        self._client.close()

    def admit(self) -> SocketTransport:
        client, buffers = self._client, self._buffers
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if buffers.send_bytes > 0:
            size = SEND_BUFFER_BYTES if buffers.send_bytes == DEFAULT_SEND_BUFFER_BYTES else buffers.send_bytes
            client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)
        if buffers.receive_bytes not in (-1, DEFAULT_RECEIVE_BUFFER_BYTES):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers.receive_bytes)
        return SocketTransport(client.detach())


def open_socket(name: str, host: str, port: int, backlog: int) -> socket.socket:
    """Return a listening socket on the first address of `host` (empty: all addresses); raises ListenError."""
    # Bytes, because names that need no encoding should not load that (encodings.idna, 0.4 MB).
    name_bytes = host.encode() if host.isascii() else host.encode("idna")
    try:
        info = socket.getaddrinfo(
            name_bytes or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE, family=socket.AF_UNSPEC
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
