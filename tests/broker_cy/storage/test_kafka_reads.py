"""Kafka's own DumpLogSegments reads what storage wrote and finds no fault."""

import re
from pathlib import Path

import pytest

from broker_cy.storage.log_config import LogConfig
from tests.support import kafka_tools
from tests.support.kafka_dump import dump_log_segments

from .batches import batch
from .managing import TOPIC_ID, open_manager

# Offset delta 0, timestamp delta 0, no key, value "v", no headers; preceded by its length.
RECORD = bytes([0, 0, 0, 1, 2, ord("v"), 0])
CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=500)


def one_record(offset: int, **values: int) -> bytes:
    return batch(offset, payload=bytes([len(RECORD) * 2]) + RECORD, **values)


def abort_marker(offset: int, **values: int) -> bytes:
    key, value = bytes([0, 0, 0, 0]), bytes(6)
    record = bytes([0, 0, 0, len(key) * 2]) + key + bytes([len(value) * 2]) + value + bytes([0])
    return batch(offset, attributes=0x30, payload=bytes([len(record) * 2]) + record, **values)


@pytest.fixture(params=["clean stop", "crash and recovery"])
def directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    for number in range(1_000):
        log.append(
            one_record(
                number,
                timestamp=1_700_000_000_000 + number * 7 % 1_000,
                leader_epoch=number // 300,
                producer_id=100 + number % 3,
                producer_epoch=2,
                sequence=number // 3,
            ),
            5,
        )
    log.append(one_record(1_000, leader_epoch=3, producer_id=7, producer_epoch=0, sequence=0, attributes=0x10), 5)
    log.append(abort_marker(1_001, leader_epoch=3, producer_id=7, producer_epoch=0), 5)
    assert log.aborted_transactions(0, 1_002) == [(7, 1_000)]
    if request.param != "clean stop":
        manager.crash()
        manager = open_manager(tmp_path, config=CONFIG)
    manager.stop()
    return tmp_path / "t-0"


def test_kafka_finds_no_fault(directory: Path) -> None:
    """If this fails, returning to Kafka, or using its tools, is not possible any more."""
    files = [
        path for path in sorted(directory.iterdir()) if path.suffix in {".log", ".index", ".timeindex", ".txnindex"}
    ]
    files.append(max(directory.glob("*.snapshot")))
    assert sum(path.suffix == ".log" for path in files) > 3
    # One run for all of them: the tool also compares each index entry with the batches of its segment.
    text = dump_log_segments(files, "--deep-iteration")
    assert [int(offset) for offset in re.findall(r"^\| offset: (\d+)", text, re.MULTILINE)] == list(range(1_002))
    assert len(re.findall(r"^offset: \d+ position: \d+$", text, re.MULTILINE)) > 50
    assert len(re.findall(r"^timestamp: \d+ offset: \d+$", text, re.MULTILINE)) > 5
    assert "producerId: 7 firstOffset: 1000 lastOffset: 1001 lastStableOffset: 1002" in text
    found = re.findall(r"producerId: (\d+) producerEpoch: (-?\d+) .*?lastSequence: (-?\d+)", text)
    assert sorted(found)[:3] == [("100", "2", "333"), ("101", "2", "332"), ("102", "2", "332")]


def test_kafka_reads_the_checkpoints(directory: Path) -> None:
    """If this fails, Kafka does not start on a data directory that this broker served: its checkpoints contain more
    than Kafka knows.
    """
    source = Path(__file__).with_name("ReadCheckpoint.java")
    names = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
    done = kafka_tools.run_program(source, *(directory.parent / name for name in names))
    found = [line.rsplit("/", 1)[-1] for line in done.stdout.decode().splitlines() if " t-0 " in line]
    assert found == [f"{name} t-0 1002" for name in names]
