"""`broker-cy lag`."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence, Set

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.commit_notes import CommitNotes
from broker_cy.admin.group_lag import GroupLag, PartitionLag
from broker_cy.admin.lag import Status, Trend
from broker_cy.admin.lag_history import LagHistory
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.quantities import DURATION_HELP
from broker_cy.commands.context import Target, cluster_command, complete_groups
from broker_cy.commands.output import print_json, progress
from broker_cy.commands.topics import match_option
from broker_cy.commands.values import DURATION
from broker_cy.console.columns import groups, topics
from broker_cy.console.rows import catch_up_text
from broker_cy.reporting.column import Column
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy lag                                      show the lag of every group, in records
  broker-cy lag billing --time --partitions          show one group by partition, with the time lag
  broker-cy lag --samples 6 --every 10s              sample for a minute, and show the status of each group
  broker-cy lag --samples 3 --json                   the same for programs

\b
status:
  OK keeps up   WARN lag grows   STALLED has members, but its offset does not move   STOPPED no longer commits
  REWOUND its offset went back and has not caught up   UNKNOWN has lag; more samples are needed
"""

SAMPLES_MAX = 1_000


@click.command("lag", epilog=EPILOG)
@cluster_command
@click.argument("groups", nargs=-1, shell_complete=complete_groups)
@match_option
@click.option("--time", "in_time", is_flag=True, help="Show the time lag: the age of the first unread record.")
@click.option("--partitions", is_flag=True, help="Print one line for each partition.")
@click.option(
    "--samples",
    type=click.IntRange(1, SAMPLES_MAX),
    default=1,
    metavar="N",
    help="Number of samples; with 2 or more, a status is shown.",
)
@click.option(
    "--every",
    type=DURATION,
    default=5_000,
    metavar="TIME",
    help=f"Time between samples, {DURATION_HELP}.  [default: 5s]",
)
async def command(
    target: Target,
    client: AdminClient,
    groups: Sequence[str],
    match: re.Pattern[str] | None,
    in_time: bool,
    partitions: bool,
    samples: int,
    every: int,
) -> int:
    """Show how far groups are behind. Without GROUPS, show all groups.

    The time lag comes from the broker's commit events if there are any, otherwise from the records.
    """
    names = list(groups) or [each.group_id for each in await client.groups.listed()]
    names = [name for name in names if match is None or match.fullmatch(name)]
    history = LagHistory(samples_max=max(2, samples))
    with progress("sampling lag", samples, quiet=target.as_json or samples == 1) as advance:
        for look in range(samples):
            if look:
                await asyncio.sleep(every / 1000)
            outcome = await client.lag.of(names)
            if not look:
                await _check_known(client, groups, outcome.found)
            now_ms = int(time.time() * 1000)
            if samples > 1:
                noted = [await client.timestamps.with_commit_times(each) for each in outcome.found.values()]
                history.note(noted, now_ms, await _members(client, names))
            advance(1)
    lags = list(outcome.found.values())
    times = {each.group_id: await client.lag.times(each, now_ms) for each in lags} if in_time else {}
    found_times = {group_id: each.found for group_id, each in times.items()}
    judged = {each.group_id: (history.status(each.group_id), history.trend(each.group_id)) for each in lags}
    reported = judged if samples > 1 else {}
    if target.as_json:
        print_json([_fields(each, reported, found_times, client.timestamps.notes.exact(each)) for each in lags])
    elif partitions:
        _print_partitions(lags, found_times, in_time, client.timestamps.notes)
    else:
        _print_groups(lags, reported, found_times, in_time)
    return target.tell_failures([outcome, *times.values()])


async def _check_known(client: AdminClient, named: Sequence[str], found: Mapping[str, GroupLag]) -> None:
    """Raise ClientError for a named group that does not exist, which brokers report as a group without commits."""
    doubtful = [name for name in named if name in found and not found[name].partitions]
    if not doubtful:
        return
    known = {each.group_id for each in await client.groups.listed()}
    for name in doubtful:
        if name not in known:
            raise ClientError(Failure.INVALID, "the group does not exist", what=f"group {name}")


