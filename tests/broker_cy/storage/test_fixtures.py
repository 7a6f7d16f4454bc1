"""The data directory of a real Kafka 4.3.1 is served unchanged, and everything that storage derives from it equals
Kafka's.
"""

import re
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core import uuid as kafka_uuid
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.open_directories import open_directories
from broker_cy.storage.settings import StorageSettings

from .batches import split

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "kafka-4.3.1"
# Later than everything in the fixtures, by less than producer.id.expiration.ms.
SOON_MS = 1_795_239_900_000
PARTITIONS = {("sample", 0): 563, ("compacted", 0): 200, ("__consumer_offsets", 0): 14, ("__transaction_state", 0): 10}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    target = tmp_path / "data"
    shutil.copytree(FIXTURES / "logdir", target, copy_function=shutil.copyfile)
    for path in [target, *target.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return target


def load(directory: Path) -> LogManager:
    directories = open_directories([str(directory)], 1, lambda: "", lambda: UUID(int=5))
    manager = LogManager(directories, StorageSettings(), InlineJobs())
    manager.load_metadata_log(LogConfig(), SOON_MS)
    manager.load(lambda topic: LogConfig(index_interval_bytes=4096), SOON_MS)
    return manager


def release(manager: LogManager) -> None:
    for data_directory in manager.data_directories:
        data_directory.close()


def dumped(partition: str) -> list[tuple[int, ...]]:
    """Return (base offset, last offset, position, size, crc) of every batch, from the dump, by segment."""
    found = []
    text = (FIXTURES / "dump" / f"{partition}.txt").read_text(errors="replace")
    for line in text.splitlines():
        match = re.match(
            r"baseOffset: (\d+) lastOffset: (\d+) .* position: (\d+) \S+: -?\d+ size: (\d+) magic: 2 .* crc: (\d+)",
            line,
        )
        if match:
            found.append(tuple(int(word) for word in match.groups()))
    return found


def read_all(log: Log) -> list[tuple[int, ...]]:
    offset = log.log_start_offset
    found: list[tuple[int, ...]] = []
    while offset < log.written_end_offset:
        part = log.read_slice(offset, max_bytes=9_000)
        if part is None:
            break
        position = part.position
        for base, last, data in split(part.read()):
            found.append((base, last, position, len(data), int.from_bytes(data[17:21])))
            position += len(data)
        offset = found[-1][1] + 1
    return found


def check(manager: LogManager) -> Log:
    assert manager.offline == {}
    assert {
        key: log.log_end_offset for key, log in manager.logs.items() if key[0] != "__cluster_metadata"
    } == PARTITIONS
    for (topic, partition), log in manager.logs.items():
        assert read_all(log) == dumped(f"{topic}-{partition}")
    sample = manager.logs["sample", 0]
    assert sample.log_start_offset == 0
    assert sample.epochs.entries == [(0, 0)]
    assert manager.topic_ids["sample", 0] == kafka_uuid.from_text("fv9LOLxnSJqPLJftUSoyAg")
    # Offsets 241 to 251 were written in a transaction that was aborted at 251.
    assert sample.aborted_transactions(0, 563) == [(1, 241)]
    assert sample.aborted_transactions(252, 563) == []
    assert sample.last_stable_offset(563) == 563
    assert [(producer[0], producer[1], producer[2]) for producer in sorted(sample.producers.describe())] == [
        (0, 0, 29),
        (1, 0, 29),
    ]
    largest = max(read_timestamps("sample-0"), key=lambda entry: (entry[0], -entry[1]))
    assert sample.max_timestamp() == largest
    return sample


def read_timestamps(partition: str) -> list[tuple[int, int]]:
    text = (FIXTURES / "dump" / f"{partition}.txt").read_text(errors="replace")
    return [
        (int(timestamp), int(offset))
        for offset, timestamp in re.findall(
            r"^\| offset: (\d+) (?:CreateTime|LogAppendTime): (-?\d+)", text, re.MULTILINE
        )
    ]


def test_a_kafka_directory_is_served_as_it_is(directory: Path) -> None:
    """If this fails, a user who migrates from Kafka loses records, producers or transactions."""
    before = {path.name: path.read_bytes() for path in (directory / "sample-0").iterdir()}
    manager = load(directory)
    assert manager.was_clean
    assert (manager.data_directories[0].cluster_id, manager.data_directories[0].node_id) == (
        "fixturefixturefixture0",
        1,
    )
    assert manager.high_watermarks["sample", 0] == 563
    check(manager)
    manager.close(lambda topic, partition: manager.logs[topic, partition].written_end_offset, broker_epoch=11)
    assert (directory / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":11}'
    # Nothing was appended: every file is as Kafka left it.
    assert {path.name: path.read_bytes() for path in (directory / "sample-0").iterdir()} == before


def test_timestamps_are_found_as_kafka_finds_them(directory: Path) -> None:
    """If this fails, offsetsForTimes returns other offsets than Kafka: consumers that seek by time lose or repeat
    records.
    """
    manager = load(directory)
    sample = manager.logs["sample", 0]
    records = read_timestamps("sample-0")
    wanted = sorted({timestamp for timestamp, _ in records})
    for timestamp in [wanted[0] - 1, *wanted[::7], *(value + 1 for value in wanted[::11]), wanted[-1]]:
        expected = next(((at, offset) for at, offset in records if at >= timestamp), None)
        assert sample.offset_for_timestamp(timestamp) == expected
    assert sample.offset_for_timestamp(wanted[-1] + 1) is None
    release(manager)


def test_everything_is_found_again_without_the_side_files(directory: Path) -> None:
    """If this fails, after an unclean stop indexes, aborted transactions, epochs or producers differ from those that
    Kafka wrote.
    """
    side_files = {
        path: path.read_bytes()
        for path in (directory / "sample-0").iterdir()
        if path.suffix in {".index", ".timeindex", ".txnindex"} or path.name == "leader-epoch-checkpoint"
    }
    for path in directory.rglob("*"):
        if path.suffix in {".index", ".timeindex", ".txnindex", ".snapshot"} or path.name.endswith("checkpoint"):
            path.unlink()
    (directory / ".kafka_cleanshutdown").unlink()
    manager = load(directory)
    assert not manager.was_clean
    check(manager)
    for path, data in side_files.items():
        if path.name != "leader-epoch-checkpoint":
            assert path.read_bytes() == data, path.name
    release(manager)


def test_a_preallocated_index_of_an_unclean_stop_is_read_right(directory: Path) -> None:
    """If this fails, lookups end in the 10 MiB of zeros that Kafka leaves after the entries of an index when it is
    killed.
    """
    (directory / ".kafka_cleanshutdown").unlink()
    sizes = {}
    for path in (directory / "sample-0").glob("*index"):
        if path.suffix != ".txnindex":
            sizes[path] = path.stat().st_size
            with path.open("r+b") as file:
                file.truncate(10 << 20)
    manager = load(directory)
    check(manager)
    assert {path: path.stat().st_size for path in sizes} == sizes
    release(manager)
