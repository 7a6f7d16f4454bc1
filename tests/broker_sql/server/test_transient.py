"""Topologies that run for one client, against the results of an application."""

from __future__ import annotations

from broker_sql.server.queries.transient import TransientTopology, input_topics
from broker_streams import LONG, STRING, StreamsBuilder, TimeWindows
from broker_streams.kernel.errors import Output
from broker_streams.plan.topology import Topology


def topology_of(builder: StreamsBuilder) -> Topology:
    return builder.build().plan


def run(topology: Topology, inputs: list[tuple[str, int, str, str, int]], **counts: int) -> list[Output]:
    """`inputs` are topic, partition, key, value and time."""
    found: list[Output] = []
    running = TransientTopology(topology, {"application.id": "app"}, counts, found.append, 0)
    for offset, (topic, partition, key, value, time_ms) in enumerate(inputs):
        running.add(topic, partition, [(key.encode(), value.encode(), time_ms, offset, [])], time_ms)
    while running.waiting():
        running.run(0)
    running.close()
    return found


def test_repartitioned_counts_are_those_of_all_partitions() -> None:
    """If this fails, a push query counts each partition apart, or loses what goes from task to task."""
    builder = StreamsBuilder()
    words = builder.stream("words", key=STRING, value=STRING)
    counts = words.group_by(lambda key, value: value, key=STRING, value=STRING).count()
    counts.to_stream().to("out", key=STRING, value=LONG)
    topology = topology_of(builder)
    assert input_topics(topology) == ["words"]
    found = run(topology, [("words", n % 3, "k", "ab"[n % 2], n) for n in range(12)], words=3)
    last = {(each[2] or b"").decode(): int.from_bytes(each[3] or b"") for each in found}
    assert last == {"a": 6, "b": 6}
    assert len(found) == 12


def test_each_partition_has_a_time_of_its_own() -> None:
    """If this fails, reading an old partition after a new one drops its records as late ones."""
    builder = StreamsBuilder()
    clicks = builder.stream("clicks", key=STRING, value=STRING)
    windows = clicks.group_by_key().windowed_by(TimeWindows.of("1m")).count()
    windows.to_stream().map(lambda key, value: (key.key, value)).to("out", key=STRING, value=LONG)
    inputs = [("clicks", 0, "a", "x", 10_000_000), ("clicks", 1, "b", "x", 5)]
    found = run(topology_of(builder), inputs, clicks=2)
    assert sorted((each[2] or b"").decode() for each in found) == ["a", "b"]
