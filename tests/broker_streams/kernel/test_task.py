"""Tasks: order of records, time, errors, results."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from broker_streams.kernel.build import build
from broker_streams.kernel.commit_metadata import CommitMetadata
from broker_streams.kernel.errors import ErrorContext, RefusedRecord, Response, Result, StreamsError, log_and_continue
from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext, PunctuationType
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.task import Task
from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.steps.stateless import Filter, FlatMapValues, MapValues, PassThrough, SelectKey
from broker_streams.plan.timestamps import TimestampExtractor
from broker_streams.plan.topology import InternalTopic, ProcessorNode, Sink, Source, TopologyBuilder
from broker_streams.records import NO_HEADERS, Headers, Record, Window, Windowed
from broker_streams.serdes.windowed import TimeWindowedSerde


class Text:
    """Bytes as text; `bad` cannot be read, and a number cannot be written."""

    name = "text"

    def serialize(self, topic: str, value: Any, headers: Headers = NO_HEADERS) -> bytes | None:
        if value is not None and not isinstance(value, str):
            raise ValueError(f"{value!r} is no text")
        return None if value is None else value.encode()

    def deserialize(self, topic: str, data: bytes | None, headers: Headers = NO_HEADERS) -> Any:
        if data == b"bad":
            raise ValueError("bad bytes")
        return None if data is None else data.decode()


def function(call: Callable[..., Any]) -> Function:
    return Function("node.function", call)


def settings(**changed: Any) -> TaskSettings:
    return TaskSettings("app", Text(), Text(), **changed)


def task_of(
    *steps: Step,
    inputs: tuple[str, ...] = ("in",),
    sink: Sink | None = None,
    partitions: Callable[[str], int] | None = None,
    **changed: Any,
) -> Task:
    """in -> steps -> out"""
    builder = TopologyBuilder()
    builder.add_source(Source("source", inputs))
    above = "source"
    for number, step in enumerate(steps):
        builder.add_processor(ProcessorNode(f"step-{number}", (above,), step))
        above = f"step-{number}"
    builder.add_sink(sink or Sink("sink", (above,), "out"))
    topology = builder.build()
    task = build(topology, topology.subtopologies()[0], 0, settings(**changed), partitions)
    for topic in inputs:
        task.assign(topic, 0)
    task.initialize(0)
    return task


def record(value: str | None, timestamp: int = 0, offset: int = 0, key: str | None = None) -> Any:
    return (None if key is None else key.encode(), None if value is None else value.encode(), timestamp, offset, ())


def values(task: Task) -> list[bytes | None]:
    return [each[3] for each in task.take_results()[0]]


def test_a_record_becomes_an_output() -> None:
    """If this fails, nothing works."""
    task = task_of(MapValues(function(lambda value: value.upper())))
    headers = (("trace", b"1"),)
    assert task.add("in", 0, [(b"k", b"v", 7, 3, headers)]) == 1
    assert task.run(100) == 1
    assert task.take_results() == ([("out", None, b"k", b"V", 7, headers)], [])
    assert task.take_results() == ([], [])
    assert task.offsets() == {("in", 0): 4}
    assert (task.state.stream_time_ms, task.commit_needed) == (7, True)
    assert task.metadata() == {("in", 0): CommitMetadata(7, {}).text()}
    task.flush()
    assert not task.commit_needed
    task.close()


def test_a_task_goes_on_from_the_times_of_its_last_commit() -> None:
    """If this fails, a restart forgets the time, and takes late records or passes windows on again."""
    task = task_of(inputs=("a", "b"))
    task.restore_metadata("a", 0, CommitMetadata(50, {"one": 7, "two": 20}).text())
    task.restore_metadata("b", 0, CommitMetadata(40, {"one": 9, "two": 10}).text())
    assert (task.state.stream_time_ms, task.state.emitted_ms) == (50, {"one": 9, "two": 20})
    emitted_ms = {"one": 9, "two": 20}
    assert task.metadata() == {
        ("a", 0): CommitMetadata(50, emitted_ms).text(),
        ("b", 0): CommitMetadata(40, emitted_ms).text(),
    }
    task.restore_metadata("b", 0, "")
    assert task.metadata()["b", 0] == CommitMetadata(-1, emitted_ms).text()


def test_the_lowest_timestamp_is_processed_first() -> None:
    """If this fails, joins and windows of one task see its topics in another order than in Kafka Streams."""
    task = task_of(inputs=("a", "b"))
    task.add("a", 0, [record("a5", 5, 0), record("a9", 9, 1)])
    task.add("b", 0, [record("b7", 7, 0), record("b6", 6, 1), record("b10", 10, 2)])
    task.update_lags({("a", 0): 0, ("b", 0): 0})
    assert task.run(0) == 5
    assert values(task) == [b"a5", b"b7", b"b6", b"a9", b"b10"]
    assert task.offsets() == {("a", 0): 2, ("b", 0): 3}


def test_a_task_waits_for_an_empty_partition() -> None:
    """If this fails, a task runs ahead of a topic whose records were not fetched yet."""
    task = task_of(inputs=("a", "b"), max_task_idle_ms=10)
    task.add("a", 0, [record("a1", 1)])
    assert task.run(0) == 0
    task.update_lags({("b", 0): 5})
    assert task.run(0) == 0
    task.update_lags({("b", 0): 0})
    # No record of b is on the broker: the wait begins.
    assert (task.run(0), task.run(9), task.run(10)) == (0, 0, 1)
    eager = task_of(inputs=("a", "b"), max_task_idle_ms=-1)
    eager.add("a", 0, [record("a1", 1)])
    assert eager.run(0) == 1


@pytest.mark.parametrize(
    ("extractor", "expected"),
    [
        (TimestampExtractor.LOG_AND_SKIP_ON_INVALID, [(b"one", 5), (b"three", 6)]),
        (TimestampExtractor.USE_PARTITION_TIME_ON_INVALID, [(b"one", 5), (b"two", 5), (b"three", 6)]),
        (TimestampExtractor.WALL_CLOCK, [(b"one", 0), (b"two", 0), (b"three", 0)]),
        (
            function(lambda record, partition_time_ms: len(record.value) * 100),
            [(b"one", 300), (b"two", 300), (b"three", 500)],
        ),
    ],
)
def test_timestamps_are_extracted(extractor: Any, expected: list[Any]) -> None:
    """If this fails, records get other times than with Kafka's extractors."""
    task = task_of(timestamp_extractor=extractor)
    task.add("in", 0, [record("one", 5, 0), record("two", -1, 1), record("three", 6, 2)])
    task.run(0)
    assert [(each[3], each[4]) for each in task.take_results()[0]] == expected
    assert task.offsets() == {("in", 0): 3}


