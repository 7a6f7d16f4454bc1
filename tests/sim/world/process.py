"""A process of a program other than a broker, on a machine of its own: real code over the simulated network. It has no
disk. It ends at any time, stands still, or is stopped, and another one starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.sim.world.clock import MachineClock
from tests.sim.world.loop import SimLoop
from tests.sim.world.outgoing import Outgoing

if TYPE_CHECKING:
    from tests.sim.world.world import World

# A killed process starts again, or another one, after one of these times.
RESTARTS_US = (0, 300_000, 2_000_000)
# A stopped process ends within this time: as its supervisor, the world kills it then.
STOP_US = 5_000_000


def running_in(world: World) -> Program:
    """The process whose loop runs now."""
    loop = asyncio.get_running_loop()
    return next(each for each in world.processes.values() if each.loop is not None and each.loop.as_loop is loop)


async def connect_from(
    world: World, protocol: asyncio.BufferedProtocol, host: str, port: int, tls: object = None
) -> None:
    """A connection of the process whose loop runs now."""
    await Outgoing(running_in(world), protocol, host, port).open()


class Program:
    """The process on `host`, from its start to its end, and the ones after it. A subclass has the program."""

    def __init__(self, world: World, host: str, rate: float) -> None:
        self.world, self.host = world, host
        self.draw = world.draws(host)
        self.clock = MachineClock(world.time, rate)
        self.loop: SimLoop | None = None
        self.outgoing: dict[Outgoing, None] = {}
        self.paused_until_us = 0
        self.ends = 0
        self._main: asyncio.Task[Any] | None = None
        self._turn_at_us = -1
        self.is_stopping = self.stays_down = False

    # --- the program

    def begin(self, loop: SimLoop) -> asyncio.Task[Any]:
        """Start it."""
        raise NotImplementedError

    def ask_to_stop(self, main: asyncio.Task[Any]) -> None:
        """As by SIGTERM."""
        raise NotImplementedError

    def dying(self) -> None:
        """The process makes no further step; what it did until now is on its disk."""

    def ended(self) -> None:
        """The process is gone."""

    # --- the process

    def start(self) -> None:
        if self.loop is not None or self.stays_down:
            return
        self.world.note(f"{self.host} starts")
        self.loop = SimLoop(self.clock, self.draw, self._wake, self._wake_now, forgets_tasks_at_once=False)
        self.is_stopping = False
        self._main = self.begin(self.loop)
        self._schedule()

    def stop(self) -> None:
        """As by SIGTERM; another process follows."""
        if self.loop is None or self._main is None or self.is_stopping:
            return
        self.world.note(f"{self.host} stops")
        self.is_stopping = True
        main, loop = self._main, self.loop
        self.ask_to_stop(main)
        self.follow(main, loop)
        self.world.at(self.world.time.now_us + STOP_US, lambda: self.kill(loop))

    def follow(self, main: asyncio.Task[Any], loop: SimLoop) -> None:
        """End the process soon after its program."""

        def ended(_: object) -> None:
            if self.loop is loop:
                self.world.at(self.world.time.now_us, lambda: self.kill(loop))

        main.add_done_callback(ended)

    def kill(self, which: SimLoop | None = None) -> None:
        """End the process between two turns, unless it is another one than that of `which`."""
        if self.loop is None or (which is not None and self.loop is not which):
            return
        self.world.note(f"{self.host} ends")
        self.ends += 1
        self.dying()
        for outgoing in list(self.outgoing):
            outgoing.end(silently=False)
        self.outgoing.clear()
        self.loop.kill()
        self.loop = self._main = None
        self.ended()
        delay_us = self.draw.choice(RESTARTS_US)
        self.world.at(self.world.time.now_us + delay_us + 1, self.start)

    def at_work(self, act: Callable[[], None]) -> None:
        """Let something happen while the program changes what outlives it."""
        act()

    def pause(self, us: int) -> None:
        self.paused_until_us = max(self.paused_until_us, self.world.time.now_us + us)

    def go_on(self) -> None:
        """It stands still no longer; one that has ended starts again."""
        self.paused_until_us = 0
        self.start()
        self._turn_at_us = -1
        self._schedule()

    # --- turns, as those of a machine

    def _wake(self, monotonic_s: float) -> None:
        self._schedule_at(self.clock.world_us(monotonic_s))

    def _wake_now(self) -> None:
        self._schedule_at(self.world.time.now_us)

    def _schedule(self) -> None:
        if self.loop is not None and (due_s := self.loop.next_s()) is not None:
            self._wake(due_s)

    def _schedule_at(self, at_us: int) -> None:
        at_us = max(at_us, self.world.time.now_us, self.paused_until_us)
        if self._turn_at_us < 0 or at_us < self._turn_at_us:
            self._turn_at_us = at_us
            self.world.at(at_us + self.draw.randint(1, 60), lambda: self._turn(at_us))

    def _turn(self, planned_us: int) -> None:
        if planned_us != self._turn_at_us:
            return
        self._turn_at_us = -1
        loop = self.loop
        if loop is None:
            return
        if self.world.time.now_us < self.paused_until_us:
            self._schedule_at(self.paused_until_us)
            return
        loop.turn()
        if loop.failure is not None:
            raise loop.failure
        self._schedule()
