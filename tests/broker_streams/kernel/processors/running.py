"""Runs one processor on real stores: the records that it passes on, and what its stores write to changelogs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import broker_streams.kernel.processors as _processors
from broker_streams.kernel.operators import processor_of
from broker_streams.kernel.processor import ProcessorContext
from broker_streams.plan.functions import Function
from broker_streams.plan.steps import Step
from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import NO_HEADERS, Change, Headers, Record
from tests.broker_streams.kernel.stores.support import TEXT, Opened

# The import registers the processors of all steps.
assert _processors is not None

Passed = tuple[Any, Any, int]


def function(call: Callable[..., Any]) -> Function:
    return Function("node.function", call)


def rows_of(name: str, **options: Any) -> Store:
    return Store(name, StoreKind.TIMESTAMPED_KEY_VALUE, **{"value_serde": TEXT, **options})


class _Opened(Opened):
    """Keeps the headers of changelog records, too."""

    def __init__(self, *stores: Store, cache_bytes: int = 0) -> None:
        self.logged_headers: list[Headers] = []
        super().__init__(*stores, cache_bytes=cache_bytes)

    def _changed(self, store: str, key: bytes, value: bytes | None, timestamp: int, headers: Headers) -> None:
        self.logged_headers.append(headers)
        self.log.append((store, key, value, timestamp))


class Running:
    """A step below an input topic. `out` holds (key, value, timestamp) of all that it passes on."""

    def __init__(
        self, step: Step, *stores: Store, cache_bytes: int = 0, shared: Mapping[str, Any] | None = None
    ) -> None:
        self.opened = _Opened(*(stores or (rows_of("unused"),)), cache_bytes=cache_bytes)
        self.out: list[Passed] = []
        self.headers: list[Headers] = []
        self.processor = processor_of(step)
        self.context = ProcessorContext(
            "node",
            self.opened.task,
            {"child": self._take},
            {**self.opened.stores, **(shared or {})},
            self._schedule,
            lambda: None,
        )
        self.processor.init(self.context)

    def _take(self, record: Record) -> None:
        assert record.timestamp == self.opened.task.timestamp, "stores below see another timestamp"
        self.out.append((record.key, record.value, record.timestamp))
        self.headers.append(record.headers)

    def _schedule(self, *args: Any) -> Any:
        raise AssertionError("nothing is scheduled")

    def put(self, key: Any, value: Any, timestamp: int, headers: Headers = NO_HEADERS) -> list[Passed]:
        """Process a record; return what it passed on."""
        self.opened.at(timestamp, headers)
        before = len(self.out)
        self.processor.process(Record(key, value, timestamp, headers))
        return self.out[before:]

    def change(self, key: Any, new: Any, old: Any, timestamp: int, is_latest: bool = True) -> list[Passed]:
        return self.put(key, Change(new, old, is_latest), timestamp)

    @property
    def dropped(self) -> int:
        return self.opened.task.dropped_records
