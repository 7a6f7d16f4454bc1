"""The warm-up of a target before its first window: the workload's own load until it is steady (bench.window.steady)."""

from functools import partial

from bench.drivers.base import DriverError, DriverResult, LoadDriver
from bench.drivers.raw import RawDriver, list_offsets
from bench.report.measured import figures
from bench.spec.workload import TRANSACTIONS, Workload
from bench.targets.brokers import Floor, Target, TargetError
from bench.window.engine import Measured, Session, measure, pieces, sound
from bench.window.read_back import read_tail
from bench.window.steady import PATIENCE, PATIENCE_COMPILING, WINDOW_S, Warming
from bench.wire.protocol import LATEST
from bench.wire.raw import LoadError

READ_BACK_BYTES = 64 << 20


def warm(
    session: Session, name: str, target: Target, workload: Workload, label: str = "", topic: str | None = None
) -> tuple[Warming | None, str | None]:
    """Run `workload` until the target is steady, or until the workload's bound; returns the warm-up and its failure.

    The warm-up is None if the workload has none, or if the session was stopped.
    """
    if not workload.steady_s:
        return None, None
    patience = PATIENCE_COMPILING if target.compiles else PATIENCE
    warming = Warming(name, label, _steady_metric(target, workload), workload.steady_s, patience)
    measured = measure(session, name, target, workload, label, topic=topic, window=partial(_until_steady, warming))
    return (warming if warming.values else None), measured.failed


def _steady_metric(target: Target, workload: Workload) -> str:
    """Return the figure that has to become steady: the rate or, on a schedule, the target's CPU per request."""
    if workload.transactions is not None and workload.producers:
        return "transactions_per_s" if workload.transactions.measure == TRANSACTIONS else "starts_per_s"
    if workload.producers == 0 or workload.rate.unlimited:
        return "records_per_s"
    if not target.pid:
        return "avg_ms"
    return "cpu_us_per_request" if workload.driver == "raw" else "cpu_s_per_m_records"


def _until_steady(
    warming: Warming,
    session: Session,
    name: str,
    target: Target,
    workload: Workload,
    driver: LoadDriver,
    measured: Measured,
) -> None:
    """Measure windows of WINDOW_S; the last one remains in `measured`. Then read back the end of the log."""
    rate = 0.0
    while not warming.over:
        session.go_on()
        session.on_phase(f"{name}: warm-up, {warming.seconds:.0f} s")
        measured.result, measured.spent = DriverResult(), None
        rate = pieces(session, name, target, workload, driver, measured, min(WINDOW_S, workload.steady_s), rate)
        sound(measured.result, "in the warm-up")
        session.go_on()
        found = figures(measured.result, measured.spent, measured.consuming)
        if warming.metric not in found:  # unknown for Kafka's own tools on a schedule, and for a target on another host
            return
        warming.add(measured.result.seconds, found[warming.metric])
    # Without acknowledgements, no record is guaranteed; the floor has one set of partitions for all topics.
    promised = workload.producers > 0 and workload.acks != "0"
    if promised and isinstance(driver, RawDriver) and not isinstance(target, Floor):
        read_back(session, target, driver, workload, measured.result)


def read_back(session: Session, target: Target, driver: RawDriver, workload: Workload, result: DriverResult) -> None:
    """Check the checksums of the last READ_BACK_BYTES of acknowledged records. Raises DriverError, TargetError."""
    session.on_phase(f"{target.name}: reading back")
    ends = list_offsets(target.leaders(driver.topic, workload.partitions), driver.topic, LATEST)
    records = int(READ_BACK_BYTES * result.records / max(result.bytes, 1) / workload.partitions)
    if lost := {p: end for p, end in driver.acknowledged().items() if end > ends[p]}:
        raise TargetError(f"{target.name}: acknowledged up to {lost}, but the log ends at {ends}")
    try:
        read_tail(target, driver.topic, ends, max(1, records))
    except LoadError as error:
        raise DriverError(f"reading back what was acknowledged: {error}") from error
