"""Joins of two tables by their key: a processor for each side, and the merge of their results."""

from __future__ import annotations

from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.kernel.processors.table import TableRows
from broker_streams.kernel.value_getters import open_getter
from broker_streams.plan.steps import table_joins as steps
from broker_streams.records import Change, Record


@operator(steps.TableJoinSide)
class TableJoinSide(Processor):
    """The result has the later timestamp of both rows."""

    def __init__(self, step: steps.TableJoinSide) -> None:
        self._step = step
        self._joiner = step.joiner.call
        self._is_right = step.is_right

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._getter = open_getter(self._step.other, context)

    def process(self, record: Record) -> None:
        step = self._step
        key = record.key
        new, old, is_latest = record.value
        if key is None or (step.reads_versions and not is_latest):
            self.context.drop()
            return
        row = self._getter.get(key)
        timestamp = record.timestamp
        if row is None:
            if step.needs_other or (new is None and old is None):
                return
            other = None
        else:
            other, other_timestamp = row
            timestamp = max(timestamp, other_timestamp)
        # Without `needs_this`, the other row alone has a result.
        is_alone = other is not None and not step.needs_this
        joined = self._joined(new, other) if new is not None or is_alone else None
        joined_old = None
        if step.send_old_values and (old is not None or is_alone):
            joined_old = self._joined(old, other)
        self.context.forward(Record(key, Change(joined, joined_old, is_latest), timestamp, record.headers))

    def _joined(self, this: Any, other: Any) -> Any:
        return self._joiner(other, this) if self._is_right else self._joiner(this, other)

    def close(self) -> None:
        self._getter.close()


@operator(steps.TableJoinMerge)
class TableJoinMerge(Processor):
    def __init__(self, step: steps.TableJoinMerge) -> None:
        self._step = step
        self._rows: TableRows | None = None

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        if self._step.store is not None:
            self._rows = TableRows(context, self._step.store, self._step.send_old_values)

    def process(self, record: Record) -> None:
        new, old, is_latest = record.value
        if self._rows is not None:
            self._rows.put(record, new, old, record.timestamp)
        elif self._step.send_old_values:
            self.context.forward_all(record)
        else:
            self.context.forward_all(record.with_value(Change(new, None, is_latest)))
