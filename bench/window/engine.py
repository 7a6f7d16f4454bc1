"""One measured window: a workload on a running target, with the resources that the broker used during it.

The steps are always: create a new topic, prepare the clients, warm up, warm the memory, measure the window, delete the
topic. A load that is as fast as possible is measured in pieces of PIECE_S, each after warming the memory: the host of a
virtual machine reclaims pages that have been free for two seconds, so that memory is only warm for a window that
follows its warming immediately.
"""

import contextlib
import dataclasses
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Event

from bench.drivers.base import DriverError, DriverResult, LoadDriver, Sample
from bench.drivers.raw import RawDriver, list_offsets
from bench.drivers.transactions import StartDriver, TransactionDriver
from bench.measuring import proc, provenance
from bench.report.measured import Spent, failure, run_of
from bench.report.result import Number, Run
from bench.spec.target import TargetSpec
from bench.spec.workload import READ_COMMITTED, TRANSACTIONS, Workload
from bench.targets.brokers import Attached, BrokerCy, Floor, Kafka, Target, TargetError
from bench.targets.cluster import Cluster
from bench.targets.faults import Freeze
from bench.wire.protocol import LATEST, ProtocolError

FILL_BYTES = 1 << 30  # for consumers, which read it repeatedly
FILL_TRANSACTIONS_BYTES = 128 << 20  # the same in transactions, which are written one after the other
PIECE_S = 0.75  # warmed and measured well within the two seconds after which a host reclaims free pages
WARM_BYTES_MAX = 4 << 30
BATCH_HEADER = 70  # bytes that a batch of one record adds to it, approximately; no write is smaller
FAILURES = (DriverError, ProtocolError, TargetError, OSError)  # of a run; other exceptions are defects of the tool
_ILLEGAL = re.compile(r"[^a-zA-Z0-9._-]")  # in a topic's name
_numbers = itertools.count(1)


@dataclasses.dataclass
class Measured:
    """One window on one target: the driver's counts, the process's resource usage, and the mode's own figures."""

    target: str
    label: str
    pair: int
    started: str  # ISO 8601, UTC
    result: DriverResult
    spent: Spent | None = None  # None: not a process of this host
    failed: str | None = None
    consuming: bool = False
    extra: dict[str, Number] = dataclasses.field(default_factory=dict)  # start_s, recovery_s, ...
    fault: Freeze | None = None
    empty: bool = False  # stopped before anything was measured: neither a run nor a failure
    verdicts: tuple[str, ...] = ()  # of the mode, in addition to those of the figures

    @classmethod
    def begin(cls, target: str, label: str = "", pair: int = 0, consuming: bool = False) -> "Measured":
        """Return a window with nothing measured yet."""
        return cls(target, label, pair, provenance.now(), DriverResult(), consuming=consuming)

    def run(self) -> Run:
        """Return the run for the report."""
        if self.extra and not self.failed and not self.result.seconds:  # a start or a recovery: no load was measured
            return Run(self.target, self.started, self.pair, self.label, figures=self.extra, verdicts=self.verdicts)
        run = run_of(
            self.result,
            target=self.target,
            started=self.started,
            spent=self.spent,
            pair=self.pair,
            label=self.label,
            consuming=self.consuming,
            failed=self.failed,
            extra=self.extra,
        )
        own = (
            self.verdicts if self.fault is None else (f"a fault was caused in the target: {self.fault}", *self.verdicts)
        )
        return run if self.failed else dataclasses.replace(run, verdicts=(*own, *run.verdicts))


class Stopped(Exception):
    """Ctrl-C was pressed before anything was measured."""


@dataclasses.dataclass
class Session:
    """The state of every mode: its directory, its listeners, and whether to stop."""

    root: Path
    stop: Event = dataclasses.field(default_factory=Event)
    on_sample: Callable[[str, Sample, proc.Sampled | None], None] | None = None
    on_phase: Callable[[str], None] = lambda text: None
    on_window: Callable[[], None] = lambda: None
    fault: Freeze | None = None  # caused in the target in each window
    # A context for profilers around each measured piece, called with the pids of a target on this host.
    observe: Callable[..., contextlib.AbstractContextManager[None]] = lambda *pids: contextlib.nullcontext()

    def go_on(self) -> None:
        """Raise Stopped after a request to stop."""
        if self.stop.is_set():
            raise Stopped

    def target(self, spec: TargetSpec) -> Target:
        """Return the target of a file, not started yet. Raises TargetError."""
        directory = self.root / spec.name.replace("/", "_").replace(":", "_")
        if spec.nodes > 1:
            return Cluster(directory, spec)
        if spec.kind == "ours":
            return BrokerCy(directory, spec.settings, spec.security)
        if spec.kind == "floor":
            return Floor(directory)
        if spec.kind == "kafka":
            return Kafka(directory, spec.settings, spec.jvm, spec.security)
        assert spec.bootstrap is not None  # TargetSpec: an address has one
        return Attached(spec.bootstrap, spec.pid, spec.client_config)


