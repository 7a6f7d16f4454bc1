"""One aggregate for each key: `count`, `reduce` and `aggregate` of a grouped stream, and of each one of a cogroup."""

from __future__ import annotations

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.kernel.processors.folds import calls
from broker_streams.kernel.processors.table import TableRows
from broker_streams.plan.steps import aggregates as steps
from broker_streams.records import Record


@operator(steps.Aggregate)
class Aggregate(Processor):
    """A row without an aggregate begins with the initial one. A result has the largest timestamp of its records."""

    def __init__(self, step: steps.Aggregate) -> None:
        self._store = step.store
        self._initial, self._add, _ = calls(step.fold)
        self._send_old = step.send_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        rows = TableRows(context, self._store, self._send_old)
        self._get, self._put = rows.get, rows.put

    def process(self, record: Record) -> None:
        key, value, timestamp = record.key, record.value, record.timestamp
        if key is None or value is None:
            self.context.drop()
            return
        row = self._get(key)
        if row is None:
            old = self._initial()
        else:
            old = row[0]
            if row[1] > timestamp:
                timestamp = row[1]
        self._put(record, self._add(key, value, old), old, timestamp)