async def _members(client: AdminClient, names: Sequence[str]) -> dict[str, bool]:
    """Return whether each group has members, which distinguishes a stalled group from a stopped one."""
    described = await client.groups.describe(names)
    return {name: bool(group.members) for name, group in described.found.items()}


Judged = Mapping[str, tuple[Status, Trend | None]]
Times = Mapping[str, Mapping[TopicPartition, int | None]]


def _worst_time(group: GroupLag, times: Times) -> int | None:
    """Return the time lag of the group's slowest partition; None if it is unknown for one that lags."""
    theirs = times.get(group.group_id, {})
    known = [theirs.get(part.partition) for part in group.partitions]
    return None if None in known else max((each for each in known if each is not None), default=0)


def _print_groups(lags: Sequence[GroupLag], judged: Judged, times: Times, in_time: bool) -> None:
    columns: list[Column[GroupLag]] = [
        groups.GROUP.by(lambda row: row.group_id),
        groups.PARTITIONS.by(lambda row: len(row.partitions)),
        groups.LAG.by(lambda row: row.least, text=lambda row: groups.lag_text(row.least, is_complete=row.is_complete)),
    ]
    if in_time:
        columns.append(groups.TIME_LAG.by(lambda row: _worst_time(row, times)))

    def trend(row: GroupLag) -> Trend | None:
        return judged[row.group_id][1]

    if judged:
        columns += [
            groups.STATUS.by(lambda row: judged[row.group_id][0].name),
            groups.CONSUMED.of(trend),
            groups.PRODUCED.of(trend),
            groups.CATCH_UP.by(trend, text=lambda row: catch_up_text(trend(row), row.total)),
        ]
    print_rows(columns, lags)


def _print_partitions(lags: Sequence[GroupLag], times: Times, in_time: bool, notes: CommitNotes) -> None:
    exact = {group.group_id: notes.exact(group) for group in lags}
    columns: list[Column[tuple[str, PartitionLag]]] = [
        groups.GROUP.by(lambda row: row[0]),
        topics.TOPIC.by(lambda row: row[1].partition.topic),
        topics.PARTITION.by(lambda row: row[1].partition.partition),
        groups.COMMITTED.by(lambda row: row[1].committed),
        groups.LOG_END.by(lambda row: row[1].end),
        groups.PARTITION_LAG.by(lambda row: row[1].lag),
    ]
    if in_time:
        columns += [
            groups.TIME_LAG.by(lambda row: times.get(row[0], {}).get(row[1].partition)),
            groups.TIME_SOURCE.by(lambda row: _source(row[1], exact[row[0]])),
        ]
    print_rows(columns, [(group.group_id, part) for group in lags for part in group.partitions])


def _source(part: PartitionLag, exact: Set[TopicPartition]) -> str | None:
    """Return the source of a partition's time lag; None without lag."""
    return None if not part.lag else "event" if part.partition in exact else "record"


def _fields(group: GroupLag, judged: Judged, times: Times, exact: Set[TopicPartition]) -> dict[str, object]:
    """Return a group as JSON fields."""
    theirs = times.get(group.group_id, {})
    parts = [
        {
            "topic": part.partition.topic,
            "partition": part.partition.partition,
            "committed": part.committed,
            "start": part.start,
            "end": part.end,
            "lag": part.lag,
            "lost": part.lost,
            **({"time_lag_ms": theirs.get(part.partition), "time_source": _source(part, exact)} if times else {}),
        }
        for part in group.partitions
    ]
    fields: dict[str, object] = {"group_id": group.group_id, "lag": group.least, "complete": group.is_complete}
    if times:
        fields["time_lag_ms"] = _worst_time(group, times)
    if judged:
        status, trend = judged[group.group_id]
        fields |= {"status": status, "trend": trend}
    return {**fields, "partitions": parts}
