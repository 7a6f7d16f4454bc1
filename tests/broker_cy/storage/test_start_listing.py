"""The listing of a start finds what looking at each partition finds."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import UUID

import pytest

from broker_cy.network.seams import ThreadWorkers
from broker_cy.storage import damage, syncs
from broker_cy.storage.data_directory import DataDirectory, topic_id_in, write_topic_id
from broker_cy.storage.jobs import RunAll, run_inline
from broker_cy.storage.plain_partitions import plain_contents
from broker_cy.storage.start_listing import StartListing, list_directory
from tests.broker_cy.storage.managing import TOPIC_ID


def partition(root: Path, name: str, topic_id: UUID = TOPIC_ID) -> Path:
    path = root / name
    path.mkdir()
    write_topic_id(str(path), topic_id)
    return path


def test_only_plain_partitions_are_read(tmp_path: Path) -> None:
    """If this fails, a start opens a log without a look at the mark of a failed sync or of damage; or takes it for that
    of another topic.
    """
    names = [f"t-{number}" for number in range(6)]
    for number, name in enumerate(names):
        partition(tmp_path, name, UUID(int=number + 1))
    syncs.mark_failed(str(tmp_path / "t-1"))
    damage.write(str(tmp_path / "t-2"), damage.Note(0, 0), "reason")
    (tmp_path / "t-3" / "partition.metadata").unlink()
    (tmp_path / "t-4" / "partition.metadata").write_bytes(bytes(64))
    found = plain_contents(str(tmp_path), [*names, "missing-0"])
    ids = [None if each is None else topic_id_in(each) for each in found]
    assert ids == [UUID(int=1), None, None, None, None, UUID(int=6), None]
    assert plain_contents(str(tmp_path), ["t-" + "x" * 5_000]) == [None]


def test_more_partitions_than_one_piece_of_memory_has(tmp_path: Path) -> None:
    """If this fails, partitions of a large data directory get the topic ids of others."""
    names = [f"t-{number}" for number in range(1_100)]
    for number, name in enumerate(names):
        partition(tmp_path, name, UUID(int=number // 2 + 1))
    found = plain_contents(str(tmp_path), names)
    assert [None if each is None else topic_id_in(each) for each in found] == [
        UUID(int=number // 2 + 1) for number in range(1_100)
    ]


@pytest.mark.parametrize("run_all", [run_inline, ThreadWorkers().run_all])
def test_every_directory_is_listed(tmp_path: Path, run_all: RunAll) -> None:
    """If this fails, logs of one of several disks are not found at a start."""
    roots = [tmp_path / "a", tmp_path / "b"]
    for number, root in enumerate(roots):
        root.mkdir()
        for name in ("t-10", "t-9", f"u-{number}", "t-1.0123456789abcdef0123456789abcdef-delete", "nonsense"):
            partition(root, name)
        (root / "a-0").write_text("a file")
    listing = StartListing([DataDirectory(str(root)) for root in roots], run_all)
    assert [[each.name for each in one.partitions] for one in listing.listings] == [
        ["t-10", "t-9", "u-0"],
        ["t-10", "t-9", "u-1"],
    ]
    assert listing.listings[0].others == ["nonsense", "t-1.0123456789abcdef0123456789abcdef-delete"]
    assert (listing.topic_id_of(("u", 0)), listing.topic_id_of(("u", 1))) == (TOPIC_ID, TOPIC_ID)
    assert listing.topic_id_of(("t", 9)) is None, "two directories have it"
    assert listing.topic_id_of(("v", 0)) is None
    listing.drop()
    assert listing.topic_id_of(("u", 0)) is None


def test_a_directory_that_cannot_be_listed(tmp_path: Path) -> None:
    """If this fails, a disk that is gone ends the start, or counts as one without logs."""
    found = list_directory(DataDirectory(str(tmp_path / "gone")))
    assert isinstance(found.error, FileNotFoundError)
    assert (found.partitions, found.others) == ([], [])


def test_a_damaged_topic_id_is_none(tmp_path: Path) -> None:
    """If this fails, a start ends because of one damaged file."""
    (partition(tmp_path, "t-0") / "partition.metadata").write_bytes(b"version: 7\n")
    listing = StartListing([DataDirectory(str(tmp_path))], run_inline)
    assert listing.topic_id_of(("t", 0)) is None
    assert os.listdir(tmp_path) == ["t-0"]
