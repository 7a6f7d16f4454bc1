"""Processors of tables: sources, operations on rows, and aggregations of groups of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_streams.kernel.operators import operator
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.kernel.stores.versioned import IS_LATEST, NOT_PUT
from broker_streams.kernel.value_getters import SilentContext
from broker_streams.plan.steps import tables as steps
from broker_streams.records import Change, Record, ValueAndTimestamp


class TableRows:
    """The store of a table, and how changes of its rows are passed on: when they leave the cache, or at once.

    `send_old_values` False: changes have no old values.
    """

    __slots__ = ("_caches", "_forward", "_is_versioned", "_put", "_send_old_values", "get")

    def __init__(self, context: ProcessorContext, name: str, send_old_values: bool) -> None:
        store = context.state_store(name)
        # The row as ValueAndTimestamp or VersionedRecord, or None.
        self.get: Callable[[Any], Any] = store.get
        self._put = store.put
        self._is_versioned = hasattr(store, "get_as_of")
        self._forward = context.forward_stamped
        self._send_old_values = send_old_values
        self._caches = store.set_flush_listener(self._forward, send_old_values)

    def value(self, key: Any) -> Any:
        row = self.get(key)
        return None if row is None else row[0]

    def put(self, record: Record, new: Any, old: Any, timestamp: int) -> None:
        """Set the row of a record's key, and pass the change on with `timestamp`."""
        key = record.key
        is_latest = True
        if self._is_versioned:
            valid_to = self._put(key, new, timestamp)
            if valid_to == NOT_PUT:
                return
            is_latest = valid_to == IS_LATEST
        else:
            self._put(key, None if new is None else ValueAndTimestamp(new, timestamp))
        if not self._caches:
            change = Change(new, old if self._send_old_values else None, is_latest)
            self._forward(Record(key, change, timestamp, record.headers))


@operator(steps.TableSource)
def table_source(step: steps.TableSource) -> Processor:
    return _PassingSource() if step.store is None else _StoringSource(step.store, step.send_old_values)


class _PassingSource(Processor):
    def process(self, record: Record) -> None:
        if record.key is None:
            self.context.drop()
        else:
            self.context.forward_all(record.with_value(Change(record.value, None)))


class _StoringSource(Processor):
    """A record that is older than its row replaces it, unless the store is versioned."""

    def __init__(self, store: str, send_old_values: bool) -> None:
        self._store = store
        self._send_old_values = send_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._rows = TableRows(context, self._store, self._send_old_values)

    def process(self, record: Record) -> None:
        key = record.key
        if key is None:
            self.context.drop()
            return
        # The read fills the cache also where old values are not asked for, as in Kafka.
        old = self._rows.value(key)
        self._rows.put(record, record.value, old, record.timestamp)


class _Computing(Processor):
    """A table that is computed from its parent, with or without a store."""

    def __init__(self, step: Any) -> None:
        self._store = step.store
        self._send_old_values = step.send_old_values
        self._rows: TableRows | None = None

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        if self._store is not None:
            self._rows = TableRows(context, self._store, self._send_old_values)

    def _compute(self, key: Any, value: Any) -> Any:
        raise NotImplementedError

    def process(self, record: Record) -> None:
        key = record.key
        new, old, is_latest = record.value
        self._pass_on(record, self._compute(key, new), self._old(key, old), is_latest)

    def _old(self, key: Any, old: Any) -> Any:
        if not self._send_old_values:
            return None
        return self._compute(key, old) if self._rows is None else self._rows.value(key)

    def _pass_on(self, record: Record, new: Any, old: Any, is_latest: bool) -> None:
        if self._rows is None:
            self.context.forward_all(record.with_value(Change(new, old, is_latest)))
        else:
            self._rows.put(record, new, old, record.timestamp)


@operator(steps.TableFilter)
class TableFilter(_Computing):
    def __init__(self, step: steps.TableFilter) -> None:
        super().__init__(step)
        self._predicate = step.predicate.call
        self._negate = step.negate
        # A deletion of a row that was not there is no change, except among versions.
        self._drops_empty = step.send_old_values and not step.reads_versions

    def _compute(self, key: Any, value: Any) -> Any:
        return value if value is not None and bool(self._predicate(key, value)) is not self._negate else None

    def _pass_on(self, record: Record, new: Any, old: Any, is_latest: bool) -> None:
        if new is not None or old is not None or not self._drops_empty:
            super()._pass_on(record, new, old, is_latest)


@operator(steps.TableMapValues)
class TableMapValues(_Computing):
    def __init__(self, step: steps.TableMapValues) -> None:
        super().__init__(step)
        self._mapper = step.mapper.call
        self._with_key = step.with_key

    def _compute(self, key: Any, value: Any) -> Any:
        if value is None:
            return None
        return self._mapper(key, value) if self._with_key else self._mapper(value)


