"""`broker-cy metrics`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.records import Start
from broker_cy.admin.sample_window import TOTAL, Window, windows
from broker_cy.client.quantities import DURATION_HELP
from broker_cy.commands.context import Target, cluster_command, complete_topics
from broker_cy.commands.output import plain, print_json
from broker_cy.commands.values import COUNT, DURATION
from broker_cy.console.columns import brokers, requests
from broker_cy.core.classes import NamedTuple
from broker_cy.metrics.sample import Api, Sample, Times
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.foreign_text import escaped
from broker_cy.reporting.numbers import duration, micros, percent, plural, short, size, size_rate
from broker_cy.reporting.terminal import print_rows
from broker_cy.wire.api_keys import ApiKey

EPILOG = """\b
examples:
  broker-cy metrics                          show everything, over the last ten seconds
  broker-cy metrics --api Produce            show every phase of one kind of request
  broker-cy metrics --topic orders --over 1m
  broker-cy metrics --clients --watch        show usage by client, every two seconds
  broker-cy metrics --json                   the same for programs

\b
phases of a request (docs/metrics.md):
  queue until its handler starts   handler   disk write, sync or cold read   data waiting for records
  other waiting, such as for a group's members   send   total
"""

OVER_MS = 10_000
OVER_MAX_MS = 3_600_000
WATCH_MS = 2_000
# Records that are searched for the newest sample of each broker, and so the largest number of brokers.
NEWEST_RECORDS = 50
# A phase with a smaller share of the time is shown only for an API that is selected by --api.
SMALL_SHARE = 0.01
APIS = tuple("".join(word.capitalize() for word in key.name.split("_")) for key in ApiKey)


@click.command("metrics", epilog=EPILOG)
@cluster_command
@click.option(
    "--api",
    "apis",
    multiple=True,
    type=click.Choice(APIS, case_sensitive=False),
    metavar="NAME",
    help="Show only these APIs, such as Produce, with every phase; may be repeated.",
)
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME", shell_complete=complete_topics, help="Show only these topics."
)
@click.option("--clients", is_flag=True, help="Show usage by client id.")
@click.option(
    "--over", type=DURATION, default=OVER_MS, metavar="TIME", help="Period to summarize, up to 1h.  [default: 10s]"
)
@click.option(
    "--watch",
    "-w",
    type=DURATION,
    is_flag=False,
    flag_value=str(WATCH_MS) + "ms",
    metavar="[TIME]",
    help=f"Repeat every 2s, or at this interval, {DURATION_HELP}; with --json, print one object per line.",
)
@click.option("--count", "-c", type=COUNT, help="With --watch: exit after this many reports.")
async def command(
    target: Target,
    client: AdminClient,
    apis: Sequence[str],
    topics: Sequence[str],
    clients: bool,
    over: int,
    watch: int | None,
    count: int | None,
) -> None:
    """Show metrics of brokers: requests with their times by phase, topics, memory, event loop lag.

    Brokers write a sample every second to the topic __broker_metrics (docs/events.md). Rates are averages. Quantiles
    are those of the worst sample, and at most one sixteenth too high.
    """
    if not 0 < over <= OVER_MAX_MS:
        raise click.BadParameter(f"{duration(over)}: must be above 0 and at most 1h", param_hint="--over")
    if count is not None and watch is None:
        raise click.UsageError("--count requires --watch")
    looks = 0
    while True:
        looks += 1
        found = await _look(client, over)
        if target.as_json:
            fields = [_fields(each, apis, topics, clients) for each in found.values()]
            if watch is None:
                print_json(fields)
            else:
                click.echo(json.dumps(plain(fields), ensure_ascii=False))
        else:
            if watch is not None and sys.stdout.isatty():
                click.clear()
            for each in found.values():
                _print(each, apis, topics, clients)
        if watch is None or looks == count:
            return
        await asyncio.sleep(watch / 1000)


async def _look(client: AdminClient, over_ms: int) -> dict[int, Window]:
    """Return the samples of the last `over_ms`, by broker, by the brokers' clocks: the local clock may differ."""
    topic = client.samples
    span = await topic.span(Start.last(NEWEST_RECORDS))
    newest_ms = [
        entry.item.time_ms for entry in await topic.read_range(span.start, span.end) or () if entry.item is not None
    ]
    start = span.start
    if newest_ms:
        start = min(start, (await topic.span(Start.time(max(0, max(newest_ms) - over_ms)))).start)
    samples: list[Sample] = []
    async for entries in topic.read(start, span.end):
        samples += [entry.item for entry in entries if entry.item is not None]
    return windows(samples, over_ms)


def _per_s(window: Window, value: int) -> str:
    return short(value / window.seconds)


