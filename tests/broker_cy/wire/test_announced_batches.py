"""Batches in an answer that announce gigabytes, in each of our clients (CVE-2023-34455)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker_cy.admin.fetched import decode_partition
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.core.errors import WireError
from broker_cy.wire import messages
from broker_cy.wire.columns import Columns
from broker_cy.wire.compression import Codec
from broker_cy.wire.records import Record, decode_batches, encode_batch
from loadgen.verify import stamps
from loadgen.verify.reading import Reading
from tests.support.announced_batches import PAYLOADS, batch_of

MIB = 1 << 20
SELF = Path("/proc/self")


@pytest.fixture
def memory() -> Iterator[Callable[[], int]]:
    """A function that returns the larger of two peaks: memory that Python allocated, and growth of resident memory."""
    tracemalloc.start()
    # The peak counts from here.
    (SELF / "clear_refs").write_text("5")
    before, resident = tracemalloc.get_traced_memory()[0], _peak()
    tracemalloc.reset_peak()
    yield lambda: max(tracemalloc.get_traced_memory()[1] - before, _peak() - resident)
    tracemalloc.stop()


def _peak() -> int:
    fields = dict(line.split(":") for line in (SELF / "status").read_text().splitlines())
    return int(fields["VmHWM"].split()[0]) << 10


def consume(data: bytes) -> bool:
    """Decode like `broker-cy topics consume` and the consoles."""
    part = messages.FetchResponse.PartitionData(partition_index=0, high_watermark=1, records=data)
    chunk = decode_partition(TopicPartition("t", 0), part, 0, None, Isolation.READ_COMMITTED)
    assert bool(chunk.damage) != bool(chunk.records)
    return not chunk.damage


def verify(data: bytes) -> bool:
    """Decode like the load generators."""
    reading, notes = Reading("t", 0, []), list[str]()
    (batch,) = decode_batches(data)
    stamps.feed(reading, batch, 1, 0, notes.append)
    assert reading.counts.damaged == len(notes)
    return not notes


def analyse(data: bytes) -> bool:
    """As the analytics do."""
    columns = Columns(10, MIB)
    (batch,) = decode_batches(data)
    try:
        columns.begin(batch, 0, 1)
    except WireError:
        return False
    assert columns.fill()
    return True


@pytest.mark.parametrize("client", [consume, verify, analyse])
def test_no_memory_is_taken_for_what_is_announced(client: Callable[[bytes], bool], memory: Callable[[], int]) -> None:
    """If this fails, a malicious record stops every reader of the topic."""
    assert client(encode_batch([Record(value=b"x")], codec=Codec.SNAPPY))
    for codec, payload in PAYLOADS:
        assert not client(batch_of(codec, payload))
    assert memory() < 16 * MIB
