"""`broker-cy consume`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

import click

from broker_cy.admin import AdminClient
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.group_consumer import COMMIT_S, GroupConsumer
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Span, Start, StartKind
from broker_cy.client.decoded import Seen
from broker_cy.client.group_member import MemberSettings
from broker_cy.client.parsed import Parsed
from broker_cy.commands.context import Target, cluster_command, complete_groups, complete_topics, ended_by_signals
from broker_cy.commands.decoding import Looks, form_options, looks_of
from broker_cy.commands.formats import FORMAT_HELP, Printer, compile_format, delimited
from broker_cy.commands.output import progress
from broker_cy.commands.values import COUNT, DELIMITER, DURATION, FILTER, PARTITIONS, POSITION, chosen
from broker_cy.console.record_filter import FILTER_HELP, PART_HELP, RecordFilter, compile_all
from broker_cy.console.record_json import json_line, seen_line
from broker_cy.console.values import POSITION_HELP
from broker_cy.reporting.foreign_text import escaped
from broker_cy.wire.records import Record

EPILOG = """\b
examples:
  broker-cy consume orders -e                         all records
  broker-cy consume orders --from end                 new records, as they arrive
  broker-cy consume orders -p 0,3 --from -10 -e       the last ten offsets of two partitions
  broker-cy consume orders --from @-1h --to @now -e   the last hour
  broker-cy consume orders -f '%p %o %k: %s\\n' -c 5
  broker-cy consume orders -e --json > orders.jsonl
  broker-cy consume orders --group billing            as a member of a group, from its committed offsets
  broker-cy consume orders -e --filter 'json:$.total > 100' --filter key:order-   records that match both
  broker-cy consume orders -e --registry http://127.0.0.1:8081    values by their schemas, as JSON
