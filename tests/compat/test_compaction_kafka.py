"""The result of compaction, as Apache Kafka sees it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_cy.storage.log import Log
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles
from tests.broker_cy.storage.cleaning import Written, clean, compacted_config, make_cleaner, stored
from tests.support.kafka_dump import copy_data_directory, dump_log_segments


@pytest.mark.full
def test_kafka_finds_no_fault_in_compacted_segments(tmp_path: Path) -> None:
    """If this fails, a log that was compacted here cannot be served by a Kafka that takes over."""
    log = Log.create(str(tmp_path / "t-0"), "t", 0, compacted_config(index_interval_bytes=200), 0)
    written = Written(log)
    for number in range(200):
        pairs = [(b"key-%d" % (number * i % 37), None if number % 7 == 0 else b"v" * 50) for i in range(1, 6)]
        written.data(pairs, codec=number % 5)
        written.data(pairs, 1, transactional=True)
        if number % 10 == 9:
            written.end(1, commit=number % 20 == 9)
    written.roll()
    cleaner = clean(log, written.now_ms)
    written.data([(b"last", b"v")])
    written.roll()
    clean(log, written.now_ms + 5_000, cleaner)
    directory = Path(log.directory)
    before = len(stored(directory))
    files = [path for suffix in ("log", "index", "timeindex", "txnindex") for path in directory.glob(f"*.{suffix}")]
    dump_log_segments([path for path in files if path.stat().st_size], "--deep-iteration")
    assert before > 10


def test_what_kafka_compacted_stays_as_it_is(tmp_path: Path) -> None:
    """If this fails, records of a topic that Kafka has compacted are lost, or deleted ones remain, when we compact it
    again.
    """
    source = copy_data_directory(tmp_path / "data") / "compacted-0"
    directory = tmp_path / "ours" / "compacted-0"
    shutil.copytree(source, directory)
    context = LoadContext(OpenFiles(), LogTotals(), True, 0, 86_400_000)
    log = load_log(str(directory), "compacted", 0, compacted_config(delete_retention_ms=86_400_000), 0, 0, context)
    log.begin_segment(0)
    kafka = {(offset, key): value for batch in stored(directory) for offset, _, key, value in batch.records}
    newest = {key: offset for offset, key in kafka}
    cleaner, _ = make_cleaner(log)
    clean(log, 1, cleaner)
    ours = {(offset, key): value for batch in stored(directory) for offset, _, key, value in batch.records}
    assert ours == {(offset, key): value for (offset, key), value in kafka.items() if newest[key] == offset}
    assert ours
