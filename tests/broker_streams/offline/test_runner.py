"""A whole topology over recorded records."""

from __future__ import annotations

import random

import pytest

from broker_streams import (
    LONG,
    STRING,
    JoinWindows,
    Materialized,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)
from broker_streams.kernel.partition_group import Parts as Input
from broker_streams.kernel.settings import TaskSettings
from broker_streams.offline import runner as module
from broker_streams.offline.runner import Result, Runner
from broker_streams.plan.topology import TopologyError

CONFIG = {"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING}
Inputs = dict[tuple[str, int], list[Input]]


def windows() -> Topology:
    """Counts of values in windows, over a repartition topic; late records are dropped."""
    builder = StreamsBuilder()
    grouped = builder.stream("in").group_by(lambda key, value: value)
    counts = grouped.windowed_by(TimeWindows.of(100).grace(50)).count(materialized=Materialized("counts"))
    counts.to_stream().map(lambda window, count: (window.key, count)).to("out", value=LONG)
    return builder.build(CONFIG)


def joined() -> Topology:
    """Two streams and a table of a third topic."""
    builder = StreamsBuilder()
    left, right = builder.stream("left"), builder.stream("right")
    pairs = left.outer_join(right, lambda one, other: f"{one}+{other}", JoinWindows.of(50).grace(20))
    pairs.left_join(builder.table("names"), lambda pair, name: f"{pair}={name}").to("out")
    return builder.build(CONFIG)


def recorded(topics: tuple[str, ...], partitions: int, count: int, seed: int) -> Inputs:
    """Records whose times go forward with some disorder. A key is always in the same partition."""
    draw = random.Random(seed)
    found: Inputs = {(topic, number): [] for topic in topics for number in range(partitions)}
    for at in range(count):
        place = draw.choice(sorted(found))
        key = f"{place[1]}-{draw.randrange(3)}".encode()
        records = found[place]
        records.append((key, draw.choice((b"x", b"y", b"z")), max(0, at * 5 - draw.randrange(120)), len(records), ()))
    return found


def run(topology: Topology, inputs: Inputs, counts: dict[str, int], chunk: int) -> list[Result]:
    """Feed `inputs` in chunks of this many records."""
    runner = Runner(topology.plan, TaskSettings.of(CONFIG), counts)
    left = {place: list(records) for place, records in inputs.items()}
    found = runner.take()
    while wanted := runner.wanted():
        for place in wanted:
            if records := left[place][:chunk]:
                del left[place][:chunk]
                runner.add(*place, records)
            else:
                runner.finish(*place)
        runner.run()
        found += runner.take()
    runner.close()
    return found


CASES = pytest.mark.parametrize(
    ("topology", "topics"), [(windows(), ("in",)), (joined(), ("left", "right", "names"))], ids=["windows", "joined"]
)


@CASES
@pytest.mark.parametrize("partitions", [1, 3])
def test_the_way_of_cutting_the_input_does_not_matter(
    topology: Topology, topics: tuple[str, ...], partitions: int
) -> None:
    """If this fails, two runs over the same records differ, and a comparison shows differences that are none."""
    counts = dict.fromkeys((*topics, "out"), partitions)
    for seed in range(3):
        inputs = recorded(topics, partitions, 200, seed)
        whole = run(topology, inputs, counts, 1_000)
        assert any(each.topic == "out" for each in whole)
        for chunk in (1, 7):
            assert run(topology, inputs, counts, chunk) == whole


@CASES
def test_one_partition_gives_the_records_of_the_test_driver(topology: Topology, topics: tuple[str, ...]) -> None:
    """If this fails, a run over history has other results than the application."""
    for seed in range(3):
        # No two topics have a record of the same time: their order would be that of Java's heap.
        inputs: Inputs = {
            place: [
                (key, value, at * len(topics) + topics.index(place[0]), offset, headers)
                for key, value, at, offset, headers in records
            ]
            for place, records in recorded(topics, 1, 200, seed).items()
        }
        found = run(topology, inputs, dict.fromkeys((*topics, "out"), 1), 50)
        with TopologyTestDriver(topology, CONFIG) as driver:
            # The same order: the lowest timestamp among the first records of all topics.
            left = {topic: list(records) for (topic, _), records in inputs.items()}
            while any(left.values()):
                topic = min((each for each in topics if left[each]), key=lambda each: left[each][0][2])
                key, value, at, _, headers = left[topic].pop(0)
                driver.pipe_raw(topic, key, value, at, tuple(headers))
        expected = [(each[0], *each[2:]) for each in driver.produced if each[0] == "out"]
        ours = [(each.topic, *each[3:7]) for each in found if each.topic == "out"]
        assert sorted(ours, key=repr) == sorted(expected, key=repr)
        if topics == ("in",):
            assert ours == expected


def test_records_of_repartition_topics_are_in_the_order_of_time() -> None:
    """If this fails, a partition that is read first lets the records of another one come too late for their windows."""
    # Each partition has one record in each window.
    inputs: Inputs = {
        ("in", number): [(b"k", b"x", at * 100 + number, at, ()) for at in range(20)] for number in range(4)
    }
    found = run(windows(), inputs, {"in": 4, "out": 1}, 1_000)
    values = [LONG.deserialize("out", each.value) for each in found if each.topic == "out"]
    assert values == [1, 2, 3, 4] * 20


def test_a_long_queue_is_processed_before_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, records that wait for others fill the memory."""
    monkeypatch.setattr(module, "QUEUED_MAX", 10)
    inputs: Inputs = {("in", 0): [(b"k", b"x", at, at, ()) for at in range(50)], ("in", 1): []}
    found = run(windows(), inputs, {"in": 2, "out": 1}, 1_000)
    assert len([each for each in found if each.topic == "out"]) == 50


def test_a_topology_that_cannot_run_is_refused() -> None:
    """If this fails, a run over history misses topics without a word."""
    with pytest.raises(TopologyError, match="the topology reads topics that do not exist: in"):
        Runner(windows().plan, TaskSettings.of(CONFIG), {})
