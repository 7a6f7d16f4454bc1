"""Ingest: the records of `__broker_metrics` and `__cluster_events` into the tables of a lake, each exactly once.

A batch is a range of offsets. Its records are read, parsed in threads (`spark_analytics.rows`) and written to the files
of the batch (`spark_analytics.batch_files`); when these are on the disk, the lake notes the batch and its end
atomically (`spark_analytics.lake`). After a crash at any time the next ingest begins where the last complete batch
ended. Spark is not needed: a short ingest would spend most of its time on starting a JVM.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from broker_cy.admin import AdminClient
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.reader import Reader
from broker_cy.client.security import OPEN, ClientSecurity
from broker_cy.metrics import events, sample
from broker_cy.wire.records import Record
from spark_analytics import rows
from spark_analytics.batch_files import BatchFiles
from spark_analytics.errors import IngestError
from spark_analytics.lake import Generation, Lake, Offsets, checked
from spark_analytics.sources import Source, Topic, current, enter

TOPICS = (sample.TOPIC, events.TOPIC)
# The maximum number of records of a batch; after an ingest was killed, so many must be read again.
BATCH_RECORDS_MAX = 1_000_000
# Records, and bytes, that are parsed together at most; a sample may have 100 KB.
PIECE_RECORDS_MAX = 10_000
PIECE_BYTES_MAX = 16 << 20
# The time between progress lines about a batch.
PROGRESS_S = 10.0
# Threads that parse. More are not faster, because one at a time holds the interpreter lock.
THREADS_MAX = 4


@dataclass(frozen=True)
class Ingested:
    """The outcome of an ingest."""

    cluster: str
    batches: int
    records: int
    left_out: int  # of these, because they are not an event or sample that this version knows
    seconds: float


def find(bootstrap: str, cluster: str | None, security: ClientSecurity | None = None) -> Source:
    """Examine the cluster. By default its name in the lake is its id; `security` is for brokers that require it. Raises
    ClientError if the cluster cannot be reached, IngestError if it has neither topic, and LakeError for an invalid
    name.
    """
    if cluster is not None:
        checked(cluster)
    return asyncio.run(_find(bootstrap, cluster, security or OPEN))


async def _find(bootstrap: str, cluster: str | None, security: ClientSecurity) -> Source:
    async with AdminClient(bootstrap, login=security.login, tls=security.tls) as client:
        known = {topic.name: topic for topic in await client.topics.list_all() if topic.name in TOPICS}
        if not known:
            raise IngestError(
                f"{bootstrap} has neither {' nor '.join(TOPICS)}: only broker-cy writes them, unless "
                "brokercy.metrics.sample.interval.ms=0 and brokercy.events.enable=false"
            )
        described = await client.cluster.describe()
        source = described.cluster_id or "cluster"
        parts = {
            name: [TopicPartition(name, each.partition) for each in topic.partitions] for name, topic in known.items()
        }
        everywhere = [each for of_topic in parts.values() for each in of_topic]
        starts = (await client.offsets.earliest(everywhere)).whole()
        ends = (await client.offsets.latest(everywhere)).whole()
        topics = {
            name: Topic(
                str(known[name].topic_id),
                {each.partition: starts[each] for each in of_topic},
                {each.partition: ends[each] for each in of_topic},
            )
            for name, of_topic in parts.items()
        }
        nodes = frozenset(each.broker_id for each in described.brokers)
        return Source(bootstrap, cluster or source, source, nodes, topics, security)


def ingest(
    lake: Lake,
    source: Source,
    *,
    accept_loss: bool = False,
    replaces: str | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> Ingested:
    """Read everything from the end of the last ingest to that of the source. `replaces` is the id of another source of
    the same cluster; its nodes belong to this source from now on. Raises ClientError, IngestError and
    LakeError.
    """
    try:
        enter(lake, source, replaces)
        with lake.locked(source.cluster, source.source):
            return _locked(lake, _again(source), accept_loss, show)
    except OSError as error:
        # Arrow adds its own words to the system's message.
        raise IngestError(f"{lake.path}: {os.strerror(error.errno) if error.errno else error}") from None


def _again(source: Source) -> Source:
    """Examine the source again, now that the lake is locked: another ingest may have read past the earlier ends. Raises
    ClientError, and IngestError if it is another cluster now.
    """
    found = find(source.bootstrap, source.cluster, source.security)
    if found.source != source.source:
        raise IngestError(f"{source.bootstrap} was cluster {source.source}, and is {found.source} now: ingest again")
    return found


def _locked(lake: Lake, source: Source, accept_loss: bool, show: Callable[[str], None]) -> Ingested:
    """Ingest while the lake is locked. Raises IngestError, ClientError and OSError."""
    generation, noted, notes = current(lake, source)
    for note in notes:
        show(f"{source.bootstrap}: {note}")
    began_s = time.monotonic()
    starts = _begin(source, noted, accept_loss, show)
    batches, records, left_out = asyncio.run(_run(source, generation, starts, accept_loss, show))
    return Ingested(source.cluster, batches, records, left_out, time.monotonic() - began_s)


def _begin(source: Source, noted: Offsets, accept_loss: bool, show: Callable[[str], None]) -> Offsets:
    """Return where the next batch begins: at `noted`, or at the first record of a partition that was never read.

    Raises IngestError if records in between were lost, unless that is accepted.
    """
    starts: Offsets = {}
    for name, topic in source.topics.items():
        starts[name] = {}
        for part, first in topic.starts.items():
            at, end = noted.get(name, {}).get(part, first), topic.ends[part]
            if at > end:
                reason = f"{name}-{part} ends at offset {end}, and was ingested up to offset {at}"
                if not accept_loss:
                    raise IngestError(
                        f"{source.bootstrap}: {reason}: the broker lost records. --accept-loss continues at {end}"
                    )
                show(f"{source.bootstrap}: {reason}: continues at {end}")
                at = end
            if at < first:
                _lost(source, TopicPartition(name, part), at, first, accept_loss, show)
                at = first
            starts[name][part] = at
    return starts


def _lost(
    source: Source, part: TopicPartition, start: int, end: int, accept_loss: bool, show: Callable[[str], None]
) -> None:
    """Report records that retention removed before they were read. Raises IngestError unless that is accepted."""
    reason = f"{source.bootstrap}: {part}: offsets {start} to {end - 1} were not ingested yet and are gone: retention "
    if not accept_loss:
        raise IngestError(f"{reason}removed them. Ingest more often than that; --accept-loss continues after them")
    show(f"{reason}removed them")


async def _run(
    source: Source, generation: Generation, starts: Offsets, accept_loss: bool, show: Callable[[str], None]
) -> tuple[int, int, int]:
    """Ingest up to the source's ends, batch by batch; returns the numbers of batches, records, and records left out."""
    number = first = generation.complete
    records = left_out = 0
    async with AdminClient(source.bootstrap, login=source.security.login, tls=source.security.tls) as client:
        with ThreadPoolExecutor(min(THREADS_MAX, os.cpu_count() or 1)) as pool:
            while ends := _next_ends(source, starts):
                batch = _Batch(generation, number, pool)
                until = _flat(ends)
                reader = client.records.reader(_flat(starts), ends=until)
                read, missed = await batch.read(reader, until, source, accept_loss, show)
                generation.note(number + 1, ends)
                show(f"batch {number}: {read:,} records")
                starts, number = ends, number + 1
                records, left_out = records + read, left_out + missed
    return number - first, records, left_out


