"""Logs that are not truncated where they are damaged: those of the coordinators, whose newest records are the valid
ones. Also, the files that are permanently removed together with truncated records.
"""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from broker_cy.storage import log_loading, log_truncation, snapshots, written_points
from broker_cy.storage.errors import CorruptSegment
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_loader import LoadContext, load_log
from broker_cy.storage.log_slice import LogTotals
from broker_cy.storage.producer_state import ProducerState
from broker_cy.storage.segment import OpenFiles
from broker_cy.storage.settings import StorageSettings

from .managing import TOPIC_ID, open_manager
from .test_open_transactions import transactional

CONFIG = LogConfig()
COUNT = 10
TOPIC = "__transaction_state"


def fill(directory: Path) -> Path:
    log = Log.create(str(directory), TOPIC, 0, CONFIG, 0)
    for number in range(COUNT):
        log.append(transactional(number, 1, number), 0)
    for segment in log.segments:
        segment.complete()
        segment.close()
    return directory / f"{0:020d}.log"


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize(("clean", "power_lost"), [(True, False), (True, True), (False, False), (False, True)])
@pytest.mark.parametrize("damage", ["changed", "last changed", "torn", "half a header", "garbage behind"])
def test_what_is_cut_off(tmp_path: Path, kept: bool, clean: bool, power_lost: bool, damage: str) -> None:
    """If this fails, damage takes a coordinator back to an older state, in which a committed transaction is open; or a
    write that a crash interrupted prevents a coordinator from starting.
    """
    path = fill(tmp_path / "log-0")
    content = bytearray(path.read_bytes())
    batch_bytes = len(content) // COUNT
    left = COUNT - 1
    if damage == "changed":
        left = COUNT // 2
        content[left * batch_bytes + 40] ^= 1
    elif damage == "last changed":
        content[-1] ^= 1
    elif damage == "torn":
        del content[-5:]
    elif damage == "half a header":
        del content[-batch_bytes + 30 :]
    else:
        left = COUNT
        content += b"\xa5" * 200
    path.write_bytes(content)
    context = LoadContext(
        OpenFiles(),
        LogTotals(),
        clean,
        0,
        1 << 40,
        power_lost,
        kept_whole=frozenset({TOPIC}) if kept else frozenset(),
    )
    broken_off = not clean and (power_lost or damage in ("torn", "half a header"))
    if kept and not broken_off:
        with pytest.raises(CorruptSegment):
            load_log(str(path.parent), TOPIC, 0, CONFIG, 0, 0, context)
        assert path.read_bytes() == content
    else:
        assert load_log(str(path.parent), TOPIC, 0, CONFIG, 0, 0, context).log_end_offset == left


def test_producer_states_of_records_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, the next power cut brings back such a file next to other records with the same offsets: batches of
    producers are mixed up, and are written twice or not at all.
    """
    path = fill(tmp_path / "log-0")
    synced: list[list[int]] = []
    monkeypatch.setattr(log_truncation, "sync_directory", lambda directory: synced.append(snapshots.offsets(directory)))
    for offset in (4, COUNT, COUNT + 1, COUNT + 5):
        state = ProducerState(str(path.parent))
        state.clear(offset)
        snapshots.write(str(path.parent), offset, state.encode())
    context = LoadContext(OpenFiles(), LogTotals(), False, 0, 1 << 40, True)
    load_log(str(path.parent), TOPIC, 0, CONFIG, 0, 0, context)
    assert [sorted(left) for left in synced] == [[4, COUNT]]


def test_a_disk_that_was_full_at_the_start_after_a_power_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a coordinator's log that could not be recovered for lack of space stays offline for ever: the next
    start takes its torn end, which the power loss left, for damage.
    """
    settings = StorageSettings(kept_whole=frozenset({TOPIC}))
    manager = open_manager(tmp_path, settings=settings)
    log = manager.create(TOPIC, 0, TOPIC_ID, CONFIG, 0)
    for number in range(COUNT):
        log.append(transactional(number, 1, number), 0)
    manager.flusher.note_start()
    manager.crash()
    path = tmp_path / f"{TOPIC}-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    torn_bytes = len(content) // COUNT
    content[-torn_bytes:] = bytes(torn_bytes)
    path.write_bytes(content)
    monkeypatch.setattr(written_points, "boot_id", lambda: b"another start")

    def full(*_: object) -> Log:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(log_loading, "load_log", full)
        manager = open_manager(tmp_path, settings=settings)
    assert "No space left" in manager.offline[TOPIC, 0]
    manager.stop()
    manager = open_manager(tmp_path, settings=settings)
    assert manager.offline == {}
    assert manager.logs[TOPIC, 0].log_end_offset == COUNT - 1
    manager.crash()
