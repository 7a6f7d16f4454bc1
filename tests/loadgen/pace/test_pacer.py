"""Users get operations at their due times, each exactly once, even if users are busy or killed."""

from __future__ import annotations

import time

import gevent
import pytest
from gevent.event import Event

from loadgen.pace.pacer import Pacer
from loadgen.pace.timer import NS
from loadgen.scenario.profile import Piece, RateProfile

WAIT_S = 60


@pytest.fixture(autouse=True)
def loop_has_the_time() -> None:
    """Give gevent's loop the current time: timeouts that start outside of it count from when it last ran.

    If no test of this process had used the loop for WAIT_S, the first wait here ended immediately.
    """
    gevent.get_hub().loop.update_now()


def begun(rate: float, start_ns: int, seconds: float) -> Pacer:
    pacer = Pacer()
    pacer.begin(RateProfile.constant(rate), start_ns, start_ns + int(seconds * NS))
    return pacer


def user_of(pacer: Pacer, taken: list[int]) -> gevent.Greenlet[[], None]:
    """Start a user that notes the due times of its operations until the end."""

    def run() -> None:
        while (due_ns := pacer.take()) is not None:
            assert due_ns <= time.monotonic_ns()
            taken.append(due_ns)

    return gevent.spawn(run)


@pytest.mark.parametrize("users", [1, 3, 200])
def test_each_operation_is_taken_once_and_not_before_it_is_due(users: int) -> None:
    """If this fails, the load has gaps or duplicates, or runs ahead of its schedule."""
    # A busy machine may start the users late, and operations that are over by then are not taken.
    start_ns, taken = time.monotonic_ns() + NS, list[int]()
    pacer = begun(1000, start_ns, 0.1)
    found = [user_of(pacer, taken) for _ in range(users)]
    gevent.joinall(found, timeout=WAIT_S, raise_error=True)
    assert all(each.dead for each in found), "the wait ended before the users"
    assert sorted(taken) == [start_ns + number * NS // 1000 for number in range(100)]
    assert pacer.lateness.count + pacer.queued == 100
    assert pacer.unsent == 0


def test_an_overdue_operation_keeps_its_due_time() -> None:
    """If this fails, latency counts from when a user was free again, and a stall of the cluster is hidden."""
    start_ns, taken = time.monotonic_ns() - 10 * NS, list[int]()
    pacer = begun(100, start_ns, 1)
    user_of(pacer, taken).join(WAIT_S)
    assert taken == [start_ns + number * NS // 100 for number in range(100)]
    # The generator was not late: no user waited.
    assert (pacer.queued, pacer.lateness.count) == (100, 0)


def test_a_killed_user_takes_no_operation_along() -> None:
    """If this fails, each member that churn kills makes a gap in the load."""
    taken = list[int]()
    pacer = begun(10, time.monotonic_ns() + 3600 * NS, 0.2)
    killed, other = user_of(pacer, []), user_of(pacer, taken)
    gevent.sleep(0)  # both wait now
    killed.kill()
    start_ns = time.monotonic_ns()
    pacer.begin(RateProfile.constant(10), start_ns, start_ns + NS // 5)
    other.join(WAIT_S)
    assert taken == [start_ns, start_ns + NS // 10]


def test_the_end_wakes_all_users() -> None:
    """If this fails, a run does not end before its timeout."""
    pacer, started, now_ns = Pacer(), Event(), time.monotonic_ns()
    pacer.begin(RateProfile((Piece(1.0, 0.0, 0.0),)), now_ns, now_ns + 3600 * NS)
    users = [user_of(pacer, []) for _ in range(5)]
    gevent.spawn(started.set)
    started.wait(WAIT_S)
    pacer.end()
    pacer.end()
    gevent.joinall(users, timeout=WAIT_S, raise_error=True)
    assert all(user.ready() for user in users)
    assert pacer.take() is None


def test_without_a_schedule_nothing_waits() -> None:
    """If this fails, a closed loop has a rate."""
    pacer, now_ns = Pacer(), time.monotonic_ns()
    pacer.begin(None, now_ns, now_ns + 3600 * NS)
    assert all(pacer.take() is not None for _ in range(1000))
    assert (pacer.queued, pacer.lateness.count) == (0, 0)
    pacer.end()
    assert pacer.take() is None


def test_what_was_due_is_still_performed_after_the_cut() -> None:
    """If this fails, operations that waited during a stall at the end of a run are forgotten, and the stall with
    them.
    """
    start_ns, taken = time.monotonic_ns() - NS, list[int]()
    pacer = begun(100, start_ns, 3600)
    pacer.cut(start_ns + NS // 2)
    user_of(pacer, taken).join(WAIT_S)
    assert taken == [start_ns + number * NS // 100 for number in range(50)]
    assert pacer.unsent == 0


def test_what_nobody_performed_is_counted() -> None:
    """If this fails, operations that were due vanish from the figures of a cluster that does not answer."""
    start_ns = time.monotonic_ns() - NS
    pacer = begun(100, start_ns, 0.5)
    assert pacer.take() == start_ns
    pacer.end()
    assert pacer.unsent == 49


def test_what_an_engine_performs_itself_is_not_unsent() -> None:
    """If this fails, a run of the engine raw looks as if half of its requests had waited for a user."""
    start_ns = time.monotonic_ns() - NS
    pacer = begun(100, start_ns, 0.5)
    pacer.hand_over()
    pacer.end()
    assert (pacer.unsent, pacer.queued) == (0, 0)


def test_a_second_round() -> None:
    """If this fails, a search measures only its first rate."""
    start_ns = time.monotonic_ns() - NS
    pacer = begun(10, start_ns, 0.5)
    assert len(list(iter(pacer.take, None))) == 5
    pacer.begin(RateProfile.constant(20), start_ns, start_ns + NS // 2)
    assert len(list(iter(pacer.take, None))) == 10
    pacer.close()
