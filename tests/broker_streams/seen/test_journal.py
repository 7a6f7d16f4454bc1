"""The events of an instance from its states and tasks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker_cy.client.event_text import line_of
from broker_cy.console.event_text import tone_of
from broker_cy.reporting.tone import Tone
from broker_streams.hosts.figures import ACTIVE, TaskFigures
from broker_streams.hosts.measures import Life, State
from broker_streams.seen.journal import EVENTS_MAX, Journal


def watch() -> Any:
    running: dict[str, TaskFigures] = {}
    view = SimpleNamespace(
        life=Life(lambda: 1),
        running=running,
        tasks=running.values,
        settings=SimpleNamespace(application_id="app", endpoint="a:1"),
        process="p",
    )
    return SimpleNamespace(view=view, after_look=[])


def task(name: str, *, is_up: bool, restored: int) -> TaskFigures:
    return TaskFigures(name, ACTIVE, is_active=is_up, is_up=is_up, restored=restored)


def test_the_life_of_an_instance() -> None:
    """If this fails, an event is missing, or one is written twice."""
    seen = watch()
    journal, life = Journal(seen), seen.view.life
    life.enter(State.REBALANCING)
    life.enter(State.RUNNING)
    life.enter(State.ERROR, RuntimeError("task 0_1 cannot go on"))
    events = journal.take()
    assert [each.change for each in events] == ["started", "running", "failed"]
    assert [line_of(each) for each in events] == [
        "instance a:1 started",
        "instance a:1 running",
        "instance a:1 failed: task 0_1 cannot go on",
    ]
    assert [tone_of(each) for each in events] == [Tone.PLAIN, Tone.GOOD, Tone.BAD]
    assert journal.take() == []


def test_restored_tasks_have_events() -> None:
    """If this fails, nobody sees when a task was ready again; or thousands of tasks write as many events."""
    seen = watch()
    journal, running = Journal(seen), seen.view.running
    running["0_0"] = task("0_0", is_up=True, restored=0)
    running |= {f"1_{at}": task(f"1_{at}", is_up=False, restored=0) for at in range(EVENTS_MAX + 5)}
    journal.look()
    assert journal.take() == []
    for at in range(EVENTS_MAX + 5):
        running[f"1_{at}"] = task(f"1_{at}", is_up=True, restored=1_000)
    journal.look()
    events = journal.take()
    assert len(events) == EVENTS_MAX + 1
    assert line_of(events[0]) == "instance a:1 restored task 1_0: 1,000 records"
    assert events[-1].reason == "5 further tasks, 5,000 records"
    journal.look()
    assert journal.take() == []
