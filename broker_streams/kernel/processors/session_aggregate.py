"""Aggregations in sessions. A record joins the sessions around it, which are merged to one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processors.window_results import WindowResults
from broker_streams.plan.steps import windows as steps
from broker_streams.records import Change, Record, Window, Windowed


@operator(steps.SessionAggregate)
class SessionAggregate(WindowResults):
    """The timestamp of a result is the end of its session. Results at updates have no headers, as in Kafka."""

    def __init__(self, step: steps.SessionAggregate) -> None:
        super().__init__(step)
        self._gap_ms = step.windows.gap_ms
        self._grace_ms = step.windows.grace_ms

    def process(self, record: Record) -> None:
        key, timestamp, gap_ms = record.key, record.timestamp, self._gap_ms
        if key is None:
            self.context.drop()
            return
        if timestamp > self._stream_time_ms:
            self._stream_time_ms = timestamp
        close_ms = self._stream_time_ms - self._grace_ms - gap_ms
        aggregate = self._initial()
        start_ms = end_ms = timestamp
        merged = list(self._store.find_sessions(key, timestamp - gap_ms, timestamp + gap_ms))
        for (_, session), value in merged:
            aggregate = self._merge(key, aggregate, value)
            start_ms, end_ms = min(start_ms, session.start_ms), max(end_ms, session.end_ms)
        if end_ms < close_ms:
            self.context.drop()
        else:
            # A session of this one time is replaced, and not removed before.
            if start_ms != end_ms:
                for session, value in merged:
                    self._store.remove(session)
                    self._update(session, value, None)
            aggregate = self._add(key, record.value, aggregate)
            session = Windowed(key, Window(start_ms, end_ms))
            self._store.put(session, aggregate)
            self._update(session, None, aggregate)
        if self._emits_closed:
            self._emit_closed(record, close_ms)

    def _update(self, session: Windowed, old: Any, new: Any) -> None:
        if self._updates:
            self._forward(Record(session, Change(new, old if self._send_old else None), session.window.end_ms))

    def _closed(self, close_ms: int) -> Iterable[tuple[Windowed, Any, int]] | None:
        """The end of a session is part of it, so a session is closed if it ends before `close_ms`."""
        last_ms, first_ms = close_ms - 1, max(0, self._emitted_ms)
        if last_ms < first_ms:
            return None
        found = self._store.find_sessions_by_end(first_ms, last_ms)
        return [(session, value, session.window.end_ms) for session, value in found]
