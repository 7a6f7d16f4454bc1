"""Streams of the DSL: names of nodes, serdes, what needs a repartition, results."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from broker_streams import (
    LONG,
    STRING,
    KStream,
    Processor,
    Record,
    Store,
    StoreKind,
    StreamsBuilder,
    StreamsError,
    TimestampExtractor,
    TopologyError,
    TopologyTestDriver,
)
from broker_streams.plan.steps import stateless
from broker_streams.plan.topology import ProcessorNode, Sink, Source

CONFIG = {"application.id": "app", "default.key.serde": STRING, "default.value.serde": STRING}


def names(builder: StreamsBuilder) -> list[str]:
    return [node.name for node in builder.build().plan.nodes]


def step_of(builder: StreamsBuilder, name: str) -> Any:
    node = builder.build().plan.node(name)
    assert isinstance(node, ProcessorNode)
    return node.step


def test_nodes_have_the_names_of_kafka() -> None:
    """If this fails, an application that moves here from Kafka Streams has other internal topics, stores, metrics."""
    builder = StreamsBuilder()
    stream = builder.stream("in")
    stream.filter(lambda key, value: True).filter_not(lambda key, value: True)
    stream.map(lambda key, value: (key, value)).map_values(lambda value: value)
    stream.flat_map(lambda key, value: []).flat_map_values(lambda value: [])
    stream.select_key(lambda key, value: key).peek(lambda key, value: None).foreach(lambda key, value: None)
    stream.print(lambda line: None)
    other = builder.stream("other")
    stream.merge(other).to("out")
    stream.process(Upper).process_values(Upper)
    assert names(builder) == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-FILTER-0000000001",
        "KSTREAM-FILTER-0000000002",
        "KSTREAM-MAP-0000000003",
        "KSTREAM-MAPVALUES-0000000004",
        "KSTREAM-FLATMAP-0000000005",
        "KSTREAM-FLATMAPVALUES-0000000006",
        "KSTREAM-KEY-SELECT-0000000007",
        "KSTREAM-PEEK-0000000008",
        "KSTREAM-FOREACH-0000000009",
        "KSTREAM-PRINTER-0000000010",
        "KSTREAM-SOURCE-0000000011",
        "KSTREAM-MERGE-0000000012",
        "KSTREAM-SINK-0000000013",
        "KSTREAM-PROCESSOR-0000000014",
        "KSTREAM-PROCESSVALUES-0000000015",
    ]
    assert step_of(builder, "KSTREAM-PRINTER-0000000010").label == "KSTREAM-SOURCE-0000000000"


def test_names_of_the_user_count_except_for_processors() -> None:
    """If this fails, a name that is given to one call changes the store and topic names of calls after it."""
    builder = StreamsBuilder()
    stream = builder.stream("in", name="source").filter(lambda key, value: True, name="large")
    stream.process(Upper, name="mine").process_values(Upper, name="values").repartition(name="again").to("out")
    assert names(builder) == [
        "source",
        "large",
        "mine",
        "values",
        "again-repartition-filter",
        "again-repartition-sink",
        "again-repartition-source",
        "KSTREAM-SINK-0000000005",
    ]
    again = StreamsBuilder()
    again.stream("in", name="large").to("out", name="large")
    with pytest.raises(TopologyError, match="node large exists"):
        again.build()


class Upper(Processor):
    def process(self, record: Record) -> None:
        self.context.forward(record.with_value(record.value.upper()))


def kinds(stream: KStream) -> tuple[Any, Any, bool]:
    return stream.key_serde, stream.value_serde, stream.needs_repartition


# The call; the serdes that it keeps, and whether it may change keys.
CALLS: list[tuple[Callable[[KStream], KStream], Any, Any, bool]] = [
    (lambda stream: stream.filter(lambda key, value: True), STRING, LONG, False),
    (lambda stream: stream.filter_not(lambda key, value: True), STRING, LONG, False),
    (lambda stream: stream.peek(lambda key, value: None), STRING, LONG, False),
    (lambda stream: stream.map_values(lambda value: value), STRING, None, False),
    (lambda stream: stream.flat_map_values(lambda value: []), STRING, None, False),
    (lambda stream: stream.process_values(Upper), STRING, None, False),
    (lambda stream: stream.select_key(lambda key, value: key), None, LONG, True),
    (lambda stream: stream.map(lambda key, value: (key, value)), None, None, True),
    (lambda stream: stream.flat_map(lambda key, value: []), None, None, True),
    (lambda stream: stream.process(Upper), None, None, True),
    (lambda stream: stream.merge(stream), None, None, False),
    (lambda stream: stream.select_key(lambda key, value: key).repartition(key=LONG), LONG, LONG, False),
    (
        lambda stream: stream.split().branch(lambda key, value: True).no_default_branch().popitem()[1],
        STRING,
        LONG,
        False,
    ),
]


@pytest.mark.parametrize(("call", "key", "value", "needs_repartition"), CALLS)
def test_serdes_and_repartitions(
    call: Callable[[KStream], KStream], key: Any, value: Any, needs_repartition: bool
) -> None:
    """If this fails, records are written with a serde of other objects, or rows of one key are in two partitions."""
    stream = call(StreamsBuilder().stream("in", key=STRING, value=LONG))
    assert kinds(stream) == (key, value, needs_repartition)
    # Streams below it keep that.
    assert stream.filter(lambda key, value: True).needs_repartition is needs_repartition


def driver(builder: StreamsBuilder, **config: Any) -> TopologyTestDriver:
    return TopologyTestDriver(builder.build(), {**CONFIG, **config})


def test_a_stream_runs() -> None:
    """If this fails, no stream has a result."""
    builder = StreamsBuilder()
    (
        builder.stream("in")
        .flat_map_values(lambda line: line.split())
        .filter_not(lambda key, word: word == "the")
        .map(lambda key, word: (word[0], word))
        .map_values(lambda key, word: f"{key}{word}", with_key=True)
        .to("out")
    )
    with driver(builder) as running:
        running.create_input_topic("in").pipe_input("k", "all the world", 7, (("trace", b"1"),))
        out = running.create_output_topic("out")
        assert out.read_record() == Record("a", "aall", 7, (("trace", b"1"),))
        assert out.read_key_values() == [("w", "wworld")]


def test_branches() -> None:
    """If this fails, branches have other names than in Kafka Streams, or records are in two of them."""
    builder = StreamsBuilder()
    stream = builder.stream("in")
    seen: list[KStream] = []
    found = (
        stream.split(name="by-size-")
        .branch(lambda key, value: len(value) > 3, name="large")
        .branch(lambda key, value: len(value) > 2)
        .branch(lambda key, value: len(value) > 1, name="gone", to=seen.append)
        .default_branch(name="rest", to=lambda branch: branch.map_values(str.upper))
    )
    assert list(found) == ["by-size-large", "by-size-2", "by-size-rest"]
    assert [each.name for each in seen] == ["by-size-gone"]
    for name, branch in found.items():
        branch.to(f"out-{name}")
    with driver(builder) as running:
        running.create_input_topic("in").pipe_values(["abcd", "abc", "ab", "a"])
        topics = [running.create_output_topic(f"out-{name}") for name in found]
        assert [topic.read_values() for topic in topics] == [["abcd"], ["abc"], ["A"]]

    split = StreamsBuilder().stream("in").split()
    assert list(split.branch(lambda key, value: True).default_branch()) == [
        "KSTREAM-BRANCH-00000000011",
        "KSTREAM-BRANCH-00000000010",
    ]
    with pytest.raises(TopologyError, match="has its default branch already"):
        split.branch(lambda key, value: True)
    with pytest.raises(TopologyError, match="has its default branch already"):
        split.default_branch()


def test_streams_of_one_topic_share_a_source() -> None:
    """If this fails, an application that reads a topic twice does not start."""
    builder = StreamsBuilder()
    builder.stream("in").to("one")
    builder.stream("in").to("two")
    builder.stream(re.compile("x.*")).to("three")
    builder.stream(re.compile("x.*")).to("four")
    assert [node.name for node in builder.build().plan.nodes if isinstance(node, Source)] == [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-SOURCE-0000000004",
    ]
    with driver(builder) as running:
        running.create_input_topic("in").pipe_input("k", "v")
        running.create_input_topic("x1").pipe_input("k", "x")
        topics = [running.create_output_topic(topic) for topic in ("one", "two", "three", "four")]
        assert [topic.read_values() for topic in topics] == [["v"], ["v"], ["x"], ["x"]]


def test_a_repartition_goes_through_its_topic() -> None:
    """If this fails, keys that change stay in the partition of the old key."""
    builder = StreamsBuilder()
    stream = builder.stream("in", key=LONG, value=STRING).select_key(lambda key, value: value)
    stream.repartition(name="again", partitions=3, partitioner=lambda *args: 0).to("out")
    plan = builder.build().plan
    (topic,) = plan.repartition_topics
    assert (topic.name, topic.partitions) == ("again-repartition", 3)
    # Records without a key stay out of the topic, as none of the joins below needs them.
    assert isinstance(step_of(builder, "again-repartition-filter"), stateless.FilterNullKey)
    sink = plan.node("again-repartition-sink")
    assert isinstance(sink, Sink)
    # Kafka takes the value's serde from the stream, and the key's from the call only.
    assert (sink.key_serde, sink.value_serde) == (None, STRING)
    with driver(builder) as running:
        inputs = running.create_input_topic("in", key=LONG)
        inputs.pipe_input(1, "a", 5)
        inputs.pipe_input(1, None, 6)
        assert running.create_output_topic("out").read_records() == [Record("a", "a", 5)]
        assert running.create_output_topic("app-again-repartition").read_records() == [Record("a", "a", 5)]
    with pytest.raises(TopologyError, match="0 partitions"):
        stream.repartition(partitions=0)


def test_a_topic_may_follow_from_the_record() -> None:
    """If this fails, records of a dynamic topic are in another one."""
    builder = StreamsBuilder()
    builder.stream("in").to(lambda key, value, context: f"{context.topic}-{key}", value=STRING)
    with driver(builder) as running:
        running.create_input_topic("in").pipe_input("a", "1")
        assert running.create_output_topic("in-a").read_value() == "1"
    builder = StreamsBuilder()
    builder.stream("in").to(lambda key, value, context: None)  # type: ignore[arg-type,return-value]
    with driver(builder) as running, pytest.raises(StreamsError, match="returned None; it returns a topic's name"):
        running.create_input_topic("in").pipe_input("a", "1")


def test_a_source_has_its_own_time_and_reset() -> None:
    """If this fails, records of one topic have the times that were chosen for another."""
    builder = StreamsBuilder()
    builder.stream("in", timestamp_extractor=lambda record, last_ms: int(record.value), offset_reset="latest").to("out")
    builder.stream("clock", timestamp_extractor=TimestampExtractor.WALL_CLOCK).to("out")
    source = builder.build().plan.node("KSTREAM-SOURCE-0000000000")
    assert isinstance(source, Source)
    assert source.offset_reset == "latest"
    with driver(builder) as running:
        running.create_input_topic("in").pipe_input("a", "17", 3)
        running.advance_wall_clock_time(5)
        running.create_input_topic("clock").pipe_input("a", "b", 3)
        assert [each.timestamp for each in running.create_output_topic("out").read_records()] == [17, 5]


class Counts(Processor):
    """Counts values in a store that its supplier brings."""

    @staticmethod
    def stores() -> list[Store]:
        return [Store("counts", StoreKind.KEY_VALUE, STRING, LONG)]

    def process(self, record: Record) -> None:
        store = self.context.state_store("counts")
        count = (store.get(record.key) or 0) + 1
        store.put(record.key, count)
        self.context.forward(record.with_value(str(count)))


def test_processors_of_users_have_stores() -> None:
    """If this fails, a processor has no access to its stores."""
    builder = StreamsBuilder()
    builder.stream("in").process(Counts).to("out")
    with driver(builder) as running:
        running.create_input_topic("in").pipe_key_values([("a", "x"), ("b", "x"), ("a", "x")])
        assert running.create_output_topic("out").read_key_values() == [("a", "1"), ("b", "1"), ("a", "2")]
        assert running.create_output_topic("app-counts-changelog", value=LONG).read_values() == [1, 1, 2]
        assert dict(running.get_key_value_store("counts").all()) == {"a": 2, "b": 1}


def test_stores_are_connected_by_name() -> None:
    """If this fails, a processor reads a store of another one, or has no access to its own."""

    class Reads(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record.with_value(self.context.state_store("mine").get(record.key)))

    builder = StreamsBuilder()
    builder.add_state_store(Store("mine", StoreKind.KEY_VALUE))
    stream = builder.stream("in")
    stream.process_values(Reads, "mine").to("out")
    stream.process(Reads, name="other").to("out")
    with driver(builder) as running:
        running.get_key_value_store("mine").put("a", "row")
        with pytest.raises(StreamsError, match="other has no access to store 'mine'; it is connected to no store"):
            running.create_input_topic("in").pipe_input("a", "x")
        # The first processor had its row.
        assert isinstance(step_of(builder, "other").supplier.call(), Reads)


def test_a_processor_of_values_keeps_keys() -> None:
    """If this fails, records of a key that changed are in the partition of the old key."""

    class Changes(Processor):
        def process(self, record: Record) -> None:
            self.context.forward(record.with_key("other"))

    builder = StreamsBuilder()
    builder.stream("in").process_values(Changes).to("out")
    with driver(builder) as running, pytest.raises(StreamsError, match="forwards key 'other' for 'a'"):
        running.create_input_topic("in").pipe_input("a", "x")


def test_wrong_calls_are_refused() -> None:
    """If this fails, the error comes with the first record, far from the call."""
    builder: Any = StreamsBuilder()
    stream = builder.stream("in")
    shared = Upper()
    for call, text in (
        (lambda: stream.filter("x"), "the predicate of KSTREAM-FILTER-0000000001 is 'x', which cannot be called"),
        (lambda: stream.process(lambda: shared), "returns the same processor twice"),
        (lambda: stream.process(shared), "is no supplier"),
        (lambda: stream.process(lambda record: None), "missing 1 required positional argument: 'record'; a class of"),
        (lambda: stream.process(object), "which is no processor: it has no method process"),
        (lambda: builder.add_state_store("s"), "'s' is no Store"),
        (lambda: builder.stream(5), "a stream reads 5; a topic,"),
        (lambda: builder.stream([5]), "a stream reads 5, which is no name of a topic"),
        (lambda: stream.process(Upper, Store("s", StoreKind.KEY_VALUE)), "is no name of a store"),
        (lambda: stream.merge("x"), "'x' is no stream"),
        (lambda: stream.merge(StreamsBuilder().stream("x")), "belong to two StreamsBuilders; use one for both"),
        (lambda: builder.stream([]), "at least one topic"),
        (lambda: builder.stream("x", offset_reset="first"), "first for configuration offset_reset"),
    ):
        with pytest.raises(TopologyError, match=re.escape(text)):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="'JSONX' is no serde"):
        builder.stream("x", key="JSONX")
