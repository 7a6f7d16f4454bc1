"""`broker-cy brokers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.brokers import BrokerState
from broker_cy.admin.log_dirs import LogDir
from broker_cy.admin.throttles import Throttle
from broker_cy.commands.context import Target, cluster_command, dry_run_option, yes_option
from broker_cy.commands.log_dirs import DIRECTORIES
from broker_cy.commands.output import plain, print_error, print_json
from broker_cy.commands.plans import command_of, run_plan
from broker_cy.commands.reassign import pace_options
from broker_cy.console.acts.brokers import plan_cordon, plan_unregister
from broker_cy.console.acts.decommission import plan_decommission
from broker_cy.console.acts.moves import plan_drain
from broker_cy.console.acts.pace import Pace
from broker_cy.console.columns import brokers, log_dirs
from broker_cy.console.hosts import address_text, by_host, id_text, state_of
from broker_cy.console.moving import moves_under_way, throttle_text
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import size
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy brokers list
  broker-cy brokers list --shards
  broker-cy brokers show 3 --json
  broker-cy brokers drain 3 --throttle 50M
  broker-cy brokers decommission 3                     once to drain it, and again when it was stopped
  broker-cy brokers cordon 3
  broker-cy brokers uncordon 3
  broker-cy brokers unregister 3
"""

broker_argument = click.argument("broker", type=click.IntRange(0))


# One broker, or all shards of a host.
_Host = Sequence[BrokerState]


@click.group("brokers", epilog=EPILOG)
def command() -> None:
    """Show what each broker holds; drain, cordon and unregister brokers."""


@command.command("list", epilog=EPILOG)
@cluster_command
@click.option("--shards", is_flag=True, help="List the shards of a host (broker-cy start --shards) one by one.")
async def list_brokers(target: Target, client: AdminClient, shards: bool) -> None:
    """List the brokers, with replicas, leaders, disk usage and state. JSON has each shard."""
    found = await client.brokers.replicas()
    hosts = by_host(found.brokers, lambda each: each.info)
    if target.as_json:
        print_json([{**_summary(each), "shard_of": _shard_of(host)} for host in hosts for each in host])
    else:
        rows = [(each,) for host in hosts for each in host] if shards else hosts
        print_rows(_COLUMNS, rows)
    for broker, error in found.unanswered.items():
        if found.broker(broker).is_in_service:
            print_error(error, as_json=target.as_json)


def state_text(broker: BrokerState) -> str:
    """`in service`, `fenced`, `not registered`, and whether it takes new replicas."""
    if broker.info is None:
        return "not registered"
    if not broker.is_in_service:
        return "fenced"
    if broker.is_cordoned:
        return "cordoned"
    return "in service" if not broker.cordoned_dirs else "partly cordoned"


def _address(broker: BrokerState) -> str | None:
    return None if broker.info is None else f"{broker.info.host}:{broker.info.port}"


def _host_address(host: _Host) -> str | None:
    infos = [each.info for each in host if each.info is not None]
    return address_text(infos) if infos else None


def _size(host: _Host) -> int | None:
    sizes = [each.size_bytes for each in host if each.size_bytes is not None]
    return sum(sizes) if len(sizes) == len(host) else None


def _free(host: _Host) -> int | None:
    # The shards of a host are usually on one volume.
    usable = [each.usable_bytes for each in host if each.usable_bytes is not None]
    return min(usable) if len(usable) == len(host) else None


_COLUMNS: Final[tuple[Column[_Host], ...]] = (
    brokers.BROKER.by(lambda host: host[0].broker_id, text=lambda host: id_text([each.broker_id for each in host])),
    brokers.ADDRESS.by(_host_address),
    brokers.RACK.by(lambda host: host[0].rack),
    brokers.STATE.by(lambda host: state_of([state_text(each) for each in host])),
    brokers.LEADERS.by(lambda host: sum(each.leaders for each in host)),
    brokers.PREFERRED.by(lambda host: sum(each.preferred for each in host)),
    brokers.REPLICAS.by(lambda host: sum(each.replicas for each in host)),
    brokers.OUT_OF_SYNC.by(lambda host: sum(each.out_of_sync for each in host)),
    brokers.SIZE.by(_size),
    log_dirs.FREE.by(_free),
)


def _shard_of(host: Sequence[BrokerState]) -> int | None:
    """The id of shard 0 of a host with several shards."""
    return host[0].broker_id if len(host) > 1 else None


