"""A topology as many tasks: sub-topologies with several partitions, which exchange records by topics."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from broker_cy.client.partitioner import partition_of
from broker_streams import LONG, STRING, Processor, Record, StreamsBuilder, TopologyTestDriver
from broker_streams.kernel.build import build, build_global
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.task import Task
from broker_streams.plan.topology import Topology

LINES = ["to be or not to be", "be quick", "", "not now", "to and fro and to"]
CONFIG = {"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING}
SETTINGS = TaskSettings.of(CONFIG)


class Longest(Processor):
    """Passes the length of each word on, with one key for all."""

    def process(self, record: Record) -> None:
        self.context.forward(Record("longest", len(record.key), record.timestamp))


def words() -> Topology:
    """Counts words, with their names from a global table and their kinds from a table of the same keys."""
    builder = StreamsBuilder()
    kinds = builder.table("kinds")
    names = builder.global_table("names")
    counted = (
        builder.stream("lines")
        .flat_map_values(lambda line: line.split())
        .group_by(lambda key, word: word, name="by-word")
        .count()
        .to_stream()
        .map_values(str)
    )
    counted.left_join(kinds, lambda count, kind: f"{count} {kind}").left_join(
        names, lambda key, value: key, lambda value, name: f"{value} {name}"
    ).to("out")
    counted.process(Longest).to("longest", value=LONG)
    return builder.build().plan


class Tasks:
    """All tasks of a topology, each topic with equally many partitions."""

    def __init__(self, topology: Topology, count: int) -> None:
        self._count = count
        self.written: list[tuple[str, bytes | None, bytes | None]] = []
        self._tasks: dict[tuple[str, int], Task] = {}
        self._offsets: dict[tuple[str, int], int] = defaultdict(int)
        self._global = build_global(topology, SETTINGS)
        stores = {} if self._global is None else self._global.stores
        for part in topology.subtopologies():
            for partition in range(count):
                task = build(topology, part, partition, SETTINGS, lambda topic: count, stores)
                for source in part.sources:
                    for topic in source.topics:
                        name = topology.decorated(topic, "app")
                        task.assign(name, partition)
                        self._tasks[name, partition] = task
                task.initialize(0)

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int) -> None:
        if topic == "names":
            assert self._global is not None
            self._global.add(topic, 0, [(key, value, timestamp, self._next(topic, 0), ())])
            self._global.run(0)
            return
        partition = 0 if key is None else partition_of(key, self._count)
        task = self._tasks.get((topic, partition))
        if task is None:
            return
        task.add(topic, partition, [(key, value, timestamp, self._next(topic, partition), ())])
        task.update_lags({place: 0 for place, other in self._tasks.items() if other is task})
        task.run(0)
        task.flush()
        for name, chosen, key, value, written_at, _ in task.take_results()[0]:
            self.written.append((name, key, value))
            assert key is None or chosen == partition_of(key, self._count)
            self.pipe(name, key, value, written_at)

    def _next(self, topic: str, partition: int) -> int:
        self._offsets[topic, partition] += 1
        return self._offsets[topic, partition] - 1


def by_key(written: list[tuple[str, bytes | None, bytes | None]]) -> dict[Any, list[bytes | None]]:
    found = defaultdict(list)
    for topic, key, value in written:
        if topic == "out":
            found[key].append(value)
    return found


INPUTS = [
    *(("kinds", key, kind, 0) for key, kind in ((b"be", b"verb"), (b"to", b"preposition"))),
    ("names", b"be", b"esse", 0),
    *(("lines", f"line-{at}".encode(), line.encode(), at) for at, line in enumerate(LINES)),
]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_results_do_not_depend_on_the_number_of_partitions(count: int) -> None:
    """If this fails, an application has other results when its topics have more partitions."""
    topology = words()
    with TopologyTestDriver(topology, CONFIG) as driver:
        for given in INPUTS:
            driver.pipe_raw(*given)
        expected = by_key([(topic, key, value) for topic, _, key, value, _, _ in driver.produced])
    assert expected[b"to"] == [
        b"1 preposition None",
        b"2 preposition None",
        b"3 preposition None",
        b"4 preposition None",
    ]
    assert expected[b"be"] == [b"1 verb esse", b"2 verb esse", b"3 verb esse"]
    tasks = Tasks(topology, count)
    for given in INPUTS:
        tasks.pipe(*given)
    assert by_key(tasks.written) == expected
    assert {topic for topic, _, _ in tasks.written} == {"app-by-word-repartition", "out", "longest"}
