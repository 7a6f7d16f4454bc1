"""The options of `broker-analytics run mirror-audit`, which reads no lake, and its output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from spark_analytics.cells import table
from spark_analytics.failures import in_one_line

if TYPE_CHECKING:
    from spark_analytics.mirror_audit import Audit

NAME: Final = "mirror-audit"
_TITLES: Final = {"partitions": "partitions: records of both sides", "chunks": "chunks: those that differ"}
_FIELDS: Final = {
    "--source": "sources",
    "--target": "targets",
    "--topic": "topics",
    "--equal-offsets": "equal_offsets",
    "--without-times": "without_times",
}
_folder: Final = click.Path(exists=True, file_okay=False, path_type=Path)


def click_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command of click."""
    for option in (
        click.option("--without-times", is_flag=True, help="For mirror-audit: compare no timestamps."),
        click.option("--equal-offsets", is_flag=True, help="For mirror-audit: offsets are equal, as in link flows."),
        click.option(
            "--topic", "topics", multiple=True, metavar="TOPIC[=NAME]",
            help="For mirror-audit: a topic, and its name in the target; may be repeated.",
        ),
        click.option(
            "--target", "targets", multiple=True, type=_folder, metavar="FOLDER",
            help="For mirror-audit: a log directory of the target; may be repeated.",
        ),
        click.option(
            "--source", "sources", multiple=True, type=_folder, metavar="FOLDER",
            help="For mirror-audit: a log directory of the source; may be repeated.",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


def taken(options: dict[str, Any]) -> dict[str, Any]:
    """Remove the options of mirror-audit from those of a command; return them by their names."""
    return {name: options.pop(field) for name, field in _FIELDS.items()}


def refuse(given: Mapping[str, Any], job: str) -> None:
    """Raise ClickException if one of the options was given for another job."""
    for name, value in given.items():
        if value:
            raise click.ClickException(f"{name} is for {NAME}, not for {job}")


def run(
    given: Mapping[str, Any],
    others: Mapping[str, object],
    limit: int,
    console: Console | None,
    of_spark: Mapping[str, Any],
) -> bool:
    """Run the job, and show the first `limit` rows of its results: as JSON without a console. Return whether both sides
    are equal. Raises ClickException for `others`, the options of other jobs, and SegmentsError.
    """
    for name, value in others.items():
        if value:
            raise click.ClickException(f"{name} is not for {NAME}")
    for name in ("--source", "--target", "--topic"):
        if not given[name]:
            raise click.ClickException(f"{NAME} needs {name}")
    from spark_analytics import mirror_audit
    from spark_analytics.session import session

    wanted = mirror_audit.Settings(
        mirror_audit.topics_of(given["--topic"]), given["--equal-offsets"], with_times=not given["--without-times"]
    )
    spark = session(f"run {NAME}", **of_spark)
    with in_one_line(of_spark["verbose"]):
        found = mirror_audit.audit(spark, given["--source"], given["--target"], wanted)
    _show(found, limit, console)
    return found.is_equal


def _show(found: Audit, limit: int, console: Console | None) -> None:
    for name, rows in found.results().items():
        if console is None:
            fields = {"job": NAME, "result": name, "rows": rows[:limit], "is_complete": len(rows) <= limit}
            print(json.dumps(fields), flush=True)
        elif rows:
            notes = [f"the first {limit} rows"] if len(rows) > limit else []
            console.print(table(_TITLES[name], list(rows[0]), rows[:limit], notes=notes))
