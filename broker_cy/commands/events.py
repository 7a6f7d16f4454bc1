"""`broker-cy events`."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.own_topics import Entry
from broker_cy.admin.records import Start
from broker_cy.client.event_text import by_of, line_of, subject_of, topics_of
from broker_cy.client.quantities import TIME_HELP
from broker_cy.commands.context import Target, cluster_command, complete_groups, complete_topics
from broker_cy.commands.values import COUNT, TIME
from broker_cy.core.classes import dataclass
from broker_cy.metrics.events import EVENTS, ROUTINE, Commits, Event, Stamped, prefix_of
from broker_cy.reporting.foreign_text import escaped

EPILOG = """\b
examples:
  broker-cy events                                       show the last 20 events, without commits
  broker-cy events --follow --type rebalance             show rebalances as they occur
  broker-cy events --since -1h --group billing           show why a group stopped reading
  broker-cy events --since -1d --type config_changed --type topic_deleted
  broker-cy events --type commits --group billing -n 5   show the last commits of a group
  broker-cy events --since 2026-01-31T12:00 --until 2026-01-31T13:00 --json
"""

LIMIT = 20
TYPES = tuple(EVENTS)


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects events; an empty field accepts all."""

    types: frozenset[str]
    groups: frozenset[str]
    topics: frozenset[str]
    since_ms: int | None
    until_ms: int | None

    def wants(self, stamped: Stamped) -> bool:
        event = stamped.event
        if self.types and event.TYPE not in self.types:
            return False
        if (self.since_ms is not None and stamped.time_ms < self.since_ms) or (
            self.until_ms is not None and stamped.time_ms >= self.until_ms
        ):
            return False
        if self.groups and getattr(event, "group", None) not in self.groups:
            return False
        return not self.topics or not self.topics.isdisjoint(topics_of(event))

    @property
    def skip(self) -> bytes:
        """Return the first bytes of records that are skipped without being decoded."""
        return prefix_of(Commits) if self.types and Commits.TYPE not in self.types else b""


@click.command("events", epilog=EPILOG)
@cluster_command
@click.option("--since", type=TIME, metavar="TIME", help=f"Start time: {TIME_HELP}.")
@click.option("--until", type=TIME, metavar="TIME", help="End time.")
@click.option(
    "--limit",
    "-n",
    type=COUNT,
    help=f"Show at most this many of the newest events.  [default: {LIMIT}; all with --since]",
)
@click.option("--follow", "-f", is_flag=True, help="Continue with new events as they occur.")
@click.option("--count", "-c", type=COUNT, help="Exit after this many events.")
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES),
    metavar="TYPE",
    help=f"Show only these types; may be repeated: {', '.join(TYPES)}.  [default: all but commits]",
)
@click.option(
    "--group", "groups", multiple=True, metavar="GROUP", shell_complete=complete_groups, help="Only about these."
)
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC", shell_complete=complete_topics, help="Only about these."
)
async def command(
    target: Target,
    client: AdminClient,
    since: int | None,
    until: int | None,
    limit: int | None,
    follow: bool,
    count: int | None,
    types: Sequence[str],
    groups: Sequence[str],
    topics: Sequence[str],
) -> None:
    """Show events: rebalances, changes and who made them, starts and stops, commits.

    With --json, print one object per line. Brokers write events to the topic __cluster_events (docs/events.md), which
    keeps them for 30 days by default.
    """
    if follow and until is not None:
        raise click.UsageError("--follow and --until cannot be used together")
    chosen = frozenset(types or (name for name in TYPES if name not in ROUTINE))
    wanted = Filter(chosen, frozenset(groups), frozenset(topics), since, until)
    show = _json_line if target.as_json else _line
    left = count

    def tell(entries: Iterable[Entry[Stamped]]) -> bool:
        """Print an event and return whether more are wanted."""
        nonlocal left
        for entry in entries:
            if left == 0:
                return False
            click.echo(show(entry))
            left = None if left is None else left - 1
        return left != 0

    end = await _print_past(client, wanted, limit if limit is not None or since is not None else LIMIT, tell)
    if not follow or left == 0:
        return
    async for entries in client.events.read(end, skip=wanted.skip):
        if not tell(entry for entry in entries if entry.item is not None and wanted.wants(entry.item)):
            return


async def _print_past(
    client: AdminClient, wanted: Filter, limit: int | None, tell: Callable[[Iterable[Entry[Stamped]]], bool]
) -> int:
    """Print the events up to now, at most `limit`; returns the offset after them."""
    topic = client.events
    span = await topic.span(Start.latest() if wanted.since_ms is None else Start.time(wanted.since_ms))
    end = span.end
    if wanted.until_ms is not None:
        end = (await topic.span(Start.time(wanted.until_ms))).start
    if wanted.since_ms is None and limit is not None:
        newest = await topic.newest(limit, wanted.wants, end, span.earliest, skip=wanted.skip)
        if not newest.is_complete:
            searched = f"searched the last {end - newest.start:,} records"
            click.echo(f"broker-cy: {searched}; use --since to search older ones", err=True)
        tell(newest.entries)
        return end
    kept: deque[Entry[Stamped]] = deque(maxlen=limit)
    if span.start < end:
        async for entries in topic.read(span.start, end, skip=wanted.skip):
            found = [entry for entry in entries if entry.item is not None and wanted.wants(entry.item)]
            if limit is not None:
                kept += found
            elif not tell(found):
                break
    tell(kept)
    return end


def _line(entry: Entry[Stamped]) -> str:
    """Format an event: time, type, subject, what happened, and who caused it."""
    stamped = entry.item
    assert stamped is not None
    event: Event = stamped.event
    moment = datetime.fromtimestamp(stamped.time_ms / 1000).isoformat(timespec="milliseconds")
    by = by_of(event)
    return escaped(f"{moment}  {event.TYPE:<21}  {subject_of(stamped)}: {line_of(event)}{f' (by {by})' if by else ''}")


def _json_line(entry: Entry[Stamped]) -> str:
    """Format the event as the broker wrote it, with its offset."""
    return json.dumps({"offset": entry.offset, **entry.fields}, ensure_ascii=False)
