"""`broker-cy cluster`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.cluster import ApiRange, BrokerInfo
from broker_cy.client.parsed import Parsed
from broker_cy.client.program import EXIT_FAILED
from broker_cy.commands.context import Target, cluster_command, dry_run_option, yes_option
from broker_cy.commands.output import print_json
from broker_cy.commands.plans import command_of, run_plan
from broker_cy.commands.quorum import show as show_quorum
from broker_cy.console.acts.features import parse_level, plan_finalize
from broker_cy.console.columns import brokers, quorum
from broker_cy.console.described import described_now
from broker_cy.console.moving import ids_text, moves_under_way, throttle_now
from broker_cy.console.voters import away_text, quorum_now, spare_text
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import count
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy cluster describe --bootstrap 127.0.0.1:9092
  broker-cy cluster apis --broker 1 --json
  broker-cy cluster health --cluster production
  broker-cy cluster finalize group.version=0 --dry-run
"""

broker_option = click.option(
    "--broker", type=click.IntRange(0), metavar="ID", help="Send the request to this broker.  [default: any]"
)

_APIS: Final = (
    Column[ApiRange]("key", "Key", lambda row: row.api_key, Kind.NUMBER),
    Column[ApiRange]("api", "API", lambda row: row.name),
    Column[ApiRange]("versions", "Versions", lambda row: f"{row.min_version} to {row.max_version}"),
)


@click.group("cluster", epilog=EPILOG)
def command() -> None:
    """Show brokers, health, features, the metadata quorum, and supported requests."""


@command.command("describe", epilog=EPILOG)
@cluster_command
async def describe(target: Target, client: AdminClient) -> None:
    """Show the cluster id, the brokers and the active controller."""
    described = await described_now(client)
    if target.as_json:
        print_json(described)
        return
    known = described.controller_id >= 0
    controller = f"active controller {described.controller_id}" if known else "no active controller"
    click.echo(f"cluster {described.cluster_id}, {controller}")
    columns: list[Column[BrokerInfo]] = [
        brokers.BROKER.by(lambda row: row.broker_id),
        brokers.ADDRESS.by(lambda row: f"{row.host}:{row.port}"),
        brokers.RACK.by(lambda row: row.rack),
        brokers.STATE.by(lambda row: "fenced" if row.is_fenced else "in service"),
        brokers.CONTROLLER.by(lambda row: "yes" if row.broker_id == described.controller_id else ""),
    ]
    print_rows(columns, described.brokers)


@command.command("features", epilog=EPILOG)
@cluster_command
@broker_option
async def features(target: Target, client: AdminClient, broker: int | None) -> None:
    """Show the features that a broker supports, and the levels that the cluster has finalized."""
    found = await client.cluster.features(broker)
    if target.as_json:
        print_json(found)
        return
    print_rows((quorum.FEATURE, quorum.SUPPORTED, quorum.FINALIZED), found)


@command.command("finalize", epilog=EPILOG)
@cluster_command
@click.argument(
    "levels", type=Parsed("feature=level", parse_level), nargs=-1, required=True, metavar="FEATURE=LEVEL..."
)
@dry_run_option
@yes_option
async def finalize(
    target: Target, client: AdminClient, levels: Sequence[tuple[str, int]], dry_run: bool, yes: bool
) -> int:
    """Finalize levels of features, all of them or none. Level 0 means that the feature is not used; a downgrade that
    would lose metadata is refused.
    """
    plan = await plan_finalize(client, command_of(target), dict(levels))
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)


@command.command("apis", epilog=EPILOG)
@cluster_command
@broker_option
async def apis(target: Target, client: AdminClient, broker: int | None) -> None:
    """Show the requests that a broker supports, with their versions."""
    found = await client.cluster.api_versions(broker)
    if target.as_json:
        print_json(found)
        return
    print_rows(_APIS, found)


# The same under the name that it had before there was a command of its own.
command.add_command(show_quorum, "quorum")


@command.command("health", epilog=EPILOG)
@cluster_command
async def health(target: Target, client: AdminClient) -> int:
    """Show what is wrong with the cluster: brokers and voters that are away, partitions that lack replicas, forgotten
    throttles.

    The exit code is 1 if a partition refuses reads or writes, or if a broker or a voter of the metadata quorum is away.
    """
    found = await client.brokers.replicas()
    parts = await client.partition_health.of(await client.topics.list_all())
    moving, throttle = await moves_under_way(client), await throttle_now(client)
    quorum = await quorum_now(client)
    away = [each.broker_id for each in found.brokers if not each.is_in_service]
    voters_away = [] if quorum is None else list(quorum.away)
    counts = {
        "brokers": len(found.brokers),
        "brokers_away": away,
        "brokers_cordoned": [each.broker_id for each in found.brokers if each.is_cordoned],
        "voters": None if quorum is None else len(quorum.voters),
        "voters_away": voters_away,
        "voters_to_spare": None if quorum is None else quorum.spare,
        "partitions": len(parts),
        "offline_partitions": sum(each.is_offline for each in parts),
        "below_min_isr_partitions": sum(each.is_below_min_isr for each in parts),
        "under_replicated_partitions": sum(each.is_under_replicated for each in parts),
        "not_led_by_preferred": sum(
            bool(each.info.replicas) and not each.is_offline and each.info.leader_id != each.info.replicas[0]
            for each in parts
        ),
        "partitions_moving": len(moving),
        "throttled": throttle.is_set,
    }
    if target.as_json:
        print_json(counts)
    else:
        print_rows(_HEALTH, counts.items())
        if quorum is not None and voters_away:
            click.echo(f"{away_text(quorum)}: {spare_text(quorum)}")
    refused = counts["offline_partitions"] or counts["below_min_isr_partitions"]
    return EXIT_FAILED if away or voters_away or refused else 0


def _health_text(row: tuple[str, object]) -> str:
    name, value = row
    if isinstance(value, list):
        # Ids, which must not look like a number of brokers.
        return ids_text(name.partition("_")[0].removesuffix("s"), value) if value else "none"
    if value is None:
        return "-"
    return ("yes" if value else "no") if isinstance(value, bool) else count(int(str(value)))


# A row is the name of a count with its value.
_HEALTH: Final = (
    Column[tuple[str, object]]("what", "Figure", lambda row: row[0].replace("_", " ")),
    Column[tuple[str, object]]("now", "Value", lambda row: row[1], Kind.COUNT, text=_health_text),
)
