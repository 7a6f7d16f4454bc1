"""`start`, `idle` and `through`: modes that start and stop a separate target for each run.

`start`: time from the start on an empty directory until ApiVersions is answered. `idle`: memory of connections that
sent one request and are then idle. `through`: resident memory at rest, and after a log was written and read; then
kill -9, and a start after which no acknowledged record may be missing.
"""

import shutil
import time
from collections.abc import Callable, Sequence

from bench.measuring import proc
from bench.modes.base import Outcome, up
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Target, TargetError, raise_file_limit
from bench.window.engine import FAILURES, Measured, Session, Stopped, fill
from bench.window.read_back import read_tail
from bench.wire import protocol
from bench.wire.raw import LoadError
from broker_cy.client.toml_file import SpecError

TOPIC = "bench-through"
IDLE_CONNECTIONS = 10_000
THROUGH_BYTES = 10_000_000_000
SPARE = 1.2  # disk space per byte that is written: indexes, and what the system needs itself
SPARE_BYTES = 1e9
SETTLE_S = 2.0  # after a start, until its own work has ended and resident memory is stable
FIRST_CONNECTIONS = 50  # made before measuring: what they allocate permanently does not belong to connections
MB = 1e6
Work = Callable[[Session, Target, Measured], None]


def start(session: Session, specs: Sequence[TargetSpec], outcome: Outcome, pairs: int) -> None:
    """Measure the start to the first response, and the CPU until then. Raises SpecError for a target that already
    runs.
    """

    def work(session: Session, target: Target, run: Measured) -> None:
        run.extra |= {"start_s": target.first_answer_s, "start_cpu_s": proc.usage(target.pid).cpu_s}

    each(session, specs, outcome, pairs, "", work)


def idle(session: Session, specs: Sequence[TargetSpec], outcome: Outcome, connections: int, pairs: int) -> None:
    """Measure the resident memory of each of `connections` idle connections."""
    raise_file_limit(2 * connections + 1000)

    def work(session: Session, target: Target, run: Measured) -> None:
        for _ in range(FIRST_CONNECTIONS):
            with protocol.Client(target.address) as client:
                client.api_versions()
        before = proc.resident_bytes(target.pid)
        clients: list[protocol.Client] = []
        try:
            for _ in range(connections):
                session.go_on()
                clients.append(protocol.Client(target.address))
                clients[-1].api_versions()
            grown = proc.resident_bytes(target.pid) - before
        finally:
            for client in clients:
                client.close()
        run.extra |= {"connections": connections, "idle_connection_kb": grown / connections / 1024}

    each(session, specs, outcome, pairs, f"{connections:,} idle connections", work)


def through(
    session: Session, specs: Sequence[TargetSpec], workload: Workload, outcome: Outcome, size: int, pairs: int
) -> None:
    """Write and read back `size` bytes of the workload's batches. Raises SpecError, TargetError."""
    if not workload.producers:
        raise SpecError(f"workload {workload.name}: producers.count 0 writes no log (allowed: 1 and more)")

    def work(session: Session, target: Target, run: Measured) -> None:
        need = size * SPARE + SPARE_BYTES
        if (free := shutil.disk_usage(session.root).free) < need:
            raise TargetError(f"{need / 1e9:.1f} GB must be free in {session.root}, but only {free / 1e9:.1f} are")
        time.sleep(SETTLE_S)
        run.extra |= {"idle_mb": proc.resident_bytes(target.pid) / MB, "log_gb": size / 1e9}
        target.create_topic(TOPIC, workload.partitions)
        ends = fill(session, target, TOPIC, workload, size)
        session.on_phase(f"{target.name}: reading it back")
        read_tail(target, TOPIC, ends, max(ends.values()))
        run.extra["through_mb"] = proc.resident_bytes(target.pid) / MB
        session.on_phase(f"{target.name}: kill -9, start")
        target.kill()
        begun = time.monotonic()
        target.start()
        run.extra["recovery_s"] = target.first_answer_s
        first = target.probe(TOPIC, workload.partitions)
        run.extra["first_write_s"] = time.monotonic() - begun
        if lost := {p: (end, first[p]) for p, end in ends.items() if first[p] < end}:
            raise TargetError(f"acknowledged records are missing: partition: (end before, next offset) {lost}")

    each(session, specs, outcome, pairs, f"{size / 1e9:g} GB through", work)


def each(session: Session, specs: Sequence[TargetSpec], outcome: Outcome, pairs: int, label: str, work: Work) -> None:
    """Call `work` with each target in turn, A B B A ..., each started for it and stopped after it."""
    if others := [spec.name for spec in specs if spec.kind not in ("ours", "kafka")]:
        raise SpecError(f"target {others[0]} is not started and measured as a process (allowed: ours, kafka)")
    for pair in range(pairs):
        for spec in list(specs)[:: -1 if pair % 2 else 1]:
            if session.stop.is_set() or outcome.failed:
                return
            run = Measured.begin(spec.name, label, pair)
            with up(session, [spec], outcome) as targets:
                try:
                    work(session, targets[spec.name], run)
                except Stopped:
                    run.empty = True
                except (LoadError, *FAILURES) as error:
                    run.failed = f"{type(error).__name__}: {error}"
            outcome.runs.append(run)
            session.on_window()
