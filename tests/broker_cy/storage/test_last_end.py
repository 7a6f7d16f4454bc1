"""The report of a start about the previous process: that it lost nothing, or no report."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from broker_cy.storage import damage, syncs, written_points
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.written_points import RUNNING_EPOCH

from .batches import fill
from .managing import TOPIC_ID, format_directory, open_manager


def epoch_after(*paths: Path) -> int:
    """The state that a start finds; the process ends before it has registered."""
    manager = open_manager(*paths)
    manager.crash()
    return manager.previous_broker_epoch


def killed(*paths: Path, epoch: int = 41) -> None:
    manager = open_manager(*paths)
    if ("t", 0) not in manager.logs:
        manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    manager.note_broker_epoch(epoch)
    manager.crash()


def test_a_killed_process_proves_that_it_lost_nothing(tmp_path: Path) -> None:
    """If this fails, a broker whose process was killed can only be elected uncleanly if no other replica is left, as if
    acknowledged records were lost.
    """
    assert epoch_after(tmp_path) == -1
    killed(tmp_path)
    # A start that gets no further than this changes nothing.
    assert [epoch_after(tmp_path), epoch_after(tmp_path)] == [41, 41]
    killed(tmp_path, epoch=57)
    assert epoch_after(tmp_path) == 57


def test_an_orderly_stop_comes_first(tmp_path: Path) -> None:
    """If this fails, a clean shutdown no longer counts as proof, or the epoch is that of an older process."""
    killed(tmp_path)
    manager = open_manager(tmp_path)
    manager.note_broker_epoch(42)
    manager.close(lambda topic, partition: 0, 42)
    assert epoch_after(tmp_path) == 42


def test_a_machine_that_started_again_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a broker that lost records with the power leads although others have them."""
    killed(tmp_path)
    monkeypatch.setattr(written_points, "boot_id", lambda: b"another start")
    assert epoch_after(tmp_path) == -1
    # Nor does a start since then that was killed before it registered: it says what the one before it wrote.
    assert epoch_after(tmp_path) == -1


def test_a_copy_proves_nothing(tmp_path: Path) -> None:
    """If this fails, a directory that was restored from a backup may lead without the records since the backup."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    killed(original)
    shutil.copytree(original, copy)
    assert (epoch_after(original), epoch_after(copy)) == (41, -1)


def test_what_the_disk_refused_is_no_proof(tmp_path: Path) -> None:
    """If this fails, records that the cache has lost after a failed sync, or damaged ones, count as complete."""
    refused, damaged = tmp_path / "refused", tmp_path / "damaged"
    for root in (refused, damaged):
        killed(root)
    syncs.mark_failed(str(refused / "t-0"))
    damage.write(str(damaged / "t-0"), damage.Note(0, 0), "wrong checksum")
    assert [epoch_after(refused), epoch_after(damaged)] == [-1, -1]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_process_whose_log_was_removed_proves_nothing(tmp_path: Path, is_clean: bool) -> None:
    """If this fails, a broker is an eligible leader of a partition whose log it has just created again, empty."""
    manager = open_manager(tmp_path)
    log = manager.create("t", 0, TOPIC_ID, LogConfig(), 0)
    fill(log, 10)
    manager.create("t", 1, TOPIC_ID, LogConfig(), 0)
    manager.note_broker_epoch(41)
    if is_clean:
        manager.close(lambda topic, partition: 0, 41)
        shutil.rmtree(tmp_path / "t-0")
    else:
        shutil.rmtree(tmp_path / "t-0")
        manager.flusher.start()
        manager.crash()
    assert epoch_after(tmp_path) == -1


@pytest.mark.parametrize("content", [b"", b"\n41\n", b"nonsense", b"ORIGIN\nnonsense\n", b"ORIGIN\n"])
def test_a_note_that_is_not_understood_is_none(tmp_path: Path, content: bytes) -> None:
    """If this fails, a damaged note prevents the start, or is a proof."""
    killed(tmp_path)
    path = tmp_path / RUNNING_EPOCH
    origin = path.read_bytes().split(b"\n")[0]
    path.write_bytes(content.replace(b"ORIGIN", origin))
    assert epoch_after(tmp_path) == -1


def test_all_directories_have_to_agree(tmp_path: Path) -> None:
    """If this fails, a broker whose disk was replaced is an eligible leader of partitions that were on it."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    killed(first, second)
    assert epoch_after(first, second) == 41
    format_directory(third, 2)
    assert epoch_after(first, second, third) == -1
    killed(first, second, third, epoch=57)
    assert epoch_after(first, second, third) == 57
    # As in Kafka: replicas in a directory that is offline may count as online, and eligible.
    third.rename(tmp_path / "away")
    assert epoch_after(first, second, third) == -1
    (tmp_path / "away").rename(third)
    assert epoch_after(first, second, third) == -1, "it was offline in between"
    killed(first, second, third, epoch=57)
    (second / RUNNING_EPOCH).unlink()
    assert epoch_after(first, second, third) == -1