def test_the_clock_is_that_of_the_addition() -> None:
    """If this fails, records have the time of the last batch where the user chose the clock."""
    task = task_of(timestamp_extractor=TimestampExtractor.WALL_CLOCK)
    task.add("in", 0, [record("one", 5, 0), record("two", 5, 1)], 70)
    task.run(80)
    # The second record became the next one at 80.
    assert [each[4] for each in task.take_results()[0]] == [70, 80]


def test_a_negative_timestamp_ends_the_task() -> None:
    """If this fails, a record without a time is processed at time -1."""
    for extractor in (TimestampExtractor.FAIL_ON_INVALID, TimestampExtractor.USE_PARTITION_TIME_ON_INVALID):
        with pytest.raises(StreamsError, match="in-0 at offset 4 has timestamp -1"):
            task_of(timestamp_extractor=extractor).add("in", 0, [record("one", -1, 4)])
    with pytest.raises(StreamsError, match="extractor returned None for record in-0 at offset 0"):
        task_of(timestamp_extractor=function(lambda *args: None)).add("in", 0, [record("one", 5)])


def fails(value: str) -> str:
    if value == "poison":
        raise KeyError("poison")
    return value


def test_an_error_of_a_function_ends_the_task_and_is_named() -> None:
    """If this fails, the user cannot find the function and the record that failed."""
    task = task_of(PassThrough(), MapValues(function(fails)), PassThrough())
    task.add("in", 0, [record("good"), record("poison", offset=1), record("later", offset=2)])
    with pytest.raises(
        StreamsError, match="task 0_0: processor step-1 failed for in-0 at offset 1: KeyError: 'poison'"
    ) as error:
        task.run(0)
    assert isinstance(error.value.__cause__, KeyError)
    assert str(error.value).endswith(f" ({__file__}, line {fails.__code__.co_firstlineno + 2})")
    assert task.offsets() == {("in", 0): 1}


