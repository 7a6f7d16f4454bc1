"""Runs of rows: their order and merge, and restores that write them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from broker_streams.plan.stores import Store, StoreKind
from broker_streams.state import writing
from broker_streams.state.directory import StateDirectory
from broker_streams.state.file import TaskFile
from broker_streams.state.rows import PLAIN_BYTES
from broker_streams.state.runs import Merge, blocks_of, count_of, in_order
from broker_streams.state.stamp import Place
from broker_streams.state.task_state import TaskState

ROWS = Store("s", StoreKind.KEY_VALUE)
Rows = dict[bytes, bytes | None]


def some_key(draw: random.Random) -> bytes:
    """Keys that begin alike, that are the beginnings of others, and that differ behind eight bytes."""
    head = draw.choice([b"", b"abcdefghij", b"abcdefgh\0", b"\xff\xff"])[: draw.randrange(11)]
    return head + bytes(draw.choices(b"\0\1ab\xff", k=draw.randrange(1, 5)))


def some_rows(draw: random.Random, count: int) -> Rows:
    return {some_key(draw): draw.choice([None, b"", b"v" * draw.randrange(30)]) for _ in range(count)}


def kept(rows: Rows) -> list[tuple[bytes, bytes]]:
    return sorted((key, value) for key, value in rows.items() if value is not None)


@pytest.mark.parametrize("seed", range(40))
def test_a_merge_has_the_last_row_of_each_key_in_order(seed: int) -> None:
    """If this fails, a restored store lacks rows, or has old ones."""
    draw = random.Random(seed)
    runs, rows = [], Rows()
    for _ in range(draw.randrange(6)):
        run = some_rows(draw, draw.randrange(60))
        assert in_order(run, PLAIN_BYTES) == (kept(run), sorted(key for key, value in run.items() if value is None))
        blocks = blocks_of(run, PLAIN_BYTES, draw.choice([1, 60, 1000]))
        assert blocks is not None
        assert sum(map(count_of, blocks)) == len(run)
        runs.append(blocks)
        rows |= run
    merge, found = Merge(runs), []
    while part := merge.rows(draw.randrange(1, 9)):
        found += part
    assert found == kept(rows)
    for low in [*list(rows)[:10], b"a", b"zz", b"\0"]:
        for with_low in (False, True):
            merge = Merge(runs, low, with_low)
            assert merge.rows(1000) == [row for row in kept(rows) if row[0] > low or (with_low and row[0] == low)]
            merge.close()
            assert merge.rows(1) == []


def test_keys_that_a_run_cannot_have_are_found() -> None:
    """If this fails, a restore ends with an error of LMDB."""
    for key in (b"", b"x" * 10):
        assert in_order({b"a": b"", key: b""}, 9) is None
        assert blocks_of({b"a": b"", key: b""}, 9, 100) is None


@pytest.mark.parametrize(
    "block", [b"", b"\1\0\0", b"\1\0\0\0", b"\1\0\0\0\4\0\1\0\0\0key", b"\1\0\0\0\1\0\xf0\xff\xff\xffk"]
)
def test_a_damaged_block_is_refused(block: bytes) -> None:
    """If this fails, bytes beside the block are taken for rows, or the process ends."""
    with pytest.raises(ValueError, match="a block of rows"):
        Merge([[block]])


class Restore:
    """A map that is restored: what it must have, and the rows of the changelog."""

    def __init__(self, root: Path, draw: random.Random) -> None:
        self.root, self.draw = StateDirectory(root, "app"), draw
        self.log: list[Rows] = []
        self.open()

    def open(self) -> None:
        self.state = TaskState.open(
            self.root.lock("0_0"), [ROWS], lambda: 0, buffer_bytes=self.draw.choice([0, 1500]), map_bytes=1 << 17
        )
        self.map = self.state.open_maps(ROWS).open("rows")
        self.at = self.state.places.get("s", Place(0)).offset

    def read(self, *, is_last: bool) -> None:
        while self.at < len(self.log):
            self.map.put_all(self.log[self.at])
            self.at += 1
            self.state.restored({"s": Place(self.at)}, is_last=is_last and self.at == len(self.log))
            for _ in range(self.draw.randrange(4)):
                self.state.step()
            if self.draw.random() < 0.3:
                self.check()
            self.state.finish()

    def commit(self) -> None:
        """A batch of the task, which need not wait for the merge."""
        rows = some_rows(self.draw, 5)
        for key, value in rows.items():
            self.map.put(key, value)
        self.log.append(rows)
        self.at += 1
        self.state.seal()
        self.state.committed({"s": Place(self.at)})

    def check(self) -> None:
        rows = Rows()
        for each in self.log[: self.at]:
            rows |= each
        expected, draw = kept(rows), self.draw
        low, high = sorted((some_key(draw), some_key(draw)))
        part = [row for row in expected if low <= row[0] < high]
        assert list(self.map.items()) == expected
        assert list(self.map.items(low, high, False, True)) == part[::-1]
        iteration = self.map.items(low, high, False)
        for key in [*list(rows)[:5], low, b"x" * 600]:
            assert self.map.get(key) == rows.get(key)
        assert len(self.map) == len(expected)
        assert self.map.estimate() >= len(expected)
        self.state.finish()
        assert list(iteration) == part


@pytest.mark.parametrize("seed", range(25))
def test_a_restore_that_is_cut_off_goes_on(place: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a store that was restored in several starts lacks rows, or shows other rows meanwhile."""
    monkeypatch.setattr(writing, "MERGE_BYTES", 400)
    monkeypatch.setattr(writing, "PAUSE_ROWS", 10)
    draw = random.Random(seed)
    restore = Restore(place, draw)
    for _ in range(draw.randrange(1, 5)):
        for _ in range(draw.randrange(1, 12)):
            rows = some_rows(draw, draw.randrange(1, 40))
            if draw.random() < 0.02:
                rows[draw.choice([b"", b"x" * 600])] = b"v"
            restore.log.append(rows)
        restore.read(is_last=draw.random() < 0.5)
        restore.check()
        if draw.random() < 0.3:
            restore.commit()
        if draw.random() < 0.5:
            restore.state.merge_runs()
            for _ in range(draw.randrange(12)):
                restore.state.step()
        if draw.random() < 0.7:
            restore.state.close(discard=draw.random() < 0.6)
            restore.open()
    restore.read(is_last=True)
    restore.state.merge_runs()
    restore.state.finish()
    restore.check()
    assert restore.state.file.with_runs == []
    restore.state.close()


