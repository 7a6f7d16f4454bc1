"""Supervision of the demo's processes: it kills and restarts them, and reports that."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from broker_cy.admin import ClientError
from broker_cy.core.supervision import Clock, Ended, Event, Limits, Ready, Restarting, Spawn, Started, Supervisor
from broker_cy.reporting.numbers import plural
from demo.nodes import Node
from demo.outage import Heartbeats
from demo.processes import START_TIMEOUT_S, STOP_TIMEOUT_S, DemoError, Process
from demo.setup import elect_preferred, heartbeats_of, is_in_sync
from demo.topics import CRASHING

# How often the processes are checked.
LOOK_S = 0.1
# A client that ends unexpectedly is restarted after this.
RESTART_S = 2.0
KILL_EVERY_S = 60.0
RESTART_AFTER_S = 10.0
# The interval of the check whether all replicas are in sync again.
SYNC_LOOK_S = 1.0


class Part(Protocol):
    """A supervised part of the demo."""

    def look(self, now_s: float) -> None:
        """Perform the actions that are due. Raises DemoError."""


def supervise(nodes: Sequence[Node], parts: Sequence[Part], stop: threading.Event) -> None:
    """Check every part until it is time to stop. Raises DemoError, also if a node exits by itself."""
    while not stop.wait(LOOK_S):
        for part in parts:
            part.look(time.monotonic())
        for node in nodes:
            if node.has_ended and not node.is_killed:
                raise DemoError(f"the {node.name} ended:\n{node.last_words()}")


class Crashes:
    """The running clients: one of them is killed now and then, and clients that have ended are restarted."""

    def __init__(self, clients: dict[str, Process], every_s: float, back_after_s: float) -> None:
        self._clients = tuple(clients.values())
        self._every_s = every_s
        self._back_after_s = back_after_s
        self._crashing = clients[CRASHING]
        self._is_killed = False
        now_s = time.monotonic()
        self._crash_at_s = now_s + every_s
        # Clients count as ready when they are started. The demo stops them itself.
        limits = Limits(_ms(START_TIMEOUT_S), _ms(START_TIMEOUT_S), _ms(STOP_TIMEOUT_S))
        self._supervisor = Supervisor(len(self._clients), limits, pause_ms=self._pause_ms)
        self._supervisor.begin({number: client.pid for number, client in enumerate(self._clients)}, _ms(now_s))
        for number, client in enumerate(self._clients):
            self._supervisor.take(Ready(number, client.pid), _ms(now_s))

    def look(self, now_s: float) -> None:
        if now_s >= self._crash_at_s and not self._crashing.has_ended:
            self._crashing.kill()
            self._is_killed = True
            self._crash_at_s = now_s + max(self._every_s, self._back_after_s)
            say(f"{CRASHING} crashed (kill -9)")
        for number, client in enumerate(self._clients):
            if client.has_ended and self._supervisor.slots[number].pid:
                self._take(Ended(number, client.pid, client.code), now_s)
        self._take(Clock(), now_s)

    def _take(self, event: Event, now_s: float) -> None:
        for action in self._supervisor.take(event, _ms(now_s)):
            match action:
                case Restarting(number):
                    self._ended(self._clients[number])
                case Spawn(number):
                    client = self._clients[number]
                    client.start()
                    self._take(Started(number, client.pid), now_s)
                    self._take(Ready(number, client.pid), now_s)
                    say(f"{client.name} was restarted")

    def _ended(self, client: Process) -> None:
        if client is self._crashing and self._is_killed:
            self._is_killed = False
            return
        say(f"{client.name} ended unexpectedly: {client.log_path}\n{client.last_words()}")

    def _pause_ms(self, number: int, failures: int) -> int:
        is_crash = self._clients[number] is self._crashing and self._is_killed
        return _ms(self._back_after_s if is_crash else RESTART_S)


class Outages:
    """The nodes: one after the other is killed and restarted. The next one is killed when every replica is in sync
    again.
    """

    def __init__(
        self, nodes: Sequence[Node], bootstrap: str, every_s: float, back_after_s: float, stop: threading.Event
    ) -> None:
        self._bootstrap = bootstrap
        self._every_s = every_s
        self._back_after_s = back_after_s
        self._stop = stop
        self._turns = itertools.cycle(nodes)
        self._away: Node | None = None
        self._is_noticed = True
        self._is_synced = True
        # The time of the next kill, restart or check of the replicas.
        self._due_s = time.monotonic() + every_s
        self._heartbeats = Heartbeats(bootstrap, heartbeats_of(len(nodes)))
        self._heartbeats.start()

    def close(self) -> None:
        self._heartbeats.close()

    def look(self, now_s: float) -> None:
        self._notice()
        if now_s < self._due_s:
            return
        if self._away is not None:
            self._restart(self._away)
        elif not self._is_synced:
            self._look_at_replicas()
        elif self._is_noticed:
            self._kill(next(self._turns))

    def _kill(self, node: Node) -> None:
        if not self._in_sync():
            # The quorum and the in-sync sets would not survive the loss of a second node.
            self._due_s = time.monotonic() + SYNC_LOOK_S
            return
        self._heartbeats.watch()
        node.is_killed = True
        node.kill()
        self._heartbeats.killed()
        self._away, self._is_noticed, self._is_synced = node, False, False
        self._due_s = time.monotonic() + self._back_after_s
        say(f"{node.name} was killed (kill -9)")

    def _notice(self) -> None:
        gaps = None if self._is_noticed else self._heartbeats.noticed()
        if gaps is None:
            return
        self._is_noticed = True
        longest_s, partition = gaps.worst
        failed = f", {plural(gaps.errors, 'error')}, the last: {gaps.error}" if gaps.errors else ", no errors"
        say(f"clients went on: at most {longest_s:.2f} s without an acknowledgement (heartbeats-{partition}){failed}")

    def _restart(self, node: Node) -> None:
        node.start()
        node.ready_line = node.wait_until_ready(self._stop, time.monotonic() + START_TIMEOUT_S)
        node.is_killed = False
        self._away = None
        self._due_s = time.monotonic()
        say(f"{node.name} was restarted")

    def _look_at_replicas(self) -> None:
        self._due_s = time.monotonic() + SYNC_LOOK_S
        if not self._in_sync():
            return
        self._is_synced = True
        try:
            elected = asyncio.run(elect_preferred(self._bootstrap))
        except ClientError as error:
            say(f"the preferred leaders were not elected: {error}")
            elected = 0
        self._due_s = time.monotonic() + self._every_s
        say(f"every replica is in sync again; {plural(elected, 'partition')} went back to the preferred leader")

    def _in_sync(self) -> bool:
        try:
            return asyncio.run(is_in_sync(self._bootstrap))
        except ClientError:
            # The cluster is busy with the failover: the next check asks again.
            return False


def _ms(seconds: float) -> int:
    return round(seconds * 1_000)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)