def test_a_record_that_fails_may_be_skipped() -> None:
    """If this fails, one poison record stops an application that was told to go on."""
    doubled = FlatMapValues(function(lambda value: [value, "poison", value]))
    task = task_of(doubled, MapValues(function(fails)), processing_handler=log_and_continue)
    task.add("in", 0, [record("a"), record("b", offset=1)])
    assert task.run(0) == 2
    assert values(task) == [b"a", b"a", b"b", b"b"]
    assert task.state.dropped_records == 2


def test_a_handler_sees_the_processor_and_the_record() -> None:
    """If this fails, a user's handler cannot decide by what failed."""
    seen: list[Any] = []

    def handler(context: ErrorContext, failed: Record, error: Exception) -> Result:
        seen.append((context.node, context.topic, context.offset, context.raw_value, failed.value, str(error)))
        return Result.RESUME

    task = task_of(PassThrough(), MapValues(function(fails)), processing_handler=handler)
    task.add("in", 0, [record("poison", offset=5)])
    task.run(0)
    assert seen == [("step-1", "in", 5, b"poison", "poison", "'poison'")]


@pytest.mark.parametrize("answer", [None, "RESUME"])
def test_a_handler_that_answers_nonsense_ends_the_task(answer: Any) -> None:
    """If this fails, a handler without a decision decides to skip records."""
    task = task_of(MapValues(function(fails)), processing_handler=lambda *args: answer)
    task.add("in", 0, [record("poison")])
    with pytest.raises(StreamsError, match="the handler of processing errors returned"):
        task.run(0)


def test_bytes_that_cannot_be_read_are_skipped_with_their_offset() -> None:
    """If this fails, a poison record is read again after each restart."""
    task = task_of(deserialization_handler=log_and_continue)
    task.add("in", 0, [record("good"), record("bad", offset=1)])
    assert task.run(0) == 2
    assert values(task) == [b"good"]
    assert task.offsets() == {("in", 0): 2}
    with pytest.raises(StreamsError, match="in-0 at offset 1: the record cannot be deserialized: bad bytes"):
        task_of().add("in", 0, [record("bad", offset=1)])


def test_a_dead_letter_has_the_record_and_the_reason() -> None:
    """If this fails, the dead letter topic misses records, or the reason for each."""
    task = task_of(deserialization_handler=log_and_continue, dead_letter_topic="dead")
    task.add("in", 0, [(b"k", b"bad", 7, 3, (("trace", b"1"),))])
    ((topic, partition, key, value, timestamp, headers),) = task.take_results()[0]
    assert (topic, partition, key, value, timestamp) == ("dead", None, b"k", b"bad", 7)
    found = dict(headers)
    assert b"bad bytes" in (found.pop("__streams.errors.stacktrace") or b"")
    assert found == {
        "trace": b"1",
        "__streams.errors.exception": b"ValueError",
        "__streams.errors.message": b"bad bytes",
        "__streams.errors.topic": b"in",
        "__streams.errors.partition": b"0",
        "__streams.errors.offset": b"3",
    }


def test_a_value_that_cannot_be_written() -> None:
    """If this fails, a wrong serde stops an application that was told to go on, or is not named."""
    number = MapValues(function(len))
    task = task_of(number, production_handler=log_and_continue, dead_letter_topic="dead")
    task.add("in", 0, [record("one")])
    task.run(0)
    assert [each[0] for each in task.take_results()[0]] == ["dead"]
    task = task_of(number)
    task.add("in", 0, [record("one", offset=3)])
    with pytest.raises(StreamsError, match="sink, in-0 at offset 3: the value of a record for topic out cannot be"):
        task.run(0)


def test_dead_letters_are_written_before_a_task_ends() -> None:
    """If this fails, the record that stopped an application is not in its dead letter topic."""
    task = task_of(MapValues(function(fails)), dead_letter_topic="dead")
    task.add("in", 0, [record("poison")])
    with pytest.raises(StreamsError, match="processor step-0 failed"):
        task.run(0)
    assert [each[0] for each in task.take_results()[0]] == ["dead"]


