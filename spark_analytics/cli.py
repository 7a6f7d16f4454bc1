"""The command `broker-analytics`: analyses of a cluster's own events and samples over days, on Apache Spark. See
docs/analytics.md.

Exit codes: those of all programs (broker_cy.client.program).
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from broker_cy import __version__
from broker_cy.client import options as cluster_options
from broker_cy.client.clusters import ClusterEntry, Wanted, default_path, select
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.parsed import Parsed
from broker_cy.client.program import EXIT_FAILED, EXIT_INTERRUPTED, end, wants_json
from broker_cy.client.quantities import DURATION_HELP, TIME_HELP, parse_time
from broker_cy.client.security import SECRETS
from broker_cy.reporting.numbers import size
from spark_analytics import mirror_audit_command
from spark_analytics import schedule as timers
from spark_analytics.errors import DamagedError, NothingError, SetUpError, SparkFailedError
from spark_analytics.failures import in_one_line
from spark_analytics.jars import fetch
from spark_analytics.lake import Lake, LakeError, Span, check_writable
from spark_analytics.reassignment import PlanError, read
from spark_analytics.segments.errors import SegmentsError

if TYPE_CHECKING:
    from spark_analytics.jobs.registry import Job

PROGRAM = "broker-analytics"
WIDE = 200
EPILOG = """\b
examples:
  broker-analytics ingest --bootstrap 127.0.0.1:9092 --lake lake/
  broker-analytics run lag --lake lake/ --from -1d
  broker-analytics run what-if --lake lake/ --plan plan.json
  broker-analytics run mirror-audit --source /data/a --target /data/b --topic orders=A.orders
  broker-analytics report --lake lake/ --out report.html --from -7d
  broker-analytics segments /var/lib/broker-cy --topic orders --from 2026-11-23T08:00 --to 2026-11-23T09:00
  broker-analytics schedule --bootstrap 127.0.0.1:9092 --lake lake/ --every 10m
"""


class Program(click.Group):
    """Ends with the exit codes of all programs, and a sentence instead of a traceback."""

    def main(self, args: Any = None, *more: Any, **extra: Any) -> Any:
        argv = list(sys.argv[1:] if args is None else args)
        try:
            return super().main(argv, *more, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            sys.exit(cluster_options.click_error(PROGRAM, error, argv))
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        except ClientError as error:
            found = error
        except (SegmentsError, PlanError) as error:
            found = ClientError(Failure.INVALID, str(error))
        except (LakeError, NothingError, DamagedError, SetUpError, SparkFailedError) as error:
            found = ClientError(Failure.REFUSED, str(error))
        sys.exit(end(PROGRAM, found, as_json=wants_json(argv)))


def _memory(text: str) -> str:
    if not re.fullmatch(r"[1-9]\d{0,9}[kmgtKMGT]", text):
        raise ValueError(f"{text!r} is not an amount of memory (allowed: 512m, 2g)")
    return text


def _now_ms() -> int:
    return int(time.time() * 1000)


def _time(text: str) -> datetime:
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=parse_time(text, _now_ms))
    except OverflowError:
        raise ValueError(f"{text!r} is after the year 9999") from None


MEMORY: Final = Parsed("size", _memory)
"""An amount of memory in the JVM's notation."""
TIME: Final = Parsed("time", _time)
"""A time, or a duration before now."""

_folder = click.Path(file_okay=False, path_type=Path)
_file = click.Path(dir_okay=False, path_type=Path)


