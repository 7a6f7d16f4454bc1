"""The commands `broker-mirror verify` and `broker-mirror drill`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from broker_cy.client.deadline import DEFAULT_TIMEOUT_S
from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import EXIT_FAILED
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.terminal import print_rows
from broker_cy.reporting.tone import Tone
from broker_mirror.config import load_config
from broker_mirror.flows import Flow, flows_of
from broker_mirror.program import errors
from broker_mirror.proof.clients import Clusters, NotOfFlow, clusters_of
from broker_mirror.proof.drill import DrillResult, drill
from broker_mirror.proof.drilling import DrillRow
from broker_mirror.proof.pairing import RANGE_OFFSETS, Difference
from broker_mirror.proof.ranges import Counted, RangeCounts
from broker_mirror.proof.verify import FlowResult, Outcome, PartitionResult, Settings, verify

RATE_MIB: Final = 50
SHOWN_MAX: Final = 10
"""Differences of a partition in the table; JSON has all that were kept."""
T = TypeVar("T")


def add(group: click.Group) -> None:
    """Add the commands to those of `broker-mirror`."""
    group.add_command(verify_command)
    group.add_command(drill_command)


def _of_file(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON, also for errors."),
        click.option(
            "--timeout", "timeout_s", type=click.FloatRange(0.1), default=DEFAULT_TIMEOUT_S, show_default=True,
            metavar="SECONDS", help="The longest time of a request with all its attempts.",
        ),
        click.option(
            "--rate", "rate_mib", type=click.FloatRange(0), default=RATE_MIB, show_default=True, metavar="MIB",
            help="The most MiB/s that are read from both clusters together; 0 is no bound.",
        ),
        click.option("--flow", "flow_name", metavar="A->B", help="Only this flow.  [default: each flow that copies]"),
        click.argument("file", type=click.Path(path_type=Path)),
    ):  # fmt: skip
        function = option(function)
    return function


@click.command("verify")
@_of_file
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="A topic of the source; may be repeated.")
@click.option("--checksums", is_flag=True, help="Decode all records, and show the checksum of each range.")
@click.option(
    "--range",
    "range_offsets",
    type=click.IntRange(1),
    default=RANGE_OFFSETS,
    show_default=True,
    metavar="OFFSETS",
    help="Offsets of the source in one range.",
)
@click.pass_context
def verify_command(
    context: click.Context, /, file: Path, flow_name: str | None, topics: tuple[str, ...], checksums: bool,
    range_offsets: int, rate_mib: float, timeout_s: float, as_json: bool,
) -> None:  # fmt: skip
    """Compare the records on both sides of the flows of FILE.

    The exit code is 0 if all of them are equal, 1 if they differ or could not be compared.
    """
    settings = Settings(topics, int(rate_mib * (1 << 20)), checksums, range_offsets)
    with errors(context, as_json=as_json):
        pairs = asyncio.run(_each(_flows(file, flow_name), timeout_s, lambda of: verify(of, settings)))
        found = [each for _, each in pairs]
        if as_json:
            print(json.dumps({"flows": [_flow_fields(each) for each in found]}))
        else:
            _print_verified(found, checksums=checksums)
        if not all(each.is_equal for each in found):
            context.exit(EXIT_FAILED)


@click.command("drill")
@_of_file
@click.option("--group", required=True, metavar="GROUP", help="A group of the source.")
@click.option("--commit-as", metavar="NAME", help="Commit the offsets in the target for this other group.")
@click.pass_context
def drill_command(
    context: click.Context, /, file: Path, flow_name: str | None, group: str, commit_as: str | None, rate_mib: float,
    timeout_s: float, as_json: bool,
) -> None:  # fmt: skip
    """Show what a group would read again after a failover to the target, and what it would miss.

    The group is not changed on either side. The exit code is 1 if it would miss records, or if that is not known.
    """
    with errors(context, as_json=as_json):
        flows = _flows(file, flow_name)
        rate = int(rate_mib * (1 << 20))
        pairs = asyncio.run(_each(flows, timeout_s, lambda of: drill(of, group, commit_as=commit_as, bytes_per_s=rate)))
        if as_json:
            print(json.dumps({"flows": [_drill_fields(flow, each) for flow, each in pairs]}))
        else:
            for flow, each in pairs:
                _print_drill(flow, each)
        if not all(each.is_safe for _, each in pairs):
            context.exit(EXIT_FAILED)


# --- flows


def _flows(file: Path, name: str | None) -> list[Flow]:
    flows = [flow for flow in flows_of(load_config(file)) if flow.copies]
    found = [flow for flow in flows if name in (None, str(flow.pair))]
    if name is not None and not found:
        known = ", ".join(str(flow.pair) for flow in flows) or "none"
        raise ClientError(Failure.INVALID, f"--flow {name}: the flows that copy are {known}", what=str(file))
    if not found:
        raise ClientError(Failure.INVALID, "no flow copies: set SOURCE->TARGET.enabled=true", what=str(file))
    changed = [str(flow.pair) for flow in found if flow.transforms is not None]
    if changed:
        # Records of both sides are compared and counted in their order.
        text = f"{changed[0]} has transforms, so its copies differ from the records of the source: name another --flow"
        raise ClientError(Failure.INVALID, text, what=str(file))
    return found


async def _each(
    flows: Sequence[Flow], timeout_s: float, work: Callable[[Clusters], Awaitable[T]]
) -> list[tuple[Flow, T]]:
    """Work on each flow that has what was named. Raises ClientError, also if none has it."""
    found: list[tuple[Flow, T]] = []
    missing: NotOfFlow | None = None
    for flow in flows:
        async with clusters_of(flow, timeout_s) as of:
            try:
                found.append((flow, await work(of)))
            except NotOfFlow as error:
                missing = missing or error
    if missing is not None and not found:
        raise missing
    return found


# --- verify

_TONES: Final = {Outcome.EQUAL: Tone.GOOD, Outcome.DIFFERENT: Tone.BAD, Outcome.UNKNOWN: Tone.WARN}
_PARTITIONS: Final[tuple[Column[PartitionResult], ...]] = (
    Column("topic", "topic", lambda each: each.topic),
    Column("partition", "partition", lambda each: each.partition if each.partition >= 0 else None, Kind.NUMBER),
    Column("remote_topic", "in the target", lambda each: each.remote_topic),
    Column("verdict", "verdict", lambda each: each.outcome.value, tone=lambda each: _TONES[each.outcome]),
    Column("records", "equal records", lambda each: each.records, Kind.COUNT),
    Column("behind", "behind", lambda each: each.behind, Kind.COUNT),
    Column("removed_in_source", "only in target", lambda each: each.removed_in_source, Kind.COUNT),
    Column("removed_in_target", "only in source", lambda each: each.removed_in_target, Kind.COUNT),
)
_Place = tuple[PartitionResult, Difference]
_DIFFERENCES: Final[tuple[Column[_Place], ...]] = (
    Column("partition", "partition", lambda each: f"{each[0].topic}-{each[0].partition}"),
    Column("reason", "reason", lambda each: each[1].reason.value, tone=lambda _: Tone.BAD),
    Column("count", "records", lambda each: each[1].count, Kind.COUNT),
    Column("source_offset", "source offset", lambda each: each[1].source_offset, Kind.NUMBER),
    Column("target_offset", "target offset", lambda each: each[1].target_offset, Kind.NUMBER),
    Column("text", "", lambda each: each[1].text),
)
_RANGES: Final[tuple[Column[tuple[PartitionResult, RangeCounts]], ...]] = (
    Column("partition", "partition", lambda each: f"{each[0].topic}-{each[0].partition}"),
    Column("start", "from offset", lambda each: each[1].start, Kind.NUMBER),
    Column("end", "before offset", lambda each: each[1].end, Kind.NUMBER),
    Column("source_records", "source records", lambda each: each[1].source.records, Kind.COUNT),
    Column("target_records", "target records", lambda each: each[1].target.records, Kind.COUNT),
    Column("source", "source checksum", lambda each: _hex(each[1].source)),
    Column("target", "target checksum", lambda each: _hex(each[1].target)),
)


def _print_verified(found: Sequence[FlowResult], *, checksums: bool) -> None:
    for each in found:
        print(f"{each.flow.pair}: {'equal' if each.is_equal else 'not proven equal'}")
        print_rows(_PARTITIONS, each.partitions)
        shown = [(part, one) for part in each.partitions for one in part.differences[:SHOWN_MAX]]
        if shown:
            print_rows(_DIFFERENCES, shown)
        if checksums:
            print_rows(_RANGES, [(part, one) for part in each.partitions for one in part.ranges])
        for part in each.partitions:
            for note in _notes(part):
                print(f"{part.topic}{f'-{part.partition}' if part.partition >= 0 else ''}: {note}")


def _notes(part: PartitionResult) -> Iterator[str]:
    if part.problem:
        yield part.problem
    if len(part.differences) > SHOWN_MAX:
        yield f"{len(part.differences) - SHOWN_MAX} further differences are only in the output of --json"
    if part.is_cut:
        yield "there are more differences; the rest was not compared"
    if part.by_key and part.is_known:
        yield "compacted, so the last record of each key was compared"
    if part.without_times:
        yield "the target sets timestamps itself, so they were not compared"


def _hex(counted: Counted) -> str:
    return f"{counted.digest:016x}"


def _flow_fields(found: FlowResult) -> dict[str, Any]:
    return {
        "flow": str(found.flow.pair),
        "is_equal": found.is_equal,
        "bytes": found.bytes,
        "partitions": [_partition_fields(each) for each in found.partitions],
    }


def _partition_fields(part: PartitionResult) -> dict[str, Any]:
    fields = {column.key: column.value(part) for column in _PARTITIONS}
    fields["differences"] = [
        {column.key: column.value((part, each)) for column in _DIFFERENCES[1:]} for each in part.differences
    ]
    fields["ranges"] = [
        {column.key: column.value((part, each)) for column in _RANGES[1:5]}
        | {"differences": each.differences}
        | ({} if not _has_digests(each) else {"source": _hex(each.source), "target": _hex(each.target)})
        for each in part.ranges
    ]
    return fields | {
        "by_key": part.by_key,
        "is_cut": part.is_cut,
        "without_times": part.without_times,
        "problem": part.problem,
    }


def _has_digests(found: RangeCounts) -> bool:
    return bool(found.source.digest or found.target.digest)


# --- drill

_DRILL: Final[tuple[Column[DrillRow], ...]] = (
    Column("topic", "topic", lambda row: row.topic),
    Column("partition", "partition", lambda row: row.partition, Kind.NUMBER),
    Column("committed", "committed", lambda row: row.committed, Kind.NUMBER),
    Column("lag", "lag", lambda row: row.lag, Kind.COUNT),
    Column("remote_topic", "in the target", lambda row: row.remote_topic),
    Column("continues_at", "continues at", lambda row: row.continues_at, Kind.NUMBER),
    Column("origin", "from", lambda row: row.origin.value),
    Column("again", "read again", lambda row: row.again, Kind.COUNT),
    Column("again_ms", "of the last", lambda row: row.again_ms, Kind.DURATION),
    Column(
        "missed",
        "missed",
        lambda row: row.missed,
        Kind.COUNT,
        tone=lambda row: Tone.GOOD if row.missed == 0 else Tone.BAD,
    ),
    Column("problem", "", lambda row: row.problem, tone=lambda _: Tone.WARN),
)


def _print_drill(flow: Flow, found: DrillResult) -> None:
    again = sum(row.again or 0 for row in found.rows)
    missed = sum(row.missed or 0 for row in found.rows)
    print(f"{flow.pair}, group {found.group}: reads {again:,} records again, and misses {missed:,}")
    print_rows(_DRILL, found.rows)
    if found.skipped:
        print(f"the flow does not copy {', '.join(found.skipped)}")
    if found.committed_as is not None:
        print(f"committed as group {found.committed_as} in {flow.pair.target}")


def _drill_fields(flow: Flow, found: DrillResult) -> dict[str, Any]:
    return {
        "flow": str(flow.pair),
        "group": found.group,
        "is_safe": found.is_safe,
        "committed_as": found.committed_as,
        "skipped": found.skipped,
        "partitions": [{column.key: column.value(row) for column in _DRILL} for row in found.rows],
    }
