"""Records that left the page cache are read by worker threads: a loop that waits for a disk keeps every producer
waiting.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from broker_cy.storage import disk, page_cache
from broker_cy.storage.cold_lookup import look_up
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire import messages
from broker_cy.wire.frame import ApiKey
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import (
    DEADLINE_S,
    CoreHarness,
    RawClient,
    fetch_from,
    fetch_request,
    produce_to,
)

BATCHES = 600
BATCH_BYTES = 16 << 10
SEGMENT_BYTES = 3 << 20
FIRST_MS = 1_700_000_000_000
PASSES_MAX = 20
PAGE_BYTES = 4096
INLINE_BYTES_MAX = 32 << 10  # larger record sets are sent with sendfile


class CountingExecutor(ThreadPoolExecutor):
    """One worker; counts its jobs by the function's name."""

    def __init__(self) -> None:
        super().__init__(1)
        self.calls: list[str] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        self.calls.append(function.__name__)
        return super().submit(function, *arguments, **named)


class ColdLog:
    """A log of several segments on a running core; `evict` evicts it from memory."""

    def __init__(self, core: CoreHarness) -> None:
        self.core = core
        self.worker = CountingExecutor()
        core.on_loop(lambda: setattr(core.core, "cold_reader", self.worker))
        core.topic("cold")
        self.directory = Path(core.directory.name) / "cold-0"
        partition = core.table.get("cold", 0)
        assert partition is not None
        self.log: Log = partition.log
        core.on_loop(lambda: self.log.reconfigure(LogConfig(segment_bytes=SEGMENT_BYTES)))
        self.content = b"".join(batch(number) for number in range(BATCHES))
        client = core.client()
        for number in range(BATCHES):
            assert produce_to(client, "cold", bytes(8) + batch(number)[8:]).error_code == 0
        client.close()

    def evict(self) -> None:
        """Evict until no page is left: the kernel keeps pages that are in use at that moment. Skips the test if files
        cannot leave memory, as on a tmpfs.
        """
        deadline = time.monotonic() + DEADLINE_S
        for path in self.directory.iterdir():
            fd = os.open(path, os.O_RDONLY)
            try:
                pages = range(0, os.fstat(fd).st_size, PAGE_BYTES)
                while pages:
                    os.fsync(fd)
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    left = sum(page_cache.cached(fd, at, 1) for at in pages)
                    if not left:
                        break
                    if left == len(pages) and time.monotonic() > deadline:
                        pytest.skip(f"the file system of {self.directory} keeps its files in memory")
                    assert time.monotonic() < deadline, f"{left} pages of {path} stay in memory"
            finally:
                os.close(fd)

    def warm(self) -> None:
        """Read until the kernel reports all pages as resident: it may drop pages that were just read."""
        deadline = time.monotonic() + DEADLINE_S
        for path in self.directory.iterdir():
            with path.open("rb") as file:
                while not page_cache.cached(file.fileno(), 0, len(path.read_bytes())):
                    assert time.monotonic() < deadline, f"{path} does not stay in memory"


