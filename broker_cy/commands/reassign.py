"""`broker-cy reassign`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import IO, Any, Final, TypeVar

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.move_run import CONCURRENT_DEFAULT, CONCURRENT_MAX
from broker_cy.client.quantities import BYTES_HELP
from broker_cy.commands.context import Target, cluster_command, complete_topics, dry_run_option, yes_option
from broker_cy.commands.leaders import chooser, topics_option
from broker_cy.commands.output import print_json
from broker_cy.commands.plans import AFTER, BEFORE, WHAT, command_of, run_plan
from broker_cy.commands.values import BYTES, COUNT, TOPIC_PARTITIONS
from broker_cy.console.acts.moves import (
    MoveReplicas,
    Wish,
    moves_document,
    plan_cancel,
    plan_moves,
    read_moves,
)
from broker_cy.console.acts.pace import Pace
from broker_cy.console.acts.plan import Change
from broker_cy.console.columns import reassignments
from broker_cy.console.moving import moving_now, pace_text, throttle_text
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import size
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy reassign plan --drain 3
  broker-cy reassign plan --balance --json > moves.json
  broker-cy reassign apply moves.json --throttle 50M --concurrent 5
  broker-cy reassign apply --add 4 --throttle 100M --yes
  broker-cy reassign apply --replication-factor 3 --topic orders --topic payments
  broker-cy reassign status
  broker-cy reassign cancel --topic orders
"""

# The time between the two measurements of `status`: a throttle lets replicas copy in steps, so it cannot be shorter.
LOOK_S = 3.0

_PARTITION: Final = replace(WHAT, title="Partition")
_COPIES: Final = Column[Change]("copies", "Copies", lambda row: row.note, Kind.BYTES, text=lambda row: row.note)
F = TypeVar("F", bound=Callable[..., Any])


