"""The tables of a lake, and the JSON of events and samples, as Spark types. Both are generated from the dataclasses of
`broker_cy.metrics.events` and `broker_cy.metrics.sample`, so that a new field there is a column here.

Each table has the cluster's name, the node id of the broker that wrote the record (`broker`), and its time (`at`), and
is stored by `day`. Times of events end in `_at` here, where the JSON has ms since 1970 and a name that ends in `_ms`:

    samples      one row for each sample of a broker: the fields of `Sample`, without those of the next two tables, and
                 without connections and the use of quotas, because a sample has only some of them
    api_phases   one row for each API, and phase of its requests, of a sample: the fields of `Api` and `Times`
    topic_rates  one row for each topic of a sample: the fields of `Topic`
    commits      one row for each partition of a `commits` event: `group` and the fields of `Committed`
    rebalances   one row for each `rebalance` event, without its lists
    moves        one row for each of its `moves`, with `group` and `generation`
    triggers     one row for each of its `triggers`, with `group` and `generation`
    events       every event but commits, as JSON: `type`, `key`, `value`

A field that JSON omits is 0 or empty in samples. A column that an old lake does not have is null.
"""

from __future__ import annotations

import types
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from broker_cy.metrics import events, sample

_SCALARS: dict[Any, DataType] = {
    int: LongType(),
    float: DoubleType(),
    str: StringType(),
    bool: BooleanType(),
}
_HEAD = (
    StructField("cluster", StringType()),
    StructField("broker", IntegerType()),
    StructField("at", TimestampType()),
)
_DAY = StructField("day", DateType())
# Fields of samples that are rows of other tables, or of no table.
SAMPLE_PARTS = ("version", "time_ms", "broker", "apis", "topics", "busy", "quotas")


def type_of(annotation: Any) -> DataType:
    """Return the Spark type of a field's annotation. Raises TypeError for an annotation without one."""
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if is_dataclass(annotation):
        return struct_of(annotation)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        (known,) = (each for each in arguments if each is not type(None))
        return type_of(known)
    if origin in (list, tuple):
        return ArrayType(type_of(arguments[0]))
    if origin is dict:
        return MapType(StringType(), type_of(arguments[1]))
    raise TypeError(f"no Spark type for {annotation!r}")


def struct_of(kind: Any) -> StructType:
    """Return the Spark type of a dataclass."""
    hints = get_type_hints(kind)
    return StructType([StructField(each.name, type_of(hints[each.name])) for each in fields(kind)])


def json_of(kind: type[events.Event]) -> StructType:
    """Return the Spark type of an event's JSON, with its head."""
    head = [StructField("type", StringType())]
    head += [StructField(name, LongType()) for name in ("version", "time_ms", "broker")]
    return StructType([*head, *struct_of(kind).fields])


SAMPLE_JSON = struct_of(sample.Sample)


def _timed(struct: StructType, *without: str) -> list[StructField]:
    """Return the fields as columns: times are timestamps."""
    found = []
    for each in struct.fields:
        if each.name in without:
            continue
        name = time_name(each.name)
        found.append(StructField(name, TimestampType()) if name != each.name else each)
    return found


def time_name(name: str) -> str:
    """Return the name of the column of an event's field: a time has another name, because it has another type."""
    return {"commit_ms": "commit_at", "record_time_ms": "record_at", "started_ms": "started_at"}.get(name, name)


def _table(*columns: StructField) -> StructType:
    return StructType([*_HEAD, *columns, _DAY])


_GROUP = StructField("group", StringType())
_REBALANCE = (_GROUP, StructField("generation", LongType()))
_INTERVAL = StructField("interval_ms", LongType())
_APIS = struct_of(sample.Api).fields
TABLES: dict[str, StructType] = {
    "samples": _table(*(each for each in SAMPLE_JSON.fields if each.name not in SAMPLE_PARTS)),
    "api_phases": _table(
        _INTERVAL,
        StructField("api", StringType()),
        *(each for each in _APIS if each.name != "phases"),
        StructField("phase", StringType()),
        *struct_of(sample.Times).fields,
    ),
    "topic_rates": _table(_INTERVAL, StructField("topic", StringType()), *struct_of(sample.Topic).fields),
    "commits": _table(_GROUP, *_timed(struct_of(events.Committed))),
    "rebalances": _table(*_timed(struct_of(events.Rebalance), "triggers", "moves")),
    "moves": _table(*_REBALANCE, *_timed(struct_of(events.Move))),
    "triggers": _table(*_REBALANCE, *_timed(struct_of(events.Trigger))),
    "events": _table(*(StructField(name, StringType()) for name in ("type", "key", "value"))),
}
