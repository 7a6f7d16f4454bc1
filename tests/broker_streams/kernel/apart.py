"""Runs the tasks of a topology apart, as in a cluster: records of topics between them arrive at any time.

Kafka's test driver passes them on at once, so it never sees a record that is overtaken by another one. Here each topic
has several partitions, and a seed chooses the partition that is read next; the order within a partition stays.
"""

from __future__ import annotations

import random
from collections import deque

from broker_streams.dsl.topology import Topology
from broker_streams.kernel.build import build
from broker_streams.kernel.partition_group import Parts
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.task import Task
from broker_streams.serdes.primitives import STRING

PARTITIONS = 2


class Apart:
    """`out` holds (key, value) of topic `out` as bytes, in the order in which each partition was written."""

    def __init__(self, topology: Topology, seed: int, cache_bytes: int = 0) -> None:
        plan = topology.plan
        settings = TaskSettings("app", STRING, STRING, max_task_idle_ms=-1, cache_bytes=cache_bytes)
        self._random = random.Random(seed)
        self._tasks: dict[tuple[str, int], Task] = {}
        self._waiting: dict[tuple[str, int], deque[Parts]] = {}
        self._offsets: dict[tuple[str, int], int] = {}
        self.out: list[tuple[bytes | None, bytes | None]] = []
        for part in plan.subtopologies():
            for partition in range(PARTITIONS):
                task = build(plan, part, partition, settings, lambda topic: PARTITIONS)
                for source in part.sources:
                    for topic in source.topics:
                        name = plan.decorated(topic, "app")
                        task.assign(name, partition)
                        self._tasks[name, partition] = task
                        self._waiting[name, partition] = deque()
                task.initialize(0)

    def write(self, topic: str, partition: int | None, key: bytes | None, value: bytes | None, timestamp: int) -> None:
        """Append a record; without a partition, to any one."""
        if topic == "out":
            self.out.append((key, value))
            return
        place = topic, self._random.randrange(PARTITIONS) if partition is None else partition
        if place in self._waiting:
            offset = self._offsets[place] = self._offsets.get(place, -1) + 1
            self._waiting[place].append((key, value, timestamp, offset, ()))

    def step(self) -> bool:
        """Read one record of some partition, and commit or not. False: nothing waits."""
        places = [place for place, waiting in self._waiting.items() if waiting]
        if not places:
            return False
        place = self._random.choice(places)
        task = self._tasks[place]
        task.add(*place, [self._waiting[place].popleft()])
        task.run(0)
        if self._random.random() < 0.3:
            task.flush()
        self._take(task)
        return True

    def _take(self, task: Task) -> None:
        for topic, partition, key, value, timestamp, _ in task.take_results()[0]:
            self.write(topic, partition, key, value, timestamp)

    def finish(self) -> dict[str, str]:
        """Read all, commit all; return the table that `out` is, as texts."""
        tasks = dict.fromkeys(self._tasks.values())
        while True:
            while self.step():
                pass
            for task in tasks:
                task.flush()
                self._take(task)
            if not any(self._waiting.values()):
                break
        rows: dict[str, str] = {}
        for key, value in self.out:
            assert key is not None
            if value is None:
                rows.pop(key.decode(), None)
            else:
                rows[key.decode()] = value.decode()
        return rows
