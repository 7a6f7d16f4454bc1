"""A topology that runs in this process only, for a query of a client: without a group and without topics of its own.

It has the tasks that Kafka Streams would have, one for each sub-topology and partition, so that stream time, windows
and joins are those of a persistent query. Records of repartition topics go from task to task at once; changelogs are
dropped. State is in memory.

Bound: RUN_RECORDS records are processed before the loop of the server has its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from broker_sql.errors import StatementError
from broker_streams import settings
from broker_streams.kernel.build import build
from broker_streams.kernel.errors import Output
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.task import Task
from broker_streams.plan.partitions import partitions_of, topics_of
from broker_streams.plan.topology import Source, Topology
from broker_streams.registry.opening import open_registry

RUN_RECORDS: Final = 500
_MEMORY: Final = {
    "statestore.cache.max.bytes": 0,
    "dsl.store.suppliers.class": "InMemoryDslStoreSuppliers",
    # Results are final as soon as the time of records says so.
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 0,
    "__emit.interval.ms.kstreams.windowed.aggregation__": 0,
}

Emit = Callable[[Output], None]


class TransientTopology:
    """`counts` has the numbers of partitions of the topics that the topology reads. `emit` gets each record for a topic
    that no task reads, with the topic as the topology names it.
    """

    def __init__(
        self, topology: Topology, config: Mapping[str, Any], counts: Mapping[str, int], emit: Emit, now_ms: int
    ) -> None:
        """Raises StatementError, StreamsError and TopologyError: the topology cannot run here."""
        if topology.global_nodes:
            raise StatementError("a query of a client cannot read global tables")
        self._emit = emit
        found = settings.read({**config, **_MEMORY, "application.id": config["application.id"]})
        task_settings = TaskSettings.of(found, open_registry(found))
        partitions = partitions_of(topology, counts)
        self._application_id = task_settings.application_id
        self._plain = {topology.decorated(name, self._application_id): name for name in partitions.of_topic}
        self._tasks: list[Task] = []
        # The inputs of each task, with no record that waits on a broker.
        self._lags: list[dict[tuple[str, int], int | None]] = []
        self._readers: dict[tuple[str, int], list[Task]] = {}

        def count_of(topic: str) -> int:
            return partitions.of_topic.get(self._plain.get(topic, topic), 1)

        for part in topology.subtopologies():
            topics = topics_of(part.sources, partitions.of_topic)
            for number in range(partitions.tasks(part)):
                task = build(topology, part, number, task_settings, count_of)
                lags: dict[tuple[str, int], int | None] = {}
                for topic in topics:
                    if number < partitions.of_topic[topic]:
                        decorated = topology.decorated(topic, self._application_id)
                        task.assign(decorated, number)
                        self._readers.setdefault((decorated, number), []).append(task)
                        lags[decorated, number] = 0
                task.initialize(now_ms)
                self._tasks.append(task)
                self._lags.append(lags)
        self._offsets: dict[tuple[str, int], int] = {}

    def add(self, topic: str, partition: int, records: Iterable[Any], now_ms: int) -> None:
        """Give records of a topic of the cluster to the tasks. Raises StreamsError."""
        given = list(records)
        for task in self._readers.get((topic, partition), ()):
            task.add(topic, partition, given, now_ms)

    def waiting(self) -> int:
        return sum(task.waiting() for task in self._tasks)

    def run(self, now_ms: int, limit: int = RUN_RECORDS) -> int:
        """Process at most about `limit` records, and what follows from them; return how many. Raises StreamsError."""
        done = 0
        for task, lags in zip(self._tasks, self._lags, strict=True):
            task.punctuate(now_ms)
            if done < limit and task.waiting():
                task.update_lags(lags)
                done += task.run(now_ms, limit - done)
            if task.commit_needed:
                task.flush()
            self._pass_on(task, now_ms)
        return done

    def _pass_on(self, task: Task, now_ms: int) -> None:
        outputs, _ = task.take_results()
        for output in outputs:
            topic, partition, key, value, timestamp, headers = output
            place = (topic, partition or 0)
            readers = self._readers.get(place)
            if readers is None:
                self._emit(output)
                continue
            offset = self._offsets.get(place, 0)
            self._offsets[place] = offset + 1
            for reader in readers:
                reader.add(topic, place[1], [(key, value, timestamp, offset, headers)], now_ms)

    def close(self) -> None:
        for task in self._tasks:
            task.close()


def input_topics(topology: Topology) -> list[str]:
    """Return the topics of the cluster that a topology reads, in the order of their names."""
    sources = [each for each in topology.nodes if isinstance(each, Source)]
    own = {each.name for each in topology.repartition_topics}
    return sorted({topic for each in sources for topic in each.topics if topic not in own})
