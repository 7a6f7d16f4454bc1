"""A shard's connection to its parent: it counts ticks, answers questions, and learns of the end of other shards.

Without a parent (it was killed) the shard continues, and connects to the next one. The socket is opened by a short
path, /proc/self/fd/N/parent, because paths of sockets are limited to 107 bytes.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.shards.messages import Kind, Ticks, frame, read, receive

if TYPE_CHECKING:
    from broker_cy.server.lifecycle import BrokerServer

LOGGER = logging.getLogger("broker_cy.shards")

# The parent's directory below the data directory, and its socket.
PARENT_DIRECTORY: Final = ".shards"
SOCKET: Final = "parent"
# Between attempts to find a parent.
RETRY_S: Final = 0.5
# The parent's answer to a hello.
WELCOME_S: Final = 5.0


class Shard(NamedTuple):
    """This process is shard `number` of the node whose data directory is `root`; `settings` is their digest."""

    number: int
    root: str
    settings: str


def digest(properties: Mapping[str, str]) -> str:
    """Short, and different for different settings."""
    return hashlib.sha256(json.dumps(sorted(properties.items())).encode()).hexdigest()[:16]


class Link:
    """`connect` before the broker starts, `follow` when it serves."""

    def __init__(self, shard: Shard) -> None:
        """Raises OSError if there is no memory."""
        self._shard = shard
        fd = os.memfd_create("broker-cy-ticks", os.MFD_CLOEXEC)
        os.ftruncate(fd, Ticks.BYTES)
        self._fd = fd
        self._ticks = Ticks(fd)
        self._socket: socket.socket | None = None
        self._server: BrokerServer | None = None
        self._task: asyncio.Task[None] | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._missing: list[str] | None = None

    def connect(self) -> None:
        """Say hello to the parent that started this process. Without a parent nothing happens: it was killed."""
        try:
            self._socket = self._hello()
        except (OSError, ValueError) as error:
            LOGGER.warning("could not reach the parent of the shards; will retry", extra=facts(reason=error))

    def load(self, logs: int) -> None:
        """So many logs are loaded: the start takes its time."""
        self._ticks.load(logs)

    def follow(self, server: BrokerServer, addresses: str) -> None:
        """The broker serves clients at `addresses`."""
        self._server = server
        server.call_each_tick(self._tick)
        self._tick()
        self._task = keep_running(server.loop, partial(self._run, server, addresses), "the link to the parent")

    def _hello(self) -> socket.socket:
        """Raises OSError, ValueError."""
        directory = os.open(Path(self._shard.root) / PARENT_DIRECTORY, os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            made.settimeout(WELCOME_S)
            made.connect(f"/proc/self/fd/{directory}/{SOCKET}")
            said = {"shard": self._shard.number, "pid": os.getpid(), "settings": self._shard.settings}
            socket.send_fds(made, [frame(Kind.HELLO, said)], [self._fd])
            if receive(made.recv)[0] is not Kind.WELCOME:
                raise ValueError("the parent did not welcome this shard")
            made.setblocking(False)
        except (OSError, ValueError):
            made.close()
            raise
        finally:
            os.close(directory)
        return made

    def _tick(self) -> None:
        server = self._server
        if server is None:
            return
        self._ticks.tick(server.broker.controller.broker_epoch)
        missing = server.missing()
        if missing != self._missing and self._writer is not None:
            self._missing = missing
            self._writer.write(frame(Kind.MISSING, {"missing": missing}))

    async def _run(self, server: BrokerServer, addresses: str) -> None:
        """Follow one parent after the other."""
        while True:
            if self._socket is None:
                try:
                    # The parent answers immediately, or not at all; a thread waits for it.
                    self._socket = await server.loop.run_in_executor(None, self._hello)
                    LOGGER.info("connected to another parent of the shards")
                except (OSError, ValueError):
                    await asyncio.sleep(RETRY_S)
                    continue
            try:
                await self._follow(server, self._socket, addresses)
            except (OSError, EOFError, ValueError) as error:
                reason = "it closed the connection" if isinstance(error, EOFError) else error
                LOGGER.warning("lost the parent of the shards; the shard goes on without", extra=facts(reason=reason))
            self._socket = None

    async def _follow(self, server: BrokerServer, connected: socket.socket, addresses: str) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=connected)
        try:
            writer.write(frame(Kind.READY, {"addresses": addresses}))
            self._writer, self._missing = writer, None
            while True:
                kind, content = await read(reader)
                if kind is Kind.ENDED:
                    ended = server.broker.controller.ended_brokers
                    ended.process_ended(int(content["broker"]), int(content["epoch"]))
                elif kind is Kind.ASK_PAGE:
                    writer.write(frame(Kind.PAGE, await _page(server, content)))
                    await writer.drain()
        finally:
            self._writer = None
            writer.close()


async def _page(server: BrokerServer, asked: dict[str, Any]) -> bytes:
    """The page of metrics, of a share group, or of mirrors."""
    if "mirrors" in asked:
        return await server.mirrors_page()
    if (group_id := asked.get("share_group")) is not None:
        return await server.share_group_page(str(group_id))
    topics = asked["topics"]
    return await server.page(None if topics is None else frozenset(topics))
