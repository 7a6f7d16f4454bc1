"""The command `broker-mirror promote`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.mirror_links import MirrorTopic
from broker_cy.client import options
from broker_cy.client.address import parse_addresses
from broker_cy.client.clusters import ClusterEntry, select
from broker_cy.client.confirmation import confirm
from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.parsed import Parsed
from broker_cy.client.program import EXIT_FAILED, EXIT_UNREACHED
from broker_cy.client.quantities import parse_duration
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import count, duration, plural
from broker_cy.reporting.terminal import print_rows
from broker_cy.reporting.tone import Tone
from broker_mirror.config import load_config
from broker_mirror.flow_run import CLIENT_ID, connect
from broker_mirror.flows import Flow, FlowKind, flows_of
from broker_mirror.link.group_sync import GroupSync
from broker_mirror.link.mirrors import by_source, mirrors_in
from broker_mirror.merged import Role, Side
from broker_mirror.program import PROGRAM, errors
from broker_mirror.promotion.copied import CopyPromotion
from broker_mirror.promotion.linked import Promotion, PromotionRow, Show

WAIT_S: Final = 60.0
FORCED_TIMEOUT_S: Final = 5.0
"""The longest time of a request to a source that may be dead."""
SECONDS: Final = Parsed("duration", lambda text: parse_duration(text) / 1000)
EPILOG: Final = """\b
examples:
  broker-mirror promote mm2.properties --flow 'A->B'
  broker-mirror promote mm2.properties --flow 'A->B' --topic orders --wait 5m --yes
  broker-mirror promote mm2.properties --flow 'A->B' --force    the source is dead
  broker-mirror promote --bootstrap b1:9092 --source a1:9092 --topic orders
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """The options. `topics` are those of the target."""

    topics: tuple[str, ...]
    link: str | None
    wait_s: float
    is_forced: bool
    is_dry: bool
    is_confirmed: bool
    as_json: bool


@dataclass(slots=True)
class Result:
    """The outcome for the topics of one target. `groups` have the number of partitions with offsets in the target."""

    target: str
    kind: str
    rows: list[PromotionRow]
    groups: dict[str, int] = field(default_factory=dict)
    group_problems: dict[str, str] = field(default_factory=dict)
    is_done: bool = False


def add(group: click.Group) -> None:
    """Add the command to those of `broker-mirror`."""
    group.add_command(promote_command)


@click.command("promote", epilog=EPILOG)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option("--flow", "flow_name", metavar="A->B", help="The flow of FILE, if several copy.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic of the target; may be repeated.")
@click.option("--link", metavar="LINK", help="Without FILE: only topics that mirror over this link.")
@options.click_options()
@click.option("--source", metavar="HOST:PORT[,..]", help="Without FILE: the cluster at the other end of the link.")
@click.option(
    "--source-config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Settings of a Kafka client with the login there.",
)
@click.option(
    "--wait",
    "wait_s",
    type=SECONDS,
    default=WAIT_S,
    show_default="60s",
    metavar="TIME",
    help="How long to wait until all records were copied; otherwise nothing is promoted.",
)
@click.option("--force", is_flag=True, help="Promote immediately, without records that were not copied.")
@click.option("--dry-run", is_flag=True, help="Only show the topics and what they lack.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors.")
@click.pass_context
def promote_command(
    context: click.Context, /, file: Path | None, flow_name: str | None, topics: tuple[str, ...], link: str | None,
    source: str | None, source_config: Path | None, wait_s: float, force: bool, dry_run: bool, yes: bool,
    as_json: bool, **of_cluster: Any,
) -> None:  # fmt: skip
    """End the mirrors of topics, so that producers may write to them.

    Stop the producers at the source first. The command waits until the last record of the source was copied and no
    transaction is open, carries the offsets of groups over, and promotes. With --force it promotes at once: for a
    source that is dead. Topics of copy flows take records all the time: for them, the command waits in the same way,
    and commits the translated offsets of groups.
    """
    asked = Asked(topics, link, wait_s, force, dry_run, yes, as_json)
    with errors(context, as_json=as_json):
        if file is not None:
            if (
                source is not None
                or source_config is not None
                or link is not None
                or any(value for value in of_cluster.values())
            ):
                raise ClientError(
                    Failure.INVALID, "FILE names both clusters: leave out --source, --link and --bootstrap"
                )
            work = _of_flow(chosen_flow(file, flow_name), asked)
        else:
            entry = select(options.take(of_cluster))
            if not topics and link is None:
                raise ClientError(Failure.INVALID, "name FILE, or the topics by --topic or --link")
            if source is None and not force:
                raise ClientError(Failure.INVALID, "without FILE, name the source by --source, or use --force")
            work = _of_cluster(entry, _source_entry(source, source_config), asked)
        result = asyncio.run(work)
        _print(result, asked)
        context.exit(_code(result, asked))


