"""`broker-streams verify`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.program import EXIT_FAILED
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.numbers import plural
from broker_cy.reporting.terminal import print_rows
from broker_streams.application import Application, load
from broker_streams.commands.context import (
    PROGRAM,
    application_argument,
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
from broker_streams.offline.certainty import Level
from broker_streams.offline.checking import (
    DIFFERENT,
    DOUBLED,
    MISSING,
    UNEXPECTED,
    Check,
    Deviation,
    TopicCheck,
    Wanted,
    check,
)
from broker_streams.offline.history import Archive, History
from broker_streams.offline.inputs import EARLIEST, POINT_HELP, counts_of, point
from broker_streams.offline.results import Row
from broker_streams.offline.runner import Runner
from broker_streams.testing.case_file import CaseError, line_of
from broker_streams.testing.case_run import Serdes
from broker_streams.testing.case_values import Shown, canonical, plain, shown

EPILOG: Final = """\b
examples:
  broker-streams verify app.py                  all that the application has written
  broker-streams verify app.py --topic totals   one topic
  broker-streams verify app.py --json
"""
_COMPARED: Final = {
    Level.RECORDS: "records in order",
    Level.CONTENTS: "records",
    Level.LAST: "last values",
    Level.NOTHING: "nothing",
}


@click.command("verify", epilog=EPILOG)
@application_argument
@click.option(
    "--from",
    "begin",
    default=EARLIEST,
    show_default=True,
    metavar="POINT",
    help=f"Where the application began, without state: {POINT_HELP}.",
)
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Compare only this topic; repeatable.")
@history_options
@first_option("Deviations")
@settings_option
@bootstrap_option
@json_option
@click.pass_context
def verify_command(
    context: click.Context, /, file: Path, begin: str, topics: tuple[str, ...], first: int, segments: tuple[Path, ...],
    lake: Path | None, accept_gaps: bool, changed: tuple[str, ...], bootstrap: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Prove that the application APP.py has written each result exactly once.

    Computes all results again, from the first records up to the committed offsets, and compares them with the output
    topics and changelogs. Nothing is written to the cluster. The exit code is 1 if something is missing, doubled,
    unexpected or different.
    """
    with errors(context, as_json=as_json):
        application = load(file, changes(changed, bootstrap))
        archive = archive_of(segments, lake, accept_gaps=accept_gaps)
        found = asyncio.run(_verify(application, begin, topics, first, archive))
        serdes = Serdes(application.topology, application.config, {})
        if as_json:
            print(json.dumps(check_fields(found, serdes), ensure_ascii=False))
        else:
            print_check(found, serdes)
            print(_conclusion(found))
        if not found.is_proven:
            context.exit(EXIT_FAILED)


def _conclusion(found: Check) -> str:
    """The last line: it claims no more than the comparisons show."""
    if not found.is_proven:
        return "results differ from those of the input"
    by_record = (Level.RECORDS, Level.CONTENTS)
    others = [each.topic for each in found.topics if not each.is_changelog and each.certainty.level not in by_record]
    if not others:
        return "each result was written exactly once"
    return f"all that is determined is equal; a result that was written twice would not show in {', '.join(others)}"


async def _verify(
    application: Application, begin: str, topics: tuple[str, ...], first: int, archive: Archive | None
) -> Check:
    settings = HostSettings.of(application.config)
    async with client_of(application, f"{PROGRAM}-verify") as client:
        history = History(client, isolation_of(settings), archive)
        runner = Runner(application.topology, settings.task, await counts_of(client, application.topology))
        starts: dict[TopicPartition, int] = {}
        if begin != EARLIEST:
            starts = await point(
                history,
                [TopicPartition(*place) for place in runner.inputs],
                begin,
                group_id=settings.application_id,
                now_ms=lambda: time.time_ns() // 1_000_000,
            )
        found = await check(history, runner, Wanted(starts, topics, first))
        runner.close()
        return found


# --- output


_COLUMNS: Final[tuple[Column[TopicCheck], ...]] = (
    Column("topic", "Topic", lambda row: row.topic),
    Column("written", "Written", lambda row: row.written, Kind.COUNT),
    Column("recomputed", "Recomputed", lambda row: row.recomputed, Kind.COUNT),
    Column("compared", "Compared", lambda row: _COMPARED[row.compared]),
    *(
        Column(kind, kind.capitalize(), lambda row, kind=kind: row.counts.get(kind, 0), Kind.COUNT)  # type: ignore[misc]  # its type is not inferred
        for kind in (MISSING, DOUBLED, UNEXPECTED, DIFFERENT)
    ),
    Column("verdict", "Verdict", lambda row: _verdict(row)),
)


def _verdict(of: TopicCheck) -> str:
    if of.is_equal:
        return "equal"
    return "differs" if of.is_determined else "not determined"


def print_check(found: Check, serdes: Serdes) -> None:
    """Print the comparison of each topic."""
    print(f"computed the results of {found.processed:,} records again")
    print_rows(_COLUMNS, found.topics)
    for each in found.topics:
        if each.certainty.reason and not each.is_changelog:
            print(f"{each.topic}: {_COMPARED[each.compared]} are compared, because {each.certainty.reason}")
        for line in _deviations(each, serdes):
            print(f"  {line}")
    for note in found.notes:
        print(f"note: {note}")


def _deviations(of: TopicCheck, serdes: Serdes) -> Iterator[str]:
    for each in of.deviations:
        written, recomputed = (_readable(serdes, of, each, value) for value in (each.written, each.recomputed))
        place = f"{each.kind} in partition {each.partition}:"
        if each.kind == DIFFERENT:
            yield f"{place} - {line_of(recomputed)} + {line_of(written)}"
        else:
            times = f" ({each.times_written} times in place of {each.times_recomputed})" if each.kind == DOUBLED else ""
            yield f"{place} {line_of(recomputed if each.kind == MISSING else written)}{times}"
    if of.disordered:
        shown_partitions = ", ".join(map(str, of.disordered))
        yield f"{plural(len(of.disordered), 'partition')} in another order: {shown_partitions}"


def _readable(serdes: Serdes, of: TopicCheck, each: Deviation, value: bytes | None) -> Shown:
    row = Row(each.partition, each.key, value, 0)
    if of.is_changelog:
        return shown(plain(row.key), plain(row.value))
    try:
        key_serde, value_serde = serdes.of(of.topic)
        return shown(key_serde.deserialize(of.topic, row.key), value_serde.deserialize(of.topic, row.value))
    except (CaseError, ValueError):
        return shown(row.key, row.value)


def check_fields(found: Check, serdes: Serdes) -> dict[str, Any]:
    """The comparison as JSON."""
    return {
        "proven": found.is_proven,
        "processed": found.processed,
        "until": {str(key): at for key, at in sorted(found.until.items())},
        "notes": found.notes,
        "topics": [
            {
                "topic": each.topic,
                "changelog": each.is_changelog,
                "written": each.written,
                "recomputed": each.recomputed,
                "compared": each.compared.name.lower(),
                "reason": each.certainty.reason,
                "verdict": _verdict(each),
                "counts": each.counts,
                "disordered": each.disordered,
                "deviations": [
                    {
                        "kind": deviation.kind,
                        "partition": deviation.partition,
                        "written": json.loads(canonical(_readable(serdes, each, deviation, deviation.written))),
                        "recomputed": json.loads(canonical(_readable(serdes, each, deviation, deviation.recomputed))),
                    }
                    for deviation in each.deviations
                ],
            }
            for each in found.topics
        ],
    }
