"""The parent of the shards of one host: it carries out the decisions of `supervisor`.

A small process with asyncio's own loop. It reads the shards' ticks ten times a second and waits for pidfds. It has no
other work unless a shard ends or metrics are requested.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.logs import facts
from broker_cy.core.supervision import (
    AllReady,
    Clock,
    Exit,
    Kill,
    Phase,
    Ready,
    Restarting,
    Spawn,
    SpawnFailed,
    Started,
    StopAsked,
    Terminate,
)
from broker_cy.metrics import process
from broker_cy.server.ready_line import ReadyLine
from broker_cy.server.service_manager import ServiceManager
from broker_cy.shards import children
from broker_cy.shards.companions import Companion, Companions
from broker_cy.shards.event_queue import EventQueue
from broker_cy.shards.link import digest
from broker_cy.shards.merge import Merger
from broker_cy.shards.peers import Peer, Peers
from broker_cy.shards.stillness import LOOK_MS, Stillness
from broker_cy.shards.supervisor import Action, Ended, Event, Hello, ShardSupervisor, Still, TellEnded

if TYPE_CHECKING:
    from broker_cy.config.shard_plan import Plan
    from broker_cy.shards.children import Child
    from broker_cy.shards.node_directory import NodeDirectory
    from broker_cy.telemetry.metrics_http import MetricsServer

LOGGER = logging.getLogger("broker_cy.shards")

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Parent:
    """`run` from start to stop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        plan: Plan,
        directory: NodeDirectory,
        running: dict[int, Child],
        ready: ReadyLine,
        companions: Sequence[Companion] = (),
    ) -> None:
        """`running` are the shards to adopt, `companions` the programs beside them."""
        self._loop = loop
        self._plan = plan
        self._directory = directory
        self._children = running
        self._ready = ready
        self._wanted_companions = companions
        self._companions: Companions | None = None
        count = len(plan.shards)
        self._supervisor = ShardSupervisor(count, has_controller=plan.has_controller)
        self._peers: dict[int, Peer] = {}
        self._stillness: dict[int, Stillness] = {}
        self._starts = [0] * count
        self._kills = [0] * count
        self._events: EventQueue[Event, Action] = EventQueue(loop, self._supervisor, self._do, Clock())
        self._look_timer: asyncio.TimerHandle | None = None
        self._done: asyncio.Future[int] = loop.create_future()
        self._manager = ServiceManager(os.environ, MACHINE_CLOCK)
        self._loaded = 0
        self._merger = Merger()
        # One page at a time: pages of two processes of a shard have to be noted in order.
        self._merging = asyncio.Lock()
        self._metrics: MetricsServer | None = None

    # --- life

    async def run(self) -> int:
        """Returns the exit code. Raises OSError, ListenError."""
        address, fd = self._directory.socket_address()
        try:
            peers = Peers(self._loop, address, self, len(self._plan.shards))
        finally:
            os.close(fd)
        try:
            self._bind_metrics()
            for number in SIGNALS:
                # A process that was started with nohup keeps ignoring SIGHUP.
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._loop.add_signal_handler(number, self._stop_asked)
            for shard, child in self._children.items():
                LOGGER.info("adopting a shard that runs", extra=facts(shard=shard, process=child.pid))
                self._watch(shard, child)
            running = {each: child.pid for each, child in self._children.items()}
            self._events.begin(self._supervisor.begin(running, self._events.now_ms()))
            self._look()
            code = await self._done
            if self._companions is not None:
                await self._companions.stop()
            return code
        finally:
            self._events.close()
            if self._look_timer is not None:
                self._look_timer.cancel()
            peers.close()
            if self._metrics is not None:
                await self._metrics.stop()
            self._manager.close()

    def _stop_asked(self) -> None:
        if not self._supervisor.is_stopping:
            LOGGER.info("stopping the shards")
            self._manager.stopping()
            if self._companions is not None:
                self._companions.ask_to_stop()
            self._events.take(StopAsked())

    # --- events and actions

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Spawn(shard):
                    self._spawn(shard)
                case Terminate(shard, pid, why):
                    LOGGER.info("stopping a shard", extra=facts(shard=shard, process=pid, reason=why))
                    self._signal(shard, pid, signal.SIGTERM)
                case Kill(shard, pid, why):
                    LOGGER.error("killing a shard", extra=facts(shard=shard, process=pid, reason=why))
                    self._kills[shard] += 1
                    self._signal(shard, pid, signal.SIGKILL)
                case Restarting(shard, pid, code, delay_ms):
                    reason = children.reason_of(code)
                    LOGGER.warning(
                        "a shard has ended; it is started again",
                        extra=facts(shard=shard, process=pid, reason=reason, after_ms=delay_ms),
                    )
                case TellEnded(shard, epoch):
                    for other, peer in self._peers.items():
                        if other != shard:
                            peer.tell_ended(int(self._plan.shards[shard]["node.id"]), epoch)
                case AllReady():
                    self._all_ready()
                case Exit(code):
                    self._done.set_result(code)

    def _spawn(self, shard: int) -> None:
        try:
            child = children.spawn(children.command(shard), os.environ)
        except OSError as error:
            LOGGER.error("could not start a shard", extra=facts(shard=shard, reason=error))
            self._events.take(SpawnFailed(shard))
            return
        try:
            self._directory.note(shard, child.pid)
        except OSError as error:
            # A full disk, for instance. The shard still serves clients.
            LOGGER.warning("another parent would not find this shard", extra=facts(shard=shard, reason=error))
        self._starts[shard] += 1
        self._children[shard] = child
        self._watch(shard, child)
        self._events.take(Started(shard, child.pid))

    def _watch(self, shard: int, child: Child) -> None:
        self._stillness[shard] = Stillness(self._plan.session_timeout_ms)
        self._loop.add_reader(child.pidfd, self._ended, shard, child)

    def _ended(self, shard: int, child: Child) -> None:
        self._loop.remove_reader(child.pidfd)
        code = child.exit_code()
        child.close()
        del self._children[shard]
        try:
            self._directory.forget(shard)
        except OSError as error:
            # The next parent sees that this process no longer runs.
            LOGGER.warning("the note of a shard's process stays", extra=facts(shard=shard, error=str(error)))
        epoch = -1
        peer = self._peers.get(shard)
        if peer is not None and peer.pid == child.pid:
            epoch = peer.ticks.epoch
            del self._peers[shard]
            peer.close()
        if self._supervisor.is_stopping:
            LOGGER.info(
                "a shard has ended", extra=facts(shard=shard, process=child.pid, reason=children.reason_of(code))
            )
        self._events.take(Ended(shard, child.pid, code, epoch))

    def _signal(self, shard: int, pid: int, number: signal.Signals) -> None:
        child = self._children.get(shard)
        if child is not None and child.pid == pid:
            child.signal(number)
            return
        # Another process that connected as this shard: the kernel reported its id.
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)

    # --- messages of shards (peers.PeerListener)

    def hello(self, peer: Peer) -> None:
        """A process has connected as a shard."""
        child = self._children.get(peer.shard)
        if child is not None and child.pid == peer.pid:
            former = self._peers.get(peer.shard)
            if former is not None:
                former.close()
            self._peers[peer.shard] = peer
        is_current = peer.settings == digest(self._plan.shards[peer.shard])
        if not is_current and child is not None and not self._supervisor.slots[peer.shard].adopted:
            LOGGER.warning(
                "the settings were changed since this node was started: restart it, so that all shards have them",
                extra=facts(shard=peer.shard),
            )
        self._events.take(Hello(peer.shard, peer.pid, is_current))

    def served(self, peer: Peer) -> None:
        """It serves clients."""
        self._events.take(Ready(peer.shard, peer.pid))

    def _all_ready(self) -> None:
        addresses = ", ".join(peer.addresses for _, peer in sorted(self._peers.items()))
        metrics = None if self._metrics is None else self._metrics.url
        self._ready.print(addresses.split(", "), metrics)
        self._manager.ready(self._loop, f"ready on {addresses}")
        if self._wanted_companions:
            self._companions = Companions(self._loop, self._wanted_companions, addresses.split(", ")[0])
            self._companions.start()

    # --- ticks

    def _look(self) -> None:
        """Look at the ticks of all shards."""
        self._look_timer = self._loop.call_later(LOOK_MS / 1000, self._look)
        now_ms = self._events.now_ms()
        loaded = 0
        for shard, child in list(self._children.items()):
            peer = self._peers.get(shard)
            count = 0
            if peer is not None and peer.pid == child.pid:
                count = peer.ticks.count
                loaded += peer.ticks.loaded
            stillness = self._stillness[shard]
            if not stillness.look(now_ms, count):
                continue
            threads = children.threads(child.pid)
            is_ready = self._supervisor.slots[shard].phase is Phase.READY
            why = None if threads is None else stillness.judge(threads, ticks=is_ready)
            if why is not None:
                self._stillness[shard] = Stillness(self._plan.session_timeout_ms)
                self._events.take(Still(shard, child.pid, why))
        if loaded > self._loaded and not self._supervisor.is_ready:
            self._loaded = loaded
            self._manager.loading(loaded)

    # --- metrics

    def _bind_metrics(self) -> None:
        """Raises ListenError."""
        if not self._plan.metrics:
            return
        # Imported here, because a parent that serves no metrics does not need these modules.
        from broker_cy.telemetry.metrics_access import access_of
        from broker_cy.telemetry.metrics_address import metrics_address
        from broker_cy.telemetry.metrics_http import MetricsServer
        from broker_cy.telemetry.node_pages import Pages

        access = access_of(self._plan.metrics_access, self._loop.time)
        address = metrics_address(self._plan.metrics)
        pages = Pages(self._share_group, self._mirrors)
        self._metrics = MetricsServer.bind(self._loop, *address, self._page, self._missing, access, pages)
        self._metrics.start()

    def _missing(self) -> list[str]:
        if self._supervisor.is_stopping:
            return ["the broker is stopping"]
        found = []
        for shard, slot in enumerate(self._supervisor.slots):
            peer = self._peers.get(shard)
            if slot.phase is not Phase.READY or peer is None:
                found.append(f"shard {shard} does not serve")
            else:
                found += [f"shard {shard}: {each}" for each in peer.missing]
        return found

    async def _page(self, topics: frozenset[str] | None) -> bytes:
        async with self._merging:
            return await self._merged(topics)

    async def _merged(self, topics: frozenset[str] | None) -> bytes:
        peers = [peer for shard, peer in sorted(self._peers.items()) if self._is_served(shard)]
        answers = await asyncio.gather(*(peer.page(topics) for peer in peers))
        pages = {peer: page for peer, page in zip(peers, answers, strict=True) if page is not None}
        if topics is not None:
            by_shard = {peer.shard: page for peer, page in pages.items()}
            return await self._loop.run_in_executor(None, Merger.merge, by_shard)
        running = {peer.shard: True for peer in pages}
        own = self._own_metrics()

        def merge() -> bytes:
            for peer, page in pages.items():
                self._merger.note(peer.shard, peer.pid, page)
            return self._merger.render(running, own)

        # In a thread, because it takes long with many partitions, and the parent has to look at ticks.
        return await self._loop.run_in_executor(None, merge)

    async def _share_group(self, group_id: str) -> bytes:
        from broker_cy.share_service.in_flight_page import merged

        peers = [peer for shard, peer in sorted(self._peers.items()) if self._is_served(shard)]
        answers = await asyncio.gather(*(peer.share_group(group_id) for peer in peers))
        pages = [page for page in answers if page is not None]
        return await self._loop.run_in_executor(None, merged, pages)

    async def _mirrors(self) -> bytes:
        from broker_cy.replication.mirror_view import merged

        peers = [peer for shard, peer in sorted(self._peers.items()) if self._is_served(shard)]
        answers = await asyncio.gather(*(peer.mirrors() for peer in peers))
        pages = [page for page in answers if page is not None]
        return await self._loop.run_in_executor(None, merged, pages)

    def _is_served(self, shard: int) -> bool:
        return self._supervisor.slots[shard].phase is Phase.READY

    def _own_metrics(self) -> dict[str, dict[int | None, int | float]]:
        stats = process.read()
        shards = range(len(self._plan.shards))
        return {
            "broker_cy_shard_up": {shard: int(self._is_served(shard)) for shard in shards},
            "broker_cy_shard_starts_total": {shard: self._starts[shard] for shard in shards},
            "broker_cy_shard_kills_total": {shard: self._kills[shard] for shard in shards},
            "broker_cy_parent_cpu_seconds_total": {None: stats.cpu_s},
            "broker_cy_parent_resident_memory_bytes": {None: stats.resident_bytes},
        }


def run(
    loop: asyncio.AbstractEventLoop,
    plan: Plan,
    directory: NodeDirectory,
    running: dict[int, Child],
    ready: ReadyLine,
    companions: Sequence[Companion] = (),
) -> int:
    """Run the shards until a signal arrives and all have stopped. Returns the code. Raises OSError, ListenError."""
    began = time.monotonic()
    code = loop.run_until_complete(Parent(loop, plan, directory, running, ready, companions).run())
    LOGGER.info("stopped", extra=facts(code=code, seconds=f"{time.monotonic() - began:.2f}"))
    return code
