"""The decision whether a file is continued, when it is written, and a topology that changed above it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker_streams.kernel.errors import StreamsError
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.state.directory import StateDirectory
from broker_streams.state.stamp import DELETIONS_MS, Log, Place, misfit
from broker_streams.state.task_state import WAIT_MS, TaskState

ROWS = Store("s", StoreKind.KEY_VALUE)


class Clock:
    now_ms = 0

    def __call__(self) -> int:
        return self.now_ms


def opened(root: Path, *stores: Store, clock: Clock | None = None, buffer_bytes: int = 1 << 20) -> TaskState:
    directory = StateDirectory(root, "app").lock("0_0")
    try:
        return TaskState.open(directory, stores, clock or Clock(), buffer_bytes=buffer_bytes)
    except StreamsError:
        directory.release()
        raise


def filled(root: Path, *stores: Store) -> None:
    state = opened(root, *stores)
    for store in stores:
        state.open_maps(store).open("rows").put(b"k", b"v")
    state.seal()
    state.committed({store.name: Place(5, "id") for store in stores})
    state.close()


@pytest.mark.parametrize(
    ("place", "log", "reason"),
    [
        (Place(5, "id"), Log(0, 5, "id"), None),
        (Place(5, "id"), Log(5, 9, "id"), None),
        (Place(5, ""), Log(0, 9, "id"), None),
        (Place(5, "id"), Log(0, 9, "other"), "deleted and made again"),
        (Place(5, "id"), Log(0, 4, "id"), "the changelog ends at 4"),
        (Place(5, "id"), Log(6, 9, "id"), "the changelog begins at 6"),
    ],
)
def test_rows_fit_a_changelog_that_continues_them(place: Place, log: Log, reason: str | None) -> None:
    """If this fails, state is continued from a changelog that is another one, or lacks records."""
    found = misfit(place, log, 0, 0)
    assert found is None if reason is None else found is not None and reason in found


def test_old_rows_fit_only_a_changelog_without_news() -> None:
    """If this fails, a row comes back whose deletion the changelog has forgotten."""
    assert misfit(Place(5), Log(0, 5), 0, DELETIONS_MS) is None
    assert misfit(Place(5), Log(0, 6), 0, DELETIONS_MS - 1) is None
    assert "older than" in (misfit(Place(5), Log(0, 6), 0, DELETIONS_MS) or "")


def test_rows_that_do_not_fit_are_dropped_for_their_store_only(place: Path) -> None:
    """If this fails, one new changelog topic costs all stores of a task."""
    other = replace(ROWS, name="t")
    filled(place, ROWS, other)
    state = opened(place, ROWS, other)
    assert state.fit({"s": Log(0, 9, "id"), "t": Log(0, 9, "new")})
    assert state.places == {"s": Place(5, "id")}
    assert state.open_maps(ROWS).open("rows").get(b"k") == b"v"
    assert state.open_maps(other).open("rows").get(b"k") is None
    assert "rows of store t" in state.news[0]
    state.close()


def test_a_renamed_store_begins_anew(place: Path) -> None:
    """If this fails, rows of a store that is gone stay for ever, or the new one has them."""
    filled(place, ROWS)
    state = opened(place, replace(ROWS, name="t"))
    assert state.places == {}
    assert state.file.names() == []
    assert "the topology has no store s any more" in state.news[0]
    state.close()


def test_other_settings_of_a_store_restore_it(place: Path) -> None:
    """If this fails, rows are read in a layout that they do not have."""
    filled(place, ROWS)
    state = opened(place, replace(ROWS, kind=StoreKind.TIMESTAMPED_KEY_VALUE))
    assert state.places == {}
    assert "store s has other settings now" in state.news[0]
    state.close()


def test_another_kind_of_store_is_refused_and_nothing_is_lost(place: Path) -> None:
    """If this fails, a changelog of keys is read as one of windows."""
    filled(place, ROWS)
    with pytest.raises(
        StreamsError, match="store s was a key-value store, and is a session store now: its changelog has"
    ):
        opened(place, replace(ROWS, kind=StoreKind.SESSION, retention_ms=1))
    state = opened(place, ROWS)
    assert state.open_maps(ROWS).open("rows").get(b"k") == b"v"
    state.close()


def test_a_store_without_a_changelog_begins_empty(place: Path) -> None:
    """If this fails, rows of an uncommitted batch outlive a crash where no changelog corrects them."""
    store = replace(ROWS, logging=False)
    filled(place, store)
    state = opened(place, store)
    assert state.open_maps(store).open("rows").get(b"k") is None
    assert state.news == []
    state.close()


def test_most_commits_write_nothing(place: Path) -> None:
    """If this fails, each commit waits for the disk, or rows stay in memory for ever."""
    clock = Clock()
    state = opened(place, ROWS, clock=clock, buffer_bytes=10_000)
    rows = state.open_maps(ROWS).open("rows")

    def commit(offset: int) -> int:
        state.seal()
        state.committed({"s": Place(offset)})
        state.finish()
        return state.file.stamp.places.get("s", Place(0)).offset

    rows.put(b"a", b"v")
    assert commit(1) == 0
    for number in range(100):
        rows.put(b"%d" % number, b"v")
    assert commit(2) == 2
    rows.put(b"a", b"w")
    assert commit(3) == 2
    clock.now_ms = WAIT_MS
    assert commit(4) == 4
    # A large value counts by its size.
    rows.put(b"a", b"w" * 10_000)
    assert commit(5) == 5
    state.close()


def test_a_commit_that_goes_on_is_not_mixed_with_what_follows(place: Path) -> None:
    """If this fails, rows that were processed during a commit are in the file before they are committed."""
    state = opened(place, ROWS, buffer_bytes=0)
    rows = state.open_maps(ROWS).open("rows")
    rows.put(b"a", b"1")
    state.seal()
    rows.put(b"a", b"2")
    rows.put(b"b", b"2")
    state.committed({"s": Place(1)})
    state.finish()
    assert dict(rows.items()) == {b"a": b"2", b"b": b"2"}
    # The instance is gone: what followed does not count.
    state.close()
    state = opened(place, ROWS)
    assert dict(state.open_maps(ROWS).open("rows").items()) == {b"a": b"1"}
    assert state.places == {"s": Place(1)}
    state.close()


def test_a_write_in_parts_shows_and_keeps_all_rows(place: Path) -> None:
    """If this fails, a read during a write misses rows, or a process that is gone then leaves a part of them."""
    state = opened(place, ROWS, buffer_bytes=0)
    rows = state.open_maps(ROWS).open("rows")
    expected = {b"%05d" % number: b"1" for number in range(5000)}
    for number in range(5000):
        rows.put(b"%05d" % number, b"1")
    state.seal()
    state.committed({"s": Place(1)})
    state.finish()
    for number in range(0, 5000, 2):
        rows.put(b"%05d" % number, None if number % 4 else b"2")
    state.seal()
    state.committed({"s": Place(2)})
    begun = rows.items()
    first = next(begun)
    parts = 0
    while state.step():
        parts += 1
        rows.put(b"%05d" % parts, b"3")
        assert rows.get(b"%05d" % parts) == b"3"
        assert rows.get(b"00002") is None or parts >= 2
        assert rows.get(b"00100") == b"2"
        assert rows.get(b"00101") == b"1"
        assert len(list(rows.items(b"00100", b"00109"))) == 8
    assert parts >= 2
    expected |= {b"%05d" % number: b"2" for number in range(0, 5000, 4)}
    for number in range(2, 5000, 4):
        del expected[b"%05d" % number]
    # The iteration shows the rows of its beginning.
    assert [first, *begun] == sorted(expected.items())
    state.file.close()
    state.directory.release()
    state = opened(place, ROWS)
    assert dict(state.open_maps(ROWS).open("rows").items()) == expected
    assert state.places == {"s": Place(2)}
    state.close()
