"""Numbers of partitions that a topology needs, from those of the topics that exist."""

from __future__ import annotations

import pytest

from broker_streams.plan.partitions import partitions_of
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.topology import (
    InternalTopic,
    ProcessorNode,
    Sink,
    Source,
    Topology,
    TopologyBuilder,
    TopologyError,
)


def topology(*lines: str, copartitioned: str = "", **partitions: int) -> Topology:
    """A line is a sub-topology: "a b > r s" reads a and b, and writes r and s. Topics r and s are repartition topics.
    `copartitioned` has groups such as "ar rs".
    """
    made = TopologyBuilder()
    for name in "rs":
        if any(name in line for line in lines):
            made.add_repartition_topic(InternalTopic(name, partitions.get(name)))
    for at, line in enumerate(lines):
        reads, _, writes = line.partition(">")
        for topic in reads.split():
            made.add_source(Source(topic, () if "." in topic else (topic,), topic if "." in topic else None))
        made.add_processor(ProcessorNode(f"node-{at}", tuple(reads.split()), PassThrough()))
        for topic in writes.split():
            made.add_sink(Sink(f"sink-{at}-{topic}", (f"node-{at}",), topic))
    for group in copartitioned.split():
        made.copartition(tuple(group))
    return made.build()


COUNTS = {"a": 2, "b": 4, "c": 2, "unused": 50}
CASES: list[tuple[Topology, dict[str, int]]] = [
    (topology("a b > r", "r"), {"a": 2, "b": 4, "r": 4}),
    # The largest of all sub-topologies that write to it, over several topics.
    (topology("a > r", "r > s", "b > s", "s"), {"a": 2, "b": 4, "r": 2, "s": 4}),
    # The number of the user stays, and reaches the topics behind it.
    (topology("a > r", "r > s", "s", r=9), {"a": 2, "r": 9, "s": 9}),
    # A topic that is joined adapts itself to one of the cluster, also where a third topic connects them.
    (topology("b > r", "a r", copartitioned="ar"), {"a": 2, "b": 4, "r": 2}),
    (topology("b > r s", "a r s", copartitioned="ar rs"), {"a": 2, "b": 4, "r": 2, "s": 2}),
    # Among repartition topics the number of the user decides, or the largest one.
    (topology("a > r", "b > s", "r s", copartitioned="rs"), {"a": 2, "b": 4, "r": 4, "s": 4}),
    (topology("a > r", "b > s", "r s", copartitioned="rs", r=3), {"a": 2, "b": 4, "r": 3, "s": 3}),
    # Topics that feed each other.
    (topology("a s > r", "r > s"), {"a": 2, "r": 2, "s": 2}),
    (topology("[ab]. > r", "r"), {"r": 7, "a1": 3, "b1": 7}),
]


@pytest.mark.parametrize(("given", "wanted"), CASES)
def test_repartition_topics_are_as_large_as_needed(given: Topology, wanted: dict[str, int]) -> None:
    """If this fails, records of one key are in different tasks, or a repartition topic has other partitions than with
    Kafka Streams, which refuses to start on it.
    """
    assert partitions_of(given, COUNTS | {"a1": 3, "b1": 7}).of_topic == wanted


def test_a_subtopology_has_a_task_for_each_partition() -> None:
    """If this fails, partitions of the larger of two topics are not read."""
    made = topology("a b > r", "r", r=3)
    found = partitions_of(made, COUNTS)
    assert [found.tasks(part) for part in made.subtopologies()] == [4, 3]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (topology("a b", copartitioned="ab"), "different numbers of partitions: a has 2, b has 4"),
        (topology("a > r", "c r", copartitioned="cr", r=5), "different numbers of partitions: c has 2, r has 5"),
        (topology("a x y"), "the topology reads topics that do not exist: x, y"),
        (topology("z. > r", "r"), "no topic in front of r exists"),
    ],
)
def test_topics_that_cannot_be_are_named(given: Topology, text: str) -> None:
    """If this fails, an application starts with a join that misses pairs, or ends without a word about the topic."""
    with pytest.raises(TopologyError, match=text):
        partitions_of(given, COUNTS)