def _bytes_per_s(window: Window, value: int) -> str:
    return size_rate(round(value / window.seconds))


def _print(window: Window, apis: Collection[str], topics: Collection[str], clients: bool) -> None:
    everything = not apis and not topics and not clients
    last = window.last
    age_ms = max(0, int(time.time() * 1000) - last.time_ms)
    click.echo(f"broker {last.broker}: {window.seconds:.1f} s, until {duration(age_ms)} ago")
    if everything:
        for name, text in _facts(window):
            click.echo(f"  {name:<13} {escaped(text)}")
    if everything or apis:
        click.echo()
        _print_apis(window, apis)
    if everything or topics:
        click.echo()
        _print_topics(window, topics)
    if clients:
        click.echo()
        _print_clients(window)
    click.echo()


def _facts(window: Window) -> list[tuple[str, str]]:
    """Return the amounts of the broker itself."""
    last, lag = window.last, window.loop_lag
    cpu = percent(window.cpu_us / 1000, window.interval_ms)
    disks = (f"{path}: {size(free)} of {size(whole)} free" for path, (free, whole) in last.disks.items())
    groups = ", ".join(f"{count:,} {state}" for state, count in sorted(last.groups.items())) or "none"
    transactions = ", ".join(f"{count:,} {state}" for state, count in sorted(last.transactions.items())) or "none"
    oldest = f"; the oldest open for {duration(last.oldest_transaction_ms)}" if last.oldest_transaction_ms else ""
    offline = f", {last.offline:,} offline" if last.offline else ""
    faults = f"{_per_s(window, window.major_faults)} major page faults/s"
    return [
        ("process", f"up {duration(last.uptime_ms)}, CPU {cpu}, {size(last.resident_bytes)}, {faults}"),
        ("loop lag", f"p50 {micros(lag.p50_us)}, p99 {micros(lag.p99_us)}, max {micros(lag.max_us)}"),
        (
            "connections",
            f"{last.connections:,}, {window.connections_opened:,} opened, {window.connections_closed:,} closed; "
            f"{last.open_fds:,} descriptors",
        ),
        ("partitions", f"{last.partitions:,}{offline}"),
        (
            "reads",
            f"{_per_s(window, window.hot_reads)}/s from memory ({_bytes_per_s(window, window.hot_bytes)}), "
            f"{_per_s(window, window.cold_reads)}/s from disk ({_bytes_per_s(window, window.cold_bytes)})",
        ),
        (
            "disk",
            f"{_bytes_per_s(window, window.disk_written_bytes)} written, "
            f"{_bytes_per_s(window, window.disk_read_bytes)} read, {size(last.unflushed_bytes)} not flushed, "
            f"{_per_s(window, window.sync_rounds)} syncs/s",
        ),
        *((("", each)) for each in disks),
        ("groups", f"{groups}; {last.members:,} members"),
        ("transactions", transactions + oldest),
    ]


def _chosen(apis: Mapping[str, Api], names: Collection[str]) -> list[tuple[str, Api]]:
    """Return those that were selected (all if none was), the busiest first."""
    found = [(name, api) for name, api in apis.items() if not names or name in names]
    return sorted(found, key=lambda pair: (-pair[1].requests, pair[0]))


def _print_apis(window: Window, names: Collection[str]) -> None:
    """Print a block for each API: its rates and the total time, then the phases with their share of it."""
    lines: list[_Line] = []
    errors: list[_Error] = []
    for name, api in _chosen(window.apis, names):
        total = api.phases.get(TOTAL, Times())
        rates = _Rates(
            *(each / window.seconds for each in (api.requests, sum(api.errors.values()), api.in_bytes, api.out_bytes))
        )
        lines.append(_Line(name, rates, total))
        phases = sorted(((each, name) for name, each in api.phases.items() if name != TOTAL and each.count), key=_sum)
        for times, phase in phases:
            share = times.sum_us / total.sum_us if total.sum_us else 0.0
            if names or share >= SMALL_SHARE:
                lines.append(_Line(f"  {share:>4.0%} {phase}", None, times))
        errors += [_Error(name, error, count, count / window.seconds) for error, count in sorted(api.errors.items())]
    print_rows(_API_COLUMNS, lines)
    if errors:
        click.echo()
        print_rows(_ERROR_COLUMNS, errors)


def _sum(pair: tuple[Times, str]) -> int:
    return -pair[0].sum_us


def _print_topics(window: Window, names: Collection[str]) -> None:
    found = [(name, topic) for name, topic in window.topics.items() if not names or name in names]
    found.sort(key=lambda pair: (-(pair[1].in_bytes + pair[1].out_bytes), pair[0]))
    seconds = window.seconds
    uses = [
        _Use(name, 0, topic.in_records / seconds, topic.in_bytes / seconds, topic.out_bytes / seconds)
        for name, topic in found
    ]
    print_rows((_TOPIC, _RECORDS, _IN, _OUT), uses)
    if not names and window.last.topics_left_out:
        click.echo(f"{plural(window.last.topics_left_out, 'less busy topic')} not shown")


