"""Maps on disk, beside the map in memory."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_streams.kernel.stores.ordered import OrderedMap
from broker_streams.state.disk_map import DiskMap
from broker_streams.state.file import TaskFile
from broker_streams.state.rows import PLAIN_BYTES
from broker_streams.state.stamp import Stamp


@pytest.fixture
def file(tmp_path: Path) -> Iterator[TaskFile]:
    made = TaskFile(tmp_path / "task", map_bytes=1 << 17)
    yield made
    made.close()


def keys(draw: random.Random, count: int) -> list[bytes]:
    """Short keys, and keys around and above LMDB's limit; many of them begin alike."""
    beginnings = [b"", b"\x00", b"k", b"\xff" * 600, b"long" * 125, b"long" * 124 + b"lon", b"long" * 200]
    return [draw.choice(beginnings) + draw.randbytes(draw.choice([0, 1, 2])) for _ in range(count)]


def write(file: TaskFile, of: DiskMap) -> None:
    change = of.freeze()
    of.detach()
    file.write([change] if change else [], Stamp({}))
    of.written()


@pytest.mark.parametrize("seed", range(12))
def test_a_map_on_disk_is_a_map_in_memory(file: TaskFile, seed: int) -> None:
    """If this fails, a store on disk shows other rows than one in memory."""
    draw = random.Random(seed)
    ours, model = DiskMap(file, "s/rows"), OrderedMap()
    get, put = ours.get, ours.put
    known = keys(draw, draw.choice([20, 300]))
    begun: list[tuple[Iterator[tuple[bytes, bytes]], Iterator[tuple[bytes, bytes]]]] = []
    frozen, is_frozen = None, False
    for step in range(600):
        key = draw.choice(known)
        match draw.randrange(12):
            case 0:
                rows = {other: draw.choice([None, b"%d" % step]) for other in draw.sample(known, 3)}
                ours.put_all(rows)
                model.put_all(rows)
            case 1 | 2 | 3 | 4 | 5:
                value = draw.choice([None, b"", b"%d" % step, b"v" * 3000])
                put(key, value)
                model.put(key, value)
            case 6 | 7:
                assert get(key) == model.get(key)
            case 8:
                bounds = draw.choice([None, *known]), draw.choice([None, *known])
                flags = draw.random() < 0.5, draw.random() < 0.5
                assert list(ours.items(*bounds, *flags)) == list(model.items(*bounds, *flags))
            case 9:
                reverse = draw.random() < 0.5
                pair = ours.items(reverse=reverse), model.items(reverse=reverse)
                for _ in range(draw.randrange(5)):
                    assert next(pair[0], None) == next(pair[1], None)
                begun.append(pair)
            case 10 if is_frozen:
                ours.detach()
                file.write([frozen] if frozen else [], Stamp({}))
                ours.written()
                is_frozen = False
            case 10:
                # Changes that come between the two parts of a write stay in memory.
                frozen, is_frozen = ours.freeze(), True
            case 11:
                assert len(model) == sum(1 for _ in ours.items())
    for mine, theirs in begun:
        assert list(mine) == list(theirs)
    if is_frozen:
        ours.detach()
        file.write([frozen] if frozen else [], Stamp({}))
        ours.written()
    write(file, ours)
    assert list(DiskMap(file, "s/rows").items()) == list(model.items())


def test_rows_outlive_the_process(tmp_path: Path) -> None:
    """If this fails, a file is empty after a restart."""
    file = TaskFile(tmp_path)
    rows = DiskMap(file, "s/rows")
    rows.put(b"", b"empty")
    rows.put(b"k" * PLAIN_BYTES, b"long")
    rows.put(b"k", b"short")
    write(file, rows)
    file.close()
    file = TaskFile(tmp_path)
    assert list(DiskMap(file, "s/rows").items()) == [
        (b"", b"empty"),
        (b"k", b"short"),
        (b"k" * PLAIN_BYTES, b"long"),
    ]
    assert len(DiskMap(file, "s/rows")) == 3
    file.close()


def test_a_long_iteration_keeps_few_rows_in_memory(file: TaskFile) -> None:
    """If this fails, an iteration over all rows of a large store reads them into memory at once."""
    rows = DiskMap(file, "s/rows")
    for number in range(5000):
        rows.put(b"%05d" % number, b"v")
    write(file, rows)
    found = rows.items()
    assert next(found) == (b"00000", b"v")
    read = [each for scan in rows._scans for each in scan._rows]
    assert len(read) < 100
