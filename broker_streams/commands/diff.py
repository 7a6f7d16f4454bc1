"""`broker-streams diff`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin import ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.program import EXIT_FAILED
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows
from broker_streams.application import Application, load
from broker_streams.commands.context import (
    PROGRAM,
    archive_of,
    bootstrap_option,
    changes,
    client_of,
    errors,
    first_option,
    history_options,
    isolation_of,
    json_option,
    settings_option,
)
from broker_streams.hosts.settings import HostSettings
from broker_streams.offline.history import Archive, History
from broker_streams.offline.inputs import POINT_HELP, counts_of, feed, point
from broker_streams.offline.results import ANY_PARTITION, Results, Row, Side
from broker_streams.offline.runner import Result, Runner
from broker_streams.testing.case_file import CaseError, line_of
from broker_streams.testing.case_run import MISSING, UNEXPECTED, Serdes, internal_topics
from broker_streams.testing.case_values import Shown, canonical, shown

EPILOG: Final = """\b
examples:
  broker-streams diff old.py new.py                             on all records that the topics have
  broker-streams diff old.py new.py --from -1d --until latest
  broker-streams diff old.py new.py --from begin.csv --until end.csv --json
"""


@dataclass
class TopicDiff:
    """A topic with its records of both versions. `records` are the first that differ, with MISSING for those of the
    old version and UNEXPECTED for those of the new one.
    """

    topic: str
    old: int
    new: int
    only_old: int = 0
    only_new: int = 0
    keys: int = 0
    records: list[tuple[str, int, Shown]] = field(default_factory=list)


@click.command("diff", epilog=EPILOG)
@click.argument("old", metavar="OLD.py", type=click.Path(path_type=Path))
@click.argument("new", metavar="NEW.py", type=click.Path(path_type=Path))
@click.option("--from", "begin", default="earliest", show_default=True, metavar="POINT", help=f"{POINT_HELP}.")
@click.option("--until", "end", default="latest", show_default=True, metavar="POINT", help="As --from.")
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Compare only this output topic; repeatable.")
@history_options
@first_option("Differences")
@settings_option
@bootstrap_option
@json_option
@click.pass_context
def diff_command(
    context: click.Context, /, old: Path, new: Path, begin: str, end: str, topics: tuple[str, ...], first: int,
    segments: tuple[Path, ...], lake: Path | None, accept_gaps: bool, changed: tuple[str, ...], bootstrap: str | None,
    as_json: bool,
) -> None:  # fmt: skip
    """Run two versions of an application over the same records of the cluster, and show the records that differ.

    Nothing is written to the cluster. Both begin without state, and see the records of all partitions in the order of
    their timestamps. The exit code is 1 if they differ.
    """
    with errors(context, as_json=as_json):
        versions = [load(path, changes(changed, bootstrap)) for path in (old, new)]
        archive = archive_of(segments, lake, accept_gaps=accept_gaps)
        found, counts = asyncio.run(_diff(versions, (begin, end), topics, first, archive))
        differ = any(each.only_old or each.only_new for each in found)
        if as_json:
            print(json.dumps(_fields(found, counts), ensure_ascii=False))
        else:
            _print(found, counts)
        if differ:
            context.exit(EXIT_FAILED)


async def _diff(
    versions: Sequence[Application],
    span: tuple[str, str],
    topics: Sequence[str],
    first: int,
    archive: Archive | None,
) -> tuple[list[TopicDiff], tuple[int, int]]:
    """The topics, and the records that both versions processed."""
    with Results() as results:
        processed = []
        async with client_of(versions[0], f"{PROGRAM}-diff") as client:
            history = History(client, isolation_of(HostSettings.of(versions[0].config)), archive)
            ranges = await _ranges(history, versions, *span)
            for side, version in zip(Side, versions, strict=True):
                processed.append(await _run(history, version, side, ranges, results))
        names = results.topics()
        unknown = next((each for each in topics if each not in names), None)
        if unknown is not None:
            raise ClientError(Failure.INVALID, f"--topic {unknown}: written were {', '.join(names) or 'none'}")
        found = [_of_topic(results, each, versions, first) for each in topics or names]
        return found, (processed[0], processed[1])


async def _ranges(
    history: History, versions: Sequence[Application], begin: str, end: str
) -> dict[TopicPartition, tuple[int, int]]:
    """The same offsets for both versions, which may read other topics."""
    keys: set[TopicPartition] = set()
    for version in versions:
        settings = HostSettings.of(version.config)
        runner = Runner(version.topology, settings.task, await counts_of(history.client, version.topology))
        keys |= {TopicPartition(*place) for place in runner.inputs}
    settings = HostSettings.of(versions[0].config)

    async def at(text: str) -> dict[TopicPartition, int]:
        return await point(
            history, sorted(keys), text, group_id=settings.application_id,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )  # fmt: skip

    starts, ends = await at(begin), await at(end)
    return {key: (starts[key], max(starts[key], ends[key])) for key in sorted(keys)}


async def _run(
    history: History,
    version: Application,
    side: Side,
    ranges: dict[TopicPartition, tuple[int, int]],
    results: Results,
) -> int:
    settings = HostSettings.of(version.config)
    runner = Runner(version.topology, settings.task, await counts_of(history.client, version.topology))
    internal = internal_topics(version.topology, settings.application_id)

    async def take(written: list[Result]) -> None:
        by_topic: dict[str, list[Row]] = {}
        for each in written:
            if not each.is_change and each.topic not in internal:
                by_topic.setdefault(each.topic, []).append(row_of(each))
        for topic, rows in by_topic.items():
            results.add(side, topic, rows)

    starts = {key: start for key, (start, _) in ranges.items()}
    ends = {key: end for key, (_, end) in ranges.items()}
    try:
        count = await feed(history, runner, starts, ends, take)
    except ClientError as error:
        raise error.about(f"{version.path}") from error
    runner.close()
    return count


def row_of(result: Result) -> Row:
    number = ANY_PARTITION if result.partition is None else result.partition
    return Row(number, result.key, result.value, result.timestamp, result.headers)


def _of_topic(results: Results, topic: str, versions: Sequence[Application], first: int) -> TopicDiff:
    found = TopicDiff(topic, *results.counts(topic))
    keys: set[tuple[int, bytes | None]] = set()
    serdes = [Serdes(each.topology, each.config, {}) for each in versions]
    for difference in results.contents(topic):
        found.only_old += max(0, difference.old - difference.new)
        found.only_new += max(0, difference.new - difference.old)
        place = difference.row.partition, difference.row.key
        if len(keys) < first or place in keys:
            keys.add(place)
    found.keys = len(keys)
    for partition, key in sorted(keys, key=lambda each: (each[0], each[1] or b"")):
        if len(found.records) >= first:
            break
        for side, mark, serde in zip(Side, (MISSING, UNEXPECTED), serdes, strict=True):
            for row in results.of_key(side, topic, partition, key, first):
                found.records.append((mark, partition, readable(serde, topic, row)))
    return found


def readable(serdes: Serdes, topic: str, row: Row) -> Shown:
    """A record as its serdes read it; as bytes if they cannot."""
    key: Any = row.key
    value: Any = row.value
    try:
        key_serde, value_serde = serdes.of(topic)
        key = key_serde.deserialize(topic, row.key, row.headers)
        value = value_serde.deserialize(topic, row.value, row.headers)
    except (CaseError, ValueError):
        pass
    return shown(key, value, row.at_ms, row.headers)


# --- output


def _fields(found: Sequence[TopicDiff], counts: tuple[int, int]) -> dict[str, Any]:
    return {
        "processed": {"old": counts[0], "new": counts[1]},
        "topics": [
            {
                "topic": each.topic,
                "old": each.old,
                "new": each.new,
                "only_old": each.only_old,
                "only_new": each.only_new,
                "differences": [
                    {
                        "side": "old" if mark == MISSING else "new",
                        "partition": partition,
                        **json.loads(canonical(record)),
                    }
                    for mark, partition, record in each.records
                ],
            }
            for each in found
        ],
    }


_COLUMNS: Final[tuple[Column[TopicDiff], ...]] = (
    Column("topic", "Topic", lambda row: row.topic),
    Column("old", "Old", lambda row: row.old, Kind.COUNT),
    Column("new", "New", lambda row: row.new, Kind.COUNT),
    Column("only_old", "Only old", lambda row: row.only_old, Kind.COUNT),
    Column("only_new", "Only new", lambda row: row.only_new, Kind.COUNT),
)


def _print(found: Sequence[TopicDiff], counts: tuple[int, int]) -> None:
    same = "" if counts[0] == counts[1] else f", the new version {counts[1]:,}"
    print(f"processed {counts[0]:,} records{same}")
    print_rows(_COLUMNS, found)
    for each in found:
        if each.records:
            print(f"{each.topic}: records of the first {plural(each.keys, 'key')} that differ (- old, + new)")
            for line in _lines(each):
                print(f"  {line}")


def _lines(of: TopicDiff) -> Iterator[str]:
    for mark, partition, record in of.records:
        place = "" if partition == ANY_PARTITION else f"{partition} "
        yield f"{mark} {place}{line_of(record)}"
