"""Sources: records of a topic as rows with pseudo columns and key columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker_sql.analysis import serdes
from broker_sql.analysis.names import WINDOW_BOUNDS, Labelled, Layout
from broker_sql.catalog import SourceInfo
from broker_sql.planner import lineage
from broker_sql.planner.stage import PlanContext, Row, Stage, key_columns
from broker_sql.planner.timestamps import extractor
from broker_sql.types import Column
from broker_streams.dsl.materialized import Materialized
from broker_streams.kernel.processor import Processor, ProcessorContext
from broker_streams.records import NO_HEADERS, Headers, Record, Windowed

HeaderValues = Callable[[Headers], Row]


def source_stage(source: Labelled, context: PlanContext, name: str, prefix: str = "", is_stored: bool = True) -> Stage:
    """`name` is ksqlDB's name of the place in the query: KsqlTopic, KafkaTopic_Left. `prefix` comes in front of
    names of columns. `is_stored` False: a table keeps no rows here.
    """
    info = source.info
    settings = context.settings
    key_serde = serdes.source_key_serde(info)
    value_serde = serdes.source_value_serde(info)
    options: dict[str, Any] = {
        "key": key_serde,
        "value": value_serde,
        "timestamp_extractor": extractor(info, settings),
    }
    make = RowMaker(info, source.has_places)
    builder = context.builder
    if not info.is_table:
        made = lineage.declare(lambda: _AddColumns(make), value=_origins(source, prefix))
        flow: Any = builder.stream(info.topic, **options).process_values(made)
    else:
        table = builder.table(info.topic, **options)
        stored = source.layout.columns[: len(info.schema.value)] + make.place_columns
        store = (
            None
            if not is_stored
            else Materialized(
                f"{name}-Reduce",
                key=serdes.key_serde(info.key_format, info.schema.key, info.window),
                value=serdes.row_serde(info.value_format, Layout(stored)),
            )
        )
        places = lineage.declare(lambda: _AddPlaces(make), value={lineage.EVERY: "value"})
        flow = table.transform_values(places, materialized=store)
        made = lineage.declare(lambda: _AddTimesAndKeys(make), value=_origins(source, prefix))
        flow = flow.transform_values(made)
    layout = source.layout.renamed(prefix)
    key = key_columns([(prefix + each.name, each.type) for each in info.schema.key])
    return Stage(flow, layout, key, info.key_format, info.value_format, info.window, context=context)


def _origins(source: Labelled, prefix: str) -> dict[str, Any]:
    """The lineage of the columns of a row."""
    keys = {each.name for each in source.info.schema.key}
    values = {each.name for each in source.info.schema.value}
    found: dict[str, Any] = {}
    for name in source.layout.index:
        if name in keys or name in values:
            found[prefix + name] = lineage.Copied(f"{'key' if name in keys else 'value'}.{name}")
        else:
            found[prefix + name] = ["key.window"] if name in WINDOW_BOUNDS else []
    return found


class RowMaker:
    """The parts of a row that do not come from the value of a record."""

    def __init__(self, info: SourceInfo, has_places: bool) -> None:
        self.values = len(info.schema.value)
        self._has_places = has_places
        self._is_windowed = info.window is not None
        self.no_keys = (None,) * len(info.schema.key)
        self.is_plain = has_places and not self._is_windowed and not info.schema.headers
        self.headers = _header_values(info.schema.headers)
        places = dict(Labelled("", info, has_places).layout.columns)
        names = ("ROWPARTITION", "ROWOFFSET") if has_places else ()
        header_columns = tuple((each.name, each.type) for each in info.schema.headers)
        self.place_columns = (*header_columns, *((name, places[name]) for name in names))

    def places(self, metadata: Any) -> Row:
        if not self._has_places:
            return ()
        return (None, None) if metadata is None else (metadata.partition, metadata.offset)

    def keys(self, key: Any) -> Row:
        """Bounds of the window, and the columns of the key."""
        if not self._is_windowed:
            return self.no_keys if key is None else key
        if not isinstance(key, Windowed):
            return (None, None, *self.no_keys)
        return (key.window.start_ms, key.window.end_ms, *(self.no_keys if key.key is None else key.key))


def _header_values(columns: tuple[Column, ...]) -> HeaderValues:
    names = [each.header for each in columns]
    if not names:
        return lambda headers: ()

    def values(headers: Headers) -> Row:
        last = dict(headers)
        every = [{"KEY": name, "VALUE": value} for name, value in headers]
        return tuple(every if name is None else last.get(name) for name in names)

    return values


class _AddColumns(Processor):
    """For streams."""

    def __init__(self, make: RowMaker) -> None:
        self._make = make

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._forward = context.forward_all

    def process(self, record: Record) -> None:
        value = record.value
        if value is None:
            self._forward(record)
            return
        make, metadata = self._make, self.context.task.metadata
        if make.is_plain and metadata is not None:
            # Most streams; it saves a call for each part.
            key = record.key
            row = (*value, record.timestamp, metadata[1], metadata[2], *(make.no_keys if key is None else key))
        else:
            row = (
                *value,
                *make.headers(record.headers or NO_HEADERS),
                record.timestamp,
                *make.places(metadata),
                *make.keys(record.key),
            )
        self._forward(record.with_value(row))


class _Transformer:
    def __init__(self, make: RowMaker) -> None:
        self._make = make

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def close(self) -> None:
        pass


class _AddPlaces(_Transformer):
    """For tables: what only the record itself knows, which the store keeps."""

    def transform(self, key: Any, value: Row | None) -> Row | None:
        if value is None:
            return None
        context, make = self._context, self._make
        return (*value, *make.headers(context.task.headers or NO_HEADERS), *make.places(context.record_metadata))


class _AddTimesAndKeys(_Transformer):
    """For tables: the rest, which the key and the time of a row of the store give."""

    def __init__(self, make: RowMaker) -> None:
        super().__init__(make)
        self._headers = make.values + len(make.headers(NO_HEADERS))

    def transform(self, key: Any, value: Row | None) -> Row | None:
        if value is None:
            return None
        at = self._headers
        return (*value[:at], self._context.task.timestamp, *value[at:], *self._make.keys(key))
