"""Plans as JSON: read back they are equal, and an error names a text that is not a plan."""

from __future__ import annotations

import json

import pytest

from broker_streams.plan.codec import PlanError, from_json, functions_of, to_json
from broker_streams.plan.functions import Function
from broker_streams.plan.steps.stateless import Branch, Filter, MapValues, PassThrough
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.plan.topology import InternalTopic, ProcessorNode, Sink, Source, Topology, TopologyBuilder


class Text:
    name = "STRING"

    def serialize(self, topic: str, value: str) -> bytes:
        return value.encode()


TEXT = Text()


def topology() -> Topology:
    made = TopologyBuilder()
    made.add_source(Source("in", ("orders", "returns"), key_serde=TEXT, offset_reset="earliest"))
    large = Function("large.predicate", lambda key, value: value > 100)
    made.add_processor(ProcessorNode("split", ("in",), Branch(((large, "large"),), default="rest")))
    made.add_processor(ProcessorNode("large", ("split",), PassThrough()))
    made.add_processor(ProcessorNode("rest", ("split",), MapValues(Function("rest.mapper", str), with_key=False)))
    made.add_repartition_topic(InternalTopic("counts-repartition", 4, {"segment.ms": "1000"}))
    made.add_sink(Sink("counts-sink", ("large",), "counts-repartition", key_serde=TEXT))
    made.add_source(Source("counts-source", ("counts-repartition",)))
    made.add_processor(ProcessorNode("counts", ("counts-source",), Filter(large, negate=True)))
    store = Store("totals", StoreKind.TIMESTAMPED_WINDOW, TEXT, retention_ms=90_000, window_ms=60_000, caching=True)
    made.add_store(store, ("counts",))
    made.add_global_store(
        Store("rates", StoreKind.TIMESTAMPED_KEY_VALUE),
        Source("rates-source", ("rates",)),
        ProcessorNode("rates-table", ("rates-source",), PassThrough()),
    )
    made.copartition(("in", "counts-source"))
    return made.build()


def serde_of(name: str) -> Text:
    return {"STRING": TEXT}[name]


def test_a_plan_that_is_read_back_is_equal() -> None:
    """If this fails, a plan runs differently on an executor that has read it than where it was made."""
    made = topology()
    read = from_json(to_json(made), functions_of(made), serde_of)
    assert read == made
    assert [each.call for each in functions_in(read)] == [each.call for each in functions_in(made)]
    assert to_json(read) == to_json(made)


def functions_in(made: Topology) -> list[Function]:
    step = next(each.step for each in made.nodes if each.name == "split" and isinstance(each, ProcessorNode))
    assert isinstance(step, Branch)
    return [predicate for predicate, _ in step.children]


def changed(old: str, new: str) -> str:
    text = to_json(topology())
    assert old in text
    return text.replace(old, new, 1)


REFUSED = [
    ("[", "the plan is no JSON"),
    ("3", "the plan has format 3; this version reads 1"),
    (json.dumps({"format": 2}), "the plan has format 2; this version reads 1"),
    (json.dumps({"format": 1, "topology": [1]}), "the plan holds no topology"),
    (changed('"branch.1"', '"branch.9"'), "topology.nodes[1].step is 'branch.9', which this version does not know"),
    (
        changed('"negate": true', '"inverse": true'),
        "(filter.1) has a field 'inverse', which this version does not know",
    ),
    (changed('"large.predicate"', '"gone.predicate"'), "the application has no function 'gone.predicate'"),
    (changed('"STRING"', '"ROMAN"'), "topology.nodes[0].key_serde: no serde has the name 'ROMAN'"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_text_that_is_no_plan_is_named(text: str, message: str) -> None:
    """If this fails, an application starts with a part of its topology."""
    with pytest.raises(PlanError) as refused:
        from_json(text, functions_of(topology()), serde_of)
    assert message in str(refused.value)


def test_a_value_that_is_no_data_is_refused() -> None:
    """If this fails, a plan is written that nothing can read."""
    made = TopologyBuilder()
    made.add_source(Source("in", ("orders",), key_serde=object()))
    with pytest.raises(TypeError, match="a plan cannot hold <object object"):
        to_json(made.build())