@operator(steps.TableTransformValues)
class TableTransformValues(_Computing):
    def __init__(self, step: steps.TableTransformValues) -> None:
        super().__init__(step)
        self._supplier = step.supplier.call

    def init(self, context: ProcessorContext) -> None:
        self._transformer = self._supplier()
        self._transformer.init(SilentContext(context))
        super().init(context)

    def _compute(self, key: Any, value: Any) -> Any:
        return self._transformer.transform(key, value)

    def close(self) -> None:
        self._transformer.close()


@operator(steps.TableGroup)
class TableGroup(Processor):
    def __init__(self, step: steps.TableGroup) -> None:
        self._selector = step.selector.call
        self._reads_versions = step.reads_versions

    def process(self, record: Record) -> None:
        """Raises ValueError: the row has no key."""
        if record.key is None:
            raise ValueError("a row that is grouped has no key")
        new, old, is_latest = record.value
        if self._reads_versions and not is_latest:
            return
        added, removed = self._selected(record.key, new), self._selected(record.key, old)
        forward = self.context.forward_all
        is_split = self.context.task.splits_changes
        if added is not None and removed is not None and added[0] == removed[0] and not is_split:
            change = Change(added[1], removed[1], is_latest)
            forward(Record(removed[0], change, record.timestamp, record.headers))
            return
        if removed is not None:
            forward(Record(removed[0], Change(None, removed[1], is_latest), record.timestamp, record.headers))
        if added is not None:
            forward(Record(added[0], Change(added[1], None, is_latest), record.timestamp, record.headers))

    def _selected(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        """The pair under which a row is aggregated; None: it is not. Raises TypeError: it is no pair."""
        if value is None:
            return None
        found = self._selector(key, value)
        if found is None:
            return None
        try:
            group_key, group_value = found
        except (TypeError, ValueError):
            raise TypeError(f"a selector of group_by returned {found!r}; it returns (key, value)") from None
        return None if group_key is None or group_value is None else (group_key, group_value)


class _Aggregating(Processor):
    """An aggregate of the rows of a group: old values leave it first, then new ones come in."""

    def __init__(self, step: Any) -> None:
        self._store = step.store
        self._send_old_values = step.send_old_values

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._rows = TableRows(context, self._store, self._send_old_values)

    def _added(self, key: Any, value: Any, aggregate: Any) -> Any:
        """`aggregate` None: the group is empty."""
        raise NotImplementedError

    def _removed(self, key: Any, value: Any, aggregate: Any) -> Any:
        raise NotImplementedError

    def process(self, record: Record) -> None:
        """Raises ValueError: the group has no key."""
        key = record.key
        if key is None:
            raise ValueError(f"a row that is aggregated in store {self._store} has no key")
        new, old, _ = record.value
        row = self._rows.get(key)
        aggregate = before = None if row is None else row[0]
        timestamp = record.timestamp
        if old is not None and before is not None:
            aggregate = self._removed(key, old, before)
            timestamp = max(timestamp, row[1])
        if new is not None:
            if self._takes_time(row, aggregate):
                timestamp = max(timestamp, row[1])
            aggregate = self._added(key, new, aggregate)
        self._rows.put(record, aggregate, before, timestamp)

    def _takes_time(self, row: Any, aggregate: Any) -> bool:
        """Whether an addition keeps the timestamp of the row, if that is later."""
        return row is not None


@operator(steps.TableAggregate)
class TableAggregate(_Aggregating):
    def __init__(self, step: steps.TableAggregate) -> None:
        super().__init__(step)
        self._initializer = step.initializer.call
        self._adder = step.adder.call
        self._subtractor = step.subtractor.call

    def _added(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self._adder(key, value, self._initializer() if aggregate is None else aggregate)

    def _removed(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self._subtractor(key, value, aggregate)


@operator(steps.TableCount)
class TableCount(_Aggregating):
    def _added(self, key: Any, value: Any, aggregate: Any) -> Any:
        return 1 if aggregate is None else aggregate + 1

    def _removed(self, key: Any, value: Any, aggregate: Any) -> Any:
        return aggregate - 1


@operator(steps.TableReduce)
class TableReduce(_Aggregating):
    """The first value of a group is its aggregate, with its own timestamp."""

    def __init__(self, step: steps.TableReduce) -> None:
        super().__init__(step)
        self._adder = step.adder.call
        self._subtractor = step.subtractor.call

    def _added(self, key: Any, value: Any, aggregate: Any) -> Any:
        return value if aggregate is None else self._adder(aggregate, value)

    def _removed(self, key: Any, value: Any, aggregate: Any) -> Any:
        return self._subtractor(aggregate, value)

    def _takes_time(self, row: Any, aggregate: Any) -> bool:
        return aggregate is not None
