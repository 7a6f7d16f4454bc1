"""The processor API: topologies that users make node by node."""

from __future__ import annotations

import pytest

from broker_streams import (
    STRING,
    Processor,
    Record,
    Store,
    StoreKind,
    StreamsBuilder,
    Topology,
    TopologyError,
    TopologyTestDriver,
)
from broker_streams.plan.codec import from_json, functions_of, to_json
from broker_streams.serdes.names import by_name

CONFIG = {"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING}


class Joined(Processor):
    """Appends the row of a global store."""

    def process(self, record: Record) -> None:
        row = self.context.state_store("prices").get(record.value)
        self.context.forward(record.with_value(f"{record.value}:{row}"), "out")


class Fills(Processor):
    def process(self, record: Record) -> None:
        self.context.state_store("prices").put(record.key, record.value)


def made() -> Topology:
    return (
        Topology()
        .add_source("in", "orders")
        .add_processor("join", Joined, "in")
        .add_sink("out", "results", "join")
        .add_sink("unused", "others", "join")
        .add_global_store(Store("prices", StoreKind.KEY_VALUE), "prices-in", "prices", "prices-fill", Fills)
    )


def test_a_topology_of_nodes_runs() -> None:
    """If this fails, the processor API does not work, or a processor does not see global stores."""
    with TopologyTestDriver(made(), CONFIG) as driver:
        driver.create_input_topic("prices").pipe_input("apple", "3")
        driver.create_input_topic("orders").pipe_key_values([("a", "apple"), ("b", "pear")])
        assert driver.create_output_topic("results").read_key_values() == [("a", "apple:3"), ("b", "pear:None")]
        assert driver.create_output_topic("others").is_empty()
        assert dict(driver.get_key_value_store("prices").all()) == {"apple": "3"}
        # Global stores have no changelog.
        assert driver.produced_topic_names() == {"results"}


def test_a_topology_is_described() -> None:
    """If this fails, users cannot compare their topology with that of Kafka Streams."""
    text = made().describe()
    assert "Source: in (topics: [orders])\n      --> join" in text
    assert "Sub-topology: 1 for global store (will not generate tasks)" in text


def test_nodes_may_follow_what_the_dsl_made() -> None:
    """If this fails, applications that mix both interfaces lose nodes."""
    builder = StreamsBuilder()
    builder.stream("in", name="source").map_values(str.upper, name="upper")
    topology = builder.build().add_sink("sink", "out", "upper", key=STRING, value=STRING)
    assert builder.build() is topology
    with TopologyTestDriver(topology, CONFIG) as driver:
        driver.create_input_topic("in").pipe_input("a", "x")
        assert driver.create_output_topic("out").read_key_value() == ("a", "X")


def test_stores_are_connected() -> None:
    """If this fails, two processors that share a store are in two tasks."""
    topology = Topology().add_source("a", "one").add_source("b", "two", timestamp_extractor=lambda record, last_ms: 7)
    topology.add_processor("x", Fills, "a").add_processor("y", Fills, "b")
    topology.add_state_store(Store("prices", StoreKind.KEY_VALUE), "x")
    assert len(topology.plan.subtopologies()) == 2
    topology.connect_processor_and_state_stores("y", "prices")
    assert len(topology.plan.subtopologies()) == 1
    with TopologyTestDriver(topology, CONFIG) as driver:
        driver.create_input_topic("two").pipe_input("k", "v", 1)
        record = driver.create_output_topic("app-prices-changelog").read_record()
        assert (record.key, record.value, record.timestamp) == ("k", "v", 7)


def test_a_topic_may_fill_a_store_and_be_its_changelog() -> None:
    """If this fails, a store that is read from a topic is written to another topic once more."""
    topology = Topology().add_read_only_state_store(
        Store("prices", StoreKind.KEY_VALUE), "in", "prices", "fill", Fills, key=STRING, value=STRING
    )
    store = topology.plan.store("prices")
    assert topology.plan.changelog(store, "app") == "prices"
    with TopologyTestDriver(topology, CONFIG) as driver:
        driver.create_input_topic("prices").pipe_input("apple", "3")
        assert driver.get_key_value_store("prices").get("apple") == "3"
        assert driver.produced == []


def test_a_plan_that_was_read_back_runs() -> None:
    """If this fails, an application that starts from its plan has other results than its code."""
    plan = made().plan
    again = from_json(to_json(plan), functions_of(plan), by_name)
    with TopologyTestDriver(again, CONFIG) as driver:
        driver.create_input_topic("prices").pipe_input("apple", "3")
        driver.create_input_topic("orders").pipe_input("a", "apple")
        assert driver.create_output_topic("results").read_value() == "apple:3"


def test_wrong_nodes_are_refused() -> None:
    """If this fails, a topology that cannot run is deployed."""
    topology = Topology().add_source("in", "orders")
    with pytest.raises(TopologyError, match="parent missing of out does not exist"):
        topology.add_sink("out", "results", "missing")
    with pytest.raises(TopologyError, match="sink out needs a topic or a function for it"):
        topology.add_sink("out", "", "in")
    with pytest.raises(TopologyError, match="source empty needs topics or a pattern"):
        topology.add_source("empty")
    with pytest.raises(TopologyError, match="is no supplier"):
        topology.add_processor("p", Fills(), "in")  # type: ignore[arg-type]
    with pytest.raises(TopologyError, match="the partitioner of out is 3, which cannot be called"):
        topology.add_sink("out", "results", "in", partitioner=3)  # type: ignore[arg-type]
