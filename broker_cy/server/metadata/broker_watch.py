"""Watches the brokers of the cluster by a connection to each: a process that is killed closes its sockets at once, long
before its session ends.

Every node has one idle connection to each unfenced broker, and one to the active controller. When it ends, the broker
is suspected (metadata.suspects), and is connected again at once:

    accepted, and stays   the process is there: suspect nobody
    refused               on all of its listeners, twice: no process listens where this incarnation listened; it is dead
    anything else         decides nothing: a network that loses packets, or a host that does not answer

A process that is ending closes its connections before its listeners, and may accept others in between: only a
connection that stays for a moment says that it is there.

Only certainty fences: a timeout never does. A broker of this kind that stands still leaves questions unanswered
(liveness); controllers ask all brokers, and all nodes ask the active controller. Others are left to their sessions. A
refusal is certain only where no other host can have answered it, so it counts only for a broker whose
last connection had this host at both ends; for others, two hosts would have to agree. A broker that this node was never
connected to is not dead, because it may be that nobody can reach it there.

Brokers that are known to be dead are kept until their registration changes, for a node that becomes the active
controller. The quorum is informed of the end of its leader (step.LeaderGone).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from broker_cy.client.address import Address
from broker_cy.client.connection import Connection, ConnectionFailed, ConnectionRefused, TimedOut, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.core.logs import facts
from broker_cy.quorum.election_state import NO_LEADER
from broker_cy.server.metadata.liveness import Liveness

if TYPE_CHECKING:
    from broker_cy.client.outgoing import Outgoing
    from broker_cy.metadata.image import ImageDelta, MetadataImage

LOGGER = logging.getLogger("broker_cy.server.metadata")

# Of one attempt to connect.
CONNECT_S: Final = 2.0
# Between attempts that decided nothing, and the longest pause after connections that lasted shorter than that.
RETRY_S: Final = 1.0
# Between the two refusals of a verdict, and how long a connection has to last so that it is one.
AGAIN_S: Final = 0.01
# After so many short connections the pause does not grow.
SHORT_MAX: Final = 6


class Watched(NamedTuple):
    """An incarnation of a node: `addresses` are all that it listens on, the first one is connected to."""

    node_id: int
    epoch: int
    addresses: tuple[Address, ...]
    on_suspect: Callable[[int], None]
    on_clear: Callable[[int], None]
    on_silent: Callable[[int, int, bool], None]


def _nobody(_: int) -> None:
    """Nobody is informed."""


class BrokerWatch:
    """`apply` follows the registrations, `lead` the leader of the quorum; `dead` has the epoch of each broker that is
    certainly dead.

    There is one task and one connection for each broker of the cluster, and one for the leader.
    """

    def __init__(
        self,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        listener: str,
        outgoing: Outgoing,
        on_suspect: Callable[[int], None],
        on_clear: Callable[[int], None],
        on_dead: Callable[[Mapping[int, int]], None],
        on_leader_gone: Callable[[int, int], None],
        on_silent: Callable[[int, int], None],
        *,
        broker_interval_ms: int = 0,
        leader_interval_ms: int = 0,
    ) -> None:
        """`listener` is the name of the inter-broker listener. `on_suspect(broker_id)`: it is probably gone;
        `on_clear(broker_id)`: it is not; `on_dead(epochs)`: these brokers, by id, are gone; `on_leader_gone(node_id,
        epoch)`: the leader of this epoch of the quorum is gone, or stands still; `on_silent(broker_id, epoch)`: this
        broker stands still. `broker_interval_ms` and `leader_interval_ms` are how often they are asked whether they
        run, 0: never.
        """
        self.dead: dict[int, int] = {}
        self.silent: dict[int, int] = {}  # the epoch of each broker that stands still
        self._node_id = node_id
        self._loop = loop
        self._listener = listener
        self._outgoing = outgoing
        self._on_suspect = on_suspect
        self._on_clear = on_clear
        self._on_dead = on_dead
        self._on_leader_gone = on_leader_gone
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # by broker, with its epoch
        self._on_silent = on_silent
        self._broker_interval_ms = broker_interval_ms
        self._leader_interval_ms = leader_interval_ms
        self._asked: dict[int, tuple[int, Liveness]] = {}  # by broker, with its epoch
        self._leader: tuple[int, int] | None = None
        self._leader_task: asyncio.Task[None] | None = None

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced or broker_id == self._node_id:
                self.dead.pop(broker_id, None)
                self.silent.pop(broker_id, None)
                if broker is None:
                    self._asked.pop(broker_id, None)
                self._forget(broker_id)
                continue
            watched = self._tasks.get(broker_id)
            if watched is None or watched[0] != broker.epoch:
                self.dead.pop(broker_id, None)
                self._forget(broker_id)
                own = broker.listeners.get(self._listener)
                if own is None:
                    continue
                every = [own, *(each for each in broker.listeners.values() if each is not own)]
                addresses = tuple(Address(each.host, each.port) for each in every)
                self.silent.pop(broker_id, None)
                watched_now = Watched(
                    broker_id, broker.epoch, addresses, self._on_suspect, self._on_clear, self._note_silent
                )
                task = self._loop.create_task(self._watch_broker(watched_now))
                self._tasks[broker_id] = (broker.epoch, task)

    def lead(self, leader_id: int, epoch: int, address: Address | None) -> None:
        """The quorum has this leader, NO_LEADER or this node included, which listens at `address`."""
        if self._leader == (leader_id, epoch):
            return
        self._leader = (leader_id, epoch)
        if self._leader_task is not None:
            self._leader_task.cancel()
            self._leader_task = None
        if leader_id not in (NO_LEADER, self._node_id) and address is not None:
            watched = Watched(leader_id, epoch, (address,), _nobody, _nobody, self._leader_silent)
            self._leader_task = self._loop.create_task(self._watch_leader(watched))

    def process_ended(self, broker_id: int, epoch: int) -> None:
        """The parent of a shard says that this incarnation of it has ended: that is certain."""
        watched = self._tasks.get(broker_id)
        if watched is not None and watched[0] == epoch and self.dead.get(broker_id) != epoch:
            watched[1].cancel()
            self._note_dead(broker_id, epoch)

    async def stop(self) -> None:
        """Watch nobody any longer."""
        tasks = [task for _, task in self._tasks.values()]
        if self._leader_task is not None:
            tasks.append(self._leader_task)
        self.lead(NO_LEADER, -1, None)
        for broker_id in list(self._tasks):
            self._forget(broker_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, broker_id: int) -> None:
        watched = self._tasks.pop(broker_id, None)
        if watched is not None:
            watched[1].cancel()

    async def _watch_broker(self, watched: Watched) -> None:
        liveness = None
        if self._broker_interval_ms:
            # The same incarnation may have been fenced and back: what is known of it counts.
            known = self._asked.get(watched.node_id)
            if known is None or known[0] != watched.epoch:
                known = (watched.epoch, Liveness(self._loop, self._broker_interval_ms))
                self._asked[watched.node_id] = known
            liveness = known[1]
        await self._watch(watched, liveness)
        broker_id, epoch = watched.node_id, watched.epoch
        if self.dead.get(broker_id) == epoch:
            return
        LOGGER.warning("a broker is gone: its port refuses connections", extra=facts(broker=broker_id))
        self._note_dead(broker_id, epoch)

    def _note_dead(self, broker_id: int, epoch: int) -> None:
        self.dead[broker_id] = epoch
        self._on_dead({broker_id: epoch})

    async def _watch_leader(self, watched: Watched) -> None:
        await self._watch(watched, Liveness(self._loop, self._leader_interval_ms) if self._leader_interval_ms else None)
        LOGGER.warning("the active controller is gone: its port refuses connections", extra=facts(node=watched.node_id))
        self._on_leader_gone(watched.node_id, watched.epoch)

    def _note_silent(self, broker_id: int, epoch: int, is_silent: bool) -> None:
        if is_silent:
            LOGGER.warning("a broker stands still: it leaves questions unanswered", extra=facts(broker=broker_id))
            self.silent[broker_id] = epoch
            self._on_silent(broker_id, epoch)
        else:
            self.silent.pop(broker_id, None)

    def _leader_silent(self, leader_id: int, epoch: int, is_silent: bool) -> None:
        if is_silent:
            LOGGER.warning("the active controller stands still", extra=facts(node=leader_id))
            self._on_leader_gone(leader_id, epoch)

    async def _watch(self, watched: Watched, liveness: Liveness | None) -> None:
        """Watch one incarnation of a node until it is dead."""
        was_here = False
        short = 0  # connections that ended soon, one after the other
        while True:
            connection = await self._connect(watched.addresses[0])
            if connection is None:
                if was_here and await self._refuses(watched.addresses):
                    return
                await asyncio.sleep(RETRY_S)
                continue
            was_here = connection.is_local
            lasted_s = await self._follow(watched, connection, liveness)
            short = 0 if lasted_s >= RETRY_S else min(short + 1, SHORT_MAX)
            if short:
                await asyncio.sleep(min(AGAIN_S * 2**short, RETRY_S))

    async def _follow(self, watched: Watched, connection: Connection, liveness: Liveness | None) -> float:
        """Wait for the end of the connection; returns how long it lasted, in seconds."""
        began = self._loop.time()
        try:
            await connection.ended(AGAIN_S)
            stayed = connection.closed is None
            if stayed:
                watched.on_clear(watched.node_id)
                if liveness is None:
                    await connection.ended()
                else:
                    await liveness.follow(
                        connection, lambda is_silent: watched.on_silent(watched.node_id, watched.epoch, is_silent)
                    )
                LOGGER.info("the connection to a node ended", extra=facts(node=watched.node_id))
                watched.on_suspect(watched.node_id)
        finally:
            connection.close()
        return self._loop.time() - began

    async def _connect(self, address: Address) -> Connection | None:
        try:
            return await self._open(address)
        except (ConnectionFailed, TimedOut):
            return None

    async def _open(self, address: Address) -> Connection:
        """Raises ConnectionFailed and TimedOut."""
        name = f"broker-cy-{self._node_id}-watch"
        return await open_connection(address, name, Deadline(CONNECT_S), self._outgoing)

    async def _refuses(self, addresses: Sequence[Address]) -> bool:
        """Whether all addresses refuse connections, twice."""
        for attempt in range(2):
            if attempt:
                await asyncio.sleep(AGAIN_S)
            for address in addresses:
                try:
                    connection = await self._open(address)
                except ConnectionRefused:
                    continue
                except (ConnectionFailed, TimedOut):
                    return False
                connection.close()
                return False
        return True
