"""The queue between a supervisor and the owner of its children."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from broker_cy.shards.event_queue import EventQueue


class Doubles:
    """A supervisor whose actions are its events, twice; one deadline is due immediately after the event `wake`."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def take(self, event: str, now_ms: int) -> list[str]:
        self.taken.append(event)
        return [event, event]

    def next_ms(self) -> int | None:
        return 0 if self.taken[-1:] == ["wake"] else None


def test_events_of_actions_come_after_all_actions_of_their_cause() -> None:
    """If this fails, a child that cannot be started is replaced while the others are still being started."""
    supervisor, done = Doubles(), list[str]()

    async def job() -> None:
        def do(actions: Sequence[str]) -> None:
            for action in actions:
                done.append(action)
                if action == "begin":
                    queue.take("more")

        queue = EventQueue(asyncio.get_running_loop(), supervisor, do, "deadline")
        queue.begin(["begin", "last"])

    asyncio.run(job())
    assert done == ["begin", "last", "more", "more"]


def test_deadlines_are_events() -> None:
    """If this fails, a child that does not end is never killed, and one that ended is not started again."""
    supervisor, woken = Doubles(), asyncio.Event()

    async def job() -> None:
        def do(actions: Sequence[str]) -> None:
            if "deadline" in actions:
                woken.set()

        queue = EventQueue(asyncio.get_running_loop(), supervisor, do, "deadline")
        queue.take("wake")
        queue.close()
        await asyncio.sleep(0)
        assert supervisor.taken == ["wake"]
        queue.take("wake")
        await asyncio.wait_for(woken.wait(), 60)

    asyncio.run(job())
    assert supervisor.taken == ["wake", "wake", "deadline"]
