"""Segments that begin and segments that are deleted, against Kafka's rules in plain Python: for any order of appends,
retention, DeleteRecords, changed settings and restarts.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_cy.storage import retention
from broker_cy.storage.errors import OffsetOutOfRange
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_slice import LogSlice

from .batches import batch, some_slice, split
from .managing import TOPIC_ID, ClockedJobs, Manager, open_manager

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
DELETE_DELAY_MS = 700


@dataclass
class ModelSegment:
    """Batches are (base offset, last offset, bytes)."""

    base: int
    created_ms: int
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    first_timestamp: int = -1
    newest: int = -1
    modified_ms: int = 0
    # segment.jitter.ms: how long the log was observed not to roll.
    waited_ms: int = -1

    @property
    def size(self) -> int:
        return sum(len(data) for _, _, data in self.batches)

    @property
    def largest_timestamp(self) -> int:
        return self.newest if self.newest >= 0 else self.modified_ms


class RetentionMachine(RuleBasedStateMachine):
    """The model: segments, the log start offset, and files that wait to be removed."""

    manager: Manager
    opened = False

    @initialize(
        segment_bytes=st.sampled_from([300, 700, 100_000]),
        segment_ms=st.sampled_from([400, 5_000]),
        jitter_ms=st.sampled_from([0, 0, 300, 10_000]),
        policy=st.sampled_from([("delete",), ("delete",), ("compact", "delete"), ("compact",)]),
    )
    def open(self, segment_bytes: int, segment_ms: int, jitter_ms: int, policy: tuple[str, ...]) -> None:
        # The jitter of segments depends on their path: hypothesis, which repeats examples, needs the same one.
        self.root = os.path.join(MEMORY or tempfile.gettempdir(), f"retention-model-{os.getpid()}")
        os.mkdir(self.root)
        self.now_ms = 1_000_000
        self.fixed = {
            "segment_bytes": segment_bytes,
            "segment_ms": segment_ms,
            "segment_jitter_ms": jitter_ms,
            "cleanup_policy": policy,
            "file_delete_delay_ms": DELETE_DELAY_MS,
            "index_interval_bytes": 100,
        }
        self.retention_ms, self.retention_bytes = 1_000, -1
        self.jobs = ClockedJobs(self.now_ms)
        self.manager = open_manager(self.root, now_ms=self.now_ms, jobs=self.jobs)
        self.log = self.manager.create("t", 0, TOPIC_ID, self.config(), self.now_ms)
        self.segments = [ModelSegment(0, self.now_ms)]
        self.start = self.end = 0
        self.leaving: dict[str, int] = {}
        self.held: list[tuple[LogSlice, bytes]] = []
        self.opened = True

    def config(self) -> LogConfig:
        return LogConfig(retention_ms=self.retention_ms, retention_bytes=self.retention_bytes, **self.fixed)  # type: ignore[arg-type]

    def teardown(self) -> None:
        if self.opened:
            self.manager.crash()
            shutil.rmtree(self.root)

    # --- actions

    @rule(
        size=st.integers(0, 200),
        count=st.integers(1, 4),
        # Against the clock; some records have no timestamp at all.
        skew_ms=st.one_of(st.none(), st.sampled_from([0, 400, 401, 5_000, -1_000]), st.integers(-3_000, 3_000)),
    )
    def append(self, size: int, count: int, skew_ms: int | None) -> None:
        timestamp = -1 if skew_ms is None else self.now_ms + skew_ms
        data = batch(self.end, count, size=size, timestamp=timestamp)
        before = len(self.log.segments)
        self.log.append(data, self.now_ms)
        rolled = len(self.log.segments) > before
        assert rolled == self.must_roll(data, timestamp, rolled)
        if rolled:
            self.segments.append(ModelSegment(self.end, self.now_ms))
        active = self.segments[-1]
        if not active.batches:
            active.first_timestamp = timestamp
        active.newest = max(active.newest, timestamp)
        active.batches.append((self.end, self.end + count - 1, data))
        active.modified_ms = self.now_ms
        os.utime(self.log.active.path, ns=(self.now_ms * 1_000_000,) * 2)
        self.end += count

    def must_roll(self, data: bytes, timestamp: int, rolled: bool) -> bool:
        """Kafka's LogSegment.shouldRoll; a result that depends on jitter is taken as observed."""
        active = self.segments[-1]
        if not active.batches:
            return False
        if active.size + len(data) > self.fixed["segment_bytes"]:  # type: ignore[operator]
            return True
        waited = timestamp - active.first_timestamp if active.first_timestamp >= 0 else self.now_ms - active.created_ms
        segment_ms, jitter_ms = int(self.fixed["segment_ms"]), int(self.fixed["segment_jitter_ms"])  # type: ignore[call-overload]
        if waited > segment_ms:
            return True
        if waited <= segment_ms - min(jitter_ms, segment_ms) or waited <= active.waited_ms:
            return False
        if not rolled:
            active.waited_ms = waited
        return rolled

    @rule(by_ms=st.one_of(st.sampled_from([1, 400, 500, 700, 1_000]), st.integers(0, 2_000)))
    def wait(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule(retention_ms=st.sampled_from([-1, 1, 500, 3_000]), retention_bytes=st.sampled_from([-1, 0, 250, 1_000]))
    def reconfigure(self, retention_ms: int, retention_bytes: int) -> None:
        self.retention_ms, self.retention_bytes = retention_ms, retention_bytes
        self.log.reconfigure(self.config())

    @rule(behind=st.integers(0, 6))
    def apply_retention(self, behind: int) -> None:
        ends = [last + 1 for segment in self.segments for _, last, _ in segment.batches if last >= self.start]
        high_watermark = ([self.start, *ends][:-behind] if behind else ends)[-1:] or [self.end]
        for compacted in (False, True):
            self.manager.apply_retention(self.now_ms, lambda topic, partition: high_watermark[0], compacted=compacted)
        if "delete" in self.fixed["cleanup_policy"]:  # type: ignore[operator]
            self.delete_by_size(high_watermark[0])
            self.delete_by_time(high_watermark[0])

    def deletable(self, high_watermark: int) -> list[ModelSegment]:
        """Return the segments that could be deleted if they were old or many enough: complete ones below the high
        watermark.
        """
        found = []
        for number, segment in enumerate(self.segments):
            is_last = number + 1 == len(self.segments)
            upper = self.end if is_last else self.segments[number + 1].base
            if high_watermark < upper or (is_last and not segment.batches):
                break
            found.append(segment)
        return found

    def delete_by_size(self, high_watermark: int) -> None:
        surplus = sum(segment.size for segment in self.segments) - self.retention_bytes
        if self.retention_bytes < 0 or surplus < 0:
            return
        count = 0
        for segment in self.deletable(high_watermark):
            if surplus < segment.size:
                break
            surplus -= segment.size
            count += 1
        self.drop(count)

    def delete_by_time(self, high_watermark: int) -> None:
        if self.retention_ms < 0:
            return
        count = 0
        for segment in self.deletable(high_watermark):
            if self.now_ms - segment.largest_timestamp <= self.retention_ms:
                break
            count += 1
        self.drop(count)

    def drop(self, count: int) -> None:
        """Delete the oldest segments, and begin a new one if all are deleted."""
        if count == len(self.segments):
            self.segments.append(ModelSegment(self.end, self.now_ms))
        for segment in self.segments[:count]:
            self.leaving[f"{segment.base:020d}.log.deleted"] = self.now_ms + DELETE_DELAY_MS
        del self.segments[:count]
        self.start = max(self.start, self.segments[0].base)

    @rule(at=st.integers(0, 400))
    def delete_records(self, at: int) -> None:
        offset = self.start + at % (self.end - self.start + 1)
        self.manager.delete_records_before(self.log, offset, self.now_ms)
        self.start = offset
        if offset == self.end and self.segments[-1].batches:
            self.drop(len(self.segments))
        else:
            self.drop(sum(segment.base <= offset for segment in self.segments[1:]))

    @precondition(lambda self: self.start < self.end and len(self.held) < 4)
    @rule(at=st.integers(0, 400), max_bytes=st.integers(1, 600))
    def hold(self, at: int, max_bytes: int) -> None:
        """Keep a fetch that is being sent."""
        part = self.log.read_slice(self.start + at % (self.end - self.start), max_bytes=max_bytes)
        assert part is not None
        self.held.append((part, part.read()))

    @precondition(lambda self: self.held)
    @rule()
    def let_go(self) -> None:
        self.held.pop(0)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        self.held.clear()
        if clean:
            self.manager.stop()
        else:
            self.manager.crash()
        self.jobs = ClockedJobs(self.now_ms)
        self.manager = open_manager(self.root, config=self.config(), now_ms=self.now_ms, jobs=self.jobs)
        assert self.manager.offline == {}
        self.log = self.manager.logs["t", 0]
        # A start removes renamed files, and considers all segments created now.
        self.leaving.clear()
        for segment in self.segments:
            segment.created_ms = self.now_ms

    # --- checks

    @invariant()
    def agrees(self) -> None:
        if not self.opened:
            return
        self.jobs.advance(self.now_ms)
        log = self.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert [segment.base_offset for segment in log.segments] == [segment.base for segment in self.segments]
        assert [segment.size for segment in log.segments] == [segment.size for segment in self.segments]
        self.leaving = {name: due for name, due in self.leaving.items() if due > self.now_ms}
        names = set(os.listdir(log.directory))
        assert {name for name in names if name.endswith(".log.deleted")} == set(self.leaving)
        assert {name for name in names if name.endswith(".log")} == {f"{each.base:020d}.log" for each in self.segments}
        known = {int(name[:20]) for name in (*self.leaving, *(f"{each.base:020d}" for each in self.segments))}
        assert {int(name[:20]) for name in names if name.endswith((".index", ".timeindex", ".deleted"))} <= known

    @invariant()
    def readers_get_a_clean_answer(self) -> None:
        if not self.opened:
            return
        for part, data in self.held:
            assert part.read() == data
        for offset in (self.start - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRange):
                self.log.read_slice(offset)
        found, offset = b"", self.start
        while offset < self.end:
            whole = split(some_slice(self.log, offset, max_bytes=500).read())
            found += b"".join(data for _, _, data in whole)
            offset = whole[-1][1] + 1
        batches = [entry for segment in self.segments for entry in segment.batches]
        assert found == b"".join(data for _, last, data in batches if last >= self.start)


@pytest.fixture(autouse=True, scope="module")
def few_segments_a_turn() -> Iterator[None]:
    """One deletion takes several iterations of the loop."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "SEGMENTS_PER_TURN", 2)
        yield


# If it fails: records are deleted that should be kept, old ones keep their space, or a reader of a deleted segment
# fails.
TestRetention = RetentionMachine.TestCase
TestRetention.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
