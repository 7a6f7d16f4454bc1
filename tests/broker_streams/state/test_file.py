"""The file of a task: what outlives which end of its process and of its machine."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from broker_streams.kernel.errors import StreamsError
from broker_streams.state import writing
from broker_streams.state.disk_map import DiskMap
from broker_streams.state.file import DATA, MARK, TaskFile
from broker_streams.state.stamp import Place, Stamp
from broker_streams.state.writing import Change


def stamp(number: int) -> Stamp:
    return Stamp({"s": Place(number)}, number)


def rows_of(directory: Path) -> tuple[dict[bytes, bytes], Stamp]:
    file = TaskFile(directory)
    try:
        return dict(DiskMap(file, "s/rows").items()), file.stamp
    finally:
        file.close()


def filled(directory: Path, **options: str) -> TaskFile:
    file = TaskFile(directory, **options)  # type: ignore[arg-type]
    file.write([Change("s/rows", {b"k": b"1"})], stamp(1))
    return file


def test_a_file_outlives_its_process(place: Path) -> None:
    """If this fails, each start restores all state."""
    filled(place).close()
    assert rows_of(place) == ({b"k": b"1"}, stamp(1))


def test_an_open_file_is_deleted_after_another_boot(place: Path) -> None:
    """If this fails, a file that a power loss has torn is taken for whole."""
    filled(place, boot_id="one").close()
    file = TaskFile(place, boot_id="other")
    assert file.lost == "the machine stopped while it was open"
    assert file.stamp == Stamp({})
    assert file.names() == []
    file.close()


def test_a_file_that_was_synced_outlives_the_machine(place: Path) -> None:
    """If this fails, each reboot restores all state."""
    filled(place, boot_id="one").close(sync=True)
    assert not (place / MARK).exists()
    file = TaskFile(place, boot_id="other")
    assert (file.lost, file.stamp) == (None, stamp(1))
    file.close()


def cut(data: Path) -> None:
    with data.open("r+b") as file:
        file.truncate(data.stat().st_size - 1)


def other(data: Path) -> None:
    data.write_bytes(b"no file of LMDB" * 1000)


@pytest.mark.parametrize("damage", [cut, other])
def test_a_damaged_file_is_made_again(place: Path, damage: Callable[[Path], None]) -> None:
    """If this fails, a damaged file ends the application, or its process."""
    filled(place).close()
    damage(place / DATA)
    file = TaskFile(place)
    assert file.lost is not None
    assert file.lost.startswith("it cannot be read")
    assert file.names() == []
    file.close()
    assert rows_of(place) == ({}, Stamp({}))


def test_a_file_grows(place: Path) -> None:
    """If this fails, a task ends when its state is larger than the first map of the file."""
    file = TaskFile(place, map_bytes=1 << 16)
    file.write([Change("s/rows", {b"%06d" % at: b"v" * 100 for at in range(5000)})], stamp(1))
    assert len(DiskMap(file, "s/rows")) == 5000
    file.close()
    assert len(rows_of(place)[0]) == 5000


def test_a_write_is_taken_back(place: Path) -> None:
    """If this fails, rows, deletions, new maps, dropped maps or numbers of an aborted batch remain."""
    file = filled(place)
    file.write(
        [Change("s/1", {b"a": b"x", b"": b"e"}), Change("s/2", {b"b": b"y"})], stamp(2), meta={b"numbers:n": b"1"}
    )
    before = sorted(file.names())
    changes = [
        Change("s/rows", {b"k": None, b"l": b"2", b"": b"new", b"long" * 200: b"z"}),
        Change("s/2", {b"b": b"yy", b"c": None}),
        Change("s/3", {b"d": b"w"}),
    ]
    file.write(changes, stamp(3), meta={b"numbers:n": b"2"}, drops=["s/1"], undoable=True)
    assert "s/1" not in file.names()
    file.close()
    file = TaskFile(place)
    assert (file.is_pending, file.stamp) == (True, stamp(3))
    file.undo()
    assert (file.is_pending, file.stamp) == (False, stamp(2))
    assert sorted(name for name in file.names() if dict(DiskMap(file, name).items())) == before
    assert dict(DiskMap(file, "s/rows").items()) == {b"k": b"1"}
    assert dict(DiskMap(file, "s/1").items()) == {b"a": b"x", b"": b"e"}
    assert dict(DiskMap(file, "s/2").items()) == {b"b": b"y"}
    assert file.meta(b"numbers:n") == b"1"
    file.close()


def test_a_write_is_kept(place: Path) -> None:
    """If this fails, a dropped map comes back, or an old batch is taken back."""
    file = filled(place)
    file.write([Change("s/1", {b"a": b"x", b"": b"e"})], stamp(2))
    file.write([Change("s/rows", {b"k": b"2"})], stamp(3), drops=["s/1"], undoable=True)
    file.confirm()
    assert (file.is_pending, file.names()) == (False, ["s/rows"])
    assert list(DiskMap(file, "s/1").items()) == []
    file.write([Change("s/rows", {b"k": b"3"})], stamp(4), undoable=True)
    file.undo()
    assert dict(DiskMap(file, "s/rows").items()) == {b"k": b"2"}
    file.close()


def in_a_child(call: Callable[[], None]) -> int:
    """Run `call` in a process of its own; return its exit code, or the number of the signal that ended it."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            call()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_disk_that_is_full_is_named_and_loses_nothing(place: Path) -> None:
    """If this fails, a full disk kills the process, or leaves a part of a commit."""
    filled(place).close()

    def fill() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        file = TaskFile(place)
        size = file.size_bytes + 4096
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        with pytest.raises(StreamsError, match=r"the state in .* cannot be used"):
            file.write([Change("s/rows", {b"%06d" % at: b"v" * 1000 for at in range(500)})], stamp(2))
        assert dict(DiskMap(file, "s/rows").items()) == {b"k": b"1"}

    assert in_a_child(fill) == 0
    assert rows_of(place) == ({b"k": b"1"}, stamp(1))


def test_a_process_that_is_killed_leaves_a_state_of_before_or_after(place: Path) -> None:
    """If this fails, kill -9 within a write leaves a part of it."""
    filled(place).close()
    steps = 0
    while True:
        steps += 1

        def write(at: int = steps) -> None:
            file = TaskFile(place)
            number = file.stamp.time_ms + 1
            rows: dict[bytes, bytes | None] = {b"%04d" % key: b"%d" % number for key in range(300)}
            kill_at(at)
            file.write([Change("s/rows", rows), Change("s/2", rows)], stamp(number), undoable=True)
            file.confirm()

        code = in_a_child(write)
        found, last = rows_of(place)
        values = {value for key, value in found.items() if key != b"k"}
        assert values <= {b"%d" % last.time_ms}
        if code == 0:
            break
        assert code == -signal.SIGKILL
    # Each row, each map and both transactions were such a step.
    assert steps > 10


def kill_at(step: int) -> None:
    """Let this process kill itself at the call number `step` of its next calls of the file's transactions."""
    count = 0

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def made(*arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return made

    for owner, name in (
        (writing.Write, "_handle"),
        (writing.Write, "_physical"),
        (writing.Write, "_keep"),
        (writing.Write, "meta"),
        (writing.Write, "finish"),
        (writing.Write, "confirm"),
        (TaskFile, "_transaction"),
        (TaskFile, "_begin"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
