"""The command `broker-mirror reverse`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from broker_cy.client.confirmation import confirm
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import EXIT_FAILED
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import count, plural
from broker_cy.reporting.terminal import print_rows
from broker_cy.reporting.tone import Tone
from broker_mirror.flow_run import connect
from broker_mirror.flows import Flow, FlowKind
from broker_mirror.link.mirrors import mirrors_in
from broker_mirror.merged import Role, Side
from broker_mirror.program import PROGRAM, errors
from broker_mirror.promotion.command import check_named, chosen_flow
from broker_mirror.promotion.reversal import Reversal, ReversalRow

COLUMNS: Final[tuple[Column[ReversalRow], ...]] = (
    Column("topic", "Topic", lambda row: row.topic),
    Column("promoted", "Promoted topic", lambda row: row.promoted),
    Column("partitions", "Partitions", lambda row: row.partitions, Kind.COUNT),
    Column("lost", "Lost", lambda row: row.lost, Kind.COUNT, tone=lambda row: Tone.BAD if row.lost else Tone.GOOD),
    Column("missing", "To copy", lambda row: row.missing, Kind.COUNT),
    Column("state", "State", lambda row: row.state),
    Column("problem", "", lambda row: row.problem, tone=lambda _: Tone.BAD),
)
EPILOG: Final = """\b
examples:
  broker-mirror reverse mm2.properties --flow 'A->B' --dry-run
  broker-mirror reverse mm2.properties --flow 'A->B' --link west --yes
"""


def add(group: click.Group) -> None:
    """Add the command to those of `broker-mirror`."""
    group.add_command(reverse_command)


@click.command("reverse", epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--flow", "flow_name", required=True, metavar="A->B", help="The link flow before the failover.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A promoted topic of B; may be repeated.")
@click.option("--link", metavar="LINK", help="The link from the brokers of A to B.  [default: the alias B]")
@click.option("--dry-run", is_flag=True, help="Only show what would be lost and copied.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")
@click.pass_context
def reverse_command(
    context: click.Context, /, file: Path, flow_name: str, topics: tuple[str, ...], link: str | None, dry_run: bool,
    yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """Make topics of the old source mirrors of the topics that were promoted in the target.

    Both clusters must be of broker-cy. Records that are equal are not copied again. Records that only the old source
    has are lost: the command counts them first.
    """
    with errors(context, as_json=as_json):
        flow = chosen_flow(file, flow_name)
        if flow.kind is not FlowKind.LINK:
            raise ClientError(Failure.INVALID, f"{flow.pair} is no link flow", what=str(file))
        rows = asyncio.run(_reversed(flow, topics, link or flow.pair.target, dry_run=dry_run, yes=yes, as_json=as_json))
        if as_json:
            print(json.dumps({"dry_run": dry_run, "topics": [asdict(row) for row in rows]}, ensure_ascii=False))
        else:
            print_rows(COLUMNS, rows)
        if any(row.problem for row in rows):
            context.exit(EXIT_FAILED)


async def _reversed(
    flow: Flow, topics: Sequence[str], link: str, *, dry_run: bool, yes: bool, as_json: bool
) -> list[ReversalRow]:
    async with (
        connect(flow.clients[Side.SOURCE, Role.ADMIN]) as old,
        connect(flow.clients[Side.TARGET, Role.ADMIN]) as promoted,
    ):
        found = await mirrors_in(promoted, topics or None)
        wanted = [each for each in found.values() if flow.copies_topic(each.source) and (topics or each.link is None)]
        check_named(topics, {each.name for each in wanted}, None)
        reversal = Reversal(old, promoted, link, wanted)
        rows = await reversal.rows(await mirrors_in(old, {each.source for each in wanted}))
        able = [row for row in rows if not row.problem and row.state == "topic"]
        if dry_run or not able:
            return rows
        if not as_json:
            print_rows(COLUMNS[:5], able, err=True)
        lost = sum(row.lost or 0 for row in able)
        confirm(
            PROGRAM,
            f"make {plural(len(able), 'topic')} of {flow.pair.source} mirrors, and lose {count(lost)} records there?",
            yes=yes,
            as_json=as_json,
        )
        return await reversal.carry_out(rows)
