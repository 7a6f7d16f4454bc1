"""Programs beside the broker: `broker-cy start --with registry`. They start when the broker serves clients, are started
again when they end, and are stopped before the broker stops.

A program that cannot start, because of a wrong setting for instance, does not stop the broker: its reason is in the
log, and it is tried again, every ten seconds at the least.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Final

from broker_cy.core.classes import NamedTuple
from broker_cy.core.logs import facts
from broker_cy.core.supervision import (
    Action,
    Clock,
    Ended,
    Event,
    Exit,
    Greeted,
    Kill,
    Limits,
    Ready,
    Restarting,
    Spawn,
    SpawnFailed,
    Started,
    StopAsked,
    Supervisor,
    Terminate,
)
from broker_cy.server.ready_line import reached_at
from broker_cy.shards import children
from broker_cy.shards.children import Child
from broker_cy.shards.event_queue import EventQueue

LOGGER = logging.getLogger("broker_cy.companions")

STOP_MS: Final = 10_000
"""Until a program that was asked to end is killed: it finishes the requests that it has."""
# A program need not report that it has started.
_NO_LIMIT_MS: Final = 2**31
# The cluster that programs of this project use if no option and no file names one. The file of the program goes first.
_BOOTSTRAP: Final = "BROKER_CY_BOOTSTRAP"
_CLUSTER: Final = "BROKER_CY_CLUSTER"


class Companion(NamedTuple):
    """A program: its name, and its command line."""

    name: str
    command: Sequence[str]


class Companions:
    """`start` in a running loop, and `stop` there. `listener` is the address of the broker's first listener."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wanted: Sequence[Companion], listener: str) -> None:
        self._loop = loop
        self._wanted = wanted
        self._environment = environment_of(os.environ, reached_at(listener))
        limits = Limits(_NO_LIMIT_MS, _NO_LIMIT_MS, STOP_MS)
        self._supervisor = Supervisor(len(wanted), limits)
        self._children: dict[int, Child] = {}
        self._events: EventQueue[Event, Action] = EventQueue(loop, self._supervisor, self._do, Clock())
        self._ended: asyncio.Future[None] = loop.create_future()

    def start(self) -> None:
        self._events.begin(self._supervisor.begin({}, self._events.now_ms()))

    def ask_to_stop(self) -> None:
        """Ask all programs to end."""
        if not self._supervisor.is_stopping:
            self._events.take(StopAsked())

    async def stop(self) -> None:
        """Return when all programs have ended; one that does not end in time is killed."""
        self.ask_to_stop()
        await self._ended
        self._events.close()

    def _do(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Spawn(number):
                    self._spawn(number)
                case Terminate(number):
                    self._children[number].signal(signal.SIGTERM)
                case Kill(number, pid, why):
                    LOGGER.error("killing a program", extra=self._facts(number, process=pid, reason=why))
                    self._children[number].signal(signal.SIGKILL)
                case Restarting(number, pid, code, delay_ms):
                    reason = children.reason_of(code)
                    LOGGER.warning(
                        "a program has ended; it is started again",
                        extra=self._facts(number, process=pid, reason=reason, after_ms=delay_ms),
                    )
                case Exit():
                    self._ended.set_result(None)

    def _facts(self, number: int, **more: object) -> dict[str, object]:
        return facts(program=self._wanted[number].name, **more)

    def _spawn(self, number: int) -> None:
        try:
            child = children.spawn(self._wanted[number].command, self._environment, says_on_stderr=True)
        except OSError as error:
            LOGGER.error("could not start a program", extra=self._facts(number, reason=error))
            self._events.take(SpawnFailed(number))
            return
        LOGGER.info("started a program", extra=self._facts(number, process=child.pid))
        self._children[number] = child
        self._loop.add_reader(child.pidfd, self._on_end, number, child)
        self._events.take(Started(number, child.pid), Greeted(number, child.pid), Ready(number, child.pid))

    def _on_end(self, number: int, child: Child) -> None:
        self._loop.remove_reader(child.pidfd)
        code = child.exit_code()
        child.close()
        del self._children[number]
        if self._supervisor.is_stopping:
            LOGGER.info("a program has ended", extra=self._facts(number, reason=children.reason_of(code)))
        self._events.take(Ended(number, child.pid, code))


def environment_of(environment: Mapping[str, str], bootstrap: str) -> dict[str, str]:
    """Return the environment of programs beside a broker at this address."""
    found = {name: value for name, value in environment.items() if name != _CLUSTER}
    return {**found, _BOOTSTRAP: bootstrap}
