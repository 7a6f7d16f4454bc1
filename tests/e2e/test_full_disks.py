"""A broker with two disks that fill up one after the other: the first one also has the metadata log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import broker, needs
from tests.support.acked import AckedProducer, Address, batch, check_plain, read_partition
from tests.support.broker import BrokerProcess
from tests.support.raw_wire import Connection, produce
from tests.support.small_disk import SmallDisk, Volume
from tests.support.topics import create_topic
from tests.support.wait import until

pytestmark = [
    pytest.mark.skipif(broker.target_is_kafka(), reason="about our own broker"),
    needs.small_disk(),
]

KAFKA_STORAGE_ERROR = 56
DISK_BYTES = 64 << 20
PARTITIONS = 4
SETTINGS = {
    "log.segment.bytes": str(1 << 20),
    # A new log counts with the size of a segment, which is that of these disks for the own topics.
    "brokercy.events.enable": "false",
    "brokercy.metrics.sample.interval.ms": "0",
}
# Acknowledged records that show that a producer goes on.
SOME = 300


class TwoDisks:
    """A broker with a directory on each of two small file systems."""

    def __init__(self, directory: Path) -> None:
        self._holder = SmallDisk(directory, DISK_BYTES)
        self.volumes: tuple[Volume, Volume] = self._holder, self._holder.beside(directory / "second", DISK_BYTES)
        paths = [each.path / "data" for each in self.volumes]
        settings = {**SETTINGS, "log.dirs": ",".join(map(str, paths))}
        self.broker = BrokerProcess(directory / "broker", settings, paths[0])
        self.broker.wrapper = self._holder.wrapper

    def address(self) -> Address:
        return self.broker.host, self.broker.port

    def close(self) -> None:
        self.broker.kill()
        self._holder.close()

    def held(self, number: int, topic: str) -> list[int]:
        """The partitions of a topic on a disk."""
        return sorted(
            int(each.name.removeprefix(f"{topic}-"))
            for each in (self.volumes[number].view / "data").glob(f"{topic}-[0-9]*")
        )

    def takes(self, topic: str, partition: int) -> bool:
        """Return whether one more record is written."""
        with Connection(self.address()) as connection:
            answers = produce(connection, {topic: {partition: batch(b"v")}})
        return answers[topic, partition].error == 0


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoDisks]:
    made = TwoDisks(tmp_path)
    try:
        made.broker.start()
        yield made
    finally:
        made.close()


def test_disks_fill_up_one_by_one(two: TwoDisks) -> None:
    """If this fails, one full disk of a broker stops producers of its other disks, takes the directory offline, or
    needs a restart when it has room again.
    """
    create_topic(two.broker.bootstrap, "t", PARTITIONS)
    until(lambda: len(two.held(0, "t") + two.held(1, "t")) == PARTITIONS, "the logs")
    parts = [two.held(number, "t")[0] for number in (0, 1)]
    producers = [AckedProducer(two.address, "t", part, name=f"disk{number}") for number, part in enumerate(parts)]
    for producer in producers:
        producer.start()
    for full in (1, 0):
        on_full, other = producers[full], producers[1 - full]
        on_full.wait_for(SOME)
        other.errors.clear()
        two.volumes[full].fill()
        until(lambda: len(on_full.errors) > 10, "errors of the full disk")  # noqa: B023
        other.wait_for(SOME)
        assert other.errors == []
        assert len(read_partition(two.address(), "t", parts[full])) >= SOME
        if full == 1:
            # The disk with the metadata log has room: new logs go there.
            create_topic(two.broker.bootstrap, "u", PARTITIONS)
            for part in range(PARTITIONS):
                until(lambda: two.takes("u", part), "a record of the new topic")  # noqa: B023
            assert (two.held(0, "u"), two.held(1, "u")) == (list(range(PARTITIONS)), [])
        two.volumes[full].make_room()
        on_full.wait_for(SOME)
        assert set(on_full.errors) == {KAFKA_STORAGE_ERROR}
        on_full.errors.clear()
    for producer in producers:
        producer.stop()
    create_topic(two.broker.bootstrap, "after")
    until(lambda: two.takes("after", 0), "a record of a topic that was created afterwards")
    two.broker.kill()
    two.broker.restart()
    for part, producer in zip(parts, producers, strict=True):
        check_plain(producer, read_partition(two.address(), "t", part))
    assert "Traceback" not in two.broker.stderr()