def test_a_restore_from_nothing_writes_each_row_twice_at_most(place: Path) -> None:
    """If this fails, restores take several times as long: each write changes most pages of the tree again."""
    draw = random.Random(1)
    # The file grows in runs and in merges.
    state = TaskState.open(
        StateDirectory(place, "app").lock("0_0"), [ROWS], lambda: 0, buffer_bytes=100_000, map_bytes=1 << 17
    )
    rows, size = state.open_maps(ROWS).open("rows"), 0
    for at in range(60):
        part: Rows = {draw.randbytes(16): b"v" * 200 for _ in range(200)}
        size += sum(len(key) + len(value or b"") for key, value in part.items())
        rows.put_all(part)
        state.restored({"s": Place(at + 1)}, is_last=at == 59)
        state.finish()
    assert len(rows) == 12_000
    assert state.file.size_bytes < 2.5 * size
    state.close()


def test_rows_that_are_read_while_they_are_restored_are_no_runs(place: Path) -> None:
    """If this fails, the restore of a versioned store looks each record up in all runs."""
    state = TaskState.open(StateDirectory(place, "app").lock("0_0"), [ROWS], lambda: 0, buffer_bytes=0)
    rows = state.open_maps(ROWS).open("rows")
    for at in range(3):
        rows.put(b"k%d" % at, b"v")
        state.restored({"s": Place(at + 1)})
        state.finish()
        assert state.file.with_runs == []
    # Rows that are loaded above them join the tree, and those that are put above runs merge these.
    rows.put_all({b"a": b"v"})
    state.restored({"s": Place(4)})
    state.finish()
    assert (state.file.with_runs, len(rows)) == ([], 4)
    state.close()


def test_rows_that_were_dropped_are_not_restored_from_their_runs(place: Path) -> None:
    """If this fails, a store that begins again has rows from before."""
    file = TaskFile(place)
    change = writing.Change("s/1", {b"k": b"v"}, is_loaded=True)
    blocks = file.run_for(change)
    assert blocks is not None
    for _ in file.steps([change], file.stamp, runs={"s/1": blocks}):
        pass
    assert file.names() == ["s/1"]
    file.write([], file.stamp, drops=["s/1"])
    assert (file.names(), file.with_runs) == ([], [])
    file.close()