def test_topics_and_partitions_are_chosen() -> None:
    """If this fails, records reach other topics or partitions than the user's functions say."""

    def topic(key: Any, value: Any, context: Any) -> str:
        return f"out-{value}-{context.topic}-{context.offset}"

    task = task_of(sink=Sink("sink", ("source",), topic_extractor=function(topic)))
    task.add("in", 0, [record("a", offset=4)])
    task.run(0)
    assert task.take_results()[0][0][0] == "out-a-in-4"

    answers: dict[str, Any] = {"none": None, "one": 2, "all": {2, 0, 1}, "drop": []}

    def partitioner(topic: str, key: Any, value: Any, count: int) -> Any:
        assert (topic, count) == ("out", 3)
        return answers[value]

    sink = Sink("sink", ("source",), "out", partitioner=function(partitioner))
    task = task_of(sink=sink, partitions=lambda topic: 3)
    task.add("in", 0, [record(each, key="k") for each in answers])
    task.run(0)
    # Kafka's murmur2 places b"k" in partition 2 of 3.
    assert [each[1] for each in task.take_results()[0]] == [2, 2, 0, 1, 2]
    assert task.state.dropped_records == 1


class Clock(Step):
    KIND = ""


class _Clock(Processor):
    """Forwards the time of each punctuation."""

    def __init__(self, step: Step) -> None:
        pass

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        context.schedule("10ms", PunctuationType.STREAM_TIME, lambda time: self.tell("stream", time))
        self.wall = context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda time: self.tell("wall", time))
        context.schedule(10, PunctuationType.WALL_CLOCK_TIME, lambda time: self.tell("anchored", time), 3)

    def tell(self, clock: str, time: int) -> None:
        self.context.forward(Record(None, f"{clock} {time} {self.context.record_metadata}", time))

    def process(self, record: Record) -> None:
        if record.value == "cancel":
            self.wall.cancel()
        self.context.commit()
        self.context.forward(record)


operator(Clock)(_Clock)


def test_punctuations() -> None:
    """If this fails, a processor is called at other times than with Kafka Streams."""
    task = task_of(Clock())
    assert not task.punctuate(2)
    assert task.punctuate(9)
    assert values(task) == [b"anchored 9 None"]
    assert task.punctuate(35)
    # Times that were missed are called once. The next ones stay on the grid.
    assert values(task) == [b"wall 35 None", b"anchored 35 None"]
    assert not task.punctuate(39)
    assert task.punctuate(40)
    assert values(task) == [b"wall 40 None"]

    before = task.commit_requested
    task.add("in", 0, [record("a", 5), record("b", 9), record("cancel", 31)])
    task.run(41)
    assert (before, task.commit_requested) == (False, True)
    # The first record begins the stream time, at 0.
    assert values(task) == [b"a", b"stream 5 None", b"b", b"cancel", b"stream 31 None"]
    task.punctuate(70)
    assert values(task) == [b"anchored 70 None"]
    assert not task.punctuate_stream_time()


def test_a_task_that_continues_another_one_leaves_out_its_punctuations() -> None:
    """If this fails, a host that makes a task again for each batch calls its punctuations too often, or never."""
    task = task_of(Clock())
    task.pass_over(35)
    assert task.due_ms == 40
    assert not task.punctuate(39)
    assert task.punctuate(40)
    assert values(task) == [b"wall 40 None"]


def test_internal_topics_have_the_application_in_their_names() -> None:
    """If this fails, two applications write to one repartition topic."""
    builder = TopologyBuilder()
    builder.add_source(Source("source", ("in",)))
    builder.add_repartition_topic(InternalTopic("x-repartition"))
    builder.add_sink(Sink("sink", ("source",), "x-repartition"))
    builder.add_source(Source("again", ("x-repartition",)))
    builder.add_sink(Sink("out", ("again",), "out"))
    topology = builder.build()
    first, second = topology.subtopologies()
    task = build(topology, first, 0, settings())
    task.assign("in", 0)
    task.initialize(0)
    task.add("in", 0, [record("a")])
    task.run(0)
    assert task.take_results()[0][0][0] == "app-x-repartition"
    other = build(topology, second, 0, settings())
    other.assign("app-x-repartition", 0)
    with pytest.raises(LookupError, match="no source of task 1_0 reads topic in"):
        other.assign("in", 0)
    with pytest.raises(LookupError, match="partition in-0 is no input"):
        other.add("in", 0, [])


