"""MockProcessorContext: tests one processor of a user without a topology.

    context = MockProcessorContext(stores=[Store("counts", StoreKind.KEY_VALUE, STRING, LONG)])
    processor = Counts()
    processor.init(context)
    processor.process(Record("a", "x", 7))
    assert [each.record.value for each in context.forwarded()] == ["1"]

It keeps what the processor forwards and schedules; a test calls punctuations itself. Times stay as a test sets them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_streams.kernel.processor import Forward, ProcessorContext, PunctuationType, TaskState
from broker_streams.kernel.settings import TaskSettings
from broker_streams.kernel.stores.factory import open_stores
from broker_streams.plan.stores import Store
from broker_streams.records import Headers, Record, RecordMetadata
from broker_streams.registry.opening import open_registry
from broker_streams.serdes.schemas.binding import with_registry


class CapturedForward(NamedTuple):
    """A record that was forwarded; `child` None: to all children."""

    record: Record
    child: str | None = None


@dataclass
class CapturedPunctuation:
    """A punctuation that was scheduled. A test calls `callback(time_ms)`."""

    interval_ms: int
    kind: PunctuationType
    callback: Callable[[int], None] = field(repr=False)
    start_ms: int | None = None
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True


class MockProcessorContext(ProcessorContext):
    """`config` has Kafka's names of settings; its default serdes are those of stores without serdes."""

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        stores: Iterable[Store] = (),
        task_id: tuple[int, int] = (0, 0),
    ) -> None:
        given = {"application.id": "mock-processor-context", **(config or {})}
        settings = TaskSettings.of(given, open_registry(given))
        state = TaskState(settings.application_id, task_id)
        # Changes of stores: store, key, value, timestamp, headers.
        self.changes: list[tuple[str, bytes, bytes | None, int, Headers]] = []
        self.punctuations: list[CapturedPunctuation] = []
        self.committed = False
        self._forwarded: list[CapturedForward] = []

        def changed(*change: Any) -> None:
            self.changes.append(change)

        # Rows go to the store at once: a cache would keep changes back until a commit, which does not come.
        bound = with_registry(tuple(stores), settings.registry)
        opened = open_stores(bound, state, changed, settings.key_serde, settings.value_serde, 0)
        super().__init__("mock-processor", state, {}, opened, self._capture_schedule, self._capture_commit)
        self.forward_all = self._capture

    def _capture(self, record: Record) -> None:
        self._forwarded.append(CapturedForward(record))

    def child(self, name: str) -> Forward:
        return lambda record: self._forwarded.append(CapturedForward(record, name))

    def _capture_schedule(
        self, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None], start_ms: int | None
    ) -> CapturedPunctuation:
        found = CapturedPunctuation(interval_ms, kind, callback, start_ms)
        self.punctuations.append(found)
        return found

    def _capture_commit(self) -> None:
        self.committed = True

    def forwarded(self, child: str | None = None) -> list[CapturedForward]:
        """All that was forwarded; with `child`, what that child gets."""
        return [each for each in self._forwarded if child is None or each.child in (None, child)]

    def reset_forwards(self) -> None:
        self._forwarded.clear()

    def reset_commit(self) -> None:
        self.committed = False

    def set_record_metadata(self, topic: str, partition: int, offset: int) -> None:
        self.task.metadata = RecordMetadata(topic, partition, offset)

    def set_current_system_time_ms(self, time_ms: int) -> None:
        self.task.system_time_ms = time_ms

    def set_current_stream_time_ms(self, time_ms: int) -> None:
        self.task.stream_time_ms = time_ms