def chosen_flow(file: Path, name: str | None) -> Flow:
    """A failover is that of one flow. Raises ClientError, ConfigError."""
    flows = [flow for flow in flows_of(load_config(file)) if flow.copies]
    found = [flow for flow in flows if name is None or str(flow.pair) == name]
    if len(found) != 1:
        known = ", ".join(str(flow.pair) for flow in flows) or "none"
        what = str(file) if name is None else f"--flow {name}"
        raise ClientError(Failure.INVALID, f"choose one of the flows that copy by --flow: {known}", what=what)
    return found[0]


def _source_entry(source: str | None, config: Path | None) -> ClusterEntry | None:
    if source is None:
        return None
    try:
        return ClusterEntry(source, parse_addresses(source), command_config=config)
    except ValueError as error:
        raise ClientError(Failure.INVALID, str(error), what="--source") from None


# --- the work


async def _of_flow(flow: Flow, asked: Asked) -> Result:
    timeout_s = FORCED_TIMEOUT_S if asked.is_forced else DEFAULT_TIMEOUT_S
    async with (
        connect(flow.clients[Side.SOURCE, Role.ADMIN], timeout_s) as source,
        connect(flow.clients[Side.TARGET, Role.ADMIN]) as target,
    ):
        if flow.kind is FlowKind.COPY:
            return await _copied(flow, source, target, asked)
        mirrors = await mirrors_in(target, asked.topics or None)
        ours = [
            each
            for each in mirrors.values()
            if each.link in (None, flow.link) and flow.copies_topic(each.source) and (asked.topics or each.link)
        ]
        check_named(asked.topics, {each.name for each in ours}, flow.link)
        groups = None if asked.is_forced else GroupSync(flow.groups, source, target)
        promotion = Promotion(source, target, ours, is_forced=asked.is_forced)
        return await _promoted(str(flow.pair.target), promotion, ours, groups, asked)


async def _of_cluster(entry: ClusterEntry, source_entry: ClusterEntry | None, asked: Asked) -> Result:
    async with _client(entry) as target, _maybe(source_entry, asked) as source:
        mirrors = await mirrors_in(target, asked.topics or None)
        ours = [
            each
            for each in mirrors.values()
            if (asked.link is None or each.link in (None, asked.link)) and (asked.topics or each.link)
        ]
        check_named(asked.topics, {each.name for each in ours}, asked.link)
        promotion = Promotion(source, target, ours, is_forced=asked.is_forced)
        return await _promoted(entry.name, promotion, ours, None, asked)


def check_named(wanted: Collection[str], found: Collection[str], link: str | None) -> None:
    for name in wanted:
        if name not in found:
            over = "" if link is None else f" over link {link}"
            raise ClientError(Failure.INVALID, f"the target has no mirror of that name{over}", what=f"topic {name}")


async def _promoted(
    name: str, promotion: Promotion, mirrors: Sequence[MirrorTopic], groups: GroupSync | None, asked: Asked
) -> Result:
    before = [
        PromotionRow(each.name, "", each.source, each.partitions, None, None, 0, "promoted before")
        for each in mirrors
        if each.link is None
    ]
    rows = await promotion.rows()
    result = Result(name, FlowKind.LINK.value, [*before, *rows])
    if asked.is_dry or not rows:
        result.is_done = not asked.is_dry
        return result
    _show_before(name, rows, asked)
    if not asked.is_forced:
        rows = await promotion.wait(asked.wait_s, _progress(asked))
        if not all(row.is_complete for row in rows):
            result.rows = [*before, *rows]
            return result
        if groups is not None:
            await groups.turn(by_source(mirrors))
            result.groups, result.group_problems = groups.carried, groups.problems
    result.rows = [*before, *await promotion.promote()]
    result.is_done = True
    return result


