"""The changes of an instance as events (docs/events.md). broker_cy/admin/event_writer.py writes them."""

from __future__ import annotations

from typing import Final

from broker_cy.metrics.events import StreamsInstanceChanged, cut
from broker_streams.hosts.measures import State
from broker_streams.seen.watch import Watch

EVENTS_MAX: Final = 20
"""Events of restored tasks from one look; further ones are counted in one."""
WAITING_MAX: Final = 200
"""Events that were not taken yet; older ones are forgotten."""
_CHANGES: Final = {
    State.REBALANCING: "rebalancing",
    State.RUNNING: "running",
    State.NOT_RUNNING: "stopped",
    State.ERROR: "failed",
}


class Journal:
    """The events of one instance. It listens to the state, and `look` finds tasks that were restored."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._waiting: list[StreamsInstanceChanged] = []
        # Active tasks that process records.
        self._up: set[str] = set()
        watch.view.life.listeners.append(self._entered)
        watch.after_look.append(self.look)

    def take(self) -> list[StreamsInstanceChanged]:
        """The events since the last call."""
        found, self._waiting = self._waiting, []
        return found

    def _entered(self, state: State, before: State, error: BaseException | None) -> None:
        if before is State.CREATED:
            self._add("started")
        if (change := _CHANGES.get(state)) is not None and before is not State.CREATED:
            self._add(change, reason="" if error is None else str(error) or type(error).__name__)

    def look(self) -> None:
        up = {each.name: each for each in self._watch.view.tasks() if each.is_active}
        fresh = [name for name in up if name not in self._up]
        self._up = set(up)
        done = [(name, count) for name in fresh if (count := up[name].restored)]
        for name, count in done[:EVENTS_MAX]:
            self._add("restored", task=name, reason=f"{count:,} records")
        if len(done) > EVENTS_MAX:
            rest = done[EVENTS_MAX:]
            self._add("restored", reason=f"{len(rest):,} further tasks, {sum(count for _, count in rest):,} records")

    def _add(self, change: str, *, task: str = "", reason: str = "") -> None:
        view = self._watch.view
        event = StreamsInstanceChanged(
            view.settings.application_id, view.process, view.settings.endpoint, change, task, cut(reason)
        )
        self._waiting = [*self._waiting, event][-WAITING_MAX:]