def _summary(each: BrokerState) -> dict[str, object]:
    fields = plain(each)
    assert isinstance(fields, dict)
    return {**fields, "state": state_text(each)}


@command.command("show", epilog=EPILOG)
@cluster_command
@broker_argument
async def show(target: Target, client: AdminClient, broker: int) -> None:
    """Show one broker: its state, directories, throttle, and the partitions that move to or from it."""
    state = (await client.brokers.replicas()).broker(broker)
    moving = [each for each in await moves_under_way(client) if broker in (*each.adding, *each.removing)]
    dirs: tuple[LogDir, ...] = ()
    throttle: Throttle | None = None
    if state.is_in_service:
        dirs = (await client.log_dirs.describe([broker])).whole()[broker]
        throttle = await client.throttles.describe([broker], [])
    rates = {} if throttle is None else dict(throttle.rates.get(broker, {}))
    if target.as_json:
        print_json({**_summary(state), "moving": moving, "throttle": rates})
        return
    facts: list[tuple[str, str | None]] = [
        ("address", _address(state)),
        ("rack", state.rack),
        ("state", state_text(state)),
        ("leads", f"{state.leaders} partitions, of {state.preferred} that prefer it"),
        ("replicas", f"{state.replicas}, {state.out_of_sync} out of sync, {size(state.size_bytes)}"),
        ("throttle", "none" if throttle is None or not rates else throttle_text(throttle)),
        ("moving", f"{sum(broker in each.adding for each in moving)} to it, "
                   f"{sum(broker in each.removing for each in moving)} away from it"),
    ]  # fmt: skip
    columns: tuple[Column[tuple[str, str | None]], ...] = (
        Column("fact", f"Broker {broker}", lambda row: row[0]),
        Column("value", "", lambda row: row[1]),
    )
    print_rows(columns, facts)
    if dirs:
        print_rows(DIRECTORIES, dirs)


@command.command("drain", epilog=EPILOG)
@cluster_command
@click.argument("brokers", type=click.IntRange(0), nargs=-1, required=True)
@pace_options
@click.option("--no-cordon", is_flag=True, help="Let the brokers take new replicas meanwhile, and afterwards.")
@click.option("--shrink", is_flag=True, help="Remove replicas that have no other place; each partition keeps one.")
@dry_run_option
@yes_option
async def drain(
    target: Target,
    client: AdminClient,
    brokers: Sequence[int],
    concurrent: int,
    throttle: int | None,
    no_cordon: bool,
    shrink: bool,
    dry_run: bool,
    yes: bool,
) -> int:
    """Move every replica away from brokers, and show the progress. They are cordoned first, and stay so.

    Ctrl-C cancels the reassignments under way and removes the throttle; the same command continues later.
    """
    plan = await plan_drain(
        client,
        command_of(target),
        sorted(set(brokers)),
        Pace(concurrent, throttle),
        cordon=not no_cordon,
        shrink=shrink,
    )
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("decommission", epilog=EPILOG)
@cluster_command
@broker_argument
@pace_options
@dry_run_option
@yes_option
async def decommission(
    target: Target, client: AdminClient, broker: int, concurrent: int, throttle: int | None, dry_run: bool, yes: bool
) -> int:
    """Take a broker out for good: drain it, then, when it was stopped, remove its registration.

    The command does the next step and says what comes after it: repeat it until the registration is removed.
    """
    plan = await plan_decommission(client, command_of(target), broker, Pace(concurrent, throttle))
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("cordon", epilog=EPILOG)
@cluster_command
@broker_argument
@dry_run_option
@yes_option
async def cordon(target: Target, client: AdminClient, broker: int, dry_run: bool, yes: bool) -> int:
    """Let no new replica come to a broker; those that it has stay (KIP-1066)."""
    plan = await plan_cordon(client, command_of(target), broker, cordoned=True)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("uncordon", epilog=EPILOG)
@cluster_command
@broker_argument
@dry_run_option
@yes_option
async def uncordon(target: Target, client: AdminClient, broker: int, dry_run: bool, yes: bool) -> int:
    """Let new replicas come to a broker again."""
    plan = await plan_cordon(client, command_of(target), broker, cordoned=False)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("unregister", epilog=EPILOG)
@cluster_command
@broker_argument
@dry_run_option
@yes_option
async def unregister(target: Target, client: AdminClient, broker: int, dry_run: bool, yes: bool) -> int:
    """Remove the registration of a broker that was drained and stopped. Its id has to be typed."""
    plan = await plan_unregister(client, command_of(target), broker)
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)
