"""The deadlines of a state machine, against a plain dict."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker_cy.coordinator.timers import AHEAD_MAX, OVER, STALE_ENTRIES_MAX, Deadline, TimerKey, TimerKind, Timers

keys = st.builds(TimerKey, st.sampled_from(TimerKind), st.sampled_from("ab"), st.sampled_from(["", "m"]))
actions = st.lists(
    st.tuples(st.sampled_from(["set", "move", "cancel", "due"]), keys, st.integers(0, 50) | st.integers(0, 400)),
    max_size=80,
)


@given(actions)
def test_each_deadline_comes_once_and_in_time(steps: list[tuple[str, TimerKey, int]]) -> None:
    """If this fails, a dead member stays forever, or a live one is removed."""
    timers, model, now = Timers[TimerKey](), dict[TimerKey, int](), 0
    held: dict[TimerKey, Deadline] = {}
    for action, key, number in steps:
        if action == "set":
            held[key] = timers.set(key, now + number)
            model[key] = now + number
        elif action == "move":
            # A deadline that a caller has may be moved to a later time, as long as it is not over.
            deadline = held.get(key)
            assert (deadline is None or deadline.at_ms == OVER) == (key not in model)
            if deadline is not None and deadline.at_ms != OVER:
                deadline.at_ms = model[key] = deadline.at_ms + number
        elif action == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            now += number
            found = list(timers.due(now))
            assert sorted(found) == sorted(k for k, when in model.items() if when <= now)
            model = {k: when for k, when in model.items() if when > now}
        wake = timers.next_wake_ms()
        assert not model or (wake is not None and wake <= min(model.values()))
        assert len(timers) == len(model)


def test_cancelled_timers_do_not_pile_up() -> None:
    """If this fails, clients that join and leave in a loop fill the memory until their sessions would have ended."""
    timers: Timers[TimerKey] = Timers()
    for i in range(20 * STALE_ENTRIES_MAX):
        key = TimerKey(TimerKind.SESSION, "g", str(i))
        timers.set(key, 1_000_000)
        timers.cancel(key)
    assert len(timers._heap) <= STALE_ENTRIES_MAX + 1
    assert len(timers) == 0


def test_deadlines_that_have_moved_do_not_wake_the_coordinator_one_by_one() -> None:
    """If this fails, 10,000 members with heartbeats cost 200 turns of the loop in each second."""
    timers: Timers[TimerKey] = Timers()
    for i in range(200):
        timers.set(TimerKey(TimerKind.SESSION, "g", str(i)), i).at_ms = 45_000
    wakes, now = 0, 0
    while (now := timers.next_wake_ms() or 0) < 45_000:
        wakes += 1
        assert list(timers.due(now)) == []
    assert wakes == 2
    assert len(list(timers.due(45_000))) == 200


def test_few_deadlines_are_put_off_at_a_time() -> None:
    """If this fails, members that joined together hold the loop together."""
    timers: Timers[TimerKey] = Timers()
    for i in range(3 * AHEAD_MAX):
        timers.set(TimerKey(TimerKind.SESSION, "g", str(i)), 50).at_ms = 45_000
    assert list(timers.due(0)) == []
    assert sum(when == 50 for when, _, _ in timers._heap) == 2 * AHEAD_MAX