def _print_clients(window: Window) -> None:
    found = sorted(window.clients.items(), key=lambda pair: -(pair[1].in_bytes + pair[1].out_bytes))
    seconds = window.seconds
    uses = [
        _Use(name, use.connections, use.requests / seconds, use.in_bytes / seconds, use.out_bytes / seconds)
        for name, use in found
    ]
    print_rows((_CLIENT_ID, _CONNECTIONS, _REQUESTS, _IN, _OUT), uses)
    if window.last.busy_left_out:
        click.echo(f"{plural(window.last.busy_left_out, 'less busy connection')} not shown")


class _Rates(NamedTuple):
    """Per second."""

    requests: float
    errors: float
    in_bytes: float
    out_bytes: float


class _Line(NamedTuple):
    """An API with its rates, or a phase of the API above it."""

    name: str
    rates: _Rates | None
    times: Times


class _Error(NamedTuple):
    api: str
    error: str
    number: int
    per_s: float


class _Use(NamedTuple):
    """The use of a topic or a client per second."""

    name: str
    connections: int
    per_s: float
    in_bytes: float
    out_bytes: float


def _rate(rate: Callable[[_Rates], float], shown: Callable[[float], str]) -> dict[str, Any]:
    """Return value and text of a rate, which phases do not have."""
    return {
        "value": lambda row: None if row.rates is None else rate(row.rates),
        "text": lambda row: "" if row.rates is None else shown(rate(row.rates)),
    }


def _time(us: Callable[[Times], int]) -> Callable[[_Line], int | None]:
    return lambda row: us(row.times) if row.times.count else None


_API_COLUMNS: Final[tuple[Column[_Line], ...]] = (
    requests.API.by(lambda row: row.name),
    requests.REQUESTS.by(**_rate(lambda rates: rates.requests, short)),
    requests.ERROR_RATE.by(**_rate(lambda rates: rates.errors, short)),
    requests.IN.by(**_rate(lambda rates: rates.in_bytes, size)),
    requests.OUT.by(**_rate(lambda rates: rates.out_bytes, size)),
    requests.PHASE_P50.by(_time(lambda times: times.p50_us)),
    requests.P99.by(_time(lambda times: times.p99_us)),
    requests.MAX.by(_time(lambda times: times.max_us)),
)
_ERROR_COLUMNS: Final[tuple[Column[_Error], ...]] = (
    requests.API.by(lambda row: row.api),
    Column("error", "Error", lambda row: row.error),
    Column("count", "Count", lambda row: row.number, Kind.COUNT),
    Column("rate", "Count/s", lambda row: row.per_s, Kind.RATE),
)
_TOPIC: Final[Column[_Use]] = requests.BUSY_TOPIC.by(lambda row: row.name)
_RECORDS: Final[Column[_Use]] = requests.BUSY_RECORDS.by(lambda row: row.per_s)
_CLIENT_ID: Final[Column[_Use]] = requests.CLIENT_ID.by(lambda row: row.name)
_CONNECTIONS: Final[Column[_Use]] = brokers.CONNECTIONS.by(lambda row: row.connections)
_REQUESTS: Final[Column[_Use]] = requests.REQUESTS.by(lambda row: row.per_s)
_IN: Final[Column[_Use]] = requests.IN.by(lambda row: row.in_bytes)
_OUT: Final[Column[_Use]] = requests.OUT.by(lambda row: row.out_bytes)


def _fields(window: Window, apis: Collection[str], topics: Collection[str], clients: bool) -> dict[str, object]:
    """Return a broker as JSON fields: sums over `interval_ms`, and the amounts of the newest sample."""
    everything = not apis and not topics and not clients
    fields: dict[str, object] = {
        "broker": window.last.broker,
        "time_ms": window.last.time_ms,
        "interval_ms": window.interval_ms,
        "samples": window.samples,
    }
    if everything:
        summed = plain(window)
        now = plain(window.last)
        assert isinstance(summed, dict)
        assert isinstance(now, dict)
        parts = ("last", "apis", "topics", "clients")
        fields |= {name: each for name, each in now.items() if name not in ("apis", "topics", "busy", "busy_left_out")}
        fields |= {name: each for name, each in summed.items() if name not in parts}
    if everything or apis:
        fields["apis"] = dict(_chosen(window.apis, apis))
    if everything or topics:
        fields["topics"] = {name: each for name, each in window.topics.items() if not topics or name in topics}
    if everything or clients:
        fields["clients"] = window.clients
    return fields
