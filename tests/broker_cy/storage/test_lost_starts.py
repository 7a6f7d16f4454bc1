"""Logs whose first segments are missing after a power loss: lost, or deleted (storage/log_loading.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_cy.storage import damage, offset_checkpoints, written_points
from broker_cy.storage.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS, read_entries, write_offsets
from broker_cy.storage.epochs import LeaderEpochs
from broker_cy.storage.log import Log
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.offset_checkpoints import STARTS_ARE_SAVED

from .batches import fill
from .managing import TOPIC_ID, Manager, open_manager

CONFIG = LogConfig(segment_bytes=400, file_delete_delay_ms=0)
KEY = ("t", 0)
# Offsets of a log; a batch has two.
END = 60


class Machine:
    """A data directory, and the times the machine has started."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.boots = 0
        monkeypatch.setattr(written_points, "boot_id", lambda: b"boot-%d" % self.boots)

    def lose_power(self) -> None:
        self.boots += 1

    def start(self, *, is_replicated: bool = True, config: LogConfig = CONFIG) -> Manager:
        manager = open_manager(self.root, load=False)
        manager.load(lambda topic: config, 0, is_replicated=lambda topic, partition: is_replicated)
        return manager

    def filled(self, config: LogConfig = CONFIG) -> tuple[Manager, Log]:
        """A manager with a log of several segments that are not flushed."""
        manager = self.start(config=config)
        log = manager.create("t", 0, TOPIC_ID, config, 0)
        fill(log, END // 2)
        assert len(log.segments) > 4
        return manager, log

    def lose_start(self) -> int:
        """Remove the files of all segments but the last two; return the offset at which those begin."""
        files = sorted((self.root / "t-0").glob("*.log"))
        bases = sorted(int(path.stem) for path in files)
        for base in bases[:-2]:
            for path in (self.root / "t-0").glob(f"{base:020d}.*"):
                path.unlink()
        return bases[-2]


def range_of(manager: Manager) -> tuple[int, int]:
    manager.crash()
    log = manager.logs[KEY]
    return log.log_start_offset, log.log_end_offset


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


@pytest.mark.parametrize("cleanup_policy", [("delete",), ("compact",)])
def test_a_replica_that_lost_its_start_begins_again(machine: Machine, cleanup_policy: tuple[str, ...]) -> None:
    """If this fails, it gets in sync without its first records, and consumers lose them once it leads."""
    manager, _ = machine.filled(LogConfig(segment_bytes=400, cleanup_policy=cleanup_policy))
    manager.crash()
    machine.lose_power()
    machine.lose_start()
    manager = machine.start()
    log = manager.logs[KEY]
    assert log.epochs.entries == LeaderEpochs.load(log.directory).entries == []
    assert [path.name for path in (machine.root / "t-0").glob("*.log")] == [f"{0:020d}.log"]
    assert manager.cuts["t-0"] > 0
    fill(log, 1)
    manager.crash()
    machine.lose_power()
    assert range_of(machine.start()) == (0, 2)


def test_a_replica_begins_again_where_it_was_synced_or_deleted(machine: Machine) -> None:
    """If this fails, the offsets of deleted records are assigned to other records, or the replica copies deleted
    records.
    """
    manager, log = machine.filled()
    manager.delete_records_before(log, 10, 0)
    manager.crash()
    machine.lose_power()
    machine.lose_start()
    manager = machine.start()
    log = manager.logs[KEY]
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (10, 10, 10)
    fill(log, 4)
    manager.flusher.start([log])
    fill(log, END // 2)
    manager.crash()
    machine.lose_power()
    machine.lose_start()
    assert range_of(machine.start()) == (18, 18)


def test_without_another_replica_the_rest_is_kept(machine: Machine) -> None:
    """If this fails, a power loss takes records that are still on the only disk that had them."""
    manager, _ = machine.filled()
    manager.crash()
    machine.lose_power()
    base = machine.lose_start()
    assert range_of(machine.start(is_replicated=False)) == (base, END)


def test_what_a_kill_left_is_kept(machine: Machine) -> None:
    """If this fails, segments that an operator removed take the others with them, although no power was lost."""
    manager, _ = machine.filled()
    manager.crash()
    base = machine.lose_start()
    assert range_of(machine.start()) == (base, END)


def test_what_a_clean_stop_left_is_kept(machine: Machine) -> None:
    """The same after a clean stop, as in Kafka."""
    manager, _ = machine.filled()
    manager.stop()
    machine.lose_power()
    base = machine.lose_start()
    assert range_of(machine.start()) == (base, END)


@pytest.mark.parametrize("has_checkpoints", [False, True])
def test_a_directory_of_kafka_is_kept(machine: Machine, has_checkpoints: bool) -> None:
    """If this fails, a broker that replaces one of Kafka that crashed drops its partitions: Kafka removes segments
    before it checkpoints that.
    """
    manager, _ = machine.filled()
    manager.crash()
    machine.lose_power()
    base = machine.lose_start()
    if has_checkpoints:
        # It ran here after us, and has rewritten the files that it knows.
        write_offsets(f"{machine.root}/{RECOVERY_POINTS}", {KEY: 0})
        write_offsets(f"{machine.root}/{LOG_START_OFFSETS}", {})
    else:
        (machine.root / STARTS_ARE_SAVED).unlink()
    assert range_of(machine.start()) == (base, END)


@pytest.mark.parametrize("is_full", [False, True])
def test_what_a_deletion_left_is_kept(machine: Machine, monkeypatch: pytest.MonkeyPatch, is_full: bool) -> None:
    """If this fails, a power loss after DeleteRecords takes records that were synced. On a full disk, the segments are
    removed although the deletion cannot be checkpointed.
    """
    manager, log = machine.filled()

    def full(path: str, *arguments: object) -> None:
        raise OSError(28, "No space left on device", path)

    with monkeypatch.context() as patch:
        if is_full:
            patch.setattr(offset_checkpoints, "write_offsets", full)
        manager.delete_records_before(log, 20, 0)
    base = log.segments[0].base_offset
    assert 0 < base <= 20
    manager.jobs.run_due()
    assert read_entries(f"{machine.root}/{LOG_START_OFFSETS}").offsets == ({} if is_full else {KEY: 20})
    manager.crash()
    machine.lose_power()
    assert not list((machine.root / "t-0").glob("*.deleted"))
    manager = machine.start()
    assert range_of(manager) == (base if is_full else 20, END)
    # From now on the checkpoint has every deletion again.
    assert (machine.root / STARTS_ARE_SAVED).exists()


def test_a_damaged_log_that_lost_synced_records_stays_offline(machine: Machine) -> None:
    """If this fails, a partition that was found damaged is emptied while an operator wants to restore it."""
    manager, log = machine.filled()
    manager.crash()
    damage.write(log.directory, damage.Note(END, 25), "test")
    machine.lose_power()
    machine.lose_start()
    manager = machine.start()
    manager.crash()
    assert "but had records up to offset 25" in manager.offline[KEY]
    assert len(list((machine.root / "t-0").glob("*.log"))) == 2
