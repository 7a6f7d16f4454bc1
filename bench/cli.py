"""`broker-bench MODE ...`: measure a Kafka-compatible broker. Modes, files and reports are described in docs/bench.md.

Exit code 0: measured. 1: a run failed, or a file or target cannot be used. 130: stopped by Ctrl-C; what was measured
until then is written all the same.
"""

import argparse
import contextlib
import dataclasses
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from bench import faults, output, perf
from bench.drivers.group import ASSIGNORS
from bench.engine import FAILURES, Session, Stopped
from bench.faults import Freeze
from bench.keyed_log import KEYS_MAX
from bench.live import View
from bench.modes import backlog, compaction, flush, growth, producers, rebalance, recovery, run, search
from bench.modes.base import Outcome
from bench.spec import target as targets
from bench.spec import units
from bench.spec import workload as workloads
from bench.spec.target import TargetSpec
from bench.spec.toml_file import SpecError
from bench.spec.workload import Workload

SPECS = Path(__file__).parent / "specs"
STOPPED = 130
PAIRS_MAX = 1000


def find(kind: str, name: str) -> Path:
    """A file by its path, or one of those that come with the tool by its name. Raises SpecError."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    known = {each.stem: each for each in sorted((SPECS / kind).glob("*.toml"))}
    if name not in known:
        raise SpecError(f"{name}: no file, and no {kind[:-1]} that comes with the tool (there are {', '.join(known)})")
    return known[name]


def find_target(name: str) -> TargetSpec:
    """A target file, one that comes with the tool, or HOST:PORT."""
    if ":" in name and not name.endswith(".toml"):
        try:
            return targets.from_address(name)
        except ValueError as error:
            raise SpecError(f"--target: {error}") from None
    return targets.load(find("targets", name))


def value(parse: Callable[[Any], object]) -> Callable[[str], object]:
    """A parser of bench.spec.units as an argparse type."""

    def convert(text: str) -> object:
        try:
            return parse(int(text) if text.isdigit() else text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line; exits with a message where it is wrong."""
    parser = argparse.ArgumentParser(prog="broker-bench", description="Benchmark a Kafka-compatible broker.")
    modes = parser.add_subparsers(dest="mode", required=True, metavar="MODE")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--duration", type=value(units.duration(0.1, 86400)), help="instead of the workload's")
    common.add_argument("--warm-up", type=value(units.duration(0, 86400)), help="instead of the workload's")
    common.add_argument("--json", type=Path, metavar="FILE", help="write the results, with their provenance")
    common.add_argument("--html", type=Path, metavar="FILE", help="write the report, one file that needs no network")
    common.add_argument("--dir", type=Path, help="where brokers that are started keep their data (a disk, not a tmpfs)")
    named = "a workload file, or the name of one of the tool's"
    single = argparse.ArgumentParser(add_help=False, parents=[common])
    single.add_argument("-w", "--workload", nargs=1, required=True, help=named)
    many = argparse.ArgumentParser(add_help=False, parents=[common])
    many.add_argument("-w", "--workload", action="append", required=True, help=f"{named}; again for more of them")
    several = argparse.ArgumentParser(add_help=False)
    several.add_argument("-t", "--target", action="append", required=True, metavar="TARGET",
                         help="a target file, ours, kafka, floor or HOST:PORT; again for more of them")  # fmt: skip
    pairs = argparse.ArgumentParser(add_help=False)
    pairs.add_argument("--pairs", type=value(units.integer(1, PAIRS_MAX)), default=1, help="how often each is measured")
    profiled = argparse.ArgumentParser(add_help=False)
    profiled.add_argument("--profile", action="store_true", help="one more window of each target, recorded by perf")
    counts = argparse.ArgumentParser(add_help=False)
    counts.add_argument("--counts", type=numbers, default=growth.COUNTS, help="numbers with commas between them")

    faulty = argparse.ArgumentParser(add_help=False)
    faulty.add_argument("--fault", type=value(faults.parse), help='put into each target: "freeze 1 s at 3 s"')

    modes.add_parser("run", parents=[single, several, pairs, faulty, profiled], help="one workload")
    compared = modes.add_parser(
        "compare", parents=[many, faulty, profiled], help="A B A B ...: ratios with their interval"
    )
    compared.add_argument(
        "targets", nargs="+", metavar="TARGET", help="the first is compared with each of the others; so are workloads"
    )
    # With fewer than six pairs there is no interval of 95 %.
    compared.add_argument("--pairs", type=value(units.integer(1, PAIRS_MAX)), default=6)
    ceiling = modes.add_parser("ceiling", parents=[single, several], help="the highest rate with p99 under a bound")
    ceiling.add_argument("--p99", type=value(units.duration(1e-6, 60)), default=0.005, help='"5 ms" where not given')
    ceiling.add_argument(
        "--start",
        type=value(units.integer(1, 10_000_000)),
        default=1000,
        metavar="RATE",
        help="requests/s to begin with",
    )
    cells = modes.add_parser("matrix", parents=[single, several, pairs], help="record size x codec x acks")
    cells.add_argument("--sizes", type=sizes(1, 1 << 30), default=run.MATRIX_SIZES, help='such as "100 B,1 KB"')
    for name, allowed in (("--codecs", run.MATRIX_CODECS), ("--acks", run.MATRIX_ACKS)):
        cells.add_argument(name, type=some_of(allowed), default=allowed, help=f"some of {','.join(allowed)}")
    drained = modes.add_parser("backlog", parents=[single, several, pairs], help="drain a cold log beside producers")
    drained.add_argument("--size", type=value(units.size(1 << 20, 1 << 44)), default=10_000_000_000)
    modes.add_parser("connections", parents=[single, several, counts], help="1 to 10,000 connections")
    modes.add_parser("partitions", parents=[single, several, counts], help="1 to 10,000 partitions in one broker")
    killed = modes.add_parser(
        "recovery", parents=[single, several, pairs], help="kill -9, and the time to the first answer"
    )
    killed.add_argument("--sizes", type=sizes(1 << 20, 1 << 44), default=recovery.SIZES, help='such as "1 GB,10 GB"')
    killed.add_argument("--partitions", type=numbers, default=(), help="numbers with commas; else the workload's")
    cleaned = modes.add_parser(
        "compaction", parents=[single, several, pairs], help="what cleaning a log costs the broker, and its producers"
    )
    cleaned.add_argument("--records", type=value(units.integer(1000, 10**9)), default=compaction.RECORDS)
    cleaned.add_argument("--keys", type=value(units.integer(1, KEYS_MAX)), default=compaction.KEYS)
    cleaned.add_argument("--batch", type=value(units.size(1000, 1_000_000)), default=compaction.BATCH_BYTES)
    synced = modes.add_parser("flush", parents=[single, several, pairs], help="a sync before each acknowledgement")
    synced.add_argument("--depths", type=depths, default=flush.DEPTHS, help="requests in flight, with commas")
    opened = modes.add_parser("producers", parents=[single, several, pairs], help="memory of an open producer's state")
    opened.add_argument("--count", type=value(units.integer(1000, 10**7)), default=producers.COUNT)
    moved = modes.add_parser("rebalance", parents=[single, several, pairs], help="stalls while members join and leave")
    moved.add_argument("--members", type=value(units.integer(2, 50)), default=2, help="of the group at first")
    moved.add_argument(
        "--session-timeout", type=value(units.duration(0.1, 300)), default=6.0, help='"6 s" if not given'
    )
    moved.add_argument("--assignor", choices=ASSIGNORS, default=ASSIGNORS[0])
    modes.add_parser("floor", parents=[single, pairs, profiled], help="what bare system calls cost for the same bytes")
    told = modes.add_parser("report", help="results side by side, as one HTML file")
    told.add_argument("files", nargs="+", type=Path, metavar="FILE.json")
    told.add_argument("-o", "--html", type=Path, default=Path("report.html"))
    check = modes.add_parser("check", help="say what is wrong with workload and target files")
    check.add_argument("-w", "--workload", action="append", default=[])
    check.add_argument("-t", "--target", action="append", default=[])
    return parser.parse_args(argv)


