"""`broker-cy log-dirs`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.directory_plan import TOLERANCE_DEFAULT, By
from broker_cy.admin.log_dirs import BrokerReplica
from broker_cy.commands.context import Target, cluster_command, complete_topics, dry_run_option, yes_option
from broker_cy.commands.leaders import chooser, topics_option
from broker_cy.commands.output import print_json
from broker_cy.commands.plans import command_of, run_plan
from broker_cy.commands.reassign import LOOK_S, pace_options
from broker_cy.commands.values import TOPIC_PARTITIONS
from broker_cy.console.acts.directories import (
    plan_directory_balance,
    plan_directory_cancel,
    plan_directory_drain,
    plan_directory_move,
)
from broker_cy.console.acts.pace import Pace
from broker_cy.console.columns import log_dirs
from broker_cy.console.directory_moves import directory_moves_now, rates_text
from broker_cy.console.moving import pace_text
from broker_cy.console.rows import replica_rows
from broker_cy.reporting.numbers import size
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy log-dirs
  broker-cy log-dirs --topic orders --replicas
  broker-cy log-dirs --broker 1 --broker 2 --json
  broker-cy log-dirs move orders:0-3 --broker 1 --to /disk2 --wait --throttle 50M
  broker-cy log-dirs status
  broker-cy log-dirs balance --broker 1 --dry-run
  broker-cy log-dirs drain /disk1 --broker 1 --throttle 50M
  broker-cy log-dirs cancel --topic orders
"""


DIRECTORIES = (
    log_dirs.DIRECTORY,
    log_dirs.STATE,
    log_dirs.REPLICAS,
    log_dirs.SIZE,
    log_dirs.FREE,
    log_dirs.VOLUME,
)
_REPLICAS = (
    log_dirs.REPLICA_BROKER,
    log_dirs.REPLICA_DIRECTORY,
    log_dirs.REPLICA_TOPIC,
    log_dirs.REPLICA_PARTITION,
    log_dirs.REPLICA_SIZE,
    log_dirs.LAG,
    log_dirs.REPLICA_STATE,
)
_MOVING = (
    log_dirs.MOVING,
    log_dirs.MOVING_BROKER,
    log_dirs.MOVING_FROM,
    log_dirs.MOVING_TO,
    log_dirs.MOVING_COPIED,
    log_dirs.MOVING_TOTAL,
    log_dirs.MOVING_LAG,
    log_dirs.MOVING_DONE,
)
_LIST: Final = "list"


class _ListByDefault(click.Group):
    """Without the name of a command, the command is `list`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


broker_option = click.option(
    "--broker", type=click.IntRange(0), required=True, metavar="ID", help="The broker that has the directory."
)


@click.group("log-dirs", cls=_ListByDefault, epilog=EPILOG)
def command() -> None:
    """Show the log directories (disks) of the brokers, and move replicas between those of a broker.

    Without a command, `list`.
    """


@command.command(_LIST, epilog=EPILOG)
@cluster_command
@click.option(
    "--broker",
    "brokers",
    type=click.IntRange(0),
    multiple=True,
    metavar="ID",
    help="Show only this broker; may be repeated.",
)
@click.option(
    "--topic", "topics", multiple=True, help="Show only replicas of this topic.", shell_complete=complete_topics
)
@click.option("--replicas", is_flag=True, help="Print one line for each replica.")
async def list_directories(
    target: Target, client: AdminClient, brokers: Sequence[int], topics: Sequence[str], replicas: bool
) -> int:
    """Show the log directories of the brokers, with the free space of their volumes and the size of the replicas."""
    outcome = await client.log_dirs.describe(brokers or None, topics=topics or None)
    dirs = [each for theirs in outcome.found.values() for each in theirs]
    if target.as_json:
        print_json(dirs)
        return target.tell_failures([outcome])
    if replicas:
        print_rows(_REPLICAS, replica_rows(dirs))
    else:
        print_rows((log_dirs.BROKER, *DIRECTORIES), dirs)
    return target.tell_failures([outcome])


@command.command("move", epilog=EPILOG)
@cluster_command
@click.argument("topics", type=TOPIC_PARTITIONS, nargs=-1, required=True, metavar="TOPIC[:LIST]...")
@broker_option
@click.option("--to", "path", required=True, metavar="DIR", help="The directory, as `log-dirs` shows it.")
@click.option("--wait", is_flag=True, help="Show the progress until all have moved.")
@pace_options
@dry_run_option
@yes_option
async def move(
    target: Target,
    client: AdminClient,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    broker: int,
    path: str,
    wait: bool,
    concurrent: int,
    throttle: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Move the replicas of topics to a directory of their broker; orders-3 is partition 3 of orders, like orders:3.

    Ctrl-C cancels the moves under way. Without --wait the broker goes on alone, and status shows the progress.
    """
    if throttle is not None and not wait:
        raise click.UsageError("--throttle goes with --wait: it ends with the command")
    pace = Pace(concurrent, throttle) if wait else None
    plan = await plan_directory_move(client, command_of(target), broker, path, topics, pace)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("balance", epilog=EPILOG)