def _next_ends(source: Source, starts: Offsets) -> Offsets:
    """Return the end of the next batch; empty if nothing is left. Each partition gets records of the batch in
    proportion to its remaining ones, so that all partitions approach their ends together.
    """
    left = {(name, part): source.topics[name].ends[part] - at for name, of in starts.items() for part, at in of.items()}
    total = sum(left.values())
    if total == 0:
        return {}
    share = min(1.0, BATCH_RECORDS_MAX / total)
    return {
        name: {part: at + min(left[name, part], -int(-left[name, part] * share // 1)) for part, at in of.items()}
        for name, of in starts.items()
    }


def _flat(offsets: Offsets) -> dict[TopicPartition, int]:
    return {TopicPartition(name, part): at for name, of in offsets.items() for part, at in of.items()}


class _Batch:
    """Reads one batch and writes its files. Pieces of records are parsed in threads while more are read; at most two of
    them for each thread wait.
    """

    def __init__(self, generation: Generation, number: int, pool: ThreadPoolExecutor) -> None:
        self._number = number
        self._folders = generation.folders(number)
        self._pool = pool
        self._parsing: deque[asyncio.Future[rows.Rows]] = deque()
        self._pieces: dict[str, list[Record]] = {name: [] for name in TOPICS}
        self._bytes = dict.fromkeys(TOPICS, 0)
        self._left_out = 0

    async def read(
        self,
        reader: Reader,
        until: Mapping[TopicPartition, int],
        source: Source,
        accept_loss: bool,
        show: Callable[[str], None],
    ) -> tuple[int, int]:
        """Write all records of the reader, which end at `until`. Returns the number of records, and of those left out;
        the files are then on the disk. Raises IngestError, ClientError and OSError.
        """
        count, shown_s = 0, time.monotonic()
        with _no_collection(), BatchFiles(self._folders) as files:
            async with reader:
                async for chunk in reader:
                    part = chunk.partition
                    if chunk.lost_from is not None:
                        end = chunk.records[0].offset if chunk.records else chunk.next_offset
                        # The next batch, or the next ingest, reports records lost beyond that.
                        end = min(end, until[part])
                        _lost(source, part, chunk.lost_from, end, accept_loss, show)
                    for text in chunk.damage:
                        show(f"{source.bootstrap}: {part}: left out, because it is damaged: {text}")
                    count += len(chunk.records)
                    if time.monotonic() - shown_s >= PROGRESS_S:
                        shown_s = time.monotonic()
                        show(f"batch {self._number}: {count:,} records read so far")
                    self._pieces[part.topic] += chunk.records
                    self._bytes[part.topic] += chunk.size_bytes
                    if len(self._pieces[part.topic]) >= PIECE_RECORDS_MAX or self._bytes[part.topic] >= PIECE_BYTES_MAX:
                        await self._parse(part.topic, files)
            for topic in TOPICS:
                await self._parse(topic, files)
            while self._parsing:
                await self._take(files)
            await asyncio.to_thread(files.complete)
        return count, self._left_out

    async def _parse(self, topic: str, files: BatchFiles) -> None:
        piece, self._pieces[topic], self._bytes[topic] = self._pieces[topic], [], 0
        if not piece:
            return
        while len(self._parsing) >= 2 * THREADS_MAX:
            await self._take(files)
        self._parsing.append(asyncio.get_running_loop().run_in_executor(self._pool, _rows_of, topic, piece))

    async def _take(self, files: BatchFiles) -> None:
        """Write the rows of the oldest piece."""
        found = await self._parsing.popleft()
        self._left_out += found.left_out
        await asyncio.to_thread(files.add, found.tables)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Run the garbage collector only after a batch: its many objects have no cycles, and collections take a quarter of
    the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
        gc.collect()


def _rows_of(topic: str, records: list[Record]) -> rows.Rows:
    values = pa.array([each.value for each in records], pa.binary())
    if topic == sample.TOPIC:
        return rows.samples_of(values)
    return rows.events_of(pa.array([each.key for each in records], pa.binary()), values)
