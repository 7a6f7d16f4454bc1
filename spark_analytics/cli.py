"""The command `broker-analytics`: what a cluster's own events and samples say over days, on Apache Spark. See
docs/analytics.md.

Exit codes: 0 good; 64 an option is wrong; 65 there is nothing to read, or the lake is in use; 69 Spark, the jars or the
cluster are missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from broker_cy import __version__
from spark_analytics import schedule as timers
from spark_analytics import times
from spark_analytics.errors import DamagedError, IngestError
from spark_analytics.jars import SetUpError, fetch
from spark_analytics.lake import Lake, LakeError, Span
from spark_analytics.segments.errors import SegmentsError

PROGRAM = "broker-analytics"
WRONG_USE, NO_DATA, UNAVAILABLE = 64, 65, 69
WIDE = 200
EPILOG = """\b
examples:
  broker-analytics jars
  broker-analytics ingest --bootstrap 127.0.0.1:9092 --out lake/
  broker-analytics run lag --lake lake/ --from -1d
  broker-analytics segments /var/lib/broker-cy --topic orders --from 2026-11-23T08:00 --to 2026-11-23T09:00
  broker-analytics schedule --bootstrap 127.0.0.1:9092 --out lake/ --every 10m
"""


class Program(click.Group):
    """Ends with the exit codes above, and a sentence instead of a traceback."""

    def main(self, *args: Any, **extra: Any) -> Any:
        try:
            return super().main(*args, **{**extra, "standalone_mode": False})
        except click.ClickException as error:
            error.show()
            sys.exit(WRONG_USE)
        except click.Abort:
            sys.exit(130)
        except (LakeError, DamagedError) as error:
            _end(error, NO_DATA)
        except SegmentsError as error:
            _end(error, WRONG_USE)
        except (SetUpError, IngestError) as error:
            _end(error, UNAVAILABLE)


def _end(error: Exception, code: int) -> None:
    print(f"{PROGRAM}: {error}", file=sys.stderr)
    sys.exit(code)


class Time(click.ParamType[datetime]):
    """A time, or how long ago."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            return times.parse(value, datetime.now(UTC))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_folder = click.Path(file_okay=False, path_type=Path)


Decorator = Callable[[Callable[..., None]], Callable[..., None]]


def _together(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options, which are shown in this order."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        for each in reversed(options):
            function = each(function)
        return function

    return add


_with_source = _together(
    click.option("--bootstrap", required=True, metavar="HOST:PORT[,..]", help="The cluster."),
    click.option("--out", required=True, type=_folder, metavar="LAKE", help="The folder of the lake."),
)
_with_range = _together(
    click.option("--from", "start", type=Time(), metavar="TIME", help=f"From this time on: {times.ALLOWED}."),
    click.option("--to", "end", type=Time(), metavar="TIME", help="Before this time."),
    click.option("--limit", type=click.IntRange(1, 10_000), default=10, show_default=True, help="Rows shown."),
)
_with_spark = _together(
    click.option("--master", metavar="URL", help="Spark's master; by default all cores of this machine."),
    click.option("--memory", default="2g", show_default=True, metavar="SIZE", help="Memory of the driver."),
    click.option("--verbose", is_flag=True, help="Show Spark's log."),
)


@click.group(cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message=f"{PROGRAM} %(version)s")
def command() -> None:
    """Analyse a cluster's own events and samples with Apache Spark."""


@command.command()
def jars() -> None:
    """Download the jars of Spark's Kafka source, once on a machine."""
    for each in fetch():
        click.echo(str(each))


@command.command()
@_with_source
@click.option("--cluster", metavar="NAME", help="Its name in the lake; by default the cluster's id.")
@click.option("--accept-loss", is_flag=True, help="Go on although records were removed before they were ingested.")
@_with_spark
def ingest(bootstrap: str, out: Path, cluster: str | None, accept_loss: bool, **of_spark: Any) -> None:
    """Read what has come since the last ingest into the lake, exactly once."""
    from spark_analytics import ingest as reading

    source = reading.find(bootstrap, cluster)
    done = reading.ingest(Lake(out), source, accept_loss=accept_loss, show=_show, **of_spark)
    click.echo(f"{done.cluster}: {done.records:,} records in {done.batches} batches, {done.seconds:.0f} s")


@command.command()
@click.argument("job")
@click.option("--lake", required=True, type=_folder, metavar="LAKE", help="The folder of the lake.")
@_with_range
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Only this cluster; may be repeated.")
@click.option("--out", type=_folder, metavar="FOLDER", help="Also write all rows here, as Parquet.")
@_with_spark
def run(
    job: str,
    lake: Path,
    start: datetime | None,
    end: datetime | None,
    clusters: tuple[str, ...],
    limit: int,
    out: Path | None,
    **of_spark: Any,
) -> None:
    """Run a job over the lake: throughput, lag, rebalances, skew, nodes, forecast, end-to-end, or all."""
    from spark_analytics import run as running
    from spark_analytics.jobs.registry import JOBS
    from spark_analytics.session import session

    if job != "all" and job not in JOBS:
        raise click.ClickException(f"{job!r} is not a job (allowed: all, {', '.join(JOBS)})")
    chosen = list(JOBS.values()) if job == "all" else [JOBS[job]]
    span = span_of(start, end)
    there = Lake(lake)
    there.check(clusters)
    spark = session(f"run {job}", **of_spark)
    running.run(spark, there, chosen, span=span, clusters=clusters, limit=limit, out=out, console=_console())


@command.command()
@click.argument("directories", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--topic", "topics", multiple=True, required=True, help="A topic; may be repeated.")
@_with_range
@click.option("--on-damage", type=click.Choice(["stop", "skip"]), default="stop", show_default=True, help="What to do.")
@_with_spark
def segments(
    directories: tuple[Path, ...],
    topics: tuple[str, ...],
    start: datetime | None,
    end: datetime | None,
    limit: int,
    on_damage: str,
    **of_spark: Any,
) -> None:
    """Count the records of topics in log directories, by partition, and show the first ones. No broker is needed."""
    from spark_analytics import on_disk
    from spark_analytics.session import session

    span = span_of(start, end)
    spark = session("segments", **of_spark)
    on_disk.show(spark, directories, topics, span=span, limit=limit, on_damage=on_damage, console=_console())


@command.command()
@_with_source
@click.option("--every", default="10m", show_default=True, metavar="TIME", help="How often: a systemd time span.")
def schedule(bootstrap: str, out: Path, every: str) -> None:
    """Print a systemd service and timer that ingest again and again."""
    try:
        click.echo(timers.units(sys.executable, bootstrap, out.resolve(), every))
    except ValueError as error:
        raise click.ClickException(f"--every: {error}") from None


def _console() -> Console:
    # A file or a pipe has no width; the tables have up to twelve columns.
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
