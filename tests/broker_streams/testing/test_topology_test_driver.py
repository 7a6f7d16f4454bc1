"""The test driver: times, topics, stores, errors."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from broker_streams import (
    LONG,
    STRING,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Store,
    StoreKind,
    StreamsBuilder,
    StreamsError,
    TopologyTestDriver,
    ValueAndTimestamp,
    log_and_continue,
)

CONFIG = {"application.id": "app", "default.key.serde": "STRING", "default.value.serde": STRING}


def passing() -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.stream("in").to("out")
    return builder


def test_times_of_records() -> None:
    """If this fails, tests of windows need a timestamp at each record."""
    with TopologyTestDriver(passing().build(), CONFIG, 100) as driver:
        topic = driver.create_input_topic("in", start_timestamp_ms=5, auto_advance_ms=10)
        topic.pipe_values(["a", "b"])
        topic.advance_time(1_000)
        topic.pipe_value("c")
        topic.pipe_value("d", 3)
        topic.pipe_key_values([("k", "e"), ("k", "f")], 50, 2)
        driver.create_input_topic("in").pipe_value("g")
        topic.pipe_records([Record("k", "h", 9)])
        found = driver.create_output_topic("out").read_records()
        assert [(each.value, each.timestamp) for each in found] == [
            ("a", 5),
            ("b", 15),
            ("c", 1025),
            ("d", 3),
            ("e", 50),
            ("f", 52),
            ("g", 100),
            ("h", 9),
        ]
        for wrong in (lambda: topic.advance_time(-1), lambda: driver.create_input_topic("in", auto_advance_ms=-1)):
            with pytest.raises(ValueError, match="-1"):
                wrong()


def test_reading_outputs() -> None:
    """If this fails, a test reads a record twice, or an empty topic looks like one with None."""
    with TopologyTestDriver(passing().build(), CONFIG) as driver:
        out = driver.create_output_topic("out")
        with pytest.raises(LookupError, match="topic out was never written"):
            out.read_value()
        driver.create_input_topic("in").pipe_key_values([("a", "1"), ("b", "2"), ("a", "3")])
        assert (out.queue_size(), out.is_empty()) == (3, False)
        assert out.read_value() == "1"
        assert out.read_key_values_to_dict() == {"b": "2", "a": "3"}
        with pytest.raises(LookupError, match="topic out has no more records"):
            out.read_record()
        driver.create_input_topic("in").pipe_value("x")
        with pytest.raises(ValueError, match="has no key"):
            out.read_key_values_to_dict()
        assert [each[:4] for each in driver.produced[-1:]] == [("out", None, None, b"x")]
        with pytest.raises(ValueError, match="no source of the topology reads topic other"):
            driver.pipe_raw("other", None, None, 0)
    with TopologyTestDriver(
        passing().build(), {"application.id": "app", "default.key.serde": "STRING"} | CONFIG
    ) as driver:
        driver.close()


def test_serdes_are_needed() -> None:
    """If this fails, the first record fails with an error about None."""
    builder = StreamsBuilder()
    builder.stream("in", key=STRING, value=STRING).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for wrong in (lambda: driver.create_input_topic("in"), lambda: driver.create_output_topic("out", key=STRING)):
            with pytest.raises(ValueError, match="needs serdes"):
                wrong()
    with pytest.raises(StreamsError, match="KSTREAM-SINK-0000000001 has no value serde"):
        TopologyTestDriver(passing().build())


class Ticks(Processor):
    """Passes on the times of both clocks."""

    closed: ClassVar[list[str]] = []

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        for kind in PunctuationType:
            context.schedule(10, kind, lambda time, kind=kind: self._tick(kind, time))  # type: ignore[misc]

    def _tick(self, kind: PunctuationType, time: int) -> None:
        self.context.forward(Record(kind.value, f"{time} {self.context.current_system_time_ms()}", time))

    def process(self, record: Record) -> None:
        pass

    def close(self) -> None:
        self.closed.append("closed")


def test_clocks() -> None:
    """If this fails, tests of punctuations pass here and fail in Kafka Streams."""
    Ticks.closed.clear()
    builder = StreamsBuilder()
    builder.stream("in").process(Ticks).to("out")
    with TopologyTestDriver(builder.build(), CONFIG, 1_000) as driver:
        out = driver.create_output_topic("out")
        topic = driver.create_input_topic("in")
        topic.pipe_value("a", 3)
        topic.pipe_value("a", 25)
        assert out.read_key_values() == [("stream-time", "3 1000"), ("stream-time", "25 1000")]
        driver.advance_wall_clock_time(9)
        assert out.is_empty()
        driver.advance_wall_clock_time(1)
        assert out.read_key_values() == [("wall-clock-time", "1010 1010")]
        assert driver.wall_clock_time_ms == 1_010
    assert Ticks.closed == ["closed"]


def test_stores_are_read_and_filled_by_tests() -> None:
    """If this fails, a test cannot prepare or check the state of an application."""

    class Reads(Processor):
        def process(self, record: Record) -> None:
            row = self.context.state_store("rows").get(record.key)
            self.context.forward(record.with_value(str(row)))

    builder = StreamsBuilder()
    builder.add_state_store(Store("rows", StoreKind.TIMESTAMPED_KEY_VALUE, STRING, LONG))
    builder.stream("in").process(Reads, "rows").to("out")
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        plain = driver.get_key_value_store("rows")
        plain.put("a", 1)
        timestamped = driver.get_timestamped_key_value_store("rows")
        timestamped.put("b", ValueAndTimestamp(2, 7))
        assert (plain.get("b"), timestamped.get("a")) == (2, ValueAndTimestamp(1, -1))
        assert list(plain.all()) == list(plain.range("a", "b")) == [("a", 1), ("b", 2)]
        driver.create_input_topic("in").pipe_input("b", "x")
        assert driver.create_output_topic("out").read_value() == str(ValueAndTimestamp(2, 7))
        assert (plain.delete("a"), plain.get("a"), plain.approximate_num_entries()) == (1, None, 1)
        assert list(driver.get_all_state_stores()) == ["rows"]
        assert driver.get_state_store("missing") is None
        assert driver.get_session_store("rows") is None
        assert driver.get_window_store("rows") is None
        assert driver.get_timestamped_window_store("rows") is None
        assert driver.get_versioned_key_value_store("rows") is None


class Fills(Processor):
    def process(self, record: Record) -> None:
        if record.value == "poison":
            raise KeyError("poison")
        self.context.state_store("rows").put(record.key, record.value)


def with_global_store(**options: Any) -> StreamsBuilder:
    builder = StreamsBuilder()
    builder.add_global_store(Store("rows", StoreKind.KEY_VALUE), "rows", Fills, **options)
    return builder


def test_global_stores_are_filled_from_topics() -> None:
    """If this fails, global stores of a test stay empty, or a task may write to them."""

    class Writes(Processor):
        def process(self, record: Record) -> None:
            store = self.context.state_store("rows")
            self.context.forward(record.with_value(store.get(record.key)))
            if record.value == "write":
                store.put(record.key, "x")

    builder = with_global_store()
    builder.stream("in").to("rows")
    builder.stream("orders").process(Writes).to("out")
    assert [node.name for node in builder.build().plan.nodes][:2] == [
        "KSTREAM-SOURCE-0000000000",
        "KTABLE-SOURCE-0000000001",
    ]
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        driver.create_input_topic("rows").pipe_input("a", "1")
        # A topic that the application writes itself.
        driver.create_input_topic("in").pipe_input("b", "2")
        assert dict(driver.get_key_value_store("rows").all()) == {"a": "1", "b": "2"}
        driver.create_input_topic("orders").pipe_input("a", "read")
        with pytest.raises(StreamsError, match="global store rows is filled from its topic only; put is not allowed"):
            driver.create_input_topic("orders").pipe_input("a", "write")
        assert driver.create_output_topic("out").read_value() == "1"


def test_errors_of_global_stores() -> None:
    """If this fails, one poison record of a global topic stops an application that was told to go on."""
    builder = with_global_store(name="fill", value=LONG)
    with TopologyTestDriver(builder.build(), CONFIG) as driver:
        # As with Kafka's driver, bytes that cannot be read are skipped.
        driver.pipe_raw("rows", b"a", b"too long to be read", 0)
        assert driver.dropped_records == 1
    only_global = with_global_store().build()
    with TopologyTestDriver(only_global, CONFIG) as driver, pytest.raises(StreamsError, match="poison"):
        driver.create_input_topic("rows").pipe_input("a", "poison")
    config = {
        **CONFIG,
        "processing.exception.handler": log_and_continue,
        "processing.exception.handler.global.enabled": "true",
    }
    with TopologyTestDriver(only_global, config) as driver:
        driver.create_input_topic("rows").pipe_input("a", "poison")
        driver.advance_wall_clock_time(1)
        assert driver.dropped_records == 1


def test_records_wait_for_other_topics_as_long_as_the_setting_says() -> None:
    """If this fails, joins of a test see topics in another order than in the cluster."""
    builder = StreamsBuilder()
    builder.stream("a").merge(builder.stream("b")).to("out")
    with TopologyTestDriver(builder.build(), {**CONFIG, "max.task.idle.ms": "10"}) as driver:
        out = driver.create_output_topic("out")
        driver.create_input_topic("a").pipe_value("late", 9)
        assert out.is_empty()
        driver.create_input_topic("b").pipe_value("early", 5)
        assert out.read_values() == ["early"]
        driver.advance_wall_clock_time("10ms")
        assert out.read_values() == ["late"]
