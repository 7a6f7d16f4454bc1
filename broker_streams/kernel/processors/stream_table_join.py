"""Joins of a stream with a table or a global table: each record with the row of its key."""

from __future__ import annotations

from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.kernel.processors.joiners import joiner_with_key
from broker_streams.kernel.value_getters import open_getter
from broker_streams.plan.steps import joins as steps
from broker_streams.records import Record


@operator(steps.StreamTableJoin)
def stream_table_join(step: steps.StreamTableJoin) -> Processor:
    return StreamTableJoin(step) if step.buffer is None else _BufferedJoin(step, step.buffer)


class StreamTableJoin(Processor):
    """Rows of a versioned table are those at the time of the record."""

    def __init__(self, step: steps.StreamTableJoin) -> None:
        self._step = step
        self._keeps_unmatched = step.keeps_unmatched
        self._joined = joiner_with_key(step.joiner, step.with_key)
        self._selector = None if step.key_selector is None else step.key_selector.call

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._getter = open_getter(self._step.table, context)
        self._get, self._get_as_of = self._getter.get, self._getter.get_as_of
        self._forward = context.forward_all

    def process(self, record: Record) -> None:
        key = record.key if self._selector is None else self._selector(record.key, record.value)
        if record.value is None or (key is None and not self._keeps_unmatched):
            self.context.drop()
        else:
            self._take(record, key)

    def _take(self, record: Record, key: Any) -> None:
        self._join(record, key)

    def _join(self, record: Record, key: Any) -> None:
        """`key` None: no row (KIP-962)."""
        if key is None:
            row = None
        elif self._get_as_of is None:
            row = self._get(key)
        else:
            row = self._get_as_of(key, record.timestamp)
        if row is not None or self._keeps_unmatched:
            joined = self._joined(record.key, record.value, None if row is None else row.value)
            self._forward(record.with_value(joined))

    def close(self) -> None:
        self._getter.close()


class _BufferedJoin(StreamTableJoin):
    """Records wait until the stream is `grace` later than they, so that the table has time to get its rows."""

    def __init__(self, step: steps.StreamTableJoin, buffer: str) -> None:
        super().__init__(step)
        self._name = buffer

    def init(self, context: ProcessorContext) -> None:
        """Raises ValueError: the table is not versioned."""
        super().init(context)
        if self._get_as_of is None:
            raise ValueError(f"{context.node} has a grace period, which needs a versioned table")
        self._buffer = context.state_store(self._name)

    def _take(self, record: Record, key: Any) -> None:
        # A record without a key waits for no row. Kafka ends the application with an error.
        if key is None or not self._buffer.put(record):
            self._join(record, key)
        else:
            self._buffer.evict(self._emit)

    def _emit(self, record: Record) -> None:
        self._join(record, record.key)
