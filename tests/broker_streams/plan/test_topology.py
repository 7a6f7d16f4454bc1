"""Topologies: sub-topologies and their numbers, and additions that are refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from broker_streams.plan.functions import Function
from broker_streams.plan.steps.stateless import Filter, PassThrough
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import InternalTopic, ProcessorNode, Sink, Source, TopologyBuilder, TopologyError

COUNTS = Store("counts", StoreKind.TIMESTAMPED_KEY_VALUE)


def through(name: str, *parents: str) -> ProcessorNode:
    return ProcessorNode(name, parents, PassThrough())


def builder() -> TopologyBuilder:
    """in -> a -> repartition topic -> b (store counts) -> out."""
    made = TopologyBuilder()
    made.add_source(Source("in", ("orders",)))
    made.add_processor(through("a", "in"))
    made.add_repartition_topic(InternalTopic("counts-repartition"))
    made.add_sink(Sink("a-sink", ("a",), "counts-repartition"))
    made.add_source(Source("b-source", ("counts-repartition",)))
    made.add_processor(through("b", "b-source"))
    made.add_store(COUNTS, ["b"])
    made.add_sink(Sink("out", ("b",), "totals"))
    return made


def test_subtopologies_are_numbered_in_the_order_of_their_nodes() -> None:
    """If this fails, tasks of an application have other ids than in Kafka Streams, and its state is not found again."""
    topology = builder().build()
    parts = topology.subtopologies()
    assert [(part.number, [node.name for node in part.nodes]) for part in parts] == [
        (0, ["in", "a", "a-sink"]),
        (1, ["b-source", "b", "out"]),
    ]
    assert [part.stores for part in parts] == [(), (COUNTS,)]
    assert topology.decorated("counts-repartition", "app") == "app-counts-repartition"
    assert topology.decorated("orders", "app") == "orders"
    assert topology.changelog(COUNTS, "app") == "app-counts-changelog"


def test_processors_of_one_store_are_in_one_subtopology() -> None:
    """If this fails, two tasks have a store each where the user has one."""
    made = builder()
    made.add_source(Source("other", ("payments",)))
    made.add_processor(through("c", "other"))
    made.connect("c", "counts")
    assert [node.name for node in made.build().subtopologies()[1].nodes] == ["b-source", "b", "out", "other", "c"]


def test_a_global_store_takes_a_number_and_has_no_task() -> None:
    """If this fails, tasks after a global table have other ids than in Kafka Streams."""
    made = TopologyBuilder()
    store = Store("rates", StoreKind.TIMESTAMPED_KEY_VALUE)
    made.add_global_store(store, Source("rates-source", ("rates",)), through("rates-table", "rates-source"))
    made.add_source(Source("in", ("orders",)))
    made.add_processor(through("join", "in"))
    made.connect("join", "rates")
    topology = made.build()
    assert [part.number for part in topology.subtopologies()] == [1]
    assert topology.subtopologies()[0].stores == ()
    assert topology.changelog(topology.store("rates"), "app") is None


REFUSED: list[tuple[Callable[[TopologyBuilder], object], str]] = [
    (lambda made: made.add_source(Source("in", ("x",))), "node in exists"),
    (lambda made: made.add_source(Source("x", ("orders",))), "topic orders is read by in already"),
    (lambda made: made.add_source(Source("x", pattern="ord.*")), "pattern ord.* of x matches topic orders"),
    (lambda made: made.add_source(Source("x")), "source x needs topics or a pattern"),
    (lambda made: made.add_processor(through("x")), "node x has no parent"),
    (lambda made: made.add_processor(through("x", "x")), "node x is its own parent"),
    (lambda made: made.add_processor(through("x", "y")), "parent y of x does not exist"),
    (lambda made: made.add_processor(through("x", "out")), "parent out of x is a sink"),
    (lambda made: made.add_sink(Sink("x", ("b",))), "sink x needs a topic or a function for it"),
    (lambda made: made.connect("b", "y"), "store y does not exist"),
    (lambda made: made.connect("in", "counts"), "in is no processor"),
    (lambda made: made.connect("y", "counts"), "y does not exist"),
    (lambda made: made.add_store(Store("counts", StoreKind.WINDOW)), "store counts was added with other settings"),
    (lambda made: TopologyBuilder().build(), "a topology without nodes cannot run"),
]


@pytest.mark.parametrize(("act", "text"), REFUSED, ids=[text for _, text in REFUSED])
def test_what_cannot_be_is_refused(act: Callable[[TopologyBuilder], object], text: str) -> None:
    """If this fails, a wrong topology runs until a record reaches the wrong place."""
    with pytest.raises(TopologyError) as refused:
        act(builder())
    assert text in str(refused.value)


def test_steps_with_the_same_place_of_a_function_are_equal() -> None:
    """If this fails, two builds of one application differ, and its plan seems changed at each start."""
    one, other = (Filter(Function("filter.predicate", lambda key, value: True)) for _ in range(2))
    assert one == other
    assert one != Filter(Function("other.predicate", lambda key, value: True))
