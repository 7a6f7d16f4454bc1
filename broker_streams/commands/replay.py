"""`broker-streams replay`."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.metadata import TopicPartition
from broker_cy.client.confirmation import confirm
from broker_cy.core.errors import ErrorCode
from broker_cy.reporting.numbers import plural
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
from broker_streams.commands.verify import check_fields, print_check
from broker_streams.hosts.seeding import ChangeRecord, Seed
from broker_streams.hosts.settings import HostSettings
from broker_streams.offline.certainty import Certainties
from broker_streams.offline.checking import Check, Wanted, check, repartition_partitions
from broker_streams.offline.cut import committed_offsets, consistent_cut, waiting_records
from broker_streams.offline.history import Archive, History
from broker_streams.offline.inputs import COMMITTED, EARLIEST, POINT_HELP, counts_of, feed, point
from broker_streams.offline.runner import Result, Runner
from broker_streams.plan.topology import Source
from broker_streams.testing.case_run import Serdes

EPILOG: Final = """\b
examples:
  broker-streams replay new.py --application-id orders-2 --dry-run     how the past would have been
  broker-streams replay new.py --application-id orders-2               give it its state, and the offsets to go on from
  broker-streams run new.py -X application.id=orders-2                 go on live, exactly there
"""
# Between two looks at repartition topics.
_PAUSE_S: Final = 0.2


@dataclass
class Replayed:
    """`check`: the results of the new version beside those that the old one wrote. `written`: records of changelogs."""

    application_id: str
    old_id: str
    check: Check
    topics: tuple[str, ...] = ()
    written: int = 0
    notes: list[str] = field(default_factory=list)


@click.command("replay", epilog=EPILOG)
@application_argument
@click.option("--application-id", required=True, metavar="ID", help="The id of the new version, which must be unused.")
@click.option(
    "--old",
    "old_id",
    metavar="ID",
    help="The application that it takes over from.  [default: application.id of APP.py]",
)
@click.option(
    "--from", "begin", default=EARLIEST, show_default=True, metavar="POINT", help=f"Where it begins: {POINT_HELP}."
)
@click.option(
    "--until",
    "end",
    default=COMMITTED,
    show_default=True,
    metavar="POINT",
    help="Where it goes on live: what the old version has committed, or as --from, without an old version.",
)
@click.option(
    "--drain",
    metavar="OLD.py",
    type=click.Path(path_type=Path),
    help="The file of the old version: let it process first what is left in its repartition topics, and nothing else.",
)
@click.option("--dry-run", is_flag=True, help="Only compare its results with those of the old version.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@history_options
@first_option("Deviations")
@settings_option
@bootstrap_option
@json_option
@click.pass_context
def replay_command(
    context: click.Context, /, file: Path, application_id: str, old_id: str | None, begin: str, end: str,
    drain: Path | None, dry_run: bool, yes: bool, first: int, segments: tuple[Path, ...], lake: Path | None,
    accept_gaps: bool, changed: tuple[str, ...], bootstrap: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Run a changed application over history, up to the offsets at which the old version stopped.

    It writes no results of the past: these are compared with those of the old version, and shown. Its state is written
    into changelogs under the new id, with the offsets of the old version. Started under that id, it goes on with the
    first record that the old version did not process. Stop the old version first; --dry-run works while it runs.

    With --until, it goes on at that point instead, and nothing is compared.
    """
    with errors(context, as_json=as_json):
        application = load(file, changes(changed, bootstrap))
        old = old_id or str(application.config.get("application.id") or "")
        if not old:
            raise ClientError(Failure.INVALID, "the old application is not known: use --old", what=str(file))
        if old == application_id:
            reason = f"--application-id {application_id} is the old application; choose another id"
            raise ClientError(Failure.INVALID, reason)
        if end != COMMITTED and dry_run:
            raise ClientError(Failure.INVALID, "--dry-run compares with an old version, which --until is without")
        if drain is not None and (end != COMMITTED or dry_run):
            raise ClientError(Failure.INVALID, "--drain is for a takeover: leave out --until and --dry-run")
        archive = archive_of(segments, lake, accept_gaps=accept_gaps)
        if not dry_run:
            confirm(PROGRAM, f"Create the state of {application_id} from history?", yes=yes, as_json=as_json)
        if drain is not None:
            before = load(drain, {**changes(changed, bootstrap), "application.id": old})
            asyncio.run(_drain(before, old))
        new = application._replace(config={**application.config, "application.id": application_id})
        found = asyncio.run(_replay(new, old, (begin, end), first, archive, dry_run=dry_run))
        serdes = Serdes(application.topology, new.config, {})
        if as_json:
            print(json.dumps(_fields(found, serdes, dry_run=dry_run), ensure_ascii=False))
        else:
            _print(found, serdes, file, dry_run=dry_run)


