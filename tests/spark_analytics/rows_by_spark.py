"""The rows of the two topics' records from Spark's own JSON parser: an oracle for `spark_analytics.rows`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, IntegerType, LongType, MapType, StringType, StructField, StructType

from broker_cy.metrics import events, sample
from spark_analytics.schema import SAMPLE_JSON, TABLES, json_of, struct_of, time_name

# The tables that each topic fills.
SAMPLE_TABLES = ("samples", "api_phases", "topic_rates")
EVENT_TABLES = ("commits", "rebalances", "moves", "triggers", "events")
# The head of an event, of whatever type.
_HEAD = StructType([
    StructField("type", StringType()),
    StructField("version", LongType()),
    StructField("time_ms", LongType()),
    StructField("broker", LongType()),
])  # fmt: skip
# Lists of a rebalance that are tables.
_LISTS = ("moves", "triggers")


def samples_of(records: DataFrame) -> DataFrame:
    """Return the samples of records of `__broker_metrics` (`value` binary) as `s`, with null fields for a value that is
    not a sample. Nothing is filtered yet: Spark would parse each value a second time for that.
    """
    return records.select(F.from_json(F.col("value").cast("string"), SAMPLE_JSON).alias("s"))


def events_of(records: DataFrame) -> DataFrame:
    """Return the records of `__cluster_events` (`key` and `value` binary) with the head of their events as `head`; all
    its fields are null for a value that is not an event. Commits (nearly all events) have their `group` and `offsets`;
    other events have their `key` and `value`. Nothing is filtered yet, as in `samples_of`.
    """
    text = F.col("value").cast("string")
    # Each type of event begins with a distinct text, so that a value is parsed only once.
    is_commits = text.startswith(F.lit(events.prefix_of(events.Commits).decode()))
    parsed = records.select(
        F.when(is_commits, F.from_json(text, json_of(events.Commits))).alias("commits"),
        F.when(~is_commits, F.col("key").cast("string")).alias("key"),
        F.when(~is_commits, text).alias("value"),
    )
    commits = F.struct(*(F.col(f"commits.{name}").alias(name) for name in ("type", "version", "time_ms", "broker")))
    return parsed.select(
        F.when(F.col("value").isNull(), commits).otherwise(F.from_json("value", _HEAD)).alias("head"),
        F.col("commits.group").alias("group"),
        F.col("commits.offsets").alias("offsets"),
        "key",
        "value",
    )


def table_of(name: str, source: DataFrame, cluster: str) -> DataFrame:
    """Return the rows of a table from `samples_of` or `events_of` of its topic, without unknown versions and without
    values that are neither samples nor events.
    """
    if name in SAMPLE_TABLES:
        known = source.where((F.col("s.version") == sample.VERSION) & F.col("s.time_ms").isNotNull())
        found = _SAMPLE_ROWS[name](known)
    elif name == "events":
        found = _all_events(source)
    elif name == "commits":
        found = _commits(source)
    else:
        found = _parts_of_rebalances(name, source)
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
    # The JSON omits the id of node 0, like every value that is 0.
    broker = F.coalesce(F.col("s.broker"), F.lit(0)).cast(IntegerType())
    return [broker.alias("broker"), _at("s.time_ms").alias("at")]


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
    return [F.col("head.broker").cast(IntegerType()).alias("broker"), _at("head.time_ms").alias("at")]


def _of(source: DataFrame, *kinds: type[events.Event]) -> DataFrame:
    """Return the events of some types, in the known version."""
    is_one = F.lit(False)
    for kind in kinds:
        is_one = is_one | ((F.col("head.type") == kind.TYPE) & (F.col("head.version") == kind.VERSION))
    return source.where(is_one & F.col("head.time_ms").isNotNull())


def _all_events(source: DataFrame) -> DataFrame:
    found = _of(source, *(kind for kind in events.EVENTS.values() if kind is not events.Commits))
    return found.select(*_event_head(), F.col("head.type").alias("type"), "key", "value")


def _commits(source: DataFrame) -> DataFrame:
    rows = _of(source, events.Commits).select(*_event_head(), "group", F.explode("offsets").alias("o"))
    return rows.select("broker", "at", "group", *_fields("o", _names(rows), set()))


def _parts_of_rebalances(name: str, source: DataFrame) -> DataFrame:
    """Return the rows of `rebalances`, `moves` or `triggers`."""
    json = json_of(events.Rebalance)
    event = _of(source, events.Rebalance).select(*_event_head(), F.from_json("value", json).alias("e"))
    if name == "rebalances":
        of_head = {*_LISTS, "type", "version", "time_ms", "broker"}
        return event.select("broker", "at", *_fields("e", json.fieldNames(), of_head))
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
