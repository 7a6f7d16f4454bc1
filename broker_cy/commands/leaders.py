"""`broker-cy leaders`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.commands.context import Target, cluster_command, complete_topics, dry_run_option, yes_option
from broker_cy.commands.plans import command_of, run_plan
from broker_cy.commands.values import TOPIC_PARTITIONS
from broker_cy.console.acts.leaders import check_partitions, plan_preferred, plan_unclean

EPILOG = """\b
examples:
  broker-cy leaders elect --preferred
  broker-cy leaders elect --preferred --topic orders:0-3 --dry-run
  broker-cy leaders elect --unclean --topic orders
"""

topics_option = click.option(
    "--topic",
    "topics",
    type=TOPIC_PARTITIONS,
    multiple=True,
    metavar="TOPIC[:LIST]",
    help="Only this topic, or these partitions of it; may be repeated.  [default: all]",
    shell_complete=complete_topics,
)


async def chooser(
    client: AdminClient, topics: Sequence[tuple[str, tuple[int, ...] | None]]
) -> tuple[Callable[[TopicPartition], bool], list[str | int]]:
    """Return whether a partition is selected, and the options that select it. Raises ClientError for a topic or a
    partition that does not exist: a typing error must not seem to have nothing to do.
    """
    known = (await client.topics.describe(topic for topic, _ in topics)).whole()
    words: list[str | int] = []
    for topic, numbers in topics:
        check_partitions(known[topic], numbers or ())
        words += ["--topic", topic if numbers is None else f"{topic}:{','.join(map(str, numbers))}"]

    def is_wanted(key: TopicPartition) -> bool:
        return not topics or any(
            key.topic == topic and (numbers is None or key.partition in numbers) for topic, numbers in topics
        )

    return is_wanted, words


@click.group("leaders", epilog=EPILOG)
def command() -> None:
    """Elect the leaders of partitions."""


@command.command("elect", epilog=EPILOG)
@cluster_command
@click.option("--preferred", is_flag=True, help="Elect the first replica, where it is in sync but does not lead.")
@click.option(
    "--unclean", is_flag=True, help="Elect any live replica where there is no leader. Records may be lost for good."
)
@topics_option
@dry_run_option
@yes_option
async def elect(
    target: Target,
    client: AdminClient,
    preferred: bool,
    unclean: bool,
    topics: Sequence[tuple[str, tuple[int, ...] | None]],
    dry_run: bool,
    yes: bool,
) -> int:
    """Elect partition leaders: --preferred, after a broker came back; --unclean, if none in sync will come back."""
    if preferred == unclean:
        raise click.UsageError("specify one of --preferred, --unclean")
    if preferred:
        wanted, words = await chooser(client, topics)
        plan = await plan_preferred(client, command_of(target), wanted, words)
    else:
        if len(topics) != 1:
            raise click.UsageError("--unclean needs one --topic, whose name has to be typed")
        plan = await plan_unclean(client, command_of(target), *topics[0])
    return await run_plan(target, client, plan, dry_run=dry_run, yes=yes)
