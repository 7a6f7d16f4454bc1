"""One aggregate for each key: `count`, `reduce` and `aggregate` of a grouped stream, and of each one of a cogroup."""

from __future__ import annotations

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import ProcessorContext
from broker_streams.kernel.processors.folds import calls
from broker_streams.kernel.processors.key_fold import KeyFold
from broker_streams.kernel.processors.table import TableRows
from broker_streams.kernel.stores.key_value import TimestampedKeyValueStore
from broker_streams.plan.steps import aggregates as steps


@operator(steps.Aggregate)
def aggregate(step: steps.Aggregate) -> KeyFold:
    return KeyFold(Aggregate(step))


class Aggregate:
    """The parts of a step and, after `init`, of its store that KeyFold needs. A row without an aggregate begins with
    the initial one. A result has the largest timestamp of its records.
    """

    def __init__(self, step: steps.Aggregate) -> None:
        self._store, self._send_old = step.store, step.send_old_values
        self.initial, self.add, _ = calls(step.fold)
        self.counts = isinstance(step.fold, steps.Count)

    def init(self, context: ProcessorContext) -> None:
        """Raises LookupError: the store is not connected to this processor."""
        rows = TableRows(context, self._store, self._send_old)
        self.get, self.put = rows.get, rows.put
        store = context.state_store(self._store)
        # The parts of a store whose rows are updated without a call of the store for each record, or None.
        self.direct = store.direct() if isinstance(store, TimestampedKeyValueStore) else None