def batch(number: int) -> bytes:
    value = number.to_bytes(4, "big") * (BATCH_BYTES // 4)
    return encode_batch([Record(timestamp=FIRST_MS + number, value=value)], base_offset=number, leader_epoch=0)


def disk_bytes(thread_id: int) -> int:
    """Return the bytes that a thread of this process read from the disk."""
    for line in Path(f"/proc/self/task/{thread_id}/io").read_text().splitlines():
        if line.startswith("read_bytes:"):
            return int(line.split()[1])
    raise AssertionError("the kernel counts no read_bytes")


def major_faults(thread_id: int) -> int:
    """Return the pages of programs and libraries for which a thread of this process waited; the kernel reads many
    around each.
    """
    fields = Path(f"/proc/self/task/{thread_id}/stat").read_text().rpartition(")")[2].split()
    return int(fields[9])


@pytest.fixture
def core() -> Iterator[CoreHarness]:
    harness = CoreHarness()
    try:
        yield harness
    finally:
        harness.close()


@pytest.fixture
def cold(core: CoreHarness) -> Iterator[ColdLog]:
    log = ColdLog(core)
    try:
        log.evict()
        yield log
    finally:
        disk.set_read_refusals(0)
        log.worker.shutdown()


@pytest.fixture
def client(core: CoreHarness) -> Iterator[RawClient]:
    raw = core.client()
    try:
        yield raw
    finally:
        raw.close()


@pytest.mark.parametrize("max_bytes", [1, 20_000, INLINE_BYTES_MAX + BATCH_BYTES, 1 << 20, 50 << 20])
def test_cold_log_is_served_whole_and_the_loop_reads_nothing_of_it(
    cold: ColdLog, client: RawClient, max_bytes: int
) -> None:
    """A consumer that is far behind gets every byte, and producers do not wait for its disk reads."""
    loop_id = cold.core.thread.native_id
    assert loop_id is not None
    first = BATCHES - 5 if max_bytes == 1 else 0  # one batch per fetch: a few of them
    for _ in range(PASSES_MAX):
        cold.evict()
        cold.worker.calls.clear()
        before, faults = disk_bytes(loop_id), major_faults(loop_id)
        fetches, got = drain(client, first, max_bytes)
        read = disk_bytes(loop_id) - before
        assert got == cold.content[first * len(batch(0)) :]
        # The few pages of a small fetch may all be there by the time the loop asks for them: see below.
        if cold.worker.calls and major_faults(loop_id) == faults:
            break
    else:
        raise AssertionError("no page was read by the worker, or the loop's own code never stayed in memory")
    # When the loop finds a page missing, it may already request it, and a fast disk may even deliver it before the call
    # ends: the header of a batch, or a small response. Only the worker waits; sendfile only sends bytes that were in
    # memory before.
    in_passing = 2 * PAGE_BYTES + (max_bytes if max_bytes <= INLINE_BYTES_MAX else 0)
    if max_bytes == 1:
        in_passing += len(batch(0))
    assert read <= (fetches + len(cold.worker.calls)) * in_passing


def drain(client: RawClient, first: int, max_bytes: int) -> tuple[int, bytes]:
    """Return how many fetches of `max_bytes` it took, and every complete batch from offset `first` to the end."""
    fetches = 0
    got = bytearray()
    offset = first
    while offset < BATCHES:
        records = fetch_from(client, "cold", offset, max_bytes=max_bytes).records
        fetches += 1
        size = len(batch(offset))
        whole = len(records) // size * size
        assert whole >= size
        got += records[:whole]
        offset += whole // size
    return fetches, bytes(got)


def test_lookup_far_into_a_cold_log(cold: ColdLog, client: RawClient) -> None:
    """A seek to the middle needs the index, a batch header and records, all of them cold."""
    got = fetch_from(client, "cold", 417, max_bytes=1).records
    assert got == batch(417)
    assert cold.worker.calls.count("warm_paths") <= 3


def test_warm_log_needs_no_worker(cold: ColdLog, client: RawClient) -> None:
    """Records in memory are sent immediately: passing them to a thread would cost every consumer time."""
    cold.warm()
    records = fetch_from(client, "cold", 300).records
    assert cold.content[300 * len(batch(0)) :].startswith(records)
    assert len(records) > BATCH_BYTES
    assert cold.worker.calls == []


def test_each_missing_part_is_read_once_and_looked_up_again(cold: ColdLog, client: RawClient) -> None:
    """Index, header, header: however many parts on the way are missing, the right records are returned."""
    cold.warm()
    disk.set_read_refusals(3)
    assert fetch_from(client, "cold", 417, max_bytes=1).records == batch(417)
    assert cold.worker.calls == ["warm_paths"] * 3


def test_fetch_that_memory_cannot_hold_comes_to_an_end(cold: ColdLog, client: RawClient) -> None:
    """If pages are evicted as fast as they are read, a fetch waits for the disk rather than being repeated forever."""
    cold.warm()
    disk.set_read_refusals(1 << 40)
    assert fetch_from(client, "cold", 417, max_bytes=1).records == batch(417)
    assert 0 < cold.worker.calls.count("warm_paths") < 100


def test_loop_goes_on_while_a_worker_reads(cold: ColdLog, client: RawClient) -> None:
    """Another consumer is answered while the disk is slow."""
    release = threading.Event()
    blocked = cold.worker.submit(release.wait, DEADLINE_S)
    other = cold.core.client()
    cold.core.topic("other")
    disk.set_read_refusals(1)
    try:
        client.send(client.encode(fetch_request("cold", 0, 0), ApiKey.FETCH, 11))
        cold.core.wait_until(lambda: "warm_paths" in cold.worker.calls)
        assert fetch_from(other, "other", 0).error_code == 0
    finally:
        other.close()
        release.set()
    blocked.result(DEADLINE_S)
    _, response = client.receive(ApiKey.FETCH, 11, messages.FetchResponse)
    assert cold.content.startswith(response.responses[0].partitions[0].records)


def test_connection_that_ends_while_a_worker_reads(cold: ColdLog, client: RawClient) -> None:
    """The response has no recipient; the broker continues."""
    release = threading.Event()
    cold.worker.submit(release.wait, DEADLINE_S)
    leaving = cold.core.client()
    disk.set_read_refusals(1)
    leaving.send(leaving.encode(fetch_request("cold", 0, 0), ApiKey.FETCH, 11))
    cold.core.wait_until(lambda: "warm_paths" in cold.worker.calls)
    leaving.close()
    cold.core.wait_until(lambda: len(cold.core.core.connections) == 1)
    release.set()
    assert fetch_from(client, "cold", 0, max_bytes=1).records == batch(0)


def offset_by_time(cold: ColdLog, timestamp: int) -> Any:
    """Search as the ListOffsets handler does."""
    broker: Any = SimpleNamespace(loop=cold.core.loop, cold_reader=cold.worker)

    async def find() -> Any:
        return await look_up(broker, cold.log.offset_for_timestamp, timestamp)

    return asyncio.run_coroutine_threadsafe(find(), cold.core.loop).result(DEADLINE_S)


def test_offset_by_time_in_a_cold_log(cold: ColdLog) -> None:
    """A search by time in a log that left memory finds the same record."""
    assert offset_by_time(cold, FIRST_MS + 321) == (FIRST_MS + 321, 321)


@pytest.mark.parametrize("refusals", [1, 2, 3, 1 << 40])
def test_search_by_time_has_a_worker_read_what_is_missing(cold: ColdLog, refusals: int) -> None:
    """ListOffsets by time blocks no producer, and also ends if nothing stays in memory."""
    cold.warm()
    disk.set_read_refusals(refusals)
    assert offset_by_time(cold, FIRST_MS + 321) == (FIRST_MS + 321, 321)
    assert 1 <= cold.worker.calls.count("warm_path") <= refusals


def test_requests_of_one_session_do_not_share_what_they_read(cold: ColdLog) -> None:
    """If this fails, the answer to a fetch that waits for the disk has the records of the next one."""
    client = cold.core.client()
    fields: dict[str, Any] = {"max_bytes": BATCH_BYTES, "max_wait_ms": 600_000}
    first = fetch_request("cold", 0, 0, session_id=0, session_epoch=0, **fields)
    session_id = client.call(first, ApiKey.FETCH, 11, messages.FetchResponse).session_id
    cold.evict()
    gate = threading.Event()
    cold.worker.submit(gate.wait, DEADLINE_S)
    try:
        same = messages.FetchRequest(session_id=session_id, session_epoch=1, min_bytes=1, **fields)
        other = fetch_request("cold", 0, BATCHES // 2, session_id=session_id, session_epoch=2, **fields)
        for request in (same, other):
            before = cold.core.core.requests
            client.send(client.encode(request, ApiKey.FETCH, 11))
            cold.core.wait_until(lambda before=before: cold.core.core.requests > before)  # type: ignore[misc]
    finally:
        gate.set()
    for offset in (0, BATCHES // 2):
        _, answer = client.receive(ApiKey.FETCH, 11, messages.FetchResponse)
        (part,) = answer.responses[0].partitions
        assert (part.error_code, int.from_bytes(part.records[:8])) == (0, offset)
    client.close()
