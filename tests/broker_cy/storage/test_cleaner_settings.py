"""log.cleaner.*: the bounds that they set, and changes while the cleaner runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.core.clock import MACHINE_CLOCK
from broker_cy.core.randomness import MACHINE_RANDOMNESS
from broker_cy.storage.checkpoints import TopicPartition
from broker_cy.storage.cleaner.log_cleaner import CleanerSettings, LogCleaner
from broker_cy.storage.cleaner.throttle import BURST_S, Throttle
from broker_cy.storage.log import Log
from tests.broker_cy.storage.cleaning import UnsyncedFiles, Written, compacted_config
from tests.broker_cy.storage.managing import HeldJobs

NOW_MS = 2_000_000
MIB = 1 << 20


class Time:
    """A clock that only advances by sleeping; `then` is called during the sleep."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.naps = 0
        self.then: Callable[[], None] = lambda: None

    def sleep(self, for_s: float) -> None:
        self.now_s += for_s
        self.naps += 1
        assert self.naps < 1_000_000
        self.then()


def nothing() -> None:
    pass


def make_throttle(bytes_per_s: float) -> tuple[Throttle, Time]:
    time = Time()
    return Throttle(bytes_per_s, lambda: time.now_s, time.sleep), time


@pytest.mark.parametrize("part_bytes", [1, 10_000, 3_000_000])
def test_the_rate_is_kept(part_bytes: int) -> None:
    """If this fails, the cleaner takes disk bandwidth from producers, or gets less than it was given."""
    throttle, time = make_throttle(1_000_000)
    total = 6_000_000 if part_bytes > 1 else 200_000
    for _ in range(total // part_bytes):
        throttle.spend(part_bytes, nothing)
    assert total / 1_000_000 - BURST_S <= time.now_s <= total / 1_000_000 + 1e-6


def test_time_that_was_not_used_is_not_saved_up() -> None:
    """If this fails, after an idle night the cleaner writes at full speed for hours."""
    throttle, time = make_throttle(1_000_000)
    throttle.spend(1, nothing)
    time.now_s += 10_000
    started = time.now_s
    throttle.spend(2_000_000, nothing)
    assert time.now_s - started == pytest.approx(2 - BURST_S, abs=1e-6)


@pytest.mark.parametrize("before", [0.0, 1.0, 1_000.0])
@pytest.mark.parametrize("after", [1e6, 1.7976931348623157e308])
def test_a_new_rate_holds_for_what_waits_already(before: float, after: float) -> None:
    """If this fails, a rate that was far too low is raised, and the cleaner still waits for days."""
    throttle, time = make_throttle(before)

    def change() -> None:
        if time.naps == 3:
            throttle.bytes_per_s = after

    time.then = change
    throttle.spend(1_000_000, nothing)
    assert time.now_s <= 3 * 0.05 + 1.0 + 1e-6


def test_a_lower_rate_after_none_begins_at_once() -> None:
    """If this fails, a limit that is set while the cleaner runs has no effect."""
    throttle, time = make_throttle(1.7976931348623157e308)
    throttle.spend(1 << 40, nothing)
    assert time.naps == 0
    throttle.bytes_per_s = 1_000
    throttle.spend(5_000, nothing)
    assert time.now_s == pytest.approx(5, abs=0.2)


def test_who_waits_can_be_called_off() -> None:
    """If this fails, a stop, or the deletion of a topic, waits for the throttle."""
    throttle, time = make_throttle(0)

    class Aborted(Exception):
        pass

    def check() -> None:
        if time.naps == 5:
            raise Aborted

    with pytest.raises(Aborted):
        throttle.spend(1, check)


class Cleaners:
    """A cleaner of `count` dirty logs whose workers do nothing until the test finishes their jobs."""

    def __init__(self, root: Path, count: int, settings: CleanerSettings) -> None:
        self.logs: dict[TopicPartition, Log] = {}
        for number in range(count):
            written = Written(
                Log.create(str(root / f"t-{number}"), "t", number, compacted_config(segment_bytes=600), 0)
            )
            for record in range(40):
                written.data([(b"key-%d" % (record % 5), b"value-%d" % record)])
            written.roll()
            self.logs["t", number] = written.log
        self.jobs = HeldJobs()
        self.cleaner = LogCleaner(
            self.logs,
            [str(root)],
            settings,
            self.jobs,
            lambda paths, delay_ms: None,
            MACHINE_CLOCK,
            MACHINE_RANDOMNESS,
            UnsyncedFiles,
        )

    def tick(self, now_ms: int = NOW_MS) -> int:
        """Return how many logs are being cleaned after a check."""
        self.cleaner.tick(now_ms, lambda topic, partition: self.logs[topic, partition].written_end_offset)
        return len(self.cleaner.running)

    def map_bytes(self) -> int:
        return sum(cleaning.plan.map_bytes for cleaning in self.cleaner._running.values())

    def finish(self) -> None:
        while self.jobs.held:
            self.jobs.held.pop(0)()


def test_threads_are_changed_while_logs_are_cleaned(tmp_path: Path) -> None:
    """If this fails, log.cleaner.threads has no effect until the next start, or each thread takes the whole buffer."""
    settings = CleanerSettings(threads=1, dedupe_buffer_bytes=8 * MIB, backoff_ms=0)
    cleaners = Cleaners(tmp_path, 6, settings)
    assert cleaners.tick() == 1
    assert cleaners.map_bytes() == 8 * MIB
    # The running cleaning has all of the buffer: others begin when it is done.
    cleaners.cleaner.reconfigure(CleanerSettings(threads=2, dedupe_buffer_bytes=8 * MIB, backoff_ms=0))
    assert cleaners.tick() == 1
    cleaners.finish()
    assert cleaners.tick() == 2
    assert cleaners.map_bytes() == 8 * MIB
    # With more memory a third begins in addition.
    cleaners.cleaner.reconfigure(CleanerSettings(threads=3, dedupe_buffer_bytes=15 * MIB, backoff_ms=0))
    assert cleaners.tick() == 3
    assert cleaners.map_bytes() == 13 * MIB
    # With fewer threads nothing begins until all but one of them are done.
    cleaners.cleaner.reconfigure(CleanerSettings(threads=1, dedupe_buffer_bytes=15 * MIB, backoff_ms=0))
    assert cleaners.tick() == 3
    cleaners.finish()
    assert cleaners.tick() == 1
    cleaners.finish()
    cleaners.tick()
    cleaners.finish()
    assert len(cleaners.cleaner.policy.cleaned) == 6
    assert not cleaners.cleaner.policy.uncleanable


def test_the_cleaner_is_switched_off_and_backs_off(tmp_path: Path) -> None:
    """If this fails, log.cleaner.enable=false still compacts; or an idle cleaner checks all logs all the time."""
    cleaners = Cleaners(tmp_path, 1, CleanerSettings(enable=False))
    assert cleaners.tick() == 0
    cleaners.cleaner.reconfigure(CleanerSettings(backoff_ms=15_000))
    assert cleaners.tick() == 1
    cleaners.finish()
    looks = []
    choose = cleaners.cleaner.policy.choose

    def noted(*arguments: object) -> object:
        looks.append(now_ms)
        return choose(*arguments)  # type: ignore[arg-type]

    cleaners.cleaner.policy.choose = noted  # type: ignore[assignment, method-assign]
    for now_ms in range(NOW_MS, NOW_MS + 31_000, 250):
        cleaners.tick(now_ms)
    assert looks == [NOW_MS, NOW_MS + 15_000, NOW_MS + 30_000]


def test_a_checkpoint_that_does_not_fit_is_replaced(tmp_path: Path) -> None:
    """If this fails, the old offset comes back at the next start, when the log may have grown beyond it."""
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 4711\n")
    cleaners = Cleaners(tmp_path, 1, CleanerSettings())
    cleaners.logs["t", 0].reconfigure(compacted_config(min_cleanable_dirty_ratio=1.0))
    assert cleaners.tick() == 0
    cleaners.finish()
    assert (tmp_path / "cleaner-offset-checkpoint").read_text() == "0\n1\nt 0 0\n"
