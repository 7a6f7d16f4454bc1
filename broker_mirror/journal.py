"""The changes of a flow as events: pure, from its states one after the other. EventWriter writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from broker_cy.client.mirror_status import PLAN_PROBLEM, FlowStatus
from broker_cy.metrics.events import CopyFlowChanged, cut

EVENTS_MAX: Final = 20
"""Events of one kind from one look; further ones are counted in one."""
TRACKED_MAX: Final = 10_000
"""Problems and loops that are remembered; others have no events."""
LOOKS: Final = 2
"""Looks in a row that must see a problem, or not see it, before it began or ended: a task may fail once."""


class Journal:
    """The events of one flow in this process. `look` takes its state, at equal intervals."""

    def __init__(self, source: str, target: str) -> None:
        self._source, self._target = source, target
        self._was_running = False
        self._restarts = 0
        self._loops: frozenset[str] = frozenset()
        # Problems that have begun, with their texts; and how often each problem was seen, or not seen, since.
        self._open: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def look(self, status: FlowStatus) -> list[CopyFlowChanged]:
        """Return the events since the last look."""
        events: list[CopyFlowChanged] = []
        if status.restarts > self._restarts:
            cause = status.last_restarts[-1].cause if status.last_restarts else ""
            events.append(self._event("failed", "", cause, status))
            self._restarts, self._was_running = status.restarts, False
        if status.state == "running" and not self._was_running:
            events.append(self._event("started", "", "" if status.share is None else f"part {status.share}", status))
            self._was_running = True
        if status.state == "running":
            # A flow that does not run has no other state than its failure.
            events += self._problems(status)
            events += self._found_loops(status)
        return events

    def _event(self, change: str, subject: str, reason: str, status: FlowStatus) -> CopyFlowChanged:
        return CopyFlowChanged(self._source, self._target, change, cut(subject), cut(reason), status.restarts)

    def _problems(self, status: FlowStatus) -> Iterator[CopyFlowChanged]:
        found = dict(_problems_of(status))
        changed = [each for each in {**found, **self._open} if (each in found) != (each in self._open)]
        self._counts = {each: self._counts.get(each, 0) + 1 for each in changed[:TRACKED_MAX]}
        due = [each for each, seen in self._counts.items() if seen >= LOOKS]
        for each in due:
            del self._counts[each]
        began = {each: found[each] for each in due if each in found}
        ended = {each: self._open.pop(each) for each in due if each not in found}
        self._open |= began
        yield from self._bounded("problem_began", began, status)
        yield from self._bounded("problem_ended", ended, status)

    def _found_loops(self, status: FlowStatus) -> Iterator[CopyFlowChanged]:
        # Each process finds the same loops.
        if status.leads:
            loops = frozenset(status.loops[:TRACKED_MAX])
            texts = dict.fromkeys(sorted(loops - self._loops), f"the topic comes from {self._target}")
            self._loops = loops
            yield from self._bounded("loop_found", texts, status)

    def _bounded(self, change: str, texts: Mapping[str, str], status: FlowStatus) -> Iterator[CopyFlowChanged]:
        names = list(texts)
        for name in names[:EVENTS_MAX]:
            yield self._event(change, name, texts[name], status)
        if len(names) > EVENTS_MAX:
            yield self._event(change, "others", f"{len(names) - EVENTS_MAX} more", status)


def _problems_of(status: FlowStatus) -> Iterable[tuple[str, str]]:
    for what, text in status.problems.items():
        if status.leads or not what.startswith(PLAN_PROBLEM):
            yield what, text
    for part in status.partitions:
        if part.problem is not None:
            yield f"{part.topic}-{part.partition}", part.problem
