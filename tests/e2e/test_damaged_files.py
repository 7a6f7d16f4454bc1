"""A real broker on files that were torn, damaged or removed while it was down: it repairs what it can, reports each
damage and its place in one line, and serves everything else.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from broker_cy.storage import written_points
from broker_cy.storage.checkpoints import decode_entries
from tests.support import needs
from tests.support.acked import Address, batch, fetch, read_partition
from tests.support.broker import BrokerProcess, Target, new_target, target_is_kafka
from tests.support.raw_wire import LIST_OFFSETS, Connection, array, i8, i32, i64, produce, string
from tests.support.topics import create_topic
from tests.support.wait import until

pytestmark = pytest.mark.skipif(target_is_kafka(), reason="about our own broker's files and log")

KAFKA_STORAGE_ERROR = 56
START_MS = 1_700_000_000_000
# Every partition has this many records, 10 ms apart, in ten segments.
COUNT = 60
PARTITIONS = 16
SETTINGS = {"segment.ms": "55", "retention.ms": "-1"}
ENDS = pytest.mark.parametrize("end", ["kill", pytest.param("stop", marks=pytest.mark.full)])
# Root may read and write everything; without these two capabilities it has ordinary permissions.
WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", "--"]


def value(number: int) -> bytes:
    return b"%d:" % number + bytes(1000)


class Data:
    """A broker that is down, over a data directory with the topics `t` (PARTITIONS partitions) and `other` (one)."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker

    @property
    def address(self) -> Address:
        return self.broker.host, self.broker.port

    def path(self, name: str) -> Path:
        return self.broker.data_dir / name

    def segments(self, partition: int = 0) -> list[Path]:
        return sorted(self.path(f"t-{partition}").glob("*.log"))

    def start(self) -> None:
        """Start the broker on the damaged files."""
        self.broker.start()

    def lines(self, *texts: str) -> list[str]:
        """Return the lines of the broker's log that contain all of the texts."""
        return [line for line in self.broker.stderr().splitlines() if all(text in line for text in texts)]

    def produce(self, partition: int = 0, topic: str = "t") -> int:
        with Connection(self.address) as connection:
            data = batch(b"new", timestamp=START_MS + 10 * COUNT)
            return produce(connection, {topic: {partition: data}})[topic, partition].error

    def fetch_error(self, offset: int, partition: int = 0) -> int:
        with Connection(self.address) as connection:
            return fetch(connection, "t", partition, offset)[0]

    def check(self, partition: int = 0, count: int = COUNT, topic: str = "t") -> None:
        """Check that the first `count` records are served, by offset and by time, and that new ones are accepted."""
        records = read_partition(self.address, topic, partition)
        assert records == [(number, value(number)) for number in range(count)]
        for number in (0, 1, count // 2, count - 1):
            assert self.offset_at(START_MS + 10 * number, topic, partition) == number
        assert self.produce(partition, topic) == 0
        assert read_partition(self.address, topic, partition, start=count) == [(count, b"new")]

    def check_others(self, first: int) -> None:
        """Check that the partitions from `first` on, and the other topic, are served without change."""
        for partition in range(first, PARTITIONS):
            assert len(read_partition(self.address, "t", partition)) == COUNT
        self.check(topic="other")
        assert not self.lines("traceback")

    def check_offline(self, partition: int) -> None:
        """Check that the partition neither serves nor accepts records."""
        assert self.fetch_error(0, partition) == KAFKA_STORAGE_ERROR
        assert self.fetch_error(COUNT, partition) == KAFKA_STORAGE_ERROR
        assert self.produce(partition) == KAFKA_STORAGE_ERROR

    def offset_at(self, timestamp: int, topic: str, partition: int) -> int:
        body = i32(-1) + i8(0) + array([string(topic) + array([i32(partition) + i64(timestamp)])])
        with Connection(self.address) as connection:
            reader = connection.ask(LIST_OFFSETS, 2, body)
            assert (reader.i32(), reader.i32(), reader.string(), reader.i32()) == (0, 1, topic, 1)
            assert reader.i32() == partition
            assert reader.i16() == 0
            reader.i64()
            return reader.i64()

    def refused(self) -> str:
        """Return the error line of a broker that does not start."""
        child = self.broker.launch()
        assert child.wait(60) == 1, child.stderr()
        assert child.stdout() == ""
        lines = child.stderr().splitlines()
        assert lines, "nothing is said"
        assert lines[-1].startswith("broker-cy: ")
        assert "Traceback" not in child.stderr()
        assert "traceback" not in child.stderr()
        return lines[-1]


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data directories to copy, by the way in which their broker ended."""
    directory = tmp_path_factory.mktemp("templates")
    broker = new_target(directory)
    try:
        broker.start()
        create_topic(broker.bootstrap, "t", PARTITIONS, SETTINGS)
        create_topic(broker.bootstrap, "other", config=SETTINGS)
        with Connection((broker.host, broker.port)) as connection:
            for number in range(COUNT):
                data = batch(value(number), timestamp=START_MS + 10 * number)
                topics: dict[str, dict[int, bytes | None]] = {
                    "t": dict.fromkeys(range(PARTITIONS), data),
                    "other": {0: data},
                }
                assert {answer.error for answer in produce(connection, topics).values()} == {0}
        broker.kill()
        killed = Path(shutil.copytree(broker.data_dir, directory / "kill"))
        broker.restart()
        assert broker.stop() == 0
        return {"kill": killed, "stop": broker.data_dir}
    finally:
        broker.close()


@pytest.fixture
def new_data(make_broker: Callable[..., Target], templates: dict[str, Path], tmp_path: Path) -> Callable[[str], Data]:
    """`new_data(end)`: a copy of the data of a broker that ended by `kill` or by `stop`."""

    def make(end: str) -> Data:
        data_dir = shutil.copytree(templates[end], tmp_path / "data")
        keep_written_points(data_dir)
        broker = make_broker(data_dir=data_dir, start=False)
        assert isinstance(broker, BrokerProcess)
        return Data(broker)

    return make


def keep_written_points(data_dir: Path) -> None:
    """Make the written points valid in a copy, whose files a broker otherwise treats as after a power loss."""
    path = data_dir / written_points.WRITTEN_POINTS
    points = decode_entries(path.read_bytes().partition(b"\n")[2], str(path))
    written_points.write_points(str(path), points.offsets, points.topic_ids)


def append(path: Path, content: bytes) -> None:
    with open(path, "ab") as file:
        file.write(content)


def change(path: Path, position: int) -> None:
    """Invert every bit of a byte; a negative position counts from the end."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def cut(path: Path, size: int) -> None:
    """Remove `size` bytes from the end."""
    os.truncate(path, path.stat().st_size - size)


BATCH_BYTES = len(batch(value(59), timestamp=START_MS))
# The damage to the last segment, how many records remain, and how many bytes are cut off.
TAILS: dict[str, tuple[Callable[[Path], None], int, int]] = {
    "half a header": (lambda path: append(path, batch(b"x")[:30]), COUNT, 30),
    "half a batch": (lambda path: append(path, batch(bytes(500))[:300]), COUNT, 300),
    "zeros": (lambda path: append(path, bytes(8192)), COUNT, 8192),
    "noise": (lambda path: append(path, b"\xa5" * 777), COUNT, 777),
    "last batch cut short": (lambda path: cut(path, 100), COUNT - 1, BATCH_BYTES - 100),
    "last batch but a byte": (lambda path: cut(path, 1), COUNT - 1, BATCH_BYTES - 1),
    "wrong checksum": (lambda path: change(path, -500), COUNT - 1, BATCH_BYTES),
    "wrong magic": (lambda path: change(path, -BATCH_BYTES + 16), COUNT - 1, BATCH_BYTES),
}


@ENDS
def test_a_damaged_tail_is_cut_off(new_data: Callable[[str], Data], end: str) -> None:
    """If this fails, a torn write makes a partition unavailable, is served to consumers, or costs good records."""
    data = new_data(end)
    places = []
    for partition, (damage, _, cut_off) in enumerate(TAILS.values()):
        path = data.segments(partition)[-1]
        damage(path)
        places.append((path, path.stat().st_size - cut_off))
    data.start()
    for partition, ((_, left, cut_off), (path, at)) in enumerate(zip(TAILS.values(), places, strict=True)):
        data.check(partition, left)
        (line,) = data.lines(str(path))
        assert f"cut_bytes={cut_off} position={at} " in line
        assert f"log_end_offset={left} " in line
    data.check_others(len(TAILS))


def spoil_missing(path: Path, other: Path) -> None:
    path.unlink()


def spoil_empty(path: Path, other: Path) -> None:
    path.write_bytes(b"")


def spoil_noise(path: Path, other: Path) -> None:
    path.write_bytes(b"\x7f\xee" * 120)


def spoil_other(path: Path, other: Path) -> None:
    path.write_bytes(other.read_bytes()[::-1])


def spoil_half(path: Path, other: Path) -> None:
    append(path, b"\x01\x02\x03")


@ENDS
def test_indexes_are_mended(new_data: Callable[[str], Data], end: str) -> None:
    """If this fails, a lost or wrong index hides records or makes a partition unavailable."""
    data = new_data(end)
    spoils = [spoil_missing, spoil_empty, spoil_noise, spoil_other, spoil_half]
    cases = [(spoil, which) for spoil in spoils for which in (0, 4, -1)]
    for partition, (spoil, which) in enumerate(cases):
        segments = data.segments(partition)
        for suffix in (".index", ".timeindex"):
            spoil(segments[which].with_suffix(suffix), segments[2].with_suffix(suffix))
    data.start()
    for partition, _ in enumerate(cases):
        data.check(partition)
    data.check_others(len(cases))


@ENDS
def test_an_older_segment_is_damaged(new_data: Callable[[str], Data], end: str) -> None:
    """If this fails, damaged records are served, or one damaged file stops the whole broker."""
    data = new_data(end)
    cases = [(part, place) for part in ("header", "records") for place in (0.1, 0.5, 0.95)]
    damaged = []
    for partition, (part, place) in enumerate(cases):
        path = data.segments(partition)[3]
        number = int(path.stat().st_size // BATCH_BYTES * place)
        change(path, number * BATCH_BYTES + (16 if part == "header" else 200))
        damaged.append((path, int(path.stem) + number))
    data.start()

    def is_offline(offset: int, partition: int) -> bool:
        return data.fetch_error(offset, partition) == KAFKA_STORAGE_ERROR

    for partition, (path, offset) in enumerate(damaged):
        until(partial(is_offline, offset, partition), "the damage is found")
        data.check_offline(partition)
        lines = data.lines(str(path))
        assert [line for line in lines if f"t-{partition}" in line and " at byte " in line], lines
        assert len(lines) <= 2
    data.check_others(len(cases))
    # An offline partition must not prevent the broker from stopping, nor be deleted or repaired by that.
    assert data.broker.stop() == 0
    data.start()
    for partition in range(len(damaged)):
        # Immediately, before any client reads damaged data.
        data.check_offline(partition)


@pytest.mark.parametrize(
    ("end", "content"),
    [
        pytest.param("kill", b"", marks=pytest.mark.full),
        ("stop", b""),
        ("kill", b"\xff\x00noise"),
        pytest.param("stop", b"\xff\x00noise", marks=pytest.mark.full),
        pytest.param("kill", b"0\n5\nt 0 3\n", marks=pytest.mark.full),
        pytest.param("kill", b"9\n0\n", marks=pytest.mark.full),
    ],
    ids=["empty-kill", "empty-stop", "noise-kill", "noise-stop", "short-kill", "version-kill"],
)
def test_checkpoints_are_damaged(new_data: Callable[[str], Data], end: str, content: bytes) -> None:
    """If this fails, a damaged checkpoint prevents the broker from starting, or records from being served."""
    data = new_data(end)
    names = ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint", "replication-offset-checkpoint")
    for name in (*names, "t-0/leader-epoch-checkpoint"):
        data.path(name).write_bytes(content)
    data.start()
    data.check()
    data.check_others(1)
    for name in names:
        assert len(data.lines(name)) == (1 if content else 0)
    assert len(data.lines("t-0/leader-epoch-checkpoint")) == 1


@ENDS
def test_other_files_are_damaged_or_gone(new_data: Callable[[str], Data], end: str) -> None:
    """If this fails, a damaged, missing, unreadable or unknown file prevents the broker from starting, or its loss is
    not reported.
    """
    data = new_data(end)
    # 0: producer snapshots are damaged.
    snapshots = list(data.path("t-0").glob("*.snapshot"))
    assert snapshots
    for number, path in enumerate(snapshots):
        path.write_bytes([b"", b"noise", path.read_bytes()[:-1] + b"!"][number % 3])
    # 1: the directory is missing.
    shutil.rmtree(data.path("t-1"))
    # 2: the first and the last segment are missing.
    segments = data.segments(2)
    for stem in (segments[0].stem, segments[-1].stem):
        for each in data.path("t-2").glob(f"{stem}.*"):
            each.unlink()
    # 3: a file of unknown origin.
    data.path("t-3/partition.metadata").write_text("version: 0\ntopic_id: ???\n")
    # 4: a user's notes.
    data.path("t-4/notes.txt").write_text("hello")
    data.path("t-4/99999999999999999999.log").write_text("hello")
    data.path("notes.txt").write_text("hello")
    data.path("a-7").write_text("a file with the name of a partition")
    strange = [
        "lost+found",
        "backup",
        "t-99999999999",
        "t-9999999999",
        "t-4294967296",
        "-1",
        "t--1",
        "gone-3",
        "t-0-stray",
    ]
    for name in strange:
        data.path(name).mkdir()
    data.start()
    data.check(0)
    assert data.lines("t-1")
    assert read_partition(data.address, "t", 1) == []
    assert data.produce(1) == 0
    first, behind = int(segments[1].stem), int(segments[-1].stem)
    assert [offset for offset, _ in read_partition(data.address, "t", 2, first)] == list(range(first, behind))
    assert data.produce(2) == 0
    data.check_offline(3)
    assert data.lines("t-3/partition.metadata")
    data.check(4)
    data.check_others(5)
    assert data.broker.stop() == 0


@pytest.mark.full
def test_files_of_the_cluster_are_damaged(new_data: Callable[[str], Data]) -> None:
    """If this fails, damage to a file of the cluster shows as a stack trace, or as an empty cluster."""
    data = new_data("stop")
    damages = {
        "__cluster_metadata-0/quorum-state": [b"", b'{"leaderId":"x"}', b"\xff\xfe", bytes(2_000_000)],
        "meta.properties": [b"", b"version=7\ncluster.id=x\nnode.id=1\n", b"version=1\ncluster.id=x\nnode.id=one\n"],
    }
    for name, contents in damages.items():
        path = data.path(name)
        good = path.read_bytes()
        for content in contents:
            path.write_bytes(content)
            assert str(path) in data.refused()
        path.write_bytes(good)
    data.start()
    data.check()


def test_a_metadata_snapshot_is_damaged(make_broker: Callable[..., Target]) -> None:
    """If this fails, a damaged snapshot shows as a stack trace, or topics silently disappear."""
    broker = make_broker({"metadata.log.max.record.bytes.between.snapshots": "300"})
    assert isinstance(broker, BrokerProcess)
    data = Data(broker)
    for number in range(4):
        create_topic(broker.bootstrap, f"t{number}")
    directory = data.path("__cluster_metadata-0")
    until(lambda: list(directory.glob("*-*.checkpoint")), "a snapshot")
    assert broker.stop() == 0
    newest = max(directory.glob("*-*.checkpoint"))
    cut(newest, newest.stat().st_size // 2)
    assert str(newest) in data.refused()


def test_a_torn_metadata_log(new_data: Callable[[str], Data]) -> None:
    """If this fails, a torn write to the metadata log shows as a stack trace, or as an empty cluster."""
    data = new_data("kill")
    (path,) = data.path("__cluster_metadata-0").glob("*.log")
    append(path, b"\xa5" * 50)
    data.start()
    data.check()
    (line,) = data.lines(str(path))
    assert "cut_bytes=50 " in line


@pytest.mark.full
@needs.unprivileged
def test_files_that_cannot_be_read(new_data: Callable[[str], Data]) -> None:
    """If this fails, wrong permissions of one file stop the whole broker, or show as a stack trace."""
    data = new_data("stop")
    if os.geteuid() == 0:
        data.broker.wrapper = WITHOUT_PRIVILEGES
    needed = (
        ".",
        ".lock",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "__cluster_metadata-0",
        "__cluster_metadata-0/quorum-state",
        "__cluster_metadata-0/00000000000000000000.log",
    )
    for name in needed:
        path = data.path(name)
        mode = path.stat().st_mode
        path.chmod(0o500 if name == "." else 0)
        line = data.refused()
        path.chmod(mode)
        assert str(data.broker.data_dir if name == ".lock" else path) in line
        assert re.search("Permission denied", line), line
        assert line.endswith(
            (": correct its permissions or choose another", ": make it readable and writable for the broker's user")
        )
    path = data.segments()[-1]
    path.chmod(0)
    data.start()
    data.check_offline(0)
    assert data.lines("Permission denied", str(path))
    data.check_others(1)
