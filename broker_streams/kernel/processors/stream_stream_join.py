"""Joins of two streams.

Each side keeps its records in a window store and looks for partners in the store of the other side. In left and outer
joins, a record without a partner waits in a store that both sides share, and is passed on when the stream time has
passed the end of its window (KIP-633): a later record might still be its partner.
"""

from __future__ import annotations

from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.kernel.processors.joiners import joiner_with_key
from broker_streams.plan.steps import joins as steps
from broker_streams.records import Record


@operator(steps.JoinWindow)
class JoinWindow(Processor):
    def __init__(self, step: steps.JoinWindow) -> None:
        self._step = step

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._forward = context.forward_all
        self._put = context.state_store(self._step.store).put

    def process(self, record: Record) -> None:
        # The partners come first: a record of a stream that is joined with itself is not its own partner twice.
        self._forward(record)
        if record.key is not None:
            self._put(record.key, record.value, record.timestamp)


class _Times:
    """Times that the two sides of a join share."""

    def __init__(self) -> None:
        # The latest timestamp that one of the sides has seen.
        self.stream_time_ms = -1
        # Not later than the first record that waits; None: none was put in since the last look.
        self.first_ms: int | None = None
        # The host's clock at which waiting records may be looked through again.
        self.next_look_ms = 0


@operator(steps.StreamStreamJoin)
class StreamStreamJoin(Processor):
    def __init__(self, step: steps.StreamStreamJoin) -> None:
        self._step = step
        self._is_left = step.is_left
        self._keeps_unmatched = step.keeps_unmatched
        self._joined = joiner_with_key(step.joiner, step.with_key)
        # From the view of this side.
        self._before_ms, self._after_ms = step.before_ms, step.after_ms
        if not step.is_left:
            self._before_ms, self._after_ms = step.after_ms, step.before_ms

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        step = self._step
        self._fetch = context.state_store(step.other_store).fetch_range
        self._times = _Times()
        self._outer: Any = None
        if step.outer_store is not None:
            self._outer = context.state_store(step.outer_store)
            self._times = context.task.shared.setdefault(step.outer_store, self._times)

    def _value(self, key: Any, value: Any, other: Any) -> Any:
        return self._joined(key, value, other) if self._is_left else self._joined(key, other, value)

    def process(self, record: Record) -> None:
        times, key, value, timestamp = self._times, record.key, record.value, record.timestamp
        times.stream_time_ms = max(times.stream_time_ms, timestamp)
        if key is None and value is not None and self._keeps_unmatched:
            # It can have no partner (KIP-962).
            self.context.forward_all(record.with_value(self._value(None, value, None)))
            return
        if key is None or value is None:
            self.context.drop()
            return
        outer = self._outer
        if outer is not None and timestamp == times.stream_time_ms:
            self._pass_on_unmatched(record)
        until_ms = max(0, timestamp + self._after_ms)
        is_matched = False
        for other_ms, other in self._fetch(key, max(0, timestamp - self._before_ms), until_ms):
            is_matched = True
            if outer is not None:
                outer.remove_if_present(key, other_ms, not self._is_left)
            joined = self._value(key, value, other)
            self.context.forward(Record(key, joined, max(timestamp, other_ms), record.headers))
        if is_matched or not self._keeps_unmatched:
            return
        # The window of a late record is over: a partner that is late as well is expired in its store.
        if outer is None or until_ms < times.stream_time_ms:
            self.context.forward_all(record.with_value(self._value(key, value, None)))
            return
        times.first_ms = timestamp if times.first_ms is None else min(times.first_ms, timestamp)
        outer.put(key, timestamp, self._is_left, value)

    def _may_look(self) -> bool:
        """True if a waiting record may have lost its window. A look costs a walk over the store, so the host's clock
        bounds how often it happens.
        """
        times, task = self._times, self.context.task
        wait_ms = self._after_ms + self._step.grace_ms
        if times.first_ms is None:
            # Kafka adds the wait to the largest int64 here: the sum overflows, and it looks unless the wait is 0.
            if wait_ms <= 0:
                return False
        elif times.first_ms + wait_ms >= times.stream_time_ms:
            return False
        if task.system_time_ms < times.next_look_ms:
            return False
        times.next_look_ms = task.system_time_ms + task.join_emit_interval_ms
        return True

    def _pass_on_unmatched(self, record: Record) -> None:
        """Pass on the waiting records whose window is over, with the headers of the present record as in Kafka."""
        if not self._may_look():
            return
        times, outer, step = self._times, self._outer, self._step
        times.first_ms = None
        passed: tuple[Any, int, bool] | None = None
        left_is_open = right_is_open = False
        # Ordered by time. Both sides wait for different times, so each side ends at its first record that waits on.
        for key, timestamp, is_left, value in outer.all():
            times.first_ms = timestamp
            if left_is_open and right_is_open:
                break
            wait_ms = (step.after_ms if is_left else step.before_ms) + step.grace_ms
            if timestamp + wait_ms >= times.stream_time_ms:
                if is_left:
                    left_is_open = True
                else:
                    right_is_open = True
                continue
            joined = self._joined(key, value, None) if is_left else self._joined(key, None, value)
            self.context.forward(Record(key, joined, timestamp, record.headers))
            # Records of one key, time and side are one row. It goes after the last of them: a failure before that
            # leaves all of them for the next try.
            if passed is not None and passed != (key, timestamp, is_left):
                outer.remove(*passed)
            passed = key, timestamp, is_left
        if passed is not None:
            outer.remove(*passed)

    def close(self) -> None:
        if self._step.outer_store is not None:
            self.context.task.shared.pop(self._step.outer_store, None)


@operator(steps.SelfJoin)
class SelfJoin(Processor):
    """The results are those of the two sides of a join, in the same order: the record as left one with all partners,
    then as right one, with itself among them. As in Kafka, a record joins itself even if the window has no time 0.
    """

    def __init__(self, step: steps.SelfJoin) -> None:
        self._step = step
        self._joined = joiner_with_key(step.joiner, step.with_key)
        self._stream_time_ms = -1

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._fetch = context.state_store(self._step.store).fetch_range

    def process(self, record: Record) -> None:
        step, key, value, timestamp = self._step, record.key, record.value, record.timestamp
        if key is None or value is None:
            self.context.drop()
            return
        forward, joined = self.context.forward, self._joined
        itself = record.with_value(joined(key, value, value))
        self._stream_time_ms = max(self._stream_time_ms, timestamp)
        # A store would not have kept a record that is older.
        with_itself = timestamp > self._stream_time_ms - step.retention_ms + 1
        for other_ms, other in self._fetch(key, max(0, timestamp - step.before_ms), max(0, timestamp + step.after_ms)):
            forward(Record(key, joined(key, value, other), max(timestamp, other_ms), record.headers))
        for other_ms, other in self._fetch(key, max(0, timestamp - step.after_ms), max(0, timestamp + step.before_ms)):
            if with_itself and other_ms > timestamp:
                with_itself = False
                forward(itself)
            forward(Record(key, joined(key, other, value), max(timestamp, other_ms), record.headers))
        if with_itself:
            forward(itself)
