"""From records of the two topics to rows of the tables: pure functions on DataFrames."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, MapType, StructType

from broker_cy.metrics import events, sample
from spark_analytics.schema import SAMPLE_JSON, TABLES, json_of, struct_of, time_name

# Which tables each topic fills.
SAMPLE_TABLES = ("samples", "api_phases", "topic_rates")
EVENT_TABLES = ("commits", "rebalances", "moves", "triggers", "events")
# The head of an event, of whatever type.
_HEAD = "type STRING, version INT, time_ms BIGINT, broker INT"
# Lists of a rebalance that are tables.
_LISTS = ("moves", "triggers")


def samples_of(records: DataFrame) -> DataFrame:
    """Return the samples of records of `__broker_metrics` (`value` binary); those of other versions, and values that
    are no samples, are left out.
    """
    found = records.select(F.from_json(F.col("value").cast("string"), SAMPLE_JSON).alias("s"))
    return found.where((F.col("s.version") == sample.VERSION) & F.col("s.time_ms").isNotNull())


def events_of(records: DataFrame) -> DataFrame:
    """Return the records of `__cluster_events` (`key` and `value` binary) with the head of their events as `head`;
    values that are no events, and versions that are not known, are left out.
    """
    text = F.col("value").cast("string")
    found = records.select(
        F.col("key").cast("string").alias("key"), text.alias("value"), F.from_json(text, _HEAD).alias("head")
    )
    known = [
        (F.col("head.type") == name) & (F.col("head.version") == kind.VERSION) for name, kind in events.EVENTS.items()
    ]
    is_known = known[0]
    for each in known[1:]:
        is_known = is_known | each
    return found.where(is_known & F.col("head.time_ms").isNotNull())


def table_of(name: str, source: DataFrame, cluster: str) -> DataFrame:
    """Return the rows of a table from `samples_of` or `events_of` of its topic."""
    if name in SAMPLE_TABLES:
        found = _SAMPLE_ROWS[name](source)
    elif name == "events":
        found = _all_events(source)
    else:
        found = _parts_of_events(name, source)
    found = found.withColumn("cluster", F.lit(cluster)).withColumn("day", F.to_date("at"))
    return found.select(*(F.col(each.name).cast(each.dataType) for each in TABLES[name].fields))


def _at(milliseconds: str) -> Column:
    return F.timestamp_millis(F.col(milliseconds))


def _whole(column: str, name: str, kind: DataType) -> Column:
    """A number that JSON omits is 0, and a map is empty."""
    if isinstance(kind, StructType):
        parts = [_whole(f"{column}.{each.name}", each.name, each.dataType) for each in kind.fields]
        return F.struct(*parts).alias(name)
    nothing = F.from_json(F.lit("{}"), kind.simpleString()) if isinstance(kind, MapType) else F.lit(0)
    return F.coalesce(F.col(column), nothing).alias(name)


def _counts(struct: str, table: str) -> list[Column]:
    """Return the fields of a struct that are columns of a table."""
    columns = {each.name: each.dataType for each in TABLES[table].fields}
    kind = {"a": struct_of(sample.Api), "p": struct_of(sample.Times), "t": struct_of(sample.Topic)}[struct]
    names = [each.name for each in kind.fields if each.name in columns]
    return [_whole(f"{struct}.{name}", name, columns[name]) for name in names]


def _interval() -> Column:
    return F.coalesce(F.col("s.interval_ms"), F.lit(0)).alias("interval_ms")


def _sample_head() -> list[Column]:
    return [F.col("s.broker").cast(IntegerType()).alias("broker"), _at("s.time_ms").alias("at")]


def _samples(source: DataFrame) -> DataFrame:
    wanted = [each for each in TABLES["samples"].fields if each.name not in ("cluster", "broker", "at", "day")]
    return source.select(*_sample_head(), *(_whole(f"s.{each.name}", each.name, each.dataType) for each in wanted))


def _api_phases(source: DataFrame) -> DataFrame:
    apis = source.select(*_sample_head(), _interval(), F.explode("s.apis").alias("api", "a"))
    phases = apis.select("*", F.explode_outer("a.phases").alias("phase", "p"))
    head = ("broker", "at", "interval_ms", "api", "phase")
    return phases.select(*head, *_counts("a", "api_phases"), *_counts("p", "api_phases"))


def _topic_rates(source: DataFrame) -> DataFrame:
    topics = source.select(*_sample_head(), _interval(), F.explode("s.topics").alias("topic", "t"))
    return topics.select("broker", "at", "interval_ms", "topic", *_counts("t", "topic_rates"))


_SAMPLE_ROWS = {"samples": _samples, "api_phases": _api_phases, "topic_rates": _topic_rates}


def _event_head() -> list[Column]:
    return [F.col("head.broker").alias("broker"), _at("head.time_ms").alias("at")]


def _all_events(source: DataFrame) -> DataFrame:
    found = source.where(F.col("head.type") != events.Commits.TYPE)
    return found.select(*_event_head(), F.col("head.type").alias("type"), "key", "value")


def _parts_of_events(name: str, source: DataFrame) -> DataFrame:
    """Return the rows of `commits`, `rebalances`, `moves` or `triggers`."""
    kind: type[events.Event] = events.Commits if name == "commits" else events.Rebalance
    of = source.where(F.col("head.type") == kind.TYPE)
    event = of.select(*_event_head(), F.from_json("value", json_of(kind)).alias("e"))
    if name == "rebalances":
        return event.select(
            "broker",
            "at",
            *_fields("e", json_of(kind).fieldNames(), {*_LISTS, "type", "version", "time_ms", "broker"}),
        )
    if name == "commits":
        rows = event.select("broker", "at", F.col("e.group").alias("group"), F.explode("e.offsets").alias("o"))
        return rows.select("broker", "at", "group", *_fields("o", _names(rows), set()))
    rows = event.select(
        "broker", "at", F.col("e.group").alias("group"), F.col("e.generation").alias("generation"),
        F.explode(f"e.{name}").alias("o"),
    )  # fmt: skip
    return rows.select("broker", "at", "group", "generation", *_fields("o", _names(rows), set()))


def _names(rows: DataFrame) -> list[str]:
    """Return the fields of the struct `o`."""
    return rows.select("o.*").columns


def _fields(struct: str, names: list[str], without: set[str]) -> list[Column]:
    """Return the fields of a struct as columns of a table: a time becomes a timestamp, and -1, which is none, null."""
    found = []
    for name in names:
        if name in without:
            continue
        column = F.col(f"{struct}.{name}")
        if time_name(name) != name:
            column = F.when(column >= 0, F.timestamp_millis(column))
        found.append(column.alias(time_name(name)))
    return found
