"""Watches the brokers of the cluster by a connection to each: a killed process closes its sockets immediately, long
before its session ends.

Every node has one idle connection to each unfenced broker, and one to the active controller. When the connection ends,
the node suspects the broker (control.watch.suspects), and connects again immediately:

    accepted, and stays   the process runs: the suspicion ends
    refused               on all of its listeners, twice: no process listens where this incarnation listened
    anything else         decides nothing: a network that loses packets, or a host that does not answer

A process that is ending closes its connections before its listeners, and may accept others in between: only a
connection that stays for a moment shows that the process runs.

Only certainty fences: a timeout never does. A broker of this kind that stands still leaves probes unanswered
(liveness); controllers probe all brokers, and all nodes probe the active controller. Other brokers are left to their
sessions. A refusal is certain if no other host can have sent it. This holds for a broker whose last connection had this
host at both ends: it is dead. A broker elsewhere is `refused` and tried again as long as it refuses; the controller
judges the reports of the nodes (controller.refused_connections). A broker that this node was never connected to is
neither dead nor refused, because its address may be unreachable for every node.

The state of a broker is kept until its registration changes, for a node that becomes the active controller. The quorum
is informed of the end of its leader (step.LeaderGone), even if another host refused: its voters judge by pre-votes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Final

from broker_cy.client.address import Address
from broker_cy.client.connection import Connection, ConnectionFailed, ConnectionRefused, TimedOut, open_connection
from broker_cy.client.deadline import Deadline
from broker_cy.control.watch.liveness import Liveness
from broker_cy.core.classes import NamedTuple
from broker_cy.core.logs import facts
from broker_cy.core.supervision import keep_running
from broker_cy.quorum.election_state import NO_LEADER

if TYPE_CHECKING:
    from broker_cy.client.outgoing import Outgoing
    from broker_cy.metadata.image import ImageDelta, MetadataImage

LOGGER = logging.getLogger("broker_cy.server.metadata")

# The result of `BrokerWatch.reports` without reports.
NOTHING: Final[Mapping[int, int]] = {}
# The limit of one attempt to connect.
CONNECT_S: Final = 2.0
# The pause between undecided attempts, and the longest pause after connections that lasted shorter than that.
RETRY_S: Final = 1.0
# The pause between the two refusals of a verdict, and how long a connection must last to count.
AGAIN_S: Final = 0.01
# The pause between the verdict on a broker elsewhere and the next attempt: a controller that decides alone needs it.
ALONE_S: Final = 0.06
# After so many short connections the pause does not grow.
SHORT_MAX: Final = 6
# After so many attempts in a row, the log names a node that never had a lasting connection.
UNREACHED: Final = 3


class Found(Enum):
    """The result of an attempt to connect to all listeners of a node."""

    REFUSED = "refused"
    ACCEPTED = "accepted"
    UNKNOWN = "unknown"


class Watched(NamedTuple):
    """An incarnation of a node: `addresses` are all that it listens on, the first one is connected to."""

    node_id: int
    epoch: int
    addresses: tuple[Address, ...]
    outgoing: Outgoing
    on_suspect: Callable[[int, int], None]
    on_clear: Callable[[int], None]
    on_silent: Callable[[int, int, bool], None]


def _nobody(*_: int) -> None:
    """Do nothing: this event has no listener."""


class BrokerWatch:
    """`apply` follows the registrations, `lead` the leader of the quorum. By broker, with its epoch: `dead` are
    certainly dead, `refused` refuse connections on another host, `cut` had a connection that ended, `silent` stand
    still.

    Each broker of the cluster, and the leader, has one task and one connection.
    """

    def __init__(
        self,
        node_id: int,
        loop: asyncio.AbstractEventLoop,
        listener: str,
        to_brokers: Outgoing,
        to_controllers: Outgoing,
        on_suspect: Callable[[int, int], None],
        on_clear: Callable[[int], None],
        on_dead: Callable[[Mapping[int, int]], None],
        on_refused: Callable[[int, int, bool], None],
        on_leader_gone: Callable[[int, int], None],
        on_silent: Callable[[int, int], None],
        *,
        broker_interval_ms: int | None = None,
        leader_interval_ms: int = 0,
    ) -> None:
        """`listener` is the name of the inter-broker listener. `on_suspect(broker_id, epoch)`: it is probably gone;
        `on_clear(broker_id)`: it is not; `on_dead(epochs)`: these brokers, by id, are gone; `on_refused(broker_id,
        epoch, is_new)`: this broker refuses connections, or, unless `is_new`, the report must be repeated;
        `on_leader_gone(node_id, epoch)`: the leader of this epoch of the quorum is gone, or stands still;
        `on_silent(broker_id, epoch)`: this broker stands still. `broker_interval_ms` and `leader_interval_ms` are the
        intervals of the probes; 0: only ask for the kind of node; None: no probe.
        """
        self.dead: dict[int, int] = {}
        self.refused: dict[int, int] = {}
        self.cut: dict[int, int] = {}
        self.silent: dict[int, int] = {}
        self._node_id = node_id
        self._loop = loop
        self._listener = listener
        self._to_brokers = to_brokers
        self._to_controllers = to_controllers
        # To find out whether a process listens.
        self._plain = replace(to_brokers, login=None)
        self._on_suspect = on_suspect
        self._on_clear = on_clear
        self._on_dead = on_dead
        self._on_refused = on_refused
        self._on_leader_gone = on_leader_gone
        self._tasks: dict[int, tuple[int, asyncio.Task[None]]] = {}  # by broker, with its epoch
        self._on_silent = on_silent
        self._broker_interval_ms = broker_interval_ms
        self._leader_interval_ms = leader_interval_ms
        self._asked: dict[int, tuple[int, Liveness]] = {}  # by broker, with its epoch
        self._leader: tuple[int, int] | None = None
        self._leader_task: asyncio.Task[None] | None = None
        self._is_leader_ours = False

    @property
    def reports(self) -> Mapping[int, int]:
        """The brokers that refuse connections, with their epochs, for an active controller of this kind."""
        return self.refused if self._is_leader_ours else NOTHING

    @property
    def strangers(self) -> frozenset[int]:
        """The brokers of another kind, which report nothing."""
        return frozenset(each for each, (_, asked) in self._asked.items() if asked.is_ours is False)

    def apply(self, delta: ImageDelta, image: MetadataImage) -> None:
        """The committed metadata have changed."""
        for broker_id in delta.brokers:
            broker = image.brokers.get(broker_id)
            if broker is None or broker.fenced or broker_id == self._node_id:
                if broker is None:
                    self._asked.pop(broker_id, None)
                self._forget(broker_id)
                continue
            watched = self._tasks.get(broker_id)
            if watched is None or watched[0] != broker.epoch:
                self._forget(broker_id)
                own = broker.listeners.get(self._listener)
                if own is None:
                    continue
                every = [own, *(each for each in broker.listeners.values() if each is not own)]
                addresses = tuple(Address(each.host, each.port) for each in every)
                watched_now = Watched(
                    broker_id,
                    broker.epoch,
                    addresses,
                    self._to_brokers,
                    self._note_cut,
                    self._on_clear,
                    self._note_silent,
                )
                task = keep_running(
                    self._loop, partial(self._watch_broker, watched_now), f"the watch of broker {broker_id}"
                )
                self._tasks[broker_id] = (broker.epoch, task)

    def lead(self, leader_id: int, epoch: int, address: Address | None) -> None:
        """The quorum has this leader, NO_LEADER or this node included, which listens at `address`."""
        if self._leader == (leader_id, epoch):
            return
        self._leader = (leader_id, epoch)
        self._is_leader_ours = False
        if self._leader_task is not None:
            self._leader_task.cancel()
            self._leader_task = None
        if leader_id not in (NO_LEADER, self._node_id) and address is not None:
            watched = Watched(leader_id, epoch, (address,), self._to_controllers, _nobody, _nobody, self._leader_silent)
            self._leader_task = keep_running(
                self._loop, partial(self._watch_leader, watched), f"the watch of controller {leader_id}"
            )

    def process_ended(self, broker_id: int, epoch: int) -> bool:
        """The parent of a shard reports that this incarnation of it has ended: that is certain. Returns whether it was
        watched, and is dead from now on.
        """
        watched = self._tasks.get(broker_id)
        if watched is None or watched[0] != epoch or self.dead.get(broker_id) == epoch:
            return False
        watched[1].cancel()
        self._note_dead(broker_id, epoch)
        return True

    async def stop(self) -> None:
        """Stop watching."""
        tasks = [task for _, task in self._tasks.values()]
        if self._leader_task is not None:
            tasks.append(self._leader_task)
        self.lead(NO_LEADER, -1, None)
        for broker_id in list(self._tasks):
            self._forget(broker_id)
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, broker_id: int) -> None:
        for known in (self.dead, self.refused, self.cut, self.silent):
            known.pop(broker_id, None)
        watched = self._tasks.pop(broker_id, None)
        if watched is not None:
            watched[1].cancel()

    async def _watch_broker(self, watched: Watched) -> None:
        liveness = None
        if self._broker_interval_ms is not None:
            # The same incarnation may have been fenced and unfenced: keep its state.
            known = self._asked.get(watched.node_id)
            if known is None or known[0] != watched.epoch:
                known = (watched.epoch, Liveness(self._loop, self._broker_interval_ms))
                self._asked[watched.node_id] = known
            liveness = known[1]
        broker_id, epoch = watched.node_id, watched.epoch
        while True:
            is_here = await self._watch(watched, liveness)
            if self.dead.get(broker_id) == epoch:
                return
            if is_here:
                LOGGER.warning("a broker is gone: its port refuses connections", extra=facts(broker=broker_id))
                self._note_dead(broker_id, epoch)
                return
            LOGGER.warning("a broker on another host refuses connections", extra=facts(broker=broker_id))
            await self._while_refused(watched)

    async def _while_refused(self, watched: Watched) -> None:
        """A broker on another host refuses connections: report that until it takes one."""
        broker_id, epoch = watched.node_id, watched.epoch
        self.refused[broker_id] = epoch
        self._on_refused(broker_id, epoch, True)
        await asyncio.sleep(ALONE_S)
        while (found := await self._try(watched.addresses)) is not Found.ACCEPTED:
            if found is Found.REFUSED:
                self._on_refused(broker_id, epoch, False)
            await asyncio.sleep(RETRY_S)
        self.refused.pop(broker_id, None)

    def _note_dead(self, broker_id: int, epoch: int) -> None:
        self.dead[broker_id] = epoch
        self._on_dead({broker_id: epoch})

    async def _watch_leader(self, watched: Watched) -> None:
        await self._watch(watched, Liveness(self._loop, self._leader_interval_ms, self._leader_is_ours))
        LOGGER.warning("the active controller is gone: its port refuses connections", extra=facts(node=watched.node_id))
        self._on_leader_gone(watched.node_id, watched.epoch)

    def _leader_is_ours(self) -> None:
        self._is_leader_ours = True
        for broker_id, epoch in list(self.refused.items()):
            self._on_refused(broker_id, epoch, False)

    def _note_cut(self, broker_id: int, epoch: int) -> None:
        self.cut[broker_id] = epoch
        self._on_suspect(broker_id, epoch)

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

    async def _watch(self, watched: Watched, liveness: Liveness | None) -> bool:
        """Watch one incarnation of a node until it refuses connections. Returns whether its last connection had this
        host at both ends.
        """
        is_here: bool | None = None  # None: it was not connected
        short = 0  # connections that ended soon, one after the other
        unreached: int | None = 0  # attempts without such a connection; None: there was one
        while True:
            if unreached == UNREACHED:
                LOGGER.warning(
                    "a node in service is not reached at the address that it advertises: clients are not either",
                    extra=facts(
                        node=watched.node_id,
                        address=watched.addresses[0],
                        remedy="check its advertised.listeners, and firewalls and routes on the way",
                    ),
                )
            connection = await self._connect(watched.addresses[0], watched.outgoing)
            if connection is None:
                unreached = None if unreached is None else unreached + 1
                if is_here is not None and await self._refuses(watched.addresses):
                    return is_here
                await asyncio.sleep(RETRY_S)
                continue
            is_here = connection.is_local
            lasted_s = await self._follow(watched, connection, liveness)
            short = 0 if lasted_s >= RETRY_S else min(short + 1, SHORT_MAX)
            unreached = None if unreached is None or not short else unreached + 1
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
                watched.on_suspect(watched.node_id, watched.epoch)
        finally:
            connection.close()
        return self._loop.time() - began

    async def _connect(self, address: Address, outgoing: Outgoing) -> Connection | None:
        try:
            return await self._open(address, outgoing)
        except (ConnectionFailed, TimedOut):
            return None

    async def _open(self, address: Address, outgoing: Outgoing) -> Connection:
        """Raises ConnectionFailed and TimedOut."""
        name = f"broker-cy-{self._node_id}-watch"
        return await open_connection(address, name, Deadline(CONNECT_S), outgoing)

    async def _refuses(self, addresses: Sequence[Address]) -> bool:
        """Whether all addresses refuse connections, twice."""
        if await self._try(addresses) is not Found.REFUSED:
            return False
        await asyncio.sleep(AGAIN_S)
        return await self._try(addresses) is Found.REFUSED

    async def _try(self, addresses: Sequence[Address]) -> Found:
        """Connect to each address, until one does not refuse it."""
        for address in addresses:
            try:
                connection = await self._open(address, self._plain)
            except ConnectionRefused:
                continue
            except (ConnectionFailed, TimedOut):
                return Found.UNKNOWN
            connection.close()
            return Found.ACCEPTED
        return Found.REFUSED
