"""`broker-streams reset`."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.reset import ResetKind, ResetRule, ResetStep, read_offsets
from broker_cy.client import options
from broker_cy.client.confirmation import confirm
from broker_cy.client.parsed import Parsed
from broker_cy.client.quantities import DURATION_HELP, TIME_HELP, parse_duration, parse_time
from broker_cy.core.java_duration import duration_ms
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows
from broker_streams.application import Application
from broker_streams.commands.context import (
    PROGRAM,
    application_of,
    client_for,
    errors,
    json_option,
)
from broker_streams.hosts.resetting import ResetPlan, Wanted, apply_reset, plan_reset
from broker_streams.hosts.settings import HostSettings

EPILOG: Final = """\b
examples:
  broker-streams reset app.py --dry-run     what would be reset and deleted
  broker-streams reset app.py               begin again with the first records
  broker-streams reset orders --bootstrap HOST:PORT --to-datetime 2026-11-30T00:00
"""
_COLUMNS: Final[tuple[Column[ResetStep], ...]] = (
    Column("topic", "Topic", lambda row: row.partition.topic),
    Column("partition", "Partition", lambda row: row.partition.partition, Kind.NUMBER),
    Column("old", "Old", lambda row: row.old, Kind.COUNT),
    Column("new", "New", lambda row: row.new, Kind.COUNT),
    Column("lag", "To process", lambda row: row.end - row.new, Kind.COUNT),
    Column("note", "", lambda row: "moved into the log" if row.is_moved_in else ""),
)


def _duration(text: str) -> int:
    """A duration of ours, or Kafka's PnDTnHnMnS."""
    return duration_ms(text) if text[:1] in ("P", "p") else parse_duration(text)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


_TIME: Final = Parsed("time", lambda text: parse_time(text, _now_ms))
_DURATION: Final = Parsed("duration", _duration)
_TOPICS: Final = Parsed("topics", lambda text: [each.strip() for each in text.split(",") if each.strip()])


@click.command("reset", epilog=EPILOG)
@click.argument("name", metavar="APP.py|APPLICATION_ID")
@click.option("--application-id", metavar="ID", help="The application.  [default: application.id of APP.py]")
@click.option("--input-topics", type=_TOPICS, metavar="A,B", help="Input topics to reset.  [default: all of them]")
@click.option(
    "--internal-topics", type=_TOPICS, metavar="A,B", help="Internal topics to delete.  [default: all of them]"
)
@click.option("--to-earliest", is_flag=True, help="Begin with the first records.  [default]")
@click.option("--to-latest", is_flag=True, help="Begin with new records.")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="Begin at an offset.")
@click.option("--to-datetime", type=_TIME, metavar="TIME", help=f"Begin with records from this time on: {TIME_HELP}.")
@click.option(
    "--by-duration", type=_DURATION, metavar="D", help=f"Begin with records of this age: {DURATION_HELP}, or PT1H30M."
)
@click.option("--shift-by", type=int, metavar="N", help="Move by this many offsets; backward if negative.")
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Begin at the offsets in a CSV file: topic,partition,offset.",
)
@click.option(
    "--state-dir",
    type=click.Path(path_type=Path),
    help="Where this host has the state of applications.  [default: state.dir of APP.py, or kafka-streams in the"
    " directory of temporary files]",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done, without changing anything.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@options.click_options()
@json_option
@click.pass_context
def reset_command(
    context: click.Context, /, name: str, application_id: str | None, input_topics: list[str] | None,
    internal_topics: list[str] | None, state_dir: Path | None, dry_run: bool, yes: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Let an application begin again: reset the offsets of its inputs, and delete its internal topics and its state.

    Shows the plan first, and asks for confirmation. Stop all instances before. Other hosts recognize their old state by
    the new changelog topics. Output topics keep their records.
    """
    cluster = {option.field: given.pop(option.field) for option in options.OF_CLUSTER}
    with errors(context, as_json=as_json):
        application = application_of(name, cluster)
        config = application.config if application is not None else {}
        chosen = application_id or (str(config.get("application.id") or "") if application else name)
        if not chosen:
            raise ClientError(Failure.INVALID, "application.id is missing; use --application-id", what=name)
        snapshot_dir = None
        if application is not None:
            settings = HostSettings.of({**config, "application.id": chosen})
            state_dir = state_dir or Path(settings.state_dir)
            snapshot_dir = Path(settings.snapshot_dir) if settings.snapshot_dir else None
        wanted = Wanted(_rule(given), input_topics, internal_topics, state_dir, snapshot_dir)

        async def job() -> None:
            async with client_for(application, cluster, f"{PROGRAM}-reset") as client:
                await _reset(client, chosen, wanted, application, dry_run=dry_run, yes=yes, as_json=as_json)

        asyncio.run(job())


async def _reset(
    client: AdminClient, application_id: str, wanted: Wanted, application: Application | None, *, dry_run: bool,
    yes: bool, as_json: bool,
) -> None:  # fmt: skip
    plan = await plan_reset(client, application_id, wanted, application.topology if application else None)
    if not as_json:
        _print_plan(plan, err=not dry_run)
    if not dry_run:
        confirm(PROGRAM, f"Reset application {application_id}?", yes=yes, as_json=as_json)
        await apply_reset(client, plan)
    if as_json:
        print(json.dumps(_fields(plan, dry_run=dry_run)))
    elif not dry_run:
        deleted = plural(len(plan.internal), "internal topic")
        print(f"reset {application_id}: {plural(len(plan.steps), 'partition')}; deleted {deleted}")


def _rule(given: dict[str, Any]) -> ResetRule:
    """Raises click.UsageError: several rules are given."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    if len(said) > 1:
        every = ", ".join("--" + name.replace("_", "-") for name in said)
        raise click.UsageError(f"{every} exclude each other: specify one of them")
    if not said or said[0] == "to_earliest":
        return ResetRule(ResetKind.EARLIEST)
    name, value = said[0], given[said[0]]
    if name == "to_latest":
        return ResetRule(ResetKind.LATEST)
    if name == "from_file":
        return ResetRule(ResetKind.LISTED, listed=read_offsets(value))
    if name == "by_duration":
        return ResetRule(ResetKind.TIME, max(0, _now_ms() - value))
    kinds = {"to_offset": ResetKind.OFFSET, "to_datetime": ResetKind.TIME, "shift_by": ResetKind.SHIFT}
    return ResetRule(kinds[name], value)


def _print_plan(plan: ResetPlan, *, err: bool) -> None:
    print_rows(_COLUMNS, plan.steps, err=err)
    for topic in plan.internal:
        click.echo(f"delete topic {topic}", err=err)
    for directory in plan.directories:
        click.echo(f"delete directory {directory}", err=err)


def _fields(plan: ResetPlan, *, dry_run: bool) -> dict[str, Any]:
    return {
        "application_id": plan.application_id,
        "dry_run": dry_run,
        "offsets": [
            {
                "topic": step.partition.topic,
                "partition": step.partition.partition,
                "old": step.old,
                "new": step.new,
                "start": step.start,
                "end": step.end,
            }
            for step in plan.steps
        ],
        "deleted_topics": list(plan.internal),
        "deleted_directories": [str(each) for each in plan.directories],
    }
