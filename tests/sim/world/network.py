"""Links between hosts, and connections over them: bytes arrive in order, after a drawn delay, in pieces of any size.

A broker's end of a connection is one of two real sockets of this process, so that its recv, send and sendfile run
unchanged. The network holds the other socket and moves bytes when the world lets it. As with TCP, a lost packet comes
later, and a link that is cut in one direction delivers everything in that direction once it is restored. A host that
has lost power sends nothing: when it is back, it answers earlier packets with a reset.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from broker_cy.network.transport import SocketTransport
from tests.sim.world.draws import Draws

if TYPE_CHECKING:
    from tests.sim.world.world import World

# The first delay after which TCP sends a packet again.
RETRANSMIT_US = 200_000
READ_BYTES = 1 << 20
# The port on which brokers listen for clients.
PORT = 9092


class Receiver(Protocol):
    """The client's end of a connection."""

    def received(self, data: bytes) -> None: ...

    def lost(self, reason: str) -> None: ...


@dataclass
class Link:
    """The path of packets from one host to another, in one direction."""

    delay_us: int
    jitter_us: int = 0
    # Replaces `delay_us` while it is not 0.
    slow_us: int = 0
    loss: float = 0.0
    is_cut: bool = False
    # When it was last cut or lost packets.
    troubled_until_us: int = 0
    # Packets that wait until the link is restored.
    held: list[Callable[[], None]] = field(default_factory=list)

    def is_calm_since(self, us: int) -> bool:
        return not self.is_cut and not self.loss and self.troubled_until_us < us

    def mend(self, now_us: int) -> list[Callable[[], None]]:
        self.is_cut, self.loss, self.troubled_until_us = False, 0.0, now_us
        held, self.held = self.held, []
        return held


class Pipe:
    """One direction of one connection."""

    def __init__(self, world: World, link: Link, draw: Draws, arrive: Callable[[Any], None]) -> None:
        self._world = world
        self._link = link
        self._draw = draw
        self._arrive = arrive
        self._last_us = 0

    def send(self, what: bytes | None) -> None:
        """Deliver bytes, or the end of the connection, after everything that was sent before."""
        draw = self._draw
        if what and len(what) > 1 and draw.chance(0.2):
            at = draw.randint(1, len(what) - 1)
            self._send_piece(what[:at])
            what = what[at:]
        self._send_piece(what)

    def _send_piece(self, what: bytes | None) -> None:
        if self._link.is_cut:
            self._link.held.append(lambda: self._send_piece(what))
            return
        draw, link = self._draw, self._link
        delay_us = (link.slow_us or link.delay_us) + (draw.randrange(link.jitter_us) if link.jitter_us else 0)
        again_us = RETRANSMIT_US
        while link.loss and draw.chance(link.loss):
            delay_us += again_us
            again_us *= 2
        self._last_us = max(self._last_us + 1, self._world.time.now_us + delay_us)
        self._world.at(self._last_us, lambda: self._arrive(what))


class Connection:
    """A TCP connection between a client and a broker's listener."""

    def __init__(self, network: Network, listening: Listening, client: str, receiver: Receiver, number: int) -> None:
        self.network = network
        self.listening = listening
        self.receiver = receiver
        self.number = number
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self.ours = ours
        self.theirs: socket.socket | None = theirs
        # The broker's descriptor, once it has accepted the connection.
        self.fd = -1
        self.is_over = False
        # Bytes that did not fit into the broker's socket.
        self.unsent = b""
        self._ends = False
        world, host = network.world, listening.host
        self._up = Pipe(world, network.link(client, host), network.draw, self._arrived_at_broker)
        self._down = Pipe(world, network.link(host, client), network.draw, self._arrived_at_client)

    # --- the client's end

    def send(self, data: bytes) -> None:
        if not self.is_over:
            self._up.send(data)

    def close(self) -> None:
        """The client leaves; it receives nothing more."""
        if not self.is_over:
            self.receiver = _Nobody()
            self._up.send(None)

    # --- the broker's end

    def _arrived_at_broker(self, what: bytes | None) -> None:
        if self.is_over:
            return
        if what is None:
            self._ends = True
        else:
            self.unsent += what
        self.push()
        self.listening.wake()

    def push(self) -> None:
        """Write to the broker's socket until it is full."""
        while self.unsent:
            try:
                sent = self.ours.send(self.unsent)
            except BlockingIOError:
                return self.listening.gathering.has_no_room(self)
            except OSError:
                self.unsent = b""
                return None
            self.unsent = self.unsent[sent:]
        if self._ends:
            self.ours.shutdown(socket.SHUT_WR)
            self._ends = False
        return None

    def collect(self) -> None:
        """Send to the client what the broker has written."""
        while not self.is_over:
            try:
                data = self.ours.recv(READ_BYTES)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data = b""
            self._down.send(data or None)
            if not data:
                self.drop()

    def _arrived_at_client(self, what: bytes | None) -> None:
        if what is None:
            self.receiver.lost("closed by the broker")
        else:
            self.receiver.received(what)

    def drop(self) -> None:
        """Nothing passes any more; packets on their way to the client still arrive."""
        if not self.is_over:
            self.is_over = True
            self.listening.forget(self)
            self.ours.close()
            if self.theirs is not None:
                self.theirs.close()
                self.theirs = None

    def reset(self) -> None:
        """The broker's process has ended, or its machine is back and knows nothing of the connection."""
        self._down.send(None)


