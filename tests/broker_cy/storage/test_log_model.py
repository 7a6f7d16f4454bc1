"""The log against a plain list of batches: any order of appends, reads, rolls, truncations, deletions and restarts."""

import os
import shutil
import tempfile
from itertools import accumulate, pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_slice import LogSlice

from .batches import batch, split
from .managing import TOPIC_ID, Manager, open_manager

# Syncs cost nothing there, and there are thousands of them.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class LogMachine(RuleBasedStateMachine):
    """The model: batches (base, last, timestamp, epoch, bytes), and where the log starts and ends."""

    manager: Manager
    opened = False

    @initialize(
        segment_bytes=st.sampled_from([400, 1_500, 100_000]),
        interval=st.sampled_from([0, 200, 4_096]),
        index_bytes=st.sampled_from([64, 4_096]),
    )
    def open(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        self.root = tempfile.mkdtemp(prefix="log-model-", dir=MEMORY)
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            segment_ms=5_000,
            file_delete_delay_ms=0,
        )
        self.manager = self.opened_manager()
        self.opened = True
        self.log = self.manager.create("t", 0, TOPIC_ID, self.config, 0)
        self.batches: list[tuple[int, int, int, int, bytes]] = []
        self.start = self.end = self.epoch = 0

    def opened_manager(self) -> Manager:
        return open_manager(self.root, config=self.config)

    def teardown(self) -> None:
        if self.opened:
            self.manager.crash()
            shutil.rmtree(self.root)

    @rule(
        sizes=st.lists(st.integers(0, 300), min_size=1, max_size=6),
        count=st.integers(1, 4),
        timestamp=st.integers(0, 20_000),
        newer=st.booleans(),
    )
    def append(self, sizes: list[int], count: int, timestamp: int, newer: bool) -> None:
        self.epoch += newer
        data = b""
        for size in sizes:
            one = batch(self.end, count, size=size, timestamp=timestamp, leader_epoch=self.epoch)
            self.batches.append((self.end, self.end + count - 1, timestamp, self.epoch, one))
            self.end += count
            data += one
        assert self.log.append(data, timestamp) == self.end

    @rule(
        offset=st.integers(0, 400), max_offset=st.integers(0, 400), max_bytes=st.integers(1, 3_000), whole=st.booleans()
    )
    def read(self, offset: int, max_offset: int, max_bytes: int, whole: bool) -> None:
        offset = self.start + offset % (self.end - self.start + 1)
        # A reader's bound is between batches.
        bounds = [self.start, *(last + 1 for _, last, *_ in self.batches)]
        bound = bounds[max_offset % len(bounds)]
        part = self.log.read_slice(offset, bound, max_bytes, whole)
        wanted = [entry for entry in self.batches if entry[1] >= offset and entry[0] < bound]
        if part is None:
            assert not wanted or offset >= bound or (not whole and len(wanted[0][4]) > max_bytes)
            return
        data = part.read()
        assert part.first_offset == wanted[0][0]
        expected = b"".join(entry[4] for entry in wanted)
        assert expected.startswith(data)
        # Limited only by the limit, or by the end of the segment.
        assert len(data) == min(len(expected), max(max_bytes, len(wanted[0][4]))) or self.ends_segment(part)

    def ends_segment(self, part: LogSlice) -> bool:
        return part.position + part.size == part.segment.size and part.segment is not self.log.active

    @precondition(lambda self: self.batches)
    @rule(at=st.integers(0, 400))
    def truncate(self, at: int) -> None:
        offset = self.start + at % (self.end - self.start + 1)
        self.manager.truncate_to(self.log, offset, 0, lambda: None)
        self.manager.jobs.run_due()
        # A batch that contains the offset goes, and the log ends where it began.
        offset = max(self.start, min([offset, *(entry[0] for entry in self.batches if entry[1] >= offset)]))
        self.batches = [entry for entry in self.batches if entry[1] < offset]
        self.end = offset

    @rule(at=st.integers(0, 400))
    def delete_records(self, at: int) -> None:
        offset = self.start + at % (self.end - self.start + 1)
        self.manager.delete_records_before(self.log, offset)
        self.manager.jobs.run_due()
        self.start = offset

    @rule()
    def flush(self) -> None:
        self.manager.flusher.start()
        assert self.log.recovery_point == self.end

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.manager.stop()
        else:
            # The start offset is checkpointed when records are deleted, so it survives a crash.
            self.manager.crash()
        self.manager = self.opened_manager()
        assert self.manager.offline == {}
        self.log = self.manager.logs["t", 0]
        if self.log.log_end_offset != self.end:
            # The end of a log that was truncated inside a batch is not written anywhere.
            assert not self.batches or self.log.log_end_offset == max(self.batches[-1][1] + 1, self.start)
            self.end = self.log.log_end_offset

    @precondition(lambda self: self.batches and self.log.active.size > 0)
    @rule(cut=st.integers(1, 500), noise=st.booleans())
    def lose_the_tail(self, cut: int, noise: bool) -> None:
        """A power loss removes bytes of the active segment, none of them from before the recovery point."""
        path, size = self.log.active.path, self.log.active.size
        kept = [entry for entry in self.batches if entry[1] >= self.log.active.base_offset]
        safe = sum(len(entry[4]) for entry in kept if entry[1] < self.log.recovery_point)
        position = max(size - cut, safe)
        in_file = sum(len(entry[4]) for entry in kept)
        self.manager.crash()
        os.truncate(path, position)
        if noise:
            with open(path, "ab") as file:
                file.write(b"\xa5" * (size - position))
        lost = in_file - position
        while lost > 0:
            lost -= len(self.batches.pop()[4])
        self.manager = self.opened_manager()
        assert self.manager.offline == {}
        self.log = self.manager.logs["t", 0]
        if self.batches or self.log.log_end_offset < self.end:
            self.end = self.log.log_end_offset
        if self.batches:
            assert self.end >= self.batches[-1][1] + 1

    @invariant()
    def agrees(self) -> None:
        if not self.opened:
            return
        log = self.log
        assert (log.log_start_offset, log.log_end_offset, log.written_end_offset) == (self.start, self.end, self.end)
        assert log.log_start_offset <= log.recovery_point <= log.log_end_offset
        found, offset = b"", self.start
        while offset < self.end and (part := log.read_slice(offset, max_bytes=700)) is not None:
            whole = split(part.read())
            found += b"".join(data for _, _, data in whole)
            offset = whole[-1][1] + 1
        assert found == b"".join(entry[4] for entry in self.batches if entry[1] >= self.start)
        sizes = [os.path.getsize(segment.path) for segment in log.segments]
        assert sizes == [segment.size for segment in log.segments]
        for segment in log.segments:
            entries = segment.offsets.entries()
            assert entries == sorted(set(entries))
            with open(segment.path, "rb") as file:
                whole = split(file.read())
            positions = accumulate((len(data) for _, _, data in whole), initial=0)
            assert set(entries) <= {(last, at) for (_, last, _), at in zip(whole, positions, strict=False)}
            times = segment.times.entries()
            assert [at for at, _ in times] == sorted({at for at, _ in times})
        epochs = log.epochs.entries
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(epochs))
        for base, _, _, epoch, _ in self.batches:
            if base >= self.start:
                assert log.epochs.epoch_for_offset(base) == epoch


TestLog = LogMachine.TestCase
TestLog.settings = settings(
    max_examples=80,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
