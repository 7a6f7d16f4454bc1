"""Several log directories, folders other than partitions, and files in another state than a broker leaves them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.core import uuid as kafka_uuid
from broker_cy.storage.data_directory import PARTITION_METADATA
from spark_analytics.segments import options, plan
from spark_analytics.segments.errors import SegmentsError
from spark_analytics.segments.files import PartitionFolder
from tests.spark_analytics.segments.logs import Log, offsets
from tests.spark_analytics.segments.logs import records as new_records

MARK = "0123456789abcdef0123456789abcdef"


def folders(*directories: Path) -> list[PartitionFolder]:
    return plan.folders(options.parse(options.as_text(directories, ["t"])))


def replicas(root: Path, marks: tuple[int, ...], ids: tuple[int, ...] = ()) -> list[Path]:
    """Return the directories of brokers that have the same partition, each up to another offset."""
    found = []
    for number, mark in enumerate(marks):
        log = Log(root / f"broker-{number}")
        log.append(new_records(mark))
        log.mark(mark)
        if ids:
            text = f"version: 0\ntopic_id: {kafka_uuid.to_text(UUID(int=ids[number]))}\n"
            (log.directory / PARTITION_METADATA).write_text(text)
        found.append(log.root)
    return found


@pytest.mark.parametrize("marks", [(5, 9, 7), (9, 7, 5), (5, 7, 9)])
def test_of_replicas_the_one_with_most_is_read(tmp_path: Path, marks: tuple[int, ...]) -> None:
    """If this fails, the directories of three brokers give records twice, or end where a slow follower does."""
    (found,) = folders(*replicas(tmp_path, marks, ids=(1, 1, 1)))
    assert found.directory == f"{tmp_path}/broker-{marks.index(9)}/t-0"


def test_two_topics_of_one_name_are_no_replicas(tmp_path: Path) -> None:
    """If this fails, a topic that was deleted and recreated is read from a broker that was down meanwhile."""
    with pytest.raises(SegmentsError, match=r"are the same partition of different topics .* give one of the two"):
        folders(*replicas(tmp_path, (5, 6), ids=(1, 2)))


def test_a_directory_that_is_given_twice_is_read_once(tmp_path: Path) -> None:
    """If this fails, a path with a slash at its end gives every record twice."""
    (one,) = replicas(tmp_path, (5,))
    (found,) = folders(one, one / ".." / one.name)
    assert found.high_watermark == 5


@pytest.mark.parametrize("mark", ["delete", "future", "stray"])
def test_folders_that_are_not_in_use_are_left_out(tmp_path: Path, mark: str) -> None:
    """If this fails, a partition is read while it moves between two disks, or after its topic was deleted."""
    Log(tmp_path).append(new_records(3))
    unused = Log(tmp_path / "other")
    unused.append(new_records(9))
    unused.directory.rename(tmp_path / f"t-0.{MARK}-{mark}")
    unused.root.rmdir()
    assert offsets(tmp_path) == [0, 1, 2]


def test_a_folder_that_is_no_log_directory_is_named(tmp_path: Path) -> None:
    """If this fails, a user who gave a partition's folder does not learn which folder is needed."""
    log = Log(tmp_path)
    log.append(new_records(1))
    with pytest.raises(SegmentsError, match="no topic at all: a log directory has folders such as orders-0"):
        folders(log.directory)
    with pytest.raises(SegmentsError, match=r"00000\.log cannot be read: Not a directory"):
        folders(log.path("log"))


def test_damaged_metadata_is_named(tmp_path: Path) -> None:
    """If this fails, a damaged small file causes an exception without a path."""
    log = Log(tmp_path)
    log.append(new_records(1))
    (log.directory / PARTITION_METADATA).write_text("version: 9\n")
    with pytest.raises(SegmentsError, match=rf"cannot be read: .*{PARTITION_METADATA}: not partition metadata"):
        folders(tmp_path)


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """If this fails, a reader without the broker's file permissions gets a stack trace, or reads without an index for
    hours.
    """
    log = Log(tmp_path)
    for _ in range(3):
        log.append(new_records(3, log.next_offset))
    log.roll()
    log.append(new_records(3, 9))
    refused = log.path(suffix, 0)
    opened = os.open

    # A test may run as root, which may read everything.
    def open_unless_refused(path: str, *rest: int) -> int:
        if path == str(refused):
            raise PermissionError(13, "Permission denied", path)
        return opened(path, *rest)

    monkeypatch.setattr(os, "open", open_unless_refused)
    with pytest.raises(SegmentsError, match=rf"{refused} cannot be read: Permission denied"):
        offsets(tmp_path, starting_timestamp=1_700_000_005_000, starting_offset=5)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def garbage_before(path: Path) -> None:
    path.write_bytes(b"\x7f" * 5 + path.read_bytes())


def beyond(path: Path) -> None:
    """Add the entries of batches that the log does not have, such as after a power cut."""
    data = path.read_bytes()
    path.write_bytes(data + b"".join((100 + n).to_bytes(4) + (1 << 20 | n).to_bytes(4) for n in range(20)))


@pytest.mark.parametrize("damage", [cut, garbage_before, beyond, Path.unlink])
@pytest.mark.parametrize("segment", [0, 20])
def test_a_wrong_index_of_offsets_changes_no_row(tmp_path: Path, damage: Callable[[Path], None], segment: int) -> None:
    """If this fails, rows are silently lost or duplicated because a power cut left an index that does not match its
    log.
    """
    log = Log(tmp_path)
    for _ in range(8):
        if log.next_offset == 20:
            log.roll()
        log.append(new_records(5, log.next_offset))
    damage(log.path("index", segment))
    assert offsets(tmp_path) == list(range(40))
    assert offsets(tmp_path, range_bytes=100) == list(range(40))
    assert offsets(tmp_path, starting_offset=13, ending_offset=33) == list(range(13, 33))


KEYS = [("t", 0), ("t", 1), ("u", 0)]


@pytest.mark.parametrize(
    ("sizes", "most", "expected"),
    [
        ((100, 50, 0), 1000, (100, 50, 0)),
        ((100, 50, 0), 15, (10, 5, 0)),
        ((1000, 1, 0), 10, (9, 1, 0)),
        ((5, 5, 5), 1, (1, 1, 1)),
    ],
)
def test_a_limit_is_divided_among_the_partitions(sizes: tuple[int, ...], most: int, expected: tuple[int, ...]) -> None:
    """If this fails, a stream never reads a small partition next to a large one, or exceeds its limit."""
    starts = dict.fromkeys(KEYS[:2], 7)
    ends = {key: starts.get(key, 0) + size for key, size in zip(KEYS, sizes, strict=True)}
    found = plan.limited(starts, ends, most)
    assert tuple(found[key] - starts.get(key, 0) for key in KEYS) == expected
