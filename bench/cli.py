"""`broker-bench MODE ...`: measure a Kafka-compatible broker. Modes, files and reports are described in docs/bench.md.

Exit codes are those of all programs (broker_cy.client.program): 1 if a run failed, 2 for a wrong option or file, 3 if a
target at an address cannot be reached, 130 if stopped by Ctrl-C; the results until then are still written.
"""

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench import arguments, output
from bench.measuring import perf
from bench.modes import (
    backlog,
    compaction,
    failover,
    flush,
    growth,
    lifecycle,
    offsets,
    producers,
    reassign,
    rebalance,
    recovery,
    run,
    search,
)
from bench.modes.base import Outcome
from bench.record import command as recording
from bench.report.live import View
from bench.spec import target as targets
from bench.spec import workload as workloads
from bench.spec.target import TargetSpec
from bench.spec.workload import Workload
from bench.targets.brokers import Unreached
from bench.targets.chosen import chosen
from bench.targets.faults import Freeze
from bench.window.engine import FAILURES, Session, Stopped
from broker_cy.client.clusters import Wanted
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.options import wanted as wanted_of
from broker_cy.client.program import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNREACHED, end
from broker_cy.client.toml_file import SpecError
from broker_cy.launch.signals import interruptible

SPECS = Path(__file__).parent / "specs"
OF_CLUSTERS = (
    "run",
    "compare",
    "matrix",
    "ceiling",
    "failover",
    "reassign",
)  # modes that may have targets of several nodes


