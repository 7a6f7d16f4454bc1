"""Random topologies, whose results over history are those of the test driver."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker_streams import StreamsError, TopologyTestDriver
from broker_streams.kernel.settings import TaskSettings
from broker_streams.offline.runner import Result, Runner
from broker_streams.plan.topology import Sink, Source, Topology
from tests.broker_streams.oracle import ours
from tests.broker_streams.oracle.families.all import FAMILIES, spec_of

SEEDS = 10
# Patterns are refused. The clock and global tables have no common order with the records of a history, and the times
# that an extractor returns have another order than the records here.
LEFT_OUT = ("pattern", "wall_clock", "global_table", '"timestamp":', "Timestamp")


def records_of(spec: Any) -> list[Any]:
    """The records in the order of their times, which are all different."""
    found: dict[int, Any] = {}
    for each in spec["inputs"]:
        if "at" in each and each["at"] >= 0:
            found.setdefault(each["at"], each)
    return [found[at] for at in sorted(found)]


def driven(plan: Topology, config: dict[str, Any], records: list[Any]) -> list[Any] | None:
    """None: the application ends with an error."""
    with TopologyTestDriver(plan, config) as driver:
        try:
            for each in records:
                key, value = ours._bytes(each["key"]), ours._bytes(each["value"])
                driver.pipe_raw(each["topic"], key, value, each["at"], ours._headers(each))
        except StreamsError:
            return None
        return [(each[0], *each[2:]) for each in driver.produced]


def replayed(plan: Topology, config: dict[str, Any], records: list[Any]) -> list[Result]:
    names = {topic for node in plan.nodes if isinstance(node, Source) for topic in node.topics}
    names |= {node.topic for node in plan.nodes if isinstance(node, Sink) and node.topic is not None}
    runner = Runner(plan, TaskSettings.of(config), dict.fromkeys(names, 1))
    left: dict[tuple[str, int], list[Any]] = {place: [] for place in runner.inputs}
    for offset, each in enumerate(records):
        key, value = ours._bytes(each["key"]), ours._bytes(each["value"])
        left[each["topic"], 0].append((key, value, each["at"], offset, ours._headers(each)))
    while wanted := runner.wanted():
        for place in wanted:
            if left[place]:
                runner.add(*place, [left[place].pop(0)])
            else:
                runner.finish(*place)
        runner.run()
    return runner.take()


@pytest.mark.parametrize("family", FAMILIES)
def test_results_over_history_are_those_of_the_test_driver(family: str) -> None:
    """If this fails, diff, verify and replay compute other results than the application."""
    compared = 0
    for seed in range(SEEDS):
        spec = spec_of(family, seed)
        if any(word in json.dumps(spec) for word in LEFT_OUT):
            continue
        config = ours._DEFAULTS | dict(spec.get("config", {}))
        try:
            plan = ours.topology_of(spec, config).plan
            expected = driven(plan, config, records_of(spec))
        except (StreamsError, ValueError):
            # Some specs ask for topologies that are refused, as by Kafka.
            continue
        if expected is None:
            continue
        topics = {topic for topic, *_ in expected if not topic.endswith(("-changelog", "-repartition", "-topic"))}
        found = [(each.topic, *each[3:7]) for each in replayed(plan, config, records_of(spec))]
        for topic in topics:
            assert [each for each in found if each[0] == topic] == [each for each in expected if each[0] == topic], (
                family, seed, topic,
            )  # fmt: skip
        compared += bool(topics)
    assert compared > 0
