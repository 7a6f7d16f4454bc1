"""`broker-cy groups`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.group_values import (
    CLASSIC,
    CONSUMER,
    SHARE,
    STREAMS,
    GroupDescription,
    GroupListing,
)
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.reset import ResetKind, ResetRule, ResetStep, read_offsets
from broker_cy.admin.share_in_flight import in_flight_of
from broker_cy.client.quantities import DURATION_HELP, TIME_HELP
from broker_cy.commands.context import (
    Target,
    cluster_command,
    complete_groups,
    complete_topics,
    dry_run_option,
    yes_option,
)
from broker_cy.commands.group_description import group_fields, print_group
from broker_cy.commands.group_events import newest_events
from broker_cy.commands.group_records import redrive, reject, release
from broker_cy.commands.output import confirm, plain, print_json
from broker_cy.commands.topics import match_option
from broker_cy.commands.values import DURATION, OFFSET, TIME, TOPIC_PARTITIONS, chosen
from broker_cy.console.columns import groups as columns
from broker_cy.console.columns import in_flight as in_flight_columns
from broker_cy.console.columns import topics as topic_columns
from broker_cy.console.values import parse_time
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import UNKNOWN, plural
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy groups list --state Stable --json
  broker-cy groups describe billing
  broker-cy groups in-flight checkout --json
  broker-cy groups release checkout --member till-3
  broker-cy groups reset billing --to-time 2026-01-31T12:00 --topic orders:0-3
  broker-cy groups reset billing --shift-by -100 --dry-run
  broker-cy groups reset billing-test --from-group billing --yes
  broker-cy groups delete-offsets billing --topic payments
  broker-cy groups delete billing-test
"""

# Kafka's GroupState and GroupType, as it spells them. Brokers answer unknown names with an empty list, not an error.
STATE = click.Choice(
    [
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        "Dead",
        "Empty",
        "Assigning",
        "Reconciling",
        "NotReady",
    ],
    case_sensitive=False,
)
TYPE = click.Choice([CLASSIC, CONSUMER, SHARE, STREAMS], case_sensitive=False)


def _listed(choice: click.Choice[str]) -> str:
    return ", ".join(choice.choices)


group_argument = click.argument("group", shell_complete=complete_groups)
groups_argument = click.argument("groups", nargs=-1, required=True, shell_complete=complete_groups)
topic_option = click.option(
    "--topic",
    "topics",
    type=TOPIC_PARTITIONS,
    multiple=True,
    metavar="TOPIC[:LIST]",
    help="Select only this topic, or these partitions of it; may be repeated.",
    shell_complete=complete_topics,
)


# A group and its coordinator.
Listed = tuple[GroupListing, int]


def _listing(row: Listed) -> GroupListing:
    return row[0]


_LISTED: Final[tuple[Column[Listed], ...]] = (
    *(column.of(_listing) for column in (columns.GROUP, columns.STATE, columns.TYPE, columns.PROTOCOL)),
    columns.COORDINATOR.by(lambda row: row[1]),
)
_STEPS: Final[tuple[Column[ResetStep], ...]] = (
    topic_columns.TOPIC.by(lambda row: row.partition.topic),
    topic_columns.PARTITION.by(lambda row: row.partition.partition),
    Column("old", "Old", lambda row: row.old, Kind.COUNT),
    Column("new", "New", lambda row: row.new, Kind.COUNT),
    Column(
        "change",
        "Change",
        lambda row: row.change,
        Kind.COUNT,
        text=lambda row: UNKNOWN if row.change is None else f"{row.change:+,}",
    ),
    Column("lag", "Lag after", lambda row: row.end - row.new, Kind.COUNT),
    Column("note", "", lambda row: "moved into the log" if row.is_moved_in else ""),
)


@click.group("groups", epilog=EPILOG)
def command() -> None:
    """List, describe, reset and delete groups, and change the records in flight of share groups."""


command.add_command(release)
command.add_command(reject)
command.add_command(redrive)


@command.command("list", epilog=EPILOG)
@cluster_command
@match_option
@click.option(
    "--state", "states", type=STATE, multiple=True, metavar="STATE", help=f"{_listed(STATE)}; may be repeated."
)
@click.option("--type", "types", type=TYPE, multiple=True, metavar="TYPE", help=f"{_listed(TYPE)}; may be repeated.")
async def list_groups(
    target: Target, client: AdminClient, match: re.Pattern[str] | None, states: Sequence[str], types: Sequence[str]
) -> int:
    """List all groups, with state, type, protocol and coordinator."""
    outcome = await client.groups.list_all(states=states, types=types)
    found = sorted(
        (
            (each, broker)
            for broker, listing in outcome.found.items()
            for each in listing
            if match is None or match.fullmatch(each.group_id)
        ),
        key=lambda pair: pair[0].group_id,
    )
    if target.as_json:
        listings: list[dict[str, object]] = []
        for each, broker in found:
            fields = plain(each)
            assert isinstance(fields, dict)
            listings.append({**fields, "coordinator_id": broker})
        print_json(listings)
    else:
        print_rows(_LISTED, found)
    return target.tell_failures([outcome])


