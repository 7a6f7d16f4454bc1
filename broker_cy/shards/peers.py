"""The parent's half of its connections to the shards."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
from collections import deque
from typing import Any, Final, Protocol

from broker_cy.core.logs import facts
from broker_cy.shards.messages import HEADER, Kind, Ticks, frame, missing, parse, read

LOGGER = logging.getLogger("broker_cy.shards")

BACKLOG: Final = 64
# A process that connects sends its HELLO immediately.
HELLO_S: Final = 5.0
# A shard answers a question for its metrics within a few turns of its loop.
PAGE_S: Final = 5.0
# Until a connection is accepted again, after that has failed.
ACCEPT_AGAIN_S: Final = 1.0
_CREDENTIALS: Final = struct.Struct("iII")


class PeerListener(Protocol):
    """The parent."""

    def hello(self, peer: Peer) -> None:
        """A process has connected as a shard."""

    def served(self, peer: Peer) -> None:
        """It serves clients."""


class Peer:
    """One process that has connected as shard `shard`."""

    def __init__(self, shard: int, pid: int, settings: str, ticks: Ticks) -> None:
        self.shard = shard
        self.pid = pid
        self.settings = settings
        self.ticks = ticks
        self.addresses = ""
        self.missing: list[str] = []
        self._writer: asyncio.StreamWriter | None = None
        self._asked: deque[asyncio.Future[bytes]] = deque()

    def tell_ended(self, broker_id: int, epoch: int) -> None:
        if self._writer is not None:
            self._writer.write(frame(Kind.ENDED, {"broker": broker_id, "epoch": epoch}))

    async def page(self, topics: frozenset[str] | None) -> bytes | None:
        """Its page of metrics; None if it does not answer in time."""
        return await self._ask({"topics": None if topics is None else sorted(topics)})

    async def share_group(self, group_id: str) -> bytes | None:
        """Its page of a share group; None if it does not answer in time."""
        return await self._ask({"share_group": group_id})

    async def mirrors(self) -> bytes | None:
        """Its page of mirrors; None if it does not answer in time."""
        return await self._ask({"mirrors": True})

    async def _ask(self, content: dict[str, Any]) -> bytes | None:
        if self._writer is None:
            return None
        asked: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._writer.write(frame(Kind.ASK_PAGE, content))
        try:
            async with asyncio.timeout(PAGE_S):
                return await asked
        except (TimeoutError, ConnectionError):
            return None

    async def follow(self, connected: socket.socket, listener: PeerListener) -> None:
        """Read its messages until the connection ends. Raises OSError, EOFError, ValueError."""
        reader, self._writer = await asyncio.open_unix_connection(sock=connected)
        try:
            self._writer.write(frame(Kind.WELCOME))
            while True:
                kind, content = await read(reader)
                self._take(kind, content, listener)
        finally:
            self._writer.close()
            self._writer = None
            for asked in self._asked:
                if not asked.done():
                    asked.set_exception(ConnectionError())

    def _take(self, kind: Kind, content: Any, listener: PeerListener) -> None:
        if kind is Kind.READY:
            self.addresses = str(content["addresses"])
            listener.served(self)
        elif kind is Kind.MISSING:
            self.missing = [str(each) for each in content["missing"]]
        elif kind is Kind.PAGE and self._asked:
            asked = self._asked.popleft()
            if not asked.done():
                asked.set_result(content)

    def close(self) -> None:
        self.ticks.close()


class Peers:
    """Accepts connections of shards."""

    def __init__(self, loop: asyncio.AbstractEventLoop, address: str, listener: PeerListener, count: int) -> None:
        """Raises OSError."""
        self._loop = loop
        self._listener = listener
        self._count = count
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
        self._socket.bind(address)
        self._socket.listen(BACKLOG)
        self._again: asyncio.TimerHandle | None = None
        self._listen()

    def close(self) -> None:
        if self._again is not None:
            self._again.cancel()
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        for task in self._tasks:
            task.cancel()

    def _accept(self) -> None:
        try:
            connected, _ = self._socket.accept()
        except (BlockingIOError, ConnectionError):
            return
        except OSError as error:
            # Too many open files, most likely: it would be reported in each turn of the loop.
            LOGGER.warning("cannot accept a shard's connection", extra=facts(error=str(error)))
            self._loop.remove_reader(self._socket.fileno())
            self._again = self._loop.call_later(ACCEPT_AGAIN_S, self._listen)
            return
        connected.setblocking(False)
        task = self._loop.create_task(self._serve(connected))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _listen(self) -> None:
        self._loop.add_reader(self._socket.fileno(), self._accept)

    async def _serve(self, connected: socket.socket) -> None:
        peer = None
        try:
            peer = await self._hello(connected)
            self._listener.hello(peer)
            await peer.follow(connected, self._listener)
        except EOFError:
            pass  # it has ended, which its pidfd reports, or it has closed the connection, and connects again
        except (OSError, ValueError, KeyError, TypeError) as error:
            LOGGER.warning("the connection to a shard failed", extra=facts(reason=error))
        finally:
            connected.close()

    async def _hello(self, connected: socket.socket) -> Peer:
        """Raises OSError, ValueError, KeyError, TypeError."""
        pid, uid, _ = _CREDENTIALS.unpack(
            connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid != os.getuid():
            raise ValueError(f"process {pid} of another user (uid {uid}) says that it is a shard")
        readable: asyncio.Future[None] = self._loop.create_future()

        def is_readable() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(connected.fileno(), is_readable)
        try:
            async with asyncio.timeout(HELLO_S):
                await readable
        finally:
            self._loop.remove_reader(connected.fileno())
        # The descriptor comes with the first byte.
        data, fds, _, _ = socket.recv_fds(connected, HEADER.size, 1)
        try:
            async with asyncio.timeout(HELLO_S):
                while left := missing(data):
                    part = await self._loop.sock_recv(connected, left)
                    if not part:
                        raise EOFError
                    data += part
            kind, said = parse(data)
            if kind is not Kind.HELLO or len(fds) != 1 or not 0 <= said["shard"] < self._count:
                raise ValueError(f"process {pid} did not say hello: {said}")
            return Peer(int(said["shard"]), pid, str(said["settings"]), Ticks(fds[0]))
        finally:
            for fd in fds:
                os.close(fd)
