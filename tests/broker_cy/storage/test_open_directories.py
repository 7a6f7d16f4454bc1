"""The directories of a node at its start: those that end it, and those that are offline."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker_cy.core.uuid import to_text
from broker_cy.storage.data_directory import DataDirectory, DataDirectoryError
from broker_cy.storage.open_directories import open_directories, open_metadata_directory, usable

CLUSTER_ID = "vPeWCWqNQ0eGGvvK5wD1kg"


class Node:
    """Node 1 with three data directories, which are formatted."""

    def __init__(self, root: Path) -> None:
        self.paths = [root / name for name in "abc"]
        self._ids = count(1_000)
        self.opened: list[DataDirectory] = []
        self.open()
        self.close()

    def open(self, *, may_format: bool = True, metadata_path: str | None = None) -> list[DataDirectory]:
        self.opened = open_directories(
            [str(path) for path in self.paths],
            1,
            lambda: CLUSTER_ID,
            lambda: UUID(int=next(self._ids)),
            may_format=may_format,
            metadata_path=metadata_path,
        )
        return self.opened

    def close(self) -> None:
        for each in self.opened:
            each.close()

    def rewrite(self, number: int, name: str, value: str) -> None:
        """Change a line of a meta.properties."""
        file = self.paths[number] / "meta.properties"
        lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{name}=")]
        file.write_text("\n".join([*lines, f"{name}={value}"]) + "\n")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def text_id(number: int) -> str:
    return to_text(UUID(int=number))


REFUSED: list[tuple[str, Callable[[Node], object], str]] = [
    ("cluster", lambda node: node.rewrite(1, "cluster.id", "x" * 22), r"b belongs to cluster xxx.*, .*/a to vPeW"),
    ("node", lambda node: node.rewrite(2, "node.id", "7"), r"c belongs to node.id 7, this broker is 1"),
    ("id", lambda node: node.rewrite(1, "directory.id", text_id(1000)), r"Duplicate directory ID .*of .*/a, but.*/b"),
    ("reserved", lambda node: node.rewrite(1, "directory.id", text_id(2)), r"Invalid reserved directory ID .*/b"),
    ("version", lambda node: node.rewrite(0, "version", "0"), r"a/meta.properties cannot be read \(version is '0'"),
    ("empty", lambda node: (node.paths[1] / "meta.properties").unlink(), r"No `meta.properties` found in .*/b \(have"),
    ("same", lambda node: node.paths.append(node.paths[0]), r"Duplicate log directory found: .*/a, .*/b, .*/c, .*/a"),
]


@pytest.mark.parametrize(("spoil", "message"), [each[1:] for each in REFUSED], ids=[each[0] for each in REFUSED])
def test_content_that_is_wrong_ends_the_start(node: Node, spoil: Callable[[Node], object], message: str) -> None:
    """If this fails, a broker serves the data of another node, a copy of its own, or fills the disk below a mount point
    whose disk is missing.
    """
    spoil(node)
    with pytest.raises(DataDirectoryError, match=message) as caught:
        node.open()
    assert "\n" not in str(caught.value)
    # Nothing is locked any more.
    for path in node.paths[:3]:
        directory = DataDirectory(str(path))
        directory.lock()
        directory.close()


def test_links_to_one_directory_are_refused(node: Node, tmp_path: Path) -> None:
    """If this fails, the message says that another broker uses the directory."""
    (tmp_path / "d").symlink_to(tmp_path / "a")
    node.paths.append(tmp_path / "d")
    with pytest.raises(DataDirectoryError, match="Duplicate log directory found"):
        node.open()


@pytest.mark.parametrize("name", ["disk-1", "disk"])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_directory_in_another_one_is_refused(node: Node, tmp_path: Path, name: str, is_link: bool) -> None:
    """If this fails, the disk that is mounted at a/disk-1 counts as partition 1 of a topic that was deleted, and its
    directory is renamed while the broker uses it.
    """
    inner = tmp_path / "a" / name
    if is_link:
        (tmp_path / "d").mkdir()
        inner.symlink_to(tmp_path / "d")
    directories = node.open()
    with pytest.raises(DataDirectoryError, match=f"directory .*a/{name} is in data directory .*/a, which has only"):
        open_metadata_directory(str(inner), directories, lambda: UUID(int=1))
    node.close()
    node.paths.append(inner)
    with pytest.raises(DataDirectoryError, match=f"directory .*a/{name} is in data directory .*/a, which has only"):
        node.open()
    assert inner.exists() == is_link
    # The metadata log may be above, because it has no partitions.
    del node.paths[3]
    open_metadata_directory(str(tmp_path), node.open(), lambda: UUID(int=1)).close()


def test_a_directory_in_use_ends_the_start(node: Node) -> None:
    """If this fails, a second process of a node runs with the disks that the first one does not use."""
    holder = DataDirectory(str(node.paths[1]))
    holder.lock()
    with pytest.raises(DataDirectoryError, match=r"b is in use by another broker \(process "):
        node.open()
    holder.close()


@pytest.mark.parametrize("code", [errno.EIO, errno.EROFS, errno.EACCES])
@pytest.mark.parametrize("operation", ["stat", "open", "listdir"])
def test_a_disk_that_fails_is_offline(node: Node, monkeypatch: pytest.MonkeyPatch, operation: str, code: int) -> None:
    """If this fails, a broker with one dead disk of three does not start (Kafka serves the other two)."""
    right = getattr(os, operation)

    def broken(path: str, *arguments: object, **named: object) -> object:
        if str(path).startswith(str(node.paths[1])):
            raise OSError(code, os.strerror(code), path)
        return right(path, *arguments, **named)

    monkeypatch.setattr(os, operation, broken)
    a, b, c = node.open()
    monkeypatch.undo()
    assert (a.failure, c.failure, usable([a, b, c])) == (None, None, [a, c])
    assert b.failure is not None
    assert os.strerror(code) in b.failure
    with pytest.raises(DataDirectoryError, match="It is the directory of the metadata log, so the node cannot start"):
        open_metadata_directory(b.path, [a, b, c], lambda: UUID(int=1))
    assert open_metadata_directory(a.path, [a, b, c], lambda: UUID(int=1)) is a
    # It is not locked: an operator may look at it, and format it.
    b.lock()


def test_a_missing_mount_is_offline(node: Node) -> None:
    """If this fails, the broker does not start without a disk, or it makes the directory on the disk of the system."""
    shutil.rmtree(node.paths[1])
    (failure,) = [each.failure for each in node.open() if each.failure is not None]
    assert failure == (
        f"data directory {node.paths[1]} does not exist: mount its disk, or make it and format it with broker-cy "
        "storage format --ignore-formatted"
    )
    assert not node.paths[1].exists()


def test_one_directory_must_be_usable(node: Node) -> None:
    """If this fails, a broker runs without any disk, and creates all of its partitions again later."""
    for path in node.paths:
        shutil.rmtree(path)
    with pytest.raises(DataDirectoryError, match=r"a does not exist: .*; .*b does not exist: .*c does not exist"):
        # The metadata directory shows that the node is not new.
        node.open(metadata_path=_metadata_directory(node))
    assert not any(path.exists() for path in node.paths)


def _metadata_directory(node: Node) -> str:
    found = DataDirectory(str(node.paths[0].parent / "metadata"))
    found.lock()
    found.format(CLUSTER_ID, 1, UUID(int=5_000))
    found.close()
    return found.path


def test_a_node_with_a_metadata_log_is_not_new(node: Node) -> None:
    """If this fails, an empty disk, or an empty mount point, becomes a part of a new cluster."""
    for path in node.paths:
        (path / "meta.properties").unlink()
    with pytest.raises(DataDirectoryError, match=r"No `meta.properties` found in .*/a"):
        node.open(metadata_path=_metadata_directory(node))


def test_a_new_node_needs_all_of_its_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a node whose only formatted disk cannot be read begins a new cluster on the others."""
    node = Node(tmp_path)
    for path in node.paths[1:]:
        (path / "meta.properties").unlink()
    right: Any = os.stat

    def broken(path: str, *arguments: object, **named: object) -> object:
        if str(path).startswith(str(node.paths[0])):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return right(path, *arguments, **named)

    monkeypatch.setattr(os, "stat", broken)
    with pytest.raises(DataDirectoryError, match=r"a cannot be read \(Input/output error\)"):
        node.open()
    monkeypatch.undo()
    assert not (node.paths[1] / "meta.properties").exists()


def test_a_metadata_log_outside_of_the_metadata_directory(node: Node, tmp_path: Path) -> None:
    """If this fails, a typing error in metadata.log.dir makes a node forget its topics."""
    (tmp_path / "b/__cluster_metadata-0").mkdir()
    directories = node.open()
    with pytest.raises(DataDirectoryError) as caught:
        open_metadata_directory(str(tmp_path / "a"), directories, lambda: UUID(int=1))
    assert str(caught.value).startswith(
        f"Found unexpected metadata location in data directory `{tmp_path}/b/__cluster_metadata-0` (the configured "
        f"metadata directory is {tmp_path}/a)"
    )
    assert open_metadata_directory(str(tmp_path / "b"), directories, lambda: UUID(int=1)) is directories[1]


def test_a_full_disk_does_not_end_the_start(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, one full disk keeps the whole broker down."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    assert usable(node.open()) == node.opened