async def _copied(flow: Flow, source: AdminClient, target: AdminClient, asked: Asked) -> Result:
    promotion = CopyPromotion(flow, source, target, asked.topics)
    rows = await promotion.rows(is_forced=asked.is_forced)
    result = Result(str(flow.pair.target), FlowKind.COPY.value, rows)
    if asked.is_dry or not rows:
        result.is_done = not asked.is_dry
        return result
    _show_before(str(flow.pair.target), rows, asked)
    if not asked.is_forced:
        result.rows = await promotion.wait(asked.wait_s, _progress(asked))
        if not all(row.is_complete for row in result.rows):
            return result
    result.groups, result.group_problems = await promotion.commit_groups(is_forced=asked.is_forced)
    result.rows = [promotion.ended(row) for row in result.rows]
    result.is_done = True
    return result


@asynccontextmanager
async def _maybe(entry: ClusterEntry | None, asked: Asked) -> AsyncIterator[AdminClient | None]:
    if entry is None:
        yield None
        return
    async with _client(entry, FORCED_TIMEOUT_S if asked.is_forced else None) as client:
        yield client


def _client(entry: ClusterEntry, timeout_s: float | None = None) -> AdminClient:
    security = entry.security
    return AdminClient(
        entry.bootstrap,
        timeout_s=entry.timeout_s if timeout_s is None else timeout_s,
        client_id=CLIENT_ID,
        login=security.login,
        tls=security.tls,
    )


# --- output

COLUMNS: Final[tuple[Column[PromotionRow], ...]] = (
    Column("topic", "Topic", lambda row: row.topic),
    Column("link", "Link", lambda row: row.link),
    Column("source", "Source topic", lambda row: row.source),
    Column("partitions", "Partitions", lambda row: row.partitions, Kind.COUNT),
    Column("lag", "Not copied", lambda row: row.lag, Kind.COUNT, tone=lambda row: Tone.WARN if row.lag else Tone.GOOD),
    Column("open", "Open transactions", lambda row: row.open, Kind.COUNT),
    Column("state", "State", lambda row: row.state),
    Column("left", "Only in source", lambda row: row.left, Kind.COUNT),
    Column("problem", "", lambda row: row.problem, tone=lambda _: Tone.BAD),
)


def _show_before(name: str, rows: Sequence[PromotionRow], asked: Asked) -> None:
    """Show what will be done, and ask."""
    if not asked.as_json:
        print_rows(COLUMNS[:6], rows, err=True)
    when = f"within {duration(asked.wait_s * 1000)}"
    if asked.is_forced:
        when = "immediately, without records that were not copied"
    question = f"promote {plural(len(rows), 'topic')} in {name} {when}?"
    confirm(PROGRAM, question, yes=asked.is_confirmed, as_json=asked.as_json)


def _progress(asked: Asked) -> Show:
    last = [""]

    def show(rows: Sequence[PromotionRow]) -> None:
        waiting = [row for row in rows if not row.is_complete]
        lag = sum(row.lag or 0 for row in waiting)
        text = f"waiting for {plural(len(waiting), 'topic')}: {count(lag)} records are not copied"
        if waiting and not asked.as_json and text != last[0]:
            click.echo(f"{PROGRAM}: {text}", err=True)
            last[0] = text

    return show


def _print(result: Result, asked: Asked) -> None:
    if asked.as_json:
        print(json.dumps({"dry_run": asked.is_dry, **asdict(result)}, ensure_ascii=False))
        return
    print_rows(COLUMNS, result.rows)
    for text in _notes(result, asked):
        print(text)


def _notes(result: Result, asked: Asked) -> Iterator[str]:
    if asked.is_dry:
        yield f"{result.target}: nothing was changed (--dry-run)"
    elif not result.rows:
        yield f"{result.target}: no topic is a mirror"
    elif not result.is_done:
        yield (
            f"{result.target}: nothing was promoted, because records or transactions of the source were still missing "
            f"after {duration(asked.wait_s * 1000)}; stop the producers there, or use --force"
        )
    if result.groups:
        verb = "continues" if len(result.groups) == 1 else "continue"
        yield f"{result.target}: {plural(len(result.groups), 'group')} {verb} at the same records"
    for group, problem in result.group_problems.items():
        yield f"{result.target}: group {group}: {problem}"
    if result.is_done and result.kind == FlowKind.COPY.value and result.rows:
        yield (
            f"{result.target}: topics of copy flows take records of producers; stop broker-mirror, or set "
            "SOURCE->TARGET.enabled=false, so that no more records are copied"
        )


def _code(result: Result, asked: Asked) -> int:
    if result.group_problems or any(row.problem for row in result.rows):
        return EXIT_FAILED
    # As any call that took too long.
    return 0 if asked.is_dry or result.is_done else EXIT_UNREACHED