def test_a_node_without_a_serde_is_named() -> None:
    """If this fails, the first record fails with an error from inside the kernel."""
    builder = TopologyBuilder()
    builder.add_source(Source("source", ("in",), key_serde=Text()))
    topology = builder.build()
    task = build(topology, topology.subtopologies()[0], 0, TaskSettings("app"))
    with pytest.raises(StreamsError, match=r"source has no value serde: give it one, or set default\.value\.serde"):
        task.assign("in", 0)


def test_a_response_may_have_its_own_dead_letters() -> None:
    """If this fails, a handler of the user cannot write to a topic of its choice."""
    letter = ("mine", None, None, b"x", 1, ())
    task = task_of(MapValues(function(fails)), processing_handler=lambda *args: Response(Result.RESUME, (letter,)))
    task.add("in", 0, [record("poison")])
    task.run(0)
    assert task.take_results()[0] == [letter]


def test_the_windows_of_a_key_are_in_its_partition() -> None:
    """If this fails, readers of a windowed topic find the windows of one key in several partitions."""
    windowed = MapValues(function(lambda value: value))
    serde = TimeWindowedSerde(Text(), 10)
    select = SelectKey(function(lambda key, value: Windowed(key, Window(int(value), int(value) + 10))))
    sink = Sink("sink", ("step-1",), "out", key_serde=serde)
    task = task_of(windowed, select, sink=sink, partitions=lambda topic: 3)
    task.add("in", 0, [record(str(start), key="k") for start in range(0, 100, 10)])
    task.run(0)
    # The partition of b"k" alone.
    assert [each[1] for each in task.take_results()[0]] == [2] * 10


def test_a_serde_takes_the_default_inside() -> None:
    """If this fails, windowed keys need a serde although the application has a default."""
    serde: Any = TimeWindowedSerde(None, 10)
    select = SelectKey(function(lambda key, value: Windowed(key, Window(0, 10))))
    task = task_of(select, sink=Sink("sink", ("step-0",), "out", key_serde=serde), partitions=lambda topic: 1)
    task.add("in", 0, [record("v", key="k")])
    task.run(0)
    assert task.take_results()[0][0][2] == b"k" + bytes(8)


def test_a_record_that_the_cluster_refused() -> None:
    """If this fails, the production handler is not asked about errors of the cluster."""
    task = task_of(dead_letter_topic="dead", production_handler=log_and_continue)
    task.add("in", 0, [record("v", offset=3)])
    task.run(0)
    (output,) = task.take_results()[0]
    stays = RefusedRecord("the record is too old", code="INVALID_TIMESTAMP")
    response = task.refused(output, stays)
    assert response.result is Result.RESUME
    ((topic, _, key, value, _, headers),) = response.dead_letters
    assert (topic, key, value) == ("dead", output[2], output[3])
    assert dict(headers)["__streams.errors.message"] == b"the record is too old"
    # The caller writes the letter: it belongs to the commit of the record.
    assert task.take_results() == ([], [])
    assert task.state.dropped_records == 1
    # A letter that is refused has no letter, and a topic that refuses a large value would refuse it again.
    assert task.refused(output, stays, has_letters=False).dead_letters == ()
    ((_, _, _, value, _, _),) = task.refused(output, RefusedRecord("large", code="MESSAGE_TOO_LARGE")).dead_letters
    assert value is None


def test_a_record_that_the_cluster_may_take_later_is_retried() -> None:
    """If this fails, an application ends because the cluster is slow, or begins again for ever."""
    output = ("out", 0, b"k", b"v", 0, ())
    later, never = RefusedRecord("slow", code="NOT_ENOUGH_REPLICAS", retriable=True), RefusedRecord("no")
    assert task_of().refused(output, later).result is Result.RETRY
    assert task_of().refused(output, never).result is Result.FAIL
    always = task_of(production_handler=lambda *_: Result.RETRY)
    assert [always.refused(output, each).result for each in (later, never)] == [Result.RETRY, Result.FAIL]


def test_latencies_and_lateness_are_those_of_kafka_streams() -> None:
    """If this fails, record-e2e-latency and record-lateness show wrong times."""
    task = task_of(Filter(function(lambda key, value: value != "no")), inputs=("in", "other"), max_task_idle_ms=-1)
    task.add("in", 0, [record("a", 10), record("no", 30), record("b", 20)])
    task.add("other", 0, [record("c", 25)])
    task.run(100)
    found = {node: [(each.count, each.total, each.take()) for each in of] for node, of in task.latencies.items()}
    assert found == {"source": [(3, 240, (70, 90)), (1, 75, (75, 75))], "sink": [(3, 245, (75, 90))]}
    # "in" has 10, 30 and 20: the records of a partition keep their order.
    lateness = task.state.lateness
    assert (lateness.count, lateness.total, lateness.take()) == (4, 10, (0, 10))
    assert lateness.take() is None


