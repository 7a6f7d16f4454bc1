"""The processor of `suppress`."""

from __future__ import annotations

from typing import Final

from broker_streams.kernel.errors import StreamsError
from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.plan.steps import suppression as steps
from broker_streams.records import Record

_NO_BOUND: Final = (1 << 63) - 1


@operator(steps.Suppress)
class Suppress(Processor):
    """Its stream time is that of its own records."""

    def __init__(self, step: steps.Suppress) -> None:
        self._step = step
        self._stream_time_ms = -1
        self._max_records = _NO_BOUND if step.max_records is None else step.max_records
        self._max_bytes = _NO_BOUND if step.max_bytes is None else step.max_bytes

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._buffer = context.state_store(self._step.store)

    def process(self, record: Record) -> None:
        """Raises StreamsError: the buffer is full, and may not emit early."""
        step, buffer = self._step, self._buffer
        if record.timestamp > self._stream_time_ms:
            self._stream_time_ms = record.timestamp
        buffer.put(record.key.window.end_ms if step.is_final else record.timestamp, record.key, record.value)
        expired_ms = self._stream_time_ms - step.wait_ms
        if buffer.min_timestamp <= expired_ms:
            buffer.evict_while(lambda: buffer.min_timestamp <= expired_ms, self._emit)
        if self._is_full():
            if not step.emits_early:
                raise StreamsError(
                    f"{self.context.node} buffer exceeded its max capacity. Currently"
                    f" [{buffer.num_records}/{self._max_records}] records and"
                    f" [{buffer.size_bytes}/{self._max_bytes}] bytes."
                )
            buffer.evict_while(self._is_full, self._emit)

    def _is_full(self) -> bool:
        buffer = self._buffer
        return bool(buffer.num_records > self._max_records or buffer.size_bytes > self._max_bytes)

    def _emit(self, record: Record) -> None:
        if record.value.new is not None or not self._step.is_final:
            self.context.forward(record)