def wish_options(function: F) -> F:
    """The options that define the wanted replicas."""
    options = (
        click.argument("file", type=click.File(encoding="utf-8"), required=False),
        click.option(
            "--drain", type=click.IntRange(0), multiple=True, metavar="ID", help="Move everything away from a broker."
        ),
        click.option("--add", type=click.IntRange(0), multiple=True, metavar="ID", help="Give a new broker its share."),
        click.option("--balance", is_flag=True, help="Even out replicas and bytes of all brokers."),
        click.option(
            "--replication-factor",
            type=COUNT,
            metavar="N",
            help="Give the partitions of each --topic N replicas.",
        ),
        click.option(
            "--topic",
            "topics",
            type=TOPIC_PARTITIONS,
            multiple=True,
            metavar="TOPIC[:LIST]",
            help="A topic, or these partitions of it, for --replication-factor; may be repeated.",
            shell_complete=complete_topics,
        ),
        click.option(
            "--max-moves", type=COUNT, metavar="N", help="Partitions to move at most, with --add and --balance."
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def pace_options(function: F) -> F:
    """The options that say how fast."""
    options = (
        click.option(
            "--concurrent",
            type=click.IntRange(1, CONCURRENT_MAX),
            default=CONCURRENT_DEFAULT,
            show_default=True,
            metavar="N",
            help="Partitions to move at a time.",
        ),
        click.option(
            "--throttle",
            type=BYTES,
            metavar="BYTES",
            help=f"Bytes per second that each broker copies at most, {BYTES_HELP}; ends with the command.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def wish_of(
    file: IO[str] | None,
    drain: Sequence[int],
    add: Sequence[int],
    balance: bool,
    max_moves: int | None,
    replication_factor: int | None,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
) -> Wish:
    """Return the goal in the options. Raises click.UsageError unless exactly one was given; ClientError for a file."""
    if sum((file is not None, bool(drain), bool(add), balance, replication_factor is not None)) != 1:
        raise click.UsageError("specify exactly one of FILE, --drain, --add, --balance, --replication-factor")
    if (replication_factor is not None) != bool(topics):
        raise click.UsageError("--replication-factor and --topic go together: name each topic to change")
    if max_moves is not None and not (add or balance):
        raise click.UsageError("--max-moves goes with --add or --balance: the others are done only as a whole")
    if file is not None:
        return read_moves(file.read())
    return Wish(
        tuple(drain),
        tuple(add),
        balance,
        moves_max=max_moves,
        replication_factor=replication_factor,
        topics=tuple(topics),
    )


@click.group("reassign", epilog=EPILOG)
def command() -> None:
    """Reassign partitions: move replicas between brokers, with progress, a throttle and cancel."""


@command.command("plan", epilog=EPILOG)
@cluster_command
@wish_options
async def plan_command(
    target: Target,
    client: AdminClient,
    file: IO[str] | None,
    drain: Sequence[int],
    add: Sequence[int],
    balance: bool,
    max_moves: int | None,
    replication_factor: int | None,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
) -> None:
    """Compute which replicas would move, without moving any. --json prints the format of kafka-reassign-partitions.

    FILE has that format as well; - is the standard input.
    """
    wish = wish_of(file, drain, add, balance, max_moves, replication_factor, topics)
    plan = await plan_moves(client, command_of(target), wish, Pace())
    assert isinstance(plan.act, MoveReplicas)
    if target.as_json:
        print_json(moves_document(plan.act.moves, plan.act.directories))
    elif plan.problem:
        click.echo(plan.problem)
    else:
        click.echo(f"{plan.title}: {plan.affected}")
        print_rows((_PARTITION, BEFORE, AFTER, _COPIES), plan.changes)


@command.command("apply", epilog=EPILOG)
@cluster_command
@wish_options
@pace_options
@dry_run_option
@yes_option
async def apply(
    target: Target,
    client: AdminClient,
    file: IO[str] | None,
    drain: Sequence[int],
    add: Sequence[int],
    balance: bool,
    max_moves: int | None,
    replication_factor: int | None,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    concurrent: int,
    throttle: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Move replicas, a bounded number of partitions at a time, and show the progress until all have moved.

    Ctrl-C cancels the reassignments under way and removes the throttle; the same command continues later.
    """
    wish = wish_of(file, drain, add, balance, max_moves, replication_factor, topics)
    plan = await plan_moves(client, command_of(target), wish, Pace(concurrent, throttle))
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("status", epilog=EPILOG)
@cluster_command
async def status(target: Target, client: AdminClient) -> None:
    """Show all partitions that are being moved, the bytes copied, the rate, and the throttles.

    The rate is that between two looks at the cluster.
    """
    now = await moving_now(client)
    if now.partitions:
        first, began_s = now, time.monotonic()
        await asyncio.sleep(LOOK_S)
        now = await moving_now(client)
        now = now.with_rate_since(first, time.monotonic() - began_s)
    if target.as_json:
        fields = [
            {"partition": each.partition, "before": each.reassignment.before, "after": each.reassignment.after,
             "adding": each.reassignment.adding, "removing": each.reassignment.removing,
             "copied_bytes": each.copied_bytes, "total_bytes": each.total_bytes}
            for each in now.partitions
        ]  # fmt: skip
        print_json({"moving": fields, "rate_bytes_per_s": now.rate_bytes_per_s, "left_s": now.left_s,
                    "throttle": {"rates": now.throttle.rates, "replicas": now.throttle.replicas}})  # fmt: skip
        return
    if now.partitions:
        print_rows(
            (
                reassignments.PARTITION,
                reassignments.BEFORE,
                reassignments.AFTER,
                reassignments.COPIED,
                reassignments.TOTAL,
                reassignments.DONE,
            ),
            now.partitions,
        )
        copied = f"{size(now.copied_bytes)} of {size(now.total_bytes)}"
        click.echo(", ".join([copied, *pace_text(now.rate_bytes_per_s, now.left_s)]))
    else:
        click.echo("no partition is being moved")
    if now.throttle.is_set:
        click.echo(f"throttle: {throttle_text(now.throttle)}")
        if not now.partitions:
            click.echo("It was left behind: `broker-cy reassign cancel` removes it.")


@command.command("cancel", epilog=EPILOG)
@cluster_command
@topics_option
@dry_run_option
@yes_option
async def cancel(
    target: Target,
    client: AdminClient,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    dry_run: bool,
    yes: bool,
) -> int:
    """Cancel reassignments, also those of other tools. The old replicas stay. Removes throttles with the last one."""
    wanted, words = await chooser(client, topics)
    plan = await plan_cancel(client, command_of(target), wanted, words)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)