def test_times_go_on_after_a_restart() -> None:
    """If this fails, records that are too late are processed again after each restart."""
    task = task_of(timestamp_extractor=TimestampExtractor.USE_PARTITION_TIME_ON_INVALID)
    task.restore_metadata("in", 0, CommitMetadata(50, {}).text())
    assert task.state.stream_time_ms == 50
    task.add("in", 0, [record("a", -1), record("b", 40, 1)])
    task.run(0)
    assert [each[4] for each in task.take_results()[0]] == [50, 40]
    assert task.state.stream_time_ms == 50


def test_wrong_punctuations_are_refused() -> None:
    """If this fails, a punctuation without an interval never ends."""
    task = task_of(Clock())
    (context,) = [found for _, found in task._processors.values() if found.node == "step-0"]
    for interval_ms, start_ms in ((0, None), (5, -1)):
        with pytest.raises(ValueError, match=r"at least [01] is allowed"):
            context.schedule(interval_ms, PunctuationType.STREAM_TIME, lambda time: None, start_ms)
    with pytest.raises(TypeError, match="the clock of a punctuation is 'stream-time'; STREAM_TIME and"):
        context.schedule(5, "stream-time", lambda time: None)  # type: ignore[arg-type]


def test_errors_of_processors_at_their_ends() -> None:
    """If this fails, an error of `init` or `close` is lost, or other processors stay open."""

    class Broken(Step):
        KIND = ""

    closed: list[str] = []

    class Fails(Processor):
        def __init__(self, step: Step) -> None:
            pass

        def close(self) -> None:
            closed.append("closed")
            raise ValueError("cannot close")

    operator(Broken)(Fails)
    task = task_of(Broken(), Broken())
    with pytest.raises(StreamsError, match="processor step-1 cannot be closed: cannot close"):
        task.close()
    assert closed == ["closed", "closed"]


def test_errors_outside_of_processors_are_named() -> None:
    """If this fails, an error of a partitioner or of a store ends the task without a place."""

    def partitioner(*args: Any) -> int:
        raise ValueError("no partition")

    sink = Sink("sink", ("source",), "out", partitioner=function(partitioner))
    task = task_of(sink=sink, partitions=lambda topic: 1)
    task.add("in", 0, [record("v", offset=3)])
    with pytest.raises(StreamsError, match="source failed for in-0 at offset 3: ValueError: no partition"):
        task.run(0)

    class Broken:
        def flush(self) -> None:
            raise ValueError("no flush")

    task = task_of()
    task.stores["rows"] = Broken()
    with pytest.raises(StreamsError, match="store rows cannot pass its changes on: no flush"):
        task.flush()


@pytest.mark.parametrize("seed", range(10))
def test_any_cut_of_the_input_has_the_same_results(seed: int) -> None:
    """If this fails, a batch that is processed again after a failure, in other pieces, has other results."""
    chance = random.Random(seed)
    values = [chance.choice(["a", "bb", "poison", "bad"]) for _ in range(40)]
    inputs = [record(value, chance.randrange(-1, 50), offset) for offset, value in enumerate(values)]

    def results(pieces: list[int], limit: int) -> Any:
        task = task_of(
            Clock(),
            FlatMapValues(function(lambda value: [value, value])),
            MapValues(function(fails)),
            timestamp_extractor=TimestampExtractor.LOG_AND_SKIP_ON_INVALID,
            deserialization_handler=log_and_continue,
            processing_handler=log_and_continue,
        )
        waiting = list(inputs)
        for size in pieces:
            task.add("in", 0, waiting[:size])
            del waiting[:size]
            while task.run(0, limit):
                pass
        return task.take_results(), task.offsets(), task.metadata(), task.state.dropped_records

    whole = results([40], 1 << 62)
    assert whole[1] == {("in", 0): 40}
    assert results([1] * 40, 1) == whole
    assert results([7, 1, 20, 12], 3) == whole