def numbers(text: str, most: int = 10_000) -> tuple[int, ...]:
    """Whole numbers from 1 to `most`."""
    try:
        return tuple(units.integer(1, most)(int(each)) for each in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def depths(text: str) -> tuple[int, ...]:
    """Numbers of requests in flight: those that a workload may have."""
    return numbers(text, 1000)


def sizes(least: int, most: int) -> Callable[[str], tuple[int, ...]]:
    """Sizes with their units, and commas between them."""

    def convert(text: str) -> tuple[int, ...]:
        try:
            return tuple(units.size(least, most)(each) for each in text.split(","))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def some_of(allowed: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Words with commas between them."""

    def convert(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if wrong := [each for each in found if each not in allowed]:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not allowed (allowed: {', '.join(allowed)})")
        return found

    return convert


def cells_of(options: argparse.Namespace) -> run.Cells:
    """What the matrix is made of."""
    return run.Cells(options.sizes, options.codecs, options.acks)


@contextlib.contextmanager
def interruptible(session: Session) -> Iterator[None]:
    """Ctrl-C (or SIGTERM) stops the window that runs; a second one ends the program."""

    def on_signal(number: int, frame: FrameType | None) -> None:
        if session.stop.is_set():
            raise KeyboardInterrupt
        session.stop.set()

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, on_signal) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def measure(
    options: argparse.Namespace,
    session: Session,
    workloads_asked: Sequence[Workload],
    specs: list[TargetSpec],
    outcome: Outcome,
) -> None:
    """Run the mode; what it measures goes into `outcome`, also where it ends early."""
    workload = workloads_asked[0]  # the only one, but for `compare`
    match options.mode:
        case "run" | "compare" | "floor":
            run.compare(session, specs, workloads_asked, outcome, options.pairs, options.profile)
        case "matrix":
            run.matrix(session, specs, workload, outcome, options.pairs, cells_of(options))
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


def windows(options: argparse.Namespace, targets: int) -> int:
    """How many windows there will be; 0 where that is found out on the way."""
    match options.mode:
        case "run" | "compare" | "floor":
            return (int(options.pairs) * len(options.workload) + bool(options.profile)) * targets
        case "rebalance" | "producers":
            return int(options.pairs) * targets
        case "matrix":
            return int(options.pairs) * targets * len(cells_of(options))
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
    """Measure, print, write; returns the exit code. Raises SpecError, PerfError and OSError."""
    asked = workloads_of(options)
    names = options.targets if options.mode == "compare" else ["floor"] if options.mode == "floor" else options.target
    specs = [find_target(name) for name in names]
    if len({spec.name for spec in specs}) < len(specs):
        raise SpecError(f"targets {', '.join(names)}: each once")
    if options.mode == "compare" and len(specs) < 2 and len(asked) < 2:
        raise SpecError(f"targets {', '.join(names)}: one cannot be compared (allowed: 2 or more, or 2 workloads)")
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
        with View(title, windows(options, len(specs))) as view, interruptible(session):
            session.on_phase, session.on_sample, session.on_window = view.phase, view.sample, view.window_done
            outcome = Outcome()
            try:
                measure(options, session, asked, specs, outcome)
            except Stopped:
                pass
            except FAILURES as error:
                outcome.error = f"{type(error).__name__}: {error}"
            except KeyboardInterrupt:
                outcome.error = "ended by a second Ctrl-C"
    finally:
        shutil.rmtree(root, ignore_errors=True)
    outcome.runs = [each for each in outcome.runs if not each.empty]
    output.tell(options, options.workload, asked, specs, outcome)
    if session.stop.is_set():
        return STOPPED
    return 1 if outcome.failed else 0


def workloads_of(options: argparse.Namespace) -> list[Workload]:
    """The workloads that the command line names, with its times. Raises SpecError."""
    times = {"duration_s": options.duration, "warm_up_s": options.warm_up}
    changes = {name: seconds for name, seconds in times.items() if seconds is not None}
    found = [dataclasses.replace(workloads.load(find("workloads", name)), **changes) for name in options.workload]
    if len({workload.name for workload in found}) < len(found):
        raise SpecError(f"workloads {', '.join(options.workload)}: each once")
    for workload in found:
        if workload.transactions is not None and options.mode not in ("run", "compare"):
            raise SpecError(f"workload {workload.name}: no transactions in {options.mode} (allowed: run, compare)")
        if workload.idempotent and options.mode in ("matrix", "flush"):
            raise SpecError(
                f"workload {workload.name}: acks or depths of {options.mode} are not for idempotent producers"
            )
    return found


def check_fault(fault: Freeze, workload: Workload, specs: Sequence[TargetSpec]) -> None:
    """Raises SpecError for one that would not be seen, or not be over, or is for somebody else's process."""
    if fault.at_s + fault.seconds > workload.duration_s:
        raise SpecError(f"--fault: {fault} is not over at the end of {workload.duration_s:g} s")
    if others := [spec.name for spec in specs if spec.kind == "address"]:
        raise SpecError(f"--fault: {others[0]} was not started by the tool (allowed: ours, kafka, floor)")


def check(options: argparse.Namespace) -> int:
    """Read the files, and say what is in them."""
    for name in options.workload:
        print(workloads.load(find("workloads", name)))
    for name in options.target:
        print(find_target(name))
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    options = arguments(argv)
    try:
        if options.mode == "check":
            return check(options)
        if options.mode == "report":
            return output.report(options.files, options.html)
        return run_mode(options)
    except (SpecError, output.ResultError, perf.PerfError, OSError) as error:
        print(f"broker-bench: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
