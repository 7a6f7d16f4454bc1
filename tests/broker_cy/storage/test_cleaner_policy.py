"""The next log to clean, and how far, against Kafka's LogCleanerManager in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker_cy.storage.cleaner.policy import NEVER_MS, Choice, CleanerPolicy, examine

KEY = ("t", 0)
NOW_MS = 10_000


@dataclass
class View:
    """A log as numbers; `times` are (largest, first) timestamps of its segments."""

    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    segments: list[tuple[int, int]]
    times: list[tuple[int, int]]
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS

    def largest_timestamp(self, number: int) -> int:
        return self.times[number][0]

    def first_timestamp(self, number: int) -> int:
        return self.times[number][1]


@dataclass
class Kafka:
    """LogCleanerManager.cleanableOffsets, calculateCleanableBytes and maxCompactionDelay, LogToClean."""

    view: View
    bases: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.bases = [base for base, _ in self.view.segments]

    def between(self, start: int, end: int) -> list[int]:
        """Return the numbers of the segments from that with `start` to the last that begins before `end`."""
        floor = max((base for base in self.bases if base <= start), default=self.bases[0])
        return [number for number, base in enumerate(self.bases) if floor <= base < end]

    def inactive_from(self, offset: int) -> list[int]:
        return [] if offset > self.bases[-1] else self.between(offset, self.bases[-1])

    def choice(self, dirty: int) -> Choice | None:
        view = self.view
        bounds = [view.last_stable_offset, self.bases[-1]]
        if view.min_compaction_lag_ms > 0:
            young = [
                self.bases[number]
                for number in self.inactive_from(dirty)
                if view.times[number][0] > NOW_MS - view.min_compaction_lag_ms
            ]
            bounds += young[:1]
        uncleanable = max(dirty, min(bounds))
        first = (self.inactive_from(uncleanable) or [len(self.bases) - 1])[0]
        end = self.bases[first]
        sizes = [size for _, size in view.segments]
        clean = sum(sizes[number] for number, base in enumerate(self.bases) if base < dirty)
        cleanable = sum(sizes[number] for number in self.between(min(dirty, end), end))
        if clean + cleanable == 0:
            return None
        ratio = cleanable / (clean + cleanable)
        firsts = [view.times[number][1] for number in self.inactive_from(dirty) if view.times[number][1] > 0]
        latest = NOW_MS - max(view.max_compaction_lag_ms, 0)
        overdue = min(firsts, default=NEVER_MS) < latest
        if (overdue and cleanable > 0) or ratio > view.min_cleanable_dirty_ratio:
            return Choice(KEY, dirty, end, ratio)
        return None


@st.composite
def views(draw: st.DrawFn) -> View:
    bases = sorted(draw(st.sets(st.integers(0, 40), min_size=1, max_size=6)))
    end = bases[-1] + draw(st.integers(0, 10))
    count = len(bases)
    times = st.tuples(st.integers(0, 2 * NOW_MS), st.integers(-1, 2 * NOW_MS))
    return View(
        log_start_offset=draw(st.integers(bases[0], end)),
        log_end_offset=end,
        last_stable_offset=draw(st.integers(bases[0], end)),
        segments=list(zip(bases, draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), strict=True)),
        times=draw(st.lists(times, min_size=count, max_size=count)),
        min_cleanable_dirty_ratio=draw(st.sampled_from([0.0, 0.5, 0.9, 1.0])),
        min_compaction_lag_ms=draw(st.sampled_from([0, 1, 3_000, NEVER_MS])),
        max_compaction_lag_ms=draw(st.sampled_from([1, 5_000, NEVER_MS])),
    )


@settings(max_examples=500, deadline=None)
@given(views(), st.integers(0, 60))
@example(View(0, 20, 20, [(0, 5), (10, 5)], [(7_000, 0), (0, 0)], 0.0, 3_000), 0)
@example(View(0, 20, 20, [(0, 5), (10, 5)], [(7_001, 0), (0, 0)], 0.0, 3_000), 0)
@example(View(0, 20, 20, [(0, 5), (10, 5)], [(0, 5_000), (0, 0)], 1.0, 0, 5_000), 0)
@example(View(0, 20, 20, [(0, 5), (10, 5)], [(0, 4_999), (0, 0)], 1.0, 0, 5_000), 0)
def test_chooses_what_kafka_chooses(view: View, at: int) -> None:
    """If this fails, logs are cleaned too early, against min.compaction.lag.ms or an open transaction; too often; or
    never.
    """
    dirty = view.log_start_offset + at % (view.log_end_offset - view.log_start_offset + 1)
    assert examine(KEY, view, dirty, NOW_MS) == Kafka(view).choice(dirty)
    assert examine(KEY, view, None, NOW_MS) == Kafka(view).choice(view.log_start_offset)


def dirty(share: int) -> View:
    """Make a log with `share` tenths of dirty records, if it is clean up to 10."""
    return View(0, 30, 30, [(0, 10 - share), (10, share), (20, 1)], [(1, 1)] * 3, 0.1)


def test_the_dirtiest_comes_first_and_none_twice() -> None:
    """If this fails, one busy log prevents the cleaning of all others, or two workers clean the same log."""
    policy = CleanerPolicy(15_000)
    logs = [(("a", 0), dirty(2)), (("b", 0), dirty(8)), (("c", 0), dirty(5)), (("d", 0), dirty(1))]
    policy.cleaned = {key: 10 for key, _ in logs}
    chosen = [policy.choose(logs, NOW_MS) for _ in range(4)]
    assert [choice and choice.key[0] for choice in chosen] == ["b", "c", "a", None]
    policy.done(("b", 0), 20)
    policy.done(("c", 0), None)
    policy.mark_uncleanable(("a", 0))
    policy.done(("a", 0), None)
    again = policy.choose(logs, NOW_MS)
    assert again is not None
    assert again.key == ("c", 0)
    # A log that is cleaned up to the active segment has nothing dirty; an uncleanable one stays so until it is created
    # again.
    assert policy.choose(logs, NOW_MS) is None
    policy.forget(("a", 0))
    last = policy.choose(logs, NOW_MS)
    assert last is not None
    assert (last.key, last.first_dirty_offset) == (("a", 0), 0)


def test_a_checkpoint_outside_of_its_log_is_given_up_for_good() -> None:
    """If this fails, a log that lost its end grows beyond its old checkpoint, and records appended since are never
    cleaned.
    """
    policy = CleanerPolicy(15_000)
    policy.cleaned = {KEY: 100}
    assert not policy.fit(KEY, 0, 100)
    assert policy.fit(KEY, 5, 99)
    assert policy.cleaned == {KEY: 5}
    assert not policy.fit(KEY, 5, 200)
    assert policy.fit(KEY, 6, 200), "records before were deleted"
    assert policy.cleaned == {KEY: 6}
    assert not policy.fit(("never cleaned", 0), 7, 9)
    assert policy.cleaned == {KEY: 6}
