"""Checksums of segments that a start found: no damage reaches a consumer, and no consumer waits unnecessarily."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_cy.core.errors import ErrorCode
from broker_cy.replica.partition import Partition
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.wire.records import Record, encode_batch
from tests.broker_cy.connections.harness import SETTINGS, CoreHarness, RawClient, fetch_from
from tests.broker_cy.storage.batches import overwrite
from tests.broker_cy.storage.managing import TOPIC_ID, Manager, open_manager

BATCHES = 400
VALUE = b"v" * (64 << 10)


def batch(number: int) -> bytes:
    return encode_batch([Record(timestamp=1_000, value=VALUE)], base_offset=number, leader_epoch=0)


SIZE = len(batch(0))


class Restarted(CoreHarness):
    """A topic `t` whose only segment of 26 MB was found by a start after a clean stop; `damage` is applied to it
    before.
    """

    def __init__(self, path: Path, damage: list[int]) -> None:
        super().__init__()
        manager = open_manager(path)
        log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
        for number in range(BATCHES):
            log.append(batch(number), 1_000)
        name = log.active.path
        manager.stop()
        with open(name, "r+b") as file:
            for number in damage:
                file.seek(number * SIZE + 1_000)
                file.write(b"?")
        self.manager: Manager = open_manager(path)
        self.log: Log = self.manager.logs["t", 0]
        self.on_loop(lambda: serve(self, self.log))


def serve(harness: CoreHarness, log: Log) -> None:
    """Serve a log as partition 0 of the topic `t`; to be called on the loop."""
    partition = Partition(harness.core, "t", 0, TOPIC_ID, log, 0)
    partition.configure(SETTINGS)
    harness.table.add(partition)


@pytest.fixture
def restarted(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Restarted]:
    harness = Restarted(tmp_path, getattr(request, "param", []))
    yield harness
    harness.close()
    harness.manager.crash()


@pytest.fixture
def client(restarted: Restarted) -> Iterator[RawClient]:
    raw = restarted.client()
    yield raw
    raw.close()


def read(client: RawClient, offset: int, max_bytes: int = 1 << 20) -> Any:
    return fetch_from(client, "t", offset, max_bytes=max_bytes)


@pytest.mark.parametrize("restarted", [[3, 200]], indirect=True)
def test_a_reader_waits_for_the_check_of_what_it_reads(restarted: Restarted, client: RawClient) -> None:
    """If this fails, after each restart a consumer at the tail waits until a segment of 1 GiB is read; or damage is
    served.
    """
    tail = read(client, BATCHES - 1)
    assert (tail.error_code, tail.records) == (0, batch(BATCHES - 1))
    # The damage is far before the part that it reads, and was not found.
    assert restarted.log.offline is None
    assert restarted.log.active.unverified_bytes == (BATCHES - 1) * SIZE
    middle = read(client, 300)
    assert middle.records[:SIZE] == batch(300)
    left = restarted.log.active.unverified_bytes
    assert (BATCHES - 1) * SIZE - (8 << 20) < left < (BATCHES - 1) * SIZE - (1 << 20), "checked a little ahead"
    assert read(client, 199).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "is corrupt at byte" in str(restarted.log.offline)


def test_a_consumer_that_reads_all_has_all_checked_once(restarted: Restarted, client: RawClient) -> None:
    """If this fails, each fetch of old records requires a check forever; or a part of a segment is never checked."""
    for offset in (250, 0):
        while offset < BATCHES:
            records = read(client, offset).records
            whole = len(records) // SIZE
            assert records[: whole * SIZE] == b"".join(batch(offset + i) for i in range(whole))
            offset += whole
    assert restarted.log.active.unverified_bytes == 0


def test_an_offset_of_a_later_segment_is_never_sent(tmp_path: Path) -> None:
    """A bit of a base offset changed on the disk, after a clean stop. If this fails, a consumer receives a record with
    an offset that is far too high, and skips all records up to there.
    """
    config = LogConfig(segment_bytes=3 * SIZE)
    manager = open_manager(tmp_path, config=config)
    log = manager.create("t", 0, TOPIC_ID, config, 0)
    for number in range(9):
        log.append(batch(number), 1_000)
    assert [segment.base_offset for segment in log.segments] == [0, 3, 6]
    manager.stop()
    overwrite(log.segments[1].path, (5 + (1 << 22)).to_bytes(8), 2 * SIZE)
    manager = open_manager(tmp_path, config=config)
    log = manager.logs["t", 0]
    harness = CoreHarness()
    try:
        harness.on_loop(lambda: serve(harness, log))
        client = harness.client()
        assert read(client, 0).records == b"".join(batch(number) for number in range(3))
        assert read(client, 3).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert "reaches offset 6, at which the next segment begins" in str(log.offline)
    finally:
        harness.close()
        manager.crash()