_with_json = click.option("--json", "as_json", is_flag=True, help="Print JSON; errors are JSON, too.")

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _together(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options; help shows them in this order."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for each in reversed(options):
            function = each(function)
        return function

    return add


_with_source = _together(
    cluster_options.click_options(),
    click.option(
        "--lake", "--out", "lake", cls=cluster_options.shown_without("--out"), required=True, type=_folder,
        metavar="LAKE", help="The folder of the lake.",
    ),
    click.option(
        "--name", metavar="NAME",
        help="The cluster's name in the lake; by default that of --cluster, else the cluster's id.",
    ),
)  # fmt: skip
_with_lake = _together(
    click.option("--lake", required=True, type=_folder, metavar="LAKE", help="The folder of the lake."),
    click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; may be repeated."),
)
_with_range = _together(
    click.option("--from", "start", type=TIME, metavar="TIME", help=f"From this time on: {TIME_HELP}."),
    click.option("--to", "end", type=TIME, metavar="TIME", help="Before this time."),
)
_with_limit = click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Rows shown.")
_with_spark = _together(
    click.option("--master", metavar="URL", help="Spark's master; by default all cores of this machine."),
    click.option(
        "--memory", type=MEMORY, default="2g", show_default=True, metavar="SIZE", help="Memory of the driver."
    ),
    click.option("--verbose", is_flag=True, help="Show Spark's log."),
)


@click.group(cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
def command() -> None:
    """Analyse a cluster's own events and samples with Apache Spark."""


@command.command()
@_with_json
def jars(as_json: bool) -> None:
    """Download the jars of Spark's own Kafka source, once per machine. Only notebooks and programs that read topics
    with Spark through `spark_analytics.session` need them.
    """
    found = [str(each) for each in fetch()]
    click.echo(json.dumps({"jars": found}) if as_json else "\n".join(found))


@command.command()
@_with_source
@click.option("--accept-loss", is_flag=True, help="Continue although records were removed before they were ingested.")
@click.option("--replaces", metavar="ID", help="The cluster id that this broker had before it was formatted again.")
@_with_json
def ingest(
    lake: Path,
    name: str | None,
    accept_loss: bool,
    replaces: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Read the records since the last ingest into the lake, exactly once.

    Several single-broker clusters can be the nodes of one cluster in the lake: give them the same --name.
    """
    from spark_analytics import ingest as reading

    cluster = _cluster(options)[1]
    source = reading.find(_addresses(cluster), _name(cluster, name), cluster.security)
    done = reading.ingest(Lake(lake), source, accept_loss=accept_loss, replaces=replaces, show=_show)
    if as_json:
        click.echo(json.dumps(asdict(done)))
        return
    batches = "1 batch" if done.batches == 1 else f"{done.batches} batches"
    click.echo(f"{done.cluster}: {done.records:,} records in {batches}, {done.seconds:.0f} s")
    if done.left_out:
        click.echo(f"{done.left_out:,} of them are no event or sample that this version knows, and were left out")


@command.command()
@click.argument("job")
@click.option("--lake", type=_folder, metavar="LAKE", help="The folder of the lake; all jobs but mirror-audit need it.")
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; may be repeated.")
@_with_range
@_with_limit
@click.option("--plan", type=_file, metavar="FILE", help="For what-if: a plan of kafka-reassign-partitions.")
@click.option("--current", type=_file, metavar="FILE", help="For what-if: the current assignment, in the same form.")
@mirror_audit_command.click_options
@click.option("--out", type=_folder, metavar="FOLDER", help="Also write all rows here, as Parquet.")
@_with_json
@_with_spark
def run(
    job: str,
    lake: Path | None,
    start: datetime | None,
    end: datetime | None,
    clusters: tuple[str, ...],
    limit: int,
    plan: Path | None,
    current: Path | None,
    out: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Run a job over the lake: throughput, lag, rebalances, skew, nodes, forecast, end-to-end, what-if, or all.

    what-if predicts the load of brokers, and how long groups wait, after the reassignment of --plan. mirror-audit needs
    no lake: it compares the records of topics in two clusters, from their log directories, and ends with the exit code
    1 if they differ.
    """
    from spark_analytics import run as running
    from spark_analytics.session import session

    of_audit = mirror_audit_command.taken(options)
    if job == mirror_audit_command.NAME:
        of_lake = {"--lake": lake, "--cluster": clusters, "--from": start, "--to": end, "--plan": plan, "--out": out}
        show = None if as_json else _console()
        if not mirror_audit_command.run(of_audit, {**of_lake, "--current": current}, limit, show, options):
            sys.exit(EXIT_FAILED)
        return
    if lake is None:
        raise click.UsageError("Missing option '--lake'.")
    mirror_audit_command.refuse(of_audit, job)
    there = Lake(lake)
    span = span_of(start, end)
    chosen = _chosen(job, there, clusters, plan, current)
    if out is not None:
        try:
            check_writable(out)
        except OSError as error:
            raise click.ClickException(f"--out {out}: {error.strerror or error}") from None
    spark = session(f"run {job}", **options)
    with in_one_line(options["verbose"]):
        as_shown = running.AsJson() if as_json else running.AsTables(_console())
        running.run(spark, there, chosen, span=span, clusters=clusters, limit=limit, out=out, show=as_shown)


def _chosen(job: str, lake: Lake, clusters: Sequence[str], plan: Path | None, current: Path | None) -> list[Job]:
    """Return the jobs of a name. Raises ClickException, LakeError and PlanError before Spark starts."""
    from spark_analytics.jobs import what_if
    from spark_analytics.jobs.registry import JOBS, what_if_job

    names = ("all", *JOBS, what_if.NAME, mirror_audit_command.NAME)
    if job not in names:
        raise click.ClickException(f"{job!r} is not a job (allowed: {', '.join(names)})")
    if (plan or current) is not None and job not in ("all", what_if.NAME):
        raise click.ClickException(f"--plan and --current are for {what_if.NAME} and all, not for {job}")
    if plan is None and current is not None:
        raise click.ClickException("--current needs --plan")
    if plan is None and job == what_if.NAME:
        raise click.ClickException(f"{job} needs --plan FILE: a plan of kafka-reassign-partitions")
    found = [] if job == what_if.NAME else list(JOBS.values()) if job == "all" else [JOBS[job]]
    wanted = None if plan is None else read(plan, current)
    known = lake.check(clusters)
    if wanted is not None:
        of = clusters or known
        if len(of) != 1:
            raise click.ClickException(f"a plan is for one cluster: name it with --cluster (there: {', '.join(of)})")
        found.append(what_if_job(of[0], wanted))
    elif job == "all":
        _show(f"{what_if.NAME} is left out: it needs --plan FILE")
    return found


@command.command()
@_with_lake
@_with_range
@click.option("--out", required=True, type=_file, metavar="FILE", help="The page; an older one is replaced.")
@_with_json
@_with_spark
def report(
    lake: Path,
    start: datetime | None,
    end: datetime | None,
    clusters: tuple[str, ...],
    out: Path,
    as_json: bool,
    **of_spark: Any,
) -> None:
    """Write a page about throughput, lag, rebalances, hot partitions, anomalies, forecasts and disks."""
    from spark_analytics.report import collect, page
    from spark_analytics.session import session

    span = span_of(start, end)
    there = Lake(lake)
    there.check(clusters)
    try:
        check_writable(out.parent)
        spark = session("report", **of_spark)
        with in_one_line(of_spark["verbose"]):
            page.write(collect.collect(spark, there, span, clusters), out)
    except OSError as error:
        raise click.ClickException(f"--out {out}: {error.strerror or error}") from None
    size_bytes = out.stat().st_size
    click.echo(json.dumps({"file": str(out), "bytes": size_bytes}) if as_json else f"{out}: {size(size_bytes)}")


@command.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--topic", "topics", multiple=True, required=True, metavar="TOPIC", help="A topic; may be repeated.")
@_with_range
@_with_limit
@click.option(
    "--on-damage",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="At damage: stop, or skip the damaged part and list it.",
)
@_with_json
@_with_spark
def segments(
    directories: tuple[Path, ...],
    topics: tuple[str, ...],
    start: datetime | None,
    end: datetime | None,
    limit: int,
    on_damage: str,
    as_json: bool,
    **of_spark: Any,
) -> None:
    """Count the records of topics in log directories, by partition, and show the first ones. No broker is needed."""
    from spark_analytics import on_disk
    from spark_analytics.session import session

    span = span_of(start, end)
    spark = session("segments", **of_spark)
    with in_one_line(of_spark["verbose"]):
        show = on_disk.as_json if as_json else on_disk.as_tables(_console())
        on_disk.show(spark, directories, topics, span=span, limit=limit, on_damage=on_damage, show=show)


@command.command()
@_with_source
@click.option("--every", default="10m", show_default=True, metavar="TIME", help=f"How often: {DURATION_HELP}.")
@_with_json
def schedule(lake: Path, name: str | None, every: str, as_json: bool, **options: Any) -> None:
    """Print a systemd service and timer that ingest again and again."""
    wanted, cluster = _cluster(options)
    cluster.client_settings()
    place = cluster.name if cluster.is_named else str(cluster.bootstrap[0])
    try:
        text = timers.units(sys.executable, place, _connect(wanted, cluster), lake.resolve(), every, name)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what="--every") from None
    click.echo(json.dumps({"units": text}) if as_json else text)


def _cluster(options: dict[str, Any]) -> tuple[Wanted, ClusterEntry]:
    """Return the options of the cluster, with those of the environment, and the cluster. Raises ClientError."""
    if options.get("bootstrap") is not None and options.get("cluster") is not None:
        reason = "--bootstrap and --cluster cannot be used together: the name in the lake is --name"
        raise ClientError(Failure.INVALID, f"{reason} {options['cluster']}")
    wanted = cluster_options.take(options)
    return wanted, select(wanted)


def _addresses(cluster: ClusterEntry) -> str:
    return ",".join(map(str, cluster.bootstrap))


def _name(cluster: ClusterEntry, name: str | None) -> str | None:
    return name or (cluster.name if cluster.is_named else None)


def _connect(wanted: Wanted, cluster: ClusterEntry) -> list[str]:
    """The options of a unit, which runs with another environment. Raises ClientError: all users can read it."""
    found = ["--bootstrap", _addresses(cluster)]
    if cluster.is_named:
        found = ["--clusters-file", str((wanted.clusters_file or default_path()).resolve()), "--cluster", cluster.name]
    if cluster.command_config is not None:
        found += ["--command-config", str(cluster.command_config.resolve())]
    for name, value in cluster.overrides.items():
        if name in SECRETS:
            raise ClientError(Failure.INVALID, f"{name}: all users can read a unit: use --command-config", what="-X")
        found += ["-X", f"{name}={value}"]
    return found


def _console() -> Console:
    # A file or a pipe has no width, and the tables have up to twelve columns.
    return Console() if sys.stdout.isatty() else Console(width=WIDE)


def _show(text: str) -> None:
    click.echo(text, err=True)


def span_of(start: datetime | None, end: datetime | None) -> Span:
    """Return the range of `--from` and `--to`. Raises ClickException if it is empty."""
    if start is not None and end is not None and start >= end:
        raise click.ClickException(f"--from {start:%Y-%m-%d %H:%M:%S} is not before --to {end:%Y-%m-%d %H:%M:%S}")
    return Span(start, end)


def main() -> None:
    """Run the command."""
    command(prog_name=PROGRAM)
