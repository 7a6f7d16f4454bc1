"""Failed writes whose files cannot be removed: after a start, these leftovers are not part of the log."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from broker_cy.storage import damage, disk
from broker_cy.storage.errors import StorageError
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig

from .batches import batch, contents, split
from .managing import TOPIC_ID, open_manager

KEY = ("t", 0)
CONFIG = LogConfig(segment_bytes=300, index_interval_bytes=100)


def fails(original: Callable[..., object], suffixes: tuple[str, ...]) -> Callable[..., object]:
    def fail(path: str, *arguments: object, **named: object) -> object:
        if str(path).endswith(suffixes):
            raise OSError(errno.EIO, "Input/output error", path)
        return original(path, *arguments, **named)

    return fail


def sent(base: int, count: int) -> bytes:
    """Make batches of a producer, starting at sequence 0."""
    return b"".join(batch(base + i, size=60, producer_id=7, producer_epoch=0, sequence=i) for i in range(count))


def write_that_fails(
    log: Log, monkeypatch: pytest.MonkeyPatch, suffixes: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """Write batches over several segments, which are refused; the functions `names` of os fail for files of these
    suffixes.
    """
    log.stage_batches(sent(log.log_end_offset, 9), 0)
    assert len(log.segments) > 3
    flush_that_fails(log, monkeypatch, suffixes, names)


def flush_that_fails(
    log: Log, monkeypatch: pytest.MonkeyPatch, suffixes: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """Reject staged records; the functions `names` of os fail for files of these suffixes."""
    disk.set_write_budget(0, errno.EIO)
    try:
        with monkeypatch.context() as patch:
            for name in names:
                patch.setattr(os, name, fails(getattr(os, name), suffixes))
            with pytest.raises(StorageError, match="Input/output error"):
                log.flush()
    finally:
        disk.set_write_budget(-1, 0)


@pytest.mark.parametrize("names", [("unlink",), ("unlink", "truncate")])
@pytest.mark.parametrize("suffixes", [(".log",), (".snapshot",), (".log", ".snapshot", "index")])
@pytest.mark.parametrize("power_lost", [False, True])
def test_what_a_refused_write_has_left_is_no_part_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], suffixes: tuple[str, ...], power_lost: bool
) -> None:
    """If this fails, refused batches are served after a gap, or their sequences are known: the producer sends them
    again, gets the response that they are already written, and they are lost.
    """
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    log.append(batch(0, size=60), 0)
    before = contents(log)
    write_that_fails(log, monkeypatch, suffixes, names)
    assert log.offline is not None
    assert log.written_end_offset == 1
    with pytest.raises(StorageError, match="is offline"):
        log.append(batch(1), 0)
    manager.crash()
    if power_lost:
        monkeypatch.setattr("broker_cy.storage.log_manager.is_same_boot", lambda path: False)
    again = open_manager(tmp_path, config=CONFIG)
    log = again.logs[KEY]
    assert (log.log_end_offset, contents(log)) == (1, before)
    assert log.producers.describe() == []
    log.append(sent(1, 9), 0)
    assert [entry[:3] for entry in log.producers.describe()] == [(7, 0, 8)]
    again.stop()
    names_left = {path.name[20:] for path in (tmp_path / "t-0").iterdir() if path.name.startswith("0")}
    assert names_left <= {".log", ".index", ".timeindex", ".snapshot"}


@pytest.mark.parametrize("place", [1, 2, 3])
def test_refused_records_that_stay_are_not_behind_a_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int
) -> None:
    """One of the segments cannot be removed, and the note that it is not part of the log cannot be written. If this
    fails, the next start knows the sequences of removed batches: a producer that sends them again gets the response
    that they are already written, and they are lost (seed 16758 of the power cut simulation).
    """
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    log.append(batch(0, size=60), 0)
    log.stage_batches(sent(1, 9), 0)
    base = log.segments[place].base_offset
    assert len(log.segments) > place + 1
    flush_that_fails(log, monkeypatch, (f"{base:020d}.log", f"{damage.FILE_NAME}.tmp"), ("unlink", "truncate", "open"))
    assert log.offline is not None
    assert damage.read(str(tmp_path / "t-0")) is None
    manager.crash()
    log = open_manager(tmp_path, config=CONFIG).logs[KEY]
    found = [first for first, _, _ in split(contents(log))]
    assert found == list(range(log.log_end_offset))
    assert len(found) > 1
    assert [entry[:3] for entry in log.producers.describe()] == [(7, 0, log.log_end_offset - 2)]


def test_a_segment_that_could_not_be_begun_takes_the_log_offline_if_it_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, the log continues and grows beyond the offset at which an empty segment was left, and the records
    from there are not found.
    """
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    log.append(batch(0, size=60), 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", fails(os.unlink, (".log",)))
        patch.setattr(os, "open", fails(os.open, (f"{1:020d}.timeindex",)))
        with pytest.raises(OSError, match="Input/output error"):
            log.begin_segment(0)
    assert log.offline is not None
    manager.crash()
    again = open_manager(tmp_path, config=CONFIG)
    assert again.logs[KEY].log_end_offset == 1
    again.logs[KEY].append(sent(1, 9), 0)
    again.crash()
    again = open_manager(tmp_path, config=CONFIG)
    assert again.logs[KEY].log_end_offset == 10
    again.crash()


def test_a_note_says_where_a_log_ends(tmp_path: Path) -> None:
    """If this fails, a start mistakes the offset of a damage for the end of a log, and removes the records after it."""
    damage.write(str(tmp_path), damage.Note(7, 5, True), "x")
    assert damage.read(str(tmp_path)) == damage.Note(7, 5, True)
    damage.remove(str(tmp_path))
    damage.write(str(tmp_path), damage.Note(7, 5), "x")
    assert damage.read(str(tmp_path)) == damage.Note(7, 5, False)


def test_a_topic_gets_nothing_of_one_whose_directory_could_not_be_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, a topic that is deleted while its disk fails, and created again, serves the records of the deleted
    one after the next start.
    """
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    for _ in range(9):
        log.append(batch(log.log_end_offset, size=60), 0)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fails(os.rename, ("t-0",)))
        with pytest.raises(StorageError, match="cannot rename"):
            manager.delete("t", 0)
        with suppress(StorageError):
            manager.create("t", 0, TOPIC_ID, CONFIG, 0)
        assert KEY not in manager.logs
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    log.append(batch(0), 0)
    before = contents(log)
    manager.crash()
    again = open_manager(tmp_path, config=CONFIG)
    assert contents(again.logs[KEY]) == before
    again.crash()


def test_an_empty_segment_behind_a_gap_is_removed_although_nothing_could_be_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this fails, and if the note could not be written either, the log continues after offsets that no record has,
    with the state of producers whose batches were refused.
    """
    manager = open_manager(tmp_path, config=CONFIG)
    log = manager.create("t", 0, TOPIC_ID, CONFIG, 0)
    log.append(batch(0, size=60), 0)
    with monkeypatch.context() as patch:
        patch.setattr(damage, "write", lambda directory, note, reason: None)
        write_that_fails(log, patch, (".log",), ("unlink",))
    manager.crash()
    again = open_manager(tmp_path, config=CONFIG)
    assert again.logs[KEY].log_end_offset == 1
    assert again.logs[KEY].producers.describe() == []
    again.crash()
