"""From records of the two topics to rows of the tables: pure functions on Arrow arrays.

Values are JSON (`broker_cy.metrics.events` and `sample`). Nearly all events are commits, which Arrow parses many at a
time; of the others, and of samples, each value is parsed alone. A value that is neither, has an unknown version or
type, or has a field of another type, is left out and counted: it never ends an ingest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import MapType, StructType

from broker_cy.metrics import events, sample
from spark_analytics.schema import SAMPLE_JSON, TABLES, json_of, struct_of, time_name

# Without the name of the cluster, which is in the name of a folder.
SCHEMAS: dict[str, pa.Schema] = {
    name: to_arrow_schema(StructType([each for each in columns.fields if each.name != "cluster"]), timezone="UTC")
    for name, columns in TABLES.items()
}
_COMMITS = to_arrow_schema(json_of(events.Commits), timezone="UTC")
_REBALANCE = to_arrow_schema(json_of(events.Rebalance), timezone="UTC")
_HEAD = ("type", "version", "time_ms", "broker")
# Lists of a rebalance that are tables.
_LISTS = ("moves", "triggers")
# Exceptions for a value of another shape in the code below.
_BAD = (
    pa.ArrowInvalid,
    pa.ArrowTypeError,
    pa.ArrowNotImplementedError,
    TypeError,
    AttributeError,
    KeyError,
    ValueError,
)

Columns = dict[str, pa.Array]


class Rows(NamedTuple):
    """Rows by table, with the columns of SCHEMAS, and the number of values left out."""

    tables: dict[str, pa.Table]
    left_out: int


def samples_of(values: pa.BinaryArray) -> Rows:
    """Return the rows of the values of `__broker_metrics`."""
    found = [each for each in map(_sample, values.to_pylist()) if each is not None]
    made = _tolerant(_sample_tables, found)
    return Rows(made.tables, made.left_out + len(values) - len(found))


def events_of(keys: pa.BinaryArray, values: pa.BinaryArray) -> Rows:
    """Return the rows of the keys and values of `__cluster_events`."""
    # Each type of event begins with its own text, as brokers write it.
    is_commits = pc.fill_null(pc.starts_with(values, events.prefix_of(events.Commits)), False)
    commits = values.filter(is_commits)
    others = pc.invert(is_commits)
    rare, rebalances, unusual, left_out = _rare(keys.filter(others), values.filter(others))
    parts = [
        _tolerant(_commit_tables, commits),
        _tolerant(_commit_tables, pa.array(unusual, pa.binary())),
        _tolerant(_rebalance_tables, pa.array(rebalances, pa.binary())),
        _tolerant(_event_tables, rare),
    ]
    tables = _merged([each.tables for each in parts])
    return Rows(tables, left_out + sum(each.left_out for each in parts))


def _tolerant(convert: Callable[[Any], dict[str, pa.Table]], values: Any) -> Rows:
    """Convert values, or, if they cannot be converted together, each half: so one bad value costs a few conversions,
    and only that value is left out.
    """
    if not len(values):
        return Rows({}, 0)
    try:
        return Rows(convert(values), 0)
    except _BAD:
        if len(values) == 1:
            return Rows({}, 1)
    half = len(values) // 2
    first, second = _tolerant(convert, values[:half]), _tolerant(convert, values[half:])
    return Rows(_merged([first.tables, second.tables]), first.left_out + second.left_out)


def _merged(parts: Sequence[dict[str, pa.Table]]) -> dict[str, pa.Table]:
    names = dict.fromkeys(name for each in parts for name in each)
    return {name: pa.concat_tables([each[name] for each in parts if name in each]) for name in names}


# --- events


def _rare(keys: pa.BinaryArray, values: pa.BinaryArray) -> tuple[list[dict[str, Any]], list[bytes], list[bytes], int]:
    """Return the rows of `events`, the values of rebalances, those of commits that do not begin as usual, and the
    number of all other values.
    """
    rare: list[dict[str, Any]] = []
    rebalances: list[bytes] = []
    unusual: list[bytes] = []
    left_out = 0
    for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True):
        head = _object(value)
        kind = events.EVENTS.get(head["type"]) if head is not None and isinstance(head.get("type"), str) else None
        if head is None or kind is None or head.get("version") != kind.VERSION or not _is_whole(head.get("time_ms")):
            left_out += 1
            continue
        if kind is events.Commits:
            unusual.append(value)
            continue
        if kind is events.Rebalance:
            rebalances.append(value)
        text = {"key": None if key is None else key.decode(errors="replace"), "value": value.decode(errors="replace")}
        rare.append({"broker": head.get("broker"), "time_ms": head["time_ms"], "type": kind.TYPE, **text})
    return rare, rebalances, unusual, left_out


def _object(value: bytes | None) -> dict[str, Any] | None:
    """Return the value as an object; None if it is not one."""
    try:
        found = orjson.loads(value or b"")
    except orjson.JSONDecodeError:
        # The names of clients may contain invalid UTF-8 (`surrogatepass`).
        try:
            found = orjson.loads((value or b"").decode(errors="replace"))
        except orjson.JSONDecodeError:
            return None
    return found if isinstance(found, dict) else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _parsed(values: pa.BinaryArray, schema: pa.Schema, kind: type[events.Event]) -> pa.Table:
    """Parse values of one type together; raises ArrowInvalid for one that is not of this type, version and schema."""
    text = values.cast(pa.string(), safe=False)
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        text = pa.array([each.decode(errors="replace") for each in values.to_pylist()], pa.string())
    lines = pa.ListArray.from_arrays(pa.array([0, len(text)], pa.int32()), text)
    joined = pc.binary_join(lines, "\n")[0].as_buffer()
    found = arrow_json.read_json(
        pa.BufferReader(joined),
        # One block: a value may have a line break within it.
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=joined.size + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    if len(found) != len(values):
        raise pa.ArrowInvalid("a value that is several objects, or none")
    is_known = pc.and_(pc.equal(found["type"], kind.TYPE), pc.equal(found["version"], kind.VERSION))
    if not pc.all(pc.fill_null(pc.and_(is_known, pc.is_valid(found["time_ms"])), False)).as_py():
        raise pa.ArrowInvalid("a value of another type or version, or without a time")
    return found.combine_chunks()


def _commit_tables(values: pa.BinaryArray) -> dict[str, pa.Table]:
    found = _parsed(values, _COMMITS, events.Commits)
    return {"commits": _exploded("commits", found, "offsets", ("group",))}


def _rebalance_tables(values: pa.BinaryArray) -> dict[str, pa.Table]:
    found = _parsed(values, _REBALANCE, events.Rebalance)
    columns = {name: _array(found[name]) for name in found.column_names if name not in (*_HEAD, *_LISTS)}
    tables = {"rebalances": _table("rebalances", {**_event_head(found), **_timed(columns)})}
    return tables | {name: _exploded(name, found, name, ("group", "generation")) for name in _LISTS}


def _event_tables(rows: list[dict[str, Any]]) -> dict[str, pa.Table]:
    columns = {name: pa.array([each[name] for each in rows], pa.string()) for name in ("type", "key", "value")}
    times, brokers = (pa.array([each[name] for each in rows], pa.int64()) for name in ("time_ms", "broker"))
    return {"events": _table("events", {**_columns_of_head(times, brokers), **columns})}


def _exploded(table: str, found: pa.Table, field: str, of_event: Sequence[str]) -> pa.Table:
    """Return a row for each element of a list of events, with some fields of its event."""
    lists = _array(found[field])
    parents = pc.list_parent_indices(lists)
    events_columns = {**_event_head(found), **{name: _array(found[name]) for name in of_event}}
    columns = {name: each.take(parents) for name, each in events_columns.items()}
    elements = lists.flatten()
    names = [each.name for each in elements.type]
    columns |= _timed(dict(zip(names, elements.flatten(), strict=True)))
    return _table(table, columns)


def _event_head(found: pa.Table) -> Columns:
    return _columns_of_head(_array(found["time_ms"]), _array(found["broker"]))


def _timed(columns: Columns) -> Columns:
    """Return the fields of an event as columns of a table: a time becomes a timestamp, and -1, which means none,
    becomes null.
    """
    found = {}
    for name, column in columns.items():
        if time_name(name) != name:
            column = _at(pc.if_else(pc.greater_equal(column, 0), column, None))
        found[time_name(name)] = column
    return found


# --- samples

_TIMES = to_arrow_schema(struct_of(sample.Times), timezone="UTC")
_API = to_arrow_schema(StructType([each for each in struct_of(sample.Api) if each.name != "phases"]), timezone="UTC")
_TOPIC = to_arrow_schema(struct_of(sample.Topic), timezone="UTC")
# Fields that are columns of `samples`, as in JSON, and those of them that are maps.
_SAMPLE = [each for each in SAMPLE_JSON.fields if each.name in SCHEMAS["samples"].names and each.name != "broker"]
_MAPS = [each.name for each in _SAMPLE if isinstance(each.dataType, MapType)]
_SAMPLE_FIELDS = pa.struct(to_arrow_schema(StructType(_SAMPLE), timezone="UTC"))


def _sample(value: bytes | None) -> dict[str, Any] | None:
    """Return the object of a sample; None if the value is not a sample, or has an unknown version."""
    found = _object(value)
    if found is None or found.get("version") != sample.VERSION or not _is_whole(found.get("time_ms")):
        return None
    return found


def _sample_tables(found: list[dict[str, Any]]) -> dict[str, pa.Table]:
    times = pa.array([each["time_ms"] for each in found], pa.int64())
    # JSON omits it for node 0, like everything that is 0.
    brokers = _filled(pa.array([each.get("broker") for each in found], pa.int64()))
    head = _columns_of_head(times, brokers)
    whole = [{**each, **{name: _items(each.get(name)) for name in _MAPS}} for each in found]
    tables = {"samples": _table("samples", {**head, **_fields(whole, _SAMPLE_FIELDS)})}
    head["interval_ms"] = _filled(pa.array([each.get("interval_ms") for each in found], pa.int64()))
    return tables | {"api_phases": _api_phases(found, head), "topic_rates": _topic_rates(found, head)}


def _api_phases(found: list[dict[str, Any]], head: Columns) -> pa.Table:
    """Return a row for each API and phase; an API without phases has one row with the phase null."""
    of_sample, names, apis = _of_maps(found, "apis")
    of_api: list[int] = []
    phases: list[str | None] = []
    times: list[dict[str, Any] | None] = []
    for place, api in enumerate(apis):
        for phase, each in _items(api.get("phases")) or [(None, None)]:
            of_api.append(place)
            phases.append(phase)
            times.append(each)
    whole = [{**each, "errors": _items(each.get("errors"))} for each in apis]
    columns = _taken(head, of_sample) | {"api": pa.array(names, pa.string())} | _fields(whole, pa.struct(_API))
    columns = _taken(columns, of_api) | {"phase": pa.array(phases, pa.string())} | _fields(times, pa.struct(_TIMES))
    return _table("api_phases", columns)


def _topic_rates(found: list[dict[str, Any]], head: Columns) -> pa.Table:
    of_sample, names, topics = _of_maps(found, "topics")
    columns = _taken(head, of_sample) | {"topic": pa.array(names, pa.string())} | _fields(topics, pa.struct(_TOPIC))
    return _table("topic_rates", columns)


def _of_maps(found: list[dict[str, Any]], field: str) -> tuple[list[int], list[str], list[dict[str, Any]]]:
    """Return the places of the samples, the keys and the values of a map of each sample."""
    places: list[int] = []
    keys: list[str] = []
    values: list[dict[str, Any]] = []
    for place, each in enumerate(found):
        if of_sample := each.get(field):
            places += [place] * len(of_sample)
            keys += of_sample.keys()
            values += of_sample.values()
    return places, keys, values


def _items(found: dict[str, Any] | None) -> list[tuple[str | None, Any]]:
    """Return a map in Arrow's form; JSON omits an empty one."""
    return list(found.items()) if found else []


