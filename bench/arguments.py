"""The command line of `broker-bench`: modes, their options, and the bounds of each."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.drivers.group import ASSIGNORS
from bench.failover.rounds import FREEZE_S, KINDS
from bench.modes import compaction, failover, flush, growth, lifecycle, offsets, producers, reassign, recovery, run
from bench.modes.keyed_log import KEYS_MAX
from bench.spec import units
from bench.steady_clients.programs import CLIENTS
from bench.targets import faults
from broker_cy.client import options as cluster_options
from broker_cy.client import toml_values

PAIRS_MAX = 1000


def value(parse: Callable[[Any], object]) -> Callable[[str], object]:
    """Return a parser of bench.spec.units as an argparse type."""

    def convert(text: str) -> object:
        try:
            return parse(int(text) if text.isdigit() else text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def add_json(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --json."""
    parser.add_argument("--json", dest="as_json", action="store_true", help=text)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line; exits with a message if it is invalid."""
    return _parser().parse_args(argv)


def _parser() -> argparse.ArgumentParser:
    parser = cluster_options.Parser(prog="broker-bench", description="Benchmark a Kafka-compatible broker.")
    cluster_options.add_version(parser, "broker-bench")
    modes = parser.add_subparsers(dest="mode", required=True, metavar="MODE")
    common = cluster_options.Parser(add_help=False)
    common.add_argument(
        "--duration", type=value(units.duration(0.1, 86400)), help="length of a window, overriding the workload's"
    )
    common.add_argument(
        "--warm-up", type=value(units.duration(0, 86400)), help="warm-up of each window, overriding the workload's"
    )
    common.add_argument(
        "--steady",
        type=value(units.duration(0, 86400)),
        metavar="TIME",
        help="longest warm-up of a target before its first window, overriding the workload's",
    )
    add_json(common, "print the results as JSON, instead of the tables")
    common.add_argument("--json-file", type=Path, metavar="FILE", help="write the results, with their provenance")
    common.add_argument("--html", type=Path, metavar="FILE", help="write the report, as one file that needs no network")
    common.add_argument(
        "--dir", type=Path, help="directory for the data of brokers that the tool starts (a disk, not a tmpfs)"
    )
    named = "a workload file, or the name of one that comes with the tool"
    single = cluster_options.Parser(add_help=False, parents=[common])
    single.add_argument("-w", "--workload", nargs=1, required=True, help=named)
    many = cluster_options.Parser(add_help=False, parents=[common])
    many.add_argument("-w", "--workload", action="append", required=True, help=f"{named}; may be repeated")
    several = cluster_options.Parser(add_help=False)
    several.add_argument("-t", "--target", action="append", default=[], metavar="TARGET",
                         help="a target file, ours, kafka, floor or HOST:PORT; may be repeated")  # fmt: skip
    cluster_options.add_arguments(several)
    pairs = cluster_options.Parser(add_help=False)
    pairs.add_argument(
        "--pairs",
        type=value(toml_values.integer(1, PAIRS_MAX)),
        default=1,
        help="number of times that each target is measured",
    )
    profiled = cluster_options.Parser(add_help=False)
    profiled.add_argument("--profile", action="store_true", help="run one more window of each target, recorded by perf")
    counts = cluster_options.Parser(add_help=False)
    counts.add_argument("--counts", type=numbers, default=growth.COUNTS, help="numbers, separated by commas")

    faulty = cluster_options.Parser(add_help=False)
    faulty.add_argument(
        "--fault", type=value(faults.parse), help='fault to cause in each target, such as "freeze 1 s at 3 s"'
    )

    modes.add_parser("run", parents=[single, several, pairs, faulty, profiled], help="measure one workload")
    compared = modes.add_parser(
        "compare",
        parents=[many, faulty, profiled],
        help="measure several targets or workloads alternately; ratios with their interval",
    )
    compared.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help="the first target is compared with each of the others; likewise for workloads",
    )
    cluster_options.add_arguments(compared)
    # Fewer than six pairs give no 95 % interval.
    compared.add_argument(
        "--pairs",
        type=value(toml_values.integer(1, PAIRS_MAX)),
        default=6,
        help="number of times that each target is measured; 6 by default",
    )
    for name, words in (("start", "start to first response"), ("idle", "memory of idle connections"),
                        ("offsets", "time from kill -9 until all committed offsets can be read again")):  # fmt: skip
        alone = modes.add_parser(name, parents=[common, several, pairs], help=words)
        alone.set_defaults(workload=[])
        if name == "idle":
            alone.add_argument(
                "--connections",
                type=value(toml_values.integer(1, 100_000)),
                default=lifecycle.IDLE_CONNECTIONS,
                help="number of idle connections; %(default)s by default",
            )
        if name == "offsets":
            limits = toml_values.integer(offsets.PARTITIONS, 10**7)
            alone.add_argument(
                "--count",
                type=value(limits),
                default=offsets.COUNT,
                help="number of committed offsets; %(default)s by default",
            )
    passed = modes.add_parser(
        "through", parents=[single, several, pairs], help="memory after a log was written and read, then kill -9"
    )
    passed.add_argument(
        "--size",
        type=value(units.size(1 << 20, 1 << 44)),
        default=lifecycle.THROUGH_BYTES,
        help='size of the written and read log, such as "500 MB"',
    )
    replaced = modes.add_parser(
        "reassign", parents=[single, several, pairs], help="move the partitions of a filled topic to other nodes"
    )
    replaced.add_argument(
        "--size",
        type=value(units.size(1 << 20, 1 << 44)),
        default=reassign.SIZE_BYTES,
        help='size of the topic, such as "500 MB"; "3 GB" by default',
    )
    replaced.add_argument(
        "--link",
        type=value(units.link),
        default=0,
        metavar="RATE",
        help='empty the first node, on separate hosts with links of this rate, such as "1 Gbit/s" (needs root)',
    )
    ceiling = modes.add_parser(
        "ceiling", parents=[single, several], help="find the highest rate with p99 below a bound"
    )
    ceiling.add_argument(
        "--p99", type=value(units.duration(1e-6, 60)), default=0.005, help='bound of p99; "5 ms" by default'
    )
    ceiling.add_argument(
        "--start",
        type=value(toml_values.integer(1, 10_000_000)),
        default=1000,
        metavar="RATE",
        help="requests/s at which the search begins",
    )
    cells = modes.add_parser("matrix", parents=[single, several, pairs], help="measure each record size x codec x acks")
    cells.add_argument("--sizes", type=sizes(1, 1 << 30), default=run.MATRIX_SIZES, help='such as "100 B,1 KB"')
    for name, allowed in (("--codecs", run.MATRIX_CODECS), ("--acks", run.MATRIX_ACKS)):
        cells.add_argument(name, type=some_of(allowed), default=allowed, help=f"some of {','.join(allowed)}")
    drained = modes.add_parser(
        "backlog", parents=[single, several, pairs], help="measure producers while a cold log is drained"
    )
    drained.add_argument(
        "--size",
        type=value(units.size(1 << 20, 1 << 44)),
        default=10_000_000_000,
        help='size of the cold log, such as "500 MB"; "10 GB" by default',
    )
    modes.add_parser("connections", parents=[single, several, counts], help="measure 1 to 10,000 connections")
    modes.add_parser(
        "partitions", parents=[single, several, counts], help="measure 1 to 10,000 partitions in one broker"
    )
    killed = modes.add_parser(
        "recovery", parents=[single, several, pairs], help="time from kill -9 to the first response"
    )
    killed.add_argument("--sizes", type=sizes(1 << 20, 1 << 44), default=recovery.SIZES, help='such as "1 GB,10 GB"')
    killed.add_argument(
        "--partitions", type=numbers, default=(), help="numbers, separated by commas; the workload's by default"
    )
    cleaned = modes.add_parser(
        "compaction", parents=[single, several, pairs], help="cost of cleaning a log, and its effect on producers"
    )
    for name, parse_value, default, text in (
        ("--records", toml_values.integer(1000, 10**9), compaction.RECORDS, "number of records of the log"),
        ("--keys", toml_values.integer(1, KEYS_MAX), compaction.KEYS, "number of different keys"),
        ("--batch", units.size(1000, 1_000_000), compaction.BATCH_BYTES, "size of a batch, in bytes or with a unit"),
    ):
        cleaned.add_argument(name, type=value(parse_value), default=default, help=f"{text}; %(default)s by default")
    synced = modes.add_parser(
        "flush", parents=[single, several, pairs], help="measure a sync before each acknowledgement"
    )
    synced.add_argument(
        "--depths", type=depths, default=flush.DEPTHS, help="numbers of requests in flight, separated by commas"
    )
    opened = modes.add_parser(
        "producers", parents=[single, several, pairs], help="measure the memory of an open producer's state"
    )
    opened.add_argument(
        "--count",
        type=value(toml_values.integer(1000, 10**7)),
        default=producers.COUNT,
        help="number of producers; %(default)s by default",
    )
    moved = modes.add_parser(
        "rebalance", parents=[single, several, pairs], help="measure stalls while members join and leave"
    )
    moved.add_argument("--members", type=value(toml_values.integer(2, 50)), default=2, help="initial number of members")
    moved.add_argument(
        "--session-timeout",
        type=value(units.duration(0.1, 300)),
        default=6.0,
        help='session timeout of members; "6 s" by default',
    )
    moved.add_argument(
        "--assignor", choices=ASSIGNORS, default=ASSIGNORS[0], help="assignor of the group; %(default)s by default"
    )
    add_failover(
        modes.add_parser(
            "failover", parents=[common, several], help="measure errors and gaps of clients when a node fails"
        )
    )
    modes.add_parser(
        "floor", parents=[single, pairs, profiled], help="measure the cost of bare system calls for the same bytes"
    )
    reported = modes.add_parser("report", help="show results side by side, as one HTML file")
    reported.add_argument("files", nargs="+", type=Path, metavar="FILE.json", help="results of --json-file")
    reported.add_argument(
        "-o", "--html", type=Path, default=Path("report.html"), metavar="FILE", help="the page; %(default)s by default"
    )
    add_json(reported, "print the path as JSON")
    add_record(modes.add_parser("record", help="measure the tables of docs/performance.md and fill them in"))
    check = modes.add_parser("check", help="report errors in workload and target files")
    check.add_argument("-w", "--workload", action="append", default=[], help=f"{named}; may be repeated")
    check.add_argument(
        "-t", "--target", action="append", default=[], help="a target file, or the name of one; may be repeated"
    )
    add_json(check, "print the files as JSON")
    return parser


def add_failover(parser: argparse.ArgumentParser) -> None:
    """Add the options of `failover`."""
    kinds, clients = tuple(KINDS), tuple(CLIENTS)
    add = parser.add_argument
    add("--kinds", type=some_of(kinds), default=kinds, metavar="KIND,...", help=f"some of {','.join(kinds)}")
    add("--rounds", type=value(toml_values.integer(1, 1000)), default=failover.ROUNDS, help="failures of each kind")
    add("--most", type=value(units.duration(0.1, 86400)), default=failover.MOST_S, metavar="TIME",
        help='no round of a kind begins later than this after its first; "60 s" by default')  # fmt: skip
    add("--clients", type=some_of(clients), default=failover.CLIENTS, metavar="CLIENT,...",
        help=f"some of {','.join(clients)}")  # fmt: skip
    add("--freeze", type=value(units.duration(0.5, 85)), default=FREEZE_S, metavar="TIME",
        help='longest freeze of a process; "12 s" by default')  # fmt: skip
    add("--hosts", action="store_true",
        help="put each node on a separate host (a network namespace: needs root, iproute2)")  # fmt: skip
    add("--idle", type=value(toml_values.integer(0, 100_000)), default=0, metavar="N",
        help="create N partitions without writes: each node leads a share of them")  # fmt: skip
    parser.set_defaults(workload=[])


def failover_plan(options: argparse.Namespace) -> failover.Plan:
    """Return the plan of `failover`."""
    return failover.Plan(
        options.kinds, options.rounds, options.most, options.clients, options.freeze, options.hosts, options.idle
    )


def add_record(parser: argparse.ArgumentParser) -> None:
    """Add the options of `record`."""
    add = parser.add_argument
    add(
        "--only",
        type=lambda text: tuple(text.split(",")),
        metavar="NAME,...",
        help="only these measurements, or those of these tables and groups",
    )
    add("--budget", type=value(units.duration(1, 86400)), default=86400.0, metavar="TIME",
        help='time limit, such as "25 min": measurements that would exceed it are left out')  # fmt: skip
    add("--out", type=Path, default=Path("docs/measurements"), metavar="DIR", help="directory of the JSON files")
    add(
        "--doc",
        type=Path,
        default=Path("docs/performance.md"),
        metavar="FILE",
        help="document whose tables are filled in",
    )
    add("--again", action="store_true", help="repeat measurements that are already recorded")
    add("--list", action="store_true", help="list the measurements, and how long each takes")
    add("--fill", action="store_true", help="measure nothing, only fill in the tables from the recorded measurements")
    add_json(parser, "print the measurements as JSON; progress goes to the standard error")


def numbers(text: str, most: int = 10_000) -> tuple[int, ...]:
    """Parse whole numbers from 1 to `most`, separated by commas."""
    try:
        return tuple(toml_values.integer(1, most)(int(each)) for each in text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r}: {error}") from None


def depths(text: str) -> tuple[int, ...]:
    """Parse numbers of requests in flight, within the bounds of workloads."""
    return numbers(text, 1000)


def sizes(least: int, most: int) -> Callable[[str], tuple[int, ...]]:
    """Return a parser of sizes with units, separated by commas."""

    def convert(text: str) -> tuple[int, ...]:
        try:
            return tuple(units.size(least, most)(each) for each in text.split(","))
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def some_of(allowed: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Return a parser of words, separated by commas."""

    def convert(text: str) -> tuple[str, ...]:
        found = tuple(text.split(","))
        if wrong := [each for each in found if each not in allowed]:
            raise argparse.ArgumentTypeError(f"{wrong[0]!r} is not allowed (allowed: {', '.join(allowed)})")
        return found

    return convert


def cells_of(options: argparse.Namespace) -> run.Cells:
    """Return the cells of the matrix."""
    return run.Cells(options.sizes, options.codecs, options.acks)
