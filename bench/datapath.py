"""Measure the figures of the data path: `python -m bench.datapath [--peer kafka] [--only ...] [--quick] [--json FILE]`.

Prints the table (what | target | ours | peer | floor | verdict) to stdout and progress to stderr. Exit code 0 when it
ran to its end, 1 when a run failed, 3 with --strict when a figure was missed.
"""

import argparse
import contextlib
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench import lifecycle, report
from bench.figures import FLOOR, OURS, PEER
from bench.protocol import ProtocolError
from bench.raw import LoadError
from bench.targets import Attached, BrokerCy, Floor, Kafka, Target, TargetError, raise_file_limit
from bench.window import Metrics
from bench.workloads import QUICK, Scale, steady

COLD_GB_MIN = 0.1
Results = dict[str, dict[str, list[Metrics]]]


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """Parse and check the command line."""
    names = [*(workload.name for workload in steady(QUICK)), *lifecycle.RUNS]
    parser = argparse.ArgumentParser(prog="python -m bench.datapath", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="NAME,...", help=f"workloads to run, of {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="small windows: for a look, not for a verdict")
    parser.add_argument("--cold-gb", type=float, metavar="GB", help="backlog of `cold` (default 20, 2 with --quick)")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side, in turn (default 3)")
    parser.add_argument("--peer", choices=["kafka"], help="measure Apache Kafka 4.3.1 beside ours")
    parser.add_argument("--no-ours", action="store_true", help="leave our broker out")
    parser.add_argument("--no-floor", action="store_true", help="leave the bare system calls out")
    parser.add_argument("--target", metavar="HOST:PORT", help="measure a running broker instead of starting ours")
    parser.add_argument("--pid", type=int, help="process id of the broker at --target")
    parser.add_argument("--dir", type=Path, help="where data directories are made (default: a new one in .cache)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--strict", action="store_true", help="exit with 3 when a figure was missed")
    options = parser.parse_args(argv)
    options.only = names if options.only is None else options.only.split(",")
    if unknown := [name for name in options.only if name not in names]:
        parser.error(f"--only {','.join(unknown)}: there is {', '.join(names)}")
    if (options.target is None) != (options.pid is None):
        parser.error("--target and --pid belong together")
    if options.cold_gb is not None and options.cold_gb < COLD_GB_MIN:
        parser.error(f"--cold-gb {options.cold_gb:g}: at least {COLD_GB_MIN:g}")
    if options.repeats < 1:
        parser.error(f"--repeats {options.repeats}: at least 1")
    if options.target is not None:
        host, _, port = options.target.rpartition(":")
        if not host or not port.isdigit():
            parser.error(f"--target {options.target}: HOST:PORT is wanted")
        options.target = host, int(port)
        unable = {*lifecycle.RUNS, "cold"}  # they start and stop the target, or evict its files
        options.only = [name for name in options.only if name not in unable]
    return options


def targets(options: argparse.Namespace, root: Path) -> dict[str, Target]:
    """The sides to measure, not yet started."""
    sides: dict[str, Target] = {}
    if options.target is not None:
        sides[OURS] = Attached(options.target, options.pid)
    elif not options.no_ours:
        sides[OURS] = BrokerCy(root / "ours")
    if options.peer == "kafka":
        sides[PEER] = Kafka(root / "kafka")
    if not options.no_floor:
        sides[FLOOR] = Floor(root / "floor")
    return sides


def run_steady(options: argparse.Namespace, sides: dict[str, Target], scale: Scale) -> Results:
    """Every steady workload on every side, in turn (A B B A)."""
    results: Results = {}
    chosen = [workload for workload in steady(scale) if workload.name in options.only]
    if not chosen:
        return results
    with contextlib.ExitStack() as stack:
        for target in sides.values():
            stack.enter_context(target.running())
        for workload in chosen:
            runs = results[workload.name] = {side: [] for side in sides}
            with contextlib.ExitStack() as cleaning:
                measured = {side: target for side, target in sides.items() if side != FLOOR or workload.has_floor}
                for target in measured.values():
                    workload.prepare(target)
                    cleaning.callback(workload.clean, target)
                for repeat in range(options.repeats):
                    # A B B A: who comes after another finds memory that is warm from it.
                    for side, target in list(measured.items())[:: -1 if repeat % 2 else 1]:
                        metrics = workload.measure(target)
                        runs[side].append(metrics)
                        show(workload.name, repeat, side, metrics)
    return results


def run_life_cycle(options: argparse.Namespace, sides: dict[str, Target], scale: Scale) -> Results:
    """The figures for which targets start and stop, in turn; the floor has none."""
    results: Results = {}
    for name in (name for name in lifecycle.RUNS if name in options.only):
        runs = results[name] = {side: [] for side in sides if side != FLOOR}
        for repeat in range(lifecycle.repeats(name, scale, options.repeats)):
            for side in runs:
                metrics = lifecycle.RUNS[name](sides[side], scale)
                runs[side].append(metrics)
                show(name, repeat, side, metrics)
    return results


def show(name: str, repeat: int, side: str, metrics: Metrics) -> None:
    """One line of progress."""
    text = "  ".join(f"{key} {value:,.4g}" for key, value in metrics.items())
    print(f"{name} #{repeat + 1} {side}: {text}", file=sys.stderr, flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; returns the exit code."""
    options = arguments(argv)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that no broker and no data outlive an ended run
    scale = QUICK if options.quick else Scale()
    if options.cold_gb is not None:
        scale = replace(scale, cold_bytes=int(options.cold_gb * 1e9))
    raise_file_limit(2 * scale.idle_connections + 1000)
    home = options.dir or Path(__file__).resolve().parent.parent / ".cache"
    home.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="bench-", dir=home))
    try:
        sides = targets(options, root)
        results = run_steady(options, sides, scale) | run_life_cycle(options, sides, scale)
        versions = {side: target.version() for side, target in sides.items() if target.version()}
    except (LoadError, ProtocolError, TargetError, OSError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(root, ignore_errors=True)
    words = {
        "cold": f"{scale.cold_bytes / 1e9:g} GB",
        "through": f"{scale.through_bytes / 1e9:g} GB",
        "connections": f"{scale.idle_connections:,}",
        "offsets": f"{scale.committed_offsets:,}",
    }
    lines = report.rows(results, words)
    origin = report.provenance(versions)
    print(report.table(lines))
    print("; ".join(f"{key}: {value}" for key, value in origin.items()))
    if options.json:
        options.json.write_text(report.document(origin, results, lines))
    return 3 if options.strict and any(row.missed for row in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
