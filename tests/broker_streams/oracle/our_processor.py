"""Users' own classes in a spec: a processor that updates a row of its store for each record, and passes rows on in
punctuations; and a transformer of the values of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from broker_streams import Processor, ProcessorContext, PunctuationType, Record, ValueAndTimestamp
from broker_streams.kernel.stores.key_value import TimestampedKeyValueStore
from tests.broker_streams.oracle.functions import Expression, evaluate

_KINDS = {"stream_time": PunctuationType.STREAM_TIME, "wall_clock": PunctuationType.WALL_CLOCK_TIME}


def supplier(call: Mapping[str, Any]) -> Callable[[], Processor]:
    return lambda: SpecProcessor(call)


class SpecProcessor(Processor):
    """See `process` in spec.py."""

    def __init__(self, call: Mapping[str, Any]) -> None:
        self._call = call
        self._store: Any = None

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        for name in self._call["stores"][:1]:
            self._store = context.state_store(name)
        for each in self._call.get("punctuate", ()):
            context.schedule(each["interval_ms"], _KINDS[each["type"]], self._punctuation(each["action"]))

    def _punctuation(self, action: str) -> Callable[[int], None]:
        def punctuate(time_ms: int) -> None:
            if action == "tick":
                self.context.forward(Record("tick", str(time_ms), max(0, time_ms)))
                return
            # Stores of other kinds have no `delete`, and their rows are not passed on.
            rows = list(self._store.all()) if hasattr(self._store, "put_if_absent") else []
            for key, value in rows:
                found = value.value if isinstance(value, ValueAndTimestamp) else value
                self.context.forward(Record(key, found, max(0, time_ms)))
                if action == "emit_and_clear":
                    self._store.delete(key)

        return punctuate

    def process(self, record: Record) -> None:
        stored = None
        if self._store is not None and record.key is not None:
            stored = self._updated(record)
        self.context.forward(record.with_value(evaluate(self._call["emit"], record.key, record.value, stored)))

    def _updated(self, record: Record) -> Any:
        """The new row."""
        key, store = record.key, self._store

        def changed(old: Any) -> Any:
            return evaluate(self._call["update"], key, record.value, old)

        if hasattr(store, "fetch_range"):
            start_ms = record.timestamp - record.timestamp % self._call.get("step_ms", 10)
            new = changed(store.fetch(key, start_ms))
            store.put(key, new, start_ms)
        elif hasattr(store, "get_as_of"):
            found = store.get(key)
            new = changed(None if found is None else found.value)
            store.put(key, new, record.timestamp)
        else:
            row = store.get(key)
            new = changed(row.value if isinstance(row, ValueAndTimestamp) else row)
            has_times = isinstance(store, TimestampedKeyValueStore) and new is not None
            store.put(key, ValueAndTimestamp(new, record.timestamp) if has_times else new)
        return new


class Transformer:
    """See `transform_values` in spec.py."""

    def __init__(self, to: Expression) -> None:
        self._to = to

    def init(self, context: ProcessorContext) -> None:
        """Nothing is kept."""

    def transform(self, key: Any, value: Any) -> Any:
        return evaluate(self._to, key, value)

    def close(self) -> None:
        """Nothing is open."""
