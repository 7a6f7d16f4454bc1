"""Checkpoints, leader epochs and the transaction index: Kafka's formats, and clear errors for damaged ones."""

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_cy.storage import atomic, checkpoints, data_directory, txn_index
from broker_cy.storage.epochs import LeaderEpochs


def test_offset_checkpoints_round_trip(tmp_path: Path) -> None:
    """If this fails, recovery points or high watermarks are lost with a restart."""
    path = str(tmp_path / "checkpoint")
    assert checkpoints.read_entries(path).offsets == {}
    offsets = {("t", 0): 5, ("with-dash.and_more", 12): 1 << 40}
    checkpoints.write_offsets(path, offsets)
    assert (tmp_path / "checkpoint").read_text() == "0\n2\nt 0 5\nwith-dash.and_more 12 1099511627776\n"
    assert checkpoints.read_entries(path).offsets == offsets


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1\n0\n",
            "0\n",
            "0\n2\nt 0 5\n",
            "0\n1\nt 0\n",
            "0\n1\nt x 5\n",
            "0\nx\n",
            "0\n1\nt 0 5 6\n",
            "0\n1\nt 0 -\n",
        ),
        "0\n1\n\udcff 0 5\n",
    ],
)
def test_damaged_checkpoints_name_the_file(tmp_path: Path, text: str) -> None:
    """If this fails, a damaged checkpoint is accepted as valid."""
    path = tmp_path / "checkpoint"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(ValueError, match=str(path)):
        checkpoints.read_entries(str(path))


@pytest.mark.parametrize("content", [b"\xff\xfe", b"version: 0\n", b"version: 0\ntopic_id: \xff\n"])
def test_damaged_partition_metadata_name_the_file(tmp_path: Path, content: bytes) -> None:
    """If this fails, an operator sees an error about a byte that is not UTF-8, but not in which file it is."""
    path = tmp_path / data_directory.PARTITION_METADATA
    path.write_bytes(content)
    with pytest.raises(ValueError, match=str(path)):
        data_directory.read_topic_id(str(tmp_path))


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 100)), max_size=20), st.integers(0, 110), st.integers(0, 110)
)
def test_leader_epochs_against_a_table(assigned: list[tuple[int, int]], start: int, end: int) -> None:
    """If this fails, followers and consumers truncate at the wrong offset after a leader change (KIP-101)."""
    epochs = LeaderEpochs("nowhere")
    table: list[tuple[int, int]] = []
    for epoch, offset in assigned:
        epochs.assign(epoch, offset)
        if not (table and table[-1][0] == epoch and offset >= table[-1][1]):
            table = [entry for entry in table if entry[0] < epoch and entry[1] < offset] + [(epoch, offset)]
        assert epochs.entries == table
    epochs.truncate_from_end(end)
    table = [entry for entry in table if entry[1] < end]
    epochs.truncate_from_start(start)
    below = [entry for entry in table if entry[1] <= start]
    if below:
        table = [(below[-1][0], start), *(entry for entry in table if entry[1] > start)]
    assert epochs.entries == table
    for epoch in range(32):
        higher = next((entry for entry in table if entry[0] > epoch), None)
        floor = next((entry for entry in reversed(table) if entry[0] <= epoch), None)
        if not table or (higher is None and (floor is None or floor[0] != epoch)):
            expected = (-1, -1)
        elif higher is None:
            expected = (epoch, 500)
        else:
            expected = (floor[0] if floor else epoch, higher[1])
        assert epochs.end_offset_for(epoch, 500) == expected
    assert epochs.end_offset_for(-1, 500) == (-1, -1)


def test_leader_epoch_file(tmp_path: Path) -> None:
    """If this fails, leader epochs are lost at a restart, or a damaged file is trusted."""
    epochs = LeaderEpochs(str(tmp_path))
    epochs.assign(0, 0)
    epochs.assign(4, 90)
    epochs.write()
    path = tmp_path / "leader-epoch-checkpoint"
    assert path.read_text() == "0\n2\n0 0\n4 90\n"
    assert LeaderEpochs.load(str(tmp_path)).entries == [(0, 0), (4, 90)]
    for text in ("0\n2\n4 90\n0 0\n", "0\n1\n", "", "0\n1\n1 x\n"):
        path.write_text(text)
        with pytest.raises(ValueError, match="leader-epoch-checkpoint"):
            LeaderEpochs.load(str(tmp_path))


def test_transaction_index(tmp_path: Path) -> None:
    """If this fails, aborted records are shown to read_committed consumers."""
    directory = str(tmp_path)
    entries = [(1, 5, 9, 7), (2, 7, 12, 13), (1, 20, 30, 31)]
    txn_index.append(directory, 5, entries[:1])
    txn_index.append(directory, 5, entries[1:])
    assert txn_index.read(directory, 5) == entries
    assert os.path.getsize(txn_index.path_of(directory, 5)) == 3 * 34
    txn_index.truncate_to(directory, 5, 12)
    assert txn_index.read(directory, 5) == entries[:1]
    assert txn_index.read(directory, 99) == []
    with open(txn_index.path_of(directory, 5), "ab") as file:
        file.write(b"x")
    with pytest.raises(ValueError, match="expected a multiple of 34"):
        txn_index.read(directory, 5)


def test_a_failed_replacement_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a full disk destroys a valid checkpoint."""
    path = tmp_path / "file"
    atomic.write_atomically(str(path), b"old", sync=True)

    def full(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="no room"):
        atomic.write_atomically(str(path), b"new", sync=True)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