@command.command("describe", epilog=EPILOG)
@cluster_command
@groups_argument
async def describe(target: Target, client: AdminClient, groups: Sequence[str]) -> int:
    """Show the state and the members of groups, their assignment, and the changes that are planned.

    For a share group, also shows the start offset and the lag of each partition; for a streams group, its topology,
    its tasks, why it has none, and the cause of its last epoch.
    """
    outcome = await client.groups.describe(groups)
    shared = [group.group_id for group in outcome.found.values() if group.group_type == SHARE]
    offsets = await client.share_offsets.describe(shared)
    events = await newest_events(client, outcome.found.values())
    if target.as_json:
        print_json([group_fields(group, offsets.found, events) for group in outcome.found.values()])
        return target.tell_failures([outcome, offsets])
    for group in outcome.found.values():
        print_group(group, offsets.found.get(group.group_id, {}), events)
    return target.tell_failures([outcome, offsets])


@command.command("in-flight", epilog=EPILOG)
@cluster_command
@group_argument
async def in_flight(target: Target, client: AdminClient, group: str) -> int:
    """Show the records of a share group that are in flight: holders, lock time left, numbers of deliveries, and the
    causes for which records were archived or became available again.

    Brokers report them at their metrics listener (brokercy.metrics.listener).
    """
    outcome = await client.groups.describe([group])
    if group not in outcome.found:
        return target.tell_failures([outcome])
    description = outcome.found[group]
    if description.group_type != SHARE:
        reason = f"it is a {description.group_type} group; only share groups have records in flight"
        raise ClientError(Failure.INVALID, reason, what=f"group {group}")
    flight = await in_flight_of(client.caller, group, target.cluster.metrics_token_file, target.cluster.tls)
    if not flight.brokers:
        reason = "no broker answers at its brokercy.metrics.listener, which reports the records in flight"
        raise ClientError(Failure.UNSUPPORTED, reason, what=f"group {group}")
    if target.as_json:
        totals = {
            "by_deliveries": flight.by_deliveries,
            "last_attempts": flight.last_attempts,
            "throttled": flight.throttled,
            "out_of_order": flight.out_of_order,
        }
        print_json({"group_id": group, **totals, **flight._asdict()})
        return 0
    for fact in in_flight_columns.in_flight_facts(flight):
        click.echo(f"{fact.name}: {fact.value}")
    rows = list(in_flight_columns.run_rows(flight, description))
    if rows:
        print_rows(in_flight_columns.COLUMNS, rows)
    if flight.left_out:
        click.echo(f"{plural(flight.left_out, 'further range')} not listed", err=True)
    return 0


@command.command("reset", epilog=EPILOG)
@cluster_command
@group_argument
@topic_option
@click.option("--to-earliest", is_flag=True, help="Reset to the start of the log.")
@click.option("--to-latest", is_flag=True, help="Reset to the end of the log.")
@click.option("--to-offset", type=OFFSET, metavar="N", help="Reset to an offset.")
@click.option(
    "--to-time", type=TIME, metavar="TIME", help=f"Reset to the first record at or after this time: {TIME_HELP}."
)
@click.option(
    "--by-duration",
    type=DURATION,
    metavar="D",
    help=f"Reset to the first record that is at most this old, {DURATION_HELP}.",
)
@click.option("--shift-by", type=int, metavar="N", help="Move by this many offsets; backward if negative.")
@click.option(
    "--from-group",
    metavar="GROUP",
    help="Reset to the committed offsets of another group.",
    shell_complete=complete_groups,
)
@click.option(
    "--from-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Reset to the offsets in a CSV file: topic,partition,offset.",
)
@dry_run_option
@yes_option
async def reset(
    target: Target,
    client: AdminClient,
    /,
    group: str,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    dry_run: bool,
    yes: bool,
    **rules: object,
) -> int:
    """Reset the offsets of a group without members: the committed ones, or the start offsets of a share group. Shows
    old and new offsets, and asks for confirmation.

    Without --topic, resets all partitions for which the group has an offset.
    """
    target.require_writable()
    rule = rule_of(rules)
    partitions = [key for topic, wanted in topics for key in chosen(await client.records.partitions(topic), wanted)]
    steps = await client.reset.plan(group, rule, partitions or None)
    if not target.as_json:
        print_rows(_STEPS, steps, err=not dry_run)
    if dry_run:
        _report_steps(target, steps, dry_run)
        return 0
    confirm(f"Reset the offsets of {plural(len(steps), 'partition')} for group {group}?", yes=yes)
    outcome = await client.reset.apply(group, steps)
    _report_steps(target, [step for step in steps if step.partition in outcome.found], dry_run)
    return target.tell_failures([outcome])