class _Nobody:
    def received(self, data: bytes) -> None:
        pass

    def lost(self, reason: str) -> None:
        pass


class Incoming:
    """A client that a broker has accepted (network.seams.Incoming)."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.host = "10.0.0.1"
        self.port = 10_000 + connection.number % 50_000

    def admit(self) -> SocketTransport:
        theirs, self._connection.theirs = self._connection.theirs, None
        assert theirs is not None
        self._connection.fd = theirs.detach()
        return SocketTransport(self._connection.fd)

    def refuse(self) -> None:
        assert self._connection.theirs is not None
        self._connection.theirs.close()


class Gathering:
    """The network's ends of all connections that one process has accepted, over all its listeners."""

    def __init__(self) -> None:
        self._by_fd: dict[int, Connection] = {}
        # Those whose sockets have no room, in the order of their numbers.
        self._full: list[Connection] = []
        self._poll = select.epoll()

    def has_no_room(self, connection: Connection) -> None:
        if connection not in self._full:
            self._full.append(connection)
            self._full.sort(key=lambda each: each.number)

    def add(self, connection: Connection) -> None:
        self._by_fd[connection.ours.fileno()] = connection
        self._poll.register(connection.ours, select.EPOLLIN)

    def forget(self, connection: Connection) -> None:
        self._poll.unregister(connection.ours)
        del self._by_fd[connection.ours.fileno()]

    def collect(self) -> None:
        """Send the packets that the broker has written, and give it the bytes that did not fit into its sockets."""
        if self._full:
            full, self._full = self._full, []
            for connection in full:
                if not connection.is_over:
                    connection.push()
        if ready := self._poll.poll(0):
            # File descriptor numbers differ between two runs.
            for connection in sorted((self._by_fd[fd] for fd, _ in ready), key=lambda each: each.number):
                connection.collect()

    def close(self) -> None:
        self._poll.close()


class Listening:
    """The listening socket of the process that runs on `host` now (network.seams.Acceptor)."""

    def __init__(self, network: Network, host: str, port: int, wake: Callable[[], None], gathering: Gathering) -> None:
        self.network = network
        self.host = host
        self.port = port
        self.wake = wake
        self.connections: dict[int, Connection] = {}
        self.gathering = gathering
        self._backlog: list[Connection] = []
        # Readable while connections wait to be accepted.
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_SEMAPHORE)

    def add(self, connection: Connection) -> None:
        self.connections[connection.number] = connection
        self.gathering.add(connection)
        self._backlog.append(connection)
        os.eventfd_write(self.fd, 1)
        self.wake()

    def forget(self, connection: Connection) -> None:
        if self.connections.pop(connection.number, None) is not None:
            self.gathering.forget(connection)

    def accept(self) -> Incoming:
        """Raises BlockingIOError if no connection waits."""
        os.eventfd_read(self.fd)
        return Incoming(self._backlog.pop(0))

    def close(self) -> None:
        if self.fd >= 0:
            self.network.listening.pop((self.host, self.port), None)
            for connection in self._backlog:
                connection.reset()
                connection.drop()
            self._backlog.clear()
            os.close(self.fd)
            self.fd = -1

    def end(self, *, silently: bool) -> None:
        """The process has ended, alone or with its machine. If `silently`, its peers learn of it after its restart."""
        fds = []
        if silently:
            self.network.dark.add(self.host)
        for connection in list(self.connections.values()):
            if connection.fd >= 0:
                fds.append(connection.fd)
            if silently:
                self.network.orphans.setdefault(self.host, []).append(connection.reset)
            else:
                connection.reset()
            connection.drop()
        self._backlog.clear()
        for fd in fds:
            os.close(fd)
        self.close()


class Network:
    """All links, by (from, to), and all listening sockets."""

    def __init__(self, world: World, draw: Draws) -> None:
        self.world = world
        self.draw = draw
        self.links: dict[tuple[str, str], Link] = {}
        self.listening: dict[tuple[str, int], Listening] = {}
        # Hosts without power, and functions that reset their former connections.
        self.dark: set[str] = set()
        self.orphans: dict[str, list[Callable[[], None]]] = {}
        self._count = 0

    def link(self, source: str, target: str) -> Link:
        found = self.links.get((source, target))
        if found is None:
            found = self.links[source, target] = Link(self.draw.randint(20, 400), self.draw.choice([0, 100, 2_000]))
        return found

    def listen(self, host: str, port: int, wake: Callable[[], None], gathering: Gathering) -> Listening:
        listening = self.listening[host, port] = Listening(self, host, port, wake, gathering)
        self.dark.discard(host)
        for reset in self.orphans.pop(host, []):
            reset()
        return listening

    def connect(
        self,
        client: str,
        host: str,
        receiver: Receiver,
        done: Callable[[Connection | None], None],
        port: int = PORT,
    ) -> None:
        """Call `done` with a connection, or with None if no process listens; not at all if packets do not pass."""
        self._count += 1
        number = self._count

        def arrived(_: object) -> None:
            listening = self.listening.get((host, port))
            connection = None
            if host in self.dark:
                return
            if listening is not None:
                connection = Connection(self, listening, client, receiver, number)
                listening.add(connection)
            Pipe(self.world, self.link(host, client), self.draw, lambda _: done(connection)).send(None)

        Pipe(self.world, self.link(client, host), self.draw, arrived).send(None)

    def mend(self, source: str, target: str) -> None:
        """Let a link deliver everything again."""
        for resend in self.link(source, target).mend(self.world.time.now_us):
            resend()
