"""Transaction indexes that a start finds torn or damaged: they are rebuilt from the log."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_cy.storage import snapshots, txn_index
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.segment import OpenFiles

from .test_open_transactions import marker, transactional

CONFIG = LogConfig(segment_bytes=1_000, index_interval_bytes=200)
# Transactions of three producers, which begin in one segment and end in a later one.
COUNT = 60
LINE = "rebuilt a damaged transaction index from the log"


def fill(directory: Path) -> tuple[list[tuple[int, int]], int]:
    """Make a log of several segments; returns (producer id, first offset) of aborted transactions, and its end."""
    log = Log.create(str(directory), "t", 0, CONFIG, 0)
    aborted = []
    begun: dict[int, int] = {}
    for number in range(COUNT):
        producer = number % 3
        if producer in begun and number % 5 == 0:
            log.append(marker(log.log_end_offset, producer, number % 2 == 0), 0)
            if number % 2:
                aborted.append((producer, begun[producer]))
            del begun[producer]
        else:
            begun.setdefault(producer, log.log_end_offset)
            log.append(transactional(log.log_end_offset, producer, number), 0)
    assert len(log.segments) > 3
    assert len(aborted) > 4
    snapshots.write(str(directory), log.log_end_offset, log.producers.encode())
    end = log.log_end_offset
    close(log)
    return aborted, end


def close(log: Log) -> None:
    for segment in log.segments:
        segment.complete()
        segment.close()


def load(directory: Path, clean: bool, end: int) -> Log:
    context = LoadContext(OpenFiles(), LogTotals(), clean, 0, 1 << 40)
    return load_log(str(directory), "t", 0, CONFIG, end, 0, context)


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "torn": lambda data: data[:-5],
    "noise": lambda data: b"\xa5" * len(data),
    "zeros": lambda data: bytes(len(data)),
    "another version": lambda data: b"\0\1" + data[2:],
    "offsets of another segment": lambda data: data[:18] + (1 << 40).to_bytes(8, "big") + data[26:],
    "twice": lambda data: data + data,
}


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("with_snapshots", [True, False])
@pytest.mark.parametrize("what", DAMAGE)
def test_damaged_indexes_are_rebuilt(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str, clean: bool, with_snapshots: bool
) -> None:
    """If this fails, readers of committed records are refused forever, or get aborted records."""
    directory = tmp_path / "t-0"
    aborted, end = fill(directory)
    if not with_snapshots:
        for offset in snapshots.offsets(str(directory)):
            snapshots.remove(str(directory), offset)
    files = sorted(path for path in directory.glob("*.txnindex") if path.stat().st_size)
    assert len(files) > 2
    good = {path: path.read_bytes() for path in files}
    for damaged in (files[:1], files[1:2], files[-1:], files):
        for path in damaged:
            path.write_bytes(DAMAGE[what](good[path]))
        caplog.clear()
        log = load(directory, clean, end)
        found = [(producer, first) for producer, first in log.aborted_transactions(0, end)]
        assert found == aborted
        assert {path: path.read_bytes() for path in files} == good
        close(log)
        lines = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert [line.getMessage() for line in lines] == ["rebuilt a damaged transaction index from the log"] * len(
            damaged
        )


def test_good_indexes_are_left_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If this fails, each start reads whole logs unnecessarily."""
    directory = tmp_path / "t-0"
    aborted, end = fill(directory)
    for clean in (True, False):
        log = load(directory, clean, end)
        assert log.aborted_transactions(0, end) == aborted
        close(log)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_what_an_entry_may_be(tmp_path: Path) -> None:
    """If this fails, damage is accepted as an index, or an index is considered damaged."""
    good = (7, 90, 120, 121)
    for entries, is_good in (
        ([good], True),
        ([good, (8, 60, 130, 95)], True),
        ([(7, 90, 99, 100)], False),
        ([(7, 90, 200, 201)], False),
        ([(7, 120, 120, 121)], False),
        ([(7, 90, 120, 122)], False),
        ([(-1, 90, 120, 121)], False),
        ([good, good], False),
    ):
        path = Path(txn_index.path_of(str(tmp_path), 100))
        path.write_bytes(txn_index.encode(entries))
        assert (txn_index.problem_of(str(tmp_path), 100, 200) is None) == is_good, entries
        for size in itertools.chain(range(1, 34), range(35, 68)):
            if size < path.stat().st_size:
                os.truncate(path, size)
                assert txn_index.problem_of(str(tmp_path), 100, 200)
                path.write_bytes(txn_index.encode(entries))


@pytest.mark.parametrize("left", ["nothing", "up to a snapshot"])
def test_entries_of_records_that_were_cut_off_go_with_them(tmp_path: Path, left: str) -> None:
    """If this fails, the offsets of a lost aborted transaction are given to other records, which committed readers
    never receive.
    """
    directory = tmp_path / "t-0"
    config = LogConfig(segment_bytes=1 << 20)
    log = Log.create(str(directory), "t", 0, config, 0)
    if left != "nothing":
        log.append(transactional(0, 8, 0), 0)
        snapshots.write(str(directory), 1, log.producers.encode())
    start, size = log.log_end_offset, log.active.size
    log.append(transactional(start, 7, 0), 0)
    log.append(marker(start + 1, 7, False), 0)
    assert log.aborted_transactions(0, start + 2) == [(7, start)]
    path = log.active.path
    close(log)
    os.truncate(path, size)
    again = load(directory, False, 0)
    assert again.log_end_offset == start
    assert again.aborted_transactions(0, start + 2) == []
    again.append(transactional(start, 7, 0), 0)
    again.append(marker(start + 1, 7, True), 0)
    assert again.aborted_transactions(0, start + 2) == []
    close(again)
