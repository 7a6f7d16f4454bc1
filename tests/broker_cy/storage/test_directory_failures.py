"""The errors that condemn a data directory, and the reaction of a log manager to a failed disk."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core.uuid import LOST_DIRECTORY
from broker_cy.storage import directory_failures
from broker_cy.storage.data_directory import DataDirectory
from broker_cy.storage.directory_failures import DirectoryFailures
from broker_cy.storage.errors import StorageError
from broker_cy.storage.jobs import InlineJobs
from broker_cy.storage.log_config import LogConfig
from broker_cy.storage.log_manager import LogManager
from broker_cy.storage.placement import SAMPLE_MS
from broker_cy.storage.settings import StorageSettings


class Disks:
    """Two data directories; `errors` has the errno with which a check of each fails."""

    def __init__(self, directory: Path, patch: pytest.MonkeyPatch) -> None:
        self.directories = [DataDirectory(str(directory / name)) for name in ("a", "b")]
        for each in self.directories:
            each.lock()
            each.format("cluster", 1, UUID(int=len(each.path)))
        self.paths = [each.path for each in self.directories]
        self.errors: dict[str, int] = {}
        self.checked: list[str] = []
        self.failed: list[str] = []
        self.jobs = InlineJobs()
        right = directory_failures.check

        def check(path: str) -> None:
            self.checked.append(path)
            if path in self.errors:
                raise OSError(self.errors[path], os.strerror(self.errors[path]), path)
            right(path)

        patch.setattr(directory_failures, "check", check)
        self.failures = DirectoryFailures(self.directories, self.jobs, lambda each: self.failed.append(each.path))


@pytest.fixture
def disks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disks]:
    made = Disks(tmp_path, monkeypatch)
    yield made
    for each in made.directories:
        each.close()


def error(code: int) -> StorageError:
    """As the log has it: the cause is the error of the system."""
    found = StorageError("cannot write")
    found.__cause__ = OSError(code, os.strerror(code))
    return found


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.ENODEV, errno.EUCLEAN])
def test_a_dead_disk_is_noticed_once(disks: Disks, code: int) -> None:
    """If this fails, a broker stays the leader of partitions on a dead disk, or ends because of another disk."""
    disks.errors[disks.paths[0]] = code
    disks.failures.suspect(f"{disks.paths[0]}/t-0", error(code))
    disks.failures.suspect(f"{disks.paths[0]}/t-1", error(code))
    assert disks.failed == disks.checked == disks.paths[:1]
    assert disks.directories[0].failure == (
        f"the data directory {disks.paths[0]} failed: [Errno {code}] {os.strerror(code)}: {disks.paths[0]!r}"
    )
    assert disks.directories[1].failure is None


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_other_errors_do_not_condemn_a_disk(disks: Disks, code: int) -> None:
    """If this fails, a full disk ends the broker."""
    disks.failures.suspect(f"{disks.paths[0]}/t-0", error(code))
    disks.failures.suspect(f"{disks.paths[0]}/t-0", StorageError("damaged"))
    assert disks.checked == disks.failed == []


def test_a_file_that_was_removed_does_not_condemn_a_disk(disks: Disks) -> None:
    """If this fails, a sync of a log that was just deleted or moved ends a healthy disk (KAFKA-19571, KAFKA-15572)."""
    disks.failures.suspect(f"{disks.paths[0]}/t-0", error(errno.ENOENT))
    assert (disks.checked, disks.failed) == (disks.paths[:1], [])


@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_directory_that_is_gone_has_failed(disks: Disks, is_mounted: bool) -> None:
    """If this fails, a broker leads partitions that it cannot write once their directory is removed, or fills the disk
    with the mount point of a disk that was unmounted.
    """
    gone = Path(disks.paths[0])
    shutil.rmtree(gone)
    if is_mounted:
        gone.mkdir()
    disks.failures.suspect(f"{gone}/t-0", error(errno.ENOENT))
    assert disks.failed == disks.paths[:1]
    assert list(gone.glob("*")) == []
    assert str(disks.directories[0].failure).endswith(f"No such file or directory: '{gone}/meta.properties'")


def managed(disks: Disks) -> LogManager:
    logs = LogManager(disks.directories, StorageSettings(), disks.jobs)
    logs.on_directory_failed = lambda directory: disks.failed.append(directory.path)
    return logs


def test_a_directory_that_is_gone_gets_no_log(disks: Disks) -> None:
    """If this fails, a broker makes the data directory again, with logs that nothing finds after the next start."""
    logs = managed(disks)
    gone, other = disks.paths
    shutil.rmtree(gone)
    for index in range(2):
        log = logs.create("t", index, UUID(int=9), LogConfig(), 0)
        assert os.path.dirname(log.directory) == other
    assert (disks.failed, os.path.exists(gone)) == ([gone], False)


@pytest.mark.parametrize("is_noticed_by_a_sync", [False, True])
def test_a_damaged_log_on_a_good_disk_is_lost(disks: Disks, is_noticed_by_a_sync: bool) -> None:
    """If this fails, a broker leads a partition that it cannot read, although other replicas could."""
    logs, placed = managed(disks), list[tuple[str, int]]()
    damaged, good = (logs.create("t", index, UUID(int=9), LogConfig(), 0) for index in range(2))
    logs.on_placed = lambda topic, index: placed.append((topic, index))
    if is_noticed_by_a_sync:
        # It notes nothing.
        logs.totals.on_damage = None
        damaged.mark_offline("a sync failed")
        logs.suspect(f"{damaged.directory}/00000000000000000000.log", error(errno.EIO))
    else:
        damaged.mark_offline("a sector cannot be read")
    logs.suspect(good.directory, error(errno.EIO))
    assert (disks.failed, placed) == ([], [("t", 0)])
    assert (logs.place_of("t", 0), logs.place_of("t", 1)) == (LOST_DIRECTORY, disks.directories[1].directory_id)
    # Heartbeats report the whole disk.
    disks.jobs.run_due()
    disks.errors[disks.paths[0]] = errno.EIO
    logs.suspect(damaged.directory, error(errno.EIO))
    assert disks.failed == disks.paths[:1]
    assert logs.place_of("t", 0) == disks.directories[0].directory_id


def test_an_unmounted_disk_is_noticed_without_clients(disks: Disks) -> None:
    """If this fails, the broker creates logs at the mount point until a client reads or writes an older one."""
    logs = managed(disks)
    gone = disks.paths[0]
    shutil.rmtree(gone)
    os.mkdir(gone)
    logs.tick(SAMPLE_MS, lambda topic, index: 0)
    assert (disks.failed, os.listdir(gone)) == ([gone], [])


def test_a_damaged_file_does_not_condemn_a_disk(disks: Disks) -> None:
    """If this fails, one unreadable sector ends the broker; or each read of it syncs a file."""
    disks.failures.suspect(f"{disks.paths[0]}/t-0", error(errno.EIO))
    assert (disks.failed, disks.checked, os.listdir(disks.paths[0])) == (
        [],
        disks.paths[:1],
        [".lock", "meta.properties"],
    )
    for _ in range(3):
        disks.failures.suspect(f"{disks.paths[0]}/t-0", error(errno.EIO))
    assert disks.checked == disks.paths[:1]
    # A failure during the pause is not forgotten.
    disks.errors[disks.paths[0]] = errno.EIO
    disks.jobs.run_due()
    assert disks.failed == disks.paths[:1]


def test_a_full_disk_may_be_unable_to_hold_the_check(disks: Disks) -> None:
    """If this fails, a disk that is full and had one bad sector ends the broker."""
    disks.errors[disks.paths[0]] = errno.ENOSPC
    disks.failures.suspect(f"{disks.paths[0]}/t-0", error(errno.EIO))
    assert (disks.failed, disks.checked) == ([], disks.paths[:1])


def test_an_error_without_a_place_is_one_of_any_disk(disks: Disks) -> None:
    """If this fails, a failed sync of a checkpoint, which does not name its file, shows nothing."""
    disks.errors[disks.paths[1]] = errno.EIO
    disks.failures.suspect(None, OSError(errno.EIO, "Input/output error"))
    assert (disks.checked, disks.failed) == (disks.paths, disks.paths[1:])


def test_the_logs_of_a_dead_disk_are_offline(disks: Disks) -> None:
    """If this fails, the broker reads and writes on a disk that died, or no longer on the others; or it stands still
    while it notes in each directory that it cannot write there (KAFKA-19289).
    """
    logs = managed(disks)
    config = LogConfig()
    first, second, third = (logs.create("t", index, UUID(int=9), config, 0) for index in range(3))
    root, other = os.path.dirname(first.directory), os.path.dirname(second.directory)
    assert root != other
    before = sorted(os.listdir(first.directory))
    disks.errors[root] = errno.EIO
    logs.failures.suspect(first.directory, error(errno.EIO))
    assert disks.failed == [root]
    assert (first.offline, second.offline) == (
        f"the data directory {root} failed: [Errno 5] Input/output error: {root!r}",
        None,
    )
    assert sorted(os.listdir(first.directory)) == before
    # New partitions are created where they can be, as long as there is such a place.
    assert os.path.dirname(third.directory) == root
    assert os.path.dirname(logs.create("t", 3, UUID(int=9), config, 0).directory) == other
    disks.errors[other] = errno.EIO
    logs.failures.suspect(other, error(errno.EIO))
    with pytest.raises(StorageError, match="cannot create t-4: the data directory"):
        logs.create("t", 4, UUID(int=9), config, 0)


def test_a_disk_that_comes_back_is_read_as_after_a_power_loss(disks: Disks) -> None:
    """If this fails, a broker whose disk failed and was mounted again reports that it has lost nothing: it may be
    elected although unsynced records are lost, and its logs are not recovered.
    """
    data, metadata = disks.directories
    logs = LogManager([data], StorageSettings(), disks.jobs, metadata_directory=metadata)
    log = logs.create("t", 0, UUID(int=9), LogConfig(), 0)
    logs.note_broker_epoch(7)
    logs.flusher.note_start()
    right = LogManager([data], StorageSettings(), disks.jobs, metadata_directory=metadata)
    assert right.previous_broker_epoch == 7, "a process that was killed has lost nothing"
    disks.errors[data.path] = errno.EIO
    logs.failures.suspect(log.directory, error(errno.EIO))
    assert data.failure is not None
    data.failure = None
    again = LogManager([data], StorageSettings(), disks.jobs, metadata_directory=metadata)
    assert again.previous_broker_epoch == -1
    assert again.same_boot == {data.path: False}
    assert not os.path.exists(f"{metadata.path}/{directory_failures.NOTE_FILE}")