def _fields(rows: Sequence[dict[str, Any] | None], kind: pa.StructType) -> Columns:
    """Return the fields of structs as columns. Values that JSON omits are 0."""
    found = pa.array(rows, kind)
    return {each.name: _filled(column) for each, column in zip(kind, found.flatten(), strict=True)}


def _filled(column: pa.Array) -> pa.Array:
    """Return a column with 0 for each number that is null."""
    if pa.types.is_struct(column.type):
        children = [_filled(each) for each in column.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(column.type))
    return pc.fill_null(column, 0) if pa.types.is_integer(column.type) else column


def _taken(columns: Columns, places: list[int]) -> Columns:
    chosen = pa.array(places, pa.int64())
    return {name: each.take(chosen) for name, each in columns.items()}


# --- tables


def _columns_of_head(times_ms: pa.Array, brokers: pa.Array) -> Columns:
    return {"broker": brokers.cast(pa.int32()), "at": _at(times_ms)}


def _at(milliseconds: pa.Array) -> pa.Array:
    return milliseconds.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))


def _array(column: pa.ChunkedArray) -> pa.Array:
    """Return the only chunk of a column."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _table(name: str, columns: Columns) -> pa.Table:
    """Return a table with the columns of its schema."""
    schema = SCHEMAS[name]
    whole = {**columns, "day": columns["at"].cast(pa.date32())}
    return pa.table([whole[each.name].cast(each.type) for each in schema], schema=schema)
