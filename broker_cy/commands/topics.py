"""`broker-cy topics`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.caller import Outcome
from broker_cy.admin.metadata import PartitionInfo, TopicInfo, TopicPartition
from broker_cy.admin.partition_health import PartitionHealth
from broker_cy.admin.topics import BROKER_DEFAULT, CreatedTopic, NewTopic
from broker_cy.commands.context import Target, cluster_command, complete_topics, dry_run_option, yes_option
from broker_cy.commands.output import confirm, print_json
from broker_cy.commands.values import COUNT, SETTING
from broker_cy.console.columns import replication, settings
from broker_cy.console.columns import topics as columns
from broker_cy.console.feed_values import PartitionRow
from broker_cy.console.rows import topic_rows
from broker_cy.reporting.column import Column
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows

EPILOG = """\b
examples:
  broker-cy topics list --json
  broker-cy topics list --under-replicated --offline
  broker-cy topics describe orders payments
  broker-cy topics create orders -p 12 --set retention.ms=604800000 --set cleanup.policy=compact
  broker-cy topics clone orders orders-test -p 1
  broker-cy topics grow orders --to 24
  broker-cy topics delete orders-test --yes
"""


Described = tuple[str, PartitionRow]


def _partition(row: Described) -> PartitionRow:
    return row[1]


@click.group("topics", epilog=EPILOG)
def command() -> None:
    """List, describe, create, clone, grow and delete topics."""


_LISTED = (
    columns.TOPIC,
    columns.PARTITIONS,
    columns.REPLICAS,
    columns.OFFLINE,
    columns.UNDER_REPLICATED,
    columns.TOPIC_ID,
)
_UNHEALTHY = (
    replication.TOPIC,
    replication.NUMBER,
    replication.LEADER,
    replication.REPLICAS,
    replication.IN_SYNC,
    replication.OUT_OF_SYNC,
    replication.MIN_ISR,
    replication.ELR,
    replication.STATE,
)
# The rows are the name of a topic with one of its partitions.
_TOPIC_OF: Final[Column[Described]] = columns.TOPIC.by(lambda row: row[0])
_DESCRIBED: Final[tuple[Column[Described], ...]] = (
    _TOPIC_OF,
    *(
        column.of(_partition)
        for column in (
            columns.PARTITION,
            columns.LEADER,
            columns.LEADER_EPOCH,
            columns.REPLICA_IDS,
            columns.IN_SYNC,
            columns.LOG_START,
            columns.LOG_END,
            columns.OFFSETS,
        )
    ),
)
_COPIED: Final[tuple[Column[tuple[str, str | None]], ...]] = (
    settings.SETTING.by(lambda row: row[0]),
    settings.VALUE.by(lambda row: row[1]),
)
topic_argument = click.argument("topic", shell_complete=complete_topics)
topics_argument = click.argument("topics", nargs=-1, required=True, shell_complete=complete_topics)


def expression(ctx: click.Context, param: click.Parameter, value: str | None) -> re.Pattern[str] | None:
    """Compile a regular expression that must match the whole name."""
    try:
        return None if value is None else re.compile(value)
    except re.error as error:
        raise click.BadParameter(f"{value!r} is not a valid regular expression: {error}", ctx, param) from None


match_option = click.option(
    "--match", metavar="REGEX", callback=expression, help="Only names that this regular expression matches entirely."
)


@command.command("list", epilog=EPILOG)
@cluster_command
@match_option
@click.option("--internal", is_flag=True, help="Include the topics of the cluster itself.")
@click.option("--under-replicated", is_flag=True, help="List the partitions with replicas that are not in sync.")
@click.option("--offline", is_flag=True, help="List the partitions without a leader.")
@click.option(
    "--below-min-isr", is_flag=True, help="List the partitions with fewer replicas in sync than min.insync.replicas."
)
async def list_topics(
    target: Target,
    client: AdminClient,
    match: re.Pattern[str] | None,
    internal: bool,
    under_replicated: bool,
    offline: bool,
    below_min_isr: bool,
) -> None:
    """List all topics, with partitions, replicas and health.

    With --under-replicated, --offline and --below-min-isr, lists the partitions in one of these states instead, also
    those of the cluster's own topics.
    """
    is_filtered = under_replicated or offline or below_min_isr
    topics = [
        topic
        for topic in await client.topics.list_all(internal=internal or is_filtered)
        if match is None or match.fullmatch(topic.name)
    ]
    if is_filtered:
        _print_unhealthy(
            target,
            [
                each
                for each in await client.partition_health.of(topics)
                if (under_replicated and each.is_under_replicated)
                or (offline and each.is_offline)
                or (below_min_isr and each.is_below_min_isr)
            ],
        )
        return
    if target.as_json:
        print_json([_summary(topic) for topic in topics])
        return
    print_rows(_LISTED, topic_rows(topics, None, ()))


def _print_unhealthy(target: Target, found: Sequence[PartitionHealth]) -> None:
    if target.as_json:
        print_json([_health(each) for each in found])
        return
    print_rows(_UNHEALTHY, found)


def _health(each: PartitionHealth) -> dict[str, object]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "leader": None if each.is_offline else each.info.leader_id,
        "replicas": each.info.replicas,
        "in_sync_replicas": each.info.in_sync_replicas,
        "offline_replicas": each.info.offline_replicas,
        "min_in_sync_replicas": each.min_in_sync,
        "eligible_leader_replicas": None if each.eligible is None else each.eligible.eligible,
        "last_known_eligible_leader_replicas": None if each.eligible is None else each.eligible.last_known,
        "is_offline": each.is_offline,
        "is_below_min_isr": each.is_below_min_isr,
        "is_under_replicated": each.is_under_replicated,
    }


@command.command("describe", epilog=EPILOG)
@cluster_command
@topics_argument
async def describe(target: Target, client: AdminClient, topics: Sequence[str]) -> int:
    """Show the partitions of topics, with leaders, replicas and offsets."""
    outcome = await client.topics.describe(topics)
    keys = [
        TopicPartition(topic.name, part.partition)
        for topic in outcome.found.values()
        for part in topic.partitions
        if not part.is_offline
    ]
    earliest, latest = await client.offsets.earliest(keys), await client.offsets.latest(keys)
    if target.as_json:
        print_json([_details(topic, earliest, latest) for topic in outcome.found.values()])
        return target.tell_failures([outcome, earliest, latest])
    print_rows(
        _DESCRIBED,
        [
            (topic.name, _partition_row(topic, part, earliest, latest))
            for topic in outcome.found.values()
            for part in topic.partitions
        ],
    )
    return target.tell_failures([outcome, earliest, latest])


@command.command("create", epilog=EPILOG)
@cluster_command
@topics_argument
@click.option("--partitions", "-p", type=COUNT, help="Number of partitions.  [default: the broker's num.partitions]")
@click.option(
    "--replicas", "-r", type=COUNT, help="Replication factor.  [default: the broker's default.replication.factor]"
)
@click.option(
    "--set", "settings", type=SETTING, multiple=True, metavar="NAME=VALUE", help="Set a topic setting; may be repeated."
)
@click.option("--dry-run", is_flag=True, help="Let the broker validate the request, without creating anything.")
async def create(
    target: Target,
    client: AdminClient,
    topics: Sequence[str],
    partitions: int | None,
    replicas: int | None,
    settings: Sequence[tuple[str, str]],
    dry_run: bool,
) -> int:
    """Create topics."""
    target.require_writable()
    new = [NewTopic(name, partitions or BROKER_DEFAULT, replicas or BROKER_DEFAULT, dict(settings)) for name in topics]
    return _report_created(target, await client.topics.create(new, validate_only=dry_run), dry_run)


@command.command("clone", epilog=EPILOG)
@cluster_command
@topic_argument
@click.argument("name")
@click.option("--partitions", "-p", type=COUNT, help="Number of partitions.  [default: that of TOPIC]")
@click.option("--replicas", "-r", type=COUNT, help="Replication factor.  [default: that of TOPIC]")
@click.option("--dry-run", is_flag=True, help="Let the broker validate the request, without creating anything.")
async def clone(
    target: Target,
    client: AdminClient,
    topic: str,
    name: str,
    partitions: int | None,
    replicas: int | None,
    dry_run: bool,
) -> int:
    """Create topic NAME with the partitions, replicas and settings of TOPIC, but without its records."""
    target.require_writable()
    new = await client.topics.plan_clone(topic, name, partitions=partitions, replication_factor=replicas)
    if new.configs and not target.as_json:
        print_rows(_COPIED, new.configs.items())
    return _report_created(target, await client.topics.create([new], validate_only=dry_run), dry_run)


@command.command("grow", epilog=EPILOG)
@cluster_command
@topic_argument
@click.option("--to", "total", type=COUNT, required=True, help="Total number of partitions.")
@dry_run_option
@yes_option
async def grow(target: Target, client: AdminClient, topic: str, total: int, dry_run: bool, yes: bool) -> int:
    """Add partitions to a topic. Keys will map to other partitions than before. Partitions cannot be removed again."""
    target.require_writable()
    now = len((await client.topics.describe([topic])).whole()[topic].partitions)
    # The broker validates the change before the user is asked to confirm it.
    (await client.topics.add_partitions({topic: total}, validate_only=True)).whole()
    click.echo(f"topic {topic}: {now} -> {total} partitions; keys will map to other partitions", err=True)
    if not dry_run:
        confirm(f"Add {plural(total - now, 'partition')} to topic {topic}?", yes=yes)
        (await client.topics.add_partitions({topic: total})).whole()
    if target.as_json:
        print_json({"topic": topic, "partitions_before": now, "partitions": total, "dry_run": dry_run})
    elif not dry_run:
        click.echo(f"added {plural(total - now, 'partition')} to topic {topic}")
    return 0


@command.command("delete", epilog=EPILOG)
@cluster_command
@topics_argument
@dry_run_option
@yes_option
async def delete(target: Target, client: AdminClient, topics: Sequence[str], dry_run: bool, yes: bool) -> int:
    """Delete topics and all their records."""
    target.require_writable()
    described = await client.topics.describe(topics)
    code = target.tell_failures([described])
    names = list(described.found)
    if not names:
        return code
    await _preview_deletion(client, described.found)
    if dry_run:
        return code
    confirm(f"Delete {', '.join(names)} and all records?", yes=yes)
    outcome = await client.topics.delete(names)
    if target.as_json:
        print_json({"deleted": list(outcome.found)})
    else:
        for name in outcome.found:
            click.echo(f"deleted topic {name}")
    return max(code, target.tell_failures([outcome]))


async def _preview_deletion(client: AdminClient, topics: dict[str, TopicInfo]) -> None:
    """Show what the deletion would remove."""
    keys = [TopicPartition(topic.name, part.partition) for topic in topics.values() for part in topic.partitions]
    earliest, latest = await client.offsets.earliest(keys), await client.offsets.latest(keys)
    dirs = await client.log_dirs.describe(topics=topics)
    bytes_of: dict[str, int] = {}
    for directories in dirs.found.values():
        for directory in directories:
            for replica in directory.replicas:
                bytes_of[replica.topic] = bytes_of.get(replica.topic, 0) + replica.size_bytes
    spans: dict[str, int] = {}
    for name in topics:
        theirs = [key for key in keys if key.topic == name and key in earliest.found and key in latest.found]
        spans[name] = sum(latest.found[key] - earliest.found[key] for key in theirs)
    lost: tuple[Column[TopicInfo], ...] = (
        columns.TOPIC.by(lambda row: row.name),
        columns.PARTITIONS.by(lambda row: len(row.partitions)),
        columns.OFFSETS.by(lambda row: spans[row.name]),
        columns.SIZE.by(lambda row: bytes_of.get(row.name)),
    )
    click.echo("Topics to delete:", err=True)
    print_rows(lost, topics.values(), err=True)


def _report_created(target: Target, outcome: Outcome[str, CreatedTopic], dry_run: bool) -> int:
    if target.as_json:
        print_json([{**plain_topic(each), "dry_run": dry_run} for each in outcome.found.values()])
    else:
        for each in outcome.found.values():
            said = "would create" if dry_run else "created"
            shape = f" with {plural(each.partitions, 'partition')}, replication factor {each.replication_factor}"
            click.echo(f"{said} topic {each.name}{'' if each.partitions < 0 else shape}")
    return target.tell_failures([outcome])


def plain_topic(each: CreatedTopic) -> dict[str, object]:
    return {
        "name": each.name,
        "topic_id": each.topic_id,
        "partitions": each.partitions,
        "replication_factor": each.replication_factor,
    }


def _offline(topic: TopicInfo) -> int:
    return sum(part.is_offline for part in topic.partitions)


def _under_replicated(topic: TopicInfo) -> int:
    return sum(part.is_under_replicated for part in topic.partitions)


def _summary(topic: TopicInfo) -> dict[str, object]:
    return {
        "name": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.is_own,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
        "offline_partitions": _offline(topic),
        "under_replicated_partitions": _under_replicated(topic),
    }


def _partition_row(
    topic: TopicInfo,
    part: PartitionInfo,
    earliest: Outcome[TopicPartition, int],
    latest: Outcome[TopicPartition, int],
) -> PartitionRow:
    key = TopicPartition(topic.name, part.partition)
    return PartitionRow(
        part.partition,
        part.leader_id,
        part.leader_epoch,
        part.replicas,
        part.in_sync_replicas,
        earliest.found.get(key),
        latest.found.get(key),
        None,
        "",
    )


def _details(
    topic: TopicInfo, earliest: Outcome[TopicPartition, int], latest: Outcome[TopicPartition, int]
) -> dict[str, object]:
    parts = []
    for part in topic.partitions:
        key = TopicPartition(topic.name, part.partition)
        offsets = {"earliest": earliest.found.get(key), "latest": latest.found.get(key)}
        leader = None if part.is_offline else part.leader_id
        replicas = {"replicas": part.replicas, "in_sync_replicas": part.in_sync_replicas}
        epoch = {"leader_epoch": part.leader_epoch}
        parts.append({"partition": part.partition, "leader": leader, **epoch, **replicas, **offsets})
    return {**_summary(topic), "partitions": parts}
