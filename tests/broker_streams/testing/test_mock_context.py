"""The context for tests of one processor."""

from __future__ import annotations

import pytest

from broker_streams import (
    LONG,
    STRING,
    MockProcessorContext,
    Processor,
    ProcessorContext,
    PunctuationType,
    Record,
    Store,
    StoreKind,
)


class Counts(Processor):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.counts = context.state_store("counts")
        self.ticks = context.schedule(10, PunctuationType.WALL_CLOCK_TIME, self.tick, 5)

    def tick(self, time_ms: int) -> None:
        self.context.forward(Record("tick", self.context.current_system_time_ms(), time_ms), "ticks")
        self.context.commit()

    def process(self, record: Record) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(record.with_value((count, self.context.record_metadata)))
        if self.context.current_stream_time_ms() > 100:
            self.ticks.cancel()


def test_a_processor_is_tested_alone() -> None:
    """If this fails, a test of one processor needs a topology around it."""
    context = MockProcessorContext(
        {"application.id": "app"}, [Store("counts", StoreKind.KEY_VALUE, STRING, LONG)], (1, 2)
    )
    assert (context.application_id, context.task_id) == ("app", (1, 2))
    context.set_record_metadata("in", 3, 4)
    processor = Counts()
    processor.init(context)
    processor.process(Record("a", "x", 7))
    processor.process(Record("a", "y", 8))
    assert [each.record for each in context.forwarded()] == [
        Record("a", (1, ("in", 3, 4)), 7),
        Record("a", (2, ("in", 3, 4)), 8),
    ]
    assert context.state_store("counts").get("a") == 2
    assert [(store, key) for store, key, *_ in context.changes] == [("counts", b"a")] * 2
    with pytest.raises(LookupError, match="no access to store 'other'"):
        context.state_store("other")


def test_a_test_calls_punctuations() -> None:
    """If this fails, a test cannot see what a processor scheduled, or whether it cancelled it."""
    context = MockProcessorContext(stores=[Store("counts", StoreKind.KEY_VALUE, STRING, LONG)])
    processor = Counts()
    processor.init(context)
    (punctuation,) = context.punctuations
    assert (punctuation.interval_ms, punctuation.kind, punctuation.start_ms, punctuation.is_cancelled) == (
        10,
        PunctuationType.WALL_CLOCK_TIME,
        5,
        False,
    )
    context.set_current_system_time_ms(77)
    punctuation.callback(15)
    assert context.committed
    context.reset_commit()
    processor.process(Record("a", "x", 7))
    assert [each.record.key for each in context.forwarded("ticks")] == ["tick", "a"]
    assert [each.record.key for each in context.forwarded("others")] == ["a"]
    context.reset_forwards()
    context.set_current_stream_time_ms(101)
    processor.process(Record("a", "x", 7))
    assert len(context.forwarded()) == 1
    assert (context.committed, punctuation.is_cancelled) == (False, True)