def make_driver(target: Target, topic: str, workload: Workload) -> LoadDriver:
    """Return the workload's driver. Raises DriverError if something that it needs is missing."""
    refuse(target, workload)
    if workload.transactions is not None and workload.producers:
        one_by_one = TransactionDriver if workload.transactions.measure == TRANSACTIONS else StartDriver
        return one_by_one(target.address, topic, workload)
    if workload.driver == "raw":
        return RawDriver(target.address, topic, workload, leaders=partial(target.leaders, topic, workload.partitions))
    if workload.driver == "librdkafka":
        from bench.drivers.librdkafka import LibrdkafkaDriver

        return LibrdkafkaDriver(target.address, topic, workload)
    from bench.drivers.kafka_tools import KafkaToolsDriver

    return KafkaToolsDriver(target.address, topic, workload)


def refuse(target: Target, workload: Workload) -> None:
    """Raise DriverError if the target does not support the workload."""
    if isinstance(target, Cluster) and workload.transactions is not None:
        raise DriverError(f"{target.name}: transactions are measured on one node (allowed: targets without `nodes`)")
    if isinstance(target, Floor) and workload.driver != "raw":
        raise DriverError(f'{target.name} supports only the driver "raw", not "{workload.driver}"')
    needs_ids = workload.idempotent or workload.transactions or workload.isolation == READ_COMMITTED
    if isinstance(target, Floor) and needs_ids:
        raise DriverError(f"{target.name} supports neither producer ids nor transactions")


def measure(
    session: Session,
    name: str,
    target: Target,
    workload: Workload,
    label: str = "",
    pair: int = 0,
    *,
    topic: str | None = None,
    keep_topic: bool = False,
    window: "WindowFunction | None" = None,
) -> Measured:
    """Run `workload` once on `target`, which must be running. Failures are reported in `failed`.

    `topic` is an existing topic with the records that consumers read; without it, a new topic is created, and deleted
    afterwards. `window` measures instead of `_window`.
    """
    measured = Measured.begin(name, label, pair, consuming=workload.producers == 0)
    own = topic is None
    topic = topic or new_topic(workload.name)
    driver: LoadDriver | None = None
    try:
        session.go_on()
        driver = make_driver(target, topic, workload)
        if own:
            session.on_phase(f"{name}: topic")
            target.create_topic(topic, workload.partitions)
        if own and workload.producers == 0:
            fill_for_consumers(session, target, topic, workload)
        session.go_on()
        driver.prepare()
        (window or _window)(session, name, target, workload, driver, measured)
        measured.failed = failure(measured.result, measured.spent)
    except Stopped:
        measured.empty = True
    except FAILURES as error:
        measured.failed = f"{type(error).__name__}: {error}"
    finally:
        if driver is not None:
            driver.close()
    if driver is not None and own and not keep_topic and target.alive():
        try:
            target.delete_topic(topic)
        except FAILURES as error:  # the first error is more informative
            measured.failed = measured.failed or f"{type(error).__name__}: {error}"
    if window is None:
        session.on_window()
    return measured


def new_topic(name: str) -> str:
    """Return an unused topic name with the first 80 characters of `name`, `_` for those that are illegal."""
    return f"bench-{_ILLEGAL.sub('_', name)[:80]}-{next(_numbers)}"


def fill_for_consumers(session: Session, target: Target, topic: str, workload: Workload) -> None:
    """Write the records that a workload without producers reads. Raises DriverError, Stopped."""
    refuse(target, workload)
    if workload.transactions is None:
        fill(session, target, topic, workload, FILL_BYTES)
    else:
        fill_transactions(session, target, topic, workload, FILL_TRANSACTIONS_BYTES)


def fill(session: Session, target: Target, topic: str, workload: Workload, wanted: int) -> dict[int, int]:
    """Write `wanted` bytes as fast as possible; returns each partition's end offset. Raises DriverError, Stopped."""
    session.on_phase(f"{target.name}: filling")
    producing = dataclasses.replace(
        workload, driver="raw", producers=2, consumers=0, batch_bytes=max(workload.batch_bytes, 64 << 10), in_flight=5
    )
    driver = RawDriver(target.address, topic, producing, leaders=partial(target.leaders, topic, producing.partitions))
    try:
        driver.prepare()
        written = 0
        while written < wanted:
            session.go_on()
            result = sound(driver.run(0.25, stop=session.stop), f"filling {topic}")
            written += result.bytes
        return list_offsets(target.leaders(topic, workload.partitions), topic, LATEST)
    finally:
        driver.close()


def fill_transactions(session: Session, target: Target, topic: str, workload: Workload, wanted: int) -> None:
    """Write `wanted` bytes in the workload's transactions, and end the last one. Raises DriverError, Stopped."""
    session.on_phase(f"{target.name}: filling")
    driver = TransactionDriver(target.address, topic, dataclasses.replace(workload, producers=1, consumers=0))
    try:
        driver.prepare()
        written = 0
        while written < wanted:
            session.go_on()
            written += sound(driver.run(0.25, stop=session.stop), f"filling {topic}").bytes
    finally:
        driver.close()


WindowFunction = Callable[[Session, str, Target, Workload, LoadDriver, Measured], None]


