"""`broker-cy groups release`, `reject` and `redrive`: the records that a share group has in flight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.caller import Outcome
from broker_cy.admin.group_values import SHARE, GroupDescription
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.share_records import EVERY_OFFSET, Ranges
from broker_cy.client.parsed import Parsed
from broker_cy.commands.context import (
    Target,
    cluster_command,
    complete_groups,
    complete_topics,
    dry_run_option,
    yes_option,
)
from broker_cy.commands.output import confirm, print_json
from broker_cy.console.acts.plan import Command, Plan, execute
from broker_cy.console.acts.share_records import Wanted, parse_records, plan_copy, plan_share_records
from broker_cy.wire.share_operations import OperatorAction

EPILOG = """\b
examples:
  broker-cy groups release checkout --member till-3
  broker-cy groups release checkout --records orders:0 --dry-run
  broker-cy groups reject checkout --records orders:0:40-41,57
  broker-cy groups redrive checkout --records orders:0:40-41
  broker-cy groups redrive checkout --records orders:0:40-41 --copy-to orders-again
"""
RECORDS: Final = Parsed("topic:partition[:offsets]", parse_records)
FC = TypeVar("FC", bound=Callable[..., Any])
group_argument = click.argument("group", shell_complete=complete_groups)


def _records_option(text: str, *, required: bool) -> Callable[[FC], FC]:
    return click.option(
        "--records",
        "records",
        type=RECORDS,
        multiple=True,
        required=required,
        metavar="TOPIC:PARTITION[:OFFSETS]",
        help=text,
        shell_complete=complete_topics,
    )


@click.command("release", epilog=EPILOG)
@cluster_command
@group_argument
@_records_option("Only these records, such as orders:0:40,42-45; may be repeated.  [default: all]", required=False)
@click.option("--member", metavar="MEMBER", help="Only records that this member holds: its client id or member id.")
@dry_run_option
@yes_option
async def release(
    target: Target,
    client: AdminClient,
    group: str,
    records: Sequence[tuple[TopicPartition, Ranges]],
    member: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """End the locks of records that members of a share group hold, so that others get them at once.

    As when a member releases records: their delivery count stays, and a record that was delivered for the last time is
    archived. A member that acknowledges a released record gets INVALID_RECORD_STATE.
    """
    target.require_writable()
    description = await _described(client, group)
    member_id = "" if member is None else member_of(description, member)
    wanted = joined(records)
    if not wanted:
        offsets = (await client.share_offsets.describe([group])).whole()[group]
        wanted = dict.fromkeys(sorted(offsets), EVERY_OFFSET)
    plan = await plan_share_records(client, _command(target), group, OperatorAction.RELEASE, wanted, member_id)
    return await _carry_out(target, client, plan, dry_run=dry_run, yes=yes)


@click.command("reject", epilog=EPILOG)
@cluster_command
@group_argument
@_records_option("The records, such as orders:0:40,42-45; may be repeated.", required=True)
@dry_run_option
@yes_option
async def reject(
    target: Target,
    client: AdminClient,
    group: str,
    records: Sequence[tuple[TopicPartition, Ranges]],
    dry_run: bool,
    yes: bool,
) -> int:
    """Archive records in flight of a share group, such as records that no consumer can process: they are not delivered
    again. Records that a member holds, and records that are available, are archived.
    """
    target.require_writable()
    await _described(client, group)
    plan = await plan_share_records(client, _command(target), group, OperatorAction.REJECT, joined(records))
    return await _carry_out(target, client, plan, dry_run=dry_run, yes=yes)


@click.command("redrive", epilog=EPILOG)
@cluster_command
@group_argument
@_records_option("The records, such as orders:0:40,42-45; may be repeated.", required=True)
@click.option(
    "--copy-to",
    metavar="TOPIC",
    help="Produce copies of the records to this topic; the records need not be in flight.",
    shell_complete=complete_topics,
)
@dry_run_option
@yes_option
async def redrive(
    target: Target,
    client: AdminClient,
    group: str,
    records: Sequence[tuple[TopicPartition, Ranges]],
    copy_to: str | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Deliver archived records to a share group again, while they are in flight: as long as a record before them is not
    finished. Each record has one more delivery at least, also after its last one.

    The group is done with records before its start offset; --copy-to produces them to a topic. The copies name their
    origin in headers (__dlq.errors.topic, .partition, .offset and .group).
    """
    target.require_writable()
    await _described(client, group)
    if copy_to is None:
        plan = await plan_share_records(client, _command(target), group, OperatorAction.REDRIVE, joined(records))
    else:
        plan = await plan_copy(client, _command(target), group, joined(records), copy_to)
    return await _carry_out(target, client, plan, dry_run=dry_run, yes=yes)


def joined(records: Iterable[tuple[TopicPartition, Ranges]]) -> Wanted:
    """Return the records of all options by partition."""
    found: dict[TopicPartition, Ranges] = {}
    for key, ranges in records:
        known = found.get(key, ())
        found[key] = EVERY_OFFSET if EVERY_OFFSET in (known, ranges) else (*known, *ranges)
    return found


def member_of(group: GroupDescription, name: str) -> str:
    """Return the id of the member with this client id or member id. Raises ClientError."""
    ids = [member.member_id for member in group.members if name in (member.member_id, member.client_id)]
    if len(ids) == 1:
        return ids[0]
    if ids:
        raise ClientError(
            Failure.INVALID,
            f"{len(ids)} members have the client id {name!r}; name one by its id: {', '.join(sorted(ids))}",
            what=f"group {group.group_id}",
        )
    # `in-flight` shows a member that has left by its id.
    return name


async def _described(client: AdminClient, group_id: str) -> GroupDescription:
    """Return a share group. Raises ClientError for a group of another type."""
    group = (await client.groups.describe([group_id])).whole()[group_id]
    if group.group_type != SHARE:
        reason = f"it is a {group.group_type} group; only share groups have records in flight"
        raise ClientError(Failure.INVALID, reason, what=f"group {group_id}")
    return group


def _command(target: Target) -> Command:
    return Command(target.cluster, False)


async def _carry_out(target: Target, client: AdminClient, plan: Plan, *, dry_run: bool, yes: bool) -> int:
    """Show a plan, ask for confirmation, and execute it. Raises ClientError if nothing can be changed."""
    if plan.problem:
        raise ClientError(Failure.INVALID, plan.problem)
    click.echo(plan.affected, err=True)
    for change in plan.changes:
        click.echo(f"  {change}", err=True)
    if dry_run:
        if target.as_json:
            print_json({"affected": plan.affected, "changes": [str(each) for each in plan.changes], "dry_run": True})
        return 0
    confirm(f"{plan.verb} these records?", yes=yes)
    report = await execute(client, plan)
    if target.as_json:
        print_json({"result": report.said, "done": report.done, "dry_run": False})
    elif report.done:
        click.echo(report.said)
    return target.tell_failures([Outcome({}, {each.what: each.error for each in report.failed})])