def rule_of(given: dict[str, object]) -> ResetRule:
    """Return the rule that the options name. Raises click.UsageError for none or several."""
    said = [name for name, value in given.items() if value is not None and value is not False]
    every = ", ".join("--" + name.replace("_", "-") for name in given)
    if len(said) != 1:
        raise click.UsageError(f"specify exactly one of {every}; {len(said)} were given")
    name, value = said[0], given[said[0]]
    if name == "to_earliest":
        return ResetRule(ResetKind.EARLIEST)
    if name == "to_latest":
        return ResetRule(ResetKind.LATEST)
    if name == "from_group":
        assert isinstance(value, str)
        return ResetRule(ResetKind.GROUP, group_id=value)
    if name == "from_file":
        assert isinstance(value, Path)
        return ResetRule(ResetKind.LISTED, listed=read_offsets(value))
    assert isinstance(value, int)
    if name == "by_duration":
        return ResetRule(ResetKind.TIME, max(0, parse_time("now") - value))
    kinds = {"to_offset": ResetKind.OFFSET, "to_time": ResetKind.TIME, "shift_by": ResetKind.SHIFT}
    return ResetRule(kinds[name], value)


def _report_steps(target: Target, steps: Sequence[ResetStep], dry_run: bool) -> None:
    if target.as_json:
        print_json(
            [
                {"topic": step.partition.topic, "partition": step.partition.partition, "old": step.old, "new": step.new,
                 "start": step.start, "end": step.end, "dry_run": dry_run}
                for step in steps
            ]
        )  # fmt: skip
    elif not dry_run:
        click.echo(f"reset the offsets of {plural(len(steps), 'partition')}")


@command.command("delete", epilog=EPILOG)
@cluster_command
@groups_argument
@dry_run_option
@yes_option
async def delete(target: Target, client: AdminClient, groups: Sequence[str], dry_run: bool, yes: bool) -> int:
    """Delete groups that have no members, and their offsets."""
    target.require_writable()
    described = await client.groups.describe(groups)
    code = target.tell_failures([described])
    names = list(described.found)
    if not names:
        return code
    committed = (await client.positions.fetch(names)).whole()
    columns_of_deletion: tuple[Column[GroupDescription], ...] = (
        columns.GROUP.by(lambda row: row.group_id),
        columns.STATE.by(lambda row: row.state),
        columns.MEMBERS.by(lambda row: len(row.members)),
        Column("committed", "Committed partitions", lambda row: len(committed[row.group_id]), Kind.COUNT),
    )
    click.echo("Groups to delete:", err=True)
    print_rows(columns_of_deletion, described.found.values(), err=True)
    if dry_run:
        return code
    confirm(f"Delete {', '.join(names)}?", yes=yes)
    outcome = await client.groups.delete(names)
    if target.as_json:
        print_json({"deleted": list(outcome.found)})
    else:
        for name in outcome.found:
            click.echo(f"deleted group {name}")
    return max(code, target.tell_failures([outcome]))


@command.command("delete-offsets", epilog=EPILOG)
@cluster_command
@group_argument
@topic_option
@dry_run_option
@yes_option
async def delete_offsets(
    target: Target,
    client: AdminClient,
    group: str,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    dry_run: bool,
    yes: bool,
) -> int:
    """Delete a group's committed offsets for topics to which it is not subscribed, or the offsets of a share group
    without members for whole topics.
    """
    target.require_writable()
    if not topics:
        raise click.UsageError("missing option --topic TOPIC, or --topic TOPIC:0,3-5")
    committed = (await client.positions.fetch([group])).whole()[group]
    wanted = dict(topics)
    keys = [
        key
        for key in sorted(committed)
        if key.topic in wanted and (wanted[key.topic] is None or key.partition in (wanted[key.topic] or ()))
    ]
    if not keys:
        parts = ", ".join(name if part is None else f"{name}:{','.join(map(str, part))}" for name, part in topics)
        raise ClientError(Failure.INVALID, f"no offset is committed for {parts}", what=f"group {group}")
    offsets: tuple[Column[TopicPartition], ...] = (
        topic_columns.TOPIC.by(lambda row: row.topic),
        topic_columns.PARTITION.by(lambda row: row.partition),
        columns.COMMITTED.by(lambda row: committed[row].offset),
    )
    print_rows(offsets, keys, err=True)
    if dry_run:
        return 0
    confirm(f"Delete {plural(len(keys), 'committed offset')} of group {group}?", yes=yes)
    outcome = await client.positions.delete(group, keys)
    if target.as_json:
        print_json([key._asdict() for key in outcome.found])
    else:
        click.echo(f"deleted {plural(len(outcome.found), 'committed offset')}")
    return target.tell_failures([outcome])