def find(kind: str, name: str) -> Path:
    """Find a file by its path, or by name if the tool includes it. Raises SpecError."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    known = {each.stem: each for each in sorted((SPECS / kind).glob("*.toml"))}
    if name not in known:
        raise SpecError(
            f"{name}: neither a file nor a {kind[:-1]} that comes with the tool (allowed: {', '.join(known)})"
        )
    return known[name]


def find_target(name: str) -> TargetSpec:
    """Find a target file, or one that the tool includes. Raises SpecError."""
    return targets.load(find("targets", name))


def interrupt(session: Session) -> None:
    """Stop the current window; the second time, end the program."""
    if session.stop.is_set():
        raise KeyboardInterrupt
    session.stop.set()


def measure(
    options: argparse.Namespace,
    session: Session,
    workloads_asked: Sequence[Workload],
    specs: list[TargetSpec],
    outcome: Outcome,
) -> None:
    """Run the mode and add its measurements to `outcome`, also if it ends early."""
    if not workloads_asked:
        measure_without_load(options, session, specs, outcome)
        return
    workload = workloads_asked[0]  # the only one, except for `compare`
    match options.mode:
        case "reassign":
            reassign.reassignments(session, specs, workload, outcome, options.size, options.pairs, options.link)
        case "through":
            lifecycle.through(session, specs, workload, outcome, options.size, options.pairs)
        case "run" | "compare" | "floor":
            run.compare(session, specs, workloads_asked, outcome, options.pairs, options.profile)
        case "matrix":
            run.matrix(session, specs, workload, outcome, options.pairs, arguments.cells_of(options))
        case "ceiling":
            search.ceilings(session, specs, workload, outcome, options.p99 * 1000, options.start)
        case "backlog":
            backlog.backlog(session, specs, workload, outcome, options.size, options.pairs)
        case "connections":
            growth.connections(session, specs, workload, outcome, options.counts)
        case "partitions":
            growth.partitions(session, specs, workload, outcome, options.counts)
        case "rebalance":
            plan = rebalance.Plan(options.members, options.session_timeout, options.assignor)
            rebalance.rebalance(session, specs, workload, outcome, plan, options.pairs)
        case "recovery":
            sized = recovery.Plan(options.sizes, options.partitions)
            recovery.recovery(session, specs, workload, outcome, sized, options.pairs)
        case "compaction":
            log = compaction.Plan(options.records, options.keys, options.batch)
            compaction.compaction(session, specs, workload, outcome, log, options.pairs)
        case "flush":
            flush.flush(session, specs, workload, outcome, options.depths, options.pairs)
        case "producers":
            producers.producers(session, specs, workload, outcome, options.count, options.pairs)
        case _:
            raise AssertionError(options.mode)


def measure_without_load(
    options: argparse.Namespace, session: Session, specs: list[TargetSpec], outcome: Outcome
) -> None:
    """Run a mode without a workload."""
    match options.mode:
        case "start":
            lifecycle.start(session, specs, outcome, options.pairs)
        case "idle":
            lifecycle.idle(session, specs, outcome, options.connections, options.pairs)
        case "offsets":
            offsets.offsets(session, specs, outcome, options.count, options.pairs)
        case "failover":
            failover.failover(session, specs, outcome, arguments.failover_plan(options))
        case _:
            raise AssertionError(options.mode)


def windows(options: argparse.Namespace, targets: int) -> int:
    """Return the number of windows; 0 if it is not known in advance."""
    match options.mode:
        case "run" | "compare" | "floor":
            return (int(options.pairs) * len(options.workload) + bool(options.profile)) * targets
        case "rebalance" | "producers" | "reassign" | "start" | "idle" | "offsets" | "through":
            return int(options.pairs) * targets
        case "failover":
            return targets * len(options.kinds)
        case "matrix":
            return int(options.pairs) * targets * len(arguments.cells_of(options))
        case "flush":
            return int(options.pairs) * targets * len(options.depths)
        case "compaction":
            return 4 * int(options.pairs) * targets
        case "backlog":
            return 3 * int(options.pairs) * targets
        case "connections" | "partitions":
            return targets * len(options.counts)
        case "recovery":
            return int(options.pairs) * targets * len(recovery.Plan(options.sizes, options.partitions))
    return 0


def run_mode(options: argparse.Namespace) -> int:
    """Run the mode, print and write its results, and return the exit code. Raises ClientError, PerfError, OSError."""
    with tempfile.TemporaryDirectory(prefix="broker-bench-") as secrets:
        return run_targets(options, Path(secrets))


def run_targets(options: argparse.Namespace, secrets: Path) -> int:
    """As `run_mode`. Settings of clients are written to the directory `secrets`."""
    asked = workloads_of(options)
    names = options.targets if options.mode == "compare" else ["floor"] if options.mode == "floor" else options.target
    wanted = Wanted() if options.mode == "floor" else wanted_of(vars(options))
    specs = chosen(names, wanted, find_target, secrets)
    if len({spec.name for spec in specs}) < len(specs):
        raise SpecError(f"targets {', '.join(names)}: name each target once")
    if options.mode == "compare" and len(specs) < 2 and len(asked) < 2:
        raise SpecError(f"targets {', '.join(names)}: nothing to compare (needed: two targets, or two workloads)")
    refuse_clusters(options, specs)
    if options.mode == "compaction":
        specs = compaction.prepared(specs)
    if fault := getattr(options, "fault", None):
        check_fault(fault, min(asked, key=lambda workload: workload.duration_s), specs)
    output.check_writable(options)
    if getattr(options, "profile", False):
        for spec in specs:
            if spec.kind == "address" and spec.pid is None:
                raise SpecError(
                    f"--profile: {spec.name} has no process on this host (allowed: a target file with `pid`)"
                )
        perf.require()
    home = options.dir or Path.cwd() / ".cache"
    home.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="broker-bench-", dir=home))
    session = Session(root, fault=fault)
    try:
        title = " ".join([options.mode, *(workload.name for workload in asked)])
        with View(title, windows(options, len(specs))) as view, interruptible(partial(interrupt, session)):
            session.on_phase, session.on_sample, session.on_window = view.phase, view.sample, view.window_done
            outcome = Outcome()
            try:
                measure(options, session, asked, specs, outcome)
            except Stopped:
                pass
            except Unreached as error:
                outcome.error, outcome.unreached = str(error), error
            except FAILURES as error:
                outcome.error = f"{type(error).__name__}: {error}"
            except KeyboardInterrupt:
                outcome.error = "stopped by a second Ctrl-C"
    finally:
        shutil.rmtree(root, ignore_errors=True)
    outcome.runs = [each for each in outcome.runs if not each.empty]
    output.tell(options, options.workload, asked, specs, outcome)
    if session.stop.is_set():
        return EXIT_INTERRUPTED
    if outcome.failed:
        return EXIT_FAILED if outcome.unreached is None else EXIT_UNREACHED
    return 0


def refuse_clusters(options: argparse.Namespace, specs: Sequence[TargetSpec]) -> None:
    """Raise SpecError for a cluster if a mode, or a fault, needs a single process."""
    if not (clusters := [spec.name for spec in specs if spec.nodes > 1]):
        return
    if options.mode not in OF_CLUSTERS:
        allowed = ", ".join(OF_CLUSTERS)
        raise SpecError(f"target {clusters[0]}: {options.mode} measures one node (modes of clusters: {allowed})")
    if getattr(options, "fault", None):
        raise SpecError(f"target {clusters[0]}: --fault is of one node")


def workloads_of(options: argparse.Namespace) -> list[Workload]:
    """Return the workloads of the command line, with the times that it overrides. Raises SpecError."""
    times = {"duration_s": options.duration, "warm_up_s": options.warm_up, "steady_s": options.steady}
    changes = {name: seconds for name, seconds in times.items() if seconds is not None}
    found = [dataclasses.replace(workloads.load(find("workloads", name)), **changes) for name in options.workload]
    if len({workload.name for workload in found}) < len(found):
        raise SpecError(f"workloads {', '.join(options.workload)}: name each workload once")
    for workload in found:
        if workload.transactions is not None and options.mode not in ("run", "compare"):
            raise SpecError(
                f"workload {workload.name}: {options.mode} does not support transactions (allowed: run, compare)"
            )
        if workload.idempotent and options.mode in ("matrix", "flush"):
            raise SpecError(
                f"workload {workload.name}: acks or depths of {options.mode} are not for idempotent producers"
            )
    return found


def check_fault(fault: Freeze, workload: Workload, specs: Sequence[TargetSpec]) -> None:
    """Raise SpecError for a fault that does not end within a window, or a target that the tool does not start."""
    if fault.at_s + fault.seconds > workload.duration_s:
        raise SpecError(f"--fault: {fault} does not end within the window of {workload.duration_s:g} s")
    if others := [spec.name for spec in specs if spec.kind == "address"]:
        raise SpecError(f"--fault: {others[0]} was not started by the tool (allowed: ours, kafka, floor)")


def check(options: argparse.Namespace) -> int:
    """Read the files and print a summary."""
    asked = [workloads.load(find("workloads", name)) for name in options.workload]
    with tempfile.TemporaryDirectory(prefix="broker-bench-") as secrets:
        specs = chosen(options.target, Wanted(), find_target, Path(secrets)) if options.target else []
    if options.as_json:
        settings = {workload.name: workload.settings() for workload in asked}
        print(
            json.dumps({"workloads": settings, "targets": {spec.name: spec.describe() for spec in specs}}, default=str)
        )
        return 0
    for each in [*asked, *specs]:
        print(each)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    options = arguments.parse(argv)
    as_json = getattr(options, "as_json", False)
    try:
        if options.mode == "check":
            return check(options)
        if options.mode == "record":
            return recording.main(options)
        if options.mode == "report":
            return output.report(options.files, options.html, as_json=as_json)
        return run_mode(options)
    except ClientError as error:
        found = error
    except output.ResultError as error:
        found = ClientError(Failure.INVALID, str(error))
    except (perf.PerfError, OSError) as error:
        found = ClientError(Failure.REFUSED, str(error))
    return end("broker-bench", found, as_json=as_json)


if __name__ == "__main__":
    sys.exit(main())
