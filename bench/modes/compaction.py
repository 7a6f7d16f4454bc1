"""`compaction`: the cost of cleaning a log, and its effect on producers.

A log of many records and few keys is written while min.compaction.lag.ms prevents cleaning. Removing that setting
starts a compaction, and cleaner-offset-checkpoint shows its end. One such log is compacted without other load (input
per second, CPU), and a second one while producers run on a schedule, which are first measured alone. All remaining
records are read, and must include the latest value of every key.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from bench.measuring import proc
from bench.modes.base import Outcome, up, warm_up
from bench.modes.keyed_log import KeyedLog, KeyedLogError, Leftover
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target, TargetError
from bench.window.engine import FAILURES, Measured, Session, Stopped, measure, new_topic
from bench.wire import protocol
from bench.wire.raw import Driver, LoadError
from broker_cy.client.toml_file import SpecError

RECORDS, KEYS, BATCH_BYTES = 10_000_000, 100_000, 16 << 10
RECORD_BYTES = 125  # approximate, to compute the disk space that is needed
SEGMENT_LEAST, SEGMENT_MOST, SEGMENTS = 1 << 20, 64 << 20, 20  # Kafka does not allow smaller segments
LIMIT_S = 600.0  # for one compaction
TOLD_S = 0.2  # a compaction that outlasts the measured producers by more than this is noted
IDLE_S, IDLE_LEAST_S = 2.0, 0.2  # the time that the idle broker is observed: its CPU is subtracted from compaction's
LOOK_S = 0.01
READY_S = 30.0  # for the topic's leader
FETCH_BYTES = 8 << 20
LENGTH_END = 12  # position in a batch from which its length counts
HELD_BACK_MS = 1 << 50
LAG = "min.compaction.lag.ms"
# Kafka searches for logs to clean every 15 s, which must not be part of the measurement.
SETTINGS = {"log.cleaner.backoff.ms": "100"}
SECONDS_MAX = 600.0
MB, GB = 1e6, 1e9


@dataclass(frozen=True)
class Plan:
    """The log that is compacted."""

    records: int = RECORDS
    keys: int = KEYS
    batch_bytes: int = BATCH_BYTES

    @property
    def segment_bytes(self) -> int:
        """Return the segment size of the topic: several segments, because the active one is not cleaned."""
        return min(max(self.records * RECORD_BYTES // SEGMENTS, SEGMENT_LEAST), SEGMENT_MOST)


def prepared(specs: Sequence[TargetSpec]) -> list[TargetSpec]:
    """Return the targets with SETTINGS, unless their files set them. Raises SpecError for a wrong kind of target."""
    if others := [spec.name for spec in specs if spec.kind not in ("ours", "kafka")]:
        raise SpecError(
            f"target {others[0]}: the progress of its cleaner is read from its data directory (allowed: ours, kafka)"
        )
    return [replace(spec, settings={**SETTINGS, **spec.settings}) for spec in specs]


def compaction(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, plan: Plan, pairs: int
) -> None:
    """Measure each target in turn, `pairs` times: a compaction alone, producers alone, and both together."""
    if not workload.producers or workload.rate.unlimited or workload.rate.ramp_s or workload.consumers:
        raise SpecError(
            f"workload {workload.name}: the effect of compaction on producers is measured on a steady schedule "
            '(needed: producers and no consumers, and a rate such as "1000 requests/s")'
        )
    if plan.records * RECORD_BYTES < 3 * plan.segment_bytes:
        least = 3 * SEGMENT_LEAST // RECORD_BYTES
        raise SpecError(
            f"--records: {plan.records} do not fill a segment that can be cleaned (allowed: at least {least})"
        )
    need = plan.records * RECORD_BYTES * (1 + len(specs)) + GB
    if (free := shutil.disk_usage(session.root).free) < need:
        raise TargetError(f"{need / GB:.1f} GB must be free in {session.root}, but only {free / GB:.1f} are")
    with up(session, specs, outcome) as targets:
        verdicts = {name: warm_up(session, name, target, workload, outcome) for name, target in targets.items()}
        for pair in range(pairs):
            for name, target in list(targets.items())[:: -1 if pair % 2 else 1]:
                if session.stop.is_set() or outcome.failed:
                    return
                _round(session, name, target, workload, outcome, plan, pair)
        for run in outcome.runs:
            run.verdicts = verdicts[run.target]


def _round(
    session: Session, name: str, target: Target, workload: Workload, outcome: Outcome, plan: Plan, pair: int
) -> None:
    """Measure everything of one target in one pair."""

    def by_itself(log: _Log) -> None:
        log.compact()
        log.verify()

    def with_producers(log: _Log) -> None:
        alone = measure(session, name, target, workload, "producers alone", pair)
        outcome.runs.append(alone)
        session.go_on()
        if alone.failed:
            log.run.empty = True
            return
        beside = log.beside(workload)
        outcome.runs.append(beside)
        session.go_on()
        before = alone.result.latency.percentile(99)
        if before and not beside.failed:
            beside.extra["p99_to_alone"] = beside.result.latency.percentile(99) / before
        if (compacted_s := log.run.extra["compaction_s"]) > beside.result.seconds + TOLD_S:
            outcome.notes.append(
                f"{name}: producers were measured in {beside.result.seconds:.1f} s of the {compacted_s:.1f} s in which "
                "the log was compacted: a longer --duration covers all of it"
            )
        log.verify()

    for label, work in (("compaction", by_itself), ("compaction beside producers", with_producers)):
        if not session.stop.is_set() and not outcome.failed:
            log = _Log(session, name, target, plan, Measured.begin(name, label, pair))
            _with(log, work)
            outcome.runs.append(log.run)
            session.on_window()


def _with(log: "_Log", work: "Callable[[_Log], None]") -> None:
    """Write the log, call `work` with it, and delete it; a failure is reported in its run."""
    try:
        log.write()
        work(log)
    except Stopped:
        log.run.empty = True
    except (KeyedLogError, LoadError, *FAILURES) as error:
        log.run.failed = f"{type(error).__name__}: {error}"
    finally:
        if log.target.alive():
            with contextlib.suppress(*FAILURES):  # the first error is more informative
                log.target.delete_topic(log.topic)


class _Log:
    """One topic of one partition, from its first record to the result of its compaction."""

    def __init__(self, session: Session, name: str, target: Target, plan: Plan, run: Measured) -> None:
        self.session, self.name, self.target, self.plan, self.run = session, name, target, plan, run
        self.topic = new_topic("compaction")
        self.log = KeyedLog(plan.records, plan.keys, plan.batch_bytes)
        self.input_bytes = self.clean_to = 0

    @property
    def directory(self) -> Path:
        return self.target.directory / f"{self.topic}-0"

    def write(self) -> None:
        """Write all records and sync them, because the kernel would otherwise write them during a measurement."""
        self.session.on_phase(f"{self.name}: filling")
        settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(self.plan.segment_bytes),
            "min.cleanable.dirty.ratio": "0.01",
            LAG: str(HELD_BACK_MS),
        }
        with protocol.Client(self.target.address) as client:
            client.create_topic(self.topic, 1, settings)
            offsets = self._when_ready(client)
        if offsets != {0: 0}:
            raise TargetError(f"the new topic {self.topic} begins at {offsets}")
        for chunk in self.log.batches():
            self.session.go_on()
            templates = [protocol.produce_request(self.topic, 0, data, count) for data, count in chunk]
            driver = Driver(self.target.address, [templates])
            try:
                driver.run_closed(depth=5, requests=len(templates), seconds=SECONDS_MAX)
                if driver.next_offsets(1)[0] != self.log.made:
                    raise TargetError(f"{self.log.made} records were written, the end is {driver.next_offsets(1)[0]}")
            finally:
                driver.close()
        *logs, active = sorted(self.directory.glob("*.log"))
        self.input_bytes, self.clean_to = sum(path.stat().st_size for path in logs), int(active.stem)
        for path in (*logs, active):
            _sync(path)

    def _when_ready(self, client: protocol.Client) -> dict[int, int]:
        """Return the partition's end once it has a leader. Raises ProtocolError if that takes longer than READY_S."""
        deadline = time.monotonic() + READY_S
        while True:
            try:
                return client.list_offsets(self.topic, (0,), protocol.LATEST)
            except protocol.ProtocolError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_S)

    def compact(self) -> None:
        """Compact without other load. Raises TargetError, Stopped."""
        self.session.on_phase(f"{self.name}: idle")
        watched_s = min(IDLE_S, IDLE_LEAST_S + IDLE_S * self.plan.records / RECORDS)
        before = proc.usage(self.target.pid)
        self.session.stop.wait(watched_s)
        idle = proc.usage(self.target.pid) - before
        self.session.on_phase(f"{self.name}: compaction")
        before = proc.usage(self.target.pid)
        with self.session.observe(self.target.pid):
            seconds = self.clean()
        used = proc.usage(self.target.pid) - before
        cpu_s = max(0.0, used.cpu_s - idle.cpu_s / watched_s * seconds)
        self.run.extra["compaction_cpu_s_per_gb"] = cpu_s / (self.input_bytes / GB)

    def beside(self, workload: Workload) -> Measured:
        """Run producers until the compaction ends, and at most for their own time."""
        stop = Event()

        @contextlib.contextmanager
        def compacting(*pids: int) -> Iterator[None]:
            compactions.append(pool.submit(self.clean, stop))
            yield

        compactions: list[Future[float]] = []
        with ThreadPoolExecutor(2) as pool:
            beside = replace(self.session, stop=stop, observe=compacting)
            producing = pool.submit(
                measure, beside, self.name, self.target, workload, "producers beside the compaction", self.run.pair
            )
            while not producing.done():
                if self.session.stop.is_set():
                    stop.set()
                time.sleep(LOOK_S)
            for each in compactions:
                each.result()
        return producing.result()

    def clean(self, ended: Event | None = None) -> float:
        """Start the cleaner, wait until all but the active segment is clean, then set `ended`; returns how long it
        took.
        """
        begun = time.monotonic()
        try:
            with protocol.Client(self.target.address) as client:
                client.alter_topic(self.topic, {LAG: "0"})
            while (reached := self._cleaned_to()) < self.clean_to:
                self.session.go_on()
                if not self.target.alive():
                    raise TargetError("the target ended")
                if time.monotonic() - begun > LIMIT_S:
                    raise TargetError(f"clean up to offset {reached} of {self.clean_to} after {LIMIT_S:g} s")
                time.sleep(LOOK_S)
        finally:
            if ended is not None:
                ended.set()
        seconds = time.monotonic() - begun
        self.run.extra |= {
            "compaction_s": seconds,
            "input_gb": self.input_bytes / GB,
            "input_mb_per_s": self.input_bytes / MB / seconds,
        }
        return seconds

    def _cleaned_to(self) -> int:
        """Return the topic's entry in cleaner-offset-checkpoint; 0 if there is none."""
        try:
            lines = (self.target.directory / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
        except FileNotFoundError:
            return 0
        found = (line.split() for line in lines)
        return max((int(words[2]) for words in found if words[:1] == [self.topic]), default=0)

    def verify(self) -> None:
        """Read all remaining records. Raises KeyedLogError if something is missing, LoadError."""
        self.session.on_phase(f"{self.name}: reading what is left")
        left = Leftover(self.log)
        for offset, key, value in _consumed(self.target, self.topic):
            left.take(offset, key, value)
        left.check()
        self.run.extra |= {
            "left_mb": sum(path.stat().st_size for path in self.directory.glob("*.log")) / MB,
            "left_records": left.records,
        }


def _consumed(target: Target, topic: str) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    """Yield offset, key and value of every record of partition 0. Raises ProtocolError."""
    offset = 0
    with protocol.Client(target.address) as client:
        while True:
            data, end = client.fetch(topic, 0, offset, FETCH_BYTES)
            at = 0
            while len(data) - at >= LENGTH_END and len(data) - at >= (size := _size_of_batch(data, at)):
                for record in protocol.records_of(data[at : at + size]):
                    if record[0] >= offset:  # the first batch may begin before
                        yield record
                offset = _next_offset(data, at)
                at += size
            if offset >= end:
                return
            if at == 0:
                raise protocol.ProtocolError(f"no whole batch at offset {offset}, where the log ends at {end}")


def _size_of_batch(data: bytes, at: int) -> int:
    return LENGTH_END + int.from_bytes(data[at + 8 : at + LENGTH_END], "big")


def _next_offset(data: bytes, at: int) -> int:
    """Return the offset after the batch: its base offset plus the delta of its last offset plus 1."""
    return int.from_bytes(data[at : at + 8], "big") + int.from_bytes(data[at + 23 : at + 27], "big") + 1


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
