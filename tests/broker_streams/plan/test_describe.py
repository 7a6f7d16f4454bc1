"""The description of topologies, compared with texts that Kafka Streams 4.3.1 wrote (RandomTopologies.java)."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker_streams.plan.describe import describe
from broker_streams.plan.functions import Function
from broker_streams.plan.steps.stateless import PassThrough
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import ProcessorNode, Sink, Source, Topology, TopologyBuilder

TEXTS = (Path(__file__).parent / "topologies.txt").read_text().split("SPEC ")[1:]


def topology_of(spec: str) -> Topology:
    made = TopologyBuilder()
    for act in filter(None, spec.split(";")):
        kind, name, *rest = act.split(" ")
        if kind == "source":
            made.add_source(Source(name, tuple(rest[0].split(","))))
        elif kind == "sink":
            made.add_sink(Sink(name, tuple(rest[1].split(",")), rest[0]))
        elif kind == "processor":
            made.add_processor(ProcessorNode(name, tuple(rest[0].split(",")), PassThrough()))
        else:
            made.add_store(Store(name, StoreKind.KEY_VALUE), rest)
    return made.build()


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_the_text_is_kafkas(number: int) -> None:
    """If this fails, users who compare descriptions of two releases of their application find differences."""
    spec, expected = TEXTS[number].split("\n", 1)
    assert describe(topology_of(spec)) == expected


def test_global_stores_patterns_and_functions_of_topics_are_described() -> None:
    """If this fails, the description hides where records come from or go to."""
    made = TopologyBuilder()
    made.add_global_store(
        Store("rates", StoreKind.TIMESTAMPED_KEY_VALUE),
        Source("rates-source", ("rates",)),
        ProcessorNode("rates-table", ("rates-source",), PassThrough()),
    )
    made.add_source(Source("in", pattern="orders-.*"))
    made.add_sink(Sink("out", ("in",), topic_extractor=Function("out.topic_extractor", topic_of)))
    assert describe(made.build()) == (
        "Topologies:\n"
        "   Sub-topology: 0 for global store (will not generate tasks)\n"
        "    Source: rates-source (topics: [rates])\n"
        "      --> rates-table\n"
        "    Processor: rates-table (stores: [rates])\n"
        "      --> none\n"
        "      <-- rates-source\n"
        "  Sub-topology: 1\n"
        "    Source: in (topics: orders-.*)\n"
        "      --> out\n"
        "    Sink: out (extractor class: topic_of)\n"
        "      <-- in\n"
        "\n"
    )


def topic_of(key: object, value: object, record: object) -> str:
    return "orders"