@cluster_command
@click.option("--broker", type=click.IntRange(0), metavar="ID", help="Only this broker.  [default: each]")
@click.option(
    "--by",
    type=click.Choice([each.value for each in By]),
    default=By.SPACE.value,
    show_default=True,
    help="Even out how full the directories are, or the number of replicas.",
)
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 100),
    default=TOLERANCE_DEFAULT * 100,
    show_default=True,
    metavar="PERCENT",
    help="Leave directories alone that differ from their share by less (with --by space).",
)
@pace_options
@dry_run_option
@yes_option
async def balance(
    target: Target,
    client: AdminClient,
    broker: int | None,
    by: str,
    tolerance: float,
    concurrent: int,
    throttle: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Even out the directories of brokers with few moves. The preview has each directory before and after.

    Ctrl-C cancels the moves under way and removes the throttle; the same command continues later.
    """
    plan = await plan_directory_balance(
        client, command_of(target), broker, By(by), Pace(concurrent, throttle), tolerance / 100
    )
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("drain", epilog=EPILOG)
@cluster_command
@click.argument("path", metavar="DIR")
@broker_option
@pace_options
@dry_run_option
@yes_option
async def drain(
    target: Target,
    client: AdminClient,
    path: str,
    broker: int,
    concurrent: int,
    throttle: int | None,
    dry_run: bool,
    yes: bool,
) -> int:
    """Move every replica of a directory to the others of its broker. It is cordoned first, and stays so.

    Ctrl-C cancels the moves under way and removes the throttle; the same command continues later.
    """
    plan = await plan_directory_drain(client, command_of(target), broker, path, Pace(concurrent, throttle))
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("status", epilog=EPILOG)
@cluster_command
async def status(target: Target, client: AdminClient) -> None:
    """Show the replicas that move between directories, by any client: bytes copied, lag, rate, and the throttles.

    The rate is that between two looks at the brokers.
    """
    rate: float | None = None
    now = await directory_moves_now(client)
    if now.moving:
        first, began_s = now, time.monotonic()
        await asyncio.sleep(LOOK_S)
        now = await directory_moves_now(client)
        rate = now.copied_since(first) / (time.monotonic() - began_s)
    left_s = (now.total_bytes - now.copied_bytes) / rate if rate else None
    if target.as_json:
        print_json({"moving": now.moving, "rate_bytes_per_s": rate, "left_s": left_s, "throttle": now.rates})
        return
    if now.moving:
        print_rows(_MOVING, now.moving)
        click.echo(", ".join([f"{size(now.copied_bytes)} of {size(now.total_bytes)}", *pace_text(rate, left_s)]))
    else:
        click.echo("no replica moves between directories")
    if now.rates:
        click.echo(f"throttle: {rates_text(now.rates)}")
        if not now.moving:
            click.echo("`broker-cy log-dirs cancel` removes it, if it was left behind.")


@command.command("cancel", epilog=EPILOG)
@cluster_command
@click.option("--broker", type=click.IntRange(0), metavar="ID", help="Only moves of this broker.  [default: all]")
@topics_option
@dry_run_option
@yes_option
async def cancel(
    target: Target,
    client: AdminClient,
    broker: int | None,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    dry_run: bool,
    yes: bool,
) -> int:
    """Cancel moves between directories, also those of other tools. Removes throttles with the last one of a broker."""
    is_chosen, words = await chooser(client, topics)
    words += [] if broker is None else ["--broker", broker]

    def wanted(key: BrokerReplica) -> bool:
        return broker in (None, key.broker_id) and is_chosen(key.partition)

    plan = await plan_directory_cancel(client, command_of(target), wanted, words)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)