async def _replay(
    new: Application, old_id: str, span: tuple[str, str], first: int, archive: Archive | None, *, dry_run: bool
) -> Replayed:
    settings = HostSettings.of(new.config)
    async with client_of(new, f"{PROGRAM}-replay") as client:
        history = History(client, isolation_of(settings), archive)
        runner = Runner(new.topology, settings.task, await counts_of(client, new.topology))
        inputs = [TopicPartition(*place) for place in runner.inputs]

        async def at(text: str) -> dict[TopicPartition, int]:
            now_ms = lambda: time.time_ns() // 1_000_000  # noqa: E731
            return await point(history, inputs, text, group_id=old_id, now_ms=now_ms)

        begin, end = span
        starts = {} if begin == EARLIEST else await at(begin)
        wanted = Wanted(starts, (), first, old_id, with_changelogs=False)
        if dry_run:
            return Replayed(settings.application_id, old_id, await check(history, runner, wanted))
        await _require_complete(history, runner)
        if end == COMMITTED:
            await _require_stopped(client, old_id)
            # Before anything is written: the offsets at which the old version stopped are whole.
            existing = {each.name: len(each.partitions) for each in await client.topics.list_all()}
            await consistent_cut(client, old_id, [], await repartition_partitions(client, old_id, existing))
        seed = await _seed(client, runner, settings)

        async def take(made: list[Result]) -> None:
            await seed.take(
                ChangeRecord(each.topic, each.partition or 0, each.key or b"", each.value, each.timestamp, each.headers)
                for each in made
                if each.is_change
            )

        if end == COMMITTED:
            found = await check(history, runner, wanted, take)
            # The old version did not start meanwhile.
            await _require_stopped(client, old_id)
        else:
            first_offsets = await at(EARLIEST)
            begins = {key: starts.get(key, first_offsets[key]) for key in inputs}
            until = {key: max(begins[key], reached) for key, reached in (await at(end)).items()}
            found = Check(await feed(history, runner, begins, until, take), until, [])
        texts = {TopicPartition(*place): text for place, text in runner.metadata().items()}
        # Repartition topics are empty: their records are processed.
        await seed.finish({key: found.until.get(key, 0) for key in texts}, texts)
        runner.close()
        return Replayed(settings.application_id, old_id, found, seed.topics, seed.written)


async def _require_complete(history: History, runner: Runner) -> None:
    """Raise ClientError if compaction may have removed records that the state depends on."""
    compacted = await history.compacted(topic for topic, _ in runner.inputs)
    streams = Certainties(
        runner.topology, runner.settings, uses_clock=False, compacted=compacted
    ).streams_of_compacted_topics()
    if streams and runner.topology.stores:
        reason = "it is compacted, and read as a stream: records that the state depends on may be gone"
        raise ClientError(Failure.REFUSED, reason, what=f"topic {streams[0]}")


async def _drain(old: Application, old_id: str) -> None:
    """Run the old version on its repartition topics only, until no record waits there. Raises ClientError,
    StreamsError.
    """
    from broker_streams.hosts.embedded.host import EmbeddedHost

    settings, topology = HostSettings.of(old.config), old.topology
    internal = [topology.decorated(each.name, old_id) for each in topology.repartition_topics]
    async with client_of(old, old_id) as client:
        await _require_stopped(client, old_id)
        keys = [key for topic in internal for key in await client.records.partitions(topic)]
        host = EmbeddedHost(client, topology, settings)
        sources = (node for node in topology.nodes if isinstance(node, Source))
        host.tasks.paused = frozenset(topic for node in sources for topic in node.topics) - frozenset(internal)
        running = asyncio.create_task(host.run())
        try:
            while not running.done() and await waiting_records(client, keys, await committed_offsets(client, old_id)):
                await asyncio.sleep(_PAUSE_S)
            host.stop()
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def _seed(client: AdminClient, runner: Runner, settings: HostSettings) -> Seed:
    """A seed with its topics. Raises ClientError: the application exists."""
    topology = runner.topology
    seed = Seed(client, topology, settings)
    await seed.require_new()
    tasks = {part.number: runner.partitions_of_task(part) for part in topology.subtopologies()}
    internal = [topology.decorated(each.name, settings.application_id) for each in topology.repartition_topics]
    await seed.create_topics(tasks, {topic: runner.count_of(topic) for topic in internal})
    return seed


async def _require_stopped(client: AdminClient, old_id: str) -> None:
    described = await client.groups.describe([old_id])
    group = described.found.get(old_id)
    if group is None:
        error = described.failed[old_id]
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            raise ClientError(
                Failure.INVALID, "it does not exist: name the old one with --old", what=f"application {old_id}"
            )
        raise error
    if group.members:
        reason = f"it has {plural(len(group.members), 'member')}: stop it first, or use --dry-run"
        raise ClientError(Failure.REFUSED, reason, what=f"application {old_id}")


# --- output


def _fields(found: Replayed, serdes: Serdes, *, dry_run: bool) -> dict[str, Any]:
    fields = check_fields(found.check, serdes)
    del fields["proven"]
    return {
        "application_id": found.application_id,
        "old": found.old_id,
        "dry_run": dry_run,
        "created_topics": list(found.topics),
        "written": found.written,
        **fields,
    }


def _print(found: Replayed, serdes: Serdes, file: Path, *, dry_run: bool) -> None:
    print_check(found.check, serdes)
    if dry_run:
        print("nothing was written")
        return
    written = plural(found.written, "record")
    print(f"wrote {written} of state; {found.application_id} goes on at the offsets of this point:")
    print(f"  {PROGRAM} run {file} -X application.id={found.application_id}")