def _window(
    session: Session, name: str, target: Target, workload: Workload, driver: LoadDriver, measured: Measured
) -> None:
    """Warm up the clients and the topic for a short time, then measure the window."""
    session.on_phase(f"{name}: warm-up")
    rate = _warm_up(session, workload, driver, measured)
    session.go_on()
    measured.fault = session.fault
    session.on_phase(f"{name}: measuring")
    pieces(session, name, target, workload, driver, measured, workload.duration_s, rate, session.fault)
    if not (measured.result.records or measured.result.starts or measured.result.errors):
        session.go_on()


def pieces(
    session: Session,
    name: str,
    target: Target,
    workload: Workload,
    driver: LoadDriver,
    measured: Measured,
    left: float,
    rate: float,
    fault: Freeze | None = None,
) -> float:
    """Measure for `left` seconds, in pieces if the load is as fast as possible; returns the highest bytes per second.

    `rate`: expected bytes per second, which determine how much memory is warmed; 0 if unknown.
    """
    cut = workload.driver == "raw" and workload.rate.unlimited and workload.producers > 0 and fault is None
    cut = cut and workload.transactions is None  # one request at a time writes little
    spending = Spending(target.pids) if target.pids else None
    while left > 0 and not session.stop.is_set():
        seconds = min(left, PIECE_S) if cut else left
        if workload.producers and rate and target.pid:
            wanted = max(1, min(int(rate * seconds) * target.copies, WARM_BYTES_MAX))
            a_write = max(workload.batch_bytes, workload.record_size.most + BATCH_HEADER)
            proc.warm_memory(target.directory, wanted, a_write)
        tell = partial(_tell, session, name, measured.result.seconds, spending)
        with contextlib.ExitStack() as stack:
            if spending is not None:
                stack.enter_context(session.observe(*target.pids))
                stack.enter_context(spending.piece(measured.result.seconds))
            if fault is not None:
                stack.enter_context(fault.put_into(target.pid))
            piece = driver.run(seconds, tell, session.stop)
        measured.result.append(piece)
        rate = max(piece.bytes / max(piece.seconds, 1e-3), rate)
        left -= seconds
        if piece.errors:
            break
    if spending is not None:
        measured.spent = spending.spent()
    return rate


def _warm_up(session: Session, workload: Workload, driver: LoadDriver, measured: Measured) -> float:
    """Warm up; returns bytes per second. Raises DriverError on errors, which are reported as those of the window."""
    if not workload.warm_up_s:
        return 0.0
    result = driver.run(workload.warm_up_s, stop=session.stop)
    if result.errors:
        measured.result = result
    sound(result, "in the warm-up")
    return result.bytes / max(result.seconds, 1e-3)


def sound(result: DriverResult, where: str) -> DriverResult:
    """Return the result of a run that is not measured. Raises DriverError if there were errors."""
    if result.errors:
        raise DriverError(f"{where}: {failure(result)}")
    return result


def _tell(session: Session, name: str, shift_s: float, spending: "Spending | None", sample: Sample) -> None:
    """Pass a sample on, with its time since the window began."""
    if session.on_sample is not None:
        latest = spending.latest() if spending is not None else None
        session.on_sample(name, dataclasses.replace(sample, t_s=sample.t_s + shift_s), latest)


class Spending:
    """Resources that a target's processes used in the pieces of a window, without what they used between them."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.pids = pids
        self.used: list[proc.Usage] = []
        self.samples: list[proc.Sampled] = []
        self.peak_bytes = self.files = 0
        self.died = False
        self.samplers: list[proc.Sampler] = []

    @contextlib.contextmanager
    def piece(self, shift_s: float) -> Iterator[None]:
        """Measure one piece, which begins `shift_s` into the window."""
        before = [proc.usage(pid) for pid in self.pids]
        begun = time.monotonic()
        counted = sum(each.cpu_s for each in self.used)
        with contextlib.ExitStack() as stack:
            self.samplers = [stack.enter_context(proc.Sampler(pid)) for pid in self.pids]
            yield
        for pid, used in zip(self.pids, before, strict=True):
            with contextlib.suppress(OSError):  # the process died, which the sampler reports
                self.used.append(proc.usage(pid) - used)
        used_s = sum(each.cpu_s for each in before)
        for sample in proc.added([sampler.samples for sampler in self.samplers]):
            at_s, cpu_s = sample.at_s - begun + shift_s, sample.cpu_s - used_s + counted
            self.samples.append(sample._replace(at_s=at_s, cpu_s=cpu_s))
        self.peak_bytes = max(self.peak_bytes, sum(sampler.resident_peak_bytes for sampler in self.samplers))
        self.files = max(self.files, sum(sampler.files for sampler in self.samplers))
        self.died = self.died or any(sampler.died for sampler in self.samplers)

    def latest(self) -> proc.Sampled | None:
        """Return the latest sample of the running piece."""
        found = proc.added([sampler.samples[-1:] for sampler in self.samplers])
        return found[-1] if found else None

    def spent(self) -> Spent:
        """Return the resources used in the whole window."""
        return Spent(proc.total(self.used), self.samples, self.peak_bytes, self.files, self.died, 0.0)
