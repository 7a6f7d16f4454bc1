"""The conditions under which a parent considers a shard stuck."""

from __future__ import annotations

import pytest

from broker_cy.shards.stillness import ASLEEP, BUSY, LOOK_MS, STOPPED, Stillness, Threads

BUSY_MS = 9_000


def killed_after_ms(
    states: str, cpu_ticks_a_look: int = 0, *, ticks: bool = True, look_ms: int = LOOK_MS, run_ms: int = 60_000
) -> tuple[int, str] | None:
    """The time without a tick after which a process in this state is killed, and why; None if it is not."""
    stillness = Stillness(BUSY_MS)
    now_ms = cpu = 0
    stillness.look(now_ms, 7)
    while now_ms < run_ms:
        now_ms += look_ms
        cpu += cpu_ticks_a_look
        if stillness.look(now_ms, 7) and (why := stillness.judge(Threads(states, cpu), ticks=ticks)):
            return now_ms, why
    return None


@pytest.mark.parametrize("states", ["T", "TTT"])
def test_stopped_by_a_signal(states: str) -> None:
    """If this fails, clients wait for their own timeouts, up to a minute (goal: 1.2 s)."""
    assert killed_after_ms(states) == (500, STOPPED)


def test_asleep() -> None:
    """If this fails, a shard whose loop waits for a lock forever keeps its clients waiting."""
    assert killed_after_ms("SSS") == (800, ASLEEP)


@pytest.mark.parametrize(
    ("states", "cpu"),
    [("R", 10), ("SR", 10), ("S", 3), ("D", 0), ("SD", 0), ("R", 0), ("t", 0), ("TS", 1)],
    ids=["computes", "a worker computes", "holds no CPU now, but used it", "disk", "a worker waits for the disk",
         "waits for a CPU", "debugger", "is being stopped"],
)  # fmt: skip
def test_a_long_turn_is_no_death(states: str, cpu: int) -> None:
    """If this fails, a shard that works hard, or on a machine that does, is killed, and then the next one: a storm."""
    assert killed_after_ms(states, cpu) == (BUSY_MS, BUSY)


def test_a_start_takes_its_time() -> None:
    """If this fails, a shard that recovers its logs never starts. One that is stopped by a signal does not recover."""
    assert killed_after_ms("R", 10, ticks=False) is None
    assert killed_after_ms("S", ticks=False) is None
    found = killed_after_ms("T", ticks=False)
    assert found is not None
    assert found[1] == STOPPED


def test_ticks_begin_it_again() -> None:
    """If this fails, a shard that runs is killed."""
    stillness = Stillness(BUSY_MS)
    for look in range(1_000):
        # A tick each 400 ms: the loop is late, but it runs.
        assert not stillness.look(look * LOOK_MS, look // 4) or not stillness.judge(Threads("T", 0), ticks=True)


def test_the_parent_stood_still_itself() -> None:
    """If this fails, a parent that was stopped for a while, or starved, kills shards that had no chance to tick."""
    stillness = Stillness(BUSY_MS)
    stillness.look(0, 1)
    assert not stillness.look(60_000, 1)
    assert not stillness.look(60_010, 2)
    # On a starved machine, whose looks are a second apart, each one counts as two.
    assert killed_after_ms("T", look_ms=1_000) == (3_000, STOPPED)