"""


@click.command("consume", epilog=EPILOG)
@cluster_command
@click.argument("topic", shell_complete=complete_topics)
@click.option("--partitions", "-p", type=PARTITIONS, metavar="LIST", help="Read only these partitions, such as 0,3-5.")
@click.option(
    "--from",
    "-o",
    "start",
    type=POSITION,
    default="beginning",
    metavar="POSITION",
    show_default=True,
    help=POSITION_HELP + ".",
)
@click.option("--to", "stop", type=POSITION, metavar="POSITION", help="Stop at this position.")
@click.option("--exit", "-e", "at_end", is_flag=True, help="Exit at the end that the partitions have now.")
@click.option("--count", "-c", type=COUNT, help="Exit after this many records.")
@click.option("--format", "-f", "text", metavar="FORMAT", help=FORMAT_HELP + ".")
@click.option("--key-delimiter", "-K", type=DELIMITER, metavar="D", help="Print keys, followed by this delimiter.")
@click.option(
    "--delimiter",
    "-D",
    type=DELIMITER,
    default="\\n",
    metavar="D",
    help=r"Print this after each record. "
    r" [default: \n]",
)
@click.option(
    "--null", "-Z", type=Parsed("text", str), default="", metavar="TEXT", help="Print this for a null key or value."
)
@click.option(
    "--filter",
    "filters",
    type=FILTER,
    multiple=True,
    metavar="PART",
    help=f"Print only records that match: {PART_HELP}. May be repeated: records must match all. {FILTER_HELP}",
)
@click.option(
    "--group",
    "-G",
    metavar="GROUP",
    shell_complete=complete_groups,
    help="Read as a member of this group, which shares the partitions among its members. --from (beginning or end) "
    "applies to partitions without a committed offset.",
)
@click.option(
    "--commit-interval",
    "commit_ms",
    type=DURATION,
    metavar="D",
    help="With --group: commit the offsets of printed records this often.  [default: 5s]",
)
@click.option("--no-commit", is_flag=True, help="With --group: commit no offsets.")
@click.option("--committed", is_flag=True, help="Omit records of open and aborted transactions.")
@form_options
async def command(
    target: Target,
    client: AdminClient,
    topic: str,
    partitions: Sequence[int] | None,
    start: Start,
    stop: Start | None,
    at_end: bool,
    count: int | None,
    text: str | None,
    key_delimiter: bytes | None,
    delimiter: bytes,
    null: str,
    filters: Sequence[RecordFilter],
    group: str | None,
    commit_ms: int | None,
    no_commit: bool,
    committed: bool,
    key_form: str,
    value_form: str,
) -> int:
    """Read records. With --json, print one object per line. --count counts the printed records.

    With a registry, keys and values that name a schema are printed as JSON, and filters look at that. One that cannot
    be decoded is printed as it is; the reason is on the standard error, and the exit code is 1.

    Partitions are interleaved; records of one partition keep their order.

    With --group, offsets are committed after their records were written: each record is printed at least once. The
    member leaves the group at the end, at Ctrl-C, and if the reader of the output closes it.
    """
    show = printer(target.as_json, text, delimiter, key_delimiter, null.encode())
    looks = looks_of(target.cluster, key_form, value_form)
    printing = _Printing(filters, show, looks, as_json=target.as_json)
    isolation = Isolation.READ_COMMITTED if committed else Isolation.READ_UNCOMMITTED
    if group is not None:
        refuse_without_sense(start, {"--partitions": partitions, "--to": stop, "--exit": at_end})
        if no_commit and commit_ms is not None:
            raise click.UsageError("--no-commit cannot be combined with --commit-interval")
        commit_s = None if no_commit else COMMIT_S if commit_ms is None else commit_ms / 1000
        consumer = client.groups.consumer(
            MemberSettings(group), [topic], start=start, isolation=isolation, commit_s=commit_s
        )
        return await _print_group(consumer, printing, count)
    if no_commit or commit_ms is not None:
        raise click.UsageError("--commit-interval and --no-commit need --group")
    keys = chosen(await client.records.partitions(topic), partitions)
    spans = await client.records.spans(keys, start, isolation=isolation)
    ends = None
    if stop is not None:
        ends = {key: span.start for key, span in (await client.records.spans(keys, stop, isolation=isolation)).items()}
    elif at_end:
        ends = {key: span.end for key, span in spans.items()}
    return await _print(client, spans, ends, isolation, printing, count)


def refuse_without_sense(start: Start, given: Mapping[str, object]) -> None:
    """Raise click.UsageError for options that contradict --group: the group decides about partitions and offsets."""
    for name, value in given.items():
        if value:
            raise click.UsageError(f"--group cannot be combined with {name}")
    if start.kind not in (StartKind.EARLIEST, StartKind.LATEST):
        raise click.UsageError(
            "--group starts at the committed offsets: --from, for partitions without one, is beginning or end"
        )


def printer(as_json: bool, text: str | None, delimiter: bytes, key_delimiter: bytes | None, null: bytes) -> Printer:
    """Return the printer for the options. Raises click.UsageError if they contradict each other."""
    if as_json and (text is not None or key_delimiter is not None):
        raise click.UsageError("--json cannot be combined with --format or --key-delimiter")
    if as_json:
        return json_line
    if text is None:
        return delimited(delimiter, key_delimiter, null)
    try:
        return compile_format(text, null)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None


class _Printing:
    """Which records are printed, and how."""

    def __init__(self, filters: Sequence[RecordFilter], show: Printer, looks: Looks | None, *, as_json: bool) -> None:
        self._show = show
        self._show_seen: Callable[[TopicPartition, Seen], bytes] = (
            seen_line if as_json else lambda key, seen: show(key, seen.record)
        )
        self._looks = looks
        self._keep, self.needle = compile_all(filters, is_decoded=looks is not None)

    async def write(self, chunk: Chunk, left: int | None) -> list[Record]:
        """Write the first `left` records of a chunk that match, and return them."""
        key = chunk.partition
        if self._looks is None:
            records = self._keep(chunk.records)[:left]
            lines = [self._show(key, record) for record in records]
        else:
            seen = {each.record.offset: each for each in await self._looks.seen(key.topic, chunk.records)}
            records = self._keep([each.record for each in seen.values()])[:left]
            lines = [self._show_seen(key, seen[record.offset]) for record in records]
            for record in records:
                self._looks.tell(key, seen[record.offset])
        sys.stdout.buffer.write(b"".join(lines))
        sys.stdout.buffer.flush()
        return records

    def end(self) -> int:
        """Report what was not decoded; returns the exit code."""
        return 0 if self._looks is None else self._looks.end()


async def _print(
    client: AdminClient,
    spans: dict[TopicPartition, Span],
    ends: dict[TopicPartition, int] | None,
    isolation: Isolation,
    printing: _Printing,
    count: int | None,
) -> int:
    """Print records to the standard output and skipped ones to the standard error; returns the exit code."""
    starts = {key: span.start for key, span in spans.items()}
    total = None if ends is None else sum(max(0, ends[key] - starts[key]) for key in starts)
    left = count
    quiet = sys.stdout.isatty() or total is None
    code = 0
    needle = printing.needle
    async with client.records.reader(starts, ends=ends, isolation=isolation, containing=needle) as reader:
        with progress("reading", total, quiet=quiet) as advance:
            at = dict(starts)
            async for chunk in reader:
                records = await printing.write(chunk, left)
                key = chunk.partition
                code = max(code, _report_losses(chunk))
                advance(chunk.next_offset - at[key])
                at[key] = chunk.next_offset
                if left is not None:
                    left -= len(records)
                    if left == 0:
                        break
    return max(code, printing.end())


async def _print_group(consumer: GroupConsumer, printing: _Printing, count: int | None) -> int:
    """As `_print`, for a member of a group. A chunk counts as processed once it was written."""
    left = count
    code = 0
    with ended_by_signals():
        async with consumer:
            async for chunk in consumer:
                records = await printing.write(chunk, left)
                code = max(code, _report_losses(chunk))
                if left is not None:
                    left -= len(records)
                    if left == 0:
                        consumer.mark(chunk.partition, records[-1].offset + 1)
                        break
    return max(code, printing.end())


def _report_losses(chunk: Chunk) -> int:
    """Report the records that this chunk lacks; returns exit code 1 if a record could not be read."""
    if chunk.lost_from is not None:
        start = chunk.log_start_offset if chunk.log_start_offset >= 0 else chunk.next_offset
        click.echo(
            f"broker-cy: {chunk.partition}: offsets {chunk.lost_from} to {start - 1} were deleted before being read",
            err=True,
        )
    for damage in chunk.damage:
        click.echo(f"broker-cy: {chunk.partition}: skipped {escaped(damage)}", err=True)
    return 1 if chunk.damage else 0
